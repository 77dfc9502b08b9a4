"""Breakpad's form of a build-id, by which Firefox's profiles and symbol servers know a file.

It is a GUID made of the first 16 bytes (the first three fields little-endian) and an age, 0 for ELF. What lies behind
these bytes is lost; a profile may have the whole build-id beside it (codeId).
"""

from __future__ import annotations

GUID_BYTES = 16
UNKNOWN = "0" * (2 * GUID_BYTES + 1)


def debug_id(build_id: str) -> str:
    """The debug id of a file with this build-id; zeros where it has none.

    >>> debug_id("04a4564439753cf113ec8a9a8a0b8c3c2f2f2f2f")
    '4456A4047539F13C13EC8A9A8A0B8C3C0'
    """
    try:
        raw = bytes.fromhex(build_id)[:GUID_BYTES]
    except ValueError:  # Go's own are no hex
        return UNKNOWN
    if not raw:
        return UNKNOWN
    return f"{swapped(raw.ljust(GUID_BYTES, bytes(1))).hex().upper()}0"


def build_id(debug_id: str) -> str:
    """The first 16 bytes of the build-id that a debug id was made of; "" where it is none.

    >>> build_id("4456A4047539F13C13EC8A9A8A0B8C3C0")
    '04a4564439753cf113ec8a9a8a0b8c3c'
    """
    digits = debug_id.replace("-", "")[: 2 * GUID_BYTES]
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        return ""
    return swapped(raw).hex() if len(raw) == GUID_BYTES and any(raw) else ""


def swapped(raw: bytes) -> bytes:
    return raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]
