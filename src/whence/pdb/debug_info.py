"""The modules of a PDB file into ranges.

A module is the unit of reading, as a compile unit is for DWARF: the section contributions tell which modules have the
code of an address. Modules are read in batches on a thread per core, in any order; the tables are joined in the order
of the modules.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from random import getrandbits

from whence._base import cores
from whence._base.errors import CUT_OFF, PdbError, WhenceError, cut_off
from whence._base.forks import cached_property
from whence._base.options import DEFAULTS, ReadOptions
from whence._base.source import Source
from whence.objects.pdb import layout
from whence.pdb.crossing import CrossModuleIds
from whence.pdb.kernels.modules import ModuleReader, ProgramLayout
from whence.pdb.kernels.names import FunctionNames, TypeRecords
from whence.pdb.type_records import NO_RECORDS, read_records
from whence.ranges import Ranges, Rows, Scopes, Starts, StringSpace
from whence.ranges.holding import holding
from whence.ranges.kernels.overlay import Sweep
from whence.ranges.merge import join
from whence.ranges.moved import moved
from whence.ranges.overlay import overlay_groups
from whence.ranges.table import Locations, zeros

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from whence.kernels.columns import Column
    from whence.objects.pdb import PdbFile

BATCH = 1 << 20  # bytes of modules that a thread reads at a time
MAX_PROBLEMS = 64  # that are described; further ones are counted
NAMES_TIMES, NAMES_ALLOWANCE = 4, 1 << 20  # scopes of names of ids take at most this many times the records' bytes


class PdbDebugInfo:
    """The functions, inlined calls and lines of a PDB file, with the interface of DebugInfo: its units are modules.

    Attributes:
        problems: errors in the file.
        bare: as in DebugInfo; empty.

    Args:
        pdb: the file, rebased to the image base of its program.
        strings: the space of the names.
        options: what to read.

    Modules describe a program as it was linked. If it was rearranged afterwards, their ranges are moved.
    """

    should_stream = False
    bare: frozenset[int] = frozenset()

    def __init__(self, pdb: PdbFile, *, strings: StringSpace, options: ReadOptions = DEFAULTS) -> None:
        self.pdb, self.strings, self.options = pdb, strings, options
        self.problems: list[WhenceError] = []
        dbi = pdb.dbi
        if dbi is None:
            raise PdbError("DBI stream", None, "the file has no modules")
        self._dbi = dbi
        self._modules = dbi.modules
        self._seed = getrandbits(64)
        self.crossing = CrossModuleIds(pdb)

    def __repr__(self) -> str:
        return f"<PdbDebugInfo of {self.unit_count} modules>"

    @property
    def unit_count(self) -> int:
        """The number of modules."""
        return len(self._modules)

    def module_name(self, module: int) -> str:
        """Return the path of a module's object file."""
        return self._dbi.module_name(module)

    def units_at(self, vaddrs: Iterable[int]) -> list[int]:
        """Return the modules that contributed the code at any of the vaddrs; all without a list of contributions."""
        contributions = self.pdb.contributions
        if not len(contributions):
            return [*range(self.unit_count)]
        base, address_map, modules = self.pdb.base, self.pdb.address_map, set()
        for vaddr in vaddrs:
            rva = vaddr - base if address_map is None else address_map.before(vaddr - base)
            index = -1 if rva is None else bisect_right(contributions.start, rva) - 1
            if rva is not None and index >= 0 and rva < contributions.end[index]:
                modules.add(contributions.module[index])
        return sorted(modules)

    def unit_ranges(self) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Return start, end and module (a number) of each contribution of a module."""
        contributions, base = self.pdb.contributions, self.pdb.base
        starts, ends = (array("Q", map(base.__add__, column)) for column in (contributions.start, contributions.end))
        return starts, ends, contributions.module

    def unit_name(self, index: int) -> str:
        """Return the path of a module's object file."""
        return self.module_name(index)

    def ranges(
        self, units: Iterable[int] | None = None, *, jobs: int | None = None, lines: bool = True, starts: bool = True,
        vaddrs: memoryview | None = None,
    ) -> Ranges:  # fmt: skip
        """Return the ranges of modules, module after module; whence.ranges.merge puts them in order.

        Args:
            units: numbers of modules; None for all.
            jobs: number of threads; None for one per core.
            lines: read files and lines.
            starts: read where functions start: the inlined ones are declared there, others have their first line there.
            vaddrs: in ascending order; only ranges that contain any of them are returned.
        """
        chosen = [*range(self.unit_count)] if units is None else sorted(set(units))
        chosen = [module for module in chosen if self._modules.stream[module] != layout.NO_STREAM]
        batches = [*self._batches(chosen)]
        jobs = max(1, min(jobs or cores.available(), len(batches)))
        address_map = self.pdb.address_map
        pieces = None if address_map is None else address_map.pieces(self.pdb.base)
        workers = [Worker(self, lines=lines, starts=starts and lines) for _ in range(jobs)]
        parts: list[Ranges] = [Ranges(self.strings)] * len(batches)

        def work(worker: Worker, piece: tuple[int, list[int]]) -> None:
            number, modules = piece
            part = worker.ranges(modules)
            if pieces is not None:
                part = moved(part, pieces)
            parts[number] = part if vaddrs is None else holding(part, vaddrs)

        cores.share(workers, enumerate(batches), work)
        for worker in workers:
            worker.finish()
        self._report(workers)
        return join(parts) if parts else Ranges(self.strings)

    def _batches(self, modules: Sequence[int]) -> Iterator[list[int]]:
        """Yield modules in groups of about BATCH bytes."""
        batch: list[int] = []
        size = 0
        for module in modules:
            batch.append(module)
            size += self.pdb.msf.size(self._modules.stream[module]) + layout.MODULE_SIZE
            if size >= BATCH:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _report(self, workers: list[Worker]) -> None:
        """Add the problems of workers in the order of modules."""
        problems = sorted((problem for worker in workers for problem in worker.problems), key=lambda item: item[0])
        self.problems += [problem for _, problem in problems[:MAX_PROBLEMS]]
        if len(problems) > MAX_PROBLEMS:
            left = len(problems) - MAX_PROBLEMS
            self.problems.append(PdbError("modules", None, f"{left} more faults in modules"))

    # what workers share

    @cached_property
    def program(self) -> ProgramLayout:
        """Addresses of the program, and whose code is where."""
        described = array("B", [stream != layout.NO_STREAM for stream in self._modules.stream])
        sections = array("I", self.pdb.section_rvas)
        return ProgramLayout(sections, self.pdb.contributions, described)

    @cached_property
    def file_names(self) -> tuple[int, int]:
        """Return the reference of the first file name, and the bytes of all. Raises PdbError."""
        content = self.pdb.named_stream("/names")
        if len(content) < layout.NAMES_HEADER:
            return 0, 0
        magic, _, size = struct.unpack_from("<III", content)
        if magic != layout.NAMES_MAGIC:
            raise PdbError("/names", 0, f"the magic is {magic:#x}, expected {layout.NAMES_MAGIC:#x}")
        names = content[layout.NAMES_HEADER : layout.NAMES_HEADER + size]
        return self.strings.ref(self.strings.add(names), 0), len(names)

    def files(self) -> tuple[int, int]:
        """Return the value of `file_names`; nothing, with a problem, if it is damaged."""
        try:
            return self.file_names
        except PdbError as error:
            self.problems.append(error.in_file(self.pdb.path))
            self.file_names = 0, 0
            return self.file_names

    @cached_property
    def records(self) -> tuple[TypeRecords, TypeRecords, int]:
        """Types, ids, and the bytes of both streams; empty, with a problem, if they are damaged."""
        streams = ((layout.TPI_STREAM, "TPI stream"), (layout.IPI_STREAM, "IPI stream"))
        records = []
        for stream, name in streams:
            try:
                records.append(read_records(self.pdb, stream, name))
            except PdbError as error:
                self.problems.append(error.in_file(self.pdb.path))
                records.append(TypeRecords(NO_RECORDS, 0, array("I")))
        return records[0], records[1], sum(self.pdb.msf.size(stream) for stream, _ in streams)

    def stream_of(self, module: int) -> tuple[memoryview, int, int, int]:
        """Return the stream of a module and the sizes of symbols, C11 and C13 lines. Raises PdbError."""
        modules, part = self._modules, f"module {module}"
        content = self.pdb.msf.stream(modules.stream[module], part)
        symbols, c11, c13 = modules.symbols[module], modules.c11[module], modules.c13[module]
        if symbols + c11 + c13 > len(content):
            raise cut_off(PdbError, part, None, symbols + c11 + c13, len(content))
        return content, symbols, c11, c13


