"""Sort keys of columns; whence/kernels/sort.pxd has the sort."""

import cython
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.kernels.checks import all_below, are_ends, belong
from cython.cimports.whence.kernels.sort import sort_indexes


def order(
    keys: cython.const[cython.ulonglong][::1], first: cython.uint[::1], second: cython.uint[::1], fresh: cython.bint
) -> cython.int:
    """Put indexes of keys into ascending order of key. Return 0 if the result is in `first`, 1 if it is in `second`.

    Indexes with equal keys keep their order in `first`; with `fresh` it is set to 0, 1, 2, ... before. The two columns
    are distinct and as long as the keys.
    """
    count: cython.Py_ssize_t = keys.shape[0]
    index: cython.Py_ssize_t
    if count == 0:
        return 0
    belong(
        min(first.shape[0], second.shape[0]) >= count
        and cython.address(first[0]) != cython.address(second[0])
        and (fresh or all_below(first, count, count))
    )
    with cython.nogil:
        if fresh:
            for index in range(count):
                first[index] = cython.cast(cython.uint, index)
        turn: cython.bint = sort_indexes(
            cython.address(keys[0]), cython.address(first[0]), cython.address(second[0]), count
        )
    return turn


def order_groups(
    keys: cython.const[cython.ulonglong][::1],
    ends: cython.const[cython.uint][::1],
    first: cython.uint[::1],
    second: cython.uint[::1],
):
    """Set `first` to the indexes 0, 1, 2, ..., those of each group in ascending order of key.

    `ends` are the ends of the groups. Equal keys keep their order. The two columns are distinct and as long as the
    keys.
    """
    index: cython.Py_ssize_t
    group: cython.Py_ssize_t
    start: cython.Py_ssize_t = 0
    if keys.shape[0] == 0:
        return
    belong(
        min(first.shape[0], second.shape[0]) >= keys.shape[0]
        and cython.address(first[0]) != cython.address(second[0])
        and are_ends(ends, keys.shape[0])
    )
    with cython.nogil:
        for index in range(keys.shape[0]):
            first[index] = cython.cast(cython.uint, index)
        for group in range(ends.shape[0]):
            count: cython.Py_ssize_t = ends[group] - start
            if count > 1 and sort_indexes(
                cython.address(keys[0]), cython.address(first[start]), cython.address(second[start]), count
            ):
                memcpy(cython.address(first[start]), cython.address(second[start]), 4 * count)
            start = ends[group]
