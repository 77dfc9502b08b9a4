"""A column of numbers that a kernel fills and Python reads: it owns its memory and has the buffer protocol."""

import cython
from cython.cimports.cpython.buffer import PyBuffer_FillInfo
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.kernels.vector import grow, release

ITEM = {"B": 1, "I": 4, "Q": 8}


@cython.final
@cython.cclass
class Column:
    """Unsigned numbers of 8 ("B"), 32 ("I") or 64 bits ("Q"), as in array.array, in the machine's byte order.

    A buffer of bytes; `numbers()` is the view of numbers. While a view exists, the column does not grow: kernels raise
    BufferError instead. A column that a kernel keeps (`kept`) is grown and written by that kernel only, as its other
    columns depend on it.
    """

    def __cinit__(self, typecode: str, kept: cython.bint = False):
        self.typecode = typecode
        self.item = ITEM[typecode]
        self.kept = kept

    @cython.cfunc
    @cython.exceptval(check=False)
    def takes(self, item: cython.Py_ssize_t) -> cython.bint:
        """Return True if a kernel may append numbers of `item` bytes to a column that it was given."""
        return self.item == item and not self.kept

    def __dealloc__(self):
        release(cython.address(self.vector))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def reserve(self, more: cython.Py_ssize_t) -> cython.bint:
        """Reserve memory for `more` numbers. False if memory runs out, or a view exists."""
        if self.vector.count + more <= self.vector.capacity:
            return True
        return self.exports == 0 and grow(
            cython.cast(cython.pp_void, cython.address(self.vector.items)),
            cython.address(self.vector.capacity),
            self.vector.count + more,
            self.item,
        )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def push_u64(self, value: cython.ulonglong) -> cython.bint:
        if self.vector.count == self.vector.capacity and not self.reserve(1):
            return False
        cython.cast(cython.p_ulonglong, self.vector.items)[self.vector.count] = value
        self.vector.count += 1
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def push_u32(self, value: cython.uint) -> cython.bint:
        if self.vector.count == self.vector.capacity and not self.reserve(1):
            return False
        cython.cast(cython.p_uint, self.vector.items)[self.vector.count] = value
        self.vector.count += 1
        return True

    def numbers(self):
        """Return a view of the numbers, without a copy."""
        return memoryview(self).cast(self.typecode)

    def extend(self, numbers):
        """Append the numbers of a buffer of the same item size, such as an array. MemoryError, BufferError."""
        data: cython.const[cython.uchar][::1] = memoryview(numbers).cast("B")
        count: cython.Py_ssize_t = data.shape[0] // self.item
        if self.kept:
            raise BufferError("a kernel keeps this column")
        if not self.reserve(count):
            raise BufferError("a view of the column exists") if self.exports else MemoryError
        if count:
            memcpy(self.vector.items + self.vector.count * self.item, cython.address(data[0]), count * self.item)
        self.vector.count += count

    def __len__(self):
        return self.vector.count

    def __getitem__(self, index):
        return self.numbers()[index]

    def __getbuffer__(self, buffer: cython.pointer(Py_buffer), flags: cython.int):
        PyBuffer_FillInfo(buffer, self, self.vector.items, self.vector.count * self.item, self.kept, flags)
        self.exports += 1

    def __releasebuffer__(self, buffer: cython.pointer(Py_buffer)):
        self.exports -= 1

    def __reduce__(self):
        return restored, (self.typecode, bytes(self))

    def __repr__(self):
        return f"<Column of {len(self)} numbers, {self.typecode!r}>"


def restored(typecode, data):
    """Return a column with these bytes (for pickle)."""
    column = Column(typecode)
    column.extend(data)
    return column
