# Functions and inlined calls of a unit, as the walk collects them, and their reader.

from whence.dwarf.kernels.abbrevs cimport S_HIGH, S_LOW, S_RANGES, AbbrevCache, AbbrevTable
from whence.dwarf.kernels.names cimport Names
from whence.dwarf.kernels.units cimport DwarfSections, File, Span, Spans, u64
from whence.kernels.columns cimport Column

cdef enum:  # Node.has
    N_LOW = 1 << S_LOW
    N_HIGH = 1 << S_HIGH
    N_RANGES = 1 << S_RANGES

cdef struct Node:
    unsigned long long key  # of the DIE that leads to its name
    unsigned long long low
    unsigned long long high
    unsigned long long ranges
    unsigned int parent  # its node's number + 1; 0: none
    unsigned int depth
    unsigned int call_file
    unsigned int call_line
    unsigned int call_column
    unsigned int call_discriminator
    unsigned short low_form
    unsigned short high_form
    unsigned short ranges_form
    unsigned short has
    unsigned int root  # the function around it, or itself
    unsigned int first  # of its spans
    unsigned int spans
    bint requested  # contains a requested vaddr
    unsigned long long start  # of a node without spans: the start of the first span inside

cdef struct Nodes:
    Node* items
    Py_ssize_t count
    Py_ssize_t capacity
    unsigned int* levels  # for each open DIE: its node + 1
    Py_ssize_t level_capacity
    unsigned long long fault_offset

cdef class ScopeReader:
    cdef DwarfSections sections
    cdef DwarfSections alt
    cdef AbbrevCache tables
    cdef Nodes nodes
    cdef Spans spans
    cdef Names names
    cdef const unsigned long long[::1] vaddrs
    cdef unsigned int* order  # nodes, function by function
    cdef Py_ssize_t order_room
    cdef Spans sorted  # the spans of one function
    cdef unsigned int* path  # positions in `sorted`, outermost first
    cdef Py_ssize_t path_room
    # of scopes, as whence.ranges.Scopes has them
    cdef readonly Column vaddr
    cdef readonly Column end
    cdef readonly Column depth
    cdef readonly Column function
    cdef readonly Column call_file
    cdef readonly Column call_line
    cdef readonly Column call_column  # empty unless columns are requested
    cdef readonly Column call_discriminator
    # of units
    cdef readonly Column scope_ends
    cdef readonly Column start_ends
    cdef readonly Column faults
    cdef readonly Column fault_offsets

    cdef void _count_scopes(self) noexcept nogil
    cdef int _emit(self, Node* node, unsigned long long start, unsigned long long end) noexcept nogil
    cdef int _collect_spans(self, const unsigned long long* unit) noexcept nogil
    cdef unsigned long long _end_around(self, Py_ssize_t index, unsigned long long vaddr) noexcept nogil
    cdef void _mark_requested(self) noexcept nogil
    cdef bint _group_by_function(self) noexcept nogil
    cdef int _sort_nested(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef int _emit_function(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef int _read_unit(self, const unsigned long long* unit) except -1 nogil

cdef int walk(Nodes* nodes, const File* file, const u64* unit, AbbrevTable* table) except -1 nogil
cdef void free_nodes(Nodes* nodes) noexcept nogil
cdef int by_start(const void* left, const void* right) noexcept nogil
cdef void sort_spans(Span* spans, Py_ssize_t count) noexcept nogil
