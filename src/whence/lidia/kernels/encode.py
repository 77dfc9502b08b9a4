"""Encode columns as the archive's bytes: VA table, range table, line tables, start lines. Little-endian.

The columns of ranges are attributes of one object (writer.EncodedColumns), read by name.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free, malloc, qsort
from cython.cimports.libc.string import memcmp, memcpy
from cython.cimports.whence.kernels.checks import all_below, belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.hashtable import (
    HashIndex,
    Probe,
    first_match,
    insert,
    mix,
    next_match,
    release_index,
    reserve_index,
)
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.vector import Bytes, U32s, push_u32, release, reserve
from cython.cimports.whence.lidia.kernels.queries import LINE_FIELDS, RANGE_FIELDS, START_FIELDS
from cython.cimports.whence.lidia.kernels.store import store

SINGLES = cython.declare(cython.uint, 65536)  # lines below this have an entry in a table of runs of one entry
MOST_ENTRIES = cython.declare(cython.Py_ssize_t, 0xFFFFFFFE)


@cython.final
@cython.cclass
class Survey:
    """Properties of all ranges on which widths and flags depend.

    `ordered`: ranges are in order of (vaddr, depth). `tidy`: also, functions do not overlap, none is empty, and they
    enclose their inlined calls. `most_line` is the greatest field of a line entry. `fault` is the first range with line
    rows outside the table, or -1.
    """

    ordered = cython.declare(cython.bint, visibility="readonly")
    tidy = cython.declare(cython.bint, visibility="readonly")
    functions = cython.declare(cython.Py_ssize_t, visibility="readonly")
    most_vaddr = cython.declare(cython.ulonglong, visibility="readonly")
    most_length = cython.declare(cython.ulonglong, visibility="readonly")
    most_line = cython.declare(cython.uint, visibility="readonly")
    fault = cython.declare(cython.Py_ssize_t, visibility="readonly")

    def __cinit__(self, columns: object, lines: cython.bint):
        """Read every range and, if `lines`, every line row of each."""
        vaddr: cython.const[cython.ulonglong][::1] = columns.vaddr
        length: cython.const[cython.ulonglong][::1] = columns.length
        depth: cython.const[cython.uint][::1] = columns.depth
        first: cython.const[cython.uint][::1] = columns.line_index
        count: cython.const[cython.uint][::1] = columns.line_count
        offset: cython.const[cython.uint][::1] = columns.line_offset
        number: cython.const[cython.uint][::1] = columns.line_number
        index: cython.Py_ssize_t
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
                    row: cython.ulonglong = first[index]
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
    """Encodes the VA table and the range table, a piece at a time. Names are numbers of strings."""

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
        """Read columns. `string` has the offset of each string; without `lines` no range has line entries."""
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
        """Return the bytes of the VA table for ranges [low, high)."""
        belong(0 <= low <= high <= len(self) and width in (2, 4, 8))
        out_bytes = bytearray((high - low) * width)
        index: cython.Py_ssize_t
        view: cython.uchar[::1] = out_bytes
        out: cython.p_uchar = cython.address(view[0])
        with cython.nogil:
            for index in range(low, high):
                out = store(out, self._vaddr[index], width)
        return bytes(out_bytes)

    def range_table(self, low: cython.Py_ssize_t, high: cython.Py_ssize_t, width: cython.int):
        """Return the bytes of the range table for ranges [low, high)."""
        belong(0 <= low <= high <= len(self) and width in (2, 4, 8))
        out_bytes = bytearray((high - low) * width * RANGE_FIELDS)
        index: cython.Py_ssize_t
        view: cython.uchar[::1] = out_bytes
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
        return bytes(out_bytes)


@cython.final
@cython.cclass
class LineTables:
    """Builds the line tables. An entry is two fields of `width` bytes.

    Equal runs of entries are stored once. A run of one entry at offset 0, by far the most frequent kind, is found by
    its line and may share the first entry of a longer run; other runs are found by hash.
    """

    entries = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _entry: cython.Py_ssize_t  # bytes of an entry
    _width: cython.int
    _seed: cython.ulonglong
    _out: Bytes
    _runs: HashIndex
    _run_first: U32s  # the first entry of each run in `_runs`
    _run_count: U32s
    _single: cython.p_uint  # by line: 1 + the number of an entry (0, line)

    def __cinit__(self, width: cython.int, seed: cython.ulonglong, runs: cython.Py_ssize_t):
        """Start empty. `seed` is random, so that a file cannot choose runs that collide; `runs` is an estimate."""
        belong(width in (2, 4) and 0 <= runs <= MOST_ENTRIES)
        self._width = width
        self._entry = LINE_FIELDS * width
        self._seed = seed
        self._single = cython.cast(cython.p_uint, calloc(SINGLES, cython.sizeof(cython.uint)))
        if self._single == cython.NULL or not reserve_index(cython.address(self._runs), runs // 2):
            raise MemoryError

    def __dealloc__(self):
        release(cython.address(self._out))
        release(cython.address(self._run_first))
        release(cython.address(self._run_count))
        release_index(cython.address(self._runs))
        free(self._single)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _hash(self, first: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.ulonglong:
        """Hash a run of entries."""
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
        """Return the first entry of an equal run, or `first` after storing this run; -1 without memory."""
        hash: cython.ulonglong = self._hash(first, count)
        probe: Probe = first_match(cython.address(self._runs), hash)
        entries: cython.p_uchar = self._out.items + first * self._entry
        while next_match(cython.address(self._runs), cython.address(probe)):
            run: cython.Py_ssize_t = self._run_first.items[probe.item]
            if (
                self._run_count.items[probe.item] == count
                and memcmp(self._out.items + run * self._entry, entries, count * self._entry) == 0
            ):
                return run
        if not (
            push_u32(cython.address(self._run_first), cython.cast(cython.uint, first))
            and push_u32(cython.address(self._run_count), cython.cast(cython.uint, count))
            and insert(cython.address(self._runs), hash, self._run_first.count - 1)
        ):
            return -1
        return first

    def add(self, columns: object, share: cython.bint):
        """Store the line rows of all ranges; return the first entry of each range, a Column of u32.

        Without `share` each range gets separate entries. Raises MemoryError without memory, or for 2^32 entries.
        """
        first: cython.const[cython.uint][::1] = columns.line_index
        count: cython.const[cython.uint][::1] = columns.line_count
        offset: cython.const[cython.uint][::1] = columns.line_offset
        number: cython.const[cython.uint][::1] = columns.line_number
        begins = Column("I")
        belong(count.shape[0] >= first.shape[0] and number.shape[0] == offset.shape[0])
        ok: cython.bint = begins.reserve(first.shape[0])
        if not ok:
            raise MemoryError
        begins.vector.count = first.shape[0]
        out: cython.p_uint = cython.cast(cython.p_uint, begins.vector.items)
        index: cython.Py_ssize_t
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for index in range(first.shape[0]):
                handle_signals(cython.address(work), 4 + count[index])
                size: cython.Py_ssize_t = count[index]
                if size == 0 and share:
                    out[index] = 0
                    continue
                row: cython.Py_ssize_t = first[index]
                if row + size > offset.shape[0]:
                    out[index] = 0
                    continue
                single: cython.bint = size > 0 and share and offset[row] == 0 and number[row] < SINGLES
                if single and size == 1 and self._single[number[row]]:
                    out[index] = self._single[number[row]] - 1
                    continue
                if not reserve(cython.address(self._out), size * self._entry, 1):
                    ok = False
                    break
                to: cython.p_uchar = self._out.items + self.entries * self._entry
                for row in range(first[index], first[index] + size):
                    to = store(store(to, offset[row], self._width), number[row], self._width)
                entry: cython.Py_ssize_t = self.entries
                if share and not (single and size == 1):
                    entry = self._find_run(self.entries, size)
                    if entry < 0:
                        ok = False
                        break
                out[index] = cython.cast(cython.uint, entry)
                if entry == self.entries:
                    if single and self._single[number[first[index]]] == 0:
                        self._single[number[first[index]]] = cython.cast(cython.uint, entry + 1)
                    self.entries += size
                    self._out.count += size * self._entry
                    if self.entries > MOST_ENTRIES:
                        ok = False
                        break
        if not ok:
            raise MemoryError
        return begins

    def part(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t):
        """Return bytes [start, stop) of the tables."""
        if start < 0 or stop > self._out.count or start >= stop:
            return b""
        return cython.cast(cython.p_char, self._out.items)[start:stop]


@cython.final
@cython.cclass
class SourceRuns:
    """The runs of equal adjacent bytes of a column: the first row (`first`) and the `value` of each.

    `few` is False, and the runs are incomplete, if they are more than a fifth of the rows.
    """

    first = cython.declare(Column, visibility="readonly")
    value = cython.declare(Column, visibility="readonly")
    few = cython.declare(cython.bint, visibility="readonly")

    def __cinit__(self, source: cython.const[cython.uchar][::1]):
        row: cython.Py_ssize_t
        runs: cython.Py_ssize_t = 0
        most: cython.Py_ssize_t = source.shape[0] // 5
        self.first, self.value, self.few = Column("I", True), Column("B", True), True
        if not self.first.reserve(most) or not self.value.reserve(most):
            raise MemoryError
        first: cython.p_uint = cython.cast(cython.p_uint, self.first.vector.items)
        value: cython.p_uchar = cython.cast(cython.p_uchar, self.value.vector.items)
        with cython.nogil:
            for row in range(source.shape[0]):
                if row and source[row] == source[row - 1]:
                    continue
                if runs >= most:
                    self.few = False
                    break
                first[runs] = cython.cast(cython.uint, row)
                value[runs] = source[row]
                runs += 1
        self.first.vector.count = self.value.vector.count = runs


# Start lines. Strings are numbered in the order of their offsets, so rows sorted by number are sorted by offset.


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ascending(
    left: cython.pointer[cython.const[cython.void]], right: cython.pointer[cython.const[cython.void]]
) -> cython.int:
    first: cython.ulonglong = cython.cast(cython.pointer[cython.const[cython.ulonglong]], left)[0]
    second: cython.ulonglong = cython.cast(cython.pointer[cython.const[cython.ulonglong]], right)[0]
    return 1 if first > second else -1 if first < second else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_stored(function: cython.uint, file: cython.uint, line: cython.uint, strings: cython.Py_ssize_t) -> cython.bint:
    """Return True if the line is known and both names are non-empty strings of the archive."""
    return line != 0 and 0 < function < strings and 0 < file < strings


def start_rows(
    function: cython.const[cython.uint][::1],
    file: cython.const[cython.uint][::1],
    line: cython.const[cython.uint][::1],
    string: cython.const[cython.ulonglong][::1],
):
    """Return the rows of STRT, sorted and distinct: a Column of three numbers a row.

    Rows whose function, file or line is unknown are left out.

    `function` and `file` are numbers of strings, or another number for a name that is not in the archive; `string` has
    the offset of each string.
    """
    strings: cython.Py_ssize_t = string.shape[0]
    index: cython.Py_ssize_t
    high: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = 0
    total: cython.Py_ssize_t = 0
    column = Column("I")
    belong(min(function.shape[0], file.shape[0]) >= line.shape[0])
    # by function: the end of its rows so far
    end: cython.pointer(cython.Py_ssize_t) = cython.cast(
        cython.pointer(cython.Py_ssize_t), calloc(strings + 1, cython.sizeof(cython.Py_ssize_t))
    )
    rows: cython.p_ulonglong = cython.cast(cython.p_ulonglong, malloc(line.shape[0] * 8 + 8))  # file << 32 | line
    if end == cython.NULL or rows == cython.NULL or not column.reserve(START_FIELDS * line.shape[0]):
        free(end)
        free(rows)
        raise MemoryError
    out: cython.p_uint = cython.cast(cython.p_uint, column.vector.items)
    with cython.nogil:
        for index in range(line.shape[0]):
            if is_stored(function[index], file[index], line[index], strings):
                end[function[index]] += 1
        for index in range(strings):
            row: cython.Py_ssize_t = end[index]
            end[index] = total
            total += row
        for index in range(line.shape[0]):
            if is_stored(function[index], file[index], line[index], strings):
                rows[end[function[index]]] = cython.cast(cython.ulonglong, file[index]) << 32 | line[index]
                end[function[index]] += 1
        for index in range(strings):
            low: cython.Py_ssize_t = high
            high = end[index]
            if high - low > 1:
                qsort(rows + low, high - low, 8, ascending)
            for row in range(low, high):
                if row == low or rows[row] != rows[row - 1]:
                    out[START_FIELDS * count] = cython.cast(cython.uint, string[index])
                    out[START_FIELDS * count + 1] = cython.cast(cython.uint, string[rows[row] >> 32])
                    out[START_FIELDS * count + 2] = cython.cast(cython.uint, rows[row])
                    count += 1
    free(end)
    free(rows)
    column.vector.count = START_FIELDS * count
    return column
