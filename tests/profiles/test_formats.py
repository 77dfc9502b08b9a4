"""Profiles of any format are read, named and written from Python."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from pathlib import Path

import pytest

from tests.helpers.profiles import program_profile
from tests.helpers.programs import compiled
from whence import procmap, profiles
from whence._base.errors import ProfileError, WrongUse
from whence._base.model import Frame
from whence._base.reasons import Reason
from whence.locate.cache import Cache
from whence.locate.search import FileQuery
from whence.locate.sources import Candidate
from whence.locator.locator import Locator
from whence.profiles.coverage import coverage, text
from whence.profiles.formats import pprof
from whence.profiles.naming import name
from whence.samples import wire
from whence.samples.model import NO_MAPPING, Label, Mapping, ProfileData, Samples, SampleType


def test_a_profile_is_opened_named_and_written(tmp_path: Path) -> None:
    came = tmp_path / "cpu.pb.gz"
    came.write_bytes(pprof.write(program_profile(compiled())))
    profile = profiles.read(came)
    assert profile.format == "pprof"
    report = profile.symbolize()
    assert [each.named >= 2 for each in report.files] == [True]
    assert report.named_percent > 0
    assert report.reaches(report.named_percent)
    assert not report.reaches(101)
    assert str(report).endswith("of the frames in samples have names\n")
    assert report.as_json()["binaries"] == [row.as_json() for row in report]
    for each in (report, *report.files, *report):
        assert len(repr(each).splitlines()) == 1
        assert len(repr(each)) < 400
    named = tmp_path / "named.pb.gz"
    profile.write(named)
    again = profiles.read(named)
    assert [frames[-1].function for frames in again.frames if frames][:2] == ["main", "sum"]
    assert sorted(os.listdir(tmp_path)) == ["cpu.pb.gz", "named.pb.gz"]


@pytest.mark.parametrize(
    ("name", "format"),
    [("a.pb", "pprof"), ("a.otlp", "otlp"), ("a.json", "otlp"), ("a.otlp.json", "otlp"), ("a.folded", "folded"),
     ("a.txt", "folded"), ("plain", "folded")],
)  # fmt: skip
def test_the_ending_of_the_path_chooses_the_format(tmp_path: Path, name: str, format: str) -> None:
    profile = profiles.read(b"main;work 3\nmain 1\n")
    assert profile.format == "folded"
    profile.write(tmp_path / name)
    again = profiles.read(tmp_path / name)
    assert again.format == format
    assert len(again.samples) == 2
    if name.endswith(".json"):
        assert (tmp_path / name).read_bytes().startswith(b"{")


def test_an_unknown_ending_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    profile = profiles.read(b"main;work 3\n")
    with pytest.raises(WrongUse, match=r"x\.svg: unknown ending \.svg for a profile: expected .*\.pb\.gz.*\.html"):
        profile.write(tmp_path / "x.svg")
    assert not [*tmp_path.iterdir()]
    profile.write(tmp_path / "x.svg", "folded")


def test_an_explicit_format_overrides_the_ending(tmp_path: Path) -> None:
    profile = profiles.read(b"main;work 3\n")
    profile.write(tmp_path / "a.txt", "pprof")
    assert profiles.read(tmp_path / "a.txt").format == "pprof"
    with pytest.raises(ValueError, match="unknown format 'svg'"):
        profile.to_bytes("svg")


def test_a_profile_that_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    profile = profiles.read(b"main;work 3\n")
    with pytest.raises(OSError, match="nowhere") as caught:
        profile.write(tmp_path / "nowhere" / "a.pb")
    assert caught.value.filename == str(tmp_path / "nowhere" / "a.pb")
    assert os.listdir(tmp_path) == []


def test_reads_and_writes_pipes_and_rejects_devices(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    profile = profiles.read(b"main;work 3\n")
    writer = threading.Thread(target=profile.write, args=(pipe, "folded"))
    writer.start()
    assert profiles.read(pipe).format == "folded"
    writer.join()
    with pytest.raises(ProfileError, match="/dev/zero: a device, not a regular file"):
        profiles.read("/dev/zero")


def test_writes_the_target_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "a.pb"
    link.symlink_to(tmp_path / "there" / "real.pb")
    profiles.read(b"main;work 3\n").write(link)
    assert link.is_symlink()
    assert profiles.read(tmp_path / "there" / "real.pb").format == "pprof"
    assert os.listdir(tmp_path / "there") == ["real.pb"]


def test_a_number_of_the_wrong_wire_type_is_another_field() -> None:
    """In protocol buffers a field of another wire type is an unknown field."""
    mapping = wire.payload(3, wire.number(1, 1) + wire.payload(2, b"start?") + wire.number(3, 0x2000))
    location = wire.payload(4, wire.number(1, 1) + wire.number(2, 1) + wire.number(3, 0x1000))
    data = mapping + location + wire.payload(6, b"")
    profile = pprof.read(data)
    assert profile.mappings[0].start == 0
    assert profile.mappings[0].limit == 0x2000
    assert pprof.write(profile) == data


def test_the_repr_of_a_profile_is_one_short_line() -> None:
    folded = profiles.read("".join(f"main;f{index} {index + 1}\n" for index in range(2000)).encode())
    for profile in (folded, *(profiles.read(folded.to_bytes(each)) for each in ("pprof", "otlp"))):
        for each in (profile, profile.samples, profile.origin, profile):
            assert len(repr(each).splitlines()) == 1
            assert len(repr(each)) < 400
        assert "2,000 samples" in repr(profile)
        assert "2,001 locations" in repr(profile)
    awkward = ProfileData([SampleType("a\nb" * 1000, "\x1b")] * 100)
    assert repr(awkward).isprintable()
    assert len(repr(awkward)) < 400


def test_a_flame_graph_is_written_by_its_ending_and_by_its_name(tmp_path: Path) -> None:
    profile = profiles.read(b"main;work 3\n")
    profile.write(tmp_path / "work.html")
    page = (tmp_path / "work.html").read_text()
    assert "<title>work.html</title>" in page
    assert page.encode() == profile.to_bytes("flamegraph", name="work.html")


def test_a_profile_is_read_from_a_path_an_open_file_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.folded"
    path.write_bytes(b"main;work 3\n")
    with path.open("rb") as file:
        result = [profiles.read(each) for each in (path, str(path), file, b"main;work 3\n")]
    assert {each.to_bytes("folded") for each in result} == {b"main;work 3\n"}


TWO = b"main;work 3\nmain;rest 5\nmain;work 4\n"


@pytest.mark.parametrize("format", ["folded", "pprof", "otlp"])
def test_filters_samples_by_a_predicate(format: str) -> None:
    profile = profiles.read(profiles.read(TWO).to_bytes(format))
    only = profile.filter(lambda sample: "work" in sample.functions)
    assert isinstance(only, profiles.Profile)
    assert sum(only.samples.values[0]) == 7
    assert profiles.read(only.to_bytes(format)).to_bytes("folded") == b"main;work 7\n"
    assert sum(profile.samples.values[0]) == 12
    assert profiles.read(profile.to_bytes(format)).to_bytes("folded") == b"main;rest 5\nmain;work 7\n"


def test_a_predicate_sees_frames_values_and_labels() -> None:
    profile = ProfileData([SampleType("cpu", "nanoseconds"), SampleType("samples", "count")])
    frames = (Frame("leaf"),), (), (Frame("main"),)
    stack = [profile.location(NO_MAPPING, 0x10 * index, each) for index, each in enumerate(frames)]
    profile.samples.add(stack, [70, 7], (Label("comm", "nginx"), Label("tid", number=12)))
    profile.samples.add(stack[2:], [10, 1])
    seen = []
    assert len(profile.filter(lambda sample: bool(seen.append(sample))).samples) == 0  # type: ignore[func-returns-value]
    assert seen[0].functions == ["leaf", "main"]
    assert seen[0].frames[1] == Frame("main")
    assert seen[0].values == (70, 7)
    assert seen[0].labels == {"comm": "nginx", "tid": 12}
    assert list(seen[0].locations) == stack
    assert repr(seen[0]) == "<Sample 0: [70, 7] in leaf>"
    assert len(profile.filter(lambda sample: sample.labels.get("tid") == 12).samples) == 1


@pytest.mark.parametrize("format", ["pprof", "otlp"])
def test_writes_samples_that_were_set_or_added(format: str) -> None:
    profile = profiles.read(profiles.read(b"main;work 3\n").to_bytes(format))
    profile.samples.add(list(profile.samples.locations(0)), [10])
    assert profiles.read(profile.to_bytes(format)).to_bytes("folded") == b"main;work 13\n"
    other = Samples()
    other.add(list(profile.samples.locations(0)), [2])
    profile.samples = other
    assert profiles.read(profile.to_bytes(format)).to_bytes("folded") == b"main;work 2\n"


def test_a_profile_is_pickled_with_its_samples() -> None:
    profile = profiles.read(profiles.read(TWO).to_bytes("pprof"))
    again = pickle.loads(pickle.dumps(profile))
    assert again.format == "pprof"
    assert again.to_bytes("folded") == profile.to_bytes("folded")


GO_ID = "kq3m1aaaaaaaaaaaaaaa/bbbbbbbbbbbbbbbbbbbb/cccccccccccccccccccc/dddddddddddddddddddd"


@pytest.mark.parametrize(
    "build_id",
    [GO_ID.encode().hex(), GO_ID.encode().hex().upper(), GO_ID, "61" * 400, "../../../etc/passwd", "a\0b", "zz", "ab"],
)
def test_an_unknown_build_id_affects_only_its_own_locations(build_id: str, tmp_path: Path) -> None:
    """Parca writes Go's build-id as 166 hex digits."""
    profile = program_profile(compiled())
    profile.mappings.append(Mapping(0x1000, 0x2000, 0, "/gone/program", build_id))
    profile.samples.add([profile.location(1, 0x1800)], [4])
    archives = tmp_path / "archives"
    archives.mkdir()
    binaries = Locator(cache=Cache(tmp_path / "cache"), archive_dirs=[archives], dirs=[tmp_path])
    with binaries:
        reports = name(profile, binaries)
    assert [report.named > 0 for report in reports] == [True, False]
    assert next(iter(reports[1].missing)).reason is Reason.NO_FILE
    assert text(coverage(profile, reports))


