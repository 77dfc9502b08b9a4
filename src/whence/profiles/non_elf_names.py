"""Locations whose names are in no ELF file, answered from lists: generated code, and the kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from whence._base.model import Frame, Frames
from whence._base.reasons import NO_FRAME, Missing, Reason
from whence.profiles.symbol_lists import NameList, SymbolLists
from whence.samples import bounds
from whence.samples.kernel import HALF
from whence.samples.kinds import MAP_PATH, AddressKind, kind_of
from whence.samples.model import Label, Mapping, ProfileData
from whence.samples.threads import PID_LABELS, number_in

Answer = tuple[int, Frames | Missing, str]
"""A location, its frames or why there are none, and which list answered."""


def kernel_names(mapping: Mapping | None, addresses: Sequence[tuple[int, int]], lists: SymbolLists) -> Iterator[Answer]:
    """An answer for each (location, address) from the list of the kernel's names."""
    found, otherwise = lists.of_kernel(mapping)
    for location, address in addresses:
        name = found.names.lookup(address) if found else ""
        if found and name:
            yield location, frames_of(found, name), found.how
        else:
            yield location, otherwise, ""


def generated_names(
    processes: Processes, mapping: Mapping | None, members: Sequence[int], kind: AddressKind, lists: SymbolLists
) -> Iterator[Answer]:
    """An answer for each location from the perf maps of the processes that were there.

    Where several processes were and their maps disagree, none is believed.
    """
    profile = processes.profile
    for location in members:
        asked, otherwise = lists.of_processes(processes.of(mapping, location))
        if kind is AddressKind.NOWHERE:
            address = profile.address[location]
            otherwise = Missing(Reason.UNMAPPED, "", NO_FRAME) if address else Missing(Reason.NOT_PLACED)
        elif not asked and mapping is not None and mapping.path and not MAP_PATH.fullmatch(mapping.path):
            otherwise = otherwise._replace(detail=f"{mapping.path}; {otherwise.detail}")
        names = {(name, one) for one in asked if (name := one.names.lookup(profile.address[location]))}
        if len({name for name, _ in names}) > 1:
            maps = ", ".join(sorted(one.how for _, one in names))
            yield location, Missing(Reason.NOT_FILE_BACKED, f"{maps} disagree", "give the one map with --perf-map"), ""
        elif names:
            name, one = names.pop()
            yield location, frames_of(one, name), one.how
        else:
            yield location, otherwise, ""


def frames_of(listed: NameList, name: str) -> Frames:
    return (Frame(name, source=listed.source),)


def of_file(mapping: Mapping) -> bool:
    """Whether a mapping is of a file, wherever in it an address is."""
    return all(kind_of(mapping, address) is AddressKind.FILE for address in (0, HALF))


class Processes:
    """The processes each location was seen in: by the mapping's name (perf does that), or by samples' labels."""

    def __init__(self, profile: ProfileData) -> None:
        self.profile = profile
        self._seen: dict[int, set[int]] | None = None
        self._all: frozenset[int] = frozenset()

    def of(self, mapping: Mapping | None, location: int) -> Collection[int]:
        named = MAP_PATH.fullmatch(mapping.path) if mapping is not None else None
        if named is not None:
            return (int(named["pid"]),)
        if self._seen is None:
            self._seen = self._look()
        return self._all if len(self._all) <= 1 else self._seen.get(location, ())

    def _look(self) -> dict[int, set[int]]:
        """One walk over every stack of every process, for the locations that no file can name; none where all samples
        are of one."""
        samples = self.profile.samples
        known: dict[tuple[Label, ...], int] = {}
        for labels in samples.labels:
            if labels and labels not in known:
                known[labels] = next((number_in(one) for one in labels if one.key in PID_LABELS), 0)
        self._all = frozenset(pid for pid in known.values() if pid)
        out: dict[int, set[int]] = {}
        if len(self._all) > 1:
            in_files = {row for row, one in enumerate(self.profile.mappings) if of_file(one)}
            asked = bytearray(row not in in_files for row in self.profile.mapping)
            budget = bounds.writing(self.profile.stored, "the processes of each location")
            for stack, pid in {(row, known.get(labels, 0)) for row, labels in zip(samples.of, samples.labels)}:
                where = samples.locations_of(stack) if pid else ()
                new = 0
                for location in where:
                    if not asked[location]:
                        continue
                    seen = out.setdefault(location, set())
                    if pid not in seen:
                        seen.add(pid)
                        new += 1
                budget.charge(bounds.STEP * len(where) + bounds.LABELS * new)
        return out
