"""The time limit of a request, checked by the thread that works for it: between build-ids, files and batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from whence.server.bodies import Refusal


class ThreadDeadline(threading.local):
    """The end of the time of this thread's request, by time.monotonic."""

    end = float("inf")


CURRENT = ThreadDeadline()


@contextmanager
def until(end: float) -> Iterator[None]:
    """Open a block in which `check_deadline` raises Refusal after `end` (of time.monotonic)."""
    before, CURRENT.end = CURRENT.end, end
    try:
        yield
    finally:
        CURRENT.end = before


def check_deadline() -> None:
    """Raise Refusal (503) if the time of this thread's request is over: its client was already refused."""
    if time.monotonic() > CURRENT.end:
        raise Refusal(503, "no answer within the time limit of a request", headers={"Retry-After": "30"})
