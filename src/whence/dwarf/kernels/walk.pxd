# The functions and inlined calls of a unit, as the walk finds them.

from whence.dwarf.kernels.abbrev cimport S_HIGH, S_LOW, S_RANGES, Table
from whence.dwarf.kernels.shared cimport File

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
    unsigned short low_form
    unsigned short high_form
    unsigned short ranges_form
    unsigned short has
    unsigned int root  # the function it lies in, or itself
    unsigned int first  # of its spans
    unsigned int spans
    unsigned long long lead  # without spans of its own: where the first one inside begins

cdef struct Nodes:
    Node* rows
    unsigned long long count
    unsigned long long room
    unsigned int* levels  # per open DIE: the node it belongs to, + 1
    unsigned long long level_room
    unsigned long long at  # where a fault is

cdef int walk(Nodes* nodes, const File* file, const unsigned long long* unit, Table* table) noexcept nogil
cdef void forget_nodes(Nodes* nodes) noexcept nogil
