"""Lookup of a few addresses in an archive in a bucket, by a few requests for ranges of bytes.

    1. the beginning: the header and the start of the VA table; then the rest of the VA table
    2. the end: the extra section, without columns
    3. for all addresses together: the rows of their ranges; then names, line entries and columns

The bytes are copied to their offsets in a zeroed buffer, and a table over the buffer answers. Each query makes a new
table, since a table caches rows. If a large part of the archive would be read, all of it is.
"""

from __future__ import annotations

import mmap
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from whence import lidia
from whence.binary import Binary
from whence.lidia.kernels.queries import (
    CALL_FILE,
    DEPTH,
    FILE,
    FUNCTION,
    LENGTH,
    LENGTH_PREFIX,
    LINE_COUNT,
    LINE_FIELDS,
    LINE_INDEX,
    RANGE_FIELDS,
)
from whence.lidia.layout import (
    CHUNK_HEAD,
    COLUMNS,
    FOOTER,
    HEADER_SIZE,
    LENGTH_PREFIXED_START,
    ArchiveHeader,
    ArchiveSections,
    ExtraSection,
)
from whence.lidia.table import Table

if TYPE_CHECKING:
    from whence._base.model import Frames
    from whence.store.objects import Objects, Stat

FIRST_BYTES = 1 << 16
EXTRA_BYTES = 1 << 15  # of the extra section, read at once
GAP_BYTES = 1 << 15  # between two ranges that one request reads
ROWS = 64  # read before the row of an address
NAME_BYTES = 256
MAX_STEPS = 1 << 14  # rows that are walked back, for all addresses together
MAX_ADDRESSES = 64  # for more addresses the whole archive is read
SHARE = 2  # the whole archive is read after 1 / SHARE of it


class SparseObject:
    """An object in memory, read in parts."""

    def __init__(self, objects: Objects, status: Stat) -> None:
        self._objects, self._status = objects, status
        self.size = status.size
        self.data = mmap.mmap(-1, max(self.size, 1))
        self.view = memoryview(self.data)[: self.size]
        self._starts: list[int] = []  # of the parts that were read, in order
        self._ends: list[int] = []

    @property
    def read_size(self) -> int:
        """The number of bytes that were read."""
        return sum(self._ends) - sum(self._starts)

    def need(self, parts: Iterable[tuple[int, int]]) -> None:
        """Read the parts [start, end). Raises OSError, in particular if the object was replaced."""
        missing: list[list[int]] = []
        for start, end in sorted(parts):
            start, end = max(start, 0), min(end, self.size)
            if start >= end or self.has(start, end):
                continue
            if missing and start <= missing[-1][1] + GAP_BYTES:
                missing[-1][1] = max(end, missing[-1][1])
            else:
                missing.append([start, end])
        for start, end in missing:
            self.data[start:end] = self._objects.read_range(self._status.key, start, end, self._status.tag)
            self._add(start, end)

    def has(self, start: int, end: int) -> bool:
        """Return True if the bytes [start, end) were read."""
        index = bisect_right(self._starts, start) - 1
        return index >= 0 and self._ends[index] >= end

    def _add(self, start: int, end: int) -> None:
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start], [end]


