# The classes that make ranges of a function table.

from whence.kernels.columns cimport Column

cdef struct OpenRange:  # by depth
    int node  # of the inline tree; unused at depth 0
    Py_ssize_t range
    bint has_file
    int line  # the last line row; -1: none yet

cdef struct LineRow:  # a row of a function that is not assigned to its range yet
    Py_ssize_t range
    unsigned int offset
    unsigned int line

cdef class PcValues:
    cdef unsigned int* starts
    cdef int* values
    cdef Py_ssize_t capacity, count, cursor

    cdef inline void clear(self) noexcept nogil
    cdef bint unpack(
        self, const unsigned char* table, Py_ssize_t size, Py_ssize_t offset, unsigned int quantum,
        unsigned long long span
    ) noexcept nogil
    cdef inline unsigned int end(self) noexcept nogil
    cdef inline int current(self, unsigned int* until) noexcept nogil
    cdef inline void advance(self, unsigned int pc) noexcept nogil
    cdef int value_at(self, unsigned int pc) noexcept nogil

cdef class InlineTrees:
    cdef PcValues inlined
    cdef const unsigned char[::1] data
    cdef unsigned long long base, nodes
    cdef int node_size, name_at, parent_width, pc_at, start_at
    cdef bint big
    cdef const unsigned char* tree
    cdef int chain[257]  # MAX_DEPTH + 1: nodes to open, innermost first

    cdef bint select(self, unsigned long long tree) noexcept nogil
    cdef inline const unsigned char* node(self, int index) noexcept nogil
    cdef int climb(self, int index, OpenRange* opened, int* level) noexcept nogil

cdef class RangeColumns:
    cdef readonly Column vaddr, length, depth, function, file, line_index, line_count, call_file, call_line, start_line
    cdef readonly Column line_offset, line_number
    cdef Py_ssize_t limit, capacity, row_capacity, count, rows
    # the memory of the columns
    cdef unsigned long long* vaddrs
    cdef unsigned long long* lengths
    cdef unsigned int* depths
    cdef unsigned long long* functions
    cdef unsigned long long* files
    cdef unsigned int* line_indexes
    cdef unsigned int* line_counts
    cdef unsigned long long* call_files
    cdef unsigned int* call_lines
    cdef unsigned int* start_lines
    cdef unsigned int* line_offsets
    cdef unsigned int* line_numbers

    cdef int grow(self, Py_ssize_t capacity) noexcept nogil
    cdef int grow_rows(self, Py_ssize_t capacity) noexcept nogil
    cdef inline int open_range(
        self, unsigned long long vaddr, int depth, unsigned long long function, unsigned int start_line
    ) noexcept nogil
    cdef void publish(self) noexcept nogil

cdef class RangeBuilder:
    cdef readonly Py_ssize_t damaged_lines, damaged_trees  # functions without lines, and without inlined calls
    cdef InlineTrees trees
    cdef bint with_lines, with_files, big
    cdef unsigned int quantum
    cdef const unsigned long long[::1] entry, end, tree
    cdef const unsigned int[::1] name, pcsp, pcfile, pcln, cu, pcinl, start
    cdef const unsigned char[::1] pctab_bytes, file_table
    cdef const unsigned char* pctab
    cdef Py_ssize_t pctab_size
    cdef int lowest_file
    cdef unsigned long long names_size, names_base, texts_size, texts_base, hops
    cdef PcValues inlined, file_numbers, line_numbers
    cdef int level
    cdef OpenRange opened[257]  # MAX_DEPTH + 1
    cdef LineRow* rows
    cdef Py_ssize_t row_capacity, row_count

    cdef int lay_function(self, RangeColumns out, Py_ssize_t f) noexcept nogil
    cdef unsigned int read_tables(self, Py_ssize_t f) noexcept nogil
    cdef int walk(self, RangeColumns out, Py_ssize_t f, unsigned int stop) noexcept nogil
    cdef inline int open_range(
        self, RangeColumns out, unsigned long long vaddr, unsigned long long function, unsigned int start_line
    ) noexcept nogil
    cdef inline void close_range(self, RangeColumns out, Py_ssize_t f, unsigned int pc) noexcept nogil
    cdef int split_range(
        self, RangeColumns out, Py_ssize_t f, unsigned int pc, unsigned long long file
    ) noexcept nogil
    cdef int change_calls(self, RangeColumns out, Py_ssize_t f, unsigned int pc, int index) noexcept nogil
    cdef inline unsigned long long file_name(self, unsigned int cu, int number) noexcept nogil
    cdef int deal_rows(self, RangeColumns out, Py_ssize_t base) noexcept nogil
