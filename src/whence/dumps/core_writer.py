"""Write ELF core files: notes, and ranges of memory.

    header, program headers | notes, as they were | memory, each range at a page boundary, in order of address

Memory that is not in the file has no program header: a debugger reads memory with p_memsz but without bytes as zeros,
and would print them as values. Counts above 65,534 program headers are in section 0 (gABI, "ELF Header").
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from whence.objects.elf import layout
from whence.objects.elf.kernels import constants

if TYPE_CHECKING:
    from whence.objects.elf import ElfFile

PAGE = 1 << 12
NOTE_ALIGN = 4
COPIED_AT_ONCE = 1 << 20  # bytes


class KeptRange(NamedTuple):
    """Memory [start, end) of one segment with its flags (PF_R, PF_W, PF_X), and whether the core has its bytes."""

    start: int
    end: int
    flags: int
    is_stored: bool = True

    @property
    def size(self) -> int:
        """The number of bytes in the file."""
        return self.end - self.start if self.is_stored else 0


def write_core(
    file: BinaryIO,
    like: ElfFile,
    notes: Sequence[bytes],
    ranges: Sequence[KeptRange],
    read: Callable[[int, int], bytes],
) -> int:
    """Write a core file from its start to its end, and return its size in bytes.

    Args:
        file: written in order, so it may be a pipe.
        like: the core whose class, byte order, machine and flags are used.
        notes: the content of each PT_NOTE segment.
        ranges: the memory, in order of address.
        read: returns all bytes of [address, address + size).

    Raises OSError.
    """
    written = file.write(core_head(like, notes, ranges))
    for kept in ranges:
        if kept.is_stored:
            written += file.write(bytes(-written % PAGE))
            for address in range(kept.start, kept.end, COPIED_AT_ONCE):
                written += file.write(read(address, min(COPIED_AT_ONCE, kept.end - address)))
    return written


def core_head(like: ElfFile, notes: Sequence[bytes], ranges: Sequence[KeptRange]) -> bytes:
    """Return a core file up to the end of its notes; memory follows at the next page boundary."""
    mark, bits = layout.ORDER_MARK[like.order], like.bits
    segment_form = mark + layout.SEGMENT[bits]
    header_size = constants.EI_NIDENT + struct.calcsize(mark + layout.HEADER[bits])
    segment_size, section_size = struct.calcsize(segment_form), struct.calcsize(mark + layout.SECTION[bits])
    count = len(notes) + len(ranges)
    headers_end = header_size + count * segment_size
    is_extended = count >= constants.PN_XNUM

    def segment(type_: int, flags: int, offset: int, vaddr: int, size: int, memory_size: int) -> bytes:
        align = PAGE if type_ == constants.PT_LOAD else NOTE_ALIGN
        if bits == layout.ELF64:
            return struct.pack(segment_form, type_, flags, offset, vaddr, 0, size, memory_size, align)
        return struct.pack(segment_form, type_, offset, vaddr, 0, size, memory_size, flags, align)

    header = struct.pack(
        mark + layout.HEADER[bits],
        constants.ET_CORE,
        like.machine,
        1,  # version
        0,  # entry point
        header_size,
        headers_end if is_extended else 0,
        like.header.flags,
        header_size,
        segment_size,
        constants.PN_XNUM if is_extended else count,
        section_size if is_extended else 0,
        1 if is_extended else 0,
        0,  # no section has the names of sections
    )
    parts = [bytes(like.data[: constants.EI_NIDENT]), header]
    offset = headers_end + (section_size if is_extended else 0)
    for note in notes:
        parts.append(segment(constants.PT_NOTE, 0, offset, 0, len(note), 0))
        offset += len(note)
    offset += -offset % PAGE
    for kept in ranges:
        parts.append(segment(constants.PT_LOAD, kept.flags, offset, kept.start, kept.size, kept.end - kept.start))
        offset += kept.size + -kept.size % PAGE
    if is_extended:  # sh_size: number of sections, sh_info: number of program headers
        parts.append(struct.pack(mark + layout.SECTION[bits], 0, 0, 0, 0, 0, 1, 0, count, 0, 0))
    return b"".join((*parts, *notes))
