"""`whence filter`: files and stdin in, the same text with names out, reasons on stderr."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.drop_ins import tool
from tests.helpers.functions import place_of
from tests.helpers.programs import compiled
from whence.cli.main import main

WHENCE = [sys.executable, "-m", "whence.cli", "filter"]


def said(*words: object, stdin: bytes = b"") -> tuple[int, bytes, str]:
    run = subprocess.run([*WHENCE, *map(str, words)], input=stdin, capture_output=True, check=False, timeout=60)
    return run.returncode, run.stdout, run.stderr.decode()


def test_files_are_copied_one_after_the_other_with_names(tmp_path: Path) -> None:
    program = compiled()
    start, _ = place_of(program, "sum")
    (tmp_path / "a").write_bytes(b"one\n")
    (tmp_path / "b").write_bytes(b"#0 0x1  (%s+0x%x)\nend" % (bytes(program), start))
    status, out, err = said(tmp_path / "a", tmp_path / "b")
    assert (status, err) == (0, "")
    assert out.startswith(b"one\n#0 0x1 in sum ")
    assert out.endswith(b"\nend")


def test_a_file_that_is_not_there_is_told_and_the_others_are_copied(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\n")
    status, out, err = said(tmp_path / "missing", tmp_path / "a")
    assert (status, out) == (3, b"one\n")
    assert "No such file" in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_no_fault_of_the_file_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\n")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*WHENCE, tmp_path / "a", tmp_path / "a"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.stderr == b"whence: stdout: No space left on device\n"
    assert done.returncode == 3


def test_a_missing_binary_keeps_its_lines_and_is_told_once() -> None:
    text = b"#0 0x1  (/not/there+0x10)\n#1 0x2  (/not/there+0x20)\n"
    status, out, err = said(stdin=text)
    assert (status, out) == (0, text)
    assert err.splitlines() == [line for line in err.splitlines() if "2 x no-file in /not/there: " in line]


def test_a_line_is_written_as_soon_as_it_has_come() -> None:
    with subprocess.Popen(WHENCE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"first 0x12\n")
        assert os.read(child.stdout.fileno(), 100) == b"first 0x12\n"
        child.stdin.close()
        assert child.wait(30) == 0


def test_runtime_addresses_are_of_the_process_or_of_its_snapshot(tmp_path: Path) -> None:
    import ctypes

    library = ctypes.CDLL(None)
    address = ctypes.cast(library.malloc, ctypes.c_void_p).value
    assert address is not None
    line = b"pc=0x%x\n" % address
    _, out, _ = said("--pid", os.getpid(), "--all", stdin=line)
    assert b"malloc" in out
    snapshot = tmp_path / "snapshot"
    assert main(["pid", str(os.getpid()), "--save-snapshot", str(snapshot)]) == 0
    assert said("--snapshot", snapshot, "--all", stdin=line)[1] == out
    assert said("--pid", os.getpid(), stdin=line)[1] == line


def test_links_lead_to_the_files() -> None:
    program = compiled()
    start, _ = place_of(program, "sum")
    _, out, _ = said("--links", stdin=b"#0 0x1  (%s+0x%x)\n" % (bytes(program), start))
    assert b"\x1b]8;;file:///" in out


def test_a_kernel_offset_after_its_trace_applies_when_the_log_is_a_file(tmp_path: Path) -> None:
    kernel = tmp_path / "vmlinux"
    kernel.symlink_to(compiled("-no-pie"))
    start, size = place_of(kernel, "sum")
    text = b""
    for offset in (0x1A000000, 0x2C000000):
        text += b"Call Trace:\n [<%016x>]\nKernel Offset: 0x%x from 0xffffffff81000000\n" % (
            start + size + offset,
            offset,
        )
    (tmp_path / "oops").write_bytes(text)
    _, out, err = said("--binary", kernel, tmp_path / "oops")
    assert (out.count(b">] in sum at "), err) == (2, "")
    with open(tmp_path / "oops", "rb") as log:
        run = subprocess.run([*WHENCE, "--binary", str(kernel)], stdin=log, capture_output=True, check=True, timeout=60)
    assert run.stdout == out
    _, piped, _ = said("--binary", kernel, stdin=text + text)  # from a pipe an offset counts from its line on
    assert piped.startswith(text[:40])


def test_an_address_of_a_program_loaded_elsewhere_asks_for_its_mappings() -> None:
    text = b"   0:     0x5612bea0120a - <unknown>\n"
    _, out, err = said("--binary", compiled(), stdin=text)
    assert out == text
    assert "1 x not-placed in " in err
    assert "--snapshot" in err


@pytest.mark.skipif(not shutil.which("gcore"), reason="no gcore (gdb) on this machine")
def test_runtime_addresses_are_of_the_process_that_left_a_core(tmp_path: Path) -> None:
    (tmp_path / "bt.c").write_text(
        "#include <execinfo.h>\n#include <stdio.h>\n#include <unistd.h>\n"
        "__attribute__((noinline)) int here(void) { void *at[9]; int n = backtrace(at, 9);\n"
        'for (int i = 0; i < n; i++) printf("%4d:     %p - <unknown>\\n", i, at[i]);\n'
        "fflush(stdout); pause(); return n; }\nint main(void) { return here(); }\n"
    )
    subprocess.run(["gcc", "-g", "-O0", "-o", "bt", "bt.c"], cwd=tmp_path, check=True)
    with subprocess.Popen([tmp_path / "bt"], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            log = child.stdout.readline() + child.stdout.readline()
            command = ["gcore", "-o", str(tmp_path / "core"), str(child.pid)]
            dumped = subprocess.run(command, capture_output=True, check=False, timeout=60)
        finally:
            child.kill()
    core = tmp_path / f"core.{child.pid}"
    if dumped.returncode or not core.exists():
        pytest.skip("gcore may not trace this process")
    _, out, _ = said("--core", core, stdin=log)
    assert f" - here {tmp_path}/bt.c:4\n".encode() in out
    assert f" - main {tmp_path}/bt.c:7\n".encode() in out


def test_the_style_of_llvm_has_the_columns_of_llvm_symbolizer(tmp_path: Path) -> None:
    """Addresses of a file named in the log, and of a file given by an option, print as by llvm-symbolizer -p."""
    source, path = tmp_path / "columns.c", tmp_path / "columns"
    source.write_text(
        "static inline __attribute__((always_inline)) int twice(int x) { return x + x * 3; }\n"
        "__attribute__((noinline)) int work(int x) { return   twice(x) - 1; }\n"
        "int main(int c, char **v) { return work(c) + 2; }\n"
    )
    subprocess.run([tool("gcc"), "-O2", "-g", str(source), "-o", str(path)], check=True)
    start = place_of(path, "work")[0]
    asked = subprocess.run(
        [tool("llvm-symbolizer-19"), "-p", "-e", str(path), f"{start:#x}"], capture_output=True, check=True, text=True
    )
    chain = asked.stdout.rstrip("\n").replace("\n (inlined by) ", " (inlined by) ")
    assert " at " in chain
    assert ":0 " not in chain + " "
    line = f"    #0 0x55  ({path}+{start:#x})\n"
    for words in ((), ("--binary", path)):
        status, out, _ = said("--style", "llvm", *words, stdin=line.encode())
        assert status == 0
        assert chain in out.decode()
    _, out, _ = said("--style", "json", stdin=line.encode())
    assert '"column": ' in out.decode()
    assert '"column": 0' not in out.decode()
