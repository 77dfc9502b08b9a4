"""Stack tokens: a native stack as a short text for logs, chats and URLs, to be named later by build-id.

    wst1.BASNFZ4kDE5BHSg    version, then payload: characters of base64url (RFC 4648, section 5), 6 bits each

    payload   head, modules, frames, check
    head      1 character: bit 5: the first address is a return address, too; bits 0-4: number of modules
    module    7 characters: the first 5 bytes of its build-id, then 2 zero bits; 40 zero bits: no build-id
    frame     [6 bits] [module] magnitude
                  bit 5     a module number follows (1 character; 63: no module, the address is a runtime address)
                  bit 4     the delta is negative
                  bits 1-3  number of characters of the magnitude: 1, 2, 3, 4, 5, 6, 8, 11
                  bit 0     highest bit of the magnitude
    check     2 characters: 12 bits of FNV-1a (32 bits) of the payload before, folded: h ^ h >> 12 ^ h >> 24

Frames are innermost first, and begin in module 0. A frame's address is the previous address of the same module (0 at
first) plus or minus the magnitude: a vaddr, as in the headers of the file. All addresses but the first are return
addresses; the head says whether the first is one, too. docs/formats/stack-token.md has an example.

>>> token = encode(StackToken(("0123456789",), (TokenFrame(0, 0x1139), TokenFrame(0, 0x1180))))
>>> token
'wst1.BASNFZ4kDE5BHSg'
>>> decode(token).frames
(TokenFrame(module=0, address=4409), TokenFrame(module=0, address=4480))
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from whence._base.errors import FormatError
from whence._base.records import Record

PREFIX = "wst1."
PATTERN = re.compile(rb"\bwst1\.[A-Za-z0-9_-]{3,4096}+")
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
VALUES = {character: value for value, character in enumerate(ALPHABET)}
LENGTHS = 1, 2, 3, 4, 5, 6, 8, 11  # characters of a magnitude, by code
MODULES_LIMIT = 31
FRAMES_LIMIT = 1024
NO_MODULE = 63
ID_DIGITS = 10  # hex digits of a build-id in a token
ID_CHARACTERS = 7
CHECK_CHARACTERS = 2
RETURN_FIRST, MODULE_COUNT = 32, 31  # of the head
SWITCH, NEGATIVE = 32, 16  # of a frame
ADDRESS_MASK = (1 << 64) - 1


class TokenError(FormatError):
    """A stack token is damaged or of another version."""

    format = "stack token"


class TokenFrame(NamedTuple):
    """An address: a vaddr of `modules[module]`, or a runtime address if `module` is None."""

    module: int | None
    address: int


class StackToken(Record, frozen=True):
    """A stack.

    Attributes:
        modules: the first ten hex digits of each build-id; "" for a module without one.
        frames: innermost first.
        is_return: True if the first address is a return address, too.
    """

    modules: tuple[str, ...]
    frames: tuple[TokenFrame, ...]
    is_return: bool = False


def encode(stack: StackToken) -> str:
    """Return the token of a stack.

    Modules beyond the 31st are left out: their frames keep the address, without a module.
    """
    modules = stack.modules[:MODULES_LIMIT]
    payload = [ALPHABET[len(modules) | (RETURN_FIRST if stack.is_return else 0)]]
    ids = (int(build_id[:ID_DIGITS].ljust(ID_DIGITS, "0"), 16) for build_id in modules)
    payload += [_characters(number << 2, ID_CHARACTERS) for number in ids]
    current: int | None = 0
    previous: dict[int | None, int] = {}
    for module, address in stack.frames[:FRAMES_LIMIT]:
        if module is not None and module >= len(modules):
            module = None
        delta = address - previous.get(module, 0)
        previous[module] = address
        magnitude = abs(delta)
        code = next(code for code, length in enumerate(LENGTHS) if magnitude >> 6 * length < 2)
        length = LENGTHS[code]
        first = code << 1 | magnitude >> 6 * length | (NEGATIVE if delta < 0 else 0)
        if module != current:
            current = module
            payload.append(ALPHABET[first | SWITCH] + ALPHABET[NO_MODULE if module is None else module])
        else:
            payload.append(ALPHABET[first])
        payload.append(_characters(magnitude & (1 << 6 * length) - 1, length))
    text = "".join(payload)
    return PREFIX + text + _characters(check_of(text), CHECK_CHARACTERS)


def decode(token: str) -> StackToken:
    """Return the stack of a token. Raises TokenError if it is damaged, cut off, or of another version."""
    if not token.startswith(PREFIX):
        raise TokenError("", 0, f"expected {PREFIX!r} at the start")
    text = token[len(PREFIX) :]
    values = [VALUES.get(character, -1) for character in text]
    if -1 in values:
        raise TokenError("", len(PREFIX) + values.index(-1), "not a character of base64url")
    body, check = text[:-CHECK_CHARACTERS], text[-CHECK_CHARACTERS:]
    if not body or _characters(check_of(body), CHECK_CHARACTERS) != check:
        raise TokenError(
            "", len(token) - CHECK_CHARACTERS, "the check does not match: characters are missing or changed"
        )
    reader = _Reader(values[:-CHECK_CHARACTERS])
    head = reader.number(1)
    modules = tuple(_hex(reader.number(ID_CHARACTERS) >> 2) for _ in range(head & MODULE_COUNT))
    frames: list[TokenFrame] = []
    current: int | None = 0
    previous: dict[int | None, int] = {}
    while reader.left:
        first = reader.number(1)
        if first & SWITCH:
            number = reader.number(1)
            current = None if number == NO_MODULE else number
        if current is not None and current >= len(modules):
            raise reader.error(f"module {current} of {len(modules)}")
        length = LENGTHS[first >> 1 & 7]
        magnitude = (first & 1) << 6 * length | reader.number(length)
        address = previous.get(current, 0) + (-magnitude if first & NEGATIVE else magnitude)
        if not 0 <= address <= ADDRESS_MASK:
            raise reader.error("the address has more than 64 bits")
        previous[current] = address
        frames.append(TokenFrame(current, address))
        if len(frames) > FRAMES_LIMIT:
            raise reader.error(f"more than {FRAMES_LIMIT:,} frames")
    return StackToken(modules, tuple(frames), bool(head & RETURN_FIRST))


def token_of(frames: Iterable[tuple[str, int]], *, is_return: bool = False) -> str:
    """Return the token of frames as pairs: the build-id in hex and a vaddr, or "" and a runtime address."""
    modules: dict[str, int] = {}
    entries = [
        TokenFrame(modules.setdefault(build_id[:ID_DIGITS], len(modules)) if build_id else None, address)
        for build_id, address in frames
    ]
    return encode(StackToken(tuple(modules), tuple(entries), is_return))


def check_of(text: str) -> int:
    """Return the 12-bit check of a payload."""
    value = 0x811C9DC5
    for byte in text.encode("ascii"):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return (value ^ value >> 12 ^ value >> 24) & 0xFFF


def _characters(value: int, count: int) -> str:
    return "".join(ALPHABET[value >> 6 * index & 63] for index in reversed(range(count)))


def _hex(value: int) -> str:
    return f"{value:0{ID_DIGITS}x}" if value else ""


class _Reader:
    """Reads numbers of a payload."""

    def __init__(self, values: list[int]) -> None:
        self._values = values
        self._offset = 0

    @property
    def left(self) -> int:
        return len(self._values) - self._offset

    def number(self, count: int) -> int:
        """Return the number in the next characters. Raises TokenError if there are too few."""
        if count > self.left:
            raise self.error(f"truncated: needs {count} characters, {self.left} left")
        value = 0
        for digit in self._values[self._offset : self._offset + count]:
            value = value << 6 | digit
        self._offset += count
        return value

    def error(self, fault: str) -> TokenError:
        return TokenError("", len(PREFIX) + self._offset, fault)
