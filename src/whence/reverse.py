"""From a function's name, or a line of a source file, to vaddrs.

In: a whole table of ranges. Out: ranges and spans in order of vaddr. Names are compared as they are stored, then in
their readable form; files by their last parts, so that "f.c" and "src/f.c" match the file "/home/me/src/f.c".
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from whence.demangle import demangle

if TYPE_CHECKING:
    from whence.lidia.results import FrameTable, Range
    from whence.lidia.table import Table


class LineSpan(NamedTuple):
    """Code [vaddr, end) of one line of a file, in one function; `inlined` if that was inlined."""

    vaddr: int
    end: int
    function: str
    file: str
    line: int
    inlined: bool = False


def functions_named(table: Table, name: str, aliases: Iterable[int] = ()) -> list[Range]:
    """Return the functions with a name: a range for each part of a split function.

    `name` is the stored name (mostly the linkage name), or a readable name, with or without parameters. `aliases` are
    vaddrs of symbols with that name, which are used if the table, which has one name per function, does not have it.
    """
    frames = at_starts(table)
    texts = set(frames.function)
    matches = texts & {name, demangle(name)} or {text for text in texts if name in readable_forms(text)}
    indexes = set(compress(frames.range_index, map(matches.__contains__, frames.function)))
    ranges = [table[index] for index in sorted(indexes)]
    named = [entry for entry in ranges if not entry.depth]
    if named:
        return named
    outermost = {answer.range_index[-1] for answer in map(table.lookup_many, zip(aliases)) if len(answer.range_index)}
    return [table[index] for index in sorted(outermost)]


def declaration(part: Range) -> tuple[str, str, int]:
    """Return what all parts of a function have in common."""
    return part.function, part.file, part.start_line


def parts_of(table: Table, vaddr: int) -> list[Range]:
    """Return the parts of the function at a vaddr, the one with the vaddr first; [] if there is no function."""
    answer = table.lookup_many([vaddr])
    if not len(answer.range_index):
        return []
    first = table[answer.range_index[-1]]
    parts = [first]
    if first.file and first.start_line:
        for index in table.namesakes(answer.range_index[-1]):
            part = table[index]
            if part.vaddr != first.vaddr and declaration(part) == declaration(first):
                parts.append(part)
    return parts


def readable_forms(name: str) -> tuple[str, str]:
    """Return a readable name with and without its parameters.

    >>> readable_forms("_ZN2ns3addEii")
    ('ns::add(int, int)', 'ns::add')
    """
    text = demangle(name)
    depth = 0
    for index, letter in enumerate(text):
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth -= 1
        elif letter == "(" and depth <= 0 and index and not text.startswith(("(anonymous", "()"), index):
            return text, text[:index]
    return text, text


def spans_of_line(table: Table, file: str, line: int) -> list[LineSpan]:
    """Return the code of a line of a file, in innermost frames only, in order of vaddr."""
    frames = at_starts(table)
    ending = "/" + file.lstrip("/")
    files = {text for text in set(frames.file) if text == file or text.endswith(ending)}
    indexes = sorted(set(compress(frames.range_index, map(files.__contains__, frames.file))))
    starts = array("Q", table.vaddrs())
    spans: list[LineSpan] = []
    for index in indexes:
        entry = table[index]
        if entry.file not in files:
            continue
        ends = [*(offset for offset, _ in entry.line_table[1:]), entry.length]
        for (offset, row_line), end in zip(entry.line_table, ends):
            if row_line == line:
                for low, high in innermost(table, starts, index, entry.vaddr + offset, entry.vaddr + end):
                    spans.append(LineSpan(low, high, entry.function, entry.file, line, entry.depth > 0))
    return joined(sorted(spans))


def innermost(table: Table, starts: array[int], index: int, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Return the parts of [low, high) that no range inside the one at `index` covers."""
    while low < high:
        answer = table.lookup_many([low])
        following = bisect_right(starts, low)
        stop = min(high, starts[following] if following < len(starts) else high)
        if len(answer.range_index):
            inner = answer.range_index[0]
            stop = min(stop, table[inner].end)
            if inner == index:
                yield low, stop
        low = max(stop, low + 1)


def joined(spans: list[LineSpan]) -> list[LineSpan]:
    """Return spans with adjacent ones of the same function joined."""
    out: list[LineSpan] = []
    for span in spans:
        if out and out[-1].end >= span.vaddr and out[-1][2:] == span[2:]:
            out[-1] = out[-1]._replace(end=max(out[-1].end, span.end))
        else:
            out.append(span)
    return out


def at_starts(table: Table) -> FrameTable:
    """Return the frames at the start of every range, which include every range."""
    return table.lookup_many(table.vaddrs())
