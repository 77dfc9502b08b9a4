"""The flame graph: it has all values, escapes names, and its size is limited."""

from __future__ import annotations

import random
import re
import resource
import subprocess
import sys
import time
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forge import pprof as forge
from tests.helpers.profiles import REASON, in_app, made, names, profile_of
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence.flamegraph import page
from whence.flamegraph.data import LONGEST, encoded, grouped
from whence.flamegraph.entries import Entries, entries
from whence.flamegraph.kernels import tree as tree_kernel
from whence.flamegraph.tree import DEPTH, LINES, SMALLER, TYPES, Tree, tree
from whence.profiles.formats import gz, pprof
from whence.samples import wire
from whence.samples.model import NO_MAPPING, Label, ProfileData, Samples, SampleType, Timeline
from whence.samples.threads import NO_PROCESS, NO_THREAD

PAGE_BYTES = 64_000_000  # what a page may have


def data_of(profile: ProfileData) -> bytes:
    drawn = tree(profile)
    return encoded(drawn, entries(profile, drawn))


def stacks_of(found: Tree) -> dict[tuple[str, ...], list[int]]:
    """Yield the names from the root to each node with values."""
    names: list[tuple[str, ...]] = [()]
    for frame, parent in zip(found.frame[1:], found.parent[1:]):
        names.append((*names[parent], found.frames[frame].name))
    out = {}
    for index, path in enumerate(names):
        values = [column[index] for column in found.values]
        if any(values):
            out[path] = values
    return out


def test_the_tree_merges_equal_stacks_and_has_parents_before_children() -> None:
    columns = tree(made())
    assert [column.tolist() for column in columns.values] == [[0, 0, 0, 2, 1], [0, 0, 0, 90, 10]]
    assert columns.parent.tolist() == [0, 0, 1, 2, 1]
    assert columns.up.tolist() == [0, 0, 0, 0, 2]
    assert [each.reason for each in columns.frames] == ["", "", "", REASON]
    assert not columns.pruned
    assert columns.depth == 0


@given(st.lists(st.tuples(names, st.integers(-3, 50)), max_size=30))
def test_the_tree_has_the_values_of_all_stacks(stacks: list[tuple[list[str], int]]) -> None:
    result = tree(profile_of(stacks))
    expected: dict[tuple[str, ...], int] = {}
    for path, value in stacks:
        expected[tuple(path)] = expected.get(tuple(path), 0) + value
    assert stacks_of(result) == {path: [value] for path, value in expected.items() if value}
    assert all(parent < index for index, parent in enumerate(result.parent[1:], 1))


@given(st.lists(st.tuples(names, st.integers(1, 50)), min_size=1, max_size=30), st.integers(1, 12))
def test_a_limited_tree_has_all_values_and_the_heaviest_nodes(stacks: list[tuple[list[str], int]], nodes: int) -> None:
    full, cut = tree(profile_of(stacks)), tree(profile_of(stacks), nodes)
    assert sum(cut.values[0]) == sum(full.values[0])
    kept = [index for index, each in enumerate(cut.frame) if index == 0 or cut.frames[each].name != SMALLER]
    assert len(kept) == min(nodes, len(full.frame))
    assert len(cut.frame) <= 2 * nodes
    assert cut.pruned == (len(kept) < len(full.frame))
    heaviest = sorted(totals(full), reverse=True)[: len(kept)]
    assert all(each >= other * 0.996 for each, other in zip(sorted(totals(cut, kept), reverse=True), heaviest))


def totals(found: Tree, nodes: list[int] | None = None) -> list[int]:
    out = found.values[0].tolist()
    for offset in range(len(out) - 1, 0, -1):
        out[found.parent[offset]] += out[offset]
    return out if nodes is None else [out[offset] for offset in nodes]


def test_a_limited_tree_of_disjoint_stacks_has_complete_stacks() -> None:
    result = tree(profile_of([([f"f{each}", f"g{each}"], 1) for each in range(50)]), 31)
    assert sum(each.name != SMALLER for each in result.frames) == 30


