"""What Go's own unwinder knows of a function: how far the stack pointer is below its return address, and what it is.

    pcsp    a pc-value table: from each pc of a function on, by how many bytes it has moved the stack pointer
    flag    TOPFRAME: nothing called it; SPWRITE: it switches stacks, in a way that pcsp does not describe

A pc-value table is pairs of varints: by how much the value changes (zigzag, from -1 on), and for how many quanta of
code it holds; a change of 0 behind the first pair ends it. Document: Go's runtime/symtab.go (step, pcvalue).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from whence.gopclntab.functions import field
from whence.gopclntab.kernels.functions import NO_FUNCTION

if TYPE_CHECKING:
    from whence.gopclntab.functions import FunctionColumns
    from whence.gopclntab.header import PclntabHeader

TOPFRAME, SPWRITE = 1, 2  # abi.FuncFlag; since Go 1.17
FIRST_VALUE = -1
VARINT_BYTES = 5  # of a number of 32 bits
PAIRS_LIMIT = 1 << 20  # of the table of one function; kubectl's longest has hundreds


class GoFunction(NamedTuple):
    """A function at a pc. `depth` is how far it has moved the stack pointer there, None where nothing says so."""

    entry: int
    end: int
    name: str
    flag: int
    depth: int | None
    id: int = 0  # runtime's funcID, whose numbers differ between releases; 0 where it is not known


class GoFrames:
    """The functions of a table as an unwinder asks for them. `names` are the bytes of their names."""

    def __init__(
        self, data: memoryview, header: PclntabHeader, columns: FunctionColumns, names: memoryview, is_moved: bool
    ) -> None:
        """`is_moved`: the linker has moved pieces of the text, so that rows are not those of functab."""
        self._data, self._header, self._columns, self._names = data, header, columns, names
        self._has_flags = header.version.relative and not is_moved
        self._pctab = header.pctab_at if header.version.has_units else 0

    def find(self, vaddr: int, lookup: int) -> GoFunction | None:
        """The function that holds `lookup`, at `vaddr`: that may be the byte behind a call that ends it."""
        columns = self._columns
        row = bisect_right(columns.entry, lookup) - 1
        if row < 0 or lookup >= columns.end[row] or columns.name[row] == NO_FUNCTION:
            return None
        entry, end, start = columns.entry[row], columns.end[row], columns.name[row]
        raw = bytes(self._names[start : start + 256]).partition(b"\0")[0]
        depth = self._depth(columns.pcsp[row], entry, min(vaddr, end - 1)) if columns.pcsp[row] else None
        return GoFunction(entry, end, raw.decode("utf-8", "surrogateescape"), self._flag(row), depth, self._id(row))

    def _flag(self, row: int) -> int:
        return self._byte(row, 1)

    def _id(self, row: int) -> int:
        return self._byte(row, 0)

    def _byte(self, row: int, index: int) -> int:
        """One of the last bytes of a function's record: its id, then its flags."""
        header = self._header
        if not self._has_flags:
            return 0
        at = header.functab_at + field(self._data, header, 2 * row + 1) + header.field + header.version.last_at + index
        return self._data[at] if at < len(self._data) else 0

    def _depth(self, pcsp: int, entry: int, vaddr: int) -> int | None:
        data, at, pc, value = self._data, self._pctab + pcsp, entry, FIRST_VALUE
        for pair in range(PAIRS_LIMIT):
            change, at = self._varint(at)
            if at < 0 or (not change and pair):
                return None
            value += -(change + 1 >> 1) if change & 1 else change >> 1
            length, at = self._varint(at)
            pc += length * self._header.quantum
            if at < 0 or at > len(data):
                return None
            if vaddr < pc:
                return value if value >= 0 else None
        return None

    def _varint(self, at: int) -> tuple[int, int]:
        """A number and where it ends; -1 where it does not."""
        value = 0
        for shift in range(0, 7 * VARINT_BYTES, 7):
            if at >= len(self._data):
                return 0, -1
            byte = self._data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value, at
        return 0, -1
