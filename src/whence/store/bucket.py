"""Objects in a bucket, by obstore: S3, Google, Azure, memory, and http(s) to read from.

Credentials, regions and endpoints are configured as for each cloud's own tools (AWS_ENDPOINT_URL, AZURE_STORAGE_...).
Requests are retried for RETRY_SECONDS. A body is fetched in pieces of PIECE bytes, each with the tag of the first, so
that an interrupted transfer costs one piece, and no file is assembled from two versions.

A web server has SILENT_SECONDS to response. After failed requests have taken that long in total, no request is sent for
PAUSE_SECONDS. So a server that never responses costs at most three times SILENT_SECONDS, for any number of requests.

The response to a write may be lost. The retried write is then refused because the object exists. So a refused `create`
or `replace` reads the object: if it has the bytes that were to be written, the write succeeded.
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
except ImportError as error:  # pragma: no cover - reported when a bucket is opened
    raise WrongUse("obstore, which reads buckets, is not installed").with_hint("pip install 'whence[store]'") from error

if TYPE_CHECKING:
    from pathlib import Path

PIECE = 8 << 20
CHUNK = 1 << 20  # bytes of a body that are passed on together
RETRY_SECONDS = 60
RETRIES = 6
CONNECT_SECONDS, REQUEST_SECONDS = 10, 300
WEB_SECONDS = 60  # for a piece from a web server
SILENT_SECONDS = 10  # without a byte from a web server; also the total time of failed requests
WEB_RETRIES = 3  # in less than a second
PAUSE_SECONDS = 300.0  # without requests after that
READ_ONLY = ("http", "https")
AZURE = "az"
VERSION = "\n"  # separates ETag and version in a tag
ADDRESS = re.compile(r"([a-z0-9]+)://([^/]*)/?(.*)")

_in_memory: dict[str, Any] = {}
_lock = threading.Lock()


def bucket_at(url: str, **options: Any) -> Bucket:
    """Open the bucket at an address; `options` are obstore's. Raises WrongUse for an invalid address."""
    match = ADDRESS.fullmatch(url)
    if match is None or not (match[2] or match[1] == "memory"):
        raise WrongUse(f"the address of a bucket is SCHEME://NAME or SCHEME://NAME/PREFIX, not {url!r}")
    scheme, bucket, prefix = match[1], match[2], match[3].strip("/")
    if scheme == "memory":  # one set of objects per name and process
        with _lock:
            store = _in_memory.setdefault(f"{bucket}/{prefix}", stores.MemoryStore())
        return Bucket(store, url)
    config: dict[str, Any] = {
        "client_options": {
            "connect_timeout": f"{CONNECT_SECONDS}s",
            "timeout": f"{REQUEST_SECONDS}s",
            "allow_http": True,  # for endpoints that are configured with http://
        },
        "retry_config": {
            "max_retries": RETRIES,
            "retry_timeout": timedelta(seconds=RETRY_SECONDS),
            "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=10), "base": 2},
        },
    }
    if scheme in READ_ONLY:
        config["client_options"] |= {"timeout": f"{WEB_SECONDS}s", "read_timeout": timedelta(seconds=SILENT_SECONDS)}
        config["retry_config"] |= {"max_retries": WEB_RETRIES, "retry_timeout": timedelta(seconds=SILENT_SECONDS)}
    for name, value in options.items():
        config[name] = {**config[name], **value} if isinstance(config.get(name), dict) else value
    try:
        if scheme in READ_ONLY:
            return Bucket(stores.HTTPStore.from_url(url, **config), url, read_only=True, patience=SILENT_SECONDS)
        store_class = {"s3": stores.S3Store, "gs": stores.GCSStore, AZURE: stores.AzureStore}[scheme]
        name = {AZURE: "container_name"}.get(scheme, "bucket")
        return Bucket(store_class(**{name: bucket}, prefix=prefix or None, **config), url)
    except (exceptions.BaseError, ValueError) as error:
        raise WrongUse(f"{url}: {message_of(error)}") from error


def message_of(error: Exception) -> str:
    """Return the first line of obstore's message, without the debug form of the underlying error."""
    text = str(error).strip().split("\n")[0]
    return text if len(text) <= 400 else text[:397] + "..."


def tag_of(meta: Any) -> str:
    """Return the tag of an object: its ETag, and its version if the bucket has versions."""
    version = meta.get("version")
    return (meta.get("e_tag") or "") + (f"{VERSION}{version}" if version else "")


class Patience:
    """The total time that failed requests may take before a pause of PAUSE_SECONDS."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._spent, self._paused_at = 0.0, -math.inf
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise TimeoutError during the pause."""
        if time.monotonic() - self._paused_at < PAUSE_SECONDS:
            why = f"no response within {self._seconds:g} seconds: not asked again for {PAUSE_SECONDS:g} seconds"
            raise failure("ETIMEDOUT", why)

    def spend(self, seconds: float) -> None:
        """Add the time that a failed request took."""
        with self._lock:
            self._spent += seconds
            if self._spent >= self._seconds:
                self._spent, self._paused_at = 0.0, time.monotonic()


