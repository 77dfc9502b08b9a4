"""Find batches by the sizes in their headers or, where sizes may be wrong, by walking the events."""

from array import array

import cython
from cython.cimports.whence.gotrace.kernels import constants as c
from cython.cimports.whence.gotrace.kernels.layout import EventLayout
from cython.cimports.whence.gotrace.kernels.uvarint import take
from cython.cimports.whence.kernels.bytes import uvarint
from cython.cimports.whence.kernels.checks import belong


@cython.final
@cython.cclass
class BatchColumns:
    """Buffers for the headers of `capacity` batches, 64-bit numbers each.

    Columns: kind (type of the first event, 0 if the batch is empty; ExperimentalBatch; EndOfGeneration), start, body
    and end (offsets), generation, thread, time.
    """

    kind = cython.declare(object, visibility="readonly")
    start = cython.declare(object, visibility="readonly")
    body = cython.declare(object, visibility="readonly")
    end = cython.declare(object, visibility="readonly")
    generation = cython.declare(object, visibility="readonly")
    thread = cython.declare(object, visibility="readonly")
    time = cython.declare(object, visibility="readonly")
    capacity: cython.Py_ssize_t
    kinds: cython.ulonglong[::1]
    starts: cython.ulonglong[::1]
    bodies: cython.ulonglong[::1]
    ends: cython.ulonglong[::1]
    generations: cython.ulonglong[::1]
    threads: cython.ulonglong[::1]
    times: cython.ulonglong[::1]

    def __cinit__(self, capacity: cython.Py_ssize_t):
        self.capacity = capacity
        self.kind, self.start, self.body, self.end, self.generation, self.thread, self.time = [
            array("Q", bytes(8 * capacity)) for _ in range(7)
        ]
        self.kinds, self.starts, self.bodies, self.ends = self.kind, self.start, self.body, self.end
        self.generations, self.threads, self.times = self.generation, self.thread, self.time


def scan(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    layout: EventLayout,
    out: BatchColumns,
) -> tuple:
    """Find the batches in data[start:stop] by the sizes in their headers.

    Returns (offset where it stopped, always between batches; rows; fault; offset of the fault). CUT: the last batch
    extends past `stop`. FULL: `out` is full.
    """
    fault: cython.int = c.FINE
    capacity: cython.Py_ssize_t = out.capacity
    row: cython.Py_ssize_t = 0
    belong(start >= 0)
    if start >= stop or stop > data.shape[0]:
        return (start, 0, c.FINE, start)
    base: cython.p_const_uchar = cython.address(data[0])
    pos: cython.p_const_uchar = base + start
    end: cython.p_const_uchar = base + stop
    mark: cython.p_const_uchar = pos
    header: cython.ulonglong[5]
    i: cython.int
    with cython.nogil:
        while pos < end:
            mark = pos
            if row >= capacity:
                fault = c.FULL
                break
            kind: cython.int = pos[0]
            if layout.counts[kind] == c.NO_EVENT or not (
                kind == c.EVENT_BATCH or kind == c.EXPERIMENTAL_BATCH or kind == c.END_OF_GENERATION
            ):
                fault = c.OUT_OF_BATCH
                break
            pos += 1
            # EventBatch: generation, thread, time, size. ExperimentalBatch: the experiment before them.
            skip: cython.int = 1 if kind == c.EXPERIMENTAL_BATCH else 0
            numbers: cython.int = 0 if kind == c.END_OF_GENERATION else 4 + skip
            header[1] = 0
            for i in range(5):
                header[i] = 0
            for i in range(numbers):
                size: cython.int = uvarint(pos, end, cython.address(header[i]))
                if size <= 0:
                    fault = c.CUT if size == 0 else c.BAD_UVARINT
                    break
                pos += size
            if fault != c.FINE:
                break
            if header[numbers - 1 if numbers else 0] > cython.cast(cython.ulonglong, end - pos):
                fault = c.CUT
                break
            out.kinds[row] = kind
            out.starts[row] = mark - base
            out.bodies[row] = pos - base
            if numbers:
                if kind == c.EVENT_BATCH:
                    out.kinds[row] = pos[0] if header[3] else 0
                pos += header[numbers - 1]
            out.ends[row] = pos - base
            out.generations[row] = header[skip]
            out.threads[row] = header[skip + 1]
            out.times[row] = header[skip + 2]
            row += 1
    if fault != c.FINE:
        return (mark - base, row, fault, (mark if fault == c.OUT_OF_BATCH else pos) - base)
    return (pos - base, row, c.FINE, pos - base)


def frame(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    layout: EventLayout,
    starts: cython.ulonglong[::1],
) -> tuple:
    """Walk the events in data[start:stop], regardless of batch sizes, and record the offsets of batch headers.

    Headers are EventBatch, ExperimentalBatch and EndOfGeneration. Returns (offset where it stopped, always between
    events; rows; events; fault; offset of the fault). CUT: an event extends past `stop`. FULL: `starts` is full.
    """
    fault: cython.int = c.FINE
    capacity: cython.Py_ssize_t = starts.shape[0]
    row: cython.Py_ssize_t = 0
    events: cython.Py_ssize_t = 0
    belong(start >= 0)
    if start >= stop or stop > data.shape[0]:
        return (start, 0, 0, c.FINE, start)
    base: cython.p_const_uchar = cython.address(data[0])
    pos: cython.p_const_uchar = base + start
    end: cython.p_const_uchar = base + stop
    mark: cython.p_const_uchar = pos
    second: cython.ulonglong = 0
    value: cython.ulonglong = 0
    with cython.nogil:
        while pos < end:
            mark = pos
            kind: cython.int = pos[0]
            if layout.counts[kind] == c.NO_EVENT:
                fault = c.BAD_TYPE
                break
            if row >= capacity:
                fault = c.FULL
                break
            pos += 1
            numbers_left: cython.ulonglong = layout.counts[kind]
            while numbers_left and fault == c.FINE:
                value = take(cython.address(pos), end, cython.address(fault))
                numbers_left -= 1
                if layout.flags[kind] & c.IS_STACK and numbers_left == 0:
                    second = value
            if fault == c.FINE and layout.flags[kind] & c.IS_STACK:
                if second > cython.cast(cython.ulonglong, end - pos) // 4:
                    fault = c.OUT_OF_BATCH
                numbers_left = 4 * second
                while numbers_left and fault == c.FINE:
                    take(cython.address(pos), end, cython.address(fault))
                    numbers_left -= 1
            elif fault == c.FINE and layout.flags[kind] & c.HAS_DATA:
                value = take(cython.address(pos), end, cython.address(fault))
                if fault == c.FINE and value > cython.cast(cython.ulonglong, end - pos):
                    fault = c.OUT_OF_BATCH
                if fault == c.FINE:
                    pos += value
            if fault != c.FINE:
                if fault == c.OUT_OF_BATCH:
                    fault = c.CUT
                break
            if kind == c.EVENT_BATCH or kind == c.EXPERIMENTAL_BATCH or kind == c.END_OF_GENERATION:
                starts[row] = mark - base
                row += 1
            events += 1
    if fault != c.FINE:
        return (mark - base, row, events, fault, (pos if fault == c.BAD_UVARINT else mark) - base)
    return (pos - base, row, events, c.FINE, pos - base)
