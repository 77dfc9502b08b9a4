"""Several profiles as one: equal sample types, mappings, locations and samples become one each.

Files lay at other addresses in each process: two mappings are one when they show the same bytes of the same file (by
build-id, without one by path), and addresses are counted from where the first of them lay. Memory that is in no file is
one process's own and stays apart. Values of equal samples (stack and labels) add up; a type that a profile lacks counts
0 for its samples. Times stay when every profile has them.
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
    """One profile of all; each is let go before the next one is asked for. One whose stacks wait to be unwound is kept,
    with those behind it, for they are to be merged once more then."""
    merger = Merger()
    kept: list[ProfileData] = []
    for profile in profiles:
        if kept or profile.unwinding is not None:
            kept = kept or ([deepcopy(merger.profile)] if merger.added else [])
            kept.append(profile)
        merger.add(profile)
    if kept:
        merger.profile.unwinding = Derived(kept, merge)
    return merger.profile


def saturated(value: int) -> int:
    """A value that fits in 64 bits with a sign."""
    return max(-LARGEST - 1, min(value, LARGEST))


class Merger:
    """The profile as it grows: `add` takes one more."""

    def __init__(self) -> None:
        self.profile = ProfileData(stored=0)
        self.added = 0
        self._types: dict[SampleType, int] = {}
        self._mappings: dict[tuple[object, ...], int] = {}
        self._locations: dict[tuple[int, int, Frames], int] = {}
        self._stacks: dict[bytes, int] = {}
        self._rows: dict[tuple[int, tuple[Label, ...]], int] = {}
        self._values: list[array[int]] = []
        self._timeline: Timeline | None = Timeline()

    def add(self, profile: ProfileData) -> None:
        """Add a profile's samples. Raises ProfileError where all together are larger than the stored bytes allow."""
        out = self.profile
        out.stored = min(out.stored + profile.stored, bounds.NO_BOUND)
        kinds = [self._type(one) for one in profile.sample_types]
        mappings = [self._mapping(one) for one in profile.mappings]
        locations = array("I", (self._location(profile, at, mappings) for at in range(len(profile.address))))
        samples, merged = profile.samples, out.samples
        budget = bounds.writing(out.stored, "merged profiles")
        budget.charge(bounds.SAMPLE * len(self._rows) + bounds.ENTRY * len(merged.stack))
        stacks: dict[int, int] = {}
        rows = array("I")
        for at, labels in zip(samples.of, samples.labels, strict=True):
            stack = stacks.get(at)
            if stack is None:
                stack = stacks[at] = self._stack(array("I", map(locations.__getitem__, samples.locations_of(at))))
            row = self._rows.get((stack, labels))
            if row is None:
                budget.charge(bounds.SAMPLE)
                row = self._rows[stack, labels] = len(merged.of)
                merged.of.append(stack)
                merged.labels.append(labels)
                for column in self._values:
                    column.append(0)
            rows.append(row)
        for kind, column in zip(kinds, samples.values):
            total = self._values[kind]
            for row, value in zip(rows, column):
                total[row] = saturated(total[row] + value)
        self._times(samples, kinds, rows)
        self._about(profile)
        merged.values = self._values
        self.added += 1

    def _type(self, kind: SampleType) -> int:
        found = self._types.get(kind)
        if found is None:
            found = self._types[kind] = len(self._types)
            self.profile.sample_types.append(kind)
            self._values.append(array("q", [0]) * len(self.profile.samples.of))
        return found

    def _mapping(self, mapping: Mapping) -> tuple[int, int]:
        """The mapping that this one becomes, and what is added to its addresses."""
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
            key = *mapping, self.added  # what is in no file is this process's own
        found = self._mappings.get(key)
        if found is None:
            found = self._mappings[key] = len(self.profile.mappings)
            self.profile.mappings.append(mapping)
        return found, self.profile.mappings[found].start - mapping.start

    def _location(self, profile: ProfileData, at: int, mappings: list[tuple[int, int]]) -> int:
        mapping, address, frames = profile.mapping[at], profile.address[at], profile.frames[at]
        if mapping != NO_MAPPING:
            own = profile.mappings[mapping]
            mapping, moved = mappings[mapping]
            if is_runtime(own, address):
                address += moved
        key = mapping, address, frames
        found = self._locations.get(key)
        if found is None:
            found = self._locations[key] = self.profile.location(mapping, address, frames)
        if at in profile.changed:
            self.profile.changed.add(found)
        if at in profile.reasons and not frames:
            self.profile.reasons.setdefault(found, profile.reasons[at])
        return found

    def _stack(self, locations: array[int]) -> int:
        key = locations.tobytes()
        found = self._stacks.get(key)
        if found is None:
            samples = self.profile.samples
            found = self._stacks[key] = len(samples.first) - 1
            samples.stack.extend(locations)
            samples.first.append(len(samples.stack))
        return found

    def _times(self, samples: Samples, kinds: list[int], rows: array[int]) -> None:
        timeline, other = self._timeline, samples.timeline
        if timeline is None or other is None:
            self._timeline = self.profile.samples.timeline = None
            return
        before = len(timeline)
        timeline.sample.extend(rows[at] for at in other.sample)
        timeline.time.extend(other.time)
        while len(timeline.values) < len(self._values):
            timeline.values.append(array("q", [0]) * before)
        given = dict(zip(kinds, other.values))
        for kind, column in enumerate(timeline.values):
            column.extend(given.get(kind) or array("q", [0]) * len(other))
        self.profile.samples.timeline = timeline

    def _about(self, profile: ProfileData) -> None:
        """What the profiles say about themselves: the first one's type, the earliest time, all their durations."""
        out = self.profile
        if not self.added:
            out.default_type, out.format = profile.default_type, profile.format
            out.period, out.period_type = profile.period, profile.period_type
            out.kernel_names = profile.kernel_names
        out.time_ns = min(out.time_ns or profile.time_ns, profile.time_ns or out.time_ns)
        out.duration_ns = saturated(out.duration_ns + profile.duration_ns)
        out.comments += [one for one in profile.comments if one not in out.comments]
        out.system_names |= profile.system_names
        out.lost += profile.lost
        out.notes += [one for one in profile.notes if one not in out.notes]
        out.skipped += profile.skipped
        out.first_skipped = out.first_skipped or profile.first_skipped
