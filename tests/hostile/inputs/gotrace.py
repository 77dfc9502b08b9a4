"""Go execution traces that claim much."""

from __future__ import annotations

from whence.gotrace import Event, Version

V = Version.GO1_26


GENERATIONS = 5_000


def event(name: str, *args: int) -> bytes:
    return Event(V, name, list(args)).encode()


def batch(generation: int, body: bytes, thread: int = 1) -> bytes:
    return event("EventBatch", generation, thread, 100, len(body)) + body


def closing(generation: int) -> bytes:
    """What ends a generation: its clocks and its end."""
    clocks = event("Sync") + event("Frequency", 10**9) + event("ClockSnapshot", 1, 2, 3, 4)
    return batch(generation, clocks) + event("EndOfGeneration")


def generations(count: int = GENERATIONS) -> bytes:
    """One event each."""
    return V.header + b"".join(batch(n, event("GoStart", 1, 5, 1)) + closing(n) for n in range(1, count + 1))


def empty_generations(count: int = 5 * GENERATIONS) -> bytes:
    """Seven bytes each."""
    return V.header + b"".join(batch(n, b"") for n in range(1, count + 1))


def repeated_text(events: int = 2000, size: int = 1 << 20) -> bytes:
    """Every event has a stack of 128 frames, each of a name of a megabyte."""
    strings = event("Strings") + Event(V, "String", [1], b"x" * size).encode()
    stacks = event("Stacks") + Event(V, "Stack", [1, 128] + [1, 1, 1, 1] * 128).encode()
    events_ = event("GoStop", 1, 1, 1) * events
    return V.header + batch(1, strings) + batch(1, stacks) + batch(1, events_) + closing(1)


def damage() -> bytes:
    """A batch that does not end, then bytes that may all begin one."""
    return V.header + b"\xff" + b"\x01" * 200_000


def text(line: bytes) -> bytes:
    return b"Trace Go1.26\n" + line


def long_trace() -> bytes:
    return V.header + b"".join(batch(1, event("GoStart", 1, 5, 1) * 10_000) for _ in range(3000))
