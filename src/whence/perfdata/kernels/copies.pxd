# Registers and copies of stacks of samples.

from whence.kernels.columns cimport Column

cdef struct Reading:  # of a sample
    unsigned long long abi
    const unsigned char* registers
    unsigned long long at  # where its copy of the stack begins in the stream, and how many of its bytes are valid
    unsigned long long size

cdef class Copies:
    cdef readonly Column sample, rest, pc, values, start, at, size