def test_a_frame_merged_from_several_lines_has_all_lines_heaviest_first() -> None:
    profile = ProfileData([SampleType("cpu", "nanoseconds")])
    for line, value in ((22, 1), (31, 5), (25, 3), (22, 1), (0, 9)):
        profile.samples.add([profile.location(NO_MAPPING, 0, (Frame("main", "crash.cpp", line),))], [value])
    result = tree(profile)
    assert (result.count.tolist(), result.line.tolist()) == ([0, 3], [31, 25, 22])


def test_a_node_has_a_few_lines_at_most() -> None:
    profile = ProfileData([SampleType("cpu", "nanoseconds")])
    for line in range(1, 50):
        profile.samples.add([profile.location(NO_MAPPING, 0, (Frame("main", "a.c", line),))], [line])
    assert tree(profile).line.tolist() == list(range(49, 49 - LINES, -1))


def test_inlined_calls_are_frames_of_their_own_and_merge_across_locations() -> None:
    profile = ProfileData([SampleType("cpu", "nanoseconds")])
    item = profile.location(NO_MAPPING, 0, (Frame("inner", "a.c", 1, True), Frame("main", "a.c", 2)))
    other = profile.location(NO_MAPPING, 0, (Frame("other", "a.c", 5, True), Frame("main", "a.c", 3)))
    profile.samples.add([item], [1])
    profile.samples.add([other], [2])
    assert stacks_of(tree(profile)) == {("main", "inner"): [1], ("main", "other"): [2]}


def test_a_profile_without_samples_or_values_is_a_root() -> None:
    empty = ProfileData([SampleType("cpu", "nanoseconds")])
    assert tree(empty).frame.tolist() == [-1]
    assert tree(ProfileData()).frame.tolist() == [-1]
    assert "pruned" in page(empty)
    zeros = profile_of([(["a"], 0)])
    assert tree(zeros).frame.tolist() == [-1]


def test_a_title_and_names_that_look_like_placeholders_stay_text() -> None:
    text = page(profile_of([(["{{title}}", "{{script}}"], 1)]), "{{data}}.folded")
    assert "<title>{{data}}.folded</title>" in text
    assert "<h1>{{data}}.folded</h1>" in text
    assert text.count('"types"') == 1
    assert '"{{script}}"' in text


def test_the_page_is_self_contained_and_names_are_escaped() -> None:
    text = page(made(), "<title>")
    assert "{{" not in text.replace("${{", "")
    assert "http" not in text.split('<script id="data"')[0]
    assert text.count("</script>") == 3
    assert "&lt;title&gt;" in text


def test_the_page_has_no_control_characters_or_invalid_text() -> None:
    text = page(profile_of([(["a\x1b[31mb\r\n\x00", "\udcff"], 1)]), "t\udcff")
    assert re.search("[\x00-\x09\x0b-\x1f\x7f\ud800-\udfff]", text) is None
    assert "a\u241b[31mb" in text


# Threads and times


def with_threads(threads: int, events: int = 0) -> ProfileData:
    """Return a profile with a sample for each thread, and as many events as there are."""
    profile = ProfileData([SampleType("cpu", "nanoseconds")])
    stack = [profile.location(NO_MAPPING, 0, (Frame("main"),))]
    for number in range(1, threads + 1):
        label = Label("comm", f"name{number % 3}"), Label("pid", number=number % 3 + 1), Label("tid", number=number)
        profile.samples.add(stack, [number], label)
    if events:
        rows = array("I", [event % threads for event in range(events)])
        profile.samples.timeline = Timeline(rows, array("q", range(7, 7 + events)), [array("q", [1]) * events])
    return profile


def entries_of(profile: ProfileData) -> Entries:
    return entries(profile, tree(profile))


def test_entries_have_the_values_by_thread_and_step_of_time() -> None:
    profile = made()
    labels = (Label("comm", "app"), Label("pid", number=5), Label("tid", number=6))
    profile.samples.labels = [labels, (), labels]
    times, values = array("q", [30, 10, 4106, 11]), [array("q", [1, 1, 0, 1]), array("q", [30, 10, 20, 40])]
    profile.samples.timeline = Timeline(array("I", [0, 1, 2, 2]), times, values)
    result = entries_of(profile)
    assert result.threads == [("app", "app 6"), (NO_PROCESS, NO_THREAD)]
    assert (result.steps, result.step_ns) == (2048, 3)
    rows = list(zip(result.node, result.thread, result.step, *result.values))
    assert rows == [(3, 0, 0, 1, 40), (3, 0, 6, 1, 30), (3, 0, 1365, 0, 20), (4, 1, 0, 1, 10)]


