"""One call of `Store.add`: find the object files in files, folders and packages, and ingest each of them.

An archive is made once per build-id: at once if only one of the files has the build-id, else after all files were put.
Files are ingested on as many threads as there are cores; if they are many and the store is a folder, each thread has a
child process (ingest.py). The files that are read at the same time have at most LARGE_BYTES together.
"""

from __future__ import annotations

import io
import os
import socket
import stat
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from queue import SimpleQueue
from typing import TYPE_CHECKING, BinaryIO

from whence._base import cores
from whence._base.errors import ElfError, WhenceError, without_file
from whence._base.files import open_examined, open_regular
from whence.objects.opening import architectures, is_magic, open_object
from whence.procmap.build_id import read_build_id
from whence.store import packages
from whence.store.folder import Folder
from whence.store.ingest import Ingester, IngestOptions, IngestProcess, refused
from whence.store.outcomes import ADDED, REFUSED, Added
from whence.store.parca import SOURCES, ParcaObject, is_parca, parca_objects, source_files
from whence.store.places import SCHEME, objects_at
from whence.store.quality import build_id_of
from whence.store.sources import FILE_BYTES
from whence.store.writer import LARGE_BYTES

if TYPE_CHECKING:
    from _typeshed import SupportsRead

    from whence.store.ingest import IngestResult
    from whence.store.objects import Objects
    from whence.store.processes import ProcessFile
    from whence.store.writer import StoreWriter

HEAD = 512  # bytes that show a package
MANY = 48  # files for which starting processes pays
PROCESSES_PER_CORE = 2  # one works while another waits for the disk
PATIENCE_SECONDS = 0.5  # after Ctrl-C, before child processes are killed
AHEAD = 4  # files that wait for a thread, times the number of threads
REMOVED = "the upload was removed meanwhile"


