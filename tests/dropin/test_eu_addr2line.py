"""whence under the name eu-addr2line: elfutils' options and text, and an answer to every line."""

from __future__ import annotations

import functools
import itertools
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers.drop_ins import asked, link, tool
from tests.helpers.programs import folder
from whence._base.errors import MapsError
from whence.dropin import eu_addr2line
from whence.dropin.eu_addr2line import EuResponder, settings_of
from whence.objects.elf import ElfFile

SOURCE = r"""
int counter = 7;
volatile int sink;
namespace ns {
static inline __attribute__((always_inline)) int inner(int x) { sink = x; sink++; return x * counter + x; }
static inline __attribute__((always_inline)) int outer(int x) {
    int r = inner(x) * 3;
    {
        volatile int q = r;
        r += q;
    }
    sink = r;
    return r;
}
struct S {
    static __attribute__((noinline)) int run(int x) {
        counter++;
        return outer(x) + 3;
    }
};
__attribute__((noinline)) int plain(decltype(nullptr), int x) { return x + counter; }
}
int main(int argc, char **) {
    for (int i = 0; i < argc; i++)
        if (sink)
            sink += ns::S::run(argc);
    return ns::S::run(argc) + ns::plain(nullptr, argc);
}
"""
FUNCTIONS = ("main", "_ZN2ns1S3runEi", "_ZN2ns5plainEDni")
OPTIONS = (
    "", "-a", "-f", "-i", "-f -i", "-f -i -C", "-s", "-s -f -i", "-S", "-x", "-S -f", "-x -f -i", "--relative", "-A -f",
    "--pretty-print", "-f --pretty-print", "-f -i --pretty-print", "-a -f -i -S --pretty-print", "-x --pretty-print -C",
    "--functions --inlines --addresses", "--symbols -a", "-Cignored -f", "-afi", "--basenames --demangle=x -f",
)  # fmt: skip
SOME_OPTIONS = ("-f -i -C", "-x -f -i", "-a -f -i -S --pretty-print", "--relative")


def original() -> str:
    """Run the program of elfutils by its bare name, which is the prefix of its messages."""
    tool("eu-addr2line")
    return "eu-addr2line"


@functools.cache
def program(compiler: str, *flags: str) -> Path:
    """Build the program with .debug_aranges, which eu-addr2line needs."""
    source = folder() / "eu.cpp"
    source.write_text(SOURCE)
    out = folder() / f"eu-{compiler}{''.join(flags)}"
    subprocess.run([tool(compiler), "-O2", "-g", *flags, str(source), "-o", str(out)], check=True)
    return out


def addresses(path: Path) -> list[str]:
    """Every byte of the functions, and places outside of them that both call unknown."""
    result = []
    with ElfFile.open(path) as elf:
        symbols = elf.symbols(".symtab")
        for index in range(len(symbols)):
            if symbols.name(index) in FUNCTIONS:
                result += [f"{symbols.value[index] + offset:#x}" for offset in range(symbols.size[index])]
    return [*result, "0x0", "0xffffffffffffffff", "-1"]


@pytest.mark.parametrize(
    ("compiler", "flags", "options"),
    [
        *(("g++", "", options) for options in OPTIONS),
        *(("g++", "-no-pie -gdwarf-4", options) for options in SOME_OPTIONS),
        *(("clang++-14", "-gdwarf-aranges -fdebug-info-for-profiling", options) for options in ("-fiC", "-afi", "-x")),
    ],
)
def test_the_answers_are_those_of_elfutils(compiler: str, flags: str, options: str) -> None:
    path = program(compiler, *flags.split())
    words = ["-e", str(path), *options.split()]
    questions = "".join(f"{address}\n" for address in addresses(path))
    theirs = asked(original(), *words, stdin=questions).stdout.decode()
    assert asked(str(link("eu-addr2line")), *words, stdin=questions).stdout.decode() == theirs
    assert theirs.count("\n") > 100


def test_questions_may_be_symbols_and_offsets() -> None:
    path = program("g++")
    questions = [
        "main",
        "main+0x4",
        "main+4",
        "main+010",
        "_ZN2ns1S3runEi+0x1",
        "main+0x4000",
        "main-1",
        "0X10",
        " 1180",
    ]
    words = ["-e", str(path), "-f", "-S", *questions]
    theirs, ours = (asked(name, *words) for name in (original(), str(link("eu-addr2line"))))
    assert ours.stdout == theirs.stdout
    assert ours.returncode == theirs.returncode == 0
    assert ours.stderr == theirs.stderr


@pytest.mark.parametrize("junk", ["", ",", "zz", "0x", "nothing+0x10", "CODE 1180", "(.text)0x10", '"'])
def test_queries_without_an_answer_in_elfutils_are_unknown(junk: str) -> None:
    """A caller that reads to the end of an answer would wait forever for a missing answer."""
    path = program("g++")
    done = asked(str(link("eu-addr2line")), "-f", "-e", str(path), stdin=f"{junk}\nmain\n{junk}\n")
    theirs = asked(original(), "-f", "-e", str(path), stdin=f"{junk}\nmain\n{junk}\n")
    assert done.stdout == b"??\n??:0\n" + theirs.stdout + b"??\n??:0\n"
    assert done.stderr == theirs.stderr
    assert done.returncode == theirs.returncode == 1


