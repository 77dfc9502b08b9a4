"""Kernel: symbols of formats that give them no size, as a symbol table of ELF's form."""

import cython
from cython.cimports.whence.kernels.bytes import store_number
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.signals import handle_signals

ENTRY_64 = cython.declare(cython.Py_ssize_t, 24)
ENTRY_32 = cython.declare(cython.Py_ssize_t, 16)
MOST_SECTIONS = cython.declare(cython.Py_ssize_t, 0xFF00)  # higher indexes are reserved


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def first_after(
    numbers: cython.const[cython.ulonglong][::1], value: cython.ulonglong, other: cython.ulonglong
) -> cython.ulonglong:
    """Return the first of ascending numbers that is above a value; `other` if none is, or if that is less."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = numbers.shape[0]
    while low < high:
        middle: cython.Py_ssize_t = (low + high) >> 1
        if numbers[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return numbers[low] if low < numbers.shape[0] and numbers[low] < other else other


def entries(symbols, values, starts, limits, bases, elf64: cython.bint, big: cython.bint, table: cython.uchar[::1]):
    """Write the entries of a symbol table after its empty first one.

    Each symbol extends to the next value or start, at most to the limit of its section. `values` and `starts` ascend.
    `bases` are subtracted from the values, by section. A symbol whose value does not fit is of section 0, which means
    undefined.
    """
    name: cython.const[cython.uint][::1] = symbols.name
    value: cython.const[cython.ulonglong][::1] = symbols.value
    info: cython.const[cython.uchar][::1] = symbols.info
    section: cython.const[cython.uint][::1] = symbols.section
    ends: cython.const[cython.ulonglong][::1] = values
    functions: cython.const[cython.ulonglong][::1] = starts
    limit: cython.const[cython.ulonglong][::1] = limits
    base: cython.const[cython.ulonglong][::1] = bases
    count: cython.Py_ssize_t = value.shape[0]
    index: cython.Py_ssize_t
    size: cython.Py_ssize_t = ENTRY_64 if elf64 else ENTRY_32
    belong(
        min(name.shape[0], info.shape[0], section.shape[0]) >= count
        and table.shape[0] >= (count + 1) * size
        and limit.shape[0] <= MOST_SECTIONS
        and base.shape[0] >= limit.shape[0]
    )
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for index in range(count):
            handle_signals(cython.address(work), 4)
            p: cython.p_uchar = cython.address(table[(index + 1) * size])
            number: cython.uint = section[index]
            end: cython.ulonglong = 0
            if number < limit.shape[0]:
                end = first_after(ends, value[index], limit[number])
                end = first_after(functions, value[index], end)
            length: cython.ulonglong = end - value[index] if end > value[index] else 0
            if number >= limit.shape[0] or (not elf64 and value[index] >> 32):
                number = 0
            stored: cython.ulonglong = value[index] - base[number] if number < limit.shape[0] else value[index]
            store_number(p, 4, big, name[index])
            if elf64:
                p[4] = info[index]
                p[5] = 0
                store_number(p + 6, 2, big, number)
                store_number(p + 8, 8, big, stored)
                store_number(p + 16, 8, big, length)
            else:
                store_number(p + 4, 4, big, stored if number else 0)
                store_number(p + 8, 4, big, length)
                p[12] = info[index]
                p[13] = 0
                store_number(p + 14, 2, big, number)
