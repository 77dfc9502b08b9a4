"""Units: their sections, headers and root DIEs, the ranges of root DIEs, and the unit that contains an address.

Input: .debug_info, .debug_abbrev and the other sections that root attributes refer to (`DwarfSections`). Output: a row
of WIDTH numbers for each unit (units.pxd names them), `UnitRangeColumns`, and from .debug_aranges the units of a few
addresses.

A malformed header leaves its fault in the row; only a length that extends past the section ends the scan, because the
next unit cannot be found (DWARF 5, sections 7.5.1 and 3.1).

Range lists are those of .debug_ranges (DWARF 2 to 4) and .debug_rnglists (5). A linker that drops a function leaves its
debug info, at 0, -1, -2 or 0 + an offset, depending on the linker. One test finds all of these: a range of code begins
in an executable section (or segment). DWARF 5, sections 2.17.3 and 7.25; DWARF 4, section 2.17.3.

.debug_aranges maps addresses to units without reading the units: one pass over the table, of which nothing is stored
(DWARF 5, section 6.1.2).

Rows of a unit's line program outside the ranges of its root DIE describe nothing: padding between functions, or code
that the linker took from another unit. `RowClipper` removes them.
"""

import cython
from cython.cimports.libc.stdlib import free, malloc, qsort
from cython.cimports.libc.string import memset
from cython.cimports.whence.dwarf.kernels import constants as c
from cython.cimports.whence.dwarf.kernels.budget import LIST_ENTRY, Budget, begin_unit, make_budget, spend
from cython.cimports.whence.dwarf.kernels.reading import (
    Attribute,
    address_of,
    entry_of,
    find_abbrev,
    fixed,
    is_dwarf64,
    is_index,
    is_reserved_length,
    largest,
    name_of,
    next_attribute,
    read_form,
    type_unit,
    uleb,
    unit_at,
)
from cython.cimports.whence.kernels.checks import all_below, are_ends, belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.hashtable import WHENCE_GOLDEN, insert, mix, release_index
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.vector import push_u64, release, reserve_next

SHORTEST_HEADER = cython.declare(u64, 7)  # bytes after its length: version, table, size of addresses
NO_FILE = cython.declare(cython.uint, 0xFFFFFFFF)  # of a row that no file describes


@cython.final
@cython.cclass
class DwarfSections:
    """Views of the sections; their bytes must not change while it lives."""

    def __cinit__(self, sections, refs: tuple, big: cython.bint, code: cython.const[cython.ulonglong][::1]):
        """Take the sections of a file.

        Args:
            sections: has a view of each section in the attribute of its name (debug_info, ...).
            refs: the name references of the first bytes of .debug_info, .debug_str and .debug_line_str.
            big: big-endian.
            code: where code can be, as [start, end) pairs in ascending order.
        """
        memset(cython.address(self.file), 0, cython.sizeof(self.file))
        self.kept = [code]
        self.file.info = self._take(sections.debug_info)
        self.file.abbrev = self._take(sections.debug_abbrev)
        self.file.strings = self._take(sections.debug_str)
        self.file.line_strings = self._take(sections.debug_line_str)
        self.file.str_offsets = self._take(sections.debug_str_offsets)
        self.file.addr = self._take(sections.debug_addr)
        self.file.ranges = self._take(sections.debug_ranges)
        self.file.rnglists = self._take(sections.debug_rnglists)
        self.file.info_ref, self.file.strings_ref, self.file.line_strings_ref = refs
        self.file.big = big
        self.file.code_count = code.shape[0] // 2
        self.file.code = cython.address(code[0]) if code.shape[0] else cython.NULL

    @cython.cfunc
    def _take(self, data: cython.const[cython.uchar][::1]) -> SectionBytes:
        """Return the bytes of a section, and keep a view so that they stay mapped."""
        bytes_: SectionBytes
        self.kept.append(data)
        bytes_.size = data.shape[0]
        bytes_.at = cython.address(data[0]) if data.shape[0] else cython.NULL
        return bytes_

    def set_units(self, units: cython.const[cython.ulonglong][::1]):
        """Set the unit table, by which the unit of a DIE is found; its rows must not change afterwards."""
        row: cython.Py_ssize_t
        belong(self.file.units == cython.NULL and are_units(units, self.file.info.size))
        self.kept.append(units)
        self.file.unit_count = units.shape[0] // WIDTH
        self.file.units = cython.address(units[0]) if units.shape[0] else cython.NULL
        self.file.seed = cython.cast(u64, cython.cast(cython.p_void, self))
        for row in range(self.file.unit_count):
            unit = cython.address(units[row * WIDTH])
            if unit[KIND] not in (c.DW_UT_type, c.DW_UT_split_type) or unit[FAULT]:
                continue
            if type_unit(cython.address(self.file), unit[SIGNATURE]) == cython.NULL and not insert(
                cython.address(self.file.types), mix(unit[SIGNATURE], self.file.seed), row
            ):
                raise MemoryError

    def __dealloc__(self):
        release_index(cython.address(self.file.types))


# Headers and root DIEs


