"""Text of any size, a line at a time."""

from __future__ import annotations

from collections.abc import Iterator

from whence.budget import Budget

PIECE = 1 << 20  # characters that are split at a time


def lines_of(text: str, budget: Budget) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1, without what ends them. The text's own memory is charged."""
    budget.charge(2 * len(text) if text.isascii() else 6 * len(text))
    number = start = 0
    while start <= len(text):
        end = text.find("\n", start + PIECE)
        end = len(text) if end < 0 else end
        for line in text[start:end].split("\n"):
            number += 1
            yield number, line.rstrip("\r")
        start = end + 1
