"""The messages of pprof and OTLP as tables of fields, with readers and writers for any such table.

A message is {name: (field number, kind)}. Kinds are i32, i64 and bool (varints; JSON writes 64-bit numbers as text),
f64 (fixed64), text, bytes, and names of messages; a kind in a list is repeated, and packed if it is a number. OTLP's
fields have their JSON names, as both forms are read and written.

References: github.com/google/pprof, proto/profile.proto; opentelemetry-proto, profiles/v1development/profiles.proto and
common/v1/common.proto.
"""

from __future__ import annotations

import base64
from array import array
from typing import Any

from whence.samples import wire
from whence.samples.wire import Messages

Document = dict[str, Any]
Kind = str | list[str]

VARINTS = ("i32", "i64", "bool")


class Schema:
    """The messages of a format, whose fields are accessed by name."""

    def __init__(self, messages: dict[str, dict[str, tuple[int, Kind]]]) -> None:
        self.messages = messages

    def __repr__(self) -> str:
        return f"<Schema: {', '.join(self.messages)}>"

    def number(self, message: str, field: str) -> int:
        """Return the number of a field."""
        return self.messages[message][field][0]

    def inside(self, messages: Messages, message: str, field: str, part: str = "") -> Messages:
        """Return the values of a field: messages, texts or bytes. Errors name them `part` (default: `field`)."""
        return messages.field(self.number(message, field), part or field)

    def parts(self, messages: Messages, message: str, *fields: str) -> list[Messages]:
        """Return the values of each of several fields of messages, in one scan."""
        return messages.fields({field: self.number(message, field) for field in fields})

    def columns(self, messages: Messages, message: str, *fields: str) -> list[array[int]]:
        """Return a column for each of several scalar fields: the number of each message, or 0."""
        numbers = [self.number(message, field) for field in fields]
        width = max(numbers) + 1
        rows = messages.table(width)
        return [rows[number::width] for number in numbers]

    def lists(self, messages: Messages, message: str, field: str) -> tuple[array[int], array[int]]:
        """Return the values of a repeated number, and the index of each message's first value (and the end)."""
        number, kind = self.messages[message][field]
        return messages.numbers(number, fixed64=kind == ["f64"])

    def encoded(self, document: Document, message: str) -> bytes:
        """Return a message in binary form."""
        out = []
        for name, (number, kind) in self.messages[message].items():
            if name not in document:
                continue
            value = document[name]
            if isinstance(kind, str):
                out.append(self._field(number, kind, value))
            elif kind[0] in VARINTS:
                out.append(wire.packed(number, value))
            elif kind[0] == "f64":
                body = b"".join(number.to_bytes(8, "little") for number in value)
                out.append(wire.payload(number, body) if body else b"")
            else:
                out += [self._field(number, kind[0], item) for item in value]
        return b"".join(out)

    def _field(self, number: int, kind: str, value: Any) -> bytes:
        if kind in VARINTS:
            return wire.number(number, value)
        match kind:
            case "f64":
                return wire.fixed64(number, value)
            case "text":
                return wire.text(number, value)
            case "bytes":
                return wire.payload(number, value)
        return wire.payload(number, self.encoded(value, kind))

    def jsonable(self, document: Document, message: str) -> Document:
        """Return a document for JSON: 64-bit numbers as text, bytes in base64."""
        out: Document = {}
        for name, (_, kind) in self.messages[message].items():
            if name in document:
                value = document[name]
                repeated = not isinstance(kind, str)
                out[name] = [self._json(kind[0], item) for item in value] if repeated else self._json(str(kind), value)
        return out

    def _json(self, kind: str, value: Any) -> Any:
        if kind in ("i64", "f64"):
            return str(value)
        if kind == "bytes":
            return base64.b64encode(value).decode()
        return self.jsonable(value, kind) if kind in self.messages else value


