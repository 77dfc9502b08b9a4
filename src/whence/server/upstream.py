"""Upstream servers: missing files are requested from other debuginfod servers, verified, and put into the store.

The client is that of `--debuginfod` (whence.locate.debuginfod): a file is accepted if it has the build-id, which a
confined process checks (parsing.py); a 404 is cached, and a server that does not answer is paused. Concurrent requests
for the same file wait for the first one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError
from whence.locate.cache import Cache
from whence.locate.debuginfod import Debuginfod, allowing
from whence.locate.search import FileQuery, Tried
from whence.locate.sources import Candidate
from whence.store.names import DEBUGINFO, is_id

if TYPE_CHECKING:
    from whence.server.parsing import ConfinedParser
    from whence.server.settings import ServerSettings
    from whence.store import Store
    from whence.store.source import StoreSource

LOG = logging.getLogger("whence")
CACHE_BYTES = 1 << 30  # of files that could not be put into the store


class Upstream:
    """The client of the upstream servers.

    `changed` is called with a build-id whose file was put, `waited` with the time that a request waited for an equal
    one, in milliseconds.
    """

    def __init__(
        self,
        store: Store,
        settings: ServerSettings,
        parser: ConfinedParser,
        changed: Callable[[str], None],
        waited: Callable[[float], None],
    ) -> None:
        self._store, self._changed, self._waited = store, changed, waited
        cache = Cache(Path(settings.cache) / "upstream", CACHE_BYTES)
        self._client = Debuginfod(
            settings.upstreams,
            cache,
            allow=allowing(settings.upstream_allow),
            log=lambda line: LOG.info("%s", line),
            verify=parser.check,
        )
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, str], Future[Path | None]] = {}

    def fetch(self, build_id: str, kind: str, headers: Mapping[str, str] | None = None) -> Path | None:
        """Fetch a file and put it into the store; return its path in the cache, or None if no server has it.

        Errors of servers are logged.
        """
        if not is_id(build_id):
            return None
        key = build_id, kind
        with self._lock:
            first = key not in self._pending
            future = self._pending.setdefault(key, Future())
        if not first:
            began = time.monotonic()
            path = future.result()
            self._waited(1000 * (time.monotonic() - began))
            return path
        path = None
        try:
            path = self._client.fetch(build_id, kind, headers=headers)
            if path is not None:
                self._put(path, build_id)
        except (WhenceError, OSError, ValueError) as error:
            LOG.warning("upstream: %s %s: %s", build_id, kind, error)
        finally:
            with self._lock:
                del self._pending[key]
            future.set_result(path)
        return path

    def source(self, build_id: str, path: str, headers: Mapping[str, str] | None = None) -> bytes | None:
        """Return a source file; None if no server has it. It is not stored, since its build-id can't be verified."""
        try:
            return self._client.read_source(build_id, path, headers)
        except (WhenceError, OSError, ValueError) as error:
            LOG.warning("upstream: %s source: %s", build_id, error)
            return None

    def _put(self, path: Path, build_id: str) -> None:
        """Put a verified file into the store."""
        with suppress(WhenceError), open(path, "rb") as file:  # the store may be read-only
            self._store.put(build_id, "", file, origin="upstream")
        self._changed(build_id)

    def close(self) -> None:
        """Close connections."""
        self._client.close()


class UpstreamSource:
    """The upstream servers as a source of the Locator, after the store: their files are put into the store."""

    how = "upstream"

    def __init__(self, upstream: Upstream, store: StoreSource) -> None:
        self._upstream, self._store = upstream, store

    def find(self, query: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        """Fetch the debug file, and yield the candidates of the store."""
        if self._upstream.fetch(query.key, DEBUGINFO) is not None:
            yield from self._store.find(query, tried)

    def fetch(self, build_id: str, kind: str = "debuginfo", path: str = "") -> Path | None:
        """Fetch a file that completes another; return its path, or None."""
        return self._upstream.fetch(build_id, kind)

    def close(self) -> None:
        """Close connections."""
        self._upstream.close()
