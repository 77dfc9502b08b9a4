"""Objects kept by number: what a dict does, without an int for each key, and never beyond a size.

A number has WAYS places, beside each other; a new one takes a free place or one of an older number's.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free

MIX = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
FIRST = cython.declare(cython.ulonglong, 256)  # places at first
WAYS = cython.declare(cython.int, 4)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def place_of(key: cython.ulonglong, mask: cython.ulonglong) -> cython.ulonglong:
    """The first of a number's places."""
    key *= MIX
    return (key ^ key >> 32) & mask & ~cython.cast(cython.ulonglong, WAYS - 1)


@cython.final
@cython.cclass
class Kept:
    """Numbers to objects other than None."""

    def __cinit__(self, most: cython.ulonglong):
        """`most` places, a power of two."""
        self._most = most
        self._mask = FIRST - 1
        self._values = [None] * FIRST
        self._keys = cython.cast(cython.p_ulonglong, calloc(FIRST, 8))
        if self._keys == cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._keys)

    @cython.cfunc
    def get(self, key: cython.ulonglong):
        """What is kept under a number, or None."""
        at: cython.ulonglong = place_of(key, self._mask)
        way: cython.int
        for way in range(WAYS):
            if self._keys[at + way] == key:
                return self._values[at + way]
        return None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put(self, key: cython.ulonglong, value: object) -> cython.int:
        """Keep an object under a number that has none."""
        at: cython.ulonglong
        way: cython.int
        if cython.cast(cython.ulonglong, self._count) > self._mask >> 1 and self._mask + 1 < self._most:
            self._grow()
        at = place_of(key, self._mask)
        for way in range(WAYS):
            if self._values[at + way] is None:
                self._count += 1
                break
        else:
            way = cython.cast(cython.int, key & (WAYS - 1))
        self._keys[at + way] = key
        self._values[at + way] = value
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _grow(self) -> cython.int:
        """Eight times as many places, or the most."""
        old: cython.p_ulonglong = self._keys
        values: list = self._values
        count: cython.ulonglong = self._mask + 1
        wanted: cython.ulonglong = 8 * count if 8 * count < self._most else self._most
        at: cython.ulonglong
        more: list = [None] * wanted
        keys: cython.p_ulonglong = cython.cast(cython.p_ulonglong, calloc(wanted, 8))
        if keys == cython.NULL:
            raise MemoryError
        self._keys, self._values, self._mask, self._count = keys, more, wanted - 1, 0
        for at in range(count):
            if values[at] is not None:
                self.put(old[at], values[at])
        free(old)
        return 0
