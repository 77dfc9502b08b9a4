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
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memset
from cython.cimports.whence.dwarf.kernels import constants as c
from cython.cimports.whence.dwarf.kernels.abbrevs import (
    READ,
    S_SIBLING,
    SKIP_TEXT,
    AbbrevCache,
    entry_of_code,
    free_cache,
    table_of,
)
from cython.cimports.whence.dwarf.kernels.budget import Budget, begin_unit, found_budget, spend
from cython.cimports.whence.dwarf.kernels.reading import (
    name_of,
    number,
    read_form,
    skip,
    skip_form,
    skip_string,
    sleb,
    target_of,
    type_unit,
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
    LANGUAGE,
    OFFSET,
    OFFSET_SIZE,
    STMT_LIST,
    TYPES_BIT,
    WIDTH,
    DwarfSections,
    File,
    u64,
)
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.hashtable import clear_index, find_u64, insert, mix, release_index
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.vector import U64s, grow, push_u64, release

MOST_NAMES = cython.declare(cython.Py_ssize_t, 1 << 16)  # names remembered before it starts anew
MOST_STEPS = cython.declare(cython.int, 16)  # along origins and specifications
# Which of its coordinates a declaration has
HAS_DECL_FILE = cython.declare(cython.int, 1)
HAS_DECL_LINE = cython.declare(cython.int, 2)
HAS_START = cython.declare(cython.int, 3)

PLAIN = cython.declare(cython.ulonglong, cython.cast(cython.ulonglong, PLAIN_SOURCE) << 48)
BYTES_PER_NAME = cython.declare(cython.ulonglong, 16)  # of a DIE whose name is wanted, with its ancestors


def is_qualified(language):
    """Whether it is C++ or Rust, whose functions are named with the scopes that they lie in."""
    return language in (
        c.DW_LANG_C_plus_plus, c.DW_LANG_C_plus_plus_11, c.DW_LANG_C_plus_plus_14, c.DW_LANG_C_plus_plus_17,
        c.DW_LANG_C_plus_plus_20, c.DW_LANG_C_plus_plus_23, c.DW_LANG_Rust,
    )  # fmt: skip


def remember_plain(names, key, name):
    """A reference by which the qualified name is put in later; the plain name when there is no memory."""
    if not push_u64(cython.address(names.plain), key):
        return name
    return PLAIN | cython.cast(u64, names.plain.count - 1)


def remember_start(names, name, file, line):
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


def same_files(unit, other):
    """Whether two units count their files in one table."""
    return unit == other or (
        unit[HAS] & other[HAS] & HAS_STMT_LIST != 0 and unit[STMT_LIST] == other[STMT_LIST]
    )  # fmt: skip


def type_of(file, signature, budget):
    """The offset of the DIE of a type, by its signature, as its unit's header has it; 0 when no unit here has it."""
    if file == cython.NULL or not spend(budget, 1):
        return 0
    unit = type_unit(file, signature)
    if unit == cython.NULL:
        return 0
    value: u64 = number(
        file.info.at + unit[DIE] - unit[OFFSET_SIZE], cython.cast(cython.int, unit[OFFSET_SIZE]), file.big
    )
    return unit[OFFSET] + value if value < unit[END] - unit[OFFSET] else 0


