"""Options shared by several commands, and the Locator that they describe.

add_locator_options   sources of names: --binary, --archive-dir, --debug-dir, --store, --debuginfod, --symbol-server,
                      the cache, --jobs
add_name_options      --no-demangle
add_json_option       --json
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager

from whence._base.errors import WrongUse
from whence._base.words import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from whence.locate.cache import Cache
    from whence.locate.debug_files import DebugFiles
    from whence.locate.debuginfod import Debuginfod
    from whence.locate.symbol_server import SymbolServer
    from whence.locator.locator import Locator
    from whence.locator.options import LocatorFields
    from whence.objects.interface import ObjectFile
    from whence.symbolize import Symbolizer

FROM_ENVIRONMENT = ""
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
DIGITS = 15  # of a number of bytes
# defaults of `add_locator_options`
LOCATOR_DEFAULTS: dict[str, object] = {
    "binary": [], "archive_dir": [], "store": [], "sysroot": "", "debug_dir": None, "record_missing": False,
    "debuginfod": None, "debuginfod_allow": None, "symbol_server": None, "cache_dir": None,
    "cache_size": 4.0, "no_cache": False, "jobs": None, "verbose": False,
}  # fmt: skip
# options that affect the search for the debug files of one ELF file
SEARCH_OPTIONS = ("binary", "archive_dir", "store", "sysroot", "debug_dir", "debuginfod", "symbol_server", "verbose")


def add_locator_options(parser: ArgumentParser) -> None:
    """Add the options that `locator_of` reads."""
    from whence._base.words import threads

    more = parser.add_argument_group("sources of names")
    more.add_argument(
        "--binary",
        action="append",
        metavar="PATH",
        help="an ELF file, a debug file or an archive, or a folder of such files, used if its build-id (or without one "
        "its name) matches (repeatable)",
    )
    more.add_argument("--archive-dir", action="append", metavar="DIR", help="a folder of archives (repeatable)")
    more.add_argument(
        "--debug-dir",
        action="append",
        metavar="DIR",
        help="a folder of debug files, perf's cache or a package of perf archive, instead of /usr/lib/debug and "
        "~/.debug (repeatable)",
    )
    more.add_argument(
        "--sysroot",
        metavar="DIR",
        help="look up paths of programs and libraries below this folder: an unpacked image, another machine's disk; "
        "this machine's debug files are used by build-id only",
    )
    more.add_argument(
        "--store",
        action="append",
        nargs="?",
        const=FROM_ENVIRONMENT,
        metavar="STORE",
        help="a store of debug files and archives: a folder, s3://, gs://, az:// or http(s)://; without STORE your own "
        "(repeatable)",
    )
    more.add_argument(
        "--record-missing",
        action="store_true",
        help="record build-ids that the stores lack, for whence store wanted",
    )
    more.add_argument(
        "--debuginfod",
        action="append",
        nargs="?",
        const=FROM_ENVIRONMENT,
        metavar="URL",
        help="download missing files from this server; without URL from those in DEBUGINFOD_URLS (repeatable)",
    )
    more.add_argument(
        "--debuginfod-allow",
        action="append",
        metavar="PATTERN",
        help="download only for build-ids or paths that match (default: all)",
    )
    more.add_argument(
        "--symbol-server",
        action="append",
        metavar="URL",
        help="download missing PDB files of Windows programs from this symbol server (repeatable)",
    )
    more.add_argument("--cache-dir", metavar="DIR", help="folder of the cache of archives and downloads")
    more.add_argument("--cache-size", type=gibibytes, metavar="GIB", help="size limit of the cache (4)")
    more.add_argument("--no-cache", action="store_true", help="neither read nor write the cache")
    more.add_argument("--jobs", type=threads, metavar="N", help="number of threads (default: one per core)")
    more.add_argument("-v", "--verbose", action="store_true", help="print every file tried and every request made")
    parser.set_defaults(**LOCATOR_DEFAULTS)


def add_name_options(parser: ArgumentParser) -> None:
    parser.add_argument("--no-demangle", action="store_true", help="print linkage names")


def add_json_option(parser: ArgumentParser, help: str = "print one JSON object per line") -> None:
    parser.add_argument("--json", action="store_true", help=help)


def gibibytes(word: str) -> float:
    """Parse a size in GiB. argparse reports a ValueError."""
    size = float(word)
    if not 0 <= size < 1 << 30:  # in bytes it must fit 64 bits
        raise ValueError(word)
    return size


gibibytes.__name__ = "number of GiB"  # in argparse's messages


def byte_count(word: str) -> int:
    """Parse a number of bytes with K, M or G after it. argparse reports a ValueError.

    >>> byte_count("2K"), byte_count("7")
    (2048, 7)
    """
    digits = word[:-1] if word[-1:] in UNITS else word
    if not digits.isascii() or not digits.isdecimal() or len(digits) > DIGITS:
        raise ValueError(word)
    return int(digits) * UNITS.get(word[-1:], 1)


byte_count.__name__ = "number of bytes"  # in argparse's messages


def cache_root(options: Namespace) -> str:
    """Return the folder of the cache: the given one, else the user's."""
    if options.cache_dir:
        return str(options.cache_dir)
    user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(user, "whence")


