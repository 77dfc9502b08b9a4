"""A compressed .debug_info that is read while it is being unpacked gives what it gives when all of it is there."""

from __future__ import annotations

import gc
import weakref
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.forge import dwarf as d
from tests.forge.aranges import aranges
from tests.forge.dwarf import Debug, Die, function, inlined
from tests.forge.elf import Section, packed
from tests.forge.lines import program
from tests.forge.ranges import R, listed
from whence._base.window import ByteOrder
from whence.binary import Binary
from whence.dwarf import DebugInfo, ahead, streaming, unit_set
from whence.dwarf.functions import UnitQuery, UnitReader
from whence.dwarf.info import ReadState
from whence.locator.opening import open_binary
from whence.objects.elf import ElfFile, compress
from whence.objects.elf.compress import SectionStream
from whence.ranges import StringSpace

UNITS = 400
TEXT = (0x1000, 0x100000)
OFFSETS = [0] * UNITS  # of the units of `many` in .debug_info


@pytest.fixture(autouse=True)
def _small_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which a few kilobytes come in many waves and pages are forgotten one by one."""
    monkeypatch.setattr(streaming, "SMALLEST", 1)
    monkeypatch.setattr(streaming, "SMALLEST_PREFIX", 1)
    monkeypatch.setattr(streaming, "BATCH", 1000)
    monkeypatch.setattr(unit_set, "BATCH", 500)
    monkeypatch.setattr(compress, "STEP", 64)
    monkeypatch.setattr(compress, "FORGET_UNIT", 4096)


def many(version: int = 4, order: ByteOrder = "little") -> Debug:
    """Units with names inside .debug_info, a call inlined in each, and lines."""
    debug = Debug(version, order)
    for number in range(UNITS):
        callee = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, f"callee{number * 7919}")])
        low = 0x1000 + number * 0x100
        root = [(d.DW_AT_stmt_list, d.DW_FORM_sec_offset, len(debug.line)),
            (d.DW_AT_comp_dir, d.DW_FORM_string, f"/src/{number % 9}"),
                (d.DW_AT_name, d.DW_FORM_string, f"{number}.c")]  # fmt: skip
        OFFSETS[number] = len(debug.info)
        debug.line += program(
            [("set_address", low), ("copy",), ("special", 4, 3), ("end", 0x40)], version=version, order=order
        )
        caller = function(f"caller{number * 104729}", low, 0x80, inlined(callee, low + 8, 8, number))
        debug.unit(Die(d.DW_TAG_compile_unit, root, [callee, caller]))
    return debug


def as_values(info: DebugInfo, jobs: int) -> list[R]:
    return listed(info.ranges(jobs=jobs))


def opened(data: bytes) -> DebugInfo:
    return DebugInfo(ElfFile.from_bytes(data), strings=StringSpace())


def both(data: bytes) -> tuple[DebugInfo, list[R], list[R]]:
    """Return the ranges of a file that is streamed if possible, and of the file read at once."""
    info = opened(data)
    return info, as_values(info, 2), as_values(opened(data), 1)


def was_read_as_it_came(info: DebugInfo) -> bool:
    return info.state < ReadState.SECTIONS


@pytest.mark.parametrize("method", ["zlib", "zstd", "zdebug"])
@pytest.mark.parametrize(("version", "order"), [(4, "little"), (5, "little"), (4, "big")])
def test_units_read_as_they_arrive_give_the_ranges_they_give_when_all_are_there(
    version: int, order: ByteOrder, method: str
) -> None:
    info, arrived, full = both(many(version, order).elf(text=TEXT, pack=method))
    assert was_read_as_it_came(info)
    assert arrived == full
    assert len(full) > 2 * UNITS
    assert not info.problems
    assert len(info.units) == UNITS  # reading the units decompresses them again


def test_what_only_units_need_leaves_memory_once_all_are_read() -> None:
    info = opened(many(5).elf(text=TEXT, pack="zlib"))
    kept = [weakref.ref(info.elf.content(name)) for name in (".debug_abbrev", ".debug_rnglists", ".debug_line")]
    first = as_values(info, 2)
    assert was_read_as_it_came(info)
    gc.collect()
    assert [each() for each in kept] == [None] * 3
    assert as_values(info, 1) == first  # they are unpacked again


def test_a_unit_longer_than_what_is_unpacked_ahead_is_read_as_it_arrives() -> None:
    debug = many()
    low = TEXT[0] + UNITS * 0x100
    functions = [function(f"one_of_many{number:030}", low + number * 16, 16) for number in range(200)]
    debug.unit(Die(d.DW_TAG_compile_unit, [(d.DW_AT_name, d.DW_FORM_string, "long.c")], functions))
    info, arrived, full = both(debug.elf(text=TEXT, pack="zlib"))
    assert was_read_as_it_came(info)
    assert arrived == full


def test_units_that_refer_to_each_other_are_read_when_all_are_there() -> None:
    debug = many()
    callee = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "far")])
    debug.unit(Die(d.DW_TAG_compile_unit, [(d.DW_AT_name, d.DW_FORM_string, "a.c")], [callee]))
    call = [
        (d.DW_AT_abstract_origin, d.DW_FORM_ref_addr, callee),
        (d.DW_AT_low_pc, d.DW_FORM_addr, 0x90000),
        (d.DW_AT_high_pc, d.DW_FORM_udata, 8),
    ]
    debug.unit(Die(d.DW_TAG_compile_unit, [(d.DW_AT_name, d.DW_FORM_string, "b.c")], [Die(d.DW_TAG_subprogram, call)]))
    info, arrived, full = both(debug.elf(text=TEXT, pack="zlib"))
    assert not was_read_as_it_came(info)
    assert arrived == full
    assert arrived[-1].function == "far"


def test_units_far_apart_that_share_a_line_program_are_read_when_all_are_there() -> None:
    debug = many()
    debug.unit(
        Die(d.DW_TAG_compile_unit, [(d.DW_AT_stmt_list, d.DW_FORM_sec_offset, 0)], [function("late", 0x1020, 8)])
    )
    info, arrived, full = both(debug.elf(text=TEXT, pack="zlib"))
    assert not was_read_as_it_came(info)
    assert arrived == full


@pytest.mark.parametrize("cut", [1, 7, 500])
def test_a_stream_that_ends_early_costs_the_section_and_is_told_once(cut: int) -> None:
    debug = many()
    data = debug.elf(text=TEXT, pack="zlib")
    elf = ElfFile.from_bytes(data)
    section = elf.section(".debug_info")
    assert section is not None
    offset = section.file_offset + section.size - cut
    info, arrived, full = both(data[:offset] + bytes(cut) + data[offset + cut :])
    assert arrived == full == []
    assert len(info.problems) == 1


@pytest.mark.parametrize("length", [0, 3, 0x7FFFFFF0, 0xFFFFFFF5, 0xFFFFFFFF])
def test_a_unit_whose_length_is_wrong_costs_what_it_costs_when_all_is_there(length: int) -> None:
    debug = many()
    middle = len(debug.info)
    debug.unit(Die(d.DW_TAG_compile_unit, [(d.DW_AT_name, d.DW_FORM_string, "bad.c")], [function("bad", 0x90000, 8)]))
    debug.info[middle : middle + 4] = length.to_bytes(4, "little")
    data = debug.elf(text=TEXT, pack="zlib")
    info, arrived, full = both(data)
    assert arrived == full
    once = opened(data)
    as_values(once, 1)
    assert list(map(str, info.problems)) == list(map(str, once.problems))
    assert info.problems


def test_many_addresses_of_a_compressed_file_are_answered_without_unpacking_it_first(tmp_path: Path) -> None:
    path = tmp_path / "many"
    path.write_bytes(many().elf(text=TEXT, pack="zlib"))
    asked = [0x1000 + number * 0x40 for number in range(4 * UNITS)]
    with open_binary(path) as at_once, open_binary(path) as one_by_one:
        answers = at_once.lookup_many(asked)
        assert at_once.producers is not None
        assert at_once.producers.dwarf is not None
        assert was_read_as_it_came(at_once.producers.dwarf)
        for location in range(0, len(asked), 97):
            assert answers[location] == one_by_one.lookup(asked[location]), hex(asked[location])


def with_aranges(debug: Debug) -> bytes:
    """.debug_info and .debug_line packed, with .debug_aranges."""
    more = [aranges(debug, [(offset, 0x1000 + n * 0x100, 0x80) for n, offset in enumerate(OFFSETS)])]
    if debug.line:
        more.append(packed(Section(".debug_line", bytes(debug.line)), "zlib"))
        debug = replace(debug, line=bytearray())
    return debug.elf(text=TEXT, pack="zlib", more=more)


def asked(info: DebugInfo, vaddr: int) -> list[R]:
    return listed(info.ranges(info.units_at([vaddr])))


def unpacked_so_far(info: DebugInfo) -> int:
    assert info._prefix is not None
    return info._prefix.decompressed


def claimed() -> Debug:
    """Units that say which code is theirs, so that .debug_aranges is believed."""
    debug = Debug()
    for number in range(UNITS):
        low = 0x1000 + number * 0x100
        OFFSETS[number] = len(debug.info)
        root = [
            (d.DW_AT_low_pc, d.DW_FORM_addr, low),
            (d.DW_AT_high_pc, d.DW_FORM_data2, 0x80),
            (d.DW_AT_name, d.DW_FORM_string, f"{number * 7919}.c"),
        ]
        debug.unit(Die(d.DW_TAG_compile_unit, root, [function(f"f{number * 104729}", low, 0x80)]))
    return debug


def test_one_address_unpacks_no_more_than_what_comes_before_its_units_end() -> None:
    data = with_aranges(claimed())
    info, full = opened(data), {row.vaddr: row for row in as_values(opened(data), 1)}
    before = 0
    for number in (3, 100, 20, 399):
        low = 0x1000 + number * 0x100
        assert asked(info, low + 5) == [full[low]]
        assert unpacked_so_far(info) >= before
        before = unpacked_so_far(info)
        assert number == 399 or was_read_as_it_came(info)
        assert number > 3 or before < OFFSETS[100]
    assert as_values(info, 2) == as_values(opened(data), 1)
    assert len(info.units) == UNITS
    assert not info.problems


def test_a_damaged_end_of_the_stream_costs_only_readers_that_need_it() -> None:
    data = with_aranges(claimed())
    section = ElfFile.from_bytes(data).section(".debug_info")
    assert section is not None
    offset = section.file_offset + section.size - 300
    info = opened(data[:offset] + bytes(300) + data[offset + 300 :])
    assert [row.vaddr for row in asked(info, 0x1305)] == [0x1300]
    assert not info.problems
    assert asked(info, 0x1000 + 399 * 0x100) == []
    assert len(info.problems) == 1


@pytest.mark.parametrize("length", [0, 3, 0x7FFFFFF0, 0xFFFFFFF5, 0xFFFFFFFF])
def test_a_listed_unit_with_a_wrong_length_is_not_found(length: int) -> None:
    debug = claimed()
    debug.info[OFFSETS[50] : OFFSETS[50] + 4] = length.to_bytes(4, "little")
    info = opened(with_aranges(debug))
    low = 0x1000 + 50 * 0x100
    assert asked(info, low) == []
    assert info.problems


def referring() -> Debug:
    """Units of which the last one has a function that another one names."""
    debug = claimed()
    callee = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "far")])
    debug.unit(Die(d.DW_TAG_compile_unit, [(d.DW_AT_name, d.DW_FORM_string, "a.c")], [callee]))
    call = [
        (d.DW_AT_abstract_origin, d.DW_FORM_ref_addr, callee),
        (d.DW_AT_low_pc, d.DW_FORM_addr, 0x90000),
        (d.DW_AT_high_pc, d.DW_FORM_udata, 8),
    ]
    debug.unit(Die(d.DW_TAG_compile_unit, [(d.DW_AT_name, d.DW_FORM_string, "b.c")], [Die(d.DW_TAG_subprogram, call)]))
    return debug


def decompressed_ahead(data: bytes, vaddrs: list[int]) -> SectionStream:
    """Return the stream of .debug_info after decompression ahead of a query."""
    elf = ElfFile.from_bytes(data)
    info = elf.decompress_ahead(3000, 3000)
    assert info is not None
    ahead._decompress_units(elf, info, array("Q", vaddrs))
    return info


@pytest.mark.parametrize("numbers", [[3], [100], [20, 120, 3]])
def test_no_more_is_decompressed_ahead_of_a_query_than_the_bytes_before_its_last_unit(numbers: list[int]) -> None:
    info = decompressed_ahead(with_aranges(claimed()), [0x1000 + number * 0x100 + 5 for number in numbers])
    assert OFFSETS[max(numbers)] <= info.done < OFFSETS[250] < info.size


def test_all_of_debug_info_is_decompressed_ahead_if_it_may_be_needed() -> None:
    listed = 0x1305
    damaged = claimed()
    for debug, vaddr in ((linked_with_optimization(0), listed), (claimed(), 0x90000), (damaged, listed)):
        data = with_aranges(debug) if debug is not damaged else debug.elf(text=TEXT, pack="zlib")
        info = decompressed_ahead(data, [vaddr])
        assert info.done == info.size


def linked_with_optimization(steps: int) -> Debug:
    """Return units whose functions have their names in units far after them, in several steps."""
    first = [
        Die(
            d.DW_TAG_subprogram,
            [
                (d.DW_AT_name, d.DW_FORM_string, "first"),
                (d.DW_AT_decl_file, d.DW_FORM_data1, 1),
                (d.DW_AT_decl_line, d.DW_FORM_data1, 9),
            ],
        )
    ]
    for _ in range(steps):
        first.append(Die(d.DW_TAG_subprogram, [(d.DW_AT_abstract_origin, d.DW_FORM_ref_addr, first[-1])]))
    others = [
        Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, f"f{number * 7919}")]) for number in range(UNITS)
    ]
    for _ in range(2):  # offsets of DIEs that come later are those of the first time
        debug = Debug()
        for number in range(UNITS):
            low = 0x1000 + number * 0x100
            OFFSETS[number] = len(debug.info)
            root = [(d.DW_AT_low_pc, d.DW_FORM_addr, low), (d.DW_AT_high_pc, d.DW_FORM_data2, 0x80),
                (d.DW_AT_stmt_list, d.DW_FORM_sec_offset, len(debug.line)),
                    (d.DW_AT_name, d.DW_FORM_string, f"{number * 104729}.c")]  # fmt: skip
            debug.line += program([("set_address", low), ("copy",), ("special", 4, 3), ("end", 0x80)], version=4)
            origin = first[-1] if number == 3 else others[number]
            body = [
                (d.DW_AT_abstract_origin, d.DW_FORM_ref_addr, origin),
                (d.DW_AT_low_pc, d.DW_FORM_addr, low),
                (d.DW_AT_high_pc, d.DW_FORM_udata, 0x40),
            ]
            beside = [
                (d.DW_AT_abstract_origin, d.DW_FORM_ref_addr, others[-1]),
                (d.DW_AT_low_pc, d.DW_FORM_addr, low + 0x40),
                (d.DW_AT_high_pc, d.DW_FORM_udata, 0x40),
            ]
            debug.unit(
                Die(d.DW_TAG_compile_unit, root, [Die(d.DW_TAG_subprogram, body), Die(d.DW_TAG_subprogram, beside)])
            )
        for each in (*reversed(first), *others):
            debug.unit(Die(d.DW_TAG_compile_unit, [(d.DW_AT_name, d.DW_FORM_string, "early.c")], [each]))
    return debug


def answer(info: DebugInfo, vaddr: int) -> list[R]:
    return listed(info.ranges(info.units_at([vaddr]), starts=False, vaddrs=memoryview(array("Q", [vaddr]))))


def read_whole(data: bytes) -> DebugInfo:
    info = opened(data)
    assert info.units
    return info


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_of_units_that_take_names_from_far_ones_no_more_is_unpacked_than_has_the_names(steps: int) -> None:
    data = with_aranges(linked_with_optimization(steps))
    info, full = opened(data), read_whole(data)
    for vaddr, name in ((0x1305, "first"), (0x1705, f"f{7 * 7919}")):
        (row,) = answer(info, vaddr)
        assert row.function == name
        assert [row] == answer(full, vaddr)
    assert was_read_as_it_came(info)
    assert info._prefix is not None
    assert info._prefix._lines is not None
    assert unpacked_so_far(info) < info._prefix._stream.size
    assert info._prefix._lines.done < info._prefix._lines.size
    assert asked(info, 0x1345)[-1].function == f"f{(UNITS - 1) * 7919}"  # of the last unit
    assert not info.problems


def test_names_after_too_many_steps_are_read_from_the_whole_section() -> None:
    info = opened(with_aranges(linked_with_optimization(12)))
    (row,) = answer(info, 0x1305)
    assert row.function == "first"
    assert not was_read_as_it_came(info)


@pytest.mark.parametrize("length", [0, 3, 0x7FFFFFF0, 0xFFFFFFF5, 0xFFFFFFFF])
def test_a_length_that_makes_no_sense_before_a_unit_with_a_name_has_all_read(length: int) -> None:
    debug = linked_with_optimization(0)
    debug.info[OFFSETS[50] : OFFSETS[50] + 4] = length.to_bytes(4, "little")
    data = with_aranges(debug)
    info, full = opened(data), read_whole(data)
    assert answer(info, 0x1305) == answer(full, 0x1305)
    assert list(map(str, info.problems)) == list(map(str, full.problems))


def test_a_damaged_end_of_the_line_programs_costs_only_readers_that_need_it() -> None:
    data = with_aranges(linked_with_optimization(0))
    section = ElfFile.from_bytes(data).section(".debug_line")
    assert section is not None
    end = section.file_offset + section.size
    info = opened(data[: end - 300] + bytes(300) + data[end:])
    (row,) = answer(info, 0x1305)
    assert (row.function, row.lines) == ("first", ((4, 4),))
    assert not info.problems
    (row,) = answer(info, 0x1000 + 399 * 0x100 + 5)
    assert (row.function, row.lines) == (f"f{399 * 7919}", ())
    assert "decompresses to" in str(info.problems[0])


def test_functions_that_hold_the_address_are_read_alone_and_named_as_far_as_it_needs() -> None:
    callee = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "callee")])
    inner = inlined(callee, 0x1010, 8, 3)
    outer = Die(
        d.DW_TAG_inlined_subroutine,
        [
            (d.DW_AT_abstract_origin, d.DW_FORM_ref4, callee),
            (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1010),
            (d.DW_AT_high_pc, d.DW_FORM_udata, 0x20),
        ],
        [inner],
    )
    beside = [inlined(callee, 0x1050 + 16 * number, 8, number) for number in range(4)]
    holder = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "holder"),
        (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000), (d.DW_AT_high_pc, d.DW_FORM_udata, 0x100)],
                 [outer, *beside])  # fmt: skip
    debug = Debug()
    debug.unit(
        Die(
            d.DW_TAG_compile_unit,
            [(d.DW_AT_name, d.DW_FORM_string, "a.c")],
            [callee, holder, function("other", 0x2000, 0x80)],
        )
    )
    info = opened(debug.elf(text=TEXT))
    for vaddrs in ([0x1012], [0x1018], [0x1050], [0x1012, 0x2001], [0x100F, 0x1010, 0x207F], [0x1100], [0xFFF]):
        asked = memoryview(array("Q", vaddrs))
        reader = UnitReader(info.all_units, query=UnitQuery(starts=False, vaddrs=asked))
        result, everything = reader.read_unit(0)[0], info.reader().read_unit(0)[0]
        text = info.strings.text
        rows = list(zip(result.vaddr, result.end, result.depth, map(text, result.function)))
        all_rows = list(zip(everything.vaddr, everything.end, everything.depth, map(text, everything.function)))
        functions = [(0x1000, 0x1100, "holder"), (0x2000, 0x2080, "other")]
        wanted = [each for each in functions if any(each[0] <= vaddr < each[1] for vaddr in vaddrs)]
        expected = []
        for start, end, name in wanted:
            for row in all_rows:
                if start <= row[0] < end:
                    is_held = any(row[0] <= vaddr < row[1] for vaddr in vaddrs)
                    expected.append(row if is_held else (*row[:3], name))
        assert rows == expected


def ahead_of(data: bytes, vaddrs: list[int]) -> ElfFile:
    elf = ElfFile.from_bytes(data)
    ahead.decompress_ahead(elf, vaddrs)
    return elf


@pytest.mark.parametrize("make", [claimed, referring])
def test_a_question_that_is_known_beforehand_has_the_answer_it_has_otherwise(make: Callable[[], Debug]) -> None:
    data = with_aranges(make())
    for vaddrs in ([0x1305], [0x1000 + 399 * 0x100, 0x1000], [0x90003], [0x80000], [5], []):
        with (
            Binary.from_elf(ElfFile.from_bytes(data)) as otherwise,
            Binary.from_elf(ahead_of(data, vaddrs), prepare=False) as expected,
        ):
            assert [*expected.lookup_many(vaddrs)] == [*otherwise.lookup_many(vaddrs)]
            assert expected.lookup(0x1705) == otherwise.lookup(0x1705) != ()
