"""`whence filter`: files and stdin in, the same text with names out, reasons on stderr."""

import os
import subprocess
import sys
from pathlib import Path

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


def test_a_kernel_offset_behind_its_trace_counts_where_the_log_is_a_file(tmp_path: Path) -> None:
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
