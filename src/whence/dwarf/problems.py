"""What is wrong with units: the faults that kernels return, as errors, and how many of them are kept."""

from __future__ import annotations

from collections.abc import Iterable

from whence._base.errors import DwarfError, ObjectError
from whence.dwarf.kernels import units as kernel

MOST = 1000  # problems of one kind of work that are kept

RULES = {  # what was found, where the unit's row has no number for it, and the rule that it breaks
    kernel.BAD_LENGTH: ("an end beyond it", "a unit's length stays inside the section"),
    kernel.BAD_VERSION: ("", "the version of a unit is 2, 3, 4 or 5"),
    kernel.BAD_ADDRESS_SIZE: ("", "the address size of a unit is 2, 4 or 8"),
    kernel.BAD_UNIT_TYPE: (
        "",
        "the type of a unit is one of DW_UT_compile, type, partial, skeleton, split_compile, split_type",
    ),
    kernel.SHORT_HEADER: ("too few bytes", "a unit's header fits in the unit"),
    kernel.NO_ROOT_ABBREV: ("another code", "the root DIE's abbreviation is in the unit's table"),
    kernel.BAD_ROOT: ("attributes beyond its end", "the root DIE fits in the unit"),
    kernel.COSTLY_ROOT: (
        "more",
        "the root DIE's abbreviation has no more attributes before it and in it than the unit's bytes justify",
    ),
    kernel.TOO_MANY_UNITS: ("more", "a file has at most 65,536 units and one more for each 8 of its bytes"),
    kernel.BAD_DIE: ("attributes beyond its end", "a DIE's attributes fit in the unit"),
    kernel.NO_ABBREV: ("another code", "a DIE's code is in the unit's abbreviation table"),
    kernel.BAD_ABBREVS: ("another form, or no end", "the abbreviation table is whole and its forms are known"),
    kernel.COSTLY_ABBREVS: (
        "tables that too many units share",
        "abbreviation tables are not read more often than the bytes of their units justify",
    ),
    kernel.BAD_RANGE_LIST: ("another entry, or no end", "a range list ends inside its section and has known entries"),
    kernel.COSTLY_RANGE_LISTS: (
        "lists that overlap",
        "range lists are not read more often than their bytes justify",
    ),
    kernel.COSTLY_NAMES: (
        "more",
        "names are not looked for in more attributes than the bytes of their units justify",
    ),
}
COLUMN_OF_FAULT = {  # where the unit's row has the number that breaks the rule
    kernel.BAD_VERSION: kernel.VERSION,
    kernel.BAD_ADDRESS_SIZE: kernel.ADDRESS_SIZE,
    kernel.BAD_UNIT_TYPE: kernel.KIND,
}


class Problems(list[DwarfError | ObjectError]):
    """What is wrong, as errors: at most MOST of them, and one for all others."""

    @property
    def full(self) -> bool:
        return len(self) > MOST

    def append(self, error: DwarfError | ObjectError, /) -> None:
        """Keep it, while there is room."""
        if len(self) < MOST:
            super().append(error)
        elif len(self) == MOST:
            rule = f"at most {MOST} problems are listed"
            super().append(
                DwarfError("debug_info", None, rule, "more", fault=f"dwarf debug_info: {rule}, there are more")
            )

    def extend(self, errors: Iterable[DwarfError | ObjectError], /) -> None:
        """Keep these, while there is room."""
        for error in errors:
            self.append(error)

    def __iadd__(self, errors: Iterable[DwarfError | ObjectError], /) -> Problems:  # type: ignore[override,misc]
        self.extend(errors)
        return self


def unit_problem(
    fault: int, offset: int, index: int, name: str, found: int | None = None, *, part: str = "debug_info"
) -> DwarfError:
    """The error for a fault of a unit (its index and name) at an offset of its section. `found` is the number that is
    wrong, where there is one. MemoryError when memory was what lacked."""
    if fault == kernel.OUT_OF_MEMORY:
        raise MemoryError
    what, rule = RULES[fault]
    error = DwarfError(part, offset, rule, what if found is None else found)
    error.add_note(f"in unit {index}, {name or 'without a name'}")
    return error
