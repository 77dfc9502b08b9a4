"""Conversion between text and binary form, and the errors for malformed input."""

from __future__ import annotations

import io
import itertools

import pytest

from whence import gotrace
from whence._base.errors import TraceError, Unsupported
from whence.gotrace import Event, Version

HEADER = b"go 1.26 trace\0\0\0"
TEXT = b"""Trace Go1.26
EventBatch gen=1 m=18446744073709551615 time=57733425464 size=23
Sync
Frequency freq=15625000
ClockSnapshot dt=51 mono=3694939232981 sec=1795215248 nsec=193809629
Stack id=1 nframes=2
\tpc=4242 func=1 file=2 line=77
\tpc=4343 func=3 file=2 line=0
String id=5
\tdata="hello \\"world\\"\\x00\\n\xc3\xa9"
ExperimentalBatch exp=1 gen=1 m=2 time=3
\tdata="\\xff"
GoroutineStackAlloc dt=1 id=2 order=3
EndOfGeneration
"""


def to_wire(text: bytes, **options: bool) -> bytes:
    out = io.BytesIO()
    gotrace.text_to_wire(text, out, **options)
    return out.getvalue()


def to_text(wire: bytes, **options: bool) -> bytes:
    out = io.BytesIO()
    gotrace.wire_to_text(wire, out, **options)
    return out.getvalue()


def test_text_to_wire_to_text_gives_the_text_back() -> None:
    assert to_text(to_wire(TEXT)) == TEXT


def test_an_event_prints_as_its_lines() -> None:
    events = list(gotrace.Reader(to_wire(TEXT)))
    assert "".join(f"{event}\n" for event in events).encode() == TEXT.partition(b"\n")[2]
    assert [event.name for event in gotrace.TextReader(TEXT)] == [event.name for event in events]


def test_both_readers_and_both_writers_agree() -> None:
    wire, text = io.BytesIO(), io.BytesIO()
    with gotrace.TextReader(io.BytesIO(TEXT)) as reader, gotrace.Writer(wire, reader.version) as writer:
        while (event := reader.read_event()) is not None:
            writer.write_event(event)
    assert wire.getvalue() == to_wire(TEXT)
    with gotrace.Reader(wire.getvalue()) as events, gotrace.TextWriter(text, events.version) as lines:
        for event in events:
            lines.write_event(event)
    assert text.getvalue() == TEXT


def test_spaces_comments_and_quotes_are_read_as_go_reads_them() -> None:
    loose = (
        "# a comment\n\n \t Trace\u2003Go1.26 \u00a0\r\n"
        "\u3000GoStart\tdt=00  g=7\u0085g_seq=1\u2028\n   # another\n"
        "String   id=1\n\n  data  = \u2029 `raw \\ \r string` \r\n"
        "String id=2\ndata='\\u20ac'\n"
        'String id=3\n\tdata="\\a\\b\\f\\n\\r\\t\\v\\\\\\"\\x41\\101\\U0001F600"'
    ).encode()
    events = list(gotrace.TextReader(loose))
    assert events[0].args == (0, 7, 1)
    assert [event.data for event in events[1:]] == [
        b"raw \\  string",
        "€".encode(),
        b'\a\b\f\n\r\t\v\\"AA\xf0\x9f\x98\x80',
    ]


