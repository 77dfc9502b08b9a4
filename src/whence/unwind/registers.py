"""Registers of each machine: DWARF's numbers, where a core's NT_PRSTATUS has them, and what calls leave as it is.

Documents: the psABI of each machine ("DWARF register number mapping"), structs user_regs_struct and user_pt_regs
of Linux.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from whence._base.records import Record
from whence.objects import machines

if TYPE_CHECKING:
    from whence._base.window import ByteOrder


class TrampolineForm(NamedTuple):
    """Code that a signal handler returns to, and where the interrupted registers are then, from the stack pointer."""

    code: bytes
    registers: dict[int, int]  # DWARF number -> offset
    pc_at: int


class Machine(Record, frozen=True):
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
    # from the frame pointer: the caller's, the return address, its CFA; None where functions need keep none
    frame_record: tuple[int, int, int] | None
    returns: tuple[bytes, ...]  # instructions that return
    trampolines: tuple[TrampolineForm, ...]
    contexts: tuple[bytes, ...] = ()  # what a function that makecontext runs returns to
    # the word at the stack pointer is the caller's, and the return address is so far from there; None: it need not be
    back_chain: int | None = None
    address_mask: int = (1 << 64) - 1  # bits of a code address; the others may sign it, or say how code is encoded
    order: ByteOrder = "little"
    instructions: str = ""  # whose beginnings and ends of functions are known: x86, a64, arm or none
    sp_below_cfa: int = 0  # the caller's stack pointer, unless CFI says otherwise, is so far below the CFA
    syscall: bytes | None = None  # the instruction; `result` is the register with what it returns
    clones: tuple[bytes, ...] = ()  # calls of clone and clone3, up to that instruction
    exits: tuple[bytes, ...] = ()  # what a function that a thread began with returns to, where that has no CFI
    result: int = 0
    arguments: tuple[int, ...] = ()  # registers of a system call's arguments, in order
    thread_pointer_at: int | None = None  # in NT_PRSTATUS, where it is there

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
    syscall=bytes.fromhex("0f05"),
    arguments=(5, 4, 1, 10, 8, 9),
    clones=(bytes.fromhex("b8380000000f05"), bytes.fromhex("b8b30100000f05")),  # mov $__NR_clone, %eax; syscall
    instructions="x86",
    thread_pointer_at=STATUS_REGISTERS_AT + 8 * _X86_64_ORDER.index("fs_base"),
    frame_record=(0, 8, 16),
    returns=(b"\xc3", b"\xc2", b"\xf3\xc3", b"\xf2\xc3"),
    trampolines=(
        TrampolineForm(bytes.fromhex("48c7c00f0000000f05"), _X86_64_CONTEXT, 0xA8),  # mov $__NR_rt_sigreturn, %rax
        TrampolineForm(bytes.fromhex("b80f0000000f05"), _X86_64_CONTEXT, 0xA8),
    ),
    exits=(bytes.fromhex("89c731c0b03c0f05"),),  # musl: mov %eax, %edi; xor %eax, %eax; mov $__NR_exit, %al; syscall
    contexts=(bytes.fromhex("4889dc"),),  # glibc: mov %rbx, %rsp
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
    instructions="a64",
    frame_record=(0, 8, 16),
    returns=(bytes.fromhex("c0035fd6"), bytes.fromhex("ff0b5fd6"), bytes.fromhex("ff0f5fd6")),  # ret, retaa, retab
    trampolines=(
        TrampolineForm(  # mov x8, #__NR_rt_sigreturn; svc 0
            bytes.fromhex("681180d2010000d4"), {n: _AARCH64_CONTEXT_AT + 8 * n for n in range(32)}, 568
        ),
    ),
    contexts=(bytes.fromhex("1f2003d5e00313aa"),),  # glibc: nop; mov x0, x19
    address_mask=(1 << 48) - 1,  # without the pointer authentication code of user space
)

STATUS_REGISTERS_AT_32 = 72  # pr_reg in struct elf_prstatus of 32-bit machines

_I386 = dict(enumerate(("eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi")))
# struct user_regs_struct, in words from pr_reg on
_I386_ORDER = (
    "ebx", "ecx", "edx", "esi", "edi", "ebp", "eax", "ds", "es", "fs", "gs", "orig_eax", "eip", "cs", "eflags", "esp",
    "ss",
)  # fmt: skip
_I386_CONTEXT = {7: 16, 6: 20, 5: 24, 4: 28, 3: 32, 2: 36, 1: 40, 0: 44}  # in struct sigcontext
_I386_CONTEXT_PC = 56
# where it is from the stack pointer: after a signal number; in struct ucontext after three words and siginfo
_I386_OLD_CONTEXT_AT, _I386_CONTEXT_AT = 4, 160

I386 = Machine(
    name="i386",
    bits=32,
    names=_I386,
    sp=4,
    fp=5,
    link=None,
    kept=frozenset((3, 5, 6, 7)),
    status_size=STATUS_REGISTERS_AT_32 + 4 * len(_I386_ORDER),
    status_at={n: STATUS_REGISTERS_AT_32 + 4 * _I386_ORDER.index(name) for n, name in _I386.items()},
    pc_at=STATUS_REGISTERS_AT_32 + 4 * _I386_ORDER.index("eip"),
    pc_name="eip",
    syscall=bytes.fromhex("cd80"),
    arguments=(3, 1, 2, 6, 7),  # without the sixth, in ebp, which __kernel_vsyscall passes on the stack
    clones=(bytes.fromhex("b878000000cd80"), bytes.fromhex("b8b3010000cd80")),  # mov $__NR_clone, %eax; int $0x80
    instructions="x86",
    frame_record=(0, 4, 8),
    returns=(b"\xc3", b"\xc2", b"\xf3\xc3", b"\xf2\xc3"),
    trampolines=(
        TrampolineForm(  # mov $__NR_rt_sigreturn, %eax; int $0x80
            bytes.fromhex("b8ad000000cd80"),
            {n: _I386_CONTEXT_AT + at for n, at in _I386_CONTEXT.items()},
            _I386_CONTEXT_AT + _I386_CONTEXT_PC,
        ),
        TrampolineForm(  # pop %eax; mov $__NR_sigreturn, %eax; int $0x80
            bytes.fromhex("58b877000000cd80"),
            {n: _I386_OLD_CONTEXT_AT + at for n, at in _I386_CONTEXT.items()},
            _I386_OLD_CONTEXT_AT + _I386_CONTEXT_PC,
        ),
    ),
    exits=(bytes.fromhex("89c331c040cd80"),),  # musl: mov %eax, %ebx; xor %eax, %eax; inc %eax; int $0x80
    contexts=(bytes.fromhex("8d249c"),),  # glibc: lea (%esp, %ebx, 4), %esp
    address_mask=(1 << 32) - 1,
)

_ARM_CONTEXT_AT, _ARM_OLD_CONTEXT_AT = 160, 32  # of r0: behind siginfo of 128 bytes, or not, and 8 words of ucontext

ARM = Machine(
    name="arm",
    bits=32,
    names={**{n: f"r{n}" for n in range(13)}, 13: "sp", 14: "lr"},
    sp=13,
    fp=11,
    link=14,
    kept=frozenset(range(4, 12)),
    status_size=STATUS_REGISTERS_AT_32 + 4 * 18,
    status_at={n: STATUS_REGISTERS_AT_32 + 4 * n for n in range(15)},
    pc_at=STATUS_REGISTERS_AT_32 + 4 * 15,
    pc_name="pc",
    frame_record=(-4, 0, 4),
    returns=(),
    trampolines=tuple(
        TrampolineForm(bytes.fromhex(code), {n: at + 4 * n for n in range(15)}, at + 4 * 15)
        for code, at in (
            ("ad70a0e3000000ef", _ARM_CONTEXT_AT),  # mov r7, #__NR_rt_sigreturn; svc 0, then the same of Thumb
            ("ad2700df", _ARM_CONTEXT_AT),
            ("7770a0e3000000ef", _ARM_OLD_CONTEXT_AT),
            ("772700df", _ARM_OLD_CONTEXT_AT),
            ("4ff0ad0700df", _ARM_CONTEXT_AT),  # mov.w
            ("4ff0770700df", _ARM_OLD_CONTEXT_AT),
        )
    ),
    instructions="arm",
    clones=(bytes.fromhex("4ff0780700df"), bytes.fromhex("7870a0e3000000ef")),  # mov r7, #__NR_clone; svc 0
    exits=(  # mov r7, #__NR_exit; svc 0
        bytes.fromhex("4ff0010700df"),
        bytes.fromhex("012700df"),
        bytes.fromhex("0170a0e3000000ef"),
    ),
    contexts=(bytes.fromhex("0400b0e1"),),  # glibc: movs r0, r4
    address_mask=0xFFFFFFFE,  # the lowest bit says Thumb
)

_RISCV_NAMES = (
    "x0", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", *(f"a{n}" for n in range(8)),
    *(f"s{n}" for n in range(2, 12)), "t3", "t4", "t5", "t6",
)  # fmt: skip
_RISCV_CONTEXT_AT = 304  # of the pc, then x1: behind siginfo (128 bytes) and the beginning of ucontext (176)

RISCV64 = Machine(
    name="riscv64",
    bits=64,
    names={n: name for n, name in enumerate(_RISCV_NAMES) if n},
    sp=2,
    fp=8,
    link=1,
    kept=frozenset((8, 9, *range(18, 28))),
    status_size=STATUS_REGISTERS_AT + 8 * 32,
    status_at={n: STATUS_REGISTERS_AT + 8 * n for n in range(1, 32)},
    pc_at=STATUS_REGISTERS_AT,
    pc_name="pc",
    frame_record=(-16, -8, 0),
    returns=(),
    trampolines=(
        TrampolineForm(  # li a7, __NR_rt_sigreturn; ecall
            bytes.fromhex("9308b00873000000"),
            {n: _RISCV_CONTEXT_AT + 8 * n for n in range(1, 32)},
            _RISCV_CONTEXT_AT,
        ),
    ),
)

_PPC_LINK, _PPC_CTR, _PPC_NIP = 36, 35, 32  # in struct pt_regs, in words
_PPC64_LINK_NUMBER, _PPC64_CTR_NUMBER = 65, 66
_PPC64_CONTEXT_AT = 368  # of r0: behind 128 bytes of the handler's, the head of ucontext (176) and of sigcontext (64)

PPC64LE = Machine(
    name="ppc64le",
    bits=64,
    names={**{n: f"r{n}" for n in range(32)}, _PPC64_LINK_NUMBER: "lr", _PPC64_CTR_NUMBER: "ctr"},
    sp=1,
    fp=31,
    link=_PPC64_LINK_NUMBER,
    kept=frozenset(range(14, 32)),
    status_size=STATUS_REGISTERS_AT + 8 * 48,
    status_at={
        **{n: STATUS_REGISTERS_AT + 8 * n for n in range(32)},
        _PPC64_LINK_NUMBER: STATUS_REGISTERS_AT + 8 * _PPC_LINK,
        _PPC64_CTR_NUMBER: STATUS_REGISTERS_AT + 8 * _PPC_CTR,
    },
    pc_at=STATUS_REGISTERS_AT + 8 * _PPC_NIP,
    pc_name="pc",
    frame_record=None,
    back_chain=16,
    returns=(),
    trampolines=(
        TrampolineForm(  # addi r1, r1, 128; li r0, __NR_rt_sigreturn; sc
            bytes.fromhex("80002138ac00003802000044"),
            {
                **{n: _PPC64_CONTEXT_AT + 8 * n for n in range(32)},
                _PPC64_LINK_NUMBER: _PPC64_CONTEXT_AT + 8 * _PPC_LINK,
                _PPC64_CTR_NUMBER: _PPC64_CONTEXT_AT + 8 * _PPC_CTR,
            },
            _PPC64_CONTEXT_AT + 8 * _PPC_NIP,
        ),
    ),
)

# of the PSW: behind 160 bytes of the handler's, 8 of code, siginfo and the head of ucontext; behind struct sigcontext
_S390_CONTEXT_AT, _S390_OLD_CONTEXT_AT = 336, 176

S390X = Machine(
    name="s390x",
    bits=64,
    names={n: f"r{n}" for n in range(16)},
    sp=15,
    fp=11,
    link=14,
    kept=frozenset((*range(6, 14), *range(24, 32))),
    status_size=STATUS_REGISTERS_AT + 8 * 18,
    status_at={n: STATUS_REGISTERS_AT + 16 + 8 * n for n in range(16)},
    pc_at=STATUS_REGISTERS_AT + 8,
    pc_name="pc",
    frame_record=None,
    back_chain=112,  # of code that was built with -mbackchain
    returns=(),
    trampolines=tuple(
        TrampolineForm(bytes.fromhex(code), {n: at + 16 + 8 * n for n in range(16)}, at + 8)
        for code, at in (("0aad", _S390_CONTEXT_AT), ("0a77", _S390_OLD_CONTEXT_AT))  # svc __NR_rt_sigreturn, sigreturn
    ),
    order="big",
    sp_below_cfa=160,
)

MACHINES = {
    (machines.EM_X86_64, 64): X86_64,
    (machines.EM_AARCH64, 64): AARCH64,
    (machines.EM_386, 32): I386,
    (machines.EM_ARM, 32): ARM,
    (machines.EM_RISCV, 64): RISCV64,
    (machines.EM_PPC64, 64): PPC64LE,
    (machines.EM_S390, 64): S390X,
}
