"""The DWARF of one file as ranges."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from whence import cores
from whence.dwarf import units
from whence.dwarf.arriving import Arriving, Beginning, NotThisWay, worth_it
from whence.dwarf.kernels import aranges as aranges_kernel
from whence.dwarf.kernels.parts import Parts
from whence.dwarf.line_files import LineBudgets
from whence.dwarf.problems import Problems, problem
from whence.dwarf.sections import Sections, code_of, read_sections
from whence.dwarf.split import SplitFiles
from whence.dwarf.threads import share
from whence.dwarf.unit_set import UnitSet, most_units
from whence.dwarf.units import Units
from whence.dwarf.worker import Worker
from whence.elf import ElfFile
from whence.elf.kernels.constants import ET_REL
from whence.errors import DwarfError, ElfError
from whence.forks import cached_property
from whence.ranges import Ranges, StringSpace
from whence.ranges.arrange import join

if TYPE_CHECKING:
    from whence.model import NameStyle, PathStyle

NAME_STYLES = ("qualified", "linkage", "short")  # as names.pxd numbers them
FEW = 64  # vaddrs that are looked for in .debug_aranges, one by one


class DebugInfo:
    """Debug info: units, and the ranges of functions, inlined calls and lines they describe.

    `strings` is the space the names of all tables refer to. `alt` is the supplementary file (dwz), `dwp` the package of
    split units, `dwo` gives the file of a skeleton unit (None: not found), `names` says how functions are
    called, `paths` how those of files are put together. Nothing here raises for what a file holds:
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
        names: NameStyle = "qualified",
        paths: PathStyle = "joined",
    ) -> None:
        self.problems = Problems()
        self.style, self.paths = NAME_STYLES.index(names), paths
        self.elf, self.strings = elf, strings
        self.code = code_of(elf)
        self.alt_sections = read_sections(alt, self.problems)
        self.alt = self.alt_sections.parts(strings, elf.order, self.code)
        self.alt_units = UnitSet(self.alt, self.alt, strings, most=most_units(alt)).units
        self.split = SplitFiles(self, dwp, dwo)
        self._some: UnitSet | None = None  # the units of the last question, when it needed few
        self._beginning: Beginning | None = None  # of a compressed .debug_info, as far as few units needed it
        self._listed = 0
        self.bare: set[int] = set()  # names of functions of which nothing else is said (clang -g1)

    def __bool__(self) -> bool:
        return len(self.sections.debug_info) > 0

    @property
    def packed(self) -> bool:
        """Is .debug_info big, compressed and not yet unpacked? Then `ranges` of all units cost little more time and
        less memory than a question that needs it unpacked."""
        return "sections" not in self.__dict__ and worth_it(self.elf)

    @cached_property
    def sections(self) -> Sections:
        """The sections with everything in them; the first use unpacks them."""
        if self._beginning is not None:
            self._beginning.keep()
        found = read_sections(self.elf, self.problems)
        found.alt_str = self.alt_sections.debug_str
        return found

    @cached_property
    def all(self) -> UnitSet:
        """Every unit, its header and root DIE read. The first use costs a look at each."""
        found = UnitSet(self._parts(), self.alt, self.strings, aranges=self.aranges, most=most_units(self.elf))
        for index, fault in enumerate(found.units.column(units.FAULT)):
            if self.problems.full:
                break
            if fault:
                name = self.strings.text(found.units.value(index, units.NAME))
                self.problems.append(problem(fault, found.units.value(index, units.FAULT_AT), index, name))
        return found

    @property
    def units(self) -> Units:
        """Every unit of .debug_info, in order."""
        return self.all.units

    @property
    def unit_count(self) -> int:
        """How many units there are: as .debug_aranges lists them, until all were looked at."""
        return self._listed if self._listed and "all" not in self.__dict__ else len(self.units)

    def units_at(self, vaddrs: Iterable[int]) -> list[int]:
        """The offsets in .debug_info of the units that can hold any of the vaddrs, in order.

        Few vaddrs are looked for in .debug_aranges first, and answered from there when it has them all and the units
        it names claim them, too. Else all units are asked what their root DIEs claim; those that claim nothing can hold
        anything.
        """
        wanted = array("Q", vaddrs)
        if len(wanted) <= FEW and "all" not in self.__dict__ and (offsets := self._listed_at(wanted)):
            return offsets
        return [self.units.value(index, units.OFFSET) for index in self.all.claims.units_at(wanted)]

    def ranges(self, units: Iterable[int] | None = None, *, jobs: int | None = None, lines: bool = True) -> Ranges:
        """The ranges of the units at these offsets (None: all), unit after unit: whence.ranges.arrange puts them in
        order. Where units claim the same code (a function that several of them had to instantiate), the first one is
        to be believed. Without `lines` functions and inlined calls have no files, no lines and no starts.

        `jobs` threads (None: one per core). Memory beyond the result: the scopes of about 2 MB of DIEs per thread.
        """
        if units is None and jobs != 1 and "sections" not in self.__dict__:
            table = self._arriving_ranges(jobs, lines)
            if table is not None:
                return table
        offsets = None if units is None else sorted(set(units))
        if offsets is not None and self._some is not None and "all" not in self.__dict__:
            chosen = self._some.at(offsets)
            if len(chosen) == len(offsets):
                table = self._ranges(self._some, chosen, jobs, lines)
                if table is not None:
                    return table
        table = self._ranges(self.all, range(len(self.units)) if offsets is None else self.all.at(offsets), jobs, lines)
        assert table is not None
        return table

    def _listed_at(self, vaddrs: array[int]) -> list[int]:
        """The units .debug_aranges names for all of the vaddrs, if it can be trusted to; else none."""
        if self.elf.type == ET_REL or not len(vaddrs):
            return []
        table = self.aranges
        places = array("Q", bytes(8 * len(vaddrs)))
        self._listed = aranges_kernel.find(table, self.elf.order == "big", vaddrs, places)
        if self._listed <= 0 or 0 in places:
            self._listed = 0
            return []
        offsets = sorted({place - 1 for place in places})
        sections = self._sections_with(offsets)
        parts = sections.parts(self.strings, self.elf.order, self.code)
        self._some = UnitSet(parts, self.alt, self.strings, offsets, table)
        good = not any(self._some.units.column(units.FAULT))
        if good and len(self._some.claims.units_at(vaddrs)) == len(offsets):
            return offsets
        self._some, self._listed = None, 0
        return []

    def _sections_with(self, offsets: list[int]) -> Sections:
        """The sections, .debug_info unpacked to the end of the units at these offsets at least."""
        if not self.packed:
            return self.sections
        if self._beginning is None:
            self._beginning = Beginning.of(self)
        found = self._beginning.sections_with(offsets) if self._beginning is not None else None
        return self.sections if found is None else found

    @cached_property
    def aranges(self) -> memoryview:
        """The bytes of .debug_aranges; none when they are damaged."""
        try:
            return self.elf.content(".debug_aranges")
        except ElfError:
            return memoryview(b"")

    def _parts(self) -> Parts:
        return self.sections.parts(self.strings, self.elf.order, self.code)

    def _ranges(self, of: UnitSet, chosen: Sequence[int], jobs: int | None, lines: bool) -> Ranges | None:
        """The ranges of these units of a set; None when their names lie in units that the set does not have."""
        jobs = max(1, min(jobs or cores.available(), len(chosen)))
        sections = self.sections if of.whole else self._sections_with([])
        budgets = LineBudgets()
        workers = [Worker(self, sections, lines, of, 0, budgets) for _ in range(jobs)]
        of.claims  # noqa: B018 - made before threads share it
        batches = list(of.batches(chosen, jobs))
        out = self._joined(workers, ((of, batch) for batch in batches), lambda n: self._let_go(of, batches[n]))
        problems = finished(workers)
        if not of.whole and any(worker.strangers() for worker in workers):
            return None
        self.problems += problems
        return out

    def _arriving_ranges(self, jobs: int | None, lines: bool) -> Ranges | None:
        """All ranges, read while .debug_info is being unpacked; None when it can't be done like that."""
        arriving = Arriving.of(self)
        if arriving is None:
            return None
        workers: list[Worker] = []
        wave_of: list[int] = []

        def pieces() -> Iterator[tuple[UnitSet, list[list[int]]]]:
            for wave, of in enumerate(arriving.waves()):
                of.claims  # noqa: B018 - made before threads share it
                for batch in of.batches(range(len(of.units))):
                    wave_of.append(wave)
                    yield of, batch

        try:
            waiting = pieces()
            first = next(waiting, None)
            if first is None:
                return None
            count = jobs or cores.available()
            own = arriving.sections, lines, first[0], arriving.source, LineBudgets()
            workers = [Worker(self, *own) for _ in range(count)]
            out = self._joined(workers, chain([first], waiting), lambda n: arriving.done_before(wave_of[n]))
            problems = finished(workers)
            if any(worker.strangers() for worker in workers):
                return None
            self.problems += [*arriving.problems, *problems]
            return out
        except NotThisWay:
            return None
        except KeyboardInterrupt:
            arriving.stop()
            raise
        finally:
            arriving.close()

    def _joined(
        self, workers: list[Worker], pieces: Iterable[tuple[UnitSet, list[list[int]]]], done: Callable[[int], None]
    ) -> Ranges:
        """The ranges of batches of units, in their order; `done` is told when those of a batch and all before it are
        there."""
        out, waiting, lock = Ranges(self.strings), dict[int, Ranges](), threading.Lock()
        joined = 0

        def work(worker: Worker, piece: tuple[int, tuple[UnitSet, list[list[int]]]]) -> None:
            nonlocal joined
            number, (of, groups) = piece
            if worker.of is not of:
                worker.turn_to(of)
            found = worker.run(groups)
            with lock:  # in the order of units, whoever is faster; and at once, so that nothing is held twice
                waiting[number] = found
                while joined in waiting:
                    join([out, waiting.pop(joined)])
                    done(joined)
                    joined += 1

        share(workers, enumerate(pieces), work)
        return out

    def _let_go(self, of: UnitSet, batch: list[list[int]]) -> None:
        """The DIEs of these units were read: their pages need not stay in memory. Names in them may bring some back."""
        stored = self.elf.section(".debug_info")
        if stored is not None and not stored.compressed and of.whole:
            start = min(of.units.value(index, units.OFFSET) for group in batch for index in group)
            end = max(of.units.value(index, units.END) for group in batch for index in group)
            self.elf.done_with(stored, start, end)

    @property
    def lowest(self) -> int:
        """The lowest vaddr that can be code; line sequences below it are what a linker left of dropped sections."""
        return self.code[0]


def finished(workers: list[Worker]) -> list[DwarfError | ElfError]:
    """The problems that workers met, in order of place."""
    problems = [problem for worker in workers for problem in worker.finish()]
    return sorted(problems, key=lambda problem: (problem.part, problem.offset or 0))


__all__ = ["DebugInfo", "Sections"]
