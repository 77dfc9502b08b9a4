"""What is in an archive: one row after the other, and walks over all of it that find the rules it breaks."""

import cython
from cython.cimports.libc.string import memset
from cython.cimports.whence.lidia.kernels.queries import (
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
    View,
    end_of,
    field,
    load,
    size_of,
    source_of,
    start_of,
    va_of,
    view_of,
)


@cython.final
@cython.cclass
class Rows:
    """The rows of an archive as they are stored. A name or line entry outside its section is None."""

    _bytes: cython.const[cython.uchar][::1]
    _view: View
    _v: cython.pointer(View)

    def __cinit__(self, data: cython.const[cython.uchar][::1], sections: object):
        """`sections` (layout.Sections) says where everything lies in the data."""
        self._bytes = data
        self._v = cython.address(self._view)
        view_of(self._v, cython.address(data[0]) if data.shape[0] else cython.NULL, sections)

    def row(self, index: cython.Py_ssize_t):
        """(va, length, depth, function, file, line index, line count, call file, call line, source) of a range; None
        when there is no such range."""
        if index < 0 or index >= self._view.count:
            return None
        fields: list = [field(self._v, index, number) for number in range(RANGE_FIELDS)]
        return (va_of(self._v, index), *fields, source_of(self._v, index))

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
        at: cython.ulonglong
        width: cython.int = self._view.line_width
        entry: cython.pointer(cython.const[cython.uchar])
        if count == 0:
            return ()
        if index > self._view.lines or count > self._view.lines - index:
            return None
        out: list = []
        for at in range(index, index + count):
            entry = self._view.line + at * (LINE_FIELDS * width)
            out.append(make(load(entry, width), load(entry + width, width)))
        return tuple(out)

    def start(self, function: cython.ulonglong, file: cython.ulonglong, line: cython.ulonglong):
        """On which line a function starts; 0 where it is not known."""
        return start_of(self._v, function, file, line)


def count_sources(data: cython.const[cython.uchar][::1], sections: object):
    """How many ranges each source named: a number for each of the 256 values of a source's byte."""
    counts: cython.Py_ssize_t[256]
    at: cython.Py_ssize_t
    v: View
    memset(cython.address(v), 0, cython.sizeof(View))
    if data.shape[0]:
        view_of(cython.address(v), cython.address(data[0]), sections)
    for at in range(256):
        counts[at] = 0
    with cython.nogil:
        if v.source != cython.NULL or v.runs:
            for at in range(v.count):
                counts[source_of(cython.address(v), at)] += 1
    return [counts[at] for at in range(256)]


def inspect(data: cython.const[cython.uchar][::1], sections: object):
    """Walk over all ranges and strings. Returns counts and the first range that breaks each rule (-1: none).

    (functions, inlined, deepest, with file, with lines, empties, out of order, empty, name outside, lines outside, not
    tidy)
    """
    at: cython.Py_ssize_t
    v: View
    memset(cython.address(v), 0, cython.sizeof(View))
    if data.shape[0]:
        view_of(cython.address(v), cython.address(data[0]), sections)
    number: cython.int
    index: cython.ulonglong
    count: cython.ulonglong
    depth: cython.ulonglong
    functions: cython.Py_ssize_t = 0
    files: cython.Py_ssize_t = 0
    lines: cython.Py_ssize_t = 0
    empties: cython.Py_ssize_t = 0
    deepest: cython.ulonglong = 0
    unordered: cython.Py_ssize_t = -1
    empty: cython.Py_ssize_t = -1
    outside: cython.Py_ssize_t = -1
    missing: cython.bint
    closed: cython.ulonglong = v.string_size  # names that NULs end begin before the last NUL
    rows: cython.Py_ssize_t = -1
    untidy: cython.Py_ssize_t = -1
    until: cython.ulonglong = 0
    with cython.nogil:
        while v.nul and closed and v.string[closed - 1]:
            closed -= 1
        for at in range(v.count):
            depth = field(cython.address(v), at, DEPTH)
            if depth == 0:
                functions += 1
                if untidy < 0 and (field(cython.address(v), at, LENGTH) == 0 or va_of(cython.address(v), at) < until):
                    untidy = at
                until = end_of(cython.address(v), at)
            elif untidy < 0 and (functions == 0 or end_of(cython.address(v), at) > until):
                untidy = at
            if depth > deepest:
                deepest = depth
            if field(cython.address(v), at, FILE):
                files += 1
            index = field(cython.address(v), at, LINE_INDEX)
            count = field(cython.address(v), at, LINE_COUNT)
            if count:
                lines += 1
                if rows < 0 and (index > v.lines or count > v.lines - index):
                    rows = at
            if field(cython.address(v), at, LENGTH) == 0:
                empties += 1
                if empty < 0:
                    empty = at
            if at and unordered < 0:
                if va_of(cython.address(v), at) < va_of(cython.address(v), at - 1):
                    unordered = at
                elif va_of(cython.address(v), at) == va_of(cython.address(v), at - 1) and depth < field(
                    cython.address(v), at - 1, DEPTH
                ):
                    unordered = at
            if outside < 0:
                for number in range(RANGE_FIELDS):
                    if number != FUNCTION and number != FILE and number != CALL_FILE:
                        continue
                    index = field(cython.address(v), at, number)
                    if v.nul:
                        missing = index >= closed and (index > 0 or v.string_size > 0)
                    else:
                        missing = size_of(cython.address(v), index) < 0
                    if missing:
                        outside = at
    return functions, v.count - functions, deepest, files, lines, empties, unordered, empty, outside, rows, untidy


def count_strings(data: cython.const[cython.uchar][::1]):
    """(strings, where the table stops parsing) of a length-prefixed table; it parses whole when that is its size."""
    at: cython.ulonglong = 0
    size: cython.ulonglong = data.shape[0]
    length: cython.ulonglong
    found: cython.Py_ssize_t = 0
    with cython.nogil:
        while size - at >= LENGTH_PREFIX:
            length = load(cython.address(data[at]), 4)
            if length > size - at - LENGTH_PREFIX:
                break
            at += LENGTH_PREFIX + length
            found += 1
    return found, at
