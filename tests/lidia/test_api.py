"""The package's public names: those of the Go package's documentation, types, pickling, reprs."""

from __future__ import annotations

import inspect
import io
import pickle
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.forge.ranges import NESTED, archive
from whence import lidia
from whence._base.errors import ChecksumError, LidiaError, WhenceError
from whence._base.model import Frame, Source
from whence._base.records import as_dict
from whence.archive.create import Created
from whence.ranges import Ranges

PROGRAM = """
import whence
from whence import lidia

builder = lidia.Builder(build_id="c0ffee", machine="x86_64")
builder.add(lidia.Range(vaddr=0x1000, length=0x40, function="main", file="main.c", line_table=[(0, 3), (0x10, 5)]))
builder.add(vaddr=0x1010, length=8, function="square", depth=1, line_table=((0, 12),), call_file="main.c", call_line=5)
data: bytes = builder.to_bytes(crc=True, strings="nul")
with lidia.from_bytes(data, crc=True) as table:
    frames: whence.Frames = table.lookup(0x1014, return_address=True)
    source: whence.Source = frames[0].source
    found: lidia.FrameTable = table.lookup_many([0x1014, 0x1020])
    functions: list[str] = found.function
    sources: list[whence.Source] = found.source
    numbers: list[int] = found.line.tolist()
    part: lidia.FrameTable = found[:1]
    chains: list[whence.Frames] = list(found)
    first: lidia.Range = table[0]
    some: list[lidia.Range] = table[0:1]
    entry: lidia.LineTableEntry = first.line_table[0]
    end: int = first.end + entry.offset + entry.line_number
    info: lidia.ArchiveInfo = table.info()
    problems: list[str] = table.verify()
    table.check_crc_va()
try:
    lidia.open("no such file", crc=True)
except (OSError, whence.WhenceError):
    pass


def archive(path: str) -> None:
    made: lidia.Created = lidia.create(path, path + ".lidia", crc=True, lines=True, files=False)
    sizes: lidia.Written = made.written
    reveal: tuple[int, str] = sizes.size, made.debug_file
"""


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (lidia, "create create_from_elf open from_bytes Table Range LineTable LineTableEntry Frame Builder"),
        (lidia.Table, "lookup close check_crc check_crc_va check_crc_fields check_crc_strings check_crc_line_tables"),
        (
            lidia.Range(1, 2, "f"),
            "va vaddr end length function file call_file call_line depth line_table source start_line",
        ),
        (lidia.LineTableEntry(0, 1), "offset line_number"),
        (Frame("f"), "function file line"),
    ],
)
def test_the_names_of_the_go_packages_documentation_exist(owner: object, names: str) -> None:
    assert [name for name in names.split() if not hasattr(owner, name)] == []


@pytest.mark.parametrize("function", [lidia.create, lidia.create_from_elf, lidia.write, lidia.Builder.write])
def test_the_go_packages_options_are_keywords(function: object) -> None:
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    keywords = as_dict(parameters["options"].default) if "options" in parameters else parameters
    assert {"crc", "lines", "files"} <= set(keywords)


def test_a_range_has_its_vaddr_by_the_go_packages_name_too() -> None:
    byname = lidia.Range(va=0x1000, length=0x20, function="f", line_table=[(0, 3)])
    assert byname == lidia.Range(0x1000, 0x20, "f", line_table=(lidia.LineTableEntry(0, 3),))
    assert (byname.va, byname.vaddr, byname.end) == (0x1000, 0x1000, 0x1020)
    assert (byname.line_table[0].offset, byname.line_table[0].line_number, byname.source) == (0, 3, Source.GIVEN)
    for wrong in ({}, {"va": 1, "vaddr": 1}):
        with pytest.raises(TypeError, match="a Range has a vaddr"):
            lidia.Range(**wrong, length=1, function="f")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="guessed"):
        lidia.Range(1, 1, "f", source="guessed")


def test_ranges_read_can_be_added_again() -> None:
    with lidia.from_bytes(archive(NESTED)) as opened:
        builder = lidia.Builder()
        builder.extend(opened)
        with lidia.from_bytes(builder.to_bytes()) as again:
            assert list(again) == list(opened)


def test_a_table_is_sliced_into_lists() -> None:
    with lidia.from_bytes(archive(NESTED)) as opened:
        every = list(opened)
        assert opened[1:3] == every[1:3]
        assert opened[::-2] == every[::-2]
        assert opened[9:] == []
        assert opened[-1] == every[-1]
        with pytest.raises(IndexError, match="range index 6 is out of bounds: there are 6 ranges"):
            opened[6]


def test_a_builder_says_which_binary_its_ranges_are_of() -> None:
    builder = lidia.Builder(build_id="C0FFEE", machine="x86_64")
    builder.add(vaddr=0x1000, length=4, function="f")
    with lidia.from_bytes(builder.to_bytes()) as opened:
        info = opened.info()
    assert (info.build_id, info.machine) == ("c0ffee", "x86_64")
    with pytest.raises(ValueError, match="fromhex"):
        lidia.Builder(build_id="no hex")


