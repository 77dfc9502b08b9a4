"""The difference of two profiles by function: the values of the new profile minus the values of the base.

Two builds have different addresses, lines and inlined calls, so stacks are compared as functions. A function is its
name and its file. If the folders differ, it is its name and the file's base name, if those are unique on each side; if
one side has no file, its name alone. Code without a name is represented by its binary. Of the labels only the command
is kept.

Values of a difference may be negative; `samples.base` has the values of the base.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterable

from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence._base.records import replaced
from whence.samples import bounds
from whence.samples.merging import saturated
from whence.samples.model import NO_MAPPING, Label, Mapping, ProfileData, Samples
from whence.samples.stacks import binary_of

COMMAND = "comm"
VERSION = re.compile(r"(?:-[\d.]+)?\.so(?:\.[\d.]+)?$")  # of a shared library, in its name

Function = tuple[str, str]
"""A name, and a file or (if the file is unknown) the binary in brackets."""


def diff(new: ProfileData, base: ProfileData, *, normalize: bool = False) -> ProfileData:
    """Return `new` minus `base`, by function.

    Args:
        new: the later profile.
        base: the earlier profile.
        normalize: scale the base so that both profiles have the same sum of each sample type.

    Raises:
        ProfileError: the profiles have no sample type in common.
    """
    pairs = [
        (index, base.sample_types.index(kind))
        for index, kind in enumerate(new.sample_types)
        if kind in base.sample_types
    ]
    if not pairs:
        raise ProfileError("", None, "the profiles have no sample type in common")
    sides = ComparedProfile(new), ComparedProfile(base)
    matches = matched(sides[0].functions, sides[1].functions)
    out = ProfileData(
        [new.sample_types[index] for index, _ in pairs],
        default_type=next((row for row, (index, _) in enumerate(pairs) if index == new.default_type), 0),
        time_ns=new.time_ns,
        duration_ns=new.duration_ns,
        period=new.period,
        period_type=new.period_type,
        comments=list(new.comments),
        stored=min(new.stored + base.stored, bounds.NO_BOUND),
        format=new.format,
    )
    tables = FunctionLocations(out)
    for side, column in zip(sides, (0, 1), strict=True):
        kinds = [pair[column] for pair in pairs]
        tables.add(side, kinds, column, matches if column else {})
    out.samples = tables.samples(len(pairs), normalize)
    out.put_files_first()
    return out


class ComparedProfile:
    """One of the two profiles, with the functions of each location, innermost first."""

    def __init__(self, profile: ProfileData) -> None:
        self.profile = profile
        locations = range(len(profile.address))
        self.binaries = [stem(binary_of(profile, location)) for location in locations]
        self.chains: list[list[tuple[Function, Frame]]] = [self._chain(location) for location in locations]
        self.functions = {function for chain in self.chains for function, _ in chain}

    def _chain(self, location: int) -> list[tuple[Function, Frame]]:
        frames = self.profile.frames[location]
        binary = f"[{self.binaries[location]}]" if self.binaries[location] else ""
        if not frames:
            name = binary or "[unknown]"
            return [((name, ""), Frame(name))]
        return [
            ((frame.function, frame.file or binary), Frame(frame.function, frame.file, start_line=frame.start_line))
            for frame in frames
        ]


def stem(binary: str) -> str:
    """Return a binary's name without its version.

    >>> stem("libz.so.1.2.13"), stem("app"), stem("libc-2.31.so")
    ('libz', 'app', 'libc')
    """
    return VERSION.sub("", binary)


def matched(new: set[Function], base: set[Function]) -> dict[Function, Function]:
    """Map functions of `base` to functions of `new` that are the same with another file."""
    matches: dict[Function, Function] = {}
    for key_of in (_by_base_name, _by_name):
        ours, theirs = _unique(new - base - {*matches.values()}, key_of), _unique(base - new - {*matches}, key_of)
        for key in theirs.keys() & ours.keys():
            if key_of is _by_base_name or _has_no_file(theirs[key]) or _has_no_file(ours[key]):
                matches[theirs[key]] = ours[key]
    return matches


def _by_base_name(function: Function) -> object:
    return function[0], os.path.basename(function[1])


def _by_name(function: Function) -> object:
    return function[0]


def _has_no_file(function: Function) -> bool:
    return not function[1] or function[1].startswith("[")


def _unique(functions: Iterable[Function], key_of: Callable[[Function], object]) -> dict[object, Function]:
    """Return functions by key, without functions that share a key."""
    by_key: dict[object, Function] = {}
    duplicates = set()
    for function in functions:
        key = key_of(function)
        if by_key.setdefault(key, function) != function:
            duplicates.add(key)
    return {key: function for key, function in by_key.items() if key not in duplicates}


class FunctionLocations:
    """Builds the difference: a location for each function, a sample for each stack of functions and command."""

    def __init__(self, profile: ProfileData) -> None:
        self.profile = profile
        self.budget = bounds.writing(profile.stored, "the difference of two profiles")
        self._functions: dict[Function, int] = {}
        self._mappings: dict[str, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self._rows: dict[tuple[int, tuple[Label, ...]], list[list[int]]] = {}

    def add(self, side: ComparedProfile, kinds: list[int], column: int, matches: dict[Function, Function]) -> None:
        """Add the values of a profile: to column 0 for the new profile, to column 1 for the base."""
        samples = side.profile.samples
        chains = [
            [self._location(side.profile, row, matches.get(function, function), frame) for function, frame in chain]
            for row, chain in enumerate(side.chains)
        ]
        stacks: dict[int, int] = {}
        for index, (old_stack, labels) in enumerate(zip(samples.of, samples.labels, strict=True)):
            stack = stacks.get(old_stack)
            if stack is None:
                old_locations = samples.locations_of(old_stack)
                locations = tuple([location for old in old_locations for location in chains[old]])
                stack = self._stacks.get(locations)
                if stack is None:
                    self.budget.charge(bounds.SAMPLE + bounds.ENTRY * len(locations))
                    stack = self._stacks[locations] = len(self._stacks)
                stacks[old_stack] = stack
            key = stack, tuple(label for label in labels if label.key == COMMAND)
            row = self._rows.get(key)
            if row is None:
                self.budget.charge(bounds.SAMPLE + bounds.ENTRY * len(kinds))
                row = self._rows[key] = [[0] * len(kinds), [0] * len(kinds)]
            for number, kind in enumerate(kinds):
                if kind < len(samples.values):
                    row[column][number] += samples.values[kind][index]

    def _location(self, profile: ProfileData, row: int, function: Function, frame: Frame) -> int:
        location = self._functions.get(function)
        if location is None:
            self.budget.charge(bounds.LOCATION)
            mapping = profile.mapping_of(row)
            index = NO_MAPPING
            if mapping is not None and mapping.path:
                index = self._mappings.setdefault(mapping.path, len(self.profile.mappings))
                if index == len(self.profile.mappings):
                    self.profile.mappings.append(Mapping(path=mapping.path))
            location = self._functions[function] = self.profile.location(index, 0, (frame,))
        return location

    def samples(self, kinds: int, normalize: bool) -> Samples:
        """Return the samples of the difference, with the values of the base."""
        out = Samples(values=[array("q") for _ in range(kinds)], base=[array("q") for _ in range(kinds)])
        for locations in self._stacks:
            out.stack.extend(locations)
            out.first.append(len(out.stack))
        rows = list(self._rows.values())
        scale = [_scale(rows, kind) if normalize else None for kind in range(kinds)]
        for (stack, labels), (new, base) in self._rows.items():
            out.of.append(stack)
            out.labels.append(labels)
            for kind in range(kinds):
                factor = scale[kind]
                old = base[kind] if factor is None else round(base[kind] * factor[0] / factor[1])
                out.base[kind].append(saturated(old))
                out.values[kind].append(saturated(new[kind] - old))
        return out


def _scale(rows: list[list[list[int]]], kind: int) -> tuple[int, int] | None:
    """Return the factor (numerator, denominator) that makes both sums equal; None if a sum is not positive."""
    new, base = (sum(row[column][kind] for row in rows) for column in (0, 1))
    return (new, base) if new > 0 and base > 0 else None


def both(profile: ProfileData, limit: int = 0) -> ProfileData:
    """Return a difference as a profile with the new values, and the base's as further sample types of the same names.

    With more than `limit` types (0: no limit), only the first ones and the default type.
    """
    samples = profile.samples
    kinds = list(range(len(samples.base)))
    if limit and len(kinds) > limit:
        kinds = sorted({*kinds[: limit - 1], profile.default_type})
    new = [array("q", map(saturated, map(int.__add__, samples.values[kind], samples.base[kind]))) for kind in kinds]
    base = [samples.base[kind] for kind in kinds]
    shown = kinds.index(profile.default_type) if profile.default_type in kinds else 0
    out = replaced(profile, sample_types=[profile.sample_types[kind] for kind in kinds] * 2, default_type=shown)
    out.samples = Samples(samples.first, samples.stack, samples.of, [*new, *base], samples.labels)
    return out
