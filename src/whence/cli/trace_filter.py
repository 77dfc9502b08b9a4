"""`whence trace filter IN -o OUT`: part of a trace that Go's parser accepts."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from whence._base.streams import refuse_terminal
from whence.cli.trace_files import add_filter, add_input, add_output, converting, filter_of, readable_twice, sink


def configure(parser: ArgumentParser) -> None:
    add_input(parser, "in the wire form")
    add_output(parser)
    add_filter(parser)
    parser.epilog = (
        "Events about what ran where are kept in every written generation. Measurements, user tasks, regions and\n"
        "logs, labels, CPU samples and families of ranges can be removed."
    )


def run(options: Namespace) -> int:
    from whence.gotrace.filtering import filter as filter_trace

    refuse_terminal(options.output, "a trace in its wire form")
    with sink(options.output) as out, converting(options):
        done = filter_trace(readable_twice(options.input), out, filter_of(options))
    print(f"{done.generations} generations, {done.kept} events kept, {done.dropped} removed", file=sys.stderr)
    return 0
