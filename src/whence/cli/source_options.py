"""Options of the commands that print source lines and instructions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence.cli.options import cache_root, client, store_place

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from whence.listing import SourceOptions
    from whence.listing.sources import Fetcher

LINES_TOGETHER = 500  # that are printed


def add_source_options(parser: ArgumentParser) -> None:
    """Add the options that `sources_of` reads. Stores and debuginfod are among those of `add_locator_options`."""
    more = parser.add_argument_group("source files")
    more.add_argument(
        "--source-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="look for source files below DIR by their full paths or the last parts of their paths (repeatable)",
    )
    more.add_argument(
        "--path-prefix",
        action="append",
        default=[],
        type=path_prefix,
        metavar="OLD=NEW",
        help="replace OLD with NEW at the start of paths in the debug info (repeatable)",
    )
    more.add_argument(
        "--git",
        action="append",
        default=[],
        metavar="REPO@REV",
        help="read source files of a revision of a git repository, which may be bare (repeatable)",
    )


def add_assembly_options(parser: ArgumentParser) -> None:
    """Add the options for the text of instructions."""
    more = parser.add_argument_group("instructions")
    more.add_argument("--intel", dest="syntax", action="store_const", const="intel", help="Intel syntax (the default)")
    more.add_argument("--att", dest="syntax", action="store_const", const="att", help="AT&T syntax, as objdump prints")
    more.add_argument("--raw-bytes", action="store_true", help="also print the bytes of instructions")
    parser.set_defaults(syntax="intel")


def path_prefix(word: str) -> tuple[str, str]:
    """Parse OLD=NEW. argparse reports a ValueError."""
    old, equals, new = word.partition("=")
    if not old or not equals:
        raise ValueError(word)
    return old, new or "/"


path_prefix.__name__ = "OLD=NEW"  # in argparse's messages


@contextmanager
def sources_of(options: Namespace) -> Iterator[SourceOptions]:
    """Return where the options say that source files are, with open connections to stores and servers."""
    from whence.listing.sources import GitTree, SourceOptions

    with ExitStack() as stack:
        fetchers: list[tuple[str, Fetcher]] = []
        for word in dict.fromkeys(options.store):
            from whence.store import Store

            store = store_place(word)
            fetchers.append((f"the store {store}", stack.enter_context(Store(store)).read_source))
        if options.debuginfod:
            from whence.locate.cache import Cache

            cache = Cache(cache_root(options), int(options.cache_size * (1 << 30)))
            server = client(options, cache)
            assert server is not None
            stack.callback(server.close)
            fetchers.append(("debuginfod", server.read_source))
        yield SourceOptions(
            tuple(options.source_dir),
            tuple(options.path_prefix),
            tuple(map(GitTree, options.git)),
            tuple(fetchers),
        )


def need_capstone() -> None:
    """Raise WrongUse without capstone."""
    from whence.listing.disassembly import imported_capstone

    try:
        imported_capstone()
    except ImportError as error:
        raise WrongUse(str(error)) from None


def print_lines(lines: Iterator[str]) -> None:
    """Print lines, many at a time."""
    while batch := list(islice(lines, LINES_TOGETHER)):
        sys.stdout.write("\n".join(batch) + "\n")
