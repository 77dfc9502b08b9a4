"""Samples in order of time, each named by what its process had mapped then.

In: `Records`, whole. Steps and samples are put in order of time, of equal times in that of the file, steps first. A
step changes the maps of a process or the name of a thread; a sample's places become locations: a map and an address.

    locations  map (NO_NUMBER: none), process (where the same map may hold other code in each), address
    stacks     of locations, innermost first, each once
    samples    stack, label set, event: each once, with how many there were and the sum of their periods
    events     in order of time: which sample, when, its period
    label sets thread, its name then (the number of a text), CPU

The maps of a process are a treap whose nodes belong to one version: a fork copies nothing but the root, and what is
changed later is copied on the way down. So a step costs the logarithm of the maps, and memory for as many nodes,
whatever forks when. Priorities are keyed hashes: a file cannot choose the shape of the tree.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memcmp, memset
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column, u8s, u32s, u64s
from cython.cimports.whence.kernels.hashtable import (
    WHENCE_GOLDEN,
    HashTable,
    fill_slot,
    first_slot,
    is_crowded,
    make_slots,
    mix,
    mix_bytes,
    next_slot,
    put_item,
    release_slots,
)
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.sort import sort_indexes
from cython.cimports.whence.kernels.vector import U32s, push, push_u32, push_u64, release, reserve
from cython.cimports.whence.perfdata.kernels import constants as c
from cython.cimports.whence.perfdata.kernels.records import Records
from cython.cimports.whence.perfdata.kernels.replay import SEEN_BITS, Node, Process, Seen, Thread

KERNEL_PID = cython.declare(cython.uint, 0xFFFFFFFF)
MOST_LOOKED_AT = cython.declare(cython.int, 256)  # maps, to find out whether code goes
OTHER_MODES = cython.declare(cython.uint, 0xFFFFFFF0)  # the process of a place in no process's memory: + its mode
NO_USER = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
NO_PROCESS = cython.declare(cython.Py_ssize_t, -1)
MOST = cython.declare(cython.ulonglong, 0x7FFFFFFFFFFFFFFF)  # that a value can be


@cython.final
@cython.cclass
class Replay:
    """`run` does all of it. `gather` only says which samples have registers and stack bytes, and when what their
    processes have mapped changes; another Replay gets what they were unwound to by `set_unwound`."""

    def __cinit__(self, records: Records, seed: cython.ulonglong):
        stacks: cython.Py_ssize_t = records.stack_hash.count
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
            not make_slots(cython.address(self.process_slots), 0)
            or not make_slots(cython.address(self.thread_slots), 0)
            or not make_slots(cython.address(self.stack_slots), 0)
            or not make_slots(cython.address(self.location_slots), 0)
            or not make_slots(cython.address(self.set_slots), 0)
            or not make_slots(cython.address(self.sample_slots), 0)
            or push(cython.address(self.nodes), cython.sizeof(Node)) == cython.NULL
            or not self.stack_first.push_u64(0)
            or not reserve(cython.address(self.memo_epoch), stacks + 1, 8)
            or not reserve(cython.address(self.memo_stack), stacks + 1, 4)
            or not reserve(cython.address(self.scratch), 64, 4)
        ):
            raise MemoryError
        memset(self.nodes.items, 0, cython.sizeof(Node))
        memset(self.memo_epoch.items, 0, 8 * (stacks + 1))
        self.memo_epoch.count = stacks + 1
        self.seen = cython.cast(
            cython.pointer[Seen], calloc(cython.cast(cython.size_t, 1) << SEEN_BITS, cython.sizeof(Seen))
        )
        if self.seen == cython.NULL:
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
        release_slots(cython.address(self.process_slots))
        release_slots(cython.address(self.thread_slots))
        release(cython.address(self.step_order))
        release(cython.address(self.sample_order))
        release(cython.address(self.memo_epoch))
        release(cython.address(self.memo_stack))
        release(cython.address(self.stack_hash))
        release_slots(cython.address(self.stack_slots))
        release_slots(cython.address(self.location_slots))
        release_slots(cython.address(self.set_slots))
        release_slots(cython.address(self.sample_slots))
        release(cython.address(self.scratch))
        free(self.seen)

    def run(self) -> None:
        """Go over all samples."""
        samples: cython.Py_ssize_t = self.sample_order.count
        raw: cython.p_uint = u32s(self.records.sample_stack)
        sample: cython.uint
        number: cython.uint = 0
        process: cython.Py_ssize_t = NO_PROCESS
        good: cython.bint
        belong(self.records.stack_hash.count < self.memo_epoch.count)  # no records were read since
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            while self.sample_at < samples and not self.failed:
                handle_signals(cython.address(work), 64)
                sample = self.sample_order.items[self.sample_at]
                process = self._go_to(sample, process)
                good = process >= 0
                if good and self.has_unwound and self.unwound_count[sample]:
                    good = self._resolve_unwound(sample, process, cython.address(number))
                elif good:
                    good = self._resolve(raw[sample], process, cython.address(number))
                if not good:
                    self.failed = True
                    break
                self._add(sample, number)
                self.sample_at += 1
        if self.failed:
            raise MemoryError

    def gather(self, samples: Column, settings: Column, most: cython.Py_ssize_t) -> int:
        """Go on to the end (END), until `most` samples are gathered (FULL), or to a sample whose process has other
        maps than at the one before: its number. The setting of that process is `settings_met` from there on.

        Samples with registers or stack bytes are put into `samples`. Those of which one process had the same maps, but
        for generated code that came to lie where none was, have the same number in `settings` >> SETTING_SHIFT; what is
        below keeps streams and events apart.
        """
        count: cython.Py_ssize_t = self.sample_order.count
        user: cython.p_ulonglong = u64s(self.records.sample_user)
        sample: cython.uint
        process: cython.Py_ssize_t = NO_PROCESS
        event: cython.p_uint = u32s(self.records.sample_event)
        row: cython.pointer[Process]
        key: cython.ulonglong
        found: cython.longlong = c.END
        belong(samples is not None and samples.takes(4) and settings is not None and settings.takes(8))
        belong(samples is not settings and samples.vector.count == settings.vector.count)
        belong(self.records.sample_user.vector.count >= count)
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            while self.sample_at < count and not self.failed:
                handle_signals(cython.address(work), 64)
                sample = self.sample_order.items[self.sample_at]
                process = self._go_to(sample, process)
                if process < 0 or self.failed:
                    self.failed = True
                    break
                if user[sample] != NO_USER:
                    if samples.vector.count >= most:
                        found = c.FULL
                        break
                    row = self._row(process)
                    if row.setting == 0 or row.set != row.changed:
                        self.settings_met += 1
                        row.setting = self.settings_met
                        row.set = row.changed
                        found = sample
                        break
                    key = (cython.cast(cython.ulonglong, row.setting) << c.SETTING_SHIFT) | (
                        user[sample] >> c.SOURCE_SHIFT << c.SOURCE_BITS
                    )
                    key |= event[sample] & (1 << c.SOURCE_BITS) - 1
                    if not samples.push_u32(sample) or not settings.push_u64(key):
                        self.failed = True
                        break
                self.sample_at += 1
        if self.failed:
            raise MemoryError
        return found

    def set_unwound(
        self,
        addresses: cython.const[cython.ulonglong][::1],
        first: cython.const[cython.ulonglong][::1],
        count: cython.const[cython.uint][::1],
    ) -> None:
        """What comes in place of a sample's own places of user code: addresses[first:][:count], unless count is 0."""
        at: cython.Py_ssize_t
        total: cython.ulonglong = addresses.shape[0]
        belong(first.shape[0] == self.sample_order.count and count.shape[0] == self.sample_order.count)
        belong(self.sample_at == 0)
        for at in range(count.shape[0]):
            belong(first[at] <= total and count[at] <= total - first[at])
        self.unwound = addresses
        self.unwound_first = first
        self.unwound_count = count
        self.has_unwound = count.shape[0] > 0

    def _go_to(self, sample, process):
        """Take the steps before a sample. Returns the row of its process; `process` is that of the sample before."""
        steps: cython.Py_ssize_t = self.step_order.count
        step_time: cython.p_ulonglong = u64s(self.records.step_time)
        time: cython.ulonglong = u64s(self.records.sample_time)[sample]
        thread: cython.ulonglong = u64s(self.records.sample_thread)[sample]
        while self.step_at < steps and step_time[self.step_order.items[self.step_at]] <= time:
            self._step(self.step_order.items[self.step_at])
            self.step_at += 1
        if process < 0 or self._row(process).pid != thread >> 32:
            process = self._process(cython.cast(cython.uint, thread >> 32))
        if process >= 0 and self._row(process).before:
            self._see_program(u32s(self.records.sample_stack)[sample], process)
        return process

    def _resolve_unwound(self, sample, process, number):
        """The stack of a sample whose user code was unwound: its places outside of user code, then those addresses."""
        stack: cython.uint = u32s(self.records.sample_stack)[sample]
        first: cython.p_ulonglong = u64s(self.records.stack_first)
        items: cython.p_uint = u32s(self.records.stack_item)
        modes: cython.p_uchar = u8s(self.records.place_mode)
        pid: cython.uint = self._row(process).pid
        now: cython.ulonglong = self._row(process).epoch  # which no other process has
        address: cython.ulonglong
        seen: cython.pointer[Seen]
        at: cython.ulonglong
        self.scratch.count = 0
        for at in range(first[stack], first[stack + 1]):
            if modes[items[at]] != c.IN_USER and not (
                self._place(items[at], pid, process, number) and push_u32(cython.address(self.scratch), number[0])
            ):
                return False
        for at in range(self.unwound_first[sample], self.unwound_first[sample] + self.unwound_count[sample]):
            address = self.unwound[at]
            seen = cython.address(self.seen[((address ^ now) * WHENCE_GOLDEN) >> (64 - SEEN_BITS)])
            if seen.epoch != now or seen.address != address:
                if not self._user(address, pid, process, number):
                    return False
                seen.epoch = now
                seen.address = address
                seen.location = number[0]
            if not push_u32(cython.address(self.scratch), seen.location):
                return False
        return self._stack(number)

    def maps_of(self, pid: cython.uint) -> list:
        """What a process has mapped now, in order of address: start, end and the number of the map."""
        process: cython.Py_ssize_t = self._process(pid)
        return self._listed(self._row(process).root) if process >= 0 else []

    def code_of(self, pid: cython.uint) -> list:
        """The generated code that is recorded of a process now, as `maps_of` has its maps."""
        process: cython.Py_ssize_t = self._process(pid)
        return self._listed(self._row(process).code) if process >= 0 else []

    def _listed(self, node):
        waiting: list = []
        out: list = []
        while node or waiting:
            if node:
                waiting.append(node)
                node = self._node(node).left
            else:
                node = waiting.pop()
                out.append((self._node(node).start, self._node(node).end, self._node(node).map))
                node = self._node(node).right
        return out

    def _add(self, sample, stack):
        labels: cython.uint = 0
        number: cython.uint = 0
        period: cython.ulonglong = u64s(self.records.sample_period)[sample]
        if period > MOST:
            period = MOST
        if not (
            self._labels(
                u64s(self.records.sample_thread)[sample],
                u32s(self.records.sample_cpu)[sample],
                cython.address(labels),
            )
            and self._sample(
                stack,
                labels,
                u32s(self.records.sample_event)[sample],
                period,
                cython.address(number),
            )
            and self.event_sample.push_u32(number)
            and self.event_time.push_u64(u64s(self.records.sample_time)[sample])
            and self.event_period.push_u64(period)
        ):
            self.failed = True

    # processes and threads

    def _row(self, process):
        return cython.cast(cython.pointer[Process], self.processes.items) + process

    def _node(self, node):
        return cython.cast(cython.pointer[Node], self.nodes.items) + node

    def _process(self, pid):
        """The row of a process, which may be new; -1 when there is no memory."""
        table: cython.pointer[HashTable] = cython.address(self.process_slots)
        slot: cython.ulonglong
        at: cython.Py_ssize_t
        row: cython.pointer[Process]
        slot = first_slot(table, mix(pid, self.seed))
        while table.slots[slot]:
            if self._row(table.slots[slot] - 1).pid == pid:
                return table.slots[slot] - 1
            slot = next_slot(table, slot)
        if is_crowded(table):
            if not make_slots(table, 2 * self.processes.count + 2):
                return -1
            for at in range(self.processes.count):
                put_item(table, mix(self._row(at).pid, self.seed), at)
            slot = first_slot(table, mix(pid, self.seed))
            while table.slots[slot]:
                slot = next_slot(table, slot)
        row = cython.cast(cython.pointer[Process], push(cython.address(self.processes), cython.sizeof(Process)))
        if row == cython.NULL:
            return -1
        self.owners += 1
        self.epoch += 1
        row.pid = pid
        row.root = row.before = row.code = row.setting = 0
        row.set = 0
        row.owner = self.owners
        row.epoch = row.changed = self.epoch
        fill_slot(table, slot, self.processes.count - 1)
        return self.processes.count - 1

    def _thread(self, thread):
        """The row of a thread, which may be new; -1 when there is no memory."""
        table: cython.pointer[HashTable] = cython.address(self.thread_slots)
        rows: cython.pointer[Thread] = cython.cast(cython.pointer[Thread], self.threads.items)
        slot: cython.ulonglong = first_slot(table, mix(thread, self.seed))
        at: cython.Py_ssize_t
        while table.slots[slot]:
            if rows[table.slots[slot] - 1].thread == thread:
                return table.slots[slot] - 1
            slot = next_slot(table, slot)
        if is_crowded(table):
            if not make_slots(table, 2 * self.threads.count + 2):
                return -1
            for at in range(self.threads.count):
                put_item(table, mix(rows[at].thread, self.seed), at)
            slot = first_slot(table, mix(thread, self.seed))
            while table.slots[slot]:
                slot = next_slot(table, slot)
        rows = cython.cast(cython.pointer[Thread], push(cython.address(self.threads), cython.sizeof(Thread)))
        if rows == cython.NULL:
            return -1
        rows.thread = thread
        rows.comm = rows.met = 0
        fill_slot(table, slot, self.threads.count - 1)
        return self.threads.count - 1

    def _step(self, step):
        """What a step changes."""
        kind: cython.uint = u32s(self.records.step_kind)[step]
        a: cython.ulonglong = u64s(self.records.step_a)[step]
        b: cython.ulonglong = u64s(self.records.step_b)[step]
        pid: cython.uint = cython.cast(cython.uint, a >> 32)
        process: cython.Py_ssize_t
        parent: cython.Py_ssize_t
        thread: cython.Py_ssize_t
        comm: cython.uint
        before: cython.uint
        if kind == c.STEP_COMM:
            thread = self._thread(a)
            if thread < 0:
                self.failed = True
                return
            cython.cast(cython.pointer[Thread], self.threads.items)[thread].comm = cython.cast(cython.uint, b)
            return
        process = self._process(pid)
        if process < 0:
            self.failed = True
            return
        if kind == c.STEP_MAP or kind == c.STEP_UNMAP:
            self._map(process, cython.cast(cython.uint, b), kind == c.STEP_MAP)
        elif kind == c.STEP_EXEC:
            before = self._row(process).root
            self._forget(process)
            self._row(process).before = before
        elif kind == c.STEP_FORK_EMPTY and pid != b >> 32:
            self._forget(process)
        elif kind == c.STEP_FORK:
            parent = self._thread(b)
            comm = 0 if parent < 0 else cython.cast(cython.pointer[Thread], self.threads.items)[parent].comm
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

    def _see_program(self, stack, process):
        """Forget the program before an exec once code of the new one ran. Until then the kernel, in execve, has the
        registers of the old one."""
        first: cython.p_ulonglong = u64s(self.records.stack_first)
        items: cython.p_uint = u32s(self.records.stack_item)
        modes: cython.p_uchar = u8s(self.records.place_mode)
        if first[stack] < first[stack + 1] and modes[items[first[stack]]] == c.IN_USER:
            self.epoch += 1
            self._row(process).before = 0
            self._row(process).epoch = self._row(process).changed = self.epoch

    def _forget(self, process):
        """The process has no maps any more."""
        self.owners += 1
        self.epoch += 1
        self._row(process).root = self._row(process).before = self._row(process).code = 0
        self._row(process).owner = self.owners
        self._row(process).epoch = self._row(process).changed = self.epoch

    # maps

    def _map(self, process, map, there):
        """A map comes to lie where others may have been; or it goes."""
        if map >= self.records.map_start.vector.count:
            return
        start: cython.ulonglong = u64s(self.records.map_start)[map]
        end: cython.ulonglong = start + u64s(self.records.map_size)[map]
        owner: cython.uint = self._row(process).owner
        left: cython.uint
        right: cython.uint = 0
        node: cython.uint
        is_code: cython.bint
        if end < start:
            end = NO_USER  # it reaches to the last address
        if end == start:
            return
        is_code = process != self.kernel and u32s(self.records.map_flags)[map] & c.MAP_CODE
        root: cython.uint = self._row(process).code if is_code else self._row(process).root
        left_to_look: cython.int = MOST_LOOKED_AT
        is_quiet: cython.bint  # whether nobody unwinds by what changes: not the first generated code, not other maps
        if is_code:
            is_quiet = there and root != 0 and not self._is_taken(root, start, end)
        else:
            is_quiet = self._is_data(process, map) and not self._has_code(
                process, root, start, end, cython.address(left_to_look)
            )
        left = self._cleared(root, start, end, owner, cython.address(right))
        if there:
            node = self._new_node(start, end, map, owner)
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
        """Whether a map has no code, and never will: where a process has generated code, it may come to lie there."""
        flags: cython.uint = u32s(self.records.map_flags)[map]
        return flags & c.MAP_DATA and (self._row(process).code == 0 or not flags & c.MAP_GENERATED)

    def _has_code(self, process, node, start, end, left):
        """Whether a map that is not of data reaches into a range. Where more maps than `left` do: True."""
        while node:
            if left[0] <= 0:
                return True
            left[0] -= 1
            if end <= self._node(node).start:
                node = self._node(node).left
            elif start >= self._node(node).end:
                node = self._node(node).right
            else:
                if not self._is_data(process, self._node(node).map):
                    return True
                if self._has_code(process, self._node(node).left, start, end, left):
                    return True
                node = self._node(node).right
        return False

    def _is_taken(self, root, start, end):
        """Whether a map of a tree reaches into a range."""
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
        """A node that this version may change: itself, or a copy. 0 stays 0."""
        copy: cython.uint
        if node == 0 or self._node(node).owner == owner:
            return node
        copy = self._new_node(self._node(node).start, self._node(node).end, self._node(node).map, owner)
        if copy:
            self._node(copy).priority = self._node(node).priority
            self._node(copy).left = self._node(node).left
            self._node(copy).right = self._node(node).right
        return copy

    def _merge(self, left, right, owner):
        """One tree of two, all of the left one before all of the right one."""
        child: cython.uint
        if left == 0:
            return right
        if right == 0:
            return left
        if self._node(left).priority > self._node(right).priority:
            left = self._owned(left, owner)
            if left:
                child = self._merge(self._node(left).right, right, owner)
                self._node(left).right = child
            return left
        right = self._owned(right, owner)
        if right:
            child = self._merge(left, self._node(right).left, owner)
            self._node(right).left = child
        return right

    def _split(self, node, at, owner, left, right):
        """Two trees: what starts before an address, and what does not."""
        inner: cython.uint = 0
        outer: cython.uint = 0
        left[0] = right[0] = 0
        node = self._owned(node, owner)
        if node == 0:
            return
        if self._node(node).start < at:
            self._split(self._node(node).right, at, owner, cython.address(inner), cython.address(outer))
            self._node(node).right = inner
            left[0] = node
            right[0] = outer
        else:
            self._split(self._node(node).left, at, owner, cython.address(outer), cython.address(inner))
            self._node(node).left = inner
            left[0] = outer
            right[0] = node

    def _cut_last(self, node, at, owner, end, map):
        """The tree, its last range ending at an address at most; where it ended, and the map, where it was longer."""
        child: cython.uint
        node = self._owned(node, owner)
        if node == 0:
            return 0
        if self._node(node).right:
            child = self._cut_last(self._node(node).right, at, owner, end, map)
            self._node(node).right = child
        elif self._node(node).end > at:
            end[0] = self._node(node).end
            map[0] = self._node(node).map
            self._node(node).end = at
        return node

    def _cleared(self, root, start, end, owner, right):
        """What lies before a range, and (in `right`) behind it; maps that reach into it are cut."""
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
        """The node that has an address; 0 for none."""
        node: cython.pointer[Node]
        while root:
            node = self._node(root)
            if address < node.start:
                root = node.left
            elif address >= node.end:
                root = node.right
            else:
                break
        return root

    # locations, stacks and labels

    def _place(self, place, pid, process, number):
        """The location of a place now."""
        address: cython.ulonglong = u64s(self.records.place_address)[place]
        mode: cython.uint = u8s(self.records.place_mode)[place]
        found: cython.uint
        if mode == c.IN_USER:
            return self._user(address, pid, process, number)
        if mode == c.IN_KERNEL:
            found = self._find(self._row(self.kernel).root, address)
            return self._location(self._node(found).map if found else c.NO_NUMBER, KERNEL_PID, address, number)
        return self._location(c.NO_NUMBER, OTHER_MODES | mode, address, number)

    def _user(self, address, pid, process, number):
        """The location of an address in user code now."""
        map: cython.uint
        known: cython.uint
        flags: cython.uint
        found: cython.uint = self._find(self._row(process).root, address)
        if found == 0 and self._row(process).before:
            found = self._find(self._row(process).before, address)
        flags = c.MAP_GENERATED if found == 0 else self._flags_of(found)
        if flags & c.MAP_GENERATED and self._row(process).code:
            known = self._find(self._row(process).code, address)
            if known:
                return self._location(self._node(known).map, 0, address, number)
        if found == 0:
            return self._location(c.NO_NUMBER, pid, address, number)
        map = self._node(found).map
        if not flags & c.MAP_GENERATED:
            pid = 0
        return self._location(map, pid, address, number)

    def _flags_of(self, node):
        return u32s(self.records.map_flags)[self._node(node).map]

    def _location(self, map, pid, address, number):
        table: cython.pointer[HashTable] = cython.address(self.location_slots)
        maps: cython.p_uint = u32s(self.location_map)
        pids: cython.p_uint = u32s(self.location_pid)
        addresses: cython.p_ulonglong = u64s(self.location_address)
        slot: cython.ulonglong
        at: cython.uint
        if is_crowded(table):
            if not make_slots(table, 2 * self.location_map.vector.count + 2):
                return False
            for at in range(self.location_map.vector.count):
                put_item(table, mix(addresses[at] ^ mix(pids[at] ^ maps[at], self.seed), self.seed), at)
        slot = first_slot(table, mix(address ^ mix(pid ^ map, self.seed), self.seed))
        while table.slots[slot]:
            at = table.slots[slot] - 1
            if addresses[at] == address and maps[at] == map and pids[at] == pid:
                number[0] = at
                return True
            slot = next_slot(table, slot)
        number[0] = cython.cast(cython.uint, self.location_map.vector.count)
        if not (
            self.location_map.push_u32(map)
            and self.location_pid.push_u32(pid)
            and self.location_address.push_u64(address)
        ):
            return False
        fill_slot(table, slot, number[0])
        return True

    def _stack(self, number):
        """The number of the stack in `scratch`."""
        table: cython.pointer[HashTable] = cython.address(self.stack_slots)
        size: cython.Py_ssize_t = self.scratch.count
        hash: cython.ulonglong = mix_bytes(cython.cast(cython.p_uchar, self.scratch.items), 4 * size, self.seed)
        slot: cython.ulonglong
        at: cython.uint
        i: cython.Py_ssize_t
        first: cython.p_ulonglong
        if is_crowded(table):
            if not make_slots(table, 2 * self.stack_hash.count + 2):
                return False
            for at in range(self.stack_hash.count):
                put_item(table, self.stack_hash.items[at], at)
        slot = first_slot(table, hash)
        while table.slots[slot]:
            at = table.slots[slot] - 1
            first = u64s(self.stack_first)
            if (
                self.stack_hash.items[at] == hash
                and cython.cast(cython.Py_ssize_t, first[at + 1] - first[at]) == size
                and (
                    size == 0
                    or memcmp(
                        u32s(self.stack_item) + first[at],
                        self.scratch.items,
                        4 * size,
                    )
                    == 0
                )
            ):
                number[0] = at
                return True
            slot = next_slot(table, slot)
        number[0] = cython.cast(cython.uint, self.stack_hash.count)
        for i in range(size):
            if not self.stack_item.push_u32(self.scratch.items[i]):
                return False
        if not self.stack_first.push_u64(self.stack_item.vector.count) or not push_u64(
            cython.address(self.stack_hash), hash
        ):
            return False
        fill_slot(table, slot, number[0])
        return True

    def _resolve(self, stack, process, number):
        """What a stack of places is now; remembered until the process's maps or the kernel's change."""
        now: cython.ulonglong = self._row(process).epoch
        first: cython.p_ulonglong = u64s(self.records.stack_first)
        items: cython.p_uint = u32s(self.records.stack_item)
        pid: cython.uint = self._row(process).pid
        at: cython.ulonglong
        if self._row(self.kernel).epoch > now:
            now = self._row(self.kernel).epoch
        if self.memo_epoch.items[stack] == now:
            number[0] = self.memo_stack.items[stack]
            return True
        self.scratch.count = 0
        for at in range(first[stack], first[stack + 1]):
            if not self._place(items[at], pid, process, number) or not push_u32(
                cython.address(self.scratch), number[0]
            ):
                return False
        if not self._stack(number):
            return False
        self.memo_epoch.items[stack] = now
        self.memo_stack.items[stack] = number[0]
        return True

    def _labels(self, thread, cpu, number):
        """The number of a set of labels: a thread, its name now, a CPU."""
        table: cython.pointer[HashTable] = cython.address(self.set_slots)
        row: cython.Py_ssize_t = self._thread(thread)
        comm: cython.uint
        threads: cython.p_ulonglong = u64s(self.set_thread)
        comms: cython.p_uint = u32s(self.set_comm)
        cpus: cython.p_uint = u32s(self.set_cpu)
        slot: cython.ulonglong
        at: cython.uint
        if row < 0:
            return False
        comm = cython.cast(cython.pointer[Thread], self.threads.items)[row].comm
        at = cython.cast(cython.pointer[Thread], self.threads.items)[row].met
        if at and comms[at - 1] == comm and cpus[at - 1] == cpu:
            number[0] = at - 1
            return True
        if is_crowded(table):
            if not make_slots(table, 2 * self.set_thread.vector.count + 2):
                return False
            for at in range(self.set_thread.vector.count):
                put_item(table, self._set_hash(threads[at], comms[at], cpus[at]), at)
        slot = first_slot(table, self._set_hash(thread, comm, cpu))
        while table.slots[slot]:
            at = table.slots[slot] - 1
            if threads[at] == thread and comms[at] == comm and cpus[at] == cpu:
                number[0] = at
                cython.cast(cython.pointer[Thread], self.threads.items)[row].met = at + 1
                return True
            slot = next_slot(table, slot)
        number[0] = cython.cast(cython.uint, self.set_thread.vector.count)
        if not (self.set_thread.push_u64(thread) and self.set_comm.push_u32(comm) and self.set_cpu.push_u32(cpu)):
            return False
        fill_slot(table, slot, number[0])
        return True

    def _sample(self, stack, labels, event, period, number):
        """Add a sample to the equal ones before it."""
        table: cython.pointer[HashTable] = cython.address(self.sample_slots)
        stacks: cython.p_uint = u32s(self.sample_stack)
        sets: cython.p_uint = u32s(self.sample_set)
        events: cython.p_uint = u32s(self.sample_event)
        periods: cython.p_ulonglong = u64s(self.sample_period)
        slot: cython.ulonglong
        at: cython.uint
        if is_crowded(table):
            if not make_slots(table, 2 * self.sample_stack.vector.count + 2):
                return False
            for at in range(self.sample_stack.vector.count):
                put_item(table, self._set_hash(stacks[at], sets[at], events[at]), at)
        slot = first_slot(table, self._set_hash(stack, labels, event))
        while table.slots[slot]:
            at = table.slots[slot] - 1
            if stacks[at] == stack and sets[at] == labels and events[at] == event:
                u64s(self.sample_count)[at] += 1
                periods[at] = period + periods[at] if period < MOST - periods[at] else MOST
                number[0] = at
                return True
            slot = next_slot(table, slot)
        number[0] = cython.cast(cython.uint, self.sample_stack.vector.count)
        if not (
            self.sample_stack.push_u32(stack)
            and self.sample_set.push_u32(labels)
            and self.sample_event.push_u32(event)
            and self.sample_count.push_u64(1)
            and self.sample_period.push_u64(period)
        ):
            return False
        fill_slot(table, slot, number[0])
        return True

    def _set_hash(self, thread, comm, cpu):
        return mix(thread ^ mix(cython.cast(cython.ulonglong, comm) << 32 | cpu, self.seed), self.seed)


