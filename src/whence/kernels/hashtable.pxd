# Hash tables with open addressing and linear probing.
#
# A HashIndex finds items by their hash: a slot holds the low 32 bits of a hash and the index of an item in an array of
# the caller, who decides which items are equal. Slots are at most half full, so that probing ends, and growing reads no
# item. A HashIndex is empty when it is zero (memset, or the field of a new extension object); `release_index` frees it.
# Hashes are keyed: the caller's seed is random, so that a file cannot choose keys that collide.
#
# A key that is one number, in an array or in the first field of a struct:
#
#     item = find_u64(index, keys, sizeof(Row), key, seed)    # -1 if it is not there; find_u32 likewise
#     if item < 0 and not insert(index, mix(key, seed), count): ...    # no memory
#
# A key of several fields, or of bytes, is compared by the caller:
#
#     probe = first_match(index, hash)
#     while next_match(index, &probe):
#         if rows[probe.item].size == size and ...:
#             return probe.item
#     if push(rows, ...) == NULL or not insert(index, hash, rows.count - 1): ...    # no memory
#
# Append the item before it is inserted, so that the index never refers to an item that does not exist.

from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

cdef struct HashIndex:
    unsigned long long* slots  # hash << 32 | 1 + item; 0: free
    unsigned long long mask  # slots - 1
    Py_ssize_t count

cdef struct Probe:
    unsigned long long slot  # to look at next
    unsigned int hash
    unsigned int item  # of the last match

cdef enum:
    FIRST_SLOTS = 1024


cdef extern from *:
    """
    #define WHENCE_GOLDEN 0x9E3779B97F4A7C15ULL
    """
    const unsigned long long WHENCE_GOLDEN  # 2**64 divided by the golden ratio, odd: spreads what it multiplies


cdef inline unsigned long long mix(unsigned long long key, unsigned long long seed) noexcept nogil:
    """Return a hash of 64 bits, each of which depends on all bits of the key."""
    key = (key ^ seed) * WHENCE_GOLDEN
    key = (key ^ (key >> 29)) * (seed | 1)
    return key ^ (key >> 32)


cdef inline unsigned long long mix_bytes(
    const unsigned char* data, unsigned long long size, unsigned long long seed
) noexcept nogil:
    """Return a hash of `size` bytes."""
    cdef unsigned long long value = seed ^ size
    cdef unsigned long long word = 0
    while size >= 8:
        memcpy(&word, data, 8)
        value = mix(value ^ word, seed)
        data += 8
        size -= 8
    word = 0
    if size:
        memcpy(&word, data, size)
    return mix(value ^ word, seed)


cdef inline bint reserve_index(HashIndex* index, unsigned long long items) noexcept nogil:
    """Make slots for `items` items altogether, so that inserting them needs no memory. False if memory runs out."""
    cdef unsigned long long size = FIRST_SLOTS
    cdef unsigned long long mask, slot, old
    cdef unsigned long long* slots
    while size < 2 * items:
        size *= 2
    mask = size - 1
    if index.slots != NULL and mask <= index.mask:
        return True
    slots = <unsigned long long*>calloc(size, sizeof(unsigned long long))
    if slots == NULL:
        return False
    if index.slots != NULL:
        for old in range(index.mask + 1):
            if index.slots[old]:
                slot = index.slots[old] >> 32 & mask
                while slots[slot]:
                    slot = (slot + 1) & mask
                slots[slot] = index.slots[old]
        free(index.slots)
    index.slots = slots
    index.mask = mask
    return True


cdef inline bint insert(HashIndex* index, unsigned long long hash, Py_ssize_t item) noexcept nogil:
    """Insert an item that is not there yet. False if memory runs out."""
    cdef unsigned long long slot
    if 2 * <unsigned long long>(index.count + 1) > index.mask and not reserve_index(index, index.mask + 1):
        return False
    slot = <unsigned int>hash & index.mask
    while index.slots[slot]:
        slot = (slot + 1) & index.mask
    index.slots[slot] = hash << 32 | <unsigned int>(item + 1)
    index.count += 1
    return True


cdef inline Probe first_match(const HashIndex* index, unsigned long long hash) noexcept nogil:
    """Return a probe for the items of a hash, before the first of them."""
    cdef Probe probe
    probe.hash = <unsigned int>hash
    probe.slot = probe.hash & index.mask
    probe.item = 0
    return probe


cdef inline bint next_match(const HashIndex* index, Probe* probe) noexcept nogil:
    """Set `probe.item` to the next item whose hash is the same in its low 32 bits. False if there are no more."""
    cdef unsigned long long entry
    if index.slots == NULL:
        return False
    while True:
        entry = index.slots[probe.slot]
        if entry == 0:
            return False
        probe.slot = (probe.slot + 1) & index.mask
        if entry >> 32 == probe.hash:
            probe.item = <unsigned int>entry - 1
            return True


cdef inline Py_ssize_t find_u64(
    const HashIndex* index, const void* keys, size_t stride, unsigned long long key, unsigned long long seed
) noexcept nogil:
    """Return the item whose u64 key at `keys + item * stride` is `key`, inserted by `mix(key, seed)`; -1 if there is
    none."""
    cdef Probe probe = first_match(index, mix(key, seed))
    while next_match(index, &probe):
        if (<const unsigned long long*>(<const char*>keys + probe.item * stride))[0] == key:
            return probe.item
    return -1


cdef inline Py_ssize_t find_u32(
    const HashIndex* index, const void* keys, size_t stride, unsigned int key, unsigned long long seed
) noexcept nogil:
    """Return the item whose u32 key at `keys + item * stride` is `key`, inserted by `mix(key, seed)`; -1 if there is
    none."""
    cdef Probe probe = first_match(index, mix(key, seed))
    while next_match(index, &probe):
        if (<const unsigned int*>(<const char*>keys + probe.item * stride))[0] == key:
            return probe.item
    return -1


cdef inline void clear_index(HashIndex* index) noexcept nogil:
    """Remove all items and keep the memory."""
    index.count = 0
    if index.slots != NULL:
        memset(index.slots, 0, (index.mask + 1) * sizeof(unsigned long long))


cdef inline void release_index(HashIndex* index) noexcept nogil:
    """Free the memory; the index is then empty."""
    free(index.slots)
    index.slots = NULL
    index.mask = 0
    index.count = 0
