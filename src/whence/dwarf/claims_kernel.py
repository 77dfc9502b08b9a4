"""What units claim: which of them can hold an address, and which rows of a line program are theirs.

A unit's root DIE says which code is the unit's. Rows of its line program that lie elsewhere describe nothing (padding
between functions, code that the linker took from another unit).
"""

import cython

NO_FILE = cython.declare(cython.uint, 0xFFFFFFFF)


def mark(
    start: cython.const[cython.ulonglong][::1],
    end: cython.const[cython.ulonglong][::1],
    owner: cython.const[cython.uint][::1],
    highest: cython.const[cython.ulonglong][::1],
    vaddrs: cython.const[cython.ulonglong][::1],
    wanted: cython.uchar[::1],
):
    """Mark the lowest owner of a span that holds the vaddr, for each of them. Spans are sorted by start; `highest` is
    the largest end up to each of them."""
    at: cython.Py_ssize_t
    low: cython.Py_ssize_t
    high: cython.Py_ssize_t
    middle: cython.Py_ssize_t
    first: cython.uint
    with cython.nogil:
        for at in range(vaddrs.shape[0]):
            first = NO_FILE
            low = 0
            high = start.shape[0]
            while low < high:
                middle = (low + high) // 2
                if start[middle] <= vaddrs[at]:
                    low = middle + 1
                else:
                    high = middle
            while low > 0 and highest[low - 1] > vaddrs[at]:
                low -= 1
                if end[low] > vaddrs[at] and owner[low] < first:
                    first = owner[low]
            if first != NO_FILE:
                wanted[first] = 1


def clip(
    start: cython.const[cython.ulonglong][::1],
    end: cython.const[cython.ulonglong][::1],
    row_va: cython.const[cython.ulonglong][::1],
    row_file: cython.const[cython.uint][::1],
    row_line: cython.const[cython.uint][::1],
    va: cython.ulonglong[::1],
    file: cython.uint[::1],
    line: cython.uint[::1],
):
    """Write the rows inside of spans (ascending, apart) into columns with room for all rows and two more per span;
    gives how many. Where a row holds over the beginning of a span, it begins there."""
    span: cython.Py_ssize_t
    row: cython.Py_ssize_t = 0
    rows: cython.Py_ssize_t = row_va.shape[0]
    count: cython.Py_ssize_t = 0
    with cython.nogil:
        for span in range(start.shape[0]):
            while row < rows and row_va[row] <= start[span]:
                row += 1
            if row and row_file[row - 1] != NO_FILE:
                va[count] = start[span]
                file[count] = row_file[row - 1]
                line[count] = row_line[row - 1]
                count += 1
            while row < rows and row_va[row] < end[span]:
                va[count] = row_va[row]
                file[count] = row_file[row]
                line[count] = row_line[row]
                count += 1
                row += 1
            if count and file[count - 1] != NO_FILE:
                va[count] = end[span]
                file[count] = NO_FILE
                line[count] = 0
                count += 1
    return count


def union(va: cython.ulonglong[::1], end: cython.ulonglong[::1]):
    """Join spans that touch or overlap, in place; they are sorted by where they begin. Gives how many are left."""
    at: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    with cython.nogil:
        for at in range(va.shape[0]):
            if count and va[at] <= end[count - 1]:
                if end[at] > end[count - 1]:
                    end[count - 1] = end[at]
            else:
                va[count] = va[at]
                end[count] = end[at]
                count += 1
    return count


def covered(
    start: cython.const[cython.ulonglong][::1],
    end: cython.const[cython.ulonglong][::1],
    va: cython.const[cython.ulonglong][::1],
    to: cython.const[cython.ulonglong][::1],
    depth: cython.const[cython.uint][::1],
):
    """Do all scopes of depth 0 lie in one of the spans (ascending, apart) each?"""
    at: cython.Py_ssize_t
    low: cython.Py_ssize_t
    high: cython.Py_ssize_t
    middle: cython.Py_ssize_t
    good: cython.bint = True
    with cython.nogil:
        for at in range(va.shape[0]):
            if depth[at]:
                continue
            low = 0
            high = start.shape[0]
            while low < high:
                middle = (low + high) // 2
                if start[middle] <= va[at]:
                    low = middle + 1
                else:
                    high = middle
            if low == 0 or to[at] > end[low - 1]:
                good = False
                break
    return good
