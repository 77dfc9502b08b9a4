"""Where names come from, as a user writes it: a path, a store, keywords, or a mapping of keywords.

`options_from` turns all of them into one LocatorOptions. A path or address is recognized by what is there:

    s3://, gs://, az://, http(s)://...      a store
    a file                                  a binary, debug file or archive
    a folder with whence-store.json, or in the layout of debuginfod, Parca or symbolicator
                                            a store
    a folder with .lidia files              a folder of archives
    a folder with object files or .build-id, also in folders below
                                            a folder of debug files
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from whence._base.errors import WrongUse
from whence._base.files import failure
from whence._base.records import Record
from whence.locate.debug_files import DEBUG_DIRS
from whence.locate.folder_index import index_of, is_binary
from whence.locate.folder_walk import is_file
from whence.locate.identity import is_hex
from whence.locate.sources import ENDINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from typing import Any, Protocol, TypedDict

    from whence.locate.cache import Cache
    from whence.locate.sources import Fetcher, FileSource
    from whence.locate.symbol_server import SymbolServer

    class StoreLike(Protocol):
        """A whence.Store: its `source` finds files for a Locator."""

        def source(self, who: str = "", *, cache: Any = None) -> FileSource: ...

    Path = str | PathLike[str]
    Paths = Path | Iterable[Path]
    StorePlace = StoreLike | Path
    Sources = StoreLike | Mapping[str, Any] | Path | Iterable[StoreLike | Path]
    """A source of names: a Store, the keywords of a Locator as a mapping, or a path or address."""

    class LocatorFields(TypedDict, total=False):
        """The keywords of a Locator."""

        binaries: Paths
        archive_dirs: Paths
        debug_dirs: Paths | None
        store: StorePlace | Iterable[StorePlace] | None
        cache: Cache | Path | Callable[[], Cache] | None
        debuginfod: Fetcher | Iterable[str] | str | bool | None
        symbol_server: SymbolServer | Iterable[str] | str | None
        sysroot: Path
        sources: Iterable[FileSource]
        local: bool
        jobs: int | None
        columns: bool
        log: Callable[[str], None] | None
        stores: Iterable[StorePlace]  # other names of binaries, debug_dirs, store and sysroot
        files: Paths
        dirs: Paths | None
        root: Path


OTHER_NAMES = {
    "files": "binaries", "binary": "binaries", "dirs": "debug_dirs", "debug_dir": "debug_dirs",
    "archive_dir": "archive_dirs", "stores": "store", "root": "sysroot", "cache_dir": "cache",
}  # fmt: skip
STORE_MARKER = "whence-store.json"
STORE_FOLDERS = ("buildid", "debuginfo", "executable")  # of debuginfod's layout; of a build-id in other layouts
LOOKED_AT = 256  # entries of a folder, to find out what it is


class LocatorOptions(Record, frozen=True):
    """The sources of a Locator, in the types that it works with. whence.Locator describes each field."""

    binaries: tuple[str, ...] = ()
    archive_dirs: tuple[str, ...] = ()
    debug_dirs: tuple[str, ...] | None = None
    store: tuple[StorePlace, ...] = ()
    cache: Cache | Path | Callable[[], Cache] | None = None
    debuginfod: Fetcher | tuple[str, ...] | bool | None = None
    symbol_server: SymbolServer | tuple[str, ...] | None = None
    sysroot: str = ""
    sources: tuple[FileSource, ...] = ()
    local: bool = True
    jobs: int | None = None
    columns: bool = False
    log: Callable[[str], None] | None = None


LOCATOR_NAMES = frozenset({*LocatorOptions._fields, *OTHER_NAMES})
"""The keywords of a Locator, for functions that have further ones."""


def options_from(places: Sources | None = None, fields: Mapping[str, Any] | None = None) -> LocatorOptions:
    """Return the options that `places` (not a Locator) and keywords describe together.

    Raises:
        TypeError: a keyword or a type is unknown.
        WrongUse: a folder has no store, archives or debug files.
        FileNotFoundError: a path does not exist.
    """
    values: dict[str, Any] = {}
    for name, value in (fields or {}).items():
        _put(values, name, value)
    if isinstance(places, Mapping):
        for name, value in places.items():
            _put(values, str(name), value)
    elif places is not None:
        for source in _several(places):
            for name, value in _recognized(source):
                _put(values, name, value)
    return LocatorOptions(**values)


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    """Set a field by one of its names; values of a field with several are added."""
    field = OTHER_NAMES.get(name, name)
    if field not in LocatorOptions._fields:
        from difflib import get_close_matches  # only a mistake needs it

        similar = get_close_matches(name, [*LocatorOptions._fields, *OTHER_NAMES], 1)
        names = ", ".join(name for name in LocatorOptions._fields)
        hint = f"did you mean {similar[0]}?" if similar else f"a Locator has {names}"
        raise TypeError(f"{name!r} does not say where names come from: {hint}")
    if field in ("binaries", "archive_dirs", "debug_dirs"):
        if value is not None:
            values[field] = (*values.get(field, ()), *paths_of(value))
    elif field in ("store", "sources"):
        if value is not None:
            check = _check_store if field == "store" else _check_source
            values[field] = (*values.get(field, ()), *map(check, _several(value)))
    elif (field == "debuginfod" and not (value is None or isinstance(value, bool) or hasattr(value, "fetch"))) or (
        field == "symbol_server" and not (value is None or hasattr(value, "fetch_pdb"))
    ):
        values[field] = tuple(map(_check_url, _several(value)))
    elif field == "sysroot":
        values[field] = _path(value or "").rstrip("/")
    elif field == "cache":
        values[field] = _check_cache(value)
    else:
        values[field] = value


def _check_store(store: Any) -> Any:
    """Return a Store, or the path or address of one. Raises TypeError for anything else."""
    if not hasattr(store, "source") and not isinstance(store, str | os.PathLike):
        raise TypeError(f"a store is a Store, or the path or address of one, not {type(store).__name__}")
    return store


def _check_source(source: Any) -> Any:
    """Return a source of files. Raises TypeError for anything else."""
    if not hasattr(source, "find"):
        hint = ": for a Store give store=..." if hasattr(source, "source") else ""
        raise TypeError(f"a source has a method find(query, tried), {type(source).__name__} has not{hint}")
    return source


def _check_url(url: Any) -> str:
    if not isinstance(url, str):
        raise TypeError(f"a server is a URL or a client, not {type(url).__name__}")
    return url


def _check_cache(cache: Any) -> Any:
    if not (cache is None or isinstance(cache, str | os.PathLike) or callable(cache) or hasattr(cache, "put")):
        raise TypeError(f"a cache is a Cache, its folder or a function that returns one, not {type(cache).__name__}")
    return cache


def paths_of(paths: Paths) -> tuple[str, ...]:
    """Return one path or several as a tuple.

    >>> paths_of("/usr/lib/debug"), paths_of(["a", "b"])
    (('/usr/lib/debug',), ('a', 'b'))
    """
    return tuple(map(_path, _several(paths)))


def _path(path: Any) -> str:
    """Return a path as a str. Raises TypeError for anything else."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"a path is a str or an os.PathLike, not {type(path).__name__}")
    text: str | bytes = os.fspath(path)
    return os.fsdecode(text)


