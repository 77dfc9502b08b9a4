"""perf script's text: samples, inlined calls, mapping events, offsets, lines; and what it can't say."""

from __future__ import annotations

import pytest

from whence.errors import ProfileError
from whence.model import Frame
from whence.profiles import folded, perf, pprof
from whence.profiles.model import NO_MAPPING, Label, Mapping, SampleType

OFFSETS = """
# a comment
my app 42/43 [001]  81.500000:     250000 cycles:u:
\t            11d6 outer+0x16 (/bin/app)
\t           2724a [unknown] (/usr/lib/libc.so.6)

my app 42/43 [001]  81.600000:     250000 cycles:u:
\t            11d6 outer+0x16 (/bin/app)
\t           2724a [unknown] (/usr/lib/libc.so.6)

kworker/0:1 7 81.7: 1 cpu-clock:pppH:
\tffffffff81000012 do_idle+0x2 ([kernel.kallsyms])
"""

MAPPED = """
app 42 81.1: PERF_RECORD_MMAP2 42/42: [0x55d000(0x1000) @ 0x1000 08:01 77 0]: r-xp /bin/app
app 42 81.1: PERF_RECORD_MMAP2 42/42: [0x55e000(0x1000) @ 0x2000 08:01 77 0]: rw-p /bin/app
app 42 81.2: PERF_RECORD_MMAP2 42/42: [0x7f0000(0x9000) @ 0 <0123456789abcdef01234567>]: r-xp /lib/z z.so
app 42 81.2: PERF_RECORD_FORK(50:50):(42:42)
app 42 81.3: 1 cycles:
\t55d0e4 main+0x14 (/bin/app)
\t7f1230 [unknown] (/lib/z z.so)

child 50 81.4: 1 cycles:
\t1234 [unknown] (/lib/z z.so)
"""


def test_samples_with_equal_stacks_are_added_up_and_each_event_is_a_sample_type() -> None:
    profile = perf.read(OFFSETS)
    cycles, clock = SampleType("cycles", "count"), SampleType("cpu-clock", "nanoseconds")
    assert profile.sample_types == [SampleType("samples", "count"), cycles, clock]
    assert [list(column) for column in profile.samples.values] == [[2, 1], [500000, 0], [0, 1]]
    assert profile.samples.labels[0] == (Label("comm", "my app"), Label("pid", number=42), Label("tid", number=43))


def test_offsets_in_files_are_placed_where_nothing_else_is_and_callers_point_into_the_call() -> None:
    profile = perf.read(OFFSETS)
    app, libc, kernel = profile.mappings
    assert profile.address[0] - app.start == 0x11D6
    assert profile.address[1] - libc.start == 0x2724A - 1
    assert app.limit <= libc.start
    assert kernel == Mapping(path="[kernel.kallsyms]")
    assert profile.frames == [(Frame("outer"),), (), (Frame("do_idle"),)]


def test_mapping_events_place_runtime_addresses_and_offsets_alike() -> None:
    profile = perf.read(MAPPED)
    assert profile.mappings == [
        Mapping(0x55D000, 0x55E000, 0x1000, "/bin/app"),
        Mapping(0x7F0000, 0x7F9000, 0, "/lib/z z.so", "0123456789abcdef01234567"),
    ]
    assert list(zip(profile.mapping, profile.address)) == [(0, 0x55D0E4), (1, 0x7F122F), (1, 0x7F1234)]


def test_runtime_addresses_without_mapping_events_stay_as_they_are() -> None:
    profile = perf.read("app 1 1.0: 1 cycles:\n\t7f1234567890 [unknown] (/lib/z.so)\n\t401000 f (/bin/app)\n")
    assert profile.mappings == [Mapping(path="/lib/z.so"), Mapping(path="/bin/app")]
    assert list(profile.address) == [0x7F1234567890, 0x400FFF]


def test_offsets_given_beside_runtime_addresses_are_used() -> None:
    profile = perf.read("app 1 1.0: 1 cycles:\n\t7f1234567890 [unknown] (/lib/z.so+0x7890)\n")
    assert profile.address[0] - profile.mappings[0].start == 0x7890


def test_inlined_calls_and_source_lines_make_one_location() -> None:
    text = "app 1 1.0: 1 cycles:\n\t1d6 inner (inlined)\n  a.c:3\n\t1d6 outer+0x16 (/bin/app)\n  b.c:4\n\n"
    profile = perf.read(text)
    assert profile.frames == [(Frame("inner", "a.c", 3, True), Frame("outer", "b.c", 4))]


def test_a_newer_mapping_takes_the_place_of_the_one_it_covers() -> None:
    event = "app 1 1.0: PERF_RECORD_MMAP2 1/1: [{}(0x1000) @ 0 08:01 7 0]: r-xp {}\n"
    text = event.format("0x1000", "/old") + event.format("0x1000", "/new") + "app 1 1.0: 1 cycles:\n\t1010 f (/new)\n"
    profile = perf.read(text)
    assert profile.mappings[profile.mapping[0]].path == "/new"


def test_an_unknown_place_has_no_mapping() -> None:
    assert list(perf.read("app 1 1.0: 1 cycles:\n\t5d [unknown] ([unknown])\n").mapping) == [NO_MAPPING]


def test_a_sample_of_one_line_is_read() -> None:
    profile = perf.read("app 1 [000] 1.0: 3 cycles:  ffff81000012 do_idle+0x2 ([kernel.kallsyms])\n")
    assert folded.write(profile) == "app;do_idle 3\n"


def test_the_profile_can_be_written_as_pprof() -> None:
    profile = perf.read(MAPPED)
    again = pprof.read(pprof.write(profile))
    assert again.samples.values == profile.samples.values
    assert again.mappings == profile.mappings


def test_perf_text_is_told_from_folded_stacks() -> None:
    assert perf.looks_like(OFFSETS)
    assert perf.looks_like(MAPPED)
    assert not perf.looks_like("main;work 3\n")


def test_a_line_that_is_neither_header_nor_frame_is_an_error_with_its_number() -> None:
    with pytest.raises(ProfileError, match="perf line 1: a sample starts with"):
        perf.read("what is this\n")
    with pytest.raises(ProfileError, match="perf line 3: a frame is an address"):
        perf.read("app 1 1.0: 1 cycles:\n\t1d6 f (/bin/app)\n\tnonsense here\n")
