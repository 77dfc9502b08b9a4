"""Scan protocol buffers in place: extents of messages, and scalar fields as columns.

Independent of pprof and OTLP: the caller gives the field numbers. Messages are two columns, the start and the end of
each body in the data. fields.pxd reads fields and lists the faults.
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
    """Find the payloads of length-delimited fields by kind: field n has kind[n], 0 for fields to skip.

    The next payload of kind k is written to row rows[k - 1], which is incremented. With empty columns payloads are only
    counted. Returns the number of payloads of all kinds.
    """
    field: Field
    count: cython.Py_ssize_t = 0
    capacity: cython.Py_ssize_t = out_start.shape[0]
    offset: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    fields: cython.ulonglong = kind.shape[0]
    field.fault = 0
    belong(are_inside(starts, ends, data.shape[0]) and min(out_end.shape[0], out_parent.shape[0]) >= capacity)
    for i in range(kind.shape[0]):
        belong(kind[i] <= rows.shape[0])
    if data.shape[0] == 0:
        return 0, 0, 0
    base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(data[0]))
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(starts.shape[0]):
            handle_signals(cython.address(work), 8 + ends[i] - starts[i])
            offset = starts[i]
            end: cython.Py_ssize_t = ends[i]
            while offset < end:
                read_field(base, offset, end, cython.address(field))
                if field.fault:
                    break
                k: cython.int = kind[field.number] if field.number < fields else 0
                if k:
                    if field.wire != LENGTH:
                        field.fault = WRONG_TYPE
                        break
                    row: cython.ulonglong = rows[k - 1]
                    if capacity:
                        if row >= cython.cast(cython.ulonglong, capacity):
                            field.fault = NO_ROOM
                            break
                        out_start[row] = field.start
                        out_end[row] = field.end
                        out_parent[row] = i
                    rows[k - 1] = row + 1
                    count += 1
                offset = field.end
            if field.fault:
                break
    return count, field.fault, offset


def scalars(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.ulonglong][::1],
    ends: cython.const[cython.ulonglong][::1],
    width: cython.int,
    out: cython.ulonglong[::1],
) -> tuple[int, int, int]:
    """Read varint and fixed fields with numbers below `width`: a row of `width` values for each message.

    The last field of a number is used. Length-delimited fields are skipped, as by every reader of protocol buffers.
    """
    field: Field
    offset: cython.Py_ssize_t = 0
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
            offset = starts[i]
            end: cython.Py_ssize_t = ends[i]
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
    """Read the values of the repeated scalar `number`, packed or not.

    The values of message i are out[first[i]:first[i + 1]]. With an empty `out` the values are only counted, and packed
    values are not checked.
    """
    field: Field
    inner: Field
    rows: cython.Py_ssize_t = 0
    capacity: cython.Py_ssize_t = out.shape[0]
    offset: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
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
    if capacity:
        target = cython.address(out[0])
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(starts.shape[0]):
            handle_signals(cython.address(work), 8 + ends[i] - starts[i])
            offset = starts[i]
            end: cython.Py_ssize_t = ends[i]
            while offset < end:
                read_field(base, offset, end, cython.address(field))
                if field.fault:
                    break
                if field.number == number:
                    more: cython.Py_ssize_t = 1
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
                    if capacity and rows + more > capacity:
                        field.fault = NO_ROOM
                    if field.fault:
                        break
                    if capacity and field.wire != LENGTH:
                        target[rows] = field.value
                    elif capacity and fixed64:
                        while offset < field.end:
                            target[rows] = u64(base + offset, False)
                            rows += 1
                            offset += 8
                        rows -= more
                    elif capacity:
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
def index_of(
    value: cython.ulonglong,
    ids: cython.const[cython.ulonglong][::1],
    order: cython.const[cython.ulonglong][::1],
) -> cython.Py_ssize_t:
    """Return the index of an id, or -1. Ids that are 1, 2, 3 ... need one comparison."""
    n: cython.Py_ssize_t = ids.shape[0]
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = n
    if 0 < value <= cython.cast(cython.ulonglong, n) and ids[cython.cast(cython.Py_ssize_t, value) - 1] == value:
        return cython.cast(cython.Py_ssize_t, value) - 1
    while low < high:
        middle: cython.Py_ssize_t = (low + high) >> 1
        if ids[order[middle]] < value:
            low = middle + 1
        else:
            high = middle
    if low == n or ids[order[low]] != value:
        return -1
    return cython.cast(cython.Py_ssize_t, order[low])


@cython.cclass
class IdLists:
    """Reads two repeated varints of each message: ids of a table in one field, a fixed number of values in another.

    Call `check`, and if it finds no fault, `read` with columns of the sizes that it returned.
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
    # output of `read`; NULL otherwise
    stack: cython.pointer(cython.uint)
    capacity: cython.Py_ssize_t  # of `stack`
    value: cython.pointer(cython.longlong)
    filling: cython.bint
    rows: cython.Py_ssize_t  # ids so far
    others: cython.Py_ssize_t  # fields that are neither

    def __cinit__(self, extents, table, id_field, value_field, values):
        """Set the messages (data, starts, ends) and the table (ids, and their indices in ascending order of id)."""
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
        """Return the number of ids (-1 if a message is invalid), and the number of other fields."""
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
        """Write the index of each message's first id (one more at the end), the indices of all ids, and the values.

        Value k of message i is value[k * messages + i]. Returns False if the messages changed since `check`.
        """
        i: cython.Py_ssize_t
        messages: cython.Py_ssize_t = self.starts.shape[0]
        belong(first.shape[0] == messages + 1 and value.shape[0] == messages * self.values)
        self.filling, self.rows, self.capacity = True, 0, stack.shape[0]
        self.stack = cython.address(stack[0]) if self.capacity else cython.NULL
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
        """Count the ids and values of a message, or write them to the columns. False if it is invalid."""
        field: Field
        offset: cython.Py_ssize_t = self.starts[message]
        end: cython.Py_ssize_t = self.ends[message]
        count: cython.Py_ssize_t = 0
        if offset >= end:
            return self.values == 0
        base: cython.p_uchar = cython.cast(cython.p_uchar, cython.address(self.data[0]))
        while offset < end:
            read_field(base, offset, end, cython.address(field))
            if field.fault:
                return False
            offset = field.end
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
                while field.end < offset:
                    field.value = read_varint(base, field.end, offset, cython.address(field))
                    if field.fault or not self._value(message, count, field.value):
                        return False
                    count += 1
        return count == self.values

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _ids(self, base: cython.p_uchar, offset: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        """Read the ids of a packed field. Ids of up to three bytes, as most are, are read without branches."""
        field: Field
        rows: cython.Py_ssize_t = self.rows
        capacity: cython.Py_ssize_t = rows + end - offset  # an id has a byte or more
        target: cython.pointer(cython.uint) = self.stack
        limit: cython.ulonglong = self.ids.shape[0]
        in_order: cython.bint = self.in_order
        field.fault = 0
        if self.filling:
            capacity = self.capacity
        while offset < end:
            second: cython.ulonglong = base[offset] >> 7  # 1 if there is a second byte; likewise `third`
            if offset + 3 <= end and not (second and base[offset + 1] & base[offset + 2] >= MORE):
                third: cython.ulonglong = second & base[offset + 1] >> 7
                value: cython.ulonglong = base[offset] & 0x7F | (base[offset + 1] & 0x7F & -second) << 7
                value |= (base[offset + 2] & 0x7F & -third) << 14
                offset += 1 + second + third
            else:
                value = read_varint(base, offset, end, cython.address(field))
                if field.fault:
                    return False
                offset = field.end
            if in_order:
                value -= 1
                if value >= limit:
                    return False
            else:
                index: cython.Py_ssize_t = index_of(value, self.ids, self.order)
                if index < 0:
                    return False
                value = index
            if rows >= capacity:
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
        index: cython.Py_ssize_t = index_of(value, self.ids, self.order)
        if index < 0:
            return False
        if self.filling:
            if self.rows >= self.capacity:
                return False
            self.stack[self.rows] = cython.cast(cython.uint, index)
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
    values: cython.const[cython.ulonglong][::1],
    ids: cython.const[cython.ulonglong][::1],
    order: cython.const[cython.ulonglong][::1],
    out: cython.uint[::1],
) -> tuple[int, int, int]:
    """Write the index in `ids` of each of `values`; `order` has the indices of ids in ascending order of id."""
    i: cython.Py_ssize_t = 0
    fault: cython.int = 0
    if order.shape[0] != ids.shape[0] or out.shape[0] < values.shape[0]:
        return 0, NO_ROOM, 0
    belong(are_inside(order, order, ids.shape[0] - 1))
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(values.shape[0]):
            handle_signals(cython.address(work), 4)
            index: cython.Py_ssize_t = index_of(values[i], ids, order)
            if index < 0:
                fault = UNKNOWN
                break
            out[i] = cython.cast(cython.uint, index)
    return i, fault, i


def first_beyond(column: cython.const[cython.ulonglong][::1], limit: cython.ulonglong) -> int:
    """Return the first row with a number of `limit` or more; -1 if all are less."""
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t = -1
    with cython.nogil:
        for i in range(column.shape[0]):
            if column[i] >= limit:
                row = i
                break
    return row
