"""Functions into ranges: pc-value tables stepped once each, side by side, and the inline tree climbed at each change.

A pc-value table is pairs of varints, (zigzag value delta, pc delta in quanta), from value -1 at the function's entry;
a value delta of 0 ends it, except in the first pair. The tables of inline index, file and line are unpacked into runs
(PcValues) and merged; at each boundary the chain of inlined calls (InlineTrees) is compared with the one before,
ranges that ended are closed and new ones opened, so that ranges come out (RangeColumns) in (vaddr, depth) order. A
range's rows need not lie together in pc order (inlined calls come between), so a function's rows are gathered and dealt
out to its ranges at its end.

Faults stay with their function: a damaged inline tree leaves it without inlined calls, a damaged line table without
lines. Both are counted.
"""

import cython
from cython.cimports.libc.limits import UINT_MAX
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.whence.gopclntab.kernels import constants as c
from cython.cimports.whence.kernels.bytes import MORE, u16, u32
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.signals import handle_signals

from whence.gopclntab.kernels.functions import NO_FUNCTION, NO_TREE
from whence.kernels.columns import Column as new_column

WITHOUT_TREE = cython.declare(cython.ulonglong, NO_TREE)
NO_UNIT = cython.declare(cython.uint, NO_FUNCTION)

# what became of a function, and of all
DONE = cython.declare(cython.int, 0)
DAMAGED = cython.declare(cython.int, 1)
TOO_MANY = cython.declare(cython.int, 2)
NO_MEMORY = cython.declare(cython.int, 3)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def varint(table: cython.p_const_uchar, size: cython.Py_ssize_t, at: cython.p_Py_ssize_t) -> cython.longlong:
    """The 32-bit varint at at[0], which moves behind it; -1 when it does not end in the table, or in five bytes."""
    byte: cython.uint
    shift: cython.uint = 7
    value: cython.uint
    if at[0] >= size:
        return -1
    value = table[at[0]]
    at[0] += 1
    if value < MORE:
        return value
    value &= 0x7F
    while at[0] < size and shift < 35:
        byte = table[at[0]]
        at[0] += 1
        value |= (byte & 0x7F) << shift
        if byte < MORE:
            return value
        shift += 7
    return -1


