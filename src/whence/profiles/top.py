"""The functions with the highest values of a profile, as a table for a terminal.

A function's self value is that of the samples that end in it; its total value that of the samples whose stack has it,
also once if the function is in the stack several times. A function is a name, a file and a binary: its lines share a
row. Each address without a name has a row of its own, with the reason.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from whence._base.amounts import amount
from whence._base.errors import plain
from whence._base.html import html_table
from whence.samples import bounds
from whence.samples.model import NO_TYPE, ProfileData, SampleType
from whence.samples.stacks import DisplayFrame, ProfileStacks, shortened

ROWS = 30  # by default
SORTS = ("self", "total")
NAME_WIDTH, FILE_WIDTH = 90, 60  # columns of a terminal
HEAD = ("self", "", "total", "", "function", "file", "binary", "reason")


class TopRow(NamedTuple):
    """A function with its values; `reason` says why it has no name."""

    self: int
    total: int
    function: str
    file: str = ""
    binary: str = ""
    reason: str = ""


class Top(NamedTuple):
    """Functions in order, and the number of all functions; the values are of one sample type, `total` is their sum.

    For a difference of profiles `base` is the sum of the older profile, of which shares are computed.
    """

    rows: list[TopRow]
    functions: int
    type: str
    unit: str
    total: int
    base: int | None = None

    def __str__(self) -> str:
        """Return the table that `whence profile --format top` prints."""
        return text(self)

    def __repr__(self) -> str:
        return f"<profiles.Top: {len(self.rows):,} of {self.functions:,} functions by {self.type}>"

    def _repr_html_(self) -> str:
        """Return the table as HTML, for notebooks."""
        total = abs(self.total if self.base is None else self.base)
        rows = [
            (
                amount(row.self, self.unit), share(row.self, total), amount(row.total, self.unit),
                share(row.total, total), row.function, row.file, row.binary, row.reason,
            )
            for row in self.rows
        ]  # fmt: skip
        caption = f"{self.type}: {amount(self.total, self.unit)} in {self.functions:,} functions"
        return html_table(("self", "self %", "total", "total %", "function", "file", "binary", "reason"), rows, caption)


def top(profile: ProfileData, rows: int = ROWS, sort: str = "self", *, kind: int | None = None) -> Top:
    """Return the functions with the highest values of a sample type; of a difference, the largest changes.

    Args:
        profile: a profile whose locations have names.
        rows: number of functions; 0 for all.
        sort: "self" or "total".
        kind: index of the sample type (default: the profile's default type).
    """
    if sort not in SORTS:
        raise ValueError(f"unknown order {sort!r}: functions are sorted by self or total")
    every, sum_of_all = functions(profile, kind)
    weight = {"self": by_self, "total": by_total}[sort]
    order = sorted(every, key=lambda row: (*weight(row), row[2:]))
    type = type_of(profile, kind)
    kind = profile.default_type if kind is None else kind
    base = sum(profile.samples.base[kind]) if kind < len(profile.samples.base) else None
    return Top(order[:rows] if rows else order, len(every), type.type or "samples", type.unit, sum_of_all, base)


def by_self(row: TopRow) -> tuple[int, int]:
    return -abs(row.self), -abs(row.total)


def by_total(row: TopRow) -> tuple[int, int]:
    return -abs(row.total), -abs(row.self)


def type_of(profile: ProfileData, kind: int | None = None) -> SampleType:
    """Return a sample type by its index (default: the profile's default type); an empty one if it does not exist."""
    kind = profile.default_type if kind is None else kind
    return profile.sample_types[kind] if kind < len(profile.sample_types) else NO_TYPE


def functions(profile: ProfileData, kind: int | None = None) -> tuple[list[TopRow], int]:
    """Return every function with its self and total values, and the sum of all samples."""
    kind = profile.default_type if kind is None else kind
    samples = profile.samples
    column: Sequence[int] = samples.values[kind] if kind < len(samples.values) else ()
    weight = array("q", bytes(8 * (len(samples.first) - 1)))
    for stack, value in zip(samples.of, column):
        weight[stack] += value
    stacks = ProfileStacks(profile, "a table of functions")
    numbers: dict[tuple[str, str, str, str], int] = {}
    rows: list[DisplayFrame] = []
    cache: dict[int, tuple[int, ...]] = {}  # the functions of a location, innermost first

    def functions_of(location: int) -> tuple[int, ...]:
        out = []
        for frame in reversed(stacks.frames(location)):
            number = numbers.setdefault((frame.name, frame.file, frame.binary, frame.reason), len(rows))
            if number == len(rows):
                stacks.budget.charge(bounds.FRAME)
                rows.append(frame)
            out.append(number)
        return tuple(out)

    self_values: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    for stack, value in enumerate(weight):
        locations = samples.locations_of(stack) if value else None
        if not locations:
            continue
        in_stack: set[int] = set()
        for location in locations:
            if location not in cache:
                cache[location] = functions_of(location)
            in_stack.update(cache[location])
        self_values[cache[locations[0]][0]] += value
        for number in in_stack:
            totals[number] += value
    out = [
        TopRow(self_values[number], total, frame.name, frame.file, frame.binary, frame.reason)
        for number, total in totals.items()
        for frame in [rows[number]]
    ]
    return out, sum(column)


def share(value: int, total: int) -> str:
    return f"{100 * value / total:.1f}%" if total else "-"


def text(table: Top) -> str:
    """Return the table: a line with the sum, then a line for each function."""
    count = f"{table.functions:,} function{'' if table.functions == 1 else 's'}"
    shown = "" if len(table.rows) == table.functions else f", {len(table.rows):,} of them below"
    total = abs(table.total if table.base is None else table.base)
    summary = plain(amount(table.total, table.unit))
    if table.base is not None:
        changed = f"{summary if table.total < 0 else f'+{summary}'} ({share(table.total, total)})"
        summary = f"{changed} since {plain(amount(table.base, table.unit))},"
    lines = [f"{plain(table.type)}: {summary} in {count}{shown}"]
    cells = [HEAD]
    cells += [
        (
            plain(amount(row.self, table.unit)),
            share(row.self, total),
            plain(amount(row.total, table.unit)),
            share(row.total, total),
            shortened(plain(row.function), NAME_WIDTH),
            shortened(plain(row.file), FILE_WIDTH) or "-",
            plain(row.binary) or "-",
            plain(row.reason),
        )
        for row in table.rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    for line in cells:
        fields = [cell.rjust(width) for cell, width in zip(line[:4], widths)]
        fields += [cell.ljust(width) for cell, width in zip(line[4:], widths[4:], strict=True)]
        lines.append("  ".join(fields).rstrip())
    return "\n".join(lines) + "\n"


def write(profile: ProfileData, rows: int = ROWS, sort: str = "self") -> str:
    return text(top(profile, rows, sort))
