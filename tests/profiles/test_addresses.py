"""Translation of runtime and normalized addresses to vaddrs."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.objects.elf.segments import Segment
from whence.samples.addresses import NOWHERE, vaddrs
from whence.samples.model import Mapping


def code(file_offset: int, vaddr: int, size: int, flags: int = 5) -> Segment:
    return Segment(1, flags, file_offset, vaddr, size, size, 0x1000)


PIE = [code(0, 0, 0x800, flags=4), code(0x1234, 0x2234, 0x3000)]
FIXED = [code(0, 0x400000, 0x5000)]
SHARED_PAGE = [code(0x1000, 0x11000, 0x800), code(0x1800, 0x22800, 0x900)]


@pytest.mark.parametrize(
    ("segments", "mapping", "address", "vaddr"),
    [
        (PIE, Mapping(0x7F0000, 0x7F4000, 0x1000), 0x7F0234, 0x2234),
        (PIE, Mapping(0x7F0000, 0x7F4000, 0x1000), 0x7F0000, 0x2000),  # the page before the segment's first byte
        (PIE, Mapping(0x7F0000, 0x7F8000, 0x1000), 0x7F7000, NOWHERE),  # past the file's code
        (PIE, Mapping(0x7F0000, 0x7F4000, 0x1000), 0x2300, 0x2300),  # outside the limits: normalized
        (PIE, Mapping(0, 0, 0), 0x2300, 0x2300),
        (PIE, Mapping(0x7F0000, 0, 0x1000), 0x7F0234, 0x2234),  # a limit that is not told
        (PIE, Mapping(0, 0x10000, 0), 0x2300, 0x2300),  # nothing is mapped at 0
        (PIE, Mapping(0, (1 << 64) - 1, 0), 0x7F1234567890, NOWHERE),
        (FIXED, Mapping(0x400000, 0x405000, 0), 0x401000, 0x401000),
        (FIXED, Mapping(0, 0, 0), 0x401000, 0x401000),
        (SHARED_PAGE, Mapping(0x7F0000, 0x7F1000, 0x1000), 0x7F0100, 0x11100),
        (SHARED_PAGE, Mapping(0x7F0000, 0x7F1000, 0x1000), 0x7F0900, 0x11900),  # exactly the first one's pages
        (SHARED_PAGE, Mapping(0x7F0000, 0x7F5000, 0x1000), 0x7F0900, 0x22900),  # joined: no segment's pages
        (SHARED_PAGE, Mapping(0x7F0000, 0, 0x1000), 0x7F0900, 0x22900),
        (SHARED_PAGE, Mapping(0x7F2000, 0x7F4000, 0x1000), 0x7F2900, 0x22900),
        (None, Mapping(0x7F0000000000, 0x7F0000004000, 0x1000), 0x7F0000000234, NOWHERE),
        (None, Mapping(0x400000, 0x405000, 0), 0x401000, 0x401000),
    ],
)
def test_an_address_is_translated_by_its_mapping(
    segments: list[Segment] | None, mapping: Mapping, address: int, vaddr: int
) -> None:
    assert vaddrs(segments, mapping, array("Q", [address]))[0] == vaddr


@given(
    page=st.integers(1, 1 << 40),
    base=st.integers(0, 1 << 30),
    skew=st.integers(0, 0xFFF),
    size=st.integers(1, 1 << 20),
    at=st.lists(st.integers(0, 1 << 20), min_size=1, max_size=20),
)
def test_every_mapped_byte_has_the_vaddr_of_its_segment(
    page: int, base: int, skew: int, size: int, at: list[int]
) -> None:
    segment = code(0x5000 + skew, (base << 12) + skew, size)
    mapping = Mapping(page << 12, (page << 12) + skew + size, 0x5000, "/bin/app")
    inside = [each % size for each in at]
    runtime = array("Q", [mapping.start + skew + each for each in inside])
    assert vaddrs([segment], mapping, runtime).tolist() == [segment.vaddr + each for each in inside]


def test_an_address_relative_to_the_image_is_translated() -> None:
    segments = [code(0, 0x200000, 0x6A0, flags=4), code(0x6A0, 0x2016A0, 0x800)]
    mapping = Mapping(path="/bin/app")
    assert list(vaddrs(segments, mapping, array("Q", [0x1800, 0x201800, 0x9999]))) == [0x201800, 0x201800, NOWHERE]
