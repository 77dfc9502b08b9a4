"""OTLP in JSON: the same tables from a document, and the document with other names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from whence.errors import ProfileError
from whence.profiles.model import Profile
from whence.profiles.otlp_schema import Document, jsonable
from whence.profiles.otlp_tables import Kind, Tables

if TYPE_CHECKING:
    from whence.profiles.otlp import Names

INT64 = range(-(1 << 63), 1 << 64)


def number(entry: Any, name: str, part: str) -> int:
    """A number as JSON has it: a number, or text where it needs 64 bits; 0 when it is not there."""
    if not isinstance(entry, dict):
        raise ProfileError(part, None, "it is an object", type(entry).__name__)
    return whole(entry.get(name, 0), f"{part} {name}")


def whole(value: Any, part: str) -> int:
    try:
        found = int(value)
    except (TypeError, ValueError):
        found = None
    if found is None or found not in INT64 or isinstance(value, bool):
        raise ProfileError(part, None, "it is a 64-bit number", repr(value))
    return found


def entries(entry: Any, name: str, part: str) -> list[Any]:
    """A list; empty when it is not there."""
    if not isinstance(entry, dict):
        raise ProfileError(part, None, "it is an object", type(entry).__name__)
    found = entry.get(name, [])
    if not isinstance(found, list):
        raise ProfileError(f"{part} {name}", None, "it is a list", type(found).__name__)
    return found


def numbers(entry: Any, name: str, part: str) -> list[int]:
    return [whole(one, f"{part} {name}") for one in entries(entry, name, part)]


def address(value: int) -> int:
    return value & 0xFFFFFFFFFFFFFFFF


def profiles_of(document: Document) -> Iterator[Any]:
    for resource in entries(document, "resourceProfiles", "ProfilesData"):
        for scope in entries(resource, "scopeProfiles", "resourceProfiles"):
            yield from entries(scope, "profiles", "scopeProfiles")


def tables_of(document: Document) -> Tables:
    """The tables of a ProfilesData document."""
    dictionary = document.get("dictionary")
    if not isinstance(dictionary, dict):
        raise ProfileError("ProfilesData", None, "it has one dictionary", type(dictionary).__name__)
    part = "dictionary"
    tables = Tables()
    strings = entries(dictionary, "stringTable", part)
    if not all(isinstance(one, str) for one in strings):
        raise ProfileError("stringTable", None, "it holds text")
    tables.strings = strings
    for one in entries(dictionary, "mappingTable", part):
        start, limit, offset, name = (
            number(one, field, "mapping") for field in ("memoryStart", "memoryLimit", "fileOffset", "filenameStrindex")
        )
        attributes = numbers(one, "attributeIndices", "mapping")
        tables.mappings.append((address(start), address(limit), address(offset), name, attributes))
    locations = entries(dictionary, "locationTable", part)
    tables.location_mapping = [number(one, "mappingIndex", "location") for one in locations]
    tables.location_address = [address(number(one, "address", "location")) for one in locations]
    for at, one in enumerate(locations):
        lines = entries(one, "lines", "location")
        if lines:
            tables.lines[at] = [(number(row, "functionIndex", "line"), number(row, "line", "line")) for row in lines]
    for one in entries(dictionary, "functionTable", part):
        fields = ("nameStrindex", "systemNameStrindex", "filenameStrindex")
        name, system, file, start = (number(one, field, "function") for field in (*fields, "startLine"))
        tables.functions.append((name, system, file, start))
    tables.stacks = [numbers(one, "locationIndices", "stack") for one in entries(dictionary, "stackTable", part)]
    for one in entries(dictionary, "attributeTable", part):
        tables.attributes.append(_attribute(one, tables.strings))
    tables.kinds = [_kind(one) for one in profiles_of(document)]
    return tables


def _attribute(one: Any, strings: Any) -> tuple[int, str, int, int]:
    key, unit = number(one, "keyStrindex", "attribute"), number(one, "unitStrindex", "attribute")
    value = one.get("value", {})
    text = value.get("stringValue", "") if isinstance(value, dict) else ""
    named = number(value, "stringValueStrindex", "attribute")
    if 0 < named < len(strings):
        text = strings[named]
    return key, text if isinstance(text, str) else "", number(value, "intValue", "attribute"), unit


def _kind(one: Any) -> Kind:
    part = "profile"
    kind = Kind(0, 0, number(one, "timeUnixNano", part), number(one, "durationNano", part), number(one, "period", part))
    sample_type, period_type = (one.get(name, {}) for name in ("sampleType", "periodType"))
    kind.type, kind.unit = (number(sample_type, name, "sampleType") for name in ("typeStrindex", "unitStrindex"))
    kind.period_type = (
        number(period_type, "typeStrindex", "periodType"),
        number(period_type, "unitStrindex", "periodType"),
    )
    for sample in entries(one, "samples", part):
        values = numbers(sample, "values", "sample")
        kind.stack.append(number(sample, "stackIndex", "sample"))
        kind.value.append(sum(values) if values else len(entries(sample, "timestampsUnixNano", "sample")))
        kind.attributes.append(numbers(sample, "attributeIndices", "sample"))
    return kind


def renamed(profile: Profile, document: Document, names: Names, skip: int) -> Document:
    """The document again with the frames of profile.changed; the one that was given stays as it is."""
    if not profile.changed:
        return document
    dictionary = dict(document["dictionary"])
    locations = list(entries(dictionary, "locationTable", "dictionary"))
    for location in sorted(profile.changed):
        lines = [
            {"functionIndex": names.function(frame), "line": max(0, frame.line)} for frame in profile.frames[location]
        ]
        entry = dict(locations[location + skip])
        entry["lines"] = [jsonable(line, "Line") for line in lines]
        locations[location + skip] = entry
    dictionary["locationTable"] = locations
    functions = [jsonable(one, "Function") for one in names.new_functions]
    dictionary["functionTable"] = [*entries(dictionary, "functionTable", "dictionary"), *functions]
    dictionary["stringTable"] = [*entries(dictionary, "stringTable", "dictionary"), *names.new_strings]
    return {**document, "dictionary": dictionary}
