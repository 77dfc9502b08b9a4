# Tables of call frame information, for the kernels of this package.

from whence.kernels.hashtable cimport HashIndex
from whence.kernels.vector cimport Bytes, U32s, U64s, Vector

cdef enum:
    NONE = 0xFFFFFFFF  # no item
    STATE_HEAD = 3  # words of a state before its rules; each rule has two

cdef struct Fault:
    unsigned int code  # FAULT_*
    unsigned long long offset  # in the section
    unsigned long long value

cdef struct Entry:  # an FDE, with its rows once it is compiled
    unsigned long long start
    unsigned long long end
    unsigned int offset
    unsigned int program_start
    unsigned int program_end
    unsigned int cie
    unsigned int first_row
    unsigned int rows
    unsigned int fault  # 1 + index in the table's faults; 0: none
    bint is_compiled

cdef struct Cie:
    unsigned int offset
    unsigned int return_column
    unsigned long long code_align
    long long data_align
    unsigned char encoding
    unsigned char lsda_encoding
    bint is_augmented
    bint is_signal
    unsigned int address_size
    unsigned int program_start
    unsigned int program_end
    unsigned int initial  # the state after its instructions; NONE before they ran
    unsigned int fault  # 1 + index in the table's faults; 0: none

cdef struct Row:
    unsigned int offset  # from the FDE's start
    unsigned int state

cdef struct Transition:  # of a state by an operation
    unsigned int source  # NONE: free
    unsigned int target
    unsigned int operation
    int operand

cdef class CfiTable:
    cdef const unsigned char[::1] view
    cdef const unsigned char[::1] header_view
    cdef const unsigned long long[::1] code_start
    cdef const unsigned long long[::1] code_end
    cdef const unsigned char* data
    cdef const unsigned char* header
    cdef readonly unsigned long long size
    cdef readonly unsigned long long vaddr
    cdef unsigned long long header_vaddr
    cdef unsigned long long header_count
    cdef unsigned long long text_base
    cdef unsigned long long mask
    cdef bint is_debug, big, open_end, is_scanned, has_code
    cdef int bits
    cdef Vector entries, cies, rows, faults, problems
    cdef U32s order, state_offset
    cdef U64s words, expression_spans
    cdef Bytes expressions
    cdef HashIndex entry_by_offset, cie_by_offset, state_by_words, expression_by_bytes
    cdef Transition* transitions
    cdef unsigned long long transition_mask, seed
    cdef long long work_left, words_left, run_left
    cdef Fault fault  # pending
    cdef unsigned long long position, end  # of what is being read
    cdef unsigned int initial  # the state that DW_CFA_restore takes rules from
    cdef unsigned long long scratch[515]

    cdef bint fail(self, unsigned int code, unsigned long long offset, unsigned long long value) noexcept nogil
    cdef unsigned int reject(
        self, unsigned int code, unsigned long long offset, unsigned long long value
    ) noexcept nogil
    cdef unsigned long long read(self, int size) noexcept nogil
    cdef unsigned long long read_uleb(self) noexcept nogil
    cdef long long read_sleb(self) noexcept nogil
    cdef unsigned long long read_pointer(
        self, unsigned int encoding, unsigned int address_size, bint* omitted
    ) noexcept nogil
    cdef bint open_record(
        self, unsigned long long offset, unsigned long long* start, unsigned long long* end, int* size
    ) noexcept nogil
    cdef unsigned int cie_of(self, unsigned long long offset) noexcept nogil
    cdef bint read_cie(self, unsigned long long offset, Cie* cie) noexcept nogil
    cdef unsigned int store_fault(self) noexcept nogil
    cdef unsigned int read_entry(self, unsigned long long offset, unsigned long long* next_offset) noexcept nogil
    cdef bint covers_code(self, const Entry* entry) noexcept nogil
    cdef bint scan(self) noexcept nogil
    cdef unsigned int find_by_header(self, unsigned long long vaddr) noexcept nogil
    cdef unsigned int find_by_scan(self, unsigned long long vaddr) noexcept nogil
    cdef unsigned int find_entry(self, unsigned long long vaddr) noexcept nogil
    cdef unsigned int state_of_row(self, unsigned int index, unsigned long long vaddr) noexcept nogil
    cdef bint compile_entry(self, unsigned int index) noexcept nogil
    cdef inline bint push_row(self, Py_ssize_t first, unsigned long long offset, unsigned int state) noexcept nogil
    cdef unsigned int run(
        self, Cie* cie, unsigned long long start, unsigned int entry, unsigned int state
    ) noexcept nogil
    cdef bint is_advance(
        self, Cie* cie, unsigned int code, unsigned long long location, unsigned long long* distance
    ) noexcept nogil
    cdef unsigned int apply(self, Cie* cie, unsigned int code, unsigned int state) noexcept nogil
    cdef bint make_transitions(self) noexcept nogil
    cdef inline unsigned int step(
        self, unsigned int source, unsigned int operation, unsigned long long operand
    ) noexcept nogil
    cdef unsigned int new_step(
        self, unsigned int source, unsigned int operation, unsigned long long operand, Transition* step
    ) noexcept nogil
    cdef unsigned int make_state(
        self, unsigned int source, unsigned int operation, unsigned long long operand
    ) noexcept nogil
    cdef unsigned int intern_scratch(self, Py_ssize_t size) noexcept nogil
    cdef bint expression(self, unsigned long long* result) noexcept nogil
