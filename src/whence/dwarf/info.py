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
from whence.dwarf.functions import UnitQuery, UnitReader
from whence.dwarf.kernels.units import END, FAULT, OFFSET
from whence.dwarf.line_files import LineBudgets, continued
from whence.dwarf.problems import MAX_PROBLEMS, Problems
from whence.dwarf.sections import Sections, code_of, read_sections
from whence.dwarf.split import SplitFiles
from whence.dwarf.streaming import InfoPrefix, StreamingInfo, StreamingUnsupported, should_stream
from whence.dwarf.unit_set import DwarfFile, Unit, Units, UnitSet, most_units
from whence.objects.interface import ObjectFile
from whence.ranges import Ranges, StringSpace
from whence.ranges.merge import join

MOST_STEPS = 8  # from units to the units that have their names, and so on
MOST_NAMING = 256  # units with names of others; if there are more, all units are read
MOVED = 1 << 19  # rows of a table whose columns the C library extends without copying; smaller tables grow by halves


class ReadState(IntEnum):
    """How much of a file's debug info was read; it only grows."""

    UNREAD = 0
    SOME_UNITS = 1  # those of the last query; a large compressed .debug_info is decompressed up to them
    SECTIONS = 2  # every section is complete
    ALL_UNITS = 3  # the header and root DIE of every unit


