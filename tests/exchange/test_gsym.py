"""GSYM files: versions 1 and 2 read, version 1 written, and damage."""

from __future__ import annotations

import io
import json
import random
import re
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import whence
from tests.exchange.conftest import Runner
from tests.forge.elf import Section, Segment, build_id_note, forge
from tests.forge.gsym import IDENTITY, Function, Gsym, Inlined, example
from tests.forge.mutations import mutated
from tests.helpers.programs import compiled
from whence import lidia
from whence._base.errors import GsymError, WhenceError
from whence._base.options import ReadOptions
from whence.conversion import convert, format_of
from whence.exchange.gsym import write_gsym
from whence.objects.gsym import GsymFile
from whence.producers import Producers
from whence.ranges import Ranges, StringSpace
from whence.ranges.flatten import flatten


def chain(binary: whence.Binary, vaddr: int) -> list[tuple[str, str, int]]:
    return [(frame.function, frame.file, frame.line) for frame in binary.lookup(vaddr)]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_functions_lines_and_calls_are_read(version: int, order: str, width: int) -> None:
    with whence.open(example(version, order, width).pack()) as binary:
        assert binary.build_id == IDENTITY.hex()
        assert chain(binary, 0x1000) == [("main", "/src/main.c", 10)]
        assert chain(binary, 0x1008) == [("main", "/src/main.c", 11)]
        assert chain(binary, 0x1010) == [
            ("inner", "inner.h", 111),
            ("outer", "inner.h", 71),
            ("main", "/src/main.c", 12),
        ]
        assert chain(binary, 0x1015) == [("outer", "inner.h", 111), ("main", "/src/main.c", 12)]
        assert chain(binary, 0x1016)[0][0] == "inner"
        assert chain(binary, 0x1020) == [("main", "/src/main.c", 21)]
        assert chain(binary, 0x1047) == [("plain", "", 0)]
        assert chain(binary, 0x1048) == []
        assert chain(binary, 0x105F) == [("endless", "", 0)]  # a size of 0 means up to the next function
        assert not binary.problems


def test_one_address_reads_what_all_addresses_read() -> None:
    data = example().pack()
    with whence.open(data) as first, whence.open(data) as full:
        table = full.table()
        for vaddr in range(0xFFF, 0x1066):
            with whence.open(data) as first:
                assert first.lookup(vaddr) == table.lookup(vaddr)


def test_the_source_of_names_is_gsym() -> None:
    with whence.open(example().pack()) as binary:
        assert binary.lookup(0x1000)[0].source == "gsym"


def rewritten(data: bytes) -> bytes:
    out = io.BytesIO()
    with GsymFile.from_bytes(data) as file, Producers(file) as producers:
        table = producers.ranges()
        write_gsym(flatten(table), table.strings, out, build_id=file.build_id)
    return out.getvalue()


def test_what_is_written_is_read_again() -> None:
    first = rewritten(example(2, "big").pack())
    assert first == rewritten(first)
    with whence.open(example().pack()) as old, whence.open(first) as new:
        assert new.build_id == old.build_id
        for vaddr in range(0xFFF, 0x1066):
            assert chain(old, vaddr) == chain(new, vaddr)


def test_functions_far_apart_have_wide_offsets() -> None:
    builder = lidia.Builder()
    for vaddr in (0x1000, 0xFFFF_FFFF_8000_0000):
        builder.add(vaddr=vaddr, length=16, function=f"f{vaddr:x}", file="a.c", line_table=[(0, 70_000), (9, 3)])
    table, out = builder.ranges(), io.BytesIO()
    counts = write_gsym(flatten(table), table.strings, out)
    assert (counts.functions, counts.lines) == (2, 4)
    with whence.open(out.getvalue()) as binary:
        assert chain(binary, 0xFFFF_FFFF_8000_0008) == [("fffffffff80000000", "a.c", 70_000)]
        assert chain(binary, 0x100F) == [("f1000", "a.c", 3)]


