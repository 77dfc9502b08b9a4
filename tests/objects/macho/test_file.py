"""Mach-O files as tables: forged ones of both widths and byte orders, fat ones, and damaged ones."""

from __future__ import annotations

import random
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import pytest

from tests.forge.dwarf import Debug, Die, function
from tests.forge.macho import (
    ARM64,
    CODE,
    UUID,
    X86_64,
    Section,
    Symbol,
    command,
    dwarf_sections,
    fat,
    forge,
    starts,
    text,
)
from tests.forge.mutations import mutated
from tests.helpers.objects import damage, named
from whence._base.errors import ObjectError, WhenceError
from whence._base.window import ByteOrder
from whence.objects.machines import EM_AARCH64, EM_X86_64
from whence.objects.macho import MachoFile, is_fat, layout
from whence.objects.opening import architectures, open_object
from whence.producers import Producers

BASE = 0x100001000
SHAPES: list[tuple[int, ByteOrder]] = [(64, "little"), (32, "little"), (64, "big"), (32, "big")]


@pytest.mark.parametrize(("bits", "order"), SHAPES)
def test_symbols_reach_to_the_next_symbol_function_start_or_the_end_of_the_section(bits: int, order: ByteOrder) -> None:
    data = forge(
        [text(0x4040, 0xC0), Section("__DATA", "__data", bytes(16), 0x8000)],
        symbols=[
            Symbol("_b", 0x4060),
            Symbol("_a", 0x4040, type=0x0E),
            Symbol("__Z1cv", 0x40C0),
            Symbol("_value", 0x8000, section=2),
            Symbol("_undefined", 0, type=1, section=0),
            Symbol("_function_of_the_debug_map", 0x4050, type=0x24),
        ],
        function_starts=starts(0x40, 0x20, 0x20, 0x40),
        bits=bits,
        order=order,
    )
    with MachoFile.from_bytes(data) as file:
        assert (file.bits, file.order) == (bits, order)
        assert list(file.function_starts) == [0x4040, 0x4060, 0x4080, 0x40C0]
        assert named(file) == [(0x4040, 0x20, "a"), (0x4060, 0x20, "b"), (0x40C0, 0x40, "_Z1cv")]
        assert file.code_ranges() == [(0x4040, 0x4100)]
        assert file.file_offset_of(0x4041) == data.index(b"\xcc") + 1
        assert file.read_vaddr(0x40FF, 1) == b"\xcc"


def test_of_several_names_of_a_function_a_global_one_is_used_first_and_a_weak_one_last() -> None:
    symbols = [
        Symbol("_weak", BASE, description=layout.N_WEAK_DEF),
        Symbol("_local", BASE, type=0x0E),
        Symbol("_global", BASE),
    ]
    with MachoFile.from_bytes(forge([text()], symbols=symbols)) as file:
        assert named(file) == [(BASE, 0x100, "global")]


def test_a_symbol_before_its_section_is_no_function() -> None:
    symbols = [Symbol("__mh_execute_header", BASE - 0x1000), Symbol("_main", BASE)]
    with MachoFile.from_bytes(forge([text()], symbols=symbols)) as file:
        assert named(file) == [(BASE, 0x100, "main")]


def test_sections_have_the_names_of_the_standard() -> None:
    contents = {"info": b"1", "str_offsets": b"2", "line_str": b"3", "rnglists": b"4"}
    zipped = b"ZLIB" + struct.pack(">Q", 5) + zlib.compress(b"abcde")
    sections = [text(), Section("__TEXT", "__eh_frame", b"frames", BASE + 0x200), *dwarf_sections(contents),
                Section("__DWARF", "__zdebug_abbrev", zipped, 0x200000000)]  # fmt: skip
    with MachoFile.from_bytes(forge(sections)) as file:
        assert [section.name for section in file.sections] == [
            "", ".text", ".eh_frame", ".debug_info", ".debug_str_offsets", ".debug_line_str", ".debug_rnglists",
            ".zdebug_abbrev",
        ]  # fmt: skip
        assert bytes(file.content(".debug_str_offsets")) == b"2"
        assert bytes(file.content(".debug_abbrev")) == b"abcde"
        assert bytes(file.content(".eh_frame")) == b"frames"
        assert file.has_debug_info


def test_a_dsym_has_the_addresses_of_code_without_its_bytes() -> None:
    sections = [text(), *dwarf_sections({"info": b"abc"})]
    with MachoFile.from_bytes(forge(sections, type=layout.MH_DSYM)) as file:
        assert file.code_ranges() == [(BASE, BASE + 0x100)]
        assert not len(file.content(".text"))
        assert bytes(file.content(".debug_info")) == b"abc"
        assert file.translation.has_nobits


def test_uuid_platform_and_encryption_are_reported() -> None:
    platform = command(layout.LC_BUILD_VERSION, struct.pack("<IIII", 2, 0x000E0203, 0x00110000, 0))
    encrypted = command(layout.LC_ENCRYPTION_INFO_64, struct.pack("<IIII", 0x1000, 0x4000, 1, 0))
    with MachoFile.from_bytes(forge([text()], commands=[platform, encrypted], cpu=ARM64)) as file:
        assert file.build_id == UUID.hex()
        assert file.machine == EM_AARCH64
        assert file.kind == "executable"
        assert file.details["architecture"] == "arm64"
        assert file.details["platform"] == "iOS 14.2.3 or later, SDK 17.0"
        assert file.details["encrypted"].startswith("bytes 0x1000-0x5000 ")


