"""whence addr: answers in order, in other tools' forms, as a coprocess, with honest exit codes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import whence
from tests.helpers.programs import compiled, folder
from whence.archive.create import create
from whence.cli import addr
from whence.cli.main import PlainOptions, main, parsed
from whence.cli.options import LOCATOR_DEFAULTS, SEARCH_OPTIONS
from whence.lidia.render import Queries
from whence.objects.elf import ElfFile, functions
from whence.objects.elf.segments import Segment
from whence.ranges import StringSpace

WHENCE = [sys.executable, "-m", "whence.cli"]


def run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WHENCE, *words], input=stdin, capture_output=True, text=True)


def code_addresses(path: Path, *names: str) -> list[int]:
    """Every byte of these functions."""
    with ElfFile.open(path) as elf:
        table = functions(elf, StringSpace())
        return [
            vaddr
            for vaddr, length, name in zip(table.vaddr, table.length, table.function)
            if table.strings.text(name) in names
            for vaddr in range(vaddr, vaddr + length)
        ]


def archive_of(path: Path, columns: bool = False) -> Path:
    out = folder() / "archives" / f"{path.name}{'-columns' if columns else ''}.lidia"  # not next to the program
    out.parent.mkdir(exist_ok=True)
    create(path, out, columns=columns)
    return out


def test_an_elf_file_and_its_archive_answer_alike() -> None:
    path = compiled()
    addresses = [f"{vaddr:x}" for vaddr in code_addresses(path, "sum", "main", "_start")]
    for style in ("llvm", "gnu", "json"):
        from_elf = run("addr", str(path), "--style", style, *addresses)
        from_archive = run("addr", str(archive_of(path, columns=True)), "--style", style, *addresses)
        assert from_elf.stdout == from_archive.stdout
        assert from_elf.returncode == from_archive.returncode == 0


def test_a_dash_in_place_of_addresses_is_stdin() -> None:
    path = compiled()
    stdin = "".join(f"{vaddr:#x}\n" for vaddr in code_addresses(path, "main"))
    assert run("addr", str(path), "-", stdin=stdin).stdout == run("addr", str(path), stdin=stdin).stdout != ""
    mixed = run("addr", str(path), "0x10", "-")
    assert (mixed.returncode, mixed.stdout) == (2, "")


def test_the_llvm_style_is_what_llvm_symbolizer_prints() -> None:
    symbolizer = shutil.which("llvm-symbolizer")
    if symbolizer is None:
        pytest.skip("llvm-symbolizer is not on this machine")
    path = compiled()
    stdin = "".join(f"{vaddr:#x}\n" for vaddr in code_addresses(path, "sum", "main"))
    theirs = subprocess.run(
        [symbolizer, f"--obj={path}"], input=stdin, capture_output=True, text=True, check=True
    ).stdout
    ours = run("addr", str(path), stdin=stdin).stdout
    assert ours == theirs


def test_an_archive_without_columns_answers_with_column_0() -> None:
    path = compiled()
    stdin = "".join(f"{vaddr:#x}\n" for vaddr in code_addresses(path, "sum", "main"))
    ours = run("addr", str(archive_of(path)), stdin=stdin).stdout
    assert without_columns(ours) == without_columns(run("addr", str(path), stdin=stdin).stdout)
    assert {line.rpartition(":")[2] for line in ours.splitlines() if ":" in line} == {"0"}


def without_columns(text: str) -> list[str]:
    """The lines, file:line:column cut to file:line."""
    return [line.rpartition(":")[0] if line.count(":") > 1 else line for line in text.splitlines()]


def test_the_gnu_style_is_what_addr2line_prints() -> None:
    addr2line = shutil.which("addr2line")
    if addr2line is None:
        pytest.skip("addr2line is not on this machine")
    path = compiled()
    addresses = [f"{vaddr:#x}" for vaddr in code_addresses(path, "sum", "main")]
    theirs = subprocess.run(
        [addr2line, "-afie", str(path), *addresses], capture_output=True, text=True, check=True
    ).stdout
    ours = run("addr", str(path), "--style", "gnu", *addresses).stdout
    assert [line.partition(" (disc")[0] for line in theirs.splitlines()] == ours.splitlines()


def test_json_tells_function_file_line_inlining_and_source() -> None:
    path = compiled()
    answers = [
        json.loads(line)
        for line in run(
            "addr", str(path), "--style", "json", *map(hex, code_addresses(path, "sum"))
        ).stdout.splitlines()
    ]
    chains = {tuple(frame["function"] for frame in answer["frames"]) for answer in answers}
    assert ("square", "twice", "sum") in chains
    for answer in answers:
        assert set(answer) == {"address", "frames", "reason"}
        assert answer["reason"] is None
        assert [frame["inlined"] for frame in answer["frames"]] == [True] * (len(answer["frames"]) - 1) + [False]
        assert all(frame["source"] == "dwarf" and frame["file"].endswith("program.c") for frame in answer["frames"])


def test_each_json_answer_has_the_reason_of_its_own_line() -> None:
    path = compiled()
    (expected, *_) = code_addresses(path, "main")
    done = run("addr", "--json", str(path), stdin=f'0xdead0000\n"frames": [], \n{expected:x}\n0xdead0001')
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    words = ["outside-segments", "not-an-address", None, "outside-segments"]
    assert [answer["reason"] for answer in answers] == words
    assert [answer["address"] for answer in answers] == ["0xdead0000", '"frames": [],', hex(expected), "0xdead0001"]
    assert done.stderr.count("is not an address") == 1


def test_json_is_style_json() -> None:
    path = str(compiled())
    said = run("addr", "--json", path, "0xdead0000").stdout
    assert json.loads(said)["frames"] == []
    assert said == run("addr", "--style", "json", path, "0xdead0000").stdout


def test_an_unknown_address_has_a_reason_and_exit_code_1() -> None:
    done = run("addr", str(compiled()), "--style", "json", "0xdead0000")
    answer = json.loads(done.stdout)
    assert answer["frames"] == []
    assert answer["reason"]
    assert done.returncode == 1


@pytest.mark.parametrize("style", ["llvm", "gnu", "json"])
def test_a_file_of_addresses_is_answered_as_they_are_one_by_one(style: str, tmp_path: Path) -> None:
    path, listed = compiled(), tmp_path / "addresses"
    addresses = [*code_addresses(path, "sum", "main", "_start"), 0x10]
    text = "".join(f"{vaddr:#x}\n" for vaddr in addresses) + "nothing\n"
    listed.write_text(text * (addr.BLOCK // len(text) + 1))
    with open(listed, "rb") as stdin:
        result = subprocess.run([*WHENCE, "addr", str(path), "--style", style], stdin=stdin, capture_output=True)
    options = Namespace(**{**addr.PLAIN, "style": style})
    with whence.open(path, columns=style != "gnu") as binary:
        responder = addr.Responder(binary, options)
        binary.table()
        expected = b"".join(responder.answer(Queries(line.encode())) for line in text.splitlines(keepends=True))
    assert result.stdout == expected * (addr.BLOCK // len(text) + 1)


@pytest.mark.parametrize("options", [[], ["--jobs", "1"], ["--jobs", "5", "--json"]])
def test_a_file_of_addresses_is_answered_from_an_archive_in_order(options: list[str], tmp_path: Path) -> None:
    path, archive, listed = compiled(), tmp_path / "archive", tmp_path / "addresses"
    create(path, archive)
    text = "".join(f"{vaddr:#x}\n" for vaddr in [*code_addresses(path, "sum", "main"), 0x10]) + "nothing\n"
    times = 3 * addr.PIECE // len(text) + 1
    listed.write_text(text * times)
    with open(listed, "rb") as stdin:
        result = subprocess.run([*WHENCE, "addr", str(archive), *options], stdin=stdin, capture_output=True)
    one_by_one = [run("addr", str(archive), *options, stdin=line) for line in text.splitlines()]
    assert result.stdout.decode() == "".join(done.stdout for done in one_by_one) * times
    assert result.stderr == b"whence addr: 'nothing' is not an address in hex\n" * times
    assert result.returncode == 1


def test_nothing_is_read_of_a_file_about_which_nothing_is_asked() -> None:
    binary = SimpleNamespace(is_archive=False, producers=None)
    options = Namespace(**addr.PLAIN)
    addr.Responder(binary, options).answer_all([], print)  # type: ignore[arg-type]
    assert run("addr", str(compiled()), stdin="").stdout == ""


def test_of_a_pipe_that_is_full_all_is_read_before_the_first_answer() -> None:
    read_end, write_end = os.pipe()
    text = b"0x1000\n" * (addr.BLOCK // 7)
    with os.fdopen(write_end, "wb", buffering=0) as pipe:
        pipe.write(text)
    with os.fdopen(read_end):
        lines = addr.Lines([], read_end)
        assert lines._read_available()
        assert b"".join(lines.blocks()) == text


def test_of_a_pipe_that_stays_open_all_that_is_there_comes_first() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb", buffering=0) as pipe, os.fdopen(read_end):
        lines = addr.Lines([], read_end)
        assert not lines._read_available()
        pipe.write(b"0x1000\n0x20")
        assert not lines._read_available()
        coming = lines.blocks()
        assert next(coming) == b"0x1000\n"
        pipe.write(b"00\n0x3000\n")
        assert next(coming) == b"0x2000\n0x3000\n"


@pytest.mark.parametrize("ends", [True, False])
def test_addresses_in_a_closed_pipe_are_read_before_debug_info_is_decompressed(
    ends: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def answer(*_: object) -> bytes:
        os.close(write_end)
        return b"answer\n"

    queries: list[int] = []
    monkeypatch.setattr("whence.dwarf.ahead.decompress_ahead", lambda elf, vaddrs: queries.append(len(vaddrs)))
    path = compiled()
    read_end, write_end = os.pipe()
    with os.fdopen(read_end):
        with os.fdopen(write_end if ends else os.dup(write_end), "wb") as pipe:
            pipe.write(b"%x\n" % code_addresses(path, "main")[0])
        monkeypatch.setattr(addr.Responder, "answer", answer)
        monkeypatch.setattr(addr, "lines_of", lambda words: addr.Lines([], read_end))
        status = addr.answer_object(str(path), [], Namespace(**addr.PLAIN))
    assert (status, queries) == (0, [int(ends)])
    assert capfd.readouterr().out.startswith("main\n" if ends else "answer\n")


@given(st.lists(st.integers(0, 3 * addr.PIECE).map(lambda size: b"x" * size + b"\n"), min_size=1, max_size=8))
def test_lines_are_answered_in_pieces_of_complete_lines(lines: list[bytes]) -> None:
    pieces = list(addr.pieces(b"".join(lines)))
    assert b"".join(pieces) == b"".join(lines)
    assert all(piece.endswith(b"\n") for piece in pieces)
    assert all(len(piece) <= addr.PIECE or piece.count(b"\n") == 1 for piece in pieces)


def test_pieces_of_many_lines_are_answered_in_their_order() -> None:
    path = compiled()
    vaddr = code_addresses(path, "main")[0]
    lines = f"{vaddr:x}\n" * addr.PIECE
    for file in (path, archive_of(path)):
        assert run("addr", str(file), stdin=lines).stdout == run("addr", str(file), f"{vaddr:x}").stdout * addr.PIECE


def test_it_answers_each_line_before_the_next_one_comes() -> None:
    path = compiled()
    child = subprocess.Popen([*WHENCE, "addr", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    for vaddr in code_addresses(path, "main")[:3]:
        child.stdin.write(f"{vaddr:x}\n")
        child.stdin.flush()
        lines = []
        while (line := child.stdout.readline()) not in ("\n", ""):  # "": it ended
            lines.append(line)
        assert lines[-2] == "main\n"
    child.stdin.close()
    assert child.wait() == 0
    child.stdout.close()


def test_a_line_that_is_no_address_comes_back_and_is_told() -> None:
    done = run("addr", str(compiled()), stdin="hello\n0x0\n")
    assert done.stdout == "hello\n" + "??\n??:0:0\n\n"  # as llvm-symbolizer does
    assert "hello" in done.stderr
    assert done.returncode == 1


def test_of_a_line_that_never_ends_no_more_is_kept_than_shows_that_it_is_no_address() -> None:
    block = bytes(addr.BLOCK)
    lines = [*addr.complete_lines([b"1\n", *[block] * 1000, b"\n2\n", *[b"0" * addr.BLOCK] * 9])]
    assert [line.count(b"\n") for line in lines] == [1, 2, 1]
    assert lines[1].endswith(b"...\n2\n")
    assert max(map(len, lines)) < 4 * addr.LINE_MAX
    assert [*map(bool, chain(*(Queries(line).is_bad for line in lines)))] == [False, True, False, True]


def test_unnamed_addresses_get_a_remedy(tmp_path: Path) -> None:
    if not shutil.which("strip"):
        pytest.skip("no strip on this machine (binutils)")
    bare = tmp_path / "bare"
    subprocess.run(["strip", "-o", bare, compiled()], check=True)
    with ElfFile.open(bare) as elf:
        vaddr = hex(elf.code_segments()[0].vaddr + 0x100)
    done = run("addr", str(bare), vaddr)
    assert done.returncode == 1
    assert f"whence: {bare}: the file is stripped" in done.stderr
    assert "--binary FILE.debug" in done.stderr
    done = run("addr", str(compiled()), "0x55d0c0de1170")
    assert "an address is outside the file's code" in done.stderr
    assert "whence pid" in done.stderr
    assert run("addr", str(bare), "0x55d0c0de1170", "--json").stderr == ""


def test_a_line_of_megabytes_is_told_in_one_of_a_hundred_letters() -> None:
    done = run("addr", str(compiled()), "--style", "gnu", stdin="1" * 3_000_000 + "\n\x1b[2J\n0x0\n")
    assert done.stdout == "0x0000000000000000\n??\n??:0\n" * 3
    assert [len(line) < 150 for line in done.stderr.splitlines() if "is not an address" in line] == [True, True]
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("addr",), 2),
        (("addr", "--snapshot", "/nowhere/at/all", "--style", "gnu", "1"), 2),
        (("addr", "/nowhere/at/all", "1"), 3),
        (("addr", __file__, "1"), 3),
        (("addr", sys.executable, "xyz"), 2),
        (("nonsense",), 2),
        (("--help",), 0),
    ],
)
def test_exit_codes_and_errors_are_one_line(words: tuple[str, ...], code: int) -> None:
    done = run(*words)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    if code == 3:
        assert done.stderr.count("\n") == 1


def test_help_and_addr_load_nothing_heavy() -> None:
    heavy = {"numpy", "google.protobuf", "rich", "urllib3", "click", "opentelemetry", "pyarrow"}
    script = (
        "import sys; from whence.cli.main import main\n"
        "main(sys.argv[1:])\n"
        f"print('HEAVY', sorted(set(sys.modules) & {heavy!r}))"
    )
    for words in (["--help"], ["addr", str(archive_of(compiled())), "1000"]):
        done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
        assert done.stdout.endswith("HEAVY []\n")


def test_stacks_of_a_process_load_no_readers_of_other_formats() -> None:
    others = [
        "dumps.minidump", "dumps.unpacked", "objects.macho", "objects.pdb", "objects.pe", "profiles.formats.registry",
        "unwind.arm", "unwind.goroutines",
    ]  # fmt: skip
    script = (
        "import subprocess, sys; from whence.cli.main import main\n"
        "with subprocess.Popen(['sleep', '60']) as child:\n"
        "    main(['pid', str(child.pid), '--stop'])\n"
        "    child.kill()\n"
        f"print('OTHERS', [name for name in {others!r} if f'whence.{{name}}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("OTHERS []\n")


def test_options_about_folders_apply_to_a_file_with_debug_info(tmp_path: Path) -> None:
    """Without these options there is no Locator, only the default debug folders."""
    path = compiled()
    words = ["addr", str(path), f"{code_addresses(path, 'main')[0]:x}"]
    plain = run(*words)
    for options in (["--no-cache"], ["--debug-dir", str(tmp_path)], ["--binary", str(path)], ["--jobs", "1"]):
        done = run(*words, *options)
        assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert run(*words, "--sysroot", "/nowhere").returncode == 2
    assert {*SEARCH_OPTIONS} <= {*LOCATOR_DEFAULTS}
    assert {*LOCATOR_DEFAULTS} - {*SEARCH_OPTIONS} == {
        "debuginfod_allow", "cache_dir", "cache_size", "no_cache", "jobs", "record_missing",
    }  # fmt: skip


def test_without_options_the_defaults_are_those_that_argparse_would_give() -> None:
    words = ["addr", "FILE", "0x10", "20"]
    assert vars(PlainOptions(words[1:], False, addr.PLAIN)) == vars(parsed(words, False, addr))


def test_where_code_is_is_looked_for_once_however_many_addresses_are_unknown(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    looked: list[ElfFile] = []
    code_segments = ElfFile.code_segments

    def counted(elf: ElfFile) -> list[Segment]:
        looked.append(elf)
        return code_segments(elf)

    monkeypatch.setattr(ElfFile, "code_segments", counted)
    words = ["addr", "--json", str(compiled()), *["ffffffff"] * 50]
    assert main(words) == 1
    reasons = {json.loads(line)["reason"] for line in capfdbinary.readouterr().out.splitlines()}
    assert reasons == {"outside-segments"}
    assert len(looked) == 1


def test_a_function_name_gives_its_address_and_line(tmp_path: Path) -> None:
    program = compiled("-g", "-O1")
    done = run("addr", str(program), "sum")
    assert done.returncode == 0
    vaddr, size, name, _, location = done.stdout.split()
    with whence.open(program) as binary:
        (function,) = binary.find("sum")
    assert (int(vaddr, 16), int(size), name) == (function.vaddr, function.length, "sum")
    assert location == f"{function.file}:{function.start_line}"


def test_of_several_names_unknown_ones_are_reported_and_the_others_printed() -> None:
    done = run("addr", str(compiled("-g", "-O1")), "sum", "nosuch", "--json")
    assert done.returncode == 1
    functions = [json.loads(line)["functions"] for line in done.stdout.splitlines()]
    assert [len(each) for each in functions] == [1, 0]
    assert run("addr", str(compiled("-g", "-O1")), "sum", "10").returncode == 2


def test_an_offset_in_a_function_is_an_address(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """gdb and perf print the offset in decimal, a kernel in hex with the size of the function."""
    path = compiled()
    with ElfFile.open(path) as elf:
        table = functions(elf, StringSpace())
        start, size = next(
            (vaddr, length)
            for vaddr, length, name in zip(table.vaddr, table.length, table.function, strict=True)
            if table.strings.text(name) == "sum"
        )
    assert main(["addr", str(path), f"{start + 20:#x}"]) == 0
    expected = capfd.readouterr().out
    for word in ("sum+20", "sum+0x14", f"sum+0x14/{size:#x}"):
        assert main(["addr", str(path), word]) == 0
        assert capfd.readouterr().out == expected
    assert main(["addr", str(path), "nosuch+4"]) == 2
    for name in ("a", "b"):
        (tmp_path / f"{name}.c").write_text(f"static int f(int n) {{ return n * 7; }}\nint (*{name})(int) = f;\n")
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    sources = [tmp_path / f"{name}.c" for name in ("a", "b", "main")]
    subprocess.run(["gcc", *map(str, sources), "-o", str(tmp_path / "two")], check=True)
    assert main(["addr", str(tmp_path / "two"), "f+4"]) == 2
    assert "2 functions are named 'f': add the offset to one of 0x" in capfd.readouterr().err
