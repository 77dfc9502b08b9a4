"""Build archives from ranges that a program adds."""

from __future__ import annotations

import io
from array import array
from collections.abc import Iterable
from itertools import chain, pairwise
from typing import TYPE_CHECKING, BinaryIO

from whence._base.records import replaced
from whence._base.source import Source
from whence.lidia.layout import Extra
from whence.lidia.results import Range
from whence.lidia.writer import WRITE_DEFAULTS, WriteOptions, Written, write
from whence.ranges import Ranges, StringSpace
from whence.ranges.merge import merge
from whence.ranges.strings import Arena

if TYPE_CHECKING:
    import os
    from typing import Unpack

    from whence.lidia.results import RangeFields
    from whence.lidia.writer import WriteFields

_U32 = 0xFFFFFFFF


class Builder:
    """Collects ranges in any order and writes them as an archive.

    Unless compat="go", ranges are repaired: where functions overlap, the function that begins later wins (of functions
    with equal addresses, the last added), empty functions are dropped, and an inlined range is clipped to the range
    around it. With compat="go" the ranges are written as they were added.

    >>> builder = Builder(build_id="00ff", machine="AArch64")
    >>> builder.add(vaddr=0x1000, length=0x20, function="main", file="main.c", line_table=[(0, 3), (8, 4)])
    >>> len(builder), len(builder.to_bytes()) > 0
    (1, True)
    """

    def __init__(self, *, build_id: str = "", machine: str = "") -> None:
        """Start without ranges.

        Args:
            build_id: the build-id of the binary, in hex; stored in the archive.
            machine: the machine of the binary, for instance as `readelf -h` names it; stored in the archive.

        Raises:
            ValueError: `build_id` is not hexadecimal.
        """
        self._about = Extra(build_id=bytes.fromhex(build_id).hex(), machine=machine)
        self._space = StringSpace()
        self._names = Arena(self._space)
        self._ranges = Ranges(self._space)

    def __len__(self) -> int:
        """Return the number of added ranges."""
        return len(self._ranges)

    def __repr__(self) -> str:
        return f"<lidia.Builder: {len(self)} ranges>"

    def add(self, range: Range | None = None, **fields: Unpack[RangeFields]) -> None:
        """Add a Range, or a range given by its fields.

        Args:
            range: the range to add.
            fields: the fields of a Range: vaddr (or va), length (bytes), function, file, call_file, call_line, depth,
                line_table (pairs of offset in bytes and line), source, start_line.

        Raises:
            TypeError: there is neither a range nor a vaddr.
            ValueError: a number is out of bounds (`vaddr` and `length` have 64 bits, all others 32), a name contains a
                NUL byte, or the source is unknown. The builder is unchanged then.
        """
        if range is None:
            range = Range(**fields)
        entries = sorted(range.line_table, key=lambda entry: entry[0])
        if not (0 <= range.vaddr < 1 << 64 and 0 <= range.length < 1 << 64):
            raise ValueError("vaddr and length must be unsigned 64-bit numbers")
        numbers = [range.call_line, range.depth, range.start_line, *chain.from_iterable(entries)]
        if not all(0 <= number <= _U32 for number in numbers):
            raise ValueError("depth, call line, start line, line offsets and lines must be unsigned 32-bit numbers")
        source = Source(range.source).number
        names = [_raw(name) for name in (range.function, range.file, range.call_file)]
        table = self._ranges
        function, file, call_file = map(self._names.add, names)
        table.vaddr.append(range.vaddr)
        table.length.append(range.length)
        table.depth.append(range.depth)
        table.function.append(function)
        table.file.append(file)
        table.call_file.append(call_file)
        table.call_line.append(range.call_line)
        table.line_index.append(len(table.line_offset))
        table.line_count.append(len(entries))
        table.source.append(source)
        if range.start_line:
            table.starts.function.append(function)
            table.starts.file.append(file)
            table.starts.line.append(range.start_line)
        table.line_offset.extend(entry[0] for entry in entries)
        table.line_number.extend(entry[1] for entry in entries)

    def extend(self, ranges: Iterable[Range]) -> None:
        """Add ranges, for instance all of a Table. Raises ValueError as `add` does; the ranges before stay added."""
        for range in ranges:
            self.add(range)

    def ranges(self) -> Ranges:
        """Return a new table of the added ranges, repaired and in order of (vaddr, depth)."""
        self._names.seal()
        return merge([_in_trees(self._ranges)], last_wins=True)

    def write(
        self,
        out: BinaryIO | str | os.PathLike[str],
        *,
        options: WriteOptions = WRITE_DEFAULTS,
        **changes: Unpack[WriteFields],
    ) -> Written:
        """Write the archive to a path or a binary file; the arguments and errors are those of `lidia.write`.

        The extra section has the builder's build-id and machine unless `extra` is given.
        """
        options = replaced(options, **changes)
        if options.extra is None:
            options = replaced(options, extra=self._about)
        self._names.seal()
        return write(self._ranges if options.compat == "go" else self.ranges(), out, options=options)

    def to_bytes(self, *, options: WriteOptions = WRITE_DEFAULTS, **changes: Unpack[WriteFields]) -> bytes:
        """Return the archive as bytes; the options are those of `lidia.write`."""
        out = io.BytesIO()
        self.write(out, options=options, **changes)
        return out.getvalue()


def _raw(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise ValueError(f"the name {text!r} contains a NUL byte")
    return raw


def _in_trees(table: Ranges) -> Ranges:
    """Return the ranges in tree order: each function followed by its inlined ranges, by vaddr.

    The parent of an inlined range is the deepest range of a smaller depth around its vaddr; without a parent the range
    becomes a function. An inlined range ends at the latest where its next sibling begins.
    """
    count = len(table)
    order = sorted(range(count), key=lambda i: (table.vaddr[i], table.depth[i]))
    children: list[list[int]] = [[] for _ in range(count)]
    roots: list[int] = []
    depth = array("I", table.depth)
    open_ranges: list[int] = []  # that may enclose the next ranges: by vaddr, innermost last
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
    for siblings in children:
        for index, following in pairwise(siblings):
            length[index] = min(length[index], table.vaddr[following] - table.vaddr[index])
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
