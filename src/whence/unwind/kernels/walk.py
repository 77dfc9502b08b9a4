"""Kernel: from frame to frame by rows of call frame information, as long as they are plain.

In: executable mappings with the CfiTables of their files, memory as segments, and registers of a thread, or of many
samples. Out: the frames, until one is met that needs more than memory and a plain row. That one is left to the Python
unwinder, which does one step and comes back: signals, expressions, code without CFI, stacks that go wrong. So a stack
is the same whoever walks it.

What a pc does is looked up once and remembered. A frame then costs some 30 ns.
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

_ONE = cython.declare(cython.ulonglong, 1)
RULES_LIMIT = cython.declare(cython.ulonglong, 64)  # of a row, that is walked here
VALUES_LIMIT = cython.declare(cython.int, 4)  # on the stack of an expression that is worked out here
END_OF_STACK = cython.declare(cython.uint, 0xFFFFFFFF)  # in place of a table: no caller is there


@cython.final
@cython.cclass
class Walker:
    """Walks stacks of one process."""

    def __cinit__(self, machine, order):
        """`machine` is a registers.Machine, `order` its byte order."""
        register: cython.int
        self.held = []
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
        for register in machine.kept:
            belong(0 <= register < REGISTERS)
            self.kept[register >> 6] |= _ONE << (register & 63)
        self.places = cython.cast(cython.pointer[Place], calloc(PLACES, cython.sizeof(Place)))
        if self.places == cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        release(cython.address(self.mappings))
        release(cython.address(self.segments))
        release(cython.address(self.table_pointers))
        release(cython.address(self.pcs))
        release(cython.address(self.sps))
        free(self.places)

    # what is known of the process

    def add_mapping(self, start: cython.ulonglong, end: cython.ulonglong):
        """Executable memory, in order of address."""
        mappings: cython.pointer[Mapping] = cython.cast(cython.pointer[Mapping], self.mappings.items)
        new: cython.pointer[Mapping]
        belong(start <= end and (self.mappings.count == 0 or mappings[self.mappings.count - 1].end <= start))
        new = cython.cast(cython.pointer[Mapping], push(cython.address(self.mappings), cython.sizeof(Mapping)))
        if new == cython.NULL:
            raise MemoryError
        memset(new, 0, cython.sizeof(Mapping))
        new.start = start
        new.end = end

    def set_module(self, mapping: cython.Py_ssize_t, bias, tables):
        """The CfiTables of the file that a mapping is of, of which the first that has an FDE counts; `bias` is what
        its runtime addresses have more than its vaddrs. No table: such code is left to Python."""
        one: cython.pointer[Mapping]
        pointer: cython.pp_void
        table: CfiTable
        belong(0 <= mapping < self.mappings.count)
        tables = list(tables)
        for table in tables:
            belong(table is not None)
        one = cython.cast(cython.pointer[Mapping], self.mappings.items) + mapping
        one.bias = cython.cast(cython.ulonglong, bias & 0xFFFFFFFFFFFFFFFF)
        one.is_known = True
        one.tables = 0
        one.first_table = cython.cast(cython.uint, self.table_pointers.count)
        for table in tables:
            pointer = cython.cast(
                cython.pp_void, push(cython.address(self.table_pointers), cython.sizeof(cython.p_void))
            )
            if pointer == cython.NULL:
                raise MemoryError
            self.held.append(table)
            pointer[0] = cython.cast(cython.p_void, table)
            one.tables += 1

    def add_segment(self, start: cython.ulonglong, data):
        """Bytes of memory from an address on, in order of address; none may overlap the one before."""
        view: cython.const[cython.uchar][::1] = memoryview(data).cast("B")
        segments: cython.pointer[Segment] = cython.cast(cython.pointer[Segment], self.segments.items)
        new: cython.pointer[Segment]
        size: cython.ulonglong = view.shape[0]
        belong(start + size >= start)
        belong(self.segments.count == 0 or segments[self.segments.count - 1].end <= start)
        if size == 0:
            return
        new = cython.cast(cython.pointer[Segment], push(cython.address(self.segments), cython.sizeof(Segment)))
        if new == cython.NULL:
            raise MemoryError
        self.held.append(view)
        new.start = start
        new.end = start + size
        new.bytes = cython.address(view[0])

    def set_stack(self, start: cython.ulonglong, data):
        """The bytes of the one stack whose thread is walked next, from an address on, where no segment is."""
        self.stack_view = memoryview(data).cast("B")
        belong(start + cython.cast(cython.ulonglong, self.stack_view.shape[0]) >= start)
        self.near.start = self.near.end = 0
        if self.stack_view.shape[0]:
            self.near.start = start
            self.near.end = start + cython.cast(cython.ulonglong, self.stack_view.shape[0])
            self.near.bytes = cython.address(self.stack_view[0])

    # reading

    def load(self, address, value):
        """A word of memory. False where it isn't there."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t
        middle: cython.Py_ssize_t
        segments: cython.pointer[Segment]
        if address - self.near.start >= self.near.end - self.near.start:
            segments = cython.cast(cython.pointer[Segment], self.segments.items)
            high = self.segments.count
            while low < high:
                middle = (low + high) >> 1
                if segments[middle].start <= address:
                    low = middle + 1
                else:
                    high = middle
            if low == 0 or address >= segments[low - 1].end:
                self.unreadable = address
                return False
            self.near = segments[low - 1]
        if self.near.end - address < cython.cast(cython.ulonglong, self.word):
            self.unreadable = address
            return False
        value[0] = number(self.near.bytes + (address - self.near.start), self.word, self.big)
        return True

    def mapping_of(self, address):
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.mappings.count
        middle: cython.Py_ssize_t
        mappings: cython.pointer[Mapping] = cython.cast(cython.pointer[Mapping], self.mappings.items)
        while low < high:
            middle = (low + high) >> 1
            if mappings[middle].start <= address:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low and address < mappings[low - 1].end else -1

    def is_code(self, address):
        """Whether an address, or the one before it, is in a mapping; most are in the one that was looked at last."""
        found: cython.longlong
        one: cython.pointer[Mapping]
        if address - 1 - self.code_start < self.code_size:
            return True
        found = self.mapping_of(address - 1)
        if found < 0:
            found = self.mapping_of(address)
        if found < 0:
            return False
        one = cython.cast(cython.pointer[Mapping], self.mappings.items) + found
        self.code_start = one.start
        self.code_size = one.end - one.start
        return True

    # what a pc does

    def place_of(self, walk, place):
        """The row that holds in a frame. WALK_ON, WALK_ODD or WALK_MODULE."""
        kept: cython.pointer[Place] = self.places + self.slot_of(walk)
        how: cython.int
        if kept.pc == walk.pc and kept.table != 0 and kept.is_exact == walk.is_exact:
            place[0] = kept[0]
            return WALK_ON
        how = self.find_place(walk, place)
        if how == WALK_ON:
            kept[0] = place[0]
        return how

    def find_place(self, walk, place):
        address: cython.ulonglong = walk.pc if walk.is_exact else walk.pc - 1
        mapping: cython.longlong = self.mapping_of(address)
        one: cython.pointer[Mapping]
        at: cython.uint
        vaddr: cython.ulonglong
        entry: cython.uint
        found: cython.pointer[Entry]
        cie: cython.pointer[Cie]
        table: CfiTable
        if mapping < 0:
            return WALK_ODD
        one = cython.cast(cython.pointer[Mapping], self.mappings.items) + mapping
        if not one.is_known:
            self.mapping = mapping
            return WALK_MODULE
        for at in range(one.first_table, one.first_table + one.tables):
            table = cython.cast(CfiTable, cython.cast(cython.pp_void, self.table_pointers.items)[at])
            vaddr = address - one.bias & table.mask
            entry = table.find_entry(vaddr)
            if entry == NONE:
                continue
            found = cython.cast(cython.pointer[Entry], table.entries.items) + entry
            cie = cython.cast(cython.pointer[Cie], table.cies.items) + found.cie
            if cie.is_signal:
                return WALK_ODD
            # code that signal handlers return to begins where no FDE covers it, or at an FDE's start: unless Python
            # looked at it and found none, it is asked
            if not self.is_learning and (vaddr == found.start if walk.is_exact else vaddr + 1 == found.end):
                return WALK_ODD
            place.state = table.state_of_row(entry, vaddr)
            if place.state == NONE:
                return WALK_ODD
            place.table = at + 1
            place.dead = DEAD_UNKNOWN
            place.pc = walk.pc
            place.is_exact = walk.is_exact
            return WALK_ON
        return WALK_ODD

    def learn_plain(self, pc, is_exact, dead: cython.int):
        """A frame with this pc is plain, if its row is: Python looked at the code there. Registers whose slots lie
        below the stack pointer have their values again (`dead` > 0), or not (< 0); 0 says nothing of them."""
        walk: cython.pointer[Walk] = cython.address(self.walk)
        kept: cython.pointer[Place]
        place: Place
        walk.pc = pc & self.mask
        walk.is_exact = bool(is_exact)
        self.is_learning = True
        kept = self.places + self.slot_of(walk)
        if kept.pc == walk.pc and kept.is_exact == walk.is_exact and kept.table != 0:
            place = kept[0]
        elif self.find_place(walk, cython.address(place)) != WALK_ON:
            place.table = 0
        self.is_learning = False
        if place.table:
            if dead:
                place.dead = DEAD_BACK if dead > 0 else DEAD_LOST
            kept[0] = place

    def learn_end(self, pc):
        """No frame is behind one that is at this pc by a return: Python found that it has no caller."""
        walk: cython.pointer[Walk] = cython.address(self.walk)
        place: Place
        memset(cython.address(place), 0, cython.sizeof(Place))
        walk.pc = pc & self.mask
        walk.is_exact = False
        place.pc = walk.pc
        place.table = END_OF_STACK
        self.places[self.slot_of(walk)] = place

    def counted(self, table, walk, where, column, value):
        """What an expression counts from registers, as those of PLTs do: by the pc, what its code pushed. False for
        another one. The pc is in the return address's column where calls push that."""
        at: cython.ulonglong = where & 0xFFFFFFFF
        end: cython.ulonglong = at + (where >> 32)
        data: cython.p_uchar = table.expressions.items
        stack: cython.ulonglong[4]
        depth: cython.int = 0
        code: cython.int
        register: cython.ulonglong
        half: cython.ulonglong = _ONE << (self.bits - 1)
        if end > cython.cast(cython.ulonglong, table.expressions.count):
            return False
        while at < end:
            code = data[at]
            at += 1
            if c.OP_LIT0 <= code <= c.OP_LIT31 or c.OP_BREG0 <= code <= c.OP_BREG31:
                if depth >= VALUES_LIMIT:
                    return False
                if code <= c.OP_LIT31:
                    stack[depth] = cython.cast(cython.ulonglong, code - c.OP_LIT0)
                else:
                    register = cython.cast(cython.ulonglong, code - c.OP_BREG0)
                    if self.pushes_pc and register == column:
                        stack[depth] = walk.pc
                    elif walk.known[0] >> register & 1:
                        stack[depth] = walk.values[register]
                    else:
                        return False
                    stack[depth] = stack[depth] + sleb(data, cython.address(at), end) & self.mask
                depth += 1
                continue
            if depth < 2:
                return False
            depth -= 1
            if code == c.OP_AND:
                stack[depth - 1] &= stack[depth]
            elif code == c.OP_PLUS:
                stack[depth - 1] = stack[depth - 1] + stack[depth] & self.mask
            elif code == c.OP_GE:  # of signed numbers
                stack[depth - 1] = (stack[depth - 1] ^ half) >= (stack[depth] ^ half)
            elif code == c.OP_SHL:
                if stack[depth] >= cython.cast(cython.ulonglong, self.bits):
                    stack[depth - 1] = 0
                else:
                    stack[depth - 1] = stack[depth - 1] << stack[depth] & self.mask
            else:
                return False
        if at != end or depth == 0:
            return False
        value[0] = stack[depth - 1]
        return True

    def slot_of(self, walk):
        return ((walk.pc ^ cython.cast(cython.ulonglong, walk.is_exact) << 63) * WHENCE_GOLDEN) >> 50

    def step(self, walk):
        """Make the walk's frame its caller's. It stays as it is where that is not WALK_ON."""
        place: Place
        how: cython.int = self.place_of(walk, cython.address(place))
        table: CfiTable
        words: cython.p_ulonglong
        count: cython.ulonglong
        rule: cython.ulonglong
        register: cython.ulonglong
        column: cython.ulonglong
        other: cython.ulonglong
        cfa: cython.ulonglong = 0
        value: cython.ulonglong = 0
        pc: cython.ulonglong = 0
        has_pc: cython.bint
        known: cython.ulonglong[2]
        changed: cython.ulonglong[64]
        values: cython.ulonglong[64]
        changes: cython.int = 0
        change: cython.int
        sp: cython.ulonglong = walk.values[self.sp]
        if how != WALK_ON:
            return how
        if place.table == END_OF_STACK:
            return WALK_COMPLETE
        table = cython.cast(CfiTable, cython.cast(cython.pp_void, self.table_pointers.items)[place.table - 1])
        words = table.words.items + table.state_at.items[place.state]
        count = words[0] & 0xFFFF
        column = words[0] >> 32
        if count > RULES_LIMIT or column >= REGISTERS:
            return WALK_ODD
        if words[0] >> 16 & 0xFF == c.CFA_REGISTER:
            register = words[1]
            if register >= REGISTERS or not walk.known[register >> 6] >> (register & 63) & 1:
                return WALK_ODD
            cfa = walk.values[register] + words[2] & self.mask
        elif words[0] >> 16 & 0xFF != c.CFA_EXPRESSION or not self.counted(
            table, walk, words[2], column, cython.address(cfa)
        ):
            return WALK_ODD
        has_pc = walk.known[column >> 6] >> (column & 63) & 1
        pc = walk.values[column]
        known[0] = walk.known[0] & self.kept[0]
        known[1] = walk.known[1] & self.kept[1]
        known[self.sp >> 6] |= _ONE << (self.sp & 63)
        words += STATE_HEAD
        for rule in range(count):
            register = words[2 * rule] >> 8
            how = words[2 * rule] & 0xFF
            if register >= REGISTERS:
                return WALK_ODD
            if how == c.HOW_OFFSET:
                if not self.load(cfa + words[2 * rule + 1] & self.mask, cython.address(value)):
                    if register == column:
                        return WALK_UNREADABLE
                    if not self.is_sample or register == cython.cast(cython.ulonglong, self.sp):
                        return WALK_ODD  # it may be in memory that Python reads
                    if walk.is_exact and cfa + words[2 * rule + 1] - sp & self.mask > self.mask >> 1:
                        if place.dead == DEAD_UNKNOWN:
                            return WALK_ODD
                        if place.dead == DEAD_BACK:
                            known[register >> 6] |= walk.known[register >> 6] & _ONE << (register & 63)
                            continue
                    known[register >> 6] &= ~(_ONE << (register & 63))
                    continue
            elif how == c.HOW_UNDEFINED:
                if register == column:
                    return WALK_COMPLETE
                known[register >> 6] &= ~(_ONE << (register & 63))
                continue
            elif how == c.HOW_VAL_OFFSET:
                value = cfa + words[2 * rule + 1] & self.mask
            elif how == c.HOW_SAME or how == c.HOW_REGISTER:
                other = register if how == c.HOW_SAME else words[2 * rule + 1]
                if other >= REGISTERS or not walk.known[other >> 6] >> (other & 63) & 1:
                    return WALK_ODD
                value = walk.values[other]
            else:
                return WALK_ODD
            if register == column:
                pc = value
                has_pc = True
            known[register >> 6] |= _ONE << (register & 63)
            changed[changes] = register
            values[changes] = value
            changes += 1
        if not has_pc:
            return WALK_ODD
        pc &= self.address_mask
        if pc == 0:
            return WALK_COMPLETE
        if cfa < walk.cfa_before or (cfa == walk.cfa_before and not walk.after_signal) or (cfa == sp and pc == walk.pc):
            return WALK_ODD
        if not self.is_code(pc):
            return WALK_ODD
        walk.values[self.sp] = cfa - self.sp_below_cfa & self.mask
        for change in range(changes):
            walk.values[changed[change]] = values[change]
        walk.known[0] = known[0]
        walk.known[1] = known[1]
        walk.pc = pc
        walk.cfa_before = cfa
        walk.is_exact = False
        walk.after_signal = False
        return WALK_ON

    # one thread

    def begin(self, pc, is_exact, after_signal, cfa_before, values):
        """The frame to walk from; `values` are registers by number. False when it has what only Python walks with."""
        walk: cython.pointer[Walk] = cython.address(self.walk)
        register: cython.int
        walk.pc = pc & self.mask
        walk.is_exact = bool(is_exact)
        walk.after_signal = bool(after_signal)
        walk.cfa_before = cfa_before & self.mask
        walk.known[0] = walk.known[1] = 0
        for register, value in values.items():
            if not 0 <= register < REGISTERS:
                return False
            walk.values[register] = value & self.mask
            walk.known[register >> 6] |= _ONE << (register & 63)
        return bool(walk.known[self.sp >> 6] >> (self.sp & 63) & 1)

    def walk_on(self, most: cython.Py_ssize_t):
        """Walk at most so many frames. (WALK_*, [(pc, sp) of each frame that was left behind])."""
        how: cython.int = WALK_FULL
        pc: cython.ulonglong
        sp: cython.ulonglong
        self.pcs.count = self.sps.count = 0
        while self.pcs.count < most:
            pc = self.walk.pc
            sp = self.walk.values[self.sp]
            how = self.step(cython.address(self.walk))
            if how != WALK_ON and how != WALK_COMPLETE:
                break
            if not push_u64(cython.address(self.pcs), pc) or not push_u64(cython.address(self.sps), sp):
                raise MemoryError
            if how == WALK_COMPLETE:
                break
            how = WALK_FULL
        return how, [(self.pcs.items[at], self.sps.items[at]) for at in range(self.pcs.count)]

    def frame(self):
        """Where the walk is: (pc, CFA of the frame before, registers by number)."""
        register: cython.int
        values = {}
        for register in range(REGISTERS):
            if self.walk.known[register >> 6] >> (register & 63) & 1:
                values[register] = self.walk.values[register]
        return self.walk.pc, self.walk.cfa_before, values

    # many samples

    def walk_samples(self, samples, found, first: cython.Py_ssize_t, most: cython.Py_ssize_t):
        """Walk samples from number `first` on, at most `most` frames of each, up to one that Python is needed for.

        `samples` has columns: pc (Q); values (Q), a row of numbers for each sample, of the registers whose numbers are
        in `numbers` (I); stack_start (Q), stack_at and stack_size (Q), what of `stack` (bytes) is the sample's memory.
        `found` is filled: `pc` (a Column of Q) with the frames of all samples, innermost first, `end` (Q) with where
        each sample's end in it, `how` (B) with WALK_*. A sample that is WALK_ODD or WALK_MODULE has no frames, and its
        number is returned; else how many there are.
        """
        pcs: cython.const[cython.ulonglong][::1] = samples.pc
        values: cython.const[cython.ulonglong][::1] = samples.values
        numbers: cython.const[cython.uint][::1] = samples.numbers
        stack_start: cython.const[cython.ulonglong][::1] = samples.stack_start
        stack_at: cython.const[cython.ulonglong][::1] = samples.stack_at
        stack_size: cython.const[cython.ulonglong][::1] = samples.stack_size
        stack: cython.const[cython.uchar][::1] = memoryview(samples.stack).cast("B")
        out: Column = found.pc
        ends: cython.ulonglong[::1] = found.end
        hows: cython.uchar[::1] = found.how
        count: cython.Py_ssize_t = pcs.shape[0]
        registers: cython.Py_ssize_t = numbers.shape[0]
        held: cython.ulonglong = stack.shape[0]
        sample: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        index: cython.Py_ssize_t
        frames: cython.Py_ssize_t
        how: cython.int
        pc: cython.ulonglong
        walk: Walk
        belong(out is not None and out.typecode == "Q" and 0 <= first <= count and most >= 0)
        belong(registers <= REGISTERS and values.shape[0] == count * registers)
        belong(stack_start.shape[0] == count and stack_at.shape[0] == count and stack_size.shape[0] == count)
        belong(ends.shape[0] == count and hows.shape[0] == count)
        for index in range(registers):
            belong(numbers[index] < REGISTERS)
        for sample in range(first, count):
            belong(stack_at[sample] <= held and stack_size[sample] <= held - stack_at[sample])
            belong(stack_start[sample] + stack_size[sample] >= stack_start[sample])
            walk.known[0] = walk.known[1] = 0
            for index in range(registers):
                walk.values[numbers[index]] = values[sample * registers + index] & self.mask
                walk.known[numbers[index] >> 6] |= _ONE << (numbers[index] & 63)
            walk.pc = pcs[sample] & self.mask
            walk.is_exact = True
            walk.after_signal = True
            begin = out.vector.count
            how = WALK_ODD
            if walk.known[self.sp >> 6] >> (self.sp & 63) & 1:
                walk.cfa_before = walk.values[self.sp]
                self.near.start = self.near.end = 0
                self.is_sample = True
                if stack_size[sample]:
                    self.near.start = stack_start[sample]
                    self.near.end = stack_start[sample] + stack_size[sample]
                    self.near.bytes = cython.address(stack[stack_at[sample]])
                how = WALK_ON
                for frames in range(most):
                    pc = walk.pc
                    how = self.step(cython.address(walk))
                    if how != WALK_ODD and how != WALK_MODULE and not out.push_u64(pc):
                        self.near.start = self.near.end = 0
                        self.is_sample = False
                        raise MemoryError
                    if how != WALK_ON:
                        break
                if how == WALK_ON:
                    how = WALK_FULL
                self.near.start = self.near.end = 0
                self.is_sample = False
            ends[sample] = begin
            hows[sample] = how
            if how == WALK_ODD or how == WALK_MODULE:
                out.vector.count = begin
                return sample
            ends[sample] = out.vector.count
        return count
