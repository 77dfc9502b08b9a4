"""Convert offsets in an ELF file to vaddrs and back, and runtime addresses in mappings to vaddrs.

The arithmetic, including the rule for pages, is that of `objects.elf.segments.Translation` for the executable segments.

    >>> mapper = AddressMapper.from_segments([Segment.of_code(0x1234, 0x400000, 0x2000)])
    >>> [hex(mapper.file_offset_to_virtual_address(offset)) for offset in (0x1000, 0x1234)]
    ['0x3ffdcc', '0x400000']
    >>> print(mapper.file_offset_to_virtual_address(0x3234))
    None
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from whence._base.errors import ElfError
from whence._base.files import open_regular
from whence.objects.elf.segments import Segment, Translation
from whence.procmap.build_id import open_elf

if TYPE_CHECKING:
    from whence.objects.elf import ElfFile
    from whence.procmap.mapping import Mapping


class AddressMapper:
    """The executable segments of an ELF file. Immutable, safe for use from many threads.

    Args:
        path: the file, see Mapping.openable_path.

    Raises:
        OSError: the file can't be opened.
        ElfError: it is not a valid ELF file.
    """

    __slots__ = ("translation",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with open_regular(path, ElfError) as (descriptor, _), open_elf(descriptor, os.fspath(path)) as elf:
            self.translation = executable_segments(elf)

    @classmethod
    def from_segments(cls, segments: Iterable[Segment]) -> AddressMapper:
        """Make the mapper of a file with these executable segments."""
        mapper = cls.__new__(cls)
        mapper.translation = Translation.of_code(segments)
        return mapper

    @classmethod
    def from_elf(cls, elf: ElfFile) -> AddressMapper:
        """Make the mapper of an open file. Raises ElfError if its segment table is damaged."""
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
        """Return the vaddr (modulo 2^64) of an offset in the file; None outside all executable segments.

        A segment has the offsets [p_offset rounded down to the page, p_offset + p_filesz). With the mapping that the
        offset is from, the segment of that mapping is used, even for bytes after p_filesz on its last page.
        """
        return self.translation.mapped_vaddr_of(file_offset, None if mapping is None else mapping.extent)

    def is_of_segment(self, mapping: Mapping) -> bool:
        """Return True if the pages of an executable segment contain the whole mapping."""
        return bool(self.translation.made(*mapping.extent))

    def virtual_address_to_file_offset(self, vaddr: int) -> int | None:
        """Return the offset in the file of a vaddr; None outside all executable segments."""
        return self.translation.file_offset_of(vaddr)

    def vaddr(self, mapping: Mapping, runtime: int) -> int | None:
        """Return the vaddr of a runtime address in a mapping of this file."""
        return self.file_offset_to_virtual_address(mapping.file_offset_of(runtime), mapping)

    def runtime(self, mapping: Mapping, vaddr: int) -> int | None:
        """Return the runtime address of a vaddr in a mapping of this file; None if it is not in the mapping."""
        for segment in self.translation.made(*mapping.extent):
            runtime = vaddr - segment.vaddr + segment.file_offset - mapping.offset + mapping.start
            if mapping.start <= runtime < mapping.end and self.vaddr(mapping, runtime) == vaddr:
                return runtime
        return None


def executable_segments(elf: ElfFile) -> Translation:
    """Return the translation by the executable PT_LOAD segments that have bytes in the file.

    Raises ElfError if the segment table is damaged.
    """
    translation = Translation.of_code(segment for segment in elf.segments if segment.file_size)
    if not translation.segments and elf.problems:
        raise elf.problems[0]
    return translation
