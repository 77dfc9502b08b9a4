"""The time a request may take, looked at by the thread that works for it: between build-ids, files and batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from whence.server.bodies import Refusal


class ThreadDeadline(threading.local):
    """When the request that this thread works for has to be answered, by time.monotonic."""

    end = float("inf")


CURRENT = ThreadDeadline()


@contextmanager
def until(end: float) -> Iterator[None]:
    """A block in which `check_deadline` raises Refusal once `end` (of time.monotonic) has passed."""
    before, CURRENT.end = CURRENT.end, end
    try:
        yield
    finally:
        CURRENT.end = before


def check_deadline() -> None:
    """Raise Refusal (503) if this thread's request has used up its time: its client was refused already."""
    if time.monotonic() > CURRENT.end:
        raise Refusal(503, "no answer within the time of a request", headers={"Retry-After": "30"})