def test_the_parts_of_a_function_that_files_cut_are_one_function() -> None:
    builder = lidia.Builder()
    builder.add(vaddr=0x1000, length=8, function="f", file="a.c", line_table=[(0, 1)])
    builder.add(vaddr=0x1008, length=8, function="f", file="a.h", line_table=[(0, 2)])
    builder.add(vaddr=0x1010, length=8, function="f", file="a.c", line_table=[(0, 3)])
    builder.add(vaddr=0x1018, length=8, function="g", file="a.c", line_table=[(0, 4)])
    builder.add(vaddr=0x1020, length=8, function="g", file="a.c", line_table=[(0, 5)])
    flat = flatten(builder.ranges())
    assert list(flat.scope_ends) == [1, 2, 3]  # no file changes between the last two, so both are functions
    assert list(flat.scopes.vaddr) == [0x1000, 0x1018, 0x1020]
    assert list(flat.rows.line) == [1, 2, 3, 4, 5]


def test_names_are_compared_by_their_text() -> None:
    space = StringSpace()
    first, second = (space.ref(space.add(b"\0f\0a.c\0"), 0) for _ in range(2))  # as two threads have them
    table = Ranges(space)
    for vaddr, names, line in ((0x1000, first, 3), (0x1008, second, 3)):
        table.vaddr.append(vaddr)
        table.length.append(8)
        table.function.append(names + 1)
        table.file.append(names + 3)
        table.line_index.append(len(table.line_offset))
        table.line_count.append(1 if vaddr == 0x1000 else 0)
        table.line_offset.append(0)
        table.line_number.append(line)
        for column in (table.depth, table.call_line, table.source, table.call_file):
            column.append(0)
    flat = flatten(table)
    assert len(flat) == 1  # a part without lines
    assert [space.text(ref) for ref in flat.rows.files] == ["", "a.c"]


def test_a_line_applies_again_after_a_call() -> None:
    builder = lidia.Builder()
    builder.add(vaddr=0x1000, length=32, function="f", file="a.c", line_table=[(0, 1)])
    builder.add(vaddr=0x1008, length=8, function="g", file="b.c", line_table=[(0, 7)], depth=1, call_line=1)
    flat = flatten(builder.ranges())
    assert list(zip(flat.rows.vaddr, flat.rows.line, strict=True)) == [(0x1000, 1), (0x1008, 7), (0x1010, 1)]
    assert list(flat.scopes.depth) == [0, 1]


# damage


def broken(offset: int, code: str, value: int) -> bytes:
    data = bytearray(example().pack())
    struct.pack_into("<" + code, data, offset, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"MYSG", "truncated"),
        (example().pack()[:47], "header+0x0: truncated: needs 48 bytes"),
        (broken(4, "H", 3), "version 3, expected 1 or 2"),
        (broken(6, "B", 3), "an address offset has 3 bytes"),
        (broken(7, "B", 21), "the UUID has 21 bytes"),
        (broken(16, "I", 1 << 31), "address offsets"),
        (broken(20, "I", 1 << 31), "strings"),
        (broken(24, "I", 1 << 31), "strings"),
        (broken(80, "I", 1 << 31), "files"),
        (example(2).pack()[:30], "section table"),
    ],
)
def test_a_malformed_header_says_what_is_wrong(data: bytes, message: str) -> None:
    with pytest.raises(GsymError, match=re.escape(message)):
        GsymFile.from_bytes(data)


def test_a_missing_section_of_version_2_is_reported() -> None:
    data = bytearray(example(2).pack())
    struct.pack_into("<I", data, 20 + 20, 99)
    with pytest.raises(GsymError, match=r"the strings \(section 3\) are missing"):
        GsymFile.from_bytes(bytes(data))


def damaged(function: Function) -> whence.Binary:
    """A file with a damaged function between two good ones."""
    around = [Function(0x1000, 8, "before"), function, Function(0x1020, 8, "after")]
    return whence.open(Gsym(around, [("", "a.c")]).pack())


@pytest.mark.parametrize(
    "function",
    [
        Function(0x1010, 8, "f", lines=[("special", 8), ("pc", 1 << 70)]),
        Function(0x1010, 8, "f", lines=[("special", 8)], deltas=(0, -1)),
        Function(0x1010, 8, "f", lines=[("special", 8)], deltas=(-(1 << 63), (1 << 63) - 1)),
        Function(0x1010, 8, "f", calls=[Inlined("g", [(0, 4)], 1, 1, [Inlined("h", [(0, 1)] * 9)])], end=False),
        Function(0x1010, 8, "f", more=[(1, b"\x80")]),
        Function(0x1010, 8, "f", more=[(1, b"")]),
        Function(0x1010, 8, "f", more=[(2, b"\xff" * 12)]),
        Function(0x1010, 8, "f", more=[(2, b"\1\0\1\1\0\0\0\0\0\0" * 300)]),
        Function(0x1010, 8, "f", end=False),
    ],
)
def test_a_damaged_function_keeps_its_name(function: Function) -> None:
    with damaged(function) as binary:
        assert [binary.lookup(vaddr)[-1].function for vaddr in (0x1001, 0x1011, 0x1021)] == ["before", "f", "after"]


