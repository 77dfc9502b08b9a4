"""The text form: lines as Go's internal/trace/raw writes and reads them, quoted strings included.

Writing (`from_wire`) copies the words of each event's line from the version's layout and puts the numbers between them.
Reading (`to_wire`) first takes a line for one that was written like that; whatever else Go accepts (other spaces, other
quotes, comments) goes the general way. Whole events only: one that the bytes cut, or that the output has no room for,
is left for the next call.
"""

import cython
from cython.cimports.libc.string import memchr, memcmp, memcpy, memmove
from cython.cimports.whence.gotrace.kernels import constants as c
from cython.cimports.whence.gotrace.kernels.layout import Layout, name_slot
from cython.cimports.whence.gotrace.kernels.uvarint import (
    WHENCE_32_BITS,
    put_padded,
    read_decimal,
    read_uvarint,
    whence_uvarint_size,
)
from cython.cimports.whence.kernels.bytes import MORE, put_uleb
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.utf8 import (
    LAST_CHARACTER,
    ONE_BYTE_END,
    REPLACEMENT,
    SURROGATES,
    SURROGATES_END,
    THREE_BYTES_END,
    TWO_BYTES_END,
    utf8_character,
)

ROOM = cython.declare(cython.int, 512)  # bytes that the longest line without data needs

# Quoted strings (strconv.Quote, strconv.Unquote)


