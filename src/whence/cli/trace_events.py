"""`whence trace events IN --format csv|jsonl|parquet`: a row for each event that the filter wants."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from whence.cli.trace_files import add_filter, add_input, add_output, chosen, readable_twice, sink
from whence.files import atomic_text


def configure(parser: ArgumentParser) -> None:
    add_input(parser, "in the wire form")
    add_output(parser)
    add_filter(parser)
    parser.add_argument("--format", choices=("csv", "jsonl", "parquet"), default="csv", help="default: csv")


def run(options: Namespace) -> int:
    from whence.gotrace.rows import Rows, write_csv, write_jsonl, write_parquet

    rows = Rows(readable_twice(options.input), chosen(options))
    if options.format == "parquet":
        with sink(options.output) as out:
            write_parquet(rows, out)
        return 0
    write = write_csv if options.format == "csv" else write_jsonl
    if options.output == "-":
        write(rows, sys.stdout)
    else:
        with atomic_text(options.output) as text:
            write(rows, text)
    return 0
