"""Identify a process: distinguish it from later processes with its pid, and find files it wrote.

A pid is reused, and exec replaces the memory while pid and start time stay. The identity is the start time and the
addresses where exec put the program, its stack and its heap (fields 22, 26-28, 47 of /proc/PID/stat; zero without the
permission to see them).
"""

from __future__ import annotations

import os
from typing import NamedTuple

_START_TIME = 22
_ADDRESSES = (26, 27, 28, 47)  # startcode, endcode, startstack, start_brk


class Identity(NamedTuple):
    """A program running in a process. Equal identities have the same memory."""

    start_time: int  # clock ticks after boot
    addresses: tuple[int, ...]


def read_text(path: str) -> str:
    """Return a small file of /proc as text. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 14).decode("utf-8", "surrogateescape")
    finally:
        os.close(descriptor)


def identify(process: str) -> Identity:
    """Return the identity of the process in directory `process` ("/proc/123"). Raises OSError if it has ended.

    A tree without a stat file (in tests) has a constant identity.
    """
    try:
        text = read_text(f"{process}/stat")
    except FileNotFoundError:
        os.stat(process)
        return Identity(0, ())
    fields = text[text.rfind(")") + 1 :].split()  # the name in parentheses is field 2; these start with field 3

    def number(field: int) -> int:
        index = field - 3
        return int(fields[index]) if index < len(fields) and fields[index].isdigit() else 0

    return Identity(number(_START_TIME), tuple(number(field) for field in _ADDRESSES))


def visible_tid(root: str, pid: int) -> int:
    """Return the thread whose directory shows a process's memory: the first thread may have ended before others."""
    for tid in [pid, *tids_of(f"{root}/{pid}")]:
        try:
            with open(f"{root}/{tid}/maps", "rb", buffering=0) as file:
                if file.read(1):
                    return tid
        except OSError:
            continue
    return pid


def tids_of(process: str) -> list[int]:
    """Return the threads of the process in directory `process`, in order; [] if it has ended."""
    try:
        return sorted(int(name) for name in os.listdir(f"{process}/task") if name.isdigit())
    except OSError:
        return []


def command(process: str) -> str:
    """Return the name of the program (comm), "" if unknown."""
    try:
        return read_text(f"{process}/comm").removesuffix("\n")
    except OSError:
        return ""


def status_numbers(process: str, name: str) -> list[int]:
    """Return the numbers of a line of /proc/PID/status, for instance NSpid or Uid; [] if unknown."""
    try:
        for line in read_text(f"{process}/status").splitlines():
            if line.startswith(name + ":"):
                return [int(field) for field in line.split()[1:] if field.isdigit()]
    except OSError:
        pass
    return []


def descendants(root: str, pid: int) -> list[int]:
    """Return the child processes of a process and theirs, in order of pid. `root` is the folder of processes."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(root):
        if name.isdigit():
            try:
                text = read_text(f"{root}/{name}/stat")
                parent = int(text[text.rfind(")") + 1 :].split()[1])  # field 4, after the state
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(name))
    tids: list[int] = []
    pending = [pid]
    while pending:
        new = children.pop(pending.pop(), [])
        tids += new
        pending += new
    return sorted(tids)
