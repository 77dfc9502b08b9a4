"""Other programs with a running server: clients of debuginfod, and go tool pprof with responses of /profile."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import whence
from tests.helpers.firefox import FrontEnd, samply_document
from tests.helpers.profiles import program_profile
from tests.helpers.serving import HOSTS, debuginfod, fetched, needs, started, wait_until_there
from tests.helpers.stores import Files
from whence.profiles import Profile

SECONDS = 120


@pytest.fixture(scope="module", params=HOSTS)
def url(request: pytest.FixtureRequest, place: Path) -> Iterator[str]:
    with started(place, by=request.param) as url:
        yield url


@pytest.fixture
def told(url: str, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a client of this server with an empty cache."""
    return {
        **os.environ, "DEBUGINFOD_URLS": url, "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache"), "HOME": str(tmp_path),
        "DEBUGINFOD_TIMEOUT": "20",
    }  # fmt: skip


@pytest.fixture
def stripped(files: Files, tmp_path: Path) -> Path:
    """Return the stripped program in a folder without its debug file."""
    path = tmp_path / "app"
    shutil.copy(files.stripped, path)
    return path


def output(*words: str | Path, told: dict[str, str], check: bool = True) -> str:
    done = subprocess.run(
        [str(each) for each in words], env=told, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0 or not check, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout + ("" if check else done.stderr)


def test_debuginfod_find_gets_every_kind(told: dict[str, str], files: Files, source: str) -> None:
    needs("debuginfod-find")
    for words, content in (
        (["debuginfo", files.build_id], files.debug.read_bytes()),
        (["executable", files.build_id], files.stripped.read_bytes()),
        (["source", files.build_id, source], Path(source).read_bytes()),
    ):
        result = output("debuginfod-find", *words, told=told).strip()
        assert Path(result).read_bytes() == content
    assert output("debuginfod-find", "debuginfo", "ab" * 20, told=told, check=False)


def test_debuginfod_find_refuses_files_above_its_limit(told: dict[str, str], files: Files) -> None:
    needs("debuginfod-find")
    told["DEBUGINFOD_MAXSIZE"] = "10"
    done = subprocess.run(
        ["debuginfod-find", "debuginfo", files.build_id], env=told, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode != 0
    assert "File too large" in done.stderr


def test_gdb_has_lines_and_source(told: dict[str, str], stripped: Path) -> None:
    needs("gdb")
    said = output(
        "gdb", "-batch", "-nx", "-iex", "set debuginfod enabled on", "-ex", "info line sum", "-ex", "list sum",
        stripped, told=told,
    )  # fmt: skip
    assert "program.c" in said
    assert "total += twice(i)" in said


def test_eu_addr2line_names_an_address(told: dict[str, str], files: Files, stripped: Path) -> None:
    needs("eu-addr2line")
    said = output("eu-addr2line", "-f", "-e", stripped, hex(files.vaddr), told=told)
    assert said.split()[0] == "sum"
    assert "program.c" in said


def test_llvm_symbolizer_names_an_address(url: str, told: dict[str, str], files: Files, stripped: Path) -> None:
    needs("llvm-symbolizer")
    version = output("llvm-symbolizer", "--version", told=told)
    if url_speaks_small_letters(url) and "LLVM version 14" in version:
        pytest.skip("LLVM 14 knows Content-Length in these letters only, granian writes it in small ones")
    said = output("llvm-symbolizer", f"--obj={stripped}", hex(files.vaddr), told=told)
    assert "sum" in said
    assert "program.c" in said


def url_speaks_small_letters(url: str) -> bool:
    with urllib.request.urlopen(f"{url}/healthz", timeout=SECONDS) as answer:
        return "content-length" in [name for name, _ in answer.headers.items()]


def test_llvm_debuginfod_find_gets_the_files(told: dict[str, str], files: Files) -> None:
    finder = next(
        (f"llvm-debuginfod-find{each}" for each in ("", "-19") if shutil.which(f"llvm-debuginfod-find{each}")), ""
    )
    needs(finder or "llvm-debuginfod-find")
    result = output(finder, "--debuginfo", files.build_id, told=told).strip()
    assert Path(result).read_bytes() == files.debug.read_bytes()


def test_valgrind_names_the_frames_of_a_stripped_program(url: str, told: dict[str, str], tmp_path: Path) -> None:
    needs("valgrind", "debuginfod-find", "gcc", "objcopy")
    code = tmp_path / "bad.c"
    code.write_text(
        "#include <stdlib.h>\nint read_behind(int *p) { return p[4]; }\n"
        "int main(void) { int *p = malloc(16); int r = read_behind(p); free(p); return r & 0; }\n"
    )
    full, bare = tmp_path / "whole", tmp_path / "bad"
    subprocess.run(["gcc", "-g", "-O0", "-Wl,--build-id", code, "-o", full], check=True)
    subprocess.run(["objcopy", "--strip-all", full, bare], check=True)
    put(url, full)
    said = output("valgrind", bare, told=told, check=False)
    if "unrecognised instruction" in said or "Fatal error at startup" in said:
        pytest.skip(f"valgrind does not run here: {said[-300:]}")
    assert "read_behind (bad.c:2)" in said, said[-3000:]


def put(url: str, path: Path) -> None:
    """Upload a debug file, which may exist already."""
    asked = urllib.request.Request(f"{url}/buildid/{build_id_of(path)}/debuginfo", data=path.read_bytes(), method="PUT")
    with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
        assert answer.status in (200, 201)
    path.unlink()


def build_id_of(path: Path) -> str:
    from whence.objects.elf import ElfFile

    with ElfFile.open(path) as elf:
        return elf.build_id


def test_a_debuginfod_may_have_this_server_upstream(files: Files, url: str, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    with debuginfod(nothing, tmp_path, upstream=url) as downstream:
        for kind, content in (("debuginfo", files.debug), ("executable", files.stripped)):
            status, headers, body = fetched(downstream, f"/buildid/{files.build_id}/{kind}")
            assert (status, body) == (200, content.read_bytes())
            assert headers["content-length"] == str(len(body))
        assert fetched(downstream, f"/buildid/{'ab' * 20}/debuginfo")[0] == 404


def test_go_tool_pprof_reads_what_profile_answers(url: str, files: Files, told: dict[str, str], tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not on this machine")
    from whence.profiles.formats import registry as formats

    body = formats.to_bytes(program_profile(files.whole), "pprof", "profile")
    asked = urllib.request.Request(f"{url}/profile", data=body, method="POST")
    with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
        named = tmp_path / "named.pb.gz"
        named.write_bytes(answer.read())
    told = {**os.environ, "PPROF_TMPDIR": str(tmp_path), "DEBUGINFOD_URLS": ""}
    try:
        said = output(go, "tool", "pprof", "-top", named, told=told)
    except subprocess.TimeoutExpired:
        pytest.skip(f"go did not build its pprof within {SECONDS} seconds")
    assert "sum" in said
    assert "main" in said


def test_the_front_end_of_firefox_profiler_has_names_and_source(url: str, files: Files, tmp_path: Path) -> None:
    path = tmp_path / "samply.json"
    path.write_text(json.dumps(samply_document(files.whole)))
    with FrontEnd() as front_end:
        front_end.said("load", str(path), "--symbol-server", url)
        tree = front_end.said("thread", "samples-top-down")
        functions = front_end.said("thread", "functions")
        (handle,) = re.findall(r"(f-\d+)\. \w+!sum ", functions)
        source = front_end.said("function", "annotate", handle, "--mode", "src", "--context", "file")
    assert "!main [total: 33.3%, self: 33.3%]" in tree
    assert "!sum [total: 33.3%, self: 33.3%]" in tree
    assert re.search(r"^ +\d+ +2 +2 .*for \(int i = 0", source, re.MULTILINE), source


def test_the_front_end_of_firefox_profiler_lists_the_instructions_of_a_written_profile(
    url: str, files: Files, tmp_path: Path
) -> None:
    pytest.importorskip("capstone")
    profile = Profile.of(program_profile(files.whole))
    profile.address[1] += 1  # its second instruction
    profile.symbolize(str(files.whole))
    profile.write(tmp_path / "cpu.firefox.json")
    with whence.open(files.whole) as binary:
        (part,) = binary.find("sum")
    with FrontEnd() as front_end:
        front_end.said("load", str(tmp_path / "cpu.firefox.json"), "--symbol-server", url)
        (handle,) = re.findall(r"(f-\d+)\. \w+!sum ", front_end.said("thread", "functions"))
        annotated = front_end.said("function", "annotate", handle, "--mode", "asm", "--symbol-server", url)
    rows = re.findall(r"^ *0x([0-9a-f]+) +(?:(\d+) +(\d+) +)?[a-z]", annotated, re.MULTILINE)
    costs = {int(vaddr, 16): (own, total) for vaddr, own, total in rows}
    assert min(costs) == part.vaddr, annotated
    assert max(costs) < part.end, annotated
    assert {vaddr: cost for vaddr, cost in costs.items() if any(cost)} == {part.vaddr + 2: ("2", "2")}, annotated


def test_eu_stack_names_the_frames_of_a_stripped_program(url: str, told: dict[str, str], tmp_path: Path) -> None:
    needs("eu-stack", "gcc", "objcopy")
    code = tmp_path / "waits.c"
    code.write_text(
        "#include <unistd.h>\n"
        '__attribute__((noinline)) int waits_here(int n) { write(1, "!", 1); pause(); return n; }\n'
        "int main(int n, char **v) { return waits_here(n) + 1; }\n"
    )
    full, bare = tmp_path / "whole", tmp_path / "waits"
    subprocess.run(["gcc", "-g", "-O1", "-Wl,--build-id", code, "-o", full], check=True)
    subprocess.run(["objcopy", "--strip-all", full, bare], check=True)
    put(url, full)
    with subprocess.Popen([bare], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.read(1) == b"!"
            said = output("eu-stack", "-s", "-p", str(process.pid), told=told, check=False)
        finally:
            process.kill()
    if "waits_here" not in said and ("ptrace" in said or "attach" in said):
        pytest.skip(f"eu-stack may not look at processes here: {said[-300:]}")
    assert "waits_here" in said
    assert "waits.c:2" in said


@pytest.mark.parametrize("by", HOSTS)
def test_this_server_may_have_a_debuginfod_upstream(files: Files, tmp_path: Path, by: str) -> None:
    there = tmp_path / "files"
    there.mkdir()
    shutil.copy(files.whole, there / "program")
    with debuginfod(there, tmp_path) as upstream:
        wait_until_there(upstream, files.build_id)
        with started(tmp_path / "store", "--upstream", upstream, by=by) as url:
            for what in ("debuginfo", "executable", "section/.text"):
                status, _, body = fetched(url, f"/buildid/{files.build_id}/{what}")
                assert status == 200, (what, body)
                assert body == fetched(upstream, f"/buildid/{files.build_id}/{what}")[2]
            assert fetched(url, f"/buildid/{'ab' * 20}/debuginfo")[0] == 404
    assert (tmp_path / "store" / "buildid" / files.build_id / "debuginfo").read_bytes() == files.whole.read_bytes()
