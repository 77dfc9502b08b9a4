"""Every location of a profile to its frames or its reason: the same service for every format.

Locations are taken together by mapping, their addresses made vaddrs, and each file is asked once for all of them.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from whence.demangle import demangle
from whence.model import Frame, Frames
from whence.profiles.addresses import NOWHERE, has_nobits
from whence.profiles.binaries import Binaries, Search
from whence.profiles.listed import Answer, Processes, generated_names, kernel_names
from whence.profiles.model import NO_MAPPING, Mapping, Profile
from whence.profiles.reasons import OWN_PAGE, Kind, Missing, kind_of
from whence.reasons import Reason
from whence.symbolize.binaries import Names
from whence.symbolize.naming import name_all


@dataclass(slots=True)
class Named:
    """What became of the locations of one file (all its mappings)."""

    path: str
    build_id: str
    search: Search | None = None
    locations: int = 0
    named: int = 0
    with_lines: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    missing: Counter[Missing] = field(default_factory=Counter)
    members: list[int] = field(default_factory=list)  # the locations
    lists: dict[str, None] = field(default_factory=dict)  # those that answered, in words
    left: dict[int, Missing] = field(default_factory=dict)  # those without frames


def name(
    profile: Profile,
    binaries: Binaries,
    *,
    overwrite: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Named]:
    """Give frames or a reason to every location that has none (with `overwrite`: to every location).

    A location that had frames keeps them when no better ones are found. Gives one report a file, in order of mappings;
    `progress` is called with a file's path, how many files are done and how many there are.
    """
    groups: dict[int, list[int]] = {}
    for location, where in enumerate(profile.mapping):
        groups.setdefault(where, []).append(location)
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
            _name_mapping(processes, mapping, wanted, binaries, report)
    for report in reports.values():
        _count(profile, report)
    return list(reports.values())


def _name_mapping(
    processes: Processes, mapping: Mapping | None, members: list[int], binaries: Binaries, report: Named
) -> None:
    profile = processes.profile
    kinds: dict[Kind, list[int]] = {}
    for location in members:
        kinds.setdefault(kind_of(mapping, profile.address[location]), []).append(location)
    for kind, part in kinds.items():
        if mapping is not None and kind is Kind.PAGE:
            _answer(profile, [(at, Missing(Reason.NOT_FILE_BACKED, mapping.path, OWN_PAGE), "") for at in part], report)
        if mapping is not None and (kind is Kind.FILE or (kind is Kind.KERNEL and mapping.path)):
            report.search = search = binaries.search(mapping, len(part))
            if search.opened is not None:
                _ask(profile, search, mapping, part, report)
            elif search.missing is not None:
                _answer(profile, [(at, search.missing, "") for at in part], report)
        if kind is Kind.KERNEL:
            left = [(at, profile.address[at]) for at in part if at not in profile.changed]
            listed = kernel_names(mapping, left, binaries.lists)
            _answer(profile, listed, report, better=report.search is not None and report.search.opened is not None)
        elif kind in (Kind.GENERATED, Kind.NOWHERE):
            _answer(profile, generated_names(processes, mapping, part, kind, binaries.lists), report)


def _ask(profile: Profile, search: Search, mapping: Mapping, members: list[int], report: Named) -> None:
    """Name the members from the file that was found for their mapping."""
    assert search.opened is not None
    opened = search.opened
    addresses = array("Q", map(profile.address.__getitem__, members))
    where = opened.vaddrs(mapping, addresses)
    answers = _chains(opened.binary, sorted({vaddr for vaddr in where if vaddr != NOWHERE}), profile.system_names)
    placed = mapping.start and opened.segments is not None
    advice = "" if opened.segments is not None else "make the archive again, or give the ELF file with --binary"
    if has_nobits(opened.segments or ()):
        advice = "a debug file does not say where its code lies in the program: give the program with --binary, too"
    outside = Missing(Reason.OUTSIDE_SEGMENTS if placed else Reason.NOT_PLACED, opened.how, advice)
    frames_of, changed, reasons = profile.frames, profile.changed, profile.reasons
    for location, vaddr in zip(members, where, strict=True):
        answer = answers[vaddr] if vaddr != NOWHERE else outside
        if isinstance(answer, Missing):
            _leave(profile, location, answer._replace(detail=answer.detail or opened.how), report)
            continue
        frames_of[location] = answer
        changed.add(location)
        reasons.pop(location, None)
        report.sources[answer[-1].source] += 1


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


def _chains(binary: Names, vaddrs: Sequence[int], system_names: dict[str, str]) -> dict[int, Frames | Missing]:
    """Each vaddr's frames with readable names, or why there are none; what names were before goes to system_names."""
    out: dict[int, Frames | Missing] = {}
    readable: dict[str, str] = {}
    for vaddr, (frames, reason, detail) in name_all(binary, vaddrs).items():
        if reason is not None or not frames:
            out[vaddr] = Missing(reason or Reason.NOT_IN_ARCHIVE, detail)
            continue
        placeless = False
        for frame in frames:
            if frame.function not in readable:
                readable[frame.function] = demangle(frame.function)
            placeless |= frame.file.endswith(">")
        if any(readable[frame[0]] is not frame[0] for frame in frames):
            frames = tuple([frame._replace(function=readable[frame.function]) for frame in frames])
        if placeless:
            frames = tuple([frame._replace(file=own_file(frame.file)) for frame in frames])
        out[vaddr] = frames
    system_names.update((text, raw) for raw, text in readable.items() if text != raw)
    return out


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
    for location in report.members:
        frames: tuple[Frame, ...] = profile.frames[location]
        if frames:
            report.named += 1
            if frames[0].line:
                report.with_lines += 1
            if location not in profile.changed:
                report.sources["profile"] += 1
