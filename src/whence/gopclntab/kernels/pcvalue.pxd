# What ranges_kernel.py calls of pcvalue_kernel.py.

cdef Py_ssize_t unpack(
    const unsigned char *table,
    Py_ssize_t size,
    Py_ssize_t at,
    unsigned int quantum,
    unsigned long long span,
    unsigned int *starts,
    int *values,
    Py_ssize_t room,
) noexcept nogil

cdef int value_at(unsigned int *starts, int *values, Py_ssize_t count, unsigned int pc) noexcept nogil

cdef unsigned long long file_name(
    const unsigned char *files,
    unsigned long long count,
    int lowest,
    unsigned long long texts,
    unsigned long long base,
    unsigned int cu,
    int number,
    bint big,
) noexcept nogil

cdef int climb(
    const unsigned char *tree,
    unsigned long long nodes,
    int node_size,
    int parent_width,
    int parent_pc_at,
    bint big,
    unsigned int *starts,
    int *values,
    Py_ssize_t count,
    int index,
    int *opened,
    int *level,
    int *chain,
) noexcept nogil
