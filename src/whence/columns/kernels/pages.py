"""Columns of names as Parquet stores them: a dictionary for each column of a row group, and pages of numbers in it.

    data page         repetition levels │ definition levels │ width  │ a number for each value
                      length, runs        length, runs        1 byte   runs
    dictionary page   each text behind its length, or each number, in 32 bits

A run is one number some times, or groups of eight numbers packed bit by bit:

    0a 03           5 times (0a >> 1) the number 3
    03 88 c6 fa     a group (03 >> 1) of 0, 1, 2, 3, 4, 5, 6, 7 in three bits each

Levels say what of a row is there ("Nested Encoding"): of a column, 1 for a value and 0 for null; of a field of lists of
structs, 4 for a value, 3 for null, 2 for null in the struct's place, 1 for an empty list, 0 for null in a list's.

Documents: README.md and Encodings.md of apache/parquet-format.
"""

import os

import cython
from cython.cimports.libc.stdint import int8_t, int32_t, int64_t
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.whence.columns.kernels.arrow import ArrowArray, ArrowSchema
from cython.cimports.whence.columns.kernels.batch import RecordBatch, is_valid
from cython.cimports.whence.columns.kernels.texts import TextRow, TextSet
from cython.cimports.whence.kernels.bytes import LONGEST_ULEB, put_uleb
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.hashtable import (
    fill_slot,
    first_slot,
    is_crowded,
    make_slots,
    mix,
    next_slot,
    put_item,
    release_slots,
)
from cython.cimports.whence.kernels.vector import Bytes, push_bytes, push_u32, release, reserve

