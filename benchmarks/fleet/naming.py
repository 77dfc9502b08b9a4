"""Profiles named by a server: OTLP through the proxy, or pprof at /profile, by clients that run for a given time.

The server keeps the archives of five builds with debug info. Each client sends requests one after the other; requests
have stacks of their own over the same addresses, as those of one service do. With OTLP the server forwards to a sink.
Printed are requests, samples and megabytes a second, processor time by process, and the server's memory over time.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from benchmarks import name_profile
from benchmarks.fleet.builds import Builds
from benchmarks.fleet.client import Connection
from benchmarks.fleet.cluster import RunningServer
from benchmarks.servers import resident_bytes
from whence.profiles.formats import gz, otlp, pprof
from whence.store import Store

FILES = 5  # builds
BODIES = 8  # different requests
REPORTS = 6  # lines about memory


class Sink(BaseHTTPRequestHandler):
    """A backend that accepts everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def bodies(paths: list[Path], size: int, locations: int, *, as_otlp: bool) -> tuple[list[bytes], int]:
    """Return requests of about `size` bytes of pprof each, and the samples of one."""
    made = [name_profile.made(paths, size, seed=seed, count=locations) for seed in range(BODIES)]
    samples = len(pprof.read(made[0]).samples)
    if as_otlp:
        return [otlp.write(pprof.read(body)) for body in made], samples
    return [gz.deflated(body) for body in made], samples


async def load(server: RunningServer, requests: list[bytes], options: argparse.Namespace) -> int:
    """Send requests until the time is over; return how many were answered. Raises RuntimeError for an error."""
    path = "/v1development/profiles" if options.format == "otlp" else "/profile?format=pprof"
    kind = "application/x-protobuf"
    end = time.monotonic() + options.seconds
    answered = 0

    async def client(number: int) -> None:
        nonlocal answered
        dice = random.Random(number)
        async with Connection([server.port], dice) as connection:
            while time.monotonic() < end:
                status, answer = await connection.request("POST", path, dice.choice(requests), kind=kind)
                if status != 200:
                    raise RuntimeError(f"status {status}: {answer[:200]!r}")
                answered += 1
                if options.pause:
                    await asyncio.sleep(options.pause)

    async def watch() -> None:
        for part in range(REPORTS):
            print(f"  {part * options.seconds / REPORTS:6.0f} s: {resident_bytes(server.process.pid) >> 20} MB")
            await asyncio.sleep(options.seconds / REPORTS)

    watcher = asyncio.create_task(watch())
    await asyncio.gather(*(client(number) for number in range(options.clients)))
    await watcher
    return answered


def main(arguments: list[str]) -> int:
    """Run the load that the options describe."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet naming", description=__doc__)
    parser.add_argument("--format", choices=("otlp", "pprof"), default="otlp")
    parser.add_argument("--bytes", type=int, default=1_000_000, help="of a request as plain pprof")
    parser.add_argument("--locations", type=int, default=400, help="of each build")
    parser.add_argument("--functions", type=int, default=2000, help="functions of each build")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between the requests of a client")
    options = parser.parse_args(arguments)
    sink = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    Thread(target=sink.serve_forever, daemon=True).start()
    forward = ["--forward", f"http://127.0.0.1:{sink.server_port}"] if options.format == "otlp" else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        builds = Builds(folder, options.functions)
        paths = [folder / str(number) for number in range(FILES)]
        with Store(folder / "store") as store:
            for number, path in enumerate(paths):
                path.write_bytes(builds.content(number))
                store.add(path)
        requests, samples = bodies(paths, options.bytes, options.locations, as_otlp=options.format == "otlp")
        server = RunningServer(str(folder / "store"), {}, "--workers", str(options.workers), *forward)
        try:
            before, began = server.processor_seconds(), time.monotonic()
            answered = asyncio.run(load(server, requests, options))
            seconds, used = time.monotonic() - began, server.processor_seconds() - before
        finally:
            server.kill()
            sink.shutdown()
            sink.server_close()
    size = sum(map(len, requests)) / len(requests)
    print(
        f"{options.format}, {options.clients} clients, {options.workers} workers: {answered / seconds:.1f} requests/s"
        f" of {samples:,} samples and {size / 1e6:.2f} MB, {samples * answered / seconds:,.0f} samples/s;"
        f" {1000 * used / answered:.1f} ms of the server's processor time a request"
        f" ({samples * answered / used:,.0f} samples/s and core)"
    )
    return 0
