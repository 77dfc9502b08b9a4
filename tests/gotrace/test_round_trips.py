"""Generated events of every kind survive a round trip through each form."""

from __future__ import annotations

import io
from typing import Any, NoReturn, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.survive import survives
from whence import gotrace
from whence._base.errors import TraceError
from whence.gotrace import Event, Version
from whence.gotrace.kernels import event as event_kernel
from whence.gotrace.kernels.layout import EventLayout
from whence.gotrace.specs import layout

NUMBER = st.one_of(st.integers(0, 300), st.integers(0, (1 << 64) - 1))
VERSION = st.sampled_from([v for v in Version if v >= Version.GO1_22])


@st.composite
def event(draw: st.DrawFn, version: Version) -> Event:
    spec = draw(st.sampled_from(sorted(version.specs, key=lambda spec: spec.type)))
    args = [draw(NUMBER) for _ in spec.args]
    if spec.is_stack:
        frames = draw(st.lists(NUMBER, max_size=5)) * 4
        args = [args[0], len(frames) // 4, *frames]
    data = draw(st.binary(max_size=40)) if spec.has_data else None
    values = [*args, *([len(data)] if data is not None else [])]
    room = [10 - max(1, (value.bit_length() + 6) // 7) for value in values]
    padding = bytes(draw(st.integers(0, least)) for least in room) if draw(st.booleans()) else b""
    return Event(version, spec.type, args, data, padding if any(padding) else None)


@st.composite
def events(draw: st.DrawFn) -> tuple[Version, list[Event]]:
    version = draw(VERSION)
    return version, draw(st.lists(event(version), max_size=12))


@given(events())
@settings(max_examples=150, deadline=None)
def test_generated_events_survive_both_forms_with_their_padding(case: tuple[Version, list[Event]]) -> None:
    version, made = case
    wire = version.header + b"".join(event.encode() for event in made)
    text, back = io.BytesIO(), io.BytesIO()
    assert gotrace.wire_to_text(wire, text, keep_padding=True) == len(made)
    assert gotrace.text_to_wire(text.getvalue(), back, keep_padding=True) == len(made)
    assert back.getvalue() == wire
    again = list(gotrace.Reader(wire, keep_padding=True))
    assert again == made
    assert [event.padding for event in again] == [event.padding for event in made]
    assert list(gotrace.TextReader(text.getvalue())) == made


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_unquote_reverses_quote(data: bytes) -> None:
    assert gotrace.unquote(gotrace.quote(data)) == data


@given(st.binary(max_size=120))
@settings(max_examples=200, deadline=None)
def test_any_text_gives_events_or_our_error(data: bytes) -> None:
    out = io.BytesIO()
    survives(gotrace.text_to_wire, b"Trace Go1.26\n" + data, out, refused=gotrace.TextError)


@pytest.mark.parametrize("padding", [[30] * 4, [255] * 4, [9, 10, 9, 9], [0, 0, 0, 10]])
def test_an_event_has_no_padding_that_makes_a_number_longer_than_ten_bytes(padding: list[int]) -> None:
    with pytest.raises(TraceError, match="ten bytes"):
        Event(Version.GO1_23, "EventBatch", [1, 2, 3, 4], padding=bytes(padding))


def test_the_padding_of_an_event_is_a_copy() -> None:
    padding = bytearray([8] * 4)
    event = Event(Version.GO1_23, "EventBatch", [1, 2, 3, 4], padding=cast(bytes, padding))
    padding[:] = b"\xff" * 4
    assert len(event.encode()) == 1 + 4 * 9


@pytest.mark.parametrize("extra", [-1, 10, 0x7FFFFFFF, -0x80000000])
def test_a_number_is_padded_to_ten_bytes_at_most(extra: int) -> None:
    with pytest.raises(TraceError, match="ten bytes"):
        event_kernel.padded(1, extra)


def test_invalid_layouts_and_windows_are_refused() -> None:
    class Feed:
        def __init__(self, *window: object) -> None:
            self.said = window

        def window(self, used: int, cut: bool) -> Any:
            return self.said

        def fail(self, fault: int, where: int, kind: int) -> NoReturn:
            raise AssertionError

    version = Version.GO1_23
    wrong: list[tuple[int, bytes, int, list[bytes]]]
    wrong = [(0, b"Name", 1, []), (137, b"Name", 1, []), (1, b"abc", 1, []), (1, b"Name", 6, [])]
    wrong += [(1, b"Name", 1, [b"x" * 33]), (1, b"Name", 1, [b""] * 7)]
    for kind, name, count, words in wrong:
        with pytest.raises(ValueError, match="not fit"):
            EventLayout().add(kind, name, count, 0, words)
    for window in ((b"abc", -1, 2), (b"abc", 0, 4), (b"", 5, 9)):
        with pytest.raises(ValueError, match="does not contain"):
            next(event_kernel.Stream(Feed(*window), version, layout(version), True))
