"""Layouts of CPython's structures: the table of a runtime, and versions that are refused."""

from __future__ import annotations

import struct

import pytest

from tests.forge.cpython import FIELDS, debug_offsets
from whence.interpreters.cpython_layout import (
    OLD_OFFSETS,
    TABLE_BYTES,
    UnknownLayout,
    field_names,
    old_layout,
    read_debug_offsets,
    release_by_strings,
    version_by_name,
)
from whence.interpreters.kernels import cpython as kernel


@pytest.mark.parametrize(("version", "size"), TABLE_BYTES.items())
def test_the_table_has_the_size_of_its_version(version: tuple[int, int], size: int) -> None:
    assert 8 * (len(field_names(version[1])) + 3) == size


@pytest.mark.parametrize("order", ["little", "big"])
def test_offsets_are_those_of_the_table(order: str) -> None:
    fields = {**FIELDS, "code_object.qualname": 128, "thread_state.current_frame": 72}
    data = debug_offsets(0x30E02F0, fields, order=order)
    layout = read_debug_offsets(data, order)  # type: ignore[arg-type]
    assert (layout.version, layout.title, layout.is_verified) == ((3, 14), "CPython 3.14.2", True)
    assert layout.fields["code_object.qualname"] == 128
    assert layout.numbers[kernel.LAYOUT_TOP_FRAME] == 72
    assert layout.numbers[kernel.LAYOUT_FRAME_TLBC] == kernel.LAYOUT_ABSENT
    assert layout.numbers[kernel.LAYOUT_TAGS] == 3


def test_free_threaded_builds_have_wider_states_and_one_tag() -> None:
    fields = {**FIELDS, "interpreter_frame.tlbc_index": 72, "code_object.co_tlbc": 224}
    layout = read_debug_offsets(debug_offsets(0x30E02F0, fields, free_threaded=True), "little")
    assert layout.title == "CPython 3.14.2 free-threaded"
    assert layout.numbers[kernel.LAYOUT_FRAME_TLBC] == 72
    assert layout.numbers[kernel.LAYOUT_TAGS] == 1
    assert (layout.strings.kind_bit, layout.strings.compact_bit, layout.strings.ascii_bit) == (8, 11, 12)


@pytest.mark.parametrize(
    ("version", "message"),
    [(0x31000F0, "3.16.0 is not a supported version"), (0x30C01F0, "3.12.1"), (1 << 40, "not a supported version")],
)
def test_unknown_versions_are_said(version: int, message: str) -> None:
    data = debug_offsets(0x30D00F0, {})
    with pytest.raises(UnknownLayout, match=message):
        read_debug_offsets(data[:8] + struct.pack("<Q", version) + data[16:], "little")


def test_prereleases_are_marked() -> None:
    layout = read_debug_offsets(debug_offsets(0x30F00A3, FIELDS), "little")
    assert (layout.release, layout.is_verified) == ("3.15.0a3", False)


def test_damaged_tables_are_refused() -> None:
    data = debug_offsets(0x30D00F0, {"code_object.filename": 1 << 40})
    with pytest.raises(UnknownLayout, match="filename is 0x10000000000"):
        read_debug_offsets(data, "little")
    with pytest.raises(UnknownLayout, match="a code object has 1016 bytes"):
        read_debug_offsets(debug_offsets(0x30D00F0, {"code_object.linetable": 1000}), "little")
    with pytest.raises(UnknownLayout, match="the GIL begins at 0x64"):
        read_debug_offsets(debug_offsets(0x30D00F0, {"interpreter_state.gil_runtime_state": 100}), "little")
    with pytest.raises(UnknownLayout, match="owner is 0"):
        read_debug_offsets(debug_offsets(0x30D00F0, {**FIELDS, "interpreter_frame.owner": 0}), "little")
    with pytest.raises(UnknownLayout, match="a frame has 1008 bytes"):
        read_debug_offsets(debug_offsets(0x30D00F0, {**FIELDS, "interpreter_frame.owner": 1000}), "little")
    for size in range(0, len(data), 8):
        with pytest.raises(UnknownLayout):
            read_debug_offsets(data[:size], "little")


@pytest.mark.parametrize("version", OLD_OFFSETS)
def test_old_versions_have_all_numbers_of_their_style(version: tuple[int, int]) -> None:
    layout = old_layout(version, "")
    assert layout.numbers[kernel.LAYOUT_GIL_LOCKED] < 100
    has_marks = layout.numbers[kernel.LAYOUT_CFRAME] != kernel.LAYOUT_ABSENT
    assert has_marks == (version > (3, 9))
    with pytest.raises(UnknownLayout):
        old_layout((3, 6), "3.6.15")


def test_versions_are_found_in_strings_and_names() -> None:
    assert release_by_strings(b"\0Python\x003.10.13\x00%.80s\0") == "3.10.13"
    assert release_by_strings(b"\x003.9.18+\x00") == "3.9.18"
    assert release_by_strings(b"\x003.9.1\x00a\x003.10.1\x00") == ""
    assert release_by_strings(b"\x001.3.9.1\x00") == ""
    assert version_by_name("/opt/libpython3.9.so.1.0") == (3, 9)
    assert version_by_name("/opt/uwsgi") is None
