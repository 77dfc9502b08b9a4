"""`whence trace wire IN [-o OUT]`: the wire form of a trace."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from whence._base.streams import refuse_terminal
from whence.cli.trace_files import add_input, add_output, add_padding, converting, sink, source


def configure(parser: ArgumentParser) -> None:
    add_input(parser)
    add_output(parser)
    add_padding(parser)
    parser.add_argument("--fix-sizes", action="store_true", help="correct the size of each batch, for an edited text")


def run(options: Namespace) -> int:
    from whence.gotrace import fix_sizes, to_wire
    from whence.gotrace.convert import WireFile

    refuse_terminal(options.output, "a trace in its wire form")
    with sink(options.output) as out, converting(options):
        if not options.fix_sizes:
            to_wire(source(options.input), out, keep_padding=options.keep_padding)
            return 0
        wrong = fix_sizes(WireFile(source(options.input), keep_padding=options.keep_padding), out)
    print(f"{wrong} sizes corrected", file=sys.stderr)
    return 0
