"""Compressed cores: zstd, lz4, xz and gzip, expanded as they are read, within limits.

A core may expand to EXPANSION times its stored bytes plus ALLOWANCE. What follows, and what follows damage, is left
out, as if the core were truncated. lz4 needs the package lz4 (`whence[lz4]`).
"""

from __future__ import annotations

import gzip
import lzma
import sys
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from whence._base.errors import Unsupported, WhenceError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

EXPANSION, ALLOWANCE = 4096, 1 << 30
XZ_MEMORY = 128 << 20  # bytes that a decoder may need
CHUNK = 1 << 16
ZSTD, LZ4, XZ, GZIP, ZLIB = "zstd", "lz4", "xz", "gzip", "zlib"
MAGICS = (
    (b"\x28\xb5\x2f\xfd", ZSTD),
    (b"\x04\x22\x4d\x18", LZ4),
    (b"\xfd7zXZ\0", XZ),
    (b"\x1f\x8b", GZIP),
)
ZLIB_HEADS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
MAGIC_SIZE = 6
DAMAGE = (EOFError, ValueError, OSError, RuntimeError, WhenceError, zlib.error, lzma.LZMAError, zstd.ZstdError)


def packing_of(head: bytes) -> str:
    """Return how a file is compressed by its first bytes, "" if it is not.

    >>> packing_of(b"\\x28\\xb5\\x2f\\xfd"), packing_of(b"\\x7fELF")
    ('zstd', '')
    """
    return next((packing for magic, packing in MAGICS if head.startswith(magic)), "")


def magic_of(packing: str) -> bytes:
    """Return the first bytes of a compressed file."""
    return next(magic for magic, each in MAGICS if each == packing)


class ExpandedCore:
    """Reads the bytes of a compressed core in order, up to a limit or damage: then `fault` says why.

    `read` returns as many bytes as requested, fewer only at the end.
    """

    def __init__(self, file: BinaryIO, packing: str, stored: int) -> None:
        self._packing = packing
        self._read = _reader(file, packing)
        self._left = self._limit = EXPANSION * stored + ALLOWANCE
        self.fault = ""

    def read(self, size: int = -1) -> bytes:
        """Return the next `size` bytes, or all."""
        parts: list[bytes] = []
        while size and not self.fault:
            wanted = min(CHUNK, self._left) if size < 0 else min(size, self._left)
            if not wanted:
                self.fault = f"larger than the limit of {self._limit:,} bytes: the rest was not read"
                break
            try:
                part = self._read(wanted)
            except DAMAGE as error:
                if isinstance(error, OSError) and error.errno:
                    raise
                self.fault = f"the {self._packing} data is damaged or cut off: {error}"
                break
            if not part:
                break
            self._left -= len(part)
            size = size - len(part) if size > 0 else size
            parts.append(part)
        return b"".join(parts)


def _reader(file: BinaryIO, packing: str) -> Callable[[int], bytes]:
    """Return a function that returns at most so many of the next bytes. Raises Unsupported if lz4 is missing."""
    if packing == ZSTD:
        return cast("Callable[[int], bytes]", zstd.ZstdFile(file).read)
    if packing == GZIP:
        return gzip.GzipFile(fileobj=file).read
    if packing == XZ:
        return _Steps(file, lambda: lzma.LZMADecompressor(memlimit=XZ_MEMORY), magic_of(XZ)).read
    if packing == ZLIB:
        return _ZlibSteps(file).read
    try:
        import lz4.frame
    except ImportError:
        raise Unsupported("lz4 needs a package that is not installed: pip install 'whence[lz4]'") from None
    return _Steps(file, lz4.frame.LZ4FrameDecompressor, magic_of(LZ4)).read


class _Steps:
    """Reads streams in a row, each through a decompressor with the methods of the standard library's.

    A decompressor limits its output. Bytes after a stream that begin no other are ignored.
    """

    def __init__(self, file: BinaryIO, make: Callable[[], Any], magic: bytes) -> None:
        self._file, self._make, self._magic = file, make, magic
        self._decompressor = make()
        self._ahead = b""  # the start of a stream, read with the end of the one before

    def read(self, size: int) -> bytes:
        while not self._decompressor.eof or self._begin():
            data = b""
            if self._decompressor.needs_input:
                data = self._ahead or self._file.read(CHUNK)
                self._ahead = b""
                if not data:
                    raise EOFError("the end of the stream is missing")
            part: bytes = self._decompressor.decompress(data, size)
            if part:
                return part
        return b""

    def _begin(self) -> bool:
        """Begin the next stream, after any padding of zeros. Return False at the end of the file."""
        rest = (self._decompressor.unused_data or b"").lstrip(b"\0")
        while len(rest) < len(self._magic) and (more := self._file.read(CHUNK)):
            rest = (rest + more).lstrip(b"\0")
        if not rest.startswith(self._magic):
            return False
        self._decompressor, self._ahead = self._make(), rest
        return True


class _ZlibSteps:
    """Reads a zlib stream, as early versions of apport write it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._decompressor = file, zlib.decompressobj()

    def read(self, size: int) -> bytes:
        while not self._decompressor.eof:
            data = self._decompressor.unconsumed_tail or self._file.read(CHUNK)
            if not data:
                raise EOFError("the end of the stream is missing")
            part = self._decompressor.decompress(data, size)
            if part:
                return part
        return b""
