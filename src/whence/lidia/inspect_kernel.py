"""Walks over a whole archive: what is in it, and which rules it breaks."""

import cython
from cython.cimports.libc.string import memset
from cython.cimports.whence.lidia.sections import View, end_of, field, load, size_of, source_of, va_of, view_of


def count_sources(data: cython.const[cython.uchar][::1], places: tuple):
    """How many ranges each source named: a number for each of the 256 values of a source's byte."""
    counts: cython.Py_ssize_t[256]
    at: cython.Py_ssize_t
    v: View
    memset(cython.address(v), 0, cython.sizeof(View))
    if data.shape[0]:
        view_of(cython.address(v), cython.address(data[0]), places)
    for at in range(256):
        counts[at] = 0
    with cython.nogil:
        if v.source != cython.NULL or v.runs:
            for at in range(v.count):
                counts[source_of(cython.address(v), at)] += 1
    return [counts[at] for at in range(256)]


def inspect(data: cython.const[cython.uchar][::1], places: tuple):
    """Walk over all ranges and strings; gives counts and the first range that breaks each rule (-1: none).

    (functions, inlined, deepest, with file, with lines, out of order, empty, name outside, lines outside, not tidy)
    """
    at: cython.Py_ssize_t
    v: View
    memset(cython.address(v), 0, cython.sizeof(View))
    if data.shape[0]:
        view_of(cython.address(v), cython.address(data[0]), places)
    number: cython.int
    index: cython.ulonglong
    count: cython.ulonglong
    depth: cython.ulonglong
    functions: cython.Py_ssize_t = 0
    files: cython.Py_ssize_t = 0
    lines: cython.Py_ssize_t = 0
    deepest: cython.ulonglong = 0
    unordered: cython.Py_ssize_t = -1
    empty: cython.Py_ssize_t = -1
    outside: cython.Py_ssize_t = -1
    rows: cython.Py_ssize_t = -1
    untidy: cython.Py_ssize_t = -1
    until: cython.ulonglong = 0
    with cython.nogil:
        for at in range(v.count):
            depth = field(cython.address(v), at, 1)
            if depth == 0:
                functions += 1
                if untidy < 0 and (field(cython.address(v), at, 0) == 0 or va_of(cython.address(v), at) < until):
                    untidy = at
                until = end_of(cython.address(v), at)
            elif untidy < 0 and (functions == 0 or end_of(cython.address(v), at) > until):
                untidy = at
            if depth > deepest:
                deepest = depth
            if field(cython.address(v), at, 3):
                files += 1
            index = field(cython.address(v), at, 4)
            count = field(cython.address(v), at, 5)
            if count:
                lines += 1
                if rows < 0 and (index > v.lines or count > v.lines - index):
                    rows = at
            if empty < 0 and field(cython.address(v), at, 0) == 0:
                empty = at
            if at and unordered < 0:
                if va_of(cython.address(v), at) < va_of(cython.address(v), at - 1):
                    unordered = at
                elif va_of(cython.address(v), at) == va_of(cython.address(v), at - 1) and depth < field(
                    cython.address(v), at - 1, 1
                ):
                    unordered = at
            if outside < 0:
                for number in range(2, 7):
                    if (number < 4 or number == 6) and size_of(
                        cython.address(v), field(cython.address(v), at, number)
                    ) < 0:
                        outside = at
    return functions, v.count - functions, deepest, files, lines, unordered, empty, outside, rows, untidy


def count_strings(data: cython.const[cython.uchar][::1]):
    """(strings, where the table stops parsing) of a length-prefixed table; it parses whole when that is its size."""
    at: cython.ulonglong = 0
    size: cython.ulonglong = data.shape[0]
    length: cython.ulonglong
    found: cython.Py_ssize_t = 0
    with cython.nogil:
        while size - at >= 4:
            length = load(cython.address(data[at]), 4)
            if length > size - at - 4:
                break
            at += 4 + length
            found += 1
    return found, at
