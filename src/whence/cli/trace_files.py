"""Input, output and filter options shared by the trace subcommands."""

from __future__ import annotations

import os
import stat
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from math import isnan
from typing import TYPE_CHECKING, BinaryIO

from whence._base.errors import TraceError
from whence._base.files import atomic_write, open_input
from whence._base.streams import byte_stream
from whence.cli.progress import Progress

if TYPE_CHECKING:
    from whence.gotrace.filtering import Filter


def add_input(parser: ArgumentParser, forms: str = "in either form") -> None:
    parser.add_argument("input", metavar="IN", help=f"a trace {forms}; - is standard input")


def add_output(parser: ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="OUT", default="-", help="output file (default: standard output)")


def add_padding(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--keep-padding",
        action="store_true",
        help="preserve padded numbers (in text: leading zeros, and spaces after data=)",
    )


def source(name: str) -> str | BinaryIO:
    """Return IN in the form that a reader of gotrace accepts."""
    return sys.stdin.buffer if name == "-" else name


def converting(options: Namespace) -> Progress:
    """Return the progress line while a trace is read, unless the output itself appears on a terminal."""
    quiet = getattr(options, "output", "-") == "-" and sys.stdout.isatty() and options.subcommand not in PRINTED_LATE
    return Progress(f"trace {options.subcommand}: {options.input}", quiet=quiet)


@contextmanager
def sink(name: str) -> Iterator[BinaryIO]:
    """Open OUT for writing bytes. A file gets its name when it is complete, so that OUT may be IN."""
    if name == "-":
        out = byte_stream()
        yield out
        out.flush()
    else:
        with atomic_write(name) as file:
            yield file


def readable_twice(name: str) -> str | bytes:
    """Return IN for a reader that reads it twice: the bytes if it can be read only once."""
    if name == "-":
        return sys.stdin.buffer.read()
    if os.path.exists(name) and stat.S_ISFIFO(os.stat(name).st_mode):
        with open_input(name, TraceError) as file:
            return file.read()
    return name


def add_filter(parser: ArgumentParser) -> None:
    """Add --from, --to, --goroutine, --event and --generation."""
    times = "seconds from the trace's start, or with a unit (1.5s, 20ms, 7us, 9ns)"
    parser.add_argument("--from", dest="since", type=seconds, metavar="TIME", help=times)
    parser.add_argument("--to", dest="until", type=seconds, metavar="TIME", help="end (exclusive), like --from")
    parser.add_argument("--goroutine", type=numbers, metavar="N,N-M", help="goroutines, by number")
    parser.add_argument("--event", type=event_names, metavar="NAME,NAME", help="kinds of event")
    parser.add_argument("--generation", type=numbers, metavar="N,N-M", help="generations, by number")


def filter_of(options: Namespace) -> Filter:
    """Return the filter that the options of add_filter describe."""
    from whence.gotrace.filtering import Filter

    return Filter(
        generations=options.generation or frozenset(),
        since=options.since,
        until=options.until,
        goroutines=options.goroutine or frozenset(),
        events=options.event or frozenset(),
    )


def numbers(text: str) -> frozenset[int]:
    """Parse numbers and ranges of numbers."""
    from whence.gotrace.filtering import parse_numbers

    return parse_numbers(text)


def event_names(text: str) -> frozenset[str]:
    """Parse names of events of any version."""
    from whence.gotrace.specs import CURRENT

    names = frozenset(text.split(","))
    unknown = sorted(names - CURRENT.specs.by_name.keys())
    if unknown:
        raise ArgumentTypeError(f"no event is named {unknown[0]!r}")
    return names


PRINTED_LATE = ("info", "verify")  # print after reading everything
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def seconds(text: str) -> float:
    """Parse a time with an optional unit.

    >>> seconds("20ms")
    0.02
    """
    for unit, size in UNITS.items():
        if text.endswith(unit) and text.removesuffix(unit)[-1:].isdigit():
            return float(text.removesuffix(unit)) * size
    time = float(text)
    if isnan(time):
        raise ValueError(text)
    return time
