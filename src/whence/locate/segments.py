"""The segments of an ELF file that place addresses of code."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from whence.objects.elf.file import ElfFile
from whence.objects.elf.kernels.constants import ELFCLASS64, ELFDATA2LSB, ET_DYN, PF_X
from whence.objects.elf.layout import ELF64, HEADER, MAGIC, SEGMENT
from whence.objects.elf.segments import Segment, Translation
from whence.objects.interface import ObjectFile


def has_nobits(segments: Iterable[Segment]) -> bool:
    """Return True if a segment of code has no bytes in the file, as in debug files."""
    return Translation.of_code(segments).has_nobits


def placing_segments(elf: ObjectFile) -> Sequence[Segment]:
    """Return the segments of a file, those with code marked executable.

    For a file without segments (perf inject --jit makes such) its code sections as segments.
    """
    if elf.segments or elf.is_relocatable:
        code = set(elf.code_segments())
        return [_executable(segment) if segment in code else segment for segment in elf.segments]
    return [
        Segment.of_code(section.file_offset, section.vaddr, section.size, section.align)
        for section in elf.sections
        if section.executable and section.allocated
    ]


def _executable(segment: Segment) -> Segment:
    """Return the segment with PF_X set."""
    flags = segment.flags | PF_X
    return Segment(
        segment.type, flags, segment.file_offset, segment.vaddr, segment.file_size, segment.memory_size, segment.align
    )


def skeleton(elf: ObjectFile) -> bytes:
    """Return a small ELF file that has the addresses of code: header and segment table."""
    if not isinstance(elf, ElfFile):
        return skeleton_of(elf.machine, placing_segments(elf))
    elf64 = elf.bits == ELF64
    head = bytearray(elf.data[: 64 if elf64 else 52])
    order = elf.order
    offset, size = (32, 8) if elf64 else (28, 4)
    table = int.from_bytes(head[offset : offset + size], order)
    entry, count = (int.from_bytes(head[field : field + 2], order) for field in ((54, 56) if elf64 else (42, 44)))
    rows = bytes(elf.data[table : table + entry * count])
    head[offset : offset + size] = len(head).to_bytes(size, order)
    shoff = (40, 8) if elf64 else (32, 4)
    head[shoff[0] : shoff[0] + shoff[1]] = bytes(shoff[1])
    for field in (60, 62) if elf64 else (48, 50):
        head[field : field + 2] = bytes(2)
    return bytes(head) + rows


def skeleton_of(machine: int, segments: Sequence[Segment]) -> bytes:
    """Return a 64-bit ELF file with these segments and no bytes of them, for files of other formats."""
    header, row = struct.Struct("<16s" + HEADER[ELF64]), struct.Struct("<" + SEGMENT[ELF64])
    ident = MAGIC + bytes((ELFCLASS64, ELFDATA2LSB, 1))
    fields = (ET_DYN, machine, 1, 0, header.size, 0, 0, header.size, row.size, len(segments), 0, 0, 0)
    rows = (
        row.pack(each.type, each.flags, each.file_offset, each.vaddr, 0, each.file_size, each.memory_size, each.align)
        for each in segments
    )
    return header.pack(ident, *fields) + b"".join(rows)
