"""Protocol buffers, scanned where they lie: extents of messages, and scalar fields as columns.

Nothing here knows pprof or OTLP: `wire` names the fields. A *message* is a pair of columns, where its body starts and
where it ends in the data. Faults and how a field is read: fields.pxd.
"""

import cython
from cython.cimports.whence.kernels.bytes import MORE, u64
from cython.cimports.whence.kernels.checks import are_inside, belong
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.samples.kernels.fields import (
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
    kind: cython.const[cython.uchar][::1],
    rows: cython.ulonglong[::1],
    out_start: cython.ulonglong[::1],
    out_end: cython.ulonglong[::1],
    out_parent: cython.uint[::1],
) -> tuple[int, int, int]:
    """Payloads of the length-delimited fields with a kind in each message: field n has kind[n], 0 is none.

    The next payload of kind k goes to row rows[k - 1], which is counted up. With empty columns they are only counted.
    Returns how many there are of all kinds.
    """
    field: Field
    found: cython.Py_ssize_t = 0
    row: cython.ulonglong
    room: cython.Py_ssize_t = out_start.shape[0]
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    i: cython.Py_ssize_t
    k: cython.int
    fields: cython.ulonglong = kind.shape[0]
    field.fault = 0
    belong(are_inside(starts, ends, data.shape[0]) and min(out_end.shape[0], out_parent.shape[0]) >= room)
    for i in range(kind.shape[0]):
        belong(kind[i] <= rows.shape[0])
    if data.shape[0] == 0:
        return 0, 0, 0
    base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(data[0]))
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(starts.shape[0]):
            handle_signals(cython.address(work), 8 + ends[i] - starts[i])
            at = starts[i]
            end = ends[i]
            while at < end:
                read_field(base, at, end, cython.address(field))
                if field.fault:
                    break
                k = kind[field.number] if field.number < fields else 0
                if k:
                    if field.wire != LENGTH:
                        field.fault = WRONG_TYPE
                        break
                    row = rows[k - 1]
                    if room:
                        if row >= cython.cast(cython.ulonglong, room):
                            field.fault = NO_ROOM
                            break
                        out_start[row] = field.start
                        out_end[row] = field.end
                        out_parent[row] = i
                    rows[k - 1] = row + 1
                    found += 1
                at = field.end
            if field.fault:
                break
    return found, field.fault, at


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
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    i: cython.Py_ssize_t = 0
    field.fault = 0
    belong(are_inside(starts, ends, data.shape[0]) and width >= 0)
    if data.shape[0] == 0 or out.shape[0] < starts.shape[0] * width:
        return 0, 0, 0
    base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(data[0]))
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(starts.shape[0]):
            handle_signals(cython.address(work), 8 + ends[i] - starts[i])
            at = starts[i]
            end = ends[i]
            while at < end:
                read_field(base, at, end, cython.address(field))
                if field.fault:
                    break
                if field.number < cython.cast(cython.ulonglong, width) and field.wire != LENGTH:
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

    Those of message i are out[first[i]:first[i + 1]]. With an empty `out` they are only counted, and what is packed is
    not looked at closely.
    """
    field: Field
    inner: Field
    rows: cython.Py_ssize_t = 0
    room: cython.Py_ssize_t = out.shape[0]
    at: cython.Py_ssize_t = 0
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
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(starts.shape[0]):
            handle_signals(cython.address(work), 8 + ends[i] - starts[i])
            at = starts[i]
            end = ends[i]
            while at < end:
                read_field(base, at, end, cython.address(field))
                if field.fault:
                    break
                if field.number == number:
                    more = 1
                    if field.wire == LENGTH:
                        at = field.start
                        if fixed64:
                            more = (field.end - at) >> 3
                            if (field.end - at) & 7:
                                field.fault = CUT_FIELD
                                at += 8 * more
                        else:
                            more = varints(base, at, field.end)
                            if at < field.end and base[field.end - 1] >= MORE:
                                field.fault = CUT_VARINT
                                at = field.end - 1
                    if room and rows + more > room:
                        field.fault = NO_ROOM
                    if field.fault:
                        break
                    if room and field.wire != LENGTH:
                        target[rows] = field.value
                    elif room and fixed64:
                        while at < field.end:
                            target[rows] = u64(base + at, False)
                            rows += 1
                            at += 8
                        rows -= more
                    elif room:
                        inner.end = at
                        while inner.end < field.end:
                            at = inner.end
                            target[rows] = read_varint(base, at, field.end, cython.address(inner))
                            if inner.fault:
                                field.fault = inner.fault
                                break
                            rows += 1
                        if field.fault:
                            break
                        rows -= more
                    rows += more
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


@cython.cclass
class IdLists:
    """Two repeated varints of each message: ids of a table's entries in one field, a fixed number of values in another.

    `check` first; only where it finds no fault, `read` puts them into columns that have room for what was counted.
    """

    data: cython.const[cython.uchar][::1]
    starts: cython.const[cython.ulonglong][::1]
    ends: cython.const[cython.ulonglong][::1]
    ids: cython.const[cython.ulonglong][::1]
    order: cython.const[cython.ulonglong][::1]
    in_order: cython.bint  # the ids are 1, 2, 3 and so on
    id_field: cython.ulonglong
    value_field: cython.ulonglong
    values: cython.Py_ssize_t
    # what `read` fills; none while checking, and none is held afterwards
    stack: cython.pointer(cython.uint)
    room: cython.Py_ssize_t  # of `stack`
    value: cython.pointer(cython.longlong)
    filling: cython.bint
    rows: cython.Py_ssize_t  # ids so far
    others: cython.Py_ssize_t  # fields that are neither

    def __cinit__(self, extents, table, id_field, value_field, values):
        """`extents` are data, starts and ends; `table` the ids and their positions in ascending order of id."""
        i: cython.Py_ssize_t
        self.data, self.starts, self.ends = extents
        self.ids, self.order = table
        self.id_field, self.value_field, self.values = id_field, value_field, values
        belong(are_inside(self.starts, self.ends, self.data.shape[0]) and self.order.shape[0] == self.ids.shape[0])
        belong(are_inside(self.order, self.order, self.ids.shape[0] - 1))
        self.in_order = True
        for i in range(self.ids.shape[0]):
            if self.ids[i] != cython.cast(cython.ulonglong, i) + 1:
                self.in_order = False
                break

    def check(self) -> tuple[int, int]:
        """How many ids all messages have, and how many fields of other numbers; -1 ids where something is wrong."""
        i: cython.Py_ssize_t
        self.filling, self.rows, self.others = False, 0, 0
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for i in range(self.starts.shape[0]):
                handle_signals(cython.address(work), 8 + self.ends[i] - self.starts[i])
                if not self._message(i):
                    self.rows = -1
                    break
        return self.rows, self.others

    def read(self, first: cython.ulonglong[::1], stack: cython.uint[::1], value: cython.longlong[::1]) -> bool:
        """Where each message's ids start in `stack` (one more at the end), the positions of all, and the values.

        Value k of message i is value[k * messages + i]. Whether the messages are still what they were.
        """
        i: cython.Py_ssize_t
        messages: cython.Py_ssize_t = self.starts.shape[0]
        belong(first.shape[0] == messages + 1 and value.shape[0] == messages * self.values)
        self.filling, self.rows, self.room = True, 0, stack.shape[0]
        self.stack = cython.address(stack[0]) if self.room else cython.NULL
        self.value = cython.address(value[0]) if value.shape[0] else cython.NULL
        first[0] = 0
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for i in range(messages):
                handle_signals(cython.address(work), 8 + self.ends[i] - self.starts[i])
                if not self._message(i):
                    self.rows = -1
                    break
                first[i + 1] = self.rows
        self.stack, self.value = cython.NULL, cython.NULL
        return self.rows >= 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _message(self, message: cython.Py_ssize_t) -> cython.bint:
        """Count what one message has, or put it into the columns. Whether it is well formed."""
        field: Field
        at: cython.Py_ssize_t = self.starts[message]
        end: cython.Py_ssize_t = self.ends[message]
        count: cython.Py_ssize_t = 0
        if at >= end:
            return self.values == 0
        base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(self.data[0]))
        while at < end:
            read_field(base, at, end, cython.address(field))
            if field.fault:
                return False
            at = field.end
            if field.number == self.id_field:
                if field.wire == LENGTH:
                    if not self._ids(base, field.start, field.end):
                        return False
                elif not self._id(field.value):
                    return False
            elif field.number != self.value_field:
                self.others += 1
            elif field.wire != LENGTH:
                if not self._value(message, count, field.value):
                    return False
                count += 1
            else:
                field.end = field.start
                while field.end < at:
                    field.value = read_varint(base, field.end, at, cython.address(field))
                    if field.fault or not self._value(message, count, field.value):
                        return False
                    count += 1
        return count == self.values

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _ids(self, base: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        """The ids of a packed field. Most have up to three bytes: those are put together without a branch for each."""
        field: Field
        value: cython.ulonglong
        second: cython.ulonglong  # whether there is a second byte, and a third
        third: cython.ulonglong
        rows: cython.Py_ssize_t = self.rows
        room: cython.Py_ssize_t = rows + end - at  # an id has a byte
        place: cython.Py_ssize_t
        target: cython.pointer(cython.uint) = self.stack
        limit: cython.ulonglong = self.ids.shape[0]
        in_order: cython.bint = self.in_order
        field.fault = 0
        if self.filling:
            room = self.room
        while at < end:
            second = base[at] >> 7
            if at + 3 <= end and not (second and base[at + 1] & base[at + 2] >= MORE):
                third = second & base[at + 1] >> 7
                value = base[at] & 0x7F | (base[at + 1] & 0x7F & -second) << 7
                value |= (base[at + 2] & 0x7F & -third) << 14
                at += 1 + second + third
            else:
                value = read_varint(base, at, end, cython.address(field))
                if field.fault:
                    return False
                at = field.end
            if in_order:
                value -= 1
                if value >= limit:
                    return False
            else:
                place = place_of(value, self.ids, self.order)
                if place < 0:
                    return False
                value = place
            if rows >= room:
                return False
            if target != cython.NULL:
                target[rows] = cython.cast(cython.uint, value)
            rows += 1
        self.rows = rows
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _id(self, value: cython.ulonglong) -> cython.bint:
        place: cython.Py_ssize_t = place_of(value, self.ids, self.order)
        if place < 0:
            return False
        if self.filling:
            if self.rows >= self.room:
                return False
            self.stack[self.rows] = cython.cast(cython.uint, place)
        self.rows += 1
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def _value(self, message: cython.Py_ssize_t, kind: cython.Py_ssize_t, value: cython.ulonglong) -> cython.bint:
        if kind >= self.values:
            return False
        if self.filling:
            self.value[kind * self.starts.shape[0] + message] = cython.cast(cython.longlong, value)
        return True


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
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(wanted.shape[0]):
            handle_signals(cython.address(work), 4)
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
