"""Archives of the Go package: written byte for byte, and read with answers no worse than its own."""

from __future__ import annotations

import struct
from array import array

import crc32c
import pytest

from tests.forge.lidia import OVERFLOW, Forged, prefixed, terminated
from tests.forge.ranges import Names, R, table
from whence import lidia
from whence._base.model import Frame
from whence.lidia.render import render_many


def names(found: tuple[Frame, ...]) -> list[str]:
    return [frame.function for frame in found]


def test_the_bytes_are_those_of_the_go_package() -> None:
    """Two functions given out of order, one of them twice: every byte of the archive, spelled out."""
    given = [R(0x2000, 0x20, 0, "main.main"), R(0x1000, 0x10, 0, "_start"), R(0x2000, 0x30, 0, "main.main")]
    strings = OVERFLOW + b"\x09\0\0\0main.main" + b"\x06\0\0\0_start"
    vas = struct.pack("<3I", 0x1000, 0x2000, 0x2000)
    rows = (
        struct.pack("<8I", 0x10, 0, 31, 0, 0, 0, 0, 0)
        + struct.pack("<8I", 0x20, 0, 18, 0, 0, 0, 0, 0)
        + struct.pack("<8I", 0x30, 0, 18, 0, 0, 0, 0, 0)
    )
    header = (
        bytes.fromhex("2e646961 01000000")
        + struct.pack("<QQQII", 4, 3, 0x80, crc32c.crc32c(vas), 0)
        + struct.pack("<QQQII", 4, 3, 0x8C, crc32c.crc32c(rows), 0)
        + struct.pack("<QQII", 41, 0xEC, crc32c.crc32c(strings), 0)
        + struct.pack("<QQQII", 2, 0, 0x115, 0, 0)
    )
    assert lidia.to_bytes(table(Names(), given), compat="go") == header + vas + rows + strings


def test_names_are_stored_in_the_order_ranges_were_given_and_function_before_file_before_call_file() -> None:
    given = [R(8, 1, 0, "b", "b.c", ((0, 1), (1, 2))), R(4, 1, 1, "a", "a.h", ((0, 1), (1, 2)), "b.c", 7)]
    strings, offset = prefixed(b"b", b"b.c", b"a", b"a.h")
    rows = [
        (4, 1, 1, offset[b"a"], offset[b"a.h"], 2, 2, offset[b"b.c"], 7),
        (8, 1, 0, offset[b"b"], offset[b"b.c"], 0, 2, 0, 0),
    ]
    want = Forged(rows, strings, [(0, 1), (1, 2)] * 2).bytes()
    assert lidia.to_bytes(table(Names(), given), compat="go") == want


def test_the_order_is_by_va_then_depth_and_otherwise_as_given() -> None:
    given = [R(8, 1, 1, "d"), R(8, 1, 0, "c1"), R(4, 1, 0, "a"), R(8, 1, 0, "c2")]
    with lidia.from_bytes(lidia.to_bytes(table(Names(), given), compat="go"), crc=True) as opened:
        assert [r.function for r in opened] == ["a", "c1", "c2", "d"]


def test_sizes_are_cut_to_32_bits_and_widths_follow_the_values() -> None:
    given = [R(0x1_0000_0000, 0x1_0000_0002, 0, "f", lines=((0, 65536),))]
    data = lidia.to_bytes(table(Names(), given), compat="go")
    strings, offset = prefixed(b"f")
    forged = Forged([(0x1_0000_0000, 2, 0, offset[b"f"], 0, 0, 1, 0, 0)], strings, [(0, 65536)], 8, 4, 4)
    assert data == forged.bytes()


def test_an_empty_archive_has_its_two_strings() -> None:
    assert lidia.to_bytes(table(Names(), []), compat="go") == Forged([]).bytes()


def test_the_builder_writes_ranges_as_they_were_added() -> None:
    builder = lidia.Builder()
    builder.add(lidia.Range(4, 0, "empty"))
    builder.add(lidia.Range(4, 8, "alias"))
    strings, offset = prefixed(b"empty", b"alias")
    rows = [(4, 0, 0, offset[b"empty"], *[0] * 5), (4, 8, 0, offset[b"alias"], *[0] * 5)]
    assert builder.to_bytes(compat="go") == Forged(rows, strings).bytes()


@pytest.mark.parametrize("make", [prefixed, terminated])
@pytest.mark.parametrize("va_width", [4, 8])
@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("line_width", [2, 4])
def test_every_width_and_both_encodings_are_read(make, va_width: int, width: int, line_width: int) -> None:  # type: ignore[no-untyped-def]
    strings, offset = make(b"f", b"g", b"a.c", b"b.h")
    rows = [
        (0x100, 0x20, 0, offset[b"f"], offset[b"a.c"], 0, 2, 0, 0),
        (0x108, 8, 1, offset[b"g"], offset[b"b.h"], 2, 1, offset[b"a.c"], 9),
    ]
    data = Forged(rows, strings, [(0, 1), (16, 2), (0, 7)], va_width, width, line_width).bytes()
    with lidia.from_bytes(data, crc=True) as opened:
        assert opened.encoding == ("length" if make is prefixed else "nul")
        assert opened.lookup(0x109) == (Frame("g", "b.h", 7, True), Frame("f", "a.c", 9, False))
        assert opened.lookup(0x111) == (Frame("f", "a.c", 2),)
        assert opened.verify() == []
        assert list(opened.lookup_many([0x109, 0x111])) == [opened.lookup(0x109), opened.lookup(0x111)]


