"""Servers for tests: the application without a network, `whence serve` as a process, and other programs over HTTP."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import ssl
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.helpers.live import until
from tests.helpers.stores import free_port

pytest.importorskip("starlette", reason="starlette is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it prefers a successor of httpx
    from starlette.testclient import TestClient as TestClient

HOSTS = ("granian", "uvicorn")


def needs(*programs: str) -> None:
    """Skip where a program is not on this machine."""
    for each in programs:
        if shutil.which(each) is None:
            pytest.skip(f"{each} is not on this machine")


class Running(NamedTuple):
    """A server that was started: its address, its process, what it has written."""

    url: str
    pid: int
    log: Path


@contextmanager
def started(
    store: Path | str, *options: str, by: str = "granian", environment: dict[str, str] | None = None
) -> Iterator[str]:
    """`whence serve` over a store; yields its address."""
    with running(store, *options, by=by, environment=environment) as server:
        yield server.url


@contextmanager
def running(
    store: Path | str,
    *options: str,
    by: str = "granian",
    environment: dict[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Running]:
    """The same; yields what is known of it."""
    pytest.importorskip(by, reason=f"{by} is not installed")
    port = free_port()
    words = [sys.executable, "-m", "whence", "serve", str(store), "--port", str(port), "--by", by, "--create", *options]
    words += [] if "--keep" in options else ["--keep", f"{store}.cache"]
    log = Path(f"{store}.{port}.log")
    with (
        open(log, "wb") as out,
        subprocess.Popen(words, stdout=out, stderr=out, env={**os.environ, **(environment or {})}) as server,
    ):
        try:
            ready(server, port, log, tls=tls)
            yield Running(f"http{'s' if tls else ''}://127.0.0.1:{port}", server.pid, log)
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


def ready(
    server: subprocess.Popen[bytes], port: int, log: Path, path: str = "/healthz", tls: ssl.SSLContext | None = None
) -> None:
    """Wait until a server answers."""

    def answers() -> bool:
        if server.poll() is not None:
            pytest.fail(f"the server ended with {server.returncode}: {log.read_text()[-2000:]}")
        try:
            made = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            if tls is not None:
                made = http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=tls)
            with closing(made) as line:
                line.request("GET", path)
                line.getresponse().read()
                return True
        except (OSError, http.client.HTTPException):
            return False

    assert until(answers), f"the server did not answer within a minute: {log.read_text()[-2000:]}"


@contextmanager
def debuginfod(folder: Path, work: Path, *, upstream: str = "") -> Iterator[str]:
    """Debian's debuginfod over the ELF files below a folder; yields its address."""
    needs("debuginfod")
    port = free_port()
    environment = {**os.environ, "DEBUGINFOD_URLS": upstream, "DEBUGINFOD_CACHE_PATH": str(work / "federated")}
    log = work / "debuginfod.log"
    with (
        open(log, "wb") as out,
        subprocess.Popen(
            ["debuginfod", "-d", ":memory:", "-F", str(folder), "-p", str(port)],
            stdout=out, stderr=out, env=environment, cwd=work,
        ) as server,
    ):  # fmt: skip
        try:
            ready(server, port, log, "/metrics")
            url = f"http://127.0.0.1:{port}"
            yield url
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


def fetched(
    url: str, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, dict[str, str], bytes]:
    line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        line.request(method, path, headers=headers or {})
        answer = line.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        line.close()


def wait_until_there(url: str, build_id: str) -> None:
    def is_there() -> bool:
        return all(fetched(url, f"/buildid/{build_id}/{kind}")[0] == 200 for kind in ("debuginfo", "executable"))

    assert until(is_there), "debuginfod has not scanned its folder"


def children_of(pid: int) -> list[int]:
    """Return the children of a process, once it has one."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    assert until(lambda: bool(path.read_text())), "there is no child"
    return [int(each) for each in path.read_text().split()]
