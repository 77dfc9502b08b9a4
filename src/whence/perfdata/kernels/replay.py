"""Samples in order of time, with the maps that their processes had at that time.

The input is a complete `Records`. Steps and samples are sorted by time; at equal times steps are first, and file order
is kept. A step changes the maps of a process or the name of a thread. A sample's places become locations: a map and an
address.

    locations  map (NO_NUMBER: none), process (if the same map may have other code in each), address
    stacks     locations, innermost first; each once
    samples    stack, label set, event; each once, with its count and the sum of its periods
    events     in order of time: sample, time, period
    label sets thread, its name at that time (the number of a text), CPU

The maps of a process are a persistent treap: each node belongs to one version. A fork copies only the root; later
changes copy the nodes on their path. So a step costs time and memory in proportion to the logarithm of the number of
maps. Priorities are keyed hashes, so that a file cannot choose the shape of the tree.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memcmp, memset
from cython.cimports.whence.kernels.checks import all_below, belong
from cython.cimports.whence.kernels.columns import Column, append_u32, append_u64, u8s, u32s, u64s
from cython.cimports.whence.kernels.hashtable import (
    WHENCE_GOLDEN,
    HashIndex,
    Probe,
    find_u32,
    find_u64,
    first_match,
    insert,
    mix,
    mix_bytes,
    next_match,
    release_index,
)
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.sort import sort_indexes
from cython.cimports.whence.kernels.vector import U32s, push, push_u32, release, reserve
from cython.cimports.whence.perfdata.kernels import constants as c
from cython.cimports.whence.perfdata.kernels.records import Records
from cython.cimports.whence.perfdata.kernels.replay import CACHE_BITS, CachedLocation, Node, Process, Thread

KERNEL_PID = cython.declare(cython.uint, 0xFFFFFFFF)
MAX_MAPS_SEARCHED = cython.declare(cython.int, 256)
OTHER_MODES = cython.declare(cython.uint, 0xFFFFFFF0)  # plus the mode: the process of places outside all processes
NO_USER = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
NO_PROCESS = cython.declare(cython.Py_ssize_t, -1)
MAX_VALUE = cython.declare(cython.ulonglong, 0x7FFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class Replay:
    """A replay of all samples by `run`.

    To unwind samples, one Replay finds them and the maps of their processes by `gather`; another gets their stacks by
    `set_unwound`, and runs.
    """

    def __cinit__(self, records: Records, seed: cython.ulonglong):
        stacks: cython.Py_ssize_t = records.stack_pid.vector.count
        self.records = records
        self.seed = seed
        self.stack_first, self.stack_item = Column("Q", True), Column("I", True)
        self.location_map, self.location_pid = Column("I", True), Column("I", True)
        self.location_address = Column("Q", True)
        self.sample_stack, self.sample_set = Column("I", True), Column("I", True)
        self.sample_event = Column("I", True)
        self.sample_count, self.sample_period = Column("Q", True), Column("Q", True)
        self.event_sample, self.event_time = Column("I", True), Column("Q", True)
        self.event_period = Column("Q", True)
        self.set_thread, self.set_comm, self.set_cpu = Column("Q", True), Column("I", True), Column("I", True)
        if (
            push(cython.address(self.nodes), cython.sizeof(Node)) == cython.NULL
            or not self.stack_first.push_u64(0)
            or not reserve(cython.address(self.memo_epoch), stacks + 1, 8)
            or not reserve(cython.address(self.memo_stack), stacks + 1, 4)
            or not reserve(cython.address(self.scratch), 64, 4)
        ):
            raise MemoryError
        memset(self.nodes.items, 0, cython.sizeof(Node))
        memset(self.memo_epoch.items, 0, 8 * (stacks + 1))
        self.memo_epoch.count = stacks + 1
        self.cache = cython.cast(
            cython.pointer[CachedLocation],
            calloc(cython.cast(cython.size_t, 1) << CACHE_BITS, cython.sizeof(CachedLocation)),
        )
        if self.cache == cython.NULL:
            raise MemoryError
        self.epoch = 1
        self.kernel = self._process(KERNEL_PID)
        if self.kernel < 0 or not ordered(records.step_time, cython.address(self.step_order)):
            raise MemoryError
        if not ordered(records.sample_time, cython.address(self.sample_order)):
            raise MemoryError

    def __dealloc__(self):
        release(cython.address(self.nodes))
        release(cython.address(self.processes))
        release(cython.address(self.threads))
        release_index(cython.address(self.process_index))
        release_index(cython.address(self.thread_index))
        release(cython.address(self.step_order))
        release(cython.address(self.sample_order))
        release(cython.address(self.memo_epoch))
        release(cython.address(self.memo_stack))
        release_index(cython.address(self.stack_index))
        release_index(cython.address(self.location_index))
        release_index(cython.address(self.set_index))
        release_index(cython.address(self.sample_index))
        release(cython.address(self.scratch))
        free(self.cache)

    def run(self) -> None:
        """Replay all samples."""
        samples: cython.Py_ssize_t = self.sample_order.count
        raw: cython.p_uint = u32s(self.records.sample_stack)
        process: cython.Py_ssize_t = NO_PROCESS
        belong(self.records.stack_pid.vector.count < self.memo_epoch.count)  # no records were read since
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            while self.next_sample < samples and not self.failed:
                handle_signals(cython.address(work), 64)
                sample: cython.uint = self.sample_order.items[self.next_sample]
                process = self._advance(sample, process)
                if process < 0:
                    stack: cython.Py_ssize_t = -1
                elif self.has_unwound and self.unwound_count[sample]:
                    stack = self._resolve_unwound(sample, process)
                else:
                    stack = self._resolve(raw[sample], process)
                if stack < 0 or not self._add(sample, cython.cast(cython.uint, stack)):
                    self.failed = True
                    break
                self.next_sample += 1
        if self.failed:
            raise MemoryError

    def gather(self, samples: Column, keys: Column, limit: cython.Py_ssize_t) -> int:
        """Append samples with registers or stack copies to `samples`, and the key of each to `keys`.

        Returns END after the last sample, FULL when `limit` samples are gathered, or the number of the next sample if
        the maps of its process changed: its setting is now number `setting_count`.

        A key is the number of the setting << SETTING_SHIFT, and bits that distinguish streams and events. A process
        keeps its setting while its maps don't change, apart from generated code at addresses without code.
        """
        count: cython.Py_ssize_t = self.sample_order.count
        user: cython.p_ulonglong = u64s(self.records.sample_user)
        process: cython.Py_ssize_t = NO_PROCESS
        event: cython.p_uint = u32s(self.records.sample_event)
        result: cython.longlong = c.END
        belong(samples is not None and samples.takes(4) and keys is not None and keys.takes(8))
        belong(samples is not keys and samples.vector.count == keys.vector.count)
        belong(self.records.sample_user.vector.count >= count)
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            while self.next_sample < count and not self.failed:
                handle_signals(cython.address(work), 64)
                sample: cython.uint = self.sample_order.items[self.next_sample]
                process = self._advance(sample, process)
                if process < 0 or self.failed:
                    self.failed = True
                    break
                if user[sample] != NO_USER:
                    if samples.vector.count >= limit:
                        result = c.FULL
                        break
                    row: cython.pointer[Process] = self._row(process)
                    if row.setting == 0 or row.setting_epoch != row.changed:
                        self.setting_count += 1
                        row.setting = self.setting_count
                        row.setting_epoch = row.changed
                        result = sample
                        break
                    key: cython.ulonglong = (cython.cast(cython.ulonglong, row.setting) << c.SETTING_SHIFT) | (
                        user[sample] >> c.SOURCE_SHIFT << c.SOURCE_BITS
                    )
                    key |= event[sample] & (1 << c.SOURCE_BITS) - 1
                    if not samples.push_u32(sample) or not keys.push_u64(key):
                        self.failed = True
                        break
                self.next_sample += 1
        if self.failed:
            raise MemoryError
        return result

    def set_unwound(
        self,
        addresses: cython.const[cython.ulonglong][::1],
        first: cython.const[cython.ulonglong][::1],
        count: cython.const[cython.uint][::1],
    ) -> None:
        """Replace the user code of each sample's stack by addresses[first:][:count], unless count is 0."""
        sample: cython.Py_ssize_t
        total: cython.ulonglong = addresses.shape[0]
        belong(first.shape[0] == self.sample_order.count and count.shape[0] == self.sample_order.count)
        belong(self.next_sample == 0)
        for sample in range(count.shape[0]):
            belong(first[sample] <= total and count[sample] <= total - first[sample])
        self.unwound = addresses
        self.unwound_first = first
        self.unwound_count = count
        self.has_unwound = count.shape[0] > 0

    def _advance(self, sample, process):
        """Apply the steps before a sample. Return the row of its process; `process` is that of the previous sample."""
        steps: cython.Py_ssize_t = self.step_order.count
        step_time: cython.p_ulonglong = u64s(self.records.step_time)
        time: cython.ulonglong = u64s(self.records.sample_time)[sample]
        thread: cython.ulonglong = u64s(self.records.sample_thread)[sample]
        while self.next_step < steps and step_time[self.step_order.items[self.next_step]] <= time:
            self._step(self.step_order.items[self.next_step])
            self.next_step += 1
        if process < 0 or self._row(process).pid != thread >> 32:
            process = self._process(cython.cast(cython.uint, thread >> 32))
        if process >= 0 and self._row(process).old_root:
            self._drop_old_program(u32s(self.records.sample_stack)[sample], process)
        return process

    def _resolve_unwound(self, sample, process):
        """Return the stack of an unwound sample: its places outside user code, then the addresses. -1: no memory."""
        stack: cython.uint = u32s(self.records.sample_stack)[sample]
        first: cython.p_ulonglong = u64s(self.records.stack_first)
        items: cython.p_uint = u32s(self.records.stack_item)
        modes: cython.p_uchar = u8s(self.records.place_mode)
        pid: cython.uint = self._row(process).pid
        now: cython.ulonglong = self._row(process).epoch  # unique to the process
        index: cython.ulonglong
        self.scratch.count = 0
        for index in range(first[stack], first[stack + 1]):
            if modes[items[index]] != c.IN_USER and not self._push(self._locate(items[index], pid, process)):
                return -1
        for index in range(self.unwound_first[sample], self.unwound_first[sample] + self.unwound_count[sample]):
            address: cython.ulonglong = self.unwound[index]
            cached: cython.pointer[CachedLocation] = cython.address(
                self.cache[((address ^ now) * WHENCE_GOLDEN) >> (64 - CACHE_BITS)]
            )
            if cached.epoch != now or cached.address != address:
                location: cython.Py_ssize_t = self._locate_user(address, pid, process)
                if location < 0:
                    return -1
                cached.epoch = now
                cached.address = address
                cached.location = cython.cast(cython.uint, location)
            if not self._push(cached.location):
                return -1
        return self._stack()

    def _push(self, location):
        """Append a location to `scratch`. False if it is -1, or memory runs out."""
        return location >= 0 and push_u32(cython.address(self.scratch), cython.cast(cython.uint, location))

    def maps_of(self, pid: cython.uint) -> list:
        """Return start, end and number of the present maps of a process, in order of address."""
        process: cython.Py_ssize_t = self._process(pid)
        return self._listed(self._row(process).root) if process >= 0 else []

    def code_of(self, pid: cython.uint) -> list:
        """Return start, end and number of the present generated code of a process, in order of address."""
        process: cython.Py_ssize_t = self._process(pid)
        return self._listed(self._row(process).code) if process >= 0 else []

    def _listed(self, node):
        pending: list = []
        extents: list = []
        while node or pending:
            if node:
                pending.append(node)
                node = self._node(node).left
            else:
                node = pending.pop()
                extents.append((self._node(node).start, self._node(node).end, self._node(node).map))
                node = self._node(node).right
        return extents

    def _add(self, sample, stack):
        """Add a sample with its stack. False if memory runs out."""
        thread: cython.ulonglong = u64s(self.records.sample_thread)[sample]
        period: cython.ulonglong = min(u64s(self.records.sample_period)[sample], MAX_VALUE)
        labels: cython.Py_ssize_t = self._labels(thread, u32s(self.records.sample_cpu)[sample])
        row: cython.Py_ssize_t = -1
        if labels >= 0:
            event: cython.uint = u32s(self.records.sample_event)[sample]
            row = self._sample(stack, cython.cast(cython.uint, labels), event, period)
        return (
            row >= 0
            and self.event_sample.push_u32(cython.cast(cython.uint, row))
            and self.event_time.push_u64(u64s(self.records.sample_time)[sample])
            and self.event_period.push_u64(period)
        )

    # processes and threads

    def _row(self, process):
        return cython.cast(cython.pointer[Process], self.processes.items) + process

    def _node(self, node):
        return cython.cast(cython.pointer[Node], self.nodes.items) + node

    def _process(self, pid):
        """Return the row of a process, which may be new; -1 if memory runs out."""
        index: cython.pointer[HashIndex] = cython.address(self.process_index)
        row: cython.Py_ssize_t = find_u32(index, self.processes.items, cython.sizeof(Process), pid, self.seed)
        if row >= 0:
            return row
        process: cython.pointer[Process] = cython.cast(
            cython.pointer[Process], push(cython.address(self.processes), cython.sizeof(Process))
        )
        if process == cython.NULL:
            return -1
        memset(process, 0, cython.sizeof(Process))
        self.owners += 1
        self.epoch += 1
        process.pid = pid
        process.owner = self.owners
        process.epoch = process.changed = self.epoch
        return self.processes.count - 1 if insert(index, mix(pid, self.seed), self.processes.count - 1) else -1

    def _thread(self, thread):
        """Return the row of a thread, which may be new; -1 if memory runs out."""
        index: cython.pointer[HashIndex] = cython.address(self.thread_index)
        row: cython.Py_ssize_t = find_u64(index, self.threads.items, cython.sizeof(Thread), thread, self.seed)
        if row >= 0:
            return row
        new: cython.pointer[Thread] = cython.cast(
            cython.pointer[Thread], push(cython.address(self.threads), cython.sizeof(Thread))
        )
        if new == cython.NULL:
            return -1
        new.thread = thread
        new.comm = new.label_set = 0
        return self.threads.count - 1 if insert(index, mix(thread, self.seed), self.threads.count - 1) else -1

    def _step(self, step):
        """Apply a step."""
        kind: cython.uint = u32s(self.records.step_kind)[step]
        a: cython.ulonglong = u64s(self.records.step_a)[step]
        b: cython.ulonglong = u64s(self.records.step_b)[step]
        pid: cython.uint = cython.cast(cython.uint, a >> 32)
        if kind == c.STEP_COMM:
            thread: cython.Py_ssize_t = self._thread(a)
            if thread < 0:
                self.failed = True
                return
            cython.cast(cython.pointer[Thread], self.threads.items)[thread].comm = cython.cast(cython.uint, b)
            return
        process: cython.Py_ssize_t = self._process(pid)
        if process < 0:
            self.failed = True
            return
        if kind == c.STEP_MAP or kind == c.STEP_UNMAP:
            self._map(process, cython.cast(cython.uint, b), kind == c.STEP_MAP)
        elif kind == c.STEP_EXEC:
            root: cython.uint = self._row(process).root
            self._forget(process)
            self._row(process).old_root = root
        elif kind == c.STEP_FORK_EMPTY and pid != b >> 32:
            self._forget(process)
        elif kind == c.STEP_FORK:
            parent: cython.Py_ssize_t = self._thread(b)
            comm: cython.uint = (
                0 if parent < 0 else cython.cast(cython.pointer[Thread], self.threads.items)[parent].comm
            )
            thread = self._thread(a)
            if thread < 0:
                self.failed = True
                return
            cython.cast(cython.pointer[Thread], self.threads.items)[thread].comm = comm
            if pid == b >> 32:
                return
            parent = self._process(cython.cast(cython.uint, b >> 32))
            if parent < 0:
                self.failed = True
                return
            self._forget(process)
            self._row(process).root = self._row(parent).root
            self._row(process).code = self._row(parent).code
            self.owners += 1
            self._row(parent).owner = self.owners

    def _drop_old_program(self, stack, process):
        """Forget the program before an exec when the first code of the new program runs.

        Until then samples, in execve, have the registers of the old program.
        """
        first: cython.p_ulonglong = u64s(self.records.stack_first)
        items: cython.p_uint = u32s(self.records.stack_item)
        modes: cython.p_uchar = u8s(self.records.place_mode)
        if first[stack] < first[stack + 1] and modes[items[first[stack]]] == c.IN_USER:
            self.epoch += 1
            self._row(process).old_root = 0
            self._row(process).epoch = self._row(process).changed = self.epoch

    def _forget(self, process):
        """Remove all maps of a process."""
        self.owners += 1
        self.epoch += 1
        self._row(process).root = self._row(process).old_root = self._row(process).code = 0
        self._row(process).owner = self.owners
        self._row(process).epoch = self._row(process).changed = self.epoch

    # maps

    def _map(self, process, map, is_mapped):
        """Add a map to a process, in place of what it had at these addresses; or remove it."""
        if map >= self.records.map_start.vector.count:
            return
        start: cython.ulonglong = u64s(self.records.map_start)[map]
        end: cython.ulonglong = start + u64s(self.records.map_size)[map]
        owner: cython.uint = self._row(process).owner
        right: cython.uint = 0
        if end < start:
            end = NO_USER  # up to the last address
        if end == start:
            return
        is_code: cython.bint = process != self.kernel and u32s(self.records.map_flags)[map] & c.MAP_CODE
        root: cython.uint = self._row(process).code if is_code else self._row(process).root
        budget: cython.int = MAX_MAPS_SEARCHED
        is_quiet: cython.bint  # the change does not affect unwinding
        if is_code:
            is_quiet = is_mapped and root != 0 and not self._is_taken(root, start, end)
        else:
            is_quiet = self._is_data(process, map) and not self._has_code(
                process, root, start, end, cython.address(budget)
            )
        left: cython.uint = self._cleared(root, start, end, owner, cython.address(right))
        if is_mapped:
            node: cython.uint = self._new_node(start, end, map, owner)
            left = self._merge(left, node, owner)
        left = self._merge(left, right, owner)
        if is_code:
            self._row(process).code = left
        else:
            self._row(process).root = left
        self.epoch += 1
        self._row(process).epoch = self.epoch
        if not is_quiet:
            self._row(process).changed = self.epoch

    def _is_data(self, process, map):
        """Return True if a map has no code. In a process with generated code, that code may be in maps of data."""
        flags: cython.uint = u32s(self.records.map_flags)[map]
        return flags & c.MAP_DATA and (self._row(process).code == 0 or not flags & c.MAP_GENERATED)

    def _has_code(self, process, node, start, end, budget):
        """Return True if a map of code overlaps a range, or `budget` maps were searched."""
        while node:
            if budget[0] <= 0:
                return True
            budget[0] -= 1
            if end <= self._node(node).start:
                node = self._node(node).left
            elif start >= self._node(node).end:
                node = self._node(node).right
            else:
                if not self._is_data(process, self._node(node).map):
                    return True
                if self._has_code(process, self._node(node).left, start, end, budget):
                    return True
                node = self._node(node).right
        return False

    def _is_taken(self, root, start, end):
        """Return True if a map of a tree overlaps a range."""
        while root:
            if end <= self._node(root).start:
                root = self._node(root).left
            elif start >= self._node(root).end:
                root = self._node(root).right
            else:
                break
        return root != 0

    def _new_node(self, start, end, map, owner):
        node: cython.pointer[Node] = cython.cast(
            cython.pointer[Node], push(cython.address(self.nodes), cython.sizeof(Node))
        )
        if node == cython.NULL:
            self.failed = True
            return 0
        node.start = start
        node.end = end
        node.map = map
        node.priority = cython.cast(cython.uint, mix(self.nodes.count, self.seed))
        node.left = node.right = 0
        node.owner = owner
        return cython.cast(cython.uint, self.nodes.count - 1)

    def _owned(self, node, owner):
        """Return the node, or a copy if another version owns it; 0 for node 0."""
        if node == 0 or self._node(node).owner == owner:
            return node
        copy: cython.uint = self._new_node(self._node(node).start, self._node(node).end, self._node(node).map, owner)
        if copy:
            self._node(copy).priority = self._node(node).priority
            self._node(copy).left = self._node(node).left
            self._node(copy).right = self._node(node).right
        return copy

    def _merge(self, left, right, owner):
        """Join two trees; the left tree is before the right tree."""
        if left == 0:
            return right
        if right == 0:
            return left
        if self._node(left).priority > self._node(right).priority:
            left = self._owned(left, owner)
            if left:
                child: cython.uint = self._merge(self._node(left).right, right, owner)
                self._node(left).right = child
            return left
        right = self._owned(right, owner)
        if right:
            child = self._merge(left, self._node(right).left, owner)
            self._node(right).left = child
        return right

    def _split(self, node, address, owner, left, right):
        """Split a tree into ranges that start before an address, and the others."""
        inner: cython.uint = 0
        outer: cython.uint = 0
        left[0] = right[0] = 0
        node = self._owned(node, owner)
        if node == 0:
            return
        if self._node(node).start < address:
            self._split(self._node(node).right, address, owner, cython.address(inner), cython.address(outer))
            self._node(node).right = inner
            left[0] = node
            right[0] = outer
        else:
            self._split(self._node(node).left, address, owner, cython.address(outer), cython.address(inner))
            self._node(node).left = inner
            left[0] = outer
            right[0] = node

    def _cut_last(self, node, address, owner, end, map):
        """End the last range of a tree at an address. If it was longer, set `end` and `map` to what it had."""
        node = self._owned(node, owner)
        if node == 0:
            return 0
        if self._node(node).right:
            child: cython.uint = self._cut_last(self._node(node).right, address, owner, end, map)
            self._node(node).right = child
        elif self._node(node).end > address:
            end[0] = self._node(node).end
            map[0] = self._node(node).map
            self._node(node).end = address
        return node

    def _cleared(self, root, start, end, owner, right):
        """Remove a range from a tree. Return the tree before it, and set `right` to the tree after it."""
        left: cython.uint = 0
        middle: cython.uint = 0
        map: cython.uint = 0
        tail: cython.ulonglong = 0
        self._split(root, start, owner, cython.address(left), cython.address(middle))
        self._split(middle, end, owner, cython.address(middle), right)
        left = self._cut_last(left, start, owner, cython.address(tail), cython.address(map))
        if middle:
            while self._node(middle).right:
                middle = self._node(middle).right
            tail = self._node(middle).end
            map = self._node(middle).map
        if tail > end:
            right[0] = self._merge(self._new_node(end, tail, map, owner), right[0], owner)
        return left

    def _find(self, root, address):
        """Return the node that contains an address; 0 if no node does."""
        while root:
            node: cython.pointer[Node] = self._node(root)
            if address < node.start:
                root = node.left
            elif address >= node.end:
                root = node.right
            else:
                break
        return root

    # locations, stacks and labels

    def _locate(self, place, pid, process):
        """Return the present location of a place; -1 if memory runs out."""
        address: cython.ulonglong = u64s(self.records.place_address)[place]
        mode: cython.uint = u8s(self.records.place_mode)[place]
        if mode == c.IN_USER:
            return self._locate_user(address, pid, process)
        if mode == c.IN_KERNEL:
            node: cython.uint = self._find(self._row(self.kernel).root, address)
            return self._location(self._node(node).map if node else c.NO_NUMBER, KERNEL_PID, address)
        return self._location(c.NO_NUMBER, OTHER_MODES | mode, address)

    def _locate_user(self, address, pid, process):
        """Return the present location of an address in user code; -1 if memory runs out."""
        node: cython.uint = self._find(self._row(process).root, address)
        if node == 0 and self._row(process).old_root:
            node = self._find(self._row(process).old_root, address)
        flags: cython.uint = c.MAP_GENERATED if node == 0 else self._flags_of(node)
        if flags & c.MAP_GENERATED and self._row(process).code:
            code: cython.uint = self._find(self._row(process).code, address)
            if code:
                return self._location(self._node(code).map, 0, address)
        if node == 0:
            return self._location(c.NO_NUMBER, pid, address)
        return self._location(self._node(node).map, pid if flags & c.MAP_GENERATED else 0, address)

    def _flags_of(self, node):
        return u32s(self.records.map_flags)[self._node(node).map]

    def _location(self, map, pid, address):
        """Return the number of a location, which may be new; -1 if memory runs out."""
        index: cython.pointer[HashIndex] = cython.address(self.location_index)
        hash: cython.ulonglong = mix(address ^ mix(pid ^ map, self.seed), self.seed)
        number: cython.Py_ssize_t = self.location_map.vector.count
        probe: Probe = first_match(index, hash)
        while next_match(index, cython.address(probe)):
            if (
                u64s(self.location_address)[probe.item] == address
                and u32s(self.location_map)[probe.item] == map
                and u32s(self.location_pid)[probe.item] == pid
            ):
                return probe.item
        if not (
            self.location_map.push_u32(map)
            and self.location_pid.push_u32(pid)
            and self.location_address.push_u64(address)
            and insert(index, hash, number)
        ):
            return -1
        return number

    def _stack(self):
        """Return the number of the stack in `scratch`, which may be new; -1 if memory runs out."""
        index: cython.pointer[HashIndex] = cython.address(self.stack_index)
        size: cython.size_t = 4 * self.scratch.count
        hash: cython.ulonglong = mix_bytes(cython.cast(cython.p_uchar, self.scratch.items), size, self.seed)
        number: cython.Py_ssize_t = self.stack_first.vector.count - 1
        row: cython.Py_ssize_t
        probe: Probe = first_match(index, hash)
        while next_match(index, cython.address(probe)):
            first: cython.p_ulonglong = u64s(self.stack_first) + probe.item
            if 4 * (first[1] - first[0]) == size and (
                size == 0 or memcmp(u32s(self.stack_item) + first[0], self.scratch.items, size) == 0
            ):
                return probe.item
        if not (self.stack_item.reserve(self.scratch.count) and self.stack_first.reserve(1)):
            return -1
        for row in range(self.scratch.count):
            append_u32(self.stack_item, self.scratch.items[row])
        append_u64(self.stack_first, self.stack_item.vector.count)
        return number if insert(index, hash, number) else -1

    def _resolve(self, stack, process):
        """Return the present stack of a recorded stack, cached until maps change; -1 if memory runs out."""
        now: cython.ulonglong = max(self._row(process).epoch, self._row(self.kernel).epoch)
        first: cython.p_ulonglong = u64s(self.records.stack_first)
        items: cython.p_uint = u32s(self.records.stack_item)
        pid: cython.uint = self._row(process).pid
        index: cython.ulonglong
        if self.memo_epoch.items[stack] == now:
            return self.memo_stack.items[stack]
        self.scratch.count = 0
        for index in range(first[stack], first[stack + 1]):
            if not self._push(self._locate(items[index], pid, process)):
                return -1
        number: cython.Py_ssize_t = self._stack()
        if number >= 0:
            self.memo_epoch.items[stack] = now
            self.memo_stack.items[stack] = cython.cast(cython.uint, number)
        return number

    def _labels(self, thread, cpu):
        """Return the number of a label set: thread, its present name, CPU. -1 if memory runs out."""
        index: cython.pointer[HashIndex] = cython.address(self.set_index)
        row: cython.Py_ssize_t = self._thread(thread)
        if row < 0:
            return -1
        state: cython.pointer[Thread] = cython.cast(cython.pointer[Thread], self.threads.items) + row
        comm: cython.uint = state.comm
        number: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, state.label_set) - 1
        if number >= 0 and u32s(self.set_comm)[number] == comm and u32s(self.set_cpu)[number] == cpu:
            return number
        hash: cython.ulonglong = self._triple_hash(thread, comm, cpu)
        probe: Probe = first_match(index, hash)
        while next_match(index, cython.address(probe)):
            if (
                u64s(self.set_thread)[probe.item] == thread
                and u32s(self.set_comm)[probe.item] == comm
                and u32s(self.set_cpu)[probe.item] == cpu
            ):
                state.label_set = probe.item + 1
                return probe.item
        number = self.set_thread.vector.count
        if not (
            self.set_thread.push_u64(thread)
            and self.set_comm.push_u32(comm)
            and self.set_cpu.push_u32(cpu)
            and insert(index, hash, number)
        ):
            return -1
        return number

    def _sample(self, stack, labels, event, period):
        """Add a sample to its equals. Return their row, which may be new; -1 if memory runs out."""
        index: cython.pointer[HashIndex] = cython.address(self.sample_index)
        hash: cython.ulonglong = self._triple_hash(stack, labels, event)
        periods: cython.p_ulonglong = u64s(self.sample_period)
        row: cython.Py_ssize_t = self.sample_stack.vector.count
        probe: Probe = first_match(index, hash)
        while next_match(index, cython.address(probe)):
            if (
                u32s(self.sample_stack)[probe.item] == stack
                and u32s(self.sample_set)[probe.item] == labels
                and u32s(self.sample_event)[probe.item] == event
            ):
                u64s(self.sample_count)[probe.item] += 1
                periods[probe.item] += min(period, MAX_VALUE - periods[probe.item])
                return probe.item
        if not (
            self.sample_stack.push_u32(stack)
            and self.sample_set.push_u32(labels)
            and self.sample_event.push_u32(event)
            and self.sample_count.push_u64(1)
            and self.sample_period.push_u64(period)
            and insert(index, hash, row)
        ):
            return -1
        return row

    def _triple_hash(self, first, second, third):
        return mix(first ^ mix(cython.cast(cython.ulonglong, second) << 32 | third, self.seed), self.seed)


