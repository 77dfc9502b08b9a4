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
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from whence._base.errors import ElfError
from whence._base.files import open_regular
from whence.objects.elf.segments import Segment, Translation, image_base
from whence.procmap.build_id import open_elf

if TYPE_CHECKING:
    from whence.objects.interface import ObjectFile
    from whence.procmap.mapping import Mapping


IMAGE_LIMIT = 1 << 47  # bytes of a loaded file


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
    def from_elf(cls, elf: ObjectFile) -> AddressMapper:
        """Make the mapper of an open file. Raises ElfError if its segment table is damaged."""
        mapper = cls.__new__(cls)
        mapper.translation = executable_segments(elf)
        return mapper

    @classmethod
    def of_image(cls, base: int) -> AddressMapper:
        """Make the mapper of a file whose mappings have offsets from its base address, which is the vaddr `base`."""
        return cls.from_segments([Segment.of_code(0, base, IMAGE_LIMIT)])

    @classmethod
    def of_file(cls, elf: ObjectFile, is_image: bool) -> AddressMapper:
        """Make the mapper of an open file, or of its image. Raises ObjectError if its segment table is damaged."""
        return cls.of_image(elf.image_base) if is_image else cls.from_elf(elf)

    @classmethod
    def of_stored(cls, segments: Sequence[tuple[int, int, int]], is_image: bool) -> AddressMapper | None:
        """Make the mapper of a file whose code is known: (file offset, vaddr, size). None if that is not enough."""
        code = [Segment.of_code(file_offset, vaddr, size) for file_offset, vaddr, size in segments if size]
        if not code:
            return None
        return cls.of_image(image_base(code, only_code=True)) if is_image else cls.from_segments(code)

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


def executable_segments(elf: ObjectFile) -> Translation:
    """Return the translation by the executable PT_LOAD segments that have bytes in the file.

    Raises ElfError if the segment table is damaged.
    """
    translation = Translation.of_code(segment for segment in elf.segments if segment.file_size)
    if not translation.segments and elf.problems:
        raise elf.problems[0]
    return translation
