"""Single DIEs with all their attributes, DIEs of variables with an address, and DIEs of functions and inlined calls.

For the few DIEs that a query of them needs: the ranges of functions, calls and lines have readers of their own.
"""

import cython
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memset
from cython.cimports.whence.dwarf.kernels import constants as c
from cython.cimports.whence.dwarf.kernels.abbrevs import (
    FUNCTION,
    S_HIGH,
    S_LOW,
    S_RANGES,
    S_SIBLING,
    DieCursor,
    entry_of_code,
    free_cache,
    next_die,
    read_attributes,
    table_of,
)
from cython.cimports.whence.dwarf.kernels.budget import begin_unit, make_budget, spend
from cython.cimports.whence.dwarf.kernels.dies import N_HIGH, N_LOW, N_RANGES
from cython.cimports.whence.dwarf.kernels.names import type_of
from cython.cimports.whence.dwarf.kernels.reading import (
    Attribute,
    address_of,
    fixed,
    indirect,
    is_index,
    name_of,
    next_attribute,
    read_form,
    skip,
    skip_form,
    target_of,
    uleb,
    unit_at,
)
from cython.cimports.whence.dwarf.kernels.units import (
    ADDRESS_SIZE,
    DIE,
    END,
    FAULT,
    OFFSET,
    WIDTH,
    DwarfSections,
    File,
    add_range_list,
    add_span,
    u64,
)
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column, u64s
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.vector import push_u64

BYTES_PER_DIE = cython.declare(cython.ulonglong, 64)  # the budget of a DIE that is read by itself

NO_MEMORY = cython.declare(u64, 0xFFFFFFFFFFFFFFFF)

# modes of a walk
LAST = cython.declare(cython.int, 0)
CHAIN = cython.declare(cython.int, 1)
FUNCTIONS = cython.declare(cython.int, 2)
CHILDREN = cython.declare(cython.int, 3)
SCOPES = cython.declare(cython.int, 4)
CALLS = cython.declare(cython.int, 5)

NUMBER, ADDRESS, NAME, REFERENCE, BLOCK, LIST_INDEX, SIGNATURE = range(7)  # kinds of values of attributes


def block_size(data, offset, end, form, big):
    """Read the size of a block, and move `at` to its first byte."""
    if form == c.DW_FORM_block1:
        return fixed(data, offset, end, 1, big)
    if form == c.DW_FORM_block2:
        return fixed(data, offset, end, 2, big)
    if form == c.DW_FORM_block4:
        return fixed(data, offset, end, 4, big)
    return uleb(data, offset, end)


def is_block(form):
    """Return True for the forms of blocks."""
    return form in (c.DW_FORM_exprloc, c.DW_FORM_block, c.DW_FORM_block1, c.DW_FORM_block2, c.DW_FORM_block4)


def address_in(file, unit, offset, end, vaddr):
    """Read an expression that is only an address, or an address plus a number. False for others."""
    data = file.info.at
    ok: cython.int = 1
    if offset >= end:
        return False
    code: cython.uchar = data[offset]
    offset += 1
    if code == c.DW_OP_addr:
        vaddr[0] = fixed(data, cython.address(offset), end, cython.cast(cython.int, unit[ADDRESS_SIZE]), file.big)
    elif code == c.DW_OP_addrx or code == c.DW_OP_GNU_addr_index:
        vaddr[0] = address_of(
            file, unit, uleb(data, cython.address(offset), end), c.DW_FORM_addrx, cython.address(ok)
        )  # fmt: skip
    else:
        return False
    if offset < end:
        code = data[offset]
        offset += 1
        if code != c.DW_OP_plus_uconst:
            return False
        vaddr[0] += uleb(data, cython.address(offset), end)
    return ok != 0 and offset == end


def is_scope(tag):
    """Return True for DIEs whose names qualify those of types in them."""
    return tag in (
        c.DW_TAG_namespace, c.DW_TAG_module, c.DW_TAG_class_type, c.DW_TAG_structure_type, c.DW_TAG_union_type,
        c.DW_TAG_interface_type, c.DW_TAG_enumeration_type,
    )  # fmt: skip


