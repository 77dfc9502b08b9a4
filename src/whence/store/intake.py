"""What people put into a store: files, folders with all below them, packages. Each ELF file is looked at by itself.

An archive is made once, of all that was given: at once where only one of the files has its build-id, else when all
files were taken (taking.py). Both on as many threads as there are cores; where the files are many and the store is a
folder, each thread has a process do it (workers.py). Files that are large wait until less than LARGE_BYTES are being
read, so that memory is bounded by the largest.
"""

from __future__ import annotations

import io
import os
import stat
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from queue import SimpleQueue
from typing import TYPE_CHECKING

from whence._base import cores
from whence._base.errors import ElfError, WhenceError
from whence._base.files import open_looked_at, open_regular
from whence.objects.elf.layout import MAGIC as ELF_MAGIC
from whence.procmap.build_id import read_build_id
from whence.store import packages
from whence.store.folder import Folder
from whence.store.outcomes import REFUSED, Added
from whence.store.taking import LARGE_BYTES, Taker, Terms, refused
from whence.store.workers import Worker

if TYPE_CHECKING:
    from whence.store.keeper import Keeper, Readable
    from whence.store.processes import Mapped
    from whence.store.taking import Taken, Takes

HEAD = 512  # bytes that show a package
MANY = 48  # ELF files, from which on starting processes pays
PROCESSES_A_CORE = 2  # one works while another waits for the disk to have what was written
PATIENCE_SECONDS = 0.5  # after Ctrl-C, before processes are killed
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
        self.store = store
        self._given = by_hash, tuple(layouts), tuple(os.fspath(one) for one in sources), wait
        self._report = report
        self._done: list[Added] = []
        self._touched: dict[str, int] = {}  # build-ids whose archive may be due, and the size of their largest file
        self._lock = threading.Lock()
        self._threads = store.jobs or cores.available()
        self._room = Room(LARGE_BYTES)
        self._ids: dict[str, str] = {}  # of ELF files, by path
        self._expected: Counter[str] = Counter()  # how many of them have each build-id
        self._takers: SimpleQueue[Takes] = SimpleQueue()  # one for each thread
        self._workers: list[Worker] = []  # those that are processes

    def add(self, paths: Iterable[str | os.PathLike[str]], mapped: Iterable[Mapped] = ()) -> list[Added]:
        """Take all that the paths name; returns what became of each ELF file."""
        named = [os.fspath(path) for path in paths]
        works = [work for path in named for work in self._works(path)]
        self._prepare(named)
        try:
            self._do(chain(works, (partial(self._mapped, one) for one in mapped)))
            due = sorted(self._touched.items(), key=lambda one: -one[1])
            self._do(partial(self._finish, *one) for one in due)
        finally:
            for worker in self._workers:
                worker.close()
        return self._done

    def _prepare(self, named: Iterable[str]) -> None:
        """Let there be what takes files, for each thread: processes, where the files are many."""
        folders = {path if os.path.isdir(path) else os.path.dirname(path) or "." for path in named}
        by_hash, layouts, sources, wait = self._given
        terms = Terms(by_hash, layouts, sources, tuple(sorted({os.path.realpath(one) for one in folders})), wait)
        place = self.store.objects
        if self._threads > 1 and len(self._ids) >= MANY and type(place) is Folder and sys.executable:
            root, store = str(place.root), self.store
            self._threads *= PROCESSES_A_CORE
            self._workers = [
                Worker(root, jobs=store.jobs, compress=store.compress, terms=terms) for _ in range(self._threads)
            ]
        takers: Sequence[Takes] = self._workers or [Taker(self.store, terms)] * self._threads
        for taker in takers:
            self._takers.put(taker)

    def _do(self, works: Iterable[Callable[[], None]]) -> None:
        """Do all on so many threads. After one has failed no other is begun. Raises what it raised."""
        pool = ThreadPoolExecutor(self._threads)
        slots = threading.BoundedSemaphore(self._threads * AHEAD)
        failed: list[BaseException] = []

        def run(work: Callable[[], None]) -> None:
            try:
                if not failed:
                    work()
            except BaseException as error:
                failed.append(error)
            finally:
                slots.release()

        try:
            for work in works:
                slots.acquire()
                if failed:
                    break
                pool.submit(run, work)
            pool.shutdown()
        except BaseException as error:  # Ctrl-C: files that are being taken may be done in a moment
            failed.append(error)
            timer = threading.Timer(PATIENCE_SECONDS, self._stop)
            timer.start()
            pool.shutdown()
            timer.cancel()
        if failed:
            raise failed[0]

    def _stop(self) -> None:
        for worker in self._workers:
            worker.stop()

    @contextmanager
    def _taker(self) -> Iterator[Takes]:
        """What takes a file now."""
        taker = self._takers.get()
        try:
            yield taker
        finally:
            self._takers.put(taker)

    def _said(self, *outcomes: Added) -> None:
        with self._lock:
            for one in outcomes:
                self._done.append(one)
                self._report(one)

    def _refused(self, origin: str, error: Exception) -> None:
        self._said(refused(origin, error))

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
        with suppress(WhenceError, OSError):
            self._ids[path] = build_id = read_build_id(path)
            self._expected[build_id] += 1

    def _file(self, path: str, *, named: bool) -> None:
        """Take a file: an ELF file, or the ELF files in a package."""
        try:
            descriptor = open_looked_at(path)
            with open(descriptor, "rb") as file:
                head = file.read(HEAD)
                size = os.fstat(descriptor).st_size
                if head[:4] == ELF_MAGIC:
                    self._elf(path, size)
                    return
                kind = packages.kind_of(path, head)
                if kind is None:
                    if named:
                        fault = "neither an ELF file nor a package of them" if size else "the file is empty"
                        self._said(Added(path, REFUSED, fault))
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
            self._receive(member, member.origin)
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
                self._receive(io.BytesIO(one.content), one.origin)
            else:
                with open_regular(one.path, ElfError) as (_, size):
                    self._elf(one.path, size, one.origin, one.build_id)
        except (WhenceError, OSError) as error:
            if isinstance(error, OSError) and error.filename != one.path:
                raise  # the store's own
            self._refused(one.origin, error)

    def _elf(self, path: str, size: int, origin: str = "", wanted: str = "") -> None:
        """Take a file that lies there."""
        build_id = self._ids.get(path)
        alone = build_id is not None and self._expected[build_id] == 1
        with self._room.taken(size), self._taker() as taker:
            taken = taker.file(path, origin or path, build_id, wanted, alone)
        self._taken(taken, size)

    def _taken(self, taken: Taken, size: int) -> None:
        self._said(*taken.outcomes)
        if taken.due:
            with self._lock:
                self._touched[taken.due] = max(size, self._touched.get(taken.due, 0))

    def _receive(self, stream: Readable, origin: str) -> None:
        """Take a file that comes as a stream."""
        with self.store.receive(stream, origin) as received:
            with self._room.taken(received.size), self._taker() as taker:
                taken = taker.received(received, False)
            self._taken(taken, received.size)

    def _finish(self, build_id: str, size: int) -> None:
        with self._room.taken(size), self._taker() as taker:
            self._said(*taker.finish(build_id))


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
