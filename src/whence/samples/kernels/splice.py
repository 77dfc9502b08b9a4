"""Protocol buffers, written: a message again with other lines in its locations, and tables as repeated messages.

Nothing here knows pprof or OTLP: `wire` names the fields, and says how much room `out` needs. Faults: fields.pxd.
"""

import cython
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.samples.kernels.fields import (
    LENGTH,
    NO_ROOM,
    VARINT,
    Field,
    put_varint,
    read_field,
    varint_size,
)

LARGEST_FIELD = cython.declare(cython.uint, (1 << 29) - 1)


@cython.ccall
def splice_room(
    size: cython.Py_ssize_t, locations: cython.Py_ssize_t, lines: cython.Py_ssize_t, mappings: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """At most how many bytes `splice` writes for a message of `size` bytes: tags have 5 bytes, numbers 10."""
    return size + 24 * locations + 48 * lines + 48 * mappings + 16


def splice(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    new,
    out: Column,
) -> tuple[int, int, int]:
    """Copy the message data[start:stop], giving its locations new lines and its mappings new flags.

    `new` is wire.NewNames. Location i (the i-th field `new.location`) with first[i] < first[i + 1] loses its lines
    (field `new.line`) and gets one for each of functions/lines[first[i]:first[i + 1]]; others are copied as they lie.
    Mapping j (field `new.mapping`, 0: there are none) gets a true field `new.flag` + k for each set bit k of flags[j].
    Everything else is copied as it lies. It goes into `out`, a column of bytes that has none yet. MemoryError.
    """
    location_number: cython.uint = new.location
    line_number: cython.uint = new.line
    function_tag: cython.uint = new.line_function << 3 | VARINT
    source_line_tag: cython.uint = new.line_line << 3 | VARINT
    mapping_number: cython.uint = new.mapping
    flag_number: cython.uint = new.flag
    first: cython.const[cython.ulonglong][::1] = new.first
    functions: cython.const[cython.ulonglong][::1] = new.functions
    lines: cython.const[cython.ulonglong][::1] = new.lines
    flags: cython.const[cython.uchar][::1] = new.flags
    field: Field
    inner: Field
    offset: cython.Py_ssize_t = start
    to: cython.Py_ssize_t = 0
    kept: cython.Py_ssize_t
    size: cython.Py_ssize_t
    pending: cython.Py_ssize_t = start  # what was passed over and not yet copied
    location: cython.Py_ssize_t = -1
    mapping: cython.Py_ssize_t = -1
    inside: cython.Py_ssize_t
    k: cython.ulonglong
    bit: cython.int
    extra: cython.ulonglong
    field.fault = 0
    inner.fault = 0
    if data.shape[0] == 0 or start >= stop or first.shape[0] == 0:
        return 0, 0, 0
    if (
        start < 0
        or stop > data.shape[0]
        or functions.shape[0] != lines.shape[0]
        or max(location_number, line_number, mapping_number, flag_number + 3) > LARGEST_FIELD
    ):
        return 0, NO_ROOM, 0
    for k in range(first.shape[0] - 1):
        if first[k] > first[k + 1]:
            return 0, NO_ROOM, 0
    if first[first.shape[0] - 1] > cython.cast(cython.ulonglong, lines.shape[0]):
        return 0, NO_ROOM, 0
    if not out.takes(1) or out.vector.count:
        return 0, NO_ROOM, 0
    if not out.reserve(splice_room(stop - start, first.shape[0], lines.shape[0], flags.shape[0])):
        raise MemoryError
    base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(data[0]))
    target: cython.p_uchar = cython.cast(cython.p_uchar, out.vector.items)
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        while offset < stop:
            handle_signals(cython.address(work), 4)
            read_field(base, offset, stop, cython.address(field))
            if field.fault:
                break
            if field.number == location_number and field.wire == LENGTH:
                location += 1
                if location + 1 < first.shape[0] and first[location] < first[location + 1]:
                    memcpy(target + to, base + pending, offset - pending)
                    to += offset - pending
                    size = 0
                    inside = field.start
                    while inside < field.end:
                        read_field(base, inside, field.end, cython.address(inner))
                        if inner.fault:
                            break
                        if inner.number != line_number:
                            size += inner.end - inside
                        inside = inner.end
                    if inner.fault:
                        field.fault = inner.fault
                        offset = inside
                        break
                    for k in range(first[location], first[location + 1]):
                        kept = varint_size(function_tag) + varint_size(functions[k])
                        if lines[k]:
                            kept += varint_size(source_line_tag) + varint_size(lines[k])
                        size += varint_size(line_number << 3) + varint_size(kept) + kept
                    to = put_varint(target, to, location_number << 3 | LENGTH)
                    to = put_varint(target, to, size)
                    inside = field.start
                    while inside < field.end:
                        read_field(base, inside, field.end, cython.address(inner))
                        if inner.number != line_number:
                            memcpy(target + to, base + inside, inner.end - inside)
                            to += inner.end - inside
                        inside = inner.end
                    for k in range(first[location], first[location + 1]):
                        kept = varint_size(function_tag) + varint_size(functions[k])
                        if lines[k]:
                            kept += varint_size(source_line_tag) + varint_size(lines[k])
                        to = put_varint(target, to, line_number << 3 | LENGTH)
                        to = put_varint(target, to, kept)
                        to = put_varint(target, to, function_tag)
                        to = put_varint(target, to, functions[k])
                        if lines[k]:
                            to = put_varint(target, to, source_line_tag)
                            to = put_varint(target, to, lines[k])
                    pending = field.end
            elif field.number == mapping_number and field.wire == LENGTH:
                mapping += 1
                if mapping < flags.shape[0] and flags[mapping]:
                    memcpy(target + to, base + pending, offset - pending)
                    to += offset - pending
                    extra = 0
                    for bit in range(4):
                        if (flags[mapping] >> bit) & 1:
                            extra += varint_size((flag_number + bit) << 3) + 1
                    to = put_varint(target, to, mapping_number << 3 | LENGTH)
                    to = put_varint(target, to, field.end - field.start + extra)
                    memcpy(target + to, base + field.start, field.end - field.start)
                    to += field.end - field.start
                    for bit in range(4):
                        if (flags[mapping] >> bit) & 1:
                            to = put_varint(target, to, (flag_number + bit) << 3 | VARINT)
                            to = put_varint(target, to, 1)
                    pending = field.end
            offset = field.end
        if not field.fault:
            memcpy(target + to, base + pending, stop - pending)
            to += stop - pending
            out.vector.count = to
    return to, field.fault, offset


def emit(
    rows: cython.const[cython.ulonglong][::1],
    width: cython.Py_ssize_t,
    number: cython.ulonglong,
    out: cython.uchar[::1],
) -> tuple[int, int, int]:
    """Write a message in field `number` for each row: its values are varint fields 1 to `width`, zeros are left out.

    `out` has room for 24 + 12 * width bytes a row.
    """
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    size: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t
    if width <= 0 or rows.shape[0] == 0:
        return 0, 0, 0
    count = rows.shape[0] // width
    if out.shape[0] < count * (24 + 12 * width):
        return 0, NO_ROOM, 0
    target: cython.p_uchar = cython.address(out[0])
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(count):
            handle_signals(cython.address(work), 4)
            size = 0
            for k in range(width):
                if rows[i * width + k]:
                    size += varint_size((k + 1) << 3) + varint_size(rows[i * width + k])
            to = put_varint(target, to, number << 3 | LENGTH)
            to = put_varint(target, to, size)
            for k in range(width):
                if rows[i * width + k]:
                    to = put_varint(target, to, (k + 1) << 3)
                    to = put_varint(target, to, rows[i * width + k])
    return to, 0, 0
