"""The heaviest nodes of the tree of all stacks, made without the rest of the tree.

A stack is stack[first[s]:first[s + 1]], locations leaf first. A location has the places
[of_location[l], of_location[l + 1]), innermost first; a place is a frame and a line. A node is a frame below its
parent; the stacks that pass through it are a slice of `order`. Only selected nodes are expanded into their children, so
time depends on the visible nodes, and the number of nodes is at most that of the selected nodes and the stacks.
"""

import cython
from cython.cimports.libc.math import fabs
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.whence.kernels.bytes import put_uleb
from cython.cimports.whence.kernels.checks import all_below, belong
from cython.cimports.whence.kernels.signals import handle_signals

NEVER = cython.declare(cython.uint, 0xFFFFFFFF)
PROBES = cython.declare(cython.int, 32)  # after so many different stacks of its hash, a stack is taken as distinct
STACK_FAULT = cython.declare(cython.int, 1)  # a stack or location does not exist


def shares(
    of: cython.const[cython.uint][::1], values: cython.const[cython.longlong][::1], weight: cython.double[::1]
) -> tuple[int, int, int]:
    """Add to each stack's weight the share of its samples in all values."""
    index: cython.Py_ssize_t
    total: cython.double = 0
    samples: cython.Py_ssize_t = of.shape[0]
    fault: cython.int = 0
    if values.shape[0] != samples:
        return 0, STACK_FAULT, 0
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for index in range(samples):
            total += fabs(cython.cast(cython.double, values[index]))
        for index in range(samples if total > 0 else 0):
            handle_signals(cython.address(work), 2)
            if of[index] >= cython.cast(cython.ulonglong, weight.shape[0]):
                fault = STACK_FAULT
                break
            weight[of[index]] += fabs(cython.cast(cython.double, values[index])) / total
    return samples, fault, 0


def equal_stacks(
    first: cython.const[cython.ulonglong][::1],
    stack: cython.const[cython.uint][::1],
    table: cython.uint[::1],
    same: cython.uint[::1],
    weight: cython.double[::1],
) -> tuple[int, int, int]:
    """Set same[s] to the first stack equal to s, and move the weight of equal stacks to it.

    `table` is a power of two of slots, more than stacks, all 0xFFFFFFFF. Returns the number of distinct stacks.
    """
    index: cython.Py_ssize_t
    distinct: cython.Py_ssize_t = 0
    stacks: cython.Py_ssize_t = same.shape[0]
    mask: cython.ulonglong = table.shape[0] - 1
    k: cython.ulonglong
    probe: cython.int
    fault: cython.int = 0
    if first.shape[0] != stacks + 1 or weight.shape[0] != stacks or table.shape[0] <= stacks:
        return 0, STACK_FAULT, 0
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for index in range(stacks):
            handle_signals(cython.address(work), 8)
            low: cython.ulonglong = first[index]
            if first[index + 1] < low or first[index + 1] > cython.cast(cython.ulonglong, stack.shape[0]):
                fault = STACK_FAULT
                break
            same[index] = cython.cast(cython.uint, index)
            if weight[index] == 0:
                continue
            length: cython.ulonglong = first[index + 1] - low
            hash: cython.ulonglong = length
            for k in range(length >> 1):  # two at a time
                pair: cython.ulonglong = (
                    cython.cast(cython.ulonglong, stack[low + 2 * k]) << 32 | stack[low + 2 * k + 1]
                )
                hash = (hash ^ pair) * cython.cast(cython.ulonglong, 0x9E3779B97F4A7C15)
                hash ^= hash >> 29
            if length & 1:
                hash = (hash ^ stack[low + length - 1]) * cython.cast(cython.ulonglong, 0x9E3779B97F4A7C15)
                hash ^= hash >> 29
            slot: cython.ulonglong = hash & mask
            for probe in range(PROBES):
                if table[slot] == NEVER:
                    table[slot] = cython.cast(cython.uint, index)
                    distinct += 1
                    break
                other: cython.ulonglong = table[slot]
                if other > cython.cast(cython.ulonglong, index):
                    fault = STACK_FAULT
                    break
                if first[other + 1] - first[other] == length:
                    k = 0
                    while k < length and stack[first[other] + k] == stack[low + k]:
                        k += 1
                    if k == length:
                        same[index] = cython.cast(cython.uint, other)
                        weight[other] += weight[index]
                        weight[index] = 0
                        break
                slot = (slot + 1) & mask
            else:
                distinct += 1
    return distinct, fault, 0