@cython.final
@cython.cclass
class VariableReader:
    """Reads DIEs of one file. `alt`: the supplementary file, which has some of its names."""

    def __cinit__(self, sections: DwarfSections, alt: DwarfSections):
        self.sections, self.alt = sections, alt
        memset(cython.address(self.tables), 0, cython.sizeof(self.tables))
        memset(cython.address(self.spans), 0, cython.sizeof(self.spans))
        memset(cython.address(self.levels), 0, cython.sizeof(self.levels))
        make_budget(cython.address(self.budget), sections.file.info.size)
        make_budget(cython.address(self.spans.budget), sections.file.ranges.size + sections.file.rnglists.size)

    def __dealloc__(self):
        free_cache(cython.address(self.tables))
        free(self.spans.items)
        free(self.levels.items)

    def die(self, offset: cython.ulonglong):
        """Return (tag, has children, end, unit, attributes) of the DIE at an offset; None if it cannot be read.

        The end of a list of children has tag 0; the unit is its row. An attribute is (name, kind, value, size). The
        value is a number of 64 bits, an address, a name reference, the key of a DIE (names.pxd), the offset of a block
        or of a number of 128 bits in .debug_info, the index of a list, or the signature of a type that is not
        in .debug_info.
        """
        file: cython.pointer[File] = cython.address(self.sections.file)
        data = file.info.at
        fault: cython.int = 0
        ok: cython.int = 1
        position: u64 = offset
        unit = unit_at(file, offset)
        if unit == cython.NULL or unit[FAULT] or offset < unit[DIE]:
            return None
        begin_unit(cython.address(self.budget), BYTES_PER_DIE)
        table = table_of(
            cython.address(self.tables), file, unit, cython.address(self.budget), cython.address(fault)
        )  # fmt: skip
        if table == cython.NULL:
            return None
        number = cython.cast(u64, unit - file.units) // WIDTH
        code: u64 = uleb(data, cython.address(position), unit[END])
        if code == 0:
            return (0, False, position, number, []) if position <= unit[END] else None
        entry = entry_of_code(table, code)
        if entry == cython.NULL:
            return None
        attribute: Attribute
        attributes = []
        spec: u64 = entry.spec
        while next_attribute(file.abbrev.at, cython.address(spec), file.abbrev.size, cython.address(attribute)):
            if not spend(cython.address(self.budget), 1):
                return None
            form: u64 = indirect(data, cython.address(position), unit[END], attribute.form)
            size: u64 = 0
            kind: cython.int = NUMBER
            if is_block(form):
                size = block_size(data, cython.address(position), unit[END], form, file.big)
                value: u64 = position
                kind = BLOCK
                skip(cython.address(position), unit[END], size)
            elif form == c.DW_FORM_data16:
                value = position
                size = 16
                kind = BLOCK
                skip(cython.address(position), unit[END], size)
            else:
                value = read_form(
                    data, cython.address(position), unit[END], cython.address(form), attribute.implicit, unit, file.big
                )  # fmt: skip
                if is_index(form):
                    value = address_of(file, unit, value, form, cython.address(ok))
                    kind = ADDRESS
                elif form in (
                    c.DW_FORM_string, c.DW_FORM_strp, c.DW_FORM_line_strp, c.DW_FORM_strp_sup, c.DW_FORM_GNU_strp_alt,
                    c.DW_FORM_strx, c.DW_FORM_GNU_str_index,
                ) or c.DW_FORM_strx1 <= form <= c.DW_FORM_strx4:  # fmt: skip
                    value = name_of(file, cython.address(self.alt.file), unit, value, form)
                    kind = NAME
                elif (
                    c.DW_FORM_ref1 <= form <= c.DW_FORM_ref_udata
                    or form in (c.DW_FORM_ref_addr, c.DW_FORM_GNU_ref_alt, c.DW_FORM_ref_sup4, c.DW_FORM_ref_sup8)
                ):  # fmt: skip
                    value = target_of(unit, value, form)
                    kind = REFERENCE
                elif form == c.DW_FORM_ref_sig8:
                    target: u64 = type_of(file, value, cython.address(self.budget))
                    kind = REFERENCE if target else SIGNATURE
                    value = target if target else value
                elif form in (c.DW_FORM_loclistx, c.DW_FORM_rnglistx):
                    kind = LIST_INDEX
                elif form == c.DW_FORM_addr:
                    kind = ADDRESS
            if position > unit[END]:
                return None
            attributes.append((attribute.name, kind, value, size))
        return entry.tag, entry.children != 0, position, number, attributes

    def type_die(self, signature: cython.ulonglong):
        """Return the offset of the DIE of the type with a signature; 0 if no type unit has it."""
        begin_unit(cython.address(self.budget), BYTES_PER_DIE)
        return type_of(cython.address(self.sections.file), signature, cython.address(self.budget))

    def variables(self, addresses: Column, offsets: Column):
        """Append the address of every variable that has one, and the offset of its DIE, unit after unit.

        A fault costs the rest of its unit. Raises MemoryError.
        """
        index: u64
        has_memory: cython.bint = True
        file: cython.pointer[File] = cython.address(self.sections.file)
        belong(addresses.takes(8) and offsets.takes(8))
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for index in range(file.unit_count):
                unit = cython.address(file.units[index * WIDTH])
                handle_signals(cython.address(work), unit[END] - unit[OFFSET])
                if unit[FAULT] == 0 and not self.of_unit(unit, addresses, offsets):
                    has_memory = False
                    break
        if not has_memory:
            raise MemoryError

    def covering(self, offset: cython.ulonglong, vaddr: cython.ulonglong):
        """Return the offset of the innermost function or inlined call at a vaddr; 0 if there is no function.

        `offset` is in the unit to search.
        """
        last: u64 = 0
        offsets: Column = Column("Q")
        unit = unit_at(cython.address(self.sections.file), offset)
        if unit != cython.NULL and unit[FAULT] == 0:
            with cython.nogil:
                last = self.walk(unit, unit[DIE], LAST, vaddr, offsets, offsets, offsets)
        return last

    def functions(self, offset: cython.ulonglong, starts: Column, ends: Column, offsets: Column):
        """Append the ranges of every function of the unit at an offset, and their DIEs' offsets. Raises MemoryError."""
        last: u64 = 0
        unit = unit_at(cython.address(self.sections.file), offset)
        belong(starts.takes(8) and ends.takes(8) and offsets.takes(8))
        if unit != cython.NULL and unit[FAULT] == 0:
            with cython.nogil:
                last = self.walk(unit, unit[DIE], FUNCTIONS, 0, starts, ends, offsets)
        if last == NO_MEMORY:
            raise MemoryError

    def chain(self, offset: cython.ulonglong, vaddr: cython.ulonglong, starts: Column, offsets: Column):
        """Append a function's DIE and the calls inlined into it at a vaddr, outermost first. Raises MemoryError.

        For each, the start of its first range and its offset.
        """
        last: u64 = 0
        unit = unit_at(cython.address(self.sections.file), offset)
        belong(starts.takes(8) and offsets.takes(8))
        if unit != cython.NULL and unit[FAULT] == 0:
            with cython.nogil:
                last = self.walk(unit, offset, CHAIN, vaddr, starts, starts, offsets)
        if last == NO_MEMORY:
            raise MemoryError

    def children(self, offset: cython.ulonglong, offsets: Column, tags: Column):
        """Append offset and tag of the DIEs directly below the DIE at an offset. Raises MemoryError."""
        has_memory: cython.bint = True
        unit = unit_at(cython.address(self.sections.file), offset)
        belong(offsets.takes(8) and tags.takes(8) and offsets.vector.count == 0)
        if unit != cython.NULL and unit[FAULT] == 0 and offset >= unit[DIE]:
            with cython.nogil:
                has_memory = self.below(unit, offset, CHILDREN, offsets, tags, tags)
        if not has_memory:
            raise MemoryError

    def range_list(
        self, offset: cython.ulonglong, value: cython.ulonglong, is_index: cython.bint, starts: Column, ends: Column
    ):
        """Append the ranges of a list of the unit at an offset, by DW_AT_ranges. Raises MemoryError."""
        span: cython.Py_ssize_t
        unit = unit_at(cython.address(self.sections.file), offset)
        belong(starts.takes(8) and ends.takes(8))
        if unit == cython.NULL or unit[FAULT]:
            return
        begin_unit(cython.address(self.spans.budget), unit[END] - unit[OFFSET])
        self.spans.count = 0
        form: cython.ushort = c.DW_FORM_rnglistx if is_index else c.DW_FORM_sec_offset
        add_range_list(cython.address(self.spans), cython.address(self.sections.file), unit, value, form, 0)
        for span in range(self.spans.count):
            if not (starts.push_u64(self.spans.items[span].start) and ends.push_u64(self.spans.items[span].end)):
                raise MemoryError

    def calls(self, offset: cython.ulonglong, offsets: Column):
        """Append the offsets of the call sites in the function at an offset, in calls inlined there too.

        Raises MemoryError.
        """
        has_memory: cython.bint = True
        unit = unit_at(cython.address(self.sections.file), offset)
        belong(offsets.takes(8) and offsets.vector.count == 0)
        if unit != cython.NULL and unit[FAULT] == 0 and offset >= unit[DIE]:
            with cython.nogil:
                has_memory = self.below(unit, offset, CALLS, offsets, offsets, offsets)
        if not has_memory:
            raise MemoryError

    def scopes(self, offset: cython.ulonglong, starts: Column, ends: Column, around: Column):
        """Append start and end of the namespaces and types with children in the unit at an offset. Raises MemoryError.

        Scopes are in order of start; `around` receives 1 + the row of the scope around each, or 0.
        """
        has_memory: cython.bint = True
        unit = unit_at(cython.address(self.sections.file), offset)
        belong(starts.takes(8) and ends.takes(8) and around.takes(8) and starts.vector.count == 0)
        belong(ends.vector.count == 0 and around.vector.count == 0)
        if unit != cython.NULL and unit[FAULT] == 0:
            with cython.nogil:
                has_memory = self.below(unit, unit[DIE], SCOPES, starts, ends, around)
        if not has_memory:
            raise MemoryError

    def below(self, unit, offset, mode, firsts, seconds, around):
        """Walk the DIEs below a DIE for `children`, `scopes` or `calls`. False if memory runs out."""
        level: u64 = 0
        work: cython.Py_ssize_t = 0
        start: u64 = offset
        inner: u64 = 0  # 1 + the row of the innermost open scope
        cursor: DieCursor
        self.levels.count = 0
        if not self.begin_walk(unit, offset, cython.address(cursor)):
            return True
        while next_die(cython.address(cursor)):
            if cursor.entry == cython.NULL:
                if level == 0:
                    break
                level -= 1
                if inner and level == self.levels.items[inner - 1]:
                    u64s(seconds)[inner - 1] = cursor.offset
                    inner = u64s(around)[inner - 1]
                if level == 0:
                    break
                continue
            if not read_attributes(cython.address(cursor)):
                break
            handle_signals(cython.address(work), cursor.offset - cursor.die)
            if mode == CHILDREN:
                if level == 1 and not (firsts.push_u64(cursor.die) and seconds.push_u64(cursor.entry.tag)):
                    return False
            elif mode == CALLS and cursor.entry.tag in (c.DW_TAG_call_site, c.DW_TAG_GNU_call_site):
                if not firsts.push_u64(cursor.die):
                    return False
            if cursor.entry.children:
                if mode == CHILDREN and level == 1 and cursor.has >> S_SIBLING & 1:
                    target: u64 = target_of(unit, cursor.values[S_SIBLING], cursor.forms[S_SIBLING])
                    if cursor.offset < target < unit[END]:
                        cursor.offset = target
                        continue
                if mode == SCOPES and level and is_scope(cursor.entry.tag):
                    if not (
                        firsts.push_u64(cursor.die)
                        and seconds.push_u64(unit[END])  # until it ends
                        and around.push_u64(inner)
                        and push_u64(cython.address(self.levels), level)
                    ):
                        return False
                    inner = cython.cast(u64, firsts.vector.count)
                level += 1
            elif level == 0:
                break
        self.walked += cursor.offset - start
        return True

    def find_spans(self, cursor):
        """Set `spans` to the ranges of the current DIE."""
        file, unit, has = cursor.file, cursor.unit, cursor.has
        values: cython.p_ulonglong = cursor.values
        forms: cython.p_ulonglong = cursor.forms
        ok: cython.int = 1
        self.spans.count = 0
        if has & N_LOW and has & N_HIGH:
            low: u64 = address_of(file, unit, values[S_LOW], forms[S_LOW], cython.address(ok))
            high: u64 = values[S_HIGH]
            if forms[S_HIGH] != c.DW_FORM_addr and not is_index(forms[S_HIGH]):
                high += low
            elif ok:
                high = address_of(file, unit, high, forms[S_HIGH], cython.address(ok))
            if ok and low < high:
                add_span(cython.address(self.spans), low, high, 0)
        elif has & N_RANGES:
            add_range_list(
                cython.address(self.spans), file, unit, values[S_RANGES],
                cython.cast(cython.ushort, forms[S_RANGES]), 0,
            )  # fmt: skip

    def walk(self, unit, offset, mode, vaddr, starts, ends, offsets):
        """Walk functions and inlined calls from an offset to the end of the unit, or of the DIE (CHAIN).

        Returns the last DIE that covers a vaddr, which is the innermost; NO_MEMORY if memory runs out.
        Appends start and offset of each of these (CHAIN), or every function with its ranges (FUNCTIONS).
        """
        last: u64 = 0
        level: u64 = 0
        span: cython.Py_ssize_t
        cursor: DieCursor
        begin_unit(cython.address(self.spans.budget), unit[END] - unit[OFFSET])
        if not self.begin_walk(unit, offset, cython.address(cursor)):
            return 0
        while next_die(cython.address(cursor)):
            if cursor.entry == cython.NULL:
                if mode == CHAIN and level <= 1:
                    break
                level -= 1
                continue
            if not read_attributes(cython.address(cursor)):
                break
            if cursor.entry.children:
                level += 1
            if cursor.entry.kind >= FUNCTION:
                self.find_spans(cython.address(cursor))
                for span in range(self.spans.count):
                    low: u64 = self.spans.items[span].start
                    high: u64 = self.spans.items[span].end
                    if mode == FUNCTIONS:
                        if cursor.entry.kind == FUNCTION and not (
                            starts.push_u64(low) and ends.push_u64(high) and offsets.push_u64(cursor.die)
                        ):
                            return NO_MEMORY
                    elif low <= vaddr < high:
                        last = cursor.die
                        if mode == CHAIN and not (
                            starts.push_u64(self.spans.items[0].start) and offsets.push_u64(cursor.die)
                        ):
                            return NO_MEMORY
                        break
            if mode == CHAIN and level == 0:
                break
        self.walked += cursor.offset - offset
        return last

    def begin_walk(self, unit, offset, cursor):
        """Set up a walk over a unit from `offset`. False if the unit's abbreviations are damaged."""
        fault: cython.int = 0
        begin_unit(cython.address(self.budget), unit[END] - unit[OFFSET])
        cursor.file = cython.address(self.sections.file)
        cursor.unit = unit
        cursor.offset = offset
        cursor.table = table_of(
            cython.address(self.tables), cursor.file, unit, cython.address(self.budget), cython.address(fault)
        )  # fmt: skip
        return cursor.table != cython.NULL

    def of_unit(self, unit, addresses, offsets):
        """Append the variables of a unit that have an address. False if memory runs out."""
        vaddr: u64 = 0
        cursor: DieCursor
        if not self.begin_walk(unit, unit[DIE], cython.address(cursor)):
            return True
        while next_die(cython.address(cursor)):
            if cursor.entry == cython.NULL:
                continue
            if cursor.entry.tag != c.DW_TAG_variable:
                read_attributes(cython.address(cursor))
            elif self.at_address(unit, cursor.entry.spec, cython.address(cursor.offset), cython.address(vaddr)):
                if not (addresses.push_u64(vaddr) and offsets.push_u64(cursor.die)):
                    return False
        return True

    def at_address(self, unit, spec, offset, vaddr):
        """Read the attributes of a DIE to its end. True if its location is an address, which is written to `vaddr`."""
        file: cython.pointer[File] = cython.address(self.sections.file)
        data = file.info.at
        end: u64 = unit[END]
        attribute: Attribute
        is_address: cython.bint = False
        while next_attribute(file.abbrev.at, cython.address(spec), file.abbrev.size, cython.address(attribute)):
            if offset[0] > end:
                break
            if not spend(cython.address(self.budget), 1):
                offset[0] = end + 1
                break
            form: u64 = indirect(data, offset, end, attribute.form)
            if attribute.name == c.DW_AT_location and is_block(form):
                size: u64 = block_size(data, offset, end, form, file.big)
                if offset[0] <= end and size <= end - offset[0]:
                    is_address = address_in(file, unit, offset[0], offset[0] + size, vaddr)
                skip(offset, end, size)
            else:
                skip_form(data, offset, end, form, unit, file.big)
        return is_address and offset[0] <= end
