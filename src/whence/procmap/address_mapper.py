"""From a byte of an ELF file to the vaddr it is loaded at, and back, through the mappings of a process.

The arithmetic, and the rule of pages, are those of `objects.elf.segments.Translation`, over the executable segments.

    >>> mapper = AddressMapper.from_segments([Segment.of_code(0x1234, 0x400000, 0x2000)])
    >>> [hex(mapper.file_offset_to_virtual_address(offset)) for offset in (0x1000, 0x1234)]
    ['0x3ffdcc', '0x400000']
    >>> mapper.file_offset_to_virtual_address(0x3234) is None
    True
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from whence._base.errors import ElfError
from whence._base.files import open_regular
from whence.objects.elf.segments import Segment, Translation
from whence.procmap.build_id import whole_elf

if TYPE_CHECKING:
    from whence.objects.elf import ElfFile
    from whence.procmap.mapping import Mapping


class AddressMapper:
    """The executable segments of one ELF file. Unchanging, safe for use from many threads."""

    __slots__ = ("translation",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the program headers of the file at `path` (see Mapping.openable_path). Raises OSError, ElfError."""
        with open_regular(path, ElfError) as (descriptor, _), whole_elf(descriptor, os.fspath(path)) as elf:
            self.translation = executable_segments(elf)

    @classmethod
    def from_segments(cls, segments: Iterable[Segment]) -> AddressMapper:
        """The mapper of a file with these executable segments."""
        mapper = cls.__new__(cls)
        mapper.translation = Translation.of_code(segments)
        return mapper

    @classmethod
    def from_elf(cls, elf: ElfFile) -> AddressMapper:
        """The mapper of an open file. Raises ElfError when its segment table is damaged."""
        mapper = cls.__new__(cls)
        mapper.translation = executable_segments(elf)
        return mapper

    def __repr__(self) -> str:
        return f"<AddressMapper by {self.translation}>"

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The executable segments, by file offset."""
        return self.translation.segments

    def file_offset_to_virtual_address(self, file_offset: int, mapping: Mapping | None = None) -> int | None:
        """The vaddr (modulo 2^64) of a byte of the file; None outside every executable segment.

        Accepts [p_offset rounded down to the page, p_offset + p_filesz). With the mapping that the offset came from,
        the segment that made the mapping answers, also for bytes past p_filesz on its last page.
        """
        return self.translation.mapped_vaddr_of(file_offset, None if mapping is None else mapping.extent)

    def is_of_segment(self, mapping: Mapping) -> bool:
        """Whether the pages of an executable segment hold the whole mapping."""
        return bool(self.translation.made(*mapping.extent))

    def virtual_address_to_file_offset(self, vaddr: int) -> int | None:
        """The byte of the file that is loaded at a vaddr; None outside every executable segment."""
        return self.translation.file_offset_of(vaddr)

    def vaddr(self, mapping: Mapping, runtime: int) -> int | None:
        """The vaddr of a runtime address inside a mapping of this file."""
        return self.file_offset_to_virtual_address(mapping.file_offset_of(runtime), mapping)

    def runtime(self, mapping: Mapping, vaddr: int) -> int | None:
        """The runtime address of a vaddr in a mapping of this file; None when the mapping does not hold it."""
        for segment in self.translation.made(*mapping.extent):
            runtime = vaddr - segment.vaddr + segment.file_offset - mapping.offset + mapping.start
            if mapping.start <= runtime < mapping.end and self.vaddr(mapping, runtime) == vaddr:
                return runtime
        return None


def executable_segments(elf: ElfFile) -> Translation:
    """By the executable PT_LOAD segments of a file that have bytes in it. Raises ElfError when the table is damaged."""
    translation = Translation.of_code(segment for segment in elf.segments if segment.file_size)
    if not translation.segments and elf.problems:
        raise elf.problems[0]
    return translation
