"""The ranges table to an archive's bytes.

    widths   the smallest that hold every value: VAs and range fields 4 or 8 bytes, line fields 2 or 4
    strings  each name once, in order of first visit: the function, file and call file of each range in turn
    lines    equal runs of entries once
    CRC32C   of every section

With compat="go" the bytes are those the Go package writes when it visits the same ranges in the same order: nothing is
shared among the line tables, ranges are put into order of (va, depth) after their names were visited, sizes are cut to
32 bits, and no extra section follows.
"""

from __future__ import annotations

import io
import os
from array import array
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from whence._version import __version__
from whence.budget import Budget
from whence.files import atomic_write
from whence.interrupts import interruptible
from whence.lidia import extra
from whence.lidia.crc import crc32c
from whence.lidia.kernels import encode as encode_kernel
from whence.lidia.kernels import strings as strings_kernel
from whence.lidia.layout import HEADER_SIZE, Header, Section
from whence.lidia.starts import rows_of
from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels import order as order_kernel
from whence.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from whence.ranges import Ranges

Strings = Literal["length", "nul"]
Compat = Literal["go"] | None
_STEP = 1 << 15  # ranges encoded at once
_PIECE = 1 << 20  # bytes handed over at once
_U32 = 0xFFFFFFFF


class Written(Record, frozen=True):
    """What went into an archive: counts, and sizes in bytes."""

    ranges: int
    functions: int
    inlined: int
    strings: int
    line_entries: int
    va_size: int
    range_size: int
    string_size: int
    line_size: int
    extra_size: int
    size: int
    unnamed: int = 0  # names left out: they overlap beyond what the bytes they lie in justify


NAMES_TIMES = 8  # of what the files that are archived hold of names: linkers let them overlap a little
NAMES_ALLOWANCE = 1 << 24


def names_budget(ranges: Ranges) -> Budget:
    """What the names of ranges may take together."""
    stored = sum(map(len, ranges.strings.sources))
    return Budget("names", "texts", stored, times=NAMES_TIMES, allowance=NAMES_ALLOWANCE)


def write(
    ranges: Ranges,
    out: BinaryIO | str | os.PathLike[str],
    *,
    crc: bool = True,
    lines: bool = True,
    files: bool = True,
    strings: Strings = "length",
    compat: Compat = None,
    extra: extra.Extra | None = None,
) -> Written:
    """Write an archive of ranges in order of (va, depth), as `whence.ranges.arrange` leaves them.

    A path is written beside and renamed, so that it never holds half an archive. A file object is written from where
    it stands. Without `crc` the checksums are 0 (`compat="go"` always writes them). Without `lines` or `files` those
    are left out. ValueError when the ranges are not in order or refer to line rows that are not there.
    """
    if not isinstance(out, (str, os.PathLike)):
        return _write(ranges, out, crc, lines, files, strings, compat, extra)
    with atomic_write(out) as file:
        return _write(ranges, file, crc, lines, files, strings, compat, extra)


def _write(
    ranges: Ranges, out: BinaryIO, crc: bool, lines: bool, files: bool, strings: Strings, compat: Compat,
    about: extra.Extra | None,
) -> Written:  # fmt: skip
    if strings not in ("length", "nul"):
        raise ValueError(f"strings are stored by 'length' or 'nul', not {strings!r}")
    if compat not in (None, "go"):
        raise ValueError(f"compat is None or 'go', not {compat!r}")
    body = interruptible(_Body)(ranges, lines, files, strings == "nul", compat == "go")
    sized = body.header
    if compat is None:
        about = (about or extra.Extra())._replace(tidy=body.tidy)
        if not about.producer:
            about = about._replace(producer=f"whence {__version__}")
        tail = extra.pack(about, *body.sources(), sized.end, body.starts, crc=crc)
    else:
        tail = b""
        crc = True
    if crc and out.seekable():
        start = out.tell()
        out.write(bytes(HEADER_SIZE))
        made = [crc32c(_passed(part, out)) for part in body.parts()]
        out.write(tail)
        out.seek(start)
        out.write(_with_crcs(sized, made).pack())
        out.seek(start + sized.end + len(tail))
    else:
        made = [crc32c(part) for part in body.parts()] if crc else [0, 0, 0, 0]
        out.write(_with_crcs(sized, made).pack())
        for part in body.parts():
            out.writelines(part)
        out.write(tail)
    return Written(
        ranges=sized.va.entries, functions=body.functions, inlined=sized.va.entries - body.functions,
        strings=body.names.count, line_entries=sized.lines.entries, va_size=sized.va.size,
        range_size=sized.ranges.size, string_size=sized.strings.size, line_size=sized.lines.size,
        extra_size=len(tail), size=sized.end + len(tail), unnamed=body.names.dropped,
    )  # fmt: skip


def to_bytes(ranges: Ranges, **options: object) -> bytes:
    """The archive in memory; the options of `write`."""
    out = io.BytesIO()
    write(ranges, out, **options)  # type: ignore[arg-type]
    return out.getvalue()


def _passed(parts: Iterator[bytes], out: BinaryIO) -> Iterator[bytes]:
    for part in parts:
        out.write(part)
        yield part


