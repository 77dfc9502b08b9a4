"""Collections of cores: what systemd-coredump and apport keep, grouped by signature, and small cores of each."""

from __future__ import annotations

import base64
import gzip
import json
import lzma
import os
import random
import shutil
import stat
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.forge.core import Mapped, core, status
from tests.forge.minidump import everything
from tests.forge.mutations import mutated
from tests.helpers.cores import PROGRAM, core_of
from tests.helpers.live import compiled
from whence._base.errors import ElfError, MapsError
from whence.cli.main import main
from whence.crashes import CoreCollection, crashes_in, keep_cores
from whence.crashes.collected import CollectedCore, folders_of, read_collected
from whence.crashes.keeping import kept_signatures
from whence.dumps import packed, unpacked
from whence.dumps.apport import read_apport
from whence.symbolize import Core, Symbolizer

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BOOT = "0123456789abcdef" * 2
TIME = 1_795_850_000_123_456  # microseconds


def lz4(data: bytes) -> bytes:
    compressed: bytes = pytest.importorskip("lz4.frame").compress(data)
    return compressed


def systemd_name(command: str = "app", pid: int = 7, time: int = TIME, ending: str = "") -> str:
    return f"core.{command}.1000.{BOOT}.{pid}.{time}{ending}"


def crash_file(data: bytes, *, pack: Callable[[bytes], bytes] = gzip.compress, piece: int = 10_000) -> bytes:
    """A report of apport."""
    stream = pack(data)
    lines = [base64.b64encode(stream[i : i + piece]) for i in range(0, len(stream), piece)]
    head = (
        "ProblemType: Crash\nArchitecture: amd64\nDate: Sat Nov 28 07:00:00 2026\nExecutablePath: /usr/bin/my app\n"
        "ProcCmdline: app --password=x\nProcStatus:\n Name:\tapp\n Pid:\t99\nSignal: 6\nCoreDump: base64\n"
    )
    return head.encode() + b"".join(b" " + line + b"\n" for line in lines) + b"Other: text\n"


def forged(pc: int = 0x10010) -> bytes:
    """A small core, whose stack has no names."""
    return core([Mapped(0x10000, 0x11000, "/opt/app", memory=bytes(0x1000))], [status(78, pc, signal=11)])


