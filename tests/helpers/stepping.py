"""Step a program instruction by instruction under ptrace, with a shadow stack of its calls and returns.

At each step the shadow stack has the expected result of unwinding: the return address of the innermost call that has
not returned, and its address. x86-64 Linux.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from whence.procmap.resolver import Resolver
from whence.procmap.snapshot import SnapshotMappings
from whence.unwind.memory import Unreadable
from whence.unwind.modules import CoreCode, Modules
from whence.unwind.registers import X86_64
from whence.unwind.steps import End, Ended, FoundBy, StackFrame
from whence.unwind.unwinder import Unwinder
from whence.unwind.walking import PlainWalker

TRACEME, SINGLESTEP, GETREGS, KILL = 0, 9, 12, 8
# struct user_regs_struct, in words
ORDER = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi",
    "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
)  # fmt: skip
RIP, RSP = ORDER.index("rip"), ORDER.index("rsp")
AT = [(number, ORDER.index(name)) for number, name in X86_64.names.items()]
PREFIXES = b"\xf2\xf3\x2e\x36\x3e\x26\x64\x65\x66\x67"
COMPLETE_EVERY = 97  # steps between comparisons of the complete stack
STACK_BYTES = 1 << 16  # copied for such a comparison
SHOWN = 40
CALL, RET, OTHER = "call", "ret", "other"


@dataclass
class Report:
    """Counts of steps, wrong callers and complete stacks compared, and how callers were found."""

    steps: int = 0
    wrong: int = 0
    complete: int = 0
    walked: int = 0
    locations: set[str] = field(default_factory=set)
    shown: list[str] = field(default_factory=list)
    found_by: Counter[str] = field(default_factory=Counter)

    def add_wrong(self, location: str, line: str) -> None:
        self.wrong += 1
        if location not in self.locations and len(self.shown) < SHOWN:
            self.shown.append(f"{location}: {line}")
        self.locations.add(location)


class Memory:
    """Memory of a stopped process (unwind.memory.Memory)."""

    def __init__(self, pid: int) -> None:
        self._file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)

    def read(self, address: int, size: int) -> bytes:
        try:
            data = os.pread(self._file, size, address)
        except (OSError, OverflowError):
            data = b""
        if len(data) < size:
            raise Unreadable(address, "in the process")
        return data

    def region(self, address: int) -> tuple[int, int] | None:
        return address & -STACK_BYTES, (address & -STACK_BYTES) + (1 << 23)

    def close(self) -> None:
        os.close(self._file)


def kind_of(code: bytes) -> str:
    """Return CALL, RET or OTHER for an instruction."""
    index = 0
    while index < len(code) and code[index] in PREFIXES:
        index += 1
    if index < len(code) and code[index] & 0xF0 == 0x40:  # REX
        index += 1
    rest = code[index:]
    if rest[:1] == b"\xe8" or (rest[:1] == b"\xff" and len(rest) > 1 and rest[1] >> 3 & 7 == 2):
        return CALL
    return RET if rest[:1] in (b"\xc3", b"\xc2") else OTHER


class Stepper:
    """A program under ptrace, and its unwinders."""

    def __init__(self, arguments: list[str]) -> None:
        if sys.platform != "linux" or platform.machine() != "x86_64":
            pytest.skip("single steps are compared on x86-64 Linux")
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.libc.ptrace.restype = ctypes.c_long
        self.pid = self.start(arguments)
        self.memory = Memory(self.pid)
        self.registers = (ctypes.c_uint64 * len(ORDER))()
        self.kinds: dict[int, str] = {}
        self.learn()

    def start(self, arguments: list[str]) -> int:
        pid = os.fork()
        if not pid:
            try:
                nowhere = os.open(os.devnull, os.O_RDWR)
                for descriptor in range(3):
                    os.dup2(nowhere, descriptor)
                self.libc.ptrace(TRACEME, 0, None, None)
                os.execv(arguments[0], arguments)
            finally:
                os._exit(127)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            pytest.skip("nothing may be traced here")
        return pid

    def learn(self) -> None:
        """Read the mappings that the process has now."""
        modules = Modules(SnapshotMappings.take(self.pid, Resolver()), None)
        self.code = CoreCode(modules, self.memory)
        self.unwinder = Unwinder(X86_64, self.code, self.memory)
        self.walking = Unwinder(X86_64, self.code, self.memory, walker=PlainWalker(X86_64, "little", self.code))

    def close(self) -> None:
        self.memory.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (OSError, ChildProcessError):
            pass

    def word(self, address: int) -> int:
        return int.from_bytes(self.memory.read(address, 8), "little")

    def run(self, most: int) -> Report:
        """Step until the program ends, at most `most` times, and compare at each step."""
        report = Report()
        shadow: list[tuple[int, int]] = []  # (address, return address)
        libc, registers = self.libc, self.registers
        before = OTHER
        while report.steps < most:
            if libc.ptrace(GETREGS, self.pid, None, ctypes.addressof(registers)):
                break
            rip, rsp = registers[RIP], registers[RSP]
            if before is CALL:
                shadow.append((rsp, self.word(rsp)))
            while shadow and shadow[-1][0] < rsp:
                shadow.pop()
            self.compare(rip, rsp, shadow, report)
            report.steps += 1
            kind = self.kinds.get(rip)
            if kind is None:
                kind = self.kinds[rip] = kind_of(self.memory.read(rip, 8))
            before = kind
            if libc.ptrace(SINGLESTEP, self.pid, None, None):
                break
            _, status = os.waitpid(self.pid, 0)
            if not os.WIFSTOPPED(status):
                break
            if os.WSTOPSIG(status) != signal.SIGTRAP:
                raise AssertionError(f"it got signal {os.WSTOPSIG(status)}")
        return report

    def compare(self, rip: int, rsp: int, shadow: list[tuple[int, int]], report: Report) -> None:
        if not self.code.is_code(rip):
            self.learn()
        registers = self.registers
        values = {number: registers[offset] for number, offset in AT}
        frame = StackFrame(rip, rsp, FoundBy.REGISTERS, exact=True)
        self.unwinder.steps_left = self.walking.steps_left = 1 << 20
        try:
            step = self.unwinder.step(frame, values)
            result, by = (step.pc, step.cfa), str(step.found_by)
        except Ended as ended:
            result, by = (0, 0), str(ended.end)
        report.found_by[by] += 1
        expected = (shadow[-1][1], shadow[-1][0] + 8) if shadow else (0, 0)
        if result != expected and not (not shadow and result[0] == 0):
            seen, meant = ([hex(item) for item in pair] for pair in (result, expected))
            report.add_wrong(self.location(rip), f"{by} {seen}, expected {meant}")
        elif report.steps % COMPLETE_EVERY == 0:
            report.complete += 1
            bottom = max(0, rsp - 128)
            stack = b""
            for size in (STACK_BYTES, STACK_BYTES >> 4, 4096 - bottom % 4096):
                try:
                    stack = self.memory.read(bottom, size)
                    break
                except Unreadable:
                    continue
            assert self.walking.walker is not None
            self.walking.walker.set_stack(bottom, stack)
            unwound = self.walking.unwind(rip, values)
            complete = [rip, *(pc for _, pc in reversed(shadow))]
            if [item.pc for item in unwound.frames] != complete or unwound.end is not End.COMPLETE:
                report.add_wrong(self.location(rip), f"the complete stack ends with {unwound.end} {unwound.detail}")

    def location(self, address: int) -> str:
        for mapping in self.code._mappings:
            if mapping.start <= address < mapping.limit:
                return f"{Path(mapping.path).name}+{mapping.file_offset_of(address):#x}"
        return "nowhere"


def step_through(arguments: list[str], most: int) -> Report:
    """Compare every caller in a program's run, for at most `most` instructions."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})  # on one processor, since the processes alternate
    try:
        stepper = Stepper(arguments)
        try:
            return stepper.run(most)
        finally:
            stepper.close()
    finally:
        os.sched_setaffinity(0, allowed)
