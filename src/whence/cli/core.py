"""`whence core CORE [ADDRESS...]`: the stack of every thread in a core or minidump, or frames of runtime addresses.

Files are found by the build-ids in the dump: at their recorded paths, or those given by --binary. `--maps` lists them.
`--save-snapshot OUT` stores the mappings, so that `whence addr --snapshot OUT` works without the core.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.streams import complain
from whence._base.words import counted, plain
from whence.cli.answers import addresses_from, show
from whence.cli.dispatch import CORE, MINIDUMP, kind_of
from whence.cli.goroutines import add_goroutine_options, check_goroutine_options, show_goroutines
from whence.cli.main import ANSWERED, SOME_UNKNOWN, WRONG_USE
from whence.cli.options import (
    add_json_option,
    add_locator_options,
    add_name_options,
    locator_of,
    symbolizer_of,
)
from whence.cli.report import add_report_options, check_report_options, write_report
from whence.cli.shrink import add_shrink_options, check_shrink_options, report_unpacked, write_small_core
from whence.cli.stacks import About, add_stack_options, selected_tids, show_stacks
from whence.cli.tasks import add_task_options, check_task_options, show_tasks
from whence.symbolize import Core

if TYPE_CHECKING:
    from whence.cli.parser import Parser

INTERMIXED = True
DUMPS = (CORE, MINIDUMP)


def configure(parser: Parser) -> None:
    parser.add_argument(
        "core",
        metavar="CORE",
        help="a core dump of Linux or of gdb's gcore, also .zst, .lz4, .xz, .gz and apport's .crash; or a minidump",
    )
    parser.add_argument(
        "addresses",
        nargs="*",
        default=[],
        metavar="ADDRESS",
        help='runtime addresses in hex; "-" reads them from stdin',
    )
    add_stack_options(parser)
    add_goroutine_options(parser)
    add_task_options(parser)
    parser.add_argument("--return-addresses", action="store_true", help="addresses are return addresses")
    parser.add_argument(
        "--info", action="store_true", help="print what a minidump says of its system, exception, modules and streams"
    )
    parser.add_argument("--maps", action="store_true", help="list the executable mappings with build-ids")
    parser.add_argument("--save-snapshot", metavar="OUT", help='write mappings and build-ids as JSON ("-": to stdout)')
    parser.add_argument("--minidump", metavar="OUT", help="write a minidump with the memory that stacks need")
    parser.add_argument("--all-memory", action="store_true", help="with --minidump: write all memory")
    add_json_option(parser)
    add_shrink_options(parser)
    add_report_options(parser)
    add_name_options(parser)
    add_locator_options(parser)
    parser.examples(
        "whence core core.4711",
        "whence core core.4711 --binary app --style gdb",
        "whence core app core.4711                        the same program, in gdb's order",
        "whence core core.4711 --locals                   with arguments and local variables",
        "whence core core.4711 --async                    what each task of Python's asyncio awaits",
        "whence core core.4711 --report -o report.html    one page for a bug report",
        "whence core core.4711 --sysroot image            files of a container or another machine",
        "whence core core.4711 0x55d0c0de1170             name an address",
        "whence core core.4711 --maps",
        "whence core core.4711 --shrink -o small.core",
        "whence core core.4711 --minidump crash.dmp      for tools that read minidumps",
        "whence core crash.dmp --binary symbols/          a minidump, with a folder of its modules",
        "whence core crash.dmp --info",
        "whence core core.app.1000.3f0c.4711.17958.zst    as systemd-coredump keeps it",
    )


def take_program(options: Namespace) -> None:
    """Accept a program before the core, as gdb does, or after it: both are --binary."""
    if not options.addresses or not os.path.isfile(options.addresses[0]):
        return
    program = options.addresses.pop(0)
    if kind_of(program) in DUMPS and kind_of(options.core) not in DUMPS:
        program, options.core = options.core, program
    if program not in options.binary:
        options.binary = [*options.binary, program]


def write_minidump(core: Core, options: Namespace) -> int:
    """Write the minidump of --minidump and a line about it. Return the exit code."""
    if options.addresses or options.maps or options.info or options.goroutines or options.json:
        raise WrongUse("--minidump cannot be used with addresses, --maps, --info, --goroutines or --json")
    if os.path.exists(options.minidump) and os.path.samefile(options.minidump, options.core):
        raise WrongUse(f"{options.minidump} is the core itself: give another name")
    with locator_of(options) as locator:
        done = core.save_minidump(options.minidump, locator, all_memory=options.all_memory)
    threads, modules = counted(done.threads, "thread"), counted(done.modules, "module")
    print(f"{plain(options.minidump)}: {done.size:,} bytes: {threads}, {modules}, {done.memory:,} bytes of memory")
    if done.unfinished:
        stacks = f"{done.unfinished} of {threads} have stacks that end too early; more of these is kept"
        print(f"whence: {stacks}", file=sys.stderr)
    return ANSWERED


def run(options: Namespace) -> int:
    if options.all_memory and not options.minidump:
        raise WrongUse("--all-memory: only with --minidump")
    check_goroutine_options(options)
    take_program(options)
    check_task_options(options)
    check_report_options(options)
    check_shrink_options(options)
    if options.shrink:
        return write_small_core(options)
    core = Core(options.core, programs=options.binary, sysroot=options.sysroot)
    for problem in core.problems:
        print(f"whence: skipped: {plain(problem)}", file=sys.stderr)
    report_unpacked(options.core, core.fault, core.missing, core.dropped)
    for path in core.unproved:
        fault = "its first page is missing in the core: the file at this path fits, but no build-id proves it"
        print(f"whence: {plain(path)}: {fault}", file=sys.stderr)
    if options.save_snapshot:
        from whence.cli.pid import save_snapshot

        return save_snapshot(core, options.save_snapshot)
    if options.minidump:
        return write_minidump(core, options)
    if options.info:
        from whence.cli.dump_info import show_info

        return show_info(core, options.json)
    if options.maps:
        from whence.cli.maps import show_mappings

        return show_mappings(core.mappings(), options.json, f"{options.core}: the core has no executable mappings")
    try:
        addresses = addresses_from(options.addresses)
    except ValueError as error:
        complain(error, "whence core")
        return WRONG_USE
    tids = selected_tids("core", options.thread, [thread.tid for thread in core.threads], options.core)
    if tids == []:
        return WRONG_USE
    if options.report:
        return write_report(core, options, tids)
    with symbolizer_of(options) as symbolizer:
        if options.addresses:
            answers = symbolizer.symbolize(core, addresses, return_address=options.return_addresses)
            return show(answers, options.json)
        if not core.threads:
            print(f"whence: {plain(options.core)}: the core has no threads", file=sys.stderr)
            return SOME_UNKNOWN
        if options.goroutines:
            goroutines = core.goroutines(symbolizer, system=options.system)
            return show_goroutines(
                About.core(core), goroutines, as_json=options.json, system=options.system, is_live=False
            )
        if options.tasks:
            return show_tasks(About.core(core), core.tasks(symbolizer, tids=tids), as_json=options.json)
        stacks = core.stacks(
            symbolizer,
            tids=tids,
            scan=options.scan,
            variables=options.locals,
            interpreters=options.shown != "native",
            native=options.shown != "python",
        )
        for problem in core.interpreter_problems:
            print(f"whence: {plain(problem)}", file=sys.stderr)
        about = About.core(core)._replace(interpreters=core.interpreter_titles)
        return show_stacks(
            about, stacks, as_json=options.json, style=options.style, registers=options.registers, shown=options.shown
        )
