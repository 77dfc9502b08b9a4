"""From runtime addresses of processes to frames or a reason: live ones, snapshots of them, and core files.

    symbolizer.py  Symbolizer: many processes at once, in batches
    process.py     Process, Snapshot: whose addresses are named, behind one protocol
    core.py        Core: a core file as such a process, with the stacks of its threads
    gone.py        the way of an address where the process is gone
    opening.py     the binary behind a mapping, with a Locator's help
    elsewhere.py   names that are in no ELF file: perf maps, kallsyms
    symbolized.py  Symbolized: frames or a reason, with mapping, file offset and vaddr
    pool.py        binaries held open, least recently used goes
    internal_error.py  exceptions that are bugs: logged, and a reason of their own
    naming.py      frames of many vaddrs in one binary

Reasons are those of whence.reasons. One address, process or file that fails never fails a batch: its answer says why.
"""

from whence.reasons import Reason
from whence.symbolize.core import Core, NamedFrame, Stack
from whence.symbolize.process import Process, ProcessView, Snapshot
from whence.symbolize.symbolized import Symbolized
from whence.symbolize.symbolizer import Symbolizer

__all__ = [
    "Core", "NamedFrame", "Process", "ProcessView", "Reason", "Snapshot", "Stack", "Symbolized", "Symbolizer",
]  # fmt: skip
