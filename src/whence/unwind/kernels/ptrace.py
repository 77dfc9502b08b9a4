"""Threads of another process: stopped, their registers and used stacks copied, let go.

Nothing of Python runs while a thread is stopped. Threads are seized without options: when the thread of ours that
traces them ends, or all of us is killed, the kernel lets them go. Who calls `copy_threads` does so in a thread that
ends right after, since a thread that did not stop in time (blocked in the kernel, as the parent of a vfork) can't be
let go otherwise.
"""

import cython
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.unwind.kernels.ptrace import (
    whence_detach,
    whence_hold_stops,
    whence_let_stops,
    whence_now,
    whence_pause,
    whence_read,
    whence_registers,
    whence_seize,
    whence_stopped,
    whence_stops,
)

# What became of a thread
WAITING = cython.declare(cython.uchar, 0)
STOPPED = cython.declare(cython.uchar, 1)
COPIED = cython.declare(cython.uchar, 2)
GONE = cython.declare(cython.uchar, 3)  # it ended before, or meanwhile
DENIED = cython.declare(cython.uchar, 4)
BUSY = cython.declare(cython.uchar, 5)  # it did not stop in time

REGISTERS_ROOM = cython.declare(cython.Py_ssize_t, 512)  # bytes of a register set: 216 on x86-64, 272 on aarch64
RED_ZONE = cython.declare(cython.ulonglong, 128)  # bytes below the stack pointer that functions use (x86-64's psABI)
UNKNOWN_STACK = cython.declare(cython.ulonglong, 1 << 16)  # bytes tried where no region holds the stack pointer
TOGETHER = cython.declare(cython.ulonglong, 2_000_000)  # nanoseconds that those that stopped wait for the others
EAGER = cython.declare(cython.ulonglong, 50_000)  # nanoseconds of looking without pause
PAUSE = cython.declare(cython.long, 20_000)  # then with one, so that the others have a processor to stop on
ESRCH = cython.declare(cython.uint, 3)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _stack_end(
    starts: cython.const[cython.ulonglong][::1], ends: cython.const[cython.ulonglong][::1], sp: cython.ulonglong
) -> cython.ulonglong:
    """The end of the region that holds an address; 0 where none does."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = starts.shape[0]
    middle: cython.Py_ssize_t
    while low < high:
        middle = (low + high) // 2
        if starts[middle] <= sp:
            low = middle + 1
        else:
            high = middle
    return ends[low - 1] if low and sp < ends[low - 1] else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _stack_pointer(
    layouts: cython.const[cython.ulonglong][::1], registers: cython.p_uchar, size: cython.ulonglong
) -> cython.ulonglong:
    """The stack pointer in a register set; 0 for one of an unknown size."""
    at: cython.Py_ssize_t
    byte: cython.ulonglong
    found: cython.ulonglong = 0
    for at in range(0, layouts.shape[0] - 2, 3):
        if layouts[at] == size and layouts[at + 1] + layouts[at + 2] <= size and layouts[at + 2] <= 8:
            byte = layouts[at + 2]
            while byte:  # this machine's processes are as little-endian as it is
                byte -= 1
                found = found << 8 | registers[layouts[at + 1] + byte]
            return found
    return 0


def copy_threads(
    pid: cython.int,
    rows,
    regions,
    layouts: cython.const[cython.ulonglong][::1],
    memory: cython.uchar[::1],
    used: cython.Py_ssize_t,
    most: cython.ulonglong,
    patience: cython.ulonglong,
) -> cython.Py_ssize_t:
    """Stop the threads `rows.tid`, copy them, let them go; fills the other columns of rows, a row a thread.

    `code` becomes the errno of what failed or the signal that a thread was let go with, `held` how many nanoseconds
    that took, from before it was asked to stop.

    `regions` are the readable ranges of memory (start, end), sorted; `layouts` say for each size of a register set
    where in it the stack pointer is and how many bytes that has. Stacks go to `memory` from `used` on, at most `most`
    bytes of each. A thread that did not stop within `patience` nanoseconds is left. Returns how much of `memory` is
    used then.
    """
    tids: cython.const[cython.uint][::1] = rows.tid
    states: cython.uchar[::1] = rows.state
    codes: cython.uint[::1] = rows.code
    sizes: cython.uint[::1] = rows.size
    registers: cython.uchar[::1] = rows.registers
    starts: cython.ulonglong[::1] = rows.stack_start
    offsets: cython.ulonglong[::1] = rows.stack_offset
    lengths: cython.ulonglong[::1] = rows.stack_size
    held: cython.ulonglong[::1] = rows.held
    region_starts: cython.const[cython.ulonglong][::1] = regions.start
    region_ends: cython.const[cython.ulonglong][::1] = regions.end
    count: cython.Py_ssize_t = tids.shape[0]
    at: cython.Py_ssize_t
    pending: cython.Py_ssize_t = 0
    began: cython.ulonglong
    now: cython.ulonglong
    sp: cython.ulonglong
    wanted: cython.ulonglong
    size: cython.long
    fault: cython.int
    deliver: cython.int = 0
    found: cython.int
    kept: whence_stops
    belong(states.shape[0] == count and codes.shape[0] == count and sizes.shape[0] == count)
    belong(starts.shape[0] == count and offsets.shape[0] == count and lengths.shape[0] == count)
    belong(held.shape[0] == count and registers.shape[0] == REGISTERS_ROOM * count)
    belong(region_starts.shape[0] == region_ends.shape[0] and layouts.shape[0] % 3 == 0)
    belong(0 <= used <= memory.shape[0] and pid > 0)
    for at in range(count):
        belong(0 < tids[at] < 1 << 30)
    with cython.nogil:
        whence_hold_stops(cython.address(kept))
        for at in range(count):
            held[at] = whence_now()
            fault = whence_seize(cython.cast(cython.int, tids[at]))
            codes[at] = fault
            states[at] = WAITING if fault == 0 else GONE if fault == ESRCH else DENIED
            pending += fault == 0
        began = whence_now()
        while pending:
            for at in range(count):
                if states[at] == WAITING:
                    found = whence_stopped(tids[at], tids[at] == pid, cython.address(deliver))
                    if found:
                        pending -= 1
                        codes[at] = deliver if found > 0 else ESRCH
                        states[at] = STOPPED if found > 0 else GONE
            now = whence_now()
            if pending == 0 or now - began > TOGETHER:
                for at in range(count):
                    if states[at] == STOPPED:
                        size = whence_registers(
                            tids[at], cython.address(registers[REGISTERS_ROOM * at]), REGISTERS_ROOM
                        )
                        sizes[at] = size if size > 0 else 0
                        starts[at] = offsets[at] = lengths[at] = 0
                        sp = _stack_pointer(layouts, cython.address(registers[REGISTERS_ROOM * at]), sizes[at])
                        if sp > RED_ZONE and used < memory.shape[0]:
                            sp -= RED_ZONE
                            wanted = _stack_end(region_starts, region_ends, sp + RED_ZONE)
                            wanted = wanted - sp if wanted else UNKNOWN_STACK
                            wanted = min(wanted, most, cython.cast(cython.ulonglong, memory.shape[0] - used))
                            size = whence_read(pid, sp, cython.address(memory[used]), wanted)
                            if size > 0:
                                starts[at], offsets[at], lengths[at] = sp, used, size
                                used += size
                        whence_detach(tids[at], codes[at])
                        held[at] = whence_now() - held[at]
                        states[at] = COPIED if sizes[at] else GONE
            if pending and now - began > patience:
                break
            if pending and now - began > EAGER:
                whence_pause(PAUSE)
        for at in range(count):
            if states[at] == WAITING:
                whence_detach(tids[at], 0)
                states[at] = BUSY
        whence_let_stops(cython.address(kept))
    return used
