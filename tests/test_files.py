"""Opening accepts only regular files; writing leaves either the old file or the complete new file."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.live import state, until
from tests.helpers.programs import compiled
from whence import profiles
from whence._base import files
from whence._base.errors import ElfError, ProfileError
from whence._base.files import (
    atomic_text,
    atomic_write,
    open_examined,
    open_input,
    open_regular,
)
from whence.binary import is_archive
from whence.locate.crc import crc32_of_zeros, stored_crc32
from whence.locate.debug_files import DebugFiles
from whence.objects.elf import ElfFile

NOBODY = 65534
WHENCE = [sys.executable, "-m", "whence"]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can take the part of two users")


@pytest.fixture(params=["nameless", "named"], autouse=True)
def nameless(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a file that is written has no name before it is whole, where there are such files."""
    if request.param == "named":
        monkeypatch.setattr(files, "O_TMPFILE", 0)
    return bool(files.O_TMPFILE)


def has_nameless(folder: Path) -> bool:
    """Whether the file system of a folder has files without a name."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR))
    except (OSError, AttributeError):
        return False
    return True


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def put(path: Path | str, data: bytes) -> None:
    with atomic_write(path) as file:
        file.write(data)


def give_up_after(write: Callable[[Any], object], data: bytes | str, error: type[BaseException]) -> None:
    write(data)
    raise error


def as_nobody(what: Callable[[], None]) -> int:
    """Run a function in a child as another user; return 0 on success, 1 for a PermissionError."""
    child = os.fork()
    if not child:
        code = 2
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            what()
            code = 0
        except PermissionError:
            code = 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder like /tmp."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


# opening


@pytest.fixture(params=["O_PATH", "stat", "no /proc"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How files are looked at: on Linux, on other systems, and where /proc is not mounted."""
    if request.param == "stat":
        monkeypatch.setattr(files, "O_PATH", 0)
    if request.param == "no /proc":
        true_open = os.open

        def without_proc(path: str, *words: int, **options: int) -> int:
            if isinstance(path, str) and path.startswith("/proc/"):
                raise FileNotFoundError(2, "No such file or directory", path)
            return true_open(path, *words, **options)

        monkeypatch.setattr(os, "open", without_proc)
    return str(request.param)


def test_a_regular_file_is_opened_through_links_and_relative_to_a_folder(way: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"seven b")
    (tmp_path / "link").symlink_to("file")
    for path in ("file", "link"):
        with open_regular(tmp_path / path, ElfError) as (descriptor, size):
            assert (os.read(descriptor, 99), size) == (b"seven b", 7)
    folder = os.open(tmp_path, os.O_RDONLY)
    with open_regular("link", ElfError, dir_fd=folder) as (descriptor, _):
        assert os.read(descriptor, 3) == b"sev"
    os.close(folder)
    with pytest.raises(OSError, match="not a regular file"):
        open_examined(tmp_path / "link", follow=False)
    with pytest.raises(FileNotFoundError) as caught, open_regular(tmp_path / "none", ElfError):
        pass
    assert caught.value.filename == str(tmp_path / "none")


def test_a_pipe_is_looked_at_and_never_opened(way: str, tmp_path: Path) -> None:
    """A writer that waits for a reader waits on, and is not told that there is one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"echo data > {pipe}"]) as writer:
        assert until(lambda: state(f"/proc/{writer.pid}") == "S")  # it waits for a reader
        for open_it in (is_archive, ElfFile.open):
            with pytest.raises(ElfError, match="regular file"):
                open_it(pipe)
        assert writer.poll() is None
        assert pipe.read_bytes() == b"data\n"
    assert writer.returncode == 0


def test_devices_sockets_and_folders_are_never_opened(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        opened: list[object] = []
        before = os.open

        def seen(path: str, flags: int, *words: int, **options: int) -> int:
            if not flags & getattr(os, "O_PATH", 0):
                opened.append(path)
            return before(path, flags, *words, **options)

        monkeypatch.setattr(os, "open", seen)
        for path in ("/dev/null", "/dev/zero", str(tmp_path / "socket")):
            with pytest.raises(ElfError, match="not a regular file"), open_regular(path, ElfError):
                pass
            with pytest.raises(ProfileError, match="not a regular file"):
                open_input(path, ProfileError)
        with pytest.raises(IsADirectoryError), open_regular(tmp_path, ElfError):
            pass
        assert opened == []


def test_an_input_may_be_a_pipe(way: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"main;work 3\n"))
    writer.start()
    with open_input(pipe, ProfileError) as file:
        assert file.read() == b"main;work 3\n"
    writer.join()


def test_a_profile_that_is_a_device_is_refused_by_name() -> None:
    with pytest.raises(ProfileError, match="/dev/zero: a device"):
        profiles.read("/dev/zero")


def linking(folder: Path, section: str, name: str, tail: bytes) -> Path:
    """The test program without debug info, with a link to another file."""
    path, content = folder / "program", folder / "content"
    content.write_bytes(name.encode() + b"\0" + tail)
    words = ["--strip-debug", "--remove-section=.note.gnu.build-id", f"--add-section={section}={content}"]
    subprocess.run(["objcopy", *words, compiled(), path], check=True)
    return path


def test_the_device_that_an_alt_link_names_is_not_opened(tmp_path: Path) -> None:
    """A pipe represents /dev/watchdog: opening it without blocking would wake its writer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = linking(tmp_path, ".gnu_debugaltlink", str(pipe), bytes(20))
    with subprocess.Popen(["sh", "-c", f"echo data > {pipe}"]) as writer, ElfFile.open(program) as elf:
        assert until(lambda: state(f"/proc/{writer.pid}") == "S")  # it waits for a reader
        search = DebugFiles([]).alt_file(elf)
        assert not search
        assert any("regular file" in each.detail for each in search.tried)
        assert writer.poll() is None
        pipe.read_bytes()