def test_entries_without_labels_and_times_are_one_for_each_node() -> None:
    result = entries_of(profile_of([(["a", "b"], 3), (["a"], 0), (["a", "c"], 4)]))
    assert (result.steps, result.step_ns, result.threads) == (1, 0, [(NO_PROCESS, NO_THREAD)])
    assert list(zip(result.node, result.values[0])) == [(2, 3), (3, 4)]


def test_a_process_has_the_name_of_its_main_thread() -> None:
    profile = profile_of([(["a"], 1), (["b"], 1), (["c"], 1)])
    names = [("perf-exec", 7), ("server", 7), ("worker", 8)]
    profile.samples.labels = [
        (Label("comm", name), Label("pid", number=7), Label("tid", number=tid)) for name, tid in names
    ]
    assert entries_of(profile).threads == [
        ("perf-exec", "perf-exec 7"), ("server", "server 7"), ("server", "worker 8"),
    ]  # fmt: skip


def test_too_many_entries_have_fewer_steps_and_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = with_threads(40, events=4_000)
    assert entries_of(profile).steps == 2048
    monkeypatch.setattr("whence.flamegraph.entries.ENTRIES", 1_500)
    result = entries_of(profile)
    assert (result.steps, len(result.threads), len(result.node)) == (32, 40, 1_280)
    monkeypatch.setattr("whence.flamegraph.entries.ENTRIES", 40)
    assert (entries_of(profile).steps, len(entries_of(profile).threads)) == (1, 40)
    monkeypatch.setattr("whence.flamegraph.entries.ENTRIES", 39)
    assert {name for name, _ in entries_of(profile).threads} == {"name0", "name1", "name2"}
    monkeypatch.setattr("whence.flamegraph.entries.ENTRIES", 1)
    result = entries_of(profile)
    assert (result.threads, sum(result.values[0])) == ([(NO_PROCESS, NO_THREAD)], 4_000)


# Packages


def test_go_packages_and_other_binaries_have_hues() -> None:
    labels, group = grouped(tree(in_app(("main.main", "/a/main.go", 20), ("runtime.mallocgc", "/go/malloc.go", 30))))
    assert labels == ["runtime", "main", "c"]
    assert group == [1, 0, 2]


def test_namespaces_and_crates_have_hues() -> None:
    labels, _ = grouped(
        tree(in_app(("void std::sort<int*>(int*)", "", 20), ("ceph::buffer::list::append(char)", "", 30)))
    )
    assert labels == ["ceph", "std", "c"]


def test_folders_have_hues_if_names_have_no_package() -> None:
    labels, _ = grouped(tree(in_app(("kmalloc", "/linux/mm/slab.c", 20), ("vfs_read", "/linux/fs/read.c", 30))))
    assert labels == ["/linux/fs", "/linux/mm", "c"]


def test_a_binary_of_one_package_or_without_most_samples_has_one_hue() -> None:
    assert grouped(tree(in_app(("main.main", "/a/main.go", 20), ("main.f", "/a/main.go", 2))))[0] == ["app", "c"]
    assert grouped(tree(in_app(("main.main", "/a/main.go", 2), ("runtime.f", "/go/f.go", 2))))[0] == ["c", "app"]


def test_the_sum_of_smaller_frames_has_no_binary() -> None:
    result = tree(profile_of([(["main", f"f{each}"], each + 1) for each in range(50)]), 10)
    labels, group = grouped(result)
    smaller = next(index for index, each in enumerate(result.frames) if each.name == SMALLER)
    assert group[smaller] == -1
    assert labels == ["no binary"]


# Bounds: 16 MB of text, 300,000 nodes with their values and lines


