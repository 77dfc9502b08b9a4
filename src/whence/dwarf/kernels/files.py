"""The files that a batch of line programs names, numbered in order of first mention.

A file is three numbers: the unit's compilation directory, and where directory and name stand. Programs of one directory
that name a header the same way share its number, so its path is put together once.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free, realloc
from cython.cimports.libc.string import memset
from cython.cimports.whence.dwarf.kernels.shared import u64

NO_NUMBER = cython.declare(cython.uint, 0xFFFFFFFF)
MIX = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def slot_of(files: cython.pointer[Files], comp_dir: u64, directory: u64, name: u64) -> u64:
    """Where to begin to look. Where the table lies is not for a file to know, so it cannot choose what collides."""
    value: u64 = (comp_dir * MIX ^ directory) * (cython.cast(u64, files) | 1)
    value = ((value ^ (value >> 29)) + name) * MIX
    return (value ^ (value >> 32)) & files.mask


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def more_slots(files: cython.pointer[Files]) -> cython.bint:
    """Four times as many; False when there is no memory."""
    at: u64
    old: cython.Py_ssize_t
    slot = cython.cast(cython.p_uint, calloc(4 * (files.mask + 1), 4))
    if slot == cython.NULL:
        return False
    free(files.slot)
    files.slot = slot
    files.mask = 4 * (files.mask + 1) - 1
    for old in range(files.count):
        row = files.rows + 3 * old
        at = slot_of(files, row[0], row[1], row[2])
        while files.slot[at]:
            at = (at + 1) & files.mask
        files.slot[at] = cython.cast(cython.uint, old + 1)
    return True


def file_number(files, comp_dir, directory, name):
    """The number of a file; NO_NUMBER when there is no memory."""
    at: u64
    more: cython.Py_ssize_t
    if 2 * cython.cast(u64, files.count + 1) > files.mask and not more_slots(files):
        return NO_NUMBER
    at = slot_of(files, comp_dir, directory, name)
    while files.slot[at]:
        row = files.rows + 3 * cython.cast(cython.Py_ssize_t, files.slot[at] - 1)
        if row[0] == comp_dir and row[1] == directory and row[2] == name:
            return files.slot[at] - 1
        at = (at + 1) & files.mask
    if files.count == files.room:
        more = 2 * files.room + 64
        block = realloc(files.rows, more * 24)
        if block == cython.NULL:
            return NO_NUMBER
        files.rows = cython.cast(cython.p_ulonglong, block)
        files.room = more
    row = files.rows + 3 * files.count
    row[0] = comp_dir
    row[1] = directory
    row[2] = name
    files.count += 1
    files.slot[at] = cython.cast(cython.uint, files.count)
    return cython.cast(cython.uint, files.count - 1)


def clear_files(files):
    files.count = 0
    if files.slot != cython.NULL:
        memset(files.slot, 0, 4 * (files.mask + 1))


def forget_files(files):
    free(files.rows)
    free(files.slot)
    files.rows = cython.NULL
    files.slot = cython.NULL
    files.count = files.room = 0
    files.mask = 0
