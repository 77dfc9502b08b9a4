"""The sections of one DWARF file, as the other kernels take them: addresses and sizes, kept alive by one object."""

import cython
from cython.cimports.libc.string import memset
from cython.cimports.whence.dwarf.kernels.shared import WIDTH, Part


@cython.cfunc
def part(data: cython.const[cython.uchar][::1]) -> Part:
    found: Part
    found.size = data.shape[0]
    found.at = cython.address(data[0]) if data.shape[0] else cython.NULL
    return found


@cython.final
@cython.cclass
class Parts:
    """Holds views of the sections; their bytes must stay as they are while it lives."""

    def __cinit__(self, sections: list, refs: tuple, big: cython.bint, code: cython.const[cython.ulonglong][::1]):
        """`sections`: info, abbrev, str, line_str, str_offsets, addr, ranges, rnglists. `refs`: the names of the first
        bytes of info, str, line_str. `code`: where code can be, as [start, end) pairs in ascending order."""
        memset(cython.address(self.file), 0, cython.sizeof(self.file))
        self.kept = [*sections, code]
        self.file.info = part(sections[0])
        self.file.abbrev = part(sections[1])
        self.file.strings = part(sections[2])
        self.file.line_strings = part(sections[3])
        self.file.str_offsets = part(sections[4])
        self.file.addr = part(sections[5])
        self.file.ranges = part(sections[6])
        self.file.rnglists = part(sections[7])
        self.file.info_ref, self.file.strings_ref, self.file.line_strings_ref = refs
        self.file.big = big
        self.file.code_count = code.shape[0] // 2
        self.file.code = cython.address(code[0]) if code.shape[0] else cython.NULL

    def settle(self, units: cython.const[cython.ulonglong][::1]):
        """The unit rows, by which a DIE's unit is found; they must not change from now on."""
        self.kept.append(units)
        self.file.unit_count = units.shape[0] // WIDTH
        self.file.units = cython.address(units[0]) if units.shape[0] else cython.NULL
