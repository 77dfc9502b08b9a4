"""The requests that come most often, answered without Starlette and without waiting: misses, small sections, /metrics.

Only what a folder holds, only plain requests that everyone may make: without a token, a range, a condition. The
answers are those of the endpoints (debuginfod.py), header by header; anything else is left to these.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from whence.server.access import READ
from whence.server.bodies import JSON
from whence.server.debuginfod import BINARY, SMALL, Unread, headers_of, no_file, no_section
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
Key = tuple[str, str, str, str]  # the file's tag, its build-id and kind, the section's name
PATH = re.compile(r"/buildid/([0-9a-f]+)/(?:(debuginfo|executable)|section/([^/]+))")
NOT_PLAIN = {
    b"authorization", b"if-modified-since", b"if-none-match", b"if-range", b"range", b"x-debuginfod-maxsize",
    b"x-forwarded-for",
}  # fmt: skip
OK, NOT_FOUND = 200, 404
KEPT_MISSES = 10_000
KEPT_BYTES, KEPT_SECTIONS = 16 << 20, 4096  # of sections that are remembered


class QuickAnswers:
    def __init__(self, server: Server, tables: SectionTables) -> None:
        self._server, self._tables = server, tables
        self._allowed = READ in server.access.everyone
        self._kept: dict[Key, QuickAnswer] = {}
        self._bytes = 0
        self._missing: dict[tuple[str, str], tuple[float, QuickAnswer]] = {}
        self._fresh: dict[tuple[str, str], tuple[float, Key]] = {}  # sections whose files were looked at just now
        self._near = isinstance(server.store.objects, Folder)

    def answer(self, scope: Scope, headers: dict[bytes, bytes]) -> QuickAnswer | None:
        """The answer; None where it is not for here."""
        if scope["method"] != "GET" or not self._allowed or not NOT_PLAIN.isdisjoint(headers):
            return None
        path = scope["path"]
        if path == "/metrics":
            body = self._server.metrics.text()
            self._server.metrics.traffic.count(METRICS)
            return made(OK, {"Content-Type": CONTENT_TYPE}, body, METRICS, "ok")
        found = PATH.fullmatch(path)
        if found is None or not self._near or self._server.upstream is not None or not is_id(found[1]):
            return None
        return self._file(found[1], found[2]) if found[2] else self._section(found[1], found[3])

    def _file(self, build_id: str, kind: str) -> QuickAnswer | None:
        known = self._known_missing(build_id, kind)
        if known is not None:
            return known
        if self._server.store.status(build_id, kind) is not None:
            return None
        return self._missed(build_id, no_file(build_id, kind), kind, kind)

    def _known_missing(self, build_id: str, what: str) -> QuickAnswer | None:
        """The answer of a moment ago: a build-id that many want is asked for by many at once."""
        known = self._missing.get((build_id, what))
        if known is None or time.monotonic() - known[0] > FRESH_SECONDS:
            return None
        self._count_miss(build_id, known[1])
        return known[1]

    def _count_miss(self, build_id: str, answer: QuickAnswer) -> None:
        self._server.misses.note(build_id, "debuginfod")
        self._server.metrics.traffic.count(answer[3])

    def _section(self, build_id: str, name: str) -> QuickAnswer | None:
        known = self._known_missing(build_id, f"section/{name}")
        if known is not None:
            return known
        fresh = self._fresh.get((build_id, name))
        if fresh is not None and time.monotonic() - fresh[0] <= FRESH_SECONDS and fresh[1] in self._kept:
            return self._counted(fresh[1])
        store = self._server.store
        held = False
        for kind in (DEBUGINFO, EXECUTABLE):
            status = store.status(build_id, kind)
            if status is None:
                continue
            held = True
            key = status.tag, build_id, kind, name
            answer = self._kept.get(key)
            if answer is None:
                found = self._tables.known(status.tag, name)
                if isinstance(found, Unread):
                    return None
                if found is None:
                    continue
                if found[1] - found[0] > SMALL:
                    return None
                try:
                    body = store.objects.read_range(status.key, *found, status.tag)
                except OSError:
                    return None
                described = headers_of(f"{build_id}.{kind}", status.tag, status.modified, *found, is_file=False)
                answer = made(OK, described | {"Content-Type": BINARY}, body, "section", "file")
                self._keep(key, answer)
            if len(self._fresh) >= KEPT_SECTIONS:
                self._fresh.clear()
            self._fresh[build_id, name] = time.monotonic(), key
            return self._counted(key)
        return None if held else self._missed(build_id, no_section(build_id, name), "section", f"section/{name}")

    def _counted(self, key: Key) -> QuickAnswer:
        """A section that is remembered, noted."""
        _, build_id, kind, _ = key
        self._server.note_use(build_id)
        self._server.metrics.traffic.count("section")
        self._server.count_file(kind, "store")
        return self._kept[key]

    def _keep(self, key: Key, answer: QuickAnswer) -> None:
        """Remember a section, by the tag of its file; those that were remembered first go."""
        self._kept[key] = answer
        self._bytes += len(answer[2])
        while self._bytes > KEPT_BYTES or len(self._kept) > KEPT_SECTIONS:
            self._bytes -= len(self._kept.pop(next(iter(self._kept)))[2])

    def _missed(self, build_id: str, refusal: Refusal, kind: str, what: str) -> QuickAnswer:
        answer = made(NOT_FOUND, {"Content-Type": JSON}, refusal.body(), kind, "error")
        if len(self._missing) >= KEPT_MISSES:
            self._missing.clear()
        self._missing[build_id, what] = time.monotonic(), answer
        self._count_miss(build_id, answer)
        return answer


def made(status: int, headers: dict[str, str], body: bytes, kind: str, result: str) -> QuickAnswer:
    fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    fields.append((b"Content-Length", b"%d" % len(body)))
    return status, fields, body, kind, result
