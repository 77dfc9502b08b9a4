"""Frame data of 32-bit x86: rows of each form, programs, minidumps unwound by it, and real programs."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from tests.forge.frame_data import BY_SIZE, MODULE, ROWS, forged, old_row, row
from tests.forge.minidump import Dump, Module, Thread, context, rsds
from tests.forge.mutations import mutated
from tests.forge.pdb import GUID, Pdb
from tests.helpers.emulation import emulated, frame_program
from whence._base.errors import WhenceError
from whence.objects.breakpad import BreakpadFile
from whence.objects.machines import EM_386
from whence.objects.opening import open_object
from whence.objects.pdb import PdbFile, layout
from whence.symbolize import Core, Symbolizer
from whence.unwind import End
from whence.unwind.frame_data import Epilogue, FrameData, FrameKind, FrameTable, read_epilogue, run_program

BASE = 0x400000
STACK = 0x100000


def table_of(content: bytes) -> FrameTable:
    table = FrameTable.of_file(PdbFile.from_bytes(content))
    assert table is not None
    return table


def test_the_innermost_row_counts() -> None:
    table = table_of(forged(ROWS))
    starts = {rva: None if (data := table.find(rva)) is None else data.start for rva in range(0x1000, 0x1150, 4)}
    assert starts[0x100C] is None
    assert [starts[rva] for rva in (0x1010, 0x1040, 0x1044, 0x107C, 0x1080)] == [0x1010, 0x1040, 0x1044, 0x1044, 0x1080]
    assert [starts[rva] for rva in (0x10C0, 0x1100, 0x1140)] == [None, 0x1100, None]


def test_rows_need_not_be_sorted() -> None:
    sorted_, other = table_of(forged(ROWS)), table_of(forged(ROWS[::-1]))
    for rva in range(0x1000, 0x1200):
        first, second = sorted_.find(rva), other.find(rva)
        assert (first and first._replace(offset=0)) == (second and second._replace(offset=0))


def test_rows_of_sizes_are_used_where_no_program_is() -> None:
    table = table_of(forged(ROWS))
    leaf, old = table.find(0x1018), table.find(0x1104)
    assert leaf is not None
    assert leaf.kind is FrameKind.PROGRAM
    assert old == FrameData(0x1100, 0x1140, 0, 4, 8, 8, FrameKind.FPO, "", True, "FPO", 16)
    assert old.effective.startswith("$ebp .raSearch")


def test_stack_win_records_and_archives_have_the_same_rows() -> None:
    table = table_of(forged(ROWS))
    text = MODULE + "\n".join(table.records())
    records = FrameTable.of_file(BreakpadFile.from_bytes(text.encode()))
    stored = FrameTable.of_archive(memoryview(table.packed()), 0)
    assert records is not None
    assert stored is not None
    for rva in range(0x1000, 0x1200):
        data, read, kept = table.find(rva), records.find(rva), stored.find(rva)
        assert (data is None, read is None) == (read is None, kept is None)
        if data is not None and read is not None and kept is not None:
            assert data[:9] == read[:9]
            assert (data[:6], data.effective) == (kept[:6], kept.effective)


def test_other_machines_have_no_frame_data() -> None:
    assert FrameTable.of_file(PdbFile.from_bytes(Pdb(further={layout.NEW_FPO: ROWS[0]}).forge())) is None
    assert FrameTable.of_file(BreakpadFile.from_bytes(MODULE.encode())) is None


# programs


@pytest.mark.parametrize(
    ("program", "eip"),
    [
        ("$eip 16 =", 16),
        ("$eip $esp 4 + ^ =", 0x1004),
        ("$T0 $esp 100 + = $eip $T0 16 @ =", 96),
        ("$eip 7 2 / 7 2 % + 5 * 1 - =", 19),
        ("$eip 0 4 - =", 0xFFFFFFFC),
        ("$eip -4 =", 0xFFFFFFFC),
        ("$L .cbLocals = $eip $L =", 12),
        ("$T0 $21 16 + =$eip $T0 4 + =  $23 $T0 =", 20),
    ],
)
def test_programs_assign_variables(program: str, eip: int) -> None:
    result = run_program(program, {"$esp": 0, ".cbLocals": 12}, lambda address: 0x1000 + address)
    assert result is not None
    assert result["$eip"] == eip


@pytest.mark.parametrize(
    "program",
    ["$eip", "=", "$eip --4 =", "$eip 4 = = =", "$eip =", "4 5 =", "$eip $unknown =", "$eip 1 0 / =", "$eip 1 0 % =",
     "+", "$eip ^ ^", "$eip nonsense =", "$eip 12345678901 =", "$eip \u0664 =", "$a " * 65, "$a $esp = " * 300],
)  # fmt: skip
def test_malformed_programs_are_not_used(program: str) -> None:
    assert run_program(program, {"$esp": 0}, lambda address: address) is None


@pytest.mark.parametrize(
    ("code", "epilogue"),
    [
        ("c3", Epilogue(False, 0, {})),
        ("c20800", Epilogue(False, 0, {})),
        ("83c40c 5e 5f c3", Epilogue(False, 20, {6: 12, 7: 16})),
        ("81c400010000 5b c3", Epilogue(False, 260, {3: 256})),
        ("c9 c3", Epilogue(True, 4, {5: 0})),
        ("89ec 5d c3", Epilogue(True, 4, {5: 0})),
        ("8d65f4 5e 5f 5b 5d c3", Epilogue(True, 4, {6: -12, 7: -8, 3: -4, 5: 0})),
        ("5e e900000000", Epilogue(False, 4, {6: 0})),
        ("e900000000", None),
        ("5e 89c8 c3", None),
        ("5c c3", None),
        ("", None),
        ("83c4", None),
    ],
)
def test_epilogues_are_read(code: str, epilogue: Epilogue | None) -> None:
    assert read_epilogue(bytes.fromhex(code)) == epilogue


# minidumps


def stack_of(tmp_path: Path, pdb: bytes, words: dict[int, int], *, eip: int = 0x1018, **registers: int) -> list[str]:
    """The functions of a thread's stack and how each was found, then why it ends; `words` are by offset from esp."""
    (tmp_path / "app.pdb").write_bytes(pdb)
    stack = bytearray(0x400)
    for offset, value in words.items():
        struct.pack_into("<I", stack, offset, value)
    values = {"eip": BASE + eip, "esp": STACK, "ebp": 0, **registers}
    thread = Thread(1, context(values, EM_386), STACK, bytes(stack))
    module = Module(BASE, 0x9000, "C:\\app.exe", rsds("app.pdb", GUID))
    (tmp_path / "app.dmp").write_bytes(Dump(modules=[module], threads=[thread], cpu=0, platform=2).build())
    with Symbolizer(binaries=[str(tmp_path / "app.pdb")]) as symbolizer:
        (result,) = Core(tmp_path / "app.dmp").stacks(symbolizer)
    return [*(f"{frame.place.frames[0].function} {frame.found_by}" for frame in result.frames), result.end.value]


