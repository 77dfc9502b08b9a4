"""Every location of a profile to its frames or its reason: the same service for every format.

Locations are taken together by mapping, their addresses made vaddrs, and each file is asked once for all of them.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import compress
from operator import attrgetter, itemgetter

from whence.lidia.table import demangler
from whence.locate.locator import Locator
from whence.locate.segments import has_nobits
from whence.profiles.addresses import NOWHERE
from whence.profiles.binaries import VDSO, Binaries, MappingSearch
from whence.profiles.kernel import HALF
from whence.profiles.kinds import AddressKind, kind_of
from whence.profiles.model import NO_MAPPING, Mapping, Profile
from whence.profiles.non_elf_names import Answer, Processes, generated_names, kernel_names
from whence.reasons import GIVE_PROGRAM, MAKE_AGAIN, OWN_PAGE, Missing, Reason
from whence.records import Record, field
from whence.symbolize.naming import Unnamed, chains_of

FIRST, LAST = itemgetter(0), itemgetter(-1)  # of a chain: the innermost frame, the function itself
MOST_KNOWN = 500_000  # chains of a file that are kept for the next profile
LINE_OF, SOURCE_OF = attrgetter("line"), attrgetter("source")


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
    profile: Profile,
    binaries: Binaries | Locator,
    *,
    overwrite: bool = False,
    demangle: bool | Callable[[str], str] = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Named]:
    """Give frames or a reason to every location that has none (with `overwrite`: to every location).

    The files are found by a Locator, or by Binaries that are to answer for several profiles. Names are those that
    linkers use, with `demangle` readable ones (then `profile.system_names` tells what they were). A location that had
    frames keeps them when no better ones are found. Returns one report a file, in order of mappings. `progress` is
    called with a file's path, how many files are done and how many there are.
    """
    if isinstance(binaries, Locator):
        with Binaries(binaries) as opened:
            return name(profile, opened, overwrite=overwrite, demangle=demangle, progress=progress)
    if profile.unwinding is not None:
        waiting, profile.unwinding = profile.unwinding, None
        waiting.unwind(profile, binaries.locator)
    binaries.symbol_lists.recorded = profile.kernel_names
    demangled = demangler(demangle)
    if binaries.remembers:
        profile.system_names = binaries.system_names
    readable = _readable(demangled, profile.system_names)
    groups: dict[int, list[int]] = {}
    for location, row in enumerate(profile.mapping):
        groups.setdefault(row, []).append(location)
    reports: dict[tuple[str, str], Named] = {}
    processes = Processes(profile)
    for done, (index, members) in enumerate(sorted(groups.items())):
        mapping = None if index == NO_MAPPING else profile.mappings[index]
        key = (mapping.path, mapping.build_id) if mapping else ("", "")
        report = reports.setdefault(key, Named(*key))
        if progress:
            progress(report.path, done, len(groups))
        report.members += members
        wanted = [one for one in members if overwrite or not profile.frames[one]]
        if wanted:
            _name_mapping(processes, mapping, wanted, binaries, report, readable, demangled)
    for report in reports.values():
        _count(profile, report)
    return list(reports.values())


Readable = Callable[[str], str] | None


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
    members: list[int],
    binaries: Binaries,
    report: Named,
    readable: Readable,
    demangled: Readable,
) -> None:
    profile = processes.profile
    kinds: dict[AddressKind, list[int]] = {}
    lower, upper = kind_of(mapping, 0), kind_of(mapping, HALF)
    if lower is upper or max(map(profile.address.__getitem__, members)) < HALF:
        kinds[lower] = members
    else:
        for location in members:
            kinds.setdefault(upper if profile.address[location] >= HALF else lower, []).append(location)
    for kind, part in kinds.items():
        if mapping is not None and kind is AddressKind.PAGE and mapping.path == VDSO and mapping.build_id:
            report.search = search = binaries.search(mapping, len(part))
            if search.opened is not None:
                _ask(profile, search, mapping, part, report, readable, demangled)
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
                _ask(profile, search, mapping, part, report, readable, demangled)
            elif search.missing is not None:
                _answer(profile, [(index, search.missing, "") for index in part], report)
        if kind is AddressKind.KERNEL:
            left = [(index, profile.address[index]) for index in part if index not in profile.changed]
            listed = _made_readable(kernel_names(mapping, left, binaries.symbol_lists), readable)
            _answer(profile, listed, report, better=report.search is not None and report.search.opened is not None)
        elif kind in (AddressKind.GENERATED, AddressKind.NOWHERE):
            found = generated_names(processes, mapping, part, kind, binaries.symbol_lists)
            _answer(profile, _made_readable(found, readable), report)


def _made_readable(answers: Iterable[Answer], readable: Readable) -> Iterable[Answer]:
    """Answers of lists of names, their names made readable."""
    for location, answer, how in answers:
        if readable is not None and not isinstance(answer, Missing):
            answer = tuple(frame._replace(function=readable(frame.function)) for frame in answer)
        yield location, answer, how


def _ask(
    profile: Profile,
    search: MappingSearch,
    mapping: Mapping,
    members: list[int],
    report: Named,
    readable: Readable,
    demangled: Readable,
) -> None:
    """Name the members from the file that was found for their mapping."""
    assert search.opened is not None
    opened = search.opened
    vaddrs = opened.vaddrs(mapping, array("Q", map(profile.address.__getitem__, members)))
    distinct = sorted({*vaddrs} - {NOWHERE})
    known = opened.known.setdefault(demangled, {}) if opened.known is not None else {}
    new = [vaddr for vaddr in distinct if vaddr not in known] if known else distinct
    unnamed: Unnamed = {}
    if new:
        chains, unnamed = chains_of(opened.binary, new, function=readable, file=own_file)
        if len(known) + len(new) > MOST_KNOWN:
            known = {}  # for this profile alone
        known.update(compress(zip(new, chains, strict=True), chains))
    answers = list(map(known.get, vaddrs))
    frames_of, reasons = profile.frames, profile.reasons
    found = [frames for frames in answers if frames]
    named = members
    if len(found) < len(answers):
        named = [index for index, frames in zip(members, answers, strict=True) if frames]
    for location, frames in zip(named, found, strict=True):
        frames_of[location] = frames
    profile.changed.update(named)
    for location in reasons.keys() & set(named) if reasons else ():
        del reasons[location]
    report.sources.update(map(SOURCE_OF, map(LAST, found)))
    if named is members:
        return
    placed = mapping.start and opened.segments is not None
    advice = "" if opened.segments is not None else MAKE_AGAIN
    if has_nobits(opened.segments or ()):
        advice = GIVE_PROGRAM
    nowhere = Missing(Reason.OUTSIDE_SEGMENTS if placed else Reason.NOT_PLACED, opened.how, advice)
    why = {vaddr: Missing(reason, detail or opened.how) for vaddr, (reason, detail) in unnamed.items()}
    for location, vaddr, answer in zip(members, vaddrs, answers, strict=True):
        if not answer:
            _leave(profile, location, nowhere if vaddr == NOWHERE else why[vaddr], report)


def _answer(profile: Profile, answers: Iterable[Answer], report: Named, *, better: bool = False) -> None:
    """Frames and reasons to their locations; with `better` a reason that is there already stays."""
    for location, answer, how in answers:
        if not isinstance(answer, Missing):
            profile.name(location, answer)
            report.lists[how] = None
            report.left.pop(location, None)
            report.sources[answer[-1].source] += 1
        elif not (better and location in report.left):
            _leave(profile, location, answer, report)


def _leave(profile: Profile, location: int, missing: Missing, report: Named) -> None:
    """A location that got nothing new: with old frames it keeps them, without it has a reason."""
    if not profile.frames[location]:
        profile.reasons[location] = str(missing)
        report.left[location] = missing


def own_file(path: str) -> str:
    """A file's path; what stands for one that never was (<autogenerated>, <stdin>) lies in no folder.

    >>> own_file("././<autogenerated>"), own_file("/src/a>b/<x>.c"), own_file("<built-in>")
    ('<autogenerated>', '/src/a>b/<x>.c', '<built-in>')
    """
    name = path.rpartition("/")[2]
    return name if name.startswith("<") and name.endswith(">") else path


def _count(profile: Profile, report: Named) -> None:
    report.locations = len(report.members)
    report.missing = Counter(report.left.values())
    found = [frames for frames in map(profile.frames.__getitem__, report.members) if frames]
    report.named = len(found)
    report.with_lines = sum(map(bool, map(LINE_OF, map(FIRST, found))))
    kept = [location for location in set(report.members) - profile.changed if profile.frames[location]]
    if kept:
        report.sources["profile"] += len(kept)
