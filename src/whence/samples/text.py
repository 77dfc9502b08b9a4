"""Text of any size, a line at a time, and the bytes that it is written as."""

from __future__ import annotations

import re
from collections.abc import Iterator

from whence._base.budget import Budget

PIECE = 1 << 20  # characters that are split at a time
CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\r\x1b")  # that no text has; logs of terminals have ESC
NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # surrogates that stand for no byte


def utf8(text: str) -> bytes:
    r"""The bytes of a text. What was no UTF-8 when it was read is as it came; other surrogates, which texts of JSON may
    have, become question marks.

    >>> utf8("\u00e9\udcff"), utf8("a\ud800")
    (b'\xc3\xa9\xff', b'a?')
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return encodable(text).encode("utf-8", "surrogateescape")


def encodable(text: str) -> str:
    """The text with question marks for surrogates that stand for no byte."""
    return NO_BYTE.sub("?", text)


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
