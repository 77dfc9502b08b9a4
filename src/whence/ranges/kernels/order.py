"""The order of keys: a stable merge sort over the ascending runs that are there already.

Producers deliver nearly sorted columns (units one after the other, children after their parents), so the number of
runs is small and most passes are not needed.
"""

import cython
from cython.cimports.libc.string import memcpy


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _run_end(
    keys: cython.pointer(cython.const[cython.ulonglong]),
    order: cython.p_uint,
    start: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Where the ascending run that begins at `start` ends."""
    at: cython.Py_ssize_t = start + 1
    while at < count and keys[order[at - 1]] <= keys[order[at]]:
        at += 1
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _merge(
    keys: cython.pointer(cython.const[cython.ulonglong]),
    source: cython.p_uint,
    target: cython.p_uint,
    start: cython.Py_ssize_t,
    middle: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
) -> cython.void:
    """Two neighbouring runs of source into one of target; of equal keys the left one comes first."""
    left: cython.Py_ssize_t = start
    right: cython.Py_ssize_t = middle
    at: cython.Py_ssize_t
    for at in range(start, stop):
        if right >= stop or (left < middle and keys[source[left]] <= keys[source[right]]):
            target[at] = source[left]
            left += 1
        else:
            target[at] = source[right]
            right += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sort(
    keys: cython.pointer(cython.const[cython.ulonglong]),
    source: cython.p_uint,
    target: cython.p_uint,
    count: cython.Py_ssize_t,
) -> cython.int:
    """Sort `count` places; says where they are then: 0 in source, 1 in target."""
    at: cython.Py_ssize_t
    middle: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    turn: cython.int = 0
    other: cython.p_uint
    while _run_end(keys, source, 0, count) < count:
        at = 0
        while at < count:
            middle = _run_end(keys, source, at, count)
            stop = middle
            if middle < count:
                stop = _run_end(keys, source, middle, count)
            _merge(keys, source, target, at, middle, stop)
            at = stop
        other = source
        source = target
        target = other
        turn = 1 - turn
    return turn


def order(
    keys: cython.const[cython.ulonglong][::1], first: cython.uint[::1], second: cython.uint[::1], fresh: cython.bint
) -> cython.int:
    """Put the places of the keys into ascending order of key; says where the result is: 0 in `first`, 1 in `second`.

    Places with equal keys keep the order they have in `first`; `fresh` fills it with 0, 1, 2, ... before. A place in
    `first` is below the number of keys.
    """
    count: cython.Py_ssize_t = keys.shape[0]
    at: cython.Py_ssize_t
    turn: cython.int
    if count == 0 or first.shape[0] < count or second.shape[0] < count:
        return 0
    with cython.nogil:
        if fresh:
            for at in range(count):
                first[at] = cython.cast(cython.uint, at)
        turn = _sort(cython.address(keys[0]), cython.address(first[0]), cython.address(second[0]), count)
    return turn


def order_groups(
    keys: cython.const[cython.ulonglong][::1],
    ends: cython.const[cython.uint][::1],
    first: cython.uint[::1],
    second: cython.uint[::1],
):
    """The places 0, 1, 2, ... in `first`, those of each group in ascending order of key: `ends` says where each group
    ends. Equal keys keep their order. Both columns have room for all keys; the last end is no more."""
    at: cython.Py_ssize_t
    group: cython.Py_ssize_t
    start: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t
    if keys.shape[0] == 0:
        return
    with cython.nogil:
        for at in range(keys.shape[0]):
            first[at] = cython.cast(cython.uint, at)
        for group in range(ends.shape[0]):
            count = ends[group] - start
            if count > 1 and _sort(
                cython.address(keys[0]), cython.address(first[start]), cython.address(second[start]), count
            ):
                memcpy(cython.address(first[start]), cython.address(second[start]), 4 * count)
            start = ends[group]
