"""`whence store add|ls|show|...`: the best files of every build-id, shared."""

from __future__ import annotations

import json
import re
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from whence._base.errors import WrongUse
from whence._base.streams import complain
from whence._base.words import counted, plain
from whence.cli.main import ANSWERED, BROKEN_INPUT, SOME_UNKNOWN
from whence.cli.options import FROM_ENVIRONMENT, add_json_option, byte_count, existing_store, gibibytes
from whence.objects.ids import DebugId, same_id
from whence.store.names import ELF_KINDS, code_id_of, is_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from whence.cli.parser import Parser
    from whence.store import Added, Meta, Store
    from whence.store.processes import ProcessFile

UNITS = "KMGT"
DAY_SECONDS = 86400
SIGNATURE_DIGITS = 12
PREFIX = re.compile("[0-9a-f]{6,}")  # of a build-id
INTERMIXED = True
OWN = "-"
STORE_HELP = "a folder, s3://, gs://, az:// or http(s)://; - or nothing: your own"


def configure(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="add|ls|show|wanted|verify|gc|rm|export", required=True)

    def action(name: str, text: str, usage: str) -> ArgumentParser:
        subparser = actions.add_parser(name, help=text, allow_abbrev=False, formatter_class=parser.formatter_class)
        subparser.usage = f"whence store {name} {usage}"
        return subparser

    add = action("add", "add object files, folders and packages", "[STORE] PATH... [options]")
    add.add_argument(
        "words",
        nargs="*",
        metavar="STORE PATH",
        help="the store, then files, folders, .deb, .tar, .zip, or the bucket of a Parca server (s3://, gs://, az://)",
    )
    add.add_argument("--by-hash", action="store_true", help="add files without a build-id under their SHA-256")
    add.add_argument(
        "--pid", type=int, action="append", metavar="PID", help="add the files mapped by a process (repeatable)"
    )
    add.add_argument("--core", action="append", metavar="CORE", help="add the files mapped in a core dump")
    add.add_argument("--maps", action="append", metavar="SNAPSHOT", help="add the files mapped in a snapshot")
    add.add_argument(
        "--sources",
        action="append",
        metavar="DIR",
        help="also store source files below DIR that the debug info names (repeatable)",
    )
    add.add_argument("--compress", action="store_true", help="compress files by zstd if that saves a tenth")
    add.add_argument(
        "--also", metavar="KINDS", default="", help="also make these symbol files: gsym, sym (Breakpad) or gsym,sym"
    )
    add_layout_options(add, "also store copies for gdb or Pyroscope (repeatable)")
    add_json_option(add, "print one JSON object per file")
    ls = action("ls", "list the build-ids with sizes, quality and dates", "[STORE] [options]")
    ls.add_argument("words", nargs="*", metavar="STORE", help=STORE_HELP)
    ls.add_argument("--small-cores", action="store_true", help="list the small cores instead, by crash signature")
    add_json_option(ls, "print one JSON object per build-id, or per signature")
    show = action("show", "print everything known about build-ids", "[STORE] ID... [options]")
    show.add_argument(
        "words",
        nargs="*",
        metavar="STORE ID",
        help="a build-id or its first 6 digits or more, a debug id, a crash signature or a name of store ls",
    )
    add_json_option(show, "print one JSON object per build-id or signature")
    remove = action("rm", "remove build-ids", "[STORE] ID... [options]")
    remove.add_argument("words", nargs="*", metavar="STORE ID", help="a build-id, or a crash signature")
    add_json_option(remove, "print one JSON object per build-id")
    missing = action("wanted", "list requested build-ids that are missing", "[STORE] [options]")
    missing.add_argument("words", nargs="*", metavar="STORE", help=STORE_HELP)
    add_json_option(missing, "print one JSON object per build-id")
    check = action("verify", "check all hashes, build-ids and archives, and rebuild the index", "[STORE]")
    check.add_argument("words", nargs="*", metavar="STORE", help=STORE_HELP)
    add_json_option(check, "print one JSON object per problem")
    collect = action("gc", "remove build-ids that were not used recently, and small cores", "[STORE] [limits]")
    collect.add_argument("words", nargs="*", metavar="STORE", help=STORE_HELP)
    collect.add_argument("--keep-days", type=days, metavar="N", help="remove build-ids not used for N days")
    collect.add_argument(
        "--max-size", type=gibibytes, metavar="GIB", help="remove the least recently used build-ids until the rest fits"
    )
    collect.add_argument(
        "--small-cores", type=int, metavar="N", help="remove small cores, but the newest N of each signature"
    )
    collect.add_argument(
        "--small-cores-size",
        type=byte_count,
        metavar="SIZE",
        help="remove small cores until the rest fits, as 500M",
    )
    collect.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    add_json_option(collect, "print one JSON object per build-id or core")
    out = action("export", "copy the files of build-ids to a folder", "[STORE] ID... -o DIR")
    out.add_argument("words", nargs="*", metavar="STORE ID", help="a build-id")
    out.add_argument("-o", "--output", metavar="DIR", required=True, help="the folder to write")
    add_layout_options(out, "layout of the copies (repeatable; default: the store's own)")
    add_json_option(out, "a JSON object per file")
    parser.examples(
        "whence store add /srv/symbols build/ libc6-dbg_2.36_amd64.deb",
        "whence store add - app                      your own store",
        "whence store add /srv/symbols s3://parca    the uploads of a Parca server",
        "whence store ls /srv/symbols",
        "whence store show /srv/symbols app",
        "whence store wanted /srv/symbols",
        "whence store verify s3://symbols/prod",
        "whence store gc /srv/symbols --keep-days 90 --dry-run",
        "whence store ls /srv/symbols --small-cores  small cores, by crash signature",
        "whence store rm /srv/symbols 7c5e4b7f0a1b",
        "whence store export /srv/symbols 7c5e4b7f0a1b -o out --layout gdb",
    )


