"""Reader of OTLP in JSON, and writer of the same text with names added.

The objects of a large document need ten times its size, so it is read value by value, and the large tables become
columns at once. When written, the values that change are replaced in the text.
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
LONE = re.compile("[\ud800-\udfff]")  # half of a surrogate pair: JSON can write it ("\\ud800"), UTF-8 can't
REPLACEMENT = "\ufffd"
JSON_TYPES = {
    dict: "an object", list: "a list", tuple: "a list", str: "text", int: "a number", float: "a number",
    bool: "true or false", type(None): "null",
}  # fmt: skip


def text_of(value: str) -> str:
    """Return a text that UTF-8 can encode: halves of surrogate pairs become U+FFFD."""
    return value if value.isascii() else LONE.sub(REPLACEMENT, value)


def number(entry: Any, name: str, part: str) -> int:
    """Return a number, which may be text; 0 if it is missing."""
    if not isinstance(entry, dict):
        raise wrong_type(part, entry, "an object")
    return integer(entry.get(name, 0), f"{part} {name}")


def wrong_type(part: str, value: object, expected: str) -> ProfileError:
    """Return the error for a value of another type."""
    return ProfileError(part, None, f"the value is {JSON_TYPES[type(value)]}, must be {expected}")


def integer(value: Any, part: str) -> int:
    try:
        out = int(value)
    except (TypeError, ValueError, OverflowError):
        out = None
    if out is None or out not in INT64 or isinstance(value, bool) or (isinstance(value, float) and out != value):
        raise ProfileError(part, None, f"{repr(value)[:80]} is not a 64-bit number")
    return out


def column(values: list[Any], part: str) -> array[int]:
    """Return numbers as 64 bits each; negative numbers in two's complement."""
    if set(map(type, values)) <= {int}:
        try:
            return array("Q", values)
        except OverflowError:
            pass
    return array("Q", [integer(value, part) & MASK for value in values])


def field(rows: list[Any], name: str, part: str) -> array[int]:
    """Return a number of each row; 0 if it is missing."""
    return column([row.get(name, 0) for row in rows], f"{part} {name}")


def lists(rows: list[Any], name: str, part: str) -> Lists:
    """Return a list of numbers of each row; an empty list if it is missing."""
    values = [row.get(name, ()) for row in rows]
    if not set(map(type, values)) <= {list, tuple}:
        raise wrong_type(
            f"{part} {name}", next(value for value in values if not isinstance(value, list | tuple)), "a list"
        )
    first = array("Q", [0])
    first.extend(accumulate(map(len, values)))
    return Lists(column(list(chain.from_iterable(values)), f"{part} {name}"), first)


def entries(entry: Any, name: str, part: str) -> list[Any]:
    """Return a list of objects; empty if it is missing."""
    if not isinstance(entry, dict):
        raise wrong_type(part, entry, "an object")
    values = entry.get(name, [])
    if not isinstance(values, list):
        raise wrong_type(f"{part} {name}", values, "a list")
    if not set(map(type, values)) <= {dict}:
        raise wrong_type(f"{part} {name}", next(value for value in values if not isinstance(value, dict)), "an object")
    return values


class JsonDocument(Record):
    """The text of a ProfilesData document, the extents of the values of its dictionary, and the location table."""

    text: str
    start: int = -1  # of the dictionary
    extents: dict[str, tuple[int, int]] = record_field(default_factory=dict)
    locations: list[Any] = record_field(default_factory=list)

    def changed(self, locations: list[Any], appended: dict[str, list[Any]]) -> str:
        """Return the text with another location table, and with entries appended to other tables."""
        cuts = [(*self.extents["locationTable"], json_text.encoded(locations))]
        for name, new in appended.items():
            if name in self.extents:
                start, end = self.extents[name]
                comma = "," if new and self.text[start + 1 : end - 1].strip(" \t\r\n") else ""
                cuts.append((end - 1, end - 1, comma + json_text.encoded(new)[1:-1]))
            else:  # before the other tables
                cuts.append((self.start + 1, self.start + 1, f'"{name}":{json_text.encoded(new)},'))
        out: list[str] = []
        offset = 0
        for start, end, text in sorted(cuts):
            out += (self.text[offset:start], text)
            offset = end
        return "".join([*out, self.text[offset:]])


