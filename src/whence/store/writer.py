"""The writing half of a store: receive files, keep the better one of each kind, and archive them.

A file is written in these steps, each of which happens entirely or not at all. A writer that is killed between two of
them leaves a store that answers, and the next writer of the build-id completes the work:

    1. received into a temporary file, hashed, scanned (quality.scan)
    2. locks/ID: the lease, which excludes other writers of this build-id
    3. buildid/ID/debuginfo, executable: replaced if the new file is better
    4. buildid/ID/lidia.gz: the archive of the files that exist now; gsym.gz, sym.gz on request
    5. debugid/DEBUGID, codeid/CODEID, copies in the layouts of other programs
    6. buildid/ID/meta.json: the description of the files
    7. index/log/NAME.json, and the lease is released
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from whence import lidia
from whence._base.closing import Closing
from whence._base.errors import Mismatch, WhenceError, WrongUse, without_file
from whence.objects.ids import DebugId
from whence.store import names
from whence.store.index import IndexRow
from whence.store.layouts import copies_for, kind_of_copy
from whence.store.leases import Busy, Lease
from whence.store.meta import GZIP, PLAIN, HeldFile, Meta
from whence.store.names import (
    ARCHIVE,
    DEBUGINFO,
    ELF_KINDS,
    EXECUTABLE,
    KINDS,
    SYMBOLS,
    checked_id,
    file_key,
    is_id,
    meta_key,
)
from whence.store.outcomes import BUSY, KEPT, OUTCOMES, Added, Decisions, Outcomes, Received, decide
from whence.store.packing import PAYS_BELOW, pack, pack_archive
from whence.store.parser import FileParser, ParseSession
from whence.store.quality import CHUNK, hash_of
from whence.store.reader import StoreReader
from whence.store.sources import below, bundle, named_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import SupportsRead

    from whence.locate.search import FileKind
    from whence.store.objects import Objects
    from whence.store.quality import ScanResult
    from whence.store.sources import Bundled

WAIT_SECONDS = 120.0
LARGE_BYTES = 256 << 20  # larger files are parsed by several threads


class SpoolFile(Closing):
    """A file that is being received into the store's folder, hashed as it is written. Closing it removes it."""

    def __init__(self, folder: str | None, origin: str, limit: int = 0) -> None:
        descriptor, name = tempfile.mkstemp(dir=folder)
        self._file = open(descriptor, "wb")  # noqa: SIM115 - closed by `received` or `close`
        self._path, self._origin, self._limit = Path(name), origin, limit
        self._digest, self._size = hashlib.sha256(), 0

    def write(self, chunk: bytes) -> None:
        """Append bytes. Raises WrongUse beyond the limit, OSError."""
        self._size += len(chunk)
        if self._limit and self._size > self._limit:
            raise WrongUse(f"more than the {self._limit} bytes allowed").in_file(self._origin)
        self._digest.update(chunk)
        self._file.write(chunk)

    def received(self) -> Received:
        """Return the complete file. Raises OSError."""
        self._file.close()
        return Received(self._path, self._size, self._digest.hexdigest(), self._origin, True)

    def close(self) -> None:
        """Remove the file, unless it was moved into the store."""
        self._file.close()
        self._path.unlink(missing_ok=True)


