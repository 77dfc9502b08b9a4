"""Where source files are found, what is checked, and what hostile paths and files do."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.forge.elf import Section, forge
from tests.forge.source_tables import line_program
from whence._base.errors import WrongUse
from whence.dwarf.source_files import DebugSource, LineStrings, debug_sources
from whence.listing.sources import LINE_CHARACTERS, SOURCE_BYTES, GitTree, SourceOptions, Sources, endings
from whence.objects.elf import ElfFile

TEXT = b"int main() {\n  return 0;\n}\n"
MD5 = hashlib.md5(TEXT).digest()


def sections(line: bytes) -> LineStrings:
    return LineStrings(memoryview(line), memoryview(b""), memoryview(b""), "little")


def elf_with(tmp_path: Path, line: bytes) -> ElfFile:
    path = tmp_path / "app"
    path.write_bytes(forge(sections=[Section(".debug_line", line)]))
    return ElfFile.open(path)


@pytest.mark.parametrize("wide", [False, True])
def test_checksums_and_embedded_text_are_read_from_every_program(wide: bool) -> None:
    first = line_program([(b"a.c", 0, MD5, b"")], wide=wide)
    second = line_program([(b"b.h", 1, MD5, b"int b;\n"), (b"c.h", 1, MD5, b"")], with_text=True, wide=wide)
    result = debug_sources(sections(first + second), {"/src/a.c", "/src/inc/b.h", "/src/inc/c.h", "/other"})
    assert result == {
        "/src/a.c": DebugSource(MD5.hex()),
        "/src/inc/b.h": DebugSource(MD5.hex(), b"int b;\n"),
        "/src/inc/c.h": DebugSource(MD5.hex()),
    }


def test_damaged_file_tables_end_the_search_without_an_error() -> None:
    line = line_program([(b"a.c", 0, MD5, b""), (b"b.c", 0, MD5, b"x")], with_text=True)
    for size in range(len(line)):
        debug_sources(sections(line[:size]), {"/src/a.c", "/src/b.c"})
    for offset in range(len(line)):
        changed = bytearray(line)
        for bit in (0, 3, 7):
            changed[offset] ^= 1 << bit
            debug_sources(sections(bytes(changed)), {"/src/a.c"})


def test_a_file_with_the_wrong_md5_is_not_used(tmp_path: Path) -> None:
    with elf_with(tmp_path, line_program([(b"a.c", 0, MD5, b"")])) as elf:
        folder = tmp_path / "other"
        folder.mkdir()
        (folder / "a.c").write_bytes(TEXT + b" ")
        sources = Sources(SourceOptions((str(folder),), own_paths=False), debug=elf)
        assert sources.find("/src/a.c") is None
        assert sources.remedy("/src/a.c").endswith("another version (its MD5 differs from that in the debug info)")
        right = tmp_path / "right"
        (right / "src").mkdir(parents=True)
        (right / "src" / "a.c").write_bytes(TEXT)
        result = Sources(SourceOptions((str(folder), str(right)), own_paths=False), debug=elf).find("/src/a.c")
    assert result is not None
    assert (result.origin, result.verified, result.line(2), result.line(4)) == (str(right), True, "  return 0;", None)


def test_embedded_text_is_used_before_any_file(tmp_path: Path) -> None:
    text = b"int a;\r\n"
    with elf_with(tmp_path, line_program([(b"a.c", 0, hashlib.md5(text).digest(), text)], with_text=True)) as elf:
        result = Sources(debug=elf).find("/src/a.c")
        assert result is not None
        assert (result.lines, result.origin, result.verified) == (["int a;"], "the debug info", True)
    with elf_with(tmp_path, line_program([(b"a.c", 0, MD5, text)], with_text=True)) as elf:
        sources = Sources(debug=elf)
        assert sources.find("/src/a.c") is None
        assert "its MD5 differs" in sources.remedy("/src/a.c")


def test_paths_are_found_by_their_last_parts_by_prefix_and_by_fetchers(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.c").write_bytes(TEXT)
    path = "/build/app/lib/a.c"
    folder = Sources(SourceOptions((str(tmp_path),), own_paths=False)).find(path)
    prefix = Sources(SourceOptions(prefixes=(("/build/app", str(tmp_path)),), own_paths=False)).find(path)
    assert folder is not None
    assert prefix is not None
    assert folder.origin == prefix.origin == str(tmp_path)
    asked = []

    def fetch(build_id: str, name: str) -> bytes | None:
        asked.append((build_id, name))
        return TEXT

    options = SourceOptions(fetchers=(("a server", fetch),), own_paths=False)
    fetched = Sources(options, "12ab").find(path)
    assert fetched is not None
    assert (fetched.origin, fetched.verified) == ("a server", None)
    assert asked == [("12ab", path)]
    assert Sources(options).find(path) is None  # no build-id, no request


def test_files_of_a_git_revision_are_read_without_a_work_tree(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "src" / "a.c").write_bytes(TEXT)
    git = ["git", "-C", str(work), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"], ["tag", "v1"]):
        subprocess.run([*git, *words], check=True)
    (work / "src" / "a.c").write_bytes(b"changed\n")
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(tmp_path / "bare.git")], check=True)
    for text in (f"{work}@v1", str(tmp_path / "bare.git")):
        result = Sources(SourceOptions(git=(GitTree(text),), own_paths=False)).find("/build/x/src/a.c")
        assert result is not None
        assert result.lines[1] == "  return 0;"
    with pytest.raises(WrongUse, match=r"is not a git repository with the revision --output=x"):
        GitTree(f"{work}@--output=x")
    with pytest.raises(WrongUse, match="is not a git repository"):
        GitTree(str(tmp_path / "nowhere"))


def test_nothing_outside_of_a_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret\n")
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "link.c").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to(tmp_path)
    options = SourceOptions((str(folder),), (("/build", str(folder)),), own_paths=False)
    for path in (
        "/build/link.c",
        "/build/../secret",
        "/build/up/secret",
        "../secret",
        "/build/\0",
        "/build//../../secret",
    ):
        assert Sources(options).find(path) is None, path


def test_pipes_folders_and_large_files_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.c")
    (tmp_path / "folder.c").mkdir()
    with open(tmp_path / "large.c", "wb") as file:
        file.truncate(1 << 30)
    for options in (SourceOptions(), SourceOptions((str(tmp_path),), own_paths=False)):
        for name in ("pipe.c", "folder.c", "large.c", "missing.c"):
            assert Sources(options).find(str(tmp_path / name)) is None
    assert SOURCE_BYTES < 1 << 30
    assert Sources().remedy(str(tmp_path / "large.c")) == "the file has more than 16 MiB"
    assert Sources().remedy(str(tmp_path / "pipe.c")).startswith("give --source-dir")


def test_long_lines_are_cut_and_bytes_that_are_not_text_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_bytes(b"x" * (1 << 23) + b"\n\xff\n")
    result = Sources().find(str(tmp_path / "a.c"))
    assert result is not None
    assert result.lines == ["x" * LINE_CHARACTERS + "...", "\ufffd"]


def test_endings_of_hostile_paths_are_few() -> None:
    assert endings("/a/b/c.c") == ["a/b/c.c", "b/c.c", "c.c"]
    assert endings("../a.c") == []
    assert len(endings("/" + "a/" * 10_000)) == 64
