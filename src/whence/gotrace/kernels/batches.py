"""Batches found: by the sizes in their headers, or, where those are wrong, by walking every event."""

from array import array

import cython
from cython.cimports.whence.gotrace.kernels import constants as c
from cython.cimports.whence.gotrace.kernels.layout import Layout
from cython.cimports.whence.gotrace.kernels.uvarint import (
    read_uvarint,
    take,
)
from cython.cimports.whence.kernels.checks import belong


@cython.final
@cython.cclass
class BatchColumns:
    """Room for the headers of batches, numbers of 64 bits each: kind (the type of the first event, 0 where it is empty;
    ExperimentalBatch, EndOfGeneration), start, body and end (offsets), generation, thread, time."""

    kind = cython.declare(object, visibility="readonly")
    start = cython.declare(object, visibility="readonly")
    body = cython.declare(object, visibility="readonly")
    end = cython.declare(object, visibility="readonly")
    generation = cython.declare(object, visibility="readonly")
    thread = cython.declare(object, visibility="readonly")
    time = cython.declare(object, visibility="readonly")
    room: cython.Py_ssize_t
    kinds: cython.ulonglong[::1]
    starts: cython.ulonglong[::1]
    bodies: cython.ulonglong[::1]
    ends: cython.ulonglong[::1]
    generations: cython.ulonglong[::1]
    threads: cython.ulonglong[::1]
    times: cython.ulonglong[::1]

    def __cinit__(self, room: cython.Py_ssize_t):
        self.room = room
        self.kind, self.start, self.body, self.end, self.generation, self.thread, self.time = [
            array("Q", bytes(8 * room)) for _ in range(7)
        ]
        self.kinds, self.starts, self.bodies, self.ends = self.kind, self.start, self.body, self.end
        self.generations, self.threads, self.times = self.generation, self.thread, self.time


def scan(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    layout: Layout,
    out: BatchColumns,
) -> tuple:
    """Find the batches in data[start:stop] by the sizes in their headers.

    Returns (where it stopped, always between batches; rows; fault; where the fault is). CUT: the last batch goes on
    past `stop`. FULL: `out` has no more room.
    """
    fault: cython.int = c.FINE
    room: cython.Py_ssize_t = out.room
    row: cython.Py_ssize_t = 0
    belong(start >= 0)
    if start >= stop or stop > data.shape[0]:
        return (start, 0, c.FINE, start)
    base: cython.p_const_uchar = cython.address(data[0])
    at: cython.p_const_uchar = base + start
    end: cython.p_const_uchar = base + stop
    mark: cython.p_const_uchar = at
    header: cython.ulonglong[5]
    kind: cython.int
    got: cython.int
    i: cython.int
    numbers: cython.int
    skip: cython.int
    with cython.nogil:
        while at < end:
            mark = at
            if row >= room:
                fault = c.FULL
                break
            kind = at[0]
            if layout.counts[kind] == c.NO_EVENT or not (
                kind == c.EVENT_BATCH or kind == c.EXPERIMENTAL_BATCH or kind == c.END_OF_GENERATION
            ):
                fault = c.OUT_OF_BATCH
                break
            at += 1
            # EventBatch: generation, thread, time, size. ExperimentalBatch: the experiment before them.
            skip = 1 if kind == c.EXPERIMENTAL_BATCH else 0
            numbers = 0 if kind == c.END_OF_GENERATION else 4 + skip
            header[1] = 0
            for i in range(5):
                header[i] = 0
            for i in range(numbers):
                got = read_uvarint(at, end, cython.address(header[i]))
                if got <= 0:
                    fault = c.CUT if got == 0 else c.BAD_UVARINT
                    break
                at += got
            if fault != c.FINE:
                break
            if header[numbers - 1 if numbers else 0] > cython.cast(cython.ulonglong, end - at):
                fault = c.CUT
                break
            out.kinds[row] = kind
            out.starts[row] = mark - base
            out.bodies[row] = at - base
            if numbers:
                if kind == c.EVENT_BATCH:
                    out.kinds[row] = at[0] if header[3] else 0
                at += header[numbers - 1]
            out.ends[row] = at - base
            out.generations[row] = header[skip]
            out.threads[row] = header[skip + 1]
            out.times[row] = header[skip + 2]
            row += 1
    if fault != c.FINE:
        return (mark - base, row, fault, (mark if fault == c.OUT_OF_BATCH else at) - base)
    return (at - base, row, c.FINE, at - base)


def frame(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    layout: Layout,
    starts: cython.ulonglong[::1],
) -> tuple:
    """Walk the events in data[start:stop], whatever batch headers say, and note where those start that frame others:
    EventBatch, ExperimentalBatch, EndOfGeneration.

    Returns (where it stopped, always between events; rows; events; fault; where the fault is). CUT: an event goes on
    past `stop`. FULL: `starts` is full.
    """
    fault: cython.int = c.FINE
    room: cython.Py_ssize_t = starts.shape[0]
    row: cython.Py_ssize_t = 0
    events: cython.Py_ssize_t = 0
    belong(start >= 0)
    if start >= stop or stop > data.shape[0]:
        return (start, 0, 0, c.FINE, start)
    base: cython.p_const_uchar = cython.address(data[0])
    at: cython.p_const_uchar = base + start
    end: cython.p_const_uchar = base + stop
    mark: cython.p_const_uchar = at
    kind: cython.int
    left: cython.ulonglong
    second: cython.ulonglong = 0
    value: cython.ulonglong = 0
    with cython.nogil:
        while at < end:
            mark = at
            kind = at[0]
            if layout.counts[kind] == c.NO_EVENT:
                fault = c.BAD_TYPE
                break
            if row >= room:
                fault = c.FULL
                break
            at += 1
            left = layout.counts[kind]
            while left and fault == c.FINE:
                value = take(cython.address(at), end, cython.address(fault))
                left -= 1
                if layout.flags[kind] & c.IS_STACK and left == 0:
                    second = value
            if fault == c.FINE and layout.flags[kind] & c.IS_STACK:
                if second > cython.cast(cython.ulonglong, end - at) // 4:
                    fault = c.OUT_OF_BATCH
                left = 4 * second
                while left and fault == c.FINE:
                    take(cython.address(at), end, cython.address(fault))
                    left -= 1
            elif fault == c.FINE and layout.flags[kind] & c.HAS_DATA:
                value = take(cython.address(at), end, cython.address(fault))
                if fault == c.FINE and value > cython.cast(cython.ulonglong, end - at):
                    fault = c.OUT_OF_BATCH
                if fault == c.FINE:
                    at += value
            if fault != c.FINE:
                if fault == c.OUT_OF_BATCH:
                    fault = c.CUT
                break
            if kind == c.EVENT_BATCH or kind == c.EXPERIMENTAL_BATCH or kind == c.END_OF_GENERATION:
                starts[row] = mark - base
                row += 1
            events += 1
    if fault != c.FINE:
        return (mark - base, row, events, fault, (at if fault == c.BAD_UVARINT else mark) - base)
    return (at - base, row, events, c.FINE, at - base)
