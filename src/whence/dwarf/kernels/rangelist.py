"""Range lists: .debug_ranges (DWARF 2 to 4) and .debug_rnglists (5), and what of them is code.

A linker that drops a function leaves its debug info behind, at 0, -1, -2 or 0 + an offset, depending on the linker.
All of them fail one test: a range of code begins in an executable section (or segment). DWARF 5, sections 2.17.3 and
7.25; DWARF 4, section 2.17.3.
"""

import cython
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.whence.dwarf.kernels.budget import LIST_ENTRY, begin_unit, found_budget, spend
from cython.cimports.whence.dwarf.kernels.constants import (
    DW_FORM_rnglistx,
    DW_FORM_sec_offset,
    DW_RLE_base_address,
    DW_RLE_base_addressx,
    DW_RLE_end_of_list,
    DW_RLE_offset_pair,
    DW_RLE_start_end,
    DW_RLE_start_length,
    DW_RLE_startx_endx,
    DW_RLE_startx_length,
)
from cython.cimports.whence.dwarf.kernels.parts import Parts
from cython.cimports.whence.dwarf.kernels.reading import entry_of, fixed, largest, uleb
from cython.cimports.whence.dwarf.kernels.shared import (
    ADDR_BASE,
    ADDRESS_SIZE,
    END,
    HAS,
    HAS_HIGH,
    HAS_LOW,
    HAS_RANGES,
    HIGH,
    LOW,
    OFFSET,
    OFFSET_SIZE,
    RANGES,
    RANGES_BASE,
    RNG_BASE,
    VERSION,
    WIDTH,
    File,
    u64,
)

# What `expand` returns; 0 is well.
BAD_LIST = cython.declare(cython.int, 1)
NO_MEMORY = cython.declare(cython.int, 2)
TOO_MANY = cython.declare(cython.int, 3)


def is_code(file, start):
    """Does a range of code begin here?"""
    low: u64 = 0
    high: u64 = file.code_count
    middle: u64
    while low < high:
        middle = (low + high) // 2
        if file.code[2 * middle] <= start:
            low = middle + 1
        else:
            high = middle
    return low > 0 and start < file.code[2 * low - 1]


def add_span(spans, start, end, node):
    """Keep [start, end) of a node; empty ones are nothing."""
    more: u64
    if start >= end:
        return 0
    if spans.count == spans.room:
        more = spans.room * 2 if spans.room else 256
        block = realloc(spans.rows, more * cython.sizeof(spans.rows[0]))
        if block == cython.NULL:
            return NO_MEMORY
        spans.rows = cython.cast(cython.typeof(spans.rows), block)
        spans.room = more
    spans.rows[spans.count].start = start
    spans.rows[spans.count].end = end
    spans.rows[spans.count].node = node
    spans.count += 1
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def keep(
    spans: cython.pointer[Spans], file: cython.pointer[cython.const[File]], unit: cython.pointer[cython.const[u64]],
    start: u64, end: u64, node: cython.uint,
) -> cython.int:  # fmt: skip
    """Keep what is code."""
    start &= largest(cython.cast(cython.int, unit[ADDRESS_SIZE]))
    end &= largest(cython.cast(cython.int, unit[ADDRESS_SIZE]))
    return add_span(spans, start, end, node) if is_code(file, start) else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def old_list(
    spans: cython.pointer[Spans], file: cython.pointer[cython.const[File]], unit: cython.pointer[cython.const[u64]],
    at: u64, node: cython.uint,
) -> cython.int:  # fmt: skip
    """A list of .debug_ranges: pairs of addresses from a base; (largest, x) makes x the base, (0, 0) ends it."""
    width: cython.int = cython.cast(cython.int, unit[ADDRESS_SIZE])
    none: u64 = largest(width)
    base: u64 = unit[LOW] if unit[HAS] & HAS_LOW else 0
    start: u64
    end: u64
    fault: cython.int = 0
    at += unit[RANGES_BASE]
    while fault == 0:
        if not spend(cython.address(spans.budget), LIST_ENTRY):
            return TOO_MANY
        start = fixed(file.ranges.at, cython.address(at), file.ranges.size, width, file.big)
        end = fixed(file.ranges.at, cython.address(at), file.ranges.size, width, file.big)
        if at > file.ranges.size:
            return BAD_LIST
        if start == 0 and end == 0:
            return 0
        if start == none:
            base = end
        elif start < end:
            fault = keep(spans, file, unit, base + start, base + end, node)
    return fault


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def new_list(
    spans: cython.pointer[Spans], file: cython.pointer[cython.const[File]], unit: cython.pointer[cython.const[u64]],
    at: u64, node: cython.uint,
) -> cython.int:  # fmt: skip
    """A list of .debug_rnglists (DW_RLE_*)."""
    data = file.rnglists.at
    size: u64 = file.rnglists.size
    width: cython.int = cython.cast(cython.int, unit[ADDRESS_SIZE])
    none: u64 = largest(width)
    base: u64 = unit[LOW] if unit[HAS] & HAS_LOW else 0
    kind: u64
    start: u64
    end: u64
    ok: cython.int
    fault: cython.int = 0
    while fault == 0:
        if not spend(cython.address(spans.budget), LIST_ENTRY):
            return TOO_MANY
        kind = fixed(data, cython.address(at), size, 1, 0)
        start = end = 0
        ok = 1
        if kind == DW_RLE_end_of_list:
            return 0 if at <= size else BAD_LIST
        if kind in (
            DW_RLE_base_addressx,
            DW_RLE_startx_endx,
            DW_RLE_startx_length,
        ):
            start = uleb(data, cython.address(at), size)
            start = entry_of(file.addr, unit[ADDR_BASE], start, width, file.big, cython.address(ok))
            if kind == DW_RLE_startx_endx and ok:
                end = uleb(data, cython.address(at), size)
                end = entry_of(file.addr, unit[ADDR_BASE], end, width, file.big, cython.address(ok))
            elif kind == DW_RLE_startx_length:
                end = start + uleb(data, cython.address(at), size)
        elif kind == DW_RLE_offset_pair:
            start = base + uleb(data, cython.address(at), size)
            end = base + uleb(data, cython.address(at), size)
            ok = base != none
        elif kind == DW_RLE_base_address:
            start = fixed(data, cython.address(at), size, width, file.big)
        elif kind == DW_RLE_start_end:
            start = fixed(data, cython.address(at), size, width, file.big)
            end = fixed(data, cython.address(at), size, width, file.big)
        elif kind == DW_RLE_start_length:
            start = fixed(data, cython.address(at), size, width, file.big)
            end = start + uleb(data, cython.address(at), size)
        else:
            return BAD_LIST
        if at > size:
            return BAD_LIST
        if kind in (DW_RLE_base_addressx, DW_RLE_base_address):
            base = start if ok else none
        elif ok:
            fault = keep(spans, file, unit, start, end, node)
    return fault


