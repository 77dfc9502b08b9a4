"""Where a program's functions lie, by their symbols."""

from pathlib import Path

from whence.elf import ElfFile
from whence.elf.functions import functions


def place_of(path: Path, name: str) -> tuple[int, int]:
    """The vaddr and length of a function."""
    with ElfFile.open(path) as elf:
        ranges = functions(elf)
        for va, length, function in zip(ranges.va, ranges.length, ranges.function, strict=True):
            if ranges.strings.text(function) == name:
                return va, length
    raise AssertionError(name)
