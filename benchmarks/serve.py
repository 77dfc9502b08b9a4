"""The user's moment: many clients at one server: files, sections, misses, metrics, and names for tables.

The peer is Debian's debuginfod over the same files, in turns in the same run; each server has one process and its
default settings.
Requests are made by wrk where it is installed, else by threads of this process, which are slower than both servers.
Printed with requests per second is the server's processor time per request, which depends less on other work.
"""

from __future__ import annotations

import http.client
import importlib.util
import io
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.inputs import addresses, debug_files, tool
from benchmarks.servers import TICKS, free_port, processor_seconds
from whence.objects.elf import ElfFile
from whence.store import Store

IDS = 20
ROWS = 100_000
SECONDS = 4
CLIENTS = 32
RUNS = 5
LARGE_SHARE = 0.6  # of debuginfod's rate with large files
TIMES = 5  # debuginfod's requests a second
SECTION = ".note.gnu.build-id"
ARROW = "application/vnd.apache.arrow.stream"
CODE = "import sys; from whence.cli import main; sys.exit(main(sys.argv[1:]))"


class Served:
    """A server that was started: its process, its port."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], port: int) -> None:
        self.name, self.process, self.port = name, process, port

    def processor_seconds(self) -> float:
        """Return the processor time of the process and its children."""
        return processor_seconds(self.process.pid)


def run() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ids = put_files(folder)
        hosts = [host for host in ("granian", "uvicorn") if importlib.util.find_spec(host)]
        with started(folder, hosts) as servers:
            peer = next((each for each in servers if each.name == "debuginfod"), None)
            if peer is not None:
                wait_until_scanned(peer, ids)
            large = max(ids, key=lambda each: (folder / "store" / "buildid" / each / "debuginfo").stat().st_size)
            large_files(servers, f"/buildid/{large}/debuginfo")
            small_answers(servers, large)
            for each in servers:
                if each.name != "debuginfod":
                    named_tables(each, ids)
            arrival(next(each for each in servers if each.name != "debuginfod"), folder, ids)


def put_files(folder: Path) -> dict[str, Path]:
    """IDS build-ids in a store, and their files in a folder: files of this machine, again under ids of their own."""
    result = [path for path in debug_files() if path.stat().st_size < 1 << 28]
    if os.environ.get("WHENCE_CORPORA"):
        result += sorted(Path(os.environ["WHENCE_CORPORA"]).rglob("*.ko"))[: IDS - len(result)]
    (folder / "files").mkdir()
    ids: dict[str, Path] = {}
    for number in range(IDS):
        source = result[number % len(result)]
        with ElfFile.open(source) as elf:
            build_id = elf.build_id
        content = source.read_bytes()
        if build_id in ids or not build_id:
            new = os.urandom(len(build_id) // 2)
            content, build_id = content.replace(bytes.fromhex(build_id), new), new.hex()
        target = folder / "files" / f"{number:02}"
        target.write_bytes(content)
        ids[build_id] = target
    with Store(folder / "store") as store:
        store.add(folder / "files")
    return ids


@contextmanager
def started(folder: Path, hosts: list[str]) -> Iterator[list[Served]]:
    """debuginfod, where it is installed, and `whence serve` by each host."""
    commands = {
        f"whence, {host}": [sys.executable, "-c", CODE, "serve", str(folder / "store"), "--by", host, "--port"]
        for host in hosts
    }
    if tool("debuginfod"):
        commands["debuginfod"] = ["debuginfod", "-d", ":memory:", "-F", str(folder / "files"), "-p"]
    else:
        print("debuginfod: not on this machine")
    servers = []
    try:
        for name, command in commands.items():
            port = free_port()
            with open(folder / f"{port}.log", "wb") as log:
                process = subprocess.Popen([*command, str(port)], stdout=log, stderr=log)
            servers.append(Served(name, process, port))
        for each in servers:
            wait_until(each, "/metrics")
        yield servers
    finally:
        for each in servers:
            each.process.send_signal(signal.SIGTERM)
        for each in servers:
            each.process.wait(60)


def ask(server: Served, path: str, body: bytes | None = None, kind: str = "") -> tuple[int, bytes]:
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        line.request("POST" if body is not None else "GET", path, body, {"Content-Type": kind} if kind else {})
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()


def wait_until(server: Served, path: str) -> None:
    for _ in range(1200):
        try:
            if ask(server, path)[0] == 200:
                return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.1)
    raise SystemExit(f"{server.name} did not answer {path} within two minutes")


def wait_until_scanned(server: Served, ids: dict[str, Path]) -> None:
    for each in ids:
        wait_until(server, f"/buildid/{each}/section/{SECTION}")


def received(server: Served, path: str) -> tuple[float, int]:
    """Seconds that a file takes to come, and its bytes."""
    buffer = bytearray(1 << 20)
    with socket.create_connection(("127.0.0.1", server.port), 120) as line:
        began = time.perf_counter()
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        total = 0
        while count := line.recv_into(buffer):
            total += count
        return time.perf_counter() - began, total


def large_files(servers: list[Served], path: str) -> None:
    rates: dict[str, list[float]] = {each.name: [] for each in servers}
    spent = dict.fromkeys(rates, 0.0)
    size = 0
    for turn in range(RUNS + 1):
        for each in servers:
            before = each.processor_seconds()
            seconds, size = received(each, path)
            if turn:
                rates[each.name].append(size / seconds / 1e6)
                spent[each.name] += each.processor_seconds() - before
    print(f"a file of {size / 1e6:.0f} MB (goal: {LARGE_SHARE} of debuginfod's rate)")
    theirs = statistics.median(rates.get("debuginfod", [0.0]))
    for name, result in rates.items():
        rate = statistics.median(result)
        ratio = f", {rate / theirs:.2f} of debuginfod's" if theirs and name != "debuginfod" else ""
        print(f"  {name:18} {rate:8,.0f} MB/s, {1e3 * spent[name] / RUNS:6.1f} ms of processor time{ratio}")


def small_answers(servers: list[Served], build_id: str) -> None:
    missing = "ab" * 20
    for title, path in (
        ("a section", f"/buildid/{build_id}/section/{SECTION}"), ("a miss", f"/buildid/{missing}/debuginfo"),
        ("metrics", "/metrics"),
    ):  # fmt: skip
        print(f"{title} (goal: {TIMES} times debuginfod's requests a second)")
        result: dict[str, list[tuple[float, float]]] = {each.name: [] for each in servers}
        for turn in range(4):
            for each in servers:
                before = each.processor_seconds()
                rate, count = requests_a_second(each.port, path, SECONDS if turn else 1)
                if turn:
                    result[each.name].append((rate, (each.processor_seconds() - before) / max(count, 1)))
        medians = {
            name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in result.items()
        }
        theirs = medians.get("debuginfod")
        for name, (rate, spent) in medians.items():
            ratio = ""
            if theirs and name != "debuginfod":
                ratio = f": {rate / theirs[0]:.1f} times, processor time 1/{theirs[1] / spent:.1f}"
            print(f"  {name:18} {rate:8,.0f} a second, {1e6 * spent:5.0f} us of processor time{ratio}")


def requests_a_second(port: int, path: str, seconds: int) -> tuple[float, int]:
    """The rate of CLIENTS clients, and how many requests they made."""
    wrk = tool("wrk")
    if wrk:
        command = [wrk, "-t1", f"-c{CLIENTS}", f"-d{seconds}", f"http://127.0.0.1:{port}{path}"]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        count = re.search(r"(\d+) requests in", told)
        rate = re.search(r"Requests/sec:\s*([\d.]+)", told)
        assert count is not None
        assert rate is not None
        return float(rate[1]), int(count[1])
    ends = time.monotonic() + seconds
    counts = [0] * CLIENTS

    def client(number: int) -> None:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        while time.monotonic() < ends:
            line.request("GET", path)
            line.getresponse().read()
            counts[number] += 1
        line.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return sum(counts) / seconds, sum(counts)


def named_tables(server: Served, ids: dict[str, Path]) -> None:
    """/symbolize of ROWS addresses of all ids: as an Arrow stream, plain and with dictionaries, and as JSON lines."""
    dice = random.Random(7)
    drawn = {each: addresses(path, ROWS // 100) for each, path in ids.items()}
    asked = [(each, dice.choice(drawn[each])) for each in dice.choices(list(ids), k=ROWS)]
    bodies = {"JSON lines": ("", b"".join(b'{"build_id": "%s", "address": %d}\n' % (i.encode(), a) for i, a in asked))}
    try:
        import pyarrow as pa
    except ImportError:
        print("pyarrow: not installed")
    else:
        for title, texts in (("Arrow", pa.array([each for each, _ in asked])), ("Arrow, dictionary", None)):
            column = pa.array([each for each, _ in asked]).dictionary_encode() if texts is None else texts
            batch = pa.record_batch(
                [column, pa.array([vaddr for _, vaddr in asked], pa.uint64())], ["build_id", "address"]
            )
            out = io.BytesIO()
            with pa.ipc.new_stream(out, batch.schema) as writer:
                writer.write_batch(batch)
            bodies[title] = ARROW, out.getvalue()
    for title, (kind, body) in bodies.items():
        spent, took = [], []
        for turn in range(RUNS + 1):
            before, began = server.processor_seconds(), time.perf_counter()
            status, answer = ask(server, "/symbolize", body, kind)
            assert status == 200, answer[:500]
            if turn:
                took.append(time.perf_counter() - began)
                spent.append(server.processor_seconds() - before)
        seconds, processor = statistics.median(took), statistics.median(spent)
        rate, share = ROWS / seconds / 1e6, ROWS / max(processor, 1 / TICKS) / 1e6
        print(f"/symbolize, {ROWS:,} addresses over {len(ids)} ids, {title}, {server.name} (goal: 2)")
        print(f"  {rate:.2f} million a second, {share:.2f} million a second of processor time")


def arrival(server: Served, folder: Path, ids: dict[str, Path]) -> None:
    """How long after a file was put by another process its names are there."""
    source = min(ids.values(), key=lambda path: path.stat().st_size)
    took = []
    for _ in range(RUNS):
        with ElfFile.open(source) as elf:
            old = elf.build_id
        new = os.urandom(len(old) // 2)
        fresh = folder / "fresh"
        fresh.write_bytes(source.read_bytes().replace(bytes.fromhex(old), new))
        (vaddr,) = addresses(fresh, 1)
        line = json.dumps({"build_id": new.hex(), "address": vaddr}).encode()
        assert b"reason" in ask(server, "/symbolize", line)[1]
        with Store(folder / "store") as store:
            store.add(fresh)
        began = time.perf_counter()
        while b"reason" in ask(server, "/symbolize", line)[1] and time.perf_counter() - began < 10:
            pass
        took.append(time.perf_counter() - began)
    print(f"the first answer {1e3 * statistics.median(took):.0f} ms after another process put the file (goal: 50)")
