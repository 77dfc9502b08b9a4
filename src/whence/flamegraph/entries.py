"""The values of a tree by thread and time, with which the page groups its stacks and selects a range of time.

An entry is a node where stacks end, a thread, and one of the equal steps that the time of the profile is divided into.
Their number is limited: there are fewer steps, or no times, no threads and no processes, until it is at most ENTRIES
divided by the number of sample types.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from whence._base.records import Record, field
from whence.flamegraph.kernels import tree as tree_kernel
from whence.flamegraph.tree import CELLS, Tree, checked, drawn_types
from whence.kernels.rows import ascending, taken
from whence.samples.model import ProfileData
from whence.samples.threads import NO_PROCESS, NO_THREAD, ProfileThread, named_threads, shown
from whence.samples.wire import zeros

ENTRIES = CELLS
STEPS = (2048, 256, 32, 1)  # of the time of a profile
THREADS = 5_000
Way: TypeAlias = tuple[int, list[tuple[str, str]], "array[int]"]
"""The number of steps, the names of processes and threads, and the index of each sample's thread."""


class Entries(Record):
    """The entries in order of node, thread and step: entry i ends in node[i] and has values[t][i] of type t.

    Its thread is thread[i], an index into `threads`; of a profile without threads there is a single one. Its step is
    step[i]; step s begins s * step_ns after the first sample. Without times, steps is 1 and step_ns 0.
    """

    node: array[int] = field(default_factory=lambda: array("q"))
    thread: array[int] = field(default_factory=lambda: array("q"))
    step: array[int] = field(default_factory=lambda: array("q"))
    values: list[array[int]] = field(default_factory=list)
    threads: list[tuple[str, str]] = field(default_factory=list)  # names of process and thread
    steps: int = 1
    step_ns: int = 0


def entries(profile: ProfileData, tree: Tree) -> Entries:
    """Return the entries of a profile's tree."""
    samples = profile.samples
    kinds = [kind for kind in drawn_types(profile) if kind < len(samples.values)]
    if not len(tree.end) or not kinds:
        return Entries(values=[array("q") for _ in tree.types], threads=[(NO_PROCESS, NO_THREAD)])
    threads, thread_of = named_threads(samples)
    line = samples.timeline
    rows: Sequence[int] = range(len(samples))
    columns = samples.values
    if line is not None and len(line):
        rows, columns = line.sample, line.values
    node_of = taken(tree.end, "I", samples.of).numbers()
    limit = max(ENTRIES // len(kinds), len(tree.frame))
    for steps, names, thread in ways(threads, thread_of, has_times=line is not None and columns is line.values):
        size = len(names) * steps
        base = [node * size + steps * number for node, number in zip(node_of, thread, strict=True)]
        step, step_ns = steps_of(line.time, steps) if line is not None and steps > 1 else (None, 0)
        keys = array("Q", map(base.__getitem__, rows))
        if step is not None:
            keys = array("Q", map(int.__add__, keys, step))
        distinct, entry_of = (column.numbers() for column in ascending(keys))
        if len(distinct) <= limit:
            break
    number_of, same = array("I", entry_of), array("I", range(len(distinct)))
    sums = [zeros("q", len(distinct)) for _ in kinds]
    for kind, column in zip(kinds, sums, strict=True):
        checked(tree_kernel.sums(number_of, columns[kind], same, column))
    used = [index for index, values in enumerate(zip(*sums, strict=True)) if any(values)]
    shown_keys = [distinct[index] for index in used]
    return Entries(
        array("q", [key // size for key in shown_keys]),
        array("q", [key % size // steps for key in shown_keys]),
        array("q", [key % steps for key in shown_keys]),
        [array("q", map(column.__getitem__, used)) for column in sums],
        names,
        steps,
        step_ns,
    )


def ways(threads: list[ProfileThread], thread_of: array[int], *, has_times: bool) -> Iterator[Way]:
    """Yield the ways to divide the samples, the finest first."""
    names = [(thread.process or NO_PROCESS, shown(thread) or NO_THREAD) for thread in threads]
    processes = {name: number for number, name in enumerate(dict.fromkeys(process for process, _ in names))}
    of_process = array("I", [processes[names[thread][0]] for thread in thread_of])
    by_process = [(process, NO_THREAD) for process in processes]
    if len(names) <= THREADS:
        for steps in STEPS if has_times else (1,):
            yield steps, names, thread_of
    if len(processes) <= THREADS:
        yield 1, by_process, of_process
    yield 1, [(NO_PROCESS, NO_THREAD)], array("I", bytes(4 * len(thread_of)))


def steps_of(times: array[int], steps: int) -> tuple[list[int], int]:
    """Return the step of each time, and the length of a step in nanoseconds."""
    first, last = min(times), max(times)
    length = max(1, (last - first) // steps + 1)
    return [(time - first) // length for time in times], length
