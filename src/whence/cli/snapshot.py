"""`whence addr --snapshot FILE ADDRESS...`: runtime addresses of a stored process.

Words that are not addresses are binaries or archives, used as with --binary.
"""

from __future__ import annotations

import sys
from argparse import Namespace

from whence._base.words import STDIN, address, plain
from whence.cli.answers import show
from whence.cli.main import WRONG_USE
from whence.cli.options import symbolizer_of
from whence.symbolize import Snapshot


def answer_snapshot(options: Namespace) -> int:
    """Answer the addresses in `options.words` (none or "-": stdin) by a snapshot. Return the exit code."""
    paths, addresses = [], []
    for word in options.words:
        if word == STDIN:
            continue
        try:
            addresses.append(address(word))
        except ValueError:
            paths.append(word)
    try:
        addresses = addresses or [address(word) for word in sys.stdin.read().split()]
    except ValueError as error:
        print(f"whence addr: {plain(error)}", file=sys.stderr)
        return WRONG_USE
    process = Snapshot(options.snapshot)
    with symbolizer_of(options, given=paths) as symbolizer:
        answers = symbolizer.symbolize(process, addresses, return_address=options.return_addresses)
        return show(answers, options.style == "json")
