"""Where names come from can be said as a path, a store, keywords or a mapping, alike everywhere."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whence
from tests.helpers.archives import ONE, small_archives
from tests.helpers.programs import compiled
from whence._base.errors import WrongUse
from whence.cli import main
from whence.locate import folder_walk
from whence.locate.debug_files import DEBUG_DIRS
from whence.locate.folder_walk import contents_of
from whence.locator.coerce import locator_from
from whence.locator.options import options_from
from whence.objects.elf import ElfFile


def sum_vaddr() -> int:
    with whence.open(compiled()) as binary:
        return binary.find("sum")[0].vaddr


def strip(folder: Path, *flags: str) -> Path:
    """Write a stripped copy of the program to a folder."""
    if not shutil.which("strip"):
        pytest.skip("no strip on this machine (binutils)")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["strip", *flags, "-o", str(folder / "svc"), str(compiled())], check=True)
    return folder / "svc"


def debug_file(path: Path) -> Path:
    """Write the debug file of the program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["objcopy", "--only-keep-debug", str(compiled()), str(path)], check=True)
    return path


def has_names(binary: whence.Binary) -> bool:
    with binary:
        return [frame.function for frame in binary.lookup(sum_vaddr())] == ["sum"] or bool(binary.lookup(sum_vaddr()))


def store_in(folder: Path) -> Path:
    with whence.Store(folder) as store:
        store.add(compiled())
    return folder


