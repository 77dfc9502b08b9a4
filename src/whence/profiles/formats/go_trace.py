"""The CPU samples of a Go execution trace as a profile.

A sample counts 1, and the profiler's period in nanoseconds. The trace does not record the rate, which is 100 samples a
second unless the program sets another. All frames have names in the trace.
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
    """Read the CPU samples of a trace in the wire form; equal stacks are added up.

    One generation of the trace is in memory at a time.

    Args:
        source: a path, bytes or a binary file.
        rate: samples per second of CPU time, from 1 to 10^9.

    Raises:
        OSError: the trace can't be read.
        TraceError: the trace is damaged.
        ValueError: the rate is out of range.
    """
    if not 1 <= rate <= NANOSECONDS:
        raise ValueError(f"the rate {rate} is out of range: 1 to 10^9 samples a second are possible")
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
    profile.time_ns = start if start <= INT64_MAX else 0  # else the clock is damaged
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
    stacks: dict[int, tuple[int, ...]] = {}
    for sample in tables.samples:
        if sample.stack not in stacks:
            stack = []
            for frame in tables.stacks.get(sample.stack, ()):
                function, file = tables.strings.get(frame.function, b""), tables.strings.get(frame.file, b"")
                key = frame.pc, function, file, frame.line
                if key not in locations:
                    names = function.decode("utf-8", "replace"), file.decode("utf-8", "replace")
                    named = (Frame(*names, frame.line),) if function or file else ()
                    locations[key] = profile.location(NO_MAPPING, frame.pc, named)
                stack.append(locations[key])
            stacks[sample.stack] = tuple(stack)
        counts[stacks[sample.stack]] += 1
