"""The weekly comparison of archives and instruction counts with their record."""

from __future__ import annotations

import pytest

from benchmarks import guards


def test_a_count_may_grow_by_five_percent_and_bytes_may_not_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record: dict[str, str | int] = {"quick": 1000, "slow": 1000, "faster": 1000, "same": "ab", "other": "ab"}
    monkeypatch.setattr(guards, "recorded", lambda: {"key": record})
    measured: dict[str, str | int] = {
        "quick": 1049, "slow": 1051, "faster": 9, "same": "ab", "other": "cd", "new": 7,
    }  # fmt: skip
    assert guards.compare("key", lambda: iter(measured.items())) == 2
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown if "TOO MANY" in line] == ["slow"]
    assert [line.split()[0] for line in shown if "CHANGED" in line] == ["other"]
