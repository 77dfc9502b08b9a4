"""`whence addr --snapshot FILE ADDRESS...`: runtime addresses of a process that is gone, or ran elsewhere."""

from __future__ import annotations

import sys
from argparse import Namespace

from whence.cli.main import WRONG_USE
from whence.cli.pid import show
from whence.cli.words import address
from whence.symbolize import from_snapshot


def answer_snapshot(options: Namespace) -> int:
    """Answer `options.words` (addresses; none: from stdin) by the snapshot file; gives the exit code."""
    words = options.words or sys.stdin.read().split()
    try:
        addresses = [address(word) for word in words]
    except ValueError as error:
        print(f"whence addr: {error}", file=sys.stderr)
        return WRONG_USE
    with from_snapshot(options.snapshot) as symbolizer:
        return show(symbolizer.answer(addresses), getattr(options, "style", "") == "json")
