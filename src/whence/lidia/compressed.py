"""Read and write archives compressed by gzip or zstd (.lidia.gz, .lidia.zst).

Compressed archives are recognized by their first bytes, not by their names, and decompressed into memory when they are
opened. The decompressed size is limited to TIMES the compressed size plus ALLOWANCE; archives of programs are 3 to 10
times larger.

>>> codec_of(b"\\x28\\xb5\\x2f\\xfd")
'zstd'
>>> codec_named("libc.so.6.lidia.gz")
'gzip'
"""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager

from whence._base.budget import Budget
from whence._base.errors import LidiaError, Unsupported
from whence.lidia.layout import MAGICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO, Final, Protocol

    from typing_extensions import Buffer

    class Compressor(Protocol):
        """An object of zlib.compressobj, or a ZstdCompressor."""

        def compress(self, data: Any, /) -> bytes: ...

        def flush(self) -> bytes: ...


GZIP, ZSTD = "gzip", "zstd"
MAGIC_OF: Final = {GZIP: b"\x1f\x8b", ZSTD: b"\x28\xb5\x2f\xfd"}
SUFFIX_OF: Final = {GZIP: ".gz", ZSTD: ".zst"}
TIMES: Final = 100
ALLOWANCE: Final = 16 << 20
GZIP_LEVEL, ZSTD_LEVEL = 6, 3
GZIP_WBITS = 31  # tells zlib to write gzip's header and checksum
CHUNK = 1 << 20


def codec_of(head: Buffer) -> str:
    """Return the codec of a file that begins with these bytes; "" for an uncompressed file."""
    start = bytes(memoryview(head)[:4])
    return next((codec for codec, magic in MAGIC_OF.items() if start.startswith(magic)), "")


def codec_named(path: str) -> str:
    """Return the codec for the ending of a file's name; "" for other endings."""
    return next((codec for codec, suffix in SUFFIX_OF.items() if path.endswith(suffix)), "")


def is_archive(file: BinaryIO) -> bool:
    """Return True if a file, read from its start, is an archive, compressed or not.

    Raises Unsupported for a zstd file if this Python has no zstd.
    """
    head = file.read(4)
    codec = codec_of(head)
    if codec:
        file.seek(0)
        try:
            head = _reader(file, codec).read(4)
        except _errors(codec):
            return False
    return head in MAGICS


def decompress(file: BinaryIO, stored: int) -> bytearray:
    """Decompress an archive of `stored` bytes, all members or frames of it.

    Raises LidiaError if the data is cut off, damaged or larger than the limit; Unsupported without zstd.
    """
    codec = codec_of(file.read(4))
    file.seek(0)
    budget = Budget("file", "decompressed bytes", stored, times=TIMES, allowance=ALLOWANCE, error=LidiaError)
    data = bytearray()
    try:
        reader = _reader(file, codec)
        while chunk := reader.read(CHUNK):
            budget.charge(len(chunk))
            data += chunk
    except EOFError:
        raise LidiaError("", None, f"the {codec} data is cut off after {stored} bytes") from None
    except _errors(codec) as error:
        raise LidiaError("", None, f"the {codec} data is damaged: {error}") from error
    return data


@contextmanager
def compressed(out: BinaryIO, codec: str) -> Iterator[BinaryIO]:
    """Yield a file object that writes to `out`, compressed unless `codec` is "".

    Equal content gives equal bytes: neither a time nor a name is stored.
    """
    if not codec:
        yield out
        return
    compressor = _compressor(codec)
    with _Compressing(out, compressor) as file:
        yield file  # type: ignore[misc]
    out.write(compressor.flush())


class _Compressing(io.RawIOBase):
    """Writes compressed bytes to another file, which stays open. Cannot seek."""

    def __init__(self, out: BinaryIO, compressor: Compressor) -> None:
        self._out, self._compressor = out, compressor

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        self._out.write(self._compressor.compress(data))
        return memoryview(data).nbytes


def _compressor(codec: str) -> Compressor:
    if codec == GZIP:
        import zlib

        return zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_WBITS)
    zstd = zstd_module()
    option = zstd.CompressionParameter
    options = {option.compression_level: ZSTD_LEVEL, option.checksum_flag: 1}
    compressor: Compressor = zstd.ZstdCompressor(options=options)
    return compressor


def _reader(file: BinaryIO, codec: str) -> Any:
    if codec == GZIP:
        from gzip import GzipFile

        return GzipFile(fileobj=file, mode="rb")
    return zstd_module().ZstdFile(file)


def _errors(codec: str) -> tuple[type[Exception], ...]:
    """Return the exceptions that a codec raises for data that is cut off or damaged."""
    if codec == GZIP:
        import zlib
        from gzip import BadGzipFile

        return EOFError, zlib.error, BadGzipFile
    return EOFError, zstd_module().ZstdError


def zstd_module() -> Any:
    """Return the zstd module of Python 3.14 or its backport. Raises Unsupported if neither is installed."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise Unsupported(
            "zstd needs Python 3.14 or the package backports.zstd; gzip (.lidia.gz) needs neither"
        ) from None
    return zstd
