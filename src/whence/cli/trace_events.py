"""`whence trace events IN --format csv|jsonl|parquet`: a row for each selected event."""

from __future__ import annotations

import io
import os
from argparse import ArgumentParser, Namespace

from whence._base.streams import by_ending, refuse_terminal
from whence.cli.trace_files import add_filter, add_input, add_output, converting, filter_of, readable_twice, sink

FORMATS = ("csv", "jsonl", "parquet")
ENDINGS = ((".csv", "csv"), (".jsonl", "jsonl"), (".ndjson", "jsonl"), (".parquet", "parquet"))


def configure(parser: ArgumentParser) -> None:
    add_input(parser, "in the wire form")
    add_output(parser)
    add_filter(parser)
    parser.add_argument("--format", choices=FORMATS, help="what to write (default: by OUT's ending, else csv)")


def run(options: Namespace) -> int:
    from whence.gotrace.rows import FilteredBlocks, write_csv, write_jsonl, write_parquet

    format = options.format or by_ending(options.output, ENDINGS, "a table of events", "; or give --format") or "csv"
    if format == "parquet":
        refuse_terminal(options.output, "a Parquet file")
    source = readable_twice(options.input)
    size = len(source) if isinstance(source, bytes) else os.stat(source).st_size
    with sink(options.output) as out, converting(options) as progress:
        rows = FilteredBlocks(source, filter_of(options))
        progress.share = lambda: (rows.size_read, size)
        if format == "parquet":
            write_parquet(rows, out)
            return 0
        text = io.TextIOWrapper(out, encoding="utf-8", errors="surrogateescape", newline="")
        (write_csv if format == "csv" else write_jsonl)(rows, text)
        text.flush()
        text.detach()
    return 0
