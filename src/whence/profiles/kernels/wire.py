"""Protocol buffers, scanned where they lie: extents of messages, and scalar fields as columns.

Nothing here knows pprof or OTLP: `wire` names the fields. A *message* is a pair of columns, where its body starts and
where it ends in the data. Faults and how a field is read: fields.pxd.
"""

import cython
from cython.cimports.whence.kernels.bytes import MORE, u64
from cython.cimports.whence.kernels.checks import are_inside, belong
from cython.cimports.whence.profiles.kernels.fields import (
    CUT_FIELD,
    CUT_VARINT,
    LENGTH,
    NO_ROOM,
    UNKNOWN,
    WRONG_TYPE,
    Field,
    read_field,
    read_varint,
    varints,
)


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
    offset: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    i: cython.Py_ssize_t
    field.fault = 0
    belong(are_inside(starts, ends, data.shape[0]) and min(out_end.shape[0], out_parent.shape[0]) >= room)
    if data.shape[0] == 0:
        return 0, 0, 0
    base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(data[0]))
    with cython.nogil:
        for i in range(starts.shape[0]):
            offset = starts[i]
            end = ends[i]
            while offset < end:
                read_field(base, offset, end, cython.address(field))
                if field.fault:
                    break
                if field.number == number:
                    if field.wire != LENGTH:
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
                offset = field.end
            if field.fault:
                break
    return rows, field.fault, offset


def scalars(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.ulonglong][::1],
    ends: cython.const[cython.ulonglong][::1],
    width: cython.int,
    out: cython.ulonglong[::1],
) -> tuple[int, int, int]:
    """Varint and fixed fields numbered below `width` of each message, a row of `width` values each; the last one wins.

    A length-delimited field under such a number is another, as to every reader of protocol buffers.
    """
    field: Field
    offset: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    i: cython.Py_ssize_t = 0
    field.fault = 0
    belong(are_inside(starts, ends, data.shape[0]) and width >= 0)
    if data.shape[0] == 0 or out.shape[0] < starts.shape[0] * width:
        return 0, 0, 0
    base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(data[0]))
    with cython.nogil:
        for i in range(starts.shape[0]):
            offset = starts[i]
            end = ends[i]
            while offset < end:
                read_field(base, offset, end, cython.address(field))
                if field.fault:
                    break
                if field.number < cython.cast(cython.ulonglong, width) and field.wire != LENGTH:
                    out[i * width + cython.cast(cython.Py_ssize_t, field.number)] = field.value
                offset = field.end
            if field.fault:
                break
    return i, field.fault, offset


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

    Those of message i are out[first[i]:first[i + 1]]. With an empty `out` they are only counted, and what is packed is
    not looked at closely.
    """
    field: Field
    inner: Field
    rows: cython.Py_ssize_t = 0
    room: cython.Py_ssize_t = out.shape[0]
    offset: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    i: cython.Py_ssize_t
    more: cython.Py_ssize_t
    field.fault = 0
    inner.fault = 0
    belong(are_inside(starts, ends, data.shape[0]))
    if first.shape[0] < starts.shape[0] + 1:
        return 0, NO_ROOM, 0
    first[0] = 0
    if data.shape[0] == 0:
        for i in range(starts.shape[0]):
            first[i + 1] = 0
        return 0, 0, 0
    base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(data[0]))
    target: cython.p_ulonglong = cython.NULL
    if room:
        target = cython.address(out[0])
    with cython.nogil:
        for i in range(starts.shape[0]):
            offset = starts[i]
            end = ends[i]
            while offset < end:
                read_field(base, offset, end, cython.address(field))
                if field.fault:
                    break
                if field.number == number:
                    more = 1
                    if field.wire == LENGTH:
                        offset = field.start
                        if fixed64:
                            more = (field.end - offset) >> 3
                            if (field.end - offset) & 7:
                                field.fault = CUT_FIELD
                                offset += 8 * more
                        else:
                            more = varints(base, offset, field.end)
                            if offset < field.end and base[field.end - 1] >= MORE:
                                field.fault = CUT_VARINT
                                offset = field.end - 1
                    if room and rows + more > room:
                        field.fault = NO_ROOM
                    if field.fault:
                        break
                    if room and field.wire != LENGTH:
                        target[rows] = field.value
                    elif room and fixed64:
                        while offset < field.end:
                            target[rows] = u64(base + offset, False)
                            rows += 1
                            offset += 8
                        rows -= more
                    elif room:
                        inner.end = offset
                        while inner.end < field.end:
                            offset = inner.end
                            target[rows] = read_varint(base, offset, field.end, cython.address(inner))
                            if inner.fault:
                                field.fault = inner.fault
                                break
                            rows += 1
                        if field.fault:
                            break
                        rows -= more
                    rows += more
                offset = field.end
            if field.fault:
                break
            first[i + 1] = rows
    return rows, field.fault, offset


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


def all_known(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.ulonglong][::1],
    ends: cython.const[cython.ulonglong][::1],
    ids: cython.const[cython.ulonglong][::1],
    order: cython.const[cython.ulonglong][::1],
    id_field: cython.ulonglong,
    value_field: cython.ulonglong,
    values: cython.Py_ssize_t,
) -> bool:
    """Whether each message has known ids in one field and so many numbers in another; nothing is kept."""
    field: Field
    inner: Field
    offset: cython.Py_ssize_t
    end: cython.Py_ssize_t
    i: cython.Py_ssize_t
    count: cython.Py_ssize_t
    value: cython.ulonglong
    good: cython.bint = order.shape[0] == ids.shape[0]
    belong(are_inside(starts, ends, data.shape[0]) and are_inside(order, order, ids.shape[0] - 1))
    if data.shape[0] == 0:
        return good
    base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(data[0]))
    field.fault = 0
    inner.fault = 0
    with cython.nogil:
        for i in range(starts.shape[0]):
            offset = starts[i]
            end = ends[i]
            count = 0
            while good and offset < end:
                read_field(base, offset, end, cython.address(field))
                if field.fault:
                    good = False
                elif field.number != id_field and field.number != value_field:
                    offset = field.end
                elif field.wire != LENGTH:
                    if field.number == value_field:
                        count += 1
                    elif place_of(field.value, ids, order) < 0:
                        good = False
                    offset = field.end
                else:
                    offset = field.start
                    while offset < field.end:
                        value = read_varint(base, offset, field.end, cython.address(inner))
                        if inner.fault:
                            good = False
                            break
                        offset = inner.end
                        if field.number == value_field:
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
    belong(are_inside(order, order, ids.shape[0] - 1))
    with cython.nogil:
        for i in range(wanted.shape[0]):
            found = place_of(wanted[i], ids, order)
            if found < 0:
                fault = UNKNOWN
                break
            out[i] = cython.cast(cython.uint, found)
    return i, fault, i


def first_beyond(column: cython.const[cython.ulonglong][::1], limit: cython.ulonglong) -> int:
    """The first row of a column that is not below the limit, or -1."""
    i: cython.Py_ssize_t
    found: cython.Py_ssize_t = -1
    with cython.nogil:
        for i in range(column.shape[0]):
            if column[i] >= limit:
                found = i
                break
    return found