@cython.final
@cython.cclass
class PcValues:
    """One pc-value table as runs: values[i] holds for [starts[i], starts[i + 1]), in bytes from the function's entry.

    `cursor` is the run that a walk over the function has reached.
    """

    starts: cython.p_uint
    values: cython.p_int
    room: cython.Py_ssize_t
    count: cython.Py_ssize_t
    cursor: cython.Py_ssize_t

    def __cinit__(self, room: cython.Py_ssize_t):
        belong(0 <= room <= UINT_MAX)
        self.starts = cython.cast(cython.p_uint, malloc(4 * (room + 1)))
        self.values = cython.cast(cython.p_int, malloc(4 * (room + 1)))
        self.room = room
        if self.starts == cython.NULL or self.values == cython.NULL:
            raise MemoryError
        self.clear()

    def __dealloc__(self):
        free(self.starts)
        free(self.values)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def clear(self) -> cython.void:
        self.count = self.cursor = 0
        self.starts[0] = 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def unpack(
        self,
        table: cython.p_const_uchar,
        size: cython.Py_ssize_t,
        offset: cython.Py_ssize_t,
        quantum: cython.uint,
        span: cython.ulonglong,
    ) -> cython.bint:
        """Read the table at `at` (0: there is none) of a function of `span` bytes; False, and no runs, for damage."""
        count: cython.Py_ssize_t = 0
        pc: cython.ulonglong = 0
        value: cython.uint = 0xFFFFFFFF
        still: cython.int = 0
        delta: cython.uint
        step: cython.uint
        read: cython.longlong
        self.clear()
        if offset == 0:
            return True
        while True:
            read = varint(table, size, cython.address(offset))
            if read < 0:
                return False
            delta = cython.cast(cython.uint, read)
            if delta == 0 and pc != 0:
                break
            value += -(delta & 1) ^ (delta >> 1)
            read = varint(table, size, cython.address(offset))
            if read < 0:
                return False
            step = cython.cast(cython.uint, read)
            if step == 0:
                still += 1
                if still > c.MAX_STANDSTILL:
                    return False
                continue
            if count >= self.room:
                return False
            self.starts[count] = cython.cast(cython.uint, pc)
            self.values[count] = cython.cast(cython.int, value)
            count += 1
            pc += cython.cast(cython.ulonglong, step) * quantum
            if pc >= span:
                pc = span
                break
        self.starts[count] = cython.cast(cython.uint, pc)
        self.count = count
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def end(self) -> cython.uint:
        """Where the last run ends; 0 without runs."""
        return self.starts[self.count] if self.count else 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def current(self, until: cython.p_uint) -> cython.int:
        """The value of the run that was reached, whose end until[0] does not pass; -1 behind the last one."""
        if self.cursor >= self.count:
            return -1
        if self.starts[self.cursor + 1] < until[0]:
            until[0] = self.starts[self.cursor + 1]
        return self.values[self.cursor]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def advance(self, pc: cython.uint) -> cython.void:
        """Go to the next run if this one ends at `pc`."""
        if self.cursor < self.count and self.starts[self.cursor + 1] == pc:
            self.cursor += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def value_at(self, pc: cython.uint) -> cython.int:
        """The value at a pc; -1 outside the table, as the runtime has it."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.count
        middle: cython.Py_ssize_t
        if high == 0 or pc >= self.starts[high]:
            return -1
        while high - low > 1:
            middle = (low + high) >> 1
            if self.starts[middle] <= pc:
                low = middle
            else:
                high = middle
        return self.values[low]


Open = cython.struct(  # a range that is open, by depth
    node=cython.int,  # of the inline tree; not that of depth 0
    range=cython.Py_ssize_t,
    has_file=cython.bint,
    line=cython.int,  # the last one given to it, -1 before the first
)


@cython.final
@cython.cclass
class InlineTrees:
    """The inline trees of a program, one of which (`select`) is the function's at hand. `inlined` is that function's
    table of which node is inlined at each pc; `trees` is an inlining.Trees."""

    inlined: PcValues
    data: cython.const[cython.uchar][::1]
    base: cython.ulonglong
    node_size: cython.int
    name_at: cython.int
    parent_width: cython.int
    pc_at: cython.int
    start_at: cython.int
    big: cython.bint
    tree: cython.p_const_uchar
    nodes: cython.ulonglong
    chain: cython.int[257]  # MAX_DEPTH + 1: nodes to be opened, innermost first

    def __cinit__(self, trees, inlined: PcValues, big):
        self.inlined = inlined
        self.data = trees.data
        self.base = trees.base
        self.node_size = trees.shape.size
        self.name_at = trees.shape.name_at
        self.parent_width = trees.shape.parent_width
        self.pc_at = trees.shape.pc_at
        self.start_at = trees.shape.start_at
        self.big = big
        belong(self.parent_width in (0, 2, 4) and self.name_at >= 0 and (self.parent_width or self.pc_at >= 0))
        last: cython.longlong = max(self.name_at, self.start_at, c.NODE_line if self.parent_width else self.pc_at)
        belong(self.node_size >= last + c.NODE_FIELD)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def select(self, tree: cython.ulonglong) -> cython.bint:
        """Turn to the tree of a function by its funcdata value; False when it lies outside the trees."""
        size: cython.ulonglong = self.data.shape[0]
        offset: cython.ulonglong = tree - self.base
        self.nodes = 0
        if offset >= size:
            return False
        self.tree = cython.address(self.data[0]) + offset
        self.nodes = (size - offset) // self.node_size
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def node(self, index: cython.int) -> cython.p_const_uchar:
        return self.tree + cython.cast(cython.Py_ssize_t, index) * self.node_size

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def climb(self, index: cython.int, opened: cython.pointer(Open), level: cython.p_int) -> cython.int:
        """The inlined calls from a node outwards to one that is open already. Returns how many are new, -1 for damage.

        `opened[1]` to `opened[level[0]]` are the ranges that are open, outermost first; level[0] becomes how many of
        them stay open. `chain` takes the new nodes.
        """
        depth: cython.int = 0
        shared: cython.int = 0
        node: cython.p_const_uchar
        while index >= 0:
            shared = level[0]
            while shared > 0 and opened[shared].node != index:
                shared -= 1
            if shared > 0:
                break
            if depth >= c.MAX_DEPTH or cython.cast(cython.ulonglong, index) >= self.nodes:
                return -1
            self.chain[depth] = index
            depth += 1
            node = self.node(index)
            if self.parent_width == 0:  # since 1.20: the parent is whatever is inlined at the call's pc
                index = self.inlined.value_at(u32(node + self.pc_at, self.big))
            elif self.parent_width == 2:
                index = cython.cast(cython.short, cython.cast(cython.ushort, u16(node, self.big)))
            else:
                index = cython.cast(cython.int, u32(node, self.big))
        if shared + depth > c.MAX_DEPTH:
            return -1
        level[0] = shared
        return depth


@cython.final
@cython.cclass
class RangeColumns:
    """The ranges and their rows, as columns of ranges.Ranges; `start_line` is that of the first range of a function or
    call. At most `most` ranges, and as many rows."""

    vaddr = cython.declare(Column, visibility="readonly")
    length = cython.declare(Column, visibility="readonly")
    depth = cython.declare(Column, visibility="readonly")
    function = cython.declare(Column, visibility="readonly")
    file = cython.declare(Column, visibility="readonly")
    line_index = cython.declare(Column, visibility="readonly")
    line_count = cython.declare(Column, visibility="readonly")
    call_file = cython.declare(Column, visibility="readonly")
    call_line = cython.declare(Column, visibility="readonly")
    start_line = cython.declare(Column, visibility="readonly")
    line_offset = cython.declare(Column, visibility="readonly")
    line_number = cython.declare(Column, visibility="readonly")
    most: cython.Py_ssize_t
    room: cython.Py_ssize_t
    row_room: cython.Py_ssize_t
    count: cython.Py_ssize_t
    rows: cython.Py_ssize_t
    # where the columns lie now
    vaddrs: cython.p_ulonglong
    lengths: cython.p_ulonglong
    depths: cython.p_uint
    functions: cython.p_ulonglong
    files: cython.p_ulonglong
    line_indexes: cython.p_uint
    line_counts: cython.p_uint
    call_files: cython.p_ulonglong
    call_lines: cython.p_uint
    start_lines: cython.p_uint
    line_offsets: cython.p_uint
    line_numbers: cython.p_uint

    def __cinit__(self, room: cython.Py_ssize_t, row_room: cython.Py_ssize_t, most: cython.Py_ssize_t):
        self.vaddr, self.length, self.function = new_column("Q", True), new_column("Q", True), new_column("Q", True)
        self.file, self.call_file = new_column("Q", True), new_column("Q", True)
        self.depth, self.line_index, self.line_count = (
            new_column("I", True),
            new_column("I", True),
            new_column("I", True),
        )
        self.call_line, self.start_line = new_column("I", True), new_column("I", True)
        self.line_offset, self.line_number = new_column("I", True), new_column("I", True)
        self.most = most
        if self.make_room(room) or self.make_row_room(row_room):
            raise MemoryError

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def make_room(self, room: cython.Py_ssize_t) -> cython.int:
        """Room for so many ranges, or the most that there may be; DONE, NO_MEMORY, or TOO_MANY."""
        if room > self.most:
            room = self.most
        if room <= self.room:
            return TOO_MANY if self.room >= self.most else DONE
        whole: cython.bint = (
            self.vaddr.reserve(room)
            and self.length.reserve(room)
            and self.depth.reserve(room)
            and self.function.reserve(room)
            and self.file.reserve(room)
            and self.line_index.reserve(room)
            and self.line_count.reserve(room)
            and self.call_file.reserve(room)
            and self.call_line.reserve(room)
            and self.start_line.reserve(room)
        )
        self.vaddrs = cython.cast(cython.p_ulonglong, self.vaddr.vector.items)
        self.lengths = cython.cast(cython.p_ulonglong, self.length.vector.items)
        self.depths = cython.cast(cython.p_uint, self.depth.vector.items)
        self.functions = cython.cast(cython.p_ulonglong, self.function.vector.items)
        self.files = cython.cast(cython.p_ulonglong, self.file.vector.items)
        self.line_indexes = cython.cast(cython.p_uint, self.line_index.vector.items)
        self.line_counts = cython.cast(cython.p_uint, self.line_count.vector.items)
        self.call_files = cython.cast(cython.p_ulonglong, self.call_file.vector.items)
        self.call_lines = cython.cast(cython.p_uint, self.call_line.vector.items)
        self.start_lines = cython.cast(cython.p_uint, self.start_line.vector.items)
        if not whole:  # those before the one that has no room lie elsewhere now
            return NO_MEMORY
        self.room = room
        return DONE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def make_row_room(self, room: cython.Py_ssize_t) -> cython.int:
        """The same of rows."""
        if room > self.most:
            room = self.most
        if room <= self.row_room:
            return TOO_MANY if self.row_room >= self.most else DONE
        whole: cython.bint = self.line_offset.reserve(room) and self.line_number.reserve(room)
        self.line_offsets = cython.cast(cython.p_uint, self.line_offset.vector.items)
        self.line_numbers = cython.cast(cython.p_uint, self.line_number.vector.items)
        if not whole:
            return NO_MEMORY
        self.row_room = room
        return DONE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def open_range(
        self, vaddr: cython.ulonglong, depth: cython.int, function: cython.ulonglong, start_line: cython.uint
    ) -> cython.int:
        """Append a range without file, rows and call; DONE, or the fault."""
        i: cython.Py_ssize_t = self.count
        fault: cython.int
        if i >= self.room:
            fault = self.make_room(2 * self.room + 64)
            if fault:
                return fault
        self.vaddrs[i] = vaddr
        self.lengths[i] = 0
        self.depths[i] = depth
        self.functions[i] = function
        self.files[i] = 0
        self.line_indexes[i] = 0
        self.line_counts[i] = 0
        self.call_files[i] = 0
        self.call_lines[i] = 0
        self.start_lines[i] = start_line
        self.count = i + 1
        return DONE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def publish(self) -> cython.void:
        """Let the columns have as many numbers as were written."""
        self.vaddr.vector.count = self.length.vector.count = self.depth.vector.count = self.count
        self.function.vector.count = self.file.vector.count = self.line_index.vector.count = self.count
        self.line_count.vector.count = self.call_file.vector.count = self.call_line.vector.count = self.count
        self.start_line.vector.count = self.count
        self.line_offset.vector.count = self.line_number.vector.count = self.rows


# a row of a function, not yet dealt out to its range
LineRow = cython.struct(range=cython.Py_ssize_t, offset=cython.uint, line=cython.uint)


@cython.final
@cython.cclass
class RangeBuilder:
    """Lays functions into ranges.

    `functions` is a functions.FunctionColumns, `tables` a ranges.FunctionTables, `trees` an inlining.Trees or None.
    `runs` is how many runs a pc-value table may have, `hops` how many steps up the inline trees may be spent.
    Without `lines` (`files`) no line (file) is read.
    """

    damaged_lines = cython.declare(cython.Py_ssize_t, visibility="readonly")  # functions that have lost their lines
    damaged_trees = cython.declare(cython.Py_ssize_t, visibility="readonly")  # and those that lost inlined calls
    trees: InlineTrees
    with_lines: cython.bint
    with_files: cython.bint
    big: cython.bint
    quantum: cython.uint
    entry: cython.const[cython.ulonglong][::1]
    end: cython.const[cython.ulonglong][::1]
    tree: cython.const[cython.ulonglong][::1]
    name: cython.const[cython.uint][::1]
    pcsp: cython.const[cython.uint][::1]
    pcfile: cython.const[cython.uint][::1]
    pcln: cython.const[cython.uint][::1]
    cu: cython.const[cython.uint][::1]
    pcinl: cython.const[cython.uint][::1]
    start: cython.const[cython.uint][::1]
    pctab_bytes: cython.const[cython.uchar][::1]
    pctab: cython.p_const_uchar
    pctab_size: cython.Py_ssize_t
    file_table: cython.const[cython.uchar][::1]
    lowest_file: cython.int
    names_size: cython.ulonglong
    names_base: cython.ulonglong
    texts_size: cython.ulonglong
    texts_base: cython.ulonglong
    inlined: PcValues
    file_numbers: PcValues
    line_numbers: PcValues
    hops: cython.ulonglong
    level: cython.int
    opened: Open[257]  # MAX_DEPTH + 1
    rows: cython.pointer(LineRow)
    row_room: cython.Py_ssize_t
    row_count: cython.Py_ssize_t

    def __cinit__(self, functions, tables, trees, lines, files, runs, hops):
        self.with_lines = lines
        self.with_files = files
        self.big = tables.big
        self.quantum = tables.quantum
        self.entry = functions.entry
        self.end = functions.end
        self.tree = functions.tree
        self.name = functions.name
        self.pcsp = functions.pcsp
        self.pcfile = functions.pcfile
        self.pcln = functions.pcln
        self.cu = functions.cu
        self.pcinl = functions.pcinl
        self.start = functions.start
        count: cython.Py_ssize_t = self.entry.shape[0]
        belong(min(self.end.shape[0], self.tree.shape[0], self.name.shape[0], self.pcsp.shape[0]) >= count)
        belong(min(self.pcfile.shape[0], self.pcln.shape[0], self.cu.shape[0]) >= count)
        belong(min(self.pcinl.shape[0], self.start.shape[0]) >= count)
        self.pctab_bytes = tables.pctab
        self.pctab_size = self.pctab_bytes.shape[0]
        if self.pctab_size:
            self.pctab = cython.address(self.pctab_bytes[0])
        self.file_table = tables.file_table
        self.lowest_file = tables.lowest_file
        self.names_size = tables.names_size
        self.names_base = tables.names_base
        self.texts_size = tables.texts_size
        self.texts_base = tables.texts_base
        self.inlined = PcValues(runs)
        self.trees = None if trees is None else InlineTrees(trees, self.inlined, tables.big)
        self.file_numbers = PcValues(runs)
        self.line_numbers = PcValues(runs)
        self.hops = hops
        self.row_room = 3 * (runs + 1)
        self.rows = cython.cast(
            cython.pointer(LineRow), malloc(self.row_room * cython.cast(cython.Py_ssize_t, cython.sizeof(LineRow)))
        )
        if self.rows == cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.rows)

    def run(self, out: RangeColumns):
        """Append the ranges of every function. Returns whether that is all: not when there are more than `out` may
        have. Raises MemoryError."""
        f: cython.Py_ssize_t
        fault: cython.int = DONE
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for f in range(self.entry.shape[0]):
                handle_signals(cython.address(work), 64)
                if self.name[f] >= self.names_size or self.end[f] == self.entry[f]:
                    continue
                fault = self.lay_function(out, f)
                if fault:
                    break
            out.publish()
        if fault == NO_MEMORY:
            raise MemoryError
        return fault == DONE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def lay_function(self, out: RangeColumns, f: cython.Py_ssize_t) -> cython.int:
        """Append the ranges of a function; DONE, or why not."""
        base: cython.Py_ssize_t = out.count
        stop: cython.uint = self.read_tables(f)
        fault: cython.int = self.walk(out, f, stop)
        if fault == DAMAGED and self.inlined.count:  # once more, without inlined calls
            self.damaged_trees += 1
            self.inlined.clear()
            out.count = base
            fault = self.walk(out, f, stop)
        if fault > DAMAGED:
            return fault
        while self.level >= 0:
            self.close_range(out, f, stop)
            self.level -= 1
        return self.deal_rows(out, base)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def read_tables(self, f: cython.Py_ssize_t) -> cython.uint:
        """Unpack a function's tables and turn to its inline tree. Returns where its code ends: before the padding."""
        span: cython.ulonglong = self.end[f] - self.entry[f]
        stop: cython.uint
        whole: cython.bint = True
        self.inlined.clear()
        self.file_numbers.clear()
        self.line_numbers.clear()
        if self.with_files:
            whole = self.file_numbers.unpack(self.pctab, self.pctab_size, self.pcfile[f], self.quantum, span)
        if self.with_lines:
            whole = self.line_numbers.unpack(self.pctab, self.pctab_size, self.pcln[f], self.quantum, span) and whole
        if not whole:
            self.damaged_lines += 1
            self.file_numbers.clear()
            self.line_numbers.clear()
        stop = self.file_numbers.end()
        if self.line_numbers.end() > stop:
            stop = self.line_numbers.end()
        if stop == 0:
            self.inlined.unpack(self.pctab, self.pctab_size, self.pcsp[f], self.quantum, span)
            stop = self.inlined.end() if self.inlined.count else cython.cast(cython.uint, span)
            self.inlined.clear()
        if self.trees is not None and self.tree[f] != WITHOUT_TREE:
            whole = self.trees.select(self.tree[f]) and self.inlined.unpack(
                self.pctab, self.pctab_size, self.pcinl[f], self.quantum, span
            )
            if not whole:
                self.damaged_trees += 1
        return stop

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def walk(self, out: RangeColumns, f: cython.Py_ssize_t, stop: cython.uint) -> cython.int:
        """Step through a function's tables, [0, stop) bytes from its entry; leaves the last ranges open."""
        top: cython.pointer(Open) = cython.address(self.opened[0])
        pc: cython.uint = 0
        until: cython.uint
        index: cython.int
        current: cython.int = -1
        number: cython.int
        last_number: cython.int = -1
        line: cython.int
        file: cython.ulonglong = 0
        fault: cython.int
        self.level = -1
        self.row_count = 0
        self.inlined.cursor = self.file_numbers.cursor = self.line_numbers.cursor = 0
        fault = self.open_range(out, self.entry[f], self.names_base | self.name[f], self.start[f])
        if fault:
            return fault
        while pc < stop:
            until = stop
            index = self.inlined.current(cython.address(until))
            number = self.file_numbers.current(cython.address(until))
            line = self.line_numbers.current(cython.address(until))
            if index != current:
                current = index
                fault = self.change_calls(out, f, pc, index)
                if fault:
                    return fault

            # the innermost range takes the file and the line
            top = cython.address(self.opened[self.level])
            if self.with_files and self.with_lines and (number < 0 or line < 0):
                number = -1
                line = -1
            if self.with_files:
                if number != last_number:
                    last_number = number
                    file = self.file_name(self.cu[f], number)
                if not top.has_file:
                    out.files[top.range] = file
                    top.has_file = True
                elif out.files[top.range] != file:
                    fault = self.split_range(out, f, pc, file)
                    if fault:
                        return fault
            if self.with_lines:
                if line < 0:
                    line = 0
                if line != top.line:
                    if self.row_count >= self.row_room:
                        return DAMAGED
                    top.line = line
                    self.rows[self.row_count].range = top.range
                    self.rows[self.row_count].offset = cython.cast(
                        cython.uint, self.entry[f] + pc - out.vaddrs[top.range]
                    )
                    self.rows[self.row_count].line = line
                    self.row_count += 1
                    out.line_counts[top.range] += 1

            pc = until
            self.inlined.advance(pc)
            self.file_numbers.advance(pc)
            self.line_numbers.advance(pc)
        return DONE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def open_range(
        self, out: RangeColumns, vaddr: cython.ulonglong, function: cython.ulonglong, start_line: cython.uint
    ) -> cython.int:
        """Append a range inside the innermost one, and make it the innermost one."""
        top: cython.pointer(Open)
        fault: cython.int = out.open_range(vaddr, self.level + 1, function, start_line)
        if fault:
            return fault
        self.level += 1
        top = cython.address(self.opened[self.level])
        top.range = out.count - 1
        top.has_file = False
        top.line = -1
        return DONE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def close_range(self, out: RangeColumns, f: cython.Py_ssize_t, pc: cython.uint) -> cython.void:
        """End the innermost range at a pc."""
        i: cython.Py_ssize_t = self.opened[self.level].range
        out.lengths[i] = self.entry[f] + pc - out.vaddrs[i]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def split_range(
        self, out: RangeColumns, f: cython.Py_ssize_t, pc: cython.uint, file: cython.ulonglong
    ) -> cython.int:
        """End the innermost range at a pc, where its code goes on in another file."""
        before: cython.Py_ssize_t = self.opened[self.level].range
        fault: cython.int
        self.close_range(out, f, pc)
        self.level -= 1
        fault = self.open_range(out, self.entry[f] + pc, out.functions[before], 0)
        if fault:
            return fault
        out.files[out.count - 1] = file
        out.call_files[out.count - 1] = out.call_files[before]
        out.call_lines[out.count - 1] = out.call_lines[before]
        self.opened[self.level].has_file = True
        return DONE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def change_calls(self, out: RangeColumns, f: cython.Py_ssize_t, pc: cython.uint, index: cython.int) -> cython.int:
        """Close the inlined calls that end at a pc, and open those that begin: `index` is the innermost node there."""
        kept: cython.int = self.level
        found: cython.int
        level: cython.int
        name: cython.uint
        start_line: cython.uint
        node: cython.p_const_uchar
        number: cython.int
        line: cython.int
        call_pc: cython.uint
        fault: cython.int
        found = self.trees.climb(index, cython.address(self.opened[0]), cython.address(kept))
        if found < 0 or cython.cast(cython.ulonglong, found) > self.hops:
            return DAMAGED
        self.hops -= found
        while self.level > kept:
            self.close_range(out, f, pc)
            self.level -= 1
        for level in range(kept + 1, kept + found + 1):
            index = self.trees.chain[kept + found - level]
            node = self.trees.node(index)
            name = u32(node + self.trees.name_at, self.big)
            if name >= self.names_size:
                return DAMAGED
            start_line = u32(node + self.trees.start_at, self.big) if self.trees.start_at >= 0 else 0
            fault = self.open_range(out, self.entry[f] + pc, self.names_base | name, start_line)
            if fault:
                return fault
            self.opened[level].node = index
            if self.trees.parent_width == 0:
                call_pc = u32(node + self.trees.pc_at, self.big)
                number = self.file_numbers.value_at(call_pc) if self.with_files else -1
                line = self.line_numbers.value_at(call_pc) if self.with_lines else -1
            else:
                number = cython.cast(cython.int, u32(node + c.NODE_file, self.big)) if self.with_files else -1
                line = cython.cast(cython.int, u32(node + c.NODE_line, self.big)) if self.with_lines else -1
            out.call_files[out.count - 1] = self.file_name(self.cu[f], number)
            out.call_lines[out.count - 1] = cython.cast(cython.uint, line) if line > 0 else 0
        return DONE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def file_name(self, cu: cython.uint, number: cython.int) -> cython.ulonglong:
        """The name reference of a file number in a unit; 0 when it names none."""
        index: cython.ulonglong
        offset: cython.uint
        if number < self.lowest_file or cu == NO_UNIT:
            return 0
        index = cython.cast(cython.ulonglong, cu) + cython.cast(cython.ulonglong, number)
        if index >= cython.cast(cython.ulonglong, self.file_table.shape[0] // 4):
            return 0
        offset = u32(cython.address(self.file_table[4 * index]), self.big)
        if offset >= self.texts_size:
            return 0
        return self.texts_base | offset

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def deal_rows(self, out: RangeColumns, base: cython.Py_ssize_t) -> cython.int:
        """Deal the function's rows out to its ranges, which begin at `base`: each range's lie together, in order of
        offset."""
        i: cython.Py_ssize_t
        row: cython.pointer(LineRow)
        index: cython.uint
        fault: cython.int
        if out.rows + self.row_count > out.row_room:
            fault = out.make_row_room(2 * out.row_room + self.row_count)
            if fault:
                return fault
            if out.rows + self.row_count > out.row_room:
                return TOO_MANY
        for i in range(base, out.count):
            out.line_indexes[i] = cython.cast(cython.uint, out.rows) if out.line_counts[i] else 0
            out.rows += out.line_counts[i]
            out.line_counts[i] = 0
        for i in range(self.row_count):
            row = self.rows + i
            index = out.line_indexes[row.range] + out.line_counts[row.range]
            out.line_offsets[index] = row.offset
            out.line_numbers[index] = row.line
            out.line_counts[row.range] += 1
        return DONE
