"""Other debuginfod servers behind this one: what is not in the store is asked of them, verified and kept.

The client is that of `--debuginfod` (whence.locate.debuginfod): an answer is believed when it carries the build-id, a
404 is remembered, a server that does not answer rests. Whether it does is found out in a process of its own
(parsing.py). Equal requests at the same time wait for the first one.
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
from whence.locate.search import Tried, Wanted
from whence.locate.sources import Candidate
from whence.store.names import DEBUGINFO, is_id

if TYPE_CHECKING:
    from whence.server.parsing import ConfinedParser
    from whence.server.settings import ServerSettings
    from whence.store import Store
    from whence.store.source import StoreSource

LOG = logging.getLogger("whence")
KEPT_BYTES = 1 << 30  # of what came and could not be put into the store


class Upstream:
    """The servers that a store's misses are asked of."""

    def __init__(
        self,
        store: Store,
        settings: ServerSettings,
        parser: ConfinedParser,
        came: Callable[[str], None],
        waited: Callable[[float], None],
    ) -> None:
        self._store, self._came, self._waited = store, came, waited
        cache = Cache(Path(settings.cache) / "upstream", KEPT_BYTES)
        self._client = Debuginfod(
            settings.upstreams,
            cache,
            allow=allowing(settings.upstream_allow),
            log=lambda line: LOG.info("%s", line),
            verify=parser.check,
        )
        self._lock = threading.Lock()
        self._asking: dict[tuple[str, str], Future[Path | None]] = {}

    def fetch(self, build_id: str, kind: str, headers: Mapping[str, str] | None = None) -> Path | None:
        """A file from upstream, put into the store where it takes it; None when no server has it. Where it lies until
        the cache needs the room. Never raises what a server did."""
        if not is_id(build_id):
            return None
        key = build_id, kind
        with self._lock:
            first = key not in self._asking
            future = self._asking.setdefault(key, Future())
        if not first:
            began = time.monotonic()
            found = future.result()
            self._waited(1000 * (time.monotonic() - began))
            return found
        found = None
        try:
            found = self._client.fetch(build_id, kind, headers=headers)
            if found is not None:
                self._keep(found, build_id)
        except (WhenceError, OSError, ValueError) as error:
            LOG.warning("upstream: %s %s: %s", build_id, kind, error)
        finally:
            with self._lock:
                del self._asking[key]
            future.set_result(found)
        return found

    def source(self, build_id: str, path: str, headers: Mapping[str, str] | None = None) -> bytes | None:
        """A source file from upstream; None when no server has it. It is not kept: its build-id is not in it."""
        try:
            return self._client.read_source(build_id, path, headers)
        except (WhenceError, OSError, ValueError) as error:
            LOG.warning("upstream: %s source: %s", build_id, error)
            return None

    def _keep(self, path: Path, build_id: str) -> None:
        """Put a file that was verified into the store."""
        with suppress(WhenceError), open(path, "rb") as file:  # a store that can only be read keeps nothing
            self._store.put(build_id, "", file, origin="upstream")
        self._came(build_id)

    def close(self) -> None:
        self._client.close()


class UpstreamSource:
    """Upstream as a source of the Locator, behind the store: what it has is then the store's."""

    how = "upstream"

    def __init__(self, upstream: Upstream, store: StoreSource) -> None:
        self._upstream, self._store = upstream, store

    def find(self, wanted: Wanted, tried: list[Tried]) -> Iterator[Candidate]:
        """What the store has once upstream was asked for the debug file."""
        if self._upstream.fetch(wanted.key, DEBUGINFO) is not None:
            yield from self._store.find(wanted, tried)

    def fetch(self, build_id: str, kind: str = "debuginfo", path: str = "") -> Path | None:
        return self._upstream.fetch(build_id, kind)

    def close(self) -> None:
        self._upstream.close()