def test_the_checksum_of_a_sparse_file_reads_what_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    size = 1 << 44  # 16 TiB: nothing could read it
    with open(path, "wb") as file:
        file.write(b"start")
        file.seek(1 << 24)
        file.write(b"middle")
        try:
            file.truncate(size)
        except OSError:
            size = 1 << 40
            file.truncate(size)
    began = time.process_time()
    with open_regular(path, ElfError) as (descriptor, _):
        stored_crc32(descriptor, size)
        assert time.process_time() - began < 2
        small = os.pread(descriptor, (1 << 24) + 10000, 0)
        assert stored_crc32(descriptor, len(small)) == zlib.crc32(small)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 255, 4096, 1000003])
@pytest.mark.parametrize("before", [b"", b"a", bytes(3), b"whence" * 20])
def test_a_checksum_continues_over_zeros(before: bytes, count: int) -> None:
    assert crc32_of_zeros(zlib.crc32(before), count) == zlib.crc32(before + bytes(count))


@pytest.mark.parametrize("right", [True, False])
def test_a_sparse_debug_link_of_many_gigabytes_is_checked_at_once(tmp_path: Path, right: bool) -> None:
    debug = tmp_path / "program.debug"
    subprocess.run(
        ["objcopy", "--only-keep-debug", "--remove-section=.note.gnu.build-id", compiled(), debug], check=True
    )
    crc = zlib.crc32(debug.read_bytes())
    size = 16 << 30
    crc = crc32_of_zeros(crc, size - debug.stat().st_size)
    os.truncate(debug, size)
    tail = bytes(-len("program.debug\0") % 4) + (crc ^ (not right)).to_bytes(4, "little")
    program = linking(tmp_path, ".gnu_debuglink", "program.debug", tail)
    began = time.process_time()
    with ElfFile.open(program) as elf:
        search = DebugFiles([]).debug_file(elf)
        assert bool(search) == right
        if search.elf is not None:
            search.elf.close()
    assert time.process_time() - began < 2


# writing


def test_a_file_takes_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert left(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError, SystemExit, GeneratorExit])
def test_what_was_not_finished_leaves_the_old_bytes_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    for target in (path, tmp_path / "new"):
        with pytest.raises(error), atomic_write(target) as file:
            give_up_after(file.write, bytes(100000), error)
    assert path.read_bytes() == b"old"
    assert left(tmp_path) == ["out"]


def test_the_temporary_name_is_short_and_is_never_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "O_TMPFILE", 0)
    longest = tmp_path / ("n" * 250)
    names = set()
    for _ in range(20):
        with atomic_write(longest) as file:
            file.write(b"x")
            (name,) = [name for name in left(tmp_path) if name != longest.name]
            names.add(name)
            assert len(name) < 64
            assert str(os.getpid()) != name
    assert len(names) == 20
    assert left(tmp_path) == [longest.name]


