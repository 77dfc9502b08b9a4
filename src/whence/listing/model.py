"""What a listing has: instructions and source lines of some code, with costs if a profile was given.

The public class with operations is `whence.listing.Listing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from whence._base.model import Frames
from whence._base.records import Record, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from os import PathLike

    from whence._base.window import ByteOrder
    from whence.listing.sources import SourceFile, SourceOptions, Sources
    from whence.listing.targets import References


CONTEXT = 2  # lines without cost that are shown before and after others
FEWEST_FOLDED = 3  # lines


class Instruction(NamedTuple):
    """An instruction.

    Attributes:
        vaddr: its address in the executable.
        code: its bytes.
        mnemonic, operands: as the disassembler prints them.
        target: the vaddr that it jumps to, calls or refers to; 0 if it has none.
        target_name: the function, variable or section at the target; "" if unknown.
        is_jump: True if it jumps to `target`.
        is_call: True if it calls `target`.
        frames: the function with file and line, after the calls inlined into it; innermost first.
        self: the cost of the samples at this address.
    """

    vaddr: int
    code: bytes
    mnemonic: str
    operands: str
    target: int = 0
    target_name: str = ""
    is_jump: bool = False
    is_call: bool = False
    frames: Frames = ()
    self: int = 0

    def with_cost(self, frames: Frames, cost: int) -> Instruction:
        """Return the instruction with its frames and its cost; much faster than `_replace`."""
        vaddr, code, mnemonic, operands, target, target_name, is_jump, is_call, _, _ = self
        return Instruction(vaddr, code, mnemonic, operands, target, target_name, is_jump, is_call, frames, cost)

    @property
    def end(self) -> int:
        """The vaddr after its last byte."""
        return self.vaddr + len(self.code)

    @property
    def text(self) -> str:
        """The mnemonic, the operands, and the name of the target."""
        words = f"{self.mnemonic} {self.operands}".rstrip()
        if not self.target_name:
            return words
        if self.is_jump or self.is_call:
            return f"{words} <{self.target_name}>"
        return f"{words}  # {self.target:#x} <{self.target_name}>"


class ListedLine(NamedTuple):
    """A line of a function, or of a call inlined into it.

    Attributes:
        file, line: the place in the source; line 0 is unknown.
        function: the function that the line belongs to.
        depth: number of inlined calls around it: 0 for lines of the listed function, and lines of depth d + 1 belong to
            a call in the last line of depth d before them.
        self: the cost of the samples in this line itself.
        total: also that of everything called from it, inlined or not.
        text: the source, without the line end; None if the source was not found.
        instructions: number of instructions of the line itself.
    """

    file: str
    line: int
    function: str
    depth: int = 0
    self: int = 0
    total: int = 0
    text: str | None = None
    instructions: int = 0


class CodeMemory(Record, frozen=True):
    """The memory of a process that has code which is in no file.

    Attributes:
        read: returns bytes by vaddr and size; raises WhenceError or OSError.
        machine, bits, order: those of the process.
        origin: whose memory it is.
        targets: names addresses in operands, if no file does.
    """

    read: Callable[[int, int], bytes]
    machine: int
    bits: int
    order: ByteOrder
    origin: str
    targets: References | None = None


class ListingOptions(Record, frozen=True):
    """The options of a listing.

    Attributes:
        sources: where source files are looked for.
        code: the executable or library, if the code is in another file.
        memory: has the code, if no file has it.
        syntax: "intel" or "att", for x86.
        lines: only lines.
        costs: cost of samples by vaddr.
        skid: number of instructions by which costs are moved back.
    """

    sources: SourceOptions | None = None
    code: str | PathLike[str] | None = None
    syntax: str = "intel"
    lines: bool = False
    costs: Mapping[int, int] | None = None
    skid: int = 0
    memory: CodeMemory | None = None


class LineCosts:
    """A tree of the lines of a function: lines, and below each the lines of the calls that were inlined there."""

    __slots__ = ("children", "instructions", "self", "total")

    def __init__(self) -> None:
        self.self = self.total = self.instructions = 0
        self.children: dict[tuple[str, str, int], LineCosts] = {}

    def nodes(self, frames: Frames) -> list[LineCosts]:
        """Return the nodes of a chain of frames, innermost first, from the outermost to the innermost."""
        node, path = self, []
        for frame in reversed(frames):
            key = frame.function, frame.file, frame.line
            child = node.children.get(key)
            if child is None:
                child = node.children[key] = LineCosts()
            node = child
            path.append(node)
        return path

    def files(self) -> list[str]:
        """Return the files of all lines, in order."""
        files: set[str] = set()
        stack = [self]
        while stack:
            node = stack.pop()
            files.update(file for _, file, _ in node.children if file)
            stack.extend(node.children.values())
        return sorted(files)

    def sources(self, sources: Sources, notes: list[str]) -> dict[str, SourceFile]:
        """Return the source files of the lines, and add a note on missing ones."""
        files = self.files()
        sources.expect(files)
        source_of = {file: source for file in files if (source := sources.find(file)) is not None}
        missing = [file for file in files if file not in source_of]
        if missing:
            others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            notes.append(f"no source of {missing[0]}{others}: {sources.remedy(missing[0])}")
        return source_of

    def lines(self, sources: dict[str, SourceFile], depth: int = 0) -> Iterator[ListedLine]:
        """Yield the lines in order of file and line, and the inlined lines after the line of their call."""
        ordered = sorted(self.children.items(), key=lambda item: (item[0][1], item[0][2], item[0][0]))
        for (function, file, line), node in ordered:
            source = sources.get(file)
            text = source.line(line) if source is not None else None
            yield ListedLine(file, line, function, depth, node.self, node.total, text, node.instructions)
            yield from node.lines(sources, depth + 1)


class ListingData(Record):
    """The tables of a listing; `whence.listing.Listing` describes them."""

    function: str
    file: str = ""
    line: int = 0
    spans: list[tuple[int, int]] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    lines: list[ListedLine] = field(default_factory=list)
    sources: dict[str, SourceFile] = field(default_factory=dict)
    type: str = ""
    unit: str = ""
    self_cost: int = 0
    cost: int = 0
    total: int = 0
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        counts = f"{len(self.instructions):,} instructions, {len(self.lines):,} lines"
        return f"<Listing of {ascii(self.function)[1:-1] or 'unnamed code'}: {counts}>"

    def folded(self) -> Iterator[ListedLine | int]:
        """Yield the lines, and between them lines of the source without code, or the number of those left out."""
        previous: ListedLine | None = None
        for line in self.lines:
            if not line.depth:
                yield from self._between(previous, line)
                previous = line
            yield line

    def _between(self, previous: ListedLine | None, line: ListedLine) -> Iterator[ListedLine | int]:
        """Yield the lines of the source after `previous` and before `line`, both of depth 0."""
        source = self.sources.get(line.file)
        if source is None:
            return
        continues = previous is not None and previous.file == line.file
        if continues and previous is not None:
            first = previous.line + 1
        elif self.line and self.file == line.file and self.line <= line.line:
            first = self.line
        else:
            first = line.line - CONTEXT
        between = range(max(first, 1), line.line)
        fold = between[CONTEXT if continues else 1 : -CONTEXT]
        if len(fold) < FEWEST_FOLDED:
            fold = between[:0]
        for number in between:
            if fold and number == fold[0]:
                yield len(fold)
            if number not in fold:
                yield ListedLine(line.file, number, line.function, text=source.line(number))
