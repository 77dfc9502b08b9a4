"""The application: the routes, and a middleware for access, CORS, deadlines, logging and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import sys
import time
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from prometheus_client import disable_created_metrics
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from whence._base.errors import plain
from whence.kernels.memory import give_back_freed
from whence.server.access import ADMIN, READ, UPLOAD, is_loopback
from whence.server.access_log import AccessLog
from whence.server.bodies import Refusal
from whence.server.debuginfod import DebuginfodEndpoints
from whence.server.metrics import CONTENT_TYPE, METRICS
from whence.server.naming import NamingEndpoints
from whence.server.page import PageEndpoints, refusal_response
from whence.server.quick import QuickAnswers
from whence.server.settings import ServerSettings
from whence.server.stacks import StackEndpoints
from whence.server.stalls import cut_stalled_everywhere
from whence.server.state import Server, forwarders_of
from whence.server.symbol_files import SymbolFileEndpoints
from whence.server.symbolication import SymbolicationEndpoints
from whence.server.uploads import PYROSCOPE, UploadEndpoints

LOG = logging.getLogger("whence")
PREFLIGHT = {
    "Access-Control-Allow-Methods": "POST, GET, OPTIONS", "Access-Control-Max-Age": "86400",
    "Access-Control-Allow-Headers": "cache-control",
}  # fmt: skip
SPELLED = {b"etag": b"ETag", b"www-authenticate": b"WWW-Authenticate"}
COMMON_HEADERS = [(b"Access-Control-Allow-Origin", b"*"), (b"X-Content-Type-Options", b"nosniff")]
SWITCH_SECONDS = 0.001  # until a thread gives the GIL to the event loop (Python: 0.005)
OPEN_PATHS = ("/healthz", "/readyz")
READY_SECONDS = 5


def make_app(settings: ServerSettings) -> Middleware:
    """Return the application of a server with these settings."""
    server = Server(settings)
    debuginfod = DebuginfodEndpoints(server)
    handlers = {Refusal: refuse, HTTPException: refuse_http, Exception: fail}
    app = Starlette(routes=routes_of(server, debuginfod), lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    app.state.middleware = Middleware(app, server, QuickAnswers(server, debuginfod.tables))
    return app.state.middleware  # type: ignore[no-any-return]


def from_environment() -> Middleware:
    """Return the application of a worker process."""
    give_back_freed()
    sys.setswitchinterval(SWITCH_SECONDS)
    disable_created_metrics()  # type: ignore[no-untyped-call]
    return make_app(ServerSettings.from_environment())


def routes_of(server: Server, debuginfod: DebuginfodEndpoints) -> list[Route]:
    """Return the routes; the name of each is the scope that it needs."""
    health, page, uploads = HealthEndpoints(server), PageEndpoints(server), UploadEndpoints(server)
    naming, symbolication = NamingEndpoints(server), SymbolicationEndpoints(server)
    symbol_files = SymbolFileEndpoints(server)
    build_id = "/buildid/{build_id}"
    return [
        Route("/", page.index, name="read"),
        Route("/binary/{build_id}", page.binary, name="read"),
        Route("/static/{name}", page.static, name="read"),
        Route("/upload", uploads.put_any, name="upload", methods=["PUT"]),
        Route("/upload/{name}", uploads.put_any, name="upload", methods=["PUT"]),
        Route("/healthz", health.healthz, name="read"),
        Route("/readyz", health.readyz, name="read"),
        Route("/metrics", health.metrics, name="read"),
        Route("/limits", naming.limits, name="read"),
        Route("/metadata", debuginfod.metadata, name="read"),
        Route(build_id + "/section/{name:path}", debuginfod.section, name="read"),
        Route(build_id + "/source/{path:path}", debuginfod.source, name="read"),
        Route(build_id + "/{kind}", debuginfod.file, name="read", methods=["GET", "HEAD"]),
        Route(build_id + "/{kind}", uploads.put, name="upload", methods=["PUT"]),
        Route("/symbolicate/v5", symbolication.symbolicate, name="read", methods=["POST"]),
        Route("/source/v1", symbolication.source, name="read", methods=["POST"]),
        Route("/asm/v1", symbolication.assembly, name="read", methods=["POST"]),
        Route("/stack/{token}", StackEndpoints(server).stack, name="read"),
        Route("/symbolize", naming.symbolize, name="read", methods=["POST"]),
        Route("/profile", naming.profile, name="read", methods=["POST"]),
        Route("/v1development/profiles", naming.otlp, name="read", methods=["POST"]),
        Route(PYROSCOPE + "/ShouldInitiateUpload", uploads.should_initiate, name="upload", methods=["POST"]),
        Route(PYROSCOPE + "/Upload/{build_id}", uploads.upload, name="upload", methods=["POST"]),
        Route(PYROSCOPE + "/UploadFinished", uploads.finished, name="upload", methods=["POST"]),
        Route("/{name}/{identity}/{file}", symbol_files.file, name="read", methods=["GET", "HEAD"]),
    ]


class HealthEndpoints:
    """/metrics, /healthz and /readyz."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def metrics(self, request: Request) -> Response:
        """Return all metrics in Prometheus' text format."""
        text = self._server.metrics.text()
        self._server.count(request, METRICS)
        return Response(text, headers={"Content-Type": CONTENT_TYPE})

    async def healthz(self, request: Request) -> Response:
        """Return 200: the process answers."""
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        """Return 200 if the store can be read, else 503."""
        try:
            await asyncio.wait_for(run_in_threadpool(self._server.store.find, "00"), READY_SECONDS)
        except (OSError, TimeoutError) as error:
            self._server.metrics.ready.set(0)
            return PlainTextResponse(f"the store can't be read: {plain(str(error))}\n", 503)
        self._server.metrics.ready.set(1)
        return PlainTextResponse("ready\n")


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Start and stop an application."""
    middleware: Middleware = app.state.middleware
    server = middleware.server
    server.metrics.ready.set(1)
    cut_stalled_everywhere(server.settings.limits.stalled_seconds)
    try:
        yield
    finally:
        middleware.log.flush()
        await run_in_threadpool(server.close)


async def refuse(request: Request, error: Exception) -> Response:
    """Return the response to a refused request."""
    assert isinstance(error, Refusal)
    return refusal_response(error, request.method, request.headers.get("accept", ""))


async def refuse_http(request: Request, error: Exception) -> Response:
    """Return the response to a request that Starlette refuses."""
    assert isinstance(error, HTTPException)
    reasons = {404: "unknown path", 405: f"the path does not support {request.method}"}
    reason = reasons.get(error.status_code, error.detail)
    return await refuse(request, Refusal(error.status_code, reason, headers=dict(error.headers or {})))


async def fail(request: Request, error: Exception) -> Response:
    """Return the response after an internal error."""
    return internal_error().response()


def internal_error() -> Refusal:
    """Return the refusal after an internal error."""
    return Refusal(500, "internal error: see the server's log")


@functools.lru_cache(256)
def spelled(name: bytes) -> bytes:
    """Return a header's name as its standard spells it: LLVM 14 does not recognize content-length."""
    return SPELLED.get(name) or (name.upper() if name.startswith(b"x-debuginfod-") else name.title())


