"""Find the lines of a text that contain any of a few needles, in one pass.

A needle is a byte string in which `%` starts a class: `%d` decimal digits, `%x` hex digits, `%_` blanks, `%w` anything
except blanks (at least one byte each, as many as possible), `%~` blanks or nothing, `%$` the end of the line or of a
JSON string, after optional blanks, a carriage return or an escape sequence. A needle that starts with `%^` must be at
the start of the line, after colors, or after the prefix of a log collector (PREFIXES); with `%w`, directly after a
word; with `%/`, after a word with a slash. All other needles start with ordinary bytes.

    b"#%d 0x%x  ("      found in   b"    #3 0x562330902f0e  (/lib/x.so+0x1234)"

Each needle is searched by the rarest of its ordinary bytes, so that an ordinary byte of text costs one table lookup. At
most WORD_MAX bytes are read around such a byte.
"""

import cython
from cython.cimports.libc.string import memcmp
from cython.cimports.whence.kernels.bytes import hex_digit, is_digit
from cython.cimports.whence.kernels.columns import Column

RARITY = b"#{@+<>[]|*=qzjxkvwybgfupmhcd(/)lsnrioate_.-:9876543210 "  # in logs, rarest first; other bytes are rarer

# Ends of what log collectors write before a line: `host app[1]: ` of syslog and journald, `2026-..Z stderr F ` of
# Kubernetes, `app-1  | ` of Compose, `{"log":"` of Docker; within the first PREFIX_MAX bytes of a line.
PREFIXES = (b"]: ", b" stderr F ", b" stdout F ", b" | ", b'":"')

CLASSES = {b"d": DIGITS, b"x": HEX, b"_": BLANKS, b"w": WORD, b"$": LINE_END, b"~": MAYBE_BLANKS}

EVERY_BYTE = bytes(range(256))
DIGIT_BYTES = b"0123456789"
FOLLOWERS = {b"%d": DIGIT_BYTES, b"%x": DIGIT_BYTES + b"abcdefABCDEF", b"%_": b" \t"}  # other classes: any byte

POSITIONS = {b"%^": AT_LINE, b"%/": AFTER_PATH, b"%w": AFTER_WORD}


def anchor_of(literal: bytes) -> int:
    """Return the index of the rarest byte of a literal."""
    return min(range(len(literal)), key=lambda index: RARITY.find(literal[index]))


def parts_of(needle: bytes) -> list[tuple[bytes, int]]:
    """Return a needle's literals (with LITERAL) and classes (without text). Raises ValueError for an unknown class."""
    parts: list[tuple[bytes, int]] = []
    while needle:
        pos = needle.find(b"%")
        literal = needle[:pos] if pos >= 0 else needle
        if literal:
            parts.append((literal, LITERAL))
        needle = needle[len(literal) :]
        if needle:
            if needle[1:2] not in CLASSES:
                raise ValueError(f"unknown class of bytes {needle[:2]!r}")
            parts.append((b"", CLASSES[needle[1:2]]))
            needle = needle[2:]
    return parts


def followers(needle: bytes, literal: bytes) -> bytes:
    """Return the bytes that may follow the anchor of a needle's literal."""
    after = anchor_of(literal) + 1
    return first_bytes(literal[after:] + needle[needle.index(literal) + len(literal) :])


def first_bytes(needle: bytes) -> bytes:
    """Return the bytes that a needle, or the rest of a needle, may start with."""
    if needle[:2] == b"%~":
        return FOLLOWERS[b"%_"] + first_bytes(needle[2:])
    return FOLLOWERS.get(needle[:2], EVERY_BYTE) if needle[:1] in (b"%", b"") else needle[:1]


def compiled(text: bytes, instruction: int) -> bytes:
    """Return a part of a needle as the kernel reads it."""
    return bytes((instruction, len(text))) + text if instruction == LITERAL else bytes((instruction,))


