"""The DWARF of one file as ranges."""

from __future__ import annotations

from _thread import allocate_lock
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import chain, islice

from whence._base import cores
from whence._base.errors import DwarfError, ObjectError
from whence._base.forks import cached_property
from whence._base.options import DEFAULTS, ReadOptions
from whence.dwarf.ahead import FEW, listed_units
from whence.dwarf.functions import UnitReader, Wanted
from whence.dwarf.kernels.units import END, FAULT, OFFSET
from whence.dwarf.line_files import LineBudgets
from whence.dwarf.problems import MOST, Problems
from whence.dwarf.sections import Sections, code_of, read_sections
from whence.dwarf.split import SplitFiles
from whence.dwarf.streaming import InfoPrefix, StreamingInfo, StreamingUnsupported, should_stream
from whence.dwarf.unit_set import DwarfFile, Unit, Units, UnitSet, most_units
from whence.objects.interface import ObjectFile
from whence.ranges import Ranges, StringSpace
from whence.ranges.merge import join

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

MOST_STEPS = 8  # from units to those that have their names, and on to those that have the names of these
MOST_NAMING = 256  # units that have names of few others: of more all are read
MOVED = 1 << 19  # rows of a table whose columns the C library makes longer without copying: a small one grows by halves


class State(IntEnum):
    """How much of a file's debug info is read; it only grows."""

    UNREAD = 0
    SOME_UNITS = 1  # those of the last question, and of a big compressed .debug_info no more than leads up to them
    SECTIONS = 2  # every section, whole
    ALL_UNITS = 3  # the header and root DIE of every unit, too


