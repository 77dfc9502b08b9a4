"""What the endpoints share: the store, what is open of it, limits, counts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from whence.columns import Namer
from whence.demangle import demangle
from whence.locate.locator import Locator
from whence.server.access import Access
from whence.server.metrics import Metrics
from whence.server.pool import ArchivePool
from whence.server.settings import ServerSettings
from whence.store import Content, Store

T = TypeVar("T")
P = ParamSpec("P")


class Server:
    """What the endpoints share: the store, what is open of it, limits, counts."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.store = Store(settings.store, cache=settings.cache or None)
        self.locator = Locator(
            dirs=settings.debug_dirs, local=False, sources=[self.store.source("server")],
            cache=settings.cache or None,
        )  # fmt: skip
        self.pool = ArchivePool(self.locator, settings.limits.open_archives)
        self.access = Access(settings.token_file, open_read=settings.open_read)
        self.metrics = Metrics()
        self.metrics.archives.set_function(lambda: len(self.pool))
        self.readable = demangle
        self._at_once = asyncio.Semaphore(settings.limits.at_once)
        self._namers: dict[tuple[bool, bool], Namer] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        for namer in self._namers.values():
            namer.close()
        self.pool.close()
        self.locator.close()
        self.store.close()

    def count(self, request: Request, kind: str) -> None:
        """Note what kind of request it is."""
        self.metrics.requests.labels(kind).inc()
        request.scope["whence.kind"] = kind

    async def heavy(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Do what takes a processor in a thread, as many at once as the limits say."""
        async with self._at_once:
            self.metrics.busy.labels("symbolize").inc()
            try:
                return await run_in_threadpool(work, *args, **named)
            finally:
                self.metrics.busy.labels("symbolize").dec()

    def namer(self, leaf: bool, returns: bool) -> Namer:
        """The namer of tables with these options."""
        with self._lock:
            found = self._namers.get((leaf, returns))
            if found is None:
                found = Namer(locator=self.locator, leaf=leaf, return_addresses=returns)
                self._namers[leaf, returns] = found
            return found

    def content(self, request: Request, build_id: str, kind: str) -> Content | None:
        """A file of the store; None, and it is written down as wanted, where it is not there."""
        found = self.store.open_bytes(build_id, kind)
        if found is None:
            self.store.missed(build_id, "debuginfod")
        else:
            self.store.used(build_id)
        return found

    def source(self, request: Request, build_id: str, path: str) -> bytes | None:
        """A source file of a bundle."""
        return self.store.read_source(build_id, path)
