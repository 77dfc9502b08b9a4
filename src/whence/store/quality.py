"""The scan of an ELF file: its build-id, its kinds, and the quality of its names.

A file is an `executable` if it has bytes that are loaded, and `debuginfo` if it has debug info (or, without code,
symbols); an unstripped program is both. Of two files of one kind the better one has DWARF with lines, DWARF, more
units, Go's table, .symtab, .dynsym, in this order; then the larger file is better.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from whence._base.errors import CUT_OFF, MISMATCH, ElfError, Unsupported
from whence._base.options import ReadOptions
from whence._base.records import Record
from whence.locate.debug_files import DebugFiles
from whence.locate.search import FileKind
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels.constants import ET_CORE, SHT_NOBITS, SHT_NOTE
from whence.objects.machines import machine_name
from whence.producers import Producers
from whence.store.names import DEBUGINFO, EXECUTABLE

if TYPE_CHECKING:
    from os import PathLike

CHUNK = 1 << 20
LINES, SYMTAB, DYNSYM = ".debug_line", ".symtab", ".dynsym"


class Quality(Record, frozen=True):
    """The sources of names in a file: the number of DWARF units, line tables, Go's table, symbol tables."""

    units: int = 0
    lines: bool = False
    pclntab: bool = False
    symtab: bool = False
    dynsym: bool = False

    @property
    def rank(self) -> tuple[int, ...]:
        """The sort key: larger is better."""
        dwarf = self.units > 0
        return dwarf and self.lines, dwarf, self.units, self.pclntab, self.symtab, self.dynsym

    def as_json(self) -> dict[str, int | bool]:
        """Return the fields by name."""
        return {
            "units": self.units, "lines": self.lines, "pclntab": self.pclntab, "symtab": self.symtab,
            "dynsym": self.dynsym,
        }  # fmt: skip

    def __str__(self) -> str:
        """Return the quality in words.

        >>> str(Quality(units=3, lines=True, symtab=True)), str(Quality())
        ('DWARF of 3 units with lines, .symtab', 'no names')
        """
        units = f"{self.units} unit{'s' if self.units != 1 else ''}"
        dwarf = f"DWARF of {units} {'with' if self.lines else 'without'} lines" if self.units else ""
        sources = (dwarf, "pclntab" * self.pclntab, ".symtab" * self.symtab, ".dynsym" * self.dynsym)
        return ", ".join(filter(None, sources)) or "no names"


class ScanResult(Record, frozen=True):
    """What an ELF file holds. `build_id` may be ""; `alt` is the build-id of dwz's shared file, or "".

    `name` is the library's soname, or the file name of the first unit's source; "" without both.
    """

    build_id: str
    kinds: tuple[FileKind, ...]
    quality: Quality
    machine: str
    little_endian: bool
    alt: str = ""
    name: str = ""


def build_id_of(path: str | PathLike[str]) -> str:
    """Return the build-id of an ELF file; "" if it has none. Raises ElfError, OSError."""
    with ElfFile.open(path) as elf:
        return elf.build_id


def scan(path: str | PathLike[str]) -> ScanResult:
    """Parse a file, and return what it holds.

    Raises:
        ElfError: The file is damaged, cut off, or holds neither code nor debug info nor symbols.
        Unsupported: The file is a core file.
        OSError: The file can't be read.
    """
    with open_scan(path, DebugFiles(()), 1) as (result, _):
        return result


Scan = tuple[ScanResult, Producers]


@contextmanager
def open_scan(path: str | PathLike[str], finder: DebugFiles, jobs: int | None) -> Iterator[Scan]:
    """Open a block with the result of a scan and the open producers of the file's names, completed by `finder`."""
    with ElfFile.open(path) as elf, open_scan_of(elf, finder, jobs) as opened:
        yield opened


@contextmanager
def open_scan_of(elf: ElfFile, finder: DebugFiles, jobs: int | None) -> Iterator[Scan]:
    """Open a block with the result of a scan and the producers of an open file, completed by `finder`."""
    if elf.type == ET_CORE:
        raise Unsupported("a core file, not a program").in_file(elf.path)
    check_complete(elf)
    kinds = kinds_of(elf)
    alt = elf.alt_link
    with Producers(elf, complete=finder.complete, options=ReadOptions(jobs=jobs)) as producers:
        info = producers.dwarf
        quality = Quality(
            units=len(info.units) if info is not None else 0,
            lines=_in_file(elf, LINES),
            pclntab=producers.pclntab is not None,
            symtab=_in_file(elf, SYMTAB),
            dynsym=_in_file(elf, DYNSYM),
        )
        little, alt_id = elf.order == "little", alt.build_id if alt else ""
        name = os.path.basename(elf.soname or (info.units[0].name if quality.units and info is not None else ""))
        yield ScanResult(elf.build_id, kinds, quality, machine_name(elf.machine), little, alt_id, name), producers


def check_complete(elf: ElfFile) -> None:
    """Raise ElfError if a file is cut off or one of its tables is damaged."""
    end = max((section.file_offset + section.size for section in elf.sections if section.in_file), default=0)
    if not elf.sections:
        end = max((segment.file_offset + segment.file_size for segment in elf.segments), default=0)
    if elf.problems:
        raise elf.problems[0]
    if end > elf.size:
        fault = f"cut off: sections end at {end:#x}, the file ends at {elf.size:#x}"
        raise ElfError("", None, fault, code=CUT_OFF, path=elf.path)


def kinds_of(elf: ElfFile) -> tuple[FileKind, ...]:
    """Return what a file holds. Raises ElfError if that is neither code nor debug info nor symbols."""
    bare = (SHT_NOBITS, SHT_NOTE)
    if elf.sections:
        loaded = any(section.allocated and section.type not in bare and section.size for section in elf.sections)
    else:
        loaded = any(segment.is_loaded and segment.file_size for segment in elf.segments)
    described = elf.has_debug_info or (not loaded and _in_file(elf, SYMTAB))
    kinds = (*((DEBUGINFO,) if described else ()), *((EXECUTABLE,) if loaded else ()))
    if not kinds:
        raise ElfError("", None, "the file has neither code nor debug info nor symbols", code=MISMATCH, path=elf.path)
    return kinds


def _in_file(elf: ElfFile, name: str) -> bool:
    section = elf.section(name)
    return section is not None and section.in_file and section.size > 0


def hash_of(file: BinaryIO) -> str:
    """Return the SHA-256 of an open file, from its position, in hex."""
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
