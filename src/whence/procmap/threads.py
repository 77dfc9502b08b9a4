"""Where each thread of a process is, without stopping it: /proc/PID/task/TID/syscall (proc_pid_syscall(5)).

0 0x5 0x7ffd... 0x2000 0x0 0x0 0x0 0x7ffd1a2b3c40 0x7f0012345678     in system call 0: six arguments, sp, pc
-1 0x7ffd1a2b3c40 0x7f0012345678                                     blocked, in no system call: sp, pc
running                                                              on a processor: nothing to say
"""

from __future__ import annotations

import os
from typing import NamedTuple

from whence.procmap.process import read_text

ENDED = "ZXx"  # states of threads that are no more: zombie, dead


class Thread(NamedTuple):
    """A thread and its program counter (a runtime address), None when it was running or may not be seen."""

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
    """Every thread of the process in directory `process`, by tid. Raises OSError when the process is gone."""
    found = []
    for tid in sorted(int(name) for name in os.listdir(f"{process}/task") if name.isdigit()):
        thread = find_thread(process, tid)
        if thread is not None:
            found.append(thread)
    return found


def find_thread(process: str, tid: int) -> Thread | None:
    """One thread of the process in directory `process`; None if it has ended."""
    task = f"{process}/task/{tid}"
    try:
        text = read_text(f"{task}/stat")
    except OSError:
        return None
    name = text[text.find("(") + 1 : text.rfind(")")]
    state = text[text.rfind(")") + 1 :].split()[:1]
    thread = Thread(tid, name, state[0] if state else "?")
    try:
        return _placed(thread, read_text(f"{task}/syscall").split())
    except PermissionError:
        return thread._replace(denied=True)
    except (OSError, ValueError):
        return thread


def _placed(thread: Thread, words: list[str]) -> Thread:
    """The thread with what the words of its syscall file say. Raises ValueError when they say something unknown."""
    if words == ["running"]:  # by now, whatever its state was a moment ago
        return thread._replace(state="R")
    if len(words) < 3:
        return thread
    number, sp, pc = int(words[0]), int(words[-2], 16), int(words[-1], 16)
    if not pc:  # a kernel thread
        return thread
    if number < 0:
        return thread._replace(pc=pc, sp=sp)
    return thread._replace(pc=pc, sp=sp, syscall=number, arguments=tuple(int(word, 16) for word in words[1:-2]))
