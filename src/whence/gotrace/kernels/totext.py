"""Wire to text: events of the wire form written as lines.

Whole events only: one that the bytes cut, or that the output has no room for, is left for the next call.
"""

import cython
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.gotrace.kernels.quote import put_quoted
from cython.cimports.whence.gotrace.kernels.uvarint import (
    BAD_TYPE,
    BAD_UVARINT,
    CUT,
    FINE,
    FULL,
    HAS_DATA,
    IS_STACK,
    NO_EVENT,
    WHENCE_32_BITS,
    read_uvarint,
    whence_uvarint_size,
)

# `pieces` holds what stands before each number, 32 bytes each (lines.py): PIECES for each type, those of type 0 for the
# frames (four) and for data (the fifth).


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put_decimal(out: cython.p_uchar, value: cython.ulonglong) -> cython.p_uchar:
    """Write a number; gives where the next byte goes."""
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
    at: cython.int = 20
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
        at -= 2
        part = cython.cast(cython.uint, rest % 100)
        rest = rest // 100
        memcpy(cython.address(buffer[at]), digits + 2 * part, 2)
    small = cython.cast(cython.uint, rest)
    while small >= 100:
        at -= 2
        high = small // 100
        memcpy(cython.address(buffer[at]), digits + 2 * (small - 100 * high), 2)
        small = high
    if small < 10:
        at -= 1
        buffer[at] = cython.cast(cython.uchar, 48 + small)
    else:
        at -= 2
        memcpy(cython.address(buffer[at]), digits + 2 * small, 2)
    memcpy(out, cython.address(buffer[at]), 20 - at)
    return out + (20 - at)


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


def convert(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    counts: cython.const[cython.uchar][::1],
    flags: cython.const[cython.uchar][::1],
    pieces: cython.const[cython.uchar][::1],
    sizes: cython.const[cython.uchar][::1],
    changes: cython.const[cython.uint][::1],
    out: cython.uchar[::1],
    keep_padding: cython.bint,
) -> tuple:
    """Write the events in data[start:stop] as lines into `out`.

    Gives (where it stopped, always between events; bytes written; events; fault; where the fault is). FINE: the bytes
    are used up. CUT: the last event goes on past `stop`. FULL: `out` has no room for the next event.
    """
    fault: cython.int = FINE
    where: cython.Py_ssize_t = start
    events: cython.Py_ssize_t = 0
    if start >= stop or stop > data.shape[0]:
        return (start, 0, 0, FINE, start)
    base: cython.p_const_uchar = cython.address(data[0])
    at: cython.p_const_uchar = base + start
    end: cython.p_const_uchar = base + stop
    mark: cython.p_const_uchar = at
    begin: cython.p_uchar = cython.address(out[0])
    limit: cython.p_uchar = begin + out.shape[0]
    to: cython.p_uchar = begin
    done: cython.p_uchar = begin
    quoted: cython.p_uchar
    piece: cython.p_const_uchar
    size: cython.p_const_uchar
    first_piece: cython.p_const_uchar = cython.address(pieces[0])
    first_size: cython.p_const_uchar = cython.address(sizes[0])
    kind: cython.int
    count: cython.int
    i: cython.int
    got: cython.int
    value: cython.ulonglong = 0
    second: cython.ulonglong = 0
    frame: cython.ulonglong
    with cython.nogil:
        while at < end:
            mark = at
            done = to
            if limit - to < 512:
                fault = FULL
                break
            kind = at[0]
            count = counts[kind]
            if count == NO_EVENT:
                fault = BAD_TYPE
                break
            at += 1
            piece = first_piece + kind * 192
            size = first_size + kind * 6
            memcpy(to, piece, 32)
            to += size[0]
            for i in range(count):
                got = read_uvarint(at, end, cython.address(value))
                if got <= 0:
                    fault = CUT if got == 0 else BAD_UVARINT
                    break
                at += got
                if i:
                    piece += 32
                    memcpy(to, piece, 32)
                    to += size[i]
                    if i == 1:
                        second = value
                if keep_padding:
                    to = put_zeros(to, value, got)
                to = put_decimal(to, value)
            if fault == FINE and flags[kind]:
                if flags[kind] & IS_STACK:
                    frame = 0
                    while frame < second and fault == FINE:
                        if limit - to < 512:
                            fault = FULL
                            break
                        for i in range(4):
                            got = read_uvarint(at, end, cython.address(value))
                            if got <= 0:
                                fault = CUT if got == 0 else BAD_UVARINT
                                break
                            at += got
                            memcpy(to, first_piece + 32 * i, 32)
                            to += first_size[i]
                            if keep_padding:
                                to = put_zeros(to, value, got)
                            to = put_decimal(to, value)
                        frame += 1
                elif flags[kind] & HAS_DATA:
                    got = read_uvarint(at, end, cython.address(value))
                    if got <= 0:
                        fault = CUT if got == 0 else BAD_UVARINT
                    elif value > cython.cast(cython.ulonglong, end - at - got):
                        fault = CUT
                    else:
                        at += got
                        memcpy(to, first_piece + 128, 32)
                        to += first_size[4]
                        if keep_padding:
                            i = got - whence_uvarint_size(value)
                            while i > 0:
                                to[0] = 32
                                to += 1
                                i -= 1
                        quoted = put_quoted(at, at + value, to, limit, cython.address(changes[0]), changes.shape[0])
                        if quoted == cython.NULL or quoted == limit:
                            fault = FULL
                        else:
                            to = quoted
                            at += value
            if fault != FINE:
                break
            to[0] = 10
            to += 1
            events += 1
        if fault != FINE:
            where = at - base
            at = mark
            to = done
    return (at - base, to - begin, events, fault, where)
