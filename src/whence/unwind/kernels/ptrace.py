"""Kernel: stop threads of another process, copy their registers and used stacks, and release them.

No Python code runs while a thread is stopped. Threads are seized without options: if the thread that traces them ends,
or this process is killed, the kernel releases them. Call `copy_threads` in a thread that ends right afterwards, since
a thread that did not stop in time (blocked in the kernel, as the parent of a vfork is) cannot be released otherwise.
"""

import cython
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.unwind.kernels.ptrace import (
    whence_detach,
    whence_end_pauses_on_time,
    whence_hold_stops,
    whence_now,
    whence_pause,
    whence_registers,
    whence_restore_stops,
    whence_seize,
    whence_stopped,
    whence_stops,
)
from cython.cimports.whence.unwind.kernels.stopped import StoppedReader, StoppedThreads, whence_read

# states of a thread
WAITING = cython.declare(cython.uchar, 0)
STOPPED = cython.declare(cython.uchar, 1)
COPIED = cython.declare(cython.uchar, 2)
GONE = cython.declare(cython.uchar, 3)  # it has ended
DENIED = cython.declare(cython.uchar, 4)
BUSY = cython.declare(cython.uchar, 5)  # it did not stop in time

REGISTER_BYTES = cython.declare(cython.Py_ssize_t, 512)  # per thread: a set has 216 on x86-64, 272 on aarch64
RED_ZONE = cython.declare(cython.ulonglong, 128)  # bytes below the stack pointer that functions use (x86-64's psABI)
UNKNOWN_STACK = cython.declare(cython.ulonglong, 1 << 16)  # bytes to copy if no region contains the stack pointer
TOGETHER = cython.declare(cython.ulonglong, 2_000_000)  # nanoseconds that stopped threads wait for the others
EAGER = cython.declare(cython.ulonglong, 50_000)  # nanoseconds of polling without pauses
PAUSE = cython.declare(cython.long, 20_000)  # nanoseconds; frees a processor for the threads to stop on
ESRCH = cython.declare(cython.uint, 3)