@pytest.mark.parametrize(
    "words",
    [("--bogus",), ("-Q",), ("-e",), ("--s",), ("--inlines=3",), ("--executable",), ("-e", "/nonexistent", "1")],
)
def test_a_wrong_command_line_has_the_error_of_elfutils(words: tuple[str, ...]) -> None:
    theirs, ours = (asked(name, *words) for name in (original(), str(link("eu-addr2line"))))
    assert (ours.returncode, ours.stdout) == (theirs.returncode, b"")
    if words[:1] != ("-e",):
        assert ours.stderr == theirs.stderr
    assert ours.stderr.startswith(b"eu-addr2line: ")


def test_unsupported_options_of_elfutils_are_an_error() -> None:
    for option in ("-k", "-K", "--offline-kernel=6.1"):
        done = asked(str(link("eu-addr2line")), option, "0x10")
        assert done.returncode == 64
        assert done.stderr.count(b"\n") == 1


def test_help_names_every_option_and_the_version_the_program() -> None:
    done = asked(str(link("eu-addr2line")), "--help")
    assert done.returncode == 0
    theirs = asked(original(), "--help").stdout.decode()
    for word in itertools.chain.from_iterable(line.split() for line in theirs.splitlines()):
        if word.startswith("--"):
            name = word.rstrip(",").partition("[")[0].partition("=")[0]
            assert name in done.stdout.decode(), name
    assert asked(str(link("eu-addr2line")), "-V").stdout.startswith(b"eu-addr2line (elfutils)")


def test_runtime_addresses_are_of_a_process_or_of_its_mappings(tmp_path: Path) -> None:
    """Compare the names of this process, by its pid and by its maps, with those of elfutils."""
    import ctypes

    address = ctypes.cast(ctypes.CDLL(None).qsort, ctypes.c_void_p).value
    kept = tmp_path / "maps"
    kept.write_bytes(Path("/proc/self/maps").read_bytes())
    for words in (("-p", str(os.getpid())), ("-M", str(kept))):
        theirs, ours = (
            asked(name, "-a", "-S", *words, f"{address:#x}").stdout.decode().splitlines()
            for name in (original(), str(link("eu-addr2line")))
        )
        assert ours[:2] == theirs[:2]
        assert "qsort" in ours[1]
    done = asked(str(link("eu-addr2line")), "-M", str(tmp_path), "1")
    assert (done.returncode, done.stderr.count(os.fsencode(tmp_path))) == (1, 1)
    done = asked(str(link("eu-addr2line")), "-p", "0x10", "1")
    assert done.returncode == 64
    done = asked(str(link("eu-addr2line")), "-M", str(tmp_path / "none"), "1")
    assert (done.returncode, done.stdout) == (1, b"")


def test_mappings_are_read_to_their_end_from_proc_and_from_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel writes /proc/PID/maps a page at a time; the highest mappings are after the first page."""
    import ctypes

    address = ctypes.cast(ctypes.CDLL(None).qsort, ctypes.c_void_p).value
    kept = [mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | index % 2 * mmap.PROT_WRITE) for index in range(128)]
    reading, writing = os.pipe()
    lines = Path("/proc/self/maps").read_bytes().splitlines(keepends=True)
    os.write(writing, b"".join(line for line in lines if b"libc.so" in line))
    os.close(writing)
    for path in ("/proc/self/maps", f"/proc/self/fd/{reading}"):
        asked_for = settings_of("eu-addr2line", ["-S", "-M", path])
        assert EuResponder(asked_for).answer(b"%x" % (address or 0)).startswith(b"qsort"), path
    os.close(reading)
    monkeypatch.setattr(eu_addr2line, "MAPS_MAX", mmap.PAGESIZE)
    with pytest.raises(MapsError, match="longer than"):
        EuResponder(settings_of("eu-addr2line", ["-M", "/proc/self/maps"]))
    del kept


@functools.cache
def responder(options: str) -> EuResponder:
    return EuResponder(settings_of("eu-addr2line", ["-e", sys.executable, *options.split()]))


@settings(max_examples=200, deadline=None)
@given(line=st.binary(max_size=200), options=st.sampled_from(["-f", "-f -i -C", "-x --pretty-print -a"]))
@example(line=b"0" * 70000, options="-f")
@example(line=b"main+99999999999999999999999", options="-f")
@example(line=b"(((((", options="-f")
@example(line=b"_start+" + b"9" * 5000, options="-f")
def test_any_line_has_one_whole_answer(line: bytes, options: str) -> None:
    answer = responder(options).answer(line)
    assert answer.endswith(b"\n")
    assert answer.count(b"\n") >= (1 if "pretty" in options else 2)


def test_perf_and_others_find_the_end_of_an_answer() -> None:
    """`,` and -1, which callers send for the sake of an answer that they know."""
    path = program("g++")
    done = asked(str(link("eu-addr2line")), "-f", "-i", "-e", str(path), stdin=",\n-1\n0xffffffffffffffff\n")
    assert done.stdout == b"??\n??:0\n" * 3
