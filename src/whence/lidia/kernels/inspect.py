"""What is in an archive: one row after the other, and walks over all of it that find the rules it breaks."""

import cython
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memset
from cython.cimports.whence.kernels.bytes import u16, u32, uleb
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.lidia.kernels.packed import (
    DIRECTORY_ENTRY,
    FIELD_END,
    PACKED_ROWS,
    SHARED_STRINGS,
    Packed,
    SharedStrings,
    blocks_of,
    directory_words,
    shared_text,
)
from cython.cimports.whence.lidia.kernels.queries import (
    CALL_FILE,
    DEPTH,
    FILE,
    FUNCTION,
    LENGTH,
    LENGTH_PREFIX,
    LINE_COUNT,
    LINE_INDEX,
    MOST_TEXT,
    RANGE_FIELDS,
    START_FIELDS,
    View,
    call_column,
    call_discriminator,
    discriminator_field,
    end_of,
    entry_field,
    field,
    line_column,
    line_discriminator,
    load,
    size_of,
    source_of,
    start_field,
    start_of,
    unpack,
    vaddr_of,
    view_of,
)


@cython.final
@cython.cclass
class StoredRows:
    """The rows of an archive as they are stored. A name or line entry outside its section is None."""

    _bytes: cython.const[cython.uchar][::1]
    _view: View
    _v: cython.pointer(View)

    def __cinit__(self, data: cython.const[cython.uchar][::1], sections: object):
        """`sections` (layout.ArchiveSections) says where everything lies in the data."""
        self._bytes = data
        self._v = cython.address(self._view)
        view_of(self._v, cython.address(data[0]) if data.shape[0] else cython.NULL, data.shape[0], sections)

    def row(self, index: cython.Py_ssize_t):
        """(vaddr, length, depth, function, file, line index, line count, call file, call line, source) of a range; None
        when there is no such range."""
        if index < 0 or index >= self._view.count:
            return None
        fields: list = [field(self._v, index, number) for number in range(RANGE_FIELDS)]
        return (vaddr_of(self._v, index), *fields, source_of(self._v, index))

    def columns(self, index: cython.Py_ssize_t):
        """The columns and the discriminators of a range's line entries, and those of its call. The range and its
        entries are there; columns that were not stored are 0."""
        belong(0 <= index < self._view.count)
        first: cython.ulonglong = field(self._v, index, LINE_INDEX)
        count: cython.ulonglong = field(self._v, index, LINE_COUNT)
        entry: cython.ulonglong
        columns: list = []
        discriminators: list = []
        if first > self._view.lines or count > self._view.lines - first:
            count = 0
        for entry in range(first, first + count):
            columns.append(line_column(self._v, entry))
            discriminators.append(line_discriminator(self._v, entry))
        call = call_column(self._v, index), call_discriminator(self._v, index)
        return tuple(columns), tuple(discriminators), *call

    def text(self, offset: cython.ulonglong):
        """The text at an offset of the strings as it is stored; None when it does not lie inside."""
        size: cython.longlong
        room: cython.uchar[MOST_TEXT]
        if self._view.compact:
            size = shared_text(cython.address(self._view.shared), offset, room, MOST_TEXT)
            return None if size < 0 else cython.cast(cython.p_char, room)[:size]
        size = size_of(self._v, offset)
        if size < 0:
            return None
        if size == 0:
            return b""
        start: cython.ulonglong = offset if self._view.nul else offset + LENGTH_PREFIX
        return cython.cast(cython.p_char, self._view.string)[start : start + size]

    def lines(self, index: cython.ulonglong, count: cython.ulonglong, make: object):
        """Line entries, each made by `make` of (offset, line); None when they are not in the tables."""
        number: cython.ulonglong
        if count == 0:
            return ()
        if index > self._view.lines or count > self._view.lines - index:
            return None
        out: list = []
        for number in range(index, index + count):
            out.append(make(entry_field(self._v, number, 0), entry_field(self._v, number, 1)))
        return tuple(out)

    def start(self, function: cython.ulonglong, file: cython.ulonglong, line: cython.ulonglong):
        """On which line a function starts; 0 where it is not known."""
        return start_of(self._v, function, file, line)

    def start_row(self, row: cython.Py_ssize_t):
        """Function, file and line of a row of starts; None when there is no such row."""
        if row < 0 or row >= self._view.starts:
            return None
        return tuple([start_field(self._v, row, number) for number in range(START_FIELDS)])

    def discriminator_numbers(self):
        """The line entries that have a discriminator, and the ranges whose calls have one: two lists."""
        row: cython.Py_ssize_t
        first: cython.Py_ssize_t = self._view.line_discriminators
        rows: list = []
        for row in range(first + self._view.call_discriminators):
            rows.append(discriminator_field(self._v, row, 0))
        return rows[:first], rows[first:]

    def vaddrs(self):
        """The vaddr of every range, a Column. MemoryError."""
        column = Column("Q")
        index: cython.Py_ssize_t
        if not column.reserve(self._view.count):
            raise MemoryError
        for index in range(self._view.count):
            column.push_u64(vaddr_of(self._v, index))
        return column

    def packed_faults(self):
        """The blocks that do not hold together in a compact archive's tables of VAs, ranges, line entries, starts,
        columns and discriminators, and in its strings: of each where its directory has the first one, or -1."""
        belong(self._view.compact)
        return (
            place_of(packed_fault(cython.address(self._view.packed_vaddrs))),
            place_of(packed_fault(cython.address(self._view.packed_ranges))),
            place_of(packed_fault(cython.address(self._view.packed_lines))),
            place_of(packed_fault(cython.address(self._view.packed_starts)) if self._view.starts else -1),
            place_of(packed_fault(cython.address(self._view.packed_columns)) if self._view.packed_columns.data else -1),
            place_of(
                packed_fault(cython.address(self._view.packed_discriminators))
                if self._view.packed_discriminators.data
                else -1
            ),
            place_of(shared_fault(cython.address(self._view.shared))),
        )


