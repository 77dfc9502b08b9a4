"""The cache of files by build-id: complete entries, created once, bounded, safe between processes."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.forge.elf import Section, build_id_note, forge
from whence import lidia
from whence.lidia.layout import Extra
from whence.locate.cache import MARKER, SERVERS, Cache


def archive(build_id: str, function: str = "main") -> bytes:
    builder = lidia.Builder()
    builder.add(vaddr=0x1000, length=16, function=function)
    return builder.to_bytes(extra=Extra(build_id=build_id))


def elf(build_id: str, size: int = 100) -> bytes:
    return forge([build_id_note(build_id), Section(".debug_info", bytes(size))])


def writes(data: bytes) -> Callable[[BinaryIO], object]:
    return lambda file: file.write(data)


def test_an_entry_is_created_once(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.get("abcd.lidia") is None
    path = cache.put("abcd.lidia", writes(archive("abcd")))
    assert cache.put("abcd.lidia", writes(archive("abcd", "other"))) == path == cache.get("abcd.lidia")
    assert path.read_bytes() == archive("abcd")


def test_an_error_while_an_entry_is_written_leaves_no_entry(tmp_path: Path) -> None:
    def half(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "disk full")

    with pytest.raises(OSError, match="disk full"):
        Cache(tmp_path).put("abcd.lidia", half)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [".lock", MARKER]


def test_the_least_recently_used_entries_are_removed_above_the_limit(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit_bytes=2 * len(elf("aa11")) + 50)
    for age, build_id in enumerate(("aa11", "bb22", "cc33")):
        path = cache.put(f"{build_id}.debuginfo", writes(elf(build_id)))
        os.utime(path, (1000 + age, 1000 + age))
    assert cache.get("bb22.debuginfo") is not None  # used now
    cache.put("dd44.debuginfo", writes(elf("dd44")))
    kept = [build_id for build_id in ("aa11", "bb22", "cc33", "dd44") if cache.get(f"{build_id}.debuginfo")]
    assert kept == ["bb22", "dd44"]


def test_an_entry_in_use_by_another_process_stays_readable_unchanged(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    path = cache.put("abcd.lidia", writes(archive("abcd")))
    os.utime(path, (1000, 1000))
    with lidia.open(path) as table:
        assert Cache(tmp_path).get("abcd.lidia") == path
        assert [frame.function for frame in table.lookup(0x1004)] == ["main"]
    assert path.stat().st_mtime == 1000
    assert path.stat().st_atime > 1000


def test_an_entry_larger_than_the_limit_is_returned(tmp_path: Path) -> None:
    assert Cache(tmp_path, limit_bytes=1).put("abcd.debuginfo", writes(elf("abcd"))).exists()


def test_unfinished_files_are_removed_after_a_day(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("abcd.lidia", writes(archive("abcd")))
    young, old, part, ahead = (
        tmp_path / "ab" / name
        for name in (".whence-00", ".whence-01", f"abcd.debuginfo.{'0' * 12}.part", f"abcd.debuginfo.{'1' * 12}.part")
    )
    for path in (young, old, part, ahead):
        path.write_bytes(b"half")
    day_ago = time.time() - 25 * 3600
    for path in (old, part):
        os.utime(path, (day_ago, day_ago))
    os.utime(ahead, (time.time() + 25 * 3600,) * 2)  # made before the clock was set back
    cache.trim()
    assert [path.exists() for path in (young, old, part, ahead)] == [True, False, False, False]


@pytest.mark.parametrize("key", ["../../etc/passwd", "ab/cd.lidia", "abcd", ".lidia", "a.lidia", "abcd.lidia\n", ""])
def test_a_key_never_leaves_the_folder(tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match=r"BUILD-ID\."):
        Cache(tmp_path).path(key)


def _make(root: str, made: str) -> None:
    def slowly(file: BinaryIO) -> None:
        time.sleep(0.05)
        file.write(archive("abcd"))
        with open(made, "a") as counter:
            counter.write("x")

    assert Cache(root).put("abcd.lidia", slowly).read_bytes() == archive("abcd")


def test_processes_create_the_same_entry_once(tmp_path: Path) -> None:
    made = tmp_path / "made"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_make, args=(str(tmp_path / "root"), str(made))) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert made.read_text() == "x"


# entries are verified

BROKEN = {
    "empty": ("abcd.lidia", b""),
    "zeros, after a power cut": ("abcd.lidia", bytes(len(archive("abcd")))),
    "cut": ("abcd.lidia", archive("abcd")[:-20]),
    "a flipped bit": ("abcd.lidia", archive("abcd").replace(b"main", b"mail")),
    "an archive of another build-id": ("abcd.lidia", archive("abce")),
    "an archive of none": ("abcd.lidia", archive("")),
    "another kind": ("abcd.lidia", elf("abcd")),
    "an archive for a debug file": ("abcd.debuginfo", archive("abcd")),
    "an empty debug file": ("abcd.debuginfo", b""),
    "a debug file of another build-id": ("abcd.debuginfo", elf("abce")),
    "a cut debug file": ("abcd.debuginfo", elf("abcd")[:200]),
    "a cut executable": ("abcd.executable", elf("abcd")[:-1]),
    "segments of another build-id": ("abcd.segments", forge([], []) + b"abce"),
}


@pytest.mark.parametrize(("key", "data"), BROKEN.values(), ids=BROKEN)
def test_an_invalid_entry_is_removed_and_created_again(tmp_path: Path, key: str, data: bytes) -> None:
    cache = Cache(tmp_path)
    full = archive("abcd") if key.endswith("lidia") else elf("abcd")
    path = cache.put("abcd.lidia", writes(archive("abcd"))).with_name(key)
    path.write_bytes(data)
    assert cache.get(key) is None
    assert not path.exists()
    if not key.endswith("segments"):
        assert cache.put(key, writes(full)) == path == cache.get(key)


@pytest.mark.parametrize("what", ["link", "pipe"])
def test_an_entry_that_is_a_link_or_a_pipe_is_removed_and_not_followed(tmp_path: Path, what: str) -> None:
    cache = Cache(tmp_path / "cache")
    cache.put("abcd.lidia", writes(archive("abcd")))
    outside = tmp_path / "outside.lidia"
    outside.write_bytes(archive("abce"))
    planted = cache.path("abce.lidia")
    planted.parent.mkdir(0o700, exist_ok=True)
    planted.symlink_to(outside) if what == "link" else os.mkfifo(planted)
    assert cache.get("abce.lidia") is None
    assert not planted.is_symlink()
    assert outside.read_bytes() == archive("abce")


# files and folders of others are not changed


def personal_files(root: Path) -> dict[Path, bytes]:
    """Fill a folder with personal files, some of them named like files of a cache, and return its contents."""
    for name in ("ab/abcd.lidia", "ab/notes.txt", "src/main.py", "README", "ab/.lock"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(archive("abcd") if name.endswith("lidia") else b"mine")
    return contents(root)


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_folder_with_files_but_no_marker_is_not_used_and_reported_once(tmp_path: Path) -> None:
    root = tmp_path / "project"
    before = personal_files(root)
    root.chmod(0o700)
    said: list[str] = []
    cache = Cache(root, limit_bytes=0, notify=said.append)
    assert cache.get("abcd.lidia") is None
    with pytest.raises(OSError, match="has files but no"):
        cache.put("abcd.lidia", writes(archive("abcd")))
    assert cache.trim() == 0
    assert contents(root) == before
    assert len(said) == 1
    assert "is not used: the folder has files but no whence-cache, so whence did not create it" in said[0]


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o750, 0o1777])
def test_a_cache_that_others_may_access_is_not_used(tmp_path: Path, mode: int) -> None:
    said: list[str] = []
    cache = Cache(tmp_path / "cache", notify=said.append)
    cache.put("abcd.lidia", writes(archive("abcd")))
    cache.root.chmod(mode)
    assert cache.get("abcd.lidia") is None
    assert said == [
        f"the cache {cache.root} is not used: its mode is {mode:o}, expected 700 so that no other user has access"
    ]
    cache.root.chmod(0o700)
    cache.path("abcd.lidia").parent.chmod(mode)
    assert Cache(tmp_path / "cache").get("abcd.lidia") is None


def test_a_new_or_empty_cache_folder_gets_mode_700(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir(0o755)
    for root in (empty, tmp_path / "new" / "cache"):
        path = Cache(root).put("abcd.lidia", writes(archive("abcd")))
        assert [folder.stat().st_mode & 0o777 for folder in (root, path.parent)] == [0o700, 0o700]
        assert (root / MARKER).is_file()


def test_an_empty_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    root = tmp_path / "open"
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(OSError, match="its mode is 777, expected 700"):
        Cache(root).put("abcd.lidia", writes(archive("abcd")))
    assert not list(root.iterdir())


def test_a_marker_that_is_a_link_is_ignored(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    cache.put("abcd.lidia", writes(archive("abcd")))
    (cache.root / MARKER).rename(tmp_path / "marker")
    (cache.root / MARKER).symlink_to(tmp_path / "marker")
    assert Cache(cache.root).get("abcd.lidia") is None


def test_trimming_follows_no_links_and_removes_only_entries(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", limit_bytes=0)
    cache.put("abcd.lidia", writes(archive("abcd")))
    outside = tmp_path / "outside"
    before = personal_files(outside)
    (cache.root / "xy").symlink_to(outside / "ab", target_is_directory=True)
    theirs = [
        cache.root / "ab" / "notes.txt", cache.root / "ab" / "abcd.lidia.bak", cache.root / "ab" / "cdef.lidia",
        cache.root / "letters" / "abcd.lidia", cache.root / "ab" / "deeper" / "abcd.lidia", cache.root / "README",
    ]  # fmt: skip
    for path in theirs:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"mine")
    linked = cache.root / "ab" / "abff.lidia"
    linked.symlink_to(outside / "ab" / "abcd.lidia")
    cache.trim()
    assert not cache.path("abcd.lidia").exists()
    assert all(path.read_bytes() == b"mine" for path in theirs)
    assert contents(outside) == before


def test_a_linked_folder_of_entries_is_not_read(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    cache.put("abcd.lidia", writes(archive("abcd")))
    (tmp_path / "cd").mkdir(mode=0o700)
    (tmp_path / "cd" / "cdef.lidia").write_bytes(archive("cdef"))
    (cache.root / "cd").symlink_to(tmp_path / "cd", target_is_directory=True)
    assert cache.get("cdef.lidia") is None
    with pytest.raises(OSError, match="not a folder"):
        cache.put("cdef.lidia", writes(archive("cdef")))
    (cache.root / SERVERS).symlink_to(tmp_path)
    with pytest.raises(OSError, match="not a folder"):
        cache.folder(SERVERS)


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    cache.put("abcd.lidia", writes(archive("abcd")))
    lock = cache.root / "ab" / ".lock"
    lock.unlink()
    lock.symlink_to(tmp_path / "made")
    cache.put("abce.lidia", writes(archive("abce")))
    assert not (tmp_path / "made").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
def test_a_cache_of_another_user_is_not_used(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    cache.put("abcd.lidia", writes(archive("abcd")))
    os.chown(cache.root, 65534, 65534)
    said: list[str] = []
    assert Cache(cache.root, notify=said.append).get("abcd.lidia") is None
    assert "the folder belongs to another user" in said[0]
    os.chown(cache.root, 0, 0)
    os.chown(cache.path("abcd.lidia"), 65534, 65534)
    assert Cache(cache.root).get("abcd.lidia") is None