# White space beyond ASCII (unicode.IsSpace)
NEXT_LINE = cython.declare(cython.uint, 0x85)
NO_BREAK_SPACE = cython.declare(cython.uint, 0xA0)
OGHAM_SPACE = cython.declare(cython.uint, 0x1680)
EN_QUAD = cython.declare(cython.uint, 0x2000)  # the first of eleven spaces
HAIR_SPACE = cython.declare(cython.uint, 0x200A)  # the last
LINE_SEPARATOR = cython.declare(cython.uint, 0x2028)
PARAGRAPH_SEPARATOR = cython.declare(cython.uint, 0x2029)
NARROW_NO_BREAK_SPACE = cython.declare(cython.uint, 0x202F)
MATHEMATICAL_SPACE = cython.declare(cython.uint, 0x205F)
IDEOGRAPHIC_SPACE = cython.declare(cython.uint, 0x3000)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def printable(character: cython.uint, changes: cython.p_const_uint, count: cython.Py_ssize_t) -> cython.bint:
    """Whether Go prints a code point as it is: an odd number of changes lie at or before it."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = count
    middle: cython.Py_ssize_t
    while low < high:
        middle = (low + high) >> 1
        if changes[middle] <= character:
            low = middle + 1
        else:
            high = middle
    return low & 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_hex(out: cython.p_uchar, letter: cython.uchar, value: cython.uint, digits: cython.int) -> cython.p_uchar:
    """A backslash, the letter, and the value in hex."""
    hexadecimal: cython.p_const_char = b"0123456789abcdef"
    i: cython.int
    out[0] = 92
    out[1] = letter
    for i in range(digits):
        out[2 + i] = hexadecimal[(value >> (4 * (digits - 1 - i))) & 15]
    return out + 2 + digits


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_quoted(
    at: cython.p_const_uchar,
    end: cython.p_const_uchar,
    out: cython.p_uchar,
    room_end: cython.p_uchar,
    changes: cython.p_const_uint,
    count: cython.Py_ssize_t,
) -> cython.p_uchar:
    """Quote bytes as strconv.Quote does; returns where the next byte goes, or NULL for want of room."""
    short: cython.p_const_char = b"abtnvfr"  # for 7 to 13
    byte: cython.uchar
    character: cython.uint = 0
    size: cython.int
    if room_end - out < 16:
        return cython.NULL
    out[0] = 34
    out += 1
    while at < end:
        if room_end - out < 16:
            return cython.NULL
        byte = at[0]
        if byte >= ONE_BYTE_END:
            size = utf8_character(at, end - at, cython.address(character))
            if size == 0:
                out = put_hex(out, 120, byte, 2)
                at += 1
            else:
                if printable(character, changes, count):
                    memcpy(out, at, size)
                    out += size
                elif character < THREE_BYTES_END:
                    out = put_hex(out, 117, character, 4)
                else:
                    out = put_hex(out, 85, character, 8)
                at += size
            continue
        at += 1
        if byte == ord('"') or byte == ord("\\"):
            out[0] = 92
            out[1] = byte
            out += 2
        elif 32 <= byte < 127:
            out[0] = byte
            out += 1
        elif 7 <= byte <= 13:
            out[0] = 92
            out[1] = short[byte - 7]
            out += 2
        else:
            out = put_hex(out, 120, byte, 2)
    out[0] = 34
    return out + 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_character(to: cython.p_uchar, character: cython.uint) -> cython.p_uchar:
    """A code point in UTF-8."""
    if character < ONE_BYTE_END:
        to[0] = character
        return to + 1
    if character < TWO_BYTES_END:
        to[0] = 0xC0 | character >> 6
        to[1] = 0x80 | (character & 0x3F)
        return to + 2
    if character < THREE_BYTES_END:
        to[0] = 0xE0 | character >> 12
        to[1] = 0x80 | (character >> 6 & 0x3F)
        to[2] = 0x80 | (character & 0x3F)
        return to + 3
    to[0] = 0xF0 | character >> 18
    to[1] = 0x80 | (character >> 12 & 0x3F)
    to[2] = 0x80 | (character >> 6 & 0x3F)
    to[3] = 0x80 | (character & 0x3F)
    return to + 4


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def digit_of(byte: cython.uint, base: cython.uint) -> cython.int:
    """The value of a digit in base 8 or 16, or -1."""
    value: cython.uint = byte - 48
    if value > 9:
        value = (byte | 32) - 97 + 10
        if value < 10 or (byte | 32) < 97:
            return -1
    return value if value < base else -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def escaped(
    at: cython.p_const_uchar, end: cython.p_const_uchar, quote: cython.uchar, to: cython.pointer(cython.p_uchar)
) -> cython.p_const_uchar:
    """Read what follows a backslash at `at` - 1 and write what it stands for; NULL when Go has no such escape."""
    letter: cython.uchar
    digits: cython.int = 0
    base: cython.uint = 16
    value: cython.uint = 0
    digit: cython.int
    i: cython.int
    if at >= end:
        return cython.NULL
    letter = at[0]
    at += 1
    if letter == ord("a"):
        value = 7
    elif letter == ord("b"):
        value = 8
    elif letter == ord("f"):
        value = 12
    elif letter == ord("n"):
        value = 10
    elif letter == ord("r"):
        value = 13
    elif letter == ord("t"):
        value = 9
    elif letter == ord("v"):
        value = 11
    elif letter == ord("\\") or ((letter == ord('"') or letter == ord("'")) and letter == quote):
        value = letter
    elif letter == ord("x"):
        digits = 2
    elif letter == ord("u"):
        digits = 4
    elif letter == ord("U"):
        digits = 8
    elif 48 <= letter <= 55:
        digits = 3
        base = 8
        at -= 1
    else:
        return cython.NULL
    if end - at < digits:
        return cython.NULL
    for i in range(digits):
        digit = digit_of(at[i], base)
        if digit < 0 or value > LAST_CHARACTER:
            return cython.NULL
        value = value * base + digit
    at += digits
    if digits > 3:
        if value > LAST_CHARACTER or SURROGATES <= value < SURROGATES_END:
            return cython.NULL
        to[0] = put_character(to[0], value)
        return at
    if value > 255:
        return cython.NULL
    to[0][0] = value
    to[0] += 1
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_unquoted(
    at: cython.p_const_uchar,
    end: cython.p_const_uchar,
    to: cython.p_uchar,
    room_end: cython.p_uchar,
    fault: cython.p_int,
) -> cython.p_uchar:
    """What a Go literal (all of at..end) stands for, as strconv.Unquote has it; returns where the next byte goes."""
    quote: cython.uchar
    size: cython.int
    character: cython.uint = 0
    characters: cython.Py_ssize_t = 0
    if end - at < 2 or (end - 1)[0] != at[0]:
        fault[0] = c.BAD_QUOTE
        return to
    quote = at[0]
    at += 1
    end -= 1
    if quote == ord("`"):
        if memchr(at, 96, end - at) != cython.NULL:
            fault[0] = c.BAD_QUOTE
        elif room_end - to < end - at:
            fault[0] = c.FULL
        else:
            while at < end:
                if at[0] != ord("\r"):
                    to[0] = at[0]
                    to += 1
                at += 1
        return to
    if quote != ord('"') and quote != ord("'"):
        fault[0] = c.BAD_QUOTE
        return to
    while at < end:
        if room_end - to < 8:
            fault[0] = c.FULL
            return to
        if quote == ord("'") and characters == 1:
            fault[0] = c.BAD_QUOTE
            return to
        characters += 1
        if at[0] == ord("\\"):
            at = escaped(at + 1, end, quote, cython.address(to))
            if at == cython.NULL:
                fault[0] = c.BAD_QUOTE
                return to
        elif at[0] == quote or at[0] == ord("\n"):
            fault[0] = c.BAD_QUOTE
            return to
        else:
            size = 1 if at[0] < ONE_BYTE_END else utf8_character(at, end - at, cython.address(character))
            if size == 0:
                to = put_character(to, REPLACEMENT)
                at += 1
            else:
                memcpy(to, at, size)
                to += size
                at += size
    return to


def quote(
    data: cython.const[cython.uchar][::1], changes: cython.const[cython.uint][::1], out: cython.uchar[::1]
) -> int:
    """Quote all of `data` into `out`; returns the bytes written, -1 for want of room."""
    begin: cython.p_uchar = cython.address(out[0])
    at: cython.p_const_uchar = cython.NULL
    size: cython.Py_ssize_t = data.shape[0]
    done: cython.p_uchar
    if size:
        at = cython.address(data[0])
    with cython.nogil:
        done = put_quoted(at, at + size, begin, begin + out.shape[0], cython.address(changes[0]), changes.shape[0])
    return -1 if done == cython.NULL else done - begin


def unquote(data: cython.const[cython.uchar][::1], out: cython.uchar[::1]) -> int:
    """What all of `data` stands for as a Go literal, into `out`; returns the bytes written, -1 when it is not one."""
    fault: cython.int = c.FINE
    begin: cython.p_uchar = cython.address(out[0])
    if data.shape[0] == 0:
        return -1
    at: cython.p_const_uchar = cython.address(data[0])
    done: cython.p_uchar
    with cython.nogil:
        done = put_unquoted(at, at + data.shape[0], begin, begin + out.shape[0], cython.address(fault))
    return done - begin if fault == c.FINE else -1


# A line, read the general way


Token = cython.struct(start=cython.p_const_uchar, stop=cython.p_const_uchar)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def space_size(at: cython.p_const_uchar, end: cython.p_const_uchar) -> cython.int:
    """Bytes of the white space (unicode.IsSpace) at `at`; 0 when something else is there."""
    character: cython.uint = at[0]
    size: cython.int = 1
    if character < ONE_BYTE_END:
        return character == ord(" ") or 9 <= character <= 13
    size = utf8_character(at, end - at, cython.address(character))
    if (
        character == NEXT_LINE
        or character == NO_BREAK_SPACE
        or character == OGHAM_SPACE
        or EN_QUAD <= character <= HAIR_SPACE
        or character == LINE_SEPARATOR
        or character == PARAGRAPH_SEPARATOR
        or character == NARROW_NO_BREAK_SPACE
        or character == MATHEMATICAL_SPACE
        or character == IDEOGRAPHIC_SPACE
    ):
        return size
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def next_token(at: cython.p_const_uchar, end: cython.p_const_uchar) -> Token:
    """The next run of characters that are neither white space nor a comment; empty at the end of the line."""
    token: Token
    size: cython.int
    while at < end:
        size = space_size(at, end)
        if size == 0:
            break
        at += size
    token.start = at
    if at < end and at[0] != ord("#"):
        while at < end and at[0] != ord("#") and space_size(at, end) == 0:
            at += 1
    token.stop = at
    return token


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def leading_zeros(at: cython.p_const_uchar, end: cython.p_const_uchar) -> cython.int:
    """Digits that the number at `at` could do without (at most 11 are counted): one for each byte of padding."""
    count: cython.int = 0
    while end - at > 1 and at[0] == ord("0") and count < 11:
        at += 1
        count += 1
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_argument(
    at: cython.p_const_uchar,
    stop: cython.p_const_uchar,
    word: cython.p_const_uchar,
    size: cython.int,
    value: cython.pointer(cython.ulonglong),
    zeros: cython.p_int,
    where: cython.pointer(cython.p_const_uchar),
    fault: cython.p_int,
) -> cython.p_const_uchar:
    """The general way to read `name=number` at `at`; `word` (with its '=') is the name whose turn it is.

    `where` is set to what a fault is about.
    """
    token: Token = next_token(at, stop)
    equals: cython.p_const_uchar
    done: cython.p_const_uchar
    where[0] = token.start
    if token.start == token.stop:
        fault[0] = c.NO_ARGUMENT
        return at
    equals = cython.cast(cython.p_const_uchar, memchr(token.start, 61, token.stop - token.start))
    if equals == cython.NULL:
        fault[0] = c.NO_EQUALS
        return at
    if equals + 1 - token.start != size or memcmp(token.start, word, size) != 0:
        fault[0] = c.WRONG_ARGUMENT
        return at
    where[0] = equals + 1
    done = read_decimal(equals + 1, token.stop, value)
    if done != token.stop:
        fault[0] = c.BAD_NUMBER
        return at
    zeros[0] = leading_zeros(equals + 1, token.stop)
    return done


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_data(
    line: cython.p_const_uchar,
    stop: cython.p_const_uchar,
    to: cython.p_uchar,
    room_end: cython.p_uchar,
    keep_padding: cython.bint,
    where: cython.pointer(cython.p_const_uchar),
    fault: cython.p_int,
) -> cython.p_uchar:
    """Read the line `data="..."` and write the bytes with their length before them."""
    equals: cython.p_const_uchar = cython.cast(cython.p_const_uchar, memchr(line, 61, stop - line))
    name: Token
    at: cython.p_const_uchar
    end: cython.p_const_uchar
    room: cython.p_uchar = to + 10
    done: cython.p_uchar
    extra: cython.int = 0
    size: cython.int
    length: cython.ulonglong
    where[0] = line
    if equals == cython.NULL:
        fault[0] = c.NO_DATA
        return to
    name = next_token(line, equals)
    where[0] = name.start
    if name.stop - name.start != 4 or memcmp(name.start, b"data", 4) != 0:
        fault[0] = c.NO_DATA
        return to
    name = next_token(name.stop, equals)
    if name.start != equals:
        fault[0] = c.NO_DATA
        return to
    at = equals + 1
    end = stop
    while at < end:
        size = space_size(at, end)
        if size == 0:
            break
        extra += at[0] == ord(" ")
        at += size
    where[0] = at
    while at < end:  # the same from the right: the spaces are of one, two or three bytes
        if space_size(end - 1, end) == 1:
            end -= 1
        elif end - at > 1 and (end - 2)[0] >= ONE_BYTE_END and space_size(end - 2, end) == 2:
            end -= 2
        elif end - at > 2 and (end - 3)[0] >= ONE_BYTE_END and space_size(end - 3, end) == 3:
            end -= 3
        else:
            break
    if room_end - to < 32:
        fault[0] = c.FULL
        return to
    done = put_unquoted(at, end, room, room_end, fault)
    if fault[0] != c.FINE:
        return to
    length = done - room
    if keep_padding and extra:
        if extra + whence_uvarint_size(length) > 10:
            fault[0] = c.BAD_PADDING
            return to
        to = put_padded(to, length, extra)
    else:
        to = put_uleb(to, length)
    memmove(to, room, length)
    return to + length


# Wire to text


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put_decimal(out: cython.p_uchar, value: cython.ulonglong) -> cython.p_uchar:
    """Write a number; returns where the next byte goes."""
    digits: cython.p_const_char = (
        b"00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
        b"49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
        b"9899"
    )
    small: cython.uint
    high: cython.uint
    rest: cython.ulonglong
    part: cython.uint
    buffer: cython.uchar[20]
    offset: cython.int = 20
    if value < 10:
        out[0] = cython.cast(cython.uchar, 48 + value)
        return out + 1
    if value < 100:
        memcpy(out, digits + 2 * value, 2)
        return out + 2
    if value < 10000:
        small = cython.cast(cython.uint, value)
        high = small // 100
        if high < 10:
            out[0] = cython.cast(cython.uchar, 48 + high)
            memcpy(out + 1, digits + 2 * (small - 100 * high), 2)
            return out + 3
        memcpy(out, digits + 2 * high, 2)
        memcpy(out + 2, digits + 2 * (small - 100 * high), 2)
        return out + 4
    rest = value
    while rest > WHENCE_32_BITS:
        offset -= 2
        part = cython.cast(cython.uint, rest % 100)
        rest = rest // 100
        memcpy(cython.address(buffer[offset]), digits + 2 * part, 2)
    small = cython.cast(cython.uint, rest)
    while small >= 100:
        offset -= 2
        high = small // 100
        memcpy(cython.address(buffer[offset]), digits + 2 * (small - 100 * high), 2)
        small = high
    if small < 10:
        offset -= 1
        buffer[offset] = cython.cast(cython.uchar, 48 + small)
    else:
        offset -= 2
        memcpy(cython.address(buffer[offset]), digits + 2 * small, 2)
    memcpy(out, cython.address(buffer[offset]), 20 - offset)
    return out + (20 - offset)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put_zeros(out: cython.p_uchar, value: cython.ulonglong, size: cython.int) -> cython.p_uchar:
    """A leading zero for each byte of padding that a uvarint of `size` bytes has."""
    extra: cython.int = size - whence_uvarint_size(value)
    while extra > 0:
        out[0] = 48
        out += 1
        extra -= 1
    return out


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put_number(
    to: cython.p_uchar,
    at: cython.pointer(cython.p_const_uchar),
    end: cython.p_const_uchar,
    value: cython.pointer(cython.ulonglong),
    keep_padding: cython.bint,
    fault: cython.p_int,
) -> cython.p_uchar:
    """Read a number from at[0] on, write it in decimal at `to`; returns where the next byte goes. CUT, BAD_UVARINT."""
    got: cython.int = read_uvarint(at[0], end, value)
    if got <= 0:
        fault[0] = c.CUT if got == 0 else c.BAD_UVARINT
        return to
    at[0] += got
    if keep_padding:
        to = put_zeros(to, value[0], got)
    return put_decimal(to, value[0])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_frames(
    to: cython.p_uchar,
    room_end: cython.p_uchar,
    at: cython.pointer(cython.p_const_uchar),
    end: cython.p_const_uchar,
    count: cython.ulonglong,
    layout: Layout,
    keep_padding: cython.bint,
    fault: cython.p_int,
) -> cython.p_uchar:
    """The lines of a stack's frames; returns where the next byte goes. CUT, FULL, BAD_UVARINT."""
    frame: cython.ulonglong = 0
    index: cython.int
    value: cython.ulonglong = 0
    while frame < count:
        if room_end - to < ROOM:
            fault[0] = c.FULL
            return to
        for index in range(c.FRAME_NUMBERS):
            memcpy(to, cython.address(layout.pieces[c.PIECE * index]), c.PIECE)
            to = put_number(to + layout.sizes[index], at, end, cython.address(value), keep_padding, fault)
            if fault[0] != c.FINE:
                return to
        frame += 1
    return to


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_data(
    to: cython.p_uchar,
    room_end: cython.p_uchar,
    at: cython.pointer(cython.p_const_uchar),
    end: cython.p_const_uchar,
    layout: Layout,
    changes: cython.const[cython.uint][::1],
    keep_padding: cython.bint,
    fault: cython.p_int,
) -> cython.p_uchar:
    """The line of an event's bytes, quoted; returns where the next byte goes. CUT, FULL, BAD_UVARINT."""
    size: cython.ulonglong = 0
    got: cython.int = read_uvarint(at[0], end, cython.address(size))
    extra: cython.int
    if got <= 0:
        fault[0] = c.CUT if got == 0 else c.BAD_UVARINT
        return to
    if size > cython.cast(cython.ulonglong, end - at[0] - got):
        fault[0] = c.CUT
        return to
    at[0] += got
    memcpy(to, cython.address(layout.pieces[c.PIECE * c.DATA_PIECE]), c.PIECE)
    to += layout.sizes[c.DATA_PIECE]
    if keep_padding:
        extra = got - whence_uvarint_size(size)
        while extra > 0:
            to[0] = 32
            to += 1
            extra -= 1
    to = put_quoted(at[0], at[0] + size, to, room_end, cython.address(changes[0]), changes.shape[0])
    if to == cython.NULL or to == room_end:
        fault[0] = c.FULL
        return room_end
    at[0] += size
    return to


