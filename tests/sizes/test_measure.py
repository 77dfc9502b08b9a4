"""Sizes by function, inlined function, file, unit and section; their sums and their growth."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import whence
from tests.forge.elf import Section, Symbol, forge
from tests.helpers import formats
from tests.helpers.programs import compiled
from whence._base.errors import Unsupported, WrongUse
from whence.objects.elf.kernels import constants
from whence.objects.opening import object_of_bytes
from whence.producers import Producers
from whence.sizes import Change, Kind, SizeOptions, SizeRow, Sizes, compare, measure
from whence.sizes.model import KEYS

ALLOC, EXEC = 2, 4


def sizes_of(data: bytes, **options: object) -> Sizes:
    with object_of_bytes(data) as file, Producers(file) as producers:
        return measure(producers, SizeOptions(**options))  # type: ignore[arg-type]


def by_name(sizes: Sizes) -> dict[str, int]:
    return {row.name: row.bytes for row in sizes.rows}


def loaded(path: Path) -> dict[str, int]:
    """Sections with an address as the program `size` lists them."""
    text = subprocess.run(["size", "-A", "-d", path], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) == 3 and row[2] not in ("addr", "0")}


@pytest.mark.parametrize("by", KEYS)
@pytest.mark.parametrize("flags", [(), ("-static",), ("-gdwarf-2",), ("-gsplit-dwarf",), ("-g0",), ("-flto",)])
def test_the_rows_add_up_to_the_sections_as_size_lists_them(flags: tuple[str, ...], by: str) -> None:
    with whence.open(compiled(*flags)) as binary:
        sizes = binary.sizes(SizeOptions(by=by))  # type: ignore[arg-type]
    expected = loaded(compiled(*flags))
    assert dict(sizes.sections) == expected
    assert sum(row.bytes for row in sizes.rows) == sum(expected.values())


@pytest.mark.parametrize("by", KEYS)
def test_the_rows_on_disk_add_up_to_the_file(by: str) -> None:
    with whence.open(compiled()) as binary:
        sizes = binary.sizes(SizeOptions(by=by, on_disk=True))  # type: ignore[arg-type]
    assert sizes.total == compiled().stat().st_size


@pytest.mark.parametrize("by", KEYS)
@pytest.mark.parametrize("make", [formats.program, formats.windows, formats.wasm])
def test_the_rows_add_up_in_every_format(make: object, by: str) -> None:
    data: bytes = make()  # type: ignore[operator]
    with object_of_bytes(data) as file:
        expected = sum(section.memory_size for section in file.sections if section.allocated)
    assert expected
    assert sizes_of(data, by=by).total == expected
    assert sizes_of(data, by=by, on_disk=True).total == len(data)


def test_functions_have_the_sizes_that_nm_prints() -> None:
    nm = shutil.which("nm") or pytest.skip("nm is not on this machine")
    text = subprocess.run([nm, "-S", "--defined-only", compiled()], capture_output=True, text=True, check=True).stdout
    expected: Counter[str] = Counter()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] in "tT":
            expected[fields[3]] += int(fields[1], 16)
    with whence.open(compiled()) as binary:
        names = by_name(binary.sizes())
    assert {name: names[name] for name in expected} == dict(expected)
    assert {"main", "sum"} <= expected.keys()


def test_inlined_code_is_of_the_inlined_function() -> None:
    with whence.open(compiled()) as binary:
        functions, inlined = binary.sizes(), binary.sizes(SizeOptions(by="inlined"))
    rows = {row.name: row for row in inlined.rows}
    assert rows["square"].bytes == rows["square"].inlined > 0
    assert "square" not in by_name(functions)
    moved = sum(rows[name].bytes for name in ("sum", "twice", "square"))
    assert moved == by_name(functions)["sum"]
    assert rows["sum"].inlined == 0


def test_code_is_of_its_file_and_unit() -> None:
    path = str(compiled().parent / "program.c")
    with whence.open(compiled()) as binary:
        functions = by_name(binary.sizes())
        files = by_name(binary.sizes(SizeOptions(by="file")))
        units = by_name(binary.sizes(SizeOptions(by="unit")))
    assert files[path] == functions["main"] + functions["sum"]
    assert units[path] >= files[path]
    with whence.open(compiled()) as binary:
        replaced = by_name(binary.sizes(SizeOptions(by="unit", path_prefixes=((str(compiled().parent), "src"),))))
    assert replaced["src/program.c"] == units[path]


def test_units_without_ranges_have_those_of_their_functions() -> None:
    with whence.open(compiled("-gdwarf-2", "-ffunction-sections")) as binary:
        units = by_name(binary.sizes(SizeOptions(by="unit")))
    assert units[str(compiled().parent / "program.c")] > 0


def test_padding_and_code_without_a_name_are_rows() -> None:
    nops = bytes.fromhex("66662e0f1f840000000000 90")
    code = b"\xc3" * 4 + nops + b"\xc3" * 16 + b"\x55" * 8
    data = forge(
        [Section(".text", code, flags=ALLOC | EXEC, vaddr=0x1000)],
        symbols=[Symbol("f", 0x1000, 4), Symbol("g", 0x1010, 16)],
    )
    assert by_name(sizes_of(data)) == {"g": 16, "[padding]": 12, "[no function]": 8, "f": 4}
    kinds = {row.name: row.kind for row in sizes_of(data).rows}
    assert kinds["[padding]"] is Kind.PADDING
    assert kinds["[no function]"] is Kind.UNNAMED


def test_sections_that_overlap_are_counted_as_they_are_long() -> None:
    sections = [
        Section(".text", b"\xc3" * 32, flags=ALLOC | EXEC, vaddr=0x1000),
        Section(".more", b"\xc3" * 32, flags=ALLOC | EXEC, vaddr=0x1010),
        Section(".bss", type=constants.SHT_NOBITS, flags=ALLOC, vaddr=0x2000, size=100),
    ]
    data = forge(sections, symbols=[Symbol("f", 0x1000, 0x30)])
    assert by_name(sizes_of(data)) == {
        "[section .bss]": 100, "f": 32, "[no function]": 16, "[section .more]": 16,
    }  # fmt: skip
    assert by_name(sizes_of(data, sections=(".bss",))) == {"[section .bss]": 100}


def test_sections_that_share_bytes_of_the_file_are_counted_once_on_disk() -> None:
    sections = [Section(".text", b"\xc3" * 32, flags=ALLOC | EXEC, vaddr=0x1000)]
    sections.append(Section(".copy", size=1 << 40, file_offset=64))
    data = forge(sections)
    sizes = sizes_of(data, on_disk=True)
    assert sizes.total == len(data)


def test_a_section_past_the_end_of_memory_is_measured() -> None:
    section = Section(".text", b"\xc3" * 8, flags=ALLOC | EXEC, vaddr=(1 << 64) - 4)
    data = forge([section], symbols=[Symbol("f", (1 << 64) - 4, 4)])
    sizes = sizes_of(data)
    assert sizes.total == 8
    assert by_name(sizes)["f"] == 3


def test_code_that_is_cut_off_is_a_problem_and_the_rest_is_measured() -> None:
    section = Section(".text", b"\xc3" * 8, flags=ALLOC | EXEC, vaddr=0x1000, size=1 << 50)
    with object_of_bytes(forge([section], symbols=[Symbol("f", 0x1000, 8)])) as file, Producers(file) as producers:
        assert by_name(measure(producers)) == {"[no function]": (1 << 50) - 8, "f": 8}
        assert ".text" in " ".join(producers.all_problems())


def test_a_section_that_does_not_exist_is_wrong_use() -> None:
    with pytest.raises(WrongUse, match=r"no section is named \.txet \(sections: .*\.text"):
        sizes_of(formats.program(), sections=(".txet",))


def test_an_unknown_key_is_wrong_use() -> None:
    with pytest.raises(WrongUse, match="not 'line'"):
        sizes_of(formats.program(), by="line")


def test_a_file_without_sections_is_wrong_use() -> None:
    with pytest.raises(WrongUse, match=r"^the file has no sections to measure"):
        sizes_of(forge([], section_table=False))


def test_an_archive_has_no_sections(tmp_path: Path) -> None:
    whence.lidia.create(compiled(), tmp_path / "a.lidia")
    with whence.open(tmp_path / "a.lidia") as archive, pytest.raises(Unsupported, match="an archive has no sections"):
        archive.sizes()


def sizes(*rows: tuple[str, int]) -> Sizes:
    return Sizes("", SizeOptions(), tuple(SizeRow(*row) for row in rows), ())


def test_growth_is_name_by_name() -> None:
    new = sizes(("a", 10), ("b", 5), ("c", 7), ("same", 3))
    old = sizes(("a", 4), ("b", 6), ("gone", 8), ("same", 3))
    rows = compare(new, old)
    assert [(row.name, row.growth, row.change) for row in rows] == [
        ("gone", -8, Change.GONE), ("c", 7, Change.NEW), ("a", 6, Change.GROWN), ("b", -1, Change.SHRUNK),
        ("same", 0, Change.SAME),
    ]  # fmt: skip
    assert sum(row.growth for row in rows) == new.total - old.total


def test_hashes_of_compilers_do_not_separate_builds() -> None:
    new = sizes(("f.llvm.123", 10), ("core::fmt::h0123456789abcdef", 4))
    old = sizes(("f.llvm.45", 9), ("core::fmt::hfedcba9876543210", 4))
    assert [row.growth for row in compare(new, old)] == [1, 0]