@cython.final
@cython.cclass
class Needles:
    """Up to 128 needles. Raises ValueError for an invalid needle, or without ordinary bytes where they are required.

    Needles with the same literal are consecutive and sorted, so that their common parts are compared once. `bits` are
    the numbers of the needles' bits, below 64, which needles may share unless they start a line; by default, each
    needle has a bit of its own.
    """

    def __cinit__(self, needles: tuple, bits: tuple = ()):
        if len(needles) > MOST:
            raise ValueError(f"{len(needles)} needles are more than {MOST}")
        numbers: tuple = bits or tuple(range(len(needles)))
        if len(numbers) != len(needles) or max(numbers, default=0) >= MOST_BITS:
            raise ValueError(f"{len(needles)} needles need as many bits, each below {MOST_BITS}")
        chains: dict = {}
        texts: list = []
        self.programs = []
        index: cython.int
        for index in range(len(needles)):
            needle: bytes = needles[index]
            self.position[index] = POSITIONS.get(needle[:2], ANYWHERE)
            self.bit[index] = numbers[index]
            if self.position[index] == AT_LINE and numbers.count(numbers[index]) > 1:
                raise ValueError(f"needle {needle!r} starts a line and shares its bit")
            literal, parts = self.take(index, needle if self.position[index] == ANYWHERE else needle[2:])
            texts.append(literal)
            byte: cython.int = literal[anchor_of(literal)]
            chains.setdefault(byte, []).append((self.position[index] == AT_LINE, literal, parts, index))
            for follower in followers(needle, literal):
                self.pairs[byte << 8 | follower] = 1
        self.texts = tuple(texts)
        self.first[NEWLINE] = LINE_BREAK
        for anchored in chains:
            self.chain(anchored, sorted(chains[anchored]))
        for byte in range(256):
            self.kinds[byte] = classes_of(byte)

    def take(self, index, needle):
        """Store a needle; return the literal to search for and the parts after it, compiled."""
        parts = parts_of(needle)
        literals = [text for text, instruction in parts if instruction == LITERAL]
        at_line: cython.bint = self.position[index] == AT_LINE
        if (
            not literals
            or b"\n" in needle
            or len(needle) > 255
            or not (at_line or parts[0][0])
            or len(parts) > MOST_PARTS
        ):
            raise ValueError(
                f"invalid needle {needle!r}: expected up to 255 bytes in {MOST_PARTS} parts, some ordinary, no newline"
            )
        literal: bytes = literals[0]
        if at_line:
            literal = min(literals, key=lambda text: RARITY.find(text[anchor_of(text)]))
        else:
            parts = parts[1:]
        steps = [compiled(text, instruction) for text, instruction in parts]
        program: bytes = b"".join(steps) + compiled(b"", END)
        self.programs.append(program)
        self.program[index] = program
        self.text[index] = literal
        self.size[index] = len(literal)
        self.anchor[index] = anchor_of(literal)
        pos: cython.int = 0
        number: cython.int
        for number in range(len(steps)):
            self.step[16 * index + number] = pos
            pos += len(steps[number])
        self.step[16 * index + len(steps)] = pos
        return literal, steps

    def chain(self, byte, needles):
        """Link the needles of an anchor byte."""
        before: tuple = (False, b"", [], 0)
        index: cython.int
        previous: cython.int = -1
        root: cython.int = -1
        for entry in needles:
            at_line, literal, parts, index = entry
            self.root[index] = at_line or literal != before[1] or previous < 0
            common = 0
            for mine, other in zip(parts, before[2], strict=False):
                if mine != other:
                    break
                common += 1
            self.shared[index] = 0 if self.root[index] else common
            if previous < 0:
                self.first[byte] = index + 1
            else:
                self.following[previous] = index
            if self.root[index]:
                if root >= 0:
                    self.other[root] = index
                root = index
            self.following[index] = self.other[index] = -1
            previous = index
            before = entry
        return None

    def lines(self, text: bytes, active: cython.ulonglong = 0xFFFFFFFFFFFFFFFF) -> Column:
        """Return the lines with a needle, in order, as three numbers each.

        They are the start of the line, its end (without newline), and a bit for each needle in it. Only needles whose
        bits are in `active` are searched for. Raises MemoryError.
        """
        out: Column = Column("Q")
        data: cython.p_const_uchar = text
        size: cython.Py_ssize_t = len(text)
        with cython.nogil:
            done: cython.bint = self.scan(data, size, active, out)
        if not done:
            raise MemoryError
        return out

    def scan(self, data, size, active, out):
        offset: cython.Py_ssize_t = -1
        begin: cython.Py_ssize_t = 0
        bits: cython.ulonglong = 0
        tried: cython.ulonglong = 0  # needles of the line's start that were not found
        state: LineState
        state.line = state.seen = 0
        state.path = False
        state.prefixes = -1
        while True:
            offset += 1
            while offset < size and self.first[data[offset]] == NO_NEEDLE:
                offset += 1
            if offset >= size:
                break
            needle: cython.int = self.first[data[offset]]
            if needle == LINE_BREAK:
                if bits and not (out.push_u64(state.line) and out.push_u64(offset) and out.push_u64(bits)):
                    return False
                bits = tried = 0
                state.line = state.seen = offset + 1
                state.path = False
                state.prefixes = -1
                continue
            if offset + 1 < size and not self.pairs[data[offset] << 8 | data[offset + 1]]:
                continue
            needle -= 1
            while needle >= 0:
                if self.root[needle]:
                    begin = offset - self.anchor[needle]
                    if not self.has_literal(data, size, begin, needle, state.line):
                        needle = self.other[needle]
                        continue
                    state.parts = 0
                    state.failed = False
                    state.ends[0] = begin + self.size[needle]
                bit: cython.ulonglong = cython.cast(cython.ulonglong, 1) << self.bit[needle]
                if not active & ~(bits | tried) & bit or not self.is_positioned(
                    data, begin, needle, cython.address(state)
                ):
                    self.keep_shared(needle, cython.address(state))
                elif self.position[needle] == AT_LINE:
                    if self.starts_line(data, size, self.program[needle], cython.address(state)):
                        bits |= bit
                    else:
                        tried |= bit
                elif self.parts_follow(data, size, needle, cython.address(state)):
                    bits |= bit
                needle = self.following[needle]
        return not bits or (out.push_u64(state.line) and out.push_u64(size) and out.push_u64(bits))

    def has_literal(self, data, size, begin, needle, line):
        """Return True if the literal of a needle is at `begin`, in the current line."""
        text: cython.p_const_uchar = self.text[needle]
        length: cython.Py_ssize_t = self.size[needle]
        if begin < line or begin + length > size or data[begin] != text[0]:
            return False
        return length == 1 or memcmp(data + begin + 1, text + 1, length - 1) == 0

    def is_positioned(self, data, begin, needle, state):
        """Return True if the text before a needle is what its position requires."""
        position: cython.int = self.position[needle]
        if position == AFTER_PATH:
            return path_ends(data, begin, state)
        if position == AFTER_WORD:
            return begin > state.line and data[begin - 1] != BLANK and data[begin - 1] != TAB
        return True

    def keep_shared(self, needle, state):
        """Keep the parts of the previous needle that this needle has, too."""
        if state.parts >= self.shared[needle]:
            state.parts = self.shared[needle]
            state.failed = False

    def parts_follow(self, data, size, needle, state):
        """Return True if the parts of a needle follow its literal; parts shared with the previous needle are known."""
        program: cython.p_const_uchar = self.program[needle]
        self.keep_shared(needle, state)
        if state.failed:
            return False
        while program[self.step[16 * needle + state.parts]] != END:
            pos: cython.Py_ssize_t = self.part_end(
                data, size, state.ends[state.parts], program + self.step[16 * needle + state.parts]
            )
            if pos < 0:
                state.failed = True
                return False
            state.parts += 1
            state.ends[state.parts] = pos
        return True

    def starts_line(self, data, size, program, state):
        """Return True if a needle is at the start of a line, or after one of its prefixes."""
        pos: cython.int
        if self.matches(data, size, skip_escapes(data, size, state.line), program):
            return True
        if state.prefixes < 0:
            find_prefixes(data, size, state)
        for pos in range(state.prefixes):
            if self.matches(data, size, skip_escapes(data, size, state.after_prefix[pos]), program):
                return True
        return False

    def matches(self, data, size, pos, program):
        """Return True if all parts of a needle are at `pos`."""
        while program[0] != END:
            pos = self.part_end(data, size, pos, program)
            if pos < 0:
                return False
            program += 2 + program[1] if program[0] == LITERAL else 1
        return True

    def part_end(self, data, size, start, part):
        """Return the end of a part of a needle at `start`, -1 if it does not match."""
        pos: cython.Py_ssize_t = start
        if part[0] == LITERAL:
            end: cython.Py_ssize_t = start + part[1]
            return end if end <= size and memcmp(data + start, part + 2, part[1]) == 0 else -1
        if part[0] == LINE_END:
            while pos < size and data[pos] == BLANK:
                pos += 1
            return start if pos == size or data[pos] in (NEWLINE, RETURN, ESCAPE, QUOTE, BACKSLASH) else -1
        kind: cython.uchar = kind_of(part[0])
        end = min(size, start + WORD_MAX)
        while pos < end and self.kinds[data[pos]] & kind:
            pos += 1
        return pos if pos > start or part[0] == MAYBE_BLANKS else -1


