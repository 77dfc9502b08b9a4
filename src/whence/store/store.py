"""The store: the best debug file, the best executable and their archive for each build-id.

`Store` adds to StoreWriter (writer.py) and StoreReader (reader.py) what needs the other parts of the package.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from whence.binary import open_archive
from whence.locate.cache import Cache
from whence.locator.locator import Locator
from whence.store.fetching import Fetched
from whence.store.intake import Intake
from whence.store.names import ARCHIVE, checked_id, file_key
from whence.store.source import StoreSource
from whence.store.writer import WAIT_SECONDS, StoreWriter

if TYPE_CHECKING:
    from whence.binary import Binary
    from whence.store.objects import Objects
    from whence.store.outcomes import Added, Outcomes
    from whence.store.parser import FileParser
    from whence.store.processes import ProcessFile


class Store(StoreWriter):
    """A store of object files and archives by build-id, in a folder or a bucket.

    A context manager. Safe from several threads, and with writers in other processes. Nothing is written before the
    first file is put.

    Args:
        place: A folder, an address (s3://, gs://, az://, memory://, http://, https://) or Objects.
        cache: A Cache or its folder, for files fetched from a bucket (None: temporary files).
        jobs: The number of threads (None: one per core).
        compress: Store object files compressed by zstd where that pays. They are decompressed when they are read, but a
            plain web server over the folder can't serve them.
        parser: Parses files that are put, and archives them (None: this process does).
        also: Symbol files to make with each archive: "gsym", "sym" (Breakpad).
    """

    def __init__(
        self,
        location: str | os.PathLike[str] | Objects,
        *,
        cache: Cache | str | os.PathLike[str] | None = None,
        jobs: int | None = None,
        compress: bool = False,
        parser: FileParser | None = None,
        also: Iterable[str] = (),
    ) -> None:
        super().__init__(location, jobs=jobs, compress=compress, parser=parser, also=also)
        self._cache = cache

    def __reduce__(self) -> tuple[object, ...]:
        """Return the place and the settings, with which another process opens the store."""
        return partial(
            type(self), self.url, cache=self._cache, jobs=self.jobs, compress=self.compress, also=self.also
        ), ()

    def open(self, build_id: str, *, demangle: bool | Callable[[str], str] = False) -> Binary:
        """Open the archive of a build-id, or its object files if there is no archive.

        Args:
            build_id: The build-id, in lowercase hex.
            demangle: True for readable C++ and Rust names, or a function that makes a name readable.

        Raises:
            FileNotFoundError: The store has no file of this build-id.
            WhenceError: A file is damaged, or the build-id is malformed.
            OSError: The store can't be read.
        """
        with self._archive_to_open(build_id) as path:
            if path is not None:
                self.used(build_id)
                return open_archive(path, demangle=demangle)
        with Locator(dirs=(), local=False, sources=[self.source()]) as locator:
            return locator.open(build_id=checked_id(build_id), demangle=demangle)

    @contextmanager
    def _archive_to_open(self, build_id: str) -> Iterator[Path | None]:
        """Open a block with the path of a decompressed archive, in the cache if there is one; None if it is missing."""
        path = self.objects.path(file_key(build_id, ARCHIVE))
        if path is None and self._cache is not None:
            cache = self._cache if isinstance(self._cache, Cache) else Cache(self._cache)
            path = Fetched(self, cache, fresh_seconds=0).path(build_id, ARCHIVE)
        if path is not None:
            yield path
            return
        with self.file(build_id, ARCHIVE) as path:
            yield path

    def source(
        self,
        who: str = "",
        *,
        cache: Cache | str | os.PathLike[str] | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> StoreSource:
        """Return the store as a source of a Locator.

        Args:
            who: The name of the client, recorded with each missing build-id; "" to record nothing.
            cache: A Cache or its folder, for files fetched from a bucket (None: the store's).
            say: Called once, with a line of text, if the store can't be read.
        """
        return StoreSource(self, who, self._cache if cache is None else cache, say)

    def add(
        self,
        *paths: str | os.PathLike[str],
        by_hash: bool = False,
        mapped: Iterable[ProcessFile] = (),
        layouts: Iterable[str] = (),
        source_folders: Iterable[str | os.PathLike[str]] = (),
        report: Callable[[Added], None] = lambda added: None,
        wait: float = WAIT_SECONDS,
    ) -> Outcomes:
        """Add files, folders (recursively) and packages (.deb, .tar, .zip).

        Args:
            paths: The files, folders and packages.
            by_hash: Keep files without a build-id under their SHA-256.
            mapped: Files of processes (whence.store.processes).
            layouts: Further layouts in which copies are kept ("gdb", "pyroscope/TENANT").
            source_folders: Folders whose source files are bundled, if the debug info names them.
            report: Called with each outcome as soon as it is known, possibly on other threads.
            wait: How long to wait for another writer of the same build-id, in seconds.

        Returns:
            The outcome of each object file. A file that can't be read or kept has the outcome "refused".

        Raises:
            WrongUse: The store is read-only.
            OSError: The store itself failed.
        """
        self._check_writable()
        intake = Intake(self, by_hash=by_hash, layouts=layouts, sources=source_folders, report=report, wait=wait)
        try:
            return intake.add(paths, mapped)
        except OSError as error:
            if error.errno is not None and error.filename is None:
                error.filename = self.url  # write(2) names no file
            raise