@pytest.fixture(scope="module")
def crashes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two cores of one program: of a segmentation fault, and of an abort."""
    program = compiled(tmp_path_factory.mktemp("crashes"), "-pthread", source=PROGRAM)
    return core_of(program, "d"), core_of(program, "e")


def collected(*folders: Path) -> CoreCollection:
    with Symbolizer() as symbolizer:
        return crashes_in(folders, symbolizer)


def one(path: Path) -> CollectedCore:
    with Symbolizer() as symbolizer:
        result = read_collected(str(path), symbolizer)
    assert result is not None
    return result


def test_the_signature_does_not_depend_on_the_collector(crashes: tuple[Path, Path], tmp_path: Path) -> None:
    data = crashes[0].read_bytes()
    (tmp_path / systemd_name(pid=1, ending=".zst")).write_bytes(zstd.compress(data))
    (tmp_path / systemd_name(pid=2, ending=".lz4")).write_bytes(lz4(data))
    (tmp_path / systemd_name(pid=3, ending=".xz")).write_bytes(lzma.compress(data, preset=0))
    (tmp_path / systemd_name(pid=4)).write_bytes(data)
    (tmp_path / "core.gz").write_bytes(gzip.compress(data, 1))
    (tmp_path / "_usr_bin_app.1000.crash").write_bytes(crash_file(data))
    (tmp_path / "below").mkdir()
    shutil.copy(crashes[0], tmp_path / "below" / "core.4711")
    collection = collected(tmp_path)
    assert collection.unreadable == ()
    (group,) = collection.groups
    assert group.signature.functions == ("boom", "inlined", "deep", "mode", "main")
    assert sorted((entry.kind, entry.packing) for entry in group.cores) == [
        ("apport", ""), ("core", ""), ("core", "gzip"),
        ("systemd", ""), ("systemd", "lz4"), ("systemd", "xz"), ("systemd", "zstd"),
    ]  # fmt: skip
    assert group.signals == ("SIGABRT", "SIGSEGV")  # apport's header says SIGABRT


def test_groups_have_counts_and_times(crashes: tuple[Path, Path], tmp_path: Path) -> None:
    for number in range(3):
        name = systemd_name(pid=number, time=TIME + number * 60_000_000, ending=".zst")
        (tmp_path / name).write_bytes(zstd.compress(crashes[0].read_bytes(), 1))
    (tmp_path / "core").write_bytes(crashes[1].read_bytes())
    frequent, rare = collected(tmp_path).groups
    assert (len(frequent.cores), frequent.first, frequent.last) == (3, TIME / 1e6, TIME / 1e6 + 120)
    assert (len(rare.cores), rare.signals) == (1, ("SIGABRT",))
    assert rare.signature.functions[0] == "die"


def test_names_and_attributes_of_systemd_are_read(tmp_path: Path) -> None:
    path = tmp_path / systemd_name("my\\x2eapp", 4711)
    path.write_bytes(forged())
    result = one(path)
    assert (result.kind, result.command, result.pid, result.uid) == ("systemd", "my.app", 4711, 1000)
    assert result.written == TIME / 1e6
    try:
        os.setxattr(path, "user.coredump.exe", b"/opt/my.app")
        os.setxattr(path, "user.coredump.signal", b"6")
        os.setxattr(path, "user.coredump.timestamp", b"1639840830")  # old versions write seconds
    except OSError as error:
        pytest.skip(f"no user attributes on this file system: {error}")
    result = one(path)
    assert (result.executable, result.signal, result.written) == ("/opt/my.app", "SIGABRT", 1639840830.0)


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress, zlib.compress])
def test_reports_of_apport_are_read(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "_usr_bin_app.1000.crash"
    path.write_bytes(crash_file(forged(), pack=pack, piece=100))
    result = one(path)
    assert (result.kind, result.pid, result.executable, result.command) == ("apport", 99, "/usr/bin/my app", "my app")
    assert (result.signal, result.problem) == ("SIGABRT", "")
    assert result.signature is not None


def test_other_files_are_not_cores(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("core")
    (tmp_path / "program").write_bytes(core([], type=3))
    (tmp_path / "log.gz").write_bytes(gzip.compress(b"text"))
    (tmp_path / "python.crash").write_text("ProblemType: Crash\nTraceback: none\n")
    (tmp_path / "link").symlink_to("/proc/self/mem")
    os.mkfifo(tmp_path / "core.pipe")
    collection = collected(tmp_path)
    assert (collection.groups, collection.unreadable) == ((), ())
    (tmp_path / "crash.dmp").write_bytes(everything())
    assert [entry.kind for group in collected(tmp_path).groups for entry in group.cores] == ["minidump"]


def test_a_damaged_core_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / systemd_name(pid=1)).write_bytes(forged())
    (tmp_path / systemd_name(pid=2)).write_bytes(b"not a core")
    (tmp_path / systemd_name(pid=3, ending=".zst")).write_bytes(zstd.compress(forged())[:60])
    (tmp_path / "a.crash").write_bytes(crash_file(forged()).replace(b"\n H4sI", b"\n AAAA"))
    assert main(["cores", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("1 crash, 1 signature\n")
    assert "no signature: the zstd data is damaged or cut off" in err
    assert "compressed in an unknown way: it begins with 000000" in err
    assert err.count("no signature") == 3


def test_a_core_that_is_cut_off_keeps_its_signature(crashes: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / systemd_name(ending=".zst")
    stored = zstd.compress(crashes[0].read_bytes())
    path.write_bytes(stored[:-50])
    result = one(path)
    assert result.problem.startswith("the zstd data is damaged or cut off")
    assert result.signature is not None
    assert result.signature.functions[0] == "boom"  # callers may be missing: their stack is at the end


def test_a_core_expands_to_a_limit_at_most(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packed, "EXPANSION", 2)
    monkeypatch.setattr(packed, "ALLOWANCE", 1 << 16)
    path = tmp_path / systemd_name(ending=".zst")
    large = core([Mapped(0x10000, 0x10000 + (8 << 20), memory=bytes(8 << 20))], [status(78, 0x10010)])
    path.write_bytes(zstd.compress(large))
    result = one(path)
    limit = 2 * path.stat().st_size + (1 << 16)
    assert result.problem == f"larger than the limit of {limit:,} bytes: the rest was not read"
    assert result.signature is not None


def test_lz4_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / systemd_name(ending=".lz4")
    path.write_bytes(lz4(forged()))
    monkeypatch.setitem(sys.modules, "lz4", None)
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    assert "pip install 'whence[lz4]'" in one(path).problem


def test_json_has_an_object_for_each_signature(
    crashes: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(crashes[0], tmp_path / "core.1")
    (tmp_path / systemd_name()).write_bytes(b"")
    assert main(["cores", str(tmp_path), "--json"]) == 1
    group, bad = map(json.loads, capsys.readouterr().out.splitlines())
    assert (group["count"], group["program"], group["signals"]) == (1, "program", ["SIGSEGV"])
    assert group["cores"][0]["path"] == str(tmp_path / "core.1")
    assert (bad["signature"], bad["kind"]) == (None, "systemd")


def test_small_cores_are_kept_within_limits(
    crashes: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, kept = tmp_path / "cores", tmp_path / "kept"
    folder.mkdir()
    for number in range(4):
        name = systemd_name(pid=number, time=TIME + number * 1_000_000, ending=".zst")
        (folder / name).write_bytes(zstd.compress(crashes[0].read_bytes(), 1))
    shutil.copy(crashes[1], folder / "core.9")
    assert main(["cores", str(folder), "--keep", str(kept), "--limit", "2"]) == 0
    assert "3 cores, " in capsys.readouterr().err
    segfaults = [path.name for path in sorted(kept.glob("*/*.core")) if not path.name.endswith("-9.core")]
    newest = [name.partition("Z-")[2] for name in segfaults if name.startswith("20261128T")]
    assert [name for name in newest if name in ("0.core", "1.core", "2.core", "3.core")] == ["2.core", "3.core"]
    for path in kept.glob("*/*.core"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.stat().st_size < 400_000
    old = {path: path.stat().st_mtime_ns for path in kept.glob("*/*.core")}
    assert main(["cores", str(folder), "--keep", str(kept), "--limit", "2"]) == 0
    assert "(0 added, 0 removed)" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in kept.glob("*/*.core")} == old
    assert {group.signature for group in collected(kept).groups} == {
        group.signature for group in collected(folder).groups
    }
    assert sorted(len(group.cores) for group in collected(kept).groups) == [1, 2]


def test_the_largest_group_gives_up_its_oldest_core_first(tmp_path: Path) -> None:
    folder, kept = tmp_path / "cores", tmp_path / "kept"
    folder.mkdir()
    for number in range(3):
        (folder / systemd_name("app", number, TIME + number * 1_000_000)).write_bytes(forged())
    (folder / systemd_name("old", 9, TIME - 5_000_000)).write_bytes(
        core([Mapped(0x10000, 0x11000, "/opt/old", memory=bytes(0x1000))], [status(78, 0x10010, signal=6)])
    )
    collection = collected(folder)
    assert sorted(len(group.cores) for group in collection.groups) == [1, 3]
    everything_kept = keep_cores(collection, kept)
    each = everything_kept.size // 4
    fewer = keep_cores(collection, kept, size=2 * each)
    assert fewer.count == 2
    assert fewer.size <= 2 * each
    pids = sorted(path.name.partition("-")[2] for path in kept.glob("*/*.core"))
    assert pids == ["2.core", "9.core"]
    assert keep_cores(collection, kept, size=0).count == 0
    assert os.listdir(kept) == [".lock"]


def test_kept_cores_below_a_listed_folder_are_not_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "core.1").write_bytes(forged())
    for _ in range(2):
        assert main(["cores", str(tmp_path), "--keep", str(tmp_path / "kept")]) == 0
        assert capsys.readouterr().out.startswith("1 crash, 1 signature")


def test_the_folders_of_the_collectors_are_named_by_options() -> None:
    assert folders_of(["a"], systemd=True, apport=True) == ["a", "/var/lib/systemd/coredump", "/var/crash"]
    assert folders_of([], systemd=False, apport=False) == []


def test_wrong_use_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["cores"]) == 2
    assert "give a folder with cores, --systemd or --apport" in capsys.readouterr().err
    assert main(["cores", str(tmp_path), "--limit", "3"]) == 2
    assert main(["cores", str(tmp_path), "--keep", str(tmp_path / "k"), "--limit", "0"]) == 2
    assert main(["cores", str(tmp_path / "missing")]) == 3


def test_damaged_files_raise_no_other_errors(tmp_path: Path) -> None:
    seeds = [
        crash_file(forged(), piece=64),
        zstd.compress(forged()),
        gzip.compress(forged()),
        lzma.compress(forged()),
        lz4(forged()),
    ]
    generator = random.Random(38)
    path = tmp_path / "core"
    with Symbolizer() as symbolizer:
        for number in range(300):
            path.write_bytes(mutated(seeds[number % len(seeds)], generator))
            result = read_collected(str(path), symbolizer)
            assert result is None or result.signature is not None or result.problem
            with suppress(MapsError), path.open("rb") as file:
                read_apport(file)


def packed_forms(data: bytes) -> dict[str, bytes]:
    """A core in each of the files that a collector keeps it in."""
    return {
        "core.zst": zstd.compress(data, 1),
        "core.lz4": lz4(data),
        "core.xz": lzma.compress(data, preset=0),
        "core.gz": gzip.compress(data, 1),
        "app.crash": crash_file(data),
    }


def test_cores_in_other_files_have_the_same_stacks(
    crashes: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["core", str(crashes[0]), "--locals"]) == 0
    expected = capsys.readouterr().out.splitlines()[1:]
    for name, content in packed_forms(crashes[0].read_bytes()).items():
        path = tmp_path / name
        path.write_bytes(content)
        assert main([str(path), "--locals"]) == 0
        out, err = capsys.readouterr()
        assert f"{path} is a core dump: running whence core" in err
        assert out.splitlines()[1:] == expected


def test_cores_in_other_files_are_shrunk(
    crashes: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, small = tmp_path / "core.zst", tmp_path / "small"
    path.write_bytes(zstd.compress(crashes[0].read_bytes(), 1))
    assert main(["core", str(path), "--shrink", "-o", str(small)]) == 0
    assert small.stat().st_size < 400_000
    assert small.stat().st_mtime_ns == path.stat().st_mtime_ns
    assert one(small).signature == one(crashes[0]).signature
    capsys.readouterr()


def test_a_compressed_core_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = tmp_path / "core.zst"
    path.write_bytes(zstd.compress(forged()))
    core = Core(path)
    assert [thread.tid for thread in core.threads] == [78]
    assert core.read(0x10000, 16) == bytes(16)
    path.write_bytes(zstd.compress(forged())[:60])
    with pytest.raises(MapsError, match=r"core\.zst: the zstd data is damaged or cut off"):
        Core(path)
    assert list(temporary.iterdir()) == []


def test_a_compressed_core_needs_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "core.zst"
    path.write_bytes(zstd.compress(forged()))
    monkeypatch.setattr(unpacked, "RESERVE", 1 << 60)
    with pytest.raises(MapsError, match="stacks may need 4,096 bytes of the core, and the disk has 0"):
        Core(path)


def test_other_compressed_files_are_not_opened_as_cores(tmp_path: Path) -> None:
    path = tmp_path / "app.crash"
    path.write_text("ProblemType: Crash\nTraceback: none\n")
    with pytest.raises(MapsError, match="the report of apport has no core"):
        Core(path)
    path.write_bytes(zstd.compress(b"text"))
    with pytest.raises(ElfError, match="not an ELF file"):
        Core(path)


def test_a_store_keeps_small_cores_by_signature(
    crashes: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, store = tmp_path / "cores", tmp_path / "store"
    folder.mkdir()
    for number in range(3):
        name = systemd_name(pid=number, time=TIME + number * 1_000_000, ending=".zst")
        (folder / name).write_bytes(zstd.compress(crashes[0].read_bytes(), 1))
    shutil.copy(crashes[1], folder / "core.9")
    assert main(["store", "add", str(store), "/bin/true"]) == 0
    assert main(["cores", str(folder), "--keep", str(store), "--limit", "3"]) == 0
    capsys.readouterr()
    assert main(["store", "ls", str(store), "--small-cores", "--json"]) == 0
    frequent, rare = map(json.loads, capsys.readouterr().out.splitlines())
    assert (frequent["count"], frequent["program"], frequent["functions"][0]) == (3, "program", "boom")
    assert (frequent["first"], frequent["last"]) == (TIME / 1e6, TIME / 1e6 + 2)
    assert (rare["count"], rare["functions"][0]) == (1, "die")
    assert frequent["size"] == sum(os.path.getsize(path) for path in frequent["cores"])
    assert main(["store", "ls", str(store), "--small-cores"]) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith(f"{frequent['signature']}      3 ")
    assert line.endswith("  program  boom < inlined < deep < mode < main")

    assert main(["store", "show", str(store), frequent["signature"]]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"signature   {frequent['signature']}\nprogram     program\nfunctions   boom < ")
    assert shown.count("\ncore        ") == 3

    assert main(["store", "gc", str(store), "--small-cores", "1", "--dry-run"]) == 0
    assert "2 cores would be removed" in capsys.readouterr().err
    assert main(["store", "gc", str(store), "--small-cores", "1"]) == 0
    assert [path for path in map(Path, frequent["cores"]) if path.exists()] == [Path(frequent["cores"][-1])]
    assert main(["store", "rm", str(store), frequent["signature"]]) == 0
    assert not Path(frequent["cores"][-1]).parent.exists()
    assert main(["store", "show", str(store), frequent["signature"]]) == 1
    assert main(["store", "gc", str(store), "--small-cores-size", "0"]) == 0
    assert not Path(rare["cores"][0]).exists()
    capsys.readouterr()
    assert main(["store", "ls", str(store), "--small-cores"]) == 0
    assert capsys.readouterr().out == ""


def test_a_damaged_description_costs_only_the_names(tmp_path: Path) -> None:
    (tmp_path / "cores").mkdir()
    (tmp_path / "cores" / "core.1").write_bytes(forged())
    keep_cores(collected(tmp_path / "cores"), tmp_path / "kept")
    (described,) = (tmp_path / "kept").glob("*/signature.json")
    assert stat.S_IMODE(described.stat().st_mode) == 0o600
    for content in (b"", b"[]", b'{"program": 1}', b"[" * 60_000):
        described.write_bytes(content)
        (kept,) = kept_signatures(tmp_path / "kept")
        assert (kept.signature.text, kept.signature.functions, len(kept.cores)) == (described.parent.name, (), 1)


def test_cores_are_not_kept_in_buckets(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["cores", str(tmp_path), "--keep", "s3://bucket"]) == 2
    assert "cores are kept in a folder, or in a store in a folder" in capsys.readouterr().err
    assert main(["store", "ls", "memory://cores", "--small-cores"]) == 2
    assert "small cores are kept in stores in folders only" in capsys.readouterr().err


def test_a_control_character_before_the_pid_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.crash"
    path.write_bytes(crash_file(forged()).replace(b"Pid:\t99", b"Pid:\t\x1e9"))
    assert one(path).pid == 9
