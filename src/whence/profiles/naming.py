"""Names for every location of a profile, or the reason why it has none, in any format.

Locations are grouped by mapping, their addresses become vaddrs, and each file answers for all of its vaddrs at once.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TypeAlias

from whence._base.model import Frames
from whence._base.reasons import GIVE_PROGRAM, MAKE_AGAIN, OWN_PAGE, Missing, Reason
from whence._base.records import NamedTuple, Record, field
from whence.kernels.rows import ascending, grouped, moved, numbered, taken
from whence.lidia.chains import NO_CHAIN, SOURCE_OF_BYTE, ChainTable
from whence.lidia.table import demangler
from whence.locate.segments import has_nobits
from whence.locator.locator import Locator
from whence.objects.elf.segments import image_base
from whence.profiles.binaries import VDSO, Binaries, CachedChains, MappingSearch, OpenedMapping
from whence.profiles.fallback_names import Fallbacks
from whence.profiles.fixed_program import map_fixed_program
from whence.profiles.non_elf_names import ListedName, Processes, generated_names, kernel_names
from whence.samples.addresses import NOWHERE
from whence.samples.kernel import HALF
from whence.samples.kernels.lines import census
from whence.samples.kinds import AddressKind, kind_of
from whence.samples.model import NO_MAPPING, FileLocations, Mapping, NamedLocations, ProfileData
from whence.symbolize.naming import Unnamed, table_of
from whence.symbolize.opening import library_mapping

PERF_DATA = "perf.data"
PYTHON_EVALUATION, PYTHON_NAME = "_PyEval_EvalFrameDefault", "py::"  # CPython's loop; names of `python -X perf`
NO_PYTHON = (
    "no sample has a Python function, because recordings lack CPython's frames: record `python -X perf` with frame "
    "pointers or `python -X perf_jit`, or use `whence pid PID --every`"
)
CACHED_VADDRS = 500_000  # of a file, whose chains are kept for the next profile

Locations: TypeAlias = "memoryview | array[int]"
Readable = Callable[[str], str] | None


class FileReport(Record):
    """The result of naming the locations of one file (all its mappings)."""

    path: str
    build_id: str
    search: MappingSearch | None = None
    locations: int = 0
    named: int = 0
    with_lines: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    missing: Counter[Missing] = field(default_factory=Counter)
    members: list[int] = field(default_factory=list)  # the locations
    lists: dict[str, None] = field(default_factory=dict)  # lists of symbols with names for them
    unnamed: dict[int, Missing] = field(default_factory=dict)  # locations without frames

    def __repr__(self) -> str:
        path = ascii(self.path)[1:-1] or "no file"
        return f"<profiles.FileReport {path}: {self.named:,} of {self.locations:,} locations>"


def name(
    profile: ProfileData,
    binaries: Binaries | Locator,
    *,
    overwrite: bool = False,
    demangle: bool | Callable[[str], str] = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[FileReport]:
    """Give frames or a reason to every location that has no frames (with `overwrite`: to every location).

    A location keeps its frames if no better ones are found. A name like `libfoo.so!0x1a2b` counts as no frame.

    Args:
        profile: the profile, which is changed.
        binaries: finds the files; Binaries stay open for the next profile.
        overwrite: also name locations that have frames.
        demangle: store readable names (`profile.system_names` then has the linkage names); a function replaces
            whence.demangle.demangle.
        progress: is called with a file's path, the number of files that are done, and the number of all files.

    Returns:
        A report for each file, in order of mappings.
    """
    if isinstance(binaries, Locator):
        with Binaries(binaries, once=True) as opened:
            return name(profile, opened, overwrite=overwrite, demangle=demangle, progress=progress)
    profile.mappings[:] = [library_mapping(mapping, binaries.locator) for mapping in profile.mappings]
    if profile.unwinding is not None:
        unwinding, profile.unwinding = profile.unwinding, None
        unwinding.unwind(profile, binaries.locator)
    map_fixed_program(profile, binaries.locator.files)
    fallbacks = Fallbacks(profile, binaries.locator.files)
    try:
        reports = _name(profile, binaries, overwrite=overwrite, demangle=demangle, progress=progress)
    finally:
        fallbacks.restore()
    if profile.format == PERF_DATA and lacks_python(profile):
        profile.notes.append(NO_PYTHON)
    return reports


def lacks_python(profile: ProfileData) -> bool:
    """Return True if samples are in CPython, and none has the name of a Python function, which `python -X perf` writes.

    Recordings have no frames of CPython: stack copies contain native frames and entry frames without code objects.
    """
    tables = [part.table.functions for part in profile.named]
    if not any(PYTHON_EVALUATION in functions for functions in tables):
        return False
    names = chain(*tables, (frames[0].function for frames in profile.own_frames if frames))
    return not any(name.startswith(PYTHON_NAME) for name in names)


def _name(
    profile: ProfileData,
    binaries: Binaries,
    *,
    overwrite: bool,
    demangle: bool | Callable[[str], str],
    progress: Callable[[str, int, int], None] | None,
) -> list[FileReport]:
    """Name a profile whose stacks are unwound and whose fallback names are removed."""
    binaries.symbol_lists.recorded = profile.kernel_names
    namer = LocationNamer(profile, binaries, demangle)
    frames = profile.frames
    all_unnamed = overwrite or not any(frames)
    reports: dict[tuple[str, str], FileReport] = {}
    rows = _by_mapping(profile.mapping)
    mappings = [None if index == NO_MAPPING else profile.mappings[index] for index, _ in rows]
    keys = [("", "") if mapping is None else (mapping.path, mapping.build_id) for mapping in mappings]
    last = {key: number for number, key in enumerate(keys)}
    for number, (key, mapping, (_, locations)) in enumerate(zip(keys, mappings, rows, strict=True)):
        report = reports.setdefault(key, FileReport(*key))
        if progress:
            progress(report.path, number, len(rows))
        report.members += locations
        unnamed = locations if all_unnamed else array("I", [row for row in locations if not frames[row]])
        is_last = last[key] == number
        if unnamed:
            namer.name(mapping, unnamed, report, is_last=is_last and binaries.once)
        if mapping is not None and is_last:
            binaries.done(mapping)
    in_columns = {location for part in profile.named for location in part.locations} if any(frames) else None
    for report in reports.values():
        report.locations = len(report.members)
        report.missing = Counter(report.unnamed.values())
        if in_columns is not None:
            _count_other_names(profile, report, in_columns)
    return list(reports.values())


def _by_mapping(mappings: array[int]) -> list[tuple[int, memoryview]]:
    """Return each mapping and its locations, in order of mappings."""
    numbers, distinct = numbered(mappings, "Q")
    rows, starts = (column.numbers() for column in grouped(numbers.numbers(), len(distinct)))
    indices = distinct.numbers().cast("B").cast("q")
    return sorted((index, rows[low:high]) for index, (low, high) in zip(indices, pairwise(starts), strict=True))


def _count_other_names(profile: ProfileData, report: FileReport, in_columns: set[int]) -> None:
    """Count the locations whose frames are from the profile itself or a list of symbols, not from a file."""
    frames = profile.own_frames
    others = [location for location in report.members if frames[location] and location not in in_columns]
    report.named += len(others)
    report.with_lines += sum(bool(frames[location][0].line) for location in others)
    unchanged = len({*others} - profile.changed)
    if unchanged:
        report.sources["profile"] += unchanged


class LocationGroup(NamedTuple):
    """Locations of one mapping and one kind of address; `is_last`: their file is not needed afterwards."""

    mapping: Mapping | None
    kind: AddressKind
    locations: Locations
    report: FileReport
    is_last: bool


class LocationNamer:
    """Gives the locations of a profile frames or a reason, and counts them in the report of their file."""

    def __init__(self, profile: ProfileData, binaries: Binaries, demangle: bool | Callable[[str], str]) -> None:
        self._profile, self._binaries = profile, binaries
        self._processes = Processes(profile)
        self._demangle = demangler(demangle)
        if binaries.remembers:
            profile.system_names = binaries.system_names
        self._readable = self._demangle and _recorded(self._demangle, profile.system_names)

    def name(self, mapping: Mapping | None, locations: Locations, report: FileReport, *, is_last: bool) -> None:
        for kind, part in self._by_kind(mapping, locations):
            group = LocationGroup(mapping, kind, part, report, is_last)
            match kind:
                case AddressKind.FILE:
                    self._name_from_file(group)
                case AddressKind.KERNEL:
                    self._name_kernel(group)
                case AddressKind.PAGE:
                    self._name_page(group)
                case AddressKind.GENERATED | AddressKind.NOWHERE:
                    self._name_generated(group)

    def _by_kind(self, mapping: Mapping | None, locations: Locations) -> Iterator[tuple[AddressKind, Locations]]:
        """Yield each kind of address and its locations: a mapping may have one for each half of the addresses."""
        addresses = self._profile.address
        lower, upper = kind_of(mapping, 0), kind_of(mapping, HALF)
        if lower is upper or max(map(addresses.__getitem__, locations)) < HALF:
            yield lower, locations
            return
        for kind in (lower, upper):
            part = array("I", [row for row in locations if (addresses[row] >= HALF) == (kind is upper)])
            if part:
                yield kind, part

    # one method for each kind of address

    def _name_from_file(self, group: LocationGroup) -> None:
        """Name locations from the file of their mapping; all get the reason of the search if it failed."""
        search = self._search(group)
        if search.opened is not None:
            self._look_up(group, search.opened)
        elif search.missing is not None:
            self._set_reasons(group, search.missing)

    def _name_kernel(self, group: LocationGroup) -> None:
        """Name locations from the file of the kernel or module, and those it can't name from kallsyms."""
        profile, report = self._profile, group.report
        if group.mapping is not None and group.mapping.path:
            self._name_from_file(group)
        rest = [(row, profile.address[row]) for row in group.locations if row not in profile.changed]
        has_file = report.search is not None and report.search.opened is not None
        self._apply(report, kernel_names(group.mapping, rest, self._binaries.symbol_lists), keep_reasons=has_file)

    def _name_page(self, group: LocationGroup) -> None:
        """Name locations in a page of the kernel's: only the vDSO can be in a file."""
        mapping = group.mapping
        assert mapping is not None  # else its address is of another kind
        if mapping.path == VDSO and mapping.build_id:
            search = self._search(group)
            if search.opened is not None:
                self._look_up(group, search.opened)
                return
        self._set_reasons(group, Missing(Reason.NOT_FILE_BACKED, mapping.path, OWN_PAGE))

    def _name_generated(self, group: LocationGroup) -> None:
        """Name locations from the perf maps of their processes."""
        is_mapped = group.kind is AddressKind.GENERATED
        lists = self._binaries.symbol_lists
        names = generated_names(self._processes, group.mapping, group.locations, lists, is_mapped=is_mapped)
        self._apply(group.report, names)

    # from a file

    def _search(self, group: LocationGroup) -> MappingSearch:
        assert group.mapping is not None
        group.report.search = search = self._binaries.search(group.mapping, len(group.locations))
        return search

    def _look_up(self, group: LocationGroup, opened: OpenedMapping) -> None:
        """Name locations from an open file."""
        profile, report, locations = self._profile, group.report, group.locations
        assert group.mapping is not None
        addresses = array("Q", bytes(taken(profile.address, "Q", locations)))
        distinct, rows = (column.numbers() for column in ascending(opened.vaddrs(group.mapping, addresses)))
        has_nowhere = len(distinct) > 0 and distinct[-1] == NOWHERE
        table, numbers, unnamed = self._chains(opened, distinct[:-1] if has_nowhere else distinct, group.is_last)
        chain_of = array("I", numbers)
        if has_nowhere:
            chain_of.append(NO_CHAIN)
        chains = taken(chain_of, "I", rows).numbers()
        named, named_chains = locations, chains
        if NO_CHAIN in chain_of:
            chosen = array("I", [row for row, chain in enumerate(chains) if chain != NO_CHAIN])
            named = taken(locations, "I", chosen).numbers()
            named_chains = taken(chains, "I", chosen).numbers()
        profile.named.append(NamedLocations(memoryview(named), named_chains, table))
        if opened.placing is None:
            vaddrs = taken(distinct, "Q", rows).numbers()
            profile.in_files.append(in_image(opened, locations, vaddrs, chains, table))
        profile.changed.update(named)
        for location in profile.reasons.keys() & set(named) if profile.reasons else ():
            del profile.reasons[location]
            profile.starts.pop(location, None)
        counts = array("Q", bytes(8 * len(SOURCE_OF_BYTE)))
        report.with_lines += census(named_chains, table.first, table.line, table.source, counts)
        report.named += len(named_chains)
        for byte in set(table.source):
            if counts[byte]:
                report.sources[SOURCE_OF_BYTE[byte]] += counts[byte]
        if len(named) < len(locations):
            vaddrs = map(distinct.__getitem__, rows)
            rest = ((row, vaddr) for row, chain, vaddr in zip(locations, chains, vaddrs) if chain == NO_CHAIN)
            self._explain(report, opened, group.mapping, rest, unnamed)

    def _chains(
        self, opened: OpenedMapping, vaddrs: memoryview, is_last: bool
    ) -> tuple[ChainTable, Sequence[int], Unnamed]:
        """Return the chains of distinct vaddrs, from the cache of the file if it has one."""
        if not vaddrs:
            return ChainTable(), (), {}
        readable = self._readable
        if opened.cache is None:
            return table_of(opened.binary, vaddrs, function=readable, file=own_file, is_last=is_last)
        cached = opened.cache.get(self._demangle)
        if cached is None:
            cached = opened.cache[self._demangle] = CachedChains()
        chains = list(map(cached.chain.get, vaddrs))
        new = array("Q", [vaddr for vaddr, chain in zip(vaddrs, chains, strict=True) if chain is None])
        if len(cached.chain) + len(new) > CACHED_VADDRS:
            return table_of(opened.binary, vaddrs, function=readable, file=own_file)
        unnamed: Unnamed = {}
        if new:
            table, numbers, unnamed = table_of(opened.binary, new, function=readable, file=own_file)
            base = cached.table.add(table)
            cached.chain.update((vaddr, base + chain) for vaddr, chain in zip(new, numbers, strict=True) if chain)
            chains = [cached.chain.get(vaddr, NO_CHAIN) for vaddr in vaddrs]
        return cached.table, [chain or NO_CHAIN for chain in chains], unnamed

    def _explain(
        self,
        report: FileReport,
        opened: OpenedMapping,
        mapping: Mapping,
        locations: Iterable[tuple[int, int]],
        unnamed: Unnamed,
    ) -> None:
        """Set the reason of each (location, vaddr) that the file has no frames for."""
        is_placed = mapping.start and opened.segments is not None
        advice = "" if opened.segments is not None else MAKE_AGAIN
        if has_nobits(opened.segments or ()):
            advice = GIVE_PROGRAM
        nowhere = Missing(Reason.OUTSIDE_SEGMENTS if is_placed else Reason.NOT_PLACED, opened.how, advice)
        reasons = {vaddr: Missing(reason, detail or opened.how) for vaddr, (reason, detail) in unnamed.items()}
        for location, vaddr in locations:
            self._set_reason(report, location, nowhere if vaddr == NOWHERE else reasons[vaddr])
            start = None if vaddr == NOWHERE else opened.function_start(vaddr)
            if start is not None:
                self._profile.starts[location] = self._profile.address[location] - vaddr + start

    # results

    def _apply(self, report: FileReport, names: Iterable[ListedName], *, keep_reasons: bool = False) -> None:
        """Store names from lists of symbols; with `keep_reasons` a location keeps the reason it has."""
        for location, result, list_name in names:
            if not isinstance(result, Missing):
                self._profile.name(location, self._made_readable(result))
                report.lists[list_name] = None
                report.unnamed.pop(location, None)
                report.sources[result[-1].source] += 1
            elif not (keep_reasons and location in report.unnamed):
                self._set_reason(report, location, result)

    def _made_readable(self, frames: Frames) -> Frames:
        readable = self._readable
        if readable is None:
            return frames
        return tuple(frame._replace(function=readable(frame.function)) for frame in frames)

    def _set_reasons(self, group: LocationGroup, missing: Missing) -> None:
        for location in group.locations:
            self._set_reason(group.report, location, missing)

    def _set_reason(self, report: FileReport, location: int, missing: Missing) -> None:
        """Set the reason of a location, unless it has frames from before."""
        if not self._profile.own_frames[location]:
            self._profile.reasons[location] = str(missing)
            report.unnamed[location] = missing


