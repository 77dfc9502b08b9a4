"""What is wrong with a unit, in words: the faults kernels return, as errors."""

from __future__ import annotations

from whence.errors import DwarfError

RULES = {
    1: "a unit's length stays inside the section",
    2: "the version of a unit is 2, 3, 4 or 5",
    3: "the address size of a unit is 2, 4 or 8",
    4: "the type of a unit is one of DW_UT_compile, type, partial, skeleton, split_compile, split_type",
    5: "a unit's header fits in the unit",
    6: "the root DIE's abbreviation is in the unit's table",
    7: "the root DIE fits in the unit",
    11: "a DIE's attributes fit in the unit",
    12: "a DIE's code is in the unit's abbreviation table",
    21: "the abbreviation table is whole and its forms are known",
    23: "abbreviation tables do not overlap",
    31: "a range list ends inside its section and has known entries",
    33: "range lists are not read more often than their bytes justify",
}
NO_MEMORY = (22, 32)


def problem(fault: int, offset: int, unit: int, name: str) -> DwarfError:
    """The error for a fault of a unit at an offset of .debug_info."""
    if fault == 102 or fault in NO_MEMORY:
        raise MemoryError
    error = DwarfError("debug_info", offset, RULES.get(fault, f"fault {fault}"))
    error.add_note(f"in unit {unit}, {name or 'without a name'}")
    return error
