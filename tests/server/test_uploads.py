"""Uploads by PUT and by Pyroscope's three calls: outcomes and refusals."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.helpers.programs import compiled
from tests.helpers.serving import HOSTS, TestClient, started
from tests.helpers.stores import Files
from whence.objects.elf import ElfFile
from whence.server.app import make_app
from whence.server.settings import RequestLimits, ServerSettings
from whence.store import Store
from whence.store.leases import Lease
from whence.store.writer import SpoolFile

SERVICE = "/debuginfo.v1alpha1.DebuginfoService"


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def client(empty: Path) -> Iterator[TestClient]:
    with TestClient(make_app(ServerSettings(store=str(empty))), raise_server_exceptions=False) as client:
        yield client


def test_a_better_file_is_201_and_the_same_or_a_poorer_file_200_with_the_outcome(
    client: TestClient, files: Files
) -> None:
    path = f"/buildid/{files.build_id}/debuginfo"
    for file, status, outcome in (
        (files.symbols, 422, ""), (files.debug, 201, "added"), (files.debug, 200, "same"),
        (files.whole, 201, "better"), (files.debug, 200, "poorer"),
    ):  # fmt: skip
        answer = client.put(path, content=file.read_bytes())
        assert answer.status_code == status, answer.text
        if outcome:
            assert answer.headers["x-whence-outcome"] == outcome
            assert answer.json()["why"]
    assert client.get(path).content == files.whole.read_bytes()


def test_another_id_another_kind_or_no_elf_is_422(client: TestClient, files: Files, empty: Path) -> None:
    full = files.debug.read_bytes()
    path = f"/buildid/{files.build_id}"
    for where, body in (
        (f"/buildid/{'ab' * 20}/debuginfo", full), (f"{path}/executable", full), (f"{path}/debuginfo", b"no ELF"),
        (f"{path}/debuginfo", b""), (f"{path}/debuginfo", full[:-100]), (f"{path}/debuginfo", full[:64]),
    ):  # fmt: skip
        answer = client.put(where, content=body)
        assert answer.status_code == 422, (where, answer.text)
        assert answer.json()["error"]
    assert client.put(f"{path}/lidia", content=full).status_code == 404
    assert client.put("/buildid/zz/debuginfo", content=full).status_code == 400
    assert client.get(f"{path}/debuginfo").status_code == 404
    assert not list((empty / "buildid").glob("*")) if (empty / "buildid").exists() else True


def test_an_upload_without_a_name_is_called_by_what_the_file_has_inside(
    client: TestClient, files: Files, tmp_path: Path
) -> None:
    client.put("/upload", content=files.debug.read_bytes())
    assert name_of(client, files.build_id) == ("program.c", "upload: program.c")
    library = compiled("-shared", "-fPIC", "-Wl,--build-id,-soname,libsum.so.1")
    client.put("/upload", content=library.read_bytes())
    with ElfFile.open(library) as elf:
        assert name_of(client, elf.build_id)[0] == "libsum.so.1"
    client.put("/upload/sum.elf", content=files.whole.read_bytes())
    assert name_of(client, files.build_id) == ("sum.elf", "upload: sum.elf")


def name_of(client: TestClient, build_id: str) -> tuple[str, str]:
    described = client.app.server.store.find(build_id)  # type: ignore[attr-defined]
    return described.name, described.files["debuginfo"].origin


def test_a_refusal_names_the_file_and_says_what_to_do(client: TestClient, files: Files, tmp_path: Path) -> None:
    nameless = compiled("-Wl,--build-id=none").read_bytes()
    told = client.put("/upload", params={"name": "sum"}, content=nameless).json()["error"]
    assert told == "sum: the file has no build-id: link it with -Wl,--build-id"
    told = client.put("/upload", content=nameless).json()["error"]
    assert told.startswith("the upload: the file has no build-id")
    told = client.put("/upload/notes.txt", content=b"no ELF").json()["error"]
    assert told.startswith("notes.txt: ")
    assert told.endswith(": upload a complete object file: a program, a library or a debug file")


def test_more_bytes_than_allowed_are_413_announced_or_not(files: Files, empty: Path) -> None:
    full = files.debug.read_bytes()
    with TestClient(make_app(ServerSettings(store=str(empty), limits=RequestLimits(upload_bytes=100)))) as client:
        path = f"/buildid/{files.build_id}/debuginfo"
        assert client.put(path, content=full).status_code == 413
        assert client.put(path, content=iter([full[:90], full[90:]])).status_code == 413


def test_a_busy_build_id_is_409_with_retry_after(client: TestClient, files: Files, empty: Path) -> None:
    with Store(empty) as store, Lease(store.objects, files.build_id, 0):
        answer = client.put(f"/buildid/{files.build_id}/debuginfo", content=files.debug.read_bytes())
    assert answer.status_code == 409
    assert answer.headers["retry-after"]


def test_a_page_of_another_origin_may_not_upload(client: TestClient, files: Files) -> None:
    path = f"/buildid/{files.build_id}/debuginfo"
    headers = {"Origin": "https://elsewhere.example"}
    assert client.put(path, content=files.debug.read_bytes(), headers=headers).status_code == 403
    headers = {"Origin": "http://testserver"}  # a name that was made to lead to the loopback
    assert client.put(path, content=files.debug.read_bytes(), headers=headers).status_code == 403
    headers = {"Origin": "http://127.0.0.1:8002", "Host": "127.0.0.1:8002"}
    assert client.put(path, content=files.debug.read_bytes(), headers=headers).status_code == 201


def test_a_server_without_uploads_is_403(empty: Path, files: Files) -> None:
    with TestClient(make_app(ServerSettings(store=str(empty), uploads=False))) as client:
        path = f"/buildid/{files.build_id}/debuginfo"
        assert client.put(path, content=files.debug.read_bytes()).status_code == 403


# Pyroscope's calls


def announced(files: Files, **more: Any) -> dict[str, Any]:
    return {"file": {"gnuBuildId": files.build_id, "name": "program", "type": "TYPE_EXECUTABLE_FULL", **more}}


def test_pyroscope_s_three_calls_take_a_file_in_json(client: TestClient, files: Files) -> None:
    answer = client.post(f"{SERVICE}/ShouldInitiateUpload", json=announced(files))
    assert answer.status_code == 200, answer.text
    assert answer.json()["shouldInitiateUpload"] is True
    again = client.post(f"{SERVICE}/ShouldInitiateUpload", json=announced(files)).json()
    assert not again.get("shouldInitiateUpload")
    assert "in progress" in again["reason"]
    sent = client.post(f"{SERVICE}/Upload/{files.build_id}", content=files.whole.read_bytes())
    assert sent.status_code == 200, sent.text
    assert client.post(f"{SERVICE}/UploadFinished", json={"gnuBuildId": files.build_id}).status_code == 200
    assert client.get(f"/buildid/{files.build_id}/debuginfo").content == files.whole.read_bytes()
    there = client.post(f"{SERVICE}/ShouldInitiateUpload", json=announced(files)).json()
    assert "already" in there["reason"]


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def test_pyroscope_s_three_calls_take_a_file_in_protobuf(client: TestClient, files: Files) -> None:
    headers = {"Content-Type": "application/proto", "Connect-Protocol-Version": "1"}
    file = field(1, files.build_id.encode()) + field(4, b"program") + bytes([5 << 3, 1])
    answer = client.post(f"{SERVICE}/ShouldInitiateUpload", content=field(1, file), headers=headers)
    assert (answer.status_code, answer.content) == (200, b"\x08\x01")
    assert answer.headers["content-type"] == "application/proto"
    sent = client.post(f"{SERVICE}/Upload/{files.build_id}", content=files.whole.read_bytes())
    assert sent.status_code == 200
    done = client.post(f"{SERVICE}/UploadFinished", content=field(1, files.build_id.encode()), headers=headers)
    assert (done.status_code, done.content) == (200, b"")


def test_pyroscope_s_refusals_have_codes(client: TestClient, files: Files) -> None:
    should = f"{SERVICE}/ShouldInitiateUpload"
    for asked, code in (
        (announced(files, type=7), "invalid_argument"), (announced(files, gnuBuildId="zz"), "invalid_argument"),
        (announced(files, type=[]), "invalid_argument"),
    ):  # fmt: skip
        answer = client.post(should, json=asked)
        assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert not client.post(should, json=announced(files, gnuBuildId="")).json().get("shouldInitiateUpload")
    assert client.post(f"{SERVICE}/Upload/{files.build_id}", content=b"x").status_code == 412
    assert client.post(f"{SERVICE}/Upload/zz", content=b"x").status_code == 400
    assert client.post(f"{SERVICE}/UploadFinished", json={"gnuBuildId": "ab" * 20}).status_code == 404
    for body in (b"", b"nothing", b"[]", b'{"file": 5}', json.dumps("\ud800").encode()):
        answer = client.post(should, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, body
    assert client.post(should, content=b"\xff\xff", headers={"Content-Type": "application/proto"}).status_code == 400
    assert client.post(should, content=b"x", headers={"Content-Type": "text/plain"}).status_code == 415


def test_an_upload_is_507_if_the_disk_of_the_store_is_full(
    client: TestClient, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: SpoolFile, chunk: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SpoolFile, "write", full)
    answer = client.put("/upload", content=files.debug.read_bytes())
    assert answer.status_code == 507
    assert "No space left" in answer.json()["error"]


async def slowly(pieces: list[bytes], meanwhile: Callable[[], Awaitable[None]]) -> AsyncIterator[bytes]:
    """Yield the chunks of a body, then wait for `meanwhile`."""
    for piece in pieces:
        yield piece
    await meanwhile()


def over(app: Any) -> httpx.AsyncClient:
    """Return a client of an application that runs while bodies are being sent."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://testserver")


