"""`whence trace anonymize IN -o OUT`: a trace without its strings, safe to share."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from whence._base.streams import refuse_terminal
from whence.cli.trace_files import add_input, add_output, converting, readable_twice, sink


def configure(parser: ArgumentParser) -> None:
    add_input(parser, "in the wire form")
    add_output(parser)


def run(options: Namespace) -> int:
    from whence.gotrace.anonymizing import anonymize

    refuse_terminal(options.output, "a trace in its wire form")
    with sink(options.output) as out, converting(options):
        replaced = anonymize(readable_twice(options.input), out)
    print(f"{replaced} strings replaced", file=sys.stderr)
    return 0
