"""The state that the endpoints share: the store, open archives, limits, metrics."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request

from whence.columns import Namer
from whence.demangle import demangle
from whence.locate.cache import Cache
from whence.locator.locator import Locator
from whence.server.access import Access
from whence.server.answers import AnswerLines
from whence.server.bodies import BodyBudget, Refusal, accepts_gzip
from whence.server.deadlines import check_deadline, until
from whence.server.listing import Listing
from whence.server.metrics import Metrics, StoreCollector
from whence.server.misses import MissRecorder
from whence.server.parsing import ConfinedParser, NamedProfile
from whence.server.pool import ArchivePool
from whence.server.settings import (
    FORWARD,
    FRESH_SECONDS,
    FRESH_SECONDS_FAR,
    PROFILE,
    SCAN,
    SYMBOLIZE,
    ServerSettings,
)
from whence.server.threads import RolePool
from whence.server.upstream import Upstream, UpstreamSource
from whence.store import Content, Store
from whence.store.folder import Folder
from whence.store.names import DEBUGINFO, ELF_KINDS, EXECUTABLE, is_id, meta_key
from whence.store.source import StoreSource

if TYPE_CHECKING:
    from whence._base.reasons import Missing
    from whence.locate.search import FileQuery
    from whence.locate.sources import Candidate
    from whence.locator.answers import OpenedFile

T = TypeVar("T")
P = ParamSpec("P")

USED_SECONDS = 3600.0  # a build-id is not marked as used again for an hour
CAPACITY = 100_000  # build-ids that are remembered


class Server:
    """The state that the endpoints share."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self._parser = ConfinedParser(settings.limits)
        cache = Cache(settings.cache, settings.cache_bytes) if settings.cache else None
        self.store = Store(settings.store, cache=cache, parser=self._parser, also=settings.also)
        self.source_of_names = self.store.source()
        self.listing = Listing(self.store)
        self.answers = AnswerLines()
        self.metrics = Metrics()
        folder = self.store.objects.root if isinstance(self.store.objects, Folder) else settings.cache
        self.metrics.register(StoreCollector(self.listing.statistics, {"database": str(folder or ".")}))
        self._file_counters = {str(DEBUGINFO): self.metrics.debuginfo, str(EXECUTABLE): self.metrics.executable}
        self.upstream: Upstream | None = None
        sources: list[StoreSource | UpstreamSource] = [self.source_of_names]
        if settings.upstreams:
            waited = self.metrics.waited.observe
            self.upstream = Upstream(self.store, settings, self._parser, self.invalidate, waited)
            sources.append(UpstreamSource(self.upstream, self.source_of_names))
        self.locator = Locator(dirs=settings.debug_dirs, local=False, sources=sources, cache=cache)
        self.misses = MissRecorder(self.store)
        self._used: dict[str, float] = {}
        self._is_near = isinstance(self.store.objects, Folder)  # a look-up takes microseconds
        self._fresh = FRESH_SECONDS if self._is_near else FRESH_SECONDS_FAR
        self._seen: dict[str, tuple[float, str]] = {}  # by build-id: when its meta.json was checked, and the tag
        self.pool = ArchivePool(self.locator, settings.limits.open_archives, self.metrics.archives.set)
        self.access = Access(settings.token_file, open_read=settings.open_read)
        self.readable = demangle
        limits = settings.limits
        threads = {
            SYMBOLIZE: limits.at_once, SCAN: limits.uploads_at_once, FORWARD: limits.at_once,
            PROFILE: limits.profiles_at_once,
        }  # fmt: skip
        self.metrics.add_roles(threads)
        self._pools = {role: RolePool(role, count, self.metrics) for role, count in threads.items()}
        self.bodies = BodyBudget(limits.bodies_bytes)
        self.json_values = BodyBudget(limits.json_values_at_once)
        self._namers: dict[tuple[bool, bool], Namer] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Release everything. Work that has started continues."""
        for pool in self._pools.values():
            pool.close()
        self.listing.close()
        self.misses.flush()
        for namer in self._namers.values():
            namer.close()
        self.pool.close()
        self.locator.close()
        self.store.close()
        self._parser.close()
        self.metrics.close()

    def count(self, request: Request, kind: str) -> None:
        """Count a request of this kind."""
        self.metrics.traffic.count(kind)
        request.scope["whence.kind"] = kind

    async def run(self, role: str, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run `work` on a thread of a role, within the time limit of a request.

        Raises Refusal (503) after that; the thread stays busy until the work ends or calls `check_deadline`.
        """
        limits = self.settings.limits
        seconds = limits.upload_seconds if role == SCAN else limits.seconds
        end = time.monotonic() + seconds

        def timed() -> T:
            with until(end):
                return work(*args, **named)

        try:
            async with asyncio.timeout(seconds):
                return await self._pools[role].run(timed)
        except TimeoutError:
            raise Refusal(503, f"no answer within {seconds:g} seconds", headers={"Retry-After": "30"}) from None

    def namer(self, leaf: bool, returns: bool) -> Namer:
        """Return the namer of tables with these options."""
        with self._lock:
            namer = self._namers.get((leaf, returns))
            if namer is None:
                namer = Namer(locator=self.locator, leaf=leaf, return_addresses=returns, before_file=check_deadline)
                self._namers[leaf, returns] = namer
            return namer

    async def content(self, request: Request, build_id: str, kind: str) -> Content | None:
        """Return a file of the store, or of an upstream server; None if no server has it."""
        gzipped = kind not in ELF_KINDS and accepts_gzip(request)
        if self._is_near and (kind in ELF_KINDS or gzipped):  # else it may have to be decompressed
            content = self._open(build_id, kind, gzipped)
        else:
            content = await run_in_threadpool(self._open, build_id, kind, gzipped)
        where = "store"
        if content is None and self.upstream is not None and kind in ELF_KINDS:
            path = await run_in_threadpool(self.upstream.fetch, build_id, kind, upstream_headers(request))
            if path is not None:
                where = "upstream"
                content = await run_in_threadpool(self._open, build_id, kind)
                content = content or Content.of_file(path, contextlib.ExitStack())
        if content is not None:
            self.count_file(kind, where)
            request.scope["whence.result"] = "file" if where == "store" else where
        return content

    def count_file(self, kind: str, where: str) -> None:
        """Count a file that was found."""
        counter = self._file_counters.get(kind)
        if counter is not None:
            counter.labels(where).inc()

    def _open(self, build_id: str, kind: str, gzipped: bool = False) -> Content | None:
        try:
            content = self.store.open_bytes(build_id, kind, gzipped=gzipped)
        except FileNotFoundError:
            return None
        if content is not None:
            self.note_use(build_id)
        return content

    def note_use(self, build_id: str) -> None:
        """Record that a build-id was used, once an hour."""
        now = time.monotonic()
        if now - self._used.get(build_id, -USED_SECONDS) < USED_SECONDS:
            return
        if len(self._used) >= CAPACITY:
            self._used.clear()
        self._used[build_id] = now
        self.store.used(build_id)

    def invalidate(self, build_id: str) -> None:
        """Drop everything that is cached about a build-id, because a file of it was put."""
        self.source_of_names.forget(build_id)
        self.pool.forget(build_id)
        self.listing.forget()
        self.answers.forget(build_id)
        with self._lock:
            namers = [*self._namers.values()]
        for namer in namers:
            namer.forget(build_id)

    @contextlib.contextmanager
    def opened(self, build_id: str, addresses: int = 1) -> Iterator[OpenedFile | Missing]:
        """Open a block with the file that answers for a build-id, or the reason why it is missing."""
        self.refresh([build_id])
        with self.pool.use(build_id, addresses) as opened:
            yield opened

    def check_build_ids(self, count: int) -> None:
        """Raise Refusal if a request names too many build-ids: each may be searched for in every source."""
        limit = self.settings.limits.build_ids
        if count > limit:
            raise Refusal(413, f"the request has more than {limit} build-ids: split it")

    def named_profile(self, body: bytes, format: str, title: str) -> NamedProfile:
        """Return a profile named in a confined process, in `format` ("": its own). Raises WhenceError, OSError."""
        build_ids: set[str] = set()

        def candidates(query: FileQuery) -> Iterator[Candidate]:
            build_ids.add(query.key)
            self.check_build_ids(len(build_ids))
            check_deadline()
            self.refresh([query.key])
            return self.locator.candidates(query)

        return self._parser.name_profile(body, format, title, candidates)

    def refresh(self, build_ids: Iterable[str]) -> None:
        """Drop what is cached about those build-ids whose files another process has changed."""
        now = time.monotonic()
        for build_id in build_ids:
            check_deadline()
            seen = self._seen.get(build_id)
            if not is_id(build_id) or (seen is not None and now - seen[0] < self._fresh):
                continue
            if len(self._seen) >= CAPACITY:
                self._seen.clear()
            self._seen[build_id] = now, seen[1] if seen is not None else ""  # concurrent requests do not check, too
            with contextlib.suppress(OSError):
                status = self.store.objects.head(meta_key(build_id))
                tag = status.tag if status is not None else ""
                self._seen[build_id] = now, tag
                if seen is not None and seen[1] != tag:
                    self.invalidate(build_id)

    def source(self, request: Request, build_id: str, path: str) -> bytes | None:
        """Return a source file of a bundle, or of an upstream server; None if no server has it."""
        data, where = self.store.read_source(build_id, path), "store"
        if data is None and self.upstream is not None:
            data, where = self.upstream.source(build_id, path, upstream_headers(request)), "upstream"
        if data is not None:
            self.metrics.sources.labels(where).inc()
            request.scope["whence.result"] = "file" if where == "store" else where
        return data


def upstream_headers(request: Request) -> dict[str, str]:
    """Return the headers that identify the client to an upstream server: User-Agent and X-Forwarded-For."""
    client = [request.client.host] if request.client is not None else []
    headers = {"X-Forwarded-For": ", ".join([*forwarders_of(request.headers), *client])}
    agent = request.headers.get("user-agent", "")
    return headers | ({"User-Agent": agent} if agent.isascii() and agent.isprintable() and agent else {})


def forwarders_of(headers: Headers) -> list[str]:
    """Return the addresses of a request's X-Forwarded-For header."""
    hops = ",".join(headers.getlist("x-forwarded-for"))
    return [hop.strip() for hop in hops.split(",") if hop.strip()]
