"""What profiles are read from beside pprof and OTLP: Firefox Profiler, speedscope, V8, and what tracers print."""

from __future__ import annotations

import copy
import gzip
import json
from array import array
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.firefox import samply_document, stacks_of
from tests.helpers.perf_text import TWO_THREADS
from tests.helpers.profiles import made
from tests.helpers.programs import compiled
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence.cli import main
from whence.locator.locator import Locator
from whence.profiles import Profile, read, top
from whence.profiles.formats import firefox, folded, perf, speedscope, written
from whence.profiles.formats import registry as formats
from whence.samples.model import Label, SampleType, Timeline

DATA = Path(__file__).parents[1] / "data" / "profiles"


def of_threads(document: dict[str, Any], version: int) -> dict[str, Any]:
    """Convert a document with shared tables to a version before 60: each thread has a copy of the tables."""
    out = copy.deepcopy(document)
    shared = out.pop("shared")
    for thread in out["threads"]:
        for name in ("stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols"):
            thread[name] = copy.deepcopy(shared[name])
        if version < 58:
            functions, files = thread["funcTable"], shared["sources"]["filename"]
            functions["fileName"] = [None if each is None else files[each] for each in functions.pop("source")]
        if version < 56:
            thread["stringArray"] = list(shared["stringArray"])
    if version >= 56:
        out["shared"] = {"stringArray": shared["stringArray"]}
        if version >= 58:
            out["shared"]["sources"] = shared["sources"]
    out["meta"]["preprocessedProfileVersion"] = version
    return out


def later(document: dict[str, Any], version: int) -> dict[str, Any]:
    """Convert a document to version 66 or later: offsets of parents, libraries of frames, flags instead of nulls."""
    out = copy.deepcopy(document)
    shared = out["shared"]
    stacks, frames, functions = shared["stackTable"], shared["frameTable"], shared["funcTable"]
    stacks["prefixOffset"] = [0 if each is None else index - each for index, each in enumerate(stacks.pop("prefix"))]
    if version >= 70:
        libs = shared["resourceTable"].pop("lib")
        of = [-1 if each < 0 or libs[each] is None else libs[each] for each in functions["resource"]]
        frames["lib"] = [of[each] for each in frames["func"]]
    if version >= 71:
        depth = frames.pop("inlineDepth")
        frames["flags"] = [
            (depth[index] > 0) | 2 * (frames["address"][index] >= 0 and frames["lib"][index] >= 0) | 4
            | 16 * (frames["line"][index] is not None) | 32 * (frames["column"][index] is not None)
            for index in range(frames["length"])
        ]  # fmt: skip
        for name in ("address", "lib"):
            frames[name] = [max(0, each) for each in frames[name]]
        for name in ("line", "column"):
            frames[name] = [each or 0 for each in frames[name]]
    if version >= 75:
        functions["flags"] = [
            4 * (functions["resource"][index] >= 0) | 8 * (functions["source"][index] is not None)
            | 16 * (functions["lineNumber"][index] is not None)
            for index in range(functions["length"])
        ]  # fmt: skip
        del functions["isJS"], functions["relevantForJS"]
        for name in ("source", "lineNumber", "columnNumber"):
            functions[name] = [each or 0 for each in functions[name]]
    out["meta"]["preprocessedProfileVersion"] = version
    return out


def as_version(document: dict[str, Any], version: int) -> dict[str, Any]:
    return of_threads(document, version) if version < 60 else later(document, version) if version > 65 else document


VERSIONS = [49, 55, 56, 57, 58, 60, 66, 70, 71, 75]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_firefox_profiles_of_each_version_are_read(version: int, pack: Any) -> None:
    document = as_version(json.loads(firefox.write(perf.read(TWO_THREADS))), version)
    profile = read(pack(json.dumps(document).encode()))
    assert profile.format == "firefox"
    assert folded.write(profile) == "app;main;early 300\napp;main;late 100\napp;worker 200\n"
    assert [kind.unit for kind in profile.sample_types] == ["nanoseconds"]
    timeline = profile.samples.timeline
    assert timeline is not None
    assert sorted(timeline.time) == [0, 100_000, 200_000]
    assert {(each.key, each.text or each.number) for each in profile.samples.labels[0]} == {
        ("comm", "app"), ("pid", 42), ("tid", 42),
    }  # fmt: skip
    assert [(each.samples, each.time, each.tid) for each in profile.lost] == [(33, 150_000, 43)]


