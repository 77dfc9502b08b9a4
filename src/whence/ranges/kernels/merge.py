"""Deciding in merge: roots, who covers what, layers, and the plan of what is written where.

A *root* is a range of depth 0; its *tree* is the root and the deeper ranges after it, up to the next root. A *stretch*
[start, end) is covered by one root. Places are indices into the joined table.
"""

import cython
from cython.cimports.libc.limits import UINT_MAX
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.whence.kernels.checks import all_below, belong
from cython.cimports.whence.kernels.signals import handle_signals

NONE = cython.declare(cython.uint, 0xFFFFFFFF)
NEVER = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


def _end(vaddr, length):
    """Where a range ends; one that would leave the address space ends with it."""
    return vaddr + length if length <= NEVER - vaddr else NEVER


def count_roots(depth: cython.const[cython.uint][::1], low: cython.Py_ssize_t, high: cython.Py_ssize_t):
    """How many roots the places [low, high) have. The first place is a root, whatever its depth says."""
    index: cython.Py_ssize_t
    found: cython.Py_ssize_t = 1 if low < high else 0
    belong(0 <= low <= high <= depth.shape[0])
    with cython.nogil:
        for index in range(low + 1, high):
            if depth[index] == 0:
                found += 1
    return found


def list_roots(table, low: cython.Py_ssize_t, high: cython.Py_ssize_t, roots):
    """Fill the Stretches of the roots of [low, high). 0: they are in order and apart; 1: they need sorting or overlap
    or are empty."""
    vaddr: cython.const[cython.ulonglong][::1] = table.vaddr
    length: cython.const[cython.ulonglong][::1] = table.length
    depth: cython.const[cython.uint][::1] = table.depth
    place: cython.uint[::1] = roots.place
    start: cython.ulonglong[::1] = roots.start
    end: cython.ulonglong[::1] = roots.end
    index: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    untidy: cython.bint = False
    room: cython.Py_ssize_t = min(place.shape[0], start.shape[0], end.shape[0])
    belong(low >= 0 and high <= min(vaddr.shape[0], length.shape[0], depth.shape[0]))
    with cython.nogil:
        for index in range(low, high):
            if depth[index] and index != low:
                continue
            if to >= room:
                break
            place[to] = cython.cast(cython.uint, index)
            start[to] = vaddr[index]
            end[to] = _end(vaddr[index], length[index])
            if length[index] == 0 or (to and start[to] < end[to - 1]):
                untidy = True
            to += 1
    return untidy


def cover(roots, order, stack, out):
    """Stretches from those of roots, in `order`: at each address the last root in order that covers it. At most twice
    as many; their places are indexes of roots. Returns how many. `stack` has room for one number a root."""
    start: cython.const[cython.ulonglong][::1] = roots.start
    end: cython.const[cython.ulonglong][::1] = roots.end
    sequence: cython.const[cython.uint][::1] = order
    open_roots: cython.uint[::1] = stack
    out_start: cython.ulonglong[::1] = out.start
    out_end: cython.ulonglong[::1] = out.end
    out_root: cython.uint[::1] = out.place
    index: cython.Py_ssize_t
    open: cython.Py_ssize_t = 0
    found: cython.Py_ssize_t = 0
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
                if found and out_root[found - 1] == top and out_end[found - 1] == position:
                    out_end[found - 1] = position = until
                    continue
                out_start[found] = position
                out_end[found] = until
                out_root[found] = top
                found += 1
                position = until
            if index < sequence.shape[0]:
                position = next_start
                open_roots[open] = sequence[index]
                open += 1
    return found


