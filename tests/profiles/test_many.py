"""Many profiles: named by one process, merged, compared."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.forge.perfdata import Forge
from tests.helpers.profiles import BASE, made, names, profile_of, program_profile
from tests.helpers.programs import compiled
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence.cli import main
from whence.profiles import Profile, merge, naming, read, top
from whence.profiles.binaries import Binaries
from whence.profiles.formats import folded, pprof, speedscope, written
from whence.profiles.formats import registry as formats
from whence.samples.difference import both, diff
from whence.samples.model import NO_MAPPING, Label, Mapping, SampleType, Timeline
from whence.symbolize.naming import table_of

linux = pytest.mark.skipif(sys.platform != "linux", reason="one process names the files elsewhere")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three profiles of the test program, one of them in perf's words, and a broken one between."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    profile = program_profile(compiled())
    profile.mappings.append(Mapping(0x1000, 0x2000, 0, "/gone/libvendor.so", "12" * 20))
    profile.samples.add([profile.location(1, 0x1800)], [3])
    (tmp_path / "a.pb.gz").write_bytes(pprof.write(profile))
    (tmp_path / "b.pb.gz").write_bytes(b"\x1f\x8b nothing of the kind")
    (tmp_path / "c.txt").write_text("main;work 3\n")
    (tmp_path / "d.pb").write_bytes(pprof.write(profile, compress=False))
    return tmp_path


def paths(folder: Path) -> list[str]:
    return [str(folder / name) for name in ("a.pb.gz", "b.pb.gz", "c.txt", "d.pb")]


def test_a_broken_file_does_not_affect_other_files(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = folder / "out"
    assert main(["profile", *paths(folder), "-o", str(out), "--json", "--jobs", "2"]) == 3
    said = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [Path(each["file"]).name for each in said] == ["a.pb.gz", "b.pb.gz", "c.txt", "d.pb"]
    assert [(each["named"], each["unnamed"]) for each in said] == [(3, 1), (0, 0), (2, 0), (3, 1)]
    assert said[1]["error"]
    assert "b.pb.gz" in said[1]["reason"]
    assert said[1]["output"] == ""
    assert said[0]["reason"] == f"the mapped file is not on this machine (/gone/libvendor.so, build-id {'12' * 20})"
    assert all(each["seconds"] >= 0 for each in said)
    assert sorted(each.name for each in out.iterdir()) == ["a.pb.gz", "c.folded", "d.pb"]
    assert read(out / "a.pb.gz").frames[0][-1].function == "main"
    assert read(out / "d.pb").frames == read(out / "a.pb.gz").frames


def test_prints_the_notes_of_each_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    full, odd, cut = tmp_path / "a.folded", tmp_path / "b.folded", tmp_path / "c.data"
    full.write_text("main;f 3\n")
    odd.write_text("main;f 3\nno stack at all\nmain;g 4\n")
    forge = Forge()
    cut.write_bytes(forge.file([forge.comm(7, 7, "app"), forge.comm(7, 8, "app")])[:-60])
    command = ["profile", str(full), str(odd), str(cut), "-o", str(tmp_path / "out")]
    assert main(command) == 0
    said = capfd.readouterr().err
    assert f"{odd}: 1 line skipped" in said
    assert f"{cut}: the recording ends inside the record at" in said
    assert main([*command, "--json"]) == 0
    notes = [json.loads(line)["notes"] for line in capfd.readouterr().out.splitlines()]
    assert [len(each) for each in notes] == [0, 1, 1]
    assert "ends inside the record" in notes[2][0]


def test_many_files_open_each_binary_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    search = Binaries._search

    def noted(self: Binaries, found: object, addresses: int) -> None:
        asked.append(found.mapping.path)  # type: ignore[attr-defined]
        search(self, found, addresses)  # type: ignore[arg-type]

    monkeypatch.setattr(Binaries, "_search", noted)
    assert main(["profile", *[str(folder / name) for name in ("a.pb.gz", "d.pb")], "-o", str(folder / "out")]) == 0
    assert asked == [str(compiled()), "/gone/libvendor.so"]


def test_files_of_one_name_keep_their_different_folders(folder: Path) -> None:
    for name in ("x", "y"):
        (folder / name).mkdir()
        (folder / name / "cpu.txt").write_text(f"{name} 1\n")
    inputs = [str(folder / name / "cpu.txt") for name in ("x", "y")]
    assert main(["profile", *inputs, "-o", str(folder / "out"), "--format", "speedscope"]) == 0
    assert (folder / "out" / "x" / "cpu.speedscope.json").exists()
    assert (folder / "out" / "y" / "cpu.speedscope.json").exists()


def test_one_file_into_a_folder_is_named_into_it(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = folder / "out"
    out.mkdir()
    assert main(["profile", str(folder / "a.pb.gz"), "-o", str(out), "--flamegraph", str(folder / "pages")]) == 0
    assert (out / "a.pb.gz").exists()
    assert (folder / "pages" / "a.html").read_text().startswith("<!doctype html>")
    assert "1 file," in capfd.readouterr().err


def test_several_files_need_a_folder_and_are_not_overwritten(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *paths(folder)]) == 2
    assert "several profiles need -o FOLDER" in capfd.readouterr().err
    assert main(["profile", *paths(folder), "-o", str(folder / "a.pb.gz")]) == 2
    before = (folder / "a.pb.gz").read_bytes()
    assert main(["profile", str(folder / "a.pb.gz"), str(folder / "d.pb"), "-o", str(folder)]) == 3
    assert "is the profile itself" in capfd.readouterr().err
    assert (folder / "a.pb.gz").read_bytes() == before
    assert main(["profile", "-", "-", "--merge", "-o", "x"]) == 2


def test_fail_under_applies_to_each_file(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(folder / "a.pb.gz"), str(folder / "c.txt"), "--fail-under", "90", "--coverage"]) == 1
    said = capfd.readouterr()
    assert "a.pb.gz: 66.7 % named, under 90 %" in said.err
    assert "c.txt: " not in said.err
    assert "c.txt:\n" in said.out


def test_closes_the_least_recently_used_files() -> None:
    profile = program_profile(compiled())
    with Binaries() as binaries:
        profile.mappings += [profile.mappings[0]._replace(build_id="", path=f"/gone/{index}") for index in range(20)]
        for mapping in profile.mappings:
            binaries.search(mapping)
        binaries.search(profile.mappings[0])
        binaries.trim(1 << 40, 3)
        assert [each.mapping.path for each in binaries.searches] == ["/gone/18", "/gone/19", str(compiled())]
        binaries.trim(1 << 40, 0)
        assert binaries.searches == []
        assert binaries.search(profile.mappings[0]).opened is not None


# by several processes


@pytest.fixture
def fleet(folder: Path) -> list[str]:
    """Forty profiles, one of them broken."""
    out = []
    for number in range(40):
        path = folder / f"{number:02}.pb.gz"
        path.write_bytes((folder / ("b.pb.gz" if number == 17 else "a.pb.gz")).read_bytes())
        out.append(str(path))
    return out


def named_by(script: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """`whence profile` in a process of its own, after `script`, which may change whence.cli.profile_files (`files`)."""
    script = f"import os, signal, sys\nfrom whence.cli import main, profile_files as files\n{script}\n"
    command = [sys.executable, "-c", f"{script}sys.exit(main(['profile', *sys.argv[1:]]))", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


COUNTED = """
fork = os.fork
def counted():
    print("forked", file=sys.stderr)
    return fork()
