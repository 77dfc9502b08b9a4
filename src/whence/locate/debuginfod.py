"""A debuginfod client: the debug file or the executable of a build-id, from configured servers.

Servers are queried in order, and `log` gets every request before it is sent. A download that is too large or too slow
is rejected; it becomes an entry of the cache only if it is complete and has the requested build-id. An interrupted
download is resumed if the server's validator (ETag, Last-Modified: RFC 9110, 13.1.5) shows that the file is the same;
the last bytes are requested again and compared. A server that does not respond is skipped for some time, and so is a
build-id that it does not have. A server that asks for a pause by Retry-After gets it (RFC 9110, 10.2.3), and after five
failed requests in a row a client stops for an hour. Every request names whence, its version and its home page.
`allow` decides which build-ids may be sent.

Protocol: GET SERVER/buildid/BUILDID/debuginfo or /executable (debuginfod(8)).
"""

from __future__ import annotations

import fnmatch
import hashlib
import http.client
import ipaddress
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote, urlsplit

from whence._base.closing import Closing
from whence._base.errors import WhenceError, WrongUse
from whence._base.files import atomic_write, open_folder, publish
from whence._base.records import Record
from whence._version import HOME_PAGE, __version__
from whence.locate.cache import ABSENT, DEAD, ORIGIN, PART, SERVERS, Cache, CutError, check, is_own, open_own
from whence.locate.http import Deadline, pool

if TYPE_CHECKING:
    import urllib3


BUILD_ID = re.compile(r"[0-9a-f]{4,128}")
KINDS = ("debuginfo", "executable")
CHUNK = 1 << 16
OVERLAP = 1 << 12  # bytes of an interrupted download that are requested again, to compare
LONGEST_SOURCE = 1 << 26  # bytes of a source file
REMEMBERED_SOURCES = 10_000  # source files that a server does not have
LONGEST_NUMBER = 18  # digits of a length
LONGEST_VALIDATOR = 256
CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
HOST = re.compile(r"(?=.{1,253}$)[0-9A-Za-z_]([0-9A-Za-z_-]{0,62})(\.[0-9A-Za-z_][0-9A-Za-z_-]{0,62})*\.?")


def agent_of(version: str, home_page: str) -> str:
    """Return the User-Agent of a version, with the home page if there is one.

    >>> agent_of("1.2", "https://whence.example")
    'whence/1.2 (+https://whence.example)'
    """
    return f"whence/{version}" + (f" (+{home_page})" if home_page else "")


USER_AGENT = agent_of(__version__, HOME_PAGE)


class Limits(Record, frozen=True):
    """Limits of a client: times in seconds, sizes in bytes."""

    connect: float = 5.0
    silence: float = 30.0  # between two reads
    head: float = 90.0  # until the status and the headers are complete
    whole: float = 600.0  # for one file
    size: int = 4 << 30
    tries: int = 3
    back_off: float = 0.5  # before the second try; doubled for each one after
    pause: float = 30.0  # the longest Retry-After that is waited for; after a longer one the server is skipped
    longest_pause: float = 3600.0  # for how long a Retry-After is respected at most
    failures: int = 5  # requests in a row that fail until a client stops
    rest: float = 3600.0  # how long a client that stopped sends the server nothing
    dead: float = 300.0  # how long a failed server is skipped
    absent: float = 3600.0  # how long a 404 is remembered


class Refused(Exception):
    """A server sent no usable file. `again`: another try may help; `dead`: the server is at fault.

    `pause`: the seconds that the server asks to wait; None if it does not.
    """

    def __init__(self, why: str, *, again: bool = False, dead: bool = False, pause: float | None = None) -> None:
        super().__init__(why)
        self.again, self.dead, self.pause = again, dead, pause


class Request(Record, frozen=True):
    """A file to fetch: its build-id and kind, which are its key in the cache, and its path on a server."""

    build_id: str
    kind: str
    path: str

    @property
    def key(self) -> str:
        return f"{self.build_id}.{self.kind}"


