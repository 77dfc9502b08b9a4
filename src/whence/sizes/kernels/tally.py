"""Count the bytes of each range of a table in given code, and list the code that no range covers."""

import cython
from cython.cimports.whence.kernels.checks import all_below, belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.sizes.kernels.tally import MOST_DEPTH

LAST_VADDR = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class Tally:
    """Bytes of the rows of a table in pieces of code, and the gaps: [start, end) of code that no row covers."""

    def __cinit__(self):
        self.gap_start, self.gap_end = Column("Q"), Column("Q")

    def _count(self, end, row, starts, ends, sizes):
        """Count the code from the position to `end` for a row, or as gaps for row -1, and move the position."""
        start: cython.ulonglong = self._position
        if start >= end:
            return
        self._position = end
        while self._piece < starts.shape[0] and ends[self._piece] <= start:
            self._piece += 1
        piece: cython.Py_ssize_t = self._piece
        while piece < starts.shape[0] and starts[piece] < end:
            low: cython.ulonglong = starts[piece] if starts[piece] > start else start
            high: cython.ulonglong = ends[piece] if ends[piece] < end else end
            if low < high and row >= 0:
                sizes[row] += high - low
            elif low < high and not (self.gap_start.push_u64(low) and self.gap_end.push_u64(high)):
                self._failed = True
            piece += 1

    def run(self, table, innermost: cython.bint, code_starts, code_ends, row_sizes):
        """Add the bytes of each row to `row_sizes`. The table is in order of (vaddr, depth).

        The code is [start, end) pairs in ascending order without overlaps. With `innermost`, code of inlined calls is
        theirs, otherwise it is that of the function around them. Raises MemoryError.
        """
        vaddr: cython.const[cython.ulonglong][::1] = table.vaddr
        length: cython.const[cython.ulonglong][::1] = table.length
        depth: cython.const[cython.uint][::1] = table.depth
        starts: cython.const[cython.ulonglong][::1] = code_starts
        ends: cython.const[cython.ulonglong][::1] = code_ends
        sizes: cython.ulonglong[::1] = row_sizes
        row: cython.Py_ssize_t
        belong(
            min(length.shape[0], depth.shape[0], sizes.shape[0]) >= vaddr.shape[0] and ends.shape[0] == starts.shape[0]
        )
        for row in range(starts.shape[0]):
            belong(starts[row] <= ends[row] and (row == 0 or ends[row - 1] <= starts[row]))
        self._depth, self._piece, self._position, self._failed = 0, 0, 0, False
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for row in range(vaddr.shape[0]):
                handle_signals(cython.address(work), 4)
                start: cython.ulonglong = vaddr[row]
                end: cython.ulonglong = start + length[row] if length[row] <= LAST_VADDR - start else LAST_VADDR
                if depth[row] and not innermost:
                    continue
                while self._depth and self._open[self._depth - 1].end <= start:
                    self._depth -= 1
                    self._count(self._open[self._depth].end, self._open[self._depth].row, starts, ends, sizes)
                self._count(start, self._open[self._depth - 1].row if self._depth else -1, starts, ends, sizes)
                if self._depth and self._open[self._depth - 1].end < end:
                    end = self._open[self._depth - 1].end
                if self._depth < MOST_DEPTH:
                    self._open[self._depth].end, self._open[self._depth].row = end, row
                    self._depth += 1
                if self._failed:
                    break
            while self._depth:
                self._depth -= 1
                self._count(self._open[self._depth].end, self._open[self._depth].row, starts, ends, sizes)
            self._count(LAST_VADDR, -1, starts, ends, sizes)
        if self._failed:
            raise MemoryError


def sums(numbers, values, out: cython.ulonglong[::1]):
    """Add each value to the sum of its number."""
    number: cython.const[cython.uint][::1] = numbers
    value: cython.const[cython.ulonglong][::1] = values
    row: cython.Py_ssize_t
    belong(number.shape[0] >= value.shape[0] and all_below(number, value.shape[0], out.shape[0]))
    with cython.nogil:
        for row in range(value.shape[0]):
            out[number[row]] += value[row]
