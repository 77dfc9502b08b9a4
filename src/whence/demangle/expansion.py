"""A bound of the length of a demangled name, for names with many references.

A name of 255 bytes can become a gigabyte of text: its parts refer back to other parts, which refer back to others.
k references make the text at most 3^(k/3) times as long; where that bound is too large, a C++ name is walked through.
"""

from __future__ import annotations

import re

from whence.demangle.kernels.expansion import expansion

MAX_TEXT = 1 << 26  # characters, as estimated; one character of a name can become some twenty

REFERENCES = {
    "Z": re.compile(r"S[0-9A-Z]*_|T[0-9L_]*_|Dp|sp"),
    "R": re.compile(r"B[0-9a-zA-Z]*_"),
    "$": re.compile(r"A[a-z0-9]*[A-Z_]|x|q"),
}


def is_bounded(name: str, limit: int = MAX_TEXT) -> bool:
    """Return True if the text of a mangled name has certainly at most `limit` characters."""
    start = name.lstrip("_")
    references = len(REFERENCES.get(start[:1], REFERENCES["$"]).findall(name))
    if len(name) * 3 ** (references / 3) <= limit:
        return True
    return start[:1] == "Z" and expansion(start[1:].encode("utf-8", "surrogateescape"), limit) <= limit
