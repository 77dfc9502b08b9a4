"""The application: what every request has in common, and the routes."""

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
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whence._base.errors import plain
from whence.kernels.memory import give_back_freed
from whence.server.access import ADMIN, READ, UPLOAD, is_loopback
from whence.server.access_log import AccessLog
from whence.server.bodies import Refusal
from whence.server.debuginfod import DebuginfodEndpoints
from whence.server.metrics import CONTENT_TYPE, METRICS
from whence.server.naming import Naming
from whence.server.page import Page
from whence.server.quick import QuickAnswers
from whence.server.settings import ServerSettings
from whence.server.stalls import cut_stalled_everywhere
from whence.server.state import Server, forwarders_of
from whence.server.symbolication import Symbolication
from whence.server.uploads import PYROSCOPE, Uploads

LOG = logging.getLogger("whence")
PREFLIGHT = {
    "Access-Control-Allow-Methods": "POST, GET, OPTIONS", "Access-Control-Max-Age": "86400",
    "Access-Control-Allow-Headers": "cache-control",
}  # fmt: skip
SPELLED = {b"etag": b"ETag", b"www-authenticate": b"WWW-Authenticate"}
EVERYWHERE = [(b"Access-Control-Allow-Origin", b"*"), (b"X-Content-Type-Options", b"nosniff")]
SWITCH_SECONDS = 0.001  # after which the event loop may have the interpreter back from a thread (Python: 0.005)
OPEN_PATHS = ("/healthz", "/readyz")


def make_app(settings: ServerSettings) -> Gate:
    """The application of a server with these settings."""
    server = Server(settings)
    debuginfod, symbolication = DebuginfodEndpoints(server), Symbolication(server)
    naming, uploads, page = Naming(server), Uploads(server), Page(server)

    async def metrics(request: Request) -> Response:
        text = server.metrics.text()
        server.count(request, METRICS)
        return Response(text, headers={"Content-Type": CONTENT_TYPE})

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
        cut_stalled_everywhere(settings.limits.stalled_seconds)
        try:
            yield
        finally:
            gate.log.flush()
            await run_in_threadpool(server.close)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return error.response()

    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        why = {404: "there is nothing at this path", 405: f"{request.method} is not for this path"}
        words = why.get(error.status_code, error.detail)
        return Refusal(error.status_code, words, headers=dict(error.headers or {})).response()

    async def failed(request: Request, error: Exception) -> Response:
        return Refusal(500, "internal error: it is logged").response()

    handlers = {Refusal: refused, HTTPException: unknown, Exception: failed}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    gate = Gate(app, server, QuickAnswers(server, debuginfod.tables))
    return gate


def from_environment() -> Gate:
    """The application in a worker process."""
    give_back_freed()
    sys.setswitchinterval(SWITCH_SECONDS)
    disable_created_metrics()  # type: ignore[no-untyped-call]
    return make_app(ServerSettings.from_environment())


@functools.lru_cache(256)
def spelled(name: bytes) -> bytes:
    """A header's name in the letters of its standard, where the host leaves them so: LLVM 14 knows Content-Length in no
    others."""
    return SPELLED.get(name) or (name.upper() if name.startswith(b"x-debuginfod-") else name.title())


class Gate:
    """What comes before and after every endpoint: access, CORS, the time a request may take, the log and the counts."""

    def __init__(self, app: ASGIApp, server: Server, quick: QuickAnswers) -> None:
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
            await send({"type": "http.response.start", "status": status, "headers": fields + EVERYWHERE})
            await send({"type": "http.response.body", "body": body})
            self._note(scope, headers, status, len(body), "", kind, result, time.monotonic() - began)
            return
        await self._guarded(scope, receive, send, headers, began)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send, raw: dict[bytes, bytes], began: float) -> None:
        """An endpoint's answer, or what refuses the request."""
        status = size = 0

        async def sending(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                made = [(spelled(name), value) for name, value in message["headers"]]
                message["headers"] = made + EVERYWHERE
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            elif message["type"] == "http.response.pathsend":
                size += scope.get("whence.bytes", 0)
            await send(message)

        headers = Headers(scope=scope)
        scope["whence.bodies"] = bodies = self.server.bodies.part()
        granted, who = self.server.access.scopes(headers.get("authorization", ""))
        try:
            await self._answer(scope, receive, sending, headers, granted)
        except Exception as error:
            self.server.metrics.errors.inc()
            LOG.error("%s %s failed", scope["method"], ascii(scope["path"]), exc_info=error)
            if not status:
                await Refusal(500, "internal error: it is logged").response()(scope, receive, sending)
        finally:
            bodies.release()
            kind, result = scope.get("whence.kind", "other"), scope.get("whence.result", "ok")
            self._note(scope, raw, status, size, who, kind, result, time.monotonic() - began)

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
                refusal = Refusal(403, f"this token may not {needed}")
            else:
                refusal = Refusal(401, "a token is needed", headers={"WWW-Authenticate": "Bearer"})
            await refusal.response()(scope, receive, send)
            return
        origin = headers.get("origin")
        if needed == UPLOAD and origin and not self._is_own(origin, headers.get("host", "")):
            await Refusal(403, "a page of another origin may not upload").response()(scope, receive, send)
            return
        if len(forwarders_of(headers)) >= self.server.settings.limits.forwarders:
            await Refusal(404, "too many servers asked one another").response()(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _is_own(self, origin: str, host: str) -> bool:
        """Whether a page is this server's. Where nobody has a token the address has to be the loopback's, too: another
        page's name may have been made to lead here."""
        place = origin.partition("://")[2]
        return place == host and (bool(self.server.access.tokens) or is_loopback(urlsplit(origin).hostname or ""))

    def _note(
        self, scope: Scope, headers: dict[bytes, bytes], status: int, size: int, who: str, kind: str, result: str,
        seconds: float,
    ) -> None:  # fmt: skip
        """Count, and write the line of the access log."""
        milliseconds = 1000 * seconds
        self.server.metrics.traffic.note(kind, status, result, size, milliseconds)
        client = scope.get("client")
        self.log.note(
            client[0] if client else "", headers.get(b"x-forwarded-for", b"").decode("latin-1"), who, scope["method"],
            scope["path"], status, size, milliseconds, headers.get(b"user-agent", b"").decode("latin-1"),
        )  # fmt: skip
