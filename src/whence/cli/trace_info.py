"""`whence trace info IN`: a summary of a trace."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from whence.cli.options import add_json_option
from whence.cli.trace_files import add_input, converting, source

if TYPE_CHECKING:
    from whence.gotrace.survey import GenerationInfo, TraceInfo


def configure(parser: ArgumentParser) -> None:
    add_input(parser, "in the wire form")
    add_json_option(parser, "print one JSON object")


def run(options: Namespace) -> int:
    from whence.gotrace.survey import info

    with converting(options):
        summary = info(source(options.input))
    if options.json:
        json.dump(as_json(summary), sys.stdout, indent=2)
        print()
    else:
        print("\n".join(as_text(summary)))
    return 0


def wall(generation: GenerationInfo) -> str:
    if generation.wall is None:
        return ""
    try:
        return datetime.fromtimestamp(generation.wall, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):  # no year that a calendar has
        return f"{generation.wall:.3f} s after 1970"


def as_text(summary: TraceInfo) -> list[str]:
    lines = [
        f"version      {summary.version.label}",
        f"size         {summary.size} bytes",
        f"generations  {len(summary.generations)}",
        f"batches      {sum(g.batches for g in summary.generations)}",
        f"events       {summary.events.total()}, {sum(g.events for g in summary.generations)} of them timed",
        f"threads      {len(summary.threads)}",
        f"goroutines   {len(summary.goroutines)}",
        f"time         {summary.seconds:.6f} s",
        "",
        "generation  batches       bytes     events   seconds  threads  goroutines  strings  stacks  samples  wall",
    ]
    lines += [
        f"{g.number:10} {g.batches:8} {g.size:11} {g.events:10} {g.seconds:9.6f} {len(g.threads):8} "
        f"{len(g.goroutines):11} {g.strings:8} {g.stacks:7} {g.samples:8}  {wall(g)}".rstrip()
        for g in summary.generations
    ]
    lines += ["", "event                     count"]
    lines += [f"{name:22} {count:8}" for name, count in summary.events.most_common()]
    return lines


def as_json(summary: TraceInfo) -> dict[str, Any]:
    return {
        "version": summary.version.label,
        "size": summary.size,
        "seconds": summary.seconds,
        "threads": len(summary.threads),
        "goroutines": len(summary.goroutines),
        "events": dict(summary.events.most_common()),
        "generations": [
            {
                "number": g.number,
                "batches": g.batches,
                "size": g.size,
                "events": g.events,
                "start": g.start,
                "end": g.end,
                "frequency": g.frequency,
                "wall": g.wall,
                "threads": len(g.threads),
                "goroutines": len(g.goroutines),
                "strings": g.strings,
                "string_bytes": g.string_bytes,
                "stacks": g.stacks,
                "frames": g.frames,
                "samples": g.samples,
            }
            for g in summary.generations
        ],
    }
