"""The lines of a text that hold any of a few byte strings, in one pass over it.

Each needle is looked for at its rarest byte, so that a byte of ordinary text costs one look into a table.
"""

import cython
from cython.cimports.libc.string import memcmp
from cython.cimports.whence.kernels.columns import Column

MOST = 64  # one bit each

RARITY = b"#{@+<>[]|*=qzjxkvwybgfupmhcd(/)lsnrioate_.-:9876543210 "  # in logs, rarest first; others are rare


def anchor_of(needle: bytes) -> int:
    """Where a needle's rarest byte is."""
    return min(range(len(needle)), key=lambda index: RARITY.find(needle[index]))


@cython.final
@cython.cclass
class Needles:
    """Up to 64 byte strings, none of them empty or with a newline; ValueError for others."""

    texts: tuple
    size: cython.Py_ssize_t[64]
    anchor: cython.Py_ssize_t[64]
    text: cython.p_const_uchar[64]
    following: cython.int[64]  # the next needle with the same anchor byte; -1 at the end
    first: cython.short[256]  # by byte: 0 for nothing, -1 for the newline, else 1 + the first needle anchored there

    def __cinit__(self, needles: tuple):
        index: cython.int
        byte: cython.int
        if len(needles) > MOST or any(not needle or b"\n" in needle for needle in needles):
            raise ValueError(f"up to {MOST} byte strings without newlines are looked for, none of them empty")
        self.texts = needles
        for byte in range(256):
            self.first[byte] = 0
        self.first[10] = -1
        for index in range(len(needles)):
            needle: bytes = needles[index]
            self.size[index] = len(needle)
            self.anchor[index] = anchor_of(needle)
            self.text[index] = needle
            byte = needle[self.anchor[index]]
            self.following[index] = self.first[byte] - 1
            self.first[byte] = index + 1

    def lines(self, text: bytes) -> Column:
        """The lines with a needle, in order: three numbers each: their start, their end (without newline), and a bit
        for each needle that is in them. MemoryError."""
        out: Column = Column("Q")
        data: cython.p_const_uchar = text
        size: cython.Py_ssize_t = len(text)
        done: cython.bint
        with cython.nogil:
            done = self.scan(data, size, out)
        if not done:
            raise MemoryError
        return out

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def scan(self, data: cython.p_const_uchar, size: cython.Py_ssize_t, out: Column) -> cython.bint:
        offset: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        line: cython.Py_ssize_t = 0
        needle: cython.int
        bits: cython.ulonglong = 0
        for offset in range(size):
            needle = self.first[data[offset]]
            if needle == 0:
                continue
            if needle < 0:
                if bits and not (out.push_u64(line) and out.push_u64(offset) and out.push_u64(bits)):
                    return False
                bits = 0
                line = offset + 1
                continue
            needle -= 1
            while needle >= 0:
                begin = offset - self.anchor[needle]
                if (
                    not bits >> needle & 1
                    and begin >= line
                    and begin + self.size[needle] <= size
                    and memcmp(data + begin, self.text[needle], self.size[needle]) == 0
                ):
                    bits |= cython.cast(cython.ulonglong, 1) << needle
                needle = self.following[needle]
        return not bits or (out.push_u64(line) and out.push_u64(size) and out.push_u64(bits))