class Bucket:
    """Objects in a bucket. `requests` and `received` count requests and received bytes.

    `patience`: the total time of failed requests in seconds before a pause.
    """

    def __init__(self, store: Any, url: str, *, read_only: bool = False, patience: float = math.inf) -> None:
        self.store, self.url, self.read_only = store, url, read_only
        self.requests = self.received = 0
        self._patience = Patience(patience)

    def __repr__(self) -> str:
        return f"<Bucket {self.url}>"

    @contextmanager
    def _request(self) -> Iterator[None]:
        """Open a block for a request. Raises OSError, at once during a pause."""
        with self._converted():
            self._patience.check()
            self.requests += 1
            yield

    @contextmanager
    def _converted(self) -> Iterator[None]:
        """Convert obstore's errors to OSError with the bucket's name, and charge the time to the patience."""
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
            problem = failure("EACCES" if refused else "EIO", message_of(error))
            problem.filename = self.url
            raise problem from error

    @staticmethod
    def _stat(meta: Any) -> Stat:
        return Stat(meta["path"], meta["size"], meta["last_modified"].timestamp(), tag_of(meta))

    def head(self, key: str) -> Stat | None:
        try:
            with self._request():
                return self._stat(obstore.head(self.store, key))
        except FileNotFoundError:
            return None

    def read(self, key: str, limit: int) -> tuple[bytes, Stat] | None:
        opened = self._get(key)
        if opened is None:
            return None
        pieces, status = opened
        if status.size > limit:
            raise too_large(key, status.size, limit)
        return b"".join(pieces), status

    def _get(self, key: str) -> tuple[Iterator[bytes], Stat] | None:
        """Return the pieces of an object, and its description."""
        attempts: tuple[Any, ...] = ({"range": (0, PIECE)}, {})
        for options in attempts:
            try:
                with self._request():
                    response = obstore.get(self.store, key, options=options)
                    status = self._stat(response.meta)
                return self._pieces(response, key, status, min(status.size, PIECE) if options else status.size), status
            except FileNotFoundError:
                return None
            except OSError:  # an empty object does not have this range, and some servers do not support ranges
                if not options:
                    raise
        return None

    def _pieces(self, response: Any, key: str, status: Stat, first: int) -> Iterator[bytes]:
        """Yield the pieces of an object, beginning with the response that has its first bytes."""
        yield from self._body(response, key, first)
        for start in range(first, status.size, PIECE):
            yield self.read_range(key, start, min(status.size, start + PIECE), status.tag)

    def _body(self, response: Any, key: str, size: int) -> Iterator[bytes]:
        """Yield the body of a response as it arrives. Raises OSError unless it has `size` bytes."""
        count = 0
        stream = iter(response.stream(min_chunk_size=CHUNK))
        while count <= size:
            with self._converted():
                chunk = next(stream, None)
            if chunk is None:
                break
            count += len(chunk)
            self.received += len(chunk)
            if count <= size:
                yield bytes(chunk)
        if count != size:
            received = f"more than {size}" if count > size else str(count)
            raise failure("EIO", f"{self.url}: {key}: received {received} bytes, expected {size}")

    def read_range(self, key: str, start: int, end: int, tag: str = "") -> bytes:
        options: Any = {"range": (start, end)}
        if e_tag := tag.partition(VERSION)[0]:
            options["if_match"] = e_tag
        with self._request():
            response = obstore.get(self.store, key, options=options)
        return b"".join(self._body(response, key, end - start))

    def fetch(self, key: str, file: BinaryIO) -> Stat | None:
        opened = self._get(key)
        if opened is None:
            return None
        pieces, status = opened
        for piece in pieces:
            file.write(piece)
        return status

    def put(self, key: str, content: bytes | Path, *, move: bool = False) -> None:
        with self._request():
            obstore.put(self.store, key, content)

    def create(self, key: str, content: bytes) -> str:
        try:
            with self._request():
                return self._tag_of(obstore.put(self.store, key, content, mode="create", use_multipart=False), key)
        except OSError as error:
            return self._written(key, content, error, exceptions.AlreadyExistsError)

    def replace(self, key: str, content: bytes, tag: str) -> str:
        e_tag, _, version = tag.partition(VERSION)
        mode: Any = {"e_tag": e_tag, **({"version": version} if version else {})}
        try:
            with self._request():
                return self._tag_of(obstore.put(self.store, key, content, mode=mode, use_multipart=False), key)
        except OSError as error:
            return self._written(key, content, error, exceptions.PreconditionError)

    def _tag_of(self, response: Any, key: str) -> str:
        if tag := tag_of(response):
            return tag
        status = self.head(key)
        return status.tag if status is not None else ""

    def _written(self, key: str, content: bytes, error: OSError, refusal: type[Exception]) -> str:
        """Return the tag if a refused or unresponseed write succeeded; "" if another process wrote the object."""
        current = None
        with suppress(OSError):
            current = self.read(key, max(len(content), 1))
        if current is not None and current[0] == content:
            return current[1].tag
        if isinstance(error.__cause__, (refusal, exceptions.PreconditionError, exceptions.AlreadyExistsError)):
            return ""
        if isinstance(error, FileNotFoundError):  # the object to replace was removed
            return ""
        raise error

    def copy(self, source: str, target: str) -> None:
        with self._request():
            obstore.copy(self.store, source, target)

    def delete(self, key: str) -> bool:
        try:
            with self._request():
                obstore.delete(self.store, key)
        except FileNotFoundError:
            return False
        return True

    def list(self, prefix: str) -> Iterator[Stat]:
        if self.read_only:
            return
        with self._request():
            for batch in obstore.list(self.store, prefix=prefix or None):
                yield from map(self._stat, batch)

    def folders(self, prefix: str) -> Iterator[str]:
        if self.read_only:
            return
        with self._request():
            listing = obstore.list_with_delimiter(self.store, prefix=prefix or None)
        for prefix in listing["common_prefixes"]:
            yield str(prefix).rstrip("/").rpartition("/")[2]

    def path(self, key: str) -> Path | None:
        return None

    def spool(self) -> str | None:
        return None

    def close(self) -> None:
        pass
