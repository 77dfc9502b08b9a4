"""Write protocol buffers: copies of messages with other lines in locations, and tables as repeated messages.

Independent of pprof and OTLP: the caller gives the field numbers. fields.pxd lists the faults.
"""

import cython
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.kernels.columns import Column, u8s
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
FLAGS = cython.declare(cython.int, 4)  # bits of a mapping's flags

Splice = cython.struct(
    data=cython.p_const_uchar,
    target=cython.p_uchar,
    size=cython.Py_ssize_t,  # bytes of target that are written
    location=cython.uint,
    line=cython.uint,
    line_function=cython.uint,
    line_line=cython.uint,
    mapping=cython.uint,
    flag=cython.uint,
    functions=cython.p_const_ulonglong,
    lines=cython.p_const_ulonglong,
)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def copy(splice: cython.pointer[Splice], start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.void:
    """Copy data[start:end] unchanged."""
    memcpy(splice.target + splice.size, splice.data + start, end - start)
    splice.size += end - start


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put(splice: cython.pointer[Splice], value: cython.ulonglong) -> cython.void:
    """Write a varint."""
    splice.size = put_varint(splice.target, splice.size, value)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def line_size(splice: cython.pointer[Splice], row: cython.ulonglong) -> cython.Py_ssize_t:
    """Return the size of the message of a new line."""
    size: cython.Py_ssize_t = varint_size(splice.line_function << 3) + varint_size(splice.functions[row])
    if splice.lines[row]:
        size += varint_size(splice.line_line << 3) + varint_size(splice.lines[row])
    return size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_location(
    splice: cython.pointer[Splice], field: cython.pointer[Field], first: cython.ulonglong, end: cython.ulonglong
) -> cython.Py_ssize_t:
    """Write a location with the lines [first, end) instead of its own. Return its end.

    If it has an invalid field, set field.fault and return the offset of that field.
    """
    inner: Field
    row: cython.ulonglong
    size: cython.Py_ssize_t = 0
    offset: cython.Py_ssize_t = field.start
    while offset < field.end:
        read_field(splice.data, offset, field.end, cython.address(inner))
        if inner.fault:
            field.fault = inner.fault
            return offset
        if inner.number != splice.line:
            size += inner.end - offset
        offset = inner.end
    for row in range(first, end):
        size += varint_size(splice.line << 3) + varint_size(line_size(splice, row)) + line_size(splice, row)
    put(splice, splice.location << 3 | LENGTH)
    put(splice, size)
    offset = field.start
    while offset < field.end:
        read_field(splice.data, offset, field.end, cython.address(inner))
        if inner.number != splice.line:
            copy(splice, offset, inner.end)
        offset = inner.end
    for row in range(first, end):
        put(splice, splice.line << 3 | LENGTH)
        put(splice, line_size(splice, row))
        put(splice, splice.line_function << 3 | VARINT)
        put(splice, splice.functions[row])
        if splice.lines[row]:
            put(splice, splice.line_line << 3 | VARINT)
            put(splice, splice.lines[row])
    return field.end


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def put_mapping(splice: cython.pointer[Splice], field: cython.pointer[Field], flags: cython.uchar) -> cython.void:
    """Write a mapping, and a true field for each set bit of `flags` after its own."""
    bit: cython.int
    size: cython.Py_ssize_t = field.end - field.start
    for bit in range(FLAGS):
        if flags >> bit & 1:
            size += varint_size((splice.flag + bit) << 3) + 1
    put(splice, splice.mapping << 3 | LENGTH)
    put(splice, size)
    copy(splice, field.start, field.end)
    for bit in range(FLAGS):
        if flags >> bit & 1:
            put(splice, (splice.flag + bit) << 3 | VARINT)
            put(splice, 1)


@cython.ccall
def spliced_size(
    size: cython.Py_ssize_t, locations: cython.Py_ssize_t, lines: cython.Py_ssize_t, mappings: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Return the largest output of `splice` for a message of `size` bytes: tags have 5 bytes, numbers 10."""
    return size + 24 * locations + 48 * lines + 48 * mappings + 16


def splice(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    new,
    out: Column,
) -> tuple[int, int, int]:
    """Append a copy of the message data[start:stop] to `out`, with new lines of locations and new flags of mappings.

    `new` is wire.NewNames. If first[i] < first[i + 1], the lines of location i (the i-th field `new.location`) are
    replaced by functions/lines[first[i]:first[i + 1]]. Mapping j (field `new.mapping`, 0: none) gets a true field
    `new.flag` + k for each set bit k of flags[j]. All other fields are copied unchanged. `out` is an empty column of
    bytes.
    """
    first: cython.const[cython.ulonglong][::1] = new.first
    functions: cython.const[cython.ulonglong][::1] = new.functions
    lines: cython.const[cython.ulonglong][::1] = new.lines
    flags: cython.const[cython.uchar][::1] = new.flags
    state: Splice
    field: Field
    offset: cython.Py_ssize_t = start
    pending: cython.Py_ssize_t = start  # first byte that is not copied yet
    location: cython.Py_ssize_t = -1
    mapping: cython.Py_ssize_t = -1
    k: cython.ulonglong
    work: cython.Py_ssize_t = 0
    field.fault = 0
    if data.shape[0] == 0 or start >= stop or first.shape[0] == 0:
        return 0, 0, 0
    state.location, state.line, state.mapping, state.flag = new.location, new.line, new.mapping, new.flag
    state.line_function, state.line_line = new.line_function, new.line_line
    if (
        start < 0
        or stop > data.shape[0]
        or functions.shape[0] != lines.shape[0]
        or max(state.location, state.line, state.mapping, state.flag + FLAGS - 1) > LARGEST_FIELD
    ):
        return 0, NO_ROOM, 0
    for k in range(first.shape[0] - 1):
        if first[k] > first[k + 1]:
            return 0, NO_ROOM, 0
    if first[first.shape[0] - 1] > cython.cast(cython.ulonglong, lines.shape[0]):
        return 0, NO_ROOM, 0
    if not out.takes(1) or out.vector.count:
        return 0, NO_ROOM, 0
    if not out.reserve(spliced_size(stop - start, first.shape[0], lines.shape[0], flags.shape[0])):
        raise MemoryError
    state.data = cython.address(data[0])
    state.target = u8s(out)
    state.size = 0
    state.functions = cython.address(functions[0]) if functions.shape[0] else cython.NULL
    state.lines = cython.address(lines[0]) if lines.shape[0] else cython.NULL
    with cython.nogil:
        while offset < stop:
            handle_signals(cython.address(work), 4)
            read_field(state.data, offset, stop, cython.address(field))
            if field.fault:
                break
            stopped: cython.Py_ssize_t = field.end
            if field.number == state.location and field.wire == LENGTH:
                location += 1
                if location + 1 < first.shape[0] and first[location] < first[location + 1]:
                    copy(cython.address(state), pending, offset)
                    stopped = put_location(
                        cython.address(state), cython.address(field), first[location], first[location + 1]
                    )
                    pending = field.end
            elif field.number == state.mapping and field.wire == LENGTH:
                mapping += 1
                if mapping < flags.shape[0] and flags[mapping]:
                    copy(cython.address(state), pending, offset)
                    put_mapping(cython.address(state), cython.address(field), flags[mapping])
                    pending = field.end
            offset = stopped
            if field.fault:
                break
        if not field.fault:
            copy(cython.address(state), pending, stop)
            out.vector.count = state.size
    return state.size, field.fault, offset


def emit(
    rows: cython.const[cython.ulonglong][::1],
    width: cython.Py_ssize_t,
    number: cython.ulonglong,
    out: cython.uchar[::1],
) -> tuple[int, int, int]:
    """Write each row as a message in field `number`, its values as varint fields 1 to `width`; zeros are left out.

    `out` has 24 + 12 * width bytes for each row.
    """
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    if width <= 0 or rows.shape[0] == 0:
        return 0, 0, 0
    count: cython.Py_ssize_t = rows.shape[0] // width
    if out.shape[0] < count * (24 + 12 * width):
        return 0, NO_ROOM, 0
    target: cython.p_uchar = cython.address(out[0])
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(count):
            handle_signals(cython.address(work), 4)
            size: cython.Py_ssize_t = 0
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
