# What towire_kernel.py calls of line_kernel.py.

ctypedef struct Token:
    const unsigned char *start
    const unsigned char *stop

cdef int space_size(const unsigned char *at, const unsigned char *end) noexcept nogil

cdef Token next_token(const unsigned char *at, const unsigned char *end) noexcept nogil

cdef int leading_zeros(const unsigned char *at, const unsigned char *end) noexcept nogil

cdef const unsigned char *read_argument(
    const unsigned char *at,
    const unsigned char *stop,
    const unsigned char *word,
    int size,
    unsigned long long *value,
    int *zeros,
    const unsigned char **where,
    int *fault,
) noexcept nogil

cdef unsigned char *read_data(
    const unsigned char *line,
    const unsigned char *stop,
    unsigned char *to,
    unsigned char *limit,
    bint keep_padding,
    const unsigned char **where,
    int *fault,
) noexcept nogil