def test_damaged_functions_are_counted() -> None:
    with damaged(Function(0x1010, 8, "f", more=[(1, b"\x80")])) as binary:
        binary.table()
        assert "1 malformed function" in binary.problems[0]


def test_calls_without_end_cost_no_more_than_the_file() -> None:
    deep = Inlined("g", [(0, 8)])
    for _ in range(400):
        deep = Inlined("g", [(0, 8)], 1, 1, [deep])
    with damaged(Function(0x1010, 8, "f", calls=[deep])) as binary:
        assert binary.lookup(0x1011)[-1].function == "f"
        assert len(binary.lookup(0x1011)) <= 256


def test_functions_that_share_an_info_cost_a_constant_times_the_file() -> None:
    lines = [("special", 8 + 15)] * 4000
    gsym = Gsym([Function(0x1000 + 8 * index, 8, "f", lines=lines if not index else ()) for index in range(4000)])
    data = bytearray(gsym.pack())
    table = 48 + 4 * 4000
    first = struct.unpack_from("<I", data, table)[0]
    struct.pack_into("<4000I", data, table, *[first] * 4000)
    with whence.open(bytes(data)) as binary:
        assert len(binary.table()) <= 4000


def test_every_truncation_is_an_error_or_an_answer() -> None:
    for version in (1, 2):
        data = example(version).pack()
        for size in range(len(data)):
            try:
                with whence.open(data[:size]) as binary:
                    binary.table()
            except WhenceError:
                pass


def test_mutations_are_errors_or_answers() -> None:
    dice = random.Random(36)
    seeds = [example(1).pack(), example(2, "big").pack(), rewritten(example().pack())]
    for _ in range(1500):
        try:
            data = mutated(dice.choice(seeds), dice)
            with GsymFile.from_bytes(data) as file, Producers(file) as producers:
                table = producers.ranges()
                if len(flatten(table)):
                    write_gsym(flatten(table), table.strings, io.BytesIO())
        except WhenceError:
            pass


# commands


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "app.gsym"
    path.write_bytes(example().pack())
    return path


def test_commands_read_it(run: Runner, file: Path, tmp_path: Path) -> None:
    assert "outer" in run("addr", file, "0x1010").stdout
    listed = run("symbols", "--json", file).stdout.splitlines()
    assert json.loads(listed[0]) == {"address": "0x1000", "size": 64, "source": "gsym", "name": "main"}
    assert len(listed) == 4
    assert "+ GSYM" in run("explain", file, "0x1010").stdout
    assert run("build-id", file).stdout.startswith(IDENTITY.hex())
    archive = tmp_path / "app.lidia"
    assert run("lidia", "create", file, "-o", archive).returncode == 0
    with lidia.open(archive) as table:
        assert table.about.build_id == IDENTITY.hex()
        assert table.lookup(0x1010)[1].function == "outer"


def test_a_stripped_program_is_completed_by_it(run: Runner, file: Path, tmp_path: Path) -> None:
    program = tmp_path / "app"
    text = Section(".text", bytes(0x66), flags=6, vaddr=0x1000, align=16)
    program.write_bytes(forge([text, build_id_note(IDENTITY.hex(), "little")], [Segment(of=".text")]))
    done = run("addr", program, "0x1010", "--binary", file)
    assert "outer" in done.stdout, done.stderr
    done = run("addr", program, "0x1010", "--debug-dir", file.parent)
    assert "outer" in done.stdout, done.stderr


def test_convert_makes_each_format_of_each(run: Runner, file: Path, tmp_path: Path) -> None:
    archive, again, packed = tmp_path / "a.lidia", tmp_path / "again.gsym", tmp_path / "b.lidia.gz"
    assert run("convert", file, "-o", archive).returncode == 0
    assert run("convert", archive, "-o", packed).returncode == 0
    done = run("convert", packed, "-o", again, "-v")
    assert "not stored  columns" in done.stdout
    assert again.read_bytes() == rewritten(file.read_bytes())


