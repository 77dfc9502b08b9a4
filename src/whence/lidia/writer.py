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
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from whence._version import __version__
from whence.budget import Budget
from whence.files import atomic_write
from whence.interrupts import interruptible
from whence.lidia.kernels import encode as encode_kernel
from whence.lidia.kernels import starts as starts_kernel
from whence.lidia.kernels import strings as strings_kernel
from whence.lidia.layout import (
    HEADER_SIZE,
    LINE_TABLES,
    RANGE_TABLE,
    STRINGS,
    VA_TABLE,
    Extra,
    Header,
    Section,
    crc32c,
    pack_extra,
)
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
ABSENT = 0xFFFFFFFF  # the number of a name that the archive does not have


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
    extra: Extra | None = None,
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
    about: Extra | None,
) -> Written:  # fmt: skip
    if strings not in ("length", "nul"):
        raise ValueError(f"strings are stored by 'length' or 'nul', not {strings!r}")
    if compat not in (None, "go"):
        raise ValueError(f"compat is None or 'go', not {compat!r}")
    body = interruptible(_Body)(ranges, lines, files, strings == "nul", compat == "go")
    sized = body.header
    if compat is None:
        about = (about or Extra()).replaced(tidy=body.tidy)
        if not about.producer:
            about = about.replaced(producer=f"whence {__version__}")
        tail = pack_extra(about, *body.sources(), sized.end, body.starts, crc=crc)
    else:
        tail = b""
        crc = True
    if crc and out.seekable():
        start = out.tell()
        out.write(bytes(HEADER_SIZE))
        made = [crc32c(_passed(part, out)) for part in body.parts()]
        out.write(tail)
        out.seek(start)
        out.write(sized.with_crcs(made).pack())
        out.seek(start + sized.end + len(tail))
    else:
        made = [crc32c(part) for part in body.parts()] if crc else [0, 0, 0, 0]
        out.write(sized.with_crcs(made).pack())
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
        self.starts = start_rows(ranges, self.names, self.string) if lines and files and not go else array("I")
        if not ordered:
            self._sort()
        most_field = max(most_length, self.string[-1], self.store.count)
        va = Section(VA_TABLE, 8 if most_va > _U32 else 4, count, HEADER_SIZE, 0)
        fields = Section(RANGE_TABLE, 8 if most_field > _U32 else 4, count, va.end, 0)
        texts = Section(STRINGS, 1, self.names.size, fields.end, 0)
        self.header = Header(va, fields, texts, Section(LINE_TABLES, line_width, self.store.count, texts.end, 0))

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


def start_rows(ranges: Ranges, names: strings_kernel.Interner, string: array[int]) -> array[int]:
    """The rows of STRT, three numbers each: function, file (offsets of strings) and line, in that order, each row once.

    A row holds for frames of that very function in that very file, so a declaration is kept where the archive has both
    names. A file may be spelt in two ways: link-time optimization writes the lines of code below another directory than
    the declarations (`/build/x/src/a.c`, and `./src/a.c` after -ffile-prefix-map). A relative path that the archive
    does not have is taken for the one absolute path that ends with it.

    `names` has numbered the names of the ranges, `string` says where each begins. None where offsets have over 32 bits.
    """
    starts = ranges.starts
    if not len(starts) or string[-1] > 0xFFFFFFFF:
        return array("I")
    function, file = _blank(len(starts)), _blank(len(starts))
    names.find(starts.function, function)
    names.find(starts.file, file)
    if ABSENT in file:
        file = _respelled(ranges, names, file)
    out = _blank(3 * len(starts))
    del out[3 * starts_kernel.settle(function, file, starts.line, string, out) :]
    return out


def _respelled(ranges: Ranges, names: strings_kernel.Interner, file: array[int]) -> array[int]:
    """The numbers of the files, with the absolute paths that absent relative ones mean."""
    refs = ranges.starts.file
    backwards = sorted((path[::-1], number) for number, path in names.absolute_paths())  # equal endings side by side
    meant: dict[int, int] = {}
    for ref in {ref for ref, number in zip(refs, file) if number == ABSENT}:
        ending = (b"/" + ranges.strings.raw(ref).removeprefix(b"./"))[::-1]
        at = bisect_left(backwards, (ending, 0))
        alike = [number for path, number in backwards[at : at + 2] if path.startswith(ending)]
        if len(alike) == 1:
            meant[ref] = alike[0]
    return array("I", [meant.get(ref, number) for ref, number in zip(refs, file)])


def _blank(count: int) -> array[int]:
    return array("I", bytes(4 * count))
