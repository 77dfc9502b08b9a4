"""What people put into a store: files, folders with all below them, packages. Each ELF file is looked at by itself.

An archive is made once, of all that was given: at once where only one of the files has its build-id, else when all
files were taken. Both on as many threads as there are cores; files that are large wait until less
than LARGE_BYTES are being read, so that memory is bounded by the largest.
"""

from __future__ import annotations

import io
import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from whence import cores
from whence.elf import ElfFile
from whence.errors import ElfError, Mismatch, WhenceError, without_file
from whence.files import open_looked_at, open_regular
from whence.store import packages
from whence.store.archiving import Supplements, alt_in
from whence.store.leases import Busy
from whence.store.outcomes import BUSY, REFUSED, SAME, Added, Received
from whence.store.quality import hash_of, looking

if TYPE_CHECKING:
    from whence.producers import Producers
    from whence.store.keeper import Keeper
    from whence.store.processes import Mapped
    from whence.store.quality import Looked

ELF_MAGIC = b"\x7fELF"
HEAD = 512  # bytes that tell a package
LARGE_BYTES = 256 << 20
AHEAD = 4  # files that wait for a thread, times the number of threads


class Intake:
    """One call of `Store.add`."""

    def __init__(
        self,
        store: Keeper,
        *,
        by_hash: bool,
        layouts: Iterable[str],
        sources: Iterable[str | os.PathLike[str]],
        report: Callable[[Added], None],
        wait: float,
    ) -> None:
        self.store, self.by_hash, self.wait = store, by_hash, wait
        self.layouts, self.sources = list(layouts), list(sources)
        self._report = report
        self._done: list[Added] = []
        self._touched: dict[str, int] = {}  # build-ids whose archive may be due, and the size of their largest file
        self._lock = threading.Lock()
        self._threads = store.jobs or cores.available()
        self._room = Room(LARGE_BYTES)
        self._folders: list[str] = []  # those that the paths name
        self._ids: dict[str, str] = {}  # of ELF files, by path
        self._expected: Counter[str] = Counter()  # how many of them have each build-id

    def add(self, paths: Iterable[str | os.PathLike[str]], mapped: Iterable[Mapped] = ()) -> list[Added]:
        """Take all that the paths name; returns what became of each ELF file."""
        named = [os.fspath(path) for path in paths]
        folders = {path if os.path.isdir(path) else os.path.dirname(path) or "." for path in named}
        self._folders = sorted({os.path.realpath(folder) for folder in folders})
        with ThreadPoolExecutor(self._threads) as pool:
            slots = threading.BoundedSemaphore(self._threads * AHEAD)
            failed: list[BaseException] = []

            def start(work: Callable[[], None]) -> None:
                slots.acquire()
                if failed:
                    slots.release()
                    raise failed[0]

                def run() -> None:
                    try:
                        work()
                    except BaseException as error:
                        failed.append(error)
                    finally:
                        slots.release()

                pool.submit(run)

            works = [work for path in named for work in self._works(path)]
            for work in works:
                start(work)
            for one in mapped:
                start(lambda one=one: self._mapped(one))  # type: ignore[misc]
            for _ in range(self._threads * AHEAD):  # all that was started has ended
                slots.acquire()
            for _ in range(self._threads * AHEAD):
                slots.release()
            for build_id, size in sorted(self._touched.items(), key=lambda one: -one[1]):
                start(lambda build_id=build_id, size=size: self._finish(build_id, size))  # type: ignore[misc]
        if failed:
            raise failed[0]
        return self._done

    def _said(self, one: Added) -> None:
        with self._lock:
            self._done.append(one)
            self._report(one)

    def _refused(self, origin: str, error: Exception) -> None:
        why = without_file(error) if isinstance(error, WhenceError) else getattr(error, "strerror", "") or str(error)
        self._said(Added(origin, REFUSED, why))

    # finding files

    def _works(self, path: str) -> Iterator[Callable[[], None]]:
        """Something to do for each file below a path. What was named itself and is no ELF file is reported."""
        try:
            status = os.stat(path)
        except OSError as error:
            self._refused(path, error)
            return
        if not stat.S_ISDIR(status.st_mode):
            self._count(path)
            yield lambda: self._file(path, named=True)
            return
        waiting = [path]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(folder) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                self._refused(folder, error)
                continue
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    self._count(entry.path)
                    yield lambda path=entry.path: self._file(path, named=False)  # type: ignore[misc]

    def _count(self, path: str) -> None:
        """Count the files of each build-id, so that an archive is made at once where no other file comes."""
        with suppress(WhenceError, OSError), ElfFile.open(path) as elf:
            self._ids[path] = elf.build_id
            self._expected[elf.build_id] += 1

    def _file(self, path: str, *, named: bool) -> None:
        """Take a file: an ELF file, or the ELF files in a package."""
        try:
            descriptor = open_looked_at(path)
            with open(descriptor, "rb") as file:
                head = file.read(HEAD)
                size = os.fstat(descriptor).st_size
                if head[:4] == ELF_MAGIC:
                    with self._room.taken(size):
                        self._elf(path, size)
                    return
                kind = packages.kind_of(path, head)
                if kind is None:
                    if named:
                        self._said(Added(path, REFUSED, "neither an ELF file nor a package of them"))
                    return
                file.seek(0)
                for member in packages.members(kind, file, path):
                    self._member(member)
        except (WhenceError, OSError) as error:
            if isinstance(error, OSError) and error.filename != path:
                raise  # the store's own
            self._refused(path, error)

    def _member(self, member: packages.Member) -> None:
        try:
            with self.store.receive(member, member.origin) as received, self._room.taken(received.size):
                self._take(received)
        except WhenceError as error:
            self._refused(member.origin, error)
            if member.spent:
                raise

    def _mapped(self, one: Mapped) -> None:
        """Take a file that a process has mapped."""
        try:
            if one.missing:
                self._said(Added(one.origin, REFUSED, one.missing, one.build_id))
            elif one.content:
                with self.store.receive(io.BytesIO(one.content), one.origin) as received:
                    self._take(received)
            else:
                with open_regular(one.path, ElfError) as (_, size), self._room.taken(size):
                    self._elf(one.path, size, one.origin, one.build_id)
        except (WhenceError, OSError) as error:
            if isinstance(error, OSError) and error.filename != one.path:
                raise  # the store's own
            self._refused(one.origin, error)

    def _elf(self, path: str, size: int, origin: str = "", wanted: str = "") -> None:
        """Take a file that lies there. It is copied first unless its very bytes are in the store already."""
        origin = origin or path
        if path in self._ids:
            build_id = self._ids[path]
        else:
            with ElfFile.open(path) as elf:
                build_id = elf.build_id
        if wanted and build_id != wanted:
            raise Mismatch(f"its build-id is {build_id or 'missing'}, and {wanted} was mapped").in_file(path)
        if build_id and self._is_there(build_id, path, size, origin):
            return
        descriptor = open_looked_at(path)
        with open(descriptor, "rb") as file, self.store.receive(file, origin) as received:
            self._take(received, alone=self._expected[build_id] == 1)

    def _is_there(self, build_id: str, path: str, size: int, origin: str) -> bool:
        known = self.store.find(build_id)
        same = [kind for kind, held in known.files.items() if held.size == size] if known is not None else []
        if known is None or not same:
            return False
        descriptor = open_looked_at(path)
        with open(descriptor, "rb") as file:
            digest = hash_of(file)
        kinds = [kind for kind in same if known.files[kind].sha256 == digest]
        for kind in kinds:
            self._said(Added(origin, SAME, "the same bytes are there", build_id, kind, size))
        if kinds:
            self._touch(build_id, size)
        return bool(kinds)

    def _touch(self, build_id: str, size: int) -> None:
        with self._lock:
            self._touched[build_id] = max(size, self._touched.get(build_id, 0))

    def _take(self, received: Received, alone: bool = False) -> None:
        """Take a file that was received; one that comes `alone` has its archive made at once."""
        with ExitStack() as stack:
            finder = Supplements(None, alt_in(self.store, stack), self._folders)
            try:
                opened = looking(received.path, finder, 1 if received.size < LARGE_BYTES else self.store.jobs)
                looked, producers = stack.enter_context(opened)
            except WhenceError as error:
                error.path = received.origin
                self._refused(received.origin, error)
                return
            self._take_looked_at(received, looked, producers, alone)

    def _take_looked_at(self, received: Received, looked: Looked, producers: Producers, alone: bool) -> None:
        build_id = looked.build_id or (received.sha256 if self.by_hash else "")
        if not build_id:
            self._said(Added(received.origin, REFUSED, "it has no build-id (--by-hash keeps it under its SHA-256)"))
            return
        alone = alone and not (self.layouts or self.sources)
        done = self.store.take(
            received, looked, build_id, wait=self.wait, archive=alone, folders=self._folders, producers=producers
        )
        for one in done:
            self._said(one)
            if one.outcome != BUSY and not alone:
                self._touch(build_id, received.size)

    def _finish(self, build_id: str, size: int) -> None:
        with self._room.taken(size), suppress(Busy):
            self.store.finish(build_id, layouts=self.layouts, folders=self._folders, wait=self.wait)
            if self.sources:
                self.store.put_sources(build_id, self.sources)


class Room:
    """So many bytes of files may be read at once; one that is larger is read alone."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        size = min(size, self._most)
        with self._changed:
            while self._held + size > self._most:
                self._changed.wait()
            self._held += size
        try:
            yield
        finally:
            with self._changed:
                self._held -= size
                self._changed.notify_all()
