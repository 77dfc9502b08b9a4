"""Listings of code by runtime address: code of files, of the vDSO, and generated code, which is only in memory.

The function of an address in a file, and its names, are those of the binary; the code is that of the executable, or
else that in the memory of the process. Generated code has the name and the size in the process's perf map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._base.errors import MapsError, WhenceError
from whence._base.records import replaced
from whence.lidia import Builder, from_bytes
from whence.lidia.results import Range
from whence.listing.build import CodeReader, listing
from whence.listing.model import CodeMemory, ListingOptions
from whence.listing.targets import References
from whence.symbolize.process import ReadableProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from whence.binary import Binary
    from whence.listing import Listing
    from whence.symbolize.symbolized import Symbolized


class RuntimeReferences(References):
    """The addresses that generated code refers to, named by the functions there."""

    def __init__(self, machine: int, symbolize: Callable[[int], Symbolized]) -> None:
        super().__init__(machine)
        self._symbolize = symbolize

    def name(self, vaddr: int) -> str:
        """Return the function at a runtime address."""
        answer = self._symbolize(vaddr)
        return answer.frames[-1].function if answer.frames else ""


def memory_of(process: object, bias: int = 0) -> CodeMemory | None:
    """Return the memory of a process by runtime address minus `bias`; None for a snapshot, which has none.

    Raises OSError, WhenceError.
    """
    if not isinstance(process, ReadableProcess):
        return None
    machine, bits, order = process.machine()
    return CodeMemory(
        lambda vaddr, size: process.read(vaddr + bias, size), machine, bits, order, f"the memory of {process.title}"
    )


def file_listing(
    binary: Binary, process: object, answer: Symbolized, end: int | None, options: ListingOptions
) -> Listing:
    """Return the listing of the function at an address in a file, or of the code up to `end`."""
    assert answer.vaddr is not None
    bias = answer.address - answer.vaddr
    function, spans = None, [(answer.vaddr, (end or 0) - bias)]
    if end is None:
        parts = next(iter(binary.parts(answer.vaddr)), [])
        if not parts:
            raise LookupError(f"{answer.address:#x}: no function of {binary.path} is at vaddr {answer.vaddr:#x}")
        function, spans = parts[0], [(part.vaddr, part.end) for part in parts]
    try:
        out = binary.listing_of(function, spans, replaced(options, memory=memory_of(process, bias)))
    except (OSError, WhenceError) as error:
        out = binary.listing_of(function, spans, replaced(options, lines=True))
        out.notes.append(f"no instructions: {error}")
    if bias:
        out.notes.append(f"addresses are vaddrs of {binary.path}: runtime addresses are {bias:#x} higher")
    return out


def generated_listing(
    process: object, span: tuple[int, int, str], symbolize: Callable[[int], Symbolized], options: ListingOptions
) -> Listing:
    """Return the listing of code that is in no file: [start, end) and its name, which may be ""."""
    memory = memory_of(process)
    if memory is None:
        raise MapsError("", None, "a snapshot has no memory: code that is in no file needs the process, or a core")
    start, end, name = span
    builder = Builder()
    if name:
        builder.add(vaddr=start, length=end - start, function=name)
    targets = RuntimeReferences(memory.machine, symbolize)
    with from_bytes(builder.to_bytes()) as table:
        reader = CodeReader.of_memory(replaced(memory, targets=targets), syntax=options.syntax)
        function = Range(start, end - start, name) if name else None
        out = listing([(start, end)], table, reader, function=function, options=options)
    out.notes.append(f"the code is from {memory.origin}")
    return out
