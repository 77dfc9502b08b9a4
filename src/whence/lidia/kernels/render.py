"""Render answers as text: the loops of `whence addr` for each style, and replies to llvm-symbolizer's callers.

Texts are copied from the archive's strings to the output without becoming Python objects, except demangled names, which
are in a second buffer (see Texts in queries.py).
"""

import cython
from cython.cimports.libc.stdlib import realloc
from cython.cimports.libc.string import memcmp, memcpy, memset, strlen
from cython.cimports.whence.kernels.bytes import hex_digit as value_of_hex_digit
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.utf8 import ONE_BYTE_END, utf8_character
from cython.cimports.whence.kernels.vector import grow, release
from cython.cimports.whence.lidia.kernels.queries import (
    CALL_FILE,
    CALL_LINE,
    ENTRY_OUTSIDE,
    FILE,
    FUNCTION,
    LENGTH_PREFIX,
    MOST_FRAMES,
    WHENCE_READABLE,
    Archive,
    FrameColumns,
    ObjectCache,
    Queries,
    Texts,
    View,
    call_column,
    entry_of,
    field,
    last_not_above,
    line_column,
    line_of,
    size_of,
    source_of,
    start_of,
    vaddr_of,
)

KEPT_BYTES = cython.declare(cython.Py_ssize_t, 1 << 24)  # of the output buffer, kept for the next text
DEL = cython.declare(cython.int, 0x7F)  # the last character of ASCII
# Non-ASCII characters that a terminal acts on
C1_END = cython.declare(cython.uint, 0xA0)
ARABIC_LETTER_MARK = cython.declare(cython.uint, 0x61C)
LEFT_TO_RIGHT_MARK = cython.declare(cython.uint, 0x200E)
RIGHT_TO_LEFT_MARK = cython.declare(cython.uint, 0x200F)
LINE_SEPARATOR = cython.declare(cython.uint, 0x2028)
RIGHT_TO_LEFT_OVERRIDE = cython.declare(cython.uint, 0x202E)
LEFT_TO_RIGHT_ISOLATE = cython.declare(cython.uint, 0x2066)
POP_ISOLATE = cython.declare(cython.uint, 0x2069)
HEX_DIGITS = cython.declare(cython.int, 16)  # of a 64-bit number
NO_ADDRESS = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)  # not a question about an address
CACHED_NAMES = cython.declare(cython.int, 131072)
NOT_IN_QUOTES, NOT_BARE = b'"\0\r\n', b" ':"  # bytes that a module's name can't have in quotes, and without quotes
CACHED_NAME_BYTES = cython.declare(cython.Py_ssize_t, 1 << 26)
# For eight bytes at a time: subtracting spaces and adding ones leaves a top bit set for bytes below a space and above
# ~.
EIGHT_SPACES = cython.declare(cython.ulonglong, 0x2020202020202020)
EIGHT_ONES = cython.declare(cython.ulonglong, 0x0101010101010101)
EIGHT_TOP_BITS = cython.declare(cython.ulonglong, 0x8080808080808080)


def answers_of(queries, frames, texts):
    """Return the columns. The three objects must outlive the result."""
    data: cython.p_char = queries.text
    if frames.starts.vector.count != queries.vaddr.vector.count + 1:
        raise ValueError("the frames do not belong to these queries")
    if texts.function.vector.count != frames.function.vector.count:
        raise ValueError("the texts do not belong to these frames")
    return Answers(
        queries.vaddr.vector.count,
        cython.cast(cython.p_uchar, data),
        cython.cast(cython.p_ulonglong, queries.vaddr.vector.items),
        cython.cast(cython.p_uchar, queries.bad.vector.items),
        cython.cast(cython.p_uint, queries.start.vector.items),
        cython.cast(cython.p_uint, queries.size.vector.items),
        cython.cast(cython.p_uint, frames.starts.vector.items),
        cython.cast(cython.p_ulonglong, frames.function.vector.items),
        cython.cast(cython.p_ulonglong, frames.file.vector.items),
        cython.cast(cython.p_uint, frames.line.vector.items),
        cython.cast(cython.p_uint, frames.column.vector.items),
        cython.cast(cython.p_uchar, frames.inlined.vector.items),
        cython.cast(cython.p_uchar, frames.source.vector.items),
        cython.cast(cython.p_uint, texts.function.vector.items),
        cython.cast(cython.p_uint, texts.file.vector.items),
        cython.cast(cython.p_ulonglong, texts.start.vector.items),
        cython.cast(cython.p_uint, texts.size.vector.items),
        texts.archive.view,
        texts.readable.items,
    )


