"""debuginfod's requests: files, sections and sources by build-id, and what is known of them (debuginfod(8)).

What is asked for and not here goes upstream, if there is an upstream, and is otherwise written down as wanted.
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
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from whence._base.errors import WhenceError
from whence._base.lru import Lru
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels.constants import SHT_NOBITS
from whence.server.bodies import Refusal
from whence.server.globs import compiled
from whence.store import Content
from whence.store.names import ARCHIVE, DEBUGINFO, EXECUTABLE, is_id

if TYPE_CHECKING:
    from pathlib import Path

    from whence.server.state import Server
    from whence.store import Store

BINARY = "application/octet-stream"
SMALL = 1 << 18  # bytes that are sent at once
KEPT_TABLES = 256  # section tables that are remembered
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
METADATA_ROWS = 10_000


def checked(build_id: str) -> str:
    """A build-id of an address, its letters made small. Raises Refusal."""
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
        """/buildid/ID/debuginfo, /executable; /lidia is ours: the archive."""
        build_id, kind = checked(request.path_params["build_id"]), request.path_params["kind"]
        if kind not in (DEBUGINFO, EXECUTABLE, ARCHIVE):
            known = "debuginfo, executable, lidia, section/NAME and source/PATH"
            raise Refusal(404, f"of a build-id there are {known}, not {kind[:80]!r}")
        self._server.count(request, kind)
        content = await self._server.content(request, build_id, kind)
        if content is None:
            self._server.misses.note(build_id, "debuginfod")
            raise no_file(build_id, kind)
        response = send(request, content, f"{build_id}.{kind}")
        if kind == ARCHIVE:
            response.headers["Vary"] = "Accept-Encoding"
        return response

    async def section(self, request: Request) -> Response:
        """/buildid/ID/section/NAME: the section's bytes as they lie, of the debug file, else of the executable."""
        build_id, name = checked(request.path_params["build_id"]), request.path_params["name"]
        self._server.count(request, "section")
        held = False
        for kind in (DEBUGINFO, EXECUTABLE):
            content = await self._server.content(request, build_id, kind)
            if content is None:
                continue
            held = True
            found = self.tables.known(content.tag, name)
            if found is UNREAD:
                found = await run_in_threadpool(self.tables.read, content, build_id, kind, name)
            if isinstance(found, tuple):
                return send(request, content, f"{build_id}.{kind}", *found)
            content.close()
        if not held:
            self._server.misses.note(build_id, "debuginfod")
        raise no_section(build_id, name)

    async def source(self, request: Request) -> Response:
        """/buildid/ID/source/ABSOLUTE/PATH: a file of the bundle, by the path as sent or with its dots resolved."""
        build_id = checked(request.path_params["build_id"])
        self._server.count(request, "source")
        path = "/" + request.path_params["path"].lstrip("/")
        data = await run_in_threadpool(self._server.source, request, build_id, path)
        if data is None:
            raise Refusal(404, f"no source file {path[:200]!r} of build-id {build_id} is here")
        return send(request, InMemory(data), ascii_of(path))

    async def metadata(self, request: Request) -> Response:
        """/metadata?key=file|glob|buildid&value=...: what is known of names and build-ids."""
        self._server.count(request, "metadata")
        key, value = request.query_params.get("key", ""), request.query_params.get("value", "")
        if key not in ("file", "glob", "buildid") or not value:
            raise Refusal(400, "metadata has a key (file, glob or buildid) and a value")
        return JSONResponse(await run_in_threadpool(self._metadata, key, value))

    def _metadata(self, key: str, value: str) -> dict[str, object]:
        if key == "file":
            fits = re.compile(re.escape(value)).fullmatch
        elif key == "glob":
            fits = compiled(value).fullmatch
        else:
            fits = re.compile(re.escape(value.lower())).fullmatch
        results: list[dict[str, str]] = []
        for row in self._server.listing.rows():
            if fits(row.build_id if key == "buildid" else row.name) is None:
                continue
            for kind, size in ((EXECUTABLE, row.executable), (DEBUGINFO, row.debuginfo)):
                if size:
                    results.append({"type": str(kind), "buildid": row.build_id, "file": row.name})
            if len(results) >= METADATA_ROWS:
                return {"results": results, "complete": False}
        return {"results": results, "complete": True}


def no_file(build_id: str, kind: str) -> Refusal:
    return Refusal(404, f"no {kind} of build-id {build_id} is here")


def no_section(build_id: str, name: str) -> Refusal:
    return Refusal(404, f"no section {name[:80]!r} of build-id {build_id} is here")


class Unread:
    """The section table of a file was not read yet."""


UNREAD = Unread()


