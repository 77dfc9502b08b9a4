"""Kernel: walk from frame to frame by plain rows of call frame information.

In: executable mappings with the CfiTables of their files, memory as segments, and the registers of a thread or of many
samples. Out: the frames, up to a frame that needs more than memory and a plain row: a signal, an expression, code
without CFI, a damaged stack. The Python unwinder (unwinder.py), which is the reference, does that step and resumes the
walk, so that a stack does not depend on who walks it.

The row of a pc is looked up once and cached. A frame then costs about 30 ns.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memset
from cython.cimports.whence.kernels.bytes import number, sleb
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.hashtable import WHENCE_GOLDEN
from cython.cimports.whence.kernels.vector import push, push_u64, release
from cython.cimports.whence.unwind.kernels import constants as c
from cython.cimports.whence.unwind.kernels.cfi import NONE, STATE_HEAD, CfiTable, Cie, Entry
from cython.cimports.whence.unwind.kernels.segments import MemorySegment, add_segment, find_segment

_ONE = cython.declare(cython.ulonglong, 1)
RULES_LIMIT = cython.declare(cython.ulonglong, 64)  # rules of a row
VALUES_LIMIT = cython.declare(cython.int, 4)  # depth of the stack of an expression
END_OF_STACK = cython.declare(cython.uint, 0xFFFFFFFF)  # in place of a table: the frame has no caller


@cython.final
@cython.cclass
class Walker:
    """Walks stacks of one process."""

    def __cinit__(self, machine, order):
        """Prepare to walk stacks of `machine` (registers.Machine) with byte order `order`."""
        register: cython.int
        self.owners = []
        self.sp = machine.sp
        self.word = machine.word
        belong(0 <= self.sp < REGISTERS and (self.word == 4 or self.word == 8))
        self.mask = (1 << machine.bits) - 1
        self.address_mask = machine.address_mask
        self.sp_below_cfa = machine.sp_below_cfa
        self.big = order == "big"
        self.bits = machine.bits
        self.pushes_pc = machine.link is None
        self.mapping = -1
        for register in machine.callee_saved:
            belong(0 <= register < REGISTERS)
            self.callee_saved[register >> 6] |= _ONE << (register & 63)
        self.cache = cython.cast(cython.pointer[CachedRow], calloc(CACHE_SIZE, cython.sizeof(CachedRow)))
        if self.cache == cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        release(cython.address(self.mappings))
        release(cython.address(self.segments))
        release(cython.address(self.table_pointers))
        release(cython.address(self.pcs))
        release(cython.address(self.sps))
        free(self.cache)

    def add_mapping(self, start: cython.ulonglong, end: cython.ulonglong):
        """Add executable memory, in order of address."""
        mappings: cython.pointer[CodeMapping] = cython.cast(cython.pointer[CodeMapping], self.mappings.items)
        belong(start <= end and (self.mappings.count == 0 or mappings[self.mappings.count - 1].end <= start))
        new: cython.pointer[CodeMapping] = cython.cast(
            cython.pointer[CodeMapping], push(cython.address(self.mappings), cython.sizeof(CodeMapping))
        )
        if new == cython.NULL:
            raise MemoryError
        memset(new, 0, cython.sizeof(CodeMapping))
        new.start = start
        new.end = end

    def set_module(self, mapping: cython.Py_ssize_t, bias, tables):
        """Set the CfiTables of a mapping's file, in search order, and its bias (runtime address - vaddr).

        Code of a mapping without tables is left to Python.
        """
        table: CfiTable
        belong(0 <= mapping < self.mappings.count)
        tables = list(tables)
        for table in tables:
            belong(table is not None)
        entry: cython.pointer[CodeMapping] = cython.cast(cython.pointer[CodeMapping], self.mappings.items) + mapping
        entry.bias = cython.cast(cython.ulonglong, bias & 0xFFFFFFFFFFFFFFFF)
        entry.is_loaded = True
        entry.tables = 0
        entry.first_table = cython.cast(cython.uint, self.table_pointers.count)
        for table in tables:
            pointer: cython.pp_void = cython.cast(
                cython.pp_void, push(cython.address(self.table_pointers), cython.sizeof(cython.p_void))
            )
            if pointer == cython.NULL:
                raise MemoryError
            self.owners.append(table)
            pointer[0] = cython.cast(cython.p_void, table)
            entry.tables += 1

    def add_segment(self, start: cython.ulonglong, data):
        """Add memory, in order of address; segments must not overlap."""
        add_segment(cython.address(self.segments), self.owners, start, data)

    def set_stack(self, start: cython.ulonglong, data):
        """Set the stack of the thread that is walked next, for memory outside the segments."""
        self.stack_view = memoryview(data).cast("B")
        belong(start + cython.cast(cython.ulonglong, self.stack_view.shape[0]) >= start)
        self.last_segment.start = self.last_segment.end = 0
        if self.stack_view.shape[0]:
            self.last_segment.start = start
            self.last_segment.end = start + cython.cast(cython.ulonglong, self.stack_view.shape[0])
            self.last_segment.bytes = cython.address(self.stack_view[0])

    # reading

    def load(self, address, value):
        """Load a word of memory. False if it is not available."""
        if address - self.last_segment.start >= self.last_segment.end - self.last_segment.start:
            segment: cython.pointer(cython.const[MemorySegment]) = find_segment(cython.address(self.segments), address)
            if segment == cython.NULL:
                self.unreadable = address
                return False
            self.last_segment = segment[0]
        if self.last_segment.end - address < cython.cast(cython.ulonglong, self.word):
            self.unreadable = address
            return False
        value[0] = number(self.last_segment.bytes + (address - self.last_segment.start), self.word, self.big)
        return True

    def mapping_of(self, address):
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.mappings.count
        mappings: cython.pointer[CodeMapping] = cython.cast(cython.pointer[CodeMapping], self.mappings.items)
        while low < high:
            middle: cython.Py_ssize_t = (low + high) >> 1
            if mappings[middle].start <= address:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low and address < mappings[low - 1].end else -1

    def is_code(self, address):
        """Return True if an address, or the one before, is in a mapping; usually that of the last call."""
        if address - 1 - self.code_start < self.code_size:
            return True
        index: cython.longlong = self.mapping_of(address - 1)
        if index < 0:
            index = self.mapping_of(address)
        if index < 0:
            return False
        mapping: cython.pointer[CodeMapping] = cython.cast(cython.pointer[CodeMapping], self.mappings.items) + index
        self.code_start = mapping.start
        self.code_size = mapping.end - mapping.start
        return True

    # rows

    def row_of(self, walk, row):
        """Find the row of a frame: WALK_CONTINUES, WALK_SPECIAL or WALK_MODULE."""
        cached: cython.pointer[CachedRow] = self.cache + self.slot_of(walk)
        if cached.pc == walk.pc and cached.table != 0 and cached.is_exact == walk.is_exact:
            row[0] = cached[0]
            return WALK_CONTINUES
        how: cython.int = self.find_row(walk, row)
        if how == WALK_CONTINUES:
            cached[0] = row[0]
        return how

    def find_row(self, walk, row):
        address: cython.ulonglong = walk.pc if walk.is_exact else walk.pc - 1
        mapping: cython.longlong = self.mapping_of(address)
        index: cython.uint
        if mapping < 0:
            return WALK_SPECIAL
        code: cython.pointer[CodeMapping] = cython.cast(cython.pointer[CodeMapping], self.mappings.items) + mapping
        if not code.is_loaded:
            self.mapping = mapping
            return WALK_MODULE
        for index in range(code.first_table, code.first_table + code.tables):
            table: CfiTable = cython.cast(CfiTable, cython.cast(cython.pp_void, self.table_pointers.items)[index])
            vaddr: cython.ulonglong = address - code.bias & table.mask
            entry: cython.uint = table.find_entry(vaddr)
            if entry == NONE:
                continue
            fde: cython.pointer[Entry] = cython.cast(cython.pointer[Entry], table.entries.items) + entry
            cie: cython.pointer[Cie] = cython.cast(cython.pointer[Cie], table.cies.items) + fde.cie
            if cie.is_signal:
                return WALK_SPECIAL
            # signal trampolines start before or at an FDE's start: Python inspects such code first
            if not self.is_learning and (vaddr == fde.start if walk.is_exact else vaddr + 1 == fde.end):
                return WALK_SPECIAL
            row.state = table.state_of_row(entry, vaddr)
            if row.state == NONE:
                return WALK_SPECIAL
            row.table = index + 1
            row.dead = DEAD_UNKNOWN
            row.pc = walk.pc
            row.is_exact = walk.is_exact
            return WALK_CONTINUES
        return WALK_SPECIAL

    def learn_plain(self, pc, is_exact, dead: cython.int):
        """Cache the row of a frame that Python has inspected and found plain.

        `dead`: registers whose slots are below the stack pointer have their values again (> 0) or have lost them (< 0);
        0 if unknown.
        """
        walk: cython.pointer[Walk] = cython.address(self.walk)
        walk.pc = pc & self.mask
        walk.is_exact = bool(is_exact)
        self.is_learning = True
        cached: cython.pointer[CachedRow] = self.cache + self.slot_of(walk)
        if cached.pc == walk.pc and cached.is_exact == walk.is_exact and cached.table != 0:
            row: CachedRow = cached[0]
        elif self.find_row(walk, cython.address(row)) != WALK_CONTINUES:
            row.table = 0
        self.is_learning = False
        if row.table:
            if dead:
                row.dead = DEAD_RESTORED if dead > 0 else DEAD_LOST
            cached[0] = row

    def learn_end(self, pc):
        """Record that frames at this return address have no caller."""
        walk: cython.pointer[Walk] = cython.address(self.walk)
        row: CachedRow
        memset(cython.address(row), 0, cython.sizeof(CachedRow))
        walk.pc = pc & self.mask
        walk.is_exact = False
        row.pc = walk.pc
        row.table = END_OF_STACK
        self.cache[self.slot_of(walk)] = row

    def counted(self, table, walk, span, column, value):
        """Evaluate an expression that counts from registers and the pc, as those of PLTs do.

        The pc is in the return address's column if calls push it. False for other expressions.
        """
        offset: cython.ulonglong = span & 0xFFFFFFFF
        end: cython.ulonglong = offset + (span >> 32)
        data: cython.p_uchar = table.expressions.items
        stack: cython.ulonglong[4]
        depth: cython.int = 0
        half: cython.ulonglong = _ONE << (self.bits - 1)
        if end > cython.cast(cython.ulonglong, table.expressions.count):
            return False
        while offset < end:
            code: cython.int = data[offset]
            offset += 1
            if c.OP_LIT0 <= code <= c.OP_LIT31 or c.OP_BREG0 <= code <= c.OP_BREG31:
                if depth >= VALUES_LIMIT:
                    return False
                if code <= c.OP_LIT31:
                    stack[depth] = cython.cast(cython.ulonglong, code - c.OP_LIT0)
                else:
                    register: cython.ulonglong = cython.cast(cython.ulonglong, code - c.OP_BREG0)
                    if self.pushes_pc and register == column:
                        stack[depth] = walk.pc
                    elif walk.valid[0] >> register & 1:
                        stack[depth] = walk.values[register]
                    else:
                        return False
                    stack[depth] = stack[depth] + sleb(data, cython.address(offset), end) & self.mask
                depth += 1
                continue
            if depth < 2:
                return False
            depth -= 1
            if code == c.OP_AND:
                stack[depth - 1] &= stack[depth]
            elif code == c.OP_PLUS:
                stack[depth - 1] = stack[depth - 1] + stack[depth] & self.mask
            elif code == c.OP_GE:  # signed
                stack[depth - 1] = (stack[depth - 1] ^ half) >= (stack[depth] ^ half)
            elif code == c.OP_SHL:
                if stack[depth] >= cython.cast(cython.ulonglong, self.bits):
                    stack[depth - 1] = 0
                else:
                    stack[depth - 1] = stack[depth - 1] << stack[depth] & self.mask
            else:
                return False
        if offset != end or depth == 0:
            return False
        value[0] = stack[depth - 1]
        return True

    def slot_of(self, walk):
        return ((walk.pc ^ cython.cast(cython.ulonglong, walk.is_exact) << 63) * WHENCE_GOLDEN) >> 50

    def step(self, walk):
        """Replace the walk's frame by its caller. The frame is unchanged unless the result is WALK_CONTINUES."""
        row: CachedRow
        how: cython.int = self.row_of(walk, cython.address(row))
        rule: cython.ulonglong
        cfa: cython.ulonglong = 0
        value: cython.ulonglong = 0
        pc: cython.ulonglong = 0
        valid: cython.ulonglong[2]
        changed: cython.ulonglong[64]
        values: cython.ulonglong[64]
        changes: cython.int = 0
        change: cython.int
        sp: cython.ulonglong = walk.values[self.sp]
        if how != WALK_CONTINUES:
            return how
        if row.table == END_OF_STACK:
            return WALK_COMPLETE
        table: CfiTable = cython.cast(CfiTable, cython.cast(cython.pp_void, self.table_pointers.items)[row.table - 1])
        words: cython.p_ulonglong = table.words.items + table.state_offset.items[row.state]
        count: cython.ulonglong = words[0] & 0xFFFF
        column: cython.ulonglong = words[0] >> 32
        if count > RULES_LIMIT or column >= REGISTERS:
            return WALK_SPECIAL
        if words[0] >> 16 & 0xFF == c.CFA_REGISTER:
            register: cython.ulonglong = words[1]
            if register >= REGISTERS or not walk.valid[register >> 6] >> (register & 63) & 1:
                return WALK_SPECIAL
            cfa = walk.values[register] + words[2] & self.mask
        elif words[0] >> 16 & 0xFF != c.CFA_EXPRESSION or not self.counted(
            table, walk, words[2], column, cython.address(cfa)
        ):
            return WALK_SPECIAL
        has_pc: cython.bint = walk.valid[column >> 6] >> (column & 63) & 1
        pc = walk.values[column]
        valid[0] = walk.valid[0] & self.callee_saved[0]
        valid[1] = walk.valid[1] & self.callee_saved[1]
        valid[self.sp >> 6] |= _ONE << (self.sp & 63)
        words += STATE_HEAD
        for rule in range(count):
            register = words[2 * rule] >> 8
            how = words[2 * rule] & 0xFF
            if register >= REGISTERS:
                return WALK_SPECIAL
            if how == c.HOW_OFFSET:
                if not self.load(cfa + words[2 * rule + 1] & self.mask, cython.address(value)):
                    if register == column:
                        return WALK_UNREADABLE
                    if not self.is_sample or register == cython.cast(cython.ulonglong, self.sp):
                        return WALK_SPECIAL  # Python may be able to read it
                    if walk.is_exact and cfa + words[2 * rule + 1] - sp & self.mask > self.mask >> 1:
                        if row.dead == DEAD_UNKNOWN:
                            return WALK_SPECIAL
                        if row.dead == DEAD_RESTORED:
                            valid[register >> 6] |= walk.valid[register >> 6] & _ONE << (register & 63)
                            continue
                    valid[register >> 6] &= ~(_ONE << (register & 63))
                    continue
            elif how == c.HOW_UNDEFINED:
                if register == column:
                    return WALK_COMPLETE
                valid[register >> 6] &= ~(_ONE << (register & 63))
                continue
            elif how == c.HOW_VAL_OFFSET:
                value = cfa + words[2 * rule + 1] & self.mask
            elif how == c.HOW_SAME or how == c.HOW_REGISTER:
                other: cython.ulonglong = register if how == c.HOW_SAME else words[2 * rule + 1]
                if other >= REGISTERS or not walk.valid[other >> 6] >> (other & 63) & 1:
                    return WALK_SPECIAL
                value = walk.values[other]
            else:
                return WALK_SPECIAL
            if register == column:
                pc = value
                has_pc = True
            valid[register >> 6] |= _ONE << (register & 63)
            changed[changes] = register
            values[changes] = value
            changes += 1
        if not has_pc:
            return WALK_SPECIAL
        pc &= self.address_mask
        if pc == 0:  # Python tells an end from a page of zeros
            return WALK_COMPLETE if self.is_sample else WALK_SPECIAL
        if cfa < walk.cfa_before or (cfa == walk.cfa_before and not walk.after_signal) or (cfa == sp and pc == walk.pc):
            return WALK_SPECIAL
        if not self.is_code(pc):
            return WALK_SPECIAL
        walk.values[self.sp] = cfa - self.sp_below_cfa & self.mask
        for change in range(changes):
            walk.values[changed[change]] = values[change]
        walk.valid[0] = valid[0]
        walk.valid[1] = valid[1]
        walk.pc = pc
        walk.cfa_before = cfa
        walk.is_exact = False
        walk.after_signal = False
        return WALK_CONTINUES

    # one thread

    def begin(self, pc, is_exact, after_signal, cfa_before, values):
        """Set the first frame. False if a register is left to Python or the stack pointer is missing."""
        walk: cython.pointer[Walk] = cython.address(self.walk)
        register: cython.int
        walk.pc = pc & self.mask
        walk.is_exact = bool(is_exact)
        walk.after_signal = bool(after_signal)
        walk.cfa_before = cfa_before & self.mask
        walk.valid[0] = walk.valid[1] = 0
        for register, value in values.items():
            if not 0 <= register < REGISTERS:
                return False
            walk.values[register] = value & self.mask
            walk.valid[register >> 6] |= _ONE << (register & 63)
        return bool(walk.valid[self.sp >> 6] >> (self.sp & 63) & 1)

    def resume(self, most: cython.Py_ssize_t):
        """Walk at most `most` frames. Returns WALK_* and the (pc, sp) of each frame that was left."""
        how: cython.int = WALK_FULL
        self.pcs.count = self.sps.count = 0
        while self.pcs.count < most:
            pc: cython.ulonglong = self.walk.pc
            sp: cython.ulonglong = self.walk.values[self.sp]
            how = self.step(cython.address(self.walk))
            if how != WALK_CONTINUES and how != WALK_COMPLETE:
                break
            if not push_u64(cython.address(self.pcs), pc) or not push_u64(cython.address(self.sps), sp):
                raise MemoryError
            if how == WALK_COMPLETE:
                break
            how = WALK_FULL
        return how, [(self.pcs.items[index], self.sps.items[index]) for index in range(self.pcs.count)]

    def frame(self):
        """Return the current frame: (pc, CFA of the previous frame, registers by number)."""
        register: cython.int
        values = {}
        for register in range(REGISTERS):
            if self.walk.valid[register >> 6] >> (register & 63) & 1:
                values[register] = self.walk.values[register]
        return self.walk.pc, self.walk.cfa_before, values

    # many samples

    def walk_samples(self, samples, result, first: cython.Py_ssize_t, most: cython.Py_ssize_t):
        """Walk samples from index `first`, at most `most` frames each, up to a sample that needs Python.

        `samples` is a samples.StackSamples; `result`, a samples.SampleStacks, is filled: `pc` with the frames of all
        samples, innermost first, `end` with the end of each sample in it, `how` with WALK_*. Returns the index of a
        sample that is WALK_SPECIAL or WALK_MODULE, which has no frames yet, else the number of samples.
        """
        pcs: cython.const[cython.ulonglong][::1] = samples.pc
        values: cython.const[cython.ulonglong][::1] = samples.values
        numbers: cython.const[cython.uint][::1] = samples.numbers
        stack_start: cython.const[cython.ulonglong][::1] = samples.stack_start
        stack_at: cython.const[cython.ulonglong][::1] = samples.stack_at
        stack_size: cython.const[cython.ulonglong][::1] = samples.stack_size
        stack: cython.const[cython.uchar][::1] = memoryview(samples.stack).cast("B")
        out: Column = result.pc
        ends: cython.ulonglong[::1] = result.end
        hows: cython.uchar[::1] = result.how
        count: cython.Py_ssize_t = pcs.shape[0]
        registers: cython.Py_ssize_t = numbers.shape[0]
        stack_bytes: cython.ulonglong = stack.shape[0]
        sample: cython.Py_ssize_t
        index: cython.Py_ssize_t
        frames: cython.Py_ssize_t
        walk: Walk
        belong(out is not None and out.typecode == "Q" and 0 <= first <= count and most >= 0)
        belong(registers <= REGISTERS and values.shape[0] == count * registers)
        belong(stack_start.shape[0] == count and stack_at.shape[0] == count and stack_size.shape[0] == count)
        belong(ends.shape[0] == count and hows.shape[0] == count)
        for index in range(registers):
            belong(numbers[index] < REGISTERS)
        for sample in range(first, count):
            belong(stack_at[sample] <= stack_bytes and stack_size[sample] <= stack_bytes - stack_at[sample])
            belong(stack_start[sample] + stack_size[sample] >= stack_start[sample])
            walk.valid[0] = walk.valid[1] = 0
            for index in range(registers):
                walk.values[numbers[index]] = values[sample * registers + index] & self.mask
                walk.valid[numbers[index] >> 6] |= _ONE << (numbers[index] & 63)
            walk.pc = pcs[sample] & self.mask
            walk.is_exact = True
            walk.after_signal = True
            begin: cython.Py_ssize_t = out.vector.count
            how: cython.int = WALK_SPECIAL
            if walk.valid[self.sp >> 6] >> (self.sp & 63) & 1:
                walk.cfa_before = walk.values[self.sp]
                self.last_segment.start = self.last_segment.end = 0
                self.is_sample = True
                if stack_size[sample]:
                    self.last_segment.start = stack_start[sample]
                    self.last_segment.end = stack_start[sample] + stack_size[sample]
                    self.last_segment.bytes = cython.address(stack[stack_at[sample]])
                how = WALK_CONTINUES
                for frames in range(most):
                    pc: cython.ulonglong = walk.pc
                    how = self.step(cython.address(walk))
                    if how != WALK_SPECIAL and how != WALK_MODULE and not out.push_u64(pc):
                        self.last_segment.start = self.last_segment.end = 0
                        self.is_sample = False
                        raise MemoryError
                    if how != WALK_CONTINUES:
                        break
                if how == WALK_CONTINUES:
                    how = WALK_FULL
                self.last_segment.start = self.last_segment.end = 0
                self.is_sample = False
            ends[sample] = begin
            hows[sample] = how
            if how == WALK_SPECIAL or how == WALK_MODULE:
                out.vector.count = begin
                return sample
            ends[sample] = out.vector.count
        return count
