"""Units: the headers of .debug_info and what their root DIEs say, as rows of numbers.

A row has WIDTH numbers (shared.pxd names the same places for kernels); `Unit` is one row for a person. DWARF 5,
sections 7.5.1 and 3.1.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import overload

from whence.dwarf.kernels import constants
from whence.ranges.strings import StringSpace
from whence.records import Record

(
    OFFSET, END, DIE, ABBREV, VERSION, ADDRESS_SIZE, OFFSET_SIZE, KIND, SIGNATURE, TAG, LANGUAGE, NAME, COMP_DIR,
    STMT_LIST, LOW, HIGH, RANGES, STR_BASE, ADDR_BASE, RNG_BASE, RANGES_BASE, DWO_NAME, HAS, FAULT, FAULT_AT,
    SKELETON_RANGES_BASE,
) = range(26)  # fmt: skip
WIDTH = 26

DWARF64 = 0xFFFFFFFF  # the unit_length that eight bytes of length follow (7.4)

HAS_STMT_LIST, HAS_LOW, HAS_HIGH, HAS_RANGES = 1, 2, 4, 8
TYPE_KINDS = (constants.DW_UT_type, constants.DW_UT_split_type)


class Unit(Record, frozen=True):
    """A unit of .debug_info: [offset, end) in bytes there. `kind` is DW_UT_* (1 compile, 3 partial, 4 skeleton ...);
    `dwo_name` and `dwo_id` say where a skeleton's DIEs are; `line_offset` counts in .debug_line (None: no lines)."""

    index: int
    offset: int
    end: int
    version: int
    address_size: int
    kind: int
    language: int
    name: str
    comp_dir: str
    dwo_name: str
    dwo_id: int
    line_offset: int | None


class Units(Sequence[Unit]):
    """The units of one section, in order; `rows` are their numbers."""

    def __init__(self, rows: array[int], strings: StringSpace) -> None:
        self.rows, self._strings = rows, strings

    def __len__(self) -> int:
        return len(self.rows) // WIDTH

    def value(self, index: int, field: int) -> int:
        return self.rows[index * WIDTH + field]

    def column(self, field: int) -> array[int]:
        """One number of every unit."""
        return self.rows[field::WIDTH]

    @overload
    def __getitem__(self, index: int) -> Unit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Unit]: ...
    def __getitem__(self, index: int | slice) -> Unit | Sequence[Unit]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} units")
        index %= len(self)
        row = self.rows[index * WIDTH : (index + 1) * WIDTH]
        # Before version 5 only the tag tells.
        kind = constants.DW_UT_partial if row[TAG] == constants.DW_TAG_partial_unit else row[KIND]
        text = self._strings.text
        return Unit(
            index, row[OFFSET], row[END], row[VERSION], row[ADDRESS_SIZE], kind, row[LANGUAGE], text(row[NAME]),
            text(row[COMP_DIR]), text(row[DWO_NAME]), row[SIGNATURE],
            row[STMT_LIST] if row[HAS] & HAS_STMT_LIST else None,
        )  # fmt: skip
