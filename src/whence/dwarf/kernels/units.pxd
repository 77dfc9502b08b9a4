# Units: their sections, the table of headers and root DIEs, and range lists.
#
# Kernels cimport the enumerations as constants of C; Python imports them from the compiled module of the same name.

from whence.dwarf.kernels.budget cimport Budget
from whence.kernels.columns cimport Column
from whence.kernels.hashtable cimport HashIndex
from whence.kernels.vector cimport U64s

ctypedef unsigned long long u64
ctypedef const unsigned char* bytes_at

cpdef enum:  # columns of the unit table, whose rows have WIDTH numbers
    OFFSET = 0  # in .debug_info; [OFFSET, END)
    END = 1
    DIE = 2  # the root's offset
    ABBREV = 3  # the offset of its table in .debug_abbrev
    VERSION = 4
    ADDRESS_SIZE = 5
    OFFSET_SIZE = 6  # 4, in 64-bit DWARF 8
    KIND = 7  # DW_UT_*
    SIGNATURE = 8  # of a type unit, or the dwo id
    TAG = 9  # of the root; 0 of type units, and where there is no root
    LANGUAGE = 10
    NAME = 11  # a name reference, like COMP_DIR and DWO_NAME
    COMP_DIR = 12
    STMT_LIST = 13
    LOW = 14
    HIGH = 15
    RANGES = 16  # DW_AT_ranges; RANGES_INDEX set: an index (DW_FORM_rnglistx)
    STR_BASE = 17
    ADDR_BASE = 18
    RNG_BASE = 19
    RANGES_BASE = 20  # added to the DW_AT_ranges of a version 4 split unit
    DWO_NAME = 21
    HAS = 22  # the attributes of the root: HAS_*
    FAULT = 23  # 0: none
    FAULT_AT = 24  # its offset in .debug_info
    SKELETON_RANGES_BASE = 25  # RANGES_BASE of the split unit of this skeleton
    WIDTH = 26

cpdef enum:  # flags of HAS
    HAS_STMT_LIST = 1
    HAS_LOW = 2
    HAS_HIGH = 4
    HAS_RANGES = 8
    HAS_STR_BASE = 16
    HAS_RNG_BASE = 32

cpdef enum:  # faults of a unit; whence.dwarf.problems has the sentences
    BAD_LENGTH = 1
    BAD_VERSION = 2
    BAD_ADDRESS_SIZE = 3
    BAD_UNIT_TYPE = 4
    SHORT_HEADER = 5
    NO_ROOT_ABBREV = 6
    BAD_ROOT = 7
    COSTLY_ROOT = 8
    TOO_MANY_UNITS = 9
    BAD_DIE = 11
    NO_ABBREV = 12
    BAD_ABBREVS = 21
    COSTLY_ABBREVS = 23
    BAD_RANGE_LIST = 31
    COSTLY_RANGE_LISTS = 33
    COSTLY_NAMES = 41
    OUT_OF_MEMORY = 102  # no fault of the file: MemoryError

cpdef enum:  # of UnitRangeColumns.described
    NO_RANGES = 0
    RANGES_GIVEN = 1
    BROKEN_RANGES = 2

cpdef enum:  # kinds of sections with units, whose headers and default bases differ
    INFO_SECTION = 0
    SPLIT_SECTION = 1  # .debug_info.dwo
    TYPES_SECTION = 2  # .debug_types, of version 4

cpdef enum:
    RANGES_INDEX = 63  # a bit of RANGES
    ALT_BIT = 62  # of a DIE's key: the DIE is in the supplementary file
    TYPES_BIT = 60  # the DIE is in .debug_types

cdef enum:  # the cache of abbreviations of root DIEs
    KNOWN_BITS = 6
    KNOWN_ROOTS = 64

cdef struct SectionBytes:
    const unsigned char* at
    unsigned long long size