SPELLINGS: dict[str, Callable[[str], dict[str, Any]]] = {
    "a path": lambda path: {"locator": path},
    "a pathlib path": lambda path: {"locator": Path(path)},
    "a Store": lambda path: {"locator": whence.Store(path)},
    "a mapping": lambda path: {"locator": {"store": path}},
    "a Locator": lambda path: {"locator": whence.Locator(store=path)},
    "a Locator of a path": lambda path: {"locator": whence.Locator(path)},
    "store=": lambda path: {"store": path},
    "stores=": lambda path: {"stores": [path]},
    "store= of a Store": lambda path: {"store": whence.Store(path)},
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_store_is_given_alike_to_every_call(spelling: str, tmp_path: Path) -> None:
    bare = strip(tmp_path / "bin")
    keywords = SPELLINGS[spelling](str(store_in(tmp_path / "store")))
    assert has_names(whence.open(bare, **keywords))
    with whence.Symbolizer(**keywords) as symbolizer:
        assert symbolizer.locator.find(build_id=whence.open(bare).build_id, kinds=["debuginfo"])


def test_a_path_is_recognized_by_what_is_there(tmp_path: Path) -> None:
    archives = tmp_path / "archives"
    archives.mkdir()
    small_archives(archives)
    split = tmp_path / "split"
    (split / ONE[:2]).mkdir(parents=True)
    shutil.copy(archives / f"{ONE}.lidia", split / ONE[:2] / f"{ONE[2:]}.lidia")
    debug = debug_file(tmp_path / "debug" / "svc.debug").parent
    installed = tmp_path / "installed"
    (installed / ".build-id").mkdir(parents=True)
    parca = tmp_path / "parca"
    (parca / ONE).mkdir(parents=True)
    (parca / ONE / "debuginfo").touch()
    assert options_from(archives).archive_dirs == (str(archives),)
    assert options_from(split).archive_dirs == (str(split),)
    assert options_from(debug).binaries == (str(debug),)
    assert options_from(debug / "svc.debug").binaries == (str(debug / "svc.debug"),)
    assert options_from(installed).debug_dirs == (str(installed), *DEBUG_DIRS)
    assert options_from(parca).store == (str(parca),)
    assert options_from(store_in(tmp_path / "store")).store == (str(tmp_path / "store"),)
    assert options_from("s3://bucket/symbols").store == ("s3://bucket/symbols",)
    assert options_from([archives, debug]) == options_from({"archive_dirs": archives, "binaries": [debug]})


def test_a_path_that_is_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nosuch"):
        locator_from(tmp_path / "nosuch")
    with pytest.raises(WrongUse, match=r"without a store, archives or debug files; .* give store="):
        locator_from(tmp_path)
    with pytest.raises(TypeError, match="int does not say where names come from"):
        locator_from(5)  # type: ignore[arg-type]


def test_one_path_is_one_element_of_a_list(tmp_path: Path) -> None:
    locator = whence.Locator(dirs=str(tmp_path), archive_dirs=tmp_path, files=str(compiled()))
    assert locator.dirs == (str(tmp_path),)
    assert locator.archive_dirs == (str(tmp_path),)
    assert locator.files == (str(compiled()),)


def test_the_older_keywords_mean_the_same(tmp_path: Path) -> None:
    old = {"files": [compiled()], "dirs": [tmp_path], "root": tmp_path, "stores": ["s3://a"], "archive_dirs": ["b"]}
    new = {"binaries": compiled(), "debug_dirs": tmp_path, "sysroot": tmp_path, "store": "s3://a", "archive_dirs": "b"}
    assert options_from(old) == options_from(new)


def test_an_unknown_keyword_suggests_the_right_one() -> None:
    with pytest.raises(TypeError, match="did you mean archive_dirs"):
        whence.Locator(archives_dirs="a")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean demangle"):
        whence.open(compiled(), demangled=True)  # type: ignore[call-arg]


def test_a_locator_with_further_keywords_is_refused() -> None:
    with pytest.raises(WrongUse, match=r"give them to it, Locator\(store=...\)"):
        locator_from(whence.Locator(), store="s")


def test_debuginfod_true_means_the_servers_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    with pytest.raises(WrongUse, match="DEBUGINFOD_URLS"):
        whence.Locator(debuginfod=True, cache=tmp_path)
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://127.0.0.1:9 ima:enforcing")
    assert "debuginfod" in repr(whence.Locator(debuginfod=True, cache=tmp_path))


def test_a_locator_with_a_store_pickles(tmp_path: Path) -> None:
    again = pickle.loads(pickle.dumps(whence.Locator(store=str(store_in(tmp_path / "store")))))
    assert has_names(whence.open(strip(tmp_path / "bin"), locator=again))


@pytest.mark.parametrize("keyword", ["binaries", "debug_dirs", "locator"])
@pytest.mark.parametrize("name", ["svc.debug", "other-name"])
def test_a_folder_of_debug_files_names_a_stripped_program(keyword: str, name: str, tmp_path: Path) -> None:
    bare = strip(tmp_path / "bin")
    debug = debug_file(tmp_path / "debug" / name).parent
    (debug / "README").write_text("not an ELF file\n")
    (debug / "cut.debug").write_bytes(b"\x7fELF")
    keywords: dict[str, Any] = {keyword: str(debug)}
    assert has_names(whence.open(bare, **keywords))


def test_a_debug_link_names_a_file_directly_in_a_debug_folder(tmp_path: Path) -> None:
    """Without build-ids the link's name and CRC decide."""
    debug = debug_file(tmp_path / "debug" / "svc.debug")
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", str(debug)], check=True)
    bare = strip(tmp_path / "bin", "--remove-section=.note.gnu.build-id")
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", str(bare)], check=True)
    with ElfFile.open(bare) as elf:
        assert elf.build_id == ""
    assert has_names(whence.open(bare, debug_dirs=tmp_path / "debug"))
    (tmp_path / "debug" / "svc.debug").write_bytes(debug.read_bytes() + b"changed")
    assert not has_names(whence.open(bare, debug_dirs=tmp_path / "debug"))


@pytest.mark.parametrize("keyword", ["binaries", "debug_dirs", "locator"])
def test_files_in_folders_below_are_found(keyword: str, tmp_path: Path) -> None:
    bare = strip(tmp_path / "bin")
    (tmp_path / "debug" / "x86-64").mkdir(parents=True)
    debug_file(tmp_path / "debug" / "x86-64" / "release" / "svc.debug")
    keywords: dict[str, Any] = {keyword: str(tmp_path / "debug")}
    assert has_names(whence.open(bare, **keywords))


def test_a_debug_link_names_a_file_in_a_folder_below(tmp_path: Path) -> None:
    """Without build-ids the link's name and CRC decide."""
    debug = debug_file(tmp_path / "debug" / "deep" / "svc.debug")
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", str(debug)], check=True)
    bare = strip(tmp_path / "bin", "--remove-section=.note.gnu.build-id")
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", str(bare)], check=True)
    assert has_names(whence.open(bare, debug_dirs=tmp_path / "debug"))


def test_archives_in_folders_below_are_found(tmp_path: Path) -> None:
    below = tmp_path / "ci" / "job-1"
    below.mkdir(parents=True)
    small_archives(below)
    (below / f"{ONE}.lidia").rename(below / "app.lidia")
    with whence.Locator(archive_dirs=tmp_path / "ci") as locator:
        assert locator.find(build_id=ONE).path == str(below / "app.lidia")


def test_a_folder_is_walked_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b/c", "a", ".git", ".debug"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    names = [".debug/file", "a/file", "b/file", "b/c/file"]
    (tmp_path / "b" / "file").touch()
    contents = contents_of(str(tmp_path))
    assert [os.path.relpath(path, tmp_path) for path in contents.files] == names
    assert contents.complete
    assert contents.is_current()
    monkeypatch.setattr(folder_walk, "FOLDERS_VISITED", 3)
    contents = contents_of(str(tmp_path))
    assert [os.path.relpath(path, tmp_path) for path in contents.files] == names[:2]
    assert not contents.complete
    monkeypatch.setattr(folder_walk, "ENTRIES_VISITED", 2)
    contents = contents_of(str(tmp_path))
    assert contents.files == ()
    assert not contents.complete


def test_a_folder_with_too_many_files_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_walk, "ENTRIES_VISITED", 1)
    for name in ("debug", "archives"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one").touch()
        (tmp_path / name / "two").touch()
    with whence.Locator(debug_dirs=tmp_path / "debug", archive_dirs=tmp_path / "archives") as locator:
        tried = locator.find(build_id=ONE, path="/opt/app").tried
    assert [step.path for step in tried if "more files than are looked at" in step.detail] == [
        str(tmp_path / "archives"), str(tmp_path / "debug"),
    ]  # fmt: skip


@pytest.mark.parametrize("keyword", ["debug_dirs", "archive_dirs", "binaries"])
def test_a_folder_that_does_not_exist_is_an_error(keyword: str, tmp_path: Path) -> None:
    keywords: dict[str, Any] = {keyword: str(tmp_path / "nosuch")}
    with pytest.raises(FileNotFoundError, match="nosuch"):
        whence.Locator(**keywords)


@pytest.mark.parametrize("keyword", ["debug_dirs", "archive_dirs"])
def test_a_file_is_not_a_folder(keyword: str) -> None:
    keywords: dict[str, Any] = {keyword: __file__}
    with pytest.raises(NotADirectoryError, match="test_sources"):
        whence.Locator(**keywords)


@pytest.mark.parametrize(
    ("keywords", "fault"),
    [
        ({"store": 5}, "a store is a Store, or the path or address of one, not int"),
        ({"store": b"store"}, "a store is a Store, or the path or address of one, not bytes"),
        ({"binaries": [5]}, "a path is a str or an os.PathLike, not int"),
        ({"debug_dirs": 5}, "a path is a str or an os.PathLike, not int"),
        ({"sources": [5]}, r"a source has a method find\(query, tried\), int has not"),
        ({"sysroot": 5}, "a path is a str or an os.PathLike, not int"),
        ({"cache": 5}, "a cache is a Cache, its folder or a function that returns one, not int"),
        ({"debuginfod": 5}, "a server is a URL or a client, not int"),
        ({"debuginfod": [5]}, "a server is a URL or a client, not int"),
    ],
)
def test_a_value_of_another_type_is_refused(keywords: dict[str, Any], fault: str) -> None:
    with pytest.raises(TypeError, match=fault):
        whence.Locator(**keywords)


@pytest.mark.parametrize("option", ["--debug-dir", "--archive-dir", "--sysroot"])
def test_the_command_refuses_a_folder_that_does_not_exist(
    option: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["addr", str(compiled()), "0x1000", option, str(tmp_path / "nosuch")]) == 2
    assert f"{option} {tmp_path}/nosuch: the folder does not exist (correct the path" in capfd.readouterr().err
    assert main(["addr", str(compiled()), "0x1000", option, __file__]) == 2
    assert f"{option} {__file__}: not a folder" in capfd.readouterr().err


def test_files_that_are_added_to_a_folder_are_found(tmp_path: Path) -> None:
    bare = strip(tmp_path / "bin")
    (tmp_path / "debug").mkdir()
    with whence.Locator(debug_dirs=tmp_path / "debug") as locator:
        assert not has_names(locator.open(bare))
        (tmp_path / "debug" / "new").mkdir()
        assert not has_names(locator.open(bare))
        debug_file(tmp_path / "debug" / "new" / "late.debug")
        assert has_names(locator.open(bare))


@pytest.mark.parametrize("option", ["--binary", "--debug-dir"])
def test_the_command_takes_a_folder_of_debug_files(
    option: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bare = strip(tmp_path / "bin")
    debug = debug_file(tmp_path / "debug" / "svc.debug").parent
    assert main(["addr", str(bare), hex(sum_vaddr()), option, str(debug)]) == 0
    assert "sum" in capfd.readouterr().out


def test_below_a_sysroot_the_debug_files_of_this_machine_answer_by_build_id_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, root = tmp_path / "host-debug", tmp_path / "rootfs"
    monkeypatch.setattr("whence.locator.locator.DEBUG_DIRS", (str(host),))
    strip(root / "opt")
    with ElfFile.open(root / "opt/svc") as elf:
        build_id = elf.build_id
    debug = debug_file(host / "opt" / "svc.debug")
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", str(root / "opt/svc")], check=True)
    with whence.Locator(sysroot=root) as locator:
        assert not has_names(locator.open(root / "opt/svc"))  # by path
    debug_file(host / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug")
    with whence.Locator(sysroot=root) as locator:
        assert has_names(locator.open(root / "opt/svc"))
        assert locator.find(build_id=build_id, kinds=["debuginfo"])


def test_readers_of_a_store_record_missing_build_ids_on_request_only(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = store_in(tmp_path / "store")
    bare = tmp_path / "other"
    (tmp_path / "other.c").write_text("int main(void) { return 7; }\n")
    subprocess.run(["gcc", "-s", str(tmp_path / "other.c"), "-o", str(bare), "-Wl,--build-id=sha1"], check=True)
    with whence.open(bare, store=store) as binary:
        binary.lookup(0x1000)
    words = ["addr", str(bare), "1000", "--store", str(store), "--no-cache"]
    main(words)
    assert list(whence.Store(store).wanted()) == []
    main([*words, "--record-missing"])
    assert [request.asked for request in whence.Store(store).wanted()] == [{"addr": 1}]
    capfd.readouterr()
