"""The functions of a profile that have most of it, as a table for a terminal.

A function's self is the value of the samples that end in it; its total that of the samples whose stack holds it, each
counted once however often the function stands in the stack. A function is a name, a file and a binary: its lines share
a row. What has no name is a row for each address, with the reason.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from whence._base.errors import plain
from whence.samples import bounds
from whence.samples.model import NO_TYPE, ProfileData, SampleType
from whence.samples.stacks import DisplayFrame, ProfileStacks, shortened

ROWS = 30  # unless it is asked for more
SORTS = ("self", "total")
NAME_WIDTH, FILE_WIDTH = 90, 60  # columns of a terminal
HEAD = ("self", "", "total", "", "function", "file", "binary", "reason")

SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "nanoseconds": ((60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns")),
    "microseconds": ((60e6, "min"), (1e6, "s"), (1e3, "ms"), (1, "us")),
    "milliseconds": ((60e3, "min"), (1e3, "s"), (1, "ms")),
    "seconds": ((60, "min"), (1, "s")),
    "bytes": ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")),
}


class TopRow(NamedTuple):
    """A function: the value that ends in it, the value below it, and what is known of it; `reason`: it has no name."""

    self: int
    total: int
    function: str
    file: str = ""
    binary: str = ""
    reason: str = ""


class Top(NamedTuple):
    """Functions in order, and how many there are; the values are of one sample type and add up to `whole`.

    Of a difference `base` is what the older profile had, which shares are of; None of others.
    """

    rows: list[TopRow]
    functions: int
    type: str
    unit: str
    whole: int
    base: int | None = None

    def __str__(self) -> str:
        """The table that `whence profile --format top` prints."""
        return text(self)


def top(profile: ProfileData, rows: int = ROWS, sort: str = "self", *, kind: int | None = None) -> Top:
    """The `rows` functions (0: all) that have most of a sample type (an index; default: the profile's own).

    `sort` is "self" or "total". Of a difference of profiles, those that changed most come first.
    """
    if sort not in SORTS:
        raise ValueError(f"functions are sorted by self or by total, not {sort!r}")
    found, whole = functions(profile, kind)
    heaviest = {"self": by_self, "total": by_total}[sort]
    order = sorted(found, key=lambda row: (*heaviest(row), row[2:]))
    type = type_of(profile, kind)
    kind = profile.default_type if kind is None else kind
    base = sum(profile.samples.base[kind]) if kind < len(profile.samples.base) else None
    return Top(order[:rows] if rows else order, len(found), type.type or "samples", type.unit, whole, base)


def by_self(row: TopRow) -> tuple[int, int]:
    return -abs(row.self), -abs(row.total)


def by_total(row: TopRow) -> tuple[int, int]:
    return -abs(row.total), -abs(row.self)


def type_of(profile: ProfileData, kind: int | None = None) -> SampleType:
    """The sample type of an index (default: the profile's own); one without texts where there is none."""
    kind = profile.default_type if kind is None else kind
    return profile.sample_types[kind] if kind < len(profile.sample_types) else NO_TYPE


def functions(profile: ProfileData, kind: int | None = None) -> tuple[list[TopRow], int]:
    """Every function with its self and total, and the sum of all samples."""
    kind = profile.default_type if kind is None else kind
    samples = profile.samples
    column: Sequence[int] = samples.values[kind] if kind < len(samples.values) else ()
    weight = array("q", bytes(8 * (len(samples.first) - 1)))
    for stack, value in zip(samples.of, column):
        weight[stack] += value
    stacks = ProfileStacks(profile, "a table of functions")
    known: dict[tuple[str, str, str, str], int] = {}
    rows: list[DisplayFrame] = []
    of: dict[int, tuple[int, ...]] = {}  # a location's functions, innermost first

    def functions_of(location: int) -> tuple[int, ...]:
        found = []
        for one in reversed(stacks.frames(location)):
            number = known.setdefault((one.name, one.file, one.binary, one.reason), len(rows))
            if number == len(rows):
                stacks.budget.charge(bounds.FRAME)
                rows.append(one)
            found.append(number)
        return tuple(found)

    ends: dict[int, int] = {}
    holds: dict[int, int] = {}
    for at, value in enumerate(weight):
        locations = samples.locations_of(at) if value else None
        if not locations:
            continue
        inside: set[int] = set()
        for location in locations:
            numbers = of.get(location)
            if numbers is None:
                numbers = of[location] = functions_of(location)
            inside.update(numbers)
        leaf = of[locations[0]][0]
        ends[leaf] = ends.get(leaf, 0) + value
        for number in inside:
            holds[number] = holds.get(number, 0) + value
    found = [
        TopRow(
            ends.get(number, 0), total, rows[number].name, rows[number].file, rows[number].binary, rows[number].reason
        )
        for number, total in holds.items()
    ]
    return found, sum(column)


def amount(value: int, unit: str) -> str:
    """A value as people read it.

    >>> amount(1_500_000, "nanoseconds"), amount(-2048, "bytes"), amount(12345, "count"), amount(7, "widgets")
    ('1.50 ms', '-2.00 KiB', '12,345', '7 widgets')
    """
    for size, label in SCALES.get(unit, ()):
        if abs(value) >= size > 1:
            return f"{value / size:.2f} {label}"
    if unit in SCALES:
        return f"{value:,} {SCALES[unit][-1][1]}"
    return f"{value:,}" if unit in ("", "count", "samples") else f"{value:,} {unit}"


def share(value: int, whole: int) -> str:
    return f"{100 * value / whole:.1f}%" if whole else "-"


def text(found: Top) -> str:
    """The table: a line about the whole, then a line for each function."""
    count = f"{found.functions:,} function{'' if found.functions == 1 else 's'}"
    shown = "" if len(found.rows) == found.functions else f", {len(found.rows):,} of them below"
    whole = abs(found.whole if found.base is None else found.base)
    said = plain(amount(found.whole, found.unit))
    if found.base is not None:
        changed = f"{said if found.whole < 0 else f'+{said}'} ({share(found.whole, whole)})"
        said = f"{changed} since {plain(amount(found.base, found.unit))},"
    lines = [f"{plain(found.type)}: {said} in {count}{shown}"]
    cells = [HEAD]
    cells += [
        (
            plain(amount(row.self, found.unit)),
            share(row.self, whole),
            plain(amount(row.total, found.unit)),
            share(row.total, whole),
            shortened(plain(row.function), NAME_WIDTH),
            shortened(plain(row.file), FILE_WIDTH) or "-",
            plain(row.binary) or "-",
            plain(row.reason),
        )
        for row in found.rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    for line in cells:
        fields = [one.rjust(width) for one, width in zip(line[:4], widths)]
        fields += [one.ljust(width) for one, width in zip(line[4:], widths[4:], strict=True)]
        lines.append("  ".join(fields).rstrip())
    return "\n".join(lines) + "\n"


def write(profile: ProfileData, rows: int = ROWS, sort: str = "self") -> str:
    return text(top(profile, rows, sort))
