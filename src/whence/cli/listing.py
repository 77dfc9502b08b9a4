"""`whence listing FILE FUNCTION|ADDRESS[,END]...`: source lines and instructions of functions."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.streams import complain
from whence._base.words import address, is_address, plain
from whence.binary import is_archive, open_elf
from whence.cli.answers import executable_mappings
from whence.cli.main import ANSWERED, SOME_UNKNOWN, WRONG_USE
from whence.cli.options import add_json_option, add_locator_options, add_name_options, locator_of, symbolizer_of
from whence.cli.source_options import (
    add_assembly_options,
    add_source_options,
    need_capstone,
    print_lines,
    sources_of,
)
from whence.listing.build import has_code
from whence.listing.text import annotated, listed
from whence.symbolize import Core, Process

if TYPE_CHECKING:
    from whence.binary import Binary
    from whence.cli.parser import Parser
    from whence.listing import Listing, SourceOptions
    from whence.locator.locator import Locator


INTERMIXED = True


def configure(parser: Parser) -> None:
    parser.usage = "whence listing FILE FUNCTION|ADDRESS[,END]... [options]"
    parser.add_argument(
        "words",
        nargs="+",
        metavar="FILE FUNCTION",
        help="an object file, a debug file or an archive (none with --pid and --core); then names of functions, "
        "addresses in hex in a function, or START,END",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--pid", type=int, metavar="PID", help="take runtime addresses from this process")
    source.add_argument("--core", metavar="CORE", help="take runtime addresses from this core dump")
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
        "whence listing --pid 4711 0x7f3c1a2b4c5d         code of a process, also generated code",
        "whence listing --core core.4711 0x7f3c1a2b4c5d   code in a core dump",
    )


def run(options: Namespace) -> int:
    """Print the listings. Return 1 if some functions do not exist, 2 if all do not."""
    if options.pid is not None or options.core is not None:
        return list_memory(options)
    path, *functions = options.words
    if not functions:
        raise WrongUse("give a file and a function: whence listing FILE FUNCTION")
    with (
        locator_of(options) as locator,
        locator.open(path, demangle=not options.no_demangle) as binary,
        sources_of(options) as sources,
    ):
        code = None if options.lines else code_of(path, binary, locator)
        if code is not None:
            need_capstone()
        status = print_listings(options, functions, lambda word: listing_of(word, binary, sources, code, options))
        for problem in binary.problems[:5]:
            print(f"whence: skipped: {plain(problem)}", file=sys.stderr)
    return status


def print_listings(options: Namespace, words: list[str], listing_of: Callable[[str], Listing]) -> int:
    """Print the listing of each word. Return 1 if some functions do not exist, 2 if all do not."""
    unknown = 0
    for word in words:
        try:
            listing = listing_of(word)
        except LookupError as error:
            complain(error.args[0], "whence listing")
            unknown += 1
            continue
        if options.json:
            print(json.dumps(listing.as_json()))
            continue
        if word != words[0]:
            print()
        print_lines(as_text(listing, options))
    if unknown == len(words):
        return WRONG_USE
    return SOME_UNKNOWN if unknown else ANSWERED


def list_memory(options: Namespace) -> int:
    """Print the listings of runtime addresses of a process or a core."""
    words = options.words
    if options.lines:
        raise WrongUse("--lines is for files: listings of a process or a core have instructions")
    spans = {word: runtime_span(word) for word in words}
    need_capstone()
    with symbolizer_of(options) as symbolizer, sources_of(options) as sources:
        process: Process | Core
        if options.pid is not None:
            process = Process(options.pid, resolver=symbolizer.resolver)
            executable_mappings(process)  # raises an error that says what is wrong with the process
        else:
            process = Core(options.core, programs=options.binary, sysroot=options.sysroot)
        return print_listings(
            options,
            words,
            lambda word: symbolizer.listing(process, *spans[word], sources=sources, syntax=options.syntax),
        )


def runtime_span(word: str) -> tuple[int, int | None]:
    """Parse ADDRESS or START,END. Raises WrongUse."""
    start, comma, end = word.partition(",")
    if not is_address(start) or (comma and not is_address(end)):
        raise WrongUse(f"{word} is not an address: with --pid and --core give runtime addresses, or START,END")
    limit = address(end) if comma else None
    if limit is not None and limit <= address(start):
        raise WrongUse(f"{word}: the end is not after the start")
    return address(start), limit


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