def from_wire(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    layout: Layout,
    changes: cython.const[cython.uint][::1],
    out: cython.uchar[::1],
    keep_padding: cython.bint,
) -> tuple:
    """Write the events in data[start:stop] as lines into `out`.

    Returns (where it stopped, always between events; bytes written; events; fault; where the fault is). FINE: the bytes
    are used up. CUT: the last event goes on past `stop`. FULL: `out` has no room for the next event.
    """
    fault: cython.int = c.FINE
    offset: cython.Py_ssize_t = start
    events: cython.Py_ssize_t = 0
    belong(start >= 0)
    if start >= stop or stop > data.shape[0] or changes.shape[0] == 0:
        return (start, 0, 0, c.FINE, start)
    base: cython.p_const_uchar = cython.address(data[0])
    at: cython.p_const_uchar = base + start
    end: cython.p_const_uchar = base + stop
    mark: cython.p_const_uchar = at
    begin: cython.p_uchar = cython.address(out[0])
    room_end: cython.p_uchar = begin + out.shape[0]
    to: cython.p_uchar = begin
    done: cython.p_uchar = begin
    counts: cython.p_const_uchar = layout.counts
    flags: cython.p_const_uchar = layout.flags
    piece: cython.p_const_uchar
    size: cython.p_const_uchar
    kind: cython.int
    count: cython.int
    index: cython.int
    value: cython.ulonglong = 0
    second: cython.ulonglong = 0
    with cython.nogil:
        while at < end:
            mark = at
            done = to
            if room_end - to < ROOM:
                fault = c.FULL
                break
            kind = at[0]
            count = counts[kind]
            if count == c.NO_EVENT:
                fault = c.BAD_TYPE
                break
            at += 1
            piece = cython.address(layout.pieces[kind * c.PIECES * c.PIECE])
            size = cython.address(layout.sizes[kind * c.PIECES])
            memcpy(to, piece, c.PIECE)
            to += size[0]
            for index in range(count):
                if index:
                    memcpy(to, piece + c.PIECE * index, c.PIECE)
                    to += size[index]
                to = put_number(to, cython.address(at), end, cython.address(value), keep_padding, cython.address(fault))
                if fault != c.FINE:
                    break
                if index == 1:
                    second = value
            if fault == c.FINE and flags[kind] & c.IS_STACK:
                to = put_frames(
                    to, room_end, cython.address(at), end, second, layout, keep_padding, cython.address(fault)
                )
            elif fault == c.FINE and flags[kind] & c.HAS_DATA:
                to = put_data(
                    to, room_end, cython.address(at), end, layout, changes, keep_padding, cython.address(fault)
                )
            if fault != c.FINE:
                break
            to[0] = 10
            to += 1
            events += 1
        if fault != c.FINE:
            offset = at - base
            at = mark
            to = done
    return (at - base, to - begin, events, fault, offset)


