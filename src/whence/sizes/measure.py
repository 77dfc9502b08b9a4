"""The sizes of one file.

1. Choose the pieces: bytes of sections in memory, or of the file, each byte once where sections overlap.
2. Make the table that names code: of functions, or of units.
3. Count the bytes of each range in the pieces of code; the gaps are padding, or have no name.
4. Add the pieces without code, each by the name of its section.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import NamedTuple

from whence._base.budget import Budget
from whence._base.errors import ObjectError, WrongUse
from whence.kernels.rows import numbered
from whence.ranges import Ranges
from whence.ranges.table import zeros
from whence.sizes.kernels.tally import Tally, sums
from whence.sizes.model import KEYS, Kind, SizeOptions, SizeRow, Sizes
from whence.sizes.padding import padding_size
from whence.sizes.units import NAMES_ALLOWANCE, NAMES_TIMES, unit_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from whence.objects.interface import ObjectFile
    from whence.objects.parts import ObjectSection
    from whence.producers import Producers

LAST_VADDR = (1 << 64) - 1
HEADERS = "[headers and other bytes outside of sections]"
PADDING = "[padding]"


class Piece(NamedTuple):
    """The measured bytes of a section: [start, end) in vaddrs if the section is code."""

    section: ObjectSection
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def measure(
    producers: Producers, options: SizeOptions | None = None, *, demangle: Callable[[str], str] | None = None
) -> Sizes:
    """Return the sizes of a file.

    Args:
        producers: the sources of names of the file.
        options: what is measured.
        demangle: makes names of functions readable.

    Raises WrongUse if the file has no sections, or not the chosen ones; FormatError if names overlap too much.
    """
    options = options or SizeOptions()
    elf = producers.elf
    if options.by not in KEYS:
        raise WrongUse(f"sizes are by {', '.join(KEYS)}, not {options.by!r}")
    pieces = pieces_on_disk(elf, options) if options.on_disk else pieces_in_memory(elf, options)
    sections = tuple((piece.section.name, piece.size) for piece in pieces)
    rows: list[SizeRow] = []
    others: Counter[str] = Counter()  # bytes by section
    if options.by == "section":
        for name, size in sections:
            others[name] += size
        rows = [SizeRow(name, size, 0, Kind.SECTION) for name, size in others.items()]
    else:
        named = [piece for piece in pieces if piece.section.executable and piece.section.allocated]
        code = disjoint(named)
        rows = [*code_rows(producers, code, options, demangle)]
        for name, size in sections:
            others[name] += size
        for piece in code:
            others[piece.section.name] -= piece.size
        rows += [SizeRow(f"[section {name}]", size, 0, Kind.SECTION) for name, size in others.items()]
    if options.on_disk and not options.sections:
        rows.append(SizeRow(HEADERS, elf.size - sum(size for _, size in sections), 0, Kind.REST))
    rows = sorted((row for row in rows if row.bytes), key=lambda row: (-row.bytes, row.name))
    return Sizes(elf.path, options, tuple(rows), sections)


# 1. pieces


def chosen_sections(elf: ObjectFile, options: SizeOptions) -> list[ObjectSection]:
    """Return the sections with bytes in memory, or in the file, that the options choose."""
    every = [section for section in elf.sections if section.name or section.size]
    if not every:
        fault = WrongUse("the file has no sections to measure").in_file(elf.path)
        raise fault.with_hint("give an object file with a section table")
    missing = [name for name in options.sections if name not in {section.name for section in every}]
    if missing:
        names = ", ".join(dict.fromkeys(section.name for section in every if section.name))
        raise WrongUse(f"no section is named {missing[0]} (sections: {names})").in_file(elf.path)
    return [
        section
        for section in every
        if (section.in_file if options.on_disk else section.allocated)
        and (section.name in options.sections or not options.sections)
    ]


def pieces_in_memory(elf: ObjectFile, options: SizeOptions) -> list[Piece]:
    """Return each section with its size in memory."""
    return [
        Piece(section, section.vaddr, section.vaddr + section.memory_size) for section in chosen_sections(elf, options)
    ]


def pieces_on_disk(elf: ObjectFile, options: SizeOptions) -> list[Piece]:
    """Return each section with the bytes of the file that no section before it has."""
    pieces = {}
    position = 0
    sections = chosen_sections(elf, options)
    for section in sorted(sections, key=lambda section: (section.file_offset, section.index)):
        start = min(max(section.file_offset, position), elf.size)
        end = max(min(section.file_offset + section.size, elf.size), start)
        position = max(position, end)
        moved = section.vaddr - section.file_offset if section.executable else 0
        pieces[section.index] = Piece(section, start + moved, end + moved)
    return [pieces[section.index] for section in sections]


# 2. and 3. code


def code_rows(
    producers: Producers, pieces: Sequence[Piece], options: SizeOptions, demangle: Callable[[str], str] | None
) -> Iterator[SizeRow]:
    """Yield the rows of code: by name, without a name, and padding."""
    by = options.by
    with producers.reading():
        table = unit_table(producers) if by == "unit" else producers.ranges(lines=by == "file", starts=False)
        tally, sizes = Tally(), zeros("Q", len(table))
        starts, ends = array("Q", [piece.start for piece in pieces]), array("Q", [piece.end for piece in pieces])
        tally.run(table, by in ("inlined", "file"), starts, ends, sizes)
        totals, inlined = sums_by_name(table, sizes, producers, options, demangle)
    unnamed = totals.pop("", 0)
    yield from (SizeRow(name, size, inlined[name]) for name, size in totals.items())
    gaps = zip(tally.gap_start.numbers(), tally.gap_end.numbers(), strict=True)
    padding, gap_bytes = padded(producers, pieces, gaps)
    word = "function" if by == "inlined" else by
    yield SizeRow(f"[no {word}]", unnamed + gap_bytes - padding, 0, Kind.UNNAMED)
    yield SizeRow(PADDING, padding, 0, Kind.PADDING)


def disjoint(pieces: Sequence[Piece]) -> list[Piece]:
    """Return pieces of code in order of vaddr, each without what is in one before it or has no 64-bit address."""
    out: list[Piece] = []
    position = 0
    for section, start, end in sorted(pieces, key=lambda piece: piece.start):
        piece = Piece(section, max(start, position), min(end, LAST_VADDR))
        if piece.start < piece.end:
            out.append(piece)
            position = piece.end
    return out


def sums_by_name(
    table: Ranges, sizes: array[int], producers: Producers, options: SizeOptions,
    demangle: Callable[[str], str] | None,
) -> tuple[Counter[str], Counter[str]]:  # fmt: skip
    """Return the bytes of each name, and those in inlined calls; "" is code without a name."""
    refs, distinct = numbered(table.file if options.by == "file" else table.function, "Q")
    count = len(distinct)
    totals, inlined = zeros("Q", count), zeros("Q", count)
    sums(refs.numbers(), sizes, totals)
    if options.by == "inlined":
        sums(refs.numbers(), array("Q", [size if depth else 0 for size, depth in zip(sizes, table.depth)]), inlined)
    stored = producers.elf.size + producers.debug_elf.size
    budget = Budget("strings", "distinct names", stored, times=NAMES_TIMES, allowance=NAMES_ALLOWANCE)
    by_name: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for ref, total, inner in zip(distinct.numbers(), totals, inlined):
        if total:
            raw = table.strings.raw(ref)
            budget.charge(len(raw))
            name = raw.decode("utf-8", "surrogateescape")
            if options.by in ("file", "unit"):
                name = replaced(name, options.path_prefixes)
            elif demangle is not None:
                name = demangle(name)
            by_name[0][name] += total
            by_name[1][name] += inner
    return by_name


def replaced(path: str, prefixes: Sequence[tuple[str, str]]) -> str:
    """Return a path with the first prefix that it has replaced."""
    for old, new in prefixes:
        if path.startswith(old):
            return new + path[len(old) :]
    return path


def padded(producers: Producers, pieces: Sequence[Piece], gaps: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return how many bytes of the gaps in pieces of code are padding, and how many they are together.

    A section that cannot be read is a problem, and its gaps are not padding.
    """
    elf = producers.elf
    padding = total = number = 0
    content: memoryview | None = None
    with elf.reading():
        for start, end in gaps:
            total += end - start
            while pieces[number].end <= start:
                number, content = number + 1, None
            section = pieces[number].section
            if content is None:
                try:
                    content = elf.content(section)
                except ObjectError as error:
                    producers.problems.append(error.in_file(elf.path))
                    content = memoryview(b"")
            padding += padding_size(content[start - section.vaddr : end - section.vaddr], elf.machine)
    return padding, total
