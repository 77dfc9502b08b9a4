"""OTLP in binary: its tables read as columns, its dictionary written again with other names."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from whence.errors import ProfileError
from whence.profiles import wire
from whence.profiles.model import Profile
from whence.profiles.otlp_schema import encoded
from whence.profiles.otlp_tables import Kind, Tables
from whence.profiles.wire import Messages

if TYPE_CHECKING:
    from whence.profiles.otlp import Names


def signed(value: int, bits: int = 64) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def index(value: int) -> int:
    """An int32 as it was meant; negative ones are no index and are refused where they are used."""
    return signed(value, 32)


def groups(messages: Messages, number: int, fixed64: bool = False) -> list[array[int]]:
    """The repeated numbers of each message."""
    values, first = messages.numbers(number, fixed64)
    return [values[first[i] : first[i + 1]] for i in range(len(messages))]


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
    tables.strings = [strings.text(i) for i in range(len(strings))]
    mappings = dictionary.field(1, "mapping_table")
    rows = mappings.table(5)
    attributes = groups(mappings, 5)
    tables.mappings = [
        (rows[5 * i + 1], rows[5 * i + 2], rows[5 * i + 3], index(rows[5 * i + 4]), attributes[i])
        for i in range(len(mappings))
    ]
    locations = dictionary.field(2, "location_table")
    rows = locations.table(3)
    tables.location_mapping = [index(one) for one in rows[1::3]]
    tables.location_address = rows[2::3]
    lines = locations.field(3, "line")
    rows = lines.table(4)
    for at, parent in enumerate(lines.parent):
        tables.lines.setdefault(parent, []).append((index(rows[4 * at + 1]), signed(rows[4 * at + 2])))
    rows = dictionary.field(3, "function_table").table(5)
    tables.functions = [
        (index(rows[i + 1]), index(rows[i + 2]), index(rows[i + 3]), signed(rows[i + 4]))
        for i in range(0, len(rows), 5)
    ]
    tables.stacks = list(groups(dictionary.field(7, "stack_table"), 1))
    _attributes(tables, dictionary.field(6, "attribute_table"))
    profiles = whole.field(1, "resource_profiles").field(2, "scope_profiles").field(2, "profile")
    tables.kinds = [_kind(profiles.one(at)) for at in range(len(profiles))]
    return tables


def _attributes(tables: Tables, attributes: Messages) -> None:
    rows = attributes.table(4)
    values = attributes.field(2, "value")
    held = values.table(9)
    texts = values.field(1, "string_value")
    text = {values.parent[texts.parent[at]]: texts.text(at) for at in range(len(texts))}
    number = {parent: (signed(held[9 * at + 3]), index(held[9 * at + 8])) for at, parent in enumerate(values.parent)}
    for at in range(len(attributes)):
        whole, string = number.get(at, (0, 0))
        words = text.get(at, "")
        if string and 0 < string < len(tables.strings):
            words = tables.strings[string]
        tables.attributes.append((index(rows[4 * at + 1]), words, whole, index(rows[4 * at + 3])))


def _kind(profile: Messages) -> Kind:
    rows = profile.table(12)
    kind = Kind(0, 0, rows[3], rows[4], signed(rows[6]))
    for number, name in ((1, "sample_type"), (5, "period_type")):
        types = profile.field(number, name)
        if len(types):
            _, type_, unit = types.table(3)[-3:]
            if number == 1:
                kind.type, kind.unit = index(type_), index(unit)
            else:
                kind.period_type = index(type_), index(unit)
    samples = profile.field(2, "sample")
    kind.stack = [index(one) for one in samples.table(2)[1::2]]
    times = groups(samples, 5, fixed64=True)
    values = groups(samples, 4)
    kind.value = [sum(map(signed, one)) if len(one) else len(times[at]) for at, one in enumerate(values)]
    kind.attributes = list(groups(samples, 2))
    return kind


def renamed(profile: Profile, whole: Messages, names: Names, skip: int) -> bytes:
    """The message again with the frames of profile.changed; only the dictionary's bytes differ."""
    if not profile.changed:
        return whole.data
    dictionary = dictionary_of(whole)
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
