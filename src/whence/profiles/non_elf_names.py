"""Names that are in no ELF file, from lists of symbols: generated code, and the kernel."""

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

ListedName = tuple[int, Frames | Missing, str]
"""A location, its frames or the reason why it has none, and the list they are from."""


def kernel_names(
    mapping: Mapping | None, addresses: Sequence[tuple[int, int]], lists: SymbolLists
) -> Iterator[ListedName]:
    """Yield the name of each (location, address) from the kernel's list, or a reason."""
    names, missing = lists.of_kernel(mapping)
    for location, address in addresses:
        name = names.names.lookup(address) if names else ""
        if names and name:
            yield location, frames_of(names, name), names.how
        else:
            yield location, missing, ""


def generated_names(
    processes: Processes, mapping: Mapping | None, locations: Sequence[int], lists: SymbolLists, *, is_mapped: bool
) -> Iterator[ListedName]:
    """Yield the name of each location from the perf maps of its processes, or a reason.

    No map is believed if the maps of several processes disagree. `is_mapped` is false for addresses in no mapping.
    """
    profile = processes.profile
    for location in locations:
        address = profile.address[location]
        candidates, missing = lists.of_processes(processes.of(mapping, location))
        if not is_mapped:
            missing = Missing(Reason.UNMAPPED, "", NO_FRAME) if address else Missing(Reason.NOT_PLACED)
        elif not candidates and mapping is not None and mapping.path and not MAP_PATH.fullmatch(mapping.path):
            missing = missing._replace(detail=f"{mapping.path}; {missing.detail}")
        names = {(name, source) for source in candidates if (name := source.names.lookup(address))}
        if len({name for name, _ in names}) > 1:
            maps = ", ".join(sorted(source.how for _, source in names))
            advice = "give the map of the right process with --perf-map"
            yield location, Missing(Reason.NOT_FILE_BACKED, f"{maps} disagree", advice), ""
        elif names:
            name, source = names.pop()
            yield location, frames_of(source, name), source.how
        else:
            yield location, missing, ""


def frames_of(names: NameList, name: str) -> Frames:
    return (Frame(name, source=names.source),)


def is_file(mapping: Mapping) -> bool:
    """Return True if every address of a mapping is in a file."""
    return all(kind_of(mapping, address) is AddressKind.FILE for address in (0, HALF))


class Processes:
    """The processes of each location: from the mapping's name (as perf writes it), or from the labels of samples."""

    def __init__(self, profile: ProfileData) -> None:
        self.profile = profile
        self._by_location: dict[int, set[int]] | None = None
        self._all: frozenset[int] = frozenset()

    def of(self, mapping: Mapping | None, location: int) -> Collection[int]:
        """Return the pids of a location; empty if unknown."""
        match = MAP_PATH.fullmatch(mapping.path) if mapping is not None else None
        if match is not None:
            return (int(match["pid"]),)
        if self._by_location is None:
            self._by_location = self._scan()
        return self._all if len(self._all) <= 1 else self._by_location.get(location, ())

    def _scan(self) -> dict[int, set[int]]:
        """Return the pids of the locations that no file can name; empty if all samples are of one process."""
        samples = self.profile.samples
        pids: dict[tuple[Label, ...], int] = {}
        for labels in samples.labels:
            if labels and labels not in pids:
                pids[labels] = next((number_in(label) for label in labels if label.key in PID_LABELS), 0)
        self._all = frozenset(pid for pid in pids.values() if pid)
        out: dict[int, set[int]] = {}
        if len(self._all) <= 1:
            return out
        in_files = {row for row, mapping in enumerate(self.profile.mappings) if is_file(mapping)}
        in_lists = bytearray(row not in in_files for row in self.profile.mapping)
        budget = bounds.writing(self.profile.stored, "the processes of each location")
        for stack, pid in {(row, pids.get(labels, 0)) for row, labels in zip(samples.of, samples.labels)}:
            locations = samples.locations_of(stack) if pid else ()
            new = 0
            for location in locations:
                if not in_lists[location]:
                    continue
                seen = out.setdefault(location, set())
                if pid not in seen:
                    seen.add(pid)
                    new += 1
            budget.charge(bounds.STEP * len(locations) + bounds.LABELS * new)
        return out
