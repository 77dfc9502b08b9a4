"""The decisions of `merge`: roots, which root covers which addresses, layers of tables, and the plan of the result.

A *root* is a range of depth 0; its *tree* is the root and the deeper ranges after it, up to the next root. A *stretch*
[start, end) is covered by one root.
"""

import cython
from cython.cimports.libc.limits import UINT_MAX
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.whence.kernels.checks import all_below, belong
from cython.cimports.whence.kernels.signals import handle_signals

NONE = cython.declare(cython.uint, 0xFFFFFFFF)
NEVER = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


def _end(vaddr, length):
    """Return the end of a range, at most the end of the address space."""
    return vaddr + length if length <= NEVER - vaddr else NEVER


def count_roots(depth: cython.const[cython.uint][::1], low: cython.Py_ssize_t, high: cython.Py_ssize_t):
    """Return the number of roots in rows [low, high). The first row is a root at any depth."""
    index: cython.Py_ssize_t
    count: cython.Py_ssize_t = 1 if low < high else 0
    belong(0 <= low <= high <= depth.shape[0])
    with cython.nogil:
        for index in range(low + 1, high):
            if depth[index] == 0:
                count += 1
    return count


def list_roots(table, low: cython.Py_ssize_t, high: cython.Py_ssize_t, roots):
    """Write the roots of rows [low, high) as Stretches. `name` is 1 for a root that continues the function before it.

    Return True if they have to be sorted, overlap or are empty.
    """
    function: cython.const[cython.ulonglong][::1] = table.function
    vaddr: cython.const[cython.ulonglong][::1] = table.vaddr
    length: cython.const[cython.ulonglong][::1] = table.length
    depth: cython.const[cython.uint][::1] = table.depth
    place: cython.uint[::1] = roots.place
    continues: cython.uint[::1] = roots.name
    start: cython.ulonglong[::1] = roots.start
    end: cython.ulonglong[::1] = roots.end
    index: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    unsorted: cython.bint = False
    capacity: cython.Py_ssize_t = min(place.shape[0], continues.shape[0], start.shape[0], end.shape[0])
    belong(low >= 0 and high <= min(vaddr.shape[0], length.shape[0], depth.shape[0], function.shape[0]))
    with cython.nogil:
        for index in range(low, high):
            if depth[index] and index != low:
                continue
            if count >= capacity:
                break
            place[count] = cython.cast(cython.uint, index)
            start[count] = vaddr[index]
            end[count] = _end(vaddr[index], length[index])
            continues[count] = (
                count > 0
                and start[count] == end[count - 1]
                and function[index] != 0
                and function[index] == function[place[count - 1]]
            )
            if length[index] == 0 or (count and start[count] < end[count - 1]):
                unsorted = True
            count += 1
    return unsorted


def write_tie_keys(roots, out: cython.ulonglong[::1]):
    """Write keys that put roots with the same start into the order of `cover`: the shorter one later.

    A root that continues a function is first, because the function starts earlier.
    """
    end: cython.const[cython.ulonglong][::1] = roots.end
    continues: cython.const[cython.uint][::1] = roots.name
    index: cython.Py_ssize_t
    belong(min(out.shape[0], continues.shape[0]) >= end.shape[0])
    with cython.nogil:
        for index in range(end.shape[0]):
            out[index] = 0 if continues[index] else ~end[index]


def cover(roots, order, stack, out):
    """Write the stretches in which each root is the last one in `order` that covers the addresses; return how many.

    At most twice as many as roots; `place` is the index of the root. `stack` has an element for each root.
    """
    start: cython.const[cython.ulonglong][::1] = roots.start
    end: cython.const[cython.ulonglong][::1] = roots.end
    sequence: cython.const[cython.uint][::1] = order
    open_roots: cython.uint[::1] = stack
    out_start: cython.ulonglong[::1] = out.start
    out_end: cython.ulonglong[::1] = out.end
    out_root: cython.uint[::1] = out.place
    index: cython.Py_ssize_t
    open: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = 0
    position: cython.ulonglong = 0
    belong(
        all_below(sequence, sequence.shape[0], min(start.shape[0], end.shape[0]))
        and open_roots.shape[0] >= sequence.shape[0]
        and min(out_start.shape[0], out_end.shape[0], out_root.shape[0]) >= 2 * sequence.shape[0]
    )
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for index in range(sequence.shape[0] + 1):
            handle_signals(cython.address(work), 4)
            next_start: cython.ulonglong = start[sequence[index]] if index < sequence.shape[0] else NEVER
            while open and position < next_start:
                top: cython.uint = open_roots[open - 1]
                if end[top] <= position:
                    open -= 1
                    continue
                until: cython.ulonglong = end[top] if end[top] < next_start else next_start
                if count and out_root[count - 1] == top and out_end[count - 1] == position:
                    out_end[count - 1] = position = until
                    continue
                out_start[count] = position
                out_end[count] = until
                out_root[count] = top
                count += 1
                position = until
            if index < sequence.shape[0]:
                position = next_start
                open_roots[open] = sequence[index]
                open += 1
    return count


