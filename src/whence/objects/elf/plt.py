"""The stubs of the procedure linkage table, named after what they jump to: `puts@plt`.

No symbol names a stub. Each loads its target from a slot of the GOT, and a relocation says which symbol's address the
loader puts there; so the stub's own instructions are decoded to the slot, which needs no knowledge of how a linker
lays out its sections (.plt, .plt.sec with CET, .plt.got, with or without a header, BTI or PAC).

    x86-64    [endbr64] [bnd] jmp *slot(%rip)            8 or 16 bytes; or [endbr64] push index; [bnd] jmp PLT0
    aarch64   [bti c] adrp x16, slot; ldr x17, [x16, slot]; add; [autia] br x17     16 or 24 bytes
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator

from whence._base.budget import Budget
from whence._base.errors import ElfError
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
JUMP_SLOT = {
    constants.EM_X86_64: constants.R_X86_64_JUMP_SLOT,
    constants.EM_AARCH64: constants.R_AARCH64_JUMP_SLOT,
}
GLOB_DAT = {
    constants.EM_X86_64: constants.R_X86_64_GLOB_DAT,
    constants.EM_AARCH64: constants.R_AARCH64_GLOB_DAT,
}
RELA_WORDS = 3  # r_offset, r_info, r_addend
R_TYPE_MASK = (1 << constants.ELF64_R_SYM_SHIFT) - 1
NAME_LIMIT = 4096
NAMES_TIMES, NAMES_ALLOWANCE = 16, 1 << 20  # of the names in the file, what those of stubs may take together

ENDBR64, BND, JUMP, PUSH = b"\xf3\x0f\x1e\xfa", 0xF2, b"\xff\x25", 0x68
BTI_C, AUTIA1716 = 0xD503245F, 0xD503219F
# which bits of an instruction identify it, and what they are: adrp x16, page; ldr x17, [x16, offset]
ADRP_X16_MASK, ADRP_X16 = 0x9F00001F, 0x90000010
LDR_X17_X16_MASK, LDR_X17_X16 = 0xFFC003FF, 0xF9400211


def stubs(elf: ElfFile) -> list[tuple[int, int, bytes]]:
    """Return (vaddr, size, name of the target) of every stub whose target has a name; [] for other machines."""
    if elf.bits != ELF64 or elf.machine not in JUMP_SLOT:
        return []
    table = elf.symbol_table(".dynsym")
    named = [section for name in SECTIONS if isinstance(section := elf.section(name), Section)]
    sections = [s for s in named if s.executable and s.vaddr + s.size < 1 << 64]
    if table is None or not sections:
        return []
    decode = _x86_64 if elf.machine == constants.EM_X86_64 else _aarch64
    jumps = [jump for section in sections for jump in decode(elf, section)]
    lazy = _relocations(elf, ".rela.plt", JUMP_SLOT[elf.machine])
    order = list(lazy.values())
    missing = {slot for _, _, slot in jumps if slot >= 0 and slot not in lazy}
    eager = _relocations(elf, ".rela.dyn", GLOB_DAT[elf.machine], missing) if missing else {}
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
    if elf.bits != ELF64 or elf.machine not in JUMP_SLOT:
        return {}
    table = elf.symbol_table(".dynsym")
    if table is None:
        return {}
    slots = _relocations(elf, ".rela.plt", JUMP_SLOT[elf.machine])
    slots |= _relocations(elf, ".rela.dyn", GLOB_DAT[elf.machine])
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


def _relocations(elf: ElfFile, name: str, kind: int, only: set[int] | None = None) -> dict[int, int]:
    """Return slot -> symbol index of the relocations of one kind, in the order of the section."""
    content = elf.content(name)
    numbers = array("Q")
    numbers.frombytes(content[: len(content) - len(content) % (8 * RELA_WORDS)])
    if elf.order != sys.byteorder:
        numbers.byteswap()
    slots, infos = numbers[0::RELA_WORDS], numbers[1::RELA_WORDS]
    return {
        slot: info >> constants.ELF64_R_SYM_SHIFT
        for slot, info in zip(slots, infos)
        if info & R_TYPE_MASK == kind and (only is None or slot in only)
    }


def _name(elf: ElfFile, table: SymbolTable, symbol: int) -> bytes:
    offset = symbol * layout.SYMBOL_SIZE[64]
    if offset + 4 > len(table.entries):
        return b""
    start = int.from_bytes(table.entries[offset : offset + 4], elf.order)
    return cstring(table.names[: start + NAME_LIMIT], start)
