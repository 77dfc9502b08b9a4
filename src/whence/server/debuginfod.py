"""debuginfod's requests: files, sections and sources by build-id, and metadata (debuginfod(8)).

A missing file is requested from the upstream servers, or recorded as missing without upstream servers.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from email.utils import formatdate, parsedate_to_datetime
from typing import TYPE_CHECKING
from zlib import crc32

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from whence._base.errors import WhenceError
from whence._base.lru import Lru
from whence.objects.opening import open_object
from whence.server.bodies import Refusal
from whence.server.globs import compiled
from whence.server.responses import JsonResponse
from whence.store import Content
from whence.store.names import DEBUGINFO, ELF_KINDS, EXECUTABLE, KINDS, is_id

if TYPE_CHECKING:
    from pathlib import Path

    from whence.server.state import Server
    from whence.store import Store

BINARY = "application/octet-stream"
SMALL = 1 << 18  # bytes that are sent in one message
CACHED_TABLES = 256  # section tables
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
METADATA_ROWS = 10_000


def checked(build_id: str) -> str:
    """Return a build-id in lowercase. Raises Refusal."""
    folded = build_id.lower()
    if not is_id(folded):
        raise Refusal(400, "a build-id is an even number of hex digits, 2 to 128 of them")
    return folded


class DebuginfodEndpoints:
    """The endpoints under /buildid, and /metadata."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.tables = SectionTables(server.store)

    async def file(self, request: Request) -> Response:
        """/buildid/ID/debuginfo, /executable, /lidia (the archive), and the symbol files /gsym and /sym."""
        build_id, kind = checked(request.path_params["build_id"]), request.path_params["kind"]
        if kind not in KINDS:
            kinds = "debuginfo, executable, lidia, gsym, sym, section/NAME or source/PATH"
            raise Refusal(404, f"the last part of the path is {kinds}, not {kind[:80]!r}")
        self._server.count(request, kind)
        content = await self._server.content(request, build_id, kind)
        if content is None:
            self._server.misses.note(build_id, "debuginfod")
            raise no_file(build_id, kind)
        response = send(request, content, f"{build_id}.{kind}")
        if kind not in ELF_KINDS:
            response.headers["Vary"] = "Accept-Encoding"
        return response

    async def section(self, request: Request) -> Response:
        """/buildid/ID/section/NAME: the stored bytes of a section of the debug file, or of the executable."""
        build_id, name = checked(request.path_params["build_id"]), request.path_params["name"]
        self._server.count(request, "section")
        has_file = False
        for kind in (DEBUGINFO, EXECUTABLE):
            content = await self._server.content(request, build_id, kind)
            if content is None:
                continue
            has_file = True
            section = self.tables.cached(content.tag, name)
            if section is UNREAD:
                section = await run_in_threadpool(self.tables.read, content, build_id, kind, name)
            if isinstance(section, tuple):
                return send(request, content, f"{build_id}.{kind}", *section)
            content.close()
        if not has_file:
            self._server.misses.note(build_id, "debuginfod")
        raise no_section(build_id, name)

    async def source(self, request: Request) -> Response:
        """/buildid/ID/source/ABSOLUTE/PATH: a source file of the bundle; dots in the path are resolved."""
        build_id = checked(request.path_params["build_id"])
        self._server.count(request, "source")
        path = "/" + request.path_params["path"].lstrip("/")
        data = await run_in_threadpool(self._server.source, request, build_id, path)
        if data is None:
            raise Refusal(404, f"source file {path[:200]!r} of build-id {build_id} not found")
        return send(request, MemoryContent(data), ascii_of(path))

    async def metadata(self, request: Request) -> Response:
        """/metadata?key=file|glob|buildid&value=...: the files with a name or a build-id."""
        self._server.count(request, "metadata")
        key, value = request.query_params.get("key", ""), request.query_params.get("value", "")
        if key not in ("file", "glob", "buildid") or not value:
            raise Refusal(400, "the query needs key=file, key=glob or key=buildid, and a value")
        return JsonResponse(await run_in_threadpool(self._metadata, key, value))

    def _metadata(self, key: str, value: str) -> dict[str, object]:
        if key == "file":
            matches = re.compile(re.escape(value)).fullmatch
        elif key == "glob":
            matches = compiled(value).fullmatch
        else:
            matches = re.compile(re.escape(value.lower())).fullmatch
        results: list[dict[str, str]] = []
        for row in self._server.listing.rows():
            if matches(row.build_id if key == "buildid" else row.name) is None:
                continue
            for kind, size in ((EXECUTABLE, row.executable), (DEBUGINFO, row.debuginfo)):
                if size:
                    results.append({"type": str(kind), "buildid": row.build_id, "file": row.name})
            if len(results) >= METADATA_ROWS:
                return {"results": results, "complete": False}
        return {"results": results, "complete": True}


def no_file(build_id: str, kind: str) -> Refusal:
    """Return the refusal for a missing file."""
    return Refusal(404, f"{kind} of build-id {build_id} not found")


def no_section(build_id: str, name: str) -> Refusal:
    """Return the refusal for a missing section."""
    return Refusal(404, f"section {name[:80]!r} of build-id {build_id} not found")


class UnreadTable:
    """The type of UNREAD: the section table is not in the cache."""


UNREAD = UnreadTable()


