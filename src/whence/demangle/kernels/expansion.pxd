# Parts of a mangled name.

cdef inline bint is_digit(unsigned char letter) noexcept nogil:
    return c"0" <= letter <= c"9"

cdef inline bint is_capital(unsigned char letter) noexcept nogil:
    return c"A" <= letter <= c"Z"

cdef inline Py_ssize_t count_references(const unsigned char *name, Py_ssize_t size) noexcept nogil:
    """Return an upper bound of the references in a name of C++ or Rust: each ends in "_", or is a pack."""
    cdef Py_ssize_t index, count = 0
    for index in range(size):
        if name[index] == c"_":
            count += 1
        elif name[index] == c"p" and index and (name[index - 1] == c"D" or name[index - 1] == c"s"):
            count += 1
    return count
