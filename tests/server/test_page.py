"""The web page: its content, escaping, and its behavior in a headless Chromium."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.chromium import CHROMIUM, DESK, PHONE, needs_chromium
from tests.helpers.serving import TestClient, started
from tests.helpers.stores import Files
from whence.server.app import make_app
from whence.server.settings import ServerSettings
from whence.store import Store

HOSTILE = '"><script>alert(1)</script>'


def test_the_page_lists_and_searches_the_store(client: TestClient, files: Files) -> None:
    answer = client.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    assert f"/binary/{files.build_id}" in answer.text
    assert f"/binary/{files.build_id}" in client.get("/", params={"q": files.build_id[:8].upper()}).text
    assert f"/binary/{files.build_id}" not in client.get("/", params={"q": "no such name"}).text


def test_a_binary_s_page_names_an_address_with_the_source_s_lines(client: TestClient, files: Files) -> None:
    text = client.get(f"/binary/{files.build_id}", params={"address": hex(files.vaddr)}).text
    assert "<b>sum</b>" in text
    assert "program.c" in text
    assert 'class="here"' in text
    assert ".text" in text
    assert "not an address" in client.get(f"/binary/{files.build_id}", params={"address": "zz"}).text
    assert client.get(f"/binary/{'ab' * 20}").status_code == 404
    assert client.get("/binary/zz").status_code == 400


def test_a_binary_s_page_lists_its_functions_by_a_part_of_their_names(client: TestClient, files: Files) -> None:
    every = client.get(f"/binary/{files.build_id}").text
    some = client.get(f"/binary/{files.build_id}", params={"function": "SU"}).text
    link = f'<a href="/binary/{files.build_id}?address={files.vaddr:#x}">sum</a>'
    assert link in every
    assert link in some
    assert ">main</a>" in every
    assert ">main</a>" not in some


def test_the_page_of_an_empty_store_shows_the_command_that_adds_files(tmp_path: Path, files: Files) -> None:
    location = tmp_path / "my store"
    with TestClient(make_app(ServerSettings(store=str(location)))) as client:
        text = client.get("/").text
        assert "The store is empty. Add files" in text
        assert f'<pre tabindex="0">whence store add &#x27;{location}&#x27; FILES\n' in text
        assert "\ncurl -T FILE http://testserver/upload/\nexport DEBUGINFOD_URLS=http://testserver/</pre>" in text
        assert "No missing build-ids." in text
        server = client.app.server  # type: ignore[attr-defined]
        server.store.add(files.stripped)
        server.store.missed("ab" * 20, "debuginfod")
        server.listing.forget()
        text = client.get("/").text
        assert "The store is empty" not in text
        assert "Requested but missing, most requested first." in text
        assert f"<code>{'ab' * 20}</code>" in text
        assert "No binary matches." in client.get("/", params={"q": "nothing like it"}).text
        page = f"/binary/{files.build_id}"
        assert "No function matches." in client.get(page, params={"function": "nothing like it"}).text
    with TestClient(make_app(ServerSettings(store=str(location), uploads=False))) as client:
        assert "Uploads are disabled. Add files on the server: <code>whence store add" in client.get("/").text


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_a_binary_is_found_by_the_package_it_came_from(kind: str, files: Files, tmp_path: Path) -> None:
    if kind == "bucket":
        pytest.importorskip("obstore", reason="obstore is not installed")
    location = str(tmp_path / "store") if kind == "folder" else f"memory://{tmp_path.name}"
    with tarfile.open(tmp_path / "tools-debug_1.2.tar", "w") as package:
        package.add(files.debug, "usr/lib/debug/program.debug")
    with TestClient(make_app(ServerSettings(store=location, cache=str(tmp_path / "cache")))) as client:
        client.app.server.store.add(tmp_path / "tools-debug_1.2.tar")  # type: ignore[attr-defined]
        ends = time.monotonic() + 30  # a search answers with what was read so far
        while f"/binary/{files.build_id}" not in client.get("/", params={"q": "Tools-Debug_1"}).text:
            assert time.monotonic() < ends
        assert f"/binary/{files.build_id}" not in client.get("/", params={"q": "tools-debug_2"}).text


def test_browsers_get_refusals_as_pages_and_programs_as_json(client: TestClient) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
    missing = "ab" * 20
    for path in ("/nosuch", f"/binary/{missing}", f"/buildid/{missing}/debuginfo", f"/buildid/{missing}/section/.text"):
        page = client.get(path, headers=browser)
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8"), path
        assert "<h1>Not found</h1>" in page.text
        assert 'href="/"' in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        plain = client.get(path)
        assert (plain.status_code, plain.headers["content-type"]) == (404, "application/json")
    assert client.get("/binary/zz", headers=browser).status_code == 400
    assert client.post("/symbolize", content=b"\n" * 2_000_000, headers=browser).json()["error"]


def test_functions_with_source_lines_are_listed_first(client: TestClient, files: Files) -> None:
    text = client.get(f"/binary/{files.build_id}").text
    assert text.index(">sum</a>") < text.index("_init</a>")


def test_text_of_clients_is_escaped(files: Files, tmp_path: Path) -> None:
    with TestClient(make_app(ServerSettings(store=str(tmp_path / "store")))) as client:
        server = client.app.server  # type: ignore[attr-defined]
        server.store.missed("ab" * 20, HOSTILE, HOSTILE)
        server.store.add(files.whole)
        for path in (
            "/", f"/?q={quote(HOSTILE)}", f"/binary/{files.build_id}?address={quote(HOSTILE)}",
            f"/binary/{files.build_id}?function={quote(HOSTILE)}",
            f"/buildid/{files.build_id}/section/{quote(HOSTILE)}",
        ):  # fmt: skip
            answer = client.get(path)
            if "html" in answer.headers["content-type"]:
                assert "<script>alert" not in answer.text
                assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_page_loads_only_files_of_this_server(client: TestClient) -> None:
    text = client.get("/").text
    for address in re.findall(r'(?:src|href)="([^"]+)"', text):
        assert address.startswith(("/", "data:")), address
        if address.startswith("/static/"):
            assert client.get(address).status_code == 200
    assert client.get("/static/other").status_code == 404


def test_a_file_of_any_build_id_may_be_dropped(files: Files, tmp_path: Path) -> None:
    with TestClient(make_app(ServerSettings(store=str(tmp_path / "store")))) as client:
        answer = client.put("/upload", content=files.debug.read_bytes())
        assert (answer.status_code, answer.json()["build_id"]) == (201, files.build_id)
        named = client.put("/upload", params={"name": "/home/me/to\x1bols"}, content=files.stripped.read_bytes())
        assert named.status_code == 201
        listed = client.get("/").text
        assert "/home" not in listed
        assert "ols" in listed
        assert client.put("/upload", content=b"no ELF").status_code == 422


@needs_chromium
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_a_browser_uploads_names_a_profile_and_writes_no_error(
    files: Files, source: str, tmp_path: Path, size: tuple[int, int]
) -> None:
    from tests.helpers.profiles import program_profile
    from whence.profiles.formats import registry as formats

    profile = tmp_path / "cpu.pb.gz"
    profile.write_bytes(formats.to_bytes(program_profile(files.whole), "pprof", "profile"))
    if not (modules := playwright()):
        pytest.skip("playwright-core is not installed (make page installs it)")
    driver = Path(__file__).parent / "browser.mjs"
    with Store(tmp_path / "store") as store:
        store.add(files.debug, source_folders=[Path(source).parent])
    with started(tmp_path / "store") as url:
        asked = {
            "url": url, "chromium": CHROMIUM, "debug": str(files.whole), "profile": str(profile), "size": size,
            "build_id": files.build_id, "address": hex(files.vaddr), "shots": os.environ.get("WHENCE_SHOTS", ""),
            "modules": modules,
        }  # fmt: skip
        done = subprocess.run(
            ["node", driver, json.dumps(asked)], capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 0, done.stderr[-3000:]
    out = json.loads(done.stdout.splitlines()[-1])
    assert out["errors"] == []
    assert out["elsewhere"] == []
    assert "added" in out["uploaded"]
    assert "addresses named" in out["named"]
    assert "sum" in out["flame"]
    assert "total += twice(i);" in out["source"]
    assert "program.c:7, from the server" in out["note"]
    assert re.search(r"program\.c:10.*imul", out["instructions"])
    assert "sum" in out["chain"]
    assert "sum" in out["functions"]
    assert "main" not in out["functions"]
    assert "sum" in out["again"]
    assert out["wide"] is False
    assert out["violations"] == []


def playwright() -> str:
    """Return the folder of npm's modules; "" if the driver is not installed."""
    folder = Path(__file__).parent.parent.parent / ".cache" / "npm" / "node_modules"
    return str(folder) if (folder / "playwright-core").exists() and (folder / "axe-core").exists() else ""
