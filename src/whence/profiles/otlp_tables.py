"""OTLP's dictionary and samples as plain tables: filled from binary or JSON, read by one road into a Profile.

Entry 0 of every table stands for "none". Locations of the profile are those of the table without that entry.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from whence.errors import ProfileError
from whence.model import Frame
from whence.profiles.model import NO_MAPPING, Label, Mapping, Profile, SampleType

BUILD_IDS = ("process.executable.build_id.gnu", "process.executable.build_id.go", "process.executable.build_id.htlhash")


@dataclass(slots=True)
class Kind:
    """One OTLP profile: what it counts (string indices), its samples as rows."""

    type: int
    unit: int
    time_ns: int = 0
    duration_ns: int = 0
    period: int = 0
    period_type: tuple[int, int] = (0, 0)
    stack: list[int] = field(default_factory=list)
    value: list[int] = field(default_factory=list)
    attributes: list[Sequence[int]] = field(default_factory=list)


@dataclass(slots=True)
class Tables:
    strings: Sequence[str] = ()
    # start, limit, file offset, file name, attributes
    mappings: list[tuple[int, int, int, int, Sequence[int]]] = field(default_factory=list)
    location_mapping: Sequence[int] = ()
    location_address: Sequence[int] = ()
    lines: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # location -> (function, line)
    functions: list[tuple[int, int, int, int]] = field(default_factory=list)  # name, system name, file, start line
    stacks: list[Sequence[int]] = field(default_factory=list)
    attributes: list[tuple[int, str, int, int]] = field(default_factory=list)  # key, text, number, unit
    kinds: list[Kind] = field(default_factory=list)


def first_location(tables: Tables) -> int:
    """1 where entry 0 of the location table stands for none, as it should; else 0."""
    empty = bool(len(tables.location_address)) and not tables.location_address[0] and not tables.location_mapping[0]
    return int(empty and 0 not in tables.lines)


class Checked:
    """Tables whose indices are looked at before they are used."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def string(self, index: int, part: str) -> str:
        strings = self.tables.strings
        if not 0 <= index < len(strings):
            if index == 0:
                return ""
            raise ProfileError(part, None, "it is an index into string_table", f"{index} of {len(strings)}")
        return strings[index]

    def label(self, index: int, part: str) -> Label:
        table = self.tables.attributes
        if not 0 <= index < len(table):
            raise ProfileError(
                part, None, "attribute_indices are indices into attribute_table", f"{index} of {len(table)}"
            )
        key, text, number, unit = table[index]
        return Label(self.string(key, "attribute"), text, number, self.string(unit, "attribute"))

    def mapping(self, index: int) -> Mapping:
        start, limit, offset, name, attributes = self.tables.mappings[index]
        labels = {one.key: one.text for one in (self.label(at, f"mapping {index}") for at in attributes)}
        build_id = next((labels[key] for key in BUILD_IDS if labels.get(key)), "")
        return Mapping(start, limit, offset, self.string(name, f"mapping {index}"), build_id)


def profile_of(tables: Tables) -> Profile:
    """The profile: sample types are the distinct ones of the OTLP profiles inside."""
    checked = Checked(tables)
    profile = Profile()
    profile.mappings = [checked.mapping(index) for index in range(len(tables.mappings))]
    none = bool(profile.mappings) and profile.mappings[0] == Mapping()
    skip = first_location(tables)
    known = len(profile.mappings)
    for mapping in tables.location_mapping[skip:]:
        if mapping and not 0 <= mapping < known:
            raise ProfileError(
                "location", None, "mapping_index is an index into mapping_table", f"{mapping} of {known}"
            )
        profile.mapping.append(NO_MAPPING if mapping == 0 and (none or not known) else mapping)
    profile.address = array("Q", tables.location_address[skip:])
    profile.frames = [()] * len(profile.address)
    for location, lines in tables.lines.items():
        chain = []
        for function, line in lines:
            if not 0 <= function < len(tables.functions):
                found = f"{function} of {len(tables.functions)}"
                raise ProfileError(
                    f"location {location}", None, "function_index is an index into function_table", found
                )
            name, system, file, start = tables.functions[function]
            part = f"function {function}"
            text = checked.string(name, part) or checked.string(system, part)
            chain.append(Frame(text, checked.string(file, part), max(0, line), True, "", max(0, start)))
        chain[-1] = chain[-1]._replace(inlined=False)
        profile.frames[location - skip] = tuple(chain)
    _samples(profile, checked, skip)
    return profile


def _samples(profile: Profile, checked: Checked, skip: int) -> None:
    tables = checked.tables
    kinds: dict[SampleType, int] = {}
    for kind in tables.kinds:
        kinds.setdefault(
            SampleType(checked.string(kind.type, "profile"), checked.string(kind.unit, "profile")), len(kinds)
        )
        profile.time_ns = profile.time_ns or kind.time_ns
        profile.duration_ns = max(profile.duration_ns, kind.duration_ns)
        profile.period = profile.period or kind.period
        if not profile.period_type.type:
            profile.period_type = SampleType(*(checked.string(one, "period_type") for one in kind.period_type))
    profile.sample_types = list(kinds)
    profile.default_type = max(0, len(kinds) - 1)
    stacks: dict[int, list[int]] = {}
    labels: dict[tuple[int, ...], tuple[Label, ...]] = {}
    samples = profile.samples
    for kind in tables.kinds:
        column = kinds[SampleType(tables.strings[kind.type], tables.strings[kind.unit])] if tables.strings else 0
        for index, value, attributes in zip(kind.stack, kind.value, kind.attributes, strict=True):
            if index not in stacks:
                stacks[index] = _stack(tables, index, skip)
            key = tuple(attributes)
            if key not in labels:
                labels[key] = tuple(checked.label(at, "sample") for at in key)
            values = [0] * len(kinds)
            values[column] = value
            samples.add(stacks[index], values, labels[key])
    profile._samples = samples


def _stack(tables: Tables, index: int, skip: int) -> list[int]:
    if index == 0 and not tables.stacks:
        return []
    if not 0 <= index < len(tables.stacks):
        raise ProfileError(
            "sample", None, "stack_index is an index into stack_table", f"{index} of {len(tables.stacks)}"
        )
    out = []
    for location in tables.stacks[index]:
        if not 0 <= location < len(tables.location_address):
            found = f"{location} of {len(tables.location_address)}"
            raise ProfileError(f"stack {index}", None, "location_indices are indices into location_table", found)
        if location >= skip:
            out.append(location - skip)
    return out
