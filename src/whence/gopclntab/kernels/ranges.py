"""Kernel: functions into ranges, by their pc-value tables and inline trees.

A pc-value table is pairs of varints, (zigzag value delta, pc delta in quanta), from value -1 at the function's entry; a
value delta of 0 ends it, except in the first pair. The tables of inline index, file and line are unpacked into runs
(PcValues) and merged. At each boundary the chain of inlined calls (InlineTrees) is compared with the previous one:
ended ranges are closed and new ones opened, so that ranges are in (vaddr, depth) order (RangeColumns). The rows of a
range need not be contiguous in pc order, since inlined calls interrupt them: a function's rows are collected and
assigned to its ranges at its end.

Damage is local to a function: a damaged inline tree costs its inlined calls, a damaged line table its lines. Both are
counted.
"""

import cython
from cython.cimports.libc.limits import UINT_MAX
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.whence.gopclntab.kernels import constants as c
from cython.cimports.whence.kernels.bytes import LONGEST_ULEB_32, MORE, checked_uleb, u16, u32
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.signals import handle_signals

from whence.gopclntab.kernels.functions import NO_FUNCTION, NO_TREE
from whence.kernels.columns import Column as new_column

WITHOUT_TREE = cython.declare(cython.ulonglong, NO_TREE)
NO_UNIT = cython.declare(cython.uint, NO_FUNCTION)

# results
DONE = cython.declare(cython.int, 0)
DAMAGED = cython.declare(cython.int, 1)
TOO_MANY = cython.declare(cython.int, 2)
NO_MEMORY = cython.declare(cython.int, 3)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def varint(table: cython.p_const_uchar, size: cython.Py_ssize_t, offset: cython.p_Py_ssize_t) -> cython.longlong:
    """Read the 32-bit varint at offset[0], which moves to its end; -1 if it is cut off or longer than five bytes."""
    value: cython.ulonglong = 0
    if offset[0] < size and table[offset[0]] < MORE:
        offset[0] += 1
        return table[offset[0] - 1]
    length: cython.int = checked_uleb(table + offset[0], table + size, cython.address(value))
    if not 0 < length <= LONGEST_ULEB_32:
        return -1
    offset[0] += length
    return cython.cast(cython.uint, value)


