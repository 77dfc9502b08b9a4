"""Mach-O's compact unwind information, `__unwind_info`, as call frame information.

    header    version 1; offsets and counts of common encodings, personalities, and the index
    index     first function and page of each range of functions, in order; the last entry ends the last function
    page      regular: function and encoding of each entry; compressed: 24 bits of a function's offset from the first,
              8 bits that number an encoding, of the common ones and then those of the page

An encoding describes the frame of a function's body in 32 bits: by rbp or x29 with registers at fixed places, or by the
size of a frame without it. Rows of the prologue are added by its instructions (compact_code.py), and so is the row of
an address in an epilogue. Functions of other forms have FDEs in `__eh_frame`, which is searched first. Offsets of
functions count from `__TEXT`. Reference: mach-o/compact_unwind_encoding.h.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from whence._base.budget import Budget
from whence._base.errors import DwarfError, ObjectError
from whence.objects.machines import EM_AARCH64, EM_X86_64
from whence.objects.macho import MachoFile
from whence.unwind import compact_code
from whence.unwind.cfi import Cfa, CfiRow, Cie, Fde, How, Rule

if TYPE_CHECKING:
    from whence.objects.interface import ObjectFile

SECTION, OWN_NAME = "__unwind_info", "__TEXT,__unwind_info"
HEADER, INDEX_ENTRY = struct.Struct("<7I"), struct.Struct("<3I")
REGULAR, COMPRESSED = 2, 3  # kinds of pages
REGULAR_HEAD, COMPRESSED_HEAD = struct.Struct("<IHH"), struct.Struct("<IHHHH")
VERSION = 1
MODE = 0x0F000000
X64_FRAME, X64_IMMEDIATE, X64_INDIRECT = 1 << 24, 2 << 24, 3 << 24
ARM64_FRAMELESS, ARM64_FRAME = 2 << 24, 4 << 24
ROWS_TIMES, ROWS_ALLOWANCE = 64, 1 << 20  # limit of all rows: times the section's bytes, plus the allowance
X64_REGISTERS = (0, 3, 12, 13, 14, 15, 6)  # by the numbers of encodings: none, rbx, r12 to r15, rbp
DIVISORS = {6: (120, 24, 6, 2, 1), 5: (120, 24, 6, 2, 1), 4: (60, 12, 3, 1), 3: (20, 4, 1), 2: (5, 1), 1: (1,)}
RSP, RBP, RIP = 7, 6, 16
X29, X30, SP = 29, 30, 31
X64_CIE = Cie(1, -8, RIP, 0, 0, False, False, 8, memoryview(b""))
ARM64_CIE = Cie(4, -8, X30, 0, 0, False, False, 8, memoryview(b""))


class CompactEntry(NamedTuple):
    """A function: [start, end) as offsets from `__TEXT`, and its encoding."""

    start: int
    end: int
    encoding: int


class CompactUnwind:
    """The functions of `__unwind_info`, found by vaddr."""

    def __init__(self, file: MachoFile, data: memoryview) -> None:
        """Open the section of an open file, which must stay open. Raises DwarfError if its header is damaged."""
        self._file, self._data, self._base = file, data, file.image_base
        self.machine = file.machine
        if len(data) < HEADER.size:
            raise DwarfError(SECTION, 0, f"truncated: needs {HEADER.size} bytes, {len(data)} left")
        version, common, common_count, _, _, index, self._index_count = HEADER.unpack_from(data)
        if version != VERSION:
            raise DwarfError(SECTION, 0, f"unknown version {version}; known is {VERSION}")
        self._common, self._common_count, self._index = common, common_count, index
        if index + self._index_count * INDEX_ENTRY.size > len(data):
            raise DwarfError(SECTION, index, f"{self._index_count} index entries extend past the end of the section")
        self._fdes: dict[int, Fde | None] = {}

    @classmethod
    def of_file(cls, file: ObjectFile) -> CompactUnwind | None:
        """Return the table of a Mach-O file; None without one, for other machines, and if it is damaged."""
        if not isinstance(file, MachoFile) or file.machine not in (EM_X86_64, EM_AARCH64) or file.bits != 64:
            return None
        section = next((each for each in file.sections if each.own_name == OWN_NAME), None)
        if section is None:
            return None
        try:
            return cls(file, file.content(section))
        except (ObjectError, DwarfError):
            return None

    def find(self, vaddr: int) -> Fde | None:
        """Return the rows of the function that contains `vaddr`, None without one. Raises DwarfError if damaged."""
        entry = self.entry(vaddr - self._base)
        if entry is None:
            return None
        if entry.start not in self._fdes:
            self._fdes[entry.start] = self._fde(entry)
        fde = self._fdes[entry.start]
        return None if fde is None else compact_code.with_epilogue(fde, vaddr, self._code, self.machine)

    def fdes(self) -> Iterator[Fde]:
        """Yield all described functions in order. Damaged pages are left out. Raises DwarfError beyond a limit."""
        budget = Budget(SECTION, "rows", len(self._data), times=ROWS_TIMES, allowance=ROWS_ALLOWANCE, error=DwarfError)
        for page in range(max(0, self._index_count - 1)):
            try:
                count = self._page(page)[2]
            except DwarfError:
                continue
            for index in range(count):
                budget.charge(1)
                try:
                    entry = self._entry(page, index)
                except DwarfError:
                    continue
                for part in self._parts(entry):
                    fde = self._fde(part)
                    budget.charge(1 if fde is None else len(fde.rows))
                    if fde is not None:
                        yield fde

    # the table

    def entry(self, offset: int) -> CompactEntry | None:
        """Return the entry of the function at an offset from `__TEXT`; None outside. Raises DwarfError."""
        page = bisect_right(range(self._index_count), offset, key=lambda index: self._index_entry(index)[0]) - 1
        if page < 0 or page >= self._index_count - 1:
            return None
        count = self._page(page)[2]
        index = bisect_right(range(count), offset, key=lambda index: self._function(page, index)) - 1
        return None if index < 0 else self._part(self._entry(page, index), offset)

    def _part(self, entry: CompactEntry, offset: int) -> CompactEntry:
        """Return the function at an offset: linkers join the entries of adjacent functions with equal encodings."""
        starts = self._file.function_starts
        index = bisect_right(starts, self._base + offset)
        start = starts[index - 1] - self._base if index else entry.start
        end = starts[index] - self._base if index < len(starts) else entry.end
        return CompactEntry(max(start, entry.start), min(end, entry.end), entry.encoding)

    def _parts(self, entry: CompactEntry) -> Iterator[CompactEntry]:
        """Yield the functions of an entry."""
        offset = entry.start
        while offset < entry.end:
            part = self._part(entry, offset)
            yield part
            offset = max(part.end, offset + 1)

    def _index_entry(self, index: int) -> tuple[int, int, int]:
        first, page, lsda = INDEX_ENTRY.unpack_from(self._data, self._index + index * INDEX_ENTRY.size)
        return first, page, lsda

    def _page(self, index: int) -> tuple[int, int, int, int, int]:
        """Return kind, offset of the entries, their count, offset of the page's encodings, their count."""
        _, page, _ = self._index_entry(index)
        if not page or page + COMPRESSED_HEAD.size > len(self._data):
            raise DwarfError(SECTION, page, "a page is outside the section")
        kind, start, count = REGULAR_HEAD.unpack_from(self._data, page)
        encodings, encoding_count = 0, 0
        if kind == COMPRESSED:
            _, start, count, encodings, encoding_count = COMPRESSED_HEAD.unpack_from(self._data, page)
        elif kind != REGULAR:
            raise DwarfError(SECTION, page, f"unknown kind {kind} of a page")
        size = 8 if kind == REGULAR else 4
        if page + start + count * size > len(self._data) or page + encodings + 4 * encoding_count > len(self._data):
            raise DwarfError(SECTION, page, f"{count} entries extend past the end of the section")
        return kind, page + start, count, page + encodings, encoding_count

    def _function(self, page: int, index: int) -> int:
        kind, start, count, _, _ = self._page(page)
        if index >= count:
            return self._index_entry(page + 1)[0]
        if kind == REGULAR:
            return self._word(start + 8 * index)
        return self._index_entry(page)[0] + (self._word(start + 4 * index) & 0xFFFFFF)

    def _entry(self, page: int, index: int) -> CompactEntry:
        kind, start, _, encodings, encoding_count = self._page(page)
        end = self._function(page, index + 1)
        if kind == REGULAR:
            encoding = self._word(start + 8 * index + 4)
        else:
            number = self._word(start + 4 * index) >> 24
            if number < self._common_count:
                encoding = self._word(self._common + 4 * number)
            elif number - self._common_count < encoding_count:
                encoding = self._word(encodings + 4 * (number - self._common_count))
            else:
                raise DwarfError(SECTION, start + 4 * index, f"encoding {number} of {encoding_count}")
        return CompactEntry(self._function(page, index), end, encoding)

    def _word(self, offset: int) -> int:
        if offset + 4 > len(self._data):
            raise DwarfError(SECTION, offset, "an encoding is outside the section")
        return int.from_bytes(self._data[offset : offset + 4], "little")

    def _code(self, vaddr: int, size: int) -> bytes:
        """Return up to `size` bytes of code at a vaddr."""
        start, data = self._file.loaded_around(vaddr)
        return bytes(data[vaddr - start : vaddr - start + size])

    # encodings

    def _fde(self, entry: CompactEntry) -> Fde | None:
        start, end = self._base + entry.start, self._base + entry.end
        if start >= end:
            return None
        if self.machine == EM_X86_64:
            row = self._x64_row(entry, start)
            cie = X64_CIE
        else:
            row = arm64_row(entry.encoding, start)
            cie = ARM64_CIE
        if row is None:
            return None
        rows = compact_code.prologue_rows(row, end, self._code, self.machine)
        return Fde(start, end, cie, rows, SECTION, entry.start)

    def _x64_row(self, entry: CompactEntry, start: int) -> CfiRow | None:
        encoding = entry.encoding
        mode, size = encoding & MODE, 8 * (encoding >> 16 & 0xFF)
        rules = {RIP: Rule(How.OFFSET, -8)}
        if mode == X64_FRAME:
            rules[RBP] = Rule(How.OFFSET, -16)
            for index in range(5):
                number = encoding >> 3 * index & 7
                if number and number < len(X64_REGISTERS):
                    rules[X64_REGISTERS[number]] = Rule(How.OFFSET, -16 - size + 8 * index)
            return CfiRow(start, Cfa(RBP, 16), rules)
        if mode == X64_INDIRECT:  # the size is the operand of a subtraction
            operand = self._code(start + (encoding >> 16 & 0xFF), 4)
            if len(operand) < 4:
                return None
            size = int.from_bytes(operand, "little") + 8 * (encoding >> 13 & 7)
        elif mode != X64_IMMEDIATE:
            return None
        count = encoding >> 10 & 7
        for index, number in enumerate(permuted(count, encoding & 0x3FF)):
            rules[X64_REGISTERS[number]] = Rule(How.OFFSET, -8 - 8 * count + 8 * index)
        return CfiRow(start, Cfa(RSP, max(size, 8)), rules)


