"""Call frame information of one ELF file: for a vaddr, how to get the caller's registers.

    .eh_frame        what is loaded with a program (LSB Core, "Exception Frames"), versions 1 and 3
    .eh_frame_hdr    a table to search it by; used where it is right, never relied on
    .debug_frame     the same of DWARF (5, section 6.4), versions 1, 3 and 4; asked where .eh_frame has nothing

A CIE holds what many functions share, an FDE is about one function (or a piece of one): a program of instructions that
makes rows, each of which holds from its vaddr to the next row's:

    0x1139  CFA = rsp+8              RA = *(CFA-8)
    0x113a  CFA = rsp+16, rbp = *(CFA-16)
    0x113d  CFA = rbp+16

One FDE is compiled when an address of it is asked for, and kept (kernels/cfi.py). Everything that a file says is
checked: what breaks a rule raises DwarfError with the section and the offset in it.
"""

from __future__ import annotations

import enum
import struct
from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from whence._base.errors import DwarfError, ObjectError, cut_off
from whence._base.records import Record
from whence.unwind.kernels import constants
from whence.unwind.kernels.cfi import (
    PROGRAM_LIMIT,
    REGISTER_LIMIT,
    REGISTERS_LIMIT,
    RUN_ALLOWANCE,
    RUN_TIMES,
    STATES_LIMIT,
    WORK_ALLOWANCE,
    WORK_TIMES,
    CfiTable,
)

if TYPE_CHECKING:
    from whence._base.window import ByteOrder
    from whence.objects.interface import ObjectFile

SECTION_LIMIT = (1 << 32) - 2  # bytes of a section, so that offsets in it are of 32 bits


class How(enum.IntEnum):
    """Where a register's value in the caller is (DWARF 5, 6.4.1)."""

    UNDEFINED = constants.HOW_UNDEFINED
    SAME = constants.HOW_SAME
    OFFSET = constants.HOW_OFFSET  # in memory at CFA + number
    VAL_OFFSET = constants.HOW_VAL_OFFSET  # CFA + number itself
    REGISTER = constants.HOW_REGISTER  # in another register
    EXPRESSION = constants.HOW_EXPRESSION  # in memory where an expression says
    VAL_EXPRESSION = constants.HOW_VAL_EXPRESSION  # what an expression says


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


class CfiRow(NamedTuple):
    """What holds from vaddr `start` on. `cfa` is None before the program says one."""

    start: int
    cfa: Cfa | None
    rules: dict[int, Rule]


class Cie(Record, frozen=True):
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


class Fde(Record, frozen=True):
    """[start, end) in vaddrs, and what unwinds it. `rows` are in order of start; none is empty."""

    start: int
    end: int
    cie: Cie
    rows: tuple[CfiRow, ...]
    section: str
    offset: int

    def row(self, vaddr: int) -> CfiRow:
        """The row that holds at a vaddr of [start, end)."""
        return self.rows[max(0, bisect_right(self.rows, vaddr, key=lambda row: row.start) - 1)]


