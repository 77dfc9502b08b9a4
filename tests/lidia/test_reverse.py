"""find and find_line return all vaddrs where lookup gives the name or line."""

from __future__ import annotations

from pathlib import Path

import pytest

import whence
from tests.forge.elf import Section, Symbol, forge
from tests.helpers.programs import compiled
from whence.archive.create import create


@pytest.fixture(params=["elf", "archive"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "elf":
        return compiled()
    create(compiled(), tmp_path / "program.lidia")
    return tmp_path / "program.lidia"


def test_a_function_is_found_by_its_name(program: Path) -> None:
    with whence.open(program) as binary:
        (function,) = binary.find("sum")
        assert function.depth == 0
        assert all(binary.lookup(vaddr)[-1].function == "sum" for vaddr in range(function.vaddr, function.end))
        assert binary.find("su") == []
        assert binary.find("square") == [], "it was inlined everywhere"


def test_each_byte_of_a_line_is_found_and_no_other(program: Path) -> None:
    with whence.open(program) as binary:
        functions = [each for name in ("sum", "main") for each in binary.find(name)]
        lines: dict[int, set[int]] = {}
        for vaddr in (vaddr for each in functions for vaddr in range(each.vaddr, each.end)):
            lines.setdefault(binary.lookup(vaddr)[0].line, set()).add(vaddr)
        assert len(lines) > 5
        for line, vaddrs in lines.items():
            spans = binary.find_line("program.c", line)
            assert {vaddr for span in spans for vaddr in range(span.vaddr, span.end)} == vaddrs
            assert spans == sorted(spans)
            for span in spans:
                frame = binary.lookup(span.vaddr)[0]
                assert (span.function, span.file, span.inlined) == (frame.function, frame.file, frame.inlined)
        line = next(iter(lines))
        assert binary.find_line(frame.file, line) == binary.find_line("program.c", line) != []
        assert binary.find_line("ogram.c", line) == binary.find_line("program.c", 1000) == []


def test_a_readable_name_finds_functions_by_their_linkage_names(tmp_path: Path) -> None:
    text = Section(".text", bytes(0x100), flags=6, vaddr=0x1000)
    symbols = [Symbol("_ZN2ns3addEii", 0x1000, 16), Symbol("_ZN2ns3addEd", 0x1010, 16)]
    (tmp_path / "elf").write_bytes(forge([text], symbols=symbols))
    with whence.open(tmp_path / "elf") as binary:
        assert [each.vaddr for each in binary.find("ns::add(int, int)")] == [0x1000]
        assert [each.vaddr for each in binary.find("_ZN2ns3addEd")] == [0x1010]
        assert [each.vaddr for each in binary.find("ns::add")] == [0x1000, 0x1010]


def test_an_alias_finds_the_function_that_has_another_name_in_the_table(tmp_path: Path) -> None:
    text = Section(".text", bytes(0x100), flags=6, vaddr=0x1000)
    symbols = [Symbol("alias", 0x1000, 16), Symbol("function", 0x1000, 16)]
    (tmp_path / "elf").write_bytes(forge([text], symbols=symbols))
    with whence.open(tmp_path / "elf") as binary:
        assert binary.find("alias") == binary.find("function") != []
