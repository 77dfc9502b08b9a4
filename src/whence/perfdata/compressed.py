"""Records compressed by perf record -z: one zstd stream in pieces, each in a record of type COMPRESSED.

The frame never ends, and a record may begin in one piece and end in the next. The decompressed size is limited to RATIO
times the compressed bytes, plus an allowance.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from whence._base.budget import Budget
from whence._base.errors import ProfileError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RATIO = 256  # records of perf are repetitive: 30 is usual
ALLOWANCE = 64 << 20
STEP = 1 << 20  # decompressed bytes at a time


class RecordStream:
    """One stream of compressed records; `rest` is the beginning of a record that continues in the next piece."""

    def __init__(self, stored: int) -> None:
        self.budget = Budget(
            "compressed records", "decompressed records", stored, times=RATIO, allowance=ALLOWANCE, error=ProfileError
        )
        self._decompressor = zstd.ZstdDecompressor()
        self.rest = b""

    def pieces(self, compressed: bytes) -> Iterator[bytes]:
        """Yield the decompressed bytes of a piece, after `rest`. Raise ValueError if it is not zstd."""
        while True:
            if self._decompressor.eof:
                compressed = self._decompressor.unused_data + compressed
                self._decompressor = zstd.ZstdDecompressor()
            if not compressed and self._decompressor.needs_input:
                return
            try:
                data = self._decompressor.decompress(compressed, STEP)
            except zstd.ZstdError as error:
                raise ValueError(str(error)) from None
            compressed = b""
            if data:
                self.budget.charge(len(data))
                data, self.rest = self.rest + data, b""
                yield data
            elif not self._decompressor.eof:
                return