class RangedBinary(Binary):
    """A Binary that reads ranges of an archive in a bucket."""

    def __init__(self, objects: Objects, status: Stat, demangle: bool | Callable[[str], str]) -> None:
        self._sparse = sparse = SparseObject(objects, status)
        self._readable = demangle
        sparse.need([(0, FIRST_BYTES), (status.size - EXTRA_BYTES, status.size)])
        self._header = header = ArchiveHeader.unpack(bytes(sparse.view[:HEADER_SIZE]), sparse.size)
        strings = header.strings.offset
        parts = [(header.va_table.offset, header.va_table.end), (strings, strings + len(LENGTH_PREFIXED_START))]
        sparse.need([*parts, *self._extra_parts()])
        table = lidia.from_bytes(sparse.view, demangle=demangle)
        extra = ExtraSection(sparse.view, header.end)
        self._sections = ArchiveSections(sparse.view, header, extra, nul=table.encoding == "nul", tidy=table.about.tidy)
        super().__init__(table=table, path=f"{objects.url}/{status.key}", demangle=demangle)
        if self._sections.nul or sys.byteorder == "big":
            self._read_whole()
            self._vaddrs = table.vaddrs()
            return
        kind = "Q" if header.va_table.width == 8 else "I"
        self._vaddrs = array(kind, bytes(sparse.view[header.va_table.offset : header.va_table.end]))

    def _extra_parts(self) -> list[tuple[int, int]]:
        """Return the chunks of the extra section, without columns. Their headers are read one after the other."""
        sparse, end = self._sparse, self._sparse.size - FOOTER.size
        if end < 0:
            return []
        offset, size, *_ = FOOTER.unpack_from(sparse.view, end)
        if offset > end or offset + size != end:
            return []
        parts = []
        while offset + CHUNK_HEAD.size <= end:
            sparse.need([(offset, offset + EXTRA_BYTES)])
            tag, _, length = CHUNK_HEAD.unpack_from(sparse.view, offset)
            stop = min(offset + CHUNK_HEAD.size + length, end)
            if tag != COLUMNS:
                parts.append((offset, stop))
            offset = stop
        return parts

    def _read_whole(self) -> None:
        self._sparse.need([(0, self._sparse.size)])

    def _read_for(self, vaddrs: Sequence[int]) -> None:
        """Read the bytes that a table needs for these addresses."""
        sparse = self._sparse
        if len(vaddrs) > MAX_ADDRESSES or sparse.read_size * SHARE > sparse.size:
            self._read_whole()
            return
        rows = {bisect_right(self._vaddrs, vaddr) - 1 for vaddr in vaddrs if vaddr >= 0} - {-1}
        sparse.need([(self._row_offset(row - ROWS), self._row_offset(row + 1)) for row in rows])
        chains: dict[int, tuple[int, ...]] = {}
        steps = 0
        for vaddr in vaddrs:
            row = bisect_right(self._vaddrs, vaddr) - 1 if vaddr >= 0 else -1
            steps += self._walk(vaddr, row, chains)
            if steps >= min(MAX_STEPS, len(self._vaddrs)):
                self._read_whole()
                return
        self._need_details(chains)

    def _row_offset(self, index: int) -> int:
        start: int = self._sections.range_offset
        size: int = RANGE_FIELDS * self._sections.field_width
        return start + max(index, 0) * size

    def _row(self, index: int, before: int) -> tuple[int, ...]:
        """Return a row. If it was not read, the `before` rows before it are read, too."""
        start, end = self._row_offset(index), self._row_offset(index + 1)
        if not self._sparse.has(start, end):
            self._sparse.need([(self._row_offset(index - before), end)])
        letter = "Q" if self._sections.field_width == 8 else "I"
        return struct.unpack_from(f"<{RANGE_FIELDS}{letter}", self._sparse.view, start)

    def _walk(self, vaddr: int, index: int, chains: dict[int, tuple[int, ...]]) -> int:
        """Find the ranges of an address, from row `index` back, as a table does; return the number of steps."""
        steps, depth = 0, -1
        while index >= 0 and steps < MAX_STEPS:
            row = self._row(index, max(ROWS, steps))
            if (depth < 0 or row[DEPTH] < depth) and vaddr < self._vaddrs[index] + row[LENGTH]:
                chains[index] = row
                depth = row[DEPTH]
                if depth == 0:
                    break
            if self._sections.tidy and row[DEPTH] == 0:
                break
            steps += 1
            index -= 1
        return steps

    def _need_details(self, chains: dict[int, tuple[int, ...]]) -> None:
        """Read the names, line entries and columns of ranges."""
        sections, parts, names = self._sections, [], []
        for index, row in chains.items():
            names += [sections.string_offset + row[field] for field in (FUNCTION, FILE, CALL_FILE)]
            entry = LINE_FIELDS * sections.line_width
            start = sections.line_offset + row[LINE_INDEX] * entry
            parts.append((start, start + row[LINE_COUNT] * entry))
            if sections.column_width:
                width, first = sections.column_width, sections.column_offset
                parts.append((first + row[LINE_INDEX] * width, first + (row[LINE_INDEX] + row[LINE_COUNT]) * width))
                parts.append(
                    (first + (sections.entries + index) * width, first + (sections.entries + index + 1) * width)
                )
        end = sections.string_offset + sections.string_size
        self._sparse.need([*parts, *((name, min(name + NAME_BYTES, end)) for name in names if name < end)])
        longer = []
        for name in names:
            if name + LENGTH_PREFIX <= end:
                size = int.from_bytes(self._sparse.view[name : name + LENGTH_PREFIX], "little")
                longer.append((name, min(name + LENGTH_PREFIX + size, end)))
        self._sparse.need(longer)

    def _current_table(self) -> Table:
        """Return a table over the bytes that were read."""
        self._still_open()
        return lidia.from_bytes(self._sparse.view, demangle=self._readable)

    def table(self) -> Table:
        """Read the whole archive, and return its table."""
        with self._lock:
            self._read_whole()
            return self._current_table()

    def table_for(
        self, vaddrs: Sequence[int], *, return_address: bool = False, last: bool = False, starts: bool = True
    ) -> Table:
        """Return a table for these addresses; only the bytes that they need are read."""
        inside = [vaddr - 1 for vaddr in vaddrs] if return_address else vaddrs
        with self._lock:
            self._read_for(inside)
            return self._current_table()

    def lookup(self, vaddr: int, *, return_address: bool = False) -> Frames:
        """Return the frames of an address, as `Binary.lookup`."""
        return self.table_for((vaddr,), return_address=return_address).lookup(vaddr, return_address=return_address)