class Middleware:
    """Wraps the endpoints: access, CORS, the access log and the metrics."""

    def __init__(self, app: Starlette, server: Server, quick: QuickAnswers) -> None:
        self.app, self.server, self.quick = app, server, quick
        self.log = AccessLog()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.monotonic()
        headers = dict(scope["headers"])
        quick = self.quick.answer(scope, headers)
        if quick is not None:
            status, fields, body, kind, result = quick
            await send({"type": "http.response.start", "status": status, "headers": fields + COMMON_HEADERS})
            await send({"type": "http.response.body", "body": body})
            self._note(scope, headers, status, len(body), "", kind, result, time.monotonic() - began)
            return
        await self._handle(scope, receive, send, headers, began)

    async def _handle(self, scope: Scope, receive: Receive, send: Send, raw: dict[bytes, bytes], began: float) -> None:
        """Send the response of an endpoint, log and count it."""
        status = size = 0

        async def send_counted(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                fields = [(spelled(name), value) for name, value in message["headers"]]
                message["headers"] = fields + COMMON_HEADERS
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            elif message["type"] == "http.response.pathsend":
                size += scope.get("whence.bytes", 0)
            await send(message)

        headers = Headers(scope=scope)
        scope["whence.bodies"] = bodies = self.server.bodies.part()
        granted, who = self.server.access.scopes(headers.get("authorization", ""))
        try:
            await self._check_and_call(scope, receive, send_counted, headers, granted)
        except Exception as error:
            self.server.metrics.errors.inc()
            LOG.error("%s %s failed", scope["method"], ascii(scope["path"]), exc_info=error)
            if not status:
                await internal_error().response()(scope, receive, send_counted)
        finally:
            bodies.release()
            kind, result = scope.get("whence.kind", "other"), scope.get("whence.result", "ok")
            self._note(scope, raw, status, size, who, kind, result, time.monotonic() - began)

    async def _check_and_call(
        self, scope: Scope, receive: Receive, send: Send, headers: Headers, granted: frozenset[str]
    ) -> None:
        if scope["method"] == "OPTIONS":
            requested = headers.get("access-control-request-headers")
            allow = {**PREFLIGHT, **({"Access-Control-Allow-Headers": requested} if requested else {})}
            await Response(status_code=204, headers=allow)(scope, receive, send)
            return
        refusal = self._refusal(scope, headers, granted)
        if refusal is not None:
            await refusal_response(refusal, scope["method"], headers.get("accept", ""))(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers, granted: frozenset[str]) -> Refusal | None:
        """Return the refusal of a request that the client may not make."""
        method, path = scope["method"], scope["path"]
        needed = UPLOAD if method == "PUT" or path.startswith(PYROSCOPE) else READ
        if path not in OPEN_PATHS and needed not in granted and ADMIN not in granted:
            if granted is not self.server.access.everyone:
                return Refusal(403, f"the token does not have the scope {needed}")
            return Refusal(401, "a token is required", headers={"WWW-Authenticate": "Bearer"})
        origin = headers.get("origin")
        if needed == UPLOAD and origin and not self._is_own(origin, headers.get("host", "")):
            return Refusal(403, "a page of another origin may not upload")
        if len(forwarders_of(headers)) >= self.server.settings.limits.forwarders:
            return Refusal(404, "the request was forwarded by too many servers")
        return None

    def _is_own(self, origin: str, host: str) -> bool:
        """Return True if a page is this server's.

        Without tokens the address has to be the loopback's, too: another page's host name may resolve to it.
        """
        authority = origin.partition("://")[2]
        return authority == host and (bool(self.server.access.tokens) or is_loopback(urlsplit(origin).hostname or ""))

    def _note(
        self, scope: Scope, headers: dict[bytes, bytes], status: int, size: int, who: str, kind: str, result: str,
        seconds: float,
    ) -> None:  # fmt: skip
        """Count a response, and write it to the access log."""
        milliseconds = 1000 * seconds
        self.server.metrics.traffic.note(kind, status, result, size, milliseconds)
        client = scope.get("client")
        self.log.note(
            client[0] if client else "", headers.get(b"x-forwarded-for", b"").decode("latin-1"), who, scope["method"],
            scope["path"], status, size, milliseconds, headers.get(b"user-agent", b"").decode("latin-1"),
        )  # fmt: skip
