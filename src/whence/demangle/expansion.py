"""How long the text of a mangled name can become, for names with many references. Imported when one comes along.

A name of 255 bytes can stand for a gigabyte of text: its parts refer back to other parts, which refer back to others.
k references make text at most 3^(k/3) times as long; where that says nothing, a C++ name is walked through.
"""

from __future__ import annotations

import re

from whence.demangle.kernels.expansion import expansion

MAX_TEXT = 1 << 26  # characters, as estimated; one character of a name can stand for some twenty of text

REFERENCES = {
    "Z": re.compile(r"S[0-9A-Z]*_|T[0-9L_]*_|Dp|sp"),
    "R": re.compile(r"B[0-9a-zA-Z]*_"),
    "$": re.compile(r"A[a-z0-9]*[A-Z_]|x|q"),
}


def bounded(name: str, most: int = MAX_TEXT) -> bool:
    """Whether the text of a mangled name is sure to have at most so many characters."""
    start = name.lstrip("_")
    references = len(REFERENCES.get(start[:1], REFERENCES["$"]).findall(name))
    if len(name) * 3 ** (references / 3) <= most:
        return True
    return start[:1] == "Z" and expansion(start[1:].encode("utf-8", "surrogateescape"), most) <= most
