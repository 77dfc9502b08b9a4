"""Forged Go programs of every layout: functions, lines, inlined calls, and what becomes of damage."""

from __future__ import annotations

import struct
from itertools import product

import pytest

from tests.forge import elf as forge_elf
from tests.forge.gopclntab import TABLE, TEXT, Function, Node, program
from tests.helpers.gofacts import chains
from tests.helpers.survive import survives
from whence._base.errors import GopclntabError
from whence._base.model import Source
from whence._base.window import ByteOrder
from whence.binary import Binary
from whence.gopclntab import Pclntab
from whence.gopclntab.header import VERSIONS
from whence.gopclntab.inlining import SHAPES
from whence.objects.elf import ElfFile
from whence.ranges import Ranges, StringSpace

ORDERS: tuple[ByteOrder, ...] = ("little", "big")
SINCE = [version.since for version in VERSIONS]
FILES = ("/src/main.go", "/src/inner.go", "/src/generated.y")


def first_file(since: str) -> int:
    """File numbers start at 1 in the 1.2 layout."""
    return 1 if since == "1.2" else 0


def sample(since: str) -> list[Function]:
    """Make a table where main calls outer at 8 (line 11), and outer inner at 12 (line 21 of inner.go); both inlined."""
    main, inner = first_file(since), first_file(since) + 1
    nodes = [Node("main.outer", -1, main, 11, 4), Node("main.inner", 0, inner, 21, 8)]
    return [
        Function(
            "main.main",
            32,
            lines=[(0, 10), (4, 11), (8, 21), (12, 31), (16, 22), (20, 12)],
            files=[(0, main), (8, inner), (20, main)],
            inlined=[(0, -1), (8, 0), (12, 1), (16, 0), (20, -1)],
            nodes=nodes,
            padding=16,
        ),
        Function("main.plain", 16, lines=[(0, 50)], files=[(0, main)]),
        Function("main.asm", 8),
    ]


def found(data: bytes) -> Pclntab:
    table = Pclntab.find(ElfFile.from_bytes(data))
    assert table is not None
    return table


def ranges_of(data: bytes) -> Ranges:
    return found(data).ranges(StringSpace())


@pytest.mark.parametrize(("since", "pointer", "order"), list(product(SINCE, (4, 8), ORDERS)))
def test_functions_lines_and_inlined_calls_come_out_of_every_layout(since: str, pointer: int, order: ByteOrder) -> None:
    for quantum in (1, 2, 4):
        data = program(sample(since), FILES, since=since, pointer=pointer, order=order, quantum=quantum)
        table = found(data)
        assert (table.version, len(table), table.header.quantum) == (since, 3, quantum)
        assert [(f.entry, f.name) for f in table.functions()] == [
            (TEXT, "main.main"),
            (TEXT + 48, "main.plain"),
            (TEXT + 64, "main.asm"),
        ]
        chain = chains(table.ranges(StringSpace()))
        main = ("main.main", FILES[0], 11)
        outer = ("main.outer", FILES[1], 21)
        assert chain(TEXT) == [("main.main", FILES[0], 10)]
        assert chain(TEXT + 7) == [main]
        assert chain(TEXT + 8) == [outer, main]
        assert chain(TEXT + 15) == [("main.inner", FILES[1], 31), outer, main]
        assert chain(TEXT + 16) == [("main.outer", FILES[1], 22), main]
        assert chain(TEXT + 31) == [("main.main", FILES[0], 12)]
        assert chain(TEXT + 32) == [], "padding belongs to no function"
        assert chain(TEXT + 48) == [("main.plain", FILES[0], 50)]
        assert chain(TEXT + 64) == [("main.asm", "", 0)]
        assert not any(table.skipped.values())


@pytest.mark.parametrize("since", SINCE)
def test_near_a_vaddr_only_the_functions_that_hold_it_are_laid_and_say_the_same(since: str) -> None:
    table = found(program(sample(since), FILES, since=since))
    full = chains(table.ranges(StringSpace()))
    for near in ([TEXT + 15], [TEXT + 48], [TEXT + 64, TEXT + 7, TEXT + 8], [TEXT + 40], [TEXT - 1, TEXT + 72], []):
        some = table.ranges(StringSpace(), near=near)
        assert [chains(some)(vaddr) for vaddr in near] == [full(vaddr) for vaddr in near]
    assert set(table.ranges(StringSpace(), near=[TEXT + 50]).vaddr) == {TEXT + 48}
    assert not len(table.ranges(StringSpace(), near=[TEXT - 1]))