def grouped(samples: Column, settings: Column) -> tuple:
    """What `gather` found, samples of one number together: the samples (Column of I), the numbers there are and where
    the samples of each end (Columns of Q)."""
    order: U32s
    out: Column = Column("I")
    numbers: Column = Column("Q")
    ends: Column = Column("Q")
    at: cython.Py_ssize_t
    good: cython.bint = True
    key: cython.ulonglong
    belong(samples is not None and samples.typecode == "I" and settings is not None and settings.typecode == "Q")
    belong(samples.vector.count == settings.vector.count)
    memset(cython.address(order), 0, cython.sizeof(U32s))
    if not ordered(settings, cython.address(order)):
        raise MemoryError
    with cython.nogil:
        for at in range(samples.vector.count):
            key = u64s(settings)[order.items[at]]
            if at == 0 or key != u64s(numbers)[numbers.vector.count - 1]:
                good = good and numbers.push_u64(key) and ends.push_u64(at)
            good = good and out.push_u32(u32s(samples)[order.items[at]])
            if not good:
                break
            u64s(ends)[ends.vector.count - 1] = at + 1
    release(cython.address(order))
    if not good:
        raise MemoryError
    return out, numbers, ends


@cython.cfunc
@cython.exceptval(check=False)
def ordered(keys: Column, out: cython.pointer[U32s]) -> cython.bint:
    """The rows of a column of numbers in ascending order, equal ones as they come. False when there is no memory."""
    count: cython.Py_ssize_t = keys.vector.count
    at: cython.Py_ssize_t
    moved: cython.bint
    other: cython.p_uint = cython.cast(cython.p_uint, malloc(4 * (count + 1)))
    if other == cython.NULL or not reserve(out, count + 1, 4):
        free(other)
        return False
    with cython.nogil:
        for at in range(count):
            out.items[at] = cython.cast(cython.uint, at)
        moved = sort_indexes(u64s(keys), out.items, other, count)
    out.count = count
    if moved:
        free(out.items)
        out.items = other
        out.room = count + 1
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
    """values[i] where kinds[rows[i]] is `kind`, 0 elsewhere."""
    at: cython.Py_ssize_t
    belong(values.shape[0] == out.shape[0] and rows.shape[0] == out.shape[0] and all_in(rows, kinds.shape[0]))
    with cython.nogil:
        for at in range(out.shape[0]):
            out[at] = cython.cast(cython.longlong, values[at]) if kinds[rows[at]] == kind else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def all_in(rows: cython.const[cython.uint][::1], count: cython.Py_ssize_t) -> cython.bint:
    at: cython.Py_ssize_t
    for at in range(rows.shape[0]):
        if rows[at] >= cython.cast(cython.ulonglong, count):
            return False
    return True
