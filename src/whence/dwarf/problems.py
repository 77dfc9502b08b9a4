"""Errors in units: the faults that kernels return, as exceptions, and how many of them are kept."""

from __future__ import annotations

from collections.abc import Iterable

from whence._base.errors import DwarfError, ObjectError
from whence.dwarf.kernels import units as kernel

MAX_PROBLEMS = 1000  # errors of one file that are kept

FAULTS = {  # by the kernel's number, with the value that is wrong
    kernel.BAD_LENGTH: "unit length extends past the end of the section",
    kernel.BAD_VERSION: "unit version {} is not supported (2 to 5 are)",
    kernel.BAD_ADDRESS_SIZE: "address size {} is not 2, 4 or 8",
    kernel.BAD_UNIT_TYPE: "unit type {:#x} is not one of the standard's DW_UT_*",
    kernel.SHORT_HEADER: "the unit is shorter than its header",
    kernel.NO_ROOT_ABBREV: "the abbreviation code of the root DIE is not in the unit's table",
    kernel.BAD_ROOT: "the root DIE extends past the end of the unit",
    kernel.COSTLY_ROOT: "finding the abbreviation of the root DIE takes more work than the size of the unit allows",
    kernel.TOO_MANY_UNITS: "more units than 65,536 and one for each 8 bytes of the file",
    kernel.BAD_DIE: "a DIE extends past the end of the unit",
    kernel.NO_ABBREV: "the abbreviation code of a DIE is not in the unit's table",
    kernel.BAD_ABBREVS: "the abbreviation table is cut off or has an unknown form",
    kernel.COSTLY_ABBREVS: "abbreviation tables are read more often than the size of their units allows",
    kernel.BAD_RANGE_LIST: "a range list is cut off or has an unknown entry",
    kernel.COSTLY_RANGE_LISTS: "range lists are read more often than their size allows",
    kernel.COSTLY_NAMES: "finding names takes more work than the size of the units allows",
}
COLUMN_OF_FAULT = {  # the column of the unit table that has the value
    kernel.BAD_VERSION: kernel.VERSION,
    kernel.BAD_ADDRESS_SIZE: kernel.ADDRESS_SIZE,
    kernel.BAD_UNIT_TYPE: kernel.KIND,
}


class Problems(list[DwarfError | ObjectError]):
    """A list of at most MAX_PROBLEMS errors, and one more that says that there were others."""

    @property
    def full(self) -> bool:
        return len(self) > MAX_PROBLEMS

    def append(self, error: DwarfError | ObjectError, /) -> None:
        """Append an error, unless the list is full."""
        if len(self) < MAX_PROBLEMS:
            super().append(error)
        elif len(self) == MAX_PROBLEMS:
            super().append(
                DwarfError(".debug_info", None, f"more than {MAX_PROBLEMS} problems; the others are not listed")
            )

    def extend(self, errors: Iterable[DwarfError | ObjectError], /) -> None:
        """Append errors until the list is full."""
        for error in errors:
            self.append(error)

    def __iadd__(self, errors: Iterable[DwarfError | ObjectError], /) -> Problems:  # type: ignore[override,misc]
        self.extend(errors)
        return self


def unit_problem(
    fault: int, offset: int, index: int, name: str, value: int | None = None, *, part: str = ".debug_info"
) -> DwarfError:
    """Return the error for a fault at an offset of a section, in the unit with an index and a name.

    `value` is the number that is wrong, if there is one. Raises MemoryError if memory ran out.
    """
    if fault == kernel.OUT_OF_MEMORY:
        raise MemoryError
    error = DwarfError(part, offset, FAULTS[fault].format(value))
    error.add_note(f"in unit {index}, {name or 'without a name'}")
    return error