class DebugInfo:
    """Debug info: units, and the ranges of functions, inlined calls and lines that they describe.

    Malformed contents raise no errors: they are skipped and reported in `problems`. The files must stay open while
    names are read.

    Attributes:
        problems: errors in the files, at most 1,000.
        bare: names of functions that have nothing but a name (clang -g1).
        state: how much was read.

    Args:
        elf: the object file.
        strings: the space that all names refer to.
        alt: the supplementary file (dwz).
        dwp: opens the package of split units, or returns None; called when a skeleton is met.
        dwo: opens the file of a skeleton unit, or returns None.
        options: how names and paths are written, and whether columns are read.
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
        self.state = ReadState.UNREAD
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
        self._sections: Sections | None = None  # set in ReadState.SECTIONS
        self._all: UnitSet | None = None  # set in ReadState.ALL_UNITS
        self._some: UnitSet | None = None  # the units of the last query, if .debug_aranges named them
        self._listed = 0  # how many units .debug_aranges lists, if it answered the last query
        self._types_reported = False
        self._prefix: InfoPrefix | None = None  # of a compressed .debug_info, once some units needed it

    def __repr__(self) -> str:
        return f"<DebugInfo {self.elf.path or 'of bytes'}: {self.state.name}>"

    def __bool__(self) -> bool:
        return len(self.sections.debug_info) > 0

    @property
    def should_stream(self) -> bool:
        """True if .debug_info is large, compressed and not yet decompressed.

        Then `ranges` of all units take little more time, and less memory, than a query that decompresses the section.
        """
        return self.state < ReadState.SECTIONS and should_stream(self.elf)

    @property
    def sections(self) -> Sections:
        """The complete sections; the first use decompresses them."""
        if self._sections is None:
            if self._prefix is not None:
                self._prefix.keep()
            self._sections = read_sections(self.elf, self.problems, alt=self._file.alt_sections)
            self.state = max(self.state, ReadState.SECTIONS)
        return self._sections

    @property
    def all_units(self) -> UnitSet:
        """Every unit, with its header and root DIE; the first use reads them."""
        if self._all is None:
            units = UnitSet(self._file, self.sections, aranges=self.aranges)
            self.problems.extend(islice(units.problems(), MAX_PROBLEMS + 1))
            self._all = units
            self.state = ReadState.ALL_UNITS
        return self._all

    @property
    def units(self) -> Units:
        """Every unit of .debug_info, in order."""
        return self.all_units.units

    @property
    def unit_count(self) -> int:
        """The number of units: as .debug_aranges lists them, until all units were read."""
        return self._listed if self._listed and self.state < ReadState.ALL_UNITS else len(self.units)

    @cached_property
    def aranges(self) -> memoryview:
        """Return the bytes of .debug_aranges; empty if the section is damaged."""
        try:
            return self.elf.content(".debug_aranges")
        except ObjectError:
            return memoryview(b"")

    def reader(self) -> UnitReader:
        """Return a reader of any units of the file."""
        return UnitReader(self.all_units, split=self.split)

    def units_at(self, vaddrs: Iterable[int]) -> list[int]:
        """Return the offsets in .debug_info of the units that can contain any of the vaddrs, in order.

        Few vaddrs are looked up in .debug_aranges first; the result is used if all are listed, each by one range, and
        are in the ranges of the listed units. Otherwise the ranges of all root DIEs decide; a unit without ranges can
        contain any vaddr.
        """
        addresses = array("Q", vaddrs)
        if len(addresses) <= FEW and self.state < ReadState.ALL_UNITS and (offsets := self._listed_at(addresses)):
            return offsets
        return [self.units.value(index, OFFSET) for index in self.all_units.ranges.units_at(addresses)]

    def unit_ranges(self) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Return start, end and unit (an index) of each range of the units' code, unit after unit.

        The ranges are those of the root DIE; of its functions, if the root has none or they may be incomplete.
        """
        every = self.all_units
        columns = tuple(array(code, column.numbers()) for code, column in zip("QQI", every.ranges.columns, strict=True))
        starts, ends, owners = columns
        for index in every.ranges.unlimited:
            table, _ = self._ranges(every, [index], 1, UnitQuery(lines=False, starts=False))
            assert table is not None
            for vaddr, length, depth in zip(table.vaddr, table.length, table.depth, strict=True):
                if not depth:
                    starts.append(vaddr)
                    ends.append(vaddr + length)
                    owners.append(index)
        return starts, ends, owners

    def unit_name(self, index: int) -> str:
        """Return the path of a unit's source file, that of its split unit if it is a skeleton."""
        unit = self.units[index]
        parts = (text.encode("utf-8", "surrogateescape") for text in (unit.comp_dir, unit.name or unit.dwo_name))
        return continued(*parts).decode("utf-8", "surrogateescape")

    def ranges(
        self, units: Iterable[int] | None = None, *, jobs: int | None = None, lines: bool = True, starts: bool = True,
        vaddrs: memoryview | None = None,
    ) -> Ranges:  # fmt: skip
        """Return the ranges of units, unit after unit; whence.ranges.merge puts them in order.

        Where several units have the same code (a function template that each instantiates), the first one counts.
        Memory beyond the result: the scopes of about 2 MB of DIEs for each thread.

        Args:
            units: offsets in .debug_info; None for all units.
            jobs: number of threads; None for one per core.
            lines: read files, lines and starts.
            starts: read where functions are declared.
            vaddrs: in ascending order; only ranges that contain any of them are returned.
        """
        query = UnitQuery(lines, starts, vaddrs)
        if units is None and jobs != 1 and self.state < ReadState.SECTIONS:
            table = self._streamed_ranges(jobs, query)
            if table is not None:
                return table
        offsets = None if units is None else sorted(set(units))
        if offsets is not None and self._some is not None and self.state < ReadState.ALL_UNITS:
            table = self._ranges_of_some(self._some, offsets, jobs, query)
            if table is not None:
                return table
        every = self.all_units
        chosen = range(len(every.units)) if offsets is None else every.rows_at(offsets)
        table, _ = self._ranges(every, chosen, jobs, query)
        assert table is not None
        return table

    def _ranges_of_some(
        self, some: UnitSet, offsets: list[int], jobs: int | None, query: UnitQuery
    ) -> Ranges | None:  # fmt: skip
        """Return the ranges of units of a set, which is extended by the units that contain their names.

        None if these are many or cannot be read.
        """
        for _ in range(MOST_STEPS):
            rows = some.rows_at(offsets)
            if len(rows) < len(offsets):
                return None
            table, refs = self._ranges(some, rows, jobs, query)
            if table is not None:
                return table
            offsets_in_set = [*some.units.column(OFFSET)]
            more = self._units_of(refs).difference(offsets_in_set)
            if not more or len(more) > MOST_NAMING:
                return None
            offsets_in_set = sorted({*offsets_in_set, *more})
            some = UnitSet(self._file, self._sections_with(offsets_in_set), offsets_in_set, aranges=self.aranges)
            with_lines = offsets_in_set if query.starts else offsets  # without starts no function's file is needed
            if any(some.units.column(FAULT)) or not self._has_lines(some, with_lines):
                return None
        return None

    def _units_of(self, refs: set[int]) -> set[int]:
        """Return the offsets of the units around offsets in .debug_info; empty if the section is read as a whole."""
        if self._prefix is None or not refs:
            return set()
        try:
            return self._prefix.units_of(refs)
        except ObjectError:
            return set()

    def _has_lines(self, units: UnitSet, offsets: list[int]) -> bool:
        """Return True if the line programs of these units of a set could be decompressed."""
        if self._prefix is None or self.state >= ReadState.SECTIONS:
            return True
        return self._prefix.has_lines(units.units, units.rows_at(offsets))

    def _listed_at(self, vaddrs: array[int]) -> list[int]:
        """Return the units that .debug_aranges names for all of the vaddrs; empty if it cannot be trusted."""
        if self.elf.is_relocatable or not len(vaddrs):
            return []
        offsets, self._listed = listed_units(self.aranges, self.elf.order, vaddrs)
        if not offsets:
            return []
        self._some = UnitSet(self._file, self._sections_with(offsets), offsets, aranges=self.aranges)
        self.state = max(self.state, ReadState.SOME_UNITS)
        valid = not any(self._some.units.column(FAULT)) and self._has_lines(self._some, offsets)
        if valid and len(self._some.ranges.units_at(vaddrs)) == len(offsets):
            return offsets
        self._some, self._listed = None, 0
        return []

    def _sections_with(self, offsets: list[int]) -> Sections:
        """Return the sections, with .debug_info decompressed at least to the end of these units."""
        if self.state >= ReadState.SECTIONS:
            return self.sections
        if self._prefix is None:
            self._prefix = InfoPrefix.of(self.elf, self._file)
        prefix_sections = self._prefix.sections_with(offsets) if self._prefix is not None else None
        return self.sections if prefix_sections is None else prefix_sections

    def _ranges(
        self, units: UnitSet, chosen: Sequence[int], jobs: int | None, query: UnitQuery
    ) -> tuple[Ranges | None, set[int]]:
        """Return the ranges of units of a set.

        If their names are in units outside the set, return None and the offsets in .debug_info of the DIEs that name
        functions.
        """
        jobs = max(1, min(jobs or cores.available(), len(chosen))) if len(chosen) > 1 else 1
        budgets = LineBudgets()
        readers = [UnitReader(units, split=self.split, query=query, budgets=budgets) for _ in range(jobs)]
        units.prepare()
        batches = list(units.batches(chosen, jobs))
        parts = self._read(
            readers, ((units, batch) for batch in batches), lambda n: self._release_pages(units, batches[n])
        )
        problems = self._finished(readers)
        if not units.complete and any(reader.unresolved_refs for reader in readers):
            return None, {offset for reader in readers for offset in reader.unresolved}
        self._report(problems, units.sections)
        return join(parts), set()

    def _streamed_ranges(self, jobs: int | None, query: UnitQuery) -> Ranges | None:
        """Return all ranges, read while .debug_info is decompressed; None if that is not possible."""
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
                UnitReader(first[0], split=self.split, query=query, copied_source=streaming.source, budgets=budgets)
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
        """Return the ranges of batches of units in their order, to be joined.

        `done` is called with the number of a batch when that batch and all before it were read.
        """
        out, waiting, lock = Ranges(self.strings), dict[int, Ranges](), allocate_lock()
        ready: list[Ranges] = []  # the next parts, in the order of units
        joined = rows = 0
        joining = False  # on one thread, while the others read

        def work(reader: UnitReader, piece: tuple[int, tuple[UnitSet, list[list[int]]]]) -> None:
            nonlocal joined, rows, joining
            number, (units, groups) = piece
            if reader.set is not units:
                reader.set_units(units)
            part = reader.ranges(groups)
            with lock:  # in the order of units, not of threads
                waiting[number] = part
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

    def _release_pages(self, units: UnitSet, batch: list[list[int]]) -> None:
        """Let the pages of units that were read leave memory. Reading names may bring some back."""
        stored = self.elf.section(".debug_info")
        if stored is not None and not stored.compressed and units.complete:
            start = min(units.units.value(index, OFFSET) for group in batch for index in group)
            end = max(units.units.value(index, END) for group in batch for index in group)
            self.elf.done_with(stored, start, end)

    def _report(self, problems: Iterable[DwarfError | ObjectError], sections: Sections) -> None:
        """Add problems, including those of the type units of .debug_types once these were read."""
        self.problems += problems
        if sections.types is not None and not self._types_reported:
            self._types_reported = True
            self.problems.extend(islice(sections.types.problems(), MAX_PROBLEMS + 1))

    def _finished(self, readers: list[UnitReader]) -> list[DwarfError | ObjectError]:
        """Make the names of readers readable and return their problems, by part and offset."""
        problems = [problem for reader in readers for problem in reader.finish()]
        for reader in readers:
            self.bare |= reader.bare
        return sorted(problems, key=lambda problem: (problem.part, problem.offset or 0))
