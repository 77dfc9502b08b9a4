"""Kernel: bodies of functions and their names, as a symbol table of ELF's form."""

import cython
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.kernels.bytes import LONGEST_ULEB_32, checked_uleb, store_number
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.signals import handle_signals

from whence.kernels.columns import Column as new_column

ENTRY = cython.declare(cython.Py_ssize_t, 16)  # of ELF's 32-bit symbol table
GLOBAL_FUNCTION = cython.declare(cython.uchar, 0x12)
FUNCTION = cython.declare(cython.uchar, 0)  # kind of an export


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def take(
    data: cython.const[cython.uchar][::1], offset: cython.p_longlong, end: cython.longlong, value: cython.p_ulonglong
) -> cython.bint:
    """Read a LEB128 number of 32 bits and move past it. False if it is cut off or too long."""
    if offset[0] >= end:
        return False
    start: cython.pointer[cython.const[cython.uchar]] = cython.address(data[0])
    size: cython.int = checked_uleb(start + offset[0], start + end, value)
    if size <= 0 or size > LONGEST_ULEB_32 or value[0] >> 32:
        return False
    offset[0] += size
    return True


def bodies(data: cython.const[cython.uchar][::1], start: cython.longlong, end: cython.longlong):
    """Return the bounds of function bodies from the start of a code section, and the offset of a fault or -1.

    The bounds are in a column: start and end of each body in turn.
    """
    out: Column = new_column("Q")
    offset: cython.longlong = start
    count: cython.ulonglong = 0
    size: cython.ulonglong = 0
    fault: cython.longlong = -1
    memory: cython.bint = True
    work: cython.Py_ssize_t = 0
    belong(0 <= start <= end <= data.shape[0])
    with cython.nogil:
        if not take(data, cython.address(offset), end, cython.address(count)):
            fault = offset
            count = 0
        while count > 0:
            handle_signals(cython.address(work), 1)
            count -= 1
            if not take(data, cython.address(offset), end, cython.address(size)) or size > cython.cast(
                cython.ulonglong, end - offset
            ):
                fault = offset
                break
            if not (out.push_u64(offset - start) and out.push_u64(offset - start + size)):
                memory = False
                break
            offset += size
    if not memory:
        raise MemoryError
    return out, fault


def named(
    content: cython.const[cython.uchar][::1],
    start: cython.longlong,
    end: cython.longlong,
    exported: cython.bint,
    functions: cython.const[cython.ulonglong][::1],
    imports: cython.ulonglong,
    section: cython.uint,
    table: cython.uchar[::1],
    names: cython.uchar[::1],
):
    """Write a list of names as entries of a symbol table; return their bytes, the bytes of names and a fault or -1.

    The list is that of the name section (index, name) or of exports (name, kind, index). `functions` are bounds of
    bodies as `bodies` returns them; names of the first `imports` functions are left out. Entries and names follow those
    that the caller has written; both end where the arrays end.
    """
    offset: cython.longlong = start
    count: cython.ulonglong = 0
    index: cython.ulonglong = 0
    size: cython.ulonglong = 0
    fault: cython.longlong = -1
    written: cython.Py_ssize_t = ENTRY
    used: cython.Py_ssize_t = 1
    defined: cython.ulonglong = functions.shape[0] // 2
    work: cython.Py_ssize_t = 0
    belong(0 <= start <= end <= content.shape[0] and table.shape[0] >= ENTRY and names.shape[0] >= 1)
    with cython.nogil:
        if not take(content, cython.address(offset), end, cython.address(count)):
            fault = offset
            count = 0
        while count > 0:
            handle_signals(cython.address(work), 1)
            count -= 1
            if not exported and not take(content, cython.address(offset), end, cython.address(index)):
                fault = offset
                break
            if not take(content, cython.address(offset), end, cython.address(size)) or size > cython.cast(
                cython.ulonglong, end - offset
            ):
                fault = offset
                break
            text: cython.longlong = offset
            offset += size
            if exported:
                kind: cython.uchar = 1
                if offset < end:
                    kind = content[offset]
                    offset += 1
                if not take(content, cython.address(offset), end, cython.address(index)):
                    fault = offset
                    break
                if kind != FUNCTION:
                    continue
            if index < imports or index - imports >= defined:
                continue
            length: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, size)
            if written + ENTRY > table.shape[0] or used + length + 1 > names.shape[0]:
                fault = offset
                break
            row: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, index - imports) * 2
            p: cython.p_uchar = cython.address(table[written])
            store_number(p, 4, False, used)
            store_number(p + 4, 4, False, functions[row])
            store_number(p + 8, 4, False, functions[row + 1] - functions[row])
            p[12] = GLOBAL_FUNCTION
            p[13] = 0
            store_number(p + 14, 2, False, section)
            if length:
                memcpy(cython.address(names[used]), cython.address(content[text]), length)
            used += length
            names[used] = 0
            used += 1
            written += ENTRY
    return written, used, fault
