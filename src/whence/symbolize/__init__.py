"""From runtime addresses of processes, or of snapshots of them, to frames or a reason.

    symbolizer.py  Symbolizer: live processes, many at once, in batches
    snapshot.py    the same from a snapshot file, where the process is gone
    elsewhere.py   names that are in no ELF file: perf maps, kallsyms
    answer.py      Answer: frames or a reason, with mapping, file offset and vaddr
    binaries.py    binaries held open, least recently used goes
    internal_error.py  exceptions that are bugs: logged, and a reason of their own
    naming.py      frames of many vaddrs in one binary

Reasons are those of whence.reasons. One address, process or file that fails never fails a batch: its answer says why.
"""

from whence.reasons import Reason
from whence.symbolize.answer import Answer
from whence.symbolize.binaries import opener_with
from whence.symbolize.snapshot import SnapshotSymbolizer, from_snapshot
from whence.symbolize.symbolizer import Symbolizer

__all__ = ["Answer", "Reason", "SnapshotSymbolizer", "Symbolizer", "from_snapshot", "opener_with"]
