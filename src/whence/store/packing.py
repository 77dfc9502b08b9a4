"""zstd, for ELF files that are stored compressed and for packages; gzip, for archives."""

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
PAYS_BELOW = 0.9  # of the bytes: else a file is stored as it is


class _Unpacking(io.RawIOBase):
    """A zstd stream; what is no such stream raises OSError without a number, as gzip's do."""

    def __init__(self, file: BinaryIO) -> None:
        self._stream: Any = zstd.ZstdFile(file)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except zstd.ZstdError as error:
            raise OSError(f"no zstd stream: {error}") from error


def unpacking(file: BinaryIO) -> IO[bytes]:
    """A zstd stream, unpacked as it is read."""
    return cast("IO[bytes]", _Unpacking(file))


def unpack(source: BinaryIO, target: BinaryIO) -> None:
    """Unpack a whole file. Raises OSError for what is none."""
    stream = unpacking(source)
    try:
        while chunk := stream.read(CHUNK):
            target.write(chunk)
    except EOFError as error:
        raise OSError(f"no whole zstd stream: {error}") from error


def unpack_object(key: str, source: BinaryIO, target: BinaryIO, size: int) -> None:
    """Decompress an object of `size` bytes as its key says. Raises OSError, and LidiaError for an archive."""
    if key.endswith(GZIPPED):
        target.write(decompress(source, size))
    else:
        unpack(source, target)


def pack_archive(source: BinaryIO, target: BinaryIO) -> None:
    """Compress an archive by gzip, which every HTTP client decompresses."""
    with compressed(target, GZIP) as file:
        shutil.copyfileobj(source, file, CHUNK)


def pack(source: BinaryIO, target: BinaryIO) -> int:
    """Pack a whole file; returns how many bytes that took."""
    packer = zstd.ZstdCompressor(LEVEL)
    size = 0
    while chunk := source.read(CHUNK):
        size += target.write(packer.compress(chunk))
    return size + target.write(packer.flush())
