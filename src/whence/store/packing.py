"""zstd, for files that are stored packed and for packages."""

from __future__ import annotations

import sys
from typing import IO, Any, BinaryIO, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHUNK = 1 << 20
LEVEL = 3
PAYS_BELOW = 0.9  # of the bytes: else a file is stored as it is
FAULT: type[Exception] = zstd.ZstdError


def unpacking(file: BinaryIO) -> IO[bytes]:
    """A zstd stream, unpacked as it is read."""
    return cast("IO[bytes]", zstd.ZstdFile(file))


def unpack(source: BinaryIO, target: BinaryIO) -> None:
    """Unpack a whole file."""
    stream: Any = zstd.ZstdFile(source)
    while chunk := stream.read(CHUNK):
        target.write(chunk)


def pack(source: BinaryIO, target: BinaryIO) -> int:
    """Pack a whole file; returns how many bytes that took."""
    packer = zstd.ZstdCompressor(LEVEL)
    size = 0
    while chunk := source.read(CHUNK):
        size += target.write(packer.compress(chunk))
    return size + target.write(packer.flush())
