"""Frames of many vaddrs in one binary, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, TypeVar

from whence._base.errors import CHANGED
from whence._base.model import Frames
from whence._base.reasons import Reason
from whence.lidia.chains import NO_CHAIN, ChainTable
from whence.lidia.results import FrameTable
from whence.symbolize.internal_error import reason_of

if TYPE_CHECKING:
    from whence.binary import Binary

Named = dict[int, tuple[Frames, Reason | None, str]]
Unnamed = dict[int, tuple[Reason, str]]
Batch = TypeVar("Batch", Sequence[int], range)
Through = tuple[Callable[[str], str] | None, Callable[[str], str] | None]  # functions, files


def name_all(binary: Binary, vaddrs: Sequence[int], *, function: Callable[[str], str] | None = None) -> Named:
    """Return the frames of each distinct vaddr, with a reason and details if there are none."""
    distinct = sorted(set(vaddrs))
    chains, missing = chains_of(binary, distinct, function=function)
    if not missing:
        return dict(zip(distinct, zip(chains, repeat(None), repeat("")), strict=True))
    named: Named = {}
    for vaddr, frames in zip(distinct, chains, strict=True):
        reason, detail = missing.get(vaddr, (None, ""))
        named[vaddr] = frames, reason, detail
    return named


def chains_of(
    binary: Binary,
    vaddrs: Sequence[int],
    *,
    function: Callable[[str], str] | None = None,
    file: Callable[[str], str] | None = None,
) -> tuple[list[Frames], Unnamed]:
    """Return the frames of distinct vaddrs, in order, and the reasons of vaddrs without frames.

    An error for one vaddr is its reason and does not affect the others. A bug of whence is logged once for the batch.
    `function` and `file` are applied to each distinct function and file.
    """
    return _chains_of(binary, vaddrs, (function, file), log=True)


def table_of(
    binary: Binary,
    vaddrs: Sequence[int],
    *,
    function: Callable[[str], str] | None = None,
    file: Callable[[str], str] | None = None,
    is_last: bool = False,
) -> tuple[ChainTable, Sequence[int], Unnamed]:
    """Return a table of chains, the chain of each distinct vaddr (0: none), and the reasons of vaddrs without frames.

    `function`, `file` and errors are those of `chains_of`. `is_last`: there will be no other query to the binary.
    """
    log = True
    try:
        frames = binary.lookup_many(vaddrs, last=is_last)
        if isinstance(frames, FrameTable):
            table, which = frames.distinct(function=function, file=file)
            missing: Unnamed = {}
            if NO_CHAIN in which:
                nothing = why_nothing(binary)
                missing = {vaddr: (nothing, "") for vaddr, chain in zip(vaddrs, which, strict=True) if not chain}
            return table, which, missing
    except Exception as error:  # the batch is looked up once more, in parts
        reason, _ = reason_of(error, _doing(vaddrs), log=log)
        log = reason is not Reason.INTERNAL_ERROR
    chains, missing = _chains_of(binary, vaddrs, (function, file), log=log)
    return ChainTable.of(chains), [number if chain else NO_CHAIN for number, chain in enumerate(chains, 1)], missing


def _chains_of(binary: Binary, vaddrs: Sequence[int], through: Through, *, log: bool) -> tuple[list[Frames], Unnamed]:
    """Look vaddrs up in halves; log a bug only if `log`."""
    chains: list[Frames] = []
    missing: Unnamed = {}
    nothing: Reason | None = None

    def look_up(part: Sequence[int]) -> None:
        nonlocal nothing
        named = _chains(binary.lookup_many(part), through)
        if not all(named):
            nothing = nothing or why_nothing(binary)
            missing.update((vaddr, (nothing, "")) for vaddr, chain in zip(part, named, strict=True) if not chain)
        chains.extend(named)

    for part, reason, detail in in_halves(vaddrs, look_up, _doing, log=log):
        chains += [()] * len(part)
        missing.update((vaddr, (reason, detail)) for vaddr in part)
    return chains, missing


def in_halves(
    batch: Batch, look_up: Callable[[Batch], None], doing: Callable[[Batch], str], *, log: bool = True
) -> Iterator[tuple[Batch, Reason, str]]:
    """Look a batch up; halve each part that raises. Yield parts of one item that failed, with reason and details.

    Parts are looked up and yielded in order. There are at most 2n - 1 lookups, and about 2 log2(n) for one bad item
    of n. A part is not halved if the file has changed. `doing` describes the lookup of a part for the log, to which a
    bug of whence is written once.
    """
    waiting = [batch]
    while waiting:
        part = waiting.pop()
        try:
            look_up(part)
        except Exception as error:  # e.g. for one damaged unit
            reason, detail = reason_of(error, doing(part), log=log)
            log = log and reason is not Reason.INTERNAL_ERROR
            half = len(part) // 2
            if half and getattr(error, "code", "") != CHANGED:
                waiting.extend([part[half:], part[:half]])
            else:
                yield part, reason, detail


def _doing(vaddrs: Sequence[int]) -> str:
    return f"naming {len(vaddrs)} addresses, the first at {vaddrs[0]:#x}"


def _chains(frames: Iterable[Frames], through: Through) -> list[Frames]:
    """Return the chains of a batch after `through` was applied to functions and files."""
    function, file = through
    if isinstance(frames, FrameTable):
        return frames.chains(function=function, file=file)
    return [
        tuple(
            frame._replace(
                function=function(frame.function) if function else frame.function,
                file=file(frame.file) if file else frame.file,
            )
            for frame in chain
        )
        for chain in frames
    ]


def why_nothing(binary: Binary) -> Reason:
    """Return why a binary has no frames for an address: it is stripped, or has no name for it."""
    return Reason.NOT_IN_ARCHIVE if binary.producers is None else binary.producers.why_unnamed()
