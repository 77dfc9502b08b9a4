"""Units: the headers and root DIEs of .debug_info as rows of numbers, and sets of units that are read together.

A set has all units of a file, or the few that a query needs. A row has WIDTH numbers (kernels/units.pxd names them, for
kernels and Python); `Unit` is one row for a person. DWARF 5, sections 7.5.1 and 3.1.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence

from whence._base.errors import DwarfError
from whence._base.forks import cached_property
from whence._base.options import DEFAULTS, ReadOptions
from whence._base.records import Record
from whence._base.window import ByteOrder
from whence.dwarf.kernels import constants
from whence.dwarf.kernels import units as units_kernel
from whence.dwarf.kernels.units import (
    ADDRESS_SIZE,
    COMP_DIR,
    DWO_NAME,
    END,
    FAULT,
    FAULT_AT,
    HAS,
    HAS_STMT_LIST,
    KIND,
    LANGUAGE,
    NAME,
    OFFSET,
    SIGNATURE,
    STMT_LIST,
    TAG,
    VERSION,
    WIDTH,
)
from whence.dwarf.problems import COLUMN_OF_FAULT, unit_problem
from whence.dwarf.sections import Sections
from whence.kernels.rows import ascending
from whence.objects.interface import ObjectFile
from whence.ranges import Rows, Scopes
from whence.ranges.kernels import order as order_kernel
from whence.ranges.overlay import by_key
from whence.ranges.strings import StringSpace
from whence.ranges.table import zeros

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import overload

    from whence.kernels.columns import Column

else:

    def overload(declared):
        return declared


TYPE_KINDS = (constants.DW_UT_type, constants.DW_UT_split_type)

BATCH = 2 << 20  # bytes of .debug_info that a thread reads at once, at most
BATCHES = 4  # for each thread of a smaller section, so that threads end at about the same time

FEWEST = 1 << 16  # units that every file may have, and one for each BYTES
BYTES = 8  # of the stored file; the smallest units, of dwz, have about 30

NOTHING = memoryview(b"")
NO_BASES: Mapping[int, Mapping[int, int]] = {}


class Unit(Record, frozen=True):
    """A unit of .debug_info: [offset, end) in bytes of that section.

    `kind` is DW_UT_* (1 compile, 3 partial, 4 skeleton ...); `dwo_name` and `dwo_id` identify the split unit of a
    skeleton; `line_offset` is an offset in .debug_line (None: no lines).
    """

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

    def __repr__(self) -> str:
        return f"<Units: {len(self)}>"

    def __len__(self) -> int:
        return len(self.rows) // WIDTH  # type: ignore[no-any-return]

    def value(self, index: int, column: int) -> int:
        """Return one number of a unit."""
        return self.rows[index * WIDTH + column]  # type: ignore[no-any-return]

    def row(self, index: int) -> array[int]:
        """Return a copy of all numbers of a unit."""
        return self.rows[index * WIDTH : (index + 1) * WIDTH]

    def column(self, column: int) -> array[int]:
        """Return one number of every unit."""
        return self.rows[column::WIDTH]

    @overload
    def __getitem__(self, index: int) -> Unit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Unit]: ...  # noqa: F811
    def __getitem__(self, index: int | slice) -> Unit | Sequence[Unit]:  # noqa: F811
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"unit {index} of {len(self)}")
        index %= len(self)
        row = self.row(index)
        # Before version 5 partial units differ by their tags alone.
        kind = constants.DW_UT_partial if row[TAG] == constants.DW_TAG_partial_unit else row[KIND]
        text = self._strings.text
        return Unit(
            index, row[OFFSET], row[END], row[VERSION], row[ADDRESS_SIZE], kind, row[LANGUAGE], text(row[NAME]),
            text(row[COMP_DIR]), text(row[DWO_NAME]), row[SIGNATURE],
            row[STMT_LIST] if row[HAS] & HAS_STMT_LIST else None,
        )  # fmt: skip


class DwarfFile(Record):
    """The state that readers of a file's units need besides its sections.

    `code`: where code can be, as [start, end) pairs in ascending order. `alt`: the units of the supplementary file
    (None: this is one). `most_units`: how many units are read at most, as each needs the memory of a row.
    """

    strings: StringSpace
    order: ByteOrder
    code: array[int]
    go: bool = False
    read: ReadOptions = DEFAULTS  # names, paths, columns and skip_line_zero are used
    most_units: int = FEWEST
    alt: UnitSet | None = None

    @property
    def alt_sections(self) -> Sections | None:
        return None if self.alt is None else self.alt.sections

    @property
    def lowest(self) -> int:
        """The lowest vaddr that can be code; line sequences that start below it are of dropped sections."""
        return self.code[0]


def most_units(elf: ObjectFile | None) -> int:
    """Return how many units of a file are read at most."""
    return FEWEST + (elf.size // BYTES if elf is not None else 0)


class UnitRanges:
    """The ranges of the root DIEs of units, by unit and by address.

    A unit without ranges, or with a broken list, can contain any address; a partial unit (dwz) without ranges contains
    none. A unit of version 2, which has no range lists, can contain any address if .debug_aranges gives it more than
    the one range of its root: clang's assembler and gcc -gstrict-dwarf write the range of the first section only.
    """

    def __init__(self, sections: units_kernel.DwarfSections, units: Units, aranges: memoryview) -> None:
        self._ranges = units_kernel.UnitRangeColumns(sections, units.rows, aranges)
        order = by_key(self._ranges.ends.numbers())
        scratch = zeros("I", len(order))
        in_scratch = order_kernel.order(self._ranges.starts.numbers(), order, scratch, False)
        self._ranges.index(scratch if in_scratch else order)
        self._unlimited = self._ranges.unlimited(units.rows)

    def __repr__(self) -> str:
        return repr(self._ranges)

    @property
    def columns(self) -> tuple[Column, Column, Column]:
        """Start, end and unit (a row) of each range, unit after unit."""
        return self._ranges.starts, self._ranges.ends, self._ranges.owners

    @property
    def unlimited(self) -> list[int]:
        """The units (rows) that can contain any address."""
        return [index for index, flag in enumerate(self._unlimited) if flag]

    def units_at(self, vaddrs: Iterable[int]) -> list[int]:
        """Return the units (rows) that can contain any of the vaddrs, in order."""
        flags = bytearray(self._unlimited)
        self._ranges.mark(ascending(array("Q", vaddrs))[0].numbers(), flags)
        return [index for index, flag in enumerate(flags) if flag]

    def clip(
        self, units: array[int], unit_ends: array[int], scopes: Scopes, scope_ends: array[int], rows: Rows,
        row_ends: array[int],
    ) -> tuple[Rows, array[int]]:  # fmt: skip
        """Return the line rows of groups of units that are in the ranges of the units or in their functions.

        All rows of a group are returned if a unit has no ranges. `*_ends` are the ends of each group's units, scopes
        and rows; the second result is the end of each group's rows in the result.
        """
        clipper = units_kernel.RowClipper()
        ends = array("I", bytes(4 * len(row_ends)))
        clipper.run(self._ranges, units, unit_ends, scopes, scope_ends, rows, row_ends, ends)
        out = Rows(files=rows.files, locations=rows.locations)
        for name in ("vaddr", "file", "line"):
            getattr(out, name).frombytes(getattr(clipper, name))
        return out, ends


class UnitSet:
    """Rows of units, with the sections that they are read from. DIEs of units outside the set have no names.

    `kernel` has the sections and rows for kernels; `whole` is True for all units of a file.
    """

    def __init__(
        self,
        file: DwarfFile,
        sections: Sections,
        offsets: Sequence[int] | None = None,
        *,
        aranges: memoryview = NOTHING,
        section: int = units_kernel.INFO_SECTION,
        bases: Mapping[int, Mapping[int, int]] = NO_BASES,
        type_bases: Mapping[int, Mapping[int, int]] = NO_BASES,
    ) -> None:
        """Read the headers and root DIEs of every unit, or of the units at ascending offsets.

        Args:
            file, sections: the file of the units, and its sections.
            offsets: of the units in .debug_info; None for all units.
            aranges: the bytes of .debug_aranges.
            section: SPLIT_SECTION or TYPES_SECTION if `sections.debug_info` is one of these.
            bases: what to add to numbers of units of a package, by offset and column.
            type_bases: what to add to numbers of the units of .debug_types.
        """
        self.file, self.sections, self._aranges = file, sections, aranges
        self._part = ".debug_types" if section == units_kernel.TYPES_SECTION else ".debug_info"
        self.complete = offsets is None
        self._type_bases = type_bases
        self.kernel = sections.for_kernels(file.strings, file.order, file.code)
        if offsets is None:
            rows = array("Q", bytes(8 * WIDTH * units_kernel.count_units(self.kernel, file.most_units)))
            units_kernel.read_headers(self.kernel, rows, section, file.most_units)
        else:
            rows = array("Q", bytes(8 * WIDTH * len(offsets)))
            units_kernel.read_headers_at(self.kernel, array("Q", offsets), rows)
        if bases:
            for row in range(0, len(rows), WIDTH):
                for column, base in bases.get(rows[row + OFFSET], {}).items():
                    rows[row + column] += base
        units_kernel.read_roots(self.kernel, self.alt.kernel, rows)
        self.kernel.set_units(rows)
        self.units = Units(rows, file.strings)

    def __repr__(self) -> str:
        return f"<UnitSet of {len(self.units)} units{', all of the file' if self.complete else ''}>"

    @property
    def alt(self) -> UnitSet:
        """The units of the supplementary file; for a supplementary file, its own."""
        return self if self.file.alt is None else self.file.alt

    @cached_property
    def ranges(self) -> UnitRanges:
        """Return the ranges of the units' root DIEs."""
        return UnitRanges(self.kernel, self.units, self._aranges)

    @property
    def types(self) -> UnitSet | None:
        """The type units of .debug_types, read at the first use; None without that section."""
        if self.sections.types is None and len(self.sections.debug_types):
            sections = self.sections.of_types(self.file.strings)
            self.sections.types = UnitSet(
                self.file, sections, section=units_kernel.TYPES_SECTION, bases=self._type_bases
            )
        types: UnitSet | None = self.sections.types
        return types

    def prepare(self) -> None:
        """Read what threads share."""
        self.ranges  # noqa: B018

    def problems(self) -> Iterator[DwarfError]:
        """Yield the errors in headers and root DIEs."""
        units = self.units
        for index, fault in enumerate(units.column(FAULT)):
            if fault:
                value = units.value(index, COLUMN_OF_FAULT[fault]) if fault in COLUMN_OF_FAULT else None
                name = self.file.strings.text(units.value(index, NAME))
                yield unit_problem(fault, units.value(index, FAULT_AT), index, name, value, part=self._part)

    def rows_at(self, offsets: Iterable[int]) -> list[int]:
        """Return the rows of the units at these offsets, as far as they are in the set."""
        number = {offset: index for index, offset in enumerate(self.units.column(OFFSET))}
        return [number[offset] for offset in offsets if offset in number]

    def batches(self, chosen: Iterable[int], jobs: int = 1) -> Iterator[list[list[int]]]:
        """Yield batches for `jobs` threads of groups of units that share a line program (nearly always one unit)."""
        groups: dict[int, list[int]] = {}
        rows = self.units.rows
        for index in chosen:
            row = index * WIDTH
            if rows[row + FAULT] or rows[row + KIND] in TYPE_KINDS:
                continue
            if rows[row + HAS] & HAS_STMT_LIST and rows[row + TAG] != constants.DW_TAG_partial_unit:
                groups.setdefault(rows[row + STMT_LIST], []).append(index)
            else:
                groups[-1 - index] = [index]
        sizes = [
            sum([rows[index * WIDTH + END] - rows[index * WIDTH + OFFSET] for index in group])
            for group in groups.values()
        ]
        enough = min(BATCH, sum(sizes) // (BATCHES * jobs))
        batch: list[list[int]] = []
        size = 0
        for group, more in zip(groups.values(), sizes):
            batch.append(group)
            size += more
            if size >= enough:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch
