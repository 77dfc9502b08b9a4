"""Records of perf.data into columns: samples with their stacks, and the steps that say what addresses mean when.

    samples   time, thread (pid << 32 | tid), CPU, event, stack, period, and where its registers and stack bytes lie
    stacks    innermost first: places, each stack of a process once
    places    an address and the mode it was in (IN_USER, IN_KERNEL ...), each once
    maps      start, size, file offset, name, device and inode or build-id, each once
    steps     in the order of the file: a map, a name of a thread, an exec, a fork

Entries of call chains behind the first are return addresses: the place is the byte before, inside the call. The first
entry behind a change of mode is where the code goes on, and stays as it is.

A sample that breaks a rule (a count that leads out of it) is counted in `damaged` and left out; its size says where the
next record is. Nothing is read beyond a record's end.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memcmp, memset
from cython.cimports.whence.kernels.bytes import u16, u32, u64
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column, u8s, u32s, u64s
from cython.cimports.whence.kernels.hashtable import (
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
from cython.cimports.whence.kernels.vector import push_bytes, push_u32, push_u64, release
from cython.cimports.whence.perfdata.kernels import constants as c
from cython.cimports.whence.perfdata.kernels.records import Event, Sample

MOST_DEPTH = cython.declare(cython.Py_ssize_t, 8192 + 1024)  # a chain and branches of records of 64 KB
FIRST_PAGE = cython.declare(cython.ulonglong, 4096)  # no code lies there: what chains have of it is junk, left as it is
NO_EVENT = cython.declare(cython.int, -1)
NO_CPU = cython.declare(cython.uint, 0xFFFFFFFF)
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
KERNEL_THREAD = cython.declare(cython.ulonglong, 0xFFFFFFFF00000000)  # process -1, which has the kernel's maps
NO_USER = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
FIELDS = cython.declare(cython.Py_ssize_t, 6)  # of each row that `set_events` takes


@cython.final
@cython.cclass
class Records:
    """The tables; `feed` fills them. `seed` keys the hashes."""

    def __cinit__(self, big: cython.bint, seed: cython.ulonglong):
        self.big = big
        self.seed = seed
        self.id_at = NO_EVENT
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
        self.chain = cython.cast(cython.p_ulonglong, malloc(8 * MOST_DEPTH))
        self.modes = cython.cast(cython.p_uchar, malloc(MOST_DEPTH))
        if (
            self.chain == cython.NULL
            or self.modes == cython.NULL
            or not self.stack_first.push_u64(0)
            or not push_u64(cython.address(self.texts.end), 0)
            or not make_slots(cython.address(self.stack_slots), 0)
            or not make_slots(cython.address(self.place_slots), 0)
            or not make_slots(cython.address(self.map_slots), 0)
            or not make_slots(cython.address(self.texts.slots), 0)
            or not make_slots(cython.address(self.id_slots), 0)
        ):
            raise MemoryError
        number: cython.uint
        if not self._add_text(cython.cast(cython.p_uchar, b""), 0, cython.address(number)):
            raise MemoryError

    def __dealloc__(self):
        free(self.chain)
        free(self.modes)
        free(self.events)
        release(cython.address(self.ids))
        release(cython.address(self.id_event))
        release(cython.address(self.id_last))
        release(cython.address(self.stack_hash))
        release(cython.address(self.texts.data))
        release(cython.address(self.texts.end))
        release_slots(cython.address(self.texts.slots))
        release_slots(cython.address(self.stack_slots))
        release_slots(cython.address(self.place_slots))
        release_slots(cython.address(self.map_slots))
        release_slots(cython.address(self.id_slots))
        release(cython.address(self.waiting_cookie))
        release(cython.address(self.waiting_thread))
        release(cython.address(self.waiting_sample))
        release(cython.address(self.later_cookie))
        release(cython.address(self.later_thread))
        release(cython.address(self.later_stack))

    # what is known before

    def set_events(self, rows: cython.const[cython.ulonglong][::1], id_at: cython.int, id_from_end: cython.int) -> None:
        """The events, FIELDS numbers each: sample_type, read_format, branch_sample_type, the numbers of user registers
        and of registers at the interrupt, sample_id_all and the fixed period (period << 1 | sample_id_all).

        `id_at` is where in a sample's body the id of its event is (-1: nowhere), `id_from_end` how far before a
        trailer's end (0: nowhere).
        """
        count: cython.Py_ssize_t = rows.shape[0] // FIELDS
        at: cython.Py_ssize_t
        event: cython.pointer[Event]
        kind: cython.ulonglong
        size: cython.int
        belong(rows.shape[0] == FIELDS * count and -1 <= id_at <= 48 and 0 <= id_from_end <= 48)
        free(self.events)
        self.event_count = 0
        self.events = cython.cast(cython.pointer[Event], calloc(count + 1, cython.sizeof(Event)))
        if self.events == cython.NULL:
            raise MemoryError
        for at in range(count):
            event = cython.address(self.events[at])
            kind = event.sample_type = rows[FIELDS * at]
            event.read_format = rows[FIELDS * at + 1]
            event.branch_type = rows[FIELDS * at + 2]
            event.user_registers = rows[FIELDS * at + 3] & 0x7F
            event.inner_registers = rows[FIELDS * at + 4] & 0x7F
            event.has_trailer = rows[FIELDS * at + 5] & 1
            event.period = rows[FIELDS * at + 5] >> 1
            # TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER: 8 bytes each
            size = 8 * (
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
        self.id_at = id_at
        self.id_from_end = id_from_end
        while self.keeps_user and self.sample_user.vector.count < self.sample_time.vector.count:
            if not self.sample_user.push_u64(NO_USER):
                raise MemoryError

    def set_ids(self, ids: cython.const[cython.ulonglong][::1], events: cython.const[cython.uint][::1]) -> None:
        """Which event each id is of; the first one to say so counts."""
        at: cython.Py_ssize_t
        slot: cython.ulonglong
        row: cython.uint
        belong(ids.shape[0] == events.shape[0])
        for at in range(ids.shape[0]):
            if is_crowded(cython.address(self.id_slots)):
                if not make_slots(cython.address(self.id_slots), 2 * self.ids.count + 2):
                    raise MemoryError
                for row in range(self.ids.count):
                    put_item(cython.address(self.id_slots), mix(self.ids.items[row], self.seed), row)
            slot = first_slot(cython.address(self.id_slots), mix(ids[at], self.seed))
            while self.id_slots.slots[slot] and self.ids.items[self.id_slots.slots[slot] - 1] != ids[at]:
                slot = next_slot(cython.address(self.id_slots), slot)
            if self.id_slots.slots[slot]:
                continue
            if (
                not push_u64(cython.address(self.ids), ids[at])
                or not push_u32(cython.address(self.id_event), events[at])
                or not push_u64(cython.address(self.id_last), 0)
            ):
                raise MemoryError
            fill_slot(cython.address(self.id_slots), slot, self.ids.count - 1)

    def text(self, number: cython.Py_ssize_t) -> bytes:
        """A text by its number."""
        belong(0 <= number < self.texts.end.count - 1)
        begin: cython.ulonglong = self.texts.end.items[number]
        return self.texts.data.items[begin : self.texts.end.items[number + 1]]

    @property
    def text_count(self) -> int:
        return self.texts.end.count - 1

    @property
    def record_counts(self) -> list:
        """How many records of each type there were."""
        return [self.counts[at] for at in range(c.TYPES)]

    def add_text(self, text: bytes) -> int:
        """The number of a text."""
        number: cython.uint = 0
        if not self._add_text(cython.cast(cython.p_const_uchar, text), len(text), cython.address(number)):
            raise MemoryError
        return number

    def add_map(
        self, pid: cython.uint, time: cython.ulonglong, start: cython.ulonglong, size: cython.ulonglong,
        offset: cython.ulonglong, name: cython.uint, flags: cython.uint,
    ) -> int:  # fmt: skip
        """A map that no record has, as a step behind the others; returns its number."""
        number: cython.uint = 0
        belong(name < self.texts.end.count - 1)
        if not self._add_map(start, size, offset, name, 0, flags, cython.address(number)) or not self._add_step(
            time, c.STEP_MAP, cython.cast(cython.ulonglong, pid) << 32, number
        ):
            raise MemoryError
        return number

    def flag_maps(self, named: cython.const[cython.uchar][::1], flag: cython.uint) -> None:
        """Add a flag to the maps of some names: `named` has a byte for each text, not 0 where it is one of them."""
        at: cython.Py_ssize_t
        names: cython.p_uint = u32s(self.map_name)
        flags: cython.p_uint = u32s(self.map_flags)
        belong(named.shape[0] == self.texts.end.count - 1)
        for at in range(self.map_flags.vector.count):
            if named[names[at]]:
                flags[at] |= flag

    # the records

    def feed(
        self,
        data: cython.const[cython.uchar][::1],
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        base: cython.ulonglong,
    ) -> tuple[int, int]:
        """Read the records of data[begin:end] one after another; data[0] is byte `base` of the stream.

        Returns where it stopped and why: FINE, CUT, OWN (at the record), BROKEN. MemoryError.
        """
        stop: cython.int = c.FINE
        kind: cython.uint
        misc: cython.int
        size: cython.Py_ssize_t
        at: cython.Py_ssize_t = begin
        belong(0 <= begin <= end <= data.shape[0])
        if begin == end:
            return begin, c.FINE
        first: cython.p_const_uchar = cython.address(data[0])
        big: cython.bint = self.big
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            while at < end:
                if end - at < c.RECORD_HEADER:
                    stop = c.CUT
                    break
                kind = u32(first + at, big)
                misc = u16(first + at + 4, big)
                size = u16(first + at + 6, big)
                if size < c.RECORD_HEADER:
                    stop = c.BROKEN
                    break
                if size > end - at:
                    stop = c.CUT
                    break
                handle_signals(cython.address(work), size)
                if kind < c.TYPES:
                    self.counts[kind] += 1
                else:
                    self.counts[0] += 1
                if kind == c.SAMPLE:
                    self._sample(first + at + c.RECORD_HEADER, first + at + size, misc, base + at)
                elif kind < c.USER_TYPES:
                    self._other(kind, misc, first + at + c.RECORD_HEADER, first + at + size)
                elif kind != c.FINISHED_ROUND and kind != c.FINISHED_INIT:
                    stop = c.OWN
                    break
                if self.failed:
                    stop = c.NO_MEMORY
                    break
                at += size
        if stop == c.NO_MEMORY:
            raise MemoryError
        return at, stop

    def join_deferred(self) -> int:
        """Give the samples that waited for the user's part of their stacks those that came later (CALLCHAIN_DEFERRED).
        Returns how many of them wait still."""
        slots: HashTable
        table: cython.pointer[HashTable] = cython.address(slots)
        at: cython.Py_ssize_t
        row: cython.Py_ssize_t
        slot: cython.ulonglong
        number: cython.uint = 0
        left: cython.Py_ssize_t = 0
        memset(table, 0, cython.sizeof(HashTable))
        if not make_slots(table, self.later_cookie.count + 1):
            raise MemoryError
        for at in range(self.later_cookie.count):
            put_item(table, mix(self.later_cookie.items[at], self.seed), at)
        for at in range(self.waiting_cookie.count):
            slot = first_slot(table, mix(self.waiting_cookie.items[at], self.seed))
            while table.slots[slot]:
                row = table.slots[slot] - 1
                if (
                    self.later_cookie.items[row] == self.waiting_cookie.items[at]
                    and (self.later_thread.items[row] ^ self.waiting_thread.items[at]) & 0xFFFFFFFF == 0
                ):
                    break
                slot = next_slot(table, slot)
            if table.slots[slot] == 0:
                left += 1
                continue
            stacks: cython.p_uint = u32s(self.sample_stack)
            self.depth = 0
            self._copy(stacks[self.waiting_sample.items[at]])
            self._copy(self.later_stack.items[row])
            if not self._add_stack(
                cython.cast(cython.uint, self.waiting_thread.items[at] >> 32), cython.address(number)
            ):
                release_slots(table)
                raise MemoryError
            stacks[self.waiting_sample.items[at]] = number
        release_slots(table)
        return left

    def _copy(self, stack):
        """The places of a stack behind those in `chain`."""
        first: cython.p_ulonglong = u64s(self.stack_first)
        items: cython.p_uint = u32s(self.stack_item)
        at: cython.ulonglong
        for at in range(first[stack], first[stack + 1]):
            if self.depth < MOST_DEPTH:
                self.chain[self.depth] = u64s(self.place_address)[items[at]]
                self.modes[self.depth] = u8s(self.place_mode)[items[at]]
                self.depth += 1

    def _event_of(self, id):
        """The row of an id; -1 for an unknown one."""
        slot: cython.ulonglong = first_slot(cython.address(self.id_slots), mix(id, self.seed))
        while self.id_slots.slots[slot]:
            if self.ids.items[self.id_slots.slots[slot] - 1] == id:
                return self.id_slots.slots[slot] - 1
            slot = next_slot(cython.address(self.id_slots), slot)
        return -1

    def _sample(self, at, end, misc, where):
        """One sample, its fields in the order of the kernel's perf_output_sample."""
        sample: Sample
        body: cython.p_const_uchar = at
        if self.event_count == 0:
            self.damaged += 1
            return
        memset(cython.address(sample), 0, cython.sizeof(Sample))
        sample.event = self._event_in(at, end)
        sample.described = cython.address(self.events[sample.event])
        at = self._read_head(cython.address(sample), at, end)
        if at != cython.NULL:
            at = self._read_values(cython.address(sample), at, end)
        if at != cython.NULL:
            at = self._read_chain(cython.address(sample), at, end, misc & c.MODE)
        if at != cython.NULL:
            at = self._read_user(cython.address(sample), at, end, where + c.RECORD_HEADER, body)
        if at != cython.NULL:
            at = self._skip_rest(cython.address(sample), at, end)
        if at == cython.NULL:
            self.damaged += 1
        elif not self._keep_sample(cython.address(sample)):
            self.failed = True

    def _event_in(self, at, end):
        """Return the event of a sample by the id in it; the first event where the id is missing or unknown."""
        row: cython.int
        if self.id_at >= 0 and end - at >= self.id_at + 8:
            row = self._event_of(u64(at + self.id_at, self.big))
            if row >= 0 and self.id_event.items[row] < self.event_count:
                return self.id_event.items[row]
            if self.event_count > 1:
                self.unknown_ids += 1
        return 0

    def _read_head(self, sample, at, end):
        """Read the fields of fixed size, IDENTIFIER to PERIOD. Returns where the next field begins, NULL for a sample
        that is cut, like the methods that follow."""
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
        if end - at < size:
            return cython.NULL
        if kind & c.HAS_IDENTIFIER:
            at += 8
        if kind & c.HAS_IP:
            sample.ip = u64(at, big)
            at += 8
        if kind & c.HAS_TID:
            sample.thread = cython.cast(cython.ulonglong, u32(at, big)) << 32 | u32(at + 4, big)
            at += 8
        if kind & c.HAS_TIME:
            sample.time = u64(at, big)
            at += 8
        at += 8 * ((kind & c.HAS_ADDR != 0) + (kind & c.HAS_ID != 0) + (kind & c.HAS_STREAM_ID != 0))
        if kind & c.HAS_CPU:
            sample.cpu = u32(at, big)
            at += 8
        if kind & c.HAS_PERIOD:
            sample.period = u64(at, big)
            at += 8
        return at

    def _read_values(self, sample, at, end):
        """Read where the counters' values are (READ)."""
        form: cython.ulonglong = sample.described.read_format
        times: cython.Py_ssize_t = self._between(sample.described)
        if not sample.described.sample_type & c.HAS_READ:
            return at
        sample.values = at
        sample.value_size = 8 * (1 + (form & c.READ_ID != 0) + (form & c.READ_LOST != 0))
        sample.value_count = 1
        if form & c.READ_GROUP:
            # u64 count, the times, the values; a single value has its times after it
            if end - at < 8:
                return cython.NULL
            sample.value_count = u64(at, self.big)
            at += 8
            sample.values = at + times
        if end - at < times or sample.value_count > cython.cast(cython.size_t, end - at - times) // sample.value_size:
            return cython.NULL
        return at + times + sample.value_count * sample.value_size

    def _read_chain(self, sample, at, end, mode):
        """Read the call chain (CALLCHAIN, RAW, BRANCH_STACK) into `chain`; without one, the instruction's address."""
        big: cython.bint = self.big
        kind: cython.ulonglong = sample.described.sample_type
        branches: cython.ulonglong = sample.described.branch_type
        count: cython.ulonglong
        self.depth = 0
        self.user_at = -1
        self.exact = True
        self.mode = mode
        if kind & c.HAS_CALLCHAIN:
            if end - at < 8:
                return cython.NULL
            count = u64(at, big)
            at += 8
            if count > cython.cast(cython.ulonglong, end - at) >> 3:
                return cython.NULL
            if count >= 2 and u64(at + 8 * (count - 2), big) == ALL_ONES - c.CONTEXT_USER_DEFERRED + 1:
                sample.cookie = u64(at + 8 * (count - 1), big)
                self._walk(at, count - 2)
            else:
                self._walk(at, count)
            at += 8 * count
        if self.depth == 0 and kind & c.HAS_IP:
            self._put(sample.ip, mode, True)
        if kind & c.HAS_RAW:
            if end - at < 4 or u32(at, big) > cython.cast(cython.ulonglong, end - at - 4):
                return cython.NULL
            at += 4 + cython.cast(cython.Py_ssize_t, u32(at, big))
        if kind & c.HAS_BRANCH_STACK:
            if end - at < 8:
                return cython.NULL
            count = u64(at, big)
            at += 8
            if branches & c.BRANCH_HW_INDEX:
                at += 8
            if at > end or count > cython.cast(cython.ulonglong, end - at) // 24:
                return cython.NULL
            if branches & c.BRANCH_CALL_STACK and count:
                self._branches(at, count)
            at += 24 * count
            if branches & c.BRANCH_COUNTERS:
                at += 8 * count
        return at

    def _read_user(self, sample, at, end, where, body):
        """Read where the registers and the copy of the stack are (REGS_USER, STACK_USER): the body is at `where` in the
        stream."""
        kind: cython.ulonglong = sample.described.sample_type
        count: cython.ulonglong
        if kind & (c.HAS_REGS_USER | c.HAS_STACK_USER) and at <= end:
            sample.user = where + cython.cast(cython.ulonglong, at - body)
        if kind & c.HAS_REGS_USER:
            at = self._skip_registers(at, end, sample.described.user_registers)
        if kind & c.HAS_STACK_USER and end - at >= 8:
            count = u64(at, self.big)
            at += 8
            if count > cython.cast(cython.ulonglong, end - at):
                return cython.NULL
            at += count
            if count:
                at += 8
        return at

    def _skip_rest(self, sample, at, end):
        """Skip the fields after the copy of the stack, WEIGHT to AUX."""
        kind: cython.ulonglong = sample.described.sample_type
        at += 8 * (
            (kind & (c.HAS_WEIGHT | c.HAS_WEIGHT_STRUCT) != 0)
            + (kind & c.HAS_DATA_SRC != 0)
            + (kind & c.HAS_TRANSACTION != 0)
        )
        if kind & c.HAS_REGS_INTR:
            at = self._skip_registers(at, end, sample.described.inner_registers)
        at += 8 * (
            (kind & c.HAS_PHYS_ADDR != 0)
            + (kind & c.HAS_CGROUP != 0)
            + (kind & c.HAS_DATA_PAGE_SIZE != 0)
            + (kind & c.HAS_CODE_PAGE_SIZE != 0)
        )
        if kind & c.HAS_AUX:
            if end - at < 8 or u64(at, self.big) > cython.cast(cython.ulonglong, end - at - 8):
                return cython.NULL
            at += 8 + u64(at, self.big)
        return at if at <= end else cython.NULL

    def _keep_sample(self, sample):
        """Add a sample, or a row for each counter that it read. False when there is no memory."""
        stack: cython.uint = 0
        if self.timeless:
            self.clock += 1
        if not sample.described.sample_type & c.HAS_TIME:
            sample.time = self.clock
        elif sample.time != ALL_ONES:
            self.clock = sample.time
        if not self._add_stack(cython.cast(cython.uint, sample.thread >> 32), cython.address(stack)):
            return False
        if sample.cookie and not (
            push_u64(cython.address(self.waiting_cookie), sample.cookie)
            and push_u64(cython.address(self.waiting_thread), sample.thread)
            and push_u32(cython.address(self.waiting_sample), cython.cast(cython.uint, self.sample_time.vector.count))
        ):
            return False
        if sample.values == cython.NULL or not sample.described.read_format & c.READ_ID:
            return self._add_sample(sample, stack)
        return self._add_values(sample, stack)

    def _add_values(self, sample, stack):
        """Add a sample for each event whose counter it read: the period is what was counted since the last value."""
        described: cython.pointer[Event] = sample.described
        id_offset: cython.int = 8 + (0 if described.read_format & c.READ_GROUP else self._between(described))
        index: cython.ulonglong
        value: cython.ulonglong
        row: cython.int
        for index in range(sample.value_count):
            value = u64(sample.values, self.big)
            row = self._event_of(u64(sample.values + id_offset, self.big))
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
        """How many bytes of times lie between the value and the id of a single reading."""
        return 8 * ((event.read_format & c.READ_ENABLED != 0) + (event.read_format & c.READ_RUNNING != 0))

    def _skip_registers(self, at, end, count):
        """Behind registers: the ABI, and unless that is 0, so many words."""
        if end - at < 8:
            return end + 1
        return at + 8 + (8 * count if u64(at, self.big) else 0)

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
        if self.depth >= MOST_DEPTH:
            return
        if mode == c.IN_USER and self.user_at < 0:
            self.user_at = self.depth
        self.chain[self.depth] = address if exact or address < FIRST_PAGE else address - 1
        self.modes[self.depth] = cython.cast(cython.uchar, mode)
        self.depth += 1

    def _walk(self, at, count):
        """The entries of a call chain behind those there are."""
        address: cython.ulonglong
        below: cython.ulonglong
        big: cython.bint = self.big
        chain: cython.p_ulonglong = self.chain
        modes: cython.p_uchar = self.modes
        depth: cython.Py_ssize_t
        while count:
            depth = self.depth  # plain entries first: most are
            while count and depth < MOST_DEPTH and not self.exact and (depth == 0 or self.user_at >= 0):
                address = u64(at, big)
                below = 0 - address
                if 0 < below <= c.CONTEXT_MOST:
                    break
                chain[depth] = address if address < FIRST_PAGE else address - 1
                modes[depth] = cython.cast(cython.uchar, self.mode)
                depth += 1
                at += 8
                count -= 1
            self.depth = depth
            if count == 0:
                break
            address = u64(at, big)
            at += 8
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

    def _branches(self, at, count):
        """The user's part of a stack by the branches that called (LBR), in place of the call chain's own."""
        if self.user_at >= 0:
            self.depth = self.user_at + 1  # the innermost, where the code was
        else:
            self._put(u64(at + 8, self.big), c.IN_USER, True)  # where the last call led
        while count:
            self._put(u64(at, self.big), c.IN_USER, True)
            at += 24
            count -= 1

    def _add_place(self, address, mode, number):
        table: cython.pointer[HashTable] = cython.address(self.place_slots)
        hash: cython.ulonglong = mix(address ^ (cython.cast(cython.ulonglong, mode) << 60), self.seed)
        addresses: cython.p_ulonglong = u64s(self.place_address)
        modes: cython.p_uchar = u8s(self.place_mode)
        at: cython.uint
        slot: cython.ulonglong
        if is_crowded(table):
            count: cython.Py_ssize_t = self.place_address.vector.count
            if not make_slots(table, 2 * count + 2):
                return False
            for at in range(count):
                put_item(table, mix(addresses[at] ^ (cython.cast(cython.ulonglong, modes[at]) << 60), self.seed), at)
        slot = first_slot(table, hash)
        while table.slots[slot]:
            at = table.slots[slot] - 1
            if addresses[at] == address and modes[at] == mode:
                number[0] = at
                return True
            slot = next_slot(table, slot)
        if not self.place_mode.reserve(1) or not self.place_address.push_u64(address):
            return False
        u8s(self.place_mode)[self.place_mode.vector.count] = mode
        self.place_mode.vector.count += 1
        number[0] = cython.cast(cython.uint, self.place_address.vector.count - 1)
        fill_slot(table, slot, number[0])
        return True

    def _chain_hash(self):
        """A keyed hash of the addresses in `chain`, two at a time, for two multiplications run side by side."""
        one: cython.ulonglong = self.seed
        other: cython.ulonglong = ~self.seed
        key: cython.ulonglong = self.seed | 1
        at: cython.Py_ssize_t = 0
        while at + 1 < self.depth:
            one = (one ^ self.chain[at]) * key
            other = (other ^ self.chain[at + 1]) * key
            one ^= one >> 32
            other ^= other >> 29
            at += 2
        if at < self.depth:
            one = (one ^ self.chain[at]) * key
        return mix(one ^ (one >> 31), self.seed) ^ other

    def _grow_stacks(self):
        at: cython.uint
        table: cython.pointer[HashTable] = cython.address(self.stack_slots)
        if not make_slots(table, 2 * self.stack_hash.count + 2):
            return False
        for at in range(self.stack_hash.count):
            put_item(table, self.stack_hash.items[at], at)
        return True

    def _add_stack(self, pid, number):
        """The number of the stack of a process that is in `chain`."""
        table: cython.pointer[HashTable] = cython.address(self.stack_slots)
        hash: cython.ulonglong = self._chain_hash() ^ pid
        hash = mix(hash ^ (cython.cast(cython.ulonglong, self.depth) << 40), self.seed)
        slot: cython.ulonglong
        at: cython.uint
        i: cython.Py_ssize_t
        first: cython.p_ulonglong
        items: cython.p_uint
        addresses: cython.p_ulonglong
        modes: cython.p_uchar
        if is_crowded(table) and not self._grow_stacks():
            return False
        slot = first_slot(table, hash)
        while table.slots[slot]:
            at = table.slots[slot] - 1
            if self.stack_hash.items[at] == hash:
                first = u64s(self.stack_first)
                if (
                    cython.cast(cython.Py_ssize_t, first[at + 1] - first[at]) == self.depth
                    and u32s(self.stack_pid)[at] == pid
                ):
                    items = u32s(self.stack_item) + first[at]
                    addresses = u64s(self.place_address)
                    modes = u8s(self.place_mode)
                    i = 0
                    while i < self.depth and (
                        addresses[items[i]] == self.chain[i] and modes[items[i]] == self.modes[i]
                    ):
                        i += 1
                    if i == self.depth:
                        number[0] = at
                        return True
            slot = next_slot(table, slot)
        number[0] = cython.cast(cython.uint, self.stack_hash.count)
        if not push_u64(cython.address(self.stack_hash), hash) or not self.stack_pid.push_u32(pid):
            return False
        for i in range(self.depth):
            if not self._add_place(self.chain[i], self.modes[i], cython.address(at)) or not self.stack_item.push_u32(
                at
            ):
                return False
        if not self.stack_first.push_u64(self.stack_item.vector.count):
            return False
        fill_slot(table, slot, number[0])
        return True

    # everything else

    def _add_text(self, data, size, number):
        table: cython.pointer[HashTable] = cython.address(self.texts.slots)
        ends: cython.p_ulonglong = self.texts.end.items
        all: cython.p_uchar = self.texts.data.items
        at: cython.uint
        slot: cython.ulonglong
        if is_crowded(table):
            if not make_slots(table, 2 * self.texts.end.count):
                return False
            for at in range(self.texts.end.count - 1):
                put_item(table, mix_bytes(all + ends[at], ends[at + 1] - ends[at], self.seed), at)
        slot = first_slot(table, mix_bytes(data, size, self.seed))
        while table.slots[slot]:
            at = table.slots[slot] - 1
            if cython.cast(cython.Py_ssize_t, ends[at + 1] - ends[at]) == size and (
                size == 0 or memcmp(all + ends[at], data, size) == 0
            ):
                number[0] = at
                return True
            slot = next_slot(table, slot)
        number[0] = cython.cast(cython.uint, self.texts.end.count - 1)
        if size and not push_bytes(cython.address(self.texts.data), data, size):
            return False
        if not push_u64(cython.address(self.texts.end), self.texts.data.count):
            return False
        fill_slot(table, slot, number[0])
        return True

    def _add_map(self, start, size, offset, name, about, flags, number):
        table: cython.pointer[HashTable] = cython.address(self.map_slots)
        slot: cython.ulonglong
        at: cython.uint
        count: cython.Py_ssize_t = self.map_start.vector.count
        if is_crowded(table):
            if not make_slots(table, 2 * count + 2):
                return False
            for at in range(count):
                put_item(table, self._map_hash(at), at)
        # put in as a new row, and taken out again if it is there already
        if not (
            self.map_start.push_u64(start)
            and self.map_size.push_u64(size)
            and self.map_offset.push_u64(offset)
            and self.map_name.push_u32(name)
            and self.map_about.push_u32(about)
            and self.map_flags.push_u32(flags)
        ):
            return False
        slot = first_slot(table, self._map_hash(cython.cast(cython.uint, count)))
        while table.slots[slot]:
            at = table.slots[slot] - 1
            if (
                u64s(self.map_start)[at] == start
                and u64s(self.map_size)[at] == size
                and u64s(self.map_offset)[at] == offset
                and u32s(self.map_name)[at] == name
                and u32s(self.map_about)[at] == about
                and u32s(self.map_flags)[at] == flags
            ):
                self.map_start.vector.count = count
                self.map_size.vector.count = count
                self.map_offset.vector.count = count
                self.map_name.vector.count = count
                self.map_about.vector.count = count
                self.map_flags.vector.count = count
                number[0] = at
                return True
            slot = next_slot(table, slot)
        number[0] = cython.cast(cython.uint, count)
        fill_slot(table, slot, count)
        return True

    def _map_hash(self, at):
        hash: cython.ulonglong = mix(u64s(self.map_start)[at], self.seed)
        hash = mix(hash ^ u64s(self.map_offset)[at], self.seed)
        hash ^= u32s(self.map_name)[at]
        return mix(hash ^ u64s(self.map_size)[at], self.seed)

    def _add_step(self, time, kind, a, b):
        return (
            self.step_time.push_u64(time)
            and self.step_kind.push_u32(kind)
            and self.step_a.push_u64(a)
            and self.step_b.push_u64(b)
        )

    def _other(self, kind, misc, at, end):
        """A record of the kernel that is no sample; those that mean nothing here are only counted."""
        big: cython.bint = self.big
        event: cython.uint = 0
        row: cython.int
        time: cython.ulonglong = 0
        thread: cython.ulonglong = 0
        number: cython.uint = 0
        size: cython.Py_ssize_t
        good: cython.bint = True
        if self.event_count == 0:
            return
        if self.id_from_end and end - at >= self.id_from_end:
            row = self._event_of(u64(end - self.id_from_end, big))
            if row >= 0 and self.id_event.items[row] < self.event_count:
                event = self.id_event.items[row]
        described: cython.pointer[Event] = cython.address(self.events[event])
        if described.has_trailer and end - at >= described.trailer_size:
            if described.time_from_end:
                time = u64(end - described.time_from_end, big)
            if described.thread_from_end:
                thread = cython.cast(cython.ulonglong, u32(end - described.thread_from_end, big)) << 32
                thread |= u32(end - described.thread_from_end + 4, big)
            end -= described.trailer_size
        elif (kind == c.FORK) and end - at >= 24:
            time = u64(at + 16, big)
        else:
            time = self.clock
        if self.timeless:
            self.clock += 1
            time = self.clock
        if time == ALL_ONES:
            time = 0
        if time > self.clock:
            self.clock = time
        if kind == c.MMAP or kind == c.MMAP2:
            self._map_record(kind, misc, at, end, time)
        elif kind == c.COMM and end - at >= 8:
            size = 0
            while at + 8 + size < end and at[8 + size]:
                size += 1
            thread = cython.cast(cython.ulonglong, u32(at, big)) << 32 | u32(at + 4, big)
            good = self._add_text(at + 8, size, cython.address(number))
            if good and misc & c.COMM_IS_EXEC:
                good = self._add_step(time, c.STEP_EXEC, thread, 0)
            good = good and self._add_step(time, c.STEP_COMM, thread, number)
        elif kind == c.FORK and end - at >= 24:
            # u32 pid, ppid, tid, ptid; u64 time
            thread = cython.cast(cython.ulonglong, u32(at, big)) << 32 | u32(at + 8, big)
            good = self._add_step(
                time,
                c.STEP_FORK_EMPTY if misc & c.FORK_IS_MADE_UP else c.STEP_FORK,
                thread,
                cython.cast(cython.ulonglong, u32(at + 4, big)) << 32 | u32(at + 12, big),
            )
        elif kind == c.KSYMBOL and end - at >= 16:
            size = 0
            while at + 16 + size < end and at[16 + size]:
                size += 1
            good = self._add_text(at + 16, size, cython.address(number)) and self._add_map(
                u64(at, big), u32(at + 8, big), 0, number, 0, c.MAP_KERNEL | c.MAP_CODE, cython.address(number)
            )
            # u16 type, u16 flags; bit 0 of the flags: it is gone
            good = good and self._add_step(
                time, c.STEP_UNMAP if u16(at + 14, big) & 1 else c.STEP_MAP, KERNEL_THREAD, number
            )
        elif kind == c.LOST and end - at >= 16:
            good = self._add_lost(u64(at + 8, big), time, thread)
        elif kind == c.LOST_SAMPLES and end - at >= 8:
            good = self._add_lost(u64(at, big), time, thread)
        elif kind == c.CALLCHAIN_DEFERRED and end - at >= 16:
            if u64(at + 8, big) > cython.cast(cython.ulonglong, end - at - 16) >> 3:
                self.damaged += 1
                return
            self.depth = 0
            self.user_at = -1
            self.exact = True
            self.mode = c.IN_USER
            self._walk(at + 16, u64(at + 8, big))
            good = (
                self._add_stack(cython.cast(cython.uint, thread >> 32), cython.address(number))
                and push_u64(cython.address(self.later_cookie), u64(at, big))
                and push_u64(cython.address(self.later_thread), thread)
                and push_u32(cython.address(self.later_stack), number)
            )
        if not good:
            self.failed = True

    def _add_lost(self, count, time, thread):
        return self.lost_count.push_u64(count) and self.lost_time.push_u64(time) and self.lost_thread.push_u64(thread)

    def _map_record(self, kind, misc, at, end, time):
        big: cython.bint = self.big
        fixed: cython.Py_ssize_t = 32 if kind == c.MMAP else 32 + c.MMAP2_ABOUT + 8
        mode: cython.int = misc & c.MODE
        flags: cython.uint = 0
        name: cython.uint = 0
        about: cython.uint = 0
        number: cython.uint = 0
        size: cython.Py_ssize_t = 0
        thread: cython.ulonglong
        if end - at < fixed:
            self.damaged += 1
            return
        while at + fixed + size < end and at[fixed + size]:
            size += 1
        if not self._add_text(at + fixed, size, cython.address(name)):
            self.failed = True
            return
        thread = cython.cast(cython.ulonglong, u32(at, big)) << 32 | u32(at + 4, big)
        if kind == c.MMAP:
            if misc & c.MAP_IS_DATA:
                flags |= c.MAP_DATA
        else:
            if misc & c.MAP_HAS_BUILD_ID:
                flags |= c.MAP_BUILD_ID
            if not u32(at + 32 + c.MMAP2_ABOUT, big) & c.PROT_EXECUTE:
                flags |= c.MAP_DATA
            if not self._add_text(at + 32, c.MMAP2_ABOUT, cython.address(about)):
                self.failed = True
                return
        if mode == c.IN_KERNEL or (mode == 0 and thread >> 32 == NO_CPU):
            flags |= c.MAP_KERNEL
            flags &= ~c.MAP_DATA
            thread = KERNEL_THREAD
        elif mode == c.IN_GUEST_KERNEL or mode == c.IN_GUEST_USER or mode == c.IN_HYPERVISOR:
            return
        if not self._add_map(
            u64(at + 8, big), u64(at + 16, big), u64(at + 24, big), name, about, flags, cython.address(number)
        ) or not self._add_step(time, c.STEP_MAP, thread, number):
            self.failed = True
