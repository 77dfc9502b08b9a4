"""Read where each thread of a process is, without stopping it: /proc/PID/task/TID/syscall (proc_pid_syscall(5)).

0 0x5 0x7ffd... 0x2000 0x0 0x0 0x0 0x7ffd1a2b3c40 0x7f0012345678     in system call 0: six arguments, sp, pc
-1 0x7ffd1a2b3c40 0x7f0012345678                                     blocked outside a system call: sp, pc
running                                                              on a processor: unknown
"""

from __future__ import annotations

import os
from typing import NamedTuple

from whence.procmap.process import read_text

ENDED = "ZXx"  # zombie, dead


class Thread(NamedTuple):
    """A thread and its program counter (a runtime address), None if it is running or access was denied."""

    tid: int
    name: str
    state: str  # R running, S sleeping, D in the kernel, T stopped, Z dead ... (proc_pid_stat(5))
    pc: int | None = None
    sp: int | None = None
    syscall: int | None = None
    denied: bool = False
    arguments: tuple[int, ...] = ()  # of the system call

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


def threads(process: str) -> list[Thread]:
    """Return the threads of the process in directory `process`, by tid. Raises OSError if it has ended."""
    results = []
    for tid in sorted(int(name) for name in os.listdir(f"{process}/task") if name.isdigit()):
        thread = find_thread(process, tid)
        if thread is not None:
            results.append(thread)
    return results


def find_thread(process: str, tid: int) -> Thread | None:
    """Return one thread of the process in directory `process`, None if it has ended."""
    task = f"{process}/task/{tid}"
    try:
        text = read_text(f"{task}/stat")
    except OSError:
        return None
    name = text[text.find("(") + 1 : text.rfind(")")]
    state = text[text.rfind(")") + 1 :].split()[:1]
    thread = Thread(tid, name, state[0] if state else "?")
    try:
        return _with_position(thread, read_text(f"{task}/syscall").split())
    except PermissionError:
        return thread._replace(denied=True)
    except (OSError, ValueError):
        return thread


def _with_position(thread: Thread, fields: list[str]) -> Thread:
    """Return the thread with the fields of its syscall file. Raises ValueError for unknown fields."""
    if fields == ["running"]:  # its state may have changed since stat was read
        return thread._replace(state="R")
    if len(fields) < 3:
        return thread
    number, sp, pc = int(fields[0]), int(fields[-2], 16), int(fields[-1], 16)
    if not pc:  # a kernel thread
        return thread
    if number < 0:
        return thread._replace(pc=pc, sp=sp)
    return thread._replace(pc=pc, sp=sp, syscall=number, arguments=tuple(int(field, 16) for field in fields[1:-2]))