def _several(values: Any) -> tuple[Any, ...]:
    is_one = isinstance(values, str | bytes | os.PathLike) or not isinstance(values, Iterable)
    return (values,) if is_one or hasattr(values, "source") else tuple(values)


def _recognized(source: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields that a path, an address or a store sets."""
    if not isinstance(source, str | os.PathLike):
        if hasattr(source, "source"):
            yield "store", source
            return
        if hasattr(source, "find"):
            yield "sources", [source]
            return
        raise TypeError(
            f"{type(source).__name__} does not say where names come from: give a Locator, a Store, a path, or a "
            "mapping like {'store': 'PATH'}"
        )
    path = os.fspath(source)
    if "://" in path:
        yield "store", path
    elif os.path.isdir(path):
        yield from _recognized_folder(path)
    elif os.path.exists(path):
        yield "binaries", path
    else:
        raise _failure_of(path, "ENOENT")


def _failure_of(path: str, name: str) -> OSError:
    error = failure(name)
    error.filename = path
    return error


def existing_folder(path: str) -> str:
    """Return the path of a folder. Raises FileNotFoundError or NotADirectoryError."""
    if not os.path.isdir(path):
        raise _failure_of(path, "ENOTDIR" if os.path.lexists(path) else "ENOENT")
    return path


def _recognized_folder(path: str) -> Iterator[tuple[str, Any]]:
    with os.scandir(path) as scan:
        entries = sorted(islice(scan, LOOKED_AT), key=lambda entry: entry.name)
    names = [entry.name for entry in entries]
    if STORE_MARKER in names or STORE_FOLDERS[0] in names or any(map(_is_store_entry, entries)):
        yield "store", path
        return
    archives = any(name.endswith(ENDINGS) for name in names) or any(map(_has_archives, entries))
    binaries = any(is_binary(entry.path) for entry in entries if not entry.name.endswith(ENDINGS) and is_file(entry))
    if not archives and not binaries:
        binaries = bool(index_of(path).by_build_id)  # in folders below
    if archives:
        yield "archive_dirs", path
    if binaries:
        yield "binaries", path
    if ".build-id" in names:
        yield "debug_dirs", [path, *DEBUG_DIRS]
    elif not archives and not binaries:
        raise WrongUse(
            f"{path}: a folder without a store, archives or debug files; for a store that will be filled later, give "
            f"store={path!r}"
        )


def _is_store_entry(entry: os.DirEntry[str]) -> bool:
    """Return True for a folder of a build-id as Parca (ID/debuginfo) or symbolicator (ab/cdef/debuginfo) keep it."""
    if not is_hex(entry.name) or not entry.is_dir():
        return False
    if len(entry.name) > 2:
        return any(os.path.exists(os.path.join(entry.path, kind)) for kind in STORE_FOLDERS[1:])
    with os.scandir(entry.path) as entries:
        return any(map(_is_store_entry, islice(entries, LOOKED_AT)))


def _has_archives(entry: os.DirEntry[str]) -> bool:
    """Return True for a folder `ab` with archives `cdef.lidia`."""
    if len(entry.name) != 2 or not is_hex(entry.name) or not entry.is_dir():
        return False
    with os.scandir(entry.path) as entries:
        return any(inner.name.endswith(ENDINGS) for inner in islice(entries, LOOKED_AT))
