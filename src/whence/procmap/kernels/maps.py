"""Parse the text of /proc/PID/maps into columns, in one pass, without copies.

A line is `start-end perms offset major:minor inode   name`: hexadecimal except the inode; the name is the rest of the
line and may contain spaces. Malformed lines are counted, and their offsets stored.
"""

import cython
from cython.cimports.whence.kernels.bytes import hex_digit, is_digit
from cython.cimports.whence.procmap.kernels import constants as c


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def hex_number(
    data: cython.const[cython.uchar][::1],
    offset: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    value: cython.pointer[cython.ulonglong],
) -> cython.Py_ssize_t:
    """Read 1 to 16 hexadecimal digits at `offset`; return the offset after them, or -1."""
    total: cython.ulonglong = 0
    first: cython.Py_ssize_t = offset
    while offset < end:
        digit: cython.int = hex_digit(data[offset])
        if digit < 0:
            break
        total = (total << 4) | cython.cast(cython.ulonglong, digit)
        offset += 1
    if offset == first or offset - first > 16:
        return -1
    value[0] = total
    return offset


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def decimal_number(
    data: cython.const[cython.uchar][::1],
    offset: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    value: cython.pointer[cython.ulonglong],
) -> cython.Py_ssize_t:
    """Read 1 to 20 decimal digits at `offset`; return the offset after them, or -1."""
    total: cython.ulonglong = 0
    first: cython.Py_ssize_t = offset
    while offset < end and is_digit(data[offset]):
        total = total * 10 + cython.cast(cython.ulonglong, hex_digit(data[offset]))
        offset += 1
    if offset == first or offset - first > 20:
        return -1
    value[0] = total
    return offset


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def separator(
    data: cython.const[cython.uchar][::1], offset: cython.Py_ssize_t, end: cython.Py_ssize_t, required: cython.uchar
) -> cython.Py_ssize_t:
    """Return the offset after the byte `required` at `offset`, or -1 (even if `offset` is -1)."""
    if offset < 0 or offset >= end or data[offset] != required:
        return -1
    return offset + 1


def parse_maps(
    data: cython.const[cython.uchar][::1], required: cython.uint, columns, bad: cython.ulonglong[::1]
) -> tuple[int, int, int]:
    """Fill a row of a maps.MapsColumns for each line whose permission bits include `required`.

    All columns have the length of `start`. Offsets of malformed lines are written to `bad` while it has space. Returns
    (rows, malformed lines, offset): the offset where reading stopped, len(data) unless the columns are full.
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
    capacity: cython.Py_ssize_t = starts.shape[0]
    bad_capacity: cython.Py_ssize_t = bad.shape[0]
    rows: cython.Py_ssize_t = 0
    wrong: cython.Py_ssize_t = 0
    line: cython.Py_ssize_t = 0
    start: cython.ulonglong = 0
    end: cython.ulonglong = 0
    offset: cython.ulonglong = 0
    major: cython.ulonglong = 0
    minor: cython.ulonglong = 0
    inode: cython.ulonglong = 0
    with cython.nogil:
        while line < size:
            line_end: cython.Py_ssize_t = line
            while line_end < size and data[line_end] != b"\n":
                line_end += 1
            if line_end == line:
                line = line_end + 1
                continue
            if rows >= capacity:
                break
            bits: cython.uint = 0
            position: cython.Py_ssize_t = hex_number(data, line, line_end, cython.address(start))
            position = separator(data, position, line_end, b"-")
            if position >= 0:
                position = hex_number(data, position, line_end, cython.address(end))
            position = separator(data, position, line_end, b" ")
            if position >= 0 and position + 4 <= line_end:
                bits |= c.READ if data[position] == b"r" else 0
                bits |= c.WRITE if data[position + 1] == b"w" else 0
                bits |= c.EXECUTE if data[position + 2] == b"x" else 0
                bits |= c.SHARED if data[position + 3] == b"s" else 0
                position = separator(data, position + 4, line_end, b" ")
            else:
                position = -1
            if position >= 0:
                position = hex_number(data, position, line_end, cython.address(offset))
            position = separator(data, position, line_end, b" ")
            if position >= 0:
                position = hex_number(data, position, line_end, cython.address(major))
            position = separator(data, position, line_end, b":")
            if position >= 0:
                position = hex_number(data, position, line_end, cython.address(minor))
            position = separator(data, position, line_end, b" ")
            if position >= 0:
                position = decimal_number(data, position, line_end, cython.address(inode))
            if position >= 0 and position < line_end and data[position] != b" ":
                position = -1
            if position < 0 or end <= start or major >> 32 != 0 or minor >> 32 != 0:
                if wrong < bad_capacity:
                    bad[wrong] = line
                wrong += 1
                line = line_end + 1
                continue
            if bits & required == required:
                while position < line_end and data[position] == b" ":
                    position += 1
                starts[rows] = start
                ends[rows] = end
                permissions[rows] = bits
                offsets[rows] = offset
                # makedev(3), as stat(2) reports devices
                devices[rows] = (minor & 0xFF) | ((major & 0xFFF) << 8) | ((minor >> 8) << 20) | ((major >> 12) << 44)
                inodes[rows] = inode
                name_starts[rows] = position
                name_ends[rows] = line_end
                rows += 1
            line = line_end + 1
    return rows, wrong, line if line < size else size
