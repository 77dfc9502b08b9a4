"""Recover the intact generations of a damaged trace.

A generation is intact if its bytes verify: batches match their sizes, events exist in the version, ids are defined, the
clock is recorded and, since 1.26, the generation has an end event. After damage, the search continues at the next
offset where several batches follow each other. Go's parser requires generations without a gap, so the longest
contiguous sequence is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from whence._base.errors import TraceError
from whence._base.records import Record
from whence.gotrace.kernels import batches as batches_kernel
from whence.gotrace.kernels.constants import END_OF_GENERATION, FINE, FULL
from whence.gotrace.specs import HEADER_SIZE, Version, layout, read_header, usable
from whence.gotrace.verification import verify

CAPACITY = 256
CHUNK = 1 << 20  # bytes
EVENT_BATCH = b"\x01"
CONVINCING = 3  # consecutive batches that are accepted after damage
FEW = 2 * CONVINCING  # batches scanned for that: ends of generations may be between them


class Piece(Record, frozen=True):
    """A generation: the bytes [start, end) of a file, and what is wrong with them ("" if intact)."""

    generation: int
    start: int
    end: int
    problem: str


class _Slice:
    """A generation as a readable file that contains a trace of its own."""

    def __init__(self, data: bytes | memoryview, start: int, end: int, header: bytes) -> None:
        self._data, self._offset, self._end, self._header = data, start, end, header

    def read(self, size: int) -> bytes:
        if self._header:
            header, self._header = self._header, b""
            return header
        offset, self._offset = self._offset, min(self._offset + size, self._end)
        return bytes(self._data[offset : self._offset])


class _Walk:
    def __init__(self, data: bytes | memoryview, version: Version) -> None:
        self.data, self.version = data, version
        self._columns = {capacity: batches_kernel.BatchColumns(capacity) for capacity in (FEW, CAPACITY)}

    def scan(self, offset: int, capacity: int = CAPACITY) -> tuple[int, list[tuple[int, int, int]], int]:
        """Return where the scan from `offset` stopped, (kind, start, generation) of each batch, and the fault."""
        columns = self._columns[capacity]
        offset, rows, fault, _ = batches_kernel.scan(self.data, offset, len(self.data), layout(self.version), columns)
        return offset, list(zip(columns.kind[:rows], columns.start[:rows], columns.generation[:rows])), fault

    def resume(self, offset: int, generation: int) -> int:
        """Return the next offset after damage where a batch starts, or the end of the data."""
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
        """Return the offset of the next occurrence of a byte, or -1, searching chunk by chunk: views have no `find`."""
        for start in range(offset, len(self.data), CHUNK):
            index = bytes(self.data[start : start + CHUNK]).find(byte)
            if index >= 0:
                return start + index
        return -1

    def pieces(self) -> Iterator[tuple[int, int, int]]:
        """Yield (generation, start, end) of each range that looks like a generation, without damaged bytes."""
        position, start, current, last = HEADER_SIZE, HEADER_SIZE, 0, 0
        while position < len(self.data):
            position, batches, fault = self.scan(position)
            for kind, offset, number in batches:
                if kind != END_OF_GENERATION and number == current:
                    continue
                end = offset + (kind == END_OF_GENERATION)
                if current:
                    yield current, start, end
                current, start = (0, end) if kind == END_OF_GENERATION else (number, offset)
                last = max(last, current)
            if fault not in (FINE, FULL):
                if current:
                    yield current, start, position
                start = position = self.resume(position + 1, last)
                current = 0
        if current:
            yield current, start, position


def generations(data: bytes | memoryview) -> list[Piece]:
    """Return the generations of a trace, intact or not, in file order."""
    version = usable(read_header(bytes(data[:HEADER_SIZE])))
    pieces: list[Piece] = []
    for number, start, end in _Walk(data, version).pieces():
        small = end - start <= CHUNK
        source = version.header + data[start:end] if small else _Slice(data, start, end, version.header)
        problems = verify(source, threads=1 if small else None)  # threads do not pay for a small piece
        pieces.append(Piece(number, start, end, problems[0].message if problems else ""))
    counts = Counter(piece.generation for piece in pieces)
    repeated = "the generation occurs more than once"
    return [
        piece if counts[piece.generation] == 1 else Piece(piece.generation, piece.start, piece.end, repeated)
        for piece in pieces
    ]


def salvage(data: bytes | memoryview, out: BinaryIO) -> tuple[list[Piece], list[Piece]]:
    """Write the longest contiguous sequence of intact generations of a binary trace.

    Args:
        data: the damaged trace.
        out: a binary file.

    Returns:
        The pieces that were written, and the pieces that were not.

    Raises:
        TraceError: no generation is intact.
    """
    pieces = generations(data)
    first = size = longest = 0  # index of the sequence's first piece, its size in bytes, and the largest size
    chosen = range(0)
    for index, piece in enumerate(pieces):
        if piece.problem or (size and piece.generation != pieces[index - 1].generation + 1):
            first, size = index, 0
        if piece.problem:
            continue
        if not size:
            first = index
        size += piece.end - piece.start
        if size > longest:
            longest, chosen = size, range(first, index + 1)
    best = [pieces[index] for index in chosen]
    if not best:
        raise TraceError("", None, "no generation is intact" if pieces else "the trace has no generations")
    out.write(memoryview(data[:HEADER_SIZE]))
    for piece in best:
        for start in range(piece.start, piece.end, CHUNK):
            out.write(memoryview(data[start : min(start + CHUNK, piece.end)]))
    return best, [piece for index, piece in enumerate(pieces) if index not in chosen]
