"""`whence cores DIR...`: crashes whose cores are in folders, grouped by signature; small cores kept of each."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from time import localtime, strftime
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.words import counted, plain
from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.cli.options import add_json_option, add_locator_options, byte_count, symbolizer_of
from whence.crashes.collected import APPORT_FOLDER, SYSTEMD_FOLDER, crashes_in, folders_of
from whence.crashes.keeping import BYTES, LIMIT, keep_cores

if TYPE_CHECKING:
    from whence.cli.parser import Parser
    from whence.crashes.collected import CoreCollection, SignatureGroup
    from whence.crashes.keeping import KeptCores

FUNCTIONS_SHOWN = 60  # characters


def configure(parser: Parser) -> None:
    parser.add_argument("folders", nargs="*", metavar="DIR", help="a folder with cores, .crash files or minidumps")
    parser.add_argument("--systemd", action="store_true", help=f"also list {SYSTEMD_FOLDER}")
    parser.add_argument("--apport", action="store_true", help=f"also list {APPORT_FOLDER}")
    parser.add_argument("--files", action="store_true", help="also print the file of each crash")
    add_json_option(parser, "print one JSON object per signature, and one per core without a signature")
    more = parser.add_argument_group("small cores")
    more.add_argument(
        "--keep",
        metavar="STORE",
        help="write small cores of the newest crashes of each signature to a store or folder",
    )
    more.add_argument("--limit", type=int, metavar="N", help=f"with --keep: cores of each signature ({LIMIT})")
    more.add_argument("--bytes", type=byte_count, metavar="SIZE", help="with --keep: bytes of all cores, as 500M (1G)")
    more.add_argument(
        "--redact", action="store_true", help="with --keep: zero what stacks do not need, values included"
    )
    parser.set_defaults(no_demangle=False)
    add_locator_options(parser)
    parser.examples(
        "whence cores --systemd                           what systemd-coredump keeps",
        "whence cores /var/crash --files                  what apport keeps, with the files",
        "whence cores --systemd --keep /srv/crashes --limit 5 --bytes 500M",
        "whence cores /srv/crashes                        the small cores",
        "whence cores --systemd --keep /srv/symbols       in a store",
    )


def run(options: Namespace) -> int:
    """Print the crashes. Return 1 if some cores have no signature."""
    folders = folders_of(options.folders, systemd=options.systemd, apport=options.apport)
    if not folders:
        raise WrongUse("give a folder with cores, --systemd or --apport")
    if not options.keep and (options.limit is not None or options.bytes is not None or options.redact):
        raise WrongUse("--limit, --bytes and --redact: only with --keep")
    if options.keep and "://" in options.keep:
        raise WrongUse(f"--keep {plain(options.keep)}: cores are kept in a folder, or in a store in a folder")
    if options.limit is not None and options.limit < 1:
        raise WrongUse(f"--limit {options.limit}: expected at least 1")
    with symbolizer_of(options) as symbolizer:
        collection = crashes_in(folders, symbolizer, except_in=options.keep or "")
        if options.json:
            show_json(collection)
        else:
            show_groups(collection, with_files=options.files)
        report_problems(collection)
        if options.keep:
            kept = keep_cores(
                collection,
                options.keep,
                symbolizer.locator,
                limit=options.limit or LIMIT,
                size=BYTES if options.bytes is None else options.bytes,
                redact=options.redact,
            )
            report_kept(kept, options.keep)
            if kept.problems:
                return SOME_UNKNOWN
    return SOME_UNKNOWN if collection.unreadable else ANSWERED


def show_json(collection: CoreCollection) -> None:
    for group in collection.groups:
        fields = {
            "signature": group.signature.text,
            "program": group.signature.program,
            "functions": group.signature.functions,
            "signals": group.signals,
            "count": len(group.cores),
            "first": group.first,
            "last": group.last,
            "cores": [core.as_json() for core in group.cores],
        }
        print(json.dumps(fields))
    for core in collection.unreadable:
        print(json.dumps({"signature": None, **core.as_json()}))


def show_groups(collection: CoreCollection, *, with_files: bool) -> None:
    """Print a line for each signature: hash, count, first and last time, program, signals, functions."""
    crashes = sum(len(group.cores) for group in collection.groups)
    print(f"{crashes:,} crash{'' if crashes == 1 else 'es'}, {counted(len(collection.groups), 'signature')}")
    width = max((len(plain(group.signature.program)) for group in collection.groups), default=0)
    for group in collection.groups:
        print(group_line(group, width))
        if with_files:
            for core in group.cores:
                name = f"{core.kind} {core.packing}".rstrip()
                print(f"    {when(core.written)}  pid {core.pid:<8} {core.size:>14,}  {name}  {plain(core.path)}")


def group_line(group: SignatureGroup, width: int) -> str:
    functions = plain(" < ".join(group.signature.functions) or "?")
    if len(functions) > FUNCTIONS_SHOWN:
        functions = f"{functions[: FUNCTIONS_SHOWN - 3]}..."
    times = f"{when(group.first)}  {when(group.last)}"
    program = plain(group.signature.program)
    signals = ",".join(group.signals) or "-"
    return f"{group.signature.text}  {len(group.cores):>5}  {times}  {program:{width}}  {signals:8}  {functions}"


def when(seconds: float) -> str:
    return strftime("%Y-%m-%d %H:%M:%S", localtime(seconds)) if seconds else "-"


def report_problems(collection: CoreCollection) -> None:
    for core in collection.unreadable:
        print(f"whence: {plain(core.path)}: no signature: {plain(core.problem)}", file=sys.stderr)
    for group in collection.groups:
        for core in group.cores:
            if core.problem:
                print(f"whence: {plain(core.path)}: {plain(core.problem)}", file=sys.stderr)
    if collection.left_out:
        print(f"whence: only the newest files were read: {collection.left_out:,} were left out", file=sys.stderr)


def report_kept(kept: KeptCores, folder: str) -> None:
    done = f"{len(kept.added)} added, {len(kept.removed)} removed"
    print(f"whence: {plain(folder)}: {counted(kept.count, 'core')}, {kept.size:,} bytes ({done})", file=sys.stderr)
    for path, problem in kept.problems:
        print(f"whence: {plain(path)}: not kept: {plain(problem)}", file=sys.stderr)