class Intake:
    """One call of `Store.add`, whose arguments it has."""

    def __init__(
        self,
        store: StoreWriter,
        *,
        by_hash: bool,
        layouts: Iterable[str],
        sources: Iterable[str | os.PathLike[str]],
        report: Callable[[Added], None],
        wait: float,
    ) -> None:
        self.store = store
        self._options = IngestOptions(by_hash, tuple(layouts), tuple(os.fspath(folder) for folder in sources), (), wait)
        self._report = report
        self._outcomes: list[Added] = []
        self._sources: list[tuple[Objects, ParcaObject]] = []  # bundled when the debug info was put
        self._due: dict[str, int] = {}  # build-ids whose archive has to be made, and the size of their largest file
        self._lock = threading.Lock()
        self._threads = store.jobs or cores.available()
        self._memory = ByteSemaphore(LARGE_BYTES)
        self._ids: dict[str, str] = {}  # build-ids of ELF files, by path
        self._expected: Counter[str] = Counter()  # number of files by build-id
        self._idle: SimpleQueue[Ingester] = SimpleQueue()
        self._ingesters: Sequence[Ingester] = ()  # one for each thread

    def add(self, paths: Iterable[str | os.PathLike[str]], mapped: Iterable[ProcessFile] = ()) -> list[Added]:
        """Ingest all files; return the outcome of each object file. Raises OSError of the store."""
        named = [os.fspath(path) for path in paths]
        tasks = [task for path in named for task in self._tasks(path)]
        self._prepare(named)
        try:
            self._run(chain(tasks, (partial(self._ingest_mapped, file) for file in mapped)))
            due = sorted(self._due.items(), key=lambda item: -item[1])
            self._run(partial(self._finish, *item) for item in due)
            self._run(partial(self._bundle_upload, *item) for item in self._sources)
        finally:
            for ingester in self._ingesters:
                ingester.close()
        return self._outcomes

    def _prepare(self, named: Iterable[str]) -> None:
        """Make an ingester for each thread: child processes if there are many files."""
        folders = {path if os.path.isdir(path) else os.path.dirname(path) or "." for path in named}
        options = self._options
        real = tuple(sorted({os.path.realpath(folder) for folder in folders}))
        options = IngestOptions(options.by_hash, options.layouts, options.sources, real, options.wait)
        if (
            self._threads > 1 and len(self._ids) >= MANY and type(self.store.objects) is Folder and sys.executable
            and hasattr(socket, "send_fds")
        ):  # fmt: skip
            self._threads *= PROCESSES_PER_CORE
            self._ingesters = [IngestProcess(self.store, options) for _ in range(self._threads)]
        else:
            self._ingesters = [Ingester(self.store, options)] * self._threads
        for ingester in self._ingesters:
            self._idle.put(ingester)

    def _run(self, tasks: Iterable[Callable[[], None]]) -> None:
        """Run tasks on threads. After one has failed no other is started. Raises the first error."""
        pool = ThreadPoolExecutor(self._threads)
        slots = threading.BoundedSemaphore(self._threads * AHEAD)
        failed: list[BaseException] = []

        def run(task: Callable[[], None]) -> None:
            try:
                if not failed:
                    task()
            except BaseException as error:
                failed.append(error)
            finally:
                slots.release()

        try:
            for task in tasks:
                slots.acquire()
                if failed:
                    break
                pool.submit(run, task)
            pool.shutdown()
        except BaseException as error:  # Ctrl-C: the current files may be finished in a moment
            failed.append(error)
            timer = threading.Timer(PATIENCE_SECONDS, self._stop)
            timer.start()
            pool.shutdown()
            timer.cancel()
        if failed:
            raise failed[0]

    def _stop(self) -> None:
        for ingester in self._ingesters:
            ingester.stop()

    @contextmanager
    def _ingester(self, size: int) -> Iterator[Ingester]:
        """Open a block with an idle ingester, for a file of `size` bytes."""
        with self._memory.acquire(size):
            ingester = self._idle.get()
            try:
                yield ingester
            finally:
                self._idle.put(ingester)

    def _add_outcomes(self, *outcomes: Added) -> None:
        with self._lock:
            for outcome in outcomes:
                self._outcomes.append(outcome)
                self._report(outcome)

    def _refuse(self, origin: str, error: Exception) -> None:
        self._add_outcomes(refused(origin, error))

    # finding files

    def _tasks(self, path: str) -> Iterator[Callable[[], None]]:
        """Yield a task for each file below a path. A path that is itself not an object file is reported."""
        if SCHEME.match(path):
            yield from self._bucket_tasks(objects_at(path))
            return
        try:
            status = os.stat(path)
        except OSError as error:
            self._refuse(path, error)
            return
        if stat.S_ISDIR(status.st_mode) and is_parca(Folder(path)):
            yield from self._bucket_tasks(Folder(path))
            return
        if not stat.S_ISDIR(status.st_mode):
            self._count(path)
            yield lambda: self._file(path, named=True)
            return
        waiting = [path]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(folder) as unsorted:
                    entries = sorted(unsorted, key=lambda entry: entry.name)
            except OSError as error:
                self._refuse(folder, error)
                continue
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    self._count(entry.path)
                    yield lambda path=entry.path: self._file(path, named=False)  # type: ignore[misc]

    def _bucket_tasks(self, bucket: Objects) -> Iterator[Callable[[], None]]:
        """Yield a task for each upload in a bucket of Parca. Raises WrongUse, OSError."""
        uploads = list(parca_objects(bucket))
        if not uploads:
            self._add_outcomes(Added(bucket.url, REFUSED, "the bucket has no debuginfo/BUILD-ID/debuginfo of Parca"))
        for upload in uploads:
            if upload.fault:
                self._add_outcomes(Added(f"{bucket.url}/{upload.key}", REFUSED, upload.fault, upload.build_id))
            elif upload.kind == SOURCES:
                self._sources.append((bucket, upload))
            else:
                yield partial(self._ingest_upload, bucket, upload)

    def _ingest_upload(self, bucket: Objects, upload: ParcaObject) -> None:
        """Ingest an object file of a bucket of Parca, if it has the build-id that it was uploaded for."""
        origin = f"{bucket.url}/{upload.key}"
        with self._fetched(bucket, upload) as file:
            if file is None:
                return
            build_id = ""
            with suppress(WhenceError):  # reported by the scan
                build_id = build_id_of(file.name)
            if build_id not in ("", upload.build_id):
                why = f"the file has build-id {build_id}, but {upload.build_id} was uploaded"
                self._add_outcomes(Added(origin, REFUSED, why, upload.build_id))
                return
            try:
                self._receive(file, origin)
            except WhenceError as error:
                self._refuse(origin, error)

    def _bundle_upload(self, bucket: Objects, upload: ParcaObject) -> None:
        """Bundle the source files that were uploaded for a build-id, as far as its debug info names them."""
        origin = f"{bucket.url}/{upload.key}"
        with self._fetched(bucket, upload) as file:
            if file is None:
                return
            stored = os.fstat(file.fileno()).st_size
            try:
                bundled = self.store.bundle_sources(
                    upload.build_id, lambda paths: source_files(file, stored, paths, FILE_BYTES)
                )
            except WhenceError as error:
                self._add_outcomes(Added(origin, REFUSED, without_file(error), upload.build_id))
                return
        if bundled is None or not bundled.files:
            why = "no debug info in the store names its files"
            self._add_outcomes(Added(origin, REFUSED, why, upload.build_id))
            return
        why = f"{bundled.files} of {bundled.named} source files that the debug info names"
        self._add_outcomes(Added(origin, ADDED, why, upload.build_id, SOURCES, bundled.size))

    @contextmanager
    def _fetched(self, bucket: Objects, upload: ParcaObject) -> Iterator[BinaryIO | None]:
        """Open a block with an object of a bucket as a file with a name, at its start; None if it cannot be read.

        That is an outcome of its own. Raises OSError of the store, or if the bucket cannot be reached.
        """
        with tempfile.NamedTemporaryFile(dir=self.store.objects.spool()) as file:
            try:
                why = "" if bucket.fetch(upload.key, file) is not None else REMOVED  # type: ignore[arg-type]
            except PermissionError as error:
                why = str(error.strerror)
            if why:
                self._add_outcomes(Added(f"{bucket.url}/{upload.key}", REFUSED, why, upload.build_id))
                yield None
                return
            file.flush()
            file.seek(0)
            yield file  # type: ignore[misc]

    def _count(self, path: str) -> None:
        """Count the files of each build-id: the archive of a single file is made at once."""
        with suppress(WhenceError, OSError):
            self._ids[path] = build_id = read_build_id(path)
            self._expected[build_id] += 1

    def _file(self, path: str, *, named: bool) -> None:
        """Ingest an object file, or the object files in a package."""
        try:
            descriptor = open_examined(path)
            with open(descriptor, "rb") as file:
                head = file.read(HEAD)
                size = os.fstat(descriptor).st_size
                if is_magic(head[:4]):
                    self._object(path, size)
                    return
                kind = packages.kind_of(path, head)
                if kind is None:
                    if named:
                        fault = "neither an object file nor a package of object files" if size else "the file is empty"
                        self._add_outcomes(Added(path, REFUSED, fault))
                    return
                file.seek(0)
                for member in packages.members(kind, file, path):
                    self._ingest_member(member)
        except (WhenceError, OSError) as error:
            if isinstance(error, OSError) and error.filename != path:
                raise  # of the store
            self._refuse(path, error)

    def _object(self, path: str, size: int) -> None:
        """Ingest an object file, a fat file as one file for each architecture."""
        names = architectures(path)
        if not names:
            self._ingest(path, size)
        for name in names:
            with open_object(f"{path}:{name}") as slice_of_file:
                self._receive(io.BytesIO(slice_of_file.data), f"{path}:{name}")

    def _ingest_member(self, member: packages.PackageMember) -> None:
        try:
            self._receive(member, member.origin)
        except WhenceError as error:
            self._refuse(member.origin, error)
            if member.spent:
                raise

    def _ingest_mapped(self, mapped: ProcessFile) -> None:
        """Ingest a file that a process has mapped."""
        try:
            if mapped.missing:
                self._add_outcomes(Added(mapped.origin, REFUSED, mapped.missing, mapped.build_id))
            elif mapped.content:
                self._receive(io.BytesIO(mapped.content), mapped.origin)
            else:
                with open_regular(mapped.path, ElfError) as (_, size):
                    self._ingest(mapped.path, size, mapped.origin, mapped.build_id)
        except (WhenceError, OSError) as error:
            if isinstance(error, OSError) and error.filename != mapped.path:
                raise  # of the store
            self._refuse(mapped.origin, error)

    def _ingest(self, path: str, size: int, origin: str = "", expected: str = "") -> None:
        build_id = self._ids.get(path)
        alone = build_id is not None and self._expected[build_id] == 1
        with self._ingester(size) as ingester:
            result = ingester.ingest(path, origin or path, build_id, expected, alone)
        self._add_result(result, size)

    def _add_result(self, result: IngestResult, size: int) -> None:
        self._add_outcomes(*result.outcomes)
        if result.due:
            with self._lock:
                self._due[result.due] = max(size, self._due.get(result.due, 0))

    def _receive(self, stream: SupportsRead[bytes], origin: str) -> None:
        """Ingest a stream."""
        with self.store.receive(stream, origin) as received:
            with self._ingester(received.size) as ingester:
                result = ingester.ingest_received(received, False)
            self._add_result(result, received.size)

    def _finish(self, build_id: str, size: int) -> None:
        with self._ingester(size) as ingester:
            self._add_outcomes(*ingester.finish(build_id).outcomes)


class ByteSemaphore:
    """Limits the sum of the sizes of the files that are read at the same time; a larger file is read alone."""

    def __init__(self, limit: int) -> None:
        self._limit, self._acquired = limit, 0
        self._released = threading.Condition()

    @contextmanager
    def acquire(self, size: int) -> Iterator[None]:
        """Open a block in which `size` bytes are read; wait until they fit."""
        size = min(size, self._limit)
        with self._released:
            while self._acquired + size > self._limit:
                self._released.wait()
            self._acquired += size
        try:
            yield
        finally:
            with self._released:
                self._acquired -= size
                self._released.notify_all()