def test_the_first_lookup_reads_only_one_function() -> None:
    with Binary.from_elf(ElfFile.from_bytes(program(sample("1.20"), FILES))) as binary:
        first = binary.table_for([TEXT + 48])
        assert [entry.function for entry in first] == ["main.plain"]
        assert len(binary.table_for([TEXT + 48])) > len(first), "a second question is not the last"


@pytest.mark.parametrize("shape", SHAPES["1.2"])
@pytest.mark.parametrize("order", ORDERS)
def test_the_shape_of_inline_trees_is_found_by_trying(shape: object, order: ByteOrder) -> None:
    data = program(sample("1.2"), FILES, since="1.2", shape=shape, order=order)  # type: ignore[arg-type]
    assert [frame[0] for frame in chains(ranges_of(data))(TEXT + 12)] == ["main.inner", "main.outer", "main.main"]


def test_ranges_are_in_order_of_vaddr_and_depth_and_have_one_file_each() -> None:
    ranges = ranges_of(program(sample("1.20"), FILES))
    order = list(zip(ranges.vaddr, ranges.depth))
    assert order == sorted(order)
    assert set(ranges.source) == {Source.GOPCLNTAB.number}
    assert [ranges.strings.text(name) for name in ranges.file] == [FILES[0], FILES[1], FILES[1], FILES[0], ""]


def test_a_function_of_several_files_is_split_where_the_file_changes() -> None:
    function = Function("main.f", 12, lines=[(0, 1), (4, 100), (8, 2)], files=[(0, 0), (4, 2), (8, 0)])
    ranges = ranges_of(program([function], FILES))
    assert [(vaddr - TEXT, length) for vaddr, length in zip(ranges.vaddr, ranges.length)] == [(0, 4), (4, 4), (8, 4)]
    assert list(ranges.depth) == [0, 0, 0]
    assert chains(ranges)(TEXT + 5) == [("main.f", FILES[2], 100)]


def test_lines_and_files_are_optional() -> None:
    table = found(program(sample("1.20"), FILES))
    bare = table.ranges(StringSpace(), lines=False, files=False)
    assert not any(bare.line_count)
    assert not any(bare.file)
    assert not any(bare.call_file)
    assert not any(bare.call_line)
    assert max(bare.depth) == 2
    names = table.ranges(StringSpace(), lines=False, files=False, inlines=False)
    assert list(names.length) == [32, 16, 8]


def test_the_columns_for_archives_in_gos_manner_reach_to_the_next_function() -> None:
    strings = StringSpace()
    columns = found(program(sample("1.20"), FILES)).function_columns(strings)
    assert [end - entry for entry, end in zip(columns.entry, columns.end)] == [48, 16, 8]
    assert [strings.text(name) for name in columns.name] == ["main.main", "main.plain", "main.asm"]


# where the table is


@pytest.mark.parametrize("section", [".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro"])
def test_the_table_is_found_by_its_section(section: str) -> None:
    assert section in found(program(sample("1.20"), FILES, section=section, note=True)).found_by


def test_the_table_is_found_by_its_symbol_and_by_its_magic() -> None:
    symbol = forge_elf.Symbol("runtime.pclntab", TABLE, type=1, section=".hidden")
    named = program(sample("1.20"), FILES, section=".hidden", symbols=[symbol])
    assert found(named).found_by == "symbol runtime.pclntab"
    assert found(program(sample("1.20"), FILES, section_table=False)).found_by == "magic in a segment"


def test_a_file_without_a_table_and_one_with_nobits_have_none() -> None:
    assert Pclntab.find(ElfFile.from_bytes(forge_elf.forge([forge_elf.Section(".text", b"\x90")]))) is None
    kept = forge_elf.Section(".gopclntab", b"", type=8, size=4096, vaddr=TABLE, flags=2)
    assert Pclntab.find(ElfFile.from_bytes(forge_elf.forge([kept]))) is None


def test_a_magic_at_the_end_of_a_segment_is_not_a_table() -> None:
    data = program(sample("1.20"), FILES, section=".hidden", section_table=False, cut=6)
    assert Pclntab.find(ElfFile.from_bytes(data)) is None