class Origin(Record, frozen=True):
    """The identity of a file on a server: its size in bytes, and a validator that changes with the content."""

    size: int
    validator: str

    @classmethod
    def of(cls, response: urllib3.BaseHTTPResponse, size: int) -> Origin | None:
        """Return the identity in a response; None if it has no usable validator."""
        tag = response.headers.get("ETag", "")
        validator = tag if tag.startswith('"') else response.headers.get("Last-Modified", "")
        usable = validator.isascii() and validator.isprintable() and len(validator) <= LONGEST_VALIDATOR
        return cls(size, validator) if validator and usable else None

    @classmethod
    def read(cls, path: Path) -> Origin | None:
        """Return the identity that `write` stored; None if the file is missing or invalid."""
        try:
            if not is_own(path.lstat()):
                return None
            with open(path, "rb") as file:
                size, validator = file.read(LONGEST_NUMBER + LONGEST_VALIDATOR + 2).decode("ascii").splitlines()
            return cls(int(size), validator)
        except (OSError, ValueError):
            return None

    def write(self, path: Path) -> None:
        with atomic_write(path) as file:
            file.write(f"{self.size}\n{self.validator}\n".encode())


def servers_of_environment() -> list[str]:
    """Return the servers in DEBUGINFOD_URLS. Raises WrongUse if there are none."""
    words = os.environ.get("DEBUGINFOD_URLS", "").split()
    servers = [word for word in words if not word.startswith("ima:")]  # Fedora's signature policy for elfutils
    if not servers:
        raise WrongUse("debuginfod without a URL needs DEBUGINFOD_URLS, which is not set")
    return servers


