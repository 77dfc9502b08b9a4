"""Texts of maps that claim much."""

from __future__ import annotations

SIZE = 2_000_000


TEXTS = {
    "blanks": b" " * SIZE,
    "newlines": b"\n" * SIZE,
    "digits": b"0" * SIZE,
    "a long name": b"1000 10 " + b"x" * SIZE,
    "blanks in a symbol": b"1000 t a" + b" " * SIZE + b"b",
    "blanks behind brackets": b"1000 t a [" * (SIZE // 10),
    "backslashes": b"1000-2000 r-xp 0 0:0 0 " + b"\\012" * (SIZE // 4) + b"\n",
    "one address": b"1000 10 x\n" * (SIZE // 10),
    "overlaps": b"".join(b"%x ffffffff f\n" % row for row in range(SIZE // 16)),
}
