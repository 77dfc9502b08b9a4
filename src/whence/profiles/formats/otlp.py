"""Reader and writer of OTLP profiles: opentelemetry.proto.profiles.v1development.ProfilesData, in binary or JSON.

    read     both forms, also in gzip; checks every index. The profiles inside share a dictionary and become one
             profile with a sample type for each of theirs
    write    a profile read from OTLP: the same data with new lines of locations, and new functions and strings
             appended (the other bytes, or values in JSON, are copied); any other profile: all of its tables

Kinds of addresses are distinguished by whence.samples.addresses; build-ids are the mapping's attributes
process.executable.build_id.gnu and .go. The value of a sample without values is the number of its timestamps.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from whence._base.budget import Budget
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence._base.records import Record
from whence._version import __version__
from whence.profiles.formats import gz, json_text, otlp_json
from whence.profiles.formats.otlp_json import JsonDocument
from whence.profiles.formats.otlp_tables import (
    BUILD_IDS,
    FUNCTION,
    PID,
    VALUE_TYPE,
    Lists,
    OtlpNames,
    OtlpProfile,
    OtlpTables,
    first_location,
    profile_of,
    signed,
)
from whence.profiles.formats.schema import OTLP, Document
from whence.samples import bounds, wire
from whence.samples.chains import Chains
from whence.samples.kernels import stacks as stacks_kernel
from whence.samples.model import NO_MAPPING, ProfileData
from whence.samples.wire import Messages, NewNames

ROOT = "ProfilesData"
DICTIONARY = OTLP.number(ROOT, "dictionary")


class OtlpOrigin(Record):
    """The JSON document or the message an OTLP profile was read from, and its tables."""

    document: JsonDocument | None
    message: Messages | None
    tables: OtlpTables
    compressed: bool

    def __repr__(self) -> str:
        form = "JSON" if self.document else "binary"
        return f"<OtlpOrigin: {form}{', packed' if self.compressed else ''}>"


def read(data: bytes, *, compressed: bool = False, budget: Budget | None = None) -> ProfileData:
    """Read a profile, which may be gzip. Raises ProfileError.

    `compressed`: the caller decompressed `data`, and it is compressed again when the profile is written; `budget` is
    that of the stored bytes.
    """
    plain, compressed, budget = gz.plain_bytes(data, compressed=compressed, budget=budget)
    if plain.lstrip()[:1] == b"{":
        try:
            document, tables = otlp_json.read(plain.decode("utf-8"), budget)
        except (ValueError, RecursionError) as error:
            raise ProfileError("otlp", None, f"invalid JSON: {error}") from error
        origin = OtlpOrigin(document, None, tables, compressed)
    else:
        message = Messages.from_bytes(plain, ROOT, budget)
        tables = tables_of(message)
        origin = OtlpOrigin(None, message, tables, compressed)
    profile = profile_of(tables, budget)
    profile.origin = origin
    profile.stored = bounds.stored(budget)
    return profile


def write(profile: ProfileData, *, json: bool | None = None) -> bytes:
    """Return the profile as OTLP; `json` chooses the form (default: the form it was read in, else binary)."""
    origin = profile.unchanged_origin
    if isinstance(origin, OtlpOrigin) and (json is None or json == (origin.document is not None)):
        names = OtlpNames(profile, origin.tables)
        if origin.document is not None:
            out = otlp_json.renamed(profile, origin.document, names, first_location(origin.tables)).encode()
        else:
            assert origin.message is not None
            out = renamed_binary(profile, origin.message, names, first_location(origin.tables))
        return gz.deflated(out) if origin.compressed else out
    document = document_of(profile)
    return json_text.encoded(OTLP.jsonable(document, ROOT)).encode() if json else OTLP.encoded(document, ROOT)


def is_text(profile: ProfileData) -> bool:
    """Return True if `write` returns uncompressed JSON by default, as the profile was read from it."""
    origin = profile.unchanged_origin
    return isinstance(origin, OtlpOrigin) and origin.document is not None and not origin.compressed


def document_of(profile: ProfileData) -> Document:
    """Return a document made of the tables of a profile, with an OTLP profile for each sample type."""
    names = OtlpNames(profile)
    attributes: dict[tuple[str, str | int, str], int] = {}

    def attribute(key: str, value: str | int, unit: str = "") -> int:
        return attributes.setdefault((key, value, unit), len(attributes) + 1)

    mappings: list[Document] = [{}]
    for mapping in profile.mappings:
        entry: Document = {"memoryStart": mapping.start, "memoryLimit": mapping.end, "fileOffset": mapping.file_offset}
        entry["filenameStrindex"] = names.string(mapping.path)
        if mapping.build_id:
            entry["attributeIndices"] = [attribute(BUILD_IDS[0], mapping.build_id)]
        mappings.append(entry)
    locations: list[Document] = [{}]
    for number, address, frames in zip(profile.mapping, profile.address, profile.frames, strict=True):
        entry = {"mappingIndex": 0 if number == NO_MAPPING else number + 1, "address": address}
        if frames:
            entry["lines"] = [{"functionIndex": names.function(frame), "line": frame.line} for frame in frames]
        locations.append(entry)
    samples = profile.samples
    budget = bounds.writing(profile.stored, "OTLP's tables")
    budget.charge(bounds.JSON_OBJECT * len(samples) * len(profile.sample_types))
    budget.charge(bounds.STRING * sum(map(len, samples.labels)))
    stacks: dict[tuple[int, ...], int] = {(): 0}
    stack_of: dict[int, int] = {}  # the entry of the stack table for each stack
    rows = []
    for index in range(len(samples)):
        row = samples.of[index]
        if row not in stack_of:
            budget.charge(bounds.JSON_OBJECT + bounds.JSON_VALUE * (samples.first[row + 1] - samples.first[row]))
            stack = tuple(location + 1 for location in samples.locations_of(row))
            stack_of[row] = stacks.setdefault(stack, len(stacks))
        labels = [attribute(label.key, label.text or label.number, label.unit) for label in samples.labels[index]]
        rows.append((stack_of[row], labels))
    profiles = []
    for kind, column in zip(profile.sample_types, samples.values, strict=False):
        entry = {
            "sampleType": {"typeStrindex": names.string(kind.type), "unitStrindex": names.string(kind.unit)},
            "samples": [
                {"stackIndex": stack, "attributeIndices": labels, "values": [value]}
                for (stack, labels), value in zip(rows, column, strict=True)
                if value
            ],
            "timeUnixNano": profile.time_ns,
            "durationNano": profile.duration_ns,
            "period": profile.period,
        }
        if profile.period_type.type:
            period = profile.period_type
            entry["periodType"] = {"typeStrindex": names.string(period.type), "unitStrindex": names.string(period.unit)}
        profiles.append(entry)
    table: list[Document] = [{}]
    for key, value, unit in attributes:
        any_value = {"stringValue": value} if isinstance(value, str) else {"intValue": value}
        table.append({"keyStrindex": names.string(key), "value": any_value, "unitStrindex": names.string(unit)})
    dictionary = {
        "mappingTable": mappings,
        "locationTable": locations,
        "functionTable": names.new_functions,
        "linkTable": [{}],
        "stringTable": names.new_strings,
        "attributeTable": table,
        "stackTable": [{"locationIndices": list(stack)} for stack in stacks],
    }
    scope = {"scope": {"name": "whence", "version": __version__}, "profiles": profiles}
    return {"resourceProfiles": [{"scopeProfiles": [scope]}], "dictionary": dictionary}


# the binary form


def dictionary_of(message: Messages) -> Messages:
    dictionary = OTLP.inside(message, ROOT, "dictionary")
    if len(dictionary) != 1:
        raise ProfileError(ROOT, None, f"{len(dictionary)} dictionaries; there must be one dictionary")
    return dictionary


def tables_of(message: Messages) -> OtlpTables:
    """Return the tables of a ProfilesData message."""
    dictionary = dictionary_of(message)
    tables = OtlpTables()
    strings = OTLP.inside(dictionary, "ProfilesDictionary", "stringTable", "string_table")
    tables.strings, tables.text = len(strings), strings.text
    mappings = OTLP.inside(dictionary, "ProfilesDictionary", "mappingTable", "mapping_table")
    message.budget.charge(bounds.MAPPING * len(mappings))
    rows = OTLP.columns(mappings, "Mapping", "memoryStart", "memoryLimit", "fileOffset", "filenameStrindex")
    attributes = lists(mappings, "Mapping", "attributeIndices")
    tables.mappings = [(*row, attributes[index]) for index, row in enumerate(zip(*rows, strict=True))]
    locations = OTLP.inside(dictionary, "ProfilesDictionary", "locationTable", "location_table")
    tables.location_mapping, tables.location_address = OTLP.columns(locations, "Location", "mappingIndex", "address")
    lines = OTLP.inside(locations, "Location", "lines", "line")
    tables.line_location = array("Q", lines.parent)
    tables.line_function, tables.line = OTLP.columns(lines, "Line", "functionIndex", "line")
    functions = OTLP.inside(dictionary, "ProfilesDictionary", "functionTable", "function_table")
    message.budget.charge(bounds.FRAME * (len(functions) + len(lines)))
    tables.functions = list(zip(*OTLP.columns(functions, "Function", *FUNCTION), strict=True))
    stacks = OTLP.inside(dictionary, "ProfilesDictionary", "stackTable", "stack_table")
    tables.stacks = lists(stacks, "Stack", "locationIndices")
    _attributes(tables, OTLP.inside(dictionary, "ProfilesDictionary", "attributeTable", "attribute_table"))
    resources = OTLP.inside(message, ROOT, "resourceProfiles", "resource_profiles")
    scopes = OTLP.inside(resources, "ResourceProfiles", "scopeProfiles", "scope_profiles")
    profiles = OTLP.inside(scopes, "ScopeProfiles", "profiles", "profile")
    message.budget.charge(bounds.INNER_PROFILE * len(profiles))
    pids: dict[int, int] = {}  # of resources
    for index in range(len(profiles)):
        kind = _kind(profiles.item(index))
        resource = scopes.parent[profiles.parent[index]]
        if resource not in pids:
            pids[resource] = _pid(resources.item(resource), strings)
        kind.pid = pids[resource]
        tables.kinds.append(kind)
    return tables


def lists(messages: Messages, message: str, field: str) -> Lists:
    """Return the repeated numbers of each message."""
    return Lists(*OTLP.lists(messages, message, field))


def _attributes(tables: OtlpTables, attributes: Messages) -> None:
    attributes.budget.charge(bounds.LABEL * len(attributes))
    keys, units = OTLP.columns(attributes, "KeyValueAndUnit", "keyStrindex", "unitStrindex")
    values = _values(attributes, "KeyValueAndUnit", tables.strings, tables.text)
    tables.attributes += [
        (key, text, number, unit) for key, (text, number), unit in zip(keys, values, units, strict=True)
    ]


def _values(attributes: Messages, message: str, strings: int, text: Callable[[int], str]) -> list[tuple[str, int]]:
    """Return the AnyValue of each message, as text and as a number."""
    attributes.budget.charge(bounds.FRAME * len(attributes))
    out = [("", 0)] * len(attributes)
    values = OTLP.inside(attributes, message, "value")
    numbers, indices = OTLP.columns(values, "AnyValue", "intValue", "stringValueStrindex")
    texts = OTLP.inside(values, "AnyValue", "stringValue", "string_value")
    own = {parent: texts.text(index) for index, parent in enumerate(texts.parent)}
    for row, (parent, number, index) in enumerate(zip(values.parent, numbers, indices, strict=True)):
        out[parent] = text(index) if 0 < index < strings else own.get(row, ""), signed(number)
    return out


def _pid(resource: Messages, strings: Messages) -> int:
    """Return the pid of a resource, or 0."""
    attributes = OTLP.inside(OTLP.inside(resource, "ResourceProfiles", "resource"), "Resource", "attributes")
    keys = OTLP.inside(attributes, "KeyValue", "key")
    key_of = {parent: keys.text(index) for index, parent in enumerate(keys.parent)}
    (indices,) = OTLP.columns(attributes, "KeyValue", "keyStrindex")
    values = _values(attributes, "KeyValue", len(strings), strings.text)
    for row, (index, (_, number)) in enumerate(zip(indices, values, strict=True)):
        if (key_of.get(row) or (strings.text(index) if 0 < index < len(strings) else "")) == PID:
            return number
    return 0


def _kind(profile: Messages) -> OtlpProfile:
    (time,), (duration,), (period,) = OTLP.columns(profile, "Profile", "timeUnixNano", "durationNano", "period")
    kind = OtlpProfile(0, 0, time, duration, signed(period))
    kind.type, kind.unit = _value_type(profile, "sampleType", "sample_type")
    kind.period_type = _value_type(profile, "periodType", "period_type")
    samples = OTLP.inside(profile, "Profile", "samples", "sample")
    samples.budget.charge(bounds.ENTRY * len(samples))
    (kind.stack,) = OTLP.columns(samples, "Sample", "stackIndex")
    values, times = lists(samples, "Sample", "values"), lists(samples, "Sample", "timestampsUnixNano")
    kind.value = wire.zeros("q", len(samples))
    stacks_kernel.add_up(values.values, values.first, times.first, kind.value)
    kind.attributes = lists(samples, "Sample", "attributeIndices")
    return kind


def _value_type(profile: Messages, field: str, part: str) -> tuple[int, int]:
    """Return the string indices of a ValueType; the last of several counts."""
    types = OTLP.inside(profile, "Profile", field, part)
    columns = OTLP.columns(types, "ValueType", *VALUE_TYPE)
    return next(zip(*map(reversed, columns), strict=True), (0, 0))


def renamed_binary(profile: ProfileData, message: Messages, names: OtlpNames, skip: int) -> bytes:
    """Return the message with new lines for the locations in profile.changed; only the dictionary changes."""
    if not profile.changed:
        return message.data
    dictionary = dictionary_of(message)
    chains = Chains.of(profile, profile.changed, skip)
    budget = bounds.writing(profile.stored, "the lines of named locations")
    budget.charge(bounds.JSON_VALUE * chains.lines_in_all())
    numbers, new = chains.functions()
    texts = list(new.texts)
    ids = array("Q")
    for name, file, start_line in zip(new.name, new.file, new.start_line, strict=True):
        ids.append(names.function(Frame(texts[name], texts[file], start_line=start_line)))
    first, functions, lines = chains.lines(ids, numbers)
    body = wire.splice(
        dictionary,
        NewNames(
            OTLP.number("ProfilesDictionary", "locationTable"),
            OTLP.number("Location", "lines"),
            OTLP.number("Line", "functionIndex"),
            OTLP.number("Line", "line"),
            first,
            functions,
            lines,
        ),
    )
    more = {"functionTable": names.new_functions, "stringTable": names.new_strings}
    body.extend(OTLP.encoded(more, "ProfilesDictionary"))
    start, end = dictionary.start[0], dictionary.end[0]
    before, after = message.data[: field_start(message.data, start)], message.data[end:]
    return before + wire.payload(DICTIONARY, bytes(body)) + after


def field_start(data: bytes, body: int) -> int:
    """Return the offset of the dictionary's tag; its payload is at `body`, after the tag and the length."""
    offset = body - 1
    while offset > 0 and data[offset - 1] & 0x80:  # continuation bytes of the length; the tag is below 0x80
        offset -= 1
    if data[offset - 1 : offset] != wire.tag(DICTIONARY):
        raise ProfileError(ROOT, offset, "the tag of the dictionary is not one byte")
    return offset - 1
