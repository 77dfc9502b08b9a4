"""`whence trace filter IN -o OUT`: part of a trace as a trace that Go's parser takes."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from whence._base.streams import refuse_terminal
from whence.cli.trace_files import add_filter, add_input, add_output, chosen, converting, readable_twice, sink


def configure(parser: ArgumentParser) -> None:
    add_input(parser, "in the wire form")
    add_output(parser)
    add_filter(parser)
    parser.epilog = (
        "What ran where is the skeleton of a trace and stays in every generation that does; measurements, user tasks, "
        "regions and logs, labels, CPU samples and whole families of ranges can go."
    )


def run(options: Namespace) -> int:
    from whence.gotrace.filtering import filter as filter_trace

    refuse_terminal(options.output, "a trace in its wire form")
    with sink(options.output) as out, converting(options):
        done = filter_trace(readable_twice(options.input), out, chosen(options))
    print(f"{done.generations} generations, {done.kept} events kept, {done.dropped} left out", file=sys.stderr)
    return 0
