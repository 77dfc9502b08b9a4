"""Kernel: Mach-O's symbol table: defined symbols as columns, the debug map, relocations against symbols."""

import cython
from cython.cimports.whence.kernels.bytes import add_number, number, u16, u32
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.signals import handle_signals

SIZE_64 = cython.declare(cython.Py_ssize_t, 16)
SIZE_32 = cython.declare(cython.Py_ssize_t, 12)
N_STAB = cython.declare(cython.uint, 0xE0)
N_TYPE = cython.declare(cython.uint, 0x0E)  # also the value for "defined in a section"
N_EXT = cython.declare(cython.uint, 0x01)
N_WEAK_DEF = cython.declare(cython.uint, 0x80)
N_FUN = cython.declare(cython.uint, 0x24)
N_OSO = cython.declare(cython.uint, 0x66)
UNDERSCORE = cython.declare(cython.uchar, 0x5F)
STB_GLOBAL = cython.declare(cython.uint, 0x10)
STB_WEAK = cython.declare(cython.uint, 0x20)
STT_OBJECT = cython.declare(cython.uint, 1)
STT_FUNC = cython.declare(cython.uint, 2)
RELOCATION = cython.declare(cython.Py_ssize_t, 8)
SCATTERED = cython.declare(cython.uint, 0x80000000)


def defined(
    table: cython.const[cython.uchar][::1],
    names: cython.const[cython.uchar][::1],
    executable: cython.const[cython.uchar][::1],
    vaddrs: cython.const[cython.ulonglong][::1],
    wide: cython.bint,
    big: cython.bint,
    symbols,
):
    """Write the symbols that are defined in a section to the columns of `symbols`; return how many there are.

    `executable` has a flag and `vaddrs` the start of each section. A symbol before its section is not a function, such
    as that of the file's header. C names lose the underscore that compilers put in front.
    """
    name: cython.uint[::1] = symbols.name
    value: cython.ulonglong[::1] = symbols.value
    info: cython.uchar[::1] = symbols.info
    section: cython.uint[::1] = symbols.section
    size: cython.Py_ssize_t = SIZE_64 if wide else SIZE_32
    count: cython.Py_ssize_t = table.shape[0] // size
    selected: cython.Py_ssize_t = 0
    index: cython.Py_ssize_t
    belong(min(name.shape[0], value.shape[0], info.shape[0], section.shape[0]) >= count)
    belong(vaddrs.shape[0] >= executable.shape[0])
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for index in range(count):
            handle_signals(cython.address(work), 1)
            p: cython.pointer[cython.const[cython.uchar]] = cython.address(table[index * size])
            kind: cython.uint = p[4]
            number_of: cython.uint = p[5]
            if kind & N_STAB or kind & N_TYPE != N_TYPE or number_of >= executable.shape[0]:
                continue
            offset: cython.uint = u32(p, big)
            if offset < names.shape[0] and names[offset] == UNDERSCORE:
                offset += 1
            bind: cython.uint = 0
            if kind & N_EXT:
                bind = STB_WEAK if u16(p + 6, big) & N_WEAK_DEF else STB_GLOBAL
            name[selected] = offset
            value[selected] = number(p + 8, 8 if wide else 4, big)
            is_function: cython.bint = executable[number_of] != 0 and value[selected] >= vaddrs[number_of]
            info[selected] = cython.cast(cython.uchar, bind | (STT_FUNC if is_function else STT_OBJECT))
            section[selected] = number_of
            selected += 1
    return selected


