"""Counts and durations, under the names of debuginfod's metrics.

With several worker processes Prometheus' client keeps the values in files of a shared folder, and /metrics adds them
up (`run.shared_metrics`). The text is cached for OLDEST seconds, unless requests were answered meanwhile.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Gauge, Summary
from prometheus_client import Counter as PrometheusCounter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # read by prometheus_client when it is imported
METRICS = "metrics"  # the kind of a request for the metrics
OLDEST = 1.0  # seconds
FAILED = 400  # larger statuses are errors


class TrafficMetrics:
    """Requests by kind; responses with their bytes and durations by status and kind, and by result."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = PrometheusCounter("http_requests", "requests by kind", ["type"], registry=registry)
        self._responses = PrometheusCounter("http_responses", "responses by result", ["result"], registry=registry)
        labels = ["code", "type"]
        self._bytes = Summary("http_responses_transfer_bytes", "bytes sent", labels, registry=registry)
        self._durations = Summary("http_responses_duration_milliseconds", "durations", labels, registry=registry)
        self._by_kind: dict[str, PrometheusCounter] = {}  # `labels` takes longer than adding
        self._by_result: dict[str, PrometheusCounter] = {}
        self._by_status: dict[tuple[int, str], tuple[Summary, Summary]] = {}
        self.changes = 0

    def count(self, kind: str) -> None:
        """Count a request."""
        counter = self._by_kind.get(kind)
        if counter is None:
            counter = self._by_kind[kind] = self._requests.labels(kind)
        counter.inc()

    def note(self, kind: str, status: int, result: str, size: int, milliseconds: float) -> None:
        """Count a response."""
        result = "error" if status >= FAILED else result
        counter = self._by_result.get(result)
        if counter is None:
            counter = self._by_result[result] = self._responses.labels(result)
        counter.inc()
        summaries = self._by_status.get((status, kind))
        if summaries is None:
            labels = str(status), kind
            summaries = self._by_status[status, kind] = self._bytes.labels(*labels), self._durations.labels(*labels)
        summaries[0].observe(size)
        summaries[1].observe(milliseconds)
        if kind != METRICS:
            self.changes += 1


class StoreCollector:
    """The contents of the store and the free space, named as debuginfod's `groom` and `filesys_free_ratio`."""

    def __init__(self, statistics: Callable[[], dict[str, float]], folders: dict[str, str]) -> None:
        self._statistics = statistics
        self._folders = {**folders, "tmpdir": tempfile.gettempdir()}

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, for Prometheus' registry."""
        groom = GaugeMetricFamily("groom", "contents of the store", labels=["statistic"])
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
    """The metrics of an application."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.traffic = TrafficMetrics(registry)

        def counter(name: str, documentation: str, label: str) -> PrometheusCounter:
            return PrometheusCounter(name, documentation, [label], registry=registry)

        def gauge(name: str, documentation: str, *labels: str) -> Gauge:
            return Gauge(name, documentation, labels, registry=registry, multiprocess_mode="livesum")

        self.waited = Summary("http_responses_after_you_milliseconds", "waits for an equal request", registry=registry)
        self.debuginfo = counter("found_debuginfo", "debug files found", "source")
        self.executable = counter("found_executable", "executables found", "source")
        self.sources = counter("found_sourcerefs", "source files found", "source")
        self.scanned_files = counter("scanned_files", "files received and parsed", "source")
        self.scanned_bytes = counter("scanned_bytes", "their bytes", "source")
        self.uploads = counter("whence_uploads", "uploads by outcome", "outcome")
        self.addresses = counter("whence_addresses", "addresses looked up", "result")
        self.archives = gauge("whence_open_archives", "open archives")
        self.busy = gauge("thread_busy", "requests being processed", "role")
        self.work = counter("thread_work", "requests that were processed", "role")
        self.pending = gauge("thread_work_pending", "requests that wait for a thread", "role")
        self.errors = gauge("error_count", "internal errors")
        self.ready = Gauge("ready", "1 if the store can be read", registry=registry, multiprocess_mode="livemin")
        self._is_shared = FOLDER in os.environ
        self.registry = registry
        if self._is_shared:
            self.registry = CollectorRegistry()
            MultiProcessCollector(self.registry)  # type: ignore[no-untyped-call]
        self._text, self._made, self._changes = b"", 0.0, -1

    def register(self, collector: StoreCollector) -> None:
        """Add the metrics of a collector, which describe the machine rather than a process."""
        self.registry.register(collector)

    def add_roles(self, names: Iterable[str]) -> None:
        """Start the counts of roles at 0."""
        for name in names:
            self.busy.labels(name).set(0)
            self.pending.labels(name).set(0)
            self.work.labels(name).inc(0)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        now = time.monotonic()
        if self._is_shared or self._changes != self.traffic.changes or now - self._made > OLDEST:
            self._changes, self._made = self.traffic.changes, now
            self._text = generate_latest(self.registry)
        return self._text

    def close(self) -> None:
        """Remove this process' gauges from those of all workers."""
        if self._is_shared:
            mark_process_dead(os.getpid())  # type: ignore[no-untyped-call]
