"""Writer of speedscope's file format: a profile for each sample type, and for each thread if times are known.

A frame is a function of a file of a binary: speedscope adds up equal indices, so all lines of a function share one. Its
line is where the function starts, if known.

Reference: https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

from collections.abc import Sequence

from whence._version import __version__
from whence.profiles.formats.json_text import encoded
from whence.samples import bounds
from whence.samples.model import ProfileData, SampleType
from whence.samples.stacks import DisplayFrame, ProfileStacks
from whence.samples.threads import shown, threads_of

EXPORTER = "whence"
SEPARATOR = " · "  # between the sample type and the thread in a profile's name
THREAD = "thread"  # whence's own member, ignored by other readers: the process, thread and names of a profile
LESS_SUFFIX = ", less than the base"  # of a profile's name: its weights are negative
UNITS = {"nanoseconds": "nanoseconds", "microseconds": "microseconds", "milliseconds": "milliseconds"}
UNITS |= {"seconds": "seconds", "bytes": "bytes"}


def write(profile: ProfileData, name: str = "") -> str:
    """Return the profile as speedscope's JSON.

    If times are known, there is a profile for each thread and type, in order of time, with neighbors of equal stacks
    added up; otherwise a profile for each type with equal stacks added up.
    """
    tables = FunctionTable(profile)
    profiles = in_time(tables) if profile.samples.timeline is not None else added_up(tables)
    active = next((index for index, (kind, _) in enumerate(profiles) if kind == profile.default_type), 0)
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"{EXPORTER} {__version__}",
        "name": name,
        "activeProfileIndex": active,
        "shared": {"frames": [frame_entry(frame) for frame in tables.frames]},
        "profiles": [part for _, part in profiles],
    }
    return encoded(document)


class FunctionTable:
    """The frames shared by all profiles: one for each function of a file of a binary."""

    def __init__(self, profile: ProfileData) -> None:
        self.profile = profile
        self.stacks = ProfileStacks(profile, "speedscope's frames and stacks")
        self.budget = self.stacks.budget
        self.frames: list[DisplayFrame] = []
        self._functions: dict[tuple[str, str, str], int] = {}
        self._locations: dict[int, list[int]] = {}

    def _index(self, frame: DisplayFrame) -> int:
        index = self._functions.setdefault((frame.name, frame.file, frame.binary), len(self.frames))
        if index == len(self.frames):
            self.budget.charge(bounds.FRAME + len(frame.name) + len(frame.file))
            self.frames.append(frame)
        return index

    def row(self, locations: Sequence[int], copies: int) -> list[int]:
        """Return the frames, outermost first, of a stack that is written `copies` times (locations innermost first)."""
        row = []
        for location in reversed(locations):
            if location not in self._locations:
                self._locations[location] = [self._index(frame) for frame in self.stacks.frames(location)]
            row += self._locations[location]
        self.budget.charge(bounds.ENTRY * len(row) * copies)
        return row


def added_up(tables: FunctionTable) -> list[tuple[int, dict[str, object]]]:
    """Return (index, profile) for each sample type."""
    kinds = tables.profile.sample_types
    rows = [(tables.row(stack, 1 + len(kinds)), values) for stack, values in tables.stacks.merged().items()]
    out = []
    for index, kind in enumerate(kinds):
        chosen = [(row, values[index]) for row, values in rows if values[index] > 0]
        out.append((index, sampled(kind, kind.type or "samples", chosen)))
        less = [(row, -values[index]) for row, values in rows if values[index] < 0]
        if less:  # of a difference; the format has no negative weights
            out.append((index, sampled(kind, f"{kind.type or 'samples'}{LESS_SUFFIX}", less)))
    return out


def in_time(tables: FunctionTable) -> list[tuple[int, dict[str, object]]]:
    """Return (index of a sample type, profile) for each thread and each of its sample types, in order of time."""
    profile = tables.profile
    samples, timeline = profile.samples, profile.samples.timeline
    assert timeline is not None
    threads, of = threads_of(samples)
    rows: dict[int, list[int]] = {}
    order = timeline.in_order()
    out = []
    for kind, (type, column) in enumerate(zip(profile.sample_types, timeline.values)):
        chosen: list[list[tuple[list[int], int]]] = [[] for _ in threads]
        for event in order:
            value, sample = column[event], timeline.sample[event]
            if value <= 0:
                continue
            stack = samples.of[sample]
            if stack not in rows:
                rows[stack] = tables.row(samples.locations_of(stack), 1)
            part, row = chosen[of[sample]], rows[stack]
            if part and part[-1][0] == row:
                part[-1] = row, part[-1][1] + value
            else:
                tables.budget.charge(bounds.JSON_VALUE + bounds.ENTRY * len(row))
                part.append((row, value))
        for thread, part in zip(threads, chosen, strict=True):
            if part:
                name = SEPARATOR.join(part for part in (type.type or "samples", shown(thread)) if part)
                of_thread = {key: value for key, value in thread._asdict().items() if value}
                out.append((kind, sampled(type, name, part) | ({THREAD: of_thread} if of_thread else {})))
    return out


def sampled(kind: SampleType, name: str, chosen: list[tuple[list[int], int]]) -> dict[str, object]:
    """Return a profile of stacks with their weights."""
    return {
        "type": "sampled",
        "name": name,
        "unit": UNITS.get(kind.unit, "none"),
        "startValue": 0,
        "endValue": sum(value for _, value in chosen),
        "samples": [row for row, _ in chosen],
        "weights": [value for _, value in chosen],
    }


def frame_entry(frame: DisplayFrame) -> dict[str, object]:
    out: dict[str, object] = {"name": frame.name}
    if frame.file:
        out["file"] = frame.file
    if frame.start_line:
        out["line"] = frame.start_line
    return out
