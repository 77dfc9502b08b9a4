"""Stacks to the largest nodes of their tree, without building the rest.

A stack is stack[first[s]:first[s + 1]], locations leaf first. A location is the places
[of_location[l], of_location[l + 1]), outermost first; a place is a frame and a line. A node is a frame below its
parent, and holds the stacks that pass through it: a slice of `order`. Only a node that is kept is taken apart into its
children, so time goes into what is shown, and no more nodes are made than are kept and stacks remain.
"""

import cython
from cython.cimports.libc.math import fabs

NEVER = cython.declare(cython.uint, 0xFFFFFFFF)
PROBES = cython.declare(cython.int, 32)  # a stack that meets more others of its hash counts as one of its own
STACK_FAULT = cython.declare(cython.int, 1)  # a stack or location that is not there


def shares(
    of: cython.const[cython.uint][::1], values: cython.const[cython.longlong][::1], weight: cython.double[::1]
) -> tuple[int, int, int]:
    """Add to each stack's weight the share its samples have of all values."""
    at: cython.Py_ssize_t
    total: cython.double = 0
    samples: cython.Py_ssize_t = of.shape[0]
    fault: cython.int = 0
    if values.shape[0] != samples:
        return 0, STACK_FAULT, 0
    with cython.nogil:
        for at in range(samples):
            total += fabs(cython.cast(cython.double, values[at]))
        for at in range(samples if total > 0 else 0):
            if of[at] >= cython.cast(cython.ulonglong, weight.shape[0]):
                fault = STACK_FAULT
                break
            weight[of[at]] += fabs(cython.cast(cython.double, values[at])) / total
    return samples, fault, 0


def equal_stacks(
    first: cython.const[cython.ulonglong][::1],
    stack: cython.const[cython.uint][::1],
    table: cython.uint[::1],
    same: cython.uint[::1],
    weight: cython.double[::1],
) -> tuple[int, int, int]:
    """same[s] is the first stack equal to s, which gets the weight of all; the others' becomes 0.

    `table` has 0xFFFFFFFF in each place, a power of two of places, more than stacks. Gives how many differ.
    """
    at: cython.Py_ssize_t
    found: cython.Py_ssize_t = 0
    stacks: cython.Py_ssize_t = same.shape[0]
    mask: cython.ulonglong = table.shape[0] - 1
    slot: cython.ulonglong
    hash: cython.ulonglong
    k: cython.ulonglong
    low: cython.ulonglong
    length: cython.ulonglong
    other: cython.ulonglong
    probe: cython.int
    fault: cython.int = 0
    if first.shape[0] != stacks + 1 or weight.shape[0] != stacks or table.shape[0] <= stacks:
        return 0, STACK_FAULT, 0
    with cython.nogil:
        for at in range(stacks):
            low = first[at]
            if first[at + 1] < low or first[at + 1] > cython.cast(cython.ulonglong, stack.shape[0]):
                fault = STACK_FAULT
                break
            same[at] = cython.cast(cython.uint, at)
            if weight[at] == 0:
                continue
            length = first[at + 1] - low
            hash = length
            for k in range(low, low + length):
                hash = (hash ^ stack[k]) * cython.cast(cython.ulonglong, 0x9E3779B97F4A7C15)
                hash ^= hash >> 29
            slot = hash & mask
            for probe in range(PROBES):
                if table[slot] == NEVER:
                    table[slot] = cython.cast(cython.uint, at)
                    found += 1
                    break
                other = table[slot]
                if first[other + 1] - first[other] == length:
                    k = 0
                    while k < length and stack[first[other] + k] == stack[low + k]:
                        k += 1
                    if k == length:
                        same[at] = cython.cast(cython.uint, other)
                        weight[other] += weight[at]
                        weight[at] = 0
                        break
                slot = (slot + 1) & mask
            else:
                found += 1
    return found, fault, 0


