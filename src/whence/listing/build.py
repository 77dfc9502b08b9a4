"""Build listings: instructions and lines of spans of an executable."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from whence._base.errors import ElfError, Unsupported
from whence.listing.disassembly import Disassembler
from whence.listing.listing import Listing
from whence.listing.model import CodeMemory, Instruction, LineCosts, ListingOptions
from whence.listing.targets import References, Targets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from whence._base.model import Frames
    from whence.lidia.results import Range
    from whence.lidia.table import Table
    from whence.listing.sources import Sources
    from whence.objects.interface import ObjectFile

CODE_BYTES = 1 << 20  # of one listing: a function of more is cut
LINES_LISTED = 1 << 16  # of a function without code


class CodeReader:
    """Disassembles code, with names for operands.

    Args:
        disassembler: for the machine.
        targets: the names of the addresses in operands.
        read: returns bytes of code by vaddr and size, or raises.
        origin: where the code is from, if not from a file.
    """

    def __init__(
        self, disassembler: Disassembler, targets: References, read: Callable[[int, int], bytes], origin: str = ""
    ) -> None:
        self._disassembler, self._read = disassembler, read
        self.targets, self.origin = targets, origin

    def __repr__(self) -> str:
        return f"<CodeReader of {self.origin or 'a file'}>"

    @classmethod
    def of_file(
        cls, code: ObjectFile, debug: ObjectFile | None = None, *, demangle: Callable[[str], str] | None = None,
        syntax: str = "intel",
    ) -> CodeReader:  # fmt: skip
        """Return a reader of the code in a file.

        Args:
            code: the executable, or a library.
            debug: its debug file, if that has the symbols.
            demangle: makes names of targets readable.
            syntax: "intel" or "att", for x86.

        Raises Unsupported if there is no disassembler for the machine, or the file is relocatable; ImportError without
        capstone.
        """
        if code.is_relocatable:
            raise Unsupported("code of relocatable files cannot be listed: link it first").in_file(code.path)
        disassembler = Disassembler(code.machine, code.bits, code.order, syntax)
        return cls(disassembler, Targets(code, debug, demangle), lambda vaddr, size: code_bytes(code, vaddr, size))

    @classmethod
    def of_memory(
        cls, memory: CodeMemory, file: ObjectFile | None = None, *, demangle: Callable[[str], str] | None = None,
        syntax: str = "intel",
    ) -> CodeReader:  # fmt: skip
        """Return a reader of the code in memory; `file` has its symbols, but not its code. Raises like `of_file`."""
        targets = memory.targets or (References(memory.machine) if file is None else Targets(file, None, demangle))
        disassembler = Disassembler(memory.machine, memory.bits, memory.order, syntax)
        return cls(disassembler, targets, memory.read, memory.origin)

    def instructions(self, start: int, end: int) -> list[Instruction]:
        """Return the instructions of [start, end) without frames. Raises ElfError if the file has no code there."""
        code = self._read(start, end - start)
        decoded = [
            instruction
            for low, high, kind in self.targets.kinds(start, end)
            for instruction in self._disassembler.decode(code[low - start : high - start], low, kind)
        ]
        name = self.targets.name
        return [
            Instruction(
                each.vaddr, code[each.vaddr - start : each.vaddr - start + each.size], each.mnemonic, each.operands,
                reference, name(reference) if reference else "", bool(each.target) and not each.is_call, each.is_call,
            )
            for each, reference in zip(decoded, self.targets.references(decoded), strict=True)
        ]  # fmt: skip


def has_code(elf: ObjectFile) -> bool:
    """Return True if the file has the bytes of code: debug files have none."""
    return any(section.executable and section.in_file for section in elf.sections) or not elf.sections


def code_bytes(elf: ObjectFile, vaddr: int, size: int) -> bytes:
    """Return code as it is in the file. Raises ElfError, with a hint for debug files."""
    for section in elf.sections:
        if section.executable and section.vaddr <= vaddr and vaddr + size <= section.vaddr + section.size:
            if not section.in_file:
                fault = f"the code at {vaddr:#x} is not in the file"
                error = ElfError(section.part, None, fault, path=elf.path)
                raise error.with_hint("it is a debug file: give the executable")
            offset = vaddr - section.vaddr
            content = bytes(elf.content(section)[offset : offset + size])
            elf.check()
            return content
    return elf.read_vaddr(vaddr, size)


def listing(
    spans: Sequence[tuple[int, int]],
    table: Table,
    reader: CodeReader | None = None,
    *,
    function: Range | None = None,
    sources: Sources | None = None,
    options: ListingOptions | None = None,
) -> Listing:
    """Return the listing of some code.

    Args:
        spans: [start, end) in vaddrs.
        table: names the addresses.
        reader: disassembles them; without it, the listing has lines only.
        function: the listed function, for the heading.
        sources: finds source files.
        options: costs and skid.
    """
    out = Listing(function.function if function is not None else "", spans=list(spans))
    if function is not None:
        out.file, out.line = function.file, function.start_line
    costs = options.costs or {} if options is not None else {}
    skid = options.skid if options is not None else 0
    tree = LineCosts()
    left = CODE_BYTES
    for start, end in spans:
        if end - start > left:
            out.notes.append(f"only the first {left:,} of {end - start:,} bytes from {start:#x} are listed")
            end = start + left
        left -= end - start
        if reader is None:
            for chain in table.lookup_many(row_starts(table, start, end)).chains():
                tree.nodes(chain)
            continue
        decoded = reader.instructions(start, end)
        chains = table.lookup_many([each.vaddr for each in decoded]).chains()
        own = costs_of(decoded, start, end, costs)
        for instruction, chain, cost in zip(decoded, chains, moved_back(own, skid), strict=True):
            out.instructions.append(instruction.with_cost(chain, cost))
            charge(tree, chain, cost)
    out.self_cost = out.cost = sum(each.self for each in out.instructions)
    if sources is not None:
        out.sources = tree.sources(sources, out.notes)
    out.lines = list(tree.lines(out.sources))
    return out


def costs_of(instructions: Sequence[Instruction], start: int, end: int, costs: Mapping[int, int]) -> list[int]:
    """Return the cost of each instruction of [start, end).

    A sample in the middle of an instruction, which may be badly decoded, is of that instruction.
    """
    out = [0] * len(instructions)
    starts = [instruction.vaddr for instruction in instructions]
    for vaddr, cost in costs.items():
        if start <= vaddr < end:
            out[bisect_right(starts, vaddr) - 1] += cost
    return out


def moved_back(costs: list[int], skid: int) -> list[int]:
    """Return costs by instruction, moved to earlier instructions; those at the start stay in the first."""
    if not skid:
        return costs
    moved = [0] * len(costs)
    for index, cost in enumerate(costs):
        moved[max(index - skid, 0)] += cost
    return moved


def charge(tree: LineCosts, chain: Frames, cost: int) -> None:
    """Add an instruction and its cost to the lines of its chain."""
    path = tree.nodes(chain)
    for node in path:
        node.total += cost
    if path:
        path[-1].self += cost
        path[-1].instructions += 1


def row_starts(table: Table, start: int, end: int) -> list[int]:
    """Return the vaddrs in [start, end) where a range or a line begins, at most LINES_LISTED."""
    vaddrs = table.vaddrs()
    starts = {start}
    for index in range(bisect_left(vaddrs, start), bisect_right(vaddrs, end - 1)):
        each = table[index]
        starts.update(each.vaddr + offset for offset, _ in each.line_table)
        starts.add(each.end)
        if len(starts) > LINES_LISTED:
            break
    return sorted(vaddr for vaddr in starts if start <= vaddr < end)[:LINES_LISTED]
