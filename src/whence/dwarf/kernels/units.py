"""Unit headers and what their root DIEs say, all units of a section in one pass.

In: .debug_info, .debug_abbrev and the other sections root attributes point into. Out: one row of WIDTH numbers per unit
(shared.pxd names them). A header that breaks a rule leaves its fault in the row; only a length that leaves the section
ends the scan, because nothing says where the next unit begins. DWARF 5, sections 7.5.1 and 3.1.
"""

import cython
from cython.cimports.libc.string import memset
from cython.cimports.whence.dwarf.kernels.budget import Budget, begin_unit, found_budget, spend
from cython.cimports.whence.dwarf.kernels.constants import (
    DW_AT_addr_base,
    DW_AT_comp_dir,
    DW_AT_dwo_name,
    DW_AT_GNU_addr_base,
    DW_AT_GNU_dwo_id,
    DW_AT_GNU_dwo_name,
    DW_AT_GNU_ranges_base,
    DW_AT_high_pc,
    DW_AT_language,
    DW_AT_low_pc,
    DW_AT_name,
    DW_AT_ranges,
    DW_AT_rnglists_base,
    DW_AT_stmt_list,
    DW_AT_str_offsets_base,
    DW_FORM_addr,
    DW_FORM_implicit_const,
    DW_FORM_rnglistx,
    DW_UT_compile,
    DW_UT_partial,
    DW_UT_skeleton,
    DW_UT_split_compile,
    DW_UT_split_type,
    DW_UT_type,
)
from cython.cimports.whence.dwarf.kernels.parts import Parts
from cython.cimports.whence.dwarf.kernels.reading import (
    address_of,
    find_abbrev,
    fixed,
    is_index,
    name_of,
    read_form,
    reserved_length,
    sleb,
    uleb,
    wide_length,
)
from cython.cimports.whence.dwarf.kernels.shared import (
    ABBREV,
    ADDR_BASE,
    ADDRESS_SIZE,
    COMP_DIR,
    DIE,
    DWO_NAME,
    END,
    FAULT,
    FAULT_AT,
    HAS,
    HAS_HIGH,
    HAS_LOW,
    HAS_RANGES,
    HAS_RNG_BASE,
    HAS_STMT_LIST,
    HAS_STR_BASE,
    HIGH,
    KIND,
    LANGUAGE,
    LOW,
    NAME,
    OFFSET,
    OFFSET_SIZE,
    RANGES,
    RNG_BASE,
    SIGNATURE,
    SKELETON_RANGES_BASE,
    STMT_LIST,
    STR_BASE,
    TAG,
    VERSION,
    WIDTH,
    File,
    Part,
    u64,
)

# Faults of a unit; whence.dwarf.problems words them.
BAD_LENGTH = cython.declare(cython.int, 1)
BAD_VERSION = cython.declare(cython.int, 2)
BAD_SIZE = cython.declare(cython.int, 3)
BAD_KIND = cython.declare(cython.int, 4)
SHORT_HEADER = cython.declare(cython.int, 5)
NO_ABBREV = cython.declare(cython.int, 6)
BAD_ROOT = cython.declare(cython.int, 7)
TOO_COSTLY = cython.declare(cython.int, 8)
TOO_MANY = cython.declare(cython.int, 9)

LEAST = cython.declare(u64, 7)  # bytes of a header behind its length: version, table, size of addresses

