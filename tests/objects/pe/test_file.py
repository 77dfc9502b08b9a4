"""PE files as tables and through the commands: forged ones, damaged ones, and a program of a real linker."""

from __future__ import annotations

import json
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import whence
from tests.forge.dwarf import Debug, Die, function
from tests.forge.mutations import mutated
from tests.forge.pe import BASE, CODE, DEBUG, PAGE, Section, Symbol, codeview, exports, forge
from whence._base.errors import DwarfError, ObjectError
from whence.objects.elf.function_symbols import functions
from whence.objects.opening import open_object
from whence.objects.pe import PeFile, layout
from whence.producers import Producers

TEXT = Section(".text", b"\xcc" * 0x180, CODE)
SOURCE = """
volatile int sink;
static inline __attribute__((always_inline)) int square(int x) { sink = x; return x * x; }
__attribute__((noinline)) int sum(int n) {
    int total = 0;
    for (int i = 0; i < n; i++) total += square(i) + sink;
    return total;
}
int start(void) { return sum(sink) & square(sink + 1); }
"""


def named(file: PeFile) -> list[tuple[int, int, str]]:
    table = functions(file)
    return [
        (start, size, table.strings.text(name))
        for start, size, name in zip(table.vaddr, table.length, table.function, strict=True)
    ]


def debug() -> Debug:
    functions = [function("f", BASE + PAGE, 0x20), function("g", BASE + PAGE + 0x20, 8)]
    return Debug().unit(Die(0x11, [(0x03, 0x08, "a.c")], functions))


def small() -> bytes:
    sections = [Section(f".debug_{name}", data, DEBUG) for name, data in debug().contents().items()]
    symbols = [Symbol("f", 0), Symbol("a_function_with_a_long_name", 0x20)]
    return forge([TEXT, *sections], symbols=symbols)


def test_long_section_names_are_read_and_content_ends_before_the_padding() -> None:
    with PeFile.from_bytes(small()) as file:
        debug_names = [f".debug_{name}" for name in debug().contents()]
        assert [section.name for section in file.sections] == ["", ".text", *debug_names]
        assert bytes(file.content(".debug_info")) == debug().contents()["info"]
        assert file.code_ranges() == [(BASE + PAGE, BASE + PAGE + 0x180)]
        assert file.read_vaddr(BASE + PAGE + 0x17F, 1) == b"\xcc"
        assert file.entry == BASE + PAGE


def test_symbols_reach_to_the_next_symbol_or_function_of_pdata() -> None:
    pdata = b"".join(
        struct.pack("<III", PAGE + start, PAGE + start + 0x10, 3 * PAGE + unwind)
        for start, unwind in ((0, 0), (0x40, 0), (0x60, 4), (0x80, 0))
    )
    unwind = bytes([1, 0, 0, 0, 1 | layout.CHAINED, 0, 0, 0])
    symbols = [
        Symbol(".text", 0, type=0, storage=layout.CLASS_STATIC, auxiliary=1),
        Symbol("first", 0),
        Symbol("a_rather_long_name", 0x80, storage=layout.CLASS_STATIC),
        Symbol("undefined", 0, section=0),
    ]
    data = forge(
        [TEXT, Section(".pdata", pdata), Section(".xdata", unwind)],
        symbols=symbols,
        directories={layout.EXCEPTIONS: (2 * PAGE, len(pdata))},
    )
    with PeFile.from_bytes(data) as file:
        start = BASE + PAGE
        assert list(file.function_starts) == [start, start + 0x40, start + 0x80]  # one entry is part of a function
        assert named(file) == [(start, 0x40, "first"), (start + 0x80, 0x100, "a_rather_long_name")]


def test_names_of_32_bit_x86_lose_their_underscore() -> None:
    data = forge([TEXT], symbols=[Symbol("_main", 0)], machine=0x14C, base=0x400000, wide=False)
    with PeFile.from_bytes(data) as file:
        assert file.bits == 32
        assert named(file) == [(0x400000 + PAGE, 0x180, "main")]


def test_exports_name_code_of_a_library_without_symbols_and_forwarders_do_not() -> None:
    content = exports(2 * PAGE, [("alpha", PAGE), ("beta", PAGE + 0x40), ("forwarder", 2 * PAGE + 8)])
    data = forge([TEXT, Section(".edata", content)], directories={layout.EXPORTS: (2 * PAGE, len(content))})
    with PeFile.from_bytes(data) as file:
        assert named(file) == [(BASE + PAGE, 0x40, "alpha"), (BASE + PAGE + 0x40, 0x140, "beta")]


