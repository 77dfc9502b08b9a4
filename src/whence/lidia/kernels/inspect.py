"""Read stored rows of an archive, and walk over all of them to find the rules that they break."""

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
    """The stored rows of an archive. For a name or line entry outside its section, methods return None."""

    _bytes: cython.const[cython.uchar][::1]
    _view: View
    _v: cython.pointer(View)

    def __cinit__(self, data: cython.const[cython.uchar][::1], sections: object):
        """Read an archive in `data`, whose parts `sections` (layout.ArchiveSections) describes."""
        self._bytes = data
        self._v = cython.address(self._view)
        view_of(self._v, cython.address(data[0]) if data.shape[0] else cython.NULL, data.shape[0], sections)

    def row(self, index: cython.Py_ssize_t):
        """Return the stored numbers of a range; None for an index out of bounds.

        They are vaddr, length, depth, function, file, line index, line count, call file, call line and source.
        """
        if index < 0 or index >= self._view.count:
            return None
        fields: list = [field(self._v, index, number) for number in range(RANGE_FIELDS)]
        return (vaddr_of(self._v, index), *fields, source_of(self._v, index))

    def namesakes(self, index: cython.Py_ssize_t):
        """Return the indexes of the functions (ranges of depth 0) whose name is stored once with that of a range.

        Raises ValueError for an index out of bounds.
        """
        belong(0 <= index < self._view.count)
        name: cython.ulonglong = field(self._v, index, FUNCTION)
        row: cython.Py_ssize_t
        out: list = []
        work: cython.Py_ssize_t = 0
        for row in range(self._view.count):
            handle_signals(cython.address(work), 1)
            if field(self._v, row, FUNCTION) == name and field(self._v, row, DEPTH) == 0:
                out.append(row)
        return out

    def columns(self, index: cython.Py_ssize_t):
        """Return the columns and the discriminators of a range's line entries, then those of its call; 0 if unknown.

        Raises ValueError for an index out of bounds.
        """
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
        """Return the stored text at an offset of the strings; None for an offset outside."""
        size: cython.longlong = size_of(self._v, offset)
        if size < 0:
            return None
        if size == 0:
            return b""
        start: cython.ulonglong = offset if self._view.nul else offset + LENGTH_PREFIX
        return cython.cast(cython.p_char, self._view.string)[start : start + size]

    def lines(self, index: cython.ulonglong, count: cython.ulonglong, make: object):
        """Return line entries, each made by make(offset, line); None if they are outside the tables."""
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
        """Return the line on which a function is declared; 0 if unknown."""
        return start_of(self._v, function, file, line)


@cython.final
@cython.cclass
class Inspection:
    """Counts and faults of all ranges.

    Counts: `functions` (of depth 0), `inlined`, `deepest` (the greatest depth), `with_file`, `with_lines`,
    `without_length`, and `sources`, a number for each of the 256 values of a source's byte.

    Indexes of the first range of a kind, -1 without one: `empty`, `unordered`, `name_outside`,
    `lines_outside`, `untidy` (functions overlap, are empty, or do not enclose their inlined calls).
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
        """Read every range of the archive in `data`, whose parts `sections` (layout.ArchiveSections) describes."""
        view: View
        number: cython.int
        memset(cython.address(view), 0, cython.sizeof(View))
        for number in range(256):
            self._counts[number] = 0
        self.empty = self.unordered = self.name_outside = self.lines_outside = self.untidy = -1
        if data.shape[0]:
            view_of(cython.address(view), cython.address(data[0]), data.shape[0], sections)
        with cython.nogil:
            self._walk(cython.address(view))
        self.inlined = view.count - self.functions

    @property
    def sources(self):
        return [self._counts[number] for number in range(256)]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def _walk(self, view: cython.pointer(View)) -> cython.int:
        index: cython.Py_ssize_t
        number: cython.int
        closed: cython.ulonglong = view.string_size  # NUL-terminated names begin before the last NUL
        until: cython.ulonglong = 0
        work: cython.Py_ssize_t = 0
        while view.nul and closed and view.string[closed - 1]:
            closed -= 1
        for index in range(view.count):
            handle_signals(cython.address(work), 4)
            vaddr: cython.ulonglong = vaddr_of(view, index)
            length: cython.ulonglong = field(view, index, LENGTH)
            depth: cython.ulonglong = field(view, index, DEPTH)
            if view.source != cython.NULL or view.runs:
                self._counts[source_of(view, index)] += 1
            if depth == 0:
                self.functions += 1
                if self.untidy < 0 and (length == 0 or vaddr < until):
                    self.untidy = index
                until = end_of(view, index)
            elif self.untidy < 0 and (self.functions == 0 or end_of(view, index) > until):
                self.untidy = index
            if depth > self.deepest:
                self.deepest = depth
            if field(view, index, FILE):
                self.with_file += 1
            first: cython.ulonglong = field(view, index, LINE_INDEX)
            count: cython.ulonglong = field(view, index, LINE_COUNT)
            if count:
                self.with_lines += 1
                if self.lines_outside < 0 and (first > view.lines or count > view.lines - first):
                    self.lines_outside = index
            if length == 0:
                self.without_length += 1
                if self.empty < 0:
                    self.empty = index
            if index and self.unordered < 0:
                if vaddr < vaddr_of(view, index - 1) or (
                    vaddr == vaddr_of(view, index - 1) and depth < field(view, index - 1, DEPTH)
                ):
                    self.unordered = index
            if self.name_outside < 0:
                for number in range(RANGE_FIELDS):
                    if number != FUNCTION and number != FILE and number != CALL_FILE:
                        continue
                    name: cython.ulonglong = field(view, index, number)
                    if view.nul:
                        missing: cython.bint = name >= closed and (name > 0 or view.string_size > 0)
                    else:
                        missing = size_of(view, name) < 0
                    if missing:
                        self.name_outside = index
        return 0


def count_strings(data: cython.const[cython.uchar][::1]):
    """Return the number of strings of a length-prefixed table, and the offset where parsing stops."""
    offset: cython.ulonglong = 0
    size: cython.ulonglong = data.shape[0]
    count: cython.Py_ssize_t = 0
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        while size - offset >= LENGTH_PREFIX:
            handle_signals(cython.address(work), 1)
            length: cython.ulonglong = load(cython.address(data[offset]), 4)
            if length > size - offset - LENGTH_PREFIX:
                break
            offset += LENGTH_PREFIX + length
            count += 1
    return count, offset
