"""Gzip of profiles: several members, with errors for truncated and damaged files and for bombs."""

from __future__ import annotations

import struct
import zlib
from itertools import chain

from whence._base import cores
from whence._base.budget import Budget
from whence._base.deflate import fastest_zlib
from whence._base.errors import ProfileError, shown
from whence._base.records import NamedTuple
from whence.samples import bounds

MAGIC = b"\x1f\x8b"
HEADER = MAGIC + b"\x08\0\0\0\0\0\4\xff"  # deflate, no name, no time, fastest level, unknown system
PART_BYTES = 2 << 20
MEMBER_BYTES = 4 << 10  # first piece of a second or later member


class PlainBytes(NamedTuple):
    """The decompressed bytes of a profile, whether it is stored as gzip, and the budget for reading it."""

    data: bytes
    compressed: bool
    budget: Budget


def plain_bytes(data: bytes, *, compressed: bool = False, budget: Budget | None = None) -> PlainBytes:
    """Decompress bytes that may be gzip, within `budget` (default: the budget of the stored bytes).

    `compressed`: the caller has decompressed them. Raises ProfileError.
    """
    budget = budget or bounds.reading(len(data))
    if data.startswith(MAGIC):
        return PlainBytes(inflated(data, budget), True, budget)
    return PlainBytes(data, compressed, budget)


def inflated(data: bytes, budget: Budget | None = None) -> bytes:
    """Return the decompressed bytes of all members. They may use half of the budget, as they are joined once."""
    budget = budget or bounds.reading(len(data))
    limit = (budget.most - budget.spent) // 2
    parts: list[bytes] = []
    view = memoryview(data)
    size = offset = 0
    step = len(data)  # most files are one member
    while True:
        begin = offset
        engine = zlib if begin else fastest_zlib()  # whose objects need 80 KB each: later members may be tiny
        member = engine.decompressobj(wbits=31)
        while not member.eof and offset < len(data):
            piece = view[offset : offset + step]
            try:
                part = member.decompress(piece, limit - size + 1)
            except engine.error as error:
                raise ProfileError("gzip", begin, f"damaged data: {error}") from error
            parts.append(part)
            size += len(part)
            if size > limit:
                problem = f"decompresses to more than {limit} bytes, the limit for a file of {len(data)} bytes"
                raise ProfileError("gzip", begin, problem)
            offset += len(piece) - len(member.unused_data)
            step *= 2
        if not member.eof:
            raise ProfileError("gzip", len(data), "the file ends before the end of the stream")
        if view[offset : offset + 2] != MAGIC:
            break
        step = MEMBER_BYTES  # each member copies the rest of its piece
    if data.count(0, offset) < len(data) - offset:
        raise ProfileError("gzip", offset, f"unknown data after the last member: {shown(data[offset:])}")
    budget.charge(2 * size)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def deflated(data: bytes | bytearray | memoryview) -> bytes:
    """Return one gzip member, compressed at level 1 as by Go's runtime, without a time: equal data gives equal bytes.

    Parts of the data are compressed on several threads and joined at byte boundaries, which makes one stream. ISA-L is
    not used: its output has differed between processes.
    """
    view = memoryview(data)
    starts = range(0, max(1, len(data)), PART_BYTES)
    parts = [(b"", b"")] * len(starts)

    def pack(_worker: int, part: int) -> None:
        start = starts[part]
        packer = zlib.compressobj(1, zlib.DEFLATED, -15)
        last = start + PART_BYTES >= len(data)
        body: bytes = packer.compress(view[start : start + PART_BYTES])
        end: bytes = packer.flush(zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH)
        parts[part] = body, end

    workers = min(len(starts), cores.available()) if len(starts) > 1 else 1
    cores.share(range(workers), range(len(starts)), pack)
    check = struct.pack("<II", zlib.crc32(view), len(data) & 0xFFFFFFFF)
    return b"".join([HEADER, *chain.from_iterable(parts), check])
