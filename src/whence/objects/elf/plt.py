"""The stubs of the procedure linkage table, named after what they jump to: `puts@plt`.

No symbol names a stub. Each loads its target from a slot of the GOT, and a relocation says which symbol's address the
loader puts there; so the stub's own instructions are decoded to the slot, which needs no knowledge of how a linker
lays out its sections (.plt, .plt.sec with CET, .plt.got, with or without a header, BTI or PAC).

    x86-64    [endbr64] [bnd] jmp *slot(%rip)            8 or 16 bytes; or [endbr64] push index; [bnd] jmp PLT0
    i386      [endbr32] jmp *slot, or jmp *offset(%ebx) with the GOT's address in ebx     8 or 16 bytes
    aarch64   [bti c] adrp x16, slot; ldr x17, [x16, slot]; add; [autia] br x17     16 or 24 bytes
    arm       [bx pc; ...] add ip, pc, a; add ip, ip, b; ldr pc, [ip, c]!     12 or 16 bytes
    s390x     larl %r1, slot; lg %r1, 0(%r1); br %r1     32 bytes
    riscv     auipc t3, slot; l[wd] t3, slot(t3); jalr t1, t3; nop     16 bytes
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Iterator

from whence._base.budget import Budget
from whence._base.errors import ElfError
from whence._base.records import NamedTuple
from whence._base.window import cstring
from whence.objects.elf import layout
from whence.objects.elf.kernels import constants
from whence.objects.elf.layout import ELF64
from whence.objects.elf.sections import Section
from whence.objects.elf.symbols import SymbolTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence.objects.elf.file import ElfFile

SECTIONS = (".plt", ".plt.sec", ".plt.got", ".plt.bnd", ".iplt")
REL_SIZE = 8  # of a relocation without an addend in 32-bit files, which i386 counts in
NAME_LIMIT = 4096
NAMES_TIMES, NAMES_ALLOWANCE = 16, 1 << 20  # of the names in the file, what those of stubs may take together

ENDBR64, ENDBR32, BND, PUSH = b"\xf3\x0f\x1e\xfa", b"\xf3\x0f\x1e\xfb", 0xF2, 0x68
JUMP, JUMP_BY_EBX = b"\xff\x25", b"\xff\xa3"
BTI_C, AUTIA1716 = 0xD503245F, 0xD503219F
# which bits of an instruction identify it, and what they are: adrp x16, page; ldr x17, [x16, offset]
ADRP_X16_MASK, ADRP_X16 = 0x9F00001F, 0x90000010
LDR_X17_X16_MASK, LDR_X17_X16 = 0xFFC003FF, 0xF9400211
# add ip, pc, rotated; add ip, ip, rotated; ldr pc, [ip, #offset]!
ADD_MASK, ADD_IP_PC, ADD_IP_IP, LDR_PC_IP_MASK, LDR_PC_IP = 0xFFFFF000, 0xE28FC000, 0xE28CC000, 0xFFFFF000, 0xE5BCF000
ENTRIES_FROM_THUMB = (0x46C04778, 0xE7FD4778)  # bx pc, and an instruction that is not executed
LARL_R1, LG_R1_R1 = b"\xc0\x10", bytes.fromhex("e31010000004")
# auipc t3, page; lw or ld t3, offset(t3)
AUIPC_T3_MASK, AUIPC_T3, LOAD_T3_MASK, LOADS_T3 = 0xFFF, 0xE17, 0xFFFFF, (0xE2E03, 0xE3E03)


def stubs(elf: ElfFile) -> list[tuple[int, int, bytes]]:
    """Return (vaddr, size, name of the target) of every stub whose target has a name; [] for other machines."""
    machine = MACHINES.get(elf.machine)
    table = elf.symbol_table(".dynsym")
    named = [section for name in SECTIONS if isinstance(section := elf.section(name), Section)]
    sections = [s for s in named if s.executable and s.vaddr + s.size < 1 << 64]
    if machine is None or table is None or not sections:
        return []
    jumps = [jump for section in sections for jump in machine.decode(elf, section)]
    lazy = _relocations(elf, "plt", machine.jump_slot)
    order = list(lazy.values())
    missing = {slot for _, _, slot in jumps if slot >= 0 and slot not in lazy}
    eager = _relocations(elf, "dyn", machine.global_data, missing) if missing else {}
    names = Budget(
        table.names_part, "names of stubs", len(table.names), times=NAMES_TIMES, allowance=NAMES_ALLOWANCE,
        error=ElfError,
    )  # fmt: skip
    named_stubs = []
    for vaddr, size, slot in jumps:
        if slot < 0:
            symbol = order[~slot] if ~slot < len(order) else 0
        else:
            symbol = lazy.get(slot) or eager.get(slot, 0)
        name = _name(elf, table, symbol) if symbol else b""
        if name:
            names.charge(len(name))
            named_stubs.append((vaddr, size, name))
    return named_stubs


def slot_names(elf: ElfFile) -> dict[int, bytes]:
    """Return the name of the symbol whose address the loader puts into each slot of the GOT, by the slot's vaddr."""
    machine = MACHINES.get(elf.machine)
    table = elf.symbol_table(".dynsym")
    if machine is None or table is None:
        return {}
    slots = _relocations(elf, "plt", machine.jump_slot)
    slots |= _relocations(elf, "dyn", machine.global_data)
    names = Budget(
        table.names_part, "names of slots", len(table.names), times=NAMES_TIMES, allowance=NAMES_ALLOWANCE,
        error=ElfError,
    )  # fmt: skip
    name_of = {}
    for slot, symbol in slots.items():
        name = _name(elf, table, symbol) if symbol else b""
        if name:
            names.charge(len(name))
            name_of[slot] = name
    return name_of


