"""`python -m tools.lint` finds what it looks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import english, lint

SOURCE = "a = b == 0x80\nif c in (0xE2, d) or 0x10 <= e < F: pass\nx = y & 0xFF == Z\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "src" / "whence" / "objects" / "elf"
    folder.mkdir(parents=True)
    return folder


def test_comparisons_with_bare_numbers_are_found(package: Path) -> None:
    (package / "a.py").write_text(SOURCE)
    (package / "b.pxd").write_text("# x == 0x1\nif byte >= 0x80:\n")
    places = [finding.partition(": ")[0] for finding in lint.format_numbers(package.parents[3])]
    assert places == [f"src/whence/objects/elf/{location}" for location in ("a.py:1", "a.py:2", "a.py:2", "b.pxd:2")]


def test_comparisons_with_bare_versions_and_widths_are_found(package: Path) -> None:
    (package / "a.py").write_text("header.version == V5\nif header.version >= 5: pass\nelf.bits == 64\n")
    root = package.parents[3]
    assert [finding.split(":")[1] for finding in lint.format_versions(root)] == ["2"]
    assert [finding.split(":")[1] for finding in lint.elf_classes(root)] == ["3"]


def test_numbers_of_dwarf_outside_of_their_table_are_found(package: Path) -> None:
    folder = package.parents[1] / "dwarf"
    folder.mkdir()
    (folder / "a.pxd").write_text("LIMIT = 0x10\nif size > <u64>0xFF: pass\nif tag == 3: pass\n")
    result = [finding.partition(": ")[0] for finding in lint.dwarf_numbers(package.parents[3])]
    assert result == ["src/whence/dwarf/a.pxd:2", "src/whence/dwarf/a.pxd:3"]


def test_possessive_quantifiers_of_groups_are_found(package: Path) -> None:
    (package / "a.py").write_text(
        r"""A = r"(?:a|b)*+c"
B = r"[ab]*+c(?>(?:a|b)?)"
C = (1) + 2
D = r"(a){2,3}+"
"""
    )
    result = [finding.split(":")[1] for finding in lint.repeated_groups(package.parents[3])]
    assert result == ["1", "4"]


def test_a_changelog_without_the_version_is_found(package: Path) -> None:
    root = package.parents[3]
    (root / "src" / "whence" / "_version.py").write_text('__version__ = "1.2"\n')
    (root / "CHANGELOG.md").write_text("## 1.1\n")
    (root / "CITATION.cff").write_text("title: whence\nversion: 1.2\n")
    assert [*lint.version(root)] == ["CHANGELOG.md:1: version 1.2 is missing"]


def test_an_example_that_no_test_runs_is_found(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "tests").mkdir()
    for name in ("run.py", "forgotten.py", "book.ipynb"):
        (tmp_path / "examples" / name).touch()
    (tmp_path / "tests" / "test_examples.py").write_text('loaded("run")\nread("book.ipynb")\n')
    assert [*lint.examples(tmp_path)] == ["examples/forgotten.py:1: tests/test_examples.py does not run it"]


def test_forbidden_phrases_are_found_in_text_but_not_in_code_or_quotes(tmp_path: Path) -> None:
    phrase = " ".join(("the", "page", "go" + "es", "away"))
    (tmp_path / "a.py").write_text(
        f'x = f"{{behind}}"\nprint("{phrase}")\nprint("{phrase}")  # quoted\n"""`{phrase}`"""\n'
    )
    (tmp_path / "b.md").write_text(f"text\n\n    {phrase}\n\n```\n{phrase}\n```\n{phrase}\n")
    results = {path.name: [number for number, *_ in english.check(path)] for path in english.files([tmp_path])}
    assert results == {"a.py": [2], "b.md": [8]}