def test_convert_prints_a_summary_as_json(run: Runner, file: Path, tmp_path: Path) -> None:
    done = run("convert", file, "--json", "--to", "gsym", "-o", tmp_path / "out")
    summary = json.loads(done.stdout)
    assert (summary["format"], summary["functions"], summary["inlined"]) == ("gsym", 4, 3)
    assert summary["size"] == (tmp_path / "out").stat().st_size


def test_convert_refuses_another_ending_and_its_own_input(run: Runner, file: Path, tmp_path: Path) -> None:
    done = run("convert", file, "-o", tmp_path / "a.txt")
    assert done.returncode == 2
    assert ".gsym" in done.stderr
    done = run("convert", file, "-o", file)
    assert done.returncode == 2
    assert file.read_bytes() == example().pack()
    with pytest.raises(WhenceError, match="ends in"):
        format_of("a.gsym.gz")


def test_nothing_is_written_for_a_file_that_names_nothing(run: Runner, tmp_path: Path) -> None:
    empty = tmp_path / "empty.gsym"
    empty.write_bytes(Gsym().pack())
    done = run("convert", empty, "-o", tmp_path / "out.gsym")
    assert done.returncode == 3
    assert not (tmp_path / "out.gsym").exists()


def test_output_does_not_depend_on_threads(tmp_path: Path) -> None:
    outputs = set()
    for index in range(10):
        out = tmp_path / f"{index}.gsym"
        convert(compiled(), out, options=ReadOptions(jobs=1 + index % 3))
        outputs.add(out.read_bytes())
    assert len(outputs) == 1


# oracle

GSYMUTIL = shutil.which("llvm-gsymutil-19") or shutil.which("llvm-gsymutil")
OFFSET = re.compile(r" \+ \d+(?= @|$)")


def llvm_frames(path: Path, vaddrs: Sequence[int]) -> list[str]:
    """The frames that llvm-gsymutil prints for each address, without offsets in inlined calls."""
    questions = "".join(f"{vaddr:#x} {path}\n" for vaddr in vaddrs)
    done = subprocess.run(
        [str(GSYMUTIL), "--addresses-from-stdin"], input=questions, capture_output=True, text=True, check=True
    )
    answers = [block for block in done.stdout.strip("\n").split("\n\n") if block]
    return [OFFSET.sub("", re.sub(r"^0x[0-9a-f]+: *|^ +", "", block, flags=re.MULTILINE)) for block in answers]


def our_frames(binary: whence.Binary, vaddrs: Sequence[int]) -> list[str]:
    answers = []
    for frames in binary.lookup_many(vaddrs).chains():
        inlined = [" [inlined]"] * (len(frames) - 1) + [""]
        lines = [
            f"{frame.function} @ {frame.file}:{frame.line}{mark}" if frame.line or frame.file else frame.function
            for frame, mark in zip(frames, inlined, strict=True)
        ]
        answers.append("\n".join(lines))
    return answers


@pytest.mark.skipif(GSYMUTIL is None, reason="llvm-gsymutil is not installed (Debian: llvm-19)")
def test_llvm_names_each_address_alike_in_its_file_and_in_ours(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.gsym", tmp_path / "theirs.gsym"
    convert(compiled(), ours)
    subprocess.run([str(GSYMUTIL), f"--convert={compiled()}", "-o", str(theirs)], capture_output=True, check=True)
    done = subprocess.run([str(GSYMUTIL), "--verify", str(ours)], capture_output=True, text=True, check=True)
    assert "error" not in done.stdout + done.stderr
    with whence.open(ours) as binary, whence.open(theirs) as other:
        functions = [entry for entry in binary.functions() if not entry.function.endswith("@plt")]  # no symbols
        vaddrs = [vaddr for entry in functions for vaddr in range(entry.vaddr, entry.end)]
        frames = llvm_frames(ours, vaddrs)
        assert len(vaddrs) == len(frames) > 100
        assert frames == llvm_frames(theirs, vaddrs) == our_frames(binary, vaddrs) == our_frames(other, vaddrs)