def depths(
    first: cython.const[cython.ulonglong][::1],
    stack: cython.const[cython.uint][::1],
    of_location: cython.const[cython.uint][::1],
    weight: cython.const[cython.double][::1],
    limit: cython.uint,
    depth: cython.uint[::1],
) -> tuple[int, int, int]:
    """How many frames each stack with a weight has, up to `limit`. Checks every location they name."""
    at: cython.Py_ssize_t
    k: cython.ulonglong
    total: cython.ulonglong
    stacks: cython.Py_ssize_t = depth.shape[0]
    locations: cython.ulonglong = of_location.shape[0] - 1
    fault: cython.int = 0
    if first.shape[0] != stacks + 1 or weight.shape[0] != stacks or of_location.shape[0] < 1:
        return 0, STACK_FAULT, 0
    with cython.nogil:
        for at in range(stacks):
            if fault or first[at + 1] > cython.cast(cython.ulonglong, stack.shape[0]):
                fault = STACK_FAULT
                break
            total = 0
            for k in range(first[at], first[at + 1] if weight[at] > 0 else first[at]):
                if stack[k] >= locations:
                    fault = STACK_FAULT
                    break
                total += of_location[stack[k] + 1] - of_location[stack[k]]
            depth[at] = cython.cast(cython.uint, total) if total < limit else limit
    return stacks, fault, 0


def level(sizes: cython.const[cython.uint][::1], budget: cython.ulonglong, limit: cython.uint) -> int:
    """The greatest number up to `limit` to which all sizes can be cut so that their sum is within the budget."""
    at: cython.Py_ssize_t
    low: cython.ulonglong = 0
    high: cython.ulonglong = limit
    middle: cython.ulonglong
    total: cython.ulonglong
    with cython.nogil:
        middle = high
        while low < high:
            total = 0
            for at in range(sizes.shape[0]):
                total += sizes[at] if sizes[at] < middle else middle
            if total <= budget:
                low = middle
            else:
                high = middle - 1
            middle = (low + high + 1) >> 1
    return low


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _before(weight: cython.double[::1], a: cython.uint, b: cython.uint) -> cython.bint:
    """Heavier nodes first; of equal ones the one that was made first, which lies no deeper."""
    return weight[a] > weight[b] or (weight[a] == weight[b] and a < b)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _push(
    heap: cython.uint[::1], size: cython.Py_ssize_t, weight: cython.double[::1], node: cython.uint
) -> cython.void:
    at: cython.Py_ssize_t = size
    up: cython.Py_ssize_t
    while at > 0:
        up = (at - 1) >> 1
        if not _before(weight, node, heap[up]):
            break
        heap[at] = heap[up]
        at = up
    heap[at] = node


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _pop(heap: cython.uint[::1], size: cython.Py_ssize_t, weight: cython.double[::1]) -> cython.void:
    """Take the first of `size` nodes out."""
    at: cython.Py_ssize_t = 0
    down: cython.Py_ssize_t
    last: cython.uint = heap[size - 1]
    while True:
        down = 2 * at + 1
        if down >= size - 1:
            break
        if down + 1 < size - 1 and _before(weight, heap[down + 1], heap[down]):
            down += 1
        if not _before(weight, heap[down], last):
            break
        heap[at] = heap[down]
        at = down
    heap[at] = last


