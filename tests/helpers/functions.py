"""Where a program's functions lie, by their symbols."""

from pathlib import Path

from whence.objects.elf import ElfFile
from whence.objects.elf.function_symbols import functions


def place_of(path: Path, name: str) -> tuple[int, int]:
    """The vaddr and length of a function."""
    with ElfFile.open(path) as elf:
        ranges = functions(elf)
        for vaddr, length, function in zip(ranges.vaddr, ranges.length, ranges.function, strict=True):
            if ranges.strings.text(function) == name:
                return vaddr, length
    raise AssertionError(name)