class Worker:
    """Reads batches of modules on a thread."""

    def __init__(self, debug_info: PdbDebugInfo, *, lines: bool, starts: bool) -> None:
        self._debug_info = debug_info
        self._strings = debug_info.strings
        self._lines = lines
        self._columns = debug_info.options.columns and lines
        types, ids, size = debug_info.records
        self._source = self._strings.reserve()
        budget = NAMES_TIMES * size + NAMES_ALLOWANCE
        short = debug_info.options.names == "short"
        self._names = FunctionNames(types, ids, self._strings.ref(self._source, 0), budget, short)
        files_base, files_size = debug_info.files()
        self._reader = ModuleReader(
            debug_info.program, self._names, files_base, files_size, debug_info.pdb.base, lines, self._columns, starts,
            debug_info._seed,
        )  # fmt: skip
        self._sweep = Sweep()
        self.problems: list[tuple[int, PdbError]] = []

    def ranges(self, modules: Iterable[int]) -> Ranges:
        """Return the ranges of a batch of modules."""
        reader = self._reader
        reader.begin()
        scope_ends, row_ends = array("I"), array("I")
        for module in modules:
            try:
                content, symbols, c11, c13 = self._debug_info.stream_of(module)
            except PdbError as error:
                self.problems.append((module, error.in_file(self._debug_info.pdb.path)))
                continue
            reader.read(content, symbols, c11, c13, module, self._debug_info.crossing.imported(module, content))
            self._note_faults(module, symbols + c11)
            scope_ends.append(len(reader.scope_vaddr))
            row_ends.append(len(reader.row_vaddr))
        scopes = Scopes(
            numbers(reader.scope_vaddr),
            numbers(reader.scope_end),
            numbers(reader.scope_depth),
            numbers(reader.scope_function),
            numbers(reader.scope_file),
            numbers(reader.scope_line),
        )
        locations = None
        if self._columns:
            line, column = numbers(reader.location_line), numbers(reader.location_column)
            locations = Locations(line, column, zeros("I", len(line)))
        vaddr, file, line, files = map(numbers, (reader.row_vaddr, reader.row_file, reader.row_line, reader.files))
        rows = Rows(vaddr, file, line, files, locations)
        out = Ranges(self._strings)
        out.starts = Starts(*map(numbers, (reader.start_function, reader.start_file, reader.start_line)))
        overlay_groups(scopes, scope_ends, rows, row_ends, out, Source.PDB, self._sweep)
        return out

    def _note_faults(self, module: int, lines_start: int) -> None:
        """Note what was damaged in the last module."""
        reader, part = self._reader, f"module {module}"
        faults = []
        if reader.symbols_fault >= 0:
            faults.append((reader.symbols_fault, "a symbol record is cut off, or has no start or end", CUT_OFF))
        if reader.lines_fault >= 0:
            faults.append((lines_start + reader.lines_fault, "a subsection of lines is cut off", CUT_OFF))
        if reader.damaged_sites:
            faults.append((None, f"{reader.damaged_sites} inlined calls have damaged annotations", ""))
        if reader.over_limit:
            fault = f"{reader.over_limit} functions without their inlined calls, which have too many parts"
            faults.append((None, fault, ""))
        path = self._debug_info.pdb.path
        self.problems += [
            (module, PdbError(part, offset, fault, code=code, path=path)) for offset, fault, code in faults
        ]

    def finish(self) -> None:
        """Make the names readable."""
        self._strings.fill(self._source, self._names.text)
        if self._names.unscoped:
            fault = f"{self._names.unscoped} names without their scope, which are too long together"
            self.problems.append((1 << 32, PdbError("IPI stream", None, fault)))


def numbers(column: Column) -> array[int]:
    """Return the numbers of a kernel's column as an array."""
    out = array(column.typecode)
    out.frombytes(column)
    return out
