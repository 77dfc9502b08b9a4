"""Kernel: .eh_frame and .debug_frame compiled into rows, once for each FDE that is asked for or for all of them.

In: the bytes of a section, and of .eh_frame_hdr. Out: entries (an FDE's [start, end) in vaddrs), rows (from where on,
which state) and states: how to get the CFA, and a rule for each register that has one. Few states serve very many rows
(a thousand serve a million rows of libLLVM), so each is kept once and has a number, and an instruction is a step from
one number to the next. Most steps were made before: a table of fixed size remembers them, and such an instruction costs
no more than finding it there.

A state is words: STATE_HEAD of them (how many rules, how the CFA is got, whether a signal's frame, the return column;
the CFA's register; its offset), then two for each rule in order of register. Expressions lie apart, each once.

Everything is bounded by constants times the section's bytes plus allowances: the instructions that are run, the words
of states that are looked at, and those that are kept. Nothing is believed: what breaks a rule is a fault with its
offset, of one entry alone. DWARF 5, section 6.4; the LSB's "Exception Frames". cfi.py words the faults.
"""

import os

import cython
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcmp, memcpy, memset
from cython.cimports.whence.kernels.bytes import LEB_TOO_LONG, MORE, checked_uleb, number, signed_leb
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.hashtable import (
    WHENCE_GOLDEN,
    Probe,
    find_u32,
    first_match,
    insert,
    mix,
    mix_bytes,
    next_match,
    release_index,
)
from cython.cimports.whence.kernels.sort import sort_indexes
from cython.cimports.whence.kernels.vector import (
    append_u32,
    append_u64,
    push,
    push_bytes,
    push_u32,
    push_u64,
    release,
    reserve,
)
from cython.cimports.whence.unwind.kernels import constants as c

STATES_LIMIT = 64  # that DW_CFA_remember_state may put aside
REGISTERS_LIMIT = 256  # that have rules of their own in a row
REGISTER_LIMIT = 1 << 16  # a register's number is below
OVERLAPS_LIMIT = 8  # FDEs that are looked at for one vaddr; in 1,197 files none overlapped
PROGRAM_LIMIT = 1 << 20  # bytes of instructions of one FDE; in 1,197 files none had a hundredth
PROBLEMS_LIMIT = 1000  # that are listed one by one
RUN_TIMES, RUN_ALLOWANCE = 4, 1 << 18  # bytes of instructions that are run, for those of a section
WORK_TIMES, WORK_ALLOWANCE = 16, 1 << 20  # words of states that are looked at, for those bytes
WORDS_ALLOWANCE = 1 << 17  # words of states that are kept, beyond one for two bytes

_STATES = cython.declare(cython.int, STATES_LIMIT)
_REGISTERS = cython.declare(cython.ulonglong, REGISTERS_LIMIT)
_REGISTER = cython.declare(cython.ulonglong, REGISTER_LIMIT)
_OVERLAPS = cython.declare(cython.int, OVERLAPS_LIMIT)
_PROGRAM = cython.declare(cython.ulonglong, PROGRAM_LIMIT)
_PROBLEMS = cython.declare(cython.Py_ssize_t, PROBLEMS_LIMIT)
_ALL = cython.declare(cython.ulonglong, (1 << 64) - 1)
_TRANSITIONS_LEAST = cython.declare(cython.ulonglong, 64)
_TRANSITIONS_MOST = cython.declare(cython.ulonglong, 8192)

# operations: steps from a state to another, in the low byte; above it a register. HOW_* + SET gives it a rule; what it
# had in a state, the operand, is restored.
TO_CFA = cython.declare(cython.uint, 1)
TO_CFA_REGISTER = cython.declare(cython.uint, 2)
TO_CFA_OFFSET = cython.declare(cython.uint, 3)
TO_CFA_EXPRESSION = cython.declare(cython.uint, 4)
RESTORE = cython.declare(cython.uint, 5)
SET = cython.declare(cython.uint, 16)

# a state's first word: the number of rules, then these
HOW_SHIFT = cython.declare(cython.int, 16)  # CFA_*
SIGNAL_SHIFT = cython.declare(cython.int, 24)
COLUMN_SHIFT = cython.declare(cython.int, 32)
# a rule's first word: HOW_*, then the register
RULE_SHIFT = cython.declare(cython.int, 8)