@pytest.mark.parametrize(
    ("limits", "first", "fits"),
    [
        (RequestLimits(uploads_held=1), b"x", b""),
        (RequestLimits(uploads_bytes=100), b"x" * 60, b"x" * 40),
    ],
)
def test_uploads_beyond_the_number_or_bytes_received_at_a_time_are_503(
    empty: Path, limits: RequestLimits, first: bytes, fits: bytes
) -> None:
    app = make_app(ServerSettings(store=str(empty), limits=limits))
    statuses: list[int] = []

    async def work() -> None:
        async with over(app) as client:

            async def others() -> None:
                refused = await client.put("/upload", content=b"x" * 41)
                assert (refused.status_code, "Retry-After" in refused.headers) == (503, True)
                assert "received" in refused.json()["error"]
                if fits:
                    statuses.append((await client.put("/upload", content=fits)).status_code)

            kept = await client.put("/upload", content=slowly([first], others))
            statuses.append(kept.status_code)
            statuses.append((await client.put("/upload", content=b"x" * 100)).status_code)  # all is given back

    asyncio.run(work())
    app.server.close()
    assert statuses
    assert set(statuses) == {422}  # received, and found not to be ELF files


# Several worker processes


def call(url: str, path: str, **named: Any) -> httpx.Response:
    """Send a POST over a new connection, which any of the workers may accept."""
    with httpx.Client(base_url=url, timeout=60) as client:
        return client.post(f"{SERVICE}/{path}", **named)


