"""speedscope's file format, read: sampled and evented profiles, which become threads where there are several.

Weights of time become nanoseconds, bytes stay bytes, everything else counts. An evented profile is a sample for each
time between two events. Frames have names and files and no addresses, but for those that are a file and an offset
(`libc.so.6+0x2a1ca`), which are named as folded stacks' are. Reference:
https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

from whence._base.budget import Budget
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence.profiles.formats import json_text
from whence.profiles.formats.folded import location_of
from whence.profiles.formats.speedscope import BETWEEN, EXPORTER, LESS, THREAD
from whence.samples import bounds
from whence.samples.model import NO_MAPPING, Label, ProfileData, SampleType, Timeline

LARGEST = (1 << 63) - 1
TIMES = {"nanoseconds": 1, "microseconds": 1_000, "milliseconds": 1_000_000, "seconds": 1_000_000_000}
TIME, BYTES, COUNT = SampleType("time", "nanoseconds"), SampleType("space", "bytes"), SampleType("samples", "count")
OPENED, CLOSED = "O", "C"

Event = tuple[float, tuple[int, ...], float]
"""When it began, the frames outermost first, its weight."""


def read(text: str, budget: Budget | None = None) -> ProfileData:
    """The profile in a document's text."""
    rule = "its frames and profiles are as the schema has them"
    return json_text.made_of(
        text, "speedscope", rule, lambda document, left: SpeedscopeReader(document, left).profile, budget
    )


class SpeedscopeReader:
    """The profile as it grows, one of the document's after another."""

    def __init__(self, document: dict[str, Any], budget: Budget) -> None:
        self.budget = budget
        self.profile = ProfileData(stored=bounds.stored(budget))
        self._mappings: dict[str, int] = {}
        frames = document["shared"]["frames"]
        budget.charge(bounds.LOCATION * len(frames))
        self.locations = [self._location(frame) for frame in frames]
        self._rows: dict[tuple[object, ...], int] = {}
        self._types: dict[SampleType, int] = {}
        self.timeline = Timeline()
        self._own = str(document.get("exporter") or "").startswith(EXPORTER)
        parts = document["profiles"]
        for part in parts:
            thread = self._about(part)[2]
            labels = labels_of(part.get(THREAD)) if self._own else ()
            if not labels and thread and len(parts) > 1:
                labels = (Label("thread.name", thread),)
            self._part(part, labels)
        self.profile.sample_types = list(self._types)
        samples = self.profile.samples
        for column in samples.values:
            column.extend([0] * (len(samples.of) - len(column)))
        for column in self.timeline.values:
            column.extend([0] * (len(self.timeline) - len(column)))
        samples.timeline = self.timeline
        active = document.get("activeProfileIndex")
        if isinstance(active, int) and 0 <= active < len(parts):
            self.profile.default_type = self._types[self._about(parts[active])[0]]

    def _about(self, part: dict[str, Any]) -> tuple[SampleType, int, str]:
        """What a profile counts, what its weights are multiplied by, and the thread it is of.

        Those that whence wrote say in their names what they count; others are called as their thread is.
        """
        (kind, scale), name = kind_of(part.get("unit")), str(part.get("name") or "")
        if not self._own:
            return kind, scale, name
        counted, _, thread = name.partition(BETWEEN)
        scale = -scale if counted.endswith(LESS) else scale
        return SampleType(counted.removesuffix(LESS), kind.unit), scale, thread

    def _location(self, frame: dict[str, Any]) -> int:
        name, file, line = str(frame["name"]), str(frame.get("file") or ""), frame.get("line")
        if not file:
            return location_of(self.profile, name, self._mappings)
        start = line if isinstance(line, int) and 0 < line < 1 << 32 else 0
        return self.profile.location(NO_MAPPING, 0, (Frame(name, file, start, start_line=start),))

    def _part(self, part: dict[str, Any], labels: tuple[Label, ...]) -> None:
        kind, scale, _ = self._about(part)
        place = self._types.get(kind)
        if place is None:
            place = self._types[kind] = len(self._types)
            self.profile.samples.values.append(array("q"))
            self.timeline.values.append(array("q"))
        events = evented(part) if part.get("type") == "evented" else sampled(part)
        total, column = self.profile.samples.values[place], self.timeline.values[place]
        for time, frames, weight in events:
            row = self._row(frames, labels)
            value = whole(weight, scale)
            self.budget.charge(3 * bounds.ENTRY)
            total.extend([0] * (row + 1 - len(total)))
            total[row] = max(-LARGEST, min(total[row] + value, LARGEST))
            column.extend([0] * (len(self.timeline) - len(column)))
            self.timeline.sample.append(row)
            self.timeline.time.append(whole(time, abs(scale)))
            column.append(value)

    def _row(self, frames: tuple[int, ...], labels: tuple[Label, ...]) -> int:
        self.budget.charge(bounds.ENTRY * len(frames) // 4)  # of the walk over them, also where they are known
        key = frames, labels
        row = self._rows.get(key)
        if row is None:
            self.budget.charge(bounds.SAMPLE + bounds.ENTRY * len(frames))
            samples = self.profile.samples
            row = self._rows[key] = len(samples.of)
            samples.of.append(row)
            samples.stack.extend([self.locations[at] for at in reversed(frames)])
            samples.first.append(len(samples.stack))
            samples.labels.append(labels)
        return row


def labels_of(thread: Any) -> tuple[Label, ...]:
    """The labels of a thread as whence writes it."""
    if not isinstance(thread, dict):
        return ()
    name, process, pid, tid = (thread.get(key) for key in ("name", "process", "pid", "tid"))
    texts = (Label(key, one) for key, one in (("comm", name), ("process", process)) if one and isinstance(one, str))
    numbers = (Label(key, number=one) for key, one in (("pid", pid), ("tid", tid)) if one and type(one) is int)
    return (*texts, *(one for one in numbers if abs(one.number) <= LARGEST))


def kind_of(unit: Any) -> tuple[SampleType, int]:
    """The sample type of a unit, and what its weights are multiplied by."""
    if unit in TIMES:
        return TIME, TIMES[unit]
    return (BYTES if unit == "bytes" else COUNT), 1


def whole(value: Any, scale: int) -> int:
    """A weight or a time as a whole number. ValueError for what is no number."""
    if not isinstance(value, int | float):
        raise ValueError("weights and times are numbers")
    return max(-LARGEST, min(round(value * scale), LARGEST))


def sampled(part: dict[str, Any]) -> Iterator[Event]:
    """The samples of a profile, one behind the other."""
    now = part.get("startValue") or 0
    for frames, weight in zip(part["samples"], part["weights"], strict=True):
        stack = tuple(frames)
        if any(not isinstance(one, int) or one < 0 for one in stack):
            raise ValueError("a sample's frames are indices of shared.frames")
        yield now, stack, weight
        now += max(0, weight)


def evented(part: dict[str, Any]) -> Iterator[Event]:
    """What was open between one event and the next."""
    opened: list[int] = []
    before = part.get("startValue") or 0
    for event in part["events"]:
        at = event["at"]
        if not at >= before:
            raise ProfileError("speedscope events", None, "they are in order of time", f"{at} behind {before}")
        if at > before and opened:
            yield before, tuple(opened), at - before
        before = at
        if event["type"] == OPENED:
            opened.append(event["frame"])
        elif event["type"] == CLOSED and (not opened or opened.pop() != event["frame"]):
            raise ProfileError("speedscope events", None, "the frame opened last is closed first", event["frame"])
    if opened:
        raise ProfileError("speedscope events", None, "every frame that is opened is closed", f"{len(opened)} open")
