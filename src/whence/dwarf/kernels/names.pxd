# Names and declarations of functions, cached by DIE.

from whence.dwarf.kernels.abbrevs cimport AbbrevCache, AbbrevTable, DieCursor
from whence.dwarf.kernels.budget cimport Budget
from whence.dwarf.kernels.reading cimport Attribute
from whence.dwarf.kernels.units cimport File, u64
from whence.kernels.hashtable cimport HashIndex
from whence.kernels.vector cimport U64s

cpdef enum:
    BARE_BIT = 61  # of a plain name's key: the DIE has nothing but a name
    PLAIN_SOURCE = 0xFFFF  # the source of references to names that are not qualified yet
    MAX_ANCESTORS = 32  # the innermost ancestors that `ancestors` returns for each DIE
    TAG_SHIFT = 48  # of an ancestor: tag << TAG_SHIFT | offset in .debug_info

cpdef enum:  # of Start.file: bits 0 to 31 are the file number (DW_AT_decl_file)
    FILE_UNIT_SHIFT = 32  # with one of the bits below: the unit (row << FILE_UNIT_SHIFT) with the file table
    OTHER_FILE_BIT = 62  # a unit of the same file
    ALT_FILE_BIT = 63  # one of the supplementary file

cdef struct Start:  # a function's declaration coordinates
    unsigned long long name
    unsigned long long file
    unsigned int line

cdef struct KnownName:
    unsigned long long key
    unsigned long long name

cdef struct KnownNames:
    KnownName* items
    Py_ssize_t count
    Py_ssize_t capacity

cdef struct Starts:
    Start* items
    Py_ssize_t count
    Py_ssize_t capacity

cpdef enum:  # how functions are named: whence._base.model.NameStyle
    QUALIFIED = 0  # by the linkage name; without one, in C++ and Rust, by the qualified name
    LINKAGE = 1  # by the linkage name, otherwise by the name
    SHORT = 2  # by the name

cdef struct Names:
    int style  # QUALIFIED, LINKAGE, SHORT
    HashIndex index  # of known, by key
    KnownNames known
    unsigned long long seed  # of the index
    U64s plain  # keys of DIEs whose names are to be qualified (C++, Rust)
    const unsigned long long* current  # the unit being read
    Starts starts
    bint unresolved_refs  # DIEs outside the known units were referred to
    U64s unresolved  # offsets of such DIEs in .debug_info
    Budget budget

cdef struct Search:  # for the name and the declaration of a function, along its origins and specifications
    Names* names  # NULL for names of types
    const File* file
    const File* alt
    const File* types
    AbbrevCache* tables
    Budget* budget
    bint unresolved_refs
    u64 die  # the key of the DIE that is read
    u64 origin
    u64 specification
    u64 name
    u64 named  # the DIE that has it
    u64 language
    u64 linkage
    u64 decl_file
    u64 decl_line
    int has  # HAS_DECL_*
    bint bare  # not a declaration, without a frame base, not artificial: line tables only (clang -g1)

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
cdef void begin_search(
    Search* search, Names* names, const File* file, const File* alt, const File* types, AbbrevCache* tables, Budget* budget
) noexcept nogil
cdef u64 follow(Search* search, u64 key) noexcept nogil
cdef bint read_declaration(Search* search) noexcept nogil
cdef void note_attribute(
    Search* search, const File* file, const u64* unit, const Attribute* attribute, u64 value
) noexcept nogil
cdef u64 target_of_attribute(Search* search, const u64* unit, const Attribute* attribute, u64 value) noexcept nogil
cdef void collect_ancestors(
    DieCursor* cursor, U64s* levels, const u64* keys, Py_ssize_t count, unsigned long long* ancestors
) noexcept nogil
