# The tables that the records of a perf.data are read into.

from whence.kernels.columns cimport Column
from whence.kernels.hashtable cimport HashIndex
from whence.kernels.vector cimport Bytes, U32s, U64s

cdef struct Event:  # the fields of a perf_event_attr that give the layout of its records
    unsigned long long sample_type
    unsigned long long read_format
    unsigned long long branch_type
    unsigned long long period  # of samples without a period of their own
    int user_registers
    int inner_registers
    bint has_trailer  # sample_id_all
    int trailer_size
    int time_from_end  # of a trailer; 0: none
    int thread_from_end

cdef struct Sample:  # the fields of a sample that are used
    unsigned int event
    Event* described
    unsigned long long ip
    unsigned long long thread
    unsigned long long time
    unsigned long long period
    unsigned int cpu
    const unsigned char* values  # of counters; NULL: none
    int value_size
    unsigned long long value_count
    unsigned long long cookie  # of the deferred user part of the call chain; 0: none
    unsigned long long user  # position of the registers

cdef struct Trailer:  # of a record that is not a sample
    unsigned long long time
    unsigned long long thread
    const unsigned char* start

cdef struct Texts:  # bytes, each once
    Bytes data
    U64s end
    HashIndex index

cdef class Records:
    cdef bint big
    cdef unsigned long long seed
    cdef Event* events
    cdef Py_ssize_t event_count
    cdef int id_offset  # of the event's id in a sample; -1: none
    cdef int id_from_end  # of the event's id in a trailer; 0: none
    cdef bint keeps_user  # some event has user registers or stack copies
    cdef bint timeless  # no event has times: samples are in file order
    cdef unsigned long long clock
    # ids of events
    cdef HashIndex id_index
    cdef U64s ids
    cdef U32s id_event
    cdef U64s id_last  # the last value read, for events that count
    # what is read
    cdef readonly Column sample_time, sample_thread, sample_cpu, sample_event, sample_stack, sample_period, sample_user
    cdef readonly Column stack_first, stack_item, stack_pid
    cdef readonly Column place_address, place_mode
    cdef readonly Column map_start, map_size, map_offset, map_name, map_about, map_flags
    cdef readonly Column lost_count, lost_time, lost_thread
    cdef readonly Column step_time, step_kind, step_a, step_b
    cdef HashIndex stack_index, place_index, map_index
    cdef Texts texts
    # the call chain that is being read
    cdef unsigned long long* chain
    cdef unsigned char* modes
    cdef Py_ssize_t depth
    cdef Py_ssize_t user_index  # of the first entry of user code; -1: none
    cdef bint exact  # the next entry is not a return address
    cdef int mode
    cdef bint failed  # there was no memory
    cdef unsigned long long counts[128]
    cdef readonly unsigned long long damaged, unknown_ids
    cdef U64s waiting_cookie, later_cookie
    cdef U64s waiting_thread, later_thread
    cdef U32s waiting_sample, later_stack

    cdef bint _join(self, Py_ssize_t waiting, const HashIndex* index, Py_ssize_t* missing) noexcept nogil
    cdef void _append_places(self, unsigned int stack) noexcept nogil
    cdef int _id_row(self, unsigned long long id) noexcept nogil
    # samples
    cdef void _sample(
        self, const unsigned char* data, const unsigned char* end, int misc, unsigned long long position
    ) noexcept nogil
    cdef unsigned int _event_in(self, const unsigned char* data, const unsigned char* end) noexcept nogil
    cdef const unsigned char* _read_head(
        self, Sample* sample, const unsigned char* data, const unsigned char* end
    ) noexcept nogil
    cdef const unsigned char* _read_values(
        self, Sample* sample, const unsigned char* data, const unsigned char* end
    ) noexcept nogil
    cdef const unsigned char* _read_chain(
        self, Sample* sample, const unsigned char* data, const unsigned char* end, int mode
    ) noexcept nogil
    cdef const unsigned char* _read_user(
        self, Sample* sample, const unsigned char* data, const unsigned char* end, unsigned long long position,
        const unsigned char* body,
    ) noexcept nogil
    cdef const unsigned char* _skip_rest(
        self, Sample* sample, const unsigned char* data, const unsigned char* end
    ) noexcept nogil
    cdef bint _keep_sample(self, Sample* sample) noexcept nogil
    cdef bint _add_values(self, Sample* sample, unsigned int stack) noexcept nogil
    cdef int _between(self, Event* event) noexcept nogil
    cdef const unsigned char* _skip_registers(
        self, const unsigned char* data, const unsigned char* end, int count
    ) noexcept nogil
    cdef bint _add_sample(self, Sample* sample, unsigned int stack) noexcept nogil
    # call chains
    cdef void _put(self, unsigned long long address, int mode, bint exact) noexcept nogil
    cdef void _walk(self, const unsigned char* data, unsigned long long count) noexcept nogil
    cdef void _branches(self, const unsigned char* data, unsigned long long count) noexcept nogil
    cdef Py_ssize_t _add_place(self, unsigned long long address, unsigned char mode) noexcept nogil
    cdef unsigned long long _chain_hash(self) noexcept nogil
    cdef bint _is_stack(self, unsigned int stack, unsigned int pid) noexcept nogil
    cdef Py_ssize_t _add_stack(self, unsigned int pid) noexcept nogil
    # other records
    cdef Py_ssize_t _add_text(self, const unsigned char* data, Py_ssize_t size) noexcept nogil
    cdef Py_ssize_t _add_map(
        self, unsigned long long start, unsigned long long size, unsigned long long offset, unsigned int name,
        unsigned int about, unsigned int flags,
    ) noexcept nogil
    cdef bint _add_step(
        self, unsigned long long time, unsigned int kind, unsigned long long a, unsigned long long b
    ) noexcept nogil
    cdef bint _add_numbered_step(
        self, unsigned long long time, unsigned int kind, unsigned long long thread, Py_ssize_t number
    ) noexcept nogil
    cdef void _read_trailer(
        self, int kind, const unsigned char* data, const unsigned char* end, Trailer* trailer
    ) noexcept nogil
    cdef void _other(self, int kind, int misc, const unsigned char* data, const unsigned char* end) noexcept nogil
    cdef bint _add_lost(
        self, unsigned long long count, unsigned long long time, unsigned long long thread
    ) noexcept nogil
    cdef bint _read_comm(
        self, int misc, const unsigned char* data, const unsigned char* end, unsigned long long time
    ) noexcept nogil
    cdef bint _read_ksymbol(
        self, const unsigned char* data, const unsigned char* end, unsigned long long time
    ) noexcept nogil
    cdef bint _read_deferred(
        self, const unsigned char* data, const unsigned char* end, unsigned long long thread
    ) noexcept nogil
    cdef bint _read_map(
        self, int kind, int misc, const unsigned char* data, const unsigned char* end, unsigned long long time
    ) noexcept nogil
