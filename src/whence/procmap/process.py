"""Who a pid is: enough of /proc/PID to distinguish a process from its successors, and to find files it wrote.

A pid is used again, and exec replaces the memory while pid and start time stay. The identity is the start time with the
places where exec put the program, its stack and its heap (fields 22, 26-28, 47 of /proc/PID/stat; zero when we may not
see them).
"""

from __future__ import annotations

import os
from typing import NamedTuple

_START_TIME = 22
_PLACES = (26, 27, 28, 47)  # startcode, endcode, startstack, start_brk


class Identity(NamedTuple):
    """One program running in one process. Equal identities are the same memory."""

    start_time: int  # clock ticks after boot
    places: tuple[int, ...]


def read_text(path: str) -> str:
    """A small file of /proc as text. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 14).decode("utf-8", "surrogateescape")
    finally:
        os.close(descriptor)


def identify(process: str) -> Identity:
    """Who the process in directory `process` ("/proc/123") is. Raises OSError when it is gone.

    A tree without a stat file (a fake one) has one identity for ever.
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

    return Identity(number(_START_TIME), tuple(number(field) for field in _PLACES))


def shown(root: str, pid: int) -> int:
    """The thread whose directory shows a process's memory: the first one may have ended, while others live on."""
    for tid in [pid, *tids_of(f"{root}/{pid}")]:
        try:
            with open(f"{root}/{tid}/maps", "rb", buffering=0) as file:
                if file.read(1):
                    return tid
        except OSError:
            continue
    return pid


def tids_of(process: str) -> list[int]:
    """The threads of the process in directory `process`, in order; none when it is gone."""
    try:
        return sorted(int(name) for name in os.listdir(f"{process}/task") if name.isdigit())
    except OSError:
        return []


def command(process: str) -> str:
    """The name of the program (comm), "" when unknown."""
    try:
        return read_text(f"{process}/comm").removesuffix("\n")
    except OSError:
        return ""


def status_numbers(process: str, name: str) -> list[int]:
    """The numbers of a line of /proc/PID/status, for instance NSpid or Uid; [] when unknown."""
    try:
        for line in read_text(f"{process}/status").splitlines():
            if line.startswith(name + ":"):
                return [int(word) for word in line.split()[1:] if word.isdigit()]
    except OSError:
        pass
    return []
