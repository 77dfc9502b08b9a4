"""Words in and out: addresses as people type them, names from processes that a terminal can bear."""

from __future__ import annotations

import re

from whence.errors import plain

__all__ = ["ADDRESS", "address", "plain", "threads"]

ADDRESS = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,16})")


def address(word: str) -> int:
    """An address in hex, with or without 0x. Raises ValueError.

    >>> address("0x10"), address("ff")
    (16, 255)
    """
    match = ADDRESS.fullmatch(word.strip())
    if match is None:
        raise ValueError(f"{word!r} is not an address in hex")
    return int(match[1], 16)


def threads(word: str) -> int:
    """A number of threads. Raises ValueError."""
    number = int(word)
    if number < 1:
        raise ValueError(f"{word} threads do no work")
    return number
