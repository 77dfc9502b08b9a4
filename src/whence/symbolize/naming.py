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
    """Each distinct vaddr's frames, or why it has none: `chains_of` by vaddr."""
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
    """The frames of each of some distinct vaddrs, and why those without frames have none.

    A vaddr that breaks the reader has a reason, the others their frames. `function` and `file`: what the frames'
    functions and files are put through, each distinct text once. A bug of ours is logged once for the batch, not for
    each vaddr that meets it.
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
    """Return a table of chains, the chain of each distinct vaddr (0: none), and why some have none.

    `function`, `file` and errors: as for `chains_of`. `is_last`: nothing else will be asked of the binary.
    """
    log = True
    try:
        found = binary.lookup_many(vaddrs, last=is_last)
        if isinstance(found, FrameTable):
            table, which = found.distinct(function=function, file=file)
            missing: Unnamed = {}
            if NO_CHAIN in which:
                nothing = why_nothing(binary)
                missing = {vaddr: (nothing, "") for vaddr, chain in zip(vaddrs, which, strict=True) if not chain}
            return table, which, missing
    except Exception as error:  # the batch is looked up once more, in parts
        reason, _ = reason_of(error, _doing(vaddrs), log=log)
        log = reason is not Reason.INTERNAL_ERROR
    chains, missing = _chains_of(binary, vaddrs, (function, file), log=log)
    return ChainTable.of(chains), [at if frames else NO_CHAIN for at, frames in enumerate(chains, 1)], missing


def _chains_of(binary: Binary, vaddrs: Sequence[int], through: Through, *, log: bool) -> tuple[list[Frames], Unnamed]:
    """Return what `chains_of` does."""
    chains: list[Frames] = []
    missing: Unnamed = {}
    nothing: Reason | None = None

    def look_up(part: Sequence[int]) -> None:
        nonlocal nothing
        found = _chains(binary.lookup_many(part), through)
        if not all(found):
            nothing = nothing or why_nothing(binary)
            missing.update((vaddr, (nothing, "")) for vaddr, one in zip(part, found, strict=True) if not one)
        chains.extend(found)

    for part, reason, detail in in_halves(vaddrs, look_up, _doing, log=log):
        chains += [()] * len(part)
        missing.update((vaddr, (reason, detail)) for vaddr in part)
    return chains, missing


def in_halves(
    batch: Batch, look_up: Callable[[Batch], None], doing: Callable[[Batch], str], *, log: bool = True
) -> Iterator[tuple[Batch, Reason, str]]:
    """Look a batch up, and each part that raises in halves; yield the parts that stay without an answer, and why.

    Parts are looked up and yielded in order. There are 2n - 1 lookups at most, and about 2 log2(n) for one bad item
    of n. Nothing in a file that changed meanwhile can be looked up: its part is not halved. `doing` says what a lookup
    of a part does, for the log, which has a bug of ours once.
    """
    waiting = [batch]
    while waiting:
        part = waiting.pop()
        try:
            look_up(part)
        except Exception as error:  # one damaged unit must not cost the other items their names
            reason, detail = reason_of(error, doing(part), log=log)
            log = log and reason is not Reason.INTERNAL_ERROR
            half = len(part) // 2
            if half and getattr(error, "code", "") != CHANGED:
                waiting.extend([part[half:], part[:half]])
            else:
                yield part, reason, detail


def _doing(vaddrs: Sequence[int]) -> str:
    return f"naming {len(vaddrs)} addresses from {vaddrs[0]:#x} on"


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


def why_nothing(binary: Binary) -> Reason:
    """Whether a binary is stripped, so that it names only what it exports, or names all but this."""
    return Reason.NOT_IN_ARCHIVE if binary.producers is None else binary.producers.why_unnamed()
