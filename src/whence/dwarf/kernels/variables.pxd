# The reader of variables.py.

from whence.dwarf.kernels.abbrevs cimport AbbrevCache, DieCursor
from whence.dwarf.kernels.budget cimport Budget
from whence.dwarf.kernels.units cimport DwarfSections, File, Spans, bytes_at, u64
from whence.kernels.columns cimport Column
from whence.kernels.vector cimport U64s

cdef class VariableReader:
    cdef DwarfSections sections
    cdef DwarfSections alt
    cdef AbbrevCache tables
    cdef Spans spans
    cdef U64s levels  # of open scopes
    cdef readonly unsigned long long walked  # bytes of DIEs
    cdef Budget budget

    cdef void find_spans(self, DieCursor* cursor) noexcept nogil
    cdef bint begin_walk(self, const u64* unit, u64 offset, DieCursor* cursor) noexcept nogil
    cdef u64 walk(
        self, const u64* unit, u64 offset, int mode, u64 vaddr, Column starts, Column ends, Column offsets
    ) noexcept nogil
    cdef bint below(
        self, const u64* unit, u64 offset, int mode, Column firsts, Column seconds, Column around
    ) noexcept nogil
    cdef bint of_unit(self, const u64* unit, Column addresses, Column offsets) noexcept nogil
    cdef bint at_address(
        self, const u64* unit, u64 spec, unsigned long long* offset, unsigned long long* vaddr
    ) noexcept nogil

cdef u64 block_size(bytes_at data, unsigned long long* offset, u64 end, u64 form, int big) noexcept nogil
cdef bint is_block(u64 form) noexcept nogil
cdef bint is_scope(u64 tag) noexcept nogil
cdef bint address_in(const File* file, const u64* unit, u64 offset, u64 end, unsigned long long* vaddr) noexcept nogil
