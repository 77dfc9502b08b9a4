"""The reading half of a store: find, open and export the files of a build-id, and record what was requested."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from zipfile import BadZipFile

from whence._base.closing import Closing
from whence.store import meta, names
from whence.store.folder import Folder
from whence.store.index import Index
from whence.store.layouts import copies_for, foreign_keys, kind_of_copy
from whence.store.meta import HeldFile, Meta
from whence.store.names import ELF_KINDS, KINDS, checked_id, file_key, is_id, meta_key
from whence.store.packing import unpack_object
from whence.store.places import objects_at
from whence.store.quality import CHUNK
from whence.store.sources import read
from whence.store.wanted import NoteCount, mark_used, note, questions

if TYPE_CHECKING:
    from whence.store.index import IndexRow
    from whence.store.objects import Objects, Stat
    from whence.store.outcomes import Paths
    from whence.store.wanted import MissedId

LISTED_SECONDS = 10.0
PREFIX_LIMIT = 1000  # build-ids with one prefix
USED_SECONDS, USED_REMEMBERED = 3600.0, 100_000  # build-ids are not marked as used again for an hour


class StoreReader(Closing):
    """Reads a store in a folder or a bucket. Safe from several threads, and with writers in other processes."""

    def __init__(self, location: str | os.PathLike[str] | Objects, *, jobs: int | None = None) -> None:
        self.objects: Objects = objects_at(location)
        self.url = self.objects.url
        self.jobs = jobs
        self.index = Index(self.objects)
        self._note_count = NoteCount()
        self._foreign: bool | None = None
        self._listed: tuple[float, Sequence[str]] = (-math.inf, ())  # when, and the build-ids
        self._used: dict[str, float] = {}  # when build-ids were marked as used, by the monotonic clock

    def __repr__(self) -> str:
        return f"<whence.Store {self.url}>"

    def close(self) -> None:
        """Close connections. The store stays usable."""
        self.objects.close()

    def find(self, build_id: str) -> Meta | None:
        """Return the description of a build-id; None if the store has no file of it.

        Raises:
            WrongUse: The build-id is malformed.
            OSError: The store can't be read.
        """
        described = self._read_meta(build_id)
        if described is not None and described.files:
            return described
        return self._undescribed(build_id) if self._is_foreign() else None

    def _read_meta(self, build_id: str) -> Meta | None:
        """Return the content of meta.json; None if it is missing or malformed."""
        content = self.objects.read(meta_key(build_id), meta.LONGEST)
        return meta.read(content[0], build_id) if content is not None else None

    def _undescribed(self, build_id: str) -> Meta | None:
        """Return the description of files without a meta.json, which another program or a person wrote."""
        stats = {kind: self.status(build_id, kind) for kind in KINDS}
        files = {
            str(kind): HeldFile(status.size, "", added=int(status.modified))
            for kind, status in stats.items()
            if status is not None
        }
        return Meta(build_id, files) if files else None

    def build_ids_with(self, prefix: str) -> list[str]:
        """Return the build-ids that start with a prefix in lowercase hex, in order.

        Their list is kept for LISTED_SECONDS. Raises OSError.
        """
        listed, build_ids = self._listed
        if time.monotonic() - listed > LISTED_SECONDS:
            build_ids = sorted(name for name in self.objects.folders(names.FILES) if names.is_id(name))
            self._listed = time.monotonic(), build_ids
        first = bisect_left(build_ids, prefix)
        return [*takewhile(lambda build_id: build_id.startswith(prefix), build_ids[first : first + PREFIX_LIMIT])]

    def list(self) -> list[IndexRow]:
        """Return a row for each build-id, in order. Reads the index. Raises OSError."""
        return self.index.rows()

    @contextmanager
    def file(self, build_id: str, kind: str) -> Iterator[Path | None]:
        """Open a block with the path of a decompressed file of a build-id; None if the store does not have it.

        The file may be temporary: it exists until the block ends. Raises WrongUse, OSError.
        """
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
        """Write a decompressed file of a build-id to `file`. Raises FileNotFoundError, OSError."""
        status = self.status(build_id, kind)
        if status is not None and not names.is_packed(status.key):
            if self.objects.fetch(status.key, file) is None:
                raise FileNotFoundError(2, f"{status.key} was removed meanwhile")
            return
        with self.file(build_id, kind) as path:
            if path is None:
                raise FileNotFoundError(2, f"{file_key(build_id, kind)} does not exist")
            with open(path, "rb") as source:
                shutil.copyfileobj(source, file, CHUNK)

    def status(self, build_id: str, kind: str) -> Stat | None:
        """Return the key, size, date and tag of the object of a file; None if it does not exist."""
        usual = kind not in ELF_KINDS  # archives are compressed, except those of earlier versions
        status = self.objects.head(file_key(build_id, kind, packed=usual))
        if status is None:
            status = self.objects.head(file_key(build_id, kind, packed=not usual))
        if status is None and self._is_foreign():
            stats = map(self.objects.head, foreign_keys(build_id, kind))
            status = next((foreign for foreign in stats if foreign is not None), None)
        return status

    def _is_foreign(self) -> bool:
        """Return True if the marker of a store is missing, so that files may have the layouts of other programs."""
        if self._foreign is None:
            self._foreign = self.objects.head(names.MARKER) is None
        return self._foreign

    @contextmanager
    def _raw(self, key: str) -> Iterator[BinaryIO]:
        """Open an object as a file, as it is stored. Raises FileNotFoundError."""
        path = self.objects.path(key)
        with ExitStack() as stack:
            if path is not None:
                yield stack.enter_context(open(path, "rb"))
                return
            file = stack.enter_context(tempfile.TemporaryFile())
            if self.objects.fetch(key, file) is None:
                raise FileNotFoundError(2, f"{key} does not exist")
            file.seek(0)
            yield file

    def open_bytes(self, build_id: str, kind: str, *, gzipped: bool = False) -> Content | None:
        """Return a file of a build-id for sending: size, date, tag and ranges of bytes; None if it does not exist.

        With `gzipped`, an archive or symbol file that is stored compressed is sent as it is stored: `Content.encoding`
        is "gzip".
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

    def wanted(self) -> Iterable[MissedId]:
        """Return the build-ids that were requested and are missing, most requested first. Raises OSError."""
        return questions(self.objects)

    def missed(self, build_id: str, who: str, path: str = "", times: int = 1) -> None:
        """Record that `who` requested a missing build-id `times` times. Never raises OSError."""
        with suppress(OSError):
            note(self.objects, build_id, who, path, times, count=self._note_count)

    def used(self, build_id: str) -> None:
        """Record that a build-id was used today. Never raises OSError."""
        now = time.monotonic()
        if now - self._used.get(build_id, -USED_SECONDS) < USED_SECONDS:
            return
        if len(self._used) >= USED_REMEMBERED:
            self._used.clear()
        self._used[build_id] = now
        with suppress(OSError):
            mark_used(self.objects, build_id)

    def read_source(self, build_id: str, path: str) -> bytes | None:
        """Return a source file from the bundle of a build-id; None if it is missing.

        `path` is the path in the debug info.
        """
        try:
            with self._raw(names.sources_key(build_id)) as file:
                return read(file, path)
        except (FileNotFoundError, BadZipFile, NotImplementedError):
            return None

    def export(self, build_id: str, folder: str | os.PathLike[str], layouts: Iterable[str] = ()) -> Paths:
        """Write the files of a build-id below `folder`, in the store's layout or in `layouts`, and return their paths.

        Raises WrongUse, OSError.
        """
        target, chosen = Folder(folder), list(layouts)
        keys = {key: kind_of_copy(key, build_id) for key in copies_for(chosen, checked_id(build_id))}
        if not chosen:
            keys = {file_key(build_id, kind): str(kind) for kind in KINDS}
        written = []
        for key, kind in keys.items():
            with self.file(build_id, kind) as path:
                if path is not None:
                    target.put(key, path)
                    written.append(target.root / key)
        return written

    def build_id_of(self, debug_id: str) -> str:
        """Return the build-id of a debug id; "" if it is unknown. Raises WrongUse, OSError."""
        return self._id_in(names.debug_id_key(debug_id))

    def build_id_of_code(self, code_id: str) -> str:
        """Return the build-id of the PE file with a code id; "" if it is unknown. Raises WrongUse, OSError."""
        return self._id_in(names.code_id_key(code_id))

    def _id_in(self, key: str) -> str:
        content = self.objects.read(key, 2 * names.ID_BYTES)
        text = content[0].decode("ascii", "replace") if content is not None else ""
        return text if is_id(text) else ""


