"""Where functions start, as the extra section keeps it: rows of (function, file, line), in order, each once.

Strings are numbered in the order they lie in the archive: rows in order of numbers are in order of offsets.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free, malloc, qsort


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _ascending(
    one: cython.pointer[cython.const[cython.void]], two: cython.pointer[cython.const[cython.void]]
) -> cython.int:
    first: cython.ulonglong = cython.cast(cython.pointer[cython.const[cython.ulonglong]], one)[0]
    second: cython.ulonglong = cython.cast(cython.pointer[cython.const[cython.ulonglong]], two)[0]
    return 1 if first > second else -1 if first < second else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _known(function: cython.uint, file: cython.uint, line: cython.uint, strings: cython.Py_ssize_t) -> cython.bint:
    return line != 0 and 0 < function < strings and 0 < file < strings


def settle(
    function: cython.const[cython.uint][::1],
    file: cython.const[cython.uint][::1],
    line: cython.const[cython.uint][::1],
    string: cython.const[cython.ulonglong][::1],
    out: cython.uint[::1],
):
    """Write the rows whose function, file and line are known; gives how many. `function` and `file` are numbers of
    strings (a number that no string has: it is not in the archive), `string` says where each string begins. `out` has
    room for three numbers a row.
    """
    strings: cython.Py_ssize_t = string.shape[0]
    at: cython.Py_ssize_t
    low: cython.Py_ssize_t
    high: cython.Py_ssize_t = 0
    kept: cython.Py_ssize_t = 0
    total: cython.Py_ssize_t = 0
    held: cython.Py_ssize_t
    # by function: where its rows end so far, counted from 0
    end: cython.pointer(cython.Py_ssize_t) = cython.cast(
        cython.pointer(cython.Py_ssize_t), calloc(strings + 1, cython.sizeof(cython.Py_ssize_t))
    )
    rows: cython.p_ulonglong = cython.cast(cython.p_ulonglong, malloc(line.shape[0] * 8 + 8))  # file << 32 | line
    if end == cython.NULL or rows == cython.NULL:
        free(end)
        free(rows)
        raise MemoryError
    with cython.nogil:
        for at in range(line.shape[0]):
            if _known(function[at], file[at], line[at], strings):
                end[function[at]] += 1
        for at in range(strings):
            held = end[at]
            end[at] = total
            total += held
        for at in range(line.shape[0]):
            if _known(function[at], file[at], line[at], strings):
                rows[end[function[at]]] = cython.cast(cython.ulonglong, file[at]) << 32 | line[at]
                end[function[at]] += 1
        for at in range(strings):
            low = high
            high = end[at]
            if high - low > 1:
                qsort(rows + low, high - low, 8, _ascending)
            for held in range(low, high):
                if held == low or rows[held] != rows[held - 1]:
                    out[3 * kept] = cython.cast(cython.uint, string[at])
                    out[3 * kept + 1] = cython.cast(cython.uint, string[rows[held] >> 32])
                    out[3 * kept + 2] = cython.cast(cython.uint, rows[held])
                    kept += 1
    free(end)
    free(rows)
    return kept
