"""One pass over a unit's DIEs: its functions and inlined calls, in tree order, as the columns of whence.ranges.Scopes.

Most DIEs cost their code, the look-up of its entry and one addition. DIEs that cannot contain functions are skipped
with their children: by DW_AT_sibling where it exists, otherwise by counting levels. The open levels are a stack in
memory, so trees can have any depth. DWARF 5, sections 2.3 and 7.5.2.

A function with several parts, or with nested functions, is put in tree order here: parts by vaddr, each followed by its
contents. Where calls extend past their callers, the order of the DIEs stays, with the parts of a parent before its
children. A fault costs the rest of the unit; a bad range list costs its function.
"""

import cython
from cython.cimports.libc.stdlib import free, qsort, realloc
from cython.cimports.libc.string import memset
from cython.cimports.whence.dwarf.kernels import constants as c
from cython.cimports.whence.dwarf.kernels.abbrevs import (
    DEAD,
    FUNCTION,
    INLINED,
    READ,
    S_CALL_COLUMN,
    S_CALL_DISCRIMINATOR,
    S_CALL_FILE,
    S_CALL_LINE,
    S_DECLARATION,
    S_HIGH,
    S_LOW,
    S_ORIGIN,
    S_RANGES,
    S_SIBLING,
    SKIP_BLOCK,
    SKIP_LEB,
    SKIP_TEXT,
    SLOTS,
    entry_of_code,
    free_cache,
    table_of,
)
from cython.cimports.whence.dwarf.kernels.budget import begin_unit, make_budget
from cython.cimports.whence.dwarf.kernels.names import PLAIN_SOURCE, forget_names, free_names, function_name
from cython.cimports.whence.dwarf.kernels.reading import (
    address_of,
    is_index,
    largest,
    read_form,
    skip,
    skip_form,
    skip_string,
    target_of,
    uleb,
)
from cython.cimports.whence.dwarf.kernels.units import (
    ADDRESS_SIZE,
    BAD_DIE,
    COSTLY_NAMES,
    DIE,
    END,
    FAULT,
    KIND,
    NO_ABBREV,
    OFFSET,
    OUT_OF_MEMORY,
    WIDTH,
    DwarfSections,
    File,
    Span,
    add_range_list,
    add_span,
    is_code,
    u64,
)
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.vector import grow, reserve_next

NO_START = cython.declare(u64, 0xFFFFFFFFFFFFFFFF)
FEW_SPANS = cython.declare(cython.Py_ssize_t, 64)


