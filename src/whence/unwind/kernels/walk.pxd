# A walk from frame to frame, and what is remembered of code on the way.

from whence.kernels.vector cimport U32s, U64s, Vector
from whence.unwind.kernels.cfi cimport CfiTable

cdef enum:
    REGISTERS = 128  # by DWARF's numbers; those above are left to Python
    PLACES = 1 << 14  # addresses whose rows are remembered

cpdef enum:  # how a walk goes on
    WALK_ON = 0
    WALK_COMPLETE = 1  # the call frame information, or a return address of 0, says that there is no caller
    WALK_ODD = 2  # the frame needs what is in Python: an expression, a signal, no CFI, a rule broken
    WALK_MODULE = 3  # a mapping is met of which nothing is known yet
    WALK_UNREADABLE = 4  # memory that is needed isn't there
    WALK_FULL = 5  # as many frames as were asked for

cdef enum:
    DEAD_UNKNOWN = 0  # Python has not looked at the code yet
    DEAD_BACK = 1  # their values, which were popped again
    DEAD_LOST = 2

cdef struct Walk:  # a frame: where it goes on, and its registers
    unsigned long long pc
    unsigned long long cfa_before
    bint is_exact
    bint after_signal
    unsigned long long known[2]  # bits: registers whose value is known
    unsigned long long values[128]

cdef struct Place:  # what a frame with this pc does
    unsigned long long pc
    unsigned int state
    unsigned int table  # 1 + its number; 0: free
    bint is_exact
    int dead  # what registers have whose slots lie below the stack pointer: DEAD_*

cdef struct Segment:
    unsigned long long start
    unsigned long long end
    const unsigned char* bytes

cdef struct Mapping:  # executable memory
    unsigned long long start
    unsigned long long end
    unsigned long long bias  # runtime address - vaddr
    unsigned int first_table
    unsigned int tables
    bint is_known

cdef class Walker:
    cdef list held  # what the pointers below lead into
    cdef Vector mappings, segments, table_pointers
    cdef Place* places
    cdef Segment near  # the segment that was read last
    cdef const unsigned char[::1] stack_view
    cdef Walk walk
    cdef U64s pcs, sps
    cdef unsigned long long kept[2]
    cdef unsigned long long code_start, code_size  # of the mapping that a return address was in last
    cdef unsigned long long mask, address_mask, sp_below_cfa, unreadable
    cdef int sp, word, bits
    cdef bint big
    cdef bint pushes_pc  # whether a call pushes the return address: then its column has no register
    cdef bint is_learning
    cdef bint is_sample  # no memory but the stack that was copied with it
    cdef readonly long long mapping  # the one that a walk met

    cdef bint load(self, unsigned long long address, unsigned long long* value) noexcept
    cdef long long mapping_of(self, unsigned long long address) noexcept
    cdef int place_of(self, Walk* walk, Place* place) noexcept
    cdef unsigned long long slot_of(self, Walk* walk) noexcept
    cdef int find_place(self, Walk* walk, Place* place) noexcept
    cdef int step(self, Walk* walk) noexcept
    cdef bint counted(
        self, CfiTable table, Walk* walk, unsigned long long where, unsigned long long column, unsigned long long* value
    ) noexcept
    cdef bint is_code(self, unsigned long long address) noexcept