class FrameSection:
    """`.eh_frame` or `.debug_frame` as bytes at a vaddr. `table` is what the kernel made of it so far."""

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

        With `open_end` nobody knows where the section ends: its first terminator does. DwarfError for a section of
        4 GiB or more.
        """
        self.data, self.name = memoryview(data), name
        if len(self.data) > SECTION_LIMIT:
            raise DwarfError(name, None, f"a section has at most {SECTION_LIMIT} bytes", len(self.data))
        self.table = CfiTable(self.data, vaddr, bits, order == "big", name == ".debug_frame")
        if header is not None:
            self.table.set_header(header[1], header[0])
        if code is not None:
            joined = _joined(code)
            self.table.set_code(array("Q", [start for start, _ in joined]), array("Q", [end for _, end in joined]))
        self.table.set_base(text_base, open_end)
        self._fdes: dict[int, Fde] = {}
        self._cies: dict[int, Cie] = {}
        self._states: dict[int, tuple[Cfa | None, dict[int, Rule]]] = {}
        self.problems: list[DwarfError] = []

    def find(self, vaddr: int) -> Fde | None:
        """The FDE whose range holds a vaddr; None where there is none. Raises DwarfError where it is damaged."""
        index = self.table.find(vaddr)
        return None if index < 0 else self._fde(index)

    def fdes(self) -> list[Fde]:
        """Every FDE in order of vaddr; damaged ones are left out and listed in `problems`."""
        found = []
        indexes = self.table.scanned()
        self.problems = [self._error(*problem) for problem in self.table.listed_problems()]
        for index in indexes:
            try:
                found.append(self._fde(index))
            except DwarfError as error:
                self.problems.append(error)
        return found

    def _fde(self, index: int) -> Fde:
        if index not in self._fdes:
            problem = self.table.compile(index)
            if problem is not None:
                raise self._error(*problem)
            start, end, offset, cie = self.table.entry(index)
            rows = tuple(CfiRow(at, *self._state(state)) for at, state in self.table.rows_of(index))
            self._fdes[index] = Fde(start, end, self._cie(cie), rows, self.name, offset)
        return self._fdes[index]

    def _cie(self, index: int) -> Cie:
        if index not in self._cies:
            numbers, start, end = self.table.cie(index)
            self._cies[index] = Cie(*(*numbers, self.data[start:end]))
        return self._cies[index]

    def _state(self, number: int) -> tuple[Cfa | None, dict[int, Rule]]:
        """What a state of the kernel says: the CFA, and the rules by register."""
        if number not in self._states:
            (kind, register, offset), rules = self.table.state_of(number)
            cfa = None
            if kind == constants.CFA_REGISTER:
                cfa = Cfa(register, offset)
            elif kind == constants.CFA_EXPRESSION:
                cfa = Cfa(0, 0, offset)
            self._states[number] = cfa, {register: _rule(How(how), value) for register, how, value in rules}
        return self._states[number]

    def _error(self, fault: int, at: int, value: int) -> DwarfError:
        """What a fault of the kernel means."""
        if fault == constants.FAULT_CUT_OFF:
            return cut_off(DwarfError, self.name, at, value >> 32, value & 0xFFFFFFFF)
        rule, found = _FAULTS[fault]
        if fault == constants.FAULT_AUGMENTATION:
            letters = bytes(self.data[value >> 32 :][: value & 0xFFFFFFFF])
            return DwarfError(self.name, at, rule, letters)
        return DwarfError(self.name, at, rule, found.format(value) if found else value)


def _rule(how: How, value: int | bytes) -> Rule:
    return Rule(how, 0, value) if isinstance(value, bytes) else Rule(how, value)


# the rule that each fault breaks, and what was found ("" is a number by itself)
_FAULTS = {
    constants.FAULT_RECORD_END: ("a record ends inside the section", "{:#x} bytes"),
    constants.FAULT_RECORD_OUTSIDE: ("a record lies inside the section", "another place"),
    constants.FAULT_LEB: ("a LEB128 number has at most 10 bytes", "more"),
    constants.FAULT_ENCODING: ("a pointer's encoding is one of DW_EH_PE_*", "{:#x}"),
    constants.FAULT_BASE: ("an FDE's addresses count from a known place", "{:#x}"),
    constants.FAULT_OMITTED: ("an FDE has a start and a size", "an omitted one"),
    constants.FAULT_RANGE: ("the size of what an FDE covers is positive", "{:#x}"),
    constants.FAULT_LONG_RANGE: ("an FDE covers less than 4 GiB", "{:#x} bytes"),
    constants.FAULT_CIE_OUTSIDE: ("an FDE's CIE lies inside the section", "another place"),
    constants.FAULT_NOT_CIE: ("what an FDE refers to is a CIE", "another record"),
    constants.FAULT_VERSION: ("a CIE's version is 1, 3 or 4 (.eh_frame: 1 or 3)", ""),
    constants.FAULT_SIZES: ("addresses have 4 or 8 bytes, and no segments", "{}"),
    constants.FAULT_AUGMENTATION: ('a CIE\'s augmentation is "" or begins with "z"', ""),
    constants.FAULT_AUGMENTATION_END: ("a CIE's augmentation data ends inside it", "{} bytes"),
    constants.FAULT_LONG_CIE: (f"a CIE has at most {PROGRAM_LIMIT} bytes of instructions", ""),
    constants.FAULT_LONG_FDE: (f"an FDE has at most {PROGRAM_LIMIT} bytes of instructions", ""),
    constants.FAULT_ORDER: ("rows come in order of address, within 4 GiB", "{:#x}"),
    constants.FAULT_MANY_STATES: (f"at most {STATES_LIMIT} states are put aside", "more"),
    constants.FAULT_NO_STATE: ("a state to restore was remembered", "none"),
    constants.FAULT_INSTRUCTION: ("its instructions are DW_CFA_*", "{:#x}"),
    constants.FAULT_CFA_PART: ("a CFA of which one part changes is a register plus an offset", "an expression or none"),
    constants.FAULT_MANY_RULES: (f"a row has at most {REGISTERS_LIMIT} rules", "more"),
    constants.FAULT_REGISTER: (f"a register's number is below {REGISTER_LIMIT}", ""),
    constants.FAULT_COSTLY_RULES: (
        f"the states of all rows take at most {WORK_TIMES} words for each byte of the section, and {WORK_ALLOWANCE}",
        "more",
    ),
    constants.FAULT_COSTLY_RUN: (
        f"the instructions of all FDEs are at most {RUN_TIMES} times the section's bytes, and {RUN_ALLOWANCE}",
        "more",
    ),
}


class CallFrames:
    """The call frame information of one ELF file: .eh_frame first, then .debug_frame."""

    def __init__(self, sections: list[FrameSection]) -> None:
        self.sections = sections

    @classmethod
    def of_elf(cls, elf: ObjectFile) -> CallFrames:
        """Of an open file, whose bytes must stay. A section that can't be read is left out."""
        code = elf.code_ranges(or_loaded=True)
        found = []
        eh_frame = _eh_frame(elf)
        if eh_frame is not None:
            found.append(eh_frame)
        try:
            debug_frame = elf.content(".debug_frame")
        except ObjectError:
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


def _eh_frame(elf: ObjectFile) -> FrameSection | None:
    """.eh_frame by its section; without sections by .eh_frame_hdr."""
    header = elf.located(".eh_frame_hdr")
    section = elf.section(".eh_frame")
    text = elf.section(".text")
    text_base = text.vaddr if text is not None else 0
    data: memoryview
    if section is not None:
        if not section.in_file or not section.size:
            return None
        try:
            data = elf.content(section)
        except ObjectError:
            return None
        vaddr = section.vaddr
    elif (
        header is not None
        and len(header[1]) >= constants.EH_FRAME_HDR_SIZE
        and header[1][1] == constants.EH_FRAME_HDR_POINTER
    ):
        (distance,) = struct.unpack_from("<i" if elf.order == "little" else ">i", header[1], 4)
        vaddr = header[0] + 4 + distance & (1 << elf.bits) - 1
        start, loaded = elf.loaded_around(vaddr)
        if not len(loaded):
            return None
        data = loaded[vaddr - start :]
    else:
        return None
    return FrameSection(
        data, vaddr, bits=elf.bits, order=elf.order, header=header, text_base=text_base,
        open_end=section is None,
    )  # fmt: skip
