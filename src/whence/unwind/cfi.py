"""Call frame information of one ELF file: for a vaddr, how to get the caller's registers.

    .eh_frame        what is loaded with a program (LSB Core, "Exception Frames"), versions 1 and 3
    .eh_frame_hdr    a table to search it by; used where it is right, never relied on
    .debug_frame     the same of DWARF (5, section 6.4), versions 1, 3 and 4; asked where .eh_frame has nothing

A CIE holds what many functions share, an FDE is about one function (or a piece of one): a program of instructions that
makes rows, each of which holds from its vaddr to the next row's:

    0x1139  CFA = rsp+8              RA = *(CFA-8)
    0x113a  CFA = rsp+16, rbp = *(CFA-16)
    0x113d  CFA = rbp+16

One FDE is read when an address of it is asked for, and kept. Everything that a file says is checked: what breaks a rule
raises DwarfError with the section and the offset in it.
"""

from __future__ import annotations

import enum
import struct
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from whence.budget import Budget
from whence.errors import DwarfError, ElfError
from whence.unwind.constants import BASE_BITS, FORMAT_BITS, HIGH_BITS, LOW_BITS, PT_GNU_EH_FRAME, Encoding, Instruction
from whence.unwind.reading import Cursor

if TYPE_CHECKING:
    from whence.elf import ElfFile
    from whence.window import ByteOrder

STATES_LIMIT = 64  # that DW_CFA_remember_state may put aside
REGISTERS_LIMIT = 256  # that have rules of their own in a row
OVERLAPS_LIMIT = 8  # FDEs that are looked at for one vaddr; in 1,197 files none overlapped
RULES_TIMES, RULES_ALLOWANCE = 32, 1 << 14  # rules that the rows of an FDE have together, for its bytes
RUN_TIMES, RUN_ALLOWANCE = 4, 1 << 18  # bytes of instructions that are run, for those of a section
PROGRAM_LIMIT = 1 << 20  # bytes of instructions of one FDE; in 1,197 files none had a hundredth
ESCAPE = 0xFFFFFFFF  # a length that says that 64 bits follow
HEADER_VERSION = 1
HEADER_FORM = (Encoding.PCREL | Encoding.SDATA4, Encoding.UDATA4, Encoding.DATAREL | Encoding.SDATA4)
HEADER_SIZE, HEADER_ENTRY = 12, 8


class How(enum.IntEnum):
    """Where a register's value in the caller is (DWARF 5, 6.4.1)."""

    UNDEFINED = 0
    SAME = 1
    OFFSET = 2  # in memory at CFA + number
    VAL_OFFSET = 3  # CFA + number itself
    REGISTER = 4  # in another register
    EXPRESSION = 5  # in memory where an expression says
    VAL_EXPRESSION = 6  # what an expression says


class Rule(NamedTuple):
    """How one register's value is got; `number` is an offset or a register, as `how` says."""

    how: How
    number: int = 0
    expression: bytes = b""


class Cfa(NamedTuple):
    """The canonical frame address: a register plus an offset, or an expression where there is one."""

    register: int
    offset: int
    expression: bytes | None = None


class Row(NamedTuple):
    """What holds from vaddr `start` on. `cfa` is None before the program says one."""

    start: int
    cfa: Cfa | None
    rules: dict[int, Rule]


@dataclass(frozen=True, slots=True)
class Cie:
    """What the FDEs of a compilation unit share."""

    code_align: int
    data_align: int
    return_column: int
    encoding: int  # of the FDE's addresses
    lsda_encoding: int
    augmented: bool  # FDEs have augmentation data of a stated length
    signal: bool
    address_size: int
    program: memoryview


@dataclass(frozen=True, slots=True)
class Fde:
    """[start, end) in vaddrs, and what unwinds it. `rows` are in order of start; none is empty."""

    start: int
    end: int
    cie: Cie
    rows: tuple[Row, ...]
    section: str
    offset: int

    def row(self, vaddr: int) -> Row:
        """The row that holds at a vaddr of [start, end)."""
        return self.rows[max(0, bisect_right(self.rows, vaddr, key=lambda row: row.start) - 1)]


