"""The scan of an object file: its build-id, its kinds, and the quality of its names.

A file is an `executable` if it has bytes that are loaded, and `debuginfo` if it has debug info (or, without code,
symbols); an unstripped program is both, GSYM and Breakpad files are debuginfo. Of two files of one kind the better one
has debug info (DWARF, PDB) with lines, debug info, more units, Go's table, functions of GSYM or Breakpad, .symtab,
.dynsym, in this order; then the larger file is better.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from whence._base.errors import CUT_OFF, MISMATCH, ElfError, ObjectError, Unsupported
from whence._base.options import ReadOptions
from whence._base.records import Record
from whence.locate.debug_files import DebugFiles
from whence.locate.search import FileKind
from whence.objects.breakpad import BreakpadFile
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels.constants import SHT_NOTE
from whence.objects.elf.sections import Section
from whence.objects.machines import machine_name
from whence.objects.mapped import MappedObject
from whence.objects.opening import open_object
from whence.producers import Producers
from whence.store.names import DEBUGINFO, EXECUTABLE

if TYPE_CHECKING:
    from os import PathLike

    from whence.objects.interface import ObjectFile
    from whence.objects.parts import ObjectSection

CHUNK = 1 << 20
LINES, SYMTAB, DYNSYM = ".debug_line", ".symtab", ".dynsym"


class Quality(Record, frozen=True):
    """The sources of names in a file: the number of units of debug info, line tables, Go's table, symbol tables.

    `functions` is True for GSYM and Breakpad files.
    """

    units: int = 0
    lines: bool = False
    pclntab: bool = False
    symtab: bool = False
    dynsym: bool = False
    functions: bool = False

    @property
    def rank(self) -> tuple[int, ...]:
        """The sort key: larger is better."""
        dwarf = self.units > 0
        return dwarf and self.lines, dwarf, self.units, self.pclntab, self.functions, self.symtab, self.dynsym

    def as_json(self) -> dict[str, int | bool]:
        """Return the fields by name."""
        return {
            "units": self.units, "lines": self.lines, "pclntab": self.pclntab, "symtab": self.symtab,
            "dynsym": self.dynsym, "functions": self.functions,
        }  # fmt: skip

    def __str__(self) -> str:
        """Return the quality in words.

        >>> str(Quality(units=3, lines=True, symtab=True)), str(Quality())
        ('debug info of 3 units with lines, .symtab', 'no names')
        """
        units = f"{self.units} unit{'s' if self.units != 1 else ''}"
        debug_info = f"debug info of {units} {'with' if self.lines else 'without'} lines" if self.units else ""
        functions = "functions with lines" if self.functions else ""
        sources = (debug_info, "pclntab" * self.pclntab, functions, ".symtab" * self.symtab, ".dynsym" * self.dynsym)
        return ", ".join(filter(None, sources)) or "no names"


class ScanResult(Record, frozen=True):
    """What an object file holds. `build_id` may be ""; `alt` is the build-id of dwz's shared file, or "".

    `debug_id` is in Breakpad's spelling, "" without one. `name` is the library's soname, or the file name of the first
    unit's source; "" without both. `code_id` is that of a PE file; "" for others, and if the file's time is zero, which
    files of different builds have.
    """

    build_id: str
    kinds: tuple[FileKind, ...]
    quality: Quality
    machine: str
    debug_id: str
    alt: str = ""
    name: str = ""
    code_id: str = ""


def build_id_of(path: str | PathLike[str]) -> str:
    """Return the build-id of an object file; "" if it has none. Raises ObjectError, OSError."""
    with open_object(path) as elf:
        return elf.build_id


def scan(path: str | PathLike[str]) -> ScanResult:
    """Parse a file, and return what it holds.

    Raises:
        ObjectError: The file is damaged, cut off, or holds neither code nor debug info nor symbols.
        Unsupported: The file is a core file.
        OSError: The file can't be read.
    """
    with open_scan(path, DebugFiles(()), 1) as (result, _):
        return result


Scan = tuple[ScanResult, Producers]


@contextmanager
def open_scan(path: str | PathLike[str], finder: DebugFiles, jobs: int | None) -> Iterator[Scan]:
    """Open a block with the result of a scan and the open producers of the file's names, completed by `finder`."""
    with open_object(path) as elf, open_scan_of(elf, finder, jobs) as opened:
        yield opened


