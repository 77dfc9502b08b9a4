"""What a function is called: its linkage name, else its name, looked for along its origins and specifications; and
where it is declared: the first DW_AT_decl_line and the first DW_AT_decl_file on that way (a definition leaves out the
one that is as in the declaration it completes).

In: the key of a DIE (its offset in .debug_info; with ALT_BIT, in the supplementary file's). Out: a name reference,
remembered per DIE, because an inlined function is met hundreds of times. A chain is followed for at most 16 steps.
A class that only refers to its type unit (clang's -fdebug-types-section) has its name there.

A C++ or Rust function without a linkage name (a static one, say) is given a reference of the source PLAIN, whose offset
counts in the list of such DIEs: their qualified names are put together afterwards, of many at once (qualified.py).
"""

import cython
from cython.cimports.libc.stdlib import calloc, free, realloc
from cython.cimports.libc.string import memset
from cython.cimports.whence.dwarf.kernels.abbrev import Tables, entry_of_code, table_of
from cython.cimports.whence.dwarf.kernels.budget import Budget, spend
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
    DW_FORM_ref_sig8,
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
    skip_form,
    sleb,
    target_of,
    uleb,
    unit_at,
)
from cython.cimports.whence.dwarf.kernels.shared import (
    ALT_BIT,
    BARE_BIT,
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
    File,
    u64,
)

MOST = cython.declare(cython.ulonglong, 1 << 16)  # names remembered before it starts anew
STEPS = cython.declare(cython.int, 16)
PLAIN = cython.declare(cython.ulonglong, cython.cast(cython.ulonglong, PLAIN_SOURCE) << 48)
SPREAD = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)


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
    """Where the key is, or belongs, in the hash table."""
    at: u64 = (key * SPREAD) >> 20 & (names.room - 1)
    while names.keys[at] != 0 and names.keys[at] != key + 1:
        at = (at + 1) & (names.room - 1)
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def widen(names: cython.pointer[Names]) -> cython.bint:
    """Twice the room; False when there is no memory (then the table stays as it is)."""
    old: Names = names[0]
    at: u64
    to: u64
    more: u64 = old.room * 2 if old.room else 1024
    keys = cython.cast(cython.p_ulonglong, calloc(more, 8))
    values = cython.cast(cython.p_ulonglong, calloc(more, 8))
    if keys == cython.NULL or values == cython.NULL:
        free(keys)
        free(values)
        return False
    names.keys = keys
    names.names = values
    names.room = more
    for at in range(old.room):
        if old.keys[at]:
            to = slot_for(names, old.keys[at] - 1)
            keys[to] = old.keys[at]
            values[to] = old.names[at]
    free(old.keys)
    free(old.names)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def remember_plain(names: cython.pointer[Names], key: u64, name: u64) -> u64:
    """A reference by which the qualified name is put in later; the plain name when there is no memory."""
    more: u64
    if names.plain_count == names.plain_room:
        more = names.plain_room * 2 if names.plain_room else 256
        block = realloc(names.plain, more * 8)
        if block == cython.NULL:
            return name
        names.plain = cython.cast(cython.p_ulonglong, block)
        names.plain_room = more
    names.plain[names.plain_count] = key
    names.plain_count += 1
    return PLAIN | (names.plain_count - 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def remember_start(names: cython.pointer[Names], name: u64, file: u64, line: u64) -> cython.void:
    """One more declaration; none where there is no memory or the line is none."""
    more: u64
    if name == 0 or line == 0 or line >> 32:
        return
    if names.start_count == names.start_room:
        more = names.start_room * 2 if names.start_room else 256
        block = realloc(names.starts, more * cython.sizeof(names.starts[0]))
        if block == cython.NULL:
            return
        names.starts = cython.cast(cython.pointer[Start], block)
        names.start_room = more
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
    tables: cython.pointer[Tables], budget: cython.pointer[Budget], key: u64, strangers: cython.p_int,
) -> u64:  # fmt: skip
    """Read DIEs from the key on along origins and specifications; gives the name. With `names` its start is kept, too;
    without, no linkage name is looked for."""
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
    for step in range(STEPS):
        where = alt if here >> ALT_BIT & 1 else file
        other = where if here >> ALT_BIT & 1 else alt
        at = here & ((cython.cast(u64, 1) << ALT_BIT) - 1)
        unit = unit_at(where, at)
        if unit == cython.NULL and at < where.info.size:
            strangers[0] = True
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
                if names != cython.NULL and not linkage and names.style != SHORT:
                    linkage = name_of(where, other, unit, value, form)
            elif name == DW_AT_decl_file:
                if names != cython.NULL and not has & 1 and value >> 32 == 0:
                    has |= 1
                    decl_file = value
                    if here >> ALT_BIT & 1 or not same_files(unit, names.current):
                        decl_file |= cython.cast(u64, unit - where.units) // WIDTH << 32
                        decl_file |= cython.cast(u64, 1) << (ALT_FILE if here >> ALT_BIT & 1 else OTHER_FILE)
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
                    strangers[0] |= value == 0
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
    elif found and names != cython.NULL and names.style == QUALIFIED and is_qualified(language):
        found = remember_plain(names, named | (bare if has == 0 else 0) << BARE_BIT, found)
    if names != cython.NULL and has == 3:
        remember_start(names, found, decl_file, decl_line)
    return found


def function_name(names, file, alt, tables, key):
    """The name of the function a DIE stands for; 0 when nothing says it."""
    at: u64
    name: u64
    if names.count >= MOST:
        memset(names.keys, 0, names.room * 8)
        names.count = 0
    if names.count * 2 >= names.room and not widen(names):
        return follow(names, file, alt, tables, cython.address(names.budget), key, cython.address(names.strangers))
    at = slot_for(names, key)
    if names.keys[at] == 0:
        name = follow(names, file, alt, tables, cython.address(names.budget), key, cython.address(names.strangers))
        names.keys[at] = key + 1
        names.names[at] = name
        names.count += 1
    return names.names[at]


def own_name(file, alt, tables, budget, key, strangers):
    """The name of a DIE of any kind, without what stands around it; linkage names are not looked for."""
    return follow(cython.NULL, file, alt, tables, budget, key, strangers)


def forget_names(names):
    free(names.keys)
    free(names.names)
    free(names.plain)
    free(names.starts)
    names.keys = names.names = names.plain = cython.NULL
    names.starts = cython.NULL
    names.count = names.room = names.plain_count = names.plain_room = names.start_count = names.start_room = 0
