"""CPU samples of a trace as a pprof profile (profile.proto), written without a protobuf library.

A sample counts 1 and as many nanoseconds as the profiler's period; the trace does not tell its rate, which is 100 a
second unless the program asked for another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from whence.gotrace.batches import BatchReader
from whence.gotrace.kernels.event import padded
from whence.gotrace.tables import Tables

if TYPE_CHECKING:
    from whence.gotrace.feed import Source

# Field numbers of profile.proto.
SAMPLE_TYPE, SAMPLE, LOCATION, FUNCTION, STRING_TABLE = 1, 2, 4, 5, 6
TIME, DURATION, PERIOD_TYPE, PERIOD = 9, 10, 11, 12
INT64_MAX = (1 << 63) - 1


def tables_of(source: Source) -> Iterator[Tables]:
    """The tables of each generation, complete, in file order. Only one generation's are held at a time."""
    with BatchReader(source) as reader:
        tables: Tables | None = None
        for run in reader:
            if tables is None or tables.generation != run.generation:
                if tables is not None:
                    yield tables
                tables = Tables(reader.version, run.generation)
            for batch in run.batches:
                tables.add(run, batch)
        if tables is not None:
            yield tables


def number(field: int, value: int) -> bytes:
    """A varint field; nothing for 0."""
    return padded(field << 3, 0) + padded(value, 0) if value else b""


def chunk(field: int, data: bytes) -> bytes:
    """A field of bytes."""
    return padded(field << 3 | 2, 0) + padded(len(data), 0) + data


def packed(field: int, values: Iterable[int]) -> bytes:
    """A field of many varints."""
    return chunk(field, b"".join(padded(value, 0) for value in values))


class _Profile:
    """Strings, functions and locations, each once, and counts of samples by their locations."""

    def __init__(self) -> None:
        self.strings: dict[bytes, int] = {b"": 0}
        self.functions: dict[tuple[int, int], int] = {}
        self.locations: dict[tuple[int, int, int], int] = {}
        self.samples: Counter[tuple[int, ...]] = Counter()

    def string(self, text: bytes) -> int:
        # protobuf strings are UTF-8
        return self.strings.setdefault(text.decode("utf-8", "replace").encode(), len(self.strings))

    def add(self, tables: Tables) -> None:
        known: dict[int, tuple[int, ...]] = {}
        for sample in tables.samples:
            if sample.stack not in known:
                known[sample.stack] = tuple(
                    self.location(
                        frame.pc,
                        tables.strings.get(frame.function, b""),
                        tables.strings.get(frame.file, b""),
                        frame.line,
                    )
                    for frame in tables.stacks.get(sample.stack, ())
                )
            self.samples[known[sample.stack]] += 1

    def location(self, pc: int, function: bytes, file: bytes, line: int) -> int:
        name = (self.string(function), self.string(file))
        number = self.functions.setdefault(name, len(self.functions) + 1)
        return self.locations.setdefault((pc, number, line), len(self.locations) + 1)

    def encode(self, period: int, start: int, duration: int) -> bytes:
        kinds = [chunk(SAMPLE_TYPE, number(1, self.string(k)) + number(2, self.string(u))) for k, u in (
            (b"samples", b"count"),
            (b"cpu", b"nanoseconds"),
        )]  # fmt: skip
        parts = list(kinds)
        for locations, count in self.samples.items():
            parts.append(chunk(SAMPLE, packed(1, locations) + packed(2, (count, count * period))))
        for (pc, function, line), place in self.locations.items():
            parts.append(
                chunk(LOCATION, number(1, place) + number(3, pc) + chunk(4, number(1, function) + number(2, line)))
            )
        for (name, file), place in self.functions.items():
            parts.append(chunk(FUNCTION, number(1, place) + number(2, name) + number(3, name) + number(4, file)))
        period_type = number(1, self.string(b"cpu")) + number(2, self.string(b"nanoseconds"))
        parts += [chunk(STRING_TABLE, text) for text in self.strings]
        parts += [
            number(TIME, start),
            number(DURATION, duration),
            chunk(PERIOD_TYPE, period_type),
            number(PERIOD, period),
        ]
        return b"".join(parts)


def cpu_profile(source: Source, *, rate: int = 100) -> tuple[bytes, int]:
    """The CPU samples of a wire trace as an uncompressed pprof profile, and how many there are.

    `rate` is how many samples stand for a second of CPU time. ValueError when it is not from 1 to 10^9.
    """
    if not 1 <= rate <= 10**9:
        raise ValueError(f"a profiler takes 1 to 10^9 samples a second, not {rate}")
    profile = _Profile()
    start = duration = 0
    for tables in tables_of(source):
        profile.add(tables)
        clock = tables.clock
        if clock is not None and not start:
            start = clock.seconds * 10**9 + clock.nanoseconds
        if tables.samples and tables.frequency:
            times = [sample.time for sample in tables.samples]
            duration += int((max(times) - min(times)) * 1e9 / tables.frequency)
    start = start if start <= INT64_MAX else 0  # a clock that no machine had
    return profile.encode(10**9 // rate, start, min(duration, INT64_MAX)), profile.samples.total()
