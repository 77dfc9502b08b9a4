"""Profiles from Python: opened, named, written, whatever their format."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from pathlib import Path

import pytest

from tests.helpers.programs import compiled
from tests.profiles.test_naming import program_profile
from whence import procmap, profiles
from whence.errors import ProfileError
from whence.locate.cache import Cache
from whence.locate.locator import Locator
from whence.locate.search import Wanted
from whence.locate.sources import Candidate
from whence.profiles import pprof, wire
from whence.profiles.coverage import coverage, text
from whence.profiles.model import Mapping, Profile, SampleType
from whence.reasons import Reason


def test_a_profile_is_opened_named_and_written(tmp_path: Path) -> None:
    came = tmp_path / "cpu.pb.gz"
    came.write_bytes(pprof.write(program_profile(compiled())))
    profile = profiles.open(came)
    assert profile.format == "pprof"
    with profiles.Binaries() as binaries:
        reports = profiles.name(profile, binaries)
    assert [report.named >= 2 for report in reports] == [True]
    named = tmp_path / "named.pb.gz"
    profiles.write(profile, named)
    again = profiles.open(named)
    assert [frames[-1].function for frames in again.frames if frames][:2] == ["main", "sum"]
    assert sorted(os.listdir(tmp_path)) == ["cpu.pb.gz", "named.pb.gz"]


@pytest.mark.parametrize(
    ("name", "format"),
    [("a.pb", "pprof"), ("a.otlp", "otlp"), ("a.json", "otlp"), ("a.otlp.json", "otlp"), ("a.folded", "folded"),
     ("a.txt", "folded"), ("plain", "folded")],
)  # fmt: skip
def test_the_ending_of_the_path_tells_the_format(tmp_path: Path, name: str, format: str) -> None:
    profile = profiles.from_bytes(b"main;work 3\nmain 1\n")
    assert profile.format == "folded"
    profiles.write(profile, tmp_path / name)
    again = profiles.open(tmp_path / name)
    assert again.format == format
    assert len(again.samples) == 2
    if name.endswith(".json"):
        assert (tmp_path / name).read_bytes().startswith(b"{")


def test_a_format_that_is_asked_for_counts_more_than_the_ending(tmp_path: Path) -> None:
    profile = profiles.from_bytes(b"main;work 3\n")
    profiles.write(profile, tmp_path / "a.txt", "pprof")
    assert profiles.open(tmp_path / "a.txt").format == "pprof"
    with pytest.raises(ValueError, match="not 'svg'"):
        profiles.to_bytes(profile, "svg")


def test_a_profile_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    profile = profiles.from_bytes(b"main;work 3\n")
    with pytest.raises(OSError, match="nowhere") as caught:
        profiles.write(profile, tmp_path / "nowhere" / "a.pb")
    assert caught.value.filename == str(tmp_path / "nowhere" / "a.pb")
    assert os.listdir(tmp_path) == []


def test_a_pipe_is_read_and_written_and_a_device_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    profile = profiles.from_bytes(b"main;work 3\n")
    writer = threading.Thread(target=profiles.write, args=(profile, pipe, "folded"))
    writer.start()
    assert profiles.open(pipe).format == "folded"
    writer.join()
    with pytest.raises(ProfileError, match="/dev/zero: a device, not a regular file"):
        profiles.open("/dev/zero")


def test_where_a_link_leads_is_written_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "a.pb"
    link.symlink_to(tmp_path / "there" / "real.pb")
    profiles.write(profiles.from_bytes(b"main;work 3\n"), link)
    assert link.is_symlink()
    assert profiles.open(tmp_path / "there" / "real.pb").format == "pprof"
    assert os.listdir(tmp_path / "there") == ["real.pb"]


def test_a_number_of_the_wrong_wire_type_is_another_field() -> None:
    """As protocol buffers have it: a field of another wire type is one that nobody knows."""
    mapping = wire.payload(3, wire.number(1, 1) + wire.payload(2, b"start?") + wire.number(3, 0x2000))
    location = wire.payload(4, wire.number(1, 1) + wire.number(2, 1) + wire.number(3, 0x1000))
    data = mapping + location + wire.payload(6, b"")
    profile = pprof.read(data)
    assert profile.mappings[0].start == 0
    assert profile.mappings[0].limit == 0x2000
    assert pprof.write(profile) == data


def test_the_repr_of_a_profile_is_one_short_line() -> None:
    folded = profiles.from_bytes("".join(f"main;f{at} {at + 1}\n" for at in range(2000)).encode())
    for profile in (folded, *(profiles.from_bytes(profiles.to_bytes(folded, one)) for one in ("pprof", "otlp"))):
        for one in (profile, profile.samples, profile.origin, profile):
            assert len(repr(one).splitlines()) == 1
            assert len(repr(one)) < 400
        assert "2,000 samples" in repr(profile)
        assert "2,001 locations" in repr(profile)
    awkward = Profile([SampleType("a\nb" * 1000, "\x1b")] * 100)
    assert repr(awkward).isprintable()
    assert len(repr(awkward)) < 400


GO_ID = "kq3m1aaaaaaaaaaaaaaa/bbbbbbbbbbbbbbbbbbbb/cccccccccccccccccccc/dddddddddddddddddddd"


@pytest.mark.parametrize(
    "build_id",
    [GO_ID.encode().hex(), GO_ID.encode().hex().upper(), GO_ID, "61" * 400, "../../../etc/passwd", "a\0b", "zz", "ab"],
)
def test_a_build_id_that_names_no_file_costs_no_names_but_its_own(build_id: str, tmp_path: Path) -> None:
    """Parca writes Go's build-id as 166 hex digits."""
    profile = program_profile(compiled())
    profile.mappings.append(Mapping(0x1000, 0x2000, 0, "/gone/program", build_id))
    profile.samples.add([profile.location(1, 0x1800)], [4])
    archives = tmp_path / "archives"
    archives.mkdir()
    binaries = Locator(cache=Cache(tmp_path / "cache"), archive_dirs=[archives], dirs=[tmp_path])
    with binaries:
        reports = profiles.name(profile, binaries)
    assert [report.named > 0 for report in reports] == [True, False]
    assert next(iter(reports[1].missing)).reason is Reason.NO_FILE
    assert text(coverage(profile, reports))


