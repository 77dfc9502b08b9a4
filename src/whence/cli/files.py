"""The options that say where files of names come from, shared by the commands that look for them."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from whence.errors import WrongUse

if TYPE_CHECKING:
    from whence.locate.cache import Cache
    from whence.locate.debuginfod import Debuginfod
    from whence.profiles.binaries import Binaries

FROM_ENVIRONMENT = ""


def add_file_options(parser: ArgumentParser) -> None:
    """--binary, --archive-dir, --debug-dir, --debuginfod and what goes with them."""
    more = parser.add_argument_group("where names come from")
    more.add_argument("--binary", action="append", default=[], metavar="PATH", help="an ELF file or an archive")
    more.add_argument("--archive-dir", action="append", default=[], metavar="DIR", help="a folder of archives")
    more.add_argument(
        "--debug-dir", action="append", metavar="DIR", help="search here for debug files instead of /usr/lib/debug"
    )
    more.add_argument(
        "--debuginfod",
        action="append",
        nargs="?",
        const=FROM_ENVIRONMENT,
        metavar="URL",
        help="ask this server for files that are not here; without URL those of DEBUGINFOD_URLS",
    )
    more.add_argument(
        "--debuginfod-allow",
        action="append",
        metavar="PATTERN",
        help="ask only for build-ids or paths that match (default: for all)",
    )
    more.add_argument("--cache-dir", metavar="DIR", help="where archives and fetched files are kept")
    more.add_argument(
        "--cache-size", type=gibibytes, default=4.0, metavar="GIB", help="how large the cache may grow (4)"
    )
    more.add_argument("--no-cache", action="store_true", help="make and keep no archives")
    more.add_argument("-v", "--verbose", action="store_true", help="tell every file tried and every request made")


def gibibytes(word: str) -> float:
    """A size. Raises ValueError, which argparse words."""
    found = float(word)
    if not 0 <= found < 1 << 30:  # so many GiB have no number of 64 bits
        raise ValueError(word)
    return found


gibibytes.__name__ = "number of GiB"  # as argparse calls it


def cache_root(options: Namespace) -> Path:
    """The cache's folder: as asked, else in the user's cache folder."""
    if options.cache_dir:
        return Path(options.cache_dir)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "whence"


def say(line: str) -> None:
    print(line, file=sys.stderr)


def servers(options: Namespace) -> list[str]:
    """The debuginfod servers that were asked for; none is ever asked without the option."""
    from whence.locate.debuginfod import checked_server

    out: list[str] = []
    for one in options.debuginfod:
        if one == FROM_ENVIRONMENT:
            told = os.environ.get("DEBUGINFOD_URLS", "").split()
            known = [one for one in told if not one.startswith("ima:")]  # Fedora's way to ask elfutils for signatures
            if not known:
                raise WrongUse("--debuginfod without a URL takes DEBUGINFOD_URLS, which is not set")
            out += known
        else:
            out.append(one)
    return list(dict.fromkeys(map(checked_server, out)))


def client(options: Namespace, cache: Cache) -> Debuginfod | None:
    if not options.debuginfod:
        return None
    asked = servers(options)
    from whence.locate.debuginfod import Debuginfod, allowing

    log = say if options.verbose else lambda line: None
    return Debuginfod(asked, cache, allow=allowing(options.debuginfod_allow or ["*"]), log=log)


@contextmanager
def files(options: Namespace) -> Iterator[Binaries]:
    """What finds the files and lists of names, as the options say."""
    from whence.locate.cache import Cache
    from whence.profiles.binaries import Binaries
    from whence.profiles.lists import Lists

    cache = Cache(cache_root(options), int(options.cache_size * (1 << 30)), lambda line: say(f"whence: {line}"))
    debuginfod = client(options, cache)
    with Binaries(
        given=options.binary,
        archive_dirs=options.archive_dir,
        debug_dirs=options.debug_dir,
        cache=None if options.no_cache else cache,
        debuginfod=debuginfod,
        lists=Lists(getattr(options, "perf_map", ()), getattr(options, "kallsyms", None)),
    ) as binaries:
        try:
            yield binaries
        finally:
            if options.verbose:
                for search in binaries.searches:
                    for line in search.tried:
                        say(f"{search.mapping.path or search.mapping.build_id}: {line}")
            if debuginfod is not None:
                debuginfod.close()
