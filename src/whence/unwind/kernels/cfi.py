"""Kernel: compile .eh_frame and .debug_frame into rows, one FDE at a time or all at once.

In: the bytes of a section and of .eh_frame_hdr. Out: entries (an FDE's [start, end) in vaddrs), rows (an offset from
the FDE's start and a state) and states: the CFA and the rule of each register that has one. Few states serve many rows
(a thousand serve a million rows of libLLVM), so each state is stored once and has a number, and an instruction is a
transition from one number to another. A cache of fixed size holds the latest transitions.

A state is an array of words: STATE_HEAD of them (number of rules, kind of CFA, signal flag and return column; register
of the CFA; its offset), then two for each rule in order of register. Expressions are stored separately, once each.

All costs are bounded by constants times the section's bytes plus allowances: instructions run, words of states copied,
and words stored. A malformed record is a fault with its offset and affects only its entry. See DWARF 5, section 6.4,
and the LSB's "Exception Frames". cfi.py has the messages of the faults.
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

STATES_LIMIT = 64  # nested DW_CFA_remember_state
REGISTERS_LIMIT = 256  # rules of a row
REGISTER_LIMIT = 1 << 16  # register numbers are below
OVERLAPS_LIMIT = 8  # FDEs tried for one vaddr; in 1,197 files none overlapped
PROGRAM_LIMIT = 1 << 20  # bytes of instructions of one FDE; in 1,197 files none had a hundredth
PROBLEMS_LIMIT = 1000  # malformed records listed
RUN_TIMES, RUN_ALLOWANCE = 4, 1 << 18  # bytes of instructions run, per byte of the section
WORK_TIMES, WORK_ALLOWANCE = 16, 1 << 20  # words of states copied, per byte of the section
WORDS_ALLOWANCE = 1 << 17  # words of states stored, in addition to one per two bytes

_STATES = cython.declare(cython.int, STATES_LIMIT)
_REGISTERS = cython.declare(cython.ulonglong, REGISTERS_LIMIT)
_REGISTER = cython.declare(cython.ulonglong, REGISTER_LIMIT)
_OVERLAPS = cython.declare(cython.int, OVERLAPS_LIMIT)
_PROGRAM = cython.declare(cython.ulonglong, PROGRAM_LIMIT)
_PROBLEMS = cython.declare(cython.Py_ssize_t, PROBLEMS_LIMIT)
_ALL = cython.declare(cython.ulonglong, (1 << 64) - 1)
_TRANSITIONS_LEAST = cython.declare(cython.ulonglong, 64)
_TRANSITIONS_MOST = cython.declare(cython.ulonglong, 8192)

# operations of `step`: one of these, or HOW_* + SET, in the low byte; a register above it. RESTORE's operand is a state
TO_CFA = cython.declare(cython.uint, 1)
TO_CFA_REGISTER = cython.declare(cython.uint, 2)
TO_CFA_OFFSET = cython.declare(cython.uint, 3)
TO_CFA_EXPRESSION = cython.declare(cython.uint, 4)
RESTORE = cython.declare(cython.uint, 5)
SET = cython.declare(cython.uint, 16)

# a state's first word: the number of rules, then
HOW_SHIFT = cython.declare(cython.int, 16)  # CFA_*
SIGNAL_SHIFT = cython.declare(cython.int, 24)
COLUMN_SHIFT = cython.declare(cython.int, 32)
# a rule's first word: HOW_*, then the register
RULE_SHIFT = cython.declare(cython.int, 8)


@cython.final
@cython.cclass
class CfiTable:
    """`.eh_frame` or `.debug_frame`: searched by vaddr, compiled on demand."""

    def __cinit__(self, data, vaddr, bits, big, is_debug):
        """Open a section of a machine with `bits` (32 or 64). It must be smaller than 4 GiB."""
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
        release(cython.address(self.expression_spans))
        release(cython.address(self.order))
        release(cython.address(self.state_offset))
        release(cython.address(self.words))
        release(cython.address(self.expressions))
        release_index(cython.address(self.entry_by_offset))
        release_index(cython.address(self.cie_by_offset))
        release_index(cython.address(self.state_by_words))
        release_index(cython.address(self.expression_by_bytes))
        free(self.transitions)

    def set_header(self, data, vaddr):
        """Use .eh_frame_hdr for searches if it has the usual form; its results are verified."""
        header: cython.const[cython.uchar][::1] = memoryview(data).cast("B")
        self.header_vaddr = cython.cast(cython.ulonglong, vaddr) & self.mask
        self.header_count = 0
        if header.shape[0] < c.EH_FRAME_HDR_SIZE or header[0] != c.EH_FRAME_HDR_VERSION:
            return
        if (
            header[1] != c.EH_FRAME_HDR_POINTER
            or header[2] != c.EH_FRAME_HDR_COUNT
            or header[3] != c.EH_FRAME_HDR_TABLE
        ):
            return
        count: cython.ulonglong = number(cython.address(header[8]), 4, self.big)
        if (
            count == 0
            or count > cython.cast(cython.ulonglong, header.shape[0] - c.EH_FRAME_HDR_SIZE) // c.EH_FRAME_HDR_ENTRY
        ):
            return
        self.header_view = header
        self.header = cython.address(self.header_view[c.EH_FRAME_HDR_SIZE])
        self.header_count = count

    def set_code(self, starts, ends):
        """Set the ranges of vaddrs in which FDEs may start: ascending, not touching."""
        first: cython.const[cython.ulonglong][::1] = starts
        last: cython.const[cython.ulonglong][::1] = ends
        belong(first.shape[0] == last.shape[0])
        self.code_start = first
        self.code_end = last
        self.has_code = True

    def set_base(self, text_base, open_end):
        """Set the base of DW_EH_PE_textrel; `open_end`: the first terminator ends the section."""
        self.text_base = cython.cast(cython.ulonglong, text_base) & self.mask
        self.open_end = bool(open_end)

    # reading numbers

    def fail(self, code, offset, value):
        """Record a fault unless one is pending. Always returns False."""
        if self.fault.code == c.FAULT_NONE:
            self.fault.code = code
            self.fault.offset = offset
            self.fault.value = value
        return False

    def reject(self, code, offset, value):
        """Record a fault unless one is pending. Always returns NONE."""
        self.fail(code, offset, value)
        return NONE

    def read(self, size):
        """Return the next number of `size` bytes; 0 and a fault if it is cut off."""
        if self.position > self.end or self.end - self.position < cython.cast(cython.ulonglong, size):
            self.fail(
                c.FAULT_CUT_OFF, self.position, cython.cast(cython.ulonglong, size) << 32 | (self.end - self.position)
            )
            return 0
        value: cython.ulonglong = number(self.data + self.position, size, self.big)
        self.position += size
        return value

    def read_uleb(self):
        value: cython.ulonglong = 0
        size: cython.int = checked_uleb(self.data + self.position, self.data + self.end, cython.address(value))
        if size > 0:
            self.position += size
            return value
        if size == LEB_TOO_LONG:
            self.fail(c.FAULT_LEB, self.position, 0)
        else:
            self.fail(c.FAULT_CUT_OFF, max(self.position, self.end), cython.cast(cython.ulonglong, 1) << 32)
        return 0

    def read_sleb(self):
        start: cython.ulonglong = self.position
        value: cython.ulonglong = self.read_uleb()
        return cython.cast(cython.longlong, signed_leb(value, self.position - start))

    def read_pointer(self, encoding, address_size, omitted):
        """Read a pointer with a DW_EH_PE_* encoding as a vaddr."""
        form: cython.uint = encoding & c.EH_PE_FORMAT_BITS
        base: cython.uint = encoding & c.EH_PE_BASE_BITS
        omitted[0] = encoding == c.DW_EH_PE_omit
        if omitted[0]:
            return 0
        if base == c.DW_EH_PE_aligned:
            field: cython.ulonglong = (address_size - (self.vaddr + self.position) % address_size) % address_size
            if self.end - self.position < field:
                self.fail(c.FAULT_CUT_OFF, self.position, field << 32 | (self.end - self.position))
                return 0
            self.position += field
            return self.read(address_size)
        field = self.vaddr + self.position
        if form == c.DW_EH_PE_absptr:
            value: cython.ulonglong = self.read(address_size)
        elif form == c.DW_EH_PE_uleb128:
            value = self.read_uleb()
        elif form == c.DW_EH_PE_sleb128:
            value = cython.cast(cython.ulonglong, self.read_sleb())
        elif c.DW_EH_PE_udata2 <= form <= c.DW_EH_PE_udata8:
            value = self.read(2 << (form - c.DW_EH_PE_udata2))
        elif c.DW_EH_PE_sdata2 <= form <= c.DW_EH_PE_sdata8:
            size: cython.int = 2 << (form - c.DW_EH_PE_sdata2)
            value = self.read(size)
            if size < 8 and value >> (8 * size - 1):
                value |= _ALL << (8 * size)
        else:
            self.fail(c.FAULT_ENCODING, self.position, encoding)
            return 0
        if base == c.DW_EH_PE_pcrel:
            value += field
        elif base == c.DW_EH_PE_datarel:
            value += self.header_vaddr
        elif base == c.DW_EH_PE_textrel:
            value += self.text_base
        elif base:
            self.fail(c.FAULT_BASE, self.position, encoding)
            return 0
        return value & self.mask

    # records

    def open_record(self, offset, start, end, size):
        """Find the content of the record at an offset, and the size of its offsets."""
        self.position = offset
        self.end = self.size
        size[0] = 4
        length: cython.ulonglong = self.read(4)
        if length == c.LENGTH_ESCAPE:
            length = self.read(8)
            size[0] = 8
        if self.fault.code:
            return False
        if length > self.size - self.position:
            return self.fail(c.FAULT_RECORD_END, offset, length)
        start[0] = self.position
        end[0] = self.position + length
        return True

    def cie_of(self, offset):
        """Return the CIE at an offset, read once; NONE and a fault if it is malformed."""
        cies: cython.pointer[Cie] = cython.cast(cython.pointer[Cie], self.cies.items)
        before: cython.ulonglong = self.position
        end: cython.ulonglong = self.end
        if offset >= self.size:
            return self.reject(c.FAULT_CIE_OUTSIDE, offset, 0)
        if self.cies.count:  # usually the last one
            index: cython.Py_ssize_t = self.cies.count - 1
            if cies[index].offset == offset and cies[index].fault == 0:
                return index
            index = find_u32(
                cython.address(self.cie_by_offset), cython.address(cies.offset), cython.sizeof(Cie), offset, self.seed
            )
            if index >= 0:
                if cies[index].fault:
                    fault: cython.pointer[Fault] = cython.cast(cython.pointer[Fault], self.faults.items) + (
                        cies[index].fault - 1
                    )
                    return self.reject(fault.code, fault.offset, fault.value)
                return index
        new: cython.pointer[Cie] = cython.cast(cython.pointer[Cie], push(cython.address(self.cies), cython.sizeof(Cie)))
        index = self.cies.count - 1
        if new == cython.NULL or not insert(cython.address(self.cie_by_offset), mix(offset, self.seed), index):
            return self.reject(c.FAULT_NO_MEMORY, 0, 0)
        memset(new, 0, cython.sizeof(Cie))
        new.offset = cython.cast(cython.uint, offset)
        new.initial = NONE
        if not self.read_cie(offset, new):
            new.fault = self.store_fault()
            return NONE
        self.position = before
        self.end = end
        return index

    def store_fault(self):
        """Store the pending fault and return 1 + its index."""
        copy: cython.pointer[Fault] = cython.cast(
            cython.pointer[Fault], push(cython.address(self.faults), cython.sizeof(Fault))
        )
        if copy == cython.NULL:
            return 1 if self.faults.count else 0
        copy[0] = self.fault
        return cython.cast(cython.uint, self.faults.count)

    def read_cie(self, offset, cie):
        start: cython.ulonglong = 0
        end: cython.ulonglong = 0
        size: cython.int = 4
        omitted: cython.bint = False
        if not self.open_record(offset, cython.address(start), cython.address(end), cython.address(size)):
            return False
        self.position = start
        self.end = end
        id_size: cython.int = size if self.is_debug else 4
        id: cython.ulonglong = self.read(id_size)
        if self.fault.code:
            return False
        if id != ((_ALL if id_size == 8 else c.LENGTH_ESCAPE) if self.is_debug else 0):
            return self.fail(c.FAULT_NOT_CIE, offset, 0)
        version: cython.ulonglong = self.read(1)
        if self.fault.code:
            return False
        if version != c.CIE_GNU and version != c.CIE_DWARF3 and not (version == c.CIE_DWARF4 and self.is_debug):
            return self.fail(c.FAULT_VERSION, self.position - 1, version)
        augmentation: cython.ulonglong = self.position
        while self.read(1):
            pass
        if self.fault.code:
            return False
        letters: cython.ulonglong = self.position - 1
        cie.address_size = self.bits // 8
        if version == c.CIE_DWARF4:
            cie.address_size = cython.cast(cython.uint, self.read(1))
            if self.read(1) or (cie.address_size != 4 and cie.address_size != 8):
                return self.fail(c.FAULT_SIZES, offset, cie.address_size)
        cie.code_align = self.read_uleb()
        cie.data_align = self.read_sleb()
        id = self.read(1) if version == c.CIE_GNU else self.read_uleb()
        if id >= _REGISTER:
            return self.fail(c.FAULT_REGISTER, self.position, id)
        cie.return_column = cython.cast(cython.uint, id)
        cie.encoding = c.DW_EH_PE_absptr
        cie.lsda_encoding = c.DW_EH_PE_omit
        if self.fault.code:
            return False
        if letters > augmentation:
            if self.data[augmentation] != ord("z"):
                return self.fail(c.FAULT_AUGMENTATION, offset, augmentation << 32 | (letters - augmentation))
            cie.is_augmented = True
            id = self.read_uleb()
            if self.fault.code:
                return False
            if id > end - self.position:
                return self.fail(c.FAULT_AUGMENTATION_END, offset, id)
            data_end: cython.ulonglong = self.position + id
            self.end = data_end
            for augmentation in range(augmentation + 1, letters):
                letter: cython.uchar = self.data[augmentation]
                if letter == ord("R"):
                    cie.encoding = cython.cast(cython.uchar, self.read(1))
                elif letter == ord("L"):
                    cie.lsda_encoding = cython.cast(cython.uchar, self.read(1))
                elif letter == ord("P"):
                    id = self.read(1)
                    # only skipped: its base does not matter
                    self.read_pointer(
                        cython.cast(cython.uint, id)
                        if id & c.EH_PE_BASE_BITS == c.DW_EH_PE_aligned or id == c.DW_EH_PE_omit
                        else cython.cast(cython.uint, id & c.EH_PE_FORMAT_BITS),
                        cie.address_size, cython.address(omitted),
                    )  # fmt: skip
                elif letter == ord("S"):
                    cie.is_signal = True
                elif letter != ord("B") and letter != ord("G"):
                    break  # unknown augmentation letter: skip by the augmentation length
                if self.fault.code:
                    return False
            self.position = data_end
        if end - self.position > _PROGRAM:
            return self.fail(c.FAULT_LONG_CIE, offset, end - self.position)
        cie.program_start = cython.cast(cython.uint, self.position)
        cie.program_end = cython.cast(cython.uint, end)
        return True

    def read_entry(self, offset, next_offset):
        """Append the FDE at an offset as an entry; NONE for a CIE or padding, or with a fault.

        `next_offset`: where the next record starts; unchanged if the length is invalid.
        """
        start: cython.ulonglong = 0
        end: cython.ulonglong = 0
        size: cython.int = 4
        omitted: cython.bint = False
        omitted_size: cython.bint = False
        if offset >= self.size:
            return self.reject(c.FAULT_RECORD_OUTSIDE, offset, 0)
        if not self.open_record(offset, cython.address(start), cython.address(end), cython.address(size)):
            return NONE
        next_offset[0] = end
        if start == end:  # a terminator, which records may follow, or padding
            return NONE
        self.position = start
        self.end = end
        id_size: cython.int = size if self.is_debug else 4
        id: cython.ulonglong = self.read(id_size)
        if self.fault.code:
            return NONE
        if id == ((_ALL if id_size == 8 else c.LENGTH_ESCAPE) if self.is_debug else 0):
            return NONE
        index: cython.uint = self.cie_of(id if self.is_debug else start - id)
        if index == NONE:
            return NONE
        cie: cython.pointer[Cie] = cython.cast(cython.pointer[Cie], self.cies.items) + index
        first: cython.ulonglong = self.read_pointer(cie.encoding, cie.address_size, cython.address(omitted))
        covered: cython.ulonglong = self.read_pointer(
            cie.encoding & c.EH_PE_FORMAT_BITS if cie.encoding != c.DW_EH_PE_omit else c.DW_EH_PE_omit,
            cie.address_size, cython.address(omitted_size),
        )  # fmt: skip
        if self.fault.code:
            return NONE
        if omitted or omitted_size:
            return self.reject(c.FAULT_OMITTED, offset, 0)
        if covered >> (self.bits - 1):
            return self.reject(c.FAULT_RANGE, offset, covered)
        if covered > NONE:
            return self.reject(c.FAULT_LONG_RANGE, offset, covered)
        if cie.is_augmented:
            length: cython.ulonglong = self.read_uleb()
            if self.fault.code == 0 and length > self.end - self.position:
                self.fail(c.FAULT_CUT_OFF, self.position, length << 32 | (self.end - self.position))
            if self.fault.code:
                return NONE
            self.position += length
        entry: cython.pointer[Entry] = cython.cast(
            cython.pointer[Entry], push(cython.address(self.entries), cython.sizeof(Entry))
        )
        if entry == cython.NULL:
            return self.reject(c.FAULT_NO_MEMORY, 0, 0)
        entry.start = first
        entry.end = first + covered
        entry.offset = cython.cast(cython.uint, offset)
        entry.program_start = cython.cast(cython.uint, self.position)
        entry.program_end = cython.cast(cython.uint, end)
        entry.cie = index
        entry.first_row = entry.rows = 0
        entry.fault = 0
        entry.is_compiled = False
        return cython.cast(cython.uint, self.entries.count - 1)

    def covers_code(self, entry):
        """Return True if an FDE is about code. Linkers leave FDEs of removed functions at 0, 1 or -1."""
        low: cython.Py_ssize_t = 0
        if entry.start >= entry.end:
            return False
        if not self.has_code:
            return True
        high: cython.Py_ssize_t = self.code_start.shape[0]
        while low < high:
            middle: cython.Py_ssize_t = (low + high) >> 1
            if self.code_start[middle] <= entry.start:
                low = middle + 1
            else:
                high = middle
        return low > 0 and entry.start < self.code_end[low - 1]

    def scan(self):
        """Read the heads of all records, once. False if memory runs out."""
        offset: cython.ulonglong = 0
        item: cython.Py_ssize_t
        first: cython.Py_ssize_t = self.entries.count
        keys: U64s
        target: U32s
        if self.is_scanned:
            return True
        while self.size >= 4 and offset <= self.size - 4:
            if self.open_end and number(self.data + offset, 4, False) == 0:
                break
            self.fault.code = c.FAULT_NONE
            next_offset: cython.ulonglong = offset
            index: cython.uint = self.read_entry(offset, cython.address(next_offset))
            if self.fault.code == c.FAULT_NO_MEMORY:
                return False
            if self.fault.code and self.problems.count < _PROBLEMS:
                problem: cython.pointer[Fault] = cython.cast(
                    cython.pointer[Fault], push(cython.address(self.problems), cython.sizeof(Fault))
                )
                if problem == cython.NULL:
                    return False
                problem[0] = self.fault
            if index != NONE and not self.covers_code(cython.cast(cython.pointer[Entry], self.entries.items) + index):
                self.entries.count -= 1
            if next_offset == offset:
                break
            offset = next_offset
        self.fault.code = c.FAULT_NONE
        count: cython.Py_ssize_t = self.entries.count - first
        entries: cython.pointer[Entry] = cython.cast(cython.pointer[Entry], self.entries.items) + first
        memset(cython.address(keys), 0, cython.sizeof(U64s))
        memset(cython.address(target), 0, cython.sizeof(U32s))
        done: cython.bint = (
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
        distance: cython.longlong = cython.cast(cython.longlong, vaddr - self.header_vaddr)
        next_offset: cython.ulonglong = 0
        if self.bits == 32:
            distance = cython.cast(cython.int, vaddr - self.header_vaddr)
        while low < high:
            middle: cython.ulonglong = (low + high) >> 1
            if (
                cython.cast(
                    cython.longlong,
                    cython.cast(cython.int, number(self.header + c.EH_FRAME_HDR_ENTRY * middle, 4, self.big)),
                )
                <= distance
            ):
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return NONE
        offset: cython.ulonglong = number(self.header + c.EH_FRAME_HDR_ENTRY * (low - 1) + 4, 4, self.big)
        if offset >> 31:
            offset |= _ALL << 32
        offset = (offset + self.header_vaddr - self.vaddr) & self.mask
        if offset >= self.size:
            return NONE
        entries: cython.pointer[Entry] = cython.cast(cython.pointer[Entry], self.entries.items)
        index: cython.Py_ssize_t = find_u32(
            cython.address(self.entry_by_offset),
            cython.address(entries.offset),
            cython.sizeof(Entry),
            offset,
            self.seed,
        )
        if index < 0:
            self.fault.code = c.FAULT_NONE
            index = self.read_entry(offset, cython.address(next_offset))
            self.fault.code = c.FAULT_NONE
            if index == NONE or not insert(cython.address(self.entry_by_offset), mix(offset, self.seed), index):
                return NONE
            entries = cython.cast(cython.pointer[Entry], self.entries.items)
        return index if entries[index].start <= vaddr < entries[index].end else NONE

    def find_by_scan(self, vaddr):
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.order.count
        tries: cython.int
        best: cython.uint = NONE
        entries: cython.pointer[Entry] = cython.cast(cython.pointer[Entry], self.entries.items)
        while low < high:
            middle: cython.Py_ssize_t = (low + high) >> 1
            if entries[self.order.items[middle]].start <= vaddr:
                low = middle + 1
            else:
                high = middle
        for tries in range(_OVERLAPS):  # the latest start wins, then the shortest
            if low - 1 - tries < 0:
                break
            entry: cython.pointer[Entry] = entries + self.order.items[low - 1 - tries]
            if best != NONE and entry.start != entries[best].start:
                break
            if vaddr < entry.end and (best == NONE or entry.end < entries[best].end):
                best = self.order.items[low - 1 - tries]
        return best

    def find_entry(self, vaddr):
        """Return the entry whose range contains `vaddr`, or NONE."""
        index: cython.uint = NONE
        if self.header_count and not self.is_scanned:
            index = self.find_by_header(vaddr)
        if index == NONE:
            if not self.scan():
                return self.reject(c.FAULT_NO_MEMORY, 0, 0)
            index = self.find_by_scan(vaddr)
        return index

    def state_of_row(self, index, vaddr):
        """Return the state at a vaddr of an entry, NONE if its FDE is malformed."""
        low: cython.uint = 0
        if not self.compile_entry(index):
            return NONE
        entry: cython.pointer[Entry] = cython.cast(cython.pointer[Entry], self.entries.items) + index
        rows: cython.pointer[Row] = cython.cast(cython.pointer[Row], self.rows.items) + entry.first_row
        high: cython.uint = entry.rows
        while low < high:
            middle: cython.uint = (low + high) >> 1
            if rows[middle].offset <= vaddr - entry.start:
                low = middle + 1
            else:
                high = middle
        return rows[low - 1 if low else 0].state

    # programs

    def compile_entry(self, index):
        """Make an FDE's rows, once. False if the FDE or its CIE is malformed (see its fault)."""
        entry: cython.pointer[Entry] = cython.cast(cython.pointer[Entry], self.entries.items) + index
        cie: cython.pointer[Cie] = cython.cast(cython.pointer[Cie], self.cies.items) + entry.cie
        first: cython.Py_ssize_t = self.rows.count
        if entry.is_compiled:
            return entry.fault == 0
        entry.is_compiled = True
        self.fault.code = c.FAULT_NONE
        if self.transitions == cython.NULL and not self.make_transitions():
            entry.fault = self.store_fault()
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
            state: cython.uint = self.intern_scratch(STATE_HEAD)
            if state != NONE:
                self.initial = state  # a CIE's own restores remove rules
                self.position = cie.program_start
                self.end = cie.program_end
                state = self.run(cie, 0, NONE, state)
            if state == NONE:
                cie.fault = entry.fault = self.store_fault()
                return False
            cie.initial = state
        state = NONE
        if entry.program_end - entry.program_start > _PROGRAM:
            self.fail(c.FAULT_LONG_FDE, entry.offset, entry.program_end - entry.program_start)
        else:
            self.initial = cie.initial
            self.position = entry.program_start
            self.end = entry.program_end
            state = self.run(cie, entry.start, index, cie.initial)
        if state == NONE:
            self.rows.count = first
            entry.fault = self.store_fault()
            return False
        entry.first_row = cython.cast(cython.uint, first)
        entry.rows = cython.cast(cython.uint, self.rows.count - first)
        return True

    def push_row(self, first, offset, state):
        """Append a row; replaces the previous row if that is empty."""
        row: cython.pointer[Row] = cython.cast(cython.pointer[Row], self.rows.items) + self.rows.count
        if self.rows.count > first:
            if (row - 1).offset == offset:
                self.rows.count -= 1
                row -= 1
            if self.rows.count > first and (row - 1).state == state:
                return True
        if self.rows.count == self.rows.capacity:
            if self.rows.count >= cython.cast(cython.Py_ssize_t, NONE - 1):
                return self.fail(c.FAULT_NO_MEMORY, 0, 0)
            if not reserve(cython.address(self.rows), 1, cython.sizeof(Row)):
                return self.fail(c.FAULT_NO_MEMORY, 0, 0)
            row = cython.cast(cython.pointer[Row], self.rows.items) + self.rows.count
        self.rows.count += 1
        row.offset = cython.cast(cython.uint, offset)
        row.state = state
        return True

    def run(self, cie, start, entry, state):
        """Run the instructions of [position, end) from a state: of an FDE, whose rows they make, or of a CIE.

        `entry`: NONE for a CIE. Returns the last state, or NONE with a fault.
        """
        first: cython.Py_ssize_t = self.rows.count
        location: cython.ulonglong = 0
        distance: cython.ulonglong = 0
        states: cython.uint[64]
        depth: cython.int = 0
        code_align: cython.ulonglong = cie.code_align
        data_align: cython.longlong = cie.data_align
        data: cython.pointer[cython.const[cython.uchar]] = self.data
        position: cython.ulonglong = self.position
        end: cython.ulonglong = self.end
        self.run_left -= cython.cast(cython.longlong, end - position)
        if self.run_left < 0:
            return self.reject(c.FAULT_COSTLY_RUN, position, 0)
        while position < end:
            # fast path: most instructions, with operands of one byte
            code: cython.uint = data[position]
            position += 1
            low: cython.uint = code & c.CFA_LOW_BITS
            if code & c.CFA_HIGH_BITS == c.DW_CFA_advance_loc:
                if entry != NONE:
                    if not self.push_row(first, location, state):
                        return NONE
                    location += low * code_align
                    if location > NONE or code_align > NONE:
                        return self.reject(c.FAULT_ORDER, position, location)
                continue
            if code == c.DW_CFA_def_cfa_offset and position < end and data[position] < MORE:
                state = self.step(state, TO_CFA_OFFSET, data[position])
                position += 1
            elif code & c.CFA_HIGH_BITS == c.DW_CFA_offset and position < end and data[position] < MORE:
                state = self.step(
                    state,
                    (SET + c.HOW_OFFSET) | low << RULE_SHIFT,
                    cython.cast(cython.ulonglong, data[position] * data_align),
                )
                position += 1
            elif code & c.CFA_HIGH_BITS == c.DW_CFA_restore:
                state = self.step(state, RESTORE | low << RULE_SHIFT, self.initial)
            elif code == c.DW_CFA_nop:
                continue
            elif code == c.DW_CFA_remember_state:
                if depth >= _STATES:
                    return self.reject(c.FAULT_MANY_STATES, position - 1, 0)
                states[depth] = state
                depth += 1
            elif code == c.DW_CFA_restore_state:
                if depth == 0:
                    return self.reject(c.FAULT_NO_STATE, position - 1, 0)
                depth -= 1
                state = states[depth]
            else:
                self.position = position
                distance = 0
                if self.is_advance(cie, code, start + location, cython.address(distance)):
                    if entry != NONE and self.fault.code == c.FAULT_NONE:
                        if not self.push_row(first, location, state):
                            return NONE
                        if distance > NONE or location + distance > NONE:
                            self.fail(c.FAULT_ORDER, position, distance)
                        location += distance
                else:
                    state = self.apply(cie, code, state)
                if self.fault.code:
                    return NONE
                position = self.position
            if state == NONE:
                return NONE
        if entry != NONE and not self.push_row(first, location, state):
            return NONE
        return state

    def is_advance(self, cie, code, location, distance):
        """Return True, and the distance, if an instruction moves the location. May record a fault."""
        omitted: cython.bint = False
        if code == c.DW_CFA_advance_loc1:
            distance[0] = self.read(1)
        elif code == c.DW_CFA_advance_loc2:
            distance[0] = self.read(2)
        elif code == c.DW_CFA_advance_loc4:
            distance[0] = self.read(4)
        elif code == c.DW_CFA_MIPS_advance_loc8:
            distance[0] = self.read(8)
        elif code == c.DW_CFA_set_loc:
            address: cython.ulonglong = self.read_pointer(cie.encoding, cie.address_size, cython.address(omitted))
            distance[0] = address - location  # the caller rejects negative distances
            return True
        else:
            return False
        if distance[0] > NONE or cie.code_align > NONE:
            self.fail(c.FAULT_ORDER, self.position, distance[0])
        distance[0] *= cie.code_align
        return True

    def apply(self, cie, code, state):
        """Return the state after an instruction that neither moves the location nor saves states."""
        align: cython.ulonglong = cython.cast(cython.ulonglong, cie.data_align)
        operation: cython.uint = 0
        register: cython.ulonglong = 0
        operand: cython.ulonglong = 0
        if code & c.CFA_HIGH_BITS == c.DW_CFA_offset:
            register = code & c.CFA_LOW_BITS
            operation = SET + c.HOW_OFFSET
            operand = self.read_uleb() * align
        elif code == c.DW_CFA_def_cfa:
            register = self.read_uleb()
            operation = TO_CFA
            operand = self.read_uleb()
        elif code == c.DW_CFA_def_cfa_sf:
            register = self.read_uleb()
            operation = TO_CFA
            operand = cython.cast(cython.ulonglong, self.read_sleb()) * align
        elif code == c.DW_CFA_def_cfa_register:
            register = self.read_uleb()
            operation = TO_CFA_REGISTER
        elif code == c.DW_CFA_def_cfa_offset:
            operation = TO_CFA_OFFSET
            operand = self.read_uleb()
        elif code == c.DW_CFA_def_cfa_offset_sf:
            operation = TO_CFA_OFFSET
            operand = cython.cast(cython.ulonglong, self.read_sleb()) * align
        elif code == c.DW_CFA_def_cfa_expression:
            operation = TO_CFA_EXPRESSION
            self.expression(cython.address(operand))
        elif code == c.DW_CFA_GNU_args_size:
            self.read_uleb()
            return state
        elif code == c.DW_CFA_AARCH64_negate_ra_state or code == c.DW_CFA_AARCH64_negate_ra_state_with_pc:
            return state  # signatures are stripped from all return addresses
        elif (
            c.DW_CFA_offset_extended <= code <= c.DW_CFA_register
            or c.DW_CFA_expression <= code <= c.DW_CFA_offset_extended_sf
            or c.DW_CFA_val_offset <= code <= c.DW_CFA_val_expression
            or code == c.DW_CFA_GNU_negative_offset_extended
        ):
            register = self.read_uleb()
            if code == c.DW_CFA_restore_extended:
                operation = RESTORE
                operand = self.initial
            elif code == c.DW_CFA_undefined:
                operation = SET + c.HOW_UNDEFINED
            elif code == c.DW_CFA_same_value:
                operation = SET + c.HOW_SAME
            elif code == c.DW_CFA_register:
                operation = SET + c.HOW_REGISTER
                operand = self.read_uleb()
                if operand >= _REGISTER:
                    self.fail(c.FAULT_REGISTER, self.position, operand)
            elif code == c.DW_CFA_offset_extended:
                operation = SET + c.HOW_OFFSET
                operand = self.read_uleb() * align
            elif code == c.DW_CFA_offset_extended_sf:
                operation = SET + c.HOW_OFFSET
                operand = cython.cast(cython.ulonglong, self.read_sleb()) * align
            elif code == c.DW_CFA_GNU_negative_offset_extended:
                operation = SET + c.HOW_OFFSET
                operand = 0 - self.read_uleb() * align
            elif code == c.DW_CFA_val_offset:
                operation = SET + c.HOW_VAL_OFFSET
                operand = self.read_uleb() * align
            elif code == c.DW_CFA_val_offset_sf:
                operation = SET + c.HOW_VAL_OFFSET
                operand = cython.cast(cython.ulonglong, self.read_sleb()) * align
            else:
                operation = SET + (c.HOW_EXPRESSION if code == c.DW_CFA_expression else c.HOW_VAL_EXPRESSION)
                self.expression(cython.address(operand))
        else:
            self.fail(c.FAULT_INSTRUCTION, self.position - 1, code)
        if register >= _REGISTER:
            self.fail(c.FAULT_REGISTER, self.position, register)
        if self.fault.code:
            return NONE
        return self.step(state, operation | cython.cast(cython.uint, register) << RULE_SHIFT, operand)

    def expression(self, result):
        """Read an expression and store it once. The result is its offset in `expressions` and its size << 32."""
        size: cython.ulonglong = self.read_uleb()
        spans: cython.p_ulonglong = cython.cast(cython.p_ulonglong, self.expression_spans.items)
        if self.fault.code:
            return False
        if size > self.end - self.position:
            return self.fail(c.FAULT_CUT_OFF, self.position, size << 32 | (self.end - self.position))
        data: cython.pointer[cython.const[cython.uchar]] = self.data + self.position
        self.position += size
        hash: cython.ulonglong = mix_bytes(data, size, self.seed)
        probe: Probe = first_match(cython.address(self.expression_by_bytes), hash)
        while next_match(cython.address(self.expression_by_bytes), cython.address(probe)):
            span: cython.ulonglong = spans[probe.item]
            if span >> 32 == size and (
                size == 0 or memcmp(self.expressions.items + (span & c.LENGTH_ESCAPE), data, size) == 0
            ):
                result[0] = span
                return True
        self.words_left -= size // 8 + 1
        if self.words_left < 0:
            return self.fail(c.FAULT_COSTLY_RULES, self.position, 0)
        result[0] = cython.cast(cython.ulonglong, self.expressions.count) | size << 32
        if size and not push_bytes(cython.address(self.expressions), data, cython.cast(cython.Py_ssize_t, size)):
            return self.fail(c.FAULT_NO_MEMORY, 0, 0)
        if not push_u64(cython.address(self.expression_spans), result[0]) or not insert(
            cython.address(self.expression_by_bytes), hash, self.expression_spans.count - 1
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
        """Return the state after an operation, NONE and a fault if the operation is invalid."""
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
        """Slow path of `step`: computes the state and caches the transition."""
        target: cython.uint = self.make_state(source, operation, operand)
        narrow: cython.int = cython.cast(cython.int, operand)
        if target != NONE and cython.cast(cython.ulonglong, cython.cast(cython.longlong, narrow)) == operand:
            step.source = source
            step.target = target
            step.operation = operation
            step.operand = narrow
        return target

    def make_state(self, source, operation, operand):
        words: cython.p_ulonglong = self.words.items + self.state_offset.items[source]
        count: cython.ulonglong = words[0] & 0xFFFF
        kind: cython.uint = operation & 0xFF
        register: cython.ulonglong = operation >> RULE_SHIFT
        index: cython.ulonglong = 0
        other: cython.ulonglong
        is_set: cython.bint = kind >= SET
        self.work_left -= STATE_HEAD + 2 * count
        if self.work_left < 0:
            return self.reject(c.FAULT_COSTLY_RULES, self.position, 0)
        memcpy(cython.address(self.scratch[0]), words, 8 * (STATE_HEAD + 2 * count))
        if kind < RESTORE:
            how: cython.ulonglong = words[0] >> HOW_SHIFT & 0xFF
            # gcc's CIEs of riscv64 begin with a register alone: its offset is 0
            if (kind == TO_CFA_OFFSET and how != c.CFA_REGISTER) or (
                kind == TO_CFA_REGISTER and how == c.CFA_EXPRESSION
            ):
                return self.reject(c.FAULT_CFA_PART, self.position - 1, 0)
            how = c.CFA_EXPRESSION if kind == TO_CFA_EXPRESSION else c.CFA_REGISTER
            self.scratch[0] = self.scratch[0] & ~(cython.cast(cython.ulonglong, 0xFF) << HOW_SHIFT) | how << HOW_SHIFT
            if kind != TO_CFA_OFFSET:
                self.scratch[1] = register
            if kind != TO_CFA_REGISTER:
                self.scratch[2] = operand
            return self.intern_scratch(cython.cast(cython.Py_ssize_t, STATE_HEAD + 2 * count))
        how = kind - SET
        if kind == RESTORE:
            initial: cython.p_ulonglong = self.words.items + self.state_offset.items[operand]
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
                return self.reject(c.FAULT_MANY_RULES, self.position, 0)
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
        """Return the state with the words in `scratch`, stored once; NONE and a fault without memory."""
        index: cython.Py_ssize_t
        bytes_: cython.size_t = 8 * cython.cast(cython.size_t, size)
        scratch: cython.pointer[cython.const[cython.uchar]] = cython.cast(
            cython.pointer[cython.const[cython.uchar]], cython.address(self.scratch[0])
        )
        hash: cython.ulonglong = mix_bytes(scratch, bytes_, self.seed)
        probe: Probe = first_match(cython.address(self.state_by_words), hash)
        while next_match(cython.address(self.state_by_words), cython.address(probe)):
            words: cython.p_ulonglong = self.words.items + self.state_offset.items[probe.item]
            # the first word includes the number of rules
            if words[0] == self.scratch[0] and memcmp(words, scratch, bytes_) == 0:
                return probe.item
        self.words_left -= size
        if self.words_left < 0:
            return self.reject(c.FAULT_COSTLY_RULES, self.position, 0)
        if (
            not reserve(cython.address(self.words), size, 8)
            or not push_u32(cython.address(self.state_offset), cython.cast(cython.uint, self.words.count))
            or not insert(cython.address(self.state_by_words), hash, self.state_offset.count - 1)
        ):
            return self.reject(c.FAULT_NO_MEMORY, 0, 0)
        for index in range(size):
            append_u64(cython.address(self.words), self.scratch[index])
        return cython.cast(cython.uint, self.state_offset.count - 1)

    # for Python

    def find(self, vaddr):
        """Return the index of the FDE that contains `vaddr`, or -1."""
        index: cython.uint = self.find_entry(cython.cast(cython.ulonglong, vaddr) & self.mask)
        if index == NONE and self.fault.code == c.FAULT_NO_MEMORY:
            raise MemoryError
        return -1 if index == NONE else index

    def scanned(self):
        """Return the indexes of all FDEs in order of vaddr."""
        if not self.scan():
            raise MemoryError
        return [self.order.items[index] for index in range(self.order.count)]

    def listed_problems(self):
        """Return (FAULT_*, offset, value) of at most PROBLEMS_LIMIT malformed records."""
        problems: cython.pointer[Fault] = cython.cast(cython.pointer[Fault], self.problems.items)
        return [
            (problems[index].code, problems[index].offset, problems[index].value)
            for index in range(self.problems.count)
        ]

    def entry(self, index: cython.Py_ssize_t):
        """Return (start, end, offset, index of the CIE) of an FDE."""
        belong(0 <= index < self.entries.count)
        entry: cython.pointer[Entry] = cython.cast(cython.pointer[Entry], self.entries.items) + index
        return entry.start, entry.end, entry.offset, entry.cie

    def cie(self, index: cython.Py_ssize_t):
        """Return a CIE: the fields of cfi.Cie except the program, then start and end of its instructions."""
        belong(0 <= index < self.cies.count)
        cie: cython.pointer[Cie] = cython.cast(cython.pointer[Cie], self.cies.items) + index
        return (
            (
                cie.code_align, cie.data_align, cie.return_column, cie.encoding, cie.lsda_encoding,
                bool(cie.is_augmented), bool(cie.is_signal), cie.address_size,
            ),
            cie.program_start, cie.program_end,
        )  # fmt: skip

    def compile(self, index: cython.Py_ssize_t):
        """Make an FDE's rows. Returns None, or (FAULT_*, offset, value) if the FDE is malformed."""
        belong(0 <= index < self.entries.count)
        if self.compile_entry(cython.cast(cython.uint, index)):
            return None
        entry: cython.pointer[Entry] = cython.cast(cython.pointer[Entry], self.entries.items) + index
        belong(0 < entry.fault <= self.faults.count)
        fault: cython.pointer[Fault] = cython.cast(cython.pointer[Fault], self.faults.items) + (entry.fault - 1)
        if fault.code == c.FAULT_NO_MEMORY:
            raise MemoryError
        return fault.code, fault.offset, fault.value

    def rows_of(self, index: cython.Py_ssize_t):
        """Return (vaddr, state) of each row of a compiled FDE."""
        belong(0 <= index < self.entries.count)
        entry: cython.pointer[Entry] = cython.cast(cython.pointer[Entry], self.entries.items) + index
        rows: cython.pointer[Row] = cython.cast(cython.pointer[Row], self.rows.items) + entry.first_row
        return [(entry.start + rows[row].offset, rows[row].state) for row in range(entry.rows)]

    def state_of(self, index: cython.Py_ssize_t):
        """Return ((CFA_*, register, offset or expression), [(register, HOW_*, number or expression)]) of a state."""
        belong(0 <= index < self.state_offset.count)
        words: cython.p_ulonglong = self.words.items + self.state_offset.items[index]
        how: cython.int = words[0] >> HOW_SHIFT & 0xFF
        rule: cython.ulonglong
        rules = []
        for rule in range(words[0] & 0xFFFF):
            pair: cython.p_ulonglong = words + STATE_HEAD + 2 * rule
            kind: cython.int = pair[0] & 0xFF
            rules.append(
                (
                    pair[0] >> RULE_SHIFT, kind,
                    self.expression_bytes(pair[1]) if kind == c.HOW_EXPRESSION or kind == c.HOW_VAL_EXPRESSION
                    else cython.cast(cython.longlong, pair[1]),
                )
            )  # fmt: skip
        return (
            (how, words[1], self.expression_bytes(words[2]) if how == c.CFA_EXPRESSION
             else cython.cast(cython.longlong, words[2])),
            rules,
        )  # fmt: skip

    def expression_bytes(self, span: cython.ulonglong):
        start: cython.ulonglong = span & c.LENGTH_ESCAPE
        size: cython.ulonglong = span >> 32
        belong(start + size <= cython.cast(cython.ulonglong, self.expressions.count))
        return (self.expressions.items + start)[: cython.cast(cython.Py_ssize_t, size)] if size else b""

    def compile_all(self):
        """Make the rows of all FDEs. Returns the number of rows and of malformed FDEs."""
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