class Content(Closing):
    """The bytes of a file of a store, for sending.

    `path` is the local file, or None. `encoding` is "gzip" for bytes that the client has to decompress.
    """

    def __init__(self, objects: Objects, status: Stat, *, encoding: str = "") -> None:
        self._objects, self._key, self._tag = objects, status.key, status.tag
        self.size, self.modified, self.tag, self.encoding = status.size, status.modified, status.tag, encoding
        self.path = objects.path(status.key)
        self._stack = ExitStack()

    @classmethod
    def of_file(cls, path: Path, stack: ExitStack, stored: Stat | None = None) -> Content:
        """Return the content of a file that `stack` removes, decompressed from the object `stored`."""
        folder = Folder(path.parent)
        status = folder.head(path.name)
        assert status is not None
        content = cls(folder, status)
        content._stack = stack
        if stored is not None:  # the same bytes each time they are decompressed
            content.modified, content.tag = stored.modified, f"{stored.tag}-plain"
        return content

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes [start, end). Raises OSError, in particular if the file was replaced."""
        return self._objects.read_range(self._key, start, self.size if end is None else end, self._tag)

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the bytes [start, end) in chunks. Raises OSError."""
        stop = self.size if end is None else end
        while start < stop:
            chunk = self.read(start, min(stop, start + CHUNK))
            start += len(chunk)
            yield chunk

    def close(self) -> None:
        """Remove the file if it is temporary."""
        self._stack.close()
