"""A batch copied without some of its events, the time of those added to the next one that stays."""

import cython
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.gotrace.kernels import constants as c
from cython.cimports.whence.gotrace.kernels.layout import Layout
from cython.cimports.whence.gotrace.kernels.uvarint import (
    read_uvarint,
)
from cython.cimports.whence.kernels.bytes import put_uleb
from cython.cimports.whence.kernels.checks import belong


@cython.final
@cython.cclass
class EventFilter:
    """Which events of a version stay, by type, goroutine and time. Holds no position: threads may share it.

    `rules` and `moves` say for each of 256 types what becomes of it and which goroutine runs behind it (constants.pxd);
    `goroutines` are the wanted ones, ascending; [since, until) is in units of the trace's clock.
    """

    layout: Layout
    rules: cython.uchar[256]
    moves: cython.uchar[256]
    goroutines: cython.const[cython.ulonglong][::1]
    since: cython.ulonglong
    until: cython.ulonglong

    def __cinit__(self, layout: Layout, rules: bytes, moves: bytes, goroutines, since, until):
        kind: cython.int
        if len(rules) != c.KINDS or len(moves) != c.KINDS:
            raise ValueError(f"there are rules and moves for each of {c.KINDS} types")
        for kind in range(c.KINDS):
            self.rules[kind] = rules[kind]
            self.moves[kind] = moves[kind]
        self.layout = layout
        self.goroutines = goroutines
        self.since = since
        self.until = until

    def copy(
        self,
        data: cython.const[cython.uchar][::1],
        begin: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
        time: cython.ulonglong,
        thread: cython.ulonglong,
        running: cython.ulonglong,
        out: cython.uchar[::1],
    ) -> tuple:
        """Copy the timed events in data[begin:stop] that stay into `out` (of at least 16 bytes more).

        `time` is that of the batch, `running` the goroutine on its thread at the start (0: none). Returns (bytes
        written, events kept, events dropped, goroutine at the end, fault, where).
        """
        fault: cython.int = c.FINE
        kept: cython.Py_ssize_t = 0
        dropped: cython.Py_ssize_t = 0
        belong(begin >= 0)
        if begin >= stop or stop > data.shape[0] or out.shape[0] < stop - begin + 16:
            return (0, 0, 0, running, c.FINE, begin)
        counts: cython.p_const_uchar = self.layout.counts
        flags: cython.p_const_uchar = self.layout.flags
        base: cython.p_const_uchar = cython.address(data[0])
        at: cython.p_const_uchar = base + begin
        end: cython.p_const_uchar = base + stop
        rest: cython.p_const_uchar
        to: cython.p_uchar = cython.address(out[0])
        first: cython.p_uchar = to
        owed: cython.ulonglong = 0
        now: cython.ulonglong = time
        args: cython.ulonglong[8]
        kind: cython.int
        rule: cython.int
        move: cython.int
        count: cython.int
        got: cython.int
        i: cython.int
        wanted: cython.bint
        owner: cython.ulonglong
        with cython.nogil:
            while at < end:
                kind = at[0]
                if not flags[kind] & c.IS_TIMED:
                    fault = c.NOT_TIMED
                    break
                count = counts[kind]
                at += 1
                rest = at
                for i in range(count):
                    got = read_uvarint(at, end, cython.address(args[i]))
                    if got <= 0:
                        fault = c.OUT_OF_BATCH if got == 0 else c.BAD_UVARINT
                        break
                    at += got
                    if i == 0:
                        rest = at
                if fault != c.FINE:
                    break
                now += args[0]
                owed += args[0]
                owner = running
                move = self.moves[kind]
                if move < 4:
                    running = args[1 + move]
                    owner = running
                elif move == c.LEAVES:
                    running = 0
                elif move == c.IF_HERE and args[2] == thread and is_running(args[3]):
                    running = args[1]
                rule = self.rules[kind]
                wanted = rule & c.DROP == 0
                if wanted and rule & c.BY_TIME and not (self.since <= now < self.until):
                    wanted = False
                if wanted and rule & c.BY_GOROUTINE:
                    wanted = among(owner, self.goroutines)
                if not wanted:
                    dropped += 1
                    continue
                to[0] = cython.cast(cython.uchar, kind)
                to = put_uleb(to + 1, owed)
                owed = 0
                memcpy(to, rest, at - rest)
                to += at - rest
                kept += 1
        return (to - first, kept, dropped, running, fault, at - base)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_running(status: cython.ulonglong) -> cython.bint:
    """Whether a goroutine of this status has a thread."""
    return status == c.GO_RUNNING or status == c.GO_SYSCALL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def among(value: cython.ulonglong, values: cython.const[cython.ulonglong][::1]) -> cython.bint:
    """Whether a value is one of some ascending ones."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = values.shape[0]
    middle: cython.Py_ssize_t
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low < values.shape[0] and values[low] == value


def attribute(
    types: cython.const[cython.uchar][::1],
    args: cython.const[cython.ulonglong][::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    thread: cython.ulonglong,
    running: cython.ulonglong,
    moves: cython.const[cython.uchar][::1],
    out: cython.ulonglong[::1],
) -> int:
    """Write the goroutine that each of the rows [first, last) of a thread belongs to; returns the one at their end.

    An event that starts a goroutine or stops one belongs to it; 0 where none runs.
    """
    row: cython.Py_ssize_t
    move: cython.int
    belong(moves.shape[0] >= 256)
    if first < 0 or last > types.shape[0] or args.shape[0] < 4 * last or out.shape[0] < last:
        return running
    with cython.nogil:
        for row in range(first, last):
            move = moves[types[row]]
            if move < 4:
                running = args[4 * row + move]
            elif move == c.IF_HERE and args[4 * row + 1] == thread and is_running(args[4 * row + 2]):
                running = args[4 * row]
            out[row] = running
            if move == c.LEAVES:
                running = 0
    return running