@pytest.mark.parametrize("version", VERSIONS)
def test_inlined_calls_of_a_firefox_profile_are_one_location(version: int) -> None:
    document = as_version(json.loads(firefox.write(made())), version)
    profile = read(json.dumps(document).encode())
    chain = next(frames for frames in profile.frames if len(frames) == 2)
    assert [(each.function, each.file, each.line, each.inlined) for each in chain] == [
        ("inner<1;2>", "/src/b.c", 3, True), ("work", "/src/a.c", 5, False),
    ]  # fmt: skip
    assert len(profile.address) == 3
    assert [mapping.path for mapping in profile.mappings] == ["/bin/app", "/lib/libz.so.1"]


def unsymbolicated(version: int, *, code_id: bool = True) -> dict[str, Any]:
    return as_version(samply_document(compiled(), code_id=code_id), version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code_id", [True, False])
def test_names_samply_files_by_debug_id_and_changes_nothing_else(version: int, code_id: bool) -> None:
    before = unsymbolicated(version, code_id=code_id)
    profile = read(json.dumps(before).encode())
    assert not any(profile.frames)
    with Locator(files=[str(compiled())], dirs=[]) as locator:
        profile.mappings[0] = profile.mappings[0]._replace(path="/gone/program")
        profile.symbolize(locator)
    after = json.loads(profile.to_bytes("firefox"))
    again = read(json.dumps(after).encode())
    assert [frames[-1].function for frames in again.frames][:2] == ["main", "sum"]
    assert again.frames[0][-1].file.endswith(".c")
    assert again.frames[0][-1].line > 0
    assert after["meta"]["symbolicated"] is True
    assert after["libs"] == before["libs"]
    assert after["threads"][0]["samples"]["time"] == before["threads"][0]["samples"]["time"]
    marker = after["threads"][0]["markers"]["data"][0]
    assert marker["name"] == "x"
    assert isinstance(marker["cause"]["stack"], int)
    if version == 60:
        assert stacks_of(after)[0] == ["main"]


def test_a_firefox_profile_without_new_names_is_written_unchanged() -> None:
    document = json.loads(firefox.write(made()))
    document["counters"] = [{"name": "malloc"}]
    assert json.loads(read(json.dumps(document).encode()).to_bytes("firefox")) == document


def test_inlined_calls_get_their_own_frames(tmp_path: Path) -> None:
    profile = read(json.dumps(unsymbolicated(60)).encode())
    profile.name(0, (Frame("inner", "/a.c", 3, True), Frame("outer", "/b.c", 9, start_line=7)))
    path = tmp_path / "out.firefox.json"
    profile.write(path)
    document = json.loads(path.read_text())
    assert stacks_of(document)[0] == ["outer", "inner"]
    frames = document["shared"]["frameTable"]
    assert frames["inlineDepth"][-2:] == [0, 1]
    assert frames["line"][-2:] == [9, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document["meta"].pop("preprocessedProfileVersion"), "Gecko"),
        (lambda document: document["meta"].update(preprocessedProfileVersion=900), "version"),
        (lambda document: document["meta"].update(preprocessedProfileVersion=30), "version"),
        (lambda document: document["shared"]["stackTable"]["prefix"].__setitem__(0, 7), "stackTable 0"),
        (lambda document: document["shared"]["stackTable"]["frame"].__setitem__(0, 1 << 40), "stackTable 0"),
        (
            lambda document: document["threads"][0]["samples"]["stack"].__setitem__(0, 1 << 40),
            "out of range: there are . stacks",
        ),
        (lambda document: document["threads"][0]["samples"].pop("time"), "timeDeltas"),
        (lambda document: document["shared"].pop("frameTable"), "frameTable"),
        (lambda document: document["shared"]["frameTable"]["func"].clear(), "column func has 0 rows"),
        (lambda document: document.update(threads=5), "invalid document"),
    ],
)
def test_rejects_malformed_firefox_profiles(change: Any, message: str) -> None:
    document = json.loads(firefox.write(made()))
    change(document)
    with pytest.raises(ProfileError, match=message):
        read(json.dumps(document).encode())


