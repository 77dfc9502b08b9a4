"""Options that mean the same in every command that has them, and the Locator that they describe.

add_locator_options   where names come from: --binary, --archive-dir, --debug-dir, --store, --debuginfod, the cache,
                      --jobs
add_name_options      --no-demangle: names are readable unless they are wanted as the linker has them
add_json_option       --json
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager

from whence._base.errors import WrongUse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from whence.locate.cache import Cache
    from whence.locate.debug_files import DebugFiles
    from whence.locate.debuginfod import Debuginfod
    from whence.locator.locator import Locator
    from whence.objects.elf import ElfFile
    from whence.symbolize import Symbolizer

FROM_ENVIRONMENT = ""
# of the options of `add_locator_options`
LOCATOR_DEFAULTS: dict[str, object] = {
    "binary": [], "archive_dir": [], "store": [], "sysroot": "", "debug_dir": None, "debuginfod": None,
    "debuginfod_allow": None, "cache_dir": None, "cache_size": 4.0, "no_cache": False, "jobs": None, "verbose": False,
}  # fmt: skip
# those that a search for the debug files of one ELF file depends on
PLACES = ("binary", "archive_dir", "store", "sysroot", "debug_dir", "debuginfod", "verbose")


def add_locator_options(parser: ArgumentParser) -> None:
    """The options that `locator_of` reads."""
    from whence._base.words import threads

    more = parser.add_argument_group("where names come from")
    more.add_argument(
        "--binary",
        action="append",
        metavar="PATH",
        help="an ELF file, a debug file or an archive, used where its build-id (without one: its name) is the wanted "
        "one (repeatable)",
    )
    more.add_argument("--archive-dir", action="append", metavar="DIR", help="a folder of archives (repeatable)")
    more.add_argument(
        "--debug-dir",
        action="append",
        metavar="DIR",
        help="search here for debug files, or in such a folder of perf's or a .tar of one (perf archive), instead of "
        "/usr/lib/debug and ~/.debug (repeatable)",
    )
    more.add_argument(
        "--sysroot",
        metavar="DIR",
        help="look for the paths of programs and libraries, and for debug folders, below this folder: an unpacked "
        "image, another machine's disk",
    )
    more.add_argument(
        "--store",
        action="append",
        nargs="?",
        const=FROM_ENVIRONMENT,
        metavar="STORE",
        help="a store to take files from: a folder, s3://, gs://, az:// or http(s)://; without STORE the user's own "
        "(repeatable)",
    )
    more.add_argument(
        "--debuginfod",
        action="append",
        nargs="?",
        const=FROM_ENVIRONMENT,
        metavar="URL",
        help="ask this server for files that are not here; without URL those of DEBUGINFOD_URLS (repeatable)",
    )
    more.add_argument(
        "--debuginfod-allow",
        action="append",
        metavar="PATTERN",
        help="ask only for build-ids or paths that match (default: for all)",
    )
    more.add_argument("--cache-dir", metavar="DIR", help="where archives and fetched files are kept")
    more.add_argument("--cache-size", type=gibibytes, metavar="GIB", help="how large the cache may grow (4)")
    more.add_argument("--no-cache", action="store_true", help="use, make and keep no archives")
    more.add_argument(
        "--jobs", type=threads, metavar="N", help="threads (default: as many as this process may use cores)"
    )
    more.add_argument("-v", "--verbose", action="store_true", help="report every file tried and every request made")
    parser.set_defaults(**LOCATOR_DEFAULTS)


def add_name_options(parser: ArgumentParser) -> None:
    parser.add_argument("--no-demangle", action="store_true", help="names as the linker has them")


def add_json_option(parser: ArgumentParser, help: str = "a JSON object a line") -> None:
    parser.add_argument("--json", action="store_true", help=help)


def gibibytes(word: str) -> float:
    """A size. Raises ValueError, which argparse words."""
    found = float(word)
    if not 0 <= found < 1 << 30:  # so many GiB have no number of 64 bits
        raise ValueError(word)
    return found


gibibytes.__name__ = "number of GiB"  # as argparse calls it


def cache_root(options: Namespace) -> str:
    """The cache's folder: as asked, else in the user's cache folder."""
    if options.cache_dir:
        return str(options.cache_dir)
    user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(user, "whence")


def store_place(word: str) -> str:
    """Where a store is: as asked, else in the user's data folder."""
    if word != FROM_ENVIRONMENT:
        return word
    user = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(user, "whence", "store")


