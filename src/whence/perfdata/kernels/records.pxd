# The tables that the records of a perf.data are read into.

from whence.kernels.columns cimport Column
from whence.kernels.hashtable cimport HashTable
from whence.kernels.vector cimport Bytes, U32s, U64s

cdef struct Event:  # a perf_event_attr, as far as it says how records lie
    unsigned long long sample_type
    unsigned long long read_format
    unsigned long long branch_type
    unsigned long long period  # of a sample that has none of its own
    int user_registers
    int inner_registers
    bint has_trailer  # sample_id_all
    int trailer_size
    int time_from_end  # of a trailer; 0: it has none
    int thread_from_end

cdef struct Sample:  # the fields of a sample that are used
    unsigned int event
    Event* described
    unsigned long long ip
    unsigned long long thread
    unsigned long long time
    unsigned long long period
    unsigned int cpu
    const unsigned char* values  # of counters; NULL: none was read
    int value_size
    unsigned long long value_count
    unsigned long long cookie  # of the user's part of the call chain, which a later record has; 0: of no such part
    unsigned long long user  # where its registers are

cdef struct Texts:  # bytes, each once
    Bytes data
    U64s end
    HashTable slots

cdef class Records:
    cdef bint big
    cdef unsigned long long seed
    cdef Event* events
    cdef Py_ssize_t event_count
    cdef int id_at  # where in a sample the id of its event is; -1: nowhere
    cdef int id_from_end  # the same of trailers; 0: nowhere
    cdef bint keeps_user  # whether some event has registers or memory of user code
    cdef bint timeless  # no event has times: the order of the file counts
    cdef unsigned long long clock
    # ids of events
    cdef HashTable id_slots
    cdef U64s ids
    cdef U32s id_event
    cdef U64s id_last  # the value read last, for events that count
    # what is read
    cdef readonly Column sample_time, sample_thread, sample_cpu, sample_event, sample_stack, sample_period, sample_user
    cdef readonly Column stack_first, stack_item, stack_pid
    cdef readonly Column place_address, place_mode
    cdef readonly Column map_start, map_size, map_offset, map_name, map_about, map_flags
    cdef readonly Column lost_count, lost_time, lost_thread
    cdef readonly Column step_time, step_kind, step_a, step_b
    cdef U64s stack_hash
    cdef HashTable stack_slots, place_slots, map_slots
    cdef Texts texts
    # one call chain, as it is taken apart
    cdef unsigned long long* chain
    cdef unsigned char* modes
    cdef Py_ssize_t depth
    cdef Py_ssize_t user_at  # where the first entry of user code is; -1: there is none
    cdef bint exact  # whether the next entry is where the code goes on, not behind a call
    cdef int mode
    cdef bint failed  # there was no memory
    cdef unsigned long long counts[128]
    cdef readonly unsigned long long damaged, unknown_ids
    cdef U64s waiting_cookie, later_cookie
    cdef U64s waiting_thread, later_thread
    cdef U32s waiting_sample, later_stack

    cdef bint _add_text(self, const unsigned char* data, Py_ssize_t size, unsigned int* number) noexcept nogil
    cdef bint _add_map(
        self, unsigned long long start, unsigned long long size, unsigned long long offset, unsigned int name,
        unsigned int about, unsigned int flags, unsigned int* number,
    ) noexcept nogil
    cdef bint _add_step(
        self, unsigned long long time, unsigned int kind, unsigned long long a, unsigned long long b
    ) noexcept nogil
    cdef void _copy(self, unsigned int stack) noexcept nogil
    cdef int _event_of(self, unsigned long long id) noexcept nogil
    cdef void _put(self, unsigned long long address, int mode, bint exact) noexcept nogil
    cdef void _branches(self, const unsigned char* at, unsigned long long count) noexcept nogil
    cdef int _between(self, Event* event) noexcept nogil
    cdef const unsigned char* _skip_registers(
        self, const unsigned char* at, const unsigned char* end, int count
    ) noexcept nogil
    cdef unsigned long long _map_hash(self, unsigned int at) noexcept nogil
    cdef void _walk(self, const unsigned char* at, unsigned long long count) noexcept nogil
    cdef bint _add_stack(self, unsigned int pid, unsigned int* number) noexcept nogil
    cdef unsigned long long _chain_hash(self) noexcept nogil
    cdef bint _grow_stacks(self) noexcept nogil
    cdef bint _add_place(self, unsigned long long address, unsigned char mode, unsigned int* number) noexcept nogil
    cdef void _sample(self, const unsigned char* at, const unsigned char* end, int misc, unsigned long long where) noexcept nogil
    cdef unsigned int _event_in(self, const unsigned char* at, const unsigned char* end) noexcept nogil
    cdef const unsigned char* _read_head(
        self, Sample* sample, const unsigned char* at, const unsigned char* end
    ) noexcept nogil
    cdef const unsigned char* _read_values(
        self, Sample* sample, const unsigned char* at, const unsigned char* end
    ) noexcept nogil
    cdef const unsigned char* _read_chain(
        self, Sample* sample, const unsigned char* at, const unsigned char* end, int mode
    ) noexcept nogil
    cdef const unsigned char* _read_user(
        self, Sample* sample, const unsigned char* at, const unsigned char* end, unsigned long long where,
        const unsigned char* body,
    ) noexcept nogil
    cdef const unsigned char* _skip_rest(
        self, Sample* sample, const unsigned char* at, const unsigned char* end
    ) noexcept nogil
    cdef bint _keep_sample(self, Sample* sample) noexcept nogil
    cdef bint _add_values(self, Sample* sample, unsigned int stack) noexcept nogil
    cdef bint _add_sample(self, Sample* sample, unsigned int stack) noexcept nogil
    cdef void _other(self, int kind, int misc, const unsigned char* at, const unsigned char* end) noexcept nogil
    cdef bint _add_lost(
        self, unsigned long long count, unsigned long long time, unsigned long long thread
    ) noexcept nogil
    cdef void _map_record(
        self, int kind, int misc, const unsigned char* at, const unsigned char* end, unsigned long long time
    ) noexcept nogil
