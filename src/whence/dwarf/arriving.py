"""Units of a compressed .debug_info, read while it is being unpacked, and forgotten once they were read.

Unpacking one stream takes one core; the others read the units that have come out of it. As soon as all units of a
wave are ranges their bytes leave memory. This needs units that don't refer to each other's DIEs, and names that are
copied out of .debug_info. What cannot be done (units that do refer, that share a line program with a far one, that are
broken) is left alone, to be read when everything is there.

Few addresses need few units, and of the stream no more than what goes before them: `Beginning`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from whence.dwarf import units
from whence.dwarf.kernels import abbrev as abbrev_kernel
from whence.dwarf.sections import Sections, read_sections
from whence.dwarf.unit_set import BATCH, UnitSet
from whence.elf.kernels.constants import ET_REL
from whence.errors import DwarfError, ElfError
from whence.forks import Lock
from whence.ranges.strings import OFFSET_BITS
from whence.window import ByteOrder

if TYPE_CHECKING:
    from whence.dwarf.info import DebugInfo
    from whence.elf import ElfFile
    from whence.elf.compress import Unpacking

DWARF64 = 0xFFFFFFFF  # the unit_length that eight bytes of length follow (7.4)
SHORTEST = 12  # bytes that a unit with a root DIE has
SMALLEST = 4 << 20  # packed bytes: below that there is little to win


class NotThisWay(Exception):
    """The units have to be read when all of them are there."""


def worth_it(elf: ElfFile) -> bool:
    """Whether a file's .debug_info is compressed, big, and needs no relocation."""
    section = elf.section(".debug_info")
    return section is not None and section.compressed and section.size >= SMALLEST and elf.type != ET_REL


def unpacking_of(elf: ElfFile) -> Unpacking | None:
    """The .debug_info of a file, still packed; None when it is not worth it, or has to be unpacked at once."""
    section = elf.section(".debug_info")
    if section is None or not worth_it(elf):
        return None
    try:
        return elf.unpacking(section)
    except ElfError:
        return None  # told to whoever reads it whole


class Beginning:
    """The first bytes of a .debug_info, as many as the units needed so far. Threads may share it."""

    def __init__(self, info: DebugInfo, unpacking: Unpacking) -> None:
        self._info, self._unpacking = info, unpacking
        self._lock = Lock()
        self._sections: Sections | None = None

    @classmethod
    def of(cls, info: DebugInfo) -> Beginning | None:
        """One for this file; None when it has to be read whole."""
        unpacking = unpacking_of(info.elf)
        return None if unpacking is None else cls(info, unpacking)

    def sections_with(self, offsets: list[int]) -> Sections | None:
        """The sections, with the units at these offsets in .debug_info; None when they are not whole there."""
        with self._lock:
            if self._sections is not None:
                return self._sections if self._reach(offsets) else None
            thread = threading.Thread(target=self._read_others, daemon=True)
            thread.start()
            reached = self._reach(offsets)
            thread.join()
            return self._sections if reached else None

    def _read_others(self) -> None:
        sections = read_sections(self._info.elf, [], info=self._unpacking.content)
        sections.alt_str = self._info.alt_sections.debug_str
        self._sections = sections

    def _reach(self, offsets: list[int]) -> bool:
        unpacking = self._unpacking
        try:
            for offset in offsets:
                unpacking.advance(offset + 12)
                end = offset + unit_size(unpacking.content, offset, self._info.elf.order)
                if end > unpacking.size:
                    return False
                unpacking.advance(end)
        except ElfError:
            return False
        return True

    def keep(self) -> None:
        """Unpack the rest, for the file to keep; whatever is wrong is told to those who read it there."""
        section = self._info.elf.section(".debug_info")
        assert section is not None
        with self._lock, suppress(ElfError):
            self._info.elf.keep(section, self._unpacking.run())