@pytest.mark.parametrize(("since", "order"), list(product(SINCE, ORDERS)))
def test_addresses_that_only_relocations_hold_are_read_from_them(since: str, order: ByteOrder) -> None:
    plain = program(sample(since), FILES, since=since, order=order, header_text=0)
    moved = program(sample(since), FILES, since=since, order=order, header_text=0, relocated=True)
    assert plain != moved
    chain, other = chains(ranges_of(plain)), chains(ranges_of(moved))
    assert [chain(TEXT + index) for index in range(80)] == [other(TEXT + index) for index in range(80)]
    assert len(other(TEXT + 12)) == 3


# the text base


def test_the_text_base_comes_from_moduledata_when_the_header_has_none() -> None:
    table = found(program(sample("1.20"), FILES, header_text=0))
    assert (table.text_base, table.text_base_found_by) == (TEXT, "moduledata")


def test_the_text_base_comes_from_the_header_or_the_symbol_when_there_is_no_moduledata() -> None:
    table = found(program(sample("1.20"), FILES, module=False))
    assert (table.text_base, table.text_base_found_by) == (TEXT, "header")
    symbol = forge_elf.Symbol("runtime.text", TEXT, type=0)
    table = found(program(sample("1.20"), FILES, module=False, header_text=0, symbols=[symbol]))
    assert (table.text_base, table.text_base_found_by) == (TEXT, "symbol runtime.text")


def test_a_table_whose_text_base_is_unknown_is_refused() -> None:
    with pytest.raises(GopclntabError, match="neither the header, nor moduledata"):
        found(program(sample("1.20"), FILES, module=False, header_text=0))


def test_a_text_base_outside_the_executable_bytes_is_refused() -> None:
    with pytest.raises(GopclntabError, match="is not executable"):
        found(program(sample("1.20"), FILES, module=False, header_text=TEXT + 16))


def test_a_text_base_that_the_symbols_contradict_is_refused() -> None:
    functions = [Function(f"main.f{i}", 8 + 16 * (i % 3)) for i in range(8)] + [Function("main.last", 64)]
    offset, symbols = TEXT, []
    for function in functions:
        symbols.append(forge_elf.Symbol(function.name, offset + 4, function.size))
        offset += function.size
    with pytest.raises(GopclntabError, match="functions start at a symbol"):
        found(program(functions, FILES, module=False, symbols=symbols))


def test_a_text_in_pieces_is_put_where_the_linker_moved_each() -> None:
    functions = [Function(f"main.f{i}", 16, lines=[(0, 10 + i)], files=[(0, 0)]) for i in range(4)]
    swapped = [(0, 16, TEXT), (16, 32, TEXT + 48), (32, 64, TEXT + 16)]
    for word in (40, 43):
        ranges = ranges_of(program(functions, FILES, pieces=swapped, gofunc_word=word))
        chain = chains(ranges)
        assert list(ranges.vaddr) == sorted(ranges.vaddr)
        assert [chain(TEXT + 16 * i)[0][0] for i in range(4)] == ["main.f0", "main.f2", "main.f3", "main.f1"]


def test_a_map_of_pieces_outside_code_is_ignored() -> None:
    functions = [Function(f"main.f{i}", 16) for i in range(2)]
    nowhere = [(0, 16, TEXT), (16, 32, 0x10)]
    assert [f.entry for f in found(program(functions, FILES, pieces=nowhere)).functions()] == [TEXT, TEXT + 16]


def test_without_moduledata_nothing_is_said_of_inlined_calls() -> None:
    table = found(program(sample("1.20"), FILES, module=False))
    assert table.trees_found_by == ""
    assert chains(table.ranges(StringSpace()))(TEXT + 12) == [("main.main", FILES[1], 31)]


@pytest.mark.parametrize("word", [40, 43])
def test_the_place_of_inline_trees_is_found_in_either_layout_of_moduledata(word: int) -> None:
    assert found(program(sample("1.20"), FILES, gofunc_word=word)).trees_found_by == f"moduledata word {word}"


# damage


