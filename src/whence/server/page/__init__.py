"""The page: what the store holds, one binary, what is wanted, a place to drop profiles and debug files.

    render.py     HTML of what they show, everything escaped
    page.css      its style, light and dark
    page.js       dropping of files, plots of the server's health

Everything comes from this server; a Content-Security-Policy says so to the browser.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from whence._base.errors import WhenceError, without_file
from whence._base.reasons import Missing
from whence.flamegraph import part
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
FUNCTIONS, LOOKED_AT = 200, 200_000  # that are listed; that are looked at for a name
LONGEST_QUERY = 200


def policy() -> str:
    """What a browser may load for the page: this server's files, and the script of the flame graph."""
    flame = base64.b64encode(hashlib.sha256(part("page.js")).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{flame}'; style-src 'self' 'unsafe-inline'; "
        "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


class PageEndpoints:
    """The endpoints of the page."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._headers = {
            "Content-Security-Policy": policy(),
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
        }
        self._static = {name: files(__package__).joinpath(name).read_bytes() for name in STATIC}

    async def index(self, request: Request) -> Response:
        """What the store holds, what is wanted, and the places to drop files."""
        self._server.count(request, "page")
        query = request.query_params.get("q", "")[:LONGEST_QUERY].strip()
        return self._html(await run_in_threadpool(self._index, query))

    def _index(self, query: str) -> str:
        store = self._server.store
        rows = self._server.listing.found(query)
        questions = [] if store.objects.read_only else list(store.wanted())[:WANTED]
        return render.index(store.url, query, rows[:ROWS], len(rows), questions, self._server.settings.uploads)

    async def binary(self, request: Request) -> Response:
        """One binary; with `address` the functions there."""
        self._server.count(request, "page")
        build_id = checked(request.path_params["build_id"])
        address = request.query_params.get("address", "")[:LONGEST_QUERY].strip()
        function = request.query_params.get("function", "")[:LONGEST_QUERY].strip()
        return self._html(await self._server.run(SYMBOLIZE, self._binary, build_id, address, function))

    def _binary(self, build_id: str, address: str, function: str) -> str:
        known = self._server.store.find(build_id)
        if known is None:
            raise Refusal(404, f"nothing of build-id {build_id} is here")
        sections: list[tuple[str, int, int]] = []
        for kind in (DEBUGINFO, EXECUTABLE):
            with self._server.store.file(build_id, kind) as path:
                if path is not None and not sections:
                    sections = render.sections_of(path)
        answer = self._answer(build_id, address) if address else None
        return render.binary(known, sections, self._functions(build_id, function), address, answer)

    def _functions(self, build_id: str, wanted: str) -> render.Functions:
        """The first functions whose readable names have a text in them."""
        found: list[tuple[str, int, int]] = []
        why, more, folded = "", False, wanted.lower()
        try:
            with self._server.opened(build_id) as opened:
                if isinstance(opened, Missing):
                    return render.Functions(wanted, str(opened), (), False)
                for number, one in enumerate(opened.binary.functions()):
                    more = len(found) >= FUNCTIONS or number >= LOOKED_AT
                    if more:
                        break
                    name = self._server.readable(one.function)
                    if folded in name.lower():
                        found.append((name, one.vaddr, one.length))
        except (WhenceError, OSError) as error:
            why = without_file(error) if isinstance(error, WhenceError) else str(error)
        return render.Functions(wanted, why, tuple(found), more)

    def _answer(self, build_id: str, address: str) -> render.Answer:
        """The chain at an address, with the source lines that are bundled; or why there is none."""
        try:
            number = int(address, 16)
        except ValueError:
            return render.Answer(f"{address!r} is no address in hex", ())
        if not 0 <= number < 1 << 64:
            return render.Answer("an address has 64 bits", ())
        try:
            with self._server.opened(build_id) as opened:
                if isinstance(opened, Missing):
                    return render.Answer(str(opened), ())
                (chain,) = opened.binary.lookup_many([number]).chains(function=self._server.readable)
        except (WhenceError, OSError) as error:
            return render.Answer(without_file(error) if isinstance(error, WhenceError) else str(error), ())
        steps = []
        for frame in chain:
            data = self._server.store.read_source(build_id, frame.file) if frame.file and frame.line else None
            steps.append((frame, render.lines_around(data, frame.line) if data is not None else []))
        return render.Answer("" if steps else "nothing is known of this address", tuple(steps))

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            raise Refusal(404, "there is nothing at this path")
        return Response(self._static[name], headers={"Content-Type": STATIC[name], "Cache-Control": "no-cache"})

    def _html(self, text: str) -> Response:
        return Response(
            text.encode("utf-8", "replace"), headers={**self._headers, "Content-Type": "text/html; charset=utf-8"}
        )
