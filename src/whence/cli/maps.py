"""`whence maps PID`: the executable mappings of a process, with the build-ids of the mapped files."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from whence._base.files import DELETED_MARK
from whence._base.words import plain
from whence.cli.answers import executable_mappings
from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.cli.options import add_json_option
from whence.cli.process_names import pid_of
from whence.procmap import Mapping, maps
from whence.symbolize import Process

if TYPE_CHECKING:
    from whence.cli.parser import Parser


def configure(parser: Parser) -> None:
    parser.add_argument("pid", type=pid_of, metavar="PID", help="a live process: its pid, or its command's name")
    parser.add_argument("--all", action="store_true", help="print every mapping, not only executable ones")
    add_json_option(parser)
    parser.examples(
        "whence maps 4711",
        "whence maps redis-server --all                   a process by its name",
    )


def run(options: Namespace) -> int:
    with Process(options.pid) as process:
        mappings = every(process) if options.all else executable_mappings(process)
    nothing = f"process {options.pid} has no mappings: it has ended, or is a kernel thread"
    return show_mappings(mappings, options.json, nothing)


def show_mappings(mappings: list[Mapping], as_json: bool, nothing: str) -> int:
    """Print mappings, or `nothing` on stderr if there are none. Return the exit code."""
    for mapping in mappings:
        print(json.dumps(as_object(mapping)) if as_json else as_line(mapping))
    if not mappings:
        print(f"whence: {plain(nothing)}", file=sys.stderr)
    return ANSWERED if mappings else SOME_UNKNOWN


def every(process: Process) -> list[Mapping]:
    """Return all mappings, with build-ids of the mapped files. Raises ProcessLookupError, WhenceError."""
    executable = {mapping.start: mapping for mapping in executable_mappings(process)}
    mappings = []
    for mapping in maps.parse(maps.read(process.directory), process.directory, permissions=0).mappings:
        same = executable.get(mapping.start)
        if same is not None and same.end == mapping.end:
            mappings.append(same)
        else:
            mappings.append(mapping._replace(build_id=process.build_id(mapping)))
    return mappings


def as_line(mapping: Mapping) -> str:
    """Return start-end, permissions, offset, kind, build-id ("-" if there is none) and path."""
    path = plain(mapping.path) + (DELETED_MARK if mapping.deleted else "")
    location = f"{mapping.start:012x}-{mapping.end:012x} {mapping.shown_permissions} {mapping.offset:08x}"
    return f"{location} {mapping.kind.value:9} {mapping.build_id or '-':40} {path}".rstrip()


def as_object(mapping: Mapping) -> dict[str, object]:
    """Return a mapping as a JSON object. Addresses are hex text, because JSON readers round 64-bit numbers."""
    return {
        "start": hex(mapping.start),
        "limit": hex(mapping.end),
        "offset": hex(mapping.offset),
        "permissions": mapping.shown_permissions,
        "kind": mapping.kind.value,
        "path": mapping.path,
        "deleted": mapping.deleted,
        "build_id": mapping.build_id,
        "device": f"{os.major(mapping.device):x}:{os.minor(mapping.device):x}",
        "inode": mapping.inode,
        "map_files": mapping.map_files,
    }