def are_units(units, size):
    """Return True if units with valid headers ascend and are, with their root DIEs, inside of `size` bytes."""
    row: cython.Py_ssize_t
    before: u64 = 0
    for row in range(units.shape[0] // WIDTH):
        unit = cython.address(units[row * WIDTH])
        if unit[FAULT]:
            continue
        if unit[OFFSET] < before or unit[DIE] < unit[OFFSET] or unit[END] < unit[DIE] or unit[END] > size:
            return False
        if (unit[OFFSET_SIZE] != 4 and unit[OFFSET_SIZE] != 8) or unit[ADDRESS_SIZE] > 8:
            return False
        before = unit[OFFSET]
    return True


def unit_extent(info, big, offset, row):
    """Return the end of the unit at `offset` by its length; 0 if that is past the end of the section.

    Sets OFFSET, END, OFFSET_SIZE and FAULT. Consecutive units that are too short for a header are one unit.
    """
    size: u64 = info.size
    row[OFFSET] = offset
    row[END] = 0
    while offset < size:
        length: u64 = fixed(info.at, cython.address(offset), size, 4, big)
        width: cython.int = 4
        if is_dwarf64(length):
            width = 8
            length = fixed(info.at, cython.address(offset), size, 8, big)
        if row[END] and length >= SHORTEST_HEADER:
            break  # after units that are too short
        row[OFFSET_SIZE] = width
        if offset > size or length > size - offset or (width == 4 and is_reserved_length(length)):
            if row[END]:
                break
            row[END] = size
            return 0
        offset += length
        row[END] = offset
        if length >= SHORTEST_HEADER:
            break
        row[FAULT] = SHORT_HEADER
        row[FAULT_AT] = row[OFFSET]
    return row[END]


def read_header(info, big, section, offset, row):
    """Read the header at `offset` into the row. Return the offset of the next unit; 0 if it is unknown."""
    start: u64 = offset
    end: u64 = unit_extent(info, big, offset, row)
    width: cython.int = cython.cast(cython.int, row[OFFSET_SIZE])
    if end == 0:
        row[FAULT] = BAD_LENGTH
        row[FAULT_AT] = start
        return 0
    if row[FAULT]:
        return end
    offset += 4 if width == 4 else 12
    row[VERSION] = fixed(info.at, cython.address(offset), end, 2, big)
    row[FAULT_AT] = offset - 2 if offset <= end else start
    if row[VERSION] < 2 or row[VERSION] > 5:
        row[FAULT] = BAD_VERSION if offset <= end else SHORT_HEADER
        return end
    if row[VERSION] == 5:
        row[KIND] = fixed(info.at, cython.address(offset), end, 1, big)
        row[ADDRESS_SIZE] = fixed(info.at, cython.address(offset), end, 1, big)
        row[ABBREV] = fixed(info.at, cython.address(offset), end, width, big)
        if row[KIND] in (c.DW_UT_type, c.DW_UT_split_type):
            row[SIGNATURE] = fixed(info.at, cython.address(offset), end, 8, big)
            fixed(info.at, cython.address(offset), end, width, big)
        elif row[KIND] in (c.DW_UT_skeleton, c.DW_UT_split_compile):
            row[SIGNATURE] = fixed(info.at, cython.address(offset), end, 8, big)
        elif row[KIND] not in (c.DW_UT_compile, c.DW_UT_partial):
            row[FAULT] = BAD_UNIT_TYPE
            return end
    else:
        row[KIND] = c.DW_UT_compile
        row[ABBREV] = fixed(info.at, cython.address(offset), end, width, big)
        row[ADDRESS_SIZE] = fixed(info.at, cython.address(offset), end, 1, big)
        if section == TYPES_SECTION:
            row[KIND] = c.DW_UT_type
            row[SIGNATURE] = fixed(info.at, cython.address(offset), end, 8, big)
            fixed(info.at, cython.address(offset), end, width, big)
    if offset > end:
        row[FAULT] = SHORT_HEADER
    elif row[ADDRESS_SIZE] != 4 and row[ADDRESS_SIZE] != 8 and row[ADDRESS_SIZE] != 2:
        row[FAULT] = BAD_ADDRESS_SIZE
    row[DIE] = offset
    return end


def read_root(file, alt, row, root_cache, budget):
    """Read the attributes of the root DIE, in two passes: bases may follow attributes that need them."""
    attribute: Attribute
    spec_end: u64 = 0
    end: u64 = row[END]
    reading: cython.int
    ok: cython.int = 1
    for reading in range(2):
        offset: u64 = row[DIE]
        code: u64 = uleb(file.info.at, cython.address(offset), end)
        if offset > end or code == 0:
            row[FAULT] = BAD_ROOT if offset > end else 0
            return
        cached = root_cache + ((row[ABBREV] + code) * WHENCE_GOLDEN >> 64 - KNOWN_BITS)
        spec_end = file.abbrev.size
        spec: u64 = cached.spec
        if spec == 0 or cached.code != code or cached.table != row[ABBREV]:
            spec = find_abbrev(file, row[ABBREV], code, cython.address(spec_end), budget)
            if spec > spec_end:
                row[FAULT] = COSTLY_ROOT if budget.exceeded else NO_ROOT_ABBREV
                row[FAULT_AT] = row[DIE]
                return
            cached.spec = spec
            cached.code = code
            cached.table = row[ABBREV]
        row[TAG] = uleb(file.abbrev.at, cython.address(spec), spec_end)
        spec += 1
        while next_attribute(file.abbrev.at, cython.address(spec), spec_end, cython.address(attribute)):
            name: u64 = attribute.name
            form: u64 = attribute.form
            if not spend(budget, 1):
                row[FAULT] = COSTLY_ROOT
                row[FAULT_AT] = row[DIE]
                return
            value: u64 = read_form(
                file.info.at, cython.address(offset), end, cython.address(form), attribute.implicit, row, file.big
            )
            if offset > end:
                row[FAULT] = BAD_ROOT
                row[FAULT_AT] = row[DIE]
                return
            if reading == 0:
                if name == c.DW_AT_str_offsets_base:
                    row[STR_BASE] = value
                    row[HAS] |= HAS_STR_BASE
                elif name in (c.DW_AT_addr_base, c.DW_AT_GNU_addr_base):
                    row[ADDR_BASE] = value
                elif name == c.DW_AT_rnglists_base:
                    row[RNG_BASE] = value
                    row[HAS] |= HAS_RNG_BASE
                elif name == c.DW_AT_GNU_ranges_base:
                    row[SKELETON_RANGES_BASE] = value
                elif name == c.DW_AT_GNU_dwo_id:
                    row[SIGNATURE] = value
                elif name == c.DW_AT_language:
                    row[LANGUAGE] = value
                elif name == c.DW_AT_stmt_list:
                    row[STMT_LIST] = value
                    row[HAS] |= HAS_STMT_LIST
            elif name == c.DW_AT_name:
                row[NAME] = name_of(file, alt, row, value, form)
            elif name == c.DW_AT_comp_dir:
                row[COMP_DIR] = name_of(file, alt, row, value, form)
            elif name in (c.DW_AT_dwo_name, c.DW_AT_GNU_dwo_name):
                row[DWO_NAME] = name_of(file, alt, row, value, form)
            elif name == c.DW_AT_low_pc:
                row[LOW] = address_of(file, row, value, form, cython.address(ok))
                if ok:
                    row[HAS] |= HAS_LOW
            elif name == c.DW_AT_high_pc:
                row[HIGH] = value
                if form == c.DW_FORM_addr or is_index(form):
                    row[HIGH] = address_of(file, row, value, form, cython.address(ok))
                    row[FAULT_AT] = 1  # an address, not yet a length
                else:
                    row[FAULT_AT] = 0
                row[HAS] |= HAS_HIGH
            elif name == c.DW_AT_ranges:
                row[RANGES] = value | (cython.cast(u64, 1) << RANGES_INDEX if form == c.DW_FORM_rnglistx else 0)
                row[HAS] |= HAS_RANGES
    if row[HAS] & HAS_LOW and row[HAS] & HAS_HIGH:
        if row[FAULT_AT] == 0:
            row[HIGH] += row[LOW]
    row[FAULT_AT] = 0


def default_bases(row, section):
    """Set the bases of a split unit without attributes for them: its tables begin after their headers."""
    if section == SPLIT_SECTION and row[VERSION] == 5:
        row[STR_BASE] = 8 if row[OFFSET_SIZE] == 4 else 16
        row[RNG_BASE] = 12 if row[OFFSET_SIZE] == 4 else 20


def count_units(sections: DwarfSections, most: cython.Py_ssize_t):
    """Return the number of units by their lengths, at most `most` + 1.

    The last one then gets the fault TOO_MANY_UNITS.
    """
    info: SectionBytes = sections.file.info
    offset: u64 = 0
    units: cython.Py_ssize_t = 0
    row: u64[WIDTH]
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        while offset < info.size and units <= most:
            handle_signals(cython.address(work), 1)
            units += 1
            offset = unit_extent(info, sections.file.big, offset, row)
            if offset == 0:
                break
    return units


def read_headers_at(sections: DwarfSections, offsets: cython.const[cython.ulonglong][::1], rows: cython.ulonglong[::1]):
    """Fill a row for each offset from the header there. `rows` is long enough, and zero."""
    row: cython.Py_ssize_t
    belong(rows.shape[0] // WIDTH >= offsets.shape[0])
    with cython.nogil:
        for row in range(offsets.shape[0]):
            read_header(
                sections.file.info, sections.file.big, INFO_SECTION, offsets[row], cython.address(rows[row * WIDTH])
            )


def read_headers(sections: DwarfSections, rows: cython.ulonglong[::1], section: cython.int, most: cython.Py_ssize_t):
    """Fill a row for each unit from its header. `rows` is as long as `count_units` returned, and zero."""
    offset: u64 = 0
    row: cython.Py_ssize_t
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for row in range(rows.shape[0] // WIDTH):
            handle_signals(cython.address(work), 2)
            offset = read_header(
                sections.file.info, sections.file.big, section, offset, cython.address(rows[row * WIDTH])
            )
            default_bases(cython.address(rows[row * WIDTH]), section)
            if offset == 0:
                break
            if row == most:
                rows[row * WIDTH + FAULT] = TOO_MANY_UNITS
                rows[row * WIDTH + FAULT_AT] = rows[row * WIDTH + OFFSET]
                break


def read_roots(sections: DwarfSections, alt: DwarfSections, rows: cython.ulonglong[::1]):
    """Fill the rows of all units with valid headers from their root DIEs.

    A type unit gets no tag, as it has no code; its bases are needed when a class gets its name from it.
    """
    row: cython.Py_ssize_t
    root_cache: CachedRoot[KNOWN_ROOTS]
    budget: Budget
    belong(are_units(rows, sections.file.info.size))
    memset(root_cache, 0, cython.sizeof(root_cache))
    make_budget(cython.address(budget), sections.file.info.size + sections.file.abbrev.size)
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for row in range(rows.shape[0] // WIDTH):
            handle_signals(cython.address(work), 16)
            unit: cython.p_ulonglong = cython.address(rows[row * WIDTH])
            if unit[FAULT] == 0:
                begin_unit(cython.address(budget), unit[END] - unit[OFFSET])
                read_root(
                    cython.address(sections.file), cython.address(alt.file), unit, root_cache, cython.address(budget)
                )
                if unit[KIND] in (c.DW_UT_type, c.DW_UT_split_type):
                    unit[TAG] = 0


# Range lists


def is_code(file, start):
    """Return True if code can begin at this vaddr."""
    low: u64 = 0
    high: u64 = file.code_count
    while low < high:
        middle: u64 = (low + high) // 2
        if file.code[2 * middle] <= start:
            low = middle + 1
        else:
            high = middle
    return low > 0 and start < file.code[2 * low - 1]


def add_span(spans, start, end, owner):
    """Append [start, end) of an owner, unless it is empty."""
    if start >= end:
        return 0
    if not reserve_next(spans):
        return OUT_OF_MEMORY
    span = cython.address(spans.items[spans.count])
    span.start = start
    span.end = end
    span.owner = owner
    spans.count += 1
    return 0


def add_code_span(spans, file, unit, start, end, owner):
    """Append a span if it is code."""
    start &= largest(cython.cast(cython.int, unit[ADDRESS_SIZE]))
    end &= largest(cython.cast(cython.int, unit[ADDRESS_SIZE]))
    return add_span(spans, start, end, owner) if is_code(file, start) else 0


def add_ranges_list(spans, file, unit, offset, owner):
    """Append a list of .debug_ranges: address pairs from a base; (largest, x) sets the base, (0, 0) ends it."""
    width: cython.int = cython.cast(cython.int, unit[ADDRESS_SIZE])
    none: u64 = largest(width)
    base: u64 = unit[LOW] if unit[HAS] & HAS_LOW else 0
    fault: cython.int = 0
    offset += unit[RANGES_BASE]
    while fault == 0:
        if not spend(cython.address(spans.budget), LIST_ENTRY):
            return COSTLY_RANGE_LISTS
        start: u64 = fixed(file.ranges.at, cython.address(offset), file.ranges.size, width, file.big)
        end: u64 = fixed(file.ranges.at, cython.address(offset), file.ranges.size, width, file.big)
        if offset > file.ranges.size:
            return BAD_RANGE_LIST
        if start == 0 and end == 0:
            return 0
        if start == none:
            base = end
        elif start < end and base < none - 1:  # -1 and -2 mark dropped code, whose ranges would wrap around to others
            fault = add_code_span(spans, file, unit, base + start, base + end, owner)
    return fault


def add_rnglists_list(spans, file, unit, offset, owner):
    """Append a list of .debug_rnglists (DW_RLE_*)."""
    data = file.rnglists.at
    size: u64 = file.rnglists.size
    width: cython.int = cython.cast(cython.int, unit[ADDRESS_SIZE])
    none: u64 = largest(width)
    base: u64 = unit[LOW] if unit[HAS] & HAS_LOW else 0
    start: u64
    end: u64
    fault: cython.int = 0
    while fault == 0:
        if not spend(cython.address(spans.budget), LIST_ENTRY):
            return COSTLY_RANGE_LISTS
        kind: u64 = fixed(data, cython.address(offset), size, 1, 0)
        start = end = 0
        ok: cython.int = 1
        if kind == c.DW_RLE_end_of_list:
            return 0 if offset <= size else BAD_RANGE_LIST
        if kind in (
            c.DW_RLE_base_addressx,
            c.DW_RLE_startx_endx,
            c.DW_RLE_startx_length,
        ):
            start = uleb(data, cython.address(offset), size)
            start = entry_of(file.addr, unit[ADDR_BASE], start, width, file.big, cython.address(ok))
            if kind == c.DW_RLE_startx_endx and ok:
                end = uleb(data, cython.address(offset), size)
                end = entry_of(file.addr, unit[ADDR_BASE], end, width, file.big, cython.address(ok))
            elif kind == c.DW_RLE_startx_length:
                end = start + uleb(data, cython.address(offset), size)
        elif kind == c.DW_RLE_offset_pair:
            start = base + uleb(data, cython.address(offset), size)
            end = base + uleb(data, cython.address(offset), size)
            ok = base != none
        elif kind == c.DW_RLE_base_address:
            start = fixed(data, cython.address(offset), size, width, file.big)
        elif kind == c.DW_RLE_start_end:
            start = fixed(data, cython.address(offset), size, width, file.big)
            end = fixed(data, cython.address(offset), size, width, file.big)
        elif kind == c.DW_RLE_start_length:
            start = fixed(data, cython.address(offset), size, width, file.big)
            end = start + uleb(data, cython.address(offset), size)
        else:
            return BAD_RANGE_LIST
        if offset > size:
            return BAD_RANGE_LIST
        if kind in (c.DW_RLE_base_addressx, c.DW_RLE_base_address):
            base = start if ok else none
        elif ok:
            fault = add_code_span(spans, file, unit, start, end, owner)
    return fault


def add_range_list(spans, file, unit, value, form, owner):
    """Append the ranges of a DW_AT_ranges of this value and form. Return the fault; 0 if there was no fault."""
    width: cython.int = cython.cast(cython.int, unit[OFFSET_SIZE])
    ok: cython.int = 1
    if unit[VERSION] < 5:
        return add_ranges_list(spans, file, unit, value, owner)
    if form == c.DW_FORM_rnglistx:
        value = unit[RNG_BASE] + entry_of(file.rnglists, unit[RNG_BASE], value, width, file.big, cython.address(ok))
        if not ok:
            return BAD_RANGE_LIST
    return add_rnglists_list(spans, file, unit, value, owner)


# .debug_aranges


def next_set(data, size, big, entries):
    """Read the header of the next set, at `entries.end`. False if it is malformed.

    Sets the offset of the first pair, the end, the unit and the address size.
    """
    begin: u64 = entries.end
    offset: u64 = begin
    width: cython.int = 4
    length: u64 = fixed(data, cython.address(offset), size, 4, big)
    if is_dwarf64(length):
        width = 8
        length = fixed(data, cython.address(offset), size, 8, big)
    if offset > size or length > size - offset or (width == 4 and is_reserved_length(length)):
        return False
    entries.end = offset + length
    if fixed(data, cython.address(offset), entries.end, 2, big) != 2:
        return False
    entries.unit = fixed(data, cython.address(offset), entries.end, width, big)
    entries.address = cython.cast(cython.int, fixed(data, cython.address(offset), entries.end, 1, big))
    fixed(data, cython.address(offset), entries.end, 1, big)  # the size of segments
    if offset > entries.end or (entries.address != 4 and entries.address != 8):
        return False
    entries.at = begin + (offset - begin + 2 * entries.address - 1) // (2 * entries.address) * (2 * entries.address)
    return True


def next_pair(data, big, entries, start, count):
    """Read the next range of a set. False after the last."""
    if entries.at >= entries.end or entries.end - entries.at < cython.cast(u64, 2 * entries.address):
        return False
    start[0] = fixed(data, cython.address(entries.at), entries.end, entries.address, big)
    count[0] = fixed(data, cython.address(entries.at), entries.end, entries.address, big)
    return start[0] != 0 or count[0] != 0


def find_units(
    table: cython.const[cython.uchar][::1],
    big: cython.bint,
    vaddrs: cython.const[cython.ulonglong][::1],
    units: cython.ulonglong[::1],
):
    """Write, for each vaddr, the offset + 1 in .debug_info of the first unit that lists it.

    0 stays for a vaddr that no unit lists. Return the number of listed units; -1 if the table is malformed or if
    different ranges contain a vaddr.
    """
    size: u64 = table.shape[0]
    start: u64 = 0
    count: u64 = 0
    i: cython.Py_ssize_t
    sets: cython.Py_ssize_t = 0
    ambiguous: cython.bint = False
    entries: AddressSet
    entries.end = 0
    belong(units.shape[0] >= vaddrs.shape[0])
    if size == 0:
        return 0
    data = cython.address(table[0])
    first = cython.cast(cython.p_ulonglong, malloc((2 * vaddrs.shape[0] + 1) * 8))  # start and length of each range
    if first == cython.NULL:
        raise MemoryError
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        while entries.end < size:
            if not next_set(data, size, big, cython.address(entries)):
                sets = -1
                break
            sets += 1
            while next_pair(data, big, cython.address(entries), cython.address(start), cython.address(count)):
                handle_signals(cython.address(work), 1 + vaddrs.shape[0])
                for i in range(vaddrs.shape[0]):
                    if vaddrs[i] >= start and vaddrs[i] - start < count:
                        if units[i] == 0:
                            first[2 * i] = start
                            first[2 * i + 1] = count
                        elif first[2 * i] != start or first[2 * i + 1] != count:
                            ambiguous = True
                        if units[i] == 0 or entries.unit + 1 < units[i]:
                            units[i] = entries.unit + 1
        free(first)
    return -1 if ambiguous else sets


# The unit of an address, and its rows of a line program


@cython.final
@cython.cclass
class UnitRangeColumns:
    """The ranges of root DIEs (DW_AT_low_pc and high_pc, or DW_AT_ranges), by unit and by address.

    `starts`, `ends` and `owners` have a row for each range, unit after unit: [start, end) and the unit's row.
    `described` has a byte for each unit: RANGES_GIVEN; NO_RANGES; BROKEN_RANGES, if its list is malformed.
    """

    def __cinit__(
        self,
        sections: DwarfSections,
        units: cython.const[cython.ulonglong][::1],
        aranges: cython.const[cython.uchar][::1],
    ):
        """Read the ranges of root DIEs.

        `aranges` are the bytes of .debug_aranges, for units of DWARF 2 (see `_clear_incomplete`).
        """
        spans: Spans
        row: cython.Py_ssize_t
        number: cython.Py_ssize_t
        count: cython.Py_ssize_t = units.shape[0] // WIDTH
        version_2: cython.bint = False
        self.starts, self.ends = Column("Q", True), Column("Q", True)
        self.owners, self.first = Column("I", True), Column("I", True)
        self.begins, self.limits, self.holders = Column("Q", True), Column("Q", True), Column("I", True)
        self.described = Column("B", True)
        if not self.described.reserve(count):
            raise MemoryError
        self.described.vector.count = count
        if count:
            memset(self.described.vector.items, 0, count)
        described = cython.cast(cython.p_uchar, self.described.vector.items)
        memset(cython.address(spans), 0, cython.sizeof(spans))
        make_budget(cython.address(spans.budget), sections.file.ranges.size + sections.file.rnglists.size)
        file = cython.address(sections.file)
        belong(are_units(units, sections.file.info.size))
        work: cython.Py_ssize_t = 0
        try:
            with cython.nogil:
                for row in range(count):
                    unit = cython.address(units[row * WIDTH])
                    fault: cython.int = 0
                    before: cython.Py_ssize_t = spans.count
                    begin_unit(cython.address(spans.budget), unit[END] - unit[OFFSET])
                    if unit[VERSION] == 2:
                        version_2 = True
                    if unit[HAS] & HAS_LOW and unit[HAS] & HAS_HIGH:
                        if unit[LOW] < unit[HIGH]:
                            fault = add_code_span(
                                cython.address(spans), file, unit, unit[LOW], unit[HIGH], cython.cast(cython.uint, row)
                            )
                            described[row] = RANGES_GIVEN
                    elif unit[HAS] & HAS_RANGES:
                        fault = add_range_list(
                            cython.address(spans), file, unit, unit[RANGES] << 1 >> 1,
                            c.DW_FORM_rnglistx if unit[RANGES] >> RANGES_INDEX else c.DW_FORM_sec_offset,
                            cython.cast(cython.uint, row),
                        )  # fmt: skip
                        described[row] = RANGES_GIVEN
                    if fault:
                        described[row] = BROKEN_RANGES
                    handle_signals(cython.address(work), 4 + 4 * (spans.count - before))
            if not (
                self.starts.reserve(spans.count)
                and self.ends.reserve(spans.count)
                and self.owners.reserve(spans.count)
                and self.first.reserve(count + 1)
            ):
                raise MemoryError
            row = 0
            for number in range(spans.count):
                span = cython.address(spans.items[number])
                self.starts.push_u64(span.start)
                self.ends.push_u64(span.end)
                self.owners.push_u32(span.owner)
                while row <= span.owner:
                    self.first.push_u32(cython.cast(cython.uint, number))
                    row += 1
            while row <= count:
                self.first.push_u32(cython.cast(cython.uint, spans.count))
                row += 1
        finally:
            free(spans.items)
        if version_2 and aranges.shape[0]:
            self._clear_incomplete(sections, aranges)

    def unlimited(self, units: cython.const[cython.ulonglong][::1]):
        """Return a byte for each unit: 1 if it can contain any address."""
        count: cython.Py_ssize_t = self.described.vector.count
        belong(units.shape[0] == count * WIDTH)
        result = bytearray(count)
        flags: cython.uchar[::1] = result
        described = cython.cast(cython.p_uchar, self.described.vector.items)
        row: cython.Py_ssize_t
        for row in range(count):
            unit = cython.address(units[row * WIDTH])
            flags[row] = (
                described[row] != RANGES_GIVEN and unit[TAG] not in (0, c.DW_TAG_partial_unit) and not unit[FAULT]
            )
        return result

    def _clear_incomplete(self, sections, aranges):
        """Set NO_RANGES for DWARF 2 units that .debug_aranges gives code outside of [low_pc, high_pc).

        Such a root cannot describe several ranges, so it must not exclude addresses. Entries of discarded code are
        ignored.
        """
        size: u64 = aranges.shape[0]
        start: u64 = 0
        count: u64 = 0
        big: cython.bint = sections.file.big
        entries: AddressSet
        entries.end = 0
        file = cython.address(sections.file)
        if cython.cast(u64, len(self.described)) != file.unit_count:
            return
        described = cython.cast(cython.p_uchar, self.described.vector.items)
        data = cython.address(aranges[0])
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            while entries.end < size and next_set(data, size, big, cython.address(entries)):
                unit = unit_at(file, entries.unit)
                if unit == cython.NULL or unit[VERSION] != 2 or not unit[HAS] & HAS_LOW or not unit[HAS] & HAS_HIGH:
                    continue
                row: cython.Py_ssize_t = (unit - file.units) // WIDTH
                while next_pair(data, big, cython.address(entries), cython.address(start), cython.address(count)):
                    handle_signals(cython.address(work), 1)
                    if start < unit[LOW] or start + count > unit[HIGH]:
                        if count and is_code(file, start):
                            described[row] = NO_RANGES

    def index(self, order: cython.const[cython.uint][::1]):
        """Prepare `mark`. `order`: the rows of the ranges by start, then by end, then by unit.

        Of units with the same range (copies of a function template), only the first unit is marked.
        """
        spans: cython.Py_ssize_t = order.shape[0]
        i: cython.Py_ssize_t
        belong(spans <= self.starts.vector.count and all_below(order, spans, self.starts.vector.count))
        self.begins.vector.count = self.limits.vector.count = self.holders.vector.count = 0
        if not (self.begins.reserve(spans) and self.limits.reserve(spans) and self.holders.reserve(spans)):
            raise MemoryError
        start = cython.cast(cython.p_ulonglong, self.starts.vector.items)
        end = cython.cast(cython.p_ulonglong, self.ends.vector.items)
        owner = cython.cast(cython.p_uint, self.owners.vector.items)
        with cython.nogil:
            for i in range(spans):
                if i and start[order[i]] == start[order[i - 1]] and end[order[i]] == end[order[i - 1]]:
                    continue
                self.begins.push_u64(start[order[i]])
                self.limits.push_u64(end[order[i]])
                self.holders.push_u32(owner[order[i]])

    def mark(self, vaddrs: cython.const[cython.ulonglong][::1], flags: cython.uchar[::1]):
        """Set flags[row] to 1 for every unit with a range that contains any of the ascending vaddrs.

        Linear in ranges and vaddrs: ranges of units overlap, and the function at a vaddr may be in any of them.
        """
        i: cython.Py_ssize_t = 0
        span: cython.Py_ssize_t
        begins = cython.cast(cython.p_ulonglong, self.begins.vector.items)
        limits = cython.cast(cython.p_ulonglong, self.limits.vector.items)
        holders = cython.cast(cython.p_uint, self.holders.vector.items)
        with cython.nogil:
            for span in range(self.begins.vector.count):
                while i < vaddrs.shape[0] and vaddrs[i] < begins[span]:
                    i += 1
                if i == vaddrs.shape[0]:
                    break
                if vaddrs[i] < limits[span] and holders[span] < flags.shape[0]:
                    flags[holders[span]] = 1

    def __repr__(self):
        return f"<UnitRanges of {len(self.described)} units: {len(self.starts)} ranges>"


@cython.final
@cython.cclass
class RowClipper:
    """The line rows of groups of units that are in the ranges of the units or in their functions.

    `run` clips the rows of a batch into the columns `vaddr`, `file` and `line`. `spans` are those of the current group:
    pairs of start and end, ascending and disjoint once they are joined.
    """

    def __cinit__(self):
        self.vaddr, self.file, self.line = Column("Q", True), Column("I", True), Column("I", True)

    def __dealloc__(self):
        release(cython.address(self.spans))

    def _reserve(self, more):
        """Reserve `more` rows. False if memory runs out."""
        return self.vaddr.reserve(more) and self.file.reserve(more) and self.line.reserve(more)

    def _add_span(self, start, end):
        return push_u64(cython.address(self.spans), start) and push_u64(cython.address(self.spans), end)

    def _join(self):
        """Sort the spans, and join spans that touch or overlap."""
        i: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        total: cython.Py_ssize_t = self.spans.count // 2
        sorted: cython.bint = True
        spans = self.spans.items
        for i in range(1, total):
            if spans[2 * i] < spans[2 * i - 2]:
                sorted = False
        if not sorted:
            qsort(spans, total, 16, by_start)
        for i in range(total):
            if count and spans[2 * i] <= spans[2 * count - 1]:
                if spans[2 * i + 1] > spans[2 * count - 1]:
                    spans[2 * count - 1] = spans[2 * i + 1]
            else:
                spans[2 * count] = spans[2 * i]
                spans[2 * count + 1] = spans[2 * i + 1]
                count += 1
        self.spans.count = 2 * count

    def _covers(self, vaddr, end):
        """Return True if [vaddr, end) is in one of the joined spans."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.spans.count // 2
        while low < high:
            middle: cython.Py_ssize_t = (low + high) // 2
            if self.spans.items[2 * middle] <= vaddr:
                low = middle + 1
            else:
                high = middle
        return low > 0 and end <= self.spans.items[2 * low - 1]

    def _put(self, vaddr, file, line):
        """Append a row in reserved memory."""
        row: cython.Py_ssize_t = self.vaddr.vector.count
        cython.cast(cython.p_ulonglong, self.vaddr.vector.items)[row] = vaddr
        cython.cast(cython.p_uint, self.file.vector.items)[row] = file
        cython.cast(cython.p_uint, self.line.vector.items)[row] = line
        self.vaddr.vector.count = self.file.vector.count = self.line.vector.count = row + 1

    def run(
        self,
        ranges: UnitRangeColumns,
        units: cython.const[cython.uint][::1],
        unit_ends: cython.const[cython.uint][::1],
        scopes,
        scope_ends: cython.const[cython.uint][::1],
        rows,
        row_ends: cython.const[cython.uint][::1],
        out_ends: cython.uint[::1],
    ):
        """Clip the rows of each group, and set `out_ends` to their ends.

        The units, scopes and rows of a group end at its entry of `unit_ends`, `scope_ends` and `row_ends`. `scopes` has
        the columns vaddr, end and depth, `rows` vaddr, file and line. All rows stay if a unit has no ranges. A row that
        applies across the start of a range is moved there.
        """
        vaddr: cython.const[cython.ulonglong][::1] = scopes.vaddr
        end: cython.const[cython.ulonglong][::1] = scopes.end
        depth: cython.const[cython.uint][::1] = scopes.depth
        row_vaddr: cython.const[cython.ulonglong][::1] = rows.vaddr
        row_file: cython.const[cython.uint][::1] = rows.file
        row_line: cython.const[cython.uint][::1] = rows.line
        described = cython.cast(cython.p_uchar, ranges.described.vector.items)
        starts = cython.cast(cython.p_ulonglong, ranges.starts.vector.items)
        ends = cython.cast(cython.p_ulonglong, ranges.ends.vector.items)
        first = cython.cast(cython.p_uint, ranges.first.vector.items)
        group: cython.Py_ssize_t
        i: cython.Py_ssize_t
        unit: cython.Py_ssize_t = 0
        scope: cython.Py_ssize_t = 0
        row: cython.Py_ssize_t = 0
        span: cython.uint
        good: cython.bint = True
        belong(vaddr.shape[0] == end.shape[0] == depth.shape[0])
        belong(row_vaddr.shape[0] == row_file.shape[0] == row_line.shape[0])
        belong(unit_ends.shape[0] == scope_ends.shape[0] == row_ends.shape[0] == out_ends.shape[0])
        belong(are_ends(unit_ends, units.shape[0]) and all_below(units, units.shape[0], ranges.described.vector.count))
        belong(are_ends(scope_ends, vaddr.shape[0]) and are_ends(row_ends, row_vaddr.shape[0]))
        self.vaddr.vector.count = self.file.vector.count = self.line.vector.count = 0
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for group in range(unit_ends.shape[0]):
                handle_signals(cython.address(work), 1 + row_ends[group] - row + scope_ends[group] - scope)
                is_clipped: cython.bint = row < row_ends[group]
                self.spans.count = 0
                for i in range(unit, unit_ends[group]):
                    if described[units[i]] != RANGES_GIVEN:
                        is_clipped = False
                    elif is_clipped:
                        for span in range(first[units[i]], first[units[i] + 1]):
                            good = good and self._add_span(starts[span], ends[span])
                unit = unit_ends[group]
                if not is_clipped:
                    good = good and self._reserve(row_ends[group] - row)
                    if not good:
                        break
                    for i in range(row, row_ends[group]):
                        self._put(row_vaddr[i], row_file[i], row_line[i])
                else:
                    self._join()
                    for i in range(scope, scope_ends[group]):
                        if depth[i] == 0 and not self._covers(vaddr[i], end[i]):
                            for i in range(scope, scope_ends[group]):
                                good = good and self._add_span(vaddr[i], end[i])
                            self._join()
                            break
                    good = good and self._reserve(row_ends[group] - row + self.spans.count)
                    if not good:
                        break
                    self._clip(
                        cython.address(row_vaddr[0]),
                        cython.address(row_file[0]),
                        cython.address(row_line[0]),
                        row,
                        row_ends[group],
                    )
                scope = scope_ends[group]
                row = row_ends[group]
                out_ends[group] = cython.cast(cython.uint, self.vaddr.vector.count)
        if not good:
            raise MemoryError

    def _clip(self, vaddr, file, line, row, rows):
        """Append the rows [row, rows) that are in the joined spans."""
        span: cython.Py_ssize_t
        first: cython.Py_ssize_t = row
        files = cython.cast(cython.p_uint, self.file.vector.items)
        first_row: cython.Py_ssize_t = self.vaddr.vector.count
        for span in range(self.spans.count // 2):
            while row < rows and vaddr[row] <= self.spans.items[2 * span]:
                row += 1
            if row > first and file[row - 1] != NO_FILE:
                self._put(self.spans.items[2 * span], file[row - 1], line[row - 1])
            while row < rows and vaddr[row] < self.spans.items[2 * span + 1]:
                self._put(vaddr[row], file[row], line[row])
                row += 1
            if self.vaddr.vector.count > first_row and files[self.vaddr.vector.count - 1] != NO_FILE:
                self._put(self.spans.items[2 * span + 1], NO_FILE, 0)


def by_start(left, right):
    """Compare spans by start."""
    first = cython.cast(cython.pointer[cython.const[cython.ulonglong]], left)
    second = cython.cast(cython.pointer[cython.const[cython.ulonglong]], right)
    return 1 if first[0] > second[0] else -1 if first[0] < second[0] else 0
