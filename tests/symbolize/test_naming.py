"""Frames of many vaddrs in one binary: what an exception costs the others."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import whence
from tests.helpers.fakes import Fake
from tests.helpers.live import compiled
from whence._base.reasons import Reason
from whence.lidia.results import FrameTable
from whence.symbolize import internal_error
from whence.symbolize.naming import chains_of, table_of

VADDRS = range(0x401000, 0x402000, 2)
DAMAGED, BUG = 0x401FF0, 0x401FE0


def test_a_damaged_vaddr_costs_a_logarithm_of_lookups() -> None:
    vaddrs = [vaddr for vaddr in VADDRS if vaddr != BUG]
    fake = Fake("app")
    chains, missing = chains_of(fake, vaddrs)
    assert [vaddr for vaddr, chain in zip(vaddrs, chains, strict=True) if not chain] == [DAMAGED]
    assert {vaddr: reason for vaddr, (reason, _) in missing.items()} == {DAMAGED: Reason.BROKEN_FILE}
    assert chains[0][0].function == "app@0x401000"
    assert chains[-1][0].function == "app@0x401ffe"
    assert fake.lookups <= 1 + 2 * len(vaddrs).bit_length()


def test_a_batch_where_every_vaddr_raises_has_a_reason_for_each() -> None:
    fake = Fake("app")
    fake.closed = True  # each lookup is an AssertionError
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(internal_error, "reraise", False)
        chains, missing = chains_of(fake, VADDRS[:100])
    assert chains == [()] * 100
    assert set(missing) == set(VADDRS[:100])
    assert fake.lookups == 199


def test_a_bug_is_logged_once_and_the_others_have_their_names(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(internal_error, "reraise", False)
    with caplog.at_level(logging.ERROR, "whence"):
        _, which, missing = table_of(Fake("app"), VADDRS)
    assert {vaddr: reason for vaddr, (reason, _) in missing.items()} == {
        BUG: Reason.INTERNAL_ERROR,
        DAMAGED: Reason.BROKEN_FILE,
    }
    assert [vaddr for vaddr, chain in zip(VADDRS, which, strict=True) if not chain] == [BUG, DAMAGED]
    assert len(caplog.records) == 1


@pytest.fixture
def binary(tmp_path: Path) -> whence.Binary:
    return whence.open(compiled(tmp_path))


def break_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the first call of FrameTable.distinct raise; later ones answer."""
    distinct = FrameTable.distinct

    def broken(self: FrameTable, **_: Any) -> Any:
        monkeypatch.setattr(FrameTable, "distinct", distinct)
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(FrameTable, "distinct", broken)


def test_a_bug_in_the_table_of_chains_is_raised_in_tests(
    binary: whence.Binary, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_once(monkeypatch)
    with binary, pytest.raises(ZeroDivisionError):
        table_of(binary, [each.vaddr for each in binary.functions()])


def test_a_bug_in_the_table_of_chains_is_logged_and_the_names_are_the_same(
    binary: whence.Binary, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with binary:
        vaddrs = [1, *(each.vaddr for each in binary.functions())]
        expected = chains_of(binary, vaddrs)
        break_once(monkeypatch)
        monkeypatch.setattr(internal_error, "reraise", False)
        with caplog.at_level(logging.ERROR, "whence"):
            _, which, missing = table_of(binary, vaddrs)
    assert len(caplog.records) == 1
    assert "ZeroDivisionError" in caplog.text
    assert [bool(chain) for chain in which] == [bool(chain) for chain in expected[0]]
    assert any(which)
    assert missing == expected[1]