def notify(line: str) -> None:
    print(line, file=sys.stderr)


def servers(options: Namespace) -> list[str]:
    """The debuginfod servers that were asked for; none is ever asked without the option."""
    from whence.locate.debuginfod import checked_server

    out: list[str] = []
    for one in options.debuginfod:
        if one == FROM_ENVIRONMENT:
            listed = os.environ.get("DEBUGINFOD_URLS", "").split()
            known = [one for one in listed if not one.startswith("ima:")]  # Fedora's way to ask elfutils for signatures
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

    log = notify if options.verbose else lambda line: None
    return Debuginfod(asked, cache, allow=allowing(options.debuginfod_allow or ["*"]), log=log)


def user_dirs() -> tuple[str, ...] | None:
    """The debug folders where none is asked for: the system's, and perf's cache of the user's where there is one."""
    from whence.locate.debug_files import DEBUG_DIRS

    cache = os.path.join(os.path.expanduser("~"), ".debug")
    return (*DEBUG_DIRS, cache) if os.path.isdir(os.path.join(cache, ".build-id")) else None


def needs_locator(elf: ElfFile, options: Namespace) -> bool:
    """Return True if a Locator completes the file: it has no debug info, or an option says where files are.

    A Locator takes longer to import than `default_debug_files`.
    """
    return not elf.has_debug_info or any(getattr(options, name) != LOCATOR_DEFAULTS[name] for name in PLACES)


def default_debug_files() -> DebugFiles:
    """Return what finds the files that complete an ELF file if no option says where."""
    from whence.locate.debug_files import DEBUG_DIRS, DebugFiles

    return DebugFiles(user_dirs() or DEBUG_DIRS)


@contextmanager
def locator_of(options: Namespace, *, given: list[str] | None = None, columns: bool = False) -> Iterator[Locator]:
    """The Locator that the options describe; `given` are files that go before those of --binary, `columns` says that
    frames have them."""
    from whence.locator.locator import Locator

    made: list[Cache] = []

    def cache() -> Cache:
        from whence.locate.cache import Cache

        if not made:
            limit = int(options.cache_size * (1 << 30))
            made.append(Cache(cache_root(options), limit, lambda line: notify(f"whence: {line}")))
        return made[0]

    if options.sysroot and not os.path.isdir(options.sysroot):
        raise WrongUse(f"--sysroot {options.sysroot}: not a folder")
    stores = []
    if options.store:
        from whence.store import Store

        kept = None if options.no_cache else cache()
        who = getattr(options, "command", "")

        def complain(line: str) -> None:
            notify(f"whence: {line}")

        stores = [
            Store(store_place(word)).source(who, cache=kept, say=complain) for word in dict.fromkeys(options.store)
        ]
    with Locator(
        dirs=options.debug_dir or (None if options.sysroot else user_dirs()),
        files=[*(given or ()), *options.binary],
        archive_dirs=options.archive_dir,
        cache=None if options.no_cache else cache,
        debuginfod=client(options, cache()) if options.debuginfod else None,
        root=options.sysroot,
        sources=stores,
        jobs=options.jobs,
        columns=columns,
        log=notify if options.verbose else None,
    ) as locator:
        yield locator


@contextmanager
def symbolizer_of(options: Namespace, *, given: list[str] | None = None) -> Iterator[Symbolizer]:
    """A symbolizer with the Locator and the names that the options describe."""
    from whence.symbolize import Symbolizer

    with (
        locator_of(options, given=given) as locator,
        Symbolizer(locator=locator, demangle=not options.no_demangle) as symbolizer,
    ):
        yield symbolizer
