"""Line tables with columns: entries of offset, line, column and discriminator; equal runs are stored once.

The line tables have offsets and lines, as in archives without columns. Columns and discriminators of the same entries,
and of the calls of ranges, are in separate chunks (see layout.py).
"""

import cython
from cython.cimports.libc.string import memcmp, memset
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.hashtable import (
    HashIndex,
    Probe,
    first_match,
    insert,
    mix_bytes,
    next_match,
    release_index,
)
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.vector import Bytes, Vector, push, release, reserve

MOST_ENTRIES = cython.declare(cython.Py_ssize_t, 0xFFFFFFFF)  # as numbers of entries have 32 bits

Entry = cython.struct(
    offset=cython.uint, line=cython.uint, column=cython.uint, discriminator=cython.uint
)  # fmt: skip
Run = cython.struct(first=cython.Py_ssize_t, count=cython.Py_ssize_t)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put(out: cython.pointer[Bytes], value: cython.uint, width: cython.int) -> cython.void:
    """Append a little-endian number of `width` bytes; the memory is reserved."""
    index: cython.int
    for index in range(width):
        out.items[out.count] = cython.cast(cython.uchar, value >> (8 * index))
        out.count += 1


@cython.final
@cython.cclass
class LocatedLines:
    """The line entries of a table with columns. `entries` is the number of stored entries."""

    entries = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _width: cython.int
    _seed: cython.ulonglong
    _entries: Vector
    _runs: Vector
    _index: HashIndex  # of runs

    def __cinit__(self, width: cython.int, seed: cython.ulonglong):
        """Start empty. `width` is the size of a field of the line tables in bytes; `seed` is random."""
        belong(width in (2, 4))
        self._width = width
        self._seed = seed

    def __dealloc__(self):
        release(cython.address(self._entries))
        release(cython.address(self._runs))
        release_index(cython.address(self._index))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _hash(self, run: cython.pointer[Run]) -> cython.ulonglong:
        entries = cython.cast(cython.pointer[Entry], self._entries.items) + run.first
        return mix_bytes(cython.cast(cython.p_uchar, entries), run.count * cython.sizeof(Entry), self._seed)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _shared(self, run: cython.pointer[Run]) -> cython.Py_ssize_t:
        """Return the first entry of an equal run; store `run`, the last entries, if it is new. -1 without memory."""
        hash: cython.ulonglong = self._hash(run)
        probe: Probe = first_match(cython.address(self._index), hash)
        entries = cython.cast(cython.pointer[Entry], self._entries.items)
        while next_match(cython.address(self._index), cython.address(probe)):
            stored = cython.cast(cython.pointer[Run], self._runs.items) + probe.item
            if stored.count == run.count and (
                memcmp(entries + stored.first, entries + run.first, run.count * cython.sizeof(Entry)) == 0
            ):
                return stored.first
        item = cython.cast(cython.pointer[Run], push(cython.address(self._runs), cython.sizeof(Run)))
        if item == cython.NULL:
            return -1
        item[0] = run[0]
        return run.first if insert(cython.address(self._index), hash, self._runs.count - 1) else -1

    def add(self, ranges):
        """Store the line rows of all ranges; return the first entry of each range, a Column of u32.

        Raises MemoryError without memory, or for 2^32 entries.
        """
        numbers: Column = Column("I")
        index: cython.const[cython.uint][::1] = ranges.line_index
        count: cython.const[cython.uint][::1] = ranges.line_count
        offset: cython.const[cython.uint][::1] = ranges.line_offset
        line: cython.const[cython.uint][::1] = ranges.line_number
        column: cython.const[cython.uint][::1] = ranges.columns.line_column
        discriminator: cython.const[cython.uint][::1] = ranges.columns.line_discriminator
        number: cython.Py_ssize_t
        row: cython.Py_ssize_t
        first: cython.Py_ssize_t = 0
        run: Run
        belong(count.shape[0] >= index.shape[0])
        belong(min(line.shape[0], column.shape[0], discriminator.shape[0]) >= offset.shape[0])
        for number in range(index.shape[0]):
            belong(
                cython.cast(cython.Py_ssize_t, index[number]) + count[number] <= offset.shape[0] or not count[number]
            )
        if not numbers.reserve(index.shape[0]):
            raise MemoryError
        out = cython.cast(cython.p_uint, numbers.vector.items)
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for number in range(index.shape[0]):
                handle_signals(cython.address(work), 4 + count[number])
                if count[number] == 0:
                    out[number] = 0
                    continue
                run.first = self._entries.count
                run.count = count[number]
                if not reserve(cython.address(self._entries), run.count, cython.sizeof(Entry)):
                    first = -1
                    break
                entries = cython.cast(cython.pointer[Entry], self._entries.items)
                start: cython.Py_ssize_t = index[number]
                for row in range(start, start + run.count):
                    entry = entries + self._entries.count
                    memset(entry, 0, cython.sizeof(Entry))
                    entry.offset = offset[row]
                    entry.line = line[row]
                    entry.column = column[row]
                    entry.discriminator = discriminator[row]
                    self._entries.count += 1
                first = self._shared(cython.address(run))
                if first < 0:
                    break
                if first != run.first:
                    self._entries.count = run.first
                out[number] = cython.cast(cython.uint, first)
                if self._entries.count >= MOST_ENTRIES:
                    first = -1
                    break
        if first < 0:
            raise MemoryError
        numbers.vector.count = index.shape[0]
        self.entries = self._entries.count
        return numbers

    def part(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t):
        """Return bytes [start, stop) of the line tables, as complete entries."""
        size: cython.Py_ssize_t = 2 * self._width
        index: cython.Py_ssize_t
        out: Bytes
        memset(cython.address(out), 0, cython.sizeof(Bytes))
        if start < 0 or stop > self.entries * size or start >= stop:
            return b""
        if not reserve(cython.address(out), stop - start + size, 1):
            raise MemoryError
        entries = cython.cast(cython.pointer[Entry], self._entries.items)
        with cython.nogil:
            if self._width == 2:
                for index in range(start // size, stop // size):
                    put(cython.address(out), entries[index].offset, 2)
                    put(cython.address(out), entries[index].line, 2)
            else:
                for index in range(start // size, stop // size):
                    put(cython.address(out), entries[index].offset, 4)
                    put(cython.address(out), entries[index].line, 4)
        try:
            return cython.cast(cython.p_char, out.items)[: out.count]
        finally:
            release(cython.address(out))

    def line_columns(self):
        """Return the columns and the discriminators of all entries: Columns of u32."""
        columns: Column = Column("I")
        discriminators: Column = Column("I")
        index: cython.Py_ssize_t
        if not (columns.reserve(self.entries) and discriminators.reserve(self.entries)):
            raise MemoryError
        entries = cython.cast(cython.pointer[Entry], self._entries.items)
        column = cython.cast(cython.p_uint, columns.vector.items)
        discriminator = cython.cast(cython.p_uint, discriminators.vector.items)
        with cython.nogil:
            for index in range(self.entries):
                column[index] = entries[index].column
                discriminator[index] = entries[index].discriminator
        columns.vector.count = discriminators.vector.count = self.entries
        return columns, discriminators


def numbered(column: cython.const[cython.uint][::1]):
    """Return (index, number) of all numbers that are not 0, as little-endian 32-bit numbers."""
    index: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    out: Bytes
    memset(cython.address(out), 0, cython.sizeof(Bytes))
    for index in range(column.shape[0]):
        count += column[index] != 0
    if not reserve(cython.address(out), count * 8 + 1, 1):
        raise MemoryError
    with cython.nogil:
        for index in range(column.shape[0]):
            if column[index]:
                put(cython.address(out), cython.cast(cython.uint, index), 4)
                put(cython.address(out), column[index], 4)
    try:
        return cython.cast(cython.p_char, out.items)[: out.count]
    finally:
        release(cython.address(out))


def packed(column: cython.const[cython.uint][::1], width: cython.int):
    """Return numbers as little-endian ones of `width` bytes, which must be sufficient."""
    index: cython.Py_ssize_t
    out: Bytes
    belong(1 <= width <= 4)
    memset(cython.address(out), 0, cython.sizeof(Bytes))
    if not reserve(cython.address(out), column.shape[0] * width + 1, 1):
        raise MemoryError
    with cython.nogil:
        if width == 1:
            for index in range(column.shape[0]):
                put(cython.address(out), column[index], 1)
        else:
            for index in range(column.shape[0]):
                put(cython.address(out), column[index], width)
    try:
        return cython.cast(cython.p_char, out.items)[: out.count]
    finally:
        release(cython.address(out))


def highest(column: cython.const[cython.uint][::1]) -> cython.uint:
    """Return the highest number; 0 for an empty column."""
    index: cython.Py_ssize_t
    out: cython.uint = 0
    with cython.nogil:
        for index in range(column.shape[0]):
            out = max(out, column[index])
    return out
