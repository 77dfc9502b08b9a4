"""Ingestion of object files into a store, in this process or in child processes.

An `Ingester` puts files into a store. An `IngestProcess` has a child process do it, because threads of one Python
process slow one another down. The child gets the store and the options in its first message, then requests:

    {"method": "ingest", "arguments": [PATH, ORIGIN, BUILD_ID | null, EXPECTED, ALONE]}
    {"method": "ingest_received", "arguments": [[PATH, SIZE, SHA256, ORIGIN, MOVABLE], ALONE]}
    {"method": "finish", "arguments": [BUILD_ID]}

It replies {"outcomes": [[...], ...], "due": BUILD_ID}, or {"failed": [ERRNO, TEXT, FILE]} for an OSError of the store.
If it dies, the file is refused, the store is left as by any killed writer (leases.py), and the next request starts
another child. Children are started, not forked: a fork of a process with threads may deadlock.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence._base.child import Child, ending, parent, receive, send
from whence._base.errors import Mismatch, WhenceError, without_file
from whence._base.files import open_examined
from whence._base.records import Record, values_of
from whence.locate.search import FileKind
from whence.store.leases import Busy
from whence.store.outcomes import BUSY, REFUSED, SAME, Added, Outcomes, Received
from whence.store.quality import build_id_of, hash_of
from whence.store.writer import StoreWriter

if TYPE_CHECKING:
    import socket

CODE = "import sys; sys.path[:] = sys.argv[1:]; from whence.store.ingest import main; main()"
LONGEST = 1 << 30  # bytes of a reply
PATIENCE_SECONDS = 60.0  # for a child that has no more work


class IngestOptions(Record, frozen=True):
    """The options of one call of `Store.add`. `folders` are the folders that its paths name, as real paths."""

    by_hash: bool
    layouts: tuple[str, ...]
    sources: tuple[str, ...]
    folders: tuple[str, ...]
    wait: float


class IngestResult(Record, frozen=True):
    """The outcomes of a file, and the build-id whose archive has to be made ("" for none)."""

    outcomes: Outcomes
    due: str = ""


class IngestStopped(BaseException):
    """The call was stopped while a file was ingested."""


class Ingester:
    """Puts object files into a store. Safe from several threads."""

    def __init__(self, store: StoreWriter, options: IngestOptions) -> None:
        self.store, self.options = store, options

    def ingest(self, path: str, origin: str, build_id: str | None, expected: str, alone: bool) -> IngestResult:
        """Put a file, unless the store has the same bytes.

        Args:
            path: The file.
            origin: What messages call the file.
            build_id: Its build-id; None if it was not read yet.
            expected: The build-id that it must have; "" for any.
            alone: No other file of this build-id follows, so that the archive is made at once.

        Raises:
            OSError: The store failed. A file that can't be read is refused instead.
        """
        try:
            if build_id is None:
                build_id = build_id_of(path)
            if expected and build_id != expected:
                carried = f"the file has build-id {build_id}" if build_id else "the file has no build-id"
                raise Mismatch(f"{carried}, but {expected} was mapped").in_file(path)
            same = self._find_same(build_id, path, origin) if build_id else None
            if same is not None:
                return same
            descriptor = open_examined(path)
            with open(descriptor, "rb") as file, self.store.receive(file, origin) as received:
                return self.ingest_received(received, alone)
        except (WhenceError, OSError) as error:
            if isinstance(error, OSError) and error.filename != path:
                raise  # of the store
            return IngestResult([refused(origin, error)])

    def _find_same(self, build_id: str, path: str, origin: str) -> IngestResult | None:
        described = self.store.find(build_id)
        if described is None:
            return None
        descriptor = open_examined(path)
        with open(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            candidates = {kind: entry for kind, entry in described.files.items() if entry.size == size}
            digest = hash_of(file) if candidates else ""
        why = "the store has the same bytes"
        outcomes = [
            Added(origin, SAME, why, build_id, kind, size)
            for kind, entry in candidates.items()
            if entry.sha256 == digest
        ]
        return IngestResult(outcomes, build_id) if outcomes else None

    def ingest_received(self, received: Received, alone: bool) -> IngestResult:
        """Put a file that was received. Raises OSError of the store."""
        jobs = self.store.jobs_for(received.size)
        with self.store.parser.session(self.store, jobs, self.options.folders) as session:
            try:
                result = session.scan(received.path)
            except WhenceError as error:
                error.path = received.origin
                return IngestResult([refused(received.origin, error)])
            options = self.options
            build_id = result.build_id or (received.sha256 if options.by_hash else "")
            if not build_id:
                why = "the file has no build-id (--by-hash keeps it under its SHA-256)"
                return IngestResult([Added(received.origin, REFUSED, why)])
            alone = alone and not (options.layouts or options.sources)
            outcomes = self.store.take(received, result, build_id, session, wait=options.wait, archive=alone)
            is_due = not alone and any(outcome.outcome != BUSY for outcome in outcomes)
            return IngestResult(outcomes, build_id if is_due else "")

    def finish(self, build_id: str) -> IngestResult:
        """Make the archive of a build-id whose files were put, its copies and its bundle of sources. Raises OSError."""
        options = self.options
        with suppress(Busy):
            self.store.finish(build_id, layouts=options.layouts, folders=options.folders, wait=options.wait)
            if options.sources:
                self.store.put_sources(build_id, options.sources)
        return IngestResult([])

    def stop(self) -> None:
        """Abandon the current file, if it is in another process."""

    def close(self) -> None:
        """End the child process, if there is one."""


class IngestProcess(Ingester):
    """Puts object files into a store in a folder, in a child process. For one thread at a time, except `stop`."""

    def __init__(self, store: StoreWriter, options: IngestOptions) -> None:
        super().__init__(store, options)
        self._child: Child | None = None
        self._stopped = False
        self._lock = threading.Lock()  # entry to start or end the child

    def ingest(self, path: str, origin: str, build_id: str | None, expected: str, alone: bool) -> IngestResult:
        """Put a file, as `Ingester.ingest`. Raises IngestStopped."""
        return self._ask("ingest", [path, origin, build_id, expected, alone], origin)

    def ingest_received(self, received: Received, alone: bool) -> IngestResult:
        """Put a file that was received. Raises OSError of the store, IngestStopped."""
        path, *rest = values_of(received)
        return self._ask("ingest_received", [[str(path), *rest], alone], received.origin)

    def finish(self, build_id: str) -> IngestResult:
        """Make the archive of a build-id, as `Ingester.finish`. Raises IngestStopped."""
        return self._ask("finish", [build_id], "archive", build_id)

    def _ask(self, method: str, arguments: list[Any], origin: str, build_id: str = "") -> IngestResult:
        child = self._started()
        try:
            reply = child.ask({"method": method, "arguments": arguments}, limit=LONGEST)
        except OSError:
            return IngestResult([Added(origin, REFUSED, self._ended(child), build_id)])
        if "failed" in reply:
            raise OSError(*reply["failed"])
        return IngestResult([_added(*values) for values in reply["outcomes"]], reply["due"])

    def _started(self) -> Child:
        with self._lock:
            if self._stopped:
                raise IngestStopped
            if self._child is None:
                self._child = Child.spawn([sys.executable, "-c", CODE, *sys.path])
                store = [self.store.url, self.store.jobs, self.store.compress, list(self.store.also)]
                with suppress(OSError):  # the request fails, too
                    send(self._child.line, {"store": store, "options": values_of(self.options)})
            return self._child

    def _ended(self, child: Child) -> str:
        """Return how a child ended. Raises IngestStopped if `stop` ended it."""
        with self._lock:
            if self._stopped:
                raise IngestStopped
            self._child = None
        return f"the process that read the file ended with {ending(child.reap(PATIENCE_SECONDS))}"

    def stop(self) -> None:
        """Kill the child; the pending request raises IngestStopped."""
        with self._lock:
            self._stopped = True
            if self._child is not None:
                self._child.kill()

    def close(self) -> None:
        """End the child, which has no more work."""
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.reap(PATIENCE_SECONDS)


def _added(origin: str, outcome: str, why: str, build_id: str, kind: str, size: int) -> Added:
    return Added(origin, outcome, why, build_id, FileKind(kind) if kind else "", size)


def refused(origin: str, error: Exception) -> Added:
    """Return the outcome of a file that can't be read."""
    why = without_file(error) if isinstance(error, WhenceError) else getattr(error, "strerror", "") or str(error)
    return Added(origin, REFUSED, why)


# in the child


def main() -> None:
    """Answer the requests of an IngestProcess until it closes the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets Ctrl-C, too
    line = parent()
    with suppress(ConnectionError):
        message, _ = receive(line, LONGEST)
        root, jobs, compress, also = message["store"]
        by_hash, layouts, sources, folders, wait = message["options"]
        options = IngestOptions(by_hash, tuple(layouts), tuple(sources), tuple(folders), wait)
        with StoreWriter(root, jobs=jobs, compress=compress, also=also) as store:
            serve(Ingester(store, options), line)


def serve(ingester: Ingester, line: socket.socket) -> None:
    """Answer requests. Raises ConnectionError when the parent closes the socket."""
    while True:
        request, _ = receive(line, LONGEST)
        arguments = request["arguments"]
        if request["method"] == "ingest_received":
            (path, *rest), alone = arguments
            arguments = [Received(Path(path), *rest), alone]
        try:
            result = getattr(ingester, request["method"])(*arguments)
        except OSError as error:
            send(line, {"failed": [error.errno, error.strerror or str(error), error.filename]})
        else:
            send(line, {"outcomes": [values_of(outcome) for outcome in result.outcomes], "due": result.due})
