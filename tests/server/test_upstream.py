"""Upstream servers: requests, stored files, and cached misses."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import whence
from tests.forge.server import serving, status
from tests.helpers.naming import debug_id
from tests.helpers.serving import TestClient
from tests.helpers.stores import Files, free_port
from whence.objects.elf import ElfFile
from whence.objects.elf.segments import image_base
from whence.server.app import make_app
from whence.server.settings import ServerSettings
from whence.store import Store

MISSING = "ab" * 20


class Other:
    """Run a server with one response per path, which records requests."""

    def __init__(self, answers: dict[str, bytes]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.url = ""


@contextmanager
def other(answers: dict[str, bytes]) -> Iterator[Other]:
    kept = Other(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kept.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            time.sleep(0.2)
            body = kept.answers.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        kept.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield kept
        finally:
            server.shutdown()


def settings(tmp_path: Path, *urls: str, allow: tuple[str, ...] = ("*",)) -> ServerSettings:
    return ServerSettings(
        store=str(tmp_path / "store"), cache=str(tmp_path / "cache"), upstreams=urls, upstream_allow=allow
    )


def test_files_of_an_upstream_are_served_and_stored_and_the_client_is_forwarded(tmp_path: Path, files: Files) -> None:
    path = f"/buildid/{files.build_id}/debuginfo"
    with other({path: files.debug.read_bytes()}) as upstream:
        with TestClient(make_app(settings(tmp_path, upstream.url))) as client:
            headers = {"User-Agent": "gdb/13", "X-Forwarded-For": "10.0.0.1, 10.0.0.2"}
            for _ in range(2):
                assert client.get(path, headers=headers).content == files.debug.read_bytes()
        ((asked, told),) = upstream.asked
    assert asked == path
    assert told["user-agent"] == "gdb/13"
    assert told["x-forwarded-for"].startswith("10.0.0.1, 10.0.0.2, ")
    assert (tmp_path / "store" / path[1:]).read_bytes() == files.debug.read_bytes()


def test_what_an_upstream_answers_is_not_parsed_in_this_process(
    tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(*words: object, **named: object) -> object:
        raise AssertionError("parsed in this process")

    for name in ("open", "from_bytes", "__init__"):
        monkeypatch.setattr(ElfFile, name, here)
    path, cut = f"/buildid/{files.build_id}/debuginfo", f"/buildid/{MISSING}/debuginfo"
    answers = {path: files.debug.read_bytes(), cut: files.debug.read_bytes()[:-100]}
    with other(answers) as upstream, TestClient(make_app(settings(tmp_path, upstream.url))) as client:
        assert client.get(path).status_code == 200
        assert client.get(cut).status_code == 404
    assert (tmp_path / "store" / path[1:]).read_bytes() == files.debug.read_bytes()
    assert not (tmp_path / "store" / cut[1:]).exists()


def test_names_come_from_files_of_upstreams(tmp_path: Path, files: Files) -> None:
    path = f"/buildid/{files.build_id}/debuginfo"
    asked = f'{{"build_id": "{files.build_id}", "address": {files.vaddr}}}'
    with (
        other({path: files.debug.read_bytes()}) as upstream,
        TestClient(make_app(settings(tmp_path, upstream.url))) as client,
    ):
        assert '"sum"' in client.post("/symbolize", content=asked).text


def test_source_files_come_from_upstreams_and_a_miss_is_cached(tmp_path: Path, files: Files) -> None:
    path = "/src/a%20b/%C3%A9.c"
    with (
        other({f"/buildid/{MISSING}/source{path}": b"int x;\n"}) as up,
        TestClient(make_app(settings(tmp_path, up.url))) as client,
    ):
        answer = client.get(f"/buildid/{MISSING}/source{path}", headers={"User-Agent": "gdb"})
        assert (answer.status_code, answer.content) == (200, b"int x;\n")
        assert up.asked[0][1]["user-agent"] == "gdb"
        for _ in range(2):
            assert client.get(f"/buildid/{MISSING}/source/none.c").status_code == 404
        assert [each for each, _ in up.asked].count(f"/buildid/{MISSING}/source/none.c") == 1
        assert 'found_sourcerefs_total{source="upstream"} 1.0' in client.get("/metrics").text


def test_concurrent_equal_requests_ask_the_upstream_once(tmp_path: Path, files: Files) -> None:
    path = f"/buildid/{files.build_id}/debuginfo"
    with (
        other({path: files.debug.read_bytes()}) as upstream,
        TestClient(make_app(settings(tmp_path, upstream.url))) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        result = list(pool.map(lambda _: client.get(path).status_code, range(8)))
        missed = list(pool.map(lambda _: client.get(f"/buildid/{MISSING}/debuginfo").status_code, range(8)))
        asked = [path for path, _ in upstream.asked]
    assert result == [200] * 8
    assert missed == [404] * 8
    assert sorted(asked) == sorted([path, f"/buildid/{MISSING}/debuginfo"])


@pytest.mark.parametrize("answer", [b"no ELF", b"", b"\x7fELF" + bytes(100)])
def test_a_response_with_another_file_is_not_stored(tmp_path: Path, files: Files, answer: bytes) -> None:
    path = f"/buildid/{files.build_id}/debuginfo"
    with other({path: answer}) as upstream, TestClient(make_app(settings(tmp_path, upstream.url))) as client:
        assert client.get(path).status_code == 404
    with other({path: files.whole.read_bytes()}) as upstream:
        lie = f"/buildid/{MISSING}/debuginfo"
        upstream.answers[lie] = files.debug.read_bytes()
        with TestClient(make_app(settings(tmp_path, upstream.url))) as client:
            assert client.get(lie).status_code == 404
    assert not list((tmp_path / "store").glob("buildid/*/debuginfo"))


def test_only_allowed_build_ids_are_requested_and_a_miss_is_cached(tmp_path: Path) -> None:
    with other({}) as upstream:
        with TestClient(make_app(settings(tmp_path, upstream.url, allow=("ab*",)))) as client:
            for build_id in ("cd" * 20, MISSING, MISSING, MISSING):
                assert client.get(f"/buildid/{build_id}/debuginfo").status_code == 404
        assert [path for path, _ in upstream.asked] == [f"/buildid/{MISSING}/debuginfo"]


def test_a_dead_upstream_is_paused_and_the_next_is_used(tmp_path: Path, files: Files) -> None:
    path = f"/buildid/{files.build_id}/debuginfo"
    gone = f"http://127.0.0.1:{free_port()}"
    with (
        serving(status(500)) as broken,
        other({path: files.debug.read_bytes()}) as upstream,
        TestClient(make_app(settings(tmp_path, gone, broken.url, upstream.url))) as client,
    ):
        assert client.get(path).status_code == 200
        asked = len(broken.seen)
        assert asked
        assert client.get(f"/buildid/{MISSING}/debuginfo").status_code == 404
        assert len(broken.seen) == asked
    assert len(upstream.asked) == 2


@pytest.fixture(scope="module")
def checked_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program whose debug info has the MD5 of its source, which is gone; `embedded` also has its text."""
    folder = tmp_path_factory.mktemp("checked")
    (folder / "a.c").write_text("int main(void) { return 3; }\n")
    for name, flags in (("embedded", ["-gembed-source"]), ("plain", [])):
        zig = [sys.executable, "-m", "ziglang", "cc", "-g", "-gdwarf-5", *flags, "-Wl,--build-id", "-o", name, "a.c"]
        made = subprocess.run(zig, cwd=folder, capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"zig cannot build: {made.stderr[-200:]}")
    (folder / "a.c").unlink()
    return folder


