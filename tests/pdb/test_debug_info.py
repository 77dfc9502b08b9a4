"""CodeView as ranges: chains, files, lines and columns of forged modules, and what damage costs."""

from __future__ import annotations

import struct

import pytest

import whence
from tests.forge import pdb as forge
from tests.forge.pdb import (
    CHECKSUM,
    FIRST,
    Module,
    Pdb,
    annotate,
    checksums,
    class_type,
    function_id,
    inline_site,
    inlinees,
    lines,
    member_id,
    names_stream,
    procedure,
    program,
    string_id,
)
from whence._base.source import Source
from whence.objects.pdb import PdbFile
from whence.pdb import PdbDebugInfo
from whence.pdb.kernels.modules import LINKS_PER_BYTE
from whence.ranges import StringSpace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence._base.model import NameStyle

FILES = ["a.c", "b.h"]
A, B = (names_stream(FILES)[1][name] for name in FILES)
Chain = list[tuple[str, str, int]]


def chain(binary: whence.Binary, vaddr: int) -> Chain:
    return [(frame.function, frame.file, frame.line) for frame in binary.lookup(vaddr)]


def of_function(inside: bytes, rows: bytes = b"", first_lines: list[tuple[int, int, int]] | None = None) -> Pdb:
    """A file with the function `f` at RVA 0x1000, of 0x100 bytes, and ids of `g` and `h`."""
    first_lines = first_lines or [(FIRST, CHECKSUM, 100), (FIRST + 1, CHECKSUM, 200)]
    text = checksums([A, B]) + inlinees(first_lines) + (rows or lines(0, 0x100, [(0, 1), (0x80, 2)]))
    module = Module(procedure("f", 0, 0x100, inside), text, [(1, 0, 0x100)])
    return Pdb(modules=[module], ids=[function_id("g"), function_id("h")], files=FILES)


def opened(pdb: Pdb, *, columns: bool = False) -> whence.Binary:
    return whence.open(pdb.forge(), columns=columns)


def test_chains_of_inlined_calls_have_the_lines_of_each_level() -> None:
    main, header = "C:\\src\\main.c", "C:\\src\\inl.h"
    with opened(program()) as binary:
        assert chain(binary, 0x1010) == [("ns::run", main, 10)]
        assert chain(binary, 0x1018) == [("ns::C::get", header, 101), ("ns::run", main, 11)]
        low = [("ns::low", header, 201), ("ns::C::get", header, 102), ("ns::run", main, 11)]
        assert chain(binary, 0x1020) == chain(binary, 0x1027) == low
        assert chain(binary, 0x1028) == [("ns::C::get", header, 102), ("ns::run", main, 11)]
        assert chain(binary, 0x1030) == [("ns::run", main, 13)]
        assert chain(binary, 0x1060) == [("jump", "", 0)]
        assert chain(binary, 0x1070) == [("ns::run", "", 0)]  # separated from it
        assert [frame.source for frame in binary.lookup(0x1200)] == [Source.SYMTAB]
        assert not binary.problems


def test_a_table_of_one_module_answers_like_the_whole_table() -> None:
    modules = []
    for index in range(40):
        site = inline_site(FIRST, annotate(("both", 4, 1), ("length", 8)))
        text = checksums([A, B]) + inlinees([(FIRST, CHECKSUM, 50)]) + lines(0x100 * index, 0x100, [(0, index + 1)])
        symbols = procedure(f"f{index}", 0x100 * index, 0x100, site)
        modules.append(Module(symbols, text, [(1, 0x100 * index, 0x100)], f"{index}.obj"))
    data = Pdb(modules=modules, ids=[function_id("g")], files=FILES).forge()
    with whence.open(data) as few, whence.open(data) as every:
        plan = few.plan((0x1000,))
        assert (plan.read, plan.units) == ("near", (0,))
        assert len(few.lookup(0x1004)) == 2
        every.table()
        for index in range(40):
            for offset in (0, 4, 12, 0xFF):
                vaddr = 0x1000 + 0x100 * index + offset
                assert chain(few, vaddr) == chain(every, vaddr) != []


