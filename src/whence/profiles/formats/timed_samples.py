"""Samples and a timeline, built from events that have times."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from whence.samples.model import Label, ProfileData, SampleType, Timeline

INT64_MAX = (1 << 63) - 1


def clamped(value: int) -> int:
    """Return a value within the range of a 64-bit column."""
    return max(-INT64_MAX, min(value, INT64_MAX))


class TimedSamples:
    """Fills the sample types, samples and timeline of a profile."""

    def __init__(self, profile: ProfileData) -> None:
        self._profile = profile
        self.types: dict[SampleType, int] = {}
        self.timeline = Timeline()

    def type(self, kind: SampleType) -> int:
        """Return the index of a sample type."""
        index = self.types.setdefault(kind, len(self.types))
        if index == len(self.timeline.values):
            self._profile.samples.values.append(array("q"))
            self.timeline.values.append(array("q"))
        return index

    def add_sample(self, stack: Sequence[int], labels: tuple[Label, ...] = ()) -> int:
        """Append a sample whose locations are innermost first, and return its index."""
        samples = self._profile.samples
        samples.of.append(len(samples.first) - 1)
        samples.stack.extend(stack)
        samples.first.append(len(samples.stack))
        samples.labels.append(labels)
        return len(samples.of) - 1

    def add_event(self, sample: int, time_ns: int, values: Iterable[tuple[int, int]]) -> None:
        """Append an event of a sample, with its (index of a type, value) pairs."""
        timeline = self.timeline
        earlier = len(timeline.sample)
        timeline.sample.append(sample)
        timeline.time.append(time_ns)
        for kind, value in values:
            totals, column = self._profile.samples.values[kind], timeline.values[kind]
            padded(totals, sample + 1)
            totals[sample] = clamped(totals[sample] + value)
            padded(column, earlier)
            column.append(value)

    def finish(self) -> None:
        """Store the sample types and the timeline in the profile."""
        profile = self._profile
        profile.sample_types = list(self.types)
        for totals in profile.samples.values:
            padded(totals, len(profile.samples.of))
        for column in self.timeline.values:
            padded(column, len(self.timeline))
        profile.samples.timeline = self.timeline


def padded(column: array[int], length: int) -> None:
    """Append zeros up to a length."""
    if len(column) < length:
        column.extend([0] * (length - len(column)))
