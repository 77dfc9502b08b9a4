"""Frames of many vaddrs in one binary, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Sequence

from whence.errors import WhenceError
from whence.model import Frames
from whence.reasons import Reason
from whence.symbolize.binaries import Names

Named = dict[int, tuple[Frames, Reason | None, str]]


def name_all(binary: Names, vaddrs: Sequence[int]) -> Named:
    """Each distinct vaddr's frames; a vaddr that breaks the reader has a reason, the others their frames."""
    distinct = sorted(set(vaddrs))
    named: Named = {}
    nothing: Reason | None = None
    try:
        chains = [tuple(chain) for chain in binary.lookup_many(distinct)]
    except Exception as error:  # whatever a reader of debug info stumbles over, the batch goes on
        if len(distinct) == 1:
            return {distinct[0]: ((), Reason.BROKEN_FILE, worded(error))}
        for vaddr in distinct:  # one damaged unit must not cost the others their names
            named.update(name_all(binary, [vaddr]))
        return named
    for vaddr, frames in zip(distinct, chains, strict=True):
        if not frames and nothing is None:
            nothing = why_nothing(binary)
        named[vaddr] = (frames, None if frames else nothing, "")
    return named


def worded(error: Exception) -> str:
    """An error's words; with its name when it is not one of ours."""
    return str(error) if isinstance(error, (WhenceError, OSError)) else f"{type(error).__name__}: {error}"


def why_nothing(binary: Names) -> Reason:
    """Whether a binary is stripped, so that it names only what it exports, or names all but this."""
    producers = getattr(binary, "producers", None)
    if producers is None or producers.dwarf is not None or producers.pclntab is not None:
        return Reason.NOT_IN_ARCHIVE
    has_symbols = any(elf.section(".symtab") is not None for elf in (producers.elf, producers.debug_elf))
    return Reason.NOT_IN_ARCHIVE if has_symbols else Reason.NO_DEBUG_FILE
