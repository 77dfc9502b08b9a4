"""Streams of record batches in Arrow's C stream interface: read from a capsule, or made from an iterable of batches."""

import cython
from cython.cimports.cpython.pycapsule import PyCapsule_GetPointer, PyCapsule_New
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.errno import EINVAL, EIO, ENOMEM
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.columns.kernels.arrow import (
    ArrowArray,
    ArrowArrayStream,
    ArrowSchema,
    copy_array,
    copy_schema,
)
from cython.cimports.whence.columns.kernels.batch import RecordBatch
from cython.cimports.whence.kernels.checks import belong

from whence._base.errors import WrongUse


@cython.final
@cython.cclass
class BatchStream:
    """An iterator of batches that is also a C stream: one consumer can read the batches not yet yielded."""

    def __cinit__(self, schema: RecordBatch, batches: object):
        """Make a stream of batches. `schema` is a RecordBatch with their columns; its rows are ignored."""
        belong(schema.shared.schema.release != cython.NULL)
        self.schema = schema
        self.batches = None if batches is None else iter(batches)

    @staticmethod
    def from_capsule(capsule: object):
        """Take ownership of the stream in a capsule.

        Raises TypeError for another capsule; WrongUse for a stream that fails or does not have record batches.
        """
        source = cython.cast(cython.pointer(ArrowArrayStream), PyCapsule_GetPointer(capsule, b"arrow_array_stream"))
        if source.release == cython.NULL:
            raise ValueError("the Arrow stream was already consumed")
        schema: RecordBatch = RecordBatch(None)
        if source.get_schema(source, cython.address(schema.shared.schema)):
            raise WrongUse(f"reading the schema of the Arrow stream failed: {message_of(source)}")
        schema._read_names()
        out: BatchStream = BatchStream(schema, None)
        memcpy(cython.address(out.source), source, cython.sizeof(ArrowArrayStream))
        source.release = cython.NULL
        return out

    def __dealloc__(self):
        if self.source.release != cython.NULL:
            self.source.release(cython.address(self.source))

    def __iter__(self):
        return self

    def __next__(self):
        if self.batches is not None:
            return next(self.batches)
        if self.source.release == cython.NULL:
            raise StopIteration
        batch: RecordBatch = RecordBatch(None)
        with cython.nogil:
            fault: cython.int = self.source.get_next(cython.address(self.source), cython.address(batch.shared.array))
        if fault:
            raise OSError(fault, f"reading the Arrow stream failed: {message_of(cython.address(self.source))}")
        if batch.shared.array.release == cython.NULL:
            raise StopIteration
        if not copy_schema(cython.address(batch.shared.schema), cython.address(self.schema.shared.schema)):
            raise MemoryError
        batch._read_names()
        return batch

    def __repr__(self):
        return f"<Batches: {', '.join(self.schema.names)}>"

    def __arrow_c_schema__(self):
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None):
        """Return the stream in a capsule; each batch is made when the consumer requests it."""
        stream = cython.cast(cython.pointer(ArrowArrayStream), calloc(1, cython.sizeof(ArrowArrayStream)))
        if stream == cython.NULL:
            raise MemoryError
        capsule = PyCapsule_New(stream, b"arrow_array_stream", drop_stream)
        stream.get_schema = schema_of_stream
        stream.get_next = next_of_stream
        stream.get_last_error = error_of_stream
        stream.release = release_stream
        Py_INCREF(self)
        stream.private_data = cython.cast(cython.p_void, self)
        return capsule


@cython.cfunc
def message_of(stream: cython.pointer(ArrowArrayStream)) -> str:
    """Return the last error of a stream."""
    text = stream.get_last_error(stream)
    return "no reason given" if text == cython.NULL else cython.cast(bytes, text).decode("utf-8", "replace")


@cython.cfunc
@cython.exceptval(check=False)
def drop_stream(capsule: object) -> cython.void:
    """Release the stream of a capsule: its destructor."""
    stream = cython.cast(cython.pointer(ArrowArrayStream), PyCapsule_GetPointer(capsule, b"arrow_array_stream"))
    if stream.release != cython.NULL:
        stream.release(stream)
    free(stream)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def release_stream(stream: cython.pointer(ArrowArrayStream)) -> cython.void:
    with cython.gil:
        Py_DECREF(cython.cast(object, stream.private_data))
    stream.release = cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def schema_of_stream(stream: cython.pointer(ArrowArrayStream), out: cython.pointer(ArrowSchema)) -> cython.int:
    with cython.gil:
        batches: BatchStream = cython.cast(BatchStream, stream.private_data)
        if copy_schema(out, cython.address(batches.schema.shared.schema)):
            return 0
    out.release(out)
    return ENOMEM


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def next_of_stream(stream: cython.pointer(ArrowArrayStream), out: cython.pointer(ArrowArray)) -> cython.int:
    """Produce the next batch; an exception becomes the stream's last error."""
    with cython.gil:
        batches: BatchStream = cython.cast(BatchStream, stream.private_data)
        try:
            batch: RecordBatch = next(batches, None)
            if batch is None:
                out.release = cython.NULL
                return 0
            if copy_array(out, cython.address(batch.shared.array), batch.shared):
                return 0
            out.release(out)
            return ENOMEM
        except BaseException as error:
            batches.error = f"{type(error).__name__}: {error}".encode()
            out.release = cython.NULL
            return EINVAL if isinstance(error, WrongUse) else EIO


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def error_of_stream(stream: cython.pointer(ArrowArrayStream)) -> cython.p_const_char:
    with cython.gil:
        batches: BatchStream = cython.cast(BatchStream, stream.private_data)
        return cython.NULL if batches.error is None else cython.cast(cython.p_char, batches.error)