@cython.final
@cython.cclass
class FrameWriter:
    """Writes answers as text into a buffer."""

    def __cinit__(self, sources: tuple = (), no_frames: bytes = b"", no_address: bytes = b""):
        """Start empty. JSON needs the names of sources by number, and the two reasons as JSON values."""
        self._sources, self._no_frames, self._no_address = sources, no_frames, no_address

    def __dealloc__(self):
        release(cython.address(self._out))

    def _need(self, more):
        """Reserve `more` bytes; return False and note the failure without memory."""
        if self._out.count + more <= self._out.capacity:
            return True
        if grow(
            cython.cast(cython.pp_void, cython.address(self._out.items)),
            cython.address(self._out.capacity),
            self._out.count + more,
            1,
        ):
            return True
        self._failed = True
        return False

    def _put(self, text, size):
        if size and self._need(size):
            memcpy(self._out.items + self._out.count, text, size)
            self._out.count += size

    def _literal(self, text):
        """Append a literal, whose length the compiler knows."""
        self._put(text, strlen(text))

    def _decimal(self, value):
        digits: cython.char[24]
        index: cython.int = 24
        while True:
            index -= 1
            digits[index] = cython.cast(cython.char, ord("0") + value % 10)
            value //= 10
            if value == 0:
                break
        self._put(cython.address(digits[index]), 24 - index)

    def _hex(self, value, width):
        """Append 0x and at least `width` digits."""
        digits: cython.char[16]
        index: cython.int = HEX_DIGITS
        while value or HEX_DIGITS - index < width:
            index -= 1
            digit: cython.int = cython.cast(cython.int, value & 15)
            digits[index] = hex_digit(digit)
            value >>= 4
        self._literal(b"0x")
        self._put(cython.address(digits[index]), HEX_DIGITS - index)

    def _quoted(self, text, size):
        """Append a JSON string. Bytes that are not UTF-8 become lone surrogates, as by Python's surrogateescape."""
        offset: cython.Py_ssize_t = 0
        step: cython.int = 0
        escape: cython.char[6]
        character: cython.uint = 0
        if not self._need(6 * size + 2):
            return
        self._literal(b'"')
        while offset < size:
            letter: cython.uchar = text[offset]
            more: cython.int = 0
            code: cython.int = _active(text + offset, size - offset, cython.address(step))
            if code == DEL or (code > DEL and step > 1):  # valid in JSON, but a terminal acts on them
                self._escape(ord("u"), code, 4)
                offset += step
                continue
            if letter == ord('"') or letter == ord("\\"):
                self._literal(b"\\")
            elif letter > DEL:
                more = utf8_character(text + offset, size - offset, cython.address(character))
            if letter < ord(" ") or (letter > DEL and more == 0):
                memcpy(escape, b"\\u00" if letter < ord(" ") else b"\\udc", 4)
                for step in range(2):
                    digit: cython.int = letter >> 4 if step == 0 else letter & 15
                    escape[4 + step] = hex_digit(digit)
                self._put(escape, 6)
                offset += 1
                continue
            for step in range(more + 1 if more == 0 else more):
                self._out.items[self._out.count] = text[offset]
                self._out.count += 1
                offset += 1
        self._literal(b'"')

    def _escape(self, letter, code, digits):
        """Append a backslash, a letter and the code in hex."""
        out: cython.char[6]
        offset: cython.int = digits + 2
        out[0] = ord("\\")
        out[1] = letter
        while offset > 2:
            offset -= 1
            digit: cython.int = code & 15
            out[offset] = hex_digit(digit)
            code >>= 4
        self._put(out, digits + 2)

    def _plain(self, text, size):
        """Append a text with escapes for what a terminal acts on; _base.errors.plain escapes these and more."""
        offset: cython.Py_ssize_t = 0
        begin: cython.Py_ssize_t = 0
        step: cython.int
        word: cython.ulonglong = 0
        while offset < size:
            if size - offset >= 8:
                memcpy(cython.address(word), text + offset, 8)
                if ((word - EIGHT_SPACES) | (word + EIGHT_ONES) | word) & EIGHT_TOP_BITS == 0:
                    offset += 8  # printable ASCII, as in nearly every name
                    continue
            code: cython.int = _active(text + offset, size - offset, cython.address(step))
            if code >= 0:
                self._put(cython.cast(cython.p_char, text + begin), offset - begin)
                self._escape(ord("x") if code < 256 else ord("u"), code, 2 if code < 256 else 4)
                begin = offset + step
            offset += step
        self._put(cython.cast(cython.p_char, text + begin), size - begin)

    def _name(self, answers, text):
        """Append a text, or ?? for an empty text."""
        if answers.size[text]:
            self._plain(text_at(answers, text), answers.size[text])
        else:
            self._literal(b"??")

    def _function_and_file(self, answers, frame):
        """Append the function and, on the next line, the file and a colon."""
        self._name(answers, answers.function[frame])
        self._literal(b"\n")
        self._name(answers, answers.file[frame])
        self._literal(b":")

    def write_llvm(self, queries: Queries, frames: FrameColumns, texts: Texts):
        """Write in the llvm style; invalid lines are repeated. Raises MemoryError."""
        answers: Answers = answers_of(queries, frames, texts)
        row: cython.Py_ssize_t
        frame: cython.Py_ssize_t
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for row in range(answers.queries):
                handle_signals(cython.address(work), 32)
                if self._failed:
                    break
                if answers.bad[row]:
                    self._plain(answers.text + answers.text_start[row], answers.text_size[row])
                    self._literal(b"\n")
                    continue
                if answers.starts[row] == answers.starts[row + 1]:
                    self._literal(b"??\n??:0:0\n")
                for frame in range(answers.starts[row], answers.starts[row + 1]):
                    self._function_and_file(cython.address(answers), frame)
                    self._decimal(answers.line[frame])
                    if answers.column == cython.NULL:
                        self._literal(b":0\n")
                    else:
                        self._literal(b":")
                        self._decimal(answers.column[frame])
                        self._literal(b"\n")
                self._literal(b"\n")
        self._check()

    def write_gnu(self, queries: Queries, frames: FrameColumns, texts: Texts, width: cython.int):
        """Write in the gnu style, addresses with `width` digits, 0 for invalid lines. Raises MemoryError."""
        answers: Answers = answers_of(queries, frames, texts)
        row: cython.Py_ssize_t
        frame: cython.Py_ssize_t
        belong(0 <= width <= HEX_DIGITS)
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for row in range(answers.queries):
                handle_signals(cython.address(work), 32)
                if self._failed:
                    break
                self._hex(0 if answers.bad[row] else answers.vaddr[row], width)
                self._literal(b"\n")
                if answers.starts[row] == answers.starts[row + 1]:
                    self._literal(b"??\n??:0\n")
                for frame in range(answers.starts[row], answers.starts[row + 1]):
                    self._function_and_file(cython.address(answers), frame)
                    if answers.line[frame]:
                        self._decimal(answers.line[frame])
                    else:
                        self._literal(b"?")
                    self._literal(b"\n")
        self._check()

    def write_json(self, queries: Queries, frames: FrameColumns, texts: Texts):
        """Write a line with a JSON object for each query. Raises MemoryError."""
        answers: Answers = answers_of(queries, frames, texts)
        row: cython.Py_ssize_t
        frame: cython.Py_ssize_t
        no_frames: cython.p_char = self._no_frames
        no_address: cython.p_char = self._no_address
        sources: cython.Py_ssize_t = len(self._sources)
        source: cython.p_char[256]
        number: cython.int
        for number in range(256):
            source[number] = cython.cast(bytes, self._sources[number]) if number < sources else b""
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for row in range(answers.queries):
                handle_signals(cython.address(work), 32)
                if self._failed:
                    break
                self._literal(b'{"address": ')
                if answers.bad[row]:
                    self._quoted(answers.text + answers.text_start[row], answers.text_size[row])
                else:
                    self._literal(b'"')
                    self._hex(answers.vaddr[row], 1)
                    self._literal(b'"')
                self._literal(b', "frames": [')
                for frame in range(answers.starts[row], answers.starts[row + 1]):
                    if frame > answers.starts[row]:
                        self._literal(b", ")
                    self._frame(cython.address(answers), frame, source[answers.source[frame]])
                self._literal(b'], "reason": ')
                if answers.bad[row]:
                    self._literal(no_address)
                elif answers.starts[row] == answers.starts[row + 1]:
                    self._literal(no_frames)
                else:
                    self._literal(b"null")
                self._literal(b"}\n")
        self._check()

    def _frame(self, answers, frame, source):
        """Append a frame as a JSON object."""
        function: cython.uint = answers.function[frame]
        file: cython.uint = answers.file[frame]
        self._literal(b'{"function": ')
        self._quoted(text_at(answers, function), answers.size[function])
        self._literal(b', "file": ')
        self._quoted(text_at(answers, file), answers.size[file])
        self._literal(b', "line": ')
        self._decimal(answers.line[frame])
        self._literal(b', "column": ')
        self._decimal(answers.column[frame] if answers.column != cython.NULL else 0)
        self._literal(b', "start_line": ')
        self._decimal(start_of(answers.view, answers.function_at[frame], answers.file_at[frame], answers.line[frame]))
        if answers.inlined[frame]:
            self._literal(b', "inlined": true, "source": "')
        else:
            self._literal(b', "inlined": false, "source": "')
        self._literal(source)
        self._literal(b'"}')

    def _check(self):
        if self._failed:
            raise MemoryError

    def take(self):
        """Return the text written since the last call. The buffer is kept for reuse, up to KEPT_BYTES."""
        text = cython.cast(cython.p_char, self._out.items)[: self._out.count]
        self._out.count = 0
        if self._out.capacity > KEPT_BYTES:
            fewer = realloc(self._out.items, KEPT_BYTES)
            if fewer != cython.NULL:
                self._out.items = cython.cast(cython.p_uchar, fewer)
                self._out.capacity = KEPT_BYTES
        return text


