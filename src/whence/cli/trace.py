"""`whence trace SUBCOMMAND`: raw Go execution traces. One module per subcommand, each with `configure` and `run`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from importlib import import_module

from whence._base.errors import naming

# subcommand -> its module in this package, and its line of help
SUBCOMMANDS = {
    "text": ("trace_text", "the text form of a trace (what go tool trace -d=wire prints, with its header line)"),
    "wire": ("trace_wire", "the wire form of a trace"),
    "info": ("trace_info", "what is in a trace: generations, events, threads, goroutines, time, clocks, tables"),
    "verify": ("trace_verify", "whether Go's parser can take a trace: sizes, limits, ids, order of generations"),
    "filter": ("trace_filter", "part of a trace as a trace: by generation, time, goroutine, kind of event"),
    "anonymize": ("trace_anonymize", "a trace with its strings replaced"),
    "salvage": ("trace_salvage", "the whole generations of a damaged trace"),
    "pprof": ("trace_pprof", "the CPU samples of a trace as a profile: pprof, OTLP, folded, speedscope, flame graph"),
    "events": ("trace_events", "the events of a trace as csv, jsonl or parquet"),
}


def configure(parser: ArgumentParser) -> None:
    subparsers = parser.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")
    for name, (module, line) in SUBCOMMANDS.items():
        command = import_module(f"whence.cli.{module}")
        subparser = subparsers.add_parser(name, help=line, description=line, allow_abbrev=False)
        command.configure(subparser)
        subparser.set_defaults(subcommand_run=command.run)


def run(options: Namespace) -> int:
    with naming("<stdin>" if options.input == "-" else options.input):
        status: int = options.subcommand_run(options)
    return status
