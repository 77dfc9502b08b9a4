"""`whence build-id FILE...`: a line per file, build-id and path, as sha1sum prints them; - for a file that has none."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from whence._base.errors import WhenceError
from whence._base.streams import complain
from whence._base.words import plain
from whence.cli.main import ANSWERED, BROKEN_INPUT, SOME_UNKNOWN
from whence.cli.options import add_json_option
from whence.objects.elf import ElfFile


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="an ELF file")
    parser.add_argument("--go", action="store_true", help="the id Go's linker wrote instead")
    add_json_option(parser, "a JSON object per line, with both ids")


def run(options: Namespace) -> int:
    """One bad file does not stop the rest: 3 when there was one, else 1 when a file has no build-id."""
    status = ANSWERED
    for path in options.files:
        try:
            with ElfFile.open(path) as elf:
                build_id, go_build_id = elf.build_id, elf.go_build_id
        except (WhenceError, OSError) as error:
            if options.debug:
                raise
            what = error.strerror if isinstance(error, OSError) else error.message
            complain(f"{path}: {what}")
            status = BROKEN_INPUT
            continue
        shown = go_build_id if options.go else build_id
        if not shown:
            status = max(status, SOME_UNKNOWN)
        if options.json:
            print(json.dumps({"path": path, "build_id": build_id, "go_build_id": go_build_id}))
        else:
            print(f"{shown or '-'}  {plain(path)}")
    return status