def find_functions(profile: ProfileData, binaries: Binaries) -> None:
    """Find the functions of locations that have names from elsewhere, so that their instructions can be shown.

    Files that are missing or damaged are left out.
    """
    in_files = {location for part in profile.in_files for location in part.locations}
    for index, rows in _by_mapping(profile.mapping):
        mapping = None if index == NO_MAPPING else profile.mappings[index]
        locations = array("I", [row for row in rows if row not in in_files])
        if mapping is None or not locations or kind_of(mapping, 0) is not AddressKind.FILE:
            continue
        opened = binaries.search(mapping, len(locations)).opened
        if opened is None or opened.placing is not None:
            continue
        vaddrs = opened.vaddrs(mapping, array("Q", map(profile.address.__getitem__, locations)))
        distinct = array("Q", sorted({*vaddrs} - {NOWHERE}))
        table, numbers, _ = table_of(opened.binary, distinct)
        chain_of = dict(zip(distinct, numbers, strict=True))
        chains = memoryview(array("I", [chain_of.get(vaddr, NO_CHAIN) for vaddr in vaddrs]))
        profile.in_files.append(in_image(opened, locations, memoryview(vaddrs), chains, table))


def in_image(
    opened: OpenedMapping, locations: Locations, vaddrs: memoryview, chains: memoryview, table: ChainTable
) -> FileLocations:
    """Return the addresses of locations in the image of their file, and the functions there by the chains."""
    base = image_base(opened.segments or (), only_code=opened.elf is None)
    start, size = (taken(column, "Q", chains).numbers() for column in (table.span_start, table.span_size))
    if base:
        vaddrs, start = (moved(column, (1 << 64) - base).numbers() for column in (vaddrs, start))
    return FileLocations(memoryview(locations), vaddrs, start, size)


def _recorded(demangle: Callable[[str], str], system_names: dict[str, str]) -> Callable[[str], str]:
    """Return a demangler that stores the linkage name of each readable name in `system_names`."""

    def readable(function: str) -> str:
        text = demangle(function)
        if text != function:
            system_names[text] = function
        return text

    return readable


def own_file(path: str) -> str:
    """Return a file's path; names of files that do not exist (<autogenerated>, <stdin>) lose their folder.

    >>> own_file("././<autogenerated>"), own_file("/src/a>b/<x>.c"), own_file("<built-in>")
    ('<autogenerated>', '/src/a>b/<x>.c', '<built-in>')
    """
    name = path.rpartition("/")[2]
    return name if name.startswith("<") and name.endswith(">") else path
