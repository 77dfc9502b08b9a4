# What the DWARF kernels share: the parts of a file, the record of a unit. Reading: reading.pxd; the standard's numbers:
# constants.pxd.

ctypedef unsigned long long u64
ctypedef const unsigned char* bytes_at

cdef struct Part:  # a section's bytes
    const unsigned char* at
    unsigned long long size

cdef struct File:  # the sections DIEs are read from; *_ref is the name reference of the section's first byte
    Part info
    Part abbrev
    Part strings
    Part line_strings
    Part str_offsets
    Part addr
    Part ranges
    Part rnglists
    unsigned long long info_ref
    unsigned long long strings_ref
    unsigned long long line_strings_ref
    const unsigned long long* units
    unsigned long long unit_count
    const unsigned long long* code  # where code can be: [start, end) pairs in ascending order
    unsigned long long code_count
    int big

# A unit is a row of WIDTH numbers; whence.dwarf.units names the same fields.
cdef enum:
    OFFSET = 0
    END = 1
    DIE = 2  # of the root
    ABBREV = 3
    VERSION = 4
    ADDRESS_SIZE = 5
    OFFSET_SIZE = 6
    KIND = 7  # DW_UT_*
    SIGNATURE = 8  # of a type unit, or the dwo id
    TAG = 9
    LANGUAGE = 10
    NAME = 11
    COMP_DIR = 12
    STMT_LIST = 13
    LOW = 14
    HIGH = 15
    RANGES = 16
    STR_BASE = 17
    ADDR_BASE = 18
    RNG_BASE = 19
    RANGES_BASE = 20  # added to the DW_AT_ranges of a version 4 split unit
    DWO_NAME = 21
    HAS = 22
    FAULT = 23
    FAULT_AT = 24
    SKELETON_RANGES_BASE = 25  # what RANGES_BASE is for the split unit of this skeleton
    WIDTH = 26

cdef enum:  # HAS
    HAS_STMT_LIST = 1
    HAS_LOW = 2
    HAS_HIGH = 4
    HAS_RANGES = 8
    HAS_STR_BASE = 16
    HAS_RNG_BASE = 32

cdef enum:
    ALT_BIT = 62  # of a DIE's key: the DIE lies in the supplementary file
    BARE_BIT = 61  # of a plain name's key: its DIE says nothing but a name
