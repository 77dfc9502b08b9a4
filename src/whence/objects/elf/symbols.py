"""Symbol tables as columns, names on demand.

A file has up to three: .symtab (absent when stripped), the .symtab of its MiniDebugInfo, and .dynsym, which the loader
needs. `ElfFile.symbol_table` finds them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from whence._base.errors import ElfError
from whence._base.records import Record
from whence._base.window import ByteOrder, cstring
from whence.objects.elf import layout
from whence.objects.elf.kernels import constants
from whence.objects.elf.kernels import symbols as symbols_kernel
from whence.objects.elf.layout import ELF64
from whence.objects.elf.sections import Section
from whence.objects.parts import ObjectSymbols


class SymbolTable(Record, frozen=True):
    """The bytes of a symbol table, its names, and its extended section indexes (for SHN_XINDEX)."""

    entries: memoryview
    names: memoryview
    extended: memoryview
    names_part: str = "dynamic strings"

    def __repr__(self) -> str:
        return f"<SymbolTable of {len(self.entries)} bytes, names of {len(self.names)}>"

    def may_have(self, name: str) -> bool:
        """Return True if the name table has the name, or a longer name with this ending. Reads no entries."""
        contained: bool = symbols_kernel.holds(self.names, name.encode("utf-8", "surrogateescape") + b"\0")
        return contained


class Symbols(Record, ObjectSymbols, frozen=True):
    """Every entry of a table, the null entry first. `name_offset` is an offset in `names`."""

    names: memoryview
    name_offset: array[int]  # I
    value: array[int]  # Q: a vaddr; in a relocatable file an offset in its section
    size: array[int]  # Q: bytes
    info: array[int]  # B: bind << 4 | type
    other: array[int]  # B
    section: array[int]  # I: an index, SHN_XINDEX resolved; reserved indexes as 0xffffff00 and up

    def __len__(self) -> int:
        return len(self.value)

    def __repr__(self) -> str:
        return f"<Symbols: {len(self)}, the null entry first>"

    def name(self, index: int) -> str:
        """Return a symbol's name; "" if it is outside the names."""
        return cstring(self.names, self.name_offset[index]).decode("utf-8", "surrogateescape")

    def functions(self) -> list[tuple[int, int]]:
        """Return value and size of the symbols of type STT_FUNC."""
        mask, function = constants.STT_MASK, constants.STT_FUNC
        rows = zip(self.value, self.size, self.info, strict=True)
        return [(value, size) for value, size, info in rows if info & mask == function]

    def find(self, name: str) -> int | None:
        """Return the index of the first symbol of a name, or None. Searches the names, then the column of offsets."""
        names, text = bytes(self.names), name.encode("utf-8", "surrogateescape") + b"\0"
        offset = names.find(text)
        while offset >= 0:
            if offset in self.name_offset:  # linkers keep a name as the end of a longer one
                return self.name_offset.index(offset)
            offset = names.find(text, offset + 1)
        return None


def symbol_sections(sections: Sequence[Section], name: str) -> tuple[Section, Section, Section | None] | None:
    """Return the sections of a symbol table, of its names, and of its extended section indexes or None.

    `table` is ".symtab" or ".dynsym"; None if the file has none. Raises ElfError for an invalid link to the names.
    """
    kind = constants.SHT_SYMTAB if name == ".symtab" else constants.SHT_DYNSYM
    for section in sections:
        if section.type != kind:
            continue
        if not 0 < section.link < len(sections):
            raise ElfError(section.part, None, f"its link {section.link} is not a string table")
        extended = None
        for other in sections:
            if other.type == constants.SHT_SYMTAB_SHNDX and other.link == section.index:
                extended = other
        return section, sections[section.link], extended
    return None


def read_symbols(table: SymbolTable | None, bits: int, order: ByteOrder) -> Symbols:
    """Return the table as columns; empty ones for None. Takes a few nanoseconds per symbol."""
    if table is None:
        empty = memoryview(b"")
        table = SymbolTable(empty, empty, empty)
    rows = len(table.entries) // layout.SYMBOL_SIZE[bits]
    columns = Symbols(
        table.names,
        array("I", bytes(4 * rows)),
        array("Q", bytes(8 * rows)),
        array("Q", bytes(8 * rows)),
        array("B", bytes(rows)),
        array("B", bytes(rows)),
        array("I", bytes(4 * rows)),
    )
    symbols_kernel.read(table.entries, table.extended, bits == ELF64, order == "big", columns)
    return columns
