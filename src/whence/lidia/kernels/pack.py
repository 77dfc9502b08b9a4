"""Tables and strings in the compact form, made of those of the documented one; packed.pxd has what reads them."""

import cython
from cython.cimports.libc.stdlib import free, malloc, qsort
from cython.cimports.libc.string import memcmp, memcpy, memset
from cython.cimports.whence.kernels.bytes import LONGEST_ULEB, put_uleb
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.vector import Bytes, U64s, push_u64, release, reserve
from cython.cimports.whence.lidia.kernels.packed import (
    DIRECTORY_ENTRY,
    FIELD_END,
    PACKED_ROWS,
    SHARED_STRINGS,
    WORD,
    blocks_of,
    directory_words,
    head_words,
)
from cython.cimports.whence.lidia.kernels.queries import LENGTH_PREFIX, RANGE_FIELDS, load
from cython.cimports.whence.lidia.kernels.store import store

MOST_PLACE = cython.declare(cython.ulonglong, 0xFFFFFFFF)  # that an entry of a directory holds
# A string keeps at least one byte of so many, so that the size of all strings unpacked is bounded.
KEPT_SHARE = cython.declare(cython.ulonglong, 8)


def directory_place(row: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Where in a packed table the directory says in which block a row is, and where that begins."""
    return row // PACKED_ROWS * DIRECTORY_ENTRY


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def measure(
    data: cython.pointer(cython.const[cython.uchar]),
    rows: cython.Py_ssize_t,
    fields: cython.int,
    width: cython.int,
    base: cython.pointer(cython.ulonglong),
    size: cython.pointer(cython.int),
) -> cython.int:
    """Find the least value of each field of some rows, and how many bits the differences from it need. Returns the bits
    of a row."""
    bits: cython.int = 0
    row: cython.Py_ssize_t
    number: cython.int
    value: cython.ulonglong
    most: cython.ulonglong
    for number in range(fields):
        base[number] = most = load(data + number * width, width)
        for row in range(1, rows):
            value = load(data + (row * fields + number) * width, width)
            base[number] = min(base[number], value)
            most = max(most, value)
        most -= base[number]
        size[number] = 0
        while most:
            size[number] += 1
            most >>= 1
        bits += size[number]
    return bits


@cython.final
@cython.cclass
class PackedTable:
    """A table being packed: rows of `fields` numbers of `width` bytes come in, a piece at a time."""

    rows = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _fields: cython.int
    _width: cython.int
    _head: cython.int
    _out: Bytes  # the blocks
    _place: U64s  # where each begins, in words, counted from the first

    def __cinit__(self, fields: cython.int, width: cython.int):
        belong(1 <= fields <= RANGE_FIELDS and width in (4, 8))
        self._fields, self._width = fields, width
        self._head = head_words(fields, width)

    def __dealloc__(self):
        release(cython.address(self._out))
        release(cython.address(self._place))

    def add(self, data: cython.const[cython.uchar][::1], width: cython.int):
        """Append rows, numbers of `width` bytes. All pieces but the last are whole blocks. MemoryError."""
        row: cython.Py_ssize_t = 0
        rows: cython.Py_ssize_t
        room: cython.bint = True
        belong(width in (2, 4, 8) and width <= self._width)
        rows = data.shape[0] // (width * self._fields)
        belong(rows * width * self._fields == data.shape[0] and self.rows % PACKED_ROWS == 0)
        with cython.nogil:
            while row < rows and room:
                room = self._block(
                    cython.address(data[row * width * self._fields]), min(rows - row, PACKED_ROWS), width
                )
                row += PACKED_ROWS
        if not room:
            raise MemoryError
        self.rows += rows

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _block(
        self, data: cython.pointer(cython.const[cython.uchar]), rows: cython.Py_ssize_t, width: cython.int
    ) -> cython.bint:
        """Append a block. False when there is no memory."""
        base: cython.ulonglong[RANGE_FIELDS]
        size: cython.int[RANGE_FIELDS]
        bits: cython.int = measure(data, rows, self._fields, width, base, size)
        words: cython.Py_ssize_t = (bits * rows + 63) // 64
        row: cython.Py_ssize_t
        number: cython.int
        value: cython.ulonglong
        out: cython.p_uchar
        at: cython.Py_ssize_t = 0  # bit of the rows
        if not push_u64(cython.address(self._place), self._out.count // WORD):
            return False
        if not reserve(cython.address(self._out), (self._head + words) * WORD, 1):
            return False
        out = self._out.items + self._out.count
        memset(out, 0, (self._head + words) * WORD)
        self._out.count += (self._head + words) * WORD
        for number in range(self._fields):
            store(out + number * self._width, base[number], self._width)
        bits = 0
        for number in range(self._fields):
            bits += size[number]
            store(out + self._fields * self._width + number * FIELD_END, bits, FIELD_END)
        out += self._head * WORD
        for row in range(rows):
            for number in range(self._fields):
                value = load(data + (row * self._fields + number) * width, width) - base[number]
                bits = size[number]
                while bits > 0:  # as many as the byte has room for
                    out[at >> 3] |= cython.cast(cython.uchar, value << (at & 7))
                    value >>= 8 - (at & 7)
                    bits -= 8 - cython.cast(cython.int, at & 7)
                    at += 8 - (at & 7)
                at += bits
        return True

    def take(self):
        """The table, bytes: directory, blocks, and the last word. OverflowError where a place has over 32 bits."""
        blocks: cython.Py_ssize_t = blocks_of(self.rows)
        first: cython.ulonglong = directory_words(blocks)
        block: cython.Py_ssize_t
        directory = bytearray(first * WORD)
        view: cython.uchar[::1] = directory
        words: cython.ulonglong = first + self._out.count // WORD
        if words > MOST_PLACE:
            raise OverflowError("a compact table has 32 GiB at most")
        for block in range(blocks):
            store(cython.address(view[block * DIRECTORY_ENTRY]), first + self._place.items[block], DIRECTORY_ENTRY)
        store(cython.address(view[blocks * DIRECTORY_ENTRY]), words, DIRECTORY_ENTRY)
        body: bytes = cython.cast(cython.p_char, self._out.items)[: self._out.count] if self._out.count else b""
        return b"".join((directory, body, bytes(WORD)))


Name = cython.struct(text=cython.pointer(cython.const[cython.uchar]), size=cython.ulonglong, number=cython.uint)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def by_text(
    one: cython.pointer(cython.const[cython.void]), other: cython.pointer(cython.const[cython.void])
) -> cython.int:
    """Which of two Names comes first, byte by byte."""
    a: cython.pointer(Name) = cython.cast(cython.pointer(Name), one)
    b: cython.pointer(Name) = cython.cast(cython.pointer(Name), other)
    order: cython.int = memcmp(a.text, b.text, min(a.size, b.size))
    if order == 0:
        order = (a.size > b.size) - (a.size < b.size)
    return order


@cython.final
@cython.cclass
class SortedStrings:
    """Strings in order, each without what it shares with the one before it: at most all but an eighth of it, so that
    readers know how much names unpacked can take.

    `rank` says which number each has: how many come before it.
    """

    rank = cython.declare(Column, visibility="readonly")
    _out: Bytes

    def __cinit__(self, strings: cython.const[cython.uchar][::1], offset: cython.const[cython.ulonglong][::1]):
        """`strings` is a length-prefixed table, `offset` where each string lies. MemoryError; OverflowError where they
        take over 4 GiB."""
        count: cython.Py_ssize_t = offset.shape[0]
        index: cython.Py_ssize_t
        room: cython.bint
        for index in range(count):
            belong(
                strings.shape[0] >= LENGTH_PREFIX
                and offset[index] <= cython.cast(cython.ulonglong, strings.shape[0] - LENGTH_PREFIX)
                and load(cython.address(strings[offset[index]]), LENGTH_PREFIX)
                <= strings.shape[0] - offset[index] - LENGTH_PREFIX
            )
        self.rank = Column("I")
        names: cython.pointer(Name) = cython.cast(cython.pointer(Name), malloc((count + 1) * cython.sizeof(Name)))
        if names == cython.NULL or not self.rank.reserve(count):
            free(names)
            raise MemoryError
        self.rank.vector.count = count
        with cython.nogil:
            for index in range(count):
                names[index].size = load(cython.address(strings[offset[index]]), LENGTH_PREFIX)
                names[index].text = cython.address(strings[offset[index]]) + LENGTH_PREFIX
                names[index].number = cython.cast(cython.uint, index)
            qsort(names, count, cython.sizeof(Name), by_text)
            for index in range(count):
                cython.cast(cython.p_uint, self.rank.vector.items)[names[index].number] = cython.cast(
                    cython.uint, index
                )
            room = self._write(names, count)
        free(names)
        if not room:
            raise MemoryError
        if cython.cast(cython.ulonglong, self._out.count) > MOST_PLACE:
            raise OverflowError("compact strings have 4 GiB at most")

    def __dealloc__(self):
        release(cython.address(self._out))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _write(self, names: cython.pointer(Name), count: cython.Py_ssize_t) -> cython.bint:
        """Directory and blocks. False when there is no memory."""
        blocks: cython.Py_ssize_t = (count + SHARED_STRINGS - 1) // SHARED_STRINGS
        index: cython.Py_ssize_t
        shared: cython.ulonglong
        most: cython.ulonglong
        out: cython.p_uchar
        if not reserve(cython.address(self._out), (blocks + 1) * DIRECTORY_ENTRY, 1):
            return False
        self._out.count = (blocks + 1) * DIRECTORY_ENTRY
        for index in range(count):
            shared = 0
            if index % SHARED_STRINGS == 0:
                store(self._out.items + index // SHARED_STRINGS * DIRECTORY_ENTRY, self._out.count, DIRECTORY_ENTRY)
            else:
                most = min(names[index].size - names[index].size // KEPT_SHARE, names[index - 1].size)
                while shared < most and names[index].text[shared] == names[index - 1].text[shared]:
                    shared += 1
            if not reserve(
                cython.address(self._out), cython.cast(cython.Py_ssize_t, names[index].size) + 2 * LONGEST_ULEB, 1
            ):
                return False
            out = self._out.items + self._out.count
            out = put_uleb(put_uleb(out, shared), names[index].size - shared)
            memcpy(out, names[index].text + shared, names[index].size - shared)
            self._out.count = out + (names[index].size - shared) - self._out.items
        store(self._out.items + blocks * DIRECTORY_ENTRY, self._out.count, DIRECTORY_ENTRY)
        return True

    @property
    def size(self):
        """Bytes of directory and blocks."""
        return self._out.count

    def part(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t):
        """Bytes [start, stop) of directory and blocks; none where that is not within them."""
        if start < 0 or stop > self._out.count or start >= stop:
            return b""
        return cython.cast(cython.p_char, self._out.items)[start:stop]

    def renumber(self, numbers: cython.const[cython.uint][::1]):
        """The ranks of strings by their numbers, a Column; a number that no string has stays as it is. MemoryError."""
        column = Column("I")
        rank: cython.p_uint = cython.cast(cython.p_uint, self.rank.vector.items)
        count: cython.uint = cython.cast(cython.uint, self.rank.vector.count)
        index: cython.Py_ssize_t
        out: cython.p_uint
        if not column.reserve(numbers.shape[0]):
            raise MemoryError
        column.vector.count = numbers.shape[0]
        out = cython.cast(cython.p_uint, column.vector.items)
        with cython.nogil:
            for index in range(numbers.shape[0]):
                out[index] = rank[numbers[index]] if numbers[index] < count else numbers[index]
        return column
