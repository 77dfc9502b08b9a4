"""Ctrl-C while a profile is read, named and written."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.forge import pprof
from tests.hostile import interrupted
from whence.samples import wire


@cache
def large(count: int = 100_000) -> bytes:
    """A profile of so many samples, all different."""
    varints = [wire.varint(n) for n in range(count + 1)]
    item = wire.packed(2, [1])
    stacks = (b"".join(varints[1 + (n * k) % count] for k in range(1, 20)) for n in range(1, count + 1))
    return b"".join(
        (
            pprof.sample_type(),
            pprof.mapping(1, 0x400000, 0x400000 + 16 * count, 0, 3),
            *(pprof.location(n, 1, 0x400000 + 16 * (n - 1), (n, 1)) for n in range(1, count + 1)),
            *(pprof.function(n, 4 + n) for n in range(1, count + 1)),
            *(wire.payload(2, wire.payload(1, stack) + item) for stack in stacks),
            pprof.strings("", "cpu", "nanoseconds", "/bin/app", *(f"f{n}" for n in range(count + 1))),
        )
    )


@pytest.mark.parametrize("out", [["-o", "out.folded"], ["-o", "out.pb.gz"], ["--flamegraph", "out.html"]])
def test_ctrl_c_ends_work_on_a_large_profile_and_leaves_nothing(tmp_path: Path, out: list[str]) -> None:
    path = tmp_path / "large.pb"
    path.write_bytes(large())
    interrupted(["whence", "profile", path, out[0], tmp_path / out[1]], after=0.2)
    assert list(tmp_path.iterdir()) == [path]


def test_ctrl_c_ends_the_decoding_of_one_long_list_in_json(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    entries = b'{"address":"4096","mappingIndex":0},' * 3_000_000
    path.write_bytes(b'{"resourceProfiles":[],"dictionary":{"stringTable":[""],"locationTable":[' + entries + b"{}]}}")
    interrupted(["whence", "profile", path, "-o", tmp_path / "out.folded"], after=0.7)
    assert list(tmp_path.iterdir()) == [path]
