"""gperftools', jemalloc's and Go's old forms: real files and forged ones, as google/pprof and jeprof read them."""

from __future__ import annotations

import math
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.helpers import golang
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence.cli import main
from whence.profiles import Profile, read
from whence.profiles.formats import legacy, memory_maps
from whence.profiles.formats import registry as formats
from whence.samples.model import Label, SampleType

DATA = Path(__file__).parents[1] / "data" / "profiles"
MAPS = """
MAPPED_LIBRARIES:
00400000-00500000 r-xp 00000000 08:01 77 /bin/app
7f0000001000-7f0000009000 r-xp 00001000 08:01 78 /lib/libz.so.1
7f0000009000-7f000000a000 rw-p 00009000 08:01 78 /lib/libz.so.1
"""
MEMORY_MAP = MAPS.replace("MAPPED_LIBRARIES:", "--- Memory map: ---")
HEAP = """heap profile:      3:     600 [     5:   1100] @ heap_v2/512
     2:      400 [     3:      700] @ 0x401001 0x402002
     1:      200 [     2:      400] @ 0x7f0000001230 0x402002
     0:        0 [     1:      100] @ 0x401001
"""
SAMPLES = "     2:      400 [     2:      400] @ 0x401001 0x402002\n     1: 90 [ 1: 90] @ 0x401001\n"
FORGED = {
    "heap_v2": HEAP + MAPS,
    "exact": HEAP.replace("heap_v2/512", "heapprofile") + MAPS,
    "twice the rate": HEAP.replace("heap_v2/512", "heap/1024") + MAPS,
    "no rate": HEAP.replace("heap_v2/512", "heap") + MAPS,
    "heapz": HEAP.replace("heap_v2/512", "heapz_v2/512") + MAPS,
    "rate 1": HEAP.replace("/512", "/1") + MAPS,
    "in use only": "heap profile:      3:     490 [     3:     490] @ heap_v2/512\n" + SAMPLES + MAPS,
    "growth": "heap profile: 3: 490 [ 3: 490] @ growthz\n" + SAMPLES + MAPS,
    "growth, short": "heap profile: 3: 490 [ 3: 490] @ growth\n" + SAMPLES,
    "fragmentation": "heap profile: 3: 490 [ 3: 490] @ fragmentationz\n" + SAMPLES,
    "negative": "heap profile: 3: 490 [ 3: 490] @ heapprofile\n -2: -400 [ 0: 0] @ 0x401001\n",
    "contentionz": "--- contentionz 1 ---\ncycles/second = 3201000000\nsampling period = 100\n"
    "ms since reset = 16502830\ndiscarded samples = 0\n 19490304 27 @ 0x401001 0x402002\n 768 1 @ 0x401001\n"
    + MEMORY_MAP,
    "mutex": "--- mutex:\ncycles/second=2299997619\nsampling period=1\n7206922950 399 @ 0x401001 0x402002\n",
    "contention without a frequency": "--- contention:\nsampling period = 7\n100 3 @ 0x401001\n",
    "count": "goroutine profile: total 3\n2 @ 0x401001 0x402002\n# labels: {}\n1 @ 0x7f0000001230\n" + MEMORY_MAP,
    "threadz": "--- threadz 1 ---\n\n--- Thread 7f00 (name: main/14748) stack: ---\n  PC: 0x401001 0x402002\n"
    "--- Thread 7f01 (name: other/14749) stack: ---\n  [same as previous thread]\n"
    "--- Thread 7f02 (name: third/14750) stack: ---\n0x401005: f\n0x401005: f\n0x402002: main\n" + MEMORY_MAP,
    "brief maps": "goroutine profile: total 1\n1 @ 0x40100 0x7f0000000010\n--- Memory map: ---\nbuild=/opt\n"
    "main.go:7] 0x40000-0x80000: $build/bin/app (@FF00) abc123456\n  7f0000000000-7f0000001000 r-xp /lib/x.so\n",
    "maps that do not reach down": "goroutine profile: total 1\n1 @ 0x401005 0x7f0000000123\n" + MEMORY_MAP,
    "huge pages": "goroutine profile: total 1\n1 @ 0x401005\n--- Memory map: ---\n"
    "00400000-00401000 r-xp 00000000 00:00 0 /anon_hugepage\n00401000-00500000 r-xp 00001000 08:01 77 /bin/app\n",
}


