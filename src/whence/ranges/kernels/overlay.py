"""The sweep of overlay_lines: one pass over scopes and rows, from the lowest address to the highest.

State of a `Sweep`:

    heap      the scopes that are open here, with the winner (the last in tree order) on top
    stack     the ranges that are open here: a chain from depth 0 to the owner of the position
    ranges    finished and open ranges in the order in which they were opened: (vaddr, depth)
    lines     line entries, linked by range: those of a parent are before and after those of its children

Every interval between two events (a scope begins, the top scope ends, a row begins) has one owner and one row. Each
adds at most one line entry and one cut, so the work is proportional to the events. Chains that are opened again and
again, which only overlapping scopes without nesting cause, have a budget; when it is spent, only roots are opened.
"""

import cython
from cython.cimports.libc.limits import UINT_MAX
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.whence.kernels.checks import are_ends, belong
from cython.cimports.whence.kernels.heap import pop, push
from cython.cimports.whence.kernels.signals import handle_signals

NONE = cython.declare(cython.uint, 0xFFFFFFFF)
GONE = cython.declare(cython.uint, 0xFFFFFFFE)  # the scope of a range that was joined to another one
UNSET = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)  # a range's file before its first own row
NEVER = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)  # no further event
# Scopes and rows that are reserved at first; few batches have more, and large blocks have pages of their own.
FEW = cython.declare(cython.Py_ssize_t, 1 << 15)
FAR = cython.declare(cython.ulonglong, 0xFFFF)  # the largest offset a two-byte line field holds


def are_of_groups(order, ends):
    """Return True if each index in the order belongs to its own group. The ends ascend, at most to its size."""
    group: cython.Py_ssize_t
    index: cython.Py_ssize_t
    start: cython.Py_ssize_t = 0
    for group in range(ends.shape[0]):
        for index in range(start, ends[group]):
            if order[index] < start or order[index] >= ends[group]:
                return False
        start = ends[group]
    return True


