"""The CPU samples of a Go execution trace as a profile.

A sample counts 1 and as many nanoseconds as the profiler's period; the trace does not record its rate, which is 100 a
second unless the program asked for another. Frames have their names in the trace: there is nothing to look up.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from whence._base.model import Frame
from whence.gotrace.tables import tables_of
from whence.profiles.profile import Profile
from whence.samples.model import NO_MAPPING, SampleType

if TYPE_CHECKING:
    from whence.gotrace.feed import Source
    from whence.gotrace.tables import Tables

INT64_MAX = (1 << 63) - 1
NANOSECONDS = 10**9  # of a second
CPU = SampleType("cpu", "nanoseconds")


def read_go_trace(source: Source, *, rate: int = 100) -> Profile:
    """The CPU samples of a trace in the wire form (a path, bytes or a binary file), equal stacks added up.

    `rate` is how many samples stand for a second of CPU time; ValueError when it is not from 1 to 10^9. Raises OSError,
    and TraceError for a damaged trace. Only one generation of the trace is held at a time.
    """
    if not 1 <= rate <= NANOSECONDS:
        raise ValueError(f"a profiler takes 1 to 10^9 samples a second, not {rate}")
    profile = Profile([SampleType("samples", "count"), CPU], default_type=1)
    locations: dict[tuple[int, bytes, bytes, int], int] = {}
    counts: Counter[tuple[int, ...]] = Counter()
    start = duration = 0
    for tables in tables_of(source):
        _add(tables, profile, locations, counts)
        clock = tables.clock
        if clock is not None and not start:
            start = clock.seconds * NANOSECONDS + clock.nanoseconds
        if tables.samples and tables.frequency:
            times = [sample.time for sample in tables.samples]
            duration += int((max(times) - min(times)) * 1e9 / tables.frequency)
    period = NANOSECONDS // rate
    for stack, count in counts.items():
        profile.samples.add(list(stack), [count, count * period])
    profile.time_ns = start if start <= INT64_MAX else 0  # a clock that no machine had
    profile.duration_ns = min(duration, INT64_MAX)
    profile.period, profile.period_type = period, CPU
    return profile


def _add(
    tables: Tables,
    profile: Profile,
    locations: dict[tuple[int, bytes, bytes, int], int],
    counts: Counter[tuple[int, ...]],
) -> None:
    """Count the samples of a generation by their locations."""
    known: dict[int, tuple[int, ...]] = {}
    for sample in tables.samples:
        if sample.stack not in known:
            stack = []
            for frame in tables.stacks.get(sample.stack, ()):
                function, file = tables.strings.get(frame.function, b""), tables.strings.get(frame.file, b"")
                key = frame.pc, function, file, frame.line
                if key not in locations:
                    names = function.decode("utf-8", "replace"), file.decode("utf-8", "replace")
                    named = (Frame(*names, frame.line),) if function or file else ()
                    locations[key] = profile.location(NO_MAPPING, frame.pc, named)
                stack.append(locations[key])
            known[sample.stack] = tuple(stack)
        counts[known[sample.stack]] += 1