# Where declarations of root DIEs were found, by table and code: units that share a table are roots of few codes.
Found = cython.struct(table=u64, code=u64, spec=u64)
FOUND_BITS = cython.declare(cython.int, 6)
SPREAD = cython.declare(u64, 0x9E3779B97F4A7C15)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def span(info: Part, big: cython.int, at: u64, row: cython.p_ulonglong) -> u64:
    """Where the unit at `at` ends, as its length says; 0 when that leaves the section.

    Fills in OFFSET, END, OFFSET_SIZE and FAULT. What is too short for a header is one unit with all that follow it and
    are too short, too."""
    size: u64 = info.size
    length: u64
    width: cython.int
    row[OFFSET] = at
    row[END] = 0
    while at < size:
        length = fixed(info.at, cython.address(at), size, 4, big)
        width = 4
        if wide_length(length):
            width = 8
            length = fixed(info.at, cython.address(at), size, 8, big)
        if row[END] and length >= LEAST:
            break  # behind those that are too short
        row[OFFSET_SIZE] = width
        if at > size or length > size - at or (width == 4 and reserved_length(length)):
            if row[END]:
                break
            row[END] = size
            return 0
        at += length
        row[END] = at
        if length >= LEAST:
            break
        row[FAULT] = SHORT_HEADER
        row[FAULT_AT] = row[OFFSET]
    return row[END]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def header(info: Part, big: cython.int, at: u64, row: cython.p_ulonglong) -> u64:
    """Read the header at `at` into the row; gives where the next unit begins, or 0 when that is unknown."""
    start: u64 = at
    end: u64 = span(info, big, at, row)
    width: cython.int = cython.cast(cython.int, row[OFFSET_SIZE])
    if end == 0:
        row[FAULT] = BAD_LENGTH
        row[FAULT_AT] = start
        return 0
    if row[FAULT]:
        return end
    at += 4 if width == 4 else 12
    row[VERSION] = fixed(info.at, cython.address(at), end, 2, big)
    row[FAULT_AT] = at - 2 if at <= end else start
    if row[VERSION] < 2 or row[VERSION] > 5:
        row[FAULT] = BAD_VERSION if at <= end else SHORT_HEADER
        return end
    if row[VERSION] == 5:
        row[KIND] = fixed(info.at, cython.address(at), end, 1, big)
        row[ADDRESS_SIZE] = fixed(info.at, cython.address(at), end, 1, big)
        row[ABBREV] = fixed(info.at, cython.address(at), end, width, big)
        if row[KIND] in (DW_UT_type, DW_UT_split_type):  # a type unit
            row[SIGNATURE] = fixed(info.at, cython.address(at), end, 8, big)
            fixed(info.at, cython.address(at), end, width, big)
        elif row[KIND] in (DW_UT_skeleton, DW_UT_split_compile):  # a skeleton, a split unit
            row[SIGNATURE] = fixed(info.at, cython.address(at), end, 8, big)
        elif row[KIND] not in (DW_UT_compile, DW_UT_partial):
            row[FAULT] = BAD_KIND
            return end
    else:
        row[KIND] = DW_UT_compile
        row[ABBREV] = fixed(info.at, cython.address(at), end, width, big)
        row[ADDRESS_SIZE] = fixed(info.at, cython.address(at), end, 1, big)
    if at > end:
        row[FAULT] = SHORT_HEADER
    elif row[ADDRESS_SIZE] != 4 and row[ADDRESS_SIZE] != 8 and row[ADDRESS_SIZE] != 2:
        row[FAULT] = BAD_SIZE
    row[DIE] = at
    return end


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def root(
    file: cython.pointer[cython.const[File]],
    alt: cython.pointer[cython.const[File]],
    row: cython.p_ulonglong,
    known: cython.pointer[Found],
    budget: cython.pointer[Budget],
) -> cython.void:
    """Read the attributes of the unit's root DIE. Bases may come after what they are the base of: two passes."""
    at: u64
    spec: u64
    spec_end: u64 = 0
    code: u64
    name: u64
    form: u64
    implicit: u64
    value: u64
    end: u64 = row[END]
    turn: cython.int
    ok: cython.int = 1
    for turn in range(2):
        at = row[DIE]
        code = uleb(file.info.at, cython.address(at), end)
        if at > end or code == 0:
            row[FAULT] = BAD_ROOT if at > end else 0
            return
        place = known + ((row[ABBREV] + code) * SPREAD >> 64 - FOUND_BITS)
        spec_end = file.abbrev.size
        spec = place.spec
        if spec == 0 or place.code != code or place.table != row[ABBREV]:
            spec = find_abbrev(file, row[ABBREV], code, cython.address(spec_end), budget)
            if spec > spec_end:
                row[FAULT] = TOO_COSTLY if budget.exceeded else NO_ABBREV
                row[FAULT_AT] = row[DIE]
                return
            place.spec = spec
            place.code = code
            place.table = row[ABBREV]
        row[TAG] = uleb(file.abbrev.at, cython.address(spec), spec_end)
        spec += 1
        while True:
            name = uleb(file.abbrev.at, cython.address(spec), spec_end)
            form = uleb(file.abbrev.at, cython.address(spec), spec_end)
            implicit = sleb(file.abbrev.at, cython.address(spec), spec_end) if form == DW_FORM_implicit_const else 0
            if spec > spec_end or (name == 0 and form == 0):
                break
            if not spend(budget, 1):
                row[FAULT] = TOO_COSTLY
                row[FAULT_AT] = row[DIE]
                return
            value = read_form(file.info.at, cython.address(at), end, cython.address(form), implicit, row, file.big)
            if at > end:
                row[FAULT] = BAD_ROOT
                row[FAULT_AT] = row[DIE]
                return
            if turn == 0:
                if name == DW_AT_str_offsets_base:
                    row[STR_BASE] = value
                    row[HAS] |= HAS_STR_BASE
                elif name in (DW_AT_addr_base, DW_AT_GNU_addr_base):
                    row[ADDR_BASE] = value
                elif name == DW_AT_rnglists_base:
                    row[RNG_BASE] = value
                    row[HAS] |= HAS_RNG_BASE
                elif name == DW_AT_GNU_ranges_base:
                    row[SKELETON_RANGES_BASE] = value
                elif name == DW_AT_GNU_dwo_id:
                    row[SIGNATURE] = value
                elif name == DW_AT_language:
                    row[LANGUAGE] = value
                elif name == DW_AT_stmt_list:
                    row[STMT_LIST] = value
                    row[HAS] |= HAS_STMT_LIST
            elif name == DW_AT_name:
                row[NAME] = name_of(file, alt, row, value, form)
            elif name == DW_AT_comp_dir:
                row[COMP_DIR] = name_of(file, alt, row, value, form)
            elif name in (DW_AT_dwo_name, DW_AT_GNU_dwo_name):
                row[DWO_NAME] = name_of(file, alt, row, value, form)
            elif name == DW_AT_low_pc:
                row[LOW] = address_of(file, row, value, form, cython.address(ok))
                if ok:
                    row[HAS] |= HAS_LOW
            elif name == DW_AT_high_pc:
                row[HIGH] = value
                if form == DW_FORM_addr or is_index(form):
                    row[HIGH] = address_of(file, row, value, form, cython.address(ok))
                    row[FAULT_AT] = 1  # an address, not yet a length
                else:
                    row[FAULT_AT] = 0
                row[HAS] |= HAS_HIGH
            elif name == DW_AT_ranges:
                row[RANGES] = value | (cython.cast(u64, 1) << 63 if form == DW_FORM_rnglistx else 0)
                row[HAS] |= HAS_RANGES
    if row[HAS] & HAS_LOW and row[HAS] & HAS_HIGH:
        if row[FAULT_AT] == 0:
            row[HIGH] += row[LOW]
    row[FAULT_AT] = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def defaults(row: cython.p_ulonglong, split: cython.bint) -> cython.void:
    """The bases a split unit has without saying so: its tables begin behind their headers."""
    if split and row[VERSION] == 5:
        row[STR_BASE] = 8 if row[OFFSET_SIZE] == 4 else 16
        row[RNG_BASE] = 12 if row[OFFSET_SIZE] == 4 else 20


