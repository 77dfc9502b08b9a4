"""Mappings for a profile without any (a heap profile of Go), from its program, if that has fixed addresses."""

from __future__ import annotations

import os
from collections.abc import Sequence

from whence._base.errors import WhenceError
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels.constants import ET_EXEC, PT_LOAD
from whence.samples.model import NO_MAPPING, Mapping, ProfileData


def map_fixed_program(profile: ProfileData, files: Sequence[str | os.PathLike[str]]) -> None:
    """Add the mappings of the only given file to a profile without mappings, if its addresses are fixed (non-PIE)."""
    if profile.mappings or len(files) != 1:
        return
    try:
        with ElfFile.open(files[0]) as elf:
            if elf.type != ET_EXEC:
                return
            code = [segment for segment in elf.segments if segment.type == PT_LOAD and segment.executable]
            path, build_id = os.path.abspath(files[0]), elf.build_id
    except (WhenceError, OSError):  # an archive, or reported when its names are looked up
        return
    for segment in code:
        end = segment.vaddr + segment.memory_size
        profile.mappings.append(Mapping(segment.vaddr, end, segment.file_offset, path, build_id))
    for row, address in enumerate(profile.address):
        for index, mapping in enumerate(profile.mappings):
            if profile.mapping[row] == NO_MAPPING and mapping.start <= address < mapping.limit:
                profile.mapping[row] = index
