"""Breakpad's form of a build-id, which identifies files in Firefox's profiles and on symbol servers.

It is a GUID of the first 16 bytes (the first three fields little-endian) and an age, which is 0 for ELF. The other
bytes are lost; a profile may have the complete build-id too (codeId).
"""

from __future__ import annotations

GUID_BYTES = 16
UNKNOWN = "0" * (2 * GUID_BYTES + 1)


def debug_id(build_id: str) -> str:
    """Return the debug id for a build-id; zeros if the build-id is not in hex.

    >>> debug_id("04a4564439753cf113ec8a9a8a0b8c3c2f2f2f2f")
    '4456A4047539F13C13EC8A9A8A0B8C3C0'
    """
    try:
        raw = bytes.fromhex(build_id)[:GUID_BYTES]
    except ValueError:  # a build-id of Go's
        return UNKNOWN
    if not raw:
        return UNKNOWN
    return f"{swapped(raw.ljust(GUID_BYTES, bytes(1))).hex().upper()}0"


def build_id(debug_id: str) -> str:
    """Return the first 16 bytes of the build-id of a debug id, in hex; "" for an invalid debug id.

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
    """Return the bytes with the first three fields of the GUID in the other byte order."""
    return raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]
