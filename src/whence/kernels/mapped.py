"""Mapped files whose bytes may disappear while they are read.

When a file is truncated, the pages of a mapping after the new end are gone, and reading them raises SIGBUS. The handler
of this module replaces them by zeros and records it, for faults in mappings of this module only; all other faults are
passed to the previous handler. So every read ends, and `fault` reports afterwards if the bytes were those of the file.
Loops over the bytes have no overhead.
"""

from _thread import allocate_lock
from os import strerror
from sys import maxsize

import cython
from cython.cimports.cpython.buffer import PyBuffer_FillInfo
from cython.cimports.libc.errno import errno
from cython.cimports.libc.stdlib import calloc
from cython.cimports.posix.fcntl import F_DUPFD_CLOEXEC, fcntl
from cython.cimports.posix.mman import MADV_DONTNEED, MAP_FAILED, MAP_SHARED, PROT_READ, madvise, mmap, munmap
from cython.cimports.posix.unistd import _SC_PAGESIZE, close, sysconf
from cython.cimports.whence.kernels.mapped import (
    CUT,
    LOST,
    REWRITTEN,
    WHOLE,
    Live,
    siginfo_t,
    whence_fault_at,
    whence_install,
    whence_is_sent,
    whence_pass_on,
    whence_put_zeros,
    whence_state,
)

PAGE = cython.declare(cython.size_t, sysconf(_SC_PAGESIZE))
_lock = allocate_lock()  # guards the rows in interpreters without a GIL
_first = cython.declare(cython.pointer[Live], cython.NULL)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _on_fault(number: cython.int, info: cython.pointer[siginfo_t], context: cython.p_void) -> cython.void:
    """Handle SIGBUS, with async-signal-safe operations only."""
    address: cython.size_t = cython.cast(cython.size_t, whence_fault_at(info))
    live: cython.pointer[Live] = _first
    if not whence_is_sent(info):
        while live != cython.NULL:
            if live.start != 0 and live.start <= address < live.end:
                address -= (address - live.start) % PAGE
                if whence_put_zeros(cython.cast(cython.p_void, address), live.end - address) == 0:
                    live.lost = 1
                    return
                break
            live = live.next
    whence_pass_on(number, info, context)


@cython.cfunc
def _row() -> cython.pointer[Live]:
    """Return a row for a new mapping. Called with the GIL or the lock of the module held."""
    global _first
    live: cython.pointer[Live] = _first
    while live != cython.NULL:
        if live.start == 0:
            return live
        live = live.next
    live = cython.cast(cython.pointer[Live], calloc(1, cython.sizeof(Live)))
    if live == cython.NULL:
        raise MemoryError
    live.next = _first
    _first = live
    return live


@cython.final
@cython.cclass
class Pages:
    """The bytes of an open file, in the buffer protocol. They are unmapped when the last view is gone."""

    size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _base: cython.p_void
    _live: cython.pointer[Live]
    _descriptor: cython.int
    _fault: cython.int
    _seconds: cython.longlong
    _nanoseconds: cython.longlong

    def __cinit__(self, descriptor: cython.int):
        """Map the file of a descriptor, which is duplicated. Raises OSError; ValueError for an empty file."""
        size: cython.longlong = 0
        self._descriptor = -1
        if whence_state(
            descriptor, cython.address(size), cython.address(self._seconds), cython.address(self._nanoseconds)
        ):
            raise OSError(errno, strerror(errno))
        if size <= 0:
            raise ValueError("an empty file has no pages")
        if size > maxsize:
            raise OverflowError("the file is larger than an address space")
        with _lock:
            if whence_install(_on_fault):
                raise OSError(errno, strerror(errno))
            self._live = _row()
            self._descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
            if self._descriptor < 0:
                raise OSError(errno, strerror(errno))
            self._base = mmap(cython.NULL, size, PROT_READ, MAP_SHARED, self._descriptor, 0)
            if self._base == MAP_FAILED:
                self._base = cython.NULL
                raise OSError(errno, strerror(errno))
            self.size = size
            self._live.lost = 0
            self._live.end = cython.cast(cython.size_t, self._base) + self._span()
            self._live.start = cython.cast(cython.size_t, self._base)

    def __dealloc__(self):
        if self._base != cython.NULL:
            self._live.start = 0
            munmap(self._base, self.size)
        if self._descriptor >= 0:
            close(self._descriptor)

    def __getbuffer__(self, buffer: cython.pointer[Py_buffer], flags: cython.int):
        PyBuffer_FillInfo(buffer, self, self._base, self.size, 1, flags)

    def __releasebuffer__(self, buffer: cython.pointer[Py_buffer]):
        pass

    def view(self) -> memoryview:
        """Return a view of the bytes."""
        return memoryview(self)

    @cython.always_allow_keywords(False)
    def fault(self) -> cython.int:
        """Return what happened to the file since it was mapped: WHOLE, CUT, REWRITTEN or LOST. The first one stays."""
        size: cython.longlong = 0
        seconds: cython.longlong = 0
        nanoseconds: cython.longlong = 0
        if self._fault == WHOLE:
            if whence_state(
                self._descriptor, cython.address(size), cython.address(seconds), cython.address(nanoseconds)
            ):
                self._fault = LOST
            elif size < self.size:
                self._fault = CUT
            elif size != self.size or seconds != self._seconds or nanoseconds != self._nanoseconds:
                self._fault = REWRITTEN
            elif self._live.lost:
                self._fault = LOST
        return self._fault

    def forget(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t):
        """Let the complete pages of [start, stop) leave memory. A hint to the system."""
        page: cython.Py_ssize_t = PAGE
        if start < 0 or start > stop or stop > self.size:
            return
        start += (page - start % page) % page
        stop -= stop % page
        if start < stop:
            madvise(cython.cast(cython.p_char, self._base) + start, stop - start, MADV_DONTNEED)

    @cython.cfunc
    def _span(self) -> cython.size_t:
        """Return the size of its pages in bytes."""
        size: cython.size_t = self.size
        return size + (PAGE - size % PAGE) % PAGE
