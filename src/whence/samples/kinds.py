"""The kind of an address, which says where its name can be found: ELF files, kernel lists or perf maps."""

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
    """The kind of an address; the text says where its name can be found."""

    FILE = "an ELF file"
    KERNEL = "the kernel's files, then its list of names"
    GENERATED = "perf maps"
    PAGE = "nowhere: a page that the kernel provides"
    NOWHERE = "perf maps; usually it is not a valid address"


def kind_of(mapping: Mapping | None, address: int) -> AddressKind:
    """Return the kind of an address in a mapping."""
    if mapping is None or mapping.path == "[unknown]" or not (mapping.path or mapping.build_id):
        if address >= HALF:
            return AddressKind.KERNEL
        return AddressKind.NOWHERE if mapping is None or mapping.path else AddressKind.GENERATED
    if mapping.path in PAGES:
        return AddressKind.PAGE
    if GENERATED.match(mapping.path) and not (mapping.build_id and mapping.path.startswith("/memfd:")):
        return AddressKind.GENERATED
    if mapping.path.startswith("[") and address < HALF and not is_image(mapping.path):
        return AddressKind.GENERATED  # [xfs] is a kernel module only at a kernel address
    return AddressKind.KERNEL if is_kernel(mapping) else AddressKind.FILE