def depths(
    first: cython.const[cython.ulonglong][::1],
    stack: cython.const[cython.uint][::1],
    of_location: cython.const[cython.uint][::1],
    weight: cython.const[cython.double][::1],
    limit: cython.uint,
    depth: cython.uint[::1],
) -> tuple[int, int, int]:
    """Set the number of frames of each stack with a weight, at most `limit`. Check every location."""
    index: cython.Py_ssize_t
    k: cython.ulonglong
    stacks: cython.Py_ssize_t = depth.shape[0]
    locations: cython.ulonglong = of_location.shape[0] - 1
    fault: cython.int = 0
    if first.shape[0] != stacks + 1 or weight.shape[0] != stacks or of_location.shape[0] < 1:
        return 0, STACK_FAULT, 0
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for index in range(stacks):
            handle_signals(cython.address(work), 4)
            if fault or first[index + 1] > cython.cast(cython.ulonglong, stack.shape[0]):
                fault = STACK_FAULT
                break
            total: cython.ulonglong = 0
            for k in range(first[index], first[index + 1] if weight[index] > 0 else first[index]):
                if stack[k] >= locations:
                    fault = STACK_FAULT
                    break
                total += of_location[stack[k] + 1] - of_location[stack[k]]
            depth[index] = cython.cast(cython.uint, total) if total < limit else limit
    return stacks, fault, 0


def level(sizes: cython.const[cython.uint][::1], budget: cython.ulonglong, limit: cython.uint) -> int:
    """Return the largest number up to `limit` so that the sum of all sizes, reduced to it, is within the budget."""
    index: cython.Py_ssize_t
    low: cython.ulonglong = 0
    high: cython.ulonglong = limit
    with cython.nogil:
        middle: cython.ulonglong = high
        while low < high:
            total: cython.ulonglong = 0
            for index in range(sizes.shape[0]):
                total += sizes[index] if sizes[index] < middle else middle
            if total <= budget:
                low = middle
            else:
                high = middle - 1
            middle = (low + high + 1) >> 1
    return low


# A stack that moves away from the root: the remaining frames of its location, [until, next), the last first, and the
# number of remaining locations
Walker = cython.struct(
    weight=cython.double,
    cursor=cython.ulonglong,
    left=cython.ulonglong,
    next=cython.uint,
    until=cython.uint,
    place=cython.uint,  # its present place
    end=cython.uint,  # the node where it ends
)
Node = cython.struct(
    total=cython.double,
    parent=cython.uint,
    frame=cython.uint,
    low=cython.uint,  # its stacks are order[low:high]
    high=cython.uint,
    depth=cython.uint,
    first_line=cython.uint,
    next_waiting=cython.uint,  # in its bucket
    line_count=cython.uchar,
    selected=cython.bint,
)

# Waiting nodes are in buckets by weight (exponent and first bits of the fraction): weights in one differ by 0.4 %.
SHIFT = cython.declare(cython.int, 52 - 8)
LIGHTEST = cython.declare(cython.ulonglong, (1023 - 128) << 8)
BUCKETS = cython.declare(cython.Py_ssize_t, 136 << 8)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _bucket(weight: cython.double) -> cython.Py_ssize_t:
    bits: cython.ulonglong = cython.cast(cython.pointer(cython.ulonglong), cython.address(weight))[0] >> SHIFT
    if bits < LIGHTEST:
        return 0
    return min(cython.cast(cython.Py_ssize_t, bits - LIGHTEST), BUCKETS - 1)


