"""Stacks as people read them: outermost first, inlined calls as frames of their own, unnamed frames visible.

A location without a name shows its file and where in it: `libc.so.6+0x2a1ca`, the file offset (or vaddr) of the
instruction; without a file its address, and where there is none either, [unknown].
"""

from __future__ import annotations

import os
from typing import NamedTuple

from whence._base.files import DELETED_MARK
from whence.samples import bounds
from whence.samples.addresses import is_runtime
from whence.samples.model import ProfileData

NOT_SYMBOLIZED = "not symbolized"  # the reason of a location that was never looked up
CUT = " … "  # in place of the middle of a long text
NAME_MAX = 255  # a file's name has no more; it is said again for each place without a name


class DisplayFrame(NamedTuple):
    """One frame of a stack. `reason` is why it has no name, "" for one that has; start_line is its function's."""

    name: str
    file: str = ""
    line: int = 0
    binary: str = ""
    reason: str = ""
    start_line: int = 0


def binary_of(profile: ProfileData, location: int) -> str:
    """The file's name without its folders, as people call it."""
    mapping = profile.mapping_of(location)
    if mapping is None:
        return ""
    path = mapping.path.removesuffix(DELETED_MARK)
    if path.startswith("["):  # the symbol perf writes behind [kernel.kallsyms] is no part of its name
        return (path[: path.find("]") + 1] or path)[-NAME_MAX:]
    return os.path.basename(path[-NAME_MAX - 1 :])[-NAME_MAX:]


def unnamed(profile: ProfileData, location: int) -> str:
    """What stands in for the name of a location that has none."""
    mapping = profile.mapping_of(location)
    address = profile.address[location]
    binary = binary_of(profile, location)
    if mapping is None or not binary:
        return f"{address:#x}" if address else "[unknown]"
    if is_runtime(mapping, address):
        address += mapping.file_offset - mapping.start
    return f"{binary}+{address:#x}"


def shown(profile: ProfileData, location: int) -> tuple[DisplayFrame, ...]:
    """The frames of a location, outermost first."""
    frames = profile.frames[location]
    binary = binary_of(profile, location)
    if not frames:
        reason = profile.reasons.get(location, NOT_SYMBOLIZED)
        return (DisplayFrame(unnamed(profile, location), binary=binary, reason=reason),)
    return tuple(
        DisplayFrame(frame.function, frame.file, frame.line, binary, start_line=frame.start_line)
        for frame in reversed(frames)
    )


class ProfileStacks:
    """Every sample's stack, outermost first. Locations are turned into frames once.

    What is made of a profile is charged to `budget`: a bound in the bytes the profile was read from.
    """

    def __init__(self, profile: ProfileData, what: str = "stacks") -> None:
        self.profile = profile
        self.budget = bounds.writing(profile.stored, what)
        self._shown: dict[int, tuple[DisplayFrame, ...]] = {}

    def frames(self, location: int) -> tuple[DisplayFrame, ...]:
        """The frames of a location, outermost first."""
        found = self._shown.get(location)
        if found is None:
            self.budget.charge(bounds.FRAME * (len(self.profile.frames[location]) or 2))
            found = self._shown[location] = shown(self.profile, location)
        return found

    def __len__(self) -> int:
        return len(self.profile.samples)

    def __getitem__(self, sample: int) -> list[DisplayFrame]:
        samples = self.profile.samples
        out = [DisplayFrame(label.text) for label in samples.labels[sample] if label.key == "comm"]
        for location in reversed(samples.locations(sample)):
            out += self.frames(location)
        return out

    def merged(self) -> dict[tuple[int, ...], list[int]]:
        """Equal stacks added up: the locations (leaf first) of each, and its values for each sample type."""
        samples = self.profile.samples
        out: dict[tuple[int, ...], list[int]] = {}
        rows: dict[int, list[int]] = {}
        kinds = range(len(samples.values))
        for index, values in zip(samples.of, zip(*samples.values, strict=True)):
            row = rows.get(index)
            if row is None:
                size = samples.first[index + 1] - samples.first[index]
                self.budget.charge(bounds.FRAME + bounds.JSON_VALUE * size + bounds.ENTRY * len(kinds))
                row = rows[index] = out.setdefault(tuple(samples.locations_of(index)), [0] * len(kinds))
            for kind in kinds:
                row[kind] += values[kind]
        return out


def shortened(text: str, most: int) -> str:
    """A text of at most `most` characters, without its middle if need be.

    >>> shortened("abcdefghij", 7)
    'ab … ij'
    """
    if len(text) <= most:
        return text
    keep = max(0, most - len(CUT))
    return text[: keep - keep // 2] + CUT[: most - keep] + (text[-(keep // 2) :] if keep > 1 else "")
