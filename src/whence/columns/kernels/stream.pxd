from whence.columns.kernels.arrow cimport ArrowArrayStream
from whence.columns.kernels.batch cimport RecordBatch

cdef class BatchStream:
    cdef ArrowArrayStream source  # the source; released if batches are read from `batches`
    cdef readonly RecordBatch schema
    cdef object batches
    cdef bytes error  # of the batch that could not be made
