"""zstd, for object files that are stored compressed and for packages; gzip, for archives."""

from __future__ import annotations

import io
import shutil
import sys
from typing import IO, Any, BinaryIO, cast

from whence.lidia.compressed import GZIP, compressed, decompress
from whence.store.names import GZIPPED

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CHUNK = 1 << 20
LEVEL = 3
PAYS_BELOW = 0.9  # a file that compresses less is stored as it is


class _ZstdStream(io.RawIOBase):
    """A zstd stream. Malformed data raises OSError without an errno, as for gzip."""

    def __init__(self, file: BinaryIO) -> None:
        self._stream: Any = zstd.ZstdFile(file)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except zstd.ZstdError as error:
            raise OSError(f"damaged zstd stream: {error}") from error


def unpacking(file: BinaryIO) -> IO[bytes]:
    """Return a zstd stream, decompressed as it is read."""
    return cast("IO[bytes]", _ZstdStream(file))


def unpack(source: BinaryIO, target: BinaryIO) -> None:
    """Decompress a zstd file. Raises OSError if it is damaged or cut off."""
    stream = unpacking(source)
    try:
        while chunk := stream.read(CHUNK):
            target.write(chunk)
    except EOFError as error:
        raise OSError(f"zstd stream is cut off: {error}") from error


def unpack_object(key: str, source: BinaryIO, target: BinaryIO, size: int) -> None:
    """Decompress an object of `size` bytes by the ending of its key. Raises OSError, and LidiaError for an archive."""
    if key.endswith(GZIPPED):
        target.write(decompress(source, size))
    else:
        unpack(source, target)


def pack_archive(source: BinaryIO, target: BinaryIO) -> None:
    """Compress an archive by gzip, which every HTTP client decompresses."""
    with compressed(target, GZIP) as file:
        shutil.copyfileobj(source, file, CHUNK)


def pack(source: BinaryIO, target: BinaryIO) -> int:
    """Compress a file with zstd; return the compressed size in bytes."""
    packer = zstd.ZstdCompressor(LEVEL)
    size = 0
    while chunk := source.read(CHUNK):
        size += target.write(packer.compress(chunk))
    return size + target.write(packer.flush())
