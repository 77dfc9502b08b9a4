"""Named, bounds-checked bytes: how every parser outside the kernels reads.

A window knows its name (for errors), its byte order and which error its format raises. Reading past its end raises
that error with the offset and the rule; it never returns short.
"""

from __future__ import annotations

import struct

from whence.errors import FormatError, cut_off

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from typing_extensions import Buffer

    ByteOrder = Literal["little", "big"]
else:
    ByteOrder = str

ORDERS: tuple[ByteOrder, ...] = ("little", "big")


def cstring(data: memoryview, offset: int) -> bytes:
    """The bytes from offset to the next NUL, or to the end where there is none; b"" for an offset behind the end.

    >>> cstring(memoryview(b"\\0main\\0exit"), 1), cstring(memoryview(b"\\0main\\0exit"), 6)
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
    whence.errors.FormatError: format ident+0x1: cut off: 4 bytes are needed, 1 is left
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
        """Raise unless [offset, offset + size) lies inside."""
        if offset < 0 or size < 0 or offset + size > len(self.data):
            raise cut_off(self.error, self.name, offset, size, max(0, len(self.data) - offset))

    def raw(self, offset: int, size: int) -> bytes:
        """A copy of [offset, offset + size)."""
        self.need(offset, size)
        return bytes(self.data[offset : offset + size])

    def sub(self, offset: int, size: int, name: str) -> Window:
        """The part [offset, offset + size) as a window of its own: its errors count from its own start."""
        self.need(offset, size)
        return Window(self.data[offset : offset + size], name, self.order, self.error)

    def unpack(self, layout: str, offset: int) -> tuple[int, ...]:
        """Fields of a struct layout (without byte-order mark) in this window's byte order."""
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
        """The bytes from offset to the next NUL, which must be inside."""
        self.need(offset, 1)
        found = cstring(self.data, offset)
        if offset + len(found) == len(self.data):
            raise self.error(self.name, offset, "a string ends with a NUL inside its table", found[:16])
        return found
