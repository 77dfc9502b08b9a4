"""debuginfod's requests: files, sections and sources by build-id, and what is known of them (debuginfod(8)).

What is asked for and not here goes upstream, if there is an upstream, and is otherwise written down as wanted.
"""

from __future__ import annotations

import fnmatch
import re
from email.utils import formatdate, parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse

from whence.elf import ElfFile
from whence.elf.kernels.constants import SHT_NOBITS
from whence.errors import WhenceError
from whence.server.bodies import Refused
from whence.store import Content
from whence.store.names import ARCHIVE, DEBUGINFO, EXECUTABLE, is_id

if TYPE_CHECKING:
    from whence.server.state import Server
    from whence.store import Store

BINARY = "application/octet-stream"
LONGEST_SECTION = 1 << 32
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
METADATA_ROWS = 10_000


def checked(build_id: str) -> str:
    """A build-id of an address, its letters made small. Raises Refused."""
    folded = build_id.lower()
    if not is_id(folded):
        raise Refused(400, "a build-id is an even number of hex digits, 2 to 128 of them")
    return folded


class Debuginfod:
    """The endpoints under /buildid, and /metadata."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def file(self, request: Request) -> Response:
        """/buildid/ID/debuginfo, /executable; /lidia is ours: the archive."""
        build_id, kind = checked(request.path_params["build_id"]), request.path_params["kind"]
        self._server.count(request, kind)
        if kind not in (DEBUGINFO, EXECUTABLE, ARCHIVE):
            known = "debuginfo, executable, lidia, section/NAME and source/PATH"
            raise Refused(404, f"of a build-id there are {known}, not {kind[:80]!r}")
        content = await run_in_threadpool(self._server.content, request, build_id, kind)
        if content is None:
            raise Refused(404, f"no {kind} of build-id {build_id} is here")
        metric = self._server.metrics.debuginfo if kind == DEBUGINFO else self._server.metrics.executable
        metric.labels("store").inc()
        return send(request, content, f"{build_id}.{kind}")

    async def section(self, request: Request) -> Response:
        """/buildid/ID/section/NAME: the section's bytes as they lie, of the debug file, else of the executable."""
        build_id, name = checked(request.path_params["build_id"]), unquote(request.path_params["name"])
        self._server.count(request, "section")
        return await run_in_threadpool(self._section, request, build_id, name)

    def _section(self, request: Request, build_id: str, name: str) -> Response:
        for kind in (DEBUGINFO, EXECUTABLE):
            content = self._server.content(request, build_id, kind)
            if content is None:
                continue
            with content:
                found = section_extent(self._server.store, build_id, kind, content, name)
                if found is None:
                    continue
                start, size = found
                if size > LONGEST_SECTION or size > most_of(request):
                    raise Refused(406, f"the section has {size} bytes")
                data = content.read(start, start + size)
            headers = {
                "X-DEBUGINFOD-SIZE": str(size), "X-DEBUGINFOD-FILE": f"{build_id}.{kind}", "Cache-Control": "public",
                "Last-Modified": formatdate(content.modified, usegmt=True), "ETag": f'"{content.tag}-{start:x}"',
            }  # fmt: skip
            if is_known(request, headers["ETag"], content.modified):
                return Response(status_code=304, headers=headers)
            return Response(data, media_type=BINARY, headers=headers)
        raise Refused(404, f"no section {name[:80]} of build-id {build_id} is here")

    async def source(self, request: Request) -> Response:
        """/buildid/ID/source/ABSOLUTE/PATH: a file of the bundle, by the path as sent or with its dots resolved."""
        build_id = checked(request.path_params["build_id"])
        self._server.count(request, "source")
        path = "/" + request.path_params["path"].lstrip("/")
        data = await run_in_threadpool(self._server.source, request, build_id, path)
        if data is None:
            raise Refused(404, f"no source file {path[:200]} of build-id {build_id} is here")
        self._server.metrics.sources.labels("store").inc()
        headers = {"X-DEBUGINFOD-SIZE": str(len(data)), "X-DEBUGINFOD-FILE": ascii_of(path), "Cache-Control": "public"}
        if len(data) > most_of(request):
            raise Refused(406, f"the file has {len(data)} bytes", headers=headers)
        return Response(data, media_type=BINARY, headers=headers)

    async def metadata(self, request: Request) -> Response:
        """/metadata?key=file|glob|buildid&value=...: what is known of names and build-ids."""
        self._server.count(request, "metadata")
        key, value = request.query_params.get("key", ""), request.query_params.get("value", "")
        if key not in ("file", "glob", "buildid") or not value:
            raise Refused(400, "metadata has a key (file, glob or buildid) and a value")
        return JSONResponse(await run_in_threadpool(self._metadata, key, value))

    def _metadata(self, key: str, value: str) -> dict[str, object]:
        if key == "file":
            fits = re.compile(re.escape(value)).fullmatch
        elif key == "glob":
            fits = re.compile(glob_pattern(value)).fullmatch
        else:
            fits = re.compile(re.escape(value.lower())).fullmatch
        results: list[dict[str, str]] = []
        for row in self._server.store.list():
            if fits(row.build_id if key == "buildid" else row.name) is None:
                continue
            for kind, size in ((EXECUTABLE, row.executable), (DEBUGINFO, row.debuginfo)):
                if size:
                    results.append({"type": str(kind), "buildid": row.build_id, "file": row.name})
            if len(results) >= METADATA_ROWS:
                return {"results": results, "complete": False}
        return {"results": results, "complete": True}


