"""The functions, processes, threads or binaries with the highest values of a profile, as a table for a terminal.

A function's self value is that of the samples that end in it; its total value that of the samples whose stack has it,
also once if the function is in the stack several times. A function is a name, a file and a binary: its lines share a
row, except in a table of lines. Addresses without a name share the row of their function if its start is known; the
reason is a word, which is explained below the table.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from whence._base.amounts import amount
from whence._base.errors import plain
from whence._base.html import html_table
from whence._base.reasons import Reason
from whence._base.records import Record
from whence.profiles.formats.written import GROUPS, SORTS
from whence.samples import bounds
from whence.samples.model import NO_TYPE, ProfileData, SampleType
from whence.samples.stacks import DisplayFrame, ProfileStacks, shortened
from whence.samples.threads import NO_PROCESS, NO_THREAD, ProfileThread, named_threads, shown

ROWS = 30  # by default
NO_BINARY = "no binary"
NAME_WIDTH, FILE_WIDTH, BINARY_WIDTH = 90, 60, 40  # columns of a terminal
NARROW = {"function": 30, "file": 14, "binary": 10, "reason": 18}  # least width of a column that is shortened
GAP = 2  # between columns


class TableOptions(Record, frozen=True):
    """How a table is made: number of rows (0: all), order, what a row is, and the width to fit in (0: any)."""

    rows: int = ROWS
    sort: str = "self"
    by: str = "function"
    width: int = 0


DEFAULT_TABLE = TableOptions()


class TopRow(NamedTuple):
    """A function with its values; `reason` says why it has no name. In other tables `function` is what a row is."""

    self: int
    total: int
    function: str
    file: str = ""
    binary: str = ""
    reason: str = ""
    line: int = 0


class Top(NamedTuple):
    """Functions in order, and the number of all functions; the values are of one sample type, `total` is their sum.

    For a difference of profiles `base` is the sum of the older profile, of which shares are computed. `by` says what a
    row is: a function, process, thread, binary or line.
    """

    rows: list[TopRow]
    functions: int
    type: str
    unit: str
    total: int
    base: int | None = None
    by: str = "function"

    def __str__(self) -> str:
        """Return the table that `whence profile --format top` prints."""
        return text(self)

    def __repr__(self) -> str:
        return f"<profiles.Top: {len(self.rows):,} of {self.functions:,} {plural(self.by)} by {self.type}>"

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
        caption = f"{self.type}: {amount(self.total, self.unit)} in {self.functions:,} {plural(self.by)}"
        return html_table(("self", "self %", "total", "total %", self.by, "file", "binary", "reason"), rows, caption)


def top(
    profile: ProfileData, rows: int = ROWS, sort: str = "self", *, by: str = "function", kind: int | None = None
) -> Top:
    """Return the functions with the highest values of a sample type; of a difference, the largest changes.

    Args:
        profile: a profile whose locations have names.
        rows: number of functions; 0 for all.
        sort: "self" or "total".
        by: what a row is: "function", "process", "thread", "binary" or "line".
        kind: index of the sample type (default: the profile's default type).
    """
    if sort not in SORTS:
        raise ValueError(f"unknown order {sort!r}: functions are sorted by self or total")
    if by not in GROUPS:
        raise ValueError(f"unknown group {by!r}: a row is one of {', '.join(GROUPS)}")
    every, sum_of_all = threads(profile, by, kind) if by in ("process", "thread") else functions(profile, by, kind)
    weight = {"self": by_self, "total": by_total}[sort]
    order = sorted(every, key=lambda row: (*weight(row), row[2:]))
    type = type_of(profile, kind)
    kind = profile.default_type if kind is None else kind
    base = sum(profile.samples.base[kind]) if kind < len(profile.samples.base) else None
    selected = order[:rows] if rows else order
    return Top(selected, len(every), type.type or "samples", type.unit, sum_of_all, base, by)


def by_self(row: TopRow) -> tuple[int, int]:
    return -abs(row.self), -abs(row.total)


def by_total(row: TopRow) -> tuple[int, int]:
    return -abs(row.total), -abs(row.self)


def type_of(profile: ProfileData, kind: int | None = None) -> SampleType:
    """Return a sample type by its index (default: the profile's default type); an empty one if it does not exist."""
    kind = profile.default_type if kind is None else kind
    return profile.sample_types[kind] if kind < len(profile.sample_types) else NO_TYPE


def column_of(profile: ProfileData, kind: int | None) -> Sequence[int]:
    """Return the values of a sample type (default: the profile's default type), none if it does not exist."""
    kind = profile.default_type if kind is None else kind
    values = profile.samples.values
    return values[kind] if kind < len(values) else ()


def threads(profile: ProfileData, by: str, kind: int | None = None) -> tuple[list[TopRow], int]:
    """Return every process or thread with its values, and the sum of all samples."""
    column = column_of(profile, kind)
    all_threads, thread_of = named_threads(profile.samples)
    names = [thread.process or NO_PROCESS if by == "process" else thread_name(thread) for thread in all_threads]
    sums: Counter[str] = Counter()
    for thread, value in zip(thread_of, column):
        sums[names[thread]] += value
    return [TopRow(value, value, name) for name, value in sums.items()], sum(column)


def thread_name(thread: ProfileThread) -> str:
    """Return the name and number of a thread, after the name of its process if that is another."""
    name = shown(thread) or NO_THREAD
    return name if thread.process in ("", thread.name) else f"{thread.process}: {name}"


def keys_of(by: str) -> Callable[[DisplayFrame], tuple[str, str, str, int]]:
    """Return the function that gives the name, file, binary and line of a frame's row."""
    if by == "binary":
        return lambda frame: (frame.binary or NO_BINARY, "", "", 0)
    if by == "line":
        return lambda frame: (frame.name, frame.file, frame.binary, frame.line)
    return lambda frame: (frame.name, frame.file, frame.binary, 0)


def functions(profile: ProfileData, by: str = "function", kind: int | None = None) -> tuple[list[TopRow], int]:
    """Return every function, binary or line with its self and total values, and the sum of all samples."""
    samples = profile.samples
    column = column_of(profile, kind)
    weight = array("q", bytes(8 * (len(samples.first) - 1)))
    for stack, value in zip(samples.of, column):
        weight[stack] += value
    stacks = ProfileStacks(profile, "a table of functions", grouped=True)
    key_of = keys_of(by)
    numbers: dict[tuple[str, str, str, int], int] = {}
    reasons: list[str] = []
    cache: dict[int, tuple[int, ...]] = {}  # the rows of a location, innermost first

    def rows_of(location: int) -> tuple[int, ...]:
        out = []
        for frame in reversed(stacks.frames(location)):
            number = numbers.setdefault(key_of(frame), len(reasons))
            if number == len(reasons):
                stacks.budget.charge(bounds.FRAME)
                reasons.append("" if by == "binary" else frame.reason)
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
                cache[location] = rows_of(location)
            in_stack.update(cache[location])
        stacks.budget.charge(bounds.ENTRY * sum(len(cache[location]) for location in locations))
        self_values[cache[locations[0]][0]] += value
        for number in in_stack:
            totals[number] += value
    keys = list(numbers)
    out = [
        TopRow(self_values[number], total, *keys[number][:3], reasons[number], keys[number][3])
        for number, total in totals.items()
    ]
    return out, sum(column)


def share(value: int, total: int) -> str:
    return f"{100 * value / total:.1f}%" if total else "-"


def text(table: Top, width: int = 0) -> str:
    """Return the table: a line with the sum, a line for each function, and the reasons of unnamed ones.

    Args:
        table: the table.
        width: columns of the terminal, to which names and files are shortened; 0 for any.
    """
    count = f"{table.functions:,} {table.by if table.functions == 1 else plural(table.by)}"
    below = "" if len(table.rows) == table.functions else f", {len(table.rows):,} shown"
    total = abs(table.total if table.base is None else table.base)
    summary = plain(amount(table.total, table.unit))
    if table.base is not None:
        changed = f"{summary if table.total < 0 else f'+{summary}'} ({share(table.total, total)})"
        summary = f"{changed} since {plain(amount(table.base, table.unit))},"
    columns: dict[str, list[str]] = {}
    for name in ("self", "total") if table.by not in ("process", "thread") else ("self",):
        values = [row.self if name == "self" else row.total for row in table.rows]
        columns[name] = [plain(amount(value, table.unit)) for value in values]
        columns[f"{name} %"] = [share(value, total) for value in values]
    numbers = len(columns)
    columns[table.by if table.by != "line" else "function"] = [plain(row.function) for row in table.rows]
    if table.by in ("function", "line"):
        columns["file"] = [plain(place(row)) or "-" for row in table.rows]
        columns["binary"] = [plain(row.binary) or "-" for row in table.rows]
    words = [word_of(row.reason) for row in table.rows]
    if any(words):
        columns["reason"] = words
    widths = fitted({name: max(map(len, (head_of(name), *cells))) for name, cells in columns.items()}, width)
    lines = [f"{plain(table.type)}: {summary} in {count}{below}"]
    for index in range(-1, len(table.rows)):
        fields = []
        for number, (name, size) in enumerate(widths.items()):
            cell = columns[name][index] if index >= 0 else head_of(name)
            cut = f"\u2026{cell[1 - size :]}" if name == "file" and len(cell) > size else shortened(cell, size)
            fields.append(cut.rjust(size) if number < numbers else cut.ljust(size))
        lines.append((" " * GAP).join(fields).rstrip())
    return "\n".join([*lines, *explained(row.reason for row in table.rows)]) + "\n"


def plural(noun: str) -> str:
    return {"process": "processes", "binary": "binaries"}.get(noun, f"{noun}s")


def head_of(column: str) -> str:
    """Return the header of a column; that of shares is empty."""
    return "" if column.endswith("%") else column


def place(row: TopRow) -> str:
    return f"{row.file}:{row.line}" if row.line else row.file


def fitted(widths: dict[str, int], limit: int) -> dict[str, int]:
    """Return the widths of the columns that are shown, which fit into `limit` if it is at least about 60.

    Long reasons are shortened first, then files, binaries and functions; files and binaries are left out if that is not
    enough.
    """
    name = next((column for column in GROUPS if column in widths), "function")
    widths = dict(widths)
    for column, most in ((name, NAME_WIDTH), ("file", FILE_WIDTH), ("binary", BINARY_WIDTH)):
        if column in widths:
            widths[column] = min(widths[column], most)
    for left_out in ("", "file", "binary"):
        shown = {column: size for column, size in widths.items() if column != left_out}
        widths = shown
        excess = sum(shown.values()) + GAP * (len(shown) - 1) - limit if limit else 0
        shown = dict(shown)
        for column in ("reason", "file", "binary", name):
            if column in shown and excess > 0:
                size = max(min(NARROW.get(column, NARROW["function"]), shown[column]), shown[column] - excess)
                excess -= shown[column] - size
                shown[column] = size
        if excess <= 0:
            return shown
    shown[name] = max(8, shown[name] - excess)
    return shown


def word_of(reason: str) -> str:
    """Return the word of a reason, which may have details after its sentence.

    >>> word_of("the file is stripped, and no debug file was found for its build-id (own path /bin/a)")
    'no-debug-file'
    """
    return next((each.word for each in Reason if reason.startswith(each.sentence)), plain(reason))


def explained(reasons: Iterable[str]) -> list[str]:
    """Return a line for each word of a reason, and for each long reason without one, after an empty line."""
    words = dict.fromkeys(word_of(reason) for reason in reasons if reason)
    sentences = {reason.word: f"{reason.word}: {reason.sentence}" for reason in Reason}
    lines = [sentences.get(word, word) for word in words if word in sentences or len(word) > NARROW["reason"]]
    return ["", *lines] if lines else []


def write(profile: ProfileData, options: TableOptions = DEFAULT_TABLE) -> str:
    return text(top(profile, options.rows, options.sort, by=options.by), options.width)
