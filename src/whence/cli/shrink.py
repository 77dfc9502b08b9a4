"""`whence core CORE --shrink -o SMALL`: write a core with only what stacks need."""

from __future__ import annotations

import mmap
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from whence._base.errors import WrongUse, naming
from whence._base.files import atomic_write
from whence._base.words import plain
from whence.cli.main import ANSWERED
from whence.cli.options import locator_of
from whence.objects.elf import ElfFile
from whence.shrink import NEAR, SmallCore, shrink_core

STDIN, STDOUT = "-", "/dev/stdout"


def add_shrink_options(parser: ArgumentParser) -> None:
    parser.add_argument("--shrink", action="store_true", help="write a core with only what stacks need, to -o")
    parser.add_argument("-o", "--output", metavar="FILE", help='with --shrink or --report: the file ("-": stdout)')
    parser.add_argument(
        "--near", type=int, metavar="BYTES", help=f"with --shrink: bytes kept at pointers in frames (default: {NEAR})"
    )
    parser.add_argument(
        "--redact", action="store_true", help="with --shrink: zero what stacks do not need, values included"
    )


def check_shrink_options(options: Namespace) -> None:
    """Raise WrongUse for options that do not fit --shrink."""
    if not options.shrink:
        given = [
            name
            for name, value in (
                ("-o", None if options.report else options.output),
                ("--near", options.near),
                ("--redact", options.redact),
            )
            if value not in (None, False)
        ]
        if given:
            raise WrongUse(f"{', '.join(given)}: only with --shrink")
        if options.core == STDIN:
            raise WrongUse("a core on stdin can only be shrunk: whence core - --shrink -o SMALL")
        return
    if not options.output:
        raise WrongUse("--shrink needs -o FILE")
    if options.near is not None and options.near < 0:
        raise WrongUse(f"--near {options.near}: expected a number of bytes")
    if options.redact and options.near:
        raise WrongUse("--near cannot be used with --redact, which keeps no values")
    if options.addresses or options.maps or options.save_snapshot or options.goroutines or options.json:
        raise WrongUse("--shrink cannot be used with addresses, --maps, --save-snapshot, --goroutines or --json")


def write_small_core(options: Namespace) -> int:
    """Write the small core and a line about it. Return the exit code."""
    output = STDOUT if options.output == STDIN else options.output
    if os.path.exists(output) and options.core != STDIN and os.path.samefile(output, options.core):
        raise WrongUse(f"{options.output} is the core itself: give another -o")
    near = NEAR if options.near is None else options.near
    with _opened(options.core) as (elf, size, modified):
        with locator_of(options) as locator, atomic_write(output) as file:
            small = shrink_core(
                elf,
                file,
                locator,
                near=near,
                redact=options.redact,
                sysroot=options.sysroot or "",
                programs=options.binary,
            )
        if modified and output != STDOUT:
            os.utime(output, ns=(modified, modified))  # when the process ended
    report(options.output, size, small)
    return ANSWERED


@contextmanager
def _opened(path: str) -> Iterator[tuple[ElfFile, int, int]]:
    """Open a core, or copy what is needed from stdin. Return it, its size, and when it was written in ns."""
    if path != STDIN:
        from whence.dumps.unpacked import opened_core

        with opened_core(path) as (elf, copied):
            if copied is not None:
                report_unpacked(path, copied.fault, copied.missing, copied.dropped)
            yield elf, elf.size, os.stat(path).st_mtime_ns
        return
    from tempfile import TemporaryFile

    from whence.dumps.core_stream import copy_core

    with TemporaryFile() as copy, naming("stdin"):
        streamed = copy_core(sys.stdin.buffer, copy)
        copy.flush()
        report_unpacked("stdin", "", streamed.missing, streamed.dropped)
        mapped = mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ)  # closed with the last view of it
        with ElfFile.from_bytes(mapped, "stdin") as elf:
            yield elf, streamed.size, 0


def report_unpacked(path: str, fault: str, missing: int, dropped: int) -> None:
    """Print what a core that was read from a stream lacks."""
    if fault:
        print(f"whence: {plain(path)}: {plain(fault)}", file=sys.stderr)
    elif missing:
        print(f"whence: {plain(path)}: truncated: {missing:,} bytes are missing", file=sys.stderr)
    if dropped:
        lost = f"{dropped:,} bytes of large segments were dropped before stacks were known"
        print(f"whence: {plain(path)}: {lost}", file=sys.stderr)


def report(output: str, size: int, small: SmallCore) -> None:
    """Print what was kept, to stderr if the core is on stdout."""
    threads = f"{small.threads} thread{'s' if small.threads != 1 else ''}"
    line = f"{plain(output)}: {small.size:,} bytes, from {size:,}: {threads}, {small.memory:,} bytes of memory"
    print(line, file=sys.stderr if output == STDIN else sys.stdout)
    if small.unfinished:
        print(
            f"whence: {small.unfinished} of {threads} have stacks that end too early; more of these is kept",
            file=sys.stderr,
        )
