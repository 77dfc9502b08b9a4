"""Find the table: by section, by symbol, or by its magic.

A section of type SHT_NOBITS (--only-keep-debug) has no bytes; the stripped file has the table.
"""

from __future__ import annotations

from collections.abc import Iterator

from whence._base.errors import GopclntabError, ObjectError
from whence._base.records import Record
from whence.gopclntab.header import HEADER_START, MAGICS, looks_like_header, read_header
from whence.objects.interface import ObjectFile

SECTIONS = (".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro")
GO_SECTIONS = (".note.go.buildid", ".go.buildinfo")
SYMBOLS = ("runtime.pclntab", "runtime.pcheader")


class FoundTable(Record, frozen=True):
    """The bytes from a table's header to the end of its section or segment, their vaddr, and how they were found."""

    data: memoryview
    vaddr: int
    found_by: str


def find(elf: ObjectFile) -> FoundTable | None:
    """Return the table, None if the file has none."""
    for name in SECTIONS:
        section = elf.section(name)
        if section is None or not section.in_file or not section.size:
            continue
        try:
            data = elf.content(section)
        except ObjectError:
            continue
        if name != ".data.rel.ro":
            if len(data) >= 4 and bytes(data[:4]) in MAGICS:
                return FoundTable(data, section.vaddr, f"section {name}")
            if len(data):  # a table, if perhaps a damaged one
                offset = next(_headers(data), 0)
                return FoundTable(data[offset:], section.vaddr + offset, f"section {name}")
        elif _is_go(elf):
            for offset in _headers(data):
                return FoundTable(data[offset:], section.vaddr + offset, f"magic in section {name}")
    return _by_symbol(elf) or _by_magic(elf)


def _is_go(elf: ObjectFile) -> bool:
    """Return True if the file has sections that only the Go linker makes; strip keeps them."""
    return any(elf.section(name) is not None for name in GO_SECTIONS)


def _headers(data: memoryview) -> Iterator[int]:
    """Yield the offsets of valid headers, lowest first."""
    raw = bytes(data)
    hits = []
    for magic in MAGICS:
        offset = raw.find(magic + b"\0\0")
        while offset >= 0:
            if offset % 4 == 0 and looks_like_header(data, offset):
                hits.append(offset)
            offset = raw.find(magic + b"\0\0", offset + 1)
    for offset in sorted(hits):
        try:
            read_header(data[offset:])
        except GopclntabError:
            continue  # other bytes, such as of a program that reads such tables
        yield offset


def _by_symbol(elf: ObjectFile) -> FoundTable | None:
    for name in SYMBOLS:
        vaddr = symbol_value(elf, name)
        offset = None if vaddr is None else elf.file_offset_of(vaddr)
        if vaddr is not None and offset is not None and looks_like_header(elf.data, offset):
            return FoundTable(_to_segment_end(elf, offset), vaddr, f"symbol {name}")
    return None


def symbol_value(elf: ObjectFile, name: str) -> int | None:
    """Return the value of a symbol in .symtab, None without the symbol or a readable .symtab."""
    extent = symbol_extent(elf, name)
    return None if extent is None else extent[0]


def symbol_extent(elf: ObjectFile, name: str) -> tuple[int, int] | None:
    """Return value and size of a symbol in .symtab, None without the symbol or a readable .symtab."""
    try:
        if not elf.may_have_symbol(name):
            return None
        symbols = elf.symbols(".symtab")
    except ObjectError:
        return None
    index = symbols.find(name)
    return None if index is None else (symbols.value[index], symbols.size[index])


def _by_magic(elf: ObjectFile) -> FoundTable | None:
    """Search loaded bytes, if there is no section table or a Go program's sections are renamed."""
    if elf.sections and not _is_go(elf):
        return None
    for segment in elf.segments:
        if not segment.is_loaded or segment.file_size < HEADER_START:
            continue
        data = elf.data[segment.file_offset : segment.file_offset + segment.file_size]
        for offset in _headers(data):
            return FoundTable(data[offset:], segment.vaddr + offset, "magic in a segment")
    return None


def _to_segment_end(elf: ObjectFile, offset: int) -> memoryview:
    for segment in elf.segments:
        if segment.is_loaded and 0 <= offset - segment.file_offset < segment.file_size:
            return elf.data[offset : segment.file_offset + segment.file_size]
    return elf.data[offset:]