def follow(names, file, alt, types, tables, budget, key, unresolved_refs):
    """Read DIEs from the key on along origins and specifications. Returns the name. With `names` its start is kept,
    too; without, no linkage name is looked for, but type units are: those of `types` (.debug_types, or NULL), too."""
    step: cython.int
    die: u64 = key
    following: u64
    origin: u64
    found: u64 = 0
    linkage: u64 = 0
    decl_file: u64 = 0
    decl_line: u64 = 0
    has: cython.int = 0  # HAS_DECL_*
    named: u64 = 0
    language: u64 = 0
    bare: u64 = 1  # not declared, without a frame base, not artificial: line tables only (clang -g1)
    fault: cython.int = 0
    for step in range(MOST_STEPS):
        own = alt if die >> ALT_BIT & 1 else types if die >> TYPES_BIT & 1 else file
        other = own if die >> ALT_BIT & 1 else alt
        offset: u64 = die & ((cython.cast(u64, 1) << TYPES_BIT) - 1)
        if own == cython.NULL:
            break
        unit = unit_at(own, offset)
        if unit == cython.NULL and offset < own.info.size:
            unresolved_refs[0] = True
            if names != cython.NULL and own == file:
                push_u64(cython.address(names.unresolved), offset)
        if unit == cython.NULL or unit[FAULT] or offset <= unit[OFFSET]:
            break
        spec: u64 = uleb(own.info.at, cython.address(offset), unit[END])
        if offset > unit[END] or spec == 0:
            break
        table = table_of(tables, own, unit, budget, cython.address(fault))
        if table == cython.NULL:
            break
        entry = entry_of_code(table, spec)
        if entry == cython.NULL:
            break
        spec = entry.spec
        spec_end: u64 = own.abbrev.size
        following = origin = 0
        while True:
            name: u64 = uleb(own.abbrev.at, cython.address(spec), spec_end)
            form: u64 = uleb(own.abbrev.at, cython.address(spec), spec_end)
            implicit: u64 = (
                sleb(own.abbrev.at, cython.address(spec), spec_end) if form == c.DW_FORM_implicit_const else 0
            )
            if spec > spec_end or (name == 0 and form == 0) or not spend(budget, 1):
                break
            if name not in (
                c.DW_AT_name, c.DW_AT_linkage_name, c.DW_AT_MIPS_linkage_name, c.DW_AT_abstract_origin,
                c.DW_AT_specification, c.DW_AT_decl_file, c.DW_AT_decl_line,
            ) and (name != c.DW_AT_signature or names != cython.NULL):  # fmt: skip
                if name in (c.DW_AT_frame_base, c.DW_AT_artificial):
                    bare = 0
                skip_form(own.info.at, cython.address(offset), unit[END], form, unit, own.big)
                continue
            value: u64 = read_form(
                own.info.at, cython.address(offset), unit[END], cython.address(form), implicit, unit, own.big
            )
            if offset > unit[END]:
                break
            if name in (c.DW_AT_linkage_name, c.DW_AT_MIPS_linkage_name):
                if names != cython.NULL and not linkage and names.style != SHORT:
                    linkage = name_of(own, other, unit, value, form)
            elif name == c.DW_AT_decl_file:
                if names != cython.NULL and not has & HAS_DECL_FILE and value >> 32 == 0:
                    has |= HAS_DECL_FILE
                    decl_file = value
                    if die >> ALT_BIT & 1 or not same_files(unit, names.current):
                        decl_file |= cython.cast(u64, unit - own.units) // WIDTH << FILE_UNIT_SHIFT
                        decl_file |= cython.cast(u64, 1) << (ALT_FILE_BIT if die >> ALT_BIT & 1 else OTHER_FILE_BIT)
            elif name == c.DW_AT_decl_line:
                if not has & HAS_DECL_LINE:
                    has |= HAS_DECL_LINE
                    decl_line = value
            elif name == c.DW_AT_name:
                if not found:
                    found = name_of(own, other, unit, value, form)
                    named = die
                    language = unit[LANGUAGE]
                    if language == 0 and names != cython.NULL:  # dwz: a partial unit is of those that import it
                        language = names.current[LANGUAGE]
            else:
                if name == c.DW_AT_signature:
                    signature: u64 = value
                    value = 0
                    if form == c.DW_FORM_ref_sig8:
                        value = type_of(alt if die >> ALT_BIT & 1 else file, signature, budget)
                    if value == 0 and form == c.DW_FORM_ref_sig8 and not die >> ALT_BIT & 1:
                        value = type_of(types, signature, budget)
                        value |= cython.cast(u64, value != 0) << TYPES_BIT
                    unresolved_refs[0] |= value == 0
                else:
                    value = target_of(unit, value, form)
                    if value and die >> TYPES_BIT & 1 and form != c.DW_FORM_ref_addr:
                        value |= cython.cast(u64, 1) << TYPES_BIT
                if value and die >> ALT_BIT & 1:
                    value |= cython.cast(u64, 1) << ALT_BIT
                if name == c.DW_AT_specification:
                    following = value
                else:
                    origin = value
        following = origin if origin else following
        if not following or following == die or (linkage and has == HAS_START):
            break
        die = following
    if linkage:
        found = linkage
    elif found and names != cython.NULL and names.style == QUALIFIED and is_qualified(language):
        found = remember_plain(names, named | (bare if has == 0 else 0) << BARE_BIT, found)
    if names != cython.NULL and has == HAS_START:
        remember_start(names, found, decl_file, decl_line)
    return found


def function_name(names, file, alt, tables, key):
    """The name of the function that a DIE describes or refers to; 0 when it has none."""
    if names.count >= MOST_NAMES:
        forget_names(names)
    item: cython.Py_ssize_t = find_u64(
        cython.address(names.index), names.known, cython.sizeof(KnownName), key, names.seed
    )
    if item >= 0:
        return names.known[item].name
    name: u64 = follow(
        names, file, alt, cython.NULL, tables, cython.address(names.budget), key, cython.address(names.unresolved_refs)
    )
    if grow(
        cython.cast(cython.pp_void, cython.address(names.known)), cython.address(names.room), names.count + 1,
        cython.sizeof(KnownName),
    ) and insert(cython.address(names.index), mix(key, names.seed), names.count):  # fmt: skip
        names.known[names.count].key = key
        names.known[names.count].name = name
        names.count += 1
    return name


def forget_names(names):
    clear_index(cython.address(names.index))
    names.count = 0


def free_names(names):
    release_index(cython.address(names.index))
    release(cython.address(names.plain))
    release(cython.address(names.unresolved))
    free(names.known)
    free(names.starts)
    names.known = cython.NULL
    names.starts = cython.NULL
    names.count = names.room = names.start_count = names.start_room = 0


# The DIEs that a DIE lies in