@cython.cclass
class Growth:
    """The tree as it grows from its root: `grow` as long as it says so, then `lay_out` once.

    Columns that the caller gives:

        stacks      first, stack; weight (a stack of weight 0 is not in the tree)
        locations   of_location, place; frame and line of each place; `frames` different frames

    The frame numbered `frames` stands for nodes that are put together. At most `keep` nodes are kept, none deeper than
    `deepest`, and `lines` lines of each.
    """

    first: cython.const[cython.ulonglong][::1]
    stack: cython.const[cython.uint][::1]
    weight: cython.const[cython.double][::1]
    of_location: cython.const[cython.uint][::1]
    place: cython.const[cython.uint][::1]
    frame_of: cython.const[cython.uint][::1]
    line_of: cython.const[cython.uint][::1]
    frames: cython.uint
    keep: cython.Py_ssize_t
    deepest: cython.uint
    lines: cython.int
    # stacks: where each is
    order: cython.uint[::1]
    spare: cython.uint[::1]
    child: cython.uint[::1]
    cursor: cython.ulonglong[::1]
    next: cython.uint[::1]
    until: cython.uint[::1]
    here: cython.uint[::1]
    end: cython.uint[::1]
    # nodes
    parent: cython.uint[::1]
    frame: cython.uint[::1]
    low: cython.uint[::1]
    high: cython.uint[::1]
    depth: cython.uint[::1]
    line_at: cython.uint[::1]
    line_count: cython.uchar[::1]
    kept: cython.uchar[::1]
    total: cython.double[::1]
    heap: cython.uint[::1]
    # places and frames met in the node at hand
    node_of_frame: cython.uint[::1]
    node_of_place: cython.uint[::1]
    place_weight: cython.double[::1]
    met: cython.uint[::1]
    line: cython.uint[::1]
    nodes: cython.Py_ssize_t
    waiting: cython.Py_ssize_t
    kept_nodes: cython.Py_ssize_t
    line_rows: cython.Py_ssize_t
    cut: cython.bint
    fault = cython.declare(cython.int, visibility="readonly")

    def __init__(self, stacks, locations, frames, keep, deepest, lines, room):
        """`room(typecode, size)` makes a zeroed column. Where columns disagree `fault` is not 0 and there is no tree."""
        self.first, self.stack, self.weight = stacks
        self.of_location, self.place, self.frame_of, self.line_of = locations
        self.frames, self.keep, self.deepest, self.lines = frames, max(keep, 1), deepest, min(lines, 255)
        count: cython.Py_ssize_t = self.first.shape[0] - 1
        at: cython.Py_ssize_t
        alive: cython.Py_ssize_t = 0
        below: cython.Py_ssize_t = self._frames_of_all()
        self.fault = STACK_FAULT if below < 0 else 0
        if self.fault:
            return
        for at in range(count):
            alive += self.weight[at] > 0
        self.order, self.spare, self.child = room("I", alive), room("I", alive), room("I", alive)
        self.cursor, self.next, self.until = room("Q", count), room("I", count), room("I", count)
        self.here, self.end = room("I", count), room("I", count)
        self.node_of_frame = room("I", frames + 1)
        self.node_of_place = room("I", self.frame_of.shape[0])
        self.place_weight = room("d", self.frame_of.shape[0])
        self.met = room("I", self.frame_of.shape[0])
        # nodes that wait hold different stacks; no tree has more nodes below its root than its stacks have frames
        nodes: cython.Py_ssize_t = 1 + alive + min(self.keep, below)
        self.parent, self.frame, self.depth = room("I", nodes), room("I", nodes), room("I", nodes)
        self.low, self.high, self.total = room("I", nodes), room("I", nodes), room("d", nodes)
        self.line_at, self.line_count, self.kept = room("I", nodes), room("B", nodes), room("B", nodes)
        self.heap = room("I", nodes)
        self.line = room("I", self.lines * min(self.keep, nodes))
        alive = 0
        for at in range(count):
            self.cursor[at] = self.first[at + 1]
            if self.weight[at] > 0:
                self.order[alive] = cython.cast(cython.uint, at)
                alive += 1
        self.high[0] = cython.cast(cython.uint, alive)
        self.frame[0] = self.frames
        self.nodes = self.waiting = 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _frames_of_all(self) -> cython.Py_ssize_t:
        """How many frames all stacks have together; -1 where a column names what is not in another."""
        at: cython.Py_ssize_t
        k: cython.ulonglong
        total: cython.ulonglong = 0
        stacks: cython.Py_ssize_t = self.first.shape[0] - 1
        locations: cython.Py_ssize_t = self.of_location.shape[0] - 1
        if stacks < 0 or locations < 0 or self.weight.shape[0] != stacks:
            return -1
        if self.line_of.shape[0] != self.frame_of.shape[0]:
            return -1
        for at in range(self.frame_of.shape[0]):
            if self.frame_of[at] >= self.frames:
                return -1
        for at in range(self.place.shape[0]):
            if self.place[at] >= cython.cast(cython.ulonglong, self.frame_of.shape[0]):
                return -1
        for at in range(locations):
            if self.of_location[at] > self.of_location[at + 1]:
                return -1
        if self.of_location[locations] > cython.cast(cython.ulonglong, self.place.shape[0]):
            return -1
        for at in range(stacks):
            if self.first[at] > self.first[at + 1] or self.first[at + 1] > cython.cast(
                cython.ulonglong, self.stack.shape[0]
            ):
                return -1
            if self.weight[at] > 0:
                for k in range(self.first[at], self.first[at + 1]):
                    if self.stack[k] >= cython.cast(cython.ulonglong, locations):
                        return -1
                    total += self.of_location[self.stack[k] + 1] - self.of_location[self.stack[k]]
        return total if total < NEVER else NEVER

    def grow(self, steps: cython.longlong) -> bool:
        """Keep the heaviest nodes that wait, one after the other, until so many steps were made. Whether more wait."""
        node: cython.uint
        with cython.nogil:
            while steps > 0 and self.waiting and self.kept_nodes < self.keep:
                node = self.heap[0]
                _pop(self.heap, self.waiting, self.total)
                self.waiting -= 1
                self.kept[node] = True
                self.kept_nodes += 1
                steps -= 1 + self.high[node] - self.low[node]
                if node:
                    self._note_lines(node)
                self._take_apart(node)
        return self.waiting > 0 and self.kept_nodes < self.keep

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _note_lines(self, node: cython.uint) -> cython.void:
        """The lines a node's stacks are at, heaviest first; without those that are not known."""
        at: cython.Py_ssize_t
        k: cython.Py_ssize_t
        place: cython.uint
        found: cython.Py_ssize_t = 0
        rows: cython.Py_ssize_t = 0
        base: cython.Py_ssize_t = self.line_rows
        for at in range(self.low[node], self.high[node]):
            place = self.here[self.order[at]]
            if self.node_of_place[place] != node:
                self.node_of_place[place] = node
                self.place_weight[place] = 0
                self.met[found] = place
                found += 1
            self.place_weight[place] += self.weight[self.order[at]]
        for at in range(found):
            place = self.met[at]
            if self.line_of[place] == 0:
                continue
            k = rows if rows < self.lines else self.lines - 1
            if rows == self.lines and self.place_weight[self.line[base + k]] >= self.place_weight[place]:
                continue
            while k > 0 and self.place_weight[self.line[base + k - 1]] < self.place_weight[place]:
                self.line[base + k] = self.line[base + k - 1]
                k -= 1
            self.line[base + k] = place
            if rows < self.lines:
                rows += 1
        for at in range(base, base + rows):
            self.line[at] = self.line_of[self.line[at]]
        self.line_at[node] = cython.cast(cython.uint, base)
        self.line_count[node] = cython.cast(cython.uchar, rows)
        self.line_rows += rows

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _take_apart(self, node: cython.uint) -> cython.void:
        """Move each stack of a node to the child its next frame leads to; one without a next frame ends here."""
        at: cython.Py_ssize_t
        base: cython.Py_ssize_t = self.nodes
        low: cython.Py_ssize_t = self.low[node]
        high: cython.Py_ssize_t = self.high[node]
        start: cython.Py_ssize_t = low
        stack: cython.uint
        frame: cython.uint
        child: cython.uint
        too_deep: cython.bint = self.depth[node] >= self.deepest
        for at in range(low, high):
            stack = self.order[at]
            while self.next[stack] == self.until[stack] and self.cursor[stack] > self.first[stack]:
                self.cursor[stack] -= 1
                child = self.stack[self.cursor[stack]]
                self.next[stack] = self.of_location[child]
                self.until[stack] = self.of_location[child + 1]
            if self.next[stack] == self.until[stack]:
                self.end[stack] = node
                self.child[at] = 0
                continue
            self.here[stack] = self.place[self.next[stack]]
            self.next[stack] += 1
            frame = self.frames if too_deep else self.frame_of[self.here[stack]]
            child = self.node_of_frame[frame]
            if child < base:
                child = cython.cast(cython.uint, self.nodes)
                self.nodes += 1
                self.node_of_frame[frame] = child
                self.parent[child] = node
                self.frame[child] = frame
                self.depth[child] = self.depth[node] + 1
            self.high[child] += 1
            self.total[child] += self.weight[stack]
            self.child[at] = child
        for at in range(base, self.nodes):
            self.low[at] = cython.cast(cython.uint, start)
            start += self.high[at]
            self.high[at] = self.low[at]
            if not too_deep:
                _push(self.heap, self.waiting, self.total, cython.cast(cython.uint, at))
                self.waiting += 1
        self.cut |= too_deep and self.nodes > base
        if self.nodes == base + 1 and start == high:  # all went the same way
            self.high[base] = cython.cast(cython.uint, high)
            return
        for at in range(low, high):
            child = self.child[at]
            if child:
                self.spare[self.high[child]] = self.order[at]
                self.high[child] += 1
        for at in range(low, start):
            self.order[at] = self.spare[at]

    def lay_out(self, same, room):
        """The kept nodes and those that stand for the rest, a node before its children and those before its siblings.

        Gives columns: each node's parent, frame, how many levels up from the node before it its parent lies, how many
        lines, and those lines; the node that each stack ends in; how many stand for the rest; whether some were too
        deep. Equal stacks end where the first of them, same[s], does.
        """
        first_of: cython.const[cython.uint][::1] = same
        count: cython.Py_ssize_t = self.nodes
        if self.fault or count == 0 or first_of.shape[0] != self.end.shape[0]:
            return None
        head: cython.uint[::1] = room("I", count)
        sibling: cython.uint[::1] = room("I", count)
        rest: cython.uint[::1] = room("I", count)
        row_of: cython.uint[::1] = room("I", count)
        at: cython.Py_ssize_t
        k: cython.Py_ssize_t
        rows: cython.Py_ssize_t = 0
        rests: cython.Py_ssize_t = 0
        lines: cython.Py_ssize_t = 0
        node: cython.uint = 0
        previous: cython.uint = 0
        with cython.nogil:
            for at in range(count - 1, 0, -1):
                if self.kept[at]:
                    sibling[at] = head[self.parent[at]]
                    head[self.parent[at]] = cython.cast(cython.uint, at)
                else:
                    rests += rest[self.parent[at]] == 0
                    rest[self.parent[at]] = 1
        rows = self.kept_nodes + rests
        out_parent, out_frame, out_up, out_count = room("I", rows), room("I", rows), room("I", rows), room("I", rows)
        out_lines, out_end = room("I", self.line_rows), room("I", first_of.shape[0])
        parent: cython.uint[::1] = out_parent
        frame: cython.uint[::1] = out_frame
        up: cython.uint[::1] = out_up
        line_count: cython.uint[::1] = out_count
        line: cython.uint[::1] = out_lines
        end: cython.uint[::1] = out_end
        rows = 0
        with cython.nogil:
            while True:
                parent[rows] = row_of[self.parent[node]]
                frame[rows] = self.frame[node]
                up[rows] = previous + 1 - self.depth[node] if node else 0
                previous = self.depth[node]
                line_count[rows] = self.line_count[node]
                for k in range(self.line_count[node]):
                    line[lines] = self.line[self.line_at[node] + k]
                    lines += 1
                row_of[node] = cython.cast(cython.uint, rows)
                rows += 1
                if head[node]:
                    node = head[node]
                    continue
                while True:  # the node and all below it are written but for what stands for the rest of its children
                    if rest[node]:
                        parent[rows] = row_of[node]
                        frame[rows] = self.frames
                        up[rows] = previous - self.depth[node]
                        previous = self.depth[node] + 1
                        rest[node] = cython.cast(cython.uint, rows)
                        rows += 1
                    if node == 0 or sibling[node]:
                        break
                    node = self.parent[node]
                if node == 0:
                    break
                node = sibling[node]
            for at in range(1, count):
                if not self.kept[at]:
                    row_of[at] = rest[self.parent[at]]
                    for k in range(self.low[at], self.high[at]):
                        self.end[self.order[k]] = cython.cast(cython.uint, at)
            for at in range(first_of.shape[0]):
                end[at] = row_of[self.end[first_of[at]]]
        return out_parent, out_frame, out_up, out_count, out_lines, out_end, rests, bool(self.cut)


