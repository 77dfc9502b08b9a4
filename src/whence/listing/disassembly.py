"""Machine code to instructions, by capstone (the extra `whence[asm]`), which is imported with the first listing.

Capstone stops at a byte that it cannot decode; here such bytes become `.byte` instructions of the smallest size that
the machine has. docs/decisions/capstone.md compares disassemblers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from whence._base.errors import Unsupported
from whence._base.records import Record
from whence.objects.machines import (
    EM_386,
    EM_AARCH64,
    EM_ARM,
    EM_MIPS,
    EM_PPC64,
    EM_RISCV,
    EM_S390,
    EM_X86_64,
    machine_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from whence._base.window import ByteOrder

SYNTAXES = ("intel", "att")
BRANCH_TARGET = re.compile(r"(?:^|[ ,(])#?(-?0x[0-9a-f]+|-?\d+)$")


class Machine(NamedTuple):
    """How capstone decodes a machine, and which of its instructions have an address as their last operand.

    `architecture` and `modes` are names in capstone, without their prefixes. `jumps` and `calls` are patterns of
    mnemonics.
    """

    architecture: str
    modes: tuple[str, ...]
    jumps: str
    calls: str
    has_order: bool = False  # code is in the byte order of the file
    is_relative: bool = False  # capstone prints the distance of a target


CONDITIONS = "(?:eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al)"
MACHINES = {
    EM_X86_64: Machine("X86", ("64",), r"(?:bnd |notrack )?(?:j\w+|loop\w*|xbegin)", r"(?:bnd )?l?call[ql]?"),
    EM_386: Machine("X86", ("32",), r"j\w+|loop\w*|xbegin", r"l?call[ql]?"),
    EM_AARCH64: Machine("ARM64", ("ARM",), r"bc?(?:\.\w+)?|cbn?z|tbn?z", "bl"),
    EM_ARM: Machine("ARM", ("ARM",), rf"b{CONDITIONS}?(?:\.[wn])?|cbn?z", rf"blx?{CONDITIONS}?"),
    EM_RISCV: Machine("RISCV", ("RISCV64", "RISCVC"), r"(?:c\.)?(?:j|b\w+)", r"(?:c\.)?jal", is_relative=True),
    EM_PPC64: Machine("PPC", ("64",), r"b(?!la?$)[\w+-]*", "bla?", has_order=True),
    EM_S390: Machine("SYSZ", (), r"j\w*|brc[tl]?\w*|c\w*r?[bj]\w*", "brasl?"),
    EM_MIPS: Machine("MIPS", ("MIPS64",), r"j|b(?!al$)\w*", "jalx?|bal", has_order=True),
}  # fmt: skip


class Decoded(NamedTuple):
    """An instruction as the disassembler prints it; `target` is the vaddr that it jumps to or calls, 0 if unknown."""

    vaddr: int
    size: int
    mnemonic: str
    operands: str
    target: int
    is_call: bool


class CodeKind(Record, frozen=True):
    """The kind of a part of the code: instructions, Thumb instructions, or data between functions."""

    is_thumb: bool = False
    is_data: bool = False


CODE, THUMB, DATA = CodeKind(), CodeKind(is_thumb=True), CodeKind(is_data=True)


class Disassembler:
    """Decodes the code of one machine.

    Args:
        machine: a number of `whence.objects.machines`.
        bits, order: those of the object file.
        syntax: "intel" or "att", for x86.

    Raises Unsupported for other machines, ImportError without capstone.
    """

    def __init__(self, machine: int, bits: int = 64, order: ByteOrder = "little", syntax: str = "intel") -> None:
        if syntax not in SYNTAXES:
            raise ValueError(f"unknown syntax {syntax!r}: give intel or att")
        if machine not in MACHINES:
            supported = ", ".join(machine_name(number) for number in MACHINES)
            raise Unsupported(f"no disassembler for {machine_name(machine)} (only for {supported})")
        self.machine, self.bits, self.order, self.syntax = machine, bits, order, syntax
        self._engines: dict[CodeKind, Any] = {}
        self._engine(CODE)

    def _engine(self, kind: CodeKind) -> Any:
        """Return capstone's object for a kind of code."""
        if kind not in self._engines:
            capstone = imported_capstone()
            machine = MACHINES[self.machine]
            modes = machine.modes
            if self.machine == EM_RISCV and self.bits == 32:
                modes = ("RISCV32", "RISCVC")
            elif self.machine == EM_MIPS and self.bits == 32:
                modes = ("MIPS32",)
            if kind.is_thumb:
                modes = ("THUMB",)
            mode = sum(getattr(capstone, f"CS_MODE_{name}") for name in modes)
            if self.machine == EM_S390 or (machine.has_order and self.order == "big"):
                mode |= capstone.CS_MODE_BIG_ENDIAN
            engine = capstone.Cs(getattr(capstone, f"CS_ARCH_{machine.architecture}"), mode)
            engine.skipdata = True
            if machine.architecture == "X86" and self.syntax == "att":
                engine.syntax = capstone.CS_OPT_SYNTAX_ATT
            self._engines[kind] = engine
        return self._engines[kind]

    def decode(self, code: bytes, vaddr: int, kind: CodeKind = CODE) -> Iterator[Decoded]:
        """Yield the instructions of code that is at `vaddr`. Bytes that are not code become `.byte` instructions."""
        if kind.is_data:
            yield from as_words(code, vaddr, self.order)
            return
        machine = MACHINES[self.machine]
        end = vaddr
        is_jump, is_call = re.compile(machine.jumps).fullmatch, re.compile(machine.calls).fullmatch
        for start, size, mnemonic, operands in self._engine(kind).disasm_lite(code, vaddr):
            target, call = 0, False
            if "0x" in operands or machine.is_relative:
                call = is_call(mnemonic) is not None
                if call or is_jump(mnemonic):
                    match = BRANCH_TARGET.search(operands)
                    if match:
                        target = int(match[1], 0)
                        if machine.is_relative:
                            target += start
                            operands = f"{operands[: match.start(1)]}{target:#x}"
            yield Decoded(start, size, mnemonic, operands, target, call)
            end = start + size
        yield from as_words(code[end - vaddr :], end, self.order)  # less than an instruction


def as_words(data: bytes, vaddr: int, order: ByteOrder) -> Iterator[Decoded]:
    """Yield data in code as `.word` and `.byte` instructions."""
    offset = 0
    while offset < len(data):
        size = 4 if not (vaddr + offset) & 3 and offset + 4 <= len(data) else 1
        value = int.from_bytes(data[offset : offset + size], order)
        yield Decoded(vaddr + offset, size, ".word" if size == 4 else ".byte", f"{value:#x}", 0, False)
        offset += size


def imported_capstone() -> Any:
    """Import capstone. Raises ImportError that says how to install it."""
    try:
        import capstone
    except ImportError as error:
        message = "disassembly needs capstone, which is not installed: pip install 'whence[asm]'"
        raise ImportError(message, name="capstone") from error
    return capstone
