"""The Locator: the file for a build-id or a path, for every command and every call.

Sources, in order; everything tried is noted with a code:

    1. given files and folders       ELF files, debug files or archives: by build-id; by name if one has no build-id
    2. archive folders               BUILD-ID.lidia, ab/cdef.lidia, or any archive with the build-id
    3. the archive cache             archives that this machine made or fetched before
    4. further sources               stores
    5. next to the file              an archive with the name of the file and .lidia, if the build-id matches
    6. the file's own path           if the build-id matches, or is unknown
    7. debug folders                 .build-id/ab/cdef.debug, or any file with the build-id
    8. debuginfod                    if a client was given

Unreadable candidates are skipped. A file that a person names to `open` precedes all of them if it has debug info, or
Go's tables. An ELF file without debug info is completed by its debug file (DebugFiles) from the given files, the debug
folders, its debug link and the servers; without one its own symbols are used.

An ELF file with debug info that has to answer for many addresses is archived in the cache first, for the next search.
A file without debug info is not, as its debug file may be installed later.

A search that finds no file says why (Search.missing). An error of one candidate does not end a search.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from os import PathLike
from weakref import finalize

from whence import lidia
from whence._base.closing import Closing
from whence._base.errors import Mismatch, WhenceError, WrongUse, without_file
from whence._base.options import DEFAULTS, ReadOptions
from whence._base.reasons import GIVE_FILE, Missing, Reason
from whence._base.records import as_dict, replaced
from whence.archive.create import archive_producers
from whence.binary import Binary, is_archive, not_a_core, open_archive, open_elf
from whence.locate.debug_files import DEBUG_DIRS, Completion, DebugFiles, flat_folders
from whence.locate.dsym import expanded, is_bundle
from whence.locate.folder_index import FolderFiles
from whence.locate.identity import comparable, is_same, key
from whence.locate.names import PACKED
from whence.locate.search import ALL_KINDS, FileKind, FileQuery, Outcome, Search
from whence.locate.segments import has_nobits, placing_segments, skeleton
from whence.locate.sources import (
    OWN_PATH,
    ArchiveFolders,
    BuildIdFolders,
    CachedArchives,
    Candidate,
    GivenFiles,
    NearArchives,
    OwnPath,
    Servers,
    SymbolServers,
    below,
    of_elf,
)
from whence.locator.answers import AnswerSearch, OpenedFile, RemoteArchive
from whence.locator.options import existing_folder, options_from
from whence.objects.elf.segments import Segment
from whence.objects.ids import WindowsModule
from whence.objects.interface import ObjectFile
from whence.objects.opening import open_object
from whence.objects.zipped import ENDINGS, entry_at, with_libraries
from whence.producers import Producers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, TypeVar, Unpack

    from whence._base.options import ReadFields
    from whence.locate.cache import Cache
    from whence.locate.sources import Fetcher, FileSource
    from whence.locate.symbol_server import SymbolServer
    from whence.locator.options import LocatorFields, Sources, StorePlace

    T = TypeVar("T")

ARCHIVE_FROM = 64  # smallest number of addresses for which an archive is made in the cache
SEGMENTS = "segments"  # the kind of cache entries with the segments of an archive's file


class Unfit(WhenceError):
    """A valid candidate of the right build-id without the requested content."""


class Locator(Closing):
    """Finds and opens the files for build-ids and paths. A context manager; thread-safe.

    A path or list of paths is accepted where there may be several.

    Args:
        places: a path or address: of a store, of a folder of archives or debug files, or of a file, which is found out
            by looking at it; a Store; or the following keywords as a mapping.
        binaries: ELF files, debug files or archives that precede all other sources, and folders of such files.
        archive_dirs: folders of archives.
        debug_dirs: folders of debug files instead of /usr/lib/debug, or packages made by `perf archive`.
        store: a Store, or the path or address of one.
        cache: a Cache or its folder, which is created on first use.
        debuginfod: a client, or URLs of servers; True for those in DEBUGINFOD_URLS. Fetched files are put into the
            cache. None: no network access.
        symbol_server: a client, or URLs of symbol servers, for the PDB files of Windows programs.
        sysroot: a folder that paths of programs and libraries are below: an unpacked image, another machine's disk.
            Its debug files are used, and those of this machine if they have the same build-id.
        sources: further sources, next to stores; those with `fetch` also complete files.
        local: use the mapped paths of this machine.
        jobs: number of threads; None for one per core.
        columns: read columns and discriminators.
        log: called with a line for each file tried.
        files, dirs, stores, root: other names of binaries, debug_dirs, store and sysroot.

    Raises OSError and WhenceError for a given file or folder that can't be read, TypeError for an unknown keyword.

    >>> import whence
    >>> with whence.Locator(binaries="app.debug") as locator:  # doctest: +SKIP
    ...     print(locator.find(build_id="12cd34").path)
    """

    def __init__(self, places: Sources | None = None, /, **fields: Unpack[LocatorFields]) -> None:
        self._options = options = options_from(places, fields)
        self._make_cache = options.cache
        self._cache: Cache | None = None
        self._log = options.log
        self.jobs = options.jobs
        self.columns = options.columns
        self.root = options.sysroot
        self.dirs = DEBUG_DIRS if options.debug_dirs is None else tuple(map(self._folder, options.debug_dirs))
        build_id_dirs: tuple[str, ...] = ()
        if self.root:
            own = tuple(self.root + folder for folder in DEBUG_DIRS)
            build_id_dirs = DEBUG_DIRS if options.debug_dirs is None else ()
            self.dirs = own if options.debug_dirs is None else (*own, *self.dirs)
        self.binary_dirs = tuple(path for path in options.binaries if os.path.isdir(path) and not is_bundle(path))
        given = tuple(path for path in options.binaries if path not in self.binary_dirs)
        with_entries = tuple(with_libraries(given))
        self.files = tuple(expanded(with_entries))
        self._zip_files = [path for path in given if path.endswith(ENDINGS)]
        self.archive_dirs = tuple(map(existing_folder, options.archive_dirs))
        self._client = self._client_of(options.debuginfod)
        self._symbols = self._symbol_client_of(options.symbol_server)
        self._given = GivenFiles(self.files, optional=set(with_entries).difference(given))
        self._given_folders = FolderFiles(self.binary_dirs, GivenFiles.how, by_name=True)
        self._own = OwnPath(self.root) if options.local else None
        self.sources: list[FileSource] = [self._given, self._given_folders]
        if self.archive_dirs:
            self.sources.append(ArchiveFolders(self.archive_dirs))
        if options.cache is not None:
            self.sources.append(CachedArchives(self._open_cache))
        self._further = [*options.sources, *map(self._store_source, options.store)]
        self.sources += self._further
        if options.local:
            self.sources.append(NearArchives(self.root))
        self._fallback: list[FileSource] = [BuildIdFolders((*self.dirs, *build_id_dirs), self.root)]
        self._fallback.append(FolderFiles(flat_folders(self.dirs, self.root), BuildIdFolders.how))
        self._servers = [Servers(self._client)] if self._client is not None else []
        self._fallback += self._servers
        if self._symbols is not None:
            self._fallback.append(SymbolServers(self._symbols))
        stores: list[Any] = [source for source in self._further if hasattr(source, "fetch")]
        fetchers = [(getattr(store, "how", "store"), store) for store in stores]
        if self._client is not None:
            fetchers.append(("debuginfod", self._client))
        if self._symbols is not None:
            fetchers.append(("symbol server", self._symbols))
        self.debug_files = DebugFiles(
            (*self.binary_dirs, *self.dirs),
            [file.path for file in self._given.files if not file.is_archive and not file.is_package],
            packages=[file.path for file in self._given.files if file.is_package],
            fetchers=fetchers,
            open_elf=self._open_elf,
            sysroot=self.root,
            build_id_dirs=build_id_dirs,
            log=self._log,
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Return the options, from which another process opens its own files."""
        return type(self), (as_dict(self._options),)

    def __repr__(self) -> str:
        given = f"{len(self.files)} given file{'' if len(self.files) == 1 else 's'}" if self.files else ""
        stores = [getattr(source, "how", type(source).__name__) for source in self._further]
        cache = "cache" if self._make_cache is not None else ""
        servers = "debuginfod" if self._client is not None else ""
        places = filter(None, [given, *self.binary_dirs, *self.archive_dirs, cache, *stores, *self.dirs, servers])
        return f"<whence.Locator: {', '.join(places) or 'no places'}>"

    def close(self) -> None:
        """Close the given files, and connections to stores and servers. The locator stays usable."""
        self._given.close()
        for source in (*self._further, self._client, self._symbols):
            close = getattr(source, "close", None)
            if close is not None:
                close()

    def _folder(self, path: str) -> str:
        """Return a debug folder; for a package made by `perf archive`, the folder that it is unpacked to."""
        if not path.lower().endswith(PACKED) or not os.path.isfile(path):
            return path if path in DEBUG_DIRS else existing_folder(path)
        import shutil
        from tempfile import mkdtemp

        from whence.locate.perf_archive import unpack

        folder = mkdtemp(prefix="whence-")
        finalize(self, shutil.rmtree, folder, ignore_errors=True)
        unpack(path, folder)
        return folder

    def _open_cache(self) -> Cache:
        """Return the cache, created on first use."""
        if self._cache is None:
            from whence.locate.cache import Cache

            cache = self._make_cache
            if cache is None:
                raise WrongUse("servers need a cache for the fetched files (cache=FOLDER)")
            self._cache = cache if isinstance(cache, Cache) else cache() if callable(cache) else Cache(cache)
        return self._cache

    def _client_of(self, debuginfod: Fetcher | tuple[str, ...] | bool | None) -> Fetcher | None:
        if not debuginfod:
            return None
        if not isinstance(debuginfod, bool | tuple):
            return debuginfod
        from whence.locate.debuginfod import Debuginfod, servers_of_environment

        servers = servers_of_environment() if isinstance(debuginfod, bool) else debuginfod
        return Debuginfod(servers, self._open_cache())

    def _symbol_client_of(self, servers: SymbolServer | tuple[str, ...] | None) -> SymbolServer | None:
        if not servers:
            return None
        if not isinstance(servers, tuple):
            return servers
        from whence.locate.symbol_server import SymbolServer

        return SymbolServer(servers, self._open_cache())

    def _store_source(self, location: StorePlace) -> FileSource:
        """Return a store as a source.

        The package `store` imports this one, and a Locator without a store does not need it: it is imported here, by
        its name, like a plug-in.
        """
        cache = self._open_cache() if self._make_cache is not None else None
        store = location if hasattr(location, "source") else import_module("whence.store").Store(location, cache=cache)
        source: FileSource = store.source(cache=cache)
        return source

    def _open_elf(self, path: str) -> ObjectFile:
        """Open an object file; reuse a given file that is open."""
        for file in self._given.files:
            if file.path == path:
                return file.elf()
        return open_object(path)

    # finding

    def build_ids_with(self, prefix: str) -> list[str]:
        """Return the build-ids that start with a prefix, of all places that can list them: not of servers.

        Args:
            prefix: at least two digits in hex.
        """
        key = comparable(prefix)
        listing = (getattr(source, "build_ids_with", None) for source in (*self.sources, *self._fallback))
        return sorted({build_id for build_ids in listing if build_ids is not None for build_id in build_ids(key)})

    def find(
        self, *, build_id: str = "", path: str = "", kinds: Iterable[FileKind | str] = ALL_KINDS,
        module: WindowsModule | None = None,
    ) -> Search:  # fmt: skip
        """Find the file for a build-id, or for a path without a build-id.

        `kinds` are the acceptable ones ("lidia", "debuginfo", "executable"). `module`: as in FileQuery. The result has
        the file's path, kind and build-id; it is false, with what is missing, if no file is found. Never raises for a
        bad candidate.
        """
        query = FileQuery(build_id, path, tuple(map(FileKind, kinds)), module=module)
        search = Search(str(query))

        def kind_of(candidate: Candidate) -> FileKind:
            if candidate.is_archive:
                with lidia.open(candidate.path) as table:
                    must_be_of(query, table.about.build_id)
                return FileKind.ARCHIVE
            with candidate.elf() as elf:
                kind = FileKind.DEBUGINFO if elf.has_debug_info else FileKind.EXECUTABLE
                if kind not in query.kinds and not (FileKind.EXECUTABLE in query.kinds and has_code(elf)):
                    raise Unfit(f"the file has no {' or '.join(query.kinds)}")
                return kind if kind in query.kinds else FileKind.EXECUTABLE

        used = self._first(query, search, kind_of)
        if used is not None:
            candidate, search.kind = used
            search.path, search.how, search.build_id = candidate.path, candidate.how, candidate.build_id
        self._log_search(search, query)
        return search

    def library_in_zip(self, path: str, file_offset: int) -> tuple[str, int, str]:
        """Return path, file offset and build-id of the library that is mapped from an offset of a zip file.

        The path is as in `base.apk!/lib/arm64-v8a/libx.so`. A given zip file of the same name is used, or the mapped
        one. The path is "" for other files and offsets.
        """
        if not path.endswith(ENDINGS):
            return "", 0, ""
        files = [file for file in self._zip_files if os.path.basename(file) == os.path.basename(path)]
        if self._own is not None and path.startswith("/"):
            with suppress(OSError, ValueError):
                files.append(below(self.root, path) if self.root else path)
        for file in files:
            library, offset = entry_at(file, file_offset)
            if library:
                build_id = ""
                with suppress(OSError, WhenceError), open_object(library) as elf:
                    build_id = elf.build_id
                return path + library.removeprefix(file), offset, build_id
        return "", 0, ""

    def open(
        self,
        path: str | PathLike[str] = "",
        *,
        build_id: str = "",
        options: ReadOptions = DEFAULTS,
        **changes: Unpack[ReadFields],
    ) -> Binary:
        """Open a file that a person names, or the first one for a build-id.

        A named archive is used itself, an ELF file with its debug file. An ELF file without debug info is replaced by
        an archive of its build-id, if there is one. The options are those of `whence.open`.

        Raises OSError, WhenceError; FileNotFoundError, with all that was tried, if no file has the build-id.
        """
        name = os.fspath(path)
        options = replaced(options, **changes)
        if not name:
            query = FileQuery(build_id)
            search = self.search(query, demangle=options.demangle)
            if search.opened is None:
                raise FileNotFoundError(2, f"no file for {query} ({'; '.join(map(str, search.tried))})")
            return search.opened.binary
        if is_archive(name):
            return open_archive(name, demangle=options.demangle)
        return self.complete(open_elf(name), build_id=build_id, options=options)

    def complete(
        self,
        elf: ObjectFile,
        *,
        build_id: str = "",
        options: ReadOptions = DEFAULTS,
        prepare: bool = True,
    ) -> Binary:
        """Return a Binary that owns an open ELF file, completed by its debug files; on an error the file is closed.

        `prepare` is that of `Binary.from_elf`.
        """
        try:
            if build_id and elf.build_id != build_id:
                raise Mismatch(f"the build-id is {elf.build_id or 'missing'}, expected {build_id}").in_file(elf.path)
            archive = self._archive_for(elf, options.demangle) if options.every_source else None
            if archive is not None:
                elf.close()
                return archive.binary
            options = replaced(options, jobs=options.jobs or self.jobs, columns=options.columns or self.columns)
            return Binary.from_elf(elf, debug_files=self.debug_files, options=options, prepare=prepare)
        except BaseException:
            elf.close()
            raise

    def search(
        self,
        query: FileQuery,
        *,
        own: ObjectFile | None = None,
        addresses: int = 1,
        places: Callable[[Sequence[Segment]], bool] = lambda segments: True,
        demangle: bool | Callable[[str], str] = False,
    ) -> AnswerSearch:
        """Open the file that answers for addresses of a mapped file; `opened` is the caller's to close.

        Never raises for a bad candidate.

        Args:
            query: the identity of the file.
            own: the mapped file, open, in place of the mapped path; it is closed unless it answers.
            addresses: the number of addresses that will be looked up.
            places: returns True if segments place the addresses. Those of a debug file may not; then its program is
                searched for.
            demangle: return readable names.
        """
        query = FileQuery(query.build_id, query.path, query.kinds, query.local, addresses, query.module)
        search = AnswerSearch(str(query))

        def answer(candidate: Candidate) -> OpenedFile:
            if candidate.is_archive:
                return self._open_archive(candidate, query, demangle)
            return self._open_candidate(candidate, query, search, addresses, places, demangle)

        used = self._first(query, search, answer, own)
        if used is not None:
            search.opened = used[1]
            search.path, search.how, search.build_id = search.opened.path, search.opened.how, search.opened.build_id
        self._log_search(search, query)
        return search

    def candidates(self, query: FileQuery) -> Iterator[Candidate]:
        """Yield the files that may answer for a build-id, best first; the caller closes each."""
        return self._candidates(query, Search(str(query)), None)

    # inside

    def _candidates(self, query: FileQuery, search: Search, own: ObjectFile | None) -> Iterator[Candidate]:
        """Yield files that may answer, best first."""
        for source in self.sources:
            yield from source.find(query, search.tried)
        if own is not None:
            yield of_elf(own, OWN_PATH)
        elif self._own is not None and query.local:
            yield from self._own.find(query, search.tried)
        if query.build_id and not query.key:
            detail = f"{comparable(query.build_id)} is not a build-id in hex"
            search.note("", "caches, folders and servers", Outcome.ABSENT, detail)
        for source in self._fallback:
            yield from source.find(query, search.tried)

    def _first(
        self, query: FileQuery, search: Search, use: Callable[[Candidate], T], own: ObjectFile | None = None
    ) -> tuple[Candidate, T] | None:
        """Return the first usable candidate and the result of `use`; None after setting what the search misses."""
        broken: Missing | None = None
        try:
            for candidate in self._candidates(query, search, own):
                own = None if own is not None and candidate.how == OWN_PATH else own
                if candidate.is_archive and FileKind.ARCHIVE not in query.kinds:
                    continue
                try:
                    result = use(candidate)
                except (WhenceError, OSError) as error:
                    outcome = Outcome.MISMATCH if isinstance(error, Mismatch) else Outcome.BROKEN
                    outcome = Outcome.EMPTY if isinstance(error, Unfit) else outcome
                    search.note(candidate.path, candidate.how, outcome, without_file(error))
                    if candidate.how == CachedArchives.how:  # so that it is created again
                        with suppress(OSError):
                            os.unlink(candidate.path)
                    if outcome is Outcome.BROKEN and broken is None:
                        detail = f"{candidate.how} {candidate.path}: {without_file(error)}"
                        broken = Missing(Reason.BROKEN_FILE, detail)
                    continue
                finally:
                    candidate.close()
                search.note(candidate.path, candidate.how, Outcome.TAKEN)
                return candidate, result
        finally:
            if own is not None:
                own.close()
        search.missing = broken or _why_missing(search, query)
        return None

    def _log_search(self, search: Search, query: FileQuery) -> None:
        if self._log is not None:
            for tried in search.tried:
                self._log(f"{query.path or query.build_id}: {tried}")

    def _archive_for(self, elf: ObjectFile, demangle: bool | Callable[[str], str]) -> OpenedFile | None:
        """Return an archive of a file without debug info and Go's tables; None if there is no archive, or no need."""
        if elf.has_debug_info or elf.is_go or not elf.build_id:
            return None
        query = FileQuery(elf.build_id, os.path.abspath(elf.path) if elf.path else "", (FileKind.ARCHIVE,))
        search = Search(str(query))
        for source in self.sources:
            for candidate in source.find(query, search.tried):
                if not candidate.is_archive:
                    continue
                with suppress(WhenceError, OSError):
                    return self._open_archive(candidate, query, demangle)
        return None

    def _open_archive(
        self, candidate: Candidate, query: FileQuery, demangle: bool | Callable[[str], str]
    ) -> OpenedFile:
        """Open an archive, with the segments that it has, that the cache has, or that its file has."""
        if isinstance(candidate, RemoteArchive):
            binary = candidate.open_binary(demangle)
        else:
            binary = open_archive(candidate.path, demangle=demangle)
        try:
            must_be_of(query, binary.build_id)
            stored = binary.about.segments  # without a size where it was made of a debug file
            segments = [Segment.of_code(offset, vaddr, size) for offset, vaddr, size in stored if size]
            build_id = candidate.build_id or binary.build_id
            how = f"{candidate.how} {candidate.path}"
            return OpenedFile(binary, segments or self._segments_of(build_id, query), candidate.path, how, build_id)
        except BaseException:
            binary.close()
            raise

    def _segments_of(self, build_id: str, query: FileQuery) -> Sequence[Segment] | None:
        path = None
        if self._make_cache is not None and key(build_id):
            path = self._open_cache().get(f"{key(build_id)}.{SEGMENTS}")
        if path is not None:
            with open_object(path) as elf:
                return placing_segments(elf)
        for candidate in self._own.find(query, []) if self._own is not None and query.local else ():
            with candidate.elf() as elf:
                return placing_segments(elf) if candidate.build_ids and not candidate.is_archive else None
        return None

    def _open_candidate(
        self,
        candidate: Candidate,
        query: FileQuery,
        search: Search,
        addresses: int,
        places: Callable[[Sequence[Segment]], bool],
        demangle: bool | Callable[[str], str],
    ) -> OpenedFile:
        """Open an ELF file with all that completes it; for many addresses, as an archive in the cache."""
        elf = not_a_core(candidate.elf())
        producers = None
        waiting: dict[str, ObjectFile] = {}  # the debug file, until it is needed
        path, how = candidate.path, f"{candidate.how} {candidate.path}"
        try:
            segments = placing_segments(elf)
            opened = None if places(segments) else self._whole_file(candidate, query, places)
            if opened is not None:
                waiting[candidate.path] = elf
                elf, path = opened, opened.path
                segments = placing_segments(elf)
            files = self.debug_files.for_file(
                query.path, list(waiting), lambda name: waiting.pop(name, None) or self._open_elf(name)
            )
            completion = Completion(files)
            options = ReadOptions(jobs=self.jobs, columns=self.columns)
            producers = Producers(elf, complete=completion, options=options)
            debug_file = completion.searches[0]
            if debug_file.elf is not elf and debug_file.path:
                how = f"{how} with {debug_file.how} {debug_file.path}"
            described = producers.debug_info is not None or producers.pclntab is not None
            build_id = key(candidate.build_id)
            worth = addresses >= ARCHIVE_FROM and described and not has_nobits(segments)
            if self._make_cache is not None and build_id and worth:
                archive = self._archived(producers, build_id, search, demangle)
                if archive is not None:
                    producers.close()
                    return OpenedFile(archive, segments, path, how, candidate.build_id, elf)
            instead = None if described or query.key else self._archive_for(elf, demangle)
            if instead is not None:  # the mapping has no build-id
                producers.close()
                return OpenedFile(instead.binary, segments, instead.path, instead.how, instead.build_id, elf)
            producers.prepare()
            binary = Binary(producers=producers, completion=completion, path=elf.path, demangle=demangle)
            return OpenedFile(binary, segments, path, how, candidate.build_id)
        except BaseException:
            if producers is not None:
                producers.close()
            elf.close()
            raise
        finally:
            for unused in waiting.values():
                unused.close()

    def _whole_file(
        self, candidate: Candidate, query: FileQuery, places: Callable[[Sequence[Segment]], bool]
    ) -> ObjectFile | None:
        """Return the program of a debug file, as debug files lack the file offsets of code."""
        same = FileQuery(candidate.build_id, query.path, (FileKind.EXECUTABLE,))
        own: list[FileSource] = [self._own] if self._own is not None and query.local else []
        sources: list[FileSource] = [self._given, self._given_folders, *own, *self._further, *self._servers]
        for source in sources:
            for other in source.find(same, []) if candidate.build_id or source is self._given else ():
                if (
                    other.is_archive
                    or other.path == candidate.path
                    or not set(other.build_ids) & {*candidate.build_ids}
                ):
                    continue
                try:
                    elf = other.elf()
                    if places(placing_segments(elf)):
                        return elf
                    elf.close()
                except (WhenceError, OSError):  # unreadable: try the next one
                    continue
        return None

    def _archived(
        self, producers: Producers, build_id: str, search: Search, demangle: bool | Callable[[str], str]
    ) -> Binary | None:
        """Return an archive of an ELF file, made in the cache; None if that fails."""
        cache = self._open_cache()

        def write_segments(file: BinaryIO) -> None:
            file.write(skeleton(producers.elf) + build_id.encode())

        def write_archive(file: BinaryIO) -> None:
            archive_producers(producers, file)

        try:
            cache.put(f"{build_id}.{SEGMENTS}", write_segments)
            return open_archive(cache.put(f"{build_id}.{FileKind.ARCHIVE}", write_archive), demangle=demangle)
        except (WhenceError, OSError) as error:  # without an archive lookups are slower
            search.note("", CachedArchives.how, Outcome.BROKEN, f"no archive was made ({error})")
            return None


def must_be_of(query: FileQuery, build_id: str) -> None:
    """Raise Mismatch if a file has another build-id than the requested one."""
    if query.build_id and build_id and not is_same(query.build_id, build_id):
        raise Mismatch(f"the build-id is {build_id}, expected {query.build_id}")


def has_code(elf: ObjectFile) -> bool:
    """Return True if the file has the bytes of code."""
    code = [segment for segment in placing_segments(elf) if segment.executable]
    return bool(code) and not has_nobits(code)


def _why_missing(search: Search, query: FileQuery) -> Missing:
    for tried in search.tried:
        if tried.outcome is Outcome.REPLACED:
            return Missing(Reason.BUILD_ID_MISMATCH, str(tried))
        if tried.outcome is Outcome.UNVERIFIED:
            return Missing(Reason.NO_FILE, str(tried), GIVE_FILE)
        if tried.outcome is Outcome.BROKEN and tried.how == OWN_PATH:
            return Missing(Reason.BROKEN_FILE, str(tried))
    return Missing(Reason.NO_FILE, str(query))
