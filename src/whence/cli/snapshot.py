"""`whence addr --snapshot FILE ADDRESS...`: runtime addresses of a process that is gone, or ran elsewhere.

Words that are no addresses are binaries or archives: they answer for the files of their build-ids, as --binary does.
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
    """Answer `options.words` (addresses; none, or "-": from stdin) by the snapshot file; returns the exit code."""
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
