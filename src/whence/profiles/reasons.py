"""Why a location of a profile has no name: a reason (symbolize's), what exactly was seen, and what to do."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from whence.profiles.kernel import HALF, is_image, is_kernel
from whence.profiles.model import Mapping
from whence.reasons import Reason


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


GENERATED = re.compile(
    r"//anon|/anon_hugepage|\[anon|anon_inode:|/memfd:|/dev/(zero|shm/)|/SYSV|\[heap\]|\[stack|(.*/)?perf-\d+\.map$"
)
MAP_PATH = re.compile(r"(.*/)?perf-(?P<pid>\d{1,10})\.map")
PAGES = ("[vdso]", "[vvar]", "[vsyscall]", "[uprobes]", "linux-vdso.so.1")
OWN_PAGE = "nothing: the kernel lends this page to processes, and no file of it was recorded"
NO_FRAME = (
    "most often no address at all: code without frame pointers was walked by them (record with --call-graph dwarf)"
)
GIVE_KERNEL = "give the kernel's vmlinux, or the module with its symbols, with --binary"
GIVE_KALLSYMS = "or the names of the kernel it was recorded on with --kallsyms (root can copy its /proc/kallsyms)"
GIVE_PERF_MAP = (
    "let the compiler write /tmp/perf-PID.map (node --perf-basic-prof, java -XX:+DumpPerfMapAtExit, python -X perf) "
    "and give that file with --perf-map"
)


class Kind(enum.Enum):
    """Where the name of a place is looked for."""

    FILE = "an ELF file"
    KERNEL = "the kernel's files, then its list of names"
    GENERATED = "perf maps"
    PAGE = "nowhere: a page of the kernel's"
    NOWHERE = "perf maps, but most often it is no address at all"


def kind_of(mapping: Mapping | None, address: int) -> Kind:
    """What a location's mapping and address say about where to look."""
    if mapping is None or mapping.path == "[unknown]" or not (mapping.path or mapping.build_id):
        if address >= HALF:
            return Kind.KERNEL
        return Kind.NOWHERE if mapping is None or mapping.path else Kind.GENERATED
    if mapping.path in PAGES:
        return Kind.PAGE
    if GENERATED.match(mapping.path):
        return Kind.GENERATED
    if mapping.path.startswith("[") and address < HALF and not is_image(mapping):
        return Kind.GENERATED  # [xfs] is a module of the kernel only where the kernel is
    return Kind.KERNEL if is_kernel(mapping) else Kind.FILE
