"""Archives in the compact form, which earlier versions wrote, are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import whence
from tests.forge.lidia import Forged
from whence import lidia
from whence._base.errors import LidiaError

COMPACT = b".dic" + Forged([(0x1000, 16, 0, 0, 0, 0, 0, 0, 0)]).bytes()[4:]


def test_a_compact_archive_is_refused_with_what_it_is_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "app.lidia"
    path.write_bytes(COMPACT)
    for ask in (lambda: lidia.from_bytes(COMPACT), lambda: lidia.open(path), lambda: whence.open(path)):
        with pytest.raises(LidiaError, match="compact archive, which this version does not read") as caught:
            ask()
        assert caught.value.code == "unsupported"
        assert "whence lidia create" in caught.value.hint
