"""Columns to the archive's bytes: the VA table, the range table, the line tables, where functions start. Little-endian.

Ranges come as one object of columns (writer.Columns), whose attributes are read by name.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free, malloc, qsort
from cython.cimports.libc.string import memcmp, memcpy
from cython.cimports.whence.kernels.checks import all_below, belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.hashtable import (
    HashTable,
    fill_slot,
    first_slot,
    is_crowded,
    make_slots,
    mix,
    next_slot,
    put_item,
    release_slots,
)
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.vector import Bytes, U32s, push_u32, release, reserve
from cython.cimports.whence.lidia.kernels.queries import LINE_FIELDS, RANGE_FIELDS, START_FIELDS
from cython.cimports.whence.lidia.kernels.store import store

SINGLES = cython.declare(cython.uint, 65536)  # lines whose runs of one entry are found by the line
MOST_ENTRIES = cython.declare(cython.Py_ssize_t, 0xFFFFFFFE)


@cython.final
@cython.cclass
class Survey:
    """What widths and flags depend on.

    `ordered`: by (vaddr, depth). `tidy`: ordered, functions lie apart, none is empty, and what is inlined lies in them.
    `most_line` is the greatest field of a line entry. `fault` is the first range whose line rows are not rows of the
    table, or -1.
    """

    ordered = cython.declare(cython.bint, visibility="readonly")
    tidy = cython.declare(cython.bint, visibility="readonly")
    functions = cython.declare(cython.Py_ssize_t, visibility="readonly")
    most_vaddr = cython.declare(cython.ulonglong, visibility="readonly")
    most_length = cython.declare(cython.ulonglong, visibility="readonly")
    most_line = cython.declare(cython.uint, visibility="readonly")
    fault = cython.declare(cython.Py_ssize_t, visibility="readonly")

    def __cinit__(self, columns: object, lines: cython.bint):
        """`lines`: whether line rows are stored. Reads every range and, where `lines`, every row of each."""
        vaddr: cython.const[cython.ulonglong][::1] = columns.vaddr
        length: cython.const[cython.ulonglong][::1] = columns.length
        depth: cython.const[cython.uint][::1] = columns.depth
        first: cython.const[cython.uint][::1] = columns.line_index
        count: cython.const[cython.uint][::1] = columns.line_count
        offset: cython.const[cython.uint][::1] = columns.line_offset
        number: cython.const[cython.uint][::1] = columns.line_number
        index: cython.Py_ssize_t
        row: cython.ulonglong
        rows: cython.ulonglong = offset.shape[0]
        until: cython.ulonglong = 0
        belong(
            min(length.shape[0], depth.shape[0], first.shape[0], count.shape[0]) >= vaddr.shape[0]
            and number.shape[0] == offset.shape[0]
        )
        self.ordered = self.tidy = True
        self.fault = -1
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for index in range(vaddr.shape[0]):
                handle_signals(cython.address(work), 1)
                if vaddr[index] > self.most_vaddr:
                    self.most_vaddr = vaddr[index]
                if length[index] > self.most_length:
                    self.most_length = length[index]
                if index and (
                    vaddr[index] < vaddr[index - 1]
                    or (vaddr[index] == vaddr[index - 1] and depth[index] < depth[index - 1])
                ):
                    self.ordered = False
                if depth[index] == 0:
                    self.functions += 1
                    if length[index] == 0 or vaddr[index] < until:
                        self.tidy = False
                    until = vaddr[index] + length[index]
                elif self.functions == 0 or vaddr[index] + length[index] > until:
                    self.tidy = False
                if lines:
                    row = first[index]
                    if count[index] and row + count[index] > rows:
                        self.fault = index
                        break
                    for row in range(row, row + count[index]):
                        if offset[row] > self.most_line:
                            self.most_line = offset[row]
                        if number[row] > self.most_line:
                            self.most_line = number[row]
        self.tidy = self.tidy and self.ordered


@cython.final
@cython.cclass
class RangeEncoder:
    """The VA table and the range table of columns whose names are numbers of strings, a piece at a time."""

    _vaddr: cython.const[cython.ulonglong][::1]
    _length: cython.const[cython.ulonglong][::1]
    _depth: cython.const[cython.uint][::1]
    _function: cython.const[cython.uint][::1]
    _file: cython.const[cython.uint][::1]
    _line_index: cython.const[cython.uint][::1]
    _line_count: cython.const[cython.uint][::1]
    _call_file: cython.const[cython.uint][::1]
    _call_line: cython.const[cython.uint][::1]
    _string: cython.const[cython.ulonglong][::1]
    _lines: cython.bint

    def __cinit__(self, columns: object, string: cython.const[cython.ulonglong][::1], lines: cython.bint):
        """`string` says at which offset each string lies; without `lines` no range has line entries."""
        self._vaddr, self._length, self._depth = columns.vaddr, columns.length, columns.depth
        self._function, self._file = columns.function, columns.file
        self._line_index, self._line_count = columns.line_index, columns.line_count
        self._call_file, self._call_line = columns.call_file, columns.call_line
        self._string, self._lines = string, lines
        belong(
            min(self._length.shape[0], self._depth.shape[0], self._function.shape[0], self._file.shape[0]) >= len(self)
            and min(self._line_index.shape[0], self._line_count.shape[0]) >= len(self)
            and min(self._call_file.shape[0], self._call_line.shape[0]) >= len(self)
            and all_below(self._function, len(self), string.shape[0])
            and all_below(self._file, len(self), string.shape[0])
            and all_below(self._call_file, len(self), string.shape[0])
        )

    def __len__(self):
        return self._vaddr.shape[0]

    def va_table(self, low: cython.Py_ssize_t, high: cython.Py_ssize_t, width: cython.int):
        """Bytes of the VA table, of ranges [low, high)."""
        belong(0 <= low <= high <= len(self) and width in (2, 4, 8))
        room = bytearray((high - low) * width)
        index: cython.Py_ssize_t
        view: cython.uchar[::1] = room
        out: cython.p_uchar = cython.address(view[0])
        with cython.nogil:
            for index in range(low, high):
                out = store(out, self._vaddr[index], width)
        return bytes(room)

    def range_table(self, low: cython.Py_ssize_t, high: cython.Py_ssize_t, width: cython.int):
        """Bytes of the range table, of ranges [low, high)."""
        belong(0 <= low <= high <= len(self) and width in (2, 4, 8))
        room = bytearray((high - low) * width * RANGE_FIELDS)
        index: cython.Py_ssize_t
        view: cython.uchar[::1] = room
        out: cython.p_uchar = cython.address(view[0])
        with cython.nogil:
            for index in range(low, high):
                out = store(out, self._length[index], width)
                out = store(out, self._depth[index], width)
                out = store(out, self._string[self._function[index]], width)
                out = store(out, self._string[self._file[index]], width)
                out = store(out, self._line_index[index] if self._lines else 0, width)
                out = store(out, self._line_count[index] if self._lines else 0, width)
                out = store(out, self._string[self._call_file[index]], width)
                out = store(out, self._call_line[index], width)
        return bytes(room)


@cython.final
@cython.cclass
class LineTables:
    """The line tables being written: an entry is two fields of `width` bytes.

    Equal runs of entries are stored once. A run of one entry at offset 0, the most frequent by far, is found by its
    line and shared with the first entry of a longer run; the others are found by hash.
    """

    entries = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _entry: cython.Py_ssize_t  # bytes of one
    _width: cython.int
    _seed: cython.ulonglong
    _out: Bytes
    _runs: HashTable
    _run_first: U32s  # the first entry of each run that is found by hash
    _run_count: U32s
    _single: cython.p_uint  # by line: 1 + the index of an entry (0, line)

    def __cinit__(self, width: cython.int, seed: cython.ulonglong, runs: cython.Py_ssize_t):
        """`seed` is random, so that a file cannot choose runs that collide; about `runs` of them are expected."""
        belong(width in (2, 4) and 0 <= runs <= MOST_ENTRIES)
        self._width = width
        self._entry = LINE_FIELDS * width
        self._seed = seed
        self._single = cython.cast(cython.p_uint, calloc(SINGLES, cython.sizeof(cython.uint)))
        if self._single == cython.NULL or not make_slots(cython.address(self._runs), runs // 2):
            raise MemoryError

    def __dealloc__(self):
        release(cython.address(self._out))
        release(cython.address(self._run_first))
        release(cython.address(self._run_count))
        release_slots(cython.address(self._runs))
        free(self._single)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _hash(self, first: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.ulonglong:
        """The hash of a run of entries."""
        entry: cython.p_uchar = self._out.items + first * self._entry
        value: cython.ulonglong = self._seed ^ cython.cast(cython.ulonglong, count)
        word: cython.ulonglong = 0
        while count > 0:  # an entry has 4 or 8 bytes
            memcpy(cython.address(word), entry, self._entry)
            value = mix(value ^ word, self._seed)
            entry += self._entry
            count -= 1
        return value

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _find_run(self, first: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The first entry of a run equal to this one, which is remembered when there was none; -1: no memory."""
        slot: cython.ulonglong
        run: cython.Py_ssize_t
        if is_crowded(cython.address(self._runs)) and not self._grow():
            return -1
        slot = first_slot(cython.address(self._runs), self._hash(first, count))
        while self._runs.slots[slot]:
            run = self._runs.slots[slot] - 1
            if (
                self._run_count.items[run] == count
                and memcmp(
                    self._out.items + self._run_first.items[run] * self._entry,
                    self._out.items + first * self._entry,
                    count * self._entry,
                )
                == 0
            ):
                return self._run_first.items[run]
            slot = next_slot(cython.address(self._runs), slot)
        fill_slot(cython.address(self._runs), slot, self._run_first.count)
        if not push_u32(cython.address(self._run_first), cython.cast(cython.uint, first)):
            return -1
        if not push_u32(cython.address(self._run_count), cython.cast(cython.uint, count)):
            return -1
        return first

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _grow(self) -> cython.bint:
        """Put all runs into more slots. False when there is no memory."""
        run: cython.Py_ssize_t
        if not make_slots(cython.address(self._runs), 2 * self._run_first.count + 1):
            return False
        for run in range(self._run_first.count):
            put_item(
                cython.address(self._runs), self._hash(self._run_first.items[run], self._run_count.items[run]), run
            )
        return True

    def add(self, columns: object, share: cython.bint):
        """Store the line rows of ranges in turn. Returns at which entry those of each range begin, a Column.

        Without `share` each range has entries of its own. MemoryError, also beyond 2^32 entries.
        """
        first: cython.const[cython.uint][::1] = columns.line_index
        count: cython.const[cython.uint][::1] = columns.line_count
        offset: cython.const[cython.uint][::1] = columns.line_offset
        number: cython.const[cython.uint][::1] = columns.line_number
        begins = Column("I")
        out: cython.p_uint
        belong(count.shape[0] >= first.shape[0] and number.shape[0] == offset.shape[0])
        room: cython.bint = begins.reserve(first.shape[0])
        if not room:
            raise MemoryError
        begins.vector.count = first.shape[0]
        out = cython.cast(cython.p_uint, begins.vector.items)
        index: cython.Py_ssize_t
        row: cython.Py_ssize_t
        size: cython.Py_ssize_t
        to: cython.p_uchar
        found: cython.Py_ssize_t
        single: cython.bint
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for index in range(first.shape[0]):
                handle_signals(cython.address(work), 4 + count[index])
                size = count[index]
                if size == 0 and share:
                    out[index] = 0
                    continue
                row = first[index]
                if row + size > offset.shape[0]:
                    out[index] = 0
                    continue
                single = size > 0 and share and offset[row] == 0 and number[row] < SINGLES
                if single and size == 1 and self._single[number[row]]:
                    out[index] = self._single[number[row]] - 1
                    continue
                if not reserve(cython.address(self._out), size * self._entry, 1):
                    room = False
                    break
                to = self._out.items + self.entries * self._entry
                for row in range(first[index], first[index] + size):
                    to = store(store(to, offset[row], self._width), number[row], self._width)
                found = self.entries
                if share and not (single and size == 1):
                    found = self._find_run(self.entries, size)
                    if found < 0:
                        room = False
                        break
                out[index] = cython.cast(cython.uint, found)
                if found == self.entries:
                    if single and self._single[number[first[index]]] == 0:
                        self._single[number[first[index]]] = cython.cast(cython.uint, found + 1)
                    self.entries += size
                    self._out.count += size * self._entry
                    if self.entries > MOST_ENTRIES:
                        room = False
                        break
        if not room:
            raise MemoryError
        return begins

    def part(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t):
        """Bytes [start, stop) of the tables."""
        if start < 0 or stop > self._out.count or start >= stop:
            return b""
        return cython.cast(cython.p_char, self._out.items)[start:stop]


