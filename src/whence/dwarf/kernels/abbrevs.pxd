# An abbreviation table, compiled for one walk over a unit's DIEs.

from whence.dwarf.kernels.budget cimport Budget
from whence.dwarf.kernels.units cimport File

cdef enum:  # Entry.kind: what the walk does with such a DIE
    PLAIN = 0  # skip its attributes, look among its children
    DEAD = 1  # skip its attributes and its children
    FUNCTION = 2
    INLINED = 3

cdef enum:  # Op.what
    SKIP_LEB = 0
    SKIP_BLOCK = 1  # a length as LEB128, then so many bytes
    SKIP_TEXT = 2
    SKIP_FORM = 3  # any other form of varying size
    READ = 4  # into a slot

cdef enum:  # slots: the attributes the walk wants
    S_LOW = 0
    S_HIGH = 1
    S_RANGES = 2
    S_CALL_FILE = 3
    S_CALL_LINE = 4
    S_ORIGIN = 5
    S_SIBLING = 6
    S_DECLARATION = 7
    S_CALL_COLUMN = 8
    S_CALL_DISCRIMINATOR = 9
    SLOTS = 10

cdef struct Op:  # skip `before` bytes, then do `what`
    unsigned char what
    unsigned char slot
    unsigned short form
    unsigned int before
    unsigned long long implicit

cdef enum:
    LARGEST_TAG = 0xFFFF  # and those beyond it

cdef struct Entry:
    unsigned long long code
    unsigned long long spec  # where its attributes begin in .debug_abbrev
    unsigned int first  # of its ops
    unsigned int ops
    unsigned int tail  # bytes to skip after the last op
    unsigned short tag  # at most LARGEST_TAG
    unsigned char kind
    unsigned char children

cdef struct AbbrevTable:
    Entry* entries
    Py_ssize_t count
    Py_ssize_t room
    Op* ops
    Py_ssize_t op_count
    Py_ssize_t op_room
    int dense  # codes count 1, 2, 3...; else the entries are sorted by code
    const File* file  # what is compiled here: a table's offset in a file, for units of these sizes
    unsigned long long offset
    unsigned long long sizes
    unsigned long long used  # when it was last asked for

cdef enum:  # tables that are kept: ROWS that an offset can be in, of WAYS each, the one not used for longest makes room
    TABLE_ROWS = 64
    TABLE_WAYS = 4
    KEPT_BYTES = 1 << 23  # all are let go when together they take more

cdef struct AbbrevCache:
    AbbrevTable* rows  # NULL before the first one
    AbbrevTable* last  # that was asked for
    unsigned long long turn
    bint with_columns  # whether the walk wants the columns of calls
    unsigned long long held  # bytes

cdef inline Entry* entry_of_code(AbbrevTable* table, unsigned long long code) noexcept nogil:
    if table.dense:
        return &table.entries[code - 1] if code - 1 < <unsigned long long>table.count else NULL
    return find_entry(table, code)

cdef AbbrevTable* table_of(
    AbbrevCache* tables, const File* file, const unsigned long long* unit, Budget* budget, int* fault
) noexcept nogil
cdef Entry* find_entry(AbbrevTable* table, unsigned long long code) noexcept nogil
cdef void free_cache(AbbrevCache* tables) noexcept nogil

cdef bint keeps_types_apart(unsigned long long language) noexcept nogil
cdef bint enumerations_hold_code(unsigned long long language) noexcept nogil
cdef int kind_of(unsigned long long tag, unsigned long long language) noexcept nogil
cdef int slot_of(unsigned long long name, int kind, bint with_columns) noexcept nogil
cdef unsigned long long bytes_of(AbbrevTable* table) noexcept nogil
cdef int compile_abbrevs(
    AbbrevTable* table, const File* file, const unsigned long long* unit, unsigned long long size,
    unsigned long long* reached, bint with_columns,
) noexcept nogil
cdef int by_code(const void* left, const void* right) noexcept nogil
cdef void free_tables(AbbrevCache* tables) noexcept nogil
