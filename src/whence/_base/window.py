"""Bounds-checked bytes of a named part of a file, for parsers outside the kernels.

A window has a name (for errors), a byte order, and the error class of its format. Reading past its end raises that
error with the offset.
"""

from __future__ import annotations

import struct

from whence._base.errors import DwarfError, FormatError, cut_off, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from typing_extensions import Buffer

    ByteOrder = Literal["little", "big"]
else:
    ByteOrder = str

LEB_BYTES = 10  # of a 64-bit number as LEB128; more say nothing
LEB_BITS = 7  # of a byte
LEB_MORE = 1 << LEB_BITS  # another byte follows
ORDERS: tuple[ByteOrder, ...] = ("little", "big")


def uleb(data: bytes | memoryview, offset: int, end: int, longest: int = LEB_BYTES) -> tuple[int, int]:
    """Return the ULEB128 number at `offset`, which ends before `end`, and its end.

    Raises:
        EOFError: the number is cut off.
        OverflowError: the number has more than `longest` bytes.
    """
    value = 0
    for index in range(offset, min(end, offset + longest)):
        byte = data[index]
        value |= (byte & ~LEB_MORE) << LEB_BITS * (index - offset)
        if not byte & LEB_MORE:
            return value, index + 1
    if end - offset < longest:
        raise EOFError("LEB128 number cut off")
    raise OverflowError(f"LEB128 number has more than {longest} bytes")


def sleb(data: bytes | memoryview, offset: int, end: int) -> tuple[int, int]:
    """Return the SLEB128 number at `offset` and its end, otherwise like `uleb`."""
    value, after = uleb(data, offset, end)
    bits = LEB_BITS * (after - offset)
    return value - (1 << bits) if value >> bits - 1 else value, after


def cstring(data: memoryview, offset: int) -> bytes:
    r"""Return the bytes from `offset` to the next NUL, or to the end; b"" for an offset past the end.

    >>> cstring(memoryview(b"\0main\0exit"), 1), cstring(memoryview(b"\0main\0exit"), 6)
    (b'main', b'exit')
    """
    size = 64
    while offset < len(data):
        chunk = bytes(data[offset : offset + size])
        head, nul, _ = chunk.partition(b"\0")
        if nul or len(chunk) < size:
            return head
        size *= 8
    return b""


class Window:
    """A view of bytes that belong to one part of a file.

    >>> Window(b"\\x7fELF\\x02", "ident").u8(4)
    2
    >>> Window(b"ab", "ident").u32(1)
    Traceback (most recent call last):
    whence._base.errors.FormatError: format ident+0x1: truncated: needs 4 bytes, 1 left
    """

    __slots__ = ("_fmt", "data", "error", "name", "order")

    def __init__(
        self, data: Buffer, name: str, order: ByteOrder = "little", error: type[FormatError] = FormatError
    ) -> None:
        view = memoryview(data)
        self.data = view if view.format == "B" else view.cast("B")
        self.name = name
        self.order: ByteOrder = order
        self.error = error
        self._fmt = "<" if order == "little" else ">"

    def __len__(self) -> int:
        return len(self.data)

    def need(self, offset: int, size: int) -> None:
        """Raise unless [offset, offset + size) is inside the window."""
        if offset < 0 or size < 0 or offset + size > len(self.data):
            raise cut_off(self.error, self.name, offset, size, max(0, len(self.data) - offset))

    def raw(self, offset: int, size: int) -> bytes:
        """Return a copy of [offset, offset + size)."""
        self.need(offset, size)
        return bytes(self.data[offset : offset + size])

    def sub(self, offset: int, size: int, name: str) -> Window:
        """Return [offset, offset + size) as a window, whose errors count from its own start."""
        self.need(offset, size)
        return Window(self.data[offset : offset + size], name, self.order, self.error)

    def unpack(self, layout: str, offset: int) -> tuple[int, ...]:
        """Return the fields of a struct layout (without byte-order mark) in the window's byte order."""
        full = self._fmt + layout
        self.need(offset, struct.calcsize(full))
        return struct.unpack_from(full, self.data, offset)

    def u8(self, offset: int) -> int:
        self.need(offset, 1)
        return self.data[offset]

    def u16(self, offset: int) -> int:
        return self.unpack("H", offset)[0]

    def u32(self, offset: int) -> int:
        return self.unpack("I", offset)[0]

    def u64(self, offset: int) -> int:
        return self.unpack("Q", offset)[0]

    def cstring(self, offset: int) -> bytes:
        """Return the bytes from `offset` to the next NUL, which must be inside the window."""
        self.need(offset, 1)
        text = cstring(self.data, offset)
        if offset + len(text) == len(self.data):
            raise self.error(self.name, offset, f"a string has no NUL before the end: {shown(text[:16])}")
        return text


class Cursor:
    """A reader of numbers in a DWARF section, with its offset. Raises DwarfError at the end.

    >>> cursor = Cursor(b"\\xe5\\x8e\\x26\\x7f", ".eh_frame")
    >>> cursor.uleb(), cursor.sleb()
    (624485, -1)
    """

    __slots__ = ("data", "end", "offset", "order", "part")

    def __init__(
        self, data: bytes | memoryview, part: str, offset: int = 0, end: int | None = None, order: ByteOrder = "little"
    ) -> None:
        self.data, self.part, self.offset, self.order = data, part, offset, order
        self.end = len(data) if end is None else end

    def take(self, size: int) -> bytes:
        offset = self.offset
        if size < 0 or offset + size > self.end:
            raise cut_off(DwarfError, self.part, offset, size, max(0, self.end - offset))
        self.offset = offset + size
        return bytes(self.data[offset : offset + size])

    def u8(self) -> int:
        if self.offset >= self.end:
            raise cut_off(DwarfError, self.part, self.offset, 1, 0)
        self.offset += 1
        return self.data[self.offset - 1]

    def unsigned(self, size: int) -> int:
        return int.from_bytes(self.take(size), self.order)

    def signed(self, size: int) -> int:
        return int.from_bytes(self.take(size), self.order, signed=True)

    def uleb(self) -> int:
        return self._leb(uleb)

    def sleb(self) -> int:
        return self._leb(sleb)

    def _leb(self, read: Callable[[bytes | memoryview, int, int], tuple[int, int]]) -> int:
        start = self.offset
        try:
            value, self.offset = read(self.data, start, self.end)
        except EOFError:
            raise cut_off(DwarfError, self.part, max(start, self.end), 1, 0) from None
        except OverflowError as error:
            raise DwarfError(self.part, start, str(error)) from None
        return value

    def cstring(self) -> bytes:
        text = bytearray()
        while byte := self.u8():
            text.append(byte)
        return bytes(text)
