"""How much of an ELF file is read for a query: some units of its debug info, or all of it.

A query that needs few units makes a small table of them, which is cached. A query that needs many, or follows many
others, builds the whole table, after which nothing is read again. `whence explain` prints the decision and its reason.
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
    """The part of a file that is read for a query."""

    WHOLE = "whole"  # every source of names, once
    UNITS = "units"  # the units that can hold the addresses, and all symbols
    NEAR = "near"  # the units that can hold the addresses, and the symbols at them


class Plan(Record, frozen=True):
    """What to read for a query, and why. `units` are offsets in .debug_info."""

    read: Read
    units: tuple[int, ...]
    why: str

    def __str__(self) -> str:
        return f"{self.read}: {self.why}"


class Planner:
    """Decides for the queries of one file, in their order. `made` is the number of tables of units so far."""

    def __init__(self) -> None:
        self.made = 0

    def __repr__(self) -> str:
        return f"<Planner: {self.made} tables of units made>"

    def plan(
        self, addresses: int, units_at: Callable[[], Sequence[int]], unit_count: Callable[[], int], packed: bool
    ) -> Plan:
        """Return what to read for a number of addresses.

        Args:
            addresses: how many there are.
            units_at: returns the units that can contain them.
            unit_count: returns the number of all units.
            packed: True if .debug_info is still to be decompressed.
        """
        if packed and addresses > MANY:
            return Plan(Read.WHOLE, (), f"{addresses:,} addresses, more than {MANY:,}, in compressed debug info")
        if packed and self.made:
            return Plan(Read.WHOLE, (), "second query of compressed debug info")
        units, every = tuple(units_at()), unit_count()
        share = f"{len(units):,} of {every:,} units can hold the addresses"
        if len(units) * WHOLE_AT_SHARE > every:
            return Plan(Read.WHOLE, units, f"{share}, more than 1 in {WHOLE_AT_SHARE}")
        if self.made >= WHOLE_AFTER_SHARDS:
            return Plan(Read.WHOLE, units, f"{self.made} earlier queries built their own tables")
        if not self.made and addresses <= FEW:  # the first question is often the only one
            return Plan(Read.NEAR, units, f"{share}; first query, at most {FEW} addresses")
        return Plan(Read.UNITS, units, share)
