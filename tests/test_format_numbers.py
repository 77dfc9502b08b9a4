"""Numbers of a format have names: no comparison in src/ is with a bare one."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "whence"
PXD_COMPARISON = re.compile(r"(==|!=|<=?|>=?)\s*0x[0-9a-fA-F]+")


def hex_numbers(source: str) -> Iterator[tuple[int, str]]:
    """Comparisons with a number that is written in hex, as numbers of formats are: line, text."""
    if "0x" not in source:
        return
    lines = source.encode().split(b"\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                for one in side.elts if isinstance(side, ast.Tuple | ast.Set | ast.List) else [side]:
                    if isinstance(one, ast.Constant) and lines[one.lineno - 1][one.col_offset :].startswith(b"0x"):
                        yield node.lineno, lines[one.lineno - 1].decode().strip()


def test_the_search_finds_them() -> None:
    found = list(hex_numbers("a = b == 0x80\nif c in (0xE2, d) or 0x10 <= e < F: pass\nx = y & 0xFF == Z\n"))
    assert [line for line, _ in found] == [1, 2, 2]
    assert PXD_COMPARISON.search("    if byte >= 0x80:")


def test_no_comparison_is_with_a_bare_number_of_a_format() -> None:
    found = {
        f"{path.relative_to(SRC)}:{line}": text
        for path in SRC.rglob("*.py")
        for line, text in hex_numbers(path.read_text())
    }
    for path in SRC.rglob("*.pxd"):
        for line, text in enumerate(path.read_text().splitlines(), 1):
            if PXD_COMPARISON.search(text.split("#")[0]):
                found[f"{path.relative_to(SRC)}:{line}"] = text.strip()
    assert not found


VERSION_COMPARISON = re.compile(r"\bversion (==|!=|<=?|>=?) \d")


def test_no_comparison_is_with_a_bare_number_of_a_version() -> None:
    assert VERSION_COMPARISON.search("if header.version >= 5:")
    sources = [*SRC.rglob("*.py"), *SRC.rglob("*.pxd")]
    assert [path for path in sources if VERSION_COMPARISON.search(path.read_text())] == []


CLASS_COMPARISON = re.compile(r"\bbits (==|!=) (32|64)\b")


@pytest.mark.parametrize("room", ["objects/elf", "locate", "procmap"])
def test_no_comparison_is_with_a_bare_width_of_an_elf_class(room: str) -> None:
    """objects.elf.layout has them: ELF32, ELF64."""
    assert CLASS_COMPARISON.search("elf.bits == 64")
    paths = sorted((SRC / room).glob("*.py"))
    assert paths
    assert [path.name for path in paths if CLASS_COMPARISON.search(path.read_text())] == []
