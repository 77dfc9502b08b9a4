"""`whence FILE [ADDRESS...]` and `whence PID` run the command that fits the content."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path

import pytest

import whence
from tests.forge import macho, pe
from tests.helpers.live import running
from tests.helpers.macho import dsym_of, put_dsym
from tests.helpers.profiles import program_profile
from tests.helpers.programs import compiled
from whence._base.errors import WrongUse
from whence.archive.create import create
from whence.cli.dispatch import command_for
from whence.cli.main import COMMANDS, main
from whence.gotrace import Event, Version, to_text
from whence.profiles.formats import registry

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(scope="module")
def program() -> Path:
    return compiled("-g", "-O1")


def go_trace() -> bytes:
    version = Version.GO1_26
    stop = Event(version, "ProcStop", [1]).encode()
    batch = Event(version, "EventBatch", [1, 1, 7, len(stop)]).encode() + stop
    return version.header + batch + Event(version, "EndOfGeneration", []).encode()


def trace_text() -> bytes:
    out = io.BytesIO()
    to_text(io.BytesIO(go_trace()), out)
    return out.getvalue()


def test_an_elf_file_is_explained_or_its_addresses_are_named(program: Path) -> None:
    assert command_for([str(program)]) == ["explain", str(program)]
    assert command_for([str(program), "--json"]) == ["explain", str(program), "--json"]
    assert command_for([str(program), "0x1170", "--json"]) == ["addr", str(program), "0x1170", "--json"]


def test_object_files_of_every_format_are_explained_or_named(tmp_path: Path) -> None:
    thin = macho.forge([macho.text()])
    contents = {
        "thin": thin, "a.exe": pe.forge([pe.Section(".text", b"1", pe.CODE)]), "a.wasm": b"\0asm\1\0\0\0",
        "a.obj": pe.forge_object([pe.Section(".text", b"1", pe.CODE)]),
    }  # fmt: skip
    for name, data in contents.items():
        path = tmp_path / name
        path.write_bytes(data)
        assert command_for([str(path)]) == ["explain", str(path)]
        assert command_for([str(path), "0x10"]) == ["addr", str(path), "0x10"]
    both = tmp_path / "both"
    both.write_bytes(macho.fat((macho.X86_64, thin), (macho.ARM64, thin)))
    assert command_for([f"{both}:arm64"]) == ["explain", f"{both}:arm64"]
    bundle = put_dsym(tmp_path, "thin", dsym_of())
    assert command_for([str(bundle), "10"]) == ["addr", str(bundle), "10"]
    (tmp_path / "text").write_text("MZ is a postal code\n")
    assert command_for([str(tmp_path / "text")])[0] == "filter"


@pytest.mark.parametrize("machine", ["aarch64", "ppc64le", "s390x"])
def test_a_core_of_any_byte_order_gives_stacks(machine: str) -> None:
    core = str(DATA / "cores" / f"{machine}.core")
    assert command_for([core]) == ["core", core]


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_an_archive_gives_its_info_or_names(program: Path, tmp_path: Path, ending: str) -> None:
    archive = tmp_path / f"x.lidia{ending}"
    create(program, archive)
    assert command_for([str(archive)]) == ["lidia", "info", str(archive)]
    assert command_for([str(archive), "10"]) == ["addr", str(archive), "10"]


def test_a_snapshot_needs_addresses(tmp_path: Path) -> None:
    path = tmp_path / "process.snapshot"
    whence.Process(os.getpid()).snapshot().save(str(path))
    assert command_for([str(path), "10"]) == ["addr", "--snapshot", str(path), "10"]
    with pytest.raises(WrongUse, match="a snapshot of a process: give addresses to name"):
        command_for([str(path)])


@pytest.mark.parametrize("content", [go_trace(), trace_text()], ids=["wire", "text"])
def test_a_go_trace_gives_its_summary(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trace.out"
    path.write_bytes(content)
    assert command_for([str(path)]) == ["trace", "info", str(path)]


@pytest.mark.parametrize("ending", ["pb.gz", "pb", "otlp", "otlp.json", "folded", "speedscope.json", "firefox.json"])
def test_a_profile_of_any_format_gives_its_top_functions(program: Path, tmp_path: Path, ending: str) -> None:
    profile = program_profile(program)
    path = tmp_path / f"profile.{ending}"
    registry.write(profile, str(path))
    assert command_for([str(path)]) == ["profile", str(path), "--top", "20"]


@pytest.mark.parametrize("path", sorted((DATA / "perf").glob("*.data")) + sorted((DATA / "perf").glob("*.txt")))
def test_a_recording_and_the_text_of_perf_script_give_their_top_functions(path: Path) -> None:
    assert command_for([str(path)]) == ["profile", str(path), "--top", "20"]


@pytest.mark.parametrize("path", sorted((DATA / "profiles").iterdir()), ids=lambda path: path.name)
def test_profiles_of_other_tools_give_their_top_functions(path: Path) -> None:
    assert command_for([str(path)]) == ["profile", str(path), "--top", "20"]


@pytest.mark.parametrize(
    "text",
    [
        "heap profile:      1:     4096 [     1:     4096] @ heap_v2/524288\n  1: 4096 [1: 4096] @ 0x401000\n",
        "heap_v2/524288\n  t*: 1: 4096 [0: 0]\n@ 0x401000\n  t*: 1: 4096 [0: 0]\n",
        "goroutine profile: total 3\n3 @ 0x401000\n",
        "main;work;f 12\nmain;work;g 3\n",
        "@[\n    f+1\n    main+5\n]: 3\n",
    ],
    ids=["heap", "jemalloc", "goroutines", "folded", "bpftrace"],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_a_text_profile_gives_its_top_functions(text: str, compressed: bool, tmp_path: Path) -> None:
    path = tmp_path / "profile"
    path.write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
    assert command_for([str(path)]) == ["profile", str(path), "--top", "20"]


def test_a_table_gives_the_columns_that_would_be_used(
    program: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = pa.table({"build_id": ["ab"], "address": pa.array([1], pa.uint64()), "host": ["h"]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    for name, options in (("t.arrow", pa.ipc.new_file), ("t.arrows", pa.ipc.new_stream)):
        with options(str(tmp_path / name), table.schema) as writer:
            writer.write_table(table)
    (tmp_path / "t.csv").write_text("host,build_id,address\nh,ab,10\n")
    (tmp_path / "t.jsonl").write_text(json.dumps({"build_id": "ab", "address": "0x10", "host": "h"}) + "\n")
    for name in ("t.parquet", "t.arrow", "t.arrows", "t.csv", "t.jsonl"):
        path = str(tmp_path / name)
        assert command_for([path]) == ["columns", path]
        assert main([path]) == 0
        out = capfd.readouterr().out
        assert "build-ids  build_id" in out
        assert "addresses  address" in out
        assert "others     host" in out
        assert f"whence columns {path} -o named." in out


def test_a_table_without_the_columns_says_which_option_names_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text("host,build_id,pc\nh,ab,10\n")
    assert main(["columns", str(tmp_path / "t.csv")]) == 1
    assert "no column named address or file_offset: give --address COL" in capfd.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "==1==ERROR: AddressSanitizer: SEGV\n    #0 0x55551170  (app+0x1170)\n",
        "[   12.3] BUG: kernel NULL pointer dereference\n[   12.3] RIP: 0010:f+0x10/0x20\n",
        '{"level": "info", "message": "started"}\n{"level": "error", "message": "x"}\n',
        "2026-01-01 12:00:00 request took 12\n2026-01-01 12:00:01 request took 13\n",
    ],
    ids=["asan", "kernel", "json", "plain"],
)
def test_other_text_is_filtered_as_a_log(text: str, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text(text)
    assert command_for([str(path)]) == ["filter", str(path)]


@pytest.mark.parametrize(
    ("file", "command"),
    [("core.4711", "core"), ("cpu.pb.gz", "profile"), ("crash.log", "filter"), ("samples.csv", "columns")],
)
def test_a_program_may_be_given_before_or_after_the_file_that_needs_it(
    file: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["demo", str(tmp_path / "demo")]) == 0
    monkeypatch.chdir(tmp_path / "demo")
    for words in (["app", file], [file, "app"]):
        line = command_for([*words, "-v"])
        assert line[:5] == [command, file, "--binary", "app", "-v"]


def test_a_profile_gives_a_table_unless_another_output_is_requested(program: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "p.folded")
    Path(path).write_text("main;work 3\n")
    assert command_for([path, "--sort", "total"]) == ["profile", path, "--sort", "total", "--top", "20"]
    for words in (["-o", "x.otlp"], ["--format", "folded"], ["--top", "3"], ["--coverage"], ["--fail-under=90"]):
        assert command_for([path, *words]) == ["profile", path, *words]


def test_a_pid_gives_stacks_or_names() -> None:
    with running(["sleep", "60"], speaks=False) as (pid, _):
        assert command_for([str(pid)]) == ["pid", str(pid), "--stop"]
        assert command_for([str(pid), "10"]) == ["pid", str(pid), "10"]


def test_what_no_command_reads_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert main([str(tmp_path / "empty")]) == 3
    (tmp_path / "picture").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(64))
    for name, message in (
        ("picture", "no command reads this kind of file"),
        (".", "a folder: give a file in it, or add it to a store"),
    ):
        with pytest.raises(WrongUse, match=message):
            command_for([str(tmp_path / name)])
    with pytest.raises(WrongUse, match="no command or file is named 'profil'; did you mean profile"):
        command_for(["profil"], COMMANDS)


def test_the_hint_shows_the_full_command(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(program)]) == 0
    said = capfd.readouterr()
    assert said.err == f"whence: {program} is an ELF file: running whence explain {program}\n"
    assert "sources of names" in said.out


def test_a_file_that_has_no_addresses_refuses_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "crash.log"
    log.write_text("    #0 0x1200  (app+0x1200)\n")
    assert main([str(log), "0x1200"]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err == (
        f"whence: {log}: text, which has no addresses to give: give those of a program: whence PROGRAM ADDRESS...\n"
    )


@pytest.mark.parametrize("words", ["trace info", "trace text", "trace pprof"])
def test_a_file_of_another_kind_gets_the_command_that_reads_it(
    words: str, tmp_path: Path, program: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cpu.pb.gz"
    registry.write(program_profile(program), str(path))
    assert main([*words.split(), str(path)]) == 3
    assert f"(it is a profile: whence profile {path})" in capfd.readouterr().err
    assert main([*words.split(), str(DATA / "cores" / "aarch64.core")]) == 3
    assert "(it is a core dump: whence core " in capfd.readouterr().err
    assert main([*words.split(), __file__]) == 3
    assert "it is" not in capfd.readouterr().err


def test_a_file_named_core_is_read_like_other_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["core"])
    (tmp_path / "core").write_bytes((DATA / "cores" / "aarch64.core").read_bytes())
    capfd.readouterr()
    assert main(["core"]) in (0, 1)
    assert "core is a core dump: running whence core core" in capfd.readouterr().err
