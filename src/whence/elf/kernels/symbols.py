"""Kernel: symbol tables into columns.

`read` unpacks every entry of a table. `collect` keeps the entries that can name code and gives each a rank, for
settle_kernel. symbols.py and functions.py say what the columns mean.
"""

import cython
from cython.cimports.libc.string import memchr, memcmp
from cython.cimports.whence.elf.kernels.constants import (
    CODE,
    ELF32_SYM_SIZE,
    ELF64_SYM_SIZE,
    EM_AARCH64,
    EM_ARM,
    EM_MIPS,
    EM_RISCV,
    NOT_LOADED,
    SHN_LORESERVE,
    SHN_UNDEF,
    SHN_XINDEX,
    STB_GLOBAL,
    STB_GNU_UNIQUE,
    STB_WEAK,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_MASK,
    STT_NOTYPE,
)
from cython.cimports.whence.kernels.bytes import u16, u32, u64

NAME_LIMIT = cython.declare(cython.longlong, 4095)
RESERVED = cython.declare(cython.uint, 0xFFFF0000)  # section indexes that name no section
UNDERSCORES_LIMIT = cython.declare(cython.longlong, 63)

Symbol = cython.struct(
    name=cython.uint,
    value=cython.ulonglong,
    size=cython.ulonglong,
    info=cython.uint,
    other=cython.uint,
    section=cython.uint,
)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def entry(
    table: cython.const[cython.uchar][::1],
    index: cython.longlong,
    wide: cython.bint,
    big: cython.bint,
    extended: cython.const[cython.uchar][::1],
) -> Symbol:
    """Entry `index` of a table that holds it; SHN_XINDEX is looked up in the table of extended section indexes."""
    s: Symbol
    p: cython.pointer[cython.const[cython.uchar]]
    if wide:
        p = cython.address(table[index * ELF64_SYM_SIZE])
        s.name = u32(p, big)
        s.info = p[4]
        s.other = p[5]
        s.section = u16(p + 6, big)
        s.value = u64(p + 8, big)
        s.size = u64(p + 16, big)
    else:
        p = cython.address(table[index * ELF32_SYM_SIZE])
        s.name = u32(p, big)
        s.value = u32(p + 4, big)
        s.size = u32(p + 8, big)
        s.info = p[12]
        s.other = p[13]
        s.section = u16(p + 14, big)
    if s.section == SHN_XINDEX and (index + 1) * 4 <= extended.shape[0]:
        s.section = u32(cython.address(extended[index * 4]), big)
    elif s.section >= SHN_LORESERVE:
        s.section |= RESERVED  # reserved: absolute, common, the processor's own; out of the way of real indexes
    return s


