from whence.columns.kernels.arrow cimport ArrowArray, ArrowSchema
from whence.columns.kernels.texts cimport TextSet
from whence.kernels.columns cimport Column
from whence.kernels.hashtable cimport HashIndex
from whence.kernels.vector cimport Bytes, U32s, U64s

cpdef enum:  # the first answers of every store, which have no frames
    NULL_ANSWER = 0  # of a null address
    BAD_ADDRESS = 1
    NO_BUILD_ID = 2
    FIRST_ANSWER = 3

cdef class AnswerStore:
    cdef HashIndex pairs  # of answers
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
    cdef TextSet texts
    cdef U32s shown_text  # the text that is shown instead of each
    # by text: (number of the last column that shows it) << 32 | its entry in the dictionary of that column
    cdef U64s entry_of_text
    cdef unsigned int shown  # the number of the last column of texts

    cdef bint _add(self, unsigned int file, unsigned long long address) noexcept nogil
    cdef int _show(
        self, Py_ssize_t number, const unsigned char* text, unsigned long long size, unsigned int kind, object show
    ) except -1
    cdef int _show_as(self, Py_ssize_t number, bytes text) except -1
    cdef bint _grow_texts(self) noexcept nogil
    cdef object _check(self, Column answers)
    cdef object _fill_columns(self, ArrowSchema** schema, ArrowArray** array, Column frames, tuple names, tuple texts)
    cdef object _fill_texts(self, ArrowSchema* schema, ArrowArray* array, Column frames, unsigned int* texts, str name)
    cdef object _fill_reasons(self, ArrowSchema* schema, ArrowArray* array, Column answers, str name, tuple texts)
