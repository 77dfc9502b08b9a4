"""`whence build-id FILE...`: one line per file, as sha1sum prints them; - if there is no build-id."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError
from whence._base.streams import complain
from whence._base.words import plain
from whence.cli.main import ANSWERED, BROKEN_INPUT, SOME_UNKNOWN
from whence.cli.options import add_json_option
from whence.objects.opening import architectures, open_object

if TYPE_CHECKING:
    from whence.cli.parser import Parser


def configure(parser: Parser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="an object file; a fat file has a line for each architecture"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--go", action="store_true", help="print Go's build ID instead")
    which.add_argument("--uuid", action="store_true", help="print UUIDs with dashes, as Apple's tools do")
    which.add_argument(
        "--debug-id", action="store_true", help="print debug ids: a GUID and an age, as symbol servers name them"
    )
    which.add_argument(
        "--code-id", action="store_true", help="print code ids: time and size of PE files, the build-id of others"
    )
    add_json_option(parser, "print one JSON object per line, with every ID")
    parser.examples(
        "whence build-id app libshop.so",
        "whence build-id --go server                      the build ID of a Go program",
        "whence build-id app.pdb --debug-id",
    )


def run(options: Namespace) -> int:
    """Print the build-ids. Return 3 if a file is broken, else 1 if a file has no build-id."""
    status = ANSWERED
    kinds = {"go_build_id": options.go, "uuid": options.uuid, "debug_id": options.debug_id, "code_id": options.code_id}
    chosen = next((name for name, wanted in kinds.items() if wanted), "build_id")
    for path in each_file(options.files):
        try:
            with open_object(path) as elf:
                debug_id = elf.debug_id
                ids = {
                    "build_id": elf.build_id,
                    "go_build_id": elf.go_build_id,
                    "uuid": debug_id.uuid if debug_id else "",
                    "debug_id": debug_id.breakpad if debug_id else "",
                    "code_id": elf.code_id,
                }
        except (WhenceError, OSError) as error:
            if options.debug:
                raise
            what = error.strerror if isinstance(error, OSError) else error.message
            complain(f"{path}: {what}")
            status = BROKEN_INPUT
            continue
        shown = ids[chosen]
        if not shown:
            status = max(status, SOME_UNKNOWN)
            if ids["go_build_id"] and not options.json:
                complain(f"{path}: a Go program without a GNU build-id; --go prints its Go build ID")
        if options.json:
            print(json.dumps({"path": path, **ids}))
        else:
            print(f"{shown or '-'}  {plain(path)}")
    return status


def each_file(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths, those of fat files once for each architecture."""
    for path in paths:
        names: tuple[str, ...] = ()
        with suppress(WhenceError, OSError):  # opening the file reports that
            names = architectures(path)
        yield from [f"{path}:{name}" for name in names] or [path]
