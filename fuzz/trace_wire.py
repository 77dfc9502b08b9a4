"""Wire traces: events, text and back, columns, info, verify, part of it, whole generations."""

from __future__ import annotations

import contextlib
import io

from tests.hostile.inputs.gotrace import empty_generations, generations, repeated_text
from whence import gotrace
from whence._base.errors import WhenceError
from whence.gotrace import Event, Version
from whence.gotrace.anonymizing import anonymize
from whence.gotrace.filtering import Filter
from whence.gotrace.filtering import filter as filter_trace
from whence.gotrace.rows import FilteredBlocks, records
from whence.gotrace.salvaging import salvage
from whence.gotrace.survey import info
from whence.gotrace.verification import verify
from whence.profiles import read_go_trace


def seeds() -> list[bytes]:
    """A trace of each version: two generations of one batch of every timed event, and their tables."""
    traces = [_trace(version) for version in Version if version >= Version.GO1_22]
    return [*traces, generations(50), empty_generations(200), repeated_text(20, 4000)]


def _trace(version: Version) -> bytes:
    out = version.header
    for generation in (1, 2):
        timed = [Event(version, s.type, range(1, len(s.args) + 1)) for s in version.specs if s.timed]
        tables = [
            [Event(version, "Strings"), *(Event(version, "String", [i], b"word \xff%d" % i) for i in range(1, 6))],
            [Event(version, "Stacks"), *(Event(version, "Stack", [i, 1, 99, 1, 2, i]) for i in range(1, 6))],
            [Event(version, "CPUSamples"), Event(version, "CPUSample", [105, 1, 1, 1, 3])],
            [Event(version, "Frequency", [15625000])],
        ]
        if version >= Version.GO1_25:
            tables[3] = [Event(version, "Sync"), *tables[3], Event(version, "ClockSnapshot", [1, 2, 3, 4])]
        for events in [timed, *tables]:
            body = b"".join(event.encode() for event in events)
            out += Event(version, "EventBatch", [generation, 1, 100, len(body)]).encode() + body
        if version >= Version.GO1_26:
            out += Event(version, "EndOfGeneration").encode()
    return out


def target(data: bytes) -> None:
    text, wire = io.BytesIO(), io.BytesIO()
    with contextlib.suppress(WhenceError):
        gotrace.wire_to_text(data, text, keep_padding=True)
        gotrace.text_to_wire(text.getvalue(), wire, keep_padding=True)
        assert wire.getvalue() == data
        again = b"".join(event.encode() for event in gotrace.Reader(data, keep_padding=True))
        assert data[16:] == again
    for use in (
        lambda: gotrace.columns(data, threads=1),
        lambda: info(data, threads=1),
        lambda: verify(data, threads=1),
        lambda: [str(row) for block in FilteredBlocks(data) for row in records(block)],
        lambda: filter_trace(data, io.BytesIO(), Filter(since=0.0, until=1.0, goroutines=frozenset([1, 2]))),
        lambda: anonymize(data, io.BytesIO()),
        lambda: salvage(data, io.BytesIO()),
        lambda: read_go_trace(data),
        lambda: gotrace.fix_sizes(data, io.BytesIO()),
    ):
        with contextlib.suppress(WhenceError):
            use()