cdef struct File:  # the sections of DIEs; *_ref is the name reference of a section's first byte
    SectionBytes info
    SectionBytes abbrev
    SectionBytes strings
    SectionBytes line_strings
    SectionBytes str_offsets
    SectionBytes addr
    SectionBytes ranges
    SectionBytes rnglists
    unsigned long long info_ref
    unsigned long long strings_ref
    unsigned long long line_strings_ref
    const unsigned long long* units
    unsigned long long unit_count
    HashIndex types  # rows of type units, by signature
    unsigned long long seed  # of the index
    const unsigned long long* code  # where code can be: [start, end) pairs in ascending order
    unsigned long long code_count
    int big

cdef struct Span:  # [start, end) of a node of a walk, or of a unit
    unsigned long long start
    unsigned long long end
    unsigned int owner

cdef struct Spans:
    Span* items
    Py_ssize_t count
    Py_ssize_t capacity
    Budget budget  # of entries of lists

cdef struct CachedRoot:  # the offset of the abbreviation of root DIEs
    unsigned long long table
    unsigned long long code
    unsigned long long spec

cdef struct AddressSet:  # a set of .debug_aranges
    unsigned long long at
    unsigned long long end
    unsigned long long unit
    int address

cdef class DwarfSections:
    cdef File file
    cdef list kept

    cdef SectionBytes _take(self, const unsigned char[::1] data) except *

cdef class UnitRangeColumns:
    cdef readonly Column starts
    cdef readonly Column ends
    cdef readonly Column owners
    cdef readonly Column described
    cdef Column first  # of a unit's ranges; one more than there are units
    cdef Column begins  # the starts of different ranges, ascending
    cdef Column limits  # their ends
    cdef Column holders  # the first unit of each

    cdef _clear_incomplete(self, DwarfSections sections, const unsigned char[::1] aranges)

cdef class RowClipper:
    cdef readonly Column vaddr
    cdef readonly Column file
    cdef readonly Column line
    cdef U64s spans

    cdef bint _reserve(self, Py_ssize_t more) noexcept nogil
    cdef bint _add_span(self, unsigned long long start, unsigned long long end) noexcept nogil
    cdef void _join(self) noexcept nogil
    cdef bint _covers(self, unsigned long long vaddr, unsigned long long end) noexcept nogil
    cdef void _clip(
        self, const unsigned long long* vaddr, const unsigned int* file, const unsigned int* line, Py_ssize_t row,
        Py_ssize_t rows,
    ) noexcept nogil
    cdef void _put(self, unsigned long long vaddr, unsigned int file, unsigned int line) noexcept nogil

cdef int is_code(const File* file, unsigned long long start) noexcept nogil
cdef int add_span(Spans* spans, unsigned long long start, unsigned long long end, unsigned int owner) noexcept nogil
cdef int add_range_list(
    Spans* spans, const File* file, const unsigned long long* unit, unsigned long long value, unsigned long long form,
    unsigned int owner,
) noexcept nogil

cdef bint are_units(const unsigned long long[::1] units, u64 size) noexcept nogil
cdef u64 unit_extent(SectionBytes info, int big, u64 offset, unsigned long long* row) noexcept nogil
cdef u64 read_header(SectionBytes info, int big, int section, u64 offset, unsigned long long* row) noexcept nogil
cdef void read_root(
    const File* file, const File* alt, unsigned long long* row, CachedRoot* root_cache, Budget* budget
) noexcept nogil
cdef void default_bases(unsigned long long* row, int section) noexcept nogil
cdef int add_code_span(
    Spans* spans, const File* file, const u64* unit, u64 start, u64 end, unsigned int owner
) noexcept nogil
cdef int add_ranges_list(Spans* spans, const File* file, const u64* unit, u64 offset, unsigned int owner) noexcept nogil
cdef int add_rnglists_list(
    Spans* spans, const File* file, const u64* unit, u64 offset, unsigned int owner
) noexcept nogil
cdef bint next_set(bytes_at data, u64 size, bint big, AddressSet* entries) noexcept nogil
cdef bint next_pair(bytes_at data, bint big, AddressSet* entries, u64* start, u64* count) noexcept nogil
cdef int by_start(const void* left, const void* right) noexcept nogil
