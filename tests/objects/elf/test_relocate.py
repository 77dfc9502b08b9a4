"""Debug sections of object files come with their references resolved: by hand, and as pyelftools resolves them."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forge.elf import Section, Symbol, forge, mark
from whence._base.errors import Unsupported
from whence._base.window import ORDERS, ByteOrder
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels import constants

TEXT = Section(".text", bytes(64), flags=6)


def rela(order: ByteOrder, *rows: tuple[int, int, int, int]) -> bytes:
    """Explicit relocations of a 64-bit file: place, symbol, type, addend."""
    return b"".join(
        struct.pack(mark(order) + "QQq", offset, symbol << 32 | kind, add) for offset, symbol, kind, add in rows
    )


def content(order: ByteOrder, machine: int, body: bytes, table: bytes, bits: int = 64) -> bytes:
    kind = constants.SHT_RELA if bits == 64 else constants.SHT_REL
    sections = [
        TEXT,
        Section(".debug_info", body),
        Section(".rela.debug_info", table, kind, link=".symtab", info=".debug_info"),
    ]
    data = forge(
        *(sections, ()),
        symbols=[Symbol("", type=3, bind=0), Symbol("f", 0x10), Symbol("nowhere", section=0)],
        bits=bits,
        order=order,
        type=constants.ET_REL,
        machine=machine,
    )
    elf = ElfFile.from_bytes(data)
    got = bytes(elf.content(".debug_info"))
    assert got == bytes(elf.content(".debug_info"))
    return got


@pytest.mark.parametrize("order", ORDERS)
def test_explicit_addends_are_added_to_the_symbol(order: ByteOrder) -> None:
    machine, wide, narrow = (constants.EM_X86_64, 1, 10) if order == "little" else (constants.EM_S390, 22, 4)
    got = content(order, machine, b"\xee" * 24, rela(order, (0, 2, wide, 5), (8, 1, narrow, 0x1234), (16, 3, wide, -1)))
    assert struct.unpack(mark(order) + "QIIQ", got) == (0x15, 0x1234, 0xEEEEEEEE, (1 << 64) - 1)


def test_implicit_addends_are_where_the_value_goes() -> None:
    table = struct.pack("<II", 4, 2 << 8 | 1)
    got = content("little", constants.EM_386, struct.pack("<II", 7, 7), table, bits=32)
    assert got == struct.pack("<II", 7, 0x17)


def test_riscv_differences_are_pairs_of_relocations() -> None:
    table = rela("little", (0, 2, 35, 8), (0, 2, 39, 0), (4, 2, 34, 4), (4, 1, 38, 0), (6, 2, 60, 0x80), (6, 2, 61, 0))
    got = content("little", constants.EM_RISCV, bytes(6) + b"\x80\x00", table)
    assert got == struct.pack("<IH", 8, 0x14) + b"\x80\x01"


def test_relocations_that_break_a_rule_are_left_out_and_told() -> None:
    table = rela("little", (21, 2, 1, 0), (1 << 63, 2, 1, 0), (0, 9999, 1, 0), (0, 2, 444, 0), (8, 2, 1, 0))
    got = content("little", constants.EM_X86_64, bytes(24), table)
    assert got == bytes(8) + struct.pack("<Q", 0x10) + bytes(8)


def test_relocations_of_an_unknown_machine_are_unsupported_and_those_of_a_linked_file_ignored() -> None:
    with pytest.raises(Unsupported, match="machine 9999"):
        content("little", 9999, bytes(8), rela("little", (0, 2, 1, 0)))
    table = Section(".rela.debug_info", rela("little", (0, 2, 1, 0)), 4, link=".symtab", info=".debug_info")
    sections = [TEXT, Section(".debug_info", bytes(8)), table]
    elf = ElfFile.from_bytes(forge(sections, symbols=[Symbol("f", 0x10)]))
    assert bytes(elf.content(".debug_info")) == bytes(8)


def test_thousands_of_debug_sections_are_relocated_in_time_that_grows_with_their_number() -> None:
    count = 4000
    sections = [TEXT]
    for index in range(count):
        sections.append(Section(f".debug_types{index}", bytes(8)))
        table = rela("little", (0, 2, 1, index))
        sections.append(Section(".rela", table, constants.SHT_RELA, link=".symtab", info=f".debug_types{index}"))
    elf = ElfFile.from_bytes(forge(sections, symbols=[Symbol("", type=3), Symbol("f", 0x10)], type=constants.ET_REL))
    got = [struct.unpack("<Q", elf.content(f".debug_types{index}"))[0] for index in range(count)]
    assert got == [0x10 + index for index in range(count)]


SOURCE = """
struct s { int a; long b; };
int f(struct s *x, int n) { for (int i = 0; i < n; i++) { long y = x->b; x->a += y * i; } return x->a; }
"""
TARGETS = ["x86_64", "x86", "aarch64", "arm", "s390x", "powerpc64", "mips64", "mipsel", "riscv64", "loongarch64"]


def compiled(target: str, folder: Path) -> Path:
    source, out = folder / "a.c", folder / "a.o"
    source.write_text(SOURCE)
    if target == "gcc":
        if not shutil.which("gcc"):
            pytest.skip("gcc is not on this machine")
        command = ["gcc"]
    else:
        pytest.importorskip("ziglang")
        command = [sys.executable, "-m", "ziglang", "cc", "-target", f"{target}-freestanding"]
    made = subprocess.run([*command, "-g", "-c", str(source), "-o", str(out)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"this compiler does not make {target}: {made.stderr[:200]}")
    return out


def linked(path: Path) -> Path:
    """Return a copy of an object file with the relocated content of whence and without relocations."""
    data = bytearray(path.read_bytes())
    with ElfFile.open(path) as elf:
        for section in elf.sections:
            if section.name.startswith(".debug_"):
                data[section.file_offset : section.file_offset + section.size] = elf.content(section)
            if section.type in (constants.SHT_RELA, constants.SHT_REL):
                offset = elf.header.sections.file_offset + section.index * elf.header.sections.stride
                struct.pack_into(mark(elf.order) + "I", data, offset + 4, constants.SHT_NULL)
        assert elf.problems == []
    out = path.with_name("b.o")
    out.write_bytes(data)
    return out


@pytest.mark.skipif(not shutil.which("llvm-dwarfdump"), reason="llvm-dwarfdump is not on this machine")
@pytest.mark.parametrize("target", ["gcc", *TARGETS[:-1]])  # older LLVMs leave loongarch as it is
def test_llvm_reads_our_relocated_sections_as_it_relocates_them_itself(target: str, tmp_path: Path) -> None:
    path = compiled(target, tmp_path)
    theirs, ours = (
        subprocess.run(
            ["llvm-dwarfdump", "--debug-info", "--debug-line", "--debug-str-offsets", str(each)],
            capture_output=True,
            text=True,
        ).stdout.splitlines()[1:]
        for each in (path, linked(path))
    )
    assert len(theirs) > 50
    assert ours == theirs


@pytest.mark.parametrize("target", ["gcc", *(t for t in TARGETS if t not in ("mips64", "riscv64"))])  # it has no such
def test_object_files_of_every_machine_read_as_pyelftools_reads_them(target: str, tmp_path: Path) -> None:
    elftools = pytest.importorskip("elftools.elf.elffile")
    out = compiled(target, tmp_path)
    theirs = elftools.ELFFile(io.BytesIO(out.read_bytes()))
    with ElfFile.open(out) as elf:
        ours = {s.name: bytes(elf.content(s)) for s in elf.sections if s.name.startswith(".debug_")}
        assert elf.problems == []
    try:
        dwarf = theirs.get_dwarf_info(relocate_dwarf_sections=True)
    except Exception as error:
        pytest.skip(f"pyelftools does not relocate {target}: {error}")
    for name, section in (
        (".debug_info", dwarf.debug_info_sec),
        (".debug_line", dwarf.debug_line_sec),
        (".debug_str_offsets", dwarf.debug_str_offsets_sec),
        (".debug_addr", dwarf.debug_addr_sec),
    ):
        if section is not None:
            assert ours[name] == section.stream.getvalue(), name
