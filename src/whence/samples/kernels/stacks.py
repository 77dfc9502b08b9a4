"""Weights of locations, and columns of samples and stacks."""

import cython
from cython.cimports.whence.kernels.checks import are_inside, belong
from cython.cimports.whence.kernels.signals import handle_signals


def weigh(
    first: cython.const[cython.ulonglong][::1],
    stack: cython.const[cython.uint][::1],
    of: cython.const[cython.uint][::1],
    weights: cython.const[cython.longlong][::1],
    sums: cython.longlong[::1],
    out: cython.longlong[::1],
) -> tuple[int, int, int]:
    """Add each sample's weight (1 without weights) to out[location] for each location of its stack.

    `sums` has a zero for each stack: samples are added there first, so that every stack is visited once.
    """
    i: cython.Py_ssize_t
    k: cython.ulonglong
    fault: cython.int = 0
    samples: cython.Py_ssize_t = of.shape[0]
    stacks: cython.Py_ssize_t = first.shape[0] - 1
    weighted: cython.bint = weights.shape[0] == samples
    if stacks < 1 or stack.shape[0] == 0 or sums.shape[0] != stacks:
        return 0, 0, 0
    with cython.nogil:
        for i in range(samples):
            if of[i] >= cython.cast(cython.ulonglong, stacks):
                fault = 1
                break
            sums[of[i]] += weights[i] if weighted else 1
        for i in range(stacks):
            if fault or first[i + 1] > cython.cast(cython.ulonglong, stack.shape[0]):
                fault = 1
                break
            if sums[i] == 0:
                continue
            for k in range(first[i], first[i + 1]):
                if stack[k] >= cython.cast(cython.ulonglong, out.shape[0]):
                    fault = 1
                    break
                out[stack[k]] += sums[i]
    return samples, fault, 0


def add_up(
    values: cython.const[cython.ulonglong][::1],
    first: cython.const[cython.ulonglong][::1],
    times: cython.const[cython.ulonglong][::1],
    out: cython.longlong[::1],
) -> tuple[int, int, int]:
    """Set out[i] to the sum of values[first[i]:first[i + 1]], or to the number of times if it has no values."""
    i: cython.Py_ssize_t = 0
    k: cython.ulonglong
    samples: cython.Py_ssize_t = out.shape[0]
    if first.shape[0] != samples + 1 or times.shape[0] != samples + 1:
        return 0, 1, 0
    belong(are_inside(first, first, values.shape[0]))
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(samples):
            handle_signals(cython.address(work), 4)
            total: cython.ulonglong = 0
            if first[i] == first[i + 1]:
                total = times[i + 1] - times[i]
            for k in range(first[i], first[i + 1]):
                if k < cython.cast(cython.ulonglong, values.shape[0]):
                    total += values[k]  # two's complement: signed numbers add up the same
            out[i] = cython.cast(cython.longlong, total)
    return samples, 0, 0


def without_none(
    values: cython.const[cython.ulonglong][::1],
    first: cython.const[cython.ulonglong][::1],
    skip: cython.ulonglong,
    out: cython.uint[::1],
    out_first: cython.ulonglong[::1],
) -> tuple[int, int, int]:
    """Remove indices below `skip`, the empty entries of a table, from stacks, and subtract `skip` from the others.

    Returns the number of remaining indices.
    """
    i: cython.Py_ssize_t
    k: cython.ulonglong
    rows: cython.Py_ssize_t = 0
    if out_first.shape[0] != first.shape[0] or out.shape[0] < values.shape[0]:
        return 0, 1, 0
    belong(are_inside(first, first, values.shape[0]))
    with cython.nogil:
        for i in range(first.shape[0] - 1):
            if first[i] < first[i + 1] and first[i + 1] - first[i] > cython.cast(cython.ulonglong, out.shape[0] - rows):
                break  # stacks share values: `out` is too small
            for k in range(first[i], first[i + 1]):
                if k < cython.cast(cython.ulonglong, values.shape[0]) and values[k] >= skip:
                    out[rows] = cython.cast(cython.uint, values[k] - skip)
                    rows += 1
            out_first[i + 1] = rows
    return rows, 0, 0


def count_up(out: cython.uint[::1]) -> None:
    """Fill a column with 0, 1, 2 and so on."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(out.shape[0]):
            out[i] = cython.cast(cython.uint, i)
