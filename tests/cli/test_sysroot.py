"""A core of a machine whose files lie below a folder: `--sysroot`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.cores import PROGRAM, core_of
from whence.cli import main

pytestmark = pytest.mark.skipif(not shutil.which("objcopy"), reason="no objcopy on this machine")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A core of a stripped program without build-id, and the only place where its machine's files still are.

    In the image /opt is a link to /srv, and the debug folder's link leads to the image's own /debug.
    """
    folder = tmp_path_factory.mktemp("sysroot")
    (folder / "program.c").write_text(PROGRAM)
    program, debug = folder / "opt" / "program", folder / "program.debug"
    program.parent.mkdir()
    words: list[str | Path] = ["gcc", "-g", "-O1", "-Wl,--build-id=none", "-pthread", "program.c", "-o", program]
    subprocess.run(words, cwd=folder, check=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program], check=True)
    core = core_of(program, "d")
    root = folder / "image"
    inside = root / str(folder).lstrip("/")
    (inside / "srv").mkdir(parents=True)
    (inside / "opt").symlink_to(folder / "srv")
    program.rename(inside / "srv" / "program")
    linked = root / "debug" / str(folder).lstrip("/") / "srv"
    linked.mkdir(parents=True)
    debug.rename(linked / "program.debug")
    (root / "usr" / "lib").mkdir(parents=True)
    (root / "usr" / "lib" / "debug").symlink_to("/debug")
    kept = folder / "core"
    core.rename(kept)
    return kept, root


def test_a_core_is_named_from_the_files_below_the_sysroot(
    image: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    core, root = image
    main(["core", str(core), "--no-cache"])
    assert "program.c" not in capfd.readouterr().out
    assert main(["core", str(core), "--no-cache", "--sysroot", str(root)]) == 1  # there is no libc in the image
    out = capfd.readouterr().out
    assert "boom at" in out
    assert f"{core.parent}/program.c:9" in out
    assert out.count("deep at") == 41
    assert "main at" in out
    tid = out.split("thread ")[1].split()[0]
    main(["explain", str(core), "--stack", tid, "--no-cache", "--sysroot", str(root)])
    assert "main at" in capfd.readouterr().out


def test_no_link_leads_out_of_the_sysroot(
    image: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    core, root = image
    other = tmp_path / "image"
    inside = other / str(core.parent).lstrip("/")
    inside.mkdir(parents=True)
    outside = tmp_path / "outside"
    shutil.copytree(root / str(core.parent).lstrip("/") / "srv", outside)
    (inside / "opt").symlink_to(outside)
    main(["core", str(core), "--no-cache", "--sysroot", str(other)])
    assert "program.c" not in capfd.readouterr().out
    os.mkdir(other / "debug")
    (inside / "opt").unlink()
    shutil.copytree(outside, inside / "opt")
    (other / "usr" / "lib").mkdir(parents=True)
    (other / "usr" / "lib" / "debug").symlink_to(root / "debug")
    main(["core", str(core), "--no-cache", "--sysroot", str(other)])
    assert "program.c" not in capfd.readouterr().out


def test_a_sysroot_that_is_no_folder_is_wrong_use(image: tuple[Path, Path], capfd: pytest.CaptureFixture[str]) -> None:
    core, _ = image
    assert main(["core", str(core), "--sysroot", str(core)]) == 2
    assert "--sysroot" in capfd.readouterr().err
