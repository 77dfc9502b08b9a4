"""Other inputs and outputs of a store: processes, sources, layouts of other programs, compressed files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.helpers.live import has_mapped, until
from tests.helpers.programs import SOURCE
from tests.helpers.stores import Files
from whence import lidia
from whence._base.errors import WrongUse
from whence.cli import main
from whence.locator.locator import Locator
from whence.objects.elf import ElfFile
from whence.procmap.mapping import Kind
from whence.store import Store, sources
from whence.store.collecting import collect
from whence.store.processes import of_process, of_snapshot
from whence.store.verify import verify
from whence.symbolize import Process

ID = "ab" * 20


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


def test_all_mapped_files_of_a_process_and_its_vdso_are_added(tmp_path: Path) -> None:
    with Process(os.getpid()) as process:
        ids = {
            each.kind: process.build_id(each)
            for each in process.mappings()
            if each.kind is Kind.VDSO or each.path.endswith("libc.so.6")
        }
    with Store(tmp_path / "store") as store:
        result = store.add(mapped=[each for each in of_process(os.getpid()) if "lib/python" not in each.origin])
        assert {each.outcome for each in result} <= {"added", "refused"}
        there = {row.build_id for row in store.list()}
        assert {build_id for build_id in ids.values() if build_id} <= there
        assert not list(verify(store))


def test_files_of_a_snapshot_are_identified_by_build_id(tmp_path: Path, files: Files) -> None:
    program = tmp_path / "program"
    shutil.copy("/bin/sleep", program)
    child = subprocess.Popen([program, "60"])
    try:
        assert until(lambda: has_mapped(child.pid, program))
        Process(child.pid).snapshot().save(tmp_path / "snapshot")
        program.rename(tmp_path / "away")
        with Store(tmp_path / "store") as store:
            (own,) = (item for item in of_process(child.pid) if item.origin.endswith("/away"))
            assert {item.outcome for item in store.add(mapped=[own])} == {"added"}
    finally:
        child.kill()
        child.wait()
    shutil.copy(files.whole, program)
    with Store(tmp_path / "store2") as store:
        kept = [item for item in of_snapshot(tmp_path / "snapshot") if item.origin.endswith("/program")]
        (item,) = store.add(mapped=kept)
        assert (item.outcome, "was mapped" in item.why) == ("refused", True)
        os.replace(tmp_path / "away", program)
        assert {item.outcome for item in store.add(mapped=kept)} == {"added"}


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """Return a program whose source is in a separate folder."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "program.c").write_text(SOURCE)
    command = ["gcc", "-O2", "-g", "-Wl,--build-id", str(tmp_path / "src/program.c"), "-o", str(tmp_path / "program")]
    subprocess.run(command, check=True)
    return tmp_path


def test_only_sources_below_the_given_folders_are_bundled(built: Path) -> None:
    with Store(built / "store") as store:
        store.add(built / "program", source_folders=[built / "src"])
        (row,) = store.list()
        assert store.read_source(row.build_id, str(built / "src/program.c")) == SOURCE.encode()
        assert store.read_source(row.build_id, str(built / "src/../src/program.c")) == SOURCE.encode()
        assert store.read_source(row.build_id, "/usr/include/stdio.h") is None
        assert store.read_source(row.build_id, "/etc/passwd") is None
    with Store(built / "elsewhere") as store:
        store.add(built / "program", source_folders=[built / "store"])
        assert store.read_source(row.build_id, str(built / "src/program.c")) is None


@pytest.mark.parametrize("how", ["outside", "dots", "link", "linked folder", "device", "null"])
def test_paths_in_debug_info_outside_the_given_folders_are_not_read(tmp_path: Path, how: str) -> None:
    """Untrusted debug info may name any path."""
    allowed, secret = tmp_path / "src", tmp_path / "secret"
    allowed.mkdir()
    secret.mkdir()
    (secret / "key").write_text("secret")
    (allowed / "link").symlink_to(secret / "key")
    (allowed / "folder").symlink_to(secret)
    os.mkfifo(allowed / "pipe")
    (allowed / "good.c").write_text("good")
    name = {
        "outside": str(secret / "key"), "dots": f"{allowed}/../secret/key", "link": f"{allowed}/link",
        "linked folder": f"{allowed}/folder/key", "device": f"{allowed}/pipe", "null": f"{allowed}/a\0b",
    }[how]  # fmt: skip
    with open(tmp_path / "out.zip", "w+b") as out:
        made = sources.bundle(sources.below([name, str(allowed / "good.c")], [allowed]), 2, out)
        assert (made.files, made.size, made.named) == (1, 4, 2)
        assert sources.read(out, str(allowed / "good.c")) == b"good"
        assert b"secret" not in (tmp_path / "out.zip").read_bytes()