def count(parts: Parts, most: cython.Py_ssize_t):
    """How many units there are, going by the lengths alone; at most one more than `most`, the last of which will have
    the fault TOO_MANY."""
    part: Part = parts.file.info
    at: u64 = 0
    units: cython.Py_ssize_t = 0
    row: u64[WIDTH]
    with cython.nogil:
        while at < part.size and units <= most:
            units += 1
            at = span(part, parts.file.big, at, row)
            if at == 0:
                break
    return units


def headers_at(parts: Parts, offsets: cython.const[cython.ulonglong][::1], rows: cython.ulonglong[::1]):
    """Fill a row per offset from the header there; `rows` has room for them, all zero."""
    row: cython.Py_ssize_t
    with cython.nogil:
        for row in range(offsets.shape[0]):
            header(parts.file.info, parts.file.big, offsets[row], cython.address(rows[row * WIDTH]))


def headers(parts: Parts, rows: cython.ulonglong[::1], split: cython.bint, most: cython.Py_ssize_t):
    """Fill a row per unit from its header; `rows` has room for what `count` said of `most`, all zero."""
    at: u64 = 0
    row: cython.Py_ssize_t
    with cython.nogil:
        for row in range(rows.shape[0] // WIDTH):
            at = header(parts.file.info, parts.file.big, at, cython.address(rows[row * WIDTH]))
            defaults(cython.address(rows[row * WIDTH]), split)
            if at == 0:
                break
            if row == most:
                rows[row * WIDTH + FAULT] = TOO_MANY
                rows[row * WIDTH + FAULT_AT] = rows[row * WIDTH + OFFSET]
                break


def roots(parts: Parts, alt: Parts, rows: cython.ulonglong[::1]):
    """Fill in what the root DIEs say, of every unit whose header is whole. A type unit has no tag here, as it has no
    code; its bases are wanted where a class is named by it."""
    row: cython.Py_ssize_t
    at: cython.p_ulonglong
    known: Found[1 << 6]
    budget: Budget
    memset(known, 0, cython.sizeof(known))
    found_budget(cython.address(budget), parts.file.info.size + parts.file.abbrev.size)
    with cython.nogil:
        for row in range(rows.shape[0] // WIDTH):
            at = cython.address(rows[row * WIDTH])
            if at[FAULT] == 0:
                begin_unit(cython.address(budget), at[END] - at[OFFSET])
                root(cython.address(parts.file), cython.address(alt.file), at, known, cython.address(budget))
                if at[KIND] in (DW_UT_type, DW_UT_split_type):
                    at[TAG] = 0
