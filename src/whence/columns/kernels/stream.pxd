from whence.columns.kernels.arrow cimport ArrowArrayStream
from whence.columns.kernels.batch cimport RecordBatch

cdef class Batches:
    cdef ArrowArrayStream source  # what is read; released where batches come from Python
    cdef readonly RecordBatch schema
    cdef object batches
    cdef bytes error  # of the batch that could not be had
