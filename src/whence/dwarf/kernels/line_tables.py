"""The directory and file tables of a line program's header (DWARF 5, section 6.2.4), over bytes and columns.

`read_tables` is for the kernel that reads many programs at once; `old_tables` and `entries` for line_header.py.
"""

import cython
from cython.cimports.libc.string import memset
from cython.cimports.whence.dwarf.kernels.constants import (
    DW_FORM_block,
    DW_FORM_block1,
    DW_FORM_block2,
    DW_FORM_block4,
    DW_FORM_data1,
    DW_FORM_data2,
    DW_FORM_data4,
    DW_FORM_data8,
    DW_FORM_data16,
    DW_FORM_flag,
    DW_FORM_GNU_str_index,
    DW_FORM_GNU_strp_alt,
    DW_FORM_line_strp,
    DW_FORM_sdata,
    DW_FORM_sec_offset,
    DW_FORM_string,
    DW_FORM_strp,
    DW_FORM_strp_sup,
    DW_FORM_strx,
    DW_FORM_strx1,
    DW_FORM_strx2,
    DW_FORM_strx3,
    DW_FORM_strx4,
    DW_FORM_udata,
    DW_LNCT_directory_index,
    DW_LNCT_path,
)
from cython.cimports.whence.dwarf.kernels.reading import number, uleb
from cython.cimports.whence.dwarf.kernels.shared import u64

# What a table ends with; worded in line_header.py, with the faults of lines_kernel.
DONE = cython.declare(cython.int, 0)
CUT_SHORT = cython.declare(cython.int, 3)
BAD_FORM = cython.declare(cython.int, 7)
# The form's byte of a place, as line_files.py has them.
STRING = cython.declare(u64, cython.cast(u64, DW_FORM_string) << 56)
LARGEST_CODE = cython.declare(u64, 0xFFFF)  # of content types and forms; what is beyond has no meaning
GNU_STR_INDEX_BYTE = cython.declare(cython.int, DW_FORM_GNU_str_index & 0xFF)


def read_old(data, at, end, directories, files, parents, fill, found):
    """What `old_tables` does."""
    n: cython.Py_ssize_t = 0
    m: cython.Py_ssize_t = 0
    name: cython.ulonglong
    parent: cython.ulonglong
    status: cython.int = 0
    while True:
        name = at
        while at < end and data[at] != 0:
            at += 1
        if at >= end:
            status = CUT_SHORT
            break
        at += 1
        if at == name + 1:
            break
        if fill:
            directories[n] = STRING | name
        n += 1
    while status == DONE:
        name = at
        while at < end and data[at] != 0:
            at += 1
        if at >= end:
            status = CUT_SHORT
            break
        at += 1
        if at == name + 1:
            break
        parent = uleb(data, cython.address(at), end)
        uleb(data, cython.address(at), end)
        uleb(data, cython.address(at), end)
        if at > end:
            status = CUT_SHORT
            break
        if fill:
            files[m] = STRING | name
            parents[m] = parent
        m += 1
    found.directories = n
    found.files = m
    found.at = at
    return status


def read_entries(data, at, end, formats, format_count, wide, big, names, parents, room, found):
    """What `entries` does."""
    n: cython.Py_ssize_t
    f: cython.Py_ssize_t
    size: cython.ulonglong
    form: cython.ulonglong
    content: cython.ulonglong
    value: cython.ulonglong
    status: cython.int = 0
    offset: cython.Py_ssize_t = 8 if wide else 4
    start: cython.ulonglong = at
    done: cython.Py_ssize_t = 0
    for n in range(room):
        for f in range(format_count):
            content = formats[2 * f]
            form = formats[2 * f + 1]
            value = 0
            size = 0
            start = at
            if form == DW_FORM_string:
                value = at
                while at < end and data[at] != 0:
                    at += 1
                size = 1
            elif form in (DW_FORM_line_strp, DW_FORM_strp, DW_FORM_strp_sup, DW_FORM_sec_offset, DW_FORM_GNU_strp_alt):
                size = offset
            elif form in (DW_FORM_udata, DW_FORM_strx, DW_FORM_sdata, DW_FORM_GNU_str_index):
                value = uleb(data, cython.address(at), end)
            elif form in (DW_FORM_data1, DW_FORM_strx1, DW_FORM_flag):
                size = 1
            elif form in (DW_FORM_data2, DW_FORM_strx2):
                size = 2
            elif form == DW_FORM_strx3:
                size = 3
            elif form in (DW_FORM_data4, DW_FORM_strx4):
                size = 4
            elif form == DW_FORM_data8:
                size = 8
            elif form == DW_FORM_data16:
                size = 16
            elif form == DW_FORM_block:
                size = uleb(data, cython.address(at), end)
            elif form in (DW_FORM_block1, DW_FORM_block2, DW_FORM_block4):
                value = 1 if form == DW_FORM_block1 else 2 if form == DW_FORM_block2 else 4
                if end - at < value:
                    at = end + 1
                else:
                    size = number(data + at, value, big)
                    at += value
            else:
                status = BAD_FORM
                break
            if at > end or size > end - at:
                status = CUT_SHORT
                break
            if 0 < size <= 8 and form not in (
                DW_FORM_string, DW_FORM_block, DW_FORM_block1, DW_FORM_block2, DW_FORM_block4
            ):  # fmt: skip
                value = number(data + at, size, big)
            at += size
            if content == DW_LNCT_path:
                names[n] = form << 56 | value << 8 >> 8
            elif content == DW_LNCT_directory_index:
                parents[n] = value
        if status != DONE:
            break
        done = n + 1
    found.files = done
    found.at = start if status else at
    return status


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def make_room(tables: cython.pointer[Tables], need: cython.Py_ssize_t) -> cython.bint:
    """Room for so many places; False when there is no memory."""
    if need > tables.room:
        block = grown(tables.block, cython.address(tables.room), need, 8)
        if block == cython.NULL:
            return False
        tables.block = cython.cast(cython.p_ulonglong, block)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def counts_strings(place: u64) -> cython.bint:
    """Does a place count strings (DW_FORM_strx and its sizes, GNU_str_index) instead of saying where one is?"""
    form: cython.int = cython.cast(cython.int, place >> 56)
    return form == DW_FORM_strx or DW_FORM_strx1 <= form <= DW_FORM_strx4 or form == GNU_STR_INDEX_BYTE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_table(
    tables: cython.pointer[Tables], data: cython.pointer[cython.const[cython.uchar]], at: cython.p_ulonglong, end: u64,
    wide: cython.bint, big: cython.bint, names: cython.Py_ssize_t,
) -> cython.Py_ssize_t:  # fmt: skip
    """A version 5 table: its names lie from place `names` of the block on, behind them as many parents. Gives how
    many, or less than 0: -ODD, -NO_MEMORY."""
    formats: cython.ulonglong[512]
    count: u64
    step: cython.Py_ssize_t
    width: cython.Py_ssize_t
    found: Counts
    if at[0] >= end:
        return -ODD
    width = data[at[0]]
    at[0] += 1
    for step in range(2 * width):
        formats[step] = uleb(data, at, end)
        formats[step] = min(formats[step], LARGEST_CODE)
    count = uleb(data, at, end)
    if at[0] > end or count > (end - at[0]) // (width if width else 1) or (count and not width):
        return -ODD
    if not make_room(tables, names + 2 * count):
        return -NO_MEMORY
    if count:
        block = tables.block + names
        memset(block, 0, 16 * count)
        if read_entries(
            data, at[0], end, formats, width, wide, big, block, block + count, count, cython.address(found)
        ):
            return -ODD
        if counts_strings(block[0]):
            return -ODD  # its strings are found through the unit
        at[0] = found.at
    return count


