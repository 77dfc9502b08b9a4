"""A store in a folder: what is kept, what answers, and what is refused."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

import whence
from tests.forge.elf import Section, build_id_note, forge
from tests.helpers.programs import compiled
from tests.helpers.stores import Files
from whence._base.errors import ElfError, Mismatch, WrongUse
from whence.cli import main
from whence.locator.locator import Locator
from whence.store import Store, packages

ID = "ab" * 20


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


def outcomes(store: Store, *paths: Path) -> list[tuple[str, str]]:
    return [(each.outcome, str(each.kind)) for path in paths for each in store.add(path)]


def test_a_debug_file_and_an_executable_answer_together(tmp_path: Path, files: Files) -> None:
    """The archive has the lines of the debug file and the segments of the executable."""
    with Store(tmp_path / "store") as store:
        assert outcomes(store, files.stripped) == [("added", "executable")]
        with store.open(files.build_id) as binary:
            assert not any(frame.line for frame in binary.lookup(files.vaddr))
        assert outcomes(store, files.debug) == [("added", "debuginfo")]
        with store.open(files.build_id) as binary:
            assert binary.is_archive
            assert binary.lookup(files.vaddr)[-1].function == "sum"
            assert binary.lookup(files.vaddr)[-1].line
            segments = binary.table().about.segments
            assert segments
            assert all(size for _, _, size in segments)
        expected = store.find(files.build_id)
        assert expected is not None
        assert set(expected.files) == {"debuginfo", "executable", "lidia"}
        (row,) = store.list()
        assert (row.build_id, row.debuginfo, row.executable) == (
            files.build_id, files.debug.stat().st_size, files.stripped.stat().st_size,
        )  # fmt: skip


def test_the_layout_matches_debuginfods_paths(tmp_path: Path, files: Files) -> None:
    with Store(tmp_path / "store") as store:
        store.add(files.debug, files.stripped)
    folder = tmp_path / "store" / "buildid" / files.build_id
    assert sorted(os.listdir(folder)) == ["debuginfo", "executable", "lidia.gz", "meta.json"]
    assert (folder / "debuginfo").read_bytes() == files.debug.read_bytes()
    assert (folder / "executable").read_bytes() == files.stripped.read_bytes()
    with whence.lidia.open(folder / "lidia.gz") as table:
        assert not table.verify()
    assert json.loads((folder / "meta.json").read_text())["files"]["debuginfo"]["quality"]["lines"] is True


@pytest.mark.parametrize("order", ["poor first", "good first"])
def test_the_better_file_is_kept_in_either_order(tmp_path: Path, files: Files, order: str) -> None:
    ways = [files.stripped, files.symbols, files.whole]
    expected = ["added", "better", "better"]
    if order == "good first":
        ways.reverse()
        expected = ["added", "poorer", "poorer"]
    with Store(tmp_path / "store") as store:
        result = [{kind: outcome for outcome, kind in outcomes(store, path)}["executable"] for path in ways]
        assert result == expected
        with store.file(files.build_id, "executable") as path:
            assert path is not None
            assert path.read_bytes() == files.whole.read_bytes()
        with store.open(files.build_id) as binary:
            assert binary.lookup(files.vaddr)[-1].line


def test_of_equal_quality_the_larger_file_is_kept_then_the_first(tmp_path: Path, files: Files) -> None:
    larger = tmp_path / "larger"
    larger.write_bytes(files.debug.read_bytes() + bytes(64))
    with Store(tmp_path / "store") as store:
        assert outcomes(store, files.debug, files.debug, larger, files.debug, larger) == [
            ("added", "debuginfo"), ("same", "debuginfo"), ("better", "debuginfo"), ("poorer", "debuginfo"),
            ("same", "debuginfo"),
        ]  # fmt: skip


def test_an_unstripped_program_is_both_kinds_and_stored_once(tmp_path: Path, files: Files) -> None:
    with Store(tmp_path / "store") as store:
        assert outcomes(store, files.whole) == [("added", "debuginfo"), ("added", "executable")]
    folder = tmp_path / "store" / "buildid" / files.build_id
    assert os.path.samefile(folder / "debuginfo", folder / "executable")


def test_adding_again_writes_nothing(tmp_path: Path, files: Files) -> None:
    with Store(tmp_path / "store") as store:
        store.add(files.debug, files.stripped)
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*") if path.is_file()}
        assert {each.outcome for each in store.add(files.debug, files.stripped)} == {"same"}
        after = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*") if path.is_file()}
    assert before == after


def test_a_file_without_a_build_id_is_refused_or_kept_by_its_hash(tmp_path: Path) -> None:
    program = compiled("-Wl,--build-id=none")
    with Store(tmp_path / "store") as store:
        (item,) = store.add(program)
        assert (item.outcome, item.build_id) == ("refused", "")
        assert "no build-id" in item.why
        result = store.add(program, by_hash=True)
        assert {item.outcome for item in result} == {"added"}
        (build_id,) = {item.build_id for item in result}
        assert len(build_id) == 64
        with store.open(build_id) as binary:
            assert any(item.function == "sum" for item in binary.functions())


def test_files_that_are_cut_or_not_elf_are_refused_and_the_rest_is_kept(tmp_path: Path, files: Files) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("text")
    (folder / "b.cut").write_bytes(files.debug.read_bytes()[:-700])
    (folder / "c.debug").write_bytes(files.debug.read_bytes())
    os.symlink("/etc/passwd", folder / "d.link")
    os.mkfifo(folder / "e.fifo")
    (folder / "f.core").write_bytes(forge([build_id_note(ID)], type=4))
    (folder / "g.none").write_bytes(forge([build_id_note(ID)]))
    with Store(tmp_path / "store") as store:
        result = {os.path.basename(each.origin): each for each in store.add(folder)}
        assert {name: each.outcome for name, each in result.items()} == {
            "b.cut": "refused", "c.debug": "added", "f.core": "refused", "g.none": "refused",
        }  # fmt: skip
        assert "core" in result["f.core"].why
        assert [row.build_id for row in store.list()] == [files.build_id]
        (named,) = store.add(folder / "a.txt")
        assert (named.outcome, named.why) == ("refused", "neither an object file nor a package of object files")


def ar(members: dict[str, bytes]) -> bytes:
    out = packages.AR_MAGIC
    for name, content in members.items():
        head = f"{name:16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}".encode() + packages.AR_END
        out += head + content + b"\n" * (len(content) % 2)
    return out


def tar(path: Path, content: bytes, mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{mode}") as made:  # type: ignore[call-overload]
        for name, data in (("./usr/share/doc/readme", b"text"), (str(path), content)):
            item = tarfile.TarInfo(name)
            item.size = len(data)
            made.addfile(item, io.BytesIO(data))
        link = tarfile.TarInfo("./usr/bin/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        made.addfile(link)
    return out.getvalue()


@pytest.mark.parametrize("packing", ["", "gz", "xz", "bz2"])
@pytest.mark.parametrize("kind", ["deb", "tar"])
def test_packages_are_read_member_by_member(tmp_path: Path, files: Files, kind: str, packing: str) -> None:
    inside = tar(Path("usr/lib/debug/program.debug"), files.debug.read_bytes(), packing)
    ending = f".{packing}" if packing else ""
    package = tmp_path / f"package.tar{ending}"
    if kind == "deb":
        package = tmp_path / "package.deb"
        inside = ar({"debian-binary": b"2.0\n", "control.tar": b"x", f"data.tar{ending}": inside})
    package.write_bytes(inside)
    with Store(tmp_path / "store") as store:
        (item,) = store.add(package)
        assert (item.outcome, item.origin) == ("added", f"{package}: usr/lib/debug/program.debug")
        expected = store.find(files.build_id)
        assert expected is not None
        assert expected.name == "program.debug"


@pytest.mark.parametrize("packing", ["gz", "xz", "bz2", "zst"])
def test_a_compressed_elf_file_is_added_and_another_file_is_skipped(tmp_path: Path, files: Files, packing: str) -> None:
    """Kernel modules are often compressed."""
    import bz2
    import gzip
    import lzma

    from whence.store.packing import pack as pack_zstd

    def compress_zstd(content: bytes) -> bytes:
        out = io.BytesIO()
        pack_zstd(io.BytesIO(content), out)
        return out.getvalue()

    pack: Any = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "zst": compress_zstd}[packing]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"program.ko.{packing}").write_bytes(pack(files.whole.read_bytes()))
    (tmp_path / "in" / f"changelog.{packing}").write_bytes(pack(b"text " * 1000))
    with Store(tmp_path / "store") as store:
        result = store.add(tmp_path / "in")
        assert {(each.outcome, each.origin) for each in result} == {("added", str(tmp_path / "in" / "program.ko"))}
        with store.file(files.build_id, "executable") as path:
            assert path is not None
            assert path.read_bytes() == files.whole.read_bytes()


def test_zip_and_zstd_packages_are_read_too(tmp_path: Path, files: Files) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as package:
        package.write(files.debug, "../../program.debug")
    inside = tar(Path("program"), files.stripped.read_bytes(), "")
    from whence.store.packing import pack

    with open(tmp_path / "b.tar.zst", "wb") as out:
        pack(io.BytesIO(inside), out)
    with Store(tmp_path / "store") as store:
        result = store.add(tmp_path / "a.zip", tmp_path / "b.tar.zst")
        assert sorted((each.outcome, str(each.kind)) for each in result) == [
            ("added", "debuginfo"),
            ("added", "executable"),
        ]


def test_put_accepts_a_stream_and_returns_the_outcome(tmp_path: Path, files: Files) -> None:
    with Store(tmp_path / "store") as store:

        def put(path: Path, build_id: str = files.build_id, kind: str = "") -> str:
            with open(path, "rb") as file:
                return store.put(build_id, kind, file).outcome

        assert put(files.stripped) == "added"
        assert put(files.stripped) == "same"
        assert put(files.symbols, kind="executable") == "better"
        assert put(files.stripped) == "poorer"
        assert put(files.debug, build_id="") == "added"
        with pytest.raises(Mismatch, match="expected abab"):
            put(files.debug, ID)
        with pytest.raises(Mismatch, match="the file is executable, expected debuginfo"):
            put(files.stripped, kind="debuginfo")
        with pytest.raises(ElfError):
            store.put(files.build_id, "", io.BytesIO(b"no ELF file"))
        with pytest.raises(WrongUse, match="more than the 100 bytes"), open(files.debug, "rb") as file:
            store.put("", "", file, limit=100)
        assert not list((tmp_path / "store").rglob("tmp*"))


def test_content_is_read_in_ranges_and_fails_after_a_replacement(tmp_path: Path, files: Files) -> None:
    with Store(tmp_path / "store") as store:
        store.add(files.stripped)
        assert store.open_bytes(files.build_id, "debuginfo") is None
        content = store.open_bytes(files.build_id, "executable")
        assert content is not None
        full = files.stripped.read_bytes()
        assert (content.size, content.read(), content.read(100, 200)) == (len(full), full, full[100:200])
        assert b"".join(content.chunks(5)) == full[5:]
        store.add(files.whole)
        with pytest.raises(OSError, match="replaced meanwhile"):
            content.read(0, 10)


@pytest.mark.parametrize("bad", ["", "AB12", "abc", "../../etc/passwd", "ab/../cd", "ab" * 65, "ab12\n", "zz"])
def test_ids_are_lowercase_hex_of_1_to_64_bytes(tmp_path: Path, bad: str) -> None:
    store = Store(tmp_path / "store")
    for ask in (store.find, store.open, store.remove, store.finish):
        with pytest.raises(WrongUse, match="a build-id is 1 to 64 bytes"):
            ask(bad)
    with pytest.raises(WrongUse):
        store.open_bytes(bad, "debuginfo")
    with pytest.raises(WrongUse):
        store.open_bytes(ID, "../meta.json")
    assert not (tmp_path / "store" / "buildid").exists()


def test_an_archive_with_symbols_only_does_not_hide_a_debug_file(tmp_path: Path, files: Files) -> None:
    """The store has the stripped file, a debug folder the debug info: the debug info answers."""
    with Store(tmp_path / "store") as store:
        store.add(files.symbols)
        debug = tmp_path / "debug" / ".build-id" / files.build_id[:2] / f"{files.build_id[2:]}.debug"
        debug.parent.mkdir(parents=True)
        shutil.copy(files.debug, debug)
        locator = Locator(dirs=[tmp_path / "debug"], sources=[store.source("test")], local=False)
        with locator, locator.open(build_id=files.build_id) as binary:
            assert binary.lookup(files.vaddr)[-1].line


def test_requests_for_a_missing_build_id_are_counted_until_it_is_added(tmp_path: Path, files: Files) -> None:
    with Store(tmp_path / "store") as store:
        for who in ("profile", "profile", "server"):
            with Locator(dirs=(), sources=[store.source(who)], local=False) as locator:
                for _ in range(3):  # asked again in one process, it is one question
                    assert not locator.find(build_id=files.build_id, path="/opt/program")
        (item,) = store.wanted()
        assert (item.build_id, item.asked, item.path) == (files.build_id, {"profile": 2, "server": 1}, "/opt/program")
        store.add(files.stripped)
        assert list(store.wanted()) == []


def test_rm_removes_everything_of_a_build_id(tmp_path: Path, files: Files) -> None:
    with Store(tmp_path / "store") as store:
        store.add(files.debug)
        with store.open(files.build_id):
            pass
        assert store.remove(files.build_id) > files.debug.stat().st_size
        assert store.find(files.build_id) is None
        assert store.list() == []
        assert store.remove(files.build_id) == 0
        left = [str(path) for path in (tmp_path / "store").rglob("*") if files.build_id in str(path)]
        assert left == []
        assert outcomes(store, files.debug) == [("added", "debuginfo")]
        assert len(store.list()) == 1


def test_an_error_of_the_store_ends_add_and_refuses_no_file(tmp_path: Path, files: Files) -> None:
    (tmp_path / "store").write_text("a file, not a folder")
    with Store(tmp_path / "store") as store, pytest.raises(OSError, match=r"."):
        store.add(files.debug, files.stripped)


def test_the_index_can_be_rebuilt_and_its_log_is_merged(tmp_path: Path) -> None:
    ids = [f"{number:040x}" for number in range(1, 90)]
    folder = tmp_path / "in"
    folder.mkdir()
    for build_id in ids:
        code = Section(".text", b"\xc3" * 16, vaddr=0x1000, flags=6)
        (folder / build_id).write_bytes(forge([code, build_id_note(build_id)]))
    with Store(tmp_path / "store") as store:
        store.add(folder)
        rows = store.list()
        assert [row.build_id for row in rows] == ids
        assert not list((tmp_path / "store" / "index" / "log").glob("*"))
        assert store.list() == rows
        shutil.rmtree(tmp_path / "store" / "index")
        assert store.index.rebuild() == len(ids)
        assert store.list() == rows


def test_the_commands_print_the_files(
    tmp_path: Path, files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert main(["store", "add", "-", str(files.debug), str(files.stripped), "--json"]) == 0
    added = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(each["outcome"], each["kind"]) for each in added} == {("added", "debuginfo"), ("added", "executable")}
    assert main(["store", "add", str(files.debug)]) == 0
    assert "same" in capsys.readouterr().out
    assert main(["store", "ls"]) == 0
    assert files.build_id in capsys.readouterr().out
    location = str(tmp_path / "whence" / "store")
    assert main(["store", "ls", location, "--json"]) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["debuginfo"] == files.debug.stat().st_size
    assert main(["store", "show", files.build_id.upper(), "--json"]) == 0
    debug_id = json.loads(capsys.readouterr().out)["debug_id"]
    assert main(["store", "show", location, debug_id]) == 0
    assert "debug info of 1 unit with lines" in capsys.readouterr().out
    assert main(["store", "show", ID]) == 1
    assert main(["store", "rm", files.build_id]) == 0
    assert main(["store", "rm", files.build_id]) == 1
    assert main(["store", "show"]) == 2
    assert main(["store", "add", location]) == 1
