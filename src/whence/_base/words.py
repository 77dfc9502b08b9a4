"""Numbers and addresses in text that people type."""

from __future__ import annotations

from whence._base.errors import plain

__all__ = ["STDIN", "address", "is_address", "plain", "threads"]

STDIN = "-"  # in place of a file, or of addresses
HEX = frozenset("0123456789abcdefABCDEF")
ADDRESS_DIGITS = 16


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def is_address(word: str) -> bool:
    """Return True if a word is an address in hex, with or without 0x.

    >>> is_address("0x10"), is_address("ff"), is_address("1_0"), is_address("0x"), is_address("1" * 17)
    (True, True, False, False, False)
    """
    digits = word[2:] if word.startswith(("0x", "0X")) else word
    return 0 < len(digits) <= ADDRESS_DIGITS and HEX.issuperset(digits)


def address(word: str) -> int:
    """Return an address in hex, with or without 0x, as a number. Raises ValueError.

    >>> address("0x10"), address("ff")
    (16, 255)
    """
    stripped = word.strip()
    if not is_address(stripped):
        raise ValueError(f"{word!r} is not an address in hex")
    return int(stripped, 16)


def threads(word: str) -> int:
    """Return a number of threads. Raises ValueError."""
    number = int(word)
    if number < 1:
        raise ValueError(f"the number of threads is {word}, expected at least 1")
    return number