def layer(functions, best, low, out):
    """Lay better stretches over lower ones and return the number of results, at most 2 * (better + lower).

    A better stretch without a name takes the name of the lower one: `name` is the row whose function names the stretch.
    """
    function: cython.const[cython.ulonglong][::1] = functions
    best_start: cython.const[cython.ulonglong][::1] = best.start
    best_end: cython.const[cython.ulonglong][::1] = best.end
    best_place: cython.const[cython.uint][::1] = best.place
    best_name: cython.const[cython.uint][::1] = best.name
    low_start: cython.const[cython.ulonglong][::1] = low.start
    low_end: cython.const[cython.ulonglong][::1] = low.end
    low_place: cython.const[cython.uint][::1] = low.place
    out_start: cython.ulonglong[::1] = out.start
    out_end: cython.ulonglong[::1] = out.end
    out_place: cython.uint[::1] = out.place
    out_name: cython.uint[::1] = out.name
    high_index: cython.Py_ssize_t = 0
    low_index: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = 0
    position: cython.ulonglong = 0
    most: cython.Py_ssize_t = 2 * (best_start.shape[0] + low_start.shape[0])
    belong(
        min(best_end.shape[0], best_place.shape[0], best_name.shape[0]) >= best_start.shape[0]
        and min(low_end.shape[0], low_place.shape[0]) >= low_start.shape[0]
        and all_below(best_name, best_start.shape[0], function.shape[0])
        and min(out_start.shape[0], out_end.shape[0], out_place.shape[0], out_name.shape[0]) >= most
    )
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        while True:
            handle_signals(cython.address(work), 1)
            while high_index < best_start.shape[0] and best_end[high_index] <= position:
                high_index += 1
            while low_index < low_start.shape[0] and low_end[low_index] <= position:
                low_index += 1
            if high_index >= best_start.shape[0] and low_index >= low_start.shape[0]:
                break
            until: cython.ulonglong = NEVER
            place: cython.uint = NONE
            name: cython.uint = NONE
            if low_index < low_start.shape[0]:
                if low_start[low_index] <= position:
                    place = name = low_place[low_index]
                    until = low_end[low_index]
                else:
                    until = low_start[low_index]
            if high_index < best_start.shape[0]:
                if best_start[high_index] <= position:
                    place = best_place[high_index]
                    if name == NONE or function[best_name[high_index]] != 0:
                        name = best_name[high_index]
                    if best_end[high_index] < until:
                        until = best_end[high_index]
                elif best_start[high_index] < until:
                    until = best_start[high_index]
            if place != NONE:
                if (
                    count
                    and out_end[count - 1] == position
                    and out_place[count - 1] == place
                    and out_name[count - 1] == name
                ):
                    out_end[count - 1] = until
                else:
                    out_start[count] = position
                    out_end[count] = until
                    out_place[count] = place
                    out_name[count] = name
                    count += 1
            position = until
    return count


