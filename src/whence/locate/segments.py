"""Where an ELF file says its code is loaded: its segments, as far as they place addresses."""

from __future__ import annotations

from collections.abc import Sequence

from whence.elf import ElfFile
from whence.elf.code import code_segments
from whence.elf.kernels.constants import ET_REL, PF_R, PF_X, PT_LOAD
from whence.elf.segments import Segment


def is_nobits(segment: Segment) -> bool:
    """Whether a segment of code has none of its bytes in the file: a debug file tells of it."""
    return segment.type == PT_LOAD and segment.executable and segment.memory_size > 0 and not segment.file_size


def code_segment(file_offset: int, vaddr: int, size: int) -> Segment:
    """An executable PT_LOAD of `size` bytes."""
    return Segment(PT_LOAD, PF_R | PF_X, file_offset, vaddr, size, size, 0)


def placing_segments(elf: ElfFile) -> Sequence[Segment]:
    """The segments of a file, those with code executable; of one without segments (perf inject --jit makes such), its
    code sections as segments."""
    if elf.segments or elf.type == ET_REL:
        code = set(code_segments(elf))
        return [_executable(one) if one in code else one for one in elf.segments]
    return [
        code_segment(one.file_offset, one.vaddr, one.size) for one in elf.sections if one.executable and one.allocated
    ]


def _executable(one: Segment) -> Segment:
    """The segment with PF_X set."""
    flags = one.flags | PF_X
    return Segment(one.type, flags, one.file_offset, one.vaddr, one.file_size, one.memory_size, one.align)


def skeleton(elf: ElfFile) -> bytes:
    """The ELF header and the segment table: an ELF file of a few hundred bytes that knows where the file is loaded."""
    wide = elf.bits == 64
    head = bytearray(elf.data[: 64 if wide else 52])
    order = elf.order
    at, size = (32, 8) if wide else (28, 4)
    table = int.from_bytes(head[at : at + size], order)
    entry, count = (int.from_bytes(head[field : field + 2], order) for field in ((54, 56) if wide else (42, 44)))
    rows = bytes(elf.data[table : table + entry * count])
    head[at : at + size] = len(head).to_bytes(size, order)
    shoff = (40, 8) if wide else (32, 4)
    head[shoff[0] : shoff[0] + shoff[1]] = bytes(shoff[1])
    for field in (60, 62) if wide else (48, 50):
        head[field : field + 2] = bytes(2)
    return bytes(head) + rows