@pytest.mark.parametrize(
    ("lines", "line", "column", "problem"),
    [
        ("Nothing dt=1", 2, 1, 'no event of Go 1.25 is named "Nothing"'),
        ("GoStart dt=1 x=2 g_seq=3", 2, 14, '"g"'),
        ("GoStart dt=1 g=2", 2, 17, 'the argument "g_seq" is missing'),
        ("GoStart dt=1 g=2 g_seq=3 more=4", 2, 26, 'unexpected "more=4" after'),
        ("GoStart dt=1 g=2 g_seq=3 # why", 2, 26, 'unexpected "#" after'),
        ("GoStart dt=1 g=-2 g_seq=3", 2, 16, "unsigned decimal"),
        ("GoStart dt=18446744073709551616 g=2 g_seq=3", 2, 12, "64 bits"),
        ("GoStart dt= g=2 g_seq=3", 2, 12, "unsigned decimal"),
        ("GoStart dt", 2, 9, 'expected dt=number, found "dt"'),
        ("Stack id=1 nframes=1\nGoStop", 3, 1, "expected pc=number"),
        ("Stack id=1 nframes=2\n\tpc=1 func=1 file=1 line=1\n\n\tpc=1 func=1 lime=1", 5, 14, '"file"'),
        ("String id=1\n\tdate=3", 3, 2, "data="),
        ('String id=1\n\tdata=\u00e9"a', 3, 7, "quoted"),
        ('String id=1\n\tdata="\\q"', 3, 7, "quoted"),
        ('String id=1\n\tdata="\\ud800"', 3, 7, "quoted"),
        ("String id=1\n\tdata='ab'", 3, 7, "quoted"),
        ("Sync\nString id=1", 4, 1, "ends inside an event"),
    ],
)
def test_a_text_error_has_line_column_and_offset(lines: str, line: int, column: int, problem: str) -> None:
    text = f"Trace Go1.25\n{lines}\n".encode()
    with pytest.raises(gotrace.TextError, match=problem) as caught:
        to_wire(text)
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert error.offset is not None
    before = text[: error.offset].decode()
    assert before.count("\n") + 1 == line
    assert len(before.rpartition("\n")[2]) + 1 == column


def test_events_before_an_error_are_delivered() -> None:
    reader = gotrace.TextReader(b"Trace Go1.22\nProcStop dt=1\nProcStop dt=2\nProcStop\n")
    assert [next(reader)["dt"], next(reader)["dt"]] == [1, 2]
    with pytest.raises(gotrace.TextError, match="line 4"):
        next(reader)


def test_a_cut_off_wire_trace_delivers_its_events_then_an_error_with_the_offset() -> None:
    wire = to_wire(TEXT)
    events = list(gotrace.Reader(wire))
    ends = list(itertools.accumulate([len(event.encode()) for event in events], initial=len(HEADER)))
    for size in range(len(HEADER), len(wire)):
        seen = []
        reader = gotrace.Reader(wire[:size])
        cut_at = None
        try:
            while (event := reader.read_event()) is not None:
                seen.append(event)
        except TraceError as error:
            cut_at = error.offset
        assert cut_at == (None if size in ends else size)
        assert seen == events[: sum(end <= size for end in ends) - 1]


def test_data_of_no_length_survives() -> None:
    text = b'Trace Go1.22\nString id=3\n\tdata=""\n'
    assert to_text(to_wire(text)) == text
    assert to_wire(text)[16:] == b"\x05\x03\x00"


def test_lines_longer_than_any_buffer_survive() -> None:
    wire = Version.GO1_22.header + Event(Version.GO1_22, "String", [1], bytes(range(256)) * 20_000).encode()
    assert to_wire(to_text(wire)) == wire
    assert next(gotrace.TextReader(to_text(wire))).encode() == wire[16:]


def test_a_stack_larger_than_any_buffer_survives() -> None:
    frames = list(range(4 * 200_000))
    wire = Version.GO1_22.header + Event(Version.GO1_22, "Stack", [1, 200_000, *frames]).encode()
    assert to_wire(to_text(wire)) == wire
    assert next(iter(gotrace.Reader(io.BytesIO(wire)))).frames[-1] == tuple(frames[-4:])