# Text to wire


Cursor = cython.struct(
    at=cython.p_const_uchar,  # where the next line starts
    end=cython.p_const_uchar,  # where the text given ends
    last=cython.bint,  # whether the text ends there: its last line may lack a newline
    line=cython.p_const_uchar,  # the line being read ...
    stop=cython.p_const_uchar,  # ... and its end, without newline and one \r
    lines=cython.Py_ssize_t,  # lines taken
    where=cython.p_const_uchar,  # where a fault is
    argument=cython.int,  # which argument was expected there
)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def take_line(cursor: cython.pointer(Cursor)) -> cython.bint:
    """Make the next line the one being read; false when it is not wholly there."""
    newline: cython.p_const_uchar
    if cursor.at >= cursor.end:
        return False
    newline = cython.cast(cython.p_const_uchar, memchr(cursor.at, 10, cursor.end - cursor.at))
    cursor.line = cursor.at
    if newline == cython.NULL:
        if not cursor.last:
            return False
        cursor.stop = cursor.end
        cursor.at = cursor.end
    else:
        cursor.stop = newline
        cursor.at = newline + 1
    if cursor.stop > cursor.line and (cursor.stop - 1)[0] == ord("\r"):
        cursor.stop -= 1
    cursor.lines += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def take_full_line(cursor: cython.pointer(Cursor)) -> cython.bint:
    """The same, passing over lines that are empty or only a comment."""
    token: Token
    while take_line(cursor):
        if cursor.line < cursor.stop and ord("#") < cursor.line[0] < ONE_BYTE_END:
            return True
        token = next_token(cursor.line, cursor.stop)
        if token.start < token.stop:
            return True
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def read_arguments(
    at: cython.p_const_uchar,
    cursor: cython.pointer(Cursor),
    layout: Layout,
    kind: cython.int,
    skip: cython.int,
    count: cython.int,
    to: cython.p_uchar,
    keep_padding: cython.bint,
    second: cython.pointer(cython.ulonglong),
    fault: cython.p_int,
) -> cython.p_uchar:
    """Read all arguments of a type's line from `at` and write them; returns where the next byte goes.

    The words before arguments start with a space, except the first, in which the argument's name starts at `skip`.
    """
    words: cython.p_const_uchar = cython.address(layout.pieces[kind * c.PIECES * c.PIECE])
    sizes: cython.p_const_uchar = cython.address(layout.sizes[kind * c.PIECES])
    i: cython.int
    size: cython.int
    zeros: cython.int
    value: cython.ulonglong = 0
    digits: cython.p_const_uchar
    done: cython.p_const_uchar
    word: cython.p_const_uchar
    for i in range(count):
        word = words + c.PIECE * i
        size = sizes[i]
        zeros = 0
        done = cython.NULL
        if i == 0:
            word += skip - 1
            size -= skip - 1
        if cursor.stop - at > size and memcmp(at, word, size) == 0:
            digits = at + size
            done = read_decimal(digits, cursor.stop, cython.address(value))
            if done != cython.NULL and done < cursor.stop and done[0] != ord(" "):
                done = cython.NULL
            elif done != cython.NULL and keep_padding:
                zeros = leading_zeros(digits, done)
        if done == cython.NULL:
            done = read_argument(
                at,
                cursor.stop,
                word + 1,
                size - 1,
                cython.address(value),
                cython.address(zeros),
                cython.address(cursor.where),
                fault,
            )
            if fault[0] != c.FINE:
                cursor.argument = i
                return to
        at = done
        if i == 1:
            second[0] = value
        if value < MORE and (zeros == 0 or not keep_padding):
            to[0] = cython.cast(cython.uchar, value)
            to += 1
        elif keep_padding and zeros:
            if zeros + whence_uvarint_size(value) > 10:
                cursor.argument = i
                cursor.where = at
                fault[0] = c.BAD_PADDING
                return to
            to = put_padded(to, value, zeros)
        else:
            to = put_uleb(to, value)
    while at < cursor.stop:
        i = space_size(at, cursor.stop)
        if i == 0:
            cursor.where = at
            fault[0] = c.EXTRA
            return to
        at += i
    return to


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def read_name(cursor: cython.pointer(Cursor), layout: Layout, name: cython.pointer(Token)) -> cython.int:
    """The type of the event that the line names, and the name; 0 (BAD_NAME) where the version has none of that name."""
    kind: cython.int
    size: cython.Py_ssize_t
    piece: cython.p_const_uchar
    name.start = cursor.line
    name.stop = cursor.line
    while name.stop < cursor.stop and ord("#") < name.stop[0] < ONE_BYTE_END:
        name.stop += 1
    if name.stop == name.start or (name.stop < cursor.stop and name.stop[0] != ord(" ")):
        name[0] = next_token(cursor.line, cursor.stop)
    size = name.stop - name.start
    if size < 4 or size >= c.PIECE:
        return 0
    kind = layout.slots[name_slot(name.start, size)]
    if kind == 0 or layout.counts[kind] == c.NO_EVENT:
        return 0
    # The first piece is the name, followed by " dt=" or whatever comes first.
    piece = cython.address(layout.pieces[kind * c.PIECES * c.PIECE])
    if memcmp(name.start, piece, size) != 0 or (layout.sizes[kind * c.PIECES] != size and piece[size] != ord(" ")):
        return 0
    return kind


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_frames(
    cursor: cython.pointer(Cursor),
    layout: Layout,
    count: cython.ulonglong,
    to: cython.p_uchar,
    room_end: cython.p_uchar,
    keep_padding: cython.bint,
    fault: cython.p_int,
) -> cython.p_uchar:
    """Read the lines of a stack's frames; returns where the next byte goes."""
    frame: cython.ulonglong = 0
    ignored: cython.ulonglong = 0
    while frame < count:
        if room_end - to < ROOM:
            fault[0] = c.FULL
            return to
        if not take_full_line(cursor):
            fault[0] = c.CUT
            return to
        # The line of a frame starts with a tab, its word with a newline and a tab: "pc=" is at 2.
        to = read_arguments(
            cursor.line, cursor, layout, 0, 2, c.FRAME_NUMBERS, to, keep_padding, cython.address(ignored), fault
        )
        if fault[0] != c.FINE:
            return to
        frame += 1
    return to


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_event(
    cursor: cython.pointer(Cursor), layout: Layout, to: cython.p_uchar, room_end: cython.p_uchar,
    keep_padding: cython.bint, fault_kind: cython.p_int, fault: cython.p_int,
) -> cython.p_uchar:  # fmt: skip
    """Write the event that begins in the line at hand; returns where the next one goes. `fault_kind` is the type that a
    fault is about, 0 where it is about none."""
    name: Token
    second: cython.ulonglong = 0
    kind: cython.int = read_name(cursor, layout, cython.address(name))
    fault_kind[0] = kind
    if kind == 0:
        cursor.where = name.start
        fault[0] = c.BAD_NAME
        return to
    to[0] = cython.cast(cython.uchar, kind)
    to = read_arguments(
        name.stop,
        cursor,
        layout,
        kind,
        cython.cast(cython.int, name.stop - name.start) + 1,
        layout.counts[kind],
        to + 1,
        keep_padding,
        cython.address(second),
        fault,
    )
    if fault[0] != c.FINE:
        return to
    if layout.flags[kind] & c.IS_STACK:
        fault_kind[0] = 0
        return read_frames(cursor, layout, second, to, room_end, keep_padding, fault)
    if layout.flags[kind] & c.HAS_DATA:
        if take_full_line(cursor):
            return read_data(cursor.line, cursor.stop, to, room_end, keep_padding, cython.address(cursor.where), fault)
        fault[0] = c.CUT
    return to