def _x86_64(elf: ElfFile, section: Section) -> Iterator[tuple[int, int, int]]:
    """Yield (vaddr, size, slot) of every stub; ~index as the slot of a stub that pushes the index of its relocation."""
    code = bytes(elf.content(section))
    stride = 8 if section.entry_size == 8 else 16
    for start in range(0, len(code) - stride + 1, stride):
        offset = start
        if code.startswith(ENDBR64, offset):
            offset += len(ENDBR64)
        if code[offset] == PUSH and offset > start:
            yield section.vaddr + start, stride, ~int.from_bytes(code[offset + 1 : offset + 5], "little")
            continue
        if code[offset] == BND:
            offset += 1
        if code.startswith(JUMP, offset) and offset + 6 <= len(code):
            (distance,) = struct.unpack_from("<i", code, offset + 2)
            slot = section.vaddr + offset + 6 + distance
            if slot >= 0:
                yield section.vaddr + start, stride, slot


def _i386(elf: ElfFile, section: Section) -> Iterator[tuple[int, int, int]]:
    code = bytes(elf.content(section))
    stride = 8 if section.entry_size == 8 or section.name == ".plt.got" else 16
    got = elf.section(".got.plt") or elf.section(".got")
    for start in range(0, len(code) - stride + 1, stride):
        offset = start
        if code.startswith(ENDBR32, offset):
            offset += len(ENDBR32)
        operand = int.from_bytes(code[offset + 2 : offset + 6], "little")
        if code[offset] == PUSH and offset > start:
            number = int.from_bytes(code[offset + 1 : offset + 5], "little") // REL_SIZE
            yield section.vaddr + start, stride, ~number
        elif code.startswith(JUMP, offset):
            yield section.vaddr + start, stride, operand
        elif code.startswith(JUMP_BY_EBX, offset) and got is not None:
            yield section.vaddr + start, stride, (got.vaddr + operand) % (1 << 32)


def _aarch64(elf: ElfFile, section: Section) -> Iterator[tuple[int, int, int]]:
    code = bytes(elf.content(section))
    instructions = [
        word for (word,) in struct.iter_unpack("<I", code[: len(code) & ~3])
    ]  # code is little-endian always
    index = 0
    while index + 3 < len(instructions):
        first, second = instructions[index], instructions[index + 1]
        if first & ADRP_X16_MASK != ADRP_X16 or second & LDR_X17_X16_MASK != LDR_X17_X16:
            index += 1
            continue
        vaddr = section.vaddr + 4 * index
        pages = (first >> 5 & 0x7FFFF) << 2 | first >> 29 & 3
        pages -= (pages & 1 << 20) << 1
        slot = (vaddr & ~0xFFF) + (pages << 12) + (second >> 10 & 0xFFF) * 8
        marked = index > 0 and instructions[index - 1] == BTI_C
        size = 24 if marked or instructions[index + 3] == AUTIA1716 else 16  # AUTIA1716 precedes the branch
        if slot >= 0:
            yield vaddr - 4 * marked, size, slot
        index += 4