def test_padded_numbers_are_read_always_and_kept_when_asked() -> None:
    wire = HEADER + b"\x10\x80\x80\x00\x87\x00\x01" + b"\x05\x01\x82\x80\x00hi" + b"\x03\x01\x01\x81\x00\x01\x02\x00"
    assert to_text(wire) == (
        b'Trace Go1.26\nGoStart dt=0 g=7 g_seq=1\nString id=1\n\tdata="hi"\n'
        b"Stack id=1 nframes=1\n\tpc=1 func=1 file=2 line=0\n"
    )
    kept = to_text(wire, keep_padding=True)
    assert b"dt=000 g=07 g_seq=1" in kept
    assert b'data=  "hi"' in kept
    assert to_wire(kept, keep_padding=True) == wire
    assert to_wire(kept) == to_wire(to_text(wire))
    events = list(gotrace.Reader(wire, keep_padding=True))
    assert [event.padding for event in events] == [b"\2\1\0", b"\0\2", b"\0\0\1\0\0\0"]
    assert b"".join(event.encode() for event in events) == wire[16:]


def test_hostile_counts_allocate_nothing() -> None:
    huge = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    for body in (b"\x05\x01" + huge, b"\x03\x01" + huge, b"\x03\x01" + huge + b"\1" * 50):
        with pytest.raises(
            TraceError, match=f"the last generation is cut off at byte {len(HEADER + body)}, inside an event"
        ):
            list(gotrace.Reader(HEADER + body))
        with pytest.raises(
            TraceError, match=f"the last generation is cut off at byte {len(HEADER + body)}, inside an event"
        ):
            to_text(HEADER + body)
    with pytest.raises(TraceError, match="64 bits"):
        to_text(HEADER + b"\x08" + b"\xff" * 9 + b"\x02")


def test_types_that_a_version_does_not_have_are_refused_with_their_offset() -> None:
    for kind, version in ((45, 22), (128, 22), (50, 23), (52, 25), (60, 26), (0, 26), (137, 26)):
        wire = b"go 1.%d trace\0\0\0\x02" % version + bytes([kind])
        for read in (lambda: list(gotrace.Reader(wire)), lambda: to_text(wire)):  # noqa: B023
            with pytest.raises(TraceError, match=rf"event type {kind} does not exist in Go 1\.{version}") as caught:
                read()
            assert caught.value.offset == 17


def test_experimental_events_are_read_since_1_23() -> None:
    for version in (23, 25, 26):
        text = b"Trace Go1.%d\nSpan dt=1 id=2 npages_value=3 kindclass=4\n" % version
        assert to_text(to_wire(text)) == text


@pytest.mark.parametrize("minor", [11, 19, 21])
def test_older_formats_are_recognized_and_refused(minor: int) -> None:
    with pytest.raises(Unsupported, match=rf"Go 1\.{minor}"):
        gotrace.Reader(b"go 1.%d trace\0\0\0" % minor)
    with pytest.raises(Unsupported, match=rf"Go 1\.{minor}"):
        gotrace.TextReader(b"Trace Go1.%d\n" % minor)


@pytest.mark.parametrize("head", [b"", b"go 1.26", b"go 1.24 trace\0\0\0", b"go 1.26 trace\0\0x", b"\x7fELF" * 9])
def test_a_file_that_is_not_a_trace_is_refused(head: bytes) -> None:
    with pytest.raises(TraceError):
        gotrace.Reader(head)
    with pytest.raises(TraceError):
        to_wire(head)


def test_an_event_of_another_version_is_not_written() -> None:
    with pytest.raises(TraceError, match=r"Go 1\.22"), gotrace.Writer(io.BytesIO(), Version.GO1_22) as writer:
        writer.write_event(Event(Version.GO1_23, "ProcStop", [1]))


WRONG: list[tuple[str | int, tuple[int, ...]]] = [
    ("ProcStop", ()),
    ("ProcStop", (1, 2)),
    ("ProcStop", (-1,)),
    ("ProcStop", (1 << 64,)),
    ("Stack", (1, 1, 2, 3)),
    ("Nope", ()),
    (200, ()),
]


@pytest.mark.parametrize(("kind", "args"), WRONG)
def test_an_event_is_checked_when_it_is_made(kind: str | int, args: tuple[int, ...]) -> None:
    with pytest.raises(TraceError):
        Event(Version.GO1_22, kind, args)
