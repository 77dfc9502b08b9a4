"""OTLP in JSON: the same tables from a text, and the text with other names.

A document of tens of megabytes takes ten times as much as objects, so it is read value by value, and the large tables
become columns at once. Written, the text is cut where it changes.
"""

from __future__ import annotations

import re
from array import array
from itertools import accumulate, chain
from typing import Any

from whence._base.budget import Budget
from whence._base.errors import ProfileError
from whence._base.records import Record
from whence._base.records import field as record_field
from whence.profiles.formats import json_text
from whence.profiles.formats.otlp_tables import FUNCTION, PID, VALUE_TYPE, Lists, OtlpNames, OtlpProfile, OtlpTables
from whence.profiles.formats.schema import OTLP, Document
from whence.samples import bounds, wire
from whence.samples.kernels import stacks as stacks_kernel
from whence.samples.model import ProfileData

INT64 = range(-(1 << 63), 1 << 64)
MASK = (1 << 64) - 1
LONE = re.compile("[\ud800-\udfff]")  # half of a pair: JSON can write it ("\\ud800"), UTF-8 can't
REPLACEMENT = "\ufffd"


def text_of(value: str) -> str:
    """A text that can be written again: halves of surrogate pairs become U+FFFD."""
    return value if value.isascii() else LONE.sub(REPLACEMENT, value)


def number(entry: Any, name: str, part: str) -> int:
    """A number as JSON has it: a number, or text where it needs 64 bits; 0 when it is not there."""
    if not isinstance(entry, dict):
        raise ProfileError(part, None, "it is an object", type(entry).__name__)
    return whole(entry.get(name, 0), f"{part} {name}")


def whole(value: Any, part: str) -> int:
    try:
        found = int(value)
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or found not in INT64 or isinstance(value, bool) or (isinstance(value, float) and found != value):
        raise ProfileError(part, None, "it is a 64-bit number", repr(value)[:80])
    return found


def column(values: list[Any], part: str) -> array[int]:
    """Numbers as 64 bits each; negative ones as two's complement."""
    if set(map(type, values)) <= {int}:
        try:
            return array("Q", values)
        except OverflowError:
            pass
    return array("Q", [whole(one, part) & MASK for one in values])


def field(rows: list[Any], name: str, part: str) -> array[int]:
    """A number of each row; 0 where it is not there."""
    return column([one.get(name, 0) for one in rows], f"{part} {name}")


def lists(rows: list[Any], name: str, part: str) -> Lists:
    """A list of numbers of each row; an empty one where it is not there."""
    found = [one.get(name, ()) for one in rows]
    if not set(map(type, found)) <= {list, tuple}:
        wrong = next(one for one in found if not isinstance(one, list | tuple))
        raise ProfileError(f"{part} {name}", None, "it is a list", type(wrong).__name__)
    first = array("Q", [0])
    first.extend(accumulate(map(len, found)))
    return Lists(column(list(chain.from_iterable(found)), f"{part} {name}"), first)


def entries(entry: Any, name: str, part: str) -> list[Any]:
    """A list of objects; empty when it is not there."""
    if not isinstance(entry, dict):
        raise ProfileError(part, None, "it is an object", type(entry).__name__)
    found = entry.get(name, [])
    if not isinstance(found, list):
        raise ProfileError(f"{part} {name}", None, "it is a list", type(found).__name__)
    if not set(map(type, found)) <= {dict}:
        wrong = next(one for one in found if not isinstance(one, dict))
        raise ProfileError(f"{part} {name}", None, "it holds objects", type(wrong).__name__)
    return found


class Text(Record):
    """A ProfilesData document: its text, where the values of its dictionary stand, and the tables that may change."""

    text: str
    start: int = -1  # of the dictionary
    extents: dict[str, tuple[int, int]] = record_field(default_factory=dict)
    locations: list[Any] = record_field(default_factory=list)

    def changed(self, locations: list[Any], more: dict[str, list[Any]]) -> str:
        """The text with another location table, and with more entries behind those of other tables."""
        cuts = [(*self.extents["locationTable"], json_text.written(locations))]
        for name, new in more.items():
            if name in self.extents:
                start, end = self.extents[name]
                comma = "," if new and self.text[start + 1 : end - 1].strip(" \t\r\n") else ""
                cuts.append((end - 1, end - 1, comma + json_text.written(new)[1:-1]))
            else:  # in front of the tables that are there
                cuts.append((self.start + 1, self.start + 1, f'"{name}":{json_text.written(new)},'))
        out: list[str] = []
        offset = 0
        for start, end, text in sorted(cuts):
            out += (self.text[offset:start], text)
            offset = end
        return "".join([*out, self.text[offset:]])


