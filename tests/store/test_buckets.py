"""A store in a bucket (moto's S3 server, Azurite, Google's API, memory), and failing requests."""

from __future__ import annotations

import io
import json
import os
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.forge.google_storage import google_storage
from tests.forge.server import raw, serving
from tests.helpers.stores import Faulty, Files, azure_server, make_bucket, s3_environment, s3_server
from whence._base.errors import WrongUse
from whence.cli import main
from whence.locate.search import FileQuery, Outcome, Tried
from whence.locator.locator import Locator
from whence.store import Store

pytest.importorskip("obstore", reason="obstore is not installed")

import obstore
from obstore import store as stores

from whence.store.bucket import Bucket, bucket_at
from whence.store.verify import verify


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture(scope="module")
def azure() -> Iterator[dict[str, Any]]:
    with azure_server() as options:
        yield options


@pytest.fixture(scope="module")
def google() -> Iterator[dict[str, Any]]:
    """Return the key of a service account, which obstore needs for the server."""
    with google_storage() as url:
        account = {
            "gcs_base_url": url,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        yield {"service_account_key": json.dumps(account)}


def s3_bucket(url: str, name: str) -> Bucket:
    """Return a bucket of moto's server, created if it is missing."""
    make_bucket(url, name)
    return bucket_at(
        f"s3://{name}/some/prefix", endpoint=url, access_key_id="x", secret_access_key="x", region="us-east-1",
        virtual_hosted_style_request=False, client_options={"allow_http": True, "timeout": "5s"},
        retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=20), "backoff": {
            "init_backoff": timedelta(milliseconds=10), "max_backoff": timedelta(milliseconds=50), "base": 2}},
    )  # fmt: skip


