"""Look up vaddrs in an archive: given vaddrs or lines of text, return frames, and the texts for rendering them.

The frames of an address are found by one rule, which for archives of whence means plain nesting, and for others never
gives less than the Go package's answer: start at the last range whose vaddr is at or below the address and go
backwards; the ranges that cover the address, each of a smaller depth than the previous, are the frames, up to the first
of depth 0.

To find them, either step back range by range (for one address), or follow `up` links (for many): up[i] is the nearest
range before i that still covers i's vaddr. One pass finds the links of all ranges. A range that covers an address is
always among the links of the last range at or below the address, so both ways give the same frames. Steps are counted;
when they have cost more than the pass would, the links are made.

Everything read from the archive is checked where it is used.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memchr
from cython.cimports.whence.kernels.bytes import hex_digit
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column, append_u64
from cython.cimports.whence.kernels.hashtable import (
    HashIndex,
    clear_index,
    find_u64,
    insert,
    mix,
    release_index,
)
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.vector import U64s, append_bytes, push_bytes, release, reserve

NONE = cython.declare(cython.uint, 0xFFFFFFFF)
NO_ADDRESS = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)  # the vaddr of an invalid line
MOST_ROWS = cython.declare(cython.Py_ssize_t, 0xFFFFFFFF - MOST_FRAMES)  # of all frames, as starts have 32 bits
MOST_NAMES = cython.declare(cython.Py_ssize_t, 1 << 30)  # cached readable names, as their numbers have 32 bits
CACHED_TEXTS = cython.declare(cython.int, 131072)
CACHED_CHARACTERS = cython.declare(cython.Py_ssize_t, 1 << 26)
CACHED_FRAMES = cython.declare(cython.int, 65536)  # 13 MB
FIRST_CACHED = cython.declare(cython.ulonglong, 256)
FRAME_FIELDS = cython.declare(cython.Py_ssize_t, 8)  # of whence._base.model.Frame
GOLDEN = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)


def slots_of(key, more, mask):
    """Return the first slot of a key's set."""
    key = (key ^ more * GOLDEN) * GOLDEN
    return (key ^ key >> 32) & mask & ~cython.cast(cython.ulonglong, WAYS - 1)


@cython.final
@cython.cclass
class ObjectCache:
    """A bounded, set-associative cache from keys of two u64 to Python objects other than None.

    A set has WAYS adjacent slots. When a set is full, only every EVICTED_BY-th new key evicts an object, so that a scan
    over more keys than slots does not flush the cache. Unlike in a dict, keys are not int objects.
    """

    def __cinit__(self, most: cython.ulonglong):
        """Make a cache of at most `most` slots, a power of two."""
        self._most = most
        if not self._make_slots(FIRST_CACHED):
            raise MemoryError

    @cython.cfunc
    @cython.exceptval(check=False)
    def _make_slots(self, count: cython.ulonglong) -> cython.bint:
        """Replace the slots by empty ones; return False and change nothing without memory."""
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
        """Return the object of a key, or None."""
        slot: cython.pointer(Slot) = self._slots + slots_of(key, more, self._mask)
        way: cython.int
        for way in range(WAYS):
            if slot[way].key == key and slot[way].more == more and slot[way].value != cython.NULL:
                return cython.cast(object, slot[way].value)
        return None

    @cython.cfunc
    @cython.exceptval(check=False)
    def expect(self, key: cython.ulonglong, more: cython.ulonglong) -> cython.void:
        """Prefetch the slots of a key."""
        whence_prefetch(self._slots + slots_of(key, more, self._mask))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put(self, key: cython.ulonglong, more: cython.ulonglong, value: object) -> cython.int:
        """Cache the object of a new key, unless the set is full."""
        way: cython.int
        if cython.cast(cython.ulonglong, self._count) > self._mask >> 1 and self._mask + 1 < self._most:
            self._grow()
        slot: cython.pointer(Slot) = self._slots + slots_of(key, more, self._mask)
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
        """Make eight times as many slots, at most the limit. Sets are split, so every object still has a slot."""
        memory: cython.p_void = self._memory
        slots: cython.pointer(Slot) = self._slots
        count: cython.ulonglong = self._mask + 1
        slot: cython.ulonglong
        if not self._make_slots(8 * count if 8 * count < self._most else self._most):
            raise MemoryError
        for slot in range(count):
            if slots[slot].value == cython.NULL:
                continue
            to: cython.pointer(Slot) = self._slots + slots_of(slots[slot].key, slots[slot].more, self._mask)
            while to.value != cython.NULL:
                to += 1
            to[0] = slots[slot]
            self._count += 1
        free(memory)
        return 0


