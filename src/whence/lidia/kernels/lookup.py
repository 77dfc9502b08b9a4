"""Looking up in an archive's bytes, as they lie.

The rule, which for archives of whence is plain nesting and for others is never less than the Go package's answer: from
the last range whose VA is at or below the address go to the ranges before it; those that cover the address, each of a
smaller depth than the last, are the frames, up to the first one of depth 0.

To find them either walk back range by range (one address), or climb `up` links (many): up[i] is the nearest range
before i that still covers i's VA, found for all ranges in one pass. A range that covers an address is always among the
links of the last range at or below that address, so both give the same frames. Walks are counted; once they have cost
more than the pass would, the links are made.

Everything read from the archive is checked where it is used. Faults: 1 a name lies outside the strings, 2 line entries
lie outside the line tables.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.lidia.kernels.kept import Kept
from cython.cimports.whence.lidia.kernels.sections import (
    MOST_FRAMES,
    SAMPLED,
    View,
    chain_at,
    end_of,
    field,
    line_of,
    place_of,
    size_of,
    source_of,
    start_of,
    va_of,
    view_of,
)

NONE = cython.declare(cython.uint, 0xFFFFFFFF)
MOST_ROWS = cython.declare(cython.Py_ssize_t, 0xFFFFFFFF - 512)  # of all frames: starts are numbers of 32 bits
TEXTS = cython.declare(cython.int, 131072)  # kept, at most
TEXT_BYTES = cython.declare(cython.Py_ssize_t, 1 << 26)  # of texts kept, in characters
FRAMES = cython.declare(cython.int, 16384)  # not more: to find a frame must not cost more than to make one
MIX = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)


@cython.final
@cython.cclass
class FrameColumns:
    """The frames of many addresses, in the order asked.

    Those of address i are rows [starts[i], starts[i + 1]) of `range_index` (which range of the archive), `function` and
    `file` (offsets in the strings), `line`, `inlined` (0, 1) and `source` (its number), innermost first. `unknown`
    counts the addresses without a frame; `faulty` has those whose line entries lie outside the line tables.
    """

    starts = cython.declare(Column, visibility="readonly")
    range_index = cython.declare(Column, visibility="readonly")
    function = cython.declare(Column, visibility="readonly")
    file = cython.declare(Column, visibility="readonly")
    line = cython.declare(Column, visibility="readonly")
    inlined = cython.declare(Column, visibility="readonly")
    source = cython.declare(Column, visibility="readonly")
    faulty = cython.declare(Column, visibility="readonly")
    unknown = cython.declare(cython.Py_ssize_t, visibility="readonly")

    def __cinit__(self):
        self.starts, self.range_index = Column("I"), Column("I")
        self.function, self.file = Column("Q"), Column("Q")
        self.line, self.inlined, self.source = Column("I"), Column("B"), Column("B")
        self.faulty = Column("I")


@cython.cfunc
def _sized(column: Column, count: cython.Py_ssize_t) -> cython.p_char:
    """The items of an empty column that now has `count` of them, not yet filled in. MemoryError."""
    if count and not column.reserve(count):
        raise MemoryError
    column.vector.count = count
    return column.vector.items


@cython.final
@cython.cclass
class Archive:
    """The four sections of one archive, and what was learnt about them."""

    count = cython.declare(cython.Py_ssize_t, visibility="readonly")  # ranges
    fault = cython.declare(cython.int, visibility="readonly")  # of the last lookup that gave None
    fault_at = cython.declare(cython.Py_ssize_t, visibility="readonly")  # the range it was met in
    _bytes: cython.const[cython.uchar][::1]
    _view: View
    _v: cython.pointer(View)
    _seed: cython.ulonglong  # so that an archive cannot choose offsets that collide
    _frame: object
    _make: object
    _words: tuple
    _demangle: object
    _functions: Kept
    _texts: Kept
    _frames: Kept  # by range and line; around an inlined range by both ranges, all bits turned
    _asked: cython.Py_ssize_t  # addresses, one by one
    string_size = cython.declare(cython.ulonglong, visibility="readonly")
    _kept: cython.Py_ssize_t  # characters of the texts that are kept

    def __cinit__(self, data: cython.const[cython.uchar][::1], places: tuple, tidy: cython.bint, seed: object):
        """`places` says where the sections lie in the data (Table has checked them); `tidy`: functions lie apart."""
        base: cython.pointer(cython.const[cython.uchar]) = cython.NULL
        self._bytes = data
        if data.shape[0]:
            base = cython.address(data[0])
        self._v = cython.address(self._view)
        view_of(self._v, base, places)
        self._v.tidy = tidy
        self.count = self._view.count
        self.string_size = self._view.string_size
        self._seed = seed
        self._forget()

    @cython.cfunc
    def _forget(self):
        """Keep no text and no frame."""
        self._functions, self._texts, self._frames = Kept(TEXTS), Kept(TEXTS), Kept(FRAMES)
        self._kept = 0

    def __dealloc__(self):
        free(self._view.up)
        free(self._view.sample)

    def dress(self, frame: object, words: tuple, demangle: object):
        """What answers are made of: the frame type, the words for sources, and what turns a function's name."""
        self._frame = frame
        self._make = tuple.__new__
        self._words = words
        self._demangle = demangle

    def link(self):
        """Find the up links of all ranges and sample the VAs; once. MemoryError when there is no room for them."""
        up: cython.p_uint
        sample: cython.p_ulonglong
        samples: cython.Py_ssize_t = (self.count + SAMPLED - 1) // SAMPLED
        at: cython.Py_ssize_t
        top: cython.uint = NONE
        va: cython.ulonglong
        if self._view.up != cython.NULL:
            return
        up = cython.cast(cython.p_uint, malloc((self.count + 1) * 4))
        sample = cython.cast(cython.p_ulonglong, malloc((samples + 1) * 8))
        if up == cython.NULL or sample == cython.NULL:
            free(up)
            free(sample)
            raise MemoryError
        with cython.nogil:
            for at in range(samples):
                sample[at] = va_of(self._v, at * SAMPLED)
            for at in range(self.count):
                va = va_of(self._v, at)
                while top != NONE and end_of(self._v, top) <= va:
                    top = up[top]
                up[at] = top
                if field(self._v, at, 0):
                    top = cython.cast(cython.uint, at)
        if self._view.up == cython.NULL:
            self._view.samples = samples
            self._view.sample = sample
            self._view.up = up
        else:  # another thread was first
            free(up)
            free(sample)

    # One address

    @cython.cfunc
    def _text(self, offset: cython.ulonglong, function: cython.bint):
        """The text at an offset; None when it does not lie in the strings."""
        kept: Kept = self._functions if function else self._texts
        if offset == 0 and not function:
            return ""  # no file, also where the strings begin with another text
        found = kept.get(offset)
        if found is not None:
            return found
        found = self._decoded(offset)
        if not found:
            return found
        if function and self._demangle is not None:
            found = self._demangle(found)
        self._kept += len(found)
        if self._kept > TEXT_BYTES:
            self._forget()
            self._kept = len(found)
            kept = self._functions if function else self._texts
        kept.put(offset, found)
        return found

    @cython.cfunc
    def _decoded(self, offset: cython.ulonglong):
        """The text at an offset as it is stored; None when it does not lie in the strings."""
        size: cython.longlong = size_of(self._v, offset)
        if size < 0:
            return None
        if size == 0:
            return ""
        offset_of_text: cython.ulonglong = offset if self._view.nul else offset + 4
        raw: cython.p_char = cython.cast(cython.p_char, self._view.string) + offset_of_text
        return raw[:size].decode("utf-8", "surrogateescape")

    @cython.cfunc
    def _frame_of(self, place: cython.uint, inner: cython.longlong, line: cython.longlong):
        """A frame: of the range itself (inner -1, with the line), or around the range `inner`. None on a fault."""
        key: cython.ulonglong = cython.cast(cython.ulonglong, place) << 32
        key = key | cython.cast(cython.ulonglong, line) if inner < 0 else ~(key | cython.cast(cython.ulonglong, inner))
        found = self._frames.get(key)
        if found is not None:
            return found
        function = self._text(field(self._v, place, 2), True)
        file = self._text(
            field(self._v, place, 3) if inner < 0 else field(self._v, inner, 6),
            False,
        )
        if function is None or file is None:
            return None
        number: cython.uint = cython.cast(cython.uint, line if inner < 0 else field(self._v, inner, 7))
        source: cython.int = source_of(self._v, place)
        found = self._make(
            self._frame,
            (
                function,
                file,
                number,
                field(self._v, place, 1) != 0,
                self._words[source] if source < len(self._words) else "",
                start_of(
                    self._v,
                    field(self._v, place, 2),
                    field(self._v, place, 3) if inner < 0 else field(self._v, inner, 6),
                    number,
                ),
            ),
        )
        self._frames.put(key, found)
        return found

    def lookup(self, vaddr: cython.ulonglong):
        """The frames of an address, a tuple; None on a fault, which `fault` and `fault_at` then describe."""
        chain: cython.uint[512]
        count: cython.int
        level: cython.int
        line: cython.longlong
        place: cython.Py_ssize_t
        self._asked += 1
        if self._asked == 1024 + self.count // 32:  # by now the links and samples will pay
            self.link()
        place = place_of(self._v, vaddr)
        count = chain_at(self._v, place, vaddr, chain)
        if count < 0:
            self.link()
            count = chain_at(self._v, place, vaddr, chain)
        if count <= 0:
            return ()
        line = line_of(self._v, chain[0], vaddr - va_of(self._v, chain[0]))
        if line < 0:
            self.fault = 2
            self.fault_at = chain[0]
            return None
        frames: list = []
        for level in range(count):
            frame = self._frame_of(chain[level], -1 if level == 0 else chain[level - 1], line)
            if frame is None:
                self.fault = 1
                self.fault_at = chain[level]
                return None
            frames.append(frame)
        return tuple(frames)

    # Many addresses

    def find_frames(self, vaddrs: cython.const[cython.ulonglong][::1], back: cython.ulonglong):
        """The frames of each address (less `back`), as FrameColumns. MemoryError, also beyond 2^32 frames."""
        found: FrameColumns = FrameColumns()
        ranges: Column = found.range_index
        starts: cython.p_uint = cython.cast(cython.p_uint, _sized(found.starts, vaddrs.shape[0] + 1))
        at: cython.Py_ssize_t = 0
        count: cython.int = 0
        unknown: cython.Py_ssize_t = 0
        vaddr: cython.ulonglong
        room: cython.bint = ranges.reserve(2 * vaddrs.shape[0] + MOST_FRAMES)
        if vaddrs.shape[0] > self.count // 256:
            self.link()
        starts[0] = 0
        while room and at < vaddrs.shape[0]:
            if count < 0:
                self.link()
            with cython.nogil:
                while at < vaddrs.shape[0]:
                    vaddr = vaddrs[at]
                    count = 0
                    if vaddr >= back:
                        room = ranges.reserve(MOST_FRAMES) and ranges.vector.count <= MOST_ROWS
                        if not room:
                            break
                        vaddr -= back
                        count = chain_at(
                            self._v,
                            place_of(self._v, vaddr),
                            vaddr,
                            cython.cast(cython.p_uint, ranges.vector.items) + ranges.vector.count,
                        )
                        if count < 0:
                            break
                    ranges.vector.count += count
                    unknown += count == 0
                    at += 1
                    starts[at] = cython.cast(cython.uint, ranges.vector.count)
        if not room:
            raise MemoryError
        found.unknown = unknown
        self._describe(found, vaddrs, back)
        return found

    @cython.cfunc
    def _describe(self, found: FrameColumns, vaddrs: cython.const[cython.ulonglong][::1], back: cython.ulonglong):
        """Fill in the columns of the ranges that were found."""
        frames: cython.Py_ssize_t = found.range_index.vector.count
        ranges: cython.p_uint = cython.cast(cython.p_uint, found.range_index.vector.items)
        starts: cython.p_uint = cython.cast(cython.p_uint, found.starts.vector.items)
        function: cython.p_ulonglong = cython.cast(cython.p_ulonglong, _sized(found.function, frames))
        file: cython.p_ulonglong = cython.cast(cython.p_ulonglong, _sized(found.file, frames))
        lines: cython.p_uint = cython.cast(cython.p_uint, _sized(found.line, frames))
        inlined: cython.p_uchar = cython.cast(cython.p_uchar, _sized(found.inlined, frames))
        source: cython.p_uchar = cython.cast(cython.p_uchar, _sized(found.source, frames))
        faulty: Column = found.faulty
        at: cython.Py_ssize_t
        to: cython.Py_ssize_t
        index: cython.uint
        line: cython.longlong
        room: cython.bint = True
        with cython.nogil:
            for at in range(vaddrs.shape[0]):
                for to in range(starts[at], starts[at + 1]):
                    index = ranges[to]
                    if to == starts[at]:
                        line = line_of(self._v, index, vaddrs[at] - back - va_of(self._v, index))
                        if line < 0:
                            room = faulty.push_u32(cython.cast(cython.uint, at)) and room
                            line = 0
                        file[to] = field(self._v, index, 3)
                    else:
                        line = field(self._v, ranges[to - 1], 7)
                        file[to] = field(self._v, ranges[to - 1], 6)
                    lines[to] = cython.cast(cython.uint, line)
                    function[to] = field(self._v, index, 2)
                    inlined[to] = field(self._v, index, 1) != 0
                    source[to] = cython.cast(cython.uchar, source_of(self._v, index))
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
        at: cython.Py_ssize_t
        if not line.shape[0] == function.shape[0] == file.shape[0] == out.shape[0]:
            raise ValueError("function, file and line have a row each for every frame")
        with cython.nogil:
            for at in range(line.shape[0]):
                out[at] = start_of(self._v, function[at], file[at], line[at])

    def texts(self, offsets: cython.const[cython.ulonglong][::1], function: cython.bint, most: cython.longlong):
        """The texts at offsets; "" for one that does not lie in the strings. Each distinct one is made once.

        None where the distinct ones take more than `most` bytes.
        """
        count: cython.Py_ssize_t = offsets.shape[0]
        at: cython.Py_ssize_t
        room: cython.ulonglong = 1024
        slot: cython.ulonglong
        distinct: list = []
        out: list = []
        plain: cython.bint = not function or self._demangle is None
        size: cython.longlong
        while room < 2 * cython.cast(cython.ulonglong, count):
            room *= 2
        numbers: cython.p_uint = cython.cast(cython.p_uint, calloc(room, 4))
        known: cython.p_ulonglong = cython.cast(cython.p_ulonglong, malloc((count + 1) * 8))
        try:
            if numbers == cython.NULL or known == cython.NULL:
                raise MemoryError
            for at in range(count):
                slot = (offsets[at] ^ self._seed) * MIX
                slot = (slot ^ slot >> 29) * (self._seed | 1)
                slot = (slot ^ slot >> 32) & (room - 1)
                while numbers[slot] and known[numbers[slot] - 1] != offsets[at]:
                    slot = (slot + 1) & (room - 1)
                if numbers[slot] == 0:
                    known[len(distinct)] = offsets[at]
                    size = size_of(self._v, offsets[at])
                    if size > 0:
                        most -= size
                    if most < 0:
                        return None
                    text = self._decoded(offsets[at]) if plain and offsets[at] else self._text(offsets[at], function)
                    distinct.append("" if text is None else text)
                    numbers[slot] = cython.cast(cython.uint, len(distinct))
                out.append(distinct[numbers[slot] - 1])
        finally:
            free(numbers)
            free(known)
        return out