def kind_of(instruction):
    """Return the bit of a class of bytes."""
    return 1 << (BLANKS if instruction == MAYBE_BLANKS else instruction)


def classes_of(byte):
    """Return a bit for each class that a byte is in."""
    blank: cython.bint = byte == BLANK or byte == TAB
    kinds: cython.uchar = 0
    if is_digit(byte):
        kinds |= kind_of(DIGITS)
    if hex_digit(byte) >= 0:
        kinds |= kind_of(HEX)
    if blank:
        kinds |= kind_of(BLANKS)
    if not blank and byte != NEWLINE and byte != RETURN:
        kinds |= kind_of(WORD)
    return kinds


def path_ends(data, pos, state):
    """Return True if the word that ends at `pos` has a slash.

    Text that was read for the last call is not read again.
    """
    seen: cython.Py_ssize_t = state.seen
    path: cython.bint = state.path
    while seen < pos:
        if data[seen] == SLASH:
            path = True
        elif data[seen] == BLANK or data[seen] == TAB:
            path = False
        seen += 1
    state.seen = seen
    state.path = path
    return path


def find_prefixes(data, size, state):
    """Find the offsets after the prefixes of a line."""
    pos: cython.Py_ssize_t = state.line
    end: cython.Py_ssize_t = min(size, state.line + PREFIX_MAX)
    state.prefixes = 0
    if pos < end and (data[pos] == BLANK or data[pos] == TAB or data[pos] == ESCAPE):
        return  # no prefix starts with these
    while pos < end and state.prefixes < MOST_PREFIXES:
        if data[pos] <= QUOTE:  # the last byte of each prefix, and few others
            if data[pos] == NEWLINE:
                break
            if ends_prefix(data, state.line, pos):
                state.after_prefix[state.prefixes] = pos + 1
                state.prefixes += 1
        pos += 1


def ends_prefix(data, line, pos):
    """Return True if the byte at `pos` is the last of one of PREFIXES."""
    before: cython.Py_ssize_t = pos - line
    if data[pos] == QUOTE:
        return before >= 2 and data[pos - 1] == COLON and data[pos - 2] == QUOTE
    if data[pos] != BLANK or before < 2:
        return False
    if data[pos - 1] == COLON:
        return data[pos - 2] == CLOSING_BRACKET
    if data[pos - 1] == BAR:
        return data[pos - 2] == BLANK
    return before >= 9 and (
        memcmp(data + pos - 9, cython.cast(cython.p_const_uchar, b" stderr F "), 10) == 0
        or memcmp(data + pos - 9, cython.cast(cython.p_const_uchar, b" stdout F "), 10) == 0
    )


def skip_escapes(data, size, pos):
    """Return the end of the colors (ESC [ numbers m) that a line starts with."""
    while pos + 1 < size and data[pos] == ESCAPE and data[pos + 1] == BRACKET:
        end: cython.Py_ssize_t = pos + 2
        while end < size and (is_digit(data[end]) or data[end] == SEMICOLON):
            end += 1
        if end == size or data[end] != LETTER_M:
            break
        pos = end + 1
    return pos
