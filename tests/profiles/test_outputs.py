"""What a profile is written as beside pprof and OTLP: tables for people, JSON, Arrow, Firefox Profiler, speedscope."""

from __future__ import annotations

import gzip
import json
import re
from array import array
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whence
from tests.helpers.firefox import FrontEnd, stacks_of
from tests.helpers.perf_text import TWO_THREADS
from tests.helpers.profiles import REASON, made, names, profile_of, program_profile
from tests.helpers.programs import compiled
from whence._base.model import Frame
from whence._base.reasons import Missing, Reason
from whence.cli import main
from whence.flamegraph.tree import tree
from whence.objects.elf import ElfFile
from whence.objects.elf.segments import image_base
from whence.profiles import Profile, arrow, merge, top
from whence.profiles.formats import firefox, folded, perf, plain_json, pprof, speedscope, written
from whence.profiles.formats import registry as formats
from whence.samples.model import NO_MAPPING, Label, Mapping, SampleType, Timeline


def test_a_table_has_the_functions_with_most_self_first() -> None:
    result = top.top(made())
    assert [(row.self, row.total, row.function) for row in result.rows] == [
        (90, 90, "inner<1;2>"), (10, 10, "libz.so.1+0x1f20"), (0, 100, "main"), (0, 90, "work"),
    ]  # fmt: skip
    assert (result.total, result.unit, result.functions) == (100, "nanoseconds", 4)
    assert result.rows[1].reason == REASON
    assert [row.function for row in top.top(made(), 2, "total").rows] == ["main", "inner<1;2>"]


def test_a_recursive_function_counts_once_in_its_total() -> None:
    profile = profile_of([(["main", "f", "f", "f"], 5), (["main", "f"], 2)])
    rows = {row.function: (row.self, row.total) for row in top.top(profile).rows}
    assert rows == {"f": (7, 7), "main": (0, 7)}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(names, st.integers(1, 9))))
def test_self_values_add_up_to_the_total(
    names_and_values: list[tuple[list[str], int]],
) -> None:
    result = top.top(profile_of(names_and_values), 0)
    assert sum(row.self for row in result.rows) == sum(value for stack, value in names_and_values if stack)
    assert all(row.self <= row.total <= result.total for row in result.rows)


def test_an_option_prints_the_table_on_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.pb"
    path.write_bytes(pprof.write(made(), compress=False))
    assert main(["profile", str(path), "--top", "1", "--sort", "total"]) == 0
    said = capfd.readouterr().out.splitlines()
    assert said[0] == "cpu: 100 ns in 4 functions, 1 shown"
    assert said[1].split() == ["self", "total", "function", "file", "binary"]
    assert said[2].split() == ["0", "ns", "0.0%", "100", "ns", "100.0%", "main", "/src/a.c", "app"]
    assert len(said) == 3
    assert main(["profile", str(path), "--format", "top", "--sample-type", "samples"]) == 0
    assert capfd.readouterr().out.startswith("samples: 3 in 4 functions\n")
    assert main(["profile", str(path), "--top", "3", "--by", "binary"]) == 0
    assert capfd.readouterr().out.splitlines()[2].split()[-1] == "app"
    assert main(["profile", str(path), "--by", "binary"]) == 2
    assert "give --top N" in capfd.readouterr().err
    assert main(["profile", str(path), "--top", "3", "--format", "pprof"]) == 2
    with pytest.raises(SystemExit, match="2"):
        main(["profile", str(path), "--top", "-3"])


def test_processes_threads_binaries_and_lines_have_tables() -> None:
    profile = made()
    threads = [(7, "redis"), (8, "bio"), (7, "redis")]
    profile.samples.labels = [
        (Label("comm", name), Label("pid", number=7), Label("tid", number=tid)) for tid, name in threads
    ]

    def rows(by: str) -> list[tuple[int, int, str]]:
        return [row[:3] for row in Profile.of(profile).top(by=by).rows]

    assert rows("process") == [(100, 100, "redis")]
    assert rows("thread") == [(90, 90, "redis 7"), (10, 10, "redis: bio 8")]
    assert rows("binary") == [(90, 100, "app"), (10, 10, "libz.so.1")]
    result = top.top(profile, by="line")
    assert [(row.function, row.file, row.line) for row in result.rows][:1] == [("inner<1;2>", "/src/b.c", 3)]
    assert "/src/b.c:3" in str(result)
    assert "in 2 binaries\n" in str(top.top(profile, by="binary"))
    with pytest.raises(ValueError, match="unknown group 'color'"):
        top.top(profile, by="color")


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
def test_a_table_fits_into_the_width_of_the_terminal(width: int) -> None:
    profile = made()
    name = "void very::long::" + "name::" * 30 + "f(int)"
    frame = Frame(name, "/build/" + "folder/" * 30 + "main.cpp", 3)
    profile.samples.add([profile.location(0, 0x403000, (frame,))], [1, 50])
    lines = top.text(top.top(profile), width).splitlines()
    assert max(map(len, lines[1:6])) <= width
    assert any("…" in line and line.startswith("50 ns") for line in lines)
    if width >= 140:
        assert any("main.cpp" in line for line in lines)


