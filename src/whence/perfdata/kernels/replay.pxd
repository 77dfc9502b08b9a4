# Processes and their maps over time.

from whence.kernels.columns cimport Column
from whence.kernels.hashtable cimport HashIndex
from whence.kernels.vector cimport U32s, U64s, Vector
from whence.perfdata.kernels.records cimport Records

cdef struct Node:  # of a treap: a range of addresses and its map
    unsigned long long start
    unsigned long long end
    unsigned int map
    unsigned int priority
    unsigned int left
    unsigned int right
    unsigned int owner  # the version of the tree that may change it in place

cdef struct Process:
    unsigned int pid  # first: the key of `process_index`
    unsigned int root
    unsigned int old_root  # of the program before an exec, while samples may have its registers
    unsigned int code  # generated code that a jitdump recorded
    unsigned int owner
    unsigned long long epoch  # of the last change of its maps
    unsigned long long changed  # of the last change that affects unwinding
    unsigned int setting  # number of its maps in gathered samples; 0: none yet
    unsigned long long setting_epoch  # `changed` of that setting

cdef struct Thread:
    unsigned long long thread  # pid << 32 | tid; first: the key of `thread_index`
    unsigned int comm
    unsigned int label_set  # its last label set, + 1

cdef enum:
    CACHE_BITS = 13

cdef struct CachedLocation:
    unsigned long long address
    unsigned long long epoch  # of its process; 0: empty
    unsigned int location

cdef class Replay:
    cdef Records records
    cdef unsigned long long seed
    cdef Vector nodes, processes, threads
    cdef HashIndex process_index, thread_index
    cdef unsigned int owners
    cdef unsigned long long epoch
    cdef Py_ssize_t kernel
    cdef U32s step_order, sample_order
    cdef Py_ssize_t next_step, next_sample
    cdef U64s memo_epoch
    cdef U32s memo_stack
    cdef bint failed
    # results
    cdef readonly Column stack_first, stack_item, location_map, location_pid, location_address
    cdef readonly Column sample_stack, sample_set, sample_event, sample_count, sample_period
    cdef readonly Column event_sample, event_time, event_period, set_thread, set_comm, set_cpu
    cdef HashIndex stack_index, location_index, set_index, sample_index
    cdef U32s scratch
    cdef const unsigned long long[::1] unwound, unwound_first
    cdef const unsigned int[::1] unwound_count
    cdef bint has_unwound
    cdef CachedLocation* cache
    cdef readonly unsigned int setting_count

    cdef unsigned int _new_node(
        self, unsigned long long start, unsigned long long end, unsigned int map, unsigned int owner
    ) noexcept nogil
    cdef unsigned int _owned(self, unsigned int node, unsigned int owner) noexcept nogil
    cdef unsigned int _merge(self, unsigned int left, unsigned int right, unsigned int owner) noexcept nogil
    cdef void _split(
        self, unsigned int node, unsigned long long address, unsigned int owner, unsigned int* left, unsigned int* right
    ) noexcept nogil
    cdef list _listed(self, unsigned int node)
    cdef bint _is_taken(self, unsigned int root, unsigned long long start, unsigned long long end) noexcept nogil
    cdef unsigned int _find(self, unsigned int root, unsigned long long address) noexcept nogil
    cdef unsigned int _cleared(
        self, unsigned int root, unsigned long long start, unsigned long long end, unsigned int owner,
        unsigned int* right,
    ) noexcept nogil
    cdef Process* _row(self, Py_ssize_t process) noexcept nogil
    cdef Node* _node(self, unsigned int node) noexcept nogil
    cdef bint _add(self, unsigned int sample, unsigned int stack) noexcept nogil
    cdef void _drop_old_program(self, unsigned int stack, Py_ssize_t process) noexcept nogil
    cdef Py_ssize_t _advance(self, unsigned int sample, Py_ssize_t process) noexcept nogil
    cdef Py_ssize_t _resolve_unwound(self, unsigned int sample, Py_ssize_t process) noexcept nogil
    cdef bint _push(self, Py_ssize_t location) noexcept nogil
    cdef bint _is_data(self, Py_ssize_t process, unsigned int map) noexcept nogil
    cdef bint _has_code(
        self, Py_ssize_t process, unsigned int node, unsigned long long start, unsigned long long end, int* budget
    ) noexcept nogil
    cdef unsigned int _flags_of(self, unsigned int node) noexcept nogil
    cdef void _forget(self, Py_ssize_t process) noexcept nogil
    cdef unsigned int _cut_last(
        self, unsigned int node, unsigned long long address, unsigned int owner, unsigned long long* end,
        unsigned int* map,
    ) noexcept nogil
    cdef Py_ssize_t _locate(self, unsigned int place, unsigned int pid, Py_ssize_t process) noexcept nogil
    cdef Py_ssize_t _locate_user(
        self, unsigned long long address, unsigned int pid, Py_ssize_t process
    ) noexcept nogil
    cdef unsigned long long _triple_hash(
        self, unsigned long long first, unsigned int second, unsigned int third
    ) noexcept nogil
    cdef Py_ssize_t _process(self, unsigned int pid) noexcept nogil
    cdef Py_ssize_t _thread(self, unsigned long long thread) noexcept nogil
    cdef void _step(self, unsigned int step) noexcept nogil
    cdef void _map(self, Py_ssize_t process, unsigned int map, bint is_mapped) noexcept nogil
    cdef Py_ssize_t _location(self, unsigned int map, unsigned int pid, unsigned long long address) noexcept nogil
    cdef Py_ssize_t _stack(self) noexcept nogil
    cdef Py_ssize_t _labels(self, unsigned long long thread, unsigned int cpu) noexcept nogil
    cdef Py_ssize_t _sample(
        self, unsigned int stack, unsigned int labels, unsigned int event, unsigned long long period
    ) noexcept nogil
    cdef Py_ssize_t _resolve(self, unsigned int stack, Py_ssize_t process) noexcept nogil
