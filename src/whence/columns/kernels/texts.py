"""Distinct texts by number: build-ids, functions and files."""

import os

import cython
from cython.cimports.libc.string import memcmp
from cython.cimports.whence.kernels.hashtable import Probe, first_match, insert, mix_bytes, next_match, release_index
from cython.cimports.whence.kernels.vector import push, push_bytes, release

MOST_TEXTS = cython.declare(cython.Py_ssize_t, 0xFFFFFFFE)  # numbers have 32 bits, and the last means no text


@cython.final
@cython.cclass
class TextSet:
    """Distinct texts, numbered in the order in which they are added."""

    def __cinit__(self):
        self.seed = int.from_bytes(os.urandom(8), "little")

    def __dealloc__(self):
        release_index(cython.address(self.index))
        release(cython.address(self.entry))
        release(cython.address(self.text))

    def __len__(self):
        return self.entry.count

    def __getitem__(self, number: cython.Py_ssize_t):
        """Return a text as bytes. Raises IndexError."""
        if not 0 <= number < self.entry.count:
            raise IndexError(number)
        entry: cython.pointer(TextRow) = self.row_at(number)
        return (
            cython.cast(cython.p_char, self.text.items)[entry.start : entry.start + entry.size] if entry.size else b""
        )

    def __repr__(self):
        return f"<TextSet: {len(self)} texts, {self.text.count} bytes>"

    @property
    def memory(self):
        """The approximate memory in bytes."""
        return self.text.count + self.entry.count * 32

    def row_at(self, number):
        return cython.cast(cython.pointer(TextRow), self.entry.items) + number

    def number_of(self, text, size, kind):
        """Return the number of a text of a kind, adding it if it is new; -1 without memory."""
        hash: cython.ulonglong = mix_bytes(text, size, self.seed) ^ kind
        probe: Probe = first_match(cython.address(self.index), hash)
        number: cython.Py_ssize_t = self.entry.count
        while next_match(cython.address(self.index), cython.address(probe)):
            entry: cython.pointer(TextRow) = self.row_at(probe.item)
            if entry.hash == hash and entry.size == size and memcmp(self.text.items + entry.start, text, size) == 0:
                return probe.item
        if number >= MOST_TEXTS:
            return -1
        entry = cython.cast(cython.pointer(TextRow), push(cython.address(self.entry), cython.sizeof(TextRow)))
        if entry == cython.NULL:
            return -1
        entry.hash, entry.start, entry.size = hash, self.text.count, cython.cast(cython.uint, size)
        if (size and not push_bytes(cython.address(self.text), text, size)) or not insert(
            cython.address(self.index), hash, number
        ):
            self.entry.count -= 1
            return -1
        return number