class SectionTables:
    """Caches the offsets of sections by the tags of files."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._tables: Lru[str, dict[str, tuple[int, int]]] = Lru(CACHED_TABLES)

    def cached(self, tag: str, name: str) -> tuple[int, int] | UnreadTable | None:
        """Return the offsets of a section's start and end; None if the section is missing or empty."""
        with self._lock:
            table = self._tables.get(tag)
            return UNREAD if table is None else table.get(name)

    def read(self, content: Content, build_id: str, kind: str, name: str) -> tuple[int, int] | None:
        """Read the section table of a file, and return the offsets of a section's start and end, or None."""
        table: dict[str, tuple[int, int]] = {}
        try:
            with self._store.file(build_id, kind) as path:
                if path is not None:
                    with open_object(path) as elf:
                        for section in elf.sections:
                            end = section.file_offset + section.size
                            if section.in_file and section.size and end <= content.size:
                                table.setdefault(section.name, (section.file_offset, end))
        except WhenceError:
            return None
        with self._lock:
            self._tables[content.tag] = table
        return table.get(name)


class MemoryContent:
    """Bytes in memory, with the interface of Content."""

    path = None
    encoding = ""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size, self.modified, self.tag = len(data), 0.0, f"{len(data):x}-{crc32(data):08x}"

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes [start, end)."""
        return self._data[start:end]

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the bytes [start, end)."""
        yield self._data[start:end]

    def close(self) -> None:
        """Do nothing."""


def max_size_of(request: Request) -> int:
    """Return the limit of the client in bytes (X-DEBUGINFOD-MAXSIZE)."""
    size = request.headers.get("x-debuginfod-maxsize", "")
    return int(size) if size.isascii() and size.isdecimal() and len(size) < 19 and int(size) else 1 << 63


def is_current(request: Request, tag: str, modified: float) -> bool:
    """Return True if the client's copy is current (RFC 9110, 13.1)."""
    match = request.headers.get("if-none-match")
    if match is not None:
        return match.strip() == "*" or tag in [item.strip().removeprefix("W/") for item in match.split(",")]
    since = request.headers.get("if-modified-since")
    if since is None:
        return False
    try:
        return int(modified) <= parsedate_to_datetime(since).timestamp()
    except (ValueError, TypeError, OverflowError):
        return False


def ascii_of(text: str) -> str:
    """Return a text as the value of a header."""
    return "".join(c if " " <= c <= "~" else "?" for c in text)


def headers_of(name: str, tag: str, modified: float, begin: int, end: int, *, is_file: bool) -> dict[str, str]:
    """Return the headers of a file, or of its bytes [begin, end)."""
    headers = {
        "ETag": f'"{tag}"' if is_file else f'"{tag}-{begin:x}"', "Accept-Ranges": "bytes", "Cache-Control": "public",
        "X-DEBUGINFOD-SIZE": str(end - begin), "X-DEBUGINFOD-FILE": name,
    }  # fmt: skip
    if modified:
        headers["Last-Modified"] = formatdate(modified, usegmt=True)
    return headers


def send(
    request: Request, content: Content | MemoryContent, name: str, begin: int = 0, end: int | None = None
) -> Response:
    """Return the response with a file, or its bytes [begin, end): all, the requested range, or 304.

    Closes the content when it is sent. Raises Refusal.
    """
    is_file = end is None
    end = content.size if end is None else end
    size = end - begin
    headers = headers_of(name, content.tag, content.modified, begin, end, is_file=is_file)
    tag = headers["ETag"]
    if content.encoding:
        headers["Content-Encoding"] = content.encoding
        del headers["X-DEBUGINFOD-SIZE"]  # it is the size of the decompressed file
    try:
        if size > max_size_of(request):
            raise Refusal(406, f"the file has {size} bytes", headers={"X-DEBUGINFOD-SIZE": str(size)})
        if is_current(request, tag, content.modified):
            content.close()
            return Response(status_code=304, headers=headers)
        part = requested_range(request, size, tag)
        if part is not None:
            headers["Content-Range"] = f"bytes {part[0]}-{part[1] - 1}/{size}"
            begin, end = begin + part[0], begin + part[1]
        headers["Content-Length"] = str(end - begin)
        status = 200 if part is None else 206
        complete = part is None and is_file
        if request.method == "HEAD":
            content.close()
            return Response(status_code=status, headers=headers, media_type=BINARY)
        if complete and content.path is not None and "http.response.pathsend" in request.scope.get("extensions", {}):
            content.close()
            request.scope["whence.bytes"] = size
            return PathResponse(content.path, headers)
        if end - begin <= SMALL and content.path is not None:  # read from a local file at once
            data = content.read(begin, end)
            content.close()
            return Response(data, status, headers=headers, media_type=BINARY)
    except BaseException:
        content.close()
        raise
    return StreamingResponse(closing(content, begin, end), status, headers=headers, media_type=BINARY)


def requested_range(request: Request, size: int, tag: str) -> tuple[int, int] | None:
    """Return the requested range [start, end) of `size` bytes; None for all bytes (RFC 9110, 14.2).

    Several ranges and malformed ones are ignored. Raises Refusal for a range after the end.
    """
    match = RANGE.fullmatch(request.headers.get("range", "").strip())
    if match is None or not (match[1] or match[2]) or request.headers.get("if-range") not in (None, tag):
        return None
    if match[1] and match[2] and int(match[2]) < int(match[1]):
        return None
    if match[1]:
        start, end = int(match[1]), min(int(match[2]) + 1 if match[2] else size, size)
    else:
        start, end = max(size - int(match[2]), 0), size
    if start >= end:
        raise Refusal(
            416, f"the range is outside the {size} bytes of the file", headers={"Content-Range": f"bytes */{size}"}
        )
    return start, end


class PathResponse(Response):
    """A file that the HTTP server sends from its path (ASGI's pathsend)."""

    def __init__(self, path: Path, headers: dict[str, str]) -> None:
        super().__init__(None, headers=headers, media_type=BINARY)
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.pathsend", "path": str(self._path)})


def closing(content: Content | MemoryContent, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes [start, end) in chunks, then close the content."""
    try:
        yield from content.chunks(start, end)
    finally:
        content.close()