class _Entry(NamedTuple):
    """An FDE that is not read yet: what it covers, where it and the rest of it lie, and its CIE."""

    start: int
    end: int
    offset: int
    program_at: int
    record_end: int
    cie_at: int


class FrameSection:
    """`.eh_frame` or `.debug_frame` as bytes at a vaddr, with an index of its FDEs that is made when it is needed."""

    def __init__(
        self,
        data: memoryview | bytes,
        vaddr: int,
        *,
        name: str = ".eh_frame",
        bits: int = 64,
        order: ByteOrder = "little",
        header: tuple[int, memoryview | bytes] | None = None,
        code: list[tuple[int, int]] | None = None,
        text_base: int = 0,
        open_end: bool = False,
    ) -> None:
        """`header` is .eh_frame_hdr, its vaddr and bytes; `code` the ranges that FDEs can be about (None: any).

        With `open_end` nobody knows where the section ends: its first terminator does.
        """
        self.open_end = open_end
        self.data, self.vaddr, self.name, self.bits, self.order = memoryview(data), vaddr, name, bits, order
        self.is_debug = name == ".debug_frame"
        self.code, self.text_base = None if code is None else _joined(code), text_base
        self._run = Budget(
            name, "the instructions of all FDEs, with their CIEs'", len(data), times=RUN_TIMES, allowance=RUN_ALLOWANCE,
            error=DwarfError,
        )  # fmt: skip
        self.header_vaddr = header[0] if header is not None else 0
        self._table = self._checked(header) if header is not None else None
        self._cies: dict[int, Cie | DwarfError] = {}
        self._fdes: dict[int, Fde] = {}
        self._entries: list[_Entry] | None = None
        self.problems: list[DwarfError] = []

    def find(self, vaddr: int) -> Fde | None:
        """The FDE whose range holds a vaddr; None where there is none. Raises DwarfError where it is damaged."""
        entry = self._by_table(vaddr) or self._by_scan(vaddr)
        if entry is None:
            return None
        if entry.offset not in self._fdes:
            self._fdes[entry.offset] = self._fde(entry)
        return self._fdes[entry.offset]

    def fdes(self) -> list[Fde]:
        """Every FDE in order of vaddr; damaged ones are left out and told in `problems`."""
        found = []
        for entry in self._scanned():
            try:
                found.append(self._fde(entry))
            except DwarfError as error:
                self.problems.append(error)
        return found

    # the table of .eh_frame_hdr

    def _checked(self, header: tuple[int, memoryview | bytes]) -> tuple[memoryview, memoryview] | None:
        """Columns of starts and FDEs as the table has them (from the header's vaddr on); None for what can't be
        searched."""
        _, data = header
        view = memoryview(data)
        if self.order != "little" or len(view) < HEADER_SIZE or view[0] != HEADER_VERSION:
            return None
        if tuple(view[1:4]) != HEADER_FORM:
            return None
        count = int.from_bytes(view[8:12], "little")
        if HEADER_SIZE + count * HEADER_ENTRY > len(view):
            return None
        table = view[HEADER_SIZE : HEADER_SIZE + count * HEADER_ENTRY].cast("i")
        starts = table[::2].tolist()
        if any(a > b for a, b in pairwise(starts)):
            return None
        return table[::2], table[1::2]

    def _by_table(self, vaddr: int) -> _Entry | None:
        if self._table is None:
            return None
        starts, fdes = self._table
        index = bisect_right(starts, vaddr - self.header_vaddr) - 1
        if index < 0:
            return None
        try:
            record = self._record(fdes[index] + self.header_vaddr - self.vaddr)
        except DwarfError:
            return None
        entry = record[0]
        return entry if entry is not None and entry.start <= vaddr < entry.end else None

    # the records one after another

    def _by_scan(self, vaddr: int) -> _Entry | None:
        entries = self._scanned()
        behind = bisect_right(entries, vaddr, key=lambda entry: entry.start)
        for entry in reversed(entries[max(0, behind - OVERLAPS_LIMIT) : behind]):
            if vaddr < entry.end:  # of several the later start counts, then the shorter one
                return entry
        return None

    def _scanned(self) -> list[_Entry]:
        if self._entries is None:
            found: list[_Entry] = []
            offset = 0
            while offset + 4 <= len(self.data):
                if self.open_end and self.data[offset : offset + 4] == bytes(4):
                    break
                try:
                    entry, offset = self._record(offset)
                except DwarfError as error:
                    self.problems.append(error)
                    next_at = self._behind(offset)
                    if next_at is None:
                        break
                    offset = next_at
                    continue
                if entry is not None and self._covers_code(entry):
                    found.append(entry)
            found.sort(key=lambda entry: (entry.start, -entry.end))
            self._entries = found
        return self._entries

    def _covers_code(self, entry: _Entry) -> bool:
        """Whether it is about code: linkers leave .debug_frame's entries of what they dropped at 0, 1 or -1."""
        if entry.start >= entry.end:
            return False
        if self.code is None:
            return True
        index = bisect_right(self.code, (entry.start, 1 << 64)) - 1
        return index >= 0 and entry.start < self.code[index][1]

    def _length(self, offset: int) -> tuple[int, int, int]:
        """Where a record's content begins and ends, and the size of its offsets."""
        cursor = Cursor(self.data, self.name, offset, order=self.order)
        length, size = cursor.unsigned(4), 4
        if length == ESCAPE:
            length, size = cursor.unsigned(8), 8
        end = cursor.at + length
        if end > len(self.data):
            raise DwarfError(self.name, offset, "a record ends inside the section", f"{length:#x} bytes")
        return cursor.at, end, size

    def _behind(self, offset: int) -> int | None:
        try:
            return self._length(offset)[1]
        except DwarfError:
            return None

    def _record(self, offset: int) -> tuple[_Entry | None, int]:
        """The FDE at an offset, None for a CIE or padding, and where the next record begins."""
        if not 0 <= offset < len(self.data):
            raise DwarfError(self.name, None, "a record lies inside the section", f"{offset:#x}")
        start, end, size = self._length(offset)
        if start == end:  # the terminator, which other records may follow, or padding
            return None, end
        cursor = Cursor(self.data, self.name, start, end, self.order)
        id_size = size if self.is_debug else 4
        id_ = cursor.unsigned(id_size)
        if id_ == ((1 << 8 * id_size) - 1 if self.is_debug else 0):
            return None, end
        cie_at = id_ if self.is_debug else start - id_
        cie = self._cie(cie_at)
        first = self._pointer(cursor, cie.encoding, cie.address_size)
        covered = self._pointer(cursor, cie.encoding & FORMAT_BITS, cie.address_size)
        if first is None or covered is None:
            raise DwarfError(self.name, offset, "an FDE has a start and a size", "an omitted one")
        if covered >> self.bits - 1:
            raise DwarfError(self.name, offset, "the size of what an FDE covers is positive", f"{covered:#x}")
        if cie.augmented:
            cursor.take(cursor.uleb())
        return _Entry(first, first + covered, offset, cursor.at, end, cie_at), end

    def _pointer(self, cursor: Cursor, encoding: int, address_size: int) -> int | None:
        """A pointer as an encoding says, as a vaddr; None for an omitted one."""
        if encoding == Encoding.OMIT:
            return None
        if encoding & BASE_BITS == Encoding.ALIGNED:
            cursor.take(-(self.vaddr + cursor.at) % address_size)
            return cursor.unsigned(address_size)
        field = self.vaddr + cursor.at
        form = encoding & FORMAT_BITS
        if form == Encoding.ABSPTR:
            value = cursor.unsigned(address_size)
        elif form == Encoding.ULEB128:
            value = cursor.uleb()
        elif form == Encoding.SLEB128:
            value = cursor.sleb()
        elif form in (Encoding.UDATA2, Encoding.UDATA4, Encoding.UDATA8):
            value = cursor.unsigned(2 << form - Encoding.UDATA2)
        elif form in (Encoding.SDATA2, Encoding.SDATA4, Encoding.SDATA8):
            value = cursor.signed(2 << form - Encoding.SDATA2)
        else:
            raise DwarfError(self.name, cursor.at, "a pointer's encoding is one of DW_EH_PE_*", f"{encoding:#x}")
        base = encoding & BASE_BITS
        if base == Encoding.PCREL:
            value += field
        elif base == Encoding.DATAREL:
            value += self.header_vaddr
        elif base == Encoding.TEXTREL:
            value += self.text_base
        elif base:
            raise DwarfError(self.name, cursor.at, "an FDE's addresses count from a known place", f"{encoding:#x}")
        return value & (1 << self.bits) - 1

    # CIEs

    def _cie(self, offset: int) -> Cie:
        if offset not in self._cies:
            try:
                self._cies[offset] = self._read_cie(offset)
            except DwarfError as error:
                self._cies[offset] = error
        found = self._cies[offset]
        if isinstance(found, DwarfError):
            raise found
        return found

    def _read_cie(self, offset: int) -> Cie:
        if not 0 <= offset < len(self.data):
            raise DwarfError(self.name, None, "an FDE's CIE lies inside the section", f"{offset:#x}")
        start, end, size = self._length(offset)
        cursor = Cursor(self.data, self.name, start, end, self.order)
        id_size = size if self.is_debug else 4
        if cursor.unsigned(id_size) != ((1 << 8 * id_size) - 1 if self.is_debug else 0):
            raise DwarfError(self.name, offset, "what an FDE refers to is a CIE", "another record")
        version = cursor.u8()
        if version not in ((1, 3, 4) if self.is_debug else (1, 3)):
            raise DwarfError(self.name, cursor.at - 1, "a CIE's version is 1, 3 or 4 (.eh_frame: 1 or 3)", version)
        augmentation = cursor.cstring()
        address_size = self.bits // 8
        if version == 4:
            address_size, segment_size = cursor.u8(), cursor.u8()
            if address_size not in (4, 8) or segment_size:
                raise DwarfError(self.name, offset, "addresses have 4 or 8 bytes, and no segments", f"{address_size}")
        code_align, data_align = cursor.uleb(), cursor.sleb()
        return_column = cursor.u8() if version == 1 else cursor.uleb()
        encoding, lsda_encoding, signal, augmented = int(Encoding.ABSPTR), int(Encoding.OMIT), False, False
        if augmentation.startswith(b"z"):
            augmented = True
            length = cursor.uleb()
            behind = cursor.at + length
            if behind > end:
                raise DwarfError(self.name, offset, "a CIE's augmentation data ends inside it", f"{length} bytes")
            inner = Cursor(self.data, self.name, cursor.at, behind, self.order)
            for letter in augmentation[1:].decode("latin-1"):
                if letter == "R":
                    encoding = inner.u8()
                elif letter == "L":
                    lsda_encoding = inner.u8()
                elif letter == "P":
                    self._pointer(inner, inner.u8() & FORMAT_BITS, address_size)
                elif letter == "S":
                    signal = True
                elif letter not in "BG":  # keys and tags of aarch64; what others mean nobody knows: the length skips
                    break
            cursor.at = behind
        elif augmentation:
            raise DwarfError(self.name, offset, 'a CIE\'s augmentation is "" or begins with "z"', augmentation)
        if end - cursor.at > PROGRAM_LIMIT:
            raise DwarfError(
                self.name, offset, f"a CIE has at most {PROGRAM_LIMIT} bytes of instructions", end - cursor.at
            )
        program = self.data[cursor.at : end]
        return Cie(
            code_align, data_align, return_column, encoding, lsda_encoding, augmented, signal, address_size, program
        )

    # FDEs

    def _fde(self, entry: _Entry) -> Fde:
        cie = self._cie(entry.cie_at)
        if entry.record_end - entry.program_at > PROGRAM_LIMIT:
            rule = f"an FDE has at most {PROGRAM_LIMIT} bytes of instructions"
            raise DwarfError(self.name, entry.offset, rule, entry.record_end - entry.program_at)
        self._run.charge(len(cie.program) + entry.record_end - entry.program_at)
        program = _Program(self, cie, entry)
        return Fde(entry.start, entry.end, cie, program.rows(), self.name, entry.offset)