@cython.final
@cython.cclass
class CfiTable:
    """`.eh_frame` or `.debug_frame`: found by vaddr, compiled where asked for."""

    def __cinit__(self, data, vaddr, bits, big, is_debug):
        """`data` is the section, at a vaddr, of a machine of 32 or 64 bits, big-endian or not. ValueError when it has
        4 GiB or more."""
        self.view = memoryview(data).cast("B")
        belong(bits == 32 or bits == 64)
        belong(self.view.shape[0] < cython.cast(cython.longlong, NONE))
        self.size = self.view.shape[0]
        self.data = cython.address(self.view[0]) if self.size else cython.NULL
        self.bits = bits
        self.mask = _ALL if bits == 64 else c.LENGTH_ESCAPE
        self.vaddr = cython.cast(cython.ulonglong, vaddr) & self.mask
        self.big = bool(big)
        self.is_debug = bool(is_debug)
        self.seed = int.from_bytes(os.urandom(8), "little") | 1
        self.run_left = RUN_TIMES * self.size + RUN_ALLOWANCE
        self.work_left = WORK_TIMES * self.size + WORK_ALLOWANCE
        self.words_left = self.size // 2 + WORDS_ALLOWANCE

    def __dealloc__(self):
        release(cython.address(self.entries))
        release(cython.address(self.cies))
        release(cython.address(self.rows))
        release(cython.address(self.faults))
        release(cython.address(self.problems))
        release(cython.address(self.expression_places))
        release(cython.address(self.order))
        release(cython.address(self.state_at))
        release(cython.address(self.words))
        release(cython.address(self.expressions))
        release_index(cython.address(self.entry_by_offset))
        release_index(cython.address(self.cie_by_offset))
        release_index(cython.address(self.state_by_words))
        release_index(cython.address(self.expression_by_bytes))
        free(self.transitions)

    # what else is known of the file

    def set_header(self, data, vaddr):
        """.eh_frame_hdr. Its table is searched when it has the usual form; what it leads to is checked."""
        at: cython.const[cython.uchar][::1] = memoryview(data).cast("B")
        count: cython.ulonglong
        self.header_vaddr = cython.cast(cython.ulonglong, vaddr) & self.mask
        self.header_count = 0
        if at.shape[0] < c.EH_FRAME_HDR_SIZE or at[0] != c.EH_FRAME_HDR_VERSION:
            return
        if at[1] != c.EH_FRAME_HDR_POINTER or at[2] != c.EH_FRAME_HDR_COUNT or at[3] != c.EH_FRAME_HDR_TABLE:
            return
        count = number(cython.address(at[8]), 4, self.big)
        if (
            count == 0
            or count > cython.cast(cython.ulonglong, at.shape[0] - c.EH_FRAME_HDR_SIZE) // c.EH_FRAME_HDR_ENTRY
        ):
            return
        self.header_view = at
        self.header = cython.address(self.header_view[c.EH_FRAME_HDR_SIZE])
        self.header_count = count

    def set_code(self, starts, ends):
        """The ranges of vaddrs that FDEs can be about, in order, none touching the next."""
        first: cython.const[cython.ulonglong][::1] = starts
        last: cython.const[cython.ulonglong][::1] = ends
        belong(first.shape[0] == last.shape[0])
        self.code_start = first
        self.code_end = last
        self.has_code = True

    def set_base(self, text_base, open_end):
        """What DW_EH_PE_textrel counts from; with `open_end` the first terminator ends the section."""
        self.text_base = cython.cast(cython.ulonglong, text_base) & self.mask
        self.open_end = bool(open_end)

    # numbers, in order

    def fail(self, code, at, value):
        """Note a fault, unless there is one. Always False."""
        if self.fault.code == c.FAULT_NONE:
            self.fault.code = code
            self.fault.at = at
            self.fault.value = value
        return False

    def take(self, size):
        """The next number of `size` bytes; 0 and a fault when it is not whole."""
        value: cython.ulonglong
        if self.at > self.stop or self.stop - self.at < cython.cast(cython.ulonglong, size):
            self.fail(c.FAULT_CUT_OFF, self.at, cython.cast(cython.ulonglong, size) << 32 | (self.stop - self.at))
            return 0
        value = number(self.data + self.at, size, self.big)
        self.at += size
        return value

    def take_uleb(self):
        value: cython.ulonglong = 0
        size: cython.int = checked_uleb(self.data + self.at, self.data + self.stop, cython.address(value))
        if size > 0:
            self.at += size
            return value
        if size == LEB_TOO_LONG:
            self.fail(c.FAULT_LEB, self.at, 0)
        else:
            self.fail(c.FAULT_CUT_OFF, max(self.at, self.stop), cython.cast(cython.ulonglong, 1) << 32)
        return 0

    def take_sleb(self):
        start: cython.ulonglong = self.at
        value: cython.ulonglong = self.take_uleb()
        return cython.cast(cython.longlong, signed_leb(value, self.at - start))

    def take_pointer(self, encoding, address_size, omitted):
        """A pointer as DW_EH_PE_* say, as a vaddr."""
        form: cython.uint = encoding & c.EH_PE_FORMAT_BITS
        base: cython.uint = encoding & c.EH_PE_BASE_BITS
        size: cython.int
        field: cython.ulonglong
        value: cython.ulonglong
        omitted[0] = encoding == c.DW_EH_PE_omit
        if omitted[0]:
            return 0
        if base == c.DW_EH_PE_aligned:
            field = (address_size - (self.vaddr + self.at) % address_size) % address_size
            if self.stop - self.at < field:
                self.fail(c.FAULT_CUT_OFF, self.at, field << 32 | (self.stop - self.at))
                return 0
            self.at += field
            return self.take(address_size)
        field = self.vaddr + self.at
        if form == c.DW_EH_PE_absptr:
            value = self.take(address_size)
        elif form == c.DW_EH_PE_uleb128:
            value = self.take_uleb()
        elif form == c.DW_EH_PE_sleb128:
            value = cython.cast(cython.ulonglong, self.take_sleb())
        elif c.DW_EH_PE_udata2 <= form <= c.DW_EH_PE_udata8:
            value = self.take(2 << (form - c.DW_EH_PE_udata2))
        elif c.DW_EH_PE_sdata2 <= form <= c.DW_EH_PE_sdata8:
            size = 2 << (form - c.DW_EH_PE_sdata2)
            value = self.take(size)
            if size < 8 and value >> (8 * size - 1):
                value |= _ALL << (8 * size)
        else:
            self.fail(c.FAULT_ENCODING, self.at, encoding)
            return 0
        if base == c.DW_EH_PE_pcrel:
            value += field
        elif base == c.DW_EH_PE_datarel:
            value += self.header_vaddr
        elif base == c.DW_EH_PE_textrel:
            value += self.text_base
        elif base:
            self.fail(c.FAULT_BASE, self.at, encoding)
            return 0
        return value & self.mask

    # records

    def record(self, at, start, end, size):
        """Where the content of the record at an offset begins and ends, and the size of its offsets."""
        length: cython.ulonglong
        self.at = at
        self.stop = self.size
        size[0] = 4
        length = self.take(4)
        if length == c.LENGTH_ESCAPE:
            length = self.take(8)
            size[0] = 8
        if self.fault.code:
            return False
        if length > self.size - self.at:
            return self.fail(c.FAULT_RECORD_END, at, length)
        start[0] = self.at
        end[0] = self.at + length
        return True

    def cie_at(self, at):
        """The CIE at an offset, read once; NONE and a fault where there is none that is right."""
        index: cython.Py_ssize_t
        cies: cython.pointer[Cie] = cython.cast(cython.pointer[Cie], self.cies.items)
        new: cython.pointer[Cie]
        fault: cython.pointer[Fault]
        before: cython.ulonglong = self.at
        stop: cython.ulonglong = self.stop
        if at >= self.size:
            self.fail(c.FAULT_CIE_OUTSIDE, at, 0)
            return NONE
        if self.cies.count:  # the last one, most often
            index = self.cies.count - 1
            if cies[index].offset == at and cies[index].fault == 0:
                return index
            index = find_u32(
                cython.address(self.cie_by_offset), cython.address(cies.offset), cython.sizeof(Cie), at, self.seed
            )
            if index >= 0:
                if cies[index].fault:
                    fault = cython.cast(cython.pointer[Fault], self.faults.items) + (cies[index].fault - 1)
                    self.fail(fault.code, fault.at, fault.value)
                    return NONE
                return index
        new = cython.cast(cython.pointer[Cie], push(cython.address(self.cies), cython.sizeof(Cie)))
        index = self.cies.count - 1
        if new == cython.NULL or not insert(cython.address(self.cie_by_offset), mix(at, self.seed), index):
            self.fail(c.FAULT_NO_MEMORY, 0, 0)
            return NONE
        memset(new, 0, cython.sizeof(Cie))
        new.offset = cython.cast(cython.uint, at)
        new.initial = NONE
        if not self.read_cie(at, new):
            new.fault = self.keep_fault()
            return NONE
        self.at = before
        self.stop = stop
        return index

    def keep_fault(self):
        """1 + the number that the fault gets among those that are kept."""
        kept: cython.pointer[Fault] = cython.cast(
            cython.pointer[Fault], push(cython.address(self.faults), cython.sizeof(Fault))
        )
        if kept == cython.NULL:
            return 1 if self.faults.count else 0
        kept[0] = self.fault
        return cython.cast(cython.uint, self.faults.count)

    def read_cie(self, at, cie):
        start: cython.ulonglong = 0
        end: cython.ulonglong = 0
        size: cython.int = 4
        id_size: cython.int
        id: cython.ulonglong
        version: cython.ulonglong
        augmentation: cython.ulonglong
        letters: cython.ulonglong
        letter: cython.uchar
        behind: cython.ulonglong
        omitted: cython.bint = False
        if not self.record(at, cython.address(start), cython.address(end), cython.address(size)):
            return False
        self.at = start
        self.stop = end
        id_size = size if self.is_debug else 4
        id = self.take(id_size)
        if self.fault.code:
            return False
        if id != ((_ALL if id_size == 8 else c.LENGTH_ESCAPE) if self.is_debug else 0):
            return self.fail(c.FAULT_NOT_CIE, at, 0)
        version = self.take(1)
        if self.fault.code:
            return False
        if version != c.CIE_GNU and version != c.CIE_DWARF3 and not (version == c.CIE_DWARF4 and self.is_debug):
            return self.fail(c.FAULT_VERSION, self.at - 1, version)
        augmentation = self.at
        while self.take(1):
            pass
        if self.fault.code:
            return False
        letters = self.at - 1
        cie.address_size = self.bits // 8
        if version == c.CIE_DWARF4:
            cie.address_size = cython.cast(cython.uint, self.take(1))
            if self.take(1) or (cie.address_size != 4 and cie.address_size != 8):
                return self.fail(c.FAULT_SIZES, at, cie.address_size)
        cie.code_align = self.take_uleb()
        cie.data_align = self.take_sleb()
        id = self.take(1) if version == c.CIE_GNU else self.take_uleb()
        if id >= _REGISTER:
            return self.fail(c.FAULT_REGISTER, self.at, id)
        cie.return_column = cython.cast(cython.uint, id)
        cie.encoding = c.DW_EH_PE_absptr
        cie.lsda_encoding = c.DW_EH_PE_omit
        if self.fault.code:
            return False
        if letters > augmentation:
            if self.data[augmentation] != ord("z"):
                return self.fail(c.FAULT_AUGMENTATION, at, augmentation << 32 | (letters - augmentation))
            cie.is_augmented = True
            id = self.take_uleb()
            if self.fault.code:
                return False
            if id > end - self.at:
                return self.fail(c.FAULT_AUGMENTATION_END, at, id)
            behind = self.at + id
            self.stop = behind
            for augmentation in range(augmentation + 1, letters):
                letter = self.data[augmentation]
                if letter == ord("R"):
                    cie.encoding = cython.cast(cython.uchar, self.take(1))
                elif letter == ord("L"):
                    cie.lsda_encoding = cython.cast(cython.uchar, self.take(1))
                elif letter == ord("P"):
                    id = self.take(1)
                    # only to get behind it: what it counts from doesn't matter
                    self.take_pointer(
                        cython.cast(cython.uint, id)
                        if id & c.EH_PE_BASE_BITS == c.DW_EH_PE_aligned or id == c.DW_EH_PE_omit
                        else cython.cast(cython.uint, id & c.EH_PE_FORMAT_BITS),
                        cie.address_size, cython.address(omitted),
                    )  # fmt: skip
                elif letter == ord("S"):
                    cie.is_signal = True
                elif letter != ord("B") and letter != ord("G"):
                    break  # what it means nobody knows: the length skips
                if self.fault.code:
                    return False
            self.at = behind
        if end - self.at > _PROGRAM:
            return self.fail(c.FAULT_LONG_CIE, at, end - self.at)
        cie.program_at = cython.cast(cython.uint, self.at)
        cie.program_end = cython.cast(cython.uint, end)
        return True

    def entry_at(self, at, behind):
        """The FDE at an offset as a new entry; NONE for a CIE or padding, or with a fault. `behind`: the next record,
        unchanged where nobody can know."""
        start: cython.ulonglong = 0
        end: cython.ulonglong = 0
        size: cython.int = 4
        id_size: cython.int
        id: cython.ulonglong
        index: cython.uint
        first: cython.ulonglong
        covered: cython.ulonglong
        length: cython.ulonglong
        omitted: cython.bint = False
        omitted_size: cython.bint = False
        cie: cython.pointer[Cie]
        entry: cython.pointer[Entry]
        if at >= self.size:
            self.fail(c.FAULT_RECORD_OUTSIDE, at, 0)
            return NONE
        if not self.record(at, cython.address(start), cython.address(end), cython.address(size)):
            return NONE
        behind[0] = end
        if start == end:  # the terminator, which other records may follow, or padding
            return NONE
        self.at = start
        self.stop = end
        id_size = size if self.is_debug else 4
        id = self.take(id_size)
        if self.fault.code:
            return NONE
        if id == ((_ALL if id_size == 8 else c.LENGTH_ESCAPE) if self.is_debug else 0):
            return NONE
        index = self.cie_at(id if self.is_debug else start - id)
        if index == NONE:
            return NONE
        cie = cython.cast(cython.pointer[Cie], self.cies.items) + index
        first = self.take_pointer(cie.encoding, cie.address_size, cython.address(omitted))
        covered = self.take_pointer(
            cie.encoding & c.EH_PE_FORMAT_BITS if cie.encoding != c.DW_EH_PE_omit else c.DW_EH_PE_omit,
            cie.address_size, cython.address(omitted_size),
        )  # fmt: skip
        if self.fault.code:
            return NONE
        if omitted or omitted_size:
            self.fail(c.FAULT_OMITTED, at, 0)
            return NONE
        if covered >> (self.bits - 1):
            self.fail(c.FAULT_RANGE, at, covered)
            return NONE
        if covered > NONE:
            self.fail(c.FAULT_LONG_RANGE, at, covered)
            return NONE
        if cie.is_augmented:
            length = self.take_uleb()
            if self.fault.code == 0 and length > self.stop - self.at:
                self.fail(c.FAULT_CUT_OFF, self.at, length << 32 | (self.stop - self.at))
            if self.fault.code:
                return NONE
            self.at += length
        entry = cython.cast(cython.pointer[Entry], push(cython.address(self.entries), cython.sizeof(Entry)))
        if entry == cython.NULL:
            self.fail(c.FAULT_NO_MEMORY, 0, 0)
            return NONE
        entry.start = first
        entry.end = first + covered
        entry.offset = cython.cast(cython.uint, at)
        entry.program_at = cython.cast(cython.uint, self.at)
        entry.program_end = cython.cast(cython.uint, end)
        entry.cie = index
        entry.first_row = entry.rows = 0
        entry.fault = 0
        entry.is_compiled = False
        return cython.cast(cython.uint, self.entries.count - 1)

    def covers_code(self, entry):
        """Whether it is about code: linkers leave .debug_frame's entries of what they dropped at 0, 1 or -1."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t
        middle: cython.Py_ssize_t
        if entry.start >= entry.end:
            return False
        if not self.has_code:
            return True
        high = self.code_start.shape[0]
        while low < high:
            middle = (low + high) >> 1
            if self.code_start[middle] <= entry.start:
                low = middle + 1
            else:
                high = middle
        return low > 0 and entry.start < self.code_end[low - 1]

    def scan(self):
        """Read every record's head, once. False when there is no memory."""
        at: cython.ulonglong = 0
        behind: cython.ulonglong
        index: cython.uint
        count: cython.Py_ssize_t
        item: cython.Py_ssize_t
        first: cython.Py_ssize_t = self.entries.count
        entries: cython.pointer[Entry]
        keys: U64s
        target: U32s
        problem: cython.pointer[Fault]
        done: cython.bint
        if self.is_scanned:
            return True
        while self.size >= 4 and at <= self.size - 4:
            if self.open_end and number(self.data + at, 4, False) == 0:
                break
            self.fault.code = c.FAULT_NONE
            behind = at
            index = self.entry_at(at, cython.address(behind))
            if self.fault.code == c.FAULT_NO_MEMORY:
                return False
            if self.fault.code and self.problems.count < _PROBLEMS:
                problem = cython.cast(cython.pointer[Fault], push(cython.address(self.problems), cython.sizeof(Fault)))
                if problem == cython.NULL:
                    return False
                problem[0] = self.fault
            if index != NONE and not self.covers_code(cython.cast(cython.pointer[Entry], self.entries.items) + index):
                self.entries.count -= 1
            if behind == at:
                break
            at = behind
        self.fault.code = c.FAULT_NONE
        count = self.entries.count - first
        entries = cython.cast(cython.pointer[Entry], self.entries.items) + first
        memset(cython.address(keys), 0, cython.sizeof(U64s))
        memset(cython.address(target), 0, cython.sizeof(U32s))
        done = (
            reserve(cython.address(keys), count, 8)
            and reserve(cython.address(target), count, 4)
            and reserve(cython.address(self.order), count, 4)
        )
        if done and count:
            for item in range(count):
                append_u64(cython.address(keys), entries[item].start)
                append_u32(cython.address(target), cython.cast(cython.uint, item))
                append_u32(cython.address(self.order), cython.cast(cython.uint, item))
            if sort_indexes(keys.items, self.order.items, target.items, count):
                memcpy(self.order.items, target.items, 4 * count)
            for item in range(count):
                self.order.items[item] += cython.cast(cython.uint, first)
        release(cython.address(keys))
        release(cython.address(target))
        self.is_scanned = done
        return done

    # finding

    def find_by_header(self, vaddr):
        low: cython.ulonglong = 0
        high: cython.ulonglong = self.header_count
        middle: cython.ulonglong
        wanted: cython.longlong = cython.cast(cython.longlong, vaddr - self.header_vaddr)
        place: cython.ulonglong
        behind: cython.ulonglong = 0
        index: cython.Py_ssize_t
        entries: cython.pointer[Entry]
        if self.bits == 32:
            wanted = cython.cast(cython.int, vaddr - self.header_vaddr)
        while low < high:
            middle = (low + high) >> 1
            if (
                cython.cast(
                    cython.longlong,
                    cython.cast(cython.int, number(self.header + c.EH_FRAME_HDR_ENTRY * middle, 4, self.big)),
                )
                <= wanted
            ):
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return NONE
        place = number(self.header + c.EH_FRAME_HDR_ENTRY * (low - 1) + 4, 4, self.big)
        if place >> 31:
            place |= _ALL << 32
        place = (place + self.header_vaddr - self.vaddr) & self.mask
        if place >= self.size:
            return NONE
        entries = cython.cast(cython.pointer[Entry], self.entries.items)
        index = find_u32(
            cython.address(self.entry_by_offset), cython.address(entries.offset), cython.sizeof(Entry), place, self.seed
        )
        if index < 0:
            self.fault.code = c.FAULT_NONE
            index = self.entry_at(place, cython.address(behind))
            self.fault.code = c.FAULT_NONE
            if index == NONE or not insert(cython.address(self.entry_by_offset), mix(place, self.seed), index):
                return NONE
            entries = cython.cast(cython.pointer[Entry], self.entries.items)
        return index if entries[index].start <= vaddr < entries[index].end else NONE

    def find_by_scan(self, vaddr):
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.order.count
        middle: cython.Py_ssize_t
        tries: cython.int
        best: cython.uint = NONE
        entry: cython.pointer[Entry]
        entries: cython.pointer[Entry] = cython.cast(cython.pointer[Entry], self.entries.items)
        while low < high:
            middle = (low + high) >> 1
            if entries[self.order.items[middle]].start <= vaddr:
                low = middle + 1
            else:
                high = middle
        for tries in range(_OVERLAPS):  # of several the later start counts, then the shorter one
            if low - 1 - tries < 0:
                break
            entry = entries + self.order.items[low - 1 - tries]
            if best != NONE and entry.start != entries[best].start:
                break
            if vaddr < entry.end and (best == NONE or entry.end < entries[best].end):
                best = self.order.items[low - 1 - tries]
        return best

    def find_entry(self, vaddr):
        """The FDE whose range holds a vaddr; NONE where there is none."""
        index: cython.uint = NONE
        if self.header_count and not self.is_scanned:
            index = self.find_by_header(vaddr)
        if index == NONE:
            if not self.scan():
                self.fail(c.FAULT_NO_MEMORY, 0, 0)
                return NONE
            index = self.find_by_scan(vaddr)
        return index

    def state_of_row(self, entry, vaddr):
        """The state that holds at a vaddr of an entry; NONE where the FDE is damaged."""
        low: cython.uint = 0
        high: cython.uint
        middle: cython.uint
        one: cython.pointer[Entry]
        rows: cython.pointer[Row]
        if not self.compile_entry(entry):
            return NONE
        one = cython.cast(cython.pointer[Entry], self.entries.items) + entry
        rows = cython.cast(cython.pointer[Row], self.rows.items) + one.first_row
        high = one.rows
        while low < high:
            middle = (low + high) >> 1
            if rows[middle].at <= vaddr - one.start:
                low = middle + 1
            else:
                high = middle
        return rows[low - 1 if low else 0].state

    # programs

    def compile_entry(self, index):
        """Make an FDE's rows, once. False where it, or its CIE, is damaged: the entry's fault says how."""
        entry: cython.pointer[Entry] = cython.cast(cython.pointer[Entry], self.entries.items) + index
        cie: cython.pointer[Cie] = cython.cast(cython.pointer[Cie], self.cies.items) + entry.cie
        first: cython.Py_ssize_t = self.rows.count
        state: cython.uint
        if entry.is_compiled:
            return entry.fault == 0
        entry.is_compiled = True
        self.fault.code = c.FAULT_NONE
        if self.transitions == cython.NULL and not self.make_transitions():
            entry.fault = self.keep_fault()
            return False
        if cie.fault:
            entry.fault = cie.fault
            return False
        if cie.initial == NONE:
            memset(cython.address(self.scratch[0]), 0, 8 * STATE_HEAD)
            self.scratch[0] = (
                cython.cast(cython.ulonglong, cie.return_column) << COLUMN_SHIFT
                | cython.cast(cython.ulonglong, cie.is_signal) << SIGNAL_SHIFT
                | cython.cast(cython.ulonglong, c.CFA_NONE) << HOW_SHIFT
            )
            state = self.intern_scratch(STATE_HEAD)
            if state != NONE:
                self.initial = state  # what a CIE restores is no rule
                self.at = cie.program_at
                self.stop = cie.program_end
                state = self.run(cie, 0, NONE, state)
            if state == NONE:
                cie.fault = entry.fault = self.keep_fault()
                return False
            cie.initial = state
        state = NONE
        if entry.program_end - entry.program_at > _PROGRAM:
            self.fail(c.FAULT_LONG_FDE, entry.offset, entry.program_end - entry.program_at)
        else:
            self.initial = cie.initial
            self.at = entry.program_at
            self.stop = entry.program_end
            state = self.run(cie, entry.start, index, cie.initial)
        if state == NONE:
            self.rows.count = first
            entry.fault = self.keep_fault()
            return False
        entry.first_row = cython.cast(cython.uint, first)
        entry.rows = cython.cast(cython.uint, self.rows.count - first)
        return True

    def push_row(self, first, at, state):
        """Note what holds from here on; a row that nothing lies in goes."""
        row: cython.pointer[Row] = cython.cast(cython.pointer[Row], self.rows.items) + self.rows.count
        if self.rows.count > first:
            if (row - 1).at == at:
                self.rows.count -= 1
                row -= 1
            if self.rows.count > first and (row - 1).state == state:
                return True
        if self.rows.count == self.rows.room:
            if self.rows.count >= cython.cast(cython.Py_ssize_t, NONE - 1):
                return self.fail(c.FAULT_NO_MEMORY, 0, 0)
            if not reserve(cython.address(self.rows), 1, cython.sizeof(Row)):
                return self.fail(c.FAULT_NO_MEMORY, 0, 0)
            row = cython.cast(cython.pointer[Row], self.rows.items) + self.rows.count
        self.rows.count += 1
        row.at = cython.cast(cython.uint, at)
        row.state = state
        return True

    def run(self, cie, start, entry, state):
        """Run the instructions of [at, stop) from a state on: of an FDE, whose rows they make, or (entry NONE) of a
        CIE. The last state; NONE and a fault where a rule is broken."""
        first: cython.Py_ssize_t = self.rows.count
        location: cython.ulonglong = 0
        distance: cython.ulonglong = 0
        code: cython.uint
        low: cython.uint
        states: cython.uint[64]
        put_aside: cython.int = 0
        code_align: cython.ulonglong = cie.code_align
        data_align: cython.longlong = cie.data_align
        data: cython.pointer[cython.const[cython.uchar]] = self.data
        at: cython.ulonglong = self.at
        stop: cython.ulonglong = self.stop
        self.run_left -= cython.cast(cython.longlong, stop - at)
        if self.run_left < 0:
            self.fail(c.FAULT_COSTLY_RUN, at, 0)
            return NONE
        while at < stop:
            # what most instructions are, with operands of one byte
            code = data[at]
            at += 1
            low = code & c.CFA_LOW_BITS
            if code & c.CFA_HIGH_BITS == c.DW_CFA_advance_loc:
                if entry != NONE:
                    if not self.push_row(first, location, state):
                        return NONE
                    location += low * code_align
                    if location > NONE or code_align > NONE:
                        self.fail(c.FAULT_ORDER, at, location)
                        return NONE
                continue
            if code == c.DW_CFA_def_cfa_offset and at < stop and data[at] < MORE:
                state = self.step(state, TO_CFA_OFFSET, data[at])
                at += 1
            elif code & c.CFA_HIGH_BITS == c.DW_CFA_offset and at < stop and data[at] < MORE:
                state = self.step(
                    state,
                    (SET + c.HOW_OFFSET) | low << RULE_SHIFT,
                    cython.cast(cython.ulonglong, data[at] * data_align),
                )
                at += 1
            elif code & c.CFA_HIGH_BITS == c.DW_CFA_restore:
                state = self.step(state, RESTORE | low << RULE_SHIFT, self.initial)
            elif code == c.DW_CFA_nop:
                continue
            elif code == c.DW_CFA_remember_state:
                if put_aside >= _STATES:
                    self.fail(c.FAULT_MANY_STATES, at - 1, 0)
                    return NONE
                states[put_aside] = state
                put_aside += 1
            elif code == c.DW_CFA_restore_state:
                if put_aside == 0:
                    self.fail(c.FAULT_NO_STATE, at - 1, 0)
                    return NONE
                put_aside -= 1
                state = states[put_aside]
            else:
                self.at = at
                distance = 0
                if self.is_advance(cie, code, start + location, cython.address(distance)):
                    if entry != NONE and self.fault.code == c.FAULT_NONE:
                        if not self.push_row(first, location, state):
                            return NONE
                        if distance > NONE or location + distance > NONE:
                            self.fail(c.FAULT_ORDER, at, distance)
                        location += distance
                else:
                    state = self.other(cie, code, state)
                if self.fault.code:
                    return NONE
                at = self.at
            if state == NONE:
                return NONE
        if entry != NONE and not self.push_row(first, location, state):
            return NONE
        return state

    def is_advance(self, cie, code, location, distance):
        """Whether an instruction, whose operand is read then, moves the location, and how far. There may be a fault."""
        place: cython.ulonglong
        omitted: cython.bint = False
        if code == c.DW_CFA_advance_loc1:
            distance[0] = self.take(1)
        elif code == c.DW_CFA_advance_loc2:
            distance[0] = self.take(2)
        elif code == c.DW_CFA_advance_loc4:
            distance[0] = self.take(4)
        elif code == c.DW_CFA_MIPS_advance_loc8:
            distance[0] = self.take(8)
        elif code == c.DW_CFA_set_loc:
            place = self.take_pointer(cie.encoding, cie.address_size, cython.address(omitted))
            distance[0] = place - location  # backwards is too far
            return True
        else:
            return False
        if distance[0] > NONE or cie.code_align > NONE:
            self.fail(c.FAULT_ORDER, self.at, distance[0])
        distance[0] *= cie.code_align
        return True

    def other(self, cie, code, state):
        """The state that an instruction makes: any of those that neither move the location nor put states aside."""
        align: cython.ulonglong = cython.cast(cython.ulonglong, cie.data_align)
        operation: cython.uint = 0
        register: cython.ulonglong = 0
        place: cython.ulonglong = 0
        if code & c.CFA_HIGH_BITS == c.DW_CFA_offset:
            register = code & c.CFA_LOW_BITS
            operation = SET + c.HOW_OFFSET
            place = self.take_uleb() * align
        elif code == c.DW_CFA_def_cfa:
            register = self.take_uleb()
            operation = TO_CFA
            place = self.take_uleb()
        elif code == c.DW_CFA_def_cfa_sf:
            register = self.take_uleb()
            operation = TO_CFA
            place = cython.cast(cython.ulonglong, self.take_sleb()) * align
        elif code == c.DW_CFA_def_cfa_register:
            register = self.take_uleb()
            operation = TO_CFA_REGISTER
        elif code == c.DW_CFA_def_cfa_offset:
            operation = TO_CFA_OFFSET
            place = self.take_uleb()
        elif code == c.DW_CFA_def_cfa_offset_sf:
            operation = TO_CFA_OFFSET
            place = cython.cast(cython.ulonglong, self.take_sleb()) * align
        elif code == c.DW_CFA_def_cfa_expression:
            operation = TO_CFA_EXPRESSION
            self.expression(cython.address(place))
        elif code == c.DW_CFA_GNU_args_size:
            self.take_uleb()
            return state
        elif code == c.DW_CFA_AARCH64_negate_ra_state or code == c.DW_CFA_AARCH64_negate_ra_state_with_pc:
            return state  # those who strip the signature from every address needn't know whether one has it
        elif (
            c.DW_CFA_offset_extended <= code <= c.DW_CFA_register
            or c.DW_CFA_expression <= code <= c.DW_CFA_offset_extended_sf
            or c.DW_CFA_val_offset <= code <= c.DW_CFA_val_expression
            or code == c.DW_CFA_GNU_negative_offset_extended
        ):
            register = self.take_uleb()
            if code == c.DW_CFA_restore_extended:
                operation = RESTORE
                place = self.initial
            elif code == c.DW_CFA_undefined:
                operation = SET + c.HOW_UNDEFINED
            elif code == c.DW_CFA_same_value:
                operation = SET + c.HOW_SAME
            elif code == c.DW_CFA_register:
                operation = SET + c.HOW_REGISTER
                place = self.take_uleb()
                if place >= _REGISTER:
                    self.fail(c.FAULT_REGISTER, self.at, place)
            elif code == c.DW_CFA_offset_extended:
                operation = SET + c.HOW_OFFSET
                place = self.take_uleb() * align
            elif code == c.DW_CFA_offset_extended_sf:
                operation = SET + c.HOW_OFFSET
                place = cython.cast(cython.ulonglong, self.take_sleb()) * align
            elif code == c.DW_CFA_GNU_negative_offset_extended:
                operation = SET + c.HOW_OFFSET
                place = 0 - self.take_uleb() * align
            elif code == c.DW_CFA_val_offset:
                operation = SET + c.HOW_VAL_OFFSET
                place = self.take_uleb() * align
            elif code == c.DW_CFA_val_offset_sf:
                operation = SET + c.HOW_VAL_OFFSET
                place = cython.cast(cython.ulonglong, self.take_sleb()) * align
            else:
                operation = SET + (c.HOW_EXPRESSION if code == c.DW_CFA_expression else c.HOW_VAL_EXPRESSION)
                self.expression(cython.address(place))
        else:
            self.fail(c.FAULT_INSTRUCTION, self.at - 1, code)
        if register >= _REGISTER:
            self.fail(c.FAULT_REGISTER, self.at, register)
        if self.fault.code:
            return NONE
        return self.step(state, operation | cython.cast(cython.uint, register) << RULE_SHIFT, place)

    def expression(self, place):
        """The expression that is next, kept once: where it lies in `expressions`, and its size above 32 bits."""
        size: cython.ulonglong = self.take_uleb()
        spans: cython.p_ulonglong = cython.cast(cython.p_ulonglong, self.expression_places.items)
        known: cython.ulonglong
        at: cython.pointer[cython.const[cython.uchar]]
        hash: cython.ulonglong
        probe: Probe
        if self.fault.code:
            return False
        if size > self.stop - self.at:
            return self.fail(c.FAULT_CUT_OFF, self.at, size << 32 | (self.stop - self.at))
        at = self.data + self.at
        self.at += size
        hash = mix_bytes(at, size, self.seed)
        probe = first_match(cython.address(self.expression_by_bytes), hash)
        while next_match(cython.address(self.expression_by_bytes), cython.address(probe)):
            known = spans[probe.item]
            if known >> 32 == size and (
                size == 0 or memcmp(self.expressions.items + (known & c.LENGTH_ESCAPE), at, size) == 0
            ):
                place[0] = known
                return True
        self.words_left -= size // 8 + 1
        if self.words_left < 0:
            return self.fail(c.FAULT_COSTLY_RULES, self.at, 0)
        place[0] = cython.cast(cython.ulonglong, self.expressions.count) | size << 32
        if size and not push_bytes(cython.address(self.expressions), at, cython.cast(cython.Py_ssize_t, size)):
            return self.fail(c.FAULT_NO_MEMORY, 0, 0)
        if not push_u64(cython.address(self.expression_places), place[0]) or not insert(
            cython.address(self.expression_by_bytes), hash, self.expression_places.count - 1
        ):
            return self.fail(c.FAULT_NO_MEMORY, 0, 0)
        return True

    # states

    def make_transitions(self):
        count: cython.ulonglong = _TRANSITIONS_LEAST
        while count < _TRANSITIONS_MOST and count < self.size >> 6:
            count *= 2
        self.transitions = cython.cast(cython.pointer[Transition], malloc(count * cython.sizeof(Transition)))
        if self.transitions == cython.NULL:
            return self.fail(c.FAULT_NO_MEMORY, 0, 0)
        memset(self.transitions, 0xFF, count * cython.sizeof(Transition))
        self.transition_mask = count - 1
        return True

    def step(self, source, operation, operand):
        """The state that an operation makes of another; NONE and a fault where it makes none."""
        step: cython.pointer[Transition] = self.transitions + (
            ((source + operand * 0x2545F491 + (cython.cast(cython.ulonglong, operation) << 24)) * WHENCE_GOLDEN >> 40)
            & self.transition_mask
        )
        if (
            step.source == source
            and step.operation == operation
            and cython.cast(cython.ulonglong, cython.cast(cython.longlong, step.operand)) == operand
        ):
            return step.target
        return self.new_step(source, operation, operand, step)

    def new_step(self, source, operation, operand, step):
        """The same for an operation that is not remembered, which it is then."""
        target: cython.uint = self.make_state(source, operation, operand)
        narrow: cython.int = cython.cast(cython.int, operand)
        if target != NONE and cython.cast(cython.ulonglong, cython.cast(cython.longlong, narrow)) == operand:
            step.source = source
            step.target = target
            step.operation = operation
            step.operand = narrow
        return target

    def make_state(self, source, operation, operand):
        words: cython.p_ulonglong = self.words.items + self.state_at.items[source]
        count: cython.ulonglong = words[0] & 0xFFFF
        kind: cython.uint = operation & 0xFF
        register: cython.ulonglong = operation >> RULE_SHIFT
        how: cython.ulonglong
        index: cython.ulonglong = 0
        other: cython.ulonglong
        is_set: cython.bint = kind >= SET
        initial: cython.p_ulonglong
        self.work_left -= STATE_HEAD + 2 * count
        if self.work_left < 0:
            self.fail(c.FAULT_COSTLY_RULES, self.at, 0)
            return NONE
        memcpy(cython.address(self.scratch[0]), words, 8 * (STATE_HEAD + 2 * count))
        if kind < RESTORE:
            how = words[0] >> HOW_SHIFT & 0xFF
            # gcc's CIEs of riscv64 begin with a register alone: its offset is 0
            if (kind == TO_CFA_OFFSET and how != c.CFA_REGISTER) or (
                kind == TO_CFA_REGISTER and how == c.CFA_EXPRESSION
            ):
                self.fail(c.FAULT_CFA_PART, self.at - 1, 0)
                return NONE
            how = c.CFA_EXPRESSION if kind == TO_CFA_EXPRESSION else c.CFA_REGISTER
            self.scratch[0] = self.scratch[0] & ~(cython.cast(cython.ulonglong, 0xFF) << HOW_SHIFT) | how << HOW_SHIFT
            if kind != TO_CFA_OFFSET:
                self.scratch[1] = register
            if kind != TO_CFA_REGISTER:
                self.scratch[2] = operand
            return self.intern_scratch(cython.cast(cython.Py_ssize_t, STATE_HEAD + 2 * count))
        how = kind - SET
        if kind == RESTORE:
            initial = self.words.items + self.state_at.items[operand]
            for other in range(initial[0] & 0xFFFF):
                if initial[STATE_HEAD + 2 * other] >> RULE_SHIFT == register:
                    is_set = True
                    how = initial[STATE_HEAD + 2 * other] & 0xFF
                    operand = initial[STATE_HEAD + 2 * other + 1]
                    break
        words = cython.address(self.scratch[STATE_HEAD])
        while index < count and words[2 * index] >> RULE_SHIFT < register:
            index += 1
        if index < count and words[2 * index] >> RULE_SHIFT == register:
            if not is_set:
                for other in range(2 * index, 2 * count - 2):
                    words[other] = words[other + 2]
                count -= 1
                self.scratch[0] -= 1
        elif is_set:
            if count >= _REGISTERS:
                self.fail(c.FAULT_MANY_RULES, self.at, 0)
                return NONE
            other = 2 * count
            while other > 2 * index:
                other -= 1
                words[other + 2] = words[other]
            count += 1
            self.scratch[0] += 1
        if is_set:
            words[2 * index] = register << RULE_SHIFT | how
            words[2 * index + 1] = operand
        return self.intern_scratch(cython.cast(cython.Py_ssize_t, STATE_HEAD + 2 * count))

    def intern_scratch(self, size):
        """The state of the words in `scratch`, which is kept once. NONE and a fault: there is no room for it."""
        words: cython.p_ulonglong
        index: cython.Py_ssize_t
        hash: cython.ulonglong
        probe: Probe
        bytes_: cython.size_t = 8 * cython.cast(cython.size_t, size)
        scratch: cython.pointer[cython.const[cython.uchar]] = cython.cast(
            cython.pointer[cython.const[cython.uchar]], cython.address(self.scratch[0])
        )
        hash = mix_bytes(scratch, bytes_, self.seed)
        probe = first_match(cython.address(self.state_by_words), hash)
        while next_match(cython.address(self.state_by_words), cython.address(probe)):
            words = self.words.items + self.state_at.items[probe.item]
            # the first word includes the number of rules
            if words[0] == self.scratch[0] and memcmp(words, scratch, bytes_) == 0:
                return probe.item
        self.words_left -= size
        if self.words_left < 0:
            self.fail(c.FAULT_COSTLY_RULES, self.at, 0)
            return NONE
        if (
            not reserve(cython.address(self.words), size, 8)
            or not push_u32(cython.address(self.state_at), cython.cast(cython.uint, self.words.count))
            or not insert(cython.address(self.state_by_words), hash, self.state_at.count - 1)
        ):
            self.fail(c.FAULT_NO_MEMORY, 0, 0)
            return NONE
        for index in range(size):
            append_u64(cython.address(self.words), self.scratch[index])
        return cython.cast(cython.uint, self.state_at.count - 1)

    # for Python

    def find(self, vaddr):
        """The number of the FDE whose range holds a vaddr, -1 where there is none."""
        index: cython.uint = self.find_entry(cython.cast(cython.ulonglong, vaddr) & self.mask)
        if index == NONE and self.fault.code == c.FAULT_NO_MEMORY:
            raise MemoryError
        return -1 if index == NONE else index

    def scanned(self):
        """The numbers of all FDEs in order of vaddr."""
        if not self.scan():
            raise MemoryError
        return [self.order.items[index] for index in range(self.order.count)]

    def listed_problems(self):
        """What was wrong with records that could not be read: (FAULT_*, offset, value) each, a thousand at most."""
        problems: cython.pointer[Fault] = cython.cast(cython.pointer[Fault], self.problems.items)
        return [
            (problems[index].code, problems[index].at, problems[index].value) for index in range(self.problems.count)
        ]

    def entry(self, index: cython.Py_ssize_t):
        """(start, end, offset, number of the CIE) of an FDE."""
        belong(0 <= index < self.entries.count)
        one: cython.pointer[Entry] = cython.cast(cython.pointer[Entry], self.entries.items) + index
        return one.start, one.end, one.offset, one.cie

    def cie(self, index: cython.Py_ssize_t):
        """((code_align, data_align, return column, encoding, encoding of LSDAs, augmented, signal, size of addresses),
        start and end of its instructions) of a CIE."""
        belong(0 <= index < self.cies.count)
        one: cython.pointer[Cie] = cython.cast(cython.pointer[Cie], self.cies.items) + index
        return (
            (
                one.code_align, one.data_align, one.return_column, one.encoding, one.lsda_encoding,
                bool(one.is_augmented), bool(one.is_signal), one.address_size,
            ),
            one.program_at, one.program_end,
        )  # fmt: skip

    def compile(self, index: cython.Py_ssize_t):
        """Make an FDE's rows. None, or what is wrong with it: (FAULT_*, offset, value)."""
        belong(0 <= index < self.entries.count)
        fault: cython.pointer[Fault]
        one: cython.pointer[Entry]
        if self.compile_entry(cython.cast(cython.uint, index)):
            return None
        one = cython.cast(cython.pointer[Entry], self.entries.items) + index
        belong(0 < one.fault <= self.faults.count)
        fault = cython.cast(cython.pointer[Fault], self.faults.items) + (one.fault - 1)
        if fault.code == c.FAULT_NO_MEMORY:
            raise MemoryError
        return fault.code, fault.at, fault.value

    def rows_of(self, index: cython.Py_ssize_t):
        """The rows of an FDE that is compiled: a vaddr and the number of a state each."""
        belong(0 <= index < self.entries.count)
        one: cython.pointer[Entry] = cython.cast(cython.pointer[Entry], self.entries.items) + index
        rows: cython.pointer[Row] = cython.cast(cython.pointer[Row], self.rows.items) + one.first_row
        return [(one.start + rows[row].at, rows[row].state) for row in range(one.rows)]

    def state_of(self, index: cython.Py_ssize_t):
        """A state: (CFA_*, register, offset or expression), and each rule's (register, HOW_*, number or expression)."""
        belong(0 <= index < self.state_at.count)
        words: cython.p_ulonglong = self.words.items + self.state_at.items[index]
        how: cython.int = words[0] >> HOW_SHIFT & 0xFF
        rule: cython.ulonglong
        kind: cython.int
        at: cython.p_ulonglong
        rules = []
        for rule in range(words[0] & 0xFFFF):
            at = words + STATE_HEAD + 2 * rule
            kind = at[0] & 0xFF
            rules.append(
                (
                    at[0] >> RULE_SHIFT, kind,
                    self.expression_bytes(at[1]) if kind == c.HOW_EXPRESSION or kind == c.HOW_VAL_EXPRESSION
                    else cython.cast(cython.longlong, at[1]),
                )
            )  # fmt: skip
        return (
            (how, words[1], self.expression_bytes(words[2]) if how == c.CFA_EXPRESSION
             else cython.cast(cython.longlong, words[2])),
            rules,
        )  # fmt: skip

    def expression_bytes(self, place: cython.ulonglong):
        at: cython.ulonglong = place & c.LENGTH_ESCAPE
        size: cython.ulonglong = place >> 32
        belong(at + size <= cython.cast(cython.ulonglong, self.expressions.count))
        return (self.expressions.items + at)[: cython.cast(cython.Py_ssize_t, size)] if size else b""

    def compile_all(self):
        """Make the rows of every FDE; how many rows there are, and how many FDEs are damaged."""
        index: cython.Py_ssize_t
        damaged: cython.Py_ssize_t = 0
        rows: cython.ulonglong = 0
        if not self.scan():
            raise MemoryError
        for index in range(self.order.count):
            if not self.compile_entry(self.order.items[index]):
                damaged += 1
            else:
                rows += (cython.cast(cython.pointer[Entry], self.entries.items) + self.order.items[index]).rows
        return rows, damaged
