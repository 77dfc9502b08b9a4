"""The vDSO: a small ELF library that the kernel maps into every process; in no file, so read from memory."""

from __future__ import annotations

import os

from whence.procmap import maps
from whence.procmap.mapping import Kind, Mapping

SIZE_LIMIT = 1 << 20


def read_vdso(mapping: Mapping) -> bytes:
    """The bytes of a process's vDSO, from its memory; where that may not be read, from ours if it is as big (one kernel
    has one vDSO a word size). Raises OSError."""
    try:
        return _memory(mapping.process, mapping)
    except OSError:
        own = [m for m in maps.parse(maps.read("/proc/self"), "/proc/self").mappings if m.kind is Kind.VDSO]
        if not own or own[0].size != mapping.size:
            raise
        return _memory("/proc/self", own[0])


def own_vdso() -> bytes:
    """The bytes of our own vDSO. Raises OSError."""
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
