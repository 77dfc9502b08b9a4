"""The application: what every request has in common, and the routes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, ParamSpec, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whence.columns import Namer
from whence.demangle import demangle
from whence.errors import plain
from whence.locate.locator import Locator
from whence.locate.search import FileKind
from whence.server.access import ADMIN, READ, UPLOAD, Access
from whence.server.bodies import Refused
from whence.server.debuginfod import Debuginfod
from whence.server.metrics import CONTENT_TYPE, Metrics
from whence.server.misses import Misses
from whence.server.naming import Naming
from whence.server.page import Page
from whence.server.pool import ArchivePool
from whence.server.settings import ServerSettings
from whence.server.symbolication import Symbolication
from whence.server.uploads import PYROSCOPE, Uploads
from whence.server.upstream import Upstream, UpstreamSource
from whence.store import Content, Store
from whence.store.folder import Folder
from whence.store.names import DEBUGINFO, ELF_KINDS, EXECUTABLE
from whence.store.source import StoreSource

T = TypeVar("T")
P = ParamSpec("P")

ACCESS_LOG = logging.getLogger("whence.access")
LOG = logging.getLogger("whence")
CORS = {"Access-Control-Allow-Origin": "*"}
PREFLIGHT = {
    "Access-Control-Allow-Methods": "POST, GET, OPTIONS", "Access-Control-Max-Age": "86400",
    "Access-Control-Allow-Headers": "cache-control",
}  # fmt: skip
SPELLED = {b"etag": b"ETag", b"www-authenticate": b"WWW-Authenticate"}
OPEN_PATHS = ("/healthz", "/readyz")
USED_SECONDS = 3600.0  # so long it is not written down again that a build-id answered
REMEMBERED = 100_000  # build-ids


class Server:
    """What the endpoints share: the store, what is open of it, limits, counts."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.store = Store(settings.store, cache=settings.cache or None)
        self.source_of_names = self.store.source()
        self.metrics = Metrics()
        self.upstream: Upstream | None = None
        sources: list[StoreSource | UpstreamSource] = [self.source_of_names]
        if settings.upstreams:
            self.upstream = Upstream(self.store, settings, self.came, self.metrics.waited.observe)
            sources.append(UpstreamSource(self.upstream, self.source_of_names))
        self.locator = Locator(dirs=settings.debug_dirs, local=False, sources=sources, cache=settings.cache or None)
        self.misses = Misses(self.store)
        self._used: dict[str, float] = {}
        self._is_near = isinstance(self.store.objects, Folder)  # then a look takes microseconds
        self.pool = ArchivePool(self.locator, settings.limits.open_archives)
        self.access = Access(settings.token_file, open_read=settings.open_read)
        self.metrics.archives.set_function(lambda: len(self.pool))
        self.readable = demangle
        self._at_once = asyncio.Semaphore(settings.limits.at_once)
        self._namers: dict[tuple[bool, bool], Namer] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        self.misses.flush()
        for namer in self._namers.values():
            namer.close()
        self.pool.close()
        self.locator.close()
        self.store.close()

    def count(self, request: Request, kind: str) -> None:
        """Note what kind of request it is."""
        self.metrics.requests.labels(kind).inc()
        request.scope["whence.kind"] = kind

    async def heavy(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Do what takes a processor in a thread, as many at once as the limits say. Raises Refused when it takes longer
        than they say: the thread ends what it does and keeps its place until then."""

        async def run() -> T:
            async with self._at_once:
                self.metrics.busy.labels("symbolize").inc()
                try:
                    return await run_in_threadpool(work, *args, **named)
                finally:
                    self.metrics.busy.labels("symbolize").dec()

        seconds = self.settings.limits.seconds
        task = asyncio.ensure_future(run())
        try:
            return await asyncio.wait_for(asyncio.shield(task), seconds)
        except TimeoutError:
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise Refused(503, f"no answer within {seconds:g} seconds", headers={"Retry-After": "30"}) from None

    def namer(self, leaf: bool, returns: bool) -> Namer:
        """The namer of tables with these options."""
        with self._lock:
            found = self._namers.get((leaf, returns))
            if found is None:
                found = Namer(locator=self.locator, leaf=leaf, return_addresses=returns)
                self._namers[leaf, returns] = found
            return found

    async def content(self, request: Request, build_id: str, kind: str) -> Content | None:
        """A file of the store; from upstream where it is not there, and an upstream has it. None: nobody has it."""
        found = self._open(build_id, kind) if self._is_near else await run_in_threadpool(self._open, build_id, kind)
        metric = {DEBUGINFO: self.metrics.debuginfo, EXECUTABLE: self.metrics.executable}.get(FileKind(kind))
        where = "store"
        if found is None and self.upstream is not None and kind in ELF_KINDS:
            path = await run_in_threadpool(self.upstream.fetch, build_id, kind, passed_on(request))
            if path is not None:
                where = "upstream"
                found = await run_in_threadpool(self._open, build_id, kind)
                found = found or Content.of_file(path, contextlib.ExitStack())
        if found is not None and metric is not None:
            metric.labels(where).inc()
        return found

    def _open(self, build_id: str, kind: str) -> Content | None:
        try:
            found = self.store.open_bytes(build_id, kind)
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

    def source(self, request: Request, build_id: str, path: str) -> bytes | None:
        """A source file of a bundle."""
        found = self.store.read_source(build_id, path)
        if found is not None:
            self.metrics.sources.labels("store").inc()
        return found


def make_app(settings: ServerSettings) -> Starlette:
    """The application of a server with these settings."""
    server = Server(settings)
    debuginfod, symbolication = Debuginfod(server), Symbolication(server)
    naming, uploads, page = Naming(server), Uploads(server), Page(server)

    async def metrics(request: Request) -> Response:
        server.count(request, "metrics")
        return Response(server.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def healthz(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        """Whether the store answers."""
        try:
            await asyncio.wait_for(run_in_threadpool(server.store.find, "00"), 5)
        except (OSError, TimeoutError) as error:
            server.metrics.ready.set(0)
            return PlainTextResponse(f"the store does not answer: {plain(str(error))}\n", 503)
        server.metrics.ready.set(1)
        return PlainTextResponse("ready\n")

    buildid = "/buildid/{build_id}"
    routes = [
        Route("/", page.index, name="read"),
        Route("/binary/{build_id}", page.binary, name="read"),
        Route("/static/{name}", page.static, name="read"),
        Route("/upload", uploads.put_any, name="upload", methods=["PUT"]),
        Route("/healthz", healthz, name="read"),
        Route("/readyz", readyz, name="read"),
        Route("/metrics", metrics, name="read"),
        Route("/limits", naming.limits, name="read"),
        Route("/metadata", debuginfod.metadata, name="read"),
        Route(buildid + "/section/{name:path}", debuginfod.section, name="read"),
        Route(buildid + "/source/{path:path}", debuginfod.source, name="read"),
        Route(buildid + "/{kind}", debuginfod.file, name="read", methods=["GET", "HEAD"]),
        Route(buildid + "/{kind}", uploads.put, name="upload", methods=["PUT"]),
        Route("/symbolicate/v5", symbolication.symbolicate, name="read", methods=["POST"]),
        Route("/source/v1", symbolication.source, name="read", methods=["POST"]),
        Route("/asm/v1", symbolication.assembly, name="read", methods=["POST"]),
        Route("/symbolize", naming.symbolize, name="read", methods=["POST"]),
        Route("/profile", naming.profile, name="read", methods=["POST"]),
        Route("/v1development/profiles", naming.otlp, name="read", methods=["POST"]),
        Route(PYROSCOPE + "/ShouldInitiateUpload", uploads.should_initiate, name="upload", methods=["POST"]),
        Route(PYROSCOPE + "/Upload/{build_id}", uploads.upload, name="upload", methods=["POST"]),
        Route(PYROSCOPE + "/UploadFinished", uploads.finished, name="upload", methods=["POST"]),
    ]

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        server.metrics.ready.set(1)
        try:
            yield
        finally:
            await run_in_threadpool(server.close)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return error.response()

    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        why = {404: "there is nothing at this path", 405: f"{request.method} is not for this path"}
        words = why.get(error.status_code, error.detail)
        return Refused(error.status_code, words, headers=dict(error.headers or {})).response()

    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={Refused: refused, HTTPException: unknown})
    app.router.redirect_slashes = False
    app.state.server = server
    app.add_middleware(Gate, server=server)
    return app


def from_environment() -> Starlette:
    """The application in a worker process."""
    return make_app(ServerSettings.from_environment())


@functools.lru_cache(256)
def spelled(name: bytes) -> bytes:
    """A header's name in the letters of its standard, where the host leaves them so: LLVM 14 knows Content-Length in no
    others."""
    return SPELLED.get(name) or (name.upper() if name.startswith(b"x-debuginfod-") else name.title())


def passed_on(request: Request) -> dict[str, str]:
    """What upstream is told of who asks: the User-Agent, and the address behind those that came."""
    client = [request.client.host] if request.client is not None else []
    told = {"X-Forwarded-For": ", ".join([*forwarders_of(request.headers), *client])}
    agent = request.headers.get("user-agent", "")
    return told | ({"User-Agent": agent} if agent.isascii() and agent.isprintable() and agent else {})


def forwarders_of(headers: Headers) -> list[str]:
    """The servers and clients that a request came by."""
    told = ",".join(headers.getlist("x-forwarded-for"))
    return [one.strip() for one in told.split(",") if one.strip()]


class Gate:
    """What comes before and after every endpoint: access, CORS, the time a request may take, the log and the counts."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self.app, self.server = app, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.monotonic()
        told = {"status": 0, "bytes": 0}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                told["status"] = message["status"]
                made = [*message["headers"], *self._headers()]
                message["headers"] = [(spelled(name), value) for name, value in made]
            elif message["type"] == "http.response.body":
                told["bytes"] += len(message.get("body", b""))
            await send(message)

        headers = Headers(scope=scope)
        granted, who = self.server.access.scopes(headers.get("authorization", ""))
        try:
            await self._answer(scope, receive, sending, headers, granted)
        except Exception as error:
            self.server.metrics.errors.inc()
            LOG.error("%s %s failed", scope["method"], ascii(scope["path"]), exc_info=error)
            if not told["status"]:
                await JSONResponse({"error": "internal error: it is logged"}, 500)(scope, receive, sending)
        finally:
            self._note(scope, headers, told, who, time.monotonic() - began)

    def _headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"access-control-allow-origin", b"*"), (b"x-content-type-options", b"nosniff")]

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, headers: Headers, granted: frozenset[str]
    ) -> None:
        method, path = scope["method"], scope["path"]
        if method == "OPTIONS":
            asked = headers.get("access-control-request-headers")
            allow = {**PREFLIGHT, **({"Access-Control-Allow-Headers": asked} if asked else {})}
            await Response(status_code=204, headers=allow)(scope, receive, send)
            return
        needed = UPLOAD if method == "PUT" or path.startswith(PYROSCOPE) else READ
        if path not in OPEN_PATHS and needed not in granted and ADMIN not in granted:
            if granted is not self.server.access.everyone:
                refusal = Refused(403, f"this token may not {needed}")
            else:
                refusal = Refused(401, "a token is needed", headers={"WWW-Authenticate": "Bearer"})
            await refusal.response()(scope, receive, send)
            return
        origin = headers.get("origin")
        if needed == UPLOAD and origin and origin.partition("://")[2] != headers.get("host"):
            await Refused(403, "a page of another origin may not upload").response()(scope, receive, send)
            return
        if len(forwarders_of(headers)) >= self.server.settings.limits.forwarders:
            await Refused(404, "too many servers asked one another").response()(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _note(self, scope: Scope, headers: Headers, told: dict[str, int], who: str, seconds: float) -> None:
        """Count, and write the line of the access log."""
        metrics, kind = self.server.metrics, scope.get("whence.kind", "other")
        code = str(told["status"])
        metrics.responses.labels("error" if told["status"] >= 400 else "ok").inc()
        metrics.bytes.labels(code, kind).observe(told["bytes"])
        metrics.milliseconds.labels(code, kind).observe(1000 * seconds)
        if ACCESS_LOG.isEnabledFor(logging.INFO):
            client = scope.get("client") or ("", 0)
            line: dict[str, Any] = {
                "client": client[0], "forwarded": headers.get("x-forwarded-for", ""), "who": who,
                "method": scope["method"], "path": scope["path"], "status": told["status"], "bytes": told["bytes"],
                "milliseconds": round(1000 * seconds, 1), "agent": headers.get("user-agent", "")[:200],
            }  # fmt: skip
            ACCESS_LOG.info("%s", json.dumps(line))
