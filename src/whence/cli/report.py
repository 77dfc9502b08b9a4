"""`whence core CORE --report`: all about a crash on one page, for a bug report."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.files import atomic_write
from whence._base.streams import by_ending, byte_stream
from whence._base.words import counted, plain
from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.cli.options import symbolizer_of
from whence.cli.source_options import add_source_options, sources_of

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from whence.crashes import CrashReport
    from whence.symbolize import Core

HTML, JSON, TEXT = "html", "json", "txt"
ENDINGS = [(".html", HTML), (".htm", HTML), (".json", JSON), (".txt", TEXT)]


def add_report_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--report", action="store_true", help="write a page for a bug report, to -o FILE.html, .json or .txt"
    )
    parser.add_argument(
        "--include-memory",
        action="store_true",
        help="with --report: add the command line, and memory at the stack pointer and the registers",
    )
    add_source_options(parser)


def check_report_options(options: Namespace) -> None:
    """Raise WrongUse for options that do not fit --report."""
    if not options.report:
        if options.include_memory:
            raise WrongUse("--include-memory: only with --report")
        return
    others = [
        name
        for name, value in (
            ("addresses", options.addresses),
            ("--shrink", options.shrink),
            ("--maps", options.maps),
            ("--info", options.info),
            ("--goroutines", options.goroutines),
            ("--save-snapshot", options.save_snapshot),
            ("--minidump", options.minidump),
        )
        if value
    ]
    if others:
        raise WrongUse(f"--report cannot be used with {', '.join(others)}")


def write_report(core: Core, options: Namespace, tids: list[int] | None) -> int:
    """Write the report, and a line about it to stderr. Return the exit code."""
    from whence.crashes import ReportOptions, crash_report

    output = options.output or "-"
    form = by_ending(output, ENDINGS, "a report") if output != "-" else ""
    form = form or (JSON if options.json else TEXT)
    with symbolizer_of(options) as symbolizer, sources_of(options) as sources:
        about = ReportOptions(options.locals, options.include_memory, sources, tids, options.scan)
        report = crash_report(core, symbolizer, about)
    content = content_of(report, form).encode("utf-8", "replace")
    if output == "-":
        stream = byte_stream()
        stream.write(content)
        stream.flush()
    else:
        with atomic_write(output) as file:
            file.write(content)
    threads = f"{counted(sum(len(group.tids) for group in report.groups), 'thread')} with "
    threads += counted(len(report.groups), "different stack")
    name = "" if output == "-" else f"{plain(output)}: {len(content):,} bytes: "
    print(f"whence: {name}{threads}; signature {plain(report.signature)}", file=sys.stderr)
    print(f"whence: the report {report.contents}", file=sys.stderr)
    lacks = any(module.missing for module in report.modules) or report.warnings
    return SOME_UNKNOWN if lacks else ANSWERED


def content_of(report: CrashReport, form: str) -> str:
    from whence.crashes import report_page, report_text

    if form == HTML:
        return report_page(report)
    if form == JSON:
        return json.dumps(report.as_json(), indent=1) + "\n"
    return report_text(report)
