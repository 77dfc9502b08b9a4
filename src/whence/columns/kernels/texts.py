"""Different texts, each with a number: what build-ids, functions and files are once they are read."""

import os

import cython
from cython.cimports.libc.string import memcmp
from cython.cimports.whence.kernels.hashtable import (
    fill_slot,
    first_slot,
    is_crowded,
    make_slots,
    mix_bytes,
    next_slot,
    put_item,
    release_slots,
)
from cython.cimports.whence.kernels.vector import push, push_bytes, release

MOST_TEXTS = cython.declare(cython.Py_ssize_t, 0xFFFFFFFE)  # numbers are of 32 bits, and the last stands for none


@cython.final
@cython.cclass
class TextSet:
    """Texts by number, in the order in which they came."""

    def __cinit__(self):
        self.seed = int.from_bytes(os.urandom(8), "little")

    def __dealloc__(self):
        release_slots(cython.address(self.table))
        release(cython.address(self.row))
        release(cython.address(self.text))

    def __len__(self):
        return self.row.count

    def __getitem__(self, number: cython.Py_ssize_t):
        """A text, bytes. IndexError."""
        if not 0 <= number < self.row.count:
            raise IndexError(number)
        row: cython.pointer(TextRow) = self.at(number)
        return cython.cast(cython.p_char, self.text.items)[row.start : row.start + row.size] if row.size else b""

    def __repr__(self):
        return f"<TextSet: {len(self)} texts, {self.text.count} bytes>"

    @property
    def memory(self):
        """About how many bytes they take."""
        return self.text.count + self.row.count * 32

    def at(self, number):
        return cython.cast(cython.pointer(TextRow), self.row.items) + number

    def number_of(self, text, size, kind):
        """The number of a text of a kind, which is added if it is not there; -1: no memory."""
        table: cython.pointer(HashTable) = cython.address(self.table)
        hash: cython.ulonglong = mix_bytes(text, size, self.seed) ^ kind
        slot: cython.ulonglong
        number: cython.Py_ssize_t
        row: cython.pointer(TextRow)
        if is_crowded(table):
            if not make_slots(table, 4 * self.row.count):
                return -1
            for number in range(self.row.count):
                put_item(table, self.at(number).hash, number)
        slot = first_slot(table, hash)
        while table.slots[slot]:
            row = self.at(table.slots[slot] - 1)
            if row.hash == hash and row.size == size and memcmp(self.text.items + row.start, text, size) == 0:
                return table.slots[slot] - 1
            slot = next_slot(table, slot)
        number = self.row.count
        if number >= MOST_TEXTS:
            return -1
        row = cython.cast(cython.pointer(TextRow), push(cython.address(self.row), cython.sizeof(TextRow)))
        if row == cython.NULL:
            return -1
        row.hash, row.start, row.size = hash, self.text.count, cython.cast(cython.uint, size)
        if size and not push_bytes(cython.address(self.text), text, size):
            self.row.count -= 1
            return -1
        fill_slot(table, slot, number)
        return number
