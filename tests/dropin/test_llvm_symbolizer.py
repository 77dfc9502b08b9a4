"""whence under the name llvm-symbolizer: its answers, for its callers, without a hang."""

from __future__ import annotations

import fcntl
import functools
import os
import re
import shutil
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import whence
from tests.forge.elf import Section, Symbol, forge
from tests.helpers.drop_ins import SECONDS, SOURCE, addresses, ask, asked, link, program, symbol, tool
from tests.helpers.live import until
from tests.helpers.programs import folder
from whence.dropin.modules import MAX_MODULES
from whence.dropin.symbolizer_protocol import SymbolizerResponder, SymbolizerSettings
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels import constants

SHN_ABS = 0xFFF1


def unmarked(text: str) -> str:
    """Answers without what this version does not know: where functions start."""
    return re.sub(r'"StartLine":\d+|"Start(Address|FileName)":"[^"]*"', "", text)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-p", "-a"),
        ("--no-demangle", "--functions=linkage"),
        ("--functions=none",),
        ("--functions=short",),
        ("-s", "--no-inlines"),
        ("--output-style=GNU", "--no-inlines"),
        ("--print-source-context-lines=3",),
        ("--adjust-vma=0x0", "-Cfpi"),
    ],
)
def test_the_answers_are_llvm_symbolizers(options: tuple[str, ...]) -> None:
    symbolizer = tool("llvm-symbolizer-14")
    path = program()
    stdin = "".join(f'CODE "{path}" {vaddr:#x}\n' for vaddr in addresses(path))
    theirs = asked(symbolizer, *options, stdin=stdin).stdout.decode()
    assert theirs == ask("llvm-symbolizer", *options, stdin=stdin)


@pytest.mark.parametrize("version", [14, 19, 22])
def test_the_verbose_form_has_the_columns_and_discriminators_of_llvm_symbolizer(version: int) -> None:
    symbolizer = tool(f"llvm-symbolizer-{version}")
    path = discriminated()
    with ElfFile.open(path) as elf:
        text = elf.section(".text")
        assert text is not None
        stdin = "".join(f'"{path}" {vaddr:#x}\n' for vaddr in range(text.vaddr, text.vaddr + text.size))
    starts = re.compile(r"  Function start .*\n")
    theirs = starts.sub("", asked(symbolizer, "--verbose", stdin=stdin).stdout.decode())
    assert "  Discriminator: " in theirs
    assert starts.sub("", ask(f"llvm-symbolizer-{version}", "--verbose", stdin=stdin)) == theirs
    gnu = asked(symbolizer, "--output-style=GNU", stdin=stdin).stdout.decode()
    assert " (discriminator " in gnu
    assert ask(f"llvm-symbolizer-{version}", "--output-style=GNU", stdin=stdin) == gnu


@functools.cache
def discriminated() -> Path:
    """Build a program whose lines have several blocks, and calls with discriminators."""
    source = folder() / "discriminated.c"
    source.write_text(
        "static inline int leaf(int a, int b) { return a ? b * a : b + 1; }\n"
        "int f(int n) { int s = 0; for (int i = 0; i < n && s < 1000; i++) s += i % 3 ? leaf(i, n) : n; return s; }\n"
        "int main(int c, char **v) { int t = 0; while (c--) { t += f(c); if (t > 5) t ^= leaf(t, c); } return t; }\n"
    )
    out = folder() / "discriminated"
    flags = ("-g", "-O2", "-fdebug-info-for-profiling")
    subprocess.run([tool("clang-14"), *flags, str(source), "-o", str(out)], check=True)
    return out


@pytest.mark.parametrize(
    "junk",
    [
        "",
        "#",
        "zz",
        "CODE",
        'CODE "',
        "CODE /nowhere 0x1",
        "/nowhere -1",
        "DATA",
        "\t",
        "x y",
        "/nowhere 0x" + "f" * 17,
    ],
)
def test_every_line_of_junk_has_a_whole_answer_in_llvm_style(junk: str) -> None:
    assert ask("llvm-symbolizer", stdin=junk + "\n") in ("??\n??:0:0\n\n", "??\n0 0\n??:?\n\n")