def test_each_annotation_moves_code_line_and_file_as_the_format_says() -> None:
    steps: list[tuple[str, int] | tuple[str, int, int]] = [
        ("code", 0x10),  # line 100
        ("line", 5),
        ("code", 0x10),  # 0x20: line 105
        ("both", 8, -3),  # 0x28: line 102
        ("part", 4, 8),  # 0x30 to 0x34: line 102
        ("file", 0),
        ("line", -2),
        ("both", 15, 0),  # 0x3f: a.c, line 100
        ("length", 0x200),  # 0x23f: cut at the end of the function
    ]
    with opened(of_function(inline_site(FIRST, annotate(*steps)))) as binary:
        inner = {offset: chain(binary, 0x1000 + offset)[:-1] for offset in range(0x100)}
    assert inner[0xF] == []
    assert inner[0x10] == inner[0x1F] == [("g", "b.h", 100)]
    assert inner[0x20] == [("g", "b.h", 105)]
    assert inner[0x28] == inner[0x30] == inner[0x33] == [("g", "b.h", 102)]
    assert inner[0x34] == inner[0x3E] == []
    assert inner[0x3F] == inner[0xFF] == [("g", "a.c", 100)]


def test_numbers_of_two_and_four_bytes_are_read() -> None:
    site = inline_site(FIRST, annotate(("line", 9000), ("both", 1, 100_000), ("length", 0x90)))
    with opened(of_function(site)) as binary:
        assert chain(binary, 0x1001) == [("g", "b.h", 109_100), ("f", "a.c", 1)]
        assert chain(binary, 0x1090) == [("g", "b.h", 109_100), ("f", "a.c", 2)]


def test_a_call_within_two_lines_of_its_caller_has_both_as_its_line() -> None:
    site = inline_site(FIRST, annotate(("code", 0x70), ("length", 0x20)))
    with opened(of_function(site)) as binary:
        assert [chain(binary, vaddr)[1][2] for vaddr in (0x1070, 0x107F, 0x1080, 0x108F)] == [1, 1, 2, 2]
        assert chain(binary, 0x1090) == [("f", "a.c", 2)]


def test_a_site_outside_the_site_around_it_is_left_out() -> None:
    inner = inline_site(FIRST + 1, annotate(("code", 0x10), ("length", 0x20)))
    outer = inline_site(FIRST, annotate(("code", 0x18), ("length", 8)), inner)
    with opened(of_function(outer)) as binary:
        assert [len(chain(binary, vaddr)) for vaddr in (0x1010, 0x1018, 0x101F, 0x1020)] == [1, 3, 3, 1]


def test_a_later_site_at_the_same_code_replaces_an_earlier_one() -> None:
    first = inline_site(FIRST, annotate(("code", 0x10), ("length", 0x10)))
    second = inline_site(FIRST + 1, annotate(("code", 0x18), ("length", 0x10)))
    with opened(of_function(first + second)) as binary:
        names = [chain(binary, 0x1000 + offset)[0][0] for offset in (0x10, 0x17, 0x18, 0x27, 0x28)]
    assert names == ["g", "g", "h", "h", "f"]


def test_hidden_lines_are_unknown_lines() -> None:
    rows = lines(0, 0x100, [(0, 7), (0x10, 0xF00F00), (0x20, 0xFEEFEE), (0x30, 8)])
    with opened(of_function(b"", rows)) as binary:
        assert [chain(binary, 0x1000 + offset)[0][2] for offset in (0, 0x10, 0x20, 0x30)] == [7, 0, 0, 8]


def test_columns_are_read_on_request() -> None:
    rows = lines(0, 0x100, [(0, 7), (0x10, 8)], columns=[3, 9])
    site = inline_site(FIRST, annotate(("column", 5), ("code", 0x40), ("length", 8)))
    with opened(of_function(site, rows), columns=True) as binary:
        assert [frame.column for frame in binary.lookup(0x1000)] == [3]
        assert [frame.column for frame in binary.lookup(0x1040)] == [5, 9]
    with opened(of_function(site, rows)) as binary:
        assert [frame.column for frame in binary.lookup(0x1000)] == [0]


def test_start_lines_are_those_of_declarations_and_of_first_rows() -> None:
    site = inline_site(FIRST, annotate(("both", 8, 4), ("length", 8)))
    with opened(of_function(site)) as binary:
        assert [frame.start_line for frame in binary.lookup(0x1008)] == [100, 1]


