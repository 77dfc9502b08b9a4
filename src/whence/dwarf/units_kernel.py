"""Unit headers and what their root DIEs say, all units of a section in one pass.

In: .debug_info, .debug_abbrev and the other sections root attributes point into. Out: one row of WIDTH numbers per unit
(shared.pxd names them). A header that breaks a rule leaves its fault in the row; only a length that leaves the section
ends the scan, because nothing says where the next unit begins. DWARF 5, sections 7.5.1 and 3.1.
"""

import cython
from cython.cimports.whence.dwarf.parts_kernel import Parts
from cython.cimports.whence.dwarf.reading import (
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
from cython.cimports.whence.dwarf.shared import (
    ABBREV,
    ADDR_BASE,
    ADDRESS_SIZE,
    COMP_DIR,
    DIE,
    DWO_NAME,
    END,
    F_ADDR,
    F_IMPLICIT_CONST,
    F_RNGLISTX,
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


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def header(info: Part, big: cython.int, at: u64, row: cython.p_ulonglong) -> u64:
    """Read the header at `at` into the row; gives where the next unit begins, or 0 when that is unknown."""
    size: u64 = info.size
    start: u64 = at
    length: u64 = fixed(info.at, cython.address(at), size, 4, big)
    width: cython.int = 4
    if wide_length(length):
        width = 8
        length = fixed(info.at, cython.address(at), size, 8, big)
    row[OFFSET] = start
    row[OFFSET_SIZE] = width
    row[END] = size
    if at > size or length > size - at or (width == 4 and reserved_length(length)):
        row[FAULT] = BAD_LENGTH
        row[FAULT_AT] = start
        return 0
    end: u64 = at + length
    row[END] = end
    row[VERSION] = fixed(info.at, cython.address(at), end, 2, big)
    row[FAULT_AT] = at - 2 if at <= end else start
    if row[VERSION] < 2 or row[VERSION] > 5:
        row[FAULT] = BAD_VERSION if at <= end else SHORT_HEADER
        return end
    if row[VERSION] == 5:
        row[KIND] = fixed(info.at, cython.address(at), end, 1, big)
        row[ADDRESS_SIZE] = fixed(info.at, cython.address(at), end, 1, big)
        row[ABBREV] = fixed(info.at, cython.address(at), end, width, big)
        if row[KIND] == 2 or row[KIND] == 6:  # a type unit
            row[SIGNATURE] = fixed(info.at, cython.address(at), end, 8, big)
            fixed(info.at, cython.address(at), end, width, big)
        elif row[KIND] == 4 or row[KIND] == 5:  # a skeleton, a split unit
            row[SIGNATURE] = fixed(info.at, cython.address(at), end, 8, big)
        elif row[KIND] != 1 and row[KIND] != 3:
            row[FAULT] = BAD_KIND
            return end
    else:
        row[KIND] = 1
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
    left: cython.p_ulonglong,
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
        spec = find_abbrev(file, row[ABBREV], code, cython.address(spec_end), left)
        if spec > spec_end:
            row[FAULT] = NO_ABBREV
            row[FAULT_AT] = row[DIE]
            return
        row[TAG] = uleb(file.abbrev.at, cython.address(spec), spec_end)
        spec += 1
        while True:
            name = uleb(file.abbrev.at, cython.address(spec), spec_end)
            form = uleb(file.abbrev.at, cython.address(spec), spec_end)
            implicit = sleb(file.abbrev.at, cython.address(spec), spec_end) if form == F_IMPLICIT_CONST else 0
            if spec > spec_end or (name == 0 and form == 0):
                break
            value = read_form(file.info.at, cython.address(at), end, cython.address(form), implicit, row, file.big)
            if at > end:
                row[FAULT] = BAD_ROOT
                row[FAULT_AT] = row[DIE]
                return
            if turn == 0:
                if name == 0x72:
                    row[STR_BASE] = value
                    row[HAS] |= HAS_STR_BASE
                elif name == 0x73 or name == 0x2133:
                    row[ADDR_BASE] = value
                elif name == 0x74:
                    row[RNG_BASE] = value
                    row[HAS] |= HAS_RNG_BASE
                elif name == 0x2132:
                    row[SKELETON_RANGES_BASE] = value
                elif name == 0x2131:
                    row[SIGNATURE] = value
                elif name == 0x13:
                    row[LANGUAGE] = value
                elif name == 0x10:
                    row[STMT_LIST] = value
                    row[HAS] |= HAS_STMT_LIST
            elif name == 0x03:
                row[NAME] = name_of(file, alt, row, value, form)
            elif name == 0x1B:
                row[COMP_DIR] = name_of(file, alt, row, value, form)
            elif name == 0x76 or name == 0x2130:
                row[DWO_NAME] = name_of(file, alt, row, value, form)
            elif name == 0x11:
                row[LOW] = address_of(file, row, value, form, cython.address(ok))
                if ok:
                    row[HAS] |= HAS_LOW
            elif name == 0x12:
                row[HIGH] = value
                if form == F_ADDR or is_index(form):
                    row[HIGH] = address_of(file, row, value, form, cython.address(ok))
                    row[FAULT_AT] = 1  # an address, not yet a length
                else:
                    row[FAULT_AT] = 0
                row[HAS] |= HAS_HIGH
            elif name == 0x55:
                row[RANGES] = value | (cython.cast(u64, 1) << 63 if form == F_RNGLISTX else 0)
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


def count(parts: Parts):
    """How many units there are, going by the lengths alone."""
    part: Part = parts.file.info
    big: cython.int = parts.file.big
    at: u64 = 0
    units: cython.Py_ssize_t = 0
    length: u64
    width: cython.int
    with cython.nogil:
        while at < part.size:
            units += 1
            length = fixed(part.at, cython.address(at), part.size, 4, big)
            width = 4
            if wide_length(length):
                width = 8
                length = fixed(part.at, cython.address(at), part.size, 8, big)
            if at > part.size or length > part.size - at or (width == 4 and reserved_length(length)):
                break
            at += length
    return units


def headers_at(parts: Parts, offsets: cython.const[cython.ulonglong][::1], rows: cython.ulonglong[::1]):
    """Fill a row per offset from the header there; `rows` has room for them, all zero."""
    row: cython.Py_ssize_t
    with cython.nogil:
        for row in range(offsets.shape[0]):
            header(parts.file.info, parts.file.big, offsets[row], cython.address(rows[row * WIDTH]))


def headers(parts: Parts, rows: cython.ulonglong[::1], split: cython.bint):
    """Fill a row per unit from its header; `rows` has room for what `count` said, all zero."""
    at: u64 = 0
    row: cython.Py_ssize_t
    with cython.nogil:
        for row in range(rows.shape[0] // WIDTH):
            at = header(parts.file.info, parts.file.big, at, cython.address(rows[row * WIDTH]))
            defaults(cython.address(rows[row * WIDTH]), split)
            if at == 0:
                break


def roots(parts: Parts, alt: Parts, rows: cython.ulonglong[::1]):
    """Fill in what the root DIEs say, of every unit whose header is whole. A type unit has no tag here, as it has no
    code; its bases are wanted where a class is named by it."""
    row: cython.Py_ssize_t
    at: cython.p_ulonglong
    left: u64 = 2 * parts.file.abbrev.size + 65536
    with cython.nogil:
        for row in range(rows.shape[0] // WIDTH):
            at = cython.address(rows[row * WIDTH])
            if at[FAULT] == 0:
                root(cython.address(parts.file), cython.address(alt.file), at, cython.address(left))
                if at[KIND] == 2 or at[KIND] == 6:
                    at[TAG] = 0
