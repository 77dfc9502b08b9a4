"""Errors state the fault first, name the file, have a code, and survive pickling."""

import copy
import io
import os
import pickle
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import whence
from tests.forge.elf import forge
from whence import gotrace, lidia, profiles
from whence._base import errors
from whence._base.errors import (
    DwarfError,
    FormatError,
    LidiaError,
    Mismatch,
    TraceError,
    Unsupported,
    WhenceError,
    WrongUse,
)
from whence._base.window import Window
from whence.dumps.core import read_core
from whence.gotrace.faults import TextError
from whence.gotrace.survey import info
from whence.objects.elf import ElfFile
from whence.procmap.build_id import read_build_id
from whence.symbolize import Snapshot

TRACE = gotrace.CURRENT.header + b"\x01\x01\x01\x00\x05" + b"\x03"  # a batch of 5 bytes with one


def read_file(path: Path) -> object:
    return list(gotrace.Reader(path))


def to_nothing(path: Path) -> object:
    return gotrace.to_text(path, io.BytesIO())


def core(path: Path) -> object:
    with ElfFile.open(path) as elf:
        return read_core(elf)


READERS: dict[str, Callable[[Path], object]] = {
    "whence.open": whence.open,
    "ElfFile.open": ElfFile.open,
    "lidia.open": lidia.open,
    "profiles.read": profiles.read,
    "gotrace.Reader": read_file,
    "gotrace.to_text": to_nothing,
    "gotrace.ColumnReader": lambda path: list(gotrace.ColumnReader(path)),
    "gotrace.info": info,
    "read_build_id": read_build_id,
    "Snapshot": Snapshot,
    "core": core,
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reports_an_empty_file_by_name(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.bin"
    path.touch()
    with pytest.raises(FormatError) as caught:
        READERS[reader](path)
    assert str(caught.value) == f"{path}: the file is empty"
    assert (caught.value.code, caught.value.path) == (errors.EMPTY_FILE, str(path))


@pytest.mark.parametrize(
    ("reader", "says"),
    [
        ("whence.open", "neither an object file nor an archive"),
        ("ElfFile.open", 'not an ELF file: the magic at 0x0 is 69 6e 74 20, expected 7f 45 4c 46 ("\\x7fELF")'),
        (
            "lidia.open",
            'not an archive: the magic at 0x0 is 69 6e 74 20, expected 2e 64 69 61 (".dia")',
        ),
        ("gotrace.Reader", "not a Go execution trace in binary form: the file starts with 69 6e 74 20 6d 61 69 6e"),
        ("gotrace.to_text", "not a Go execution trace: the file starts with 69 6e 74 20 6d 61 69 6e"),
        ("core", "not an ELF file"),
        ("Snapshot", "not a snapshot: not JSON"),
    ],
)
def test_a_file_of_another_kind_is_reported_as_such(reader: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "app.cpp"
    path.write_text("int main() { return 0; }\n")
    with pytest.raises(FormatError) as caught:
        READERS[reader](path)
    assert str(caught.value).startswith(f"{path}: {says}")
    if reader != "Snapshot":
        assert caught.value.code == errors.WRONG_KIND


def test_a_trace_that_is_cut_off_says_at_which_byte(tmp_path: Path) -> None:
    path = tmp_path / "cut.trace"
    path.write_bytes(TRACE)
    for reader in ("gotrace.Reader", "gotrace.to_text", "gotrace.ColumnReader", "gotrace.info"):
        with pytest.raises(TraceError) as caught:
            READERS[reader](path)
        assert str(caught.value).startswith(f"{path}: the last generation is cut off at byte {len(TRACE)}")
        assert caught.value.code == errors.CUT_OFF


def test_a_structure_that_is_cut_off_says_how_much_is_missing() -> None:
    with pytest.raises(FormatError, match=r"elf header\+0x10: truncated: needs 48 bytes, 1 left") as caught:
        ElfFile.from_bytes(forge([])[:17])
    assert caught.value.code == errors.CUT_OFF


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_fifo_and_a_device_are_named_as_such(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(FormatError, match="/fifo: a FIFO, not a regular file") as caught:
        whence.open(fifo)
    assert caught.value.code == errors.NOT_REGULAR
    with pytest.raises(FormatError, match="/dev/null: a device, not a regular file"):
        whence.open("/dev/null")
    assert str(errors.not_regular(FormatError, stat.S_IFSOCK)) == "a socket, not a regular file"


def test_an_error_says_where_the_fault_is() -> None:
    fault = "the version is 3, expected 1"
    assert str(LidiaError("header", 4, fault)) == "lidia header+0x4: the version is 3, expected 1"
    assert str(LidiaError("STRT", None, "row 3 is out of order")) == "lidia STRT: row 3 is out of order"
    assert str(LidiaError("", None, "the file is empty", path="a.lidia")) == "a.lidia: the file is empty"
    assert str(DwarfError(".debug_line", 0x1C, fault)) == ".debug_line+0x1c: the version is 3, expected 1"


def test_an_error_raised_late_names_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "a.lidia"
    builder = lidia.Builder()
    builder.add(lidia.Range(vaddr=0x1000, length=0x40, function="main"))
    data = bytearray(builder.to_bytes())
    offset = lidia.from_bytes(data).header.ranges.offset + 2 * lidia.from_bytes(data).header.ranges.width
    data[offset : offset + 4] = b"\xff\xff\xff\x7f"  # the function's name
    path.write_bytes(data)
    with lidia.open(path) as table, pytest.raises(LidiaError) as caught:
        table.lookup(0x1000)
    assert str(caught.value).startswith(
        f"{path}: lidia range table+0x0: range 0 has a name outside the 26 bytes of strings: function 0x7fffffff"
    )


def every_error() -> list[WhenceError]:
    with_all = LidiaError("header", 4, "f", rule="r", found=memoryview(b"ab" * 99), code="c", path="p").with_hint("do")
    with_all.add_note("in unit 3")
    return [
        with_all,
        errors.cut_off(TraceError, "wire", 3, 8, 1),
        errors.ChecksumError("strings", 0, "f", found="0x1"),
        TextError(7, 2, 1, "a problem").in_file("t.txt"),
        Unsupported("events").in_file("x").with_hint("h"),
        Mismatch("two"),
        WrongUse("no"),
    ]


@pytest.mark.parametrize("error", every_error(), ids=lambda error: type(error).__name__)
def test_an_error_keeps_every_field_when_it_is_pickled_or_copied(error: WhenceError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert (str(again), again.code, again.hint, again.path) == (str(error), error.code, error.hint, error.path)
        assert vars(again) == vars(error)
    assert {error.code for error in every_error()} >= {errors.UNSUPPORTED, errors.MISMATCH, errors.WRONG_USE}


def test_an_error_keeps_only_the_first_bytes_of_a_view() -> None:
    big = bytearray(1 << 20)
    error = FormatError("part", 0, "fault", found=memoryview(big))
    assert error.found == bytes(errors.FOUND_BYTES)
    big.extend(b"!")  # nothing holds a view of it


def test_an_error_of_a_window_has_its_part_and_the_bytes_left() -> None:
    with pytest.raises(FormatError, match=r"format table\+0x2: truncated: needs 4 bytes, 2 left"):
        Window(b"abcd", "table").u32(2)