def add_layout_options(parser: ArgumentParser, help: str) -> None:
    parser.add_argument("--layout", action="append", choices=("gdb", "pyroscope"), help=help)
    parser.add_argument("--tenant", metavar="T", help="tenant of Pyroscope (anonymous)")


def days(word: str) -> float:
    """Parse a number of days. argparse reports a ValueError."""
    number = float(word)
    if not 0 <= number < 1 << 30:
        raise ValueError(word)
    return number


days.__name__ = "number of days"  # in argparse's messages


def run(options: Namespace) -> int:
    actions = {
        "add": add, "ls": ls, "show": show, "rm": remove, "wanted": wanted, "verify": verify, "gc": gc,
        "export": export,
    }  # fmt: skip
    return actions[options.action](options)


def opened(options: Namespace, *, takes: int) -> tuple[Store, list[str]]:
    """Open the store, and return it with the remaining words.

    The first word is the store if there are more than `takes` words and it is not a build-id. Otherwise, and for -, the
    user's own store is opened.
    """
    from whence.store import Store

    words = list(options.words)
    named = len(words) > takes and (takes or not is_identity(words[0]))
    word = words.pop(0) if named else OWN
    location = existing_store(FROM_ENVIRONMENT if word == OWN else word, create=options.action == "add")
    also = filter(None, getattr(options, "also", "").split(","))
    return Store(location, compress=getattr(options, "compress", False), also=also), words


def only_store(options: Namespace) -> Store:
    """Open the store for an action without other words."""
    store, words = opened(options, takes=0)
    if words:
        raise WrongUse(f"store {options.action}: unexpected word {plain(words[0])!r}: give one STORE")
    return store


def store_and_ids(options: Namespace) -> tuple[Store, list[str]]:
    store, words = opened(options, takes=0)
    if not words:
        raise WrongUse(f"store {options.action}: give a build-id or debug id")
    return store, words


def add(options: Namespace) -> int:
    from whence.cli.progress import Progress
    from whence.store.layouts import layout_of

    processes = bool(options.pid or options.core or options.maps)
    store, paths = opened(options, takes=0 if processes else 1)
    if not paths and not processes:
        raise WrongUse(f"store {options.action}: give a PATH to add (see whence help store add)")
    layouts = [layout_of(name, options.tenant or "") for name in options.layout or ()]
    counts: Counter[str] = Counter()

    def report(added: Added) -> None:
        counts[added.outcome] += 1
        progress.what = f"adding: {counted(sum(counts.values()), 'file')}"
        if options.json:
            print(json.dumps(added.as_json()), flush=True)
        else:
            name = f"{added.build_id} {added.kind}" if added.kind else added.build_id or "-"
            print(f"{added.outcome:8} {name}  {plain(added.origin)}: {plain(added.why)}", flush=True)

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
        print("whence: no object file was found in the paths", file=sys.stderr)
        return SOME_UNKNOWN
    if not options.json:
        print(", ".join(f"{count:,} {word}" for word, count in sorted(counts.items())), file=sys.stderr)
    return BROKEN_INPUT if counts["refused"] else SOME_UNKNOWN if counts["busy"] else ANSWERED


