"""Every location of a profile to its frames or its reason: the same service for every format.

Locations are taken together by mapping, their addresses made vaddrs, and each file is asked once for all of them.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from whence._base.reasons import GIVE_PROGRAM, MAKE_AGAIN, OWN_PAGE, Missing, Reason
from whence._base.records import NamedTuple, Record, field
from whence.kernels.rows import ascending, grouped, numbered, taken
from whence.lidia.chains import NO_CHAIN, SOURCE_OF_BYTE, ChainTable
from whence.lidia.table import demangler
from whence.locate.segments import has_nobits
from whence.locator.locator import Locator
from whence.profiles.binaries import VDSO, Binaries, KnownChains, MappingSearch, Placed
from whence.profiles.fallback_names import Fallbacks
from whence.profiles.non_elf_names import Answer, Processes, generated_names, kernel_names
from whence.samples.addresses import NOWHERE
from whence.samples.kernel import HALF
from whence.samples.kernels.lines import census
from whence.samples.kinds import AddressKind, kind_of
from whence.samples.model import NO_MAPPING, Mapping, NamedLocations, ProfileData
from whence.symbolize.naming import Unnamed, table_of

MOST_KNOWN = 500_000  # vaddrs of a file whose chains are kept for the next profile


NO_FILE = ("", "")


def file_of(mapping: Mapping) -> tuple[str, str]:
    """What distinguishes the files of mappings."""
    return mapping.path, mapping.build_id


class Named(Record):
    """What became of the locations of one file (all its mappings)."""

    path: str
    build_id: str
    search: MappingSearch | None = None
    locations: int = 0
    named: int = 0
    with_lines: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    missing: Counter[Missing] = field(default_factory=Counter)
    members: list[int] = field(default_factory=list)  # the locations
    lists: dict[str, None] = field(default_factory=dict)  # those that answered, in words
    left: dict[int, Missing] = field(default_factory=dict)  # those without frames

    def __repr__(self) -> str:
        return f"<profiles.Named {ascii(self.path)[1:-1] or 'no file'}: {self.named:,} of {self.locations:,} locations>"


def name(
    profile: ProfileData,
    binaries: Binaries | Locator,
    *,
    overwrite: bool = False,
    demangle: bool | Callable[[str], str] = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Named]:
    """Give frames or a reason to every location that has none (with `overwrite`: to every location).

    The files are found by a Locator, or by Binaries that are to answer for several profiles. Names are those that
    linkers use, with `demangle` readable ones (then `profile.system_names` has what they were). A location that had
    frames keeps them when no better ones are found; one that has a name like `libfoo.so!0x1a2b` has none. Returns one
    report a file, in order of mappings. `progress` is called with a file's path, how many files are done and how many
    there are.
    """
    if isinstance(binaries, Locator):
        with Binaries(binaries, once=True) as opened:
            return name(profile, opened, overwrite=overwrite, demangle=demangle, progress=progress)
    if profile.unwinding is not None:
        waiting, profile.unwinding = profile.unwinding, None
        waiting.unwind(profile, binaries.locator)
    fallbacks = Fallbacks(profile, binaries.locator.files)
    try:
        return _name(profile, binaries, overwrite=overwrite, demangle=demangle, progress=progress)
    finally:
        fallbacks.restore()


def _name(
    profile: ProfileData,
    binaries: Binaries,
    *,
    overwrite: bool,
    demangle: bool | Callable[[str], str],
    progress: Callable[[str, int, int], None] | None,
) -> list[Named]:
    """`name`, by files that are open, for a profile whose stacks are whole."""
    binaries.symbol_lists.recorded = profile.kernel_names
    demangled = demangler(demangle)
    if binaries.remembers:
        profile.system_names = binaries.system_names
    readable = _readable(demangled, profile.system_names)
    frames = profile.frames
    unnamed = overwrite or not any(frames)
    reports: dict[tuple[str, str], Named] = {}
    processes = Processes(profile)
    groups = _by_mapping(profile.mapping)
    keys = [file_of(profile.mappings[index]) if index != NO_MAPPING else NO_FILE for index, _ in groups]
    last = {key: done for done, key in enumerate(keys)}
    for done, (key, (index, members)) in enumerate(zip(keys, groups, strict=True)):
        mapping = None if index == NO_MAPPING else profile.mappings[index]
        report = reports.setdefault(key, Named(*key))
        if progress:
            progress(report.path, done, len(groups))
        report.members += members
        wanted = members if unnamed else array("I", [one for one in members if not frames[one]])
        if wanted:
            is_last = binaries.once and last[key] == done
            _name_mapping(processes, mapping, wanted, binaries, report, Asked(readable, demangled, is_last))
        if mapping is not None and last[key] == done:
            binaries.done(mapping)
    in_columns = {location for one in profile.named for location in one.locations} if any(frames) else None
    for report in reports.values():
        report.locations = len(report.members)
        report.missing = Counter(report.left.values())
        if in_columns is not None:
            _count_objects(profile, report, in_columns)
    return list(reports.values())


def _by_mapping(mappings: array[int]) -> list[tuple[int, memoryview]]:
    """The locations of each mapping, in order of mappings."""
    numbers, distinct = numbered(mappings, "Q")
    rows, starts = (column.numbers() for column in grouped(numbers.numbers(), len(distinct)))
    kinds = distinct.numbers().cast("B").cast("q")
    return sorted((index, rows[low:high]) for index, (low, high) in zip(kinds, pairwise(starts), strict=True))


Readable = Callable[[str], str] | None


class Asked(NamedTuple):
    """How files are asked: what makes names readable and notes what they were, the same without the note, and whether
    nothing else will be asked of the file."""

    readable: Readable
    demangled: Readable
    is_last: bool


Locations: TypeAlias = "memoryview | array[int]"


def _readable(demangle: Readable, system_names: dict[str, str]) -> Readable:
    """What makes names readable and notes in `system_names` what they were; None to leave them."""
    if demangle is None:
        return None

    def readable(function: str) -> str:
        text = demangle(function)
        if text != function:
            system_names[text] = function
        return text

    return readable


def _name_mapping(
    processes: Processes,
    mapping: Mapping | None,
    members: Locations,
    binaries: Binaries,
    report: Named,
    how: Asked,
) -> None:
    profile = processes.profile
    kinds: dict[AddressKind, Locations] = {}
    lower, upper = kind_of(mapping, 0), kind_of(mapping, HALF)
    if lower is upper or max(map(profile.address.__getitem__, members)) < HALF:
        kinds[lower] = members
    else:
        for kind in (lower, upper):
            chosen = array("I", [one for one in members if (profile.address[one] >= HALF) == (kind is upper)])
            if chosen:
                kinds[kind] = chosen
    for kind, part in kinds.items():
        if mapping is not None and kind is AddressKind.PAGE and mapping.path == VDSO and mapping.build_id:
            report.search = search = binaries.search(mapping, len(part))
            if search.opened is not None:
                _ask(profile, search, mapping, part, report, how)
                continue
        if mapping is not None and kind is AddressKind.PAGE:
            _answer(
                profile,
                [(index, Missing(Reason.NOT_FILE_BACKED, mapping.path, OWN_PAGE), "") for index in part],
                report,
            )
        if mapping is not None and (kind is AddressKind.FILE or (kind is AddressKind.KERNEL and mapping.path)):
            report.search = search = binaries.search(mapping, len(part))
            if search.opened is not None:
                _ask(profile, search, mapping, part, report, how)
            elif search.missing is not None:
                _answer(profile, [(index, search.missing, "") for index in part], report)
        if kind is AddressKind.KERNEL:
            left = [(index, profile.address[index]) for index in part if index not in profile.changed]
            listed = _made_readable(kernel_names(mapping, left, binaries.symbol_lists), how.readable)
            _answer(profile, listed, report, better=report.search is not None and report.search.opened is not None)
        elif kind in (AddressKind.GENERATED, AddressKind.NOWHERE):
            found = generated_names(processes, mapping, part, kind, binaries.symbol_lists)
            _answer(profile, _made_readable(found, how.readable), report)


def _made_readable(answers: Iterable[Answer], readable: Readable) -> Iterable[Answer]:
    """Answers of lists of names, their names made readable."""
    for location, answer, how in answers:
        if readable is not None and not isinstance(answer, Missing):
            answer = tuple(frame._replace(function=readable(frame.function)) for frame in answer)
        yield location, answer, how


def _ask(
    profile: ProfileData,
    search: MappingSearch,
    mapping: Mapping,
    members: Locations,
    report: Named,
    how: Asked,
) -> None:
    """Name the members from the file that was found for their mapping."""
    assert search.opened is not None
    opened = search.opened
    addresses = array("Q", bytes(taken(profile.address, "Q", members)))
    distinct, at = (column.numbers() for column in ascending(opened.vaddrs(mapping, addresses)))
    nowhere = len(distinct) > 0 and distinct[-1] == NOWHERE
    table, found, unnamed = _chains_of(opened, distinct[:-1] if nowhere else distinct, how)
    chain_of = array("I", found)
    if nowhere:
        chain_of.append(NO_CHAIN)
    chains = taken(chain_of, "I", at).numbers()
    named, given = members, chains
    if NO_CHAIN in chain_of:
        kept = array("I", [row for row, chain in enumerate(chains) if chain != NO_CHAIN])
        named = taken(members, "I", kept).numbers()
        given = taken(chains, "I", kept).numbers()
    profile.named.append(NamedLocations(memoryview(named), given, table))
    profile.changed.update(named)
    for location in profile.reasons.keys() & set(named) if profile.reasons else ():
        del profile.reasons[location]
    counts = array("Q", bytes(8 * len(SOURCE_OF_BYTE)))
    report.with_lines += census(given, table.first, table.line, table.source, counts)
    report.named += len(given)
    for byte in set(table.source):
        if counts[byte]:
            report.sources[SOURCE_OF_BYTE[byte]] += counts[byte]
    if len(named) < len(members):
        _leave_unnamed(profile, opened, mapping, zip(members, chains, map(distinct.__getitem__, at)), unnamed, report)


def _chains_of(opened: Placed, vaddrs: memoryview, how: Asked) -> tuple[ChainTable, Sequence[int], Unnamed]:
    """The chains of some distinct vaddrs: those that the file answered for a profile before are not asked for again."""
    if not vaddrs:
        return ChainTable(), (), {}
    readable = how.readable
    if opened.known is None:
        return table_of(opened.binary, vaddrs, function=readable, file=own_file, is_last=how.is_last)
    known = opened.known.get(how.demangled)
    if known is None:
        known = opened.known[how.demangled] = KnownChains()
    chains = list(map(known.chain.get, vaddrs))
    new = array("Q", [vaddr for vaddr, chain in zip(vaddrs, chains, strict=True) if chain is None])
    if len(known.chain) + len(new) > MOST_KNOWN:
        return table_of(opened.binary, vaddrs, function=readable, file=own_file)
    unnamed: Unnamed = {}
    if new:
        table, found, unnamed = table_of(opened.binary, new, function=readable, file=own_file)
        base = known.table.add(table)
        known.chain.update((vaddr, base + chain) for vaddr, chain in zip(new, found, strict=True) if chain)
        chains = [known.chain.get(vaddr, NO_CHAIN) for vaddr in vaddrs]
    return known.table, [chain or NO_CHAIN for chain in chains], unnamed


def _leave_unnamed(
    profile: ProfileData,
    opened: Placed,
    mapping: Mapping,
    answers: Iterable[tuple[int, int, int]],
    unnamed: Unnamed,
    report: Named,
) -> None:
    """A reason for each location that has no chain, of (location, chain, vaddr)."""
    placed = mapping.start and opened.segments is not None
    advice = "" if opened.segments is not None else MAKE_AGAIN
    if has_nobits(opened.segments or ()):
        advice = GIVE_PROGRAM
    nowhere = Missing(Reason.OUTSIDE_SEGMENTS if placed else Reason.NOT_PLACED, opened.how, advice)
    why = {vaddr: Missing(reason, detail or opened.how) for vaddr, (reason, detail) in unnamed.items()}
    for location, chain, vaddr in answers:
        if chain == NO_CHAIN:
            _leave(profile, location, nowhere if vaddr == NOWHERE else why[vaddr], report)


def _answer(profile: ProfileData, answers: Iterable[Answer], report: Named, *, better: bool = False) -> None:
    """Frames and reasons to their locations; with `better` a reason that is there already stays."""
    for location, answer, how in answers:
        if not isinstance(answer, Missing):
            profile.name(location, answer)
            report.lists[how] = None
            report.left.pop(location, None)
            report.sources[answer[-1].source] += 1
        elif not (better and location in report.left):
            _leave(profile, location, answer, report)


def _leave(profile: ProfileData, location: int, missing: Missing, report: Named) -> None:
    """A location that got nothing new: with old frames it keeps them, without it has a reason."""
    if not profile.own_frames[location]:
        profile.reasons[location] = str(missing)
        report.left[location] = missing


def own_file(path: str) -> str:
    """A file's path; what stands for one that never was (<autogenerated>, <stdin>) lies in no folder.

    >>> own_file("././<autogenerated>"), own_file("/src/a>b/<x>.c"), own_file("<built-in>")
    ('<autogenerated>', '/src/a>b/<x>.c', '<built-in>')
    """
    name = path.rpartition("/")[2]
    return name if name.startswith("<") and name.endswith(">") else path


def _count_objects(profile: ProfileData, report: Named, in_columns: set[int]) -> None:
    """Count the locations that have frames and were named by no file: those that were are counted."""
    frames = profile.own_frames
    found = [location for location in report.members if frames[location] and location not in in_columns]
    report.named += len(found)
    report.with_lines += sum(bool(frames[location][0].line) for location in found)
    kept = len({*found} - profile.changed)
    if kept:
        report.sources["profile"] += kept