def test_time_deltas_and_cpu_deltas_are_read() -> None:
    document = json.loads(firefox.write(made()))
    samples = document["threads"][0]["samples"]
    del samples["time"]
    samples |= {"timeDeltas": [5, 1, 2], "weight": None, "weightType": "samples", "threadCPUDelta": [None, 3, 4]}
    document["meta"]["sampleUnits"] = {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs"}
    profile = read(json.dumps(document).encode())
    assert [kind.type for kind in profile.sample_types] == ["samples", "cpu"]
    timeline = profile.samples.timeline
    assert timeline is not None
    assert list(timeline.time) == [5_000_000, 6_000_000, 8_000_000]
    assert [list(column) for column in timeline.values] == [[1, 1, 1], [0, 3000, 4000]]


# speedscope


def test_speedscope_files_are_read_back() -> None:
    profile = read(speedscope.write(made()).encode())
    assert profile.format == "speedscope"
    assert [kind.unit for kind in profile.sample_types] == ["count", "nanoseconds"]
    assert folded.write(profile) == "main;libz.so.1+0x1f20 10\nmain;work;inner<1:2> 90\n"
    assert profile.frames[0][0].file == "/src/a.c"
    assert any(mapping.path == "libz.so.1" for mapping in profile.mappings)


def test_evented_profiles_count_the_time_between_events() -> None:
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": [{"name": "main"}, {"name": "work", "file": "a.c", "line": 3}]},
        "profiles": [
            {"type": "evented", "name": "one", "unit": "milliseconds", "startValue": 10, "endValue": 20, "events": [
                {"type": "O", "frame": 0, "at": 10}, {"type": "O", "frame": 1, "at": 12},
                {"type": "C", "frame": 1, "at": 15}, {"type": "C", "frame": 0, "at": 20}]},
        ],
    }  # fmt: skip
    profile = read(json.dumps(document).encode())
    assert folded.write(profile) == "main 7000000\nmain;work 3000000\n"
    events = document["profiles"][0]["events"]  # type: ignore[index]
    for broken, message in (
        ([{"type": "C", "frame": 1, "at": 12}], "not the innermost open frame"),
        ([{"type": "O", "frame": 1, "at": 5}], "not in order of time"),
        ([{"type": "O", "frame": 1, "at": 12}], "still open after the last event"),
        ([{"type": "O", "frame": 9, "at": 12}, {"type": "C", "frame": 9, "at": 13}], "invalid document"),
    ):
        events[1:] = broken
        with pytest.raises(ProfileError, match=message):
            read(json.dumps(document).encode())


def test_speedscope_round_trip_keeps_types_and_threads() -> None:
    profile = Profile(
        [SampleType("samples", "count"), SampleType("page-faults", "count"), SampleType("cpu", "seconds")]
    )
    profile.frames, profile.mapping, profile.address = [(Frame("f"),)], array("q", [-1]), array("Q", [0])
    profile.default_type = 2
    for tid, values in ((7, [3, 2, 5]), (8, [1, 0, 4])):
        profile.samples.add([0], values, (Label("pid", number=7), Label("tid", number=tid)))
    profile.samples.timeline = Timeline(
        array("I", [0, 1]), array("q", [10, 20]), [array("q", column) for column in profile.samples.values]
    )
    again = read(speedscope.write(profile).encode())
    assert [kind.type for kind in again.sample_types] == ["samples", "page-faults", "cpu"]
    assert again.default_type == 2
    assert [sum(column) for column in again.samples.values] == [4, 2, 9_000_000_000]
    assert again.samples.labels == profile.samples.labels
    less = profile.diff(profile.filter(lambda sample: sample.labels["tid"] == 7))
    assert sum(read(speedscope.write(less).encode()).samples.values[0]) == 1
    grown = profile.filter(lambda sample: sample.labels["tid"] == 8).diff(profile)
    assert sum(read(speedscope.write(grown).encode()).samples.values[0]) == -3


THREADS = """app 42/42 10.000100: 100 cpu-clock:
\t401000 main (/bin/app)

worker 42/43 10.000200: 100 cpu-clock:
\t401000 main (/bin/app)

other 50/51 10.000300: 100 cpu-clock:
\t401000 main (/bin/app)

"""


@pytest.mark.parametrize("format", ["speedscope", "firefox"])
@pytest.mark.parametrize("name", ["", "app", "42"])
def test_the_command_process_and_thread_of_each_sample_are_read_again(format: str, name: str) -> None:
    profile = read(THREADS.encode())
    assert sorted(each.key for each in profile.samples.labels[0]) == ["comm", "pid", "tid"]
    again = read(profile.to_bytes(format, name=name))
    assert [sorted(each) for each in again.samples.labels] == [sorted(each) for each in profile.samples.labels] * (
        len(again.samples) // len(profile.samples)
    )


@pytest.mark.parametrize("format", ["speedscope", "firefox"])
@pytest.mark.parametrize(
    "labels",
    [
        (Label("pid", number=7), Label("tid", number=8)),
        (Label("comm", "a"), Label("process", "b"), Label("pid", number=7), Label("tid", number=7)),
        (Label("comm", "7"), Label("tid", number=8)),
        (),
    ],
)
def test_unknown_fields_of_a_thread_stay_unknown(format: str, labels: tuple[Label, ...]) -> None:
    profile = Profile([SampleType("samples", "count")])
    profile.samples.add([profile.location(-1, 0, (Frame("f"),))], [1], labels)
    profile.samples.timeline = Timeline(array("I", [0]), array("q", [10]), [array("q", [1])])
    again = read(profile.to_bytes(format, name="the profile"))
    assert sorted(again.samples.labels[0]) == sorted(labels)


