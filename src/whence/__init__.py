"""whence: from address to source.

    with whence.open("/usr/bin/python3.11") as binary:
        for frame in binary.lookup(0x4f2a10):
            print(frame.function, frame.file, frame.line)

    open, Binary                  an ELF file with its debug files, or an archive, that names addresses
    Store                         the best files of every build-id, in a folder or a bucket
    Locator                       the file for a build-id or a path: given files, folders, caches, servers
    Symbolizer, Symbolized        runtime addresses of processes to frames, or the reason why an address has no frames
    Process, Snapshot, Core       a live process, saved mappings of a process, a core file
    Stack                         a thread's frames, and why there are no more
    Frame, Frames, Source         a function with file and line, and the table that named it
    Reason                        why an address has no frames
    WhenceError                   the base class of all errors

    lidia       archives                        profiles    pprof, OTLP, perf and folded stacks
    procmap     mappings of processes           gotrace     Go execution traces

Names are linkage names (`_ZN3foo3barEv`) unless `demangle=True` is given. Public names are imported on first use, so
that importing whence is cheap.
"""

from __future__ import annotations

from whence._base.errors import WhenceError
from whence._base.lazy import attach
from whence._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence import gotrace, lidia, procmap, profiles
    from whence._base.model import Frame, Frames, Source
    from whence._base.reasons import Reason
    from whence.binary import Binary
    from whence.locator.locator import Locator
    from whence.locator.opening import open_binary as open
    from whence.store import Store
    from whence.symbolize import Core, Process, Snapshot, Stack, Symbolized, Symbolizer

__all__ = [
    "Binary", "Core", "Frame", "Frames", "Locator", "Process", "Reason", "Snapshot", "Source", "Stack", "Store",
    "Symbolized", "Symbolizer", "WhenceError", "__version__", "gotrace", "lidia", "open", "procmap", "profiles",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "open": "whence.locator.opening:open_binary",
            "Binary": "whence.binary",
            "Core": "whence.symbolize",
            "Frame": "whence._base.model",
            "Frames": "whence._base.model",
            "Locator": "whence.locator.locator",
            "Process": "whence.symbolize",
            "Reason": "whence._base.reasons",
            "Snapshot": "whence.symbolize",
            "Source": "whence._base.model",
            "Stack": "whence.symbolize",
            "Store": "whence.store.store",
            "Symbolized": "whence.symbolize",
            "Symbolizer": "whence.symbolize",
            "gotrace": "whence.gotrace:",
            "lidia": "whence.lidia:",
            "procmap": "whence.procmap:",
            "profiles": "whence.profiles:",
        },
    )