@cython.final
@cython.cclass
class Sweep:
    """Sweeps one or many groups of scopes and rows. `run` sweeps and counts, `fill` writes the ranges into columns.

    Memory is kept for the next run.
    """

    def __dealloc__(self):
        free(self._u64s)
        free(self._u32s)

    def _reserve(self, scopes, rows, groups):
        """Reserve the worst case; pages that are never written cost nothing. False if memory runs out."""
        if (
            self._u32s != cython.NULL
            and scopes <= self._most_scopes
            and rows <= self._most_rows
            and groups <= self._most_groups
        ):
            return True
        scopes = max(scopes + scopes // 4, self._most_scopes, FEW)
        rows = max(rows + rows // 4, self._most_rows, FEW)
        groups = max(groups + groups // 4, self._most_groups)
        most_stretches: cython.Py_ssize_t = rows + 2 * scopes + 8 * groups
        most: cython.Py_ssize_t = most_stretches + 10 * scopes + 16 * groups
        per_scope: cython.Py_ssize_t = scopes + 2
        free(self._u64s)
        free(self._u32s)
        self._u64s = cython.cast(cython.p_ulonglong, malloc((3 * most + 1) * 8))
        self._u32s = cython.cast(cython.p_uint, malloc((7 * per_scope + 6 * most + 3 * most_stretches) * 4))
        if self._u64s == cython.NULL or self._u32s == cython.NULL:
            free(self._u64s)
            free(self._u32s)
            self._u64s = cython.NULL
            self._u32s = cython.NULL
            return False
        self._most_scopes, self._most_rows, self._most_groups = scopes, rows, groups
        self._vaddr = self._u64s
        self._end = self._vaddr + most
        self._file = self._end + most
        self._parent = self._u32s
        self._level = self._parent + per_scope
        self._root = self._level + per_scope
        self._heap = self._root + per_scope
        self._path = self._heap + per_scope
        self._stack_range = self._path + per_scope
        self._stack_scope = self._stack_range + per_scope
        self._depth = self._stack_scope + per_scope
        self._scope = self._depth + most
        self._first = self._scope + most
        self._last = self._first + most
        self._count = self._last + most
        self._line = self._count + most
        self._offset = self._line + most
        self._number = self._offset + most_stretches
        self._next = self._number + most_stretches
        return True

    def _plant(self, depth, first, last):
        """Set parents, levels and roots from depths; a depth that skips a level counts as the next one."""
        index: cython.Py_ssize_t
        level: cython.uint = 0
        for index in range(first, last):
            level = 0 if index == first else depth[index] if depth[index] <= level else level + 1
            self._level[index] = level
            self._path[level] = cython.cast(cython.uint, index)
            if level == 0:
                self._parent[index] = NONE
                self._root[index] = cython.cast(cython.uint, index)
            else:
                self._parent[index] = self._path[level - 1]
                self._root[index] = self._root[self._parent[index]]

    def _begin(self, scope, level, vaddr):
        """Begin a range of the scope and push it on the stack."""
        index: cython.Py_ssize_t = self.ranges
        self.ranges += 1
        self._vaddr[index] = vaddr
        self._end[index] = vaddr
        self._file[index] = UNSET
        self._depth[index] = cython.cast(cython.uint, level)
        self._scope[index] = scope
        self._count[index] = 0
        self._line[index] = 0
        self._stack_range[level] = cython.cast(cython.uint, index)
        self._stack_scope[level] = scope
        self._open = level + 1

    def _close(self, keep, vaddr):
        """End the ranges deeper than `keep`."""
        while self._open > keep:
            self._open -= 1
            self._end[self._stack_range[self._open]] = vaddr

    def _enter(self, owner, vaddr):
        """Make the stack the owner's chain: keep the common part, close the rest, open the missing part."""
        level: cython.Py_ssize_t = self._level[owner]
        scope: cython.uint = owner
        self._close(level + 1, vaddr)
        while level >= self._open:
            self._path[level] = scope
            scope = self._parent[scope]
            level -= 1
        top: cython.Py_ssize_t = self._level[owner]
        while level >= 0 and self._stack_scope[level] != scope:
            self._path[level] = scope
            scope = self._parent[scope]
            level -= 1
        level += 1
        self._close(level, vaddr)
        self._budget -= top + 1 - level
        while level <= top:
            self._begin(self._path[level], level, vaddr)
            level += 1

    def _own(self, vaddr, file, line):
        """Give the innermost open range this file and line; cut it where its file changes."""
        level: cython.Py_ssize_t = self._open - 1
        index: cython.uint = self._stack_range[level]
        if self._file[index] == UNSET:
            self._file[index] = file
        elif self._file[index] != file or (self._line[index] != line and vaddr - self._vaddr[index] > FAR):
            self._end[index] = vaddr
            self._begin(self._stack_scope[level], level, vaddr)
            index = self._stack_range[level]
            self._file[index] = file
        if self._line[index] == line:
            return
        entry: cython.uint = cython.cast(cython.uint, self.lines)
        self.lines += 1
        self._offset[entry] = cython.cast(cython.uint, vaddr - self._vaddr[index])
        self._number[entry] = line
        if self._count[index] == 0:
            self._first[index] = entry
        else:
            self._next[self._last[index]] = entry
        self._last[index] = entry
        self._count[index] += 1
        self._line[index] = line

    def run(self, all_scopes, order, all_rows, scope_ends, row_ends):
        """Sweep Scopes and Rows; return the numbers of ranges and line entries. Raises MemoryError.

        `order` has the scopes of each group by vaddr; `scope_ends` and `row_ends` are the ends of each group's scopes
        and rows.
        """
        vaddr: cython.const[cython.ulonglong][::1] = all_scopes.vaddr
        end: cython.const[cython.ulonglong][::1] = all_scopes.end
        depth: cython.const[cython.uint][::1] = all_scopes.depth
        by_vaddr: cython.const[cython.uint][::1] = order
        row_vaddr: cython.const[cython.ulonglong][::1] = all_rows.vaddr
        row_file: cython.const[cython.uint][::1] = all_rows.file
        row_line: cython.const[cython.uint][::1] = all_rows.line
        files: cython.const[cython.ulonglong][::1] = all_rows.files
        ends_of_scopes: cython.const[cython.uint][::1] = scope_ends
        ends_of_rows: cython.const[cython.uint][::1] = row_ends
        group: cython.Py_ssize_t
        next_scope: cython.Py_ssize_t = 0
        next_row: cython.Py_ssize_t = 0
        file_count: cython.Py_ssize_t = files.shape[0]
        belong(
            max(vaddr.shape[0], row_vaddr.shape[0], ends_of_scopes.shape[0]) <= UINT_MAX
            and min(end.shape[0], depth.shape[0], by_vaddr.shape[0]) >= vaddr.shape[0]
            and min(row_file.shape[0], row_line.shape[0]) >= row_vaddr.shape[0]
            and ends_of_rows.shape[0] >= ends_of_scopes.shape[0]
            and are_ends(ends_of_scopes, vaddr.shape[0])
            and are_ends(ends_of_rows, row_vaddr.shape[0])
            and are_of_groups(by_vaddr, ends_of_scopes)
        )
        self.ranges = self.lines = self._scopes = 0
        if not self._reserve(vaddr.shape[0], row_vaddr.shape[0], ends_of_scopes.shape[0]):
            raise MemoryError
        self._scopes = vaddr.shape[0]
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for group in range(ends_of_scopes.shape[0]):
                scopes: cython.Py_ssize_t = ends_of_scopes[group]
                rows: cython.Py_ssize_t = ends_of_rows[group]
                handle_signals(cython.address(work), 4 * (scopes - next_scope + rows - next_row))
                self._budget = 8 * (scopes - next_scope) + 8
                self._heap_size = self._open = 0
                file: cython.ulonglong = 0
                line: cython.uint = 0
                described: cython.bint = False  # a row with a file applies here
                position: cython.ulonglong = NEVER
                if next_scope < scopes:
                    self._plant(cython.address(depth[0]), next_scope, scopes)
                    position = vaddr[by_vaddr[next_scope]]
                if next_row < rows and row_vaddr[next_row] < position:
                    position = row_vaddr[next_row]
                while True:
                    while next_row < rows and row_vaddr[next_row] <= position:
                        described = row_file[next_row] < file_count
                        file = files[row_file[next_row]] if described else 0
                        line = row_line[next_row] if described else 0
                        next_row += 1
                    while self._heap_size and end[self._heap[0]] <= position:
                        pop(self._heap, cython.address(self._heap_size))
                    while next_scope < scopes and vaddr[by_vaddr[next_scope]] <= position:
                        scope: cython.uint = by_vaddr[next_scope]
                        next_scope += 1
                        if end[scope] > position:
                            push(self._heap, cython.address(self._heap_size), scope)
                    following: cython.ulonglong = NEVER
                    owner: cython.uint = NONE
                    if next_row < rows:
                        following = row_vaddr[next_row]
                    if next_scope < scopes and vaddr[by_vaddr[next_scope]] < following:
                        following = vaddr[by_vaddr[next_scope]]
                    if self._heap_size:
                        owner = self._heap[0] if self._budget > 0 else self._root[self._heap[0]]
                        if end[self._heap[0]] < following:
                            following = end[self._heap[0]]
                    if following == NEVER:
                        break
                    if owner == NONE:
                        if not described:
                            self._close(0, position)
                        elif self._open != 1 or self._stack_scope[0] != NONE:
                            self._close(0, position)
                            self._begin(NONE, 0, position)
                    elif self._open == 0 or self._stack_scope[self._open - 1] != owner:
                        self._enter(owner, position)
                    if self._open:
                        self._own(position, file, line)
                    position = following
                self._close(0, position)
                next_scope = scopes  # scopes and rows at the end of the address space have no bytes
                next_row = rows
        return self.ranges, self.lines

    def join(self, scopes):
        """Join neighbors that are the same inlined call, of one file; return the numbers of ranges and lines left."""
        function: cython.const[cython.ulonglong][::1] = scopes.function
        call_file: cython.const[cython.ulonglong][::1] = scopes.call_file
        call_line: cython.const[cython.uint][::1] = scopes.call_line
        index: cython.Py_ssize_t
        left: cython.Py_ssize_t = self.ranges
        open_levels: cython.uint = 0  # levels whose last range is inside the range around this one
        belong(min(function.shape[0], call_file.shape[0], call_line.shape[0]) >= self._scopes)
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for index in range(self.ranges):
                handle_signals(cython.address(work), 1)
                if self._scope[index] == GONE:
                    left -= 1
                    continue
                level: cython.uint = self._depth[index]
                if level and level < open_levels:
                    earlier: cython.uint = self._scope[self._path[level]]
                    later: cython.uint = self._scope[index]
                    if (
                        function[earlier] == function[later] and call_file[earlier] == call_file[later]
                        and call_line[earlier] == call_line[later]
                        and self._joined(self._path[level], cython.cast(cython.uint, index))
                    ):  # fmt: skip
                        left -= 1
                        continue
                self._path[level] = cython.cast(cython.uint, index)
                open_levels = level + 1
        return left, self.lines

    def _joined(self, left, right):
        """Append the second range's bytes and lines to the first, if one range can express both."""
        shift: cython.ulonglong = self._vaddr[right] - self._vaddr[left]
        described: cython.bint = self._file[left] != UNSET and self._file[right] != UNSET
        entry: cython.uint = self._first[right]
        step: cython.uint
        if self._end[left] != self._vaddr[right] or (described and self._file[left] != self._file[right]):
            return False
        if described and self._line[left] and (self._count[right] == 0 or self._offset[entry]):
            return False  # the second may begin with bytes of line 0, which no entry records
        if self._count[right]:
            if shift + self._offset[self._last[right]] > FAR:
                return False
            for step in range(self._count[right]):
                self._offset[entry] += cython.cast(cython.uint, shift)
                if step + 1 < self._count[right]:
                    entry = self._next[entry]
            entry = self._first[right]
            if self._count[left] and self._number[entry] == self._line[left]:
                self._count[right] -= 1
                self.lines -= 1
                entry = self._next[entry] if self._count[right] else entry
        if self._count[right]:
            if self._count[left] == 0:
                self._first[left] = entry
            else:
                self._next[self._last[left]] = entry
            self._last[left] = self._last[right]
            self._count[left] += self._count[right]
        if self._file[right] != UNSET:
            self._file[left] = self._file[right]
            self._line[left] = self._line[right]
        self._end[left] = self._end[right]
        self._scope[right] = GONE
        return True

    def fill(self, scopes, out, base: cython.Py_ssize_t, line_base: cython.Py_ssize_t):
        """Write the ranges from row `base` and the line entries from row `line_base`."""
        function: cython.const[cython.ulonglong][::1] = scopes.function
        call_file: cython.const[cython.ulonglong][::1] = scopes.call_file
        call_line: cython.const[cython.uint][::1] = scopes.call_line
        out_vaddr: cython.ulonglong[::1] = out.vaddr
        out_length: cython.ulonglong[::1] = out.length
        out_depth: cython.uint[::1] = out.depth
        out_function: cython.ulonglong[::1] = out.function
        out_file: cython.ulonglong[::1] = out.file
        out_index: cython.uint[::1] = out.line_index
        out_count: cython.uint[::1] = out.line_count
        out_call_file: cython.ulonglong[::1] = out.call_file
        out_call_line: cython.uint[::1] = out.call_line
        out_offset: cython.uint[::1] = out.line_offset
        out_number: cython.uint[::1] = out.line_number
        index: cython.Py_ssize_t
        to: cython.Py_ssize_t = base - 1
        step: cython.uint
        entry: cython.uint = 0
        line: cython.Py_ssize_t = line_base
        left: cython.Py_ssize_t = base
        for index in range(self.ranges):
            left += self._scope[index] != GONE
        belong(
            base >= 0
            and line_base >= 0
            and min(function.shape[0], call_file.shape[0], call_line.shape[0]) >= self._scopes
            and min(out_vaddr.shape[0], out_length.shape[0], out_depth.shape[0], out_function.shape[0]) >= left
            and min(out_file.shape[0], out_index.shape[0], out_count.shape[0]) >= left
            and min(out_call_file.shape[0], out_call_line.shape[0]) >= left
            and min(out_offset.shape[0], out_number.shape[0]) - line_base >= self.lines
        )
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for index in range(self.ranges):
                handle_signals(cython.address(work), 1)
                scope: cython.uint = self._scope[index]
                if scope == GONE:
                    continue
                to += 1
                out_vaddr[to] = self._vaddr[index]
                out_length[to] = self._end[index] - self._vaddr[index]
                out_depth[to] = self._depth[index]
                out_file[to] = 0 if self._file[index] == UNSET else self._file[index]
                out_function[to] = 0 if scope == NONE else function[scope]
                if scope != NONE and self._depth[index]:
                    out_call_file[to] = call_file[scope]
                    out_call_line[to] = call_line[scope]
                out_index[to] = cython.cast(cython.uint, line) if self._count[index] else 0
                out_count[to] = self._count[index]
                if self._count[index]:
                    entry = self._first[index]
                for step in range(self._count[index]):
                    out_offset[line] = self._offset[entry]
                    out_number[line] = self._number[entry]
                    line += 1
                    if step + 1 < self._count[index]:
                        entry = self._next[entry]
