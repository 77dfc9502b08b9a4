"""`whence columns IN -o OUT`: add columns of names to a table of addresses."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.words import counted, plain
from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.cli.options import add_json_option, add_locator_options, add_name_options, locator_of
from whence.cli.progress import Progress

if TYPE_CHECKING:
    from whence.cli.parser import Parser
    from whence.columns import Coverage
    from whence.columns.tables import TableReader

KINDS = ("parquet", "arrow", "csv", "json")


def configure(parser: Parser) -> None:
    parser.add_argument(
        "table", metavar="IN", help='Parquet, Arrow IPC, CSV (with a header) or JSON lines; "-" is stdin'
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT",
        help='the table with names; "-" is stdout (default: only print the columns that would be used)',
    )  # fmt: skip
    parser.add_argument("--from", dest="kind", choices=KINDS, help="format of IN (default: by its name or first bytes)")
    parser.add_argument("--format", choices=KINDS, help="format of OUT (default: by its name; on stdout that of IN)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--leaf", action="store_true", help="add columns of the innermost frame only")
    shape.add_argument("--exploded", action="store_true", help="write a row for each frame")
    shape.add_argument("--stacks", action="store_true", help="add a list of frames to each row (the default)")
    parser.add_argument("--return-addresses", action="store_true", help="addresses are return addresses")
    parser.add_argument(
        "--callers", action="store_true", help="all addresses but the first of each list are return addresses"
    )
    parser.add_argument("--prefix", default="", metavar="TEXT", help="prefix for the names of added columns")
    base = parser.add_mutually_exclusive_group()
    base.add_argument("--decimal", action="store_true", help="text addresses without 0x are decimal")
    base.add_argument("--hex", action="store_true", help="text addresses without 0x are hexadecimal")
    columns = parser.add_argument_group("columns of IN")
    columns.add_argument("--build-id", default="build_id", metavar="COL", help="build-ids: hex, or bytes (build_id)")
    columns.add_argument("--address", default="address", metavar="COL", help="vaddrs, single or lists (address)")
    columns.add_argument(
        "--file-offset", default="file_offset", metavar="COL", help="file offsets, instead of vaddrs (file_offset)"
    )
    columns.add_argument(
        "--mapping-start", default="mapping_start", metavar="COL",
        help="with --mapping-offset: addresses are runtime addresses of this mapping (mapping_start)",
    )  # fmt: skip
    columns.add_argument(
        "--mapping-offset", default="mapping_offset", metavar="COL", help="file offset of that mapping (mapping_offset)"
    )
    add_json_option(parser, "print the coverage as JSON on stderr")
    add_name_options(parser)
    add_locator_options(parser)
    parser.examples(
        "whence columns samples.parquet                                        the columns that would be used",
        "whence columns samples.parquet -o named.parquet --store /srv/symbols",
        "whence columns crashes.csv -o named.csv --leaf --binary app",
    )


def run(options: Namespace) -> int:
    from whence.columns import Namer
    from whence.columns.tables import TableKind, TableReader, looks_decimal, name_table

    out_kind = TableKind.of_word(options.format) if options.format else None
    in_kind = TableKind.of_word(options.kind) if options.kind else None
    if options.output is None:
        with TableReader(options.table, in_kind, build_id=options.build_id, address=options.address) as reader:
            return describe(reader, options)
    if out_kind is None and options.output != "-":
        out_kind = TableKind.of_name(options.output)
        if out_kind is None:
            endings = ", ".join(ending for kind in TableKind for ending in kind.value[1])
            raise WrongUse(f"{options.output}: unknown ending: use one of {endings}, or give --format")
    with (
        TableReader(options.table, in_kind, build_id=options.build_id, address=options.address) as reader,
        locator_of(options) as locator,
        Namer(
            locator=locator, demangle=not options.no_demangle, leaf=options.leaf, exploded=options.exploded,
            return_addresses="callers" if options.callers else options.return_addresses,
            build_id=options.build_id, address=options.address, file_offset=options.file_offset,
            mapping_start=options.mapping_start, mapping_offset=options.mapping_offset, prefix=options.prefix,
            decimal=options.decimal,
        ) as namer,
        Progress(f"naming the addresses of {plain(reader.name)}") as progress,
    ):  # fmt: skip
        out_kind = out_kind or reader.kind
        if options.output == "-" and sys.stdout.isatty() and out_kind in (TableKind.PARQUET, TableKind.ARROW):
            raise WrongUse(f"{out_kind.word} is binary: write it to a file or a pipe")
        namer.count_coverage()
        if reader.kind is TableKind.CSV and not (options.hex or options.decimal):
            reader.look_ahead(lambda batch: setattr(namer, "decimal", looks_decimal(batch, options.address)))

        def show(rows: int) -> None:
            progress.what = f"naming the addresses of {plain(reader.name)}: {counted(rows, 'row')}"

        rows = name_table(reader, namer, options.output, out_kind, show)
        report(namer.coverage, rows, options.json)
    return ANSWERED


def describe(reader: TableReader, options: Namespace) -> int:
    """Print which columns of a table would be used, and what to run. Returns 1 if a column is missing."""
    from whence.columns.tables import TableKind

    names = list(reader.schema.names)
    rows = f", {counted(reader.rows, 'row')}" if reader.rows else ""
    print(f"{plain(reader.name)}: {reader.kind.word}{rows}")
    roles = {
        "build-ids": ("--build-id", (options.build_id,)),
        "addresses": ("--address", (options.address, options.file_offset)),
    }
    missing = []
    for role, (option, columns) in roles.items():
        column = next((name for name in columns if name in names), None)
        if column is None:
            missing.append(option)
            print(f"  {role:10} no column named {' or '.join(map(plain, columns))}: give {option} COL")
        else:
            print(f"  {role:10} {plain(column)}: {plain(reader.schema.field(column).type)}")
    others = [plain(name) for name in names if name not in (options.build_id, options.address, options.file_offset)]
    print(f"  {'others':10} {', '.join(others) or 'none'}")
    if missing:
        return SOME_UNKNOWN
    ending = reader.kind.value[1][0]
    # a CSV file can't have lists of frames
    how = (
        " --leaf (--exploded: a row for each frame)"
        if reader.kind is TableKind.CSV
        else " (--leaf: the innermost frame only)"
    )
    print(f"to name them: whence columns {plain(options.table)} -o named{ending}{how}")
    return ANSWERED


def report(coverage: list[Coverage], rows: int, as_json: bool) -> None:
    """Print on stderr what was named: a line for each build-id, and reasons and remedies for the rest."""
    if as_json:
        build_ids = [
            {
                "build_id": each.build_id, "addresses": each.rows, "named": each.named, "distinct": each.distinct,
                "distinct_named": each.distinct_named,
                "missing": [
                    {
                        "reason": missing.reason.word, "detail": missing.detail, "addresses": count,
                        "remedy": missing.remedy,
                    }
                    for missing, count in each.missing.most_common()
                ],
            }
            for each in coverage
        ]  # fmt: skip
        print(json.dumps({"rows": rows, "build_ids": build_ids}), file=sys.stderr)
        return
    total, named = sum(each.rows for each in coverage), sum(each.named for each in coverage)
    summary = f"{named:,} of {total:,} addresses named, {counted(rows, 'row')}, {counted(len(coverage), 'build-id')}"
    print(summary, file=sys.stderr)
    for each in coverage[:20]:
        share = 100 * each.named / each.rows if each.rows else 0
        name = plain(each.build_id) or "(no build-id)"
        print(
            f"  {name}: {each.named:,} of {each.rows:,} ({share:.1f} %), "
            f"distinct {each.distinct_named:,} of {each.distinct:,}",
            file=sys.stderr,
        )
        for missing, count in each.missing.most_common(3):
            print(f"    {count:,}: {plain(str(missing))}{os.linesep}      {plain(missing.remedy)}", file=sys.stderr)
    if len(coverage) > 20:
        print(f"  and {counted(len(coverage) - 20, 'more build-id')} (--json prints all)", file=sys.stderr)
