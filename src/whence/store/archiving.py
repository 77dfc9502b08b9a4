"""The archive of a build-id: its debug file and its executable as one table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from whence.elf import ElfFile
from whence.lidia.build import archive_producers
from whence.locate.debug_files import DebugFiles, same_id
from whence.locate.search import Outcome, Search
from whence.producers import Producers
from whence.records import Record
from whence.store.names import DEBUGINFO, EXECUTABLE, is_id

if TYPE_CHECKING:
    from whence.store.keeper import Keeper
    from whence.store.meta import Meta


class MadeArchive(Record, frozen=True):
    """How many ranges the archive has, whether dwz's shared file was there, and what of the files was skipped."""

    ranges: int
    alt_there: bool
    note: str = ""


class Supplements(DebugFiles):
    """The files that complete an executable of a store. Its debug file is given, dwz's shared file is the store's.

    Names in debug info lead nowhere: who uploads a file could have others of this machine read. Split units are looked
    for below the folders that were named when the file was put.
    """

    def __init__(self, store: Keeper, debug: Path | None, folders: Iterable[str], stack: ExitStack) -> None:
        super().__init__((), [] if debug is None else [debug])
        self._store, self._stack = store, stack
        self._folders_named = list(folders)
        self.alt_found = False

    def _linked(self, path: str, name: str) -> Iterator[tuple[str, str]]:
        return iter(())

    def alt_file(self, elf: ElfFile) -> Search:
        search = Search("supplementary file")
        link = elf.alt_link
        if link is None or not is_id(link.build_id):
            return search
        path = self._stack.enter_context(self._store.file(link.build_id, DEBUGINFO))
        if path is not None:
            self._take(search, [(str(path), "store")], lambda found: same_id(found, link.build_id))
            self.alt_found = bool(search)
        else:
            search.note("", "store", Outcome.ABSENT, "not there")
            self._store.missed(link.build_id, "dwz", link.name)
        return search

    def dwp_for(self, path: str | os.PathLike[str], build_id: str = "") -> Search:
        return Search("package of split units")

    def dwo(self, comp_dir: str, name: str, near: str | os.PathLike[str] = "") -> Search:
        search = Search("split unit")
        path = os.path.join(comp_dir, name)
        if "\0" in path:
            return search
        real = os.path.realpath(path)
        if any(os.path.commonpath([real, folder]) == folder for folder in self._folders_named):
            self._take(search, [(real, "below a named folder")], lambda _: "")
        else:
            search.note(path, "debug info", Outcome.ABSENT, "it lies below no folder that was named")
        return search


def make_archive(
    store: Keeper, known: Meta, files: dict[str, Path], output: BinaryIO, folders: Iterable[str] = ()
) -> MadeArchive:
    """Archive the files of a build-id; split units may lie below `folders` (real paths). Raises WhenceError
    when nothing can be made of them, OSError."""
    main, debug = files.get(EXECUTABLE), files.get(DEBUGINFO)
    if main is None or is_better_alone(known):
        main, debug = debug, None
    assert main is not None
    with ExitStack() as stack, ElfFile.open(main) as elf:
        finder = Supplements(store, debug, folders, stack)
        with Producers(elf, finder=finder, jobs=store.jobs) as producers:
            return archive_of(producers, output)


def archive_of(producers: Producers, output: BinaryIO) -> MadeArchive:
    """Archive what is open, completed by Supplements. Raises WhenceError when nothing can be made of it, OSError."""
    created = archive_producers(producers, output)
    problems, finder = created.problems, producers.finder
    note = f"{len(problems)} problems, the first: {problems[0]}" if problems else ""
    return MadeArchive(created.written.ranges, isinstance(finder, Supplements) and finder.alt_found, note)


def is_better_alone(known: Meta) -> bool:
    """Whether the debug file has more debug info than an executable that has some, too."""
    debug, program = known.files.get(DEBUGINFO), known.files.get(EXECUTABLE)
    if debug is None or program is None or not program.quality.units:
        return False
    return debug.quality.rank > program.quality.rank
