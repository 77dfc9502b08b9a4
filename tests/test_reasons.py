"""Reasons are spelt in one place, and everyone's words are those."""

import json
import re
from pathlib import Path

import pytest

from whence import lidia
from whence._base.reasons import WAIT_FOR_KERNEL, Missing, Reason, not_traceable
from whence.lidia.render import render_many
from whence.locate.search import Outcome

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^\| ([a-z]+(?:-[a-z]+)*) \| (.+) \|$", re.MULTILINE)


def test_the_table_of_reasons_in_the_docs_is_the_code() -> None:
    _, _, section = (ROOT / "docs" / "processes.md").read_text().partition("\n## Reasons\n")
    rows = ROW.findall(section.partition("\n## ")[0])
    assert rows == [("word", "meaning"), *((reason.word, reason.sentence) for reason in Reason)]


def test_an_archive_words_its_reasons_as_everyone_does() -> None:
    builder = lidia.Builder()
    builder.add(vaddr=0x1000, length=16, function="main")
    with lidia.from_bytes(builder.to_bytes()) as table:
        lines = render_many(table, b"5\nno address\n", "json").splitlines()
    assert [json.loads(line)["reason"] for line in lines] == [Reason.NOT_IN_ARCHIVE.word, Reason.NOT_AN_ADDRESS.word]


def test_the_table_of_what_becomes_of_a_candidate_in_the_docs_is_the_code() -> None:
    rows = ROW.findall((ROOT / "docs" / "locating.md").read_text())
    assert rows[-len(Outcome) :] == [(each.code, each.sentence) for each in Outcome]


@pytest.mark.parametrize("user", [0, 1000])
def test_root_is_not_advised_to_become_root(user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    remedies = [
        Reason.PERMISSION_DENIED.remedy,
        Reason.NOT_TRACEABLE.remedy,
        Missing(Reason.NOT_TRACEABLE, "", WAIT_FOR_KERNEL).remedy,
        *(not_traceable("denied", scope=scope, owner=1001).remedy for scope in range(3)),
    ]
    assert [bool(re.search(r"as root|root can", remedy)) for remedy in remedies] == [user != 0] * len(remedies)
