"""Machines by the numbers that ELF gives them (e_machine of the gABI), for object files of every format."""

from __future__ import annotations

from whence.objects.elf.kernels.constants import (
    EM_386,
    EM_AARCH64,
    EM_ARM,
    EM_BPF,
    EM_IA_64,
    EM_LOONGARCH,
    EM_MIPS,
    EM_PPC,
    EM_PPC64,
    EM_RISCV,
    EM_S390,
    EM_SPARCV9,
    EM_X86_64,
)

__all__ = [
    "APPLE_ADDRESS_MASK",
    "EM_386",
    "EM_AARCH64",
    "EM_ARM",
    "EM_MIPS",
    "EM_PPC",
    "EM_PPC64",
    "EM_RISCV",
    "EM_S390",
    "EM_WASM",
    "EM_X86_64",
    "MACHINES",
    "machine_name",
]

EM_WASM = 0x4157  # no number of the gABI: WebAssembly has no ELF files; LLVM uses this one
APPLE_ADDRESS_MASK = (1 << 47) - 1  # bits of an address on macOS and iOS; those above authenticate pointers of arm64e

MACHINES = {
    EM_386: "i386",
    EM_MIPS: "mips",
    EM_PPC: "ppc",
    EM_PPC64: "ppc64",
    EM_S390: "s390x",
    EM_ARM: "arm",
    EM_SPARCV9: "sparc64",
    EM_IA_64: "ia64",
    EM_X86_64: "x86-64",
    EM_AARCH64: "aarch64",
    EM_RISCV: "riscv",
    EM_BPF: "bpf",
    EM_LOONGARCH: "loongarch",
    EM_WASM: "wasm32",
}


def machine_name(number: int) -> str:
    """Return the usual name of a machine, "machine N" if it is unknown."""
    return MACHINES.get(number, f"machine {number}")
