"""The archive of a build-id: its debug file and its executable as one table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from whence._base.options import ReadOptions
from whence.archive.create import archive_producers
from whence.locate.debug_files import DebugFiles, same_id
from whence.locate.search import Outcome, Search
from whence.objects.elf import ElfFile
from whence.producers import Producers
from whence.store.names import DEBUGINFO, EXECUTABLE, is_id
from whence.store.outcomes import MadeArchive

if TYPE_CHECKING:
    from whence.store.meta import Meta
    from whence.store.reader import StoreReader


class Supplements(DebugFiles):
    """The files that complete an executable of a store. Its debug file is given; `alt` tells where dwz's shared file of
    a build-id and a name lies, None where it is not there.

    Names in debug info lead nowhere: who uploads a file could have others of this machine read. Split units are looked
    for below the folders that were named when the file was put.
    """

    def __init__(
        self,
        debug: Path | str | None = None,
        alt: Callable[[str, str], Path | str | None] = lambda build_id, name: None,
        folders: Iterable[str] = (),
        open_elf: Callable[[str], ElfFile] = ElfFile.open,
    ) -> None:
        super().__init__((), [] if debug is None else [debug], open_elf=open_elf)
        self._alt = alt
        self._folders_named = list(folders)

    def _linked(self, path: str, name: str) -> Iterator[tuple[str, str]]:
        return iter(())

    def alt_file(self, elf: ElfFile) -> Search:
        search = Search("supplementary file")
        link = elf.alt_link
        if link is None or not is_id(link.build_id):
            return search
        path = self._alt(link.build_id, link.name)
        if path is not None:
            self._take(search, [(str(path), "store")], lambda found: same_id(found, link.build_id))
        else:
            search.note("", "store", Outcome.ABSENT, "not there")
        return search

    def dwp_for(self, path: str | os.PathLike[str], build_id: str = "") -> Search:
        return Search("package of split units")

    def dwo(self, comp_dir: str, name: str, near: str | os.PathLike[str] = "") -> Search:
        search = Search("split unit")
        path = os.path.join(comp_dir, name)
        if "\0" in path:
            return search
        real = os.path.realpath(path) if self._folders_named else path
        if any(os.path.commonpath([real, folder]) == folder for folder in self._folders_named):
            self._take(search, [(real, "below a named folder")], lambda _: "")
        else:
            search.note(path, "debug info", Outcome.ABSENT, "it lies below no folder that was named")
        return search


def alt_in(store: StoreReader, stack: ExitStack) -> Callable[[str, str], Path | None]:
    """Where dwz's shared files lie in a store, until the stack is closed; one that is not there is noted as wanted."""

    def find(build_id: str, name: str) -> Path | None:
        path = stack.enter_context(store.file(build_id, DEBUGINFO))
        if path is None:
            store.missed(build_id, "dwz", name)
        return path

    return find


def make_archive(
    store: StoreReader,
    known: Meta,
    files: dict[str, Path],
    output: BinaryIO,
    folders: Iterable[str] = (),
) -> MadeArchive:
    """Archive the files of a build-id; split units may lie below `folders`
    (real paths). Raises WhenceError when nothing can be made of them, OSError."""
    main, debug = files.get(EXECUTABLE), files.get(DEBUGINFO)
    if main is None or is_better_alone(known):
        main, debug = debug, None
    assert main is not None
    with ExitStack() as stack, ElfFile.open(main) as elf:
        finder = Supplements(debug, alt_in(store, stack), folders)
        with Producers(elf, complete=finder.complete, options=ReadOptions(jobs=store.jobs)) as producers:
            return archive_of(producers, output)


def archive_of(producers: Producers, output: BinaryIO) -> MadeArchive:
    """Archive what is open, completed by Supplements. Raises WhenceError when nothing can be made of it, OSError."""
    created = archive_producers(producers, output)
    problems = created.problems
    note = f"{len(problems)} problems, the first: {problems[0]}" if problems else ""
    return MadeArchive(created.written.ranges, producers.alt_elf is not None, note)


def is_better_alone(known: Meta) -> bool:
    """Whether the debug file has more debug info than an executable that has some, too."""
    debug, program = known.files.get(DEBUGINFO), known.files.get(EXECUTABLE)
    if debug is None or program is None or not program.quality.units:
        return False
    return debug.quality.rank > program.quality.rank
