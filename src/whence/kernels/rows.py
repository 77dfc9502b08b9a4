"""Rows of columns: taken by number, numbered, put in order. What hot paths do in place of a Python loop over rows.

A column of any width comes as a buffer of numbers with its typecode, others as 32- or 64-bit numbers.
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

SEED = int.from_bytes(os.urandom(8), "little")  # of hash tables: a file must not choose what collides


@cython.cfunc
@cython.inline
def filled(typecode: str, count: cython.Py_ssize_t) -> Column:
    """A column of so many numbers, not yet set. MemoryError."""
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
    """The number in a row of a column of 8, 32 or 64 bits."""
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
    """The numbers of some rows of a column, which has `typecode`; as a column of `out_typecode`, where one is given.

    ValueError for a row that the column has not, MemoryError.
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
    """A number for each key, equal keys having the same one, from 0 on in the order they come first; and the keys by
    number. MemoryError."""
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
        known: cython.p_uchar = cython.cast(cython.p_uchar, distinct.vector.items)
        numbers: cython.p_uint = cython.cast(cython.p_uint, out.vector.items)
        with cython.nogil:
            for row in range(count):
                key: cython.ulonglong = number_at(data, item, row)
                number: cython.Py_ssize_t = -1
                probe: Probe = first_match(cython.address(index), mix(key, seed))
                while number < 0 and next_match(cython.address(index), cython.address(probe)):
                    if number_at(known, item, probe.item) == key:
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
    """The distinct keys in ascending order, and which of them each key is. MemoryError."""
    count: cython.Py_ssize_t = keys.shape[0]
    distinct: Column = Column("Q")
    at: Column = filled("I", count)
    row: cython.Py_ssize_t
    room: cython.bint = distinct.reserve(count + 1)
    order: cython.p_uint = cython.cast(cython.p_uint, malloc(8 * (count + 1)))
    if order == cython.NULL or not room:
        free(order)
        raise MemoryError
    sorted_rows: cython.p_uint = order
    if count:
        numbers: cython.p_uint = cython.cast(cython.p_uint, at.vector.items)
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
    return distinct, at


def grouped(numbers: cython.const[cython.uint][::1], groups: cython.Py_ssize_t) -> tuple[Column, Column]:
    """The rows by the group that each is in, in their order; and where each group's begin, with the end of the last.

    ValueError for a number that is no group, or groups of more than 32 bits. MemoryError.
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
        for row in range(numbers.shape[0]):  # each start moves to its group's end, which is where the next one starts
            out[ends[numbers[row]]] = cython.cast(cython.uint, row)
            ends[numbers[row]] += 1
        for group in range(groups, 0, -1):
            ends[group] = ends[group - 1]
        ends[0] = 0
    return rows, starts


def spans(first: cython.const[cython.uint][::1], chosen: cython.const[cython.uint][::1]) -> tuple[Column, Column]:
    """The rows of some lists, and where each one's begin among them, with the end of the last.

    List i has rows [first[i], first[i + 1]). ValueError for a list that there is not, MemoryError.
    """
    lists: cython.Py_ssize_t = first.shape[0] - 1
    rows: Column = Column("I")
    starts: Column = filled("I", chosen.shape[0] + 1)
    at: cython.Py_ssize_t
    row: cython.uint
    belong(
        lists >= 0
        and are_ends(first, first[lists])
        and all_below(chosen, chosen.shape[0], cython.cast(cython.ulonglong, lists))
    )
    out: cython.p_uint = cython.cast(cython.p_uint, starts.vector.items)
    room: cython.bint = True
    with cython.nogil:
        for at in range(chosen.shape[0]):
            out[at] = cython.cast(cython.uint, rows.vector.count)
            for row in range(first[chosen[at]], first[chosen[at] + 1]):
                room = room and rows.push_u32(row)
        out[chosen.shape[0]] = cython.cast(cython.uint, rows.vector.count)
    if not room:
        raise MemoryError
    return starts, rows


def raised(numbers: cython.const[cython.uint][::1], by: cython.uint) -> Column:
    """Each number and `by`. ValueError for a sum of more than 32 bits, MemoryError."""
    out: Column = filled("I", numbers.shape[0])
    sums: cython.p_uint = cython.cast(cython.p_uint, out.vector.items)
    row: cython.Py_ssize_t
    belong(all_below(numbers, numbers.shape[0], (cython.cast(cython.ulonglong, 1) << 32) - by))
    with cython.nogil:
        for row in range(numbers.shape[0]):
            sums[row] = numbers[row] + by
    return out


def moved(numbers: cython.const[cython.ulonglong][::1], by: cython.ulonglong) -> Column:
    """Each number and `by`, modulo 2^64. MemoryError."""
    out: Column = filled("Q", numbers.shape[0])
    sums: cython.p_ulonglong = cython.cast(cython.p_ulonglong, out.vector.items)
    row: cython.Py_ssize_t
    with cython.nogil:
        for row in range(numbers.shape[0]):
            sums[row] = numbers[row] + by
    return out


def above(numbers: cython.const[cython.ulonglong][::1], limit: cython.ulonglong) -> Column:
    """The rows whose number is greater than this one. MemoryError."""
    rows: Column = Column("I")
    row: cython.Py_ssize_t
    room: cython.bint = True
    belong(numbers.shape[0] <= UINT_MAX)
    with cython.nogil:
        for row in range(numbers.shape[0]):
            if numbers[row] > limit:
                room = room and rows.push_u32(cython.cast(cython.uint, row))
    if not room:
        raise MemoryError
    return rows


def put(out, typecode: str, rows: cython.const[cython.uint][::1], numbers) -> None:
    """Set some rows of a column to these numbers, where both have `typecode`.

    ValueError for a row that the column has not.
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