def test_texts_are_stored_once_and_long_texts_are_shortened() -> None:
    long = "n" * 3_000_000
    profile = ProfileData([SampleType("cpu", "nanoseconds")])
    stack = [profile.location(NO_MAPPING, 0, (Frame(long, f"file{each}"),)) for each in range(300)]
    profile.samples.add(stack, [1])
    text = data_of(profile)
    assert len(text) < LONGEST + 20_000
    assert "n … n" in text.decode()


def test_many_long_names_are_shortened_to_the_limit() -> None:
    profile = profile_of([([str(each) + "x" * 5_000], each + 1) for each in range(4_000)])  # 20 MB
    text = data_of(profile)
    assert 3_000_000 < len(text) < 4_500_000


def test_a_deep_stack_is_limited_with_a_note_on_the_page() -> None:
    result = tree(profile_of([(["f"] * (DEPTH + 500), 7)]))
    assert len(result.frame) == DEPTH + 2
    assert result.frames[result.frame[-1]].name == SMALLER
    assert (result.depth, sum(result.values[0])) == (DEPTH, 7)


def test_the_number_of_drawn_sample_types_is_limited() -> None:
    profile = profile_of([(["f"], 7)], kinds=TYPES + 20)
    profile.default_type = TYPES + 5
    result = tree(profile)
    assert len(result.values) == len(result.types) == TYPES
    assert result.types[result.default_type].type == f"type{TYPES + 5}"


def bomb(name: str) -> bytes:
    """Return a pprof profile of a few kilobytes whose flame graph would have hundreds of megabytes."""
    if name == "one name in many functions":
        functions = b"".join(forge.function(each, 1, 2 + each % 500) for each in range(1, 5_000))
        locations = b"".join(forge.location(each, 0, 0, (each, 1)) for each in range(1, 5_000))
        texts = forge.strings("", "N" * 40_000, *(f"f{each}" for each in range(501)))
        plain = functions + locations + texts + forge.sample(list(range(1, 5_000)), [1])
    elif name == "inlined calls in every stack":
        functions = forge.function(1, 1) + forge.function(2, 2)
        line = wire.payload(4, wire.number(1, 1) + wire.number(2, 1))
        inlined = forge.location(1, 0, 0, extra=100_000 * line)
        leaves = b"".join(forge.location(2 + each, 0, 0, (2, each)) for each in range(10_000))
        stacks = b"".join(forge.sample([2 + each, 1], [1]) for each in range(10_000))
        plain = functions + inlined + leaves + stacks + forge.strings("", "f", "g")
    elif name == "values of thousands of types":
        types = b"".join(forge.sample_type() for _ in range(2_000))
        functions = b"".join(forge.function(each, 1, 2 + each) for each in range(1, 1_000))
        locations = b"".join(forge.location(each, 0, 0, (each, 1)) for each in range(1, 1_000))
        stacks = b"".join(forge.sample([each, each + 1, each + 2], [9] * 2_000) for each in range(1, 900))
        texts = forge.strings("", "type", "unit", *(f"f{each}" for each in range(1_001)))
        return gz.deflated(types + functions + locations + stacks + texts)
    else:
        functions, locations = forge.function(1, 1), b"".join(forge.location(each, 0, 0, (1, each)) for each in (1, 2))
        dice = random.Random(2)
        stacks = b"".join(
            forge.sample([dice.choice((1, 2)) for _ in range(100)] + [1] * 2_000, [1]) for _ in range(500)
        )
        plain = functions + locations + stacks + forge.strings("", "f")
    return gz.deflated(forge.sample_type(0, 0) + plain)


