"""`whence convert IN -o OUT`: write the names of a file as an archive, GSYM or a Breakpad symbol file."""

from __future__ import annotations

import json
import os
import sys

from whence._base.options import ReadOptions
from whence._base.records import as_dict
from whence._base.words import plain
from whence.cli.main import ANSWERED, BROKEN_INPUT, SOME_UNKNOWN, WRONG_USE
from whence.cli.options import (
    add_json_option,
    add_locator_options,
    add_name_options,
    default_debug_files,
    gives_places,
    locator_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from whence.cli.parser import Parser
    from whence.conversion import Conversion

PROBLEMS_SHOWN = 20
NAMES = {"lidia": "lidia archive", "gsym": "GSYM", "sym": "Breakpad symbols"}


def configure(parser: Parser) -> None:
    parser.add_argument("file", metavar="IN", help="an object file, an archive, a GSYM file or a Breakpad symbol file")
    parser.add_argument(
        "-o", "--output", metavar="OUT", required=True,
        help="the file to write; its ending is the format: .lidia (also .lidia.gz, .lidia.zst), .gsym, .sym",
    )  # fmt: skip
    parser.add_argument("--to", choices=("lidia", "gsym", "sym"), default="", help="the format, for other endings")
    add_name_options(parser)
    add_json_option(parser, "print a summary as one JSON object")
    add_locator_options(parser)
    parser.examples(
        "whence convert app -o app.gsym                for LLVM's tools",
        "whence convert app -o app.sym                 for Breakpad, Mozilla's and Sentry's tools, with unwind rules",
        "whence convert app.gsym -o app.lidia",
        "whence convert -v app -o app.gsym             also print what the format cannot store",
    )


def run(options: Namespace) -> int:
    """Convert the file. Return 1 if nothing is named, 3 if parts of the input are damaged."""
    from whence._base.streams import refuse_terminal
    from whence.conversion import convert, format_of
    from whence.kernels.memory import share_heap
    from whence.objects.opening import split_architecture

    to = options.to or format_of(options.output)
    source, _ = split_architecture(options.file)
    if os.path.exists(options.output) and os.path.exists(source) and os.path.samefile(options.output, source):
        print(f"whence convert: {plain(options.output)} is the input itself: give another -o", file=sys.stderr)
        return WRONG_USE
    refuse_terminal(options.output, f"a file in the format {NAMES[to]}")
    share_heap()
    reading = ReadOptions(jobs=options.jobs, demangle=not options.no_demangle)
    if not gives_places(options):  # a Locator takes longer to import
        result = convert(options.file, options.output, to=to, debug_files=default_debug_files(), options=reading)
        return report(result, options)
    with locator_of(options) as locator:
        result = convert(options.file, options.output, to=to, debug_files=locator.debug_files, options=reading)
    return report(result, options)


def report(result: Conversion, options: Namespace) -> int:
    """Print what was written. Return the exit code."""
    for problem in result.problems[:PROBLEMS_SHOWN]:
        print(f"whence: skipped: {plain(problem)}", file=sys.stderr)
    if len(result.problems) > PROBLEMS_SHOWN:
        print(f"whence: and {len(result.problems) - PROBLEMS_SHOWN} more", file=sys.stderr)
    status = ANSWERED if result.functions else BROKEN_INPUT if result.problems else SOME_UNKNOWN
    if options.json:
        fields = as_dict(result) | {"input": options.file, "output": options.output}
        print(json.dumps(fields | {"seconds": round(result.seconds, 6)}))
        return status
    print(f"{plain(options.output)}: {NAMES[result.format]}, {result.size:,} bytes, in {result.seconds:.3f} s")
    if result.debug_file:
        print(f"  debug file  {plain(result.debug_file)}")
    print(f"  functions   {result.functions:,} (parts of split functions counted separately)")
    print(f"  inlined     {result.inlined:,}")
    print(f"  lines       {result.lines:,}")
    if options.verbose:
        for note in result.notes:
            print(f"  note        {plain(note)}")
        for limit in result.limits:
            print(f"  not stored  {limit}")
    return status
