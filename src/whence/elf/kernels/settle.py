"""Kernel: the symbols that symbols_kernel collected, many over an address, as a table of functions that do not overlap.

`settle` sorts them by address and rank, and sweeps over them with a stack of those that cover the place it is at.
functions.py says what the columns mean.
"""

import cython


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def radix(
    key: cython.pointer(cython.ulonglong),
    order: cython.pointer(cython.uint),
    spare: cython.pointer(cython.uint),
    rows: cython.longlong,
    spread: cython.ulonglong,
    base: cython.ulonglong,
) -> cython.void:
    """Put `order` into ascending order of key - base, stably; `spread` has every bit in which those differ."""
    bins: cython.uint[2048]
    shift: cython.int = 0
    i: cython.longlong
    digit: cython.uint
    total: cython.uint
    here: cython.uint
    while shift < 64 and spread >> shift:
        if (spread >> shift) & 2047:
            for i in range(2048):
                bins[i] = 0
            for i in range(rows):
                bins[((key[i] - base) >> shift) & 2047] += 1
            total = 0
            for i in range(2048):
                here = bins[i]
                bins[i] = total
                total += here
            for i in range(rows):
                digit = cython.cast(cython.uint, ((key[order[i]] - base) >> shift) & 2047)
                spare[bins[digit]] = order[i]
                bins[digit] += 1
            for i in range(rows):
                order[i] = spare[i]
        shift += 11


def settle(
    rows: cython.longlong,
    va: cython.ulonglong[::1],
    end: cython.ulonglong[::1],
    limit: cython.ulonglong[::1],
    name: cython.ulonglong[::1],
    rank: cython.ulonglong[::1],
    source: cython.uchar[::1],
    order: cython.uint[::1],
    spare: cython.uint[::1],
    out_va: cython.ulonglong[::1],
    out_length: cython.ulonglong[::1],
    out_name: cython.ulonglong[::1],
    out_source: cython.uchar[::1],
) -> cython.longlong:
    """One name for each address: ranges in order, none overlapping, each with its name and source.

    Of several rows that start at one address the one of highest rank counts, the others where they reach further. A row
    without size reaches to the next row's start or its limit, unless a sized one covers its start. A row inside
    another takes its part out of it. The out columns have room for two entries a row, order and spare for one.
    """
    i: cython.longlong
    j: cython.longlong
    k: cython.longlong
    low: cython.ulonglong
    high: cython.ulonglong
    spread: cython.ulonglong
    covered: cython.ulonglong = 0
    at: cython.ulonglong = 0
    next_va: cython.ulonglong
    row: cython.uint
    depth: cython.longlong = 0
    made: cython.longlong = 0
    if rows <= 0 or rows > va.shape[0] or rows > order.shape[0] or rows > spare.shape[0] or rows > 0x7FFFFFFF:
        return 0
    if out_va.shape[0] < 2 * rows or out_length.shape[0] < 2 * rows or out_name.shape[0] < 2 * rows:
        return 0
    if out_source.shape[0] < 2 * rows:
        return 0
    with cython.nogil:
        low = va[0]
        high = va[0]
        spread = 0
        for i in range(rows):
            order[i] = cython.cast(cython.uint, i)
            spread |= rank[i]
            if va[i] < low:
                low = va[i]
            if va[i] > high:
                high = va[i]
        radix(cython.address(rank[0]), cython.address(order[0]), cython.address(spare[0]), rows, spread, 0)
        high -= low
        spread = high  # every bit up to the highest one
        for i in range(6):
            spread |= spread >> (cython.cast(cython.ulonglong, 1) << i)
        radix(cython.address(va[0]), cython.address(order[0]), cython.address(spare[0]), rows, spread, low)

        i = 0
        while i < rows:  # rows without size, a group of equal starts at a time: the last of a group ranks highest
            j = i
            while j + 1 < rows and va[order[j + 1]] == va[order[i]]:
                j += 1
            row = order[j]
            if end[row] == va[row] and va[row] >= covered:
                next_va = limit[row]
                if j + 1 < rows and va[order[j + 1]] < next_va:
                    next_va = va[order[j + 1]]
                end[row] = next_va
            else:
                for k in range(i, j + 1):
                    if end[order[k]] > covered:
                        covered = end[order[k]]
            i = j + 1

        # the stack of rows that cover `at`, in `spare`: the top one names it
        for i in range(rows + 1):
            if i < rows:
                row = order[i]
                if end[row] <= va[row]:
                    continue
                next_va = va[row]
            else:
                next_va = ~cython.cast(cython.ulonglong, 0)
            while depth and at < next_va:
                k = spare[depth - 1]
                high = end[k]
                if high > next_va:
                    high = next_va
                if at < high:
                    out_va[made] = at
                    out_length[made] = high - at
                    out_name[made] = name[k]
                    out_source[made] = source[k]
                    made += 1
                    at = high
                if end[k] <= at:
                    depth -= 1
            if i < rows:
                while depth and end[spare[depth - 1]] <= next_va:
                    depth -= 1
                at = next_va
                spare[depth] = row
                depth += 1
    return made
