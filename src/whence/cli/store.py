"""`whence store add|ls|show|...`: the best files of every build-id, kept for everyone."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from whence._base.errors import WrongUse
from whence._base.streams import complain
from whence._base.words import plain
from whence.cli.main import ANSWERED, BROKEN_INPUT, SOME_UNKNOWN
from whence.cli.options import FROM_ENVIRONMENT, add_json_option, gibibytes, store_place
from whence.store.names import is_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from whence.store import Added, Meta, Store
    from whence.store.processes import ProcessFile

UNITS = "KMGT"
DAY_SECONDS = 86400
OWN = "-"
STORE_HELP = "a folder, s3://, gs://, az:// or http(s)://; - or nothing: the user's own"


def configure(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="add|ls|show|wanted|verify|gc|rm|export", required=True)

    def action(name: str, text: str, usage: str) -> ArgumentParser:
        made = actions.add_parser(name, help=text, allow_abbrev=False, formatter_class=parser.formatter_class)
        made.usage = f"whence store {name} {usage}"
        return made

    add = action("add", "add ELF files, folders and packages", "[STORE] PATH... [options]")
    add.add_argument("words", nargs="*", metavar="STORE PATH", help="where to, then files, folders, .deb, .tar or .zip")
    add.add_argument("--by-hash", action="store_true", help="keep files without a build-id, under their SHA-256")
    add.add_argument("--pid", type=int, action="append", metavar="PID", help="what a process has mapped (repeatable)")
    add.add_argument("--core", action="append", metavar="CORE", help="what the process of a core file had mapped")
    add.add_argument("--maps", action="append", metavar="SNAPSHOT", help="what the process of a snapshot had mapped")
    add.add_argument(
        "--sources",
        action="append",
        metavar="DIR",
        help="bundle the source files below DIR that the debug info names (repeatable)",
    )
    add.add_argument("--compress", action="store_true", help="store files packed by zstd where that pays")
    add_layout_options(add, "keep further copies: for gdb, or where Pyroscope looks for archives (repeatable)")
    add_json_option(add, "a JSON object per file")
    ls = action("ls", "the build-ids that are there, with sizes, quality and dates", "[STORE] [options]")
    ls.add_argument("words", nargs="*", metavar="STORE", help=STORE_HELP)
    add_json_option(ls, "a JSON object per build-id")
    show = action("show", "everything known of build-ids", "[STORE] ID... [options]")
    show.add_argument("words", nargs="*", metavar="STORE ID", help="a build-id or a debug id")
    add_json_option(show, "a JSON object per build-id")
    remove = action("rm", "remove build-ids", "[STORE] ID... [options]")
    remove.add_argument("words", nargs="*", metavar="STORE ID", help="a build-id")
    add_json_option(remove, "a JSON object per build-id")
    asked = action("wanted", "build-ids that were asked for and are not there", "[STORE] [options]")
    asked.add_argument("words", nargs="*", metavar="STORE", help=STORE_HELP)
    add_json_option(asked, "a JSON object per build-id")
    check = action("verify", "read everything again: hashes, build-ids, archives; make the index again", "[STORE]")
    check.add_argument("words", nargs="*", metavar="STORE", help=STORE_HELP)
    add_json_option(check, "a JSON object per problem")
    collect = action("gc", "remove what has not been used for long", "[STORE] --keep-days N --max-size GIB")
    collect.add_argument("words", nargs="*", metavar="STORE", help=STORE_HELP)
    collect.add_argument("--keep-days", type=days, metavar="N", help="remove what was not used for N days")
    collect.add_argument(
        "--max-size", type=gibibytes, metavar="GIB", help="remove what was used longest ago until the rest fits"
    )
    collect.add_argument("--dry-run", action="store_true", help="only say what would go")
    add_json_option(collect, "a JSON object per build-id")
    out = action("export", "write the files of build-ids into a folder", "[STORE] ID... -o DIR")
    out.add_argument("words", nargs="*", metavar="STORE ID", help="a build-id")
    out.add_argument("-o", "--output", metavar="DIR", required=True, help="the folder")
    add_layout_options(out, "in this layout (repeatable; default: the store's own)")
    add_json_option(out, "a JSON object per file")


def add_layout_options(parser: ArgumentParser, help: str) -> None:
    parser.add_argument("--layout", action="append", choices=("gdb", "pyroscope"), help=help)
    parser.add_argument("--tenant", metavar="T", help="Pyroscope's tenant (anonymous, where it has none)")


def days(word: str) -> float:
    """A number of days. Raises ValueError, which argparse words."""
    found = float(word)
    if not 0 <= found < 1 << 30:
        raise ValueError(word)
    return found


days.__name__ = "number of days"  # as argparse calls it


def run(options: Namespace) -> int:
    actions = {
        "add": add, "ls": ls, "show": show, "rm": remove, "wanted": wanted, "verify": verify, "gc": gc,
        "export": export,
    }  # fmt: skip
    return actions[options.action](options)


def opened(options: Namespace, *, takes: int) -> tuple[Store, list[str]]:
    """The store, and the other words. It is the first word, where there are more than `takes` and it is no build-id;
    else, and for -, the user's own."""
    from whence.store import Store

    words = list(options.words)
    named = len(words) > takes and (takes or not is_id(words[0].lower()))
    place = words.pop(0) if named else OWN
    return Store(
        store_place(FROM_ENVIRONMENT if place == OWN else place),
        compress=getattr(options, "compress", False),
    ), words


