"""Names of the functions and objects that pointers point to, by the symbol tables of the mapped files."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING

from whence._base.errors import ObjectError
from whence.objects.elf.kernels.constants import STT_FUNC, STT_MASK, STT_OBJECT
from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels import order as order_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from whence.objects.elf.symbols import Symbols
    from whence.objects.interface import ObjectFile

NEIGHBOURS = 16  # symbols before an address that may contain it
STT_IFUNC = 10
KINDS = (STT_FUNC, STT_OBJECT, STT_IFUNC)


class SymbolNames:
    """The sized symbols of some files that describe the same code, by vaddr."""

    def __init__(self, files: Iterable[ObjectFile], demangle: Callable[[str], str]) -> None:
        self._demangle = demangle
        self._tables: list[tuple[Symbols, array[int], array[int]]] = []
        self._names: dict[int, str] = {}
        for file in files:
            for name in (".symtab", ".dynsym"):
                with suppress(ObjectError):
                    symbols = file.symbols(name)
                    if len(symbols) > 1:
                        self._tables.append((symbols, *by_value(symbols.value)))

    def at(self, vaddr: int) -> str:
        """Return the name of the function or object that contains a vaddr, with the distance from its start, or ""."""
        if vaddr not in self._names:
            self._names[vaddr] = next(filter(None, (self._find(*table, vaddr) for table in self._tables)), "")
        return self._names[vaddr]

    def _find(self, symbols: Symbols, values: array[int], rows: array[int], vaddr: int) -> str:
        index = bisect_right(values, vaddr) - 1
        for position in range(index, max(-1, index - NEIGHBOURS), -1):
            row = rows[position]
            if symbols.info[row] & STT_MASK in KINDS and symbols.section[row]:
                distance = vaddr - values[position]
                if distance < symbols.size[row] or not distance:
                    name = self._demangle(symbols.name(row))
                    return f"{name}+{distance}" if distance else name
        return ""


def value_of_symbol(file: ObjectFile, name: str) -> int | None:
    """Return the value of a symbol; None if the file has no such symbol."""
    with suppress(ObjectError):
        symbols = file.symbols(".symtab")
        index = symbols.find(name)
        return None if index is None else symbols.value[index]
    return None


def by_value(values: array[int]) -> tuple[array[int], array[int]]:
    """Return values in ascending order, and the row of each."""
    count = len(values)
    order, scratch, out = array("I", bytes(4 * count)), array("I", bytes(4 * count)), array("Q", bytes(8 * count))
    if order_kernel.order(values, order, scratch, True):
        order = scratch
    columns_kernel.gather_u64(order, values, out)
    return out, order
