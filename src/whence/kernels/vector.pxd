# Growable arrays, written once: a block of items of one size that grows by doubling.
#
# A vector is zero to begin with (memset, calloc, or the fields of a new extension object), owns its block, and is given
# back by `release`. Pushing returns False when there is no memory; the vector is then as it was.

from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cdef struct Vector:  # of items of any one size, which the caller knows
    char* items
    Py_ssize_t count
    Py_ssize_t room

cdef struct U64s:
    unsigned long long* items
    Py_ssize_t count
    Py_ssize_t room

cdef struct U32s:
    unsigned int* items
    Py_ssize_t count
    Py_ssize_t room

cdef struct Bytes:
    unsigned char* items
    Py_ssize_t count
    Py_ssize_t room

ctypedef fused AnyVector:
    Vector
    U64s
    U32s
    Bytes


cdef inline bint grow(void** items, Py_ssize_t* room, Py_ssize_t needed, size_t item) noexcept nogil:
    """Make room for `needed` items of `item` bytes each."""
    cdef Py_ssize_t more = room[0] * 2 if room[0] > 32 else 64
    cdef void* block
    if needed <= room[0]:
        return True
    if more < needed:
        more = needed
    if <size_t>more > (<size_t>-1 >> 1) // item:
        return False
    block = realloc(items[0], <size_t>more * item)
    if block == NULL:
        return False
    items[0] = block
    room[0] = more
    return True


cdef inline bint reserve(AnyVector* vector, Py_ssize_t more, size_t item) noexcept nogil:
    """Make room for `more` items beyond those there are."""
    return grow(<void**>&vector.items, &vector.room, vector.count + more, item)


cdef inline void* push(AnyVector* vector, size_t item) noexcept nogil:
    """Append an item, not yet filled in; NULL when there is no memory."""
    if vector.count == vector.room and not grow(<void**>&vector.items, &vector.room, vector.count + 1, item):
        return NULL
    vector.count += 1
    return <char*>vector.items + (vector.count - 1) * <Py_ssize_t>item


cdef inline bint push_u64(U64s* vector, unsigned long long value) noexcept nogil:
    if vector.count == vector.room and not grow(<void**>&vector.items, &vector.room, vector.count + 1, 8):
        return False
    vector.items[vector.count] = value
    vector.count += 1
    return True


cdef inline bint push_u32(U32s* vector, unsigned int value) noexcept nogil:
    if vector.count == vector.room and not grow(<void**>&vector.items, &vector.room, vector.count + 1, 4):
        return False
    vector.items[vector.count] = value
    vector.count += 1
    return True


cdef inline bint push_bytes(Bytes* vector, const void* data, Py_ssize_t size) noexcept nogil:
    if vector.count + size > vector.room and not grow(<void**>&vector.items, &vector.room, vector.count + size, 1):
        return False
    memcpy(vector.items + vector.count, data, size)
    vector.count += size
    return True


cdef inline void release(AnyVector* vector) noexcept nogil:
    free(vector.items)
    vector.items = NULL
    vector.count = vector.room = 0
