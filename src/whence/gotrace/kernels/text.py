"""The text form: lines as Go's internal/trace/raw writes and reads them, with quoted strings.

Writing (`from_wire`) copies the pieces of each event's line from the version's layout and puts numbers between them.
Reading (`to_wire`) first tries to read a line as if it was written like that; other input that Go accepts (other
spaces, other quotes, comments) has a slower path. Both handle complete events only: an event that is cut off, or for
which the output has no space, is left for the next call.
"""

import cython
from cython.cimports.libc.string import memchr, memcmp, memcpy, memmove
from cython.cimports.whence.gotrace.kernels import constants as c
from cython.cimports.whence.gotrace.kernels.layout import EventLayout, name_slot
from cython.cimports.whence.gotrace.kernels.uvarint import WHENCE_32_BITS, read_decimal, whence_uvarint_size
from cython.cimports.whence.kernels.bytes import LONGEST_ULEB, MORE, put_padded, put_uleb, uvarint
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

LINE_SIZE = cython.declare(cython.int, 512)  # bytes of the longest line without data

# white space beyond ASCII (unicode.IsSpace)
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


def printable(character, changes, count):
    """Return True if Go prints a code point unescaped: the number of changes at or before it is odd."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = count
    while low < high:
        middle: cython.Py_ssize_t = (low + high) >> 1
        if changes[middle] <= character:
            low = middle + 1
        else:
            high = middle
    return low & 1


def put_hex(out, letter, value, digits):
    """Write a backslash, the letter, and the value in hex; return the end."""
    hexadecimal: cython.p_const_char = b"0123456789abcdef"
    i: cython.int
    out[0] = 92
    out[1] = letter
    for i in range(digits):
        out[2 + i] = hexadecimal[(value >> (4 * (digits - 1 - i))) & 15]
    return out + 2 + digits


def put_quoted(pos, end, out, out_end, changes, count):
    """Quote bytes like strconv.Quote; return the end, or NULL if `out` is full."""
    short: cython.p_const_char = b"abtnvfr"  # for 7 to 13
    character: cython.uint = 0
    if out_end - out < 16:
        return cython.NULL
    out[0] = 34
    out += 1
    while pos < end:
        if out_end - out < 16:
            return cython.NULL
        byte: cython.uchar = pos[0]
        if byte >= ONE_BYTE_END:
            size: cython.int = utf8_character(pos, end - pos, cython.address(character))
            if size == 0:
                out = put_hex(out, 120, byte, 2)
                pos += 1
            else:
                if printable(character, changes, count):
                    memcpy(out, pos, size)
                    out += size
                elif character < THREE_BYTES_END:
                    out = put_hex(out, 117, character, 4)
                else:
                    out = put_hex(out, 85, character, 8)
                pos += size
            continue
        pos += 1
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


def put_character(to, character):
    """Write a code point in UTF-8; return the end."""
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


def digit_of(byte, base):
    """Return the value of a digit in base 8 or 16, or -1."""
    value: cython.uint = byte - 48
    if value > 9:
        value = (byte | 32) - 97 + 10
        if value < 10 or (byte | 32) < 97:
            return -1
    return value if value < base else -1


def escaped(pos, end, quote, to):
    """Read the escape sequence after a backslash and write its bytes; NULL if Go has no such escape."""
    digits: cython.int = 0
    base: cython.uint = 16
    value: cython.uint = 0
    i: cython.int
    if pos >= end:
        return cython.NULL
    letter: cython.uchar = pos[0]
    pos += 1
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
        pos -= 1
    else:
        return cython.NULL
    if end - pos < digits:
        return cython.NULL
    for i in range(digits):
        digit: cython.int = digit_of(pos[i], base)
        if digit < 0 or value > LAST_CHARACTER:
            return cython.NULL
        value = value * base + digit
    pos += digits
    if digits > 3:
        if value > LAST_CHARACTER or SURROGATES <= value < SURROGATES_END:
            return cython.NULL
        to[0] = put_character(to[0], value)
        return pos
    if value > 255:
        return cython.NULL
    to[0][0] = value
    to[0] += 1
    return pos


def put_unquoted(pos, end, to, out_end, fault):
    """Write the bytes of a Go literal (all of pos to end), like strconv.Unquote; return the end."""
    character: cython.uint = 0
    characters: cython.Py_ssize_t = 0
    if end - pos < 2 or (end - 1)[0] != pos[0]:
        fault[0] = c.BAD_QUOTE
        return to
    quote: cython.uchar = pos[0]
    pos += 1
    end -= 1
    if quote == ord("`"):
        if memchr(pos, 96, end - pos) != cython.NULL:
            fault[0] = c.BAD_QUOTE
        elif out_end - to < end - pos:
            fault[0] = c.FULL
        else:
            while pos < end:
                if pos[0] != ord("\r"):
                    to[0] = pos[0]
                    to += 1
                pos += 1
        return to
    if quote != ord('"') and quote != ord("'"):
        fault[0] = c.BAD_QUOTE
        return to
    while pos < end:
        if out_end - to < 8:
            fault[0] = c.FULL
            return to
        if quote == ord("'") and characters == 1:
            fault[0] = c.BAD_QUOTE
            return to
        characters += 1
        if pos[0] == ord("\\"):
            pos = escaped(pos + 1, end, quote, cython.address(to))
            if pos == cython.NULL:
                fault[0] = c.BAD_QUOTE
                return to
        elif pos[0] == quote or pos[0] == ord("\n"):
            fault[0] = c.BAD_QUOTE
            return to
        else:
            size: cython.int = 1 if pos[0] < ONE_BYTE_END else utf8_character(pos, end - pos, cython.address(character))
            if size == 0:
                to = put_character(to, REPLACEMENT)
                pos += 1
            else:
                memcpy(to, pos, size)
                to += size
                pos += size
    return to


def quote(
    data: cython.const[cython.uchar][::1], changes: cython.const[cython.uint][::1], out: cython.uchar[::1]
) -> int:
    """Quote all of `data` into `out`; return the number of bytes written, -1 if `out` is full."""
    begin: cython.p_uchar = cython.address(out[0])
    pos: cython.p_const_uchar = cython.NULL
    size: cython.Py_ssize_t = data.shape[0]
    if size:
        pos = cython.address(data[0])
    with cython.nogil:
        done: cython.p_uchar = put_quoted(
            pos, pos + size, begin, begin + out.shape[0], cython.address(changes[0]), changes.shape[0]
        )
    return -1 if done == cython.NULL else done - begin


def unquote(data: cython.const[cython.uchar][::1], out: cython.uchar[::1]) -> int:
    """Write the bytes of the Go literal `data` to `out`; return their number, -1 if it is not a literal."""
    fault: cython.int = c.FINE
    begin: cython.p_uchar = cython.address(out[0])
    if data.shape[0] == 0:
        return -1
    pos: cython.p_const_uchar = cython.address(data[0])
    with cython.nogil:
        done: cython.p_uchar = put_unquoted(
            pos, pos + data.shape[0], begin, begin + out.shape[0], cython.address(fault)
        )
    return done - begin if fault == c.FINE else -1


# A line, read the general way


def space_size(pos, end):
    """Return the size of the white space (unicode.IsSpace) at `pos`, 0 for another character."""
    character: cython.uint = pos[0]
    size: cython.int = 1
    if character < ONE_BYTE_END:
        return character == ord(" ") or 9 <= character <= 13
    size = utf8_character(pos, end - pos, cython.address(character))
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


def next_token(pos, end):
    """Return the next characters that are neither white space nor a comment; empty at the end of the line."""
    token: Token
    while pos < end:
        size: cython.int = space_size(pos, end)
        if size == 0:
            break
        pos += size
    token.start = pos
    if pos < end and pos[0] != ord("#"):
        while pos < end and pos[0] != ord("#") and space_size(pos, end) == 0:
            pos += 1
    token.stop = pos
    return token


def leading_zeros(pos, end):
    """Return the number of leading zeros of a number (at most 11): one for each byte of padding."""
    count: cython.int = 0
    while end - pos > 1 and pos[0] == ord("0") and count < 11:
        pos += 1
        count += 1
    return count


# Wire to text


def put_decimal(out, value):
    """Write a number in decimal; return the end."""
    digits: cython.p_const_char = (
        b"00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
        b"49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
        b"9899"
    )
    buffer: cython.uchar[20]
    offset: cython.int = 20
    if value < 10:
        out[0] = cython.cast(cython.uchar, 48 + value)
        return out + 1
    if value < 100:
        memcpy(out, digits + 2 * value, 2)
        return out + 2
    if value < 10000:
        small: cython.uint = cython.cast(cython.uint, value)
        high: cython.uint = small // 100
        if high < 10:
            out[0] = cython.cast(cython.uchar, 48 + high)
            memcpy(out + 1, digits + 2 * (small - 100 * high), 2)
            return out + 3
        memcpy(out, digits + 2 * high, 2)
        memcpy(out + 2, digits + 2 * (small - 100 * high), 2)
        return out + 4
    rest: cython.ulonglong = value
    while rest > WHENCE_32_BITS:
        offset -= 2
        part: cython.uint = cython.cast(cython.uint, rest % 100)
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


def put_zeros(out, value, size):
    """Write a zero for each byte of padding of a uvarint of `size` bytes; return the end."""
    extra: cython.int = size - whence_uvarint_size(value)
    while extra > 0:
        out[0] = 48
        out += 1
        extra -= 1
    return out


def put_number(to, pos, end, value, keep_padding, fault):
    """Read a number from pos[0] and write it in decimal; return the end. Faults: CUT, BAD_UVARINT."""
    width: cython.int = uvarint(pos[0], end, value)
    if width <= 0:
        fault[0] = c.CUT if width == 0 else c.BAD_UVARINT
        return to
    pos[0] += width
    if keep_padding:
        to = put_zeros(to, value[0], width)
    return put_decimal(to, value[0])


def put_frames(to, out_end, pos, end, count, layout, keep_padding, fault):
    """Write the lines of a stack's frames; return the end. Faults: CUT, FULL, BAD_UVARINT."""
    frame: cython.ulonglong = 0
    index: cython.int
    value: cython.ulonglong = 0
    while frame < count:
        if out_end - to < LINE_SIZE:
            fault[0] = c.FULL
            return to
        for index in range(c.FRAME_NUMBERS):
            memcpy(to, cython.address(layout.pieces[c.PIECE * index]), c.PIECE)
            to = put_number(to + layout.sizes[index], pos, end, cython.address(value), keep_padding, fault)
            if fault[0] != c.FINE:
                return to
        frame += 1
    return to