def counted(url: str, name: str) -> float:
    text = httpx.get(f"{url}/metrics", timeout=60).text
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


@pytest.mark.parametrize("by", HOSTS)
def test_two_workers_share_announced_uploads_and_add_up_their_metrics(tmp_path: Path, files: Files, by: str) -> None:
    full, build_id = files.whole.read_bytes(), bytes.fromhex(files.build_id)
    with started(tmp_path / "store", "--workers", "2", by=by) as url:
        for number in range(20):
            other = bytes([number + 1]) * len(build_id)
            file = {"gnuBuildId": other.hex(), "name": "program", "type": "TYPE_EXECUTABLE_FULL"}
            assert call(url, "ShouldInitiateUpload", json={"file": file}).json()["shouldInitiateUpload"] is True
            sent = call(url, f"Upload/{other.hex()}", content=full.replace(build_id, other))
            assert sent.status_code == 200, sent.text
            assert call(url, "UploadFinished", json={"gnuBuildId": other.hex()}).status_code == 200
        for _ in range(4):  # answered by different workers
            assert counted(url, 'http_requests_total{type="upload"}') == 60
            assert counted(url, "whence_uploads_total") == 20
    with Store(tmp_path / "store") as store:
        assert len(store.list()) == 20
    assert not list((tmp_path / "store" / "announced").iterdir())
    assert not list((tmp_path / "store" / ".whence-incoming").iterdir())
