"""The thread and process of a sample, from its labels."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from whence.samples.model import Label, Samples

PID_LABELS = ("pid", "process.pid", "process_id", "tgid")
"""Keys of the process number: of perf, py-spy, OpenTelemetry and others."""
TID_LABELS = ("tid", "thread.id", "thread_id", "thread id")
NAME_LABELS = ("comm", "thread.name", "thread_name", "thread name")
PROCESS_LABELS = ("process", "process.executable.name", "process_name")
NO_PROCESS = "no process"  # shown for samples without one
NO_THREAD = "no thread"


class ProfileThread(NamedTuple):
    """A thread; 0 and "" are unknown."""

    pid: int = 0
    tid: int = 0
    name: str = ""
    process: str = ""


def number_in(label: Label) -> int:
    """Return the number of a process or thread, which may be given as text."""
    return label.number or (int(label.text) if label.text.isdecimal() and len(label.text) < 11 else 0)


def thread_of(labels: tuple[Label, ...]) -> ProfileThread:
    """Return the thread of a sample with these labels.

    >>> thread_of((Label("comm", "nginx"), Label("pid", number=7), Label("tid", "9")))
    ProfileThread(pid=7, tid=9, name='nginx', process='')
    """
    by_key = {label.key: label for label in reversed(labels)}

    def first(keys: tuple[str, ...]) -> Label:
        return next((by_key[key] for key in keys if key in by_key), Label(""))

    pid, tid = number_in(first(PID_LABELS)), number_in(first(TID_LABELS))
    return ProfileThread(pid, tid or pid, first(NAME_LABELS).text, first(PROCESS_LABELS).text)


def threads_of(samples: Samples) -> tuple[list[ProfileThread], list[int]]:
    """Return the threads of a profile's samples, in order of appearance, and the index of each sample's thread.

    A thread that changed its name has its first name.
    """
    by_labels: dict[tuple[Label, ...], int] = {}
    by_key: dict[tuple[object, ...], int] = {}
    threads: list[ProfileThread] = []
    indices = []
    for labels in samples.labels:
        index = by_labels.get(labels)
        if index is None:
            thread = thread_of(labels)
            key = (thread.pid, thread.tid) if thread.tid else thread
            index = by_labels[labels] = by_key.setdefault(key, len(threads))
            if index == len(threads):
                threads.append(thread)
        indices.append(index)
    return threads or [ProfileThread()], indices


def named_threads(samples: Samples) -> tuple[list[ProfileThread], array[int]]:
    """Return the threads of a profile's samples with the names of their processes, and the index of each one's thread.

    A thread has an item for each name that it had: a process is renamed when it starts a program. The name of a process
    is that of its main thread, else of the thread.
    """
    if len(samples.labels) != len(samples):  # made by hand
        return [ProfileThread()], array("I", bytes(4 * len(samples)))
    numbers: dict[tuple[Label, ...], int] = {}
    of = array("I", [numbers.setdefault(labels, len(numbers)) for labels in samples.labels])
    threads = [thread_of(labels) for labels in numbers]
    main = {thread.pid: thread.name for thread in threads if thread.pid == thread.tid}
    distinct: dict[ProfileThread, int] = {}
    indices = []
    for thread in threads:
        process = thread.process or (thread.name if thread.pid == thread.tid else main.get(thread.pid, thread.name))
        indices.append(distinct.setdefault(thread._replace(process=process or numbered(thread.pid)), len(distinct)))
    return list(distinct), array("I", map(indices.__getitem__, of))


def numbered(pid: int) -> str:
    """Return the text for a process without a name."""
    return f"process {pid}" if pid else ""


def shown(thread: ProfileThread) -> str:
    """Return the name and the number of a thread, for display."""
    number = thread.tid or thread.pid
    return f"{thread.name} {number}" if thread.name and number else thread.name or (f"{number}" if number else "")
