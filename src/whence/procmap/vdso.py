"""Read the vDSO, a small ELF library that the kernel maps into every process, from memory."""

from __future__ import annotations

import os

from whence.procmap import maps
from whence.procmap.mapping import Kind, Mapping

SIZE_LIMIT = 1 << 20


def read_vdso(mapping: Mapping) -> bytes:
    """Return the vDSO of a process, from its memory. Raises OSError.

    Without access to that memory, it is read from this process if it has the same size: a kernel has one vDSO per word
    size.
    """
    try:
        return _memory(mapping.process, mapping)
    except OSError:
        own = [m for m in maps.parse(maps.read("/proc/self"), "/proc/self").mappings if m.kind is Kind.VDSO]
        if not own or own[0].size != mapping.size:
            raise
        return _memory("/proc/self", own[0])


def own_vdso() -> bytes:
    """Return the vDSO of this process. Raises OSError."""
    for mapping in maps.parse(maps.read("/proc/self"), "/proc/self").mappings:
        if mapping.kind is Kind.VDSO:
            return _memory("/proc/self", mapping)
    raise FileNotFoundError(2, "this process has no vDSO")


def _memory(process: str, mapping: Mapping) -> bytes:
    descriptor = os.open(f"{process}/mem", os.O_RDONLY)
    try:
        return os.pread(descriptor, min(mapping.size, SIZE_LIMIT), mapping.start)
    finally:
        os.close(descriptor)
