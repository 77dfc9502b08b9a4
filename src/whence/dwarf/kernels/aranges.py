""".debug_aranges: which unit holds an address, without a look at the units (DWARF 5, section 6.1.2).

A question about few addresses is answered by one pass over the table; nothing is kept.
"""

import cython
from cython.cimports.whence.dwarf.kernels.parts import Parts
from cython.cimports.whence.dwarf.kernels.rangelist import is_code
from cython.cimports.whence.dwarf.kernels.reading import fixed, reserved_length, unit_at, wide_length
from cython.cimports.whence.dwarf.kernels.shared import HAS, HAS_HIGH, HAS_LOW, HIGH, LOW, VERSION, WIDTH, bytes_at, u64

Set = cython.struct(at=u64, end=u64, unit=u64, address=cython.int)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def next_set(data: bytes_at, size: u64, big: cython.bint, each: cython.pointer[Set]) -> cython.bint:
    """Read the header at each.end: where the set's pairs begin and end, its unit, the width of its addresses. False
    when it breaks a rule."""
    begin: u64 = each.end
    at: u64 = begin
    width: cython.int = 4
    length: u64 = fixed(data, cython.address(at), size, 4, big)
    if wide_length(length):
        width = 8
        length = fixed(data, cython.address(at), size, 8, big)
    if at > size or length > size - at or (width == 4 and reserved_length(length)):
        return False
    each.end = at + length
    if fixed(data, cython.address(at), each.end, 2, big) != 2:
        return False
    each.unit = fixed(data, cython.address(at), each.end, width, big)
    each.address = cython.cast(cython.int, fixed(data, cython.address(at), each.end, 1, big))
    fixed(data, cython.address(at), each.end, 1, big)  # the size of segments: none has any
    if at > each.end or (each.address != 4 and each.address != 8):
        return False
    each.at = begin + (at - begin + 2 * each.address - 1) // (2 * each.address) * (2 * each.address)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def next_pair(
    data: bytes_at, big: cython.bint, each: cython.pointer[Set], start: cython.pointer[u64], count: cython.pointer[u64]
) -> cython.bint:
    """The set's next range; False behind its last."""
    if each.at >= each.end or each.end - each.at < cython.cast(u64, 2 * each.address):
        return False
    start[0] = fixed(data, cython.address(each.at), each.end, each.address, big)
    count[0] = fixed(data, cython.address(each.at), each.end, each.address, big)
    return start[0] != 0 or count[0] != 0


def find(
    table: cython.const[cython.uchar][::1],
    big: cython.bint,
    vaddrs: cython.const[cython.ulonglong][::1],
    units: cython.ulonglong[::1],
):
    """Write, for each vaddr, the offset + 1 in .debug_info of the first unit that has it; 0 stays where none does.
    Gives the number of units listed, or -1 when the table breaks a rule."""
    size: u64 = table.shape[0]
    start: u64 = 0
    count: u64 = 0
    at: cython.Py_ssize_t
    sets: cython.Py_ssize_t = 0
    each: Set
    each.end = 0
    if size == 0:
        return 0
    data = cython.address(table[0])
    with cython.nogil:
        while each.end < size:
            if not next_set(data, size, big, cython.address(each)):
                sets = -1
                break
            sets += 1
            while next_pair(data, big, cython.address(each), cython.address(start), cython.address(count)):
                for at in range(vaddrs.shape[0]):
                    if vaddrs[at] >= start and vaddrs[at] - start < count:
                        if units[at] == 0 or each.unit + 1 < units[at]:
                            units[at] = each.unit + 1
    return sets


def beyond(
    table: cython.const[cython.uchar][::1],
    parts: Parts,
    rows: cython.const[cython.ulonglong][::1],
    says: cython.uchar[::1],
):
    """Set to 0 what units of DWARF 2 say, where the table tells of more code than the one span of their root."""
    size: u64 = table.shape[0]
    start: u64 = 0
    count: u64 = 0
    big: cython.bint = parts.file.big
    place: cython.Py_ssize_t
    each: Set
    each.end = 0
    if size == 0 or rows.shape[0] < WIDTH or cython.cast(u64, rows.shape[0]) != parts.file.unit_count * WIDTH:
        return
    data = cython.address(table[0])
    with cython.nogil:
        while each.end < size and next_set(data, size, big, cython.address(each)):
            unit = unit_at(cython.address(parts.file), each.unit)
            if unit == cython.NULL or unit[VERSION] != 2 or not unit[HAS] & HAS_LOW or not unit[HAS] & HAS_HIGH:
                continue
            place = (unit - parts.file.units) // WIDTH
            while next_pair(data, big, cython.address(each), cython.address(start), cython.address(count)):
                if place < says.shape[0] and (start < unit[LOW] or start + count > unit[HIGH]):
                    if count and is_code(cython.address(parts.file), start):  # and not what a linker dropped
                        says[place] = 0
