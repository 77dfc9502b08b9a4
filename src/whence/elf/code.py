"""Where a file's code is, by its segments and sections.

Flags are believed where they say "code". Where they don't, bare-metal toolchains have their own ways: executable
sections in a segment that is readable and writable only, code in a section without SHF_EXECINSTR. The kernel maps by
PF_X alone (whence.procmap), so these are for names only.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from whence.elf.kernels import constants

if TYPE_CHECKING:
    from whence.elf.file import ElfFile
    from whence.elf.segments import Segment


def code_segments(elf: ElfFile) -> list[Segment]:
    """The PT_LOAD segments that are executable or have an executable section in them."""
    starts = sorted(one.vaddr for one in elf.sections if one.executable and one.allocated and one.size)

    def has_section(segment: Segment) -> bool:
        return bisect_left(starts, segment.vaddr) < bisect_left(starts, segment.vaddr + segment.memory_size)

    return [one for one in elf.segments if one.type == constants.PT_LOAD and (one.executable or has_section(one))]


def code_spans(elf: ElfFile) -> list[tuple[int, int]]:
    """[start, end) in vaddrs where debug info may place code: executable sections, or else segments with code.

    In a program for a fixed address also the other loaded sections (or segments), but the one at 0: a linker leaves the
    debug info of what it dropped there, and below the code of files that can be loaded anywhere.
    """
    spans = [(one.vaddr, one.vaddr + one.size) for one in elf.sections if one.executable and one.size]
    if not spans:
        spans = [(one.vaddr, one.vaddr + one.memory_size) for one in code_segments(elf) if one.memory_size]
    if elf.type == constants.ET_EXEC:
        others = [(one.vaddr, one.vaddr + one.size) for one in elf.sections if one.allocated and one.size]
        if not others:
            loads = [one for one in elf.segments if one.type == constants.PT_LOAD]
            others = [(one.vaddr, one.vaddr + one.memory_size) for one in loads if one.memory_size]
        spans += [span for span in others if span[0]]
    return spans