def test_gos_build_id_is_compared_in_either_form() -> None:
    assert len(GO_ID.encode().hex()) == 166
    one = Candidate("app", "given", ("ab" * 20, GO_ID))
    assert one.is_of(Wanted(GO_ID.encode().hex(), "/bin/app"))
    assert one.is_of(Wanted(GO_ID, "/bin/app"))
    assert one.is_of(Wanted("AB" * 20, "/bin/app"))
    assert not one.is_of(Wanted(GO_ID.replace("k", "x").encode().hex(), "/bin/app"))


def test_a_profiles_mapping_is_a_mapping_of_a_process() -> None:
    mapping = Mapping(0x400000, 0x500000, 0x1000, "/bin/app", "ab12")
    assert isinstance(mapping, procmap.Mapping)
    assert mapping == procmap.Mapping("/bin/app", 0x400000, 0x500000, 0x1000, "ab12")
    assert (mapping.end, mapping.size, mapping.extent) == (0x500000, 0x100000, (0x1000, 0x101000))
    assert mapping.file_offset_of(0x400010) == 0x1010
    assert pickle.loads(pickle.dumps(mapping)) == copy.copy(mapping) == mapping
    moved = mapping._replace(start=0x600000, limit=0x700000)
    assert (type(moved), moved.file_offset, moved.path) == (Mapping, 0x1000, "/bin/app")
    assert repr(mapping) == "<Mapping 0x400000-0x500000 r-xp 0x1000 /bin/app>"
