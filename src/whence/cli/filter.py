"""`whence filter [FILE...]`: copies text to stdout, line by line as it comes, with the frames in it named."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack

from whence.cli.answers import executable_mappings
from whence.cli.main import ANSWERED, BROKEN_INPUT
from whence.cli.snapshot import build_ids_of
from whence.cli.words import plain
from whence.filter import Filter, Places, Style
from whence.filter.places import Runtime
from whence.symbolize import SnapshotSymbolizer, Symbolizer, from_snapshot, opener_with

BLOCK = 1 << 20
STDIN = "-"


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help='text to read ("-" or none: stdin)')
    parser.add_argument(
        "--binary",
        action="append",
        default=[],
        metavar="PATH",
        help="a file that the log tells of, or an archive of it: goes before the log's own paths (repeatable)",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--pid", type=int, metavar="PID", help="runtime addresses are of this process")
    source.add_argument("--core", metavar="CORE", help="runtime addresses are of the process that left this core file")
    source.add_argument("--snapshot", metavar="FILE", help="runtime addresses are of this snapshot's process")
    parser.add_argument(
        "--style",
        type=Style,
        choices=list(Style),
        default=Style.SAME,
        help="as the log's own tools write names (the default), as llvm-symbolizer -p does, or as JSON",
    )
    parser.add_argument("--all", action="store_true", help="name every address 0x... that stands by itself")
    parser.add_argument("--links", action="store_true", help="make files hyperlinks of the terminal (OSC 8)")
    parser.add_argument("--debug-dir", action="append", metavar="DIR", help="search here for debug files (repeatable)")


def run(options: Namespace) -> int:
    """0; 3 when a file can't be read (the others are copied)."""
    status = ANSWERED
    opener = opener_with(options.debug_dir)
    with ExitStack() as stack:
        runtime = runtime_of(options, stack)
        places = stack.enter_context(Places(options.binary, runtime=runtime, opener=opener))
        for path in options.files or [STDIN]:
            log = Filter(places, style=options.style, every=options.all, links=options.links)
            try:
                descriptor = sys.stdin.fileno() if path == STDIN else os.open(path, os.O_RDONLY)
                try:
                    copy(log, descriptor)
                finally:
                    if path != STDIN:
                        os.close(descriptor)
            except BrokenPipeError:
                raise
            except OSError as error:
                print(f"whence: {plain(path)}: {error.strerror or error}", file=sys.stderr)
                status = BROKEN_INPUT
        tell_reasons(places)
    return status


def runtime_of(options: Namespace, stack: ExitStack) -> Runtime | None:
    """What answers for runtime addresses; None when nothing was given."""
    opener = opener_with(options.debug_dir)
    if options.pid is not None:
        live = stack.enter_context(Symbolizer(opener=opener))
        executable_mappings(live.resolver, options.pid)  # no process, no right: an error with a remedy
        return lambda address: live.lookup(options.pid, address)
    if not (options.core or options.snapshot):
        return None
    binaries = build_ids_of(options.binary, opener)
    if options.core:
        from whence.elf import ElfFile
        from whence.procmap.core import read_core

        with ElfFile.open(options.core) as elf:
            snapshot = read_core(elf).snapshot
        gone = SnapshotSymbolizer(snapshot, binaries=binaries, opener=opener)
    else:
        gone = from_snapshot(options.snapshot, binaries=binaries, opener=opener)
    stack.enter_context(gone)
    return lambda address: gone.answer([address])[0]


def copy(log: Filter, descriptor: int) -> None:
    """Filter what one descriptor gives to stdout, each block as soon as it has come."""
    sys.stdout.flush()
    while block := os.read(descriptor, BLOCK):
        write(log.feed(block))
    write(log.finish())


def write(text: bytes) -> None:
    out = memoryview(text)
    while out:
        out = out[os.write(sys.stdout.fileno(), out) :]


def tell_reasons(places: Places) -> None:
    """On stderr, each reason once for a file, with what may help."""
    for (reason, module), count in places.reasons.items():
        where = f" in {plain(module)}" if module else ""
        print(f"whence: {count} x {reason.word}{where}: {reason.remedy}", file=sys.stderr)