class _Program:
    """The instructions of a CIE and an FDE on their way to rows."""

    def __init__(self, section: FrameSection, cie: Cie, entry: _Entry) -> None:
        self.section, self.cie, self.entry = section, cie, entry
        self.at = entry.start
        self.cfa: Cfa | None = None
        self.rules: dict[int, Rule] = {}
        self.initial: dict[int, Rule] = {}
        self.shared = False  # whether a row, or a state put aside, has these very rules
        self.states: list[tuple[Cfa | None, dict[int, Rule]]] = []
        self.found: list[Row] = []
        stored = len(cie.program) + entry.record_end - entry.program_at
        self.copied = Budget(
            section.name, "rules of an FDE's rows", stored, times=RULES_TIMES, allowance=RULES_ALLOWANCE,
            error=DwarfError,
        )  # fmt: skip

    def rows(self) -> tuple[Row, ...]:
        section, entry = self.section, self.entry
        self.run(Cursor(self.cie.program, f"{section.name} CIE", order=section.order))
        self.initial, self.shared = self.rules, True
        self.run(Cursor(section.data, section.name, entry.program_at, entry.record_end, section.order))
        self.row()
        return tuple(self.found)

    def row(self) -> None:
        """Note what holds from here on; a row that nothing lies in goes."""
        if self.found and self.found[-1].start == self.at:
            self.found.pop()
        if not self.found or (self.found[-1].cfa, self.found[-1].rules) != (self.cfa, self.rules):
            self.found.append(Row(self.at, self.cfa, self.rules))
        self.shared = True

    def advance(self, distance: int) -> None:
        if distance < 0:
            raise DwarfError(self.section.name, self.entry.offset, "rows come in order of address", f"{distance}")
        self.row()
        self.at += distance

    def set(self, register: int, rule: Rule | None) -> None:
        """None: no rule, so that the machine's own habit holds."""
        if self.shared:
            self.copied.charge(len(self.rules))
            self.rules, self.shared = dict(self.rules), False
        if rule is None:
            self.rules.pop(register, None)
            return
        if len(self.rules) >= REGISTERS_LIMIT and register not in self.rules:
            raise DwarfError(self.section.name, self.entry.offset, f"a row has at most {REGISTERS_LIMIT} rules", "more")
        self.rules[register] = rule

    def run(self, cursor: Cursor) -> None:
        while cursor.at < cursor.end:
            self.step(cursor, cursor.u8())

    def step(self, cursor: Cursor, code: int) -> None:
        cie = self.cie
        high, low = code & HIGH_BITS, code & LOW_BITS
        if high == Instruction.ADVANCE_LOC:
            self.advance(low * cie.code_align)
        elif high == Instruction.OFFSET:
            self.set(low, Rule(How.OFFSET, cursor.uleb() * cie.data_align))
        elif high == Instruction.RESTORE:
            self.set(low, self.initial.get(low))
        elif code in _ADVANCES:
            self.advance(cursor.unsigned(_ADVANCES[code]) * cie.code_align)
        elif code in _CFA_CODES:
            self.define_cfa(cursor, code)
        elif code in _RULE_CODES:
            self.define_rule(cursor, code)
        elif code == Instruction.REMEMBER_STATE:
            if len(self.states) >= STATES_LIMIT:
                rule = f"at most {STATES_LIMIT} states are put aside"
                raise DwarfError(self.section.name, cursor.at - 1, rule, "more")
            self.states.append((self.cfa, self.rules))
            self.shared = True
        elif code == Instruction.RESTORE_STATE:
            if not self.states:
                raise DwarfError(self.section.name, cursor.at - 1, "a state to restore was remembered", "none")
            self.cfa, self.rules = self.states.pop()
            self.shared = True
        elif code == Instruction.SET_LOC:
            place = self.section._pointer(cursor, cie.encoding, cie.address_size)
            self.advance((place or 0) - self.at)
        elif code == Instruction.GNU_ARGS_SIZE:
            cursor.uleb()
        elif code not in _WITHOUT_EFFECT:
            raise DwarfError(self.section.name, cursor.at - 1, "its instructions are DW_CFA_*", f"{code:#x}")

    def define_cfa(self, cursor: Cursor, code: int) -> None:
        align = self.cie.data_align
        if code == Instruction.DEF_CFA:
            self.cfa = Cfa(cursor.uleb(), cursor.uleb())
        elif code == Instruction.DEF_CFA_SF:
            self.cfa = Cfa(cursor.uleb(), cursor.sleb() * align)
        elif code == Instruction.DEF_CFA_EXPRESSION:
            self.cfa = Cfa(0, 0, cursor.take(cursor.uleb()))
        else:
            if self.cfa is None or self.cfa.expression is not None:
                rule = "a CFA of which one part changes is a register plus an offset"
                raise DwarfError(self.section.name, cursor.at - 1, rule, "an expression or none")
            if code == Instruction.DEF_CFA_REGISTER:
                self.cfa = Cfa(cursor.uleb(), self.cfa.offset)
            elif code == Instruction.DEF_CFA_OFFSET:
                self.cfa = Cfa(self.cfa.register, cursor.uleb())
            else:
                self.cfa = Cfa(self.cfa.register, cursor.sleb() * align)

    def define_rule(self, cursor: Cursor, code: int) -> None:
        register, align = cursor.uleb(), self.cie.data_align
        if code == Instruction.RESTORE_EXTENDED:
            self.set(register, self.initial.get(register))
            return
        if code == Instruction.UNDEFINED:
            rule = Rule(How.UNDEFINED)
        elif code == Instruction.SAME_VALUE:
            rule = Rule(How.SAME)
        elif code == Instruction.REGISTER:
            rule = Rule(How.REGISTER, cursor.uleb())
        elif code == Instruction.OFFSET_EXTENDED:
            rule = Rule(How.OFFSET, cursor.uleb() * align)
        elif code == Instruction.OFFSET_EXTENDED_SF:
            rule = Rule(How.OFFSET, cursor.sleb() * align)
        elif code == Instruction.GNU_NEGATIVE_OFFSET_EXTENDED:
            rule = Rule(How.OFFSET, -cursor.uleb() * align)
        elif code == Instruction.VAL_OFFSET:
            rule = Rule(How.VAL_OFFSET, cursor.uleb() * align)
        elif code == Instruction.VAL_OFFSET_SF:
            rule = Rule(How.VAL_OFFSET, cursor.sleb() * align)
        else:
            how = How.EXPRESSION if code == Instruction.EXPRESSION else How.VAL_EXPRESSION
            rule = Rule(how, 0, cursor.take(cursor.uleb()))
        self.set(register, rule)