def cost(text: str) -> int:
    """Return a bound of the memory for the objects of a JSON text, by its punctuation. Member names are stored once."""
    names = text.count('":') - text.count('\\":')
    texts = bounds.JSON_TEXT * max(0, text.count('"') // 2 - names)
    values = bounds.JSON_VALUE * (text.count(",") + 1) + texts
    return 2 * len(text) + bounds.JSON_OBJECT * text.count("{") + bounds.JSON_LIST * text.count("[") + values


def read(text: str, budget: Budget) -> tuple[JsonDocument, OtlpTables]:
    """Read a document and its tables. Raises ValueError for text that is not JSON, ProfileError."""
    budget.charge(cost(text))
    document, tables = JsonDocument(text), OtlpTables()
    dictionary: Document = {}  # tables that refer to strings, which may be last
    resources: list[Any] = []

    def in_dictionary(name: str, start: int) -> int:
        table, end = json_text.value(text, start)
        document.extents[name] = start, end
        if name == "stackTable":
            tables.stacks = lists(entries({name: table}, name, "dictionary"), "locationIndices", "stack")
        else:
            dictionary[name] = table
        return end

    def in_document(name: str, start: int) -> int:
        if name == "dictionary":
            if text[start : start + 1] != "{":
                raise ProfileError(
                    "ProfilesData", None, "the dictionary is not an object; there must be one dictionary"
                )
            document.start = start
            return json_text.members(text, start, in_dictionary)
        value, end = json_text.value(text, start)
        if name == "resourceProfiles":
            for resource in entries({name: value}, name, "ProfilesData"):
                attributes = resource.get("resource", {})
                for scope in entries(resource, "scopeProfiles", "resourceProfiles"):
                    profiles = entries(scope, "profiles", "scopeProfiles")
                    budget.charge(bounds.INNER_PROFILE * len(profiles))
                    tables.kinds += map(_kind, profiles)
                    resources.extend([attributes] * len(profiles))
        return end

    json_text.walk(text, in_document)
    if document.start < 0:
        raise ProfileError("ProfilesData", None, "the dictionary is missing; there must be one dictionary")
    document.locations = entries(dictionary, "locationTable", "dictionary")
    _fill(tables, dictionary)
    pids: dict[int, int] = {}  # by resource, which may have many profiles
    for kind, resource in zip(tables.kinds, resources, strict=True):
        if id(resource) not in pids:
            pids[id(resource)] = _pid(resource, dictionary.get("stringTable", []))
        kind.pid = pids[id(resource)]
    return document, tables


def _fill(tables: OtlpTables, dictionary: Document) -> None:
    """Fill the tables of a dictionary except the stacks."""
    part = "dictionary"
    strings = dictionary.get("stringTable", [])
    if not isinstance(strings, list) or not set(map(type, strings)) <= {str}:
        raise ProfileError("stringTable", None, "an entry is not text")
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
    for index, location in enumerate(locations):
        if "lines" in location:
            rows = entries(location, "lines", "location")
            tables.line_location.extend([index] * len(rows))
            lines += rows
    tables.line_function, tables.line = field(lines, "functionIndex", "line"), field(lines, "line", "line")
    functions = entries(dictionary, "functionTable", part)
    tables.functions = list(zip(*(field(functions, name, "function") for name in FUNCTION), strict=True))
    for attribute in entries(dictionary, "attributeTable", part):
        key, unit = (number(attribute, name, "attribute") & MASK for name in ("keyStrindex", "unitStrindex"))
        tables.attributes.append((key, *_value(attribute, strings), unit))


def _value(attribute: Any, strings: list[str]) -> tuple[str, int]:
    """Return an AnyValue as text and as a number."""
    value = attribute.get("value", {})
    text = value.get("stringValue", "") if isinstance(value, dict) else ""
    index = number(value, "stringValueStrindex", "attribute")
    if 0 < index < len(strings):
        text = strings[index]
    return text_of(text) if isinstance(text, str) else "", number(value, "intValue", "attribute")


def _pid(resource: Any, strings: list[str]) -> int:
    """Return the pid of a resource, or 0."""
    for attribute in entries(resource, "attributes", "resource"):
        index = number(attribute, "keyStrindex", "attribute")
        if (attribute.get("key") or (strings[index] if 0 < index < len(strings) else "")) == PID:
            return _value(attribute, strings)[1]
    return 0


def _kind(profile: Any) -> OtlpProfile:
    part = "profile"
    time, duration, period = (number(profile, name, part) for name in ("timeUnixNano", "durationNano", "period"))
    kind = OtlpProfile(0, 0, time, duration, period)
    sample_type, period_type = (profile.get(name, {}) for name in ("sampleType", "periodType"))
    kind.type, kind.unit = (number(sample_type, name, "sampleType") for name in VALUE_TYPE)
    type_, unit = (number(period_type, name, "periodType") for name in VALUE_TYPE)
    kind.period_type = type_, unit
    samples = entries(profile, "samples", part)
    kind.stack = field(samples, "stackIndex", "sample")
    values, times = lists(samples, "values", "sample"), lists(samples, "timestampsUnixNano", "sample")
    kind.value = wire.zeros("q", len(samples))
    stacks_kernel.add_up(values.values, values.first, times.first, kind.value)
    kind.attributes = lists(samples, "attributeIndices", "sample")
    return kind


def renamed(profile: ProfileData, document: JsonDocument, names: OtlpNames, skip: int) -> str:
    """Return the text with new lines for the locations in profile.changed."""
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
    functions = [OTLP.jsonable(function, "Function") for function in names.new_functions]
    return document.changed(locations, {"functionTable": functions, "stringTable": names.new_strings})
