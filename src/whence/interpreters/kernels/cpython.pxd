# The thread states and frames of CPython in the memory of another process, or of a core.

from whence.kernels.columns cimport Column
from whence.kernels.vector cimport Vector
from whence.unwind.kernels.stopped cimport StoppedReader, StoppedThreads

cpdef enum:  # numbers of the layout: offsets in bytes; LAYOUT_ABSENT if the version has no such field
    LAYOUT_STYLE = 0  # STYLE_*
    LAYOUT_INTERPRETERS = 1  # _PyRuntimeState: the first interpreter
    LAYOUT_INTERPRETER_NEXT = 2
    LAYOUT_INTERPRETER_ID = 3
    LAYOUT_THREADS = 4  # PyInterpreterState: the first thread state
    LAYOUT_THREAD_NEXT = 5
    LAYOUT_THREAD_INTERPRETER = 6
    LAYOUT_THREAD_ID = 7  # pthread_self()
    LAYOUT_NATIVE_ID = 8  # gettid()
    LAYOUT_TOP_FRAME = 9  # PyThreadState: the innermost frame
    LAYOUT_CFRAME = 10  # PyThreadState: the innermost cframe
    LAYOUT_CFRAME_PREVIOUS = 11
    LAYOUT_CFRAME_TOP = 12  # cframe: the innermost frame
    LAYOUT_BASE_FRAME = 13  # PyThreadState: the frame that ends every chain
    LAYOUT_FRAME_PREVIOUS = 14
    LAYOUT_FRAME_CODE = 15
    LAYOUT_FRAME_POSITION = 16
    LAYOUT_FRAME_OWNER = 17
    LAYOUT_FRAME_ENTRY = 18  # 3.11's is_entry
    LAYOUT_FRAME_TLBC = 19
    LAYOUT_CODE_START = 20  # of the bytecode in a code object
    LAYOUT_CODE_TLBC = 21
    LAYOUT_GIL = 22  # pointer in PyInterpreterState
    LAYOUT_RUNTIME_GIL = 23  # or the structure in _PyRuntimeState
    LAYOUT_GIL_HOLDER = 24
    LAYOUT_GIL_LOCKED = 25
    LAYOUT_TAGS = 26  # mask of the tag bits of a reference to an object
    LAYOUT_HEADER = 27  # bytes to keep of each code object
    LAYOUT_FRAME_BYTES = 28  # bytes of a frame that contain its fields
    LAYOUT_NUMBERS = 29

cpdef enum:
    STYLE_FRAME_OBJECTS = 0  # to 3.10: one frame per evaluation; the position is an index
    STYLE_ENTRY_FLAGS = 1  # 3.11: is_entry marks the last frame of an evaluation
    STYLE_SHIMS = 2  # from 3.12: a frame without code ends an evaluation

cpdef enum:  # why a chain of frames ended
    CHAIN_WHOLE = 0
    CHAIN_UNREADABLE = 1
    CHAIN_LOOP = 2
    CHAIN_LIMIT = 3
    CHAIN_BROKEN = 4  # it ends in a frame that cannot be the last one
    CHAIN_NO_MEMORY = 5

cpdef enum:  # kinds of frames
    FRAME_INNER = 0
    FRAME_ENTRY = 1  # the last frame of its evaluation
    FRAME_SHIM = 2  # no frame of the program: ends an evaluation

cpdef enum:  # numbers per row
    STATE_FIELDS = 8
    FRAME_FIELDS = 4
    INTERPRETER_FIELDS = 5

cdef enum:
    PAGE_BYTES = 4096
    MARGIN = 128  # bytes around the memory of the last walk, which frames may use now; a power of 2
    PAGES = 1024  # of the cache, direct-mapped
    PAGES_SHIFT = 54  # to the bits of a hash that number them
    SEEN_CODES = 1 << 12

cdef struct CachedPage:  # of a live process, read in the walk of this number
    unsigned long long walk
    unsigned long long number
    bint is_used  # by this walk: it is in `used`
    Py_ssize_t start  # of the bytes that were read
    Py_ssize_t end
    Py_ssize_t used_start  # of the bytes that the walk used
    Py_ssize_t used_end
    unsigned char content[4096]

cdef class FrameWalker(StoppedReader):
    cdef unsigned long long layout[29]
    cdef unsigned long long runtime
    cdef bint big
    cdef int pid  # 0: segments
    cdef Py_ssize_t pointer_offset  # of the thread pointer in the registers; -1: unknown
    cdef Py_ssize_t frames_left
    cdef list owners
    cdef Vector segments
    cdef CachedPage* pages
    cdef int used[1024]  # indices of the pages that this walk used
    cdef int used_count
    cdef unsigned long long walks
    cdef bint is_rehearsal  # the threads still run
    cdef unsigned long long* seen
    cdef const StoppedThreads* stopped
    cdef const unsigned int[::1] tids
    cdef const unsigned long long[::1] pointers
    cdef readonly Column states, frames, marks, interpreters, codes, headers, reads
    cdef public bint records_reads  # of a core, into `reads`: start and end of each
    cdef readonly int problem  # CHAIN_*: why the lists of interpreters and threads ended

    cdef void read_stopped(self, const StoppedThreads* threads) noexcept nogil
    cdef void prepare(self, const StoppedThreads* threads) noexcept nogil
    cdef void read_expected(self) noexcept nogil
    cdef const unsigned char* page(
        self, unsigned long long number, Py_ssize_t start, Py_ssize_t end
    ) noexcept nogil
    cdef bint fetch(self, unsigned long long address, unsigned char* into, Py_ssize_t size) noexcept nogil
    cdef bint word(self, unsigned long long address, unsigned long long* value) noexcept nogil
    cdef bint field(self, unsigned long long address, int field, unsigned long long* value) noexcept nogil
    cdef void walk_stopped(self) noexcept nogil
    cdef unsigned int wanted_tid(self, unsigned long long thread_id, unsigned long long native_id) noexcept nogil
    cdef void walk_all(self) noexcept nogil
    cdef bint add_interpreter(self, unsigned long long address) noexcept nogil
    cdef bint add_state(self, unsigned long long address, unsigned long long interpreter) noexcept nogil
    cdef int walk_state(self, unsigned long long address) noexcept nogil
    cdef bint top_of_cframe(
        self, unsigned long long cframe, unsigned long long state, unsigned long long* frame
    ) noexcept nogil
    cdef bint leads_to(self, unsigned long long frame, unsigned long long outer) noexcept nogil
    cdef int walk_marks(self, unsigned long long cframe, unsigned long long state) noexcept nogil
    cdef int walk_frames(self, unsigned long long frame, unsigned long long base) noexcept nogil
    cdef unsigned long long position(self, const unsigned char* frame, unsigned long long code) noexcept nogil
    cdef bint keep_code(self, unsigned long long code) noexcept nogil