def only_store(options: Namespace) -> Store:
    """The store, of an action that takes no other word."""
    store, words = opened(options, takes=0)
    if words:
        raise WrongUse(f"store {options.action}: one STORE, not {plain(words[0])}, too")
    return store


def store_and_ids(options: Namespace) -> tuple[Store, list[str]]:
    store, words = opened(options, takes=0)
    if not words:
        raise WrongUse(f"store {options.action}: an ID is needed")
    return store, words


def add(options: Namespace) -> int:
    from whence.cli.progress import Progress
    from whence.store.layouts import layout_of

    processes = bool(options.pid or options.core or options.maps)
    store, paths = opened(options, takes=0 if processes else 1)
    if not paths and not processes:
        raise WrongUse(f"store {options.action}: a PATH is needed (whence store add --help)")
    layouts = [layout_of(name, options.tenant or "") for name in options.layout or ()]
    counts: Counter[str] = Counter()

    def report(one: Added) -> None:
        counts[one.outcome] += 1
        progress.what = f"adding: {sum(counts.values())} files"
        if options.json:
            print(json.dumps(one.as_json()), flush=True)
        else:
            name = f"{one.build_id} {one.kind}" if one.kind else one.build_id or "-"
            print(f"{one.outcome:8} {name}  {plain(one.origin)}: {plain(one.why)}", flush=True)

    with store, Progress("adding", quiet=options.json) as progress:
        store.add(
            *paths,
            by_hash=options.by_hash,
            mapped=mapped_by(options),
            layouts=layouts,
            source_folders=options.sources or (),
            report=report,
        )
    if not counts:
        print("whence: no ELF file among them", file=sys.stderr)
        return SOME_UNKNOWN
    if not options.json:
        print(", ".join(f"{count:,} {word}" for word, count in sorted(counts.items())), file=sys.stderr)
    return BROKEN_INPUT if counts["refused"] else SOME_UNKNOWN if counts["busy"] else ANSWERED


def mapped_by(options: Namespace) -> Iterator[ProcessFile]:
    """The files of the processes that the options name."""
    if options.pid or options.core or options.maps:
        from whence.store import processes

        for pid in options.pid or ():
            yield from processes.of_process(pid)
        for path in options.core or ():
            yield from processes.of_core(path)
        for path in options.maps or ():
            yield from processes.of_snapshot(path)


def ls(options: Namespace) -> int:
    store = only_store(options)
    with store:
        rows = store.list()
    if options.json:
        out = [json.dumps(row.as_json()) for row in rows]
    else:
        out = [
            f"{build_id}  {date(added // DAY_SECONDS)}  {size(debuginfo):>8} {size(executable):>8} {size(archive):>8}  "
            f"{quality if quality.isprintable() else plain(quality)}  {name if name.isprintable() else plain(name)}"
            for build_id, _, debuginfo, executable, archive, _, quality, added, name in rows
        ]
        if out:
            out.insert(0, f"{'build-id':{max(len(row[0]) for row in rows)}}  added       debuginfo executable "
                          "archive  quality, name")  # fmt: skip
    if out:
        print("\n".join(out))
    return ANSWERED


