"""SFrame of each version, and ARM's exception tables."""

from __future__ import annotations

from contextlib import suppress

from tests.forge.sframe import CODE, VADDR, forged
from whence._base.errors import DwarfError
from whence.unwind.exidx import unwound
from whence.unwind.sframe import SFrame


def seeds() -> list[bytes]:
    codes = (bytes.fromhex("02a9b0"), bytes.fromhex("9b8480b204b3c1c803b0"), bytes.fromhex("8001b1030fb0"))
    return [*(forged(version) for version in (1, 2, 3)), forged(info=0x10, block=16), *codes]


def target(data: bytes) -> None:
    with suppress(DwarfError):
        unwound(data)
    try:
        frames = SFrame(data, VADDR)
    except DwarfError:
        return
    for vaddr in (CODE, CODE + 5, CODE + 33, 0):
        with suppress(DwarfError):
            result = frames.find(vaddr)
            assert result is None or result.start <= vaddr < result.end