def test_a_recorded_speedscope_file_of_py_spy_is_read() -> None:
    profile = read(DATA / "py-spy.speedscope.json")
    assert sum(profile.samples.values[0]) == 2_900_000_000
    assert [row.function for row in top.top(profile, sort="total").rows] == ["work", "<module>", "main"]


# V8


def test_a_recorded_profile_of_node_is_read() -> None:
    document = json.loads((DATA / "node.cpuprofile").read_text())
    profile = read(DATA / "node.cpuprofile")
    assert profile.format == "v8"
    assert sum(profile.samples.values[0]) == len(document["samples"])
    full = document["endTime"] - document["startTime"] - document["timeDeltas"][0]
    assert sum(profile.samples.values[1]) == full * 1000
    first = top.top(profile).rows[0]
    assert (first.function, first.file) == ("fib", "/home/you/w.js")
    assert profile.frames[profile.samples.locations(0)[0]][0].function != "(root)"


def test_the_older_form_of_v8_is_a_tree() -> None:
    inner = {"functionName": "f", "url": "file:///a.js", "lineNumber": 4, "hitCount": 2, "id": 2, "children": []}
    node = {"functionName": "(root)", "url": "", "lineNumber": 0, "hitCount": 0, "id": 1, "children": [inner]}
    document = {
        "head": node,
        "startTime": 100,
        "endTime": 100.5,
        "samples": [2, 1],
        "timestamps": [100_100_000, 100_300_000],
    }
    profile = read(json.dumps(document).encode())
    assert folded.write(profile) == "[unknown] 200000000\nf 200000000\n"


def test_rejects_nodes_in_a_cycle() -> None:
    call = {"functionName": "f", "url": "", "lineNumber": 1}
    nodes = [{"id": 1, "callFrame": call, "children": [2]}, {"id": 2, "callFrame": call, "children": [1]}]
    with pytest.raises(ProfileError, match=r"node \d is its own ancestor"):
        read(json.dumps({"nodes": nodes, "samples": [1], "timeDeltas": [1]}).encode())


@pytest.mark.parametrize("value", ["text", [1], {}, None, "NaN", True])
def test_rejects_times_and_weights_that_are_not_numbers(value: Any) -> None:
    """A text times a thousand million would be a gigabyte."""
    texts = [
        {"nodes": [{"id": 1, "callFrame": {}}], "samples": [1], "timeDeltas": [1], "startTime": value},
        {"head": {"id": 1, "hitCount": 0}, "samples": [1], "timestamps": [1], "startTime": 5, "endTime": value},
        {"shared": {"frames": [{"name": "f"}]},
         "profiles": [{"type": "sampled", "unit": "seconds", "samples": [[0]], "weights": [value]}]},
    ]  # fmt: skip
    for document in texts:
        text = json.dumps(document).replace('"NaN"', "NaN")
        if value is True:
            assert len(read(text.encode()).samples) <= 1
            continue
        with pytest.raises(ProfileError):
            read(text.encode())


# texts

BPFTRACE = """Attaching 1 probe...


@[
    do_nanosleep+66
    do_syscall_64+95
,
    clock_nanosleep+99
    0x5588deadbeef
    __libc_start_call_main+128 (/usr/lib/libc.so.6)
, sleeper, 4242]: 5
@[
    schedule+46
]: 12
@count[bash]: 3
"""
DTRACE = """CPU     ID                    FUNCTION:NAME
  0   1234                      :tick-10s


              libc.so.1`__read+0xa
              app`main+0x1f
              app`0x80504f2
               42

              genunix`syscall_mstate+0x5d
                7
"""
SAMPLE = """Analysis of sampling app (pid 123) every 1 millisecond
Process:         app [123]

Call graph:
    2559 Thread_1234   DispatchQueue_1: com.apple.main-thread  (serial)
    + 2559 start  (in dyld) + 1903  [0x18f1f3e50]
    +   2500 main  (in app) + 100  [0x104a3c7d4]  main.c:12
    +   ! 2000 work(int)  (in app) + 20,40,...  [0x104a3c7a4,0x104a3c7c4,...]  work.cpp:7
    +   ! 300 ???  (in libfoo.dylib)  load address 0x10000 + 0x123  [0x10123]
    +   59 exit  (in libsystem_c.dylib) + 9  [0x18f000]
    100 Thread_99
      100 thread_start  (in libsystem_pthread.dylib) + 8  [0x18f1]

Total number in stack (recursive counted multiple, when >=5):
        5       x
"""