def put_data(to, out_end, pos, end, layout, changes, keep_padding, fault):
    """Write the line of an event's data, quoted; return the end. Faults: CUT, FULL, BAD_UVARINT."""
    size: cython.ulonglong = 0
    width: cython.int = uvarint(pos[0], end, cython.address(size))
    if width <= 0:
        fault[0] = c.CUT if width == 0 else c.BAD_UVARINT
        return to
    if size > cython.cast(cython.ulonglong, end - pos[0] - width):
        fault[0] = c.CUT
        return to
    pos[0] += width
    memcpy(to, cython.address(layout.pieces[c.PIECE * c.DATA_PIECE]), c.PIECE)
    to += layout.sizes[c.DATA_PIECE]
    if keep_padding:
        extra: cython.int = width - whence_uvarint_size(size)
        while extra > 0:
            to[0] = 32
            to += 1
            extra -= 1
    to = put_quoted(pos[0], pos[0] + size, to, out_end, cython.address(changes[0]), changes.shape[0])
    if to == cython.NULL or to == out_end:
        fault[0] = c.FULL
        return out_end
    pos[0] += size
    return to


def from_wire(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    layout: EventLayout,
    changes: cython.const[cython.uint][::1],
    out: cython.uchar[::1],
    keep_padding: cython.bint,
) -> tuple:
    """Write the events in data[start:stop] as lines into `out`.

    Returns (offset where it stopped, always between events; bytes written; events; fault; offset of the fault). FINE:
    all bytes were used. CUT: the last event extends past `stop`. FULL: `out` has no space for the next event.
    """
    fault: cython.int = c.FINE
    offset: cython.Py_ssize_t = start
    events: cython.Py_ssize_t = 0
    belong(start >= 0)
    if start >= stop or stop > data.shape[0] or changes.shape[0] == 0:
        return (start, 0, 0, c.FINE, start)
    base: cython.p_const_uchar = cython.address(data[0])
    pos: cython.p_const_uchar = base + start
    end: cython.p_const_uchar = base + stop
    mark: cython.p_const_uchar = pos
    begin: cython.p_uchar = cython.address(out[0])
    out_end: cython.p_uchar = begin + out.shape[0]
    to: cython.p_uchar = begin
    done: cython.p_uchar = begin
    counts: cython.p_const_uchar = layout.counts
    flags: cython.p_const_uchar = layout.flags
    index: cython.int
    value: cython.ulonglong = 0
    second: cython.ulonglong = 0
    with cython.nogil:
        while pos < end:
            mark = pos
            done = to
            if out_end - to < LINE_SIZE:
                fault = c.FULL
                break
            kind: cython.int = pos[0]
            count: cython.int = counts[kind]
            if count == c.NO_EVENT:
                fault = c.BAD_TYPE
                break
            pos += 1
            piece: cython.p_const_uchar = cython.address(layout.pieces[kind * c.PIECES * c.PIECE])
            size: cython.p_const_uchar = cython.address(layout.sizes[kind * c.PIECES])
            memcpy(to, piece, c.PIECE)
            to += size[0]
            for index in range(count):
                if index:
                    memcpy(to, piece + c.PIECE * index, c.PIECE)
                    to += size[index]
                to = put_number(
                    to, cython.address(pos), end, cython.address(value), keep_padding, cython.address(fault)
                )
                if fault != c.FINE:
                    break
                if index == 1:
                    second = value
            if fault == c.FINE and flags[kind] & c.IS_STACK:
                to = put_frames(
                    to, out_end, cython.address(pos), end, second, layout, keep_padding, cython.address(fault)
                )
            elif fault == c.FINE and flags[kind] & c.HAS_DATA:
                to = put_data(
                    to, out_end, cython.address(pos), end, layout, changes, keep_padding, cython.address(fault)
                )
            if fault != c.FINE:
                break
            to[0] = 10
            to += 1
            events += 1
        if fault != c.FINE:
            offset = pos - base
            pos = mark
            to = done
    return (pos - base, to - begin, events, fault, offset)


