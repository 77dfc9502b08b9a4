"""`whence lidia create|info|verify|dump`: create and inspect archives."""

from __future__ import annotations

import os
import sys

from whence._base.words import address, plain
from whence.cli.main import ANSWERED, BROKEN_INPUT, SOME_UNKNOWN, WRONG_USE
from whence.cli.options import (
    LOCATOR_DEFAULTS,
    add_json_option,
    add_locator_options,
    add_name_options,
    default_debug_files,
    locator_of,
    needs_locator,
)
from whence.lidia.compressed import codec_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import Any

    from whence.archive.create import Created
    from whence.cli.parser import Parser
    from whence.lidia import Range
    from whence.lidia.results import SourceColumns
    from whence.locate.debug_files import DebugFiles
    from whence.objects.interface import ObjectFile


MOST_INDENT = 64
CREATE_DEFAULTS: dict[str, object] = {
    "action": "create", "output": None, "no_lines": False, "columns": False, "no_files": False, "no_dwarf": False,
    "no_symtab": False, "no_gopclntab": False, "compat": None, "strings": "length", "unwind": False,
    "demangle": False, "json": False, **LOCATOR_DEFAULTS,
}  # fmt: skip


def without_argparse(words: list[str]) -> dict[str, object] | None:
    """Return the options of `create BINARY` and `create BINARY -o OUT`; None for other words."""
    match words:
        case ["create", file, "-o", output] if not (file.startswith("-") or output.startswith("-")):
            return {**CREATE_DEFAULTS, "file": file, "output": output}
        case ["create", file] if not file.startswith("-"):
            return {**CREATE_DEFAULTS, "file": file}
    return None


def configure(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="create|info|verify|dump", required=True)
    alike: dict[str, Any] = {"allow_abbrev": False, "formatter_class": parser.formatter_class}
    create = actions.add_parser("create", help="create an archive of an ELF file", **alike)
    create.add_argument("file", metavar="BINARY", help="the ELF file")
    create.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="default: BINARY's name + .lidia in the current folder; compressed if it ends in .gz or .zst",
    )
    create.add_argument("--no-lines", action="store_true", help="omit line numbers")
    create.add_argument("--columns", action="store_true", help="include columns and discriminators (8 to 28 %% larger)")
    create.add_argument("--no-files", action="store_true", help="omit file names")
    create.add_argument("--no-dwarf", action="store_true", help="do not read DWARF")
    create.add_argument("--no-symtab", action="store_true", help="do not read symbol tables")
    create.add_argument("--no-gopclntab", action="store_true", help="do not read Go's function table")
    create.add_argument(
        "--compat",
        choices=("go",),
        help="write exactly what the Go package writes: functions of symbol tables and Go's table, no files or lines "
        "(except for programs that Go 1.26 or later linked externally, for which the Go package shifts every function)",
    )
    create.add_argument(
        "--strings",
        choices=("length", "nul"),
        default="length",
        help="delimit strings by length (the default) or NUL, which the Go package and Pyroscope cannot read",
    )
    create.add_argument(
        "--unwind", action="store_true", help="include unwind tables, so that cores can be unwound without the binary"
    )
    create.add_argument("--demangle", action="store_true", help="store demangled names instead of linkage names")
    add_json_option(create, "print a summary as one JSON object")
    add_locator_options(create)
    for name, text in (
        ("info", "print header, sizes, build-id, producer, sources"),
        ("verify", "check structure and checksums"),
    ):
        action = actions.add_parser(name, help=text, **alike)
        action.add_argument("archive", metavar="ARCHIVE", help="a .lidia file")
        add_json_option(action, "print one JSON object")
    dump = actions.add_parser("dump", help="print ranges with nesting, lines and call sites", **alike)
    dump.add_argument("archive", metavar="ARCHIVE", help="a .lidia file")
    dump.add_argument("start", metavar="START", nargs="?", type=address, help="first address, hex")
    dump.add_argument("end", metavar="END", nargs="?", type=address, help="end address (not included), hex")
    add_name_options(dump)
    add_json_option(dump)
    parser.examples(
        "whence lidia create app                        writes app.lidia",
        "whence lidia create app -o app.lidia.gz --columns",
        "whence lidia info app.lidia",
        "whence lidia verify app.lidia",
        "whence lidia dump app.lidia 0x1200 0x1220",
    )