def store_place(word: str) -> str:
    """Return the location of a store: the given one, else the user's own."""
    if word != FROM_ENVIRONMENT:
        return word
    user = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(user, "whence", "store")


def existing_store(word: str, *, create: bool = False) -> str:
    """Return the location of a store. Raises WrongUse if it is a folder that does not exist.

    With `create` a missing folder is only reported: it is created with the first file. The user's own store may be
    missing.
    """
    location = store_place(word)
    folder = location.removeprefix("file://")
    if word == FROM_ENVIRONMENT or "://" in folder or os.path.isdir(folder):
        return location
    if os.path.lexists(folder):
        raise WrongUse(f"{plain(folder)} is not a folder, a store is one")
    if not create:
        raise WrongUse(f"the store {plain(folder)} does not exist").with_hint(
            "create it with whence store add STORE FILE... or whence serve --create STORE"
        )
    notify(f"whence: new store {plain(folder)}")
    return location


def notify(line: str) -> None:
    print(line, file=sys.stderr)


def servers(options: Namespace) -> list[str]:
    """Return the debuginfod servers to use. Without the option no server is used."""
    from whence.locate.debuginfod import checked_server, servers_of_environment

    urls: list[str] = []
    for url in options.debuginfod:
        urls += [url] if url != FROM_ENVIRONMENT else servers_of_environment()
    return list(dict.fromkeys(map(checked_server, urls)))


def client(options: Namespace, cache: Cache) -> Debuginfod | None:
    if not options.debuginfod:
        return None
    urls = servers(options)
    from whence.locate.debuginfod import Debuginfod, allowing

    log = notify if options.verbose else lambda line: None
    return Debuginfod(urls, cache, allow=allowing(options.debuginfod_allow or ["*"]), log=log)


def symbol_client(options: Namespace, cache: Cache) -> SymbolServer | None:
    """Return the client of the symbol servers to use. Without the option no server is used."""
    if not options.symbol_server:
        return None
    from whence.locate.debuginfod import allowing
    from whence.locate.symbol_server import SymbolServer

    log = notify if options.verbose else lambda line: None
    urls = list(dict.fromkeys(options.symbol_server))
    return SymbolServer(urls, cache, allow=allowing(options.debuginfod_allow or ["*"]), log=log)


def user_dirs() -> tuple[str, ...] | None:
    """Return the default debug folders if the user has a cache of perf, which is added to the system's folders."""
    from whence.locate.debug_files import DEBUG_DIRS

    cache = os.path.join(os.path.expanduser("~"), ".debug")
    return (*DEBUG_DIRS, cache) if os.path.isdir(os.path.join(cache, ".build-id")) else None


