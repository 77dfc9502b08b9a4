"""Counts and durations, under the names that debuginfod's dashboards have and tests look for."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary
from prometheus_client.exposition import generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """One registry for each application."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("http_requests", "requests by kind", ["type"], registry=registry)
        self.responses = Counter("http_responses", "answers by what they were made of", ["result"], registry=registry)
        self.bytes = Summary("http_responses_transfer_bytes", "bytes sent", ["code", "type"], registry=registry)
        self.milliseconds = Summary(
            "http_responses_duration_milliseconds", "durations", ["code", "type"], registry=registry
        )
        self.waited = Summary("http_responses_after_you_milliseconds", "waits for an equal request", registry=registry)
        self.debuginfo = Counter("found_debuginfo", "debug files found", ["source"], registry=registry)
        self.executable = Counter("found_executable", "executables found", ["source"], registry=registry)
        self.sources = Counter("found_sourcerefs", "source files found", ["source"], registry=registry)
        self.uploads = Counter("whence_uploads", "uploads by what became of them", ["outcome"], registry=registry)
        self.addresses = Counter("whence_addresses", "addresses asked for", ["result"], registry=registry)
        self.archives = Gauge("whence_open_archives", "archives held open", registry=registry)
        self.busy = Gauge("thread_busy", "requests at work", ["role"], registry=registry)
        self.busy.labels("symbolize").set(0)
        self.errors = Gauge("error_count", "errors of the server itself", registry=registry)
        self.ready = Gauge("ready", "1 once the store answers", registry=registry)

    def text(self) -> bytes:
        return generate_latest(self.registry)
