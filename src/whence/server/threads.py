"""Threads for work that needs a processor or waits: a limited number for each role; further work waits in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from whence.server.metrics import Metrics

T = TypeVar("T")
P = ParamSpec("P")


class RolePool:
    """The threads of one role.

    Work is submitted to the executor directly: a task and a lock would cost as much as a small request.
    """

    def __init__(self, role: str, count: int, metrics: Metrics) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=role)
        self._pending, self._busy, self._work = (
            metrics.pending.labels(role), metrics.busy.labels(role), metrics.work.labels(role),
        )  # fmt: skip

    async def run(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run `work` on a thread. A cancelled call continues if it has started, else it never starts."""

        def started() -> T:
            self._pending.dec()
            with self._busy.track_inprogress():
                try:
                    return work(*args, **named)
                finally:
                    self._work.inc()

        self._pending.inc()
        future = self._threads.submit(started)
        future.add_done_callback(self._note_cancelled)
        return await asyncio.wrap_future(future)

    def _note_cancelled(self, future: Future[T]) -> None:
        if future.cancelled():  # before it started
            self._pending.dec()

    def close(self) -> None:
        """Start no more work. Work that has started continues."""
        self._threads.shutdown(wait=False, cancel_futures=True)