os.fork = counted
"""
LOST = """
whole = files.read_path
def read_path(path):
    if path.endswith("23.pb.gz"):
        {how}
    return whole(path)
files.read_path = read_path
"""


@linux
def test_several_processes_give_the_names_of_one_process(fleet: list[str], folder: Path) -> None:
    said = {}
    for jobs in ("1", "3"):
        result = named_by(COUNTED, *fleet, "-o", folder / jobs, "--json", "--jobs", jobs)
        assert result.returncode == 3
        assert result.stderr.count("forked") == (3 if jobs == "3" else 0)
        said[jobs] = [json.loads(line) for line in result.stdout.splitlines()]
        for each in said[jobs]:
            del each["seconds"], each["output"]
    assert said["1"] == said["3"]
    assert [each["file"] for each in said["3"]] == fleet
    assert [bool(each["error"]) for each in said["3"]] == [number == 17 for number in range(40)]
    made = {jobs: {each.name: each.read_bytes() for each in (folder / jobs).iterdir()} for jobs in said}
    assert made["1"] == made["3"]
    assert len(made["3"]) == 39


@linux
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "23.pb.gz: the process for it was ended by SIGKILL"),
        ("raise RuntimeError('a fault of whence')", "RuntimeError: a fault of whence"),
        ("os._exit(7)", "23.pb.gz: the process for it ended with status 7"),
    ],
)
def test_a_lost_process_costs_one_file(fleet: list[str], folder: Path, how: str, words: str) -> None:
    result = named_by(LOST.format(how=how), *fleet, "-o", folder / "out", "--jobs", "2")
    assert result.returncode == 3
    assert words in result.stderr
    assert result.stderr.count("the process for it") == 1
    made = {each.name for each in (folder / "out").glob("*.pb.gz")}
    assert made == {Path(each).name for each in fleet} - {"17.pb.gz", "23.pb.gz"}
    assert "40 files, 2 of them failed" in result.stderr
    result = named_by(LOST.format(how=how), *fleet, "-o", folder / "out", "--jobs", "2", "--json")
    said = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["file"] for each in said] == fleet
    assert [number for number, each in enumerate(said) if each["error"]] == [17, 23]
    assert "the process for it" in said[23]["reason"]


@linux
def test_an_interrupt_ends_all_processes_and_leaves_no_partial_file(fleet: list[str], folder: Path) -> None:
    waits = "print('waiting', flush=True, file=sys.__stderr__); __import__('time').sleep(60)"
    script = f"import os, sys\nfrom whence.cli import main, profile_files as files\n{LOST.format(how=waits)}"
    out = folder / "out"
    words = ["profile", *fleet, "-o", str(out), "--jobs", "2"]
    command = [sys.executable, "-c", f"{script}\nsys.exit(main({words!r}))"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as run:
        assert run.stderr is not None
        while "waiting" not in run.stderr.readline():
            assert run.poll() is None
        run.send_signal(signal.SIGINT)
        assert run.wait(20) == 130
        assert run.stderr.read().endswith("whence: interrupted\n")  # all processes have closed it
    assert all(each.name.endswith(".pb.gz") and read(each) for each in out.iterdir())
    with pytest.raises(ProcessLookupError):
        os.killpg(run.pid, 0)


@linux
def test_one_process_names_the_files_if_forking_fails(fleet: list[str], folder: Path) -> None:
    script = """
