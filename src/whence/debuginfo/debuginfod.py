"""A debuginfod client: the debug file or the executable of a build-id, from servers a person named.

Nothing is asked unless someone made a client, and every request is told to `log` before anything leaves. Servers are
asked in order. A download continues where it was cut, is refused when it grows too large or too slow, and becomes an
entry of the cache only when it is whole and carries the build-id that was asked for. A server that does not answer is
left alone for a while, and so is a build-id it does not have. `allow` decides which build-ids may leave the machine.

Protocol: GET SERVER/buildid/BUILDID/debuginfo or /executable (debuginfod(8)).
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whence.debuginfo.cache import ABSENT, PART, Cache
from whence.elf import ElfFile
from whence.errors import WhenceError

if TYPE_CHECKING:
    import urllib3

BUILD_ID = re.compile(r"[0-9a-f]{4,128}")
KINDS = ("debuginfo", "executable")
CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait, in seconds, and how much to take, in bytes."""

    connect: float = 5.0
    silence: float = 30.0  # without a byte
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


def allowing(patterns: Sequence[str]) -> Callable[[str, str], bool]:
    """An allow-list of shell patterns, matched against build-ids and paths.

    >>> allow = allowing(["/usr/*"])
    >>> allow("ab12", "/usr/lib/libc.so.6"), allow("ab12", "/home/me/secret")
    (True, False)
    """
    return lambda build_id, path: any(
        fnmatch.fnmatchcase(build_id, one) or fnmatch.fnmatchcase(path, one) for one in patterns
    )