class StoreWriter(StoreReader):
    """Writes to a store, too. The arguments are those of Store."""

    def __init__(
        self,
        location: str | os.PathLike[str] | Objects,
        *,
        jobs: int | None = None,
        compress: bool = False,
        parser: FileParser | None = None,
        also: Iterable[str] = (),
    ) -> None:
        super().__init__(location, jobs=jobs)
        self.compress = compress
        self.also = symbol_kinds(also)
        self.parser = parser or FileParser()
        self._marked = False

    def put(
        self,
        build_id: str,
        kind: str,
        file: SupportsRead[bytes],
        *,
        origin: str = "",
        limit: int = 0,
        wait: float = 0.0,
    ) -> Added:
        """Put one file, such as the body of an upload, and return its outcome.

        Args:
            build_id: The expected build-id; "" for any.
            kind: "debuginfo" or "executable" if the file has to be one; "" for either or both.
            file: A stream.
            origin: What messages call the file.
            limit: The most bytes that are accepted; 0 for any number.
            wait: How long to wait for another writer of the build-id, in seconds; after that the outcome is "busy".

        Raises:
            WrongUse: The file is larger than `limit`, or the store is read-only.
            Mismatch: The file has another build-id or kind.
            ObjectError: The file is damaged, cut off or not an object file.
            OSError: The store failed.
        """
        if build_id:
            checked_id(build_id)
        with self.receive(file, origin or "upload", limit) as received:
            return self.put_received(build_id, kind, received, wait=wait)

    def put_received(self, build_id: str, kind: str, received: Received, *, wait: float = 0.0) -> Added:
        """Put a file that was received (`spool`), as `put`."""
        origin = received.origin.removesuffix(": ")
        with self.parser.session(self, self.jobs_for(received.size)) as session:
            result = session.scan(received.path)
            if build_id and result.build_id != build_id:
                carried = f"the file has build-id {result.build_id}" if result.build_id else "the file has no build-id"
                raise Mismatch(f"{carried}, expected {build_id}").in_file(origin).with_hint("check the file and the ID")
            if kind and kind not in result.kinds:
                raise Mismatch(f"the file is {' and '.join(result.kinds)}, expected {kind}").in_file(origin)
            if not result.build_id:
                raise Mismatch("the file has no build-id").in_file(origin).with_hint("link it with -Wl,--build-id")
            if received.origin != origin:
                received = received.with_origin(f"{received.origin}{result.name}")
            outcomes = self.take(received, result, result.build_id, session, wait=wait)
            matching = [outcome for outcome in outcomes if not kind or outcome.kind == kind]
            return min(matching, key=lambda outcome: OUTCOMES.index(outcome.outcome))

    def jobs_for(self, size: int) -> int | None:
        """Return the number of threads for a file of `size` bytes."""
        return 1 if size < LARGE_BYTES else self.jobs

    def spool(self, origin: str, limit: int = 0) -> SpoolFile:
        """Return a new file to receive into. Raises WrongUse if the store is read-only, OSError."""
        return SpoolFile(self._spool_folder(), origin, limit)

    @contextmanager
    def receive(self, file: SupportsRead[bytes], origin: str, limit: int = 0) -> Iterator[Received]:
        """Open a block with a stream as a file, hashed. Raises WrongUse, OSError."""
        with self.spool(origin, limit) as spooled:
            while chunk := file.read(CHUNK):
                spooled.write(chunk)
            yield spooled.received()

    def _spool_folder(self) -> str | None:
        self._check_writable()
        return self.objects.spool()

    def _check_writable(self) -> None:
        if self.objects.read_only:
            raise WrongUse(f"{self.url} is read-only")

    def take(
        self,
        received: Received,
        result: ScanResult,
        build_id: str,
        session: ParseSession,
        *,
        wait: float = WAIT_SECONDS,
        archive: bool = True,
    ) -> Outcomes:
        """Keep a scanned file where it is better than the existing one; return the outcome for each of its kinds.

        With `archive` false the archive is left as it is, for callers that put several files and then call `finish`.
        `session` has scanned the file. Raises OSError.
        """
        self._check_writable()

        def outcome(kind: FileKind, outcome: str, why: str) -> Added:
            return Added(received.origin, outcome, why, build_id, kind, received.size)

        new = HeldFile(received.size, received.sha256, result.quality, int(time.time()), received.origin)
        before = self._described(build_id)
        if before is not None and (not archive or self._is_finished(before)):
            decisions = {kind: decide(before.files.get(kind), new) for kind in result.kinds}
            if not any(word in KEPT for word, _ in decisions.values()) and not self.is_left(build_id):
                return [outcome(kind, *decision) for kind, decision in decisions.items()]
        try:
            with Lease(self.objects, build_id, wait) as lease:
                final = self._keep(lease, received, result, new, session, archive=archive)
                return [outcome(kind, *decision) for kind, decision in final]
        except Busy as busy:
            return [outcome(kind, BUSY, busy.message) for kind in result.kinds]

    def finish(
        self,
        build_id: str,
        *,
        layouts: Iterable[str] = (),
        folders: Iterable[str] = (),
        wait: float = WAIT_SECONDS,
    ) -> Meta | None:
        """Make the archive of a build-id if it is missing or outdated, and complete the work of a killed writer.

        Args:
            build_id: The build-id.
            layouts: Layouts of other programs in which copies are kept.
            folders: Folders that may hold split units (real paths).
            wait: How long to wait for another writer, in seconds.

        Returns:
            The description of the build-id; None if the store has no file of it.

        Raises:
            Busy: Another writer did not end in time.
            OSError: The store failed.
        """
        copies = set(copies_for(layouts, checked_id(build_id)))
        described = self._described(build_id)
        done = described is not None and self._is_finished(described) and copies <= {*described.copies}
        if done and not self.is_left(build_id):
            return described
        with Lease(self.objects, build_id, wait) as lease:
            described = self._state(lease)
            if described.files:
                new = copies - {*described.copies}
                described.copies = (*described.copies, *sorted(new))
                described.also = self._also(described)
                with self.parser.session(self, self.jobs, folders) as session:
                    if not self._archive(lease, described, session):
                        self._copy(lease, described, new)
                self._commit(lease, described)
                return described
            self._remove_all(lease)
            return None

    def _copy(self, lease: Lease, described: Meta, keys: Iterable[str]) -> None:
        """Write copies of the files that exist now, and delete those of missing files."""
        for key in keys:
            kind = kind_of_copy(key, described.build_id)
            lease.check()
            if kind in described.files and not described.files[kind].packing:
                self.objects.copy(file_key(described.build_id, kind), key)
            elif kind in described.files:
                with self.file(described.build_id, kind) as path:
                    if path is not None:
                        self.objects.put(key, path)
            elif kind:
                self.objects.delete(key)

    def is_left(self, build_id: str) -> bool:
        """Return True if a writer is changing a build-id, or was killed while it did."""
        return self.objects.head(names.lock_key(build_id)) is not None

    def is_due(self, build_id: str) -> bool:
        """Return True if dwz's shared file was added after the archive of a build-id was made."""
        described = self._described(build_id)
        return described is not None and bool(described.made_of) and not self._is_finished(described)

    def _described(self, build_id: str) -> Meta | None:
        """Return the content of meta.json, if the files have the sizes that it states."""
        described = self._read_meta(build_id)
        if described is None:
            return None
        for kind in KINDS:
            entry = described.files.get(kind)
            status = self.objects.head(file_key(build_id, kind, entry is not None and entry.packing != PLAIN))
            if (entry is None) != (status is None):
                return None
            if entry is not None and status is not None and status.size != (entry.stored or entry.size):
                return None
        return described

    def _state(self, lease: Lease) -> Meta:
        """Return the description of the existing files; they are scanned if it is missing or a writer was killed."""
        described = self._described(lease.build_id)
        if described is not None and not lease.taken_over:
            return described
        before = described or Meta(lease.build_id)
        state = Meta(lease.build_id, revision=before.revision, name=before.name, copies=before.copies)
        state.by_hash, state.also = before.by_hash, before.also
        lease.keep()
        for kind in ELF_KINDS:
            with self.file(lease.build_id, kind) as path:
                if path is not None:
                    self._rescan(state, kind, path, before.files.get(kind))
        return state

    def _rescan(self, state: Meta, kind: FileKind, path: Path, before: HeldFile | None) -> None:
        """Add a file to a description, unless it is damaged or has another build-id or kind."""
        with open(path, "rb") as file:
            digest = hash_of(file)
        if before is not None and before.sha256 == digest:
            state.files[kind] = before
            return
        try:
            with self.parser.session(self) as session:
                result = session.scan(path)
        except WhenceError:
            return
        if kind in result.kinds and result.build_id in (state.build_id, ""):
            status = path.stat()
            state.files[kind] = HeldFile(
                status.st_size, digest, result.quality, int(status.st_mtime), "found in the store"
            )
            describe(state, result)

    def _keep(
        self,
        lease: Lease,
        received: Received,
        result: ScanResult,
        new: HeldFile,
        session: ParseSession,
        *,
        archive: bool,
    ) -> Decisions:
        state = self._state(lease)
        decisions = [(kind, decide(state.files.get(kind), new)) for kind in result.kinds]
        kinds = [kind for kind, (outcome, _) in decisions if outcome in KEPT]
        self._mark()
        if kinds:
            lease.keep()
            describe(state, result)
            if EXECUTABLE in kinds or not state.name:  # a debug file is often named by its build-id
                state.name = os.path.basename(received.origin.rpartition(": ")[2])
            state.by_hash = not result.build_id
        with self._packed(received.path) if kinds and self.compress else nullcontext() as smaller:
            path, entry = received.path, new
            if smaller is not None:
                path, entry = smaller, new.packed(smaller.stat().st_size)
            first = ""
            for kind in kinds:
                lease.check()
                key = file_key(lease.build_id, kind, packed=bool(entry.packing))
                if first:
                    self.objects.copy(first, key)
                else:
                    self.objects.put(key, path, move=received.movable)
                first = first or key
                state.files[kind] = entry
                self.objects.delete(file_key(lease.build_id, kind, packed=not entry.packing))
        if archive:
            alone = {entry.sha256 for kind, entry in state.files.items() if kind in ELF_KINDS} == {new.sha256}
            state.also = self._also(state)
            self._archive(lease, state, session, scanned=alone)
        self._commit(lease, state)
        return decisions

    @contextmanager
    def _packed(self, path: Path) -> Iterator[Path | None]:
        """Open a block with a compressed copy of a file; None if compression does not pay."""
        with self._temporary() as (out, target):
            with open(path, "rb") as source, target:
                size = pack(source, target)
            yield out if size < PAYS_BELOW * path.stat().st_size else None

    @contextmanager
    def _temporary(self) -> Iterator[tuple[Path, BinaryIO]]:
        """Open a block with a new file, which is removed afterwards if it still exists."""
        descriptor, name = tempfile.mkstemp(dir=self._spool_folder())
        try:
            with open(descriptor, "w+b") as file:
                yield Path(name), file
        finally:
            Path(name).unlink(missing_ok=True)

    def _is_finished(self, described: Meta) -> bool:
        """Return True if the archive was made of the existing files."""
        if described.made_of != hashes_of(described) or self._also(described) != described.also:
            return False
        if not described.alt or described.alt_there:
            return True
        return self.objects.head(file_key(described.alt, DEBUGINFO)) is None

    def _also(self, described: Meta) -> tuple[str, ...]:
        """Return the kinds of symbol files that a build-id has or should have."""
        return symbol_kinds((*described.also, *self.also))

    def _archive(self, lease: Lease, state: Meta, session: ParseSession, *, scanned: bool = False) -> bool:
        """Make the archive and all copies unless they exist; return True if they had to be made.

        `scanned`: all files are the file that `session` scanned.
        """
        has_symbols = {*state.also} <= {*state.files} or bool(state.note)
        if self._is_finished(state) and (state.archive is not None or state.note) and has_symbols:
            return False
        lease.keep()
        with self._temporary() as (out, file):
            archive = None
            try:
                archive = session.archive(state, file, scanned=scanned)
                state.note = archive.note
            except WhenceError as error:
                state.note = without_file(error)
            file.flush()
            file.seek(0)
            digest = hash_of(file)
            lease.check()
            if archive is not None and archive.ranges:
                stored = self._put_packed(state.build_id, ARCHIVE, out)
                entry = HeldFile(out.stat().st_size, digest, added=int(time.time()))
                state.files[ARCHIVE] = entry.packed(stored, GZIP)
            else:
                state.files.pop(ARCHIVE, None)
                self.objects.delete(file_key(state.build_id, ARCHIVE, packed=True))
                state.note = state.note or "no code has names"
            self.objects.delete(file_key(state.build_id, ARCHIVE))  # of an earlier version
            state.alt_there = archive is not None and archive.alt_there
            state.made_of = hashes_of(state)
        for kind in SYMBOLS:
            self._symbols(lease, state, session, kind, scanned=scanned)
        self._copy(lease, state, state.copies)
        return True

    def _symbols(self, lease: Lease, state: Meta, session: ParseSession, kind: FileKind, *, scanned: bool) -> None:
        """Make a symbol file if it is requested and there is an archive; else remove it."""
        state.files.pop(kind, None)
        if kind in state.also and state.archive is not None:
            lease.keep()
            with self._temporary() as (out, file):
                try:
                    session.archive(state, file, scanned=scanned, kind=kind)
                except WhenceError as error:
                    state.note = state.note or f"{kind}: {without_file(error)}"
                else:
                    file.flush()
                    file.seek(0)
                    entry = HeldFile(out.stat().st_size, hash_of(file), added=int(time.time()))
                    lease.check()
                    state.files[kind] = entry.packed(self._put_packed(state.build_id, kind, out), GZIP)
        if kind not in state.files:
            self.objects.delete(file_key(state.build_id, kind, packed=True))

    def _put_packed(self, build_id: str, kind: str, path: Path) -> int:
        """Store an archive or symbol file compressed; return its compressed size in bytes."""
        with self._temporary() as (out, target):
            with open(path, "rb") as source, target:
                pack_archive(source, target)
            size = out.stat().st_size
            self.objects.put(file_key(build_id, kind, packed=True), out, move=True)
            return size

    def _commit(self, lease: Lease, state: Meta) -> None:
        """Publish the description of the files."""
        lease.check()
        if state.debug_id:
            self.objects.create(names.debug_id_key(state.debug_id), state.build_id.encode())
        if state.code_id:
            self.objects.create(names.code_id_key(state.code_id), state.build_id.encode())
        state.revision = state.next_revision()
        self.objects.put(meta_key(state.build_id), state.to_bytes())
        self.index.write([IndexRow.of(state)])
        self.objects.delete(names.wanted_key(state.build_id))

    def _mark(self) -> None:
        """Create the marker of a store, once."""
        if not self._marked:
            self.objects.create(names.MARKER, b'{"version": 1}\n')
            self._marked, self._foreign = True, False

    def remove(self, build_id: str, *, wait: float = WAIT_SECONDS) -> int:
        """Remove all files of a build-id, and return the number of bytes that this frees.

        Raises:
            Busy: Another writer did not end within `wait` seconds.
            WrongUse: The build-id is malformed, or the store is read-only.
            OSError: The store failed.
        """
        self._check_writable()
        with Lease(self.objects, checked_id(build_id), wait) as lease:
            return self._remove_all(lease)

    def _remove_all(self, lease: Lease) -> int:
        """Remove all files of a build-id, meta.json last; return the number of bytes that this frees."""
        build_id = lease.build_id
        described = self._read_meta(build_id)
        stats = list(self.objects.list(names.folder_key(build_id)))
        if not stats and not lease.taken_over:
            return 0
        lease.check()
        for key in described.copies if described is not None else ():
            if kind_of_copy(key, build_id):
                self.objects.delete(key)
        if described is not None and names.DEBUG_ID.fullmatch(described.debug_id):
            self.objects.delete(names.debug_id_key(described.debug_id))
        if described is not None and names.CODE_ID.fullmatch(described.code_id):
            self.objects.delete(names.code_id_key(described.code_id))
        self.objects.delete(names.sources_key(build_id))
        self.objects.delete(names.used_key(build_id))
        self._used.pop(build_id, None)
        for status in sorted(stats, key=lambda status: status.key.endswith("/meta.json")):
            self.objects.delete(status.key)
        revision = described.next_revision() if described is not None else time.time_ns()
        self.index.write([IndexRow.removed(build_id, revision)])
        return sum(status.size for status in stats)

    def put_sources(self, build_id: str, folders: Iterable[str | os.PathLike[str]]) -> Bundled | None:
        """Bundle the source files below `folders` that the archive of a build-id names.

        A bundle replaces a smaller one. Returns None without an archive. Raises WhenceError, OSError.
        """
        return self.bundle_sources(build_id, lambda paths: below(paths, folders))

    def bundle_sources(self, build_id: str, read: Callable[[list[str]], Iterable[tuple[str, bytes]]]) -> Bundled | None:
        """Bundle the source files that `read` returns for the paths in the archive of a build-id.

        A bundle replaces a smaller one. Returns None without an archive. Raises WhenceError, OSError.
        """
        self._check_writable()
        folder = tempfile.TemporaryDirectory(dir=self._spool_folder())
        with self.file(build_id, ARCHIVE) as path, folder as name:
            if path is None:
                return None
            with lidia.open(path) as table:
                paths = named_files(table)
            out = Path(name) / "sources"
            with open(out, "wb") as file:
                bundled = bundle(read(paths), len(paths), file)
            old = self.objects.head(names.sources_key(build_id))
            if bundled.files and (old is None or old.size < out.stat().st_size):
                self.objects.put(names.sources_key(build_id), out)
            return bundled


def symbol_kinds(words: Iterable[str]) -> tuple[str, ...]:
    """Return kinds of symbol files, each once and in a fixed order. Raises WrongUse for another word."""
    given = {*map(str, words)}
    unknown = given - {*map(str, SYMBOLS)}
    if unknown:
        raise WrongUse(f"a kind of symbol file is {' or '.join(SYMBOLS)}, not {min(unknown)[:80]!r}")
    return tuple(kind for kind in SYMBOLS if kind in given)


def describe(state: Meta, result: ScanResult) -> None:
    """Add the result of a scan to the description of a build-id."""
    state.machine = result.machine
    state.debug_id = result.debug_id or DebugId.of_build_id(state.build_id).breakpad
    state.code_id = result.code_id or state.code_id
    if result.alt:
        state.alt = result.alt if is_id(result.alt) else ""


def hashes_of(described: Meta) -> tuple[str, ...]:
    """Return the hashes of the object files, as `Meta.made_of` has them."""
    files = described.files
    return tuple(files[kind].sha256 if kind in files else "" for kind in (DEBUGINFO, EXECUTABLE))
