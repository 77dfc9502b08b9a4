"""The operator's moment: one store in a bucket and N servers with caches of their own; how large should they be?

A simulation, not a timing: queries about a million build-ids, drawn by Zipf's law (the k-th most frequent
with a probability proportional to 1/k^s), are sent to servers at random or by build-id. Each server has a bounded LRU
cache, as whence.locate.cache is. Counted are hits, requests to the bucket and bytes
from it. Sizes of archives are drawn log-normally around a median, and stay the build-id's own.

`python -m benchmarks.fleet caches`; FLEET_QUESTIONS, FLEET_BUILD_IDS and FLEET_SERVERS change it.
"""

from __future__ import annotations

import os
import random
from array import array
from bisect import bisect_left
from collections import OrderedDict
from itertools import accumulate

BUILD_IDS = int(os.environ.get("FLEET_BUILD_IDS", "1000000"))
QUESTIONS = int(os.environ.get("FLEET_QUESTIONS", "2000000"))
SERVERS = int(os.environ.get("FLEET_SERVERS", "8"))
SKEWS = (0.8, 1.0, 1.2)
CACHES = (1 << 30, 10 << 30, 50 << 30, 200 << 30)  # bytes a server
MEDIAN_BYTES, SPREAD, LARGEST = 600_000, 1.5, 1 << 30  # of an archive: the median, sigma of its logarithm
WARM = 0.5  # of the questions go by before anything is counted
PER_MISS = 5  # requests: meta.json (looked at, read), the archive (looked at twice, read)
REVALIDATED = 5.0  # seconds that a server believes what it knows of a build-id
PER_SECOND = 2_000  # questions to the whole fleet: what revalidating costs depends on it
REQUEST_DOLLARS, GIGABYTE_DOLLARS = 0.4e-6, 0.02  # a GET; a gigabyte from a bucket in another region
GIGABYTE = 1 << 30


class Cache:
    """What one server has of the bucket: the least recently used leaves."""

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, 0
        self._held: OrderedDict[int, int] = OrderedDict()

    def ask(self, which: int, size: int) -> bool:
        """Whether it is here; it is afterwards."""
        if which in self._held:
            self._held.move_to_end(which)
            return True
        if size <= self._most:
            self._held[which] = size
            self._bytes += size
            while self._bytes > self._most:
                self._bytes -= self._held.popitem(last=False)[1]
        return False


class Outcome:
    """What a run of the trace cost."""

    def __init__(self) -> None:
        self.questions = self.hits = self.misses = self.fetched = self.checks = 0

    @property
    def rate(self) -> float:
        return self.hits / max(self.questions, 1)


def trace(skew: float, count: int, dice: random.Random) -> array[int]:
    """Return build-ids by rank, in the order of queries."""
    weights = array("d", accumulate(1.0 / (rank + 1) ** skew for rank in range(BUILD_IDS)))
    total = weights[-1]
    return array("I", (min(bisect_left(weights, dice.random() * total), BUILD_IDS - 1) for _ in range(count)))


def sizes(dice: random.Random) -> array[int]:
    """Bytes of the archive of each build-id."""
    return array("Q", (min(int(MEDIAN_BYTES * dice.lognormvariate(0, SPREAD)), LARGEST) for _ in range(BUILD_IDS)))


def simulate(asked: array[int], held: array[int], cache_bytes: int, servers: int, *, by_id: bool) -> Outcome:
    """Simulate queries to `servers` caches, each chosen at random or with `by_id` by its build-id."""
    dice = random.Random(5)
    caches = [Cache(cache_bytes) for _ in range(servers)]
    checked: list[dict[int, float]] = [{} for _ in range(servers)]
    outcome = Outcome()
    begins = int(WARM * len(asked))
    for number, which in enumerate(asked):
        server = which % servers if by_id else int(dice.random() * servers)
        is_hit = caches[server].ask(which, held[which])
        now = number / PER_SECOND
        is_stale = now - checked[server].get(which, -REVALIDATED) >= REVALIDATED
        if is_stale:
            checked[server][which] = now
        if number < begins:
            continue
        outcome.questions += 1
        outcome.hits += is_hit
        outcome.misses += not is_hit
        outcome.fetched += 0 if is_hit else held[which]
        outcome.checks += is_hit and is_stale
    return outcome


def run() -> None:
    dice = random.Random(3)
    kept = sizes(dice)
    print(
        f"{BUILD_IDS:,} build-ids, archives of {sum(kept) / GIGABYTE:,.0f} GB (median {MEDIAN_BYTES:,} bytes), "
        f"{SERVERS} servers, {QUESTIONS:,} questions at {PER_SECOND:,} a second, the second half counted"
    )
    heads = "skew", "server", "cache per server", "hits", "requests per 1,000", "MB per 1,000", "dollars per million"
    print(f"| {' | '.join(heads)} |")
    print(f"|{'---|' * len(heads)}")
    for skew in SKEWS:
        asked = trace(skew, QUESTIONS, dice)
        for by_id in (False, True):
            for cache_bytes in CACHES:
                result = simulate(asked, kept, cache_bytes, SERVERS, by_id=by_id)
                requests = (PER_MISS * result.misses + result.checks) / result.questions
                fetched = result.fetched / result.questions
                dollars = 1e6 * (requests * REQUEST_DOLLARS + fetched / GIGABYTE * GIGABYTE_DOLLARS)
                server = "its own" if by_id else "any"
                print(
                    f"| {skew} | {server} | {cache_bytes // GIGABYTE} GB | {100 * result.rate:.1f} % "
                    f"| {1000 * requests:,.0f} | {1000 * fetched / 1e6:,.0f} | {dollars:,.2f} |"
                )


def main(arguments: list[str]) -> int:
    """Run the simulation."""
    run()
    return 0