@cython.cclass
class Growth:
    """Builds the tree from its root: call `grow` until it returns False, then `lay_out` once.

    Columns of the caller:

        stacks      first, stack; weight (a stack of weight 0 is not in the tree)
        locations   of_location, place; frame and line of each place; `frames` is the number of frames

    Frame number `frames` replaces nodes that are not selected. At most `limit` nodes are selected, none deeper than
    `deepest`, with at most `lines` lines each. The heaviest are selected, to within 0.4 % of their weight; of equal
    nodes the nearest to the root.
    """

    first: cython.const[cython.ulonglong][::1]
    stack: cython.const[cython.uint][::1]
    weight: cython.const[cython.double][::1]
    of_location: cython.const[cython.uint][::1]
    place: cython.const[cython.uint][::1]
    frame_of: cython.const[cython.uint][::1]
    line_of: cython.const[cython.uint][::1]
    frames: cython.uint
    limit: cython.Py_ssize_t
    deepest: cython.uint
    lines: cython.int
    walkers: cython.pointer(Walker)
    order: cython.uint[::1]
    spare: cython.uint[::1]
    child: cython.uint[::1]
    node: cython.pointer(Node)
    head: cython.uint[::1]  # of each bucket: the first and the last waiting node; 0: empty
    tail: cython.uint[::1]
    bucket: cython.Py_ssize_t  # heavier buckets are empty
    # places and frames of the present node
    node_of_frame: cython.uint[::1]
    node_of_place: cython.uint[::1]
    place_weight: cython.double[::1]
    places: cython.uint[::1]
    line: cython.uint[::1]
    nodes: cython.Py_ssize_t
    selected_nodes: cython.Py_ssize_t
    line_rows: cython.Py_ssize_t
    cut: cython.bint
    fault = cython.declare(cython.int, visibility="readonly")

    def __cinit__(self, stacks, locations, frames, limit, deepest, lines, zeros):
        """Start with the root. `zeros(typecode, size)` makes a column. Inconsistent columns set `fault`."""
        self.first, self.stack, self.weight = stacks
        self.of_location, self.place, self.frame_of, self.line_of = locations
        self.frames, self.limit, self.deepest, self.lines = frames, max(limit, 1), deepest, min(lines, 255)
        belong(self.lines > 0)
        count: cython.Py_ssize_t = self.first.shape[0] - 1
        index: cython.Py_ssize_t
        alive: cython.Py_ssize_t = 0
        below: cython.Py_ssize_t = self._count_frames()
        self.bucket = -1
        self.fault = STACK_FAULT if below < 0 else 0
        if self.fault:
            return
        for index in range(count):
            alive += self.weight[index] > 0
        self.order, self.spare, self.child = zeros("I", alive), zeros("I", alive), zeros("I", alive)
        self.head, self.tail = zeros("I", BUCKETS), zeros("I", BUCKETS)
        self.node_of_frame = zeros("I", frames + 1)
        self.node_of_place = zeros("I", self.frame_of.shape[0])
        self.place_weight = zeros("d", self.frame_of.shape[0])
        self.places = zeros("I", self.frame_of.shape[0])
        # waiting nodes have different stacks; a tree has at most as many nodes below its root as its stacks have frames
        nodes: cython.Py_ssize_t = 1 + alive + min(self.limit, below)
        self.line = zeros("I", self.lines * min(self.limit, nodes))
        belong(min(self.order.shape[0], self.spare.shape[0], self.child.shape[0]) >= alive)
        belong(min(self.head.shape[0], self.tail.shape[0]) >= BUCKETS and self.node_of_frame.shape[0] > self.frames)
        belong(min(self.node_of_place.shape[0], self.place_weight.shape[0]) >= self.frame_of.shape[0])
        belong(self.places.shape[0] >= self.frame_of.shape[0])
        belong(self.line.shape[0] >= self.lines * min(self.limit, nodes))
        self.walkers = cython.cast(cython.pointer(Walker), calloc(count + 1, cython.sizeof(Walker)))
        self.node = cython.cast(cython.pointer(Node), calloc(nodes, cython.sizeof(Node)))
        if self.walkers == cython.NULL or self.node == cython.NULL:
            raise MemoryError
        alive = 0
        for index in range(count):
            self.walkers[index].weight = self.weight[index]
            self.walkers[index].cursor = self.first[index + 1]
            self.walkers[index].left = self.first[index + 1] - self.first[index]
            if self.weight[index] > 0:
                self.order[alive] = cython.cast(cython.uint, index)
                alive += 1
        self.node[0].high = cython.cast(cython.uint, alive)
        self.node[0].frame = self.frames
        self.nodes = 1

    def __dealloc__(self):
        free(self.walkers)
        free(self.node)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _count_frames(self) -> cython.Py_ssize_t:
        """Return the number of frames of all stacks; -1 if a column has an invalid index."""
        index: cython.Py_ssize_t
        k: cython.ulonglong
        total: cython.ulonglong = 0
        stacks: cython.Py_ssize_t = self.first.shape[0] - 1
        locations: cython.Py_ssize_t = self.of_location.shape[0] - 1
        if stacks < 0 or locations < 0 or self.weight.shape[0] != stacks:
            return -1
        if self.line_of.shape[0] != self.frame_of.shape[0]:
            return -1
        for index in range(self.frame_of.shape[0]):
            if self.frame_of[index] >= self.frames:
                return -1
        for index in range(self.place.shape[0]):
            if self.place[index] >= cython.cast(cython.ulonglong, self.frame_of.shape[0]):
                return -1
        for index in range(locations):
            if self.of_location[index] > self.of_location[index + 1]:
                return -1
        if self.of_location[locations] > cython.cast(cython.ulonglong, self.place.shape[0]):
            return -1
        for index in range(stacks):
            if self.first[index] > self.first[index + 1] or self.first[index + 1] > cython.cast(
                cython.ulonglong, self.stack.shape[0]
            ):
                return -1
            if self.weight[index] > 0:
                for k in range(self.first[index], self.first[index + 1]):
                    if self.stack[k] >= cython.cast(cython.ulonglong, locations):
                        return -1
                    total += self.of_location[self.stack[k] + 1] - self.of_location[self.stack[k]]
        return total if total < NEVER else NEVER

    def grow(self, steps: cython.longlong) -> bool:
        """Select the heaviest waiting nodes, in at most `steps` steps. Return True if more nodes can be selected."""
        if self.fault:
            return False
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            if self.selected_nodes == 0:
                self._select(0)
                self.bucket = BUCKETS - 1
            while steps > 0 and self.selected_nodes < self.limit:
                handle_signals(cython.address(work), 16)
                while self.bucket >= 0 and self.head[self.bucket] == 0:
                    self.bucket -= 1
                if self.bucket < 0:
                    break
                node: cython.uint = self.head[self.bucket]
                self.head[self.bucket] = self.node[node].next_waiting
                steps -= 1 + self.node[node].high - self.node[node].low
                self._select(node)
        return self.bucket >= 0 and self.selected_nodes < self.limit

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _select(self, node: cython.uint) -> cython.void:
        """Select a node: store its lines and expand it."""
        self.node[node].selected = True
        self.selected_nodes += 1
        if node:
            self._store_lines(node)
        self._expand(node)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _wait(self, node: cython.uint) -> cython.void:
        """Append a node to the bucket of its weight, which is at most its parent's, apart from rounding."""
        bucket: cython.Py_ssize_t = _bucket(self.node[node].total)
        if self.bucket >= 0 and bucket > self.bucket:
            bucket = self.bucket
        if self.head[bucket]:
            self.node[self.tail[bucket]].next_waiting = node
        else:
            self.head[bucket] = node
        self.tail[bucket] = node

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _store_lines(self, node: cython.uint) -> cython.void:
        """Store the known lines of a node's stacks, heaviest first."""
        index: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        rows: cython.Py_ssize_t = 0
        base: cython.Py_ssize_t = self.line_rows
        if self.node[node].high - self.node[node].low == 1:  # like most nodes far from the root
            row: cython.uint = self.walkers[self.order[self.node[node].low]].place
            if self.line_of[row] != 0:
                self.line[base] = self.line_of[row]
                rows = 1
            self.node[node].first_line = cython.cast(cython.uint, base)
            self.node[node].line_count = cython.cast(cython.uchar, rows)
            self.line_rows += rows
            return
        for index in range(self.node[node].low, self.node[node].high):
            walker: cython.pointer(Walker) = cython.address(self.walkers[self.order[index]])
            row = walker.place
            if self.node_of_place[row] != node:
                self.node_of_place[row] = node
                self.place_weight[row] = 0
                self.places[count] = row
                count += 1
            self.place_weight[row] += walker.weight
        for index in range(count):
            row = self.places[index]
            if self.line_of[row] == 0:
                continue
            k: cython.Py_ssize_t = rows if rows < self.lines else self.lines - 1
            if rows == self.lines and self.place_weight[self.line[base + k]] >= self.place_weight[row]:
                continue
            while k > 0 and self.place_weight[self.line[base + k - 1]] < self.place_weight[row]:
                self.line[base + k] = self.line[base + k - 1]
                k -= 1
            self.line[base + k] = row
            if rows < self.lines:
                rows += 1
        for index in range(base, base + rows):
            self.line[index] = self.line_of[self.line[index]]
        self.node[node].first_line = cython.cast(cython.uint, base)
        self.node[node].line_count = cython.cast(cython.uchar, rows)
        self.line_rows += rows

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _expand(self, node: cython.uint) -> cython.void:
        """Move each stack of a node to the child of its next frame; a stack without a next frame ends at the node."""
        index: cython.Py_ssize_t
        base: cython.Py_ssize_t = self.nodes
        low: cython.Py_ssize_t = self.node[node].low
        high: cython.Py_ssize_t = self.node[node].high
        start: cython.Py_ssize_t = low
        below: cython.uint = self.node[node].depth + 1
        too_deep: cython.bint = below > self.deepest
        for index in range(low, high):
            walker: cython.pointer(Walker) = cython.address(self.walkers[self.order[index]])
            while walker.next == walker.until and walker.left > 0:
                walker.left -= 1
                walker.cursor -= 1
                walker.until = self.of_location[self.stack[walker.cursor]]
                walker.next = self.of_location[self.stack[walker.cursor] + 1]
            if walker.next == walker.until:
                walker.end = node
                self.child[index] = 0
                continue
            walker.next -= 1
            walker.place = self.place[walker.next]
            frame: cython.uint = self.frames if too_deep else self.frame_of[walker.place]
            # a single stack makes a single child, which need not be found again
            child: cython.uint = 0 if high - low == 1 else self.node_of_frame[frame]
            if child < base:
                child = cython.cast(cython.uint, self.nodes)
                self.nodes += 1
                if high - low > 1:
                    self.node_of_frame[frame] = child
                self.node[child].parent = node
                self.node[child].frame = frame
                self.node[child].depth = below
            self.node[child].high += 1
            self.node[child].total += walker.weight
            self.child[index] = child
        for index in range(base, self.nodes):
            self.node[index].low = cython.cast(cython.uint, start)
            start += self.node[index].high
            self.node[index].high = self.node[index].low
            if not too_deep:
                self._wait(cython.cast(cython.uint, index))
        self.cut |= too_deep and self.nodes > base
        if self.nodes == base + 1 and start == high:  # all stacks have the same child
            self.node[base].high = cython.cast(cython.uint, high)
            return
        for index in range(low, high):
            child = self.child[index]
            if child:
                self.spare[self.node[child].high] = self.order[index]
                self.node[child].high += 1
        for index in range(low, start):
            self.order[index] = self.spare[index]

    def lay_out(self, same, zeros):
        """Return the selected nodes, and nodes that replace the others, in depth-first order.

        The result is columns (parent, frame, levels from the previous node up to the parent, number of lines, lines;
        the node where each stack ends), the number of replacing nodes, and True if some nodes were too deep. Equal
        stacks end where the first of them, same[s], ends.
        """
        first_of: cython.const[cython.uint][::1] = same
        count: cython.Py_ssize_t = self.nodes
        belong(all_below(first_of, first_of.shape[0], first_of.shape[0]) and (self.fault or self.selected_nodes > 0))
        if self.fault or first_of.shape[0] != self.first.shape[0] - 1:
            return None
        head: cython.uint[::1] = zeros("I", count)
        sibling: cython.uint[::1] = zeros("I", count)
        rest: cython.uint[::1] = zeros("I", count)
        row_of: cython.uint[::1] = zeros("I", count)
        belong(min(head.shape[0], sibling.shape[0], rest.shape[0], row_of.shape[0]) >= count)
        index: cython.Py_ssize_t
        k: cython.Py_ssize_t
        rows: cython.Py_ssize_t = 0
        rests: cython.Py_ssize_t = 0
        lines: cython.Py_ssize_t = 0
        node: cython.uint = 0
        previous: cython.uint = 0
        with cython.nogil:
            for index in range(count - 1, 0, -1):
                if self.node[index].selected:
                    sibling[index] = head[self.node[index].parent]
                    head[self.node[index].parent] = cython.cast(cython.uint, index)
                else:
                    rests += rest[self.node[index].parent] == 0
                    rest[self.node[index].parent] = 1
        rows = self.selected_nodes + rests
        out_parent, out_frame, out_up = zeros("I", rows), zeros("I", rows), zeros("q", rows)
        out_count, out_lines, out_end = zeros("q", rows), zeros("q", self.line_rows), zeros("I", first_of.shape[0])
        parent: cython.uint[::1] = out_parent
        frame: cython.uint[::1] = out_frame
        up: cython.longlong[::1] = out_up
        line_count: cython.longlong[::1] = out_count
        line: cython.longlong[::1] = out_lines
        end: cython.uint[::1] = out_end
        belong(min(parent.shape[0], frame.shape[0], up.shape[0], line_count.shape[0]) >= rows)
        belong(line.shape[0] >= self.line_rows and end.shape[0] >= first_of.shape[0])
        rows = 0
        with cython.nogil:
            while True:
                parent[rows] = row_of[self.node[node].parent]
                frame[rows] = self.node[node].frame
                up[rows] = previous + 1 - self.node[node].depth if node else 0
                previous = self.node[node].depth
                line_count[rows] = self.node[node].line_count
                for k in range(self.node[node].line_count):
                    line[lines] = self.line[self.node[node].first_line + k]
                    lines += 1
                row_of[node] = cython.cast(cython.uint, rows)
                rows += 1
                if head[node]:
                    node = head[node]
                    continue
                while True:  # the node and all below it are written, except the replacing node
                    if rest[node]:
                        parent[rows] = row_of[node]
                        frame[rows] = self.frames
                        up[rows] = previous - self.node[node].depth
                        previous = self.node[node].depth + 1
                        rest[node] = cython.cast(cython.uint, rows)
                        rows += 1
                    if node == 0 or sibling[node]:
                        break
                    node = self.node[node].parent
                if node == 0:
                    break
                node = sibling[node]
            for index in range(1, count):
                if not self.node[index].selected:
                    row_of[index] = rest[self.node[index].parent]
                    for k in range(self.node[index].low, self.node[index].high):
                        self.walkers[self.order[k]].end = cython.cast(cython.uint, index)
            for index in range(first_of.shape[0]):
                end[index] = row_of[self.walkers[first_of[index]].end]
        return out_parent, out_frame, out_up, out_count, out_lines, out_end, rests, bool(self.cut)