@cython.final
@cython.cclass
class PcValues:
    """A pc-value table as runs: values[i] applies in [starts[i], starts[i + 1]), in bytes from the function's entry.

    `cursor` is the run that a walk over the function has reached.
    """

    def __cinit__(self, capacity: cython.Py_ssize_t):
        belong(0 <= capacity <= UINT_MAX)
        self.starts = cython.cast(cython.p_uint, malloc(4 * (capacity + 1)))
        self.values = cython.cast(cython.p_int, malloc(4 * (capacity + 1)))
        self.capacity = capacity
        if self.starts == cython.NULL or self.values == cython.NULL:
            raise MemoryError
        self.clear()

    def __dealloc__(self):
        free(self.starts)
        free(self.values)

    def clear(self):
        self.count = self.cursor = 0
        self.starts[0] = 0

    def unpack(self, table, size, offset, quantum, span):
        """Read the table at `offset` (0: none) of a function of `span` bytes; False, and no runs, for damage."""
        count: cython.Py_ssize_t = 0
        pc: cython.ulonglong = 0
        value: cython.uint = 0xFFFFFFFF
        still: cython.int = 0
        self.clear()
        if offset == 0:
            return True
        while True:
            read: cython.longlong = varint(table, size, cython.address(offset))
            if read < 0:
                return False
            delta: cython.uint = cython.cast(cython.uint, read)
            if delta == 0 and pc != 0:
                break
            value += -(delta & 1) ^ (delta >> 1)
            read = varint(table, size, cython.address(offset))
            if read < 0:
                return False
            step: cython.uint = cython.cast(cython.uint, read)
            if step == 0:
                still += 1
                if still > c.MAX_STANDSTILL:
                    return False
                continue
            if count >= self.capacity:
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

    def end(self):
        """Return the end of the last run, 0 without runs."""
        return self.starts[self.count] if self.count else 0

    def current(self, until):
        """Return the value of the current run and limit until[0] to its end; -1 after the last run."""
        if self.cursor >= self.count:
            return -1
        if self.starts[self.cursor + 1] < until[0]:
            until[0] = self.starts[self.cursor + 1]
        return self.values[self.cursor]

    def advance(self, pc):
        """Move to the next run if this run ends at `pc`."""
        if self.cursor < self.count and self.starts[self.cursor + 1] == pc:
            self.cursor += 1

    def value_at(self, pc):
        """Return the value at a pc, -1 outside the table as in Go's runtime."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.count
        if high == 0 or pc >= self.starts[high]:
            return -1
        while high - low > 1:
            middle: cython.Py_ssize_t = (low + high) >> 1
            if self.starts[middle] <= pc:
                low = middle
            else:
                high = middle
        return self.values[low]


@cython.final
@cython.cclass
class InlineTrees:
    """The inline trees of a program; `select` chooses that of a function.

    `inlined` is the function's table of the node at each pc; `trees` is an inlining.Trees.
    """

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

    def select(self, tree):
        """Choose the tree of a function by its funcdata value; False if it is outside the trees."""
        size: cython.ulonglong = self.data.shape[0]
        offset: cython.ulonglong = tree - self.base
        self.nodes = 0
        if offset >= size:
            return False
        self.tree = cython.address(self.data[0]) + offset
        self.nodes = (size - offset) // self.node_size
        return True

    def node(self, index):
        return self.tree + cython.cast(cython.Py_ssize_t, index) * self.node_size

    def climb(self, index, opened, level):
        """Follow the inlined calls from a node outwards to an open one. Returns how many are new, -1 for damage.

        `opened[1]` to `opened[level[0]]` are the open ranges, outermost first; level[0] becomes how many of them stay
        open. `chain` receives the new nodes.
        """
        depth: cython.int = 0
        shared: cython.int = 0
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
            node: cython.p_const_uchar = self.node(index)
            if self.parent_width == 0:  # since 1.20: the parent is what is inlined at the call's pc
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
    """Ranges and their rows, as columns of ranges.Ranges: at most `limit` ranges, and as many rows.

    `start_line` is set in the first range of a function or call.
    """

    def __cinit__(self, capacity: cython.Py_ssize_t, row_capacity: cython.Py_ssize_t, limit: cython.Py_ssize_t):
        self.vaddr, self.length, self.function = new_column("Q", True), new_column("Q", True), new_column("Q", True)
        self.file, self.call_file = new_column("Q", True), new_column("Q", True)
        self.depth, self.line_index, self.line_count = (
            new_column("I", True),
            new_column("I", True),
            new_column("I", True),
        )
        self.call_line, self.start_line = new_column("I", True), new_column("I", True)
        self.line_offset, self.line_number = new_column("I", True), new_column("I", True)
        self.limit = limit
        if self.grow(capacity) or self.grow_rows(row_capacity):
            raise MemoryError

    def grow(self, capacity):
        """Make capacity for ranges, up to the limit: DONE, NO_MEMORY or TOO_MANY."""
        if capacity > self.limit:
            capacity = self.limit
        if capacity <= self.capacity:
            return TOO_MANY if self.capacity >= self.limit else DONE
        complete: cython.bint = (
            self.vaddr.reserve(capacity)
            and self.length.reserve(capacity)
            and self.depth.reserve(capacity)
            and self.function.reserve(capacity)
            and self.file.reserve(capacity)
            and self.line_index.reserve(capacity)
            and self.line_count.reserve(capacity)
            and self.call_file.reserve(capacity)
            and self.call_line.reserve(capacity)
            and self.start_line.reserve(capacity)
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
        if not complete:  # columns before the failed one may have moved
            return NO_MEMORY
        self.capacity = capacity
        return DONE

    def grow_rows(self, capacity):
        """Make capacity for rows, up to the limit: DONE, NO_MEMORY or TOO_MANY."""
        if capacity > self.limit:
            capacity = self.limit
        if capacity <= self.row_capacity:
            return TOO_MANY if self.row_capacity >= self.limit else DONE
        complete: cython.bint = self.line_offset.reserve(capacity) and self.line_number.reserve(capacity)
        self.line_offsets = cython.cast(cython.p_uint, self.line_offset.vector.items)
        self.line_numbers = cython.cast(cython.p_uint, self.line_number.vector.items)
        if not complete:
            return NO_MEMORY
        self.row_capacity = capacity
        return DONE

    def open_range(self, vaddr, depth, function, start_line):
        """Append a range without file, rows and call: DONE, NO_MEMORY or TOO_MANY."""
        i: cython.Py_ssize_t = self.count
        if i >= self.capacity:
            fault: cython.int = self.grow(2 * self.capacity + 64)
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

    def publish(self):
        """Set the columns' lengths to what was written."""
        self.vaddr.vector.count = self.length.vector.count = self.depth.vector.count = self.count
        self.function.vector.count = self.file.vector.count = self.line_index.vector.count = self.count
        self.line_count.vector.count = self.call_file.vector.count = self.call_line.vector.count = self.count
        self.start_line.vector.count = self.count
        self.line_offset.vector.count = self.line_number.vector.count = self.rows


