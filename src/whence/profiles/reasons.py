"""Why a location of a profile has no name: a reason (symbolize's), what exactly was seen, and what to do."""

from __future__ import annotations

import re
from typing import NamedTuple

from whence.profiles.model import Mapping
from whence.symbolize.reason import Reason


class Missing(NamedTuple):
    """No name. `advice` is the reason's own remedy unless something better is known."""

    reason: Reason
    detail: str = ""
    advice: str = ""

    @property
    def remedy(self) -> str:
        return self.advice or self.reason.remedy

    def __str__(self) -> str:
        return f"{self.reason.sentence} ({self.detail})" if self.detail else self.reason.sentence


JIT_PATHS = re.compile(
    r"//anon|\[anon|anon_inode:|/memfd:|/dev/(zero|shm/)|/SYSV|\[heap\]|\[stack|/tmp/perf-\d+\.map$|(.*/)?jitted-"
)
KERNEL_PATHS = re.compile(r"\[(kernel|guest\.kernel)|\[[\w-]+\]$|(.*/)?[\w.-]+\.ko(\.(xz|zst|gz))?$|(.*/)?vmlinux")
PAGES = ("[vdso]", "[vsyscall]", "[uprobes]", "linux-vdso.so.1")
KERNEL_HALF = 1 << 63
NO_FRAME = (
    "most often no address at all: code without frame pointers was walked by them (record with --call-graph dwarf)"
)
GIVE_KERNEL = "give the kernel's vmlinux, or the module with its symbols, with --binary"


def not_a_file(mapping: Mapping | None, address: int) -> Missing | None:
    """The reason for a location that has no file to ask; None for one that has."""
    if mapping is None or not (mapping.path or mapping.build_id):
        if address >= KERNEL_HALF:
            return Missing(Reason.NO_FILE, "kernel code", GIVE_KERNEL)
        if mapping is None:
            return Missing(Reason.UNMAPPED, "", NO_FRAME) if address else Missing(Reason.NOT_PLACED)
        return Missing(Reason.NOT_FILE_BACKED, "an anonymous mapping")
    if mapping.path in PAGES or JIT_PATHS.match(mapping.path):
        return Missing(Reason.NOT_FILE_BACKED, mapping.path)
    return None


def is_kernel(mapping: Mapping) -> bool:
    """Whether a mapping is the kernel's own code or a module's."""
    return mapping.start >= KERNEL_HALF or bool(KERNEL_PATHS.match(mapping.path))
