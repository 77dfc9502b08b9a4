"""Queries to an archive's bytes, as they lie: vaddrs, or lines of text with one each; their frames, and the texts that
answers in text need.

The rule, which for archives of whence is plain nesting and for others is never less than the Go package's answer: from
the last range whose vaddr is at or below the address go to the ranges before it; those that cover the address, each of
a smaller depth than the last, are the frames, up to the first one of depth 0.

To find them either step back range by range (one address), or climb `up` links (many): up[i] is the nearest range
before i that still covers i's vaddr, found for all ranges in one pass. A range that covers an address is always among
the links of the last range at or below that address, so both give the same frames. Steps are counted; once they have
cost more than the pass would, the links are made.

Everything read from the archive is checked where it is used.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memchr
from cython.cimports.whence.kernels.bytes import hex_digit
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.hashtable import (
    HashTable,
    fill_slot,
    first_slot,
    is_crowded,
    make_slots,
    mix,
    next_slot,
    put_item,
    release_slots,
)
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.vector import U64s, push_bytes, release, reserve

NONE = cython.declare(cython.uint, 0xFFFFFFFF)
NEVER = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)  # the vaddr of a line that is none
MOST_ROWS = cython.declare(cython.Py_ssize_t, 0xFFFFFFFF - MOST_FRAMES)  # of all frames: starts are numbers of 32 bits
MOST_KEPT = cython.declare(cython.Py_ssize_t, 1 << 30)  # readable names: they are numbered by 32 bits
CACHED_TEXTS = cython.declare(cython.int, 131072)
CACHED_CHARACTERS = cython.declare(cython.Py_ssize_t, 1 << 26)
CACHED_FRAMES = cython.declare(cython.int, 65536)  # 13 MB; twice as many gain a twentieth more
FIRST_CACHED = cython.declare(cython.ulonglong, 256)
FRAME_FIELDS = cython.declare(cython.Py_ssize_t, 8)  # of whence._base.model.Frame
GOLDEN = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def slots_of(key: cython.ulonglong, more: cython.ulonglong, mask: cython.ulonglong) -> cython.ulonglong:
    """The first of a key's slots."""
    key = (key ^ more * GOLDEN) * GOLDEN
    return (key ^ key >> 32) & mask & ~cython.cast(cython.ulonglong, WAYS - 1)