def test_names_have_their_scopes_or_none() -> None:
    site = inline_site(FIRST + 1, annotate(("code", 8), ("length", 8)))
    member = inline_site(FIRST + 2, annotate(("code", 16), ("length", 8)))
    ids = [string_id("a::b"), function_id("g<x::y>", FIRST), member_id("operator<<", FIRST)]
    module = Module(procedure("n::f", 0, 0x40, site + member), b"", [(1, 0, 0x40)])
    data = Pdb(modules=[module], ids=ids, types=[class_type("k::C<int>")], publics=forge.public("?f@n", 0)).forge()

    def names(style: NameStyle) -> list[str]:
        with whence.open(data, names=style) as binary:
            return [frame.function for vaddr in (0x1008, 0x1010) for frame in binary.lookup(vaddr)]

    assert names("qualified") == ["a::b::g<x::y>", "n::f", "k::C<int>::operator<<", "n::f"]
    assert names("short") == ["g<x::y>", "f", "operator<<", "f"]
    assert names("linkage") == ["a::b::g<x::y>", "?f@n", "k::C<int>::operator<<", "?f@n"]


def test_code_that_several_modules_have_belongs_to_the_one_that_contributed_it() -> None:
    def module(name: str, line: int, code: list[tuple[int, int, int]]) -> Module:
        text = checksums([A, B]) + lines(0, 0x40, [(0, line)])
        return Module(procedure(name, 0, 0x40), text, code)

    modules = [module("folded", 1, []), module("kept", 2, [(1, 0, 0x40)])]
    for order in (modules, modules[::-1]):
        with whence.open(Pdb(modules=order, files=FILES).forge()) as binary:
            assert chain(binary, 0x1000) == [("kept", "a.c", 2)]
    with whence.open(Pdb(modules=modules[:1], files=FILES).forge()) as binary:
        assert chain(binary, 0x1000) == [("folded", "a.c", 1)]


def test_of_folded_functions_of_one_module_the_last_one_counts_with_its_lines() -> None:
    text = checksums([A, B]) + lines(0, 0x40, [(0, 1), (8, 3)]) + lines(0, 0x40, [(0, 2)])
    module = Module(procedure("first", 0, 0x40) + procedure("last", 0, 0x40), text, [(1, 0, 0x40)])
    with whence.open(Pdb(modules=[module], files=FILES).forge()) as binary:
        assert chain(binary, 0x1010) == [("last", "a.c", 2)]


def test_unordered_rows_of_several_files_are_put_in_order() -> None:
    first, second = lines(0, 0x40, [(0x10, 5), (0, 4)]), lines(0, 0x40, [(8, 9)], file=CHECKSUM)
    joined = first[:8] + first[8:] + second[8 + 12 :]
    size = (len(joined) - 8).to_bytes(4, "little")
    with opened(of_function(b"", first[:4] + size + joined[8:])) as binary:
        got = [chain(binary, 0x1000 + offset)[0][1:] for offset in (0, 7, 8, 0xF, 0x10)]
    assert got == [("a.c", 4), ("a.c", 4), ("b.h", 9), ("b.h", 9), ("a.c", 5)]


def test_one_damaged_module_costs_its_own_rest_and_is_reported() -> None:
    good = Module(procedure("good", 0x100, 0x40), b"", [(1, 0x100, 0x40)])
    bad_symbols = Module(procedure("kept", 0, 0x10) + b"\xff\xff\x10\x11", b"", [(1, 0, 0x40)])
    bad_lines = Module(procedure("lined", 0x40, 0x10), b"\xf2\0\0\0\xff\xff\0\0", [(1, 0x40, 0x40)])
    open_end = Module(procedure("open", 0x80, 0x10)[:-4], b"", [(1, 0x80, 0x40)])
    bad_site = Module(procedure("site", 0xC0, 0x10, inline_site(FIRST, b"\xff\xff\xff\xff")), b"", [(1, 0xC0, 0x40)])
    modules = [bad_symbols, bad_lines, open_end, bad_site, good]
    with whence.open(Pdb(modules=modules, ids=[function_id("g")]).forge()) as binary:
        binary.table()
        names = [chain(binary, 0x1000 + offset)[0][0] for offset in (0, 0x40, 0x80, 0xC0, 0x100)]
        problems = binary.problems
    assert names == ["kept", "lined", "open", "site", "good"]
    for module, reason in enumerate(("symbol record", "lines is cut off", "symbol record", "damaged annotations")):
        assert f"module {module}" in problems[module], problems
        assert reason in problems[module], problems
    assert len(problems) == 4


