"""Answers to text: the loops of `whence addr`.

Texts go from the archive's strings to the output without becoming Python objects on the way, but for names that are
demangled: those come as bytes of a second buffer.
"""

import cython
from cython.cimports.libc.stdlib import free, malloc, realloc
from cython.cimports.libc.string import memcpy

OTHER = cython.declare(cython.ulonglong, 0x8000000000000000)  # marks a start in the second buffer
KEPT = cython.declare(cython.Py_ssize_t, 1 << 24)  # bytes of room that stay from one text to the next
LLVM = cython.declare(cython.int, 0)
GNU = cython.declare(cython.int, 1)
JSON = cython.declare(cython.int, 2)
# Eight bytes at once: below a space, DEL and above leave a top bit set when these are taken away or added.
EIGHT_SPACES = cython.declare(cython.ulonglong, 0x2020202020202020)
EIGHT_ONES = cython.declare(cython.ulonglong, 0x0101010101010101)
EIGHT_TOP_BITS = cython.declare(cython.ulonglong, 0x8080808080808080)


@cython.final
@cython.cclass
class Text:
    """The text being written."""

    size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _room: cython.Py_ssize_t
    _bytes: cython.p_uchar
    _failed: cython.bint

    def __cinit__(self):
        self._room = 1 << 16
        self._bytes = cython.cast(cython.p_uchar, malloc(self._room))
        if self._bytes == cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._bytes)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _need(self, more: cython.Py_ssize_t) -> cython.bint:
        room: cython.Py_ssize_t
        now: cython.p_uchar
        if self.size + more <= self._room:
            return True
        room = (self.size + more) * 2
        now = cython.cast(cython.p_uchar, realloc(self._bytes, room))
        if now == cython.NULL:
            self._failed = True
            return False
        self._bytes = now
        self._room = room
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _put(self, text: cython.pointer(cython.const[cython.char]), size: cython.Py_ssize_t) -> cython.void:
        if size and self._need(size):
            memcpy(self._bytes + self.size, text, size)
            self.size += size

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _decimal(self, value: cython.ulonglong) -> cython.void:
        digits: cython.char[24]
        at: cython.int = 24
        while True:
            at -= 1
            digits[at] = cython.cast(cython.char, 48 + value % 10)
            value //= 10
            if value == 0:
                break
        self._put(cython.address(digits[at]), 24 - at)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _hex(self, value: cython.ulonglong, width: cython.int) -> cython.void:
        """0x and at least `width` digits."""
        digits: cython.char[16]
        at: cython.int = 16
        digit: cython.int
        while value or 16 - at < width:
            at -= 1
            digit = cython.cast(cython.int, value & 15)
            digits[at] = cython.cast(cython.char, digit + 48 if digit < 10 else digit + 87)
            value >>= 4
        self._put(b"0x", 2)
        self._put(cython.address(digits[at]), 16 - at)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _quoted(self, text: cython.pointer(cython.const[cython.uchar]), size: cython.Py_ssize_t) -> cython.void:
        """A JSON string. Bytes that are not UTF-8 become the lone surrogates that Python's surrogateescape uses."""
        at: cython.Py_ssize_t = 0
        more: cython.int
        step: cython.int = 0
        letter: cython.uchar
        escape: cython.char[6]
        digit: cython.int
        code: cython.int
        if not self._need(6 * size + 2):
            return
        self._put(b'"', 1)
        while at < size:
            letter = text[at]
            more = 0
            code = _active(text + at, size - at, cython.address(step))
            if code == 127 or (code > 127 and step > 1):  # JSON leaves them as they are, a terminal does not
                self._escape(117, code, 4)
                at += step
                continue
            if letter == 34 or letter == 92:
                self._put(b"\\", 1)
            elif letter >= 128:
                more = _sequence(text + at, size - at)
            if letter < 32 or (letter >= 128 and more == 0):
                escape[0] = 92
                escape[1] = 117
                escape[2] = 48 if letter < 32 else 100
                escape[3] = 48 if letter < 32 else 99
                for step in range(2):
                    digit = letter >> 4 if step == 0 else letter & 15
                    escape[4 + step] = cython.cast(cython.char, digit + 48 if digit < 10 else digit + 87)
                self._put(escape, 6)
                at += 1
                continue
            for step in range(more + 1 if more == 0 else more):
                self._bytes[self.size] = text[at]
                self.size += 1
                at += 1
        self._put(b'"', 1)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _escape(self, letter: cython.char, code: cython.int, digits: cython.int) -> cython.void:
        """A backslash, a letter and the code in hex."""
        out: cython.char[6]
        at: cython.int = digits + 2
        digit: cython.int
        out[0] = 92
        out[1] = letter
        while at > 2:
            at -= 1
            digit = code & 15
            out[at] = cython.cast(cython.char, digit + 48 if digit < 10 else digit + 87)
            code >>= 4
        self._put(out, digits + 2)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _plain(self, text: cython.pointer(cython.const[cython.uchar]), size: cython.Py_ssize_t) -> cython.void:
        """A text in a line: what a terminal acts on is escaped (whence.errors.plain escapes the same, and more)."""
        at: cython.Py_ssize_t = 0
        begin: cython.Py_ssize_t = 0
        code: cython.int
        step: cython.int
        word: cython.ulonglong = 0
        while at < size:
            if size - at >= 8:
                memcpy(cython.address(word), text + at, 8)
                if ((word - EIGHT_SPACES) | (word + EIGHT_ONES) | word) & EIGHT_TOP_BITS == 0:
                    at += 8  # printable ASCII, as nearly every name is
                    continue
            code = _active(text + at, size - at, cython.address(step))
            if code >= 0:
                self._put(cython.cast(cython.p_char, text + begin), at - begin)
                self._escape(120 if code < 256 else 117, code, 2 if code < 256 else 4)
                begin = at + step
            at += step
        self._put(cython.cast(cython.p_char, text + begin), size - begin)

    def write(
        self,
        style: cython.int,
        asked: cython.const[cython.ulonglong][::1],
        bad: cython.const[cython.uchar][::1],
        given: cython.const[cython.uchar][::1],
        given_start: cython.const[cython.uint][::1],
        given_size: cython.const[cython.uint][::1],
        starts: cython.const[cython.uint][::1],
        function: cython.const[cython.uint][::1],
        file: cython.const[cython.uint][::1],
        line: cython.const[cython.uint][::1],
        start_line: cython.const[cython.uint][::1],
        inlined: cython.const[cython.uchar][::1],
        source: cython.const[cython.uchar][::1],
        text_start: cython.const[cython.ulonglong][::1],
        text_size: cython.const[cython.uint][::1],
        strings: cython.const[cython.uchar][::1],
        others: cython.const[cython.uchar][::1],
        words: cython.const[cython.uchar][::1],
        word_start: cython.const[cython.uint][::1],
        reasons: cython.const[cython.uchar][::1],
        width: cython.int,
    ):
        """Write the answers. `function` and `file` are rows of the texts.

        A text whose start has its highest bit set lies in `others`, else in `strings`. `reasons` has two JSON values,
        parted by a newline: for what nothing covers, and for what is not an address. `start_line` is for JSON alone.
        """
        row: cython.Py_ssize_t
        frame: cython.Py_ssize_t
        base: cython.pointer(cython.const[cython.uchar]) = cython.NULL
        other: cython.pointer(cython.const[cython.uchar]) = cython.NULL
        input: cython.pointer(cython.const[cython.uchar]) = cython.NULL
        word: cython.int
        cut: cython.Py_ssize_t = 0
        if strings.shape[0]:
            base = cython.address(strings[0])
        if others.shape[0]:
            other = cython.address(others[0])
        if given.shape[0]:
            input = cython.address(given[0])
        while cut < reasons.shape[0] and reasons[cut] != 10:
            cut += 1
        with cython.nogil:
            for row in range(asked.shape[0]):
                if self._failed:
                    break
                if style == LLVM:
                    if bad[row]:
                        self._plain(input + given_start[row], given_size[row])
                        self._put(b"\n", 1)
                        continue
                    if starts[row] == starts[row + 1]:
                        self._put(b"??\n??:0:0\n", 10)
                elif style == GNU:
                    self._hex(0 if bad[row] else asked[row], width)
                    self._put(b"\n", 1)
                    if starts[row] == starts[row + 1]:
                        self._put(b"??\n??:0\n", 8)
                else:
                    self._put(b'{"address": ', 12)
                    if bad[row]:
                        self._quoted(input + given_start[row], given_size[row])
                    else:
                        self._put(b'"', 1)
                        self._hex(asked[row], 1)
                        self._put(b'"', 1)
                    self._put(b', "frames": [', 13)
                for frame in range(starts[row], starts[row + 1]):
                    if style == JSON:
                        self._put(
                            b', {"function": ' if frame > starts[row] else b'{"function": ',
                            15 if frame > starts[row] else 13,
                        )
                        self._quoted(_text(base, other, text_start[function[frame]]), text_size[function[frame]])
                        self._put(b', "file": ', 10)
                        self._quoted(_text(base, other, text_start[file[frame]]), text_size[file[frame]])
                        self._put(b', "line": ', 10)
                        self._decimal(line[frame])
                        self._put(b', "start_line": ', 16)
                        self._decimal(start_line[frame])
                        self._put(
                            b', "inlined": true, "source": "' if inlined[frame] else b', "inlined": false, "source": "',
                            30 if inlined[frame] else 31,
                        )
                        word = source[frame]
                        if word + 1 < word_start.shape[0]:
                            self._put(
                                cython.cast(cython.p_char, cython.address(words[word_start[word]])),
                                word_start[word + 1] - word_start[word],
                            )
                        self._put(b'"}', 2)
                        continue
                    self._name(base, other, text_start[function[frame]], text_size[function[frame]])
                    self._put(b"\n", 1)
                    self._name(base, other, text_start[file[frame]], text_size[file[frame]])
                    self._put(b":", 1)
                    if style == GNU and line[frame] == 0:
                        self._put(b"?", 1)
                    else:
                        self._decimal(line[frame])
                    if style == LLVM:
                        self._put(b":0", 2)
                    self._put(b"\n", 1)
                if style == LLVM:
                    self._put(b"\n", 1)
                elif style == JSON:
                    self._put(b'], "reason": ', 13)
                    if bad[row]:
                        self._put(
                            cython.cast(cython.p_char, cython.address(reasons[0])) + cut + 1, reasons.shape[0] - cut - 1
                        )
                    elif starts[row] == starts[row + 1]:
                        self._put(cython.cast(cython.p_char, cython.address(reasons[0])), cut)
                    else:
                        self._put(b"null", 4)
                    self._put(b"}\n", 2)
        if self._failed:
            raise MemoryError

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _name(
        self,
        base: cython.pointer(cython.const[cython.uchar]),
        other: cython.pointer(cython.const[cython.uchar]),
        start: cython.ulonglong,
        size: cython.uint,
    ) -> cython.void:
        """A text, or ?? for an empty one."""
        if size:
            self._plain(_text(base, other, start), size)
        else:
            self._put(b"??", 2)

    def take(self):
        """What was written since it was last taken. The room stays, but for an unusual lot of it."""
        found = cython.cast(cython.p_char, self._bytes)[: self.size]
        self.size = 0
        if self._room > KEPT:
            now = realloc(self._bytes, KEPT)
            if now != cython.NULL:
                self._bytes = cython.cast(cython.p_uchar, now)
                self._room = KEPT
        return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _text(
    base: cython.pointer(cython.const[cython.uchar]),
    other: cython.pointer(cython.const[cython.uchar]),
    start: cython.ulonglong,
) -> cython.pointer(cython.const[cython.uchar]):
    return other + (start - OTHER) if start >= OTHER else base + start


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _active(
    text: cython.pointer(cython.const[cython.uchar]), left: cython.Py_ssize_t, step: cython.p_int
) -> cython.int:
    """The code of what begins here, if a terminal acts on it, else -1; `step` is its size in bytes.

    C0 and C1 controls (C1 also as a byte that is no UTF-8), line and paragraph separators, and what turns the direction
    of writing: U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069.
    """
    code: cython.int
    step[0] = 1
    if text[0] < 0x80:
        return text[0] if text[0] < 0x20 or text[0] == 0x7F else -1
    step[0] = _sequence(text, left)
    if step[0] == 0:
        step[0] = 1
        return text[0] if text[0] < 0xA0 else -1
    if step[0] == 2:
        code = ((text[0] & 0x1F) << 6) | (text[1] & 0x3F)
        return code if code < 0xA0 or code == 0x61C else -1
    if step[0] == 3 and text[0] == 0xE2:
        code = 0x2000 | ((text[1] & 0x3F) << 6) | (text[2] & 0x3F)
        if code == 0x200E or code == 0x200F or 0x2028 <= code <= 0x202E or 0x2066 <= code <= 0x2069:
            return code
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sequence(text: cython.pointer(cython.const[cython.uchar]), left: cython.Py_ssize_t) -> cython.int:
    """The size of the UTF-8 sequence of two to four bytes that begins here; 0 when none does."""
    size: cython.int = 0
    at: cython.int
    if 0xC2 <= text[0] <= 0xDF:
        size = 2
    elif 0xE0 <= text[0] <= 0xEF:
        size = 3
    elif 0xF0 <= text[0] <= 0xF4:
        size = 4
    if size == 0 or left < size:
        return 0
    for at in range(1, size):
        if text[at] & 0xC0 != 0x80:
            return 0
    if (text[0] == 0xE0 and text[1] < 0xA0) or (text[0] == 0xED and text[1] > 0x9F):
        return 0
    if (text[0] == 0xF0 and text[1] < 0x90) or (text[0] == 0xF4 and text[1] > 0x8F):
        return 0
    return size
