"""How the events of one version are written, in binary and in text: lookup tables for the loops over events.

    counts   number of arguments of each event type, NO_EVENT if the version has no such event
    flags    properties of each type: IS_STACK, HAS_DATA, IS_TIMED
    pieces   the text before each number of a line: PIECE bytes each, PIECES per type
    sizes    how many of those bytes are used
    slots    a hash table of event names: the type in the slot that `name_slot` returns

Type 0 is not an event; its pieces are those of a frame and of data.
"""

import cython
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.gotrace.kernels import constants as c


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def name_slot(name: cython.p_const_uchar, size: cython.Py_ssize_t) -> cython.int:
    """Return the slot of an event's name (of at least four letters), computed from its length and four letters."""
    return (
        name[0] * 77
        + name[size >> 1] * 143
        + name[size - 1] * 34
        + name[size - 3] * 185
        + cython.cast(cython.int, size) * 213
    ) & (c.SLOTS - 1)


@cython.final
@cython.cclass
class EventLayout:
    """The events of a version, each added once."""

    def __cinit__(self):
        kind: cython.int
        for kind in range(c.KINDS):
            self.counts[kind] = c.NO_EVENT

    def add(self, kind: cython.int, name: bytes, count: cython.int, flags: cython.int, texts: list) -> None:
        """Add an event of `count` arguments.

        `texts` precede its numbers, the first one with its name. Raises ValueError if they do not fit.
        """
        fits: cython.bint = 0 <= count < c.PIECES and (count > 0 or not flags & c.IS_TIMED)
        if not 0 < kind < c.TYPES or not 4 <= len(name) < c.PIECE or not fits or not 0 <= flags < c.KINDS:
            raise ValueError(f"event {kind}, {name!r}, does not fit in the table")
        slot: cython.int = name_slot(name, len(name))
        if self.slots[slot]:
            raise ValueError(f"{name!r} has the hash of event {self.slots[slot]}; change name_slot")
        self.slots[slot] = kind
        self.counts[kind] = count
        self.flags[kind] = flags
        self.put(kind, texts)

    def put(self, kind: cython.int, texts: list) -> None:
        """Set the texts before the numbers of a type's line; for type 0, those of a frame and of data."""
        index: cython.int
        if not 0 <= kind < c.TYPES or len(texts) > c.PIECES or any(len(text) > c.PIECE for text in texts):
            raise ValueError(f"the texts of event {kind} do not fit in the table")
        for index in range(len(texts)):
            text: bytes = texts[index]
            row: cython.int = kind * c.PIECES + index
            memcpy(cython.address(self.pieces[row * c.PIECE]), cython.cast(cython.p_const_char, text), len(text))
            self.sizes[row] = len(text)

    def type_of(self, name: bytes) -> int:
        """Return the type in the slot of a name, 0 for none. The type may have another name."""
        return self.slots[name_slot(name, len(name))] if len(name) >= 4 else 0
