"""Samples as pprof has them: protocol buffers written from columns."""

import cython
from cython.cimports.whence.kernels.checks import are_inside, belong
from cython.cimports.whence.kernels.columns import Column

MORE = cython.declare(cython.ulonglong, 0x80)  # of a varint: another byte follows
LENGTH = cython.declare(cython.uint, 2)  # the wire type of what has a length


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def size_of(value: cython.ulonglong) -> cython.Py_ssize_t:
    """How many bytes a varint has."""
    size: cython.Py_ssize_t = 1
    while value >= MORE:
        value >>= 7
        size += 1
    return size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put(at: cython.p_uchar, value: cython.ulonglong) -> cython.p_uchar:
    while value >= MORE:
        at[0] = cython.cast(cython.uchar, value & 0x7F | MORE)
        value >>= 7
        at += 1
    at[0] = cython.cast(cython.uchar, value)
    return at + 1


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
    numbered from 1. ValueError for
    columns that do not belong together, MemoryError.
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
    with cython.nogil:
        for row in range(count):
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
                places += size_of(stack[at] + cython.cast(cython.ulonglong, 1))
            for kind in range(kinds):
                numbers += size_of(cython.cast(cython.ulonglong, values[kind * count + row]))
            inside = 0
            if kinds:
                inside = size_of(value_key) + size_of(numbers) + numbers
            if begin < end:
                inside += size_of(location_key) + size_of(places) + places
            if label_first[label_set[row]] < label_first[label_set[row] + 1]:
                inside += label_first[label_set[row] + 1] - label_first[label_set[row]]
            if not good or not out.reserve(inside + 20):
                good = False
                break
            to = cython.cast(cython.p_uchar, out.vector.items) + out.vector.count
            to = put(put(to, sample_key), inside)
            if begin < end:
                to = put(put(to, location_key), places)
                for at in range(begin, end):
                    to = put(to, stack[at] + cython.cast(cython.ulonglong, 1))
            if kinds:
                to = put(put(to, value_key), numbers)
            for kind in range(kinds):
                to = put(to, cython.cast(cython.ulonglong, values[kind * count + row]))
            for at in range(label_first[label_set[row]], label_first[label_set[row] + 1]):
                to[0] = label_bytes[at]
                to += 1
            out.vector.count = to - cython.cast(cython.p_uchar, out.vector.items)
    belong(good)
    return out
