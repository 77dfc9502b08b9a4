"""Names of the addresses in operands: functions, PLT stubs, slots of the GOT, variables, sections.

call 0x1030                     a function or a stub, named by its symbol: puts@plt
call qword ptr [rip + 0x2fe2]   x86-64: the vaddr is the distance from the end of the instruction: puts@got
adrp x0, #0x11000               AArch64: a page; the instruction that uses x0 with an offset completes the vaddr
auipc a0, 0x10                  RISC-V: also two parts, relative to the first instruction
larl %r1, 0x120a                s390x: a vaddr
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from whence._base.errors import WhenceError
from whence.listing.disassembly import CODE, DATA, THUMB, CodeKind
from whence.objects.elf import functions
from whence.objects.elf.file import ElfFile
from whence.objects.elf.kernels import constants
from whence.objects.elf.plt import slot_names
from whence.objects.machines import EM_AARCH64, EM_ARM, EM_RISCV, EM_S390, EM_X86_64, machine_name
from whence.ranges import StringSpace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from whence.listing.disassembly import Decoded
    from whence.objects.interface import ObjectFile

RIP = re.compile(r"\[rip(?: ([+-]) (0x[0-9a-f]+|\d+))?\]|(-?)(0x[0-9a-f]+|\d+)?\(%rip\)")
ABSOLUTE = re.compile(r"(?:^|, )#?(0x[0-9a-f]+)$")
ARM64_PAGE = re.compile(r"(x\d+), #(0x[0-9a-f]+|0)")
ARM64_ADD = re.compile(r"(x\d+), (x\d+), #(0x[0-9a-f]+|\d+)")
ARM64_MEMORY = re.compile(r"\[(x\d+)(?:, #(0x[0-9a-f]+|\d+))?\]$")
ARM_LITERAL = re.compile(r"\[pc, #(-?0x[0-9a-f]+|-?\d+)\]$")
RISCV_UPPER = re.compile(r"(\w+), (-?0x[0-9a-f]+|-?\d+)$")
RISCV_ADD = re.compile(r"\w+, (\w+), (-?0x[0-9a-f]+|-?\d+)$")
RISCV_MEMORY = re.compile(r"(-?0x[0-9a-f]+|-?\d+)\((\w+)\)$")
RISCV_PAGE_BITS, RISCV_UPPER_SIGN = 12, 1 << 19
ARM_AHEAD, THUMB_AHEAD = 8, 4  # bytes from an instruction to the value of its pc
MAPPING_SYMBOLS = {EM_ARM, EM_AARCH64, EM_RISCV}  # machines whose assemblers mark code and data
MARKS = {"a": CODE, "x": CODE, "t": THUMB, "d": DATA}
ADDRESS_MASK = (1 << 64) - 1
LONGEST_NAME = 1 << 12


class NamedSpans(NamedTuple):
    """Functions, variables or sections in order of vaddr, and their names by row."""

    start: Sequence[int]
    size: Sequence[int]
    name: Callable[[int], str]

    def at(self, vaddr: int) -> str:
        """Return the name of the span that contains a vaddr, with the distance from its start; "" if there is none."""
        row = bisect_right(self.start, vaddr) - 1
        if row < 0 or vaddr - self.start[row] >= max(self.size[row], 1):
            return ""
        distance = vaddr - self.start[row]
        name = self.name(row)[:LONGEST_NAME]
        return f"{name}+{distance:#x}" if name and distance else name


class References:
    """The addresses that instructions refer to. They have no names here, and all bytes are code."""

    def __init__(self, machine: int) -> None:
        self.machine = machine
        self._marks: list[tuple[int, CodeKind]] = []  # where code and data begin

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {machine_name(self.machine)}>"

    def name(self, vaddr: int) -> str:
        """Return the name of what is at a vaddr; "" if nothing is known there."""
        return ""

    def kinds(self, start: int, end: int) -> Iterator[tuple[int, int, CodeKind]]:
        """Yield parts [start, end) of code and what each is, by the marks of the assembler. Without marks, code."""
        row = bisect_right(self._marks, start, key=lambda mark: mark[0])
        kind = self._marks[row - 1][1] if row else CODE
        while start < end:
            following = min(self._marks[row][0], end) if row < len(self._marks) else end
            if following > start:
                yield start, following, kind
                start = following
            if row < len(self._marks):
                kind = self._marks[row][1]
                row += 1

    def references(self, instructions: Iterable[Decoded]) -> Iterator[int]:
        """Yield, for each instruction in order, the vaddr that it jumps to, calls or refers to; 0 for none."""
        machine = self.machine
        pages: dict[str, int] = {}  # registers with a part of an address, by the instructions just before
        for instruction in instructions:
            if instruction.target:
                yield instruction.target
            elif machine == EM_X86_64:
                yield rip_relative(instruction)
            elif machine == EM_AARCH64:
                yield arm64_reference(instruction, pages)
            elif machine == EM_RISCV:
                yield riscv_reference(instruction, pages)
            elif machine == EM_S390 and instruction.mnemonic.endswith("rl"):
                match = ABSOLUTE.search(instruction.operands)
                yield int(match[1], 16) if match else 0
            elif machine == EM_ARM and (match := ARM_LITERAL.search(instruction.operands)):
                ahead = THUMB_AHEAD if self._kind_at(instruction.vaddr) is THUMB else ARM_AHEAD
                yield (instruction.vaddr + ahead & ~3) + int(match[1], 0)
            else:
                yield 0

    def _kind_at(self, vaddr: int) -> CodeKind:
        row = bisect_right(self._marks, vaddr, key=lambda mark: mark[0])
        return self._marks[row - 1][1] if row else CODE


class Targets(References):
    """The names of the addresses of one executable.

    Args:
        code: the file with the code.
        debug: the file with its symbols, if that is another one.
        demangle: makes names of functions and variables readable.

    Damaged tables are left out; their errors are in `problems`.
    """

    def __init__(
        self, code: ObjectFile, debug: ObjectFile | None = None, demangle: Callable[[str], str] | None = None
    ) -> None:
        super().__init__(code.machine)
        self._code = code
        self._files = list(dict.fromkeys((debug or code, code)))
        self._demangle = demangle
        self.problems: list[WhenceError] = []
        self._spans = [self._functions(file) for file in self._files]
        self._slots: dict[int, bytes] = {}
        try:
            if isinstance(code, ElfFile):
                self._slots = slot_names(code)
        except WhenceError as error:
            self.problems.append(error)
        for file in self._files:
            try:
                self._read_symbols(file)
            except WhenceError as error:
                self.problems.append(error)
        sections = sorted((section.vaddr, section.size, section.name) for section in code.sections if section.allocated)
        self._sections = NamedSpans(
            [start for start, _, _ in sections], [size for _, size, _ in sections], lambda row: sections[row][2]
        )
        self._names: dict[int, str] = {}

    def _functions(self, file: ObjectFile) -> NamedSpans:
        strings = StringSpace()
        ranges = functions(file, strings, program=self._code, problems=self.problems)
        return NamedSpans(ranges.vaddr, ranges.length, lambda row: self._readable(strings.text(ranges.function[row])))

    def _read_symbols(self, file: ObjectFile) -> None:
        """Read variables and the marks of code and data from the symbol tables of a file."""
        variables: dict[int, tuple[int, str]] = {}
        marked = self._code.machine in MAPPING_SYMBOLS
        for table in (".symtab", ".dynsym"):
            symbols = file.symbols(table)
            for row, info in enumerate(symbols.info):
                kind = info & constants.STT_MASK
                if kind == constants.STT_OBJECT and symbols.size[row] and symbols.section[row]:
                    variables.setdefault(symbols.value[row], (symbols.size[row], symbols.name(row)))
                elif marked and kind == constants.STT_NOTYPE and not symbols.size[row]:
                    name = symbols.name(row)
                    if name.startswith("$") and name[1:2] in MARKS:
                        self._marks.append((symbols.value[row], MARKS[name[1]]))
                elif kind == constants.STT_FUNC and self._code.machine == EM_ARM and symbols.value[row] & 1:
                    self._marks.append((symbols.value[row] & ~1, THUMB))
        self._marks.sort(key=lambda mark: mark[0])
        starts = sorted(variables)
        self._spans.append(
            NamedSpans(
                starts, [variables[start][0] for start in starts],
                lambda row: self._readable(variables[starts[row]][1]),
            )
        )  # fmt: skip

    def _readable(self, name: str) -> str:
        return self._demangle(name) if self._demangle is not None else name

    def name(self, vaddr: int) -> str:
        """Return the name of what is at a vaddr; "" if the file has nothing there."""
        if vaddr not in self._names:
            slot = self._slots.get(vaddr)
            if slot is not None:
                self._names[vaddr] = f"{self._readable(slot.decode('utf-8', 'surrogateescape'))}@got"
            else:
                names = (spans.at(vaddr) for spans in (*self._spans, self._sections))
                self._names[vaddr] = next(filter(None, names), "")
        return self._names[vaddr]


def rip_relative(instruction: Decoded) -> int:
    """Return the vaddr of an operand that is relative to the end of the instruction; 0 if there is none."""
    match = RIP.search(instruction.operands) if "rip" in instruction.operands else None
    if match is None:
        return 0
    distance = int(match[2] or match[4] or "0", 0)
    if "-" in (match[1], match[3]):
        distance = -distance
    return instruction.vaddr + instruction.size + distance & ADDRESS_MASK


def arm64_reference(instruction: Decoded, pages: dict[str, int]) -> int:
    """Return the vaddr that an instruction refers to; `pages` are the registers that an ADRP set."""
    mnemonic, operands = instruction.mnemonic, instruction.operands
    if mnemonic == "adrp" and (match := ARM64_PAGE.fullmatch(operands)):
        pages[match[1]] = int(match[2], 0)
        return 0
    if mnemonic in ("adr", "ldr") and (absolute := ABSOLUTE.search(operands)) and "[" not in operands:
        return int(absolute[1], 16)
    reference = 0
    if pages:
        if mnemonic == "add" and (match := ARM64_ADD.fullmatch(operands)) and match[2] in pages:
            reference = pages[match[2]] + int(match[3], 0)
        elif (match := ARM64_MEMORY.search(operands)) and match[1] in pages:
            reference = pages[match[1]] + int(match[2] or "0", 0)
        changed = operands.partition(",")[0]
        if not mnemonic.startswith(("st", "cmp", "cmn", "tst", "cb", "tb", "b")):
            pages.pop(changed.replace("w", "x", 1) if changed.startswith("w") else changed, None)
        if mnemonic in ("bl", "blr", "ret", "br", "b"):
            pages.clear()
    return reference & ADDRESS_MASK


def riscv_reference(instruction: Decoded, pages: dict[str, int]) -> int:
    """Return the vaddr that an instruction refers to; `pages` are the registers that an AUIPC set."""
    mnemonic, operands = instruction.mnemonic.removeprefix("c."), instruction.operands
    if mnemonic == "auipc" and (match := RISCV_UPPER.fullmatch(operands)):
        upper = int(match[2], 0)
        upper -= (upper & RISCV_UPPER_SIGN) << 1
        pages[match[1]] = instruction.vaddr + (upper << RISCV_PAGE_BITS)
        return 0
    reference = 0
    if pages:
        if mnemonic == "addi" and (match := RISCV_ADD.fullmatch(operands)) and match[1] in pages:
            reference = pages[match[1]] + int(match[2], 0)
        elif (match := RISCV_MEMORY.search(operands)) and match[2] in pages:
            reference = pages[match[2]] + int(match[1], 0)
        if not mnemonic.startswith(("s", "f", "b")):
            pages.pop(operands.partition(",")[0], None)
        if mnemonic in ("jal", "jalr", "j", "jr", "ret"):
            pages.clear()
    return reference & ADDRESS_MASK
