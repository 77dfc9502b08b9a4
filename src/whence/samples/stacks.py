"""Stacks for display: outermost frame first, inlined calls as frames, unnamed frames included.

A location without a name is shown as its file and the file offset (or vaddr) of the instruction, `libc.so.6+0x2a1ca`;
without a file as its address; and without an address as [unknown]. Tables and graphs group such locations: those of a
function whose start is known are `libc.so.6+0x2a100 (no name)`, and those outside of all files are [unknown].
"""

from __future__ import annotations

import os
from typing import NamedTuple

from whence._base.files import DELETED_MARK
from whence.samples import bounds
from whence.samples.addresses import is_runtime
from whence.samples.kinds import AddressKind, kind_of
from whence.samples.model import Mapping, ProfileData

UNKNOWN = "[unknown]"  # as perf and FlameGraph write it
NOT_SYMBOLIZED = "not symbolized"  # the reason of a location that was never looked up
CUT = " … "  # replaces the middle of a long text
PATH_MAX = 4096
NAME_MAX = 255  # of a file; the name is repeated for each location without a function


class DisplayFrame(NamedTuple):
    """One frame of a stack; `reason` says why it has no function name, "" if it has one."""

    name: str
    file: str = ""
    line: int = 0
    binary: str = ""
    reason: str = ""
    start_line: int = 0


def binary_of(profile: ProfileData, location: int) -> str:
    """Return the file name of a location's binary, without folders; "" if it is unknown."""
    mapping = profile.mapping_of(location)
    if mapping is None:
        return ""
    path = mapping.path.removesuffix(DELETED_MARK)
    if path.startswith("["):  # without the symbol that perf writes after [kernel.kallsyms]
        return (path[: path.find("]") + 1] or path)[-NAME_MAX:]
    return os.path.basename(path[-NAME_MAX - 1 :])[-NAME_MAX:]


def is_outside_files(mapping: Mapping | None, address: int) -> bool:
    """Return True for an address in memory without a file, or in no memory."""
    if mapping is not None and len(mapping.path) > PATH_MAX:
        return False
    return kind_of(mapping, address) in (AddressKind.GENERATED, AddressKind.NOWHERE)


def unnamed(profile: ProfileData, location: int, *, grouped: bool = False) -> str:
    """Return the text to show for a location without a name, or with `grouped` for its function."""
    mapping = profile.mapping_of(location)
    address = profile.address[location]
    if grouped and profile.mappings and is_outside_files(mapping, address):
        return UNKNOWN
    binary = binary_of(profile, location)
    if mapping is None or not binary:
        return f"{address:#x}" if address else UNKNOWN
    start = profile.starts.get(location) if grouped else None
    if is_runtime(mapping, address):
        address += mapping.file_offset - mapping.start
    if start is None:
        return f"{binary}+{address:#x}"
    return f"{binary}+{address - profile.address[location] + start:#x} (no name)"


def shown(profile: ProfileData, location: int, *, grouped: bool = False) -> tuple[DisplayFrame, ...]:
    """Return the frames of a location, outermost first."""
    frames = profile.frames[location]
    binary = binary_of(profile, location)
    if not frames:
        reason = profile.reasons.get(location, NOT_SYMBOLIZED)
        return (DisplayFrame(unnamed(profile, location, grouped=grouped), binary=binary, reason=reason),)
    return tuple(
        DisplayFrame(frame.function, frame.file, frame.line, binary, start_line=frame.start_line)
        for frame in reversed(frames)
    )


class ProfileStacks:
    """The stack of every sample, outermost frame first; the frames of each location are made once.

    With `grouped`, unnamed locations of a function are one frame. Memory is charged to `budget`, in proportion to the
    bytes that the profile was read from.
    """

    def __init__(self, profile: ProfileData, what: str = "stacks", *, grouped: bool = False) -> None:
        self.profile, self.grouped = profile, grouped
        self.budget = bounds.writing(profile.stored, what)
        self._shown: dict[int, tuple[DisplayFrame, ...]] = {}

    def frames(self, location: int) -> tuple[DisplayFrame, ...]:
        """Return the frames of a location, outermost first."""
        frames = self._shown.get(location)
        if frames is None:
            self.budget.charge(bounds.FRAME * (len(self.profile.frames[location]) or 2))
            frames = self._shown[location] = shown(self.profile, location, grouped=self.grouped)
        return frames

    def __len__(self) -> int:
        return len(self.profile.samples)

    def __getitem__(self, sample: int) -> list[DisplayFrame]:
        samples = self.profile.samples
        frames = [DisplayFrame(label.text) for label in samples.labels[sample] if label.key == "comm"]
        for location in reversed(samples.locations(sample)):
            frames += self.frames(location)
        return frames

    def merged(self) -> dict[tuple[int, ...], list[int]]:
        """Return the distinct stacks as locations, leaf first, each with the sum of its values by sample type."""
        samples = self.profile.samples
        stacks: dict[tuple[int, ...], list[int]] = {}
        rows: dict[int, list[int]] = {}
        kinds = range(len(samples.values))
        for index, values in zip(samples.of, zip(*samples.values, strict=True)):
            row = rows.get(index)
            if row is None:
                size = samples.first[index + 1] - samples.first[index]
                self.budget.charge(bounds.FRAME + bounds.JSON_VALUE * size + bounds.ENTRY * len(kinds))
                row = rows[index] = stacks.setdefault(tuple(samples.locations_of(index)), [0] * len(kinds))
            for kind in kinds:
                row[kind] += values[kind]
        return stacks


def shortened(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, without its middle if it is longer.

    >>> shortened("abcdefghij", 7)
    'ab … ij'
    """
    if len(text) <= limit:
        return text
    keep = max(0, limit - len(CUT))
    return text[: keep - keep // 2] + CUT[: limit - keep] + (text[-(keep // 2) :] if keep > 1 else "")
