"""Cores unwound by archives alone, and the chunk that makes it possible."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import whence
from tests.helpers.cores import PROGRAM, core_of
from tests.helpers.live import compiled
from tests.helpers.survive import survives
from whence import lidia
from whence._base.errors import LidiaError
from whence.lidia.unwind import UnwindTable, pack_unwind, read_unwind
from whence.locator.locator import Locator
from whence.symbolize.symbolizer import Symbolizer
from whence.unwind import End

TABLES = (UnwindTable(".eh_frame", 0x1000, b"one"), UnwindTable(".debug_frame", 0, b"other"))


def pcs(stack: whence.Stack) -> list[int]:
    return [frame.pc for frame in stack.frames]


@pytest.mark.parametrize("options", [("-O2", "-g"), ("-O2", "-g", "-fno-asynchronous-unwind-tables")])
def test_a_core_is_unwound_by_archives_where_the_binaries_are_gone(options: tuple[str, ...], tmp_path: Path) -> None:
    program = compiled(tmp_path, "-pthread", "-Wl,--build-id", "-static", *options, source=PROGRAM)
    core = whence.Core(core_of(program, "d"))
    expected = core.stacks()
    with_tables, without = tmp_path / "with", tmp_path / "without"
    for folder, unwind in ((with_tables, True), (without, False)):
        folder.mkdir()
        lidia.create(program, folder / "program.lidia", unwind=unwind)
    shutil.move(program, tmp_path / "elsewhere.gone")

    def found(folder: Path) -> list[whence.Stack]:
        with Symbolizer(locator=Locator(files=[folder / "program.lidia"], dirs=[])) as symbolizer:
            return core.stacks(symbolizer)

    assert [pcs(stack) for stack in found(with_tables)] == [pcs(stack) for stack in expected]
    assert all(stack.end is End.COMPLETE for stack in found(with_tables))
    assert "--unwind" in found(without)[0].detail
    names = [frame.place.frames[0].function for frame in found(with_tables)[0].frames if frame.place.frames]
    assert "deep" in names


def test_archives_without_the_option_are_unchanged(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    lidia.create(program, tmp_path / "plain")
    lidia.create(program, tmp_path / "unwound", unwind=True)
    plain, unwound = (tmp_path / "plain").read_bytes(), (tmp_path / "unwound").read_bytes()
    assert b"UNWD" not in plain
    assert len(unwound) > len(plain)
    with lidia.open(tmp_path / "unwound") as table:
        kept = table.unwind()
        assert kept is not None
        assert [each.name for each in kept.tables] == [".eh_frame"]
        assert table.verify() == []
    with lidia.open(tmp_path / "plain") as table:
        assert table.unwind() is None


def test_the_chunk_round_trips() -> None:
    data = pack_unwind(62, 64, False, 0x2000, TABLES)
    result = read_unwind(memoryview(data))
    assert (result.machine, result.bits, result.big, result.text_vaddr) == (62, 64, False, 0x2000)
    assert [(each.name, each.vaddr, bytes(each.data)) for each in result.tables] == [
        (each.name, each.vaddr, bytes(each.data)) for each in TABLES
    ]


def test_a_damaged_chunk_is_rejected_or_read() -> None:
    data = pack_unwind(62, 64, False, 0x2000, TABLES)
    for size in range(len(data)):
        with pytest.raises(LidiaError):
            read_unwind(memoryview(data[:size]))
    for index in range(len(data)):
        for value in (0, 1, 0x7F, 0xFF):
            broken = memoryview(data[:index] + bytes([value]) + data[index + 1 :])
            survives(lambda broken=broken: read_unwind(broken), refused=LidiaError)
