"""`whence trace salvage IN -o OUT`: the longest run of intact generations. Exits with 1 if others were dropped."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from whence._base.errors import TraceError
from whence._base.files import open_regular
from whence._base.mapped import MappedFile
from whence._base.streams import refuse_terminal
from whence.cli.trace_files import add_input, add_output, converting, readable_twice, sink


def configure(parser: ArgumentParser) -> None:
    add_input(parser, "in the wire form")
    add_output(parser)


def run(options: Namespace) -> int:
    from whence.gotrace.salvaging import salvage

    refuse_terminal(options.output, "a trace in its wire form")
    source = readable_twice(options.input)
    with sink(options.output) as out, converting(options):
        if isinstance(source, bytes):
            written, left = salvage(source, out)
        else:
            with open_regular(source, TraceError) as (descriptor, size):
                if not size:  # an empty file can't be mapped
                    written, left = salvage(b"", out)
                else:
                    data = MappedFile(descriptor, source, TraceError)
                    try:
                        written, left = salvage(data.view, out)
                    finally:
                        data.check()
    print(f"generations {written[0].generation} to {written[-1].generation} are intact", file=sys.stderr)
    for piece in left:
        why = piece.problem or "intact, but not adjacent to the others"
        print(f"generation {piece.generation} at {piece.start:#x} to {piece.end:#x} is dropped: {why}", file=sys.stderr)
    return 1 if left else 0