def test_bpftrace_output_is_read() -> None:
    profile = read(BPFTRACE.encode())
    assert folded.write(profile) == (
        "schedule 12\nsleeper;__libc_start_call_main;0x5588deadbeef;clock_nanosleep;do_syscall_64;do_nanosleep 5\n"
    )
    assert profile.samples.labels[0] == (Label("comm", "sleeper"), Label("pid", number=4242))
    assert profile.mappings[0].path == "/usr/lib/libc.so.6"
    assert profile.skipped == 0


def test_each_map_of_bpftrace_is_a_sample_type() -> None:
    """Both maps count the same samples; an address of ustack(perf) may be short."""
    text = "@user[\n    main+3\n, app]: 7\n@[\n    main+3\n, app]: 5\n@user[, \n\t1 0x1 ([unknown])\n, app]: 2\n"
    profile = read(text.encode())
    assert profile.sample_types == [SampleType("user", "count"), SampleType("samples", "count")]
    assert [values.tolist() for values in profile.samples.values] == [[7, 2], [5, 0]]
    assert folded.write(profile) == "app;[unknown]+0x1 2\napp;main 7\n"


def test_dtrace_output_is_read() -> None:
    profile = read(DTRACE.encode())
    assert folded.write(profile) == "app+0x80504f2;main;__read 42\nsyscall_mstate 7\n"
    assert {mapping.path for mapping in profile.mappings} == {"libc.so.1", "app", "genunix"}


def test_the_output_of_sample_is_read() -> None:
    profile = read(SAMPLE.encode())
    assert folded.write(profile) == (
        "start;exit 59\nstart;main 200\nstart;main;libfoo.dylib+0x10123 300\nstart;main;work(int) 2000\n"
        "thread_start 100\n"
    )
    assert next(frames[0] for frames in profile.frames if frames and frames[0].function == "main") == (
        Frame("main", "main.c", 12)
    )  # fmt: skip
    assert {labels[0].text for labels in profile.samples.labels} == {
        "Thread_1234   DispatchQueue_1: com.apple.main-thread  (serial)", "Thread_99",
    }  # fmt: skip


def test_frames_of_py_spy_have_files_and_keep_their_names() -> None:
    text = b"<module> (w.py:9);main (w.py:8);work (w.py:4) 145\n"
    profile = read(text)
    assert profile.frames[2] == (Frame("work (w.py:4)", "w.py", 4),)
    assert folded.write(profile).encode() == text


@pytest.mark.parametrize("name", ["bpftrace", "dtrace", "sample", "speedscope", "v8", "firefox"])
def test_the_command_converts_each_input_to_every_format(
    name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    data = {
        "bpftrace": BPFTRACE.encode(), "dtrace": DTRACE.encode(), "sample": SAMPLE.encode(),
        "speedscope": speedscope.write(made()).encode(), "v8": (DATA / "node.cpuprofile").read_bytes(),
        "firefox": firefox.write(made()).encode(),
    }[name]  # fmt: skip
    path = tmp_path / "in"
    path.write_bytes(data)
    assert main(["profile", str(path), "-o", str(tmp_path / "out")]) == 0
    assert read(tmp_path / "out").format == formats.DEFAULTS.get(name, name)
    for format in (*written.WRITTEN, written.PAGE):
        assert Profile.of(read(path)).to_bytes(format)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_function_inlined_into_itself_is_repeated_in_the_chain(version: int) -> None:
    """Two stacks have the chain, and a third one a part of it."""
    document = json.loads(firefox.write(made()))
    shared = document["shared"]
    stacks, frames = shared["stackTable"], shared["frameTable"]
    inner = next(index for index in range(stacks["length"]) if frames["inlineDepth"][stacks["frame"][index]] == 1)
    for depth, above in ((2, inner), (1, stacks["prefix"][inner]), (2, -1)):
        for column in frames.values():
            if isinstance(column, list):
                column.append(column[stacks["frame"][inner]])
        frames["inlineDepth"][-1] = depth
        stacks["frame"].append(frames["length"])
        stacks["prefix"].append(above if above >= 0 else stacks["length"] - 1)
        frames["length"] += 1
        stacks["length"] += 1
    profile = read(json.dumps(as_version(document, version)).encode())
    chain = max(profile.frames, key=len)
    assert [(each.function, each.inlined) for each in chain] == [("inner<1;2>", True)] * 2 + [("work", False)]
    assert len(profile.address) == 3
