"""Protocol buffers, scanned where they lie: extents of messages, scalar fields as columns, and one splice.

Nothing here knows pprof or OTLP: `wire` names the fields. A *message* is a pair of columns, where its body starts and
where it ends in the data. Faults are numbered in FAULTS of `wire`.
"""

import cython
from cython.cimports.libc.string import memcpy

CUT_VARINT = cython.declare(cython.int, 1)
LONG_VARINT = cython.declare(cython.int, 2)
CUT_FIELD = cython.declare(cython.int, 3)
WIRE_TYPE = cython.declare(cython.int, 4)
FIELD_ZERO = cython.declare(cython.int, 5)
NO_ROOM = cython.declare(cython.int, 6)
WRONG_TYPE = cython.declare(cython.int, 7)
UNKNOWN = cython.declare(cython.int, 8)

Field = cython.struct(
    number=cython.ulonglong,
    wire=cython.int,
    value=cython.ulonglong,  # of a varint or fixed field
    start=cython.Py_ssize_t,  # of the payload
    end=cython.Py_ssize_t,  # of the payload, and of the field
    fault=cython.int,
)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def read_varint(
    data: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t, field: cython.pointer(Field)
) -> cython.ulonglong:
    """The varint at `at`; field.end is where it ends, field.fault is set when it does not."""
    value: cython.ulonglong = 0
    shift: cython.int = 0
    byte: cython.uchar
    while at < end:
        byte = data[at]
        at += 1
        if shift == 63 and byte > 1:
            field.fault = LONG_VARINT
            return 0
        value |= cython.cast(cython.ulonglong, byte & 0x7F) << shift
        if byte < 0x80:
            field.end = at
            return value
        shift += 7
    field.fault = CUT_VARINT
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def read_field(
    data: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t, field: cython.pointer(Field)
) -> cython.void:
    """The field that starts at `at`."""
    size: cython.ulonglong
    i: cython.int
    field.fault = 0
    field.end = at
    tag: cython.ulonglong = read_varint(data, at, end, field)
    if field.fault:
        return
    field.number = tag >> 3
    field.wire = cython.cast(cython.int, tag & 7)
    field.start = field.end
    field.value = 0
    if field.number == 0:
        field.fault = FIELD_ZERO
    elif field.wire == 0:
        field.value = read_varint(data, field.start, end, field)
    elif field.wire == 2:
        size = read_varint(data, field.start, end, field)
        if field.fault:
            return
        field.start = field.end
        if size > cython.cast(cython.ulonglong, end - field.start):
            field.fault = CUT_FIELD
            return
        field.end = field.start + cython.cast(cython.Py_ssize_t, size)
    elif field.wire == 1 or field.wire == 5:
        size = 8 if field.wire == 1 else 4
        if size > cython.cast(cython.ulonglong, end - field.start):
            field.fault = CUT_FIELD
            return
        for i in range(cython.cast(cython.int, size)):
            field.value |= cython.cast(cython.ulonglong, data[field.start + i]) << (8 * i)
        field.end = field.start + cython.cast(cython.Py_ssize_t, size)
    else:
        field.fault = WIRE_TYPE


def messages(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.ulonglong][::1],
    ends: cython.const[cython.ulonglong][::1],
    number: cython.ulonglong,
    out_start: cython.ulonglong[::1],
    out_end: cython.ulonglong[::1],
    out_parent: cython.uint[::1],
) -> tuple[int, int, int]:
    """Payloads of the length-delimited field `number` in each message. With empty columns they are only counted."""
    field: Field
    rows: cython.Py_ssize_t = 0
    room: cython.Py_ssize_t = out_start.shape[0]
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    i: cython.Py_ssize_t
    field.fault = 0
    if data.shape[0] == 0:
        return 0, 0, 0
    base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(data[0]))
    with cython.nogil:
        for i in range(starts.shape[0]):
            at = starts[i]
            end = ends[i]
            while at < end:
                read_field(base, at, end, cython.address(field))
                if field.fault:
                    break
                if field.number == number:
                    if field.wire != 2:
                        field.fault = WRONG_TYPE
                        break
                    if room:
                        if rows >= room:
                            field.fault = NO_ROOM
                            break
                        out_start[rows] = field.start
                        out_end[rows] = field.end
                        out_parent[rows] = i
                    rows += 1
                at = field.end
            if field.fault:
                break
    return rows, field.fault, at