PPROF = Schema(
    {
        "Profile": {
            "sample_type": (1, ["ValueType"]),
            "sample": (2, ["Sample"]),
            "mapping": (3, ["Mapping"]),
            "location": (4, ["Location"]),
            "function": (5, ["Function"]),
            "string_table": (6, ["text"]),
            "drop_frames": (7, "i64"),
            "keep_frames": (8, "i64"),
            "time_nanos": (9, "i64"),
            "duration_nanos": (10, "i64"),
            "period_type": (11, "ValueType"),
            "period": (12, "i64"),
            "comment": (13, ["i64"]),
            "default_sample_type": (14, "i64"),
            "doc_url": (15, "i64"),
        },
        "ValueType": {"type": (1, "i64"), "unit": (2, "i64")},
        "Sample": {"location_id": (1, ["i64"]), "value": (2, ["i64"]), "label": (3, ["Label"])},
        "Label": {"key": (1, "i64"), "str": (2, "i64"), "num": (3, "i64"), "num_unit": (4, "i64")},
        "Mapping": {
            "id": (1, "i64"),
            "memory_start": (2, "i64"),
            "memory_limit": (3, "i64"),
            "file_offset": (4, "i64"),
            "filename": (5, "i64"),
            "build_id": (6, "i64"),
            "has_functions": (7, "bool"),
            "has_filenames": (8, "bool"),
            "has_line_numbers": (9, "bool"),
            "has_inline_frames": (10, "bool"),
        },
        "Location": {
            "id": (1, "i64"),
            "mapping_id": (2, "i64"),
            "address": (3, "i64"),
            "line": (4, ["Line"]),
            "is_folded": (5, "bool"),
        },
        "Line": {"function_id": (1, "i64"), "line": (2, "i64"), "column": (3, "i64")},
        "Function": {
            "id": (1, "i64"),
            "name": (2, "i64"),
            "system_name": (3, "i64"),
            "filename": (4, "i64"),
            "start_line": (5, "i64"),
        },
    }
)

OTLP = Schema(
    {
        "ProfilesData": {"resourceProfiles": (1, ["ResourceProfiles"]), "dictionary": (2, "ProfilesDictionary")},
        "ProfilesDictionary": {
            "mappingTable": (1, ["Mapping"]),
            "locationTable": (2, ["Location"]),
            "functionTable": (3, ["Function"]),
            "linkTable": (4, ["Link"]),
            "stringTable": (5, ["text"]),
            "attributeTable": (6, ["KeyValueAndUnit"]),
            "stackTable": (7, ["Stack"]),
        },
        "ResourceProfiles": {"resource": (1, "Resource"), "scopeProfiles": (2, ["ScopeProfiles"])},
        "Resource": {"attributes": (1, ["KeyValue"])},
        "ScopeProfiles": {"scope": (1, "Scope"), "profiles": (2, ["Profile"])},
        "Scope": {"name": (1, "text"), "version": (2, "text")},
        "Profile": {
            "sampleType": (1, "ValueType"),
            "samples": (2, ["Sample"]),
            "timeUnixNano": (3, "f64"),
            "durationNano": (4, "i64"),
            "periodType": (5, "ValueType"),
            "period": (6, "i64"),
            "profileId": (7, "bytes"),
        },
        "ValueType": {"typeStrindex": (1, "i32"), "unitStrindex": (2, "i32")},
        "Sample": {
            "stackIndex": (1, "i32"),
            "attributeIndices": (2, ["i32"]),
            "linkIndex": (3, "i32"),
            "values": (4, ["i64"]),
            "timestampsUnixNano": (5, ["f64"]),
        },
        "Mapping": {
            "memoryStart": (1, "i64"),
            "memoryLimit": (2, "i64"),
            "fileOffset": (3, "i64"),
            "filenameStrindex": (4, "i32"),
            "attributeIndices": (5, ["i32"]),
        },
        "Stack": {"locationIndices": (1, ["i32"])},
        "Location": {"mappingIndex": (1, "i32"), "address": (2, "i64"), "lines": (3, ["Line"])},
        "Line": {"functionIndex": (1, "i32"), "line": (2, "i64"), "column": (3, "i64")},
        "Function": {
            "nameStrindex": (1, "i32"),
            "systemNameStrindex": (2, "i32"),
            "filenameStrindex": (3, "i32"),
            "startLine": (4, "i64"),
        },
        "Link": {},
        "KeyValueAndUnit": {"keyStrindex": (1, "i32"), "value": (2, "AnyValue"), "unitStrindex": (3, "i32")},
        "KeyValue": {"key": (1, "text"), "value": (2, "AnyValue"), "keyStrindex": (3, "i32")},
        "AnyValue": {"stringValue": (1, "text"), "intValue": (3, "i64"), "stringValueStrindex": (8, "i32")},
    }
)
