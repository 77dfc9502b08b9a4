"""whence dwarf: what people see who explore debug info."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests.forge.builds import MissingTool, Recipe, build
from tests.forge.elf import Section, forge
from whence.cli import main
from whence.objects.elf import ElfFile

HELLO = """#include <stdio.h>

int main(int argc, char **argv) {
  printf("Hello, World!\\n");
  return 0;
}
"""


@pytest.fixture(scope="module")
def hello(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("hello")
    (directory / "main.c").write_text(HELLO)
    target = ["-target", "x86_64-linux-gnu.2.17", "-fno-sanitize=undefined"]  # others have zig build a whole libc first
    command = [sys.executable, "-m", "ziglang", "cc", "-o", "mainc", "-g", *target, "main.c"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"zig cannot build a program here: {done.stderr[-300:]}")
    return directory / "mainc"


def symbol(path: Path, name: str) -> tuple[int, int]:
    with ElfFile.open(path) as elf:
        table = elf.symbols(".symtab")
        offset = next(i for i in range(len(table)) if table.name(i) == name)
        return table.value[offset], table.value[offset] + table.size[offset]


def test_the_hello_world_shows_main_at_its_bounds(hello: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dwarf", str(hello), "--json"]) == 0
    units = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    number = next(unit["unit"] for unit in units if unit["name"] == "main.c")
    assert main(["dwarf", str(hello), "--unit", str(number)]) == 0
    shown = capsys.readouterr().out
    low, high = symbol(hello, "main")
    assert f"  DW_TAG_subprogram  [{low:#x}, {high:#x})  main\n" in shown
    assert f"  {low:#x}  {hello.parent}/main.c:3\n" in shown
    assert "main.c:4\n" in shown


def test_units_are_listed_a_line_each(hello: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dwarf", str(hello)]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["unit", "offset", "bytes", "dwarf", "kind", "language", "name"]
    assert [row.split()[0] for row in rows] == [str(i) for i in range(len(rows))]


def test_inlined_calls_say_where_they_were_called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        program = build(Recipe("gcc", 5, "-O2"), tmp_path)
    except MissingTool as reason:
        pytest.skip(str(reason))
    assert main(["dwarf", str(program), "--unit", "0", "--json"]) == 0
    result = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    scopes = [each for each in result if "tag" in each]
    inlined = next(each for each in scopes if each["name"] == "twice_mixed")
    assert inlined["tag"] == "inlined_subroutine"
    assert inlined["call_file"].endswith("plain.c")
    generated = next(each for each in scopes if each.get("call_line") == 100)
    assert (generated["name"], generated["call_file"]) == ("mixed", f"{tmp_path}/elsewhere/generated.y")
    assert any(each.get("line") == 14 and each["file"].endswith("plain.h") for each in result)


@pytest.mark.parametrize("version", [4, 5])
def test_a_split_unit_shows_what_its_dwo_file_holds(
    version: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        program = build(Recipe("gcc", version, "-O2", "split"), tmp_path)
    except MissingTool as reason:
        pytest.skip(str(reason))
    assert main(["dwarf", str(program)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[-4:] == ["skeleton", "no", "language", "plain.dwo"]
    assert main(["dwarf", str(program), "--unit", "0"]) == 0
    assert "DW_TAG_inlined_subroutine" in capsys.readouterr().out


def test_a_file_without_debug_info_and_a_unit_that_is_not_there_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        program = build(Recipe("gcc", 5, "-O2"), tmp_path)
    except MissingTool as reason:
        pytest.skip(str(reason))
    assert main(["dwarf", str(program), "--unit", "99"]) == 2
    assert "the units are 0 to" in capsys.readouterr().err
    bare = shutil.copy(program, tmp_path / "bare")
    subprocess.run(["strip", bare], check=True)
    assert main(["dwarf", str(bare)]) == 1
    assert "no debug info" in capsys.readouterr().err


def test_damaged_debug_info_is_not_said_to_be_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claim = struct.pack("<IIQQ", 1, 0, 1 << 62, 1) + zlib.compress(b"debug info")
    sections = [Section(".debug_info", claim, flags=0x800), Section(".debug_abbrev", b"\0")]
    (tmp_path / "bomb").write_bytes(forge(sections))
    assert main(["dwarf", str(tmp_path / "bomb")]) == 3
    said = capsys.readouterr().err
    assert "/bomb: .debug_info: unpacked bytes take more than" in said
    assert said.count("\n") == 1
