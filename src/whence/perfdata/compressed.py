"""Records that perf packed (perf record -z): one zstd stream in pieces, a record of COMPRESSED for each.

The frame never ends, and a record may begin in one piece and end in the next. What comes out is bounded: at most RATIO
times the packed bytes, plus an allowance.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Protocol

from whence._base.budget import Budget
from whence._base.errors import ProfileError

RATIO = 256  # perf's records repeat: 30 is usual
ALLOWANCE = 64 << 20
STEP = 1 << 20  # bytes that come out at a time


class RecordDecompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def _zstd() -> RecordDecompressor:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    unpacker: RecordDecompressor = zstd.ZstdDecompressor()
    return unpacker


class Unpacker:
    """One stream of packed records."""

    def __init__(self, stored: int) -> None:
        self.budget = Budget(
            "compressed records", "unpacked records", stored, times=RATIO, allowance=ALLOWANCE, error=ProfileError
        )
        self._stream: RecordDecompressor | None = None
        self.rest = b""  # the beginning of a record whose end is to come

    def pieces(self, packed: bytes) -> Iterator[bytes]:
        """What a piece of the stream unpacks to, the rest of the record before it in front. ValueError for no zstd."""
        stream = self._stream
        while True:
            if stream is None or stream.eof:
                packed = packed if stream is None else stream.unused_data + packed
                if not packed:
                    return
                stream = self._stream = _zstd()
            try:
                data = stream.decompress(packed, STEP)
            except Exception as error:  # the library's own, of no common class
                raise ValueError(str(error)) from None
            packed = b""
            if data:
                self.budget.charge(len(data))
                data, self.rest = self.rest + data, b""
                yield data
            if stream.needs_input and not stream.eof:
                return
            if not data and not stream.eof:
                return