class DebugInfo:
    """Debug info: units, and the ranges of functions, inlined calls and lines they describe.

    `strings` is the space the names of all tables refer to. `alt` is the supplementary file (dwz), `dwp` opens the
    package of split units, `dwo` the file of a skeleton unit (None: not found), both when one is met. `names` and
    `paths`: how functions and files are named (see _base.model); `columns`: whether the columns and discriminators of
    lines and calls are read, too; `skip_line_zero`: whether code of line 0 has the last line before it in its sequence.
    Nothing here raises for what a file holds: what is broken is left out and reported in `problems`. The files must
    stay open as long as names are read.

    `state` is how much is read. `bare` are the names of functions of which nothing else is said (clang -g1).
    """

    def __init__(
        self,
        elf: ObjectFile,
        *,
        strings: StringSpace,
        alt: ObjectFile | None = None,
        dwp: Callable[[], ObjectFile | None] | None = None,
        dwo: Callable[[Unit], ObjectFile | None] | None = None,
        options: ReadOptions = DEFAULTS,
    ) -> None:
        self.problems = Problems()
        self.bare: set[int] = set()
        self.state = State.UNREAD
        self.elf, self.strings = elf, strings
        code = code_of(elf)
        supplementary = DwarfFile(strings, elf.order, code, most_units=most_units(alt))
        self._file = DwarfFile(
            strings,
            elf.order,
            code,
            go=elf.is_go,
            read=options,
            most_units=most_units(elf),
            alt=UnitSet(supplementary, read_sections(alt, self.problems)),
        )
        self.split = SplitFiles(elf, dwp, dwo, self.problems)
        self._sections: Sections | None = None  # from State.SECTIONS on
        self._all: UnitSet | None = None  # from State.ALL_UNITS on
        self._some: UnitSet | None = None  # the units of the last question, when .debug_aranges named them
        self._listed = 0  # how many units .debug_aranges lists, when it answered the last question
        self._types_reported = False
        self._prefix: InfoPrefix | None = None  # of a compressed .debug_info, once some units needed it

    def __repr__(self) -> str:
        return f"<DebugInfo {self.elf.path or 'of bytes'}: {self.state.name}>"

    def __bool__(self) -> bool:
        return len(self.sections.debug_info) > 0

    @property
    def should_stream(self) -> bool:
        """Whether .debug_info is big, compressed and not yet unpacked: `ranges` of all units then cost little more time
        and less memory than a question that needs it unpacked."""
        return self.state < State.SECTIONS and should_stream(self.elf)

    @property
    def sections(self) -> Sections:
        """The sections with everything in them; the first use unpacks them."""
        if self._sections is None:
            if self._prefix is not None:
                self._prefix.keep()
            self._sections = read_sections(self.elf, self.problems, alt=self._file.alt_sections)
            self.state = max(self.state, State.SECTIONS)
        return self._sections

    @property
    def all_units(self) -> UnitSet:
        """Every unit, its header and root DIE read. The first use costs a look at each."""
        if self._all is None:
            found = UnitSet(self._file, self.sections, aranges=self.aranges)
            self.problems.extend(islice(found.problems(), MOST + 1))
            self._all = found
            self.state = State.ALL_UNITS
        return self._all

    @property
    def units(self) -> Units:
        """Every unit of .debug_info, in order."""
        return self.all_units.units

    @property
    def unit_count(self) -> int:
        """How many units there are: as .debug_aranges lists them, until all were looked at."""
        return self._listed if self._listed and self.state < State.ALL_UNITS else len(self.units)

    @cached_property
    def aranges(self) -> memoryview:
        """The bytes of .debug_aranges; none when they are damaged."""
        try:
            return self.elf.content(".debug_aranges")
        except ObjectError:
            return memoryview(b"")

    def reader(self) -> UnitReader:
        """A reader of any units of the file."""
        return UnitReader(self.all_units, split=self.split)

    def units_at(self, vaddrs: Iterable[int]) -> list[int]:
        """The offsets in .debug_info of the units that can hold any of the vaddrs, in order.

        Few vaddrs are looked for in .debug_aranges first, and answered from there when it has them all and the ranges
        of the units it names have them, too. Else the ranges of all root DIEs decide; units that give none can hold
        anything.
        """
        wanted = array("Q", vaddrs)
        if len(wanted) <= FEW and self.state < State.ALL_UNITS and (offsets := self._listed_at(wanted)):
            return offsets
        return [self.units.value(index, OFFSET) for index in self.all_units.ranges.units_at(wanted)]

    def ranges(
        self, units: Iterable[int] | None = None, *, jobs: int | None = None, lines: bool = True, starts: bool = True,
        asked: memoryview | None = None,
    ) -> Ranges:  # fmt: skip
        """The ranges of the units at these offsets (None: all), unit after unit: whence.ranges.merge puts them in
        order. Where units have the same code (a function that several of them had to instantiate), the first one is to
        be believed. Without `lines` functions and inlined calls have no files, no lines and no starts. With `asked`,
        ascending vaddrs, the ranges are those that hold any of them.

        `jobs` threads (None: one per core). Memory beyond the result: the scopes of about 2 MB of DIEs per thread.
        """
        wanted = Wanted(lines, starts, asked)
        if units is None and jobs != 1 and self.state < State.SECTIONS:
            table = self._streamed_ranges(jobs, wanted)
            if table is not None:
                return table
        offsets = None if units is None else sorted(set(units))
        if offsets is not None and self._some is not None and self.state < State.ALL_UNITS:
            table = self._ranges_of_some(self._some, offsets, jobs, wanted)
            if table is not None:
                return table
        every = self.all_units
        chosen = range(len(every.units)) if offsets is None else every.rows_at(offsets)
        table, _ = self._ranges(every, chosen, jobs, wanted)
        assert table is not None
        return table

    def _ranges_of_some(
        self, some: UnitSet, offsets: list[int], jobs: int | None, wanted: Wanted
    ) -> Ranges | None:  # fmt: skip
        """The ranges of units of a set, which is made larger by those that have their names, as long as these are few;
        None when they are not, or not to be had."""
        for _ in range(MOST_STEPS):
            rows = some.rows_at(offsets)
            if len(rows) < len(offsets):
                return None
            table, refs = self._ranges(some, rows, jobs, wanted)
            if table is not None:
                return table
            known = [*some.units.column(OFFSET)]
            found = self._units_of(refs).difference(known)
            if not found or len(found) > MOST_NAMING:
                return None
            known = sorted({*known, *found})
            some = UnitSet(self._file, self._sections_with(known), known, aranges=self.aranges)
            with_lines = known if wanted.starts else offsets  # without starts no function's own file is wanted
            if any(some.units.column(FAULT)) or not self._has_lines(some, with_lines):
                return None
        return None

    def _units_of(self, refs: set[int]) -> set[int]:
        """The offsets of the units that these offsets in .debug_info lie in; none where it is read whole anyway."""
        if self._prefix is None or not refs:
            return set()
        try:
            return self._prefix.units_of(refs)
        except ObjectError:
            return set()

    def _has_lines(self, units: UnitSet, offsets: list[int]) -> bool:
        """Whether the line programs of the units of a set at these offsets could be unpacked."""
        if self._prefix is None or self.state >= State.SECTIONS:
            return True
        return self._prefix.has_lines(units.units, units.rows_at(offsets))

    def _listed_at(self, vaddrs: array[int]) -> list[int]:
        """The units .debug_aranges names for all of the vaddrs, if it can be trusted to; else none."""
        if self.elf.is_relocatable or not len(vaddrs):
            return []
        offsets, self._listed = listed_units(self.aranges, self.elf.order, vaddrs)
        if not offsets:
            return []
        self._some = UnitSet(self._file, self._sections_with(offsets), offsets, aranges=self.aranges)
        self.state = max(self.state, State.SOME_UNITS)
        valid = not any(self._some.units.column(FAULT)) and self._has_lines(self._some, offsets)
        if valid and len(self._some.ranges.units_at(vaddrs)) == len(offsets):
            return offsets
        self._some, self._listed = None, 0
        return []

    def _sections_with(self, offsets: list[int]) -> Sections:
        """The sections, .debug_info unpacked to the end of the units at these offsets at least."""
        if self.state >= State.SECTIONS:
            return self.sections
        if self._prefix is None:
            self._prefix = InfoPrefix.of(self.elf, self._file)
        found = self._prefix.sections_with(offsets) if self._prefix is not None else None
        return self.sections if found is None else found

    def _ranges(
        self, units: UnitSet, chosen: Sequence[int], jobs: int | None, wanted: Wanted
    ) -> tuple[Ranges | None, set[int]]:
        """The ranges of these units of a set; None when their names lie in units that the set does not have, and where
        in .debug_info those of functions do."""
        jobs = max(1, min(jobs or cores.available(), len(chosen))) if len(chosen) > 1 else 1
        budgets = LineBudgets()
        readers = [UnitReader(units, split=self.split, wanted=wanted, budgets=budgets) for _ in range(jobs)]
        units.prepare()
        batches = list(units.batches(chosen, jobs))
        parts = self._read(readers, ((units, batch) for batch in batches), lambda n: self._let_go(units, batches[n]))
        problems = self._finished(readers)
        if not units.whole and any(reader.unresolved_refs for reader in readers):
            return None, {offset for reader in readers for offset in reader.unresolved}
        self._report(problems, units.sections)
        return join(parts), set()

    def _streamed_ranges(self, jobs: int | None, wanted: Wanted) -> Ranges | None:
        """All ranges, read while .debug_info is being unpacked; None when that is not possible."""
        streaming = StreamingInfo.of(self.elf, self._file)
        if streaming is None:
            return None
        readers: list[UnitReader] = []
        wave_of: list[int] = []

        def pieces() -> Iterator[tuple[UnitSet, list[list[int]]]]:
            for wave, units in enumerate(streaming.waves(self.aranges)):
                units.prepare()
                for batch in units.batches(range(len(units.units))):
                    wave_of.append(wave)
                    yield units, batch

        try:
            waiting = pieces()
            first = next(waiting, None)
            if first is None:
                return None
            budgets = LineBudgets()
            readers = [
                UnitReader(first[0], split=self.split, wanted=wanted, copied_source=streaming.source, budgets=budgets)
                for _ in range(jobs or cores.available())
            ]
            parts = self._read(readers, chain([first], waiting), lambda n: streaming.done_before(wave_of[n]))
            problems = self._finished(readers)
            if any(reader.unresolved_refs for reader in readers):
                return None
            self._report([*streaming.problems, *problems], streaming.sections)
            readers.clear()
            streaming.release()
            return join(parts)
        except StreamingUnsupported:
            streaming.keep()
            return None
        finally:
            streaming.close()

    def _read(
        self, readers: list[UnitReader], pieces: Iterable[tuple[UnitSet, list[list[int]]]], done: Callable[[int], None]
    ) -> list[Ranges]:
        """The ranges of batches of units, in their order, to be joined; `done` is called with a batch's number when it
        and all before it are there."""
        out, waiting, lock = Ranges(self.strings), dict[int, Ranges](), allocate_lock()
        ready: list[Ranges] = []  # what comes next in the order of units
        joined = rows = 0
        joining = False  # on one thread: the other one goes on reading

        def work(reader: UnitReader, piece: tuple[int, tuple[UnitSet, list[list[int]]]]) -> None:
            nonlocal joined, rows, joining
            number, (units, groups) = piece
            if reader.set is not units:
                reader.set_units(units)
            found = reader.ranges(groups)
            with lock:  # in the order of units, whoever is faster
                waiting[number] = found
                while joined in waiting:
                    ready.append(waiting.pop(joined))
                    rows += len(ready[-1])
                    done(joined)
                    joined += 1
                if joining or not ready or (rows < len(out) // 2 and len(out) < MOVED):
                    return
                parts = [out, *ready]
                ready.clear()
                rows, joining = 0, True
            join(parts)
            joining = False

        cores.share(readers, enumerate(pieces), work)
        return [out, *ready]

    def _let_go(self, units: UnitSet, batch: list[list[int]]) -> None:
        """The DIEs of these units were read: their pages need not stay in memory. Names in them may bring some back."""
        stored = self.elf.section(".debug_info")
        if stored is not None and not stored.compressed and units.whole:
            start = min(units.units.value(index, OFFSET) for group in batch for index in group)
            end = max(units.units.value(index, END) for group in batch for index in group)
            self.elf.done_with(stored, start, end)

    def _report(self, problems: Iterable[DwarfError | ObjectError], sections: Sections) -> None:
        """Keep these problems, and those of the type units of .debug_types when names needed them first."""
        self.problems += problems
        if sections.types is not None and not self._types_reported:
            self._types_reported = True
            self.problems.extend(islice(sections.types.problems(), MOST + 1))

    def _finished(self, readers: list[UnitReader]) -> list[DwarfError | ObjectError]:
        """The problems that readers met, in order of part and offset; their names are readable now."""
        problems = [problem for reader in readers for problem in reader.finish()]
        for reader in readers:
            self.bare |= reader.bare
        return sorted(problems, key=lambda problem: (problem.part, problem.offset or 0))
