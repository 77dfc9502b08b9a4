"""The archive of a build-id: its debug file and its executable as one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from whence.elf import ElfFile
from whence.lidia.build import archive_producers
from whence.locate.debug_files import DebugFiles
from whence.producers import Producers
from whence.records import Record
from whence.store.names import DEBUGINFO, EXECUTABLE, is_id

if TYPE_CHECKING:
    from contextlib import ExitStack

    from whence.store.meta import Meta
    from whence.store.store import Store


class Made(Record, frozen=True):
    """How many ranges the archive has, whether dwz's shared file was there, and what of the files was skipped."""

    ranges: int
    alt_there: bool
    note: str = ""


class _Supplements:
    """The store as a server of dwz's shared files: all that archives ask it for."""

    def __init__(self, store: Store, stack: ExitStack) -> None:
        self._store, self._stack = store, stack
        self.found = False

    def fetch(self, build_id: str, kind: str = "debuginfo", path: str = "") -> Path | None:
        if not is_id(build_id):
            return None
        found = self._stack.enter_context(self._store.file(build_id, kind))
        self.found = self.found or found is not None
        return found


def make_archive(store: Store, known: Meta, files: dict[str, Path], output: BinaryIO) -> Made:
    """Archive the files of a build-id. Raises WhenceError when nothing can be made of them, OSError."""
    from contextlib import ExitStack

    main, debug = files.get(EXECUTABLE), files.get(DEBUGINFO)
    if main is None or is_better_alone(known):
        main, debug = debug, None
    assert main is not None
    with ExitStack() as stack, ElfFile.open(main) as elf:
        supplements = _Supplements(store, stack)
        finder = DebugFiles((), [] if debug is None else [debug], debuginfod=supplements)
        with Producers(elf, finder=finder, jobs=store.jobs) as producers:
            created = archive_producers(producers, output)
        problems = created.problems
        note = f"{len(problems)} problems, the first: {problems[0]}" if problems else ""
        return Made(created.written.ranges, bool(known.alt) and supplements.found, note)


def is_better_alone(known: Meta) -> bool:
    """Whether the debug file has more debug info than an executable that has some, too."""
    debug, program = known.files.get(DEBUGINFO), known.files.get(EXECUTABLE)
    if debug is None or program is None or not program.quality.units:
        return False
    return debug.quality.rank > program.quality.rank
