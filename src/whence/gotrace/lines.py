"""What the text kernels need of a version's events: the words around the numbers, laid out for a loop to copy.

    counts   arguments of each event type, 255 where the version has no such event     256 bytes
    flags    what each type is: a stack (1), with data (2), timed (4)                    256 bytes
    pieces   what stands before each number, 32 bytes each, six for each type             137 x 6 x 32 bytes
    sizes    how many of those 32 bytes count                                            137 x 6 bytes
    slots    a hash table of event names: the type at the place that `name_hash` gives   512 bytes

The pieces of type 0 (which no event has) are those of a frame (four) and of data (the fifth).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from whence.gotrace.specs import FRAME_ARGS, MAX_ARGS, EventSpec, Version, spec_table

NO_EVENT = 255
IS_STACK, HAS_DATA, IS_TIMED = 1, 2, 4
TYPES = 137
PIECE = 32
PIECES = MAX_ARGS + 1
SLOTS = 512


@dataclass(frozen=True, slots=True)
class Lines:
    """The tables of one version, as bytes."""

    version: Version
    counts: bytes
    flags: bytes
    pieces: bytes
    sizes: bytes
    slots: bytes


def name_hash(name: bytes) -> int:
    """Where an event's name stands in `slots`: from its length and four of its letters, without a collision."""
    size = len(name)
    return (name[0] * 77 + name[size >> 1] * 143 + name[size - 1] * 34 + name[size - 3] * 185 + size * 213) % SLOTS


def _words(spec: EventSpec) -> list[str]:
    """What stands before each number of an event's line; of one without numbers, the line."""
    if not spec.args:
        return [spec.name]
    return [f"{spec.name} {spec.args[0]}=", *(f" {name}=" for name in spec.args[1:])]


FRAME_WORDS = [f"\n\t{FRAME_ARGS[0]}=", *(f" {name}=" for name in FRAME_ARGS[1:]), "\n\tdata="]


@cache
def lines(version: Version) -> Lines:
    """The tables of a version; made once."""
    counts, flags, slots = bytearray([NO_EVENT]) * 256, bytearray(256), bytearray(SLOTS)
    pieces, sizes = bytearray(TYPES * PIECES * PIECE), bytearray(TYPES * PIECES)

    def put(kind: int, words: list[str]) -> None:
        for i, word in enumerate(words):
            at = kind * PIECES + i
            pieces[at * PIECE : at * PIECE + len(word)] = word.encode()
            sizes[at] = len(word)

    put(0, FRAME_WORDS)
    for spec in spec_table(version):
        counts[spec.type] = len(spec.args)
        flags[spec.type] = IS_STACK * spec.is_stack | HAS_DATA * spec.has_data | IS_TIMED * spec.timed
        put(spec.type, _words(spec))
        slot = name_hash(spec.name.encode())
        if slots[slot]:
            raise AssertionError(f"{spec.name} has a place of its own among the names")
        slots[slot] = spec.type
    return Lines(version, bytes(counts), bytes(flags), bytes(pieces), bytes(sizes), bytes(slots))