@cython.final
@cython.cclass
class MergePlan:
    """A plan of the merged table: for each row the old row, the row that names it, vaddr and length.

    A tree that is covered by several stretches appears in each of them, clipped. The chains that this repeats have a
    budget (only tables that overlap everywhere spend it); when it is spent, a stretch repeats only its root. `same` is
    True if the last plan keeps every row as it is.
    """

    def __cinit__(self, ranges: cython.Py_ssize_t):
        """Allocate plans of tables of up to `ranges` ranges."""
        belong(0 <= ranges <= UINT_MAX)
        self._ranges = ranges
        self._level_end = cython.cast(cython.p_ulonglong, malloc((ranges + 2) * 8))
        self._u32s = cython.cast(cython.p_uint, malloc(3 * (ranges + 2) * 4))
        if self._level_end == cython.NULL or self._u32s == cython.NULL:
            raise MemoryError
        self._parent = self._u32s
        self._cursor = self._parent + ranges + 2
        self._chain = self._cursor + ranges + 2

    def __dealloc__(self):
        free(self._level_end)
        free(self._u32s)

    def _put(self, place, name, level, vaddr, end, low, high):
        """Append a range, clipped to [low, high) and to the range around it, unless that is empty."""
        row: cython.Py_ssize_t = self._rows
        if level > self._levels:
            level = self._levels
        if level and self._level_end[level - 1] < high:
            high = self._level_end[level - 1]
        if vaddr < low or end > high:
            self.same = False
            vaddr = low if vaddr < low else vaddr
            end = high if end > high else end
        if vaddr >= end:
            self.same = False
            return
        self._level_end[level] = end
        self._levels = level + 1
        if place != row or name != row:
            self.same = False
        if row < self._capacity:
            self._pick[row] = place
            self._name[row] = name
            self._depth[row] = cython.cast(cython.uint, level)
            self._vaddr[row] = vaddr
            self._length[row] = end - vaddr
        self._rows = row + 1

    def _link(self, depth, bounds, count):
        """Set the parent of each range, and the cursor of each root to the root itself."""
        index: cython.Py_ssize_t
        table: cython.Py_ssize_t = 0
        level: cython.uint = 0
        for index in range(count):
            if table < bounds.shape[0] and bounds[table] == index:
                level = 0
                while table < bounds.shape[0] and bounds[table] == index:
                    table += 1
            elif depth[index] <= level:
                level = depth[index]
            else:
                level += 1
            self._chain[level] = cython.cast(cython.uint, index)
            self._parent[index] = self._chain[level - 1] if level else NONE
            self._cursor[index] = cython.cast(cython.uint, index)

    def _enclosing(self, vaddr, length, root, row, start):
        """Write the ranges from a row outward that extend past `start` to `_chain`, without the root. Return how many.

        These began in an earlier stretch of the tree. 0 if the budget is spent.
        """
        links: cython.Py_ssize_t = 0
        while row != root and row != NONE and self._budget > 0:
            self._budget -= 1
            if _end(vaddr[row], length[row]) > start:
                self._chain[links] = row
                links += 1
            row = self._parent[row]
        return links if row == root else 0

    def make(self, table, table_bounds, all_stretches, picks):
        """Plan the rows of the stretches, in their order, and return how many there are.

        `table_bounds` are the first rows of the tables, beginning with 0, and the end. As many rows are written as fit
        into the Picks.
        """
        vaddr: cython.const[cython.ulonglong][::1] = table.vaddr
        length: cython.const[cython.ulonglong][::1] = table.length
        depth: cython.const[cython.uint][::1] = table.depth
        bounds: cython.const[cython.uint][::1] = table_bounds
        start: cython.const[cython.ulonglong][::1] = all_stretches.start
        end: cython.const[cython.ulonglong][::1] = all_stretches.end
        place: cython.const[cython.uint][::1] = all_stretches.place
        name: cython.const[cython.uint][::1] = all_stretches.name
        pick_place: cython.uint[::1] = picks.place
        pick_name: cython.uint[::1] = picks.name
        pick_depth: cython.uint[::1] = picks.depth
        pick_vaddr: cython.ulonglong[::1] = picks.vaddr
        pick_length: cython.ulonglong[::1] = picks.length
        stretches: cython.Py_ssize_t = start.shape[0]
        count: cython.Py_ssize_t = vaddr.shape[0]
        index: cython.Py_ssize_t
        belong(
            count <= self._ranges
            and min(length.shape[0], depth.shape[0]) >= count
            and 0 <= stretches <= min(start.shape[0], end.shape[0], place.shape[0], name.shape[0])
            and all_below(place, stretches, count)
            and (count == 0 or (bounds.shape[0] > 0 and bounds[0] == 0))
        )
        self._capacity = min(
            pick_place.shape[0], pick_name.shape[0], pick_depth.shape[0], pick_vaddr.shape[0], pick_length.shape[0]
        )
        if self._capacity:
            self._pick, self._name = cython.address(pick_place[0]), cython.address(pick_name[0])
            self._depth = cython.address(pick_depth[0])
            self._vaddr, self._length = cython.address(pick_vaddr[0]), cython.address(pick_length[0])
        self._rows = 0
        self._budget = 2 * (count + stretches)
        self.same = True
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            self._link(depth, bounds, count)
            for index in range(stretches):
                handle_signals(cython.address(work), 8)
                root: cython.uint = place[index]
                self._levels = 0
                row: cython.uint = self._cursor[root]
                while row < count and (row == root or self._parent[row] != NONE) and vaddr[row] < start[index]:
                    row += 1
                self._cursor[root] = row
                if row > root:
                    links: cython.Py_ssize_t = self._enclosing(vaddr, length, root, row - 1, start[index])
                    self._put(
                        root, name[index], 0, vaddr[root], _end(vaddr[root], length[root]), start[index], end[index]
                    )
                    while links:
                        links -= 1
                        row = self._chain[links]
                        self._put(
                            row, row, depth[row], vaddr[row],
                            _end(vaddr[row], length[row]), start[index], end[index],
                        )  # fmt: skip
                row = self._cursor[root]
                while row < count and (row == root or self._parent[row] != NONE) and vaddr[row] < end[index]:
                    self._put(
                        row, name[index] if row == root else row,
                        0 if row == root else depth[row], vaddr[row],
                        _end(vaddr[row], length[row]), start[index], end[index],
                    )  # fmt: skip
                    row += 1
                self._cursor[root] = row
        self.same = self.same and self._rows == count
        return self._rows
