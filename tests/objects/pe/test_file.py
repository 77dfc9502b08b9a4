"""PE files as tables and through the commands: forged ones, damaged ones, and a program of a real linker."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import whence
from tests.forge.dwarf import Debug, Die, function
from tests.forge.pe import BASE, CODE, DEBUG, PAGE, Section, Symbol, codeview, exports, forge, forge_object
from tests.helpers.objects import SOURCE, chains_of, code_of, damage, llvm_chains, named, tools
from whence._base.errors import ObjectError
from whence.objects.opening import open_object
from whence.objects.pe import PeFile, layout
from whence.producers import Producers

TEXT = Section(".text", b"\xcc" * 0x180, CODE)


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


def test_truncations_flipped_header_bits_and_mutations_raise_only_errors_of_whence() -> None:
    data = small()
    with PeFile.from_bytes(data) as file, Producers(file) as producers:
        assert len(producers.ranges()) == 3
    damage(PeFile.from_bytes, data, bits=0x240 * 8, step=3)
    damage(PeFile.from_bytes, object_file(), bits=0x100 * 8, step=3)
    damage(PeFile.from_bytes, object_file(big=True), bits=0x100 * 8, step=3)


def object_file(*, big: bool = False) -> bytes:
    """An object file with `f` and `g` in sections of their own, and relocated debug info."""
    info = [function("f", 0, 0x20), function("g", 0, 8)]
    contents = Debug().unit(Die(0x11, [(0x03, 0x08, "a.c")], info)).contents()
    offsets = [match.start() for match in re.finditer(rb"\0{8}[\x20\x08]", contents["info"])]
    assert len(offsets) == 2
    rows = [(offset, number, 1) for number, offset in enumerate(offsets)]
    sections = [
        Section(".text$f", bytes(0x21), CODE | 5 << 20),
        Section(".text$g", bytes(8), CODE | 5 << 20),
        *(
            Section(f".debug_{name}", data, DEBUG, relocations=rows if name == "info" else ())
            for name, data in contents.items()
        ),
    ]
    symbols = [Symbol("f", 0), Symbol("a_function_with_a_long_name", 0, section=2)]
    return forge_object(sections, symbols=symbols, big=big)


@pytest.mark.parametrize("big", [False, True])
def test_an_object_file_has_its_sections_one_after_the_other_and_relocated_debug_info(
    big: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.obj"
    path.write_bytes(object_file(big=big))
    with open_object(path) as file:
        assert (file.kind, file.is_relocatable, file.format) == ("object file", True, "PE")
        assert [(each.name, each.vaddr) for each in file.sections[:3]] == [("", 0), (".text$f", 0), (".text$g", 0x30)]
        assert named(file) == [(0, 0x21, "f"), (0x30, 8, "a_function_with_a_long_name")]
    with whence.open(path) as binary:
        assert [frame.function for frame in binary.lookup(0x1F)] == ["f"]
        assert [frame.function for frame in binary.lookup(0x34)] == ["g"]


@pytest.mark.parametrize("data", [b"\x64\x86" + bytes(62), b"\x4c\x01" * 32, b"\0\0\xff\xff" + bytes(60), b"\x64\x86"])
def test_files_that_start_like_object_files_are_not_taken_for_them(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    with pytest.raises(ObjectError, match="not an ELF file"):
        open_object(path)


@pytest.mark.parametrize(("target", "emulation"), [("x86_64", "i386pep"), ("aarch64", "arm64pe")])
def test_whole_chains_of_a_real_program_are_those_of_llvm_symbolizer(
    tmp_path: Path, target: str, emulation: str
) -> None:
    clang, linker = tools("clang-19", "ld.lld-19")
    (tmp_path / "a.c").write_text(SOURCE)
    flags = [f"--target={target}-w64-mingw32", "-g", "-O1", "-ffreestanding", "-funwind-tables"]
    subprocess.run([clang, *flags, "-c", "a.c", "-o", "a.o"], cwd=tmp_path, check=True)
    subprocess.run([linker, "-m", emulation, "-e", "start", "a.o", "-o", "a.exe"], cwd=tmp_path, check=True)
    for path in (tmp_path / "a.exe", tmp_path / "a.o"):
        vaddrs = code_of(path)
        ours = chains_of(path, vaddrs)
        assert ours == llvm_chains(path, vaddrs)
        assert sum(len(chain) > 1 for chain in ours) > 10
