"""The text of /proc/PID/maps into columns: one pass, no copy.

A line is `start-limit perms offset major:minor inode   name`: hexadecimal but for the inode; the name is the rest of
the line and may hold spaces. A line that is not so is counted, its offset kept, and the next one read.
"""

import cython


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def hex_digit(c: cython.uchar) -> cython.int:
    if 48 <= c <= 57:
        return c - 48
    if 97 <= c <= 102:
        return c - 87
    if 65 <= c <= 70:
        return c - 55
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
    """Read 1 to 16 hexadecimal digits at `at`; gives the offset after them, or -1."""
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
    """Read 1 to 20 decimal digits at `at`; gives the offset after them, or -1."""
    total: cython.ulonglong = 0
    first: cython.Py_ssize_t = at
    while at < end and 48 <= data[at] <= 57:
        total = total * 10 + cython.cast(cython.ulonglong, data[at] - 48)
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
    data: cython.const[cython.uchar][::1],
    wanted: cython.uint,
    starts: cython.ulonglong[::1],
    limits: cython.ulonglong[::1],
    permissions: cython.uchar[::1],
    offsets: cython.ulonglong[::1],
    devices: cython.ulonglong[::1],
    inodes: cython.ulonglong[::1],
    name_starts: cython.ulonglong[::1],
    name_ends: cython.ulonglong[::1],
    bad: cython.ulonglong[::1],
) -> tuple[int, int, int]:
    """Fill a row for each line whose permission bits include `wanted` (1 read, 2 write, 4 execute, 8 shared).

    All row columns have the length of `starts`. Offsets of lines that break the rule go to `bad` while it has room.
    Gives (rows, bad lines, offset): the offset is where reading stopped, len(data) unless the columns were full.
    """
    size: cython.Py_ssize_t = data.shape[0]
    room: cython.Py_ssize_t = starts.shape[0]
    bad_room: cython.Py_ssize_t = bad.shape[0]
    rows: cython.Py_ssize_t = 0
    wrong: cython.Py_ssize_t = 0
    line: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    start: cython.ulonglong = 0
    limit: cython.ulonglong = 0
    offset: cython.ulonglong = 0
    major: cython.ulonglong = 0
    minor: cython.ulonglong = 0
    inode: cython.ulonglong = 0
    bits: cython.uint
    with cython.nogil:
        while line < size:
            end = line
            while end < size and data[end] != 10:
                end += 1
            if end == line:  # an empty line says nothing
                line = end + 1
                continue
            if rows >= room:
                break
            bits = 0
            at = hex_number(data, line, end, cython.address(start))
            at = separator(data, at, end, 45)
            if at >= 0:
                at = hex_number(data, at, end, cython.address(limit))
            at = separator(data, at, end, 32)
            if at >= 0 and at + 4 <= end:
                bits |= 1 if data[at] == 114 else 0
                bits |= 2 if data[at + 1] == 119 else 0
                bits |= 4 if data[at + 2] == 120 else 0
                bits |= 8 if data[at + 3] == 115 else 0
                at = separator(data, at + 4, end, 32)
            else:
                at = -1
            if at >= 0:
                at = hex_number(data, at, end, cython.address(offset))
            at = separator(data, at, end, 32)
            if at >= 0:
                at = hex_number(data, at, end, cython.address(major))
            at = separator(data, at, end, 58)
            if at >= 0:
                at = hex_number(data, at, end, cython.address(minor))
            at = separator(data, at, end, 32)
            if at >= 0:
                at = decimal_number(data, at, end, cython.address(inode))
            if at >= 0 and at < end and data[at] != 32:
                at = -1
            if at < 0 or limit <= start or major >> 32 != 0 or minor >> 32 != 0:
                if wrong < bad_room:
                    bad[wrong] = line
                wrong += 1
                line = end + 1
                continue
            if bits & wanted == wanted:
                while at < end and data[at] == 32:
                    at += 1
                starts[rows] = start
                limits[rows] = limit
                permissions[rows] = bits
                offsets[rows] = offset
                # makedev(3): stat(2) tells devices so
                devices[rows] = (minor & 0xFF) | ((major & 0xFFF) << 8) | ((minor >> 8) << 20) | ((major >> 12) << 44)
                inodes[rows] = inode
                name_starts[rows] = at
                name_ends[rows] = end
                rows += 1
            line = end + 1
    return rows, wrong, line if line < size else size