@cython.final
@cython.cclass
class FrameColumns:
    """The frames of many addresses, in the order of the addresses.

    Those of address i are rows [starts[i], starts[i + 1]), innermost first, of `range_index` (index in the archive),
    `function` and `file` (offsets in the strings), `line`, `inlined` (0, 1), `source` (its number) and, in archives
    with columns, `column` and `discriminator`. `unknown` counts the addresses without frames; `faulty` has the
    addresses with line entries outside the line tables.
    """

    def __cinit__(self):
        self.starts, self.range_index = Column("I", True), Column("I", True)
        self.function, self.file = Column("Q", True), Column("Q", True)
        self.line, self.inlined, self.source = Column("I", True), Column("B", True), Column("B", True)
        self.column, self.discriminator = Column("I", True), Column("I", True)
        self.faulty = Column("I", True)


@cython.cfunc
def sized(column: Column, count: cython.Py_ssize_t) -> cython.p_char:
    """Make a column of `count` uninitialized items; return the items. Raises MemoryError."""
    if count and not column.reserve(count):
        raise MemoryError
    column.vector.count = count
    return column.vector.items


def find_links(v, ends):
    """Fill `up` and `sample`; return False without memory.

    `ends` is a stack of the ends of the last range and its enclosing ranges, along the links.
    """
    top: cython.uint = NONE
    end: cython.ulonglong = 0  # of range `top`
    index: cython.Py_ssize_t
    vaddrs: cython.ulonglong[SAMPLED]
    lengths: cython.ulonglong[SAMPLED]
    block: cython.Py_ssize_t
    for block in range(v.samples):
        first: cython.Py_ssize_t = block * SAMPLED
        count: cython.Py_ssize_t = v.count - first if v.count - first < SAMPLED else SAMPLED
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


def forget(v):
    """Free the links and samples of `Archive.link`."""
    free(v.up)
    free(v.sample)


def set_key(content):
    """Set the cache key of a frame's content, if its numbers fit."""
    content.key = content.function << 32 | content.file
    content.more = content.column
    content.more = content.more << 41 | cython.cast(cython.ulonglong, content.source) << 33
    content.more |= cython.cast(cython.ulonglong, content.inlined) << 32 | content.line
    content.cacheable = (content.function | content.file) >> 32 == 0 and content.column >> 23 == 0
    content.cacheable = content.cacheable and content.discriminator == 0