def test_a_malformed_header_is_reported() -> None:
    for edit, message in (
        ((0, b"\1\2\3\4"), "unknown magic 01 02 03 04"),
        ((4, b"\1"), "the bytes after the magic are 01 00, expected 00 00"),
        ((6, b"\3"), "the quantum is 3, expected 1, 2 or 4"),
        ((7, b"\5"), "the pointer size is 5, expected 4 or 8"),
        ((8, struct.pack("<Q", 1 << 40)), "functions do not fit into functab"),
        ((8 + 8 * 6, struct.pack("<Q", 1 << 40)), "pctab starts at 0x10000000000, past the end of the table"),
    ):
        with pytest.raises(GopclntabError, match=message):
            found(program(sample("1.20"), FILES, edit=edit))


def test_endless_varints_cost_a_function_its_lines_only() -> None:
    endless = [Function("main.bad", raw_lines=b"\xff" * 40), Function("main.good", lines=[(0, 7)], files=[(0, 0)])]
    table = found(program(endless, FILES))
    ranges = table.ranges(StringSpace())
    assert [frame[0] for frame in chains(ranges)(TEXT)] == ["main.bad"]
    assert chains(ranges)(TEXT + 16) == [("main.good", FILES[0], 7)]
    assert table.skipped["lines"] == 1


def test_a_table_that_never_moves_its_pc_ends() -> None:
    table = found(program([Function("main.still", raw_lines=b"\2\0" * 4000)], FILES))
    assert len(table.ranges(StringSpace())) == 1
    assert table.skipped["lines"] == 1


def test_a_circular_inline_tree_costs_a_function_only_its_inlined_calls() -> None:
    nodes = [Node("main.a", pc=4), Node("main.b", pc=8)]
    circle = Function("main.f", 16, [(0, 1)], [(0, 0)], [(0, -1), (4, 1), (8, 0)], nodes)
    table = found(program([circle], FILES))
    ranges = table.ranges(StringSpace())
    assert chains(ranges)(TEXT + 9) == [("main.f", FILES[0], 1)]
    assert table.skipped["inlined calls"] == 1


def test_a_record_that_contradicts_its_row_is_skipped_and_counted() -> None:
    data = program(sample("1.20"), FILES)
    complete = found(data)
    second = complete.header.functab_at + 8 + 4  # the second row's record offset
    table = found(program(sample("1.20"), FILES, edit=(second, struct.pack("<I", 1))))
    assert [function.name for function in table.functions()] == ["main.main", "main.asm"]
    assert table.skipped["record"] == 1


@pytest.mark.parametrize("since", SINCE)
def test_every_cut_of_a_table_gives_an_error_or_an_answer(since: str) -> None:
    size = len(ElfFile.from_bytes(program(sample(since), FILES, since=since)).content(".gopclntab"))
    for cut in range(size):
        data = program(sample(since), FILES, since=since, cut=cut)
        if cut == 0:
            assert Pclntab.find(ElfFile.from_bytes(data)) is None, "an empty section is not a table"
        else:
            survives(ranges_of, data, refused=GopclntabError)


@pytest.mark.parametrize("since", SINCE)
def test_every_flipped_byte_of_a_table_gives_an_error_or_an_answer(since: str) -> None:
    table = bytes(ElfFile.from_bytes(program(sample(since), FILES, since=since)).content(".gopclntab"))
    for index in range(len(table)):
        for mask in (0x01, 0x80, 0xFF):
            data = program(sample(since), FILES, since=since, edit=(index, bytes([table[index] ^ mask])))
            survives(ranges_of, data, refused=GopclntabError)


@pytest.mark.parametrize("lines", [True, False])
def test_more_ranges_than_twice_the_instructions_are_an_error_with_lines_and_without(lines: bool) -> None:
    depth, size = 4, 256
    nodes = [Node(f"main.f{i}", i - 1 if i % depth else -1, 0, 10 + i, 0) for i in range(2 * depth)]
    steps = [(pc, depth - 1 if pc % 2 else 2 * depth - 1) for pc in range(size)]  # another chain of calls at each byte
    data = program([Function("main.main", size, [(0, 10)], [(0, 0)], steps, nodes)], list(FILES), since="1.18")
    table = Pclntab.find(ElfFile.from_bytes(data))
    assert table is not None
    with pytest.raises(GopclntabError, match="more ranges than twice the 257 instructions"):
        table.ranges(StringSpace(), lines)
