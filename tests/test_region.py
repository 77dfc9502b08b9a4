"""Pages that are used again."""

from __future__ import annotations

import ctypes
import os
import sys

import pytest

from whence.kernels.region import Region

PAGE = 1 << 16  # of any machine, or a multiple of it


@pytest.mark.parametrize("size", [1, PAGE - 1, 5 * PAGE, (9 << 20) + 1])
def test_a_region_has_its_size_and_zeros(size: int) -> None:
    region = Region(size)
    assert len(region) == region.size == size
    assert bytes(region) == bytes(size)


def test_pages_of_a_region_that_are_moved_are_empty_where_they_were() -> None:
    region = Region(6 * PAGE)
    with memoryview(region) as view:
        view[: 2 * PAGE] = b"a" * PAGE + b"b" * PAGE
        view[5 * PAGE :] = b"c" * PAGE
        if region.move(0, 3 * PAGE, 2 * PAGE):
            assert bytes(view) == bytes(3 * PAGE) + b"a" * PAGE + b"b" * PAGE + b"c" * PAGE
        view[: 3 * PAGE] = view[3 * PAGE :] = b"d" * 3 * PAGE  # both can be written to
        region.empty(PAGE, 2 * PAGE)
        assert bytes(view) == b"d" * PAGE + bytes(PAGE) + b"d" * 4 * PAGE


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere locked pages are given back")
def test_pages_that_are_locked_are_emptied_where_they_are() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    region = Region(3 * PAGE)
    with memoryview(region) as view:
        view[:] = b"a" * 3 * PAGE
        start = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(view)))
        if libc.mlock(start, ctypes.c_size_t(3 * PAGE)):
            pytest.skip(f"this process may not lock memory: {os.strerror(ctypes.get_errno())}")
        region.empty(PAGE, 2 * PAGE)
        assert bytes(view) == b"a" * PAGE + bytes(PAGE) + b"a" * PAGE


def test_bytes_are_put_where_they_belong_and_nowhere_else() -> None:
    region = Region(PAGE)
    region.put(1, b"abc")
    region.put(PAGE, b"")
    assert bytes(region) == b"\0abc" + bytes(PAGE - 4)
    for start in (-1, PAGE - 2, PAGE + 1):
        with pytest.raises(ValueError, match="belong together"):
            region.put(start, b"abc")


def test_bytes_of_a_region_stay_as_long_as_a_view_of_them() -> None:
    view = memoryview(Region(3 << 20))
    view[-1] = 7
    assert view[-1] == 7
    assert view[0] == 0


def test_a_region_refuses_what_is_not_whole_pages_of_its_own() -> None:
    with pytest.raises(ValueError, match="belong"):
        Region(0)
    with pytest.raises(ValueError, match="belong"):
        Region(sys.maxsize)
    with pytest.raises(MemoryError):
        Region(sys.maxsize // 2)
    region = Region(4 * PAGE)
    for start, end in ((-PAGE, PAGE), (PAGE, 0), (0, 5 * PAGE), (1, PAGE), (0, 1)):
        with pytest.raises(ValueError, match="belong"):
            region.empty(start, end)
    sources = ((-PAGE, 0, PAGE), (0, 4 * PAGE, PAGE), (4 * PAGE, 0, PAGE), (0, PAGE, 0), (0, PAGE, -PAGE))
    for move in (
        *sources,
        (1, PAGE, PAGE),
        (0, 1, PAGE),
        (0, PAGE, 1),
        (0, PAGE, 2 * PAGE),
        (2 * PAGE, PAGE, 2 * PAGE),
    ):
        with pytest.raises(ValueError, match="belong"):
            region.move(*move)