def test_a_uuid_of_zeros_is_no_identity() -> None:
    with MachoFile.from_bytes(forge([text()], uuid=bytes(16))) as file:
        assert file.build_id == ""


@pytest.mark.parametrize("wide", [False, True])
def test_a_fat_file_is_opened_by_architecture_and_never_silently_by_its_first_slice(tmp_path: Path, wide: bool) -> None:
    thin = forge([text()], cpu=X86_64, uuid=b"x" * 16)
    path = tmp_path / "fat"
    path.write_bytes(fat((X86_64, thin), (ARM64, forge([text()], cpu=ARM64, uuid=b"a" * 16)), wide=wide))
    assert architectures(str(path)) == ("x86_64", "arm64")
    for name, machine, first in (("x86_64", EM_X86_64, b"x"), ("arm64", EM_AARCH64, b"a")):
        with open_object(f"{path}:{name}") as file:
            assert (file.machine, file.build_id, file.path) == (machine, (first * 16).hex(), f"{path}:{name}")
            assert file.size == len(thin)
    with pytest.raises(ObjectError, match=r"a fat file with 2 architectures: x86_64, arm64"):
        open_object(path)
    with pytest.raises(ObjectError, match=r"no slice is armv7; the file has x86_64, arm64"):
        open_object(f"{path}:armv7")


def test_a_fat_file_with_one_slice_and_a_thin_file_need_no_architecture(tmp_path: Path) -> None:
    thin, item = tmp_path / "thin", tmp_path / "one"
    thin.write_bytes(forge([text()], cpu=ARM64))
    item.write_bytes(fat((ARM64, thin.read_bytes())))
    for path in (thin, item):
        for name in (str(path), f"{path}:arm64"):
            with open_object(name) as file:
                assert file.machine == EM_AARCH64
    with pytest.raises(ObjectError, match="the architecture is arm64, expected x86_64"):
        open_object(f"{thin}:x86_64")


def test_slices_that_overlap_nest_or_leave_the_file_are_refused(tmp_path: Path) -> None:
    thin = forge([text()])
    good = bytearray(fat((X86_64, thin), (ARM64, thin)))
    damaged = {
        "overlap": [(8 + 20 + 8, 0x1000)],
        "after the end of the file": [(8 + 12, 1 << 30)],
        "inside the fat header": [(8 + 8, 4)],
    }
    for fault, patches in damaged.items():
        data = bytearray(good)
        for offset, value in patches:
            struct.pack_into(">I", data, offset, value)
        path = tmp_path / "fat"
        path.write_bytes(data)
        with pytest.raises(ObjectError, match=fault):
            open_object(f"{path}:arm64")
    path.write_bytes(fat((X86_64, fat((X86_64, thin))), (ARM64, thin)))
    with pytest.raises(ObjectError, match="is a fat file itself"):
        open_object(f"{path}:arm64")


def test_a_java_class_is_not_a_fat_file() -> None:
    assert not is_fat(struct.pack(">IHH", 0xCAFEBABE, 0, 52))
    assert is_fat(struct.pack(">II", 0xCAFEBABE, 2))


@pytest.mark.parametrize("size", [0, 7, 10, 1 << 20])
def test_a_load_command_of_an_impossible_size_ends_the_list(size: int) -> None:
    data = bytearray(forge([text()], commands=[command(0x99, b"")]))
    offset = data.index(struct.pack("<II", 0x99, 8))
    struct.pack_into("<I", data, offset + 4, size)
    with MachoFile.from_bytes(data) as file:
        assert [section.name for section in file.sections] == ["", ".text"]
        assert file.build_id == ""  # its command follows
        assert f"load command 0x99 has size {size}" in str(file.problems[0])


def test_function_starts_without_an_end_are_refused() -> None:
    with MachoFile.from_bytes(forge([text()], function_starts=b"\x10" + b"\xff" * 20)) as file:
        assert not file.function_starts
        assert "more than 10 bytes" in str(file.problems[0])


def small() -> bytes:
    debug = Debug().unit(Die(0x11, [(0x03, 0x08, "a.c")], [function("f", BASE, 0x20), function("g", BASE + 0x20, 8)]))
    return forge(
        [Section("__TEXT", "__text", b"\xcc" * 64, BASE, CODE), *dwarf_sections(debug.contents())],
        symbols=[Symbol("_f", BASE), Symbol("_g", BASE + 0x20)],
        function_starts=starts(0x20),
        page=0x100,
    )


def open_contents(data: bytes) -> MachoFile:
    """Open a file and read every section."""
    file = MachoFile.from_bytes(data)
    for section in file.sections:
        with suppress(ObjectError):
            file.content(section)
    return file


def test_damage_to_headers_tables_and_debug_info_is_an_error_or_a_problem() -> None:
    data = small()
    with MachoFile.from_bytes(data) as file, Producers(file) as producers:
        assert len(producers.ranges()) == 3  # the symbol of g reaches further than its debug info
        assert not list(producers.all_problems())
    damage(open_contents, data, bits=0x400 * 8, count=2000)


def test_damage_to_fat_files_raises_only_errors_of_whence() -> None:
    dice = random.Random(20261128)
    both = fat((X86_64, small()), (ARM64, small()), page=0x100)
    for _ in range(2000):
        with suppress(WhenceError):
            MachoFile.in_data(memoryview(mutated(both, dice)), "arm64").close()
