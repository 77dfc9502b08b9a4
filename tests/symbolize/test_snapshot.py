"""Snapshots: what is written is what is read, and a file answers only for its own build-id."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.forge.proc import Line, process
from tests.symbolize.test_symbolizer import ID, OTHER, Opener, mapped, program
from whence.errors import MapsError
from whence.procmap import Resolver
from whence.procmap.snapshot import Snapshot
from whence.symbolize import Reason, SnapshotSymbolizer, from_snapshot


def taken(root: Path, *lines: Line) -> Snapshot:
    (process(root, 7, lines) / "comm").write_text("app\n")
    with Resolver(root) as resolver:
        return Snapshot.take(7, resolver)


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    path = program(tmp_path / "a\udcffpp")
    snapshot = taken(
        tmp_path, mapped(path), mapped(path, 0x7100_0000), Line(0x8000_0000, 0x8000_1000, permissions="rwxs")
    )
    again = Snapshot.from_json(snapshot.to_json())
    assert (again.pid, again.command, again.start_time, again.taken) == (7, "app", 100, snapshot.taken)
    assert [m[:7] for m in again.mappings] == [m[:7] for m in snapshot.mappings]
    assert again.to_json() == snapshot.to_json()
    first, second, third = again.file_of
    assert first is second
    assert third is None
    assert first is not None
    assert first.mapper is not None
    assert first.build_id == ID


def test_addresses_are_named_after_the_process_is_gone(tmp_path: Path) -> None:
    path = program(tmp_path / "app")
    file = tmp_path / "snapshot.json"
    file.write_text(taken(tmp_path, mapped(path), Line(0x8000_0000, 0x8000_1000)).to_json())
    opener = Opener()
    with from_snapshot(file, opener=opener) as symbolizer:
        answers = symbolizer.answer([0x7000_0010, 0x7000_0011, 0x8000_0000, 0x10, 0x7000_0010])
    assert [a.frames[0].function if a.frames else a.reason for a in answers] == [
        "app@0x401010",
        Reason.NOT_IN_ARCHIVE,
        Reason.NOT_FILE_BACKED,
        Reason.UNMAPPED,
        "app@0x401010",
    ]
    assert opener.opened[0].closed


def test_another_file_under_the_old_name_does_not_answer(tmp_path: Path) -> None:
    path = program(tmp_path / "app")
    snapshot = taken(tmp_path, mapped(path))
    program(path, OTHER)
    with SnapshotSymbolizer(snapshot, opener=Opener()) as symbolizer:
        assert symbolizer.answer([0x7000_0010])[0].reason is Reason.BUILD_ID_MISMATCH
    path.unlink()
    with SnapshotSymbolizer(snapshot, opener=Opener()) as symbolizer:
        assert symbolizer.answer([0x7000_0010])[0].reason is Reason.NO_FILE


def test_a_file_without_a_build_id_answers_while_it_is_the_same(tmp_path: Path) -> None:
    path = program(tmp_path / "app", "")
    snapshot = Snapshot.from_json(taken(tmp_path, mapped(path)).to_json())
    with SnapshotSymbolizer(snapshot, opener=Opener()) as symbolizer:
        assert symbolizer.answer([0x7000_0010])[0].frames[0].function == "app@0x401010"
    path.write_bytes(path.read_bytes() + b"changed")
    with SnapshotSymbolizer(snapshot, opener=Opener()) as symbolizer:
        assert symbolizer.answer([0x7000_0010])[0].reason is Reason.NO_FILE


def test_an_archive_of_the_build_id_answers_where_the_binary_is_missing(tmp_path: Path) -> None:
    path = program(tmp_path / "app")
    snapshot = Snapshot.from_json(taken(tmp_path, mapped(path)).to_json())
    path.unlink()
    with SnapshotSymbolizer(snapshot, binaries={ID: "/elsewhere/archive"}, opener=Opener()) as symbolizer:
        assert symbolizer.answer([0x7000_0010])[0].frames[0].function == "archive@0x401010"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "\xff",
        '{"format": "whence-snapshot", "version": 2}',
        '{"format": "whence-snapshot", "version": 1}',
        "[" * 100_000,
    ],
)
def test_what_is_no_snapshot_is_a_maps_error(text: str) -> None:
    with pytest.raises(MapsError, match=r"maps snapshot: |not a snapshot: |the file is empty"):
        Snapshot.from_json(text)


def test_a_snapshot_that_is_too_large_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    huge.touch()
    os.truncate(huge, 1 << 40)
    monkeypatch.setattr("whence.procmap.snapshot.SIZE_LIMIT", 1 << 20)
    monkeypatch.setattr("whence.symbolize.snapshot.SIZE_LIMIT", 1 << 20)
    with pytest.raises(MapsError, match="it has at most 1 MiB"):
        from_snapshot(huge)
    with pytest.raises(MapsError, match="/dev/zero: a device, not a regular file"):
        from_snapshot("/dev/zero")


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("mappings", 0, "start"), "zz"),
        (("mappings", 0, "start"), "0x1ffffffffffffffff"),
        (("mappings", 0, "limit"), "-0x1"),
        (("mappings", 0, "file"), 9),
        (("mappings", 0, "file"), "x"),
        (("mappings", 0, "kind"), "strange"),
        (("mappings", 0, "permissions"), 3),
        (("files", 0, "segments"), 3),
        (("files", 0, "segments"), [["0x1"]]),
        (("files", 0, "stamp"), ["-1"]),
        (("files", 0, "path"), "\ud800"),
        (("files", 0, "path"), "/a\0b"),
        (("files",), None),
        (("pid",), "x"),
    ],
)
def test_a_damaged_field_is_a_maps_error(tmp_path: Path, where: tuple[str | int, ...], value: object) -> None:
    top = json.loads(taken(tmp_path, mapped(program(tmp_path / "app"))).to_json())
    at = top
    for step in where[:-1]:
        at = at[step]
    at[where[-1]] = value
    with pytest.raises(MapsError, match="fields of version 1"):
        Snapshot.from_json(json.dumps(top))
