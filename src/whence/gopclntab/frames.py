"""What Go's own unwinder knows about a function: how far the stack pointer is below its return address, and flags.

    pcsp    a pc-value table: from each pc of a function, by how many bytes it has moved the stack pointer
    flag    TOPFRAME: it has no caller; SPWRITE: it switches stacks in a way that pcsp does not describe

A pc-value table is pairs of varints: the change of the value (zigzag, from -1) and the number of quanta of code that it
applies to; a change of 0 after the first pair ends it. See Go's runtime/symtab.go (step, pcvalue).
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from whence._base.window import uleb
from whence.gopclntab.functions import field
from whence.gopclntab.kernels.functions import NO_FUNCTION

if TYPE_CHECKING:
    from whence.gopclntab.functions import PclntabFunctions
    from whence.gopclntab.header import PclntabHeader

TOPFRAME, SPWRITE = 1, 2  # abi.FuncFlag; since Go 1.17
FIRST_VALUE = -1
VARINT_BYTES = 5  # of a 32-bit number, at most
PAIRS_LIMIT = 1 << 20  # per function; kubectl's longest table has hundreds


class GoFunction(NamedTuple):
    """A function at a pc. `depth` is how far it has moved the stack pointer there, None if unknown."""

    entry: int
    end: int
    name: str
    flag: int
    depth: int | None
    id: int = 0  # runtime's funcID, whose numbers depend on the release; 0 if unknown


class GoFrames:
    """The functions of a table, for an unwinder. `names` are the bytes of their names."""

    def __init__(
        self, data: memoryview, header: PclntabHeader, columns: PclntabFunctions, names: memoryview, is_moved: bool
    ) -> None:
        """Prepare lookups. `is_moved`: the linker moved pieces of the text, so that rows are not those of functab."""
        self._data, self._header, self._columns, self._names = data, header, columns, names
        self._has_flags = header.version.relative and not is_moved
        self._pctab = header.pctab_at if header.version.has_units else 0

    def find(self, vaddr: int, lookup: int) -> GoFunction | None:
        """Return the function that contains `lookup`, with its depth at `vaddr`, perhaps the byte after its end."""
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
        """Return one of the last bytes of a function's record: its id (0) or its flags (1)."""
        header = self._header
        if not self._has_flags:
            return 0
        record = header.functab_at + field(self._data, header, 2 * row + 1)
        offset = record + header.field + header.version.last_at + index
        return self._data[offset] if offset < len(self._data) else 0

    def _depth(self, pcsp: int, entry: int, vaddr: int) -> int | None:
        data, offset, pc, value = self._data, self._pctab + pcsp, entry, FIRST_VALUE
        with suppress(EOFError, OverflowError):
            for pair in range(PAIRS_LIMIT):
                change, offset = uleb(data, offset, len(data), VARINT_BYTES)
                if not change and pair:
                    return None
                value += -(change + 1 >> 1) if change & 1 else change >> 1
                length, offset = uleb(data, offset, len(data), VARINT_BYTES)
                pc += length * self._header.quantum
                if vaddr < pc:
                    return value if value >= 0 else None
        return None