@pytest.fixture(params=["memory", "s3", "azure", "google"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    name = f"b{random.getrandbits(48):x}"
    if request.param == "memory":
        return bucket_at(f"memory://{name}")
    if request.param == "s3":
        return s3_bucket(request.getfixturevalue("s3"), name)
    if request.param == "google":
        return bucket_at(f"gs://{name}/some/prefix", **request.getfixturevalue("google"))
    return bucket_at(f"az://store/{name}", **request.getfixturevalue("azure"))


def test_objects_are_written_if_absent_or_unchanged(bucket: Bucket) -> None:
    assert bucket.head("a/b") is None
    assert bucket.read("a/b", 10) is None
    tag = bucket.create("a/b", b"one")
    assert tag
    assert bucket.create("a/b", b"two") == ""
    result = bucket.read("a/b", 10)
    assert result is not None
    assert (result[0], result[1].tag, result[1].key, result[1].size) == (b"one", tag, "a/b", 3)
    newer = bucket.replace("a/b", b"three", tag)
    assert newer not in ("", tag)
    assert bucket.replace("a/b", b"four", tag) == ""
    assert bucket.replace("a/missing", b"four", tag) == ""
    assert bucket.read_range("a/b", 1, 3, newer) == b"hr"
    with pytest.raises(OSError, match=r"."):
        bucket.read_range("a/b", 1, 3, tag)
    bucket.copy("a/b", "c")
    bucket.put("empty", b"")
    assert bucket.read("empty", 10)[0] == b""  # type: ignore[index]
    assert sorted(each.key for each in bucket.list("")) == ["a/b", "c", "empty"]
    assert list(bucket.folders("")) == ["a"]
    with pytest.raises(OSError, match="at most 2 are allowed"):
        bucket.read("a/b", 2)
    assert (bucket.delete("a/b"), bucket.head("a/b")) == (True, None)
    large = os.urandom(9 << 20)
    bucket.put("large", large)
    out = io.BytesIO()
    assert bucket.fetch("large", out) is not None
    assert out.getvalue() == large


def test_one_of_sixteen_creators_wins(bucket: Bucket) -> None:
    gate, won = threading.Barrier(16), []

    def create(number: int) -> None:
        gate.wait()
        if bucket.create("lock", f"owner {number}".encode()):
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert bucket.read("lock", 99)[0] == f"owner {won[0]}".encode()  # type: ignore[index]


def test_a_store_in_a_bucket_equals_a_store_in_a_folder(bucket: Bucket, files: Files, tmp_path: Path) -> None:
    with Store(bucket) as store:
        assert [each.outcome for each in store.add(files.stripped)] == ["added"]
        assert [each.outcome for each in store.add(files.symbols)] == ["better"]
        assert [each.outcome for each in store.add(files.stripped)] == ["poorer"]
        assert [each.outcome for each in store.add(files.debug)] == ["added"]
        with store.open(files.build_id) as binary:
            assert binary.lookup(files.vaddr)[-1].line
        (row,) = store.list()
        assert row.build_id == files.build_id
        assert not list(verify(store))
        with Locator(dirs=(), local=False, sources=[store.source("test")]) as locator:
            assert locator.find(build_id=files.build_id).kind == "lidia"
            assert not locator.find(build_id="ab" * 20)
        assert [each.build_id for each in store.wanted()] == ["ab" * 20]
        assert store.remove(files.build_id)
        assert store.list() == []
        assert [each.key for each in store.objects.list("buildid/")] == []


def test_two_writers_of_a_bucket_leave_the_better_file(bucket: Bucket, files: Files) -> None:
    for number in range(6):
        gate = threading.Barrier(2)

        def put(path: Path, gate: threading.Barrier = gate) -> None:
            gate.wait()
            with open(path, "rb") as file:
                Store(bucket).put(files.build_id, "", file, wait=60)

        pair = [files.symbols, files.whole]
        threads = [threading.Thread(target=put, args=(path,)) for path in (pair if number % 2 else reversed(pair))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with Store(bucket) as store:
            expected = store.find(files.build_id)
            assert expected is not None
            assert expected.files["executable"].size == files.whole.stat().st_size
            assert not list(verify(store))
            store.remove(files.build_id)


@pytest.mark.parametrize("fault", ["500", "slow", "cut", "lost", "all of them"])
def test_failed_requests_are_retried_and_lose_no_file(s3: str, files: Files, fault: str) -> None:
    """One in a few requests fails: the store is valid and complete."""
    with Faulty(s3, {"all of them": ["500", "cut", "lost"]}.get(fault, [fault])) as server:
        bucket = s3_bucket(server.url, f"b{random.getrandbits(48):x}")
        with Store(bucket) as store:
            for path in (files.symbols, files.whole, files.stripped):
                with open(path, "rb") as file:
                    for _ in range(5):  # retry after an error
                        try:
                            store.put(files.build_id, "", file, wait=30)
                        except OSError:
                            file.seek(0)
                            continue
                        break
                    else:
                        pytest.fail("never put")
            server.faults = []
            assert server.happened > 2
            assert not list(verify(store))
            with store.file(files.build_id, "executable") as kept:
                assert kept is not None
                assert kept.read_bytes() == files.whole.read_bytes()
            assert len(store.list()) == 1


def set_endpoint(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    for name, value in s3_environment(url).items():
        monkeypatch.setenv(name, value)


def test_the_commands_reach_a_bucket_by_the_clouds_own_variables(
    s3: str, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    location = f"s3://b{random.getrandbits(48):x}/prefix"
    s3_bucket(s3, location.split("/")[2])
    set_endpoint(monkeypatch, s3)
    cache = ["--cache-dir", str(tmp_path / "cache")]
    assert main(["addr", str(files.stripped), hex(files.vaddr), "--store", location, *cache]) in (0, 1)
    assert main(["store", "add", location, str(files.whole)]) == 0
    (tmp_path / "cache").rename(tmp_path / "old")
    capfd.readouterr()
    assert main(["addr", str(files.stripped), hex(files.vaddr), "--store", location, *cache]) == 0
    assert "program.c" in capfd.readouterr().out
    assert main(["store", "verify", location]) == 0


def test_an_unreachable_bucket_is_reported_once_and_ends_add(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("whence.store.bucket.RETRIES", 0)
    set_endpoint(monkeypatch, "http://127.0.0.1:9")
    cache = ["--cache-dir", str(tmp_path / "cache")]
    main(["addr", str(files.stripped), hex(files.vaddr), "--store", "s3://none", *cache])
    assert capfd.readouterr().err.count("the store s3://none can't be read") == 1
    assert main(["store", "add", "s3://none", str(files.whole), str(files.debug)]) == 3
    assert "s3://none: " in capfd.readouterr().err


def test_a_create_whose_response_was_lost_succeeds() -> None:
    """The response to a write is lost and the retry is refused: the object has the written bytes."""

    class Lossy:
        def __init__(self) -> None:
            self.place = stores.MemoryStore()
            self.writes = 0

    location = Lossy()
    bucket = Bucket(location.place, "memory://lossy")
    obstore.put(location.place, "lock", b"mine")
    assert bucket.create("lock", b"mine")
    assert bucket.create("lock", b"theirs") == ""


def test_a_store_can_be_read_through_a_web_server(tmp_path: Path, files: Files) -> None:
    from tests.helpers.stores import web_server

    with Store(tmp_path / "store") as store:
        store.add(files.debug)
    with web_server(tmp_path / "store") as url, Store(url) as store:
        with store.open(files.build_id) as binary:
            assert binary.lookup(files.vaddr)[-1].line
        assert store.find("ab" * 20) is None
        with pytest.raises(WrongUse, match="is read-only"):
            store.add(files.stripped)
        with Locator(dirs=(), local=False, sources=[store.source("test")]) as locator:
            assert locator.find(build_id=files.build_id)


TAGGED = b'ETag: "x"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n'
TERABYTE = b"HTTP/1.1 %s\r\n" + TAGGED + b"Content-Length: 1000000000000\r\n%s\r\n"


@pytest.mark.parametrize(
    "head",
    [
        TERABYTE % (b"200 OK", b""),
        TERABYTE % (b"206 Partial Content", b"Content-Range: bytes 0-999999999999/1000000000000\r\n"),
        TERABYTE % (b"206 Partial Content", b"Content-Range: bytes 0-9/10\r\n"),
    ],
)
def test_memory_is_allocated_as_bytes_arrive_not_by_content_length(head: bytes) -> None:
    """A Content-Length of a terabyte once aborted the process, which allocated it."""
    with serving(raw(head, bytes(1 << 16))) as served:
        web = bucket_at(f"{served.url}/")
        with pytest.raises(OSError, match="bytes"):
            web.read("buildid/ab/meta.json", 1 << 20)
        with pytest.raises(OSError):
            web.read_range("buildid/ab/lidia", 0, 10)
        assert web.received < 1 << 25


def test_a_web_server_that_never_answers_is_paused_for_all_build_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whence.store.bucket.SILENT_SECONDS", 0.3)
    said: list[str] = []
    tried: list[Tried] = []
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        with Store(f"http://{host}/") as store:
            source = store.source("test", say=said.append)
            for number in range(40):
                assert not list(source.find(FileQuery(f"{number:040x}"), tried))
            assert len(said) == 1
            assert [each.outcome for each in tried] == [Outcome.BROKEN] * 40
            assert "not asked again" in tried[-1].detail
            silent.setblocking(False)
            asked = 0
            with suppress(BlockingIOError):
                while True:
                    silent.accept()[0].close()
                    asked += 1
            assert asked <= 3  # the tries of one or two requests, not of 40
            monkeypatch.setattr("whence.store.bucket.PAUSE_SECONDS", 0.0)
            assert not list(source.find(FileQuery("ab" * 20), tried))
            silent.accept()[0].close()  # after the pause it was asked again


@pytest.mark.parametrize("place", ["ftp://host/x", "s3://", "", "gs:///x"])
def test_invalid_addresses_of_stores_are_refused(place: str) -> None:
    with pytest.raises(WrongUse):
        Store(place)
