"""GSYM: functions as ranges, and a table of ranges as GSYM version 1.

A file that is read may have version 1 or 2, in either byte order. A malformed function loses what cannot be read, and
is counted in one problem; functions with further names of the same code (merged functions) keep the first name.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Sequence

from whence._base.budget import Budget
from whence._base.errors import GsymError, Unsupported, WhenceError
from whence._base.source import Source
from whence._base.words import counted
from whence.exchange.counts import SymbolCounts
from whence.exchange.kernels.gsym import GsymEncoder, GsymFunctions
from whence.exchange.names import PathTable, first_scopes, new_names, offsets_in
from whence.exchange.paths import join_path
from whence.kernels.rows import moved, taken
from whence.lidia.layout import little_endian
from whence.lidia.writer import names_budget
from whence.objects.gsym import FIRST, HEADER, HEADER_REST, HEADER_SIZE, MAGIC, UUID_SIZE, WIDTHS, GsymFile, aligned
from whence.ranges import Ranges, Rows, Scopes, StringSpace
from whence.ranges.flatten import FlatTable, as_array
from whence.ranges.overlay import overlay_groups
from whence.ranges.strings import Arena

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

GSYM_LIMITS = (
    "columns and discriminators",
    "lines on which functions start",
    "the source of each name (debug info, symbols, Go's table)",
    "code with lines but without a function",
    "inlined calls whose calling file is unknown: readers skip them",
)
"""What a GSYM file cannot store, for people."""
PATHS_TIMES = 16  # paths repeat the names of folders: their total is at most this many times the strings,
PATHS_ALLOWANCE = 1 << 20  # plus this number of bytes
U32 = 0xFFFFFFFF
HEADER_1 = "<" + HEADER + HEADER_REST
ARRAY_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def gsym_ranges(
    file: GsymFile, strings: StringSpace, problems: list[WhenceError], *, near: Sequence[int] | None = None
) -> Ranges:
    """Return the functions of a file as ranges; only those at the vaddrs of `near`, if these are given.

    Names are references into `strings` to views of the file.
    """
    tables = file.tables
    arena = Arena(strings)
    start, end = tables.strings
    names = strings.ref(strings.add(file.data[start:end]), 0)
    files = array("Q", read_files(file, arena, problems))
    arena.seal()
    kernel = GsymFunctions()
    chosen = None if near is None else functions_at(file, near)
    kernel.read(file.data, tables, file.order == "big", len(files), chosen)
    if kernel.damaged:
        fault = f"{counted(kernel.damaged, 'malformed function')} without all names, lines or inlined calls"
        problems.append(GsymError("function infos", kernel.first_damaged, fault))
    scopes = Scopes(
        as_array(kernel.vaddr), as_array(kernel.end), as_array(kernel.depth),
        array("Q", bytes(moved(kernel.name.numbers(), names))),
        array("Q", bytes(taken(files, "Q", kernel.call_file.numbers()))),
        as_array(kernel.call_line),
    )  # fmt: skip
    rows = Rows(as_array(kernel.row_vaddr), as_array(kernel.row_file), as_array(kernel.row_line), files)
    out = Ranges(strings)
    overlay_groups(scopes, as_array(kernel.scope_ends), rows, as_array(kernel.row_ends), out, Source.GSYM)
    return out


def functions_at(file: GsymFile, vaddrs: Sequence[int]) -> array[int]:
    """Return the indexes of the last function that begins at or before each vaddr, ascending."""
    tables, data, order = file.tables, file.data, file.order
    start, width = tables.addresses[0], tables.width

    def vaddr_of(index: int) -> int:
        offset = start + index * width
        return tables.base + int.from_bytes(data[offset : offset + width], order)

    chosen = set()
    for vaddr in vaddrs:
        index = bisect_right(range(tables.count), vaddr, key=vaddr_of) - 1
        first = vaddr_of(index) if index >= 0 else 0
        while index > 0 and vaddr_of(index - 1) == first:
            index -= 1
        if index >= 0:
            chosen.add(index)
    return array("I", sorted(chosen))


def read_files(file: GsymFile, arena: Arena, problems: list[WhenceError]) -> list[int]:
    """Return the path of each file, as a reference into the arena; 0 if its names are outside the strings."""
    (start, end), (low, high) = file.tables.files, file.tables.strings
    strings = file.data[low:high]
    budget = Budget("files", "paths", high - low, times=PATHS_TIMES, allowance=PATHS_ALLOWANCE, error=GsymError)
    pair = struct.Struct(("<" if file.order == "little" else ">") + ("II" if file.tables.name_width == 4 else "QQ"))
    texts: dict[int, bytes] = {0: b""}
    paths: list[int] = []

    def text(offset: int) -> bytes:
        if offset not in texts:
            texts[offset] = string_at(strings, offset)
        return texts[offset]

    try:
        for folder, name in pair.iter_unpack(file.data[start:end]):
            path = join_path(text(folder), text(name)) if name or folder else b""
            budget.charge(len(path))
            paths.append(arena.add(path))
    except GsymError as error:
        problems.append(error)
    paths += [0] * ((end - start) // pair.size - len(paths))
    return paths or [0]


def string_at(strings: memoryview, offset: int) -> bytes:
    """Return the string at an offset, up to its NUL; b"" outside of the strings."""
    size = 64
    while offset < len(strings):
        chunk = bytes(strings[offset : offset + size])
        end = chunk.find(b"\0")
        if end >= 0:
            return chunk[:end]
        if len(chunk) < size:
            return chunk
        size *= 4
    return b""


def write_gsym(flat: FlatTable, strings: StringSpace, out: BinaryIO, *, build_id: str = "") -> SymbolCounts:
    """Write functions as a GSYM file of version 1. `strings` has the names.

    Raises Unsupported if there are no functions, or if the file would be larger than 4 GiB.
    """
    if not len(flat):
        raise Unsupported("a GSYM file needs a function, and the table has none")
    notes = []
    identity = bytes.fromhex(build_id)
    if len(identity) > UUID_SIZE:
        notes.append(f"the build-id has {len(identity)} bytes, of which the first {UUID_SIZE} are stored")
        identity = identity[:UUID_SIZE]
    paths = PathTable(strings, flat)
    names = new_names(strings)
    name_offsets = offsets_in(names, flat.scopes.function)
    files = array("I", offsets_in(names, paths.parts))
    if names.dropped:
        notes.append(f"{names.dropped} names left out: {names_budget(Ranges(strings)).reached()}")
    if names.size > U32:
        raise Unsupported(f"the names have {names.size:,} bytes, and a file of GSYM version 1 at most 4 GiB")
    encoder = GsymEncoder()
    encoder.run(flat, name_offsets, paths.by_row, paths.by_scope)
    infos = memoryview(encoder)
    starts = taken(flat.scopes.vaddr, "Q", first_scopes(flat)).numbers()
    base, count = starts[0], len(flat)
    width = next(width for width in WIDTHS if starts[-1] - base < 1 << 8 * width)
    info_offsets_start = aligned(aligned(HEADER_SIZE, width) + width * count, 4)
    strings_start = info_offsets_start + 4 * count + 4 + 4 * len(files)
    infos_start = aligned(strings_start + names.size, 4)
    if infos_start + len(infos) > U32:
        raise Unsupported(f"the file has {infos_start + len(infos):,} bytes, and GSYM version 1 at most 4 GiB")
    head = struct.pack(HEADER_1, MAGIC, FIRST, width, len(identity), base, count, strings_start, names.size, identity)
    parts = (
        (head, width),
        (little_endian(array(ARRAY_CODES[width], [start - base for start in starts])), 4),
        (little_endian(array("I", [infos_start + offset for offset in encoder.offset.numbers()])), 1),
        (struct.pack("<I", len(files) // 2) + little_endian(files), 1),
        (names.part(0, names.size), 4),
        (infos, 1),
    )
    size = 0
    for part, alignment in parts:
        padding = -(size + len(part)) % alignment
        out.write(part)
        out.write(bytes(padding))
        size += len(part) + padding
    return SymbolCounts(count, len(flat.scopes) - count, len(flat.rows), size, tuple(notes))
