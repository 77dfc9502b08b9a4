# Registers and stack copies of samples.

from whence.kernels.columns cimport Column

cdef struct UserState:  # of a sample
    unsigned long long abi
    const unsigned char* registers
    unsigned long long offset  # of the stack copy in the stream
    unsigned long long size  # valid bytes of the stack copy

cdef class Copies:
    cdef readonly Column sample, rest, pc, values, start, offset, size

    cdef bint _add(self, UserState* state, const unsigned char[::1] registers, bint big) noexcept nogil
