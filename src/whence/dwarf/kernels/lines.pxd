# The state of the reader of line programs, and the faults of programs, also for whence.dwarf.lines.

from whence.dwarf.kernels.units cimport bytes_at, u64
from whence.kernels.hashtable cimport HashIndex
from whence.kernels.vector cimport Bytes, U32s, U64s, Vector

cpdef enum:  # faults, and the value of each
    CUT_OFF = 1  # how many bytes are needed
    BAD_UNIT_LENGTH = 2  # the length
    BEYOND_SECTION = 3  # the length
    BAD_VERSION = 4  # the version
    BAD_ADDRESS_SIZE = 5  # the size
    BAD_SEGMENT_SELECTOR_SIZE = 6  # the size
    BAD_HEADER_LENGTH = 7  # the length
    READ_TOO_OFTEN = 8
    NO_TABLES = 9
    TOO_MANY_ENTRIES = 10  # how many
    BAD_FORM = 11
    CUT_SHORT = 12
    BAD_OPCODE_LENGTH = 13
    NO_LINE_RANGE = 14
    BAD_ADDRESS = 15
    FAULT_WIDTH = 4  # numbers of a fault: the program (its index among the chosen), the fault, offset, value

cdef struct Header:  # 6.2.4
    unsigned long long offset  # of the program in .debug_line
    unsigned long long end
    unsigned long long tables
    unsigned long long program
    int version
    int offset_size
    int address_size

cdef struct Tables:  # the directories and files of one program, by number less `first`
    U64s directories  # the position of a name: form << 56 | number
    U64s names
    U64s parents  # the directory of each file, as the header counts them
    Py_ssize_t first  # version 5 counts from 0, earlier ones from 1

cdef struct Sequence:
    unsigned long long end
    unsigned long long start
    Py_ssize_t first  # row
    Py_ssize_t stop
    bint unsorted  # its addresses decrease

cdef struct Location:  # the meaning of a row's line column if columns are read
    unsigned int line
    unsigned int column
    unsigned int discriminator

cdef struct Locations:  # each once; number 0 is line 0
    Vector items
    HashIndex index

cdef struct FileKey:
    unsigned long long comp_dir  # a name reference
    unsigned long long directory
    unsigned long long name

cdef struct FileKeys:  # files in order of first mention, each once
    Vector items
    HashIndex index

cdef struct Machine:
    const unsigned char* data  # of .debug_line
    bint big
    unsigned long long lowest  # the first vaddr that can be code
    bint with_columns
    bint skip_line_zero  # rows of line 0 have file and line of the last other row of their sequence
    # the header
    unsigned long long min_instruction_length
    unsigned long long max_operations
    long long line_base
    long long line_range
    int opcode_base
    int address_size
    const unsigned char* operand_counts  # of standard opcodes 1, 2, ...
    Py_ssize_t operand_count_size
    # registers (6.2.2), and the offsets of the next opcode and of the end
    unsigned long long offset
    unsigned long long end
    unsigned long long address
    unsigned long long op_index
    unsigned long long file
    unsigned int line
    unsigned int column
    unsigned int discriminator
    # results
    Py_ssize_t rows
    Py_ssize_t capacity  # of the three columns
    U64s row_vaddr
    U32s row_file
    U32s row_line
    Py_ssize_t first  # row of the open sequence
    bint unsorted  # the open sequence
    bint has_line  # the open sequence has a row with a line; file and line of the last one:
    unsigned int last_file
    unsigned int last_line
    Vector sequences
    Bytes used  # 1 at the numbers of files that rows name
    Locations locations
    # the offset of a bad opcode, or of the name of DW_LNE_define_file
    unsigned long long stopped_at

cdef struct Program:
    Py_ssize_t sequences  # the first one, and how many
    Py_ssize_t sequence_count
    Py_ssize_t files  # the first key of its files, by number, and how many there are
    Py_ssize_t file_count

cdef class LineProgramReader:
    cdef const unsigned char[::1] _data
    cdef const unsigned char[::1] _str_offsets
    cdef Machine _machine
    cdef Header _header
    cdef Tables _tables
    cdef Vector _programs
    cdef U32s _key_of  # of all programs, by file number
    cdef FileKeys _keys
    cdef U64s _faults

    cdef int _fault(self, int fault, u64 offset, u64 value) noexcept nogil
    cdef int _read_header(self, u64 offset, u64 address_size) noexcept nogil
    cdef int _read_tables(self, u64 str_base) noexcept nogil
    cdef bint _define_file(self) noexcept nogil
    cdef int _run(self, Program* program) noexcept nogil
    cdef bint _number_files(self, Program* program, u64 comp_dir) noexcept nogil
    cdef void _mark(self, const unsigned long long[::1] files, Py_ssize_t first, Py_ssize_t stop) noexcept nogil
    cdef void _forget(self) except *

cdef Py_ssize_t location_number(
    Locations* locations, unsigned int line, unsigned int column, unsigned int discriminator
) noexcept nogil
cdef u64 location_hash(unsigned int line, unsigned int column, unsigned int discriminator, u64 seed) noexcept nogil
cdef u64 file_hash(FileKey* key, u64 seed) noexcept nogil
cdef Py_ssize_t file_number(FileKeys* files, FileKey* key) noexcept nogil
cdef u64 string_end(bytes_at data, u64 offset, u64 end) noexcept nogil
cdef int read_old_tables(bytes_at data, unsigned long long* offset, u64 end, Tables* tables) noexcept nogil
cdef int read_table(
    bytes_at data, unsigned long long* offset, Header* header, bint big, U64s* names, U64s* parents,
    unsigned long long* value,
) noexcept nogil
cdef bint is_index(u64 position) noexcept nogil
cdef void resolve_indexes(
    U64s* positions, const unsigned char[::1] str_offsets, u64 base, int size, bint big
) noexcept nogil
cdef int execute(Machine* machine) noexcept nogil
cdef bint more_rows(Machine* machine) noexcept nogil
cdef bint sort_sequence(Machine* machine, Sequence* sequence) noexcept nogil
cdef bint sort_sequences(Sequence* sequences, Py_ssize_t count) noexcept nogil
cdef Py_ssize_t merge_sequences(
    Machine* machine, Program* program, unsigned int* numbers, unsigned long long* out_vaddr, unsigned int* out_file,
    unsigned int* out_line,
) noexcept nogil
cdef bint lacks(u64 offset, u64 end, u64 size) noexcept nogil
cdef u64 name_of_file(u64 number, u64 file_count, unsigned int* key_of, const unsigned long long[::1] names) noexcept nogil
cdef numbers_of(U64s* vector)