def scalars(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.ulonglong][::1],
    ends: cython.const[cython.ulonglong][::1],
    width: cython.int,
    out: cython.ulonglong[::1],
) -> tuple[int, int, int]:
    """Varint and fixed fields numbered below `width` of each message, a row of `width` values each; the last one wins.

    A length-delimited field leaves 1 + the offset of its payload.
    """
    field: Field
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    i: cython.Py_ssize_t = 0
    field.fault = 0
    if data.shape[0] == 0 or out.shape[0] < starts.shape[0] * width:
        return 0, 0, 0
    base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(data[0]))
    with cython.nogil:
        for i in range(starts.shape[0]):
            at = starts[i]
            end = ends[i]
            while at < end:
                read_field(base, at, end, cython.address(field))
                if field.fault:
                    break
                if field.number < cython.cast(cython.ulonglong, width):
                    if field.wire == 2:
                        out[i * width + cython.cast(cython.Py_ssize_t, field.number)] = field.start + 1
                    else:
                        out[i * width + cython.cast(cython.Py_ssize_t, field.number)] = field.value
                at = field.end
            if field.fault:
                break
    return i, field.fault, at


def repeated(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.ulonglong][::1],
    ends: cython.const[cython.ulonglong][::1],
    number: cython.ulonglong,
    fixed64: cython.bint,
    out: cython.ulonglong[::1],
    first: cython.ulonglong[::1],
) -> tuple[int, int, int]:
    """Values of the repeated scalar `number` of each message, packed or not, one after another in `out`.

    Those of message i are out[first[i]:first[i + 1]]. With an empty `out` they are only counted.
    """
    field: Field
    inner: Field
    rows: cython.Py_ssize_t = 0
    room: cython.Py_ssize_t = out.shape[0]
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    i: cython.Py_ssize_t
    j: cython.int
    value: cython.ulonglong
    field.fault = 0
    inner.fault = 0
    if first.shape[0] < starts.shape[0] + 1:
        return 0, NO_ROOM, 0
    first[0] = 0
    if data.shape[0] == 0:
        for i in range(starts.shape[0]):
            first[i + 1] = 0
        return 0, 0, 0
    base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(data[0]))
    with cython.nogil:
        for i in range(starts.shape[0]):
            at = starts[i]
            end = ends[i]
            while at < end:
                read_field(base, at, end, cython.address(field))
                if field.fault:
                    break
                if field.number == number:
                    if field.wire != 2:
                        if room:
                            if rows >= room:
                                field.fault = NO_ROOM
                                break
                            out[rows] = field.value
                        rows += 1
                    else:
                        at = field.start
                        while at < field.end:
                            value = 0
                            if fixed64:
                                if field.end - at < 8:
                                    inner.fault = CUT_FIELD
                                    break
                                for j in range(8):
                                    value |= cython.cast(cython.ulonglong, base[at + j]) << (8 * j)
                                at += 8
                            else:
                                value = read_varint(base, at, field.end, cython.address(inner))
                                if inner.fault:
                                    break
                                at = inner.end
                            if room:
                                if rows >= room:
                                    inner.fault = NO_ROOM
                                    break
                                out[rows] = value
                            rows += 1
                        if inner.fault:
                            field.fault = inner.fault
                            break
                at = field.end
            if field.fault:
                break
            first[i + 1] = rows
    return rows, field.fault, at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def place_of(
    value: cython.ulonglong,
    ids: cython.const[cython.ulonglong][::1],
    order: cython.const[cython.ulonglong][::1],
) -> cython.Py_ssize_t:
    """Where an id stands in `ids`, or -1; ids that count from 1 in order cost one comparison."""
    n: cython.Py_ssize_t = ids.shape[0]
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = n
    middle: cython.Py_ssize_t
    if 0 < value <= cython.cast(cython.ulonglong, n) and ids[cython.cast(cython.Py_ssize_t, value) - 1] == value:
        return cython.cast(cython.Py_ssize_t, value) - 1
    while low < high:
        middle = (low + high) >> 1
        if ids[order[middle]] < value:
            low = middle + 1
        else:
            high = middle
    if low == n or ids[order[low]] != value:
        return -1
    return cython.cast(cython.Py_ssize_t, order[low])


