"""`whence symbols FILE`: the functions of the symbol tables, in order of address, without overlaps.

Those of .gopclntab if a Go program has no symbol tables; of Windows programs those of the PDB file; of GSYM and
Breakpad files all functions.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from array import array
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError
from whence._base.model import SOURCES
from whence._base.streams import complain
from whence._base.words import plain
from whence.cli.main import ANSWERED, BROKEN_INPUT, SOME_UNKNOWN
from whence.cli.options import add_json_option, add_name_options, default_debug_files
from whence.objects.elf import functions
from whence.objects.interface import ObjectFile
from whence.objects.opening import open_object
from whence.producers import Producers
from whence.ranges import Ranges, StringSpace

if TYPE_CHECKING:
    from whence.cli.parser import Parser


def configure(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="an object file")
    add_name_options(parser)
    add_json_option(parser, "print one JSON object per line: address, size, source, name")
    parser.examples(
        "whence symbols app",
        "whence symbols app --json | jq -r .name",
    )


def run(options: Namespace) -> int:
    """Print the functions. Return 1 if there are none, 3 if a table is damaged."""
    problems: list[WhenceError] = []
    with open_object(options.file) as elf:
        if elf.has_only_names:
            from whence.exchange.reading import functions_of_file

            ranges = functions_of_file(elf, problems)
        elif elf.format in ("PE", "PDB"):
            ranges = pdb_functions(elf, problems)
        else:
            ranges = functions(elf, problems=problems)
        if not len(ranges) and not problems:
            ranges = go_functions(elf, problems)
        digits = elf.bits // 4
        lines = as_json(ranges, options) if options.json else as_text(ranges, options, digits)
        while chunk := list(islice(lines, 4096)):
            elf.check()  # names are read from the file as they are printed
            sys.stdout.write("".join(chunk))
        problems = [*elf.problems, *problems]
    for problem in problems:
        print(f"whence: {plain(problem)}", file=sys.stderr)
    if problems:
        return BROKEN_INPUT
    if not len(ranges):
        remedy = f"its debug file may have one: whence explain {options.file}"
        complain(f"{options.file}: no symbol table with functions and no .gopclntab; {remedy}")
    return ANSWERED if len(ranges) else SOME_UNKNOWN


def go_functions(elf: ObjectFile, problems: list[WhenceError]) -> Ranges:
    """Return the functions of .gopclntab, without lines. A fault is added to `problems`."""
    from whence.gopclntab import Pclntab

    strings = StringSpace()
    try:
        table = Pclntab.find(elf)
        if table is not None:
            return table.ranges(strings, lines=False, files=False, inlines=False)
    except WhenceError as error:
        problems.append(error)
    return Ranges(strings)


def pdb_functions(elf: ObjectFile, problems: list[WhenceError]) -> Ranges:
    """Return the functions and the public symbols of a PDB file, of a PE file with those of its PDB file.

    Faults are added to `problems`.
    """
    with Producers(elf, complete=default_debug_files().complete) as producers:
        if producers.pdb is None and producers.debug_elf is elf:
            return functions(elf, problems=problems)
        table = producers.ranges(lines=False, starts=False)
        problems += producers.errors()
    roots = [row for row, depth in enumerate(table.depth) if not depth]
    ranges = Ranges(table.strings)
    for name in ("vaddr", "length", "function", "source"):
        column = getattr(table, name)
        setattr(ranges, name, array(column.typecode, map(column.__getitem__, roots)))
    return ranges


def rows(ranges: Ranges, options: Namespace) -> Iterator[tuple[int, int, str, str]]:
    """Return (vaddr, size, source, name) of each range."""
    text = ranges.strings.text
    names: Iterator[str]
    if options.no_demangle:
        names = map(text, ranges.function)
    else:
        from whence.demangle import demangle

        names = (demangle(text(name)) for name in ranges.function)
    return zip(ranges.vaddr, ranges.length, (SOURCES[source] for source in ranges.source), names)


def as_text(ranges: Ranges, options: Namespace, digits: int) -> Iterator[str]:
    for vaddr, size, source, name in rows(ranges, options):
        yield f"{vaddr:0{digits}x} {size:8} {source:9} {plain(name)}\n"


def as_json(ranges: Ranges, options: Namespace) -> Iterator[str]:
    for vaddr, size, source, name in rows(ranges, options):
        yield json.dumps({"address": f"{vaddr:#x}", "size": size, "source": source, "name": name}) + "\n"
