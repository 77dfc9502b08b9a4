"""Reader of speedscope's file format: sampled and evented profiles; several profiles become threads.

Weights of time become nanoseconds, bytes stay bytes, other weights are counts. An evented profile has a sample for each
period between two events. Frames have names and files; a name that is a file and an offset (`libc.so.6+0x2a1ca`)
becomes an address, as in folded stacks. Reference: https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whence._base.budget import Budget
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence.profiles.formats import json_text
from whence.profiles.formats.folded import location_of
from whence.profiles.formats.speedscope import EXPORTER, LESS_SUFFIX, SEPARATOR, THREAD
from whence.profiles.formats.timed_samples import INT64_MAX, TimedSamples, clamped
from whence.samples import bounds
from whence.samples.model import NO_MAPPING, Label, ProfileData, SampleType

TIMES = {"nanoseconds": 1, "microseconds": 1_000, "milliseconds": 1_000_000, "seconds": 1_000_000_000}
TIME, BYTES, COUNT = SampleType("time", "nanoseconds"), SampleType("space", "bytes"), SampleType("samples", "count")
OPENED, CLOSED = "O", "C"

Event = tuple[float, tuple[int, ...], float]
"""The start, the frames outermost first, and the weight."""


def read(text: str, budget: Budget | None = None) -> ProfileData:
    """Read the text of a document."""
    return json_text.parsed(text, "speedscope", lambda document, left: SpeedscopeReader(document, left).profile, budget)


class SpeedscopeReader:
    """Reads the profiles of a document into one."""

    def __init__(self, document: dict[str, Any], budget: Budget) -> None:
        self.budget = budget
        self.profile = ProfileData(stored=bounds.stored(budget))
        self._mappings: dict[str, int] = {}
        frames = document["shared"]["frames"]
        budget.charge(bounds.LOCATION * len(frames))
        self._locations = [self._location(frame) for frame in frames]
        self._rows: dict[tuple[object, ...], int] = {}
        self._out = TimedSamples(self.profile)
        self._is_own = str(document.get("exporter") or "").startswith(EXPORTER)
        parts = document["profiles"]
        for part in parts:
            thread = self._description(part)[2]
            labels = labels_of(part.get(THREAD)) if self._is_own else ()
            if not labels and thread and len(parts) > 1:
                labels = (Label("thread.name", thread),)
            self._read(part, labels)
        self._out.finish()
        active = document.get("activeProfileIndex")
        if isinstance(active, int) and 0 <= active < len(parts):
            self.profile.default_type = self._out.types[self._description(parts[active])[0]]

    def _description(self, part: dict[str, Any]) -> tuple[SampleType, int, str]:
        """Return the sample type of a profile, the factor of its weights, and its thread.

        The name of a profile is its thread, except if whence wrote it: then it starts with the sample type.
        """
        (kind, scale), name = kind_of(part.get("unit")), str(part.get("name") or "")
        if not self._is_own:
            return kind, scale, name
        type_name, _, thread = name.partition(SEPARATOR)
        scale = -scale if type_name.endswith(LESS_SUFFIX) else scale
        return SampleType(type_name.removesuffix(LESS_SUFFIX), kind.unit), scale, thread

    def _location(self, frame: dict[str, Any]) -> int:
        name, file, line = str(frame["name"]), str(frame.get("file") or ""), frame.get("line")
        if not file:
            return location_of(self.profile, name, self._mappings)
        start = line if isinstance(line, int) and 0 < line < 1 << 32 else 0
        return self.profile.location(NO_MAPPING, 0, (Frame(name, file, start, start_line=start),))

    def _read(self, part: dict[str, Any], labels: tuple[Label, ...]) -> None:
        sample_type, scale, _ = self._description(part)
        kind = self._out.type(sample_type)
        for time, frames, weight in evented(part) if part.get("type") == "evented" else sampled(part):
            sample = self._sample(frames, labels)
            value = integer(weight, scale)
            self.budget.charge(3 * bounds.ENTRY)
            self._out.add_event(sample, integer(time, abs(scale)), ((kind, value),))

    def _sample(self, frames: tuple[int, ...], labels: tuple[Label, ...]) -> int:
        self.budget.charge(bounds.ENTRY * len(frames) // 4)  # for hashing them
        key = frames, labels
        sample = self._rows.get(key)
        if sample is None:
            self.budget.charge(bounds.SAMPLE + bounds.ENTRY * len(frames))
            stack = [self._locations[frame] for frame in reversed(frames)]
            sample = self._rows[key] = self._out.add_sample(stack, labels)
        return sample


def labels_of(thread: Any) -> tuple[Label, ...]:
    """Return the labels of a thread, from whence's own member."""
    if not isinstance(thread, dict):
        return ()
    name, process, pid, tid = (thread.get(key) for key in ("name", "process", "pid", "tid"))
    texts = (Label(key, text) for key, text in (("comm", name), ("process", process)) if text and isinstance(text, str))
    numbers = (Label(key, number=id) for key, id in (("pid", pid), ("tid", tid)) if id and type(id) is int)
    return (*texts, *(label for label in numbers if abs(label.number) <= INT64_MAX))


def kind_of(unit: Any) -> tuple[SampleType, int]:
    """Return the sample type of a unit, and the factor of its weights."""
    if unit in TIMES:
        return TIME, TIMES[unit]
    return (BYTES if unit == "bytes" else COUNT), 1


def integer(value: Any, scale: int) -> int:
    """Return a weight or a time as an integer. Raises ValueError if it is not a number."""
    if not isinstance(value, int | float):
        raise ValueError(f"the weight or time {value!r} is not a number")
    return clamped(round(value * scale))


def sampled(part: dict[str, Any]) -> Iterator[Event]:
    """Yield the samples of a profile, one after the other."""
    now = part.get("startValue") or 0
    for frames, weight in zip(part["samples"], part["weights"], strict=True):
        stack = tuple(frames)
        if any(not isinstance(frame, int) or frame < 0 for frame in stack):
            raise ValueError("the frame of a sample is not an index of shared.frames")
        yield now, stack, weight
        now += max(0, weight)


def evented(part: dict[str, Any]) -> Iterator[Event]:
    """Yield the stacks between two events."""
    stack: list[int] = []
    before = part.get("startValue") or 0
    for event in part["events"]:
        time = event["at"]
        if not time >= before:
            raise ProfileError("speedscope", None, f"events are not in order of time: {time} follows {before}")
        if time > before and stack:
            yield before, tuple(stack), time - before
        before = time
        if event["type"] == OPENED:
            stack.append(event["frame"])
        elif event["type"] == CLOSED and (not stack or stack.pop() != event["frame"]):
            raise ProfileError(
                "speedscope", None, f"frame {event['frame']} is closed but is not the innermost open frame"
            )
    if stack:
        raise ProfileError("speedscope", None, f"{len(stack)} frames are still open after the last event")
