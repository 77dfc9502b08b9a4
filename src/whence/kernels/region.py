"""Bytes in pages of their own, which are used again where what they held was read.

New pages have to be cleared by the system; huge ones, in memory that the page cache has taken, to be searched for.
Linux moves pages from one address to another instead.
"""

from sys import maxsize

import cython
from cython.cimports.cpython.buffer import PyBuffer_FillInfo
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.region import (
    HUGE,
    whence_empty_pages,
    whence_free_pages,
    whence_move_pages,
    whence_new_pages,
    whence_page_size,
)

PAGE = cython.declare(cython.Py_ssize_t, whence_page_size())
MOST = cython.declare(cython.Py_ssize_t, maxsize - HUGE - PAGE)  # bytes of a region


@cython.final
@cython.cclass
class Region:
    """Bytes in pages of their own, 0 at first, in the buffer protocol. They are there until the last view is gone.

    A page takes memory when it is written to. What is written from the start on and read no more there can be used
    again further on: `move` costs a hundredth of what new pages do, which the system has to clear.
    """

    size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _base: cython.p_char
    _mapped: cython.Py_ssize_t  # the bytes of its pages
    _moves: cython.bint

    def __cinit__(self, size: cython.Py_ssize_t):
        """Raises MemoryError when there are not so many addresses."""
        belong(0 < size <= MOST)
        self._mapped = size + (PAGE - size % PAGE) % PAGE
        self._base = cython.cast(cython.p_char, whence_new_pages(self._mapped, HUGE))
        if self._base == cython.NULL:
            raise MemoryError
        self.size = size
        self._moves = True

    def __dealloc__(self):
        if self._base != cython.NULL:
            whence_free_pages(self._base, self._mapped)

    def __len__(self):
        return self.size

    def __getbuffer__(self, buffer: cython.pointer[Py_buffer], flags: cython.int):
        PyBuffer_FillInfo(buffer, self, self._base, self.size, 0, flags)

    def __releasebuffer__(self, buffer: cython.pointer[Py_buffer]):
        pass

    def put(self, start: cython.Py_ssize_t, data: cython.const[cython.uchar][::1]):
        """Copy bytes to a place, while other threads run: new pages take their time."""
        size: cython.Py_ssize_t = data.shape[0]
        belong(0 <= start <= self.size - size)
        if size:
            with cython.nogil:
                memcpy(self._base + start, cython.address(data[0]), size)

    def empty(self, start: cython.Py_ssize_t, end: cython.Py_ssize_t):
        """Give the pages of [start, end) back; they read as 0. Both are multiples of a page. MemoryError when the
        system does not bring them back, which are not to be read or written to then."""
        there: cython.int
        belong(0 <= start <= end <= self.size and start % PAGE == end % PAGE == 0)
        with cython.nogil:
            there = whence_empty_pages(self._base + start, end - start)
        if not there:
            raise MemoryError

    def move(self, source: cython.Py_ssize_t, target: cython.Py_ssize_t, size: cython.Py_ssize_t):
        """Use the pages of [source, source + size) at `target`, with what they hold; the source reads as 0. All are
        multiples of a page, and the two don't overlap. Returns whether the system does so. MemoryError when it lost
        the pages of the target, which is not to be read or written to then."""
        moved: cython.int = 0
        belong(size > 0 and 0 <= source <= self.size - size and 0 <= target <= self.size - size)
        belong(source % PAGE == target % PAGE == size % PAGE == 0)
        belong(source + size <= target or target + size <= source)
        if self._moves:
            with cython.nogil:
                moved = whence_move_pages(self._base + source, self._base + target, size)
            self._moves = moved > 0
            if moved < 0:
                raise MemoryError
        return self._moves
