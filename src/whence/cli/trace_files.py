"""What the trace subcommands share: where a trace comes from and where one goes."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


def add_input(parser: ArgumentParser, forms: str = "in either form") -> None:
    parser.add_argument("input", metavar="IN", help=f"a trace {forms}; - is standard input")


def add_output(parser: ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="OUT", default="-", help="where to write (default: standard output)")


def source(name: str) -> str | BinaryIO:
    """What a gotrace reader takes for IN."""
    return sys.stdin.buffer if name == "-" else name


@contextmanager
def sink(name: str) -> Iterator[BinaryIO]:
    """OUT, open for writing bytes."""
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with open(name, "wb") as file:
            yield file
