"""A debuginfod client: the debug file or the executable of a build-id, from servers a person named.

Nothing is asked unless someone made a client, and `log` gets every request before anything leaves. Servers are asked
in order. A download is refused when it grows too large or too slow, and becomes an entry of the cache only when
it is whole and carries the build-id that was asked for. One that was cut continues where the server says of its file
by a validator (ETag, Last-Modified: RFC 9110, 13.1.5), the file is the same still, and the last bytes of what is here
come again. A server that does not answer is left alone for a while, and so is a build-id it does not have. `allow`
decides which build-ids may leave the machine.

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
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote, urlsplit

from whence._base.closing import Closing
from whence._base.errors import WhenceError, WrongUse
from whence._base.files import atomic_write, open_folder, publish
from whence._base.records import Record
from whence.locate.cache import ABSENT, DEAD, ORIGIN, PART, SERVERS, Cache, CutError, check, is_own, open_own
from whence.locate.http import Deadline, pool

if TYPE_CHECKING:
    import urllib3

    from whence.locate.http import Deadline

BUILD_ID = re.compile(r"[0-9a-f]{4,128}")
KINDS = ("debuginfo", "executable")
CHUNK = 1 << 16
OVERLAP = 1 << 12  # bytes of a cut download that are asked for again, to compare
LONGEST_SOURCE = 1 << 26  # bytes of a source file
REMEMBERED_SOURCES = 10_000  # that no server had
LONGEST_NUMBER = 18  # digits of a length
LONGEST_VALIDATOR = 256
CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
HOST = re.compile(r"(?=.{1,253}$)[0-9A-Za-z_]([0-9A-Za-z_-]{0,62})(\.[0-9A-Za-z_][0-9A-Za-z_-]{0,62})*\.?")


class Limits(Record, frozen=True):
    """How long to wait, in seconds, and how much to take, in bytes."""

    connect: float = 5.0
    silence: float = 30.0  # without a byte
    head: float = 90.0  # until the status and the headers are whole
    whole: float = 600.0  # for one file
    size: int = 4 << 30
    tries: int = 3
    back_off: float = 0.5  # before the second try; doubled for each one after
    dead: float = 300.0  # how long a server that failed is left alone
    absent: float = 3600.0  # how long a 404 is remembered


class Refused(Exception):
    """Why one server gave no file. `again` says whether another try may help, `dead` whether the server is to blame."""

    def __init__(self, why: str, *, again: bool = False, dead: bool = False) -> None:
        super().__init__(why)
        self.again, self.dead = again, dead


class Origin(Record, frozen=True):
    """What a server said of a file that it began to send: its size in bytes, and what changes when the file does."""

    size: int
    validator: str

    @classmethod
    def of(cls, response: urllib3.BaseHTTPResponse, size: int) -> Origin | None:
        """None when the answer has no validator that distinguishes one file from another."""
        tag = response.headers.get("ETag", "")
        validator = tag if tag.startswith('"') else response.headers.get("Last-Modified", "")
        usable = validator.isascii() and validator.isprintable() and len(validator) <= LONGEST_VALIDATOR
        return cls(size, validator) if validator and usable else None

    @classmethod
    def read(cls, path: Path) -> Origin | None:
        """What `write` kept; None when there is nothing of the kind."""
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


def checked_server(url: str) -> str:
    """A server's address, without a slash at its end. Raises WrongUse when it is none that can be asked."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        if ":" in host:
            ipaddress.IPv6Address(host)
        good = (
            url.isascii()
            and url.isprintable()
            and " " not in url
            and parts.scheme in ("http", "https")
            and (":" in host or HOST.fullmatch(host) is not None)
            and port != 0
            and not (parts.query or parts.fragment)
        )
    except ValueError:
        good = False
    if not good:
        raise WrongUse(f"a debuginfod server is an http:// or https:// address, not {url!r}")
    return url.rstrip("/")


class Discarded(Refused):
    """The same, and what has arrived of the file is of no use."""


