"""Registers of each machine: DWARF's numbers, their offsets in NT_PRSTATUS, and what calls preserve.

See the psABI of each machine ("DWARF register number mapping"), and structs user_regs_struct and user_pt_regs of Linux.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from whence._base.records import Record, field
from whence.objects import machines

if TYPE_CHECKING:
    from whence._base.window import ByteOrder


class TrampolineForm(NamedTuple):
    """Code that a signal handler returns to, and offsets of the interrupted registers from the stack pointer."""

    code: bytes
    registers: dict[int, int]  # DWARF number -> offset
    pc_offset: int


class Machine(Record, frozen=True):
    """Properties of a machine that unwinding needs. `names` are by DWARF number."""

    name: str
    bits: int
    names: dict[int, str]
    sp: int
    fp: int
    link: int | None  # the register with the return address after a call; None: calls push it
    callee_saved: frozenset[int]
    status_size: int  # smallest NT_PRSTATUS with all registers
    status_offsets: dict[int, int]  # DWARF number -> offset in NT_PRSTATUS
    pc_offset: int
    pc_name: str
    # offsets of caller's frame pointer, return address and CFA from the frame pointer; None: frame records are optional
    frame_record: tuple[int, int, int] | None
    returns: tuple[bytes, ...]  # return instructions
    trampolines: tuple[TrampolineForm, ...]
    contexts: tuple[bytes, ...] = ()  # code that functions started by makecontext return to
    back_chain: int | None = None  # offset of the return address from the back chain's target; None: no back chain
    address_mask: int = (1 << 64) - 1  # bits of a code address; others are a signature or the instruction set
    order: ByteOrder = "little"
    instructions: str = ""  # instruction set that can be decoded: x86, a64, arm or ""
    sp_below_cfa: int = 0  # CFA - stack pointer of the caller
    syscall: bytes | None = None  # the instruction
    clones: tuple[bytes, ...] = ()  # system calls clone and clone3
    exits: tuple[bytes, ...] = ()  # code without CFI that a thread's first function returns to
    result: int = 0  # register with a system call's result
    arguments: tuple[int, ...] = ()  # registers of a system call's arguments, in order
    thread_pointer_offset: int | None = None  # in NT_PRSTATUS, if it is there
    wide_offsets: dict[int, tuple[int, int]] = field(default_factory=dict)  # DWARF number -> in NT_FPREGSET

    @property
    def word(self) -> int:
        return self.bits // 8

    def read_status(self, status: bytes, order: ByteOrder) -> tuple[int, dict[int, int]]:
        """Return the pc and the registers by DWARF number of an NT_PRSTATUS."""
        values = {
            offset: int.from_bytes(status[offset : offset + self.word], order)
            for offset in (*self.status_offsets.values(), self.pc_offset)
        }
        return values[self.pc_offset], {number: values[offset] for number, offset in self.status_offsets.items()}

    def thread_pointer(self, status: bytes, order: ByteOrder) -> int:
        """Return the address of thread-local storage by an NT_PRSTATUS, 0 if it is not there."""
        offset = self.thread_pointer_offset
        return 0 if offset is None else int.from_bytes(status[offset : offset + self.word], order)

    def wide_registers(self, floats: bytes) -> dict[int, bytes]:
        """Return the floating-point and vector registers of an NT_FPREGSET, by DWARF number."""
        return {
            number: floats[offset : offset + size]
            for number, (offset, size) in self.wide_offsets.items()
            if offset + size <= len(floats)
        }

    def named(self, pc: int, values: dict[int, int]) -> dict[str, int]:
        """Return registers by name, the pc last."""
        return {**{self.names[number]: value for number, value in values.items()}, self.pc_name: pc}

    def numbered(self, registers: dict[str, int]) -> tuple[int, dict[int, int]]:
        """Return the pc and the registers by DWARF number of registers by name. Others are left out."""
        values = {number: registers[name] for number, name in self.names.items() if name in registers}
        return registers[self.pc_name], values


_X86_64_NAMES = (
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
)  # fmt: skip
_X86_64 = dict(enumerate(_X86_64_NAMES))
# struct user_regs_struct, in words from pr_reg
_X86_64_ORDER = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi",
    "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
)  # fmt: skip
STATUS_REGISTERS = 112  # offset of pr_reg in struct elf_prstatus, 64-bit
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
    callee_saved=frozenset((3, 6, 12, 13, 14, 15)),
    status_size=STATUS_REGISTERS + 8 * len(_X86_64_ORDER),
    status_offsets={n: STATUS_REGISTERS + 8 * _X86_64_ORDER.index(name) for n, name in _X86_64.items()},
    pc_offset=STATUS_REGISTERS + 8 * _X86_64_ORDER.index("rip"),
    pc_name="rip",
    syscall=bytes.fromhex("0f05"),
    arguments=(5, 4, 1, 10, 8, 9),
    clones=(bytes.fromhex("b8380000000f05"), bytes.fromhex("b8b30100000f05")),  # mov $__NR_clone, %eax; syscall
    instructions="x86",
    thread_pointer_offset=STATUS_REGISTERS + 8 * _X86_64_ORDER.index("fs_base"),
    # xmm0 to xmm15, st(0) to st(7) in the layout of FXSAVE
    wide_offsets={
        **{17 + n: (160 + 16 * n, 16) for n in range(16)},
        **{33 + n: (32 + 16 * n, 10) for n in range(8)},
    },
    frame_record=(0, 8, 16),
    returns=(b"\xc3", b"\xc2", b"\xf3\xc3", b"\xf2\xc3"),
    trampolines=(
        TrampolineForm(bytes.fromhex("48c7c00f0000000f05"), _X86_64_CONTEXT, 0xA8),  # mov $__NR_rt_sigreturn, %rax
        TrampolineForm(bytes.fromhex("b80f0000000f05"), _X86_64_CONTEXT, 0xA8),
    ),
    exits=(bytes.fromhex("89c731c0b03c0f05"),),  # musl: mov %eax, %edi; xor %eax, %eax; mov $__NR_exit, %al; syscall
    contexts=(bytes.fromhex("4889dc"),),  # glibc: mov %rbx, %rsp
)

_AARCH64_CONTEXT = 312  # of x0 in struct rt_sigframe: after siginfo (128 bytes) and 184 bytes of ucontext

AARCH64 = Machine(
    name="aarch64",
    bits=64,
    names={**{n: f"x{n}" for n in range(31)}, 31: "sp"},
    sp=31,
    fp=29,
    link=30,
    callee_saved=frozenset(range(19, 30)),
    status_size=STATUS_REGISTERS + 8 * 34,
    status_offsets={n: STATUS_REGISTERS + 8 * n for n in range(32)},
    pc_offset=STATUS_REGISTERS + 8 * 32,
    pc_name="pc",
    instructions="a64",
    frame_record=(0, 8, 16),
    returns=(bytes.fromhex("c0035fd6"), bytes.fromhex("ff0b5fd6"), bytes.fromhex("ff0f5fd6")),  # ret, retaa, retab
    trampolines=(
        TrampolineForm(  # mov x8, #__NR_rt_sigreturn; svc 0
            bytes.fromhex("681180d2010000d4"), {n: _AARCH64_CONTEXT + 8 * n for n in range(32)}, 568
        ),
    ),
    contexts=(bytes.fromhex("1f2003d5e00313aa"),),  # glibc: nop; mov x0, x19
    wide_offsets={64 + n: (16 * n, 16) for n in range(32)},
    address_mask=(1 << 48) - 1,  # without the pointer authentication code
)

STATUS_REGISTERS_32 = 72  # offset of pr_reg in struct elf_prstatus, 32-bit

_I386 = dict(enumerate(("eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi")))
# struct user_regs_struct, in words from pr_reg
_I386_ORDER = (
    "ebx", "ecx", "edx", "esi", "edi", "ebp", "eax", "ds", "es", "fs", "gs", "orig_eax", "eip", "cs", "eflags", "esp",
    "ss",
)  # fmt: skip
_I386_CONTEXT_REGISTERS = {7: 16, 6: 20, 5: 24, 4: 28, 3: 32, 2: 36, 1: 40, 0: 44}  # in struct sigcontext
_I386_CONTEXT_PC = 56
# offset from the stack pointer: after the signal number, or in struct ucontext after three words and siginfo
_I386_OLD_CONTEXT, _I386_CONTEXT = 4, 160

I386 = Machine(
    name="i386",
    bits=32,
    names=_I386,
    sp=4,
    fp=5,
    link=None,
    callee_saved=frozenset((3, 5, 6, 7)),
    status_size=STATUS_REGISTERS_32 + 4 * len(_I386_ORDER),
    status_offsets={n: STATUS_REGISTERS_32 + 4 * _I386_ORDER.index(name) for n, name in _I386.items()},
    pc_offset=STATUS_REGISTERS_32 + 4 * _I386_ORDER.index("eip"),
    pc_name="eip",
    syscall=bytes.fromhex("cd80"),
    arguments=(3, 1, 2, 6, 7),  # without the sixth: __kernel_vsyscall passes ebp on the stack
    clones=(bytes.fromhex("b878000000cd80"), bytes.fromhex("b8b3010000cd80")),  # mov $__NR_clone, %eax; int $0x80
    instructions="x86",
    frame_record=(0, 4, 8),
    returns=(b"\xc3", b"\xc2", b"\xf3\xc3", b"\xf2\xc3"),
    trampolines=(
        TrampolineForm(  # mov $__NR_rt_sigreturn, %eax; int $0x80
            bytes.fromhex("b8ad000000cd80"),
            {n: _I386_CONTEXT + offset for n, offset in _I386_CONTEXT_REGISTERS.items()},
            _I386_CONTEXT + _I386_CONTEXT_PC,
        ),
        TrampolineForm(  # pop %eax; mov $__NR_sigreturn, %eax; int $0x80
            bytes.fromhex("58b877000000cd80"),
            {n: _I386_OLD_CONTEXT + offset for n, offset in _I386_CONTEXT_REGISTERS.items()},
            _I386_OLD_CONTEXT + _I386_CONTEXT_PC,
        ),
    ),
    exits=(bytes.fromhex("89c331c040cd80"),),  # musl: mov %eax, %ebx; xor %eax, %eax; inc %eax; int $0x80
    contexts=(bytes.fromhex("8d249c"),),  # glibc: lea (%esp, %ebx, 4), %esp
    address_mask=(1 << 32) - 1,
)

_ARM_CONTEXT, _ARM_OLD_CONTEXT = 160, 32  # of r0: after 8 words of ucontext, and siginfo (128 bytes) or not

ARM = Machine(
    name="arm",
    bits=32,
    names={**{n: f"r{n}" for n in range(13)}, 13: "sp", 14: "lr"},
    sp=13,
    fp=11,
    link=14,
    callee_saved=frozenset(range(4, 12)),
    status_size=STATUS_REGISTERS_32 + 4 * 18,
    status_offsets={n: STATUS_REGISTERS_32 + 4 * n for n in range(15)},
    pc_offset=STATUS_REGISTERS_32 + 4 * 15,
    pc_name="pc",
    frame_record=(-4, 0, 4),
    returns=(),
    trampolines=tuple(
        TrampolineForm(bytes.fromhex(code), {n: offset + 4 * n for n in range(15)}, offset + 4 * 15)
        for code, offset in (
            ("ad70a0e3000000ef", _ARM_CONTEXT),  # mov r7, #__NR_rt_sigreturn; svc 0, A32 and Thumb
            ("ad2700df", _ARM_CONTEXT),
            ("7770a0e3000000ef", _ARM_OLD_CONTEXT),
            ("772700df", _ARM_OLD_CONTEXT),
            ("4ff0ad0700df", _ARM_CONTEXT),  # mov.w
            ("4ff0770700df", _ARM_OLD_CONTEXT),
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
    address_mask=0xFFFFFFFE,  # the lowest bit marks Thumb code
)

_RISCV_NAMES = (
    "x0", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", *(f"a{n}" for n in range(8)),
    *(f"s{n}" for n in range(2, 12)), "t3", "t4", "t5", "t6",
)  # fmt: skip
_RISCV_CONTEXT = 304  # of the pc, then x1: after siginfo (128 bytes) and 176 bytes of ucontext

RISCV64 = Machine(
    name="riscv64",
    bits=64,
    names={n: name for n, name in enumerate(_RISCV_NAMES) if n},
    sp=2,
    fp=8,
    link=1,
    callee_saved=frozenset((8, 9, *range(18, 28))),
    status_size=STATUS_REGISTERS + 8 * 32,
    status_offsets={n: STATUS_REGISTERS + 8 * n for n in range(1, 32)},
    pc_offset=STATUS_REGISTERS,
    pc_name="pc",
    frame_record=(-16, -8, 0),
    returns=(),
    trampolines=(
        TrampolineForm(  # li a7, __NR_rt_sigreturn; ecall
            bytes.fromhex("9308b00873000000"),
            {n: _RISCV_CONTEXT + 8 * n for n in range(1, 32)},
            _RISCV_CONTEXT,
        ),
    ),
)

_PPC_LINK, _PPC_CTR, _PPC_NIP = 36, 35, 32  # in struct pt_regs, in words
_PPC64_LINK_NUMBER, _PPC64_CTR_NUMBER = 65, 66
_PPC64_CONTEXT = 368  # of r0: after the handler's frame (128 bytes) and the heads of ucontext (176) and sigcontext (64)

PPC64LE = Machine(
    name="ppc64le",
    bits=64,
    names={**{n: f"r{n}" for n in range(32)}, _PPC64_LINK_NUMBER: "lr", _PPC64_CTR_NUMBER: "ctr"},
    sp=1,
    fp=31,
    link=_PPC64_LINK_NUMBER,
    callee_saved=frozenset(range(14, 32)),
    status_size=STATUS_REGISTERS + 8 * 48,
    status_offsets={
        **{n: STATUS_REGISTERS + 8 * n for n in range(32)},
        _PPC64_LINK_NUMBER: STATUS_REGISTERS + 8 * _PPC_LINK,
        _PPC64_CTR_NUMBER: STATUS_REGISTERS + 8 * _PPC_CTR,
    },
    pc_offset=STATUS_REGISTERS + 8 * _PPC_NIP,
    pc_name="pc",
    frame_record=None,
    back_chain=16,
    returns=(),
    trampolines=(
        TrampolineForm(  # addi r1, r1, 128; li r0, __NR_rt_sigreturn; sc
            bytes.fromhex("80002138ac00003802000044"),
            {
                **{n: _PPC64_CONTEXT + 8 * n for n in range(32)},
                _PPC64_LINK_NUMBER: _PPC64_CONTEXT + 8 * _PPC_LINK,
                _PPC64_CTR_NUMBER: _PPC64_CONTEXT + 8 * _PPC_CTR,
            },
            _PPC64_CONTEXT + 8 * _PPC_NIP,
        ),
    ),
)

# of the PSW: after 160 bytes of the handler's frame, 8 of code, siginfo and the head of ucontext; or struct sigcontext
_S390_CONTEXT, _S390_OLD_CONTEXT = 336, 176

S390X = Machine(
    name="s390x",
    bits=64,
    names={n: f"r{n}" for n in range(16)},
    sp=15,
    fp=11,
    link=14,
    callee_saved=frozenset((*range(6, 14), *range(24, 32))),
    status_size=STATUS_REGISTERS + 8 * 18,
    status_offsets={n: STATUS_REGISTERS + 16 + 8 * n for n in range(16)},
    pc_offset=STATUS_REGISTERS + 8,
    pc_name="pc",
    frame_record=None,
    back_chain=112,  # code built with -mbackchain
    returns=(),
    trampolines=tuple(
        TrampolineForm(bytes.fromhex(code), {n: offset + 16 + 8 * n for n in range(16)}, offset + 8)
        for code, offset in (("0aad", _S390_CONTEXT), ("0a77", _S390_OLD_CONTEXT))  # svc __NR_rt_sigreturn, sigreturn
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