def test_calls_without_end_inside_each_other_are_read_to_a_limit() -> None:
    site = b""
    for _ in range(1000):
        site = inline_site(FIRST, annotate(("code", 8), ("length", 8)), site)
    with opened(of_function(site)) as binary:
        assert 200 < len(binary.lookup(0x1008)) <= 257


def test_work_is_bounded_by_the_bytes_of_a_module() -> None:
    many = annotate(*[("part", 1, 1)] * 15000)
    inner = b"".join(inline_site(FIRST + 1, annotate(("code", 0), ("length", 0x7FFF))) for _ in range(2000))
    text = checksums([A, B]) + inlinees([(FIRST, CHECKSUM, 1)])
    module = Module(procedure("f", 0, 0x7FFF, inline_site(FIRST, many, inner)), text, [(1, 0, 0x7FFF)])
    data = Pdb(modules=[module], ids=[function_id("g"), function_id("h")], files=FILES).forge()
    with whence.open(data) as binary:
        assert chain(binary, 0x1000)[-1][0] == "f"
        assert any("without their inlined calls" in problem for problem in binary.problems)
        assert len(binary.table()) < LINKS_PER_BYTE * len(data)


def test_modules_of_code_are_found_by_their_contributions() -> None:
    with PdbFile.from_bytes(program().forge()) as file:
        file.rebase(0x140000000)
        debug_info = PdbDebugInfo(file, strings=StringSpace())
        assert debug_info.units_at([0x140001010, 0x140001080]) == [0]
        assert debug_info.units_at([0x1010, 0x140002000]) == []
        assert debug_info.module_name(0) == "a.obj"


@pytest.mark.parametrize("jobs", [1, 3])
def test_threads_change_nothing(jobs: int) -> None:
    modules = [
        Module(procedure(f"f{index}" + "x" * 3000, 0x40 * index, 0x40) * 60, b"", [(1, 0x40 * index, 0x40)])
        for index in range(30)
    ]
    with PdbFile.from_bytes(Pdb(modules=modules).forge()) as file:
        table = PdbDebugInfo(file, strings=StringSpace()).ranges(jobs=jobs)
        assert [table.strings.text(name).rstrip("x") for name in table.function] == [f"f{n}" for n in range(30)]


CROSSING_FILES = [*FILES, "B.OBJ"]
IMPORTS, EXPORTS = 0xF7, 0xF8


@pytest.mark.parametrize(
    ("inlinee", "name"),
    [(0x80000001, "g"), (0x80000000, ""), (0x80000002, ""), (0x80100000, ""), (0xFFFFFFFF, ""), (0x80200000, "")],
)
def test_names_of_calls_inlined_from_other_modules_are_those_that_they_export(inlinee: int, name: str) -> None:
    _, offsets = names_stream(CROSSING_FILES)
    imports = struct.pack("<II2I", offsets["B.OBJ"], 2, 0x1234, 0x80002236)
    imports += struct.pack("<III", offsets["a.c"], 1, 0x80002236)  # not a module
    imports += struct.pack("<III", offsets["B.OBJ"], 9, 0x80002236)  # cut off
    text = checksums([A, B]) + inlinees([(inlinee, CHECKSUM, 100)]) + lines(0, 0x100, [(0, 1)])
    site = inline_site(inlinee, annotate(("code", 8), ("length", 8)))
    modules = [
        Module(procedure("f", 0, 0x100, site), text + forge.subsection(IMPORTS, imports), [(1, 0, 0x100)]),
        Module(b"", forge.subsection(EXPORTS, struct.pack("<IIIII", 7, 8, 0x80002236, FIRST, 9)), name="b.obj"),
    ]
    with opened(Pdb(modules=modules, ids=[function_id("g")], files=CROSSING_FILES)) as binary:
        assert chain(binary, 0x1008) == [(name, "b.h", 100), ("f", "a.c", 1)]
        assert not binary.problems