# Text to wire


def take_line(cursor):
    """Make the next line the current one; return False if it is not complete."""
    if cursor.pos >= cursor.end:
        return False
    newline: cython.p_const_uchar = cython.cast(cython.p_const_uchar, memchr(cursor.pos, 10, cursor.end - cursor.pos))
    cursor.line = cursor.pos
    if newline == cython.NULL:
        if not cursor.last:
            return False
        cursor.stop = cursor.end
        cursor.pos = cursor.end
    else:
        cursor.stop = newline
        cursor.pos = newline + 1
    if cursor.stop > cursor.line and (cursor.stop - 1)[0] == ord("\r"):
        cursor.stop -= 1
    cursor.lines += 1
    return True


def take_full_line(cursor):
    """Make the next line that is neither empty nor a comment the current one; return False if all were read."""
    while take_line(cursor):
        if cursor.line < cursor.stop and ord("#") < cursor.line[0] < ONE_BYTE_END:
            return True
        token: Token = next_token(cursor.line, cursor.stop)
        if token.start < token.stop:
            return True
    return False


def read_argument(cursor, pos, name, size, value, zeros):
    """Read `name=number` with any white space before it; `name` includes the '='. Return the end of the number."""
    token: Token = next_token(pos, cursor.stop)
    cursor.where = token.start
    if token.start == token.stop:
        cursor.fault = c.NO_ARGUMENT
        return pos
    equals: cython.p_const_uchar = cython.cast(cython.p_const_uchar, memchr(token.start, 61, token.stop - token.start))
    if equals == cython.NULL:
        cursor.fault = c.NO_EQUALS
        return pos
    if equals + 1 - token.start != size or memcmp(token.start, name, size) != 0:
        cursor.fault = c.WRONG_ARGUMENT
        return pos
    cursor.where = equals + 1
    done: cython.p_const_uchar = read_decimal(equals + 1, token.stop, value)
    if done != token.stop:
        cursor.fault = c.BAD_NUMBER
        return pos
    zeros[0] = leading_zeros(equals + 1, token.stop)
    return done