def layer(functions, best, low, out):
    """Lay the better stretches over the lower ones; a better one without a name takes the name beneath it.

    `name` is the place whose function names the stretch; in the lower ones it is the place. At most
    2 * (better + lower) stretches come out; returns how many.
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
    one: cython.Py_ssize_t = 0
    two: cython.Py_ssize_t = 0
    found: cython.Py_ssize_t = 0
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
            while one < best_start.shape[0] and best_end[one] <= position:
                one += 1
            while two < low_start.shape[0] and low_end[two] <= position:
                two += 1
            if one >= best_start.shape[0] and two >= low_start.shape[0]:
                break
            until: cython.ulonglong = NEVER
            place: cython.uint = NONE
            name: cython.uint = NONE
            if two < low_start.shape[0]:
                if low_start[two] <= position:
                    place = name = low_place[two]
                    until = low_end[two]
                else:
                    until = low_start[two]
            if one < best_start.shape[0]:
                if best_start[one] <= position:
                    place = best_place[one]
                    if name == NONE or function[best_name[one]] != 0:
                        name = best_name[one]
                    if best_end[one] < until:
                        until = best_end[one]
                elif best_start[one] < until:
                    until = best_start[one]
            if place != NONE:
                if (
                    found
                    and out_end[found - 1] == position
                    and out_place[found - 1] == place
                    and out_name[found - 1] == name
                ):
                    out_end[found - 1] = until
                else:
                    out_start[found] = position
                    out_end[found] = until
                    out_place[found] = place
                    out_name[found] = name
                    found += 1
            position = until
    return found


@cython.final
@cython.cclass
class MergePlan:
    """Which range goes where: for each row of the table to be, the place it comes from, its name's place, vaddr,
    length.

    A tree that is covered by several stretches appears in each, clipped. The chains this repeats have a budget (only
    tables that overlap all over need much of it); when it is spent, a stretch repeats its root alone.

    `same`: the plan made last keeps every one of the table's rows in its place, as it is.
    """

    def __cinit__(self, ranges: cython.Py_ssize_t):
        """Room for the plans of tables of so many ranges."""
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
        """A range, clipped to [low, high) and to the range it lies in; nothing where nothing is left."""
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
        if row < self._room:
            self._pick[row] = place
            self._name[row] = name
            self._depth[row] = cython.cast(cython.uint, level)
            self._vaddr[row] = vaddr
            self._length[row] = end - vaddr
        self._rows = row + 1

    def make(self, table, table_bounds, stretches_found, picks):
        """Plan the rows of the stretches, in their order. `table_bounds`: where the tables begin, and the end. Returns
        how many rows there are; as many as the Picks have room for are written there. The first table begins at 0."""
        vaddr: cython.const[cython.ulonglong][::1] = table.vaddr
        length: cython.const[cython.ulonglong][::1] = table.length
        depth: cython.const[cython.uint][::1] = table.depth
        bounds: cython.const[cython.uint][::1] = table_bounds
        start: cython.const[cython.ulonglong][::1] = stretches_found.start
        end: cython.const[cython.ulonglong][::1] = stretches_found.end
        place: cython.const[cython.uint][::1] = stretches_found.place
        name: cython.const[cython.uint][::1] = stretches_found.name
        pick_place: cython.uint[::1] = picks.place
        pick_name: cython.uint[::1] = picks.name
        pick_depth: cython.uint[::1] = picks.depth
        pick_vaddr: cython.ulonglong[::1] = picks.vaddr
        pick_length: cython.ulonglong[::1] = picks.length
        stretches: cython.Py_ssize_t = start.shape[0]
        count: cython.Py_ssize_t = vaddr.shape[0]
        index: cython.Py_ssize_t
        border: cython.Py_ssize_t = 0
        level: cython.uint = 0
        budget: cython.Py_ssize_t = 2 * (count + stretches)
        belong(
            count <= self._ranges
            and min(length.shape[0], depth.shape[0]) >= count
            and 0 <= stretches <= min(start.shape[0], end.shape[0], place.shape[0], name.shape[0])
            and all_below(place, stretches, count)
            and (count == 0 or (bounds.shape[0] > 0 and bounds[0] == 0))
        )
        self._room = min(
            pick_place.shape[0], pick_name.shape[0], pick_depth.shape[0], pick_vaddr.shape[0], pick_length.shape[0]
        )
        if self._room:
            self._pick, self._name = cython.address(pick_place[0]), cython.address(pick_name[0])
            self._depth = cython.address(pick_depth[0])
            self._vaddr, self._length = cython.address(pick_vaddr[0]), cython.address(pick_length[0])
        self._rows = 0
        self.same = True
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for index in range(count):
                handle_signals(cython.address(work), 1)
                if border < bounds.shape[0] and bounds[border] == index:
                    level = 0
                    while border < bounds.shape[0] and bounds[border] == index:
                        border += 1
                elif depth[index] <= level:
                    level = depth[index]
                else:
                    level += 1
                self._chain[level] = cython.cast(cython.uint, index)
                self._parent[index] = self._chain[level - 1] if level else NONE
                self._cursor[index] = cython.cast(cython.uint, index)
            for index in range(stretches):
                handle_signals(cython.address(work), 8)
                root: cython.uint = place[index]
                self._levels = 0
                place_at: cython.uint = self._cursor[root]
                # the ranges of this tree that began in an earlier stretch and reach into this one: the root's chain
                while (
                    place_at < count
                    and (place_at == root or self._parent[place_at] != NONE)
                    and vaddr[place_at] < start[index]
                ):
                    place_at += 1
                self._cursor[root] = place_at
                if place_at > root:
                    links: cython.Py_ssize_t = 0
                    place_at -= 1
                    while place_at != root and place_at != NONE and budget > 0:
                        budget -= 1
                        if _end(vaddr[place_at], length[place_at]) > start[index]:
                            self._chain[links] = place_at
                            links += 1
                        place_at = self._parent[place_at]
                    if place_at != root:  # the budget was spent on the way
                        links = 0
                    self._put(
                        root, name[index], 0, vaddr[root], _end(vaddr[root], length[root]), start[index], end[index]
                    )
                    while links:
                        links -= 1
                        place_at = self._chain[links]
                        self._put(
                            place_at, place_at, depth[place_at], vaddr[place_at],
                            _end(vaddr[place_at], length[place_at]), start[index], end[index],
                        )  # fmt: skip
                place_at = self._cursor[root]
                while (
                    place_at < count
                    and (place_at == root or self._parent[place_at] != NONE)
                    and vaddr[place_at] < end[index]
                ):
                    self._put(
                        place_at, name[index] if place_at == root else place_at,
                        0 if place_at == root else depth[place_at], vaddr[place_at],
                        _end(vaddr[place_at], length[place_at]), start[index], end[index],
                    )  # fmt: skip
                    place_at += 1
                self._cursor[root] = place_at
        self.same = self.same and self._rows == count
        return self._rows