def collect_ancestors(file, unit, table, levels, keys, count, ancestors):
    """Fill MAX_ANCESTORS numbers per key (ascending offsets of DIEs of this unit): tag << TAG_SHIFT | offset, innermost
    first."""
    data = file.info.at
    offset: u64 = unit[DIE]
    end: u64 = unit[END]
    step: cython.Py_ssize_t
    key: cython.Py_ssize_t = 0
    levels.count = 0
    while offset < end and key < count:
        die: u64 = offset
        while key < count and keys[key] < die:
            key += 1  # it is no DIE
        if key < count and keys[key] == die:
            for step in range(MAX_ANCESTORS):
                if step < levels.count:
                    ancestors[key * MAX_ANCESTORS + step] = levels.items[levels.count - 1 - step]
            key += 1
        code: u64 = uleb(data, cython.address(offset), end)
        if code == 0:
            if levels.count:
                levels.count -= 1
            continue
        entry = entry_of_code(table, code)
        if entry == cython.NULL:
            break
        sibling: u64 = 0
        op = table.ops + entry.first
        for step in range(entry.ops):
            skip(cython.address(offset), end, op.before)
            form: u64 = op.form
            if op.what == SKIP_TEXT:
                skip_string(data, cython.address(offset), end)
            elif op.what == READ:
                value: u64 = read_form(
                    data, cython.address(offset), end, cython.address(form), op.implicit, unit, file.big
                )
                if op.slot == S_SIBLING and form >= c.DW_FORM_ref1 and form <= c.DW_FORM_ref_udata:
                    sibling = unit[OFFSET] + value
            else:
                skip_form(data, cython.address(offset), end, form, unit, file.big)
            op += 1
        skip(cython.address(offset), end, entry.tail)
        if not entry.children or offset > end:
            continue
        if sibling > offset and sibling <= end and key < count and keys[key] >= sibling:
            offset = sibling
            continue
        if not push_u64(levels, cython.cast(u64, entry.tag) << TAG_SHIFT | die):
            break
    return key


def ancestors(sections: DwarfSections, keys: cython.const[cython.ulonglong][::1]):
    """For keys in ascending order (offsets of DIEs, of any units): MAX_ANCESTORS numbers each, as bytes of u64."""
    found = bytearray(8 * MAX_ANCESTORS * keys.shape[0])
    i: cython.Py_ssize_t = 0
    tables: AbbrevCache
    budget: Budget
    fault: cython.int = 0
    levels: U64s
    if keys.shape[0] == 0:
        return found
    out: cython.ulonglong[::1] = memoryview(found).cast("Q")
    memset(cython.address(tables), 0, cython.sizeof(tables))
    memset(cython.address(levels), 0, cython.sizeof(levels))
    found_budget(cython.address(budget), sections.file.info.size)
    file: cython.pointer[File] = cython.address(sections.file)
    work: cython.Py_ssize_t = 0
    try:
        with cython.nogil:
            while i < keys.shape[0]:
                last: cython.Py_ssize_t = i + 1
                unit = unit_at(file, keys[i])
                if unit == cython.NULL or unit[FAULT]:
                    i = last
                    continue
                while last < keys.shape[0] and keys[last] < unit[END]:
                    last += 1
                handle_signals(cython.address(work), unit[END] - unit[OFFSET])
                begin_unit(cython.address(budget), unit[END] - unit[OFFSET])
                table = table_of(cython.address(tables), file, unit, cython.address(budget), cython.address(fault))
                if table != cython.NULL:
                    collect_ancestors(
                        file,
                        unit,
                        table,
                        cython.address(levels),
                        cython.address(keys[i]),
                        last - i,
                        cython.address(out[i * MAX_ANCESTORS]),
                    )
                i = last
    finally:
        free_cache(cython.address(tables))
        release(cython.address(levels))
    return found


def read_names(
    sections: DwarfSections,
    alt: DwarfSections,
    types: DwarfSections | None,
    keys: cython.const[cython.ulonglong][::1],
    out: cython.ulonglong[::1],
):
    """The DW_AT_name of each DIE, following its origins, specifications and type units; 0 where there is none. `types`
    are the sections with .debug_types in place of .debug_info (None: not wanted). Returns whether any may lie in a unit
    that is not known here."""
    i: cython.Py_ssize_t
    tables: AbbrevCache
    budget: Budget
    unresolved_refs: cython.int = 0
    type_file: cython.pointer[cython.const[File]] = cython.NULL
    if types is not None:
        type_file = cython.address(types.file)
    belong(out.shape[0] >= keys.shape[0])
    memset(cython.address(tables), 0, cython.sizeof(tables))
    found_budget(cython.address(budget), sections.file.info.size)
    work: cython.Py_ssize_t = 0
    try:
        with cython.nogil:
            for i in range(keys.shape[0]):
                handle_signals(cython.address(work), 32)
                begin_unit(cython.address(budget), BYTES_PER_NAME)
                out[i] = follow(
                    cython.NULL, cython.address(sections.file), cython.address(alt.file), type_file,
                    cython.address(tables), cython.address(budget), keys[i], cython.address(unresolved_refs),
                )  # fmt: skip
    finally:
        free_cache(cython.address(tables))
    return unresolved_refs != 0
