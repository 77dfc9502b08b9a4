"""Copy a batch without some of its events; the times of removed events are added to the next event."""

import cython
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.gotrace.kernels import constants as c
from cython.cimports.whence.gotrace.kernels.layout import EventLayout
from cython.cimports.whence.kernels.bytes import put_uleb, uvarint
from cython.cimports.whence.kernels.checks import belong


@cython.final
@cython.cclass
class EventFilter:
    """Selects the events of a version by type, goroutine and time. Immutable, so threads may share it.

    Args:
        layout: the events of the version.
        rules: for each of 256 types, the rule of the filter (constants.pxd).
        moves: for each of 256 types, the goroutine that runs after it (constants.pxd).
        goroutines: the selected goroutines, ascending.
        since: start of the time range, in clock units.
        until: end of the time range (exclusive), in clock units.
    """

    layout: EventLayout
    rules: cython.uchar[256]
    moves: cython.uchar[256]
    goroutines: cython.const[cython.ulonglong][::1]
    since: cython.ulonglong
    until: cython.ulonglong

    def __cinit__(self, layout: EventLayout, rules: bytes, moves: bytes, goroutines, since, until):
        kind: cython.int
        if len(rules) != c.KINDS or len(moves) != c.KINDS:
            raise ValueError(f"rules and moves must have {c.KINDS} bytes each")
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
        """Copy the selected timed events of data[begin:stop] to `out`, which has at least 16 bytes more.

        `time` is the time of the batch, `running` the goroutine on its thread at the start (0 for none). Returns (bytes
        written, events kept, events dropped, goroutine at the end, fault, offset of the fault).
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
        pos: cython.p_const_uchar = base + begin
        end: cython.p_const_uchar = base + stop
        to: cython.p_uchar = cython.address(out[0])
        first: cython.p_uchar = to
        elapsed: cython.ulonglong = 0
        now: cython.ulonglong = time
        args: cython.ulonglong[8]
        i: cython.int
        with cython.nogil:
            while pos < end:
                kind: cython.int = pos[0]
                if not flags[kind] & c.IS_TIMED:
                    fault = c.NOT_TIMED
                    break
                count: cython.int = counts[kind]
                pos += 1
                rest: cython.p_const_uchar = pos
                for i in range(count):
                    size: cython.int = uvarint(pos, end, cython.address(args[i]))
                    if size <= 0:
                        fault = c.OUT_OF_BATCH if size == 0 else c.BAD_UVARINT
                        break
                    pos += size
                    if i == 0:
                        rest = pos
                if fault != c.FINE:
                    break
                now += args[0]
                elapsed += args[0]
                owner: cython.ulonglong = running
                move: cython.int = self.moves[kind]
                if move < 4:
                    running = args[1 + move]
                    owner = running
                elif move == c.LEAVES:
                    running = 0
                elif move == c.IF_HERE and args[2] == thread and is_running(args[3]):
                    running = args[1]
                rule: cython.int = self.rules[kind]
                keep: cython.bint = rule & c.DROP == 0
                if keep and rule & c.BY_TIME and not (self.since <= now < self.until):
                    keep = False
                if keep and rule & c.BY_GOROUTINE:
                    keep = among(owner, self.goroutines)
                if not keep:
                    dropped += 1
                    continue
                to[0] = cython.cast(cython.uchar, kind)
                to = put_uleb(to + 1, elapsed)
                elapsed = 0
                memcpy(to, rest, pos - rest)
                to += pos - rest
                kept += 1
        return (to - first, kept, dropped, running, fault, pos - base)


def is_running(status):
    """Return True if a goroutine of this status has a thread."""
    return status == c.GO_RUNNING or status == c.GO_SYSCALL


def among(value, values):
    """Return True if a value is among ascending values."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = values.shape[0]
    while low < high:
        middle: cython.Py_ssize_t = (low + high) >> 1
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
    """Write the goroutine of each of the rows [first, last) of a thread; return the goroutine that runs after them.

    An event that starts or stops a goroutine belongs to it; 0 if none runs.
    """
    row: cython.Py_ssize_t
    belong(moves.shape[0] >= 256)
    if first < 0 or last > types.shape[0] or args.shape[0] < 4 * last or out.shape[0] < last:
        return running
    with cython.nogil:
        for row in range(first, last):
            move: cython.int = moves[types[row]]
            if move < 4:
                running = args[4 * row + move]
            elif move == c.IF_HERE and args[4 * row + 1] == thread and is_running(args[4 * row + 2]):
                running = args[4 * row]
            out[row] = running
            if move == c.LEAVES:
                running = 0
    return running
