"""Counts and durations, under the names that debuginfod's dashboards have and tests look for.

What every request adds to is kept in plain dictionaries, which the event loop alone changes; Prometheus' families are
made of them when they are asked for. The text is made anew when something but a look at it has happened since.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Gauge, Summary
from prometheus_client import Counter as Counted
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METRICS = "metrics"  # the kind of a look at the counts
OLDEST = 1.0  # seconds
FAILED = 400  # statuses from here on are errors


class Traffic:
    """Requests by kind; answers with their bytes and milliseconds by status and kind, and by where the file was."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.results: Counter[str] = Counter()
        self.answers: dict[tuple[int, str], list[float]] = {}
        self.changes = 0

    def note(self, kind: str, status: int, result: str, size: int, milliseconds: float) -> None:
        """Count an answer."""
        self.results["error" if status >= FAILED else result] += 1
        row = self.answers.get((status, kind))
        if row is None:
            row = self.answers[status, kind] = [0, 0, 0.0]
        row[0] += 1
        row[1] += size
        row[2] += milliseconds
        if kind != METRICS:
            self.changes += 1

    def collect(self) -> Iterator[Metric]:
        """The families, as Prometheus' registry asks for them."""
        for counter, counts in (
            (CounterMetricFamily("http_requests", "requests by kind", labels=["type"]), self.requests),
            (CounterMetricFamily("http_responses", "answers by what was found", labels=["result"]), self.results),
        ):  # fmt: skip
            for label, number in [*counts.items()]:
                counter.add_metric([label], number)
            yield counter
        labels = ["code", "type"]
        size = SummaryMetricFamily("http_responses_transfer_bytes", "bytes sent", labels=labels)
        spent = SummaryMetricFamily("http_responses_duration_milliseconds", "durations", labels=labels)
        for (status, kind), (count, total, milliseconds) in [*self.answers.items()]:
            size.add_metric([str(status), kind], int(count), total)
            spent.add_metric([str(status), kind], int(count), milliseconds)
        yield size
        yield spent


class Held:
    """What the store holds, and how much room there is, as debuginfod's `groom` and `filesys_free_ratio` report it."""

    def __init__(self, statistics: Callable[[], dict[str, float]], folders: dict[str, str]) -> None:
        self._statistics = statistics
        self._folders = {**folders, "tmpdir": tempfile.gettempdir()}

    def collect(self) -> Iterator[Metric]:
        groom = GaugeMetricFamily("groom", "what the store holds", labels=["statistic"])
        for name, value in self._statistics().items():
            groom.add_metric([name], value)
        yield groom
        free = GaugeMetricFamily("filesys_free_ratio", "free part of a file system", labels=["purpose"])
        for purpose, folder in self._folders.items():
            try:
                usage = shutil.disk_usage(folder)
            except OSError:  # nothing was written yet
                continue
            free.add_metric([purpose], usage.free / usage.total if usage.total else 0.0)
        yield free


class Metrics:
    """One registry for each application."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.traffic = Traffic()
        self.registry.register(self.traffic)
        self.waited = Summary("http_responses_after_you_milliseconds", "waits for an equal request", registry=registry)
        self.debuginfo = Counted("found_debuginfo", "debug files found", ["source"], registry=registry)
        self.executable = Counted("found_executable", "executables found", ["source"], registry=registry)
        self.sources = Counted("found_sourcerefs", "source files found", ["source"], registry=registry)
        self.scanned_files = Counted("scanned_files", "files read that came here", ["source"], registry=registry)
        self.scanned_bytes = Counted("scanned_bytes", "their bytes", ["source"], registry=registry)
        self.uploads = Counted("whence_uploads", "uploads by what became of them", ["outcome"], registry=registry)
        self.addresses = Counted("whence_addresses", "addresses asked for", ["result"], registry=registry)
        self.archives = Gauge("whence_open_archives", "archives held open", registry=registry)
        self.busy = Gauge("thread_busy", "requests at work", ["role"], registry=registry)
        self.work = Counted("thread_work", "requests that were at work", ["role"], registry=registry)
        self.pending = Gauge("thread_work_pending", "requests that wait for others", ["role"], registry=registry)
        self.errors = Gauge("error_count", "errors of the server itself", registry=registry)
        self.ready = Gauge("ready", "1 once the store answers", registry=registry)
        self._text, self._made, self._changes = b"", 0.0, -1

    def roles(self, names: Iterable[str]) -> None:
        """The kinds of work that there are: their counts are there from the start."""
        for one in names:
            self.busy.labels(one).set(0)
            self.pending.labels(one).set(0)
            self.work.labels(one).inc(0)

    def text(self) -> bytes:
        """All of it. At most OLDEST seconds old where nobody asked for anything else meanwhile."""
        now = time.monotonic()
        if self._changes != self.traffic.changes or now - self._made > OLDEST:
            self._changes, self._made = self.traffic.changes, now
            self._text = generate_latest(self.registry)
        return self._text
