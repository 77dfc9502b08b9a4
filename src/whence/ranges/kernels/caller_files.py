"""Split ranges for caller_files: ranges in order of (vaddr, depth) become pieces that show one file each.

The bytes of a range are its own, or those of an inlined call (a range of the next depth). Own bytes show the range's
file, those of a call the call's file. Neighbors that show the same file form one piece. A call inside another one never
splits the outer ranges, so splits are at the ends of calls only, and every piece contains whole ranges.

The stack has the open ranges by depth. Ranges that end are closed from the innermost outward, so that pieces are in
order of (vaddr, depth) like the ranges.
"""

import cython
from cython.cimports.libc.limits import UINT_MAX
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.signals import handle_signals

UNSET = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)  # the file of a piece that shows no file yet
NEVER = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class FileSplitter:
    """Splits the ranges of a table. At most three pieces for each range: a call adds itself and the part after it."""

    def __cinit__(self, ranges: cython.Py_ssize_t):
        """Allocate the worst case; pages that are never written cost nothing."""
        belong(0 <= ranges <= UINT_MAX)
        self._ranges = ranges
        self._u64s = cython.cast(cython.p_ulonglong, malloc(5 * (ranges + 1) * 8))
        self._range = cython.cast(cython.p_uint, malloc((ranges + 1) * 4))
        if self._u64s == cython.NULL or self._range == cython.NULL:
            raise MemoryError
        self._until = self._u64s
        self._position = self._until + ranges + 1
        self._shown = self._position + ranges + 1
        self._piece_start = self._shown + ranges + 1
        self._piece = self._piece_start + ranges + 1

    def __dealloc__(self):
        free(self._u64s)
        free(self._range)

    def _begin(self, level, vaddr):
        """Begin a piece of the range that is open at this depth."""
        index: cython.Py_ssize_t = self._count
        self._count += 1
        self._shown[level] = UNSET
        self._piece_start[level] = vaddr
        self._piece[level] = index
        if index < self._capacity:
            self._pick[index] = self._range[level]
            self._vaddr[index] = vaddr
            self._length[index] = self._until[level] - vaddr
            self._file[index] = 0
            self._owned[index] = 0

    def _show(self, level, until, file, own):
        """Let the range that is open at this depth show a file from its position to `until`."""
        vaddr: cython.ulonglong = self._position[level]
        index: cython.ulonglong = self._piece[level]
        if until > self._until[level]:
            until = self._until[level]
        if vaddr >= until:
            return
        if self._shown[level] != UNSET and self._shown[level] != file:
            if index < cython.cast(cython.ulonglong, self._capacity):
                self._length[index] = vaddr - self._piece_start[level]
            self._begin(level, vaddr)
            index = self._piece[level]
        self._shown[level] = file
        if index < cython.cast(cython.ulonglong, self._capacity):
            self._file[index] = file
            if own:
                self._owned[index] = 1
        self._position[level] = until

    def split(
        self, table, picks: cython.uint[::1], vaddrs: cython.ulonglong[::1], lengths: cython.ulonglong[::1],
        files: cython.ulonglong[::1], owned: cython.uchar[::1],
    ):  # fmt: skip
        """Split the ranges of a table and return the number of pieces.

        Writes as many pieces as fit into the columns: range, vaddr, length, file, and 1 if the piece has bytes of its
        own.
        """
        vaddr: cython.const[cython.ulonglong][::1] = table.vaddr
        length: cython.const[cython.ulonglong][::1] = table.length
        depth: cython.const[cython.uint][::1] = table.depth
        file: cython.const[cython.ulonglong][::1] = table.file
        call_file: cython.const[cython.ulonglong][::1] = table.call_file
        index: cython.Py_ssize_t
        ranges: cython.Py_ssize_t = vaddr.shape[0]
        belong(
            ranges <= self._ranges and min(length.shape[0], depth.shape[0], file.shape[0], call_file.shape[0]) >= ranges
        )
        self._capacity = min(picks.shape[0], vaddrs.shape[0], lengths.shape[0], files.shape[0], owned.shape[0])
        if self._capacity:
            self._pick, self._owned = cython.address(picks[0]), cython.address(owned[0])
            self._vaddr, self._length = cython.address(vaddrs[0]), cython.address(lengths[0])
            self._file = cython.address(files[0])
        self._count = self._open = 0
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for index in range(ranges + 1):
                handle_signals(cython.address(work), 4)
                level: cython.Py_ssize_t = 0 if index == ranges or depth[index] == 0 else depth[index]
                while self._open > level:
                    self._open -= 1
                    self._show(self._open, NEVER, file[self._range[self._open]], True)
                if index == ranges:
                    break
                level = self._open  # a depth that skips a level counts as the next one
                end: cython.ulonglong = vaddr[index] + length[index]
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
        return self._count