@pytest.mark.parametrize("pretty", [False, True])
@pytest.mark.parametrize("functions", ["linkage", "short"])
@pytest.mark.parametrize("stripped", [False, True])
def test_fast_and_slow_paths_have_equal_answers(pretty: bool, functions: str, stripped: bool, tmp_path: Path) -> None:
    """Text after an address is ignored, but prevents the fast path."""
    path = tmp_path / "with a blank" if functions == "short" else tmp_path / "program"
    shutil.copy(program("-Wl,--strip-debug") if stripped else program(), path)
    settings = SymbolizerSettings()
    settings.pretty, settings.functions = pretty, functions
    responder = SymbolizerResponder(settings)
    module = responder.modules[str(path)]
    assert module is not None
    module.binary.table()
    quoted = f'CODE "{path}"', f'"{path}"'
    names = quoted if " " in str(path) else (*quoted, f"CODE {path}", str(path))
    replied = 0
    for vaddr in (0, 1, *addresses(path), 1 << 40, (1 << 64) - 2, (1 << 64) - 1):
        for question in (f"{name} 0x{vaddr:{form}}".encode() for name in names for form in "xX"):
            expected = responder.answer(question + b" more")
            replied += module.replies is not None and module.replies.reply(question) is not None
            assert responder.answer(question) == expected, question
    assert replied > 100 or (stripped and functions == "short")  # nothing is known without symbols and debug info
    for other in (f"{path}x 0x10", f'"{path}x" 0x10', f"CODE {path}", f'"{path}"0x10', f"{path} 0x", f"{path} 0x1g"):
        assert module.replies is None or module.replies.reply(other.encode()) is None, other


