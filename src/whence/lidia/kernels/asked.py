"""What is asked: addresses from lines of text, and which texts the answers need."""

import cython
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memchr
from cython.cimports.whence.lidia.kernels.sections import MOST_TEXT

BAD = cython.declare(cython.uchar, 1)  # the line is not an address
NEVER = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
MIX = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _digit(letter: cython.uchar) -> cython.int:
    if 48 <= letter <= 57:
        return letter - 48
    if 97 <= letter <= 102:
        return letter - 87
    if 65 <= letter <= 70:
        return letter - 55
    return -1


def count_lines(data: cython.const[cython.uchar][::1]):
    """How many lines there are; what stands behind the last newline is one too."""
    at: cython.Py_ssize_t
    found: cython.Py_ssize_t = 0
    with cython.nogil:
        for at in range(data.shape[0]):
            if data[at] == 10:
                found += 1
        if data.shape[0] and data[data.shape[0] - 1] != 10:
            found += 1
    return found


def parse(
    data: cython.const[cython.uchar][::1],
    vaddrs: cython.ulonglong[::1],
    bad: cython.uchar[::1],
    start: cython.uint[::1],
    size: cython.uint[::1],
):
    """Each line is an address in hex, with or without 0x, with blanks around it. `start`, `size`: its text, trimmed.

    A line that is none, or one of more than 64 bits, is marked in `bad`. Gives how many are bad.
    """
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    row: cython.Py_ssize_t
    faults: cython.Py_ssize_t = 0
    value: cython.ulonglong
    digit: cython.int
    digits: cython.int
    newline: cython.p_void
    with cython.nogil:
        for row in range(vaddrs.shape[0]):
            newline = memchr(cython.address(data[at]), 10, data.shape[0] - at)
            end = data.shape[0]
            if newline != cython.NULL:
                end = cython.cast(cython.p_uchar, newline) - cython.cast(cython.p_uchar, cython.address(data[0]))
            stop = end
            while at < stop and data[at] <= 32:
                at += 1
            while stop > at and data[stop - 1] <= 32:
                stop -= 1
            start[row] = cython.cast(cython.uint, at)
            size[row] = cython.cast(cython.uint, stop - at)
            if stop - at > 2 and data[at] == 48 and (data[at + 1] | 32) == 120:
                at += 2
            value = 0
            digits = 0
            while at < stop:
                digit = _digit(data[at])
                if digit < 0 or value >> 60:
                    break
                value = value << 4 | cython.cast(cython.ulonglong, digit)
                digits += 1
                at += 1
            bad[row] = 0
            vaddrs[row] = value
            if at < stop or digits == 0:
                bad[row] = BAD
                vaddrs[row] = NEVER
                faults += 1
            at = end + 1
            if at > data.shape[0]:
                at = data.shape[0]
    return faults


def number_names(
    offset: cython.const[cython.ulonglong][::1],
    out: cython.uint[::1],
    distinct: cython.ulonglong[::1],
    seed: cython.ulonglong,
):
    """Number equal offsets alike, in order of first visit; `distinct` gets each once. Gives how many those are.

    `seed` is random, so that an archive cannot choose offsets that collide.
    """
    room: cython.ulonglong = 1024
    at: cython.Py_ssize_t
    found: cython.Py_ssize_t = 0
    slot: cython.ulonglong
    numbers: cython.p_uint
    while room < 2 * cython.cast(cython.ulonglong, offset.shape[0]):
        room *= 2
    numbers = cython.cast(cython.p_uint, calloc(room, 4))
    if numbers == cython.NULL:
        raise MemoryError
    with cython.nogil:
        for at in range(offset.shape[0]):
            if at and offset[at] == offset[at - 1]:
                out[at] = out[at - 1]
                continue
            slot = (offset[at] ^ seed) * MIX
            slot = (slot ^ slot >> 29) * (seed | 1)
            slot = (slot ^ slot >> 32) & (room - 1)
            while numbers[slot] and distinct[numbers[slot] - 1] != offset[at]:
                slot = (slot + 1) & (room - 1)
            if numbers[slot] == 0:
                distinct[found] = offset[at]
                found += 1
                numbers[slot] = cython.cast(cython.uint, found)
            out[at] = numbers[slot] - 1
    free(numbers)
    return found


def find_texts(
    strings: cython.const[cython.uchar][::1],
    nul: cython.bint,
    offset: cython.const[cython.ulonglong][::1],
    start: cython.ulonglong[::1],
    size: cython.uint[::1],
    mangled: cython.uint[::1],
):
    """Where the texts at offsets lie in the strings, MOST_TEXT bytes of each at most; one not inside is empty.

    `mangled` gets the rows whose text begins like a linkage name; gives how many.
    """
    at: cython.Py_ssize_t
    found: cython.Py_ssize_t = 0
    total: cython.ulonglong = strings.shape[0]
    length: cython.ulonglong
    here: cython.ulonglong
    end: cython.p_void
    first: cython.uchar
    second: cython.uchar
    with cython.nogil:
        for at in range(offset.shape[0]):
            here = offset[at]
            length = 0
            if here < total:
                if nul:
                    length = total - here if total - here < MOST_TEXT else MOST_TEXT
                    end = memchr(cython.address(strings[here]), 0, length)
                    if end == cython.NULL:
                        length = MOST_TEXT if total - here > MOST_TEXT else 0
                    else:
                        length = cython.cast(cython.p_uchar, end) - cython.cast(
                            cython.p_uchar, cython.address(strings[here])
                        )
                elif total - here >= 4:
                    length = (
                        cython.cast(cython.uint, strings[here]) | cython.cast(cython.uint, strings[here + 1]) << 8
                        | cython.cast(cython.uint, strings[here + 2]) << 16
                        | cython.cast(cython.uint, strings[here + 3]) << 24
                    )  # fmt: skip
                    here += 4
                    if length > total - here:
                        length = 0
                    if length > MOST_TEXT:
                        length = MOST_TEXT
            start[at] = here
            size[at] = cython.cast(cython.uint, length)
            if length > 2:
                first = strings[here]
                second = strings[here + 1]
                # _Z _R __ _D _T _$ $s $S ?
                if (
                    (first == 95 and (second in (90, 82, 95, 68, 84, 36)))
                    or (first == 36 and second in (115, 83))
                    or first == 63
                ):
                    mangled[found] = cython.cast(cython.uint, at)
                    found += 1
    return found


def together(rows: cython.const[cython.uint][::1], size: cython.const[cython.uint][::1]):
    """How many bytes the texts of these rows have together."""
    at: cython.Py_ssize_t
    found: cython.ulonglong = 0
    with cython.nogil:
        for at in range(rows.shape[0]):
            found += size[rows[at]]
    return found


def add(column: cython.uint[::1], base: cython.uint):
    """Add `base` to the column."""
    at: cython.Py_ssize_t
    with cython.nogil:
        for at in range(column.shape[0]):
            column[at] += base