def test_results_pickle_with_all_fields(tmp_path: Path) -> None:
    lidia.create(sys.executable, tmp_path / "a.lidia", dwarf=False)
    created = lidia.create(sys.executable, tmp_path / "a.lidia", dwarf=False)
    assert isinstance(created, Created)
    with lidia.from_bytes(archive(NESTED)) as opened:
        results = [opened.header, opened.about, opened.info(), opened[0], opened[0].line_table, opened.lookup(0x1015)]
    for result in [*results, created, created.written, Source.DWARF]:
        copy = pickle.loads(pickle.dumps(result))
        assert (copy, type(copy)) == (result, type(result))


def test_errors_pickle_with_all_attributes() -> None:
    with pytest.raises(LidiaError) as caught:
        lidia.from_bytes(b"\x7fELF" + bytes(200))
    error = caught.value.in_file("libc.so")
    error.add_note("while a test ran")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is LidiaError
    for name in ("part", "offset", "rule", "found", "fault", "code", "hint", "path", "message", "__notes__"):
        assert getattr(copy, name) == getattr(error, name)
    assert str(copy) == str(error)
    damaged = bytearray(archive(NESTED))
    damaged[0x80] ^= 1
    with pytest.raises(ChecksumError) as caught_sum:
        lidia.from_bytes(damaged, crc=True)
    assert str(pickle.loads(pickle.dumps(caught_sum.value))) == str(caught_sum.value)


def test_each_checksum_is_checked_separately() -> None:
    data = archive(NESTED)
    sections = lidia.from_bytes(data).header
    checks = ("check_crc_va", "check_crc_fields", "check_crc_strings", "check_crc_line_tables")
    for section, name in zip(sections, checks, strict=True):
        damaged = bytearray(data)
        damaged[section.offset + section.size - 1] ^= 1
        with lidia.from_bytes(damaged) as opened:
            for check in checks:
                if check == name:
                    with pytest.raises(ChecksumError, match=re.escape(section.name)):
                        getattr(opened, check)()
                else:
                    getattr(opened, check)()
            with pytest.raises(WhenceError, match=re.escape(section.name)):
                opened.check_crc()


def test_reprs_are_one_descriptive_line() -> None:
    with lidia.from_bytes(archive(NESTED)) as opened:
        assert repr(opened) == "<lidia.Table in memory: 6 ranges>"
        assert repr(lidia.Builder()) == "<lidia.Builder: 0 ranges>"
        assert repr(opened.lookup_many([0x1015])[0][2].source) == "Source.DWARF"
        for shown in (opened.about, opened.info(), opened[0], lidia.write(_ranges(), io.BytesIO())):
            assert "\n" not in repr(shown)
            assert repr(shown).startswith(type(shown).__name__)


def _ranges() -> Ranges:
    return lidia.Builder().ranges()


def test_every_public_name_has_a_docstring() -> None:
    missing = [name for name in lidia.__all__ if name != "LineTable" and not inspect.getdoc(getattr(lidia, name))]
    for kind in (lidia.Table, lidia.FrameTable, lidia.Builder, lidia.Range):
        missing += [
            f"{kind.__name__}.{name}"
            for name, member in vars(kind).items()
            if not name.startswith("_") and callable(member) and not inspect.getdoc(member)
        ]
    assert missing == []


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed")
def test_a_users_program_passes_strict_type_checks(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("Success: no issues found in 1 source file\n", 0)


def test_the_users_program_runs() -> None:
    names: dict[str, Any] = {}
    exec(compile(PROGRAM, "program.py", "exec"), names)
    assert [(frame.function, frame.line) for frame in names["frames"]] == [("square", 12), ("main", 5)]


def test_names_are_readable_on_request(tmp_path: Path) -> None:
    builder = lidia.Builder()
    builder.add(vaddr=0x1000, length=4, function="_ZN3foo3barEv")
    path = tmp_path / "a.lidia"
    builder.write(path)
    for demangle, want in ((False, "_ZN3foo3barEv"), (True, "foo::bar()"), (str.lower, "_zn3foo3barev")):
        with lidia.open(path, demangle=demangle) as opened:
            assert opened.lookup(0x1000)[0].function == want
        assert lidia.from_bytes(path.read_bytes(), demangle=demangle).lookup_many([0x1000]).function == [want]


@pytest.mark.parametrize(
    "wrong", [{"call_file": "a\0b"}, {"function": "\ud800"}, {"file": "a\0b"}, {"start_line": 1 << 32}, {"source": "?"}]
)
def test_a_refused_range_leaves_the_builder_unchanged(wrong: dict[str, Any]) -> None:
    builder = lidia.Builder()
    builder.add(vaddr=0x1000, length=16, function="first")
    with pytest.raises(ValueError):
        builder.add(**{"vaddr": 0x2000, "length": 16, "function": "refused", **wrong})
    builder.add(vaddr=0x3000, length=16, function="last")
    with lidia.from_bytes(builder.to_bytes()) as table:
        assert [(each.vaddr, each.function) for each in table] == [(0x1000, "first"), (0x3000, "last")]
