"""Run a 32-bit Windows program in an emulator, with a shadow stack of its calls and returns.

At each instruction the shadow stack has the expected result of unwinding. The program is freestanding: it calls no
system and returns from its entry point.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.programs import folder
from tests.helpers.stepping import CALL, RET, Report, kind_of
from whence.objects.opening import open_object
from whence.objects.pdb import PdbFile
from whence.objects.pe import PeFile
from whence.unwind.frame_data import FrameData, FrameTable
from whence.unwind.memory import Unreadable
from whence.unwind.registers import I386
from whence.unwind.steps import End, Ended, FoundBy, StackFrame
from whence.unwind.unwinder import Unwinder

SOURCE = Path(__file__).parent.parent / "data" / "windows" / "frames.c"
IMAGE_BYTES = 1 << 20
STACK, STACK_BYTES = 0x100000, 1 << 18
COMPLETE_EVERY = 7  # steps between comparisons of the complete stack
SHOWN = 20
NO_END = 0xFFFFFFFF  # address at which the emulator would stop


@cache
def frame_program(flags: str) -> Path:
    """Return the path of a program, with its PDB file next to it."""
    pytest.importorskip("ziglang")
    made = folder() / f"frames-{flags}"
    made.mkdir(exist_ok=True)
    zig = [sys.executable, "-m", "ziglang"]
    common = ["-g", "-ffreestanding", "-fno-sanitize=all", "-fno-stack-protector", "-mno-stack-arg-probe"]
    compiled = [*zig, "cc", "-target", "x86-windows-msvc", *common, flags, "-fomit-frame-pointer", "-c", str(SOURCE)]
    subprocess.run([*compiled, "-o", "frames.obj"], cwd=made, check=True, capture_output=True)
    options = ["/nodefaultlib", "/entry:start", "/subsystem:console", "/debug", "/safeseh:no", "/out:frames.exe"]
    subprocess.run([*zig, "lld-link", *options, "frames.obj"], cwd=made, check=True, capture_output=True)
    return made / "frames.exe"


class Emulator:
    """A loaded program: its registers, its memory (unwind.memory.Memory) and its code (unwinder.UnwindCode)."""

    def __init__(self, program: PeFile, frame_data: FrameTable | None) -> None:
        unicorn = pytest.importorskip("unicorn")
        numbers = unicorn.x86_const
        self.error = unicorn.UcError
        self.cpu = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_32)
        self.names = {number: getattr(numbers, f"UC_X86_REG_{name.upper()}") for number, name in I386.names.items()}
        self.counter = numbers.UC_X86_REG_EIP
        self.table, self.code = frame_data, program.code_ranges()
        self.cpu.mem_map(program.image_base, IMAGE_BYTES)
        self.cpu.mem_map(STACK, STACK_BYTES)
        for section in program.sections:
            if section.in_file and section.allocated:
                begin = section.file_offset
                self.cpu.mem_write(section.vaddr, bytes(program.data[begin : begin + section.size]))
        self.cpu.reg_write(self.names[I386.sp], STACK + STACK_BYTES - 256)  # the return address is 0
        self.pc = program.entry

    def step(self) -> bool:
        """Run one instruction; False if the program has ended."""
        try:
            self.cpu.emu_start(self.pc, NO_END, count=1)
        except self.error:
            return False
        self.pc = self.cpu.reg_read(self.counter)
        return bool(self.pc)

    def registers(self) -> dict[int, int]:
        return {number: self.cpu.reg_read(name) for number, name in self.names.items()}

    def read(self, address: int, size: int) -> bytes:
        try:
            return bytes(self.cpu.mem_read(address, size))
        except self.error:
            raise Unreadable(address) from None

    def region(self, address: int) -> tuple[int, int] | None:
        return (STACK, STACK + STACK_BYTES) if STACK <= address < STACK + STACK_BYTES else None

    def frame_data(self, address: int) -> FrameData | None:
        return None if self.table is None else self.table.find(address)

    def is_code(self, address: int) -> bool:
        return any(start <= address < end for start, end in self.code)

    def fde(self, address: int) -> None:
        return None

    def is_generated(self, address: int) -> bool:
        return False

    def go(self, pc: int, lookup: int) -> None:
        return None

    def entry_before(self, address: int) -> None:
        return None

    def function(self, address: int) -> None:
        return None

    def needs_no_table(self, address: int) -> bool:
        return False

    def calls_main(self, address: int) -> bool:
        return False

    def why_not(self, address: int) -> str:
        return f"nothing for {address:#x}"


def emulated(path: Path) -> Report:
    """Run a program by its PDB file's frame data, and compare the caller at each instruction."""
    report = Report()
    shadow: list[tuple[int, int]] = []  # slot of the return address, return address
    with open_object(path) as program, open_object(path.with_suffix(".pdb")) as pdb:
        assert isinstance(program, PeFile)
        assert isinstance(pdb, PdbFile)
        pdb.rebase(program.image_base)
        process = Emulator(program, FrameTable.of_file(pdb))
        running = True
        while running:
            registers = process.registers()
            if shadow:
                compare(process, registers, shadow, report)
            kind = kind_of(process.read(process.pc, 16))
            running = process.step()
            if kind == CALL:
                sp = process.registers()[I386.sp]
                shadow.append((sp, struct.unpack("<I", process.read(sp, 4))[0]))
            elif kind == RET and shadow:
                shadow.pop()
    return report


def compare(process: Emulator, registers: dict[int, int], shadow: list[tuple[int, int]], report: Report) -> None:
    """Compare the caller of the innermost frame and, now and then, the complete stack."""
    unwinder = Unwinder(I386, process, process)
    pc, (slot, expected) = process.pc, shadow[-1]
    report.steps += 1
    try:
        step = unwinder.step(StackFrame(pc, registers[I386.sp], FoundBy.REGISTERS, exact=True), registers)
        report.found_by[step.found_by] += 1
        if (step.pc, step.cfa) != (expected, slot + 4):
            report.add_wrong(hex(pc), f"{step.pc:#x} at {step.cfa:#x}, expected {expected:#x} at {slot + 4:#x}")
    except Ended as ended:
        report.add_wrong(hex(pc), f"ended: {ended.end}")
    if report.steps % COMPLETE_EVERY == 0:
        report.complete += 1
        unwound = unwinder.unwind(pc, registers)
        frames = [frame.pc for frame in unwound.frames]
        if frames != [pc, *(address for _, address in reversed(shadow))] or unwound.end is not End.COMPLETE:
            report.add_wrong(hex(pc), f"{[hex(frame) for frame in frames]}, {unwound.end}")
