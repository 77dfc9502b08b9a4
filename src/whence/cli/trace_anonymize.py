"""`whence trace anonymize IN -o OUT`: a trace that can be shown to strangers."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from whence.cli.trace_files import add_input, add_output, readable_twice, sink


def configure(parser: ArgumentParser) -> None:
    add_input(parser, "in the wire form")
    add_output(parser)


def run(options: Namespace) -> int:
    from whence.gotrace.anonymize import anonymize

    with sink(options.output) as out:
        replaced = anonymize(readable_twice(options.input), out)
    print(f"{replaced} strings replaced", file=sys.stderr)
    return 0