@contextmanager
def open_scan_of(elf: ObjectFile, finder: DebugFiles, jobs: int | None) -> Iterator[Scan]:
    """Open a block with the result of a scan and the producers of an open file, completed by `finder`."""
    if elf.is_core:
        raise Unsupported("a core file, not a program").in_file(elf.path)
    check_complete(elf)
    kinds = kinds_of(elf)
    alt = elf.alt_link
    with Producers(elf, complete=finder.complete, options=ReadOptions(jobs=jobs)) as producers:
        quality = quality_of(producers)
        debug_id = elf.debug_id.breakpad if elf.debug_id else ""
        alt_id, name = alt.build_id if alt else "", name_of(elf, producers)
        code_id = elf.code_id if elf.format == "PE" and elf.code_id[:8].strip("0") else ""
        result = ScanResult(elf.build_id, kinds, quality, machine_of(elf), debug_id, alt_id, name, code_id)
        yield result, producers


def quality_of(producers: Producers) -> Quality:
    """Return the sources of names of a file, read by itself."""
    elf, info = producers.elf, producers.dwarf
    units, lines = 0, False
    if info is not None:
        units, lines = len(info.units), _in_file(elf, LINES)
    elif producers.pdb is not None:
        units, lines = producers.pdb.unit_count, True
    is_elf = isinstance(elf, ElfFile)
    return Quality(
        units=units,
        lines=lines,
        pclntab=producers.pclntab is not None,
        symtab=_in_file(elf, SYMTAB) if is_elf else elf.has_symtab,
        dynsym=_in_file(elf, DYNSYM) if is_elf else elf.symbol_table(DYNSYM) is not None,
        functions=producers.names_file is not None,
    )


def name_of(elf: ObjectFile, producers: Producers) -> str:
    """Return what a file calls itself, or the file name of the source of its first unit; "" without both."""
    if isinstance(elf, ElfFile) and elf.soname:
        return os.path.basename(elf.soname)
    if isinstance(elf, BreakpadFile):
        return os.path.basename(elf.module.name)
    info = producers.dwarf
    return os.path.basename(info.units[0].name) if info is not None and len(info.units) else ""


def machine_of(elf: ObjectFile) -> str:
    """Return the name of a file's machine; "" if the format does not say it."""
    return machine_name(elf.machine) if elf.machine else ""


def check_complete(elf: ObjectFile) -> None:
    """Raise ObjectError if a file is cut off or one of its tables is damaged."""
    end = max((section.file_offset + section.size for section in elf.sections if section.in_file), default=0)
    if not elf.sections:
        end = max((segment.file_offset + segment.file_size for segment in elf.segments), default=0)
    if elf.problems:
        raise elf.problems[0]
    if end > elf.size:
        fault = f"cut off: sections end at {end:#x}, the file ends at {elf.size:#x}"
        raise error_of(elf)("", None, fault, code=CUT_OFF, path=elf.path)


def error_of(elf: ObjectFile) -> type[ObjectError]:
    """Return the class of the errors of a file's format."""
    return elf.error if isinstance(elf, MappedObject) else ElfError


def kinds_of(elf: ObjectFile) -> tuple[FileKind, ...]:
    """Return what a file holds. Raises ObjectError if that is neither code nor debug info nor symbols."""
    if elf.sections:
        loaded = any(is_content(section) for section in elf.sections)
    else:
        loaded = any(segment.is_loaded and segment.file_size for segment in elf.segments)
    has_symbols = _in_file(elf, SYMTAB) or (not isinstance(elf, ElfFile) and elf.has_symtab)
    described = elf.has_debug_info or (not loaded and has_symbols)
    kinds = (*((DEBUGINFO,) if described else ()), *((EXECUTABLE,) if loaded else ()))
    if not kinds:
        fault = "the file has neither code nor debug info nor symbols"
        raise error_of(elf)("", None, fault, code=MISMATCH, path=elf.path)
    return kinds


def is_content(section: ObjectSection) -> bool:
    """Return True if the bytes of a section are loaded and in the file, and are more than notes."""
    is_note = isinstance(section, Section) and section.type == SHT_NOTE
    return section.allocated and section.in_file and section.size > 0 and not is_note


def _in_file(elf: ObjectFile, name: str) -> bool:
    section = elf.section(name)
    return section is not None and section.in_file and section.size > 0


def hash_of(file: BinaryIO) -> str:
    """Return the SHA-256 of an open file, from its position, in hex."""
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