def debug_map(
    table: cython.const[cython.uchar][::1],
    names: cython.const[cython.uchar][::1],
    wide: cython.bint,
    big: cython.bint,
    objects,
    functions,
    write: cython.bint,
):
    """Read the debug map; return the number of objects and of functions. With `write`, they are written to columns.

    An object is an N_OSO entry, and its functions are pairs of N_FUN entries up to the next N_OSO: name and address,
    then an empty name and the size. C names lose their underscore, as in `defined`.
    """
    object_name: cython.uint[::1] = objects.name
    object_time: cython.ulonglong[::1] = objects.time
    object_first: cython.uint[::1] = objects.first
    name: cython.uint[::1] = functions.name
    value: cython.ulonglong[::1] = functions.value
    length: cython.ulonglong[::1] = functions.length
    size: cython.Py_ssize_t = SIZE_64 if wide else SIZE_32
    count: cython.Py_ssize_t = table.shape[0] // size
    object_count: cython.Py_ssize_t = 0
    function_count: cython.Py_ssize_t = 0
    object_capacity: cython.Py_ssize_t = min(object_name.shape[0], object_time.shape[0], object_first.shape[0])
    capacity: cython.Py_ssize_t = min(name.shape[0], value.shape[0], length.shape[0])
    index: cython.Py_ssize_t
    pending: cython.bint = False  # a name and an address were read, the size follows
    offset: cython.uint = 0
    start: cython.ulonglong = 0
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for index in range(count):
            handle_signals(cython.address(work), 1)
            p: cython.pointer[cython.const[cython.uchar]] = cython.address(table[index * size])
            kind: cython.uint = p[4]
            if kind == N_OSO:
                pending = False
                if write:
                    if object_count >= object_capacity:
                        break
                    object_name[object_count] = u32(p, big)
                    object_time[object_count] = number(p + 8, 8 if wide else 4, big)
                    object_first[object_count] = cython.cast(cython.uint, function_count)
                object_count += 1
            elif kind == N_FUN and object_count:
                text: cython.uint = u32(p, big)
                if text < names.shape[0] and names[text]:
                    pending = True
                    offset = text + 1 if names[text] == UNDERSCORE else text
                    start = number(p + 8, 8 if wide else 4, big)
                elif pending:
                    pending = False
                    extent: cython.ulonglong = number(p + 8, 8 if wide else 4, big)
                    if extent == 0 or start + extent < start:
                        continue
                    if write:
                        if function_count >= capacity:
                            break
                        name[function_count] = offset
                        value[function_count] = start
                        length[function_count] = extent
                    function_count += 1
    return object_count, function_count


def relocate(
    content: cython.uchar[::1],
    relocations: cython.const[cython.uchar][::1],
    table: cython.const[cython.uchar][::1],
    wide: cython.bint,
    big: cython.bint,
):
    """Add the values of symbols to the addresses in a debug section; return how many were changed.

    Addresses relative to a section are complete as stored. Other relocations do not occur in debug sections.
    """
    size: cython.Py_ssize_t = SIZE_64 if wide else SIZE_32
    count: cython.Py_ssize_t = relocations.shape[0] // RELOCATION
    symbol_count: cython.Py_ssize_t = table.shape[0] // size
    index: cython.Py_ssize_t
    changed: cython.Py_ssize_t = 0
    size_of_content: cython.Py_ssize_t = content.shape[0]
    start: cython.p_uchar = cython.address(content[0]) if size_of_content else cython.NULL
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for index in range(count):
            handle_signals(cython.address(work), 1)
            p: cython.pointer[cython.const[cython.uchar]] = cython.address(relocations[index * RELOCATION])
            offset: cython.uint = u32(p, big)
            fields: cython.uint = u32(p + 4, big)
            symbol: cython.uint = fields >> 8 if big else fields & 0xFFFFFF
            flags: cython.uint = fields & 0xFF if big else fields >> 24
            relative: cython.uint = flags >> 7 if big else flags & 1
            width: cython.uint = 1 << ((flags >> 5 if big else flags >> 1) & 3)
            external: cython.uint = (flags >> 4 if big else flags >> 3) & 1
            type_of: cython.uint = flags & 15 if big else flags >> 4
            if offset & SCATTERED or relative or not external or type_of or width < 4 or symbol >= symbol_count:
                continue
            value: cython.ulonglong = number(
                cython.address(table[cython.cast(cython.Py_ssize_t, symbol) * size + 8]), 8 if wide else 4, big
            )
            changed += add_number(start, size_of_content, offset, width, big, value)
    return changed
