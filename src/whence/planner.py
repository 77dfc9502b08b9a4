"""How much of an ELF file is read for a question: some units of its debug info, or all of it once.

A question that needs few units makes a small table of them, which is kept for the next ones. One that needs many, or
comes after many, makes the whole table, after which nothing is read again. The decision has a name and a reason, which
`whence explain` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from whence._base.records import Record

WHOLE_AFTER_SHARDS = 24
FEW = 64  # addresses: a first question of no more is answered by the symbols at them, not by all
MANY = 1000  # addresses: debug info that has to be unpacked is read whole for more, and for a second question
WHOLE_AT_SHARE = 4  # a question that needs more than 1/4 of the units builds the whole table


class Read(StrEnum):
    """What is read for a question."""

    WHOLE = "whole"  # every source of names, once
    UNITS = "units"  # the units that can hold the addresses, and all symbols
    NEAR = "near"  # the units that can hold the addresses, and the symbols at them


class Plan(Record, frozen=True):
    """What to read for a question, and why. `units` are offsets in .debug_info."""

    read: Read
    units: tuple[int, ...]
    why: str

    def __str__(self) -> str:
        return f"{self.read}: {self.why}"


class Planner:
    """Decides for the questions to one file, in their order: `made` counts the tables of units so far."""

    def __init__(self) -> None:
        self.made = 0

    def __repr__(self) -> str:
        return f"<Planner: {self.made} tables of units made>"

    def plan(
        self, addresses: int, units_at: Callable[[], Sequence[int]], unit_count: Callable[[], int], packed: bool
    ) -> Plan:
        """What to read for so many addresses.

        `units_at` finds the units that can hold them, `unit_count` counts all; `packed` says that .debug_info is still
        to be unpacked.
        """
        if packed and addresses > MANY:
            return Plan(Read.WHOLE, (), f"{addresses:,} addresses, more than {MANY:,}, of debug info that is packed")
        if packed and self.made:
            return Plan(Read.WHOLE, (), "a second question to debug info that is packed")
        units, every = tuple(units_at()), unit_count()
        share = f"{len(units):,} of {every:,} units can hold the addresses"
        if len(units) * WHOLE_AT_SHARE > every:
            return Plan(Read.WHOLE, units, f"{share}, more than 1 in {WHOLE_AT_SHARE}")
        if self.made >= WHOLE_AFTER_SHARDS:
            return Plan(Read.WHOLE, units, f"{self.made} questions had tables of their own before")
        if not self.made and addresses <= FEW:  # the first question is often the only one
            return Plan(Read.NEAR, units, f"{share}; a first question, of at most {FEW} addresses")
        return Plan(Read.UNITS, units, share)
