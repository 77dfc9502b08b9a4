"""The web page: the store's files, one binary, missing build-ids, and areas to drop profiles and debug files.

    render.py     the HTML, with all text escaped
    page.css      the style, light and dark
    page.js       dropping of files, plots of the server's health

A Content-Security-Policy allows the browser to load files from this server only.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from whence._base.errors import WhenceError, without_file
from whence._base.reasons import Missing
from whence.flamegraph import SCRIPT
from whence.server.bodies import Refusal
from whence.server.debuginfod import checked
from whence.server.page import render
from whence.server.settings import SYMBOLIZE
from whence.store.names import DEBUGINFO, EXECUTABLE

if TYPE_CHECKING:
    from whence.server.state import Server

STATIC = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}
ROWS = 200
WANTED = 50
FUNCTIONS, SEARCHED = 200, 200_000  # functions that are listed; that are searched for a name
LONGEST_QUERY = 200
EMPTY: Mapping[str, str] = MappingProxyType({})


@functools.cache
def policy() -> str:
    """Return the Content-Security-Policy: this server's files, and the script of the flame graph."""
    flame = base64.b64encode(hashlib.sha256(SCRIPT).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{flame}'; style-src 'self' 'unsafe-inline'; "
        "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


def html(text: str, status: int = 200, headers: Mapping[str, str] = EMPTY) -> Response:
    """Return a page."""
    own = {"Content-Security-Policy": policy(), "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}
    kind = {"Content-Type": "text/html; charset=utf-8"}
    return Response(text.encode("utf-8", "replace"), status, headers={**headers, **own, **kind})


def refusal_response(refusal: Refusal, method: str, accept: str) -> Response:
    """Return the response to a refused request: a page for browsers, JSON for other clients."""
    if method == "GET" and "text/html" in accept:
        return html(render.refusal(refusal.status, refusal.why), refusal.status, refusal.headers)
    return refusal.response()


class PageEndpoints:
    """The endpoints of the page."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._static = {name: files(__package__).joinpath(name).read_bytes() for name in STATIC}

    async def index(self, request: Request) -> Response:
        """Return the start page."""
        self._server.count(request, "page")
        query = request.query_params.get("q", "")[:LONGEST_QUERY].strip()
        return html(await run_in_threadpool(self._index, query, str(request.base_url)))

    def _index(self, query: str, address: str) -> str:
        store = self._server.store
        rows = self._server.listing.search(query)
        missing = [] if store.objects.read_only else list(store.wanted())[:WANTED]
        commands = render.Commands(store.url, address, self._server.settings.uploads)
        return render.index(commands, query, rows[:ROWS], len(rows), missing)

    async def binary(self, request: Request) -> Response:
        """Return the page of a binary; with `address` in the query, the frames at that address."""
        self._server.count(request, "page")
        build_id = checked(request.path_params["build_id"])
        address = request.query_params.get("address", "")[:LONGEST_QUERY].strip()
        function = request.query_params.get("function", "")[:LONGEST_QUERY].strip()
        return html(await self._server.run(SYMBOLIZE, self._binary, build_id, address, function))

    def _binary(self, build_id: str, address: str, function: str) -> str:
        described = self._server.store.find(build_id)
        if described is None:
            raise Refusal(404, f"build-id {build_id} not found")
        sections: list[tuple[str, int, int]] = []
        for kind in (DEBUGINFO, EXECUTABLE):
            with self._server.store.file(build_id, kind) as path:
                if path is not None and not sections:
                    sections = render.sections_of(path)
        answer = self._answer(build_id, address) if address else None
        return render.binary(described, sections, self._functions(build_id, function), address, answer)

    def _functions(self, build_id: str, text: str) -> render.FunctionList:
        """Return the first functions whose readable names contain a text; those with source lines come first."""
        with_source: list[tuple[str, int, int]] = []
        others: list[tuple[str, int, int]] = []  # stubs, start-up code
        why, more, folded = "", False, text.lower()
        try:
            with self._server.opened(build_id) as opened:
                if isinstance(opened, Missing):
                    return render.FunctionList(text, str(opened), (), False)
                for number, function in enumerate(opened.binary.functions()):
                    functions = with_source if function.file else others
                    more = more or number >= SEARCHED or len(functions) >= FUNCTIONS
                    if number >= SEARCHED or len(with_source) >= FUNCTIONS:
                        break
                    if len(functions) < FUNCTIONS:
                        name = self._server.readable(function.function)
                        if name and folded in name.lower():
                            functions.append((name, function.vaddr, function.length))
        except (WhenceError, OSError) as error:
            why = without_file(error) if isinstance(error, WhenceError) else str(error)
        functions = with_source + others
        return render.FunctionList(text, why, tuple(functions[:FUNCTIONS]), more or len(functions) > FUNCTIONS)

    def _answer(self, build_id: str, address: str) -> render.AddressAnswer:
        """Return the frames at an address, with lines of bundled source, or the reason why frames are missing."""
        try:
            number = int(address, 16)
        except ValueError:
            return render.AddressAnswer(f"{address!r} is not an address in hex", ())
        if not 0 <= number < 1 << 64:
            return render.AddressAnswer("an address has at most 64 bits", ())
        try:
            with self._server.opened(build_id) as opened:
                if isinstance(opened, Missing):
                    return render.AddressAnswer(str(opened), ())
                (chain,) = opened.binary.lookup_many([number]).chains(function=self._server.readable)
        except (WhenceError, OSError) as error:
            return render.AddressAnswer(without_file(error) if isinstance(error, WhenceError) else str(error), ())
        steps = []
        for frame in chain:
            data = self._server.store.read_source(build_id, frame.file) if frame.file and frame.line else None
            steps.append((frame, render.lines_around(data, frame.line) if data is not None else []))
        return render.AddressAnswer("" if steps else "no function found at this address", tuple(steps))

    async def static(self, request: Request) -> Response:
        """Return the style or the script."""
        name = request.path_params["name"]
        if name not in STATIC:
            raise Refusal(404, "unknown path")
        return Response(self._static[name], headers={"Content-Type": STATIC[name], "Cache-Control": "no-cache"})