def test_an_answer_comes_before_the_next_question() -> None:
    path = program()
    start, _ = symbol(path, "main")
    with subprocess.Popen([link("llvm-symbolizer")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for question in (f"{path} {start:#x}\n", "junk\n", f"{path} {start:#x}\n"):
            child.stdin.write(question)
            child.stdin.flush()
            while child.stdout.readline() != "\n":
                assert child.poll() is None
        child.stdin.close()
        assert child.wait(SECONDS) == 0


def test_it_answers_with_stderr_closed_and_its_folder_gone() -> None:
    path = program()
    start, _ = symbol(path, "main")
    gone = folder() / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && exec env -i {link('llvm-symbolizer')} 2>&-"
    assert asked("sh", "-c", script, stdin=f"/nowhere 1\n{path} {start:#x}\n").stdout.startswith(
        b"??\n??:0:0\n\nmain\n"
    )


def test_a_question_may_come_in_two_writes_and_end_without_a_newline() -> None:
    path = program()
    start, _ = symbol(path, "main")
    with subprocess.Popen([link("llvm-symbolizer")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(f"{path} ")
        child.stdin.flush()
        written = child.stdin.fileno()
        assert until(lambda: fcntl.ioctl(written, termios.FIONREAD, bytes(4)) == bytes(4))  # it has read that
        child.stdin.write(hex(start))
        child.stdin.close()
        assert child.stdout.read().startswith("main\n")
        assert child.wait(SECONDS) == 0


def test_exits_silently_if_the_caller_closes_the_pipe() -> None:
    with subprocess.Popen(
        [link("llvm-symbolizer")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        child.stdin.write(b"junk\njunk\n")
        child.stdin.close()
        assert child.stderr.read() == b""
        assert child.wait(SECONDS) == 0


def test_a_missing_or_damaged_file_is_reported_once_and_answered_each_time() -> None:
    broken = folder() / "broken"
    broken.write_bytes(b"no ELF file")
    for path in ("/nowhere", str(broken), str(folder())):
        done = asked(str(link("llvm-symbolizer")), stdin=f"{path} 0x10\n" * 3)
        assert done.stdout == b"??\n??:0:0\n\n" * 3
        assert done.stderr.count(b"\n") == 1
        assert done.stderr.startswith(b"llvm-symbolizer: error: '")
        assert done.returncode == 0


def test_an_endless_line_is_one_question() -> None:
    assert ask("llvm-symbolizer", stdin="x" * 1_000_000 + "\njunk\n") == "??\n??:0:0\n\n" * 2


@functools.cache
def responder(style: str) -> SymbolizerResponder:
    asked_for = SymbolizerSettings()
    asked_for.module, asked_for.style = str(program()), style
    asked_for.binutils = style == "addr2line"
    if asked_for.binutils:
        asked_for.style, asked_for.hexadecimal = "GNU", True
    return SymbolizerResponder(asked_for)


@given(st.binary(max_size=80).filter(lambda line: b"\n" not in line))
@settings(max_examples=300, deadline=None)
@example(b"0x1\r")
@example(b"\0")
@example(b"main+")
@example(b"+1")
@example(b'DATA "')
@example(b"FRAME 18446744073709551615")
@example(b"0x" + b"f" * 70)
@example(b"1" * 5000)
@example(b"CODE " + b"0" * 5000 + b"9" * 5000)
@example(b"main+" + b"9" * 5000)
@example(b"\xff\xfe")
def test_any_line_has_one_whole_answer(line: bytes) -> None:
    assert re.fullmatch(rb"(?:.+\n)+\n", responder("LLVM").answer(line))
    assert re.fullmatch(rb"[^\n]+:[\d?]+\n", responder("addr2line").answer(line).split(b"\n", 1)[1])
    assert responder("JSON").answer(line).count(b"\n") == 1


def test_lines_may_end_as_those_of_windows_do() -> None:
    path = program()
    start, _ = symbol(path, "main")
    for name in ("llvm-symbolizer", "addr2line"):
        plain = ask(name, "-f", "-e", str(path), stdin=f"{start:#x}\n")
        assert ask(name, "-f", "-e", str(path), stdin=f"{start:#x}\r\n") == plain


def test_a_file_that_changes_has_complete_answers_of_one_file() -> None:
    """What was open answers, as llvm-symbolizer's does, or nothing; never one file's names with another one's lines."""
    first, other, moving = program(), program("-no-pie"), folder() / "moving"
    inside, beyond = symbol(first, "main")[0], symbol(other, "main")[0]
    steps: list[Callable[[], object]] = [
        lambda: shutil.copy(first, moving),
        lambda: os.replace(shutil.copy(other, folder() / "moving.new"), moving),
        lambda: os.truncate(moving, 100),
        lambda: moving.write_bytes(b"junk"),
        moving.unlink,
        lambda: os.mkfifo(moving),
    ]
    with subprocess.Popen([link("llvm-symbolizer")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        expected = b""
        for step in steps:
            step()
            for address in (inside, beyond):
                child.stdin.write(b'CODE "%s" %#x\n' % (bytes(moving), address))
                answer = b""
                while not answer.endswith(b"\n\n"):
                    answer += os.read(child.stdout.fileno(), 1 << 16) or pytest.fail(f"it ended: {answer!r}")
                if address == inside:
                    expected = expected or answer
                assert answer in ((expected, b"??\n??:0:0\n\n") if address == inside else (b"??\n??:0:0\n\n",))
        assert expected.startswith(b"main\n/")
        child.stdin.close()
        assert child.wait(SECONDS) == 0


def test_closes_the_least_recently_used_of_many_files() -> None:
    path = program()
    start, _ = symbol(path, "main")
    responder = SymbolizerResponder(SymbolizerSettings())
    for index in range(MAX_MODULES + 8):
        copy = folder() / f"copy{index}"
        shutil.copy(path, copy)
        assert responder.answer(f"{copy} {start:#x}".encode()).startswith(b"main\n")
    mapped = Path("/proc/self/maps").read_text()
    assert len(set(re.findall(r"/copy\d+$", mapped, re.MULTILINE))) == MAX_MODULES
    assert "/copy0\n" not in mapped
    assert responder.answer(f"{folder() / 'copy0'} {start:#x}".encode()).startswith(b"main\n")


def test_numbers_are_decimal_octal_and_hex_as_in_c() -> None:
    path = program()
    start, _ = symbol(path, "main")
    spelled = [str(start), f"0{start:o}", f"0o{start:o}", f"0b{start:b}", f"0X{start:X}"]
    answers = {ask("llvm-symbolizer", "-e", str(path), stdin=f"{word}\n") for word in spelled}
    assert len(answers) == 1
    assert answers.pop().startswith("main\n")


def test_an_octal_number_has_no_digit_8() -> None:
    words = ("--output-style=JSON", "-e", str(program()))
    assert '"Address":"0x7"' in ask("llvm-symbolizer-19", *words, stdin="07\n")
    assert '"Address"' not in ask("llvm-symbolizer-19", *words, stdin="08\n")


def test_looks_up_names_as_version_19_does() -> None:
    symbolizer = tool("llvm-symbolizer-19")
    path = program()
    words = ["main", "_ZN2ns1S3runEi+0x2", "_ZN2ns1S3runEi+100000", "nowhere", "-1", "DATA main", "FRAME main", "9x"]
    for options in ((), ("-a",), ("-p",), ("--output-style=GNU",), ("--output-style=JSON",)):
        theirs = asked(symbolizer, *options, "-e", str(path), stdin="".join(f"{word}\n" for word in words[:5]))
        ours = ask("llvm-symbolizer-19", *options, "-e", str(path), stdin="".join(f"{word}\n" for word in words[:5]))
        assert unmarked(ours) == unmarked(theirs.stdout.decode())
    theirs = asked(symbolizer, "-e", str(path), stdin="".join(f"{word}\n" for word in words[5:]))
    assert ask("llvm-symbolizer", "-e", str(path), stdin="".join(f"{word}\n" for word in words[5:])) == (
        theirs.stdout.decode()
    )


def test_the_object_may_come_on_stdin() -> None:
    path = program()
    start, _ = symbol(path, "main")
    done = asked(str(link("llvm-symbolizer")), "-e", "-", hex(start), stdin=path.read_bytes())
    assert done.stdout.startswith(b"main\n")
    assert done.stdout == asked(str(link("llvm-symbolizer")), "-e", str(path), hex(start)).stdout


def test_options_come_from_the_environment_and_from_response_files() -> None:
    path = program()
    start, _ = symbol(path, "_ZN2ns1S3runEi")
    response = folder() / "response"
    response.write_text(f"--no-demangle '--obj={path}'")
    assert ask("llvm-symbolizer", f"@{response}", hex(start)).startswith("_ZN2ns1S3runEi\n")
    env = {"LLVM_SYMBOLIZER_OPTS": "--no-demangle -p"}
    assert ask("llvm-symbolizer", f"{path} {start:#x}", env=env).startswith("_ZN2ns1S3runEi at ")
    assert ask("llvm-symbolizer", "--demangle", f"{path} {start:#x}", env=env).startswith("ns::S::run(int) at ")


def test_json_is_llvm_symbolizers() -> None:
    symbolizer = tool("llvm-symbolizer-14")
    path = program()
    start, _ = symbol(path, "main")
    words = ("--output-style=JSON", "-e", str(path), hex(start), "0x0", "zz")
    theirs = asked(symbolizer, *words).stdout.decode()
    assert unmarked(ask("llvm-symbolizer", *words)) == unmarked(theirs)


def test_a_build_id_names_a_file() -> None:
    path = program("-Wl,--build-id")
    with ElfFile.open(path) as elf:
        build_id = elf.build_id
    location = folder() / "debug" / ".build-id" / build_id[:2]
    location.mkdir(parents=True)
    shutil.copy(path, location / f"{build_id[2:]}.debug")
    start, _ = symbol(path, "main")
    words = ("--debug-file-directory", str(folder() / "debug"))
    assert ask("llvm-symbolizer", *words, f"BUILDID:{build_id} {start:#x}").startswith("main\n")
    assert ask("llvm-symbolizer", *words, f"--build-id={build_id}", hex(start)).startswith("main\n")


def test_finds_split_units_in_a_given_package(tmp_path: Path) -> None:
    """The package is used for units without another source, and a damaged package is reported once."""
    packer = tool("llvm-dwp-14")
    source, path, package = tmp_path / "split.cpp", tmp_path / "split", tmp_path / "elsewhere" / "package.dwp"
    source.write_text(SOURCE)
    package.parent.mkdir()
    subprocess.run([tool("g++"), "-O2", "-g", "-gsplit-dwarf", str(source), "-o", str(path)], cwd=tmp_path, check=True)
    subprocess.run([packer, "-e", str(path), "-o", str(package)], cwd=tmp_path, check=True)
    for unit in tmp_path.glob("*.dwo"):
        unit.unlink()
    start, size = symbol(path, "_ZN2ns1S3runEi")
    stdin = "".join(f"{vaddr:#x}\n" for vaddr in range(start, start + size))
    words = ("-e", str(path), f"--dwp={package}")
    ours = asked(str(link("llvm-symbolizer-19")), *words, stdin=stdin)
    assert "ns::S::sq" in ours.stdout.decode() or "\nsq\n" in "\n" + ours.stdout.decode()
    theirs = asked(tool("llvm-symbolizer-19"), *words, stdin=stdin)
    assert ours.stdout == theirs.stdout
    missing = asked(str(link("llvm-symbolizer-19")), "-e", str(path), "--dwp=/nonexistent", stdin=stdin)
    assert missing.stdout == asked(tool("llvm-symbolizer-19"), "-e", str(path), stdin=stdin).stdout
    assert missing.stderr.count(b"\n") == 1
    with whence.open(path, locator=whence.Locator(files=[package])) as binary:
        assert any(len(binary.lookup(vaddr)) > 1 for vaddr in range(start, start + size))


def test_asan_symbolize_names_a_log() -> None:
    script = tool("asan_symbolize-14")
    path = program()
    start, _ = symbol(path, "_ZN2ns1S3runEi")
    log = f"    #0 0x55a68f191280  ({path}+{start:#x})\n    #1 0x55a68f191280  (/nowhere+0x10)\n"
    logs = [
        asked(script, "-d", stdin=log, env={"LLVM_SYMBOLIZER_PATH": symbolizer}).stdout.decode()
        for symbolizer in (tool("llvm-symbolizer-14"), str(link("llvm-symbolizer")))
    ]
    assert re.search(r"#0 0x55a68f191280 in ns::S::run\(int\) \S*dropin\.cpp:\d+", logs[1])
    assert logs[0] == logs[1]


def test_base_names_shorten_paths_but_not_the_files_of_symbols(tmp_path: Path) -> None:
    path = tmp_path / "app"
    entry = Symbol("arch/x86/irq.c", type=constants.STT_FILE, bind=constants.STB_LOCAL, section=SHN_ABS)
    symbols = [
        entry,
        Symbol("f", 0x1000, 8, bind=constants.STB_LOCAL),
        Symbol("table", 0x1010, 8, type=constants.STT_OBJECT, bind=constants.STB_LOCAL),
    ]
    path.write_bytes(forge([Section(".text", bytes(0x20), flags=6, vaddr=0x1000)], symbols=symbols))
    assert ask("llvm-symbolizer-19", "-s", f"--obj={path}", "0x1004") == "f\narch/x86/irq.c:0:0\n\n"
    assert ask("llvm-symbolizer-19", "-s", f"--obj={path}", "DATA 0x1010") == "table\n4112 8\narch/x86/irq.c:0\n\n"
    assert '"FileName":"arch/x86/irq.c"' in ask(
        "llvm-symbolizer-19", "-s", "--output-style=JSON", f"--obj={path}", "0x1004"
    )
    main, _ = symbol(program(), "main")
    assert "\ndropin.cpp:" in ask("llvm-symbolizer-19", "-s", f"--obj={program()}", hex(main))
