"""Listings as text for a terminal: instructions below their source lines, or source lines with costs.

Everything from files is escaped; tabs of sources become spaces.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from whence._base.amounts import amount
from whence._base.errors import plain

if TYPE_CHECKING:
    from whence._base.model import Frame
    from whence.listing.model import Instruction, ListedLine, ListingData

TAB = 8
CODE_BYTES_SHOWN = 8  # of an instruction, with raw bytes; the width of the column
NO_SOURCE = "?"
COST_WIDTH = 12


def annotated(listing: ListingData, *, raw_bytes: bool = False) -> Iterator[str]:
    """Yield the instructions as lines, with the source line above each group and labels at targets of jumps."""
    names = short_names(listing)
    labels = labels_of(listing.instructions)
    yield heading(listing)
    width = max((len(f"{each.vaddr:x}") for each in listing.instructions), default=0)
    label_width = max(map(len, labels.values()), default=0)
    previous: list[Frame] = []
    end = 0
    for instruction in listing.instructions:
        path = list(reversed(instruction.frames))
        if instruction.vaddr != end:
            if end:
                yield ""
            previous = []
        end = instruction.end
        same = 0
        while same < min(len(path), len(previous)) and path[same][:3] == previous[same][:3]:
            same += 1
        if len(path) < len(previous):  # back in the caller: its line again
            same = min(same, len(path) - 1)
        for depth in range(max(same, 0), len(path)):
            if not depth and not path[0].file:  # of the listed function, without a line
                continue
            yield f"{cost_gap(listing)}{source_line(listing, path[depth], depth, names)}"
        previous = path
        label = labels.get(instruction.vaddr, "")
        mark = f"{label}:".rjust(label_width + 1) if label else " " * (label_width + 1)
        code = f"{shown_bytes(instruction.code)} " if raw_bytes else ""
        text = plain(instruction_text(instruction, labels))
        yield f"{cost_cell(listing, instruction.self)}{mark} {instruction.vaddr:>{width}x}  {code}{text}"
    yield from ending(listing, names)


def listed(listing: ListingData) -> Iterator[str]:
    """Yield the source lines with their costs. Lines without cost are folded."""
    names = short_names(listing)
    yield heading(listing)
    for line in listing.folded():
        if isinstance(line, int):
            yield f"{cost_gap(listing, 2)}... {line} lines"
            continue
        cells = f"{cost_cell(listing, line.self, line)}{cost_cell(listing, line.total, line)}"
        yield f"{cells}{line_text(line.function, line.file, line.line, line.depth, line.text, names)}"
    yield from ending(listing, names)


def heading(listing: ListingData) -> str:
    """Return the line above a listing: the function, its place, its parts, and its share of the profile."""
    location = f" at {plain(listing.file)}:{listing.line}" if listing.file and listing.line else ""
    parts = "".join(f" [{start:#x}, {end:#x})" for start, end in listing.spans)
    cost = ""
    if listing.type:
        cost = f": {plain(listing.type)} {amount(listing.self_cost, listing.unit)} self"
        if not listing.instructions:
            cost += f", {amount(listing.cost, listing.unit)} total"
        if listing.total:
            cost += f", {100 * listing.cost / listing.total:.2f}% of {amount(listing.total, listing.unit)}"
    return f"{plain(listing.function) or '??'}{location}{parts}{cost}"


def ending(listing: ListingData, names: dict[str, str]) -> Iterator[str]:
    """Yield where each source was found, and notes."""
    if listing.sources or listing.notes:
        yield ""
    for file, source in listing.sources.items():
        checked = ", MD5 matches" if source.verified else ""
        yield f"{plain(names.get(file, file))} is {plain(file)}, from {plain(source.origin)}{checked}"
    for note in listing.notes:
        yield f"note: {plain(note)}"


def short_names(listing: ListingData) -> dict[str, str]:
    """Return the name of each file, or its path if several files have that name."""
    files = {line.file for line in listing.lines if line.file} | {listing.file} - {""}
    count: dict[str, int] = {}
    for file in files:
        name = os.path.basename(file) or file
        count[name] = count.get(name, 0) + 1
    return {file: name if count[name := os.path.basename(file) or file] == 1 else file for file in sorted(files)}


def source_line(listing: ListingData, frame: Frame, depth: int, names: dict[str, str]) -> str:
    """Return the line of a frame, with its source."""
    source = listing.sources.get(frame.file)
    text = source.line(frame.line) if source is not None else None
    return line_text(frame.function, frame.file, frame.line, depth, text, names)


def line_text(function: str, file: str, line: int, depth: int, text: str | None, names: dict[str, str]) -> str:
    """Return FILE:LINE and the source; inlined lines are indented and name their function."""
    location = f"{plain(names.get(file, file)) or '??'}:{line or NO_SOURCE}"
    inlined = f" {plain(function)} (inlined)" if depth else ""
    source = f" | {plain(text.expandtabs(TAB))}" if text is not None else ""
    return f"{'    ' * depth}{location}{inlined}{source}".rstrip()


def labels_of(instructions: Iterable[Instruction]) -> dict[int, str]:
    """Return labels for the targets of jumps inside a listing, in order of vaddr."""
    rows = list(instructions)
    starts = {row.vaddr for row in rows}
    targets = sorted({row.target for row in rows if row.is_jump and row.target in starts})
    return {target: f"L{number}" for number, target in enumerate(targets, 1)}


def instruction_text(instruction: Instruction, labels: dict[int, str]) -> str:
    """Return the instruction; a jump inside the listing names the label of its target."""
    label = labels.get(instruction.target) if instruction.is_jump else None
    return (instruction._replace(target_name=label) if label else instruction).text


def shown_bytes(code: bytes) -> str:
    """Return bytes in hex, as wide as most instructions need."""
    return code.hex(" ").ljust(3 * CODE_BYTES_SHOWN - 1)


def cost_gap(listing: ListingData, cells: int = 1) -> str:
    return " " * (COST_WIDTH * cells) if listing.type else ""


def cost_cell(listing: ListingData, value: int, line: ListedLine | None = None) -> str:
    """Return a cost as a column, "." for 0; nothing without a profile."""
    if not listing.type:
        return ""
    text = amount(value, listing.unit) if value else "."
    return f"{text:>{COST_WIDTH - 1}} "
