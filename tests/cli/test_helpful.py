"""Words in the order of other tools, names instead of numbers, and answers that say what to type."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import golang
from tests.helpers.live import running
from whence.cli.main import main

WHENCE = [sys.executable, "-m", "whence"]
GO_SOURCE = """
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
)

var kept [][]byte

//go:noinline
func keep() {
	for i := 0; i < 200; i++ {
		kept = append(kept, make([]byte, 1<<16))
	}
}

func main() {
	keep()
	runtime.GC()
	pprof.Lookup("heap").WriteTo(os.Stdout, 1)
}
"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("helpful") / "demo"
    assert main(["demo", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a stripped Go program without a GNU build-id."""
    folder = tmp_path_factory.mktemp("shop")
    root = golang.goroot()
    (folder / "main.go").write_text(GO_SOURCE)
    words = [str(root / "bin" / "go"), "build", "-ldflags", "-s -w -B none", "-o", "shop", "main.go"]
    subprocess.run(words, cwd=folder, env=golang.environment(root), check=True)
    return folder / "shop"


def test_addr_takes_the_file_as_addr2line_does(demo: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["addr", "-e", str(demo / "app"), "1200"]) == 0
    assert capfd.readouterr().out.startswith("sum\n/src/app.c:10:23\n")


def test_core_takes_the_program_first_as_gdb_does_or_last(demo: Path, capfd: pytest.CaptureFixture[str]) -> None:
    core, server = str(demo / "core.4711"), str(demo / "server")
    outputs = []
    for words in ([core, "--binary", server], [server, core], [core, server]):
        main(["core", *words])
        outputs.append(capfd.readouterr().out)
    assert outputs[0] == outputs[1] == outputs[2]
    assert "boom" in outputs[0]


def test_a_process_is_found_by_the_name_of_its_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "whence-sleeper"
    shutil.copy("/bin/sleep", program)
    with running([program, "60"], speaks=False) as (pid, _):
        assert main(["maps", "whence-sleeper"]) == 0
        assert str(program) in capfd.readouterr().out
        with running([program, "60"], speaks=False) as (other, _), pytest.raises(SystemExit, match="2"):
            main(["pid", "whence-sleeper"])
        pids = ", ".join(map(str, sorted([pid, other])))
        assert f"2 processes are named 'whence-sleeper': give one of their pids: {pids}" in capfd.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["pid", "whence-sleeper"])
    assert "no process is named 'whence-sleeper'" in capfd.readouterr().err


def test_a_store_accepts_options_before_paths_and_shows_names(
    demo: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = str(tmp_path / "store")
    stripped = tmp_path / "stripped"
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", demo / "app", stripped], check=True)
    assert main(["store", "add", store, "--by-hash", str(stripped)]) == 0
    assert "added" in capfd.readouterr().out
    assert main(["store", "add", store, str(demo / "app")]) == 0
    capfd.readouterr()
    assert main(["store", "show", store, "app"]) == 0
    assert capfd.readouterr().out.startswith("build-id    c8253fbcc7e7")
    assert main(["store", "show", store, "nosuch"]) == 1
    assert "nosuch: not in the store" in capfd.readouterr().err
    assert main(["store", "verify", store]) == 0
    assert "2 build-ids read, 0 problems" in capfd.readouterr().err


def test_a_stripped_go_program_lists_functions_and_its_go_build_id(
    shop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["symbols", str(shop)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) > 1000
    assert any(line.endswith(" gopclntab main.keep") for line in lines)
    assert main(["build-id", str(shop)]) == 1
    said = capfd.readouterr()
    assert said.out == f"-  {shop}\n"
    assert "a Go program without a GNU build-id; --go prints its Go build ID" in said.err


def test_a_file_without_functions_says_so(demo: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bare = tmp_path / "bare.o"
    subprocess.run(["objcopy", "--strip-all", "--only-section=.comment", demo / "app", bare], check=True)
    assert main(["symbols", str(bare)]) == 1
    assert "no symbol table with functions and no .gopclntab" in capfd.readouterr().err


def test_a_heap_profile_without_mappings_is_named_by_the_only_program(
    shop: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    heap = tmp_path / "heap.txt"
    text = subprocess.run([shop], capture_output=True, text=True, check=True).stdout
    heap.write_text("".join(line for line in text.splitlines(True) if not line.startswith("#\t")))  # its own names
    assert main(["profile", str(heap), "--binary", str(shop), "--top", "0"]) == 0
    out = capfd.readouterr().out
    assert "main.keep" in out
    assert "no mapping" not in out


def test_the_style_of_gdb_has_one_pair_of_parentheses(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not on this machine")
    source, program = tmp_path / "waits.cc", tmp_path / "waits"
    source.write_text("#include <unistd.h>\nvoid wait_for(int n) { while (n) pause(); }\nint main() { wait_for(1); }\n")
    subprocess.run(["g++", "-g", "-O0", source, "-o", program], check=True)
    with running([program], speaks=False, rests=True) as (pid, _):
        main(["pid", str(pid), "--stop", "--style", "gdb"])
    out = capfd.readouterr().out
    assert " in wait_for(int) at " in out
    assert " in main () at " in out


def test_a_reader_that_has_seen_enough_is_no_failure(demo: Path) -> None:
    words = " ".join(WHENCE)
    script = f"set -o pipefail; {words} dwarf {demo / 'app'} --json | head -c 1 >/dev/null"
    assert subprocess.run(["bash", "-c", script], cwd=demo).returncode == 0


def test_a_trace_of_an_older_go_says_how_to_record_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old.trace").write_bytes(b"go 1.19 trace\0\0\0")
    assert main([str(tmp_path / "old.trace")]) == 3
    assert "record it with Go 1.22 or later" in capfd.readouterr().err
