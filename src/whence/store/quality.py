"""What an ELF file is worth to those who ask for names: looked at before it is believed.

The kind is what the file holds: `executable` when bytes that are loaded are in it, `debuginfo` when debug info is (or,
without code, symbols); an unstripped program is both. Of two files of one kind the better one is that with DWARF with
lines, with DWARF, with more units, with Go's table, with .symtab, with .dynsym, and then the larger one.
"""

from __future__ import annotations

import hashlib
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

    from whence.producers import Producers

CHUNK = 1 << 20
LINES, SYMTAB, DYNSYM = ".debug_line", ".symtab", ".dynsym"


class Quality(Record, frozen=True):
    """What names addresses in a file: units of DWARF, whether it has line tables, Go's table, symbol tables."""

    units: int = 0
    lines: bool = False
    pclntab: bool = False
    symtab: bool = False
    dynsym: bool = False

    @property
    def rank(self) -> tuple[int, ...]:
        """Larger is better."""
        dwarf = self.units > 0
        return dwarf and self.lines, dwarf, self.units, self.pclntab, self.symtab, self.dynsym

    def as_json(self) -> dict[str, int | bool]:
        """Its fields by name."""
        return {
            "units": self.units, "lines": self.lines, "pclntab": self.pclntab, "symtab": self.symtab,
            "dynsym": self.dynsym,
        }  # fmt: skip

    def __str__(self) -> str:
        """
        >>> str(Quality(units=3, lines=True, symtab=True)), str(Quality())
        ('DWARF of 3 units with lines, .symtab', 'no names')
        """
        units = f"{self.units} unit{'s' if self.units != 1 else ''}"
        dwarf = f"DWARF of {units} {'with' if self.lines else 'without'} lines" if self.units else ""
        words = (dwarf, "pclntab" * self.pclntab, ".symtab" * self.symtab, ".dynsym" * self.dynsym)
        return ", ".join(filter(None, words)) or "no names"


class Looked(Record, frozen=True):
    """An ELF file that was looked at. `build_id` is "" where it has none; `alt` is that of dwz's shared file."""

    build_id: str
    kinds: tuple[FileKind, ...]
    quality: Quality
    machine: str
    little_endian: bool
    alt: str = ""


def build_id_of(path: str | PathLike[str]) -> str:
    """The build-id that an ELF file carries; "" for none. Raises ElfError, OSError."""
    with ElfFile.open(path) as elf:
        return elf.build_id


def look(path: str | PathLike[str]) -> Looked:
    """Parse a file. Raises ElfError for what is cut off or damaged, or holds nothing that a store keeps; OSError."""
    with looking(path, DebugFiles(()), 1) as (looked, _):
        return looked


@contextmanager
def looking(path: str | PathLike[str], finder: DebugFiles, jobs: int | None) -> Iterator[tuple[Looked, Producers]]:
    """The same, and what names the addresses of the file, completed by what `finder` has, open until the block ends."""
    with ElfFile.open(path) as elf, looking_at(elf, finder, jobs) as found:
        yield found


@contextmanager
def looking_at(elf: ElfFile, finder: DebugFiles, jobs: int | None) -> Iterator[tuple[Looked, Producers]]:
    """The same of a file that is open."""
    if elf.type == ET_CORE:
        raise Unsupported("a core file, not a program").in_file(elf.path)
    must_be_whole(elf)
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
        yield Looked(elf.build_id, kinds, quality, machine_name(elf.machine), little, alt_id), producers


def must_be_whole(elf: ElfFile) -> None:
    """Raise ElfError when a file ends before its tables say, or a table of it is damaged."""
    end = max((one.file_offset + one.size for one in elf.sections if one.in_file), default=0)
    if not elf.sections:
        end = max((one.file_offset + one.file_size for one in elf.segments), default=0)
    if elf.problems:
        raise elf.problems[0]
    if end > elf.size:
        fault = f"cut off: its tables name {end} bytes, there are {elf.size}"
        raise ElfError("file", None, "every section is in the file", fault=fault, code=CUT_OFF, path=elf.path)


def kinds_of(elf: ElfFile) -> tuple[FileKind, ...]:
    """What a file holds. Raises ElfError when that is nothing that a store keeps."""
    bare = (SHT_NOBITS, SHT_NOTE)
    if elf.sections:
        loaded = any(one.allocated and one.type not in bare and one.size for one in elf.sections)
    else:
        loaded = any(one.is_loaded and one.file_size for one in elf.segments)
    described = elf.has_debug_info or (not loaded and _in_file(elf, SYMTAB))
    kinds = (*((DEBUGINFO,) if described else ()), *((EXECUTABLE,) if loaded else ()))
    if not kinds:
        fault = "neither code nor debug info nor symbols are in it"
        raise ElfError("file", None, "it holds one of them", fault=fault, code=MISMATCH, path=elf.path)
    return kinds


def _in_file(elf: ElfFile, name: str) -> bool:
    section = elf.section(name)
    return section is not None and section.in_file and section.size > 0


def hash_of(file: BinaryIO) -> str:
    """The SHA-256 of an open file, from where it stands, in hex."""
    found = hashlib.sha256()
    while chunk := file.read(CHUNK):
        found.update(chunk)
    return found.hexdigest()