def to_wire(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    last: cython.bint,
    layout: Layout,
    out: cython.uchar[::1],
    keep_padding: cython.bint,
) -> tuple:
    """Write the events that the lines in data[start:stop] describe into `out`.

    Returns (where it stopped, always before an event; bytes written; events; lines; fault; where the fault is; the
    event type and the number of the argument it is about). FINE: the bytes are used up. CUT: an event goes on past
    `stop` (or, without `last`, a line does). FULL: `out` has no room for the next event.
    """
    fault: cython.int = c.FINE
    events: cython.Py_ssize_t = 0
    belong(start >= 0)
    if start >= stop or stop > data.shape[0]:
        return (start, 0, 0, 0, c.FINE, start, 0, 0)
    base: cython.p_const_uchar = cython.address(data[0])
    begin: cython.p_uchar = cython.address(out[0])
    room_end: cython.p_uchar = begin + out.shape[0]
    to: cython.p_uchar = begin
    done: cython.p_uchar = begin
    fault_kind: cython.int = 0
    mark: cython.p_const_uchar = base + start
    mark_lines: cython.Py_ssize_t = 0
    cursor: Cursor
    cursor.at = base + start
    cursor.end = base + stop
    cursor.last = last
    cursor.lines = 0
    cursor.argument = 0
    cursor.where = base + start
    cursor.line = base + start
    cursor.stop = base + start
    with cython.nogil:
        while True:
            mark = cursor.at
            mark_lines = cursor.lines
            done = to
            fault_kind = 0
            if not take_full_line(cython.address(cursor)):
                # Only lines that say nothing were left, or a line that goes on.
                if cursor.at < cursor.end:
                    fault = c.CUT
                mark = cursor.at
                mark_lines = cursor.lines
                break
            if room_end - to < ROOM:
                fault = c.FULL
                break
            to = read_event(
                cython.address(cursor),
                layout,
                to,
                room_end,
                keep_padding,
                cython.address(fault_kind),
                cython.address(fault),
            )
            if fault != c.FINE:
                break
            events += 1
    if fault != c.FINE:
        to = done
    return (mark - base, to - begin, events, mark_lines, fault, cursor.where - base, fault_kind, cursor.argument)
