"""The text in the strings of a JSON object as it reads without escapes, and where in the object each byte of it is.

>>> text = JsonText(JSON_TEXT.search(rb'{"log":"a\\u00e9 \\"main\\""}', 8))
>>> text.text.decode(), text.place(5)
('a\u00e9 "main"', 18)
"""

from __future__ import annotations

import re
from bisect import bisect_right
from operator import itemgetter

JSON_TEXT = re.compile(rb'(?:\\n)?+(?P<text>(?:[^"\\]|\\[^n]){4,}+)')  # a line of a string; shorter ones hold no frame
JSON_ESCAPE = re.compile(rb"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<letter>.))")
JSON_LETTERS = {b"b": b"\b", b"f": b"\f", b"r": b"\r", b"t": b"\t"}


class JsonText:
    """A line of a string of a JSON object, and what it reads as."""

    __slots__ = ("_escapes", "_start", "text")

    def __init__(self, found: re.Match[bytes]) -> None:
        """`found` is a match of `JSON_TEXT` in the object."""
        raw = self.text = found["text"]
        self._start = found.start("text")
        self._escapes: list[tuple[int, int]] = []  # the ends of escapes: in the text, in the raw bytes
        if b"\\" not in raw:
            return
        out = bytearray()
        done = 0
        for escape in JSON_ESCAPE.finditer(raw):
            out += raw[done : escape.start()]
            if escape["code"]:
                out += chr(int(escape["code"], 16)).encode("utf-8", "surrogatepass")
            else:
                out += JSON_LETTERS.get(escape["letter"], escape["letter"])
            done = escape.end()
            self._escapes.append((len(out), done))
        self.text = bytes(out + raw[done:])

    def place(self, at: int) -> int:
        """The offset in the object of the byte at offset `at` of the text."""
        before = bisect_right(self._escapes, at, key=itemgetter(0)) - 1
        behind, raw = self._escapes[before] if before >= 0 else (0, 0)
        return self._start + raw + at - behind