def run(options: Namespace) -> int:
    actions = {"create": create, "info": info, "verify": verify, "dump": dump}
    return actions[options.action](options)


def create(options: Namespace) -> int:
    from whence._base.streams import refuse_terminal
    from whence.kernels.memory import share_heap
    from whence.objects.opening import open_object, split_architecture

    output = options.output or os.path.basename(options.file) + ".lidia"
    source, _ = split_architecture(options.file)
    if os.path.exists(output) and os.path.samefile(output, source):
        print(f"whence lidia create: {plain(output)} is the binary itself: give another -o", file=sys.stderr)
        return WRONG_USE
    if options.compat and (options.strings != "length" or options.demangle):
        print("whence lidia create: --compat go cannot be used with --strings or --demangle", file=sys.stderr)
        return WRONG_USE
    refuse_terminal(output, "an archive")
    share_heap()
    with open_object(options.file) as elf:
        created = create_from(elf, output, options)
    for problem in created.problems[:20]:
        print(f"whence: skipped: {plain(problem)}", file=sys.stderr)
    if len(created.problems) > 20:
        print(f"whence: and {len(created.problems) - 20} more", file=sys.stderr)
    status = ANSWERED
    if not created.written.ranges:
        status = BROKEN_INPUT if created.problems else SOME_UNKNOWN
        print("whence: the file has no debug info, symbols or Go tables: the archive names no address", file=sys.stderr)
    counts = created.written
    input_size, output_size = os.stat(source).st_size, stored_size(output, counts.size)
    if options.json:
        print(
            as_text(
                {
                    "binary": options.file,
                    "archive": output,
                    "debug_file": created.debug_file,
                    "ranges": counts.ranges,
                    "functions": counts.functions,
                    "sources": created.sources,
                    "lines": counts.line_entries,
                    "strings": counts.strings,
                    "input_bytes": input_size,
                    "archive_bytes": output_size,
                    "seconds": round(created.seconds, 6),
                    "skipped": list(created.problems),
                }
            )
        )
        return status
    per_source = ", ".join(f"{count:,} {word}" for word, count in created.sources.items()) or "none"
    print(f"{plain(output)}: {output_size:,} bytes, from {input_size:,} in {created.seconds:.3f} s")
    if created.debug_file:
        print(f"  debug file  {plain(created.debug_file)}")
    print(f"  functions   {counts.functions:,} (parts of split functions counted separately)")
    print(f"  ranges      {counts.ranges:,}, {counts.inlined:,} of inlined calls; by source: {per_source}")
    print(f"  lines       {counts.line_entries:,}")
    print(f"  strings     {counts.strings:,}")
    return status


def stored_size(output: str, size: int) -> int:
    """Return the size of an archive on disk, compressed or not."""
    return os.stat(output).st_size if codec_named(output) and os.path.isfile(output) else size


def create_from(elf: ObjectFile, output: str, options: Namespace) -> Created:
    """Archive an open file."""
    if not needs_locator(elf, options):
        return create_with(default_debug_files(), elf, output, options)
    with locator_of(options) as locator:
        return create_with(locator.debug_files, elf, output, options)


def create_with(debug_files: DebugFiles, elf: ObjectFile, output: str, options: Namespace) -> Created:
    """Archive an open file with its debug files."""
    from whence.archive.create import create_from_elf
    from whence.cli.progress import Progress

    with Progress(f"archiving {options.file}", quiet=options.json):
        return create_from_elf(
            elf,
            output,
            debug_files=debug_files,
            lines=not options.no_lines,
            files=not options.no_files,
            columns=options.columns,
            unwind=options.unwind,
            symtab=not options.no_symtab,
            gopclntab=not options.no_gopclntab,
            dwarf=not options.no_dwarf,
            compat=options.compat,
            strings=options.strings,
            demangle=options.demangle,
            jobs=options.jobs,
        )


