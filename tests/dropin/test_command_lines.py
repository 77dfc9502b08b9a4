"""Command lines of llvm-symbolizer, addr2line and eu-addr2line: options, files, ends and errors."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.helpers.drop_ins import SECONDS, ask, asked, link, program, symbol, tool


@pytest.mark.parametrize("junk", [",", "-1", "zz", "", "ffffffffffffffff", "0xffffffffffffffff", "0", "#"])
@pytest.mark.parametrize("name", ["addr2line", "llvm-addr2line", "eu-addr2line"])
def test_end_marks_of_callers_are_unknown(name: str, junk: str) -> None:
    assert ask(name, "-fi", "-e", str(program()), stdin=junk + "\n") == "??\n??:0\n"


@pytest.mark.parametrize("name", ["llvm-symbolizer", "addr2line"])
def test_it_ends_when_stdout_is_closed(name: str) -> None:
    done = asked("sh", "-c", f"exec {link(name)} -e {program()} >&-", stdin="0x10\n")
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


ODD_USES = [  # program, words, stdin; PROGRAM is one, MAIN an address in it
    ("llvm-symbolizer-19", ("-e", "missing"), "MAIN\n"),
    ("llvm-symbolizer-19", ("-e", "."), "MAIN\n"),
    ("llvm-symbolizer-19", ("-e", "empty"), "MAIN\n"),
    ("llvm-symbolizer-19", ("-e", "short"), "MAIN\n"),
    ("llvm-symbolizer-19", ("-e", "PROGRAM:unheard", "MAIN"), ""),
    ("llvm-symbolizer-19", ('--obj="PROGRAM"', "MAIN"), ""),
    ("llvm-symbolizer-19", ("--obj=with blank", "MAIN"), ""),
    ("llvm-symbolizer-14", ("-e", "missing"), "MAIN\n"),
    ("llvm-symbolizer-19", ("-e", "missing", "--output-style=JSON"), "MAIN\n"),
    ("llvm-symbolizer-19", ("--output-style=JSON",), "missing MAIN\nPROGRAM MAIN\nPROGRAM zz\nPROGRAM\n"),
    ("llvm-symbolizer-19", ("--build-id=zz", "MAIN"), ""),
    ("llvm-symbolizer-19", ("--build-id=0011", "MAIN"), ""),
    ("llvm-symbolizer-19", ("-e", "PROGRAM", "--print-source-context-lines=-1", "MAIN"), ""),
    ("llvm-symbolizer-19", ("-e", "PROGRAM", "--print-source-context-lines=9", "MAIN"), ""),
    ("llvm-symbolizer-19", ("-e", "PROGRAM", "--adjust-vma=-1", "MAIN"), ""),
    ("llvm-symbolizer-19", ("-e", "PROGRAM", "--", "MAIN"), ""),
    ("llvm-symbolizer-19", (), "missing MAIN\n. MAIN\nempty MAIN\nshort MAIN\nPROGRAM MAIN\n"),
    ("llvm-symbolizer-19", (), "\"with blank\" MAIN\n'with blank' MAIN\nwith blank MAIN\n"),
    ("llvm-symbolizer-19", (), "FILE:PROGRAM MAIN\nFILE:'with blank' MAIN\n"),
    ("llvm-symbolizer-19", ("-e", "PROGRAM"), "CODE MAIN\nCODE\nCODE \nDATA\nDATA zz\nFRAME\n"),
    ("llvm-symbolizer-19", ("-e", "PROGRAM"), "CODE  MAIN\ncode MAIN\nCODE\tMAIN\n"),
    ("llvm-symbolizer-19", ("-e", "PROGRAM"), "MAIN\r\nMAIN\0junk\n\0\n\n0b11\n0o17\n08\n0x1g\n1.5\n+1\nMAIN"),
    ("addr2line", ("-e", "missing", "MAIN"), ""),
    ("addr2line", ("-e", ".", "MAIN"), ""),
    ("addr2line", ("-e", "empty", "MAIN"), ""),
    ("addr2line", ("-e", "short", "MAIN"), ""),
    ("addr2line", ("MAIN",), ""),
    ("addr2line", ("-fe", "PROGRAM", "--demangle=bogus", "MAIN"), ""),
    ("addr2line", ("-fe", "PROGRAM", "--demangle=", "MAIN"), ""),
    ("addr2line", ("-fe", "PROGRAM", "--demangle=none", "MAIN"), ""),
    ("addr2line", ("-fe", "PROGRAM", "--demangle=auto", "MAIN"), ""),
    ("addr2line", ("-e", "PROGRAM", "-j", ".nosuch", "MAIN"), ""),
    ("addr2line", ("-aie", "PROGRAM"), "MAIN\r\n\n,\nzz\n 0x\nMAIN\0x\n"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "words", "stdin"), ODD_USES)
def test_unusual_uses_have_the_output_and_exit_code_of_the_original(
    name: str, words: tuple[str, ...], stdin: str, tmp_path: Path
) -> None:
    path = program()
    start = symbol(path, "_ZN2ns1S3runEi")[0]
    shutil.copy(path, tmp_path / "with blank")
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_bytes(path.read_bytes()[:100])
    told = []
    for tried in (tool(name), str(link(name))):
        *given, lines = (each.replace("PROGRAM", str(path)).replace("MAIN", f"{start:#x}") for each in (*words, stdin))
        done = subprocess.run([tried, *given], input=lines.encode(), capture_output=True, cwd=tmp_path, timeout=SECONDS)
        told.append((done.returncode, done.stdout))
    assert told[1] == told[0]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("llvm-symbolizer", ("--bogus",)),
        ("llvm-symbolizer", ("-xq",)),
        ("llvm-symbolizer", ("--adjust-vma=zz",)),
        ("addr2line", ("--bogus",)),
        ("addr2line", ("-e", "/nowhere")),
        ("addr2line", ("-e", "/bin/sh", "-j", ".none")),
    ],
)
def test_a_wrong_command_line_is_an_error_without_an_answer(name: str, words: tuple[str, ...]) -> None:
    done = asked(str(link(name)), *words, stdin="0x10\n")
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr


def test_the_installed_scripts_are_the_same_programs() -> None:
    scripts = metadata.distribution("whence").entry_points.select(group="console_scripts")
    for script, link_name in (("whence-llvm-symbolizer", "llvm-symbolizer"), ("whence-addr2line", "addr2line")):
        module, _, function = scripts[script].value.partition(":")
        launcher = f"import sys; sys.argv[0] = {script!r}; from {module} import {function}; sys.exit({function}())"
        done = asked(sys.executable, "-c", launcher, "-e", str(program()), "0x10")
        assert done.stdout.decode() == ask(link_name, "-e", str(program()), "0x10")
        assert done.returncode == 0


def test_help_and_version_name_the_program() -> None:
    for name in ("llvm-symbolizer", "llvm-addr2line"):
        assert ask(name, "--version").startswith(name + "\n")
        assert ask(name, "--help").startswith("OVERVIEW: ")
    assert ask("addr2line", "--version").startswith("GNU addr2line")
    assert "--pretty-print" in ask("addr2line", "--help")


@pytest.mark.parametrize("name", ["llvm-symbolizer", "addr2line"])
def test_response_files_may_include_each_other(name: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(f"@{first} " + f"@{second} " * 1000 + "-e")
    second.write_text(f"@{first} " + f"@{second} " * 1000 + "-C")
    assert ask(name, f"@{first}", str(program()), stdin="junk\n").startswith("??:0" if name == "addr2line" else "??\n")


@pytest.mark.parametrize("name", ["addr2line", "eu-addr2line"])
def test_rejects_a_file_without_a_name(name: str) -> None:
    done = asked(str(link(name)), "-e", "", "0x10")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"No such file" in done.stderr
    assert b"Traceback" not in done.stderr
