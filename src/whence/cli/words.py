"""Words in and out: addresses as people type them, names from processes that a terminal can bear."""

from __future__ import annotations

import re

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


def plain(text: str) -> str:
    r"""Text with everything unprintable escaped: it comes from files and processes, and goes to a terminal.

    >>> plain("a\x1b[2Jb\nc")
    'a\\x1b[2Jb\\x0ac'
    """
    if text.isprintable():
        return text
    return text.translate(_ESCAPES)


class _Escapes(dict[int, "int | str"]):
    """What each character is printed as, made when it is first met; the first KEPT are kept."""

    KEPT = 4096

    def __missing__(self, code: int) -> int | str:
        c = chr(code)
        printed = code if c.isprintable() else _escaped(c)
        if len(self) < self.KEPT:
            self[code] = printed
        return printed


_ESCAPES = _Escapes()


def _escaped(c: str) -> str:
    if "\udc80" <= c <= "\udcff":  # a byte that is not UTF-8
        return f"\\x{ord(c) - 0xDC00:02x}"
    return f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}"
