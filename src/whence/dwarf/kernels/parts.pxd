from whence.dwarf.kernels.shared cimport File

cdef class Parts:
    cdef File file
    cdef list kept