def info(options: Namespace) -> int:
    from whence import lidia
    from whence._base.records import as_dict

    with lidia.open(options.archive) as table:
        facts, notes = as_dict(table.info()), table.notes()
    if options.json:
        print(as_text(facts))
        return ANSWERED
    width = max(map(len, facts))
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{count:,} {word}" for word, count in value.items())
        elif isinstance(value, (list, tuple)):
            value = ", ".join(value)
        elif isinstance(value, int):
            value = f"{value:,}"
        if value:
            print(f"{name.replace('_', ' '):{width}}  {plain(value)}")
    for note in notes:
        print(f"{'note':{width}}  {note}")
    return ANSWERED


def verify(options: Namespace) -> int:
    from whence import lidia

    with lidia.open(options.archive) as table:
        problems, notes = table.verify(), table.notes()
    if options.json:
        print(as_text({"archive": options.archive, "ok": not problems, "problems": problems, "notes": notes}))
    else:
        for note in notes:
            print(f"{options.archive}: note: {note}")
        for problem in problems:
            print(f"{plain(options.archive)}: {plain(problem)}")
        if not problems:
            print(f"{plain(options.archive)}: OK: structure and checksums are valid")
    return BROKEN_INPUT if problems else ANSWERED


def dump(options: Namespace) -> int:
    from whence import lidia
    from whence.demangle import demangle

    readable: Callable[[str], str] = str if options.no_demangle else demangle
    with lidia.open(options.archive) as table:
        for index, row in enumerate(table):
            if options.start is not None and row.vaddr + row.length <= options.start:
                continue
            if options.end is not None and row.vaddr >= options.end:
                break
            columns = table.source_columns(index)
            if options.json:
                print(as_text(as_json(row, readable) | columns_json(columns)))
            else:
                print_range(row, readable, columns)
    return ANSWERED


def as_json(row: Range, readable: Callable[[str], str]) -> dict[str, object]:
    return {
        "address": f"{row.vaddr:#x}",
        "length": row.length,
        "depth": row.depth,
        "function": readable(row.function),
        "file": row.file,
        "start_line": row.start_line,
        "call_file": row.call_file,
        "call_line": row.call_line,
        "source": row.source,
        "lines": [[entry[0], entry[1]] for entry in row.line_table],
    }


def columns_json(columns: SourceColumns | None) -> dict[str, object]:
    """Return the columns of a range's line entries and call, if the archive has columns."""
    if columns is None:
        return {}
    return {
        "columns": list(columns.columns),
        "discriminators": list(columns.discriminators),
        "call_column": columns.call_column,
        "call_discriminator": columns.call_discriminator,
    }


def print_range(row: Range, readable: Callable[[str], str], columns: SourceColumns | None) -> None:
    """Print a range and its line entries, indented by depth up to MOST_INDENT."""
    deep = row.depth > MOST_INDENT
    indent = f"depth {row.depth} " if deep else "  " * row.depth
    call_column = f":{columns.call_column}" if columns is not None else ""
    called = f"  called at {plain(row.call_file) or '??'}:{row.call_line}{call_column}" if row.depth else ""
    file = f"  {plain(row.file)}" if row.file else ""
    source = f"  [{row.source}]" if row.source else ""
    name = plain(readable(row.function)) or "??"
    print(f"{row.vaddr:#014x}-{row.vaddr + row.length:#014x} {indent}{name}{file}{called}{source}")
    for entry, (offset, line) in enumerate(row.line_table):
        column = f" column {columns.columns[entry]}" if columns is not None else ""
        if columns is not None and columns.discriminators[entry]:
            column += f" discriminator {columns.discriminators[entry]}"
        print(f"{'':29} {'' if deep else indent}  {row.vaddr + offset:#x} line {line}{column}")


def as_text(value: object) -> str:
    """Return a value as JSON text."""
    import json

    return json.dumps(value)
