"""The whole generations of a damaged trace.

A generation is whole if its bytes verify: batches fit their sizes, events are of the version, ids lead somewhere, its
clock is recorded and, from 1.26 on, its end. After damage the search goes on at the next place where batches follow
each other. Go's parser wants generations without a gap, so the longest stretch of whole ones is what is written.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from whence._base.errors import TraceError
from whence._base.records import Record
from whence.gotrace.kernels import batches as batches_kernel
from whence.gotrace.kernels.constants import END_OF_GENERATION, FINE, FULL
from whence.gotrace.specs import HEADER_SIZE, Version, layout, read_header, usable
from whence.gotrace.verification import verify

if TYPE_CHECKING:
    from whence.gotrace.convert import Sink

ROOM = 256
COPIED = 1 << 20  # bytes at a time
EVENT_BATCH = b"\x01"
CONVINCING = 3  # batches that follow each other after damage
FEW = 2 * CONVINCING  # batches that are looked at then: ends of generations may stand between


class Piece(Record, frozen=True):
    """A generation's bytes [start, end) of a file, and what is wrong with it ("" when it is whole)."""

    generation: int
    start: int
    end: int
    problem: str


class _Slice:
    """A generation as a trace of its own, as a file that is read."""

    def __init__(self, data: bytes | memoryview, start: int, end: int, header: bytes) -> None:
        self._data, self._at, self._end, self._header = data, start, end, header

    def read(self, size: int) -> bytes:
        if self._header:
            header, self._header = self._header, b""
            return header
        offset, self._at = self._at, min(self._at + size, self._end)
        return bytes(self._data[offset : self._at])


class _Walk:
    def __init__(self, data: bytes | memoryview, version: Version) -> None:
        self.data, self.version = data, version
        self._rooms = {room: batches_kernel.BatchColumns(room) for room in (FEW, ROOM)}

    def scan(self, offset: int, room: int = ROOM) -> tuple[int, list[tuple[int, int, int]], int]:
        """Batches from `at` on: where it stopped, (kind, start, generation) of each, fault."""
        columns = self._rooms[room]
        offset, rows, fault, _ = batches_kernel.scan(self.data, offset, len(self.data), layout(self.version), columns)
        return offset, list(zip(columns.kind[:rows], columns.start[:rows], columns.generation[:rows])), fault

    def resume(self, offset: int, generation: int) -> int:
        """The next place after damage where a batch starts, or the end."""
        size = len(self.data)
        while offset < size:
            offset = self._find(EVENT_BATCH, offset)
            if offset < 0:
                return size
            end, batches, _ = self.scan(offset, FEW)
            numbers = [number for kind, _, number in batches if kind != END_OF_GENERATION]
            near = all(generation <= number <= generation + 1000 for number in numbers)
            if near and numbers and (len(numbers) >= CONVINCING or end == size):
                return offset
            offset += 1
        return size

    def _find(self, byte: bytes, offset: int) -> int:
        """Where a byte is next, -1 when it is nowhere. A piece at a time: views have no `find`."""
        for start in range(offset, len(self.data), COPIED):
            found = bytes(self.data[start : start + COPIED]).find(byte)
            if found >= 0:
                return start + found
        return -1

    def pieces(self) -> list[tuple[int, int, int]]:
        """(generation, start, end) of what looks like generations, damage cut out."""
        found: list[tuple[int, int, int]] = []
        position, start, current, last = HEADER_SIZE, HEADER_SIZE, 0, 0
        while position < len(self.data):
            position, batches, fault = self.scan(position)
            for kind, offset, number in batches:
                if kind == END_OF_GENERATION:
                    if current:
                        found.append((current, start, offset + 1))
                    current, start = 0, offset + 1
                elif number != current:
                    if current:
                        found.append((current, start, offset))
                    current, start = number, offset
                    last = max(last, number)
            if fault not in (FINE, FULL):
                if current:
                    found.append((current, start, position))
                position = self.resume(position + 1, last)
                start, current = position, 0
        if current:
            found.append((current, start, position))
        return found


def generations(data: bytes | memoryview) -> list[Piece]:
    """What generations a trace has, whole or not, in file order."""
    version = usable(read_header(bytes(data[:HEADER_SIZE])))
    found: list[Piece] = []
    for number, start, end in _Walk(data, version).pieces():
        small = end - start <= COPIED
        whole = version.header + data[start:end] if small else _Slice(data, start, end, version.header)
        problems = verify(whole, threads=1 if small else None)  # to ask for the number of cores costs more than to read
        found.append(Piece(number, start, end, problems[0].rule if problems else ""))
    seen = Counter(piece.generation for piece in found)
    return [
        piece if seen[piece.generation] == 1 else Piece(piece.generation, piece.start, piece.end, "it is in one piece")
        for piece in found
    ]


def salvage(data: bytes | memoryview, out: Sink) -> tuple[list[Piece], list[Piece]]:
    """Write the longest stretch of whole generations. Returns the pieces written and those that were not.

    TraceError when no generation is whole.
    """
    pieces = generations(data)
    first = size = most = 0  # where the stretch begins and its bytes; the bytes of the best
    chosen = range(0)
    for index, piece in enumerate(pieces):
        if piece.problem or (size and piece.generation != pieces[index - 1].generation + 1):
            first, size = index, 0
        if piece.problem:
            continue
        if not size:
            first = index
        size += piece.end - piece.start
        if size > most:
            most, chosen = size, range(first, index + 1)
    best = [pieces[index] for index in chosen]
    if not best:
        fault = "no generation is whole" if pieces else "the trace has no generations"
        raise TraceError("wire", None, "a generation is whole", f"{len(pieces)} that are not", fault=fault)
    out.write(memoryview(data[:HEADER_SIZE]))
    for piece in best:
        for start in range(piece.start, piece.end, COPIED):
            out.write(memoryview(data[start : min(start + COPIED, piece.end)]))
    return best, [piece for index, piece in enumerate(pieces) if index not in chosen]
