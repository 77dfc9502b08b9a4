"""Programs that were rearranged after linking (OMAP)."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

import whence
from tests.forge.frame_data import ROWS, forged
from tests.forge.pdb import (
    CHECKSUM,
    FIRST,
    TEXT,
    TEXT_FLAGS,
    Module,
    Pdb,
    annotate,
    checksums,
    function_id,
    inline_site,
    inlinees,
    lines,
    names_stream,
    omap,
    procedure,
    public,
    rearranged,
    section_header,
)
from tests.helpers.windows import program
from whence._base.source import Source
from whence.objects.pdb import PdbFile, layout
from whence.objects.pdb.omap import AddressMap
from whence.unwind.frame_data import FrameTable

FILES = ["a.c", "b.h"]
A, B = (names_stream(FILES)[1][name] for name in FILES)


def chain(binary: whence.Binary, vaddr: int) -> list[tuple[str, str, int]]:
    return [(frame.function, frame.file, frame.line) for frame in binary.lookup(vaddr)]


MOVED = [(0x1000, 0), (0x1010, 0x3100), (0x1018, 0x3040), (0x1030, 0), (0x1040, 0x3080), (0x1060, 0)]


def test_a_program_that_was_rearranged_after_linking_is_read_at_its_new_addresses() -> None:
    text = checksums([A, B]) + inlinees([(FIRST, CHECKSUM, 100)])
    text += lines(0x10, 0x20, [(0, 10), (0x10, 11)]) + lines(0x40, 0x20, [(0, 20)])
    site = inline_site(FIRST, annotate(("code", 4), ("length", 0x10)))
    symbols = procedure("f", 0x10, 0x20, site) + procedure("g", 0x40, 0x20)
    module = Module(symbols, text, [(1, 0x10, 0x50)])
    publics = public("?f@@YAXXZ", 0x10) + public("removed", 0x34)
    further = {layout.ORIGINAL_SECTIONS: section_header(*TEXT)}
    pdb = Pdb(
        modules=[module], ids=[function_id("low")], files=FILES, publics=publics, omap=omap(MOVED), further=further,
        sections=[(".text", 0x3000, 0x1000, TEXT_FLAGS)],
    )  # fmt: skip
    with whence.open(pdb.forge()) as binary:
        assert not binary.problems
        assert chain(binary, 0x3100) == [("f", "a.c", 10)]
        assert chain(binary, 0x3104) == [("low", "b.h", 100), ("f", "a.c", 10)]
        assert chain(binary, 0x3040) == [("low", "b.h", 100), ("f", "a.c", 10)]
        assert chain(binary, 0x304C) == [("f", "a.c", 11)]
        assert chain(binary, 0x3080) == [("g", "a.c", 20)]
        assert chain(binary, 0x3030) == chain(binary, 0x1010) == []
    with PdbFile.from_bytes(pdb.forge()) as file:
        symbols_ = file.symbols(".symtab")
        assert [symbols_.value[index] for index in range(1, len(symbols_))] == [0x3100, 0]


def test_damaged_omap_rows_are_sorted_and_bounded() -> None:
    address_map = AddressMap(omap([(0x30, 0x100), (0x10, 0x200), (0x20, 0), (0x40, 0xFFFFFFFF)]) + b"abc")
    assert [*address_map.moved(0, 0x50)] == [(0x200, 0x210), (0x100, 0x110), (0xFFFFFFFF, 0x10000000F)]
    assert (address_map.after(0x18), address_map.after(0x28)) == ((0x208, 8), (0, 0))
    assert (address_map.before(0x105), address_map.before(0x120)) == (0x35, None)
    many = omap([(index, index + 1) for index in range(20000)])
    text = checksums([A, B]) + lines(0, 0x7FFF, [(0, 1)])
    modules = [Module(procedure("f", 0, 0x7FFF), text) for _ in range(200)]
    with whence.open(Pdb(modules=modules, files=FILES, omap=many).forge()) as binary:
        assert len(binary.table()) < 200_000


def test_frame_data_moves_with_its_code() -> None:
    rows = [(0x1000, 0), (0x1010, 0x1110), (0x1030, 0), (0x1040, 0x1150), (0x1060, 0x1020), (0x1080, 0)]
    before = FrameTable.of_file(PdbFile.from_bytes(forged(ROWS)))
    after = FrameTable.of_file(PdbFile.from_bytes(rearranged(forged(ROWS), rows)))
    assert before is not None
    assert after is not None
    for rva, moved in ((0x1018, 0x1118), (0x1042, 0x1152), (0x1070, 0x1030)):
        first, second = before.find(rva), after.find(moved)
        assert first is not None
        assert second is not None
        assert (first.program, first.local, first.end - rva) == (second.program, second.local, second.end - moved)
    assert after.find(0x1018) is None
    starts = sorted(int(record.split()[3], 16) for record in after.records())
    assert starts == [0x1020, 0x1020, 0x1020, 0x1110, 0x1110, 0x1150, 0x1151, 0x1154]


def shuffled(
    text: range, cuts: list[int], dice: random.Random, removed: float
) -> tuple[list[tuple[int, int]], dict[int, int]]:
    """Rows of OMAP that shuffle the blocks between cuts of a section, and where each byte is then."""
    rows, moved, position = [], dict[int, int](), text.start
    blocks = [*pairwise([text.start, *cuts, text.stop])]
    for low, high in dice.sample(blocks, len(blocks)):
        is_removed = dice.random() < removed
        rows.append((low, 0 if is_removed else position))
        if not is_removed:
            moved.update({rva: position + rva - low for rva in range(low, high)})
            position += high - low
    return [*sorted(rows), (text.stop, 0)], moved


def rearranged_program(path: Path, flags: str, *, is_whole: bool) -> tuple[Path, dict[int, int]]:
    """Rearrange a program by functions, or by blocks of any size, some of them removed; return where each byte is."""
    original = program("x86_64", flags).with_suffix(".pdb")
    dice = random.Random(37)
    with PdbFile.open(original) as file:
        section = next(section for section in file.sections if section.executable)
        text = range(section.vaddr, section.vaddr + section.size)
        starts = sorted({value for value, _ in file.symbols(".symtab").functions() if value in text[1:]})
    cuts = starts if is_whole else sorted(dice.sample(text[1:], len(text) // 24))
    rows, moved = shuffled(text, cuts, dice, 0.0 if is_whole else 0.05)
    path.write_bytes(rearranged(original.read_bytes(), rows))
    return original, moved


@pytest.mark.parametrize("flags", ["-O0", "-O1"])
def test_shuffled_blocks_have_the_chains_of_their_code(tmp_path: Path, flags: str) -> None:
    original, moved = rearranged_program(tmp_path / "program.pdb", flags, is_whole=False)
    compared = 0
    with whence.open(original) as before, whence.open(tmp_path / "program.pdb") as after:
        assert not after.problems
        for rva, target in moved.items():
            frames = before.lookup(rva)
            if all(frame.source is Source.PDB for frame in frames):  # public symbols move only with their first block
                assert chain(after, target) == chain(before, rva)
                compared += len(frames) > 0
    assert compared > 6_000


@pytest.mark.parametrize("flags", ["-O0", "-O1"])
def test_shuffled_functions_have_the_chains_of_symbolic(tmp_path: Path, flags: str) -> None:
    symbolic = pytest.importorskip("symbolic")
    path = tmp_path / "program.pdb"
    original, moved = rearranged_program(path, flags, is_whole=True)
    table = next(symbolic.Archive.open(str(path)).iter_objects()).make_symcache()
    compared = 0
    with whence.open(original) as before, whence.open(path) as after:
        for rva, target in moved.items():
            if all(frame.source is Source.PDB for frame in before.lookup(rva)):
                ours = [(name, line) for _, name, line in chain(after, target)]
                assert ours == [(each.full_path, each.line) for each in table.lookup(target)]
                compared += len(ours) > 0
    assert compared > 6_000