def walk(nodes, file, unit, table):
    """Collect the functions and inlined calls of a unit as nodes, in the order of their DIEs.

    Returns 0, NO_ABBREV, BAD_DIE (at `fault_offset`) or OUT_OF_MEMORY.
    """
    data = file.info.at
    offset: u64 = unit[DIE]
    end: u64 = unit[END]
    start: u64 = unit[OFFSET]
    step: cython.uint
    level: u64 = 0  # open DIEs that are searched
    skipped: u64 = 0  # open DIEs inside a skipped DIE
    current: cython.uint = 0  # the current node + 1
    values: u64[SLOTS]
    forms: cython.ushort[SLOTS]
    work: cython.Py_ssize_t = 0
    nodes.count = 0
    while offset < end:
        handle_signals(cython.address(work), 4)
        die: u64 = offset
        code: u64 = data[offset]
        offset += 1
        if code & 0x80:
            offset -= 1
            code = uleb(data, cython.address(offset), end)
        if code == 0:
            if skipped:
                skipped -= 1
                continue
            if level == 0:
                if offset > end:
                    nodes.fault_offset = die
                    return BAD_DIE
                continue  # padding between top-level DIEs
            level -= 1
            current = nodes.levels[level]
            continue
        entry = entry_of_code(table, code)
        if entry == cython.NULL:
            nodes.fault_offset = die
            return NO_ABBREV if offset <= end else BAD_DIE
        has: cython.uint = 0
        op = table.ops.items + entry.first
        for step in range(entry.ops):
            if end - offset < op.before or offset > end:
                nodes.fault_offset = die
                return BAD_DIE
            offset += op.before
            if op.what == SKIP_LEB:
                uleb(data, cython.address(offset), end)
            elif op.what == SKIP_BLOCK:
                skip(cython.address(offset), end, uleb(data, cython.address(offset), end))
            elif op.what == SKIP_TEXT:
                skip_string(data, cython.address(offset), end)
            elif op.what == READ:
                slot: cython.int = op.slot
                form: u64 = op.form
                values[slot] = read_form(
                    data, cython.address(offset), end, cython.address(form), op.implicit, unit, file.big
                )
                forms[slot] = cython.cast(cython.ushort, form)
                has |= cython.cast(cython.uint, 1) << slot
            else:
                skip_form(data, cython.address(offset), end, op.form, unit, file.big)
            op += 1
        if offset > end or end - offset < entry.tail:
            nodes.fault_offset = die
            return BAD_DIE
        offset += entry.tail
        parent: cython.uint = current
        if entry.kind >= FUNCTION and not skipped and not has >> S_DECLARATION & 1:
            if not reserve_next(nodes):
                nodes.fault_offset = die
                return OUT_OF_MEMORY
            node = cython.address(nodes.items[nodes.count])
            nodes.count += 1
            node.key = die
            node.parent = 0
            node.depth = 0
            node.has = has & (N_LOW | N_HIGH | N_RANGES)
            node.call_file = node.call_line = node.call_column = node.call_discriminator = 0
            if has & N_LOW:
                node.low = values[S_LOW]
                node.low_form = forms[S_LOW]
            if has & N_HIGH:
                node.high = values[S_HIGH]
                node.high_form = forms[S_HIGH]
            if has & N_RANGES:
                node.ranges = values[S_RANGES]
                node.ranges_form = forms[S_RANGES]
            if entry.kind == INLINED:
                if current:
                    node.parent = current
                    node.depth = nodes.items[current - 1].depth + 1
                if has >> S_CALL_FILE & 1:
                    node.call_file = cython.cast(cython.uint, values[S_CALL_FILE])
                if has >> S_CALL_LINE & 1:
                    node.call_line = cython.cast(cython.uint, values[S_CALL_LINE])
                if has >> S_CALL_COLUMN & 1:
                    node.call_column = cython.cast(cython.uint, values[S_CALL_COLUMN])
                if has >> S_CALL_DISCRIMINATOR & 1:
                    node.call_discriminator = cython.cast(cython.uint, values[S_CALL_DISCRIMINATOR])
                if has >> S_ORIGIN & 1:
                    value: u64 = target_of(unit, values[S_ORIGIN], forms[S_ORIGIN])
                    if value:
                        node.key = value
            node.root = nodes.items[node.parent - 1].root if node.parent else cython.cast(cython.uint, nodes.count - 1)
            parent = cython.cast(cython.uint, nodes.count)
        if not entry.children:
            continue
        if skipped or entry.kind == DEAD or has >> S_DECLARATION & 1:
            if has >> S_SIBLING & 1 and forms[S_SIBLING] >= c.DW_FORM_ref1 and forms[S_SIBLING] <= c.DW_FORM_ref_udata:
                sibling: u64 = start + values[S_SIBLING]
                if sibling > offset and sibling <= end:
                    offset = sibling
                    continue
            skipped += 1
            continue
        if level >= cython.cast(u64, nodes.level_capacity) and not grow(
            cython.cast(cython.pp_void, cython.address(nodes.levels)),
            cython.address(nodes.level_capacity),
            level + 1,
            4,
        ):
            nodes.fault_offset = die
            return OUT_OF_MEMORY
        nodes.levels[level] = current
        level += 1
        current = parent
    return 0


def free_nodes(nodes):
    free(nodes.items)
    free(nodes.levels)
    nodes.items = cython.NULL
    nodes.levels = cython.NULL
    nodes.count = nodes.capacity = nodes.level_capacity = 0


def by_start(left, right):
    """Compare spans by start, then by owner, so that parents are first."""
    first = cython.cast(cython.pointer[cython.const[Span]], left)
    second = cython.cast(cython.pointer[cython.const[Span]], right)
    if first.start != second.start:
        return 1 if first.start > second.start else -1
    return 1 if first.owner > second.owner else -1 if first.owner < second.owner else 0


def sort_spans(spans, count):
    """Sort spans by `by_start`; few of them, as most functions have, without qsort."""
    i: cython.Py_ssize_t
    if count > FEW_SPANS:
        qsort(spans, count, cython.sizeof(Span), by_start)
        return
    for i in range(1, count):
        span: Span = spans[i]
        position: cython.Py_ssize_t = i
        while position > 0 and by_start(cython.address(spans[position - 1]), cython.address(span)) > 0:
            spans[position] = spans[position - 1]
            position -= 1
        spans[position] = span