def read_data(cursor):
    """Read the current line, `data="..."`, and write the bytes after their length."""
    stop: cython.p_const_uchar = cursor.stop
    equals: cython.p_const_uchar = cython.cast(cython.p_const_uchar, memchr(cursor.line, 61, stop - cursor.line))
    content: cython.p_uchar = cursor.out + LONGEST_ULEB
    extra: cython.int = 0
    cursor.where = cursor.line
    if equals == cython.NULL:
        cursor.fault = c.NO_DATA
        return
    name: Token = next_token(cursor.line, equals)
    cursor.where = name.start
    if name.stop - name.start != 4 or memcmp(name.start, b"data", 4) != 0:
        cursor.fault = c.NO_DATA
        return
    name = next_token(name.stop, equals)
    if name.start != equals:
        cursor.fault = c.NO_DATA
        return
    pos: cython.p_const_uchar = equals + 1
    while pos < stop:
        size: cython.int = space_size(pos, stop)
        if size == 0:
            break
        extra += pos[0] == ord(" ")
        pos += size
    cursor.where = pos
    while pos < stop:  # spaces on the right, of one, two or three bytes
        if space_size(stop - 1, stop) == 1:
            stop -= 1
        elif stop - pos > 1 and (stop - 2)[0] >= ONE_BYTE_END and space_size(stop - 2, stop) == 2:
            stop -= 2
        elif stop - pos > 2 and (stop - 3)[0] >= ONE_BYTE_END and space_size(stop - 3, stop) == 3:
            stop -= 3
        else:
            break
    if cursor.out_end - cursor.out < 32:
        cursor.fault = c.FULL
        return
    done: cython.p_uchar = put_unquoted(pos, stop, content, cursor.out_end, cython.address(cursor.fault))
    if cursor.fault != c.FINE:
        return
    length: cython.ulonglong = done - content
    if cursor.keep_padding and extra:
        if extra + whence_uvarint_size(length) > LONGEST_ULEB:
            cursor.fault = c.BAD_PADDING
            return
        cursor.out = put_padded(cursor.out, length, extra)
    else:
        cursor.out = put_uleb(cursor.out, length)
    memmove(cursor.out, content, length)
    cursor.out += length


