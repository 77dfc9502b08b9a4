"""`whence build-id` and `whence symbols`, as scripts see them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.forge import macho
from tests.forge.elf import Section, Symbol, build_id_note, forge, note
from whence.cli import main
from whence.objects.ids import DebugId

ID = "0123456789abcdef" * 2
TEXT = Section(".text", bytes(0x100), flags=6, vaddr=0x1000)


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "binary"
    symbols = [Symbol("_Z3fooi", 0x1000, 16), Symbol("main", 0x1020, 8), Symbol("odd\udcff", 0x1040, 8)]
    path.write_bytes(forge([build_id_note(ID), TEXT], symbols=symbols))
    return path


def test_build_ids_are_printed_beside_their_paths(binary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build-id", str(binary)]) == 0
    assert capsys.readouterr().out == f"{ID}  {binary}\n"
    assert main(["build-id", "--json", str(binary)]) == 0
    debug_id = DebugId.of_build_id(ID)
    assert json.loads(capsys.readouterr().out) == {
        "path": str(binary), "build_id": ID, "go_build_id": "", "uuid": debug_id.uuid, "debug_id": debug_id.breakpad,
        "code_id": ID,
    }  # fmt: skip


def test_ids_are_printed_as_other_tools_spell_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "app"
    path.write_bytes(macho.forge([macho.text()]))
    spellings = {
        "--uuid": "10111213-1415-1617-1819-1A1B1C1D1E1F", "--debug-id": "101112131415161718191A1B1C1D1E1F0",
        "--code-id": "101112131415161718191a1b1c1d1e1f",
    }  # fmt: skip
    for option, shown in spellings.items():
        assert main(["build-id", option, str(path)]) == 0
        assert capsys.readouterr().out == f"{shown}  {path}\n"


def test_one_bad_file_does_not_stop_the_rest(binary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare, text = tmp_path / "bare", tmp_path / "text"
    bare.write_bytes(forge([TEXT]))
    text.write_text("hello")
    assert main(["build-id", str(bare), str(binary)]) == 1
    assert capsys.readouterr().out == f"-  {bare}\n{ID}  {binary}\n"
    assert main(["build-id", str(text), str(tmp_path / "nowhere"), str(binary)]) == 3
    out, err = capsys.readouterr()
    assert out == f"{ID}  {binary}\n"
    assert err.splitlines() == [
        f'whence: {text}: not an ELF file: the magic at 0x0 is 68 65 6c 6c, expected 7f 45 4c 46 ("\\x7fELF")',
        f"whence: {tmp_path / 'nowhere'}: No such file or directory",
    ]


def test_go_build_ids_are_printed_when_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "go"
    path.write_bytes(forge([Section(".note.go.buildid", note("Go", 4, b"a/b/c/d"), type=7, align=4)]))
    assert main(["build-id", "--go", str(path)]) == 0
    assert capsys.readouterr().out == f"a/b/c/d  {path}\n"


def test_symbols_are_listed_by_address_with_size_source_and_readable_name(
    binary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["symbols", str(binary)]) == 0
    assert [line.split(None, 3) for line in capsys.readouterr().out.splitlines()] == [
        ["0000000000001000", "16", "symtab", "foo(int)"],
        ["0000000000001020", "8", "symtab", "main"],
        ["0000000000001040", "8", "symtab", "odd\\xff"],
    ]
    assert main(["symbols", "--json", "--no-demangle", str(binary)]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first == {"address": "0x1000", "size": 16, "source": "symtab", "name": "_Z3fooi"}


def test_symbols_tell_damage_and_absence_by_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a"
    path.write_bytes(forge([TEXT]))
    assert main(["symbols", str(path)]) == 1
    assert "no symbol table with functions" in capsys.readouterr().err
    path.write_bytes(forge([TEXT, Section(".symtab", bytes(48), 2, link=99)], dynamic_symbols=[Symbol("d", 0x1000, 4)]))
    assert main(["symbols", str(path)]) == 3
    out, err = capsys.readouterr()
    assert out.endswith(" dynsym    d\n")
    assert err.splitlines(keepends=True)[-1] == f"whence: {path}: .symtab: its link 99 is not a string table\n"
    path.write_bytes(forge([TEXT])[:100])
    assert main(["symbols", str(path)]) == 3
    assert f"whence: {path}: elf section table: truncated: " in capsys.readouterr().err
    path.write_text("hello")
    assert main(["symbols", str(path)]) == 3
