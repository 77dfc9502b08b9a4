"""Text to wire: lines read as events of the wire form.

Each line is first read as this room writes it; whatever else Go accepts (other spaces, other quotes) takes the general
way of line_kernel.py. Whole events only: one whose lines go on past the bytes is left for the next call.
"""

import cython
from cython.cimports.libc.string import memchr, memcmp
from cython.cimports.whence.gotrace.kernels.line import (
    Token,
    leading_zeros,
    next_token,
    read_argument,
    read_data,
    space_size,
)
from cython.cimports.whence.gotrace.kernels.uvarint import (
    BAD_NAME,
    BAD_PADDING,
    CUT,
    EXTRA,
    FINE,
    FULL,
    HAS_DATA,
    IS_STACK,
    NO_EVENT,
    put_padded,
    put_uvarint,
    read_decimal,
    whence_uvarint_size,
)

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
    if cursor.stop > cursor.line and (cursor.stop - 1)[0] == 13:
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
        if cursor.line < cursor.stop and 35 < cursor.line[0] < 0x80:
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
    words: cython.p_const_uchar,
    sizes: cython.p_const_uchar,
    skip: cython.int,
    count: cython.int,
    to: cython.p_uchar,
    keep_padding: cython.bint,
    second: cython.pointer(cython.ulonglong),
    fault: cython.p_int,
) -> cython.p_uchar:
    """Read all arguments of a line from `at` and write them; `skip` bytes of the first word are not of the argument.

    `words` start with the space before them, except the first, whose name starts at `skip`.
    """
    i: cython.int
    size: cython.int
    zeros: cython.int
    value: cython.ulonglong = 0
    digits: cython.p_const_uchar
    done: cython.p_const_uchar
    word: cython.p_const_uchar
    for i in range(count):
        word = words + 32 * i
        size = sizes[i]
        zeros = 0
        done = cython.NULL
        if i == 0:
            word += skip - 1
            size -= skip - 1
        if cursor.stop - at > size and memcmp(at, word, size) == 0:
            digits = at + size
            done = read_decimal(digits, cursor.stop, cython.address(value))
            if done != cython.NULL and done < cursor.stop and done[0] != 32:
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
            if fault[0] != FINE:
                cursor.argument = i
                return to
        at = done
        if i == 1:
            second[0] = value
        if value < 0x80 and (zeros == 0 or not keep_padding):
            to[0] = cython.cast(cython.uchar, value)
            to += 1
        elif keep_padding and zeros:
            if zeros + whence_uvarint_size(value) > 10:
                cursor.argument = i
                cursor.where = at
                fault[0] = BAD_PADDING
                return to
            to = put_padded(to, value, zeros)
        else:
            to = put_uvarint(to, value)
    while at < cursor.stop:
        i = space_size(at, cursor.stop)
        if i == 0:
            cursor.where = at
            fault[0] = EXTRA
            return to
        at += i
    return to


def convert(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    last: cython.bint,
    counts: cython.const[cython.uchar][::1],
    flags: cython.const[cython.uchar][::1],
    pieces: cython.const[cython.uchar][::1],
    sizes: cython.const[cython.uchar][::1],
    slots: cython.const[cython.uchar][::1],
    out: cython.uchar[::1],
    keep_padding: cython.bint,
) -> tuple:
    """Write the events that the lines in data[start:stop] tell into `out`.

    Gives (where it stopped, always before an event; bytes written; events; lines; fault; where the fault is; the event
    type and the number of the argument it is about). FINE: the bytes are used up. CUT: an event goes on past `stop`
    (or, without `last`, a line does). FULL: `out` has no room for the next event.
    """
    fault: cython.int = FINE
    events: cython.Py_ssize_t = 0
    if start >= stop or stop > data.shape[0]:
        return (start, 0, 0, 0, FINE, start, 0, 0)
    base: cython.p_const_uchar = cython.address(data[0])
    begin: cython.p_uchar = cython.address(out[0])
    limit: cython.p_uchar = begin + out.shape[0]
    to: cython.p_uchar = begin
    done: cython.p_uchar = begin
    first_piece: cython.p_const_uchar = cython.address(pieces[0])
    first_size: cython.p_const_uchar = cython.address(sizes[0])
    slot: cython.p_const_uchar = cython.address(slots[0])
    count: cython.int
    kind: cython.int = 0
    size: cython.Py_ssize_t
    second: cython.ulonglong = 0
    ignored: cython.ulonglong = 0
    frame: cython.ulonglong
    mark: cython.p_const_uchar = base + start
    mark_lines: cython.Py_ssize_t = 0
    name: Token
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
            kind = 0
            if not take_full_line(cython.address(cursor)):
                # Only lines that say nothing were left, or a line that goes on.
                if cursor.at < cursor.end:
                    fault = CUT
                mark = cursor.at
                mark_lines = cursor.lines
                break
            if limit - to < 256:
                fault = FULL
                break
            name.start = cursor.line
            name.stop = cursor.line
            while name.stop < cursor.stop and 35 < name.stop[0] < 0x80:
                name.stop += 1
            if name.stop == name.start or (name.stop < cursor.stop and name.stop[0] != 32):
                name = next_token(cursor.line, cursor.stop)
            size = name.stop - name.start
            if 3 < size < 24:
                kind = slot[
                    (
                        name.start[0] * 77
                        + name.start[size >> 1] * 143
                        + name.start[size - 1] * 34
                        + name.start[size - 3] * 185
                        + cython.cast(cython.int, size) * 213
                    )
                    & 511
                ]
                # The first piece is the name, followed by " dt=" or whatever comes first.
                if kind and (
                    memcmp(name.start, first_piece + kind * 192, size) != 0
                    or (first_size[kind * 6] != size and (first_piece + kind * 192)[size] != 32)
                ):
                    kind = 0
            if kind == 0 or counts[kind] == NO_EVENT:
                cursor.where = name.start
                fault = BAD_NAME
                break
            count = counts[kind]
            to[0] = cython.cast(cython.uchar, kind)
            to = read_arguments(
                name.stop,
                cython.address(cursor),
                first_piece + kind * 192,
                first_size + kind * 6,
                cython.cast(cython.int, size) + 1,
                count,
                to + 1,
                keep_padding,
                cython.address(second),
                cython.address(fault),
            )
            if fault != FINE:
                break
            if flags[kind] & IS_STACK:
                frame = 0
                while frame < second:
                    if limit - to < 256:
                        fault = FULL
                        break
                    if not take_full_line(cython.address(cursor)):
                        fault = CUT
                        break
                    kind = 0
                    # The line of a frame starts with a tab, its word with a newline and a tab: "pc=" is at 2.
                    to = read_arguments(
                        cursor.line,
                        cython.address(cursor),
                        first_piece,
                        first_size,
                        2,
                        4,
                        to,
                        keep_padding,
                        cython.address(ignored),
                        cython.address(fault),
                    )
                    if fault != FINE:
                        break
                    frame += 1
            elif flags[kind] & HAS_DATA:
                if not take_full_line(cython.address(cursor)):
                    fault = CUT
                else:
                    to = read_data(
                        cursor.line,
                        cursor.stop,
                        to,
                        limit,
                        keep_padding,
                        cython.address(cursor.where),
                        cython.address(fault),
                    )
            if fault != FINE:
                break
            events += 1
    if fault != FINE:
        to = done
    return (mark - base, to - begin, events, mark_lines, fault, cursor.where - base, kind, cursor.argument)