@cython.final
@cython.cclass
class ObjectCache:
    """A bounded, set-associative cache from keys, two u64 each, to Python objects other than None.

    Each key has WAYS adjacent slots; a new key takes a free one. Where there is none, one of so many new keys evicts
    one of them, and the others are not kept: of more keys than there are slots, those that are kept are found again
    all the same, and an object that nobody has looked at for long is slow to release. There is no int object for a key,
    as a dict would have.
    """

    def __cinit__(self, most: cython.ulonglong):
        """`most` slots, a power of two."""
        self._most = most
        if not self._make_slots(FIRST_CACHED):
            raise MemoryError

    @cython.cfunc
    @cython.exceptval(check=False)
    def _make_slots(self, count: cython.ulonglong) -> cython.bint:
        """Take empty slots in place of the ones there are; False, and nothing is changed, without memory."""
        line: cython.size_t = WAYS * cython.sizeof(Slot)
        memory: cython.p_void = calloc(count // WAYS + 1, line)
        if memory == cython.NULL:
            return False
        self._memory = memory
        self._slots = cython.cast(cython.pointer(Slot), (cython.cast(cython.size_t, memory) + line - 1) // line * line)
        self._mask = count - 1
        self._count = 0
        return True

    def __dealloc__(self):
        slot: cython.ulonglong
        if self._memory != cython.NULL:
            for slot in range(self._mask + 1):
                Py_DecRef(self._slots[slot].value)
        free(self._memory)

    @cython.cfunc
    def get(self, key: cython.ulonglong, more: cython.ulonglong):
        """The object of a key, or None."""
        slot: cython.pointer(Slot) = self._slots + slots_of(key, more, self._mask)
        way: cython.int
        for way in range(WAYS):
            if slot[way].key == key and slot[way].more == more and slot[way].value != cython.NULL:
                return cython.cast(object, slot[way].value)
        return None

    @cython.cfunc
    @cython.exceptval(check=False)
    def expect(self, key: cython.ulonglong, more: cython.ulonglong) -> cython.void:
        """Have the processor fetch the slots of a key that is asked for soon."""
        whence_prefetch(self._slots + slots_of(key, more, self._mask))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put(self, key: cython.ulonglong, more: cython.ulonglong, value: object) -> cython.int:
        """Set the object of a key that has none, if it is to be kept."""
        slot: cython.pointer(Slot)
        way: cython.int
        if cython.cast(cython.ulonglong, self._count) > self._mask >> 1 and self._mask + 1 < self._most:
            self._grow()
        slot = self._slots + slots_of(key, more, self._mask)
        for way in range(WAYS):
            if slot[way].value == cython.NULL:
                self._count += 1
                break
        else:
            self._refused += 1
            if self._refused % EVICTED_BY:
                return 0
            way = cython.cast(cython.int, self._refused // EVICTED_BY % WAYS)
        old: cython.pointer(PyObject) = slot[way].value
        Py_IncRef(cython.cast(cython.pointer(PyObject), value))
        slot[way].key, slot[way].more = key, more
        slot[way].value = cython.cast(cython.pointer(PyObject), value)
        Py_DecRef(old)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _grow(self) -> cython.int:
        """Make eight times as many slots, or the most. A key has all slots that it had, and more."""
        memory: cython.p_void = self._memory
        slots: cython.pointer(Slot) = self._slots
        to: cython.pointer(Slot)
        count: cython.ulonglong = self._mask + 1
        slot: cython.ulonglong
        if not self._make_slots(8 * count if 8 * count < self._most else self._most):
            raise MemoryError
        for slot in range(count):
            if slots[slot].value == cython.NULL:
                continue
            to = self._slots + slots_of(slots[slot].key, slots[slot].more, self._mask)
            while to.value != cython.NULL:  # those of one key before go to one key's or several'
                to += 1
            to[0] = slots[slot]
            self._count += 1
        free(memory)
        return 0


@cython.final
@cython.cclass
class FrameColumns:
    """The frames of many addresses, in the order asked.

    Those of address i are rows [starts[i], starts[i + 1]) of `range_index` (which range of the archive), `function` and
    `file` (offsets in the strings), `line`, `inlined` (0, 1) and `source` (its number), innermost first; of archives
    with columns `column` and `discriminator` have them, too. `unknown`
    counts the addresses without a frame; `faulty` has those whose line entries lie outside the line tables.
    """

    def __cinit__(self):
        self.starts, self.range_index = Column("I", True), Column("I", True)
        self.function, self.file = Column("Q", True), Column("Q", True)
        self.line, self.inlined, self.source = Column("I", True), Column("B", True), Column("B", True)
        self.column, self.discriminator = Column("I", True), Column("I", True)
        self.faulty = Column("I", True)


@cython.cfunc
def sized(column: Column, count: cython.Py_ssize_t) -> cython.p_char:
    """The items of an empty column that now has `count` of them, not yet filled in. MemoryError."""
    if count and not column.reserve(count):
        raise MemoryError
    column.vector.count = count
    return column.vector.items


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def find_links(v: cython.pointer(View), ends: cython.pointer(U64s)) -> cython.bint:
    """Fill `up` and `sample`. `ends` is where the ranges end that hold the last one: that one, and up its links. False
    when there is no memory for them."""
    top: cython.uint = NONE
    end: cython.ulonglong = 0  # of range `top`
    index: cython.Py_ssize_t
    vaddrs: cython.ulonglong[SAMPLED]
    lengths: cython.ulonglong[SAMPLED]
    block: cython.Py_ssize_t
    first: cython.Py_ssize_t
    count: cython.Py_ssize_t
    for block in range(v.samples):
        first = block * SAMPLED
        count = v.count - first if v.count - first < SAMPLED else SAMPLED
        read_extents(v, first, count, vaddrs, lengths)
        v.sample[block] = vaddrs[0]
        if not reserve(ends, count, 8):
            return False
        for index in range(count):
            while top != NONE and end <= vaddrs[index]:
                top = v.up[top]
                ends.count -= 1
                end = ends.items[ends.count - 1] if top != NONE else 0
            v.up[first + index] = top
            if lengths[index]:
                top = cython.cast(cython.uint, first + index)
                end = end_at(vaddrs[index], lengths[index])
                ends.items[ends.count] = end
                ends.count += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def forget(v: cython.pointer(View)) -> cython.void:
    """Release what `Archive.link` learnt."""
    free(v.up)
    free(v.sample)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def set_key(content: cython.pointer(Content)) -> cython.void:
    """The key that content has in a cache, where its numbers have room in one."""
    content.key = content.function << 32 | content.file
    content.more = content.column
    content.more = content.more << 41 | cython.cast(cython.ulonglong, content.source) << 33
    content.more |= cython.cast(cython.ulonglong, content.inlined) << 32 | content.line
    content.kept = (content.function | content.file) >> 32 == 0 and content.column >> 23 == 0
    content.kept = content.kept and content.discriminator == 0


@cython.final
@cython.cclass
class Archive:
    """The four sections of one archive, and what was learnt about them."""

    def __cinit__(self, data: cython.const[cython.uchar][::1], sections: object, seed: cython.ulonglong):
        """`sections` (layout.ArchiveSections) says where everything lies in the data. `seed` is random."""
        base: cython.pointer(cython.const[cython.uchar]) = cython.NULL
        self._bytes = data
        if data.shape[0]:
            base = cython.address(data[0])
        self.view = cython.address(self._view)
        view_of(self.view, base, data.shape[0], sections)
        self.count = self._view.count
        self.string_size = self._view.string_size
        self._few = 1024 + self.count // 128
        self.seed = seed
        self._empty_caches()

    @cython.cfunc
    def _empty_caches(self):
        self._functions, self._texts = ObjectCache(CACHED_TEXTS), ObjectCache(CACHED_TEXTS)
        self._frames = ObjectCache(CACHED_FRAMES)
        self._characters = 0

    def __dealloc__(self):
        forget(cython.address(self._linked))

    def set_frame_factory(self, load: object, demangle: object):
        """What frames are made of: `load` returns their class and the sources by number when the first is made; and
        what a function's name is put through."""
        self._load = load
        self._demangle = demangle

    def link(self):
        """Find the up links of all ranges and sample the VAs; once. MemoryError."""
        linked: View = self._view
        ends: U64s = U64s(cython.NULL, 0, 0)
        room: cython.bint
        if self.view != cython.address(self._view):
            return
        linked.samples = (self.count + SAMPLED - 1) // SAMPLED
        linked.up = cython.cast(cython.p_uint, malloc((self.count + 1) * 4))
        linked.sample = cython.cast(cython.p_ulonglong, malloc((linked.samples + 1) * 8))
        room = linked.up != cython.NULL and linked.sample != cython.NULL
        with cython.nogil:
            room = room and find_links(cython.address(linked), cython.address(ends))
        release(cython.address(ends))
        if not room or self.view != cython.address(self._view):  # no memory; or another thread was first
            forget(cython.address(linked))
        else:
            self._linked = linked
            self.view = cython.address(self._linked)
        if not room:
            raise MemoryError

    # One address

    @cython.cfunc
    def _text(self, offset: cython.ulonglong, function: cython.bint):
        """The text at an offset; None when it does not lie in the strings."""
        cache: ObjectCache = self._functions if function else self._texts
        if offset == 0 and not function:
            return ""  # no file, also where the strings begin with another text
        found = cache.get(offset, 0)
        if found is not None:
            return found
        found = self._decoded(offset)
        if not found:
            return found
        if function and self._demangle is not None:
            found = self._demangle(found)
        self._characters += len(found)
        if self._characters > CACHED_CHARACTERS:
            self._empty_caches()
            self._characters = len(found)
            cache = self._functions if function else self._texts
        cache.put(offset, 0, found)
        return found

    @cython.cfunc
    def _decoded(self, offset: cython.ulonglong):
        """The text at an offset as it is stored; None when it does not lie in the strings."""
        size: cython.longlong = size_of(self.view, offset)
        if size < 0:
            return None
        if size == 0:
            return ""
        start: cython.ulonglong = offset if self._view.nul else offset + LENGTH_PREFIX
        raw: cython.p_char = cython.cast(cython.p_char, self._view.string) + start
        return raw[:size].decode("utf-8", "surrogateescape")

    @cython.cfunc
    def _frame_of(self, content: cython.pointer(Content)):
        """The frame of such content; None on a fault."""
        if content.kept:
            found = self._frames.get(content.key, content.more)
            if found is not None:
                return found
        self._functions.expect(content.function, 0)
        self._texts.expect(content.file, 0)
        function, file = self._text(content.function, True), self._text(content.file, False)
        if function is None or file is None:
            return None
        if self._frame is None:
            self._load_frames()
        found = PyType_GenericAlloc(self._frame, FRAME_FIELDS)
        put(found, 0, function)
        put(found, 1, file)
        put(found, 2, content.line)
        put(found, 3, content.inlined)
        put(found, 4, self._sources[content.source if content.source < len(self._sources) else 0])
        put(found, 5, start_of(self.view, content.function, content.file, content.line))
        put(found, 6, content.column)
        put(found, 7, content.discriminator)
        untrack(found)
        if content.kept:
            self._frames.put(content.key, content.more, found)
        return found

    @cython.cfunc
    def _load_frames(self):
        frame, sources = self._load()
        belong(isinstance(frame, type) and issubclass(frame, tuple) and len(frame._fields) == FRAME_FIELDS)
        belong(isinstance(sources, tuple) and len(sources) > 0)
        self._sources = sources
        self._frame = frame

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def find_chain(self, vaddr: cython.ulonglong, chain: cython.p_uint) -> cython.int:
        """The ranges that are the frames of one address, innermost first, into `chain` (room for MOST_FRAMES); returns
        how many. MemoryError."""
        count: cython.int
        index: cython.Py_ssize_t
        self._lookups += 1
        if self._lookups == self._few:
            self.link()
        index = last_range(self.view, vaddr)
        count = chain_at(self.view, index, vaddr, chain)
        if count < 0:
            self.link()
            count = chain_at(self.view, index, vaddr, chain)
        return count if count > 0 else 0

    def watch(self, changed: object):
        """Have `lookup` ask what is called without arguments, and gives 0 while the bytes are those of the file."""
        self._changed = changed

    @cython.always_allow_keywords(False)
    def lookup(self, vaddr: object):
        """The frames of an address, a tuple; () of one that does not have 64 bits.

        None on a fault, which `fault` and `fault_index` then describe, and when the bytes are not those of the file.
        TypeError for what is no integer.
        """
        number: cython.ulonglong = PyLong_AsUnsignedLongLong(PyNumber_Index(vaddr))
        if number == NEVER and PyErr_Occurred() != cython.NULL:
            PyErr_Clear()  # OverflowError
            return ()
        frames = self._lookup(number)
        if self._changed is not None and PyObject_CallNoArgs(self._changed) != 0:
            return None
        return frames

    @cython.cfunc
    def _lookup(self, vaddr: cython.ulonglong):
        chain: cython.uint[MOST_FRAMES]
        contents: Content[MOST_FRAMES]
        content: cython.pointer(Content)
        around: cython.pointer(Content)
        count: cython.int = self.find_chain(vaddr, chain)
        view: cython.pointer(View) = self.view
        index: cython.uint
        level: cython.int
        entry: cython.longlong
        if count == 0:
            return ()
        for level in range(count):
            index = chain[level]
            content = contents + level
            if level == 0:
                entry = entry_of(view, index, vaddr - vaddr_of(view, index))
                if entry == ENTRY_OUTSIDE:
                    self.fault, self.fault_index = LINES_OUTSIDE, index
                    return None
                content.file, content.line = field(view, index, FILE), line_of(view, entry)
                content.column, content.discriminator = line_column(view, entry), line_discriminator(view, entry)
            if level + 1 < count:  # the frame around it is at its call
                around = content + 1
                around.file = field(view, index, CALL_FILE)
                around.line = cython.cast(cython.uint, field(view, index, CALL_LINE))
                around.column, around.discriminator = call_column(view, index), call_discriminator(view, index)
            content.function = field(view, index, FUNCTION)
            content.inlined = field(view, index, DEPTH) != 0
            content.source = source_of(view, index)
            set_key(content)
            self._frames.expect(content.key, content.more)
        frames = PyTuple_New(count)
        for level in range(count):
            frame = self._frame_of(contents + level)
            if frame is None:
                self.fault, self.fault_index = NAME_OUTSIDE, chain[level]
                return None
            put(frames, level, frame)
        untrack(frames)
        return frames

    # Many addresses

    def find_frames(
        self, vaddrs: cython.const[cython.ulonglong][::1], back: cython.ulonglong, discriminators: cython.bint = True
    ):
        """The frames of each address (less `back`), as FrameColumns, with discriminators or without. MemoryError, also
        beyond 2^32 frames."""
        found: FrameColumns = FrameColumns()
        if vaddrs.shape[0] > self.count // 256:
            self.link()
        self._find_chains(found, vaddrs, back)
        self._describe(found, vaddrs, back, discriminators)
        return found

    @cython.cfunc
    def _find_chains(self, found: FrameColumns, vaddrs: cython.const[cython.ulonglong][::1], back: cython.ulonglong):
        """Find the ranges of each address: `starts`, `range_index` and `unknown`."""
        view: cython.pointer(View)
        ranges: Column = found.range_index
        starts: cython.p_uint = cython.cast(cython.p_uint, sized(found.starts, vaddrs.shape[0] + 1))
        index: cython.Py_ssize_t = 0
        count: cython.int = 0
        unknown: cython.Py_ssize_t = 0
        vaddr: cython.ulonglong
        room: cython.bint = ranges.reserve(2 * vaddrs.shape[0] + MOST_FRAMES)
        starts[0] = 0
        while room and index < vaddrs.shape[0]:
            if count < 0:
                self.link()
            view = self.view
            work: cython.Py_ssize_t = 0
            with cython.nogil:
                while index < vaddrs.shape[0]:
                    handle_signals(cython.address(work), 16)
                    vaddr = vaddrs[index]
                    count = 0
                    if vaddr >= back:
                        room = ranges.reserve(MOST_FRAMES) and ranges.vector.count <= MOST_ROWS
                        if not room:
                            break
                        vaddr -= back
                        chain = cython.cast(cython.p_uint, ranges.vector.items) + ranges.vector.count
                        count = chain_at(view, last_range(view, vaddr), vaddr, chain)
                        if count < 0:
                            break
                    ranges.vector.count += count
                    unknown += count == 0
                    index += 1
                    starts[index] = cython.cast(cython.uint, ranges.vector.count)
        if not room:
            raise MemoryError
        found.unknown = unknown

    @cython.cfunc
    def _describe(
        self,
        found: FrameColumns,
        vaddrs: cython.const[cython.ulonglong][::1],
        back: cython.ulonglong,
        discriminators: cython.bint,
    ):
        """Fill in the columns of the ranges that were found."""
        view: cython.pointer(View) = self.view
        frames: cython.Py_ssize_t = found.range_index.vector.count
        ranges: cython.p_uint = cython.cast(cython.p_uint, found.range_index.vector.items)
        starts: cython.p_uint = cython.cast(cython.p_uint, found.starts.vector.items)
        function: cython.p_ulonglong = cython.cast(cython.p_ulonglong, sized(found.function, frames))
        file: cython.p_ulonglong = cython.cast(cython.p_ulonglong, sized(found.file, frames))
        lines: cython.p_uint = cython.cast(cython.p_uint, sized(found.line, frames))
        inlined: cython.p_uchar = cython.cast(cython.p_uchar, sized(found.inlined, frames))
        source: cython.p_uchar = cython.cast(cython.p_uchar, sized(found.source, frames))
        faulty: Column = found.faulty
        row: cython.Py_ssize_t
        to: cython.Py_ssize_t
        index: cython.uint
        entry: cython.longlong
        call_line: cython.uint = 0  # of the frame before
        call_file: cython.ulonglong = 0
        room: cython.bint = True
        column: cython.p_uint = cython.NULL
        discriminator: cython.p_uint = cython.NULL
        if view.column != cython.NULL:
            column = cython.cast(cython.p_uint, sized(found.column, frames))
            if discriminators:
                discriminator = cython.cast(cython.p_uint, sized(found.discriminator, frames))
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for row in range(vaddrs.shape[0]):
                handle_signals(cython.address(work), 16)
                for to in range(starts[row], starts[row + 1]):
                    index = ranges[to]
                    if to == starts[row]:
                        entry = entry_of(view, index, vaddrs[row] - back - vaddr_of(view, index))
                        if entry == ENTRY_OUTSIDE:
                            room = faulty.push_u32(cython.cast(cython.uint, row)) and room
                        lines[to] = line_of(view, entry)
                        file[to] = field(view, index, FILE)
                        if column != cython.NULL:
                            column[to] = line_column(view, entry)
                        if discriminator != cython.NULL:
                            discriminator[to] = line_discriminator(view, entry)
                    else:
                        lines[to], file[to] = call_line, call_file
                        if column != cython.NULL:
                            column[to] = call_column(view, ranges[to - 1])
                        if discriminator != cython.NULL:
                            discriminator[to] = call_discriminator(view, ranges[to - 1])
                    function[to] = field(view, index, FUNCTION)
                    inlined[to] = field(view, index, DEPTH) != 0
                    source[to] = cython.cast(cython.uchar, source_of(view, index))
                    if to + 1 < starts[row + 1]:
                        call_file = field(view, index, CALL_FILE)
                        call_line = cython.cast(cython.uint, field(view, index, CALL_LINE))
        if not room:
            raise MemoryError

    def starts(
        self,
        function: cython.const[cython.ulonglong][::1],
        file: cython.const[cython.ulonglong][::1],
        line: cython.const[cython.uint][::1],
        out: cython.uint[::1],
    ):
        """On which line the function of each frame starts; 0 where it is not known."""
        index: cython.Py_ssize_t
        if not line.shape[0] == function.shape[0] == file.shape[0] == out.shape[0]:
            raise ValueError("function, file and line have a row each for every frame")
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for index in range(line.shape[0]):
                handle_signals(cython.address(work), 8)
                out[index] = start_of(self.view, function[index], file[index], line[index])

    def texts(self, offsets: cython.const[cython.ulonglong][::1], function: cython.bint, most: cython.longlong):
        """The texts at offsets, a list; "" for one that does not lie in the strings. Each distinct one is made once.

        Returns None where the distinct ones take more than `most` bytes.
        """
        count: cython.Py_ssize_t = offsets.shape[0]
        row: cython.Py_ssize_t
        slot: cython.ulonglong
        table: HashTable = HashTable(cython.NULL, 0, 0)
        distinct: list = []
        out: list = []
        plain: cython.bint = not function or self._demangle is None
        size: cython.longlong
        known: cython.p_ulonglong = cython.cast(cython.p_ulonglong, malloc((count + 1) * 8))
        try:
            if known == cython.NULL or not make_slots(cython.address(table), count):
                raise MemoryError
            for row in range(count):
                slot = first_slot(cython.address(table), mix(offsets[row], self.seed))
                while table.slots[slot] and known[table.slots[slot] - 1] != offsets[row]:
                    slot = next_slot(cython.address(table), slot)
                if table.slots[slot] == 0:
                    known[table.count] = offsets[row]
                    fill_slot(cython.address(table), slot, table.count)
                    size = size_of(self.view, offsets[row])
                    if size > 0:
                        most -= size
                    if most < 0:
                        return None
                    text = self._decoded(offsets[row]) if plain and offsets[row] else self._text(offsets[row], function)
                    distinct.append("" if text is None else text)
                out.append(distinct[table.slots[slot] - 1])
        finally:
            release_slots(cython.address(table))
            free(known)
        return out


# Queries and answers in text


@cython.final
@cython.cclass
class Queries:
    """Lines of text, an address in hex each, with or without 0x, with blanks around it; or vaddrs without a text.

    `vaddrs` has 2^64 - 1 and `bad` 1 for a line that is no address, or one of more than 64 bits.
    """

    def __cinit__(self, text: bytes, vaddrs: cython.const[cython.ulonglong][::1] = None):
        """`vaddrs`: what is asked instead of lines. MemoryError."""
        count: cython.Py_ssize_t = 0
        row: cython.Py_ssize_t
        data: cython.p_char = text
        left: cython.Py_ssize_t = len(text)
        self.text = text
        self.vaddr, self.bad = Column("Q", True), Column("B", True)
        self.start, self.size = Column("I", True), Column("I", True)
        if vaddrs is not None:
            count = vaddrs.shape[0]
        else:
            count = text.count(b"\n") + (left > 0 and data[left - 1] != ord("\n"))
        values = cython.cast(cython.p_ulonglong, sized(self.vaddr, count))
        bad = cython.cast(cython.p_uchar, sized(self.bad, count))
        start = cython.cast(cython.p_uint, sized(self.start, count))
        size = cython.cast(cython.p_uint, sized(self.size, count))
        if vaddrs is None:
            with cython.nogil:
                parse_lines(cython.cast(cython.p_uchar, data), left, count, values, bad, start, size)
        else:
            for row in range(count):
                values[row] = vaddrs[row]
                bad[row] = 0
                start[row] = size[row] = 0

    @property
    def vaddrs(self):
        """The addresses as a memoryview of u64."""
        return self.vaddr.numbers()

    @property
    def is_bad(self):
        """For each line 1 when it is no address, else 0: a memoryview of bytes."""
        return self.bad.numbers()

    def bad_lines(self):
        """The lines that are no addresses, without blanks around them: a list of bytes."""
        start, size = self.start.numbers(), self.size.numbers()
        return [self.text[start[row] : start[row] + size[row]] for row, bad in enumerate(self.is_bad) if bad]

    def __len__(self):
        return len(self.vaddr)

    def __repr__(self):
        return f"<Queries: {len(self)} addresses>"


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def parse_lines(
    data: cython.p_uchar,
    length: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    vaddr: cython.p_ulonglong,
    bad: cython.p_uchar,
    start: cython.p_uint,
    size: cython.p_uint,
) -> cython.void:
    """Fill the columns of `count` lines; `start` and `size` are of a line without the blanks around it."""
    cursor: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    row: cython.Py_ssize_t
    value: cython.ulonglong
    digit: cython.int
    digits: cython.int
    newline: cython.p_void
    for row in range(count):
        newline = memchr(data + cursor, ord("\n"), length - cursor)
        end = length if newline == cython.NULL else cython.cast(cython.p_uchar, newline) - data
        stop = end
        while cursor < stop and data[cursor] <= ord(" "):
            cursor += 1
        while stop > cursor and data[stop - 1] <= ord(" "):
            stop -= 1
        start[row] = cython.cast(cython.uint, cursor)
        size[row] = cython.cast(cython.uint, stop - cursor)
        if stop - cursor > 2 and data[cursor] == ord("0") and data[cursor + 1] in (ord("x"), ord("X")):
            cursor += 2
        value = 0
        digits = 0
        while cursor < stop:
            digit = hex_digit(data[cursor])
            if digit < 0 or value >> 60:
                break
            value = value << 4 | cython.cast(cython.ulonglong, digit)
            digits += 1
            cursor += 1
        bad[row] = cursor < stop or digits == 0
        vaddr[row] = NEVER if bad[row] else value
        cursor = end + 1


@cython.final
@cython.cclass
class Texts:
    """The distinct texts that frames show, a row each: those of functions, and behind them those of files.

    `functions` counts the first kind, `written` the bytes that the texts of all frames have together. `linkage` has the
    rows of functions that begin like linkage names. A text lies in the archive's strings (MOST_TEXT bytes of it at
    most; one outside is empty) or, once `replace` was called, in `readable`.
    """

    def __cinit__(self, archive: Archive, frames: FrameColumns):
        self.archive = archive
        self.offset, self.start = Column("Q", True), Column("Q", True)
        self.size, self.linkage = Column("I", True), Column("I", True)
        self.function, self.file = Column("I", True), Column("I", True)
        self._number(frames.function, self.function)
        self.functions = self.offset.vector.count
        self._number(frames.file, self.file)
        self._find_texts()
        self._add_up(self.function)
        self._add_up(self.file)

    def __dealloc__(self):
        release(cython.address(self.readable))

    @cython.cfunc
    def _number(self, offsets: Column, rows: Column):
        """Give each distinct offset a row of its own, in order of first visit, and say which row each frame has."""
        count: cython.Py_ssize_t = offsets.vector.count
        first: cython.Py_ssize_t = self.offset.vector.count
        found: cython.p_ulonglong = cython.cast(cython.p_ulonglong, offsets.vector.items)
        out: cython.p_uint = cython.cast(cython.p_uint, sized(rows, count))
        distinct: cython.p_ulonglong
        row: cython.Py_ssize_t
        slot: cython.ulonglong
        table: HashTable = HashTable(cython.NULL, 0, 0)
        if not self.offset.reserve(count) or not make_slots(cython.address(table), count):
            release_slots(cython.address(table))
            raise MemoryError
        distinct = cython.cast(cython.p_ulonglong, self.offset.vector.items) + first
        with cython.nogil:
            for row in range(count):
                if row and found[row] == found[row - 1]:
                    out[row] = out[row - 1]
                    continue
                slot = first_slot(cython.address(table), mix(found[row], self.archive.seed))
                while table.slots[slot] and distinct[table.slots[slot] - 1] != found[row]:
                    slot = next_slot(cython.address(table), slot)
                if table.slots[slot] == 0:
                    distinct[table.count] = found[row]
                    fill_slot(cython.address(table), slot, table.count)
                out[row] = cython.cast(cython.uint, first + table.slots[slot] - 1)
        self.offset.vector.count += table.count
        release_slots(cython.address(table))

    @cython.cfunc
    def _find_texts(self):
        """Fill `start`, `size` and `linkage`."""
        view: cython.pointer(View) = self.archive.view
        count: cython.Py_ssize_t = self.offset.vector.count
        offset: cython.p_ulonglong = cython.cast(cython.p_ulonglong, self.offset.vector.items)
        start: cython.p_ulonglong = cython.cast(cython.p_ulonglong, sized(self.start, count))
        size: cython.p_uint = cython.cast(cython.p_uint, sized(self.size, count))
        linkage: cython.p_uint = cython.cast(cython.p_uint, sized(self.linkage, self.functions))
        row: cython.Py_ssize_t
        found: cython.Py_ssize_t = 0
        length: cython.longlong
        for row in range(count):
            length = size_of(view, offset[row])
            if length < 0 or (row >= self.functions and offset[row] == 0):
                length = 0  # outside; no file, also where the strings begin with another text
            start[row] = offset[row] + (0 if view.nul else LENGTH_PREFIX)
            size[row] = cython.cast(cython.uint, length)
            if row < self.functions and length > 2 and is_linkage_name(view.string + start[row]):
                linkage[found] = cython.cast(cython.uint, row)
                found += 1
        self.linkage.vector.count = found

    @cython.cfunc
    def _add_up(self, rows: Column):
        row: cython.Py_ssize_t
        of: cython.p_uint = cython.cast(cython.p_uint, rows.vector.items)
        size: cython.p_uint = cython.cast(cython.p_uint, self.size.vector.items)
        for row in range(rows.vector.count):
            self.written += size[of[row]]

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _check_row(self, row: cython.Py_ssize_t) -> cython.int:
        if not 0 <= row < self.offset.vector.count:
            raise IndexError(row)
        return 0

    def __len__(self):
        return self.offset.vector.count

    def text(self, row: cython.Py_ssize_t):
        """The text of a row, bytes: as it is stored, until it is replaced."""
        size: cython.ulonglong = 0
        self._check_row(row)
        text = cython.cast(cython.p_char, self.text_at(row, cython.address(size)))
        return text[:size] if size else b""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def text_at(self, row: cython.Py_ssize_t, size: cython.p_ulonglong) -> cython.pointer(cython.const[cython.uchar]):
        """The same for another kernel, which asks for a row that there is: where the text lies, and its size."""
        start: cython.ulonglong = cython.cast(cython.p_ulonglong, self.start.vector.items)[row]
        size[0] = cython.cast(cython.p_uint, self.size.vector.items)[row]
        if start & WHENCE_READABLE:
            return self.readable.items + (start ^ WHENCE_READABLE)
        return self.archive.view.string + start

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def show(
        self, row: cython.Py_ssize_t, text: cython.pointer(cython.const[cython.uchar]), size: cython.uint
    ) -> cython.int:
        """Show another text in place of that of a row that there is. MemoryError."""
        start: cython.ulonglong = self.readable.count
        if not push_bytes(cython.address(self.readable), text, size):
            raise MemoryError
        cython.cast(cython.p_ulonglong, self.start.vector.items)[row] = WHENCE_READABLE | start
        cython.cast(cython.p_uint, self.size.vector.items)[row] = size
        return 0


@cython.final
@cython.cclass
class ReadableNames:
    """Readable names, kept from answer to answer. The key of one is the offset in the archive's strings of the linkage
    name that it stands for.

    They are forgotten, all of them, when there are as many as may be kept.
    """

    def __cinit__(self, seed: cython.ulonglong, most: cython.Py_ssize_t, most_bytes: cython.Py_ssize_t):
        """`seed` is random, so that a file cannot choose keys that collide; `most` names are kept, of `most_bytes`
        bytes in all. MemoryError."""
        belong(0 < most <= MOST_KEPT and most_bytes > 0)
        self.seed, self.most, self.most_bytes = seed, most, most_bytes
        self.key, self.end = Column("Q", True), Column("Q", True)
        if not make_slots(cython.address(self.table), 0):
            raise MemoryError

    def __dealloc__(self):
        release_slots(cython.address(self.table))
        release(cython.address(self.text))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def place_of(self, key: cython.ulonglong) -> cython.Py_ssize_t:
        """The place of a name among those that are kept, or -1."""
        keys: cython.p_ulonglong = cython.cast(cython.p_ulonglong, self.key.vector.items)
        slot: cython.ulonglong = first_slot(cython.address(self.table), mix(key, self.seed))
        while self.table.slots[slot]:
            if keys[self.table.slots[slot] - 1] == key:
                return self.table.slots[slot] - 1
            slot = next_slot(cython.address(self.table), slot)
        return -1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def keep(
        self, key: cython.ulonglong, name: cython.pointer(cython.const[cython.uchar]), size: cython.Py_ssize_t
    ) -> cython.int:
        """Keep the readable name of a key that has none here. MemoryError."""
        place: cython.Py_ssize_t
        if self.table.count >= self.most or size > self.most_bytes - self.text.count:
            self.key.vector.count = self.end.vector.count = self.text.count = 0
            if not make_slots(cython.address(self.table), 0):
                raise MemoryError
        if size > self.most_bytes:
            return 0
        if is_crowded(cython.address(self.table)):
            place = self.key.vector.count
            if not make_slots(cython.address(self.table), 2 * place + 1):
                raise MemoryError
            for place in range(self.key.vector.count):
                put_item(
                    cython.address(self.table),
                    mix(cython.cast(cython.p_ulonglong, self.key.vector.items)[place], self.seed),
                    place,
                )
        if not self.key.reserve(1) or not self.end.reserve(1) or not push_bytes(cython.address(self.text), name, size):
            raise MemoryError
        self.key.push_u64(key)
        self.end.push_u64(self.text.count)
        put_item(cython.address(self.table), mix(key, self.seed), self.key.vector.count - 1)
        return 0

    def replace(self, texts: Texts, readable: object):
        """Show readable names in place of linkage names: those that are kept, and of the others what `readable` makes
        of them, a str of a str, which is kept from now on. One thread at a time. MemoryError, and what `readable`
        raises."""
        at: cython.Py_ssize_t
        row: cython.Py_ssize_t
        place: cython.Py_ssize_t
        begin: cython.ulonglong
        size: cython.ulonglong = 0
        rows: cython.p_uint = cython.cast(cython.p_uint, texts.linkage.vector.items)
        keys: cython.p_ulonglong = cython.cast(cython.p_ulonglong, texts.offset.vector.items)
        ends: cython.p_ulonglong
        for at in range(texts.linkage.vector.count):
            row = rows[at]
            place = self.place_of(keys[row])
            if place >= 0:
                ends = cython.cast(cython.p_ulonglong, self.end.vector.items)
                begin = ends[place - 1] if place else 0
                texts.show(row, self.text.items + begin, cython.cast(cython.uint, ends[place] - begin))
                continue
            stored = cython.cast(cython.p_char, texts.text_at(row, cython.address(size)))
            name = readable(PyUnicode_DecodeUTF8(stored, size, b"surrogateescape"))
            encoded: bytes = name.encode("utf-8", "surrogateescape")
            text = cython.cast(cython.p_uchar, cython.cast(cython.p_char, encoded))
            texts.show(row, text, cython.cast(cython.uint, len(encoded)))
            self.keep(keys[row], text, len(encoded))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_linkage_name(text: cython.pointer(cython.const[cython.uchar])) -> cython.bint:
    """Whether a text (of three bytes at least) begins with _Z _R _D _T _$ $s $S or ?, or with an underscore or two more
    before the Z or R."""
    if text[0] == ord("_"):
        if text[1] == ord("_"):  # glibc's own names are __GI_ and the like
            return text[2] in (ord("Z"), ord("R"), ord("_"))
        return text[1] in (ord("Z"), ord("R"), ord("D"), ord("T"), ord("$"))
    return text[0] == ord("?") or (text[0] == ord("$") and text[1] in (ord("s"), ord("S")))
