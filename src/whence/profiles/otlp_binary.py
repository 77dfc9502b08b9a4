"""OTLP in binary: its tables read as columns, its dictionary written again with other names."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from whence.errors import ProfileError
from whence.profiles import bounds, wire
from whence.profiles.kernels import stacks as stacks_kernel
from whence.profiles.model import Profile
from whence.profiles.otlp_schema import encoded
from whence.profiles.otlp_tables import PID, Kind, Lists, Tables, signed
from whence.profiles.wire import Messages

if TYPE_CHECKING:
    from whence.profiles.otlp import Names


def lists(messages: Messages, number: int, fixed64: bool = False) -> Lists:
    """The repeated numbers of each message."""
    return Lists(*messages.numbers(number, fixed64))


def dictionary_of(whole: Messages) -> Messages:
    found = whole.field(2, "dictionary")
    if len(found) != 1:
        raise ProfileError("ProfilesData", None, "it has one dictionary", len(found))
    return found


def tables_of(whole: Messages) -> Tables:
    """The tables of a ProfilesData message."""
    dictionary = dictionary_of(whole)
    tables = Tables()
    strings = dictionary.field(5, "string_table")
    tables.strings, tables.text = len(strings), strings.text
    mappings = dictionary.field(1, "mapping_table")
    whole.budget.charge(bounds.MAPPING * len(mappings))
    rows = mappings.table(5)
    attributes = lists(mappings, 5)
    tables.mappings = [
        (rows[5 * i + 1], rows[5 * i + 2], rows[5 * i + 3], rows[5 * i + 4], attributes[i])
        for i in range(len(mappings))
    ]
    locations = dictionary.field(2, "location_table")
    rows = locations.table(3)
    tables.location_mapping = rows[1::3]
    tables.location_address = rows[2::3]
    lines = locations.field(3, "line")
    rows = lines.table(3)
    tables.line_location = array("Q", lines.parent)
    tables.line_function, tables.line = rows[1::3], rows[2::3]
    functions = dictionary.field(3, "function_table")
    whole.budget.charge(bounds.FRAME * (len(functions) + len(lines)))
    rows = functions.table(5)
    tables.functions = list(zip(rows[1::5], rows[2::5], rows[3::5], rows[4::5], strict=True))
    tables.stacks = lists(dictionary.field(7, "stack_table"), 1)
    _attributes(tables, dictionary.field(6, "attribute_table"))
    resources = whole.field(1, "resource_profiles")
    scopes = resources.field(2, "scope_profiles")
    profiles = scopes.field(2, "profile")
    whole.budget.charge(bounds.INNER_PROFILE * len(profiles))
    pids: dict[int, int] = {}  # of resources
    for at in range(len(profiles)):
        kind = _kind(profiles.one(at))
        resource = scopes.parent[profiles.parent[at]]
        if resource not in pids:
            pids[resource] = _pid(resources.one(resource), strings)
        kind.pid = pids[resource]
        tables.kinds.append(kind)
    return tables


def _attributes(tables: Tables, attributes: Messages) -> None:
    attributes.budget.charge(bounds.LABEL * len(attributes))
    rows = attributes.table(4)
    for at, (text, number) in enumerate(_values(attributes, tables.strings, tables.text)):
        tables.attributes.append((rows[4 * at + 1], text, number, rows[4 * at + 3]))


def _values(attributes: Messages, strings: int, text: Callable[[int], str]) -> list[tuple[str, int]]:
    """The AnyValue in field 2 of each message, as text and as a number."""
    attributes.budget.charge(bounds.FRAME * len(attributes))
    out = [("", 0)] * len(attributes)
    values = attributes.field(2, "value")
    held = values.table(9)
    texts = values.field(1, "string_value")
    words = {parent: texts.text(at) for at, parent in enumerate(texts.parent)}
    for at, parent in enumerate(values.parent):
        index = held[9 * at + 8]
        out[parent] = text(index) if 0 < index < strings else words.get(at, ""), signed(held[9 * at + 3])
    return out


def _pid(resource: Messages, strings: Messages) -> int:
    """The process a resource says its profiles are of; 0 when it does not."""
    attributes = resource.field(1, "resource").field(1, "attributes")
    keys = attributes.field(1, "key")
    named = {parent: keys.text(at) for at, parent in enumerate(keys.parent)}
    rows = attributes.table(4)
    for at, (_, number) in enumerate(_values(attributes, len(strings), strings.text)):
        index = rows[4 * at + 3]
        if (named.get(at) or (strings.text(index) if 0 < index < len(strings) else "")) == PID:
            return number
    return 0


def _kind(profile: Messages) -> Kind:
    rows = profile.table(12)
    kind = Kind(0, 0, rows[3], rows[4], signed(rows[6]))
    for number, name in ((1, "sample_type"), (5, "period_type")):
        types = profile.field(number, name)
        if len(types):
            _, type_, unit = types.table(3)[-3:]
            if number == 1:
                kind.type, kind.unit = type_, unit
            else:
                kind.period_type = type_, unit
    samples = profile.field(2, "sample")
    samples.budget.charge(bounds.ENTRY * len(samples))
    kind.stack = samples.table(2)[1::2]
    values, times = lists(samples, 4), lists(samples, 5, fixed64=True)
    kind.value = wire.room("q", len(samples))
    stacks_kernel.add_up(values.values, values.first, times.first, kind.value)
    kind.attributes = lists(samples, 2)
    return kind


def renamed(profile: Profile, whole: Messages, names: Names, skip: int) -> bytes:
    """The message again with the frames of profile.changed; only the dictionary's bytes differ."""
    if not profile.changed:
        return whole.data
    dictionary = dictionary_of(whole)
    bounds.writing(profile.stored, "the lines of named locations").charge(
        bounds.JSON_VALUE * sum(len(profile.frames[location]) for location in profile.changed)
    )
    first = array("Q", bytes(8 * (len(profile.address) + skip + 1)))
    functions, lines = array("Q"), array("Q")
    for location, frames in enumerate(profile.frames):
        if location in profile.changed:
            for frame in frames:
                functions.append(names.function(frame))
                lines.append(max(0, frame.line))
        first[location + skip + 1] = len(lines)
    body = wire.splice(dictionary, 2, 3, first, functions, lines)
    for one in names.new_functions:
        body += wire.payload(3, encoded(one, "Function"))
    for text in names.new_strings:
        body += wire.text(5, text)
    start, end = dictionary.start[0], dictionary.end[0]
    return whole.data[: field_start(whole.data, start)] + wire.payload(2, bytes(body)) + whole.data[end:]


def field_start(data: bytes, body: int) -> int:
    """Where the dictionary's field starts whose payload starts at `body`: before its length and its tag."""
    at = body - 1
    while at > 0 and data[at - 1] & 0x80:  # a length's bytes but the last are 0x80 and above; the tag is not
        at -= 1
    if data[at - 1] != 2 << 3 | 2:
        raise ProfileError("ProfilesData", at, "the tag of its dictionary is one byte", data[at - 1 : at])
    return at - 1
