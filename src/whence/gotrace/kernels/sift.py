"""A batch copied without some of its events, the time of those added to the next one that stays."""

import cython
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.gotrace.kernels.uvarint import (
    BAD_UVARINT,
    FINE,
    IS_TIMED,
    NOT_TIMED,
    OUT_OF_BATCH,
    put_uvarint,
    read_uvarint,
)

# What becomes of a type (`rules`).
KEEP = cython.declare(cython.int, 0)
DROP = cython.declare(cython.int, 1)
BY_GOROUTINE = cython.declare(cython.int, 2)  # kept if the goroutine running is wanted
BY_TIME = cython.declare(cython.int, 4)  # kept if its time is in [since, until)

# What a type does to the goroutine that runs on the thread (`moves`): its place after dt, or one of these.
STAYS = cython.declare(cython.int, 255)
LEAVES = cython.declare(cython.int, 254)
IF_HERE = cython.declare(cython.int, 253)  # GoStatus: (g, m, status): it runs here if m is this thread


def sift(
    data: cython.const[cython.uchar][::1],
    begin: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    time: cython.ulonglong,
    thread: cython.ulonglong,
    running: cython.ulonglong,
    counts: cython.const[cython.uchar][::1],
    flags: cython.const[cython.uchar][::1],
    rules: cython.const[cython.uchar][::1],
    moves: cython.const[cython.uchar][::1],
    goroutines: cython.const[cython.ulonglong][::1],
    since: cython.ulonglong,
    until: cython.ulonglong,
    out: cython.uchar[::1],
) -> tuple:
    """Copy the timed events in data[begin:stop] that stay into `out` (of at least as many bytes).

    `running` is the goroutine on the thread at the start (0: none); `goroutines` are the wanted ones, ascending. Gives
    (bytes written, events kept, events dropped, goroutine at the end, fault, where).
    """
    fault: cython.int = FINE
    kept: cython.Py_ssize_t = 0
    dropped: cython.Py_ssize_t = 0
    if begin >= stop or stop > data.shape[0] or out.shape[0] < stop - begin + 16:
        return (0, 0, 0, running, FINE, begin)
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
            if not flags[kind] & IS_TIMED:
                fault = NOT_TIMED
                break
            count = counts[kind]
            at += 1
            rest = at
            for i in range(count):
                got = read_uvarint(at, end, cython.address(args[i]))
                if got <= 0:
                    fault = OUT_OF_BATCH if got == 0 else BAD_UVARINT
                    break
                at += got
                if i == 0:
                    rest = at
            if fault != FINE:
                break
            now += args[0]
            owed += args[0]
            owner = running
            move = moves[kind]
            if move < 4:
                running = args[1 + move]
                owner = running
            elif move == LEAVES:
                running = 0
            elif move == IF_HERE and args[2] == thread and (args[3] == 2 or args[3] == 3):
                running = args[1]
            rule = rules[kind]
            wanted = rule & DROP == 0
            if wanted and rule & BY_TIME and not (since <= now < until):
                wanted = False
            if wanted and rule & BY_GOROUTINE:
                wanted = among(owner, goroutines)
            if not wanted:
                dropped += 1
                continue
            to[0] = cython.cast(cython.uchar, kind)
            to = put_uvarint(to + 1, owed)
            owed = 0
            memcpy(to, rest, at - rest)
            to += at - rest
            kept += 1
    return (to - first, kept, dropped, running, fault, at - base)


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
    """The goroutine that each of the rows [first, last) of a thread belongs to, into `out`; gives the one at their end.

    An event that starts a goroutine or stops one belongs to it; 0 where none runs.
    """
    row: cython.Py_ssize_t
    move: cython.int
    if first < 0 or last > types.shape[0] or args.shape[0] < 4 * last or out.shape[0] < last:
        return running
    with cython.nogil:
        for row in range(first, last):
            move = moves[types[row]]
            if move < 4:
                running = args[4 * row + move]
            elif move == IF_HERE and args[4 * row + 1] == thread and 2 <= args[4 * row + 2] <= 3:
                running = args[4 * row]
            out[row] = running
            if move == LEAVES:
                running = 0
    return running
