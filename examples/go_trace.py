"""What a Go execution trace says about goroutines: python examples/go_trace.py TRACE

Prints how long goroutines were in each state, and the longest blocks. Times are in ticks of the trace's clock, as
`whence trace info` says what a tick is.
"""

import sys
from collections import Counter
from typing import NamedTuple

from whence import gotrace
from whence.gotrace.specs import spec_table

# The state that an event puts a goroutine into; what is in no row changes nothing.
RUNNABLE, RUNNING, WAITING, SYSCALL, DEAD = "runnable", "running", "waiting", "in a system call", "dead"
CURRENT = {
    "GoStop": RUNNABLE,
    "GoBlock": WAITING,
    "GoSyscallBegin": SYSCALL,
    "GoSyscallEnd": RUNNING,
    "GoDestroy": DEAD,
}
OTHER = {"GoCreate": RUNNABLE, "GoStart": RUNNING, "GoUnblock": RUNNABLE, "GoCreateBlocked": WAITING}


class Block(NamedTuple):
    """How long a goroutine waited, and when that ended."""

    ticks: int
    goroutine: int
    time: int


def states(path: str) -> tuple[Counter[str], list[Block]]:
    """The ticks that goroutines spent in each state, and every block that ended."""
    rows: list[tuple[int, int, str, int]] = []
    with gotrace.ColumnReader(path) as reader:
        for block in reader:
            names = {spec.type: spec.name for spec in spec_table(block.version)}
            kinds = [names[one] for one in block.type]
            columns = zip(block.time, block.thread, kinds, block.argument("g", "new_g"), strict=True)
            rows += [row for row in columns if row[2] in CURRENT or row[2] in OTHER]
    rows.sort(key=lambda row: row[0])
    spent: Counter[str] = Counter()
    blocks: list[Block] = []
    running: dict[int, int] = {}  # thread -> the goroutine on it
    since: dict[int, tuple[str, int]] = {}  # goroutine -> its state, and since when
    for time, thread, event, other in rows:
        goroutine_now = running.get(thread, 0) if event in CURRENT else other
        if not goroutine_now:
            continue
        state, start = since.get(goroutine_now, ("", time))
        if state:
            spent[state] += time - start
        if state == WAITING and event == "GoUnblock":
            blocks.append(Block(time - start, goroutine_now, time))
        since[goroutine_now] = (CURRENT | OTHER)[event], time
        if event == "GoStart":
            running[thread] = goroutine_now
        elif event in ("GoStop", "GoBlock", "GoDestroy"):
            running.pop(thread, None)
    return spent, sorted(blocks, reverse=True)


if __name__ == "__main__":
    total, longest = states(sys.argv[1])
    for state, ticks in total.most_common():
        print(f"{ticks:>14,}  {state}")
    for one in longest[:10]:
        print(f"goroutine {one.goroutine} waited {one.ticks:,} ticks until {one.time:,}")
