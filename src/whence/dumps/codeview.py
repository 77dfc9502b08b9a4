"""CodeView records: the identity of a module's debug information.

RSDS   GUID and age of the PDB; for files of other systems a UUID, or the start of an ELF build-id
NB10   time stamp and age of an older PDB
BpEL   a whole ELF build-id (Breakpad, LLDB)
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from whence._base.window import cstring
from whence.dumps import minidump_layout as layout

if TYPE_CHECKING:
    from whence._base.window import ByteOrder

BUILD_ID_LIMIT = 64  # bytes
PATH_LIMIT = 1 << 12
RSDS_SIZE, NB10_SIZE = 24, 16  # without the path


class CodeView(NamedTuple):
    """`build_id` identifies the file, `debug_id` its debug file as symbol servers spell it, `file` is its path."""

    build_id: str = ""
    debug_id: str = ""
    file: str = ""


def read_codeview(record: memoryview, order: ByteOrder, is_raw: bool = False) -> CodeView:
    """Return the identity in a record; empty for an unknown one.

    `is_raw`: the GUID has the bytes of an ELF build-id as they are, as Breakpad writes on Linux.

    >>> read_codeview(memoryview(b"LEpB" + bytes(range(8))), "little").build_id
    '0001020304050607'
    """
    mark = "<" if order == "little" else ">"
    signature = int.from_bytes(record[:4], order)
    if signature == layout.CODEVIEW_ELF:
        build_id = bytes(record[4 : 4 + BUILD_ID_LIMIT])
        return CodeView(build_id.hex(), _debug_id(build_id)) if any(build_id) else CodeView()
    if signature == layout.CODEVIEW_RSDS and len(record) >= RSDS_SIZE:
        raw = bytes(record[4:20])
        first, second, third, rest, age = struct.unpack_from(mark + "IHH8sI", record, 4)
        guid = f"{first:08x}{second:04x}{third:04x}{rest.hex()}"
        file = _path(record[RSDS_SIZE : RSDS_SIZE + PATH_LIMIT])
        if not any(raw):
            return CodeView(file=file)
        return CodeView(raw.hex() if is_raw else guid, f"{guid.upper()}{age:X}", file)
    if signature == layout.CODEVIEW_NB10 and len(record) >= NB10_SIZE:
        time, age = struct.unpack_from(mark + "II", record, 8)
        identity = f"{time:08X}{age:X}"
        return CodeView(identity.lower() if time else "", identity, _path(record[NB10_SIZE : NB10_SIZE + PATH_LIMIT]))
    return CodeView()


def _path(raw: memoryview) -> str:
    return cstring(raw, 0).decode("utf-8", "replace")


def _debug_id(build_id: bytes) -> str:
    """Return Breakpad's ID of an ELF file: the first 16 bytes as a GUID, and age 0."""
    first, second, third, rest = struct.unpack("<IHH8s", build_id[:16].ljust(16, b"\0"))
    return f"{first:08x}{second:04x}{third:04x}{rest.hex()}0".upper()
