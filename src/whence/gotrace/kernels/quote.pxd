# What the text kernels call of quote_kernel.py.

cdef unsigned char *put_quoted(
    const unsigned char *at,
    const unsigned char *end,
    unsigned char *out,
    unsigned char *limit,
    const unsigned int *changes,
    Py_ssize_t count,
) noexcept nogil

cdef unsigned char *put_unquoted(
    const unsigned char *at,
    const unsigned char *end,
    unsigned char *to,
    unsigned char *limit,
    int *fault,
) noexcept nogil