def test_copies_for_gdb_and_pyroscope_are_updated_with_the_files(tmp_path: Path, files: Files) -> None:
    folder = tmp_path / "store"
    gdb = folder / ".build-id" / files.build_id[:2] / f"{files.build_id[2:]}.debug"
    pyroscope = folder / "symbolizer" / "tenant-1" / files.build_id
    with Store(folder) as store:
        store.add(files.stripped, layouts=["gdb", "pyroscope/tenant-1"])
        assert not gdb.exists()
        with lidia.open(pyroscope) as table:
            assert not any(frame.line for frame in table.lookup(files.vaddr))
        store.add(files.debug)
        assert gdb.read_bytes() == files.debug.read_bytes()
        with lidia.open(pyroscope) as table:
            assert table.lookup(files.vaddr)[-1].line
            assert not table.verify()
        store.add(files.whole, layouts=["pyroscope/other"])
        assert (folder / "symbolizer" / "other" / files.build_id).exists()
        store.remove(files.build_id)
        assert not gdb.exists()
        assert not pyroscope.exists()


@pytest.mark.parametrize("tenant", ["../x", "a/b", "", ".."])
def test_tenants_that_would_leave_their_folder_are_refused(tmp_path: Path, files: Files, tenant: str) -> None:
    with Store(tmp_path / "store") as store, pytest.raises(WrongUse):
        store.add(files.stripped, layouts=[f"pyroscope/{tenant}"])
    assert main(["store", "add", str(tmp_path / "store"), str(files.stripped), "--layout", "pyroscope", "--tenant",
                 tenant]) == 2  # fmt: skip


@pytest.mark.parametrize("layout", ["parca", "unified", "gdb"])
def test_files_in_layouts_of_other_programs_are_read(tmp_path: Path, files: Files, layout: str) -> None:
    folder = {
        "parca": tmp_path / files.build_id,
        "unified": tmp_path / files.build_id[:2] / files.build_id[2:],
        "gdb": tmp_path / ".build-id" / files.build_id[:2],
    }[layout]
    folder.mkdir(parents=True)
    shutil.copy(files.debug, folder / (f"{files.build_id[2:]}.debug" if layout == "gdb" else "debuginfo"))
    if layout != "gdb":
        shutil.copy(files.stripped, folder / "executable")
    with Store(tmp_path) as store:
        expected = store.find(files.build_id)
        assert expected is not None
        assert expected.files["debuginfo"].size == files.debug.stat().st_size
        with store.open(files.build_id) as binary:
            assert binary.lookup(files.vaddr)[-1].line
        with Locator(dirs=(), local=False, sources=[store.source()]) as locator:
            assert locator.find(build_id=files.build_id).kind == "debuginfo"
        assert store.find(ID) is None


def test_compressed_files_are_decompressed_when_read(tmp_path: Path, files: Files) -> None:
    with Store(tmp_path / "store", compress=True) as store:
        store.add(files.symbols)
        store.add(files.whole)
        store.add(files.debug)
        folder = tmp_path / "store" / "buildid" / files.build_id
        assert sorted(os.listdir(folder)) == ["debuginfo.zst", "executable.zst", "lidia.gz", "meta.json"]
        expected = store.find(files.build_id)
        assert expected is not None
        kept = expected.files["executable"]
        assert (kept.packing, kept.size) == ("zstd", files.whole.stat().st_size)
        assert kept.stored == (folder / "executable.zst").stat().st_size < kept.size
        content = store.open_bytes(files.build_id, "executable")
        assert content is not None
        with content:
            assert content.read() == files.whole.read_bytes()
        assert not list(verify(store))
        full = (folder / "executable.zst").read_bytes()
        for damaged in (full[:-20], b"x" * len(full), full[:40] + bytes(9) + full[49:]):
            (folder / "executable.zst").write_bytes(damaged)
            assert {each.build_id for each in verify(Store(tmp_path / "store"))} <= {files.build_id}
        (folder / "executable.zst").write_bytes(full)
        assert {each.outcome for each in store.add(files.whole)} <= {"same", "added"}
        with Locator(dirs=(), local=False, sources=[store.source()]) as locator:
            assert locator.find(build_id=files.build_id, kinds=["executable"])
    with Store(tmp_path / "store") as store:  # a better file that is not packed takes its place
        larger = tmp_path / "larger"
        larger.write_bytes(files.whole.read_bytes() + bytes(1 << 16))
        assert {each.outcome for each in store.add(larger)} == {"better"}
        assert sorted(os.listdir(folder)) == ["debuginfo", "executable", "lidia.gz", "meta.json"]
        assert not list(verify(store))


