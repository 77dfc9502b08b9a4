from whence.columns.kernels.arrow cimport ArrowArray, ArrowSchema
from whence.kernels.columns cimport Column
from whence.kernels.hashtable cimport HashTable
from whence.kernels.vector cimport Bytes, U32s, U64s, Vector

cpdef enum:  # answers that every store begins with; they have no frames
    NULL_ANSWER = 0  # of a null address
    BAD_ADDRESS = 1
    NO_BUILD_ID = 2
    FIRST_ANSWER = 3

cdef struct KnownText:  # as a file has it
    unsigned long long hash
    unsigned long long start  # in the bytes of all texts
    unsigned int size
    unsigned int shown  # the text that is shown in its place


cdef class AnswerStore:
    cdef HashTable table
    cdef unsigned long long seed
    # of answers
    cdef U32s file
    cdef U64s address
    cdef U32s first  # of its frames
    cdef U32s frames
    cdef Bytes reason
    # of frames
    cdef U32s function
    cdef U32s source_file
    cdef U32s line
    cdef U32s start_line
    cdef Bytes inlined
    cdef Bytes source
    # texts
    cdef Bytes text
    cdef U64s text_end
    # texts as files have them
    cdef HashTable text_table
    cdef Vector known  # of KnownText
    # which texts the batch at hand shows, and their places in its dictionary
    cdef U32s shown_in
    cdef U32s place
    cdef unsigned int shown

    cdef bint _add(self, unsigned int file, unsigned long long address) noexcept nogil
    cdef bint _grow_table(self) noexcept nogil
    cdef Py_ssize_t _add_text(self, const char* text, Py_ssize_t size) except -1
    cdef unsigned long long _text_start(self, unsigned int text) noexcept nogil
    cdef int _know(
        self, unsigned long long hash, const unsigned char* text, unsigned long long size, bint linkage, object show
    ) except -1
    cdef object _check(self, Column answers)
    cdef object _fill_columns(self, ArrowSchema** schema, ArrowArray** array, Column frames, tuple names, tuple words)
    cdef object _fill_texts(self, ArrowSchema* schema, ArrowArray* array, Column frames, unsigned int* texts, str name)
    cdef object _fill_reasons(self, ArrowSchema* schema, ArrowArray* array, Column answers, str name, tuple words)
