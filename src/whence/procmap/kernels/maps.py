"""The text of /proc/PID/maps into columns: one pass, no copy.

A line is `start-end perms offset major:minor inode   name`: hexadecimal but for the inode; the name is the rest of
the line and may hold spaces. A line that is not so is counted, its offset kept, and the next one read.
"""

import cython
from cython.cimports.whence.procmap.kernels.constants import EXECUTE, READ, SHARED, WRITE

ZERO = cython.declare(cython.uchar, ord("0"))
LOWER_A = cython.declare(cython.uchar, ord("a"))
UPPER_A = cython.declare(cython.uchar, ord("A"))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def hex_digit(c: cython.uchar) -> cython.int:
    if b"0" <= c <= b"9":
        return c - ZERO
    if b"a" <= c <= b"f":
        return c - LOWER_A + 10
    if b"A" <= c <= b"F":
        return c - UPPER_A + 10
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def hex_number(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    value: cython.pointer[cython.ulonglong],
) -> cython.Py_ssize_t:
    """Read 1 to 16 hexadecimal digits at `at`. Returns the offset after them, or -1."""
    total: cython.ulonglong = 0
    first: cython.Py_ssize_t = at
    digit: cython.int
    while at < end:
        digit = hex_digit(data[at])
        if digit < 0:
            break
        total = (total << 4) | cython.cast(cython.ulonglong, digit)
        at += 1
    if at == first or at - first > 16:
        return -1
    value[0] = total
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def decimal_number(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    value: cython.pointer[cython.ulonglong],
) -> cython.Py_ssize_t:
    """Read 1 to 20 decimal digits at `at`. Returns the offset after them, or -1."""
    total: cython.ulonglong = 0
    first: cython.Py_ssize_t = at
    while at < end and b"0" <= data[at] <= b"9":
        total = total * 10 + cython.cast(cython.ulonglong, data[at] - ZERO)
        at += 1
    if at == first or at - first > 20:
        return -1
    value[0] = total
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def separator(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t, wanted: cython.uchar
) -> cython.Py_ssize_t:
    """The offset after the byte `wanted` at `at`, or -1 (also when `at` is -1 already)."""
    if at < 0 or at >= end or data[at] != wanted:
        return -1
    return at + 1


def parse_maps(
    data: cython.const[cython.uchar][::1], wanted: cython.uint, columns, bad: cython.ulonglong[::1]
) -> tuple[int, int, int]:
    """Fill a row of a maps.MapsColumns for each line whose permission bits include `wanted`.

    All row columns have the length of `start`. Offsets of lines that break the rule go to `bad` while it has room.
    Returns (rows, bad lines, offset): the offset is where reading stopped, len(data) unless the columns were full.
    """
    starts: cython.ulonglong[::1] = columns.start
    ends: cython.ulonglong[::1] = columns.end
    permissions: cython.uchar[::1] = columns.permissions
    offsets: cython.ulonglong[::1] = columns.offset
    devices: cython.ulonglong[::1] = columns.device
    inodes: cython.ulonglong[::1] = columns.inode
    name_starts: cython.ulonglong[::1] = columns.name_start
    name_ends: cython.ulonglong[::1] = columns.name_end
    size: cython.Py_ssize_t = data.shape[0]
    room: cython.Py_ssize_t = starts.shape[0]
    bad_room: cython.Py_ssize_t = bad.shape[0]
    rows: cython.Py_ssize_t = 0
    wrong: cython.Py_ssize_t = 0
    line: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    line_end: cython.Py_ssize_t
    start: cython.ulonglong = 0
    end: cython.ulonglong = 0
    offset: cython.ulonglong = 0
    major: cython.ulonglong = 0
    minor: cython.ulonglong = 0
    inode: cython.ulonglong = 0
    bits: cython.uint
    with cython.nogil:
        while line < size:
            line_end = line
            while line_end < size and data[line_end] != b"\n":
                line_end += 1
            if line_end == line:  # an empty line says nothing
                line = line_end + 1
                continue
            if rows >= room:
                break
            bits = 0
            at = hex_number(data, line, line_end, cython.address(start))
            at = separator(data, at, line_end, b"-")
            if at >= 0:
                at = hex_number(data, at, line_end, cython.address(end))
            at = separator(data, at, line_end, b" ")
            if at >= 0 and at + 4 <= line_end:
                bits |= READ if data[at] == b"r" else 0
                bits |= WRITE if data[at + 1] == b"w" else 0
                bits |= EXECUTE if data[at + 2] == b"x" else 0
                bits |= SHARED if data[at + 3] == b"s" else 0
                at = separator(data, at + 4, line_end, b" ")
            else:
                at = -1
            if at >= 0:
                at = hex_number(data, at, line_end, cython.address(offset))
            at = separator(data, at, line_end, b" ")
            if at >= 0:
                at = hex_number(data, at, line_end, cython.address(major))
            at = separator(data, at, line_end, b":")
            if at >= 0:
                at = hex_number(data, at, line_end, cython.address(minor))
            at = separator(data, at, line_end, b" ")
            if at >= 0:
                at = decimal_number(data, at, line_end, cython.address(inode))
            if at >= 0 and at < line_end and data[at] != b" ":
                at = -1
            if at < 0 or end <= start or major >> 32 != 0 or minor >> 32 != 0:
                if wrong < bad_room:
                    bad[wrong] = line
                wrong += 1
                line = line_end + 1
                continue
            if bits & wanted == wanted:
                while at < line_end and data[at] == b" ":
                    at += 1
                starts[rows] = start
                ends[rows] = end
                permissions[rows] = bits
                offsets[rows] = offset
                # makedev(3): stat(2) tells devices so
                devices[rows] = (minor & 0xFF) | ((major & 0xFFF) << 8) | ((minor >> 8) << 20) | ((major >> 12) << 44)
                inodes[rows] = inode
                name_starts[rows] = at
                name_ends[rows] = line_end
                rows += 1
            line = line_end + 1
    return rows, wrong, line if line < size else size
