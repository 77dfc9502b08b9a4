"""The archive of a build-id: its debug file and its executable as one table of ranges."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from whence._base.options import ReadOptions
from whence.archive.create import archive_producers
from whence.conversion import write_symbols
from whence.locate.debug_files import DebugFiles, belongs, same_id
from whence.locate.search import Outcome, Search
from whence.objects.companions import CompanionKind
from whence.objects.interface import ObjectFile
from whence.objects.opening import open_object
from whence.producers import Producers
from whence.store.names import ARCHIVE, DEBUGINFO, EXECUTABLE, SYMBOLS, is_id
from whence.store.outcomes import MadeArchive

if TYPE_CHECKING:
    from whence.objects.parts import LinkedObject
    from whence.store.meta import Meta
    from whence.store.reader import StoreReader


NOT_ADDED = "the path is not below a folder that was added"


class Supplements(DebugFiles):
    """The files that complete an object file of a store.

    `debug` is its debug file. `alt` returns the path of dwz's shared file, by build-id and name, or None. Other paths
    in files are not followed, since an uploaded file could name any file of this machine; only split units and the
    object files of debug maps below `folders` are opened.
    """

    def __init__(
        self,
        debug: Path | str | None = None,
        alt: Callable[[str, str], Path | str | None] = lambda build_id, name: None,
        folders: Iterable[str] = (),
        open_elf: Callable[[str], ObjectFile] = open_object,
    ) -> None:
        super().__init__((), [] if debug is None else [debug], open_elf=open_elf)
        self._alt = alt
        self._folders_named = list(folders)

    def debug_file(self, elf: ObjectFile) -> Search:
        if elf.format == "ELF":
            return super().debug_file(elf)
        search = Search(CompanionKind.DEBUG_FILE)  # other formats name the paths of their debug files
        if elf.has_debug_info:
            search.elf, search.path, search.how = elf, elf.path, "itself"
            search.note(elf.path, "itself", Outcome.TAKEN)
        else:
            self._take(search, [(path, "given") for path in self.given], lambda each: belongs(each, elf, -1), elf.path)
        return search

    def _linked(self, path: str, name: str) -> Iterator[tuple[str, str]]:
        return iter(())

    def alt_file(self, elf: ObjectFile) -> Search:
        search = Search("supplementary file")
        link = elf.alt_link
        if link is None or not is_id(link.build_id):
            return search
        path = self._alt(link.build_id, link.name)
        if path is not None:
            self._take(search, [(str(path), "store")], lambda elf: same_id(elf, link.build_id))
        else:
            search.note("", "store", Outcome.ABSENT, "not in the store")
        return search

    def dwp_for(self, path: str | os.PathLike[str], build_id: str = "") -> Search:
        return Search("package of split units")

    def linked_object(self, elf: ObjectFile, entry: LinkedObject) -> Search:
        path = entry.path
        if "\0" not in path and self._is_added(os.path.realpath(path) if self._folders_named else path):
            return super().linked_object(elf, entry)
        search = Search(CompanionKind.LINKED_OBJECT)
        search.note(path, "debug map", Outcome.ABSENT, NOT_ADDED)
        return search

    def _is_added(self, path: str) -> bool:
        """Return True if a path is below a folder that was added."""
        return any(os.path.commonpath([path, folder]) == folder for folder in self._folders_named)

    def dwo(self, comp_dir: str, name: str, near: str | os.PathLike[str] = "") -> Search:
        search = Search("split unit")
        path = os.path.join(comp_dir, name)
        if "\0" in path:
            return search
        real = os.path.realpath(path) if self._folders_named else path
        if self._is_added(real):
            self._take(search, [(real, "added folder")], lambda _: "")
        else:
            search.note(path, "debug info", Outcome.ABSENT, NOT_ADDED)
        return search


def alt_in(store: StoreReader, stack: ExitStack) -> Callable[[str, str], Path | None]:
    """Return a function that finds dwz's shared files until `stack` is closed, and records missing ones."""

    def find(build_id: str, name: str) -> Path | None:
        path = stack.enter_context(store.file(build_id, DEBUGINFO))
        if path is None:
            store.missed(build_id, "dwz", name)
        return path

    return find


def make_archive(
    store: StoreReader,
    described: Meta,
    files: dict[str, Path],
    output: BinaryIO,
    folders: Iterable[str] = (),
    kind: str = ARCHIVE,
) -> MadeArchive:
    """Write an archive or symbol file of the files of a build-id; `folders` (real paths) may hold split units.

    Raises WhenceError if the files are too damaged, OSError.
    """
    main, debug = files.get(EXECUTABLE), files.get(DEBUGINFO)
    if main is None or is_better_alone(described):
        main, debug = debug, None
    assert main is not None
    with ExitStack() as stack, open_object(main) as elf:
        finder = Supplements(debug, alt_in(store, stack), folders)
        with Producers(elf, complete=finder.complete, options=ReadOptions(jobs=store.jobs)) as producers:
            return archive_of(producers, output, kind, described.name)


def archive_of(producers: Producers, output: BinaryIO, kind: str = ARCHIVE, name: str = "") -> MadeArchive:
    """Write an archive or symbol file of an open file, completed by Supplements. Raises WhenceError, OSError.

    `name` is the file's name, for Breakpad.
    """
    if kind in SYMBOLS:
        return MadeArchive(write_symbols(kind, producers, output, name=name).functions, False)
    created = archive_producers(producers, output)
    problems = created.problems
    note = f"{len(problems)} problems, the first: {problems[0]}" if problems else ""
    return MadeArchive(created.written.ranges, producers.alt_elf is not None, note)


def is_better_alone(described: Meta) -> bool:
    """Return True if the debug file has more debug info than the executable, which has some, too."""
    debug, program = described.files.get(DEBUGINFO), described.files.get(EXECUTABLE)
    if debug is None or program is None or not program.quality.units:
        return False
    return debug.quality.rank > program.quality.rank