def sums(
    of: cython.const[cython.uint][::1],
    values: cython.const[cython.longlong][::1],
    end: cython.const[cython.uint][::1],
    out: cython.longlong[::1],
) -> tuple[int, int, int]:
    """Add each sample's value to the node its stack ends in."""
    at: cython.Py_ssize_t
    fault: cython.int = 0
    if values.shape[0] != of.shape[0]:
        return 0, STACK_FAULT, 0
    with cython.nogil:
        for at in range(of.shape[0]):
            if of[at] >= cython.cast(cython.ulonglong, end.shape[0]):
                fault = STACK_FAULT
                break
            out[end[of[at]]] = cython.cast(
                cython.longlong,
                cython.cast(cython.ulonglong, out[end[of[at]]]) + cython.cast(cython.ulonglong, values[at]),
            )
    return of.shape[0], fault, 0


def packed(values: cython.const[cython.longlong][::1], out: cython.uchar[::1]) -> int:
    """The values as ULEB128 numbers, signs in the lowest bit (zigzag); at most ten bytes each. Gives how many bytes."""
    at: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    number: cython.ulonglong
    with cython.nogil:
        for at in range(values.shape[0] if out.shape[0] >= 10 * values.shape[0] else 0):
            number = cython.cast(cython.ulonglong, values[at]) << 1
            if values[at] < 0:
                number = ~number
            while number >= 0x80:
                out[to] = cython.cast(cython.uchar, number & 0x7F | 0x80)
                number >>= 7
                to += 1
            out[to] = cython.cast(cython.uchar, number)
            to += 1
    return to
