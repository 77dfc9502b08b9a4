"""Archives from ranges that anyone adds."""

from __future__ import annotations

import io
from array import array
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO

from whence._base.source import Source
from whence.lidia import writer
from whence.lidia.layout import Extra
from whence.ranges import Ranges, StringSpace
from whence.ranges.merge import merge
from whence.ranges.strings import Arena

if TYPE_CHECKING:
    import os

    from whence.lidia.results import Range

_U32 = 0xFFFFFFFF


class Builder:
    """Ranges in any order in, an archive out.

    Default archives are repaired: functions that overlap are split so that the one that begins later counts (of two
    with the same addresses the one added last), empty ones are dropped, an inlined range is clipped to the range it
    lies in. With compat="go" the ranges go in as they were added.
    """

    def __init__(self, *, build_id: str = "", machine: str = "") -> None:
        """`build_id` (hex) and `machine` (as `readelf -h` names it, or any word) are those of the binary that the
        ranges are of; the archive records it. ValueError for what is no hex."""
        self._about = Extra(build_id=bytes.fromhex(build_id).hex(), machine=machine)
        self._space = StringSpace()
        self._names = Arena(self._space)
        self._ranges = Ranges(self._space)

    def __len__(self) -> int:
        """How many ranges were added."""
        return len(self._ranges)

    def __repr__(self) -> str:
        return f"<lidia.Builder: {len(self)} ranges>"

    def add(
        self,
        range: Range | None = None,
        *,
        vaddr: int | None = None,
        length: int = 0,
        function: str = "",
        file: str = "",
        call_file: str = "",
        call_line: int = 0,
        depth: int = 0,
        line_table: Iterable[tuple[int, int]] = (),
        source: Source | str = Source.GIVEN,
        start_line: int = 0,
        va: int | None = None,
    ) -> None:
        """Add a Range, or the range that keywords with the names of its fields describe.

        ValueError when a number does not fit its column (`vaddr` and `length` have 64 bits, all others 32), for a name
        with a NUL, and for a source that there is not; such a range leaves the others as they were.
        """
        if range is not None:
            vaddr, length, function, file = range.vaddr, range.length, range.function, range.file
            call_file, call_line, depth = range.call_file, range.call_line, range.depth
            line_table, source, start_line = range.line_table, range.source, range.start_line
        vaddr = vaddr if vaddr is not None else va or 0
        entries = sorted(line_table, key=lambda entry: entry[0])
        if not (0 <= vaddr < 1 << 64 and 0 <= length < 1 << 64):
            raise ValueError("vaddr and length are unsigned 64-bit numbers")
        if not all(0 <= number <= _U32 for entry in [(call_line, depth, start_line), *entries] for number in entry):
            raise ValueError("depth, call line, start line, line offsets and lines are unsigned 32-bit numbers")
        number = Source(source).number
        names = [_raw(one) for one in (function, file, call_file)]
        table = self._ranges
        function_ref, file_ref, call_file_ref = map(self._names.add, names)
        table.vaddr.append(vaddr)
        table.length.append(length)
        table.depth.append(depth)
        table.function.append(function_ref)
        table.file.append(file_ref)
        table.call_file.append(call_file_ref)
        table.call_line.append(call_line)
        table.line_index.append(len(table.line_offset))
        table.line_count.append(len(entries))
        table.source.append(number)
        if start_line:
            table.starts.function.append(function_ref)
            table.starts.file.append(file_ref)
            table.starts.line.append(start_line)
        table.line_offset.extend(entry[0] for entry in entries)
        table.line_number.extend(entry[1] for entry in entries)

    def extend(self, ranges: Iterable[Range]) -> None:
        """Add ranges, for instance those of a Table. ValueError as of `add`; the ranges before stay added."""
        for added in ranges:
            self.add(added)

    def ranges(self) -> Ranges:
        """What was added, in order and repaired: a new table."""
        self._names.seal()
        return merge([_in_trees(self._ranges)], last_wins=True)

    def write(
        self, out: BinaryIO | str | os.PathLike[str], *, crc: bool = True, lines: bool = True, files: bool = True,
        strings: writer.Strings = "length", compat: writer.Compat = None,
        extra: Extra | None = None,
    ) -> writer.Written:  # fmt: skip
        """Write the archive to a path or a binary file; the options are those of `lidia.write`.

        `extra` says more of its origin than the builder knows.
        """
        self._names.seal()
        ranges = self._ranges if compat == "go" else self.ranges()
        about = extra or self._about
        return writer.write(ranges, out, crc=crc, lines=lines, files=files, strings=strings, compat=compat, extra=about)

    def to_bytes(
        self, *, crc: bool = True, lines: bool = True, files: bool = True, strings: writer.Strings = "length",
        compat: writer.Compat = None, extra: Extra | None = None,
    ) -> bytes:  # fmt: skip
        """The archive in memory; the options are those of `lidia.write`."""
        out = io.BytesIO()
        self.write(out, crc=crc, lines=lines, files=files, strings=strings, compat=compat, extra=extra)
        return out.getvalue()


def _raw(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise ValueError("a name has no NUL in it")
    return raw


def _in_trees(table: Ranges) -> Ranges:
    """The ranges in tree order: each function followed by what was inlined into it, by vaddr.

    An inlined range belongs to the deepest range of a smaller depth around its vaddr; one without becomes a function.
    An inlined range ends where the next one beside it begins.
    """
    count = len(table)
    order = sorted(range(count), key=lambda i: (table.vaddr[i], table.depth[i]))
    children: list[list[int]] = [[] for _ in range(count)]
    roots: list[int] = []
    depth = array("I", table.depth)
    open_ranges: list[int] = []  # that may reach over what comes: by vaddr, innermost last
    for i in order:
        vaddr = table.vaddr[i]
        while open_ranges and table.vaddr[open_ranges[-1]] + table.length[open_ranges[-1]] <= vaddr:
            open_ranges.pop()
        parent = next((k for k in reversed(open_ranges) if _around(table, k, vaddr) and depth[k] < depth[i]), None)
        if parent is None or table.depth[i] == 0:
            depth[i] = 0
            roots.append(i)
        else:
            depth[i] = depth[parent] + 1
            children[parent].append(i)
        open_ranges.append(i)
    length = array("Q", table.length)
    for beside in children:
        for one, following in pairwise(beside):
            length[one] = min(length[one], table.vaddr[following] - table.vaddr[one])
    out = Ranges(table.strings, line_offset=table.line_offset[:], line_number=table.line_number[:], starts=table.starts)
    stack = roots[::-1]
    while stack:
        i = stack.pop()
        if length[i] == 0:
            continue
        stack.extend(children[i][::-1])
        out.depth.append(depth[i])
        out.length.append(length[i])
        for column in _COPIED:
            getattr(out, column).append(getattr(table, column)[i])
    return out


def _around(table: Ranges, index: int, vaddr: int) -> bool:
    return table.vaddr[index] <= vaddr < table.vaddr[index] + table.length[index]


_COPIED = ("vaddr", "function", "file", "line_index", "line_count", "call_file", "call_line", "source")
