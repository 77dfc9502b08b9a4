"""What units claim to hold, by the ranges of their root DIEs."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import accumulate

from whence.dwarf import units
from whence.dwarf.kernels import aranges as aranges_kernel
from whence.dwarf.kernels import claims as claims_kernel
from whence.dwarf.kernels import constants
from whence.dwarf.kernels import rangelist as rangelist_kernel
from whence.dwarf.kernels.parts import Parts
from whence.dwarf.units import Units
from whence.ranges import Rows, Scopes
from whence.ranges.overlay import by_key


class Claims:
    """The spans of all units, by unit and by address.

    A unit that claims nothing, or whose list is bad, can hold any address; only a partial unit (dwz's) then holds none.
    A unit of version 2, which has no range lists, can hold any address, too, when .debug_aranges tells of more than its
    span: clang's assembler and gcc -gstrict-dwarf give the span of the first section alone.
    """

    def __init__(self, parts: Parts, all_units: Units, aranges: memoryview) -> None:
        starts, ends, owners, says = rangelist_kernel.unit_spans(parts, all_units.rows)
        self._start, self._end = array("Q", bytes(starts)), array("Q", bytes(ends))
        self._owner = array("I", bytes(owners))
        if len(aranges) and 2 in all_units.column(units.VERSION):
            aranges_kernel.beyond(aranges, parts, all_units.rows, says)
        self._says = says
        self._first = array("I", bytes(4 * (len(says) + 1)))
        for owner in self._owner:
            self._first[owner + 1] += 1
        self._first = array("I", accumulate(self._first))
        order = by_key(self._start)
        begin, whose = array("Q", bytes(16 * len(order))), array("I", bytes(8 * len(order)))
        rows = claims_kernel.cover(self._start, self._end, self._owner, order, begin, whose)
        self._holders = begin[:rows], whose[:rows]
        tags, faults = all_units.column(units.TAG), all_units.column(units.FAULT)
        self._open = bytes(
            said != 1 and tag not in (0, constants.DW_TAG_partial_unit) and not fault
            for said, tag, fault in zip(says, tags, faults)
        )

    def units_at(self, vaddrs: Iterable[int]) -> list[int]:
        """The units that can hold any of the vaddrs, in order."""
        wanted = bytearray(self._open)
        claims_kernel.mark(*self._holders, array("Q", vaddrs), wanted)
        return [index for index, flag in enumerate(wanted) if flag]

    def clip(
        self, units: array[int], unit_ends: array[int], scopes: Scopes, scope_ends: array[int], rows: Rows,
        row_ends: array[int],
    ) -> tuple[Rows, array[int]]:  # fmt: skip
        """The rows of groups of units that lie in what the units of the group claim, or in their functions (all rows,
        if one claims nothing), and where each group's end. `*_ends` say where the units, scopes and rows of each group
        end."""
        clipper = claims_kernel.Clipper()
        ends = array("I", bytes(4 * len(row_ends)))
        count = clipper.run(
            units, unit_ends, self._says, self._first, self._start, self._end, scopes.va, scopes.end, scopes.depth,
            scope_ends, rows.va, rows.file, rows.line, row_ends, ends,
        )  # fmt: skip
        out = Rows(array("Q", bytes(8 * count)), array("I", bytes(4 * count)), array("I", bytes(4 * count)), rows.files)
        clipper.take(out.va, out.file, out.line)
        return out, ends
