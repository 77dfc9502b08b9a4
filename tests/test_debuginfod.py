"""The debuginfod client against servers that misbehave, and against the real one."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from tests.forge import server as behave
from tests.forge.elf import Section, build_id_note, forge
from tests.forge.server import serving
from whence.debuginfo.cache import Cache
from whence.debuginfo.debuginfod import Debuginfod, Limits, allowing

ID = "ab" * 20
FILE = forge([build_id_note(ID), Section(".debug_info", os.urandom(5000))])
OTHER = forge([build_id_note("cd" * 20), Section(".debug_info", bytes(100))])
QUICK = Limits(connect=0.5, silence=0.3, whole=1.0, size=1 << 20, tries=3, back_off=0.01)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


class Client(Debuginfod):
    """A client that keeps what it said and how long it waited between tries."""

    def __init__(self, cache: Cache, *servers: str, limits: Limits = QUICK, allow: list[str] | None = None) -> None:
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


def test_a_file_is_fetched_once_and_then_comes_from_the_cache(cache: Cache) -> None:
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


def test_a_server_that_fails_is_tried_again_with_back_off_and_then_left_alone(cache: Cache) -> None:
    with serving(behave.status(503)) as server:
        client = Client(cache, server.url)
        assert client.fetch(ID) is None
        assert client.fetch("cd" * 20) is None
    assert len(server.seen) == 3
    assert client.waited == [0.01, 0.02]
    assert "did not answer a while ago" in client.said[-1]


def test_a_server_that_recovers_within_the_tries_is_used(cache: Cache) -> None:
    with serving(behave.status(500), behave.whole(FILE)) as server:
        assert Client(cache, server.url).fetch(ID) is not None


def test_a_cut_download_goes_on_where_it_was_cut(cache: Cache) -> None:
    with serving(behave.cut(FILE, 1500), behave.whole(FILE)) as server:
        path = Client(cache, server.url).fetch(ID)
        assert path is not None
        assert path.read_bytes() == FILE
    assert [wanted for _, wanted in server.seen] == ["", "bytes=1500-"]


def test_a_clock_that_was_set_back_does_not_keep_a_server_out_for_ever(cache: Cache) -> None:
    with serving(behave.status(404), behave.status(404), behave.whole(FILE)) as server:
        assert Client(cache, server.url).fetch(ID) is None
        for note in cache.root.glob("*/*.absent"):
            os.utime(note, (time.time() + 1e6,) * 2)
        Client(cache, server.url).fetch(ID)
        assert len(server.seen) == 2


def test_a_full_disk_is_not_the_servers_fault(cache: Cache) -> None:
    with serving(behave.whole(FILE)) as server:
        client = Client(cache, server.url)
        part = client._part(server.url, f"{ID}.debuginfo")
        part.parent.mkdir(parents=True)
        part.symlink_to("/dev/full")
        assert client.fetch(ID) is None
        assert "No space left on device" in client.said[-1]
        assert client.fetch(ID) is not None
    assert len(server.seen) == 2


def test_a_cache_that_can_not_be_written_to_is_told_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    client = Client(Cache(tmp_path / "file" / "cache"), "http://127.0.0.1:9")
    assert client.fetch(ID) is None
    assert "can't be kept" in client.said[-1]


def test_a_part_of_another_file_is_given_up_and_the_whole_is_asked_for(cache: Cache) -> None:
    with serving(behave.cut(OTHER, len(OTHER) - 10), behave.whole(FILE)) as server:
        path = Client(cache, server.url).fetch(ID)
        assert path is not None
        assert path.read_bytes() == FILE
    assert [wanted for _, wanted in server.seen] == ["", f"bytes={len(OTHER) - 10}-", ""]


def test_a_server_that_starts_again_instead_of_going_on_is_understood(cache: Cache) -> None:
    def from_the_start(handler: behave.Handler) -> None:
        handler.begin(200, Content_Length=len(FILE))
        handler.wfile.write(FILE)

    with serving(behave.cut(FILE, 1500), from_the_start) as server:
        path = Client(cache, server.url).fetch(ID)
        assert path is not None
        assert path.read_bytes() == FILE


@pytest.mark.parametrize("wrong", [OTHER, b"<html>sorry</html>", b""], ids=["other build-id", "no ELF", "empty"])
def test_what_is_not_the_file_asked_for_is_thrown_away(cache: Cache, wrong: bytes) -> None:
    with serving(behave.whole(wrong)) as server:
        client = Client(cache, server.url)
        assert client.fetch(ID) is None
    assert "what arrived" in client.said[-1]
    assert cache.get(f"{ID}.debuginfo") is None
    assert not list(cache.root.rglob("*.part"))


def test_a_file_whose_length_was_announced_too_short_is_not_taken_for_whole(cache: Cache) -> None:
    def short(handler: behave.Handler) -> None:
        handler.begin(200, Content_Length=len(FILE) - 100)
        handler.wfile.write(FILE)

    with serving(short) as server:
        client = Client(cache, server.url)
        assert client.fetch(ID) is None
    assert "not the whole file" in client.said[-1]
    assert cache.get(f"{ID}.debuginfo") is None
    with serving(short, behave.whole(FILE)) as server:
        assert Client(cache, server.url).fetch(ID) is not None


def test_a_file_announced_larger_than_allowed_is_not_taken(cache: Cache) -> None:
    with serving(lambda handler: handler.begin(200, Content_Length=1 << 40)) as server:
        client = Client(cache, server.url)
        assert client.fetch(ID) is None
    assert "more than the 1048576 allowed" in client.said[-1]


def test_a_body_without_end_stops_at_the_limit(cache: Cache) -> None:
    with serving(behave.endless()) as server:
        client = Client(cache, server.url)
        assert client.fetch(ID) is None
    assert "more than the 1048576 bytes allowed" in client.said[-1]
    assert sum(size for _, size, _ in cache.entries()) == 0


def test_a_silent_server_is_given_up(cache: Cache) -> None:
    with serving(behave.silent(1.0)) as server:
        began = time.monotonic()
        client = Client(cache, server.url, limits=Limits(silence=0.1, tries=1))
        assert client.fetch(ID) is None
        assert time.monotonic() - began < 0.9
    assert "no answer" in client.said[-1]


def test_a_server_that_drips_is_given_up(cache: Cache) -> None:
    with serving(behave.dripping(FILE, 0.01)) as server:
        began = time.monotonic()
        client = Client(cache, server.url, limits=Limits(silence=5, whole=0.3, tries=1))
        assert client.fetch(ID) is None
        assert time.monotonic() - began < 3


def test_a_server_that_is_not_there_is_no_error(cache: Cache) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert Client(cache, url).fetch(ID) is None


def test_a_build_id_that_is_not_on_the_allow_list_never_leaves(cache: Cache) -> None:
    with serving(behave.whole(FILE)) as server:
        client = Client(cache, server.url, allow=["/usr/*"])
        assert client.fetch(ID, path="/home/me/app") is None
        assert server.seen == []
        assert client.fetch(ID, path="/usr/bin/app") is not None
    assert "not on the allow-list" in client.said[0]


@pytest.mark.parametrize("odd", ["", "../../admin", "xyz", "ab12/../..", "ab12?x=1"])
def test_what_is_no_build_id_is_never_sent(cache: Cache, odd: str) -> None:
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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["debuginfod", "-F", str(files), "-d", str(tmp_path / "db"), "-p", str(port), "-t", "0", "-g", "0"]
    environment = {name: value for name, value in os.environ.items() if name != "DEBUGINFOD_URLS"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            found = None
            for _ in range(100):
                time.sleep(0.1)
                try:
                    urllib.request.urlopen(f"{url}/metrics", timeout=1).close()
                except OSError:
                    continue
                found = Client(cache, url, limits=Limits(absent=0, dead=0, tries=1)).fetch(ID)
                if found is not None:
                    break
            assert found is not None
            assert found.read_bytes() == FILE
        finally:
            process.terminate()
