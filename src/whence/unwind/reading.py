"""Numbers of call frame information and of its expressions, read in order, never past the end."""

from __future__ import annotations

from whence.errors import DwarfError, cut_off
from whence.window import ByteOrder

LEB_BYTES = 10  # of a 64-bit number; more say nothing


class Cursor:
    """A place in bytes that moves as numbers are read. Raises DwarfError at the end.

    >>> cursor = Cursor(b"\\xe5\\x8e\\x26\\x7f", ".eh_frame")
    >>> cursor.uleb(), cursor.sleb()
    (624485, -1)
    """

    __slots__ = ("at", "data", "end", "order", "part")

    def __init__(
        self, data: bytes | memoryview, part: str, offset: int = 0, end: int | None = None, order: ByteOrder = "little"
    ) -> None:
        self.data, self.part, self.at, self.order = data, part, offset, order
        self.end = len(data) if end is None else end

    def take(self, size: int) -> bytes:
        offset = self.at
        if size < 0 or offset + size > self.end:
            raise cut_off(DwarfError, self.part, offset, size, max(0, self.end - offset))
        self.at = offset + size
        return bytes(self.data[offset : offset + size])

    def u8(self) -> int:
        if self.at >= self.end:
            raise cut_off(DwarfError, self.part, self.at, 1, 0)
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self, size: int) -> int:
        return int.from_bytes(self.take(size), self.order)

    def signed(self, size: int) -> int:
        return int.from_bytes(self.take(size), self.order, signed=True)

    def uleb(self) -> int:
        value, _ = self._leb()
        return value

    def sleb(self) -> int:
        value, bits = self._leb()
        return value - (1 << bits) if value >> bits - 1 else value

    def _leb(self) -> tuple[int, int]:
        """The bits of a LEB128 number, and how many they are."""
        start, value, shift = self.at, 0, 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value, shift
            if shift >= 7 * LEB_BYTES:
                raise DwarfError(self.part, start, f"a LEB128 number has at most {LEB_BYTES} bytes", "more")

    def cstring(self) -> bytes:
        found = bytearray()
        while byte := self.u8():
            found.append(byte)
        return bytes(found)
