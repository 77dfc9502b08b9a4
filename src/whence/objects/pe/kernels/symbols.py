"""Kernel: COFF's symbol table as columns, relocations of object files."""

import cython
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.kernels.bytes import add_number, u16, u32
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.signals import handle_signals

SIZE = cython.declare(cython.Py_ssize_t, 18)
SIZE_BIG = cython.declare(cython.Py_ssize_t, 20)  # section numbers have 32 bits
MOST_NAMES = cython.declare(cython.Py_ssize_t, 0xFFFFFFFF)  # bytes, as offsets have 32 bits
SHORT_NAME = cython.declare(cython.Py_ssize_t, 8)
FIRST_LONG_NAME = cython.declare(cython.uint, 4)  # after the size of the string table
EXTERNAL = cython.declare(cython.uint, 2)
STATIC = cython.declare(cython.uint, 3)
FUNCTION = cython.declare(cython.uint, 0x20)
UNDERSCORE = cython.declare(cython.uchar, 0x5F)
STB_GLOBAL = cython.declare(cython.uint, 0x10)
STT_NOTYPE = cython.declare(cython.uint, 0)
STT_FUNC = cython.declare(cython.uint, 2)
RELOCATION = cython.declare(cython.Py_ssize_t, 10)
WIDTH = cython.declare(cython.uint, 0x0F)  # of an operation: bytes
IN_SECTION = cython.declare(cython.uint, 0x10)  # of an operation: an offset in the symbol's section, not an address


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def section_of(p: cython.pointer[cython.const[cython.uchar]], big: cython.bint) -> cython.uint:
    """Return the number of a symbol's section; 0 for none, and for the reserved negative ones."""
    value: cython.uint = u32(p + 12, False) if big else u16(p + 12, False)
    return 0 if value >> (31 if big else 15) else value


def defined(
    table: cython.const[cython.uchar][::1],
    names: cython.uchar[::1],
    long_names: cython.Py_ssize_t,
    vaddrs: cython.const[cython.ulonglong][::1],
    allocated: cython.const[cython.uchar][::1],
    big: cython.bint,
    strip: cython.bint,
    symbols,
):
    """Write the symbols that are defined in a loaded section to columns; return their number and the end of the names.

    `names` starts with `long_names` bytes of the string table; short names are added after these. `big` is True for
    bigobj files. With `strip`, names lose the underscore that compilers put in front.
    """
    name: cython.uint[::1] = symbols.name
    value: cython.ulonglong[::1] = symbols.value
    info: cython.uchar[::1] = symbols.info
    section: cython.uint[::1] = symbols.section
    size: cython.Py_ssize_t = SIZE_BIG if big else SIZE
    count: cython.Py_ssize_t = table.shape[0] // size
    end: cython.Py_ssize_t = long_names
    selected: cython.Py_ssize_t = 0
    index: cython.Py_ssize_t = 0
    sections: cython.Py_ssize_t = min(vaddrs.shape[0], allocated.shape[0])
    belong(
        min(name.shape[0], value.shape[0], info.shape[0], section.shape[0]) >= count
        and names.shape[0] >= long_names + count * (SHORT_NAME + 1)
        and names.shape[0] <= MOST_NAMES
    )
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        while index < count:
            handle_signals(cython.address(work), 1)
            p: cython.pointer[cython.const[cython.uchar]] = cython.address(table[index * size])
            number_of: cython.uint = section_of(p, big)
            kind: cython.uint = u16(p + size - 4, False)
            storage: cython.uint = p[size - 2]
            auxiliary: cython.uint = p[size - 1]
            index += 1 + auxiliary
            if (storage != EXTERNAL and storage != STATIC) or number_of == 0 or number_of >= sections:
                continue
            if not allocated[number_of] or (storage == STATIC and auxiliary and kind != FUNCTION):
                continue  # the symbol of a section
            offset: cython.uint
            if u32(p, False) == 0:
                offset = u32(p + 4, False)
                if offset < FIRST_LONG_NAME or offset >= long_names:
                    continue
            else:
                offset = cython.cast(cython.uint, end)
                memcpy(cython.address(names[end]), p, SHORT_NAME)
                end += SHORT_NAME
                while names[end - 1] == 0:
                    end -= 1
                names[end] = 0
                end += 1
            if strip and names[offset] == UNDERSCORE:
                offset += 1
            name[selected] = offset
            value[selected] = vaddrs[number_of] + u32(p + 8, False)
            info[selected] = cython.cast(
                cython.uchar,
                (STB_GLOBAL if storage == EXTERNAL else 0) | (STT_FUNC if kind == FUNCTION else STT_NOTYPE),
            )
            section[selected] = number_of
            selected += 1
    return selected, end


def relocate(
    content: cython.uchar[::1],
    relocations: cython.const[cython.uchar][::1],
    table: cython.const[cython.uchar][::1],
    vaddrs: cython.const[cython.ulonglong][::1],
    operations: cython.const[cython.uchar][::1],
    big: cython.bint,
):
    """Apply relocations to a section of an object file; return how many.

    `operations` has a byte for each type of relocation: a width, with IN_SECTION for offsets in sections; 0 for types
    that do not occur in debug info, which are left out.
    """
    size: cython.Py_ssize_t = SIZE_BIG if big else SIZE
    symbols: cython.Py_ssize_t = table.shape[0] // size
    count: cython.Py_ssize_t = relocations.shape[0] // RELOCATION
    index: cython.Py_ssize_t
    applied: cython.Py_ssize_t = 0
    size_of_content: cython.Py_ssize_t = content.shape[0]
    start: cython.p_uchar = cython.address(content[0]) if size_of_content else cython.NULL
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for index in range(count):
            handle_signals(cython.address(work), 1)
            p: cython.pointer[cython.const[cython.uchar]] = cython.address(relocations[index * RELOCATION])
            offset: cython.uint = u32(p, False)
            symbol: cython.uint = u32(p + 4, False)
            kind: cython.uint = u16(p + 8, False)
            if kind >= operations.shape[0] or symbol >= symbols:
                continue
            width: cython.uint = operations[kind] & WIDTH
            if width == 0:
                continue
            entry: cython.pointer[cython.const[cython.uchar]] = cython.address(
                table[cython.cast(cython.Py_ssize_t, symbol) * size]
            )
            value: cython.ulonglong = u32(entry + 8, False)
            number_of: cython.uint = section_of(entry, big)
            if not operations[kind] & IN_SECTION and number_of < vaddrs.shape[0]:
                value += vaddrs[number_of]
            applied += add_number(start, size_of_content, offset, width, False, value)
    return applied
