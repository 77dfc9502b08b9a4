# Processes and their maps over time.

from whence.kernels.columns cimport Column
from whence.kernels.hashtable cimport HashTable
from whence.kernels.vector cimport U32s, U64s, Vector
from whence.perfdata.kernels.records cimport Records

cdef struct Node:  # of a treap: ranges of addresses in order, and which map shows each
    unsigned long long start
    unsigned long long end
    unsigned int map
    unsigned int priority
    unsigned int left
    unsigned int right
    unsigned int owner  # the version of the tree that may change it in place

cdef struct Process:
    unsigned int pid
    unsigned int root
    unsigned int before  # of the program before an exec, as long as its registers may be met
    unsigned int code  # generated code that a jitdump recorded
    unsigned int owner
    unsigned long long epoch  # when its maps changed last
    unsigned long long changed  # the same, but for what nobody unwinds by: data, generated code where none was before
    unsigned int setting  # the number of what it has mapped, for samples that are gathered; 0: none yet
    unsigned long long set  # what `changed` was then

cdef struct Thread:
    unsigned long long thread  # pid << 32 | tid
    unsigned int comm
    unsigned int met  # the set of labels it had last, + 1

cdef enum:
    SEEN_BITS = 13

cdef struct Seen:  # where an address was last found to lie
    unsigned long long address
    unsigned long long epoch  # that its process had; 0: nothing was found yet
    unsigned int location

cdef class Replay:
    cdef Records records
    cdef unsigned long long seed
    cdef Vector nodes, processes, threads
    cdef HashTable process_slots, thread_slots
    cdef unsigned int owners
    cdef unsigned long long epoch
    cdef Py_ssize_t kernel
    cdef U32s step_order, sample_order
    cdef Py_ssize_t step_at, sample_at
    cdef U64s memo_epoch
    cdef U32s memo_stack
    cdef bint failed
    # what comes out
    cdef readonly Column stack_first, stack_item, location_map, location_pid, location_address
    cdef readonly Column sample_stack, sample_set, sample_event, sample_count, sample_period
    cdef readonly Column event_sample, event_time, event_period, set_thread, set_comm, set_cpu
    cdef U64s stack_hash
    cdef HashTable stack_slots, location_slots, set_slots, sample_slots
    cdef U32s scratch
    cdef const unsigned long long[::1] unwound, unwound_first
    cdef const unsigned int[::1] unwound_count
    cdef bint has_unwound
    cdef Seen* seen
    cdef readonly unsigned int settings_met

    cdef unsigned int _new_node(self, unsigned long long start, unsigned long long end, unsigned int map, unsigned int owner) noexcept nogil
    cdef unsigned int _owned(self, unsigned int node, unsigned int owner) noexcept nogil
    cdef unsigned int _merge(self, unsigned int left, unsigned int right, unsigned int owner) noexcept nogil
    cdef void _split(
        self, unsigned int node, unsigned long long at, unsigned int owner, unsigned int* left, unsigned int* right
    ) noexcept nogil
    cdef list _listed(self, unsigned int node)
    cdef bint _is_taken(self, unsigned int root, unsigned long long start, unsigned long long end) noexcept nogil
    cdef unsigned int _find(self, unsigned int root, unsigned long long address) noexcept nogil
    cdef unsigned int _cleared(self, unsigned int root, unsigned long long start, unsigned long long end, unsigned int owner, unsigned int* right) noexcept nogil
    cdef Process* _row(self, Py_ssize_t process) noexcept nogil
    cdef Node* _node(self, unsigned int node) noexcept nogil
    cdef void _add(self, unsigned int sample, unsigned int stack) noexcept nogil
    cdef void _see_program(self, unsigned int stack, Py_ssize_t process) noexcept nogil
    cdef Py_ssize_t _go_to(self, unsigned int sample, Py_ssize_t process) noexcept nogil
    cdef bint _resolve_unwound(self, unsigned int sample, Py_ssize_t process, unsigned int* number) noexcept nogil
    cdef bint _is_data(self, Py_ssize_t process, unsigned int map) noexcept nogil
    cdef bint _has_code(
        self, Py_ssize_t process, unsigned int node, unsigned long long start, unsigned long long end, int* left
    ) noexcept nogil
    cdef unsigned int _flags_of(self, unsigned int node) noexcept nogil
    cdef void _forget(self, Py_ssize_t process) noexcept nogil
    cdef unsigned int _cut_last(
        self, unsigned int node, unsigned long long at, unsigned int owner, unsigned long long* end, unsigned int* map
    ) noexcept nogil
    cdef bint _user(
        self, unsigned long long address, unsigned int pid, Py_ssize_t process, unsigned int* number
    ) noexcept nogil
    cdef unsigned long long _set_hash(self, unsigned long long thread, unsigned int comm, unsigned int cpu) noexcept nogil
    cdef Py_ssize_t _process(self, unsigned int pid) noexcept nogil
    cdef Py_ssize_t _thread(self, unsigned long long thread) noexcept nogil
    cdef void _step(self, unsigned int step) noexcept nogil
    cdef void _map(self, Py_ssize_t process, unsigned int map, bint there) noexcept nogil
    cdef bint _place(self, unsigned int place, unsigned int pid, Py_ssize_t process, unsigned int* number) noexcept nogil
    cdef bint _location(self, unsigned int map, unsigned int pid, unsigned long long address, unsigned int* number) noexcept nogil
    cdef bint _stack(self, unsigned int* number) noexcept nogil
    cdef bint _labels(self, unsigned long long thread, unsigned int cpu, unsigned int* number) noexcept nogil
    cdef bint _sample(
        self, unsigned int stack, unsigned int labels, unsigned int event, unsigned long long period,
        unsigned int* number,
    ) noexcept nogil
    cdef bint _resolve(self, unsigned int stack, Py_ssize_t process, unsigned int* number) noexcept nogil
