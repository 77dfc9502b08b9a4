"""Callers and callees of functions of a profile, as `go tool pprof -peek` counts them.

A function's callers are the functions that call it in a stack, its callees the functions that it calls. Each pair of
caller and callee counts once per stack, even if the stack has it several times. A function that calls itself is not
among its callers.
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

from whence._base.amounts import amount
from whence.profiles.code import compiled
from whence.profiles.top import column_of, share, type_of
from whence.samples import bounds
from whence.samples.stacks import ProfileStacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from whence.samples.model import ProfileData
    from whence.samples.stacks import DisplayFrame

MATCHES = 20  # functions of a pattern that are shown
NEIGHBOURS = 30  # callers and callees of a function that are shown

FunctionKey = tuple[str, str, str]  # name, file and binary


class CallEdge(NamedTuple):
    """A caller or a callee of a function, and the value of the samples in whose stacks one calls the other."""

    function: str
    file: str
    value: int


class CallerRow(NamedTuple):
    """A function with its values, its callers and its callees, the most expensive first."""

    function: str
    file: str
    binary: str
    self: int
    total: int
    callers: list[CallEdge]
    callees: list[CallEdge]

    def as_json(self) -> dict[str, object]:
        """Return the fields as `whence profile --callers --json` prints them."""
        fields = self._asdict()
        for name in ("callers", "callees"):
            fields[name] = [edge._asdict() for edge in fields[name]]
        return fields


class CallTable(NamedTuple):
    """The functions that match a pattern, the most expensive first; the values are of one sample type."""

    rows: list[CallerRow]
    functions: int
    type: str
    unit: str
    total: int

    def __str__(self) -> str:
        """Return the text that `whence profile --callers` prints."""
        return "\n\n".join("\n".join(self._lines(row)) for row in self.rows)

    def _lines(self, row: CallerRow) -> Iterator[str]:
        yield f"{row.function}{f' at {row.file}' if row.file else ''}{f' in {row.binary}' if row.binary else ''}"
        yield (
            f"  {self.type}: total {amount(row.total, self.unit)} ({share(row.total, self.total)}), "
            f"self {amount(row.self, self.unit)} ({share(row.self, self.total)})"
        )
        for title, edges in (("called by", row.callers), ("calls", row.callees)):
            for edge in edges:
                value, percent = amount(edge.value, self.unit), share(edge.value, row.total)
                yield f"  {title:9}  {value:>12}  {percent:>6}  {edge.function}"
        if not row.callers:
            yield "  called by no function in the stacks: they begin with it"


def callers(
    profile: ProfileData, pattern: str, *, rows: int = MATCHES, neighbours: int = NEIGHBOURS, kind: int | None = None
) -> CallTable:
    """Return callers and callees of the functions that match.

    Args:
        profile: a profile whose locations have names.
        pattern: a regular expression that is searched in the names of functions.
        rows: number of functions that are returned; 0 for all.
        neighbours: number of callers, and of callees, of each function; 0 for all.
        kind: index of the sample type (default: the profile's default type).

    Raises ValueError for an invalid pattern.
    """
    matches = compiled(pattern)
    samples, column = profile.samples, column_of(profile, kind)
    weight = array("q", bytes(8 * (len(samples.first) - 1)))
    for stack, value in zip(samples.of, column):
        weight[stack] += value
    stacks = ProfileStacks(profile, "callers", grouped=True)
    keys: dict[FunctionKey, int] = {}
    matching: list[bool] = []
    cache: dict[int, tuple[int, ...]] = {}  # the functions of a location, innermost first

    def number_of(frame: DisplayFrame) -> int:
        number = keys.setdefault((frame.name, frame.file, frame.binary), len(matching))
        if number == len(matching):
            stacks.budget.charge(bounds.FRAME)
            matching.append(matches(frame.name) is not None)
        return number

    self_values: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    edges: Counter[tuple[int, int]] = Counter()  # by caller and callee
    for stack, value in enumerate(weight):
        chain: list[int] = []
        for location in samples.locations_of(stack) if value else ():
            if location not in cache:
                cache[location] = tuple(map(number_of, reversed(stacks.frames(location))))
            chain += cache[location]
        stacks.budget.charge(bounds.ENTRY * len(chain))
        if not any(map(matching.__getitem__, chain)):
            continue
        self_values[chain[0]] += value
        for number in set(chain):
            totals[number] += value
        pairs = {
            (caller, callee)
            for callee, caller in pairwise(chain)
            if caller != callee and (matching[caller] or matching[callee])
        }
        for pair in pairs:
            if pair not in edges:
                stacks.budget.charge(bounds.ENTRY)
            edges[pair] += value
    names = list(keys)
    chosen = [number for number in totals if matching[number]]
    chosen.sort(key=lambda number: (-abs(totals[number]), -abs(self_values[number]), names[number]))
    by_callee: dict[int, list[CallEdge]] = {number: [] for number in chosen}
    by_caller: dict[int, list[CallEdge]] = {number: [] for number in chosen}
    for (caller, callee), value in edges.items():
        if callee in by_callee:
            by_callee[callee].append(CallEdge(*names[caller][:2], value))
        if caller in by_caller:
            by_caller[caller].append(CallEdge(*names[callee][:2], value))
    out = [
        CallerRow(
            *names[number], self_values[number], totals[number],
            largest(by_callee[number], neighbours), largest(by_caller[number], neighbours),
        )
        for number in (chosen[:rows] if rows else chosen)
    ]  # fmt: skip
    type = type_of(profile, kind)
    return CallTable(out, len(chosen), type.type or "samples", type.unit, sum(column))


def largest(edges: Iterable[CallEdge], count: int) -> list[CallEdge]:
    """Return the edges with the highest values; all if the count is 0."""
    ordered = sorted(edges, key=lambda edge: (-abs(edge.value), edge.function, edge.file))
    return ordered[:count] if count else ordered
