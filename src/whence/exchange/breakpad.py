"""Breakpad symbol files: records as ranges, and a table of ranges as records.

A function is FUNC with the rows of its lines, and INLINE records with the calls in it. PUBLIC records have no size:
they extend to the next function or public symbol, and name only what no function covers. STACK records are not read;
they are copied from one symbol file to another.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from whence._base.errors import BreakpadError, Unsupported, WhenceError
from whence._base.records import Record
from whence._base.source import Source
from whence._base.words import counted
from whence.exchange.counts import SymbolCounts
from whence.exchange.kernels.breakpad import BreakpadRecords, BreakpadText
from whence.exchange.names import PathTable, first_scopes, new_names, offsets_in
from whence.kernels.rows import numbered, taken
from whence.lidia.writer import names_budget
from whence.objects.breakpad import LONGEST_LINE, BreakpadFile, BreakpadModule
from whence.ranges import Ranges, Rows, Scopes, StringSpace
from whence.ranges.flatten import FlatTable, as_array
from whence.ranges.merge import merge
from whence.ranges.overlay import overlay_groups
from whence.ranges.table import zeros

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

BREAKPAD_LIMITS = (
    "columns and discriminators",
    "lines on which functions start",
    "the source of each name, except that symbols without lines are public symbols, which have no size",
    "code with lines but without a function",
    "unwind rules that are not sums and memory accesses (DWARF expressions of other operations)",
)
"""What a Breakpad symbol file cannot store, for people."""
NAMELESS = b"<name omitted>"  # as Breakpad's own tools write it
NO_PATH = b"??"
PAGE = 0x1000
U64 = (1 << 64) - 1

PUBLIC_SOURCES = frozenset(source.number for source in (Source.SYMTAB, Source.MINIDEBUG, Source.DYNSYM, Source.PLT))
CONTROLS = bytes([0, *b" " * 31, *range(32, 256)])  # a newline in a name would end its record
STACK = re.compile(rb"^STACK [^\n]*\n?", re.MULTILINE)
NUMBERS_PER_BYTE = 8  # a record of a file has at least that many bytes


def breakpad_ranges(file: BreakpadFile, strings: StringSpace, problems: list[WhenceError], base: int = 0) -> Ranges:
    """Return the functions and public symbols of a file as ranges, with `base` added to all addresses.

    Names are references into `strings` to a copy of the file.
    """
    text = bytearray(file.data)
    if not text.endswith(b"\n"):
        text += b"\n"
    kernel = BreakpadRecords()
    kernel.read(text)
    if kernel.damaged:
        fault = f"{counted(kernel.damaged, 'malformed record')} left out"
        problems.append(BreakpadError("file", kernel.first_damaged, fault))
    source = strings.ref(strings.add(text), 0)
    most = len(text) // NUMBERS_PER_BYTE
    files = by_number(kernel.file_number.numbers(), kernel.file_name.numbers(), source, most)
    unknown = {ref for ref in files if ref and strings.raw(ref) == NO_PATH}
    if unknown:
        files = array("Q", [0 if ref in unknown else ref for ref in files])
    origins = by_number(kernel.origin_number.numbers(), kernel.origin_name.numbers(), source, most)
    depth, name = as_array(kernel.depth), kernel.name.numbers()
    scopes = Scopes(
        shifted(kernel.vaddr.numbers(), base), shifted(kernel.end.numbers(), base), depth,
        array("Q", [
            source + offset if not level else origins[offset] if offset < len(origins) else 0
            for offset, level in zip(name, depth, strict=True)
        ]),
        array("Q", [files[number] if number < len(files) else 0 for number in kernel.call_file.numbers()]),
        as_array(kernel.call_line),
    )  # fmt: skip
    rows = Rows(shifted(kernel.row_vaddr.numbers(), base), as_array(kernel.row_file), as_array(kernel.row_line), files)
    functions = Ranges(strings)
    overlay_groups(scopes, as_array(kernel.scope_ends), rows, as_array(kernel.row_ends), functions, Source.BREAKPAD)
    return merge([functions, public_ranges(kernel, scopes, strings, source, base)])


def shifted(numbers: memoryview, base: int) -> array[int]:
    """Return addresses plus `base`, which may be negative."""
    return array("Q", numbers) if not base else array("Q", [number + base & U64 for number in numbers])


def by_number(numbers: memoryview, names: memoryview, source: int, most: int) -> array[int]:
    """Return the name of each number as a reference, 0 for missing ones; numbers of `most` and more are left out."""
    size = 1 + max((number for number in numbers if number < most), default=-1)
    out = zeros("Q", size)
    for number, name in zip(reversed(numbers), reversed(names), strict=True):  # the first of equal numbers counts
        if number < size:
            out[number] = source + name
    return out


def public_ranges(kernel: BreakpadRecords, scopes: Scopes, strings: StringSpace, source: int, base: int) -> Ranges:
    """Return the public symbols, each up to the next function or symbol; the last one ends with its page."""
    vaddrs, names = shifted(kernel.public_vaddr.numbers(), base), kernel.public_name.numbers()
    starts = sorted({*vaddrs, *(vaddr for vaddr, depth in zip(scopes.vaddr, scopes.depth, strict=True) if not depth)})
    vaddr, length, function = array("Q"), array("Q"), array("Q")
    for start, name in sorted(zip(vaddrs, names, strict=True)):
        index = bisect_right(starts, start)
        end = starts[index] if index < len(starts) else (start | PAGE - 1) + 1
        if (not vaddr or vaddr[-1] != start) and end < 1 << 64:
            vaddr.append(start)
            length.append(end - start)
            function.append(source + name)
    count = len(vaddr)
    out = Ranges(strings, vaddr=vaddr, length=length, function=function)
    out.source = array("B", bytes([Source.BREAKPAD.number]) * count)
    out.depth, out.line_index, out.line_count, out.call_line = (zeros("I", count) for _ in range(4))
    out.file, out.call_file = zeros("Q", count), zeros("Q", count)
    return out


def copied_stack(file: BreakpadFile) -> Iterator[bytes]:
    """Yield the STACK records of a file, each with its newline."""
    for match in STACK.finditer(file.data):
        record = match.group().rstrip(b"\r\n")
        if len(record) <= LONGEST_LINE:
            yield record + b"\n"


class BreakpadNames(Record, frozen=True):
    """The names of a FlatTable for the kernel.

    text: names, each with a NUL at its end.
    start: the offset of each scope's name in the text.
    origin: the number of each scope's INLINE_ORIGIN; of functions without meaning.
    call_file: the number of the FILE that each scope is called in.
    file: the number of FILE of each of the rows' files.
    is_public: 1 for each function that is a public symbol.
    """

    text: bytes
    start: array[int]
    origin: memoryview
    call_file: memoryview
    file: memoryview
    is_public: bytes


def write_breakpad(
    flat: FlatTable, strings: StringSpace, out: BinaryIO, module: BreakpadModule, *, base: int = 0,
    stack: Iterable[bytes] = (),
) -> SymbolCounts:  # fmt: skip
    """Write functions as a Breakpad symbol file. `strings` has the names.

    Args:
        module: what the first records say.
        base: what addresses are relative to: the start of the image, which may be negative.
        stack: STACK records, each with its newline.

    Raises Unsupported if there are no functions.
    """
    if not len(flat):
        raise Unsupported("a Breakpad symbol file needs a function, and the table has none")
    notes = []
    scopes, first = flat.scopes, first_scopes(flat)
    names = new_names(strings)
    starts = array("Q", offsets_in(names, scopes.function))
    if names.dropped:
        notes.append(f"{names.dropped} names left out: {names_budget(Ranges(strings)).reached()}")
    text = bytes(names.part(0, names.size)).translate(CONTROLS) + NAMELESS + b"\0"
    if 0 in starts:
        starts = array("Q", [start or names.size for start in starts])
    paths = PathTable(strings, flat)
    is_inlined = bytes(map(bool, scopes.depth))
    origins = array("Q", [start for start, inlined in zip(starts, is_inlined, strict=True) if inlined])
    numbers, distinct = numbered(origins, "Q")
    origin = zeros("I", len(scopes))
    inlined_numbers = iter(numbers.numbers())
    for index, inlined in enumerate(is_inlined):
        if inlined:
            origin[index] = next(inlined_numbers)
    is_public = publics_of(flat, first)
    by_name = BreakpadNames(text, starts, memoryview(origin), paths.by_scope, paths.by_row, is_public)
    encoder = BreakpadText()
    encoder.run(flat, by_name, base & U64)

    def parts() -> Iterator[bytes | memoryview]:
        name = module.name.translate(dict.fromkeys(range(32), " "))
        yield f"MODULE {module.system} {module.cpu} {module.debug_id.breakpad} {name}\n".encode("utf-8", "replace")
        if module.code_id:
            yield f"INFO CODE_ID {module.code_id.upper()}\n".encode()
        for number, path in enumerate(paths.paths):
            yield b"FILE %d %s\n" % (number, path.translate(CONTROLS) or NO_PATH)
        for number, start in enumerate(distinct.numbers()):
            yield b"INLINE_ORIGIN %d %s\n" % (number, text[start : text.index(0, start)])
        yield memoryview(encoder)
        for group, public in enumerate(is_public):
            if public:
                start = starts[first[group]]
                vaddr = scopes.vaddr[first[group]] - base
                yield b"PUBLIC %x 0 %s\n" % (vaddr, text[start : text.index(0, start)])
        yield from stack

    size = 0
    for part in parts():
        size += len(part)
        out.write(part)
    return SymbolCounts(len(flat), len(scopes) - len(flat), len(flat.rows), size, tuple(notes))


def publics_of(flat: FlatTable, first: Sequence[int]) -> bytes:
    """Return 1 for each function of a symbol table without lines and calls, else 0."""
    sources = taken(flat.source, "B", first)
    is_public = bytearray(len(flat))
    scope = row = 0
    for group, (last_scope, last_row) in enumerate(zip(flat.scope_ends, flat.row_ends, strict=True)):
        bare = last_scope == scope + 1 and not any(flat.rows.line[row:last_row])
        is_public[group] = bare and sources[group] in PUBLIC_SOURCES
        scope, row = last_scope, last_row
    return bytes(is_public)
