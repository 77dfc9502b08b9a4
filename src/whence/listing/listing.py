"""The public class Listing: what it has, as text, HTML, JSON and an Arrow table."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from whence.lidia.results import imported
from whence.listing.model import Instruction, ListedLine, ListingData
from whence.listing.text import annotated, listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow


class Listing(ListingData):
    """The code of a function, or of a range of addresses: instructions and lines in order, with costs.

    Attributes:
        function, file, line: the function's name, and where it is declared; "" and 0 if unknown.
        spans: [start, end) of its parts, in vaddrs.
        instructions: in order of vaddr, part by part; none if there is no code.
        lines: source lines in order, inlined ones after the line of their call.
        sources: the source files by the paths in the debug info; only files that were found.
        type, unit: of the costs; "" without a profile.
        self_cost, cost: of the function itself, and with everything it calls.
        total: the sum of all samples of the profile.
        notes: what is missing, and why.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """Return the instructions with the source line above each group; without instructions, the lines."""
        return "\n".join(annotated(self) if self.instructions else listed(self)) + "\n"

    def as_json(self) -> dict[str, object]:
        """Return a JSON object. Addresses are hex text, because JSON readers round 64-bit numbers."""
        return {
            "function": self.function,
            "file": self.file,
            "line": self.line,
            "spans": [[hex(start), hex(end)] for start, end in self.spans],
            "type": self.type,
            "unit": self.unit,
            "self": self.self_cost,
            "cost": self.cost,
            "total": self.total,
            "instructions": list(map(instruction_json, self.instructions)),
            "lines": [line._asdict() for line in self.lines],
            "sources": {
                path: {"origin": source.origin, "verified": source.verified} for path, source in self.sources.items()
            },
            "notes": self.notes,
        }

    def to_arrow(self) -> pyarrow.Table:
        """Return a pyarrow Table with a row for each instruction; without instructions, for each line.

        Raises ImportError without pyarrow.
        """
        pa = imported("pyarrow", "Listing.to_arrow", "arrow")
        if not self.instructions:
            return pa.table(columns_of(self.lines, ListedLine._fields))
        names = ("vaddr", "code", "mnemonic", "operands", "target", "target_name", "is_jump", "is_call", "self")
        columns = columns_of(self.instructions, names)
        columns["vaddr"], columns["target"] = (pa.array(columns[name], pa.uint64()) for name in ("vaddr", "target"))
        inner = [instruction.frames[0] if instruction.frames else None for instruction in self.instructions]
        columns["function"] = [frame.function if frame else "" for frame in inner]
        columns["file"] = [frame.file if frame else "" for frame in inner]
        columns["line"] = pa.array([frame.line if frame else 0 for frame in inner], pa.uint32())
        columns["depth"] = [max(len(instruction.frames) - 1, 0) for instruction in self.instructions]
        return pa.table(columns)

    def _repr_html_(self) -> str:
        """Return the text as HTML, as notebooks show it."""
        return f"<pre>{escape(str(self))}</pre>"


def columns_of(rows: Iterable[tuple[object, ...]], names: Iterable[str]) -> dict[str, object]:
    """Return named fields of tuples as columns."""
    kept = list(rows)
    return {name: [getattr(row, name) for row in kept] for name in names}


def instruction_json(instruction: Instruction) -> dict[str, object]:
    return {
        "vaddr": hex(instruction.vaddr),
        "bytes": instruction.code.hex(),
        "mnemonic": instruction.mnemonic,
        "operands": instruction.operands,
        "target": hex(instruction.target) if instruction.target else "",
        "target_name": instruction.target_name,
        "self": instruction.self,
        "frames": [
            {"function": frame.function, "file": frame.file, "line": frame.line, "inlined": frame.inlined}
            for frame in instruction.frames
        ],
    }
