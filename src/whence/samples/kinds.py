"""Where the name of a location is looked for: in files, in the kernel's lists, in perf maps, or nowhere."""

from __future__ import annotations

import enum
import re

from whence.locate.names import is_image
from whence.samples.kernel import HALF, is_kernel
from whence.samples.model import Mapping

GENERATED = re.compile(
    r"//anon|/anon_hugepage|\[anon|anon_inode:|/memfd:|/dev/(zero|shm/)|/SYSV|\[heap\]|\[stack|(.*/)?perf-\d+\.map$"
)
MAP_PATH = re.compile(r"(.*/)?perf-(?P<pid>\d{1,10})\.map")
PAGES = ("[vdso]", "[vvar]", "[vsyscall]", "[uprobes]", "linux-vdso.so.1")


class AddressKind(enum.Enum):
    """Where the name of a place is looked for."""

    FILE = "an ELF file"
    KERNEL = "the kernel's files, then its list of names"
    GENERATED = "perf maps"
    PAGE = "nowhere: a page of the kernel's"
    NOWHERE = "perf maps, but most often it is no address at all"


def kind_of(mapping: Mapping | None, address: int) -> AddressKind:
    """What a location's mapping and address say about where to look."""
    if mapping is None or mapping.path == "[unknown]" or not (mapping.path or mapping.build_id):
        if address >= HALF:
            return AddressKind.KERNEL
        return AddressKind.NOWHERE if mapping is None or mapping.path else AddressKind.GENERATED
    if mapping.path in PAGES:
        return AddressKind.PAGE
    if GENERATED.match(mapping.path) and not (mapping.build_id and mapping.path.startswith("/memfd:")):
        return AddressKind.GENERATED
    if mapping.path.startswith("[") and address < HALF and not is_image(mapping.path):
        return AddressKind.GENERATED  # [xfs] is a module of the kernel only where the kernel is
    return AddressKind.KERNEL if is_kernel(mapping) else AddressKind.FILE
