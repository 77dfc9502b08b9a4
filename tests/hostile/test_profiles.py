"""Profiles that say much in few bytes: gzip of equal bytes, and tables whose entries are used again and again."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.forge import pprof as forge
from tests.hostile import bounded
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence.profiles import top
from whence.profiles.callers import callers
from whence.profiles.formats import firefox, folded, otlp, plain_json, pprof, speedscope
from whence.profiles.formats import registry as formats
from whence.profiles.non_elf_names import Processes
from whence.samples import bounds, wire
from whence.samples.model import NO_MAPPING, Label, ProfileData, SampleType

MEGABYTE = 1 << 20
BASE_MEGABYTES = 60  # Python and whence itself
LONG = "n" * MEGABYTE


def packed(*parts: tuple[bytes, int]) -> bytes:
    """Return a gzip member of each part, repeated and concatenated."""
    return b"".join(gzip.compress(part, 6, mtime=0) * times for part, times in parts)


def megabytes(data: bytes) -> float:
    """The stated bound, of reading and of writing beside what was read."""
    return BASE_MEGABYTES + 2 * (bounds.TIMES * len(data) + bounds.ALLOWANCE) / MEGABYTE


def seconds(data: bytes) -> float:
    """Of reading and seven conversions."""
    return 26 + 30 * len(data) / MEGABYTE


HEAD = forge.sample_type() + forge.strings("", "cpu", "nanoseconds")


def zeros() -> bytes:
    return packed((bytes(MEGABYTE), 1800))


def empty_samples() -> bytes:
    return packed((HEAD, 1), (wire.payload(2, wire.packed(2, [1])) * 150_000, 200))


def empty_mappings() -> bytes:
    return packed((HEAD, 1), (b"\x1a\x00" * MEGABYTE, 100))


def numbered(count: int) -> bytes:
    return b"".join(forge.location(index, 0, index) for index in range(1, count + 1))


def many_locations() -> bytes:
    return packed((HEAD + numbered(50_000), 1))


def labels_of_one_sample() -> bytes:
    return packed((HEAD + wire.payload(2, wire.packed(2, [1]) + b"\x1a\x02\x08\x01" * 2_000_000), 1))


def functions_of_one_long_name() -> bytes:
    functions = b"".join(forge.function(index, 3) for index in range(1, 10_001))
    lines = b"".join(forge.location(index, 0, index, (index, 1)) for index in range(1, 10_001))
    samples = b"".join(forge.sample([index], [1]) for index in range(1, 10_001))
    return packed((HEAD + wire.text(6, LONG) + functions + lines + samples, 1))


def mappings_of_one_long_path() -> bytes:
    mappings = b"".join(forge.mapping(index, index << 12, index + 1 << 12, 0, 3) for index in range(1, 10_001))
    places = b"".join(forge.location(index, index, index << 12) for index in range(1, 10_001))
    samples = b"".join(forge.sample([index], [1]) for index in range(1, 10_001))
    return packed((HEAD + wire.text(6, "/" + LONG) + mappings + places + samples, 1))


def a_deep_stack_of_one_long_name() -> bytes:
    """Two kilobytes: a gigabyte as a line of folded stacks."""
    item = forge.function(1, 3) + forge.location(1, 0, 1, (1, 1)) + forge.sample([1] * 1000, [1])
    return packed((HEAD + wire.text(6, LONG) + item, 1))


def deep_stacks() -> bytes:
    stacks = b"".join(forge.sample([index % 100 + 1, *[1 + index % 7] * 2000], [1]) for index in range(500))
    return packed((HEAD + numbered(100) + stacks, 1))


def shared_stack() -> bytes:
    """OTLP: 50,000 samples of one stack of 100,000 locations."""
    made = ProfileData([SampleType("cpu", "nanoseconds")])
    current = made.location(NO_MAPPING, 1, (Frame("f"),))
    made.samples.add([current] * 100_000, [1])
    for _ in range(50_000):
        made.samples.of.append(0)
        made.samples.values[0].append(1)
        made.samples.labels.append(())
    return gzip.compress(otlp.write(made))


def inner(*fields: bytes) -> bytes:
    return wire.payload(2, b"".join(fields))


def dictionary(*texts: str) -> bytes:
    book = b"".join(wire.payload(offset, b"") for offset in (1, 2, 3, 4, 6, 7))
    return wire.payload(2, book + b"".join(wire.text(5, each) for each in texts))


def types_times_samples() -> bytes:
    """OTLP: 5,000 profiles, each of a type of its own, with 200 samples each."""
    sample = inner(wire.number(1, 0), wire.packed(4, [1])) * 200
    profiles = (inner(wire.payload(1, wire.number(1, index)), sample) for index in range(1, 5001))
    texts = dictionary("", *(f"type{index}" for index in range(5000)))
    return packed((wire.payload(1, wire.payload(2, b"".join(profiles))) + texts, 1))


def profiles_of_one_resource() -> bytes:
    """OTLP: a resource with 100,000 attributes, and 100,000 profiles in it."""
    attributes = wire.payload(1, wire.payload(1, wire.text(1, "key") + wire.payload(2, b"")) * 100_000)
    return packed((wire.payload(1, attributes + wire.payload(2, inner() * 100_000)) + dictionary("", "cpu"), 1))


def json_objects() -> bytes:
    return packed((b'{"dictionary":{"locationTable":[{}', 1), (b",{}" * MEGABYTE, 100), (b"]}}", 1))


def json_lists() -> bytes:
    return packed((b'{"resourceProfiles":[[]', 1), (b",[]" * MEGABYTE, 100), (b"]}", 1))


def json_profiles() -> bytes:
    inside = b'{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{}'
    return packed((inside, 1), (b",{}" * MEGABYTE, 4), (b']}]}],"dictionary":{"stringTable":[""]}}', 1))


def perf_frames() -> bytes:
    frames = "".join(f"\t{index:x} f{index:x} (/bin/app)\n" for index in range(20_000))
    return packed(((f"app 1 1.0: 1 cycles:\n{frames}\n").encode(), 1))


def perf_events() -> bytes:
    samples = (f"app 1 1.0: 1 event{index}:\n\t{index:x} f (/bin/app)\n\n" for index in range(1, 20_000))
    return packed(("".join(samples).encode(), 1))


def perf_mappings() -> bytes:
    event = "app 1 1.0: PERF_RECORD_MMAP2 1/1: [{:#x}(0x1000) @ 0 08:01 7 0]: r-xp /lib/{}.so\n"
    return packed(("".join(event.format(offset << 12, offset) for offset in range(100_000, 1, -1)).encode(), 1))


def perf_forks() -> bytes:
    event = "app 1 1.0: PERF_RECORD_MMAP2 {}/1: [{:#x}(0x1000) @ 0 08:01 7 0]: r-xp /lib/a.so\n"
    maps = "".join(event.format(1, index << 12) for index in range(1, 5000))
    forks = "".join(
        f"app 1 1.0: PERF_RECORD_FORK({index}:{index}):({index - 1}:1)\n" + event.format(index, 1 << 40)
        for index in range(2, 20_000)
    )
    return packed(((maps + forks).encode(), 1))


def folded_semicolons() -> bytes:
    return packed((b"ab;" * MEGABYTE, 150), (b"c 1\n", 1))


def folded_names() -> bytes:
    return packed(("".join(f"{index:x} 1\n" for index in range(20_000)).encode(), 1))


def blanks() -> bytes:
    return packed((b" " * MEGABYTE, 1500))


def heap_of_stacks() -> bytes:
    lines = (f"1: 8 [1: 8] @ {' '.join(f'{index * 99 + each:#x}' for each in range(30))}\n" for index in range(1000))
    return packed((b"heap profile: 1: 8 [1: 8] @ heapprofile\n", 1), ("".join(lines).encode(), 20))


def heap_of_maps() -> bytes:
    line = "{:x}-{:x} r-xp 00000000 08:01 77 /lib/{}.so\n"
    maps = "".join(line.format(offset << 13, (offset << 13) + 4096, offset) for offset in range(20_000, 1, -1))
    return packed((("goroutine profile: total 1\n1 @ 0x10\n--- Memory map: ---\n" + maps).encode(), 1))


def heap_of_names_in_maps() -> bytes:
    names = "".join(f"k{index}={f'$k{index - 1}' * 90}\n" for index in range(1, 100))
    return packed((b"goroutine profile: total 1\n1 @ 0x10\n--- Memory map: ---\n", 1), (names.encode() * 60, 1))


def jemalloc_threads() -> bytes:
    threads = "".join(f"  t{index}: 1: 8 [0: 0] name{index}\n" for index in range(2000))
    return packed((b"heap_v2/1\n", 1), (("@ 0x1 0x2\n  t*: 5000: 40000 [0: 0]\n" + threads).encode(), 30))


def cpu_words() -> bytes:
    words = struct.pack("<5Q", 0, 3, 0, 1, 0)
    return packed((words, 1), (struct.pack("<1002Q", 1, 1000, *range(1000)) * 100, 20))


def firefox_document(stacks: int, samples: int, prefix: list[int | None]) -> bytes:
    """One frame, and stacks of it."""
    made = ProfileData([SampleType("samples", "count")])
    made.samples.add([made.location(NO_MAPPING, 1, (Frame("f"),))], [1])
    document = firefox.document_of(made, "x")
    document["shared"]["stackTable"] = {"length": stacks, "frame": [0] * stacks, "prefix": prefix}
    document["threads"][0]["samples"] = {
        "length": samples, "stack": list(range(stacks))[-samples:], "time": [0] * samples, "weight": None,
    }  # fmt: skip
    return json.dumps(document, separators=(",", ":")).encode()


def firefox_deep_stacks() -> bytes:
    """A stack for each depth up to 20,000."""
    return packed((firefox_document(20_000, 20_000, [None, *range(19_999)]), 1))


def firefox_lists() -> bytes:
    return packed((b'{"meta":{"preprocessedProfileVersion":60},"threads":[[]', 1), (b",[]" * MEGABYTE, 20), (b"]}", 1))


def cpuprofile_deep_tree() -> bytes:
    nodes = ",".join(
        f'{{"id":{index},"callFrame":{{"functionName":"f"}},"children":[{index + 1}]}}' for index in range(15_000)
    )
    ids = ",".join(map(str, range(15_000)))
    return packed((f'{{"nodes":[{nodes}],"samples":[{ids}],"timeDeltas":[{ids}]}}'.encode(), 1))


def speedscope_events() -> bytes:
    opened = ",".join(f'{{"type":"O","frame":0,"at":{index}}}' for index in range(12_000))
    closed = ",".join(f'{{"type":"C","frame":0,"at":{index}}}' for index in range(12_000, 24_000))
    text = f'{{"shared":{{"frames":[{{"name":"f"}}]}},"profiles":[{{"type":"evented","events":[{opened},{closed}]}}]}}'
    return packed((text.encode(), 1))


def lines_of_blanks() -> bytes:
    """Lines that a careless pattern reads in quadratic time."""
    item = "    " + " (in " * 3000 + "\n"
    return packed((b"Call graph:\n", 1), (("    1 f  " + item + "    1 f" + " " * 16_000 + "x\n").encode() * 20, 10))


def frames_of_brackets() -> bytes:
    line = "    f" + " (" * 8000 + "\n    " + "+1" * 8000 + "x\n    a`" + " " * 16_000 + "x\n"
    return packed((b"@[\n" + line.encode() * 20, 10), (b"]: 1\n", 1))


def symbols_of_go() -> bytes:
    line = "#\t0x1\t" + "a+0x1\t" * 5000 + "\n1 @ 0x1\n"
    return packed((b"goroutine profile: total 1\n", 1), (line.encode() * 20, 10))


def tree_of_calls() -> bytes:
    lines = "".join(f"{' ' * (index % 8000 + 4)}{8000 - index % 8000} f{index}  (in x)\n" for index in range(8_000))
    return packed((b"Call graph:\n" + lines.encode(), 1))


def bpftrace_stacks() -> bytes:
    stacks = "".join(
        f"@[\n{''.join(f'    f{index}{each}+1{chr(10)}' for each in range(40))}]: 1\n" for index in range(500)
    )
    return packed((stacks.encode(), 10))


INPUTS: tuple[Callable[[], bytes], ...] = (
    zeros, empty_samples, empty_mappings, many_locations, labels_of_one_sample, functions_of_one_long_name,
    mappings_of_one_long_path, a_deep_stack_of_one_long_name, deep_stacks, shared_stack, types_times_samples,
    profiles_of_one_resource, json_objects, json_lists, json_profiles, perf_frames, perf_events, perf_mappings,
    perf_forks, folded_semicolons, folded_names, blanks, heap_of_stacks, heap_of_maps, heap_of_names_in_maps,
    jemalloc_threads, cpu_words, firefox_deep_stacks, firefox_lists, cpuprofile_deep_tree, speedscope_events,
    tree_of_calls, bpftrace_stacks, lines_of_blanks, frames_of_brackets, symbols_of_go,
)  # fmt: skip


def converted(path: str) -> list[str]:
    """Reads a profile and writes it in every form; what was refused, in words."""
    said: list[str] = []
    try:
        profile = formats.open_profile(path)
        len(profile.samples)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    for write in (pprof.write, otlp.write, folded.write, speedscope.write, firefox.write, plain_json.write, top.write):
        try:
            write(profile)
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def processes_of_one_stack() -> str:
    """20,000 processes share a stack of 20,000 locations, as OTLP can say it in 500 KB."""
    made = ProfileData([SampleType("cpu", "nanoseconds")], stored=500_000)
    made.samples.add([made.location(NO_MAPPING, 1 + index) for index in range(20_000)], [1])
    for pid in range(2, 20_000):
        made.samples.of.append(0)
        made.samples.values[0].append(1)
        made.samples.labels.append((Label("pid", number=pid),))
    try:
        Processes(made).of(None, 0)
    except ProfileError as error:
        return str(error)
    return "answered"


def test_a_stack_that_many_processes_share_is_walked_within_the_bound() -> None:
    limit = 2 * megabytes(bytes(500_000))
    done = bounded(processes_of_one_stack, seconds=20, megabytes=limit, stored=500_000)
    assert "the processes of each location take more than" in done.answer


@pytest.mark.parametrize("make", INPUTS, ids=lambda each: each.__name__)
def test_a_profile_takes_time_and_memory_by_its_stored_bytes(make: Callable[[], bytes], tmp_path: Path) -> None:
    data = make()
    path = tmp_path / "in"
    path.write_bytes(data)
    name = f"profile: {make.__name__.replace('_', ' ')}"
    done = bounded(converted, str(path), seconds=seconds(data), megabytes=megabytes(data), name=name, stored=len(data))
    assert all(each.startswith("ProfileError: ") for each in done.answer), done.answer


def table_of(how: str, frames: int, samples: int) -> str:
    """Make a table of a profile whose samples share a location with many inlined calls; return the error, or ""."""
    made = ProfileData([SampleType("samples", "count")])
    deep = made.location(NO_MAPPING, 1, tuple(Frame(f"f{number}") for number in range(frames)))
    for number in range(samples):
        made.samples.add([deep, made.location(NO_MAPPING, number + 2, (Frame("main"),))], [1])
    profile = formats.from_bytes(formats.to_bytes(made, "pprof"))
    try:
        if how == "top":
            top.functions(profile)
        else:
            callers(profile, ".")
    except ProfileError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("how", ["top", "callers"])
def test_inlined_calls_that_many_stacks_share_cost_what_is_stored(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "ALLOWANCE", 4 << 20)
    assert table_of(how, 100, 100) == ""
    assert "take more than 256 times its" in table_of(how, 2000, 2000)
