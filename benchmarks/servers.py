"""Servers that run as child processes: free ports, processor time, memory."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def descendants(pid: int) -> Iterator[Path]:
    """Yield the folders in /proc of a process and its descendants that run."""
    waiting = [pid]
    while waiting:
        folder = Path(f"/proc/{waiting.pop()}")
        with contextlib.suppress(OSError):
            for task in (folder / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
            yield folder


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process and its descendants, ended ones included."""
    total = 0
    for folder in descendants(pid):
        with contextlib.suppress(OSError):
            total += sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[11:15]))
    return total / TICKS


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process and its descendants."""
    pages = 0
    for folder in descendants(pid):
        with contextlib.suppress(OSError):
            pages += int((folder / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