@cython.final
@cython.cclass
class ThreadGroup:
    """Threads that are stopped together, with the columns of stopping.StoppedRows."""

    pid: cython.int
    count: cython.Py_ssize_t
    tids: cython.const[cython.uint][::1]
    states: cython.uchar[::1]
    codes: cython.uint[::1]
    sizes: cython.uint[::1]
    registers: cython.uchar[::1]
    stack_starts: cython.ulonglong[::1]
    stack_offsets: cython.ulonglong[::1]
    stack_sizes: cython.ulonglong[::1]
    durations: cython.ulonglong[::1]
    region_starts: cython.const[cython.ulonglong][::1]
    region_ends: cython.const[cython.ulonglong][::1]
    layouts: cython.const[cython.ulonglong][::1]
    memory: cython.uchar[::1]
    used: cython.Py_ssize_t
    stack_limit: cython.ulonglong
    reader: StoppedReader

    def __cinit__(self, pid, rows, regions, layouts, memory, used, stack_limit, reader):
        self.pid = pid
        self.reader = reader
        self.tids = rows.tid
        self.states = rows.state
        self.codes = rows.code
        self.sizes = rows.size
        self.registers = rows.registers
        self.stack_starts = rows.stack_start
        self.stack_offsets = rows.stack_offset
        self.stack_sizes = rows.stack_size
        self.durations = rows.duration
        self.region_starts = regions.start
        self.region_ends = regions.end
        self.layouts = layouts
        self.memory = memory
        self.used = used
        self.stack_limit = stack_limit
        self.count = self.tids.shape[0]
        index: cython.Py_ssize_t
        belong(min(self.states.shape[0], self.codes.shape[0], self.sizes.shape[0]) == self.count)
        belong(max(self.states.shape[0], self.codes.shape[0], self.sizes.shape[0]) == self.count)
        belong(self.stack_starts.shape[0] == self.count and self.stack_offsets.shape[0] == self.count)
        belong(self.stack_sizes.shape[0] == self.count and self.durations.shape[0] == self.count)
        belong(self.registers.shape[0] == REGISTER_BYTES * self.count)
        belong(self.region_starts.shape[0] == self.region_ends.shape[0] and self.layouts.shape[0] % 3 == 0)
        belong(0 <= self.used <= self.memory.shape[0] and self.pid > 0)
        for index in range(self.count):
            belong(0 < self.tids[index] < 1 << 30)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def seize(self) -> cython.Py_ssize_t:
        """Ask all threads to stop. Returns how many will."""
        index: cython.Py_ssize_t
        pending: cython.Py_ssize_t = 0
        for index in range(self.count):
            self.durations[index] = whence_now()
            fault: cython.uint = cython.cast(cython.uint, whence_seize(cython.cast(cython.int, self.tids[index])))
            self.codes[index] = fault
            self.states[index] = WAITING if fault == 0 else GONE if fault == ESRCH else DENIED
            pending += fault == 0
        return pending

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def poll(self) -> cython.Py_ssize_t:
        """Update the states. Returns how many threads have stopped or ended since the last call."""
        index: cython.Py_ssize_t
        changed: cython.Py_ssize_t = 0
        deliver: cython.int = 0
        for index in range(self.count):
            if self.states[index] == WAITING:
                tid: cython.int = cython.cast(cython.int, self.tids[index])
                status: cython.int = whence_stopped(tid, tid == self.pid, cython.address(deliver))
                if status:
                    changed += 1
                    self.codes[index] = deliver if status > 0 else ESRCH
                    self.states[index] = STOPPED if status > 0 else GONE
        return changed

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def copy_stopped(self) -> cython.void:
        """Copy registers and stack of each stopped thread, let the reader read, and release it."""
        index: cython.Py_ssize_t
        for index in range(self.count):
            if self.states[index] == STOPPED:
                size: cython.long = whence_registers(
                    self.tids[index], cython.address(self.registers[REGISTER_BYTES * index]), REGISTER_BYTES
                )
                self.sizes[index] = size if size > 0 else 0
        if self.reader is not None and self.count:
            self.read_more(True)
        for index in range(self.count):
            if self.states[index] == STOPPED:
                self.copy_stack(index)
                whence_detach(self.tids[index], self.codes[index])
                self.durations[index] = whence_now() - self.durations[index]
                self.states[index] = COPIED if self.sizes[index] else GONE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def read_more(self, is_stopped: cython.bint) -> cython.void:
        """Let the reader read what it needs of the threads that are stopped now, or prepare itself before."""
        threads: StoppedThreads
        threads.pid = self.pid
        threads.count = self.count
        threads.tids = cython.address(self.tids[0])
        threads.states = cython.address(self.states[0])
        threads.stopped = STOPPED
        threads.registers = cython.address(self.registers[0])
        threads.sizes = cython.address(self.sizes[0])
        threads.stride = REGISTER_BYTES
        if is_stopped:
            self.reader.read_stopped(cython.address(threads))
        else:
            self.reader.prepare(cython.address(threads))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def copy_stack(self, index: cython.Py_ssize_t) -> cython.void:
        """Copy a thread's stack, from the red zone below its stack pointer."""
        sp: cython.ulonglong = self.stack_pointer(index)
        self.stack_starts[index] = self.stack_offsets[index] = self.stack_sizes[index] = 0
        if sp <= RED_ZONE or self.used >= self.memory.shape[0]:
            return
        size: cython.ulonglong = self.region_end(sp)
        sp -= RED_ZONE
        size = size - sp if size else UNKNOWN_STACK
        size = min(size, self.stack_limit, cython.cast(cython.ulonglong, self.memory.shape[0] - self.used))
        copied: cython.long = whence_read(self.pid, sp, cython.address(self.memory[self.used]), size)
        if copied > 0:
            self.stack_starts[index] = sp
            self.stack_offsets[index] = self.used
            self.stack_sizes[index] = copied
            self.used += copied

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def stack_pointer(self, index: cython.Py_ssize_t) -> cython.ulonglong:
        """Return a thread's stack pointer, 0 if the layout of its registers is unknown."""
        size: cython.ulonglong = self.sizes[index]
        first: cython.Py_ssize_t = REGISTER_BYTES * index
        row: cython.Py_ssize_t
        value: cython.ulonglong = 0
        for row in range(0, self.layouts.shape[0] - 2, 3):
            byte: cython.ulonglong = self.layouts[row + 2]
            if self.layouts[row] == size and self.layouts[row + 1] + byte <= size and byte <= 8:
                while byte:  # the host is little-endian, and so are its processes
                    byte -= 1
                    value = value << 8 | self.registers[first + self.layouts[row + 1] + byte]
                return value
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def region_end(self, address: cython.ulonglong) -> cython.ulonglong:
        """Return the end of the region that contains an address, 0 if none does."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.region_starts.shape[0]
        while low < high:
            middle: cython.Py_ssize_t = (low + high) // 2
            if self.region_starts[middle] <= address:
                low = middle + 1
            else:
                high = middle
        return self.region_ends[low - 1] if low and address < self.region_ends[low - 1] else 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def release_waiting(self) -> cython.void:
        """Give up on the threads that have not stopped."""
        index: cython.Py_ssize_t
        for index in range(self.count):
            if self.states[index] == WAITING:
                whence_detach(self.tids[index], 0)
                self.states[index] = BUSY


def copy_threads(
    pid: cython.int,
    rows,
    regions,
    layouts: cython.const[cython.ulonglong][::1],
    memory: cython.uchar[::1],
    used: cython.Py_ssize_t,
    stack_limit: cython.ulonglong,
    timeout: cython.ulonglong,
    reader: StoppedReader = None,
) -> cython.Py_ssize_t:
    """Stop the threads `rows.tid`, copy them and release them; fills the other columns of `rows`.

    Args:
        rows: a stopping.StoppedRows. `code` becomes the errno of a failure, or the signal that the thread was released
            with; `duration` the nanoseconds from the request to stop to the release.
        regions: readable memory (start, end), sorted.
        layouts: for each size of a register set (size, offset and width of the stack pointer).
        memory: buffer for stacks, of which `used` bytes are used; at most `stack_limit` bytes of each stack.
        timeout: nanoseconds after which a thread that has not stopped is left running.
        reader: reads more of the threads while they are stopped.

    Returns:
        How many bytes of `memory` are used.
    """
    group: ThreadGroup = ThreadGroup(pid, rows, regions, layouts, memory, used, stack_limit, reader)
    stops: whence_stops
    with cython.nogil:
        if group.reader is not None and group.count:
            group.read_more(False)
        whence_end_pauses_on_time()
        whence_hold_stops(cython.address(stops))
        pending: cython.Py_ssize_t = group.seize()
        began: cython.ulonglong = whence_now()
        while pending:
            pending -= group.poll()
            waited: cython.ulonglong = whence_now() - began
            if pending == 0 or waited > TOGETHER:
                group.copy_stopped()
            if pending and waited > timeout:
                break
            if pending and waited > EAGER:
                whence_pause(PAUSE)
        group.release_waiting()
        whence_restore_stops(cython.address(stops))
    return group.used
