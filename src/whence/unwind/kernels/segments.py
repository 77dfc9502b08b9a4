"""Kernel: the memory of a dump as segments, looked up by address."""

import cython
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.vector import push


def add_segment(segments, owners, start, data):
    """Add memory, in order of address; segments must not overlap. `owners` keeps the bytes alive.

    Raises ValueError, MemoryError.
    """
    view: cython.const[cython.uchar][::1] = memoryview(data).cast("B")
    items: cython.pointer[MemorySegment] = cython.cast(cython.pointer[MemorySegment], segments.items)
    size: cython.ulonglong = view.shape[0]
    belong(start + size >= start)
    belong(segments.count == 0 or items[segments.count - 1].end <= start)
    if size == 0:
        return True
    new: cython.pointer[MemorySegment] = cython.cast(
        cython.pointer[MemorySegment], push(segments, cython.sizeof(MemorySegment))
    )
    if new == cython.NULL:
        raise MemoryError
    owners.append(view)
    new.start = start
    new.end = start + size
    new.bytes = cython.address(view[0])
    return True


def find_segment(segments, address):
    """Return the segment of an address; NULL if no segment has the address."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = segments.count
    items: cython.pointer(cython.const[MemorySegment]) = cython.cast(
        cython.pointer(cython.const[MemorySegment]), segments.items
    )
    while low < high:
        middle: cython.Py_ssize_t = (low + high) >> 1
        if items[middle].start <= address:
            low = middle + 1
        else:
            high = middle
    if low == 0 or address >= items[low - 1].end:
        return cython.NULL
    return items + low - 1