_ADVANCES: dict[int, int] = {  # bytes of the operand
    Instruction.ADVANCE_LOC1: 1, Instruction.ADVANCE_LOC2: 2, Instruction.ADVANCE_LOC4: 4,
    Instruction.MIPS_ADVANCE_LOC8: 8,
}  # fmt: skip
_CFA_CODES = {
    Instruction.DEF_CFA, Instruction.DEF_CFA_SF, Instruction.DEF_CFA_EXPRESSION, Instruction.DEF_CFA_REGISTER,
    Instruction.DEF_CFA_OFFSET, Instruction.DEF_CFA_OFFSET_SF,
}  # fmt: skip
_RULE_CODES = {
    Instruction.RESTORE_EXTENDED, Instruction.UNDEFINED, Instruction.SAME_VALUE, Instruction.REGISTER,
    Instruction.OFFSET_EXTENDED, Instruction.OFFSET_EXTENDED_SF, Instruction.GNU_NEGATIVE_OFFSET_EXTENDED,
    Instruction.VAL_OFFSET, Instruction.VAL_OFFSET_SF, Instruction.EXPRESSION, Instruction.VAL_EXPRESSION,
}  # fmt: skip
# Whether a return address is signed doesn't matter to those who strip the signature from every one.
_WITHOUT_EFFECT = {
    Instruction.NOP, Instruction.AARCH64_NEGATE_RA_STATE, Instruction.AARCH64_NEGATE_RA_STATE_WITH_PC,
}  # fmt: skip