def _arm(elf: ElfFile, section: Section) -> Iterator[tuple[int, int, int]]:
    code = bytes(elf.content(section))
    instructions = [word for (word,) in struct.iter_unpack("<I", code[: len(code) & ~3])]
    index = 0
    while index + 2 < len(instructions):
        first, second, third = instructions[index : index + 3]
        if (first & ADD_MASK, second & ADD_MASK, third & LDR_PC_IP_MASK) != (ADD_IP_PC, ADD_IP_IP, LDR_PC_IP):
            index += 1
            continue
        vaddr = section.vaddr + 4 * index
        slot = (vaddr + 8 + _rotated(first) + _rotated(second) + (third & 0xFFF)) % (1 << 32)
        marked = index > 0 and instructions[index - 1] in ENTRIES_FROM_THUMB
        yield vaddr - 4 * marked, 12 + 4 * marked, slot
        index += 3


def _rotated(instruction: int) -> int:
    """Return the immediate operand of an ARM instruction."""
    right = (instruction >> 8 & 0xF) * 2
    value = instruction & 0xFF
    return (value >> right | value << 32 - right) & 0xFFFFFFFF


def _s390x(elf: ElfFile, section: Section) -> Iterator[tuple[int, int, int]]:
    code = bytes(elf.content(section))
    for start in range(0, len(code) - 31, 32):
        if code.startswith(LARL_R1, start) and code.startswith(LG_R1_R1, start + 6):
            (halfwords,) = struct.unpack_from(">i", code, start + 2)
            vaddr = section.vaddr + start
            yield vaddr, 32, (vaddr + 2 * halfwords) % (1 << 64)


def _riscv(elf: ElfFile, section: Section) -> Iterator[tuple[int, int, int]]:
    code = bytes(elf.content(section))
    end = 1 << elf.bits
    for start in range(0, len(code) - 15, 16):
        first, second = struct.unpack_from("<2I", code, start)
        if first & AUIPC_T3_MASK == AUIPC_T3 and second & LOAD_T3_MASK in LOADS_T3:
            page = (first & 0xFFFFF000) - ((first & 1 << 31) << 1)
            offset = (second >> 20) - ((second >> 31) << 12)
            vaddr = section.vaddr + start
            yield vaddr, 16, (vaddr + page + offset) % end


def _relocations(elf: ElfFile, suffix: str, kind: int, only: set[int] | None = None) -> dict[int, int]:
    """Return slot -> symbol index of the relocations of one kind, in the order of .rela.SUFFIX or .rel.SUFFIX."""
    wide = elf.bits == ELF64
    shift = constants.ELF64_R_SYM_SHIFT if wide else constants.ELF32_R_SYM_SHIFT
    type_mask = (1 << shift) - 1
    result: dict[int, int] = {}
    for prefix, words in ((".rela", 3), (".rel", 2)):
        content = elf.content(f"{prefix}.{suffix}")
        numbers = array("Q" if wide else "I")
        numbers.frombytes(content[: len(content) - len(content) % (numbers.itemsize * words)])
        if elf.order != sys.byteorder:
            numbers.byteswap()
        slots, infos = numbers[0::words], numbers[1::words]
        result |= {
            slot: info >> shift
            for slot, info in zip(slots, infos)
            if info & type_mask == kind and (only is None or slot in only)
        }
    return result


def _name(elf: ElfFile, table: SymbolTable, symbol: int) -> bytes:
    offset = symbol * layout.SYMBOL_SIZE[elf.bits]
    if offset + 4 > len(table.entries):
        return b""
    start = int.from_bytes(table.entries[offset : offset + 4], elf.order)
    return cstring(table.names[: start + NAME_LIMIT], start)


class StubMachine(NamedTuple):
    """How a machine's stubs are decoded, and the types of the relocations that fill their slots."""

    decode: Callable[[ElfFile, Section], Iterator[tuple[int, int, int]]]
    jump_slot: int
    global_data: int


MACHINES = {
    constants.EM_X86_64: StubMachine(_x86_64, constants.R_X86_64_JUMP_SLOT, constants.R_X86_64_GLOB_DAT),
    constants.EM_386: StubMachine(_i386, constants.R_386_JMP_SLOT, constants.R_386_GLOB_DAT),
    constants.EM_AARCH64: StubMachine(_aarch64, constants.R_AARCH64_JUMP_SLOT, constants.R_AARCH64_GLOB_DAT),
    constants.EM_ARM: StubMachine(_arm, constants.R_ARM_JUMP_SLOT, constants.R_ARM_GLOB_DAT),
    constants.EM_S390: StubMachine(_s390x, constants.R_390_JMP_SLOT, constants.R_390_GLOB_DAT),
    constants.EM_RISCV: StubMachine(_riscv, constants.R_RISCV_JUMP_SLOT, constants.R_RISCV_64),
}