@pytest.fixture(scope="module")
def pprof(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golang.inside(golang.PROGRAMS / "pprof" / "main.go", tmp_path_factory.mktemp("tool") / "rawpprof")


Stack = tuple[tuple[str, int], ...]
Stacks = dict[Stack, list[int]]


def add(stacks: Stacks, stack: Stack, values: list[int]) -> None:
    stacks[stack] = [sum(pair) for pair in zip(stacks.get(stack, [0] * len(values)), values, strict=True)]


def by_pprof(tool: Path, path: Path) -> tuple[list[str], Stacks]:
    """Return the sample types, and the samples as (path, address) of each frame with values, from `pprof -raw`."""
    run = subprocess.run([str(tool), str(path)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    head, _, tables = run.stdout.partition("\nLocations\n")
    locations, _, maps = tables.partition("\nMappings\n")
    paths = {int(each[1]): each[2] for each in re.finditer(r"^(\d+): 0x\S+ ?(\S*)", maps, re.MULTILINE)}
    places = {
        int(each[1]): (paths.get(int(each[3] or 0), ""), int(each[2], 16))
        for each in re.finditer(r"^\s*(\d+): 0x([0-9a-f]+) (?:M=(\d+))?", locations, re.MULTILINE)
    }
    types, _, samples = head.partition("Samples:\n")[2].partition("\n")
    result: Stacks = {}
    for each in re.finditer(r"^\s+((?:-?\d+\s+)*-?\d+):((?: \d+)*) *$", samples, re.MULTILINE):
        add(result, tuple(places[int(number)] for number in each[2].split()), [*map(int, each[1].split())])
    return [each.removesuffix("[dflt]") for each in types.split()], result


def by_us(profile: Profile) -> tuple[list[str], Stacks]:
    result: Stacks = {}
    for index in range(len(profile.samples)):
        places = []
        for location in profile.samples.locations(index):
            mapping = profile.mapping_of(location)
            places.append((mapping.path if mapping else "", profile.address[location]))
        add(result, tuple(places), [column[index] for column in profile.samples.values])
    return [f"{each.type}/{each.unit}" for each in profile.sample_types], result


@pytest.mark.parametrize("case", FORGED)
def test_reads_forged_texts_as_pprof_does(case: str, pprof: Path, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text(FORGED[case])
    profile = read(path)
    assert by_us(profile) == by_pprof(pprof, path)
    assert profile.skipped == 0


RECORDED = ["tcmalloc.heap", "gperftools.prof", "go-heap.txt", "go-goroutine.txt", "go-mutex.txt", "go-block.txt"]


@pytest.mark.parametrize("name", RECORDED)
def test_reads_recorded_files_as_pprof_does(name: str, pprof: Path) -> None:
    assert by_us(read(DATA / name)) == by_pprof(pprof, DATA / name)


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_cpu_profile_is_read_in_words_of_either_width_and_order(
    size: int, order: str, pprof: Path, tmp_path: Path
) -> None:
    words = [0, 3, 0, 10_000, 0]
    for count, stack in ((5, [0x401001, 0x402002]), (2, [0x401001]), (1, [0x401001, 0x401001, 0x402002])):
        words += [count, len(stack), *stack]
    words += [0, 1, 0]
    path = tmp_path / "in"
    path.write_bytes(struct.pack(f"{order}{len(words)}{'I' if size == 4 else 'Q'}", *words) + MAPS.encode())
    profile = read(path)
    assert by_us(profile) == by_pprof(pprof, path)
    assert (profile.period, profile.samples.values[1][0]) == (10_000_000, 60_000_000)


def test_removes_the_frame_of_the_signal_handler(pprof: Path, tmp_path: Path) -> None:
    words = [0, 3, 0, 10_000, 0]
    for index in range(100):
        words += [1, 3, 0x401000 + index, 0x409009 if index else 0x408008, 0x402002]
    path = tmp_path / "in"
    path.write_bytes(struct.pack(f"<{len(words) + 3}Q", *words, 0, 1, 0) + MAPS.encode())
    profile = read(path)
    assert by_us(profile) == by_pprof(pprof, path)
    assert 0x409008 not in profile.address


@pytest.mark.parametrize("name", ["jemalloc.heap", "jemalloc-accum.heap"])
def test_jemalloc_is_unsampled_for_each_stack_and_threads_add_up(name: str) -> None:
    text = (DATA / name).read_text()
    profile = read(DATA / name)
    rate = 32768
    wanted = [0] * 4
    for each in re.finditer(r"^@.*\n  t\*: (\d+): (\d+) \[(\d+): (\d+)\]", text, re.MULTILINE):
        in_use, in_use_bytes, all, all_bytes = map(int, each.groups())
        for location, (count, size) in enumerate(((all, all_bytes), (in_use, in_use_bytes))):
            factor = 1 / (1 - math.exp(-(size / count) / rate)) if count else 0  # jeprof's own formula
            wanted[2 * location] += int(count * factor)
            wanted[2 * location + 1] += int(size * factor)
    accumulated = "accum" in name
    result = [sum(column) for column in profile.samples.values]
    assert result == (wanted if accumulated else wanted[2:])
    types = [kind.type for kind in profile.sample_types]
    assert types == (
        ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"] if accumulated else ["objects", "space"]
    )
    threads = {{each.key: each.number for each in labels}.get("thread") for labels in profile.samples.labels}
    assert threads >= {0, 1, 2}
    assert {mapping.path for mapping in profile.mappings} >= {"/home/you/heap/heap"}
    in_program = [index for index in range(len(profile.address)) if profile.mapping_of(index) is not None]
    assert len(in_program) == len(profile.address)


def test_jemalloc_threads_have_names_and_the_rest_has_none() -> None:
    profile = read(
        b"heap_v2/1\n  t*: 7: 700 [0: 0]\n  t0: 3: 300 [0: 0] the main one\n  t2: 2: 200 [0: 0]\n"
        b"@ 0x401001\n  t*: 7: 700 [0: 0]\n  t0: 3: 300 [0: 0] the main one\n  t2: 2: 200 [0: 0]\n"
    )
    labels = [{each.key: each.text or each.number for each in row} for row in profile.samples.labels]
    assert [(each.get("thread"), each.get("thread_name")) for each in labels] == [
        (0, "the main one"), (2, None), (None, None),
    ]  # fmt: skip
    assert list(profile.samples.values[0]) == [3, 2, 2]
    assert labels[0]["bytes"] == 100


def test_sums_jemalloc_threads_without_a_total() -> None:
    profile = read(b"heap_v2/1\n@ 0x401001\n  t0: 3: 300 [0: 0]\n  t2: 2: 200 [0: 0]\n")
    assert [list(column) for column in profile.samples.values] == [[3, 2], [300, 200]]


def test_names_and_labels_of_go_text_are_kept() -> None:
    profile = read(DATA / "go-goroutine.txt")
    assert profile.samples.labels[0] == (Label("handler", "/home"),)
    functions = [frames[0].function for frames in profile.frames if frames]
    assert "main.main.func2" in functions
    offset = functions.index("main.main.func2")
    assert [frames for frames in profile.frames if frames][offset] == (
        Frame("main.main.func2", "/home/you/heap/main.go", 14),
    )  # fmt: skip


def test_calls_that_were_inlined_are_a_chain() -> None:
    text = "x profile: total 1\n1 @ 0x401001\n#\t0x401000\tinner+0x1\t/a.go:3\n#\t0x401000\touter+0x9\t/a.go:9\n"
    (frames,) = read(text.encode()).frames
    assert frames == (Frame("inner", "/a.go", 3, True), Frame("outer", "/a.go", 9))


def test_a_goroutine_dump_is_still_recognized(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in"
    path.write_text("goroutine 1 [running]:\nmain.main()\n")
    assert main(["profile", str(path)]) == 3
    assert "Go's dump of goroutines" in capfd.readouterr().err


def test_counts_unreadable_lines_and_rejects_texts_of_them() -> None:
    profile = read(
        b"heap profile: 1: 2 [ 1: 2] @ heapprofile\n1: 2 [1: 2] @ 0x10\n2: 2 [2: 2] @ 0x10\n0: 9 [0: 9] @ 0x10\nwhat\n"
    )
    assert (profile.skipped, len(profile.samples)) == (2, 2)
    with pytest.raises(ProfileError, match=r"line 2: expected COUNT @ and addresses, found what"):
        read(b"goroutine profile: total 1\nwhat\nis this\n")
    with pytest.raises(ProfileError, match="extends past the end of the file"):
        read(struct.pack("<7Q", 0, 3, 0, 1, 0, 1, 1 << 60))


def test_heaps_become_pprof_by_default(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["profile", str(DATA / "jemalloc-accum.heap"), "-o", str(out)]) == 0
    again = read(out)
    assert again.format == "pprof"
    assert again.sample_types == read(DATA / "jemalloc-accum.heap").sample_types
    assert again.sample_types[again.default_type] == SampleType("inuse_space", "bytes")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "what is this",
        "400000-500000 rw-p 00000000 08:01 77 /bin/app",
        "500000-400000 r-xp 0 08:01 7 /x",
        "=",
        "a=b",
    ],
)
def test_ignores_lines_without_an_executable_mapping(line: str) -> None:
    assert memory_maps.entry(line) is None


def test_a_maps_path_keeps_its_blanks_and_the_deleted_mark() -> None:
    result = memory_maps.entry("00400000-00500000 r-xp 00000000 08:01 77   /my app (deleted)")
    assert result is not None
    assert result.path == "/my app (deleted)"


@pytest.mark.parametrize("form", list(legacy.READERS))
def test_each_form_may_end_after_its_first_line(form: str) -> None:
    first = {
        "heap": "heap profile: 0: 0 [0: 0] @ heapprofile", "jemalloc": "heap_v2/512", "contention": "--- mutex:",
        "count": "goroutine profile: total 0", "threads": "--- threadz 1 ---",
    }[form]  # fmt: skip
    profile, name = formats.read(first.encode())
    assert (name, len(profile.samples)) == (form, 0)
    assert formats.to_bytes(profile, "pprof")


JEPROF = {"alloc_objects": 0, "alloc_space": 1, "inuse_objects": 2, "inuse_space": 3}


@pytest.mark.parametrize("name", JEPROF)
def test_the_values_of_jemallocs_stacks_are_those_of_jeprof(name: str) -> None:
    jeprof = shutil.which("jeprof")
    if jeprof is None:
        pytest.skip("jeprof is not installed")
    path = DATA / "jemalloc-accum.heap"
    command = [jeprof, "--collapsed", f"--{name}", "/bin/true", str(path)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    samples = read(path).samples
    assert [each.type for each in read(path).sample_types] == list(JEPROF)
    result: dict[int, int] = {}  # by stack: jeprof adds up those of all threads
    for stack, value in zip(samples.of, samples.values[JEPROF[name]], strict=True):
        result[stack] = result.get(stack, 0) + value
    assert sum(result.values()) == sum(int(line.rpartition(" ")[2]) for line in lines) > 0
    assert len(lines) > 1


def test_counts_go_threads_of_unknown_origin() -> None:
    result = read(
        b"threadcreate profile: total 7\n6 @\n#\t0x0\n\n1 @ 0x401001 0x401002\n#\t0x401000\tmain.f+0x1\t/f.go:3\n"
    )
    assert list(result.samples.values[0]) == [6, 1]
    assert not result.skipped
