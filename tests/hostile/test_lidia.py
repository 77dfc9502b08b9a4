"""Archives whose ranges ask for more than the archive holds: names, line entries and depths cost nothing to repeat."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.forge.lidia import Forged
from tests.hostile import bounded, interrupted
from tests.hostile.inputs.lidia import deep, shared_lengths, shared_lines, shared_name
from whence.lidia import compressed

Make = Callable[[], bytes]


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "hostile.lidia"
    path.write_bytes(data)
    return path


def test_verify_of_names_that_share_one_string_takes_a_moment(tmp_path: Path) -> None:
    outcome = bounded(["whence", "lidia", "verify", written(tmp_path, shared_name())], seconds=3, megabytes=100)
    assert outcome.code == 0, outcome.error


def test_verify_of_lengths_that_overlap_takes_a_moment(tmp_path: Path) -> None:
    outcome = bounded(["whence", "lidia", "verify", written(tmp_path, shared_lengths())], seconds=3, megabytes=100)
    assert outcome.code == 0, outcome.error


@pytest.mark.parametrize("make", [shared_name, shared_lengths])
def test_dump_of_names_that_share_one_string_says_the_bound(tmp_path: Path, make: Make) -> None:
    outcome = bounded(
        ["whence", "lidia", "dump", "--no-demangle", written(tmp_path, make())], seconds=10, megabytes=100
    )
    assert outcome.code == 3
    assert "names of ranges take more than" in outcome.error


def test_a_depth_is_a_number_not_that_many_spaces(tmp_path: Path) -> None:
    outcome = bounded(["whence", "lidia", "dump", written(tmp_path, deep())], seconds=3, megabytes=60)
    assert outcome.code == 0, outcome.error
    assert b"depth 4294967295" in outcome.out
    assert len(outcome.out) < 10_000
    assert (
        b'"depth": 4294967295'
        in bounded(["whence", "lidia", "dump", "--json", written(tmp_path, deep())], seconds=3, megabytes=60).out
    )


def test_dump_of_line_entries_that_all_ranges_share_says_the_bound(tmp_path: Path) -> None:
    outcome = bounded(["whence", "lidia", "dump", written(tmp_path, shared_lines())], seconds=6, megabytes=150)
    assert outcome.code == 3
    assert "line entries of ranges take more than" in outcome.error


@pytest.mark.parametrize("make", [shared_name, shared_lengths])
@pytest.mark.parametrize("style", ["llvm", "gnu", "json"])
def test_addresses_whose_names_share_one_string_are_answered_with_its_beginning(
    tmp_path: Path,
    make: Make,
    style: str,
) -> None:
    asked = "".join(f"{16 * row:x}\n" for row in range(200)).encode()
    command: list[str | Path] = ["whence", "addr", "--style", style, written(tmp_path, make())]
    outcome = bounded(command, seconds=3, megabytes=400, stdin=asked)
    assert outcome.code == 0, outcome.error


def test_ctrl_c_ends_a_long_dump(tmp_path: Path) -> None:
    rows = [(16 * row, 16, 0, 0, 0, 0, 0, 0, 0) for row in range(400_000)]
    path = tmp_path / "long.lidia"
    path.write_bytes(Forged(rows).bytes())
    interrupted(["whence", "lidia", "dump", path])


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_compressed_archive_that_grows_beyond_the_limit_is_refused(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    with open(path, "wb") as out, compressed.compressed(out, codec) as file:
        file.write(Forged([(0x1000, 16, 0, 0, 0, 0, 0, 0, 0)]).bytes())
        for _ in range(200):
            file.write(bytes(1 << 20))
    outcome = bounded(["whence", "lidia", "verify", path], seconds=3, megabytes=100)
    assert outcome.code == 3
    assert "decompressed bytes take more than 100 times its" in outcome.error


def test_a_gzip_file_of_empty_members_ends_in_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress(b"", mtime=0) * 20_000)
    outcome = bounded(["whence", "lidia", "verify", path], seconds=3, megabytes=60)
    assert outcome.code == 3
    assert "the file is empty" in outcome.error
