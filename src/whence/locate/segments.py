"""The segments of an ELF file that place addresses of code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whence.objects.elf import ElfFile
from whence.objects.elf.kernels.constants import ET_REL, PF_X
from whence.objects.elf.layout import ELF64
from whence.objects.elf.segments import Segment, Translation


def has_nobits(segments: Iterable[Segment]) -> bool:
    """Return True if a segment of code has no bytes in the file, as in debug files."""
    return Translation.of_code(segments).has_nobits


def placing_segments(elf: ElfFile) -> Sequence[Segment]:
    """Return the segments of a file, those with code marked executable.

    For a file without segments (perf inject --jit makes such) its code sections as segments.
    """
    if elf.segments or elf.type == ET_REL:
        code = set(elf.code_segments())
        return [_executable(one) if one in code else one for one in elf.segments]
    return [
        Segment.of_code(one.file_offset, one.vaddr, one.size, one.align)
        for one in elf.sections
        if one.executable and one.allocated
    ]


def _executable(one: Segment) -> Segment:
    """Return the segment with PF_X set."""
    flags = one.flags | PF_X
    return Segment(one.type, flags, one.file_offset, one.vaddr, one.file_size, one.memory_size, one.align)


def skeleton(elf: ElfFile) -> bytes:
    """Return the ELF header and the segment table: a small ELF file that has the addresses of code."""
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
