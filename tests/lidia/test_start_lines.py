"""Start lines of functions: from DIEs and Go's records, through the archive, to frames."""

from __future__ import annotations

import struct
from array import array

import pytest

from tests.forge import dwarf as d
from tests.forge.dwarf import Debug, Die, function, inlined
from tests.forge.gopclntab import Function, Node, program
from tests.forge.lines import program as lines
from tests.forge.ranges import Names, R, table
from tests.forge.split import IDS, dwo_files, skeleton
from whence import lidia
from whence._base.model import Frame, Source
from whence.dwarf import DebugInfo
from whence.gopclntab import Pclntab
from whence.lidia.layout import FOOTER
from whence.lidia.writer import to_bytes
from whence.objects.elf import ElfFile
from whence.ranges import Ranges, Starts, StringSpace
from whence.ranges.merge import merge

ROWS = [("set_address", 0x1000), ("special", 0, 4), ("advance_pc", 0x40), ("end", 0)]
CODE = (0x1000, 0x100)


def declared(file: int, line: int) -> list[tuple[int, int, object]]:
    return [(d.DW_AT_decl_file, d.DW_FORM_data1, file), (d.DW_AT_decl_line, d.DW_FORM_udata, line)]


def unit(debug: Debug, *children: Die, directory: str = "/src", name: bytes = b"main.c", language: int = 12) -> Debug:
    """Return a unit with a line program: file 1 is DIRECTORY/NAME, file 2 DIRECTORY/include/util.h."""
    offset = len(debug.line)
    files = ((name, 0), (b"util.h", 1))
    debug.line += lines(ROWS, version=debug.version if debug.version < 5 else 4, files=files)
    root = [
        (d.DW_AT_comp_dir, d.DW_FORM_string, directory),
        (d.DW_AT_stmt_list, d.DW_FORM_sec_offset, offset),
        (d.DW_AT_language, d.DW_FORM_data1, language),
    ]
    return debug.unit(Die(d.DW_TAG_compile_unit, root, children))


def starts(found: Ranges) -> set[tuple[str, str, int]]:
    text = found.strings.text
    columns = found.starts.function, found.starts.file, found.starts.line
    return {(text(name), text(file), line) for name, file, line in zip(*columns)}


def read(debug: Debug, alt: Debug | None = None) -> Ranges:
    other = ElfFile.from_bytes(alt.elf()) if alt else None
    info = DebugInfo(ElfFile.from_bytes(debug.elf(text=CODE)), strings=StringSpace(), alt=other)
    result = info.ranges()
    assert not info.problems
    return result


def looked_up(found: Ranges, vaddr: int) -> list[tuple[str, str, int, int]]:
    """Return (function, file, line, start line) of the frames; single and batch lookups must agree."""
    archive = lidia.from_bytes(to_bytes(merge([found])))
    item = archive.lookup(vaddr)
    many = archive.lookup_many([vaddr])
    assert many[0] == item
    assert list(many) == [item]
    return [(frame.function, frame.file, frame.line, frame.start_line) for frame in item]


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_frames_have_start_lines(version: int) -> None:
    helper = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "helper"), *declared(2, 3)])
    main = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "main"), *declared(1, 2),
        (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
                            (d.DW_AT_high_pc, d.DW_FORM_addr, 0x1040)], [inlined(helper, 0x1010, 8, 7)])  # fmt: skip
    result = read(unit(Debug(version), helper, main))
    assert starts(result) == {("main", "/src/main.c", 2), ("helper", "/src/include/util.h", 3)}
    assert looked_up(result, 0x1000) == [("main", "/src/main.c", 5, 2)]
    # the rows of the inlined bytes are main.c's: a line of util.h would say nothing there
    assert looked_up(result, 0x1010) == [("helper", "/src/main.c", 5, 0), ("main", "/src/main.c", 7, 2)]


