"""Symbol tables as columns, names on demand; and where a file's tables lie.

A file has up to three: .symtab (gone when stripped), the .symtab of its MiniDebugInfo, and .dynsym, which the loader
needs and no strip removes. Without section headers .dynsym is found as the loader finds it, through PT_DYNAMIC.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from whence.elf import layout
from whence.elf.dynamic import dynamic_symbols
from whence.elf.kernels import constants
from whence.errors import ElfError
from whence.records import Record

if TYPE_CHECKING:
    from whence.elf.file import ElfFile


class SymbolTable(Record, frozen=True):
    """The bytes of a symbol table, its names, and its extended section indexes (for SHN_XINDEX)."""

    entries: memoryview
    names: memoryview
    extended: memoryview
    names_part: str = "dynamic strings"


class Symbols(Record, frozen=True):
    """Every entry of a table, the null entry first. `name_offset` counts in `names`; read a name with `name(i)`."""

    names: memoryview
    name_offset: array[int]  # I
    value: array[int]  # Q: a vaddr; in a relocatable file an offset in its section
    size: array[int]  # Q: bytes
    info: array[int]  # B: bind << 4 | type
    other: array[int]  # B
    section: array[int]  # I: an index, SHN_XINDEX resolved; reserved indexes as 0xffffff00 and up

    def __len__(self) -> int:
        return len(self.value)

    def name(self, index: int) -> str:
        """A symbol's name; "" when it lies outside the names."""
        start = self.name_offset[index]
        size = 64
        while start < len(self.names):
            chunk = bytes(self.names[start : start + size])
            head, nul, _ = chunk.partition(b"\0")
            if nul or len(chunk) < size:
                return head.decode("utf-8", "surrogateescape")
            size *= 8
        return ""


def find_table(elf: ElfFile, name: str) -> SymbolTable | None:
    """The symbol table of that name (".symtab" or ".dynsym"); None when there is none. ElfError when damaged."""
    kind = constants.SHT_SYMTAB if name == ".symtab" else constants.SHT_DYNSYM
    for section in elf.sections:
        if section.type != kind:
            continue
        if not 0 < section.link < len(elf.sections):
            raise ElfError(section.part, None, "its link is the section of its names", section.link)
        extended = elf.data[:0]
        for other in elf.sections:
            if other.type == constants.SHT_SYMTAB_SHNDX and other.link == section.index:
                extended = elf.content(other)
        names = elf.sections[section.link]
        return SymbolTable(elf.content(section), elf.content(names), extended, names.part)
    if name == ".dynsym" and not elf.sections:
        found = dynamic_symbols(elf)
        if found is not None:
            return SymbolTable(*found, elf.data[:0])
    return None


def read_symbols(elf: ElfFile, name: str) -> Symbols:
    """The table as columns; empty ones when the file does not have it. Costs a few nanoseconds a symbol."""
    from whence.elf.kernels import symbols as symbols_kernel

    table = find_table(elf, name)
    if table is None:
        empty = elf.data[:0]
        table = SymbolTable(empty, empty, empty)
    rows = len(table.entries) // layout.SYMBOL_SIZE[elf.bits]
    columns = Symbols(
        table.names,
        array("I", bytes(4 * rows)),
        array("Q", bytes(8 * rows)),
        array("Q", bytes(8 * rows)),
        array("B", bytes(rows)),
        array("B", bytes(rows)),
        array("I", bytes(4 * rows)),
    )
    symbols_kernel.read(
        table.entries,
        elf.bits == 64,
        elf.order == "big",
        table.extended,
        columns.name_offset,
        columns.value,
        columns.size,
        columns.info,
        columns.other,
        columns.section,
    )
    return columns