def read_arguments(cursor, layout, kind, pos, skip, count):
    """Read all arguments of a type's line from `pos` and write them; return the second one.

    The pieces before arguments start with a space, except the first, in which the argument's name starts at `skip`.
    """
    pieces: cython.p_const_uchar = cython.address(layout.pieces[kind * c.PIECES * c.PIECE])
    sizes: cython.p_const_uchar = cython.address(layout.sizes[kind * c.PIECES])
    stop: cython.p_const_uchar = cursor.stop
    out: cython.p_uchar = cursor.out
    keep_padding: cython.bint = cursor.keep_padding
    i: cython.int
    value: cython.ulonglong = 0
    second: cython.ulonglong = 0
    for i in range(count):
        piece: cython.p_const_uchar = pieces + c.PIECE * i
        size: cython.int = sizes[i]
        zeros: cython.int = 0
        done: cython.p_const_uchar = cython.NULL
        if i == 0:
            piece += skip - 1
            size -= skip - 1
        if stop - pos > size and memcmp(pos, piece, size) == 0:
            digits: cython.p_const_uchar = pos + size
            done = read_decimal(digits, stop, cython.address(value))
            if done != cython.NULL and done < stop and done[0] != ord(" "):
                done = cython.NULL
            elif done != cython.NULL and keep_padding:
                zeros = leading_zeros(digits, done)
        if done == cython.NULL:
            done = read_argument(cursor, pos, piece + 1, size - 1, cython.address(value), cython.address(zeros))
            if cursor.fault != c.FINE:
                cursor.argument = i
                return 0
        pos = done
        if i == 1:
            second = value
        if value < MORE and (zeros == 0 or not keep_padding):
            out[0] = cython.cast(cython.uchar, value)
            out += 1
        elif keep_padding and zeros:
            if zeros + whence_uvarint_size(value) > LONGEST_ULEB:
                cursor.argument = i
                cursor.where = pos
                cursor.fault = c.BAD_PADDING
                return 0
            out = put_padded(out, value, zeros)
        else:
            out = put_uleb(out, value)
    cursor.out = out
    while pos < stop:
        i = space_size(pos, stop)
        if i == 0:
            cursor.where = pos
            cursor.fault = c.EXTRA
            return 0
        pos += i
    return second