def test_reasons_are_words_explained_once_below_the_table() -> None:
    profile = made()
    for address in (0x700F30, 0x700F40):
        location = profile.location(1, address)
        profile.reasons[location] = str(Missing(Reason.NO_DEBUG_FILE, "own path /lib/libz.so.1"))
        profile.samples.add([location], [1, 5])
    lines = str(top.top(profile)).splitlines()
    assert sum(line.endswith("no-debug-file") for line in lines) == 2
    assert lines[-3:] == ["", REASON, f"no-debug-file: {Reason.NO_DEBUG_FILE.sentence}"]


def test_unnamed_addresses_of_a_function_are_one_row_and_one_frame() -> None:
    profile = made()
    for address in (0x700F30, 0x700F40):
        location = profile.location(1, address)
        profile.starts[location] = 0x700F00
        profile.samples.add([location], [1, 5])
    rows = {row.function: row.self for row in top.top(profile).rows}
    assert rows["libz.so.1+0x1f00 (no name)"] == 10
    assert sum(frame.name == "libz.so.1+0x1f00 (no name)" for frame in tree(profile).frames) == 1
    assert "(no name)" not in folded.write(profile)
    assert {row.function for row in top.top(merge([profile, profile])).rows} >= {"libz.so.1+0x1f00 (no name)"}
    profile.name(location, (Frame("found"),))
    values = {row.function: row.self for row in top.top(profile).rows}
    assert (values["found"], values["libz.so.1+0x1f00 (no name)"]) == (5, 5)


def test_addresses_outside_of_all_mappings_are_one_unknown_frame() -> None:
    profile = made()
    for address in (0x2D, 0x14034C):
        profile.samples.add([profile.location(NO_MAPPING, address)], [1, 5])
    assert {row.function: row.self for row in top.top(profile).rows}["[unknown]"] == 10
    assert sum(frame.name == "[unknown]" for frame in tree(profile).frames) == 1
    bare = Profile([SampleType("cpu", "nanoseconds")])
    for address in (0x2D, 0x14034C):
        bare.samples.add([bare.location(NO_MAPPING, address)], [5])
    assert {row.function for row in top.top(bare).rows} == {"0x2d", "0x14034c"}


def test_json_has_the_whole_profile(tmp_path: Path) -> None:
    profile = made()
    profile.samples.labels[0] = (Label("comm", "app"), Label("pid", number=7))
    profile.mappings[1] = profile.mappings[1]._replace(start=0xFFFFFFFF81000000, limit=0)
    document = json.loads(plain_json.write(profile, "x"))
    assert document["sample_types"][1] == {"type": "cpu", "unit": "nanoseconds"}
    assert document["default_type"] == 1
    assert document["mappings"][1]["start"] == "0xffffffff81000000"
    location = document["locations"][1]
    assert location["frames"][0] == {"function": "inner<1;2>", "file": "/src/b.c", "line": 3, "inlined": True}
    assert document["locations"][2]["reason"] == REASON
    sample = document["samples"][0]
    assert (sample["values"], sample["labels"]) == ([1, 30], {"comm": "app", "pid": 7})
    stack = [document["locations"][index] for index in document["stacks"][sample["stack"]]]
    assert [location["frames"][-1]["function"] for location in stack] == ["work", "main"]


def test_arrow_has_a_row_for_each_sample_with_its_frames() -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.ipc.open_stream(arrow.write(made())).read_all()
    assert table.column_names == ["samples", "cpu", "stack", "labels"]
    assert table["cpu"].to_pylist() == [30, 10, 60]
    assert table.field("cpu").metadata == {b"unit": b"nanoseconds"}
    first, second, _ = table["stack"].to_pylist()
    assert [(each["function"], each["inlined"], each["line"]) for each in first] == [
        ("inner<1;2>", True, 3), ("work", False, 5), ("main", False, 9),
    ]  # fmt: skip
    assert second[0]["function"] is None
    assert (second[0]["reason"], second[0]["binary"], second[0]["address"]) == (REASON, "libz.so.1", 0x700F20)