@cython.final
@cython.cclass
class Replies:
    """Answers the usual questions about one file, in llvm-symbolizer's form and with its names.

    A usual question is `0x1234`, after `FILE ` or `"FILE" ` if questions name their file, optionally after `CODE `.
    Other questions, and questions that the archive alone can't answer, are left to the caller.
    """

    def __cinit__(
        self, archive: Archive, module: bytes, symbol_starts: cython.const[cython.ulonglong][::1], symbol_at: object,
        readable: object, form: tuple,
    ):  # fmt: skip
        """Prepare to answer questions.

        Args:
            archive: the archive.
            module: the file's name in questions, without quotes and line ends (ValueError); b"" if they have none.
            symbol_starts: the vaddrs of symbols, ascending. A symbol names the outermost function of debug info.
            symbol_at: a function from the index of a symbol to its end (0: no symbol), name and file (b"": unknown).
            readable: a function from the stored name of a function to its shown name.
            form: the text after a function's name, the text between two frames, and the number of the source "dwarf".
        """
        gap, between, dwarf = form
        belong(not any(byte in NOT_IN_QUOTES for byte in module))
        self._archive, self._module, self._writer = archive, module, FrameWriter()
        self._bare = not any(byte in NOT_BARE for byte in module)
        self._symbol_starts, self._symbol_at, self._readable = symbol_starts, symbol_at, readable
        self._gap, self._between, self._dwarf = gap, between, dwarf
        self._symbol_ends = Column("Q", True)
        if symbol_starts.shape[0] and not self._symbol_ends.reserve(symbol_starts.shape[0]):
            raise MemoryError
        self._symbol_ends.vector.count = symbol_starts.shape[0]
        memset(self._symbol_ends.vector.items, 0, 8 * symbol_starts.shape[0])
        self._forget()

    def _forget(self):
        self._names, self._symbols, self._cached = ObjectCache(CACHED_NAMES), ObjectCache(CACHED_NAMES), 0

    def _cache(self, cache, key, value, size):
        if self._cached + size > CACHED_NAME_BYTES:
            self._forget()
        elif size <= CACHED_NAME_BYTES:
            self._cached += size
            cache.put(key, 0, value)
        return 0

    def _address(self, text, left):
        """Return the address of a usual question; NO_ADDRESS for other questions."""
        vaddr: cython.ulonglong = 0
        index: cython.Py_ssize_t
        size: cython.Py_ssize_t = len(self._module)
        name: cython.p_char = self._module
        if left >= 5 and memcmp(text, cython.cast(cython.p_char, b"CODE "), 5) == 0:
            text, left = text + 5, left - 5
        if size:
            if left > size + 2 and text[0] == ord('"') and text[size + 1] == ord('"'):
                text, left = text + 1, left - 1
                if memcmp(text, name, size) != 0:
                    return NO_ADDRESS
                text, left = text + 1, left - 1
            elif left <= size or not self._bare or memcmp(text, name, size) != 0:
                return NO_ADDRESS
            if text[size] != ord(" "):
                return NO_ADDRESS
            text, left = text + (size + 1), left - (size + 1)
        if not 2 < left <= 2 + HEX_DIGITS or text[0] != ord("0") or text[1] != ord("x"):
            return NO_ADDRESS
        for index in range(2, left):
            digit: cython.int = value_of_hex_digit(text[index])
            if digit < 0:
                return NO_ADDRESS
            vaddr = vaddr << 4 | digit
        return vaddr

    def _symbol(self, vaddr):
        """Return the name and file of the symbol at an address; None without a symbol."""
        ends: cython.p_ulonglong = cython.cast(cython.p_ulonglong, self._symbol_ends.vector.items)
        count: cython.Py_ssize_t = self._symbol_starts.shape[0]
        symbol_index: cython.Py_ssize_t = -1
        if count:
            symbol_index = last_not_above(cython.address(self._symbol_starts[0]), count, vaddr)
        if symbol_index < 0:
            return None
        symbol = None
        if ends[symbol_index]:
            if vaddr >= ends[symbol_index]:
                return None
            symbol = self._symbols.get(symbol_index, 0)
        if symbol is None:
            end, name, file = self._symbol_at(symbol_index)
            symbol = (name, file)
            ends[symbol_index] = end
            self._cache(self._symbols, symbol_index, symbol, len(name) + len(file))
            if vaddr >= ends[symbol_index]:
                return None
        return symbol

    def _function(self, offset):
        """Return the shown name of a function; None for an offset outside the strings."""
        view: cython.pointer(View) = self._archive.view
        shown = self._names.get(offset, 0)
        if shown is not None:
            return shown
        size: cython.longlong = size_of(view, offset)
        if size < 0:
            return None
        start: cython.ulonglong = offset if view.nul else offset + LENGTH_PREFIX
        stored = cython.cast(cython.p_char, view.string)[start : start + size] if size else b""
        name: bytes = self._readable(stored)
        self._cache(self._names, offset, name, len(name))
        return name

    def _file(self, offset, instead):
        """Write the file whose name is at an offset, or `instead` if unknown; return False for an offset outside."""
        view: cython.pointer(View) = self._archive.view
        size: cython.longlong = size_of(view, offset) if offset else 0
        if size < 0:
            return False
        if size:
            start: cython.ulonglong = offset if view.nul else offset + LENGTH_PREFIX
            self._writer._put(cython.cast(cython.p_char, view.string) + start, size)
        elif instead:
            self._writer._put(instead, len(instead))
        else:
            self._writer._literal(b"??")
        return True

    def reply(self, question: bytes):
        """Return the reply to a question as bytes, or None to leave the question to the caller."""
        chain: cython.uint[MOST_FRAMES]
        view: cython.pointer(View) = self._archive.view
        writer: FrameWriter = self._writer
        level: cython.int
        entry: cython.longlong = 0
        vaddr: cython.ulonglong = self._address(cython.cast(cython.p_uchar, question), len(question))
        if vaddr == NO_ADDRESS:
            return None
        count: cython.int = self._archive.find_chain(vaddr, chain)
        symbol = self._symbol(vaddr)
        writer._out.count = 0
        if count == 0:
            if symbol is None:
                return None
            name, file = symbol
            self._put_name(name)
            self._file(0, file)
            writer._literal(b":0:0\n\n")
            return self._finish()
        entry = entry_of(view, chain[0], vaddr - vaddr_of(view, chain[0]))
        if entry == ENTRY_OUTSIDE:
            return None
        for level in range(count):
            name, file = self._function(field(view, chain[level], FUNCTION)), b""
            if level == count - 1 and symbol is not None and source_of(view, chain[level]) == self._dwarf:
                name, file = symbol
            if name is None:
                return None
            if level:
                writer._put(self._between, len(self._between))
            self._put_name(name)
            inner: cython.uint = chain[level - 1 if level else 0]
            if not self._file(field(view, inner, CALL_FILE if level else FILE), file):
                return None
            writer._literal(b":")
            writer._decimal(cython.cast(cython.uint, field(view, inner, CALL_LINE)) if level else line_of(view, entry))
            writer._literal(b":")
            writer._decimal(call_column(view, inner) if level else line_column(view, entry))
            writer._literal(b"\n")
        writer._literal(b"\n")
        return self._finish()

    def _put_name(self, name):
        """Write a function's name and the text after it."""
        self._writer._put(name, len(name))
        self._writer._put(self._gap, len(self._gap))

    def _finish(self):
        self._writer._check()
        return self._writer.take()


