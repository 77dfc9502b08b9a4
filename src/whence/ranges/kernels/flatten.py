"""Flatten a table: each function's inlined calls as scopes, and its lines as rows in order of vaddr.

A walk over the ranges in order of (vaddr, depth) keeps the chain of open ranges. Code belongs to the innermost one, so
its line entries become rows; when a call ends, the line of the range around it applies again.

Adjacent ranges of depth 0 and of one name are one function, if something else than a new function explains the cut:
another file, an entry too far away for its range (overlay.py), or a part without lines (caller_files.py).
"""

import cython
from cython.cimports.libc.limits import UINT_MAX
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column, append_u32, append_u64, u32s, u64s
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.ranges.kernels.flatten import LONGEST_NAME, MOST_DEPTH, REF_BITS, OpenRange

FAR = cython.declare(cython.ulonglong, 0xFFFF)  # a longer range may be cut although its file is the same
LAST_VADDR = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class Flattener:
    """Reads a table, and fills the columns of Scopes and Rows, a group for each function."""

    def __cinit__(self, sources: list):
        """Prepare to read a table whose names are in the buffers `sources`."""
        number: cython.Py_ssize_t
        self.vaddr, self.end, self.depth, self.row = Column("Q"), Column("Q"), Column("I"), Column("I")
        self.row_vaddr, self.row_file, self.row_line = Column("Q"), Column("I"), Column("I")
        self.scope_ends, self.row_ends = Column("I"), Column("I")
        self._views = []
        self._sources = len(sources)
        self._source = cython.cast(
            cython.pointer(cython.pointer(cython.const[cython.uchar])),
            calloc(self._sources + 1, cython.sizeof(cython.p_uchar)),
        )
        self._source_size = cython.cast(cython.p_ulonglong, calloc(self._sources + 1, 8))
        if self._source == cython.NULL or self._source_size == cython.NULL:
            raise MemoryError
        for number in range(self._sources):
            if len(sources[number]):
                view: cython.const[cython.uchar][::1] = sources[number]
                self._views.append(view)
                self._source[number] = cython.address(view[0])
                self._source_size[number] = view.shape[0]

    def __dealloc__(self):
        free(self._source)
        free(self._source_size)

    def _same(self, first, second):
        """Return True if two names are equal: threads that read debug info have references of their own."""
        mask: cython.ulonglong = (cython.cast(cython.ulonglong, 1) << REF_BITS) - 1
        left: cython.ulonglong = first & mask
        right: cython.ulonglong = second & mask
        first >>= REF_BITS
        second >>= REF_BITS
        if first == second and left == right:
            return True
        if first >= cython.cast(cython.ulonglong, self._sources):
            return False
        if second >= cython.cast(cython.ulonglong, self._sources):
            return False
        index: cython.int
        for index in range(LONGEST_NAME):
            if left >= self._source_size[first] or right >= self._source_size[second]:
                return False
            if self._source[first][left] != self._source[second][right]:
                return False
            if self._source[first][left] == 0:
                return True
            left += 1
            right += 1
        return False

    def _put_row(self, vaddr, file, line):
        """Append a line row, unless the last row of the function is equal."""
        if self._has_row and self._file == file and self._line == line:
            return
        if not (self.row_vaddr.reserve(1) and self.row_file.reserve(1) and self.row_line.reserve(1)):
            self._failed = True
            return
        self._has_row = True
        self._file = file
        self._line = line
        append_u64(self.row_vaddr, vaddr)
        append_u32(self.row_file, file)
        append_u32(self.row_line, line)

    def _advance(self, to, offset, number):
        """Write the rows of the code before `to`, and close the ranges that end there."""
        while self._depth:
            top: cython.pointer(OpenRange) = cython.address(self._open[self._depth - 1])
            limit: cython.ulonglong = top.end if top.end < to else to
            if self._position < limit:
                while top.entry < top.last_entry and top.vaddr + offset[top.entry] <= self._position:
                    top.line = number[top.entry]
                    top.entry += 1
                self._put_row(self._position, top.file, top.line)
                while top.entry < top.last_entry and top.vaddr + offset[top.entry] < limit:
                    top.line = number[top.entry]
                    if top.vaddr + offset[top.entry] > self._position:
                        self._position = top.vaddr + offset[top.entry]
                        self._put_row(self._position, top.file, top.line)
                    top.entry += 1
                self._position = limit
            if top.end > to:
                break
            self._depth -= 1

    def _end_group(self):
        """End the function that was read last."""
        if not (self.scope_ends.reserve(1) and self.row_ends.reserve(1)):
            self._failed = True
            return
        append_u32(self.scope_ends, cython.cast(cython.uint, self.vaddr.vector.count))
        append_u32(self.row_ends, cython.cast(cython.uint, self.row_vaddr.vector.count))

    def run(self, table, files: cython.const[cython.uint][::1]):
        """Read Ranges; `files` has the number of each range's file. Raises MemoryError."""
        vaddr: cython.const[cython.ulonglong][::1] = table.vaddr
        length: cython.const[cython.ulonglong][::1] = table.length
        depth: cython.const[cython.uint][::1] = table.depth
        function: cython.const[cython.ulonglong][::1] = table.function
        call_file: cython.const[cython.ulonglong][::1] = table.call_file
        call_line: cython.const[cython.uint][::1] = table.call_line
        first: cython.const[cython.uint][::1] = table.line_index
        entries: cython.const[cython.uint][::1] = table.line_count
        offsets: cython.const[cython.uint][::1] = table.line_offset
        numbers: cython.const[cython.uint][::1] = table.line_number
        count: cython.Py_ssize_t = vaddr.shape[0]
        lines: cython.ulonglong = min(offsets.shape[0], numbers.shape[0])
        index: cython.Py_ssize_t
        offset: cython.p_const_uint = cython.NULL
        number: cython.p_const_uint = cython.NULL
        belong(count <= UINT_MAX and min(length.shape[0], depth.shape[0], function.shape[0]) >= count)
        belong(min(call_file.shape[0], call_line.shape[0], first.shape[0], entries.shape[0]) >= count)
        belong(files.shape[0] >= count)
        if lines:
            offset = cython.address(offsets[0])
            number = cython.address(numbers[0])
        work: cython.Py_ssize_t = 0
        previous: cython.Py_ssize_t = -1  # the last range of depth 0
        has_function: cython.bint = False
        self._depth = 0
        with cython.nogil:
            for index in range(count):
                handle_signals(cython.address(work), 4 + entries[index])
                start: cython.ulonglong = vaddr[index]
                end: cython.ulonglong = start + length[index]
                level: cython.Py_ssize_t = depth[index]
                if end < start:
                    end = LAST_VADDR
                if length[index] == 0 or (has_function and start < self._position):
                    self.skipped += length[index] != 0
                    continue
                self._advance(start, offset, number)
                if level == 0:
                    self._advance(LAST_VADDR, offset, number)
                    if self._depth:
                        self._depth = 0
                    if has_function and start < self._position:
                        self.skipped += 1
                        continue
                    continues: cython.bint = (
                        has_function
                        and vaddr[previous] + length[previous] == start
                        and self._same(function[previous], function[index])
                        and (
                            files[previous] != files[index]
                            or length[previous] > FAR
                            or (files[index] and (entries[previous] == 0 or entries[index] == 0))
                        )
                    )
                    if not continues:
                        if has_function:
                            self._end_group()
                        has_function = function[index] != 0
                        if not has_function:
                            self.nameless += 1
                            self._depth = 0
                            continue
                        self._has_row = False
                        for level in range(MOST_DEPTH):
                            self._last[level] = -1
                        level = 0
                    previous = index
                    self._position = start
                elif level > self._depth or level >= MOST_DEPTH or self._depth == 0:
                    self.skipped += 1
                    continue
                else:
                    self._depth = level  # ranges of one depth do not overlap
                    if self._open[level - 1].end < end:
                        end = self._open[level - 1].end
                scope: cython.longlong = self._last[level]
                around: cython.longlong = self._open[level - 1].scope if level else -1
                if scope >= 0 and level:
                    row: cython.uint = u32s(self.row)[scope]
                    if (
                        self._parent[level] != around
                        or u64s(self.end)[scope] != start
                        or call_line[row] != call_line[index]
                        or not self._same(function[row], function[index])
                        or not self._same(call_file[row], call_file[index])
                    ):
                        scope = -1
                if scope < 0:
                    if not (
                        self.vaddr.reserve(1) and self.end.reserve(1) and self.depth.reserve(1) and self.row.reserve(1)
                    ):
                        self._failed = True
                        break
                    scope = self.vaddr.vector.count
                    append_u64(self.vaddr, start)
                    append_u64(self.end, end)
                    append_u32(self.depth, cython.cast(cython.uint, level))
                    append_u32(self.row, cython.cast(cython.uint, index))
                    self._last[level] = scope
                    self._parent[level] = around
                else:
                    u64s(self.end)[scope] = end
                top: cython.pointer(OpenRange) = cython.address(self._open[level])
                top.end = end
                top.scope = cython.cast(cython.uint, scope)
                top.file = files[index]
                top.line = 0
                top.vaddr = start
                top.entry = first[index]
                top.last_entry = first[index]
                if cython.cast(cython.ulonglong, first[index]) + entries[index] <= lines:
                    top.last_entry += entries[index]
                self._depth = level + 1
                if self._failed:
                    break
            self._advance(LAST_VADDR, offset, number)
            if has_function:
                self._end_group()
        if self._failed:
            raise MemoryError
