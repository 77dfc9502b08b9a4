"""`whence listing FILE FUNCTION|ADDRESS[,END]...`: source lines and instructions of functions."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.streams import complain
from whence._base.words import address, is_address, plain
from whence.binary import is_archive, open_elf
from whence.cli.main import ANSWERED, SOME_UNKNOWN, WRONG_USE
from whence.cli.options import add_json_option, add_locator_options, add_name_options, locator_of
from whence.cli.source_options import (
    add_assembly_options,
    add_source_options,
    need_capstone,
    print_lines,
    sources_of,
)
from whence.listing.build import has_code
from whence.listing.text import annotated, listed

if TYPE_CHECKING:
    from whence.binary import Binary
    from whence.cli.parser import Parser
    from whence.listing import Listing, SourceOptions
    from whence.locator.locator import Locator


def configure(parser: Parser) -> None:
    parser.usage = "whence listing FILE FUNCTION|ADDRESS[,END]... [options]"
    parser.add_argument("file", metavar="FILE", help="an ELF file, a debug file or an archive")
    parser.add_argument(
        "functions",
        nargs="+",
        metavar="FUNCTION",
        help="a function's name, an address in hex in a function, or START,END",
    )
    parser.add_argument(
        "--lines", action="store_true", help="print the source lines that have code, without instructions"
    )
    add_json_option(parser, "print one JSON object per function")
    add_assembly_options(parser)
    add_source_options(parser)
    add_name_options(parser)
    add_locator_options(parser)
    parser.epilog = (
        "instructions need capstone: pip install 'whence[asm]'\n"
        "for a debug file or an archive, give the executable with --binary, --store or --debuginfod"
    )
    parser.examples(
        "whence listing app main",
        "whence listing app 0x1170                        the function at an address",
        "whence listing app 0x1170,0x1190 --raw-bytes     some code",
        "whence listing app parse --source-dir ~/src/app  with sources from a folder",
        "whence listing app parse --git ~/src/app@v1.2    from a revision of a git repository",
        "whence listing app.lidia main --binary app       names from an archive, code from the executable",
    )


def run(options: Namespace) -> int:
    """Print the listings. Return 1 if some functions do not exist, 2 if all do not."""
    unknown = 0
    with (
        locator_of(options) as locator,
        locator.open(options.file, demangle=not options.no_demangle) as binary,
        sources_of(options) as sources,
    ):
        code = None if options.lines else code_of(options.file, binary, locator)
        if code is not None:
            need_capstone()
        for word in options.functions:
            try:
                listing = listing_of(word, binary, sources, code, options)
            except LookupError as error:
                complain(error.args[0], "whence listing")
                unknown += 1
                continue
            if options.json:
                print(json.dumps(listing.as_json()))
                continue
            if word != options.functions[0]:
                print()
            print_lines(as_text(listing, options))
        for problem in binary.problems[:5]:
            print(f"whence: skipped: {plain(problem)}", file=sys.stderr)
    if unknown == len(options.functions):
        return WRONG_USE
    return SOME_UNKNOWN if unknown else ANSWERED


def as_text(listing: Listing, options: Namespace) -> Iterator[str]:
    return annotated(listing, raw_bytes=options.raw_bytes) if listing.instructions else listed(listing)


def code_of(path: str, binary: Binary, locator: Locator) -> str | None:
    """Return the file with the code: the file itself if it has code, else the executable of its build-id, if found."""
    if not is_archive(path):
        with open_elf(path) as elf:
            if has_code(elf):
                return path
    if not binary.build_id:
        return None
    search = locator.find(build_id=binary.build_id, kinds=("executable",))
    return search.path or None


def listing_of(word: str, binary: Binary, sources: SourceOptions, code: str | None, options: Namespace) -> Listing:
    """Return the listing of a function, an address or START,END. Raises LookupError, WrongUse."""
    start, comma, end = word.partition(",")
    function: str | int = word
    limit = None
    if comma and is_address(start) and is_address(end):
        function, limit = address(start), address(end)
        if limit <= function:
            raise WrongUse(f"{word}: the end is not after the start")
    elif is_address(word) and (word.startswith(("0x", "0X")) or not binary.parts(word)):
        function = address(word)
    return binary.listing(function, limit, sources=sources, code=code, syntax=options.syntax, lines=options.lines)
