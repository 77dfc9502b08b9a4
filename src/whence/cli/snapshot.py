"""`whence addr --snapshot FILE ADDRESS...`: runtime addresses of a process that is gone, or ran elsewhere.

Words that are no addresses are binaries or archives: they answer for the files of their build-ids.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable

from whence.cli.answers import show
from whence.cli.main import WRONG_USE
from whence.cli.words import address, plain
from whence.symbolize import from_snapshot, opener_with
from whence.symbolize.binaries import Opener


def answer_snapshot(options: Namespace) -> int:
    """Answer `options.words` (addresses; none: from stdin) by the snapshot file; gives the exit code."""
    open_binary = opener_with(options.debug_dir)
    paths, addresses = [], []
    for word in options.words:
        try:
            addresses.append(address(word))
        except ValueError:
            paths.append(word)
    try:
        addresses = addresses or [address(word) for word in sys.stdin.read().split()]
    except ValueError as error:
        print(f"whence addr: {plain(error)}", file=sys.stderr)
        return WRONG_USE
    binaries = build_ids_of(paths, open_binary)
    with from_snapshot(options.snapshot, binaries=binaries, opener=open_binary) as symbolizer:
        answers = symbolizer.answer(addresses, return_addresses=options.return_addresses)
        return show(answers, options.style == "json", not options.no_demangle)


def build_ids_of(paths: Iterable[str], opener: Opener) -> dict[str, str]:
    """Binaries and archives by their build-ids. Raises OSError, WhenceError."""
    found = {}
    for path in paths:
        binary = opener(path)
        found[binary.build_id] = path
        binary.close()
    return found