@cython.final
@cython.cclass
class RangeBuilder:
    """Makes ranges of functions.

    `functions` is a functions.PclntabFunctions, `tables` a ranges.FunctionTables, `trees` an inlining.Trees or None.
    `runs` limits the runs of a pc-value table, `hops` the steps up the inline trees. Without `lines` (`files`) no line
    (file) is read.
    """

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
        self.row_capacity = 3 * (runs + 1)
        self.rows = cython.cast(
            cython.pointer(LineRow), malloc(self.row_capacity * cython.cast(cython.Py_ssize_t, cython.sizeof(LineRow)))
        )
        if self.rows == cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.rows)

    def run(self, out: RangeColumns):
        """Append the ranges of all functions. False if `out` has reached its limit. Raises MemoryError."""
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

    def lay_function(self, out, f):
        """Append the ranges of a function: DONE, NO_MEMORY or TOO_MANY."""
        base: cython.Py_ssize_t = out.count
        stop: cython.uint = self.read_tables(f)
        fault: cython.int = self.walk(out, f, stop)
        if fault == DAMAGED and self.inlined.count:  # again, without inlined calls
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

    def read_tables(self, f):
        """Unpack a function's tables and select its inline tree. Returns where its code ends, without padding."""
        span: cython.ulonglong = self.end[f] - self.entry[f]
        complete: cython.bint = True
        self.inlined.clear()
        self.file_numbers.clear()
        self.line_numbers.clear()
        if self.with_files:
            complete = self.file_numbers.unpack(self.pctab, self.pctab_size, self.pcfile[f], self.quantum, span)
        if self.with_lines:
            complete = (
                self.line_numbers.unpack(self.pctab, self.pctab_size, self.pcln[f], self.quantum, span) and complete
            )
        if not complete:
            self.damaged_lines += 1
            self.file_numbers.clear()
            self.line_numbers.clear()
        stop: cython.uint = self.file_numbers.end()
        if self.line_numbers.end() > stop:
            stop = self.line_numbers.end()
        if stop == 0:
            self.inlined.unpack(self.pctab, self.pctab_size, self.pcsp[f], self.quantum, span)
            stop = self.inlined.end() if self.inlined.count else cython.cast(cython.uint, span)
            self.inlined.clear()
        if self.trees is not None and self.tree[f] != WITHOUT_TREE:
            complete = self.trees.select(self.tree[f]) and self.inlined.unpack(
                self.pctab, self.pctab_size, self.pcinl[f], self.quantum, span
            )
            if not complete:
                self.damaged_trees += 1
        return stop

    def walk(self, out, f, stop):
        """Step through [0, stop) of a function, in bytes from its entry; the last ranges stay open."""
        top: cython.pointer(OpenRange) = cython.address(self.opened[0])
        pc: cython.uint = 0
        current: cython.int = -1
        last_number: cython.int = -1
        file: cython.ulonglong = 0
        self.level = -1
        self.row_count = 0
        self.inlined.cursor = self.file_numbers.cursor = self.line_numbers.cursor = 0
        fault: cython.int = self.open_range(out, self.entry[f], self.names_base | self.name[f], self.start[f])
        if fault:
            return fault
        while pc < stop:
            until: cython.uint = stop
            index: cython.int = self.inlined.current(cython.address(until))
            number: cython.int = self.file_numbers.current(cython.address(until))
            line: cython.int = self.line_numbers.current(cython.address(until))
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
                    if self.row_count >= self.row_capacity:
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

    def open_range(self, out, vaddr, function, start_line):
        """Append a range inside the innermost open range, and make it the innermost."""
        fault: cython.int = out.open_range(vaddr, self.level + 1, function, start_line)
        if fault:
            return fault
        self.level += 1
        top: cython.pointer(OpenRange) = cython.address(self.opened[self.level])
        top.range = out.count - 1
        top.has_file = False
        top.line = -1
        return DONE

    def close_range(self, out, f, pc):
        """End the innermost range at a pc."""
        i: cython.Py_ssize_t = self.opened[self.level].range
        out.lengths[i] = self.entry[f] + pc - out.vaddrs[i]

    def split_range(self, out, f, pc, file):
        """End the innermost range at a pc where its code continues in another file."""
        before: cython.Py_ssize_t = self.opened[self.level].range
        self.close_range(out, f, pc)
        self.level -= 1
        fault: cython.int = self.open_range(out, self.entry[f] + pc, out.functions[before], 0)
        if fault:
            return fault
        out.files[out.count - 1] = file
        out.call_files[out.count - 1] = out.call_files[before]
        out.call_lines[out.count - 1] = out.call_lines[before]
        self.opened[self.level].has_file = True
        return DONE

    def change_calls(self, out, f, pc, index):
        """Close the inlined calls that end at a pc and open new ones; `index` is the innermost node."""
        shared: cython.int = self.level
        level: cython.int
        opened: cython.int = self.trees.climb(index, cython.address(self.opened[0]), cython.address(shared))
        if opened < 0 or cython.cast(cython.ulonglong, opened) > self.hops:
            return DAMAGED
        self.hops -= opened
        while self.level > shared:
            self.close_range(out, f, pc)
            self.level -= 1
        for level in range(shared + 1, shared + opened + 1):
            index = self.trees.chain[shared + opened - level]
            node: cython.p_const_uchar = self.trees.node(index)
            name: cython.uint = u32(node + self.trees.name_at, self.big)
            if name >= self.names_size:
                return DAMAGED
            start_line: cython.uint = u32(node + self.trees.start_at, self.big) if self.trees.start_at >= 0 else 0
            fault: cython.int = self.open_range(out, self.entry[f] + pc, self.names_base | name, start_line)
            if fault:
                return fault
            self.opened[level].node = index
            if self.trees.parent_width == 0:
                call_pc: cython.uint = u32(node + self.trees.pc_at, self.big)
                number: cython.int = self.file_numbers.value_at(call_pc) if self.with_files else -1
                line: cython.int = self.line_numbers.value_at(call_pc) if self.with_lines else -1
            else:
                number = cython.cast(cython.int, u32(node + c.NODE_file, self.big)) if self.with_files else -1
                line = cython.cast(cython.int, u32(node + c.NODE_line, self.big)) if self.with_lines else -1
            out.call_files[out.count - 1] = self.file_name(self.cu[f], number)
            out.call_lines[out.count - 1] = cython.cast(cython.uint, line) if line > 0 else 0
        return DONE

    def file_name(self, cu, number):
        """Return the name reference of a file number in a unit, 0 for an unknown file."""
        if number < self.lowest_file or cu == NO_UNIT:
            return 0
        index: cython.ulonglong = cython.cast(cython.ulonglong, cu) + cython.cast(cython.ulonglong, number)
        if index >= cython.cast(cython.ulonglong, self.file_table.shape[0] // 4):
            return 0
        offset: cython.uint = u32(cython.address(self.file_table[4 * index]), self.big)
        if offset >= self.texts_size:
            return 0
        return self.texts_base | offset

    def deal_rows(self, out, base):
        """Assign the function's rows to its ranges, which start at `base`: contiguous, in order of offset."""
        i: cython.Py_ssize_t
        if out.rows + self.row_count > out.row_capacity:
            fault: cython.int = out.grow_rows(2 * out.row_capacity + self.row_count)
            if fault:
                return fault
            if out.rows + self.row_count > out.row_capacity:
                return TOO_MANY
        for i in range(base, out.count):
            out.line_indexes[i] = cython.cast(cython.uint, out.rows) if out.line_counts[i] else 0
            out.rows += out.line_counts[i]
            out.line_counts[i] = 0
        for i in range(self.row_count):
            row: cython.pointer(LineRow) = self.rows + i
            index: cython.uint = out.line_indexes[row.range] + out.line_counts[row.range]
            out.line_offsets[index] = row.offset
            out.line_numbers[index] = row.line
            out.line_counts[row.range] += 1
        return DONE
