"""Kernel: walk the thread states and frames of CPython, in a stopped process or in the memory of a core.

In: offsets of one version (LAYOUT_*), the address of `_PyRuntime`, and memory. Out, as rows of 64-bit numbers:

    interpreters  address, id, address of its GIL, whether it is locked, thread state that held it last
    states        address, interpreter, ID of the thread, first frame, end, first mark, end, CHAIN_*
    frames        address, code object, byte offset in the bytecode, FRAME_*
    marks         addresses on the C stack, one per evaluation, in the order of the evaluations
    codes         addresses of code objects, with LAYOUT_HEADER bytes of each in `headers` (live processes only)

Every list ends at a limit, and a cycle in a chain of frames is found by Brent's method. Nothing that is read is trusted
as more than an address to read at.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.whence.kernels.bytes import u32, u64
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.hashtable import WHENCE_GOLDEN
from cython.cimports.whence.kernels.vector import release
from cython.cimports.whence.unwind.kernels.segments import MemorySegment, add_segment, find_segment
from cython.cimports.whence.unwind.kernels.stopped import (
    StoppedReader,
    whence_part,
    whence_read,
    whence_read_parts,
)

LAYOUT_ABSENT = 0xFFFFFFFFFFFFFFFF

ABSENT = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
INTERPRETERS_LIMIT = cython.declare(cython.Py_ssize_t, 1000)
STATES_LIMIT = cython.declare(cython.Py_ssize_t, 20_000)
FRAMES_LIMIT = cython.declare(cython.Py_ssize_t, 2_000_000)  # of one walk
MARKS_LIMIT = cython.declare(cython.Py_ssize_t, 200_000)  # of one thread
HEADER_LIMIT = cython.declare(cython.ulonglong, 512)
STATE_BYTES = cython.declare(cython.ulonglong, 1 << 14)  # more than any thread state has
ATTEMPTS = cython.declare(cython.int, 3)
LOW_32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
LOWEST = cython.declare(cython.ulonglong, 1 << 12)  # no object is in the first page
FIRST_SHIM_OWNER = cython.declare(cython.uchar, 3)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def push_row(column: Column, row: cython.p_ulonglong, count: cython.Py_ssize_t) -> cython.bint:
    """Append numbers to a column. False if memory runs out."""
    index: cython.Py_ssize_t
    if not column.reserve(count):
        return False
    for index in range(count):
        column.push_u64(row[index])
    return True


@cython.final
@cython.cclass
class FrameWalker(StoppedReader):
    """Walks the frames of one CPython runtime. Rows of earlier walks stay until `clear`."""

    def __cinit__(
        self,
        layout: cython.const[cython.ulonglong][::1],
        runtime: cython.ulonglong,
        big: cython.bint = False,
        pointer_offset: cython.Py_ssize_t = -1,
    ):
        """Prepare to walk.

        Args:
            layout: LAYOUT_NUMBERS numbers.
            runtime: address of `_PyRuntime`.
            big: byte order of the process.
            pointer_offset: byte offset of the thread pointer in NT_PRSTATUS registers, -1 if they do not have it.
        """
        index: cython.int
        belong(layout.shape[0] == LAYOUT_NUMBERS)
        for index in range(LAYOUT_NUMBERS):
            self.layout[index] = layout[index]
        belong(self.layout[LAYOUT_HEADER] <= HEADER_LIMIT and self.layout[LAYOUT_HEADER] % 8 == 0)
        belong(self.layout[LAYOUT_FRAME_BYTES] <= HEADER_LIMIT)
        for index in (
            LAYOUT_FRAME_PREVIOUS, LAYOUT_FRAME_CODE, LAYOUT_FRAME_POSITION, LAYOUT_FRAME_OWNER, LAYOUT_FRAME_ENTRY,
            LAYOUT_FRAME_TLBC,
        ):  # fmt: skip
            belong(self.layout[index] == ABSENT or self.layout[index] <= self.layout[LAYOUT_FRAME_BYTES] - 8)
        belong(self.layout[LAYOUT_FRAME_BYTES] >= 8 and self.layout[LAYOUT_FRAME_PREVIOUS] != ABSENT)
        belong(self.layout[LAYOUT_FRAME_CODE] != ABSENT and self.layout[LAYOUT_FRAME_POSITION] != ABSENT)
        belong(self.layout[LAYOUT_STYLE] != STYLE_SHIMS or self.layout[LAYOUT_FRAME_OWNER] != ABSENT)
        belong(self.layout[LAYOUT_STYLE] != STYLE_ENTRY_FLAGS or self.layout[LAYOUT_FRAME_ENTRY] != ABSENT)
        self.runtime = runtime
        self.big = big
        self.pointer_offset = pointer_offset
        self.owners = []
        self.pages = cython.cast(cython.pointer[CachedPage], calloc(PAGES, cython.sizeof(CachedPage)))
        self.seen = cython.cast(cython.p_ulonglong, calloc(SEEN_CODES, 8))
        if self.pages == cython.NULL or self.seen == cython.NULL:
            raise MemoryError
        self.clear()

    def __dealloc__(self):
        release(cython.address(self.segments))
        free(self.pages)
        free(self.seen)

    def clear(self):
        """Drop the rows of earlier walks. Columns that were taken before stay as they are."""
        self.states = Column("Q")
        self.frames = Column("Q")
        self.marks = Column("Q")
        self.interpreters = Column("Q")
        self.codes = Column("Q")
        self.headers = Column("Q")
        self.reads = Column("Q")
        self.problem = CHAIN_WHOLE
        self.frames_left = FRAMES_LIMIT
        memset(self.seen, 0, SEEN_CODES * 8)

    def add_segment(self, start: cython.ulonglong, data):
        """Add memory of a core, in order of address; segments must not overlap."""
        add_segment(cython.address(self.segments), self.owners, start, data)

    def walk(self, tids: cython.const[cython.uint][::1], pointers: cython.const[cython.ulonglong][::1]):
        """Walk the threads of a core with these ids or thread pointers (0: unknown)."""
        belong(tids.shape[0] == pointers.shape[0])
        self.tids = tids
        self.pointers = pointers
        self.pid = 0
        self.stopped = cython.NULL
        with cython.nogil:
            self.walk_all()

    def prepare(self, threads):
        """Walk the threads while they still run, to find out which memory a walk reads, and to have it cached."""
        frames: cython.size_t = self.frames.vector.count
        marks: cython.size_t = self.marks.vector.count
        states: cython.size_t = self.states.vector.count
        interpreters: cython.size_t = self.interpreters.vector.count
        codes: cython.size_t = self.codes.vector.count
        headers: cython.size_t = self.headers.vector.count
        problem: cython.int = self.problem
        left: cython.Py_ssize_t = self.frames_left
        self.is_rehearsal = True
        self.read_stopped(threads)
        self.is_rehearsal = False
        self.frames.vector.count = frames
        self.marks.vector.count = marks
        self.states.vector.count = states
        self.interpreters.vector.count = interpreters
        self.codes.vector.count = codes
        self.headers.vector.count = headers
        self.problem = problem
        self.frames_left = left
        memset(self.seen, 0, SEEN_CODES * 8)
        if self.following is not None:
            self.following.prepare(threads)

    def read_stopped(self, threads):
        self.pid = threads.pid
        self.stopped = threads
        self.walk_stopped()
        self.stopped = cython.NULL
        if self.following is not None and not self.is_rehearsal:
            self.following.read_stopped(threads)

    # memory

    def read_expected(self):
        """Read the parts of pages that the last walk used: by one call, which costs a third of one for each page."""
        parts: whence_part[1024]
        index: cython.int
        count: cython.int = self.used_count
        for index in range(count):
            page: cython.pointer[CachedPage] = self.pages + self.used[index]
            page.start = page.used_start & ~(MARGIN - 1)
            page.end = min((page.used_end + 2 * MARGIN - 1) & ~(MARGIN - 1), PAGE_BYTES)
            page.is_used = False
            parts[index].address = page.number * PAGE_BYTES + page.start
            parts[index].into = page.content + page.start
            parts[index].size = page.end - page.start
        for index in range(whence_read_parts(self.pid, parts, count)):
            self.pages[self.used[index]].walk = self.walks
        self.used_count = 0

    def page(self, number, start, end):
        """Return a page of the process, of which a part is needed; NULL if it is not readable."""
        slot: cython.int = cython.cast(cython.int, (number * WHENCE_GOLDEN) >> PAGES_SHIFT)
        page: cython.pointer[CachedPage] = self.pages + slot
        is_cached: cython.bint = page.walk == self.walks and page.number == number
        if not is_cached or start < page.start or end > page.end:
            page.walk = 0
            if whence_read(self.pid, number * PAGE_BYTES, page.content, PAGE_BYTES) != PAGE_BYTES:
                return cython.NULL
            page.walk = self.walks
            page.number = number
            page.start = 0
            page.end = PAGE_BYTES
        if not page.is_used:
            page.is_used = True
            self.used[self.used_count] = slot
            self.used_count += 1
            is_cached = False
        if not is_cached:
            page.used_start = start
            page.used_end = end
        page.used_start = min(page.used_start, start)
        page.used_end = max(page.used_end, end)
        return page.content

    def fetch(self, address, into, size):
        """Copy memory. False if not all of it is available."""
        part: cython.Py_ssize_t
        offset: cython.Py_ssize_t
        if address < LOWEST or address + cython.cast(cython.ulonglong, size) < address:
            return False
        if self.pid:
            while size > 0:
                offset = address % PAGE_BYTES
                part = min(size, PAGE_BYTES - offset)
                content: cython.pointer(cython.const[cython.uchar]) = self.page(
                    address // PAGE_BYTES, offset, offset + part
                )
                if content == cython.NULL:
                    return False
                memcpy(into, content + offset, part)
                into += part
                address += cython.cast(cython.ulonglong, part)
                size -= part
            return True
        segment: cython.pointer(cython.const[MemorySegment]) = find_segment(cython.address(self.segments), address)
        if segment == cython.NULL or segment.end - address < cython.cast(cython.ulonglong, size):
            return False
        memcpy(into, segment.bytes + (address - segment.start), size)
        if self.records_reads:
            return self.reads.push_u64(address) and self.reads.push_u64(address + cython.cast(cython.ulonglong, size))
        return True

    def word(self, address, value):
        """Read a number of 64 bits."""
        data: cython.uchar[8]
        if not self.fetch(address, cython.address(data[0]), 8):
            return False
        value[0] = u64(cython.address(data[0]), self.big)
        return True

    def field(self, address, field, value):
        """Read the field of a structure; 0 if the version does not have it."""
        value[0] = 0
        if self.layout[field] == ABSENT:
            return True
        return self.word(address + self.layout[field], value)

    # lists

    def walk_stopped(self):
        """Walk all interpreters; again if a list is damaged, since threads of other groups change it meanwhile."""
        before: cython.int = self.problem
        attempt: cython.int
        for attempt in range(ATTEMPTS):
            self.walks += 1
            self.read_expected()
            self.problem = CHAIN_WHOLE
            self.walk_all()
            if self.problem != CHAIN_UNREADABLE and self.problem != CHAIN_BROKEN:
                break
        if self.problem == CHAIN_WHOLE:
            self.problem = before

    def wanted_tid(self, thread_id, native_id):
        """Return the ID of the thread of a thread state, if it is stopped now or of the core; 0 otherwise.

        The thread pointer decides, if registers have it: the ID in a thread state may be of another namespace.
        """
        index: cython.Py_ssize_t
        tid: cython.uint = 0
        if self.stopped == cython.NULL:
            for index in range(self.tids.shape[0]):
                if self.pointers[index] and self.pointers[index] == thread_id:
                    return self.tids[index]
                if self.tids[index] == native_id:
                    tid = self.tids[index]
            return tid
        if self.is_rehearsal and self.layout[LAYOUT_NATIVE_ID] == ABSENT:
            return 1  # any of them
        for index in range(self.stopped.count):
            if self.stopped.states[index] == self.stopped.stopped or self.is_rehearsal:
                if self.stopped.tids[index] == native_id:
                    tid = self.stopped.tids[index]
                if self.pointer_offset >= 0 and self.stopped.sizes[index] >= self.pointer_offset + 8:
                    registers: cython.pointer(cython.const[cython.uchar]) = (
                        self.stopped.registers + self.stopped.stride * index
                    )
                    if u64(registers + self.pointer_offset, self.big) == thread_id:
                        return self.stopped.tids[index]
        return tid

    def walk_all(self):
        """Walk all interpreters, and their wanted thread states."""
        interpreter: cython.ulonglong = 0
        state: cython.ulonglong = 0
        owner: cython.ulonglong = 0
        count: cython.Py_ssize_t = 0
        states: cython.Py_ssize_t = 0
        if not self.field(self.runtime, LAYOUT_INTERPRETERS, cython.address(interpreter)):
            self.problem = CHAIN_UNREADABLE
            return
        while interpreter:
            count += 1
            if count > INTERPRETERS_LIMIT:
                self.problem = CHAIN_LIMIT
                return
            if not self.add_interpreter(interpreter):
                self.problem = CHAIN_UNREADABLE
                return
            if not self.field(interpreter, LAYOUT_THREADS, cython.address(state)):
                self.problem = CHAIN_UNREADABLE
                return
            while state:
                states += 1
                if states > STATES_LIMIT:
                    self.problem = CHAIN_LIMIT
                    return
                if not self.field(state, LAYOUT_THREAD_INTERPRETER, cython.address(owner)):
                    self.problem = CHAIN_UNREADABLE
                    break
                if owner != interpreter:
                    self.problem = CHAIN_BROKEN
                    break
                if not self.add_state(state, interpreter):
                    return
                if not self.field(state, LAYOUT_THREAD_NEXT, cython.address(state)):
                    self.problem = CHAIN_UNREADABLE
                    break
            if not self.field(interpreter, LAYOUT_INTERPRETER_NEXT, cython.address(interpreter)):
                self.problem = CHAIN_UNREADABLE
                return

    def add_interpreter(self, address):
        """Add a row for an interpreter and its GIL."""
        number: cython.ulonglong = 0
        gil: cython.ulonglong = 0
        locked: cython.ulonglong = 0
        holder: cython.ulonglong = 0
        data: cython.uchar[4]
        if not self.field(address, LAYOUT_INTERPRETER_ID, cython.address(number)):
            return False
        if self.layout[LAYOUT_GIL] != ABSENT:
            self.field(address, LAYOUT_GIL, cython.address(gil))
        elif self.layout[LAYOUT_RUNTIME_GIL] != ABSENT:
            gil = self.runtime + self.layout[LAYOUT_RUNTIME_GIL]
        if gil and self.fetch(gil + self.layout[LAYOUT_GIL_LOCKED], cython.address(data[0]), 4):
            locked = u32(cython.address(data[0]), self.big) == 1
            self.field(gil, LAYOUT_GIL_HOLDER, cython.address(holder))
        row: cython.ulonglong[5]
        row[0] = address
        row[1] = number
        row[2] = gil
        row[3] = locked
        row[4] = holder
        return push_row(self.interpreters, cython.address(row[0]), INTERPRETER_FIELDS)

    def add_state(self, address, interpreter):
        """Walk a thread state if it is wanted. False if memory runs out."""
        thread_id: cython.ulonglong = 0
        native_id: cython.ulonglong = 0
        first: cython.ulonglong = self.frames.vector.count // FRAME_FIELDS
        first_mark: cython.ulonglong = self.marks.vector.count
        if not self.field(address, LAYOUT_THREAD_ID, cython.address(thread_id)):
            return True
        if not self.field(address, LAYOUT_NATIVE_ID, cython.address(native_id)):
            return True
        tid: cython.uint = self.wanted_tid(thread_id, native_id & LOW_32)
        if tid == 0:
            return True
        how: cython.int = self.walk_state(address)
        if how == CHAIN_NO_MEMORY:
            self.problem = how
            return False
        row: cython.ulonglong[8]
        row[0] = address
        row[1] = interpreter
        row[2] = tid
        row[3] = first
        row[4] = self.frames.vector.count // FRAME_FIELDS
        row[5] = first_mark
        row[6] = self.marks.vector.count
        row[7] = how
        return push_row(self.states, cython.address(row[0]), STATE_FIELDS)

    # one thread

    def walk_state(self, address):
        """Walk the marks and frames of a thread state. Returns CHAIN_*."""
        cframe: cython.ulonglong = 0
        frame: cython.ulonglong = 0
        base: cython.ulonglong = 0
        if self.layout[LAYOUT_CFRAME] != ABSENT:
            if not self.field(address, LAYOUT_CFRAME, cython.address(cframe)):
                return CHAIN_UNREADABLE
            if cframe == 0:  # the thread state is being made
                return CHAIN_WHOLE
            if self.layout[LAYOUT_STYLE] != STYLE_SHIMS:
                how: cython.int = self.walk_marks(cframe, address)
                if how != CHAIN_WHOLE:
                    return how
        if self.layout[LAYOUT_TOP_FRAME] != ABSENT:
            if not self.field(address, LAYOUT_TOP_FRAME, cython.address(frame)):
                return CHAIN_UNREADABLE
        elif not self.top_of_cframe(cframe, address, cython.address(frame)):
            return CHAIN_UNREADABLE
        if not self.field(address, LAYOUT_BASE_FRAME, cython.address(base)):
            return CHAIN_UNREADABLE
        return self.walk_frames(frame, base)

    def top_of_cframe(self, cframe, state, frame):
        """Read the innermost frame by a cframe (3.11, 3.12); by the one before if this one is not filled in yet.

        An evaluation links its cframe before it writes its frame there: until then the frame is an old value.
        """
        previous: cython.ulonglong = 0
        outer: cython.ulonglong = 0
        if not self.field(cframe, LAYOUT_CFRAME_TOP, frame):
            return False
        if state <= cframe < state + STATE_BYTES:  # no evaluation runs
            return True
        if not self.field(cframe, LAYOUT_CFRAME_PREVIOUS, cython.address(previous)):
            return False
        if not self.field(previous, LAYOUT_CFRAME_TOP, cython.address(outer)):
            return False
        if not self.leads_to(frame[0], outer):
            frame[0] = outer
        return True

    def leads_to(self, frame, outer):
        """Return True if the frames of the innermost evaluation end at the frame that called it."""
        byte: cython.uchar = 0
        steps: cython.Py_ssize_t = 0
        is_shims: cython.bint = self.layout[LAYOUT_STYLE] == STYLE_SHIMS
        field: cython.int = LAYOUT_FRAME_OWNER if is_shims else LAYOUT_FRAME_ENTRY
        while steps < FRAMES_LIMIT:
            steps += 1
            if not self.fetch(frame + self.layout[field], cython.address(byte), 1):
                return False
            if not self.field(frame, LAYOUT_FRAME_PREVIOUS, cython.address(frame)):
                return False
            if byte >= FIRST_SHIM_OWNER if is_shims else byte != 0:
                return frame == outer
        return False

    def walk_marks(self, cframe, state):
        """Add the cframes of a thread, except the last one, which is in the thread state; 3.10 sets no link there."""
        count: cython.Py_ssize_t = 0
        while not state <= cframe < state + STATE_BYTES:
            count += 1
            if count > MARKS_LIMIT:
                return CHAIN_LIMIT
            if not self.marks.push_u64(cframe):
                return CHAIN_NO_MEMORY
            if not self.field(cframe, LAYOUT_CFRAME_PREVIOUS, cython.address(cframe)):
                return CHAIN_UNREADABLE
        return CHAIN_WHOLE

    def walk_frames(self, frame, base):
        """Add the frames of a chain, innermost first. Returns CHAIN_*."""
        code: cython.ulonglong = 0
        previous: cython.ulonglong = 0
        checkpoint: cython.ulonglong = 0  # Brent: the frame to compare with, moved at each power of two
        steps: cython.ulonglong = 0
        power: cython.ulonglong = 1
        kind: cython.ulonglong = FRAME_ENTRY
        is_first: cython.bint = True
        row: cython.ulonglong[4]
        data: cython.uchar[512]
        size: cython.Py_ssize_t = self.layout[LAYOUT_FRAME_BYTES]
        style: cython.ulonglong = self.layout[LAYOUT_STYLE]
        while frame:
            if frame == base:
                return CHAIN_WHOLE if is_first or kind != FRAME_INNER else CHAIN_BROKEN
            if frame == checkpoint:
                return CHAIN_LOOP
            steps += 1
            if steps == power:
                power *= 2
                checkpoint = frame
            self.frames_left -= 1
            if self.frames_left < 0:
                return CHAIN_LIMIT
            if not self.fetch(frame, cython.address(data[0]), size):
                return CHAIN_UNREADABLE
            code = u64(cython.address(data[self.layout[LAYOUT_FRAME_CODE]]), self.big)
            previous = u64(cython.address(data[self.layout[LAYOUT_FRAME_PREVIOUS]]), self.big)
            kind = FRAME_ENTRY
            if style == STYLE_ENTRY_FLAGS:
                kind = FRAME_ENTRY if data[self.layout[LAYOUT_FRAME_ENTRY]] else FRAME_INNER
            elif style == STYLE_SHIMS:
                kind = FRAME_SHIM if data[self.layout[LAYOUT_FRAME_OWNER]] >= FIRST_SHIM_OWNER else FRAME_INNER
            if kind == FRAME_SHIM:
                code = 0
                if not self.marks.push_u64(frame):
                    return CHAIN_NO_MEMORY
            else:
                tags: cython.ulonglong = self.layout[LAYOUT_TAGS]
                if tags and (code & tags) == tags and tags == 3:
                    return CHAIN_BROKEN
                code &= ~tags
                if code < LOWEST:
                    return CHAIN_BROKEN
            if kind != FRAME_SHIM and self.pid and not self.keep_code(code):
                return CHAIN_NO_MEMORY
            row[0] = frame
            row[1] = code
            row[2] = 0 if kind == FRAME_SHIM else self.position(cython.address(data[0]), code)
            row[3] = kind
            if not push_row(self.frames, cython.address(row[0]), FRAME_FIELDS):
                return CHAIN_NO_MEMORY
            is_first = False
            frame = previous
        if self.layout[LAYOUT_BASE_FRAME] != ABSENT and not is_first:
            return CHAIN_BROKEN
        return CHAIN_WHOLE if is_first or kind != FRAME_INNER else CHAIN_BROKEN

    def position(self, frame, code):
        """Return the byte offset of the instruction in the bytecode by the content of a frame, ABSENT if unknown."""
        table: cython.ulonglong = 0
        count: cython.ulonglong = 0
        position: cython.pointer(cython.const[cython.uchar]) = frame + self.layout[LAYOUT_FRAME_POSITION]
        start: cython.ulonglong = code + self.layout[LAYOUT_CODE_START]
        if self.layout[LAYOUT_STYLE] == STYLE_FRAME_OBJECTS:
            index: cython.int = cython.cast(cython.int, u32(position, self.big))
            return cython.cast(cython.ulonglong, cython.cast(cython.longlong, index))
        if self.layout[LAYOUT_FRAME_TLBC] != ABSENT and self.layout[LAYOUT_CODE_TLBC] != ABSENT:
            copy: cython.ulonglong = u32(frame + self.layout[LAYOUT_FRAME_TLBC], self.big)
            if copy:  # this thread's own copy of the bytecode
                if not self.field(code, LAYOUT_CODE_TLBC, cython.address(table)) or not table:
                    return ABSENT
                if not self.word(table, cython.address(count)) or copy >= count:
                    return ABSENT
                if not self.word(table + 8 + 8 * copy, cython.address(start)) or not start:
                    return ABSENT
        return u64(position, self.big) - start

    def keep_code(self, code):
        """Keep the head of a code object that was not kept before. False if memory runs out."""
        data: cython.uchar[512]
        slot: cython.ulonglong = (code * WHENCE_GOLDEN) >> 52
        size: cython.Py_ssize_t = self.layout[LAYOUT_HEADER]
        index: cython.Py_ssize_t
        if self.seen[slot] == code:
            return True
        self.seen[slot] = code
        if not self.fetch(code, cython.address(data[0]), size):
            return True  # the frame's reason says so
        if not self.codes.push_u64(code) or not self.headers.reserve(size // 8):
            return False
        for index in range(0, size, 8):
            self.headers.push_u64(u64(cython.address(data[index]), self.big))
        return True
