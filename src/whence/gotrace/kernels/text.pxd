# Declarations of text.py.

from whence.gotrace.kernels.layout cimport EventLayout

cdef struct Token:
    const unsigned char* start
    const unsigned char* stop

cdef struct Cursor:  # reads lines, and writes events
    const unsigned char* pos  # start of the next line
    const unsigned char* end  # end of the text
    bint last  # True if the source ends there: the last line may lack a newline
    const unsigned char* line  # the current line ...
    const unsigned char* stop  # ... and its end, without newline and one \r
    Py_ssize_t lines  # number of lines read
    unsigned char* out  # where the next byte is written
    unsigned char* out_end
    bint keep_padding
    int fault
    const unsigned char* where  # what the fault is about: position, event type and argument
    int kind
    int argument

cdef bint printable(unsigned int character, const unsigned int* changes, Py_ssize_t count) noexcept nogil
cdef unsigned char* put_hex(unsigned char* out, unsigned char letter, unsigned int value, int digits) noexcept nogil
cdef unsigned char* put_quoted(
    const unsigned char* pos, const unsigned char* end, unsigned char* out, unsigned char* out_end,
    const unsigned int* changes, Py_ssize_t count,
) noexcept nogil
cdef unsigned char* put_character(unsigned char* to, unsigned int character) noexcept nogil
cdef int digit_of(unsigned int byte, unsigned int base) noexcept nogil
cdef const unsigned char* escaped(
    const unsigned char* pos, const unsigned char* end, unsigned char quote, unsigned char** to,
) noexcept nogil
cdef unsigned char* put_unquoted(
    const unsigned char* pos, const unsigned char* end, unsigned char* to, unsigned char* out_end, int* fault,
) noexcept nogil
cdef int space_size(const unsigned char* pos, const unsigned char* end) noexcept nogil
cdef Token next_token(const unsigned char* pos, const unsigned char* end) noexcept nogil
cdef int leading_zeros(const unsigned char* pos, const unsigned char* end) noexcept nogil
cdef unsigned char* put_frames(
    unsigned char* to, unsigned char* out_end, const unsigned char** pos, const unsigned char* end,
    unsigned long long count, EventLayout layout, bint keep_padding, int* fault,
) noexcept nogil
cdef unsigned char* put_data(
    unsigned char* to, unsigned char* out_end, const unsigned char** pos, const unsigned char* end,
    EventLayout layout, const unsigned int[::1] changes, bint keep_padding, int* fault,
) noexcept nogil
cdef const unsigned char* read_argument(
    Cursor* cursor, const unsigned char* pos, const unsigned char* name, int size, unsigned long long* value,
    int* zeros,
) noexcept nogil
cdef void read_data(Cursor* cursor) noexcept nogil

cdef unsigned char* put_decimal(unsigned char* out, unsigned long long value) noexcept nogil
cdef unsigned char* put_zeros(unsigned char* out, unsigned long long value, int size) noexcept nogil
cdef unsigned char* put_number(
    unsigned char* to, const unsigned char** pos, const unsigned char* end, unsigned long long* value,
    bint keep_padding, int* fault,
) noexcept nogil
cdef bint take_line(Cursor* cursor) noexcept nogil
cdef bint take_full_line(Cursor* cursor) noexcept nogil
cdef unsigned long long read_arguments(
    Cursor* cursor, EventLayout layout, int kind, const unsigned char* pos, int skip, int count
) noexcept nogil
cdef int read_name(Cursor* cursor, EventLayout layout, Token* name) noexcept nogil
cdef void read_frames(Cursor* cursor, EventLayout layout, unsigned long long count) noexcept nogil
cdef void read_event(Cursor* cursor, EventLayout layout) noexcept nogil