GROUP = cython.declare(cython.Py_ssize_t, 8)  # numbers that are packed together
UNKNOWN = cython.declare(cython.uint, 0xFFFFFFFF)
LARGEST = cython.declare(cython.Py_ssize_t, 0x7FFFFFFF)
# Definition levels of a field of a list of structs
cython.declare(NULL_LIST=cython.uint, EMPTY_LIST=cython.uint, NULL_STRUCT=cython.uint, NULL_FIELD=cython.uint)
cython.declare(VALUE=cython.uint)
NULL_LIST, EMPTY_LIST, NULL_STRUCT, NULL_FIELD, VALUE = 0, 1, 2, 3, 4
# Bits of a level
cython.declare(FLAT_BITS=cython.int, LIST_BITS=cython.int, REPETITION_BITS=cython.int)
FLAT_BITS, LIST_BITS, REPETITION_BITS = 1, 3, 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def push_uleb(out: cython.pointer(Bytes), number: cython.ulonglong) -> cython.bint:
    """Append a ULEB128. False: no memory."""
    if not reserve(out, LONGEST_ULEB, 1):
        return False
    out.count = put_uleb(out.items + out.count, number) - out.items
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def push_run(
    out: cython.pointer(Bytes), number: cython.uint, count: cython.Py_ssize_t, width: cython.int
) -> cython.bint:
    """Append one number, `count` times. False: no memory."""
    return push_uleb(out, cython.cast(cython.ulonglong, count) << 1) and push_bytes(
        out, cython.address(number), (width + 7) >> 3
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def push_packed(
    out: cython.pointer(Bytes), numbers: cython.p_uint, count: cython.Py_ssize_t, width: cython.int
) -> cython.bint:
    """Append numbers of `width` bits, the lowest bit first, and zeros to the end of a byte. False: no memory."""
    at: cython.Py_ssize_t
    waiting: cython.ulonglong = 0
    bits: cython.int = 0
    word: cython.uint
    end: cython.p_uchar
    if not reserve(out, ((count * width) >> 3) + 8, 1):
        return False
    end = out.items + out.count
    for at in range(count):
        waiting |= cython.cast(cython.ulonglong, numbers[at]) << bits
        bits += width
        if bits >= 32:
            word = cython.cast(cython.uint, waiting)
            memcpy(end, cython.address(word), 4)
            end += 4
            waiting >>= 32
            bits -= 32
    while bits > 0:
        end[0] = cython.cast(cython.uchar, waiting)
        end += 1
        waiting >>= 8
        bits -= 8
    out.count = end - out.items
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def push_groups(
    out: cython.pointer(Bytes), numbers: cython.p_uint, count: cython.Py_ssize_t, width: cython.int
) -> cython.bint:
    """Append numbers as groups of eight, the last of which may be short at the end of all. False: no memory."""
    groups: cython.ulonglong = (count + GROUP - 1) // GROUP
    zeros: cython.uchar[32]  # as many bytes as the widest group takes
    if count == 0:
        return True
    memset(zeros, 0, 32)
    return (
        push_uleb(out, groups << 1 | 1)
        and push_packed(out, numbers, count, width)
        and push_bytes(out, zeros, cython.cast(cython.Py_ssize_t, groups) * width - ((count * width + 7) >> 3))
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def push_runs(
    out: cython.pointer(Bytes), numbers: cython.p_uint, count: cython.Py_ssize_t, width: cython.int
) -> cython.bint:
    """Append numbers in runs: groups that are one number and what follows of it, others packed. False: no memory."""
    at: cython.Py_ssize_t = 0
    begin: cython.Py_ssize_t = 0  # of those that wait to be packed, groups all of them
    end: cython.Py_ssize_t
    while count - at >= GROUP:
        end = at + 1
        while end < at + GROUP and numbers[end] == numbers[at]:
            end += 1
        if end < at + GROUP:
            at += GROUP
            continue
        while end < count and numbers[end] == numbers[at]:
            end += 1
        if not (push_groups(out, numbers + begin, at - begin, width) and push_run(out, numbers[at], end - at, width)):
            return False
        begin = at = end
    return push_groups(out, numbers + begin, count - begin, width)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def width_of(count: cython.Py_ssize_t) -> cython.int:
    """The bits of numbers below `count`: one at least."""
    width: cython.int = 1
    while (cython.cast(cython.ulonglong, count) - 1) >> width and count:
        width += 1
    return width


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def has_nulls(array: cython.pointer(ArrowArray)) -> cython.bint:
    return array.n_buffers > 0 and array.buffers[0] != cython.NULL and array.null_count != 0


@cython.final
@cython.cclass
class ColumnPages:
    """The pages of one column of a row group: a batch becomes a page, and its new values come into the dictionary."""

    def __cinit__(self):
        self.seed = int.from_bytes(os.urandom(8), "little")
        self.texts = TextSet()
        if not make_slots(cython.address(self.table), 0):
            raise MemoryError

    def __dealloc__(self):
        release_slots(cython.address(self.table))
        release(cython.address(self.value))
        release(cython.address(self.repetition))
        release(cython.address(self.definition))
        release(cython.address(self.place))
        release(cython.address(self.number))
        release(cython.address(self.known))
        release(cython.address(self.out))

    def __len__(self):
        """How many values the dictionary has."""
        return len(self.texts) + self.value.count

    def __repr__(self):
        return f"<ColumnPages: {len(self)} different values>"

    def dictionary(self):
        """The dictionary page, bytes. MemoryError."""
        at: cython.Py_ssize_t
        row: cython.pointer(TextRow)
        self.out.count = 0
        done: cython.bint = push_bytes(cython.address(self.out), self.value.items, 4 * self.value.count)
        for at in range(len(self.texts)):
            row = self.texts.at(at)
            done = done and push_bytes(cython.address(self.out), cython.address(row.size), 4)
            done = done and push_bytes(cython.address(self.out), self.texts.text.items + row.start, row.size)
        if not done:
            raise MemoryError
        return self._written()

    @cython.cfunc
    def _written(self) -> bytes:
        return cython.cast(cython.p_char, self.out.items)[: self.out.count] if self.out.count else b""

    def add(self, batch: RecordBatch, column: cython.Py_ssize_t, field: cython.Py_ssize_t):
        """A data page of a batch's column, bytes, and how many levels it has.

        The column is of texts in a dictionary, of numbers of 32 bits, or of truths (`field` is 0 then); or of lists of
        structs, and `field` is such a column. ValueError for others; MemoryError.
        """
        rows: int64_t = batch.shared.array.length
        belong(batch.shared.array.release != cython.NULL and rows <= LARGEST)
        belong(0 <= column < batch.shared.array.n_children)
        schema: cython.pointer(ArrowSchema) = batch.shared.schema.children[column]
        array: cython.pointer(ArrowArray) = batch.shared.array.children[column]
        first: int64_t = array.offset + batch.shared.array.offset
        levels: int64_t = rows
        done: cython.bint
        self.repetition.count = self.definition.count = self.place.count = self.number.count = self.out.count = 0
        if cython.cast(bytes, schema.format) == b"+l":
            belong(cython.cast(bytes, schema.children[0].format) == b"+s")
            belong(0 <= field < schema.children[0].n_children)
            done = self._read_lists(array, first, rows, field)
            levels = self.definition.count
            done = done and self._push_levels(self.repetition.items, levels, REPETITION_BITS)
            done = done and self._push_levels(self.definition.items, levels, LIST_BITS)
            schema, array = schema.children[0].children[field], array.children[0].children[field]
        else:
            belong(field == 0)
            done = self._read_rows(array, first, rows)
            done = done and self._push_levels(cython.NULL if self.dense else self.definition.items, levels, FLAT_BITS)
        if not done or not reserve(cython.address(self.number), self.values, 4):
            raise MemoryError
        self._push_values(schema, array)
        return self._written(), levels

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _read_rows(self, array: cython.pointer(ArrowArray), first: int64_t, rows: int64_t) -> cython.bint:
        """Find the levels and the values of a column. False: no memory."""
        row: int64_t
        valid: cython.uint
        self.dense = not has_nulls(array)
        if self.dense:
            self.first, self.values = first, rows
            return True
        if not (reserve(cython.address(self.definition), rows, 4) and reserve(cython.address(self.place), rows, 4)):
            return False
        for row in range(rows):
            valid = is_valid(array, first + row)
            self.definition.items[row] = valid  # 1 for a value, 0 for null
            self.place.items[self.place.count] = cython.cast(cython.uint, first + row)
            self.place.count += valid
        self.values = self.place.count
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _read_lists(
        self, array: cython.pointer(ArrowArray), first: int64_t, rows: int64_t, field: cython.Py_ssize_t
    ) -> cython.bint:
        """Find the levels and the values of a field of lists of structs. False: no memory."""
        row: int64_t
        at: int64_t
        end: int64_t
        level: cython.uint
        structs: cython.pointer(ArrowArray) = array.children[0]
        values: cython.pointer(ArrowArray) = structs.children[field]
        starts = cython.cast(cython.pointer(int32_t), cython.cast(cython.p_void, array.buffers[1])) + first
        most: int64_t = rows + (starts[rows] - starts[0] if rows else 0)
        if not (
            reserve(cython.address(self.repetition), most, 4)
            and reserve(cython.address(self.definition), most, 4)
            and reserve(cython.address(self.place), most, 4)
        ):
            return False
        for row in range(rows):
            at, end = starts[row], starts[row + 1]
            level = NULL_LIST
            if is_valid(array, first + row):
                level = EMPTY_LIST
            else:
                end = at
            if at >= end:
                self._add_level(0, level)
            for at in range(at, end):
                level = NULL_STRUCT
                if is_valid(structs, structs.offset + at):
                    level = NULL_FIELD
                    if is_valid(values, values.offset + structs.offset + at):
                        level = VALUE
                        self.place.items[self.place.count] = cython.cast(
                            cython.uint, values.offset + structs.offset + at
                        )
                        self.place.count += 1
                self._add_level(at > starts[row], level)
        self.dense = False
        self.values = self.place.count
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _row(self, value: cython.Py_ssize_t) -> int64_t:
        """Where a value lies in the column's buffers."""
        return self.first + value if self.dense else self.place.items[value]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _add_level(self, repetition: cython.uint, definition: cython.uint) -> cython.void:
        """There is room for it."""
        self.repetition.items[self.repetition.count] = repetition
        self.definition.items[self.definition.count] = definition
        self.repetition.count += 1
        self.definition.count += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _push_levels(self, levels: cython.p_uint, count: cython.Py_ssize_t, width: cython.int) -> cython.bint:
        """Append levels in runs, behind the length of these; without `levels` each is 1. False: no memory."""
        start: cython.Py_ssize_t = self.out.count
        length: cython.uint = 0
        done: cython.bint = push_bytes(cython.address(self.out), cython.address(length), 4)
        if levels == cython.NULL:
            done = done and push_run(cython.address(self.out), 1, count, width)
        else:
            done = done and push_runs(cython.address(self.out), levels, count, width)
        if not done:
            return False
        length = cython.cast(cython.uint, self.out.count - start - 4)
        memcpy(self.out.items + start, cython.address(length), 4)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _push_values(self, schema: cython.pointer(ArrowSchema), array: cython.pointer(ArrowArray)) -> cython.int:
        """Append the values that were found: truths a bit each, others as their numbers in the dictionary."""
        format: bytes = cython.cast(bytes, schema.format)
        done: cython.bint
        width: cython.uchar
        if schema.dictionary != cython.NULL:
            belong(format in (b"i", b"c") and cython.cast(bytes, schema.dictionary.format) == b"u")
            belong(not has_nulls(array.dictionary))
            with cython.nogil:
                done = self._number_texts(array, format[0] == ord("i"))
            belong(self.number.count == self.values)
        elif format == b"I":
            with cython.nogil:
                done = self._number_values(cython.cast(cython.p_uint, cython.cast(cython.p_void, array.buffers[1])))
        else:
            belong(format == b"b")
            with cython.nogil:
                self._read_truths(cython.cast(cython.p_uchar, cython.cast(cython.p_void, array.buffers[1])))
                done = push_packed(cython.address(self.out), self.number.items, self.number.count, 1)
        if done and format != b"b":
            width = width_of(len(self))
            with cython.nogil:
                done = push_bytes(cython.address(self.out), cython.address(width), 1) and push_runs(
                    cython.address(self.out), self.number.items, self.number.count, width
                )
        if not done:
            raise MemoryError
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _number_texts(self, array: cython.pointer(ArrowArray), wide: cython.bint) -> cython.bint:
        """Number texts by those of the batch's dictionary; fewer than there are where an index is none of its. False:
        no memory."""
        at: cython.Py_ssize_t
        index: int64_t
        number: cython.Py_ssize_t
        texts: cython.pointer(ArrowArray) = array.dictionary
        offsets = cython.cast(cython.pointer(int32_t), cython.cast(cython.p_void, texts.buffers[1])) + texts.offset
        data = cython.cast(cython.p_uchar, cython.cast(cython.p_void, texts.buffers[2]))
        indices = cython.cast(cython.p_void, array.buffers[1])
        self.known.count = 0
        if not reserve(cython.address(self.known), texts.length, 4):
            return False
        memset(self.known.items, 0xFF, 4 * texts.length)
        for at in range(self.values):
            if wide:
                index = cython.cast(cython.pointer(int32_t), indices)[self._row(at)]
            else:
                index = cython.cast(cython.pointer(int8_t), indices)[self._row(at)]
            if not 0 <= index < texts.length:
                return True
            if self.known.items[index] == UNKNOWN:
                number = self.texts.number_of(data + offsets[index], offsets[index + 1] - offsets[index], 0)
                if number < 0:
                    return False
                self.known.items[index] = cython.cast(cython.uint, number)
            self.number.items[at] = self.known.items[index]
            self.number.count = at + 1
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _number_values(self, values: cython.p_uint) -> cython.bint:
        """Number numbers. False: no memory."""
        at: cython.Py_ssize_t
        known: cython.Py_ssize_t
        slot: cython.ulonglong
        value: cython.uint
        for at in range(self.values):
            value = values[self._row(at)]
            if is_crowded(cython.address(self.table)):
                if not make_slots(cython.address(self.table), 4 * self.value.count):
                    return False
                for known in range(self.value.count):
                    put_item(cython.address(self.table), mix(self.value.items[known], self.seed), known)
            slot = first_slot(cython.address(self.table), mix(value, self.seed))
            while self.table.slots[slot] and self.value.items[self.table.slots[slot] - 1] != value:
                slot = next_slot(cython.address(self.table), slot)
            if self.table.slots[slot] == 0:
                if not push_u32(cython.address(self.value), value):
                    return False
                fill_slot(cython.address(self.table), slot, self.value.count - 1)
            self.number.items[at] = self.table.slots[slot] - 1
        self.number.count = self.values
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _read_truths(self, bits: cython.p_uchar) -> cython.void:
        at: cython.Py_ssize_t
        row: int64_t
        for at in range(self.values):
            row = self._row(at)
            self.number.items[at] = bits[row >> 3] >> (row & 7) & 1
        self.number.count = self.values
