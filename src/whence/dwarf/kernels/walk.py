"""One pass over a unit's DIEs: its functions and inlined calls, in tree order.

A DIE costs its code, a look at its entry and, mostly, one addition. What cannot hold functions is skipped with all its
children: by DW_AT_sibling where the producer gave it, else by counting levels. The levels that are looked into are a
stack in memory, so no tree is too deep. DWARF 5, sections 2.3 and 7.5.2.
"""

import cython
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.whence.dwarf.kernels.abbrev import (
    DEAD,
    FUNCTION,
    INLINED,
    READ,
    S_CALL_FILE,
    S_CALL_LINE,
    S_DECLARATION,
    S_HIGH,
    S_LOW,
    S_ORIGIN,
    S_RANGES,
    S_SIBLING,
    SKIP_BLOCK,
    SKIP_LEB,
    SKIP_TEXT,
    SLOTS,
    entry_of_code,
)
from cython.cimports.whence.dwarf.kernels.constants import (
    DW_FORM_ref1,
    DW_FORM_ref_udata,
)
from cython.cimports.whence.dwarf.kernels.reading import read_form, skip, skip_form, skip_string, target_of, uleb
from cython.cimports.whence.dwarf.kernels.shared import DIE, END, OFFSET, u64

# What `walk` returns; 0 is well. `nodes.at` says where.
BAD_DIE = cython.declare(cython.int, 11)
NO_CODE = cython.declare(cython.int, 12)
NO_MEMORY = cython.declare(cython.int, 102)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def room_for_node(nodes: cython.pointer[Nodes]) -> cython.bint:
    more: u64
    if nodes.count < nodes.room:
        return True
    more = nodes.room * 2 if nodes.room else 256
    block = realloc(nodes.rows, more * cython.sizeof(nodes.rows[0]))
    if block == cython.NULL:
        return False
    nodes.rows = cython.cast(cython.pointer[Node], block)
    nodes.room = more
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def room_for_level(nodes: cython.pointer[Nodes], level: u64) -> cython.bint:
    more: u64
    if level < nodes.level_room:
        return True
    more = nodes.level_room * 2 if nodes.level_room else 256
    block = realloc(nodes.levels, more * 4)
    if block == cython.NULL:
        return False
    nodes.levels = cython.cast(cython.p_uint, block)
    nodes.level_room = more
    return True


def walk(nodes, file, unit, table):
    """Walk the unit with its digested table. The nodes found before a fault are good."""
    data = file.info.at
    at: u64 = unit[DIE]
    end: u64 = unit[END]
    start: u64 = unit[OFFSET]
    here: u64
    code: u64
    step: cython.uint
    form: u64
    value: u64
    level: u64 = 0  # open DIEs that are looked into
    dead: u64 = 0  # open DIEs inside one that is not
    current: cython.uint = 0  # the node we are in, + 1
    sibling: u64
    values: u64[SLOTS]
    forms: cython.ushort[SLOTS]
    has: cython.uint
    slot: cython.int
    parent: cython.uint
    nodes.count = 0
    while at < end:
        here = at
        code = data[at]
        at += 1
        if code & 0x80:
            at -= 1
            code = uleb(data, cython.address(at), end)
        if code == 0:
            if dead:
                dead -= 1
                continue
            if level == 0:
                if at > end:
                    nodes.at = here
                    return BAD_DIE
                continue  # padding between top DIEs
            level -= 1
            current = nodes.levels[level]
            continue
        entry = entry_of_code(table, code)
        if entry == cython.NULL:
            nodes.at = here
            return NO_CODE if at <= end else BAD_DIE
        has = 0
        op = table.ops + entry.first
        for step in range(entry.ops):
            if end - at < op.before or at > end:
                nodes.at = here
                return BAD_DIE
            at += op.before
            if op.what == SKIP_LEB:
                uleb(data, cython.address(at), end)
            elif op.what == SKIP_BLOCK:
                skip(cython.address(at), end, uleb(data, cython.address(at), end))
            elif op.what == SKIP_TEXT:
                skip_string(data, cython.address(at), end)
            elif op.what == READ:
                slot = op.slot
                form = op.form
                values[slot] = read_form(
                    data, cython.address(at), end, cython.address(form), op.implicit, unit, file.big
                )
                forms[slot] = cython.cast(cython.ushort, form)
                has |= cython.cast(cython.uint, 1) << slot
            else:
                skip_form(data, cython.address(at), end, op.form, unit, file.big)
            op += 1
        if at > end or end - at < entry.tail:
            nodes.at = here
            return BAD_DIE
        at += entry.tail
        parent = current
        if entry.kind >= FUNCTION and not dead and not has >> S_DECLARATION & 1:
            if not room_for_node(nodes):
                nodes.at = here
                return NO_MEMORY
            node = cython.address(nodes.rows[nodes.count])
            nodes.count += 1
            node.key = here
            node.parent = 0
            node.depth = 0
            node.has = has & (N_LOW | N_HIGH | N_RANGES)
            node.call_file = node.call_line = 0
            if has & N_LOW:
                node.low = values[S_LOW]
                node.low_form = forms[S_LOW]
            if has & N_HIGH:
                node.high = values[S_HIGH]
                node.high_form = forms[S_HIGH]
            if has & N_RANGES:
                node.ranges = values[S_RANGES]
                node.ranges_form = forms[S_RANGES]
            if entry.kind == INLINED:
                if current:
                    node.parent = current
                    node.depth = nodes.rows[current - 1].depth + 1
                if has >> S_CALL_FILE & 1:
                    node.call_file = cython.cast(cython.uint, values[S_CALL_FILE])
                if has >> S_CALL_LINE & 1:
                    node.call_line = cython.cast(cython.uint, values[S_CALL_LINE])
                if has >> S_ORIGIN & 1:
                    value = target_of(unit, values[S_ORIGIN], forms[S_ORIGIN])
                    if value:
                        node.key = value
            node.root = nodes.rows[node.parent - 1].root if node.parent else cython.cast(cython.uint, nodes.count - 1)
            parent = cython.cast(cython.uint, nodes.count)
        if not entry.children:
            continue
        if dead or entry.kind == DEAD or has >> S_DECLARATION & 1:
            if has >> S_SIBLING & 1 and forms[S_SIBLING] >= DW_FORM_ref1 and forms[S_SIBLING] <= DW_FORM_ref_udata:
                sibling = start + values[S_SIBLING]
                if sibling > at and sibling <= end:
                    at = sibling
                    continue
            dead += 1
            continue
        if not room_for_level(nodes, level):
            nodes.at = here
            return NO_MEMORY
        nodes.levels[level] = current
        level += 1
        current = parent
    return 0


def forget_nodes(nodes):
    free(nodes.rows)
    free(nodes.levels)
    nodes.rows = cython.NULL
    nodes.levels = cython.NULL
    nodes.count = nodes.room = nodes.level_room = 0
