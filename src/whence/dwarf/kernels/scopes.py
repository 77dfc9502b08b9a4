"""Units to scopes: digest, walk, ranges, names, and the columns of whence.ranges.Scopes, many units in one call.

A `Scoper` belongs to one thread and keeps its scratch from unit to unit. `run` fills its columns, `take` hands them
over. `call_file` is still the number in the unit's file table: the line program's header says what it means.

A function in several parts, or with nested functions inside, is put in tree order here: parts by vaddr, each followed
by what lies in it. Where calls stick out of their callers the order of the DIEs stays, a parent's parts before its
children.
"""

import cython
from cython.cimports.libc.stdlib import free, qsort, realloc
from cython.cimports.libc.string import memset
from cython.cimports.whence.dwarf.kernels.abbrev import Tables, forget_tables, table_of
from cython.cimports.whence.dwarf.kernels.budget import begin_unit, found_budget
from cython.cimports.whence.dwarf.kernels.constants import (
    DW_FORM_addr,
    DW_UT_split_type,
    DW_UT_type,
)
from cython.cimports.whence.dwarf.kernels.names import PLAIN_SOURCE, Names, forget_names, function_name
from cython.cimports.whence.dwarf.kernels.parts import Parts
from cython.cimports.whence.dwarf.kernels.rangelist import Span, Spans, add_span, expand, is_code
from cython.cimports.whence.dwarf.kernels.reading import address_of, is_index, largest
from cython.cimports.whence.dwarf.kernels.shared import ADDRESS_SIZE, END, FAULT, KIND, OFFSET, WIDTH, File, u64
from cython.cimports.whence.dwarf.kernels.walk import N_HIGH, N_LOW, N_RANGES, Node, Nodes, forget_nodes, walk

BAD_ABBREV = cython.declare(cython.int, 20)  # + what digest found
NO_MEMORY = cython.declare(cython.int, 102)
BAD_RANGES = cython.declare(cython.int, 30)  # + what expand found: the unit's other functions are good
BAD_NAMES = cython.declare(cython.int, 41)
NOWHERE = cython.declare(u64, 0xFFFFFFFFFFFFFFFF)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def by_start(
    one: cython.pointer[cython.const[cython.void]], two: cython.pointer[cython.const[cython.void]]
) -> cython.int:
    """Spans by where they begin; of those that begin together, parents first."""
    first = cython.cast(cython.pointer[cython.const[Span]], one)
    second = cython.cast(cython.pointer[cython.const[Span]], two)
    if first.start != second.start:
        return 1 if first.start > second.start else -1
    return 1 if first.node > second.node else -1 if first.node < second.node else 0


