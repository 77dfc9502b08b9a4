"""`whence core CORE [ADDRESS...]`: frames of runtime addresses in a core file; without addresses, every thread's stack.

The files of the process are found by their build-ids, which a core has: under their old paths, or as given by --binary.
`--maps` lists them; `--save-snapshot OUT` writes them down, so that `whence addr --snapshot OUT` answers without
the core.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from whence._base.streams import complain
from whence._base.words import plain
from whence.cli.answers import addresses_from, show
from whence.cli.goroutines import add_goroutine_options, check_goroutine_options, show_goroutines
from whence.cli.main import SOME_UNKNOWN, WRONG_USE
from whence.cli.options import add_json_option, add_locator_options, add_name_options, symbolizer_of
from whence.cli.stacks import About, add_stack_options, show_stacks, tids_wanted
from whence.symbolize import Core

INTERMIXED = True


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("core", metavar="CORE", help="a core file, of Linux or of gdb's gcore")
    parser.add_argument(
        "addresses", nargs="*", default=[], metavar="ADDRESS", help='runtime addresses in hex; "-": from stdin'
    )
    add_stack_options(parser)
    add_goroutine_options(parser)
    parser.add_argument("--return-addresses", action="store_true", help="addresses are one past a call")
    parser.add_argument("--maps", action="store_true", help="list executable mappings with build-ids instead")
    parser.add_argument("--save-snapshot", metavar="OUT", help='write mappings and build-ids as JSON ("-": to stdout)')
    add_json_option(parser)
    add_name_options(parser)
    add_locator_options(parser)


def run(options: Namespace) -> int:
    check_goroutine_options(options)
    core = Core(options.core, programs=options.binary, sysroot=options.sysroot)
    for problem in core.problems:
        print(f"whence: skipped: {plain(problem)}", file=sys.stderr)
    if core.missing:
        print(f"whence: {plain(options.core)} is cut short: {core.missing:,} bytes are missing", file=sys.stderr)
    for path in core.unproved:
        fault = "the core lacks its first page; the file under that path fits, but is not proved to be the one"
        print(f"whence: {plain(path)}: {fault}", file=sys.stderr)
    if options.save_snapshot:
        from whence.cli.pid import save_snapshot

        return save_snapshot(core, options.save_snapshot)
    if options.maps:
        from whence.cli.maps import show_mappings

        return show_mappings(core.mappings(), options.json, f"{options.core} has no executable memory")
    try:
        addresses = addresses_from(options.addresses)
    except ValueError as error:
        complain(error, "whence core")
        return WRONG_USE
    tids = tids_wanted("core", options.thread, [thread.tid for thread in core.threads], options.core)
    if tids == []:
        return WRONG_USE
    with symbolizer_of(options) as symbolizer:
        if options.addresses:
            answers = symbolizer.symbolize(core, addresses, return_address=options.return_addresses)
            return show(answers, options.json)
        if not core.threads:
            print(f"whence: {plain(options.core)} has no thread", file=sys.stderr)
            return SOME_UNKNOWN
        if options.goroutines:
            found = core.goroutines(symbolizer, system=options.system)
            return show_goroutines(About.core(core), found, as_json=options.json, system=options.system, is_live=False)
        stacks = core.stacks(symbolizer, tids=tids, scan=options.scan)
        about = About.core(core)
        return show_stacks(about, stacks, as_json=options.json, style=options.style, registers=options.registers)
