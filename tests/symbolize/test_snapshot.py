"""Snapshots: what is written is what is read, and a file answers only for its own build-id."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.forge.elf import Symbol
from tests.forge.proc import Line, process
from tests.helpers.fakes import CODE_VADDR, ID, OTHER, FakeLocator, mapped, only, program
from whence._base.errors import MapsError
from whence.archive.create import create
from whence.locator.locator import Locator
from whence.procmap import Mapping, Resolver
from whence.procmap.snapshot import SnapshotMappings
from whence.symbolize import Process, Reason, Symbolized, Symbolizer
from whence.symbolize import Snapshot as Taken


def taken(root: Path, *lines: Line) -> SnapshotMappings:
    (process(root, 7, lines) / "comm").write_text("app\n")
    with Resolver(root) as resolver:
        return SnapshotMappings.take(7, resolver)


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    path = program(tmp_path / "a\udcffpp")
    snapshot = taken(
        tmp_path, mapped(path), mapped(path, 0x7100_0000), Line(0x8000_0000, 0x8000_1000, permissions="rwxs")
    )
    again = SnapshotMappings.from_json(snapshot.to_json())
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
    locator = FakeLocator()
    with Symbolizer(locator=locator) as symbolizer:
        answers = symbolizer.symbolize(Taken(file), [0x7000_0010, 0x7000_0011, 0x8000_0000, 0x10, 0x7000_0010])
    assert [a.frames[0].function if a.frames else a.reason for a in answers] == [
        "app@0x401010",
        Reason.NOT_IN_ARCHIVE,
        Reason.NOT_FILE_BACKED,
        Reason.UNMAPPED,
        "app@0x401010",
    ]
    assert locator.opened[0].closed


def first(snapshot: SnapshotMappings, **options: Any) -> Symbolized:
    """The answer for an address of the program, by a Locator with these options."""
    with Locator(**options) as locator, Symbolizer(locator=locator) as symbolizer:
        return only(symbolizer, Taken.of(snapshot), 0x7000_0010)


def test_another_file_under_the_old_name_does_not_answer(tmp_path: Path) -> None:
    path = program(tmp_path / "app")
    snapshot = taken(tmp_path, mapped(path))
    program(path, OTHER)
    assert first(snapshot).reason is Reason.BUILD_ID_MISMATCH
    path.unlink()
    assert first(snapshot).reason is Reason.NO_FILE


def test_a_file_without_a_build_id_answers_while_it_is_the_same(tmp_path: Path) -> None:
    path = program(tmp_path / "app", "")
    snapshot = SnapshotMappings.from_json(taken(tmp_path, mapped(path)).to_json())
    with Symbolizer(locator=FakeLocator()) as symbolizer:
        assert only(symbolizer, Taken.of(snapshot), 0x7000_0010).frames[0].function == "app@0x401010"
    path.write_bytes(path.read_bytes() + b"changed")
    assert first(snapshot).reason is Reason.NO_FILE


@pytest.mark.parametrize("option", ["files", "archive_dirs"])
def test_an_archive_of_the_build_id_answers_where_the_binary_is_missing(tmp_path: Path, option: str) -> None:
    path = program(tmp_path / "app")
    snapshot = SnapshotMappings.from_json(taken(tmp_path, mapped(path)).to_json())
    archive = tmp_path / "archives" / "any name.lidia"
    archive.parent.mkdir()
    create(program(path, symbols=[Symbol("main", CODE_VADDR, 0x20)]), archive)
    path.unlink()
    answer = first(snapshot, **{option: [archive if option == "files" else archive.parent]})
    assert [frame.function for frame in answer.frames] == ["main"]


def test_a_process_of_any_kind_is_named_by_its_mappings_and_build_ids(tmp_path: Path) -> None:
    """Any object with mappings() and build_id() can be named: a process, a snapshot, or an object made by hand."""
    path = program(tmp_path / "app", symbols=[Symbol("main", CODE_VADDR, 0x20)])
    process(tmp_path, 7, [mapped(path)])

    class Told:
        def mappings(self) -> list[Mapping]:
            return [Mapping(str(path), 0x7000_0000, 0x7000_1000, 0x1000)]

        def build_id(self, mapping: Mapping) -> str:
            return ID

    live = Process(7, proc_root=tmp_path)
    for view in (live, live.snapshot(), Told()):
        assert [view.build_id(mapping) for mapping in view.mappings()] == [ID]
        with Symbolizer(proc_root=tmp_path) as symbolizer:
            assert only(symbolizer, view, 0x7000_0010).frames[0].function == "main"


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
def test_a_file_that_is_not_a_snapshot_is_a_maps_error(text: str) -> None:
    with pytest.raises(MapsError, match=r"maps snapshot: |not a snapshot: |the file is empty"):
        SnapshotMappings.from_json(text)


def test_a_snapshot_that_is_too_large_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    huge.touch()
    os.truncate(huge, 1 << 40)
    monkeypatch.setattr("whence.procmap.snapshot.SIZE_LIMIT", 1 << 20)
    with pytest.raises(MapsError, match="more than 1 MiB"):
        Taken(huge)
    with pytest.raises(MapsError, match="/dev/zero: a device, not a regular file"):
        Taken("/dev/zero")


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
    offset = top
    for step in where[:-1]:
        offset = offset[step]
    offset[where[-1]] = value
    with pytest.raises(MapsError, match="invalid fields"):
        SnapshotMappings.from_json(json.dumps(top))
