"""Rows of columns: select, number, sort and group them, for hot paths instead of a Python loop.

A column of any width is passed as a buffer with its typecode, other columns as 32- or 64-bit numbers.
"""

import os

import cython
from cython.cimports.libc.limits import UINT_MAX
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.kernels.checks import all_below, are_ends, belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.hashtable import (
    HashIndex,
    Probe,
    first_match,
    insert,
    mix,
    next_match,
    release_index,
)
from cython.cimports.whence.kernels.sort import sort_indexes

from whence.kernels.columns import ITEM

SEED = int.from_bytes(os.urandom(8), "little")  # of hash indexes


@cython.cfunc
@cython.inline
def filled(typecode: str, count: cython.Py_ssize_t) -> Column:
    """Return a column of `count` numbers that are not set. Raises MemoryError."""
    column: Column = Column(typecode)
    if not column.reserve(count + 1):
        raise MemoryError
    column.vector.count = count
    return column


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def number_at(data: cython.p_uchar, item: cython.Py_ssize_t, row: cython.Py_ssize_t) -> cython.ulonglong:
    """Return the number in a row of a column of 8, 32 or 64 bits."""
    wide: cython.ulonglong = 0
    small: cython.uint = 0
    if item == 1:
        return data[row]
    if item == 4:
        memcpy(cython.address(small), data + 4 * row, 4)
        return small
    memcpy(cython.address(wide), data + 8 * row, 8)
    return wide


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put_number(
    data: cython.p_char, item: cython.Py_ssize_t, row: cython.Py_ssize_t, number: cython.ulonglong
) -> cython.void:
    """Set a row of a column."""
    if item == 1:
        cython.cast(cython.p_uchar, data)[row] = cython.cast(cython.uchar, number)
    elif item == 4:
        cython.cast(cython.p_uint, data)[row] = cython.cast(cython.uint, number)
    else:
        cython.cast(cython.p_ulonglong, data)[row] = number


