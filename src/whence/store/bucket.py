"""A bucket as a place for objects, by obstore: S3, Google's, Azure's, memory, and http(s) to read from.

Credentials, regions and endpoints are read as each cloud's own tools read them (AWS_ENDPOINT_URL, AZURE_STORAGE_...).
Requests are tried again for RETRY_SECONDS. A body is fetched in pieces of PIECE bytes, each with the tag of the first,
so that one that is cut costs a piece, and no file is put together from two.

A web server has SILENT_SECONDS to answer. Once requests that failed have taken so long, it is not asked for
PAUSE_SECONDS: no more than three times SILENT_SECONDS are spent on a server that never answers, however many requests
there are.

The answer to a write may be lost: it is sent again, and is refused then, for the object is there. So a `create` or
`replace` that was refused looks at what is there: the very bytes that were to be written mean that they were.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, BinaryIO

from whence._base.errors import WrongUse
from whence._base.files import failure
from whence.store.objects import Stat, too_large

try:
    import obstore
    from obstore import exceptions
    from obstore import store as stores
except ImportError as error:  # pragma: no cover - reported to whoever asks for a bucket
    raise WrongUse("a bucket needs obstore, which is not installed").with_hint("pip install 'whence[store]'") from error

if TYPE_CHECKING:
    from pathlib import Path

PIECE = 8 << 20
CHUNK = 1 << 20  # bytes that are handed on at once as they come
RETRY_SECONDS = 60
RETRIES = 6
CONNECT_SECONDS, REQUEST_SECONDS = 10, 300
WEB_SECONDS = 60  # for a piece from a web server
SILENT_SECONDS = 10  # without a byte from a web server; and failed requests to it, in all
WEB_RETRIES = 3  # which take less than a second
PAUSE_SECONDS = 300.0  # for which a web server is not asked after that
READ_ONLY = ("http", "https")
AZURE = "az"
VERSION = "\n"  # stands before it in a tag
ADDRESS = re.compile(r"([a-z0-9]+)://([^/]*)/?(.*)")

_in_memory: dict[str, Any] = {}
_lock = threading.Lock()


def bucket_at(url: str, **options: Any) -> Bucket:
    """The bucket of an address. Raises WrongUse for one that obstore refuses. `options` go to obstore."""
    found = ADDRESS.fullmatch(url)
    if found is None or not (found[2] or found[1] == "memory"):
        raise WrongUse(f"a bucket is SCHEME://NAME or SCHEME://NAME/PREFIX, not {url!r}")
    scheme, bucket, prefix = found[1], found[2], found[3].strip("/")
    if scheme == "memory":  # of one name, the same objects for the whole process
        with _lock:
            place = _in_memory.setdefault(f"{bucket}/{prefix}", stores.MemoryStore())
        return Bucket(place, url)
    known: dict[str, Any] = {
        "client_options": {
            "connect_timeout": f"{CONNECT_SECONDS}s",
            "timeout": f"{REQUEST_SECONDS}s",
            "allow_http": True,  # only who names an endpoint of http:// comes to one
        },
        "retry_config": {
            "max_retries": RETRIES,
            "retry_timeout": timedelta(seconds=RETRY_SECONDS),
            "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=10), "base": 2},
        },
    }
    if scheme in READ_ONLY:
        known["client_options"] |= {"timeout": f"{WEB_SECONDS}s", "read_timeout": timedelta(seconds=SILENT_SECONDS)}
        known["retry_config"] |= {"max_retries": WEB_RETRIES, "retry_timeout": timedelta(seconds=SILENT_SECONDS)}
    for name, value in options.items():
        known[name] = {**known[name], **value} if isinstance(known.get(name), dict) else value
    try:
        if scheme in READ_ONLY:
            return Bucket(stores.HTTPStore.from_url(url, **known), url, read_only=True, patience=SILENT_SECONDS)
        made = {"s3": stores.S3Store, "gs": stores.GCSStore, AZURE: stores.AzureStore}[scheme]
        name = {AZURE: "container_name"}.get(scheme, "bucket")
        return Bucket(made(**{name: bucket}, prefix=prefix or None, **known), url)
    except (exceptions.BaseError, ValueError) as error:
        raise WrongUse(f"{url}: {worded(error)}") from error


def worded(error: Exception) -> str:
    """What obstore says, in a line: its first, without the debug form of the error behind it."""
    text = str(error).strip().split("\n")[0]
    return text if len(text) <= 400 else text[:397] + "..."


def tag_of(known: Any) -> str:
    """What changes when an object does, as a bucket reports it: an ETag, and a version where there are some."""
    version = known.get("version")
    return (known.get("e_tag") or "") + (f"{VERSION}{version}" if version else "")


class Patience:
    """The time that failed requests may take in all before a server is not asked for PAUSE_SECONDS."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._spent, self._paused_at = 0.0, -math.inf
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise TimeoutError during the pause."""
        if time.monotonic() - self._paused_at < PAUSE_SECONDS:
            why = f"no answer within {self._seconds:g} seconds in all: not asked again for {PAUSE_SECONDS:g} seconds"
            raise failure("ETIMEDOUT", why)

    def spend(self, seconds: float) -> None:
        """Add the time that a failed request took."""
        with self._lock:
            self._spent += seconds
            if self._spent >= self._seconds:
                self._spent, self._paused_at = 0.0, time.monotonic()


class Bucket:
    """Objects of a bucket. `requests` and `received` count what was asked and how many bytes of content came.

    `patience`: seconds that failed requests may take in all before the bucket is left alone for a while.
    """

    def __init__(self, place: Any, url: str, *, read_only: bool = False, patience: float = math.inf) -> None:
        self.place, self.url, self.read_only = place, url, read_only
        self.requests = self.received = 0
        self._patience = Patience(patience)

    def __repr__(self) -> str:
        return f"<Bucket {self.url}>"

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """A request. Raises OSError at once while a server that did not answer is left alone."""
        with self._worded():
            self._patience.check()
            self.requests += 1
            yield

    @contextmanager
    def _worded(self) -> Iterator[None]:
        """What obstore raises becomes an OSError that names the bucket; the time is charged to its patience."""
        began = time.monotonic()
        try:
            yield
        except FileNotFoundError:
            raise
        except TimeoutError as error:
            error.filename = self.url
            raise
        except exceptions.BaseError as error:
            self._patience.spend(time.monotonic() - began)
            refused = isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError))
            problem = failure("EACCES" if refused else "EIO", worded(error))
            problem.filename = self.url
            raise problem from error

    @staticmethod
    def _stat(meta: Any) -> Stat:
        return Stat(meta["path"], meta["size"], meta["last_modified"].timestamp(), tag_of(meta))

    def head(self, key: str) -> Stat | None:
        try:
            with self._asking():
                return self._stat(obstore.head(self.place, key))
        except FileNotFoundError:
            return None

    def read(self, key: str, limit: int) -> tuple[bytes, Stat] | None:
        found = self._get(key)
        if found is None:
            return None
        pieces, status = found
        if status.size > limit:
            raise too_large(key, status.size, limit)
        return b"".join(pieces), status

    def _get(self, key: str) -> tuple[Iterator[bytes], Stat] | None:
        """The pieces of an object, and what it is."""
        asked: tuple[Any, ...] = ({"range": (0, PIECE)}, {})
        for options in asked:
            try:
                with self._asking():
                    answer = obstore.get(self.place, key, options=options)
                    status = self._stat(answer.meta)
                return self._pieces(answer, key, status, min(status.size, PIECE) if options else status.size), status
            except FileNotFoundError:
                return None
            except OSError:  # an empty object has no such range, and not every server knows ranges
                if not options:
                    raise
        return None

    def _pieces(self, answer: Any, key: str, status: Stat, first: int) -> Iterator[bytes]:
        """An object from the answer that has its first bytes on."""
        yield from self._body(answer, key, first)
        for start in range(first, status.size, PIECE):
            yield self.read_range(key, start, min(status.size, start + PIECE), status.tag)

    def _body(self, answer: Any, key: str, size: int) -> Iterator[bytes]:
        """What an answer holds, as it comes: no room is made for what its header says. OSError unless it is `size`
        bytes."""
        came = 0
        stream = iter(answer.stream(min_chunk_size=CHUNK))
        while came <= size:
            with self._worded():
                some = next(stream, None)
            if some is None:
                break
            came += len(some)
            self.received += len(some)
            if came <= size:
                yield bytes(some)
        if came != size:
            raise failure("EIO", f"{self.url}: {key}: {'more' if came > size else came} bytes came, not {size}")

    def read_range(self, key: str, start: int, end: int, tag: str = "") -> bytes:
        options: Any = {"range": (start, end)}
        if e_tag := tag.partition(VERSION)[0]:
            options["if_match"] = e_tag
        with self._asking():
            answer = obstore.get(self.place, key, options=options)
        return b"".join(self._body(answer, key, end - start))

    def fetch(self, key: str, file: BinaryIO) -> Stat | None:
        found = self._get(key)
        if found is None:
            return None
        pieces, status = found
        for piece in pieces:
            file.write(piece)
        return status

    def put(self, key: str, content: bytes | Path, *, move: bool = False) -> None:
        with self._asking():
            obstore.put(self.place, key, content)

    def create(self, key: str, content: bytes) -> str:
        try:
            with self._asking():
                return self._tag_of(obstore.put(self.place, key, content, mode="create", use_multipart=False), key)
        except OSError as error:
            return self._written(key, content, error, exceptions.AlreadyExistsError)

    def replace(self, key: str, content: bytes, tag: str) -> str:
        e_tag, _, version = tag.partition(VERSION)
        mode: Any = {"e_tag": e_tag, **({"version": version} if version else {})}
        try:
            with self._asking():
                return self._tag_of(obstore.put(self.place, key, content, mode=mode, use_multipart=False), key)
        except OSError as error:
            return self._written(key, content, error, exceptions.PreconditionError)

    def _tag_of(self, answer: Any, key: str) -> str:
        if tag := tag_of(answer):
            return tag
        found = self.head(key)
        return found.tag if found is not None else ""

    def _written(self, key: str, content: bytes, error: OSError, refusal: type[Exception]) -> str:
        """The tag when a write that was refused, or had no answer, did happen; "" when another's did."""
        found = None
        with suppress(OSError):
            found = self.read(key, max(len(content), 1))
        if found is not None and found[0] == content:
            return found[1].tag
        if isinstance(error.__cause__, (refusal, exceptions.PreconditionError, exceptions.AlreadyExistsError)):
            return ""
        if isinstance(error, FileNotFoundError):  # to be replaced, and gone
            return ""
        raise error

    def copy(self, source: str, target: str) -> None:
        with self._asking():
            obstore.copy(self.place, source, target)

    def delete(self, key: str) -> bool:
        try:
            with self._asking():
                obstore.delete(self.place, key)
        except FileNotFoundError:
            return False
        return True

    def list(self, prefix: str) -> Iterator[Stat]:
        if self.read_only:
            return
        with self._asking():
            for some in obstore.list(self.place, prefix=prefix or None):
                yield from map(self._stat, some)

    def folders(self, prefix: str) -> Iterator[str]:
        if self.read_only:
            return
        with self._asking():
            found = obstore.list_with_delimiter(self.place, prefix=prefix or None)
        for one in found["common_prefixes"]:
            yield str(one).rstrip("/").rpartition("/")[2]

    def path(self, key: str) -> Path | None:
        return None

    def spool(self) -> str | None:
        return None

    def close(self) -> None:
        pass
