"""Samples as pprof has them: protocol buffers written from columns."""

import cython
from cython.cimports.cpython.bytes import PyBytes_AsString
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.kernels.bytes import put_uleb
from cython.cimports.whence.kernels.checks import are_inside, belong
from cython.cimports.whence.kernels.columns import Column, u8s
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.samples.kernels.fields import LENGTH, varint_size


def texts(tag: bytes, values: list) -> Column:
    """Each text as a field: its tag, its length, its bytes. What is no UTF-8 is kept. ValueError, MemoryError."""
    out: Column = Column("B")
    key: cython.p_char = tag
    key_size: cython.Py_ssize_t = len(tag)
    to: cython.p_uchar
    raw: cython.pointer(cython.const[cython.char])
    size: cython.Py_ssize_t = 0
    kept: bytes
    for value in values:
        belong(isinstance(value, str))
        raw = PyUnicode_AsUTF8AndSize(value, cython.address(size)) if value.isascii() else cython.NULL
        if raw == cython.NULL:
            kept = value.encode("utf-8", "surrogateescape")
            raw = PyBytes_AsString(kept)
            size = len(kept)
        if not out.reserve(key_size + 10 + size):
            raise MemoryError
        to = u8s(out) + out.vector.count
        memcpy(to, key, key_size)
        to = put_uleb(to + key_size, size)
        memcpy(to, raw, size)
        out.vector.count = to + size - u8s(out)
    return out


def samples(
    first: cython.const[cython.ulonglong][::1],
    stack: cython.const[cython.uint][::1],
    of: cython.const[cython.uint][::1],
    values: cython.const[cython.longlong][::1],
    labels: tuple,
    fields: tuple,
) -> Column:
    """A message of each sample, with its key and length, one behind the other.

    `values` has those of the first type, then those of the second, and so on. `labels` are which set each sample has,
    where each set of encoded labels begins (and the last one ends), and their bytes. `fields` are the numbers of the
    sample in the profile, and of locations and values in the sample, and how many locations there are, which are
    numbered from 1. ValueError for columns that do not belong together, MemoryError.
    """
    belong(len(labels) == 3 and len(fields) == 4)
    label_set: cython.const[cython.uint][::1] = labels[0]
    label_first: cython.const[cython.ulonglong][::1] = labels[1]
    label_bytes: cython.const[cython.uchar][::1] = labels[2]
    sample_key: cython.ulonglong = fields[0] << 3 | LENGTH
    location_key: cython.ulonglong = fields[1] << 3 | LENGTH
    value_key: cython.ulonglong = fields[2] << 3 | LENGTH
    most: cython.ulonglong = fields[3]
    count: cython.Py_ssize_t = of.shape[0]
    kinds: cython.Py_ssize_t = values.shape[0] // count if count else 0
    out: Column = Column("B")
    row: cython.Py_ssize_t
    kind: cython.Py_ssize_t
    at: cython.ulonglong
    places: cython.Py_ssize_t
    numbers: cython.Py_ssize_t
    inside: cython.Py_ssize_t
    to: cython.p_uchar
    begin: cython.ulonglong
    end: cython.ulonglong
    good: cython.bint = True
    belong(
        values.shape[0] == kinds * count
        and label_set.shape[0] == count
        and are_inside(first, first, stack.shape[0])
        and are_inside(label_first, label_first, label_bytes.shape[0])
    )
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for row in range(count):
            handle_signals(cython.address(work), 8)
            if of[row] + cython.cast(cython.ulonglong, 1) >= cython.cast(cython.ulonglong, first.shape[0]) or label_set[
                row
            ] + cython.cast(cython.ulonglong, 1) >= cython.cast(cython.ulonglong, label_first.shape[0]):
                good = False
                break
            begin = first[of[row]]
            end = first[of[row] + 1]
            places = numbers = 0
            for at in range(begin, end):
                good = good and stack[at] < most
                places += varint_size(stack[at] + cython.cast(cython.ulonglong, 1))
            for kind in range(kinds):
                numbers += varint_size(cython.cast(cython.ulonglong, values[kind * count + row]))
            inside = 0
            if kinds:
                inside = varint_size(value_key) + varint_size(numbers) + numbers
            if begin < end:
                inside += varint_size(location_key) + varint_size(places) + places
            if label_first[label_set[row]] < label_first[label_set[row] + 1]:
                inside += label_first[label_set[row] + 1] - label_first[label_set[row]]
            if not good or not out.reserve(inside + 20):
                good = False
                break
            to = u8s(out) + out.vector.count
            to = put_uleb(put_uleb(to, sample_key), inside)
            if begin < end:
                to = put_uleb(put_uleb(to, location_key), places)
                for at in range(begin, end):
                    to = put_uleb(to, stack[at] + cython.cast(cython.ulonglong, 1))
            if kinds:
                to = put_uleb(put_uleb(to, value_key), numbers)
            for kind in range(kinds):
                to = put_uleb(to, cython.cast(cython.ulonglong, values[kind * count + row]))
            for at in range(label_first[label_set[row]], label_first[label_set[row] + 1]):
                to[0] = label_bytes[at]
                to += 1
            out.vector.count = to - u8s(out)
    belong(good)
    return out


