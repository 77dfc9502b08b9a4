"""The compact form of an archive: equal answers from fewer bytes, or an error that says what is wrong."""

from __future__ import annotations

import struct
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whence
from tests.forge.lidia import compact, packed, shared
from tests.forge.ranges import NESTED, archive, located
from tests.helpers.forms import assert_equal_answers
from tests.helpers.programs import compiled
from tests.hostile.inputs.lidia import shared_beginnings
from whence import Locator, lidia
from whence._base.errors import ChecksumError, LidiaError
from whence.lidia.layout import COLUMNS, DISCRIMINATORS, PACKED_COLUMNS, PACKED_DISCRIMINATORS, PACKED_STARTS
from whence.lidia.render import render_many
from whence.lidia.writer import to_bytes

SIX = (
    (0x1000, 0x20, 0, 2, 1, 0, 2, 0, 0),
    (0x1008, 4, 1, 3, 1, 2, 1, 1, 4),
)
STRINGS = shared([(0, b""), (0, b"a.c"), (0, b"main"), (1, b"ore")])
FORGED = compact(SIX, STRINGS, 4, [(0, 3), (8, 4), (0, 7)])


# Equal answers

SIZES = st.sampled_from([1, 2, 16, 0x1234, 1 << 31, (1 << 32) + 5])
NAMES = st.one_of(st.sampled_from(["", "a", "ab", "_ZN1a1bE", "_ZN1a1cE", "/usr/src/a.c"]), st.text(max_size=40))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_any_ranges_have_the_answers_of_the_documented_form(data: st.DataObject) -> None:
    builder, vaddr = lidia.Builder(), data.draw(st.sampled_from([0, 0x1000, 0xFFFF_FFFF, 0xFFFF_FFFF_8100_0000]))
    for _ in range(data.draw(st.integers(0, 100))):
        length = data.draw(SIZES)
        if vaddr + length >= 1 << 64:
            break
        names = [data.draw(NAMES).replace("\0", "").encode("utf-8", "replace").decode() for _ in range(2)]
        lines = [(offset, data.draw(st.integers(0, 1 << 20))) for offset in range(data.draw(st.integers(0, 3)))]
        builder.add(vaddr=vaddr, length=length, function=names[0], file=names[1], line_table=lines, start_line=3)
        if length > 2 and data.draw(st.booleans()):
            builder.add(
                vaddr=vaddr + 1, length=1, depth=1, function=names[1], file="b.h", call_file=names[1],
                call_line=data.draw(st.integers(0, 0xFFFF_FFFF)), line_table=lines[:1],
            )  # fmt: skip
        vaddr += length + data.draw(st.sampled_from([0, 0, 5]))
    assert_equal_answers(builder.to_bytes(), builder.to_bytes(compact=True))


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 128, 1000])
def test_blocks_of_64_ranges_and_16_strings_end_where_they_end(count: int) -> None:
    builder = lidia.Builder()
    for row in range(count):
        lines = [(0, row), (3, row + 1)]
        builder.add(vaddr=8 * row, length=8, function=f"f{row:03}", file="a.c", line_table=lines, start_line=row)
    assert_equal_answers(builder.to_bytes(), builder.to_bytes(compact=True))


def test_tables_that_unpack_to_much_more_are_read_as_they_lie() -> None:
    builder = lidia.Builder()
    for row in range(20_000):  # 36 bytes each, and 2 packed
        builder.add(vaddr=8 * row, length=8, function="f", file="a.c")
    small = builder.to_bytes(compact=True)
    assert len(small) * 9 < 36 * 20_000
    asked = array("Q", range(0, 160_008, 7))  # many: links are made, and tables unpacked where that is bounded
    with lidia.from_bytes(builder.to_bytes()) as one, lidia.from_bytes(small) as other:
        assert other.lookup_many(asked) == one.lookup_many(asked)
        assert [other.lookup(vaddr) for vaddr in asked] == [one.lookup(vaddr) for vaddr in asked]


