"""A deploy storm: builds are uploaded, and many hosts request names of each at once, while servers are killed.

Each build is uploaded to one server and kept in a bucket. As soon as it was accepted, every host asks a server for a
name in it, until the answer is right. Every `kill_seconds` a server is killed at random, and started again after a
second. Counted are lost uploads and answers, requests to the bucket, the time until a host has its name, and processor
time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.fleet.builds import Builds
from benchmarks.fleet.client import Connection
from benchmarks.fleet.cluster import CountingBucket, RunningServer, cluster

RETRY_SECONDS = 0.2
PATIENCE_SECONDS = 60.0  # after which an upload or an answer counts as lost
DOWN_SECONDS = 1.0
KINDS = ("debuginfo", "lidia.gz", "meta.json")


@dataclass
class Outcome:
    """What a storm gave."""

    builds: int
    seconds: float = 0.0
    names: list[float] = field(default_factory=list)  # seconds from a host's first request to its right answer
    firsts: list[float] = field(default_factory=list)  # of each build, of the host that was first
    uploads: list[float] = field(default_factory=list)
    lost_names: int = 0
    lost_uploads: list[str] = field(default_factory=list)
    kills: int = 0
    reads: dict[str, float] = field(default_factory=dict)  # by kind of file, for each build
    other_requests: float = 0.0  # for each build
    server_seconds: float = 0.0


class Storm:
    """A storm over running servers."""

    def __init__(self, builds: Builds, servers: list[RunningServer], hosts: int, *, by_build: bool, seed: int) -> None:
        self._builds, self._servers, self._hosts, self._by_build = builds, servers, hosts, by_build
        self._dice = random.Random(seed)
        self._ports = [server.port for server in servers]

    async def run(self, count: int, per_second: float, kill_seconds: float) -> Outcome:
        """Upload `count` builds at a rate, and let every host ask for each."""
        outcome = Outcome(count)
        killer = asyncio.create_task(self._kill(kill_seconds, outcome)) if kill_seconds else None
        began = time.monotonic()
        tasks = []
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / per_second - time.monotonic()))
            tasks.append(asyncio.create_task(self._build(number, outcome)))
        await asyncio.gather(*tasks)
        outcome.seconds = time.monotonic() - began
        if killer is not None:
            killer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await killer
        return outcome

    async def _kill(self, every: float, outcome: Outcome) -> None:
        while True:
            await asyncio.sleep(self._dice.uniform(0.5, 1.5) * every)
            server = self._dice.choice(self._servers)
            await asyncio.to_thread(server.kill)
            outcome.kills += 1
            await asyncio.sleep(DOWN_SECONDS)
            await asyncio.shield(asyncio.to_thread(server.start))

    def _port(self, build_id: str) -> int:
        """Return the server that a balancer chooses for a build-id."""
        return self._ports[int(build_id[:8], 16) % len(self._ports)] if self._by_build else 0

    async def _build(self, number: int, outcome: Outcome) -> None:
        build_id = self._builds.build_id(number)
        content = await asyncio.to_thread(self._builds.content, number)
        began = time.monotonic()
        async with Connection(self._ports, self._dice) as connection:
            path = f"/buildid/{build_id}/debuginfo?name=app"
            while True:
                status, _ = await connection.request("PUT", path, content, self._port(build_id))
                if status in (200, 201):
                    break
                if time.monotonic() - began > PATIENCE_SECONDS:
                    outcome.lost_uploads.append(f"{build_id}: {status}")
                    return
                await asyncio.sleep(RETRY_SECONDS)
        outcome.uploads.append(time.monotonic() - began)
        times = await asyncio.gather(*(self._host(number, build_id) for _ in range(self._hosts)))
        named = [seconds for seconds in times if seconds is not None]
        outcome.lost_names += len(times) - len(named)
        outcome.names += named
        outcome.firsts += [min(named)] if named else []

    async def _host(self, number: int, build_id: str) -> float | None:
        """Return after how many seconds a host has the right name; None if it never does."""
        body = json.dumps({"build_id": build_id, "address": self._builds.address}).encode()
        expected = self._builds.name(number)
        began = time.monotonic()
        async with Connection(self._ports, self._dice) as connection:
            while time.monotonic() - began < PATIENCE_SECONDS:
                status, answer = await connection.request("POST", "/symbolize", body, self._port(build_id))
                if status == 200:
                    frames = json.loads(answer).get("frames") or []
                    if frames and frames[-1]["function"] == expected:
                        return time.monotonic() - began
                await asyncio.sleep(RETRY_SECONDS)
        return None


def count_requests(bucket: CountingBucket, builds: Builds, outcome: Outcome) -> None:
    """Fill in the requests of a storm, and check that each accepted build is in the bucket."""
    counts = bucket.counts()
    for kind in KINDS:
        reads = sum(n for (method, key), n in counts.items() if method == "GET" and key.endswith(f"/{kind}"))
        outcome.reads[kind] = reads / outcome.builds
    outcome.other_requests = sum(counts.values()) / outcome.builds - sum(outcome.reads.values())
    refused = {line.partition(":")[0] for line in outcome.lost_uploads}
    for number in range(outcome.builds):
        build_id = builds.build_id(number)
        if build_id in refused:
            continue
        kept = bucket.read(f"buildid/{build_id}/debuginfo")
        if kept != builds.content(number):
            outcome.lost_uploads.append(f"{build_id}: {'other content' if kept else 'missing'}")


def storm(options: argparse.Namespace, *, shared_cache: bool, by_build: bool) -> Outcome:
    """Run one storm on new servers and an empty bucket."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        builds = Builds(folder, options.functions)
        with cluster(folder, options.servers, shared_cache=shared_cache, workers=options.workers) as (bucket, servers):
            work = Storm(builds, servers, options.hosts, by_build=by_build, seed=options.seed)
            outcome = asyncio.run(work.run(options.builds, options.rate, options.kill_seconds))
            outcome.server_seconds = sum(server.processor_seconds() for server in servers)
            count_requests(bucket, builds, outcome)
            return outcome