def sound(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.ulonglong][::1],
    ends: cython.const[cython.ulonglong][::1],
    ids: cython.const[cython.ulonglong][::1],
    order: cython.const[cython.ulonglong][::1],
    values: cython.Py_ssize_t,
) -> bool:
    """Whether each message has known ids in field 1 and so many numbers in field 2; nothing is kept."""
    field: Field
    inner: Field
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    i: cython.Py_ssize_t
    count: cython.Py_ssize_t
    value: cython.ulonglong
    good: cython.bint = order.shape[0] == ids.shape[0]
    if data.shape[0] == 0:
        return good
    base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(data[0]))
    field.fault = 0
    inner.fault = 0
    with cython.nogil:
        for i in range(starts.shape[0]):
            at = starts[i]
            end = ends[i]
            count = 0
            while good and at < end:
                read_field(base, at, end, cython.address(field))
                if field.fault:
                    good = False
                elif field.number > 2:
                    at = field.end
                elif field.wire != 2:
                    if field.number == 2:
                        count += 1
                    elif place_of(field.value, ids, order) < 0:
                        good = False
                    at = field.end
                else:
                    at = field.start
                    while at < field.end:
                        value = read_varint(base, at, field.end, cython.address(inner))
                        if inner.fault:
                            good = False
                            break
                        at = inner.end
                        if field.number == 2:
                            count += 1
                        elif place_of(value, ids, order) < 0:
                            good = False
                            break
            if not good or count != values:
                good = False
                break
    return good


def positions(
    wanted: cython.const[cython.ulonglong][::1],
    ids: cython.const[cython.ulonglong][::1],
    order: cython.const[cython.ulonglong][::1],
    out: cython.uint[::1],
) -> tuple[int, int, int]:
    """Where each wanted id stands in `ids`; `order` lists the positions of ids in ascending order of id."""
    i: cython.Py_ssize_t = 0
    found: cython.Py_ssize_t
    fault: cython.int = 0
    if order.shape[0] != ids.shape[0] or out.shape[0] < wanted.shape[0]:
        return 0, NO_ROOM, 0
    with cython.nogil:
        for i in range(wanted.shape[0]):
            found = place_of(wanted[i], ids, order)
            if found < 0:
                fault = UNKNOWN
                break
            out[i] = cython.cast(cython.uint, found)
    return i, fault, i


