"""Line programs: what the machine of section 6.2 writes, and what a reader keeps of it."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forge.lines import Step, old_tables, program, sections, uleb
from whence.dwarf.line_files import Paths
from whence.dwarf.lines import LineTable, read_lines
from whence.dwarf.sections import Sections
from whence.ranges import StringSpace
from whence.ranges.strings import Arena

ONE = [("set_address", 0x1000), ("special", 0, 6), ("special", 4, 1), ("end", 8)]
Row = tuple[int, str, int]


def read(found: Sections, **given: Any) -> tuple[list[Row], LineTable, StringSpace]:
    space = StringSpace()
    arena = Arena(space)
    table = read_lines(found, offset=given.pop("offset", 0), arena=arena, comp_dir=b"/src", **given)
    rows = [
        (vaddr, table.rows.files[file] if file < 1 << 31 else 0, line)
        for vaddr, file, line in zip(table.rows.vaddr, table.rows.file, table.rows.line, strict=True)
    ]
    arena.seal()
    return [(vaddr, space.text(ref), line) for vaddr, ref, line in rows], table, space


def rows(steps: Sequence[Step] | bytes, order: str = "little", lowest: int = 1, **header: Any) -> list[Row]:
    size = header.get("address_size", 8)
    result, table, _ = read(
        sections(program(steps, order=order, **header)), order=order, lowest=lowest, address_size=size
    )
    assert table.problems == []
    return result


@pytest.mark.parametrize("version", [2, 3, 4, 5])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("address_size", [4, 8])
def test_every_version_offset_size_byte_order_and_address_size_reads_the_same(
    version: int, wide: bool, order: str, address_size: int
) -> None:
    files = ((b"main.c", 0), (b"main.c", 0)) if version == 5 else ((b"main.c", 0),)
    directories = (b"/src",) if version == 5 else ()
    result = rows(
        ONE, version=version, wide=wide, order=order, address_size=address_size, files=files, directories=directories
    )
    assert result == [(0x1000, "/src/main.c", 7), (0x1004, "/src/main.c", 8), (0x100C, "", 0)]


def test_unsorted_sequences_are_returned_in_ascending_order_with_gaps() -> None:
    steps = [
        ("set_address", 0x2000),
        ("special", 0, 1),
        ("end", 4),
        *ONE,
        ("set_address", 0x100C),
        ("copy",),
        ("end", 4),
    ]
    assert [(vaddr, line) for vaddr, _, line in rows(steps)] == [
        (0x1000, 7), (0x1004, 8), (0x100C, 1), (0x1010, 0), (0x2000, 2), (0x2004, 0),
    ]  # fmt: skip


def test_where_sequences_overlap_the_one_that_ends_first_has_the_bytes() -> None:
    steps = [
        ("set_address", 0x1000), ("special", 0, 1), ("advance_pc", 16), ("special", 0, 1), ("end", 16),
        ("set_address", 0x1000), ("special", 0, 8), ("end", 8),
    ]  # fmt: skip
    assert [(vaddr, line) for vaddr, _, line in rows(steps)] == [(0x1000, 9), (0x1008, 2), (0x1010, 3), (0x1020, 0)]


@pytest.mark.parametrize("address_size", [4, 8])
@pytest.mark.parametrize("dead", [0, -1, -2])
def test_sequences_of_code_the_linker_dropped_are_left_out(dead: int, address_size: int) -> None:
    address = dead & ((1 << 8 * address_size) - 1)
    steps = [("set_address", address), ("special", 0, 2), ("special", 7, 2), ("end", 0x3000), *ONE]
    assert [vaddr for vaddr, _, _ in rows(steps, address_size=address_size)] == [0x1000, 0x1004, 0x100C]


def test_a_file_whose_code_may_be_at_zero_keeps_the_sequence_there() -> None:
    assert [vaddr for vaddr, _, _ in rows([("set_address", 0), *ONE[1:]], lowest=0)] == [0, 4, 12]


def test_code_of_a_kernel_is_in_the_upper_half_of_the_address_space() -> None:
    start = 0xFFFFFFFF81000000
    assert rows([("set_address", start), *ONE[1:]], lowest=start)[0][0] == start
    assert rows([("set_address", start), *ONE[1:]], lowest=start + 1) == []


def test_a_sequence_without_bytes_is_left_out() -> None:
    assert rows([("set_address", 0x1000), ("special", 0, 1), ("end",)]) == []


def test_of_rows_at_one_address_the_last_counts_and_rows_that_say_nothing_new_are_not_kept() -> None:
    steps = [
        ("set_address", 0x1000), ("special", 0, 1), ("special", 4, 0), ("special", 4, 4), ("special", 0, -2),
        ("special", 4, -2), ("special", 0, 0), ("end", 4),
    ]  # fmt: skip
    assert [(vaddr, line) for vaddr, _, line in rows(steps)] == [(0x1000, 2), (0x1008, 4), (0x100C, 2), (0x1010, 0)]


def test_addresses_that_step_back_inside_a_sequence_are_sorted() -> None:
    steps = [("set_address", 0x1010), ("special", 0, 1), ("set_address", 0x1000), ("special", 0, 1), ("end", 0x20)]
    assert [(vaddr, line) for vaddr, _, line in rows(steps)] == [(0x1000, 3), (0x1010, 2), (0x1020, 0)]


def test_line_zero_is_a_row_like_any_other() -> None:
    steps = [("set_address", 0x1000), ("special", 0, 1), ("advance_line", -2), ("special", 4, 0), ("end", 4)]
    assert [(vaddr, line) for vaddr, _, line in rows(steps)] == [(0x1000, 2), (0x1004, 0), (0x1008, 0)]


def test_the_advance_opcodes_count_in_instructions_but_fixed_advance_pc_in_bytes() -> None:
    steps = [
        ("set_address", 0x1000), ("special", 0, 1), ("advance_pc", 3), ("special", 0, 1), ("const_add_pc",),
        ("special", 0, 1), ("fixed_advance_pc", 0x102), ("special", 0, 1), ("end", 1),
    ]  # fmt: skip
    const = 4 * ((255 - 13) // 14)
    expected = [0x1000, 0x100C, 0x100C + const, 0x110E + const, 0x1112 + const]
    for order in ("little", "big"):
        assert [vaddr for vaddr, _, _ in rows(steps, order=order, min_instruction=4)] == expected


def test_a_vliw_machine_advances_its_address_when_the_operation_index_wraps() -> None:
    steps = [("set_address", 0x1000), *[("special", 2, 1)] * 6, ("end", 3)]
    result = [(vaddr, line) for vaddr, _, line in rows(steps, max_operations=3, min_instruction=16)]
    assert result == [(0x1000, 2), (0x1010, 3), (0x1020, 5), (0x1030, 6), (0x1040, 7), (0x1050, 0)]


def test_standard_opcodes_we_do_not_know_are_skipped_by_the_header_s_lengths() -> None:
    lengths = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 2, 0])
    steps = [ONE[0], ("raw", b"\x0d\x81\x01\x05\x0e"), *ONE[1:]]
    assert [vaddr for vaddr, _, _ in rows(steps, opcode_base=15, lengths=lengths)] == [0x1000, 0x1004, 0x100C]


def test_opcodes_below_a_short_opcode_base_are_standard_and_the_rest_special() -> None:
    assert [vaddr for vaddr, _, _ in rows(ONE, opcode_base=4)] == [0x1000, 0x1004, 0x100C]


def test_extended_opcodes_we_do_not_know_are_skipped_by_their_length() -> None:
    steps = [ONE[0], ("raw", b"\0\x05\x80\x01\x02\x03\x04"), ("raw", b"\0\0"), ("raw", b"\0\x02\x04\x07"), *ONE[1:]]
    assert [vaddr for vaddr, _, _ in rows(steps)] == [0x1000, 0x1004, 0x100C]


def test_an_operand_in_many_bytes_is_read_whole() -> None:
    steps = [ONE[0], ("raw", b"\x02\x84\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"), *ONE[1:]]
    assert rows(steps)[0][0] == 0x1004


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("form", "size"), [(0x1A, 1), (0x25, 1), (0x26, 2), (0x27, 3), (0x28, 4)])
def test_names_by_index_are_looked_up_from_the_base_of_the_unit(form: int, size: int, wide: bool) -> None:
    strings = b"\0/a\0one.c\0/b\0two.c\0"
    width = 8 if wide else 4
    entries = b"".join(offset.to_bytes(width, "little") for offset in (1, 4, 10, 13))
    length = (4 + len(entries)).to_bytes(width, "little")
    offsets = (b"\xff" * 4 if wide else b"") + length + b"\5\0\0\0" + entries
    tables = bytes([1, 1, form, 1]) + bytes(size) + bytes([2, 1, form, 2, 0x0B, 2])
    tables += (1).to_bytes(size, "little") + b"\0" + bytes([100]) + bytes(size - 1) + b"\0"
    steps = [("set_address", 0x1000), ("file", 0), ("copy",), ("special", 4, 1), ("file", 1), ("copy",), ("end", 4)]
    line = program(steps, version=5, wide=wide, tables=tables)
    result = sections(line, strings=strings, str_offsets=offsets)
    paths = Paths(result, "little", arena := Arena(space := StringSpace()))
    names = []
    for base in (0, len(offsets) - 2 * width):
        table = read_lines(result, offset=0, arena=arena, comp_dir=b"/src", paths=paths, str_base=base)
        assert not table.problems
        names.append([table.file(0), table.file(1)])
    arena.seal()
    assert [[space.text(name) for name in each] for each in names] == [["/a/one.c", ""], ["/b/two.c", ""]]


def test_a_file_defined_by_the_program_is_numbered_after_the_header_s() -> None:
    steps = [("define_file", 1, "made.y"), ("set_address", 0x1000), ("file", 3), ("special", 0, 1), ("end", 4)]
    assert rows(steps)[0] == (0x1000, "/src/include/made.y", 2)


@pytest.mark.parametrize("directory", [(1 << 64) + 1, (1 << 69) - 1, 1 << 70])
def test_a_defined_file_s_directory_beyond_64_bits_is_survived(directory: int) -> None:
    steps = [("define_file", directory, "made.y"), ("set_address", 0x1000), ("file", 3), ("special", 0, 1), ("end", 4)]
    assert rows(steps)[0][0] == 0x1000


def test_a_row_of_a_file_that_is_not_there_says_nothing() -> None:
    steps = [ONE[0], ("file", 9), ("special", 0, 6), ("file", 1 << 40), ("special", 4, 1), ("file", 2), *ONE[2:]]
    assert rows(steps) == [(0x1000, "", 0), (0x1008, "/src/include/util.h", 9), (0x1010, "", 0)]


@pytest.mark.parametrize(
    ("directory", "name", "path"),
    [
        (b"", b"a.c", "/src/a.c"),
        (b"sub", b"a.c", "/src/sub/a.c"),
        (b"../sub/", b"a.c", "/src/../sub/a.c"),
        (b"/usr/include", b"a.h", "/usr/include/a.h"),
        (b"sub", b"/abs/a.c", "/abs/a.c"),
        (b"C:\\src", b"a.c", "C:\\src/a.c"),
        (b"sub", b"D:/a.c", "D:/a.c"),
    ],
)
def test_paths_are_joined_and_nothing_in_them_is_normalized(directory: bytes, name: bytes, path: str) -> None:
    old = rows(ONE, directories=[directory] if directory else [], files=[(name, 1 if directory else 0)])
    assert old[0][1] == path
    new = rows(ONE, version=5, directories=[b"/src", directory], files=[(b"x", 0), (name, 1)])
    assert new[0][1] == path


def test_a_relative_directory_0_of_version_5_is_joined_to_the_compilation_directory_as_llvm_and_bfd_do() -> None:
    result = rows(ONE, version=5, directories=[b"elsewhere"], files=[(b"x", 0), (b"a.c", 0)])
    assert result[0][1] == "/src/elsewhere/a.c"


def test_file_numbers_start_at_0_in_version_5_and_at_1_before() -> None:
    for version, numbers in ((4, [1, 2]), (5, [0, 1])):
        result = program(ONE, version=version, directories=[b"/d"], files=[(b"a.c", 0), (b"b.c", 0)])
        space = StringSpace()
        arena = Arena(space)
        table = read_lines(sections(result), offset=0, arena=arena, comp_dir=b"/d")
        refs = [table.file(number) for number in (*numbers, 3, 1 << 50)]
        arena.seal()
        assert [space.text(ref) for ref in refs] == ["/d/a.c", "/d/b.c", "", ""]


ENTRY_FORMS = [
    (0x0B, b"\1"), (0x05, b"\1\0"), (0x06, b"\1\0\0\0"), (0x07, b"\1" + bytes(7)), (0x0F, b"\1"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "number"), ENTRY_FORMS)
def test_version_5_entries_may_use_every_form_in_any_order(form: int, number: bytes) -> None:
    junk = [(0x09, b"\2ab"), (0x0A, b"\1a"), (0x03, b"\1\0a"), (0x04, b"\1\0\0\0a"), (0x1E, bytes(16)), (0x0C, b"\1")]
    formats = b"".join(uleb(0x2001) + uleb(each) for each, _ in junk) + uleb(2) + uleb(form) + b"\x01\x1f"
    body = b"".join(data for _, data in junk) + number
    tables = b"\1\1\x0e\2" + b"\0\0\0\0\5\0\0\0"
    tables += bytes([len(junk) + 2]) + formats + b"\2" + body + b"\0\0\0\0" + body + b"\4\0\0\0"
    result = sections(program(ONE, version=5, tables=tables), b"one\0two\0", b"/cdr\0sub\0")
    assert read(result)[0][0] == (0x1000, "/src/sub/two", 7)


def test_two_numbers_of_one_path_are_one_file_of_the_rows() -> None:
    steps = [ONE[0], ("file", 0), ("special", 0, 1), ("file", 1), ("special", 4, 0), ("end", 4)]
    result = sections(program(steps, version=5, directories=[b"/d"], files=[(b"a.c", 0), (b"a.c", 0)]))
    assert read(result)[0] == [(0x1000, "/d/a.c", 2), (0x1008, "", 0)]


def test_a_fault_keeps_the_sequences_before_it_and_says_where_and_why() -> None:
    good = program(ONE)
    for bad, fault in [
        (b"\0\x7f\x01", "an extended opcode extends past the end of the program"),
        (b"\x02\x80", "the program is cut off"),
        (b"\x09\x01", "the program is cut off"),
    ]:
        result, table, _ = read(sections(program([*ONE, ("raw", bad)])), name=b"main.c")
        assert [line for _, _, line in result] == [7, 8, 0]
        (problem,) = table.problems
        assert fault in str(problem)
        assert problem.offset == len(good)
        assert problem.__notes__ == ["in the line program of main.c"]


def test_a_sequence_that_nothing_ends_is_reported_and_left_out() -> None:
    result, table, _ = read(sections(program([*ONE, *ONE[:2]])))
    assert len(result) == 3
    assert len(table.problems) == 1


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (b"", "truncated: needs 4 bytes"),
        (b"\xf0\xff\xff\xff" + bytes(20), "unit length 0xfffffff0 is reserved"),
        (program(ONE, version=6), "line program version 6 is not supported (2 to 5 are)"),
        (program(ONE, version=5, address_size=3), "address size 3 is not 1, 2, 4 or 8"),
        (
            program(ONE)[:6] + b"\xff\xff\0\0" + program(ONE)[10:],
            "header length 0xffff extends past the end of the program",
        ),
        (program(ONE, line_range=0), "line_range is 0"),
    ],
)
def test_a_program_that_cannot_be_run_is_a_problem_and_no_rows(bad: bytes, fault: str) -> None:
    result, table, _ = read(sections(bad))
    assert result == []
    assert fault in str(table.problems[0])


def test_a_broken_file_table_costs_names_but_not_the_program() -> None:
    result, table, _ = read(sections(program(ONE, tables=old_tables([], [(b"main.c", 0)])[:-1] + b"x")))
    assert result == [(0x1000, "/src/main.c", 7), (0x1004, "/src/main.c", 8), (0x100C, "", 0)]
    assert len(table.problems) == 1


def test_a_count_that_the_bytes_cannot_hold_is_refused_before_anything_is_allocated() -> None:
    tables = b"\1\1\x08" + uleb(1 << 60)
    _, table, _ = read(sections(program(ONE, version=5, tables=tables)))
    assert "entries extends past the end of the header" in str(table.problems[0])


def test_a_program_longer_than_the_first_columns_continues_where_it_stopped() -> None:
    advance = itertools.chain.from_iterable((("advance_pc", 1), ("advance_line", 2), ("copy",)) for _ in range(5000))
    steps = [("set_address", 0x1000), *advance, ("end", 1)]
    result = rows(steps)
    assert [(vaddr, line) for vaddr, _, line in result[:-1]] == [(0x1001 + i, 3 + 2 * i) for i in range(5000)]
    many = list(itertools.chain.from_iterable([("set_address", 0x1000 + 16 * i), *ONE[1:]] for i in range(500)))
    assert rows(many)[::3] == [(0x1000 + 16 * i, "/src/main.c", 7) for i in range(500)]


def test_programs_that_overlap_are_not_read_for_ever() -> None:
    result = sections(program(ONE * 5000))
    arena = Arena(StringSpace())
    paths = Paths(result, "little", arena)
    tables = [read_lines(result, offset=0, arena=arena, paths=paths) for _ in range(4)]
    assert [len(table.rows) > 0 for table in tables] == [True, True, False, False]
    assert "read more often than the size of the section allows" in str(tables[3].problems[0])


def test_names_longer_than_any_path_and_paths_beyond_what_bytes_justify_are_left_out() -> None:
    assert rows(ONE, files=[(b"x" * 20000, 0)])[0] == (0x1000, "", 0)
    long = b"/" + b"d" * 16000
    steps = [ONE[0]]
    for number in range(1000):
        steps += [("file", number), ("special", 1, 1)]
    entry = b"".join(uleb(number % 2) + (number * 13).to_bytes(4, "little") for number in range(1000))
    tables = b"\1\1\x1f\2" + bytes(8) + b"\2\2\x0f\1\x1f" + uleb(1000) + entry
    result, table, space = read(sections(program([*steps, ("end", 1)], version=5, tables=tables), long + b"\0"))
    assert 100 < len({name for _, name, _ in result}) < 1000
    assert sum(len(space.text(ref)) for ref in set(table.rows.files)) < 64 * (1 << 17)


def test_every_truncation_ends_in_rows_or_a_problem() -> None:
    for version in (4, 5):
        full = program([*ONE, ("define_file", 0, "x"), *ONE], version=version)
        for size in range(len(full)):
            _, table, _ = read(sections(full[:size]))
            assert table.problems


@given(st.binary(max_size=200), st.sampled_from([2, 4, 5]), st.integers(1, 255), st.integers(0, 4))
def test_any_bytes_for_a_program_give_ascending_rows(body: bytes, version: int, base: int, operations: int) -> None:
    made = program(body, version=version, opcode_base=base, max_operations=operations)
    result, _, _ = read(sections(made), lowest=0)
    assert all(a[0] < b[0] for a, b in itertools.pairwise(result))


@given(st.integers(0, 400), st.binary(min_size=1, max_size=6), st.sampled_from([3, 5]))
def test_any_bytes_in_a_header_give_an_answer(at: int, bad: bytes, version: int) -> None:
    made = bytearray(program(ONE, version=version))
    at %= len(made)
    made[at : at + len(bad)] = bad
    result, _, _ = read(sections(bytes(made)))
    assert all(a[0] < b[0] for a, b in itertools.pairwise(result))
