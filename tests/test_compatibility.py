"""The public surface is the recorded one, and documents name what it has."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from tools import public_surface

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="the file is made with Python 3.11: others print defaults anew"
)
def test_the_public_surface_is_the_recorded_one() -> None:
    recorded = public_surface.RECORDED.read_text().splitlines()
    changes = difflib.unified_diff(
        recorded, public_surface.surface().splitlines(), "recorded", "code", n=0, lineterm=""
    )
    shown = "\n".join(changes)
    assert not shown, (
        f"{shown}\n\nthe public surface has changed: read docs/compatibility.md, then run {public_surface.COMMAND} and "
        "commit the file with the change"
    )


def test_a_changed_parameter_option_member_or_path_changes_the_surface(monkeypatch: pytest.MonkeyPatch) -> None:
    import whence
    from whence.cli import symbols

    def lookup(self: object, vaddr: int) -> tuple[object, ...]:
        return ()

    before = set(public_surface.surface().splitlines())
    configure = symbols.configure
    monkeypatch.setattr(whence.Binary, "lookup", lookup)
    monkeypatch.setattr(symbols, "configure", lambda parser: (configure(parser), parser.add_argument("--new"))[0])
    after = set(public_surface.surface().splitlines())
    assert {line.partition("(")[0] for line in after ^ before} == {"whence.Binary.lookup", "whence symbols --new NEW"}


def test_the_modules_of_the_surface_are_those_of_the_api_reference() -> None:
    text = (ROOT / "docs" / "conf.py").read_text()
    modules = re.findall(r'"([\w.]+)"', text.partition("MODULES = (")[2].partition(")")[0])
    assert tuple(modules) == public_surface.MODULES


def test_documents_say_how_to_renew_the_record() -> None:
    for page in ("docs/compatibility.md", "CONTRIBUTING.md"):
        assert public_surface.COMMAND in (ROOT / page).read_text()


def test_pythons_in_the_promise_are_those_that_are_tested() -> None:
    row = re.findall(r"^\| CPython \| ([\d., ]+) \|", (ROOT / "docs" / "compatibility.md").read_text(), re.MULTILINE)
    tested = re.findall(r"^PYTHONS \?= (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert row[0].split(", ") == tested[0].split()
