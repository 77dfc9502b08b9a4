"""Where the bytes of a value are: memory, registers, the debug info itself, or nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from whence.unwind.memory import Unreadable

if TYPE_CHECKING:
    from whence.unwind.memory import Memory

LARGEST = 1 << 16  # bytes of a value that debug info describes as zero
OPTIMIZED_OUT = "optimized out"
SYNTHETIC = "synthetic pointer"  # a pointer that the compiler removed (DW_OP_implicit_pointer)


class NoValue(Exception):
    """A value cannot be determined; the message says why."""


class Piece(NamedTuple):
    """A part of an object: at an address, as bytes, or, with the reason `missing`, nowhere.

    The last piece has the size None if it is as large as needed. `data` of a piece in memory are its first bytes, read
    before.
    """

    size: int | None
    address: int | None = None
    data: bytes = b""
    missing: str = ""
    unknown: int = 0  # bits of `data` without a value, counted from the lowest bit of its first byte


def extended_piece(piece: Piece, size: int) -> Piece:
    """Return a piece with `size` bytes, if its bytes are fewer and zero; otherwise a missing piece."""
    if any(piece.data):
        reason = f"its location has {len(piece.data)} of {size:,} bytes"
        return piece._replace(data=b"", missing=reason)
    return piece._replace(data=bytes(min(size, LARGEST)))


class Storage:
    """The bytes of an object, of which any part can be read."""

    __slots__ = ("_memory", "offset", "pieces")

    def __init__(self, memory: Memory, pieces: tuple[Piece, ...], offset: int = 0) -> None:
        self._memory, self.pieces, self.offset = memory, pieces, offset

    def __repr__(self) -> str:
        return f"<Storage {self.pieces} + {self.offset}>"

    @classmethod
    def at(cls, memory: Memory, address: int) -> Storage:
        """Return the storage of an object in memory."""
        return cls(memory, (Piece(None, address),))

    def part(self, offset: int) -> Storage:
        """Return the storage of a part that begins at an offset."""
        return Storage(self._memory, self.pieces, self.offset + offset)

    def fetched(self, size: int) -> Storage:
        """Return the storage of an object of a size, with its bytes read at once if it is in memory."""
        piece = self.pieces[0]
        if len(self.pieces) > 1 or piece.address is None or piece.size is not None or not 0 < size <= LARGEST:
            return self
        if self.offset + size <= len(piece.data):
            return self
        address = piece.address + self.offset
        try:
            return Storage(self._memory, (Piece(None, address, self._memory.read(address, size)),))
        except Unreadable:
            return self

    def extended(self, size: int) -> Storage:
        """Return the storage of an object of a size: of a value with fewer bytes only if these are zero.

        LLVM describes a structure that was cleared so. Other values that are too small say nothing about the object.
        """
        piece = self.pieces[0]
        if len(self.pieces) > 1 or piece.size is not None or piece.address is not None or not piece.data:
            return self
        if len(piece.data) >= size:
            return self
        return Storage(self._memory, (extended_piece(piece, size),))

    @property
    def address(self) -> int | None:
        """The address of the object if it is in memory as a whole."""
        piece = self.pieces[0]
        if len(self.pieces) == 1 and piece.address is not None and piece.size is None:
            return piece.address + self.offset
        return None

    def missing(self, size: int) -> str:
        """Return why no byte of an object of this size has a value; "" if any has."""
        if len(self.pieces) == 1 and self.pieces[0].size is None:
            return self.pieces[0].missing
        reasons = {piece.missing for piece, _, _ in self._parts(size)}
        return "" if "" in reasons or not reasons else min(reasons)

    def read(self, size: int, needed: int = -1) -> bytes:
        """Return the first bytes of the object. Raises NoValue if any of the needed bits has no value."""
        begin, first = self.offset, self.pieces[0]
        if begin + size <= len(first.data) and first.size is None:
            return first.data[begin : begin + size]
        data = bytearray()
        for piece, begin, count in self._parts(size):
            if piece.missing:
                raise NoValue(piece.missing)
            if piece.unknown >> 8 * begin & needed >> 8 * len(data) & (1 << 8 * count) - 1:
                raise NoValue(OPTIMIZED_OUT)
            if piece.address is not None:
                try:
                    data += self._memory.read(piece.address + begin, count)
                except Unreadable as error:
                    raise NoValue(str(error)) from None
            else:
                data += piece.data[begin : begin + count]
        if len(data) < size:
            raise NoValue(OPTIMIZED_OUT)
        return bytes(data)

    def _parts(self, size: int) -> list[tuple[Piece, int, int]]:
        """Return the pieces that have the first bytes of the object, each with begin and number of its bytes."""
        parts = []
        begin = self.offset
        for piece in self.pieces:
            if size <= 0:
                break
            if piece.size is not None and begin >= piece.size:
                begin -= piece.size
                continue
            count = size if piece.size is None else min(size, piece.size - begin)
            parts.append((piece, begin, count))
            size -= count
            begin = 0
        return parts
