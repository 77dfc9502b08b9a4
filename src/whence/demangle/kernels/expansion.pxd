# How many references to its own parts a mangled name has.

cdef inline Py_ssize_t count_references(const unsigned char *name, Py_ssize_t size) noexcept nogil:
    """Of C++ or Rust, or more: each ends in "_", or is a pack."""
    cdef Py_ssize_t at, found = 0
    for at in range(size):
        if name[at] == c"_":
            found += 1
        elif name[at] == c"p" and at and (name[at - 1] == c"D" or name[at - 1] == c"s"):
            found += 1
    return found
