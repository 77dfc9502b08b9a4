"""Archives compressed by gzip or zstd (.lidia.gz, .lidia.zst), recognized by their first bytes and not by their name.

A compressed archive is decompressed into memory when it is opened. Its size there is at most TIMES the compressed size
plus ALLOWANCE. Archives of programs need 3 to 10 times.

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
GZIP_WBITS = 31  # of zlib: with the header and the checksum of gzip
CHUNK = 1 << 20


def codec_of(head: Buffer) -> str:
    """The codec of a file that begins with these bytes; "" if they are not compressed."""
    start = bytes(memoryview(head)[:4])
    return next((codec for codec, magic in MAGIC_OF.items() if start.startswith(magic)), "")


def codec_named(path: str) -> str:
    """The codec that a file's name asks for; "" for none."""
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
        fault = f"the {codec} data is cut off after {stored} bytes"
        raise LidiaError("file", stored, f"the {codec} data is complete", stored, fault=fault) from None
    except _errors(codec) as error:
        fault = f"the {codec} data is damaged: {error}"
        raise LidiaError("file", None, f"the {codec} data is valid", str(error), fault=fault) from error
    return data


@contextmanager
def compressed(out: BinaryIO, codec: str) -> Iterator[BinaryIO]:
    """A file object whose content is written to `out`, compressed unless `codec` is "".

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
    made: Compressor = zstd.ZstdCompressor(options={option.compression_level: ZSTD_LEVEL, option.checksum_flag: 1})
    return made


def _reader(file: BinaryIO, codec: str) -> Any:
    if codec == GZIP:
        from gzip import GzipFile

        return GzipFile(fileobj=file, mode="rb")
    return zstd_module().ZstdFile(file)


def _errors(codec: str) -> tuple[type[Exception], ...]:
    """The errors of data that is cut off or damaged."""
    if codec == GZIP:
        import zlib
        from gzip import BadGzipFile

        return EOFError, zlib.error, BadGzipFile
    return EOFError, zstd_module().ZstdError


def zstd_module() -> Any:
    """Python's own zstd, or the backport of it. Raises Unsupported if neither is installed."""
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