def expand(spans, file, unit, value, form, node):
    """Keep the ranges a DW_AT_ranges stands for; `value` is what its `form` holds."""
    width: cython.int = cython.cast(cython.int, unit[OFFSET_SIZE])
    ok: cython.int = 1
    if unit[VERSION] < 5:
        return old_list(spans, file, unit, value, node)
    if form == DW_FORM_rnglistx:
        value = unit[RNG_BASE] + entry_of(file.rnglists, unit[RNG_BASE], value, width, file.big, cython.address(ok))
        if not ok:
            return BAD_LIST
    return new_list(spans, file, unit, value, node)


def unit_spans(parts: Parts, units: cython.const[cython.ulonglong][::1]):
    """The ranges the units' root DIEs claim: (starts, ends, unit numbers) as bytes of u64 each, and per unit whether
    it claims any (a byte: 0 none, 1 some, 2 a bad list)."""
    spans: Spans
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    count: cython.Py_ssize_t = units.shape[0] // WIDTH
    says = bytearray(count)
    said: cython.uchar[::1] = says
    fault: cython.int
    spans.rows = cython.NULL
    spans.count = spans.room = 0
    found_budget(cython.address(spans.budget), parts.file.ranges.size + parts.file.rnglists.size)
    try:
        with cython.nogil:
            for row in range(count):
                unit = cython.address(units[row * WIDTH])
                fault = 0
                begin_unit(cython.address(spans.budget), unit[END] - unit[OFFSET])
                if unit[HAS] & HAS_LOW and unit[HAS] & HAS_HIGH:
                    if unit[LOW] < unit[HIGH]:
                        fault = keep(
                            cython.address(spans), cython.address(parts.file), unit, unit[LOW], unit[HIGH],
                            cython.cast(cython.uint, row),
                        )  # fmt: skip
                        said[row] = 1
                elif unit[HAS] & HAS_RANGES:
                    fault = expand(
                        cython.address(spans), cython.address(parts.file), unit, unit[RANGES] << 1 >> 1,
                        DW_FORM_rnglistx if unit[RANGES] >> 63 else DW_FORM_sec_offset, cython.cast(cython.uint, row),
                    )  # fmt: skip
                    said[row] = 1
                if fault:
                    said[row] = 2
        starts = bytearray(8 * spans.count)
        ends = bytearray(8 * spans.count)
        owners = bytearray(4 * spans.count)
        if spans.count:
            start_at: cython.ulonglong[::1] = memoryview(starts).cast("Q")
            end_at: cython.ulonglong[::1] = memoryview(ends).cast("Q")
            owner_at: cython.uint[::1] = memoryview(owners).cast("I")
            for at in range(cython.cast(cython.Py_ssize_t, spans.count)):
                start_at[at] = spans.rows[at].start
                end_at[at] = spans.rows[at].end
                owner_at[at] = spans.rows[at].node
    finally:
        free(spans.rows)
    return starts, ends, owners, says
