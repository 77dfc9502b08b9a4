"""Columns to the archive's bytes: the VA table, the range table, the line tables. All little-endian."""

import cython
from cython.cimports.libc.stdlib import calloc, free, malloc, realloc
from cython.cimports.libc.string import memcmp, memcpy

SINGLES = cython.declare(cython.uint, 65536)
MIX = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _put(out: cython.p_uchar, value: cython.ulonglong, width: cython.int) -> cython.p_uchar:
    at: cython.int
    if width == 4:
        for at in range(4):
            out[at] = cython.cast(cython.uchar, value >> (8 * at))
    else:
        for at in range(8):
            out[at] = cython.cast(cython.uchar, value >> (8 * at))
    return out + width


def survey(
    va: cython.const[cython.ulonglong][::1],
    length: cython.const[cython.ulonglong][::1],
    depth: cython.const[cython.uint][::1],
    index: cython.const[cython.uint][::1],
    count: cython.const[cython.uint][::1],
    offset: cython.const[cython.uint][::1],
    number: cython.const[cython.uint][::1],
    lines: cython.bint,
):
    """What the widths depend on: (in order, functions apart, functions, largest va, length, line field, fault).

    `fault` is the first range whose rows are not rows of the table, or -1.
    """
    at: cython.Py_ssize_t
    row: cython.ulonglong
    ordered: cython.bint = True
    apart: cython.bint = True
    functions: cython.Py_ssize_t = 0
    until: cython.ulonglong = 0
    most_va: cython.ulonglong = 0
    most_length: cython.ulonglong = 0
    most_line: cython.uint = 0
    fault: cython.Py_ssize_t = -1
    rows: cython.ulonglong = offset.shape[0]
    with cython.nogil:
        for at in range(va.shape[0]):
            if va[at] > most_va:
                most_va = va[at]
            if length[at] > most_length:
                most_length = length[at]
            if at and (va[at] < va[at - 1] or (va[at] == va[at - 1] and depth[at] < depth[at - 1])):
                ordered = False
            if depth[at] == 0:
                functions += 1
                if length[at] == 0 or va[at] < until:
                    apart = False
                until = va[at] + length[at]
            elif functions == 0 or va[at] + length[at] > until:
                apart = False
            if lines:
                row = index[at]
                if count[at] and row + count[at] > rows:
                    fault = at
                    break
                for row in range(row, row + count[at]):
                    if offset[row] > most_line:
                        most_line = offset[row]
                    if number[row] > most_line:
                        most_line = number[row]
    return ordered, apart and ordered, functions, most_va, most_length, most_line, fault


def encode_va(
    va: cython.const[cython.ulonglong][::1],
    low: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    width: cython.int,
    out: cython.uchar[::1],
):
    at: cython.Py_ssize_t
    to: cython.p_uchar = cython.address(out[0])
    with cython.nogil:
        for at in range(low, high):
            to = _put(to, va[at], width)


def encode_ranges(
    length: cython.const[cython.ulonglong][::1],
    depth: cython.const[cython.uint][::1],
    function: cython.const[cython.uint][::1],
    file: cython.const[cython.uint][::1],
    line_index: cython.const[cython.uint][::1],
    line_count: cython.const[cython.uint][::1],
    call_file: cython.const[cython.uint][::1],
    call_line: cython.const[cython.uint][::1],
    string: cython.const[cython.ulonglong][::1],
    lines: cython.bint,
    low: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    width: cython.int,
    out: cython.uchar[::1],
):
    """Rows [low, high); names are numbers of strings, `string` says where each string starts."""
    at: cython.Py_ssize_t
    to: cython.p_uchar = cython.address(out[0])
    with cython.nogil:
        for at in range(low, high):
            to = _put(to, length[at], width)
            to = _put(to, depth[at], width)
            to = _put(to, string[function[at]], width)
            to = _put(to, string[file[at]], width)
            to = _put(to, line_index[at] if lines else 0, width)
            to = _put(to, line_count[at] if lines else 0, width)
            to = _put(to, string[call_file[at]], width)
            to = _put(to, call_line[at], width)


