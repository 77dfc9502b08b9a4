"""What is in an archive: one row after the other, and walks over all of it that find the rules it breaks."""

import cython
from cython.cimports.libc.string import memset
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.lidia.kernels.queries import (
    CALL_FILE,
    DEPTH,
    FILE,
    FUNCTION,
    LENGTH,
    LENGTH_PREFIX,
    LINE_COUNT,
    LINE_INDEX,
    RANGE_FIELDS,
    View,
    call_column,
    call_discriminator,
    end_of,
    entry_field,
    field,
    line_column,
    line_discriminator,
    load,
    size_of,
    source_of,
    start_of,
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
        size: cython.longlong = size_of(self._v, offset)
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
        with cython.nogil:
            self._walk(cython.address(v))
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
                    if v.nul:
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