def percentile(values: list[float], share: float) -> float:
    """Return the value that a share of the values does not exceed; NaN without values."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)] if values else float("nan")


def report(title: str, outcome: Outcome) -> None:
    """Print a storm's figures."""
    requests = len(outcome.names) + outcome.lost_names
    print(
        f"{title}: {outcome.builds} builds, {requests:,} requests in {outcome.seconds:.1f} s, {outcome.kills} servers"
        f" killed: {outcome.lost_names} answers and {len(outcome.lost_uploads)} uploads lost"
    )
    for what, times in (
        ("upload", outcome.uploads),
        ("first name of a build", outcome.firsts),
        ("name", outcome.names),
    ):
        print(f"  {what}: p50 {1000 * percentile(times, 0.5):.0f} ms, p99 {1000 * percentile(times, 0.99):.0f} ms")
    reads = ", ".join(f"{kind} {count:.2f}" for kind, count in outcome.reads.items())
    print(f"  reads of the bucket for each build: {reads}; other requests {outcome.other_requests:.1f}")
    print(f"  servers' processor time {outcome.server_seconds:.1f} s")
    for line in outcome.lost_uploads[:5]:
        print(f"  lost: {line}")


def main(arguments: list[str]) -> int:
    """Run the storms: with a shared cache, with caches of their own, and with a balancer by build-id."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet storm", description=__doc__)
    parser.add_argument("--builds", type=int, default=60)
    parser.add_argument("--rate", type=float, default=3.0, help="builds a second")
    parser.add_argument("--hosts", type=int, default=100, help="hosts that ask for each build at once")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2, help="processes of each server")
    parser.add_argument("--functions", type=int, default=2000, help="functions of each build")
    parser.add_argument("--kill-seconds", type=float, default=5.0, help="mean time between kills; 0 for none")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    lost = 0
    for title, shared_cache, by_build in (
        ("one cache for all servers", True, False),
        ("caches of their own, any server", False, False),
        ("caches of their own, server by build-id", False, True),
    ):
        outcome = storm(options, shared_cache=shared_cache, by_build=by_build)
        report(title, outcome)
        lost += outcome.lost_names + len(outcome.lost_uploads)
    return 1 if lost else 0
