"""Registers of each machine: DWARF's numbers, where a core's NT_PRSTATUS has them, and what calls leave as it is.

Documents: the psABI of each machine ("DWARF register number mapping"), structs user_regs_struct and user_pt_regs
of Linux.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from whence.elf.kernels import constants

if TYPE_CHECKING:
    from whence.window import ByteOrder


class TrampolineForm(NamedTuple):
    """Code that a signal handler returns to, and where the interrupted registers are then, from the stack pointer."""

    code: bytes
    registers: dict[int, int]  # DWARF number -> offset
    pc_at: int


@dataclass(frozen=True, slots=True)
class Machine:
    """What unwinding needs to know of a machine. `names` are by DWARF number."""

    name: str
    bits: int
    names: dict[int, str]
    sp: int
    fp: int
    link: int | None  # the register that a call leaves the return address in; None: it is pushed
    kept: frozenset[int]  # unchanged by a call unless its CFI says otherwise
    status_size: int  # of NT_PRSTATUS, at least: with all registers
    status_at: dict[int, int]  # DWARF number -> offset in NT_PRSTATUS
    pc_at: int
    pc_name: str
    frame_record: tuple[int, int, int]  # from the frame pointer: the caller's, the return address, its CFA
    returns: tuple[bytes, ...]  # instructions that return
    trampolines: tuple[TrampolineForm, ...]
    thread_pointer_at: int | None = None  # in NT_PRSTATUS, where it is there
    address_mask: int = (1 << 64) - 1  # bits of a code address; the others may sign it

    @property
    def word(self) -> int:
        return self.bits // 8

    def read_status(self, status: bytes, order: ByteOrder) -> tuple[int, dict[int, int]]:
        """The pc and the registers by DWARF number of an NT_PRSTATUS of `status_size` bytes."""
        values = {
            at: int.from_bytes(status[at : at + self.word], order) for at in (*self.status_at.values(), self.pc_at)
        }
        return values[self.pc_at], {number: values[at] for number, at in self.status_at.items()}

    def thread_pointer(self, status: bytes, order: ByteOrder) -> int:
        """Where thread-local storage is, by an NT_PRSTATUS; 0 where that does not say so."""
        at = self.thread_pointer_at
        return 0 if at is None else int.from_bytes(status[at : at + self.word], order)

    def named(self, pc: int, values: dict[int, int]) -> dict[str, int]:
        """Registers by name, the pc last."""
        return {**{self.names[number]: value for number, value in values.items()}, self.pc_name: pc}


_X86_64_NAMES = (
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
)  # fmt: skip
_X86_64 = dict(enumerate(_X86_64_NAMES))
# struct user_regs_struct, in words from pr_reg on
_X86_64_ORDER = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi",
    "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
)  # fmt: skip
STATUS_REGISTERS_AT = 112  # pr_reg in struct elf_prstatus of 64-bit machines
_X86_64_CONTEXT = {  # in struct ucontext
    8: 0x28, 9: 0x30, 10: 0x38, 11: 0x40, 12: 0x48, 13: 0x50, 14: 0x58, 15: 0x60, 5: 0x68, 4: 0x70, 6: 0x78, 3: 0x80,
    1: 0x88, 0: 0x90, 2: 0x98, 7: 0xA0,
}  # fmt: skip

X86_64 = Machine(
    name="x86-64",
    bits=64,
    names=_X86_64,
    sp=7,
    fp=6,
    link=None,
    kept=frozenset((3, 6, 12, 13, 14, 15)),
    status_size=STATUS_REGISTERS_AT + 8 * len(_X86_64_ORDER),
    status_at={n: STATUS_REGISTERS_AT + 8 * _X86_64_ORDER.index(name) for n, name in _X86_64.items()},
    pc_at=STATUS_REGISTERS_AT + 8 * _X86_64_ORDER.index("rip"),
    pc_name="rip",
    thread_pointer_at=STATUS_REGISTERS_AT + 8 * _X86_64_ORDER.index("fs_base"),
    frame_record=(0, 8, 16),
    returns=(b"\xc3", b"\xc2", b"\xf3\xc3", b"\xf2\xc3"),
    trampolines=(
        TrampolineForm(bytes.fromhex("48c7c00f0000000f05"), _X86_64_CONTEXT, 0xA8),  # mov $__NR_rt_sigreturn, %rax
        TrampolineForm(bytes.fromhex("b80f0000000f05"), _X86_64_CONTEXT, 0xA8),
    ),
)

_AARCH64_CONTEXT_AT = 312  # of x0 in struct rt_sigframe: siginfo has 128 bytes, ucontext begins with 184 others

AARCH64 = Machine(
    name="aarch64",
    bits=64,
    names={**{n: f"x{n}" for n in range(31)}, 31: "sp"},
    sp=31,
    fp=29,
    link=30,
    kept=frozenset(range(19, 30)),
    status_size=STATUS_REGISTERS_AT + 8 * 34,
    status_at={n: STATUS_REGISTERS_AT + 8 * n for n in range(32)},
    pc_at=STATUS_REGISTERS_AT + 8 * 32,
    pc_name="pc",
    frame_record=(0, 8, 16),
    returns=(bytes.fromhex("c0035fd6"), bytes.fromhex("ff0b5fd6"), bytes.fromhex("ff0f5fd6")),  # ret, retaa, retab
    trampolines=(
        TrampolineForm(  # mov x8, #__NR_rt_sigreturn; svc 0
            bytes.fromhex("681180d2010000d4"), {n: _AARCH64_CONTEXT_AT + 8 * n for n in range(32)}, 568
        ),
    ),
    address_mask=(1 << 48) - 1,  # without the pointer authentication code of user space
)

MACHINES = {
    (constants.EM_X86_64, 64): X86_64,
    (constants.EM_AARCH64, 64): AARCH64,
}
