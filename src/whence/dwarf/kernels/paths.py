"""Where DIEs stand in their unit's tree: the DIEs around each of them.

One pass over a unit answers for many DIEs at once: subtrees that hold none of them are skipped by DW_AT_sibling where
there is one.
"""

import cython
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memset
from cython.cimports.whence.dwarf.kernels.abbrev import (
    READ,
    S_SIBLING,
    SKIP_TEXT,
    Table,
    Tables,
    entry_of_code,
    forget_tables,
    table_of,
)
from cython.cimports.whence.dwarf.kernels.budget import Budget, begin_unit, found_budget
from cython.cimports.whence.dwarf.kernels.constants import (
    DW_FORM_ref1,
    DW_FORM_ref_udata,
)
from cython.cimports.whence.dwarf.kernels.names import own_name
from cython.cimports.whence.dwarf.kernels.parts import Parts
from cython.cimports.whence.dwarf.kernels.reading import read_form, skip, skip_form, skip_string, uleb, unit_at
from cython.cimports.whence.dwarf.kernels.shared import DIE, END, FAULT, OFFSET, File, u64

LEAST = cython.declare(cython.ulonglong, 16)  # bytes that a DIE of which a name is asked takes, with those around it
AROUND = cython.declare(cython.int, 32)  # so many of the DIEs around one are told, the innermost


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def paths(
    file: cython.pointer[cython.const[File]], unit: cython.pointer[cython.const[u64]], table: cython.pointer[Table],
    levels: cython.pointer[cython.p_ulonglong], room: cython.pointer[u64],
    keys: cython.pointer[cython.const[u64]], count: cython.Py_ssize_t, around: cython.p_ulonglong,
) -> cython.Py_ssize_t:  # fmt: skip
    """Fill AROUND numbers per key (ascending offsets of DIEs of this unit): tag << 48 | offset, innermost first."""
    data = file.info.at
    at: u64 = unit[DIE]
    end: u64 = unit[END]
    here: u64
    form: u64
    value: u64
    more: u64
    sibling: u64
    level: u64 = 0
    code: u64
    step: cython.uint
    key: cython.Py_ssize_t = 0
    while at < end and key < count:
        here = at
        while key < count and keys[key] < here:
            key += 1  # it is no DIE
        if key < count and keys[key] == here:
            for step in range(AROUND):
                if step < level:
                    around[key * AROUND + step] = levels[0][level - 1 - step]
            key += 1
        code = uleb(data, cython.address(at), end)
        if code == 0:
            if level:
                level -= 1
            continue
        entry = entry_of_code(table, code)
        if entry == cython.NULL:
            break
        sibling = 0
        op = table.ops + entry.first
        for step in range(entry.ops):
            skip(cython.address(at), end, op.before)
            form = op.form
            if op.what == SKIP_TEXT:
                skip_string(data, cython.address(at), end)
            elif op.what == READ:
                value = read_form(data, cython.address(at), end, cython.address(form), op.implicit, unit, file.big)
                if op.slot == S_SIBLING and form >= DW_FORM_ref1 and form <= DW_FORM_ref_udata:
                    sibling = unit[OFFSET] + value
            else:
                skip_form(data, cython.address(at), end, form, unit, file.big)
            op += 1
        skip(cython.address(at), end, entry.tail)
        if not entry.children or at > end:
            continue
        if sibling > at and sibling <= end and key < count and keys[key] >= sibling:
            at = sibling
            continue
        if level >= room[0]:
            more = room[0] * 2 if room[0] else 64
            block = realloc(levels[0], more * 8)
            if block == cython.NULL:
                break
            levels[0] = cython.cast(cython.p_ulonglong, block)
            room[0] = more
        levels[0][level] = cython.cast(u64, entry.tag) << 48 | here
        level += 1
    return key


def around(parts: Parts, keys: cython.const[cython.ulonglong][::1]):
    """For keys in ascending order (offsets of DIEs, of any units): AROUND numbers each, as bytes of u64."""
    found = bytearray(8 * AROUND * keys.shape[0])
    at: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t
    tables: Tables
    budget: Budget
    fault: cython.int = 0
    levels: cython.p_ulonglong = cython.NULL
    room: u64 = 0
    if keys.shape[0] == 0:
        return found
    out: cython.ulonglong[::1] = memoryview(found).cast("Q")
    memset(cython.address(tables), 0, cython.sizeof(tables))
    found_budget(cython.address(budget), parts.file.info.size)
    file: cython.pointer[File] = cython.address(parts.file)
    with cython.nogil:
        while at < keys.shape[0]:
            last = at + 1
            unit = unit_at(file, keys[at])
            if unit == cython.NULL or unit[FAULT]:
                at = last
                continue
            while last < keys.shape[0] and keys[last] < unit[END]:
                last += 1
            begin_unit(cython.address(budget), unit[END] - unit[OFFSET])
            table = table_of(cython.address(tables), file, unit, cython.address(budget), cython.address(fault))
            if table != cython.NULL:
                paths(
                    file, unit, table, cython.address(levels), cython.address(room),
                    cython.address(keys[at]), last - at, cython.address(out[at * AROUND]),
                )  # fmt: skip
            at = last
        forget_tables(cython.address(tables))
        free(levels)
    return found


def names(parts: Parts, alt: Parts, keys: cython.const[cython.ulonglong][::1], out: cython.ulonglong[::1]):
    """The DW_AT_name of each DIE, following its origins, specifications and type units; 0 where there is none. Gives
    whether any may lie in a unit that is not known here."""
    at: cython.Py_ssize_t
    tables: Tables
    budget: Budget
    strangers: cython.int = 0
    memset(cython.address(tables), 0, cython.sizeof(tables))
    found_budget(cython.address(budget), parts.file.info.size)
    with cython.nogil:
        for at in range(keys.shape[0]):
            begin_unit(cython.address(budget), LEAST)
            out[at] = own_name(
                cython.address(parts.file), cython.address(alt.file), cython.address(tables), cython.address(budget),
                keys[at], cython.address(strangers),
            )  # fmt: skip
        forget_tables(cython.address(tables))
    return strangers != 0
