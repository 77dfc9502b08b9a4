"""Encode columns as protocol buffers of pprof."""

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
    """Encode each text as a field: tag, length, bytes. Escaped bytes that are not UTF-8 are restored."""
    out: Column = Column("B")
    key: cython.p_char = tag
    key_size: cython.Py_ssize_t = len(tag)
    size: cython.Py_ssize_t = 0
    for value in values:
        belong(isinstance(value, str))
        raw: cython.pointer(cython.const[cython.char]) = (
            PyUnicode_AsUTF8AndSize(value, cython.address(size)) if value.isascii() else cython.NULL
        )
        if raw == cython.NULL:
            encoded: bytes = value.encode("utf-8", "surrogateescape")
            raw = PyBytes_AsString(encoded)
            size = len(encoded)
        if not out.reserve(key_size + 10 + size):
            raise MemoryError
        cursor: cython.p_uchar = u8s(out) + out.vector.count
        memcpy(cursor, key, key_size)
        cursor = put_uleb(cursor + key_size, size)
        memcpy(cursor, raw, size)
        out.vector.count = cursor + size - u8s(out)
    return out


def samples(
    first: cython.const[cython.ulonglong][::1],
    stack: cython.const[cython.uint][::1],
    of: cython.const[cython.uint][::1],
    values: cython.const[cython.longlong][::1],
    labels: tuple,
    fields: tuple,
) -> Column:
    """Encode each sample as a message with key and length.

    `values` has the values of the first type, then of the second, and so on. `labels` are the label set of each sample,
    the offset of each encoded set (one more at the end), and their bytes. `fields` are the field numbers of the sample
    in the profile, and of locations and values in the sample, and the number of locations; their ids are 1, 2 ...
    Raises ValueError for inconsistent columns.
    """
    belong(len(labels) == 3 and len(fields) == 4)
    label_set: cython.const[cython.uint][::1] = labels[0]
    label_first: cython.const[cython.ulonglong][::1] = labels[1]
    label_bytes: cython.const[cython.uchar][::1] = labels[2]
    sample_key: cython.ulonglong = fields[0] << 3 | LENGTH
    location_key: cython.ulonglong = fields[1] << 3 | LENGTH
    value_key: cython.ulonglong = fields[2] << 3 | LENGTH
    location_count: cython.ulonglong = fields[3]
    count: cython.Py_ssize_t = of.shape[0]
    kinds: cython.Py_ssize_t = values.shape[0] // count if count else 0
    out: Column = Column("B")
    row: cython.Py_ssize_t
    kind: cython.Py_ssize_t
    item: cython.ulonglong
    ids_size: cython.Py_ssize_t
    values_size: cython.Py_ssize_t
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
            begin: cython.ulonglong = first[of[row]]
            end: cython.ulonglong = first[of[row] + 1]
            ids_size = values_size = 0
            for item in range(begin, end):
                good = good and stack[item] < location_count
                ids_size += varint_size(stack[item] + cython.cast(cython.ulonglong, 1))
            for kind in range(kinds):
                values_size += varint_size(cython.cast(cython.ulonglong, values[kind * count + row]))
            size: cython.Py_ssize_t = 0
            if kinds:
                size = varint_size(value_key) + varint_size(values_size) + values_size
            if begin < end:
                size += varint_size(location_key) + varint_size(ids_size) + ids_size
            if label_first[label_set[row]] < label_first[label_set[row] + 1]:
                size += label_first[label_set[row] + 1] - label_first[label_set[row]]
            if not good or not out.reserve(size + 20):
                good = False
                break
            cursor: cython.p_uchar = u8s(out) + out.vector.count
            cursor = put_uleb(put_uleb(cursor, sample_key), size)
            if begin < end:
                cursor = put_uleb(put_uleb(cursor, location_key), ids_size)
                for item in range(begin, end):
                    cursor = put_uleb(cursor, stack[item] + cython.cast(cython.ulonglong, 1))
            if kinds:
                cursor = put_uleb(put_uleb(cursor, value_key), values_size)
            for kind in range(kinds):
                cursor = put_uleb(cursor, cython.cast(cython.ulonglong, values[kind * count + row]))
            for item in range(label_first[label_set[row]], label_first[label_set[row] + 1]):
                cursor[0] = label_bytes[item]
                cursor += 1
            out.vector.count = cursor - u8s(out)
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
    """Encode each location as a message with key and length; their ids are 1, 2 ...

    `mapping` is the index of its mapping, or -1. The rows [first[i], first[i + 1]) of `function` and `line` are of
    location i. Zeros are not written. `fields` are the field numbers of the location in the profile, of its id,
    mapping, address and lines, and of function and line in a line. Raises ValueError for inconsistent columns.
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
    item: cython.ulonglong
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
            size: cython.Py_ssize_t = field_size(id_key, row + 1) + field_size(mapping_key, mapping[row] + 1)
            size += field_size(address_key, address[row])
            for item in range(first[row], first[row + 1]):
                line_size: cython.Py_ssize_t = field_size(function_key, function[item]) + field_size(
                    line_key, line[item]
                )
                size += varint_size(lines_key) + varint_size(line_size) + line_size
            if not out.reserve(size + 20):
                good = False
                break
            cursor: cython.p_uchar = u8s(out) + out.vector.count
            cursor = put_uleb(put_uleb(cursor, key), size)
            cursor = put_field(put_field(cursor, id_key, row + 1), mapping_key, mapping[row] + 1)
            cursor = put_field(cursor, address_key, address[row])
            for item in range(first[row], first[row + 1]):
                line_size = field_size(function_key, function[item]) + field_size(line_key, line[item])
                cursor = put_uleb(put_uleb(cursor, lines_key), line_size)
                cursor = put_field(put_field(cursor, function_key, function[item]), line_key, line[item])
            out.vector.count = cursor - u8s(out)
    if not good:
        raise MemoryError
    return out


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def field_size(key: cython.ulonglong, value: cython.ulonglong) -> cython.Py_ssize_t:
    """Return the size of a number and its key; 0 is not written."""
    return varint_size(key) + varint_size(value) if value else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put_field(out: cython.p_uchar, key: cython.ulonglong, value: cython.ulonglong) -> cython.p_uchar:
    return put_uleb(put_uleb(out, key), value) if value else out