IN_CALLER, IN_START = BASE + 0x1060, BASE + 0x1090
EXPECTED = ["leaf registers", "caller frame-data", "start frame-data", "complete"]


def test_parameters_of_the_callee_are_below_the_callers_frame(tmp_path: Path) -> None:
    # return address of leaf; its two arguments; 16 bytes of locals; ebp; return address of caller; frame of start
    words = {0: IN_CALLER, 4: 1, 8: 2, 28: STACK + 0x80, 32: IN_START, 0x80: 0, 0x84: 0}
    assert stack_of(tmp_path, forged(ROWS), words) == EXPECTED


def test_arguments_pushed_for_a_later_call_are_skipped(tmp_path: Path) -> None:
    words = {0: IN_CALLER, 4: 1, 8: 2, 12: 3, 16: 4, 36: STACK + 0x80, 40: IN_START, 0x80: 0, 0x84: 0}
    program = row(0x1044, 0x3C, BY_SIZE, local=16, saved=4)
    result = stack_of(tmp_path, forged([ROWS[0], program, ROWS[4]]), words, ebp=STACK + 0x80)
    assert result == EXPECTED


def test_frames_with_sizes_only_are_unwound(tmp_path: Path) -> None:
    old = [old_row(0x1010, 0x20, params=8), old_row(0x1040, 0x40, local=16, saved=4)]
    words = {0: IN_CALLER, 32: IN_START, 0x80: 0, 0x84: 0}
    assert stack_of(tmp_path, forged([ROWS[4]], old), words, ebp=STACK + 0x80) == EXPECTED


def test_a_saved_base_pointer_is_restored_by_sizes(tmp_path: Path) -> None:
    old = [old_row(0x1010, 0x20, params=8), old_row(0x1040, 0x40, local=16, saved=8, bits=1 << 12)]
    words = {0: IN_CALLER, 12: STACK + 0x80, 36: IN_START, 0x80: 0, 0x84: 0}
    assert stack_of(tmp_path, forged([ROWS[4]], old), words) == EXPECTED


def test_programs_that_lead_nowhere_are_not_used(tmp_path: Path) -> None:
    words = {0: 0x99999999, 4: IN_CALLER}
    assert stack_of(tmp_path, forged(ROWS), words)[:2] == ["leaf registers", "caller frame-data"]  # by the search
    assert stack_of(tmp_path, forged(ROWS), {0: 0x99999999}) == ["leaf registers", End.NO_CFI.value]


# real programs


@pytest.mark.parametrize("flags", ["-O0", "-O1", "-O2"])
def test_every_caller_of_a_run_is_right(flags: str) -> None:
    report = emulated(frame_program(flags))
    assert (report.wrong, report.shown) == (0, [])
    assert report.steps > 1000
    assert report.complete > 150
    assert report.found_by["frame-data"] > report.steps * 0.8


def test_records_are_those_of_symbolic() -> None:
    symbolic = pytest.importorskip("symbolic")
    path = frame_program("-O2").with_suffix(".pdb")
    archive = symbolic.Archive.open(str(path))
    text = next(archive.iter_objects()).make_cficache().open_stream().read().decode()
    theirs = [line.split(None, 12) for line in text.splitlines() if line.startswith("STACK WIN 4")]
    with open_object(path) as pdb:
        table = FrameTable.of_file(pdb)
        assert table is not None
        ours = [line.split(None, 12) for line in table.records()]
    picked = (2, 3, 4, 5, 7, 8, 9, 11, 12)  # not the largest stack
    assert sorted([each[index] for index in picked] for each in ours) == sorted(
        [each[index] for index in picked] for each in theirs
    )
    assert len(ours) > 40


# damage


def test_mutated_files_give_rows_or_none() -> None:
    content, chosen = forged(ROWS), random.Random(37)
    for index in range(300):
        try:
            table = FrameTable.of_file(PdbFile.from_bytes(mutated(content, chosen)))
        except WhenceError:
            continue
        if table is not None:
            for rva in range(0x1000, 0x1200, 16):
                table.find(rva)
            assert len([*table.records()]) <= len(table), index
            FrameTable.of_archive(memoryview(table.packed()), 0)
