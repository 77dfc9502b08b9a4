"""The string table being written: every name once, in order of first visit.

A name comes as a reference. A reference seen before costs one probe and its bytes are not looked at; a new one is
hashed by its bytes, so that equal names from different sources are one string. Hashes are keyed with a random seed: a
file cannot choose names that collide.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free, malloc, realloc
from cython.cimports.libc.string import memchr, memcmp, memcpy

OFFSET_MASK = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFF)
MIX = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
NONE = cython.declare(cython.uint, 0xFFFFFFFF)  # no string
TOO_LONG = cython.declare(cython.ulonglong, 0xFFFFFFFF)  # a text of this length or more does not fit its length field


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def mixed(value: cython.ulonglong) -> cython.ulonglong:
    value ^= value >> 32
    value *= MIX
    value ^= value >> 29
    return value


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def hashed(
    text: cython.pointer(cython.const[cython.uchar]), size: cython.ulonglong, seed: cython.ulonglong
) -> cython.ulonglong:
    value: cython.ulonglong = seed ^ size
    word: cython.ulonglong = 0
    while size >= 8:
        memcpy(cython.address(word), text, 8)
        value = mixed(value ^ word) * (seed | 1)
        text += 8
        size -= 8
    word = 0
    if size:
        memcpy(cython.address(word), text, size)
    return mixed(value ^ word) * (seed | 1)


@cython.final
@cython.cclass
class Interner:
    """References in, numbers of strings out; number 0 is the empty string."""

    count = cython.declare(cython.Py_ssize_t, visibility="readonly")  # strings
    size = cython.declare(cython.Py_ssize_t, visibility="readonly")  # bytes of the table
    dropped = cython.declare(cython.Py_ssize_t, visibility="readonly")  # names left out: there was no budget for them
    _left: cython.longlong  # bytes of names that may yet be read
    _views: list
    _nul: cython.bint
    _failed: cython.bint
    _seed: cython.ulonglong
    _source: cython.pointer(cython.pointer(cython.const[cython.uchar]))
    _source_size: cython.p_ulonglong
    _sources: cython.ulonglong
    _bytes: cython.p_uchar
    _bytes_room: cython.Py_ssize_t
    _offset: cython.p_ulonglong
    _offset_room: cython.Py_ssize_t
    _ref: cython.p_ulonglong
    _ref_number: cython.p_uint
    _ref_mask: cython.ulonglong
    _refs: cython.ulonglong
    _slot: cython.p_uint
    _slot_hash: cython.p_uint
    _slot_mask: cython.ulonglong

    def __cinit__(self, sources: list, nul: cython.bint, seed: cython.ulonglong, most: cython.longlong):
        """Names of `sources`, whose texts together have at most `most` bytes; those beyond are left out."""
        view: cython.const[cython.uchar][::1]
        number: cython.Py_ssize_t
        self._nul = nul
        self._seed = seed
        self._left = most
        self._views = []
        self._sources = len(sources)
        self._source = cython.cast(
            cython.pointer(cython.pointer(cython.const[cython.uchar])),
            calloc(self._sources + 1, cython.sizeof(cython.p_uchar)),
        )
        self._source_size = cython.cast(cython.p_ulonglong, calloc(self._sources + 1, 8))
        self._bytes_room = 4096
        self._bytes = cython.cast(cython.p_uchar, malloc(self._bytes_room))
        self._offset_room = 512
        self._offset = cython.cast(cython.p_ulonglong, malloc(self._offset_room * 8))
        self._ref_mask = self._slot_mask = 1023
        self._ref = cython.cast(cython.p_ulonglong, calloc(1024, 8))
        self._ref_number = cython.cast(cython.p_uint, calloc(1024, 4))
        self._slot = cython.cast(cython.p_uint, calloc(1024, 4))
        self._slot_hash = cython.cast(cython.p_uint, calloc(1024, 4))
        if (
            self._source == cython.NULL or self._source_size == cython.NULL or self._bytes == cython.NULL
            or self._offset == cython.NULL or self._ref == cython.NULL or self._ref_number == cython.NULL
            or self._slot == cython.NULL or self._slot_hash == cython.NULL
        ):  # fmt: skip
            raise MemoryError
        for number in range(len(sources)):
            if len(sources[number]):
                view = sources[number]
                self._views.append(sources[number])
                self._source[number] = cython.address(view[0])
                self._source_size[number] = view.shape[0]
        self._text(cython.cast(cython.p_uchar, b""), 0)
        if not nul:
            self._text(cython.cast(cython.p_uchar, b"[overflow]"), 10)

    def __dealloc__(self):
        free(self._source)
        free(self._source_size)
        free(self._bytes)
        free(self._offset)
        free(self._ref)
        free(self._ref_number)
        free(self._slot)
        free(self._slot_hash)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _append(self, text: cython.pointer(cython.const[cython.uchar]), size: cython.ulonglong) -> cython.void:
        """One more string at the end of the table."""
        need: cython.Py_ssize_t = self.size + cython.cast(cython.Py_ssize_t, size) + 4
        bytes_now: cython.p_uchar
        offset_now: cython.p_ulonglong
        at: cython.Py_ssize_t
        if need > self._bytes_room:
            at = need + need // 2
            bytes_now = cython.cast(cython.p_uchar, realloc(self._bytes, at))
            if bytes_now == cython.NULL:
                self._failed = True
                return
            self._bytes = bytes_now
            self._bytes_room = at
        if self.count >= self._offset_room:
            offset_now = cython.cast(cython.p_ulonglong, realloc(self._offset, self._offset_room * 16))
            if offset_now == cython.NULL:
                self._failed = True
                return
            self._offset = offset_now
            self._offset_room *= 2
        self._offset[self.count] = self.size
        self.count += 1
        if not self._nul:
            for at in range(4):
                self._bytes[self.size + at] = cython.cast(cython.uchar, size >> (8 * at))
            self.size += 4
        if size:
            memcpy(self._bytes + self.size, text, size)
        self.size += size
        if self._nul:
            self._bytes[self.size] = 0
            self.size += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _start(self, number: cython.Py_ssize_t) -> cython.ulonglong:
        """Where the text of a string begins in the table, behind its length."""
        return self._offset[number] if self._nul else self._offset[number] + 4

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _end(self, number: cython.Py_ssize_t) -> cython.ulonglong:
        """Where it ends, in front of its NUL."""
        end: cython.ulonglong = self._offset[number + 1] if number + 1 < self.count else self.size
        return end - 1 if self._nul else end

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _same(
        self, number: cython.uint, text: cython.pointer(cython.const[cython.uchar]), size: cython.ulonglong
    ) -> cython.bint:
        start: cython.ulonglong = self._start(number)
        return self._end(number) - start == size and (size == 0 or memcmp(self._bytes + start, text, size) == 0)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _place(
        self, text: cython.pointer(cython.const[cython.uchar]), size: cython.ulonglong, full: cython.ulonglong
    ) -> cython.ulonglong:
        """The slot of a text with this hash: its own, or the empty one where it belongs."""
        at: cython.ulonglong = full & self._slot_mask
        while self._slot[at] and not (
            self._slot_hash[at] == cython.cast(cython.uint, full >> 32) and self._same(self._slot[at] - 1, text, size)
        ):
            at = (at + 1) & self._slot_mask
        return at

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _size(self, ref: cython.ulonglong) -> cython.longlong:
        """How long the text is that a reference means, up to its NUL; -1 when it points nowhere. No more is looked at
        than the budget has left, and a byte."""
        source: cython.ulonglong = ref >> 48
        offset: cython.ulonglong = ref & OFFSET_MASK
        if source >= self._sources or offset >= self._source_size[source]:
            return -1
        text = self._source[source] + offset
        offset = self._source_size[source] - offset
        if offset > cython.cast(cython.ulonglong, self._left + 1):
            offset = self._left + 1
        end = cython.cast(cython.pointer(cython.const[cython.uchar]), memchr(text, 0, offset))
        return end - text if end != cython.NULL else offset

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _text(self, text: cython.pointer(cython.const[cython.uchar]), size: cython.ulonglong) -> cython.uint:
        """The number of a text."""
        full: cython.ulonglong
        at: cython.ulonglong
        old: cython.ulonglong
        slot: cython.p_uint
        slot_hash: cython.p_uint
        room: cython.ulonglong
        if size >= TOO_LONG and not self._nul:
            return 1
        full = hashed(text, size, self._seed)
        at = self._place(text, size, full)
        if self._slot[at]:
            return self._slot[at] - 1
        self._append(text, size)
        if self._failed:
            return 0
        self._slot[at] = cython.cast(cython.uint, self.count)
        self._slot_hash[at] = cython.cast(cython.uint, full >> 32)
        if 2 * cython.cast(cython.ulonglong, self.count) > self._slot_mask:
            room = 4 * (self._slot_mask + 1)
            slot = cython.cast(cython.p_uint, calloc(room, 4))
            slot_hash = cython.cast(cython.p_uint, calloc(room, 4))
            if slot == cython.NULL or slot_hash == cython.NULL:
                free(slot)
                free(slot_hash)
                self._failed = True
                return 0
            for old in range(self._slot_mask + 1):
                if self._slot[old]:
                    at = self._rehash(self._slot[old] - 1) & (room - 1)
                    while slot[at]:
                        at = (at + 1) & (room - 1)
                    slot[at] = self._slot[old]
                    slot_hash[at] = self._slot_hash[old]
            free(self._slot)
            free(self._slot_hash)
            self._slot = slot
            self._slot_hash = slot_hash
            self._slot_mask = room - 1
        return cython.cast(cython.uint, self.count - 1)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _rehash(self, number: cython.uint) -> cython.ulonglong:
        start: cython.ulonglong = self._start(number)
        return hashed(self._bytes + start, self._end(number) - start, self._seed)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _number(self, ref: cython.ulonglong) -> cython.uint:
        """The number of the string a reference means."""
        at: cython.ulonglong
        old: cython.ulonglong
        size: cython.longlong
        number: cython.uint = 0
        refs: cython.p_ulonglong
        numbers: cython.p_uint
        room: cython.ulonglong
        if ref == 0:
            return 0
        at = mixed(ref * (self._seed | 1)) & self._ref_mask
        while self._ref[at]:
            if self._ref[at] == ref:
                return self._ref_number[at]
            at = (at + 1) & self._ref_mask
        size = self._size(ref)
        if size > self._left:
            self._left = 0
            self.dropped += 1
        elif size >= 0:
            self._left -= size
            number = self._text(self._source[ref >> 48] + (ref & OFFSET_MASK), size)
        self._ref[at] = ref
        self._ref_number[at] = number
        self._refs += 1
        if 2 * self._refs > self._ref_mask:
            room = 4 * (self._ref_mask + 1)
            refs = cython.cast(cython.p_ulonglong, calloc(room, 8))
            numbers = cython.cast(cython.p_uint, calloc(room, 4))
            if refs == cython.NULL or numbers == cython.NULL:
                free(refs)
                free(numbers)
                self._failed = True
                return 0
            for old in range(self._ref_mask + 1):
                if self._ref[old]:
                    at = mixed(self._ref[old] * (self._seed | 1)) & (room - 1)
                    while refs[at]:
                        at = (at + 1) & (room - 1)
                    refs[at] = self._ref[old]
                    numbers[at] = self._ref_number[old]
            free(self._ref)
            free(self._ref_number)
            self._ref = refs
            self._ref_number = numbers
            self._ref_mask = room - 1
        return number

    def number(
        self,
        function: cython.const[cython.ulonglong][::1],
        file: cython.const[cython.ulonglong][::1],
        call_file: cython.const[cython.ulonglong][::1],
        files: cython.bint,
        out_function: cython.uint[::1],
        out_file: cython.uint[::1],
        out_call_file: cython.uint[::1],
    ):
        """Number the names of the ranges, visiting a range's function, file, call file. Without `files`: functions."""
        at: cython.Py_ssize_t
        with cython.nogil:
            for at in range(function.shape[0]):
                out_function[at] = self._number(function[at])
                if files:
                    if at and file[at] == file[at - 1]:
                        out_file[at] = out_file[at - 1]
                    else:
                        out_file[at] = self._number(file[at])
                    out_call_file[at] = self._number(call_file[at])
                if self._failed:
                    break
        if self._failed:
            raise MemoryError

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _known_number(self, ref: cython.ulonglong) -> cython.uint:
        """The number of the string a reference means; NONE when it is not in the table."""
        at: cython.ulonglong = mixed(ref * (self._seed | 1)) & self._ref_mask
        size: cython.longlong
        if ref == 0:
            return 0
        while self._ref[at]:
            if self._ref[at] == ref:
                return self._ref_number[at]
            at = (at + 1) & self._ref_mask
        size = self._size(ref)
        if size < 0:
            return NONE
        text = self._source[ref >> 48] + (ref & OFFSET_MASK)
        at = self._place(text, size, hashed(text, size, self._seed))
        return self._slot[at] - 1 if self._slot[at] else NONE

    def find(self, refs: cython.const[cython.ulonglong][::1], out: cython.uint[::1]):
        """The numbers of strings that are in the table already; NONE for one that is not."""
        at: cython.Py_ssize_t
        with cython.nogil:
            for at in range(refs.shape[0]):
                out[at] = out[at - 1] if at and refs[at] == refs[at - 1] else self._known_number(refs[at])

    def absolute_paths(self) -> list:
        """(number, text) of every string that begins with a slash."""
        number: cython.Py_ssize_t
        start: cython.ulonglong
        end: cython.ulonglong
        out: list = []
        for number in range(self.count):
            start = self._start(number)
            end = self._end(number)
            if start < end and self._bytes[start] == 47:
                out.append((number, cython.cast(cython.p_char, self._bytes)[start:end]))
        return out

    def offsets(self, out: cython.ulonglong[::1]):
        """Where each string starts in the table."""
        if self.count:
            memcpy(cython.address(out[0]), self._offset, self.count * 8)

    def part(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t):
        """Bytes of the table."""
        if start < 0 or stop > self.size or start >= stop:
            return b""
        return cython.cast(cython.p_char, self._bytes)[start:stop]
