"""The heap that threads of a command share."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

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
