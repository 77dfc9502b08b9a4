"""OTLP's profiles (v1development, dictionary form) as a table of fields, and one loop that writes by it.

A message is {name in JSON: (field number, kind)}. Kinds: i32 and i64 are varints (JSON writes 64-bit numbers as text),
f64 is fixed64, text, bytes; a name is a message; a kind in a list is repeated, and packed where it is a number.
Reference: opentelemetry-proto, profiles/v1development/profiles.proto and common/v1/common.proto.
"""

from __future__ import annotations

import base64
from typing import Any

from whence.profiles import wire

Document = dict[str, Any]
Kind = str | list[str]

SCHEMA: dict[str, dict[str, tuple[int, Kind]]] = {
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
    "ResourceProfiles": {"scopeProfiles": (2, ["ScopeProfiles"])},
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
    "AnyValue": {"stringValue": (1, "text"), "intValue": (3, "i64")},
}


def encoded(document: Document, message: str = "ProfilesData") -> bytes:
    """A document (numbers as numbers) in binary."""
    out = []
    for name, (number, kind) in SCHEMA[message].items():
        if name not in document:
            continue
        value = document[name]
        if isinstance(kind, str):
            out.append(_field(number, kind, value))
        elif kind[0] in ("i32", "i64"):
            out.append(wire.packed(number, value))
        elif kind[0] == "f64":
            body = b"".join(one.to_bytes(8, "little") for one in value)
            out.append(wire.payload(number, body) if body else b"")
        else:
            out += [_field(number, kind[0], one) for one in value]
    return b"".join(out)


def _field(number: int, kind: str, value: Any) -> bytes:
    match kind:
        case "i32" | "i64":
            return wire.number(number, value)
        case "f64":
            return wire.fixed64(number, value)
        case "text":
            return wire.text(number, value)
        case "bytes":
            return wire.payload(number, value)
        case _:
            return wire.payload(number, encoded(value, kind))


def jsonable(document: Document, message: str = "ProfilesData") -> Document:
    """The same document as JSON has it: 64-bit numbers as text, bytes in base64."""
    out: Document = {}
    for name, (_, kind) in SCHEMA[message].items():
        if name in document:
            value = document[name]
            out[name] = _json(kind, value) if isinstance(kind, str) else [_json(kind[0], one) for one in value]
    return out


def _json(kind: str, value: Any) -> Any:
    if kind in ("i64", "f64"):
        return str(value)
    if kind == "bytes":
        return base64.b64encode(value).decode()
    return jsonable(value, kind) if kind in SCHEMA else value
