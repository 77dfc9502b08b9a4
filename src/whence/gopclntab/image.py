"""Words of the image as the loader leaves them: bytes of the file with dynamic relocations applied.

In a position-independent executable an address in data may be only in .rela.dyn (the addend), with zeros in its place;
REL and RELR relocations have it in place. Relocations are searched, not parsed into tables: of hundreds of thousands,
three or four are needed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from whence._base.errors import ObjectError
from whence._base.forks import cached_property
from whence.objects.interface import ObjectFile


class Image:
    """An ELF file's memory image, for reading pointers."""

    def __init__(self, elf: ObjectFile, pointer: int) -> None:
        self.elf = elf
        self.pointer = pointer
        self._mark = "<" if elf.order == "little" else ">"
        self._word = self._mark + ("I" if pointer == 4 else "Q")

    @cached_property
    def _relocations(self) -> list[bytes]:
        """Return the loaded tables of relocations, as bytes: rows of (offset, info, addend), a word each."""
        return self.elf.relocation_tables()

    def pack(self, value: int) -> bytes:
        return struct.pack(self._word, value & (1 << 8 * self.pointer) - 1)

    def _with_addend(self, value: int) -> Iterator[int]:
        """Yield the vaddrs of words whose relocation has this addend."""
        row = 3 * self.pointer
        pattern = self.pack(value)
        for table in self._relocations:
            offset = table.find(pattern)
            while offset >= 0:
                if offset % row == 2 * self.pointer:
                    yield struct.unpack_from(self._word, table, offset - 2 * self.pointer)[0]
                offset = table.find(pattern, offset + 1)

    def _within(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield (vaddr, addend) of relocated words in [start, end).

        The vaddrs of a stretch of 64 KiB share their upper bytes: one search finds them all.
        """
        row, little = 3 * self.pointer, self.elf.order == "little"
        shared_at = 2 if little else 0
        for stretch in range(start >> 16, (end - 1 >> 16) + 1):
            packed = self.pack(stretch << 16)
            shared = packed[2:] if little else packed[:-2]
            for table in self._relocations:
                offset = table.find(shared)
                while offset >= 0:
                    if offset % row == shared_at and offset - shared_at + row <= len(table):
                        slot, _, addend = struct.unpack_from(self._mark + self._word[1] * 3, table, offset - shared_at)
                        if start <= slot < end:
                            yield slot, addend
                    offset = table.find(shared, offset + 1)

    def words(self, vaddr: int, count: int) -> tuple[int, ...] | None:
        """Return `count` relocated words at a vaddr, None if the file does not load that memory."""
        try:
            data = self.elf.read_vaddr(vaddr, count * self.pointer)
        except ObjectError:
            return None
        words = list(struct.unpack(self._mark + self._word[1] * count, data))
        for slot, addend in self._within(vaddr, vaddr + count * self.pointer):
            index, rest = divmod(slot - vaddr, self.pointer)
            if not rest:
                words[index] = addend
        return tuple(words)

    def word(self, vaddr: int) -> int | None:
        words = self.words(vaddr, 1)
        return words[0] if words else None

    def vaddrs_of(self, value: int) -> Iterator[int]:
        """Yield the vaddrs in loaded data of words with this value, in place or by relocation; none for 0."""
        if not value:
            return
        yield from self._with_addend(value)
        pattern = self.pack(value)
        for segment in self.elf.segments:
            if not segment.is_loaded or segment.executable:
                continue
            end = segment.file_offset + segment.file_size
            data = bytes(self.elf.data[segment.file_offset : end])
            offset = data.find(pattern)
            while offset >= 0:
                if (segment.vaddr + offset) % self.pointer == 0:
                    yield segment.vaddr + offset
                offset = data.find(pattern, offset + 1)

    def relocated(self, data: memoryview, vaddr: int) -> memoryview:
        """Return the bytes at a vaddr with the relocations in them applied."""
        patched: bytearray | None = None
        for table in self._relocations:
            size = len(table) - len(table) % (3 * self.pointer)
            for slot, _, addend in struct.iter_unpack(self._mark + self._word[1] * 3, table[:size]):
                if vaddr <= slot <= vaddr + len(data) - self.pointer:
                    if patched is None:
                        patched = bytearray(data)
                    struct.pack_into(self._word, patched, slot - vaddr, addend)
        return data if patched is None else memoryview(patched)