def hex_digit(value):
    return cython.cast(cython.char, value + ord("0") if value < 10 else value + (ord("a") - 10))


def text_at(answers, text):
    if answers.start[text] & WHENCE_READABLE:
        return answers.readable + (answers.start[text] ^ WHENCE_READABLE)
    return answers.view.string + answers.start[text]


def _active(text, left, step):
    """Return the code of the first character if a terminal acts on it, else -1; set `step` to its size in bytes.

    These are C0 and C1 controls (C1 even as a byte that is not UTF-8), line and paragraph separators, and characters
    that change the direction of writing: U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069.
    """
    character: cython.uint = 0
    step[0] = 1
    if text[0] < ONE_BYTE_END:
        return text[0] if text[0] < ord(" ") or text[0] == DEL else -1
    step[0] = utf8_character(text, left, cython.address(character))
    if step[0] == 0:
        step[0] = 1
        return text[0] if text[0] < C1_END else -1
    if (
        character < C1_END
        or character == ARABIC_LETTER_MARK
        or character == LEFT_TO_RIGHT_MARK
        or character == RIGHT_TO_LEFT_MARK
        or LINE_SEPARATOR <= character <= RIGHT_TO_LEFT_OVERRIDE
        or LEFT_TO_RIGHT_ISOLATE <= character <= POP_ISOLATE
    ):
        return cython.cast(cython.int, character)
    return -1