def allowing(patterns: Sequence[str]) -> Callable[[str, str], bool]:
    """An allow-list of shell patterns, matched against build-ids and paths.

    >>> allow = allowing(["/usr/*"])
    >>> allow("ab12", "/usr/lib/libc.so.6"), allow("ab12", "/home/me/secret")
    (True, False)
    """
    return lambda build_id, path: any(
        fnmatch.fnmatchcase(build_id, one) or fnmatch.fnmatchcase(path, one) for one in patterns
    )


class Debuginfod(Closing):
    """A client for some servers, with what they gave in `cache`."""

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
        """`verify` reads through what came, of a build-id and kind, and raises OSError or WhenceError for what is not
        that file."""
        self.servers = [checked_server(one) for one in servers]
        self.cache = cache
        self.limits = limits or Limits()
        self.allow = allow
        self.log = log
        self._sleep = sleep
        self._check = verify
        self._pool: urllib3.PoolManager | None = None
        self._no_source: dict[tuple[str, str, str], float] = {}  # server, build-id and path: when it was asked

    def fetch(
        self, build_id: str, kind: str = "debuginfo", path: str = "", headers: Mapping[str, str] | None = None
    ) -> Path | None:
        """The file, from the cache or the first server that has it; None when there is none.

        `path` is where the binary was mapped from, for the allow-list only: it is not sent. `headers` are sent, besides
        the client's own.
        """
        build_id = build_id.lower()
        if kind not in KINDS:
            raise ValueError(f"debuginfod is asked for {' or '.join(KINDS)}, not {kind!r}")
        if not BUILD_ID.fullmatch(build_id):
            self.log(f"debuginfod: {build_id!r} is no build-id, not asked")
            return None
        key = f"{build_id}.{kind}"
        found = self.cache.get(key)
        if found is not None:
            return found
        if not self.allow(build_id, path):
            self.log(f"debuginfod: {build_id} is not on the allow-list, not asked")
            return None
        for server in self.servers:
            for note, seconds, why in (
                (self._dead(server), self.limits.dead, "did not answer"),
                (self._absent(key, server), self.limits.absent, "did not have it"),
            ):
                if self._recent(note, seconds):
                    self.log(f"debuginfod: {server} {why} a while ago, not asked for {build_id}")
                    break
            else:
                found = self._from(server, build_id, kind, headers)
                if found is not None:
                    return found
        return None

    def read_source(
        self, build_id: str, path: str, headers: Mapping[str, str] | None = None, most: int = LONGEST_SOURCE
    ) -> bytes | None:
        """A source file, by the absolute path that the debug info names, from the first server that has it; None when
        there is none. It is read into memory and not kept: nothing shows whether it is the right one."""
        build_id = build_id.lower()
        if not BUILD_ID.fullmatch(build_id) or not path.startswith("/") or not self.allow(build_id, path):
            return None
        for server in self.servers:
            asked = server, build_id, path
            if self._recent(self._dead(server), self.limits.dead):
                continue
            if time.monotonic() - self._no_source.get(asked, -self.limits.absent) < self.limits.absent:
                continue
            try:
                return self._read(f"{server}/buildid/{build_id}/source{quote(path)}", most, headers)
            except Refused as refused:
                self.log(f"debuginfod: {server} {build_id}: {refused}")
                if refused.dead:
                    self._touch(self._dead(server))
                    continue
                if len(self._no_source) >= REMEMBERED_SOURCES:
                    self._no_source.clear()
                self._no_source[asked] = time.monotonic()
        return None

    def _read(self, url: str, most: int, more: Mapping[str, str] | None) -> bytes:
        """An answer, whole. Raises Refused."""
        headers = {"User-Agent": "whence", **(more or {}), "Accept-Encoding": "identity"}
        self.log(f"debuginfod: GET {url}")
        with Deadline(self.limits.head) as deadline:
            response = self._answer(url, headers, deadline)
            try:
                if response.status != HTTPStatus.OK:
                    raise Refused(f"status {response.status}")
                content = bytearray()
                for chunk in self._chunks(response, deadline):
                    content += chunk
                    if len(content) > most:
                        raise Refused(f"more than the {most} bytes allowed")
            finally:
                response.close()
        length = length_of(response.headers.get("Content-Length", ""))
        if length is not None and length != len(content):
            raise Refused(f"cut after {len(content)} of {length} bytes")
        return bytes(content)

    def _from(self, server: str, build_id: str, kind: str, headers: Mapping[str, str] | None) -> Path | None:
        """One server, tried as often as the limits say."""
        key = f"{build_id}.{kind}"
        for attempt in range(self.limits.tries):
            if attempt:
                self._sleep(self.limits.back_off * 2 ** (attempt - 1))
            try:
                with self.cache.locked(key):
                    found = self.cache.get(key)
                    if found is None:
                        found = self._download(server, build_id, kind, headers)
                self.cache.trim(keep=found)
                return found
            except Refused as refused:
                self.log(f"debuginfod: {server} {build_id}: {refused}")
                if refused.again and attempt + 1 < self.limits.tries:
                    continue
                self._touch(self._dead(server) if refused.dead else self._absent(key, server))
                return None
            except OSError as error:  # our disk's fault, not the server's; nothing is remembered of it
                self.log(f"debuginfod: {build_id} can't be kept in {self.cache.root} ({error.strerror or error})")
                with suppress(OSError):  # a full disk gets its room back
                    self.cache.folder(key[:2], make=False)
                    self._part(server, key).unlink()
                return None
        return None

    def _download(self, server: str, build_id: str, kind: str, more: Mapping[str, str] | None) -> Path:
        """The whole file into the cache, from where an earlier try was cut. The shard's lock is held."""
        path = self.cache.path(f"{build_id}.{kind}")
        part, kept = self._part(server, path.name), self._origin(server, path.name)
        url = f"{server}/buildid/{build_id}/{kind}"
        headers = {"User-Agent": "whence", **(more or {}), "Accept-Encoding": "identity"}
        with os.fdopen(open_own(part), "r+b") as file:
            have = file.seek(0, os.SEEK_END)
            origin = Origin.read(kept)
            start = have - OVERLAP if origin is not None and OVERLAP < have < origin.size else 0
            if start and origin is not None:
                headers |= {"Range": f"bytes={start}-", "If-Range": origin.validator}
            self.log(f"debuginfod: GET {url}" + (f" from byte {start}" if start else ""))
            began = time.monotonic()
            try:
                with Deadline(min(self.limits.head, self.limits.whole)) as deadline:
                    response = self._answer(url, headers, deadline)
                    try:
                        deadline.extend(self.limits.whole - (time.monotonic() - began))
                        self._receive(response, file, kept, start, origin, deadline)
                    finally:
                        response.close()
                self._verify(part, build_id, kind, continued=start > 0)
            except Refused as refused:
                if isinstance(refused, Discarded) or not kept.exists():  # without that it can't be continued
                    for one in (part, kept):
                        one.unlink(missing_ok=True)
                raise
            folder = open_folder(os.fspath(path.parent))
            if folder is None:
                publish(file, os.fspath(part), os.fspath(path))
            else:
                try:
                    publish(file, part.name, path.name, folder)
                finally:
                    os.close(folder)
        kept.unlink(missing_ok=True)
        self.log(f"debuginfod: {url}: {path.stat().st_size} bytes in {time.monotonic() - began:.1f} s")
        return path

    def _answer(self, url: str, headers: dict[str, str], deadline: Deadline) -> urllib3.BaseHTTPResponse:
        """The status and the headers of an answer, its body still to come."""
        from urllib3.exceptions import HTTPError

        try:
            return self._http().request("GET", url, headers=headers, preload_content=False, redirect=False)
        except (HTTPError, http.client.HTTPException, OSError, ValueError) as error:
            if deadline.expired:
                raise Refused("no whole answer in time", dead=True) from error
            raise Refused(f"no answer ({type(error).__name__})", again=True, dead=True) from error

    def _chunks(self, response: urllib3.BaseHTTPResponse, deadline: Deadline) -> Iterator[bytes]:
        """The body as it comes. Refused when it is cut, or not whole in time."""
        from urllib3.exceptions import HTTPError

        late = Refused(f"not whole after {self.limits.whole:.0f} s", dead=True)
        while True:
            try:
                chunk = response.read1(CHUNK, decode_content=False)
            except (HTTPError, http.client.HTTPException, OSError, ValueError) as error:
                cut = Refused(f"cut ({type(error).__name__})", again=True, dead=True)
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
        kept: Path,
        start: int,
        origin: Origin | None,
        deadline: Deadline,
    ) -> None:
        """The body into the file, behind what is there; the status, the length and the limits checked."""
        status = response.status
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise Discarded("it does not continue what was cut", again=True)
        if status == HTTPStatus.NOT_FOUND:
            raise Refused("404, it does not have it")
        if (
            status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
            or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        ):
            raise Refused(f"status {status}", again=True, dead=True)
        if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise Refused(f"status {status}")
        chunks = self._chunks(response, deadline)
        limit = self.limits.size
        if status == HTTPStatus.PARTIAL_CONTENT:
            self._must_continue(response, start, origin)
            length = origin.size if origin is not None else None
            have = file.seek(start)
            before = file.read()
            file.seek(start)
        else:
            have = file.seek(0)
            before = b""
            length = length_of(response.headers.get("Content-Length", ""))
            if length is not None and length > limit:
                raise Discarded(f"its length is more than the {limit} allowed")
            file.truncate(0)
            kept.unlink(missing_ok=True)
            origin = Origin.of(response, length) if length is not None else None
            if origin is not None:
                origin.write(kept)
        for chunk in chunks:
            again = before[: len(chunk)]
            if not chunk.startswith(again):
                raise Discarded("it continues with other bytes", again=True)
            before = before[len(again) :]
            have += len(chunk)
            if have > limit:
                raise Discarded(f"more than the {limit} bytes allowed")
            file.write(chunk)
        file.flush()
        if before or (length is not None and have < length):
            raise Refused(f"cut after {have} of {length} bytes", again=True, dead=True)

    @staticmethod
    def _must_continue(response: urllib3.BaseHTTPResponse, start: int, origin: Origin | None) -> None:
        """An answer of 206 has to be the rest of the file that was begun, from the byte that was asked for."""
        content_range = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if not start or origin is None:
            raise Discarded("it sends a part of the file, and all of it was asked for", again=True)
        if content_range is None or tuple(map(int, content_range.groups())) != (start, origin.size - 1, origin.size):
            raise Discarded("it continues at another byte than asked, or another file", again=True)
        now = Origin.of(response, origin.size)
        if now is not None and now != origin:
            raise Discarded("it continues another file", again=True)

    def _verify(self, part: Path, build_id: str, kind: str, continued: bool) -> None:
        """Throw away what is not the file. Of one that was `continued` the older part may be to blame: once more."""
        try:
            self._check(part, build_id, kind)
        except CutError as error:
            raise Discarded(f"what arrived was thrown away: {error}", again=True) from error
        except (WhenceError, OSError) as error:
            raise Discarded(f"what arrived was thrown away: {error}", again=continued) from error

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

    # what is remembered about servers: empty files whose time is when it happened

    def _dead(self, server: str) -> Path:
        return self.cache.root / SERVERS / f"{mark(server)}{DEAD}"

    def _part(self, server: str, key: str) -> Path:
        return self.cache.path(key).with_name(f"{key}.{mark(server)}{PART}")

    def _origin(self, server: str, key: str) -> Path:
        return self.cache.path(key).with_name(f"{key}.{mark(server)}{ORIGIN}")

    def _absent(self, key: str, server: str) -> Path:
        return self.cache.path(key).with_name(f"{key}.{mark(server)}{ABSENT}")

    def _recent(self, note: Path, seconds: float) -> bool:
        try:
            self.cache.folder(note.parent.name, make=False)
            return abs(time.time() - note.lstat().st_mtime) < seconds  # a clock set back must not keep it for ever
        except OSError:
            return False

    def _touch(self, note: Path) -> None:
        with suppress(OSError):  # a full disk forgets
            self.cache.folder(note.parent.name)
            descriptor = open_own(note)
            os.close(descriptor)
            os.utime(note)


def mark(server: str) -> str:
    """A server's name as part of a file's name."""
    return hashlib.sha256(server.encode()).hexdigest()[:12]


def length_of(announced: str) -> int | None:
    """A Content-Length in bytes; None when there is none. One with too many digits is larger than any file."""
    if not (announced.isascii() and announced.isdecimal()):
        return None
    digits = announced.lstrip("0") or "0"
    return int(digits) if len(digits) <= LONGEST_NUMBER else 1 << 63
