"""Ranges tables from plain values, and what a table says at an address, read the slow and obvious way."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from whence import lidia
from whence.ranges import Ranges, Rows, Scopes, StringSpace
from whence.ranges.strings import Arena
from whence.ranges.table import NO_FILE, ColumnNumbers


class Names:
    """Text to references and back, for one space."""

    def __init__(self) -> None:
        self.space = StringSpace()
        self._arena = Arena(self.space)

    def __call__(self, text: str) -> int:
        return self._arena.add(text.encode())

    def done(self) -> StringSpace:
        self._arena.seal()
        return self.space


class R(NamedTuple):
    """One range with its text."""

    vaddr: int
    length: int
    depth: int = 0
    function: str = ""
    file: str = ""
    lines: tuple[tuple[int, int], ...] = ()
    call_file: str = ""
    call_line: int = 0
    source: int = 1


def table(names: Names, ranges: list[R]) -> Ranges:
    out = Ranges(names.space)
    for r in ranges:
        out.vaddr.append(r.vaddr)
        out.length.append(r.length)
        out.depth.append(r.depth)
        out.function.append(names(r.function))
        out.file.append(names(r.file))
        out.line_index.append(len(out.line_offset))
        out.line_count.append(len(r.lines))
        out.call_file.append(names(r.call_file))
        out.call_line.append(r.call_line)
        out.source.append(r.source)
        for offset, number in r.lines:
            out.line_offset.append(offset)
            out.line_number.append(number)
    names.done()
    return out


def listed(ranges: Ranges) -> list[R]:
    """A table as values."""
    text = ranges.strings.text
    result = []
    for i in range(len(ranges)):
        rows = range(ranges.line_index[i], ranges.line_index[i] + ranges.line_count[i])
        result.append(
            R(
                ranges.vaddr[i], ranges.length[i], ranges.depth[i], text(ranges.function[i]), text(ranges.file[i]),
                tuple((ranges.line_offset[k], ranges.line_number[k]) for k in rows),
                text(ranges.call_file[i]), ranges.call_line[i], ranges.source[i],
            )
        )  # fmt: skip
    return result


def line_at(r: R, address: int) -> int:
    return next((number for offset, number in reversed(r.lines) if offset <= address - r.vaddr), 0)


def answer(ranges: list[R], address: int) -> list[tuple[str, str, int]]:
    """(function, file, line) innermost first: every range that covers the address, the deepest first."""
    chain = sorted((r for r in ranges if r.vaddr <= address < r.vaddr + r.length), key=lambda r: -r.depth)
    assert [r.depth for r in chain] == list(range(len(chain)))[::-1], chain
    frames = []
    for level, r in enumerate(chain):
        inner = chain[level - 1]
        frames.append(
            (r.function, inner.call_file, inner.call_line) if level else (r.function, r.file, line_at(r, address))
        )
    return frames


class S(NamedTuple):
    """One scope with its text."""

    vaddr: int
    end: int
    depth: int
    function: str
    call_file: str = ""
    call_line: int = 0


def scopes(names: Names, found: list[S]) -> Scopes:
    out = Scopes()
    for s in found:
        out.vaddr.append(s.vaddr)
        out.end.append(s.end)
        out.depth.append(s.depth)
        out.function.append(names(s.function))
        out.call_file.append(names(s.call_file))
        out.call_line.append(s.call_line)
    return out


def rows(names: Names, found: list[tuple[int, str | None, int]]) -> Rows:
    """Rows (vaddr, file, line); file None: no row describes what follows."""
    out = Rows()
    files: dict[str, int] = {}
    for vaddr, file, line in found:
        if file is not None and file not in files:
            files[file] = len(files)
            out.files.append(names(file))
        out.vaddr.append(vaddr)
        out.file.append(NO_FILE if file is None else files[file])
        out.line.append(line)
    return out


NESTED = [
    R(0x1000, 0x40, 0, "main", "a.c", ((0, 3), (4, 5), (0x30, 9))),
    R(0x1010, 0x18, 1, "outer", "b.h", ((0, 7), (8, 8)), "a.c", 5),
    R(0x1014, 4, 2, "inner", "c.h", ((0, 1),), "b.h", 7),
    R(0x1020, 8, 2, "inner", "c.h", ((0, 1), (4, 2)), "b.h", 8),
    R(0x1030, 4, 1, "late", "d.h", ((0, 44),), "a.c", 9),
    R(0x1040, 0x10, 0, "next", "a.c", ((0, 20),)),
]


def archive(ranges: list[R], **options: object) -> bytes:
    """The archive of these ranges; the options are those of lidia.write."""
    return lidia.to_bytes(table(Names(), ranges), **options)  # type: ignore[arg-type]


def located(
    columns: tuple[int, ...] = (5, 9, 5, 9, 3), discriminators: tuple[int, ...] = (0, 2, 0, 2, 0), call: int = 17
) -> Ranges:
    """`f` and `g` with the same lines and columns, `h` inlined in `g`."""
    ranges = table(Names(), [
        R(0x1000, 16, 0, "f", "a.c", ((0, 3), (4, 3))),
        R(0x1010, 16, 0, "g", "a.c", ((0, 3), (4, 3))),
        R(0x1018, 4, 1, "h", "b.h", ((0, 7),), "a.c", 4),
    ])  # fmt: skip
    ranges.columns = ColumnNumbers(array("I", columns), array("I", discriminators), array("I", [0, 0, call]),
                             array("I", [0, 0, 6]))  # fmt: skip
    return ranges
