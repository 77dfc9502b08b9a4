"""Expressions of call frame information: any bytes over any registers, in 64 and in 32 bits."""

from __future__ import annotations

from contextlib import suppress

from whence._base.errors import DwarfError
from whence.unwind.explaining import expression_text
from whence.unwind.expressions import evaluate
from whence.unwind.memory import Unreadable


class Memory:
    """A page that says where it is, at every address that ends in less than 0x800."""

    def read(self, address: int, size: int) -> bytes:
        if address & 0x800:
            raise Unreadable(address)
        return (address & (1 << 64) - 1).to_bytes(8, "little")[:size]

    def region(self, address: int) -> tuple[int, int] | None:
        return None


def seeds() -> list[bytes]:
    plt, trampoline, realigned = "77088000 3f1a 3b2a 33 24 22", "77a001 06", "7678 06"
    branches, loop, arithmetic = "31 280300 2f0100 96 30", "2ffdff", "10e807 11e877 1b 1e 1f 20 19 1d 1c 24 25 26 27"
    return [bytes.fromhex(each.replace(" ", "")) for each in (plt, trampoline, realigned, branches, loop, arithmetic)]


def target(data: bytes) -> None:
    assert expression_text(data) or not data
    for bits in (64, 32):
        with suppress(DwarfError, Unreadable):
            result = evaluate(data, {7: 0x7000, 6: 0x7010, 16: 0x401010, 0: (1 << 64) - 1}, Memory(), 0x7020, bits=bits)
            assert 0 <= result < 1 << bits
