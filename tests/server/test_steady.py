"""Limits for slow and greedy clients, with granian and uvicorn; graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tests.helpers.live import until
from tests.helpers.serving import HOSTS, TestClient, fetched, running, started
from tests.helpers.stores import Files
from whence.server import stalls
from whence.server.app import make_app
from whence.server.settings import RequestLimits, ServerSettings

CUT_SECONDS = 10


@pytest.fixture(scope="module", params=HOSTS)
def url(request: pytest.FixtureRequest, place: Path) -> Iterator[str]:
    with started(place, by=request.param) as url:
        yield url


LARGE_BODIES = """
import sys
from pathlib import Path
from whence.kernels.memory import give_back_freed
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
if sys.argv[1] == "given":
    give_back_freed()
before = resident()
first = b"a" * (30 << 20)
del first
bodies, kept = [], []
for _ in range(3):
    bodies.append(b"a" * (20 << 20))
    kept.append(b"a" * (3 << 19))
del bodies
print((resident() - before) >> 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_memory_of_large_bodies_is_returned_to_the_system() -> None:
    """Freed blocks of this size stay on glibc's heap, below later allocations."""

    def megabytes(how: str) -> int:
        return int(subprocess.run([sys.executable, "-c", LARGE_BODIES, how], capture_output=True, check=True).stdout)

    assert megabytes("as it is") >= 40
    assert megabytes("given") < 10


def connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), 30)


def is_cut(line: socket.socket) -> bool:
    """Return True if the server closed the connection."""
    line.settimeout(0.01)
    try:
        return not line.recv(4096)
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_connection_with_slow_headers_is_closed_within_ten_seconds(place: Path) -> None:
    """On a new connection and a reused one; granian and uvicorn concurrently, since the test is slow."""
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(started(place, by=host)) for host in HOSTS]
        lines = {url: [stack.enter_context(connected(url)) for _ in ("new", "used")] for url in urls}
        for _, used in lines.values():
            used.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"200" in used.recv(4096)
        began, open_ = time.monotonic(), {line for pair in lines.values() for line in pair}
        for byte in b"GET /healthz HTTP/1.1\r\nHost: aaaaaaaaaaaaaaaaaaaaaaaaa":
            for line in tuple(open_):
                try:
                    line.sendall(bytes([byte]))
                    if is_cut(line):
                        open_.remove(line)
                except OSError:
                    open_.remove(line)
            if not open_:
                break
            time.sleep(0.5)
        assert time.monotonic() - began < CUT_SECONDS
        assert [fetched(url, "/healthz")[0] for url in urls] == [200] * len(HOSTS)


def test_a_connection_with_endless_headers_is_closed(url: str) -> None:
    sent = 0
    with connected(url) as line:
        line.settimeout(20)
        try:
            line.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n")
            while sent < 8 << 20:
                line.sendall(b"X-More: " + b"a" * 4096 + b"\r\n")
                sent += 4096
            answer = line.recv(4096)
        except OSError:
            answer = b""
    assert sent < 8 << 20 or b" 4" in answer[:20]
    assert fetched(url, "/healthz")[0] == 200


def test_a_body_that_is_not_received_in_time_is_408() -> None:
    from starlette.requests import Request

    from whence.server.bodies import Refusal, body_of

    messages = [{"type": "http.request", "body": b"a", "more_body": True}]

    async def receive() -> dict[str, object]:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop()

    request = Request({"type": "http", "headers": [(b"content-length", b"10")]}, receive)
    with pytest.raises(Refusal) as refused:
        asyncio.run(body_of(request, 100, 0.1))
    assert refused.value.status == 408


@pytest.mark.parametrize("by", HOSTS)
def test_many_clients_at_once_get_right_answers(place: Path, files: Files, by: str) -> None:
    full = files.debug.read_bytes()
    base = f"/buildid/{files.build_id}"
    with started(place, by=by) as url, ThreadPoolExecutor(32) as pool:
        paths = [f"{base}/debuginfo", f"{base}/section/.text", f"/buildid/{'ab' * 20}/debuginfo", "/metrics"] * 50
        answers = list(pool.map(lambda path: (path, *fetched(url, path)), paths))
    for path, status, _, body in answers:
        assert status == (404 if "abab" in path else 200), (path, body[:200])
        if path.endswith(f"{files.build_id}/debuginfo"):
            assert body == full


def test_the_access_log_has_an_object_for_each_answer_and_no_control_character(
    client: TestClient, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "whence.access")
    hostile = '\x1b[31m\r\n{"status": 200}\u2028'
    client.get(f"/buildid/{files.build_id}/{quote(hostile)}", headers={"User-Agent": "a\x1bb", "X-Forwarded-For": "1"})
    client.get(f"/buildid/{'ab' * 20}/debuginfo")

    def logged() -> str:
        return "\n".join(record.getMessage() for record in caplog.records if record.name == "whence.access")

    assert until(lambda: logged().count("\n") >= 1)
    client.get("/healthz")
    text = logged()
    assert text.isascii()
    rows = [json.loads(line) for line in text.split("\n")]
    assert [(row["method"], row["status"]) for row in rows[:2]] == [("GET", 404), ("GET", 404)]
    assert rows[0]["path"].endswith(hostile)
    assert all(row["time"].endswith("Z") and row["milliseconds"] >= 0 for row in rows)


def test_the_kernel_closes_the_connection_of_a_client_that_does_not_read() -> None:
    if stalls.OPTION is None:
        pytest.skip("this system has no TCP_USER_TIMEOUT")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        before = len(os.listdir("/proc/self/fd"))
        stalls.cut_stalled_everywhere(1)
        assert len(os.listdir("/proc/self/fd")) == before
        with socket.create_connection(listener.getsockname()):
            line, _ = listener.accept()
            began = time.monotonic()
            with line:
                line.settimeout(60)
                with pytest.raises(OSError):
                    line.sendall(bytes(256 << 20))
            assert time.monotonic() - began < 30


def test_bodies_of_all_requests_together_are_bounded(place: Path) -> None:
    limits = RequestLimits(bodies_bytes=1000)
    with TestClient(make_app(ServerSettings(store=str(place), limits=limits))) as client:
        for _ in range(3):
            assert client.post("/symbolize", content=b"x" * 900).status_code == 200
            assert client.post("/symbolize", content=b"x" * 1001).status_code == 503
        assert client.app.server.bodies.used == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("by", HOSTS)
def test_requests_in_progress_are_answered_after_a_signal(files: Files, tmp_path: Path, by: str) -> None:
    body = files.debug.read_bytes()
    with running(tmp_path / "store", by=by) as server:
        with connected(server.url) as line:
            head = f"PUT /upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
            line.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
            line.settimeout(30)
            assert line.recv(100).split()[1] == b"100"  # the body is being read
            line.sendall(body[:1000])
            os.kill(server.pid, signal.SIGTERM)
            assert until(lambda: not is_served(server.url))
            line.sendall(body[1000:])
            assert line.recv(100).split()[1] == b"201"
        assert until(lambda: not is_served(server.url))


def is_served(url: str) -> bool:
    try:
        with connected(url):
            return True
    except OSError:
        return False
