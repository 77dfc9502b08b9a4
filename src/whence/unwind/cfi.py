"""Call frame information of one ELF file: for a vaddr, how to compute the caller's registers.

    .eh_frame        loaded with a program (LSB Core, "Exception Frames"), versions 1 and 3
    .eh_frame_hdr    a binary search table for .eh_frame; used if it is valid, never required
    .debug_frame     DWARF's section (5, section 6.4), versions 1, 3 and 4; searched if .eh_frame has no answer

A CIE holds what many functions share; an FDE describes one function (or a part of one) by a program of instructions
that makes rows. A row applies from its vaddr to the start of the next row:

    0x1139  CFA = rsp+8              RA = *(CFA-8)
    0x113a  CFA = rsp+16, rbp = *(CFA-16)
    0x113d  CFA = rbp+16

An FDE is compiled when an address in it is looked up, and cached (kernels/cfi.py). Malformed input raises DwarfError
with the section and the offset in it.
"""

from __future__ import annotations

import enum
import struct
from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from whence._base.errors import DwarfError, ObjectError, cut_off, shown
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
    from collections.abc import Iterator

    from whence._base.window import ByteOrder
    from whence.objects.interface import ObjectFile

SECTION_LIMIT = (1 << 32) - 2  # bytes: offsets have 32 bits


class How(enum.IntEnum):
    """How a register's value in the caller is found (DWARF 5, 6.4.1)."""

    UNDEFINED = constants.HOW_UNDEFINED
    SAME = constants.HOW_SAME
    OFFSET = constants.HOW_OFFSET  # in memory at CFA + `number`
    VAL_OFFSET = constants.HOW_VAL_OFFSET  # CFA + `number`
    REGISTER = constants.HOW_REGISTER  # in another register
    EXPRESSION = constants.HOW_EXPRESSION  # in memory at the expression's value
    VAL_EXPRESSION = constants.HOW_VAL_EXPRESSION  # the expression's value


class Rule(NamedTuple):
    """The rule of one register; `number` is an offset or a register, depending on `how`."""

    how: How
    number: int = 0
    expression: bytes = b""


class Cfa(NamedTuple):
    """The canonical frame address: a register plus an offset, or an expression."""

    register: int
    offset: int
    expression: bytes | None = None


class CfiRow(NamedTuple):
    """The rules from vaddr `start` to the next row. `cfa`: None if the program does not define a CFA."""

    start: int
    cfa: Cfa | None
    rules: dict[int, Rule]


class Cie(Record, frozen=True):
    """Properties shared by the FDEs of a compilation unit."""

    code_align: int
    data_align: int
    return_column: int
    encoding: int  # of addresses in FDEs: DW_EH_PE_*
    lsda_encoding: int
    augmented: bool  # FDEs have augmentation data
    signal: bool
    address_size: int
    program: memoryview


class Fde(Record, frozen=True):
    """A described range [start, end) of vaddrs. `rows` are in order of start; none is empty."""

    start: int
    end: int
    cie: Cie
    rows: tuple[CfiRow, ...]
    section: str
    offset: int

    def row(self, vaddr: int) -> CfiRow:
        """Return the row at `vaddr`, which must be in [start, end)."""
        return self.rows[max(0, bisect_right(self.rows, vaddr, key=lambda row: row.start) - 1)]


class Target(Record, frozen=True):
    """The machine of a file: bits of an address, byte order, and the vaddr that DW_EH_PE_textrel counts from."""

    bits: int = 64
    order: ByteOrder = "little"
    text_base: int = 0


X86_64_TARGET = Target()


