"""Gzip as profiles come in it: several members, cut files and bombs told apart."""

from __future__ import annotations

import zlib

from whence.errors import ProfileError

MAGIC = b"\x1f\x8b"
LIMIT_BYTES = 2 << 30  # what a profile may unpack to


def inflated(data: bytes, limit: int = LIMIT_BYTES) -> bytes:
    """The bytes inside a gzip file (all its members), at most `limit` of them."""
    parts: list[bytes] = []
    size = at = 0
    while True:
        member = zlib.decompressobj(wbits=31)
        rest = data[at:] if at else data
        try:
            part = member.decompress(rest, limit - size + 1)
        except zlib.error as error:
            raise ProfileError("gzip", at, "the stream unpacks to its checksum", str(error)) from error
        parts.append(part)
        size += len(part)
        if size > limit:
            raise ProfileError("gzip", at, f"a profile unpacks to at most {limit} bytes", "more")
        if not member.eof:
            raise ProfileError("gzip", len(data), "the stream ends with its checksum", "the end of the file")
        at = len(data) - len(member.unused_data)
        if not member.unused_data.startswith(MAGIC):
            break
    if any(member.unused_data):
        raise ProfileError("gzip", at, "nothing but zeros follows the last member", member.unused_data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def deflated(data: bytes | bytearray) -> bytes:
    """One gzip member, packed for speed as Go's runtime does, without a time: equal profiles are equal files."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()
