"""speedscope's file format, written: a profile for each sample type.

A frame is a function of a file of a binary: speedscope adds up what has one index, so a function's lines share it. Its
line is where the function starts, where that is known.

Reference: https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

from whence._version import __version__
from whence.profiles import bounds
from whence.profiles.json_text import written
from whence.profiles.model import Profile
from whence.profiles.stacks import Shown, Stacks

UNITS = {"nanoseconds": "nanoseconds", "microseconds": "microseconds", "milliseconds": "milliseconds"}
UNITS |= {"seconds": "seconds", "bytes": "bytes"}


def write(profile: Profile, name: str = "") -> str:
    """The profile as speedscope's JSON; stacks outermost first, equal ones added up."""
    stacks = Stacks(profile, "speedscope's frames and stacks")
    functions: dict[tuple[str, str, str], int] = {}
    frames: list[Shown] = []
    numbers: dict[int, list[int]] = {}  # of locations
    rows: list[list[int]] = []
    weights: list[list[int]] = []

    def number(one: Shown) -> int:
        found = functions.setdefault((one.name, one.file, one.binary), len(frames))
        if found == len(frames):
            stacks.budget.charge(bounds.FRAME + len(one.name) + len(one.file))
            frames.append(one)
        return found

    kinds = len(profile.sample_types)
    for locations, values in stacks.merged().items():
        row = []
        for position in reversed(locations):
            if position not in numbers:
                numbers[position] = [number(one) for one in stacks.frames(position)]
            row += numbers[position]
        stacks.budget.charge(bounds.ENTRY * len(row) * (1 + kinds))
        rows.append(row)
        weights.append(values)
    profiles = []
    for index, kind in enumerate(profile.sample_types):
        chosen = [(row, values[index]) for row, values in zip(rows, weights, strict=True) if values[index] > 0]
        profiles.append(
            {
                "type": "sampled",
                "name": kind.type or "samples",
                "unit": UNITS.get(kind.unit, "none"),
                "startValue": 0,
                "endValue": sum(value for _, value in chosen),
                "samples": [row for row, _ in chosen],
                "weights": [value for _, value in chosen],
            }
        )
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"whence {__version__}",
        "name": name,
        "activeProfileIndex": profile.default_type,
        "shared": {"frames": [shown_as(frame) for frame in frames]},
        "profiles": profiles,
    }
    return written(document)


def shown_as(frame: Shown) -> dict[str, object]:
    out: dict[str, object] = {"name": frame.name}
    if frame.file:
        out["file"] = frame.file
    if frame.start_line:
        out["line"] = frame.start_line
    return out
