"""The cut of caller_files: ranges in order of (vaddr, depth) in, pieces out, each with the one file its frame shows.

A range's bytes are its own or an inlined call's, of a range one deeper. Own bytes show the range's file, those of a
call the call's file. Neighbours that show the same file make one piece. A call inside another needs no cut further out,
so cuts lie at the ends of calls only and every piece still holds whole ranges.

The stack has the open ranges by depth. Ranges that end are closed from the innermost one out, so that pieces come out
in order of (vaddr, depth) like the ranges.
"""

import cython
from cython.cimports.libc.limits import UINT_MAX
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.whence.kernels.checks import belong

UNSET = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)  # the file of a piece that shows none so far
NEVER = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class Pieces:
    """The pieces of a table's ranges. At most three for each range: a call adds itself and what follows it."""

    count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _ranges: cython.Py_ssize_t  # there is room for
    _open: cython.Py_ssize_t
    _u64s: cython.p_ulonglong  # the one block of those below
    _vaddr: cython.p_ulonglong  # by piece
    _end: cython.p_ulonglong
    _file: cython.p_ulonglong
    _until: cython.p_ulonglong  # by depth: where the range ends
    _position: cython.p_ulonglong  # by depth: its bytes before this one are dealt out
    _u32s: cython.p_uint  # the one block of those below
    _pick: cython.p_uint  # by piece: the range it is of
    _owned: cython.p_uint  # by piece: whether it has own bytes
    _range: cython.p_uint  # by depth: the range
    _piece: cython.p_uint  # by depth: its last piece

    def __cinit__(self, ranges: cython.Py_ssize_t):
        """Room for the worst case; pages that are never written to cost nothing."""
        most: cython.Py_ssize_t = 3 * ranges + 1
        belong(0 <= ranges <= UINT_MAX)
        self._ranges = ranges
        self._u64s = cython.cast(cython.p_ulonglong, malloc((3 * most + 2 * ranges + 2) * 8))
        self._u32s = cython.cast(cython.p_uint, malloc((2 * most + 2 * ranges + 2) * 4))
        if self._u64s == cython.NULL or self._u32s == cython.NULL:
            raise MemoryError
        self._vaddr = self._u64s
        self._end = self._vaddr + most
        self._file = self._end + most
        self._until = self._file + most
        self._position = self._until + ranges + 1
        self._pick = self._u32s
        self._owned = self._pick + most
        self._range = self._owned + most
        self._piece = self._range + ranges + 1

    def __dealloc__(self):
        free(self._u64s)
        free(self._u32s)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _begin(self, level: cython.Py_ssize_t, vaddr: cython.ulonglong) -> cython.void:
        """A piece of the range that is open at this depth begins."""
        index: cython.Py_ssize_t = self.count
        self.count += 1
        self._vaddr[index] = vaddr
        self._end[index] = self._until[level]
        self._file[index] = UNSET
        self._pick[index] = self._range[level]
        self._owned[index] = 0
        self._piece[level] = cython.cast(cython.uint, index)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _show(
        self, level: cython.Py_ssize_t, until: cython.ulonglong, file: cython.ulonglong, own: cython.bint
    ) -> cython.void:
        """The range that is open at this depth shows this file from its position to `until`."""
        vaddr: cython.ulonglong = self._position[level]
        index: cython.uint = self._piece[level]
        if until > self._until[level]:
            until = self._until[level]
        if vaddr >= until:
            return
        if self._file[index] != UNSET and self._file[index] != file:
            self._end[index] = vaddr
            self._begin(level, vaddr)
            index = self._piece[level]
        self._file[index] = file
        if own:
            self._owned[index] = 1
        self._position[level] = until

    def cut(self, table):
        """Cut the ranges of a table of the promised size; returns how many pieces there are."""
        vaddr: cython.const[cython.ulonglong][::1] = table.vaddr
        length: cython.const[cython.ulonglong][::1] = table.length
        depth: cython.const[cython.uint][::1] = table.depth
        file: cython.const[cython.ulonglong][::1] = table.file
        call_file: cython.const[cython.ulonglong][::1] = table.call_file
        index: cython.Py_ssize_t
        level: cython.Py_ssize_t
        ranges: cython.Py_ssize_t = vaddr.shape[0]
        end: cython.ulonglong
        belong(
            ranges <= self._ranges and min(length.shape[0], depth.shape[0], file.shape[0], call_file.shape[0]) >= ranges
        )
        self.count = self._open = 0
        with cython.nogil:
            for index in range(ranges + 1):
                level = 0 if index == ranges or depth[index] == 0 else depth[index]
                while self._open > level:
                    self._open -= 1
                    self._show(self._open, NEVER, file[self._range[self._open]], True)
                if index == ranges:
                    break
                level = self._open  # a depth that skips one counts as the next
                end = vaddr[index] + length[index]
                if end < vaddr[index]:
                    end = NEVER
                if level:
                    self._show(level - 1, vaddr[index], file[self._range[level - 1]], True)
                    self._show(level - 1, end, call_file[index], False)
                self._range[level] = cython.cast(cython.uint, index)
                self._until[level] = end
                self._position[level] = vaddr[index]
                self._open = level + 1
                self._begin(level, vaddr[index])
        return self.count

    def fill(
        self, pick: cython.uint[::1], vaddr: cython.ulonglong[::1], length: cython.ulonglong[::1],
        file: cython.ulonglong[::1], owned: cython.uchar[::1],
    ):  # fmt: skip
        """Write the pieces: the range of each, where it lies, its file, and whether it has bytes of its own."""
        index: cython.Py_ssize_t
        belong(min(pick.shape[0], vaddr.shape[0], length.shape[0], file.shape[0], owned.shape[0]) >= self.count)
        with cython.nogil:
            for index in range(self.count):
                pick[index] = self._pick[index]
                vaddr[index] = self._vaddr[index]
                length[index] = self._end[index] - self._vaddr[index]
                file[index] = 0 if self._file[index] == UNSET else self._file[index]
                owned[index] = self._owned[index] != 0