@cython.final
@cython.cclass
class Archive:
    """The sections of an archive, with links for searching and caches of texts and frames."""

    def __cinit__(self, data: cython.const[cython.uchar][::1], sections: object, seed: cython.ulonglong):
        """Read an archive in `data`, whose parts `sections` (layout.ArchiveSections) describes. `seed` is random."""
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
        """Set how frames are made.

        `load` returns the class of frames and the sources by number, and is called when the first frame is made;
        `demangle` makes function names readable; without it they are returned as stored.
        """
        self._load = load
        self._demangle = demangle

    def link(self):
        """Find the up links of all ranges and sample the VAs, once. Raises MemoryError."""
        linked: View = self._view
        ends: U64s = U64s(cython.NULL, 0, 0)
        if self.view != cython.address(self._view):
            return
        linked.samples = (self.count + SAMPLED - 1) // SAMPLED
        linked.up = cython.cast(cython.p_uint, malloc((self.count + 1) * 4))
        linked.sample = cython.cast(cython.p_ulonglong, malloc((linked.samples + 1) * 8))
        ok: cython.bint = linked.up != cython.NULL and linked.sample != cython.NULL
        with cython.nogil:
            ok = ok and find_links(cython.address(linked), cython.address(ends))
        release(cython.address(ends))
        with cython.critical_section(self):
            if not ok or self.view != cython.address(self._view):  # no memory, or another thread was faster
                forget(cython.address(linked))
            else:
                self._linked = linked
                whence_publish(cython.address(self.view), cython.address(self._linked))
        if not ok:
            raise MemoryError

    # One address

    @cython.cfunc
    def _text(self, offset: cython.ulonglong, function: cython.bint):
        """Return the text at an offset; None for an offset outside the strings."""
        cache: ObjectCache = self._functions if function else self._texts
        if offset == 0 and not function:
            return ""  # no file, even if the strings begin with another text
        text = cache.get(offset, 0)
        if text is not None:
            return text
        text = self._decoded(offset)
        if not text:
            return text
        if function and self._demangle is not None:
            text = self._demangle(text)
        self._characters += len(text)
        if self._characters > CACHED_CHARACTERS:
            self._empty_caches()
            self._characters = len(text)
            cache = self._functions if function else self._texts
        cache.put(offset, 0, text)
        return text

    @cython.cfunc
    def _decoded(self, offset: cython.ulonglong):
        """Return the stored text at an offset; None for an offset outside the strings."""
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
        """Return the frame with this content; None on a fault."""
        if content.cacheable:
            frame = self._frames.get(content.key, content.more)
            if frame is not None:
                return frame
        self._functions.expect(content.function, 0)
        self._texts.expect(content.file, 0)
        function, file = self._text(content.function, True), self._text(content.file, False)
        if function is None or file is None:
            return None
        if self._frame is None:
            self._load_frames()
        frame = PyType_GenericAlloc(self._frame, FRAME_FIELDS)
        put(frame, 0, function)
        put(frame, 1, file)
        put(frame, 2, content.line)
        put(frame, 3, content.inlined)
        put(frame, 4, self._sources[content.source if content.source < len(self._sources) else 0])
        put(frame, 5, start_of(self.view, content.function, content.file, content.line))
        put(frame, 6, content.column)
        put(frame, 7, content.discriminator)
        untrack(frame)
        if content.cacheable:
            self._frames.put(content.key, content.more, frame)
        return frame

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
        """Write the ranges of the frames of an address to `chain`, innermost first; return their number.

        `chain` has memory for MOST_FRAMES.
        """
        self._lookups += 1
        if self._lookups == self._few:
            self.link()
        index: cython.Py_ssize_t = last_range(self.view, vaddr)
        count: cython.int = chain_at(self.view, index, vaddr, chain)
        if count < 0:
            self.link()
            count = chain_at(self.view, index, vaddr, chain)
        return count if count > 0 else 0

    def watch(self, changed: object):
        """Make `lookup` call `changed`, which returns 0 while the file is unchanged."""
        self._changed = changed

    @cython.always_allow_keywords(False)
    def lookup(self, vaddr: object):
        """Return the frames of an address, a tuple; () for an address outside of 64 bits.

        Returns None on a fault, which `fault` and `fault_index` describe, or if the file has changed. Raises TypeError
        for other objects than integers.
        """
        number: cython.ulonglong = PyLong_AsUnsignedLongLong(PyNumber_Index(vaddr))
        if number == NO_ADDRESS and PyErr_Occurred() != cython.NULL:
            PyErr_Clear()  # OverflowError
            return ()
        with cython.critical_section(self):  # the caches of texts and frames
            frames = self._lookup(number)
        if self._changed is not None and PyObject_CallNoArgs(self._changed) != 0:
            return None
        return frames

    @cython.cfunc
    def _lookup(self, vaddr: cython.ulonglong):
        chain: cython.uint[MOST_FRAMES]
        contents: Content[MOST_FRAMES]
        count: cython.int = self.find_chain(vaddr, chain)
        view: cython.pointer(View) = self.view
        level: cython.int
        if count == 0:
            return ()
        for level in range(count):
            index: cython.uint = chain[level]
            content: cython.pointer(Content) = contents + level
            if level == 0:
                entry: cython.longlong = entry_of(view, index, vaddr - vaddr_of(view, index))
                if entry == ENTRY_OUTSIDE:
                    self.fault, self.fault_index = LINES_OUTSIDE, index
                    return None
                content.file, content.line = field(view, index, FILE), line_of(view, entry)
                content.column, content.discriminator = line_column(view, entry), line_discriminator(view, entry)
            if level + 1 < count:  # the next frame is at the call
                around: cython.pointer(Content) = content + 1
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
        """Return the frames of each address (minus `back`) as FrameColumns, with or without discriminators.

        Raises MemoryError without memory, or for more than 2^32 frames.
        """
        frames: FrameColumns = FrameColumns()
        if vaddrs.shape[0] > self.count // 256:
            self.link()
        self._find_chains(frames, vaddrs, back)
        self._describe(frames, vaddrs, back, discriminators)
        return frames

    @cython.cfunc
    def _find_chains(self, frames: FrameColumns, vaddrs: cython.const[cython.ulonglong][::1], back: cython.ulonglong):
        """Find the ranges of each address: `starts`, `range_index` and `unknown`."""
        ranges: Column = frames.range_index
        starts: cython.p_uint = cython.cast(cython.p_uint, sized(frames.starts, vaddrs.shape[0] + 1))
        index: cython.Py_ssize_t = 0
        count: cython.int = 0
        unknown: cython.Py_ssize_t = 0
        ok: cython.bint = ranges.reserve(2 * vaddrs.shape[0] + MOST_FRAMES)
        starts[0] = 0
        while ok and index < vaddrs.shape[0]:
            if count < 0:
                self.link()
            view: cython.pointer(View) = self.view
            work: cython.Py_ssize_t = 0
            with cython.nogil:
                while index < vaddrs.shape[0]:
                    handle_signals(cython.address(work), 16)
                    vaddr: cython.ulonglong = vaddrs[index]
                    count = 0
                    if vaddr >= back:
                        ok = ranges.reserve(MOST_FRAMES) and ranges.vector.count <= MOST_ROWS
                        if not ok:
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
        if not ok:
            raise MemoryError
        frames.unknown = unknown

    @cython.cfunc
    def _describe(
        self,
        frames: FrameColumns,
        vaddrs: cython.const[cython.ulonglong][::1],
        back: cython.ulonglong,
        discriminators: cython.bint,
    ):
        """Fill the other columns."""
        view: cython.pointer(View) = self.view
        total: cython.Py_ssize_t = frames.range_index.vector.count
        ranges: cython.p_uint = cython.cast(cython.p_uint, frames.range_index.vector.items)
        starts: cython.p_uint = cython.cast(cython.p_uint, frames.starts.vector.items)
        function: cython.p_ulonglong = cython.cast(cython.p_ulonglong, sized(frames.function, total))
        file: cython.p_ulonglong = cython.cast(cython.p_ulonglong, sized(frames.file, total))
        lines: cython.p_uint = cython.cast(cython.p_uint, sized(frames.line, total))
        inlined: cython.p_uchar = cython.cast(cython.p_uchar, sized(frames.inlined, total))
        source: cython.p_uchar = cython.cast(cython.p_uchar, sized(frames.source, total))
        faulty: Column = frames.faulty
        row: cython.Py_ssize_t
        frame: cython.Py_ssize_t
        call_line: cython.uint = 0  # of the previous frame
        call_file: cython.ulonglong = 0
        ok: cython.bint = True
        column: cython.p_uint = cython.NULL
        discriminator: cython.p_uint = cython.NULL
        if view.column != cython.NULL:
            column = cython.cast(cython.p_uint, sized(frames.column, total))
            if discriminators:
                discriminator = cython.cast(cython.p_uint, sized(frames.discriminator, total))
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for row in range(vaddrs.shape[0]):
                handle_signals(cython.address(work), 16)
                for frame in range(starts[row], starts[row + 1]):
                    index: cython.uint = ranges[frame]
                    if frame == starts[row]:
                        entry: cython.longlong = entry_of(view, index, vaddrs[row] - back - vaddr_of(view, index))
                        if entry == ENTRY_OUTSIDE:
                            ok = faulty.push_u32(cython.cast(cython.uint, row)) and ok
                        lines[frame] = line_of(view, entry)
                        file[frame] = field(view, index, FILE)
                        if column != cython.NULL:
                            column[frame] = line_column(view, entry)
                        if discriminator != cython.NULL:
                            discriminator[frame] = line_discriminator(view, entry)
                    else:
                        lines[frame], file[frame] = call_line, call_file
                        if column != cython.NULL:
                            column[frame] = call_column(view, ranges[frame - 1])
                        if discriminator != cython.NULL:
                            discriminator[frame] = call_discriminator(view, ranges[frame - 1])
                    function[frame] = field(view, index, FUNCTION)
                    inlined[frame] = field(view, index, DEPTH) != 0
                    source[frame] = cython.cast(cython.uchar, source_of(view, index))
                    if frame + 1 < starts[row + 1]:
                        call_file = field(view, index, CALL_FILE)
                        call_line = cython.cast(cython.uint, field(view, index, CALL_LINE))
        if not ok:
            raise MemoryError

    def starts(
        self,
        function: cython.const[cython.ulonglong][::1],
        file: cython.const[cython.ulonglong][::1],
        line: cython.const[cython.uint][::1],
        out: cython.uint[::1],
    ):
        """Set the line on which the function of each frame is declared; 0 if unknown."""
        index: cython.Py_ssize_t
        if not line.shape[0] == function.shape[0] == file.shape[0] == out.shape[0]:
            raise ValueError("function, file, line and out must have equal lengths")
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for index in range(line.shape[0]):
                handle_signals(cython.address(work), 8)
                out[index] = start_of(self.view, function[index], file[index], line[index])

    def spans(self, ranges: cython.const[cython.uint][::1]) -> tuple[Column, Column]:
        """Return the vaddr and the length of each of `ranges`; 0 and 0 for an index out of bounds."""
        vaddr: Column = Column("Q", True)
        length: Column = Column("Q", True)
        starts: cython.p_ulonglong = cython.cast(cython.p_ulonglong, sized(vaddr, ranges.shape[0]))
        lengths: cython.p_ulonglong = cython.cast(cython.p_ulonglong, sized(length, ranges.shape[0]))
        row: cython.Py_ssize_t
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for row in range(ranges.shape[0]):
                handle_signals(cython.address(work), 4)
                starts[row] = lengths[row] = 0
                if ranges[row] < self.view.count:
                    starts[row] = vaddr_of(self.view, ranges[row])
                    lengths[row] = field(self.view, ranges[row], LENGTH)
        return vaddr, length

    def texts(self, offsets: cython.const[cython.ulonglong][::1], function: cython.bint, most: cython.longlong):
        """Return the texts at offsets, "" for an offset outside the strings. Each distinct text is made once.

        Returns None if the distinct texts take more than `most` bytes.
        """
        count: cython.Py_ssize_t = offsets.shape[0]
        row: cython.Py_ssize_t
        index: HashIndex = HashIndex(cython.NULL, 0, 0)
        distinct: list = []
        out: list = []
        plain: cython.bint = not function or self._demangle is None
        keys: cython.p_ulonglong = cython.cast(cython.p_ulonglong, malloc((count + 1) * 8))
        try:
            if keys == cython.NULL:
                raise MemoryError
            for row in range(count):
                number: cython.Py_ssize_t = find_u64(cython.address(index), keys, 8, offsets[row], self.seed)
                if number < 0:
                    number = index.count
                    keys[number] = offsets[row]
                    if not insert(cython.address(index), mix(offsets[row], self.seed), number):
                        raise MemoryError
                    size: cython.longlong = size_of(self.view, offsets[row])
                    if size > 0:
                        most -= size
                    if most < 0:
                        return None
                    if plain and offsets[row]:
                        text = self._decoded(offsets[row])
                    else:
                        with cython.critical_section(self):
                            text = self._text(offsets[row], function)
                    distinct.append("" if text is None else text)
                out.append(distinct[number])
        finally:
            release_index(cython.address(index))
            free(keys)
        return out


