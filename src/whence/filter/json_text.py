r"""Text in the strings of a JSON object, without escapes, and the offset in the object of each byte.

>>> text = JsonText(JSON_TEXT.search(rb'{"log":"a\u00e9 \"main\""}', 8))
>>> text.text.decode(), text.offset(5)
('aé "main"', 18)
"""

from __future__ import annotations

import re
from bisect import bisect_right
from operator import itemgetter

JSON_TEXT = re.compile(rb'(?:\\n)?(?P<text>(?>(?:[^"\\]|\\[^n]){4,}))')  # a line with enough bytes for a frame
JSON_ESCAPE = re.compile(rb"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<letter>.))")
JSON_LETTERS = {b"b": b"\b", b"f": b"\f", b"r": b"\r", b"t": b"\t"}


class JsonText:
    """A line of a string of a JSON object, without escapes; made of a match of JSON_TEXT."""

    __slots__ = ("_escapes", "_start", "text")

    def __init__(self, match: re.Match[bytes]) -> None:
        raw = self.text = match["text"]
        self._start = match.start("text")
        self._escapes: list[tuple[int, int]] = []  # ends of escapes: in the text, in the raw bytes
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

    def offset(self, position: int) -> int:
        """Return the offset in the object of a byte at `position` of the text."""
        before = bisect_right(self._escapes, position, key=itemgetter(0)) - 1
        text_end, raw = self._escapes[before] if before >= 0 else (0, 0)
        return self._start + raw + position - text_end
