"""Damaged archives raise a LidiaError with the part and offset, or give the same answers; they never crash."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tests.forge.lidia import Forged, prefixed, terminated
from tests.forge.ranges import NESTED, archive
from whence import lidia
from whence._base.errors import ChecksumError, LidiaError
from whence.lidia.render import render_many

ADDRESSES = list(range(0xFFE, 0x1052, 3))
WHOLE = archive(NESTED, extra=lidia.Extra(build_id="abcd", machine="x86_64"))


def answers(data: bytes) -> list[object] | None:
    """Return the answers of every kind of lookup, or None after a LidiaError."""
    try:
        with lidia.from_bytes(data) as opened:
            opened.verify()
            opened.info()
            opened.lookup_many(ADDRESSES).function  # noqa: B018
            for style in ("llvm", "gnu", "json"):
                render_many(opened, ADDRESSES, style)
            return [opened.lookup(address) for address in ADDRESSES]
    except LidiaError:
        return None


def test_every_truncation_is_refused_or_answers_the_same() -> None:
    want = answers(WHOLE)
    bare = [frames and [frame._replace(source="") for frame in frames] for frames in want or []]  # type: ignore[attr-defined]
    documented = lidia.from_bytes(WHOLE).header.end
    for size in range(len(WHOLE)):
        result = answers(WHOLE[:size])
        if size < documented:
            assert result is None, size
        else:  # the extra section is gone, with the sources it holds
            assert [frames and list(frames) for frames in result or []] == bare  # type: ignore[call-overload]


def test_every_flipped_bit_of_the_header_is_refused_or_answers_the_same() -> None:
    want = answers(WHOLE)
    for bit in range(8 * 0x80):
        data = bytearray(WHOLE)
        data[bit // 8] ^= 1 << bit % 8
        assert answers(bytes(data)) in (None, want), f"bit {bit % 8} of byte {bit // 8:#x}"


def test_every_flipped_byte_ends_in_answers_or_an_error() -> None:
    answered = 0
    for index in range(0x80, len(WHOLE)):
        for flip in (0x01, 0x80, 0xFF):
            data = bytearray(WHOLE)
            data[index] ^= flip
            answered += answers(bytes(data)) is not None
    assert answered > len(WHOLE)  # a third of them, at least


def test_the_checksums_detect_every_flipped_bit_of_the_sections() -> None:
    end = lidia.from_bytes(WHOLE).header.end
    for index in range(0x80, end):
        data = bytearray(WHOLE)
        data[index] ^= 4
        with pytest.raises(ChecksumError):
            lidia.from_bytes(bytes(data), crc=True)
        with lidia.from_bytes(bytes(data)) as opened:
            assert any("CRC32C" in line for line in opened.verify())


def test_each_section_has_its_own_check() -> None:
    header = lidia.from_bytes(WHOLE).header
    checks = ("check_crc_va", "check_crc_fields", "check_crc_strings", "check_crc_line_tables")
    for broken, section in enumerate(header):
        data = bytearray(WHOLE)
        data[section.offset] ^= 1
        with lidia.from_bytes(bytes(data)) as opened:
            for number, check in enumerate(checks):
                if number == broken:
                    with pytest.raises(ChecksumError, match=section.name):
                        getattr(opened, check)()
                else:
                    getattr(opened, check)()


@pytest.mark.parametrize(
    ("offset", "layout", "value", "says"),
    [
        (
            0x00,
            "<4s",
            b"ELF!",
            'not an archive: the magic at 0x0 is 45 4c 46 21, expected 2e 64 69 61 (".dia")',
        ),
        (0x04, "<I", 2, "header+0x4: archive version 2, expected 1"),
        (0x08, "<Q", 5, "header+0x8: an entry of the VA table has 5 bytes, expected 4 or 8"),
        (0x28, "<Q", 0, "header+0x28: a field of the range table has 0 bytes, expected 4 or 8"),
        (0x60, "<Q", 8, "header+0x60: a field of the line tables has 8 bytes, expected 2 or 4"),
        (0x30, "<Q", 7, "header+0x30: there are 7 ranges, expected 6, the number of VAs"),
        (0x18, "<Q", 0x81, "header+0x18: the offset of the VA table is 0x81, expected 0x80"),
        (0x38, "<Q", 0x80, "header+0x38: the offset of the range table is 0x80, expected 0x98"),
        (0x50, "<Q", 1 << 63, "header+0x50: the offset of the strings is 0x8000000000000000, expected 0x"),
        (0x68, "<Q", 1 << 60, "line tables+0x0: truncated: needs 4611686018427387904 bytes, "),
    ],
)
def test_an_error_names_part_offset_and_fault(offset: int, layout: str, value: object, says: str) -> None:
    data = bytearray(WHOLE)
    struct.pack_into(layout, data, offset, value)
    with pytest.raises(LidiaError) as caught:
        lidia.from_bytes(bytes(data))
    assert says in str(caught.value)


def test_huge_counts_cost_nothing() -> None:
    data = bytearray(WHOLE)
    for field in (0x10, 0x30):
        struct.pack_into("<Q", data, field, (1 << 64) - 1)
    with pytest.raises(LidiaError, match="VA table"):
        lidia.from_bytes(bytes(data))


@pytest.mark.parametrize("make", [prefixed, terminated])
def test_a_name_outside_the_strings_is_an_error_for_its_address_only(make) -> None:  # type: ignore[no-untyped-def]
    strings, offset = make(b"good")
    outside = len(strings) + 5
    rows = [(16, 8, 0, offset[b"good"], *[0] * 5), (24, 8, 0, outside, *[0] * 5), (32, 8, 0, (1 << 32) - 1, *[0] * 5)]
    with lidia.from_bytes(Forged(rows, strings).bytes()) as opened:
        assert opened.lookup(17)[0].function == "good"
        for address, row in ((25, 1), (33, 2)):
            with pytest.raises(
                LidiaError,
                match=f"^lidia range table\\+{row * 32:#x}: range {row} has a name outside the {len(strings)} bytes of "
                "strings: function 0x.*, file 0x0, call file 0x0$",
            ):
                opened.lookup(address)
        assert opened.lookup_many([17, 25, 33]).function == ["good", "", ""]
        assert render_many(opened, [17, 25]) == b"good\n??:0:0\n\n??\n??:0:0\n\n"
        assert opened.verify() == [
            f"lidia range table+0x20: range 1 has a name outside the {len(strings)} bytes of strings"
        ]


def test_a_text_that_extends_past_the_strings_is_an_error() -> None:
    strings, offset = prefixed(b"good", b"last")
    strings = strings[: offset[b"last"]] + struct.pack("<I", 0xFFFFFFFF) + b"last"
    with (
        lidia.from_bytes(Forged([(16, 8, 0, offset[b"last"], *[0] * 5)], strings).bytes()) as opened,
        pytest.raises(LidiaError),
    ):
        opened.lookup(17)


def test_line_entries_outside_the_tables_are_an_error_for_their_address_only() -> None:
    strings, offset = prefixed(b"f")
    rows = [
        (8 * i, 8, 0, offset[b"f"], 0, index, count, 0, 0)
        for i, (index, count) in enumerate([(0, 1), (1, 1), (0, 2), (0xFFFFFFFF, 0xFFFFFFFF)])
    ]
    with lidia.from_bytes(Forged(rows, strings, [(0, 7)]).bytes()) as opened:
        assert opened.lookup(1)[0].line == 7
        for address in (9, 17, 25):
            with pytest.raises(LidiaError, match=r"range [123] has line entries \[.*\), but the line tables have 1"):
                opened.lookup(address)
        result = opened.lookup_many([1, 9, 17, 25])
        assert (result.line.tolist(), result.faults) == ([7, 0, 0, 0], 3)


def test_verify_reports_ranges_out_of_order_and_lookups_are_safe() -> None:
    strings, offset = prefixed(b"f")
    rows = [(vaddr, 8, 0, offset[b"f"], *[0] * 5) for vaddr in (64, 8, 32, 0)]
    with lidia.from_bytes(Forged(rows, strings).bytes()) as opened:
        assert opened.verify() == ["lidia VA table+0x4: range 1 is not in order of (vaddr, depth)"]
        list(opened.lookup_many(range(100)))


def test_the_length_of_chains_is_bounded() -> None:
    strings, offset = prefixed(b"f")
    rows = [(i, 1 << 20, 5000 - i, offset[b"f"], *[0] * 5) for i in range(5000)]
    with lidia.from_bytes(Forged(rows, strings).bytes()) as opened:
        frames = opened.lookup(4999)
        assert len(frames) == 1  # depths must fall from frame to frame
        assert len(opened.lookup_many([4999])[0]) == 1
    rows = [(i, 1 << 20, i, offset[b"f"], *[0] * 5) for i in range(5000)]
    with lidia.from_bytes(Forged(rows, strings).bytes()) as opened:
        assert len(opened.lookup(4999)) == len(opened.lookup_many([4999])[0]) == 512


def test_a_damaged_extra_section_is_reported_and_lookups_still_work() -> None:
    header = lidia.from_bytes(WHOLE).header
    for index in range(header.end, len(WHOLE)):
        data = bytearray(WHOLE)
        data[index] ^= 0x10
        with lidia.from_bytes(bytes(data), crc=True) as opened:
            assert [frame.function for frame in opened.lookup(0x1015)] == ["inner", "outer", "main"]
            opened.lookup_many(ADDRESSES).function  # noqa: B018
            if index < len(WHOLE) - 8:  # without its magic there is no footer
                assert opened.info().extra_problem
                assert len(opened.verify()) == 1


def test_chunks_of_later_versions_are_skipped() -> None:
    header = lidia.from_bytes(WHOLE).header
    body = struct.pack("<4sIQ", b"NEW!", 0, 3) + b"xyz" + struct.pack("<4sIQ", b"PROD", 0, 2) + b"me"
    import crc32c

    footer = struct.pack("<QQII8s", header.end, len(body), crc32c.crc32c(body), 1, b"\0whence+")
    with lidia.from_bytes(WHOLE[: header.end] + body + footer) as opened:
        assert opened.info().producer == "me"
        assert opened.verify() == []


def test_a_file_that_is_not_an_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"", b".di", b".dia", b"\x7fELF" + bytes(200), os.urandom(127)):
        path.write_bytes(content)
        with pytest.raises(LidiaError):
            lidia.open(path)
    with pytest.raises(FileNotFoundError):
        lidia.open(tmp_path / "none")