def taken(numbers, typecode: str, rows: cython.const[cython.uint][::1], out_typecode: str = "") -> Column:
    """Return the numbers of some rows of a column, as a column of `out_typecode` (default: `typecode`).

    Raises ValueError for a row past the end, MemoryError.
    """
    stored: cython.const[cython.uchar][::1] = memoryview(numbers).cast("B")
    out: Column = filled(out_typecode or typecode, rows.shape[0])
    item: cython.Py_ssize_t = ITEM[typecode]
    row: cython.Py_ssize_t
    belong(all_below(rows, rows.shape[0], cython.cast(cython.ulonglong, stored.shape[0] // item)))
    if rows.shape[0]:
        data: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(stored[0]))
        with cython.nogil:
            for row in range(rows.shape[0]):
                put_number(out.vector.items, out.item, row, number_at(data, item, rows[row]))
    return out


def numbered(keys, typecode: str) -> tuple[Column, Column]:
    """Assign numbers to the distinct keys, from 0 in the order of their first occurrence.

    Return the number of each key, and the keys by number. Raises MemoryError.
    """
    stored: cython.const[cython.uchar][::1] = memoryview(keys).cast("B")
    seed: cython.ulonglong = SEED
    distinct: Column = Column(typecode)
    item: cython.Py_ssize_t = distinct.item
    count: cython.Py_ssize_t = stored.shape[0] // item
    out: Column = filled("I", count)
    index: HashIndex = HashIndex(cython.NULL, 0, 0)
    row: cython.Py_ssize_t
    has_memory: cython.bint = distinct.reserve(count + 1)
    if has_memory and count:
        data: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(stored[0]))
        keys_so_far: cython.p_uchar = cython.cast(cython.p_uchar, distinct.vector.items)
        numbers: cython.p_uint = cython.cast(cython.p_uint, out.vector.items)
        with cython.nogil:
            for row in range(count):
                key: cython.ulonglong = number_at(data, item, row)
                number: cython.Py_ssize_t = -1
                probe: Probe = first_match(cython.address(index), mix(key, seed))
                while number < 0 and next_match(cython.address(index), cython.address(probe)):
                    if number_at(keys_so_far, item, probe.item) == key:
                        number = probe.item
                if number < 0:
                    number = index.count
                    put_number(distinct.vector.items, item, number, key)
                    has_memory = insert(cython.address(index), mix(key, seed), number)
                    if not has_memory:
                        break
                numbers[row] = cython.cast(cython.uint, number)
    distinct.vector.count = index.count
    release_index(cython.address(index))
    if not has_memory:
        raise MemoryError
    return out, distinct


def ascending(keys: cython.const[cython.ulonglong][::1]) -> tuple[Column, Column]:
    """Return the distinct keys in ascending order, and the index there of each key. Raises MemoryError."""
    count: cython.Py_ssize_t = keys.shape[0]
    distinct: Column = Column("Q")
    indexes: Column = filled("I", count)
    row: cython.Py_ssize_t
    has_memory: cython.bint = distinct.reserve(count + 1)
    order: cython.p_uint = cython.cast(cython.p_uint, malloc(8 * (count + 1)))
    if order == cython.NULL or not has_memory:
        free(order)
        raise MemoryError
    sorted_rows: cython.p_uint = order
    if count:
        numbers: cython.p_uint = cython.cast(cython.p_uint, indexes.vector.items)
        values: cython.p_ulonglong = cython.cast(cython.p_ulonglong, distinct.vector.items)
        with cython.nogil:
            for row in range(count):
                order[row] = cython.cast(cython.uint, row)
            if sort_indexes(cython.address(keys[0]), order, order + count, count):
                sorted_rows = order + count
            for row in range(count):
                if row == 0 or keys[sorted_rows[row]] != keys[sorted_rows[row - 1]]:
                    values[distinct.vector.count] = keys[sorted_rows[row]]
                    distinct.vector.count += 1
                numbers[sorted_rows[row]] = cython.cast(cython.uint, distinct.vector.count - 1)
    free(order)
    return distinct, indexes


def grouped(numbers: cython.const[cython.uint][::1], groups: cython.Py_ssize_t) -> tuple[Column, Column]:
    """Return the rows by group, in their order, and the start of each group with the end of the last.

    Raises ValueError for a number that is not below `groups`, MemoryError.
    """
    belong(0 <= groups <= UINT_MAX and all_below(numbers, numbers.shape[0], cython.cast(cython.ulonglong, groups)))
    rows: Column = filled("I", numbers.shape[0])
    starts: Column = filled("I", groups + 1)
    row: cython.Py_ssize_t
    group: cython.Py_ssize_t
    begin: cython.uint = 0
    out: cython.p_uint = cython.cast(cython.p_uint, rows.vector.items)
    ends: cython.p_uint = cython.cast(cython.p_uint, starts.vector.items)
    with cython.nogil:
        for group in range(groups + 1):
            ends[group] = 0
        for row in range(numbers.shape[0]):
            ends[numbers[row]] += 1
        for group in range(groups + 1):
            size: cython.uint = ends[group]
            ends[group] = begin
            begin += size
        for row in range(numbers.shape[0]):  # each start moves to its group's end, the start of the next group
            out[ends[numbers[row]]] = cython.cast(cython.uint, row)
            ends[numbers[row]] += 1
        for group in range(groups, 0, -1):
            ends[group] = ends[group - 1]
        ends[0] = 0
    return rows, starts


def spans(first: cython.const[cython.uint][::1], chosen: cython.const[cython.uint][::1]) -> tuple[Column, Column]:
    """Return the rows of the chosen lists, and the start of each list's rows with the end of the last.

    List i has rows [first[i], first[i + 1]). Raises ValueError for a list that does not exist, MemoryError.
    """
    lists: cython.Py_ssize_t = first.shape[0] - 1
    rows: Column = Column("I")
    starts: Column = filled("I", chosen.shape[0] + 1)
    index: cython.Py_ssize_t
    row: cython.uint
    belong(
        lists >= 0
        and are_ends(first, first[lists])
        and all_below(chosen, chosen.shape[0], cython.cast(cython.ulonglong, lists))
    )
    out: cython.p_uint = cython.cast(cython.p_uint, starts.vector.items)
    has_memory: cython.bint = True
    with cython.nogil:
        for index in range(chosen.shape[0]):
            out[index] = cython.cast(cython.uint, rows.vector.count)
            for row in range(first[chosen[index]], first[chosen[index] + 1]):
                has_memory = has_memory and rows.push_u32(row)
        out[chosen.shape[0]] = cython.cast(cython.uint, rows.vector.count)
    if not has_memory:
        raise MemoryError
    return starts, rows


def raised(numbers: cython.const[cython.uint][::1], by: cython.uint) -> Column:
    """Return each number plus `by`. Raises ValueError for a sum of more than 32 bits, MemoryError."""
    out: Column = filled("I", numbers.shape[0])
    sums: cython.p_uint = cython.cast(cython.p_uint, out.vector.items)
    row: cython.Py_ssize_t
    belong(all_below(numbers, numbers.shape[0], (cython.cast(cython.ulonglong, 1) << 32) - by))
    with cython.nogil:
        for row in range(numbers.shape[0]):
            sums[row] = numbers[row] + by
    return out


def moved(numbers: cython.const[cython.ulonglong][::1], by: cython.ulonglong) -> Column:
    """Return each number plus `by`, modulo 2^64. Raises MemoryError."""
    out: Column = filled("Q", numbers.shape[0])
    sums: cython.p_ulonglong = cython.cast(cython.p_ulonglong, out.vector.items)
    row: cython.Py_ssize_t
    with cython.nogil:
        for row in range(numbers.shape[0]):
            sums[row] = numbers[row] + by
    return out


def above(numbers: cython.const[cython.ulonglong][::1], limit: cython.ulonglong) -> Column:
    """Return the rows whose number is greater than `limit`. Raises MemoryError."""
    rows: Column = Column("I")
    row: cython.Py_ssize_t
    has_memory: cython.bint = True
    belong(numbers.shape[0] <= UINT_MAX)
    with cython.nogil:
        for row in range(numbers.shape[0]):
            if numbers[row] > limit:
                has_memory = has_memory and rows.push_u32(cython.cast(cython.uint, row))
    if not has_memory:
        raise MemoryError
    return rows


def put(out, typecode: str, rows: cython.const[cython.uint][::1], numbers) -> None:
    """Set some rows of a column to numbers of the same typecode.

    Raises ValueError for a row past the end.
    """
    column: cython.uchar[::1] = memoryview(out).cast("B")
    values: cython.const[cython.uchar][::1] = memoryview(numbers).cast("B")
    item: cython.Py_ssize_t = ITEM[typecode]
    row: cython.Py_ssize_t
    belong(values.shape[0] == rows.shape[0] * item)
    belong(all_below(rows, rows.shape[0], cython.cast(cython.ulonglong, column.shape[0] // item)))
    if rows.shape[0]:
        to: cython.p_char = cython.cast(cython.p_char, cython.address(column[0]))
        data: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(values[0]))
        with cython.nogil:
            for row in range(rows.shape[0]):
                put_number(to, item, rows[row], number_at(data, item, row))
