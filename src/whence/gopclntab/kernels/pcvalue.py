"""pc-value tables and inline trees: the small machines that ranges_kernel runs for every function.

A pc-value table is pairs of varints, (zigzag value delta, pc delta in quanta), from value -1 at the function's entry;
a value delta of 0 ends it, except in the first pair.
"""

import cython
from cython.cimports.whence.kernels.bytes import u32

NONE = cython.declare(cython.uint, 0xFFFFFFFF)
MAX_DEPTH = cython.declare(cython.int, 256)
MAX_STANDSTILL = cython.declare(cython.int, 64)  # pairs of one table that move no pc


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def varint(table: cython.p_const_uchar, size: cython.Py_ssize_t, at: cython.p_Py_ssize_t) -> cython.longlong:
    """The 32-bit varint at at[0], which moves behind it; -1 when it does not end in the table, or in five bytes."""
    byte: cython.uint
    shift: cython.uint = 7
    value: cython.uint
    if at[0] >= size:
        return -1
    value = table[at[0]]
    at[0] += 1
    if value < 0x80:
        return value
    value &= 0x7F
    while at[0] < size and shift < 35:
        byte = table[at[0]]
        at[0] += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def unpack(
    table: cython.p_const_uchar,
    size: cython.Py_ssize_t,
    at: cython.Py_ssize_t,
    quantum: cython.uint,
    span: cython.ulonglong,
    starts: cython.p_uint,
    values: cython.p_int,
    room: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """The table at `at` as runs: values[i] holds for [starts[i], starts[i + 1]). Gives their number, -1 for damage."""
    count: cython.Py_ssize_t = 0
    pc: cython.ulonglong = 0
    value: cython.uint = 0xFFFFFFFF
    still: cython.int = 0
    delta: cython.uint
    step: cython.uint
    read: cython.longlong
    starts[0] = 0
    if at == 0:
        return 0
    while True:
        read = varint(table, size, cython.address(at))
        if read < 0:
            return -1
        delta = cython.cast(cython.uint, read)
        if delta == 0 and pc != 0:
            break
        value += -(delta & 1) ^ (delta >> 1)
        read = varint(table, size, cython.address(at))
        if read < 0:
            return -1
        step = cython.cast(cython.uint, read)
        if step == 0:
            still += 1
            if still > MAX_STANDSTILL:
                return -1
            continue
        if count >= room:
            return -1
        starts[count] = cython.cast(cython.uint, pc)
        values[count] = cython.cast(cython.int, value)
        count += 1
        pc += cython.cast(cython.ulonglong, step) * quantum
        if pc >= span:
            pc = span
            break
    starts[count] = cython.cast(cython.uint, pc)
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def value_at(starts: cython.p_uint, values: cython.p_int, count: cython.Py_ssize_t, pc: cython.uint) -> cython.int:
    """The value at a pc; -1 outside the table, as the runtime has it."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = count
    middle: cython.Py_ssize_t
    if count == 0 or pc >= starts[count]:
        return -1
    while high - low > 1:
        middle = (low + high) >> 1
        if starts[middle] <= pc:
            low = middle
        else:
            high = middle
    return values[low]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def file_name(
    files: cython.p_const_uchar,
    count: cython.ulonglong,
    lowest: cython.int,
    texts: cython.ulonglong,
    base: cython.ulonglong,
    cu: cython.uint,
    number: cython.int,
    big: cython.bint,
) -> cython.ulonglong:
    """The name reference of a file number in a unit; 0 when it names none."""
    index: cython.ulonglong
    offset: cython.uint
    if number < lowest or cu == NONE:
        return 0
    index = cython.cast(cython.ulonglong, cu) + cython.cast(cython.ulonglong, number)
    if index >= count:
        return 0
    offset = u32(files + 4 * index, big)
    if offset >= texts:
        return 0
    return base | offset


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def climb(
    tree: cython.p_const_uchar,
    nodes: cython.ulonglong,
    node_size: cython.int,
    parent_width: cython.int,
    parent_pc_at: cython.int,
    big: cython.bint,
    starts: cython.p_uint,
    values: cython.p_int,
    count: cython.Py_ssize_t,
    index: cython.int,
    opened: cython.p_int,
    level: cython.p_int,
    chain: cython.p_int,
) -> cython.int:
    """The inlined calls from a node outwards to one that is open already: gives how many are new, -1 for damage.

    `opened[1]` to `opened[level[0]]` are the nodes that are open, outermost first; level[0] becomes how many of them
    stay open. `chain` takes the new ones, innermost first.
    """
    depth: cython.int = 0
    shared: cython.int = 0
    node: cython.p_const_uchar
    while index >= 0:
        shared = level[0]
        while shared > 0 and opened[shared] != index:
            shared -= 1
        if shared > 0:
            break
        if depth >= MAX_DEPTH or cython.cast(cython.ulonglong, index) >= nodes:
            return -1
        chain[depth] = index
        depth += 1
        node = tree + cython.cast(cython.Py_ssize_t, index) * node_size
        if parent_width == 0:  # since 1.20: the parent is whatever is inlined at the call's pc
            index = value_at(starts, values, count, u32(node + parent_pc_at, big))
        elif parent_width == 2:
            if big:
                index = cython.cast(cython.short, cython.cast(cython.ushort, node[0]) << 8 | node[1])
            else:
                index = cython.cast(cython.short, cython.cast(cython.ushort, node[1]) << 8 | node[0])
        else:
            index = cython.cast(cython.int, u32(node, big))
    if shared + depth > MAX_DEPTH:
        return -1
    level[0] = shared
    return depth