def first_beyond(
    rows: cython.const[cython.ulonglong][::1], width: cython.int, number: cython.int, limit: cython.ulonglong
) -> int:
    """The first row whose field `number` is not below the limit, or -1."""
    i: cython.Py_ssize_t
    found: cython.Py_ssize_t = -1
    if width <= 0:
        return -1
    with cython.nogil:
        for i in range(rows.shape[0] // width):
            if rows[i * width + number] >= limit:
                found = i
                break
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put_varint(out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.ulonglong) -> cython.Py_ssize_t:
    while value >= 0x80:
        out[at] = cython.cast(cython.uchar, (value & 0x7F) | 0x80)
        value >>= 7
        at += 1
    out[at] = cython.cast(cython.uchar, value)
    return at + 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def varint_size(value: cython.ulonglong) -> cython.Py_ssize_t:
    size: cython.Py_ssize_t = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


def splice(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    location_number: cython.ulonglong,
    line_number: cython.ulonglong,
    first: cython.const[cython.ulonglong][::1],
    functions: cython.const[cython.ulonglong][::1],
    lines: cython.const[cython.ulonglong][::1],
    mapping_number: cython.ulonglong,
    flags: cython.const[cython.uchar][::1],
    out: cython.uchar[::1],
) -> tuple[int, int, int]:
    """Copy the message data[start:stop], giving its locations new lines and its mappings new flags.

    Location i (the i-th field `location_number`) with first[i] < first[i + 1] loses its lines (field `line_number`) and
    gets one for each of functions/lines[first[i]:first[i + 1]]; others are copied as they lie. Mapping j gets a true
    field 7 + k for each set bit k of flags[j]. Everything else is copied as it lies. `out` holds what `wire` reckons.
    """
    field: Field
    inner: Field
    at: cython.Py_ssize_t = start
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
    if data.shape[0] == 0 or start >= stop or out.shape[0] == 0:
        return 0, 0, 0
    base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(data[0]))
    target: cython.p_uchar = cython.address(out[0])
    with cython.nogil:
        while at < stop:
            read_field(base, at, stop, cython.address(field))
            if field.fault:
                break
            if field.number == location_number and field.wire == 2:
                location += 1
                if location + 1 < first.shape[0] and first[location] < first[location + 1]:
                    memcpy(target + to, base + pending, at - pending)
                    to += at - pending
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
                        at = inside
                        break
                    for k in range(first[location], first[location + 1]):
                        kept = 2 + varint_size(functions[k]) + (varint_size(lines[k]) if lines[k] else -1)
                        size += varint_size(line_number << 3) + 1 + kept
                    to = put_varint(target, to, location_number << 3 | 2)
                    to = put_varint(target, to, size)
                    inside = field.start
                    while inside < field.end:
                        read_field(base, inside, field.end, cython.address(inner))
                        if inner.number != line_number:
                            memcpy(target + to, base + inside, inner.end - inside)
                            to += inner.end - inside
                        inside = inner.end
                    for k in range(first[location], first[location + 1]):
                        kept = 2 + varint_size(functions[k]) + (varint_size(lines[k]) if lines[k] else -1)
                        to = put_varint(target, to, line_number << 3 | 2)
                        to = put_varint(target, to, kept)
                        target[to] = 1 << 3
                        to = put_varint(target, to + 1, functions[k])
                        if lines[k]:
                            target[to] = 2 << 3
                            to = put_varint(target, to + 1, lines[k])
                    pending = field.end
            elif field.number == mapping_number and field.wire == 2:
                mapping += 1
                if mapping < flags.shape[0] and flags[mapping]:
                    memcpy(target + to, base + pending, at - pending)
                    to += at - pending
                    extra = 0
                    for bit in range(4):
                        extra += 2 * ((flags[mapping] >> bit) & 1)
                    to = put_varint(target, to, mapping_number << 3 | 2)
                    to = put_varint(target, to, field.end - field.start + extra)
                    memcpy(target + to, base + field.start, field.end - field.start)
                    to += field.end - field.start
                    for bit in range(4):
                        if (flags[mapping] >> bit) & 1:
                            target[to] = cython.cast(cython.uchar, (7 + bit) << 3)
                            target[to + 1] = 1
                            to += 2
                    pending = field.end
            at = field.end
        if not field.fault:
            memcpy(target + to, base + pending, stop - pending)
            to += stop - pending
    return to, field.fault, at


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
    with cython.nogil:
        for i in range(count):
            size = 0
            for k in range(width):
                if rows[i * width + k]:
                    size += varint_size((k + 1) << 3) + varint_size(rows[i * width + k])
            to = put_varint(target, to, number << 3 | 2)
            to = put_varint(target, to, size)
            for k in range(width):
                if rows[i * width + k]:
                    to = put_varint(target, to, (k + 1) << 3)
                    to = put_varint(target, to, rows[i * width + k])
    return to, 0, 0
