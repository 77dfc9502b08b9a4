"""Checksums of archives, compared with the package crc32c."""

from __future__ import annotations

from array import array

import crc32c as package
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.lidia import checksum
from whence.lidia.checksum import crc32c
from whence.lidia.kernels import checksum as kernel


@given(parts=st.lists(st.binary(max_size=40), max_size=6))
def test_checksums_of_parts_are_those_of_the_package(parts: list[bytes]) -> None:
    assert crc32c(parts) == crc32c([b"".join(parts)]) == package.crc32c(b"".join(parts))


# RFC 3720, appendix B.4
@pytest.mark.parametrize(
    ("data", "value"),
    [(bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E), (b"", 0)],
)
def test_checksums_are_those_of_the_standard(data: bytes, value: int) -> None:
    assert crc32c([data]) == value


def test_long_data_is_read_in_steps_without_a_copy() -> None:
    data = bytes(range(251)) * 10_000
    assert crc32c([memoryview(data)]) == package.crc32c(data)
    assert len(data) > 2 * checksum.STEP


def test_tables_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="another size"):
        kernel.crc32c(b"", 0, array("I", [0]))
    with pytest.raises(ValueError, match="another size"):
        kernel.fill_tables(array("I", [0]))