def permuted(count: int, permutation: int) -> list[int]:
    """Return the numbers of `count` saved registers in order of address, by the number of their permutation.

    >>> permuted(2, 0), permuted(2, 5), permuted(0, 0)
    ([1, 2], [2, 1], [])
    """
    left = list(range(1, len(X64_REGISTERS)))
    numbers = []
    for divisor in DIVISORS.get(count, ()):
        position, permutation = divmod(permutation, divisor)
        if position < len(left):
            numbers.append(left.pop(position))
    if count == len(X64_REGISTERS) - 1 and len(left) == 1:  # the last of all six is what is left
        numbers.append(left.pop())
    return numbers


def arm64_row(encoding: int, start: int) -> CfiRow | None:
    """Return the row of a function's body; None for other forms."""
    mode = encoding & MODE
    rules = {X30: Rule(How.SAME)}
    if mode == ARM64_FRAME:
        cfa, below = Cfa(X29, 16), -24
        rules |= {X29: Rule(How.OFFSET, -16), X30: Rule(How.OFFSET, -8)}
    elif mode == ARM64_FRAMELESS:
        cfa, below = Cfa(SP, 16 * (encoding >> 12 & 0xFFF)), -8
    else:
        return None
    for pair in range(5):
        if encoding >> pair & 1:
            rules[19 + 2 * pair] = Rule(How.OFFSET, below)
            rules[20 + 2 * pair] = Rule(How.OFFSET, below - 8)
            below -= 16
    return CfiRow(start, cfa, rules)