def cost(text: str) -> int:
    """At most how much memory the objects of a JSON text take, by its punctuation. Names of members are kept once."""
    names = text.count('":') - text.count('\\":')
    texts = bounds.JSON_TEXT * max(0, text.count('"') // 2 - names)
    values = bounds.JSON_VALUE * (text.count(",") + 1) + texts
    return 2 * len(text) + bounds.JSON_OBJECT * text.count("{") + bounds.JSON_LIST * text.count("[") + values


def read(text: str, budget: Budget) -> tuple[Text, OtlpTables]:
    """A document and its tables. Raises ValueError where it is no JSON."""
    budget.charge(cost(text))
    found, tables = Text(text), OtlpTables()
    kept: Document = {}  # tables that refer to strings, which may come later
    resources: list[Any] = []

    def in_dictionary(name: str, start: int) -> int:
        table, end = json_text.value(text, start)
        found.extents[name] = start, end
        if name == "stackTable":
            tables.stacks = lists(entries({name: table}, name, "dictionary"), "locationIndices", "stack")
        else:
            kept[name] = table
        return end

    def in_document(name: str, start: int) -> int:
        if name == "dictionary":
            if text[start : start + 1] != "{":
                raise ProfileError("ProfilesData", None, "it has one dictionary", text[start : start + 10])
            found.start = start
            return json_text.members(text, start, in_dictionary)
        value, end = json_text.value(text, start)
        if name == "resourceProfiles":
            for resource in entries({name: value}, name, "ProfilesData"):
                described = resource.get("resource", {})
                for scope in entries(resource, "scopeProfiles", "resourceProfiles"):
                    inside = entries(scope, "profiles", "scopeProfiles")
                    budget.charge(bounds.INNER_PROFILE * len(inside))
                    for one in inside:
                        tables.kinds.append(_kind(one))
                        resources.append(described)
        return end

    json_text.whole(text, in_document)
    if found.start < 0:
        raise ProfileError("ProfilesData", None, "it has one dictionary", "none")
    found.locations = entries(kept, "locationTable", "dictionary")
    _fill(tables, kept)
    pids: dict[int, int] = {}  # of resources, which hold many profiles
    for kind, resource in zip(tables.kinds, resources, strict=True):
        if id(resource) not in pids:
            pids[id(resource)] = _pid(resource, kept.get("stringTable", []))
        kind.pid = pids[id(resource)]
    return found, tables


def _fill(tables: OtlpTables, dictionary: Document) -> None:
    """The tables of a dictionary but for the stacks."""
    part = "dictionary"
    strings = dictionary.get("stringTable", [])
    if not isinstance(strings, list) or not set(map(type, strings)) <= {str}:
        raise ProfileError("stringTable", None, "it holds text")
    strings[:] = map(text_of, strings)
    tables.strings, tables.text = len(strings), strings.__getitem__
    mappings = entries(dictionary, "mappingTable", part)
    attributes = lists(mappings, "attributeIndices", "mapping")
    names = ("memoryStart", "memoryLimit", "fileOffset", "filenameStrindex")
    columns = [field(mappings, name, "mapping") for name in names]
    tables.mappings = [(*row, attributes[index]) for index, row in enumerate(zip(*columns, strict=True))]
    locations = entries(dictionary, "locationTable", part)
    tables.location_mapping = field(locations, "mappingIndex", "location")
    tables.location_address = field(locations, "address", "location")
    lines: list[Any] = []
    for index, one in enumerate(locations):
        if "lines" in one:
            rows = entries(one, "lines", "location")
            tables.line_location.extend([index] * len(rows))
            lines += rows
    tables.line_function, tables.line = field(lines, "functionIndex", "line"), field(lines, "line", "line")
    functions = entries(dictionary, "functionTable", part)
    tables.functions = list(zip(*(field(functions, name, "function") for name in FUNCTION), strict=True))
    for one in entries(dictionary, "attributeTable", part):
        key, unit = number(one, "keyStrindex", "attribute") & MASK, number(one, "unitStrindex", "attribute") & MASK
        tables.attributes.append((key, *_value(one, strings), unit))


def _value(one: Any, strings: list[str]) -> tuple[str, int]:
    """An AnyValue as text and as a number."""
    value = one.get("value", {})
    text = value.get("stringValue", "") if isinstance(value, dict) else ""
    named = number(value, "stringValueStrindex", "attribute")
    if 0 < named < len(strings):
        text = strings[named]
    return text_of(text) if isinstance(text, str) else "", number(value, "intValue", "attribute")


def _pid(resource: Any, strings: list[str]) -> int:
    """The process a resource says its profiles are of; 0 when it does not."""
    for one in entries(resource, "attributes", "resource"):
        named = number(one, "keyStrindex", "attribute")
        if (one.get("key") or (strings[named] if 0 < named < len(strings) else "")) == PID:
            return _value(one, strings)[1]
    return 0


def _kind(one: Any) -> OtlpProfile:
    part = "profile"
    kind = OtlpProfile(
        0, 0, number(one, "timeUnixNano", part), number(one, "durationNano", part), number(one, "period", part)
    )
    sample_type, period_type = (one.get(name, {}) for name in ("sampleType", "periodType"))
    kind.type, kind.unit = (number(sample_type, name, "sampleType") for name in VALUE_TYPE)
    type_, unit = (number(period_type, name, "periodType") for name in VALUE_TYPE)
    kind.period_type = type_, unit
    samples = entries(one, "samples", part)
    kind.stack = field(samples, "stackIndex", "sample")
    values, times = lists(samples, "values", "sample"), lists(samples, "timestampsUnixNano", "sample")
    kind.value = wire.zeros("q", len(samples))
    stacks_kernel.add_up(values.values, values.first, times.first, kind.value)
    kind.attributes = lists(samples, "attributeIndices", "sample")
    return kind


def renamed(profile: ProfileData, document: Text, names: OtlpNames, skip: int) -> str:
    """The text again with the frames of profile.changed."""
    if not profile.changed:
        return document.text
    bounds.writing(profile.stored, "the lines of named locations").charge(
        2 * bounds.JSON_OBJECT * sum(len(profile.frames[location]) for location in profile.changed)
    )
    locations = list(document.locations)
    for location in sorted(profile.changed):
        lines = [
            {"functionIndex": names.function(frame), "line": max(0, frame.line)} for frame in profile.frames[location]
        ]
        lines = [OTLP.jsonable(line, "Line") for line in lines]
        locations[location + skip] = {**locations[location + skip], "lines": lines}
    functions = [OTLP.jsonable(one, "Function") for one in names.new_functions]
    return document.changed(locations, {"functionTable": functions, "stringTable": names.new_strings})