BOMBS = (
    "one name in many functions",
    "inlined calls in every stack",
    "values of thousands of types",
    "deep recursion",
)


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_profile_never_makes_a_large_page(name: str, tmp_path: Path) -> None:
    file, out = tmp_path / "in.pb.gz", tmp_path / "out.html"
    file.write_bytes(bomb(name))
    command = [sys.executable, "-m", "whence", "profile", str(file), "--no-cache", "--flamegraph", str(out)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size < PAGE_BYTES / 8
    assert after.ru_utime - before.ru_utime < 10


def test_stacks_of_a_hundred_thousand_inlined_calls_are_limited() -> None:
    profile = pprof.read(bomb("inlined calls in every stack"))
    began = time.process_time()
    result = tree(profile)
    assert time.process_time() - began < 5
    assert 0 < result.depth < DEPTH
    assert sum(result.values[0]) == 10_000


# The kernel by itself


def columns(**other: object) -> tuple[object, ...]:
    """Return the arguments of Growth for one stack of one frame, with some columns replaced."""
    item = {
        "first": array("Q", [0, 1]), "stack": array("I", [0]), "weight": array("d", [1.0]),
        "of": array("I", [0, 1]), "place": array("I", [0]), "frame": array("I", [0]), "line": array("I", [3]),
    } | other  # fmt: skip
    stacks, locations = ("first", "stack", "weight"), ("of", "place", "frame", "line")
    return tuple(item[name] for name in stacks), tuple(item[name] for name in locations), 1, 10, 10, LINES, wire.zeros


@pytest.mark.parametrize(
    "other",
    [
        {"first": array("Q", [0, 2])},
        {"first": array("Q", [1, 0])},
        {"first": array("Q", [])},
        {"stack": array("I", [1])},
        {"weight": array("d", [])},
        {"of": array("I", [])},
        {"of": array("I", [1, 0])},
        {"of": array("I", [0, 2])},
        {"place": array("I", [1])},
        {"frame": array("I", [1])},
        {"line": array("I", [])},
    ],
    ids=str,
)
def test_inconsistent_columns_are_a_fault(other: dict[str, object]) -> None:
    assert not tree_kernel.Growth(*columns()).fault
    growth = tree_kernel.Growth(*columns(**other))
    assert growth.fault
    assert not growth.grow(100)
    assert growth.lay_out(array("I", [0]), wire.zeros) is None


def test_samples_of_missing_stacks_are_an_error() -> None:
    profile = ProfileData([SampleType("cpu", "nanoseconds")])
    profile.load = lambda: Samples(array("Q", [0, 1]), array("I", [0]), array("I", [5]), [array("q", [1])], [()])
    with pytest.raises(ProfileError, match="refers to a stack"):
        tree(profile)
    profile = ProfileData([SampleType("cpu", "nanoseconds")])
    profile.load = lambda: Samples(array("Q", [0, 1]), array("I", [9]), array("I", [0]), [array("q", [1])], [()])
    with pytest.raises(ProfileError, match="refers to a stack"):
        tree(profile)


def test_growing_in_small_steps_gives_the_same_tree() -> None:
    profile = profile_of([([f"a{each % 3}", f"b{each % 7}", f"c{each % 11}"], each + 1) for each in range(100)])
    samples = profile.samples
    size = len(samples.first) - 1
    weight = array("d", [1.0] * size)
    results = []
    for steps in (1, 1_000_000):
        shape = (
            array("I", range(len(profile.frames) + 1)),
            *(array("I", range(len(profile.frames))) for _ in range(3)),
        )
        growth = tree_kernel.Growth(
            (samples.first, samples.stack, weight), shape, len(profile.frames), 1_000, 10, LINES, wire.zeros
        )
        turns = 1
        while growth.grow(steps):
            turns += 1
        assert (turns > 50) == (steps == 1)
        results.append(growth.lay_out(array("I", range(size)), wire.zeros))
    assert results[0] == results[1]


@given(st.lists(st.integers(0, 1_000), max_size=20), st.integers(0, 5_000), st.integers(0, 1_000))
def test_the_level_is_the_largest_within_the_budget(sizes: list[int], budget: int, limit: int) -> None:
    result = tree_kernel.level(array("I", sizes), budget, limit)

    def total(level: int) -> int:
        return sum(min(size, level) for size in sizes)

    assert total(result) <= budget
    assert result == limit or total(result + 1) > budget


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_packed_numbers_read_back_equal(values: list[int]) -> None:
    out = bytearray(10 * len(values))
    size = tree_kernel.packed(array("q", values), out)
    result, number, shift = [], 0, 0
    for byte in out[:size]:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            result.append(number >> 1 ^ -(number & 1))
            number = shift = 0
    assert result == values
