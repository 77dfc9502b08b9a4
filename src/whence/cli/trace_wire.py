"""`whence trace wire IN [-o OUT]`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from whence.cli.trace_files import add_input, add_output, sink, source


def configure(parser: ArgumentParser) -> None:
    add_input(parser)
    add_output(parser)
    parser.add_argument(
        "--keep-padding",
        action="store_true",
        help="keep how many bytes each number takes on the wire (in text: leading zeros, and spaces after data=)",
    )


def run(options: Namespace) -> int:
    from whence.gotrace import to_wire

    with sink(options.output) as out:
        to_wire(source(options.input), out, keep_padding=options.keep_padding)
    return 0
