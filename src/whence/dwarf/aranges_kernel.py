""".debug_aranges: which unit holds an address, without a look at the units (DWARF 5, section 6.1.2).

A question about few addresses is answered by one pass over the table; nothing is kept.
"""

import cython
from cython.cimports.whence.dwarf.reading import fixed, reserved_length, wide_length
from cython.cimports.whence.dwarf.shared import u64


def find(
    table: cython.const[cython.uchar][::1],
    big: cython.bint,
    vaddrs: cython.const[cython.ulonglong][::1],
    units: cython.ulonglong[::1],
):
    """Write, for each vaddr, the offset + 1 in .debug_info of the first unit that has it; 0 stays where none does.
    Gives the number of units listed, or -1 when the table breaks a rule."""
    size: u64 = table.shape[0]
    at: u64 = 0
    begin: u64
    end: u64
    unit: u64
    length: u64
    start: u64
    count: u64
    width: cython.int
    address: cython.int
    each: cython.Py_ssize_t
    sets: cython.Py_ssize_t = 0
    if size == 0:
        return 0
    data = cython.address(table[0])
    with cython.nogil:
        while at < size:
            begin = at
            width = 4
            length = fixed(data, cython.address(at), size, 4, big)
            if wide_length(length):
                width = 8
                length = fixed(data, cython.address(at), size, 8, big)
            if at > size or length > size - at or (width == 4 and reserved_length(length)):
                sets = -1
                break
            end = at + length
            if fixed(data, cython.address(at), end, 2, big) != 2:
                sets = -1
                break
            unit = fixed(data, cython.address(at), end, width, big)
            address = cython.cast(cython.int, fixed(data, cython.address(at), end, 1, big))
            fixed(data, cython.address(at), end, 1, big)  # the size of segments: none has any
            if at > end or (address != 4 and address != 8):
                sets = -1
                break
            sets += 1
            at = begin + (at - begin + 2 * address - 1) // (2 * address) * (2 * address)
            while at < end and end - at >= cython.cast(u64, 2 * address):
                start = fixed(data, cython.address(at), end, address, big)
                count = fixed(data, cython.address(at), end, address, big)
                if start == 0 and count == 0:
                    break
                for each in range(vaddrs.shape[0]):
                    if vaddrs[each] >= start and vaddrs[each] - start < count:
                        if units[each] == 0 or unit + 1 < units[each]:
                            units[each] = unit + 1
            at = end
    return sets
