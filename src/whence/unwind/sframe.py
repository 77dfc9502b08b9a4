"""SFrame, the simple frame format: .sframe of versions 1, 2 and 3 as call frame information.

    header   28 bytes: magic 0xdee2, version, flags, ABI; where the frame pointer and the return address are saved if
             that is always the same; counts; where FDEs and FREs begin, from the end of the header on
    FDE      a function: its start and size, where its FREs are and how many
    FRE      from an offset in the function on: whether the CFA counts from the stack or the frame pointer, then
             offsets: of the CFA, and from it of the return address and the frame pointer, so far as they are saved

It knows nothing of other registers: what they were is unknown above such a frame. Document: "The SFrame Format",
version 2 with its errata, and version 3 (binutils).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from whence._base.errors import DwarfError, ObjectError
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
ROWS_LIMIT = 1 << 16  # of a function
FRE_START_SIZES, OFFSET_SIZES = (1, 2, 4), (1, 2, 4)
MASKED, SIGNAL = 0x10, 0x80  # in an FDE's info: FREs repeat every so many bytes; a signal's frame
FLEXIBLE = 1  # a type of FDE of version 3


class _Abi(NamedTuple):
    """What SFrame leaves to the machine. Offsets of the CFA count in `unit`s from `bias` on."""

    order: str
    sp: int
    fp: int
    return_column: int
    others: tuple[int, ...]  # registers that calls keep, of which SFrame says nothing
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
    """.sframe of a file. Raises DwarfError when the header breaks a rule."""

    def __init__(self, data: memoryview | bytes, vaddr: int, bits: int = 64) -> None:
        self.data, self.vaddr, self.mask = memoryview(data), vaddr, (1 << bits) - 1
        if len(self.data) < HEADER_SIZE:
            raise DwarfError(SECTION, 0, f"it has a header of {HEADER_SIZE} bytes", f"{len(self.data)} bytes")
        abi = ABIS.get(self.data[4])
        if abi is None:
            raise DwarfError(SECTION, 4, "its ABI is aarch64, x86-64 or s390x", self.data[4])
        self.abi = abi
        magic, self.version, self.flags, _, self.fixed_fp, self.fixed_ra, extra, *rest = struct.unpack_from(
            abi.order + "HBBBbbBIIIII", self.data
        )
        if magic != MAGIC:
            raise DwarfError(SECTION, 0, f"it begins with {MAGIC:#x}", f"{magic:#x}")
        if not VERSION1 <= self.version <= VERSION3:
            raise DwarfError(SECTION, 2, "its version is 1, 2 or 3", self.version)
        self.count, _, fres_size, fdes_at, fres_at = rest
        base = HEADER_SIZE + extra
        self.fdes_at, self.fres_at = base + fdes_at, base + fres_at
        self.fres_end = min(self.fres_at + fres_size, len(self.data))
        size = FDE_SIZES[self.version]
        if self.fdes_at + self.count * size > len(self.data):
            raise DwarfError(SECTION, 8, f"its {self.count} FDEs are in it", f"{len(self.data)} bytes")
        self._order: list[int] | None = None

    @classmethod
    def of_elf(cls, elf: ObjectFile) -> SFrame | None:
        """None where there is none that can be read."""
        try:
            section = elf.section(SECTION)
            if section is not None and section.in_file:
                return cls(elf.content(section), section.vaddr, elf.bits)
            located = elf.located(SECTION)
            return None if located is None else cls(located[1], located[0], elf.bits)
        except (ObjectError, DwarfError):
            return None

    def find(self, vaddr: int) -> Fde | None:
        """How to unwind at a vaddr; None where nothing says so. Raises DwarfError where that breaks a rule."""
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
        if function.info & MASKED:  # as if each block were a function
            if not function.block:
                raise DwarfError(SECTION, function.offset, "blocks that repeat have a size", 0)
            start = vaddr - (vaddr - start) % function.block
            size = min(function.block, function.start + function.size - start)
        rows = tuple(self._rows(function, start))
        if not rows or vaddr < rows[0].start:
            return None
        signal = self.version >= VERSION3 and bool(function.info & SIGNAL)
        cie = Cie(1, 1, self.abi.return_column, 0, 0xFF, False, signal, 8, memoryview(b""))
        return Fde(start, start + size, cie, rows, SECTION, function.offset)

    def _sorted(self) -> list[int] | None:
        """FDEs in order of address; None where they lie so."""
        if self.flags & SORTED:
            return None
        if self._order is None:
            self._order = sorted(range(self.count), key=self._start)
        return self._order

    def _start(self, index: int) -> int:
        at = self.fdes_at + index * FDE_SIZES[self.version]
        base = at if self.version == VERSION3 or self.flags & START_FROM_FIELD else 0
        place: int
        (place,) = struct.unpack_from(self.abi.order + ("q" if self.version == VERSION3 else "i"), self.data, at)
        return self.vaddr + base + place & self.mask

    def _function(self, index: int) -> _Function:
        at = self.fdes_at + index * FDE_SIZES[self.version]
        mark = self.abi.order
        if self.version == VERSION3:
            size, fres_at = struct.unpack_from(mark + "II", self.data, at + 8)
            place = self.fres_at + fres_at
            if place + ATTRIBUTES_SIZE > self.fres_end:
                raise DwarfError(SECTION, at, "an FDE's attributes are in the section", f"{place:#x}")
            fres, info, kind, block = struct.unpack_from(mark + "HBBB", self.data, place)
            if kind & 0x1F == FLEXIBLE:
                raise DwarfError(SECTION, at, "an FDE is of the default type", "one of flexible rules")
            return _Function(self._start(index), size, place + ATTRIBUTES_SIZE, fres, info, block, at)
        size, fres_at, fres, info = struct.unpack_from(mark + "IIIB", self.data, at + 4)
        block = self.data[at + 17] if self.version == VERSION2 else 16
        return _Function(self._start(index), size, self.fres_at + fres_at, fres, info, block, at)

    def _rows(self, function: _Function, start: int) -> list[CfiRow]:
        abi, mark, at = self.abi, self.abi.order, function.fres_at
        kind = function.info & 0x0F
        if kind >= len(FRE_START_SIZES):
            raise DwarfError(SECTION, function.offset, "FREs' starts have 1, 2 or 4 bytes", kind)
        width = FRE_START_SIZES[kind]
        if function.fres > ROWS_LIMIT:
            raise DwarfError(SECTION, function.offset, f"a function has at most {ROWS_LIMIT} FREs", function.fres)
        rows: list[CfiRow] = []
        for _ in range(function.fres):
            if at + width + 1 > self.fres_end:
                raise DwarfError(SECTION, at, "FREs end inside the section", f"{self.fres_end:#x}")
            (place,) = struct.unpack_from(mark + "BHI"[kind], self.data, at)
            info = self.data[at + width]
            at += width + 1
            count, code = info >> 1 & 0x0F, info >> 5 & 3
            if code >= len(OFFSET_SIZES) or at + count * OFFSET_SIZES[code] > self.fres_end:
                raise DwarfError(SECTION, at, "FREs end inside the section", f"{count} offsets")
            offsets = struct.unpack_from(f"{mark}{count}{'bhi'[code]}", self.data, at)
            at += count * OFFSET_SIZES[code]
            rows.append(CfiRow(start + place, *self._rules(offsets, abi.sp if info & 1 else abi.fp)))
        return rows

    def _rules(self, offsets: tuple[int, ...], base: int) -> tuple[Cfa, dict[int, Rule]]:
        abi = self.abi
        if not offsets:  # the outermost function
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
                elif offset:  # 0 stands for one that isn't saved
                    rules[register] = Rule(How.OFFSET, offset)
        return Cfa(base, offsets[0] * abi.unit + abi.bias), rules
