"""The symbol of an address by the rules of llvm-symbolizer, BFD and elfutils; whence's own rule is in functions.py.

    llvm   the last symbol that starts at or before the address; of several with that start the largest, of equal sizes
           the last in the table. It must cover the address or have size 0. (SymbolizableObjectFile.cpp)
    bfd    the last symbol before the address in its section that is not an object, even without covering the
           address; of several with that start: covers the address, is a function, has a type, is the smallest.
           (elf.c, better_fit)
    eu     of the symbols that cover the address: global before local, the last to start, the smallest, global before
           weak, the first in the table; otherwise the last symbol of size 0 that starts after the ends of all others,
           in the address's section. (dwfl_module_addrsym.c)

For llvm and bfd a symbol of size 0 extends to the end of its section here, or has just its own address if it is at the
end (`_end`); in llvm-symbolizer the last symbol of a file covers all addresses after it. The file of a local symbol is
that of the STT_FILE entry before it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate

from whence._base.forks import cached_property
from whence._base.records import NamedTuple
from whence.objects.elf.kernels import constants
from whence.objects.elf.kernels import symbols as symbols_kernel
from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels import order as order_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from whence.objects.interface import ObjectFile

MARKED_BY_BIT_0 = (constants.EM_ARM, constants.EM_MIPS)  # Thumb and microMIPS code
FILE = constants.STB_LOCAL << 4 | constants.STT_FILE
BINDINGS_OF_EU = {constants.STB_GLOBAL: 3, constants.STB_WEAK: 2, constants.STB_LOCAL: 1}
MAPPING = ("$a", "$d", "$t", "$x")  # symbols that mark code and data of ARM, AArch64 and RISC-V


class Symbol(NamedTuple):
    """A symbol: name, vaddr, size in bytes as in the table, name of its STT_FILE entry ("" if unknown).

    `file_entry` is True if it has such an entry, whose name may be empty.
    """

    name: str
    start: int
    size: int
    file: str
    file_entry: bool = False


NOTHING = Symbol("", 0, 0, "")


class SymbolIndex:
    """The symbols of one table of a file, in order of address; `starts` are the addresses."""

    def __init__(self, elf: ObjectFile, table: str) -> None:
        self._symbols = symbols = elf.symbols(table)
        self._sections = elf.sections
        allocated = bytes(section.allocated for section in elf.sections)
        rows = array("I", bytes(4 * len(symbols)))
        del rows[symbols_kernel.addressed(symbols.info, symbols.section, allocated, rows) :]
        count = len(rows)
        value, size = (array("Q", bytes(8 * count)) for _ in range(2))
        columns_kernel.gather_u64(rows, symbols.value, value)
        columns_kernel.gather_u64(rows, symbols.size, size)
        if elf.machine in MARKED_BY_BIT_0:
            value = array("Q", [vaddr & ~1 for vaddr in value])
        order, scratch = array("I", bytes(4 * count)), array("I", bytes(4 * count))
        if order_kernel.order(size, order, scratch, True):
            order, scratch = scratch, order
        if order_kernel.order(value, order, scratch, False):
            order = scratch
        self._rows, self.starts = array("I", bytes(4 * count)), array("Q", bytes(8 * count))
        columns_kernel.gather_u32(order, rows, self._rows)
        columns_kernel.gather_u64(order, value, self.starts)
        self._kinds = bytes(symbols.info)
        self._named: dict[tuple[int, bool], Symbol] = {}
        self._ends: dict[int, tuple[int, Symbol]] = {}  # by index: end and symbol of `llvm_at`

    def __len__(self) -> int:
        return len(self._rows)

    def llvm(self, vaddr: int) -> Symbol | None:
        """Return the symbol of a vaddr by the rule of llvm-symbolizer."""
        index = bisect_right(self.starts, vaddr) - 1
        end, symbol = self._ends.get(index) or self.llvm_at(index)
        return symbol if vaddr < end else None

    def llvm_at(self, index: int) -> tuple[int, Symbol]:
        """Return (end, symbol) for vaddrs after the start at `index`, by llvm's rule; an end of 0 means no symbol."""
        while index >= 0:
            row, start = self._rows[index], self.starts[index]
            symbol = self._name(row, start, False)
            if not symbol.name.startswith(MAPPING):
                section = self._sections[self._symbols.section[row]]
                end = start + symbol.size if symbol.size else max(section.vaddr + section.size, start + 1)
                self._ends[index] = end, symbol
                return end, symbol
            index -= 1
        return 0, NOTHING

    def bfd(self, vaddr: int) -> Symbol | None:
        """Return the symbol of a vaddr by the rule of binutils."""
        index = bisect_right(self.starts, vaddr) - 1
        while index >= 0:
            start = self.starts[index]
            first = bisect_left(self.starts, start)
            best = -1
            for row in sorted(self._rows[first : index + 1]):
                fit = self._in_section(row, vaddr) and self._may_be_function(row)
                if fit and (best < 0 or self._fits_better(row, best, vaddr - start)):
                    best = row
            if best >= 0:
                return self._named.get((best, True)) or self._name(best, start, True)
            if not self._in_section(self._rows[index], vaddr):
                return None
            index = first - 1
        return None

    def eu(self, vaddr: int) -> Symbol | None:
        """Return the symbol of a vaddr by the rule of elfutils."""
        last = bisect_right(self.starts, vaddr) - 1
        if last < 0:
            return None
        symbols, reach = self._symbols, self._reach
        covering, index = [], last
        while index >= 0 and reach[index] > vaddr:
            row = self._rows[index]
            if vaddr - self.starts[index] < symbols.size[row] and symbols.name(row):
                covering.append((row, self.starts[index]))
            index -= 1
        globals_first = sorted(covering, key=lambda symbol: (self._is_local(symbol[0]), symbol[0]))
        if globals_first:
            best = globals_first[0]
            for other in globals_first[1:]:
                if self._is_local(best[0]) == self._is_local(other[0]) and self._suits_eu_better(other, best):
                    best = other
            return self._name(*best, False)
        first = bisect_left(self.starts, self.starts[last])
        bare = [
            row
            for row in self._rows[first : last + 1]
            if not symbols.size[row] and self._in_section(row, vaddr) and symbols.name(row)
        ]
        if not bare or self.starts[last] < reach[last]:
            return None
        return self._name(max(bare, key=lambda row: (self._is_local(row), row)), self.starts[last], False)

    @cached_property
    def _reach(self) -> list[int]:
        """Return the largest end of all symbols up to each index."""
        ends = (start + self._symbols.size[row] for row, start in zip(self._rows, self.starts, strict=True))
        return list(accumulate(ends, max))

    def _is_local(self, row: int) -> bool:
        return self._symbols.info[row] >> constants.STB_SHIFT == constants.STB_LOCAL

    def _suits_eu_better(self, other: tuple[int, int], best: tuple[int, int]) -> bool:
        """Return True if elfutils prefer `other` to `best`, which is before it in the table; both as (row, start)."""
        rank, best_rank = (
            BINDINGS_OF_EU.get(self._symbols.info[row] >> constants.STB_SHIFT, 0) for row, _ in (other, best)
        )
        if other[1] > best[1] or rank > best_rank:
            return True
        size, best_size = (self._symbols.size[row] for row, _ in (other, best))
        return other[1] == best[1] and size < best_size and rank == best_rank

    def named(self, name: str) -> Iterator[Symbol]:
        """Yield the symbols of a name that llvm-symbolizer finds, in order of address."""
        last = len(self._rows) - 1
        for index, row in enumerate(self._rows):
            if (index == last or self.starts[index + 1] != self.starts[index]) and self._symbols.name(row) == name:
                yield self._name(row, self.starts[index], False)

    def first(self, name: str) -> Symbol | None:
        """Return the first symbol of a name in the table."""
        if self._symbols.find(name) is None:
            return None
        row = min((row for row in self._rows if self._symbols.name(row) == name), default=None)
        return None if row is None else self._name(row, self._symbols.value[row], False)

    def _in_section(self, row: int, vaddr: int) -> bool:
        section = self._sections[self._symbols.section[row]]
        return section.vaddr <= vaddr < section.vaddr + section.size

    def _may_be_function(self, row: int) -> bool:
        symbols = self._symbols
        info = symbols.info[row]
        if info & constants.STT_MASK == constants.STT_OBJECT:
            return False
        hidden = symbols.other[row] & constants.STV_MASK == constants.STV_HIDDEN
        local = info >> constants.STB_SHIFT == constants.STB_LOCAL
        return bool(symbols.size[row] or info & constants.STT_MASK != constants.STT_NOTYPE or not (local and hidden))

    def _fits_better(self, row: int, best: int, offset: int) -> bool:
        """Return True if BFD prefers a symbol to `best`, which has the same start, for an address `offset` bytes on."""
        symbols = self._symbols
        size, best_size = symbols.size[row] or 1, symbols.size[best] or 1
        if best_size <= offset:
            return size > best_size
        if size <= offset:
            return False
        kind, best_kind = symbols.info[row] & constants.STT_MASK, symbols.info[best] & constants.STT_MASK
        if (kind == constants.STT_FUNC) != (best_kind == constants.STT_FUNC):
            return kind == constants.STT_FUNC
        if (kind == constants.STT_NOTYPE) != (best_kind == constants.STT_NOTYPE):
            return best_kind == constants.STT_NOTYPE
        return size < best_size

    def _name(self, row: int, start: int, bfd: bool) -> Symbol:
        symbols = self._symbols
        local = symbols.info[row] >> constants.STB_SHIFT == constants.STB_LOCAL
        entry = self._file_entry(row, local, bfd)
        file = symbols.name(entry) if entry > 0 else ""
        symbol = Symbol(symbols.name(row), start, symbols.size[row], file, entry > 0)
        self._named[row, bfd] = symbol
        return symbol

    def _file_entry(self, row: int, local: bool, bfd: bool) -> int:
        """Return the row of the last STT_FILE entry before a local symbol; at most 0 without such an entry.

        BFD also uses it for global symbols if all such entries are before the first other symbol.
        """
        kinds = self._kinds
        if not local and not (bfd and 0 < kinds.rfind(FILE) == kinds.count(FILE)):
            return 0
        return kinds.rfind(FILE, 0, row)