@cython.final
@cython.cclass
class SourceRuns:
    """Equal neighbours of a column of bytes as runs: the row where each begins (`first`) and its `value`.

    `few` is false where they would be more than a fifth of the rows: then they are not all here.
    """

    first = cython.declare(Column, visibility="readonly")
    value = cython.declare(Column, visibility="readonly")
    few = cython.declare(cython.bint, visibility="readonly")

    def __cinit__(self, source: cython.const[cython.uchar][::1]):
        row: cython.Py_ssize_t
        found: cython.Py_ssize_t = 0
        most: cython.Py_ssize_t = source.shape[0] // 5
        first: cython.p_uint
        value: cython.p_uchar
        self.first, self.value, self.few = Column("I", True), Column("B", True), True
        if not self.first.reserve(most) or not self.value.reserve(most):
            raise MemoryError
        first = cython.cast(cython.p_uint, self.first.vector.items)
        value = cython.cast(cython.p_uchar, self.value.vector.items)
        with cython.nogil:
            for row in range(source.shape[0]):
                if row and source[row] == source[row - 1]:
                    continue
                if found >= most:
                    self.few = False
                    break
                first[found] = cython.cast(cython.uint, row)
                value[found] = source[row]
                found += 1
        self.first.vector.count = self.value.vector.count = found


