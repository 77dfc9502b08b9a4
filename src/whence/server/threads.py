"""Threads for what takes a processor or waits for others: so many of a role, and what more is asked waits in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from whence.server.metrics import Metrics

T = TypeVar("T")
P = ParamSpec("P")


class Workers:
    """Those of one role. They hand over directly: a task and a lock more for each request cost as much as a small one
    itself."""

    def __init__(self, role: str, count: int, metrics: Metrics) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=role)
        self._pending, self._busy, self._work = (
            metrics.pending.labels(role), metrics.busy.labels(role), metrics.work.labels(role),
        )  # fmt: skip

    async def run(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Do it in a thread. When this is cancelled, what has begun goes on and keeps its thread; what has not does
        not begin."""

        def begun() -> T:
            self._pending.dec()
            with self._busy.track_inprogress():
                try:
                    return work(*args, **named)
                finally:
                    self._work.inc()

        self._pending.inc()
        future = self._threads.submit(begun)
        future.add_done_callback(self._note_cancelled)
        return await asyncio.wrap_future(future)

    def _note_cancelled(self, future: Future[T]) -> None:
        if future.cancelled():  # before it began
            self._pending.dec()

    def close(self) -> None:
        """Start nothing more. What has begun ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)