fork, forked = os.fork, []
def refuse():
    if forked:
        raise BlockingIOError(11, "Resource temporarily unavailable")
    forked.append(fork())
    return forked[0]
os.fork = refuse
"""
    result = named_by(script, *fleet, "-o", folder / "out", "--jobs", "4", "--json")
    assert result.returncode == 3
    assert [json.loads(line)["file"] for line in result.stdout.splitlines()] == fleet
    assert len(list((folder / "out").iterdir())) == 39


@linux
def test_works_if_the_caller_ignores_sigchld(fleet: list[str], folder: Path) -> None:
    script = f"import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n{COUNTED}"
    result = named_by(script, *fleet, "-o", folder / "out", "--jobs", "2")
    assert (result.returncode, result.stderr.count("forked")) == (3, 2)
    assert "No such process" not in result.stderr
    assert len([*(folder / "out").iterdir()]) == 39


@linux
def test_one_process_names_the_files_if_other_threads_run(fleet: list[str], folder: Path) -> None:
    busy = "import _thread, time\n_thread.start_new_thread(time.sleep, (60,))\n"
    result = named_by(COUNTED + busy, *fleet, "-o", folder / "out", "--jobs", "2")
    assert "forked" not in result.stderr
    assert len(list((folder / "out").iterdir())) == 39


# merging


def test_merging_adds_equal_samples_at_different_load_addresses() -> None:
    first, other = Profile.of(made()), made()
    moved = other.mappings[1]
    other.mappings[1] = moved._replace(start=moved.start + 0x5000, limit=moved.limit + 0x5000)
    other.address[2] += 0x5000
    merged = merge([first, other])
    assert len(merged.address) == 3
    assert len(merged.samples) == 2
    assert folded.write(merged) == "main;libz.so.1+0x1f20 20\nmain;work;inner<1:2> 180\n"
    assert first.merge(other).samples == merged.samples


def test_merging_keeps_labels_types_and_memory_of_processes_apart() -> None:
    item = profile_of([(["a"], 1)])
    item.samples.labels[0] = (Label("pid", number=1),)
    two = profile_of([(["a"], 2)])
    two.sample_types = [SampleType("space", "bytes")]
    for profile in (item, two):
        profile.mappings.append(Mapping(1, 9, 0, "//anon"))
        profile.samples.add([profile.location(0, 5)], [4])
    merged = merge([item, two])
    assert merged.sample_types == [SampleType("type0", "count"), SampleType("space", "bytes")]
    assert [list(column) for column in merged.samples.values] == [[1, 4, 0, 0], [0, 0, 2, 4]]
    assert len(merged.mappings) == 2
    assert merge([]).sample_types == []


def test_merging_keeps_times_if_all_profiles_have_them() -> None:
    item, two = profile_of([(["a"], 2)]), profile_of([(["b"], 1), (["a"], 1)])
    item.samples.timeline = Timeline(array("I", [0, 0]), array("q", [5, 7]), [array("q", [1, 1])])
    two.samples.timeline = Timeline(array("I", [1, 0]), array("q", [6, 8]), [array("q", [1, 1])])
    timeline = merge([item, two]).samples.timeline
    assert timeline is not None
    assert (list(timeline.sample), list(timeline.time)) == ([0, 0, 0, 1], [5, 7, 6, 8])
    two.samples.timeline = None
    assert merge([item, two]).samples.timeline is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(names, st.integers(1, 9))), max_size=4))
def test_merged_folded_stacks_are_the_sum(parts: list[list[tuple[list[str], int]]]) -> None:
    full = profile_of([each for part in parts for each in part])
    merged = merge(profile_of(part) for part in parts)
    assert folded.write(merged) == folded.write(full)
    again = read(pprof.write(merged))
    assert folded.write(again) == folded.write(full)


def test_merging_names_once_and_writes_one(folder: Path) -> None:
    out = folder / "one.folded"
    inputs = [str(folder / name) for name in ("a.pb.gz", "d.pb")]
    assert main(["profile", "--merge", *inputs, "-o", str(out)]) == 0
    lines = out.read_text().splitlines()
    assert "main 4" in lines
    assert "sum 4" in lines


# differences


def change(new: list[tuple[list[str], int]], base: list[tuple[list[str], int]], **options: bool) -> str:
    return folded.write(diff(profile_of(new), profile_of(base), **options))


def test_a_difference_is_new_less_base() -> None:
    assert change([(["a", "b"], 5), (["a"], 1)], [(["a", "b"], 2), (["c"], 4)]) == "a 1\na;b 3\nc -4\n"


def test_a_difference_can_be_normalized() -> None:
    assert change([(["a"], 6), (["b"], 6)], [(["a"], 2), (["b"], 1)], normalize=True) == "a -2\nb 2\n"
    assert change([(["a"], 6)], [], normalize=True) == "a 6\n"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(names, st.integers(1, 9))))
def test_the_difference_of_a_profile_to_itself_is_empty(stacks: list[tuple[list[str], int]]) -> None:
    profile = profile_of(stacks)
    for normalize in (False, True):
        result = diff(profile, profile, normalize=normalize)
        assert not any(value for column in result.samples.values for value in column)


def build(folder: str, base: int, line: int, *, file: bool = True) -> Profile:
    """One program as two builds have it: other folders, addresses, lines and inlined calls."""
    profile = Profile([SampleType("cpu", "nanoseconds")], [Mapping(base, base + 0x1000, 0, f"{folder}/app")])
    path = f"{folder}/a.c" if file else ""
    work = Frame("work", path, line, inlined=line > 5)
    if line > 5:
        stack = [profile.location(0, base + line, (work, Frame("main", path, 2)))]
    else:
        stack = [profile.location(0, base + line, (work,)), profile.location(0, base + 2, (Frame("main", path, 1),))]
    profile.samples.add(stack, [line])
    profile.samples.add([profile.location(0, base + 0x800)], [1])
    return profile


@pytest.mark.parametrize("file", [True, False])
def test_two_builds_compare_by_function_and_file(file: bool) -> None:
    result = build("/build/2", 0x7000, 9).diff(build("/build/1", 0x4000, 3, file=file))
    assert folded.write(result) == "[app] 0\nmain;work 6\n"


def test_functions_of_one_name_in_two_files_stay_separate() -> None:
    def profile(*files: str) -> Profile:
        made = Profile([SampleType("samples", "count")])
        for file in files:
            made.samples.add([made.location(NO_MAPPING, 0, (Frame("init", file),))], [1])
        return made

    result = profile("/2/a.c", "/2/b.c").diff(profile("/1/a.c"))
    assert sorted(zip((frames[0].file for frames in result.frames), result.samples.values[0])) == [
        ("/2/a.c", 0), ("/2/b.c", 1),
    ]  # fmt: skip


def test_profiles_without_a_common_type_do_not_compare() -> None:
    other = profile_of([(["a"], 1)])
    other.sample_types = [SampleType("space", "bytes")]
    with pytest.raises(ProfileError, match="no sample type in common"):
        diff(profile_of([(["a"], 1)]), other)


@pytest.mark.parametrize("format", [*written.WRITTEN, written.PAGE])
def test_every_format_can_store_a_difference(format: str) -> None:
    result = Profile.of(diff(profile_of([(["a", "b"], 5)]), profile_of([(["a", "c"], 2)])))
    assert formats.to_bytes(result, format, "x")


def test_pprof_and_tables_have_negative_values() -> None:
    result = Profile.of(diff(profile_of([(["a", "b"], 5)]), profile_of([(["a", "c"], 7)])))
    assert folded.write(read(pprof.write(result))) == "a;b 5\na;c -7\n"
    assert [(row.function, row.self, row.total) for row in top.top(result).rows] == [
        ("c", -7, -7), ("b", 5, 5), ("a", 0, -2),
    ]  # fmt: skip


def test_the_table_of_a_difference_has_shares_of_the_base() -> None:
    result = Profile.of(diff(profile_of([(["a", "b"], 5)]), profile_of([(["a", "c"], 7)])))
    lines = str(top.top(result)).splitlines()
    assert lines[0] == "type0: -2 (-28.6%) since 7, in 3 functions"
    assert lines[2].split()[:2] == ["-7", "-100.0%"]
    grown = Profile.of(diff(profile_of([(["a"], 9)]), profile_of([(["a"], 7)])))
    assert "+2" in str(top.top(grown)).splitlines()[0]


def test_the_first_mapping_of_a_difference_is_a_file() -> None:
    made = profile_of([(["a", "b"], 5)])
    made.mappings = [Mapping(path="[kernel.kallsyms]_text"), Mapping(path="/opt/app")]
    made.mapping = array("q", [index % 2 for index in range(len(made.address))])
    assert [each.path for each in diff(made, made).mappings] == ["/opt/app", "[kernel.kallsyms]_text"]


def test_speedscope_has_profiles_of_growth_and_decline() -> None:
    result = diff(profile_of([(["a", "b"], 5)]), profile_of([(["a", "c"], 7)]))
    grown, shrunk = json.loads(speedscope.write(result))["profiles"]
    assert (grown["name"], grown["weights"]) == ("type0", [5])
    assert (shrunk["name"], shrunk["weights"]) == ("type0, less than the base", [7])


def test_both_sides_of_a_difference_are_kept() -> None:
    result = both(diff(profile_of([(["a"], 5)]), profile_of([(["a"], 2), (["b"], 3)])))
    assert [list(column) for column in result.samples.values] == [[5, 0], [2, 3]]
    only = diff(profile_of([(["a"], 5)]), profile_of([(["b"], 3)])).filter(lambda sample: "b" in sample.functions)
    assert [list(column) for column in (*only.samples.values, *only.samples.base)] == [[-3], [3]]


def test_the_command_compares_with_a_base(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    base = program_profile(compiled())
    base.samples.values[0][0] = 7
    base.mappings[0] = base.mappings[0]._replace(start=BASE + 0x1000, limit=base.mappings[0].limit + 0x1000)
    for index in range(3):
        base.address[index] += 0x1000
    old = folder / "old.pb.gz"
    old.write_bytes(pprof.write(base))
    new = str(folder / "a.pb.gz")
    assert main(["profile", new, "--base", str(old), "--format", "folded"]) == 0
    said = capfd.readouterr().out
    assert "main -5\n" in said
    assert "sum 0\n" in said
    assert main(["profile", new, "--normalize"]) == 2
    assert main(["profile", new, new, "--base", str(old), "-o", "x"]) == 2
    assert main(["profile", new, "--base", str(old), "--flamegraph", str(folder / "d.html")]) == 0


def test_a_notebook_shows_the_flame_graph() -> None:
    shown = Profile.of(made())._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "&lt;!doctype html&gt;" in shown


def test_caches_chains_for_the_next_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def noted(binary: Any, vaddrs: Any, **options: Any) -> Any:
        asked.append(len(vaddrs))
        return table_of(binary, vaddrs, **options)

    monkeypatch.setattr(naming, "table_of", noted)
    with Binaries(remember=True) as binaries:
        first, second, raw = (program_profile(compiled()) for _ in range(3))
        naming.name(first, binaries, demangle=True)
        naming.name(second, binaries, demangle=True)
        naming.name(raw, binaries)
    assert asked == [3, 3]  # readable names, and those of the linker
    assert first.frames == second.frames
    assert all(first.frames)


def test_closes_a_file_after_its_last_mapping() -> None:
    first, second = program_profile(compiled()), program_profile(compiled())
    where = first.mappings[0]
    first.mappings += [Mapping(0, 0, where.file_offset, where.path, where.build_id), Mapping(path="/gone")]
    first.mapping[2] = 1
    with Binaries(once=True) as binaries:
        reports = naming.name(first, binaries)
        assert binaries.searches == []
        naming.name(second, binaries)  # opens the file again
    assert [(each.path, each.locations) for each in reports] == [(str(compiled()), 3)]
    assert all(first.frames[:2])
    assert all(second.frames)


def test_names_more_vaddrs_than_the_cache_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name some addresses a second time, and more new addresses than the cache can hold."""
    with Binaries(remember=True) as binaries:
        first, second = (program_profile(compiled()) for _ in range(2))
        first.address.pop()
        first.mapping.pop()
        first.frames.pop()
        naming.name(first, binaries)
        monkeypatch.setattr(naming, "CACHED_VADDRS", len(first.address))
        naming.name(second, binaries)
    assert all(second.frames)
    assert second.frames[: len(first.frames)] == first.frames