def mapped_by(options: Namespace) -> Iterator[ProcessFile]:
    """Yield the files mapped by the processes of the options."""
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
    if options.small_cores:
        return list_cores(cores_of(store), as_json=options.json)
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
    """Return the date (UTC, ISO 8601) of a time in seconds since 1970."""
    return date(seconds // DAY_SECONDS)


@cache
def date(number: int) -> str:
    """Return the date of a day, counted since 1970."""
    return time.strftime("%Y-%m-%d", time.gmtime(number * DAY_SECONDS)) if number < 1 << 21 else "-"


@lru_cache(1 << 16)
def size(count: int) -> str:
    """Return a size in bytes, abbreviated.

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
            metas = described(store, word)
            if not metas and show_cores(store, word, as_json=options.json):
                continue
            if not metas:
                complain(f"{word}: not in the store {store.url}")
                status = SOME_UNKNOWN
            for meta in metas:
                if options.json:
                    print(json.dumps(meta.as_json()))
                else:
                    show_one(meta)
    return status


def is_identity(word: str) -> bool:
    """Return True if a word is a build-id, a debug id or the code id of a PE file, in any spelling."""
    return is_id(same_id(word).lower()) or bool(DebugId.parse(word)) or bool(code_id_of(word))


def id_of(store: Store, word: str) -> str:
    """Return the build-id that a build-id, a debug id or the code id of a PE file means, in any spelling."""
    debug_id, code_id = DebugId.parse(word), code_id_of(word)
    build_id = store.build_id_of(debug_id.breakpad) if debug_id else ""
    if code_id:
        build_id = store.build_id_of_code(code_id)
    return build_id or same_id(word).lower()


def described(store: Store, word: str) -> list[Meta]:
    """Return what is known about a build-id or a debug id, or about all build-ids with a name or a prefix."""
    build_id = id_of(store, word)
    matches = [store.find(build_id)] if is_id(build_id) else []
    if not any(matches):
        is_prefix = PREFIX.fullmatch(build_id) is not None
        rows = [row for row in store.list() if row.name == word or (is_prefix and row.build_id.startswith(build_id))]
        matches = [store.find(row.build_id) for row in rows]
    return [meta for meta in matches if meta is not None]


def show_one(meta: Meta) -> None:
    facts: dict[str, Any] = {
        "build-id": meta.build_id, "debug id": meta.debug_id, "code id": meta.code_id, "name": meta.name,
        "machine": meta.machine, "shared": meta.alt, "note": meta.note,
    }  # fmt: skip
    for name, value in facts.items():
        if value:
            print(f"{name:10}  {plain(value)}")
    for kind, stored_file in meta.files.items():
        is_given = kind in ELF_KINDS
        about = f", {stored_file.quality}, from {plain(stored_file.origin) or 'unknown'}" if is_given else ""
        packed = f" ({stored_file.stored:,} packed)" if stored_file.packing else ""
        print(f"{kind:10}  {stored_file.size:,} bytes{packed}, {day(stored_file.added)}{about}")
        if stored_file.sha256:
            print(f"{'':10}  sha256 {plain(stored_file.sha256)}")


def remove(options: Namespace) -> int:
    store, words = store_and_ids(options)
    status = ANSWERED
    with store:
        for word in words:
            build_id = id_of(store, word)
            freed = store.remove(build_id) if is_id(build_id) else 0
            if not freed and is_signature(word):
                freed = removed_cores(store, word)
            if not freed:
                complain(f"{word}: not in the store {store.url}")
                status = SOME_UNKNOWN
            elif options.json:
                print(json.dumps({"build_id": build_id, "removed_bytes": freed}))
            else:
                print(f"{build_id}: {freed:,} bytes removed")
    return status


def wanted(options: Namespace) -> int:
    store = only_store(options)
    with store:
        missed_ids = list(store.wanted())
    for missed in missed_ids:
        if options.json:
            print(json.dumps(missed.as_json()))
        else:
            who = ", ".join(f"{count:,} by {plain(who)}" for who, count in missed.asked.items())
            times = "time " if missed.count == 1 else "times"
            print(f"{missed.build_id}  {missed.count:>6,} {times} ({who})  last {day(missed.last)}  {missed.path}")
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
            progress.what = f"verifying: {counted(len(read), 'build-id')}"

        for problem in problems_in(store, report):
            count += 1
            if options.json:
                print(json.dumps(problem.as_json()), flush=True)
            else:
                print(f"{problem.build_id} {problem.kind or '-'}: {plain(problem.fault)}", flush=True)
        if not store.objects.read_only:
            store.index.rebuild()
    if not options.json:
        print(f"{counted(len(read), 'build-id')} read, {counted(count, 'problem')}", file=sys.stderr)
    return BROKEN_INPUT if count else ANSWERED


def gc(options: Namespace) -> int:
    from whence.store.collecting import Collected, collect

    store = only_store(options)
    limits_cores = options.small_cores is not None or options.small_cores_size is not None
    if options.keep_days is None and options.max_size is None and not limits_cores:
        raise WrongUse(f"store {options.action}: give --keep-days, --max-size, --small-cores or --small-cores-size")
    if options.small_cores is not None and options.small_cores < 0:
        raise WrongUse(f"--small-cores {options.small_cores}: expected a number of cores")
    if limits_cores:
        collect_cores(store, options)
        if options.keep_days is None and options.max_size is None:
            return ANSWERED

    def report(collected: Collected) -> None:
        if options.json:
            print(json.dumps(collected.as_json()), flush=True)
        else:
            print(f"{collected.build_id}  {size(collected.size):>8}  last used {day(collected.last)}", flush=True)

    most = None if options.max_size is None else int(options.max_size * (1 << 30))
    with store:
        gone = collect(store, keep_days=options.keep_days, max_size=most, dry_run=options.dry_run, report=report)
    if not options.json:
        what = "would be removed" if options.dry_run else "removed"
        print(
            f"{counted(len(gone), 'build-id')}, {counted(sum(each.size for each in gone), 'byte')} {what}",
            file=sys.stderr,
        )
    return ANSWERED


def collect_cores(store: Store, options: Namespace) -> None:
    """Remove small cores until the limits of the options are met."""
    from whence.crashes.keeping import limit_cores

    def report_core(path: str, count: int) -> None:
        if options.json:
            print(json.dumps({"path": path, "removed_bytes": count}), flush=True)
        else:
            print(f"{size(count):>8}  {plain(path)}", flush=True)

    gone = limit_cores(
        cores_of(store),
        limit=options.small_cores,
        size=options.small_cores_size,
        dry_run=options.dry_run,
        report=report_core,
    )
    if not options.json:
        print(f"{counted(len(gone), 'core')} {'would be removed' if options.dry_run else 'removed'}", file=sys.stderr)


def cores_of(store: Store) -> str:
    """Return the folder of a store's small cores. Raises WrongUse for a bucket."""
    from whence.crashes.keeping import STORE_FOLDER
    from whence.store.folder import Folder

    if not isinstance(store.objects, Folder):
        raise WrongUse(f"{plain(store.url)}: small cores are kept in stores in folders only")
    return str(store.objects.root / STORE_FOLDER)


def list_cores(folder: str, *, as_json: bool) -> int:
    """Print a line for each signature: hash, number and bytes of its cores, first and last day, program, functions."""
    from whence.crashes.keeping import kept_signatures

    for kept in kept_signatures(folder):
        if as_json:
            print(json.dumps(kept.as_json()))
            continue
        functions = plain(" < ".join(kept.signature.functions) or "?")
        days = f"{day(int(kept.first))}  {day(int(kept.last))}"
        program = plain(kept.signature.program)
        print(f"{kept.signature.text}  {len(kept.cores):>5} {size(kept.size):>8}  {days}  {program}  {functions}")
    return ANSWERED


def show_cores(store: Store, signature: str, *, as_json: bool) -> bool:
    """Print the small cores of a signature. Return False if the store has no such signature."""
    from whence.crashes.keeping import kept_signatures

    if not is_signature(signature) or not is_folder(store):
        return False
    for kept in kept_signatures(cores_of(store)):
        if kept.signature.text != signature:
            continue
        if as_json:
            print(json.dumps(kept.as_json()))
            return True
        print(f"{'signature':10}  {kept.signature.text}")
        print(f"{'program':10}  {plain(kept.signature.program)}")
        print(f"{'functions':10}  {plain(' < '.join(kept.signature.functions) or '?')}")
        for path in kept.cores:
            print(f"{'core':10}  {plain(path)}")
        return True
    return False


def removed_cores(store: Store, signature: str) -> int:
    """Remove the small cores of a signature, and return their bytes."""
    from whence.crashes.keeping import limit_cores

    sizes: list[int] = []
    if is_folder(store):
        limit_cores(cores_of(store), only=signature, report=lambda _, count: sizes.append(count))
    return sum(sizes)


def is_folder(store: Store) -> bool:
    from whence.store.folder import Folder

    return isinstance(store.objects, Folder)


def is_signature(word: str) -> bool:
    """Return True for the hash of a crash signature.

    >>> is_signature("36905fb32012"), is_signature("36905fb3")
    (True, False)
    """
    return len(word) == SIGNATURE_DIGITS and is_id(word)


def export(options: Namespace) -> int:
    from whence.store.layouts import layout_of

    store, words = store_and_ids(options)
    layouts = [layout_of(name, options.tenant or "") for name in options.layout or ()]
    status = ANSWERED
    with store:
        for word in words:
            build_id = id_of(store, word)
            done = store.export(build_id, options.output, layouts)
            if not done:
                complain(f"{word}: not in the store {store.url}")
                status = SOME_UNKNOWN
            for path in done:
                print(json.dumps({"build_id": build_id, "path": str(path)}) if options.json else plain(path))
    return status
