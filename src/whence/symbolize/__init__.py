"""From runtime addresses of processes to frames or a reason: live ones, snapshots of them, and core files.

    symbolizer.py  Symbolizer: many processes at once, in batches
    process.py     Snapshot, ProcessView: whose addresses are named, behind one protocol
    live.py        Process: a live one
    core.py        Core: a core file as such a process, with the stacks of its threads
    live_stacks.py the stacks of a live process's threads
    stacks.py      Stack: a thread's frames with names, and why there are no more
    gone.py        the way of an address where the process is gone
    opening.py     the binary behind a mapping, with a Locator's help
    elsewhere.py   names that are in no ELF file: perf maps, kallsyms
    symbolized.py  Symbolized: frames or a reason, with mapping, file offset and vaddr
    pool.py        binaries held open, least recently used goes
    internal_error.py  exceptions that are bugs: logged, and a reason of their own
    naming.py      frames of many vaddrs in one binary
    goroutines.py    goroutines with names, as Go's traceback shows them
    live_stacks.py   stacks of a live process, with names

Reasons are those of _base.reasons. One address, process or file that fails never fails a batch: its answer says why.
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
