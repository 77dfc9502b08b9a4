"""What stands behind the line tables: an extra section that readers of the documented format do not see.

    chunks, one after the other: tag (4 ASCII letters) · u32 0 · u64 size · that many bytes
    footer, the last 32 bytes of the file:
      0x00  8  file offset of the first chunk, which is the end of the line tables
      0x08  8  size of all chunks
      0x10  4  CRC32C of all chunks; 0: none was made
      0x14  4  version, 1
      0x18  8  magic "\\0whence+"

    tag   content
    BLID  the build-id, raw
    MACH  the machine, text
    PROD  what wrote the archive, text
    FROM  the files it was made from, text, one a line
    SEGS  where the code of the file lies: for each executable segment u64 file offset, u64 vaddr, u64 bytes in the file
    FLAG  u32; bit 0: functions do not overlap and none is empty, so a walk back may end at the first function
    SRCB  a byte per range: which table named it (model.Source)
    SRCR  the same as runs: u32 count, so many u32 first ranges, so many bytes
    STRT  where functions start: rows of u32 function, u32 file (offsets in the strings), u32 line, in that order

Chunks with other tags are skipped. A damaged extra section never stops a lookup: `Table.info` and `verify` report it.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from whence.errors import ChecksumError, LidiaError
from whence.lidia.crc import crc32c_of

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

FOOTER: Final = struct.Struct("<QQII8s")
MAGIC: Final = b"\0whence+"
VERSION: Final = 1
_CHUNK: Final = struct.Struct("<4sIQ")
_SEGMENT: Final = struct.Struct("<QQQ")
START: Final = struct.Struct("<3I")
_TIDY: Final = 1


class Extra(NamedTuple):
    """What an archive says about itself. Absent text is ""."""

    build_id: str = ""
    machine: str = ""
    producer: str = ""
    made_from: tuple[str, ...] = ()
    tidy: bool = False
    segments: tuple[tuple[int, int, int], ...] = ()


def pack(
    extra: Extra,
    sources: bytes,
    runs: tuple[Sequence[int], bytes] | None,
    offset: int,
    declared: array[int] | None = None,
    *,
    crc: bool = True,
) -> bytes:
    """The chunks and the footer. `sources`: a byte per range; `runs` (first ranges, values): the same in short;
    `declared`: the numbers of STRT, row by row. Without `crc` the checksum is 0, as those of the sections are then."""
    chunks = []
    for tag, content in (
        (b"BLID", bytes.fromhex(extra.build_id)),
        (b"MACH", extra.machine.encode()),
        (b"PROD", extra.producer.encode()),
        (b"FROM", "\n".join(extra.made_from).encode("utf-8", "surrogateescape")),
        (b"SEGS", b"".join(_SEGMENT.pack(*one) for one in extra.segments)),
        (b"FLAG", struct.pack("<I", _TIDY if extra.tidy else 0)),
    ):
        if content:
            chunks.append((tag, content))
    if runs is not None and 4 + 5 * len(runs[0]) < len(sources):
        starts, values = runs
        chunks.append((b"SRCR", struct.pack(f"<I{len(starts)}I", len(starts), *starts) + values))
    elif sources:
        chunks.append((b"SRCB", sources))
    if declared:
        chunks.append((b"STRT", little_endian(declared)))
    body = b"".join(_CHUNK.pack(tag, 0, len(content)) + content for tag, content in chunks)
    return body + FOOTER.pack(offset, len(body), crc32c_of(body) if crc else 0, VERSION, MAGIC)


def little_endian(words: array[int]) -> bytes:
    """The numbers' bytes as the format wants them, whatever the machine."""
    if sys.byteorder == "big":
        words = words[:]
        words.byteswap()
    return words.tobytes()


class Found(NamedTuple):
    """An extra section as a reader found it: where its chunks are, by tag, and what is wrong with it."""

    chunks: dict[bytes, tuple[int, int]]
    crc: int = 0
    bounds: tuple[int, int] = (0, 0)
    problem: LidiaError | None = None


def find(data: memoryview, end: int) -> Found | None:
    """Look for the footer of an archive whose line tables end at `end`; None without one. Reads no content."""
    at = len(data) - FOOTER.size
    if at < 0:
        return None
    offset, size, crc, version, magic = FOOTER.unpack_from(data, at)
    if magic != MAGIC:
        return None
    problem = None
    if offset != end:
        problem = LidiaError("footer", at, f"the chunks begin where the line tables end, at {end:#x}", f"{offset:#x}")
    if offset > at or offset + size != at:
        return _broken("footer", at + 8, f"the chunks end at {at:#x}", f"{size} bytes from {offset:#x} on")
    if version != VERSION:
        return _broken("footer", at + 0x14, f"the version is {VERSION}", version)
    chunks: dict[bytes, tuple[int, int]] = {}
    here = offset
    while here < at:
        if at - here < _CHUNK.size:
            return _broken("extra", here, f"a chunk has at least {_CHUNK.size} bytes", at - here)
        tag, _, length = _CHUNK.unpack_from(data, here)
        here += _CHUNK.size
        if length > at - here:
            return _broken("extra", here, f"a chunk fits in the {at - here} bytes that are left", length)
        chunks.setdefault(tag, (here, length))
        here += length
    return Found(chunks, crc, (offset, at), problem)


def _broken(part: str, at: int, rule: str, found: object) -> Found:
    return Found({}, problem=LidiaError(part, at, rule, found))


def check(data: memoryview, found: Found) -> None:
    """Raise when the section is broken or its bytes are not those its checksum was made of."""
    if found.problem is not None:
        raise found.problem
    start, end = found.bounds
    have = crc32c_of(data[start:end])
    if found.crc and have != found.crc:
        raise ChecksumError("extra", start, f"its bytes have the CRC32C {found.crc:#010x}", f"{have:#010x}")


def read(data: memoryview, found: Found | None) -> Extra:
    """What the chunks say. What cannot be read is left out."""
    if found is None:
        return Extra()

    def content(tag: bytes) -> bytes:
        at, size = found.chunks.get(tag, (0, 0))
        return bytes(data[at : at + size])

    def text(tag: bytes) -> str:
        return content(tag).decode("utf-8", "surrogateescape")

    flags, segments = content(b"FLAG"), content(b"SEGS")
    return Extra(
        content(b"BLID").hex(),
        text(b"MACH"),
        text(b"PROD"),
        tuple(text(b"FROM").split("\n")) if text(b"FROM") else (),
        len(flags) == 4 and bool(flags[0] & _TIDY),
        tuple(_SEGMENT.iter_unpack(segments[: len(segments) // _SEGMENT.size * _SEGMENT.size])),
    )