def sums(
    of: cython.const[cython.uint][::1],
    values: cython.const[cython.longlong][::1],
    end: cython.const[cython.uint][::1],
    out: cython.longlong[::1],
) -> tuple[int, int, int]:
    """Add each sample's value to the node where its stack ends."""
    index: cython.Py_ssize_t
    fault: cython.int = 0
    if values.shape[0] != of.shape[0]:
        return 0, STACK_FAULT, 0
    belong(all_below(end, end.shape[0], out.shape[0]))
    with cython.nogil:
        for index in range(of.shape[0]):
            if of[index] >= cython.cast(cython.ulonglong, end.shape[0]):
                fault = STACK_FAULT
                break
            out[end[of[index]]] = cython.cast(
                cython.longlong,
                cython.cast(cython.ulonglong, out[end[of[index]]]) + cython.cast(cython.ulonglong, values[index]),
            )
    return of.shape[0], fault, 0


def renumbered(
    frame: cython.const[cython.uint][::1], number: cython.uint[::1], used: cython.uint[::1], out: cython.longlong[::1]
) -> int:
    """Renumber frames in order of their first node; the root has -1. Return the number of frames.

    `number` has a zero for each old frame; used[i] is the old number of frame i.
    """
    index: cython.Py_ssize_t
    count: cython.uint = 0
    if out.shape[0] != frame.shape[0] or used.shape[0] < number.shape[0]:
        return 0
    with cython.nogil:
        for index in range(1, frame.shape[0]):
            if frame[index] >= cython.cast(cython.ulonglong, number.shape[0]):
                continue
            if number[frame[index]] == 0:
                used[count] = frame[index]
                count += 1
                number[frame[index]] = count
            out[index] = cython.cast(cython.longlong, number[frame[index]]) - 1
        if frame.shape[0]:
            out[0] = -1
    return count


def by_frame(
    frame: cython.const[cython.longlong][::1], values: cython.const[cython.longlong][::1], out: cython.double[::1]
) -> None:
    """Add the absolute value of each node to its frame."""
    index: cython.Py_ssize_t
    with cython.nogil:
        for index in range(min(frame.shape[0], values.shape[0])):
            if frame[index] >= 0 and frame[index] < out.shape[0]:
                out[frame[index]] += fabs(cython.cast(cython.double, values[index]))


def packed(values: cython.const[cython.longlong][::1], out: cython.uchar[::1]) -> int:
    """Write the values as zigzag ULEB128 numbers, of at most ten bytes each. Return their size."""
    index: cython.Py_ssize_t
    if values.shape[0] == 0 or out.shape[0] < 10 * values.shape[0]:
        return 0
    cursor: cython.p_uchar = cython.address(out[0])
    with cython.nogil:
        for index in range(values.shape[0]):
            number: cython.ulonglong = cython.cast(cython.ulonglong, values[index]) << 1
            cursor = put_uleb(cursor, ~number if values[index] < 0 else number)
    return cursor - cython.address(out[0])