# Queries and answers in text


@cython.final
@cython.cclass
class Queries:
    """Lines of text with an address each, in hex with or without 0x, with optional blanks around; or vaddrs.

    For a line that is not an address of at most 64 bits, `vaddrs` has 2^64 - 1 and `bad` has 1.
    """

    def __cinit__(self, text: bytes, vaddrs: cython.const[cython.ulonglong][::1] = None):
        """Parse lines or, if `vaddrs` are given, use those instead."""
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
        """1 for each line that is not an address, else 0: a memoryview of bytes."""
        return self.bad.numbers()

    def bad_lines(self):
        """Return the invalid lines, stripped of blanks: a list of bytes."""
        start, size = self.start.numbers(), self.size.numbers()
        return [self.text[start[row] : start[row] + size[row]] for row, bad in enumerate(self.is_bad) if bad]

    def __len__(self):
        return len(self.vaddr)

    def __repr__(self):
        return f"<Queries: {len(self)} addresses>"


def parse_lines(data, length, count, vaddr, bad, start, size):
    """Fill the columns of `count` lines; `start` and `size` are those of a line stripped of blanks."""
    cursor: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t
    for row in range(count):
        newline: cython.p_void = memchr(data + cursor, ord("\n"), length - cursor)
        end: cython.Py_ssize_t = length if newline == cython.NULL else cython.cast(cython.p_uchar, newline) - data
        stop: cython.Py_ssize_t = end
        while cursor < stop and data[cursor] <= ord(" "):
            cursor += 1
        while stop > cursor and data[stop - 1] <= ord(" "):
            stop -= 1
        start[row] = cython.cast(cython.uint, cursor)
        size[row] = cython.cast(cython.uint, stop - cursor)
        if stop - cursor > 2 and data[cursor] == ord("0") and data[cursor + 1] in (ord("x"), ord("X")):
            cursor += 2
        value: cython.ulonglong = 0
        digits: cython.int = 0
        while cursor < stop:
            digit: cython.int = hex_digit(data[cursor])
            if digit < 0 or value >> 60:
                break
            value = value << 4 | cython.cast(cython.ulonglong, digit)
            digits += 1
            cursor += 1
        bad[row] = cursor < stop or digits == 0
        vaddr[row] = NO_ADDRESS if bad[row] else value
        cursor = end + 1


