"""From runtime addresses to frames or a reason: live processes, snapshots, and core files.

    symbolizer.py  Symbolizer: many processes at once, in batches
    process.py     Snapshot, and ProcessView, the protocol of processes
    live.py        Process: a live process
    core.py        Core: a core file as a process, with the stacks of its threads
    live_stacks.py  the stacks of a live process's threads
    stacks.py      Stack: a thread's frames with names, and why it ends
    waiting.py     what a thread waits for, by the functions on its stack
    values.py      arguments and local variables of frames, by the debug files that a Locator finds
    stored.py      addresses of processes that have ended
    opening.py     the binary for a mapping, found by a Locator
    non_file_names.py  names that are in no ELF file: perf maps, kallsyms
    symbolized.py  Symbolized: frames or a reason, with mapping, file offset and vaddr
    pool.py        open binaries, least recently used ones are evicted
    internal_error.py  exceptions that are bugs: logged, with a reason of their own
    naming.py      frames of many vaddrs in a binary
    listing.py     instructions and lines of code by runtime address
    goroutines.py  goroutines with names, as in Go's tracebacks
    tasks.py       tasks of asyncio, and what each one awaits

Reasons are those of _base.reasons. A failing address, process or file never fails a batch: its answer has a reason.
"""

from typing import TYPE_CHECKING

from whence._base.lazy import attach

__all__ = [
    "Core", "NamedFrame", "Process", "ProcessView", "Reason", "Snapshot", "Stack", "Symbolized", "Symbolizer",
]  # fmt: skip


if TYPE_CHECKING:
    from whence._base.reasons import Reason
    from whence.symbolize.core import Core
    from whence.symbolize.live import Process
    from whence.symbolize.process import ProcessView, Snapshot
    from whence.symbolize.stacks import NamedFrame, Stack
    from whence.symbolize.symbolized import Symbolized
    from whence.symbolize.symbolizer import Symbolizer

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {  # profiles need few of these modules
            "Core": "whence.symbolize.core",
            "NamedFrame": "whence.symbolize.stacks",
            "Process": "whence.symbolize.live",
            "ProcessView": "whence.symbolize.process",
            "Reason": "whence._base.reasons",
            "Snapshot": "whence.symbolize.process",
            "Stack": "whence.symbolize.stacks",
            "Symbolized": "whence.symbolize.symbolized",
            "Symbolizer": "whence.symbolize.symbolizer",
        },
    )
