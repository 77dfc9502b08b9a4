"""Read the build-id of a file from as few bytes as possible.

Linkers put the notes after the program headers, so one page of a 64-bit file nearly always has the build-id. Object
files and kernel modules have no segments: the section headers of these give the position of the notes. All other files
(no such segment or section, 32 bits, other byte order, anything unusual) are read with `objects.elf`.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from collections.abc import Iterable

from whence._base.errors import ElfError, empty_file, naming, not_regular
from whence._base.files import open_regular, read_at
from whence._base.mapped import MappedFile
from whence.objects.elf import ElfFile, layout
from whence.objects.elf.kernels import constants
from whence.objects.elf.notes import BUILD_ID_LIMIT

_HEAD = 4096
# in native byte order; other files are read with objects.elf
_HEADER = struct.Struct(f"={constants.EI_NIDENT}x{layout.HEADER[64]}")
_SEGMENT = struct.Struct("=" + layout.SEGMENT[64])
_SECTION = struct.Struct("=" + layout.SECTION[64])
_NOTE = struct.Struct("=" + layout.NOTE)
_DATA = constants.ELFDATA2LSB if sys.byteorder == "little" else constants.ELFDATA2MSB
_IDENT = layout.MAGIC + bytes((constants.ELFCLASS64, _DATA))
_NOTES_LIMIT = 1 << 16


def read_build_id(path: str | os.PathLike[str]) -> str:
    """Return the GNU build-id of an ELF file in lowercase hex; "" if it has none.

    Raises:
        OSError: the file can't be opened.
        ElfError: it is not an ELF file.
    """
    with open_regular(path, ElfError) as (descriptor, _):
        return build_id_of(descriptor, os.fspath(path))


def read_go_build_id(path: str | os.PathLike[str]) -> str:
    """Return the id that Go's linker writes (text with slashes); "" if it has none.

    Raises:
        OSError: the file can't be opened.
        ElfError: it is not an ELF file.
    """
    with ElfFile.open(path) as elf:
        return elf.go_build_id


def build_id_of(descriptor: int, name: str = "") -> str:
    """Return the GNU build-id of an open file in lowercase hex; "" if it has none. Raises OSError, ElfError."""
    build_id = _from_first_page(descriptor)
    if build_id is not None:
        return build_id
    with open_elf(descriptor, name) as elf:
        return elf.build_id


def open_elf(descriptor: int, name: str = "") -> ElfFile:
    """Return an open file as an ElfFile; the caller still closes the descriptor. Raises ElfError if it is not ELF."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise not_regular(ElfError, status.st_mode).in_file(name)
    if not status.st_size:
        raise empty_file(ElfError).in_file(name)
    mapped = MappedFile(descriptor, name, ElfError)
    with naming(name):
        return ElfFile(mapped.view, name, mapped)


def _from_first_page(descriptor: int) -> str | None:
    """Return the build-id if it is build_id by the first page, None if the full reader is needed."""
    try:
        head = read_at(descriptor, _HEAD, 0)
    except OSError:
        return None
    if len(head) < _HEADER.size or not head.startswith(_IDENT):
        return None
    fields = _HEADER.unpack_from(head)
    if not fields[9]:  # e_phnum
        return _of_blocks(descriptor, head, _note_sections(descriptor, fields[5], fields[11], fields[10]))
    table, stride, count = fields[4], fields[8], fields[9]
    if stride != _SEGMENT.size or table + count * stride > len(head):
        return None
    rows = _SEGMENT.iter_unpack(head[table : table + count * stride])
    return _of_blocks(descriptor, head, [(row[2], row[5], row[7]) for row in rows if row[0] == constants.PT_NOTE])


def _note_sections(descriptor: int, table: int, count: int, stride: int) -> list[tuple[int, int, int]]:
    """Return (offset, size, align) of each section of notes."""
    if stride != _SECTION.size or table >> 63:
        return []
    rows = read_at(descriptor, count * stride, table)
    if len(rows) != count * stride:
        return []
    return [(row[4], row[5], row[8]) for row in _SECTION.iter_unpack(rows) if row[1] == constants.SHT_NOTE]


def _of_blocks(descriptor: int, head: bytes, blocks: Iterable[tuple[int, int, int]]) -> str | None:
    """Return the build-id in the first block of notes that has one, or None."""
    for offset, size, align in blocks:
        if size > _NOTES_LIMIT:
            continue
        if offset + size <= len(head):
            notes = head[offset : offset + size]
        elif offset >> 63:
            continue
        else:
            notes = read_at(descriptor, size, offset)
        build_id = _gnu_note(notes, 8 if align == 8 else 4)
        if build_id:
            return build_id
    return None


def _gnu_note(notes: bytes, align: int) -> str:
    """Return the description of the GNU build-id note, from notes padded to `align`; "" if it has none."""
    offset = 0
    while offset + _NOTE.size <= len(notes):
        name_size, size, kind = _NOTE.unpack_from(notes, offset)
        content = offset + _NOTE.size + name_size
        content += -content % align
        end = content + size
        if end > len(notes):
            return ""
        is_gnu = name_size == 4 and notes[offset + _NOTE.size : offset + _NOTE.size + 4] == b"GNU\0"
        if is_gnu and kind == constants.NT_GNU_BUILD_ID and 0 < size <= BUILD_ID_LIMIT:
            return notes[content:end].hex()
        offset = end + -end % align
    return ""
