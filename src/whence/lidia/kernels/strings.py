"""Build the string table of an archive: every name once, in order of first use.

Names are given as references. A known reference costs one probe, without reading its bytes; a new one is hashed by its
bytes, so that equal names from different sources are one string. Hashes are keyed with a random seed, so that a file
cannot choose names that collide.
"""

import cython
from cython.cimports.libc.limits import UINT_MAX
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memchr, memcmp, memcpy, strlen
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.hashtable import (
    Probe,
    find_u64,
    first_match,
    insert,
    mix,
    mix_bytes,
    next_match,
    release_index,
)
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.vector import push_u32, push_u64, release, reserve
from cython.cimports.whence.lidia.kernels.queries import LENGTH_PREFIX

ABSENT = 0xFFFFFFFF  # the number of a name that is not in the table

OFFSET_MASK = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFF)
NO_STRING = cython.declare(cython.uint, ABSENT)
TOO_LONG = cython.declare(cython.ulonglong, 0xFFFFFFFF)  # texts of this length or more do not fit the length field


@cython.final
@cython.cclass
class Interner:
    """Assigns numbers of strings to references of names; number 0 is the empty string.

    `number` fills `function`, `file` and `call_file` with the numbers of the names of each range; `offset` has the
    offset of each string in the table.
    """

    def __cinit__(self, sources: list, nul: cython.bint, seed: cython.ulonglong, most: cython.longlong):
        """Prepare to number names in the buffers `sources`. Names after the first `most` bytes of text are left out."""
        number: cython.Py_ssize_t
        self._nul = nul
        self._seed = seed
        self._left = most
        self._views = []
        self._sources = len(sources)
        self.offset, self.function = Column("Q", True), Column("I", True)
        self.file, self.call_file = Column("I", True), Column("I", True)
        self._source = cython.cast(
            cython.pointer(cython.pointer(cython.const[cython.uchar])),
            calloc(self._sources + 1, cython.sizeof(cython.p_uchar)),
        )
        self._source_size = cython.cast(cython.p_ulonglong, calloc(self._sources + 1, 8))
        if self._source == cython.NULL or self._source_size == cython.NULL:
            raise MemoryError
        for number in range(len(sources)):
            if len(sources[number]):
                view: cython.const[cython.uchar][::1] = sources[number]
                self._views.append(view)
                self._source[number] = cython.address(view[0])
                self._source_size[number] = view.shape[0]
        self._text(cython.cast(cython.p_uchar, b""), 0)
        if not nul:
            overflow: cython.p_char = b"[overflow]"  # string 1, for texts whose length does not fit the field
            self._text(cython.cast(cython.p_uchar, overflow), strlen(overflow))
        if self._failed:
            raise MemoryError

    def __dealloc__(self):
        free(self._source)
        free(self._source_size)
        release(cython.address(self._out))
        release_index(cython.address(self._strings))
        release_index(cython.address(self._refs))
        release(cython.address(self._ref))
        release(cython.address(self._ref_number))

    @property
    def count(self):
        """The number of strings."""
        return self.offset.vector.count

    def _append(self, text, size):
        """Append a string to the table; return False without memory."""
        byte: cython.int
        if not reserve(cython.address(self._out), cython.cast(cython.Py_ssize_t, size) + LENGTH_PREFIX, 1):
            return False
        if not self.offset.push_u64(self._out.count):
            return False
        out: cython.p_uchar = self._out.items + self._out.count
        if not self._nul:
            for byte in range(LENGTH_PREFIX):
                out[byte] = cython.cast(cython.uchar, size >> (8 * byte))
            out += LENGTH_PREFIX
        if size:
            memcpy(out, text, size)
        out += size
        if self._nul:
            out[0] = 0
            out += 1
        self._out.count = self.size = out - self._out.items
        return True

    def _offset(self, number):
        return cython.cast(cython.p_ulonglong, self.offset.vector.items)[number]

    def _start(self, number):
        """Return the start of a string's text in the table, after its length."""
        return self._offset(number) if self._nul else self._offset(number) + LENGTH_PREFIX

    def _end(self, number):
        """Return the end of a string's text, before its NUL."""
        end: cython.ulonglong = self._offset(number + 1) if number + 1 < self.offset.vector.count else self.size
        return end - 1 if self._nul else end

    def _same(self, number, text, size):
        start: cython.ulonglong = self._start(number)
        return self._end(number) - start == size and (size == 0 or memcmp(self._out.items + start, text, size) == 0)

    def _string(self, text, size, hash):
        """Return the number of a text with this hash; -1 if it is not in the table."""
        probe: Probe = first_match(cython.address(self._strings), hash)
        while next_match(cython.address(self._strings), cython.address(probe)):
            if self._same(probe.item, text, size):
                return probe.item
        return -1

    def _size(self, ref):
        """Return the length of a reference's text, up to its NUL; -1 for an invalid reference.

        Reads at most one byte more than the limit has left.
        """
        source: cython.ulonglong = ref >> 48
        offset: cython.ulonglong = ref & OFFSET_MASK
        if source >= self._sources or offset >= self._source_size[source]:
            return -1
        text = self._source[source] + offset
        offset = self._source_size[source] - offset
        if offset > cython.cast(cython.ulonglong, self._left + 1):
            offset = self._left + 1
        end = cython.cast(cython.pointer(cython.const[cython.uchar]), memchr(text, 0, offset))
        return end - text if end != cython.NULL else offset

    def _text(self, text, size):
        """Return the number of a text, adding it if it is new."""
        if size >= TOO_LONG and not self._nul:
            return 1
        hash: cython.ulonglong = mix_bytes(text, size, self._seed)
        number: cython.Py_ssize_t = self._string(text, size, hash)
        if number >= 0:
            return cython.cast(cython.uint, number)
        number = self.offset.vector.count
        if not self._append(text, size) or not insert(cython.address(self._strings), hash, number):
            self._failed = True
            return 0
        return cython.cast(cython.uint, number)

    def _number(self, ref):
        """Return the number of a reference's string, adding it if it is new."""
        number: cython.uint = 0
        if ref == 0:
            return 0
        row: cython.Py_ssize_t = find_u64(cython.address(self._refs), self._ref.items, 8, ref, self._seed)
        if row >= 0:
            return self._ref_number.items[row]
        size: cython.longlong = self._size(ref)
        if size > self._left:
            self._left = 0
            self.dropped += 1
        elif size >= 0:
            self._left -= size
            number = self._text(self._source[ref >> 48] + (ref & OFFSET_MASK), size)
        if not (
            push_u64(cython.address(self._ref), ref)
            and push_u32(cython.address(self._ref_number), number)
            and insert(cython.address(self._refs), mix(ref, self._seed), self._ref.count - 1)
        ):
            self._failed = True
        return number

    def number(self, ranges: object, files: cython.bint):
        """Assign numbers to the function, file and call file of each of `ranges`, in this order.

        Without `files` only functions are numbered.
        """
        function: cython.const[cython.ulonglong][::1] = ranges.function
        file: cython.const[cython.ulonglong][::1] = ranges.file
        call_file: cython.const[cython.ulonglong][::1] = ranges.call_file
        count: cython.Py_ssize_t = function.shape[0]
        belong(not files or min(file.shape[0], call_file.shape[0]) >= count)
        out_function: cython.p_uint = numbers_of(self.function, count)
        out_file: cython.p_uint = numbers_of(self.file, count)
        out_call_file: cython.p_uint = numbers_of(self.call_file, count)
        index: cython.Py_ssize_t
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for index in range(count):
                handle_signals(cython.address(work), 16)
                out_function[index] = self._number(function[index])
                if files:
                    if index and file[index] == file[index - 1]:
                        out_file[index] = out_file[index - 1]
                    else:
                        out_file[index] = self._number(file[index])
                    out_call_file[index] = self._number(call_file[index])
                else:
                    out_file[index] = out_call_file[index] = 0
                if self._failed:
                    break
        if self._failed:
            raise MemoryError

    def _find_number(self, ref):
        """Return the number of a reference's string; NO_STRING if it is not in the table."""
        if ref == 0:
            return 0
        row: cython.Py_ssize_t = find_u64(cython.address(self._refs), self._ref.items, 8, ref, self._seed)
        if row >= 0:
            return self._ref_number.items[row]
        size: cython.longlong = self._size(ref)
        if size < 0:
            return NO_STRING
        text = self._source[ref >> 48] + (ref & OFFSET_MASK)
        number: cython.Py_ssize_t = self._string(text, size, mix_bytes(text, size, self._seed))
        return cython.cast(cython.uint, number) if number >= 0 else NO_STRING

    def find(self, refs: cython.const[cython.ulonglong][::1]):
        """Return the number of each reference's string, ABSENT if it is not in the table: a Column of u32."""
        column = Column("I")
        out: cython.p_uint = numbers_of(column, refs.shape[0])
        row: cython.Py_ssize_t
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for row in range(refs.shape[0]):
                handle_signals(cython.address(work), 4)
                out[row] = out[row - 1] if row and refs[row] == refs[row - 1] else self._find_number(refs[row])
        return column

    def absolute_paths(self) -> list:
        """Return (number, text) of every string that begins with a slash."""
        number: cython.Py_ssize_t
        out: list = []
        for number in range(self.offset.vector.count):
            start: cython.ulonglong = self._start(number)
            end: cython.ulonglong = self._end(number)
            if start < end and self._out.items[start] == ord("/"):
                out.append((number, cython.cast(cython.p_char, self._out.items)[start:end]))
        return out

    def part(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t):
        """Return bytes [start, stop) of the table."""
        if start < 0 or stop > self._out.count or start >= stop:
            return b""
        return cython.cast(cython.p_char, self._out.items)[start:stop]


@cython.cfunc
def numbers_of(column: Column, count: cython.Py_ssize_t) -> cython.p_uint:
    """Make a column of `count` uninitialized items; return the items. Raises MemoryError."""
    column.vector.count = 0
    if not column.reserve(count):
        raise MemoryError
    column.vector.count = count
    return cython.cast(cython.p_uint, column.vector.items)


def absent_rows(numbers: cython.const[cython.uint][::1]):
    """Return the rows with the value ABSENT: a Column of u32."""
    rows = Column("I")
    row: cython.Py_ssize_t
    ok: cython.bint = True
    belong(numbers.shape[0] <= UINT_MAX)
    with cython.nogil:
        for row in range(numbers.shape[0]):
            if numbers[row] == NO_STRING:
                ok = ok and rows.push_u32(cython.cast(cython.uint, row))
    if not ok:
        raise MemoryError
    return rows
