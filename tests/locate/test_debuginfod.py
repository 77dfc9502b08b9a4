"""The debuginfod client against servers that misbehave, and against the real one."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
import tomllib
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

import whence
from tests.forge import server as behave
from tests.forge.elf import Section, build_id_note, forge
from tests.forge.server import serving
from tests.helpers.live import until
from tests.helpers.stores import free_port
from whence._base.errors import WrongUse
from whence._version import HOME_PAGE
from whence.locate.cache import Cache
from whence.locate.debuginfod import OVERLAP, Debuginfod, Limits, agent_of, allowing, checked_server, pause_of

ROOT = Path(__file__).parents[2]
ID = "ab" * 20
FILE = forge([build_id_note(ID), Section(".debug_info", os.urandom(20000))])
OTHER = forge([build_id_note("cd" * 20), Section(".debug_info", bytes(20000))])
CUT = 15000  # where tests cut a download
FOR_EVER, LATE = 600.0, 60.0  # seconds: what a server takes, and when a client that gives it up has long done so
SMALL = Limits(size=1 << 20, tries=3, back_off=0.01)  # and the usual times, which no test but of times runs into


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


class Client(Debuginfod):
    """A client that keeps what it said and how long it waited between tries."""

    def __init__(self, cache: Cache, *servers: str, limits: Limits = SMALL, allow: list[str] | None = None) -> None:
        self.said: list[str] = []
        self.waited: list[float] = []
        super().__init__(
            servers,
            cache,
            limits=limits,
            allow=allowing(allow or ["*"]),
            log=self.said.append,
            sleep=self.waited.append,
        )


def test_a_file_is_fetched_once_and_then_read_from_the_cache(cache: Cache) -> None:
    with serving(behave.whole(FILE)) as server:
        client = Client(cache, server.url)
        first = client.fetch(ID)
        assert first is not None
        assert first.read_bytes() == FILE
        assert client.fetch(ID) == first
        client.close()
    assert server.seen == [(f"/buildid/{ID}/debuginfo", "")]
    assert client.said[0] == f"debuginfod: GET {server.url}/buildid/{ID}/debuginfo"
    assert f"{len(FILE)} bytes" in client.said[1]


def test_servers_are_asked_in_order_until_one_has_it(cache: Cache) -> None:
    with serving(behave.status(404)) as first, serving(behave.whole(FILE)) as second:
        assert Client(cache, first.url, second.url).fetch(ID, "executable") is not None
    assert len(first.seen) == len(second.seen) == 1


def test_a_404_is_remembered_for_a_while(cache: Cache) -> None:
    with serving(behave.status(404), behave.whole(FILE)) as server:
        assert Client(cache, server.url).fetch(ID) is None
        assert Client(cache, server.url).fetch(ID) is None
        assert len(server.seen) == 1
        later = Limits(absent=0, tries=1)
        assert Client(cache, server.url, limits=later).fetch(ID) is not None


def test_a_failing_server_is_tried_again_with_back_off_and_then_skipped(cache: Cache) -> None:
    with serving(behave.status(503)) as server:
        client = Client(cache, server.url)
        assert client.fetch(ID) is None
        assert client.fetch("cd" * 20) is None
    assert len(server.seen) == 3
    assert client.waited == [0.01, 0.02]
    assert "did not respond recently" in client.said[-1]


def test_a_server_that_recovers_within_the_tries_is_used(cache: Cache) -> None:
    with serving(behave.status(500), behave.whole(FILE)) as server:
        assert Client(cache, server.url).fetch(ID) is not None


def test_a_cut_download_resumes_where_it_was_cut(cache: Cache) -> None:
    with serving(behave.cut(FILE, CUT), behave.whole(FILE)) as server:
        path = Client(cache, server.url).fetch(ID)
        assert path is not None
        assert path.read_bytes() == FILE
    assert [wanted for _, wanted in server.seen] == ["", f"bytes={CUT - OVERLAP}-"]
    assert not list(cache.root.rglob("*.part"))
    assert not list(cache.root.rglob("*.origin"))


def test_a_cut_download_starts_again_where_the_server_has_no_validator_for_its_file(cache: Cache) -> None:
    with serving(behave.cut(FILE, CUT, Server="plain"), behave.whole(FILE)) as server:
        assert Client(cache, server.url).fetch(ID) is not None
    assert [wanted for _, wanted in server.seen] == ["", ""]


def test_a_cut_download_starts_again_when_the_server_has_another_file_by_now(cache: Cache) -> None:
    with serving(behave.cut(OTHER, CUT, ETag='"old"'), behave.whole(FILE)) as server:
        path = Client(cache, server.url).fetch(ID)
        assert path is not None
        assert path.read_bytes() == FILE
    assert len(server.seen) == 2


CONTINUED = {
    "other bytes": ({}, bytes(len(FILE))),
    "another start": ({"Content_Range": f"bytes {CUT}-{len(FILE) - 1}/{len(FILE)}"}, FILE),
    "another size": ({"Content_Range": f"bytes {CUT - 4096}-{len(FILE)}/{len(FILE) + 1}"}, FILE + b"x"),
    "only a part of the rest": ({"Content_Range": f"bytes {CUT - 4096}-{CUT}/{len(FILE)}"}, FILE[: CUT + 1]),
    "another file's validator": ({"ETag": '"two"'}, FILE),
    "no range": ({"Content_Range": "bytes */*"}, FILE),
    "a range of 5,000 digits": ({"Content_Range": f"bytes {'1' * 5000}-2/3"}, FILE),
}


@pytest.mark.parametrize(("headers", "data"), CONTINUED.values(), ids=CONTINUED)
def test_a_206_without_the_rest_of_the_file_is_rejected(cache: Cache, headers: dict[str, str], data: bytes) -> None:
    def wrong(handler: behave.Handler) -> None:
        start = CUT - OVERLAP
        told = {"Content_Range": f"bytes {start}-{len(FILE) - 1}/{len(FILE)}", "ETag": '"one"', **headers}
        handler.begin(206, Content_Length=len(data) - start, **told)
        handler.wfile.write(data[start:])

    with serving(behave.cut(FILE, CUT), wrong, behave.whole(FILE)) as server:
        path = Client(cache, server.url).fetch(ID)
        assert path is not None
        assert path.read_bytes() == FILE
    assert [wanted for _, wanted in server.seen] == ["", f"bytes={CUT - OVERLAP}-", ""]


def test_an_unrequested_206_is_rejected(cache: Cache) -> None:
    def part(handler: behave.Handler) -> None:
        handler.begin(206, Content_Length=len(FILE), Content_Range=f"bytes 0-{len(FILE) - 1}/{len(FILE)}")
        handler.wfile.write(FILE)

    with serving(part) as server:
        client = Client(cache, server.url)
        assert client.fetch(ID) is None
    assert "a part of the file, but all of it was requested" in client.said[-1]


def test_a_server_is_tried_again_after_the_clock_was_set_back(cache: Cache) -> None:
    with serving(behave.status(404), behave.status(404), behave.whole(FILE)) as server:
        assert Client(cache, server.url).fetch(ID) is None
        for note in cache.root.glob("*/*.absent"):
            os.utime(note, (time.time() + 1e6,) * 2)
        Client(cache, server.url).fetch(ID)
        assert len(server.seen) == 2


def test_a_full_disk_is_not_the_servers_fault(cache: Cache) -> None:
    with serving(behave.whole(FILE)) as server:
        client = Client(cache, server.url)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(FILE) // 2, hard))
        try:
            assert client.fetch(ID) is None
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "File too large" in client.said[-1]
        assert not list(cache.root.rglob("*.part"))
        assert client.fetch(ID) is not None
    assert len(server.seen) == 2


def test_a_read_only_cache_is_logged(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    client = Client(Cache(tmp_path / "file" / "cache"), "http://127.0.0.1:9")
    assert client.fetch(ID) is None
    assert "can't be written" in client.said[-1]


def test_a_part_of_another_file_is_deleted_and_the_file_requested_again(cache: Cache) -> None:
    with serving(behave.cut(OTHER, CUT), behave.whole(FILE)) as server:
        path = Client(cache, server.url).fetch(ID)
        assert path is not None
        assert path.read_bytes() == FILE
    assert [wanted for _, wanted in server.seen] == ["", f"bytes={CUT - OVERLAP}-", ""]


def test_a_server_may_send_the_whole_file_instead_of_the_rest(cache: Cache) -> None:
    def from_the_start(handler: behave.Handler) -> None:
        handler.begin(200, Content_Length=len(FILE))
        handler.wfile.write(FILE)

    with serving(behave.cut(FILE, CUT), from_the_start) as server:
        path = Client(cache, server.url).fetch(ID)
        assert path is not None
        assert path.read_bytes() == FILE


@pytest.mark.parametrize("wrong", [OTHER, b"<html>sorry</html>", b""], ids=["other build-id", "no ELF", "empty"])
def test_a_download_of_another_file_is_discarded(cache: Cache, wrong: bytes) -> None:
    with serving(behave.whole(wrong)) as server:
        client = Client(cache, server.url)
        assert client.fetch(ID) is None
    assert "the downloaded file is invalid" in client.said[-1]
    assert cache.get(f"{ID}.debuginfo") is None
    assert not list(cache.root.rglob("*.part"))


def test_a_file_with_a_too_short_content_length_is_rejected(cache: Cache) -> None:
    def short(handler: behave.Handler) -> None:
        handler.begin(200, Content_Length=len(FILE) - 100)
        handler.wfile.write(FILE)

    with serving(short) as server:
        client = Client(cache, server.url)
        assert client.fetch(ID) is None
    assert "the file is cut off" in client.said[-1]
    assert cache.get(f"{ID}.debuginfo") is None
    with serving(short, behave.whole(FILE)) as server:
        assert Client(cache, server.url).fetch(ID) is not None


def test_a_content_length_above_the_limit_is_rejected(cache: Cache) -> None:
    with serving(lambda handler: handler.begin(200, Content_Length=1 << 40)) as server:
        client = Client(cache, server.url)
        assert client.fetch(ID) is None
    assert "Content-Length exceeds the limit of 1048576 bytes" in client.said[-1]


def test_a_body_without_end_stops_at_the_limit(cache: Cache) -> None:
    with serving(behave.endless()) as server:
        client = Client(cache, server.url)
        assert client.fetch(ID) is None
    assert "more than the limit of 1048576 bytes" in client.said[-1]
    assert sum(size for _, size, _ in cache.entries()) == 0


def test_a_silent_server_times_out(cache: Cache) -> None:
    with serving(behave.silent(FOR_EVER)) as server:
        began = time.monotonic()
        client = Client(cache, server.url, limits=Limits(silence=0.1, tries=1))
        assert client.fetch(ID) is None
        assert time.monotonic() - began < LATE
    assert "no response" in client.said[-1]


def test_a_slow_server_times_out(cache: Cache) -> None:
    with serving(behave.dripping(FILE, 0.01)) as server:
        began = time.monotonic()
        client = Client(cache, server.url, limits=Limits(silence=5, whole=0.3, tries=1))
        assert client.fetch(ID) is None
        assert time.monotonic() - began < LATE


def test_an_unreachable_server_is_not_an_error(cache: Cache) -> None:
    assert Client(cache, f"http://127.0.0.1:{free_port()}").fetch(ID) is None


def test_a_build_id_that_is_not_on_the_allow_list_is_not_sent(cache: Cache) -> None:
    with serving(behave.whole(FILE)) as server:
        client = Client(cache, server.url, allow=["/usr/*"])
        assert client.fetch(ID, path="/home/me/app") is None
        assert server.seen == []
        assert client.fetch(ID, path="/usr/bin/app") is not None
    assert "not on the allow-list" in client.said[0]


ENDLESS = {
    "a header byte a second": behave.raw(b"HTTP/1.1 200 OK\r\nX-A: ", b"a", seconds=0.02),
    "100 Continue": behave.raw(b"HTTP/1.1 100 Continue\r\n\r\n", seconds=0.001),
    "headers of 100 Continue": behave.raw(b"HTTP/1.1 100 Continue\r\n", b"X: y\r\n", seconds=0.02),
    "trailers": behave.raw(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\x7fELF\r\n0\r\n", b"X: y\r\n", seconds=0.001
    ),
    "a chunk's length": behave.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0", seconds=0.02),
}


@pytest.mark.parametrize("answer", ENDLESS.values(), ids=ENDLESS)
def test_an_endless_response_times_out_and_releases_the_lock(cache: Cache, answer: behave.Answer) -> None:
    with serving(answer) as server:
        client = Client(cache, server.url, limits=Limits(silence=5, whole=0.5, tries=1))
        began = time.monotonic()
        assert client.fetch(ID) is None
        assert time.monotonic() - began < LATE
        assert f"{server.url} {ID}: " in client.said[-1]
        with cache.locked(f"{ID}.debuginfo"):
            pass
        assert client.fetch("cd" * 20) is None
    assert len(server.seen) == 1  # it is left alone


def test_headers_have_a_time_of_their_own(cache: Cache) -> None:
    with serving(behave.raw(b"HTTP/1.1 200 OK\r\nX-A: ", b"a", seconds=0.02)) as server:
        client = Client(cache, server.url, limits=Limits(silence=5, head=0.3, tries=1))
        began = time.monotonic()
        assert client.fetch(ID) is None
        assert time.monotonic() - began < LATE


def test_an_endless_tls_handshake_times_out(cache: Cache) -> None:
    """Send a record of 16 KiB a byte at a time."""

    def drip() -> None:
        line = listening.accept()[0]
        with line, suppress(OSError):
            line.sendall(b"\x16\x03\x03\x40\x00")
            while True:
                line.sendall(b"\x02")
                time.sleep(0.02)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=drip)
        server.start()
        url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        client = Client(cache, url, limits=Limits(connect=5, silence=5, whole=0.5, tries=1))
        began = time.monotonic()
        assert client.fetch(ID) is None
        assert time.monotonic() - began < LATE
        client.close()
        server.join(5)


def test_a_connection_is_used_again_and_still_ends_in_time(cache: Cache) -> None:
    def keep(handler: behave.Handler) -> None:
        handler.send_response(404)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        handler.close_connection = False

    drip = behave.raw(b"HTTP/1.1 200 OK\r\nX-A: ", b"a", seconds=0.02)
    with serving(keep, drip) as server:
        client = Client(cache, server.url, limits=Limits(silence=5, whole=0.5, tries=1))
        assert client.fetch("cd" * 20) is None
        began = time.monotonic()
        assert client.fetch(ID) is None
        assert time.monotonic() - began < LATE


@pytest.mark.parametrize("length", ["9" * 5000, "0" * 5000 + "1", "-1", "1e9", "9" * 19, "٣"])
def test_an_invalid_content_length_is_not_a_traceback(cache: Cache, length: str) -> None:
    def long(handler: behave.Handler) -> None:
        head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        handler.wfile.write(head.encode() + FILE)

    with serving(long) as server:
        client = Client(cache, server.url, limits=Limits(silence=0.5, tries=1))
        client.fetch(ID)
    assert f"{server.url}" in client.said[-1]


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_a_part_that_is_a_link_or_a_pipe_is_not_written_to(cache: Cache, tmp_path: Path, what: str) -> None:
    outside = tmp_path / "outside"
    with serving(behave.whole(FILE)) as server:
        client = Client(cache, server.url)
        part = client._part(server.url, f"{ID}.debuginfo")
        cache.folder(part.parent.name)
        if what == "link":
            outside.write_bytes(b"mine")
            part.symlink_to(outside)
        elif what == "pipe":
            os.mkfifo(part)
        else:
            part.mkdir()
        result = client.fetch(ID)
        assert (result is None) == (what == "folder")
    if what == "link":
        assert outside.read_bytes() == b"mine"


def test_an_entry_that_was_damaged_is_fetched_again(cache: Cache) -> None:
    with serving(behave.whole(FILE)) as server:
        path = Client(cache, server.url).fetch(ID)
        assert path is not None
        for damage in (b"", b"junk", OTHER, FILE[:-1]):
            path.write_bytes(damage)
            assert Client(cache, server.url).fetch(ID) == path
            assert path.read_bytes() == FILE
    assert len(server.seen) == 5


MALFORMED = [
    "", "http://", "http:///x", "https://:80", "http://host:port", "http://host:99999", "http://host:0", "http://[::1",
    "http://[xyz]", "ftp://host", "host", "http//host", "http://ho st", "http://ho\nst", "http://h\u00f6st", "http://a..b",
    "http://host\udcff", "http://host/?q=1", "http://host/#x", "http://-", "http://" + "a" * 64 + ".org",
]  # fmt: skip


@pytest.mark.parametrize("url", MALFORMED)
def test_a_malformed_address_of_a_server_is_wrong_use(cache: Cache, url: str) -> None:
    with pytest.raises(WrongUse, match=r"^invalid debuginfod server .*: expected an http:// or https:// URL$"):
        Debuginfod([url], cache)


def test_addresses_of_servers_are_taken() -> None:
    for url in ("http://127.0.0.1:9", "https://debuginfod.debian.net", "http://[::1]:8002", "http://host_1/path"):
        assert checked_server(url + "/") == url


def test_a_byte_that_is_no_text_in_the_environment_is_wrong_use(tmp_path: Path) -> None:
    profile = tmp_path / "cpu.folded"
    profile.write_text("main;work 3\n")
    environment = {**os.environb, b"DEBUGINFOD_URLS": b"http://127.0.0.1:9/\xff"}
    command = [sys.executable, "-m", "whence", "profile", str(profile), "--coverage", "--debuginfod"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("whence: invalid debuginfod server ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("odd", ["", "../../admin", "xyz", "ab12/../..", "ab12?x=1"])
def test_an_invalid_build_id_is_never_sent(cache: Cache, odd: str) -> None:
    with serving(behave.whole(FILE)) as server:
        assert Client(cache, server.url).fetch(odd) is None
    assert server.seen == []


@pytest.mark.skipif(not shutil.which("debuginfod"), reason="no debuginfod here (Debian: apt-get install debuginfod)")
def test_the_real_debuginfod_serves_a_file_by_its_build_id(cache: Cache, tmp_path: Path) -> None:
    files = tmp_path / "served"
    files.mkdir()
    program = files / "program.debug"
    program.write_bytes(FILE)
    program.chmod(0o755)
    port = free_port()
    command = ["debuginfod", "-F", str(files), "-d", str(tmp_path / "db"), "-p", str(port), "-t", "0", "-g", "0"]
    environment = {name: value for name, value in os.environ.items() if name != "DEBUGINFOD_URLS"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            fetched: list[Path] = []

            def is_served() -> bool:
                with suppress(OSError):
                    urllib.request.urlopen(f"{url}/metrics", timeout=30).close()
                    result = Client(cache, url, limits=Limits(absent=0, dead=0, tries=1)).fetch(ID)
                    fetched.extend([result] if result is not None else [])
                return bool(fetched)

            assert until(is_served)
            assert fetched[0].read_bytes() == FILE
        finally:
            process.terminate()


def test_requests_say_whose_they_are(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = []

    def noted(handler: behave.Handler) -> None:
        agents.append(handler.headers["User-Agent"])
        behave.whole(FILE)(handler)

    with serving(noted) as server:
        Client(cache, server.url).fetch(ID)
        Client(cache, server.url).read_source(ID, "/a.c")
        monkeypatch.setattr("whence.locate.debuginfod.USER_AGENT", agent_of("2.0", "https://whence.example"))
        Client(cache, server.url).read_source(ID, "/b.c")
        Client(cache, server.url).read_source(ID, "/c.c", {"User-Agent": "gdb/13"})  # of a client of `whence serve`
    own = f"whence/{whence.__version__}"
    assert [agent.split(" ")[0] for agent in agents] == [own, own, "whence/2.0", "gdb/13"]
    assert agents[2] == "whence/2.0 (+https://whence.example)"


def test_the_home_page_in_requests_is_that_of_the_package() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert urls.get("Homepage", "") == HOME_PAGE


def paused(code: int, asked: str) -> behave.Answer:
    return lambda handler: handler.begin(code, Content_Length=0, Retry_After=asked)


@pytest.mark.parametrize("code", [429, 503])
def test_a_server_that_asks_for_a_short_pause_gets_it(cache: Cache, code: int) -> None:
    with serving(paused(code, "7"), behave.whole(FILE)) as server:
        client = Client(cache, server.url)
        assert client.fetch(ID) is not None
    assert client.waited == [7]
    assert f"status {code}, Retry-After 7 s" in client.said[1]


def test_a_server_that_asks_for_a_long_pause_is_skipped_for_so_long(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(paused(429, "1800"), behave.whole(FILE)) as server:
        assert Client(cache, server.url).fetch(ID) is None
        now = time.time()
        for later, requests in ((5, 1), (SMALL.dead + 5, 1), (1700, 1), (1801, 2)):
            monkeypatch.setattr("whence.locate.debuginfod.time.time", lambda later=later: now + later)
            Client(cache, server.url).fetch(ID)
            assert len(server.seen) == requests, later


def test_a_pause_of_years_is_cut(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(paused(503, "9" * 18), behave.whole(FILE)) as server:
        assert Client(cache, server.url).fetch(ID) is None
        later = time.time() + SMALL.longest_pause + 5
        monkeypatch.setattr("whence.locate.debuginfod.time.time", lambda: later)
        assert Client(cache, server.url).fetch(ID) is not None


@pytest.mark.parametrize("asked", ["", "soon", "-5", "1" * 19, "Thu, 99 Jan 2026 00:00:00 GMT", "\u0663"])
def test_a_malformed_pause_is_ignored(asked: str) -> None:
    assert pause_of(asked, 0) is None


def test_after_five_failures_a_client_stops(cache: Cache) -> None:
    often = Limits(tries=3, back_off=0.01, dead=0)  # no note keeps it from asking
    with serving(behave.status(500)) as server:
        client = Client(cache, server.url, limits=often)
        for number in range(6):
            assert client.fetch(f"{number:040x}") is None
        assert client.read_source(ID, "/a.c") is None
    assert len(server.seen) == 5
    assert client.said[-1] == f"debuginfod: {server.url}: 5 requests failed, no more are sent"


def test_failures_that_are_not_in_a_row_do_not_count(cache: Cache) -> None:
    once = Limits(tries=1, dead=0, absent=0)
    with serving(*[behave.status(500), behave.status(404)] * 6, behave.whole(FILE)) as server:
        client = Client(cache, server.url, limits=once)
        for number in range(12):
            assert client.fetch(f"{number:040x}") is None
        assert client.fetch(ID) is not None
    assert len(server.seen) == 13


def test_a_client_that_stopped_tries_again_later(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    once = Limits(tries=1, dead=0, absent=0)
    with serving(*[behave.status(500)] * 5, behave.whole(FILE)) as server:
        client = Client(cache, server.url, limits=once)
        for number in range(6):
            assert client.fetch(f"{number:040x}") is None
        later = time.monotonic() + once.rest + 1
        monkeypatch.setattr("whence.locate.debuginfod.time.monotonic", lambda: later)
        assert client.fetch(ID) is not None
    assert len(server.seen) == 6
