"""The threads of a role: their number, the order of work, and cancelled work."""

from __future__ import annotations

import asyncio
import threading

import pytest

from whence.server.metrics import Metrics
from whence.server.threads import RolePool

ROLE = "symbolize"
SECONDS = 30.0  # that nothing here takes


def counted(metrics: Metrics) -> tuple[float, float, float]:
    """Return the numbers of waiting, running and finished requests."""
    samples = {
        sample.name: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.labels.get("role") == ROLE
    }
    return samples["thread_work_pending"], samples["thread_busy"], samples["thread_work_total"]


def test_work_waits_for_a_thread_and_cancelled_work_never_starts() -> None:
    metrics = Metrics()
    metrics.add_roles([ROLE])
    workers = RolePool(ROLE, 1, metrics)
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def first() -> str:
        begun.set()
        assert go_on.wait(SECONDS)
        return "first"

    async def work() -> list[str]:
        item = asyncio.ensure_future(workers.run(first))
        given_up = asyncio.ensure_future(workers.run(done.append, "given up"))
        last = asyncio.ensure_future(workers.run(lambda: "last"))
        await asyncio.to_thread(begun.wait, SECONDS)
        assert counted(metrics) == (2, 1, 0)
        given_up.cancel()
        await asyncio.sleep(0)
        assert counted(metrics) == (1, 1, 0)
        go_on.set()
        return [await item, await last]

    assert asyncio.run(work()) == ["first", "last"]
    assert done == []
    workers.close()
    assert counted(metrics) == (0, 0, 2)


def test_errors_of_work_are_raised_and_counted() -> None:
    metrics = Metrics()
    metrics.add_roles([ROLE])
    workers = RolePool(ROLE, 2, metrics)

    def fails() -> None:
        raise LookupError("not here")

    with pytest.raises(LookupError, match="not here"):
        asyncio.run(workers.run(fails))
    workers.close()
    assert counted(metrics) == (0, 0, 1)
