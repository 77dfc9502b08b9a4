"""The threads of a role: so many at once, in order, and what is given up before it began never begins."""

from __future__ import annotations

import asyncio
import threading

import pytest

from whence.server.metrics import Metrics
from whence.server.threads import RolePool

ROLE = "symbolize"
SECONDS = 30.0  # that nothing here takes


def counted(metrics: Metrics) -> tuple[float, float, float]:
    """Requests that wait, that are at work, that were."""
    samples = {
        sample.name: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.labels.get("role") == ROLE
    }
    return samples["thread_work_pending"], samples["thread_busy"], samples["thread_work_total"]


def test_work_waits_for_a_thread_and_what_is_given_up_meanwhile_never_begins() -> None:
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
        one = asyncio.ensure_future(workers.run(first))
        given_up = asyncio.ensure_future(workers.run(done.append, "given up"))
        last = asyncio.ensure_future(workers.run(lambda: "last"))
        await asyncio.to_thread(begun.wait, SECONDS)
        assert counted(metrics) == (2, 1, 0)
        given_up.cancel()
        await asyncio.sleep(0)
        assert counted(metrics) == (1, 1, 0)
        go_on.set()
        return [await one, await last]

    assert asyncio.run(work()) == ["first", "last"]
    assert done == []
    workers.close()
    assert counted(metrics) == (0, 0, 2)


def test_what_work_raises_comes_out_and_is_counted() -> None:
    metrics = Metrics()
    metrics.add_roles([ROLE])
    workers = RolePool(ROLE, 2, metrics)

    def fails() -> None:
        raise LookupError("not here")

    with pytest.raises(LookupError, match="not here"):
        asyncio.run(workers.run(fails))
    workers.close()
    assert counted(metrics) == (0, 0, 1)
