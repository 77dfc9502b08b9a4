# A walk from frame to frame, with a cache of the rows it used.

from whence.kernels.vector cimport U32s, U64s, Vector
from whence.unwind.kernels.cfi cimport CfiTable
from whence.unwind.kernels.segments cimport MemorySegment

cdef enum:
    REGISTERS = 128  # DWARF numbers below; others are left to Python
    CACHE_SIZE = 1 << 14  # entries of the cache of rows

cpdef enum:  # results of a step
    WALK_CONTINUES = 0
    WALK_COMPLETE = 1  # no caller, by call frame information or a return address of 0
    WALK_SPECIAL = 2  # the frame needs Python: an expression, a signal, no CFI, an error
    WALK_MODULE = 3  # the mapping's tables are not loaded yet
    WALK_UNREADABLE = 4  # required memory is not available
    WALK_FULL = 5  # the requested number of frames is reached

cdef enum:
    DEAD_UNKNOWN = 0  # Python has not inspected the code yet
    DEAD_RESTORED = 1  # already popped: the registers have their values
    DEAD_LOST = 2

cdef struct Walk:  # a frame and its registers
    unsigned long long pc
    unsigned long long cfa_before
    bint is_exact
    bint after_signal
    unsigned long long valid[2]  # bits: registers with a known value
    unsigned long long values[128]

cdef struct CachedRow:  # the row of a frame with this pc
    unsigned long long pc
    unsigned int state
    unsigned int table  # 1 + its index; 0: unused
    bint is_exact
    int dead  # registers whose slots are below the stack pointer: DEAD_*

cdef struct CodeMapping:  # executable memory
    unsigned long long start
    unsigned long long end
    unsigned long long bias  # runtime address - vaddr
    unsigned int first_table
    unsigned int tables
    bint is_loaded

cdef class Walker:
    cdef list owners  # keep the pointers below valid
    cdef Vector mappings, segments, table_pointers
    cdef CachedRow* cache
    cdef MemorySegment last_segment  # read last
    cdef const unsigned char[::1] stack_view
    cdef Walk walk
    cdef U64s pcs, sps
    cdef unsigned long long callee_saved[2]
    cdef unsigned long long code_start, code_size  # the mapping of the last return address
    cdef unsigned long long mask, address_mask, sp_below_cfa, unreadable
    cdef int sp, word, bits
    cdef bint big
    cdef bint pushes_pc  # calls push the return address: its column has no register
    cdef bint is_learning
    cdef bint is_sample  # the copied stack is the only memory
    cdef readonly long long mapping  # the mapping to load, after WALK_MODULE

    cdef bint load(self, unsigned long long address, unsigned long long* value) noexcept
    cdef long long mapping_of(self, unsigned long long address) noexcept
    cdef int row_of(self, Walk* walk, CachedRow* row) noexcept
    cdef unsigned long long slot_of(self, Walk* walk) noexcept
    cdef int find_row(self, Walk* walk, CachedRow* row) noexcept
    cdef int step(self, Walk* walk) noexcept
    cdef bint counted(
        self, CfiTable table, Walk* walk, unsigned long long span, unsigned long long column, unsigned long long* value
    ) noexcept
    cdef bint is_code(self, unsigned long long address) noexcept
