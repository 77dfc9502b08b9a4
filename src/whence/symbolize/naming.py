"""Frames of many vaddrs in one binary, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from whence.lidia.chains import NO_CHAIN, ChainTable
from whence.lidia.results import FrameTable
from whence.model import Frames
from whence.reasons import Reason
from whence.symbolize.internal_error import reason_of
from whence.symbolize.pool import Names

if TYPE_CHECKING:
    from whence.producers import Producers

Named = dict[int, tuple[Frames, Reason | None, str]]
Unnamed = dict[int, tuple[Reason, str]]
Through = tuple[Callable[[str], str] | None, Callable[[str], str] | None]  # functions, files


def name_all(binary: Names, vaddrs: Sequence[int], *, function: Callable[[str], str] | None = None) -> Named:
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
    binary: Names,
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
    binary: Names,
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


def _chains_of(binary: Names, vaddrs: Sequence[int], through: Through, *, log: bool) -> tuple[list[Frames], Unnamed]:
    """`chains_of`. A batch that raises is halved until the vaddrs that raise are alone: 2n - 1 lookups at most, and
    about 2 log2(n) for one bad vaddr of n."""
    chains: list[Frames] = []
    missing: Unnamed = {}
    nothing: Reason | None = None
    waiting = [vaddrs]
    while waiting:
        batch = waiting.pop()
        try:
            found = _chains(binary.lookup_many(batch), through)
        except Exception as error:  # one damaged unit must not cost the other vaddrs their names
            reason, detail = reason_of(error, _doing(batch), log=log)
            log = log and reason is not Reason.INTERNAL_ERROR
            half = len(batch) // 2
            if half:
                waiting += batch[half:], batch[:half]
                continue
            found = [()]
            missing[batch[0]] = reason, detail
        else:
            if not all(found):
                nothing = nothing or why_nothing(binary)
                missing.update((vaddr, (nothing, "")) for vaddr, one in zip(batch, found, strict=True) if not one)
        chains += found
    return chains, missing


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


def why_nothing(binary: Names) -> Reason:
    """Whether a binary is stripped, so that it names only what it exports, or names all but this."""
    producers: Producers | None = getattr(binary, "producers", None)
    return Reason.NOT_IN_ARCHIVE if producers is None else producers.why_unnamed()
