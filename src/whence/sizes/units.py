"""The table of units: ranges of depth 0 that have the names of units instead of functions.

The ranges are those of the root DIEs of DWARF, of the object files of a debug map, or the contributions of modules of a
PDB file. A unit whose root has no ranges has those of its functions.
"""

from __future__ import annotations

from array import array

from whence._base.budget import Budget
from whence.ranges import Ranges
from whence.ranges.merge import merge
from whence.ranges.strings import Arena
from whence.ranges.table import zeros

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence.producers import Producers

NAMES_TIMES, NAMES_ALLOWANCE = 8, 1 << 24  # bytes of distinct names for each byte of the file


def unit_table(producers: Producers) -> Ranges:
    """Return the ranges of the units of debug info, in order; empty without debug info."""
    out = Ranges(producers.strings)
    info = producers.debug_info
    if info is None:
        return out
    starts, ends, owners = info.unit_ranges()
    arena = Arena(producers.strings)
    stored = producers.elf.size + producers.debug_elf.size
    budget = Budget("strings", "names of units", stored, times=NAMES_TIMES, allowance=NAMES_ALLOWANCE)
    names: dict[int, int] = {}
    for start, end, owner in zip(starts, ends, owners, strict=True):
        if owner not in names:
            raw = info.unit_name(owner).encode("utf-8", "surrogateescape")
            budget.charge(len(raw))
            names[owner] = arena.add(raw)
        out.vaddr.append(start)
        out.length.append(max(0, end - start))
        out.function.append(names[owner])
    arena.seal()
    fill(out)
    return merge([out])


def fill(table: Ranges) -> None:
    """Set the columns of a table that has vaddrs, lengths and functions alone."""
    rows = len(table.vaddr)
    for name, code in (("depth", "I"), ("line_index", "I"), ("line_count", "I"), ("call_line", "I")):
        setattr(table, name, zeros(code, rows))
    table.file, table.call_file, table.source = zeros("Q", rows), zeros("Q", rows), array("B", bytes(rows))