@cython.cfunc
def place_of(block: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Where a directory has a block; -1 for none."""
    return block * DIRECTORY_ENTRY if block >= 0 else -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def packed_fault(t: cython.pointer(Packed)) -> cython.Py_ssize_t:
    """The first block of a packed table that breaks a rule: blocks follow each other from the directory to the last
    word, each as long as its rows need, and its fields end in order, none with more than 64 bits. -1 when none does."""
    blocks: cython.Py_ssize_t = blocks_of(t.rows)
    block: cython.Py_ssize_t
    place: cython.ulonglong = directory_words(blocks)
    rows: cython.Py_ssize_t
    number: cython.int
    before: cython.uint
    end: cython.uint
    for block in range(blocks):
        if u32(t.data + DIRECTORY_ENTRY * block, False) != place or place + t.head > t.words:
            return block
        ends = t.data + 8 * place + t.fields * t.width
        before = 0
        for number in range(t.fields):
            end = u16(ends + FIELD_END * number, False)
            if end < before or end - before > 64:
                return block
            before = end
        rows = min(t.rows - block * PACKED_ROWS, PACKED_ROWS)
        place += t.head + (rows * before + 63) // 64
    if u32(t.data + DIRECTORY_ENTRY * blocks, False) != place or place != t.words:
        return blocks
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def shared_fault(s: cython.pointer(SharedStrings)) -> cython.Py_ssize_t:
    """The first block of strings that breaks a rule: blocks follow each other from the directory to the end, each ends
    with its last string, its first string is whole and none shares more than the one before it has. -1 when none
    does."""
    blocks: cython.ulonglong = (s.count + SHARED_STRINGS - 1) // SHARED_STRINGS
    block: cython.ulonglong
    place: cython.ulonglong = (blocks + 1) * DIRECTORY_ENTRY
    stop: cython.ulonglong
    number: cython.ulonglong
    shared: cython.ulonglong
    more: cython.ulonglong
    size: cython.ulonglong
    for block in range(blocks):
        stop = u32(s.data + DIRECTORY_ENTRY * (block + 1), False)
        if u32(s.data + DIRECTORY_ENTRY * block, False) != place or stop > s.size or stop < place:
            return block
        size = 0
        for number in range(block * SHARED_STRINGS, min((block + 1) * SHARED_STRINGS, s.count)):
            shared = uleb(s.data, cython.address(place), stop)
            more = uleb(s.data, cython.address(place), stop)
            if place > stop or shared > size or more > stop - place:
                return block
            size = shared + more
            place += more
        if place != stop:
            return block
    if u32(s.data + DIRECTORY_ENTRY * blocks, False) != s.size:
        return blocks
    return -1


@cython.final
@cython.cclass
class Inspection:
    """What a walk over all ranges finds.

    Counts: `functions` (of depth 0), `inlined`, `deepest` (the greatest depth), `with_file`, `with_lines`,
    `without_length`, and `sources`, a number for each of the 256 values of a source's byte. The first range that is
    empty, and the first that breaks each rule, -1 when none does: `empty`, `unordered`, `name_outside`,
    `lines_outside`, `untidy` (functions overlap, are empty, or do not hold what is inlined into them).
    """

    functions = cython.declare(cython.Py_ssize_t, visibility="readonly")
    inlined = cython.declare(cython.Py_ssize_t, visibility="readonly")
    deepest = cython.declare(cython.ulonglong, visibility="readonly")
    with_file = cython.declare(cython.Py_ssize_t, visibility="readonly")
    with_lines = cython.declare(cython.Py_ssize_t, visibility="readonly")
    without_length = cython.declare(cython.Py_ssize_t, visibility="readonly")
    empty = cython.declare(cython.Py_ssize_t, visibility="readonly")
    unordered = cython.declare(cython.Py_ssize_t, visibility="readonly")
    name_outside = cython.declare(cython.Py_ssize_t, visibility="readonly")
    lines_outside = cython.declare(cython.Py_ssize_t, visibility="readonly")
    untidy = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _counts: cython.Py_ssize_t[256]

    def __cinit__(self, data: cython.const[cython.uchar][::1], sections: object):
        """`sections` (layout.ArchiveSections) says where everything lies in the data. Reads every range once."""
        v: View
        number: cython.int
        memset(cython.address(v), 0, cython.sizeof(View))
        for number in range(256):
            self._counts[number] = 0
        self.empty = self.unordered = self.name_outside = self.lines_outside = self.untidy = -1
        if data.shape[0]:
            view_of(cython.address(v), cython.address(data[0]), data.shape[0], sections)
        try:
            with cython.nogil:
                unpack(cython.address(v), data.shape[0])
                self._walk(cython.address(v))
        finally:
            free(v.unpacked)
        self.inlined = v.count - self.functions

    @property
    def sources(self):
        return [self._counts[number] for number in range(256)]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _walk(self, v: cython.pointer(View)) -> cython.int:
        index: cython.Py_ssize_t
        number: cython.int
        first: cython.ulonglong
        count: cython.ulonglong
        depth: cython.ulonglong
        length: cython.ulonglong
        vaddr: cython.ulonglong
        name: cython.ulonglong
        missing: cython.bint
        closed: cython.ulonglong = v.string_size  # names that NULs end begin before the last NUL
        until: cython.ulonglong = 0
        work: cython.Py_ssize_t = 0
        while v.nul and closed and v.string[closed - 1]:
            closed -= 1
        for index in range(v.count):
            handle_signals(cython.address(work), 4)
            vaddr = vaddr_of(v, index)
            length = field(v, index, LENGTH)
            depth = field(v, index, DEPTH)
            if v.source != cython.NULL or v.runs:
                self._counts[source_of(v, index)] += 1
            if depth == 0:
                self.functions += 1
                if self.untidy < 0 and (length == 0 or vaddr < until):
                    self.untidy = index
                until = end_of(v, index)
            elif self.untidy < 0 and (self.functions == 0 or end_of(v, index) > until):
                self.untidy = index
            if depth > self.deepest:
                self.deepest = depth
            if field(v, index, FILE):
                self.with_file += 1
            first = field(v, index, LINE_INDEX)
            count = field(v, index, LINE_COUNT)
            if count:
                self.with_lines += 1
                if self.lines_outside < 0 and (first > v.lines or count > v.lines - first):
                    self.lines_outside = index
            if length == 0:
                self.without_length += 1
                if self.empty < 0:
                    self.empty = index
            if index and self.unordered < 0:
                if vaddr < vaddr_of(v, index - 1) or (
                    vaddr == vaddr_of(v, index - 1) and depth < field(v, index - 1, DEPTH)
                ):
                    self.unordered = index
            if self.name_outside < 0:
                for number in range(RANGE_FIELDS):
                    if number != FUNCTION and number != FILE and number != CALL_FILE:
                        continue
                    name = field(v, index, number)
                    if v.compact:
                        missing = name >= v.shared.count
                    elif v.nul:
                        missing = name >= closed and (name > 0 or v.string_size > 0)
                    else:
                        missing = size_of(v, name) < 0
                    if missing:
                        self.name_outside = index
        return 0


def count_strings(data: cython.const[cython.uchar][::1]):
    """(strings, where the table stops parsing) of a length-prefixed table; it parses whole when that is its size."""
    offset: cython.ulonglong = 0
    size: cython.ulonglong = data.shape[0]
    length: cython.ulonglong
    found: cython.Py_ssize_t = 0
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        while size - offset >= LENGTH_PREFIX:
            handle_signals(cython.address(work), 1)
            length = load(cython.address(data[offset]), 4)
            if length > size - offset - LENGTH_PREFIX:
                break
            offset += LENGTH_PREFIX + length
            found += 1
    return found, offset
