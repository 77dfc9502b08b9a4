# What functions are called and where they are declared, remembered by DIE.

from whence.dwarf.kernels.abbrevs cimport AbbrevCache, AbbrevTable
from whence.dwarf.kernels.budget cimport Budget
from whence.dwarf.kernels.units cimport File, u64
from whence.kernels.hashtable cimport HashIndex
from whence.kernels.vector cimport U64s

cpdef enum:
    BARE_BIT = 61  # of a plain name's key: its DIE has nothing but a name
    PLAIN_SOURCE = 0xFFFF  # the source of a name reference whose name is not qualified yet
    MAX_ANCESTORS = 32  # that `ancestors` returns of each DIE, the innermost
    TAG_SHIFT = 48  # of an ancestor: tag << TAG_SHIFT | offset in .debug_info

cpdef enum:  # of Start.file: bits 0 to 31 are the file number (DW_AT_decl_file)
    FILE_UNIT_SHIFT = 32  # with a bit below: the unit (row << FILE_UNIT_SHIFT) whose table of files it counts in
    OTHER_FILE_BIT = 62  # a unit of the same file
    ALT_FILE_BIT = 63  # one of the supplementary file

cdef struct Start:  # a function's declaration coordinates
    unsigned long long name
    unsigned long long file
    unsigned int line

cdef struct KnownName:
    unsigned long long key
    unsigned long long name

cpdef enum:  # how functions are named: whence._base.model.NameStyle
    QUALIFIED = 0  # by the linkage name; without one, in C++ and Rust, by the name with the scopes it lies in
    LINKAGE = 1  # by the linkage name, else by the name alone
    SHORT = 2  # by the name alone

cdef struct Names:
    int style  # QUALIFIED, LINKAGE, SHORT
    HashIndex index  # of known, by key
    KnownName* known
    Py_ssize_t count
    Py_ssize_t room
    unsigned long long seed  # so that a file cannot choose keys that collide
    U64s plain  # keys of DIEs whose name lacks their scope (C++, Rust)
    const unsigned long long* current  # the unit that is walked
    Start* starts
    Py_ssize_t start_count
    Py_ssize_t start_room
    int unresolved_refs  # whether DIEs that lie in no known unit were referred to
    U64s unresolved  # where such DIEs begin in .debug_info
    Budget budget

cdef unsigned long long function_name(
    Names* names, const File* file, const File* alt, AbbrevCache* tables, unsigned long long key
) noexcept nogil
cdef void forget_names(Names* names) noexcept nogil
cdef void free_names(Names* names) noexcept nogil

cdef bint is_qualified(u64 language) noexcept nogil
cdef u64 remember_plain(Names* names, u64 key, u64 name) noexcept nogil
cdef void remember_start(Names* names, u64 name, u64 file, u64 line) noexcept nogil
cdef bint same_files(const u64* unit, const u64* other) noexcept nogil
cdef u64 type_of(const File* file, u64 signature, Budget* budget) noexcept nogil
cdef u64 follow(
    Names* names, const File* file, const File* alt, const File* types, AbbrevCache* tables, Budget* budget, u64 key,
    int* unresolved_refs,
) noexcept nogil
cdef Py_ssize_t collect_ancestors(
    const File* file, const u64* unit, AbbrevTable* table, U64s* levels, const u64* keys, Py_ssize_t count,
    unsigned long long* ancestors,
) noexcept nogil
