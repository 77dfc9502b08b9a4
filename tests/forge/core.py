"""Forging core files from mappings and threads."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tests.forge.elf import Section, Segment, forge, mark, note
from whence._base.window import ByteOrder
from whence.objects.elf.kernels import constants

NT_PRSTATUS, NT_PRPSINFO, NT_AUXV, NT_FILE = 1, 3, 6, 0x46494C45
PAGE = 0x1000
# struct elf_prstatus before the registers (include/linux/elfcore.h), and their number and places of pc and sp, from
# struct user_regs_struct (x86), struct user_pt_regs (arm64), struct pt_regs (arm)
STATUS = {64: "iiihxxQQiiii8Q", 32: "iiihxxIIiiii8I"}
REGISTERS = {
    constants.EM_X86_64: (27, 16, 19),
    constants.EM_386: (17, 12, 15),
    constants.EM_AARCH64: (34, 32, 31),
    constants.EM_ARM: (18, 15, 13),
    constants.EM_MIPS: (27, None, None),
}


@dataclass(frozen=True, slots=True)
class Mapped:
    """A mapping [start, end); `memory`: the bytes stored in the core; `name`: the mapped file, or ""."""

    start: int
    end: int
    name: str = ""
    offset: int = 0
    flags: int = 5
    memory: bytes = b""
    load: bool = True


def status(
    tid: int, pc: int, sp: int = 0, signal: int = 11, *, bits: int = 64, order: ByteOrder = "little", machine: int = 62
) -> bytes:
    """An NT_PRSTATUS note."""
    count, pc_at, sp_at = REGISTERS[machine]
    registers = [0] * count
    if pc_at is not None and sp_at is not None:
        registers[pc_at], registers[sp_at] = pc, sp
    head = struct.pack(mark(order) + STATUS[bits], 0, 0, 0, signal, 0, 0, tid, 1, 2, 3, *[0] * 8)
    body = struct.pack(mark(order) + f"{count}{'Q' if bits == 64 else 'I'}i", *registers, 0)
    return note("CORE", NT_PRSTATUS, head + body, order)


def files_note(mapped: Sequence[Mapped], bits: int = 64, order: ByteOrder = "little") -> bytes:
    """The NT_FILE note."""
    named = [each for each in mapped if each.name]
    word = "Q" if bits == 64 else "I"
    numbers = [len(named), PAGE, *(n for each in named for n in (each.start, each.end, each.offset // PAGE))]
    names = b"".join(each.name.encode("utf-8", "surrogateescape") + b"\0" for each in named)
    return note("CORE", NT_FILE, struct.pack(f"{mark(order)}{len(numbers)}{word}", *numbers) + names, order)


def core(
    mapped: Sequence[Mapped],
    threads: Sequence[bytes] = (),
    *,
    bits: int = 64,
    order: ByteOrder = "little",
    machine: int = constants.EM_X86_64,
    vdso: int = 0,
    type: int = constants.ET_CORE,
) -> bytes:
    """A core file as the kernel lays it out: notes first."""
    word = "Q" if bits == 64 else "I"
    # struct elf_prpsinfo: state, flags, uid, gid; pid, ppid, pgrp, sid; fname, psargs
    about = struct.pack(mark(order) + ("4x4xQII" if bits == 64 else "4xIHH"), 0, 0, 0)
    about += struct.pack(mark(order) + "4i", 77, 1, 2, 3) + b"app\0".ljust(96, b"\0")
    auxiliary = struct.pack(f"{mark(order)}4{word}", 33, vdso, 0, 0)
    notes = [
        *threads[:1],
        note("CORE", NT_PRPSINFO, about, order),
        note("CORE", NT_AUXV, auxiliary, order),
        files_note(mapped, bits, order),
        *threads[1:],
    ]
    loads = [each for each in mapped if each.load]
    sections = [Section(".notes", b"".join(notes), align=4)]
    sections += [Section(f"m{i}", each.memory, vaddr=each.start, align=16) for i, each in enumerate(loads)]
    segments = [Segment(constants.PT_NOTE, 0, of=".notes", align=4)]
    segments += [
        Segment(constants.PT_LOAD, each.flags, of=f"m{i}", memory_size=each.end - each.start, align=PAGE)
        for i, each in enumerate(loads)
    ]
    return forge(sections, segments, bits=bits, order=order, machine=machine, type=type, section_table=False)
