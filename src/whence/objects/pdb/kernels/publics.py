"""Kernel: public symbols of the symbol records as entries of an ELF symbol table.

A record is a length (16 bits, without itself) and a kind; that of S_PUB32 has flags, an offset in a section, the
section, and a name. It has no size: a symbol extends to the end of its module's contribution, if that is known, and
over the padding up to the next one.
"""

import cython
from cython.cimports.libc.string import memcmp, memset
from cython.cimports.whence.kernels.bytes import u16, u32
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.signals import handle_signals

S_PUB32 = cython.declare(cython.uint, 0x110E)
NAME = cython.declare(cython.int, 14)  # offset in a record of S_PUB32
IS_CODE = cython.declare(cython.uint, 3)  # flags: code, function
GLOBAL_FUNCTION = cython.declare(cython.uchar, 1 << 4 | 2)  # STB_GLOBAL, STT_FUNC
GLOBAL = cython.declare(cython.uchar, 1 << 4)  # STT_NOTYPE: a function in sections of code
ENTRY = {32: 16, 64: 24}  # bytes of an Elf32_Sym, an Elf64_Sym
WEAK = cython.declare(cython.uchar, 2 << 4)  # STB_WEAK
UNDERSCORE = cython.declare(cython.uchar, 0x5F)
MOST_PADDING = cython.declare(cython.uint, 16)  # bytes between contributions; linkers align code to as many
ALIAS = cython.declare(cython.p_const_char, b".weak.")  # lld: of the default of a weak symbol
ALIAS_SIZE = cython.declare(cython.Py_ssize_t, 6)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put(out: cython.p_uchar, value: cython.ulonglong, size: cython.int) -> cython.void:
    index: cython.int
    for index in range(size):
        out[index] = (value >> 8 * index) & 0xFF


def count_publics(records: cython.const[cython.uchar][::1]) -> int:
    """Return the number of public symbols."""
    offset: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = records.shape[0]
    count: cython.Py_ssize_t = 0
    work: cython.Py_ssize_t = 0
    if size < 4:
        return 0
    data: cython.p_const_uchar = cython.address(records[0])
    with cython.nogil:
        while offset <= size - 4:
            handle_signals(cython.address(work), 1)
            count += u16(data + offset + 2, False) == S_PUB32
            offset += 2 + u16(data + offset, False)
    return count


def read_publics(
    records: cython.const[cython.uchar][::1], sections: cython.const[cython.uint][::1], base: cython.ulonglong,
    contributions, wide: cython.bint, strip: cython.bint, entries: cython.uchar[::1],
) -> tuple[int, bool]:  # fmt: skip
    """Write an entry for each public symbol in a section, after the null entry.

    Args:
        records: the symbol records, which are also the names' string table.
        sections: RVAs of sections by number.
        base: the image base.
        contributions: a dbi.Contributions.
        wide: write Elf64_Sym, not Elf32_Sym.
        strip: leave out the underscore that compilers for 32-bit x86 put in front of names.
        entries: bytes for all symbols and the null entry.

    Returns:
        The number of bytes written, and whether a record extends past the end.
    """
    start: cython.const[cython.uint][::1] = contributions.start
    end: cython.const[cython.uint][::1] = contributions.end
    size: cython.Py_ssize_t = records.shape[0]
    offset: cython.Py_ssize_t = 0
    width: cython.Py_ssize_t = 24 if wide else 16
    used: cython.Py_ssize_t = width
    work: cython.Py_ssize_t = 0
    damaged: cython.bint = False
    belong(entries.shape[0] >= width and start.shape[0] == end.shape[0] and size >= 4)
    data: cython.p_const_uchar = cython.address(records[0])
    out: cython.p_uchar = cython.address(entries[0])
    with cython.nogil:
        memset(out, 0, entries.shape[0])
        while offset <= size - 4:
            handle_signals(cython.address(work), 4)
            length: cython.Py_ssize_t = 2 + u16(data + offset, False)
            if length < 4 or length > size - offset:
                damaged = True
                break
            section: cython.uint = 0
            if u16(data + offset + 2, False) == S_PUB32 and length > NAME:
                section = u16(data + offset + 12, False)
            if 0 < section < cython.cast(cython.uint, sections.shape[0]) and used <= entries.shape[0] - width:
                rva: cython.ulonglong = cython.cast(cython.ulonglong, sections[section]) + u32(data + offset + 8, False)
                low: cython.Py_ssize_t = 0
                high: cython.Py_ssize_t = start.shape[0]
                while low < high:
                    middle: cython.Py_ssize_t = (low + high) >> 1
                    if start[middle] <= rva:
                        low = middle + 1
                    else:
                        high = middle
                extent: cython.ulonglong = 0
                if low and rva < end[low - 1]:
                    extent = end[low - 1] - rva
                    if low < start.shape[0] and 0 < start[low] - end[low - 1] < MOST_PADDING:
                        extent = start[low] - rva
                info: cython.uchar = GLOBAL_FUNCTION if u32(data + offset + 4, False) & IS_CODE else GLOBAL
                if length > NAME + ALIAS_SIZE and memcmp(data + offset + NAME, ALIAS, ALIAS_SIZE) == 0:
                    info = WEAK | (info & 0xF)
                put(out + used, offset + NAME + (strip and data[offset + NAME] == UNDERSCORE), 4)
                if wide:
                    out[used + 4] = info
                    put(out + used + 6, section, 2)
                    put(out + used + 8, base + rva, 8)
                    put(out + used + 16, extent, 8)
                else:
                    put(out + used + 4, base + rva, 4)
                    put(out + used + 8, extent, 4)
                    out[used + 12] = info
                    put(out + used + 14, section, 2)
                used += width
            offset += length
    return used, damaged