def read_name(cursor, layout, name):
    """Return the type of the event that the line names, and set the name; 0 if the version has no such event."""
    name.start = cursor.line
    name.stop = cursor.line
    while name.stop < cursor.stop and ord("#") < name.stop[0] < ONE_BYTE_END:
        name.stop += 1
    if name.stop == name.start or (name.stop < cursor.stop and name.stop[0] != ord(" ")):
        name[0] = next_token(cursor.line, cursor.stop)
    size: cython.Py_ssize_t = name.stop - name.start
    if size < 4 or size >= c.PIECE:
        return 0
    kind: cython.int = layout.slots[name_slot(name.start, size)]
    if kind == 0 or layout.counts[kind] == c.NO_EVENT:
        return 0
    # The first piece is the name, followed by the name of the first argument.
    piece: cython.p_const_uchar = cython.address(layout.pieces[kind * c.PIECES * c.PIECE])
    if memcmp(name.start, piece, size) != 0 or (layout.sizes[kind * c.PIECES] != size and piece[size] != ord(" ")):
        return 0
    return kind


def read_frames(cursor, layout, count):
    """Read the lines of a stack's frames."""
    while count:
        if cursor.out_end - cursor.out < LINE_SIZE:
            cursor.fault = c.FULL
            return
        if not take_full_line(cursor):
            cursor.fault = c.CUT
            return
        # The line of a frame starts with a tab, its piece with a newline and a tab: "pc=" is at 2.
        read_arguments(cursor, layout, 0, cursor.line, 2, c.FRAME_NUMBERS)
        if cursor.fault != c.FINE:
            return
        count -= 1


def read_event(cursor, layout):
    """Write the event that starts in the current line."""
    name: Token
    kind: cython.int = read_name(cursor, layout, cython.address(name))
    skip: cython.int = cython.cast(cython.int, name.stop - name.start) + 1
    cursor.kind = kind
    if kind == 0:
        cursor.where = name.start
        cursor.fault = c.BAD_NAME
        return
    cursor.out[0] = cython.cast(cython.uchar, kind)
    cursor.out += 1
    second: cython.ulonglong = read_arguments(cursor, layout, kind, name.stop, skip, layout.counts[kind])
    if cursor.fault != c.FINE:
        return
    if layout.flags[kind] & c.IS_STACK:
        cursor.kind = 0
        read_frames(cursor, layout, second)
    elif layout.flags[kind] & c.HAS_DATA:
        if take_full_line(cursor):
            read_data(cursor)
        else:
            cursor.fault = c.CUT


def to_wire(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    last: cython.bint,
    layout: EventLayout,
    out: cython.uchar[::1],
    keep_padding: cython.bint,
) -> tuple:
    """Write the events that the lines in data[start:stop] describe into `out`.

    Returns (offset where it stopped, always before an event; bytes written; events; lines; fault; offset of the fault;
    event type and index of the argument that the fault is about). FINE: all bytes were used. CUT: an event extends past
    `stop` (or, without `last`, a line does). FULL: `out` has no space for the next event.
    """
    events: cython.Py_ssize_t = 0
    belong(start >= 0)
    if start >= stop or stop > data.shape[0]:
        return (start, 0, 0, 0, c.FINE, start, 0, 0)
    base: cython.p_const_uchar = cython.address(data[0])
    out_start: cython.p_uchar = cython.address(out[0])
    event_out: cython.p_uchar = out_start
    cursor: Cursor
    cursor.pos = cursor.line = cursor.stop = cursor.where = base + start
    cursor.end = base + stop
    cursor.last = last
    cursor.lines = cursor.kind = cursor.argument = 0
    cursor.out = out_start
    cursor.out_end = out_start + out.shape[0]
    cursor.keep_padding = keep_padding
    cursor.fault = c.FINE
    with cython.nogil:
        while True:
            mark: cython.p_const_uchar = cursor.pos
            mark_lines: cython.Py_ssize_t = cursor.lines
            event_out = cursor.out
            cursor.kind = 0
            if not take_full_line(cython.address(cursor)):
                # Only lines without an event were left, or a line that is cut off.
                if cursor.pos < cursor.end:
                    cursor.fault = c.CUT
                mark = cursor.pos
                mark_lines = cursor.lines
                break
            if cursor.out_end - cursor.out < LINE_SIZE:
                cursor.fault = c.FULL
                break
            read_event(cython.address(cursor), layout)
            if cursor.fault != c.FINE:
                break
            events += 1
    where: cython.Py_ssize_t = cursor.where - base
    return (
        mark - base, event_out - out_start, events, mark_lines, cursor.fault, where, cursor.kind, cursor.argument
    )  # fmt: skip
