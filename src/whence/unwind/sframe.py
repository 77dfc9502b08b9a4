"""SFrame, the simple frame format: `.sframe` versions 1, 2 and 3 as call frame information.

    header   28 bytes: magic 0xdee2, version, flags, ABI; the offsets of the saved frame pointer and return address if
             they are fixed; counts; offsets of FDEs and FREs from the end of the header
    FDE      a function: start and size, offset and count of its FREs
    FRE      a row that starts at an offset in the function: the base register of the CFA (stack or frame pointer), then
             the offset of the CFA and, from the CFA, of the return address and the frame pointer if they are saved

SFrame does not describe other registers: their values are unknown in the callers of such a frame. Reference: "The
SFrame Format", version 2 with its errata, and version 3 (binutils).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from whence._base.errors import DwarfError, ObjectError, cut_off
from whence.unwind.cfi import Cfa, CfiRow, Cie, Fde, How, Rule

if TYPE_CHECKING:
    from whence.objects.interface import ObjectFile

SECTION = ".sframe"
MAGIC = 0xDEE2
VERSION1, VERSION2, VERSION3 = 1, 2, 3
HEADER_SIZE = 28
FDE_SIZES = {VERSION1: 17, VERSION2: 20, VERSION3: 16}
ATTRIBUTES_SIZE = 5  # of version 3, before an FDE's FREs
SORTED, START_FROM_FIELD = 1, 4  # flags
ROWS_LIMIT = 1 << 16  # per function
FRE_START_SIZES, OFFSET_SIZES = (1, 2, 4), (1, 2, 4)
MASKED, SIGNAL = 0x10, 0x80  # in an FDE's info: FREs repeat for each block; a signal frame
FLEXIBLE = 1  # an FDE type of version 3


class _Abi(NamedTuple):
    """What SFrame leaves to the machine. Offsets of the CFA are in `unit`s, plus `bias`."""

    order: str
    sp: int
    fp: int
    return_column: int
    others: tuple[int, ...]  # other callee-saved registers, which SFrame does not describe
    bias: int = 0
    unit: int = 1


ABIS = {
    1: _Abi(">", 31, 29, 30, tuple(range(19, 29))),
    2: _Abi("<", 31, 29, 30, tuple(range(19, 29))),
    3: _Abi("<", 7, 6, 16, (3, 12, 13, 14, 15)),
    4: _Abi(">", 15, 11, 14, (6, 7, 8, 9, 10, 12, 13), 160, 8),
}


class _Function(NamedTuple):
    start: int
    size: int
    fres_at: int
    fres: int
    info: int
    block: int
    offset: int


class SFrame:
    """The `.sframe` section of a file. Raises DwarfError if the header is malformed."""

    def __init__(self, data: memoryview | bytes, vaddr: int, bits: int = 64) -> None:
        self.data, self.vaddr, self.mask = memoryview(data), vaddr, (1 << bits) - 1
        if len(self.data) < HEADER_SIZE:
            raise cut_off(DwarfError, SECTION, 0, HEADER_SIZE, len(self.data))
        abi = ABIS.get(self.data[4])
        if abi is None:
            raise DwarfError(
                SECTION, 4, f"unknown ABI {self.data[4]}; known are 1 and 2 (aarch64), 3 (x86-64) and 4 (s390x)"
            )
        self.abi = abi
        magic, self.version, self.flags, _, self.fixed_fp, self.fixed_ra, extra, *rest = struct.unpack_from(
            abi.order + "HBBBbbBIIIII", self.data
        )
        if magic != MAGIC:
            raise DwarfError(SECTION, 0, f"the magic is {magic:#x}, expected {MAGIC:#x}")
        if not VERSION1 <= self.version <= VERSION3:
            raise DwarfError(SECTION, 2, f"unknown version {self.version}; known are 1, 2 and 3")
        self.count, _, fres_size, fdes_at, fres_at = rest
        base = HEADER_SIZE + extra
        self.fdes_at, self.fres_at = base + fdes_at, base + fres_at
        self.fres_end = min(self.fres_at + fres_size, len(self.data))
        size = FDE_SIZES[self.version]
        if self.fdes_at + self.count * size > len(self.data):
            raise DwarfError(
                SECTION, 8, f"the {self.count} FDEs extend past the end of the section ({len(self.data):#x})"
            )
        self._order: list[int] | None = None

    @classmethod
    def of_elf(cls, elf: ObjectFile) -> SFrame | None:
        """Return the table of a file, None if it has none that can be read."""
        try:
            section = elf.section(SECTION)
            if section is not None and section.in_file:
                return cls(elf.content(section), section.vaddr, elf.bits)
            located = elf.located(SECTION)
            return None if located is None else cls(located[1], located[0], elf.bits)
        except (ObjectError, DwarfError):
            return None

    def find(self, vaddr: int) -> Fde | None:
        """Return how to unwind at `vaddr`, None if no FDE covers it. Raises DwarfError for a malformed FDE."""
        order = self._sorted()
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self._start(middle if order is None else order[middle]) <= vaddr:
                low = middle + 1
            else:
                high = middle
        if not low:
            return None
        function = self._function(low - 1 if order is None else order[low - 1])
        if not function.start <= vaddr < function.start + function.size:
            return None
        start, size = function.start, function.size
        if function.info & MASKED:  # each block is like a function
            if not function.block:
                raise DwarfError(SECTION, function.offset, "the size of repeated blocks is 0")
            start = vaddr - (vaddr - start) % function.block
            size = min(function.block, function.start + function.size - start)
        rows = tuple(self._rows(function, start))
        if not rows or vaddr < rows[0].start:
            return None
        signal = self.version >= VERSION3 and bool(function.info & SIGNAL)
        cie = Cie(1, 1, self.abi.return_column, 0, 0xFF, False, signal, 8, memoryview(b""))
        return Fde(start, start + size, cie, rows, SECTION, function.offset)

    def _sorted(self) -> list[int] | None:
        """Return the FDEs' indexes by address, None if the FDEs are sorted already."""
        if self.flags & SORTED:
            return None
        if self._order is None:
            self._order = sorted(range(self.count), key=self._start)
        return self._order

    def _start(self, index: int) -> int:
        offset = self.fdes_at + index * FDE_SIZES[self.version]
        base = offset if self.version == VERSION3 or self.flags & START_FROM_FIELD else 0
        start: int
        (start,) = struct.unpack_from(self.abi.order + ("q" if self.version == VERSION3 else "i"), self.data, offset)
        return self.vaddr + base + start & self.mask

    def _function(self, index: int) -> _Function:
        offset = self.fdes_at + index * FDE_SIZES[self.version]
        mark = self.abi.order
        if self.version == VERSION3:
            size, fres_at = struct.unpack_from(mark + "II", self.data, offset + 8)
            attributes = self.fres_at + fres_at
            if attributes + ATTRIBUTES_SIZE > self.fres_end:
                raise DwarfError(SECTION, offset, f"the FDE's attributes at {attributes:#x} are outside the section")
            fres, info, kind, block = struct.unpack_from(mark + "HBBB", self.data, attributes)
            if kind & 0x1F == FLEXIBLE:
                raise DwarfError(SECTION, offset, "FDEs with flexible rules are not supported")
            return _Function(self._start(index), size, attributes + ATTRIBUTES_SIZE, fres, info, block, offset)
        size, fres_at, fres, info = struct.unpack_from(mark + "IIIB", self.data, offset + 4)
        block = self.data[offset + 17] if self.version == VERSION2 else 16
        return _Function(self._start(index), size, self.fres_at + fres_at, fres, info, block, offset)

    def _rows(self, function: _Function, start: int) -> list[CfiRow]:
        abi, mark, offset = self.abi, self.abi.order, function.fres_at
        kind = function.info & 0x0F
        if kind >= len(FRE_START_SIZES):
            raise DwarfError(SECTION, function.offset, f"unknown FRE type {kind}")
        width = FRE_START_SIZES[kind]
        if function.fres > ROWS_LIMIT:
            raise DwarfError(
                SECTION, function.offset, f"the function has {function.fres} FREs; the limit is {ROWS_LIMIT}"
            )
        rows: list[CfiRow] = []
        for _ in range(function.fres):
            if offset + width + 1 > self.fres_end:
                raise DwarfError(SECTION, offset, f"an FRE extends past the end of the FREs ({self.fres_end:#x})")
            (row_start,) = struct.unpack_from(mark + "BHI"[kind], self.data, offset)
            info = self.data[offset + width]
            offset += width + 1
            count, code = info >> 1 & 0x0F, info >> 5 & 3
            if code >= len(OFFSET_SIZES) or offset + count * OFFSET_SIZES[code] > self.fres_end:
                raise DwarfError(
                    SECTION, offset, f"an FRE's {count} offsets extend past the end of the FREs ({self.fres_end:#x})"
                )
            offsets = struct.unpack_from(f"{mark}{count}{'bhi'[code]}", self.data, offset)
            offset += count * OFFSET_SIZES[code]
            rows.append(CfiRow(start + row_start, *self._rules(offsets, abi.sp if info & 1 else abi.fp)))
        return rows

    def _rules(self, offsets: tuple[int, ...], base: int) -> tuple[Cfa, dict[int, Rule]]:
        abi = self.abi
        if not offsets:  # outermost function
            return Cfa(base, 0), {abi.return_column: Rule(How.UNDEFINED)}
        rules = {register: Rule(How.UNDEFINED) for register in abi.others}
        saved = list(offsets[1:])
        for register, fixed in ((abi.return_column, self.fixed_ra), (abi.fp, self.fixed_fp)):
            if fixed:
                rules[register] = Rule(How.OFFSET, fixed)
            elif saved:
                offset = saved.pop(0)
                if abi.unit > 1 and offset & 1:  # s390x: in another register
                    rules[register] = Rule(How.REGISTER, offset >> 1)
                elif offset:  # 0: not saved
                    rules[register] = Rule(How.OFFSET, offset)
        return Cfa(base, offsets[0] * abi.unit + abi.bias), rules
