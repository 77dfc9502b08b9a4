"""The application: what every request has in common, and the routes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whence.errors import plain
from whence.server.access import ADMIN, READ, UPLOAD
from whence.server.bodies import Refusal
from whence.server.debuginfod import DebuginfodEndpoints
from whence.server.metrics import CONTENT_TYPE
from whence.server.naming import Naming
from whence.server.page import Page
from whence.server.settings import ServerSettings
from whence.server.state import Server, forwarders_of
from whence.server.symbolication import Symbolication
from whence.server.uploads import PYROSCOPE, Uploads

ACCESS_LOG = logging.getLogger("whence.access")
LOG = logging.getLogger("whence")
CORS = {"Access-Control-Allow-Origin": "*"}
PREFLIGHT = {
    "Access-Control-Allow-Methods": "POST, GET, OPTIONS", "Access-Control-Max-Age": "86400",
    "Access-Control-Allow-Headers": "cache-control",
}  # fmt: skip
SPELLED = {b"etag": b"ETag", b"www-authenticate": b"WWW-Authenticate"}
OPEN_PATHS = ("/healthz", "/readyz")


def make_app(settings: ServerSettings) -> Starlette:
    """The application of a server with these settings."""
    server = Server(settings)
    debuginfod, symbolication = DebuginfodEndpoints(server), Symbolication(server)
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
        assert isinstance(error, Refusal)
        return error.response()

    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        why = {404: "there is nothing at this path", 405: f"{request.method} is not for this path"}
        words = why.get(error.status_code, error.detail)
        return Refusal(error.status_code, words, headers=dict(error.headers or {})).response()

    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={Refusal: refused, HTTPException: unknown})
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
                refusal = Refusal(403, f"this token may not {needed}")
            else:
                refusal = Refusal(401, "a token is needed", headers={"WWW-Authenticate": "Bearer"})
            await refusal.response()(scope, receive, send)
            return
        origin = headers.get("origin")
        if needed == UPLOAD and origin and origin.partition("://")[2] != headers.get("host"):
            await Refusal(403, "a page of another origin may not upload").response()(scope, receive, send)
            return
        if len(forwarders_of(headers)) >= self.server.settings.limits.forwarders:
            await Refusal(404, "too many servers asked one another").response()(scope, receive, send)
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