def day(seconds: int) -> str:
    """A date, as ISO 8601 has it, in UTC."""
    return date(seconds // DAY_SECONDS)


@cache
def date(number: int) -> str:
    """That of a day, counted from 1970 on."""
    return time.strftime("%Y-%m-%d", time.gmtime(number * DAY_SECONDS)) if number < 1 << 21 else "-"


@lru_cache(1 << 16)
def size(count: int) -> str:
    """Bytes, in short.

    >>> size(0), size(999), size(1_500_000)
    ('-', '999', '1.5M')
    """
    if count < 1000:
        return str(count) if count else "-"
    power = min((len(str(count)) - 1) // 3, len(UNITS))
    return f"{count / 1000**power:.1f}{UNITS[power - 1]}"


def show(options: Namespace) -> int:
    store, words = store_and_ids(options)
    status = ANSWERED
    with store:
        for word in words:
            known = described(store, word)
            if known is None:
                complain(f"{word}: nothing of it in {store.url}")
                status = SOME_UNKNOWN
            elif options.json:
                print(json.dumps(known.as_json()))
            else:
                show_one(known)
    return status


def described(store: Store, word: str) -> Meta | None:
    """What is known of a build-id, or of a debug id."""
    from whence.store.names import DEBUG_ID

    build_id = word.lower()
    if DEBUG_ID.fullmatch(word.upper()):
        build_id = store.build_id_of(word.upper()) or build_id
    return store.find(build_id) if is_id(build_id) else None


def show_one(known: Meta) -> None:
    facts: dict[str, Any] = {
        "build-id": known.build_id, "debug id": known.debug_id, "name": known.name, "machine": known.machine,
        "shared": known.alt, "note": known.note,
    }  # fmt: skip
    for name, value in facts.items():
        if value:
            print(f"{name:10}  {plain(value)}")
    for kind, one in known.files.items():
        about = "" if kind == "lidia" else f", {one.quality}, from {plain(one.origin) or 'unknown'}"
        packed = f" ({one.stored:,} packed)" if one.packing else ""
        print(f"{kind:10}  {one.size:,} bytes{packed}, {day(one.added)}{about}")
        if one.sha256:
            print(f"{'':10}  sha256 {plain(one.sha256)}")


def remove(options: Namespace) -> int:
    store, words = store_and_ids(options)
    status = ANSWERED
    with store:
        for word in words:
            freed = store.remove(word.lower())
            if not freed:
                complain(f"{word}: nothing of it in {store.url}")
                status = SOME_UNKNOWN
            elif options.json:
                print(json.dumps({"build_id": word.lower(), "removed_bytes": freed}))
            else:
                print(f"{word.lower()}: {freed:,} bytes removed")
    return status


def wanted(options: Namespace) -> int:
    store = only_store(options)
    with store:
        found = list(store.wanted())
    for one in found:
        if options.json:
            print(json.dumps(one.as_json()))
        else:
            who = ", ".join(f"{count:,} by {plain(who)}" for who, count in one.asked.items())
            print(f"{one.build_id}  {one.count:>6,} times ({who})  last {day(one.last)}  {one.path}")
    return ANSWERED


def verify(options: Namespace) -> int:
    from whence.cli.progress import Progress
    from whence.store.verify import verify as problems_in

    store = only_store(options)
    read: list[str] = []
    count = 0
    with store, Progress("verifying", quiet=options.json) as progress:

        def report(build_id: str) -> None:
            read.append(build_id)
            progress.what = f"verifying: {len(read):,} build-ids"

        for one in problems_in(store, report):
            count += 1
            if options.json:
                print(json.dumps(one.as_json()), flush=True)
            else:
                print(f"{one.build_id} {one.kind or '-'}: {plain(one.fault)}", flush=True)
        if not store.objects.read_only:
            store.index.rebuild()
    if not options.json:
        print(f"{len(read):,} build-ids read, {count:,} problems", file=sys.stderr)
    return BROKEN_INPUT if count else ANSWERED


def gc(options: Namespace) -> int:
    from whence.store.collecting import Collected, collect

    store = only_store(options)
    if options.keep_days is None and options.max_size is None:
        raise WrongUse(f"store {options.action}: --keep-days or --max-size says what may stay")

    def report(one: Collected) -> None:
        if options.json:
            print(json.dumps(one.as_json()), flush=True)
        else:
            print(f"{one.build_id}  {size(one.size):>8}  last used {day(one.last)}", flush=True)

    most = None if options.max_size is None else int(options.max_size * (1 << 30))
    with store:
        gone = collect(store, keep_days=options.keep_days, max_size=most, dry_run=options.dry_run, report=report)
    if not options.json:
        what = "would go" if options.dry_run else "removed"
        print(f"{len(gone):,} build-ids, {sum(one.size for one in gone):,} bytes {what}", file=sys.stderr)
    return ANSWERED


def export(options: Namespace) -> int:
    from whence.store.layouts import layout_of

    store, words = store_and_ids(options)
    layouts = [layout_of(name, options.tenant or "") for name in options.layout or ()]
    status = ANSWERED
    with store:
        for word in words:
            done = store.export(word.lower(), options.output, layouts)
            if not done:
                complain(f"{word}: nothing of it in {store.url}")
                status = SOME_UNKNOWN
            for path in done:
                print(json.dumps({"build_id": word.lower(), "path": str(path)}) if options.json else plain(path))
    return status
