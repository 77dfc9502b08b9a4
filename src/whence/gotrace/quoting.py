"""Go's notions of a quoted string, of white space and of a token, as its trace texts use them."""

from __future__ import annotations

from whence.errors import TraceError
from whence.gotrace.kernels import quote as quote_kernel
from whence.gotrace.printable import changes

SPACES = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""unicode.IsSpace: what Python's str.isspace has, without U+001C to U+001F."""


def quote(data: bytes) -> str:
    r"""Bytes as strconv.Quote writes them.

    >>> print(quote(b"a\x00\xff\n\xe2\x82\xac"))
    "a\x00\xff\n€"
    """
    out = bytearray(len(data) * 4 + 64)
    return out[: quote_kernel.quote(data, changes(), out)].decode()


def unquote(text: str) -> bytes:
    r"""What a Go string literal ("...", `...` or '.') stands for, as strconv.Unquote has it.

    >>> unquote(r'"\u20ac\x00\101"')
    b'\xe2\x82\xac\x00A'
    """
    data = text.encode("utf-8", "surrogateescape")
    out = bytearray(3 * len(data) + 64)
    size = quote_kernel.unquote(data, out)
    if size < 0:
        raise TraceError("literal", None, "a string is quoted as Go quotes one", text)
    return bytes(out[:size])


def is_space(character: str) -> bool:
    """unicode.IsSpace."""
    return character in SPACES


def is_blank(text: str) -> bool:
    """Whether there is nothing but white space."""
    return not text.strip(SPACES)


def tokens(line: str) -> list[tuple[str, int]]:
    """The tokens of a line, with where each starts; a # ends the line."""
    found: list[tuple[str, int]] = []
    at = 0
    while at < len(line):
        if line[at] in SPACES:
            at += 1
            continue
        if line[at] == "#":
            break
        start = at
        while at < len(line) and line[at] not in SPACES and line[at] != "#":
            at += 1
        found.append((line[start:at], start))
    return found
