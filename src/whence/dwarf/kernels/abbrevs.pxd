# Abbreviation tables, compiled for walks over DIEs, and the walk.

from whence.dwarf.kernels.budget cimport Budget
from whence.dwarf.kernels.reading cimport read_form, skip, skip_form, skip_string
from whence.dwarf.kernels.units cimport END, File, u64
from whence.kernels.bytes cimport uleb

cdef enum:  # Entry.kind: what the walk does with a DIE
    PLAIN = 0  # skip its attributes, search its children
    DEAD = 1  # skip its attributes and its children
    FUNCTION = 2
    INLINED = 3

cdef enum:  # Op.what
    SKIP_LEB = 0
    SKIP_BLOCK = 1  # a ULEB128 length and that many bytes
    SKIP_TEXT = 2
    SKIP_FORM = 3  # any other form of varying size
    READ = 4  # into a slot

cdef enum:  # slots: the attributes that the walk reads
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
    LARGEST_TAG = 0xFFFF  # also of larger tags

cdef struct Entry:
    unsigned long long code
    unsigned long long spec  # where its attributes begin in .debug_abbrev
    unsigned int first  # of its ops
    unsigned int ops
    unsigned int tail  # bytes to skip after the last op
    unsigned short tag  # at most LARGEST_TAG
    unsigned char kind
    unsigned char children

cdef struct Entries:
    Entry* items
    Py_ssize_t count
    Py_ssize_t capacity

cdef struct Ops:
    Op* items
    Py_ssize_t count
    Py_ssize_t capacity

cdef struct AbbrevTable:
    Entries entries
    Ops ops
    int dense  # codes count 1, 2, 3...; else the entries are sorted by code
    const File* file  # the key: an offset in a file, for units with these sizes and this language
    unsigned long long offset
    unsigned long long sizes
    unsigned long long used  # the turn of its last use

cdef enum:  # a set-associative cache; the least recently used table of a row is evicted
    TABLE_ROWS = 64
    TABLE_WAYS = 4
    MAX_CACHED_BYTES = 1 << 23  # the cache is cleared when it takes more

cdef struct AbbrevCache:
    AbbrevTable* rows  # NULL before the first one
    AbbrevTable* last  # the last one used
    unsigned long long turn
    bint with_columns  # read the columns of calls
    unsigned long long bytes

cdef inline Entry* entry_of_code(AbbrevTable* table, unsigned long long code) noexcept nogil:
    if table.dense:
        return &table.entries.items[code - 1] if code - 1 < <unsigned long long>table.entries.count else NULL
    return find_entry(table, code)

cdef AbbrevTable* table_of(
    AbbrevCache* tables, const File* file, const unsigned long long* unit, Budget* budget, int* fault
) noexcept nogil
cdef Entry* find_entry(AbbrevTable* table, unsigned long long code) noexcept nogil
cdef void free_cache(AbbrevCache* tables) noexcept nogil

# A walk over the DIEs of a unit, in the order of .debug_info:
#
#     while next_die(&cursor):
#         if cursor.entry == NULL: ...    # the end of a list of children
#         elif not read_attributes(&cursor): break
#
# `next_die` reads the code of a DIE and finds its entry; `read_attributes` reads the attributes that have a slot and
# moves past the others. A damaged DIE ends the walk.

cdef struct DieCursor:
    const File* file
    const u64* unit
    AbbrevTable* table
    u64 offset  # where the next read begins
    u64 die  # the offset of the current DIE
    const Entry* entry
    unsigned int has  # a bit for each slot that was read
    u64[SLOTS] values
    u64[SLOTS] forms


cdef inline bint next_die(DieCursor* cursor) noexcept nogil:
    """Read the code of the next DIE. False at the end of the unit, and if its abbreviation does not exist."""
    cdef u64 code
    if cursor.offset >= cursor.unit[END]:
        return False
    cursor.die = cursor.offset
    code = uleb(cursor.file.info.at, &cursor.offset, cursor.unit[END])
    cursor.entry = entry_of_code(cursor.table, code) if code else NULL
    return code == 0 or cursor.entry != NULL


cdef inline bint read_attributes(DieCursor* cursor) noexcept nogil:
    """Read the attributes of the current DIE that have a slot. False if the DIE extends past the end of the unit."""
    cdef const unsigned char* data = cursor.file.info.at
    cdef u64 end = cursor.unit[END]
    cdef const Op* op = cursor.table.ops.items + cursor.entry.first
    cdef u64 form
    cdef unsigned int step
    cursor.has = 0
    for step in range(cursor.entry.ops):
        skip(&cursor.offset, end, op.before)
        if op.what == SKIP_TEXT:
            skip_string(data, &cursor.offset, end)
        elif op.what == READ:
            form = op.form
            cursor.values[op.slot] = read_form(
                data, &cursor.offset, end, &form, op.implicit, cursor.unit, cursor.file.big
            )
            cursor.forms[op.slot] = form
            cursor.has |= <unsigned int>1 << op.slot
        else:
            skip_form(data, &cursor.offset, end, op.form, cursor.unit, cursor.file.big)
        op += 1
    skip(&cursor.offset, end, cursor.entry.tail)
    return cursor.offset <= end


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
