"""Frames of many vaddrs in one binary, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from whence.lidia.results import FrameTable
from whence.model import Frames
from whence.reasons import Reason
from whence.symbolize.internal_error import reason_of
from whence.symbolize.pool import Names

if TYPE_CHECKING:
    from whence.producers import Producers

Named = dict[int, tuple[Frames, Reason | None, str]]
Through = tuple[Callable[[str], str] | None, Callable[[str], str] | None]  # functions, files


def name_all(
    binary: Names,
    vaddrs: Sequence[int],
    *,
    function: Callable[[str], str] | None = None,
    file: Callable[[str], str] | None = None,
) -> Named:
    """Each distinct vaddr's frames; a vaddr that breaks the reader has a reason, the others their frames.

    `function` and `file`: what the frames' functions and files are put through, each distinct text once. A bug of ours
    is logged once for the batch, not for each vaddr that meets it.
    """
    return _name_all(binary, vaddrs, (function, file), log=True)


def _name_all(binary: Names, vaddrs: Sequence[int], through: Through, *, log: bool) -> Named:
    distinct = sorted(set(vaddrs))
    named: Named = {}
    nothing: Reason | None = None
    try:
        chains = _chains(binary.lookup_many(distinct), through)
    except Exception as error:  # whatever a reader of debug info stumbles over, the batch goes on
        reason, detail = reason_of(error, f"naming {len(distinct)} addresses from {distinct[0]:#x} on", log=log)
        if len(distinct) == 1:
            return {distinct[0]: ((), reason, detail)}
        log = log and reason is not Reason.INTERNAL_ERROR
        for vaddr in distinct:  # one damaged unit must not cost the others their names
            one = _name_all(binary, [vaddr], through, log=log)
            log = log and one[vaddr][1] is not Reason.INTERNAL_ERROR
            named.update(one)
        return named
    if all(chains):
        return dict(zip(distinct, zip(chains, repeat(None), repeat("")), strict=True))
    for vaddr, frames in zip(distinct, chains, strict=True):
        if frames:
            named[vaddr] = (frames, None, "")
            continue
        if nothing is None:
            nothing = why_nothing(binary)
        named[vaddr] = ((), nothing, "")
    return named


def _chains(found: Iterable[Frames], through: Through) -> list[Frames]:
    """The chains of a batch, their functions and files put through what was asked."""
    function, file = through
    if isinstance(found, FrameTable):
        return found.chains(function=function, file=file)
    return [
        tuple(
            frame._replace(
                function=function(frame.function) if function else frame.function,
                file=file(frame.file) if file else frame.file,
            )
            for frame in chain
        )
        for chain in found
    ]


def why_nothing(binary: Names) -> Reason:
    """Whether a binary is stripped, so that it names only what it exports, or names all but this."""
    producers: Producers | None = getattr(binary, "producers", None)
    return Reason.NOT_IN_ARCHIVE if producers is None else producers.why_unnamed()