def glob_pattern(glob: str) -> str:
    """A regular expression for a shell pattern in which `/` is matched by `/` alone."""
    return fnmatch.translate(glob).replace("(?s:.*)", "[^/]*").replace(".*", "[^/]*")


def section_extent(store: Store, build_id: str, kind: str, content: Content, name: str) -> tuple[int, int] | None:
    """Where a section's bytes lie in a file; None when it is not there, or has none."""
    try:
        with store.file(build_id, kind) as path:
            if path is None:
                return None
            with ElfFile.open(path) as elf:
                found = elf.section(name)
                if found is None or found.type == SHT_NOBITS or not found.size:
                    return None
                if found.file_offset + found.size > content.size:
                    return None
                return found.file_offset, found.size
    except WhenceError:
        return None


def most_of(request: Request) -> int:
    """The most bytes that the client wants."""
    told = request.headers.get("x-debuginfod-maxsize", "")
    return int(told) if told.isascii() and told.isdecimal() and len(told) < 19 and int(told) else 1 << 63


def is_known(request: Request, tag: str, modified: float) -> bool:
    """Whether the client has these very bytes already (RFC 9110, 13.1)."""
    match = request.headers.get("if-none-match")
    if match is not None:
        return match.strip() == "*" or tag in [one.strip().removeprefix("W/") for one in match.split(",")]
    since = request.headers.get("if-modified-since")
    if since is None:
        return False
    try:
        return int(modified) <= parsedate_to_datetime(since).timestamp()
    except (ValueError, TypeError, OverflowError):
        return False


def ascii_of(text: str) -> str:
    """A text as a header's value."""
    return "".join(one if " " <= one <= "~" else "?" for one in text)


def send(request: Request, content: Content, name: str) -> Response:
    """A file: whole, the range that was asked for, or 304. Closes the content when it is sent."""
    tag = f'"{content.tag}"'
    headers = {
        "ETag": tag, "Last-Modified": formatdate(content.modified, usegmt=True), "Accept-Ranges": "bytes",
        "Cache-Control": "public", "X-DEBUGINFOD-SIZE": str(content.size), "X-DEBUGINFOD-FILE": name,
    }  # fmt: skip
    if content.size > most_of(request):
        content.close()
        raise Refused(406, f"the file has {content.size} bytes", headers={"X-DEBUGINFOD-SIZE": str(content.size)})
    if is_known(request, tag, content.modified):
        content.close()
        return Response(status_code=304, headers=headers)
    start, end, status = 0, content.size, 200
    asked = RANGE.fullmatch(request.headers.get("range", "").strip())
    condition = request.headers.get("if-range")
    if asked is not None and (asked[1] or asked[2]) and condition in (None, tag):
        if asked[1]:
            start, end = int(asked[1]), min(int(asked[2]) + 1 if asked[2] else content.size, content.size)
        else:
            start, end = max(content.size - int(asked[2]), 0), content.size
        if start >= end:
            content.close()
            size = {"Content-Range": f"bytes */{content.size}"}
            raise Refused(416, f"the file has {content.size} bytes", headers=size)
        status = 206
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{content.size}"
    headers["Content-Length"] = str(end - start)
    if request.method == "HEAD":
        content.close()
        return Response(status_code=status, headers=headers, media_type=BINARY)
    if status == 200 and content.path is not None and "http.response.pathsend" in request.scope.get("extensions", {}):
        return FileResponse(content.path, headers=headers, media_type=BINARY)
    return StreamingResponse(closing(content, start, end), status, headers=headers, media_type=BINARY)


def closing(content: Content, start: int, end: int):  # type: ignore[no-untyped-def]
    """The bytes [start, end), a piece at a time."""
    with content:
        yield from content.chunks(start, end)