def test_the_build_id_is_the_guid_of_the_codeview_record(tmp_path: Path) -> None:
    record = codeview(2 * PAGE, PAGE + 0x200, b"a.pdb", age=0x1B)
    data = forge([TEXT, Section(".buildid", record)], directories={layout.DEBUG: (2 * PAGE, 28)})
    path = tmp_path / "a.exe"
    path.write_bytes(data)
    with open_object(path) as file:
        assert file.build_id == "23222120252427262829" + "2a2b2c2d2e2f"
        assert file.details["debug id"] == "232221202524272628292A2B2C2D2E2F1b"
        assert (file.details["PDB"], file.details["code id"]) == ("a.pdb", "5F0000003000")


def test_commands_and_open_read_a_program(tmp_path: Path) -> None:
    path = tmp_path / "a.exe"
    path.write_bytes(small())
    with whence.open(path) as binary:
        assert [frame.function for frame in binary.lookup(BASE + PAGE + 0x22)] == ["g"]
    run = [sys.executable, "-m", "whence"]
    answer = subprocess.run([*run, "addr", path, hex(BASE + PAGE)], capture_output=True, text=True, check=True)
    assert answer.stdout.split()[0] == "f"
    archive = tmp_path / "a.lidia"
    subprocess.run([*run, "lidia", "create", path, "-o", archive], capture_output=True, check=True)
    with whence.open(archive) as binary:
        assert [frame.function for frame in binary.lookup(BASE + PAGE + 0x100)] == ["a_function_with_a_long_name"]
    answer = subprocess.run([*run, "explain", path, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["image_base"] == hex(BASE)


def read_all(data: bytes) -> None:
    """Read everything that names addresses; damage raises an error of whence or is reported."""
    try:
        with PeFile.from_bytes(data) as file, Producers(file) as producers:
            table = producers.ranges()
            for name in table.function:
                table.strings.text(name)
            list(producers.all_problems())
    except (ObjectError, DwarfError):
        return


def test_truncations_flipped_header_bits_and_mutations_raise_only_errors_of_whence() -> None:
    data, dice = small(), random.Random(20261128)
    with PeFile.from_bytes(data) as file, Producers(file) as producers:
        assert len(producers.ranges()) == 3
    for size in range(0, len(data), 3):
        read_all(data[:size])
    for bit in range(0x240 * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        read_all(bytes(flipped))
    for _ in range(1000):
        read_all(mutated(data, dice))


@pytest.mark.parametrize(("target", "emulation"), [("x86_64", "i386pep"), ("aarch64", "arm64pe")])
def test_whole_chains_of_a_real_program_are_those_of_llvm_symbolizer(
    tmp_path: Path, target: str, emulation: str
) -> None:
    tools = [shutil.which(name) for name in ("clang-19", "ld.lld-19", "llvm-symbolizer-19")]
    if None in tools:
        pytest.skip("clang-19, ld.lld-19 and llvm-symbolizer-19 are not installed")
    clang, linker, symbolizer = map(str, tools)
    (tmp_path / "a.c").write_text(SOURCE)
    flags = [f"--target={target}-w64-mingw32", "-g", "-O1", "-ffreestanding", "-funwind-tables"]
    subprocess.run([clang, *flags, "-c", "a.c", "-o", "a.o"], cwd=tmp_path, check=True)
    subprocess.run([linker, "-m", emulation, "-e", "start", "a.o", "-o", "a.exe"], cwd=tmp_path, check=True)
    path = tmp_path / "a.exe"
    with open_object(path) as file:
        vaddrs = [vaddr for start, end in file.code_ranges() for vaddr in range(start, end)]
    options = ["--output-style=JSON", "--no-demangle", f"--obj={path}"]
    given = "\n".join(map(hex, vaddrs))
    done = subprocess.run([symbolizer, *options], input=given, capture_output=True, text=True, check=True)
    theirs = [
        [(each["FunctionName"], each["FileName"], each["Line"], each["Column"]) for each in json.loads(line)["Symbol"]]
        for line in done.stdout.splitlines()
    ]
    with whence.open(path, columns=True) as binary:
        ours = [[(one.function, one.file, one.line, one.column) for one in binary.lookup(vaddr)] for vaddr in vaddrs]
    assert ours == [[frame for frame in chain if frame[0]] for chain in theirs]
    assert sum(len(chain) > 1 for chain in ours) > 10
