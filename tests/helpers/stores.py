"""Places for stores, and what may happen to them: killed writers, servers that fail."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.live import until
from tests.helpers.programs import compiled
from whence.objects.elf import ElfFile

WRITES = ("put", "create", "replace", "copy", "delete")
"""The calls of a place that change it."""


class Files:
    """One program: whole, its debug file, what is left of it, and what has symbols alone."""

    def __init__(self, folder: Path) -> None:
        self.whole, self.debug, self.stripped, self.symbols = (
            folder / name for name in ("whole", "program.debug", "stripped", "symbols")
        )
        shutil.copy(compiled("-Wl,--build-id"), self.whole)
        for flags, out in (
            (["--only-keep-debug"], self.debug),
            (["--strip-all"], self.stripped),
            (["--strip-debug"], self.symbols),
        ):
            subprocess.run(["objcopy", *flags, self.whole, out], check=True)
        with ElfFile.open(self.whole) as elf:
            self.build_id = elf.build_id
            table = elf.symbols(".symtab")
            index = table.find("sum")
            assert index is not None
            self.vaddr = table.value[index]


class Watched:
    """A place whose writes are counted: before and after each, `happens(number)` is called with the next number."""

    def __init__(self, place: Any, happens: Callable[[int], None]) -> None:
        self._place, self._happens = place, happens
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        result = getattr(self._place, name)
        if name not in WRITES:
            return result

        def watched(*words: Any, **named: Any) -> Any:
            self._happens(self.count)
            self.count += 1
            done = result(*words, **named)
            self._happens(self.count)
            self.count += 1
            return done

        return watched


def killed_at(number: int) -> Callable[[int], None]:
    """Kill this process at once when the count reaches a number."""

    def happens(now: int) -> None:
        if now == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return happens


def in_child(work: Callable[[], None]) -> int:
    """Do something in a forked child; returns its exit code, or minus the signal that killed it."""
    pid = os.fork()
    if pid == 0:
        status = 1
        with suppress(BaseException):
            work()
            status = 0
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


PORTS = range(10_000, 32_768)  # below the ports that systems assign by themselves
_tried = itertools.count(os.getpid() * 97)


def free_port() -> int:
    """A port that nothing listens at, another one at each call. Nothing else is given it meanwhile."""
    while True:
        port = PORTS[next(_tried) % len(PORTS)]
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def s3_server() -> Iterator[str]:
    """moto's S3 server; yields its address."""
    pytest.importorskip("moto", reason="moto is not installed")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url + "/moto-api/", server)
            yield url
        finally:
            server.terminate()


def s3_environment(url: str) -> dict[str, str]:
    """The variables by which Amazon's own tools reach a server."""
    expected = {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "REGION": "us-east-1", "ENDPOINT_URL": url}
    return {f"AWS_{name}": value for name, value in expected.items()}


def make_bucket(url: str, name: str) -> None:
    """A bucket of moto's server, made if it is not there."""
    with urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", method="PUT")):
        pass


def accepts(port: int) -> bool:
    """Return True if a server accepts connections at a port of this machine."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        if server.poll() is not None:
            pytest.skip(f"the server ended with {server.returncode}")
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return True
        return False

    if not until(answers):
        pytest.skip("the server did not answer within a minute")


@contextmanager
def web_server(folder: Path) -> Iterator[str]:
    """python -m http.server over a folder; yields its address."""
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "-d", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(f"http://127.0.0.1:{port}/", server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # everyone's


@contextmanager
def azure_server() -> Iterator[dict[str, Any]]:
    """Azurite's blob service with a container "store"; yields what obstore needs. AZURITE names its command."""
    command = os.environ.get("AZURITE", "azurite-blob")
    if shutil.which(command) is None:
        pytest.skip(f"{command} is not on this machine (npm install azurite; AZURITE names its azurite-blob)")
    import base64
    import hashlib
    import hmac
    from email.utils import formatdate

    port = free_port()
    words = [command, "--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--blobPort", str(port)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            url = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
            assert until(lambda: accepts(port))
            date = formatdate(usegmt=True)
            told = f"PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:2021-08-06\n"
            told += f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/store\nrestype:container"
            mark = base64.b64encode(hmac.digest(base64.b64decode(AZURE_KEY), told.encode(), hashlib.sha256)).decode()
            headers = {
                "x-ms-date": date, "x-ms-version": "2021-08-06", "Authorization": f"SharedKey {AZURE_ACCOUNT}:{mark}",
            }  # fmt: skip
            asked = urllib.request.Request(f"{url}/store?restype=container", method="PUT", headers=headers)
            with urllib.request.urlopen(asked, timeout=20):
                pass
            yield {
                "account_name": AZURE_ACCOUNT, "account_key": AZURE_KEY, "endpoint": url,
                "client_options": {"allow_http": True},
            }  # fmt: skip
        finally:
            server.terminate()


class Faulty:
    """A proxy in front of an S3 server: every few requests, one fails with the next of the `faults`.

    500: refused. slow: answered late. cut: half the body of the answer. lost: done, and the line is closed unanswered.
    """

    EVERY = 5

    def __init__(self, behind: str, faults: list[str]) -> None:
        import http.client
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        outer = self
        self.faults, self.happened, self._asked = faults, 0, 0
        host = behind.removeprefix("http://")

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words: object) -> None:
                pass

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fault = outer.next_fault() if self.path.count("/") > 1 else ""
                if fault == "500":
                    self.send_response(500)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                if fault == "slow":
                    time.sleep(0.5)
                line = http.client.HTTPConnection(host, timeout=30)
                headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
                line.request(self.command, self.path, body, headers)
                answer = line.getresponse()
                content = answer.read()
                line.close()
                if fault == "lost":
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length", "date", "server"):
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", length or "0")
                self.end_headers()
                if fault == "cut" and len(content) > 1:
                    self.wfile.write(content[: len(content) // 2])
                    self.close_connection = True
                    return
                self.wfile.write(content)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def next_fault(self) -> str:
        self._asked += 1
        if not self.faults or self._asked % self.EVERY:
            return ""
        self.happened += 1
        return self.faults[self.happened % len(self.faults)]

    def __enter__(self) -> Faulty:
        import threading

        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
