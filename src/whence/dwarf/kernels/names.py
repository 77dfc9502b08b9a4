"""What functions are called, where they are declared, and the DIEs that they lie in.

A function's name is its linkage name, else its name, looked for along its origins and specifications; it is declared at
the first DW_AT_decl_line and the first DW_AT_decl_file on that way (a definition leaves out the one that is as in the
declaration it completes).

In: the key of a DIE (its offset in .debug_info; with ALT_BIT, in the supplementary file's). Out: a name reference,
remembered per DIE, because an inlined function is met hundreds of times. A chain is followed for at most MOST_STEPS.
A class that only refers to its type unit (clang's -fdebug-types-section) has its name there.

A C++ or Rust function without a linkage name (a static one, say) gets a reference of the source PLAIN_SOURCE, whose
offset counts in the list of such DIEs: functions.py puts their qualified names together afterwards, of many at once.
For that `ancestors` returns the DIEs that each of them lies in. One pass over a unit answers for many DIEs: subtrees
that hold none of them are skipped by DW_AT_sibling where there is one.
"""

import cython
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memset
from cython.cimports.whence.dwarf.kernels.abbrevs import (
    READ,
    S_SIBLING,
    SKIP_TEXT,
    AbbrevCache,
    AbbrevTable,
    entry_of_code,
    free_cache,
    table_of,
)
from cython.cimports.whence.dwarf.kernels.budget import Budget, begin_unit, found_budget, spend
from cython.cimports.whence.dwarf.kernels.constants import (
    DW_AT_abstract_origin,
    DW_AT_artificial,
    DW_AT_decl_file,
    DW_AT_decl_line,
    DW_AT_frame_base,
    DW_AT_linkage_name,
    DW_AT_MIPS_linkage_name,
    DW_AT_name,
    DW_AT_signature,
    DW_AT_specification,
    DW_FORM_implicit_const,
    DW_FORM_ref1,
    DW_FORM_ref_sig8,
    DW_FORM_ref_udata,
    DW_LANG_C_plus_plus,
    DW_LANG_C_plus_plus_11,
    DW_LANG_C_plus_plus_14,
    DW_LANG_C_plus_plus_17,
    DW_LANG_C_plus_plus_20,
    DW_LANG_C_plus_plus_23,
    DW_LANG_Rust,
    DW_UT_split_type,
    DW_UT_type,
)
from cython.cimports.whence.dwarf.kernels.reading import (
    name_of,
    number,
    read_form,
    skip,
    skip_form,
    skip_string,
    sleb,
    target_of,
    uleb,
    unit_at,
)
from cython.cimports.whence.dwarf.kernels.units import (
    ALT_BIT,
    DIE,
    END,
    FAULT,
    HAS,
    HAS_STMT_LIST,
    KIND,
    LANGUAGE,
    OFFSET,
    OFFSET_SIZE,
    SIGNATURE,
    STMT_LIST,
    WIDTH,
    DwarfSections,
    File,
    u64,
)
from cython.cimports.whence.kernels.hashtable import (
    clear_slots,
    fill_slot,
    first_slot,
    is_crowded,
    make_slots,
    mix,
    next_slot,
    release_slots,
)
from cython.cimports.whence.kernels.vector import grow, push_u64, release

