"""`whence store add|ls|show|...`: the best files of every build-id, kept for everyone."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from typing import TYPE_CHECKING, Any

from whence.cli.main import ANSWERED, BROKEN_INPUT, SOME_UNKNOWN, WRONG_USE
from whence.cli.options import FROM_ENVIRONMENT, add_json_option, store_place
from whence.cli.words import plain
from whence.store.names import is_id

if TYPE_CHECKING:
    from whence.store import Added, Meta, Store

UNITS = "KMGT"
OWN = "-"
STORE_HELP = "a folder, s3://, gs://, az:// or http(s)://; - or nothing: the user's own"


def configure(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="add|ls|show|rm", required=True)

    def action(name: str, text: str, usage: str) -> ArgumentParser:
        made = actions.add_parser(name, help=text, allow_abbrev=False, formatter_class=parser.formatter_class)
        made.usage = f"whence store {name} {usage}"
        return made

    add = action("add", "put ELF files, folders and packages of them", "[STORE] PATH... [options]")
    add.add_argument("words", nargs="*", metavar="STORE PATH", help="where to, then files, folders, .deb, .tar or .zip")
    add.add_argument("--by-hash", action="store_true", help="keep files without a build-id, under their SHA-256")
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


def run(options: Namespace) -> int:
    actions = {"add": add, "ls": ls, "show": show, "rm": remove}
    return actions[options.action](options)


def opened(options: Namespace, *, takes: int) -> tuple[Store, list[str]]:
    """The store, and the other words. It is the first word, where there are more than `takes` and it is no build-id;
    else, and for -, the user's own."""
    from whence.store import Store

    words = list(options.words)
    named = len(words) > takes and (takes or not is_id(words[0].lower()))
    place = words.pop(0) if named else OWN
    return Store(store_place(FROM_ENVIRONMENT if place == OWN else place)), words


def wrong(options: Namespace, why: str) -> int:
    print(f"whence store {options.action}: {why}", file=sys.stderr)
    return WRONG_USE


def add(options: Namespace) -> int:
    from whence.cli.progress import Progress

    store, paths = opened(options, takes=1)
    if not paths:
        return wrong(options, "a PATH is needed (whence store add --help)")
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
        store.add(*paths, by_hash=options.by_hash, report=report)
    if not counts:
        print("whence: no ELF file among them", file=sys.stderr)
        return SOME_UNKNOWN
    if not options.json:
        print(", ".join(f"{count:,} {word}" for word, count in sorted(counts.items())), file=sys.stderr)
    return BROKEN_INPUT if counts["refused"] else SOME_UNKNOWN if counts["busy"] else ANSWERED


def ls(options: Namespace) -> int:
    store, words = opened(options, takes=0)
    if words:
        return wrong(options, f"one STORE, not {plain(words[0])}, too")
    with store:
        rows = store.list()
    if options.json:
        out = [json.dumps(row.as_json()) for row in rows]
    else:
        out = [
            f"{row.build_id}  {day(row.added)}  {size(row.debuginfo):>8} {size(row.executable):>8} "
            f"{size(row.archive):>8}  {row.quality}  {plain(row.name)}"
            for row in rows
        ]
        if out:
            out.insert(0, f"{'build-id':{max(len(row.build_id) for row in rows)}}  added       debuginfo executable "
                          "archive  quality, name")  # fmt: skip
    if out:
        print("\n".join(out))
    return ANSWERED


def day(seconds: int) -> str:
    """A date, as ISO 8601 has it, in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(seconds)) if seconds < 1 << 37 else "-"


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
    store, words = opened(options, takes=0)
    if not words:
        return wrong(options, "an ID is needed")
    status = ANSWERED
    with store:
        for word in words:
            known = described(store, word)
            if known is None:
                print(f"whence: {plain(word)}: nothing of it in {store.url}", file=sys.stderr)
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
    store, words = opened(options, takes=0)
    if not words:
        return wrong(options, "an ID is needed")
    status = ANSWERED
    with store:
        for word in words:
            freed = store.remove(word.lower())
            if not freed:
                print(f"whence: {plain(word)}: nothing of it in {store.url}", file=sys.stderr)
                status = SOME_UNKNOWN
            elif options.json:
                print(json.dumps({"build_id": word.lower(), "removed_bytes": freed}))
            else:
                print(f"{word.lower()}: {freed:,} bytes removed")
    return status
