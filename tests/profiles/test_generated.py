"""Generated code: perf maps given or found, of the process a profile tells, in every format that tells one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.forge import elf as forge
from whence._base.model import Frame, Source
from whence.cli import main
from whence.locate.segments import placing_segments
from whence.objects.elf import ElfFile
from whence.profiles.binaries import Binaries
from whence.profiles.coverage import coverage
from whence.profiles.formats import otlp, perf, pprof
from whence.profiles.naming import FileReport, name
from whence.profiles.symbol_lists import SymbolLists
from whence.samples.model import NO_MAPPING, Label, Mapping, ProfileData, SampleType

CODE = 0x7F1D10020000
MAP = f"{CODE:x} 100 JS:*inner /srv/hot.js:1:15\n{CODE + 0x100:x} 80 JS:~outer /srv/hot.js:2:1\n"


def jitted(*pids: int, path: str = "//anon") -> ProfileData:
    """Return a profile with a location in inner and one in outer, and samples of each process."""
    profile = ProfileData([SampleType("samples", "count")], [Mapping(CODE, CODE + 0x1000, 0, path)])
    for pid in pids:
        stack = [profile.location(0, CODE + 0x10), profile.location(0, CODE + 0x120)]
        profile.samples.add(stack, [1], (Label("comm", "node"), Label("pid", number=pid)) if pid else ())
    return profile


def named(profile: ProfileData, **options: object) -> tuple[list[str], FileReport]:
    with Binaries(symbol_lists=SymbolLists(**options)) as binaries:  # type: ignore[arg-type]
        reports = name(profile, binaries)
    return [frames[-1].function if frames else "" for frames in profile.frames], reports[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "perf-42.map").write_text(MAP)
    return tmp_path


BOTH = ["JS:*inner /srv/hot.js:1:15", "JS:~outer /srv/hot.js:2:1"]


def test_finds_the_perf_map_of_the_process_in_the_labels(folder: Path) -> None:
    profile = jitted(42)
    functions, report = named(profile, directory=str(folder))
    assert functions == BOTH
    assert profile.frames[0] == (Frame(BOTH[0], source=Source.PERFMAP),)
    assert report.sources == {"perfmap": 2}
    (row,) = coverage(profile, [report])
    assert row.answered_by == str(folder / "perf-42.map")


@pytest.mark.parametrize("path", ["//anon", "", "[anon:v8]", "/memfd:doublemapper (deleted)", "/tmp/perf-42.map"])
def test_looks_up_every_kind_of_generated_code(folder: Path, path: str) -> None:
    assert named(jitted(42, path=path), directory=str(folder))[0] == BOTH


def test_takes_the_process_from_the_name_of_the_mapping(folder: Path) -> None:
    assert named(jitted(0, path="/tmp/perf-42.map"), directory=str(folder))[0] == BOTH


def test_a_given_map_needs_no_process(folder: Path) -> None:
    assert named(jitted(0), perf_maps=[folder / "perf-42.map"])[0] == BOTH
    assert named(jitted(9), perf_maps=[folder / "perf-42.map"])[0] == BOTH


def test_each_of_several_maps_is_used_for_its_process(folder: Path) -> None:
    (folder / "perf-43.map").write_text(f"{CODE:x} 1000 other\n")
    both = [folder / "perf-42.map", folder / "perf-43.map"]
    assert named(jitted(42, 43), perf_maps=both)[0] == [*BOTH, "other", "other"]


def test_maps_that_disagree_give_no_name(folder: Path) -> None:
    (folder / "perf-43.map").write_text(f"{CODE:x} 100 other\n{CODE + 0x100:x} 80 JS:~outer /srv/hot.js:2:1\n")
    profile = jitted(42)
    profile.samples.add([0, 1], [1], (Label("pid", number=43),))
    assert named(profile, directory=str(folder))[0] == ["", BOTH[1]]
    assert "disagree" in profile.reasons[0]


def test_reasons_have_remedies(folder: Path) -> None:
    profile = jitted(0)
    _, report = named(profile, directory=str(folder))
    assert "the profile does not say which process" in profile.reasons[0]
    profile = jitted(44)
    _, report = named(profile, directory=str(folder))
    assert "perf-44.map does not exist" in profile.reasons[0]
    assert "--perf-map" in next(iter(report.missing)).remedy
    profile = jitted(42)
    profile.location(0, CODE + 0xF00)
    profile.samples.add([2], [1], (Label("pid", number=42),))
    named(profile, directory=str(folder))
    assert "no name for this address in " in profile.reasons[2]


def test_ignores_maps_of_other_users(folder: Path) -> None:
    (folder / "perf-45.map").symlink_to(folder / "perf-42.map")
    profile = jitted(45)
    assert named(profile, directory=str(folder))[0] == ["", ""]
    if os.geteuid() == 0:
        os.chown(folder / "perf-42.map", 12345, -1)
        profile = jitted(42)
        assert named(profile, directory=str(folder))[0] == ["", ""]
        assert "owned by another user" in profile.reasons[0]


def test_looks_up_addresses_outside_every_mapping(folder: Path) -> None:
    """Old perf and sampling agents lose mappings of anonymous memory."""
    profile = jitted(42)
    profile.samples.add([profile.location(NO_MAPPING, CODE + 0x20)], [1], (Label("pid", number=42),))
    assert named(profile, directory=str(folder))[0][2] == BOTH[0]


def test_perf_script_keeps_the_code_of_two_processes_apart(folder: Path) -> None:
    (folder / "perf-43.map").write_text(f"{CODE:x} 1000 other\n")
    event = f"node {{0}} 1.0: PERF_RECORD_MMAP2 {{0}}/{{0}}: [{CODE:#x}(0x1000) @ {CODE:#x} 00:00 0 0]: rwxp //anon\n"
    sample = (
        f"node {{0}} 1.1: 1 cycles:u:\n\t{CODE + 16:x} [unknown] (/tmp/perf-{{0}}.map)\n\t11d6 [unknown] (/bin/app)\n\n"
    )
    with_events = event.format(42) + event.format(43) + sample.format(42) + sample.format(43)
    for text in (with_events, sample.format(42) + sample.format(43)):
        profile = perf.read(text)
        functions, _ = named(profile, directory=str(folder))
        assert functions == [BOTH[0], "", "other"]
        app = next(each for each in profile.mappings if each.path == "/bin/app")
        assert app.start  # offsets in files stay offsets although generated code has runtime addresses


def test_reads_the_process_of_pprof_and_otlp(folder: Path) -> None:
    profile = jitted(42)
    again = pprof.read(pprof.write(profile))
    assert named(again, directory=str(folder))[0] == BOTH
    profile = jitted(42)
    profile.samples.labels[0] = (Label("process.pid", number=42),)
    for json in (False, True):
        other = otlp.read(otlp.write(profile, json=json))
        assert named(other, directory=str(folder))[0] == BOTH


def test_the_command_accepts_a_perf_map(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "in.pb").write_bytes(pprof.write(jitted(0)))
    assert (
        main(["profile", str(folder / "in.pb"), "--format", "folded", "--perf-map", str(folder / "perf-42.map")]) == 0
    )
    assert capfd.readouterr().out == f"{BOTH[1]};{BOTH[0]} 1\n"
    assert main(["profile", str(folder / "in.pb"), "--perf-map", str(folder / "nowhere")]) == 3
    assert "nowhere: No such file" in capfd.readouterr().err


def test_names_generated_code_from_files_of_perf_inject(tmp_path: Path) -> None:
    """A file of perf inject --jit has one function, no segments, and the code in .text at its file offset."""
    text = forge.Section(".text", bytes(0x40), vaddr=0x1040, flags=6)
    data = forge.forge([text], symbols=[forge.Symbol("generated", 0x1040, 0x40)])
    path = tmp_path / "jitted-42-7.so"
    path.write_bytes(data)
    profile = ProfileData([SampleType("samples", "count")], [Mapping(CODE, CODE + 0x40, 0x40, str(path))])
    profile.samples.add([profile.location(0, CODE + 8)], [1])
    with ElfFile.open(path) as elf:
        assert [(each.vaddr, each.file_offset) for each in placing_segments(elf)] == [(0x1040, 0x40)]
    assert named(profile)[0] == ["generated"]
