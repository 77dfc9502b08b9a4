"""`whence trace SUBCOMMAND`: Go execution traces. Each subcommand is a module with `configure` and `run`."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from typing import TYPE_CHECKING

from whence._base.errors import naming

if TYPE_CHECKING:
    from whence.cli.parser import Parser

# subcommand -> its module in this package, and its line of help
SUBCOMMANDS = {
    "text": ("trace_text", "convert to the text form (that of go tool trace -d=wire, with a header line)"),
    "wire": ("trace_wire", "convert to the wire form"),
    "info": ("trace_info", "print a summary: generations, events, threads, goroutines, times, tables"),
    "verify": ("trace_verify", "check sizes, limits, ids and order of generations, as Go's parser does"),
    "filter": ("trace_filter", "write part of a trace: by generation, time, goroutine, kind of event"),
    "anonymize": ("trace_anonymize", "replace the strings of a trace"),
    "salvage": ("trace_salvage", "write the intact generations of a damaged trace"),
    "pprof": ("trace_pprof", "write the CPU samples as a profile: pprof, OTLP, folded, speedscope, flame graph"),
    "events": ("trace_events", "write the events as CSV, JSON lines or Parquet"),
}


def configure(parser: Parser) -> None:
    subparsers = parser.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")
    for name, (module, line) in SUBCOMMANDS.items():
        command = import_module(f"whence.cli.{module}")
        subparser = subparsers.add_parser(
            name, help=line, description=f"{line[0].upper()}{line[1:]}.", allow_abbrev=False,
            formatter_class=parser.formatter_class,
        )  # fmt: skip
        command.configure(subparser)
        subparser.set_defaults(subcommand_run=command.run)
    parser.examples(
        "whence trace info trace.out",
        "whence trace verify trace.out",
        "whence trace text trace.out | grep GoCreate",
        "whence trace wire trace.txt -o trace.out",
        "whence trace filter trace.out --from 1s --to 2s -o part.out",
        "whence trace anonymize trace.out -o public.out",
        "whence trace salvage damaged.out -o trace.out",
        "whence trace events trace.out -o events.parquet",
        "whence trace pprof trace.out --flamegraph cpu.html",
    )


def run(options: Namespace) -> int:
    with naming("<stdin>" if options.input == "-" else options.input):
        status: int = options.subcommand_run(options)
    return status