@pytest.mark.parametrize(
    ("name", "served", "origin"),
    [
        ("embedded", None, "the debug info"),
        ("plain", b"int main(void) { return 3; }\n", "upstream"),
        ("plain", b"int main(void) { return 4; }\n", ""),
        ("plain", None, ""),
    ],
)
def test_sources_in_debug_info_and_of_upstreams_are_checked_by_md5(
    name: str, served: bytes | None, origin: str, checked_program: Path, tmp_path: Path
) -> None:
    program, file = checked_program / name, str(checked_program / "a.c")
    with Store(tmp_path / "store") as store:
        store.add(program)
    with whence.open(program) as binary, ElfFile.open(program) as elf:
        (part,) = binary.find("main")
        offset, build_id = part.vaddr - image_base(tuple(elf.segments)), elf.build_id
    answers = {} if served is None else {f"/buildid/{build_id}/source{file}": served}
    asked = {"debugName": name, "debugId": debug_id(build_id), "moduleOffset": hex(offset), "file": file}
    with (
        other(answers) as up,
        TestClient(make_app(settings(tmp_path, up.url))) as client,
    ):
        answer = client.post("/source/v1", json=asked)
    if origin:
        assert answer.status_code == 200, answer.text
        assert answer.json()["source"] == "int main(void) { return 3; }\n"
        assert (answer.json()["origin"], answer.json()["verified"]) == (origin, True)
    else:
        assert answer.status_code == 404
        assert ("MD5 differs" if served else "no store or upstream has it") in answer.text