def test_a_damaged_block_has_the_same_answers_for_one_address_and_for_many() -> None:
    builder = lidia.Builder()
    for row in range(200):
        lines = [(0, row), (3, row + 1)]
        builder.add(vaddr=8 * row, length=8, function=f"f{row:03}", file="a.c", line_table=lines)
    whole = builder.to_bytes(compact=True)
    with lidia.from_bytes(whole) as table:
        places = [table.header.va_table.offset, table.header.ranges.offset, table.header.lines.offset]
    asked = array("Q", range(1608))
    for place in places:
        data = bytearray(whole)
        struct.pack_into("<I", data, place + 4, 0x7FFFFFFF)  # where the second block begins
        with lidia.from_bytes(bytes(data)) as table:
            many = table.lookup_many(asked)
            one = [lidia.from_bytes(bytes(data))._archive.lookup(vaddr) for vaddr in asked[::25]]
            for found, again in zip(one, (many[at] for at in range(0, len(asked), 25)), strict=True):
                if found is not None:  # else a name or line entry lies outside, which many answers show as "" and 0
                    assert tuple(again) == found


def test_columns_and_discriminators_are_those_of_the_documented_form() -> None:
    assert_equal_answers(to_bytes(located()), to_bytes(located(), compact=True))


def test_without_lines_files_and_checksums_it_is_the_documented_form_without_them() -> None:
    builder = lidia.Builder()
    builder.add(vaddr=16, length=8, function="f", file="a.c", line_table=[(0, 3)])
    for lines, files in ((False, True), (True, False), (False, False)):
        documented, small = (builder.to_bytes(compact=form, lines=lines, files=files) for form in (False, True))
        assert_equal_answers(documented, small)
    with lidia.from_bytes(builder.to_bytes(compact=True, crc=False)) as table:
        assert [section.crc for section in table.header] == [0, 0, 0, 0]


def test_what_a_name_shares_is_bounded_so_that_readers_can_bound_it() -> None:
    builder = lidia.Builder()
    for row in range(64):
        builder.add(vaddr=8 * row, length=8, function="a" * 60_000 + f"{row:02}")
    small = builder.to_bytes(compact=True)
    assert_equal_answers(builder.to_bytes(), small)
    assert 64 * 60_000 // 8 < len(small) < 64 * 60_000 // 5


