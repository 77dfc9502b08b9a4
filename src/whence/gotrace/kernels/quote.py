"""Go's quoted strings: bytes quoted as strconv.Quote writes them, literals read as strconv.Unquote does."""

import cython
from cython.cimports.libc.string import memchr, memcpy
from cython.cimports.whence.gotrace.kernels.uvarint import BAD_QUOTE, FINE, FULL


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
def character_size(at: cython.p_const_uchar, end: cython.p_const_uchar, character: cython.p_uint) -> cython.int:
    """Length of the UTF-8 character at `at` and which it is; 0 when the bytes there are not UTF-8."""
    left: cython.Py_ssize_t = end - at
    first: cython.uint = at[0]
    value: cython.uint
    size: cython.int
    i: cython.int
    if first < 0xC2 or first > 0xF4:
        return 0
    if first < 0xE0:
        size = 2
        value = first & 0x1F
    elif first < 0xF0:
        size = 3
        value = first & 0x0F
    else:
        size = 4
        value = first & 0x07
    if left < size:
        return 0
    for i in range(1, size):
        if at[i] & 0xC0 != 0x80:
            return 0
        value = value << 6 | (at[i] & 0x3F)
    if size == 3 and (value < 0x800 or (0xD800 <= value <= 0xDFFF)):
        return 0
    if size == 4 and (value < 0x10000 or value > 0x10FFFF):
        return 0
    character[0] = value
    return size


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
    limit: cython.p_uchar,
    changes: cython.p_const_uint,
    count: cython.Py_ssize_t,
) -> cython.p_uchar:
    """Bytes in double quotes as strconv.Quote writes them; gives where the next byte goes, or NULL for want of room."""
    short: cython.p_const_char = b"abtnvfr"  # for 7 to 13
    byte: cython.uchar
    character: cython.uint = 0
    size: cython.int
    if limit - out < 16:
        return cython.NULL
    out[0] = 34
    out += 1
    while at < end:
        if limit - out < 16:
            return cython.NULL
        byte = at[0]
        if byte >= 0x80:
            size = character_size(at, end, cython.address(character))
            if size == 0:
                out = put_hex(out, 120, byte, 2)
                at += 1
            else:
                if printable(character, changes, count):
                    memcpy(out, at, size)
                    out += size
                elif character < 0x10000:
                    out = put_hex(out, 117, character, 4)
                else:
                    out = put_hex(out, 85, character, 8)
                at += size
            continue
        at += 1
        if byte == 34 or byte == 92:
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
    if character < 0x80:
        to[0] = character
        return to + 1
    if character < 0x800:
        to[0] = 0xC0 | character >> 6
        to[1] = 0x80 | (character & 0x3F)
        return to + 2
    if character < 0x10000:
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
    if letter == 97:
        value = 7
    elif letter == 98:
        value = 8
    elif letter == 102:
        value = 12
    elif letter == 110:
        value = 10
    elif letter == 114:
        value = 13
    elif letter == 116:
        value = 9
    elif letter == 118:
        value = 11
    elif letter == 92 or ((letter == 34 or letter == 39) and letter == quote):
        value = letter
    elif letter == 120:
        digits = 2
    elif letter == 117:
        digits = 4
    elif letter == 85:
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
        if digit < 0 or value > 0x10FFFFF:
            return cython.NULL
        value = value * base + digit
    at += digits
    if digits > 3:
        if value > 0x10FFFF or 0xD800 <= value <= 0xDFFF:
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
    at: cython.p_const_uchar, end: cython.p_const_uchar, to: cython.p_uchar, limit: cython.p_uchar, fault: cython.p_int
) -> cython.p_uchar:
    """What a Go literal (all of at..end) stands for, as strconv.Unquote has it; gives where the next byte goes."""
    quote: cython.uchar
    size: cython.int
    character: cython.uint = 0
    characters: cython.Py_ssize_t = 0
    if end - at < 2 or (end - 1)[0] != at[0]:
        fault[0] = BAD_QUOTE
        return to
    quote = at[0]
    at += 1
    end -= 1
    if quote == 96:
        if memchr(at, 96, end - at) != cython.NULL:
            fault[0] = BAD_QUOTE
        elif limit - to < end - at:
            fault[0] = FULL
        else:
            while at < end:
                if at[0] != 13:
                    to[0] = at[0]
                    to += 1
                at += 1
        return to
    if quote != 34 and quote != 39:
        fault[0] = BAD_QUOTE
        return to
    while at < end:
        if limit - to < 8:
            fault[0] = FULL
            return to
        if quote == 39 and characters == 1:
            fault[0] = BAD_QUOTE
            return to
        characters += 1
        if at[0] == 92:
            at = escaped(at + 1, end, quote, cython.address(to))
            if at == cython.NULL:
                fault[0] = BAD_QUOTE
                return to
        elif at[0] == quote or at[0] == 10:
            fault[0] = BAD_QUOTE
            return to
        else:
            size = 1 if at[0] < 0x80 else character_size(at, end, cython.address(character))
            if size == 0:
                to = put_character(to, 0xFFFD)
                at += 1
            else:
                memcpy(to, at, size)
                to += size
                at += size
    return to


def quote(
    data: cython.const[cython.uchar][::1], changes: cython.const[cython.uint][::1], out: cython.uchar[::1]
) -> int:
    """Quote all of `data` into `out`; gives the bytes written, -1 for want of room."""
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
    """What all of `data` stands for as a Go literal, into `out`; gives the bytes written, -1 when it is not one."""
    fault: cython.int = FINE
    begin: cython.p_uchar = cython.address(out[0])
    if data.shape[0] == 0:
        return -1
    at: cython.p_const_uchar = cython.address(data[0])
    done: cython.p_uchar
    with cython.nogil:
        done = put_unquoted(at, at + data.shape[0], begin, begin + out.shape[0], cython.address(fault))
    return done - begin if fault == FINE else -1
