"""Bytes with small damages, for tests and fuzz targets."""

from __future__ import annotations

import random


def mutated(data: bytes, dice: random.Random) -> bytes:
    """The data with one to eight small damages: bits, bytes, interesting numbers, cuts, copies."""
    out = bytearray(data)
    for _ in range(dice.randint(1, 8)):
        if not out:
            return dice.randbytes(dice.randint(0, 64))
        offset = dice.randrange(len(out))
        match dice.randrange(8):
            case 0:
                out[offset] ^= 1 << dice.randrange(8)
            case 1:
                out[offset] = dice.randrange(256)
            case 2:
                size = dice.choice((1, 2, 4, 8))
                value = dice.choice((0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 1 << 31, (1 << 32) - 1, (1 << 63), (1 << 64) - 1))
                out[offset : offset + size] = (value & ((1 << 8 * size) - 1)).to_bytes(
                    size, dice.choice(("little", "big"))
                )
            case 3:
                del out[offset : offset + dice.randint(1, 16)]
            case 4:
                out[offset:offset] = out[offset : offset + dice.randint(1, 32)]
            case 5:
                out[offset:offset] = dice.randbytes(dice.randint(1, 8))
            case 6:
                del out[offset:]
            case _:
                other = dice.randrange(len(out))
                out[offset : offset + 8] = out[other : other + 8]
    return bytes(out)
