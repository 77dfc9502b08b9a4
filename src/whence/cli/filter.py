"""`whence filter [FILE...]`: copy text to stdout, line by line, with names inserted into its frames."""

from __future__ import annotations

import os
import stat
import sys
from argparse import Namespace
from contextlib import ExitStack
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.files import write_all
from whence._base.reasons import Reason
from whence._base.streams import STDOUT, complain, naming_stream
from whence._base.words import STDIN, plain
from whence.cli.answers import executable_mappings
from whence.cli.main import ANSWERED, BROKEN_INPUT, SOME_UNKNOWN
from whence.cli.options import add_locator_options, add_name_options, locator_of
from whence.filter import LogFilter, Places, Style, kernel_offsets_in
from whence.filter.places import Runtime
from whence.locator.locator import Locator
from whence.objects.opening import open_object
from whence.symbolize import Core, Process, ProcessView, Snapshot, Symbolizer

if TYPE_CHECKING:
    from whence.cli.parser import Parser

BLOCK = 1 << 20
WITHOUT_BASE = (
    "the log does not say where it was loaded: give the process with --pid, --core or --snapshot, "
    "or the program with --guess-base"
)


def configure(parser: Parser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help='text to read ("-" or none: stdin)')
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--pid", type=int, metavar="PID", help="take runtime addresses from this process")
    source.add_argument("--core", metavar="CORE", help="take runtime addresses from this core dump")
    source.add_argument("--snapshot", metavar="FILE", help="take runtime addresses from this snapshot")
    parser.add_argument(
        "--style",
        choices=[style.value for style in Style],
        default=Style.SAME.value,
        help="write names as the log's own tools do (the default), as llvm-symbolizer -p, or as JSON",
    )
    parser.add_argument(
        "--json",
        dest="style",
        action="store_const",
        const=Style.JSON.value,
        default=Style.SAME.value,
        help="short for --style json",
    )
    parser.add_argument(
        "--guess-base",
        action="append",
        default=[],
        metavar="PROGRAM",
        help="find out where this executable or library was loaded, as the log does not say it: its return addresses "
        "follow calls (repeatable; reads the log twice)",
    )
    parser.add_argument("--all", action="store_true", help="name every isolated 0x...")
    parser.add_argument("--links", action="store_true", help="make files terminal hyperlinks (OSC 8)")
    add_name_options(parser)
    add_locator_options(parser)
    parser.examples(
        "./app 2>&1 | whence filter",
        "whence filter crash.log --binary app",
        "whence filter oops.txt --binary vmlinux",
        "whence filter app.log --snapshot app.snapshot",
        "whence filter envoy.log --guess-base envoy",
    )


def run(options: Namespace) -> int:
    """Filter all files. Return 3 if a file cannot be read, 1 if a base cannot be guessed; the rest is copied."""
    status = ANSWERED
    if options.guess_base:
        check_guessing(options)
    with ExitStack() as stack:
        given = options.guess_base
        locator = stack.enter_context(locator_of(options, given=given, columns=options.style != Style.SAME))
        runtime = runtime_of(options, locator, stack)
        places = stack.enter_context(Places(locator, runtime=runtime, demangle=not options.no_demangle))
        if options.guess_base and not place_programs(places, options):
            status = SOME_UNKNOWN
        for path in options.files or [STDIN]:
            try:
                descriptor = sys.stdin.fileno() if path == STDIN else os.open(path, os.O_RDONLY)
                try:
                    log = LogFilter(
                        places,
                        style=Style(options.style),
                        every=options.all,
                        links=options.links,
                        kernel_offsets=kernel_offsets(descriptor) if options.binary else (),
                    )
                    copy(log, descriptor)
                finally:
                    if path != STDIN:
                        os.close(descriptor)
            except BrokenPipeError:
                raise
            except OSError as error:
                if error.filename == STDOUT:
                    raise
                complain(f"{path}: {error.strerror or error}")
                status = BROKEN_INPUT
        report_reasons(places)
    return status


def check_guessing(options: Namespace) -> None:
    """Raise WrongUse if the log can't be read twice, or has the addresses of a process."""
    if not options.files or any(path == STDIN or not os.path.isfile(path) for path in options.files):
        raise WrongUse("--guess-base reads the log twice: give regular files, not stdin")
    if options.pid is not None or options.core or options.snapshot:
        raise WrongUse("--guess-base is for logs alone: --pid, --core and --snapshot say where programs are loaded")


def place_programs(places: Places, options: Namespace) -> bool:
    """Add the programs of --guess-base to `places`, at their guessed bases. Return False if a base is not sure."""
    from whence.filter.bases import BaseUnknown, guess_bases, raw_addresses

    addresses: dict[int, None] = {}
    for path in options.files:
        with open(path, "rb") as file:
            addresses |= dict.fromkeys(raw_addresses(iter(lambda: file.read(BLOCK), b""), every=options.all))
    all_sure = True
    for path in options.guess_base:
        with open_object(path) as program:
            try:
                bases = guess_bases(program, list(addresses))
            except BaseUnknown as error:
                complain(f"{error} ({error.hint})")
                all_sure = False
                continue
        for base in bases:
            places.place(path, base.base)
            complain(f"{plain(path)} was loaded at {base}")
    return all_sure


def runtime_of(options: Namespace, locator: Locator, stack: ExitStack) -> Runtime | None:
    """Return the lookup of runtime addresses, None if no process was given."""
    process: ProcessView
    symbolizer = stack.enter_context(Symbolizer(locator=locator))
    if options.pid is not None:
        process = Process(options.pid, resolver=symbolizer.resolver)
        executable_mappings(process)  # raises an error with a remedy
    elif options.core:
        process = Core(options.core, sysroot=options.sysroot)
    elif options.snapshot:
        process = Snapshot(options.snapshot)
    else:
        return None
    return lambda address: symbolizer.symbolize(process, [address])[0]


def kernel_offsets(descriptor: int) -> list[int]:
    """Return the kernel offsets in a log that is a regular file, which is read twice."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return []
    start = os.lseek(descriptor, 0, os.SEEK_CUR)
    offsets = kernel_offsets_in(iter(lambda: os.read(descriptor, BLOCK), b""))
    os.lseek(descriptor, start, os.SEEK_SET)
    return offsets


def copy(log: LogFilter, descriptor: int) -> None:
    """Filter a file descriptor to stdout, block by block."""
    sys.stdout.flush()
    while block := os.read(descriptor, BLOCK):
        write(log.feed(block))
    write(log.finish())


def write(text: bytes) -> None:
    """Write to stdout. The filename of an OSError is STDOUT."""
    with naming_stream(STDOUT):
        write_all(sys.stdout.fileno(), text)


def report_reasons(places: Places) -> None:
    """Print each reason and its remedy once per file on stderr."""
    for (reason, module), count in places.reasons.items():
        where = f" in {plain(module)}" if module else ""
        remedy = WITHOUT_BASE if reason is Reason.NOT_PLACED else reason.remedy
        print(f"whence: {count} x {reason.word}{where}: {remedy}", file=sys.stderr)
