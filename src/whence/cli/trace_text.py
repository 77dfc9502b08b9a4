"""`whence trace text IN [-o OUT]`: the text form of a trace."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from whence.cli.trace_files import add_input, add_output, add_padding, converting, sink, source


def configure(parser: ArgumentParser) -> None:
    add_input(parser)
    add_output(parser)
    add_padding(parser)


def run(options: Namespace) -> int:
    from whence.gotrace import to_text

    with sink(options.output) as out, converting(options):
        to_text(source(options.input), out, keep_padding=options.keep_padding)
    return 0
