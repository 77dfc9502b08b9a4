"""Names and declarations of functions, and the DIEs around them.

The name of a function is its linkage name, otherwise its name, found along its origins and specifications; its
declaration is the first DW_AT_decl_line and the first DW_AT_decl_file on that way (a definition omits what equals the
declaration).

Input: the key of a DIE (its offset in .debug_info; with ALT_BIT, in the supplementary file's). Output: a name
reference, cached by DIE because an inlined function is met hundreds of times. A chain is followed for at most
MAX_STEPS. A class that only refers to its type unit (clang's -fdebug-types-section) has its name there.

A C++ or Rust function without a linkage name (such as a static function) gets a reference of the source PLAIN_SOURCE,
whose offset is an index of the list of such DIEs: functions.py replaces them by qualified names afterwards, many at
once. For that, `ancestors` returns the DIEs around each of them. One pass over a unit serves many DIEs; subtrees
without any are skipped by DW_AT_sibling, if there is one.
"""

import cython
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memset
from cython.cimports.whence.dwarf.kernels import constants as c
from cython.cimports.whence.dwarf.kernels.abbrevs import (
    S_SIBLING,
    AbbrevCache,
    DieCursor,
    entry_of_code,
    free_cache,
    next_die,
    read_attributes,
    table_of,
)
from cython.cimports.whence.dwarf.kernels.budget import Budget, begin_unit, make_budget, spend
from cython.cimports.whence.dwarf.kernels.reading import (
    Attribute,
    name_of,
    next_attribute,
    number,
    read_form,
    skip_form,
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
from cython.cimports.whence.kernels.vector import U64s, push_u64, release, reserve_next

MAX_NAMES = cython.declare(cython.Py_ssize_t, 1 << 16)  # cached names; then the cache is cleared
MAX_STEPS = cython.declare(cython.int, 16)  # along origins and specifications
# the known coordinates of a declaration
HAS_DECL_FILE = cython.declare(cython.int, 1)
HAS_DECL_LINE = cython.declare(cython.int, 2)
HAS_START = cython.declare(cython.int, 3)

PLAIN = cython.declare(cython.ulonglong, cython.cast(cython.ulonglong, PLAIN_SOURCE) << 48)
BYTES_PER_NAME = cython.declare(cython.ulonglong, 16)  # the budget of a DIE whose name is read


def is_qualified(language):
    """Return True for C++ and Rust, where names are qualified by the scopes around them."""
    return language in (
        c.DW_LANG_C_plus_plus, c.DW_LANG_C_plus_plus_11, c.DW_LANG_C_plus_plus_14, c.DW_LANG_C_plus_plus_17,
        c.DW_LANG_C_plus_plus_20, c.DW_LANG_C_plus_plus_23, c.DW_LANG_Rust,
    )  # fmt: skip


def remember_plain(names, key, name):
    """Return a reference to be replaced by the qualified name; the plain name if memory runs out."""
    if not push_u64(cython.address(names.plain), key):
        return name
    return PLAIN | cython.cast(u64, names.plain.count - 1)


def remember_start(names, name, file, line):
    """Add a declaration, unless the name or the line is unknown or memory runs out."""
    if name == 0 or line == 0 or line >> 32:
        return
    if not reserve_next(cython.address(names.starts)):
        return
    start = cython.address(names.starts.items[names.starts.count])
    start.name = name
    start.file = file
    start.line = cython.cast(cython.uint, line)
    names.starts.count += 1


def same_files(unit, other):
    """Return True if two units have the same file table."""
    return unit == other or (
        unit[HAS] & other[HAS] & HAS_STMT_LIST != 0 and unit[STMT_LIST] == other[STMT_LIST]
    )  # fmt: skip


def type_of(file, signature, budget):
    """Return the offset of a type's DIE by its signature, from the header of its unit; 0 if no unit has it."""
    if file == cython.NULL or not spend(budget, 1):
        return 0
    unit = type_unit(file, signature)
    if unit == cython.NULL:
        return 0
    value: u64 = number(
        file.info.at + unit[DIE] - unit[OFFSET_SIZE], cython.cast(cython.int, unit[OFFSET_SIZE]), file.big
    )
    return unit[OFFSET] + value if value < unit[END] - unit[OFFSET] else 0


def begin_search(search, names, file, alt, types, tables, budget):
    memset(search, 0, cython.sizeof(Search))
    search.names, search.file, search.alt, search.types = names, file, alt, types
    search.tables, search.budget = tables, budget
    search.bare = True


def follow(search, key):
    """Read DIEs from the key along origins and specifications, and return the name; 0 if there is no name.

    With `names`, the declaration is stored as well. Without, linkage names are ignored, and type units are searched,
    including those of `types` (.debug_types, or NULL).
    """
    step: cython.int
    names = search.names
    search.die = key
    search.name = search.linkage = search.decl_file = search.decl_line = search.named = search.language = 0
    search.has = 0
    search.bare = True
    for step in range(MAX_STEPS):
        search.origin = search.specification = 0
        if not read_declaration(search):
            break
        target: u64 = search.origin if search.origin else search.specification
        if not target or target == search.die or (search.linkage and search.has == HAS_START):
            break
        search.die = target
    name: u64 = search.name
    if search.linkage:
        name = search.linkage
    elif name and names != cython.NULL and names.style == QUALIFIED and is_qualified(search.language):
        name = remember_plain(names, search.named | cython.cast(u64, search.bare and search.has == 0) << BARE_BIT, name)
    if names != cython.NULL and search.has == HAS_START:
        remember_start(names, name, search.decl_file, search.decl_line)
    return name


def read_declaration(search):
    """Read the DIE of a search. False if it cannot be found or read."""
    attribute: Attribute
    fault: cython.int = 0
    in_alt: cython.bint = search.die >> ALT_BIT & 1
    in_types: cython.bint = search.die >> TYPES_BIT & 1
    file = search.alt if in_alt else search.types if in_types else search.file
    offset: u64 = search.die & ((cython.cast(u64, 1) << TYPES_BIT) - 1)
    if file == cython.NULL:
        return False
    unit = unit_at(file, offset)
    if unit == cython.NULL and offset < file.info.size:
        search.unresolved_refs = True
        if search.names != cython.NULL and file == search.file:
            push_u64(cython.address(search.names.unresolved), offset)
    if unit == cython.NULL or unit[FAULT] or offset <= unit[OFFSET]:
        return False
    code: u64 = uleb(file.info.at, cython.address(offset), unit[END])
    if offset > unit[END] or code == 0:
        return False
    table = table_of(search.tables, file, unit, search.budget, cython.address(fault))
    if table == cython.NULL:
        return False
    entry = entry_of_code(table, code)
    if entry == cython.NULL:
        return False
    spec: u64 = entry.spec
    while next_attribute(file.abbrev.at, cython.address(spec), file.abbrev.size, cython.address(attribute)):
        if not spend(search.budget, 1):
            break
        if attribute.name not in (
            c.DW_AT_name, c.DW_AT_linkage_name, c.DW_AT_MIPS_linkage_name, c.DW_AT_abstract_origin,
            c.DW_AT_specification, c.DW_AT_decl_file, c.DW_AT_decl_line,
        ) and (attribute.name != c.DW_AT_signature or search.names != cython.NULL):  # fmt: skip
            if attribute.name in (c.DW_AT_frame_base, c.DW_AT_artificial):
                search.bare = False
            skip_form(file.info.at, cython.address(offset), unit[END], attribute.form, unit, file.big)
            continue
        value: u64 = read_form(
            file.info.at, cython.address(offset), unit[END], cython.address(attribute.form), attribute.implicit, unit,
            file.big,
        )  # fmt: skip
        if offset > unit[END]:
            break
        if attribute.name in (c.DW_AT_abstract_origin, c.DW_AT_specification, c.DW_AT_signature):
            target: u64 = target_of_attribute(search, unit, cython.address(attribute), value)
            if attribute.name == c.DW_AT_specification:
                search.specification = target
            else:
                search.origin = target
        else:
            note_attribute(search, file, unit, cython.address(attribute), value)
    return True


def note_attribute(search, file, unit, attribute, value):
    """Store what an attribute says about the name and the declaration; the first of several counts."""
    names = search.names
    in_alt: cython.bint = search.die >> ALT_BIT & 1
    alt = file if in_alt else search.alt
    if attribute.name == c.DW_AT_name:
        if not search.name:
            search.name = name_of(file, alt, unit, value, attribute.form)
            search.named = search.die
            search.language = unit[LANGUAGE]
            if search.language == 0 and names != cython.NULL:  # dwz: a partial unit has the language of its importer
                search.language = names.current[LANGUAGE]
    elif attribute.name == c.DW_AT_decl_line:
        if not search.has & HAS_DECL_LINE:
            search.has |= HAS_DECL_LINE
            search.decl_line = value
    elif names == cython.NULL:
        return
    elif attribute.name == c.DW_AT_decl_file:
        if not search.has & HAS_DECL_FILE and value >> 32 == 0:
            search.has |= HAS_DECL_FILE
            search.decl_file = value
            if in_alt or not same_files(unit, names.current):
                search.decl_file |= cython.cast(u64, unit - file.units) // WIDTH << FILE_UNIT_SHIFT
                search.decl_file |= cython.cast(u64, 1) << (ALT_FILE_BIT if in_alt else OTHER_FILE_BIT)
    elif not search.linkage and names.style != SHORT:
        search.linkage = name_of(file, alt, unit, value, attribute.form)


def target_of_attribute(search, unit, attribute, value):
    """Return the key of the DIE that an origin, a specification or a signature refers to, or 0."""
    in_alt: cython.bint = search.die >> ALT_BIT & 1
    if attribute.name == c.DW_AT_signature:
        target: u64 = 0
        if attribute.form == c.DW_FORM_ref_sig8:
            target = type_of(search.alt if in_alt else search.file, value, search.budget)
            if target == 0 and not in_alt:
                target = type_of(search.types, value, search.budget)
                target |= cython.cast(u64, target != 0) << TYPES_BIT
        search.unresolved_refs |= target == 0
    else:
        target = target_of(unit, value, attribute.form)
        if target and search.die >> TYPES_BIT & 1 and attribute.form != c.DW_FORM_ref_addr:
            target |= cython.cast(u64, 1) << TYPES_BIT
    return target | cython.cast(u64, target != 0 and in_alt) << ALT_BIT


def function_name(names, file, alt, tables, key):
    """Return the name of the function that a DIE describes or refers to; 0 if it has no name."""
    search: Search
    if names.known.count >= MAX_NAMES:
        forget_names(names)
    item: cython.Py_ssize_t = find_u64(
        cython.address(names.index), names.known.items, cython.sizeof(KnownName), key, names.seed
    )
    if item >= 0:
        return names.known.items[item].name
    begin_search(
        cython.address(search), names, file, alt, cython.NULL, tables, cython.address(names.budget)
    )  # fmt: skip
    name: u64 = follow(cython.address(search), key)
    names.unresolved_refs |= search.unresolved_refs
    if reserve_next(cython.address(names.known)) and insert(
        cython.address(names.index), mix(key, names.seed), names.known.count
    ):
        known = cython.address(names.known.items[names.known.count])
        known.key = key
        known.name = name
        names.known.count += 1
    return name


def forget_names(names):
    clear_index(cython.address(names.index))
    names.known.count = 0


def free_names(names):
    release_index(cython.address(names.index))
    release(cython.address(names.plain))
    release(cython.address(names.unresolved))
    free(names.known.items)
    free(names.starts.items)
    memset(cython.address(names.known), 0, cython.sizeof(names.known))
    memset(cython.address(names.starts), 0, cython.sizeof(names.starts))


# The DIEs around a DIE


def collect_ancestors(cursor, levels, keys, count, ancestors):
    """Set MAX_ANCESTORS numbers for each key, innermost first: tag << TAG_SHIFT | offset.

    Keys are offsets of DIEs of the cursor's unit in ascending order; others are passed over.
    """
    step: cython.Py_ssize_t
    key: cython.Py_ssize_t = 0
    levels.count = 0
    while key < count and next_die(cursor):
        while key < count and keys[key] < cursor.die:
            key += 1
        if key < count and keys[key] == cursor.die:
            for step in range(min(MAX_ANCESTORS, levels.count)):
                ancestors[key * MAX_ANCESTORS + step] = levels.items[levels.count - 1 - step]
            key += 1
        if cursor.entry == cython.NULL:
            if levels.count:
                levels.count -= 1
            continue
        if not read_attributes(cursor) or not cursor.entry.children:
            continue
        if cursor.has >> S_SIBLING & 1 and c.DW_FORM_ref1 <= cursor.forms[S_SIBLING] <= c.DW_FORM_ref_udata:
            sibling: u64 = cursor.unit[OFFSET] + cursor.values[S_SIBLING]
            if cursor.offset < sibling <= cursor.unit[END] and key < count and keys[key] >= sibling:
                cursor.offset = sibling
                continue
        if not push_u64(levels, cython.cast(u64, cursor.entry.tag) << TAG_SHIFT | cursor.die):
            break


def ancestors(sections: DwarfSections, keys: cython.const[cython.ulonglong][::1]):
    """Return, as bytes of u64, MAX_ANCESTORS numbers for each key: ascending offsets of DIEs of any units."""
    result = bytearray(8 * MAX_ANCESTORS * keys.shape[0])
    i: cython.Py_ssize_t = 0
    tables: AbbrevCache
    budget: Budget
    fault: cython.int = 0
    levels: U64s
    cursor: DieCursor
    if keys.shape[0] == 0:
        return result
    out: cython.ulonglong[::1] = memoryview(result).cast("Q")
    memset(cython.address(tables), 0, cython.sizeof(tables))
    memset(cython.address(levels), 0, cython.sizeof(levels))
    make_budget(cython.address(budget), sections.file.info.size)
    file: cython.pointer[File] = cython.address(sections.file)
    cursor.file = file
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
                cursor.unit, cursor.offset = unit, unit[DIE]
                cursor.table = table_of(
                    cython.address(tables), file, unit, cython.address(budget), cython.address(fault)
                )
                if cursor.table != cython.NULL:
                    collect_ancestors(
                        cython.address(cursor), cython.address(levels), cython.address(keys[i]), last - i,
                        cython.address(out[i * MAX_ANCESTORS]),
                    )  # fmt: skip
                i = last
    finally:
        free_cache(cython.address(tables))
        release(cython.address(levels))
    return result


def read_names(
    sections: DwarfSections,
    alt: DwarfSections,
    types: DwarfSections | None,
    keys: cython.const[cython.ulonglong][::1],
    out: cython.ulonglong[::1],
    named: cython.ulonglong[::1],
):
    """Write the DW_AT_name of each DIE along origins, specifications and type units; 0 if it has no name.

    `named` gets the keys of the DIEs that have these names. `types` are the sections with .debug_types as .debug_info,
    or None. Return True if names are in unknown units.
    """
    i: cython.Py_ssize_t
    tables: AbbrevCache
    budget: Budget
    search: Search
    type_file: cython.pointer[cython.const[File]] = cython.NULL
    if types is not None:
        type_file = cython.address(types.file)
    belong(out.shape[0] >= keys.shape[0] and named.shape[0] >= keys.shape[0])
    memset(cython.address(tables), 0, cython.sizeof(tables))
    make_budget(cython.address(budget), sections.file.info.size)
    begin_search(
        cython.address(search), cython.NULL, cython.address(sections.file), cython.address(alt.file), type_file,
        cython.address(tables), cython.address(budget),
    )  # fmt: skip
    work: cython.Py_ssize_t = 0
    try:
        with cython.nogil:
            for i in range(keys.shape[0]):
                handle_signals(cython.address(work), 32)
                begin_unit(cython.address(budget), BYTES_PER_NAME)
                out[i] = follow(cython.address(search), keys[i])
                named[i] = search.named
    finally:
        free_cache(cython.address(tables))
    return search.unresolved_refs