@cython.final
@cython.cclass
class Texts:
    """The distinct texts of frames, a row each: first those of functions, then those of files.

    `functions` is the number of texts of functions, `written` the number of bytes of the texts of all frames. `linkage`
    has the rows of functions that begin like linkage names. A text is in the archive's strings (at most MOST_TEXT
    bytes; "" for an offset outside) or, after `ReadableNames.replace`, in `readable`.
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
        """Give each distinct offset a row, in order of first use, and set the row of each frame."""
        count: cython.Py_ssize_t = offsets.vector.count
        first: cython.Py_ssize_t = self.offset.vector.count
        offset: cython.p_ulonglong = cython.cast(cython.p_ulonglong, offsets.vector.items)
        out: cython.p_uint = cython.cast(cython.p_uint, sized(rows, count))
        frame: cython.Py_ssize_t
        index: HashIndex = HashIndex(cython.NULL, 0, 0)
        ok: cython.bint = self.offset.reserve(count)
        distinct: cython.p_ulonglong = cython.cast(cython.p_ulonglong, self.offset.vector.items) + first
        with cython.nogil:
            for frame in range(count if ok else 0):
                if frame and offset[frame] == offset[frame - 1]:
                    out[frame] = out[frame - 1]
                    continue
                row: cython.Py_ssize_t = find_u64(cython.address(index), distinct, 8, offset[frame], self.archive.seed)
                if row < 0:
                    row = index.count
                    distinct[row] = offset[frame]
                    ok = insert(cython.address(index), mix(offset[frame], self.archive.seed), row)
                    if not ok:
                        break
                out[frame] = cython.cast(cython.uint, first + row)
        self.offset.vector.count += index.count
        release_index(cython.address(index))
        if not ok:
            raise MemoryError

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
        names: cython.Py_ssize_t = 0
        for row in range(count):
            length: cython.longlong = size_of(view, offset[row])
            if length < 0 or (row >= self.functions and offset[row] == 0):
                length = 0  # outside; or no file, even if the strings begin with another text
            start[row] = offset[row] + (0 if view.nul else LENGTH_PREFIX)
            size[row] = cython.cast(cython.uint, length)
            if row < self.functions and length > 2 and is_linkage_name(view.string + start[row]):
                linkage[names] = cython.cast(cython.uint, row)
                names += 1
        self.linkage.vector.count = names

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
        """Return the text of a row as bytes."""
        size: cython.ulonglong = 0
        self._check_row(row)
        text = cython.cast(cython.p_char, self.text_at(row, cython.address(size)))
        return text[:size] if size else b""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def text_at(self, row: cython.Py_ssize_t, size: cython.p_ulonglong) -> cython.pointer(cython.const[cython.uchar]):
        """Return the address and size of the text of an existing row, for other kernels."""
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
        """Replace the text of an existing row."""
        start: cython.ulonglong = self.readable.count
        if not push_bytes(cython.address(self.readable), text, size):
            raise MemoryError
        cython.cast(cython.p_ulonglong, self.start.vector.items)[row] = WHENCE_READABLE | start
        cython.cast(cython.p_uint, self.size.vector.items)[row] = size
        return 0


@cython.final
@cython.cclass
class ReadableNames:
    """A cache of readable names. The key of a name is the offset of its linkage name in the archive's strings.

    All names are dropped when the cache is full.
    """

    def __cinit__(self, seed: cython.ulonglong, most: cython.Py_ssize_t, most_bytes: cython.Py_ssize_t):
        """Make a cache of at most `most` names with `most_bytes` bytes.

        `seed` is random, so that a file cannot choose keys that collide.
        """
        belong(0 < most <= MOST_NAMES and most_bytes > 0)
        self.seed, self.most, self.most_bytes = seed, most, most_bytes
        self.key, self.end = Column("Q", True), Column("Q", True)

    def __dealloc__(self):
        release_index(cython.address(self.index))
        release(cython.address(self.text))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def index_of(self, key: cython.ulonglong) -> cython.Py_ssize_t:
        """Return the index of a cached name, or -1."""
        return find_u64(cython.address(self.index), self.key.vector.items, 8, key, self.seed)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add(
        self, key: cython.ulonglong, name: cython.pointer(cython.const[cython.uchar]), size: cython.Py_ssize_t
    ) -> cython.int:
        """Cache the readable name of a new key."""
        if self.index.count >= self.most or size > self.most_bytes - self.text.count:
            self.key.vector.count = self.end.vector.count = self.text.count = 0
            clear_index(cython.address(self.index))
        if size > self.most_bytes:
            return 0
        if not (
            self.key.reserve(1)
            and self.end.reserve(1)
            and reserve(cython.address(self.text), size, 1)
            and insert(cython.address(self.index), mix(key, self.seed), self.key.vector.count)
        ):
            raise MemoryError
        append_bytes(cython.address(self.text), name, size)
        append_u64(self.key, key)
        append_u64(self.end, self.text.count)
        return 0

    def replace(self, texts: Texts, readable: object):
        """Replace linkage names by readable ones, from the cache or by calling `readable` with a str.

        Not safe for use from several threads at a time. Exceptions of `readable` are raised.
        """
        index: cython.Py_ssize_t
        size: cython.ulonglong = 0
        rows: cython.p_uint = cython.cast(cython.p_uint, texts.linkage.vector.items)
        keys: cython.p_ulonglong = cython.cast(cython.p_ulonglong, texts.offset.vector.items)
        for index in range(texts.linkage.vector.count):
            row: cython.Py_ssize_t = rows[index]
            cached: cython.Py_ssize_t = self.index_of(keys[row])
            if cached >= 0:
                ends: cython.p_ulonglong = cython.cast(cython.p_ulonglong, self.end.vector.items)
                begin: cython.ulonglong = ends[cached - 1] if cached else 0
                texts.show(row, self.text.items + begin, cython.cast(cython.uint, ends[cached] - begin))
                continue
            stored = cython.cast(cython.p_char, texts.text_at(row, cython.address(size)))
            name = readable(PyUnicode_DecodeUTF8(stored, size, b"surrogateescape"))
            encoded: bytes = name.encode("utf-8", "surrogateescape")
            text = cython.cast(cython.p_uchar, cython.cast(cython.p_char, encoded))
            texts.show(row, text, cython.cast(cython.uint, len(encoded)))
            self.add(keys[row], text, len(encoded))


def is_linkage_name(text):
    """Return True if a text of at least three bytes begins with _Z _R _D _T _$ $s $S or ?.

    Up to two more underscores may precede the Z or R.
    """
    if text[0] == ord("_"):
        if text[1] == ord("_"):  # glibc's own names are __GI_ and the like
            return text[2] in (ord("Z"), ord("R"), ord("_"))
        return text[1] in (ord("Z"), ord("R"), ord("D"), ord("T"), ord("$"))
    return text[0] == ord("?") or (text[0] == ord("$") and text[1] in (ord("s"), ord("S")))