def locations(
    mapping: cython.const[cython.longlong][::1],
    address: cython.const[cython.ulonglong][::1],
    first: cython.const[cython.ulonglong][::1],
    function: cython.const[cython.ulonglong][::1],
    line: cython.const[cython.ulonglong][::1],
    fields: tuple,
) -> Column:
    """A message of each location, with its key and length, one behind the other; they are numbered from 1.

    `mapping` has the number of its mapping, which count from 0, or -1; first[i:i + 2] which of the rows of `function`
    and `line` are location i's. Zeros are not written. `fields` are the numbers of the location in the profile, of its
    id, mapping, address and lines, and of the function and line in a line. ValueError for columns that do not belong
    together, MemoryError.
    """
    belong(len(fields) == 7)
    key: cython.ulonglong = fields[0] << 3 | LENGTH
    id_key: cython.ulonglong = fields[1] << 3
    mapping_key: cython.ulonglong = fields[2] << 3
    address_key: cython.ulonglong = fields[3] << 3
    lines_key: cython.ulonglong = fields[4] << 3 | LENGTH
    function_key: cython.ulonglong = fields[5] << 3
    line_key: cython.ulonglong = fields[6] << 3
    out: Column = Column("B")
    row: cython.Py_ssize_t
    at: cython.ulonglong
    inside: cython.Py_ssize_t
    within: cython.Py_ssize_t
    to: cython.p_uchar
    good: cython.bint = True
    belong(
        mapping.shape[0] == address.shape[0]
        and first.shape[0] == address.shape[0] + 1
        and function.shape[0] == line.shape[0]
        and are_inside(first, first, line.shape[0])
    )
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for row in range(address.shape[0]):
            handle_signals(cython.address(work), 16)
            inside = field_size(id_key, row + 1) + field_size(mapping_key, mapping[row] + 1)
            inside += field_size(address_key, address[row])
            for at in range(first[row], first[row + 1]):
                within = field_size(function_key, function[at]) + field_size(line_key, line[at])
                inside += varint_size(lines_key) + varint_size(within) + within
            if not out.reserve(inside + 20):
                good = False
                break
            to = u8s(out) + out.vector.count
            to = put_uleb(put_uleb(to, key), inside)
            to = put_field(put_field(to, id_key, row + 1), mapping_key, mapping[row] + 1)
            to = put_field(to, address_key, address[row])
            for at in range(first[row], first[row + 1]):
                within = field_size(function_key, function[at]) + field_size(line_key, line[at])
                to = put_uleb(put_uleb(to, lines_key), within)
                to = put_field(put_field(to, function_key, function[at]), line_key, line[at])
            out.vector.count = to - u8s(out)
    if not good:
        raise MemoryError
    return out


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def field_size(key: cython.ulonglong, value: cython.ulonglong) -> cython.Py_ssize_t:
    """How many bytes a number and its key have; a number of 0 is not written."""
    return varint_size(key) + varint_size(value) if value else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put_field(at: cython.p_uchar, key: cython.ulonglong, value: cython.ulonglong) -> cython.p_uchar:
    return put_uleb(put_uleb(at, key), value) if value else at