def test_the_least_recently_used_file_is_evicted_first(tmp_path: Path, files: Files) -> None:
    with Store(tmp_path / "store") as store:
        store.add(files.whole, "/bin/true", "/bin/false")
        ids = [row.build_id for row in store.list()]
        others = [each for each in ids if each != files.build_id]
        with store.open(files.build_id):
            pass
        now = time.time()
        for index, build_id in enumerate(others):
            path = tmp_path / "store" / "buildid" / build_id / "meta.json"
            expected = json.loads(path.read_text())
            for each in expected["files"].values():
                each["added"] = int(now - (index + 2) * 86400)
            path.write_text(json.dumps(expected))
        store.index.rebuild()
        assert [each.build_id for each in collect(store, keep_days=2.5, dry_run=True)] == [others[1]]
        assert len(store.list()) == 3
        assert [each.build_id for each in collect(store, keep_days=2.5)] == [others[1]]
        keep = next(row.stored for row in store.list() if row.build_id == files.build_id)
        assert [each.build_id for each in collect(store, max_size=keep)] == [others[0]]
        assert [row.build_id for row in store.list()] == [files.build_id]


@pytest.mark.parametrize("what", ["executable", "lidia.gz", "meta.json", "missing", "other id"])
def test_verify_reports_damaged_files(tmp_path: Path, files: Files, what: str) -> None:
    with Store(tmp_path / "store") as store:
        store.add(files.stripped)
        folder = tmp_path / "store" / "buildid" / files.build_id
        assert list(verify(store)) == []
        if what == "missing":
            (folder / "executable").unlink()
        elif what == "other id":
            folder.rename(folder.with_name(ID))
        else:
            content = bytearray((folder / what).read_bytes())
            content[len(content) // 2] ^= 0xFF
            (folder / what).write_bytes(content)
        problems = list(verify(store))
        assert problems
        assert {each.build_id for each in problems} == {ID if what == "other id" else files.build_id}
        assert main(["store", "verify", str(tmp_path / "store")]) == 3


def test_export_writes_the_files_of_a_build_id(
    tmp_path: Path, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    location, out = str(tmp_path / "store"), tmp_path / "out"
    assert main(["store", "add", location, str(files.stripped), str(files.debug)]) == 0
    assert main(["store", "export", location, files.build_id, "-o", str(out)]) == 0
    assert (out / "buildid" / files.build_id / "debuginfo").read_bytes() == files.debug.read_bytes()
    words = ["--layout", "gdb", "--layout", "pyroscope", "--tenant", "t"]
    assert main(["store", "export", location, files.build_id, "-o", str(out), *words]) == 0
    assert (out / ".build-id" / files.build_id[:2] / f"{files.build_id[2:]}.debug").exists()
    assert (out / "symbolizer" / "t" / files.build_id).exists()
    assert main(["store", "export", location, ID, "-o", str(out)]) == 1
    capsys.readouterr()


def test_the_commands_for_processes_requests_and_garbage_collection(
    tmp_path: Path, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    location = str(tmp_path / "store")
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        assert until(lambda: has_mapped(child.pid, "[vdso]"))
        assert main(["store", "add", location, "--pid", str(child.pid), "--json"]) in (0, 3)
        child.kill()
    result = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert any("[vdso]" in item["file"] and item["outcome"] == "added" for item in result)
    main(["addr", str(files.stripped), hex(files.vaddr), "--store", location, "--record-missing"])
    capsys.readouterr()
    assert main(["store", "wanted", location, "--json"]) == 0
    (item,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (item["build_id"], item["asked"]) == (files.build_id, {"addr": 1})
    assert main(["store", "wanted", location]) == 0
    assert "1 by addr" in capsys.readouterr().out
    assert main(["store", "gc", location]) == 2
    assert main(["store", "gc", location, "--max-size", "0"]) == 0
    capsys.readouterr()
    assert main(["store", "ls", location]) == 0
    assert capsys.readouterr().out == ""
    assert main(["store", "verify", location]) == 0


def test_an_archive_is_made_again_when_dwzs_shared_file_is_added(tmp_path: Path) -> None:
    """Two programs share debug info; their archives are made again when the shared file is added."""
    if shutil.which("dwz") is None or shutil.which("gcc") is None:
        pytest.skip("dwz and gcc are needed")
    programs = []
    for name in ("one", "two"):
        source = tmp_path / f"{name}.c"
        source.write_text(SOURCE)
        programs.append(tmp_path / name)
        subprocess.run(["gcc", "-O2", "-g", "-Wl,--build-id", source, "-o", programs[-1], f"-DN={name}"], check=True)
    done = subprocess.run(["dwz", "-m", tmp_path / "shared.debug", *programs], capture_output=True)
    if done.returncode or not (tmp_path / "shared.debug").exists():
        pytest.skip("dwz shared nothing")
    with ElfFile.open(programs[0]) as elf:
        build_id = elf.build_id
    with Store(tmp_path / "store") as store:
        store.add(programs[0])
        expected = store.find(build_id)
        assert expected is not None
        assert (expected.alt != "", expected.alt_there) == (True, False)
        store.add(tmp_path / "shared.debug")
        store.add(programs[0])
        expected = store.find(build_id)
        assert expected is not None
        assert expected.alt_there
