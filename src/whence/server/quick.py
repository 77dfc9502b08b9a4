"""Responses to the most frequent requests without Starlette: misses, small sections, /metrics.

Only for stores in a folder and requests without a token, a range or a condition. The responses are equal to those of
the endpoints (debuginfod.py), which handle all other requests.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from whence.server.access import READ
from whence.server.bodies import JSON
from whence.server.debuginfod import BINARY, SMALL, UnreadTable, headers_of, no_file, no_section
from whence.server.metrics import CONTENT_TYPE, METRICS
from whence.server.settings import FRESH_SECONDS
from whence.store.folder import Folder
from whence.store.names import DEBUGINFO, EXECUTABLE, is_id

if TYPE_CHECKING:
    from starlette.types import Scope

    from whence.server.bodies import Refusal
    from whence.server.debuginfod import SectionTables
    from whence.server.state import Server

QuickAnswer = tuple[
    int, list[tuple[bytes, bytes]], bytes, str, str
]  # status, headers, body, kind and result for the counts
SectionKey = tuple[str, str, str, str]  # the file's tag, its build-id and kind, the section's name
PATH = re.compile(r"/buildid/([0-9a-f]+)/(?:(debuginfo|executable)|section/([^/]+))")
NOT_PLAIN = {
    b"authorization", b"if-modified-since", b"if-none-match", b"if-range", b"range", b"x-debuginfod-maxsize",
    b"x-forwarded-for",
}  # fmt: skip
OK, NOT_FOUND = 200, 404
CACHED_MISSES = 10_000
CACHED_BYTES, CACHED_SECTIONS = 16 << 20, 4096


class QuickAnswers:
    """Caches and returns responses."""

    def __init__(self, server: Server, tables: SectionTables) -> None:
        self._server, self._tables = server, tables
        self._allowed = READ in server.access.everyone
        self._sections: dict[SectionKey, QuickAnswer] = {}
        self._bytes = 0
        self._missing: dict[tuple[str, str], tuple[float, QuickAnswer]] = {}
        self._fresh: dict[tuple[str, str], tuple[float, SectionKey]] = {}  # sections whose files were just checked
        self._near = isinstance(server.store.objects, Folder)

    def answer(self, scope: Scope, headers: dict[bytes, bytes]) -> QuickAnswer | None:
        """Return the response; None if an endpoint has to make it."""
        if scope["method"] != "GET" or not self._allowed or not NOT_PLAIN.isdisjoint(headers):
            return None
        path = scope["path"]
        if path == "/metrics":
            body = self._server.metrics.text()
            self._server.metrics.traffic.count(METRICS)
            return response(OK, {"Content-Type": CONTENT_TYPE}, body, METRICS, "ok")
        match = PATH.fullmatch(path)
        if match is None or not self._near or self._server.upstream is not None or not is_id(match[1]):
            return None
        if b"text/html" in headers.get(b"accept", b""):  # a browser gets a page
            return None
        return self._file(match[1], match[2]) if match[2] else self._section(match[1], match[3])

    def _file(self, build_id: str, kind: str) -> QuickAnswer | None:
        miss = self._recent_miss(build_id, kind)
        if miss is not None:
            return miss
        if self._server.store.status(build_id, kind) is not None:
            return None
        return self._missed(build_id, no_file(build_id, kind), kind, kind)

    def _recent_miss(self, build_id: str, what: str) -> QuickAnswer | None:
        """Return the response to the same request a moment ago: many clients request a build-id at the same time."""
        miss = self._missing.get((build_id, what))
        if miss is None or time.monotonic() - miss[0] > FRESH_SECONDS:
            return None
        self._count_miss(build_id, miss[1])
        return miss[1]

    def _count_miss(self, build_id: str, answer: QuickAnswer) -> None:
        self._server.misses.note(build_id, "debuginfod")
        self._server.metrics.traffic.count(answer[3])

    def _section(self, build_id: str, name: str) -> QuickAnswer | None:
        miss = self._recent_miss(build_id, f"section/{name}")
        if miss is not None:
            return miss
        fresh = self._fresh.get((build_id, name))
        if fresh is not None and time.monotonic() - fresh[0] <= FRESH_SECONDS and fresh[1] in self._sections:
            return self._counted(fresh[1])
        store = self._server.store
        has_file = False
        for kind in (DEBUGINFO, EXECUTABLE):
            status = store.status(build_id, kind)
            if status is None:
                continue
            has_file = True
            key = status.tag, build_id, kind, name
            answer = self._sections.get(key)
            if answer is None:
                section = self._tables.cached(status.tag, name)
                if isinstance(section, UnreadTable):
                    return None
                if section is None:
                    continue
                if section[1] - section[0] > SMALL:
                    return None
                try:
                    body = store.objects.read_range(status.key, *section, status.tag)
                except OSError:
                    return None
                headers = headers_of(f"{build_id}.{kind}", status.tag, status.modified, *section, is_file=False)
                answer = response(OK, headers | {"Content-Type": BINARY}, body, "section", "file")
                self._cache(key, answer)
            if len(self._fresh) >= CACHED_SECTIONS:
                self._fresh.clear()
            self._fresh[build_id, name] = time.monotonic(), key
            return self._counted(key)
        return None if has_file else self._missed(build_id, no_section(build_id, name), "section", f"section/{name}")

    def _counted(self, key: SectionKey) -> QuickAnswer:
        """Count a request for a cached section, and return its response."""
        _, build_id, kind, _ = key
        self._server.note_use(build_id)
        self._server.metrics.traffic.count("section")
        self._server.count_file(kind, "store")
        return self._sections[key]

    def _cache(self, key: SectionKey, answer: QuickAnswer) -> None:
        """Cache a section by the tag of its file; the oldest entries are evicted."""
        self._sections[key] = answer
        self._bytes += len(answer[2])
        while self._bytes > CACHED_BYTES or len(self._sections) > CACHED_SECTIONS:
            self._bytes -= len(self._sections.pop(next(iter(self._sections)))[2])

    def _missed(self, build_id: str, refusal: Refusal, kind: str, what: str) -> QuickAnswer:
        answer = response(NOT_FOUND, {"Content-Type": JSON}, refusal.body(), kind, "error")
        if len(self._missing) >= CACHED_MISSES:
            self._missing.clear()
        self._missing[build_id, what] = time.monotonic(), answer
        self._count_miss(build_id, answer)
        return answer


def response(status: int, headers: dict[str, str], body: bytes, kind: str, result: str) -> QuickAnswer:
    """Return a response with these headers and a Content-Length."""
    fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    fields.append((b"Content-Length", b"%d" % len(body)))
    return status, fields, body, kind, result
