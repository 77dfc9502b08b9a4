"""`whence trace pprof IN -o OUT.pb.gz`: CPU samples with their stacks."""

from __future__ import annotations

import gzip
import sys
from argparse import ArgumentParser, Namespace

from whence.cli.streams import by_ending, refuse_terminal
from whence.cli.trace_files import add_input, add_output, converting, sink, source


def configure(parser: ArgumentParser) -> None:
    add_input(parser, "in the wire form")
    add_output(parser)
    parser.add_argument(
        "--rate", type=rate, default=100, metavar="N", help="samples a second of CPU time (default: 100, Go's own)"
    )


def rate(word: str) -> int:
    """Samples a second."""
    number = int(word)
    if not 1 <= number <= 10**9:
        raise ValueError(word)
    return number


def run(options: Namespace) -> int:
    from whence.gotrace.samples import cpu_profile
    from whence.profiles.formats import ENDINGS

    by_ending(options.output, [one for one in ENDINGS if one[1] == "pprof"], "a pprof profile")
    refuse_terminal(options.output, "a pprof profile")
    with converting(options):
        profile, samples = cpu_profile(source(options.input), rate=options.rate)
    with sink(options.output) as out:
        out.write(gzip.compress(profile, mtime=0))
    print(f"{samples} samples", file=sys.stderr)
    return 0 if samples else 1
