"""Listings of compiled programs: instructions, lines, inlined calls, and what is missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import whence
from tests.helpers.programs import compiled
from whence._base.errors import ElfError, Mismatch, Unsupported
from whence.listing import ListedLine, Listing
from whence.listing.build import CODE_BYTES
from whence.listing.text import annotated, listed

pytest.importorskip("capstone")


@pytest.fixture(scope="module")
def program() -> Path:
    return compiled()


@pytest.fixture(scope="module")
def listing(program: Path) -> Listing:
    with whence.open(program) as binary:
        return binary.listing("sum")


def test_every_instruction_has_the_frames_of_a_lookup(program: Path, listing: Listing) -> None:
    assert next((each.vaddr, each.end) for each in listing.instructions)[0] == listing.spans[0][0]
    assert listing.instructions[-1].end == listing.spans[-1][1]
    with whence.open(program) as binary:
        for instruction in listing.instructions:
            assert instruction.frames == binary.lookup(instruction.vaddr)
    assert {len(each.frames) for each in listing.instructions} == {1, 2, 3}


def test_lines_of_inlined_calls_follow_the_line_of_their_call(listing: Listing) -> None:
    assert (listing.function, listing.line) == ("sum", 7)
    places = [(line.depth, line.function, line.line) for line in listing.lines]
    call = places.index((0, "sum", 10))
    assert places[call + 1 : call + 3] == [(1, "twice", 5), (2, "square", 3)]
    assert listing.lines[call].text == "        total += twice(i);"
    assert listing.lines[call].file.endswith("/program.c")


def test_calls_and_data_are_named(program: Path) -> None:
    with whence.open(program) as binary:
        main = binary.listing("main")
    names = {each.target_name for each in main.instructions if each.is_call}
    assert "sum" in names
    assert any(name.endswith(("@plt", "@got")) for name in names)
    references = [each for each in main.instructions if each.target and not each.is_call and not each.is_jump]
    assert any(each.target_name.startswith(".rodata") for each in references)


def test_the_text_has_source_lines_labels_and_origins(listing: Listing) -> None:
    text = str(listing)
    assert "        program.c:3 square (inlined) | static inline" in text
    assert "L1: " in text
    assert "<L1>" in text
    assert text.rstrip().endswith("program.c, from its own path")
    assert "<pre>sum at " in listing._repr_html_()
    assert "&lt;L1&gt;" in listing._repr_html_()
    raw = "\n".join(annotated(listing, raw_bytes=True))
    assert f"  {listing.instructions[0].code.hex(' ')} " in raw


def test_the_arrow_table_has_a_row_for_each_instruction(listing: Listing, program: Path) -> None:
    pytest.importorskip("pyarrow")
    table = listing.to_arrow()
    assert table.column("vaddr").to_pylist() == [each.vaddr for each in listing.instructions]
    assert set(table.column("function").to_pylist()) == {"sum", "twice", "square"}
    with whence.open(program) as binary:
        lines = binary.listing("sum", lines=True).to_arrow()
    assert lines.column("line").to_pylist() == [each.line for each in binary_lines(program)]


def binary_lines(program: Path) -> list[ListedLine]:
    with whence.open(program) as binary:
        return binary.listing("sum", lines=True).lines


def test_lines_need_no_code_and_are_those_of_the_instructions(listing: Listing, program: Path, tmp_path: Path) -> None:
    subprocess.run([shutil.which("objcopy") or pytest.skip("no objcopy"), "--only-keep-debug", program, tmp_path / "d"])
    with whence.open(tmp_path / "d") as binary:
        without = binary.listing("sum")
        assert not without.instructions
        assert without.notes == ["no instructions: the file has no code, give the executable"]
        assert [line[:4] for line in without.lines] == [line[:4] for line in listing.lines]
        assert binary.listing("sum", code=program).instructions == listing.instructions
    assert "program.c:10 |         total += twice(i);" in "\n".join(listed(without))


def test_a_vaddr_lists_its_function_and_a_range_only_its_code(listing: Listing, program: Path) -> None:
    inside = listing.instructions[3]
    with whence.open(program) as binary:
        assert binary.listing(inside.vaddr + 1).spans == listing.spans
        some = binary.listing(inside.vaddr, inside.end)
        assert [each[:8] for each in some.instructions] == [inside[:8]]
        with pytest.raises(LookupError, match="no function 'nothing'"):
            binary.listing("nothing")
        with pytest.raises(LookupError, match="vaddr 0x1 is in no function"):
            binary.listing(1)
        with pytest.raises(ElfError, match="no segment loads"):
            binary.listing(1 << 40, (1 << 40) + 4)


def test_parts_of_a_split_function_are_one_listing(tmp_path: Path) -> None:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not installed")
    source = "#include <stdlib.h>\nint main(int c, char **v) { if (c > 7) abort(); return c * 3; }\n"
    (tmp_path / "a.c").write_text(source)
    subprocess.run([gcc, "-O2", "-g", tmp_path / "a.c", "-o", tmp_path / "a"], check=True)
    with whence.open(tmp_path / "a") as binary:
        listing = binary.listing("main")
    if len(listing.spans) == 1:
        pytest.skip("this gcc does not split the function")
    starts = [each.vaddr for each in listing.instructions]
    assert {span[0] for span in listing.spans} <= set(starts)


def test_another_executable_is_refused(program: Path, tmp_path: Path) -> None:
    other = compiled("-O1")
    with whence.open(program) as binary, pytest.raises(Mismatch, match="the build-id is"):
        binary.listing("sum", code=other)


def test_relocatable_files_are_refused_with_a_remedy(tmp_path: Path) -> None:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not installed")
    (tmp_path / "a.c").write_text("int f(int x) { return x + 1; }\n")
    subprocess.run([gcc, "-g", "-c", tmp_path / "a.c", "-o", tmp_path / "a.o"], check=True)
    with whence.open(tmp_path / "a.o") as binary, pytest.raises(Unsupported, match="link it first"):
        binary.listing(0, 4)


def test_huge_functions_are_cut_with_a_note(tmp_path: Path) -> None:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not installed")
    (tmp_path / "a.s").write_text(
        ".globl _start\n.type _start,@function\n_start:\n.fill 20000000,1,0x90\n.size _start,.-_start\n"
    )
    subprocess.run([gcc, "-nostdlib", "-static", tmp_path / "a.s", "-o", tmp_path / "a"], check=True)
    with whence.open(tmp_path / "a") as binary:
        vaddr = next(binary.functions()).vaddr
        listing = binary.listing(vaddr, vaddr + CODE_BYTES // 16)
        assert len(listing.instructions) == CODE_BYTES // 16
        assert "only the first 1,048,576 of 20,000,000 bytes" in binary.listing("_start", lines=True).notes[0]