@cython.final
@cython.cclass
class Lines:
    """The line tables being written: an entry is two fields of `width` bytes.

    Equal runs of entries are stored once. A run of one entry at offset 0, the most frequent by far, is found by its
    line and shared with the first entry of a longer run; the others are found by hash.
    """

    count = cython.declare(cython.Py_ssize_t, visibility="readonly")  # entries
    _width: cython.int
    _failed: cython.bint
    _seed: cython.ulonglong
    _bytes: cython.p_uchar
    _room: cython.Py_ssize_t  # entries
    _slot: cython.p_uint  # 1 + the index of a run's first entry
    _slot_count: cython.p_uint
    _slot_mask: cython.ulonglong
    _used: cython.ulonglong
    _single: cython.p_uint  # by line: 1 + the index of an entry (0, line)

    def __cinit__(self, width: cython.int, seed: cython.ulonglong, runs: cython.Py_ssize_t):
        self._width = width
        self._seed = seed
        self._room = 1024
        self._bytes = cython.cast(cython.p_uchar, malloc(self._room * 2 * width))
        self._slot_mask = 1023
        while self._slot_mask < cython.cast(cython.ulonglong, runs):
            self._slot_mask = 2 * self._slot_mask + 1
        self._slot = cython.cast(cython.p_uint, calloc(self._slot_mask + 1, 4))
        self._slot_count = cython.cast(cython.p_uint, calloc(self._slot_mask + 1, 4))
        self._single = cython.cast(cython.p_uint, calloc(SINGLES, 4))
        if (
            self._bytes == cython.NULL or self._slot == cython.NULL or self._slot_count == cython.NULL
            or self._single == cython.NULL
        ):  # fmt: skip
            raise MemoryError

    def __dealloc__(self):
        free(self._bytes)
        free(self._slot)
        free(self._slot_count)
        free(self._single)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _hash(self, index: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.ulonglong:
        text: cython.p_uchar = self._bytes + index * 2 * self._width
        size: cython.Py_ssize_t = count * 2 * self._width
        value: cython.ulonglong = self._seed ^ size
        word: cython.ulonglong = 0
        while size > 0:  # an entry has 4 or 8 bytes
            word = 0
            memcpy(cython.address(word), text, 2 * self._width)
            value = (value ^ word) * MIX
            value ^= value >> 31
            value *= self._seed | 1
            text += 2 * self._width
            size -= 2 * self._width
        return value ^ (value >> 32)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _known(self, index: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Where a run equal to this one is; it is remembered when there was none."""
        at: cython.ulonglong = self._hash(index, count) & self._slot_mask
        entry: cython.Py_ssize_t = 2 * self._width
        while self._slot[at]:
            if (
                self._slot_count[at] == count
                and memcmp(self._bytes + (self._slot[at] - 1) * entry, self._bytes + index * entry, count * entry) == 0
            ):
                return self._slot[at] - 1
            at = (at + 1) & self._slot_mask
        self._slot[at] = cython.cast(cython.uint, index + 1)
        self._slot_count[at] = cython.cast(cython.uint, count)
        self._used += 1
        if 2 * self._used > self._slot_mask:
            self._grow()
        return index

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _grow(self) -> cython.void:
        room: cython.ulonglong = 4 * (self._slot_mask + 1)
        slot: cython.p_uint = cython.cast(cython.p_uint, calloc(room, 4))
        counts: cython.p_uint = cython.cast(cython.p_uint, calloc(room, 4))
        old: cython.ulonglong
        at: cython.ulonglong
        if slot == cython.NULL or counts == cython.NULL:
            free(slot)
            free(counts)
            self._failed = True
            return
        for old in range(self._slot_mask + 1):
            if self._slot[old]:
                at = self._hash(self._slot[old] - 1, self._slot_count[old]) & (room - 1)
                while slot[at]:
                    at = (at + 1) & (room - 1)
                slot[at] = self._slot[old]
                counts[at] = self._slot_count[old]
        free(self._slot)
        free(self._slot_count)
        self._slot = slot
        self._slot_count = counts
        self._slot_mask = room - 1

    def add(
        self,
        index: cython.const[cython.uint][::1],
        count: cython.const[cython.uint][::1],
        offset: cython.const[cython.uint][::1],
        number: cython.const[cython.uint][::1],
        share: cython.bint,
        out_index: cython.uint[::1],
    ):
        """Store the rows of the ranges in turn and say at which entry each range's rows begin."""
        at: cython.Py_ssize_t
        row: cython.Py_ssize_t
        size: cython.Py_ssize_t
        to: cython.p_uchar
        found: cython.Py_ssize_t
        now: cython.p_uchar
        single: cython.bint
        with cython.nogil:
            for at in range(index.shape[0]):
                size = count[at]
                if size == 0 and share:
                    out_index[at] = 0
                    continue
                row = index[at]
                single = share and offset[row] == 0 and number[row] < SINGLES
                if single and size == 1 and self._single[number[row]]:
                    out_index[at] = self._single[number[row]] - 1
                    continue
                if self.count + size > self._room:
                    row = (self.count + size) * 3 // 2
                    now = cython.cast(cython.p_uchar, realloc(self._bytes, row * 2 * self._width))
                    if now == cython.NULL:
                        self._failed = True
                        break
                    self._bytes = now
                    self._room = row
                to = self._bytes + self.count * 2 * self._width
                for row in range(index[at], index[at] + size):
                    if self._width == 2:
                        to[0] = cython.cast(cython.uchar, offset[row])
                        to[1] = cython.cast(cython.uchar, offset[row] >> 8)
                        to[2] = cython.cast(cython.uchar, number[row])
                        to[3] = cython.cast(cython.uchar, number[row] >> 8)
                        to += 4
                    else:
                        to = _put(_put(to, offset[row], 4), number[row], 4)
                found = self.count
                if share and not (single and size == 1):
                    found = self._known(self.count, size)
                out_index[at] = cython.cast(cython.uint, found)
                if found == self.count:
                    if single and self._single[number[index[at]]] == 0:
                        self._single[number[index[at]]] = cython.cast(cython.uint, found + 1)
                    self.count += size
                if self._failed:
                    break
        if self._failed or self.count >= 0xFFFFFFFF:
            raise MemoryError

    def part(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t):
        """Bytes of the tables."""
        if start < 0 or stop > self.count * 2 * self._width or start >= stop:
            return b""
        return cython.cast(cython.p_char, self._bytes)[start:stop]


def runs(source: cython.const[cython.uchar][::1], start: cython.uint[::1], value: cython.uchar[::1]):
    """Equal neighbours as runs: where each begins and its value. Gives how many, or -1 when they do not fit."""
    at: cython.Py_ssize_t
    found: cython.Py_ssize_t = 0
    with cython.nogil:
        for at in range(source.shape[0]):
            if at and source[at] == source[at - 1]:
                continue
            if found >= start.shape[0]:
                found = -1
                break
            start[found] = cython.cast(cython.uint, at)
            value[found] = source[at]
            found += 1
    return found
