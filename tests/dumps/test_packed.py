"""Compressed streams of cores: several in a file, padding, and what follows them."""

from __future__ import annotations

import gzip
import io
import lzma
import sys
from collections.abc import Callable

import pytest

from whence.dumps.packed import GZIP, LZ4, XZ, ZSTD, ExpandedCore, packing_of

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CONTENT = bytes(range(256)) * 999
Compress = Callable[[bytes], bytes]


def packer(packing: str) -> Compress:
    if packing == LZ4:
        frame = pytest.importorskip("lz4.frame", reason="lz4 is not installed")
        compress: Compress = frame.compress
        return compress
    packers: dict[str, Compress] = {GZIP: gzip.compress, XZ: lzma.compress, ZSTD: zstd.compress}
    return packers[packing]


def expanded(data: bytes, packing: str, size: int = -1) -> tuple[bytes, str]:
    stream = ExpandedCore(io.BytesIO(data), packing, len(data))
    return stream.read(size), stream.fault


@pytest.mark.parametrize("packing", [ZSTD, LZ4, XZ, GZIP])
def test_streams_in_a_row_are_one_content(packing: str) -> None:
    pack = packer(packing)
    data = pack(b"") + pack(CONTENT[:5000]) + pack(b"") * 3000 + pack(CONTENT[5000:])
    assert packing_of(data) == packing
    assert expanded(data, packing) == (CONTENT, "")
    assert expanded(data, packing, 6000) == (CONTENT[:6000], "")


@pytest.mark.parametrize("packing", [LZ4, XZ])
def test_padding_between_streams_is_skipped_and_other_bytes_end_them(packing: str) -> None:
    pack = packer(packing)
    assert expanded(pack(b"a") + bytes(200_000) + pack(b"b") + bytes(4), packing) == (b"ab", "")
    assert expanded(pack(b"a") + b"rest", packing) == (b"a", "")


@pytest.mark.parametrize("packing", [ZSTD, LZ4, XZ, GZIP])
def test_a_cut_stream_has_a_fault(packing: str) -> None:
    pack = packer(packing)
    content, fault = expanded(pack(CONTENT) + pack(CONTENT)[:40], packing)
    assert CONTENT.startswith(content[: len(CONTENT)])
    assert "damaged or cut off" in fault
