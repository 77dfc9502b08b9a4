"""Merge profiles: equal sample types, mappings, locations and samples become one each.

Each process maps files at other addresses: two mappings are equal if they map the same bytes of the same file (by
build-id, or else by path), and addresses are moved to the first of them. Memory without a file is private to a process,
and never merged. Values of equal samples (stack and labels) are added; a sample type that a profile lacks is 0 for its
samples. Times are kept if every profile has them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from copy import deepcopy

from whence._base.model import Frames
from whence.samples import bounds
from whence.samples.addresses import is_runtime
from whence.samples.kinds import AddressKind, kind_of
from whence.samples.model import NO_MAPPING, Derived, Label, Mapping, ProfileData, Samples, SampleType, Timeline

LARGEST = (1 << 63) - 1


def merge(profiles: Iterable[ProfileData]) -> ProfileData:
    """Merge profiles into one. Each is released before the next is read.

    The first profile with stacks to unwind and all after it are not released: after unwinding they are merged again.
    """
    merger = Merger()
    parents: list[ProfileData] = []
    for profile in profiles:
        if parents or profile.unwinding is not None:
            parents = parents or ([deepcopy(merger.profile)] if merger.added else [])
            parents.append(profile)
        merger.add(profile)
    if parents:
        merger.profile.unwinding = Derived(parents, merge)
    return merger.profile


def saturated(value: int) -> int:
    """Return the value, limited to signed 64 bits."""
    return max(-LARGEST - 1, min(value, LARGEST))


class Merger:
    """Merges profiles one at a time."""

    def __init__(self) -> None:
        self.profile = ProfileData(stored=0)
        self.added = 0
        self._types: dict[SampleType, int] = {}
        self._mappings: dict[tuple[object, ...], int] = {}
        self._locations: dict[tuple[int, int, Frames], int] = {}
        self._stacks: dict[bytes, int] = {}
        self._rows: dict[tuple[int, tuple[Label, ...]] | int, int] = {}  # by stack and labels, if any
        self._values: list[array[int]] = []
        self._timeline: Timeline | None = Timeline()

    def add(self, profile: ProfileData) -> None:
        """Add a profile. Raise ProfileError if the merged profile exceeds the limit for the stored bytes."""
        out = self.profile
        out.stored = min(out.stored + profile.stored, bounds.NO_BOUND)
        kinds = [self._type(kind) for kind in profile.sample_types]
        mappings = [self._mapping(mapping) for mapping in profile.mappings]
        locations = array("I", (self._location(profile, row, mappings) for row in range(len(profile.address))))
        samples, merged = profile.samples, out.samples
        budget = bounds.writing(out.stored, "merged profiles")
        budget.charge(bounds.SAMPLE * len(self._rows) + bounds.ENTRY * len(merged.stack))
        stacks = self._stacks_of(samples, locations)
        rows, before = array("I"), len(merged.of)
        for old_stack, labels in zip(samples.of, samples.labels, strict=True):
            stack = stacks[old_stack]
            key = (stack, labels) if labels else stack
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = len(merged.of)
                merged.of.append(stack)
                merged.labels.append(labels)
            rows.append(row)
        budget.charge(bounds.SAMPLE * (len(merged.of) - before))
        for total in self._values:
            total.extend(array("q", [0]) * (len(merged.of) - len(total)))
        for kind, column in zip(kinds, samples.values):
            total = self._values[kind]
            for row, value in zip(rows, column):
                value += total[row]
                total[row] = value if -LARGEST <= value <= LARGEST else saturated(value)
        self._times(samples, kinds, rows)
        self._add_metadata(profile)
        merged.values = self._values
        self.added += 1

    def _type(self, kind: SampleType) -> int:
        index = self._types.get(kind)
        if index is None:
            index = self._types[kind] = len(self._types)
            self.profile.sample_types.append(kind)
            self._values.append(array("q", [0]) * len(self.profile.samples.of))
        return index

    def _mapping(self, mapping: Mapping) -> tuple[int, int]:
        """Return the index of the merged mapping, and the number to add to runtime addresses."""
        key: tuple[object, ...] = mapping
        kind = kind_of(mapping, mapping.start)
        if kind is AddressKind.FILE:
            key = (
                mapping.build_id or mapping.path,
                mapping.file_offset,
                mapping.limit - mapping.start,
                mapping.start > 0,
            )
        elif kind is not AddressKind.KERNEL:
            key = *mapping, self.added  # memory without a file is private to this process
        index = self._mappings.get(key)
        if index is None:
            index = self._mappings[key] = len(self.profile.mappings)
            self.profile.mappings.append(mapping)
        return index, self.profile.mappings[index].start - mapping.start

    def _location(self, profile: ProfileData, row: int, mappings: list[tuple[int, int]]) -> int:
        mapping, address, frames = profile.mapping[row], profile.address[row], profile.frames[row]
        if mapping != NO_MAPPING:
            old_mapping = profile.mappings[mapping]
            mapping, distance = mappings[mapping]
            if is_runtime(old_mapping, address):
                address += distance
        key = mapping, address, frames
        location = self._locations.get(key)
        if location is None:
            location = self._locations[key] = self.profile.location(mapping, address, frames)
        if row in profile.changed:
            self.profile.changed.add(location)
        if row in profile.reasons and not frames:
            self.profile.reasons.setdefault(location, profile.reasons[row])
        if row in profile.starts and not frames:
            self.profile.starts.setdefault(location, address - profile.address[row] + profile.starts[row])
        return location

    def _stacks_of(self, samples: Samples, locations: array[int]) -> dict[int, int]:
        """Return the indices of merged stacks by those of the samples' stacks."""
        merged, first = self.profile.samples, samples.first
        column = array("I", map(locations.__getitem__, samples.stack))
        view, width = memoryview(column).cast("B"), column.itemsize
        stacks: dict[int, int] = {}
        for old_stack in dict.fromkeys(samples.of):
            key = view[first[old_stack] * width : first[old_stack + 1] * width].tobytes()
            stack = self._stacks.get(key)
            if stack is None:
                stack = self._stacks[key] = len(merged.first) - 1
                merged.stack.frombytes(key)
                merged.first.append(len(merged.stack))
            stacks[old_stack] = stack
        return stacks

    def _times(self, samples: Samples, kinds: list[int], rows: array[int]) -> None:
        timeline, other = self._timeline, samples.timeline
        if timeline is None or other is None:
            self._timeline = self.profile.samples.timeline = None
            return
        length = len(timeline)
        timeline.sample.extend(rows[sample] for sample in other.sample)
        timeline.time.extend(other.time)
        while len(timeline.values) < len(self._values):
            timeline.values.append(array("q", [0]) * length)
        given = dict(zip(kinds, other.values))
        for kind, column in enumerate(timeline.values):
            column.extend(given.get(kind) or array("q", [0]) * len(other))
        self.profile.samples.timeline = timeline

    def _add_metadata(self, profile: ProfileData) -> None:
        """Merge metadata: the first profile's default type, the earliest time, the sum of durations."""
        out = self.profile
        if not self.added:
            out.default_type, out.format = profile.default_type, profile.format
            out.period, out.period_type = profile.period, profile.period_type
            out.kernel_names = profile.kernel_names
        out.time_ns = min(out.time_ns or profile.time_ns, profile.time_ns or out.time_ns)
        out.duration_ns = saturated(out.duration_ns + profile.duration_ns)
        out.comments += [comment for comment in profile.comments if comment not in out.comments]
        out.system_names |= profile.system_names
        out.lost += profile.lost
        out.notes += [note for note in profile.notes if note not in out.notes]
        out.skipped += profile.skipped
        out.first_skipped = out.first_skipped or profile.first_skipped
