"""Columns and discriminators in archives, which are stored on request."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from array import array
from pathlib import Path

import pytest

from tests.forge.ranges import located
from tests.helpers.programs import compiled
from whence import lidia
from whence.lidia.layout import COLUMNS, DISCRIMINATORS
from whence.lidia.render import render_many
from whence.lidia.writer import to_bytes


def test_frames_have_the_columns_and_discriminators_of_lines_and_calls() -> None:
    with lidia.from_bytes(to_bytes(located()), crc=True) as archive:
        assert archive.verify() == []
        asked = [0x1000, 0x1004, 0x1019, 0x1030]
        chains = [archive.lookup(vaddr) for vaddr in asked]
        places = [[(f.function, f.line, f.column, f.discriminator) for f in chain] for chain in chains]
        assert places == [[("f", 3, 5, 0)], [("f", 3, 9, 2)], [("h", 7, 3, 0), ("g", 4, 17, 6)], []]
        many = archive.lookup_many(asked)
        assert list(many) == chains == list(pickle.loads(pickle.dumps(many)))
        assert list(many.column) == [5, 9, 3, 17]
        assert list(many[1:3].discriminator) == [2, 0, 6]
        assert many[2] == chains[2]
        assert render_many(archive, b"1004\n1019\n") == b"f\na.c:3:9\n\nh\nb.h:7:3\ng\na.c:4:17\n\n"
        answer = json.loads(render_many(archive, b"1019\n", "json"))
        assert [(frame["line"], frame["column"]) for frame in answer["frames"]] == [(7, 3), (4, 17)]


def test_discriminators_are_left_out_unless_requested() -> None:
    with lidia.from_bytes(to_bytes(located())) as archive:
        asked = array("Q", [0x1004, 0x1019])
        every, without = archive.find_frames(asked), archive.find_frames(asked, discriminators=False)
        assert list(every.discriminator) == [2, 0, 6]
        assert list(without.discriminator) == []
        assert list(without.column) == list(every.column) == [9, 3, 17]


@pytest.mark.parametrize(("largest", "width"), [(255, 1), (256, 2), (65536, 4), (0xFFFFFFFF, 4)])
def test_columns_are_as_wide_as_the_largest_needs(largest: int, width: int) -> None:
    for ranges in (located(columns=(largest, 9, largest, 9, 3)), located(call=largest)):
        with lidia.from_bytes(to_bytes(ranges)) as archive:
            assert archive.info().column_width == width
            result = [frame.column for vaddr in (0x1000, 0x1018) for frame in archive.lookup(vaddr)]
            assert largest in result


def test_entries_with_other_columns_are_not_shared() -> None:
    with lidia.from_bytes(to_bytes(located())) as archive:
        assert archive.header.lines.entries == 3
    with lidia.from_bytes(to_bytes(located(columns=(5, 9, 5, 8, 3)))) as archive:
        assert archive.header.lines.entries == 5
        assert archive.lookup(0x1014)[0].column == 8


def test_readers_that_do_not_know_the_chunk_answer_with_the_same_lines() -> None:
    data = to_bytes(located())
    with lidia.from_bytes(data) as archive:
        end = archive.header.end
        with lidia.from_bytes(data[:end]) as bare:
            for vaddr in range(0x1000, 0x1020):
                without = [frame._replace(column=0, discriminator=0) for frame in archive.lookup(vaddr)]
                assert [frame[:4] for frame in bare.lookup(vaddr)] == [frame[:4] for frame in without]


def test_archives_without_columns_or_lines_have_no_chunk_of_columns() -> None:
    plain = located()
    plain.columns = None
    for data in (to_bytes(plain), to_bytes(located(), lines=False), to_bytes(located(), compat="go")):
        assert COLUMNS not in data
        assert DISCRIMINATORS not in data
        with lidia.from_bytes(data) as archive:
            assert archive.source_columns(0) is None
            assert archive.info().column_width == 0


@pytest.mark.parametrize("tag", [COLUMNS, DISCRIMINATORS])
def test_a_damaged_chunk_is_reported_and_lookups_still_work(tag: bytes) -> None:
    data = to_bytes(located(), crc=False)
    offset = data.index(tag)
    size = int.from_bytes(data[offset + 8 : offset + 16], "little")
    broken = [data[: offset + 16] + bytes([change]) + data[offset + 17 :] for change in (0, 3, 200)]
    if tag == DISCRIMINATORS:
        broken = [data[: offset + 16 + 8] + bytes([9]) + data[offset + 16 + 9 :], *broken[2:]]
    for changed in broken:
        with lidia.from_bytes(changed) as archive:
            assert any(tag.decode() in problem for problem in archive.verify()), changed[offset:]
            assert [frame.line for frame in archive.lookup(0x1019)] == [7, 4]
    for cut in range(size):
        small = data[: offset + 8] + cut.to_bytes(8, "little") + data[offset + 16 :]
        with lidia.from_bytes(small) as archive:
            assert archive.verify()
            assert [frame.line for frame in archive.lookup(0x1019)] == [7, 4]


def command(*words: str | Path) -> str:
    made = [sys.executable, "-m", "whence.cli", *map(str, words)]
    return subprocess.run(made, capture_output=True, text=True, check=True).stdout


def test_create_stores_columns_on_request_and_dump_and_info_show_them(tmp_path: Path) -> None:
    path = compiled()
    with_columns, without = tmp_path / "with.lidia", tmp_path / "without.lidia"
    command("lidia", "create", path, "-o", with_columns, "--columns")
    command("lidia", "create", path, "-o", without)
    widths = [json.loads(command("lidia", "info", path, "--json"))["column_width"] for path in (with_columns, without)]
    assert widths == [1, 0]
    assert command("lidia", "verify", with_columns).endswith("structure and checksums are valid\n")
    shown = command("lidia", "dump", with_columns)
    assert " line 3 column 75\n" in shown
    assert "column" not in command("lidia", "dump", without)
    ranges = [json.loads(line) for line in command("lidia", "dump", with_columns, "--json").splitlines()]
    assert all(len(entry["columns"]) == len(entry["lines"]) for entry in ranges)
    assert any(entry["call_column"] for entry in ranges)
    assert "columns" not in command("lidia", "dump", without, "--json")
