"""What the endpoints share: the store, what is open of it, limits, counts."""

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
from whence.server.metrics import Held, Metrics
from whence.server.misses import Misses
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
from whence.server.threads import Workers
from whence.server.upstream import Upstream, UpstreamSource
from whence.store import Content, Store
from whence.store.folder import Folder
from whence.store.names import ARCHIVE, DEBUGINFO, ELF_KINDS, EXECUTABLE, is_id, meta_key
from whence.store.source import StoreSource

if TYPE_CHECKING:
    from whence._base.reasons import Missing
    from whence.locate.search import Opened, Wanted
    from whence.locate.sources import Candidate

T = TypeVar("T")
P = ParamSpec("P")

USED_SECONDS = 3600.0  # so long it is not written down again that a build-id answered
REMEMBERED = 100_000  # build-ids


class Server:
    """What the endpoints share: the store, what is open of it, limits, counts."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self._parser = ConfinedParser(settings.limits)
        cache = Cache(settings.cache, settings.cache_bytes) if settings.cache else None
        self.store = Store(settings.store, cache=cache, parser=self._parser)
        self.source_of_names = self.store.source()
        self.listing = Listing(self.store)
        self.answers = AnswerLines()
        self.metrics = Metrics()
        folder = self.store.objects.root if isinstance(self.store.objects, Folder) else settings.cache
        self.metrics.registry.register(Held(self.listing.statistics, {"database": str(folder or ".")}))
        self._found = {str(DEBUGINFO): self.metrics.debuginfo, str(EXECUTABLE): self.metrics.executable}
        self.upstream: Upstream | None = None
        sources: list[StoreSource | UpstreamSource] = [self.source_of_names]
        if settings.upstreams:
            self.upstream = Upstream(self.store, settings, self._parser, self.came, self.metrics.waited.observe)
            sources.append(UpstreamSource(self.upstream, self.source_of_names))
        self.locator = Locator(dirs=settings.debug_dirs, local=False, sources=sources, cache=cache)
        self.misses = Misses(self.store)
        self._used: dict[str, float] = {}
        self._is_near = isinstance(self.store.objects, Folder)  # then a look takes microseconds
        self._fresh = FRESH_SECONDS if self._is_near else FRESH_SECONDS_FAR
        self._seen: dict[str, tuple[float, str]] = {}  # when a build-id was looked at, and its tag then
        self.pool = ArchivePool(self.locator, settings.limits.open_archives)
        self.access = Access(settings.token_file, open_read=settings.open_read)
        self.metrics.archives.set_function(lambda: len(self.pool))
        self.readable = demangle
        limits = settings.limits
        most = {
            SYMBOLIZE: limits.at_once, SCAN: limits.uploads_at_once, FORWARD: limits.at_once,
            PROFILE: limits.profiles_at_once,
        }  # fmt: skip
        self.metrics.roles(most)
        self._workers = {role: Workers(role, count, self.metrics) for role, count in most.items()}
        self.bodies = BodyBudget(limits.bodies_bytes)
        self.json_values = BodyBudget(limits.json_values_at_once)
        self._namers: dict[tuple[bool, bool], Namer] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        for one in self._workers.values():
            one.close()
        self.listing.close()
        self.misses.flush()
        for namer in self._namers.values():
            namer.close()
        self.pool.close()
        self.locator.close()
        self.store.close()
        self._parser.close()

    def count(self, request: Request, kind: str) -> None:
        """Note what kind of request it is."""
        self.metrics.traffic.requests[kind] += 1
        request.scope["whence.kind"] = kind

    async def heavy(self, role: str, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Do what takes a processor, or waits for others, in a thread; as many of a role at once as the limits say.
        Raises Refusal when it takes longer than they say: the thread ends what it does and keeps its place until
        then, or until it calls check_deadline."""
        limits = self.settings.limits
        seconds = limits.upload_seconds if role == SCAN else limits.seconds
        end = time.monotonic() + seconds

        def timed() -> T:
            with until(end):
                return work(*args, **named)

        try:
            async with asyncio.timeout(seconds):
                return await self._workers[role].run(timed)
        except TimeoutError:
            raise Refusal(503, f"no answer within {seconds:g} seconds", headers={"Retry-After": "30"}) from None

    def namer(self, leaf: bool, returns: bool) -> Namer:
        """The namer of tables with these options."""
        with self._lock:
            found = self._namers.get((leaf, returns))
            if found is None:
                found = Namer(locator=self.locator, leaf=leaf, return_addresses=returns, before_file=check_deadline)
                self._namers[leaf, returns] = found
            return found

    async def content(self, request: Request, build_id: str, kind: str) -> Content | None:
        """A file of the store; from upstream where it is not there, and an upstream has it. None: nobody has it."""
        gzipped = kind == ARCHIVE and accepts_gzip(request)
        if self._is_near and (kind != ARCHIVE or gzipped):  # else it may have to be decompressed
            found = self._open(build_id, kind, gzipped)
        else:
            found = await run_in_threadpool(self._open, build_id, kind, gzipped)
        where = "store"
        if found is None and self.upstream is not None and kind in ELF_KINDS:
            path = await run_in_threadpool(self.upstream.fetch, build_id, kind, passed_on(request))
            if path is not None:
                where = "upstream"
                found = await run_in_threadpool(self._open, build_id, kind)
                found = found or Content.of_file(path, contextlib.ExitStack())
        if found is not None:
            self.found(kind, where)
            request.scope["whence.result"] = "file" if where == "store" else where
        return found

    def found(self, kind: str, where: str) -> None:
        """Count a file that was found."""
        metric = self._found.get(kind)
        if metric is not None:
            metric.labels(where).inc()

    def _open(self, build_id: str, kind: str, gzipped: bool = False) -> Content | None:
        try:
            found = self.store.open_bytes(build_id, kind, gzipped=gzipped)
        except FileNotFoundError:
            return None
        if found is not None:
            self.note_use(build_id)
        return found

    def note_use(self, build_id: str) -> None:
        """Write down that a build-id answered, once an hour."""
        now = time.monotonic()
        if now - self._used.get(build_id, -USED_SECONDS) < USED_SECONDS:
            return
        if len(self._used) >= REMEMBERED:
            self._used.clear()
        self._used[build_id] = now
        self.store.used(build_id)

    def came(self, build_id: str) -> None:
        """A file of a build-id was put: what was known of it here is not true any more."""
        self.source_of_names.forget(build_id)
        self.pool.forget(build_id)
        self.listing.forget()
        self.answers.forget(build_id)
        with self._lock:
            namers = [*self._namers.values()]
        for namer in namers:
            namer.forget(build_id)

    @contextlib.contextmanager
    def opened(self, build_id: str, addresses: int = 1) -> Iterator[Opened | Missing]:
        """What answers for a build-id, open within the block; or why nothing does."""
        self.refresh([build_id])
        with self.pool.use(build_id, addresses) as found:
            yield found

    def check_build_ids(self, count: int) -> None:
        """Refuse a request that names too many of them: each may be searched for in every source. Raises Refusal."""
        most = self.settings.limits.build_ids
        if count > most:
            raise Refusal(413, f"more than {most} build-ids: ask for fewer at once")

    def named_profile(self, body: bytes, format: str, title: str) -> NamedProfile:
        """Return a profile named in a confined process, in `format` ("": as it came). Raises WhenceError, OSError."""

        build_ids: set[str] = set()

        def candidates(wanted: Wanted) -> Iterator[Candidate]:
            build_ids.add(wanted.key)
            self.check_build_ids(len(build_ids))
            check_deadline()
            self.refresh([wanted.key])
            return self.locator.candidates(wanted)

        return self._parser.name_profile(body, format, title, candidates)

    def refresh(self, build_ids: Iterable[str]) -> None:
        """Drop what is known of those of these build-ids that another process has put something of."""
        now = time.monotonic()
        for build_id in build_ids:
            check_deadline()
            known = self._seen.get(build_id)
            if not is_id(build_id) or (known is not None and now - known[0] < self._fresh):
                continue
            with contextlib.suppress(OSError):
                status = self.store.objects.head(meta_key(build_id))
                tag = status.tag if status is not None else ""
                if len(self._seen) >= REMEMBERED:
                    self._seen.clear()
                self._seen[build_id] = now, tag
                if known is not None and known[1] != tag:
                    self.came(build_id)

    def source(self, request: Request, build_id: str, path: str) -> bytes | None:
        """A source file of a bundle; from upstream where there is none."""
        found, where = self.store.read_source(build_id, path), "store"
        if found is None and self.upstream is not None:
            found, where = self.upstream.source(build_id, path, passed_on(request)), "upstream"
        if found is not None:
            self.metrics.sources.labels(where).inc()
            request.scope["whence.result"] = "file" if where == "store" else where
        return found


def passed_on(request: Request) -> dict[str, str]:
    """The headers that pass on to upstream who asks: the User-Agent, and the address behind those that came."""
    client = [request.client.host] if request.client is not None else []
    headers = {"X-Forwarded-For": ", ".join([*forwarders_of(request.headers), *client])}
    agent = request.headers.get("user-agent", "")
    return headers | ({"User-Agent": agent} if agent.isascii() and agent.isprintable() and agent else {})


def forwarders_of(headers: Headers) -> list[str]:
    """The servers and clients that a request came by."""
    hops = ",".join(headers.getlist("x-forwarded-for"))
    return [one.strip() for one in hops.split(",") if one.strip()]
