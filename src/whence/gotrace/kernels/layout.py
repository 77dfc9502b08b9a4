"""How the events of one version lie, on the wire and in text: what the loops over events look into.

    counts   arguments of each event type, NO_EVENT where the version has no such event
    flags    what each type is: IS_STACK, HAS_DATA, IS_TIMED
    pieces   the words before each number of a line, PIECE bytes each, PIECES for each type
    sizes    how many of those bytes count
    slots    a hash table of event names: the type in the slot that `name_slot` returns

The pieces of type 0, which no event has, are those of a frame and of data.
"""

import cython
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.gotrace.kernels import constants as c


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def name_slot(name: cython.p_const_uchar, size: cython.Py_ssize_t) -> cython.int:
    """Where an event's name (of at least four letters) stands in the hash table: from its length and four letters."""
    return (
        name[0] * 77
        + name[size >> 1] * 143
        + name[size - 1] * 34
        + name[size - 3] * 185
        + cython.cast(cython.int, size) * 213
    ) & (c.SLOTS - 1)


@cython.final
@cython.cclass
class Layout:
    """The events of a version, each put in once. ValueError for what has no room."""

    def __cinit__(self):
        kind: cython.int
        for kind in range(c.KINDS):
            self.counts[kind] = c.NO_EVENT

    def add(self, kind: cython.int, name: bytes, count: cython.int, flags: cython.int, words: list) -> None:
        """An event of `count` arguments; `words` come before its numbers, the first with its name."""
        slot: cython.int
        fits: cython.bint = 0 <= count < c.PIECES and (count > 0 or not flags & c.IS_TIMED)
        if not 0 < kind < c.TYPES or not 4 <= len(name) < c.PIECE or not fits or not 0 <= flags < c.KINDS:
            raise ValueError(f"no room for event {kind}, {name!r}")
        slot = name_slot(name, len(name))
        if self.slots[slot]:
            raise ValueError(f"{name!r} has the slot of event {self.slots[slot]}: each name needs another hash")
        self.slots[slot] = kind
        self.counts[kind] = count
        self.flags[kind] = flags
        self.put(kind, words)

    def put(self, kind: cython.int, words: list) -> None:
        """The words before the numbers of a type's line; of type 0, before those of a frame and before data."""
        index: cython.int
        row: cython.int
        if not 0 <= kind < c.TYPES or len(words) > c.PIECES or any(len(word) > c.PIECE for word in words):
            raise ValueError(f"no room for the words of event {kind}")
        for index in range(len(words)):
            word: bytes = words[index]
            row = kind * c.PIECES + index
            memcpy(cython.address(self.pieces[row * c.PIECE]), cython.cast(cython.p_const_char, word), len(word))
            self.sizes[row] = len(word)

    def type_of(self, name: bytes) -> int:
        """The type in a name's slot; 0 for none. It need not have that name."""
        return self.slots[name_slot(name, len(name))] if len(name) >= 4 else 0