MOST_NAMES = cython.declare(cython.Py_ssize_t, 1 << 16)  # names remembered before it starts anew
MOST_STEPS = cython.declare(cython.int, 16)  # along origins and specifications
PLAIN = cython.declare(cython.ulonglong, cython.cast(cython.ulonglong, PLAIN_SOURCE) << 48)
BYTES_PER_NAME = cython.declare(cython.ulonglong, 16)  # of a DIE whose name is wanted, with its ancestors


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_qualified(language: u64) -> cython.bint:
    """C++ and Rust: languages whose functions are called by what stands around them, too."""
    return language in (
        DW_LANG_C_plus_plus, DW_LANG_C_plus_plus_11, DW_LANG_C_plus_plus_14, DW_LANG_C_plus_plus_17,
        DW_LANG_C_plus_plus_20, DW_LANG_C_plus_plus_23, DW_LANG_Rust,
    )  # fmt: skip


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def slot_for(names: cython.pointer[Names], key: u64) -> u64:
    """The slot that the key's name has, or gets."""
    slot: u64 = first_slot(cython.address(names.slots), mix(key, names.seed))
    while names.slots.slots[slot] and names.known[names.slots.slots[slot] - 1].key != key:
        slot = next_slot(cython.address(names.slots), slot)
    return slot


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def make_room(names: cython.pointer[Names]) -> cython.bint:
    """Room for one more name. False when there is no memory; then all names are forgotten."""
    item: cython.Py_ssize_t
    if not grow(
        cython.cast(cython.pp_void, cython.address(names.known)), cython.address(names.room), names.count + 1,
        cython.sizeof(KnownName),
    ) or not is_crowded(cython.address(names.slots)):  # fmt: skip
        return names.count < names.room
    if not make_slots(cython.address(names.slots), 2 * (names.count + 1)):
        names.count = 0
        return False
    for item in range(names.count):
        fill_slot(cython.address(names.slots), slot_for(names, names.known[item].key), item)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def remember_plain(names: cython.pointer[Names], key: u64, name: u64) -> u64:
    """A reference by which the qualified name is put in later; the plain name when there is no memory."""
    if not push_u64(cython.address(names.plain), key):
        return name
    return PLAIN | cython.cast(u64, names.plain.count - 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def remember_start(names: cython.pointer[Names], name: u64, file: u64, line: u64) -> cython.void:
    """One more declaration; none where there is no memory or the line is none."""
    if name == 0 or line == 0 or line >> 32:
        return
    if not grow(
        cython.cast(cython.pp_void, cython.address(names.starts)), cython.address(names.start_room),
        names.start_count + 1, cython.sizeof(Start),
    ):  # fmt: skip
        return
    start = cython.address(names.starts[names.start_count])
    start.name = name
    start.file = file
    start.line = cython.cast(cython.uint, line)
    names.start_count += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def same_files(
    one: cython.pointer[cython.const[u64]], other: cython.pointer[cython.const[u64]]
) -> cython.bint:  # fmt: skip
    """Do two units count their files in one table?"""
    return one == other or (
        one[HAS] & other[HAS] & HAS_STMT_LIST != 0 and one[STMT_LIST] == other[STMT_LIST]
    )  # fmt: skip


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def type_of(file: cython.pointer[cython.const[File]], signature: u64, budget: cython.pointer[Budget]) -> u64:
    """Where the type of a signature is described: what its unit's header says; 0 when no unit here has it."""
    at: u64
    for at in range(file.unit_count):
        if not spend(budget, 1):
            break
        unit = cython.address(file.units[at * WIDTH])
        if unit[SIGNATURE] == signature and unit[KIND] in (DW_UT_type, DW_UT_split_type) and not unit[FAULT]:
            value: u64 = number(
                file.info.at + unit[DIE] - unit[OFFSET_SIZE], cython.cast(cython.int, unit[OFFSET_SIZE]), file.big
            )
            return unit[OFFSET] + value if value < unit[END] - unit[OFFSET] else 0
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def follow(
    names: cython.pointer[Names], file: cython.pointer[cython.const[File]], alt: cython.pointer[cython.const[File]],
    tables: cython.pointer[AbbrevCache], budget: cython.pointer[Budget], key: u64, unresolved_refs: cython.p_int,
) -> u64:  # fmt: skip
    """Read DIEs from the key on along origins and specifications. Returns the name. With `names` its start is kept,
    too; without, no linkage name is looked for."""
    step: cython.int
    here: u64 = key
    following: u64
    origin: u64
    found: u64 = 0
    linkage: u64 = 0
    decl_file: u64 = 0
    decl_line: u64 = 0
    has: cython.int = 0  # 1: decl_file, 2: decl_line
    named: u64 = 0
    language: u64 = 0
    at: u64
    spec: u64
    spec_end: u64
    bare: u64 = 1  # not declared, without a frame base, not artificial: line tables only (clang -g1)
    fault: cython.int = 0
    name: u64
    form: u64
    implicit: u64
    value: u64
    for step in range(MOST_STEPS):
        where = alt if here >> ALT_BIT & 1 else file
        other = where if here >> ALT_BIT & 1 else alt
        at = here & ((cython.cast(u64, 1) << ALT_BIT) - 1)
        unit = unit_at(where, at)
        if unit == cython.NULL and at < where.info.size:
            unresolved_refs[0] = True
        if unit == cython.NULL or unit[FAULT] or at <= unit[OFFSET]:
            break
        spec = uleb(where.info.at, cython.address(at), unit[END])
        if at > unit[END] or spec == 0:
            break
        table = table_of(tables, where, unit, budget, cython.address(fault))
        if table == cython.NULL:
            break
        entry = entry_of_code(table, spec)
        if entry == cython.NULL:
            break
        spec = entry.spec
        spec_end = where.abbrev.size
        following = origin = 0
        while True:
            name = uleb(where.abbrev.at, cython.address(spec), spec_end)
            form = uleb(where.abbrev.at, cython.address(spec), spec_end)
            implicit = sleb(where.abbrev.at, cython.address(spec), spec_end) if form == DW_FORM_implicit_const else 0
            if spec > spec_end or (name == 0 and form == 0) or not spend(budget, 1):
                break
            if name not in (
                DW_AT_name, DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_abstract_origin, DW_AT_specification,
                DW_AT_decl_file, DW_AT_decl_line,
            ) and (name != DW_AT_signature or names != cython.NULL):  # fmt: skip
                if name in (DW_AT_frame_base, DW_AT_artificial):
                    bare = 0
                skip_form(where.info.at, cython.address(at), unit[END], form, unit, where.big)
                continue
            value = read_form(
                where.info.at, cython.address(at), unit[END], cython.address(form), implicit, unit, where.big
            )
            if at > unit[END]:
                break
            if name in (DW_AT_linkage_name, DW_AT_MIPS_linkage_name):
                if names != cython.NULL and not linkage:
                    linkage = name_of(where, other, unit, value, form)
            elif name == DW_AT_decl_file:
                if names != cython.NULL and not has & 1 and value >> 32 == 0:
                    has |= 1
                    decl_file = value
                    if here >> ALT_BIT & 1 or not same_files(unit, names.current):
                        decl_file |= cython.cast(u64, unit - where.units) // WIDTH << FILE_UNIT_SHIFT
                        decl_file |= cython.cast(u64, 1) << (ALT_FILE_BIT if here >> ALT_BIT & 1 else OTHER_FILE_BIT)
            elif name == DW_AT_decl_line:
                if not has & 2:
                    has |= 2
                    decl_line = value
            elif name == DW_AT_name:
                if not found:
                    found = name_of(where, other, unit, value, form)
                    named = here
                    language = unit[LANGUAGE]
                    if language == 0 and names != cython.NULL:  # dwz: a partial unit is of those that import it
                        language = names.current[LANGUAGE]
            else:
                if name == DW_AT_signature:
                    value = type_of(where, value, budget) if form == DW_FORM_ref_sig8 else 0
                    unresolved_refs[0] |= value == 0
                else:
                    value = target_of(unit, value, form)
                if value and here >> ALT_BIT & 1:
                    value |= cython.cast(u64, 1) << ALT_BIT
                if name == DW_AT_specification:
                    following = value
                else:
                    origin = value
        following = origin if origin else following
        if not following or following == here or (linkage and has == 3):
            break
        here = following
    if linkage:
        found = linkage
    elif found and names != cython.NULL and is_qualified(language):
        found = remember_plain(names, named | (bare if has == 0 else 0) << BARE_BIT, found)
    if names != cython.NULL and has == 3:
        remember_start(names, found, decl_file, decl_line)
    return found


def function_name(names, file, alt, tables, key):
    """The name of the function a DIE stands for; 0 when nothing says it."""
    slot: u64
    item: cython.Py_ssize_t
    if names.count >= MOST_NAMES:
        forget_names(names)
    if names.count == names.room or is_crowded(cython.address(names.slots)):
        if not make_room(names):
            return follow(
                names, file, alt, tables, cython.address(names.budget), key, cython.address(names.unresolved_refs)
            )
    slot = slot_for(names, key)
    if names.slots.slots[slot] == 0:
        item = names.count
        names.known[item].key = key
        names.known[item].name = follow(
            names, file, alt, tables, cython.address(names.budget), key, cython.address(names.unresolved_refs)
        )
        fill_slot(cython.address(names.slots), slot, item)
        names.count += 1
    return names.known[names.slots.slots[slot] - 1].name


def forget_names(names):
    clear_slots(cython.address(names.slots))
    names.count = 0


def free_names(names):
    release_slots(cython.address(names.slots))
    release(cython.address(names.plain))
    free(names.known)
    free(names.starts)
    names.known = cython.NULL
    names.starts = cython.NULL
    names.count = names.room = names.start_count = names.start_room = 0


# The DIEs that a DIE lies in


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def collect_ancestors(
    file: cython.pointer[cython.const[File]],
    unit: cython.pointer[cython.const[u64]],
    table: cython.pointer[AbbrevTable],
    levels: cython.pointer[cython.p_ulonglong], room: cython.pointer[u64],
    keys: cython.pointer[cython.const[u64]], count: cython.Py_ssize_t, ancestors: cython.p_ulonglong,
) -> cython.Py_ssize_t:  # fmt: skip
    """Fill MAX_ANCESTORS numbers per key (ascending offsets of DIEs of this unit): tag << TAG_SHIFT | offset, innermost
    first."""
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
            for step in range(MAX_ANCESTORS):
                if step < level:
                    ancestors[key * MAX_ANCESTORS + step] = levels[0][level - 1 - step]
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
        levels[0][level] = cython.cast(u64, entry.tag) << TAG_SHIFT | here
        level += 1
    return key


def ancestors(sections: DwarfSections, keys: cython.const[cython.ulonglong][::1]):
    """For keys in ascending order (offsets of DIEs, of any units): MAX_ANCESTORS numbers each, as bytes of u64."""
    found = bytearray(8 * MAX_ANCESTORS * keys.shape[0])
    at: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t
    tables: AbbrevCache
    budget: Budget
    fault: cython.int = 0
    levels: cython.p_ulonglong = cython.NULL
    room: u64 = 0
    if keys.shape[0] == 0:
        return found
    out: cython.ulonglong[::1] = memoryview(found).cast("Q")
    memset(cython.address(tables), 0, cython.sizeof(tables))
    found_budget(cython.address(budget), sections.file.info.size)
    file: cython.pointer[File] = cython.address(sections.file)
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
                collect_ancestors(
                    file, unit, table, cython.address(levels), cython.address(room),
                    cython.address(keys[at]), last - at, cython.address(out[at * MAX_ANCESTORS]),
                )  # fmt: skip
            at = last
        free_cache(cython.address(tables))
        free(levels)
    return found


def read_names(
    sections: DwarfSections, alt: DwarfSections, keys: cython.const[cython.ulonglong][::1], out: cython.ulonglong[::1]
):
    """The DW_AT_name of each DIE, following its origins, specifications and type units; 0 where there is none. Returns
    whether any may lie in a unit that is not known here."""
    at: cython.Py_ssize_t
    tables: AbbrevCache
    budget: Budget
    unresolved_refs: cython.int = 0
    memset(cython.address(tables), 0, cython.sizeof(tables))
    found_budget(cython.address(budget), sections.file.info.size)
    with cython.nogil:
        for at in range(keys.shape[0]):
            begin_unit(cython.address(budget), BYTES_PER_NAME)
            out[at] = follow(
                cython.NULL, cython.address(sections.file), cython.address(alt.file), cython.address(tables),
                cython.address(budget),
                keys[at], cython.address(unresolved_refs),
            )  # fmt: skip
        free_cache(cython.address(tables))
    return unresolved_refs != 0