@cython.final
@cython.cclass
class Scoper:
    """One thread's scratch and columns."""

    parts: Parts
    alt: Parts
    tables: Tables
    nodes: Nodes
    spans: Spans
    names: Names
    order: cython.p_uint  # nodes, function by function
    order_room: u64
    sorted: Spans  # the spans of one function
    path: cython.p_uint  # positions in `sorted`, outermost first
    path_room: u64
    wide: cython.p_ulonglong  # va, end, function
    narrow: cython.p_uint  # depth, call file, call line
    count: u64
    room: u64

    def __cinit__(self, parts: Parts, alt: Parts, style: cython.int):
        self.parts = parts
        self.alt = alt
        memset(cython.address(self.tables), 0, cython.sizeof(self.tables))
        memset(cython.address(self.nodes), 0, cython.sizeof(self.nodes))
        memset(cython.address(self.spans), 0, cython.sizeof(self.spans))
        memset(cython.address(self.sorted), 0, cython.sizeof(self.sorted))
        memset(cython.address(self.names), 0, cython.sizeof(self.names))
        self.names.style = style
        self.order = self.narrow = self.path = cython.NULL
        self.wide = cython.NULL
        self.order_room = self.path_room = self.count = self.room = 0
        found_budget(cython.address(self.spans.budget), parts.file.ranges.size + parts.file.rnglists.size)
        found_budget(cython.address(self.names.budget), parts.file.info.size + alt.file.info.size)

    def __dealloc__(self):
        forget_tables(cython.address(self.tables))
        forget_nodes(cython.address(self.nodes))
        forget_names(cython.address(self.names))
        free(self.spans.rows)
        free(self.sorted.rows)
        free(self.order)
        free(self.path)
        free(self.wide)
        free(self.narrow)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def emit(self, node: cython.pointer[Node], start: u64, end: u64) -> cython.int:
        """Append a scope."""
        more: u64
        if self.count == self.room:
            more = self.room * 2 if self.room else 4096
            wide = realloc(self.wide, more * 24)
            if wide == cython.NULL:
                return NO_MEMORY
            self.wide = cython.cast(cython.p_ulonglong, wide)
            narrow = realloc(self.narrow, more * 12)
            if narrow == cython.NULL:
                return NO_MEMORY
            self.narrow = cython.cast(cython.p_uint, narrow)
            self.room = more
        self.wide[3 * self.count] = start
        self.wide[3 * self.count + 1] = end
        self.wide[3 * self.count + 2] = function_name(
            cython.address(self.names), cython.address(self.parts.file), cython.address(self.alt.file),
            cython.address(self.tables), node.key,
        )  # fmt: skip
        self.narrow[3 * self.count] = node.depth
        self.narrow[3 * self.count + 1] = node.call_file
        self.narrow[3 * self.count + 2] = node.call_line
        self.count += 1
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def spread(self, unit: cython.pointer[cython.const[u64]]) -> cython.int:
        """The spans of every node, grouped by node."""
        at: u64
        low: u64
        high: u64
        ok: cython.int
        fault: cython.int
        first_fault: cython.int = 0
        file: cython.pointer[File] = cython.address(self.parts.file)
        self.spans.count = 0
        for at in range(self.nodes.count):
            node = cython.address(self.nodes.rows[at])
            node.first = cython.cast(cython.uint, self.spans.count)
            node.lead = NOWHERE
            fault = 0
            if node.has & N_LOW and node.has & N_HIGH:
                ok = 1
                low = address_of(file, unit, node.low, node.low_form, cython.address(ok))
                high = node.high
                if node.high_form == DW_FORM_addr or is_index(node.high_form):
                    if ok:
                        high = address_of(file, unit, node.high, node.high_form, cython.address(ok))
                else:
                    high += low
                low &= largest(cython.cast(cython.int, unit[ADDRESS_SIZE]))
                high &= largest(cython.cast(cython.int, unit[ADDRESS_SIZE]))
                if ok and is_code(file, low):
                    fault = add_span(cython.address(self.spans), low, high, cython.cast(cython.uint, at))
            elif node.has & N_RANGES:
                fault = expand(
                    cython.address(self.spans), file, unit, node.ranges, node.ranges_form, cython.cast(cython.uint, at)
                )
            node.spans = cython.cast(cython.uint, self.spans.count) - node.first
            if fault and not first_fault:
                first_fault = BAD_RANGES + fault
                self.nodes.at = node.key
        return first_fault

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def arrange(self) -> cython.bint:
        """`order`: the nodes function by function, so that a nested function does not cut the one around it in two.
        Also tells nodes without spans where the first span inside them begins. False: no memory."""
        at: u64
        total: cython.uint = 0
        held: cython.uint
        grouped: cython.bint = True
        rows = self.nodes.rows
        if self.nodes.count > self.order_room:
            block = realloc(self.order, self.nodes.count * 8)
            if block == cython.NULL:
                return False
            self.order = cython.cast(cython.p_uint, block)
            self.order_room = self.nodes.count
        places = self.order + self.nodes.count
        for at in range(self.nodes.count):
            self.order[at] = cython.cast(cython.uint, at)
            if at and rows[at].root < rows[at - 1].root:
                grouped = False
        at = self.nodes.count
        while at > 0:
            at -= 1
            if rows[at].spans:
                rows[at].lead = self.spans.rows[rows[at].first].start
            if rows[at].parent and rows[at].lead != NOWHERE and rows[rows[at].parent - 1].spans == 0:
                rows[rows[at].parent - 1].lead = rows[at].lead
        if grouped:
            return True
        memset(places, 0, self.nodes.count * 4)
        for at in range(self.nodes.count):
            places[rows[at].root] += 1
        for at in range(self.nodes.count):
            held = places[at]
            places[at] = total
            total += held
        for at in range(self.nodes.count):
            self.order[places[rows[at].root]] = cython.cast(cython.uint, at)
            places[rows[at].root] += 1
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def nested(self, first: u64, last: u64) -> cython.int:
        """Sort the spans of the nodes order[first:last]: 1 when each then lies in one of its parent's, as it should;
        0 when not, -1 when there is no memory."""
        at: u64
        step: cython.uint
        height: u64 = 0
        rows = self.nodes.rows
        self.sorted.count = 0
        for at in range(first, last):
            node = cython.address(rows[self.order[at]])
            for step in range(node.spans):
                span = cython.address(self.spans.rows[node.first + step])
                if add_span(cython.address(self.sorted), span.start, span.end, self.order[at]):
                    return -1
        if self.sorted.count > self.path_room:
            block = realloc(self.path, self.sorted.count * 4)
            if block == cython.NULL:
                return -1
            self.path = cython.cast(cython.p_uint, block)
            self.path_room = self.sorted.count
        qsort(self.sorted.rows, self.sorted.count, cython.sizeof(self.sorted.rows[0]), by_start)
        for at in range(self.sorted.count):
            span = cython.address(self.sorted.rows[at])
            while height and self.sorted.rows[self.path[height - 1]].end <= span.start:
                height -= 1
            if height != rows[span.node].depth:
                return 0
            if height:
                around = cython.address(self.sorted.rows[self.path[height - 1]])
                if around.node + 1 != rows[span.node].parent or span.end > around.end:
                    return 0
            self.path[height] = cython.cast(cython.uint, at)
            height += 1
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def function(self, first: u64, last: u64) -> cython.int:
        """Emit the scopes of one function: the nodes order[first:last]."""
        at: u64
        step: cython.uint
        verdict: cython.int = 0
        fault: cython.int = 0
        parts: cython.bint = False
        rows = self.nodes.rows
        for at in range(first, last):
            if rows[self.order[at]].spans > 1:
                parts = True
        if parts:
            verdict = self.nested(first, last)
            if verdict < 0:
                return NO_MEMORY
        if verdict:
            for at in range(self.sorted.count):
                span = cython.address(self.sorted.rows[at])
                fault |= self.emit(cython.address(rows[span.node]), span.start, span.end)
            return fault
        for at in range(first, last):
            node = cython.address(rows[self.order[at]])
            if node.spans == 0 and node.lead != NOWHERE:
                fault |= self.emit(node, node.lead, node.lead)
            for step in range(node.spans):
                span = cython.address(self.spans.rows[node.first + step])
                fault |= self.emit(node, span.start, span.end)
        return fault

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def unit(self, unit: cython.pointer[cython.const[u64]]) -> cython.int:
        """Everything of one unit; what was found before a fault stays."""
        fault: cython.int = 0
        other: cython.int
        first: u64 = 0
        last: u64
        file: cython.pointer[File] = cython.address(self.parts.file)
        self.names.current = unit
        self.nodes.at = 0
        begin_unit(cython.address(self.names.budget), unit[END] - unit[OFFSET])
        begin_unit(cython.address(self.spans.budget), unit[END] - unit[OFFSET])
        table = table_of(
            cython.address(self.tables), file, unit, cython.address(self.names.budget), cython.address(fault)
        )  # fmt: skip
        if table == cython.NULL:
            return BAD_ABBREV + fault
        fault = walk(cython.address(self.nodes), file, unit, table)
        other = self.spread(unit)
        fault = fault if fault else other
        if not self.arrange():
            return NO_MEMORY
        while first < self.nodes.count:
            last = first + 1
            while last < self.nodes.count and (
                self.nodes.rows[self.order[last]].root == self.nodes.rows[self.order[first]].root
            ):
                last += 1
            other = self.function(first, last)
            fault = fault if fault else other
            first = last
        if self.names.budget.exceeded and not fault:
            fault = BAD_NAMES
            self.nodes.at = unit[OFFSET]
        return fault

    def run(self, units: cython.const[cython.uint][::1], found: cython.ulonglong[::1]):
        """Walk these units (numbers of rows). `found` has four numbers per unit: how many scopes there are up to and
        including it, its fault (0: none), the fault's offset in .debug_info, and how many starts there are up to it."""
        at: cython.Py_ssize_t
        file: cython.pointer[File] = cython.address(self.parts.file)
        self.count = 0
        self.names.plain_count = self.names.start_count = 0
        self.names.count = 0
        with cython.nogil:
            if self.names.room:
                memset(self.names.keys, 0, self.names.room * 8)
            for at in range(units.shape[0]):
                if units[at] >= file.unit_count:
                    continue
                unit = cython.address(file.units[cython.cast(u64, units[at]) * WIDTH])
                if unit[FAULT] == 0 and unit[KIND] not in (DW_UT_type, DW_UT_split_type):
                    found[4 * at + 1] = self.unit(unit)
                    found[4 * at + 2] = self.nodes.at
                found[4 * at] = self.count
                found[4 * at + 3] = self.names.start_count
        return self.count, self.names.plain_count, self.names.start_count

    def turn_to(self, parts: Parts):
        """The units to come are those of `parts`, which has the same sections."""
        self.parts = parts

    def strangers(self):
        """Were names asked of DIEs that lie in no known unit?"""
        return self.names.strangers != 0

    def take(
        self,
        va: cython.ulonglong[::1],
        end: cython.ulonglong[::1],
        depth: cython.uint[::1],
        function: cython.ulonglong[::1],
        call_file: cython.ulonglong[::1],
        call_line: cython.uint[::1],
        plain: cython.ulonglong[::1],
    ):
        """Write the scopes of the last run into columns of that many rows."""
        at: cython.Py_ssize_t
        with cython.nogil:
            for at in range(va.shape[0]):
                va[at] = self.wide[3 * at]
                end[at] = self.wide[3 * at + 1]
                function[at] = self.wide[3 * at + 2]
                depth[at] = self.narrow[3 * at]
                call_file[at] = self.narrow[3 * at + 1]
                call_line[at] = self.narrow[3 * at + 2]
            for at in range(plain.shape[0]):
                plain[at] = self.names.plain[at]

    def take_starts(
        self, function: cython.ulonglong[::1], file: cython.ulonglong[::1], line: cython.uint[::1]
    ):  # fmt: skip
        """Write the starts that the last run met; files as in names_kernel.pxd."""
        at: cython.Py_ssize_t
        with cython.nogil:
            for at in range(line.shape[0]):
                function[at] = self.names.starts[at].name
                file[at] = self.names.starts[at].file
                line[at] = self.names.starts[at].line


def rename(function: cython.ulonglong[::1], names: cython.const[cython.ulonglong][::1]):
    """Put names in the place of references of the source PLAIN, which count in `names`."""
    at: cython.Py_ssize_t
    place: u64
    with cython.nogil:
        for at in range(function.shape[0]):
            if function[at] >> 48 == PLAIN_SOURCE:
                place = function[at] << 16 >> 16
                function[at] = names[place] if place < cython.cast(u64, names.shape[0]) else 0


def of_source(function: cython.const[cython.ulonglong][::1], source: cython.ulonglong, out: cython.uint[::1]):
    """The places of the names of one source; `out` has room for all. Gives how many."""
    at: cython.Py_ssize_t
    found: cython.Py_ssize_t = 0
    with cython.nogil:
        for at in range(function.shape[0]):
            if function[at] >> 48 == source:
                out[found] = cython.cast(cython.uint, at)
                found += 1
    return found
