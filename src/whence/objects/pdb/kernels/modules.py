"""Kernel: the lists of modules and of section contributions in a DBI stream."""

import cython
from cython.cimports.whence.kernels.bytes import u16, u32
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.signals import handle_signals

HEADER = cython.declare(cython.Py_ssize_t, 64)  # of a module, before its two names
STREAM = cython.declare(cython.int, 34)  # offsets in a module
SYMBOLS = cython.declare(cython.int, 36)
C11 = cython.declare(cython.int, 40)
C13 = cython.declare(cython.int, 44)
TOP = cython.declare(cython.ulonglong, 0xFFFFFFFF)  # RVAs have 32 bits


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def after_name(data: cython.p_const_uchar, offset: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the offset after the NUL of a name; size + 1 without one."""
    while offset < size and data[offset]:
        offset += 1
    return offset + 1


def read_modules(data: cython.const[cython.uchar][::1], columns) -> tuple[int, bool]:
    """Fill the columns of a dbi.Modules; return the number of modules, and whether the list is damaged after them."""
    stream: cython.uint[::1] = columns.stream
    symbols: cython.uint[::1] = columns.symbols
    c11: cython.uint[::1] = columns.c11
    c13: cython.uint[::1] = columns.c13
    names: cython.uint[::1] = columns.names
    size: cython.Py_ssize_t = data.shape[0]
    capacity: cython.Py_ssize_t = stream.shape[0]
    count: cython.Py_ssize_t = 0
    offset: cython.Py_ssize_t = 0
    work: cython.Py_ssize_t = 0
    damaged: cython.bint = False
    belong(min(symbols.shape[0], c11.shape[0], c13.shape[0], names.shape[0]) >= capacity)
    if size == 0:
        return 0, False
    start: cython.p_const_uchar = cython.address(data[0])
    with cython.nogil:
        while offset <= size - HEADER and count < capacity:
            handle_signals(cython.address(work), 4)
            module: cython.p_const_uchar = start + offset
            stream[count] = u16(module + STREAM, False)
            symbols[count] = u32(module + SYMBOLS, False)
            c11[count] = u32(module + C11, False)
            c13[count] = u32(module + C13, False)
            names[count] = cython.cast(cython.uint, offset + HEADER)
            offset = after_name(start, after_name(start, offset + HEADER, size), size)
            if offset > size:
                damaged = True
                break
            offset = (offset + 3) & ~3
            count += 1
    return count, damaged or offset < size


def read_contributions(
    data: cython.const[cython.uchar][::1], stride: cython.int, sections: cython.const[cython.uint][::1],
    modules: cython.uint, columns: tuple,
) -> int:  # fmt: skip
    """Fill the columns of a dbi.Contributions with the valid contributions that are not empty; return their number."""
    belong(len(columns) == 3)
    start: cython.uint[::1] = columns[0]
    end: cython.uint[::1] = columns[1]
    module: cython.uint[::1] = columns[2]
    count: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t
    work: cython.Py_ssize_t = 0
    belong(stride >= 28 and data.shape[0] >= 4)
    rows: cython.Py_ssize_t = (data.shape[0] - 4) // stride
    belong(min(start.shape[0], end.shape[0], module.shape[0]) >= rows)
    first: cython.p_const_uchar = cython.address(data[0]) + 4
    with cython.nogil:
        for row in range(rows):
            handle_signals(cython.address(work), 2)
            entry: cython.p_const_uchar = first + row * stride
            section: cython.uint = u16(entry, False)
            size: cython.ulonglong = u32(entry + 8, False)
            index: cython.uint = u16(entry + 16, False)
            if section == 0 or section >= cython.cast(cython.uint, sections.shape[0]) or index >= modules:
                continue
            vaddr: cython.ulonglong = cython.cast(cython.ulonglong, sections[section]) + u32(entry + 4, False)
            if size == 0 or vaddr + size > TOP:
                continue
            start[count] = cython.cast(cython.uint, vaddr)
            end[count] = cython.cast(cython.uint, vaddr + size)
            module[count] = index
            count += 1
    return count
