"""What changed from one profile to another, by function: values of the new one less those of the base.

Two builds have other addresses, lines and inlined calls, so stacks are compared as functions. A function is its name
and its file; where the folders differ, its name and the file's own name, if just one function on each side has them;
where one side knows no file, its name alone. What has no name is the binary it is in. Of labels only the command stays.

The values of a difference may be negative; `samples.base` has those of the base, for what shows both.
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
"""A name, and a file or (of what knows none) the binary in brackets."""


def diff(new: ProfileData, base: ProfileData, *, normalize: bool = False) -> ProfileData:
    """`new` less `base`, by functions; with `normalize` as if both had the same sum of each type.

    ProfileError where they have no sample type in common.
    """
    pairs = [
        (at, base.sample_types.index(kind)) for at, kind in enumerate(new.sample_types) if kind in base.sample_types
    ]
    if not pairs:
        fault = "the profiles have no sample type in common"
        raise ProfileError("sample_type", None, "both profiles have one of a kind", fault=fault)
    sides = Side(new), Side(base)
    alike = matched(sides[0].functions, sides[1].functions)
    out = ProfileData(
        [new.sample_types[at] for at, _ in pairs],
        default_type=next((row for row, (at, _) in enumerate(pairs) if at == new.default_type), 0),
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
        tables.add(side, kinds, column, alike if column else {})
    out.samples = tables.samples(len(pairs), normalize)
    out.put_files_first()
    return out


class Side:
    """One of the two profiles: the functions of each location, innermost first."""

    def __init__(self, profile: ProfileData) -> None:
        self.profile = profile
        self.binaries = [stem(binary_of(profile, at)) for at in range(len(profile.address))]
        self.chains: list[list[tuple[Function, Frame]]] = [self._chain(at) for at in range(len(profile.address))]
        self.functions = {function for chain in self.chains for function, _ in chain}

    def _chain(self, at: int) -> list[tuple[Function, Frame]]:
        frames = self.profile.frames[at]
        inside = f"[{self.binaries[at]}]" if self.binaries[at] else ""
        if not frames:
            name = inside or "[unknown]"
            return [((name, ""), Frame(name))]
        return [
            ((one.function, one.file or inside), Frame(one.function, one.file, start_line=one.start_line))
            for one in frames
        ]


def stem(binary: str) -> str:
    """A binary's name without its version.

    >>> stem("libz.so.1.2.13"), stem("app"), stem("libc-2.31.so")
    ('libz', 'app', 'libc')
    """
    return VERSION.sub("", binary)


def matched(new: set[Function], base: set[Function]) -> dict[Function, Function]:
    """The function of `new` that each function of `base` is, where that is another name for it."""
    out: dict[Function, Function] = {}
    for rule in (_by_base_name, _by_name):
        ours, theirs = _alone(new - base - {*out.values()}, rule), _alone(base - new - {*out}, rule)
        for key in theirs.keys() & ours.keys():
            if rule is _by_base_name or _unknown(theirs[key]) or _unknown(ours[key]):
                out[theirs[key]] = ours[key]
    return out


def _by_base_name(function: Function) -> object:
    return function[0], os.path.basename(function[1])


def _by_name(function: Function) -> object:
    return function[0]


def _unknown(function: Function) -> bool:
    return not function[1] or function[1].startswith("[")


def _alone(functions: Iterable[Function], rule: Callable[[Function], object]) -> dict[object, Function]:
    """Functions by a rule, without those that it can't distinguish."""
    found: dict[object, Function] = {}
    twice = set()
    for one in functions:
        key = rule(one)
        if found.setdefault(key, one) != one:
            twice.add(key)
    return {key: one for key, one in found.items() if key not in twice}


class FunctionLocations:
    """The difference as it grows: a location for each function, a sample for each stack of them and command."""

    def __init__(self, profile: ProfileData) -> None:
        self.profile = profile
        self.budget = bounds.writing(profile.stored, "the difference of two profiles")
        self._functions: dict[Function, int] = {}
        self._mappings: dict[str, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self._rows: dict[tuple[int, tuple[Label, ...]], list[list[int]]] = {}

    def add(self, side: Side, kinds: list[int], column: int, alike: dict[Function, Function]) -> None:
        """Add the values of a side: column 0 is of the new profile, 1 of the base."""
        samples = side.profile.samples
        chains = [
            [self._location(side.profile, at, alike.get(function, function), frame) for function, frame in chain]
            for at, chain in enumerate(side.chains)
        ]
        stacks: dict[int, int] = {}
        for index, (at, labels) in enumerate(zip(samples.of, samples.labels, strict=True)):
            stack = stacks.get(at)
            if stack is None:
                locations = tuple([one for location in samples.locations_of(at) for one in chains[location]])
                stack = self._stacks.get(locations)
                if stack is None:
                    self.budget.charge(bounds.SAMPLE + bounds.ENTRY * len(locations))
                    stack = self._stacks[locations] = len(self._stacks)
                stacks[at] = stack
            key = stack, tuple(one for one in labels if one.key == COMMAND)
            row = self._rows.get(key)
            if row is None:
                self.budget.charge(bounds.SAMPLE + bounds.ENTRY * len(kinds))
                row = self._rows[key] = [[0] * len(kinds), [0] * len(kinds)]
            for place, kind in enumerate(kinds):
                if kind < len(samples.values):
                    row[column][place] += samples.values[kind][index]

    def _location(self, profile: ProfileData, at: int, function: Function, frame: Frame) -> int:
        found = self._functions.get(function)
        if found is None:
            self.budget.charge(bounds.LOCATION)
            mapping = profile.mapping_of(at)
            place = NO_MAPPING
            if mapping is not None and mapping.path:
                place = self._mappings.setdefault(mapping.path, len(self.profile.mappings))
                if place == len(self.profile.mappings):
                    self.profile.mappings.append(Mapping(path=mapping.path))
            found = self._functions[function] = self.profile.location(place, 0, (frame,))
        return found

    def samples(self, kinds: int, normalize: bool) -> Samples:
        """The samples with the differences of the two sides, and the base's values beside them."""
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
                part = scale[kind]
                was = base[kind] if part is None else round(base[kind] * part[0] / part[1])
                out.base[kind].append(saturated(was))
                out.values[kind].append(saturated(new[kind] - was))
        return out


def _scale(rows: list[list[list[int]]], kind: int) -> tuple[int, int] | None:
    """What makes the sums of both sides equal: a factor as (numerator, denominator); None where one side has none."""
    new, base = (sum(row[column][kind] for row in rows) for column in (0, 1))
    return (new, base) if new > 0 and base > 0 else None


def both(profile: ProfileData, most: int = 0) -> ProfileData:
    """A difference as a profile of the new values, with the base's as further sample types of the same names.

    Of more than `most` types (0: any number) the first ones, and the default one in any case.
    """
    samples = profile.samples
    kinds = list(range(len(samples.base)))
    if most and len(kinds) > most:
        kinds = sorted({*kinds[: most - 1], profile.default_type})
    new = [array("q", map(saturated, map(int.__add__, samples.values[kind], samples.base[kind]))) for kind in kinds]
    base = [samples.base[kind] for kind in kinds]
    shown = kinds.index(profile.default_type) if profile.default_type in kinds else 0
    out = replaced(profile, sample_types=[profile.sample_types[kind] for kind in kinds] * 2, default_type=shown)
    out.samples = Samples(samples.first, samples.stack, samples.of, [*new, *base], samples.labels)
    return out
