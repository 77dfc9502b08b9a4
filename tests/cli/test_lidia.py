"""whence lidia: its output, the files it writes, and its errors for truncated files."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

from tests.forge.lidia import Forged, prefixed
from tests.helpers.programs import compiled
from whence import lidia
from whence.cli import lidia as command
from whence.cli.main import parsed, plain_options

WHENCE = [sys.executable, "-m", "whence.cli", "lidia"]


def run(*words: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WHENCE, *map(str, words)], capture_output=True, text=True, cwd=folder)


def test_create_puts_the_archive_into_the_current_folder_and_tells_what_went_in(tmp_path: Path) -> None:
    path = compiled()
    done = run("create", path, "--json", folder=tmp_path)
    told = json.loads(done.stdout)
    assert told["archive"] == f"{path.name}.lidia"
    assert told["ranges"] == sum(told["sources"].values()) > 10
    assert told["lines"] > 10
    assert told["archive_bytes"] == (tmp_path / told["archive"]).stat().st_size
    assert [each.name for each in tmp_path.iterdir()] == [told["archive"]]


def test_info_verify_and_dump_agree_with_what_was_created(tmp_path: Path) -> None:
    told = json.loads(run("create", compiled(), "--json", folder=tmp_path).stdout)
    archive = tmp_path / told["archive"]
    info = json.loads(run("info", archive, "--json").stdout)
    assert (info["ranges"], info["sources"], info["machine"]) == (told["ranges"], told["sources"], "x86-64")
    assert json.loads(run("verify", archive, "--json").stdout) == {
        "archive": str(archive),
        "ok": True,
        "problems": [],
        "notes": [],
    }
    rows = [json.loads(line) for line in run("dump", archive, "--json").stdout.splitlines()]
    assert len(rows) == told["ranges"]
    main = next(row for row in rows if row["function"] == "main" and row["depth"] == 0)
    start = int(main["address"], 16)
    inside = run("dump", archive, f"{start:x}", f"{start + 1:x}", "--json").stdout.splitlines()
    assert next(json.loads(line)["function"] for line in inside) == "main"
    assert "called at" in run("dump", archive).stdout


def test_options_leave_things_out(tmp_path: Path) -> None:
    without = ("--no-dwarf", "--no-lines"), ("--no-files",), ("--no-symtab", "--no-dwarf"), ("--compat", "go")
    for options in without:
        out = tmp_path / "out.lidia"
        told = json.loads(run("create", compiled(), "-o", out, "--json", *options).stdout or "{}")
        rows = [json.loads(line) for line in run("dump", out, "--json").stdout.splitlines()]
        assert len(rows) == told["ranges"]
        if "--no-dwarf" in options or "--compat" in options:
            assert told["lines"] == 0
        if "--no-files" in options:
            assert not any(row["file"] or row["call_file"] for row in rows)


def test_a_damaged_archive_and_a_cut_binary_are_told_in_a_line_and_end_with_3(tmp_path: Path) -> None:
    run("create", compiled(), "-o", tmp_path / "whole.lidia")
    data = bytearray((tmp_path / "whole.lidia").read_bytes())
    data[len(data) // 2] ^= 0x40
    (tmp_path / "damaged.lidia").write_bytes(data)
    done = run("verify", tmp_path / "damaged.lidia")
    assert done.returncode == 3
    assert "CRC32C" in done.stdout
    (tmp_path / "cut").write_bytes(compiled().read_bytes()[:4000])
    done = run("create", tmp_path / "cut", "-o", tmp_path / "out.lidia")
    assert done.returncode == 3
    assert "section table" in done.stderr
    done = run("create", __file__, "-o", tmp_path / "none.lidia")
    assert done.returncode == 3
    assert done.stderr.startswith(f"whence: {__file__}: not an ELF file: ")
    assert not (tmp_path / "none.lidia").exists()


def test_a_pipe_or_a_device_is_written_to_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    assert run("create", compiled(), "-o", pipe).returncode == 0
    read, _ = reader.communicate()
    with lidia.from_bytes(read, crc=True) as table:
        assert len(table) > 10
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]


def test_of_a_link_the_file_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("archive")
    assert run("create", compiled(), "-o", tmp_path / "link").returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert run("verify", tmp_path / "archive").returncode == 0


def test_an_output_that_can_not_be_made_is_told_by_its_own_name(tmp_path: Path) -> None:
    done = run("create", compiled(), "-o", tmp_path / "none" / "out")
    assert (done.returncode, done.stderr) == (3, f"whence: {tmp_path}/none/out: No such file or directory\n")
    done = run("create", compiled(), "-o", tmp_path)
    assert (done.returncode, done.stderr) == (3, f"whence: {tmp_path}: Is a directory\n")
    assert list(tmp_path.iterdir()) == []


def test_the_binary_is_not_overwritten_by_its_archive(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(compiled().read_bytes())
    done = run("create", copy, "-o", copy)
    assert (done.returncode, done.stderr) == (2, f"whence lidia create: {copy} is the binary itself: give another -o\n")
    assert copy.read_bytes() == compiled().read_bytes()


def test_an_error_for_another_kind_of_file_names_the_command_that_reads_it(tmp_path: Path) -> None:
    run("create", compiled(), "-o", tmp_path / "archive")
    assert "it is a lidia archive" in run("create", tmp_path / "archive").stderr
    assert "whence lidia create makes an archive" in run("info", compiled()).stderr


def test_ranges_without_a_length_are_a_note_and_the_archive_is_whole(tmp_path: Path) -> None:
    strings, offset = prefixed(b"start", b"end")
    rows = [
        (16, 8, 0, offset[b"start"], *[0] * 5),
        (24, 0, 0, offset[b"end"], *[0] * 5),
        (32, 0, 0, offset[b"end"], *[0] * 5),
    ]
    archive = tmp_path / "made-by-go"
    archive.write_bytes(Forged(rows, strings).bytes())
    done = run("verify", archive)
    assert done.returncode == 0
    note = "2 ranges have no length and cover no address (first range 1): the Go package keeps such symbols"
    assert done.stdout == f"{archive}: note: {note}\n{archive}: OK: structure and checksums are valid\n"
    told = json.loads(run("verify", archive, "--json").stdout)
    assert (told["ok"], told["problems"], told["notes"]) == (True, [], [note])
    done = run("info", archive)
    assert (done.returncode, note in done.stdout) == (0, True)
    assert json.loads(run("info", archive, "--json").stdout)["without_length"] == 2


def test_the_help_says_what_the_go_package_can_not_read_and_where_its_addresses_are_wrong() -> None:
    told = " ".join(run("create", "--help").stdout.split())
    assert "NUL, which the Go package and Pyroscope cannot read" in told
    assert "Go 1.26 or later linked externally, for which the Go package shifts every function" in told


def test_options_that_contradict_each_other_are_wrong_use(tmp_path: Path) -> None:
    for options in (["--compat", "go", "--strings", "nul"], ["--compat", "go", "--demangle"], ["--jobs", "0"]):
        assert run("create", compiled(), *options, folder=tmp_path).returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_the_plain_ways_to_create_mean_what_argparse_makes_of_them() -> None:
    for words in (["create", "FILE"], ["create", "FILE", "-o", "OUT"]):
        plain = plain_options(words, False, command)
        assert plain is not None
        asked = vars(parsed(["lidia", *words], False, command))
        assert {key: value for key, value in vars(plain).items() if key != "words"} == asked


def test_other_ways_to_create_are_left_to_argparse() -> None:
    for words in (["create"], ["create", "-o", "OUT"], ["create", "FILE", "-o", "-"], ["create", "--json", "FILE"]):
        assert plain_options(words, False, command) is None
    assert plain_options(["info", "FILE"], False, command) is None