def read(
    table: cython.const[cython.uchar][::1],
    wide: cython.bint,
    big: cython.bint,
    extended: cython.const[cython.uchar][::1],
    name: cython.uint[::1],
    value: cython.ulonglong[::1],
    size: cython.ulonglong[::1],
    info: cython.uchar[::1],
    other: cython.uchar[::1],
    section: cython.uint[::1],
) -> cython.longlong:
    """Every whole entry into the columns, as many as those have room for; gives how many were read."""
    rows: cython.longlong = table.shape[0] // (ELF64_SYM_SIZE if wide else ELF32_SYM_SIZE)
    i: cython.longlong
    s: Symbol
    if rows > name.shape[0]:
        rows = name.shape[0]
    with cython.nogil:
        for i in range(rows):
            s = entry(table, i, wide, big, extended)
            name[i] = s.name
            value[i] = s.value
            size[i] = s.size
            info[i] = s.info
            other[i] = s.other
            section[i] = s.section
    return rows


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_label(strings: cython.const[cython.uchar][::1], at: cython.longlong, machine: cython.uint) -> cython.bint:
    """Whether an untyped symbol's name is an assembler's mark, not a name: .L..., and mapping symbols ($a $d $t $x)."""
    left: cython.longlong = strings.shape[0] - at
    if left < 2:
        return False
    second: cython.uchar = strings[at + 1]
    if strings[at] == b".":
        return second == b"L"
    if strings[at] != b"$":
        return False
    if machine != EM_ARM and machine != EM_AARCH64 and machine != EM_RISCV:
        return False
    if second != b"a" and second != b"d" and second != b"t" and second != b"x":
        return False
    if left == 2 or strings[at + 2] == 0 or strings[at + 2] == b".":
        return True
    return machine == EM_RISCV and second == b"x" and strings[at + 2] == b"r"  # $xrv64...: code of another ISA


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def length_of(strings: cython.const[cython.uchar][::1], at: cython.longlong) -> cython.longlong:
    """How long the name at an offset is, up to its NUL or the end of the names."""
    start: cython.pointer[cython.const[cython.uchar]] = cython.address(strings[at])
    end = cython.cast(cython.pointer[cython.const[cython.uchar]], memchr(start, 0, strings.shape[0] - at))
    return strings.shape[0] - at if end == cython.NULL else end - start


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def rank_of(
    strings: cython.const[cython.uchar][::1],
    at: cython.longlong,
    bind: cython.uint,
    sized: cython.bint,
    preference: cython.uint,
) -> cython.uint:
    """How good a name is among those of one address, 26 bits, higher is better.

    Sized; a better table; not weak; global; fewer leading underscores; longer; not a SyS alias of a system call.
    """
    end: cython.longlong = at + NAME_LIMIT
    p: cython.longlong = at
    underscores: cython.longlong
    alias: cython.bint
    if end > strings.shape[0]:
        end = strings.shape[0]
    while p < end and strings[p] == b"_":
        p += 1
    underscores = p - at
    if underscores > UNDERSCORES_LIMIT:
        underscores = UNDERSCORES_LIMIT
    while p < end and strings[p]:
        p += 1
    alias = p - at > 3 and strings[at] == b"S" and strings[at + 1] == b"y" and strings[at + 2] == b"S"
    return (
        cython.cast(cython.uint, sized) << 25
        | (preference & 7) << 22
        | cython.cast(cython.uint, bind != STB_WEAK) << 21
        | cython.cast(cython.uint, bind == STB_GLOBAL or bind == STB_GNU_UNIQUE) << 20
        | cython.cast(cython.uint, UNDERSCORES_LIMIT - underscores) << 14
        | cython.cast(cython.uint, p - at) << 1
        | cython.cast(cython.uint, not alias)
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def has_a_say(
    near: cython.const[cython.ulonglong][::1], leads: cython.const[cython.ulonglong][::1], start: cython.ulonglong,
    stop: cython.ulonglong, leading: cython.bint,
) -> cython.bint:  # fmt: skip
    """Does a symbol matter for one of the vaddrs; while they are looked for, can it be the lead of one?"""
    at: cython.Py_ssize_t
    for at in range(near.shape[0]):
        if start > near[at]:
            continue
        if leading:
            if start > leads[at]:
                return True
        elif start >= leads[at] or stop > leads[at]:
            return True
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def lead(
    near: cython.const[cython.ulonglong][::1], leads: cython.ulonglong[::1], start: cython.ulonglong
) -> cython.void:
    """A symbol starts here: it leads the vaddrs from there on that have no closer one."""
    at: cython.Py_ssize_t
    for at in range(near.shape[0]):
        if leads[at] < start <= near[at]:
            leads[at] = start


def collect(
    table: cython.const[cython.uchar][::1],
    wide: cython.bint,
    big: cython.bint,
    extended: cython.const[cython.uchar][::1],
    strings: cython.const[cython.uchar][::1],
    string_base: cython.ulonglong,
    machine: cython.uint,
    preference: cython.uint,
    section_start: cython.const[cython.ulonglong][::1],
    section_end: cython.const[cython.ulonglong][::1],
    section_kind: cython.const[cython.uchar][::1],
    code_start: cython.const[cython.ulonglong][::1],
    code_end: cython.const[cython.ulonglong][::1],
    descriptors: cython.const[cython.uchar][::1],
    descriptors_section: cython.uint,
    relative: cython.bint,
    va: cython.ulonglong[::1],
    end: cython.ulonglong[::1],
    limit: cython.ulonglong[::1],
    name: cython.ulonglong[::1],
    rank: cython.ulonglong[::1],
    source: cython.uchar[::1],
    source_number: cython.uchar,
    rows: cython.longlong,
    near: cython.const[cython.ulonglong][::1],
    leads: cython.ulonglong[::1],
    leading: cython.bint,
    most: cython.longlong,
):
    """Append the symbols that can name code to the columns from `rows` on; gives the new number of rows, and whether
    their names together take more than `most` bytes: then the rest of the symbols are left out.

    When vaddrs are given in `near`, only those symbols that have a say in what these are called: for each vaddr the
    ones that cover it, the ones that start at its lead (the last start at or before it), and the ones that cover its
    lead. A first round over all tables, with `leading`, appends nothing and finds the `leads`.

    section_kind is 0 for no memory, 1 for memory, 2 for code. A symbol whose section index is beyond the table (a file
    without one) is placed by the code regions. `descriptors` is ppc64's .opd, whose symbols point at the code's
    address. In a relocatable file values are `relative` to their section. A symbol without size has end == va.
    """
    count: cython.longlong = table.shape[0] // (ELF64_SYM_SIZE if wide else ELF32_SYM_SIZE)
    sections: cython.longlong = section_start.shape[0]
    regions: cython.longlong = code_start.shape[0]
    i: cython.longlong
    r: cython.longlong
    kind: cython.uint
    start: cython.ulonglong
    stop: cython.ulonglong
    bound: cython.ulonglong
    s: Symbol
    with cython.nogil:
        for i in range(1, count):
            if rows >= va.shape[0]:
                break
            s = entry(table, i, wide, big, extended)
            kind = s.info & STT_MASK
            if kind != STT_NOTYPE and kind != STT_FUNC and kind != STT_GNU_IFUNC:
                continue
            if s.section == SHN_UNDEF or s.name == 0:
                continue
            start = s.value
            if (machine == EM_ARM or machine == EM_MIPS) and kind != STT_NOTYPE:
                start &= ~cython.cast(cython.ulonglong, 1)
            bound = 0
            if s.section == descriptors_section and s.section < sections:
                if start < section_start[descriptors_section] or descriptors.shape[0] < 8:
                    continue
                start -= section_start[descriptors_section]
                if start > cython.cast(cython.ulonglong, descriptors.shape[0] - 8):
                    continue
                start = u64(cython.address(descriptors[start]), big)
            elif s.section < sections:
                if section_kind[s.section] == NOT_LOADED:
                    continue
                if kind == STT_NOTYPE and section_kind[s.section] != CODE:
                    continue
                if relative:
                    start += section_start[s.section]
                bound = section_end[s.section]
                if start < section_start[s.section] or start >= bound:
                    continue
            elif sections or s.section >= RESERVED:
                continue
            if bound == 0:
                for r in range(regions):
                    if code_start[r] <= start < code_end[r]:
                        bound = code_end[r]
                        break
            if bound == 0:
                continue
            stop = start + s.size
            if stop > bound or stop < start:
                stop = bound
            if near.shape[0] and not has_a_say(near, leads, start, stop, leading):
                continue
            if (
                s.name >= strings.shape[0]
                or strings[s.name] == 0
                or (kind == STT_NOTYPE and is_label(strings, s.name, machine))
            ):
                continue
            if leading:
                lead(near, leads, start)
                continue
            most -= length_of(strings, s.name) + 1
            if most < 0:
                break
            va[rows] = start
            end[rows] = stop
            limit[rows] = bound
            name[rows] = string_base | s.name
            rank[rows] = rank_of(strings, s.name, s.info >> 4, stop > start, preference)
            source[rows] = source_number
            rows += 1
    return rows, most < 0


def addressed(
    info: cython.const[cython.uchar][::1],
    section: cython.const[cython.uint][::1],
    allocated: cython.const[cython.uchar][::1],
    rows: cython.uint[::1],
) -> cython.longlong:
    """The rows of symbols for places in memory: functions, objects and untyped ones of allocated sections. `rows` has
    room for all of them; gives how many there are."""
    i: cython.Py_ssize_t
    kind: cython.uint
    found: cython.longlong = 0
    with cython.nogil:
        for i in range(1, info.shape[0]):
            kind = info[i] & STT_MASK
            if kind > STT_FUNC and kind != STT_GNU_IFUNC:  # no STT_NOTYPE, STT_OBJECT, STT_FUNC, and no STT_GNU_IFUNC
                continue
            if section[i] == 0 or section[i] >= allocated.shape[0] or not allocated[section[i]]:
                continue
            rows[found] = cython.cast(cython.uint, i)
            found += 1
    return found


def holds(data: cython.const[cython.uchar][::1], text: cython.const[cython.uchar][::1]):
    """Does `text`, two bytes at least, lie somewhere in the data? Nothing is copied."""
    at: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t = data.shape[0] - text.shape[0]
    found: cython.bint = False
    if last < 0 or text.shape[0] < 2:
        return False
    with cython.nogil:
        while at <= last:  # the second byte is the rarer one: the first is a NUL between names
            here = cython.cast(
                cython.pointer(cython.const[cython.uchar]),
                memchr(cython.address(data[at + 1]), text[1], last - at + 1),
            )
            if here == cython.NULL:
                break
            at = here - cython.address(data[0]) - 1
            if memcmp(cython.address(data[at]), cython.address(text[0]), text.shape[0]) == 0:
                found = True
                break
            at += 1
    return found
