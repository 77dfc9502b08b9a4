"""Looking up in an archive's bytes, as they lie.

The rule, which for archives of whence is plain nesting and for others is never less than the Go package's answer: from
the last range whose VA is at or below the address go to the ranges before it; those that cover the address, each of a
smaller depth than the last, are the frames, up to the first one of depth 0.

To find them either walk back range by range (one address), or climb `up` links (many): up[i] is the nearest range
before i that still covers i's VA, found for all ranges in one pass. A range that covers an address is always among the
links of the last range at or below that address, so both give the same frames. Walks are counted; once they have cost
more than the pass would, the links are made.

Many addresses are searched for among every 64th VA first: those are few enough to stay near the processor.

Everything read from the archive is checked where it is used. Faults: 1 a name lies outside the strings, 2 line entries
lie outside the line tables.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free, malloc, realloc
from cython.cimports.libc.string import memchr

NONE = cython.declare(cython.uint, 0xFFFFFFFF)
NEVER = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
MOST_FRAMES = cython.declare(cython.int, 512)  # a chain is not followed further
MOST_STEPS = cython.declare(cython.int, 65536)  # nor are links of ranges that do not cover the address
MIX = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
SAMPLED = cython.declare(cython.Py_ssize_t, 64)
CACHED = cython.declare(cython.Py_ssize_t, 65536)  # frames and texts kept


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _load(at: cython.pointer(cython.const[cython.uchar]), width: cython.int) -> cython.ulonglong:
    """A little-endian number of 2, 4 or 8 bytes."""
    low: cython.uint
    high: cython.uint
    if width == 2:
        return cython.cast(cython.uint, at[0]) | cython.cast(cython.uint, at[1]) << 8
    low = (
        cython.cast(cython.uint, at[0]) | cython.cast(cython.uint, at[1]) << 8
        | cython.cast(cython.uint, at[2]) << 16 | cython.cast(cython.uint, at[3]) << 24
    )  # fmt: skip
    if width == 4:
        return low
    high = (
        cython.cast(cython.uint, at[4]) | cython.cast(cython.uint, at[5]) << 8
        | cython.cast(cython.uint, at[6]) << 16 | cython.cast(cython.uint, at[7]) << 24
    )  # fmt: skip
    return cython.cast(cython.ulonglong, high) << 32 | low


@cython.final
@cython.cclass
class Places:
    """Ranges found, one after the other: a column that grows."""

    count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _places: cython.p_uint
    _room: cython.Py_ssize_t
    _failed: cython.bint

    def __cinit__(self, room: cython.Py_ssize_t):
        self._room = room + 512
        self._places = cython.cast(cython.p_uint, malloc(self._room * 4))
        if self._places == cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._places)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _append(self, chain: cython.p_uint, count: cython.int) -> cython.bint:
        at: cython.int
        now: cython.p_uint
        if self.count + count > self._room:
            if self._room > 0x40000000:  # starts are 32-bit numbers
                self._failed = True
                return False
            now = cython.cast(cython.p_uint, realloc(self._places, self._room * 8))
            if now == cython.NULL:
                self._failed = True
                return False
            self._places = now
            self._room *= 2
        for at in range(count):
            self._places[self.count + at] = chain[at]
        if count > 0:
            self.count += count
        return True


@cython.final
@cython.cclass
class Archive:
    """The four sections of one archive, and what was learnt about them."""

    count = cython.declare(cython.Py_ssize_t, visibility="readonly")  # ranges
    fault = cython.declare(cython.int, visibility="readonly")  # of the last lookup that gave None
    fault_at = cython.declare(cython.Py_ssize_t, visibility="readonly")  # the range it was met in
    _view: cython.const[cython.uchar][::1]
    _va: cython.pointer(cython.const[cython.uchar])
    _range: cython.pointer(cython.const[cython.uchar])
    _string: cython.pointer(cython.const[cython.uchar])
    _line: cython.pointer(cython.const[cython.uchar])
    _va_width: cython.int
    _width: cython.int
    _line_width: cython.int
    _nul: cython.bint
    _tidy: cython.bint
    _string_size: cython.ulonglong
    _lines: cython.ulonglong
    _source: cython.pointer(cython.const[cython.uchar])
    _run_start: cython.pointer(cython.const[cython.uchar])
    _run_value: cython.pointer(cython.const[cython.uchar])
    _runs: cython.Py_ssize_t
    _up: cython.p_uint
    _sample: cython.p_ulonglong  # every 64th VA, or NULL
    _samples: cython.Py_ssize_t
    _walked: cython.Py_ssize_t
    _seed: cython.ulonglong  # so that an archive cannot choose offsets that collide
    _frame: object
    _make: object
    _words: tuple
    _demangle: object
    _functions: dict
    _texts: dict
    _inner: dict
    _outer: dict

    def __cinit__(
        self,
        data: cython.const[cython.uchar][::1],
        va: tuple,
        ranges: tuple,
        strings: tuple,
        lines: tuple,
        nul: cython.bint,
        tidy: cython.bint,
        source: tuple,
        runs: tuple,
        seed: cython.ulonglong,
    ):
        """`va`, `ranges`, `lines`: (offset, width, count); `strings`: (offset, size). All lie inside the data.

        `source`: (offset, count) of a byte per range; `runs`: the same of runs. Counts of 0: there are none.
        """
        base: cython.pointer(cython.const[cython.uchar]) = cython.NULL
        self._view = data
        if data.shape[0]:
            base = cython.address(data[0])
        self._va = base + cython.cast(cython.Py_ssize_t, va[0])
        self._va_width = va[1]
        self.count = va[2]
        self._range = base + cython.cast(cython.Py_ssize_t, ranges[0])
        self._width = ranges[1]
        self._string = base + cython.cast(cython.Py_ssize_t, strings[0])
        self._string_size = strings[1]
        self._line = base + cython.cast(cython.Py_ssize_t, lines[0])
        self._line_width = lines[1]
        self._lines = lines[2]
        self._seed = seed
        self._nul = nul
        self._tidy = tidy
        if source[1]:
            self._source = base + cython.cast(cython.Py_ssize_t, source[0])
        self._runs = runs[1]
        self._run_start = base + cython.cast(cython.Py_ssize_t, runs[0])
        self._run_value = self._run_start + 4 * self._runs
        self._functions = {}
        self._texts = {}
        self._inner = {}
        self._outer = {}

    def __dealloc__(self):
        free(self._up)
        free(self._sample)

    def dress(self, frame: object, words: tuple, demangle: object):
        """What answers are made of: the frame type, the words for sources, and what turns a function's name."""
        self._frame = frame
        self._make = tuple.__new__
        self._words = words
        self._demangle = demangle

    # What lies where

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _va_of(self, place: cython.Py_ssize_t) -> cython.ulonglong:
        return _load(self._va + place * self._va_width, self._va_width)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _field(self, place: cython.Py_ssize_t, field: cython.int) -> cython.ulonglong:
        return _load(self._range + (place * 8 + field) * self._width, self._width)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _end_of(self, place: cython.Py_ssize_t) -> cython.ulonglong:
        va: cython.ulonglong = self._va_of(place)
        length: cython.ulonglong = self._field(place, 0)
        return va + length if length <= NEVER - va else NEVER

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _source_of(self, place: cython.Py_ssize_t) -> cython.int:
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self._runs
        middle: cython.Py_ssize_t
        if self._source != cython.NULL:
            return self._source[place]
        while low < high:
            middle = (low + high) >> 1
            if _load(self._run_start + 4 * middle, 4) <= cython.cast(cython.ulonglong, place):
                low = middle + 1
            else:
                high = middle
        return self._run_value[low - 1] if low else 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _line_of(self, place: cython.Py_ssize_t, offset: cython.ulonglong) -> cython.longlong:
        """The line at an offset from the range's VA; -1 when the entries are not in the tables."""
        index: cython.ulonglong = self._field(place, 4)
        count: cython.ulonglong = self._field(place, 5)
        size: cython.int = 2 * self._line_width
        low: cython.ulonglong = 0
        high: cython.ulonglong = count
        middle: cython.ulonglong
        at: cython.pointer(cython.const[cython.uchar])
        if count == 0:
            return 0
        if index > self._lines or count > self._lines - index:
            return -1
        at = self._line + index * size
        while low < high:
            middle = (low + high) >> 1
            if _load(at + middle * size, self._line_width) <= offset:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return 0
        return _load(at + (low - 1) * size + self._line_width, self._line_width)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _size_of(self, offset: cython.ulonglong) -> cython.longlong:
        """The size of the text at an offset of the strings; -1 when it does not lie inside."""
        left: cython.ulonglong
        size: cython.ulonglong
        end: cython.p_void
        if offset >= self._string_size:
            return 0 if offset == 0 else -1
        left = self._string_size - offset
        if self._nul:
            end = memchr(self._string + offset, 0, left)
            return cython.cast(cython.p_uchar, end) - (self._string + offset) if end != cython.NULL else -1
        if left < 4:
            return -1
        size = _load(self._string + offset, 4)
        return size if size <= left - 4 else -1

    # Who covers an address

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _place(self, vaddr: cython.ulonglong) -> cython.Py_ssize_t:
        """The last range whose VA is at or below the address, or -1."""
        low: cython.Py_ssize_t = 0
        left: cython.Py_ssize_t = self.count
        half: cython.Py_ssize_t
        if self._va_width == 4 and vaddr > NONE:
            return self.count - 1
        if self._sample != cython.NULL:
            left = self._samples
            while left > 0:
                half = left >> 1
                if self._sample[low + half] <= vaddr:
                    low += half + 1
                    left -= half + 1
                else:
                    left = half
            if low == 0:
                return -1
            low = (low - 1) * SAMPLED
            left = self.count - low if self.count - low < SAMPLED else SAMPLED
        while left > 0:
            half = left >> 1
            if self._va_of(low + half) <= vaddr:
                low += half + 1
                left -= half + 1
            else:
                left = half
        return low - 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _chain(
        self, place: cython.Py_ssize_t, vaddr: cython.ulonglong, out: cython.p_uint, patience: cython.Py_ssize_t
    ) -> cython.int:
        """The ranges that are the frames, innermost first, into `out`; -1 when a walk took more than its patience."""
        found: cython.int = 0
        depth: cython.ulonglong = NEVER
        mine: cython.ulonglong
        steps: cython.Py_ssize_t = 0
        links: cython.p_uint = self._up
        while place >= 0 and found < MOST_FRAMES:
            mine = self._field(place, 1)
            if mine < depth and vaddr < self._end_of(place) and self._va_of(place) <= vaddr:
                out[found] = cython.cast(cython.uint, place)
                found += 1
                depth = mine
                if mine == 0:
                    break
            steps += 1
            if links != cython.NULL:
                if links[place] == NONE or steps > MOST_STEPS:
                    break
                place = links[place]
            else:
                if self._tidy and mine == 0:
                    break
                if steps > patience:
                    return -1
                place -= 1
        if links == cython.NULL:
            self._walked += steps
        return found

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _patience(self) -> cython.Py_ssize_t:
        """How far a walk may go: far at first, not far once walks have cost more than the links would."""
        return 20000 if self._walked < self.count else 64

    def link(self):
        """Find the up links of all ranges and sample the VAs; once. MemoryError when there is no room for them."""
        up: cython.p_uint
        sample: cython.p_ulonglong
        samples: cython.Py_ssize_t = (self.count + SAMPLED - 1) // SAMPLED
        at: cython.Py_ssize_t
        top: cython.uint = NONE
        va: cython.ulonglong
        if self._up != cython.NULL:
            return
        up = cython.cast(cython.p_uint, malloc((self.count + 1) * 4))
        sample = cython.cast(cython.p_ulonglong, malloc((samples + 1) * 8))
        if up == cython.NULL or sample == cython.NULL:
            free(up)
            free(sample)
            raise MemoryError
        with cython.nogil:
            for at in range(samples):
                sample[at] = self._va_of(at * SAMPLED)
            for at in range(self.count):
                va = self._va_of(at)
                while top != NONE and self._end_of(top) <= va:
                    top = up[top]
                up[at] = top
                if self._field(at, 0):
                    top = cython.cast(cython.uint, at)
        if self._up == cython.NULL:
            self._samples = samples
            self._sample = sample
            self._up = up
        else:  # another thread was first
            free(up)
            free(sample)

    # One address

    @cython.cfunc
    def _text(self, offset: cython.ulonglong, function: cython.bint):
        """The text at an offset; None when it does not lie in the strings."""
        kept: dict = self._functions if function else self._texts
        found = kept.get(offset)
        if found is not None:
            return found
        found = self._decoded(offset)
        if not found:
            return found
        if function and self._demangle is not None:
            found = self._demangle(found)
        if len(kept) >= CACHED:
            kept.clear()
        kept[offset] = found
        return found

    @cython.cfunc
    def _decoded(self, offset: cython.ulonglong):
        """The text at an offset as it is stored; None when it does not lie in the strings."""
        size: cython.longlong = self._size_of(offset)
        if size < 0:
            return None
        if size == 0:
            return ""
        offset_of_text: cython.ulonglong = offset if self._nul else offset + 4
        raw: cython.p_char = cython.cast(cython.p_char, self._string) + offset_of_text
        return raw[:size].decode("utf-8", "surrogateescape")

    @cython.cfunc
    def _frame_of(self, place: cython.uint, inner: cython.longlong, line: cython.longlong):
        """A frame: of the range itself (inner -1, with the line), or around the range `inner`. None on a fault."""
        kept: dict = self._inner if inner < 0 else self._outer
        key: object = cython.cast(cython.ulonglong, place) << 32 | cython.cast(
            cython.ulonglong, line if inner < 0 else inner
        )
        found = kept.get(key)
        if found is not None:
            return found
        function = self._text(self._field(place, 2), True)
        file = self._text(self._field(place, 3) if inner < 0 else self._field(inner, 6), False)
        if function is None or file is None:
            return None
        number: cython.uint = cython.cast(cython.uint, line if inner < 0 else self._field(inner, 7))
        source: cython.int = self._source_of(place)
        found = self._make(
            self._frame,
            (
                function,
                file,
                number,
                self._field(place, 1) != 0,
                self._words[source] if source < len(self._words) else "",
            ),
        )
        if len(kept) >= CACHED:
            kept.clear()
        kept[key] = found
        return found

    def lookup(self, vaddr: cython.ulonglong):
        """The frames of an address, a tuple; None on a fault, which `fault` and `fault_at` then describe."""
        chain: cython.uint[512]
        count: cython.int
        level: cython.int
        line: cython.longlong
        place: cython.Py_ssize_t = self._place(vaddr)
        count = self._chain(place, vaddr, chain, self._patience())
        if count < 0:
            self.link()
            count = self._chain(place, vaddr, chain, 0)
        if count <= 0:
            return ()
        line = self._line_of(chain[0], vaddr - self._va_of(chain[0]))
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

    def count_frames(
        self,
        vaddrs: cython.const[cython.ulonglong][::1],
        back: cython.ulonglong,
        starts: cython.uint[::1],
        found: Places,
    ):
        """For each address (less `back`) its ranges, into `found`, and where they start; gives (frames, unknown)."""
        chain: cython.uint[512]
        at: cython.Py_ssize_t = 0
        count: cython.int = 0
        unknown: cython.Py_ssize_t = 0
        vaddr: cython.ulonglong
        if vaddrs.shape[0] > self.count // 256:
            self.link()
        starts[0] = 0
        while at < vaddrs.shape[0] and not found._failed:
            if count < 0:
                self.link()
            with cython.nogil:
                while at < vaddrs.shape[0]:
                    vaddr = vaddrs[at]
                    count = 0
                    if vaddr >= back:
                        vaddr -= back
                        count = self._chain(self._place(vaddr), vaddr, chain, self._patience())
                    if count < 0 or not found._append(chain, count):
                        break
                    unknown += count == 0
                    at += 1
                    starts[at] = cython.cast(cython.uint, found.count)
        if found._failed:
            raise MemoryError
        return found.count, unknown

    def fill_frames(
        self,
        vaddrs: cython.const[cython.ulonglong][::1],
        back: cython.ulonglong,
        starts: cython.const[cython.uint][::1],
        found: Places,
        out_place: cython.uint[::1],
        out_function: cython.ulonglong[::1],
        out_file: cython.ulonglong[::1],
        out_line: cython.uint[::1],
        out_inlined: cython.uchar[::1],
        out_source: cython.uchar[::1],
    ):
        """The frames' columns. Gives how many innermost frames have line entries outside the line tables (line 0)."""
        at: cython.Py_ssize_t
        to: cython.Py_ssize_t
        place: cython.uint
        line: cython.longlong
        faults: cython.Py_ssize_t = 0
        with cython.nogil:
            for at in range(vaddrs.shape[0]):
                for to in range(starts[at], starts[at + 1]):
                    place = found._places[to]
                    if to == starts[at]:
                        line = self._line_of(place, vaddrs[at] - back - self._va_of(place))
                        if line < 0:
                            faults += 1
                            line = 0
                        out_file[to] = self._field(place, 3)
                    else:
                        line = self._field(found._places[to - 1], 7)
                        out_file[to] = self._field(found._places[to - 1], 6)
                    out_line[to] = cython.cast(cython.uint, line)
                    out_place[to] = place
                    out_function[to] = self._field(place, 2)
                    out_inlined[to] = self._field(place, 1) != 0
                    out_source[to] = cython.cast(cython.uchar, self._source_of(place))
        return faults

    def texts(self, offsets: cython.const[cython.ulonglong][::1], function: cython.bint) -> list:
        """The texts at offsets; "" for one that does not lie in the strings. Each distinct one is made once."""
        count: cython.Py_ssize_t = offsets.shape[0]
        at: cython.Py_ssize_t
        room: cython.ulonglong = 1024
        slot: cython.ulonglong
        distinct: list = []
        out: list = []
        plain: cython.bint = not function or self._demangle is None
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
                    text = self._decoded(offsets[at]) if plain else self._text(offsets[at], True)
                    distinct.append("" if text is None else text)
                    numbers[slot] = cython.cast(cython.uint, len(distinct))
                out.append(distinct[numbers[slot] - 1])
        finally:
            free(numbers)
            free(known)
        return out

    # A range

    def text(self, offset: cython.ulonglong):
        """The text at an offset of the strings as it is stored; None when it does not lie inside."""
        size: cython.longlong = self._size_of(offset)
        if size < 0:
            return None
        if size == 0:
            return b""
        start: cython.ulonglong = offset if self._nul else offset + 4
        return cython.cast(cython.p_char, self._string)[start : start + size]

    def range(self, place: cython.Py_ssize_t):
        """(va, length, depth, function, file, line index, line count, call file, call line, source) of a range."""
        if place < 0 or place >= self.count:
            return None
        return (
            self._va_of(place), self._field(place, 0), self._field(place, 1), self._field(place, 2),
            self._field(place, 3), self._field(place, 4), self._field(place, 5), self._field(place, 6),
            self._field(place, 7), self._source_of(place),
        )  # fmt: skip

    def lines(self, index: cython.ulonglong, count: cython.ulonglong):
        """Line entries as (offset, line) pairs; None when they are not in the tables."""
        at: cython.ulonglong
        size: cython.int = 2 * self._line_width
        entry: cython.pointer(cython.const[cython.uchar])
        if count == 0:
            return ()
        if index > self._lines or count > self._lines - index:
            return None
        out: list = []
        for at in range(index, index + count):
            entry = self._line + at * size
            out.append((_load(entry, self._line_width), _load(entry + self._line_width, self._line_width)))
        return tuple(out)

    def count_sources(self):
        """How many ranges each source named: a number for each of the 256 values of a source's byte."""
        counts: cython.Py_ssize_t[256]
        at: cython.Py_ssize_t
        for at in range(256):
            counts[at] = 0
        with cython.nogil:
            if self._source != cython.NULL or self._runs:
                for at in range(self.count):
                    counts[self._source_of(at)] += 1
        return [counts[at] for at in range(256)]

    def inspect(self):
        """Walk over all ranges and strings; gives counts and the first range that breaks each rule (-1: none).

        (functions, inlined, deepest, with file, with lines, out of order, empty, name outside, lines outside, not tidy)
        """
        at: cython.Py_ssize_t
        field: cython.int
        index: cython.ulonglong
        count: cython.ulonglong
        depth: cython.ulonglong
        functions: cython.Py_ssize_t = 0
        files: cython.Py_ssize_t = 0
        lines: cython.Py_ssize_t = 0
        deepest: cython.ulonglong = 0
        unordered: cython.Py_ssize_t = -1
        empty: cython.Py_ssize_t = -1
        outside: cython.Py_ssize_t = -1
        rows: cython.Py_ssize_t = -1
        untidy: cython.Py_ssize_t = -1
        until: cython.ulonglong = 0
        with cython.nogil:
            for at in range(self.count):
                depth = self._field(at, 1)
                if depth == 0:
                    functions += 1
                    if untidy < 0 and (self._field(at, 0) == 0 or self._va_of(at) < until):
                        untidy = at
                    until = self._end_of(at)
                elif untidy < 0 and (functions == 0 or self._end_of(at) > until):
                    untidy = at
                if depth > deepest:
                    deepest = depth
                if self._field(at, 3):
                    files += 1
                index = self._field(at, 4)
                count = self._field(at, 5)
                if count:
                    lines += 1
                    if rows < 0 and (index > self._lines or count > self._lines - index):
                        rows = at
                if empty < 0 and self._field(at, 0) == 0:
                    empty = at
                if at and unordered < 0:
                    if self._va_of(at) < self._va_of(at - 1):
                        unordered = at
                    elif self._va_of(at) == self._va_of(at - 1) and depth < self._field(at - 1, 1):
                        unordered = at
                if outside < 0:
                    for field in range(2, 7):
                        if (field < 4 or field == 6) and self._size_of(self._field(at, field)) < 0:
                            outside = at
        return functions, self.count - functions, deepest, files, lines, unordered, empty, outside, rows, untidy


def count_strings(data: cython.const[cython.uchar][::1]):
    """(strings, where the table stops parsing) of a length-prefixed table; it parses whole when that is its size."""
    at: cython.ulonglong = 0
    size: cython.ulonglong = data.shape[0]
    length: cython.ulonglong
    found: cython.Py_ssize_t = 0
    with cython.nogil:
        while size - at >= 4:
            length = _load(cython.address(data[at]), 4)
            if length > size - at - 4:
                break
            at += 4 + length
            found += 1
    return found, at