def _with_crcs(header: Header, crcs: list[int]) -> Header:
    return Header(*(section._replace(crc=crc) for section, crc in zip(header, crcs, strict=True)))


class _Body:
    """The four sections, ready to be encoded: names numbered, line runs stored, widths known."""

    def __init__(self, ranges: Ranges, lines: bool, files: bool, nul: bool, go: bool) -> None:
        ranges.check()
        count = len(ranges)
        self.ranges, self.lines = ranges, lines
        self.length = ranges.length if not go else array("Q", [size & _U32 for size in ranges.length])
        ordered, self.tidy, self.functions, most_va, most_length, most_line, fault = encode_kernel.survey(
            ranges.va, self.length, ranges.depth, ranges.line_index, ranges.line_count, ranges.line_offset,
            ranges.line_number, lines,
        )  # fmt: skip
        if fault >= 0:
            raise ValueError(f"range {fault} refers to line rows that the table does not have")
        if not ordered and not go:
            raise ValueError("ranges are in order of (va, depth): use whence.ranges.arrange, or lidia.Builder")
        seed = int.from_bytes(os.urandom(8), "little")
        self.names = strings_kernel.Interner(ranges.strings.sources, nul, seed, names_budget(ranges).most)
        self.function, self.file, self.call_file = (array("I", bytes(4 * count)) for _ in range(3))
        self.names.number(
            ranges.function, ranges.file, ranges.call_file, files, self.function, self.file, self.call_file
        )
        self.string = array("Q", bytes(8 * self.names.count))
        self.names.offsets(self.string)
        line_width = 4 if most_line > 0xFFFF else 2
        self.store = encode_kernel.Lines(line_width, seed, count)
        self.line_index = ranges.line_index
        if lines:
            self.line_index = array("I", bytes(4 * count))
            self.store.add(
                ranges.line_index, ranges.line_count, ranges.line_offset, ranges.line_number, not go, self.line_index
            )
        self.va, self.depth, self.line_count, self.call_line = (
            ranges.va, ranges.depth, ranges.line_count, ranges.call_line
        )  # fmt: skip
        self.starts = rows_of(ranges, self.names, self.string) if lines and files and not go else array("I")
        if not ordered:
            self._sort()
        most_field = max(most_length, self.string[-1], self.store.count)
        va = Section("VA table", 8 if most_va > _U32 else 4, count, HEADER_SIZE, 0)
        fields = Section("range table", 8 if most_field > _U32 else 4, count, va.end, 0)
        texts = Section("strings", 1, self.names.size, fields.end, 0)
        self.header = Header(va, fields, texts, Section("line tables", line_width, self.store.count, texts.end, 0))

    def _sort(self) -> None:
        """By (va, depth), equal ones as they were."""
        count = len(self.va)
        order, room = array("I", bytes(4 * count)), array("I", bytes(4 * count))
        keys = array("Q", self.depth)
        if order_kernel.order(keys, order, room, True):
            order, room = room, order
        if order_kernel.order(self.va, order, room, False):
            order = room
        for name in ("va", "length"):
            moved = array("Q", bytes(8 * count))
            columns_kernel.gather_words(order, getattr(self, name), moved)
            setattr(self, name, moved)
        for name in ("depth", "function", "file", "line_index", "line_count", "call_file", "call_line"):
            moved = array("I", bytes(4 * count))
            columns_kernel.gather_halves(order, getattr(self, name), moved)
            setattr(self, name, moved)

    def parts(self) -> Iterator[Iterator[bytes]]:
        """The bytes of the four sections, a piece at a time."""
        yield self._va_bytes()
        yield self._range_bytes()
        yield _pieces(self.names, self.header.strings.size)
        yield _pieces(self.store, self.header.lines.size)

    def _va_bytes(self) -> Iterator[bytes]:
        width = self.header.va.width
        for low, high in self._steps():
            room = bytearray((high - low) * width)
            encode_kernel.encode_va(self.va, low, high, width, room)
            yield bytes(room)

    def _range_bytes(self) -> Iterator[bytes]:
        width = self.header.ranges.width
        for low, high in self._steps():
            room = bytearray((high - low) * width * 8)
            encode_kernel.encode_ranges(
                self.length, self.depth, self.function, self.file, self.line_index, self.line_count, self.call_file,
                self.call_line, self.string, self.lines, low, high, width, room,
            )  # fmt: skip
            yield bytes(room)

    def _steps(self) -> Iterator[tuple[int, int]]:
        count = len(self.va)
        for low in range(0, count, _STEP):
            yield low, min(low + _STEP, count)

    def sources(self) -> tuple[bytes, tuple[array[int], bytes] | None]:
        """A byte per range, and the same as runs where those are few."""
        source = self.ranges.source
        room = len(source) // 5
        start, value = array("I", bytes(4 * room)), bytearray(room)
        found = encode_kernel.runs(source, start, value)
        return source.tobytes(), (start[:found], bytes(value[:found])) if found >= 0 else None


def _pieces(kernel: Any, size: int) -> Iterator[bytes]:
    for at in range(0, size, _PIECE):
        yield kernel.part(at, min(at + _PIECE, size))
