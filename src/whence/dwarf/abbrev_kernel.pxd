# An abbreviation table, digested for one walk over a unit's DIEs.

from whence.dwarf.shared cimport File

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
    SLOTS = 8

cdef struct Op:  # skip `before` bytes, then do `what`
    unsigned char what
    unsigned char slot
    unsigned short form
    unsigned int before
    unsigned long long implicit

cdef struct Entry:
    unsigned long long code
    unsigned long long spec  # where its attributes begin in .debug_abbrev
    unsigned int first  # of its ops
    unsigned int ops
    unsigned int tail  # bytes to skip after the last op
    unsigned short tag  # 0xFFFF: beyond
    unsigned char kind
    unsigned char children

cdef struct Table:
    Entry* entries
    unsigned long long count
    unsigned long long room
    Op* ops
    unsigned long long op_count
    unsigned long long op_room
    int dense  # codes count 1, 2, 3...; else the entries are sorted by code
    unsigned long long offset  # what is digested here: an offset and the sizes of some forms
    unsigned long long sizes
    unsigned long long spent  # bytes read so far

cdef inline Entry* entry_of_code(Table* table, unsigned long long code) noexcept nogil:
    if table.dense:
        return &table.entries[code - 1] if code - 1 < table.count else NULL
    return sparse(table, code)

cdef int digest(Table* table, const File* file, const unsigned long long* unit) noexcept nogil
cdef Entry* sparse(Table* table, unsigned long long code) noexcept nogil
cdef void forget(Table* table) noexcept nogil
