"""The heap that threads of a command share, and pages that are used again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from whence.kernels.memory import Region

PAGE = 1 << 16  # of any machine, or a multiple of it
THREADS = 6
RESERVED = 64  # MB of addresses that glibc reserves for each heap of a thread
PROGRAM = f"""
import re, threading
from whence.kernels.memory import share_heap
from whence.kernels.columns import Column

def reserved():
    return int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024

SHARED
before = reserved()
threading.stack_size(1 << 20)
here, done = threading.Barrier({THREADS} + 1), threading.Barrier({THREADS} + 1)

def work():
    column = Column("Q")
    column.extend(bytes(1 << 16))
    here.wait()
    done.wait()

for thread in [threading.Thread(target=work) for _ in range({THREADS})]:
    thread.start()
here.wait()
print(reserved() - before)
done.wait()
"""


def reserved_by_threads(shared: str) -> int:
    """MB of addresses that threads which allocate something reserve."""
    program = PROGRAM.replace("SHARED", shared)
    return int(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are not told about heaps")
def test_threads_share_one_heap_once_a_command_has_asked_for_it() -> None:
    assert reserved_by_threads("") >= 2 * RESERVED
    assert reserved_by_threads("assert share_heap()") < RESERVED


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