def read_tables(tables, data, at, end, version, wide, big):
    """The tables that begin at `at`, of a header that ends at `end`. ODD unless they keep every rule and say themselves
    where their strings are."""
    found: Counts
    directories: cython.Py_ssize_t
    files: cython.Py_ssize_t
    if version == 5:
        directories = read_table(tables, data, cython.address(at), end, wide, big, 0)
        if directories < 0:
            return -directories
        files = read_table(tables, data, cython.address(at), end, wide, big, 2 * directories)
        if files < 0:
            return -files
        tables.names = tables.block + 2 * directories
    else:
        if read_old(data, at, end, cython.NULL, cython.NULL, cython.NULL, False, cython.address(found)):
            return ODD
        directories = found.directories
        files = found.files
        if not make_room(tables, directories + 2 * files):
            return NO_MEMORY
        tables.names = tables.block + directories
        read_old(data, at, end, tables.block, tables.names, tables.names + files, True, cython.address(found))
    tables.directories = tables.block
    tables.parents = tables.names + files
    tables.directory_count = directories
    tables.file_count = files
    return GOOD


def old_tables(
    data: cython.const[cython.uchar][::1],
    at: cython.ulonglong,
    end: cython.ulonglong,
    directories: cython.ulonglong[::1],
    files: cython.ulonglong[::1],
    parents: cython.ulonglong[::1],
    fill: cython.bint,
):
    """The tables of versions 2 to 4 (6.2.4 of DWARF 4): where each name starts, and each file's directory.

    With `fill` false the columns are not touched: the counts say how long they must be. Gives (directories, files,
    what it stopped with, offset).
    """
    found: Counts
    status: cython.int
    with cython.nogil:
        status = read_old(
            cython.address(data[0]), at, end, cython.address(directories[0]) if directories.shape[0] else cython.NULL,
            cython.address(files[0]) if files.shape[0] else cython.NULL,
            cython.address(parents[0]) if parents.shape[0] else cython.NULL, fill, cython.address(found),
        )  # fmt: skip
    return found.directories, found.files, status, found.at


def entries(
    data: cython.const[cython.uchar][::1],
    at: cython.ulonglong,
    end: cython.ulonglong,
    formats: cython.const[cython.ulonglong][::1],
    wide: cython.bint,
    big: cython.bint,
    names: cython.ulonglong[::1],
    parents: cython.ulonglong[::1],
):
    """Entries of a version 5 directory or file table, as many as `names` holds.

    `formats` has pairs of content type and form. A name is `form << 56 | number`: an offset into the section the form
    means (a place in `data` for DW_FORM_string) or an index. Gives (entries, what it stopped with, offset).
    """
    found: Counts
    status: cython.int
    if names.shape[0] == 0:
        return 0, DONE, at
    with cython.nogil:
        status = read_entries(
            cython.address(data[0]), at, end, cython.address(formats[0]) if formats.shape[0] else cython.NULL,
            formats.shape[0] // 2, wide, big, cython.address(names[0]), cython.address(parents[0]), names.shape[0],
            cython.address(found),
        )  # fmt: skip
    return found.files, status, found.at