class Debuginfod:
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
    ) -> None:
        self.servers = [one.rstrip("/") for one in servers]
        self.cache = cache
        self.limits = limits or Limits()
        self.allow = allow
        self.log = log
        self._sleep = sleep
        self._pool: urllib3.PoolManager | None = None

    def fetch(self, build_id: str, kind: str = "debuginfo", path: str = "") -> Path | None:
        """The file, from the cache or the first server that has it; None when there is none.

        `path` is where the binary was mapped from, for the allow-list only: it is not sent.
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
                if recent(note, seconds):
                    self.log(f"debuginfod: {server} {why} a while ago, not asked for {build_id}")
                    break
            else:
                found = self._from(server, build_id, kind)
                if found is not None:
                    return found
        return None

    def _from(self, server: str, build_id: str, kind: str) -> Path | None:
        """One server, tried as often as the limits say."""
        key = f"{build_id}.{kind}"
        for attempt in range(self.limits.tries):
            if attempt:
                self._sleep(self.limits.back_off * 2 ** (attempt - 1))
            try:
                with self.cache.locked(key):
                    found = self.cache.get(key)
                    if found is None:
                        found = self._download(server, build_id, kind)
                self.cache.trim(keep=found)
                return found
            except Refused as refused:
                self.log(f"debuginfod: {server} {build_id}: {refused}")
                if refused.again and attempt + 1 < self.limits.tries:
                    continue
                touch(self._dead(server) if refused.dead else self._absent(key, server))
                return None
            except OSError as error:  # our disk's fault, not the server's; nothing is remembered of it
                self.log(f"debuginfod: {build_id} can't be kept in {self.cache.root} ({error.strerror or error})")
                with suppress(OSError):  # a full disk gets its room back
                    self._part(server, key).unlink()
                return None
        return None

    def _download(self, server: str, build_id: str, kind: str) -> Path:
        """The whole file into the cache, from where an earlier try was cut."""
        import urllib3

        path = self.cache.path(f"{build_id}.{kind}")
        part = self._part(server, path.name)
        have = part.stat().st_size if part.exists() else 0
        url = f"{server}/buildid/{build_id}/{kind}"
        headers = {"User-Agent": "whence", "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        self.log(f"debuginfod: GET {url}" + (f" from byte {have}" if have else ""))
        began = time.monotonic()
        try:
            response = self._http().request("GET", url, headers=headers, preload_content=False, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            raise Refused(f"no answer ({type(error).__name__})", again=True, dead=True) from error
        try:
            self._receive(response, part, have, began)
        except urllib3.exceptions.HTTPError as error:
            raise Refused(f"cut ({type(error).__name__})", again=True, dead=True) from error
        finally:
            response.close()
        self._verify(part, build_id, continued=have > 0)
        os.replace(part, path)
        self.log(f"debuginfod: {url}: {path.stat().st_size} bytes in {time.monotonic() - began:.1f} s")
        return path

    def _receive(self, response: urllib3.BaseHTTPResponse, part: Path, have: int, began: float) -> None:
        """The body behind what is there; the status, the length and the limits checked."""
        status = response.status
        if status == 416:
            part.unlink(missing_ok=True)
            raise Refused("it does not continue what was cut", again=True)
        if status == 404:
            raise Refused("404, it does not have it")
        if status in (408, 429) or status >= 500:
            raise Refused(f"status {status}", again=True, dead=True)
        if status not in (200, 206):
            raise Refused(f"status {status}")
        if status == 206 and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink(missing_ok=True)
            raise Refused("it continues at another byte than asked", again=True)
        if status == 200:
            have = 0
        announced = response.headers.get("Content-Length", "")
        length = have + int(announced) if announced.isdecimal() else None
        limit = self.limits.size
        if length is not None and length > limit:
            raise Refused(f"{length} bytes, more than the {limit} allowed")
        with open(part, "ab" if have else "wb") as file:
            while chunk := response.read1(CHUNK, decode_content=False):
                have += len(chunk)
                if have > limit:
                    file.truncate(0)
                    raise Refused(f"more than the {limit} bytes allowed")
                file.write(chunk)
                if time.monotonic() - began > self.limits.whole:
                    raise Refused(f"not whole after {self.limits.whole:.0f} s", dead=True)
        if length is not None and have < length:
            raise Refused(f"cut after {have} of {length} bytes", again=True, dead=True)

    def _verify(self, part: Path, build_id: str, continued: bool) -> None:
        """Throw away what is not the file. Of one that was `continued` the older part may be to blame: once more."""
        try:
            with ElfFile.open(part) as elf:
                found = elf.build_id
                end = max((one.file_offset + one.size for one in elf.sections if one.in_file), default=0)
                cut = (
                    bool(elf.problems) or end > elf.size
                )  # a length that was announced too short cuts the last sections
        except (WhenceError, OSError) as error:
            part.unlink(missing_ok=True)
            raise Refused(f"what arrived is no ELF file ({error})", again=continued) from error
        if cut:
            part.unlink(missing_ok=True)
            raise Refused("what arrived is not the whole file, thrown away", again=True)
        if found != build_id:
            part.unlink(missing_ok=True)
            raise Refused(f"what arrived has build-id {found or 'none'}, thrown away", again=continued)

    def _http(self) -> urllib3.PoolManager:
        if self._pool is None:
            import urllib3

            timeout = urllib3.Timeout(connect=self.limits.connect, read=self.limits.silence)
            self._pool = urllib3.PoolManager(retries=False, timeout=timeout)
        return self._pool

    def close(self) -> None:
        if self._pool is not None:
            self._pool.clear()

    # what is remembered about servers: empty files whose time is when it happened

    def _dead(self, server: str) -> Path:
        return self.cache.root / "servers" / f"{mark(server)}.dead"

    def _part(self, server: str, key: str) -> Path:
        return self.cache.path(key).with_name(f"{key}.{mark(server)}{PART}")

    def _absent(self, key: str, server: str) -> Path:
        return self.cache.path(key).with_name(f"{key}.{mark(server)}{ABSENT}")


def mark(server: str) -> str:
    """A server's name as part of a file's name."""
    return hashlib.sha256(server.encode()).hexdigest()[:12]


def recent(note: Path, seconds: float) -> bool:
    try:
        return abs(time.time() - note.stat().st_mtime) < seconds  # a clock that was set back must not keep it for ever
    except OSError:
        return False


def touch(note: Path) -> None:
    with suppress(OSError):  # a full disk forgets
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