def test_frames_stay_columns_until_they_are_read() -> None:
    profile = Profile.of(program_profile(compiled()))
    with Binaries() as binaries:
        (report,) = naming.name(profile, binaries)
    assert (report.named, report.with_lines, sum(report.sources.values())) == (3, 2, 3)
    written = read(profile.to_bytes("pprof")).frames
    assert [len(each.locations) for each in profile.named] == [3]
    assert not any(profile.own_frames)
    assert all(profile.frames)
    assert not profile.named
    assert sum(bool(chain[0].line) for chain in profile.frames) == report.with_lines
    shown = [[(frame.function, frame.file, frame.line) for frame in chain] for chain in profile.frames]
    assert shown == [[(frame.function, frame.file, frame.line) for frame in chain] for chain in written]
    again = read(profile.to_bytes("pprof")).frames  # from objects
    assert again == written


def test_an_unwritable_file_does_not_affect_other_files(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = folder / "out"
    (out / "a.pb.gz").mkdir(parents=True)
    assert main(["profile", str(folder / "a.pb.gz"), str(folder / "d.pb"), "-o", str(out), "--json"]) == 3
    first, second = (json.loads(line) for line in capfd.readouterr().out.splitlines())
    assert (first["output"], bool(first["error"]), second["error"]) == ("", True, "")
    assert read(out / "d.pb").frames[0][-1].function == "main"


def test_a_pipe_without_a_writer_does_not_affect_other_files(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(folder / "pipe")
    out = folder / "out"
    assert main(["profile", str(folder / "pipe"), str(folder / "d.pb"), "-o", str(out), "--json"]) == 3
    first, second = (json.loads(line) for line in capfd.readouterr().out.splitlines())
    assert first["reason"] == f"{folder / 'pipe'}: a FIFO, not a regular file"
    assert first["error"]
    assert second["error"] == ""
