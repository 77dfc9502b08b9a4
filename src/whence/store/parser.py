"""Parsing of the files of a store: scan a file, and archive it while it is open.

A store parses in its own process by `FileParser`; a server replaces that by a parser in confined processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from whence.store.archiving import Supplements, alt_in, archive_of, make_archive
from whence.store.names import ARCHIVE, ELF_KINDS
from whence.store.quality import open_scan

if TYPE_CHECKING:
    from whence.producers import Producers
    from whence.store.meta import Meta
    from whence.store.outcomes import MadeArchive
    from whence.store.quality import ScanResult
    from whence.store.reader import StoreReader


class ParseSession:
    """Scans one file and makes an archive of it, or of all files of its build-id. Not safe from several threads.

    `folders` are folders (real paths) that may hold split units.
    """

    def __init__(self, stack: ExitStack, store: StoreReader, jobs: int | None = 1, folders: Iterable[str] = ()) -> None:
        self._stack, self._store, self._jobs, self._folders = stack, store, jobs, folders
        self._producers: Producers | None = None

    def scan(self, path: Path) -> ScanResult:
        """Return what a file holds; it stays open for `archive`. Raises WhenceError, OSError."""
        finder = Supplements(None, alt_in(self._store, self._stack), self._folders)
        result, self._producers = self._stack.enter_context(open_scan(path, finder, self._jobs))
        return result

    def archive(self, described: Meta, output: BinaryIO, *, scanned: bool, kind: str = ARCHIVE) -> MadeArchive:
        """Write an archive or symbol file of the files of a build-id; `scanned`: they are all the scanned file.

        Raises WhenceError, OSError.
        """
        if scanned and self._producers is not None:
            return archive_of(self._producers, output, kind, described.name)
        with ExitStack() as stack:
            files = stored_files(self._store, described, stack)
            return make_archive(self._store, described, files, output, self._folders, kind)


class FileParser:
    """Parses files in this process."""

    @contextmanager
    def session(self, store: StoreReader, jobs: int | None = 1, folders: Iterable[str] = ()) -> Iterator[ParseSession]:
        """Open a block for one file. The arguments are those of ParseSession."""
        with ExitStack() as stack:
            yield ParseSession(stack, store, jobs, folders)


def stored_files(store: StoreReader, described: Meta, stack: ExitStack) -> dict[str, Path]:
    """Return the paths of the object files of a build-id, until `stack` is closed."""
    kinds = [kind for kind in described.files if kind in ELF_KINDS]
    paths = {kind: stack.enter_context(store.file(described.build_id, kind)) for kind in kinds}
    return {kind: path for kind, path in paths.items() if path is not None}