def checked_server(url: str, kind: str = "debuginfod") -> str:
    """Return a server's URL without a slash at its end. Raises WrongUse for anything but an http or https URL.

    `kind` is the kind of server, for the error.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        if ":" in host:
            ipaddress.IPv6Address(host)
        valid = (
            url.isascii()
            and url.isprintable()
            and " " not in url
            and parts.scheme in ("http", "https")
            and (":" in host or HOST.fullmatch(host) is not None)
            and port != 0
            and not (parts.query or parts.fragment)
        )
    except ValueError:
        valid = False
    if not valid:
        raise WrongUse(f"invalid {kind} server {url!r}: expected an http:// or https:// URL")
    return url.rstrip("/")


class Discarded(Refused):
    """A server sent no usable file, and the part that was received must be deleted."""


def allowing(patterns: Sequence[str]) -> Callable[[str, str], bool]:
    """Return an allow-list of shell patterns, matched against build-ids and paths.

    >>> allow = allowing(["/usr/*"])
    >>> allow("ab12", "/usr/lib/libc.so.6"), allow("ab12", "/home/me/secret")
    (True, False)
    """
    return lambda build_id, path: any(
        fnmatch.fnmatchcase(build_id, pattern) or fnmatch.fnmatchcase(path, pattern) for pattern in patterns
    )


class Debuginfod(Closing):
    """A client for some servers that puts fetched files into a cache.

    Args:
        servers: their URLs, in order of preference.
        cache: where fetched files are kept.
        limits: times and sizes.
        allow: returns True if a build-id, and the path of its binary, may be sent.
        log: called with a line for each request and failure.
        sleep: waits for some seconds before a request is repeated.
        verify: reads a fetched file; raises OSError or WhenceError unless it has this build-id and kind.
    """

    kind = "debuginfod"  # of server, in the log

    def __init__(
        self,
        servers: Sequence[str],
        cache: Cache,
        *,
        limits: Limits | None = None,
        allow: Callable[[str, str], bool] = lambda build_id, path: True,
        log: Callable[[str], None] = lambda line: None,
        sleep: Callable[[float], None] = time.sleep,
        verify: Callable[[Path, str, str], None] = check,
    ) -> None:
        self.servers = [checked_server(url, self.kind.removesuffix(" server")) for url in servers]
        self.cache = cache
        self.limits = limits or Limits()
        self.allow = allow
        self.log = log
        self._sleep = sleep
        self._check = verify
        self._pool: urllib3.PoolManager | None = None
        self._failures = dict.fromkeys(self.servers, 0)  # of requests in a row
        self._failed_at = dict.fromkeys(self.servers, 0.0)
        self._no_source: dict[tuple[str, str, str], float] = {}  # server, build-id and path: time of the request

    def fetch(
        self, build_id: str, kind: str = "debuginfo", path: str = "", headers: Mapping[str, str] | None = None
    ) -> Path | None:
        """Return the path of a file in the cache, fetched from the first server that has it; None if none has.

        `path` is the mapped path of the binary, used by the allow-list and not sent. `headers` are sent in addition to
        the client's own.
        """
        build_id = build_id.lower()
        if kind not in KINDS:
            raise ValueError(f"unknown kind {kind!r}: expected {' or '.join(KINDS)}")
        if not BUILD_ID.fullmatch(build_id):
            self.log(f"{self.kind}: {build_id!r} is not a build-id, not requested")
            return None
        return self._fetch(Request(build_id, kind, f"buildid/{build_id}/{kind}"), path, headers)

    def _fetch(self, request: Request, path: str, headers: Mapping[str, str] | None) -> Path | None:
        """Return the path of a file in the cache, fetched if it is allowed and a server has it; None if none has."""
        build_id, key = request.build_id, request.key
        cached = self.cache.get(key)
        if cached is not None:
            return cached
        if not self.allow(build_id, path):
            self.log(f"{self.kind}: {build_id} is not on the allow-list, not requested")
            return None
        for server in self.servers:
            if self._given_up(server):
                continue
            for note, seconds, why in (
                (self._dead(server), self.limits.dead, "did not respond"),
                (self._absent(key, server), self.limits.absent, "did not have the file"),
            ):
                if self._recent(note, seconds):
                    self.log(f"{self.kind}: {server} {why} recently, {build_id} not requested")
                    break
            else:
                fetched = self._fetch_from(server, request, headers)
                if fetched is not None:
                    return fetched
        return None

    def read_source(
        self, build_id: str, path: str, headers: Mapping[str, str] | None = None, most: int = LONGEST_SOURCE
    ) -> bytes | None:
        """Return the bytes of a source file, from the first server that has it; None if none has.

        `path` is the absolute path in the debug info. The file is not cached, as its content can't be verified.
        """
        build_id = build_id.lower()
        if not BUILD_ID.fullmatch(build_id) or not path.startswith("/") or not self.allow(build_id, path):
            return None
        for server in self.servers:
            request = server, build_id, path
            if self._given_up(server) or self._recent(self._dead(server), self.limits.dead):
                continue
            if time.monotonic() - self._no_source.get(request, -self.limits.absent) < self.limits.absent:
                continue
            try:
                content = self._read(f"{server}/buildid/{build_id}/source{quote(path)}", most, headers)
                self._failures[server] = 0
                return content
            except Refused as refused:
                self._count(server, build_id, refused)
                if refused.dead:
                    self._skip(server, refused.pause)
                    continue
                if len(self._no_source) >= REMEMBERED_SOURCES:
                    self._no_source.clear()
                self._no_source[request] = time.monotonic()
        return None

    def _read(self, url: str, most: int, more: Mapping[str, str] | None) -> bytes:
        """Return the body of a response. Raises Refused."""
        headers = {"User-Agent": USER_AGENT, **(more or {}), "Accept-Encoding": "identity"}
        self.log(f"{self.kind}: GET {url}")
        with Deadline(self.limits.head) as deadline:
            response = self._answer(url, headers, deadline)
            try:
                if response.status != HTTPStatus.OK:
                    raise refusal_of(response)
                content = bytearray()
                for chunk in self._chunks(response, deadline):
                    content += chunk
                    if len(content) > most:
                        raise Refused(f"more than the limit of {most} bytes")
            finally:
                response.close()
        length = length_of(response.headers.get("Content-Length", ""))
        if length is not None and length != len(content):
            raise Refused(f"cut off after {len(content)} of {length} bytes")
        return bytes(content)

    def _fetch_from(self, server: str, request: Request, headers: Mapping[str, str] | None) -> Path | None:
        """Return the path of a file fetched from a server, with repeated tries; None if that fails."""
        build_id, key = request.build_id, request.key
        pause: float | None = None
        for attempt in range(self.limits.tries):
            if attempt:
                self._sleep(max(self.limits.back_off * 2 ** (attempt - 1), pause or 0))
            try:
                with self.cache.locked(key):
                    path = self.cache.get(key) or self._download(server, request, headers)
                self.cache.trim(keep=path)
                self._failures[server] = 0
                return path
            except Refused as refused:
                pause = refused.pause
                self._count(server, build_id, refused)
                is_soon = pause is None or pause <= self.limits.pause
                if refused.again and is_soon and attempt + 1 < self.limits.tries and not self._given_up(server):
                    continue
                if refused.dead:
                    self._skip(server, pause)
                else:
                    self._touch(self._absent(key, server))
                return None
            except OSError as error:  # a fault of this machine, not of the server
                self.log(f"{self.kind}: {build_id} can't be written to {self.cache.root} ({error.strerror or error})")
                with suppress(OSError):  # in case the disk is full
                    self.cache.folder(key[:2], make=False)
                    self._part(server, key).unlink()
                return None
        return None

    def _count(self, server: str, build_id: str, refused: Refused) -> None:
        """Log a failure and count it; a server that answers that it lacks the file has not failed."""
        self.log(f"{self.kind}: {server} {build_id}: {refused}")
        self._failures[server] = self._failures[server] + 1 if refused.dead else 0
        self._failed_at[server] = time.monotonic()
        if self._given_up(server):
            self.log(f"{self.kind}: {server}: {self.limits.failures} requests failed, no more are sent")

    def _given_up(self, server: str) -> bool:
        """Return True if this client sends a server no more requests, for now."""
        if self._failures[server] < self.limits.failures:
            return False
        return time.monotonic() - self._failed_at[server] < self.limits.rest

    def _skip(self, server: str, pause: float | None) -> None:
        """Record that a server failed, so that it is skipped for `limits.dead` seconds, or until its Retry-After."""
        note = self._dead(server)
        self._touch(note)
        if pause is not None and pause > self.limits.dead:
            until = time.time() + min(pause, self.limits.longest_pause) - self.limits.dead
            with suppress(OSError):
                os.utime(note, (until, until))

    def _download(self, server: str, request: Request, more: Mapping[str, str] | None) -> Path:
        """Download a file into the cache, or resume an interrupted download. The shard is locked."""
        path = self.cache.path(request.key)
        part, origin_path = self._part(server, path.name), self._origin(server, path.name)
        url = f"{server}/{request.path}"
        headers = {"User-Agent": USER_AGENT, **(more or {}), "Accept-Encoding": "identity"}
        with os.fdopen(open_own(part), "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            origin = Origin.read(origin_path)
            start = size - OVERLAP if origin is not None and OVERLAP < size < origin.size else 0
            if start and origin is not None:
                headers |= {"Range": f"bytes={start}-", "If-Range": origin.validator}
            self.log(f"{self.kind}: GET {url}" + (f" from byte {start}" if start else ""))
            began = time.monotonic()
            try:
                with Deadline(min(self.limits.head, self.limits.whole)) as deadline:
                    response = self._answer(url, headers, deadline)
                    try:
                        deadline.extend(self.limits.whole - (time.monotonic() - began))
                        self._receive(response, file, origin_path, start, origin, deadline)
                    finally:
                        response.close()
                self._verify(part, request.build_id, request.kind, continued=start > 0)
            except Refused as refused:
                if isinstance(refused, Discarded) or not origin_path.exists():  # it can't be resumed
                    for unused in (part, origin_path):
                        unused.unlink(missing_ok=True)
                raise
            folder = open_folder(os.fspath(path.parent))
            if folder is None:
                publish(file, os.fspath(part), os.fspath(path))
            else:
                try:
                    publish(file, part.name, path.name, folder)
                finally:
                    os.close(folder)
        origin_path.unlink(missing_ok=True)
        self.log(f"{self.kind}: {url}: {path.stat().st_size} bytes in {time.monotonic() - began:.1f} s")
        return path

    def _answer(self, url: str, headers: dict[str, str], deadline: Deadline) -> urllib3.BaseHTTPResponse:
        """Send a request and return the response, whose body has not been read. Raises Refused."""
        from urllib3.exceptions import HTTPError

        try:
            return self._http().request("GET", url, headers=headers, preload_content=False, redirect=False)
        except (HTTPError, http.client.HTTPException, OSError, ValueError) as error:
            if deadline.expired:
                raise Refused("no complete response in time", dead=True) from error
            raise Refused(f"no response ({type(error).__name__})", again=True, dead=True) from error

    def _chunks(self, response: urllib3.BaseHTTPResponse, deadline: Deadline) -> Iterator[bytes]:
        """Yield the body in pieces. Raises Refused if it is cut off, or not complete in time."""
        from urllib3.exceptions import HTTPError

        late = Refused(f"not complete after {self.limits.whole:.0f} s", dead=True)
        while True:
            try:
                chunk = response.read1(CHUNK, decode_content=False)
            except (HTTPError, http.client.HTTPException, OSError, ValueError) as error:
                cut = Refused(f"cut off ({type(error).__name__})", again=True, dead=True)
                raise (late if deadline.expired else cut) from error
            if deadline.expired:
                raise late
            if not chunk:
                return
            yield chunk

    def _receive(
        self,
        response: urllib3.BaseHTTPResponse,
        file: BinaryIO,
        origin_path: Path,
        start: int,
        origin: Origin | None,
        deadline: Deadline,
    ) -> None:
        """Check the status and write the body to the file, from `start` if the download is resumed. Raises Refused."""
        status = response.status
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise Discarded("the server can't resume the download", again=True)
        if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise refusal_of(response)
        chunks = self._chunks(response, deadline)
        limit = self.limits.size
        if status == HTTPStatus.PARTIAL_CONTENT:
            self._check_resumed(response, start, origin)
            length = origin.size if origin is not None else None
            received = file.seek(start)
            repeated = file.read()
            file.seek(start)
        else:
            received = file.seek(0)
            repeated = b""
            length = length_of(response.headers.get("Content-Length", ""))
            if length is not None and length > limit:
                raise Discarded(f"Content-Length exceeds the limit of {limit} bytes")
            file.truncate(0)
            origin_path.unlink(missing_ok=True)
            origin = Origin.of(response, length) if length is not None else None
            if origin is not None:
                origin.write(origin_path)
        for chunk in chunks:
            expected = repeated[: len(chunk)]
            if not chunk.startswith(expected):
                raise Discarded("the resumed download has other bytes", again=True)
            repeated = repeated[len(expected) :]
            received += len(chunk)
            if received > limit:
                raise Discarded(f"more than the limit of {limit} bytes")
            file.write(chunk)
        file.flush()
        if repeated or (length is not None and received < length):
            raise Refused(f"cut off after {received} of {length} bytes", again=True, dead=True)

    @staticmethod
    def _check_resumed(response: urllib3.BaseHTTPResponse, start: int, origin: Origin | None) -> None:
        """Raise Discarded unless a response of status 206 has the requested rest of the same file."""
        content_range = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if not start or origin is None:
            raise Discarded("the server sent a part of the file, but all of it was requested", again=True)
        if content_range is None or tuple(map(int, content_range.groups())) != (start, origin.size - 1, origin.size):
            raise Discarded("the server sent another range than the requested one, or another file", again=True)
        now = Origin.of(response, origin.size)
        if now is not None and now != origin:
            raise Discarded("the server resumed another file", again=True)

    def _verify(self, part: Path, build_id: str, kind: str, continued: bool) -> None:
        """Raise Discarded for an invalid file. A resumed one is fetched again, as its older part may be wrong."""
        try:
            self._check(part, build_id, kind)
        except CutError as error:
            raise Discarded(f"the downloaded file is invalid: {error}", again=True) from error
        except (WhenceError, OSError) as error:
            raise Discarded(f"the downloaded file is invalid: {error}", again=continued) from error

    def _http(self) -> urllib3.PoolManager:
        if self._pool is None:
            self._pool = pool(self.limits.connect, self.limits.silence)
        return self._pool

    def __repr__(self) -> str:
        return f"<whence.locate.Debuginfod: {', '.join(self.servers)}>"

    def close(self) -> None:
        """Close the connections. The client stays usable."""
        if self._pool is not None:
            self._pool.clear()

    # Notes about servers: empty files whose modification time is that of the event

    def _dead(self, server: str) -> Path:
        return self.cache.root / SERVERS / f"{mark(server)}{DEAD}"

    def _part(self, server: str, key: str) -> Path:
        return self.cache.path(key).with_name(f"{key}.{mark(server)}{PART}")

    def _origin(self, server: str, key: str) -> Path:
        return self.cache.path(key).with_name(f"{key}.{mark(server)}{ORIGIN}")

    def _absent(self, key: str, server: str) -> Path:
        return self.cache.path(key).with_name(f"{key}.{mark(server)}{ABSENT}")

    def _recent(self, note: Path, seconds: float) -> bool:
        """Return True if a note is of the last `seconds`; that of a pause may be of the future."""
        ahead = self.limits.longest_pause if note.name.endswith(DEAD) else seconds  # the clock may have been set back
        try:
            self.cache.folder(note.parent.name, make=False)
            return -ahead < time.time() - note.lstat().st_mtime < seconds
        except OSError:
            return False

    def _touch(self, note: Path) -> None:
        with suppress(OSError):  # the disk may be full
            self.cache.folder(note.parent.name)
            descriptor = open_own(note)
            os.close(descriptor)
            os.utime(note)


def mark(server: str) -> str:
    """Return the part of a file name that identifies a server."""
    return hashlib.sha256(server.encode()).hexdigest()[:12]


def length_of(announced: str) -> int | None:
    """Return a Content-Length in bytes; None if it is not a number. Numbers with too many digits become 2**63."""
    if not (announced.isascii() and announced.isdecimal()):
        return None
    digits = announced.lstrip("0") or "0"
    return int(digits) if len(digits) <= LONGEST_NUMBER else 1 << 63


def refusal_of(response: urllib3.BaseHTTPResponse) -> Refused:
    """Return the refusal that a response without a file means."""
    status = response.status
    if status == HTTPStatus.NOT_FOUND:
        return Refused("404, not found")
    is_temporary = status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
    if not is_temporary and status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return Refused(f"status {status}")
    pause = pause_of(response.headers.get("Retry-After", ""), time.time())
    retry_after = "" if pause is None else f", Retry-After {pause:.0f} s"
    return Refused(f"status {status}{retry_after}", again=True, dead=True, pause=pause)


def pause_of(text: str, now: float) -> float | None:
    """Return the seconds that a Retry-After asks to wait: a number or a date. None if it is neither.

    >>> pause_of("120", 0), pause_of("Thu, 01 Jan 1970 00:01:00 GMT", 45), pause_of("soon", 0)
    (120.0, 15.0, None)
    """
    if text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER:
        return float(text)
    try:
        date = parsedate_to_datetime(text)
        return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now)
    except (ValueError, OverflowError):
        return None
