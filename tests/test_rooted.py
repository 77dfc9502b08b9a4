"""Links inside another process's root lead nowhere but into that root."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.live import compiled, running
from whence._base import rooted
from whence._base.errors import ElfError
from whence._base.files import open_regular
from whence.locate.debug_files import folders_of
from whence.symbolize import Symbolizer

CHROOT = (
    shutil.which("chroot", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or ""
)  # not on the PATH of all users


@pytest.fixture
def process(tmp_path: Path) -> Path:
    """Create the directory of a process whose root has files, beside files of this machine."""
    directory = tmp_path / "proc" / "7"
    directory.mkdir(parents=True)
    (directory / "maps").write_text("")
    jail = tmp_path / "jail"
    (jail / "usr" / "lib").mkdir(parents=True)
    (jail / "opt").mkdir()
    (jail / "opt" / "a").write_text("inside")
    (tmp_path / "a").write_text("outside")
    (directory / "root").symlink_to(jail)
    return directory


def content(path: str) -> str:
    with open_regular(path, ElfError) as (descriptor, size):
        return os.read(descriptor, size).decode()


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("opt/x", "/opt/a", "opt/x"),
        ("opt/x", "../../../../../opt/a", "opt/x"),
        ("usr/lib/debug", "/opt", "usr/lib/debug/a"),
        ("usr/lib/debug", "../../opt", "usr/lib/debug/../opt/./a"),
    ],
)
def test_a_link_in_a_processs_root_is_followed_as_the_process_would(
    process: Path, link: str, target: str, path: str
) -> None:
    (process / "root" / link).symlink_to(target)
    assert content(f"{process}/root/{path}") == "inside"
    assert rooted.real_path(f"{process}/root/{path}") == f"{process}/root/opt/a"


def test_a_link_to_files_of_ours_is_not_followed_out_of_a_processs_root(process: Path, tmp_path: Path) -> None:
    (process / "root" / "usr" / "lib" / "debug").symlink_to(tmp_path)
    (process / "root" / "x").symlink_to(tmp_path / "a")
    (process / "root" / "up").symlink_to("../" * 30 + str(tmp_path / "a"))
    for path in ("usr/lib/debug/a", "x", "up"):
        assert Path(f"{process}/root/{path}").read_text() == "outside", "the kernel follows it"
        with pytest.raises(FileNotFoundError) as caught:
            content(f"{process}/root/{path}")
        assert caught.value.filename == f"{process}/root/{path}"


def test_links_in_a_circle_and_folders_without_end_are_errors(process: Path) -> None:
    (process / "root" / "x").symlink_to("/y")
    (process / "root" / "y").symlink_to("/x")
    (process / "root" / "z").symlink_to("/opt/" + "../opt/" * 500)
    with pytest.raises(OSError, match="symbolic links"):
        content(f"{process}/root/x")
    with pytest.raises(IsADirectoryError):
        content(f"{process}/root/z")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="symbolic links"):
        content(f"{process}/root/y")
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_folders_beside_a_file_of_another_root_are_in_that_root(process: Path) -> None:
    (process / "root" / "bin").symlink_to("/opt")
    root = f"{process}/root"
    assert folders_of(f"{root}/bin/a") == [f"{root}/bin", f"{root}/opt"]


SECRET = "int secret_of_the_host(int x) { return x; }"


@pytest.mark.skipif(os.geteuid() != 0 or not CHROOT, reason="only root may chroot, by coreutils")
@pytest.mark.skipif(not shutil.which("objcopy"), reason="no objcopy on this machine")
@pytest.mark.parametrize("inside", [False, True])
def test_a_jailed_process_leads_the_symbolizer_to_debug_files_of_its_own_root_only(
    tmp_path: Path, inside: bool
) -> None:
    jail, elsewhere = tmp_path / "jail", tmp_path / "elsewhere"
    program = compiled(tmp_path, "-static", "-Wl,--build-id=0xabcdef0123456789abcdef0123456789abcdef01")
    (jail / "usr" / "lib").mkdir(parents=True)
    target = jail / "opt" / "debug" if inside else elsewhere
    entry = target / ".build-id" / "ab" / "cdef0123456789abcdef0123456789abcdef01.debug"
    entry.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, entry], check=True)
    subprocess.run(["objcopy", "--strip-all", program, jail / "app"], check=True)
    (jail / "usr" / "lib" / "debug").symlink_to("/opt/debug" if inside else elsewhere)
    with running([CHROOT, jail, "/app"]) as (pid, words), Symbolizer() as symbolizer:
        answer = symbolizer.symbolize(pid, [int(words[0], 16)])[0]
    assert bool(answer.frames) == inside, answer
    assert not inside or answer.frames[0].function == "marker"