def test_an_archive_of_a_program_keeps_columns_and_what_unwinds_it(tmp_path: Path) -> None:
    for name, small in (("a", False), ("b", True)):
        lidia.create(compiled(), tmp_path / name, compact=small, columns=True, unwind=True)
    assert_equal_answers((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes())
    with lidia.open(tmp_path / "a") as one, lidia.open(tmp_path / "b") as other:
        assert bytes(other._extra.view(b"UNWD")) == bytes(one._extra.view(b"UNWD")) != b""


def test_a_compact_archive_is_opened_and_found_by_its_build_id_as_any_archive_is(tmp_path: Path) -> None:
    builder = lidia.Builder(build_id="ab" * 20)
    builder.add(vaddr=0x1000, length=8, function="main", file="a.c", line_table=[(0, 3)])
    builder.write(tmp_path / f"{'ab' * 20}.lidia", compact=True)
    with whence.open(tmp_path / f"{'ab' * 20}.lidia") as opened:
        assert (opened.build_id, opened.lookup(0x1004)[0].line) == ("ab" * 20, 3)
        assert opened.find("main")[0].vaddr == 0x1000
    with Locator(archive_dirs=[tmp_path], local=False) as locator:
        found = locator.find(build_id="ab" * 20)
        assert (found.kind, found.path) == ("lidia", str(tmp_path / f"{'ab' * 20}.lidia"))


# Another writer, by the description alone


def test_an_archive_forged_by_the_description_is_read() -> None:
    with lidia.from_bytes(FORGED, crc=True) as table:
        assert table.verify() == []
        assert [(frame.function, frame.file, frame.line) for frame in table.lookup(0x1009)] == [
            ("more", "a.c", 7), ("main", "a.c", 4),
        ]  # fmt: skip
        assert [frame.line for frame in table.lookup(0x1010)] == [4]


def test_whence_writes_the_bytes_that_the_description_says() -> None:
    builder = lidia.Builder()
    builder.add(vaddr=0x1000, length=0x20, function="main", file="a.c", line_table=[(0, 3), (8, 4)])
    builder.add(
        vaddr=0x1008, length=4, function="more", file="a.c", depth=1, line_table=[(0, 7)], call_file="a.c", call_line=4
    )
    written = builder.to_bytes(compact=True)
    with lidia.from_bytes(written) as table:
        sections = {section.name: written[section.offset : section.end] for section in table.header}
    assert sections["VA table"] == packed([row[:1] for row in SIX], 1)
    # whence keeps "[overflow]" as every archive of its has it: "", [overflow], a.c, main, more
    rows = [(row[1], row[2], row[3] + 1, row[4] + 1, *row[5:7], row[7] + (row[7] > 0), row[8]) for row in SIX]
    assert sections["range table"] == packed(rows, 8)
    assert sections["strings"] == shared([(0, b""), (0, b"[overflow]"), (0, b"a.c"), (0, b"main"), (1, b"ore")])
    assert sections["line tables"] == packed([(0, 3), (8, 4), (0, 7)], 2)


def test_fields_of_64_bits_that_begin_inside_a_byte_are_read() -> None:
    wide = (1 << 64) - 2
    rows = [(0, 1, 0, 0, 0, 0, 0, 0, 0), (1, wide, 1, 0, 0, 0, 0, 0, wide), (2, 7, 1, 0, 0, 0, 0, 0, 5)]
    with lidia.from_bytes(compact(rows, shared([(0, b"")]), 1)) as table:
        assert [one.length for one in table] == [1, wide, 7]
        assert [one.call_line for one in table] == [0, wide, 5]


# Refused


def test_columns_and_discriminators_are_packed_as_the_description_says() -> None:
    with lidia.from_bytes(to_bytes(located())) as one, lidia.from_bytes(to_bytes(located(), compact=True)) as other:
        columns, rows = one._extra.content(COLUMNS), one._extra.content(DISCRIMINATORS)
        count, pairs = int.from_bytes(rows[:4], "little"), list(struct.iter_unpack("<II", rows[8:]))
        assert columns[:4] == b"\1\0\0\0"
        table = packed([(column,) for column in columns[8:]], 1)
        assert other._extra.content(PACKED_COLUMNS) == struct.pack("<II", len(columns) - 8, 0) + table
        assert other._extra.content(PACKED_DISCRIMINATORS) == struct.pack("<II", count, len(pairs)) + packed(pairs, 2)
        assert not other._extra.content(COLUMNS) + other._extra.content(DISCRIMINATORS)


def test_readers_of_the_documented_form_see_another_magic() -> None:
    assert FORGED[:4] == b".dic"
    with pytest.raises(LidiaError, match="an entry of the VA table has"):
        lidia.from_bytes(b".dia" + FORGED[4:])


@pytest.mark.parametrize("options", [{"strings": "nul"}, {"compat": "go"}])
def test_it_leaves_no_choice_of_strings_and_compat(options: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="compact=True leaves no choice"):
        lidia.Builder().to_bytes(compact=True, **options)
    with pytest.raises(ValueError, match="compact=True leaves no choice"):
        lidia.create(compiled(), tmp_path / "out", compact=True, **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("at", "form", "value", "said"),
    [
        (0x04, "<I", 2, "version 2"),
        (0x08, "<Q", 0, "range table begins"),
        (0x08, "<Q", 12, "range table begins"),
        (0x10, "<Q", 3, "3 ranges|2 ranges"),
        (0x24, "<I", 2, "a base of the VA table has 2 bytes"),
        (0x44, "<I", 5, "a base of the range table has 5 bytes"),
        (0x5C, "<I", 1000, "1000 strings in"),
        (0x68, "<Q", 1 << 40, "1099511627776 rows in"),
        (0x68, "<Q", (1 << 64) - 1, "18446744073709551615 rows in"),
        (0x7C, "<I", 3, "a base of the line tables has 3 bytes"),
    ],
)
def test_an_invalid_header_is_refused_with_what_and_where(at: int, form: str, value: int, said: str) -> None:
    data = bytearray(FORGED)
    struct.pack_into(form, data, at, value)
    with pytest.raises(LidiaError, match=said):
        lidia.from_bytes(bytes(data))


def test_as_many_ranges_as_the_header_likes_need_their_blocks() -> None:
    data = bytearray(FORGED)
    for at in (0x10, 0x30):
        struct.pack_into("<Q", data, at, 100_000)
    with pytest.raises(LidiaError, match=r"100000 rows in the .* bytes of the VA table"):
        lidia.from_bytes(bytes(data))


WHOLE = archive(NESTED, extra=lidia.Extra(build_id="abcd", machine="x86_64"))
SMALL = archive(NESTED, extra=lidia.Extra(build_id="abcd", machine="x86_64"), compact=True)
ADDRESSES = list(range(0xFFE, 0x1052, 3))


def answers(data: bytes) -> list[object] | None:
    """The answers, or None where an error says why there are none. All ways of asking end well."""
    try:
        with lidia.from_bytes(data) as table:
            table.verify()
            table.info()
            table.vaddrs()
            table.lookup_many(ADDRESSES).function  # noqa: B018
            for style in ("llvm", "gnu", "json"):
                render_many(table, ADDRESSES, style)
            list(table)
            return [table.lookup(address) for address in ADDRESSES]
    except LidiaError:
        return None


def test_every_truncation_is_refused_or_has_the_answers() -> None:
    end = lidia.from_bytes(SMALL).header.end
    for size in range(len(SMALL)):
        assert (answers(SMALL[:size]) is None) == (size < end)


def test_every_flipped_bit_of_the_header_is_refused_or_seen_by_verify() -> None:
    want = answers(SMALL)
    for bit in range(8 * 0x80):
        data = bytearray(SMALL)
        data[bit // 8] ^= 1 << bit % 8
        found = answers(bytes(data))
        if found not in (None, want):
            with lidia.from_bytes(bytes(data)) as table:
                assert table.verify(), f"bit {bit % 8} of byte {bit // 8:#x}"


def test_every_flipped_byte_ends_in_answers_or_an_error_and_is_seen_by_the_checksums() -> None:
    end = lidia.from_bytes(SMALL).header.end
    for at in range(0x80, len(SMALL)):
        for flip in (0x01, 0x80, 0xFF):
            data = bytearray(SMALL)
            data[at] ^= flip
            answers(bytes(data))
        if at < end:
            with pytest.raises(ChecksumError):
                lidia.from_bytes(bytes(data), crc=True)


@pytest.mark.parametrize("section", ["VA table", "range table", "line tables", "strings"])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("value", [0, 2, 0x7FFFFFFF, 0xFFFFFFFF])
def test_verify_finds_an_invalid_directory(section: str, place: int, value: int) -> None:
    data = bytearray(FORGED)
    with lidia.from_bytes(FORGED) as table:
        at = next(one.offset for one in table.header if one.name == section)
    struct.pack_into("<I", data, at + 4 * place, value)
    with lidia.from_bytes(bytes(data)) as table:
        rule = "a string shares no more" if section == "strings" else "each as long as its rows need"
        assert any(f"({section}+" in line and rule in line for line in table.verify())
    answers(bytes(data))


@pytest.mark.parametrize("tag", [PACKED_COLUMNS, PACKED_DISCRIMINATORS])
def test_damaged_columns_are_reported_where_they_break_a_rule_and_lookups_go_on(tag: bytes) -> None:
    data = to_bytes(located(), compact=True, crc=False)
    at = data.index(tag)
    size = int.from_bytes(data[at + 8 : at + 16], "little")
    asked = array("Q", range(0x1000, 0x1020)) * 40  # many: unpacked, too
    for place in range(at + 16, at + 16 + size):
        for flip in (0x01, 0x80, 0xFF):
            changed = bytearray(data)
            changed[place] ^= flip
            with lidia.from_bytes(bytes(changed)) as archive:
                said = archive.verify()
                if at + 24 <= place < at + 32:  # the directory
                    assert any(tag.decode() in line for line in said), (place - at, flip)
                first = [archive.lookup(vaddr) for vaddr in asked[:32]]
                assert [frame.line for frame in archive.lookup(0x1019)] == [7, 4]
                assert list(archive.lookup_many(asked))[:32] == first
    for cut in range(size):
        with lidia.from_bytes(data[: at + 8] + cut.to_bytes(8, "little") + data[at + 16 :]) as archive:
            assert archive.verify()
            assert [frame.line for frame in archive.lookup(0x1019)] == [7, 4]


def test_a_string_that_shares_too_long_a_prefix_is_an_error_when_it_is_read() -> None:
    data = compact(SIX, shared([(0, b""), (0, b"a.c"), (0, b"main"), (5, b"ore")]), 4, [(0, 3), (8, 4), (0, 7)])
    with lidia.from_bytes(data) as table:
        assert [frame.function for frame in table.lookup(0x1010)] == ["main"]
        with pytest.raises(LidiaError, match=r"range 1 has a name outside the strings .*names are among the 4 strings"):
            table.lookup(0x1009)
        assert any("(strings+0x0)" in line for line in table.verify())


def test_starts_out_of_order_or_of_no_string_are_found_by_verify() -> None:
    for rows, said in (([(3, 1, 9), (2, 1, 9)], "rows are in order"), ([(2, 9, 1)], "names are among the 4 strings")):
        content = struct.pack("<II", len(rows), 0) + packed(rows, 3)
        chunk = PACKED_STARTS + struct.pack("<IQ", 0, len(content)) + content
        tail = chunk + struct.pack("<QQII8s", len(FORGED), len(chunk), 0, 1, b"\0whence+")
        with lidia.from_bytes(FORGED + tail) as table:
            assert any("STRP" in line and said in line for line in table.verify())
            answers(FORGED + tail)
    content = struct.pack("<II", 1000, 0) + packed([(2, 1, 9)], 3)
    chunk = PACKED_STARTS + struct.pack("<IQ", 0, len(content)) + content
    tail = chunk + struct.pack("<QQII8s", len(FORGED), len(chunk), 0, 1, b"\0whence+")
    with lidia.from_bytes(FORGED + tail) as table:
        assert any("STRP" in line and "fit" in line for line in table.verify())


def test_names_that_unpack_to_more_than_the_bytes_justify_are_refused() -> None:
    with lidia.from_bytes(shared_beginnings()) as table:
        assert len(table.lookup(0)[0].function) == 1 << 16
        assert any("(strings+" in line for line in table.verify())
        asked = range(0, 16 * 20_000, 16)
        with pytest.raises(LidiaError, match="distinct names"):
            table.lookup_many(asked).function  # noqa: B018
        with pytest.raises(LidiaError, match="distinct names"):
            render_many(table, asked)


def test_replies_of_a_coprocess_are_not_read_from_a_compact_archive() -> None:
    builder = lidia.Builder()
    builder.add(lidia.Range(vaddr=0x10, length=16, function="f", file="a.c", line_table=((0, 3),)))
    with lidia.from_bytes(builder.to_bytes(compact=True)) as table, pytest.raises(ValueError, match="belong together"):
        table.replies(b"", array("Q"), lambda place: (0, b"", b""), bytes, b"\n", b"")
    with lidia.from_bytes(builder.to_bytes()) as table:
        replies = table.replies(b"", array("Q"), lambda place: (0, b"", b""), bytes, b"\n", b"")
        assert replies.reply(b"0x10") == b"f\na.c:3:0\n\n"
        assert replies.reply(b"0x20") is None
