"""`whence columns IN -o OUT`: names for the addresses of a table, added as columns."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.words import plain
from whence.cli.main import ANSWERED
from whence.cli.options import add_json_option, add_locator_options, add_name_options, locator_of
from whence.cli.progress import Progress

if TYPE_CHECKING:
    from whence.columns import Coverage

KINDS = ("parquet", "arrow", "csv", "json")


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "table", metavar="IN", help='Parquet, Arrow IPC, CSV (with a header) or JSON lines; "-" is stdin'
    )
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help='the table with names; "-" is stdout')
    parser.add_argument("--from", dest="kind", choices=KINDS, help="what IN is (default: by its name or first bytes)")
    parser.add_argument("--format", choices=KINDS, help="what OUT is (default: by its name; to stdout as IN is)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--leaf", action="store_true", help="columns of the innermost frame alone")
    shape.add_argument("--exploded", action="store_true", help="a row for each frame")
    shape.add_argument("--stacks", action="store_true", help="a list of frames in each row (the default)")
    parser.add_argument("--return-addresses", action="store_true", help="addresses are one past a call")
    parser.add_argument(
        "--callers", action="store_true", help="addresses are one past a call, but for the first of each list"
    )
    parser.add_argument("--prefix", default="", metavar="TEXT", help="put before the names of added columns")
    base = parser.add_mutually_exclusive_group()
    base.add_argument("--decimal", action="store_true", help="addresses that are texts without 0x are decimal")
    base.add_argument("--hex", action="store_true", help="addresses that are texts without 0x are in hex")
    columns = parser.add_argument_group("what the columns of IN are called")
    columns.add_argument("--build-id", default="build_id", metavar="COL", help="build-ids: hex, or bytes (build_id)")
    columns.add_argument("--address", default="address", metavar="COL", help="vaddrs, single or lists (address)")
    columns.add_argument("--file-offset", default="file_offset", metavar="COL", help="in place of it (file_offset)")
    columns.add_argument(
        "--mapping-start", default="mapping_start", metavar="COL",
        help="with --mapping-offset: addresses are runtime ones (mapping_start)",
    )  # fmt: skip
    columns.add_argument("--mapping-offset", default="mapping_offset", metavar="COL", help="(mapping_offset)")
    add_json_option(parser, "the coverage as JSON on stderr")
    add_name_options(parser)
    add_locator_options(parser)


def run(options: Namespace) -> int:
    from whence.columns import Namer
    from whence.columns.tables import TableKind, TableReader, looks_decimal, name_table

    out_kind = TableKind.of_word(options.format) if options.format else None
    in_kind = TableKind.of_word(options.kind) if options.kind else None
    if out_kind is None and options.output != "-":
        out_kind = TableKind.of_name(options.output)
        if out_kind is None:
            endings = ", ".join(ending for one in TableKind for ending in one.value[1])
            raise WrongUse(f"{options.output}: its ending is none of {endings}: say --format")
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
            raise WrongUse(f"{out_kind.word} is binary: write it to a file, or into a pipe")
        namer.count_coverage()
        if reader.kind is TableKind.CSV and not (options.hex or options.decimal):
            reader.look_ahead(lambda batch: setattr(namer, "decimal", looks_decimal(batch, options.address)))

        def show(rows: int) -> None:
            progress.what = f"naming the addresses of {plain(reader.name)}: {rows:,} rows"

        rows = name_table(reader, namer, options.output, out_kind, show)
        report(namer.coverage, rows, options.json)
    return ANSWERED


def report(coverage: list[Coverage], rows: int, as_json: bool) -> None:
    """What was named, on stderr: a line for each build-id, and the reasons of the rest with a remedy."""
    if as_json:
        found = [
            {
                "build_id": one.build_id, "addresses": one.rows, "named": one.named, "distinct": one.distinct,
                "distinct_named": one.distinct_named,
                "missing": [
                    {
                        "reason": missing.reason.word, "detail": missing.detail, "addresses": count,
                        "remedy": missing.remedy,
                    }
                    for missing, count in one.missing.most_common()
                ],
            }
            for one in coverage
        ]  # fmt: skip
        print(json.dumps({"rows": rows, "build_ids": found}), file=sys.stderr)
        return
    total, named = sum(one.rows for one in coverage), sum(one.named for one in coverage)
    print(f"{named:,} of {total:,} addresses named, {rows:,} rows, {len(coverage):,} build-ids", file=sys.stderr)
    for one in coverage[:20]:
        share = 100 * one.named / one.rows if one.rows else 0
        name = plain(one.build_id) or "(no build-id)"
        print(
            f"  {name}: {one.named:,} of {one.rows:,} ({share:.1f} %), "
            f"distinct {one.distinct_named:,} of {one.distinct:,}",
            file=sys.stderr,
        )
        for missing, count in one.missing.most_common(3):
            print(f"    {count:,}: {plain(str(missing))}{os.linesep}      {plain(missing.remedy)}", file=sys.stderr)
    if len(coverage) > 20:
        print(f"  and {len(coverage) - 20:,} more build-ids (--json has all)", file=sys.stderr)
