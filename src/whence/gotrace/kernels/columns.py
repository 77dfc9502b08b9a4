"""Decode the events of batches into columns, without Python objects."""

import cython
from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize
from cython.cimports.whence.gotrace.kernels import constants as c
from cython.cimports.whence.gotrace.kernels.layout import EventLayout
from cython.cimports.whence.gotrace.kernels.uvarint import (
    take,
)
from cython.cimports.whence.kernels.checks import are_inside, belong


def fresh(size: cython.Py_ssize_t) -> bytearray:
    """Return an uninitialized bytearray, for columns that will be filled."""
    belong(size >= 0)
    return PyByteArray_FromStringAndSize(cython.NULL, size)


@cython.final
@cython.cclass
class Decoder:
    """Decodes the timed events of batches into rows: type, time, and the four arguments after dt (0 if absent).

    `bodies` and `ends` are the offsets of the batches in `data`, `times` their times. first_rows[b] becomes the first
    row of batch b. If the columns are full, call `decode` again with new ones.
    """

    layout: EventLayout
    data: cython.const[cython.uchar][::1]
    bodies: cython.const[cython.ulonglong][::1]
    ends: cython.const[cython.ulonglong][::1]
    times: cython.const[cython.ulonglong][::1]
    batch = cython.declare(cython.Py_ssize_t, visibility="readonly")
    begin: cython.Py_ssize_t
    clock: cython.ulonglong
    where = cython.declare(cython.Py_ssize_t, visibility="readonly")

    def __cinit__(self, layout: EventLayout, data, bodies, ends, times):
        self.layout, self.data, self.bodies, self.ends, self.times = layout, data, bodies, ends, times
        self.batch = self.begin = self.clock = self.where = 0

    def decode(
        self,
        types: cython.uchar[::1],
        stamps: cython.ulonglong[::1],
        args: cython.ulonglong[::1],
        first_rows: cython.ulonglong[::1],
    ) -> tuple:
        """Fill columns, starting where the last call stopped; return (rows, fault).

        FULL: call again with new columns. For other faults, `where` is the offset. `batch` is the batch it stopped in.
        """
        fault: cython.int = c.FINE
        batch: cython.Py_ssize_t = self.batch
        begin: cython.Py_ssize_t = self.begin
        last: cython.Py_ssize_t = self.bodies.shape[0]
        capacity: cython.Py_ssize_t = types.shape[0]
        row: cython.Py_ssize_t = 0
        time: cython.ulonglong = self.clock
        if (
            batch >= last
            or stamps.shape[0] < capacity
            or args.shape[0] < 4 * capacity
            or self.data.shape[0] == 0
            or capacity == 0
        ):
            return (0, c.FINE)
        if self.ends.shape[0] < last or self.times.shape[0] < last or first_rows.shape[0] < last:
            return (0, c.FINE)
        data: cython.p_const_uchar = cython.address(self.data[0])
        counts: cython.p_const_uchar = self.layout.counts
        flags: cython.p_const_uchar = self.layout.flags
        pos: cython.p_const_uchar = data
        mark: cython.p_const_uchar = pos
        row_args: cython.p_ulonglong = cython.address(args[0])
        with cython.nogil:
            while batch < last:
                stop: cython.ulonglong = self.ends[batch]
                if stop > cython.cast(cython.ulonglong, self.data.shape[0]) or self.bodies[batch] > stop:
                    fault = c.CUT
                    break
                end: cython.p_const_uchar = data + stop
                if begin:
                    pos = data + begin
                    begin = 0
                else:
                    pos = data + self.bodies[batch]
                    time = self.times[batch]
                first_rows[batch] = row
                while pos < end:
                    if row >= capacity:
                        fault = c.FULL
                        mark = pos
                        break
                    mark = pos
                    kind: cython.int = pos[0]
                    count: cython.int = counts[kind]
                    if not flags[kind] & c.IS_TIMED:
                        fault = c.BAD_TYPE if count == c.NO_EVENT else c.NOT_TIMED
                        break
                    pos += 1
                    time += take(cython.address(pos), end, cython.address(fault))
                    first: cython.ulonglong = 0
                    second: cython.ulonglong = 0
                    third: cython.ulonglong = 0
                    fourth: cython.ulonglong = 0
                    if count > 1:
                        first = take(cython.address(pos), end, cython.address(fault))
                        if count > 2:
                            second = take(cython.address(pos), end, cython.address(fault))
                            if count > 3:
                                third = take(cython.address(pos), end, cython.address(fault))
                                if count > 4:
                                    fourth = take(cython.address(pos), end, cython.address(fault))
                    if fault != c.FINE:
                        break
                    types[row] = cython.cast(cython.uchar, kind)
                    stamps[row] = time
                    row_args[0] = first
                    row_args[1] = second
                    row_args[2] = third
                    row_args[3] = fourth
                    row_args += 4
                    row += 1
                if fault != c.FINE:
                    break
                batch += 1
        self.batch = batch
        self.begin = self.where = mark - data
        self.clock = time
        return (row, fault)


def spread(
    first_rows: cython.const[cython.ulonglong][::1],
    values: cython.const[cython.ulonglong][::1],
    out: cython.ulonglong[::1],
) -> None:
    """Write the value of each batch to each of its rows."""
    batch: cython.Py_ssize_t
    row: cython.Py_ssize_t
    batches: cython.Py_ssize_t = first_rows.shape[0]
    rows: cython.Py_ssize_t = out.shape[0]
    belong(values.shape[0] >= batches and are_inside(first_rows, first_rows, rows))
    with cython.nogil:
        for batch in range(batches):
            stop: cython.Py_ssize_t = first_rows[batch + 1] if batch + 1 < batches else rows
            if stop > rows:
                stop = rows
            for row in range(first_rows[batch], stop):
                out[row] = values[batch]


def pick(
    types: cython.const[cython.uchar][::1],
    args: cython.const[cython.ulonglong][::1],
    indexes: cython.const[cython.uchar][::1],
    out: cython.ulonglong[::1],
    only: cython.bint,
) -> int:
    """Write the argument at indexes[type] (0 to 3; 255: none) of each event; return the number of rows written.

    Events without the argument have 0, or no row with `only`.
    """
    row: cython.Py_ssize_t
    rows: cython.Py_ssize_t = types.shape[0]
    to: cython.Py_ssize_t = 0
    belong(indexes.shape[0] >= 256)
    if args.shape[0] < 4 * rows or out.shape[0] < rows:
        return 0
    with cython.nogil:
        for row in range(rows):
            index: cython.int = indexes[types[row]]
            if index < 4:
                out[to] = args[4 * row + index]
                to += 1
            elif not only:
                out[to] = 0
                to += 1
    return to


def tally(types: cython.const[cython.uchar][::1], out: cython.ulonglong[::1]) -> None:
    """Add the number of events of each type to `out` (256 numbers)."""
    row: cython.Py_ssize_t
    with cython.nogil:
        if out.shape[0] >= 256:
            for row in range(types.shape[0]):
                out[types[row]] += 1