@cython.final
@cython.cclass
class ScopeReader:
    """Reads the scopes of units, for one thread; memory is reused from unit to unit.

    `vaddr` to `call_discriminator` have a row for each scope, as whence.ranges.Scopes; `call_file` is a number in the
    unit's file table. `scope_ends`, `start_ends`, `faults` and `fault_offsets` have a row for each unit: the ends of
    its scopes and starts, its fault (0: none) and the fault's offset in .debug_info.
    """

    def __cinit__(
        self, sections: DwarfSections, alt: DwarfSections, style: cython.int, with_columns: cython.bint,
        vaddrs: cython.const[cython.ulonglong][::1],
    ):  # fmt: skip
        """Make a reader. `alt`: the sections of the supplementary file; `style`: how functions are named (names.pxd).

        With `vaddrs` (in ascending order), only functions that contain any of them are read.
        """
        self.vaddrs = vaddrs
        self.tables.with_columns = with_columns
        self.sections = sections
        self.alt = alt
        self.names.style = style
        self.names.seed = cython.cast(u64, cython.cast(cython.p_void, self))
        make_budget(cython.address(self.spans.budget), sections.file.ranges.size + sections.file.rnglists.size)
        make_budget(cython.address(self.names.budget), sections.file.info.size + alt.file.info.size)
        self.vaddr, self.end, self.depth = Column("Q", True), Column("Q", True), Column("I", True)
        self.function, self.call_file, self.call_line = Column("Q", True), Column("Q", True), Column("I", True)
        self.call_column, self.call_discriminator = Column("I", True), Column("I", True)
        self.scope_ends, self.start_ends, self.faults = Column("I", True), Column("I", True), Column("I", True)
        self.fault_offsets = Column("Q", True)

    def __dealloc__(self):
        free_cache(cython.address(self.tables))
        free_nodes(cython.address(self.nodes))
        free_names(cython.address(self.names))
        free(self.spans.items)
        free(self.sorted.items)
        free(self.order)
        free(self.path)

    def _count_scopes(self):
        """Set the length of all columns of scopes to that of the first."""
        self.end.vector.count = self.depth.vector.count = self.function.vector.count = self.vaddr.vector.count
        self.call_file.vector.count = self.call_line.vector.count = self.vaddr.vector.count
        if self.tables.with_columns:
            self.call_column.vector.count = self.call_discriminator.vector.count = self.vaddr.vector.count

    def _emit(self, node, start, end):
        """Append a scope.

        A call that contains no requested vaddr has the name of its function: it is not shown, and its own name may be
        in a unit that is not needed otherwise.
        """
        row: cython.Py_ssize_t = self.vaddr.vector.count
        key: u64 = node.key
        if self.vaddrs.shape[0] and not node.requested:
            key = self.nodes.items[node.root].key
        if row == self.vaddr.vector.capacity:
            self._count_scopes()
            if not (
                self.end.reserve(1)
                and self.depth.reserve(1)
                and self.function.reserve(1)
                and self.call_file.reserve(1)
                and self.call_line.reserve(1)
                and (not self.tables.with_columns or self.call_column.reserve(1))
                and (not self.tables.with_columns or self.call_discriminator.reserve(1))
                and self.vaddr.reserve(1)
            ):
                return OUT_OF_MEMORY
        name: u64 = function_name(
            cython.address(self.names), cython.address(self.sections.file), cython.address(self.alt.file),
            cython.address(self.tables), key,
        )  # fmt: skip
        cython.cast(cython.p_ulonglong, self.vaddr.vector.items)[row] = start
        cython.cast(cython.p_ulonglong, self.end.vector.items)[row] = end
        cython.cast(cython.p_uint, self.depth.vector.items)[row] = node.depth
        cython.cast(cython.p_ulonglong, self.function.vector.items)[row] = name
        cython.cast(cython.p_ulonglong, self.call_file.vector.items)[row] = node.call_file
        cython.cast(cython.p_uint, self.call_line.vector.items)[row] = node.call_line
        if self.tables.with_columns:
            cython.cast(cython.p_uint, self.call_column.vector.items)[row] = node.call_column
            cython.cast(cython.p_uint, self.call_discriminator.vector.items)[row] = node.call_discriminator
        self.vaddr.vector.count = row + 1
        return 0

    def _collect_spans(self, unit):
        """Collect the spans of every node, grouped by node. Return the first fault."""
        i: cython.Py_ssize_t
        first_fault: cython.int = 0
        file: cython.pointer[File] = cython.address(self.sections.file)
        self.spans.count = 0
        for i in range(self.nodes.count):
            node = cython.address(self.nodes.items[i])
            node.first = cython.cast(cython.uint, self.spans.count)
            node.start = NO_START
            fault: cython.int = 0
            if node.has & N_LOW and node.has & N_HIGH:
                ok: cython.int = 1
                low: u64 = address_of(file, unit, node.low, node.low_form, cython.address(ok))
                high: u64 = node.high
                if node.high_form == c.DW_FORM_addr or is_index(node.high_form):
                    if ok:
                        high = address_of(file, unit, node.high, node.high_form, cython.address(ok))
                else:
                    high += low
                most: u64 = largest(cython.cast(cython.int, unit[ADDRESS_SIZE]))
                low &= most
                if node.parent and high == most + 1 and high > low:  # binaryen has lost the end of the call
                    high = self._end_around(node.parent - 1, low)
                high &= most
                if ok and is_code(file, low):
                    fault = add_span(cython.address(self.spans), low, high, cython.cast(cython.uint, i))
            elif node.has & N_RANGES:
                fault = add_range_list(
                    cython.address(self.spans), file, unit, node.ranges, node.ranges_form, cython.cast(cython.uint, i)
                )
            node.spans = cython.cast(cython.uint, self.spans.count) - node.first
            if fault and not first_fault:
                first_fault = fault
                self.nodes.fault_offset = node.key
        return first_fault

    def _end_around(self, index, vaddr):
        """Return the end of the span with a vaddr of a node whose spans are collected; 0 without such a span."""
        step: cython.uint
        node = cython.address(self.nodes.items[index])
        for step in range(node.spans):
            span = cython.address(self.spans.items[node.first + step])
            if span.start <= vaddr < span.end:
                return span.end
        return 0

    def _mark_requested(self):
        """Mark the nodes that contain any of the requested vaddrs, and the nodes around them."""
        i: cython.Py_ssize_t
        step: cython.uint
        count: cython.Py_ssize_t = self.vaddrs.shape[0]
        rows = self.nodes.items
        for i in range(self.nodes.count):
            rows[i].requested = False
            for step in range(rows[i].spans):
                span = cython.address(self.spans.items[rows[i].first + step])
                low: cython.Py_ssize_t = 0
                high: cython.Py_ssize_t = count
                while low < high:  # the first vaddr that is not below the span's start
                    middle: cython.Py_ssize_t = (low + high) // 2
                    if self.vaddrs[middle] < span.start:
                        low = middle + 1
                    else:
                        high = middle
                if low < count and self.vaddrs[low] < span.end:
                    rows[i].requested = True
                    break
        i = self.nodes.count
        while i > 0:  # a node follows its parent
            i -= 1
            if rows[i].requested and rows[i].parent:
                rows[rows[i].parent - 1].requested = True

    def _group_by_function(self):
        """Set `order` to the nodes function by function, so that a nested function does not cut the outer one in two.

        Sets `start` of nodes without spans to the start of the first span inside. False if memory runs out.
        """
        i: cython.Py_ssize_t
        total: cython.uint = 0
        grouped: cython.bint = True
        rows = self.nodes.items
        if self.nodes.count > self.order_room:
            block = realloc(self.order, self.nodes.count * 8)
            if block == cython.NULL:
                return False
            self.order = cython.cast(cython.p_uint, block)
            self.order_room = self.nodes.count
        next_index = self.order + self.nodes.count
        for i in range(self.nodes.count):
            self.order[i] = cython.cast(cython.uint, i)
            if i and rows[i].root < rows[i - 1].root:
                grouped = False
        i = self.nodes.count
        while i > 0:
            i -= 1
            if rows[i].spans:
                rows[i].start = self.spans.items[rows[i].first].start
            if rows[i].parent and rows[i].start != NO_START and rows[rows[i].parent - 1].spans == 0:
                rows[rows[i].parent - 1].start = rows[i].start
        if grouped:
            return True
        memset(next_index, 0, self.nodes.count * 4)
        for i in range(self.nodes.count):
            next_index[rows[i].root] += 1
        for i in range(self.nodes.count):
            count: cython.uint = next_index[i]
            next_index[i] = total
            total += count
        for i in range(self.nodes.count):
            self.order[next_index[rows[i].root]] = cython.cast(cython.uint, i)
            next_index[rows[i].root] += 1
        return True

    def _sort_nested(self, first, last):
        """Sort the spans of the nodes order[first:last].

        Return 1 if each is inside one of its parent's, 0 if not, -1 if memory runs out.
        """
        i: cython.Py_ssize_t
        step: cython.uint
        height: cython.Py_ssize_t = 0
        rows = self.nodes.items
        self.sorted.count = 0
        for i in range(first, last):
            node = cython.address(rows[self.order[i]])
            for step in range(node.spans):
                span = cython.address(self.spans.items[node.first + step])
                if add_span(cython.address(self.sorted), span.start, span.end, self.order[i]):
                    return -1
        if self.sorted.count > self.path_room:
            block = realloc(self.path, self.sorted.count * 4)
            if block == cython.NULL:
                return -1
            self.path = cython.cast(cython.p_uint, block)
            self.path_room = self.sorted.count
        sort_spans(self.sorted.items, self.sorted.count)
        for i in range(self.sorted.count):
            span = cython.address(self.sorted.items[i])
            while height and self.sorted.items[self.path[height - 1]].end <= span.start:
                height -= 1
            if height != rows[span.owner].depth:
                return 0
            if height:
                outer = cython.address(self.sorted.items[self.path[height - 1]])
                if outer.owner + 1 != rows[span.owner].parent or span.end > outer.end:
                    return 0
            self.path[height] = cython.cast(cython.uint, i)
            height += 1
        return 1

    def _emit_function(self, first, last):
        """Append the scopes of one function: the nodes order[first:last]."""
        i: cython.Py_ssize_t
        step: cython.uint
        nested: cython.int = 0
        fault: cython.int = 0
        parts: cython.bint = False
        rows = self.nodes.items
        for i in range(first, last):
            if rows[self.order[i]].spans > 1:
                parts = True
        if parts:
            nested = self._sort_nested(first, last)
            if nested < 0:
                return OUT_OF_MEMORY
        if nested:
            for i in range(self.sorted.count):
                span = cython.address(self.sorted.items[i])
                fault |= self._emit(cython.address(rows[span.owner]), span.start, span.end)
            return fault
        for i in range(first, last):
            node = cython.address(rows[self.order[i]])
            if node.spans == 0 and node.start != NO_START:
                fault |= self._emit(node, node.start, node.start)
            for step in range(node.spans):
                span = cython.address(self.spans.items[node.first + step])
                fault |= self._emit(node, span.start, span.end)
        return fault

    def _read_unit(self, unit):
        """Read one unit and return its fault; results before the fault stay."""
        work: cython.Py_ssize_t = 0
        fault: cython.int = 0
        first: cython.Py_ssize_t = 0
        file: cython.pointer[File] = cython.address(self.sections.file)
        self.names.current = unit
        self.nodes.fault_offset = 0
        begin_unit(cython.address(self.names.budget), unit[END] - unit[OFFSET])
        begin_unit(cython.address(self.spans.budget), unit[END] - unit[OFFSET])
        table = table_of(
            cython.address(self.tables), file, unit, cython.address(self.names.budget), cython.address(fault)
        )  # fmt: skip
        if table == cython.NULL:
            return fault
        fault = walk(cython.address(self.nodes), file, unit, table)
        other: cython.int = self._collect_spans(unit)
        fault = fault if fault else other
        if self.vaddrs.shape[0]:
            self._mark_requested()
        if not self._group_by_function():
            return OUT_OF_MEMORY
        while first < self.nodes.count:
            last: cython.Py_ssize_t = first + 1
            while last < self.nodes.count and (
                self.nodes.items[self.order[last]].root == self.nodes.items[self.order[first]].root
            ):
                last += 1
            handle_signals(cython.address(work), 16 * (last - first))
            if self.vaddrs.shape[0] == 0 or (
                self.nodes.items[self.nodes.items[self.order[first]].root].requested
            ):  # fmt: skip
                other = self._emit_function(first, last)
                fault = fault if fault else other
            first = last
        if self.names.budget.exceeded and not fault:
            fault = COSTLY_NAMES
            self.nodes.fault_offset = unit[OFFSET]
        return fault

    def read(self, units: cython.const[cython.uint][::1]):
        """Read units (rows of the unit table) into the columns.

        Returns how many plain names and how many starts there are, for `take_plain` and `take_starts`.
        """
        i: cython.Py_ssize_t
        file: cython.pointer[File] = cython.address(self.sections.file)
        if not (
            self.scope_ends.reserve(units.shape[0])
            and self.start_ends.reserve(units.shape[0])
            and self.faults.reserve(units.shape[0])
            and self.fault_offsets.reserve(units.shape[0])
        ):
            raise MemoryError
        self.vaddr.vector.count = 0
        self.scope_ends.vector.count = self.start_ends.vector.count = 0
        self.faults.vector.count = self.fault_offsets.vector.count = 0
        self.names.plain.count = self.names.starts.count = 0
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            forget_names(cython.address(self.names))
            for i in range(units.shape[0]):
                fault: cython.int = 0
                self.nodes.fault_offset = 0
                if units[i] < file.unit_count:
                    unit = cython.address(file.units[cython.cast(u64, units[i]) * WIDTH])
                    handle_signals(cython.address(work), unit[END] - unit[OFFSET])
                    if unit[FAULT] == 0 and unit[KIND] not in (c.DW_UT_type, c.DW_UT_split_type):
                        fault = self._read_unit(unit)
                self.faults.push_u32(fault)
                self.fault_offsets.push_u64(self.nodes.fault_offset)
                self.scope_ends.push_u32(cython.cast(cython.uint, self.vaddr.vector.count))
                self.start_ends.push_u32(cython.cast(cython.uint, self.names.starts.count))
        self._count_scopes()
        return self.names.plain.count, self.names.starts.count

    def set_sections(self, sections: DwarfSections):
        """Continue with the units of other sections that have the same bytes."""
        own: cython.pointer[File] = cython.address(self.sections.file)
        other: cython.pointer[File] = cython.address(sections.file)
        belong(own.info.at == other.info.at and own.info.size == other.info.size)
        belong(own.abbrev.at == other.abbrev.at and own.abbrev.size == other.abbrev.size)
        self.sections = sections

    @property
    def unresolved_refs(self):
        """True if names are in DIEs outside the known units."""
        return self.names.unresolved_refs != 0

    @property
    def unresolved(self):
        """Return the offsets in .debug_info of such DIEs that functions refer to."""
        i: cython.Py_ssize_t
        offsets: set = set()
        for i in range(self.names.unresolved.count):
            offsets.add(self.names.unresolved.items[i])
        return offsets

    def take_plain(self, keys: cython.ulonglong[::1]):
        """Write the keys of the DIEs with plain names, in the order of the references to them."""
        i: cython.Py_ssize_t
        belong(keys.shape[0] <= self.names.plain.count)
        with cython.nogil:
            for i in range(keys.shape[0]):
                keys[i] = self.names.plain.items[i]

    def take_starts(self, starts):
        """Write the starts of the last `read` into the columns function, file (see names.pxd) and line."""
        i: cython.Py_ssize_t
        function: cython.ulonglong[::1] = starts.function
        file: cython.ulonglong[::1] = starts.file
        line: cython.uint[::1] = starts.line
        belong(function.shape[0] == file.shape[0] == line.shape[0] <= self.names.starts.count)
        with cython.nogil:
            for i in range(line.shape[0]):
                function[i] = self.names.starts.items[i].name
                file[i] = self.names.starts.items[i].file
                line[i] = self.names.starts.items[i].line


def put_qualified_names(function: cython.ulonglong[::1], names: cython.const[cython.ulonglong][::1]):
    """Replace references of the source PLAIN_SOURCE, which are indexes of `names`, by names."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(function.shape[0]):
            if function[i] >> 48 == PLAIN_SOURCE:
                row: u64 = function[i] << 16 >> 16
                function[i] = names[row] if row < cython.cast(u64, names.shape[0]) else 0


def rows_of_source(function: cython.const[cython.ulonglong][::1], source: cython.ulonglong, out: cython.uint[::1]):
    """Write the rows of the names of one source to `out`, which is as long as `function`; return how many."""
    i: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    belong(out.shape[0] >= function.shape[0])
    with cython.nogil:
        for i in range(function.shape[0]):
            if function[i] >> 48 == source:
                out[count] = cython.cast(cython.uint, i)
                count += 1
    return count