# Where functions start. Strings are numbered in the order they lie in the archive: rows in order of numbers are in
# order of offsets.


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ascending(
    one: cython.pointer[cython.const[cython.void]], two: cython.pointer[cython.const[cython.void]]
) -> cython.int:
    first: cython.ulonglong = cython.cast(cython.pointer[cython.const[cython.ulonglong]], one)[0]
    second: cython.ulonglong = cython.cast(cython.pointer[cython.const[cython.ulonglong]], two)[0]
    return 1 if first > second else -1 if first < second else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_stored(function: cython.uint, file: cython.uint, line: cython.uint, strings: cython.Py_ssize_t) -> cython.bint:
    """Whether both names are strings of the archive, and not empty ones."""
    return line != 0 and 0 < function < strings and 0 < file < strings


def start_rows(
    function: cython.const[cython.uint][::1],
    file: cython.const[cython.uint][::1],
    line: cython.const[cython.uint][::1],
    string: cython.const[cython.ulonglong][::1],
):
    """The rows of STRT whose function, file and line are known, in order, each once: a Column of three numbers a row.

    `function` and `file` are numbers of strings (a number that no string has: it is not in the archive), `string` says
    at which offset each string lies. MemoryError.
    """
    strings: cython.Py_ssize_t = string.shape[0]
    index: cython.Py_ssize_t
    low: cython.Py_ssize_t
    high: cython.Py_ssize_t = 0
    kept: cython.Py_ssize_t = 0
    total: cython.Py_ssize_t = 0
    held: cython.Py_ssize_t
    column = Column("I")
    out: cython.p_uint
    belong(min(function.shape[0], file.shape[0]) >= line.shape[0])
    # by function: where its rows end so far, counted from 0
    end: cython.pointer(cython.Py_ssize_t) = cython.cast(
        cython.pointer(cython.Py_ssize_t), calloc(strings + 1, cython.sizeof(cython.Py_ssize_t))
    )
    rows: cython.p_ulonglong = cython.cast(cython.p_ulonglong, malloc(line.shape[0] * 8 + 8))  # file << 32 | line
    if end == cython.NULL or rows == cython.NULL or not column.reserve(START_FIELDS * line.shape[0]):
        free(end)
        free(rows)
        raise MemoryError
    out = cython.cast(cython.p_uint, column.vector.items)
    with cython.nogil:
        for index in range(line.shape[0]):
            if is_stored(function[index], file[index], line[index], strings):
                end[function[index]] += 1
        for index in range(strings):
            held = end[index]
            end[index] = total
            total += held
        for index in range(line.shape[0]):
            if is_stored(function[index], file[index], line[index], strings):
                rows[end[function[index]]] = cython.cast(cython.ulonglong, file[index]) << 32 | line[index]
                end[function[index]] += 1
        for index in range(strings):
            low = high
            high = end[index]
            if high - low > 1:
                qsort(rows + low, high - low, 8, ascending)
            for held in range(low, high):
                if held == low or rows[held] != rows[held - 1]:
                    out[START_FIELDS * kept] = cython.cast(cython.uint, string[index])
                    out[START_FIELDS * kept + 1] = cython.cast(cython.uint, string[rows[held] >> 32])
                    out[START_FIELDS * kept + 2] = cython.cast(cython.uint, rows[held])
                    kept += 1
    free(end)
    free(rows)
    column.vector.count = START_FIELDS * kept
    return column