def both_ways(rows: list[tuple[int, ...]], strings: bytes, address: int) -> list[str]:
    """Return the functions at an address; searching with and without links must agree."""
    with lidia.from_bytes(Forged(rows, strings).bytes()) as opened:
        walked = names(opened.lookup(address))
        linked = opened.lookup_many(array("Q", [address]))
        assert names(linked[0]) == walked == names(opened.lookup(address))
    return walked


def test_archives_with_aliases_zero_sizes_and_nested_functions_get_the_function_around() -> None:
    strings, offset = prefixed(b"outer", b"alias", b"mark", b"nested", b"inlined")

    def row(va: int, size: int, name: bytes, depth: int = 0) -> tuple[int, ...]:
        return (va, size, depth, offset[name], 0, 0, 0, 0, 0)

    rows = [
        row(16, 64, b"outer"),
        row(16, 64, b"alias"),
        row(24, 0, b"mark"),
        row(32, 8, b"nested"),
        row(48, 8, b"inlined", 1),
    ]
    assert both_ways(rows, strings, 20) == ["alias"]  # the last of several, as the Go package answers
    assert both_ways(rows, strings, 28) == ["alias"]  # where the Go package stops at the empty one, with nothing
    assert both_ways(rows, strings, 33) == ["nested"]
    assert both_ways(rows, strings, 44) == ["alias"]  # where the Go package stops at the nested one, with nothing
    assert both_ways(rows, strings, 50) == ["inlined", "alias"]
    assert both_ways(rows, strings, 80) == []
    assert both_ways(rows, strings, 15) == []


def test_an_inlined_range_without_a_function_is_found() -> None:
    strings, offset = prefixed(b"lost")
    assert both_ways([(16, 8, 3, offset[b"lost"], *[0] * 5)], strings, 17) == ["lost"]


def test_a_range_past_the_end_of_the_address_space_ends_with_it() -> None:
    strings, offset = prefixed(b"f")
    forged = Forged([(0xFFFFFFFFFFFFFF00, 0xFFFFFFFFFFFFFFFF, 0, offset[b"f"], *[0] * 5)], strings, va_width=8, width=8)
    with lidia.from_bytes(forged.bytes()) as opened:
        assert names(opened.lookup(0xFFFFFFFFFFFFFFFE)) == ["f"]
        assert opened.lookup(5) == ()


def test_lookups_among_many_siblings_take_bounded_time() -> None:
    strings, offset = prefixed(b"f", b"i")
    rows = [(0, 1 << 20, 0, offset[b"f"], *[0] * 5), *((8 * i, 4, 1, offset[b"i"], *[0] * 5) for i in range(1, 30_000))]
    with lidia.from_bytes(Forged(rows, strings).bytes()) as opened:
        for i in range(1, 30_000, 7):
            assert names(opened.lookup(8 * i + 5)) == ["f"]


def test_unknown_trailing_bytes_are_ignored() -> None:
    strings, offset = prefixed(b"f")
    data = Forged([(16, 8, 0, offset[b"f"], *[0] * 5)], strings, tail=b"something else, 32 bytes or more of it").bytes()
    with lidia.from_bytes(data, crc=True) as opened:
        assert names(opened.lookup(17)) == ["f"]
        assert opened.verify() == []
        assert opened.info().trailing_size == 38


def test_a_string_table_without_the_usual_start_is_length_prefixed_if_it_parses() -> None:
    with lidia.from_bytes(Forged([(16, 8, 0, 0, *[0] * 5)], b"\1\0\0\0f\2\0\0\0gh").bytes()) as opened:
        assert (opened.encoding, names(opened.lookup(17))) == ("length", ["f"])
    with lidia.from_bytes(Forged([(16, 8, 0, 5, *[0] * 5)], b"main\0gh\0").bytes()) as opened:
        assert (opened.encoding, names(opened.lookup(17))) == ("nul", ["gh"])


def test_offset_0_is_no_file_even_where_the_strings_begin_with_a_name() -> None:
    with lidia.from_bytes(Forged([(16, 8, 0, 0, *[0] * 5)], b"main\0gh\0").bytes()) as opened:
        assert opened.lookup(17) == (Frame("main"),)
        assert opened.lookup_many([17])[0] == (Frame("main"),)
        assert list(opened.lookup_many([17])) == [(Frame("main"),)]
        assert render_many(opened, [17]) == b"main\n??:0:0\n\n"
        assert (opened[0].function, opened[0].file, opened[0].call_file) == ("main", "", "")
