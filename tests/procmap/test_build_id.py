"""Build-ids from the first page, from distant notes, and from sections."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tests.forge.elf import Section, Segment, build_id_note, forge, note
from whence._base.errors import ElfError
from whence._base.window import ByteOrder
from whence.procmap import read_build_id, read_go_build_id
from whence.procmap.build_id import build_id_of

ID = "49daf84ed369fe589b73ea876f2591cd4c3588bb"


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("build_id", [ID, "ab", "00" * 32, "ff" * 64])
@pytest.mark.parametrize("far", [0, 9000])
@pytest.mark.parametrize(("bits", "order"), [(64, "little"), (64, "big"), (32, "little"), (32, "big")])
def test_the_note_of_a_segment_is_read(tmp_path: Path, build_id: str, far: int, bits: int, order: ByteOrder) -> None:
    sections = [Section(".pad", b"p" * far), build_id_note(build_id, order)]
    data = forge(
        sections, [Segment(4, 4, of=".note.gnu.build-id", align=4)], bits=bits, order=order, section_table=False
    )
    assert read_build_id(written(tmp_path / "file", data)) == build_id


def test_a_file_without_segments_has_its_note_in_a_section(tmp_path: Path) -> None:
    assert read_build_id(written(tmp_path / "file.o", forge([build_id_note(ID)]))) == ID


def test_other_notes_before_the_build_id_are_skipped(tmp_path: Path) -> None:
    notes = Section(
        ".note", note("Go", 4, b"go id") + note("GNU", 1, bytes(16)) + note("GNU", 3, bytes.fromhex(ID)), type=7
    )
    data = forge([notes], [Segment(4, 4, of=".note", align=4)])
    assert read_build_id(written(tmp_path / "file", data)) == ID
    assert read_go_build_id(tmp_path / "file") == "go id"


def test_a_note_segment_of_alignment_8_is_read_with_that_padding(tmp_path: Path) -> None:
    properties = note("GNU", 5, bytes(12), align=8)
    notes = Section(".note", properties + note("GNU", 3, bytes.fromhex(ID), align=8), type=7, align=8)
    data = forge([notes], [Segment(4, 4, of=".note", align=8)])
    assert read_build_id(written(tmp_path / "file", data)) == ID


def test_a_file_without_a_note_has_no_build_id(tmp_path: Path) -> None:
    assert read_build_id(written(tmp_path / "file", forge([Section(".text", b"x")], [Segment(of=".text")]))) == ""


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0xFFFFFFF0, 0x7FFFFFFF, 65])
@pytest.mark.parametrize("field", [0, 4])
def test_a_note_of_an_invalid_size_is_not_a_build_id(tmp_path: Path, size: int, field: int) -> None:
    raw = bytearray(note("GNU", 3, bytes.fromhex(ID)))
    struct.pack_into("<I", raw, field, size)
    data = forge([Section(".note", bytes(raw), type=7)], [Segment(4, 4, of=".note", align=4)])
    assert read_build_id(written(tmp_path / "file", data)) == ""


def test_a_file_that_is_not_elf_and_a_missing_file_are_different_errors(tmp_path: Path) -> None:
    with pytest.raises(ElfError):
        read_build_id(written(tmp_path / "script", b"#!/bin/sh\n"))
    with pytest.raises(ElfError):
        read_build_id(written(tmp_path / "empty", b""))
    with pytest.raises(IsADirectoryError):
        read_build_id(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_build_id(tmp_path / "missing")


def test_every_truncation_of_a_file_is_an_elf_error_or_an_answer(tmp_path: Path) -> None:
    full = forge([build_id_note(ID)], [Segment(4, 4, of=".note.gnu.build-id", align=4)])
    path = tmp_path / "file"
    for size in range(len(full)):
        path.write_bytes(full[:size])
        descriptor = os.open(path, os.O_RDONLY)
        try:
            assert build_id_of(descriptor) in ("", ID)
        except ElfError:
            pass
        finally:
            os.close(descriptor)
