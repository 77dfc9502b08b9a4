"""OTLP profiles: opentelemetry.proto.profiles.v1development.ProfilesData, in binary or JSON.

    read     either form (gzip too), with every index checked; several profiles inside share one dictionary and become
             one Profile with a sample type for each kind of them
    write    a profile that was read from OTLP: the same data with other names, functions and strings added behind; in
             binary every other byte is passed on, in JSON every other value. Any other profile: written whole

Addresses are told apart as everywhere (whence.profiles.addresses); build-ids are the mapping's attributes
process.executable.build_id.gnu and .go. A sample without values counts its timestamps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from whence._version import __version__
from whence.budget import Budget
from whence.errors import ProfileError
from whence.model import Frame
from whence.profiles import bounds, gz, otlp_binary, otlp_json
from whence.profiles.json_text import written
from whence.profiles.model import NO_MAPPING, Profile
from whence.profiles.otlp_json import Text
from whence.profiles.otlp_schema import Document, encoded, jsonable
from whence.profiles.otlp_tables import BUILD_IDS, Tables, first_location, profile_of
from whence.profiles.wire import Messages


@dataclass(slots=True)
class Origin:
    """What an OTLP profile was read from: a JSON document, or the whole message and its dictionary."""

    document: Text | None = field(repr=False)
    whole: Messages | None
    tables: Tables = field(repr=False)
    compressed: bool


def read(data: bytes, *, compressed: bool = False, budget: Budget | None = None) -> Profile:
    """The profile in `data`; a ProfileError says which part of it breaks which rule.

    `compressed` says that plain data came out of gzip and is to go back into it; `budget` then counts what is stored.
    """
    packed = data.startswith(gz.MAGIC)
    compressed |= packed
    budget = budget or bounds.reading(len(data))
    plain = gz.inflated(data, budget) if packed else data
    if plain.lstrip()[:1] == b"{":
        try:
            document, tables = otlp_json.read(plain.decode("utf-8"), budget)
        except (ValueError, RecursionError) as error:
            raise ProfileError("otlp", None, "it is JSON", str(error)) from error
        origin = Origin(document, None, tables, compressed)
    else:
        whole = Messages.whole(plain, "ProfilesData", budget)
        tables = otlp_binary.tables_of(whole)
        origin = Origin(None, whole, tables, compressed)
    profile = profile_of(tables, budget)
    profile.origin = origin
    profile.stored = bounds.stored(budget)
    return profile


def write(profile: Profile, *, json: bool | None = None) -> bytes:
    """The profile as OTLP; `json` chooses the form (default: the one it was read in, else binary)."""
    origin = profile.origin
    if isinstance(origin, Origin) and (json is None or json == (origin.document is not None)):
        names = Names(profile, origin.tables)
        if origin.document is not None:
            out = otlp_json.renamed(profile, origin.document, names, first_location(origin.tables)).encode()
        else:
            assert origin.whole is not None
            out = otlp_binary.renamed(profile, origin.whole, names, first_location(origin.tables))
        return gz.deflated(out) if origin.compressed else out
    document = document_of(profile)
    return written(jsonable(document)).encode() if json else encoded(document)


def is_text(profile: Profile) -> bool:
    """Whether `write` gives JSON that a person can read: the profile was read from such."""
    origin = profile.origin
    return isinstance(origin, Origin) and origin.document is not None and not origin.compressed


class Names:
    """The string and function tables as they grow; new entries are listed in the order they get their index."""

    def __init__(self, profile: Profile, tables: Tables | None = None) -> None:
        self.profile = profile
        self.new_strings: list[str] = []
        self.new_functions: list[Document] = []
        self.strings: dict[str, int] = {}
        self._strings = tables.strings if tables else 0
        self._functions = len(tables.functions) if tables else 0
        self._known: dict[tuple[str, str, int], int] = {}
        for index in range(self._strings):
            self.strings.setdefault(tables.text(index) if tables else "", index)
        self.string("")
        if not self._functions:
            self.new_functions.append({})
            self._functions = 1

    def string(self, text: str) -> int:
        found = self.strings.get(text)
        if found is None:
            found = self.strings[text] = self._strings
            self._strings += 1
            self.new_strings.append(text)
        return found

    def function(self, frame: Frame) -> int:
        """The index of a frame's function."""
        name, file, start = frame.function, frame.file, frame.start_line
        found = self._known.get((name, file, start))
        if found is None:
            found = self._known[name, file, start] = self._functions
            self._functions += 1
            system = self.profile.system_names.get(name, name)
            entry = {"nameStrindex": self.string(name), "systemNameStrindex": self.string(system)}
            entry |= {"filenameStrindex": self.string(file)}
            self.new_functions.append(entry | ({"startLine": start} if start else {}))
        return found


def document_of(profile: Profile) -> Document:
    """The whole profile from its model: one OTLP profile for each sample type."""
    names = Names(profile)
    attributes: dict[tuple[str, str | int, str], int] = {}

    def attribute(key: str, value: str | int, unit: str = "") -> int:
        return attributes.setdefault((key, value, unit), len(attributes) + 1)

    mappings: list[Document] = [{}]
    for one in profile.mappings:
        entry: Document = {"memoryStart": one.start, "memoryLimit": one.limit, "fileOffset": one.file_offset}
        entry["filenameStrindex"] = names.string(one.path)
        if one.build_id:
            entry["attributeIndices"] = [attribute(BUILD_IDS[0], one.build_id)]
        mappings.append(entry)
    locations: list[Document] = [{}]
    for mapping, address, frames in zip(profile.mapping, profile.address, profile.frames, strict=True):
        entry = {"mappingIndex": 0 if mapping == NO_MAPPING else mapping + 1, "address": address}
        if frames:
            entry["lines"] = [{"functionIndex": names.function(frame), "line": frame.line} for frame in frames]
        locations.append(entry)
    samples = profile.samples
    budget = bounds.writing(profile.stored, "OTLP's tables")
    budget.charge(bounds.JSON_OBJECT * len(samples) * len(profile.sample_types))
    budget.charge(bounds.STRING * sum(map(len, samples.labels)))
    stacks: dict[tuple[int, ...], int] = {(): 0}
    places: dict[int, int] = {}  # where each stack went
    rows = []
    for index in range(len(samples)):
        at = samples.of[index]
        if at not in places:
            budget.charge(bounds.JSON_OBJECT + bounds.JSON_VALUE * (samples.first[at + 1] - samples.first[at]))
            stack = tuple(one + 1 for one in samples.locations_of(at))
            places[at] = stacks.setdefault(stack, len(stacks))
        labels = [attribute(one.key, one.text or one.number, one.unit) for one in samples.labels[index]]
        rows.append((places[at], labels))
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
        held = {"stringValue": value} if isinstance(value, str) else {"intValue": value}
        table.append({"keyStrindex": names.string(key), "value": held, "unitStrindex": names.string(unit)})
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