class FrameSection:
    """The bytes of `.eh_frame` or `.debug_frame` at a vaddr. `table` is the kernel's compiled form."""

    def __init__(
        self,
        data: memoryview | bytes,
        vaddr: int,
        *,
        name: str = ".eh_frame",
        target: Target = X86_64_TARGET,
        header: tuple[int, memoryview | bytes] | None = None,
        code: list[tuple[int, int]] | None = None,
        open_end: bool = False,
    ) -> None:
        """Open a section; FDEs are read when they are looked up.

        Args:
            header: vaddr and bytes of `.eh_frame_hdr`.
            code: ranges that FDEs may start in; None accepts any address.
            open_end: the section's size is unknown; its first terminator ends it.

        Raises:
            DwarfError: the section has 4 GiB or more.
        """
        self.data, self.name = memoryview(data), name
        if len(self.data) > SECTION_LIMIT:
            raise DwarfError(name, None, f"the section has {len(self.data)} bytes; the limit is {SECTION_LIMIT}")
        self.table = CfiTable(self.data, vaddr, target.bits, target.order == "big", name == ".debug_frame")
        if header is not None:
            self.table.set_header(header[1], header[0])
        if code is not None:
            joined = _joined(code)
            self.table.set_code(array("Q", [start for start, _ in joined]), array("Q", [end for _, end in joined]))
        self.table.set_base(target.text_base, open_end)
        self._fdes: dict[int, Fde] = {}
        self._cies: dict[int, Cie] = {}
        self._states: dict[int, tuple[Cfa | None, dict[int, Rule]]] = {}
        self.problems: list[DwarfError] = []

    def find(self, vaddr: int) -> Fde | None:
        """Return the FDE that covers `vaddr`, None without one. Raises DwarfError if it is malformed."""
        index = self.table.find(vaddr)
        return None if index < 0 else self._fde(index)

    def fdes(self) -> list[Fde]:
        """Return all FDEs in order of vaddr. Malformed ones are skipped and listed in `problems`."""
        fdes = []
        indexes = self.table.scanned()
        self.problems = [self._error(*problem) for problem in self.table.listed_problems()]
        for index in indexes:
            try:
                fdes.append(self._fde(index))
            except DwarfError as error:
                self.problems.append(error)
        return fdes

    def programs(self) -> Iterator[tuple[int, int, int, list[tuple[int, int]]]]:
        """Yield start, end, return column and rows of each FDE in order of vaddr; malformed ones are skipped.

        A row is its vaddr and the number of a state, for `state`: many rows share one.
        """
        for index in self.table.scanned():
            if self.table.compile(index) is None:
                start, end, _, cie = self.table.entry(index)
                yield start, end, self._cie(cie).return_column, self.table.rows_of(index)

    def state(self, number: int) -> tuple[Cfa | None, dict[int, Rule]]:
        """Return the CFA and the rules of a state, by register."""
        return self._state(number)

    def _fde(self, index: int) -> Fde:
        if index not in self._fdes:
            problem = self.table.compile(index)
            if problem is not None:
                raise self._error(*problem)
            start, end, offset, cie = self.table.entry(index)
            rows = tuple(CfiRow(start, *self._state(state)) for start, state in self.table.rows_of(index))
            self._fdes[index] = Fde(start, end, self._cie(cie), rows, self.name, offset)
        return self._fdes[index]

    def _cie(self, index: int) -> Cie:
        if index not in self._cies:
            numbers, start, end = self.table.cie(index)
            self._cies[index] = Cie(*(*numbers, self.data[start:end]))
        return self._cies[index]

    def _state(self, number: int) -> tuple[Cfa | None, dict[int, Rule]]:
        """Return the CFA and the rules by register of a state of the kernel."""
        if number not in self._states:
            (kind, register, offset), rules = self.table.state_of(number)
            cfa = None
            if kind == constants.CFA_REGISTER:
                cfa = Cfa(register, offset)
            elif kind == constants.CFA_EXPRESSION:
                cfa = Cfa(0, 0, offset)
            self._states[number] = cfa, {register: _rule(How(how), value) for register, how, value in rules}
        return self._states[number]

    def _error(self, fault: int, offset: int, value: int) -> DwarfError:
        """Return the error for a fault of the kernel."""
        if fault == constants.FAULT_CUT_OFF:
            return cut_off(DwarfError, self.name, offset, value >> 32, value & 0xFFFFFFFF)
        if fault == constants.FAULT_AUGMENTATION:
            letters = shown(self.data[value >> 32 :][: value & 0xFFFFFFFF])
            return DwarfError(self.name, offset, f'unknown augmentation {letters}: the first letter is not "z"')
        return DwarfError(self.name, offset, _FAULTS[fault].format(value))


def _rule(how: How, value: int | bytes) -> Rule:
    return Rule(how, 0, value) if isinstance(value, bytes) else Rule(how, value)