def needs_locator(elf: ObjectFile, options: Namespace) -> bool:
    """Return True if a Locator completes the file: it has no debug info, or an option says where files are.

    A Locator takes longer to import than `default_debug_files`.
    """
    return not elf.has_debug_info or gives_places(options)


def gives_places(options: Namespace) -> bool:
    """Return True if an option says where files are searched for, or how that is reported."""
    return any(getattr(options, name) != LOCATOR_DEFAULTS[name] for name in SEARCH_OPTIONS)


def default_debug_files() -> DebugFiles:
    """Return what finds the files that complete an ELF file if no option says where."""
    from whence.locate.debug_files import DEBUG_DIRS, DebugFiles

    return DebugFiles(user_dirs() or DEBUG_DIRS)


def check_folders(options: Namespace) -> None:
    """Raise WrongUse if a folder that an option names does not exist, or is a file."""
    from whence.locate.names import PACKED

    named = [("--sysroot", folder) for folder in [options.sysroot] if folder]
    named += [("--archive-dir", folder) for folder in options.archive_dir]
    named += [("--source-dir", folder) for folder in getattr(options, "source_dir", ())]
    named += [("--debug-dir", folder) for folder in options.debug_dir or [] if not folder.lower().endswith(PACKED)]
    for option, folder in named:
        if not os.path.lexists(folder):
            raise WrongUse(f"{option} {folder}: the folder does not exist").with_hint(
                "correct the path or omit the option"
            )
        if not os.path.isdir(folder):
            hint = "give a file by --binary" if option != "--sysroot" else ""
            raise WrongUse(f"{option} {folder}: not a folder").with_hint(hint)


@contextmanager
def locator_of(options: Namespace, *, given: list[str] | None = None, columns: bool = False) -> Iterator[Locator]:
    """Open the Locator that the options describe.

    `given` are files that precede those of --binary. With `columns`, frames have columns.
    """
    from whence.locator.locator import Locator

    with Locator(**locator_fields(options, given=given, columns=columns)) as locator:
        yield locator


def locator_fields(options: Namespace, *, given: list[str] | None = None, columns: bool = False) -> LocatorFields:
    """Return the keywords of the Locator that the options describe (see `locator_of`)."""
    opened: list[Cache] = []

    def cache() -> Cache:
        from whence.locate.cache import Cache

        if not opened:
            limit = int(options.cache_size * (1 << 30))
            opened.append(Cache(cache_root(options), limit, lambda line: notify(f"whence: {line}")))
        return opened[0]

    check_folders(options)
    stores = []
    if options.store:
        from whence.store import Store

        store_cache = None if options.no_cache else cache()
        who = getattr(options, "command", "") if options.record_missing else ""

        def complain(line: str) -> None:
            notify(f"whence: {line}")

        stores = [
            Store(existing_store(word)).source(who, cache=store_cache, say=complain)
            for word in dict.fromkeys(options.store)
        ]
    return {
        "debug_dirs": options.debug_dir or (None if options.sysroot else user_dirs()),
        "binaries": [*(given or ()), *options.binary],
        "archive_dirs": options.archive_dir,
        "cache": None if options.no_cache else cache,
        "debuginfod": client(options, cache()) if options.debuginfod else None,
        "symbol_server": symbol_client(options, cache()) if options.symbol_server else None,
        "sysroot": options.sysroot,
        "sources": stores,
        "jobs": options.jobs,
        "columns": columns,
        "log": notify if options.verbose else None,
    }


@contextmanager
def symbolizer_of(options: Namespace, *, given: list[str] | None = None) -> Iterator[Symbolizer]:
    """Open a symbolizer with the Locator and the names that the options describe."""
    from whence.symbolize import Symbolizer

    with (
        locator_of(options, given=given) as locator,
        Symbolizer(locator=locator, demangle=not options.no_demangle) as symbolizer,
    ):
        yield symbolizer
