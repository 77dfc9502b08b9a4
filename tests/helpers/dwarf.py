"""DWARF of forged files, read."""

from __future__ import annotations

from whence.dwarf import DebugInfo
from whence.objects.elf import ElfFile
from whence.ranges import StringSpace

Found = list[tuple[int, int, int, str]]


def read(data: bytes, alt: bytes | None = None) -> DebugInfo:
    other = ElfFile.from_bytes(alt) if alt else None
    return DebugInfo(ElfFile.from_bytes(data), strings=StringSpace(), alt=other)


def found(info: DebugInfo, **options: object) -> Found:
    """(start, end, depth, function) of every range, in order."""
    table = info.ranges(**options)  # type: ignore[arg-type]
    text = info.strings.text
    rows = zip(table.vaddr, table.length, table.depth, table.function)
    return sorted((vaddr, vaddr + length, depth, text(name)) for vaddr, length, depth, name in rows)
