"""Abbreviation tables, compiled for walks: everything that all DIEs of a code share is computed here.

Input: .debug_abbrev and a unit (offset of its table, sizes of addresses and offsets, language). Output: an
`AbbrevTable` of entries by code, each with a kind (a function, an inlined call, to search, to skip) and its attributes
as operations: attributes of fixed size are added up to a number of bytes to skip, and only attributes that the walk
needs are read. For most DIEs one addition is left.

Types are skipped with their children in C, where they cannot contain code; in other languages they are searched (gcc
puts the code of a C++ lambda into its closure class, rustc puts methods into enumerations). Tables are cached by
offset, a limited number of them: units share them (all units of Go, thousands of dwz's partial units), and names are
looked up in units with other tables. DWARF 5, section 7.5.3.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free, qsort
from cython.cimports.libc.string import memset
from cython.cimports.whence.dwarf.kernels import constants as c
from cython.cimports.whence.dwarf.kernels.budget import affordable, spend
from cython.cimports.whence.dwarf.kernels.reading import Attribute, fixed, form_size, next_attribute, uleb
from cython.cimports.whence.dwarf.kernels.units import (
    ABBREV,
    ADDRESS_SIZE,
    BAD_ABBREVS,
    COSTLY_ABBREVS,
    LANGUAGE,
    OFFSET_SIZE,
    OUT_OF_MEMORY,
    VERSION,
)
from cython.cimports.whence.kernels.hashtable import WHENCE_GOLDEN
from cython.cimports.whence.kernels.vector import reserve_next


def keeps_types_apart(language):
    """Return True for C and assembler (DW_LANG_*), where types contain no code."""
    return language in (
        c.DW_LANG_C89, c.DW_LANG_C, c.DW_LANG_C99, c.DW_LANG_C11, c.DW_LANG_C17, c.DW_LANG_Mips_Assembler
    )  # fmt: skip


def enumerations_hold_code(language):
    """Return True if an enumeration can have methods: not in C and C++, which have most enumerations."""
    return not keeps_types_apart(language) and language not in (
        c.DW_LANG_C_plus_plus, c.DW_LANG_C_plus_plus_11, c.DW_LANG_C_plus_plus_14, c.DW_LANG_C_plus_plus_17,
        c.DW_LANG_C_plus_plus_20,
    )  # fmt: skip


def kind_of(tag, language):
    """Return what the walk does with DIEs of a tag."""
    if tag == c.DW_TAG_subprogram:
        return FUNCTION
    if tag == c.DW_TAG_inlined_subroutine:
        return INLINED
    if tag in (
        c.DW_TAG_structure_type, c.DW_TAG_class_type, c.DW_TAG_union_type, c.DW_TAG_interface_type, c.DW_TAG_namespace
    ):  # fmt: skip
        return DEAD if keeps_types_apart(language) else PLAIN
    if tag == c.DW_TAG_enumeration_type:
        return PLAIN if enumerations_hold_code(language) else DEAD
    if tag in (
        c.DW_TAG_formal_parameter, c.DW_TAG_variable, c.DW_TAG_base_type, c.DW_TAG_pointer_type, c.DW_TAG_typedef,
        c.DW_TAG_const_type, c.DW_TAG_member, c.DW_TAG_array_type, c.DW_TAG_subroutine_type, c.DW_TAG_subrange_type,
        c.DW_TAG_enumerator, c.DW_TAG_call_site, c.DW_TAG_call_site_parameter, c.DW_TAG_GNU_call_site,
        c.DW_TAG_GNU_call_site_parameter, c.DW_TAG_template_type_parameter, c.DW_TAG_template_value_parameter,
        c.DW_TAG_variant, c.DW_TAG_variant_part, c.DW_TAG_GNU_template_template_param,
        c.DW_TAG_GNU_template_parameter_pack, c.DW_TAG_GNU_formal_parameter_pack,
    ):  # fmt: skip
        return DEAD  # parameters, variables, types without a body, call sites, template arguments, variants
    return PLAIN


def slot_of(name, kind, with_columns):
    """Return the slot of an attribute, or -1: functions and inlined calls need more than other DIEs."""
    if name == c.DW_AT_sibling:
        return S_SIBLING
    if kind != FUNCTION and kind != INLINED:
        return -1
    if name == c.DW_AT_low_pc:
        return S_LOW
    if name == c.DW_AT_high_pc:
        return S_HIGH
    if name == c.DW_AT_ranges:
        return S_RANGES
    if kind == FUNCTION:
        return S_DECLARATION if name == c.DW_AT_declaration else -1
    if name == c.DW_AT_call_file:
        return S_CALL_FILE
    if name == c.DW_AT_call_line:
        return S_CALL_LINE
    if with_columns and name == c.DW_AT_call_column:
        return S_CALL_COLUMN
    if with_columns and name == c.DW_AT_GNU_discriminator:
        return S_CALL_DISCRIMINATOR
    return S_ORIGIN if name == c.DW_AT_abstract_origin else -1


def table_of(tables, file, unit, budget, fault):
    """Return the unit's table, or NULL and a fault: BAD_ABBREVS, COSTLY_ABBREVS or OUT_OF_MEMORY.

    It is valid until the next call.
    """
    sizes: cython.ulonglong = (
        unit[ADDRESS_SIZE] << 32
        | unit[OFFSET_SIZE] << 16
        | unit[VERSION] << 8
        | enumerations_hold_code(unit[LANGUAGE]) << 1
        | keeps_types_apart(unit[LANGUAGE])
    )
    way: cython.int
    reached: cython.ulonglong = 0
    table: cython.pointer[AbbrevTable] = tables.last
    fault[0] = 0
    if table != cython.NULL and table.offset == unit[ABBREV] and table.sizes == sizes and table.file == file:
        if table.entries.count:
            table.used = tables.turn
            return table
    if tables.rows == cython.NULL:
        tables.rows = cython.cast(
            cython.pointer[AbbrevTable], calloc(TABLE_ROWS * TABLE_WAYS, cython.sizeof(AbbrevTable))
        )
        if tables.rows == cython.NULL:
            fault[0] = OUT_OF_MEMORY
            return cython.NULL
    tables.turn += 1
    row = tables.rows + TABLE_WAYS * ((unit[ABBREV] * WHENCE_GOLDEN) >> 58)
    for way in range(TABLE_WAYS):
        table = row + way
        if table.entries.count and table.offset == unit[ABBREV] and table.sizes == sizes and table.file == file:
            table.used = tables.turn
            tables.last = table
            return table
    if tables.bytes > MAX_CACHED_BYTES:
        free_tables(tables)
    table = row
    for way in range(1, TABLE_WAYS):
        if row[way].used < table.used:
            table = row + way
    tables.bytes -= bytes_of(table)
    table.used = tables.turn
    stop: cython.ulonglong = unit[ABBREV] + affordable(budget)
    if stop < unit[ABBREV] or stop > file.abbrev.size:
        stop = file.abbrev.size
    fault[0] = compile_abbrevs(table, file, unit, stop, cython.address(reached), tables.with_columns)
    tables.bytes += bytes_of(table)
    if fault[0] == BAD_ABBREVS and stop < file.abbrev.size:
        fault[0] = COSTLY_ABBREVS
    if not spend(budget, min(reached, stop) - min(unit[ABBREV], stop)):
        fault[0] = COSTLY_ABBREVS
    if fault[0]:
        table.entries.count = 0
        return cython.NULL
    table.file = file
    table.offset = unit[ABBREV]
    table.sizes = sizes
    tables.last = table
    return table


def bytes_of(table):
    """Return the size of a table in memory."""
    return table.entries.capacity * cython.sizeof(Entry) + table.ops.capacity * cython.sizeof(Op)


def compile_abbrevs(table, file, unit, size, reached, with_columns):
    """Compile the unit's table, which ends before `size`. Return 0, BAD_ABBREVS or OUT_OF_MEMORY.

    Sets `reached` to the offset where reading ended.
    """
    data = file.abbrev.at
    attribute: Attribute
    offset: cython.ulonglong = unit[ABBREV]
    table.entries.count = table.ops.count = 0
    table.dense = True
    if offset >= size:
        return BAD_ABBREVS
    while offset < size:
        code: cython.ulonglong = uleb(data, cython.address(offset), size)
        if code == 0:
            break
        tag: cython.ulonglong = uleb(data, cython.address(offset), size)
        kind: cython.int = kind_of(tag, unit[LANGUAGE])
        if not reserve_next(cython.address(table.entries)):
            return OUT_OF_MEMORY
        entry = cython.address(table.entries.items[table.entries.count])
        entry.code = code
        entry.kind = kind
        entry.tag = cython.cast(cython.ushort, min(tag, LARGEST_TAG))
        entry.first = cython.cast(cython.uint, table.ops.count)
        entry.children = cython.cast(cython.uchar, fixed(data, cython.address(offset), size, 1, 0))
        entry.spec = offset
        table.entries.count += 1
        if code != table.entries.count:
            table.dense = False
        run: cython.ulonglong = 0
        seen: cython.uint = 0
        while next_attribute(data, cython.address(offset), size, cython.address(attribute)):
            form = attribute.form
            width: cython.int = form_size(form, unit[ADDRESS_SIZE], unit[OFFSET_SIZE], unit[VERSION])
            if width == -2:
                reached[0] = offset
                return BAD_ABBREVS
            slot: cython.int = slot_of(attribute.name, kind, with_columns)
            if slot == S_SIBLING and not entry.children:
                slot = -1
            if slot >= 0:  # a DIE has an attribute once (2.2); an attribute without bytes could be repeated for free
                if width == 0 and seen >> slot & 1:
                    continue
                seen |= cython.cast(cython.uint, 1) << slot
            if slot < 0 and width >= 0:
                run += width
                continue
            if slot >= 0:
                what: cython.int = READ
            elif form in (c.DW_FORM_exprloc, c.DW_FORM_block):
                what = SKIP_BLOCK
            elif form == c.DW_FORM_string:
                what = SKIP_TEXT
            elif form in (c.DW_FORM_indirect, c.DW_FORM_block1, c.DW_FORM_block2, c.DW_FORM_block4):
                what = SKIP_FORM
            else:
                what = SKIP_LEB
            if not reserve_next(cython.address(table.ops)):
                return OUT_OF_MEMORY
            op = cython.address(table.ops.items[table.ops.count])
            table.ops.count += 1
            op.what = what
            op.slot = slot if slot >= 0 else 0
            op.form = cython.cast(cython.ushort, form)
            op.before = cython.cast(cython.uint, run)
            op.implicit = attribute.implicit
            run = 0
        if offset > size:
            reached[0] = offset
            return BAD_ABBREVS
        entry.tail = cython.cast(cython.uint, run)
        entry.ops = cython.cast(cython.uint, table.ops.count) - entry.first
    reached[0] = offset
    if not table.dense:
        qsort(table.entries.items, table.entries.count, cython.sizeof(table.entries.items[0]), by_code)
    return 0


def by_code(left, right):
    """Compare entries by code (their first field)."""
    first: cython.ulonglong = cython.cast(cython.pointer[cython.const[cython.ulonglong]], left)[0]
    second: cython.ulonglong = cython.cast(cython.pointer[cython.const[cython.ulonglong]], right)[0]
    return 1 if first > second else -1 if first < second else 0


def find_entry(table, code):
    """Return the entry of a code in a table whose codes are not 1, 2, 3, ..., or NULL."""
    low: cython.ulonglong = 0
    high: cython.ulonglong = table.entries.count
    while low < high:
        middle: cython.ulonglong = (low + high) // 2
        if table.entries.items[middle].code < code:
            low = middle + 1
        else:
            high = middle
    if low < table.entries.count and table.entries.items[low].code == code:
        return cython.address(table.entries.items[low])
    return cython.NULL


def free_tables(tables):
    """Free every table."""
    i: cython.int
    for i in range(TABLE_ROWS * TABLE_WAYS):
        free(tables.rows[i].entries.items)
        free(tables.rows[i].ops.items)
    memset(tables.rows, 0, TABLE_ROWS * TABLE_WAYS * cython.sizeof(AbbrevTable))
    tables.last = cython.NULL
    tables.bytes = 0


def free_cache(tables):
    if tables.rows != cython.NULL:
        free_tables(tables)
        free(tables.rows)
    memset(tables, 0, cython.sizeof(AbbrevCache))


ALL_TABLES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


def refs_stay_in_units(data: cython.const[cython.uchar][::1], tables: cython.ulonglong = ALL_TABLES):
    """Return True if no attribute of a .debug_abbrev can refer to DIEs of other units of the file.

    False if unsure. With `tables`, only the first tables are read.
    """
    p: cython.pointer[cython.const[cython.uchar]] = cython.NULL
    offset: cython.ulonglong = 0
    size: cython.ulonglong = data.shape[0]
    attribute: Attribute
    good: cython.bint = True
    if size == 0:
        return True
    p = cython.address(data[0])
    with cython.nogil:
        while good and offset < size:
            if uleb(p, cython.address(offset), size) == 0:  # the end of a table
                tables -= 1
                if tables == 0:
                    break
                continue
            uleb(p, cython.address(offset), size)
            fixed(p, cython.address(offset), size, 1, 0)
            while good and next_attribute(p, cython.address(offset), size, cython.address(attribute)):
                good = attribute.form not in (c.DW_FORM_ref_addr, c.DW_FORM_indirect)
            good = good and offset <= size
    return good
