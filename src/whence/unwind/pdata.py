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
from whence.unwind.cfi import Fde
from whence.unwind.pdata_arm64 import arm64_fde
from whence.unwind.pdata_x64 import with_epilogue, x64_fde

if TYPE_CHECKING:
    from whence.objects.interface import ObjectFile
    from whence.objects.pe.headers import PeSection

SECTION = ".pdata"
ROWS_TIMES, ROWS_ALLOWANCE = 4, 1 << 20  # limit of all rows: times the file's bytes, plus the allowance
STRIDES = {EM_X86_64: 12, EM_AARCH64: 8}
INFO_LIMIT = 4096  # bytes of unwind information
EPILOGUE_BYTES = 64  # of code that are searched for the end of an epilogue


class ImageReader:
    """Reads bytes of a PE file by RVA."""

    def __init__(self, file: PeFile) -> None:
        self._data, self._base = file.data, file.header.base
        self._sections = [section for section in file.sections if section.in_file and section.allocated]
        self._last: PeSection | None = None

    def view(self, rva: int, size: int) -> memoryview:
        """Return up to `size` bytes at an RVA, as far as its section has them."""
        vaddr = self._base + rva
        section = self._last
        if section is None or not section.vaddr <= vaddr < section.vaddr + section.size:
            section = next((one for one in self._sections if one.vaddr <= vaddr < one.vaddr + one.size), None)
            if section is None:
                return self._data[:0]
            self._last = section
        begin = section.file_offset + vaddr - section.vaddr
        return self._data[begin : min(begin + size, section.file_offset + section.size)]


class FunctionTable:
    """The functions of `.pdata` and their rows, read when they are looked up."""

    def __init__(self, file: PeFile) -> None:
        """Open the table of an open file, which must stay open. Raises ObjectError without a valid directory."""
        self.machine, self._base = file.machine, file.header.base
        self._stride = STRIDES[file.machine]
        self._reader = ImageReader(file)
        rva, size = file.header.directory(layout.EXCEPTIONS)
        self._table = self._reader.view(rva, size) if rva else memoryview(b"")
        self.count = len(self._table) // self._stride
        self._stored = file.size
        self._fdes: dict[int, Fde | None] = {}

    @classmethod
    def of_file(cls, file: ObjectFile) -> FunctionTable | None:
        """Return the table of a PE file; None for other files, other machines, and files without one."""
        if not isinstance(file, PeFile) or file.machine not in STRIDES:
            return None
        try:
            table = cls(file)
        except ObjectError:
            return None
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
        start: int = struct.unpack_from("<I", self._table, index * self._stride)[0]
        return start

    def _fde(self, index: int) -> Fde | None:
        offset = index * self._stride
        if self._stride == 12:
            start, end, info = struct.unpack_from("<III", self._table, offset)
            return x64_fde(start, end, info, self._base, self._info_of, offset) if start < end else None
        start, info = struct.unpack_from("<II", self._table, offset)
        return arm64_fde(start, info, self._base, self._info_of, offset)

    def _info_of(self, rva: int) -> memoryview:
        return self._reader.view(rva, INFO_LIMIT)
