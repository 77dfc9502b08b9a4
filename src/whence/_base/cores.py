"""Work on several threads, and the number of cores that this process may use.

A container is often given two cores of a machine with sixty-four; os.cpu_count() counts the sixty-four. Limits of
Linux's control groups, which the process's group and every group above it can set:

    v2   cpu.max               "QUOTA PERIOD", microseconds of CPU time in each period; "max": no limit
    v1   cpu.cfs_quota_us, cpu.cfs_period_us   the same in two files; -1: no limit

/proc/self/cgroup has the group of the process, /proc/self/mountinfo the mount points of groups. Documents: cgroups(7),
Linux's Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import os
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeVar

    Tool = TypeVar("Tool")
    Piece = TypeVar("Piece")

V1_CONTROLLER = "cpu"
STOP_SECONDS = 0.3


def available() -> int:
    """Return the number of cores that this process may use, at least 1. Takes about 0.1 ms."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, quota() or cores))


def quota(root: str = "/") -> int:
    """Return the CPU time that control groups allow, in whole cores, rounded up; 0 if they set no limit.

    `root` is the folder of /proc and the mounted groups.
    """
    limits = [limit for folder in _groups(root) if (limit := _limit(folder))]
    return min(limits, default=0)


def _groups(root: str) -> Iterator[str]:
    """Yield the folders of the process's control groups that may limit CPU time, each followed by its parents."""
    paths: dict[str, str] = {}  # of the group in its hierarchy: "" is version 2, V1_CONTROLLER version 1
    for line in _read(os.path.join(root, "proc/self/cgroup")).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            paths[""] = path
        elif V1_CONTROLLER in controllers.split(","):
            paths[V1_CONTROLLER] = path
    for line in _read(os.path.join(root, "proc/self/mountinfo")).splitlines():
        fields, _, rest = line.partition(" - ")
        values, kind = fields.split(), rest.split()
        if len(values) < 5 or len(kind) < 3:
            continue
        version_2 = kind[0] == "cgroup2"
        if not version_2 and (kind[0] != "cgroup" or V1_CONTROLLER not in kind[2].split(",")):
            continue
        hierarchy = "" if version_2 else V1_CONTROLLER
        if hierarchy not in paths:
            continue
        shown, top = values[3], os.path.join(root, values[4].lstrip("/"))  # which group is mounted, and where
        inside = os.path.relpath(paths[hierarchy], shown)
        folder = top if inside.startswith("..") else os.path.normpath(os.path.join(top, inside))
        while True:
            yield folder
            if folder == top or len(folder) <= len(top):
                break
            folder = os.path.dirname(folder)


def _limit(folder: str) -> int:
    """Return the whole cores that one group allows; 0 if it sets no limit."""
    values = _read(os.path.join(folder, "cpu.max")).split()
    if not values:
        values = [_read(os.path.join(folder, f"cpu.cfs_{name}_us")).strip() for name in ("quota", "period")]
    if len(values) != 2 or not all(word.isdecimal() for word in values):  # "max", "-1"
        return 0
    time, period = int(values[0]), int(values[1])
    return -(-time // period) if period else 0


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def share(tools: Sequence[Tool], pieces: Iterable[Piece], work: Callable[[Tool, Piece], None]) -> None:
    """Call work(tool, piece) for every piece, on a thread per tool, or on as many as the system allows.

    The first tool's thread is the calling one. The first error stops all threads and is raised. If it is the exception
    of a signal, the other threads have STOP_SECONDS to end; a thread in a kernel's call ends after it, so a caller that
    catches the exception must not use the data.
    """
    waiting = iter(pieces)
    lock = threading.Lock()
    errors: list[BaseException] = []
    nothing = object()

    def run(tool: Tool) -> None:
        try:
            while not errors:
                with lock:
                    piece = next(waiting, nothing)
                if piece is nothing:
                    return
                work(tool, piece)  # type: ignore[arg-type]
        except BaseException as error:
            errors.append(error)

    others: list[threading.Thread] = []
    try:
        for tool in tools[1:]:
            thread = threading.Thread(target=run, args=(tool,), daemon=True)
            thread.start()
            others.append(thread)
    except RuntimeError:  # the system refuses more threads: the started threads do all the work
        pass
    try:
        run(tools[0])
        for thread in others if all(isinstance(error, Exception) for error in errors) else ():
            thread.join()
    except BaseException as error:  # of a signal, while this thread waited
        errors.append(error)
    signals = [error for error in errors if not isinstance(error, Exception)]
    if signals:
        deadline = time.monotonic() + STOP_SECONDS
        for thread in others:
            thread.join(max(0.0, deadline - time.monotonic()))
    if errors:
        raise (signals or errors)[0]
