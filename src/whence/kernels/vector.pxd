# Growable arrays: blocks of items of one size that grow by doubling.
#
# A vector is empty when it is zero (memset, calloc, or the field of a new extension object); `release` frees it. `push`
# and its kin return False or NULL if memory runs out, and leave the vector as it was.
#
# To write a record of several items, reserve once and append without further checks:
#
#     if not (reserve(&ids, 1, 8) and reserve(&bytes, size, 1)):
#         return False
#     append_u64(&ids, id)
#     append_bytes(&bytes, data, size)

from libc.stdlib cimport free
from libc.string cimport memcpy

cdef struct Vector:  # of items of any one size, which the caller knows
    char* items
    Py_ssize_t count
    Py_ssize_t capacity

cdef struct U64s:
    unsigned long long* items
    Py_ssize_t count
    Py_ssize_t capacity

cdef struct U32s:
    unsigned int* items
    Py_ssize_t count
    Py_ssize_t capacity

cdef struct Bytes:
    unsigned char* items
    Py_ssize_t count
    Py_ssize_t capacity

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>

    static int whence_grow(void** items, Py_ssize_t* capacity, Py_ssize_t needed, size_t item) {
        Py_ssize_t more = *capacity > 32 ? *capacity * 2 : 64;
        void* block;
        if (needed <= *capacity)
            return 1;
        if (more < needed)
            more = needed;
        if ((size_t)more > (SIZE_MAX >> 1) / item || (block = realloc(*items, (size_t)more * item)) == NULL)
            return 0;
        *items = block;
        *capacity = more;
        return 1;
    }
    #define WHENCE_RESERVE_NEXT(vector) ((vector)->count < (vector)->capacity || whence_grow( \\
        (void**)&(vector)->items, &(vector)->capacity, (vector)->count + 1, sizeof *(vector)->items))
    """
    # Make the capacity at least `needed` items of `item` bytes each. False if memory runs out.
    bint grow "whence_grow" (void** items, Py_ssize_t* capacity, Py_ssize_t needed, size_t item) noexcept nogil
    # Make memory for one more item of a pointer to any struct with `items`, `count` and `capacity`. False if there is none.
    bint reserve_next "WHENCE_RESERVE_NEXT" (...) noexcept nogil

ctypedef fused AnyVector:
    Vector
    U64s
    U32s
    Bytes


cdef inline bint reserve(AnyVector* vector, Py_ssize_t more, size_t item) noexcept nogil:
    """Make memory for `more` items after the present ones. False if there is none."""
    return grow(<void**>&vector.items, &vector.capacity, vector.count + more, item)


cdef inline void* push(AnyVector* vector, size_t item) noexcept nogil:
    """Append an item, to be filled in by the caller; NULL if memory runs out."""
    if vector.count == vector.capacity and not grow(<void**>&vector.items, &vector.capacity, vector.count + 1, item):
        return NULL
    vector.count += 1
    return <char*>vector.items + (vector.count - 1) * <Py_ssize_t>item


cdef inline bint push_u64(U64s* vector, unsigned long long value) noexcept nogil:
    if vector.count == vector.capacity and not grow(<void**>&vector.items, &vector.capacity, vector.count + 1, 8):
        return False
    vector.items[vector.count] = value
    vector.count += 1
    return True


cdef inline bint push_u32(U32s* vector, unsigned int value) noexcept nogil:
    if vector.count == vector.capacity and not grow(<void**>&vector.items, &vector.capacity, vector.count + 1, 4):
        return False
    vector.items[vector.count] = value
    vector.count += 1
    return True


cdef inline bint push_bytes(Bytes* vector, const void* data, Py_ssize_t size) noexcept nogil:
    if vector.count + size > vector.capacity and not grow(<void**>&vector.items, &vector.capacity, vector.count + size, 1):
        return False
    append_bytes(vector, data, size)
    return True


cdef inline void* append(AnyVector* vector, size_t item) noexcept nogil:
    """Append an item, to be filled in by the caller, in memory that was reserved."""
    vector.count += 1
    return <char*>vector.items + (vector.count - 1) * <Py_ssize_t>item


cdef inline void append_u64(U64s* vector, unsigned long long value) noexcept nogil:
    """Append a number in memory that was reserved."""
    vector.items[vector.count] = value
    vector.count += 1


cdef inline void append_u32(U32s* vector, unsigned int value) noexcept nogil:
    """Append a number in memory that was reserved."""
    vector.items[vector.count] = value
    vector.count += 1


cdef inline void append_bytes(Bytes* vector, const void* data, Py_ssize_t size) noexcept nogil:
    """Append bytes in memory that was reserved."""
    if size:
        memcpy(vector.items + vector.count, data, size)
        vector.count += size


cdef inline void release(AnyVector* vector) noexcept nogil:
    free(vector.items)
    vector.items = NULL
    vector.count = vector.capacity = 0
