"""The PDB stream: the identity of a file and the names of its streams.

version, signature (a time), age, GUID
named streams   a buffer of names, and a hash table from offsets in it to numbers of streams
features        "MINI" is a file of /DEBUG:FASTLINK, whose symbols are in the object files
"""

from __future__ import annotations

import struct

from whence._base.errors import PdbError, Unsupported, cut_off
from whence._base.records import Record
from whence._base.window import cstring
from whence.objects.pdb import layout

FASTLINK = "a PDB file of /DEBUG:FASTLINK, whose symbols are in the object files"
FASTLINK_HINT = "link with /DEBUG:FULL, or make a full PDB file with mspdbcmf.exe on the machine that linked it"


class PdbIdentity(Record, frozen=True):
    """The identity: the GUID in hex as debuggers print it, the age of the PDB file, and the named streams."""

    guid: str
    age: int
    streams: dict[str, int]


def read_info(content: memoryview) -> PdbIdentity:
    """Return the content of the PDB stream. Raises PdbError, and Unsupported for a file of /DEBUG:FASTLINK."""
    size = struct.calcsize(layout.INFO)
    if len(content) < size:
        raise cut_off(PdbError, "PDB stream", 0, size, len(content))
    version, _, age, guid = struct.unpack_from(layout.INFO, content)
    if version not in layout.INFO_VERSIONS:
        raise PdbError("PDB stream", 0, f"the version is {version}, expected {layout.INFO_VERSIONS.start} or later")
    streams, features = read_named_streams(content, size)
    if layout.FEATURE_MINIMAL_DEBUG_INFO in features:
        raise Unsupported(FASTLINK).with_hint(FASTLINK_HINT)
    return PdbIdentity(guid_text(guid), age, streams)


def guid_text(guid: bytes) -> str:
    """Return a GUID in hex as debuggers print it, whose first three fields are numbers; "" for zeros."""
    first, second, third, rest = struct.unpack("<IHH8s", guid)
    return f"{first:08x}{second:04x}{third:04x}{rest.hex()}" if any(guid) else ""


def read_named_streams(content: memoryview, start: int) -> tuple[dict[str, int], tuple[int, ...]]:
    """Return the named streams, and the features after them. A damaged table has as many as are in the stream."""
    words = content[start:]
    if len(words) < 4:
        return {}, ()
    size = struct.unpack_from("<I", words)[0]
    names, table = words[4 : 4 + size], words[4 + size :]
    streams: dict[str, int] = {}
    if len(table) < 12:
        return streams, ()
    count, _, present = struct.unpack_from("<III", table)
    position = 12 + 4 * present
    if position + 4 > len(table):
        return streams, ()
    position += 4 + 4 * struct.unpack_from("<I", table, position)[0]
    for _ in range(min(count, max(0, len(table) - position) // 8)):
        offset, stream = struct.unpack_from("<II", table, position)
        position += 8
        streams.setdefault(cstring(names, offset).decode("utf-8", "surrogateescape"), stream)
    position = min(position, len(table))
    left = (len(table) - position) // 4
    return streams, struct.unpack_from(f"<{left}I", table, position)