def test_gos_build_id_is_compared_in_either_form() -> None:
    assert len(GO_ID.encode().hex()) == 166
    item = Candidate("app", "given", ("ab" * 20, GO_ID))
    assert item.is_of(FileQuery(GO_ID.encode().hex(), "/bin/app"))
    assert item.is_of(FileQuery(GO_ID, "/bin/app"))
    assert item.is_of(FileQuery("AB" * 20, "/bin/app"))
    assert not item.is_of(FileQuery(GO_ID.replace("k", "x").encode().hex(), "/bin/app"))


def test_a_mapping_of_a_profile_is_a_mapping_of_a_process() -> None:
    mapping = Mapping(0x400000, 0x500000, 0x1000, "/bin/app", "ab12")
    assert isinstance(mapping, procmap.Mapping)
    assert mapping == procmap.Mapping("/bin/app", 0x400000, 0x500000, 0x1000, "ab12")
    assert (mapping.end, mapping.size, mapping.extent) == (0x500000, 0x100000, (0x1000, 0x101000))
    assert mapping.file_offset_of(0x400010) == 0x1010
    assert pickle.loads(pickle.dumps(mapping)) == copy.copy(mapping) == mapping
    moved = mapping._replace(start=0x600000, limit=0x700000)
    assert (type(moved), moved.file_offset, moved.path) == (Mapping, 0x1000, "/bin/app")
    assert repr(mapping) == "<Mapping 0x400000-0x500000 r-xp 0x1000 /bin/app>"
