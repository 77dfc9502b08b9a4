"""The store: of every build-id the best debug file, the best executable and the archive of both.

A file is written in these steps, each whole or not at all, so that a writer that is killed between any two leaves a
store that answers, and the next writer of the build-id ends what it began:

    1. received into a file of its own, hashed, parsed (quality.look)
    2. locks/ID: the lease; no other writer of this build-id goes on
    3. buildid/ID/debuginfo, executable: where the new one is better
    4. buildid/ID/lidia.gz: the archive, made of what is there now
    5. debugid/DEBUGID, copies in layouts of others
    6. buildid/ID/meta.json: what the files are
    7. index/log/NAME.json, and the lease is given back
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from zipfile import BadZipFile

from whence import lidia
from whence._base.closing import Closing
from whence._base.errors import Mismatch, WhenceError, WrongUse, without_file
from whence.binary import open_archive
from whence.locate.cache import Cache
from whence.locator.locator import Locator
from whence.store import meta, names
from whence.store.archiving import archive_of, make_archive
from whence.store.fetching import Fetched
from whence.store.folder import Folder
from whence.store.index import Index, IndexRow
from whence.store.intake import Intake
from whence.store.layouts import copies_for, foreign_keys, kind_of_copy
from whence.store.leases import Busy, Lease
from whence.store.meta import GZIP, PLAIN, HeldFile, Meta
from whence.store.names import ARCHIVE, DEBUGINFO, ELF_KINDS, EXECUTABLE, KINDS, checked_id, file_key, is_id, meta_key
from whence.store.outcomes import BUSY, KEPT, OUTCOMES, Added, Decisions, Outcomes, Paths, Received, decide
from whence.store.packing import PAYS_BELOW, pack, pack_archive, unpack_object
from whence.store.places import objects_at
from whence.store.quality import CHUNK, hash_of, look
from whence.store.source import StoreSource
from whence.store.sources import bundle, named_files, read
from whence.store.wanted import NoteCount, mark_used, note, questions

if TYPE_CHECKING:
    from whence.binary import Binary
    from whence.locate.cache import Cache
    from whence.locate.search import FileKind
    from whence.producers import Producers
    from whence.store.keeper import Parser, Readable
    from whence.store.leases import Lease as HeldLease
    from whence.store.objects import Objects, Stat
    from whence.store.processes import Mapped
    from whence.store.quality import Looked
    from whence.store.source import StoreSource
    from whence.store.sources import Bundled
    from whence.store.wanted import MissedId


WAIT_SECONDS = 120.0
USED_SECONDS, USED_REMEMBERED = 3600.0, 100_000  # so long, and so many, are not marked as used again


class Store(Closing):
    """A store in a folder or a bucket. A context manager; safe from several threads, and with other processes' stores.

    `place` is a folder, an address (s3://, gs://, az://, memory://, http://, https://) or Objects. Nothing is written
    before something is put. `cache` is for what is fetched from a bucket, a Cache or its folder (without one:
    temporary files). `jobs` is the number of threads (None: one a core). With `compress` ELF files are stored packed by
    zstd where that pays; they are handed out unpacked, but no longer by a mere web server. `parser` parses what
    is put by `put`, and makes its archive (None: this process does).
    """

    def __init__(
        self,
        place: str | os.PathLike[str] | Objects,
        *,
        cache: Cache | str | os.PathLike[str] | None = None,
        jobs: int | None = None,
        compress: bool = False,
        parser: Parser | None = None,
    ) -> None:
        self.objects: Objects = objects_at(place)
        self.url = self.objects.url
        self.jobs, self.compress = jobs, compress
        self.index = Index(self.objects)
        self._marked = False
        self._note_count = NoteCount()
        self._foreign: bool | None = None
        self._cache = cache
        self._used: dict[str, float] = {}  # when build-ids were marked as used, by the monotonic clock
        self._parser = parser

    def __repr__(self) -> str:
        return f"<whence.Store {self.url}>"

    def close(self) -> None:
        """Close connections. The store stays usable."""
        self.objects.close()

    # asking

    def find(self, build_id: str) -> Meta | None:
        """What is known of a build-id; None when nothing of it is there. Raises OSError, WrongUse."""
        found = self.objects.read(meta_key(build_id), meta.LONGEST)
        known = meta.read(found[0], build_id) if found is not None else None
        if known is not None and known.files:
            return known
        return self._unknown(build_id) if self._is_foreign() else None

    def _unknown(self, build_id: str) -> Meta | None:
        """The same of files that nobody described: put there by hand, or by other programs."""
        there = {kind: self.status(build_id, kind) for kind in KINDS}
        files = {str(kind): HeldFile(one.size, "", added=int(one.modified)) for kind, one in there.items() if one}
        return Meta(build_id, files) if files else None

    def list(self) -> list[IndexRow]:
        """A row for each build-id, in order. Costs a read of the index."""
        return self.index.rows()

    def open(self, build_id: str, *, demangle: bool | Callable[[str], str] = False) -> Binary:
        """What names the addresses of a build-id: the archive, else the ELF files. Raises FileNotFoundError,
        WhenceError, OSError."""
        with self._archive_to_open(build_id) as path:
            if path is not None:
                self.used(build_id)
                return open_archive(path, demangle=demangle)
        with Locator(dirs=(), local=False, sources=[self.source()]) as locator:
            return locator.open(build_id=checked_id(build_id), demangle=demangle)

    @contextmanager
    def _archive_to_open(self, build_id: str) -> Iterator[Path | None]:
        """The archive of a build-id, decompressed: in the cache, if there is one; None when it is not there."""
        path = self.objects.path(file_key(build_id, ARCHIVE))
        if path is None and self._cache is not None:
            cache = self._cache if isinstance(self._cache, Cache) else Cache(self._cache)
            path = Fetched(self, cache, fresh_seconds=0).path(build_id, ARCHIVE)
        if path is not None:
            yield path
            return
        with self.file(build_id, ARCHIVE) as path:
            yield path

    @contextmanager
    def file(self, build_id: str, kind: str) -> Iterator[Path | None]:
        """A file of a build-id, unpacked, to read in the block; None when it is not there."""
        path = self.objects.path(file_key(build_id, kind))
        if path is not None:
            yield path
            return
        status = self.status(build_id, kind)
        if status is None:
            yield None
            return
        path = self.objects.path(status.key)
        if path is not None and not names.is_packed(status.key):
            yield path
            return
        with tempfile.TemporaryDirectory(prefix="whence-") as folder:
            out = Path(folder) / kind
            with open(out, "wb") as file:
                if names.is_packed(status.key):
                    with self._raw(status.key) as source:
                        unpack_object(status.key, source, file, status.size)
                elif self.objects.fetch(status.key, file) is None:
                    raise FileNotFoundError(2, f"{status.key} was removed meanwhile")
            yield out

    def fetch(self, build_id: str, kind: str, file: BinaryIO) -> None:
        """Write a file of a build-id, unpacked, into another. Raises FileNotFoundError, OSError."""
        status = self.status(build_id, kind)
        if status is not None and not names.is_packed(status.key):
            if self.objects.fetch(status.key, file) is None:
                raise FileNotFoundError(2, f"{status.key} was removed meanwhile")
            return
        with self.file(build_id, kind) as path:
            if path is None:
                raise FileNotFoundError(2, f"there is no {file_key(build_id, kind)}")
            with open(path, "rb") as source:
                shutil.copyfileobj(source, file, CHUNK)

    def status(self, build_id: str, kind: str) -> Stat | None:
        """What is known of a file's object, wherever it lies; None when it is not there."""
        usual = kind == ARCHIVE  # archives are compressed, but those of earlier versions are not
        found = self.objects.head(file_key(build_id, kind, packed=usual))
        if found is None:
            found = self.objects.head(file_key(build_id, kind, packed=not usual))
        if found is None and self._is_foreign():
            keys = foreign_keys(build_id, kind)
            found = next((status for key in keys if (status := self.objects.head(key)) is not None), None)
        return found

    def _is_foreign(self) -> bool:
        """Whether nothing says that this is a store of ours: then files may lie as others lay them."""
        if self._foreign is None:
            self._foreign = self.objects.head(names.MARKER) is None
        return self._foreign

    @contextmanager
    def _raw(self, key: str) -> Iterator[BinaryIO]:
        """An object's bytes as a file. Raises FileNotFoundError."""
        path = self.objects.path(key)
        with ExitStack() as stack:
            if path is not None:
                yield stack.enter_context(open(path, "rb"))
                return
            file = stack.enter_context(tempfile.TemporaryFile())
            if self.objects.fetch(key, file) is None:
                raise FileNotFoundError(2, f"there is no {key}")
            file.seek(0)
            yield file

    def open_bytes(self, build_id: str, kind: str, *, gzipped: bool = False) -> Content | None:
        """A file of a build-id to be sent: size, date, tag, and any range of its bytes; None when it is not there.

        With `gzipped`, an archive that is stored compressed is sent as it is stored: `Content.encoding` is "gzip".
        """
        status = self.status(build_id, kind)
        if status is None:
            return None
        if not names.is_packed(status.key):
            return Content(self.objects, status)
        if gzipped and status.key.endswith(names.GZIPPED):
            return Content(self.objects, status, encoding="gzip")
        stack = ExitStack()
        path = stack.enter_context(self.file(build_id, kind))
        if path is None:
            stack.close()
            return None
        return Content.of_file(path, stack, status)

    def source(
        self,
        who: str = "",
        *,
        cache: Cache | str | os.PathLike[str] | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> StoreSource:
        """The store as a source of a Locator. `who` asks: it is written down with what was not found. Files of a bucket
        are kept in `cache`, a Cache or its folder (default: the store's). `say` is called once, with a line, when the
        store can't be asked."""
        return StoreSource(self, who, self._cache if cache is None else cache, say)

    def wanted(self) -> Iterable[MissedId]:
        """Build-ids that were asked for and are not there, those asked for most first."""
        return questions(self.objects)

    def missed(self, build_id: str, who: str, path: str = "", times: int = 1) -> None:
        """Write down that a question had no answer here, so many times. Never raises OSError: it is a note."""
        with suppress(OSError):
            note(self.objects, build_id, who, path, times, count=self._note_count)

    def used(self, build_id: str) -> None:
        """Write down that a build-id answered now, once a day."""
        now = time.monotonic()
        if now - self._used.get(build_id, -USED_SECONDS) < USED_SECONDS:
            return
        if len(self._used) >= USED_REMEMBERED:
            self._used.clear()
        self._used[build_id] = now
        with suppress(OSError):
            mark_used(self.objects, build_id)

    # putting

    def add(
        self,
        *paths: str | os.PathLike[str],
        by_hash: bool = False,
        mapped: Iterable[Mapped] = (),
        layouts: Iterable[str] = (),
        source_folders: Iterable[str | os.PathLike[str]] = (),
        report: Callable[[Added], None] = lambda one: None,
        wait: float = WAIT_SECONDS,
    ) -> Outcomes:
        """Put files, folders (with all below them) and packages (.deb, .tar, .zip); returns what became of each ELF
        file. `report` is called with each as it is done.

        With `by_hash` a file without a build-id is kept under its SHA-256. `mapped` are files of processes
        (whence.store.processes), `layouts` further copies to keep ("gdb", "pyroscope/TENANT"). With `source_folders`
        the source files below these folders that the debug info names are put, too, as a bundle. What can't be read is
        an Added, too (REFUSED). Raises OSError where the store itself fails.
        """
        self._must_be_writable()
        intake = Intake(self, by_hash=by_hash, layouts=layouts, sources=source_folders, report=report, wait=wait)
        try:
            return intake.add(paths, mapped)
        except OSError as error:
            if error.errno is not None and error.filename is None:
                error.filename = self.url  # write(2) names no file
            raise

    def put(
        self, build_id: str, kind: str, file: Readable, *, origin: str = "", limit: int = 0, wait: float = 0.0
    ) -> Added:
        """Put one file as it comes, for instance the body of an upload.

        It must be whole, carry the build-id (any where that is "") and hold what `kind` says ("": whatever it holds);
        else Mismatch or ElfError is raised, and nothing is kept. More than `limit` bytes raise WrongUse. The outcome is
        added, better, same, poorer, or busy when another writer did not end within `wait` seconds. Raises OSError.
        """
        if build_id:
            checked_id(build_id)
        session = nullcontext() if self._parser is None else self._parser.session()
        with session, self.receive(file, origin or "upload", limit) as received:
            looked = self._look(received.path)
            if build_id and looked.build_id != build_id:
                raise Mismatch(f"its build-id is {looked.build_id or 'missing'}, not {build_id}").in_file(origin)
            if kind and kind not in looked.kinds:
                raise Mismatch(f"it is {' and '.join(looked.kinds)}, not {kind}").in_file(origin)
            if not looked.build_id:
                raise Mismatch("it has no build-id").in_file(origin)
            done = self.take(received, looked, looked.build_id, wait=wait)
            named = [one for one in done if not kind or one.kind == kind]
            return min(named, key=lambda one: OUTCOMES.index(one.outcome))

    def _look(self, path: Path) -> Looked:
        return look(path) if self._parser is None else self._parser.look(path)

    @contextmanager
    def receive(self, file: Readable, origin: str, limit: int = 0) -> Iterator[Received]:
        """A stream as a file of its own, hashed, until the block ends."""
        descriptor, name = tempfile.mkstemp(dir=self._spool())
        path = Path(name)
        try:
            digest, size = hashlib.sha256(), 0
            with open(descriptor, "wb") as out:
                while chunk := file.read(CHUNK):
                    size += len(chunk)
                    if limit and size > limit:
                        raise WrongUse(f"more than the {limit} bytes allowed").in_file(origin)
                    digest.update(chunk)
                    out.write(chunk)
            yield Received(path, size, digest.hexdigest(), origin, True)
        finally:
            path.unlink(missing_ok=True)

    def _spool(self) -> str | None:
        self._must_be_writable()
        return self.objects.spool()

    def _must_be_writable(self) -> None:
        if self.objects.read_only:
            raise WrongUse(f"{self.url} can only be read")

    def take(
        self,
        received: Received,
        looked: Looked,
        build_id: str,
        *,
        wait: float = WAIT_SECONDS,
        archive: bool = True,
        folders: Iterable[str] = (),
        producers: Producers | None = None,
    ) -> Outcomes:
        """Keep a file that was looked at, where it is better than what is there; what became of it, for each kind.

        With `archive` false the archive is left as it is: for who puts several files and then calls `finish`. Split
        units may lie below `folders`, whose links are followed. `producers` are those of the file, where they are open
        (quality.looking).
        """
        self._must_be_writable()

        def said(kind: FileKind, outcome: str, why: str) -> Added:
            return Added(received.origin, outcome, why, build_id, kind, received.size)

        new = HeldFile(received.size, received.sha256, looked.quality, int(time.time()), received.origin)
        known = self._described(build_id)
        if known is not None and (not archive or self._is_finished(known)):
            decided = {kind: decide(known.files.get(kind), new) for kind in looked.kinds}
            if not any(outcome in KEPT for outcome, _ in decided.values()) and not self.is_left(build_id):
                return [said(kind, *one) for kind, one in decided.items()]
        try:
            with Lease(self.objects, build_id, wait) as lease:
                return [
                    said(kind, *one)
                    for kind, one in self._keep(lease, received, looked, new, archive, folders, producers)
                ]
        except Busy as busy:
            return [said(kind, BUSY, busy.message) for kind in looked.kinds]

    def finish(
        self,
        build_id: str,
        *,
        layouts: Iterable[str] = (),
        folders: Iterable[str] = (),
        wait: float = WAIT_SECONDS,
    ) -> Meta | None:
        """Make the archive of a build-id if it is not that of its files, and its copies in layouts of others; and end
        what a killed writer began. Split units may lie below `folders`. None when there is nothing of it."""
        copies = set(copies_for(layouts, checked_id(build_id)))
        known = self._described(build_id)
        done = known is not None and self._is_finished(known) and copies <= {*known.copies}
        if done and not self.is_left(build_id):
            return known
        with Lease(self.objects, build_id, wait) as lease:
            known = self._state(lease)
            if known.files:
                new = copies - {*known.copies}
                known.copies = (*known.copies, *sorted(new))
                if not self._archive(lease, known, folders):
                    self._copy(lease, known, new)
                self._commit(lease, known)
                return known
            self._forget(lease)
            return None

    def _copy(self, lease: HeldLease, known: Meta, keys: Iterable[str]) -> None:
        """Write the copies of what is there now."""
        for key in keys:
            kind = kind_of_copy(key, known.build_id)
            lease.check()
            if kind in known.files and not known.files[kind].packing:
                self.objects.copy(file_key(known.build_id, kind), key)
            elif kind in known.files:
                with self.file(known.build_id, kind) as path:
                    if path is not None:
                        self.objects.put(key, path)
            elif kind:
                self.objects.delete(key)

    def is_left(self, build_id: str) -> bool:
        """Whether a writer is at work on a build-id, or was when it was killed."""
        return self.objects.head(names.lock_key(build_id)) is not None

    def is_due(self, build_id: str) -> bool:
        """Whether the archive of a build-id would be another one now: dwz's shared file has come."""
        known = self._described(build_id)
        return known is not None and bool(known.made_of) and not self._is_finished(known)

    def _described(self, build_id: str) -> Meta | None:
        """What meta.json says, where the files still have the sizes that it says."""
        found = self.objects.read(meta_key(build_id), meta.LONGEST)
        known = meta.read(found[0], build_id) if found is not None else None
        if known is None:
            return None
        for kind in KINDS:
            held = known.files.get(kind)
            status = self.objects.head(file_key(build_id, kind, held is not None and held.packing != PLAIN))
            if (held is None) != (status is None):
                return None
            if held is not None and status is not None and status.size != (held.stored or held.size):
                return None
        return known

    def _state(self, lease: HeldLease) -> Meta:
        """What is there, looked at anew where nothing describes it or a writer may have stopped anywhere."""
        known = self._described(lease.build_id)
        if known is not None and not lease.taken_over:
            return known
        before = known or Meta(lease.build_id)
        found = Meta(lease.build_id, revision=before.revision, name=before.name, copies=before.copies)
        found.by_hash = before.by_hash
        lease.keep()
        for kind in ELF_KINDS:
            with self.file(lease.build_id, kind) as path:
                if path is not None:
                    self._look_again(found, kind, path, before.files.get(kind))
        return found

    def _look_again(self, found: Meta, kind: FileKind, path: Path, before: HeldFile | None) -> None:
        """Describe a file that is there. One that is not what it has to be counts as not there."""
        with open(path, "rb") as file:
            digest = hash_of(file)
        if before is not None and before.sha256 == digest:
            found.files[kind] = before
            return
        try:
            looked = self._look(path)
        except WhenceError:
            return
        if kind in looked.kinds and looked.build_id in (found.build_id, ""):
            size, modified = path.stat().st_size, int(path.stat().st_mtime)
            found.files[kind] = HeldFile(size, digest, looked.quality, modified, "found in the store")
            describe(found, looked)

    def _keep(
        self,
        lease: HeldLease,
        received: Received,
        looked: Looked,
        new: HeldFile,
        archive: bool,
        folders: Iterable[str],
        producers: Producers | None,
    ) -> Decisions:
        known = self._state(lease)
        decided = [(kind, decide(known.files.get(kind), new)) for kind in looked.kinds]
        keep = [kind for kind, (outcome, _) in decided if outcome in KEPT]
        self._mark()
        if keep:
            lease.keep()
            describe(known, looked)
            if EXECUTABLE in keep or not known.name:  # a debug file is often named by its build-id
                known.name = os.path.basename(received.origin.rpartition(": ")[2])
            known.by_hash = not looked.build_id
        with self._packed(received.path) if keep and self.compress else nullcontext() as smaller:
            path, held = received.path, new
            if smaller is not None:
                path, held = smaller, new.packed(smaller.stat().st_size)
            first = ""
            for kind in keep:
                lease.check()
                key = file_key(lease.build_id, kind, packed=bool(held.packing))
                if first:
                    self.objects.copy(first, key)
                else:
                    self.objects.put(key, path, move=received.movable)
                first = first or key
                known.files[kind] = held
                self.objects.delete(file_key(lease.build_id, kind, packed=not held.packing))
        if archive:
            alone = {one.sha256 for kind, one in known.files.items() if kind != ARCHIVE} == {new.sha256}
            self._archive(lease, known, folders, producers if alone else None, received.path if alone else None)
        self._commit(lease, known)
        return decided

    @contextmanager
    def _packed(self, path: Path) -> Iterator[Path | None]:
        """A file packed, until the block ends; None where that does not pay."""
        descriptor, name = tempfile.mkstemp(dir=self._spool())
        try:
            with open(path, "rb") as source, open(descriptor, "wb") as target:
                size = pack(source, target)
            yield Path(name) if size < PAYS_BELOW * path.stat().st_size else None
        finally:
            Path(name).unlink(missing_ok=True)

    def _is_finished(self, known: Meta) -> bool:
        """Whether the archive is that of the files that are there."""
        if known.made_of != hashes_of(known):
            return False
        return not known.alt or known.alt_there or self.objects.head(file_key(known.alt, DEBUGINFO)) is None

    def _archive(
        self,
        lease: HeldLease,
        known: Meta,
        folders: Iterable[str] = (),
        producers: Producers | None = None,
        looked_at: Path | None = None,
    ) -> bool:
        """Make the archive and all copies, unless they are there; returns whether they had to be made. `producers` are
        those of all that is there, where they are open; `looked_at` is the file that all of it is."""
        if self._is_finished(known) and (known.archive is not None or known.note):
            return False
        lease.keep()
        with ExitStack() as stack:
            kinds = [kind for kind in known.files if kind != ARCHIVE and producers is None]
            files = {kind: stack.enter_context(self.file(known.build_id, kind)) for kind in kinds}
            descriptor, name = tempfile.mkstemp(dir=self._spool())
            out = Path(name)
            stack.callback(out.unlink, missing_ok=True)
            with open(descriptor, "w+b") as file:
                try:
                    there = {kind: path for kind, path in files.items() if path}
                    if producers is not None:
                        made = archive_of(producers, file)
                    elif self._parser is not None:
                        made = self._parser.archive(self, known, there, file, looked_at)
                    else:
                        made = make_archive(self, known, there, file, folders)
                    known.note = made.note
                except WhenceError as error:
                    known.note = without_file(error)
                    made = None
                file.flush()
                file.seek(0)
                digest = hash_of(file)
            lease.check()
            if made is not None and made.ranges:
                stored = self._put_archive(known.build_id, out)
                held = HeldFile(out.stat().st_size, digest, added=int(time.time()))
                known.files[ARCHIVE] = held.packed(stored, GZIP)
            else:
                known.files.pop(ARCHIVE, None)
                self.objects.delete(file_key(known.build_id, ARCHIVE, packed=True))
                known.note = known.note or "nothing in it names an address"
            self.objects.delete(file_key(known.build_id, ARCHIVE))  # of an earlier version
            known.alt_there = made is not None and made.alt_there
            known.made_of = hashes_of(known)
        self._copy(lease, known, known.copies)
        return True

    def _put_archive(self, build_id: str, path: Path) -> int:
        """Store an archive compressed; returns how many bytes that takes."""
        descriptor, name = tempfile.mkstemp(dir=self._spool())
        out = Path(name)
        try:
            with open(path, "rb") as source, open(descriptor, "wb") as target:
                pack_archive(source, target)
            size = out.stat().st_size
            self.objects.put(file_key(build_id, ARCHIVE, packed=True), out, move=True)
            return size
        finally:
            out.unlink(missing_ok=True)

    def _commit(self, lease: HeldLease, known: Meta) -> None:
        """Say what is there now."""
        lease.check()
        if known.debug_id:
            self.objects.create(names.debug_id_key(known.debug_id), known.build_id.encode())
        known.revision = known.next_revision()
        self.objects.put(meta_key(known.build_id), known.to_bytes())
        self.index.write([IndexRow.of(known)])
        self.objects.delete(names.wanted_key(known.build_id))

    def _mark(self) -> None:
        """Say that this is a store, once."""
        if not self._marked:
            self.objects.create(names.MARKER, b'{"version": 1}\n')
            self._marked, self._foreign = True, False

    def remove(self, build_id: str, *, wait: float = WAIT_SECONDS) -> int:
        """Remove everything of a build-id; returns how many bytes that frees. Raises Busy, OSError."""
        self._must_be_writable()
        with Lease(self.objects, checked_id(build_id), wait) as lease:
            return self._forget(lease)

    def _forget(self, lease: HeldLease) -> int:
        """Remove everything of a build-id, what describes it last; returns how many bytes that frees."""
        build_id = lease.build_id
        found = self.objects.read(meta_key(build_id), meta.LONGEST)
        known = meta.read(found[0], build_id) if found is not None else None
        there = list(self.objects.list(names.folder_key(build_id)))
        if not there and not lease.taken_over:
            return 0
        lease.check()
        for key in known.copies if known is not None else ():
            if kind_of_copy(key, build_id):
                self.objects.delete(key)
        if known is not None and names.DEBUG_ID.fullmatch(known.debug_id):
            self.objects.delete(names.debug_id_key(known.debug_id))
        self.objects.delete(names.sources_key(build_id))
        self.objects.delete(names.used_key(build_id))
        self._used.pop(build_id, None)
        for one in sorted(there, key=lambda one: one.key.endswith("/meta.json")):
            self.objects.delete(one.key)
        revision = known.next_revision() if known is not None else time.time_ns()
        self.index.write([IndexRow.gone(build_id, revision)])
        return sum(one.size for one in there)

    def put_sources(self, build_id: str, folders: Iterable[str | os.PathLike[str]]) -> Bundled | None:
        """Put a bundle of the source files that the archive of a build-id names and that lie below these folders, in
        place of an older one of fewer files; None when there is no archive. Raises OSError, WhenceError."""
        self._must_be_writable()
        with self.file(build_id, ARCHIVE) as path, tempfile.TemporaryDirectory(dir=self._spool()) as folder:
            if path is None:
                return None
            with lidia.open(path) as table:
                paths = named_files(table)
            out = Path(folder) / "sources"
            with open(out, "wb") as file:
                made = bundle(paths, folders, file)
            old = self.objects.head(names.sources_key(build_id))
            if made.files and (old is None or old.size < out.stat().st_size):
                self.objects.put(names.sources_key(build_id), out)
            return made

    def read_source(self, build_id: str, path: str) -> bytes | None:
        """A source file of a build-id's bundle, by the path that the debug info names; None when it is not there."""

        try:
            with self._raw(names.sources_key(build_id)) as file:
                return read(file, path)
        except (FileNotFoundError, BadZipFile, NotImplementedError):
            return None

    def export(self, build_id: str, folder: str | os.PathLike[str], layouts: Iterable[str] = ()) -> Paths:
        """Write the files of a build-id below a folder, as a store has them, or in these layouts; returns their paths.
        [] when there are none. Raises OSError."""
        target, wanted = Folder(folder), list(layouts)
        keys = {key: kind_of_copy(key, build_id) for key in copies_for(wanted, checked_id(build_id))}
        if not wanted:
            keys = {file_key(build_id, kind): str(kind) for kind in KINDS}
        done = []
        for key, kind in keys.items():
            with self.file(build_id, kind) as path:
                if path is not None:
                    target.put(key, path)
                    done.append(target.root / key)
        return done

    def build_id_of(self, debug_id: str) -> str:
        """The build-id of a debug id; "" when none is known. Raises WrongUse, OSError."""
        found = self.objects.read(names.debug_id_key(debug_id), 2 * names.ID_BYTES)
        text = found[0].decode("ascii", "replace") if found is not None else ""
        return text if is_id(text) else ""


class Content(Closing):
    """The bytes of a file of a store, to be sent; `path` is where they lie, if they lie in a file.

    `encoding` is "gzip" for bytes that the client has to decompress.
    """

    def __init__(self, objects: Objects, status: Stat, *, encoding: str = "") -> None:
        self._objects, self._key, self._tag = objects, status.key, status.tag
        self.size, self.modified, self.tag, self.encoding = status.size, status.modified, status.tag, encoding
        self.path = objects.path(status.key)
        self._stack = ExitStack()

    @classmethod
    def of_file(cls, path: Path, stack: ExitStack, stored: Stat | None = None) -> Content:
        """Those of a file that is removed when `stack` is closed, decompressed from the object `stored`."""
        folder = Folder(path.parent)
        status = folder.head(path.name)
        assert status is not None
        made = cls(folder, status)
        made._stack = stack
        if stored is not None:  # the same bytes each time they are decompressed
            made.modified, made.tag = stored.modified, f"{stored.tag}-plain"
        return made

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Bytes [start, end). Raises OSError, also when the file was replaced meanwhile."""
        return self._objects.read_range(self._key, start, self.size if end is None else end, self._tag)

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The same, a piece at a time."""
        stop = self.size if end is None else end
        while start < stop:
            chunk = self.read(start, min(stop, start + CHUNK))
            start += len(chunk)
            yield chunk

    def close(self) -> None:
        self._stack.close()


def describe(known: Meta, looked: Looked) -> None:
    """Take over what a file says of its build-id."""
    known.machine = looked.machine
    known.debug_id = names.debug_id_of(known.build_id, little_endian=looked.little_endian)
    if looked.alt:
        known.alt = looked.alt if is_id(looked.alt) else ""


def hashes_of(known: Meta) -> tuple[str, ...]:
    """The hashes of the ELF files that are there, as an archive says what it was made of."""
    return tuple(known.files[kind].sha256 if kind in known.files else "" for kind in (DEBUGINFO, EXECUTABLE))
