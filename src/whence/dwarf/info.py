"""The DWARF of one file as ranges."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from whence.dwarf import units
from whence.dwarf.claims import Claims
from whence.dwarf.problems import problem
from whence.dwarf.sections import Sections, code_of, read_sections
from whence.dwarf.split import SplitFiles
from whence.dwarf.threads import share
from whence.dwarf.units import Units
from whence.dwarf.worker import Worker
from whence.elf import ElfFile
from whence.errors import DwarfError, ElfError
from whence.ranges import Ranges, StringSpace
from whence.ranges.arrange import join

BATCH = 2 << 20  # bytes of .debug_info a thread takes at once


class DebugInfo:
    """Debug info: units, and the ranges of functions, inlined calls and lines they describe.

    `strings` is the space the names of all tables refer to. `alt` is the supplementary file (dwz), `dwp` the package of
    split units, `dwo` gives the file of a skeleton unit (None: not found). Nothing here raises for what a file holds:
    what is broken is left out and told in `problems`. The files must stay open as long as names are read.
    """

    def __init__(
        self,
        elf: ElfFile,
        *,
        strings: StringSpace,
        alt: ElfFile | None = None,
        dwp: ElfFile | None = None,
        dwo: Callable[[units.Unit], ElfFile | None] | None = None,
    ) -> None:
        self.problems: list[DwarfError | ElfError] = []
        self.elf, self.strings = elf, strings
        self.sections = read_sections(elf, self.problems)
        self.code = code = code_of(elf)
        self.parts = self.sections.parts(strings, elf.order, code)
        other = read_sections(alt, self.problems, lines=False)
        self.sections.alt_str = other.debug_str
        self.alt = other.parts(strings, elf.order, code)
        Units.read(self.alt, self.alt, other.debug_info, elf.order, strings)
        self.units = Units.read(self.parts, self.alt, self.sections.debug_info, elf.order, strings)
        for index, fault in enumerate(self.units.column(units.FAULT)):
            if fault:
                self._tell(index, fault, self.units.value(index, units.FAULT_AT))

        self.split = SplitFiles(self, dwp, dwo)

    def __bool__(self) -> bool:
        return len(self.units) > 0

    def units_at(self, vaddrs: Iterable[int]) -> list[int]:
        """The units that can hold any of the vaddrs, in order: going by the ranges their root DIEs claim; units that
        claim none can hold any."""
        return self.claims.units_at(vaddrs)

    def ranges(self, units: Iterable[int] | None = None, *, jobs: int | None = None, lines: bool = True) -> Ranges:
        """The ranges of these units (None: all), unit after unit: whence.ranges.arrange puts them in order. Where units
        claim the same code (a function that several of them had to instantiate), the first one is to be believed.

        `jobs` threads (None: one per core). Memory beyond the result: the scopes of about 2 MB of DIEs per thread.
        """
        chosen = range(len(self.units)) if units is None else sorted(set(units))
        jobs = max(1, min(jobs or os.cpu_count() or 1, len(chosen)))
        workers = [Worker(self, lines) for _ in range(jobs)]
        tables: dict[int, Ranges] = {}
        self.claims  # noqa: B018 - made before threads share it

        def work(worker: Worker, piece: tuple[int, list[list[int]]]) -> None:
            number, groups = piece
            tables[number] = worker.run(groups)
            self._let_go(groups)

        share(workers, enumerate(self._batches(chosen)), work)
        for worker in workers:
            self.problems += worker.finish()
        return join([tables[place] for place in sorted(tables)]) if tables else Ranges(self.strings)

    @cached_property
    def claims(self) -> Claims:
        """What the units' root DIEs claim."""
        return Claims(self.parts, self.units)

    def _let_go(self, batch: list[list[int]]) -> None:
        """The DIEs of these units were read: their pages need not stay in memory. Names in them may bring some back."""
        stored = self.elf.section(".debug_info")
        if stored is not None and not stored.compressed:
            start = min(self.units.value(index, units.OFFSET) for group in batch for index in group)
            end = max(self.units.value(index, units.END) for group in batch for index in group)
            self.elf.done_with(stored, start, end)

    def _batches(self, chosen: Iterable[int]) -> Iterator[list[list[int]]]:
        """Groups of units that share a line program (nearly always one unit), in bites of about BATCH bytes."""
        groups: dict[int, list[int]] = {}
        rows = self.units.rows
        for index in chosen:
            row = index * units.WIDTH
            if rows[row + units.FAULT] or rows[row + units.KIND] in units.TYPE_KINDS:
                continue
            if rows[row + units.HAS] & units.HAS_STMT_LIST and rows[row + units.TAG] != units.TAG_PARTIAL:
                groups.setdefault(rows[row + units.STMT_LIST], []).append(index)
            else:
                groups[-1 - index] = [index]
        batch: list[list[int]] = []
        size = 0
        for group in groups.values():
            batch.append(group)
            size += sum(rows[at * units.WIDTH + units.END] - rows[at * units.WIDTH + units.OFFSET] for at in group)
            if size >= BATCH:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _tell(self, index: int, fault: int, offset: int) -> None:
        name = self.strings.text(self.units.value(index, units.NAME))
        self.problems.append(problem(fault, offset, index, name))

    @property
    def lowest(self) -> int:
        """The lowest vaddr that can be code; line sequences below it are what a linker left of dropped sections."""
        return self.code[0]


__all__ = ["DebugInfo", "Sections"]
