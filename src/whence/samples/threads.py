"""Which thread of which process a sample is of, as its labels say."""

from __future__ import annotations

from typing import NamedTuple

from whence.samples.model import Label, Samples

PID_LABELS = ("pid", "process.pid", "process_id", "tgid")
"""How samples say which process they are of: perf's and py-spy's readers, OpenTelemetry, others."""
TID_LABELS = ("tid", "thread.id", "thread_id", "thread id")
NAME_LABELS = ("comm", "thread.name", "thread_name", "thread name")
PROCESS_LABELS = ("process", "process.executable.name", "process_name")


class ProfileThread(NamedTuple):
    """A thread; 0 and "" are unknown."""

    pid: int = 0
    tid: int = 0
    name: str = ""
    process: str = ""


def number_in(label: Label) -> int:
    """The number of a process or a thread, which may be a text."""
    return label.number or (int(label.text) if label.text.isdecimal() and len(label.text) < 11 else 0)


def thread_of(labels: tuple[Label, ...]) -> ProfileThread:
    """The thread of a sample with these labels.

    >>> thread_of((Label("comm", "nginx"), Label("pid", number=7), Label("tid", "9")))
    ProfileThread(pid=7, tid=9, name='nginx', process='')
    """
    found = {one.key: one for one in reversed(labels)}

    def first(keys: tuple[str, ...]) -> Label:
        return next((found[key] for key in keys if key in found), Label(""))

    pid, tid = number_in(first(PID_LABELS)), number_in(first(TID_LABELS))
    return ProfileThread(pid, tid or pid, first(NAME_LABELS).text, first(PROCESS_LABELS).text)


def threads_of(samples: Samples) -> tuple[list[ProfileThread], list[int]]:
    """The threads of a profile's samples as they are met, and which one each sample is of.

    A thread that changed its name has the one it had first.
    """
    known: dict[tuple[Label, ...], int] = {}
    places: dict[tuple[object, ...], int] = {}
    threads: list[ProfileThread] = []
    of = []
    for labels in samples.labels:
        at = known.get(labels)
        if at is None:
            found = thread_of(labels)
            key = (found.pid, found.tid) if found.tid else found
            at = known[labels] = places.setdefault(key, len(threads))
            if at == len(threads):
                threads.append(found)
        of.append(at)
    return threads or [ProfileThread()], of


def shown(thread: ProfileThread) -> str:
    """A thread as people call it: its name and its number."""
    number = thread.tid or thread.pid
    return f"{thread.name} {number}" if thread.name and number else thread.name or (f"{number}" if number else "")
