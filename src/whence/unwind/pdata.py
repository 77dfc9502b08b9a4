"""Unwind information of PE files: `.pdata` and `.xdata` as call frame information.

    .pdata       a table of functions in order of address: start, end or length, unwind information (or, on arm64, a
                 packed description of the prologue)
    .xdata       x64: UNWIND_INFO, codes for the instructions of the prologue, possibly chained to those of another
                 function (pdata_x64.py); arm64: codes for prologue and epilogues (pdata_arm64.py)

Each instruction of a prologue makes a row. x64 does not describe epilogues of version 1: as the system does, they are
recognized by their instructions at the address. Code of x64 without an entry is a leaf: it is unwound by its
instructions. 32-bit x86 has no such tables. References: Microsoft's "x64 exception handling" and "ARM64 exception
handling".
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from whence._base.budget import Budget
from whence._base.errors import DwarfError, ObjectError
from whence.objects.machines import EM_AARCH64, EM_X86_64
from whence.objects.pe import PeFile, layout
from whence.objects.pe.headers import read_header
from whence.unwind.cfi import Fde
from whence.unwind.pdata_arm64 import arm64_fde
from whence.unwind.pdata_x64 import with_epilogue, x64_fde

if TYPE_CHECKING:
    from whence.objects.interface import ObjectFile
    from whence.objects.pe.headers import PeHeader, PeSection
    from whence.unwind.memory import Memory

SECTION = ".pdata"
ROWS_TIMES, ROWS_ALLOWANCE = 4, 1 << 20  # limit of all rows: times the file's bytes, plus the allowance
STRIDES = {EM_X86_64: 12, EM_AARCH64: 8}
HEADERS_LIMIT = 4096  # bytes of a loaded file that are searched for headers
INFO_LIMIT = 4096  # bytes of unwind information
EPILOGUE_BYTES = 64  # of code that are searched for the end of an epilogue


class ImageReader:
    """Reads bytes of a PE file by RVA."""

    def __init__(self, file: PeFile) -> None:
        self._data, self._base = file.data, file.header.base
        self._sections = [section for section in file.sections if section.in_file and section.allocated]
        self._last: PeSection | None = None

    def stored_at(self, rva: int, size: int) -> int:
        """Return how many of `size` bytes at an RVA are stored."""
        return len(self.view(rva, size))

    def view(self, rva: int, size: int) -> memoryview:
        """Return up to `size` bytes at an RVA, as far as its section has them."""
        vaddr = self._base + rva
        section = self._last
        if section is None or not section.vaddr <= vaddr < section.vaddr + section.size:
            section = next((each for each in self._sections if each.vaddr <= vaddr < each.vaddr + each.size), None)
            if section is None:
                return self._data[:0]
            self._last = section
        begin = section.file_offset + vaddr - section.vaddr
        return self._data[begin : min(begin + size, section.file_offset + section.size)]


class MemoryReader:
    """Reads bytes of a loaded PE file by RVA, from the memory of a dump."""

    def __init__(self, memory: Memory, base: int) -> None:
        self._memory, self._base = memory, base

    def stored_at(self, rva: int, size: int) -> int:
        """Return how many of `size` bytes at an RVA are stored, in the region of memory that has the first."""
        bounds = self._memory.region(self._base + rva)
        return 0 if bounds is None else min(size, bounds[1] - self._base - rva)

    def view(self, rva: int, size: int) -> memoryview:
        """Return up to `size` bytes at an RVA, as far as they are stored."""
        stored = self.stored_at(rva, size)
        return memoryview(self._memory.read(self._base + rva, stored) if stored else b"")


class FunctionTable:
    """The functions of `.pdata` and their rows, read when they are looked up."""

    def __init__(self, header: PeHeader, base: int, reader: ImageReader | MemoryReader, stored: int) -> None:
        """Open the table of a file.

        Args:
            header: its headers.
            base: the vaddr, or runtime address, of RVA 0.
            reader: reads by RVA.
            stored: bytes of the file.
        """
        self.machine, self._base = layout.MACHINES.get(header.machine, 0), base
        self._stride = STRIDES[self.machine]
        self._reader = reader
        self._rva, size = header.directory(layout.EXCEPTIONS)
        self.count = (reader.stored_at(self._rva, size) if self._rva else 0) // self._stride
        self._stored = stored
        self._fdes: dict[int, Fde | None] = {}

    @classmethod
    def of_file(cls, file: ObjectFile) -> FunctionTable | None:
        """Return the table of a PE file; None for other files, other machines, and files without one."""
        if not isinstance(file, PeFile) or file.machine not in STRIDES:
            return None
        try:
            table = cls(file.header, file.header.base, ImageReader(file), file.size)
        except ObjectError:
            return None
        return table if table.count else None

    @classmethod
    def in_memory(cls, memory: Memory, base: int) -> FunctionTable | None:
        """Return the table of the PE file that is loaded at a runtime address, whose vaddrs are runtime addresses.

        None without one, or if its headers are not in memory.
        """
        reader = MemoryReader(memory, base)
        try:
            header = read_header(reader.view(0, HEADERS_LIMIT))
        except ObjectError:
            return None
        if layout.MACHINES.get(header.machine, 0) not in STRIDES:
            return None
        table = cls(header, base, reader, header.image_size)
        return table if table.count else None

    def find(self, vaddr: int) -> Fde | None:
        """Return the rows of the function that contains `vaddr`, None without one. Raises DwarfError if damaged."""
        fde = self._entry(vaddr)
        if fde is None or self.machine != EM_X86_64:
            return fde
        code = bytes(self._reader.view(vaddr - self._base - 8, 8 + EPILOGUE_BYTES))
        return with_epilogue(fde, vaddr, code, self._entry)

    def _entry(self, vaddr: int) -> Fde | None:
        rva = vaddr - self._base
        index = bisect_right(range(self.count), rva, key=self._start) - 1
        if index < 0:
            return None
        if index not in self._fdes:
            self._fdes[index] = self._fde(index)
        fde = self._fdes[index]
        return None if fde is None or not fde.start <= vaddr < fde.end else fde

    def fdes(self) -> Iterator[Fde]:
        """Yield all functions in the table's order. Damaged ones are left out. Raises DwarfError beyond a limit."""
        budget = Budget(SECTION, "rows", self._stored, times=ROWS_TIMES, allowance=ROWS_ALLOWANCE, error=DwarfError)
        for index in range(self.count):
            try:
                fde = self._fde(index)
            except DwarfError:
                budget.charge(1)
                continue
            if fde is not None:
                budget.charge(len(fde.rows))
                yield fde

    def _start(self, index: int) -> int:
        start: int = struct.unpack("<I", self._row(index)[:4])[0]
        return start

    def _row(self, index: int) -> memoryview:
        row = self._reader.view(self._rva + index * self._stride, self._stride)
        if len(row) < self._stride:
            raise DwarfError(SECTION, index * self._stride, f"the entry has {len(row)} bytes, expected {self._stride}")
        return row

    def _fde(self, index: int) -> Fde | None:
        offset = index * self._stride
        if self._stride == 12:
            start, end, info = struct.unpack("<III", self._row(index))
            return x64_fde(start, end, info, self._base, self._info_of, offset) if start < end else None
        start, info = struct.unpack("<II", self._row(index))
        return arm64_fde(start, info, self._base, self._info_of, offset)

    def _info_of(self, rva: int) -> memoryview:
        return self._reader.view(rva, INFO_LIMIT)
