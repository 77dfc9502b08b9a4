"""speedscope's file format, written: a profile for each sample type, and for each thread where times are known.

A frame is a function of a file of a binary: speedscope adds up what has one index, so a function's lines share it. Its
line is where the function starts, where that is known.

Reference: https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

from collections.abc import Sequence

from whence._version import __version__
from whence.profiles.formats.json_text import written
from whence.samples import bounds
from whence.samples.model import ProfileData, SampleType
from whence.samples.stacks import DisplayFrame, ProfileStacks
from whence.samples.threads import shown, threads_of

EXPORTER = "whence"
BETWEEN = " · "  # what a profile counts and its thread, in its name
THREAD = "thread"  # a member of ours that other readers pass over: the process, thread and names of a profile
LESS = ", less than the base"  # behind what it counts: its weights are taken away
UNITS = {"nanoseconds": "nanoseconds", "microseconds": "microseconds", "milliseconds": "milliseconds"}
UNITS |= {"seconds": "seconds", "bytes": "bytes"}


def write(profile: ProfileData, name: str = "") -> str:
    """The profile as speedscope's JSON, stacks outermost first.

    Where it is known when samples were taken, a profile for each thread and type, in order of time, neighbours with
    equal stacks added up. Else a profile for each type, equal stacks added up.
    """
    tables = FunctionTable(profile)
    profiles = in_time(tables) if profile.samples.timeline is not None else added_up(tables)
    active = next((index for index, (kind, _) in enumerate(profiles) if kind == profile.default_type), 0)
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"{EXPORTER} {__version__}",
        "name": name,
        "activeProfileIndex": active,
        "shared": {"frames": [shown_as(frame) for frame in tables.frames]},
        "profiles": [one for _, one in profiles],
    }
    return written(document)


class FunctionTable:
    """The frames that all profiles share: one for each function of a file of a binary."""

    def __init__(self, profile: ProfileData) -> None:
        self.profile = profile
        self.stacks = ProfileStacks(profile, "speedscope's frames and stacks")
        self.budget = self.stacks.budget
        self.frames: list[DisplayFrame] = []
        self._functions: dict[tuple[str, str, str], int] = {}
        self._locations: dict[int, list[int]] = {}

    def _number(self, one: DisplayFrame) -> int:
        found = self._functions.setdefault((one.name, one.file, one.binary), len(self.frames))
        if found == len(self.frames):
            self.budget.charge(bounds.FRAME + len(one.name) + len(one.file))
            self.frames.append(one)
        return found

    def row(self, locations: Sequence[int], times: int) -> list[int]:
        """The frames of a stack of locations (leaf first), outermost first; it is to be written so many times."""
        row = []
        for at in reversed(locations):
            found = self._locations.get(at)
            if found is None:
                found = self._locations[at] = [self._number(one) for one in self.stacks.frames(at)]
            row += found
        self.budget.charge(bounds.ENTRY * len(row) * times)
        return row


def added_up(tables: FunctionTable) -> list[tuple[int, dict[str, object]]]:
    """A profile for each sample type."""
    kinds = tables.profile.sample_types
    rows = [(tables.row(at, 1 + len(kinds)), values) for at, values in tables.stacks.merged().items()]
    out = []
    for index, kind in enumerate(kinds):
        chosen = [(row, values[index]) for row, values in rows if values[index] > 0]
        out.append((index, sampled(kind, kind.type or "samples", chosen)))
        less = [(row, -values[index]) for row, values in rows if values[index] < 0]
        if less:  # of a difference; the format has no negative weights
            out.append((index, sampled(kind, f"{kind.type or 'samples'}{LESS}", less)))
    return out


def in_time(tables: FunctionTable) -> list[tuple[int, dict[str, object]]]:
    """A profile for each thread and each sample type that it has values of, in order of time."""
    profile = tables.profile
    samples, timeline = profile.samples, profile.samples.timeline
    assert timeline is not None
    threads, of = threads_of(samples)
    rows: dict[int, list[int]] = {}
    order = timeline.in_order()
    out = []
    for kind, (type, column) in enumerate(zip(profile.sample_types, timeline.values)):
        chosen: list[list[tuple[list[int], int]]] = [[] for _ in threads]
        for at in order:
            value, sample = column[at], timeline.sample[at]
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
                name = BETWEEN.join(one for one in (type.type or "samples", shown(thread)) if one)
                of_thread = {key: value for key, value in thread._asdict().items() if value}
                out.append((kind, sampled(type, name, part) | ({THREAD: of_thread} if of_thread else {})))
    return out


def sampled(kind: SampleType, name: str, chosen: list[tuple[list[int], int]]) -> dict[str, object]:
    """A profile of stacks with their weights."""
    return {
        "type": "sampled",
        "name": name,
        "unit": UNITS.get(kind.unit, "none"),
        "startValue": 0,
        "endValue": sum(value for _, value in chosen),
        "samples": [row for row, _ in chosen],
        "weights": [value for _, value in chosen],
    }


def shown_as(frame: DisplayFrame) -> dict[str, object]:
    out: dict[str, object] = {"name": frame.name}
    if frame.file:
        out["file"] = frame.file
    if frame.start_line:
        out["line"] = frame.start_line
    return out
