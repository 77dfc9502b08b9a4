"""Apply the relocations of one section of an object file to its bytes; see whence.objects.elf.relocate."""

import cython
from cython.cimports.whence.kernels.bytes import MORE, checked_uleb, number, store_number
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.objects.elf.kernels import constants as c


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def replace_uleb(
    content: cython.uchar[::1], offset: cython.ulonglong, subtract: cython.bint, value: cython.ulonglong
) -> cython.bint:
    """Replace the ULEB128 number at an offset, keeping its size. Return False if it is cut off or too long."""
    start: cython.pointer[cython.uchar] = cython.address(content[0])
    old: cython.ulonglong = 0
    i: cython.int
    size: cython.int = checked_uleb(start + offset, start + content.shape[0], cython.address(old))
    if size <= 0:
        return False
    if subtract:
        value = old - value
    for i in range(size):
        start[offset + i] = cython.cast(cython.uchar, (value & 0x7F) | (MORE if i + 1 < size else 0))
        value >>= 7
    return True


def apply(
    content: cython.uchar[::1],
    relocations: cython.const[cython.uchar][::1],
    explicit: cython.bint,
    symbols: cython.const[cython.uchar][::1],
    rules,
):
    """Apply every relocation; return (number applied, fault, index of the first that was skipped).

    `rules` is a Relocations. `explicit` relocations contain their addend; for others it is in the section.
    """
    section_vaddr: cython.const[cython.ulonglong][::1] = rules.section_vaddr
    kinds: cython.const[cython.uchar][::1] = rules.kinds
    elf64: cython.bint = rules.elf64
    big: cython.bint = rules.big
    mips64: cython.bint = rules.mips64
    width: cython.longlong = 8 if elf64 else 4
    stride: cython.longlong = width * (3 if explicit else 2)
    symbol_size: cython.longlong = c.ELF64_SYM_SIZE if elf64 else c.ELF32_SYM_SIZE
    count: cython.longlong = relocations.shape[0] // stride
    symbol_count: cython.longlong = symbols.shape[0] // symbol_size
    applied: cython.longlong = 0
    fault: cython.int = 0
    faulty: cython.longlong = 0
    wrong: cython.int
    i: cython.longlong
    offset: cython.ulonglong
    info: cython.ulonglong
    value: cython.ulonglong
    kind: cython.uint
    bytes_: cython.uint
    type_: cython.ulonglong
    symbol: cython.ulonglong
    section: cython.ulonglong
    p: cython.pointer[cython.const[cython.uchar]]
    s: cython.pointer[cython.const[cython.uchar]]
    if kinds.shape[0] < cython.cast(cython.longlong, c.KINDS_ROOM):
        return 0, c.UNKNOWN_KIND, 0
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(count):
            handle_signals(cython.address(work), 1)
            p = cython.address(relocations[i * stride])
            offset = number(p, cython.cast(cython.uint, width), big)
            if mips64:
                symbol = number(p + 8, 4, big)
                type_ = p[15]
            else:
                info = number(p + width, cython.cast(cython.uint, width), big)
                if elf64:
                    symbol = info >> c.ELF64_R_SYM_SHIFT
                    type_ = cython.cast(cython.uint, info)
                else:
                    symbol = info >> c.ELF32_R_SYM_SHIFT
                    type_ = info & c.ELF32_R_TYPE_MASK
            if type_ == c.R_X86_64_NONE:
                continue
            wrong = 0
            kind = 0
            if type_ >= c.KINDS_ROOM or kinds[type_] == 0:
                wrong = c.UNKNOWN_KIND
            else:
                kind = kinds[type_]
            bytes_ = kind & c.WIDTH
            if wrong == 0 and (
                offset > cython.cast(cython.ulonglong, content.shape[0])
                or bytes_ > cython.cast(cython.ulonglong, content.shape[0]) - offset
                or offset == cython.cast(cython.ulonglong, content.shape[0])
            ):
                wrong = c.OUTSIDE
            if wrong == 0 and symbol >= cython.cast(cython.ulonglong, symbol_count) and symbol:
                wrong = c.NO_SYMBOL
            if wrong:
                if fault == 0:
                    fault = wrong
                    faulty = i
                continue
            value = 0
            if symbol:
                s = cython.address(symbols[cython.cast(cython.longlong, symbol) * symbol_size])
                if elf64:
                    section = number(s + 6, 2, big)
                    value = number(s + 8, 8, big)
                else:
                    section = number(s + 14, 2, big)
                    value = number(s + 4, 4, big)
                if section < cython.cast(cython.ulonglong, section_vaddr.shape[0]):
                    value += section_vaddr[section]
            if explicit:
                info = number(p + 2 * width, cython.cast(cython.uint, width), big)
                if elf64:
                    value += info
                else:
                    value += cython.cast(cython.ulonglong, cython.cast(cython.int, info))  # sign-extended
            elif bytes_ and (kind & c.OPERATION == c.STORE or kind & c.OPERATION == c.RELATIVE):
                value += number(cython.address(content[offset]), bytes_, big)
            if kind & c.OPERATION == c.RELATIVE:
                value -= offset
            elif kind & c.OPERATION == c.ADD:
                value = number(cython.address(content[offset]), bytes_, big) + value
            elif kind & c.OPERATION == c.SUB:
                value = number(cython.address(content[offset]), bytes_, big) - value
            if kind & c.OPERATION == c.STORE_ULEB or kind & c.OPERATION == c.SUB_ULEB:
                if not replace_uleb(content, offset, kind & c.OPERATION == c.SUB_ULEB, value):
                    if fault == 0:
                        fault = c.OUTSIDE
                        faulty = i
                    continue
            else:
                store_number(cython.address(content[offset]), bytes_, big, value)
            applied += 1
    return applied, fault, faulty
