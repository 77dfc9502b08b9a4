"""What is wrong with a unit, in words: the faults kernels return, as errors."""

from __future__ import annotations

from collections.abc import Iterable

from whence.errors import DwarfError, ElfError

MOST = 1000  # problems of one kind of work that are kept

RULES = {
    1: "a unit's length stays inside the section",
    2: "the version of a unit is 2, 3, 4 or 5",
    3: "the address size of a unit is 2, 4 or 8",
    4: "the type of a unit is one of DW_UT_compile, type, partial, skeleton, split_compile, split_type",
    5: "a unit's header fits in the unit",
    6: "the root DIE's abbreviation is in the unit's table",
    7: "the root DIE fits in the unit",
    8: "the root DIE's abbreviation has no more attributes before it and in it than the unit's bytes justify",
    9: "a file has at most 65,536 units and one more for each 8 of its bytes",
    11: "a DIE's attributes fit in the unit",
    12: "a DIE's code is in the unit's abbreviation table",
    21: "the abbreviation table is whole and its forms are known",
    23: "abbreviation tables are not read more often than the bytes of their units justify",
    31: "a range list ends inside its section and has known entries",
    33: "range lists are not read more often than their bytes justify",
    41: "names are not looked for in more attributes than the bytes of their units justify",
}
NO_MEMORY = (22, 32)


class Problems(list[DwarfError | ElfError]):
    """What is wrong, as errors: at most MOST of them, and one that says so."""

    @property
    def full(self) -> bool:
        return len(self) > MOST

    def append(self, error: DwarfError | ElfError, /) -> None:
        """Keep it, while there is room."""
        if len(self) < MOST:
            super().append(error)
        elif len(self) == MOST:
            super().append(DwarfError("debug_info", None, f"at most {MOST} problems are told one by one", "more"))

    def extend(self, errors: Iterable[DwarfError | ElfError], /) -> None:
        """Keep these, while there is room."""
        for error in errors:
            self.append(error)

    def __iadd__(self, errors: Iterable[DwarfError | ElfError], /) -> Problems:  # type: ignore[override,misc]
        self.extend(errors)
        return self


def problem(fault: int, offset: int, unit: int, name: str) -> DwarfError:
    """The error for a fault of a unit at an offset of .debug_info."""
    if fault == 102 or fault in NO_MEMORY:
        raise MemoryError
    error = DwarfError("debug_info", offset, RULES.get(fault, f"fault {fault}"))
    error.add_note(f"in unit {unit}, {name or 'without a name'}")
    return error
