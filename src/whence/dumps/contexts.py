"""Registers of a thread in a minidump: the CONTEXT structure of each machine.

A context is as long as its writer made it: floating-point registers at the end may be missing. Stored registers are
read even if the flags do not name them. Floating-point and vector registers of x86-64 and aarch64 are converted from
and to the form that NT_FPREGSET has in cores; those of other machines are left out.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from whence.objects.machines import EM_386, EM_AARCH64, EM_ARM, EM_X86_64

if TYPE_CHECKING:
    from whence._base.window import ByteOrder


class ContextForm(NamedTuple):
    """Offsets of registers by name, the pc last; `word` is their size, `flags_offset` that of CONTEXT's flags."""

    offsets: dict[str, int]
    word: int
    pc: str
    sp: str
    flags_offset: int
    flag: int  # of ContextFlags: the machine
    full_size: int


_X86_64_NAMES = (
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip",
)  # fmt: skip
_I386_NAMES = "edi", "esi", "ebx", "edx", "ecx", "eax", "ebp", "eip"

FORMS = {
    EM_X86_64: ContextForm(
        {name: 120 + 8 * index for index, name in enumerate(_X86_64_NAMES)}, 8, "rip", "rsp", 48, 0x100000, 1232
    ),
    EM_386: ContextForm(
        {**{name: 156 + 4 * index for index, name in enumerate(_I386_NAMES)}, "esp": 196}, 4, "eip", "esp", 0, 0x10000,
        716,
    ),
    EM_ARM: ContextForm(
        {**{f"r{n}": 4 + 4 * n for n in range(13)}, "sp": 56, "lr": 60, "pc": 64}, 4, "pc", "sp", 0, 0x40000000, 368
    ),
    EM_AARCH64: ContextForm(
        {**{f"x{n}": 8 + 8 * n for n in range(31)}, "sp": 256, "pc": 264}, 8, "pc", "sp", 0, 0x400000, 912
    ),
}  # fmt: skip


def read_context(context: memoryview, machine: int, order: ByteOrder) -> dict[str, int]:
    """Return the registers by name; {} for an unknown machine or a context without all of them.

    >>> read_context(memoryview(bytes(272)), EM_AARCH64, "little")["pc"]
    0
    """
    form = FORMS.get(machine)
    if form is None or max(form.offsets.values()) + form.word > len(context):
        return {}
    letter = ("<" if order == "little" else ">") + ("Q" if form.word == 8 else "I")
    return {name: struct.unpack_from(letter, context, offset)[0] for name, offset in form.offsets.items()}


# (offset in the context, offset in NT_FPREGSET, bytes) of floating-point and vector registers; the flag that names them
WIDE = {
    EM_X86_64: (((256, 0, 512),), 8),  # FXSAVE in both
    EM_AARCH64: (((272, 0, 512), (788, 512, 4), (784, 516, 4)), 4),  # V0 to V31, FPSR, FPCR
}
MXCSR_OF_X86_64 = 52, 24  # a second copy in the context; in FXSAVE


def read_wide(context: memoryview, machine: int) -> bytes:
    """Return the floating-point and vector registers as NT_FPREGSET has them; b"" if the context has none."""
    parts, flag = WIDE.get(machine, ((), 0))
    flags = int.from_bytes(context[FORMS[machine].flags_offset :][:4], "little") if parts else 0
    if not flags & flag or any(start + size > len(context) for start, _, size in parts):
        return b""
    wide = bytearray(sum(size for _, _, size in parts))
    for start, offset, size in parts:
        wide[offset : offset + size] = context[start : start + size]
    return bytes(wide)


def machine_of_context(context: memoryview, order: ByteOrder) -> int:
    """Return the machine that a context is of, by its flags, for a minidump that does not say; 0 if unknown."""
    for machine, form in FORMS.items():
        flags = int.from_bytes(context[form.flags_offset : form.flags_offset + 4], order)
        if flags & ~0xFFFF == form.flag and read_context(context, machine, order):
            return machine
    return 0


def write_context(registers: dict[str, int], machine: int, wide: bytes = b"") -> bytes:
    """Return a context with these registers, little-endian; b"" for a machine without a known form.

    `wide` are the floating-point and vector registers as NT_FPREGSET has them.
    """
    form = FORMS.get(machine)
    if form is None:
        return b""
    context = bytearray(form.full_size)
    struct.pack_into("<I", context, form.flags_offset, form.flag | (3 if machine != EM_ARM else 2))
    for name, offset in form.offsets.items():
        value = registers.get(name, 0) & (1 << 8 * form.word) - 1
        context[offset : offset + form.word] = value.to_bytes(form.word, "little")
    parts, flag = WIDE.get(machine, ((), 0))
    if parts and len(wide) >= max(offset + size for _, offset, size in parts):
        context[form.flags_offset] |= flag
        for start, offset, size in parts:
            context[start : start + size] = wide[offset : offset + size]
        if machine == EM_X86_64:
            copy, offset = MXCSR_OF_X86_64
            context[copy : copy + 4] = wide[offset : offset + 4]
    return bytes(context)