# messages by fault; `{}` is the value that the kernel reports
_FAULTS = {
    constants.FAULT_RECORD_END: "record length {:#x} extends past the end of the section",
    constants.FAULT_RECORD_OUTSIDE: "the record is outside the section",
    constants.FAULT_LEB: "a LEB128 number has more than 10 bytes",
    constants.FAULT_ENCODING: "unknown pointer encoding {:#x}",
    constants.FAULT_BASE: "the base of pointer encoding {:#x} is not supported",
    constants.FAULT_OMITTED: "the FDE's start or size is omitted",
    constants.FAULT_RANGE: "the FDE's size {:#x} is negative",
    constants.FAULT_LONG_RANGE: "the FDE's size {:#x} is not below 4 GiB",
    constants.FAULT_CIE_OUTSIDE: "the FDE's CIE is outside the section",
    constants.FAULT_NOT_CIE: "the record that an FDE refers to is not a CIE",
    constants.FAULT_VERSION: "unknown CIE version {}; known are 1, 3 and, in .debug_frame, 4",
    constants.FAULT_SIZES: "addresses of {} bytes, or segment selectors, are not supported",
    constants.FAULT_AUGMENTATION_END: "augmentation length {:#x} extends past the end of the CIE",
    constants.FAULT_LONG_CIE: f"the CIE has {{}} bytes of instructions; the limit is {PROGRAM_LIMIT}",
    constants.FAULT_LONG_FDE: f"the FDE has {{}} bytes of instructions; the limit is {PROGRAM_LIMIT}",
    constants.FAULT_ORDER: "the location moves backwards or 4 GiB or more ahead ({:#x})",
    constants.FAULT_MANY_STATES: f"DW_CFA_remember_state is nested deeper than {STATES_LIMIT}",
    constants.FAULT_NO_STATE: "DW_CFA_restore_state without a remembered state",
    constants.FAULT_INSTRUCTION: "unknown instruction {:#x}",
    constants.FAULT_CFA_PART: "an instruction changes one part of a CFA that is not a register plus an offset",
    constants.FAULT_MANY_RULES: f"a row has more than {REGISTERS_LIMIT} rules",
    constants.FAULT_REGISTER: f"register number {{}} is not below {REGISTER_LIMIT}",
    constants.FAULT_COSTLY_RULES: f"the rows' states need more than {WORK_TIMES} words per byte of the section "
    f"plus {WORK_ALLOWANCE}",
    constants.FAULT_COSTLY_RUN: f"the FDEs run more than {RUN_TIMES} times the section's bytes plus {RUN_ALLOWANCE}",
}


class CallFrames:
    """The call frame information of one ELF file: .eh_frame first, then .debug_frame."""

    def __init__(self, sections: list[FrameSection]) -> None:
        self.sections = sections

    @classmethod
    def of_elf(cls, elf: ObjectFile) -> CallFrames:
        """Read an open file, which must stay open. Sections that cannot be read are skipped."""
        code = elf.code_ranges(or_loaded=True)
        sections = []
        eh_frame = _eh_frame(elf)
        if eh_frame is not None:
            sections.append(eh_frame)
        try:
            debug_frame = elf.content(".debug_frame")
        except ObjectError:
            debug_frame = memoryview(b"")
        section = elf.section(".debug_frame")
        if section is not None and len(debug_frame):
            target = Target(elf.bits, elf.order)
            sections.append(FrameSection(debug_frame, 0, name=".debug_frame", target=target, code=code or None))
        return cls(sections)

    def find(self, vaddr: int) -> Fde | None:
        """Return the FDE that covers `vaddr`, None without one. Raises DwarfError if it is malformed."""
        for section in self.sections:
            fde = section.find(vaddr)
            if fde is not None:
                return fde
        return None


def function_start(frames: CallFrames, vaddr: int) -> int | None:
    """Return the start of the function that covers `vaddr`; None if no section has an FDE for it."""
    for section in frames.sections:
        index = section.table.find(vaddr)
        if index >= 0:
            start: int = section.table.entry(index)[0]
            return start
    return None


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort ranges and merge touching or overlapping ranges."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _eh_frame(elf: ObjectFile) -> FrameSection | None:
    """Return `.eh_frame`, found by its section or, without section headers, by `.eh_frame_hdr`."""
    header = elf.located(".eh_frame_hdr")
    section = elf.section(".eh_frame")
    text = elf.section(".text")
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
    target = Target(elf.bits, elf.order, text.vaddr if text is not None else 0)
    return FrameSection(data, vaddr, target=target, header=header, open_end=section is None)
