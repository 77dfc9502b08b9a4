"""A bucket and servers over it, as processes of this machine, which can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.servers import free_port, processor_seconds
from whence.store.bucket import bucket_at

WHENCE = [sys.executable, "-c", "import sys; from whence.cli import main; sys.exit(main(sys.argv[1:]))"]
NAME = "fleet"
START_SECONDS = 60
LARGEST = 1 << 30  # bytes of an object


def wait_until(answers: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers. Raises RuntimeError if its process ends or it does not in START_SECONDS."""
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError):
            if answers():
                return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} does not answer")


class CountingBucket:
    """The counting S3 server of bucket.py, with an empty bucket."""

    def __init__(self) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "benchmarks.fleet.bucket", str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: self.counts() is not None, self.process)
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/{NAME}", method="PUT")):
            pass

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which clients find the bucket."""
        variables = {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "REGION": "us-east-1", "ENDPOINT_URL": self.url}
        return {f"AWS_{name}": value for name, value in variables.items()}

    def counts(self) -> Counter[tuple[str, str]]:
        """Return the requests so far by method and key."""
        with urllib.request.urlopen(f"{self.url}/fleet-counts", timeout=30) as answer:
            return Counter({(method, path.removeprefix(f"/{NAME}/")): n for method, path, n in json.load(answer)})

    def read(self, key: str) -> bytes:
        """Return the content of an object; b"" if it does not exist."""
        bucket = bucket_at(
            f"s3://{NAME}", endpoint=self.url, access_key_id="x", secret_access_key="x", region="us-east-1"
        )
        result = bucket.read(key, LARGEST)
        return b"" if result is None else result[0]

    def close(self) -> None:
        """End the server."""
        self.process.kill()
        self.process.wait()


class RunningServer:
    """A `whence serve` over a location, restarted on the same port after `kill`."""

    def __init__(self, location: str, environment: dict[str, str], *arguments: str) -> None:
        self.port = free_port()
        self._command = [*WHENCE, "serve", location, "--port", str(self.port), *arguments]
        self._environment = os.environ | environment
        self._ended_seconds = 0.0
        self.start()

    def start(self) -> None:
        """Start the process and wait until it answers."""
        self.process = subprocess.Popen(
            self._command, env=self._environment, start_new_session=True, stderr=subprocess.DEVNULL
        )

        def answers() -> bool:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5):
                return True

        wait_until(answers, self.process)

    def kill(self) -> None:
        """Kill the process and its workers at once."""
        self._ended_seconds += processor_seconds(self.process.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def processor_seconds(self) -> float:
        """Return the processor time of all processes so far."""
        return self._ended_seconds + processor_seconds(self.process.pid)


@contextmanager
def cluster(
    folder: Path, servers: int, *, shared_cache: bool, workers: int
) -> Iterator[tuple[CountingBucket, list[RunningServer]]]:
    """Open a block with a bucket and servers over it, whose caches are in `folder`: a shared one, or one each."""
    bucket = CountingBucket()
    running: list[RunningServer] = []
    try:
        for number in range(servers):
            keep = folder / ("cache" if shared_cache else f"cache-{number}")
            arguments = ["--create", "--keep", str(keep), "--workers", str(workers)]
            running.append(RunningServer(f"s3://{NAME}", bucket.environment, *arguments))
        yield bucket, running
    finally:
        for server in running:
            server.kill()
        bucket.close()