class Arriving:
    """A .debug_info on its way, being unpacked on a thread of its own."""

    def __init__(self, info: DebugInfo, unpacking: Unpacking) -> None:
        self._info, self._unpacking = info, unpacking
        self._thread = threading.Thread(target=self._unpack, daemon=True)
        self._starts: list[int] = []  # of the waves
        self._failed = False
        self.problems: list[DwarfError | ElfError] = []
        self._thread.start()
        try:
            self.sections: Sections = read_sections(info.elf, self.problems, info=unpacking.content)
        except KeyboardInterrupt:
            self.stop()
            raise
        self.sections.alt_str = info.alt_sections.debug_str

    @classmethod
    def of(cls, info: DebugInfo) -> Arriving | None:
        """One for this file; None when its .debug_info is not compressed, or small, or part of an object file."""
        unpacking = unpacking_of(info.elf)
        return None if unpacking is None else cls(info, unpacking)

    def _unpack(self) -> None:
        try:
            self._unpacking.run()
        except ElfError:
            self._failed = True

    @property
    def source(self) -> int:
        """The source of names that lie in .debug_info itself."""
        assert self.sections.refs is not None
        return self.sections.refs[0] >> OFFSET_BITS

    def waves(self) -> Iterator[UnitSet]:
        """The units that have arrived whole, some two megabytes of them at a time, until all have."""
        info, sections = self._info, self.sections
        if not abbrev_kernel.stay_inside(sections.debug_abbrev):
            raise NotThisWay
        at, size = 0, self._unpacking.size
        programs: set[int] = set()
        wanted = BATCH
        while at < size:
            end = min(at + wanted, size)
            there = self._unpacking.wait(end)
            offsets, after = whole_units(sections.debug_info, at, min(there, end), info.elf.order)
            if not offsets:
                if there < end or end == size:
                    raise NotThisWay  # there is no more to come, or it makes no sense
                wanted *= 2
                continue
            parts = sections.parts(info.strings, info.elf.order, info.code)
            found = UnitSet(parts, info.alt, info.strings, offsets, info.aranges)
            lines = {value for value, has in zip(found.units.column(units.STMT_LIST), found.units.column(units.HAS))
                     if has & units.HAS_STMT_LIST}  # fmt: skip
            if any(found.units.column(units.FAULT)) or programs & lines:
                raise NotThisWay
            programs |= lines
            self._starts.append(at)
            yield found
            at, wanted = after, BATCH
        self._thread.join()
        if self._failed:
            raise NotThisWay

    def done_before(self, wave: int) -> None:
        """All waves before this one were read."""
        self._unpacking.forget(self._starts[wave])

    def stop(self) -> None:
        """Unpack no more: nobody wants it."""
        self._unpacking.stop()

    def close(self) -> None:
        """Wait for the thread. What is whole stays with the file; names that lie in the rest are no more."""
        self._thread.join()
        section = self._info.elf.section(".debug_info")
        unpacking = self._unpacking
        if section is not None and unpacking.done == unpacking.size and not unpacking.forgotten:
            self._info.elf.keep(section, unpacking.content)
        elif self.sections.refs is not None:
            self._info.strings.sources[self.source] = memoryview(b"")


def whole_units(data: memoryview, at: int, end: int, order: ByteOrder) -> tuple[list[int], int]:
    """Where the units begin that lie in [at, end), and where the last of them ends, going by their lengths."""
    offsets = []
    while end - at >= SHORTEST:
        size = unit_size(data, at, order)
        if size < SHORTEST:
            raise NotThisWay
        if size > end - at:
            break
        offsets.append(at)
        at += size
    return offsets, at


def unit_size(data: memoryview, at: int, order: ByteOrder) -> int:
    """The bytes of a unit, by its length field; twelve bytes are there."""
    length = int.from_bytes(data[at : at + 4], order)
    return 4 + length if length != DWARF64 else 12 + int.from_bytes(data[at + 4 : at + 12], order)