class CallFrames:
    """The call frame information of one ELF file: .eh_frame first, then .debug_frame."""

    def __init__(self, sections: list[FrameSection]) -> None:
        self.sections = sections

    @classmethod
    def of_elf(cls, elf: ElfFile) -> CallFrames:
        """Of an open file, whose bytes must stay. A section that can't be read is left out."""
        code = elf.code_ranges(or_loaded=True)
        found = []
        eh_frame = _eh_frame(elf)
        if eh_frame is not None:
            found.append(eh_frame)
        try:
            debug_frame = elf.content(".debug_frame")
        except ElfError:
            debug_frame = memoryview(b"")
        section = elf.section(".debug_frame")
        if section is not None and len(debug_frame):
            found.append(
                FrameSection(debug_frame, 0, name=".debug_frame", bits=elf.bits, order=elf.order, code=code or None)
            )
        return cls(found)

    def find(self, vaddr: int) -> Fde | None:
        """The FDE of a vaddr, None where there is none. Raises DwarfError where the one there is damaged."""
        for section in self.sections:
            found = section.find(vaddr)
            if found is not None:
                return found
        return None


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges in order, those that touch or overlap as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _eh_frame(elf: ElfFile) -> FrameSection | None:
    """.eh_frame by its section; without sections by the header that PT_GNU_EH_FRAME tells of."""
    header = _header(elf)
    section = elf.section(".eh_frame")
    text = elf.section(".text")
    text_base = text.vaddr if text is not None else 0
    data: memoryview
    if section is not None:
        if not section.in_file or not section.size:
            return None
        try:
            data = elf.content(section)
        except ElfError:
            return None
        vaddr = section.vaddr
    elif header is not None and len(header[1]) >= HEADER_SIZE and header[1][1] == HEADER_FORM[0]:
        vaddr = (header[0] + 4 + struct.unpack_from("<i", header[1], 4)[0]) & (1 << elf.bits) - 1
        held = _loaded(elf, vaddr)
        if held is None:
            return None
        data = held
    else:
        return None
    return FrameSection(
        data, vaddr, bits=elf.bits, order=elf.order, header=header, text_base=text_base,
        open_end=section is None,
    )  # fmt: skip


def _header(elf: ElfFile) -> tuple[int, memoryview] | None:
    """.eh_frame_hdr: its vaddr and bytes."""
    for segment in elf.segments:
        if segment.type == PT_GNU_EH_FRAME and segment.file_size:
            end = min(segment.file_offset + segment.file_size, elf.size)
            return segment.vaddr, elf.data[segment.file_offset : end]
    return None


def _loaded(elf: ElfFile, vaddr: int) -> memoryview | None:
    """The bytes that are loaded from a vaddr to the end of its segment."""
    for segment in elf.segments:
        inside = vaddr - segment.vaddr
        if segment.is_loaded and 0 <= inside < segment.file_size:
            return elf.data[segment.file_offset + inside : min(segment.file_end, elf.size)]
    return None