def grouped(samples: Column, keys: Column) -> tuple:
    """Group samples by key: return the samples (Column of I), the distinct keys, and the end of each group."""
    order: U32s
    out: Column = Column("I")
    groups: Column = Column("Q")
    ends: Column = Column("Q")
    row: cython.Py_ssize_t
    good: cython.bint = True
    belong(samples is not None and samples.typecode == "I" and keys is not None and keys.typecode == "Q")
    belong(samples.vector.count == keys.vector.count)
    memset(cython.address(order), 0, cython.sizeof(U32s))
    if not ordered(keys, cython.address(order)):
        raise MemoryError
    with cython.nogil:
        for row in range(samples.vector.count):
            key: cython.ulonglong = u64s(keys)[order.items[row]]
            if row == 0 or key != u64s(groups)[groups.vector.count - 1]:
                good = good and groups.push_u64(key) and ends.push_u64(row)
            good = good and out.push_u32(u32s(samples)[order.items[row]])
            if not good:
                break
            u64s(ends)[ends.vector.count - 1] = row + 1
    release(cython.address(order))
    if not good:
        raise MemoryError
    return out, groups, ends


@cython.cfunc
@cython.exceptval(check=False)
def ordered(keys: Column, out: cython.pointer[U32s]) -> cython.bint:
    """Sort the rows of a column of numbers, keeping the order of equal numbers. False if memory runs out."""
    count: cython.Py_ssize_t = keys.vector.count
    row: cython.Py_ssize_t
    other: cython.p_uint = cython.cast(cython.p_uint, malloc(4 * (count + 1)))
    if other == cython.NULL or not reserve(out, count + 1, 4):
        free(other)
        return False
    with cython.nogil:
        for row in range(count):
            out.items[row] = cython.cast(cython.uint, row)
        moved: cython.bint = sort_indexes(u64s(keys), out.items, other, count)
    out.count = count
    if moved:
        free(out.items)
        out.items = other
        out.capacity = count + 1
    else:
        free(other)
    return True


def of_kind(
    kinds: cython.const[cython.uint][::1],
    rows: cython.const[cython.uint][::1],
    values: cython.const[cython.ulonglong][::1],
    kind: cython.uint,
    out: cython.longlong[::1],
) -> None:
    """Set out[i] to values[i] if kinds[rows[i]] is `kind`, else to 0."""
    row: cython.Py_ssize_t
    belong(
        values.shape[0] == out.shape[0]
        and rows.shape[0] == out.shape[0]
        and all_below(rows, rows.shape[0], kinds.shape[0])
    )
    with cython.nogil:
        for row in range(out.shape[0]):
            out[row] = cython.cast(cython.longlong, values[row]) if kinds[rows[row]] == kind else 0
