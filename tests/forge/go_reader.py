"""The Go package's reader: what its rule answers, read from an archive's bytes without any code of whence."""

from __future__ import annotations

import struct
from bisect import bisect_right


class GoReader:
    """The last range whose vaddr is at or below the address, then back: each range that covers the address is a frame,
    up to the first range of depth 0, whether or not that one covers it. Function and file are the range's own."""

    def __init__(self, data: bytes) -> None:
        def word(at: int) -> int:
            return int.from_bytes(data[at : at + 8], "little")

        self._data, self._strings = data, word(0x50)
        self._fields = struct.Struct("<8" + {4: "I", 8: "Q"}[word(0x28)])
        self._ranges = word(0x38)
        self.vas = struct.unpack_from(f"<{word(0x10)}" + {4: "I", 8: "Q"}[word(0x08)], data, word(0x18))

    def range(self, place: int) -> tuple[int, ...]:
        """length, depth, function, file, line index, line count, call file, call line as stored."""
        return self._fields.unpack_from(self._data, self._ranges + place * self._fields.size)

    def text(self, offset: int) -> str:
        if not offset:
            return ""
        position = self._strings + offset
        size = int.from_bytes(self._data[position : position + 4], "little")
        return self._data[position + 4 : position + 4 + size].decode("utf-8", "surrogateescape")

    def lookup(self, address: int) -> list[tuple[str, str]]:
        """(function, file), innermost first."""
        frames = []
        for location in range(bisect_right(self.vas, address) - 1, -1, -1):
            length, depth, function, file, *_ = self.range(location)
            if self.vas[location] <= address < self.vas[location] + length:
                frames.append((self.text(function), self.text(file)))
            if depth == 0:
                break
        return frames

    def addresses(self, count: int) -> list[int]:
        """Return about `count` addresses: the first, the last and a middle byte of ranges spread over the archive."""
        result = []
        for location in range(0, len(self.vas), 1 + 3 * len(self.vas) // count):
            vaddr, length = self.vas[location], self.range(location)[0]
            result += [vaddr, vaddr + length // 2, vaddr + length - 1]
        return result