def test_of_a_process_that_is_killed_nothing_is_left(tmp_path: Path, nameless: bool) -> None:
    if not has_nameless(tmp_path):
        pytest.skip("files of this file system have names")
    code = """if True:
        import sys
        from whence._base import files
        if sys.argv[2] == "named":
            files.O_TMPFILE = 0
        with files.atomic_write(sys.argv[1]) as file:
            file.write(bytes(100_000))
            print("working", flush=True)
            sys.stdin.read()
    """
    (tmp_path / "old").write_bytes(b"old")
    for name in ("old", "new"):
        words = [sys.executable, "-c", code, str(tmp_path / name), "nameless" if nameless else "named"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"working\n"
            child.kill()
    assert (tmp_path / "old").read_bytes() == b"old"
    assert len(left(tmp_path)) == (1 if nameless else 3)


def test_a_file_that_may_not_be_given_a_name_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **options: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    old, data = tmp_path / "old", os.urandom((1 << 20) + 5)
    old.write_bytes(b"old")
    old.chmod(0o640)
    for path in (old, tmp_path / "new"):
        put(path, data)
        assert path.read_bytes() == data
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert left(tmp_path) == ["new", "old"]


def test_files_that_are_named_like_temporary_ones_of_old_are_left_alone(tmp_path: Path) -> None:
    for name in ("out.part", f".out.{os.getpid()}.part"):
        (tmp_path / name).write_bytes(b"mine")
    put(tmp_path / "out", b"new")
    assert (tmp_path / "out.part").read_bytes() == b"mine"
    assert (tmp_path / f".out.{os.getpid()}.part").read_bytes() == b"mine"


def test_threads_and_processes_that_write_one_file_leave_the_whole_of_one(tmp_path: Path) -> None:
    path = tmp_path / "out"

    def write(byte: int) -> None:
        for _ in range(10):
            with atomic_write(path) as file:
                for _ in range(50):
                    file.write(bytes([byte]) * 1000)

    child = os.fork()
    if not child:
        try:
            write(9)
        finally:
            os._exit(0)
    threads = [threading.Thread(target=write, args=(byte,)) for byte in range(5)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if path.exists():
            data = path.read_bytes()
            assert len(data) == 50000
            assert len(set(data)) == 1
    os.waitpid(child, 0)
    assert left(tmp_path) == ["out"]


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        put(tmp_path / "out", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


@pytest.mark.parametrize(("mode", "kept"), [(0o600, 0o600), (0o640, 0o640), (0o777, 0o777), (0o4755, 0o755)])
def test_the_mode_of_a_replaced_file_is_kept_without_its_special_bits(tmp_path: Path, mode: int, kept: int) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(mode)
    put(path, b"new")
    assert (stat.S_IMODE(path.stat().st_mode), path.read_bytes()) == (kept, b"new")


@as_root
def test_the_owner_of_a_replaced_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o640)
    put(path, b"new")
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (NOBODY, NOBODY, 0o640)


def test_the_attributes_of_a_replaced_file_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.note", b"mine")
    except (OSError, AttributeError):
        pytest.skip("the file system keeps no user attributes")
    put(path, b"new")
    assert os.getxattr(path, "user.note") == b"mine"


def test_the_access_control_list_of_a_replaced_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    owner, user, group, mask, other = 1, 2, 4, 16, 32  # tags of acl(5)
    entries = [(owner, 6, 0xFFFFFFFF), (user, 6, NOBODY), (group, 4, 0xFFFFFFFF), (mask, 6, 0xFFFFFFFF)]
    rules = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in [*entries, (other, 0, 0xFFFFFFFF)])
    try:
        os.setxattr(path, "system.posix_acl_access", rules)
    except (OSError, AttributeError):
        pytest.skip("the file system keeps no access control lists")
    put(path, b"new")
    assert os.getxattr(path, "system.posix_acl_access") == rules
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "out"
    (tmp_path / "second").symlink_to("folder/out")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    put(tmp_path / "first", b"made")
    put(tmp_path / "first", b"new")
    assert target.read_bytes() == b"new"
    assert (tmp_path / "first").is_symlink()
    assert left(tmp_path / "folder") == ["out"]


@pytest.mark.parametrize("path", ["", "folder", "folder/", "loop", "none/out", "file/out"])
def test_what_can_not_be_written_is_an_error_with_its_name(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").touch()
    Path("loop").symlink_to("loop")
    before = left(tmp_path)
    with pytest.raises(OSError) as caught, atomic_write(path):
        pass
    assert caught.value.filename == path
    assert left(tmp_path) == before


def test_an_error_of_another_file_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, atomic_write(tmp_path / "out"):
        open(tmp_path / "input").close()
    assert caught.value.filename == str(tmp_path / "input")


@as_root
def test_another_users_link_in_a_folder_for_everyone_is_not_followed(shared: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"root's")
    for name in ("out", "chain"):
        (shared / name).symlink_to(precious if name == "out" else shared / "out")
        os.lchown(shared / name, NOBODY, NOBODY)
    for name in ("out", "chain"):
        with pytest.raises(PermissionError, match="another user's link"):
            put(shared / name, b"new")
    (tmp_path / "mine").symlink_to(shared / "out")  # one's own link that leads to another's
    with pytest.raises(PermissionError, match="another user's link"):
        put(tmp_path / "mine", b"new")
    assert precious.read_bytes() == b"root's"
    os.lchown(shared / "out", 0, 0)
    put(shared / "out", b"new")  # one's own
    assert precious.read_bytes() == b"new"


@as_root
@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_another_users_file_in_a_folder_for_everyone_is_not_written(shared: Path, kind: str) -> None:
    path = shared / "out"
    os.mkfifo(path) if kind == "pipe" else path.write_bytes(b"nobody's")
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(PermissionError, match="another user's file"):
        put(path, b"new")
    assert left(shared) == ["out"]


@as_root
def test_another_user_writes_what_is_theirs_and_nothing_else(shared: Path) -> None:
    (shared / "roots").write_bytes(b"root's")
    (shared / "roots").chmod(0o644)
    (shared / "link").symlink_to(shared / "out")
    os.lchown(shared / "link", 1, 1)
    assert as_nobody(lambda: put(shared / "out", b"theirs")) == 0
    assert (shared / "out").stat().st_uid == NOBODY
    assert as_nobody(lambda: put(shared / "roots", b"new")) == 1
    assert as_nobody(lambda: put(shared / "link", b"new")) == 1
    assert (shared / "roots").read_bytes() == b"root's"
    assert (shared / "out").read_bytes() == b"theirs"
    assert left(shared) == ["link", "out", "roots"]


@as_root
def test_a_file_that_may_only_be_read_is_not_replaced(shared: Path) -> None:
    path = shared / "folder" / "out"
    path.parent.mkdir()
    path.write_bytes(b"old")
    path.chmod(0o444)
    for each in (path.parent, path):
        os.chown(each, NOBODY, NOBODY)
    assert as_nobody(lambda: put(path, b"new")) == 1
    path.chmod(0o644)
    assert as_nobody(lambda: put(path, b"new")) == 0
    assert path.read_bytes() == b"new"


@as_root
def test_a_group_that_can_not_be_kept_takes_its_rights_with_it(shared: Path) -> None:
    path = shared / "folder" / "out"
    path.parent.mkdir()
    path.parent.chmod(0o777)
    path.write_bytes(b"old")
    os.chown(path, NOBODY, 12345)
    path.chmod(0o664)
    assert as_nobody(lambda: put(path, b"new")) == 0
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (NOBODY, NOBODY, 0o644)


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    put(pipe, b"data")
    reader.join()
    assert got == [b"data"]
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_is_written_to_as_it_is(tmp_path: Path, name: str) -> None:
    code = f"from whence._base.files import atomic_write\nwith atomic_write({name!r}) as file: file.write(b'data')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"data"
    kept = tmp_path / "kept"
    kept.write_bytes(b"before ")
    with open(kept, "ab") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
        out.write(b" after")
    assert kept.read_bytes() == b"before data after"


def test_an_archive_is_written_to_a_standard_output_opened_for_appending(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"")
    with open(out, "ab") as file:
        command = [*WHENCE, "lidia", "create", str(compiled()), "-o", "/dev/stdout", "--json"]
        subprocess.run(command, stdout=file, check=True)
    subprocess.run([*WHENCE, "lidia", "create", str(compiled()), "-o", str(tmp_path / "whole")], check=True)
    full = (tmp_path / "whole").read_bytes()
    assert out.read_bytes()[: len(full)] == full


def test_text_is_written_as_it_is_given(tmp_path: Path) -> None:
    with atomic_text(tmp_path / "out") as text:
        text.write("a\r\nb\n\udcff\u00e4")
    assert (tmp_path / "out").read_bytes() == b"a\r\nb\n\xff\xc3\xa4"
    with pytest.raises(KeyboardInterrupt), atomic_text(tmp_path / "out") as text:
        give_up_after(text.write, "x" * 100000, KeyboardInterrupt)
    assert (tmp_path / "out").read_bytes() == b"a\r\nb\n\xff\xc3\xa4"
    assert left(tmp_path) == ["out"]


# the commands


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Files can't grow beyond this, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


TRACE = "Trace Go1.22\nEventBatch gen=1 m=18446744073709551615 time=1 size=7\nFrequency freq=15625000\n"


def commands(folder: Path) -> dict[str, list[str]]:
    (folder / "trace.txt").write_text(TRACE)
    (folder / "cpu.folded").write_text("main;work 3\n")
    return {
        "lidia create": ["lidia", "create", str(compiled())],
        "trace wire": ["trace", "wire", str(folder / "trace.txt")],
        "profile": ["profile", str(folder / "cpu.folded"), "--no-cache"],
        "pid --save-snapshot": ["pid", str(os.getpid()), "--save-snapshot"],
    }


@pytest.mark.parametrize("command", ["lidia create", "trace wire", "profile", "pid --save-snapshot"])
def test_a_full_disk_leaves_the_file_that_was_there_and_nothing_else(tmp_path: Path, command: str) -> None:
    out = tmp_path / "folder" / "out.folded"
    out.parent.mkdir()
    out.write_bytes(b"old")
    words = commands(tmp_path)[command]
    words += [str(out)] if command.startswith("pid") else ["-o", str(out)]
    with room_for(4):
        done = subprocess.run([*WHENCE, *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, f"whence: {out}: File too large\n")
    assert out.read_bytes() == b"old"
    assert left(out.parent) == ["out.folded"]
    assert subprocess.run([*WHENCE, *words], capture_output=True).returncode in (0, 1)
    assert out.read_bytes() != b"old"


def test_a_demo_on_a_full_disk_has_only_whole_files(tmp_path: Path) -> None:
    with room_for(1000):
        done = subprocess.run([*WHENCE, "demo", str(tmp_path / "demo")], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, f"whence: {tmp_path}/demo/app: File too large\n")
    assert left(tmp_path / "demo") == ["app.c"]


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_rows_of_a_trace_are_the_same_through_a_pipe_and_in_a_file_written_whole(tmp_path: Path, format: str) -> None:
    text, wire, out = tmp_path / "trace.txt", tmp_path / "trace", tmp_path / "folder" / "out"
    text.write_text(TRACE + "EventBatch gen=1 m=1 time=2 size=9\nProcStart dt=1 p=0 p_seq=1\n")
    subprocess.run([*WHENCE, "trace", "wire", text, "--fix-sizes", "-o", wire], capture_output=True, check=True)
    out.parent.mkdir()
    out.write_bytes(b"old")
    command = [*WHENCE, "trace", "events", str(wire), "--format", format]
    with room_for(3):
        assert subprocess.run([*command, "-o", str(out)], capture_output=True).returncode == 3
    assert out.read_bytes() == b"old"
    assert left(out.parent) == ["out"]
    subprocess.run([*command, "-o", str(out)], check=True)
    assert out.read_bytes() == subprocess.run(command, capture_output=True, check=True).stdout


def test_a_trace_with_a_bad_last_line_leaves_the_file_it_was_to_replace(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    text = TRACE + "EventBatch gen=1 m=1 time=2 size=9\nNo such event\n"
    path.write_text(text)
    done = subprocess.run([*WHENCE, "trace", "wire", str(path), "-o", str(path)], capture_output=True, text=True)
    assert done.returncode == 3
    assert path.read_text() == text
    assert left(tmp_path) == ["trace.txt"]


def is_writing_in(pid: int, folder: Path) -> bool:
    """Whether a process has a file open in a folder: one with a temporary name, or none."""
    opened = Path(f"/proc/{pid}/fd")
    if not opened.exists():
        return len(left(folder)) == 2
    return any(os.path.realpath(each).startswith(f"{folder}/") for each in opened.iterdir())


def test_an_interrupted_conversion_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    """The input is a pipe that does not end, so the command is in the middle of it."""
    pipe, out = tmp_path / "pipe", tmp_path / "folder" / "out"
    out.parent.mkdir()
    out.write_bytes(b"old")
    os.mkfifo(pipe)
    command = [*WHENCE, "trace", "wire", str(pipe), "-o", str(out)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process, open(pipe, "w") as writer:
        writer.write(TRACE)
        writer.flush()
        assert until(lambda: is_writing_in(process.pid, out.parent))
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert process.returncode == 130
    assert out.read_bytes() == b"old"
    assert left(out.parent) == ["out"]


def test_a_writer_of_a_trace_puts_its_file_in_place_when_it_is_closed(tmp_path: Path) -> None:
    from whence.gotrace import Writer
    from whence.gotrace.specs import CURRENT

    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), Writer(path, CURRENT) as writer:
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    with Writer(path, CURRENT) as writer:
        writer.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes().startswith(b"go 1.")
    assert left(tmp_path) == ["out"]