class SectionTables:
    """Where the sections of files lie, remembered by the files' tags."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._tables: Lru[str, dict[str, tuple[int, int]]] = Lru(KEPT_TABLES)

    def known(self, tag: str, name: str) -> tuple[int, int] | Unread | None:
        """Where a section begins and ends; None where the file has none of this name, or an empty one."""
        with self._lock:
            table = self._tables.get(tag)
            return UNREAD if table is None else table.get(name)

    def read(self, content: Content, build_id: str, kind: str, name: str) -> tuple[int, int] | None:
        """The same, of a file that is read for it."""
        table: dict[str, tuple[int, int]] = {}
        try:
            with self._store.file(build_id, kind) as path:
                if path is not None:
                    with ElfFile.open(path) as elf:
                        for one in elf.sections:
                            end = one.file_offset + one.size
                            if one.type != SHT_NOBITS and one.size and end <= content.size:
                                table.setdefault(one.name, (one.file_offset, end))
        except WhenceError:
            return None
        with self._lock:
            self._tables[content.tag] = table
        return table.get(name)


class InMemory:
    """Bytes in memory, as a file of the store is sent."""

    path = None
    encoding = ""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size, self.modified, self.tag = len(data), 0.0, f"{len(data):x}-{crc32(data):08x}"

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        return self._data[start:end]

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        yield self._data[start:end]

    def close(self) -> None:
        pass


def most_of(request: Request) -> int:
    """The most bytes that the client wants."""
    most = request.headers.get("x-debuginfod-maxsize", "")
    return int(most) if most.isascii() and most.isdecimal() and len(most) < 19 and int(most) else 1 << 63


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


def headers_of(name: str, tag: str, modified: float, begin: int, end: int, *, is_file: bool) -> dict[str, str]:
    """The headers of a file with this name and tag, or of its bytes [begin, end)."""
    headers = {
        "ETag": f'"{tag}"' if is_file else f'"{tag}-{begin:x}"', "Accept-Ranges": "bytes", "Cache-Control": "public",
        "X-DEBUGINFOD-SIZE": str(end - begin), "X-DEBUGINFOD-FILE": name,
    }  # fmt: skip
    if modified:
        headers["Last-Modified"] = formatdate(modified, usegmt=True)
    return headers


def send(request: Request, content: Content | InMemory, name: str, begin: int = 0, end: int | None = None) -> Response:
    """A file or its bytes [begin, end): whole, the range that was asked for, or 304. Closes the content when it is
    sent. Raises Refusal."""
    is_file = end is None
    end = content.size if end is None else end
    size = end - begin
    headers = headers_of(name, content.tag, content.modified, begin, end, is_file=is_file)
    tag = headers["ETag"]
    if content.encoding:
        headers["Content-Encoding"] = content.encoding
        del headers["X-DEBUGINFOD-SIZE"]  # which is that of the decompressed file
    try:
        if size > most_of(request):
            raise Refusal(406, f"it has {size} bytes", headers={"X-DEBUGINFOD-SIZE": str(size)})
        if is_known(request, tag, content.modified):
            content.close()
            return Response(status_code=304, headers=headers)
        asked = asked_range(request, size, tag)
        if asked is not None:
            headers["Content-Range"] = f"bytes {asked[0]}-{asked[1] - 1}/{size}"
            begin, end = begin + asked[0], begin + asked[1]
        headers["Content-Length"] = str(end - begin)
        status = 200 if asked is None else 206
        whole = asked is None and is_file
        if request.method == "HEAD":
            content.close()
            return Response(status_code=status, headers=headers, media_type=BINARY)
        if whole and content.path is not None and "http.response.pathsend" in request.scope.get("extensions", {}):
            content.close()
            request.scope["whence.bytes"] = size
            return PathResponse(content.path, headers)
        if end - begin <= SMALL and content.path is not None:  # a quick look into a local file
            data = content.read(begin, end)
            content.close()
            return Response(data, status, headers=headers, media_type=BINARY)
    except BaseException:
        content.close()
        raise
    return StreamingResponse(closing(content, begin, end), status, headers=headers, media_type=BINARY)


def asked_range(request: Request, size: int, tag: str) -> tuple[int, int] | None:
    """The part of `size` bytes that is asked for; None for all of them, also where several parts are asked for or the
    range is none (RFC 9110, 14.2). Raises Refusal."""
    asked = RANGE.fullmatch(request.headers.get("range", "").strip())
    if asked is None or not (asked[1] or asked[2]) or request.headers.get("if-range") not in (None, tag):
        return None
    if asked[1] and asked[2] and int(asked[2]) < int(asked[1]):
        return None
    if asked[1]:
        start, end = int(asked[1]), min(int(asked[2]) + 1 if asked[2] else size, size)
    else:
        start, end = max(size - int(asked[2]), 0), size
    if start >= end:
        raise Refusal(416, f"there are {size} bytes", headers={"Content-Range": f"bytes */{size}"})
    return start, end


class PathResponse(Response):
    """A file that the host sends by itself, from its path."""

    def __init__(self, path: Path, headers: dict[str, str]) -> None:
        super().__init__(None, headers=headers, media_type=BINARY)
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.pathsend", "path": str(self._path)})


def closing(content: Content | InMemory, start: int, end: int) -> Iterator[bytes]:
    """The bytes [start, end), a piece at a time."""
    try:
        yield from content.chunks(start, end)
    finally:
        content.close()
