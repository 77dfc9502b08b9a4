"""Functions from symbols: the rules on forged files, and every symbol of real binaries against readelf."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
from array import array
from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forge.elf import Section, Segment, Symbol, forge
from whence._base.errors import ElfError, WhenceError
from whence._base.model import Source
from whence._base.window import ORDERS, ByteOrder
from whence.objects.elf import ElfFile, aliases, functions
from whence.objects.elf.kernels import constants
from whence.ranges import Ranges
from whence.ranges.holding import holding

KINDS = [(bits, order) for bits in (32, 64) for order in ORDERS]
kinds = pytest.mark.parametrize(("bits", "order"), KINDS)
TEXT = Section(".text", bytes(0x100), flags=6, vaddr=0x1000)


def named(ranges: Ranges) -> list[tuple[int, int, str]]:
    return [
        (vaddr, size, ranges.strings.text(ref))
        for vaddr, size, ref in zip(ranges.vaddr, ranges.length, ranges.function)
    ]


def names(symbols: list[Symbol], **options: object) -> list[tuple[int, int, str]]:
    sections = options.pop("sections", [TEXT])
    return named(functions(ElfFile.from_bytes(forge(sections, symbols=symbols, **options))))  # type: ignore[arg-type]


@kinds
def test_functions_come_in_order_with_their_sizes(bits: int, order: ByteOrder) -> None:
    got = names([Symbol("b", 0x1020, 16), Symbol("a", 0x1000, 8)], bits=bits, order=order)
    assert got == [(0x1000, 8, "a"), (0x1020, 16, "b")]


@kinds
def test_symbols_are_columns_with_names_on_demand(bits: int, order: ByteOrder) -> None:
    data = forge([TEXT], symbols=[Symbol("main", 0x1010, 7, bind=2, other=3)], bits=bits, order=order)
    symbols = ElfFile.from_bytes(data).symbols()
    assert [symbols.name(i) for i in range(len(symbols))] == ["", "main"]
    assert (symbols.value[1], symbols.size[1], symbols.info[1], symbols.other[1], symbols.section[1]) == (
        *(0x1010, 7, 0x22, 3, 1),
    )
    assert len(ElfFile.from_bytes(data).symbols(".dynsym")) == 0


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (Symbol("weak", 0x1000, 4, bind=2), Symbol("nosize", 0x1000)),
        (Symbol("local", 0x1000, 4, bind=0), Symbol("weak_", 0x1000, 4, bind=2)),
        (Symbol("global", 0x1000, 4, bind=1), Symbol("localonebylength", 0x1000, 4, bind=0)),
        (Symbol("open", 0x1000, 4), Symbol("__libc_open", 0x1000, 4)),
        (Symbol("_open", 0x1000, 4), Symbol("__open64", 0x1000, 4)),
        (Symbol("open64", 0x1000, 4), Symbol("open", 0x1000, 4)),
        (Symbol("sys_a", 0x1000, 4), Symbol("SyS_a", 0x1000, 4)),
    ],
)
def test_of_several_names_for_one_address_the_best_one_counts(better: Symbol, worse: Symbol) -> None:
    for symbols in ([better, worse], [worse, better]):
        assert names(symbols) == [(0x1000, 4, better.name)]
        elf = ElfFile.from_bytes(forge([TEXT], symbols=symbols))
        assert set(aliases(elf, 0x1000)) == {better.name, worse.name}


def test_an_alias_that_reaches_further_names_the_rest() -> None:
    got = names([Symbol("good_name", 0x1000, 4), Symbol("_long", 0x1000, 12)])
    assert got == [(0x1000, 4, "good_name"), (0x1004, 8, "_long")]


def test_a_symbol_inside_another_takes_its_part_out_of_it() -> None:
    got = names([Symbol("outer", 0x1000, 32), Symbol("inner", 0x1008, 8), Symbol("late", 0x101C, 8)])
    assert got == [(0x1000, 8, "outer"), (0x1008, 8, "inner"), (0x1010, 12, "outer"), (0x101C, 8, "late")]


def test_a_symbol_without_size_reaches_to_the_next_or_its_sections_end() -> None:
    got = names([Symbol("a", 0x1000), Symbol("b", 0x1010, 4), Symbol("c", 0x1020)])
    assert got == [(0x1000, 16, "a"), (0x1010, 4, "b"), (0x1020, 0xE0, "c")]


def test_a_label_without_size_inside_a_sized_function_does_not_cut_it() -> None:
    got = names([Symbol("f", 0x1000, 32), Symbol("label", 0x1008, type=0), Symbol("f_end", 0x1020, type=0, bind=0)])
    assert got == [(0x1000, 32, "f"), (0x1020, 0xE0, "f_end")]


def test_an_object_in_code_ends_the_label_before_it() -> None:
    table = Symbol("table", 0x1020, 8, type=constants.STT_OBJECT)
    inside, after = Symbol("inside", 0x1024, type=0), Symbol("after", 0x1030, type=0)
    got = names([Symbol("start", 0x1000, type=0), Symbol("alias", 0x1020, type=0), table, inside, after])
    assert got == [(0x1000, 32, "start"), (0x1030, 0xD0, "after")]
    assert names([Symbol("f", 0x1000, 0x40), table]) == [(0x1000, 0x40, "f")]


def test_untyped_symbols_count_only_in_code_and_objects_never() -> None:
    data = Section(".data", bytes(64), flags=3, vaddr=0x2000)
    symbols = [
        Symbol("asm", 0x1000, 4, type=0),
        Symbol("table", 0x1008, 4, type=constants.STT_OBJECT),
        Symbol("edata", 0x2000, 4, type=0, section=".data"),
        Symbol("ifunc", 0x1010, 4, type=constants.STT_GNU_IFUNC),
        Symbol("elsewhere", 0x1014, 4, section=0),
        Symbol("absolute", 0x1018, 4, section=constants.SHN_ABS),
        Symbol("outside", 0x1100, 4),
        Symbol("", 0x1020, 4),
        Symbol("long", 0x10F8, 1 << 20),
    ]
    got = names(symbols, sections=[TEXT, data])
    assert got == [(0x1000, 4, "asm"), (0x1010, 4, "ifunc"), (0x10F8, 8, "long")]


@pytest.mark.parametrize("machine", [constants.EM_ARM, constants.EM_AARCH64, constants.EM_RISCV])
def test_mapping_symbols_and_local_labels_name_nothing(machine: int) -> None:
    marks = ["$x", "$d", "$t.1", "$a", ".L5"] + (["$xrv64i2p1"] if machine == constants.EM_RISCV else [])
    symbols = [Symbol(mark, 0x1000 + 4 * i, type=0, bind=0) for i, mark in enumerate(marks)]
    got = names([*symbols, Symbol("$dollar", 0x1040, 4, type=0), Symbol("f", 0x1000, 0x40)], machine=machine)
    assert got == [(0x1000, 0x40, "f"), (0x1040, 4, "$dollar")]


def test_the_thumb_bit_is_no_part_of_an_address() -> None:
    assert names([Symbol("thumb", 0x1001, 4)], machine=constants.EM_ARM, bits=32) == [(0x1000, 4, "thumb")]
    assert names([Symbol("odd", 0x1001, 4)]) == [(0x1001, 4, "odd")]


def test_function_descriptors_of_old_ppc64_are_followed_to_the_code() -> None:
    opd = Section(".opd", struct.pack(">QQQ", 0x1040, 0, 0), flags=3, vaddr=0x3000)
    got = names(
        [Symbol("main", 0x3000, 12, section=".opd"), Symbol("beyond", 0x3014, 12, section=".opd")],
        sections=[TEXT, opd],
        machine=constants.EM_PPC64,
        order="big",
    )
    assert got == [(0x1040, 12, "main")]


def test_a_symbol_without_its_extended_section_index_is_in_no_section() -> None:
    lost = Symbol("lost", 0x1000, 4, section=constants.SHN_XINDEX)
    assert names([lost, Symbol("f", 0x1010, 4)]) == [(0x1010, 4, "f")]


def test_descriptors_that_only_the_program_has_are_followed_for_its_debug_file() -> None:
    words = struct.pack(">QQQ", 0x1040, 0, 0)
    opd = Section(".opd", words, flags=3, vaddr=0x3000)
    gone = Section(".opd", b"", type=constants.SHT_NOBITS, flags=3, vaddr=0x3000, size=len(words))
    kind: dict[str, Any] = {"machine": constants.EM_PPC64, "order": "big"}
    program = ElfFile.from_bytes(forge([TEXT, opd], **kind))
    debug = ElfFile.from_bytes(forge([TEXT, gone], symbols=[Symbol("main", 0x3000, 12, section=".opd")], **kind))
    followed = functions(debug, program=program)
    assert [(vaddr, followed.strings.text(name)) for vaddr, name in zip(followed.vaddr, followed.function)] == [
        (0x1040, "main")
    ]
    assert not len(functions(debug)), "a descriptor is not code"


def test_dynsym_fills_what_symtab_lacks_and_never_wins() -> None:
    data = forge(
        [TEXT],
        symbols=[Symbol("local_name", 0x1000, 8, bind=0)],
        dynamic_symbols=[Symbol("exported", 0x1000, 8), Symbol("other", 0x1010, 8)],
    )
    ranges = functions(ElfFile.from_bytes(data))
    assert named(ranges) == [(0x1000, 8, "local_name"), (0x1010, 8, "other")]
    assert list(ranges.source) == [Source.SYMTAB.number, Source.DYNSYM.number]
    assert named(functions(ElfFile.from_bytes(data), sources=[Source.DYNSYM]))[0] == (0x1000, 8, "exported")


def test_symbols_of_mini_debug_info_and_of_dynsym_are_merged() -> None:
    import lzma

    inner = forge(
        [Section(".text", type=constants.SHT_NOBITS, size=0x100, flags=6, vaddr=0x1000)],
        symbols=[Symbol("m", 0x1020, 4)],
    )
    data = forge([TEXT, Section(".gnu_debugdata", lzma.compress(inner))], dynamic_symbols=[Symbol("d", 0x1000, 4)])
    ranges = functions(ElfFile.from_bytes(data))
    assert named(ranges) == [(0x1000, 4, "d"), (0x1020, 4, "m")]
    assert list(ranges.source) == [Source.DYNSYM.number, Source.MINIDEBUG.number]


def test_a_damaged_table_is_reported_and_the_others_still_name() -> None:
    problems: list[WhenceError] = []
    sections = [TEXT, Section(".symtab", bytes(48), type=2, link=99, entry_size=24)]
    data = forge([*sections, Section(".gnu_debugdata", b"\xfd7zXZ\0damaged")], dynamic_symbols=[Symbol("d", 0x1000, 4)])
    assert named(functions(ElfFile.from_bytes(data), problems=problems)) == [(0x1000, 4, "d")]
    assert [type(problem) for problem in problems] == [ElfError, ElfError]


def test_symbols_with_names_outside_their_table_name_nothing() -> None:
    data = bytearray(forge([TEXT], symbols=[Symbol("a", 0x1000, 4)]))
    section = ElfFile.from_bytes(bytes(data)).section(".symtab")
    assert section is not None
    struct.pack_into("<I", data, section.file_offset + 24, 0xFFFFFFF0)
    elf = ElfFile.from_bytes(bytes(data))
    assert named(functions(elf)) == []
    assert elf.symbols().name(1) == ""


@given(
    st.lists(
        st.tuples(st.integers(0, 0xFF), st.integers(0, 0x140), st.sampled_from([0, 1, 2]), st.text("ab_", min_size=1)),
        max_size=12,
    )
)
def test_ranges_never_overlap_and_cover_what_the_symbols_cover(rows: list[tuple[int, int, int, str]]) -> None:
    got = names([Symbol(name, 0x1000 + offset, size, bind=bind) for offset, size, bind, name in rows])
    assert all(a + n <= b for (a, n, _), (b, _, _) in pairwise(got))
    assert all(n > 0 for _, n, _ in got)
    sized = {a for offset, size, _, _ in rows for a in range(0x1000 + offset, min(0x1000 + offset + size, 0x1100))}
    covered = {a for offset, size, _ in got for a in range(offset, offset + size)}
    assert sized <= covered
    for offset, size, name in got:
        holders = [r for r in rows if r[3] == name and 0x1000 + r[0] <= offset]
        assert any(not r[1] or offset + size <= 0x1000 + r[0] + r[1] for r in holders)


SYMBOLS = st.builds(
    Symbol, st.text("abL._", min_size=1), st.integers(0x1000, 0x1060), st.integers(0, 0x40),
    type=st.sampled_from([constants.STT_FUNC, constants.STT_FUNC, constants.STT_NOTYPE, constants.STT_OBJECT]),
    bind=st.sampled_from([0, 1, 2]),
)  # fmt: skip


@given(st.lists(SYMBOLS, max_size=12), st.lists(SYMBOLS, max_size=6))
def test_the_symbols_near_a_few_addresses_name_them_as_all_symbols_do(
    symbols: list[Symbol], dynamic: list[Symbol]
) -> None:
    elf = ElfFile.from_bytes(forge([TEXT], symbols=symbols, dynamic_symbols=dynamic))
    bounds = {edge for symbol in symbols + dynamic for edge in (symbol.value, symbol.value + symbol.size)}
    asked = sorted({0, 0x1000, 0x10AF, 1 << 63} | bounds | {edge - 1 for edge in bounds})
    every = array("Q", asked)
    full = holding(functions(elf), memoryview(every))
    for vaddr in asked:
        item = memoryview(array("Q", [vaddr]))
        near, expected = holding(functions(elf, near=[vaddr]), item), holding(functions(elf), item)
        assert [row[2] for row in named(near)] == [row[2] for row in named(expected)], vaddr
    near = holding(functions(elf, near=asked), memoryview(every))
    assert [row[2] for row in named(near)] == [row[2] for row in named(full)]


# against readelf, whole


def libpython() -> Path | None:
    name = sysconfig.get_config_var("INSTSONAME") or sysconfig.get_config_var("LDLIBRARY")
    path = Path(str(sysconfig.get_config_var("LIBDIR")), str(name))
    return path if path.suffix != ".a" and path.is_file() else Path(sys.executable).resolve()


def libc() -> Path | None:
    ctypes.CDLL(None)
    for line in Path("/proc/self/maps").read_text().splitlines():
        if re.search(r"/libc[.-]", line):
            return Path(line.split()[-1])
    return None


def go() -> Path | None:
    spec = importlib.util.find_spec("go")
    places = [Path(p) / "bin" / "go" for p in (spec.submodule_search_locations or [])] if spec else []
    return next((p for p in places if p.is_file()), None)


@pytest.mark.skipif(not shutil.which("readelf"), reason="readelf is not on this machine")
@pytest.mark.parametrize("find", [libc, libpython, go], ids=["libc", "libpython", "go"])
def test_every_symbol_is_found_at_its_start_middle_and_last_byte_as_readelf_lists_it(find: object) -> None:
    path = find()  # type: ignore[operator]
    if path is None:
        pytest.skip("this binary is not on this machine")
    listing = subprocess.run(["readelf", "-sW", path], capture_output=True, text=True, errors="surrogateescape").stdout
    text = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True).stdout
    code = {
        int(m[1])
        for m in re.finditer(r"\[ *(\d+)\] .* +[WAXMSILOGTCxol]*X[WAXMSILOGTCxol]* +\d+ +\d+ +\d+$", text, re.M)
    }
    covering: dict[int, set[str]] = defaultdict(set)
    probes: dict[int, list[str]] = defaultdict(list)
    symbols = []
    for line in listing.splitlines():
        match = re.match(r" *\d+: ([0-9a-f]+) +(\w+) (FUNC|IFUNC|NOTYPE) +\w+ +\w+ +(?:\[.*\] +)?(\d+) (.+)", line)
        if match and (match[3] != "NOTYPE" or int(match[4]) in code):
            value, size = int(match[1], 16), int(match[2], 0)
            symbols.append((value, size, match[5]))
    assert len(symbols) > 1000
    for value, size, name in symbols:
        for probe in {value, value + size // 2, value + max(size, 1) - 1}:
            probes[probe].append(name)
    for probe in probes:
        covering[probe] = set()
    points = sorted(probes)
    for value, size, name in symbols:
        for index in range(bisect_right(points, value - 1), len(points)):
            if points[index] >= value + max(size, 1):
                break
            covering[points[index]].add(name)
    with ElfFile.open(path) as elf:
        ranges = functions(elf)
        wrong = []
        for probe in points:
            index = bisect_right(ranges.vaddr, probe) - 1
            inside = index >= 0 and probe < ranges.vaddr[index] + ranges.length[index]
            name = ranges.strings.text(ranges.function[index]) if inside else ""
            versions = {expected.partition("@")[0] for expected in covering[probe]} | covering[probe]
            if name.partition("@")[0] not in versions:
                wrong.append((hex(probe), name, sorted(covering[probe])[:3]))
    assert not wrong, wrong[:10]


def test_a_file_without_section_headers_names_functions_through_its_dynamic_table() -> None:
    result = libc()
    if result is None:
        pytest.skip("no libc is mapped into this process")
    full = bytearray(result.read_bytes())
    if full[4] != 2:
        pytest.skip("a 64-bit libc is wanted")
    with ElfFile.open(result) as elf:
        expected = {name for _, _, name in named(functions(elf, sources=[Source.DYNSYM]))}
    struct.pack_into("<Q", full, 40, 0)
    struct.pack_into("<HHH", full, 58, 64, 0, 0)
    bare = ElfFile.from_bytes(bytes(full))
    assert bare.sections == ()
    got = {name for _, _, name in named(functions(bare))}
    assert expected - got == set()


def test_segments_bound_symbols_of_a_file_without_sections() -> None:
    elf = ElfFile.from_bytes(forge([TEXT], [Segment(of=".text")], section_table=False))
    assert named(functions(elf)) == []
