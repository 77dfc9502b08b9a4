"""Symbols of formats that give them no size, as symbol tables of ELF's form.

Each symbol extends to the next symbol or function start, or to the end of its section.
"""

from __future__ import annotations

from array import array

from whence._base.records import Record
from whence._base.window import ByteOrder
from whence.kernels.rows import ascending
from whence.objects.elf.layout import SYMBOL_SIZE
from whence.objects.elf.symbols import SymbolTable
from whence.objects.kernels import sized

NO_EXTENDED = memoryview(b"")


class SymbolColumns(Record):
    """Symbols in columns: `name` is an offset in the names, `value` a vaddr, `info` and `section` are ELF's."""

    name: array[int]
    value: array[int]
    info: array[int]
    section: array[int]

    @classmethod
    def of_size(cls, count: int) -> SymbolColumns:
        """Return columns of `count` symbols."""
        return cls(
            array("I", bytes(4 * count)), array("Q", bytes(8 * count)), array("B", bytes(count)),
            array("I", bytes(4 * count)),
        )  # fmt: skip

    def append(self, name: int, value: int, info: int, section: int) -> None:
        self.name.append(name)
        self.value.append(value)
        self.info.append(info)
        self.section.append(section)

    def cut(self, count: int) -> None:
        """Delete all but the first `count` symbols."""
        for column in (self.name, self.value, self.info, self.section):
            del column[count:]

    def __len__(self) -> int:
        return len(self.value)


def with_sizes(
    symbols: SymbolColumns, names: memoryview, starts: array[int], limits: array[int], bits: int, order: ByteOrder,
    bases: array[int] | None = None,
) -> SymbolTable:  # fmt: skip
    """Return the symbol table.

    `starts` are function starts, ascending; `limits` the ends of sections by index. `bases`, in the input of a linker,
    are their vaddrs, from which symbols count.
    """
    out = bytearray((len(symbols) + 1) * SYMBOL_SIZE[bits])
    values = ascending(symbols.value)[0].numbers()
    bases = array("Q", bytes(8 * len(limits))) if bases is None else bases
    sized.entries(symbols, values, starts, limits, bases, bits == 64, order == "big", out)
    return SymbolTable(memoryview(out).toreadonly(), names, NO_EXTENDED, "string table")
