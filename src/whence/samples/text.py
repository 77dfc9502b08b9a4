"""Split text of any size into lines, and encode text that may have invalid characters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from whence._base.budget import Budget

PIECE = 1 << 20  # characters split at a time
CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\r\x1b")  # not in text; logs of terminals have ESC
NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # surrogates that are not an escaped byte


def utf8(text: str) -> bytes:
    r"""Encode a text as UTF-8.

    Escaped bytes (surrogateescape) are restored; other surrogates, possible in JSON, become question marks.

    >>> utf8("\u00e9\udcff"), utf8("a\ud800")
    (b'\xc3\xa9\xff', b'a?')
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return encodable(text).encode("utf-8", "surrogateescape")


def encodable(text: str) -> str:
    """Replace surrogates that are not an escaped byte by question marks."""
    return NO_BYTE.sub("?", text)


def lines_of(text: str, budget: Budget) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers from 1, without line ends. The memory of the text is charged to `budget`."""
    budget.charge(2 * len(text) if text.isascii() else 6 * len(text))
    number = start = 0
    while start <= len(text):
        end = text.find("\n", start + PIECE)
        end = len(text) if end < 0 else end
        for line in text[start:end].split("\n"):
            number += 1
            yield number, line.rstrip("\r")
        start = end + 1
