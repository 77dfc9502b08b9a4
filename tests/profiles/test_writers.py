"""Folded stacks and speedscope: what a profile says survives, unnamed frames stay visible."""

from __future__ import annotations

import json

import pytest

from tests.helpers.profiles import made
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence.profiles.formats import folded, speedscope, written
from whence.profiles.formats import registry as formats
from whence.samples.model import NO_MAPPING, Label, Mapping, ProfileData, SampleType
from whence.samples.stacks import DisplayFrame, ProfileStacks


def test_folded_stacks_are_outermost_first_with_inlined_calls_and_unnamed_places() -> None:
    assert folded.write(made()) == "main;libz.so.1+0x1f20 10\nmain;work;inner<1:2> 90\n"
    assert folded.write(made(), 0) == "main;libz.so.1+0x1f20 1\nmain;work;inner<1:2> 2\n"


def test_folded_stacks_round_trip_with_any_name() -> None:
    profile = ProfileData([SampleType("samples", "count")])
    profile.samples.add([profile.location(NO_MAPPING, 0, (Frame("\x07a\0b\x1b[2J"),))], [3])
    profile.samples.add([], [4])
    data = formats.to_bytes(profile, "folded")
    assert data == b"[unknown] 4\n\\x07a\\x00b\x1b[2J 3\n"
    again = formats.from_bytes(data)
    assert (again.format, sorted(again.samples.values[0])) == ("folded", [3, 4])


@pytest.mark.parametrize("format", [each for each in (*written.WRITTEN, written.PAGE) if each != "arrow"])
def test_every_format_can_store_a_lone_surrogate(format: str) -> None:
    text = json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "shared": {"frames": [{"name": "f\ud800", "file": "\udfff.js"}]},
            "profiles": [{"type": "sampled", "unit": "none", "name": "t", "samples": [[0]], "weights": [1]}],
        }
    )
    data = formats.to_bytes(formats.from_bytes(text.encode()), format)
    if format in ("pprof", "otlp", "otlp-json", "folded", "firefox", "speedscope"):
        assert [chain[0].function[0] for chain in formats.from_bytes(data).frames] == ["f"]
    else:
        assert b"f" in data


def test_folded_stacks_format_each_location_once(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = ProfileData([SampleType("samples", "count")])
    locations = [profile.location(NO_MAPPING, 0, (Frame(f"f{index}"),)) for index in range(3)]
    for index in range(300):
        labels = (Label("comm", "app"),) if index % 2 else ()
        profile.samples.add([locations[index % 3], locations[0]] if index % 5 else [], [1], labels)
    asked: list[int] = []
    frames = ProfileStacks.frames

    def noted(self: ProfileStacks, location: int) -> tuple[DisplayFrame, ...]:
        asked.append(location)
        return frames(self, location)

    monkeypatch.setattr(ProfileStacks, "frames", noted)
    text = folded.write(profile)
    assert text == "[unknown] 30\napp 30\n" + "".join(
        f"{index}f0;f{each} 40\n" for index in ("app;", "") for each in range(3)
    )
    assert sorted(asked) == locations


def test_folded_stacks_read_back_equal() -> None:
    text = "[unknown];b 7\na;/lib/x.so+0x10 2\na;b 5\n"
    again = folded.read(text)
    assert folded.write(again) == "[unknown];b 7\na;b 5\na;x.so+0x10 2\n"


def test_the_command_of_a_sample_is_its_outermost_frame() -> None:
    profile = ProfileData([SampleType("samples", "count")])
    profile.samples.add([profile.location(NO_MAPPING, 0, (Frame("f"),))], [1], (Label("comm", "python3"),))
    assert folded.write(profile) == "python3;f 1\n"


def test_a_line_without_a_value_is_counted_unless_most_lines_are_invalid() -> None:
    profile = folded.read("a;b 1\na;b\nc 2\n")
    assert (profile.skipped, len(profile.samples)) == (1, 2)
    assert profile.first_skipped == ("folded line 2", "a stack and its value", "a;b")
    with pytest.raises(ProfileError, match=r"folded line 2: expected a stack and its value, found a;b"):
        folded.read("a;b 1\na;b\n some text\n")


def test_speedscope_gets_a_profile_for_each_sample_type() -> None:
    document = json.loads(speedscope.write(made(), "title"))
    assert [each["unit"] for each in document["profiles"]] == ["none", "nanoseconds"]
    assert document["activeProfileIndex"] == 1
    cpu = document["profiles"][1]
    names = [[document["shared"]["frames"][offset]["name"] for offset in row] for row in cpu["samples"]]
    assert names == [["main", "work", "inner<1;2>"], ["main", "libz.so.1+0x1f20"]]
    assert cpu["weights"] == [90, 10]
    assert cpu["endValue"] == 100


def test_speedscope_has_one_frame_for_all_lines_of_a_function() -> None:
    profile = ProfileData([SampleType("samples", "count")], [Mapping(path="/bin/app"), Mapping(path="/bin/other")])
    places = [
        profile.location(0, offset, (Frame("main", "/src/a.c", line, start_line=20),))
        for offset, line in ((1, 22), (2, 25))
    ]
    elsewhere = profile.location(1, 1, (Frame("main", "/src/a.c", 22),))
    leaf = profile.location(0, 9, (Frame("leaf", "/src/a.c", 3),))
    for location in (*places, elsewhere):
        profile.samples.add([leaf, location], [1])
    document = json.loads(speedscope.write(profile))
    assert document["shared"]["frames"] == [
        {"name": "main", "file": "/src/a.c", "line": 20},
        {"name": "leaf", "file": "/src/a.c"},
        {"name": "main", "file": "/src/a.c"},  # of another binary
    ]
    assert document["profiles"][0]["samples"] == [[0, 1], [0, 1], [2, 1]]


FOLDED = {
    "stackcollapse-perf": "java-1234/1240;[unknown];start_thread_[k];do_idle_[k] 12\nmy app;main;[libc.so.6] 3\n",
    "inferno": "app;[unknown] <7f12>;main_[j] 5\n",
    "async-profiler": "[GC_active] 3\n[main tid=12];java/lang/Thread.run_[j];com/acme/Main.work(Ljava;)V 12\n",
    "py-spy": "<module> (app.py:12);work (b.py:3) 4\n",
    "bpftrace": "swapper/0;start_secondary+1;do_idle+12 5\n",
    "dtrace": "libc.so.1`malloc;app`main+0x12 3\n",
    "other lines": "a\u2028b;c 1\n",
    "differences": "a;b 10 -20\n",
}


@pytest.mark.parametrize("tool", FOLDED)
def test_folded_stacks_of_other_tools_round_trip(tool: str) -> None:
    profile, format = formats.read(FOLDED[tool].encode())
    assert format == "folded"
    assert folded.write(profile) == FOLDED[tool]


def test_reads_folded_stacks_with_other_line_ends_and_a_byte_order_mark() -> None:
    profile, _ = formats.read("\ufeffa;b\t17\r\nc 1.5\r\n\r\n".encode())
    assert folded.write(profile) == "a;b 17\nc 1\n"