def test_a_definition_takes_from_its_declaration_what_it_leaves_out() -> None:
    method = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "f"),
        (d.DW_AT_linkage_name, d.DW_FORM_string, "_ZN1c1fEv"), *declared(2, 3),
                              (d.DW_AT_declaration, d.DW_FORM_flag_present, 1)])  # fmt: skip
    defined = Die(d.DW_TAG_subprogram, [(d.DW_AT_specification, d.DW_FORM_ref4, method),
        (d.DW_AT_decl_line, d.DW_FORM_udata, 30), (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
                               (d.DW_AT_high_pc, d.DW_FORM_udata, 8)])  # fmt: skip
    elsewhere = Die(d.DW_TAG_subprogram, [(d.DW_AT_linkage_name, d.DW_FORM_string, "_ZN1c1gEv"),
        (d.DW_AT_specification, d.DW_FORM_ref4, method),
                                 (d.DW_AT_decl_file, d.DW_FORM_data1, 1), (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1010),
                                 (d.DW_AT_high_pc, d.DW_FORM_udata, 8)])  # fmt: skip
    result = read(unit(Debug(4), Die(d.DW_TAG_class_type, [], [method]), defined, elsewhere, language=0x1A))
    assert starts(result) == {("_ZN1c1fEv", "/src/include/util.h", 30), ("_ZN1c1gEv", "/src/main.c", 3)}


def test_a_declaration_of_another_unit_counts_its_file_there() -> None:
    origin = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "f"), *declared(1, 9)])
    debug = unit(Debug(4), origin, name=b"first.c", directory="/one")
    copy = Die(
        d.DW_TAG_subprogram,
        [
            (d.DW_AT_abstract_origin, d.DW_FORM_ref_addr, origin),
            (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
            (d.DW_AT_high_pc, d.DW_FORM_udata, 8),
        ],
    )
    unit(debug, copy, name=b"second.c", directory="/two")
    assert starts(read(debug)) == {("f", "/one/first.c", 9)}
    info = DebugInfo(ElfFile.from_bytes(debug.elf(text=CODE)), strings=StringSpace())
    only_second = info.ranges([info.units[1].offset])
    assert starts(only_second) == {("f", "/one/first.c", 9)}


def test_a_declaration_in_a_supplementary_file_counts_its_file_there() -> None:
    origin = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "f"), *declared(2, 4)])
    shared = unit(Debug(4), origin, directory="/shared")
    copy = Die(
        d.DW_TAG_subprogram,
        [
            (d.DW_AT_abstract_origin, d.DW_FORM_GNU_ref_alt, origin.offset),
            (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
            (d.DW_AT_high_pc, d.DW_FORM_udata, 8),
        ],
    )
    assert starts(read(unit(Debug(4), copy), shared)) == {("f", "/shared/include/util.h", 4)}


@pytest.mark.parametrize("version", [4, 5])
def test_split_units_count_their_files_in_the_program_of_their_skeleton(version: int) -> None:
    elf = ElfFile.from_bytes(skeleton(version, lines=lines(ROWS, version=4)).elf())
    info = DebugInfo(elf, strings=StringSpace(), dwo=dwo_files(version, IDS, declared(1, 5)))
    names = {("f0", "/src/main.c", 5), ("f0_inner", "/src/main.c", 5), ("f1", "/src/main.c", 5),
             ("f1_inner", "/src/main.c", 5)}  # fmt: skip
    assert starts(info.ranges()) == names


def test_missing_lines_give_no_start() -> None:
    for attributes in (
        [],
        [(d.DW_AT_decl_line, d.DW_FORM_data1, 5)],
        [(d.DW_AT_decl_file, d.DW_FORM_data1, 1)],
        declared(9, 5),
        declared(1, 0),
    ):
        f = Die(
            d.DW_TAG_subprogram,
            [
                (d.DW_AT_name, d.DW_FORM_string, "f"),
                *attributes,
                (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
                (d.DW_AT_high_pc, d.DW_FORM_udata, 8),
            ],
        )
        assert looked_up(read(unit(Debug(4), f)), 0x1000) == [("f", "/src/main.c", 5, 0)]


def with_starts(ranges: list[R], rows: list[tuple[str, str, int]]) -> Ranges:
    names = Names()
    columns = [(names(function), names(file), line) for function, file, line in rows]
    out = table(names, ranges)
    functions, files, numbers = zip(*columns) if columns else ((), (), ())
    out.starts = Starts(array("Q", functions), array("Q", files), array("I", numbers))
    return out


def test_among_functions_with_the_same_name_and_file_the_last_before_the_line_is_chosen() -> None:
    ranges = [R(0x1000, 8, 0, "f", "a.c", ((0, 12),)), R(0x1010, 8, 0, "f", "a.c", ((0, 20),)),
              R(0x1020, 8, 0, "f", "a.c", ((0, 9),)), R(0x1030, 8, 0, "f", "a.c", ((0, 500),)),
              R(0x1040, 8, 0, "g", "a.c", ((0, 3),))]  # fmt: skip
    result = with_starts(
        ranges, [("f", "a.c", 20), ("g", "a.c", 7), ("f", "a.c", 10), ("f", "a.c", 20), ("f", "b.c", 1)]
    )
    archive = lidia.from_bytes(to_bytes(result))
    assert [archive.lookup(vaddr)[0].start_line for vaddr in (0x1000, 0x1010, 0x1020, 0x1030, 0x1040)] == [
        10,
        20,
        0,
        20,
        7,
    ]
    assert archive.lookup_many([0x1000, 0x1040]).start_line.tolist() == [10, 7]
    assert archive.info().starts == 3


def test_an_absent_relative_path_means_the_only_absolute_path_that_ends_with_it() -> None:
    ranges = [R(0x1000, 8, 0, "f", "/build/x/src/a.c", ((0, 12),)), R(0x1010, 8, 0, "g", "/build/x/src/b.c", ((0, 2),)),
              R(0x1020, 8, 0, "h", "/other/src/b.c", ((0, 3),))]  # fmt: skip
    result = with_starts(ranges, [("f", "./src/a.c", 10), ("g", "src/b.c", 1), ("h", "rc/b.c", 1)])
    archive = lidia.from_bytes(to_bytes(result))
    assert [archive.lookup(vaddr)[0].start_line for vaddr in (0x1000, 0x1010, 0x1020)] == [10, 0, 0]


@pytest.mark.parametrize("strings", ["length", "nul"])
def test_both_encodings_of_strings_keep_starts(strings: str) -> None:
    result = with_starts([R(0x1000, 8, 0, "f", "a.c", ((0, 12),))], [("f", "a.c", 10)])
    archive = lidia.from_bytes(to_bytes(result, strings=strings))  # type: ignore[arg-type]
    assert archive.lookup(0x1000) == (Frame("f", "a.c", 12, source=Source.DWARF, start_line=10),)
    assert archive.verify() == []


def test_archives_without_lines_or_for_go_have_no_start_lines() -> None:
    for options in ({"lines": False}, {"files": False}, {"compat": "go"}):
        result = with_starts([R(0x1000, 8, 0, "f", "a.c", ((0, 12),))], [("f", "a.c", 10)])
        assert lidia.from_bytes(to_bytes(result, **options)).info().starts == 0


def test_a_range_is_read_with_its_start_line() -> None:
    builder = lidia.Builder()
    builder.add(vaddr=0x1000, length=8, function="f", file="a.c", line_table=[(0, 12)], start_line=10)
    builder.add(vaddr=0x1010, length=8, function="g", file="a.c")
    archive = lidia.from_bytes(builder.to_bytes())
    assert [each.start_line for each in archive] == [10, 0]
    again = lidia.Builder()
    again.extend(archive)
    assert again.to_bytes() == builder.to_bytes()
    with pytest.raises(ValueError, match="start line"):
        builder.add(vaddr=0, length=1, function="f", file="a.c", start_line=-1)


def test_damaged_start_lines_are_reported_and_lookups_still_work() -> None:
    rows = [("f", "a.c", 10), ("g", "a.c", 20)]
    data = bytearray(
        to_bytes(with_starts([R(0x1000, 8, 0, "f", "a.c", ((0, 12),)), R(0x1010, 4, 0, "g", "a.c")], rows))
    )
    position = data.index(b"STRT") + 16
    first, second = data[position : position + 12], data[position + 12 : position + 24]
    for damage, says in (
        (second + first, "is out of order or a duplicate"),
        (first + struct.pack("<3I", 1 << 30, 18, 20), "has a name outside the"),
    ):
        broken = data[:position] + damage + data[position + 24 :]
        archive = lidia.from_bytes(broken)
        assert archive.lookup(0x1000)[0].function == "f"
        assert any("STRT" in problem and says in problem for problem in archive.verify()), archive.verify()
    offset, size, *rest = FOOTER.unpack(data[-FOOTER.size :])
    struct.pack_into("<Q", data, position - 8, 20)  # the chunk's size: a row and a half
    archive = lidia.from_bytes(data[: position + 20] + FOOTER.pack(offset, size - 4, *rest))
    assert any("20 bytes are not a multiple of 12" in problem for problem in archive.verify())


def test_go_records_have_start_lines_of_functions_and_inlined_calls() -> None:
    nodes = [Node("main.helper", -1, 0, 11, 4, start=30)]
    main = Function("main.main", 32, lines=[(0, 10), (8, 31), (16, 12)], files=[(0, 0)],
                    inlined=[(0, -1), (8, 0), (16, -1)], nodes=nodes, start=9)  # fmt: skip
    result = Pclntab.find(ElfFile.from_bytes(program([main])))
    assert result is not None
    ranges = result.ranges(StringSpace())
    assert starts(ranges) >= {("main.main", "/src/main.go", 9), ("main.helper", "/src/main.go", 30)}
    assert looked_up(ranges, 0x401008) == [
        ("main.helper", "/src/main.go", 31, 30), ("main.main", "/src/main.go", 10, 9)
    ]  # fmt: skip


@pytest.mark.parametrize("since", ["1.2", "1.16", "1.18"])
def test_older_go_records_have_no_start_lines(since: str) -> None:
    first = 1 if since == "1.2" else 0
    data = program([Function("main.main", 32, lines=[(0, 10)], files=[(0, first)], start=9)], since=since)
    result = Pclntab.find(ElfFile.from_bytes(data))
    assert result is not None
    assert {line for _, _, line in starts(result.ranges(StringSpace()))} <= {0}


def test_a_function_without_a_declaration_still_counts_in_its_unit() -> None:
    result = read(unit(Debug(4), function("f", 0x1000, 8)))
    assert not starts(result)
