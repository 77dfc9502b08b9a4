# Open addressing with linear probing, written once.
#
# A table holds 1 + the number of an item that lies elsewhere (0: a free slot); what makes two items equal is the
# caller's. Slots are a power of two and at most half full, so that probing ends. Hashes are keyed: the caller's seed is
# random, so that a file cannot choose what collides.
#
#     slot = first_slot(&table, mix(key, seed))
#     while table.slots[slot] and not equal(table.slots[slot] - 1):
#         slot = next_slot(&table, slot)
#
# What is known not to be there (all items, when the table grows) is put in by `put_item`.

from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

cdef struct HashTable:
    unsigned int* slots
    unsigned long long mask  # slots - 1; 0 before the first `make_slots`
    Py_ssize_t count

cdef enum:
    FIRST_SLOTS = 1024


cdef extern from *:
    """
    #define WHENCE_GOLDEN 0x9E3779B97F4A7C15ULL
    """
    const unsigned long long WHENCE_GOLDEN  # 2**64 divided by the golden ratio, odd: spreads what it multiplies


cdef inline unsigned long long mix(unsigned long long key, unsigned long long seed) noexcept nogil:
    """A hash of 64 bits of which every one depends on all of the key's."""
    key = (key ^ seed) * WHENCE_GOLDEN
    key = (key ^ (key >> 29)) * (seed | 1)
    return key ^ (key >> 32)


cdef inline unsigned long long mix_bytes(
    const unsigned char* data, unsigned long long size, unsigned long long seed
) noexcept nogil:
    """The same of `size` bytes."""
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


cdef inline bint make_slots(HashTable* table, unsigned long long items) noexcept nogil:
    """Free slots for `items` items; what the table held is forgotten. False when there is no memory."""
    cdef unsigned long long slots = FIRST_SLOTS
    while slots < 2 * items:
        slots *= 2
    free(table.slots)
    table.count = 0
    table.slots = <unsigned int*>calloc(slots, 4)
    table.mask = slots - 1 if table.slots != NULL else 0
    return table.slots != NULL


cdef inline bint is_crowded(const HashTable* table) noexcept nogil:
    """Whether one more item needs more slots: make them and put every item in again."""
    return 2 * <unsigned long long>(table.count + 1) > table.mask


cdef inline unsigned long long first_slot(const HashTable* table, unsigned long long hash) noexcept nogil:
    return hash & table.mask


cdef inline unsigned long long next_slot(const HashTable* table, unsigned long long slot) noexcept nogil:
    return (slot + 1) & table.mask


cdef inline void fill_slot(HashTable* table, unsigned long long slot, Py_ssize_t item) noexcept nogil:
    table.slots[slot] = <unsigned int>(item + 1)
    table.count += 1


cdef inline void put_item(HashTable* table, unsigned long long hash, Py_ssize_t item) noexcept nogil:
    """Put in an item that is not there, as when the table has grown: there is room for it."""
    cdef unsigned long long slot = first_slot(table, hash)
    while table.slots[slot]:
        slot = next_slot(table, slot)
    fill_slot(table, slot, item)


cdef inline void clear_slots(HashTable* table) noexcept nogil:
    table.count = 0
    if table.slots != NULL:
        memset(table.slots, 0, 4 * (table.mask + 1))


cdef inline void release_slots(HashTable* table) noexcept nogil:
    free(table.slots)
    table.slots = NULL
    table.mask = 0
    table.count = 0
