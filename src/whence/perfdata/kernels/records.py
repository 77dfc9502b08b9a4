"""Records of perf.data to columns: samples with their stacks, and steps that change the meaning of addresses.

    samples   time, thread (pid << 32 | tid), CPU, event, stack, period, position of registers and stack copy
    stacks    places, innermost first; each stack of a process once
    places    an address and its mode (IN_USER, IN_KERNEL ...), each once
    maps      start, size, file offset, name, device and inode or build-id, each once
    steps     in file order: a map, a thread's name, an exec, a fork

Entries of a call chain after the first are return addresses: their place is the byte before, inside the call. The first
entry after a change of mode is the address where the code continues, and is not changed.

A malformed sample (a count that points outside it) is counted in `damaged` and left out; its size gives the next
record. Nothing is read past a record's end.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memcmp, memset
from cython.cimports.whence.kernels.bytes import u16, u32, u64
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column, append_u8, append_u32, append_u64, u8s, u32s, u64s
from cython.cimports.whence.kernels.hashtable import (
    HashIndex,
    Probe,
    find_u64,
    first_match,
    insert,
    mix,
    mix_bytes,
    next_match,
    release_index,
)
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.vector import push_bytes, push_u32, push_u64, release
from cython.cimports.whence.perfdata.kernels import constants as c
from cython.cimports.whence.perfdata.kernels.records import Event, Sample, Trailer

MAX_DEPTH = cython.declare(cython.Py_ssize_t, 8192 + 1024)  # a chain and branches of records of 64 KB
FIRST_PAGE = cython.declare(cython.ulonglong, 4096)  # never code: such entries of chains are junk, and not changed
NO_EVENT = cython.declare(cython.int, -1)
NO_CPU = cython.declare(cython.uint, 0xFFFFFFFF)
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
KERNEL_THREAD = cython.declare(cython.ulonglong, 0xFFFFFFFF00000000)  # process -1, which has the kernel's maps
NO_USER = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
FIELDS = cython.declare(cython.Py_ssize_t, 6)  # of each row that `set_events` takes


@cython.final
@cython.cclass
class Records:
    """The tables, filled by `feed`. `seed` keys the hashes."""

    def __cinit__(self, big: cython.bint, seed: cython.ulonglong):
        self.big = big
        self.seed = seed
        self.id_offset = NO_EVENT
        self.timeless = True
        self.sample_time, self.sample_thread = Column("Q", True), Column("Q", True)
        self.sample_period = Column("Q", True)
        self.sample_cpu, self.sample_event, self.sample_stack = Column("I", True), Column("I", True), Column("I", True)
        self.sample_user = Column("Q", True)
        self.stack_first, self.stack_item, self.stack_pid = Column("Q", True), Column("I", True), Column("I", True)
        self.place_address, self.place_mode = Column("Q", True), Column("B", True)
        self.map_start, self.map_size, self.map_offset = Column("Q", True), Column("Q", True), Column("Q", True)
        self.map_name, self.map_about, self.map_flags = Column("I", True), Column("I", True), Column("I", True)
        self.step_time, self.step_kind = Column("Q", True), Column("I", True)
        self.step_a, self.step_b = Column("Q", True), Column("Q", True)
        self.lost_count, self.lost_time, self.lost_thread = Column("Q", True), Column("Q", True), Column("Q", True)
        self.chain = cython.cast(cython.p_ulonglong, malloc(8 * MAX_DEPTH))
        self.modes = cython.cast(cython.p_uchar, malloc(MAX_DEPTH))
        if (
            self.chain == cython.NULL
            or self.modes == cython.NULL
            or not self.stack_first.push_u64(0)
            or not push_u64(cython.address(self.texts.end), 0)
            or self._add_text(cython.cast(cython.p_uchar, b""), 0) < 0
        ):
            raise MemoryError

    def __dealloc__(self):
        free(self.chain)
        free(self.modes)
        free(self.events)
        release(cython.address(self.ids))
        release(cython.address(self.id_event))
        release(cython.address(self.id_last))
        release(cython.address(self.texts.data))
        release(cython.address(self.texts.end))
        release_index(cython.address(self.texts.index))
        release_index(cython.address(self.stack_index))
        release_index(cython.address(self.place_index))
        release_index(cython.address(self.map_index))
        release_index(cython.address(self.id_index))
        release(cython.address(self.waiting_cookie))
        release(cython.address(self.waiting_thread))
        release(cython.address(self.waiting_sample))
        release(cython.address(self.later_cookie))
        release(cython.address(self.later_thread))
        release(cython.address(self.later_stack))

    def set_events(
        self, rows: cython.const[cython.ulonglong][::1], id_offset: cython.int, id_from_end: cython.int
    ) -> None:
        """Set the events.

        Each has FIELDS numbers: sample_type, read_format, branch_sample_type, the count of user registers and of
        registers at the interrupt, and period << 1 | sample_id_all.

        `id_offset` is the offset of the event's id in a sample's body (-1: none), `id_from_end` its distance from the
        end of a trailer (0: none).
        """
        count: cython.Py_ssize_t = rows.shape[0] // FIELDS
        number: cython.Py_ssize_t
        kind: cython.ulonglong
        belong(rows.shape[0] == FIELDS * count and -1 <= id_offset <= 48 and 0 <= id_from_end <= 48)
        free(self.events)
        self.event_count = 0
        self.events = cython.cast(cython.pointer[Event], calloc(count + 1, cython.sizeof(Event)))
        if self.events == cython.NULL:
            raise MemoryError
        for number in range(count):
            event: cython.pointer[Event] = cython.address(self.events[number])
            kind = event.sample_type = rows[FIELDS * number]
            event.read_format = rows[FIELDS * number + 1]
            event.branch_type = rows[FIELDS * number + 2]
            event.user_registers = rows[FIELDS * number + 3] & 0x7F
            event.inner_registers = rows[FIELDS * number + 4] & 0x7F
            event.has_trailer = rows[FIELDS * number + 5] & 1
            event.period = rows[FIELDS * number + 5] >> 1
            # TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER: 8 bytes each
            size: cython.int = 8 * (
                (kind & c.HAS_ID != 0)
                + (kind & c.HAS_STREAM_ID != 0)
                + (kind & c.HAS_CPU != 0)
                + (kind & c.HAS_IDENTIFIER != 0)
            )
            if kind & c.HAS_TIME:
                size += 8
                event.time_from_end = size
                self.timeless = False
            if kind & c.HAS_TID:
                size += 8
                event.thread_from_end = size
            event.trailer_size = size
            if kind & (c.HAS_REGS_USER | c.HAS_STACK_USER):
                self.keeps_user = True
        self.event_count = count
        self.id_offset = id_offset
        self.id_from_end = id_from_end
        while self.keeps_user and self.sample_user.vector.count < self.sample_time.vector.count:
            if not self.sample_user.push_u64(NO_USER):
                raise MemoryError

    def set_ids(self, ids: cython.const[cython.ulonglong][::1], events: cython.const[cython.uint][::1]) -> None:
        """Set the event of each id, unless the id has one."""
        row: cython.Py_ssize_t
        belong(ids.shape[0] == events.shape[0])
        for row in range(ids.shape[0]):
            if self._id_row(ids[row]) < 0 and not (
                push_u64(cython.address(self.ids), ids[row])
                and push_u32(cython.address(self.id_event), events[row])
                and push_u64(cython.address(self.id_last), 0)
                and insert(cython.address(self.id_index), mix(ids[row], self.seed), self.ids.count - 1)
            ):
                raise MemoryError

    def text(self, number: cython.Py_ssize_t) -> bytes:
        """Return a text by its number."""
        belong(0 <= number < self.texts.end.count - 1)
        begin: cython.ulonglong = self.texts.end.items[number]
        return self.texts.data.items[begin : self.texts.end.items[number + 1]]

    @property
    def text_count(self) -> int:
        return self.texts.end.count - 1

    @property
    def record_counts(self) -> list:
        """The number of records of each type."""
        return [self.counts[kind] for kind in range(c.TYPES)]

    def add_text(self, text: bytes) -> int:
        """Return the number of a text, which may be new."""
        number: cython.Py_ssize_t = self._add_text(cython.cast(cython.p_const_uchar, text), len(text))
        if number < 0:
            raise MemoryError
        return number

    def add_map(
        self, pid: cython.uint, time: cython.ulonglong, start: cython.ulonglong, size: cython.ulonglong,
        offset: cython.ulonglong, name: cython.uint, flags: cython.uint,
    ) -> int:  # fmt: skip
        """Add a map that is in no record, and a step for it. Return its number."""
        belong(name < self.texts.end.count - 1)
        number: cython.Py_ssize_t = self._add_map(start, size, offset, name, 0, flags)
        if not self._add_numbered_step(time, c.STEP_MAP, cython.cast(cython.ulonglong, pid) << 32, number):
            raise MemoryError
        return number

    def flag_maps(self, named: cython.const[cython.uchar][::1], flag: cython.uint) -> None:
        """Add a flag to maps by name: `named` has a byte for each text, nonzero for the names of those maps."""
        number: cython.Py_ssize_t
        names: cython.p_uint = u32s(self.map_name)
        flags: cython.p_uint = u32s(self.map_flags)
        belong(named.shape[0] == self.texts.end.count - 1)
        for number in range(self.map_flags.vector.count):
            if named[names[number]]:
                flags[number] |= flag

    # the records

    def feed(
        self,
        data: cython.const[cython.uchar][::1],
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        base: cython.ulonglong,
    ) -> tuple[int, int]:
        """Read the records in data[begin:end]; data[0] is byte `base` of the stream.

        Returns the offset of the first record that was not read, and the reason: FINE, CUT, OWN or BROKEN.
        """
        reason: cython.int = c.FINE
        offset: cython.Py_ssize_t = begin
        belong(0 <= begin <= end <= data.shape[0])
        if begin == end:
            return begin, c.FINE
        first: cython.p_const_uchar = cython.address(data[0])
        big: cython.bint = self.big
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            while offset < end:
                if end - offset < c.RECORD_HEADER:
                    reason = c.CUT
                    break
                kind: cython.uint = u32(first + offset, big)
                misc: cython.int = u16(first + offset + 4, big)
                size: cython.Py_ssize_t = u16(first + offset + 6, big)
                if size < c.RECORD_HEADER:
                    reason = c.BROKEN
                    break
                if size > end - offset:
                    reason = c.CUT
                    break
                handle_signals(cython.address(work), size)
                if kind < c.TYPES:
                    self.counts[kind] += 1
                else:
                    self.counts[0] += 1
                if kind == c.SAMPLE:
                    self._sample(first + offset + c.RECORD_HEADER, first + offset + size, misc, base + offset)
                elif kind < c.USER_TYPES:
                    self._other(kind, misc, first + offset + c.RECORD_HEADER, first + offset + size)
                elif kind != c.FINISHED_ROUND and kind != c.FINISHED_INIT:
                    reason = c.OWN
                    break
                if self.failed:
                    reason = c.NO_MEMORY
                    break
                offset += size
        if reason == c.NO_MEMORY:
            raise MemoryError
        return offset, reason

    def join_deferred(self) -> int:
        """Append deferred user stacks (CALLCHAIN_DEFERRED) to their samples. Return how many are missing."""
        index: HashIndex
        row: cython.Py_ssize_t
        missing: cython.Py_ssize_t = 0
        good: cython.bint = True
        memset(cython.address(index), 0, cython.sizeof(HashIndex))
        for row in range(self.later_cookie.count):
            good = good and insert(cython.address(index), mix(self.later_cookie.items[row], self.seed), row)
        for row in range(self.waiting_cookie.count):
            good = good and self._join(row, cython.address(index), cython.address(missing))
        release_index(cython.address(index))
        if not good:
            raise MemoryError
        return missing

    def _join(self, waiting, index, missing):
        """Append its deferred user stack to the stack of a waiting sample. False if memory runs out."""
        stack: cython.p_uint = u32s(self.sample_stack) + self.waiting_sample.items[waiting]
        cookie: cython.ulonglong = self.waiting_cookie.items[waiting]
        thread: cython.ulonglong = self.waiting_thread.items[waiting]
        tid: cython.uint = cython.cast(cython.uint, thread)
        probe: Probe = first_match(index, mix(cookie, self.seed))
        while next_match(index, cython.address(probe)):
            other: cython.ulonglong = self.later_thread.items[probe.item]
            if self.later_cookie.items[probe.item] == cookie and cython.cast(cython.uint, other) == tid:
                self.depth = 0
                self._append_places(stack[0])
                self._append_places(self.later_stack.items[probe.item])
                number: cython.Py_ssize_t = self._add_stack(cython.cast(cython.uint, thread >> 32))
                if number >= 0:
                    stack[0] = cython.cast(cython.uint, number)
                return number >= 0
        missing[0] += 1
        return True

    def _append_places(self, stack):
        """Append the places of a stack to `chain`."""
        first: cython.p_ulonglong = u64s(self.stack_first)
        items: cython.p_uint = u32s(self.stack_item)
        row: cython.ulonglong
        for row in range(first[stack], first[stack + 1]):
            if self.depth < MAX_DEPTH:
                self.chain[self.depth] = u64s(self.place_address)[items[row]]
                self.modes[self.depth] = u8s(self.place_mode)[items[row]]
                self.depth += 1

    def _id_row(self, id):
        """Return the row of an event's id; -1 if it is unknown."""
        return cython.cast(cython.int, find_u64(cython.address(self.id_index), self.ids.items, 8, id, self.seed))

    def _sample(self, data, end, misc, position):
        """Read a sample; its fields are in the order of the kernel's perf_output_sample."""
        sample: Sample
        body: cython.p_const_uchar = data
        if self.event_count == 0:
            self.damaged += 1
            return
        memset(cython.address(sample), 0, cython.sizeof(Sample))
        sample.event = self._event_in(data, end)
        sample.described = cython.address(self.events[sample.event])
        data = self._read_head(cython.address(sample), data, end)
        if data != cython.NULL:
            data = self._read_values(cython.address(sample), data, end)
        if data != cython.NULL:
            data = self._read_chain(cython.address(sample), data, end, misc & c.MODE)
        if data != cython.NULL:
            data = self._read_user(cython.address(sample), data, end, position + c.RECORD_HEADER, body)
        if data != cython.NULL:
            data = self._skip_rest(cython.address(sample), data, end)
        if data == cython.NULL:
            self.damaged += 1
        elif not self._keep_sample(cython.address(sample)):
            self.failed = True

    def _event_in(self, data, end):
        """Return the event of a sample by the id in it; the first event where the id is missing or unknown."""
        if self.id_offset >= 0 and end - data >= self.id_offset + 8:
            row: cython.int = self._id_row(u64(data + self.id_offset, self.big))
            if row >= 0 and self.id_event.items[row] < self.event_count:
                return self.id_event.items[row]
            if self.event_count > 1:
                self.unknown_ids += 1
        return 0

    def _read_head(self, sample, data, end):
        """Read the fields of fixed size, IDENTIFIER to PERIOD. Return the next field; NULL if truncated."""
        big: cython.bint = self.big
        kind: cython.ulonglong = sample.described.sample_type
        size: cython.Py_ssize_t = 8 * (
            (kind & c.HAS_IDENTIFIER != 0)
            + (kind & c.HAS_IP != 0)
            + (kind & c.HAS_TID != 0)
            + (kind & c.HAS_TIME != 0)
            + (kind & c.HAS_ADDR != 0)
            + (kind & c.HAS_ID != 0)
            + (kind & c.HAS_STREAM_ID != 0)
            + (kind & c.HAS_CPU != 0)
            + (kind & c.HAS_PERIOD != 0)
        )
        sample.period = sample.described.period
        sample.cpu = NO_CPU
        sample.user = NO_USER
        if end - data < size:
            return cython.NULL
        if kind & c.HAS_IDENTIFIER:
            data += 8
        if kind & c.HAS_IP:
            sample.ip = u64(data, big)
            data += 8
        if kind & c.HAS_TID:
            sample.thread = thread_at(data, big)
            data += 8
        if kind & c.HAS_TIME:
            sample.time = u64(data, big)
            data += 8
        data += 8 * ((kind & c.HAS_ADDR != 0) + (kind & c.HAS_ID != 0) + (kind & c.HAS_STREAM_ID != 0))
        if kind & c.HAS_CPU:
            sample.cpu = u32(data, big)
            data += 8
        if kind & c.HAS_PERIOD:
            sample.period = u64(data, big)
            data += 8
        return data

    def _read_values(self, sample, data, end):
        """Find the counters' values (READ). Return the next field; NULL if the sample is truncated."""
        form: cython.ulonglong = sample.described.read_format
        times: cython.Py_ssize_t = self._between(sample.described)
        if not sample.described.sample_type & c.HAS_READ:
            return data
        sample.values = data
        sample.value_size = 8 * (1 + (form & c.READ_ID != 0) + (form & c.READ_LOST != 0))
        sample.value_count = 1
        if form & c.READ_GROUP:
            # u64 count, the times, the values; a single value has its times after it
            if end - data < 8:
                return cython.NULL
            sample.value_count = u64(data, self.big)
            data += 8
            sample.values = data + times
        if (
            end - data < times
            or sample.value_count > cython.cast(cython.size_t, end - data - times) // sample.value_size
        ):
            return cython.NULL
        return data + times + sample.value_count * sample.value_size

    def _read_chain(self, sample, data, end, mode):
        """Read the call chain (CALLCHAIN, RAW, BRANCH_STACK), or else the instruction's address, into `chain`.

        Return the next field; NULL if the sample is truncated.
        """
        big: cython.bint = self.big
        kind: cython.ulonglong = sample.described.sample_type
        branches: cython.ulonglong = sample.described.branch_type
        self.depth = 0
        self.user_index = -1
        self.exact = True
        self.mode = mode
        if kind & c.HAS_CALLCHAIN:
            if end - data < 8:
                return cython.NULL
            count: cython.ulonglong = u64(data, big)
            data += 8
            if count > cython.cast(cython.ulonglong, end - data) >> 3:
                return cython.NULL
            if count >= 2 and u64(data + 8 * (count - 2), big) == ALL_ONES - c.CONTEXT_USER_DEFERRED + 1:
                sample.cookie = u64(data + 8 * (count - 1), big)
                self._walk(data, count - 2)
            else:
                self._walk(data, count)
            data += 8 * count
        if self.depth == 0 and kind & c.HAS_IP:
            self._put(sample.ip, mode, True)
        if kind & c.HAS_RAW:
            if end - data < 4 or u32(data, big) > cython.cast(cython.ulonglong, end - data - 4):
                return cython.NULL
            data += 4 + cython.cast(cython.Py_ssize_t, u32(data, big))
        if kind & c.HAS_BRANCH_STACK:
            if end - data < 8:
                return cython.NULL
            count = u64(data, big)
            data += 8
            if branches & c.BRANCH_HW_INDEX:
                data += 8
            if data > end or count > cython.cast(cython.ulonglong, end - data) // 24:
                return cython.NULL
            if branches & c.BRANCH_CALL_STACK and count:
                self._branches(data, count)
            data += 24 * count
            if branches & c.BRANCH_COUNTERS:
                data += 8 * count
        return data

    def _read_user(self, sample, data, end, position, body):
        """Find registers and stack copy (REGS_USER, STACK_USER); the body is at `position` in the stream.

        Return the next field; NULL if the sample is truncated.
        """
        kind: cython.ulonglong = sample.described.sample_type
        if kind & (c.HAS_REGS_USER | c.HAS_STACK_USER) and data <= end:
            sample.user = position + cython.cast(cython.ulonglong, data - body)
        if kind & c.HAS_REGS_USER:
            data = self._skip_registers(data, end, sample.described.user_registers)
        if kind & c.HAS_STACK_USER and end - data >= 8:
            count: cython.ulonglong = u64(data, self.big)
            data += 8
            if count > cython.cast(cython.ulonglong, end - data):
                return cython.NULL
            data += count
            if count:
                data += 8
        return data

    def _skip_rest(self, sample, data, end):
        """Skip the fields after the stack copy, WEIGHT to AUX. Return the end; NULL if the sample is truncated."""
        kind: cython.ulonglong = sample.described.sample_type
        data += 8 * (
            (kind & (c.HAS_WEIGHT | c.HAS_WEIGHT_STRUCT) != 0)
            + (kind & c.HAS_DATA_SRC != 0)
            + (kind & c.HAS_TRANSACTION != 0)
        )
        if kind & c.HAS_REGS_INTR:
            data = self._skip_registers(data, end, sample.described.inner_registers)
        data += 8 * (
            (kind & c.HAS_PHYS_ADDR != 0)
            + (kind & c.HAS_CGROUP != 0)
            + (kind & c.HAS_DATA_PAGE_SIZE != 0)
            + (kind & c.HAS_CODE_PAGE_SIZE != 0)
        )
        if kind & c.HAS_AUX:
            if end - data < 8 or u64(data, self.big) > cython.cast(cython.ulonglong, end - data - 8):
                return cython.NULL
            data += 8 + u64(data, self.big)
        return data if data <= end else cython.NULL

    def _keep_sample(self, sample):
        """Add a sample, or a sample for each counter that it read. False if memory runs out."""
        if self.timeless:
            self.clock += 1
        if not sample.described.sample_type & c.HAS_TIME:
            sample.time = self.clock
        elif sample.time != ALL_ONES:
            self.clock = sample.time
        stack: cython.Py_ssize_t = self._add_stack(cython.cast(cython.uint, sample.thread >> 32))
        if stack < 0:
            return False
        if sample.cookie and not (
            push_u64(cython.address(self.waiting_cookie), sample.cookie)
            and push_u64(cython.address(self.waiting_thread), sample.thread)
            and push_u32(cython.address(self.waiting_sample), cython.cast(cython.uint, self.sample_time.vector.count))
        ):
            return False
        if sample.values == cython.NULL or not sample.described.read_format & c.READ_ID:
            return self._add_sample(sample, cython.cast(cython.uint, stack))
        return self._add_values(sample, cython.cast(cython.uint, stack))

    def _add_values(self, sample, stack):
        """Add a sample for each counter that was read; its period is the difference from the last value."""
        described: cython.pointer[Event] = sample.described
        id_offset: cython.int = 8 + (0 if described.read_format & c.READ_GROUP else self._between(described))
        index: cython.ulonglong
        for index in range(sample.value_count):
            value: cython.ulonglong = u64(sample.values, self.big)
            row: cython.int = self._id_row(u64(sample.values + id_offset, self.big))
            sample.values += sample.value_size
            if row < 0:
                self.unknown_ids += 1
                continue
            sample.period = value - self.id_last.items[row]
            self.id_last.items[row] = value
            sample.event = self.id_event.items[row]
            if sample.period and sample.event < self.event_count and not self._add_sample(sample, stack):
                return False
        return True

    def _between(self, event):
        """Return the size of the times between value and id of a single reading."""
        return 8 * ((event.read_format & c.READ_ENABLED != 0) + (event.read_format & c.READ_RUNNING != 0))

    def _skip_registers(self, data, end, count):
        """Return the end of registers: the ABI, and unless that is 0, `count` words."""
        if end - data < 8:
            return end + 1
        return data + 8 + (8 * count if u64(data, self.big) else 0)

    def _add_sample(self, sample, stack):
        return (
            self.sample_time.push_u64(sample.time)
            and self.sample_thread.push_u64(sample.thread)
            and self.sample_cpu.push_u32(sample.cpu)
            and self.sample_event.push_u32(sample.event)
            and self.sample_stack.push_u32(stack)
            and self.sample_period.push_u64(sample.period)
            and (not self.keeps_user or self.sample_user.push_u64(sample.user))
        )

    # call chains

    def _put(self, address, mode, exact):
        """Append an entry to `chain`; an entry that is not exact is a return address."""
        if self.depth >= MAX_DEPTH:
            return
        if mode == c.IN_USER and self.user_index < 0:
            self.user_index = self.depth
        self.chain[self.depth] = address if exact or address < FIRST_PAGE else address - 1
        self.modes[self.depth] = cython.cast(cython.uchar, mode)
        self.depth += 1

    def _walk(self, data, count):
        """Append the entries of a call chain to `chain`."""
        big: cython.bint = self.big
        chain: cython.p_ulonglong = self.chain
        modes: cython.p_uchar = self.modes
        while count:
            depth: cython.Py_ssize_t = self.depth  # fast path: most entries
            while count and depth < MAX_DEPTH and not self.exact and (depth == 0 or self.user_index >= 0):
                address: cython.ulonglong = u64(data, big)
                below: cython.ulonglong = 0 - address
                if 0 < below <= c.CONTEXT_MOST:
                    break
                chain[depth] = address if address < FIRST_PAGE else address - 1
                modes[depth] = cython.cast(cython.uchar, self.mode)
                depth += 1
                data += 8
                count -= 1
            self.depth = depth
            if count == 0:
                break
            address = u64(data, big)
            data += 8
            count -= 1
            below = 0 - address
            if 0 < below <= c.CONTEXT_MOST:
                self.exact = True
                if below == c.CONTEXT_KERNEL:
                    self.mode = c.IN_KERNEL
                elif below == c.CONTEXT_USER or below == c.CONTEXT_USER_DEFERRED:
                    self.mode = c.IN_USER
                elif below == c.CONTEXT_HYPERVISOR:
                    self.mode = c.IN_HYPERVISOR
                elif below == c.CONTEXT_GUEST or below == c.CONTEXT_GUEST_KERNEL:
                    self.mode = c.IN_GUEST_KERNEL
                elif below == c.CONTEXT_GUEST_USER:
                    self.mode = c.IN_GUEST_USER
                continue
            self._put(address, self.mode, self.exact)
            self.exact = False

    def _branches(self, data, count):
        """Replace the user part of `chain` by the calls in the branch stack (LBR)."""
        if self.user_index >= 0:
            self.depth = self.user_index + 1  # keep the innermost
        else:
            self._put(u64(data + 8, self.big), c.IN_USER, True)  # target of the last call
        while count:
            self._put(u64(data, self.big), c.IN_USER, True)
            data += 24
            count -= 1

    def _add_place(self, address, mode):
        """Return the number of a place, which may be new; -1 if memory runs out."""
        index: cython.pointer[HashIndex] = cython.address(self.place_index)
        hash: cython.ulonglong = mix(address ^ (cython.cast(cython.ulonglong, mode) << 60), self.seed)
        number: cython.Py_ssize_t = self.place_address.vector.count
        probe: Probe = first_match(index, hash)
        while next_match(index, cython.address(probe)):
            if u64s(self.place_address)[probe.item] == address and u8s(self.place_mode)[probe.item] == mode:
                return probe.item
        if not (self.place_mode.reserve(1) and self.place_address.reserve(1) and insert(index, hash, number)):
            return -1
        append_u8(self.place_mode, mode)
        append_u64(self.place_address, address)
        return number

    def _chain_hash(self):
        """Return a keyed hash of the addresses in `chain`; two at a time, so that the multiplications overlap."""
        even: cython.ulonglong = self.seed
        odd: cython.ulonglong = ~self.seed
        key: cython.ulonglong = self.seed | 1
        index: cython.Py_ssize_t = 0
        while index + 1 < self.depth:
            even = (even ^ self.chain[index]) * key
            odd = (odd ^ self.chain[index + 1]) * key
            even ^= even >> 32
            odd ^= odd >> 29
            index += 2
        if index < self.depth:
            even = (even ^ self.chain[index]) * key
        return mix(even ^ (even >> 31), self.seed) ^ odd

    def _is_stack(self, stack, pid):
        """Return True if a stack has the places in `chain` and is of the process."""
        first: cython.ulonglong = u64s(self.stack_first)[stack]
        items: cython.p_uint = u32s(self.stack_item) + first
        addresses: cython.p_ulonglong = u64s(self.place_address)
        modes: cython.p_uchar = u8s(self.place_mode)
        row: cython.Py_ssize_t
        if (
            u64s(self.stack_first)[stack + 1] - first != cython.cast(cython.ulonglong, self.depth)
            or u32s(self.stack_pid)[stack] != pid
        ):
            return False
        for row in range(self.depth):
            if addresses[items[row]] != self.chain[row] or modes[items[row]] != self.modes[row]:
                return False
        return True

    def _add_stack(self, pid):
        """Return the number of the stack in `chain` of a process, which may be new; -1 if memory runs out."""
        index: cython.pointer[HashIndex] = cython.address(self.stack_index)
        hash: cython.ulonglong = self._chain_hash() ^ pid
        hash = mix(hash ^ (cython.cast(cython.ulonglong, self.depth) << 40), self.seed)
        number: cython.Py_ssize_t = self.stack_pid.vector.count
        row: cython.Py_ssize_t
        probe: Probe = first_match(index, hash)
        while next_match(index, cython.address(probe)):
            if self._is_stack(probe.item, pid):
                return probe.item
        if not (self.stack_item.reserve(self.depth) and self.stack_first.reserve(1) and self.stack_pid.reserve(1)):
            return -1
        for row in range(self.depth):
            place: cython.Py_ssize_t = self._add_place(self.chain[row], self.modes[row])
            if place < 0:
                return -1
            append_u32(self.stack_item, cython.cast(cython.uint, place))
        append_u64(self.stack_first, self.stack_item.vector.count)
        append_u32(self.stack_pid, pid)
        return number if insert(index, hash, number) else -1

    # other records

    def _add_text(self, data, size):
        """Return the number of a text, which may be new; -1 if memory runs out."""
        index: cython.pointer[HashIndex] = cython.address(self.texts.index)
        hash: cython.ulonglong = mix_bytes(data, size, self.seed)
        number: cython.Py_ssize_t = self.texts.end.count - 1
        probe: Probe = first_match(index, hash)
        while next_match(index, cython.address(probe)):
            end: cython.p_ulonglong = self.texts.end.items + probe.item
            if end[1] - end[0] == size and (size == 0 or memcmp(self.texts.data.items + end[0], data, size) == 0):
                return probe.item
        if size and not push_bytes(cython.address(self.texts.data), data, size):
            return -1
        if not push_u64(cython.address(self.texts.end), self.texts.data.count) or not insert(index, hash, number):
            return -1
        return number

    def _add_map(self, start, size, offset, name, about, flags):
        """Return the number of a map, which may be new; -1 if memory runs out."""
        index: cython.pointer[HashIndex] = cython.address(self.map_index)
        hash: cython.ulonglong = mix(mix(start, self.seed) ^ offset, self.seed)
        hash = mix(hash ^ name ^ size, self.seed)
        number: cython.Py_ssize_t = self.map_start.vector.count
        probe: Probe = first_match(index, hash)
        while next_match(index, cython.address(probe)):
            if (
                u64s(self.map_start)[probe.item] == start
                and u64s(self.map_size)[probe.item] == size
                and u64s(self.map_offset)[probe.item] == offset
                and u32s(self.map_name)[probe.item] == name
                and u32s(self.map_about)[probe.item] == about
                and u32s(self.map_flags)[probe.item] == flags
            ):
                return probe.item
        if not (
            self.map_start.push_u64(start)
            and self.map_size.push_u64(size)
            and self.map_offset.push_u64(offset)
            and self.map_name.push_u32(name)
            and self.map_about.push_u32(about)
            and self.map_flags.push_u32(flags)
            and insert(index, hash, number)
        ):
            return -1
        return number

    def _add_step(self, time, kind, a, b):
        return (
            self.step_time.push_u64(time)
            and self.step_kind.push_u32(kind)
            and self.step_a.push_u64(a)
            and self.step_b.push_u64(b)
        )

    def _add_numbered_step(self, time, kind, thread, number):
        """Add a step about a map or a text. False if its number is -1, or memory runs out."""
        return number >= 0 and self._add_step(time, kind, thread, cython.cast(cython.ulonglong, number))

    def _read_trailer(self, kind, data, end, trailer):
        """Read time and thread of a record that is not a sample, from its trailer if it has one."""
        big: cython.bint = self.big
        event: cython.uint = 0
        if self.id_from_end and end - data >= self.id_from_end:
            row: cython.int = self._id_row(u64(end - self.id_from_end, big))
            if row >= 0 and self.id_event.items[row] < self.event_count:
                event = self.id_event.items[row]
        described: cython.pointer[Event] = cython.address(self.events[event])
        trailer.time = trailer.thread = 0
        trailer.start = end
        if described.has_trailer and end - data >= described.trailer_size:
            if described.time_from_end:
                trailer.time = u64(end - described.time_from_end, big)
            if described.thread_from_end:
                trailer.thread = thread_at(end - described.thread_from_end, big)
            trailer.start = end - described.trailer_size
        elif kind == c.FORK and end - data >= 24:
            trailer.time = u64(data + 16, big)
        else:
            trailer.time = self.clock
        if self.timeless:
            self.clock += 1
            trailer.time = self.clock
        if trailer.time == ALL_ONES:
            trailer.time = 0
        self.clock = max(self.clock, trailer.time)

    def _other(self, kind, misc, data, end):
        """Read a record of the kernel that is not a sample; most types are only counted."""
        big: cython.bint = self.big
        trailer: Trailer
        good: cython.bint = True
        if self.event_count == 0:
            return
        self._read_trailer(kind, data, end, cython.address(trailer))
        end = trailer.start
        if kind == c.MMAP or kind == c.MMAP2:
            good = self._read_map(kind, misc, data, end, trailer.time)
        elif kind == c.COMM and end - data >= 8:
            good = self._read_comm(misc, data, end, trailer.time)
        elif kind == c.FORK and end - data >= 24:
            # u32 pid, ppid, tid, ptid; u64 time
            good = self._add_step(
                trailer.time,
                c.STEP_FORK_EMPTY if misc & c.FORK_IS_MADE_UP else c.STEP_FORK,
                cython.cast(cython.ulonglong, u32(data, big)) << 32 | u32(data + 8, big),
                cython.cast(cython.ulonglong, u32(data + 4, big)) << 32 | u32(data + 12, big),
            )
        elif kind == c.KSYMBOL and end - data >= 16:
            good = self._read_ksymbol(data, end, trailer.time)
        elif kind == c.LOST and end - data >= 16:
            good = self._add_lost(u64(data + 8, big), trailer.time, trailer.thread)
        elif kind == c.LOST_SAMPLES and end - data >= 8:
            good = self._add_lost(u64(data, big), trailer.time, trailer.thread)
        elif kind == c.CALLCHAIN_DEFERRED and end - data >= 16:
            good = self._read_deferred(data, end, trailer.thread)
        if not good:
            self.failed = True

    def _add_lost(self, count, time, thread):
        return self.lost_count.push_u64(count) and self.lost_time.push_u64(time) and self.lost_thread.push_u64(thread)

    def _read_comm(self, misc, data, end, time):
        """Read the name of a thread. False if memory runs out."""
        thread: cython.ulonglong = thread_at(data, self.big)
        name: cython.Py_ssize_t = self._add_text(data + 8, text_size(data + 8, end))
        if misc & c.COMM_IS_EXEC and not self._add_numbered_step(time, c.STEP_EXEC, thread, 0):
            return False
        return self._add_numbered_step(time, c.STEP_COMM, thread, name)

    def _read_ksymbol(self, data, end, time):
        """Read a kernel symbol: u64 address, u32 size, u16 type, u16 flags, name. False if memory runs out."""
        big: cython.bint = self.big
        name: cython.Py_ssize_t = self._add_text(data + 16, text_size(data + 16, end))
        number: cython.Py_ssize_t = -1
        is_removed: cython.bint = u16(data + 14, big) & 1
        if name >= 0:
            number = self._add_map(
                u64(data, big), u32(data + 8, big), 0, cython.cast(cython.uint, name), 0, c.MAP_KERNEL | c.MAP_CODE
            )
        return self._add_numbered_step(time, c.STEP_UNMAP if is_removed else c.STEP_MAP, KERNEL_THREAD, number)

    def _read_deferred(self, data, end, thread):
        """Read the user part of a call chain: u64 cookie, u64 count, entries. False if memory runs out."""
        count: cython.ulonglong = u64(data + 8, self.big)
        if count > cython.cast(cython.ulonglong, end - data - 16) >> 3:
            self.damaged += 1
            return True
        self.depth = 0
        self.user_index = -1
        self.exact = True
        self.mode = c.IN_USER
        self._walk(data + 16, count)
        number: cython.Py_ssize_t = self._add_stack(cython.cast(cython.uint, thread >> 32))
        return (
            number >= 0
            and push_u64(cython.address(self.later_cookie), u64(data, self.big))
            and push_u64(cython.address(self.later_thread), thread)
            and push_u32(cython.address(self.later_stack), cython.cast(cython.uint, number))
        )

    def _read_map(self, kind, misc, data, end, time):
        """Read a map (MMAP, MMAP2). False if memory runs out."""
        big: cython.bint = self.big
        fixed: cython.Py_ssize_t = 32 if kind == c.MMAP else 32 + c.MMAP2_ABOUT + 8
        mode: cython.int = misc & c.MODE
        flags: cython.uint = 0
        about: cython.Py_ssize_t = 0
        if end - data < fixed:
            self.damaged += 1
            return True
        name: cython.Py_ssize_t = self._add_text(data + fixed, text_size(data + fixed, end))
        thread: cython.ulonglong = thread_at(data, big)
        if kind == c.MMAP:
            if misc & c.MAP_IS_DATA:
                flags |= c.MAP_DATA
        else:
            if misc & c.MAP_HAS_BUILD_ID:
                flags |= c.MAP_BUILD_ID
            if not u32(data + 32 + c.MMAP2_ABOUT, big) & c.PROT_EXECUTE:
                flags |= c.MAP_DATA
            about = self._add_text(data + 32, c.MMAP2_ABOUT)
        if name < 0 or about < 0:
            return False
        if mode == c.IN_KERNEL or (mode == 0 and thread >> 32 == NO_CPU):
            flags |= c.MAP_KERNEL
            flags &= ~c.MAP_DATA
            thread = KERNEL_THREAD
        elif mode == c.IN_GUEST_KERNEL or mode == c.IN_GUEST_USER or mode == c.IN_HYPERVISOR:
            return True
        number: cython.Py_ssize_t = self._add_map(
            u64(data + 8, big),
            u64(data + 16, big),
            u64(data + 24, big),
            cython.cast(cython.uint, name),
            cython.cast(cython.uint, about),
            flags,
        )
        return self._add_numbered_step(time, c.STEP_MAP, thread, number)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def thread_at(data: cython.p_const_uchar, big: cython.bint) -> cython.ulonglong:
    """Return the u32 pid and u32 tid at `data` as pid << 32 | tid."""
    return cython.cast(cython.ulonglong, u32(data, big)) << 32 | u32(data + 4, big)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def text_size(data: cython.p_const_uchar, end: cython.p_const_uchar) -> cython.Py_ssize_t:
    """Return the size of the text at `data`, which ends with NUL or at `end`."""
    size: cython.Py_ssize_t = 0
    while data + size < end and data[size]:
        size += 1
    return size