def test_arrow_has_a_row_for_each_event_if_times_are_known() -> None:
    pytest.importorskip("pyarrow")
    table = perf_profile().to_arrow()
    assert table["time"].to_pylist() == [10_000_300_000, 10_000_100_000, 10_000_200_000]
    assert table["cpu-clock"].to_pylist() == [100, 200, 300]
    assert dict(table["labels"].to_pylist()[1]) == {"comm": "app", "pid": "42", "tid": "43"}


def perf_profile() -> Profile:
    return Profile.of(perf.read(TWO_THREADS))


def test_perf_text_has_times_and_lost_samples() -> None:
    profile = perf.read(TWO_THREADS + TWO_THREADS.replace(" 10.0", " 11.0"))
    timeline = profile.samples.timeline
    assert timeline is not None
    assert len(profile.samples) == 3
    assert list(timeline.sample) == [0, 1, 2, 0, 1, 2]
    assert [list(column) for column in profile.samples.values] == [[2, 2, 2], [200, 400, 600]]
    assert [timeline.time[offset] for offset in timeline.in_order()][:3] == [
        10_000_100_000,
        10_000_200_000,
        10_000_300_000,
    ]
    assert [(each.samples, each.time, each.tid) for each in profile.lost] == [
        (33, 10_000_250_000, 43),
        (33, 11_000_250_000, 43),
    ]


def test_filtering_keeps_times() -> None:
    profile = perf_profile().filter(lambda sample: "main" in sample.functions)
    timeline = profile.samples.timeline
    assert timeline is not None
    assert list(timeline.sample) == [0, 1]
    assert list(timeline.values[1]) == [100, 300]


def test_firefox_has_the_stacks_with_inlined_calls_files_and_categories() -> None:
    document = json.loads(firefox.write(made(), "made"))
    assert document["meta"]["preprocessedProfileVersion"] >= 49
    assert stacks_of(document) == [
        ["main", "work", "inner<1;2>"],
        ["main", "libz.so.1+0x1f20"],
        ["main", "work", "inner<1;2>"],
    ]
    frames, functions = document["shared"]["frameTable"], document["shared"]["funcTable"]
    strings = document["shared"]["stringArray"]
    rows = {strings[functions["name"][function]]: index for index, function in enumerate(frames["func"])}
    outer, inner = rows["work"], rows["inner<1;2>"]
    assert frames["address"][outer] == frames["address"][inner] == 0x2000
    assert (frames["inlineDepth"][outer], frames["inlineDepth"][inner]) == (0, 1)
    assert (frames["line"][outer], frames["line"][inner]) == (5, 3)
    source = functions["source"][frames["func"][inner]]
    assert strings[document["shared"]["sources"]["filename"][source]] == "/src/b.c"
    assert [each["name"] for each in document["libs"]] == ["app", "libz.so.1"]
    assert document["threads"][0]["samples"]["weight"] == [30 / 1e6, 10 / 1e6, 60 / 1e6]
    assert document["threads"][0]["samples"]["weightType"] == "tracing-ms"


def test_firefox_has_threads_processes_times_and_lost_samples() -> None:
    document = json.loads(firefox.write(perf_profile()))
    threads = document["threads"]
    assert [(each["name"], each["pid"], each["tid"], each["isMainThread"]) for each in threads] == [
        ("app", "42", 42, True), ("app", "42", 43, False),
    ]  # fmt: skip
    assert stacks_of(document, 0) == [["main", "early"], ["main", "late"]]
    assert threads[0]["samples"]["time"] == [0.1, 0.2]
    assert threads[1]["samples"]["time"] == [0.0]
    markers = threads[1]["markers"]
    assert (markers["data"], markers["startTime"]) == ([{"type": "LostSamples", "count": 33}], [0.15])
    assert threads[0]["markers"]["length"] == 0


def test_firefox_says_kernel_and_generated_code_by_category() -> None:
    profile = profile_of([])
    profile.mappings = [Mapping(1, 1 << 63, 0, "[kernel.kallsyms]_text"), Mapping(5, 9, 0, "//anon")]
    stack = [profile.location(0, 0xFFFFFFFF81000000, (Frame("k"),)), profile.location(1, 6, (Frame("jit"),))]
    profile.samples.add([*stack, profile.location(NO_MAPPING, 0, (Frame("x"),))], [1])
    document = json.loads(firefox.write(profile))
    names = [document["meta"]["categories"][each]["name"] for each in document["shared"]["frameTable"]["category"]]
    assert names == ["Other", "Generated code", "Kernel"]


