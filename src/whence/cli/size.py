"""`whence size FILE [--base OLD]`: bytes by function, inlined function, file, unit or section, and their growth."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.streams import complain
from whence._base.words import counted, plain
from whence.cli.main import ANSWERED, BROKEN_INPUT, SOME_UNKNOWN, TOO_LARGE
from whence.cli.options import add_json_option, add_locator_options, add_name_options, locator_of
from whence.cli.source_options import path_prefix
from whence.sizes import Change, Growth, SizeOptions, SizeRow, Sizes, compare
from whence.sizes.model import KEYS

if TYPE_CHECKING:
    from whence.cli.parser import Parser
    from whence.locator.locator import Locator

AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(%|[KMG]iB|[KMG]|B|)", re.IGNORECASE)
UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
SHOWN = 20  # rows


def configure(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="an object file; a separate debug file is found as for addresses")
    parser.add_argument("--base", metavar="OLD", help="an older build: print what grew and shrank since")
    parser.add_argument(
        "--by",
        choices=KEYS,
        default="function",
        help="what bytes are grouped by (function); inlined: code of inlined calls counts for the inlined function, "
        "for file and unit also",
    )
    parser.add_argument(
        "--section", action="append", default=[], metavar="NAME", help="measure only this section (repeatable)"
    )
    parser.add_argument(
        "--on-disk",
        action="store_true",
        help="measure the bytes of the file, with debug info and headers, instead of those in memory",
    )
    parser.add_argument(
        "-n", "--rows", type=rows, metavar="N", help="print the first N rows (20, with --json all; 0: all)"
    )
    parser.add_argument(
        "--max-growth",
        type=amount,
        metavar="BYTES|PERCENT",
        help="exit with 4 if all measured bytes together grew by more than this: 4096, 64KiB, 0.5%%",
    )
    parser.add_argument(
        "--path-prefix",
        action="append",
        default=[],
        type=path_prefix,
        metavar="OLD=NEW",
        help="replace OLD with NEW at the start of paths of files and units, so that builds of different folders "
        "compare (repeatable)",
    )
    add_json_option(parser, "print one JSON object per row")
    add_name_options(parser)
    add_locator_options(parser)
    parser.epilog = "exit codes: 0 measured, 1 no code has a name, 4 grew beyond --max-growth"
    parser.examples(
        "whence size app                                      the largest functions",
        "whence size app --by file -n 0                       every file",
        "whence size app --base old/app --by inlined          what grew since another build",
        "whence size app --base old/app --max-growth 1%       a check for CI",
        "whence size app --on-disk --by section --json",
    )


def rows(word: str) -> int:
    """Parse a number of rows. argparse reports a ValueError."""
    count = int(word)
    if count < 0:
        raise ValueError(word)
    return count


rows.__name__ = "number of rows"  # in argparse's messages


def amount(word: str) -> tuple[float, str]:
    """Parse an amount of bytes, or a percentage, which has "%" as its unit. argparse reports a ValueError.

    >>> amount("64KiB"), amount("0.5%")
    ((65536.0, ''), (0.5, '%'))
    """
    match = AMOUNT.fullmatch(word)
    if match is None:
        raise ValueError(word)
    number, unit = float(match[1]), match[2].lower()
    return (number, "%") if unit == "%" else (number * UNITS[unit[:1]], "")


amount.__name__ = "amount of bytes or percentage"


def run(options: Namespace) -> int:
    """Print sizes. Return 1 if no code has a name, 3 if debug info is damaged, 4 if the growth exceeds the limit."""
    if options.max_growth is not None and options.base is None:
        raise WrongUse("--max-growth needs the build to compare with: --base OLD")
    about = SizeOptions(options.by, options.on_disk, tuple(options.section), tuple(options.path_prefix))
    problems: list[str] = []
    with locator_of(options) as locator:
        sizes = measured(options.file, about, locator, options, problems)
        base = measured(options.base, about, locator, options, problems) if options.base is not None else None
    limit = options.rows or None
    if options.rows is None and not options.json:
        limit = SHOWN
    if base is None:
        lines = as_json(sizes, limit) if options.json else as_text(sizes, limit)
    else:
        changes = [row for row in compare(sizes, base) if row.change is not Change.SAME]
        lines = growth_json(changes, limit) if options.json else growth_text(changes, sizes, base, limit)
    for line in lines:
        print(line)
    for problem in problems:
        print(f"whence: {plain(problem)}", file=sys.stderr)
    if problems:
        return BROKEN_INPUT
    if base is not None and exceeds(sizes.total, base.total, options.max_growth):
        grown = sizes.total - base.total
        complain(f"{options.file} grew by {grown:,} bytes{share(grown, base.total)}, more than --max-growth allows")
        return TOO_LARGE
    if options.by != "section" and not sizes.named:
        complain(f"{options.file}: no code has a name; a debug file may have names: whence explain {options.file}")
        return SOME_UNKNOWN
    return ANSWERED


def measured(path: str, about: SizeOptions, locator: Locator, options: Namespace, problems: list[str]) -> Sizes:
    """Return the sizes of a file; descriptions of damaged parts are added to `problems`."""
    with locator.open(path, demangle=not options.no_demangle) as binary:
        sizes = binary.sizes(about)
        problems += binary.problems
    return sizes


def exceeds(total: int, base: int, limit: tuple[float, str] | None) -> bool:
    """Return True if the growth is above the limit; any growth from 0 is above every percentage."""
    if limit is None or total <= base:
        return False
    number, unit = limit
    return (total - base) * 100 > number * base if unit == "%" else total - base > number


def share(part: int, total: int) -> str:
    return f" ({part / total:+.2%})" if total else ""


# text and JSON


def as_text(sizes: Sizes, limit: int | None) -> Iterator[str]:
    total = sizes.total
    inlined = sizes.options.by == "inlined"
    middle = f"{'inlined':>12}  " if inlined else ""
    yield f"{'bytes':>12}  {'share':>6}  {middle}{sizes.options.by if not inlined else 'function'}"
    for row in [*sizes.rows[:limit], *others(sizes.rows, limit)]:
        middle = f"{row.inlined:>12,}  " if inlined else ""
        yield f"{row.bytes:>12,}  {row.bytes / total if total else 0:>6.1%}  {middle}{plain(row.name)}"
    middle = f"{sum(row.inlined for row in sizes.rows):>12,}  " if inlined else ""
    yield f"{total:>12,}  {1:>6.1%}  {middle}total of {what(sizes)}"


def what(sizes: Sizes) -> str:
    """Return what the total is of."""
    if sizes.options.on_disk and not sizes.options.sections:
        return "the file"
    return f"{counted(len(sizes.sections), 'section')} {'on disk' if sizes.options.on_disk else 'in memory'}"


def others(every: Sequence[SizeRow], limit: int | None) -> list[SizeRow]:
    """Return a row for the rows past the limit."""
    rest = every[limit:] if limit is not None else ()
    if not rest:
        return []
    return [SizeRow(f"[{len(rest):,} others]", sum(row.bytes for row in rest), sum(row.inlined for row in rest))]


def growth_text(changes: Sequence[Growth], sizes: Sizes, base: Sizes, limit: int | None) -> Iterator[str]:
    yield f"{'growth':>12}  {'bytes':>12}  {'change':>7}  {sizes.options.by.replace('inlined', 'function')}"
    for row in changes[:limit]:
        yield f"{row.growth:>+12,}  {row.bytes:>12,}  {row.change:>7}  {plain(row.name)}"
    rest = changes[limit:] if limit is not None else ()
    if rest:
        growth, size = sum(row.growth for row in rest), sum(row.bytes for row in rest)
        yield f"{growth:>+12,}  {size:>12,}  {'':7}  [{len(rest):,} others]"
    growth = sizes.total - base.total
    was = f"was {base.total:,}{share(growth, base.total)}"
    yield f"{growth:>+12,}  {sizes.total:>12,}  {'':7}  total of {what(sizes)}, {was}"


def as_json(sizes: Sizes, limit: int | None) -> Iterator[str]:
    for row in sizes.rows[:limit]:
        inlined = {"inlined": row.inlined} if sizes.options.by == "inlined" else {}
        yield json.dumps({"name": row.name, "kind": row.kind, "bytes": row.bytes, **inlined})


def growth_json(changes: Sequence[Growth], limit: int | None) -> Iterator[str]:
    for row in changes[:limit]:
        fields = {"name": row.name, "kind": row.kind, "change": row.change, "bytes": row.bytes, "base": row.old}
        yield json.dumps({**fields, "growth": row.growth})
