"""`whence trace pprof IN -o OUT`: CPU samples with stacks, in any format of `whence profile`."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace

from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.cli.profile_output import (
    add_profile_output,
    choose_type,
    format_asked,
    refuse_binary_on_terminal,
    write_profile,
)
from whence.cli.trace_files import add_input, converting, source


def configure(parser: ArgumentParser) -> None:
    add_input(parser, "in the wire form")
    add_profile_output(parser, "pprof")
    parser.add_argument(
        "--rate",
        type=rate,
        default=100,
        metavar="N",
        help="samples per second of CPU time (default: 100, as in Go)",
    )


def rate(word: str) -> int:
    """Parse a number of samples per second. argparse reports a ValueError."""
    number = int(word)
    if not 1 <= number <= 10**9:
        raise ValueError(word)
    return number


def run(options: Namespace) -> int:
    from whence.profiles import Profile
    from whence.profiles.formats.go_trace import read_go_trace

    format = format_asked(options) or "pprof"
    if options.output is None and not options.flamegraph:
        options.output = "-"
    refuse_binary_on_terminal(options, format, Profile())
    with converting(options):
        profile = read_go_trace(source(options.input), rate=options.rate)
    choose_type(profile, options.sample_type)
    write_profile(profile, options, format, os.path.basename(options.input) if options.input != "-" else "trace")
    samples = sum(profile.samples.values[0]) if profile.samples.values else 0
    print(f"{samples} samples", file=sys.stderr)
    return ANSWERED if samples else SOME_UNKNOWN
