"""A line of the text form, read the general way: any white space that Go knows, any quotes, comments."""

import cython
from cython.cimports.libc.string import memchr, memcmp, memmove
from cython.cimports.whence.gotrace.kernels.quote import put_unquoted
from cython.cimports.whence.gotrace.kernels.uvarint import (
    BAD_NUMBER,
    BAD_PADDING,
    FINE,
    FULL,
    NO_ARGUMENT,
    NO_DATA,
    NO_EQUALS,
    WRONG_ARGUMENT,
    put_padded,
    put_uvarint,
    read_decimal,
    whence_uvarint_size,
)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def space_size(at: cython.p_const_uchar, end: cython.p_const_uchar) -> cython.int:
    """Bytes of the white space (unicode.IsSpace) at `at`; 0 when something else is there."""
    byte: cython.uint = at[0]
    last: cython.uint
    if byte < 0x80:
        return byte == 32 or 9 <= byte <= 13
    if byte == 0xC2:
        return 2 if end - at > 1 and (at[1] == 0x85 or at[1] == 0xA0) else 0
    if end - at < 3 or at[1] & 0xC0 != 0x80:
        return 0
    last = at[2]
    if byte == 0xE1:
        return 3 if at[1] == 0x9A and last == 0x80 else 0
    if byte == 0xE2 and at[1] == 0x80:
        return 3 if 0x80 <= last <= 0x8A or last == 0xA8 or last == 0xA9 or last == 0xAF else 0
    if byte == 0xE2 and at[1] == 0x81:
        return 3 if last == 0x9F else 0
    return 3 if byte == 0xE3 and at[1] == 0x80 and last == 0x80 else 0


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
    if at < end and at[0] != 35:
        while at < end and at[0] != 35 and space_size(at, end) == 0:
            at += 1
    token.stop = at
    return token


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def leading_zeros(at: cython.p_const_uchar, end: cython.p_const_uchar) -> cython.int:
    """Digits that the number at `at` could do without (at most 11 are counted): one for each byte of padding."""
    count: cython.int = 0
    while end - at > 1 and at[0] == 48 and count < 11:
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
        fault[0] = NO_ARGUMENT
        return at
    equals = cython.cast(cython.p_const_uchar, memchr(token.start, 61, token.stop - token.start))
    if equals == cython.NULL:
        fault[0] = NO_EQUALS
        return at
    if equals + 1 - token.start != size or memcmp(token.start, word, size) != 0:
        fault[0] = WRONG_ARGUMENT
        return at
    where[0] = equals + 1
    done = read_decimal(equals + 1, token.stop, value)
    if done != token.stop:
        fault[0] = BAD_NUMBER
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
    limit: cython.p_uchar,
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
        fault[0] = NO_DATA
        return to
    name = next_token(line, equals)
    where[0] = name.start
    if name.stop - name.start != 4 or memcmp(name.start, b"data", 4) != 0:
        fault[0] = NO_DATA
        return to
    name = next_token(name.stop, equals)
    if name.start != equals:
        fault[0] = NO_DATA
        return to
    at = equals + 1
    end = stop
    while at < end:
        size = space_size(at, end)
        if size == 0:
            break
        extra += at[0] == 32
        at += size
    where[0] = at
    while at < end:  # the same from the right: the spaces are of one, two or three bytes
        if space_size(end - 1, end) == 1:
            end -= 1
        elif end - at > 1 and (end - 2)[0] >= 0x80 and space_size(end - 2, end) == 2:
            end -= 2
        elif end - at > 2 and (end - 3)[0] >= 0x80 and space_size(end - 3, end) == 3:
            end -= 3
        else:
            break
    if limit - to < 32:
        fault[0] = FULL
        return to
    done = put_unquoted(at, end, room, limit, fault)
    if fault[0] != FINE:
        return to
    length = done - room
    if keep_padding and extra:
        if extra + whence_uvarint_size(length) > 10:
            fault[0] = BAD_PADDING
            return to
        to = put_padded(to, length, extra)
    else:
        to = put_uvarint(to, length)
    memmove(to, room, length)
    return to + length
