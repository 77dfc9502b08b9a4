"""Columns: the events of batches decoded into rows, without a Python object for any of them."""

import cython
from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize
from cython.cimports.whence.gotrace.kernels.uvarint import (
    BAD_TYPE,
    CUT,
    FINE,
    FULL,
    IS_TIMED,
    NO_EVENT,
    NOT_TIMED,
    take,
)


def fresh(size: cython.Py_ssize_t) -> bytearray:
    """A bytearray that nothing was written to yet: for columns that will be filled."""
    return PyByteArray_FromStringAndSize(cython.NULL, size)


def decode(
    data: cython.const[cython.uchar][::1],
    bodies: cython.const[cython.ulonglong][::1],
    ends: cython.const[cython.ulonglong][::1],
    times: cython.const[cython.ulonglong][::1],
    batch: cython.Py_ssize_t,
    begin: cython.Py_ssize_t,
    clock: cython.ulonglong,
    counts: cython.const[cython.uchar][::1],
    flags: cython.const[cython.uchar][::1],
    types: cython.uchar[::1],
    stamps: cython.ulonglong[::1],
    args: cython.ulonglong[::1],
    first_rows: cython.ulonglong[::1],
) -> tuple:
    """Decode the timed events of batches into rows: type, time, and the four arguments after dt (0 if there are none).

    Starts in `batch` at `begin` with the time `clock` (0, 0: at its start). Gives (batch, where in it, time there,
    rows, fault, where): FULL is where to go on, with new columns. `first_rows[b]` is the row a batch starts at.
    """
    fault: cython.int = FINE
    last: cython.Py_ssize_t = bodies.shape[0]
    room: cython.Py_ssize_t = types.shape[0]
    row: cython.Py_ssize_t = 0
    base: cython.p_const_uchar
    at: cython.p_const_uchar
    end: cython.p_const_uchar
    mark: cython.p_const_uchar
    place: cython.p_ulonglong
    time: cython.ulonglong = clock
    first: cython.ulonglong
    second: cython.ulonglong
    third: cython.ulonglong
    fourth: cython.ulonglong
    kind: cython.int
    count: cython.int
    if batch >= last or stamps.shape[0] < room or args.shape[0] < 4 * room or data.shape[0] == 0 or room == 0:
        return (batch, begin, clock, 0, FINE, begin)
    if ends.shape[0] < last or times.shape[0] < last or first_rows.shape[0] < last:
        return (batch, begin, clock, 0, FINE, begin)
    base = cython.address(data[0])
    at = base
    mark = at
    place = cython.address(args[0])
    with cython.nogil:
        while batch < last:
            if ends[batch] > cython.cast(cython.ulonglong, data.shape[0]) or bodies[batch] > ends[batch]:
                fault = CUT
                break
            end = base + ends[batch]
            if begin:
                at = base + begin
                begin = 0
            else:
                at = base + bodies[batch]
                time = times[batch]
            first_rows[batch] = row
            while at < end:
                if row >= room:
                    fault = FULL
                    mark = at
                    break
                mark = at
                kind = at[0]
                count = counts[kind]
                if not flags[kind] & IS_TIMED:
                    fault = BAD_TYPE if count == NO_EVENT else NOT_TIMED
                    break
                at += 1
                time += take(cython.address(at), end, cython.address(fault))
                first = 0
                second = 0
                third = 0
                fourth = 0
                if count > 1:
                    first = take(cython.address(at), end, cython.address(fault))
                    if count > 2:
                        second = take(cython.address(at), end, cython.address(fault))
                        if count > 3:
                            third = take(cython.address(at), end, cython.address(fault))
                            if count > 4:
                                fourth = take(cython.address(at), end, cython.address(fault))
                if fault != FINE:
                    break
                types[row] = cython.cast(cython.uchar, kind)
                stamps[row] = time
                place[0] = first
                place[1] = second
                place[2] = third
                place[3] = fourth
                place += 4
                row += 1
            if fault != FINE:
                break
            batch += 1
    return (batch, mark - base, time, row, fault, mark - base)


def spread(
    first_rows: cython.const[cython.ulonglong][::1],
    values: cython.const[cython.ulonglong][::1],
    out: cython.ulonglong[::1],
) -> None:
    """Each batch's value for each of its rows."""
    batch: cython.Py_ssize_t
    row: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    batches: cython.Py_ssize_t = first_rows.shape[0]
    rows: cython.Py_ssize_t = out.shape[0]
    with cython.nogil:
        for batch in range(batches):
            stop = first_rows[batch + 1] if batch + 1 < batches else rows
            if stop > rows:
                stop = rows
            for row in range(first_rows[batch], stop):
                out[row] = values[batch]


def pick(
    types: cython.const[cython.uchar][::1],
    args: cython.const[cython.ulonglong][::1],
    places: cython.const[cython.uchar][::1],
    out: cython.ulonglong[::1],
    only: cython.bint,
) -> int:
    """The argument at places[type] (0 to 3; 255: none) of each event; 0 where there is none, or, with `only`, no row.

    Gives the rows written.
    """
    row: cython.Py_ssize_t
    rows: cython.Py_ssize_t = types.shape[0]
    to: cython.Py_ssize_t = 0
    place: cython.int
    if args.shape[0] < 4 * rows or out.shape[0] < rows:
        return 0
    with cython.nogil:
        for row in range(rows):
            place = places[types[row]]
            if place < 4:
                out[to] = args[4 * row + place]
                to += 1
            elif not only:
                out[to] = 0
                to += 1
    return to


def tally(types: cython.const[cython.uchar][::1], out: cython.ulonglong[::1]) -> None:
    """Add how often each type occurs to `out` (256 numbers)."""
    row: cython.Py_ssize_t
    with cython.nogil:
        if out.shape[0] >= 256:
            for row in range(types.shape[0]):
                out[types[row]] += 1