def test_speedscope_is_in_order_of_time_if_times_are_known() -> None:
    document = json.loads(speedscope.write(perf_profile()))
    names = [each["name"] for each in document["shared"]["frames"]]
    result = {each["name"]: each for each in document["profiles"]}
    assert list(result) == ["samples · app 42", "samples · app 43", "cpu-clock · app 42", "cpu-clock · app 43"]
    main = result["cpu-clock · app 42"]
    assert [[names[offset] for offset in row] for row in main["samples"]] == [["main", "early"], ["main", "late"]]
    assert (main["weights"], main["unit"], main["endValue"]) == ([300, 100], "nanoseconds", 400)
    assert document["profiles"][document["activeProfileIndex"]] is main or document["activeProfileIndex"] == 2


def test_speedscope_adds_up_neighbours_with_equal_stacks() -> None:
    profile = profile_of([(["a", "b"], 3), (["a"], 1)])
    profile.samples.timeline = Timeline(array("I", [0, 1, 0, 0]), array("q", [1, 9, 2, 10]), [array("q", [1] * 4)])
    (result,) = json.loads(speedscope.write(profile))["profiles"]
    assert result["weights"] == [2, 1, 1]


@pytest.mark.parametrize("ending", [".firefox.json", ".firefox.json.gz"])
def test_the_ending_chooses_firefox_and_gzip(tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"out{ending}"
    formats.write(made(), out)
    data = gzip.decompress(out.read_bytes()) if ending.endswith("gz") else out.read_bytes()
    assert json.loads(data)["threads"][0]["name"] == out.name


@pytest.mark.parametrize("format", written.WRITTEN)
def test_each_format_can_store_an_empty_profile(format: str) -> None:
    for profile in (Profile(), Profile([SampleType("samples", "count")]), Profile.of(folded.read("a;b 1\n"))):
        assert isinstance(formats.to_bytes(profile, format, "x"), bytes)


@pytest.mark.parametrize("format", written.WRITTEN)
def test_each_format_can_store_names_that_are_not_utf8(format: str) -> None:
    profile = Profile.of(folded.read(b"a\xff;b\x00c\xed\xa0\x80 1\n".decode("utf-8", "surrogateescape")))
    profile.reasons[profile.location(NO_MAPPING, 5)] = "why\udcff"
    assert formats.to_bytes(profile, format, "x\udcff")


@pytest.mark.parametrize("flags", [("-pie",), ("-no-pie", "-Wl,-Ttext-segment=0x10000000")], ids=["pie", "fixed"])
@pytest.mark.parametrize("by", ["file", "archive"])
def test_firefox_has_the_functions_of_addresses_relative_to_the_image(
    flags: tuple[str, ...], by: str, tmp_path: Path
) -> None:
    path = source = compiled("-Wl,--build-id", *flags)
    if by == "archive":
        source = tmp_path / "a.lidia"
        assert main(["lidia", "create", str(path), "-o", str(source)]) == 0
    profile = Profile.of(program_profile(path))
    profile.symbolize(str(source))
    document = json.loads(profile.to_bytes("firefox"))
    with whence.open(path) as binary, ElfFile.open(path) as elf:
        base = image_base(tuple(elf.segments))
        functions = {part.function: (part.vaddr - base, part.length) for part in binary.functions()}
    shared = document["shared"]
    symbols, frames = shared["nativeSymbols"], shared["frameTable"]
    names = [shared["stringArray"][name] for name in symbols["name"]]
    assert {"main", "sum"} <= {*names}
    assert list(zip(symbols["address"], symbols["functionSize"], strict=True)) == [functions[name] for name in names]
    assert {*symbols["libIndex"]} == {0}
    for address, symbol in zip(frames["address"], frames["nativeSymbol"], strict=True):
        assert 0 <= address - symbols["address"][symbol] < symbols["functionSize"][symbol]


def test_the_firefox_profiler_opens_the_output(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    formats.write(perf_profile(), path, "firefox")
    with FrontEnd() as front_end:
        said = front_end.said
        said("load", str(path))
        info, tree, functions, markers = (
            said("profile", "info"), said("thread", "samples-top-down"), said("thread", "functions"),
            said("thread", "markers", "--thread", "t-1"),
        )  # fmt: skip
    assert "2 threads across 1 processes" in info
    assert "app!main [total: 100.0%, self: 0.0%]" in tree
    assert re.search(r"app!early - self: \S+ \(75\.0%\), total: \S+ \(75\.0%\)", functions)
    assert "LostSamples" in markers or "Lost samples" in markers
